"Steps known by their moments: zCDP, exponential mechanisms; who serves them, and who says no."
import itertools
import json
import math
import pickle
import warnings

import mpmath as mp
import numpy as np
import pytest

from dp_saddle import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Budget,
    Composition,
    ContourAccountant,
    EdgeworthAccountant,
    EdgeworthInterval,
    ExponentialMechanism,
    FourierAccountant,
    Gaussian,
    GaussianLimit,
    Geometric,
    MomentsAccountant,
    Poisson,
    PoissonSubsampled,
    PRVAccountant,
    PureDP,
    RandomizedResponse,
    SaddlePointCLT,
    SaddlePointMSD,
    SelectionAccountant,
    TiltedEdgeworth,
    TiltedFFT,
    TruncatedPoisson,
    calibrate,
    certify,
    compare,
    delta,
    epsilon,
    epsilon_after,
    exponential_delta,
    exponential_epsilon,
    from_steps,
    rdp,
    report,
    selected,
    to_steps,
)
from dp_saddle.accounting import best_accountant
from dp_saddle.saddlepoint import asymptotic_epsilon
from dp_saddle.steps.known_by_moments import BoundedRangeLoss, worst_shifts
from dp_saddle.steps.worst_case import WorstCaseAccountant

SAMPLED = PoissonSubsampled(Gaussian(sigma=1.), rate=.05)

def test_zcdp_is_the_gaussian_with_the_same_rho_by_moments():
    for rho, n in ((.01, 10), (.5, 1), (1e-4, 300)):
        known, normal = n*ZCDP(rho=rho), n*Gaussian(sigma=1/math.sqrt(2*rho))
        exact, moments = (method(normal).epsilon(1e-6) for method in
                          (ContourAccountant, MomentsAccountant))
        low, _, up = best_accountant(known).epsilon(1e-6)
        assert low <= exact.upper and exact.lower <= low*(1 + 1e-9)
        assert up == pytest.approx(moments.upper, rel=1e-9)
        assert rdp(known, [1., 2., 30.]) == pytest.approx([n*rho*a for a in (1., 2., 30.)])

def test_an_additive_constant():
    a = np.array([1.5, 4., 20.])
    assert rdp(3*ZCDP(rho=.1, xi=.2), a) == pytest.approx(3*(.2 + .1*a))
    assert epsilon(ZCDP(rho=.1, xi=.2), delta=1e-5) == pytest.approx(
        epsilon(ZCDP(rho=.1), delta=1e-5) + .2, rel=1e-9)

def test_zcdp_bound_holds_for_what_is_zcdp():
    "Pure steps are eps^2/2-zCDP (Bun and Steinke 2016, Proposition 1.4)."
    for e, n in ((.1, 50), (1., 3)):
        exact = ContourAccountant(n*RandomizedResponse(eps=e)).epsilon(1e-5)
        assert exact.lower <= epsilon(n*ZCDP(rho=e*e/2), delta=1e-5)

def test_mixed_with_known_steps():
    "Moments add: the same as with a Gaussian of that rho, by moments."
    known = 4*ZCDP(rho=.02) + 100*SAMPLED + ApproxDP(eps=.1, delta=1e-7)
    normal = 4*Gaussian(sigma=5.) + 100*SAMPLED + ApproxDP(eps=.1, delta=1e-7)
    low, _, up = best_accountant(known).epsilon(1e-5)
    exact = ContourAccountant(normal).epsilon(1e-5)
    assert type(best_accountant(known)) is WorstCaseAccountant
    assert exact.lower*(1 - 1e-9) <= low <= exact.upper < up
    assert up == pytest.approx(MomentsAccountant(normal).epsilon(1e-5).upper, rel=1e-9)
    assert MomentsAccountant(known).epsilon(1e-5).upper == up
    down, _, top = best_accountant(known).delta([.5, 2.])
    exact = ContourAccountant(normal).delta([.5, 2.])
    assert (down <= exact.upper).all() and (exact.lower <= top).all()

REFUSE = (ContourAccountant, TiltedFFT, SaddlePointCLT, SaddlePointMSD, EdgeworthInterval,
          EdgeworthAccountant, TiltedEdgeworth, PRVAccountant, FourierAccountant, GaussianLimit)

@pytest.mark.parametrize('step', [ZCDP(rho=.1), ExponentialMechanism(eps=.3)], ids=str)
@pytest.mark.parametrize('method', REFUSE, ids=lambda m: m.__name__)
def test_who_refuses(method, step):
    "By name, with who serves it, alone and among others."
    for run in (step, 3*step + 10*SAMPLED):
        for ask in (lambda a: a.epsilon(1e-5), lambda a: a.delta(1.)):
            with pytest.raises(ValueError, match='MomentsAccountant serve it') as error:
                ask(method(run))
            assert repr(step) in str(error.value)

@pytest.mark.parametrize('step', [ZCDP(rho=.1), ExponentialMechanism(eps=.3)], ids=str)
def test_tools(step):
    "Who asks epsilon and delta is served; who needs the law says so, by the step's name."
    run = 3*step + 10*SAMPLED
    eps = epsilon(run, delta=1e-5)
    assert delta(run, eps=eps) == pytest.approx(1e-5, rel=1e-6)
    assert f'{eps:.2f}'[:3] in report(run, delta=1e-5)
    budget = Budget(eps=2*eps, delta=1e-5)
    budget.spend(run)
    assert budget.spent == eps
    again = Composition(tuple(from_steps(json.loads(json.dumps(to_steps(run))))))
    assert again == run == pickle.loads(pickle.dumps(run))
    served = [row for row in compare(run, delta=1e-5) if row['upper']]
    assert [row['accountant'] for row in served] == ['WorstCaseAccountant', 'MomentsAccountant']
    assert epsilon_after(run, delta=1e-5)[-1] == pytest.approx(eps, rel=1e-9)
    with pytest.raises(ValueError, match=type(step).__name__):
        certify(run, delta=1e-5)
    with pytest.raises(TypeError, match='^base must be'):
        PoissonSubsampled(step, rate=.1)
    noise = calibrate(lambda sigma: step + 10*Gaussian(sigma=sigma), eps=2*eps, delta=1e-5)
    assert 1.99*eps < epsilon(step + 10*Gaussian(sigma=noise), delta=1e-5) <= 2*eps

# ---------------------------------------------------------------- exponential mechanisms

def test_a_bounded_range_is_two_outcomes():
    for eps, t in ((1., .3), (.01, .004), (5., 4.9)):
        pair = BoundedRange(eps=eps, shift=t).pair()
        assert np.exp(pair.logp).sum() == pytest.approx(1, abs=1e-14)
        assert np.exp(pair.logq).sum() == pytest.approx(1, abs=1e-14)
        assert pair.logp - pair.logq == pytest.approx(pair.losses, rel=1e-11)
        assert np.ptp(pair.losses) == pytest.approx(eps, rel=1e-14)

def test_no_step_of_that_range_is_worse():
    "Random pairs whose losses are in a window of width eps, against the two outcomes at its end."
    rng = np.random.default_rng(3)
    for _ in range(200):
        eps = rng.uniform(.1, 3)
        q = rng.dirichlet(np.ones(6))
        ratio = np.exp(eps*rng.random(6))
        p = q*ratio/(q*ratio).sum()
        losses = np.log(p/q)
        t = losses.min() + eps
        if not 0 < t < eps: continue
        worst = BoundedRange(eps=eps, shift=t)
        for at in (0., .2*eps, .7*eps, -.3*eps):
            known = np.maximum(p - math.exp(at)*q, 0).sum()
            assert known <= worst.remove.delta(at) + 1e-14

@pytest.mark.parametrize('eps', [.5, *(pytest.param(e, marks=pytest.mark.slow) for e in (.01, 4.))])
def test_the_worst_shift_of_a_moment(eps):
    "The closed form is the largest over shifts, and the divergences are below alpha eps^2/8."
    loss = BoundedRangeLoss(ExponentialMechanism(eps=eps), eps)
    everywhere = np.linspace(0, eps, 203)[1:-1]
    for t in (.01, .7, 5., 60.):
        near = float(loss.worst_shift(t)) + eps*np.linspace(-.004, .004, 9)
        most = max(BoundedRange(eps=eps, shift=x).remove.cgf(t)
                   for x in np.append(everywhere, near[(near > 0) & (near < eps)]))
        assert sum(loss.known_cgf(t)) >= most*(1 - 1e-12)
        assert loss.bound(t) == pytest.approx(most, rel=1e-5)
        assert BoundedRange(eps=eps, shift=float(loss.worst_shift(t))).remove.cgf(t) == \
            pytest.approx(loss.bound(t), rel=1e-9)
        assert loss.bound(t)/t <= (t + 1)*eps**2/8

def test_what_the_bound_is_off_by():
    "Against 40 digits."
    with mp.workdps(40):
        for eps, t in itertools.product((1e-4, .1, 3., 90.), (1e-3, .5, 20., 1e4)):
            e, u = mp.mpf(eps), mp.mpf(t)
            more, less = -mp.expm1(-(u + 1)*e), -mp.expm1(-u*e)
            shift = e + mp.log(u*more/((u + 1)*less))
            exact = u*shift + mp.log(more/((u + 1)*-mp.expm1(-e)))
            value, error = BoundedRangeLoss(None, eps).known_cgf(t)
            assert abs(value - exact) <= error

def test_slopes():
    loss = BoundedRangeLoss(None, .8)
    for t in (.05, 1., 9.):
        h = 1e-4*t
        first = (loss.bound(t + h) - loss.bound(t - h))/(2*h)
        second = (loss.bound(t + h) - 2*loss.bound(t) + loss.bound(t - h))/h**2
        found = loss.cumulants(t, 2)
        assert found[0] == pytest.approx(first, rel=1e-6)
        assert found[1] == pytest.approx(second, rel=1e-2, abs=1e-4)

@pytest.mark.parametrize('eps', [1e-8, 1e-3, 40., 100.])
def test_small_ranges_and_large_ones(eps):
    "No more than the range itself, and no error."
    low, _, up = best_accountant(ExponentialMechanism(eps=eps)).epsilon(1e-9)
    assert 0 <= low <= up <= eps*(1 + 1e-6)
    assert exponential_epsilon(eps=eps, steps=1, delta=1e-9) <= up*(1 + 1e-6)

def published(eps, k, d):
    "Dong, Durfee and Rogers (2020): what k adaptive steps cost, improved by Hoeffding's lemma."
    x = eps/-math.expm1(-eps)
    return min(k*eps, k*(x - 1 - math.log(x)) + eps*math.sqrt(k*math.log(1/d)/2))

@pytest.mark.parametrize('eps, k', [(.5, 10), (.1, 100), (.01, 1000), (1., 3), (2., 30)])
def test_adaptive(eps, k):
    "Below the published bound and below pure composition; above what is known of one shift."
    run = k*ExponentialMechanism(eps=eps)
    low, _, up = best_accountant(run).epsilon(1e-5)
    assert low <= up <= published(eps, k, 1e-5)*(1 + 1e-12)
    assert up <= epsilon(k*ZCDP(rho=eps**2/8), delta=1e-5)
    middle = k*BoundedRange(eps=eps, shift=eps/2)
    assert ContourAccountant(middle).epsilon(1e-5).lower <= up

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('eps, k, at', [(.1, 100, 1.), (.5, 10, .3), (.5, 10, 2.), (1., 1, .4),
                                        (.02, 60, 0.)])
def test_non_adaptive(eps, k, at):
    "The largest over a fine grid of shifts, and no more; below what adaptive steps may have."
    found = exponential_delta(eps=eps, steps=k, at=at)
    shifts = np.linspace(0, eps, 402)[1:-1]
    grid = max(ContourAccountant(k*BoundedRange(eps=eps, shift=t)).delta(at).lower for t in shifts)
    assert grid <= found <= grid*(1 + 3e-3)
    best = max(ContourAccountant(k*BoundedRange(eps=eps, shift=t)).delta(at).lower
               for t in worst_shifts(eps, k, at))
    assert found == pytest.approx(best, rel=1e-9) and found >= best*(1 - 1e-12)
    assert found <= delta(k*ExponentialMechanism(eps=eps), eps=at)

def test_unequal_shifts_are_no_worse():
    "Three steps with random shifts of their own, enumerated."
    rng = np.random.default_rng(4)
    for _ in range(100):
        eps, at = rng.uniform(.2, 2), rng.uniform(0, 1.5)
        steps = [BoundedRange(eps=eps, shift=t) for t in eps*rng.uniform(.01, .99, 3)]
        run = ContourAccountant(sum(steps)).delta(at)
        assert run.lower <= exponential_delta(eps=eps, steps=3, at=at)

@pytest.mark.parametrize('eps, k, d', [(.1, 100, 1e-6), (.5, 10, 1e-3), (2., 3, 1e-5)])
def test_inverse(eps, k, d):
    found = exponential_epsilon(eps=eps, steps=k, delta=d)
    assert exponential_delta(eps=eps, steps=k, at=found) <= d
    assert exponential_delta(eps=eps, steps=k, at=found*(1 - 1e-9)) > d
    assert found <= epsilon(k*ExponentialMechanism(eps=eps), delta=d)

def test_beyond_the_largest_loss():
    assert exponential_delta(eps=.1, steps=10, at=1.) == 0
    assert exponential_delta(eps=.1, steps=10, at=.99) > 0

@pytest.mark.parametrize('call, name', [
    (lambda: ZCDP(rho=0.), 'rho'), (lambda: ZCDP(rho=1., xi=-1.), 'xi'),
    (lambda: ExponentialMechanism(eps=0.), 'eps'), (lambda: ExponentialMechanism(eps=200.), 'eps'),
    (lambda: BoundedRange(eps=1., shift=1.), 'shift'),
    (lambda: BoundedRange(eps=-1., shift=0.), 'eps'),
    (lambda: exponential_delta(eps=1., steps=0, at=0.), 'steps'),
    (lambda: exponential_delta(eps=1., steps=9999, at=0.), 'steps'),
    (lambda: exponential_delta(eps=1., steps=2, at=-1.), 'at'),
    (lambda: ZCDP(rho='1'), 'rho')])
def test_bad_input(call, name):
    with pytest.raises((ValueError, TypeError), match=f'^{name} must be'):
        call()

def test_what_is_not_known_of_the_loss():
    loss = ZCDP(rho=.1).remove
    assert loss.cgf(0.) == 0 and loss.cgf(2.) == pytest.approx(.6) and loss.reverse is loss
    for ask in (lambda: loss.cgf(1j), lambda: loss.cgf(-.2), lambda: loss.cdf(0.),
                lambda: loss.density(0.), lambda: loss.log_delta(np.zeros(1)),
                lambda: loss.line(1., np.zeros(2)), lambda: loss.decay(1., np.zeros(2)),
                lambda: loss.abs_moment()):
        with pytest.raises(ValueError, match='not known for ZCDP'):
            ask()

# ---------------------------------------------------------------- laws that dominate

CUT = 1000*TruncatedPoisson(sigma=1., rate=.01, dataset_size=10**4, max_batch_size=150)

@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_a_step_known_by_moments_does_not_spoil_the_others():
    "No more than for what dominates it, though the others' moments say little."
    choice, pure = (epsilon(step + CUT, delta=1e-5)
                    for step in (ExponentialMechanism(eps=.1), PureDP(eps=.1)))
    assert choice <= pure < 1.9
    hair = epsilon(ZCDP(rho=1e-12) + CUT, delta=1e-5)
    assert hair < 1.01*epsilon(ApproxDP(eps=1e-5, delta=1e-7) + CUT, delta=1e-5)
    assert hair > epsilon(CUT, delta=1e-5)*(1 - 1e-9)
    both = ZCDP(rho=1e-12) + ZCDP(rho=1e-13, xi=1e-9) + ExponentialMechanism(eps=.1) + CUT
    assert epsilon(both, delta=1e-5) < 1.01*pure
    at = [0., 1.2, 3.]
    assert (delta(ExponentialMechanism(eps=.1) + CUT, eps=at) <= delta(PureDP(eps=.1) + CUT,
                                                                       eps=at)).all()
    assert (delta(ZCDP(rho=1e-12) + CUT, eps=at) < 1.5*delta(CUT, eps=at)).all()

LAWS = ((ZCDP(rho=.005), RandomizedResponse(eps=.1)), (3*ZCDP(rho=.02), 3*Gaussian(sigma=5.)),
        (2*ExponentialMechanism(eps=.4), 2*BoundedRange(eps=.4, shift=.15)))
RESTS = CUT, 10*SAMPLED, ApproxDP(eps=.2, delta=1e-3)

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('law, rest', [
    pytest.param(law, rest, marks=[pytest.mark.slow]*(i != j))
    for i, law in enumerate(LAWS) for j, rest in enumerate(RESTS)])
def test_bounds_by_laws_are_bounds(law, rest):
    "Steps that there are, beside others, cost no more; arrays answer as numbers do."
    known, real = law
    deltas = np.array([.3, 2e-3, 1e-6])
    many = epsilon(known + rest, delta=deltas)
    assert (ContourAccountant(real + rest).epsilon(deltas).lower <= many).all()
    assert epsilon(known + rest, delta=2e-3) == pytest.approx(many[1], rel=1e-9)
    for e in (0., .5, 3.):
        low, mid, up = best_accountant(known + rest).delta(e)
        assert low <= mid <= up
        assert ContourAccountant(real + rest).delta(e).lower <= up

@pytest.mark.parametrize('eps', [.02, .5, 3., 50.])
def test_one_exponential_mechanism_is_exact(eps):
    "Its curve is (1 - e^-(eps - at)/2)^2/(1 - e^-eps)."
    for at in (0., .3*eps, .9*eps):
        exact = math.expm1(-(eps - at)/2)**2/-math.expm1(-eps)
        assert delta(ExponentialMechanism(eps=eps), eps=at) == pytest.approx(exact, rel=1e-11)
        found = epsilon(ExponentialMechanism(eps=eps), delta=exact)
        assert found >= at*(1 - 1e-12)
        assert delta(ExponentialMechanism(eps=eps), eps=found) == pytest.approx(exact, rel=1e-9)
    assert delta(ExponentialMechanism(eps=eps), eps=0.) >= math.tanh(eps/4)

def test_several_cost_no_more_than_pure_ones():
    for n, eps in ((10, 3.), (2, .5), (3, .1)):
        assert delta(n*ExponentialMechanism(eps=eps), eps=0.) <= delta(n*PureDP(eps=eps), eps=0.)

def test_what_the_witness_cannot_do_is_not_said(monkeypatch):
    "Its warnings and its errors do not reach those who ask for an upper bound."
    run = 10**8*ExponentialMechanism(eps=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        low, _, up = best_accountant(run).epsilon(1e-6)
    assert 0 < low <= up < .02
    class Hopeless:
        def __init__(self, plrv): raise ValueError('too many nodes')
    monkeypatch.setattr('dp_saddle.steps.worst_case.ContourAccountant', Hopeless)
    for ask in (lambda a: a.epsilon(1e-6), lambda a: a.delta(.01)):
        known, bare = (ask(method(run)) for method in (WorstCaseAccountant, MomentsAccountant))
        assert known.lower == 0 and known.upper == bare.upper

@pytest.mark.parametrize('eps', [1e-100, 1e-17, 1e-8, 1e-4, .01])
def test_small_ranges_against_fifty_digits(eps):
    "K, where its terms cancel, with what it is off by; and delta, tanh(eps/4) at 0."
    with mp.workdps(450):
        e = mp.mpf(eps)
        def h(x): return mp.log(mp.sinh(x/2)/(x/2))
        for t in (1e-3, 1., 40., .029/eps, .1/eps):
            u = mp.mpf(t)
            exact = (u + 1)*h((u + 1)*e) - u*h(u*e) - h(e)
            value, error = BoundedRangeLoss(None, eps).known_cgf(t)
            assert abs(value - exact) <= error and error < 1e-11*max(t*(t + 1)*eps**2, eps)
            if (t + 1)*eps < .03:
                assert float(abs(value/exact - 1)) < 1e-14
    assert rdp(ExponentialMechanism(eps=eps), 2.) == pytest.approx(eps**2/4, rel=1e-3)
    assert delta(ExponentialMechanism(eps=eps), eps=0.) == pytest.approx(math.tanh(eps/4), rel=1e-9)
    for run in (ExponentialMechanism(eps=eps), 2*ExponentialMechanism(eps=eps)):
        low, _, up = best_accountant(run).delta(0.)
        assert low <= up <= 1.01*math.tanh(eps) + 1e-15
        assert epsilon(run, delta=1e-6) <= 2*eps*(1 + 1e-6) + 1e-15

def test_no_limit_theorem_for_what_is_not_known():
    for step in (ZCDP(rho=.1), 3*ExponentialMechanism(eps=.1) + SAMPLED):
        with pytest.raises(ValueError, match='is not known for'):
            asymptotic_epsilon(step, delta=1e-5)

# ---------------------------------------------------------------- prefixes, and the best of many

@pytest.mark.parametrize('step', [ZCDP(rho=.01), ExponentialMechanism(eps=.1)], ids=str)
def test_prefixes(step):
    "After each step what `epsilon` says of so many, or hardly more; also beside other steps."
    spent = epsilon_after([(step, 30)], delta=1e-6)
    assert (np.diff(spent) > 0).all() and spent.shape == (30,)
    for n in (1, 7, 30):
        assert epsilon(n*step, delta=1e-6)*(1 - 1e-9) <= spent[n - 1]*(1 + 1e-9)
        assert spent[n - 1] <= epsilon(n*step, delta=1e-6)*1.01
    other = PoissonSubsampled(Gaussian(sigma=1.), rate=.01)
    mixed = epsilon_after([(other, 40), (step, 10), (other, 40)], delta=1e-6)
    whole = epsilon(80*other + 10*step, delta=1e-6)
    assert mixed[-1] == pytest.approx(whole, rel=1e-9) and (np.diff(mixed) >= 0).all()
    assert mixed[39] >= epsilon(40*other, delta=1e-6)

def test_prefixes_of_a_gaussian_and_its_moments():
    "A zCDP step is never cheaper than the Gaussian that has its moments."
    known, moments = Gaussian(sigma=10.), ZCDP(rho=.005)
    assert (epsilon_after([(known, 20)], delta=1e-6)
            <= epsilon_after([(moments, 20)], delta=1e-6)).all()

@pytest.mark.parametrize('tries', [Geometric(mean=3.), Poisson(mean=5.)], ids=str)
def test_the_best_of_many(tries):
    "Papernot and Steinke take Renyi divergences: those of a Gaussian's moments cost no less."
    moments, known = selected(10*ZCDP(rho=.01), tries=tries), 10*Gaussian(sigma=50**.5)
    found = SelectionAccountant(moments).epsilon(1e-6)
    least = SelectionAccountant(selected(known, tries=tries))
    assert least.epsilon(1e-6).upper <= found.upper
    if isinstance(tries, Geometric):
        assert found.upper <= least.by_renyi(delta=1e-6)*(1 + 1e-9)
    assert 0 < found.lower <= least.epsilon(1e-6).upper
    assert SelectionAccountant(moments).delta(found.upper).upper <= 1.01e-6   # another optimum

def test_small_numbers_of_numpy_and_large_ones():
    "They neither overflow nor end in nan."
    assert exponential_delta(eps=1., steps=3, at=1.7e308) == 0.
    for small in (np.int8, np.uint8):
        assert exponential_delta(eps=small(100), steps=5, at=1.) == \
            exponential_delta(eps=100, steps=5, at=1.)
        assert exponential_epsilon(eps=small(2), steps=small(100), delta=.1) == \
            exponential_epsilon(eps=2, steps=100, delta=.1)
    assert exponential_epsilon(eps=1., steps=3, delta=np.float32(.25)) == \
        exponential_epsilon(eps=1., steps=3, delta=.25)
    for wrong, name in ((dict(eps=None), 'eps'), (dict(steps='3'), 'steps'),
                        (dict(steps=10**400), 'steps')):
        with pytest.raises((TypeError, ValueError), match=f'{name} must be'):
            exponential_epsilon(**dict(eps=1., steps=3, delta=.1) | wrong)
