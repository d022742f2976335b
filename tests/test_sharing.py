"""Mechanisms, losses and accountants are shared: by threads, pickles, copies and processes."""
import copy
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dp_saddle import (
    AdditiveNoise,
    BallsInBins,
    ContourAccountant,
    ExponentialMechanism,
    FixedSize,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PoissonReplaceOne,
    PoissonSubsampled,
    RandomizedResponse,
    TiltedFFT,
    TruncatedPoisson,
    group,
    selected,
)
from dp_saddle.accounting import best_accountant

pytestmark = pytest.mark.filterwarnings('ignore:the bounds hold')

class Bell:
    "The log-density of logistic noise."
    def __call__(self, x): return -np.abs(x) - 2*np.log1p(np.exp(-np.abs(x)))
    def __eq__(self, other): return type(other) is Bell
    def __hash__(self): return 1

def sampled(sigma, rate): return PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

RUNS = {
    'sampled': 3000*sampled(2., .01), 'two kinds': 10*sampled(1., .1) + 3*Laplace(scale=2.),
    'sampled Laplace': 5*PoissonSubsampled(Laplace(scale=1.), rate=.1),
    'rare steps': 10*sampled(1., 1e-4) + RandomizedResponse(eps=.5),
    'bins': BallsInBins(Gaussian(sigma=2.), batches=10)}
MORE = RUNS | {
    'epochs of bins': 2*BallsInBins(Gaussian(sigma=2.), batches=20),
    "a user's records": group(BallsInBins(Gaussian(sigma=2.), batches=5), 2),
    'cut': 10*TruncatedPoisson(sigma=1., rate=.1, dataset_size=100, max_batch_size=12),
    'of one size': FixedSize(sigma=2., batch_size=5, dataset_size=50),
    'replaced': PoissonReplaceOne(sigma=2., rate=.1),
    'mixture': MixtureOfGaussians(sigma=1., sensitivities=(0., 1.), probabilities=(.5, .5)),
    'by moments': ExponentialMechanism(eps=.5), 'search': selected(10*sampled(2., .01)),
    'own noise': AdditiveNoise(log_density=Bell(), sensitivity=.5, slope=1., log_concave=True,
                               even=True)}

@pytest.fixture
def hasty():
    "Threads take turns as often as they can."
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)

@pytest.mark.parametrize('name, method', [
    ('sampled', ContourAccountant), ('two kinds', ContourAccountant), ('bins', ContourAccountant),
    ('sampled Laplace', ContourAccountant), ('sampled Laplace', TiltedFFT),
    pytest.param('rare steps', ContourAccountant, marks=pytest.mark.slow),
    pytest.param('sampled', TiltedFFT, marks=pytest.mark.slow)])
def test_threads_share_an_accountant(name, method, hasty):
    "Eight of them, each in an order of its own: what one thread would be told, up to its bounds."
    shared, alone = method(RUNS[name]), method(RUNS[name])
    asked = [('epsilon', 1e-2), ('epsilon', 1e-6), ('delta', .1), ('delta', .4), ('delta', 1.)]
    def ask(seed):
        order = np.random.default_rng(seed).permutation(len(asked))
        return {asked[i]: getattr(shared, asked[i][0])(asked[i][1]) for i in order}
    with ThreadPoolExecutor(8) as pool: found = list(pool.map(ask, range(8)))
    for question, x in asked:
        low, _, up = getattr(alone, question)(x)
        for answers in found:
            theirs = answers[question, x]
            assert theirs.lower <= up and low <= theirs.upper <= up + 1e-6*(1 + up)

def unserved(run):
    with pytest.raises(ValueError, match='use ContourAccountant') as error: TiltedFFT(run)
    return str(error.value)

@pytest.mark.parametrize('ask', [
    unserved, lambda run: run.remove.delta(.5), lambda run: ContourAccountant(run).delta(.5)])
def test_threads_share_a_mechanism(ask, hasty):
    "Each builds what it asks: of one that none has asked before it learns what one thread does."
    shared, alone = copy.deepcopy(RUNS['bins']), copy.deepcopy(RUNS['bins'])
    with ThreadPoolExecutor(8) as pool: found = list(pool.map(ask, [shared]*8))
    assert found == 8*[ask(alone)]

def test_threads_share_a_loss(hasty):
    "Its own curve keeps what it has built: eight threads, each with an order of its own."
    shared, alone = (copy.deepcopy(RUNS['bins']).remove for _ in range(2))
    places = [.1, .2, .3, .5, .7, 1., 1.5, 2.]
    def ask(k): return {x: float(shared.delta(x)) for x in places[k:] + places[:k]}
    with ThreadPoolExecutor(8) as pool: found = list(pool.map(ask, range(8)))
    told = {x: float(alone.delta(x)) for x in places}
    for answers in found: assert answers == pytest.approx(told, rel=1e-9)

@pytest.mark.parametrize('name', MORE)
def test_pickles_and_copies(name):
    "Of a mechanism, its losses and its accountant, before a question and after."
    run = MORE[name]
    for _ in range(2):
        accountant = best_accountant(run)
        for copied in (lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy):
            assert copied(run) == run
            again = copied(accountant)
            assert again.epsilon(1e-5) == best_accountant(copied(run)).epsilon(1e-5)
            if name != 'search': copied(run.remove), copied(run.add)
        bounds = accountant.epsilon(1e-5)
        again = pickle.loads(pickle.dumps(accountant)).epsilon(1e-5)
        assert again.upper == pytest.approx(bounds.upper, rel=1e-13)
        copy.deepcopy(accountant)

FORKED = """
import os
from concurrent.futures import ThreadPoolExecutor
from dp_saddle import *
def sampled(sigma): return PoissonSubsampled(Gaussian(sigma=sigma), rate=.01)
accountant = ContourAccountant(500*sampled(1.) + 300*sampled(2.))
with ThreadPoolExecutor(1) as pool:
    asked = pool.submit(lambda: [accountant.delta(.01*k) for k in range(40)])
    child = os.fork()
    if not child:
        found = MomentsAccountant(Gaussian(sigma=1.)).epsilon(.1).upper > 0
        os._exit(0 if found else 1)
    assert os.waitpid(child, 0)[1] == 0 and len(asked.result()) == 40
"""

FORKED_BETWEEN = """
import os
from threading import Event, Thread
from dp_saddle import *
begun, over = Event(), Event()
class Slow(Gaussian):
    def loss_of(self, direction):
        begun.set()
        over.wait()
        return super().loss_of(direction)
thread = Thread(target=lambda: Slow(sigma=1.).remove)
thread.start()
begun.wait()
child = os.fork()
if not child:
    os._exit(0 if Laplace(scale=1.).remove.ess_sup == 1 else 1)
over.set()
assert os.waitpid(child, 0)[1] == 0
"""

@pytest.mark.skipif(not hasattr(os, 'fork'), reason='this system cannot fork')
@pytest.mark.parametrize('program', [FORKED, FORKED_BETWEEN], ids=['asking', 'computing'])
def test_a_process_that_is_forked_while_threads_work(program):
    """It is not left waiting for a thread that it does not have. (In a process of its own: where
    JAX has been imported, it warns of any fork.)"""
    subprocess.run([sys.executable, '-c', program], check=True, timeout=60)
