"""The ends of the curve, and no noise: delta = 0, eps = inf, sigma = 0 and a sigma that is nearly 0
say the same at every door. References: sums of largest losses, and masses, in closed form."""
import io
import json
import math
import warnings
from contextlib import redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest

import dp_saddle
from dp_saddle import (
    AdditiveNoise,
    ApproxDP,
    Budget,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GDPFilter,
    GDPOdometer,
    GDPResidueFilter,
    Geometric,
    IndividualAccountant,
    IndividualGDPFilter,
    Laplace,
    Logarithmic,
    Poisson,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    RDPFilter,
    RDPOdometer,
    SaddlePointMSD,
    SelectionAccountant,
    audit,
    calibrate,
    compare,
    compare_sampling,
    delta,
    dpsgd,
    epsilon,
    epsilon_after,
    epsilon_slopes,
    explain,
    gdp,
    individual_epsilon,
    optimal_schedule,
    report,
    response_lower_bound,
    selected,
    shuffled_lower_bound,
    sweep,
    to_steps,
)
from dp_saddle.accounting import ACCOUNTANTS, best_accountant
from dp_saddle.command.main import main
from dp_saddle.interop import FlowerAccountant, JointAccountant
from dp_saddle.steps import exponential_epsilon

inf = math.inf

def S(base, rate): return PoissonSubsampled(base, rate=rate)

def nearly(found, exact):
    "Proved from above, and no more above than rounding."
    assert exact <= found <= exact*(1 + 1e-12), (found, exact)

# what a run of each kind costs at delta = 0
PURE = {
    'guarantees': (3*PureDP(eps=.5), 1.5),
    'Laplace': (2*Laplace(scale=4., sensitivity=2.) + PureDP(eps=.25), 1.25),
    'sampled Laplace': (5*S(Laplace(scale=2.), .1), 5*math.log(1 + .1*math.expm1(.5))),
    'integers': (4*DiscreteLaplace(scale=8., sensitivity=3), 4*3/8),
    'a table': (2*Discrete(p=(.25, .75), q=(.5, .5)), 2*math.log(2)),
    'choices': (2*ExponentialMechanism(eps=.5), 1.),
    'nothing': (0*Gaussian(sigma=1.), 0.),
    'Gaussian': (Gaussian(sigma=5.), inf),
    'sampled Gaussian': (9*S(Gaussian(sigma=5.), .1) + PureDP(eps=1.), inf),
    'Gaussian integers': (DiscreteGaussian(sigma=5.), inf),
    'sampled integers': (2*S(DiscreteGaussian(sigma=5.), .1), inf),
    'mass': (ApproxDP(eps=1., delta=1e-9), inf),
}

@pytest.mark.parametrize('run, exact', PURE.values(), ids=PURE)
def test_delta_0(run, exact):
    nearly(epsilon(run, delta=0), exact)
    below = best_accountant(run).epsilon([0., .25])
    assert below.lower[0] <= exact and below.upper[0] == epsilon(run, delta=0.)
    assert below.upper[1] == best_accountant(run).epsilon(np.array([.25])).upper

def test_noise_of_ones_own():
    "Of a logistic density, whose logarithm has slopes up to 1; without that, and of a normal one."
    def logistic(x): return -np.abs(x) - 2*np.log1p(np.exp(-np.abs(x)))
    said = dict(log_density=logistic, sensitivity=.25, log_concave=True, mesh=.01)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')                            # the two laws are .003 apart
        found = ContourAccountant(2*AdditiveNoise(**said, slope=1.)).epsilon(0)
    assert found.lower <= .5 <= found.upper < .5*(1 + 1e-7)
    assert epsilon(AdditiveNoise(**said), delta=0) == inf
    unsaid = AdditiveNoise(log_density=lambda x: -x*x/2 - math.log(2*math.pi)/2, sensitivity=.25)
    assert SaddlePointMSD(unsaid).epsilon(0).upper == inf      # its values end, its losses do not

@pytest.mark.parametrize('name', ACCOUNTANTS)
def test_accountants(name):
    "Whatever the method, the ends are the same."
    method = getattr(dp_saddle, name)
    if name != 'FourierAccountant':                               # which is for Gaussian steps
        pure, _ = PURE['sampled Laplace']
        assert method(pure).epsilon(0) == ContourAccountant(pure).epsilon(0)
        assert tuple(method(pure).delta(inf)) == (0, 0, 0)
    assert tuple(method(3*S(Gaussian(sigma=2.), .1)).epsilon(0.)) == (inf, inf, inf)

MASS = {
    'guarantees': (3*PureDP(eps=.5), 0.), 'Gaussian': (4*Gaussian(sigma=1.), 0.),
    'masses': (2*ApproxDP(eps=1., delta=.25) + Laplace(scale=2.), 1 - .75**2),
    'sampled mass': (2*S(ApproxDP(eps=1., delta=.25), .5), 1 - .875**2),
    'a table': (Discrete(p=(.5, .5), q=(0., 1.)), .5),
    'no privacy': (ApproxDP(eps=0., delta=1.) + Gaussian(sigma=1.), 1.),
}

@pytest.mark.parametrize('run, exact', MASS.values(), ids=MASS)
def test_eps_inf(run, exact):
    found = ContourAccountant(run).delta(inf)
    assert found.lower <= exact <= found.upper == delta(run, eps=inf) <= exact*(1 + 1e-11)
    at = ContourAccountant(run).delta([1., inf])
    assert at.upper[1] == found.upper <= at.upper[0]*(1 + 1e-11)

def cli(*words):
    out = io.StringIO()
    with redirect_stdout(out): status = main([*map(str, words), '--json'])
    assert status == 0
    return json.loads(out.getvalue())

def saved(run, path):
    path.write_text(json.dumps(to_steps(run)))
    return path

DOORS = 'guarantees', 'Laplace', 'integers', 'Gaussian', 'mass'

@pytest.mark.parametrize('run, exact', [PURE[name] for name in DOORS], ids=DOORS)
def test_doors(run, exact, tmp_path):
    "One number, wherever a delta is asked."
    eps, file = epsilon(run, delta=0), saved(run, tmp_path/'run.json')
    row, = cli('epsilon', '--run', file, '--delta', 0)['results']
    assert row['upper'] == (None if exact == inf else eps)          # JSON knows no inf
    row, = compare(run, delta=0, methods=['ContourAccountant'])
    assert float(row['upper']) == pytest.approx(eps, rel=1e-9)
    row = cli('compare', '--run', file, '--delta', 0)['results'][0]
    assert row['upper'] == pytest.approx(eps, rel=1e-9) or exact == inf and row['upper'] is None
    nearly(epsilon_after(run, delta=0)[-1], exact)
    book = Budget(eps=4., delta=0)
    assert book.would_exceed(run) == (exact == inf)
    if exact < inf:
        book.spend(run)
        assert book.spent == eps and book.would_exceed(run, 10)
        assert json.loads(report(run, delta=0, form='json'))['epsilon'] == eps
        assert audit(run, np.ones(20), np.zeros(20), delta=0.).eps_upper == eps
    else:
        with pytest.raises(ValueError, match='delta must be larger'): report(run, delta=0)

@pytest.mark.parametrize('run, exact', [MASS['masses'], MASS['Gaussian']], ids=['masses', 'none'])
def test_doors_at_eps_inf(run, exact, tmp_path):
    file = saved(run, tmp_path/'run.json')
    row, = cli('delta', '--run', file, '--eps', 'inf')['results']
    assert row['upper'] == delta(run, eps=inf)
    row, = compare(run, eps=inf, methods=['TiltedFFT'])
    assert float(row['upper']) == pytest.approx(exact, rel=1e-9)

def test_pure_budget_of_many_kinds(tmp_path):
    "More than are merged otherwise: the sum of all that was paid, in a file too."
    kinds, book = [PureDP(eps=k/1024) for k in range(1, 41)], Budget(eps=1., delta=0)
    for kind in kinds: book.spend(kind)
    nearly(book.spent, 40*41/2/1024)
    assert not book.would_exceed(PureDP(eps=.19)) and book.would_exceed(PureDP(eps=.2))
    book.save(tmp_path/'book.json')
    assert Budget(eps=1., delta=0).load(tmp_path/'book.json').spent == book.spent
    nearly(epsilon_after(kinds, delta=0)[24], 25*26/2/1024)

def test_calibrate_to_pure():
    "The scale, the tries and the steps of a sum of largest losses, in closed form."
    scale = calibrate(lambda scale: 4*Laplace(scale=scale), eps=2., delta=0, parameter='scale')
    assert 2*(1 - 1e-6) < 4/scale <= 2
    sampled = calibrate(lambda scale: 9*S(Laplace(scale=scale), .1), eps=2., delta=0,
                        parameter='scale')
    assert 2*(1 - 2e-6) < 9*math.log1p(.1*math.expm1(1/sampled)) <= 2
    steps = calibrate(lambda steps: steps*PureDP(eps=.3), eps=2., delta=0, parameter='steps')
    assert steps == 6
    rate = calibrate(lambda rate: 8*S(PureDP(eps=1.), rate), eps=2., delta=0, parameter='rate')
    assert rate == pytest.approx(math.expm1(.25)/math.expm1(1), rel=2e-6)
    with pytest.raises(ValueError, match='delta must be > 0 for a run whose losses'):
        calibrate(lambda sigma: Gaussian(sigma=sigma), eps=1., delta=0)
    with pytest.raises(ValueError, match='delta must be > 0 for a run whose losses'):
        optimal_schedule((1, 2), eps=3., delta=0, rate=1., steps=3)
    with pytest.raises(ValueError, match='scale cannot be found'):
        calibrate(lambda scale: Laplace(scale=scale) + PureDP(eps=1.), eps=.5, delta=0,
                  parameter='scale')

def test_sweep_and_runs():
    given = dict(sigma=2., batch_size=10, dataset_size=100, epochs=1)
    eps = sweep(sigma=[1., 2.], rate=.1, steps=3, delta=[0, 1e-5])['epsilon']
    assert (eps == inf).tolist() == [True, False, True, False]
    for sampling in ('poisson', 'shuffle', 'none', 'balls-in-bins'):
        run = dpsgd(**given, sampling=sampling)
        assert epsilon(run, delta=0) == inf and delta(run, eps=inf) == 0
        assert run.at_least(0.) in (0., inf)

@pytest.mark.parametrize('tries, times', [
    (Geometric(mean=5.), 3), (Logarithmic(mean=5.), 2),
    (Poisson(mean=5.), 1 + 5*math.tanh(.25)/.5)], ids=['geometric', 'logarithmic', 'Poisson'])
def test_searches(tries, times):
    "(2 + shape) times; of a Poisson number, by tanh(eps/2), which delta(0) of a pure step is."
    search = selected(PureDP(eps=.5), tries=tries)
    for run, exact in ((search, .5*times), (2*search + Laplace(scale=4.), times + .25)):
        assert exact <= epsilon(run, delta=0) <= exact*(1 + 1e-9)
        assert epsilon(run, delta=1e-30) <= epsilon(run, delta=0)*(1 + 1e-9)
    assert epsilon(selected(Gaussian(sigma=1.), tries=tries), delta=0) == inf
    assert delta(search, eps=inf) < 1e-100

def test_best_of_two_is_below():
    "Two tries of a pure answer, the better one: enumerated, below what a search costs."
    p = np.array([math.e**.5, 1])/(1 + math.e**.5)
    law = Geometric(mean=2.)
    def best(q):                     # P[the best of K is 1], K geometric of mean 2
        none = sum(.5**k*(1 - q)**k for k in range(1, 200))
        return np.array([1 - none, none])
    losses = np.log(best(p[0])/best(p[1]))
    assert np.abs(losses).max() <= epsilon(selected(RandomizedResponse(eps=.5), tries=law), delta=0)

# ---------------- what has no run, or asks for more than eps

def test_filters_and_odometers():
    "The promise of a filter is Gaussian or of one order: nothing finite at 0; before a step, 0."
    for one in (GDPFilter(budget=1.), IndividualGDPFilter(budget=1., n=3),
                RDPFilter(order=4., budget=1.), GDPResidueFilter(budget=1.)):
        assert one.epsilon(0) == inf > one.epsilon(1e-300)
    for one in (GDPFilter(budget=1.), RDPFilter(order=4., budget=1.)):
        assert (np.isinf(one.epsilon([0, 1e-5])) == [True, False]).all()
    for one in (GDPOdometer(increment=.5), RDPOdometer(order=4., increment=.5)):
        assert one.epsilon(0) == 0
        one.step(.1)
        assert one.epsilon(0) == inf > one.epsilon(1e-5) > 0
    many = RDPOdometer(order=4., increment=.5, n=2)
    many.step(np.array([0., .1]))
    assert (many.epsilon(0) == [0, inf]).all()

@pytest.mark.parametrize('rate', [.1, 1.])
def test_records(rate):
    "Who took part has spent inf at 0, and no mass at inf; who did not, nothing."
    account = IndividualAccountant(sigma=1., clip=1., rate=rate, sigma_grid=8)
    account.step(np.array([0., .5, 1.]))
    for engine in ('contour', 'rdp', 'fourier'):
        for side in account.epsilon(0, engine=engine)[:3]: assert (side == [0, inf, inf]).all()
    assert account.epsilon(0, records=[0]).upper == 0 and not account.delta(inf).upper.any()
    norms = np.array([[0., 0.], [0., 1.]])
    found = individual_epsilon(norms, delta=0, sigma=1., clip=1., rate=rate, sigma_grid=8)
    assert (found.upper == [0, inf]).all() and (found.lower == [0, inf]).all()
    with pytest.raises(ValueError, match='delta must be in .*: a curve is covered down to'):
        account.mu(0)

@pytest.mark.parametrize('run, exact', [PURE[name] for name in DOORS], ids=DOORS)
def test_explained(run, exact):
    said = explain(run, delta=0)
    nearly(said.bounds.upper, exact)
    assert str(said).endswith('the largest losses of all steps, added up: no way is asked')
    assert 'mass of infinite losses' in str(explain(run, eps=inf))

REASONS = {
    'epsilon_slopes': lambda: epsilon_slopes(PureDP(eps=1.), delta=0),
    'gdp': lambda: gdp(PureDP(eps=1.), delta=0),
    'compare_sampling': lambda: compare_sampling(sigma=2., batch_size=10, dataset_size=100,
                                                 epochs=1, delta=0)}

@pytest.mark.parametrize('call', REASONS.values(), ids=REASONS)
def test_why_there_is_no_answer(call):
    with pytest.raises(ValueError, match=r'delta must be in \(0, 1\), got 0: [a-zA-Z ]{9,}'): call()

def test_bounds_of_their_own():
    "Reports that are all one answer; exponential mechanisms that lose all; a shuffle."
    assert response_lower_bound(eps0=1.5, n=100, delta=0) == 1.5
    assert exponential_epsilon(eps=.3, steps=7, delta=0) == pytest.approx(2.1, rel=1e-15)
    assert exponential_epsilon(eps=.3, steps=7, delta=1e-300) <= 2.1*(1 + 1e-12)
    assert shuffled_lower_bound(1., delta=0, batches=3, epochs=1) == inf
    assert shuffled_lower_bound(1., delta=0, batches=3, epochs=0) == 0
    search = SelectionAccountant(selected(PureDP(eps=.5), tries=Geometric(mean=3.)))
    with pytest.raises(ValueError, match='delta must be in'): search.by_renyi(delta=0)

def test_books_of_other_libraries():
    "Flower's are of Gaussians; pfl's cohorts may have Laplace noise alone, of several kinds too."
    config = SimpleNamespace(target_delta=1e-5, population_size=200, sampling_method='poisson',
                             neighboring_relation='add-or-remove-one', max_epsilon=None)
    book = FlowerAccountant(config)
    assert book.get_epsilon(0) == 0
    book.compose(SimpleNamespace(noise_multiplier=2., sample_size=20, population_size=200))
    assert book.get_epsilon(0) == inf == book.get_privacy_spent(0).epsilon
    assert book.get_delta(inf) == 0
    for noises in ([3.], [3., 5.]):
        said = dict(num_compositions=10, sampling_probability=.05, noise_parameters=noises,
                    mechanisms=['laplace']*len(noises))
        exact = 10*math.log1p(.05*math.expm1(sum(1/b for b in noises)))
        found = JointAccountant(**said, delta=0)
        assert exact*(1 - 1e-12) <= found.epsilon <= exact*(1 + 1e-9)
    said['mechanisms'] = ['laplace', 'gaussian']
    assert JointAccountant(**said, delta=0).epsilon == inf
    noise, = JointAccountant(num_compositions=10, sampling_probability=.05, mechanisms=['laplace'],
                             budget_proportions=[1.], epsilon=1., delta=0).noise_parameters
    assert 10*math.log1p(.05*math.expm1(1/noise)) == pytest.approx(1, rel=1e-4)

# ---------------- noise

TINY = [.01, 1e-3]

@pytest.mark.parametrize('sigma', TINY)
def test_tiny_noise(sigma):
    "What is charged is what the steps cost without sampling, at every door; and it is said."
    steps, rate, whole = 3, .1, epsilon(3*Gaussian(sigma=sigma), delta=1e-5)
    run = dpsgd(sigma=sigma, batch_size=10, dataset_size=100, steps=steps, sampling='poisson')
    with pytest.warns(UserWarning, match='upper bound only'): eps = epsilon(run, delta=1e-5)
    assert eps == pytest.approx(whole, rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        words = '--sigma', sigma, '--rate', rate, '--steps', steps
        row, = cli('epsilon', *words, '--delta', 1e-5)['results']
        assert row['lower'] == 0 and row['upper'] == eps
        assert ContourAccountant(run.mechanism).delta(1.) == (0, pytest.approx(1/3), 1)
        book = Budget(eps=2*eps, delta=1e-5)
        book.spend(run)
        assert book.spent == eps
    assert epsilon(S(Gaussian(sigma=sigma), rate), delta=.2) == 0    # one step has its own curve

NO_NOISE = {
    'Gaussian': lambda: Gaussian(sigma=0.), 'a Laplace': lambda: Laplace(scale=0),
    'integers': lambda: DiscreteGaussian(sigma=0), 'dpsgd': lambda: dpsgd(
        sigma=0, batch_size=1, dataset_size=9, steps=1, sampling='poisson'),
    'a file': lambda: dp_saddle.from_steps([{'mechanism': 'Gaussian', 'sigma': 0}]),
    'sweep': lambda: sweep(sigma=[1., 0.], rate=.1, steps=3, delta=1e-5)}

@pytest.mark.parametrize('make', NO_NOISE.values(), ids=NO_NOISE)
def test_no_noise_is_no_step(make):
    with pytest.raises(ValueError, match=r'(sigma|scale)\D* must be in .0, .*, got 0'): make()

def test_no_noise_on_the_command_line(capsys):
    words = 'epsilon --sigma 0 --rate .1 --steps 3 --delta 1e-5'
    with pytest.raises(SystemExit): main(words.split())
    assert 'sigma must be in (0, inf), got 0' in capsys.readouterr().err

def test_what_had_no_noise():
    "A step of which it is told afterwards is (0, 1)-private: eps is infinite at each delta."
    bare = 3*PureDP(eps=1.) + ApproxDP(eps=0., delta=1.)
    for d in (0., 1e-5, .999): assert epsilon(bare, delta=d) == inf
    for e in (0., 5., inf): assert delta(bare, eps=e) == 1
    assert to_steps(bare)[1] == dict(mechanism='ApproxDP', eps=0., delta=1., count=1)

def test_adapters():
    "Of others' records, the same ends."
    events = pytest.importorskip('dp_accounting.dp_event')
    from dp_saddle.interop import SaddlePrivacyAccountant
    def of(*noises):
        return SaddlePrivacyAccountant().compose(events.ComposedDpEvent(list(noises)))
    integers = events.DiscreteLaplaceDpEvent(.125, 4)
    nearly(of(events.LaplaceDpEvent(4.), integers).get_epsilon(0), .75)
    for noise in (events.ZCDpEvent(.1), events.GaussianDpEvent(1.)):
        assert of(integers, noise).get_epsilon(0) == inf and of(noise).get_delta(inf) == 0
    for noise in (events.GaussianDpEvent(0.), events.NonPrivateDpEvent()):
        assert of(noise).get_epsilon(.5) == inf and of(noise).get_delta(9.) == 1

def test_adapters_of_tiny_noise():
    events = pytest.importorskip('dp_accounting.dp_event')
    from dp_saddle.interop import SaddlePrivacyAccountant
    sampled = events.PoissonSampledDpEvent(.1, events.GaussianDpEvent(1e-3))
    ours = SaddlePrivacyAccountant().compose(events.SelfComposedDpEvent(sampled, 3))
    with pytest.warns(UserWarning, match='upper bound only'):
        assert ours.get_epsilon(1e-5) == epsilon(3*S(Gaussian(sigma=1e-3), .1), delta=1e-5)
