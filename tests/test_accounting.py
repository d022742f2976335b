"Chapter 10, the front door: what users of other libraries report, the run, all accountants."
import pickle
import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.special import expit

from dp_saddle import (
    ApproxDP,
    Budget,
    ContourAccountant,
    Discrete,
    EdgeworthInterval,
    Gaussian,
    GaussianLimit,
    Laplace,
    MomentsAccountant,
    PoissonSubsampled,
    PRVAccountant,
    RandomizedResponse,
    SaddlePointCLT,
    TiltedFFT,
    advantage,
    compare,
    delta,
    dpsgd,
    epsilon,
    epsilon_after,
    report,
    to_steps,
    without_replacement,
)
from dp_saddle.accounting import best_accountant, mechanism_of
from dp_saddle.plrv import gaussian_log_delta

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes')

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

# What users of other libraries report

def test_small_noise():
    assert 4916 < epsilon(100*S(.05, .1), delta=1e-5) < 4917

def test_tiny_deltas():
    run = 3000*S(2., .01)
    eps = epsilon(run, delta=np.array([1e-14, 1e-100]))
    assert eps == pytest.approx([2.232674272, 8.088407653], abs=1e-8)
    assert delta(run, eps=eps) == pytest.approx([1e-14, 1e-100], rel=1e-6)

def test_eps_is_never_negative():
    assert epsilon(Gaussian(sigma=1e6), delta=.1) == 0
    assert epsilon(10*S(50., 1e-4), delta=.01) == 0

def test_a_rate_of_1e_6_for_a_million_steps():
    assert .005 < epsilon(10**6*S(1., 1e-6), delta=1e-8) <= .0055

def test_nothing_done_costs_nothing():
    nothing = 0*Gaussian(sigma=1.)
    run = dpsgd(sigma=1., batch_size=1, dataset_size=10, steps=0, sampling='poisson')
    assert epsilon(nothing, delta=1e-5) == 0 == epsilon(run, delta=1e-5)
    assert advantage(nothing) == 0 == Budget(1., 1e-5).spent
    assert epsilon_after([], delta=1e-5).shape == (0,)

def test_ten_million_steps():
    e = epsilon(10**7*S(20., 1e-3), delta=1e-6)
    assert .5 < e < 1.5
    assert epsilon(np.int64(10**7)*S(20., 1e-3), delta=1e-6) == e

@pytest.mark.slow
def test_a_hundred_distinct_noises():
    run = sum(10*S(s, .01) for s in np.linspace(1, 3, 100))
    last = epsilon_after(run, delta=1e-6)[-1]
    assert epsilon(run, delta=1e-6) == pytest.approx(last, rel=1e-3)

# Where delta is the mass at infinity

METHODS = dict(
    contour=ContourAccountant, clt=SaddlePointCLT, moments=MomentsAccountant, limit=GaussianLimit,
    prv=PRVAccountant, tilted=lambda m: TiltedFFT(m, mesh=1e-3), edgeworth=EdgeworthInterval)
each_method = pytest.mark.parametrize('name', METHODS)

@each_method
@pytest.mark.parametrize('d', [.1, .3, 1e-5, 1e-6, 1e-300])
def test_delta_at_the_mass_at_infinity(name, d):
    "eps jumps there. Of one (eps, delta)-DP step that mass is what was typed."
    a = METHODS[name](ApproxDP(eps=1., delta=d))
    for asked in (d, np.nextafter(d, 1), d*(1 + 1e-13)):
        bounds = a.epsilon(asked)
        assert bounds.lower <= 1 == bounds.upper == bounds.estimate
    assert a.epsilon(np.nextafter(d, 0)).upper == np.inf
    below = a.epsilon(d*(1 - 1e-11))
    assert below.upper == np.inf == below.estimate

@each_method
def test_delta_at_a_small_and_a_large_mass_at_infinity(name):
    small = METHODS[name](ApproxDP(eps=.5, delta=1e-5)).epsilon(1e-5)
    assert small.lower <= .5 == small.upper == small.estimate
    certain = METHODS[name](ApproxDP(eps=.5, delta=1 - 1e-12)).epsilon(1 - 1e-12)
    assert certain.lower <= .5 == certain.upper

@each_method
def test_delta_at_the_mass_at_infinity_of_several_steps(name):
    "It is known to a rounding, and both sides of the jump are possible."
    two = METHODS[name](2*ApproxDP(eps=1., delta=.1))
    for asked in (.19, 1 - .9**2, np.nextafter(.19, 1)):
        assert two.epsilon(asked).lower <= 2
        assert two.epsilon(asked)[1:] == (2, np.inf)
    assert two.epsilon(.19*(1 + 1e-11)).lower <= 2
    assert METHODS[name](Discrete(p=(.1, .9), q=(0., 1.))).epsilon(.1).lower == 0
    many = METHODS[name](10**4*ApproxDP(eps=1., delta=.9))
    assert many.epsilon(1 - 1e-15)[1:] == (np.inf, np.inf)
    mixed = METHODS[name](10*Gaussian(sigma=5.) + ApproxDP(eps=0., delta=1e-6))
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', 'the bounds hold')
        bounds = mixed.epsilon([1e-6*(1 - 1e-14), 1e-6, 1e-6*(1 + 1e-11)])
    assert bounds.lower[1] <= bounds.estimate[1] == np.inf
    assert bounds.lower[2] <= 5.372957336249 <= bounds.upper[2]      # mpmath, 40 digits

NEARLY_CONSTANT = {
    'one response': RandomizedResponse(eps=855.),
    'two responses': 2*RandomizedResponse(eps=5e4),
    'hardly sampled': S(807., 1e-240),
    'hardly sampled, Laplace': PoissonSubsampled(base=Laplace(scale=11.), rate=1e-190),
    'usual': 1000*S(2., .01),
}

@cache
def contour_epsilon(run, d):
    "The truth, once for all methods."
    return ContourAccountant(run).epsilon(d)

@pytest.mark.parametrize('name, run', [
    pytest.param(name, run, id=f'{of}-{name}',
                 marks=pytest.mark.slow if (of, name) == ('two responses', 'prv') else ())
    for name in METHODS for of, run in NEARLY_CONSTANT.items()])
def test_the_smallest_delta(name, run):
    "5e-324, of losses that are next to constant: an answer, or an error that says what to change."
    build = cache(METHODS[name])
    for d in (5e-324, 1e-310, 1e-300):
        try:
            bounds = build(run).epsilon(d)
        except ValueError as error:
            assert 'must be' in str(error) and name in ('prv', 'tilted')
            continue
        truth = contour_epsilon(run, d)
        assert bounds.lower <= bounds.estimate <= bounds.upper
        assert bounds.lower <= truth.upper and truth.lower <= bounds.upper

def test_the_contour_is_sharp_at_the_mass_at_infinity():
    assert ContourAccountant(ApproxDP(eps=1., delta=1e-5)).epsilon(1e-5).lower > 1 - 1e-9
    assert epsilon(ApproxDP(eps=1., delta=1e-6), delta=1e-6) == 1
    assert not Budget(1., 1e-6).would_exceed(ApproxDP(eps=1., delta=1e-6))
    assert Budget(1., 1e-6).would_exceed(ApproxDP(eps=1., delta=1.1e-6))
    two = ContourAccountant(2*ApproxDP(eps=1., delta=.1))
    assert two.epsilon(.19).lower > 2 - 1e-7
    just_below_2 = 2 - 3e-12*.19/(.81*expit(1)**2)
    assert just_below_2 - 1e-13 < two.epsilon(.19*(1 + 3e-12)).upper < 2 + 1e-13
    mixed = ContourAccountant(10*Gaussian(sigma=5.) + ApproxDP(eps=0., delta=1e-6))
    with pytest.warns(UserWarning, match='the bounds hold'):      # inf is possible too
        assert mixed.epsilon(1e-6).lower > 5.4

# The run

def test_dpsgd_derives_and_echoes():
    given = dict(sigma=1.1, dataset_size=60_000, epochs=60, sampling='poisson')
    run = dpsgd(batch_size=256, **given)
    assert (run.steps, run.rate) == (14063, 256/60_000)
    assert '14063 steps' in str(run) and 'poisson' in str(run) and run.poisson is None
    assert epsilon(run, delta=1e-5) == epsilon(14063*S(1.1, 256/60_000), delta=1e-5)
    more = dpsgd(batch_size=64, accumulate=4, **given)
    assert (more.steps, more.rate) == (run.steps, run.rate)
    short = dpsgd(sigma=1., batch_size=50, dataset_size=100, epochs=3, sampling='poisson')
    assert short.steps == 6

def test_what_is_accounted_and_by_whom():
    run = dpsgd(sigma=1., batch_size=1, dataset_size=50, steps=3, sampling='without-replacement')
    assert mechanism_of(run) is run.mechanism and mechanism_of(run.mechanism) is run.mechanism
    assert isinstance(best_accountant(run), TiltedFFT)
    assert isinstance(best_accountant(3*S(1., .1)), ContourAccountant)

def test_shuffling_has_no_amplification():
    given = dict(sigma=1.1, batch_size=256, dataset_size=60_000)
    run = dpsgd(**given, epochs=2.5, sampling='shuffle')
    eps = epsilon(run, delta=1e-5)
    assert eps == epsilon(3*Gaussian(sigma=1.1), delta=1e-5) > epsilon(run.poisson, delta=1e-5)
    assert 'no amplification' in str(run) and 'this is no guarantee' in report(run, delta=1e-5)
    none = dpsgd(**given, steps=7, sampling='none')
    assert epsilon(none, delta=1e-5) == epsilon(7*Gaussian(sigma=1.1), delta=1e-5)

@pytest.mark.parametrize('sigma, rate, steps', [(1., .02, 1), (2., .02, 100), (4., .3, 20)])
def test_without_replacement_is_above_what_any_pair_shows(sigma, rate, steps):
    "Closely above the curve of one step; above the pair of [FA 6.2]; below no amplification."
    given = dict(sigma=sigma, batch_size=round(rate*1000), dataset_size=1000)
    run = dpsgd(**given, steps=steps, sampling='without-replacement')
    one = dpsgd(**given, steps=1, sampling='without-replacement')
    e = np.linspace(0, 2, 21)
    curve = rate*np.exp(gaussian_log_delta(np.log1p(np.expm1(e)/rate), 2/sigma))
    assert (delta(one, eps=e) >= curve*(1 - 1e-12)).all()
    assert delta(one, eps=e) == pytest.approx(curve, rel=.02, abs=1e-15)
    pair = PRVAccountant(without_replacement(sigma=sigma, rate=rate, steps=steps))
    full = steps*Gaussian(sigma=sigma, sensitivity=2.)
    for d in (1e-3, 1e-6):
        assert pair.epsilon(d).lower <= epsilon(run, delta=d) <= epsilon(full, delta=d)
    assert run.relation == 'replacing one record'

DPSGD = dict(sigma=1., batch_size=10, dataset_size=100, epochs=1, sampling='poisson')

@pytest.mark.parametrize('change, message', [
    (dict(sigma=0), 'sigma must'),
    (dict(batch_size=0), 'batch_size must'),
    (dict(batch_size=2.5), 'batch_size must'),
    (dict(batch_size=200), r'batch_size\*accumulate must be at most dataset_size = 100, got 200'),
    (dict(accumulate=11), 'got 110'),
    (dict(epochs=None), 'either epochs or steps'),
    (dict(steps=3), 'either epochs or steps'),
    (dict(epochs=-1), 'epochs must'),
    (dict(epochs=None, steps=-1), 'steps must'),
    (dict(epochs=None, steps=1.5), 'steps must'),
    (dict(sampling='Poison'), 'sampling must'),
    (dict(sampling=None), 'sampling must'),
])
def test_dpsgd_refuses(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dpsgd(**(DPSGD | change))

def test_sampling_has_no_default():
    with pytest.raises(ValueError, match="sampling must be 'poisson' or .*'shuffle' or .*got None"):
        dpsgd(sigma=1., batch_size=10, dataset_size=100, epochs=1)

def test_shuffled_batches_of_a_loader_that_drops_the_last():
    small = dpsgd(sigma=2., batch_size=600, dataset_size=1000, steps=5, sampling='shuffle')
    assert small.mechanism == 5*Gaussian(sigma=2.)
    large = dpsgd(sigma=2., batch_size=256, dataset_size=60_000, steps=14_041, sampling='shuffle')
    assert large.mechanism == 61*Gaussian(sigma=2.)

def test_small_noise_without_replacement_is_refused_by_name():
    with pytest.raises(ValueError, match='sigma must be larger'):
        dpsgd(sigma=.05, batch_size=10, dataset_size=1000, steps=5, sampling='without-replacement')

def test_numpy_counts_do_not_wrap():
    with pytest.raises(ValueError, match='at most dataset_size'):
        dpsgd(sigma=1., batch_size=np.int32(100_000), accumulate=np.int32(100_000),
              dataset_size=np.int64(2)*10**9, steps=1, sampling='poisson')

# All accountants

def test_compare_lists_every_accountant():
    run = 1000*S(2., .01)
    table = compare(run, delta=1e-5)
    assert len(table) >= 11 and table[0]['accountant'] == 'ContourAccountant'
    assert '<table>' in table._repr_html_()
    assert 'MomentsAccountant' in str(table) and '\n' in repr(table)
    exact = ContourAccountant(run).epsilon(1e-5)
    for row in table:
        assert float(row['lower'])*(1 - 1e-9) <= exact.upper
        assert exact.lower <= float(row['upper'])*(1 + 1e-9)
    odd = compare(ApproxDP(eps=1., delta=.1), eps=.5)
    assert any('not for this run' in row['worth'] for row in odd) and odd[0]['upper']

def test_compare_asks_those_that_are_named():
    run = Gaussian(sigma=2.)
    table = compare(run, delta=1e-5, methods=['SaddlePointMSD', 'ContourAccountant'])
    assert [row['accountant'] for row in table] == ['ContourAccountant', 'SaddlePointMSD']
    assert compare(run, delta=1e-5, methods=[]) == []

@pytest.mark.parametrize('call, message', [
    (lambda g: epsilon('run', delta=1e-5), 'run must'),
    (lambda g: delta(g, eps=-1.), 'eps must'),
    (lambda g: epsilon(g, delta=2.), 'delta must'),
    (lambda g: compare(g), 'either delta or eps'),
    (lambda g: compare(g, delta=1e-5, eps=1.), 'either delta or eps'),
    (lambda g: compare(g, delta=2.), 'delta must'),
    (lambda g: compare(g, eps=-1.), 'eps must'),
    (lambda g: compare(g, eps=1., methods=['RDP']), 'method must be'),
])
def test_bad_questions(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(Gaussian(sigma=1.))

def test_a_limit_is_for_cut_samples_and_for_them_only():
    given = dict(sigma=1., batch_size=10, dataset_size=100, steps=5)
    with pytest.raises(ValueError, match="^max_batch_size must be given .*, got None"):
        dpsgd(**given, sampling='truncated-poisson')
    with pytest.raises(ValueError, match="^max_batch_size must be left out .*, got 20 for 'none'"):
        dpsgd(**given, sampling='none', max_batch_size=20)

def test_more_records_of_a_user_than_there_are():
    "What is wrong is named as it was given."
    run = dict(sigma=1., batch_size=10, sampling='poisson', steps=10)
    with pytest.raises(ValueError, match='^unit_records must be at most dataset_size = 1000'):
        dpsgd(dataset_size=1000, unit_records=1500, **run)
    with pytest.raises(ValueError, match='^unit_records must be smaller: a group of 3000 records'):
        dpsgd(dataset_size=10**5, unit_records=3000, **run)

def composed(relation=None, **changed):
    "Ten steps of a run."
    given = dict(sigma=1., batch_size=64, dataset_size=60_000, sampling='poisson', steps=10)
    return dpsgd(relation=relation, **given | changed)

def test_runs_compose_as_their_mechanisms_do():
    run, laplace = composed(), Laplace(scale=20.)
    for whole in (2*run + laplace, run + run + laplace,
                  run + (laplace + run), sum([run, run, laplace])):
        assert whole.mechanism == 2*run.mechanism + laplace
        assert whole.relation == run.relation and whole.sampling == 'poisson'
        assert epsilon(whole, delta=1e-5) == epsilon(whole.mechanism, delta=1e-5)
        assert pickle.loads(pickle.dumps(whole)) == whole
        assert to_steps(whole) == to_steps(whole.mechanism)
    assert np.int64(2)*run == run*2 == run + run
    assert run.remove is run.mechanism.remove and run.add is run.mechanism.add

@pytest.mark.parametrize('other', [composed('replace-one'), composed('zero-out'),
                                   composed(unit_records=3)], ids=lambda r: r.relation)
def test_runs_for_different_neighbours_have_no_sum(other):
    for add in (lambda: composed() + other, lambda: other + Gaussian(sigma=1.),
                lambda: Gaussian(sigma=1.) + other):
        with pytest.raises(ValueError, match=r'adding or removing one record') as raised:
            add()
        assert other.relation in str(raised.value)

def test_what_is_added_to_a_run_must_be_private():
    with pytest.raises(TypeError, match='unsupported operand'): composed() + 1
    with pytest.raises(ValueError, match='times'): -1*composed()

def test_a_sum_of_runs_is_bounded_from_below():
    "By the whole where all is attained, else by what one part shows."
    run, shuffled = composed(), composed(sampling='shuffle')
    assert (run + Laplace(scale=20.)).at_least(1e-5) > run.at_least(1e-5)
    assert (3*shuffled).at_least(1e-5) == shuffled.at_least(1e-5)
    assert (0*run).at_least(1e-5) == 0
    cut = composed(sampling='without-replacement', relation='replace-one')
    assert cut.at_least(1e-5) < (2*cut).at_least(1e-5) <= epsilon(2*cut, delta=1e-5)

def test_however_a_sum_is_put_together():
    "Equal parts merge, and the same run has the same hash; nothing else is a number of runs."
    run = dpsgd(sigma=2., batch_size=10, dataset_size=1000, steps=30, sampling='poisson')
    step = Laplace(scale=9.)
    nested, flat = 2*(run + 3*(run + step)), 8*run + 6*step
    assert nested == flat and hash(nested) == hash(flat)
    assert flat.parts == ((run, 8), (step, 6))
    assert sum([run, run, run]) == 3*run == run*np.int64(3)
    assert epsilon(nested, delta=1e-5) == epsilon(8*run.mechanism + 6*step, delta=1e-5)
    assert epsilon(run + 0*step, delta=1e-5) == epsilon(run, delta=1e-5)
    assert epsilon(0*run, delta=1e-5) == 0
    wrong = (-1, ValueError), (1.5, TypeError), (True, TypeError), ([1, 2], TypeError)
    for times, error in wrong:
        with pytest.raises(error):
            times*run
    for other in (3, None, 'run'):
        with pytest.raises(TypeError):
            run + other
    text = str(run)
    assert 'noise 2 times the clipping norm, sampling: poisson. Amplification' in text

def test_epochs_of_few_bits():
    "100 epochs of 10 batches are 1000 steps, not -24."
    def run(epochs):
        return dpsgd(sigma=2., batch_size=10, dataset_size=100, epochs=epochs,
                     sampling='balls-in-bins')
    assert run(np.int8(100)).steps == run(100).steps == 1000
    with pytest.raises(ValueError, match='must be an integer in .0, 9007199254740992'):
        dpsgd(sigma=1., batch_size=1, dataset_size=9, epochs=1.7e308, sampling='poisson')
    for huge in (dict(steps=10**400), dict(steps=1, dataset_size=10**400)):
        with pytest.raises(ValueError, match=f'{list(huge)[-1]} must be an integer in'):
            dpsgd(**dict(sigma=1., batch_size=1, dataset_size=9, sampling='poisson') | huge)

def test_a_number_of_another_type_is_the_same_question():
    "NumPy's numbers and fractions are answered by the same way, to the last digit."
    run = 3000*PoissonSubsampled(Gaussian(sigma=2.), rate=.01)
    assert delta(run, eps=.5) == delta(run, eps=np.float32(.5)) == delta(run, eps=Fraction(1, 2))
    assert epsilon(run, delta=2**-20) == epsilon(run, delta=np.float32(2**-20))
