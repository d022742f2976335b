"""sampling.zero_out: cohorts of one size, a record emptied. References: all cohorts of small data
sets on a grid, in one dimension and in two; mpmath; the two data sets' laws, composed."""
import itertools
import json
import math

import mpmath as mp
import numpy as np
import pytest

from dp_saddle import (
    ContourAccountant,
    Gaussian,
    PoissonSubsampled,
    dpsgd,
    epsilon,
    fixed_size,
    from_steps,
    report,
    to_steps,
)
from dp_saddle.sampling import FixedSizeZeroOut
from dp_saddle.sampling import zero_out as page

pytestmark = pytest.mark.filterwarnings("ignore:the bounds hold, but are far apart")

SIZES = dict(sigma=.8, batch_size=2, dataset_size=5)
@pytest.fixture
def coarse(monkeypatch):
    "Fewer points, for noise that no other test has: losses are kept."
    monkeypatch.setattr('dp_saddle.sampling.two_level._PER_FALL', 8)

GAMMAS = 1., 1.2, 2., 6., 30.

def cohorts(records, m): return [sum(some) for some in itertools.combinations(records, m)]

def laws(x, record, others, sigma, m):
    "Densities of a noisy sum over a cohort at x, shape (points, dimensions): with it, and emptied."
    def mixed(first):
        sums = cohorts([first, *others], m)
        return np.mean([np.exp(-((x - s)**2).sum(-1)/(2*sigma**2)) for s in sums], axis=0)
    return mixed(record), mixed(0*record)

def profile(P, Q, gamma, cell):
    "H_gamma of two densities at the points of a grid."
    return np.maximum(P - gamma*Q, 0).sum()*cell

@pytest.mark.parametrize('dimensions, points', [(1, 3001), (2, 181)])
def test_no_data_cost_more(dimensions, points):
    "Random data, and the corners, all cohorts, in both directions."
    rng, step = np.random.default_rng(3), FixedSizeZeroOut(**SIZES)
    sigma, m, n = SIZES.values()
    line = np.linspace(-8, 8, points)
    x = np.stack(np.meshgrid(*[line]*dimensions), -1).reshape(-1, dimensions)
    cell = (line[1] - line[0])**dimensions/(sigma*math.sqrt(2*math.pi))**dimensions
    slack = 1 + (line[1] - line[0])**2           # of the sum over a grid
    most = [[loss.delta(math.log(g)) for g in GAMMAS] for loss in (step.remove, step.add)]
    for trial in range(12):
        vectors = rng.normal(size=(n, dimensions))
        vectors /= np.linalg.norm(vectors, axis=1)[:, None]
        if trial % 2: vectors *= rng.random((n, 1))
        P, Q = laws(x, vectors[0], vectors[1:], sigma, m)
        for g, *bounds in zip(GAMMAS, *most, strict=True):
            assert profile(P, Q, g, cell) <= bounds[0]*slack
            assert profile(Q, P, g, cell) <= bounds[1]*slack

def test_the_worst_data_of_each_direction():
    "One against others at -1, one among others at 1: reached, and both above the Poisson pair."
    step, (sigma, m, n) = FixedSizeZeroOut(**SIZES), SIZES.values()
    x = np.linspace(-10, 10, 20_001)[:, None]
    cell = 1e-3/(sigma*math.sqrt(2*math.pi))
    poisson = PoissonSubsampled(Gaussian(sigma=sigma), rate=m/n)
    for g in GAMMAS:
        eps = math.log(g)
        P, Q = laws(x, np.ones(1), -np.ones((n - 1, 1)), sigma, m)
        exact = profile(P, Q, g, cell)
        low, _, up = ContourAccountant(step.remove).delta(eps)
        assert low <= exact*(1 + 1e-6) and exact <= up*(1 + 1e-6) and up - low < 1e-3*exact
        assert g == 1 or exact > 1.05*poisson.remove.delta(eps)
        P, Q = laws(x, np.ones(1), np.ones((n - 1, 1)), sigma, m)
        back = profile(Q, P, g, cell)
        low, _, up = ContourAccountant(step.add).delta(eps)
        assert low <= back*(1 + 1e-6) and back <= up*(1 + 1e-6) and up - low < 1e-3*back

@pytest.mark.parametrize('sigma, q', [(1., .01), (.4, .5), (3., .2)])
def test_curves_by_mpmath(sigma, q):
    "The first pair's two curves, from thresholds found in 40 digits, down to tiny deltas."
    with mp.workdps(40):
        def density(x, weights): return sum(w*mp.npdf(x, c, sigma) for c, w in weights)
        def tail(x, weights):
            return sum(w*mp.erfc((x - c)/(sigma*mp.sqrt(2)))/2 for c, w in weights)
        p = mp.mpf(q)
        P, Q = ((-1, 1 - p), (1, p)), ((-1, 1 - p), (0, p))
        there, (back, end) = page.emptied_curve(sigma, q), page.emptied_back(sigma, q)
        for eps in (.001, .3, 2., 9.):
            g = mp.exp(mp.mpf(eps))
            x = mp.findroot(lambda y, g=g: mp.log(density(y, P)/density(y, Q)/g),
                            (mp.mpf(.5), mp.mpf(40)), solver='anderson', maxsteps=200, verify=False)
            exact = tail(x, P) - g*tail(x, Q)
            assert there(np.array(eps), -1) <= exact <= there(np.array(eps), 1)
            assert there(np.array(eps), 1) <= exact*(1 + mp.mpf(10)**-9)
        eps = .5*end
        g = mp.exp(mp.mpf(eps))
        turn = mp.findroot(lambda y: mp.diff(lambda z: density(z, P)/density(z, Q), y), -.1)
        low, high = (mp.findroot(lambda y: mp.log(density(y, Q)/density(y, P)/g), ends,
                                 solver='anderson', maxsteps=200, verify=False)
                     for ends in ((turn - 30*sigma, turn), (turn, .5)))
        exact = tail(low, Q) - tail(high, Q) - g*(tail(low, P) - tail(high, P))
        assert back(np.array(eps), -1) <= exact <= back(np.array(eps), 1)

def test_two_steps():
    "The first data set twice, and both data sets in turn: between the bounds, and below the upper."
    step, (sigma, m, n) = FixedSizeZeroOut(**SIZES), SIZES.values()
    x = np.linspace(-6, 6, 1201)[:, None]
    cell = 1e-2/(sigma*math.sqrt(2*math.pi))
    pairs = [laws(x, np.ones(1), s*np.ones((n - 1, 1)), sigma, m) for s in (-1, 1)]
    for g in (1.5, 20.):
        low, _, up = ContourAccountant((2*step).remove).delta(math.log(g))
        for second in (0, 1):
            both = [np.multiply.outer(pairs[0][k], pairs[second][k]) for k in (0, 1)]
            exact = profile(*both, g, cell**2)
            assert exact <= up*(1 + 1e-5)
            assert second or low <= exact*(1 + 1e-5)
        assert .9*up < low

def test_it_costs_more_than_a_poisson_sample_and_less_than_other_relations(coarse):
    sizes = dict(sigma=1.0625, batch_size=10, dataset_size=1000)
    runs = [100*fixed_size(relation=relation, **sizes)
            for relation in ('zero-out', 'add-remove', 'replace-one')]
    found = [epsilon(run, delta=1e-5) for run in runs]
    poisson = epsilon(100*PoissonSubsampled(Gaussian(sigma=1.0625), rate=.01), delta=1e-5)
    assert 5*poisson < found[0] < found[1] < found[2]
    all_drawn = FixedSizeZeroOut(sigma=1., batch_size=9, dataset_size=9)
    assert epsilon(3*all_drawn, delta=1e-5) == epsilon(3*Gaussian(sigma=1.), delta=1e-5)
    assert all_drawn.symmetric and not runs[0].symmetric

def test_as_a_run(coarse):
    "By its words: the same, with bounds from both sides, and said in a report and in a file."
    given = dict(sigma=1.4375, batch_size=5, dataset_size=100, steps=20)
    run = dpsgd(**given, sampling='without-replacement', relation='zero-out')
    assert run.relation == 'replacing one record by an empty one'
    up = epsilon(run, delta=1e-5)
    assert .9*up < run.at_least(1e-5) < up
    said = str(report(run, delta=1e-5))
    assert 'zero-out' in said and 'batches of one size, each drawn anew without' in said
    assert 'batches of one size, each drawn anew without' in str(report(run.mechanism, delta=1e-5))
    (step, count), = run.mechanism.as_steps()
    assert from_steps(json.loads(json.dumps(to_steps(run)))) == [(step, count)]

@pytest.mark.parametrize('change, message', [
    (dict(sigma=.02), 'sigma must be larger .* where one record is emptied, got 0.02'),
    (dict(batch_size=6), 'batch_size must be at most dataset_size = 5, got 6'),
    (dict(batch_size=0), 'batch_size must be an integer >= 1'), (dict(sigma=0.), 'sigma must be')])
def test_bad_sizes(change, message):
    with pytest.raises(ValueError, match=message): FixedSizeZeroOut(**SIZES | change)

def test_an_emptied_record_with_replacement():
    with pytest.raises(ValueError, match="got 'zero-out': 'replace-one' holds for it, too"):
        fixed_size(relation='zero-out', replacement=True, **SIZES)

def test_events(coarse):
    "Zero-out neighbours of dp_accounting, which they call REPLACE_SPECIAL."
    accounting = pytest.importorskip('dp_accounting')
    from dp_saddle.interop import SaddlePrivacyAccountant, as_event
    step = FixedSizeZeroOut(sigma=2.0625, batch_size=5, dataset_size=50)
    event = accounting.SampledWithoutReplacementDpEvent(50, 5, accounting.GaussianDpEvent(2.0625))
    assert as_event(step) == event
    special = accounting.NeighboringRelation.REPLACE_SPECIAL
    ours = SaddlePrivacyAccountant(special).compose(event, 10)
    assert ours.get_epsilon(1e-5) == epsilon(10*step, delta=1e-5)
    again = accounting.SampledWithReplacementDpEvent(50, 5, accounting.GaussianDpEvent(2.0625))
    assert not SaddlePrivacyAccountant(special).supports(again)
