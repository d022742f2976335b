"""Bounds at the last bit. Each family of questions here once found a bound on the wrong side of the
truth; truths are exact, at 60 digits: two outcomes, atoms that are enumerated, closed forms."""
import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import questions as asked
from dp_saddle import (
    ContourAccountant,
    Discrete,
    Gaussian,
    GaussianLimit,
    Laplace,
    MomentsAccountant,
    PoissonSubsampled,
    PRVAccountant,
    RandomizedResponse,
    TiltedFFT,
    bayes_risk,
    gdp,
    tpr,
    tradeoff,
)
from dp_saddle.engine import gaussian_log_bounds
from dp_saddle.engine.ways import GivenOutcomes
from dp_saddle.losses.densities import SubsampledGaussianLoss
from dp_saddle.losses.laplace import LaplaceLoss
from dp_saddle.losses.nodes import FiniteLoss
from dp_saddle.mechanisms import Composition
from dp_saddle.plrv import ComposedLoss

DIGITS = 60

@pytest.fixture(autouse=True)
def exactly():
    with mp.workdps(DIGITS), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        yield

def response_delta(eps, x):
    "Of one randomised response, at x."
    eps, x = mp.mpf(eps), mp.mpf(x)
    return max(mp.mpf(0), (1 - mp.exp(x - eps))/(1 + mp.exp(-eps)))

def holds(bounds, truth):
    assert bounds.lower <= truth <= bounds.upper, (bounds, mp.nstr(truth, 25))

def log_floats(low, high):
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))

# Near the end of the support, where K(u) - u eps cancels

def laplace_and_response(eps, x):
    """delta at x of a Laplace step of scale 2 and a randomised response, both with atoms at their
    ends: the outcomes of the response, and the Laplace curve 1 - e^{(y - d)/2} in closed form."""
    d, eps, x = mp.mpf(1)/2, mp.mpf(eps), mp.mpf(x)
    def laplace(y):
        if y >= d:
            return mp.mpf(0)
        return 1 - mp.exp((y - d)/2) if y >= -d else 1 - mp.exp(y)
    truth = 1/(1 + mp.exp(-eps))
    return truth*laplace(x - eps) + (1 - truth)*laplace(x + eps)

def test_near_the_end_of_a_support():
    eps = 1.284371890296196
    found = ContourAccountant(Laplace(scale=2.) + RandomizedResponse(eps=eps))
    holds(found.delta(1.784371889296196), laplace_and_response(eps, 1.784371889296196))

def check_near_an_end(eps, gap):
    x = (.5 + eps)*(1 - gap)
    found = ContourAccountant(Laplace(scale=2.) + RandomizedResponse(eps=eps)).delta(x)
    holds(found, laplace_and_response(eps, x))

@pytest.mark.parametrize('eps, gap', [(3., 1e-11), (.7, 1e-9), (.05, 1e-8)])
def test_near_some_ends(eps, gap):
    check_near_an_end(eps, gap)

@pytest.mark.slow
@given(log_floats(.01, 5.), log_floats(1e-12, .1))
def test_near_the_ends_of_supports(eps, gap):
    check_near_an_end(eps, gap)

@pytest.mark.parametrize('accountant, eps, x', [
    (MomentsAccountant, 4.316051530910459e-05, 4.315863221975281e-05),
    (PRVAccountant, 0.0028549035020569527, 0.0028549020283856787)])
def test_moments_near_an_end(accountant, eps, x):
    assert response_delta(eps, x) <= accountant(RandomizedResponse(eps=eps)).delta(x).upper

@given(log_floats(1e-5, 10.), log_floats(1e-9, .5))
def test_moments_near_ends(eps, gap):
    x = eps*(1 - gap)
    found = MomentsAccountant(RandomizedResponse(eps=eps))
    truth = response_delta(eps, x)
    assert truth <= found.delta(x).upper
    if truth > 1e-300:
        assert x <= found.epsilon(float(truth)*(1 - 1e-15)).upper

# Probabilities that are tiny

def pair_delta(p, q, x):
    p, q = ([mp.mpf(v) for v in side] for side in (p, q))
    p, q = ([v/mp.fsum(side) for v in side] for side in (p, q))
    return mp.fsum(max(a - mp.exp(mp.mpf(x))*b, mp.mpf(0)) for a, b in zip(p, q, strict=True))

def both_deltas(p, q, x): return max(pair_delta(p, q, x), pair_delta(q, p, x))

def test_a_tiny_probability():
    p, q, x = (3e-250, 1.), (1e-250, 1.), 1.0986122876681097
    holds(ContourAccountant(Discrete(p=p, q=q)).delta(x), both_deltas(p, q, x))

@given(log_floats(1e-300, .1), log_floats(1e-300, .1), st.floats(-2., .999))
def test_probabilities_of_any_size(a, b, share):
    p, q = (a, 1 - a), (b, 1 - b)
    x = max(share*abs(float(mp.log(mp.mpf(a)/mp.mpf(b)))), 0.)
    holds(ContourAccountant(Discrete(p=p, q=q)).delta(x), both_deltas(p, q, x))

# Grids, limits, and what is made of curves

@pytest.mark.parametrize('eps', [2.413661935035935, .5, 1.2345, .01, 5.999])
@pytest.mark.parametrize('x', [1., 1 + 1e-12, 1 - 1e-9, .999, .3])
def test_a_grid_at_the_end_of_a_support(eps, x):
    found = TiltedFFT(RandomizedResponse(eps=eps), mesh=.01)
    holds(found.delta(x*eps), response_delta(eps, x*eps))

@given(log_floats(.05, 6.), st.floats(.2, 1.1))
def test_a_grid_near_the_end_of_a_support(eps, x):
    holds(TiltedFFT(RandomizedResponse(eps=eps), mesh=.01).delta(x*eps), response_delta(eps, x*eps))

def test_a_limit_where_no_loss_is_positive():
    p, q, n = (.00390625, .99609375, 0.), (0., .9921875, .0078125), 40
    found = GaussianLimit((n*Discrete(p=p, q=q)).add).delta(0.)
    both = mp.mpf('.9921875')**n                  # the shared outcome, each time
    there = mp.mpf('.99609375')**n
    holds(found, 1 - both + max(both - there, mp.mpf(0)))

def response_tradeoff(eps, n, x):
    "The least false negative rate at false positive rate x, of n randomised responses."
    eps, x = mp.mpf(eps), mp.mpf(x)
    truth = 1/(1 + mp.exp(-eps))
    rest, missed = x, mp.mpf(0)
    for k in range(n + 1):                        # k lies, the likeliest under P first
        under_p = mp.binomial(n, k)*truth**(n - k)*(1 - truth)**k
        under_q = mp.binomial(n, k)*truth**k*(1 - truth)**(n - k)
        taken = min(mp.mpf(1), rest/under_q)
        rest, missed = rest - taken*under_q, missed + (1 - taken)*under_p
    return missed

def check_attacks(eps, n, x):
    run, truth = n*RandomizedResponse(eps=eps), response_tradeoff(eps, n, x)
    assert tradeoff(run, fpr=x) <= truth
    assert tpr(run, fpr=x) >= 1 - truth

def test_a_trade_off():
    check_attacks(0.00010278348638200532, 5, .4668576247373418)

@given(log_floats(1e-5, 4.), st.integers(1, 12), st.floats(1e-6, 1 - 1e-6))
def test_trade_offs(eps, n, x):
    check_attacks(eps, n, x)

def direct_tradeoff(p, q, x):
    "The least false negative rate of tests of P, at false positive rate x under Q."
    p, q = ([mp.mpf(v) for v in side] for side in (p, q))
    p, q = ([v/mp.fsum(side) for v in side] for side in (p, q))
    rest, missed = mp.mpf(x), mp.mpf(0)
    for a, b in sorted(zip(p, q, strict=True), key=lambda ab: ab[1]/ab[0] if ab[0] else mp.inf):
        taken = min(mp.mpf(1), rest/b) if b else mp.mpf(1)
        rest, missed = rest - taken*b, missed + (1 - taken)*a
    return missed

@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=6),
       st.floats(1e-6, 1 - 1e-6))
def test_trade_offs_of_each_direction(pairs, x):
    p, q = (tuple(float(v) + (i == 0) for v in side)
            for i, side in enumerate(zip(*pairs, (1, 1), strict=True)))
    run = Discrete(p=tuple(v/sum(p) for v in p), q=tuple(v/sum(q) for v in q))
    remove, add = direct_tradeoff(p, q, x), direct_tradeoff(q, p, x)
    for direction, truth in (('remove', remove), ('add', add)):
        found = tradeoff(run, fpr=x, direction=direction)
        assert truth - 1e-9 <= found <= truth
    assert tradeoff(run, fpr=x) <= min(remove, add)

@given(log_floats(1e-4, 4.), st.floats(1e-9, 1 - 1e-9))
def test_bayes_risks(eps, prior):
    p = mp.mpf(prior)
    truth = 1/(1 + mp.exp(-mp.mpf(eps)))
    best = min(p*truth, (1 - p)*(1 - truth)) + min(p*(1 - truth), (1 - p)*truth)
    assert bayes_risk(RandomizedResponse(eps=eps), prior=prior) <= best

def test_bayes_risk_of_a_gaussian():
    for sigma in (.3, 1., 20.):
        best = mp.ncdf(-1/(2*mp.mpf(sigma)))
        assert bayes_risk(Gaussian(sigma=sigma)) <= best

# The Gaussian curve that covers a run's

def gaussian_delta(mu, x):
    mu, x = mp.mpf(mu), mp.mpf(x)
    return mp.ncdf(mu/2 - x/mu) - mp.exp(x)*mp.ncdf(-mu/2 - x/mu)

def responses_delta(eps, n, x):
    "delta at x of n randomised responses."
    eps, x = mp.mpf(eps), mp.mpf(x)
    truth = 1/(1 + mp.exp(-eps))
    return mp.fsum(mp.binomial(n, k)*truth**(n - k)*(1 - truth)**k*(1 - mp.exp(x - (n - 2*k)*eps))
                   for k in range(n + 1) if (n - 2*k)*eps > x)

def laplace_delta(scale, x):
    return max(mp.mpf(0), 1 - mp.exp((mp.mpf(x) - 1/mp.mpf(scale))/2))

def gaussian_and_response(mu, eps, x):
    truth, x, eps = 1/(1 + mp.exp(-mp.mpf(eps))), mp.mpf(x), mp.mpf(eps)
    return truth*gaussian_delta(mu, x - eps) + (1 - truth)*gaussian_delta(mu, x + eps)

def check_covered(run, delta_at, last, least=1e-10):
    "The Gaussian curve of `gdp` is not below that of the run, down to `least`."
    mu = gdp(run, delta=least).mu
    for x in (0., *np.linspace(0, last, 41)[1:], *np.geomspace(1e-9, 1, 7)*last):
        truth = delta_at(x)
        if truth >= least:
            assert gaussian_delta(mu, x) >= truth, (mu, x)
    return mu

def test_the_curve_that_was_too_low():
    mu = check_covered(RandomizedResponse(eps=1.), lambda x: response_delta(1., x), 1.)
    exact = 2*mp.sqrt(2)*mp.erfinv(response_delta(1., 0.))       # the curves touch at eps = 0
    assert exact <= mu <= exact*(1 + 1e-12)

# A gdp takes a tenth of a second: fewer examples than elsewhere.
few = settings(max_examples=settings.default.max_examples*3//20)

@few
@given(log_floats(1e-6, 60.))
def test_responses_are_covered(eps):
    check_covered(RandomizedResponse(eps=eps), lambda x: response_delta(eps, x), eps)

@few
@given(log_floats(1e-3, 5.), st.integers(2, 30))
def test_compositions_are_covered(eps, n):
    run = n*RandomizedResponse(eps=eps)
    check_covered(run, lambda x: responses_delta(eps, n, x), n*eps)

@few
@given(log_floats(.02, 1e4))
def test_laplaces_are_covered(scale):
    check_covered(Laplace(scale=scale), lambda x: laplace_delta(scale, x), 1/scale)

@few
@given(log_floats(.01, 1e4))
def test_gaussians_are_covered(sigma):
    mu = 1/mp.mpf(sigma)
    last = float(mu*mu/2 + 7*mu)
    found = check_covered(Gaussian(sigma=sigma), lambda x: gaussian_delta(mu, x), last)
    assert mu <= found <= mu*(1 + (1e-5 if mu < 20 else 1e-3))

@pytest.mark.parametrize('mu, eps', [(1., .5), (.01, 3.), (12., .1), (20., 1.), (100., .1)])
def test_mixed_compositions_are_covered(mu, eps):
    "Also where delta is 1 to all digits: then 1 - delta comes from a line beyond the pole."
    run = Gaussian(sigma=1/mu) + RandomizedResponse(eps=eps)
    found = check_covered(run, lambda x: gaussian_and_response(1/mp.mpf(1/mu), eps, x),
                          mu*mu/2 + 7*mu)
    assert mu < 12 or mu <= found <= mu + 1.1*eps/mu*(1 + eps) + .01*mu

# Single steps in closed form, where rates and noise are at their ends

def sampled_laplace_delta(scale, rate, x):
    "Removing, for x >= 0."
    with mp.workdps(400):
        gap = 1/mp.mpf(scale) - mp.log1p(mp.expm1(mp.mpf(x))/mp.mpf(rate))
        return mp.mpf(rate)*-mp.expm1(-max(gap, 0)/2)

@pytest.mark.parametrize('scale, rate, x', [
    (.0057268772431606, 1.9694844110135879e-78, .013362249371201906),   # near the end
    (.0037840337421291034, 8.107978488553502e-119, .00047758916562772497),
    (.00156, 1e-280, .01), (.00156, 1e-278, 1.),                         # the loss was below 0
])
def test_rare_records_under_little_laplace_noise(scale, rate, x):
    run = PoissonSubsampled(Laplace(scale=scale), rate=rate)
    holds(ContourAccountant(run.remove).delta(x), sampled_laplace_delta(scale, rate, x))

@given(log_floats(.0015, .2), st.floats(-4, 4), st.floats(-13, 0))
def test_near_the_ends_of_rare_records(scale, size, gap):
    "A Laplace loss that is large, and rare enough for the sampled one not to be."
    rate = float(np.exp(-1/scale)*10**size)
    if 0 < rate < 1:
        loss = PoissonSubsampled(Laplace(scale=scale), rate=rate).remove
        x = float(loss.ess_sup*(1 - 10**gap))
        holds(ContourAccountant(loss).delta(x), sampled_laplace_delta(scale, rate, x))

def test_a_rare_record_under_little_gaussian_noise():
    "(e^eps - 1)/rate is above all doubles."
    sigma, rate, x = .02, 1e-100, 499.
    with mp.workdps(700):
        truth = mp.mpf(rate)*gaussian_delta(1/mp.mpf(sigma), mp.log1p(mp.expm1(x)/mp.mpf(rate)))
    run = PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)
    holds(ContourAccountant(run.remove).delta(x), truth)

@pytest.mark.parametrize('x', [40., 1e155, 1e300])
def test_a_gaussian_curve_is_nowhere_0(x):
    "Whatever the logarithm of it is in doubles."
    bounds = ContourAccountant(Gaussian(sigma=1.)).delta(x)
    assert bounds.lower == 0 < bounds.upper < 1e-300

def test_thousands_of_kinds_of_gaussians():
    "Their mu is known as well as one."
    sigmas = np.exp(np.random.default_rng(2).uniform(3, 3.0001, 8000)).tolist()
    run = sum(Gaussian(sigma=sigma) for sigma in sigmas[:1]) + Composition(
        tuple((Gaussian(sigma=sigma), 1) for sigma in sigmas[1:]))
    exact = mp.sqrt(mp.fsum(1/mp.mpf(sigma)**2 for sigma in sigmas))
    (only, _), = run.remove.parts
    assert abs(only.mu/exact - 1) < 2*np.finfo(float).eps

def test_dots_of_losses_that_are_off():
    "What a loss says its own losses are off by is in the dots, too."
    given = np.array([.99e-10, -.99e-10])               # by 1e-12, where 2.2e-12 are stated
    half = np.log([.5, .5])
    bounds = TiltedFFT(FiniteLoss(half, half, given, loss_ulps=1e4), mesh=.01).delta(0.)
    holds(bounds, -mp.expm1(-mp.mpf(10)**-10)/2)

def test_the_smallest_gaussians():
    "A lower bound on the curve of a mu that is smaller than any that is asked."
    mus = np.array([0., 1e-300, 1e-14, 9.9e-13, 1e-11])
    for x in (0., 1e-13):
        low, _, up = gaussian_log_bounds(mus, np.full(mus.shape, x))
        for mu, a, b in zip(mus[1:], low[1:], up[1:], strict=True):
            with mp.workdps(1000):
                truth = mp.log(gaussian_delta(mu, x)) if x < 40*mu else -mp.inf
            assert a <= truth <= b

def test_the_end_of_many_kinds():
    "The largest loss of many kinds of steps is their sum, rounded once: each alone would be lost."
    eps = [64., *(6e-15*(1 + np.arange(1000)/1e4)).tolist()]
    run = Composition(tuple((RandomizedResponse(eps=e), 1) for e in eps))
    exact = mp.fsum(eps)
    assert abs(run.remove.ess_sup - exact) <= np.finfo(float).eps*exact/2 and exact > 64 + 6e-12


# ---------------- adding to rare Laplace steps of little noise: what the nodes leave out is there

def exact_cgf(scale, rate, t):
    "K(t) of adding, by quadrature in 40 digits."
    with mp.workdps(40):
        d, q = 1/mp.mpf(scale), mp.mpf(rate)
        def w(l): return (1 - q + q*mp.exp(l))**-mp.mpf(t)
        bend = -mp.log(q*t)
        cuts = sorted({-d, d, *(x for x in (0, bend - 6, bend - 2, bend, bend + 2, bend + 5)
                                if -d < x < d)})
        smooth = mp.quad(lambda l: w(l)*mp.exp(-(l + d)/2)/4, cuts)
        return mp.log(w(-d)/2 + w(d)*mp.exp(-d)/2 + smooth)

@pytest.mark.parametrize('scale, rate, t', [(.05, 1e-3, 200.), (.1, 1e-3, 400.), (.05, 1e-5, 1e3),
                                            (.11, 1.7e-6, 68746.), (.073, 8.7e-6, 4624.)])
def test_cgf_where_nodes_are_left_out(scale, rate, t):
    loss = LaplaceLoss(1/scale, rate, 'add')
    exact = exact_cgf(scale, rate, t)
    K, error, *_ = loss.line(t, np.zeros(2))
    assert abs(K - exact) <= error < 1e-9
    for found in (loss.cgf(t), loss.real_cgf(np.array([t]))[0], loss.known_cgf(t)[0]):
        assert abs(found - exact) <= 2*error

def test_adding_to_a_rare_laplace():
    "It was too small by a tenth: references of `questions`, nested quadratures."
    steps = (('gaussian', 50.), 1), (('sub', ('laplace', .05), 1e-3), 1)
    reference = asked.Reference(steps, 'add')
    for eps in (.05, .1):
        low, up = reference.bounds(eps)
        found = ContourAccountant(asked.make(steps).add).delta(eps)
        assert found.lower <= up and low <= found.upper < found.lower*(1 + 1e-8)

# ---------------- runs that are sorted

@pytest.mark.slow
def test_a_kind_that_is_listed_twice():
    p = SubsampledGaussianLoss(1/.45, 5e-5, 'remove')
    once, twice = (ContourAccountant(ComposedLoss(parts)).delta(72.)
                   for parts in ([(p, 60)], [(p, 20), (p, 40)]))
    assert once.lower <= twice.upper and twice.lower <= once.upper
    assert twice.lower <= twice.estimate <= twice.upper < twice.lower*(1 + 1e-2)

def test_a_thousand_outcomes_are_added_up():
    "Each of them less than a unit in the last place of the logarithm of the one that is large."
    losses = np.r_[0., np.linspace(1e-6, 1e-5, 1000)]
    q = np.r_[1., np.full(1000, 1e-14)]
    step = SubsampledGaussianLoss(1., 1e-6, 'remove')
    finite = FiniteLoss(np.log(q) + losses, np.log(q), losses=losses)
    table = GivenOutcomes(ComposedLoss([(finite, 1), (step, 1)]), 1e-10, 1e-6, 1 << 18)
    for eps in (1., 5., 15.):
        few = np.exp(np.log(q[1:]) + losses[1:] + step.log_delta(eps - losses[1:])).sum()
        truth = mp.log(oracles.one_step(('sub', ('gaussian', 1.), 1e-6), eps) + few)
        low, _, up = table.log_delta(np.array([eps]))[:, 0]
        assert low <= truth <= up < low + 1e-9

def test_a_valley_of_negative_losses():
    kinds = [(('sub', ('gaussian', .2), .9), 1), (('sub', ('gaussian', .5), 5e-9), 1)]
    reference = asked.Reference(tuple(kinds), 'remove')
    for eps in (1., 10.):
        low, up = reference.bounds(eps)
        found = ContourAccountant(asked.make(kinds).remove).delta(eps)
        assert found.lower <= up and low <= found.upper

class Failing(SubsampledGaussianLoss):
    "A step that shows everything with a probability of 1e-3."
    p_inf = 1e-3

def test_mass_at_infinity_of_the_others_counts_once():
    finite = FiniteLoss(np.log([.6, .4]), np.log([.4, .6]))
    table = GivenOutcomes(ComposedLoss([(finite, 1), (Failing(.5, 1e-6, 'remove'), 1)]))
    others = np.full((3, 2, 3), np.log(.01))
    found = np.exp(table.joined(np.array([.3]), lambda gaps: others))
    assert np.abs(found - .01).max() < 1e-15

def test_a_loss_without_the_other_direction():
    class OneWay(SubsampledGaussianLoss):
        @property
        def reverse(self): raise AttributeError('no other direction')
    finite = FiniteLoss(np.log([.6, .4]), np.log([.4, .6]))
    parts = ComposedLoss([(finite, 1), (OneWay(.5, 1e-6, 'remove'), 2)])
    assert not GivenOutcomes.fit(parts)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        found = ContourAccountant(parts).delta(.406)
    assert found.lower <= found.upper
