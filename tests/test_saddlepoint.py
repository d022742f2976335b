"""The saddle-point accountants: bounds against independent references, published settings,
extremes, bad input."""
import json
import warnings
from decimal import Decimal
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp, xlogy

from certify import FILE, run
from dp_saddle import (
    PLRV,
    ApproxDP,
    ContourAccountant,
    Discrete,
    Gaussian,
    GaussianLimit,
    Laplace,
    MomentsAccountant,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    SaddlePointCLT,
    SaddlePointMSD,
    rdp,
)
from dp_saddle.plrv import gaussian_log_delta
from dp_saddle.saddlepoint import (
    BERRY_ESSEEN,
    TiltTable,
    asymptotic_epsilon,
    asymptotic_saddle_point,
    lyapunov_sum,
    moments_pull,
    msd_terms,
    saddle_point,
    saddle_pull,
    solve_increasing,
    tilted_clt,
)
from odd import ODD, ODD_DELTA, ODD_EPS, S, asked, truth_of

RANDOM = json.loads(Path(FILE).read_text(encoding='utf-8'))
GOLDEN = json.loads(Path(FILE).with_name('golden.json').read_text(encoding='utf-8'))
PROVING = {'clt': SaddlePointCLT, 'moments': MomentsAccountant,
           'classic': lambda m: MomentsAccountant(m, conversion='classic'), 'limit': GaussianLimit}
ESTIMATING = {'msd': SaddlePointMSD, 'msd 3': lambda m: SaddlePointMSD(m, order=3),
              'classical 8': lambda m: SaddlePointMSD(m, order=8, grouping='classical'),
              'gdp': lambda m: GaussianLimit(m, kind='gdp')}

# The promise

@pytest.mark.parametrize('every', [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize('name', PROVING)
def test_bounds_on_random_settings(name, every):
    """On all 300 random settings of certify.py and all golden values, or a sixth of them: lower <=
    truth <= upper."""
    cases = [(r['steps'], r['eps'], r['direction'], Decimal(r['low']), Decimal(r['high']))
             for r in RANDOM]
    for r in GOLDEN:
        value = Decimal(r['value'])
        slack = abs(value)*Decimal(10)**(1 - r['digits'])
        cases.append((r['steps'], float(r['eps']), r['direction'], value - slack, value + slack))
    assert len(cases) > 380
    for steps, eps, direction, low, high in cases[::every]:
        bounds = PROVING[name](getattr(run(steps), direction)).delta(eps)
        assert Decimal(bounds.lower) <= high and low <= Decimal(bounds.upper), (steps, eps,
            direction, bounds)
        assert bounds.lower <= bounds.estimate <= bounds.upper

def marked(words):
    "All of them, those with one of the words for `make test-slow`."
    return [pytest.param(m, marks=pytest.mark.slow) if any(w in str(m) for w in words) else m
            for m in ODD]

# The other mixtures and samples that are cut stand for these.
OF_A_KIND = '3*MixtureOfGaussians', '5*MixtureOfGaussians', 'dataset_size=2,', 'rate=1e-12'

@pytest.mark.parametrize('mechanism', marked(OF_A_KIND), ids=lambda m: f'{m}'[:80])
def test_odd_mechanisms(mechanism):
    """Whatever is composed: ordered bounds that meet the contour's, no NaN and no RuntimeWarning;
    or an error that says which mechanism is meant."""
    eps, delta = ODD_EPS, ODD_DELTA
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)
        warnings.simplefilter('error', RuntimeWarning)
        exact = truth_of(mechanism)
        for name, build in {**PROVING, **ESTIMATING}.items():
            try: accountant = build(mechanism)
            except ValueError as error:
                assert 'mechanism must have' in str(error) and name in ESTIMATING
                continue
            for (low, mid, up), truth in zip((accountant.delta(eps), accountant.epsilon(delta)),
                                             exact):
                assert (low <= mid).all() and (mid <= up).all() and (low >= 0).all(), name
                assert (low <= truth.upper).all() and (truth.lower <= up).all(), name
                if (name in ESTIMATING and 'gdp' not in name and not accountant.directions[0].p_inf
                        and accountant.directions[0].parts):
                    assert (low == 0).all()

LONGEST_LINES = 'rate=1e-09', 'rate=1e-12', 'sigma=1e+90'

@pytest.mark.parametrize('mechanism', marked(LONGEST_LINES), ids=lambda m: f'{m}'[:80])
def test_the_contour_on_odd_mechanisms(mechanism):
    "Ordered bounds that meet those that are kept, no NaN and no RuntimeWarning."
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)
        warnings.simplefilter('error', RuntimeWarning)
        answers = asked(mechanism)
    for (low, mid, up), truth in zip(answers, truth_of(mechanism), strict=True):
        assert (0 <= low).all() and (low <= mid).all() and (mid <= up).all()
        assert (low <= truth.upper).all() and (truth.lower <= up).all()

def test_trivial_bounds():
    "A method that proves nothing says so."
    for build in ESTIMATING.values():
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            assert build(100*S(1., .1)).delta([.5, 1.])[0].tolist() == [0, 0]
            assert build(100*S(1., .1)).delta([.5, 1.])[2].tolist() == [1, 1]
            assert build(100*S(1., .1)).epsilon(1e-5)[0] == 0
            assert build(100*S(1., .1)).epsilon(1e-5)[2] == np.inf

def test_identical_steps():
    "The sharper constant: narrower, still right."
    for steps, n in ((S(1., .01), 1000), (PureDP(eps=.1), 100), (Laplace(scale=5.), 50)):
        wide, narrow, truth = (a.delta([.5, 1., 2.])
                               for a in (SaddlePointCLT(n*steps),
                               SaddlePointCLT(n*steps, identical=True), ContourAccountant(n*steps)))
        assert (wide.upper - wide.lower >= narrow.upper - narrow.lower).all()
        assert (narrow.lower <= truth.upper).all()
        assert (truth.lower <= narrow.upper).all()
        assert (narrow.upper < wide.upper).any()

def test_never_above_moments():
    "The CLT's upper bound is at most the tight moments bound, and that at most the classic one."
    for m in (3000*S(2., .01), 10*S(.5, .1), 20*PureDP(eps=.5)):
        clt, tight, classic = (a.epsilon([1e-3, 1e-9]).upper
                               for a in (SaddlePointCLT(m), MomentsAccountant(m),
                               MomentsAccountant(m, conversion='classic')))
        assert (clt <= tight*(1 + 1e-3)).all() and (tight <= classic).all()

# The saddle-point

@given(st.floats(.3, 30), st.floats(1e-6, .9), st.integers(1, 10**7), st.floats(0, 30),
       st.booleans())
def test_saddle_point_solves_its_equation(sigma, rate, n, eps, add):
    plrv = (n*S(sigma, rate)).add if add else (n*S(sigma, rate)).remove
    if eps >= plrv.ess_sup*(1 - 1e-9):
        if eps >= plrv.ess_sup:
            with pytest.raises(ValueError, match='eps must be in'): saddle_point(plrv, eps)
        return
    t = saddle_point(plrv, eps)
    if t > 1e8: return                                    # delta is below all doubles
    K1, K2 = plrv.cumulants(t)
    # t to 8 digits
    assert t > 0
    assert abs(K1 - eps - 1/t - 1/(1 + t)) < 1e-8*t*(K2 + 1/t**2 + 1/(1 + t)**2)

def test_saddle_point_range():
    "From 1e-8 to 1e6, with a closed form to compare with: K' = mu^2 (t + 1/2)."
    for mu, eps in ((1e4, 0.), (1e-3, 1.), (1e-6, 1e-6), (1., 5.)):
        t = saddle_point(Gaussian(sigma=1/mu).remove, eps)
        def equation(x, mu=mu, eps=eps):
            return mu**2*(x + .5) - eps - 1/x - 1/(1 + x)
        with mp.workdps(30):
            want = mp.findroot(equation, t)
        assert t == pytest.approx(float(want), rel=1e-10)
    assert saddle_point(Gaussian(sigma=1e-4).remove, 0.) < 3e-8
    assert saddle_point(Gaussian(sigma=1e3).remove, 1.) > 9e5

def test_solver():
    """From wherever it begins: to the root, or to the limit, never beyond it, and in a few steps
    where the function is smooth."""
    asked = []
    def step(t, i):
        asked.append((t, i))
        return np.choose(i, [t**3 - 8, np.log(t) + 20, 1 - 3/t, t - 1e9]), np.choose(i,
            [3*t*t, 1/t, 3/t**2, 0*t + 1])
    for guess in (1e-30, 1., 1e30):
        asked.clear()
        t = solve_increasing(step, np.full(4, guess), 1e4, 1e-12)
        assert t == pytest.approx([2, np.exp(-20), 3, 1e4], rel=1e-11)
        assert max(x.max() for x, _ in asked) <= 1e4 and sum((i < 3).any() for _, i in asked) < 40

def test_pulls_have_their_slopes():
    t = np.geomspace(1e-3, 1e3, 13)
    for pull in (saddle_pull, moments_pull):
        assert pull(t)[1] == pytest.approx((pull(t*(1 + 1e-5))[0] - pull(t*(1 - 1e-5))[0])/(2e-5*t),
                                           rel=1e-8)

def test_phase_transition_agrees_with_the_curve():
    "Where K' climbs by orders of magnitude, t0 is still the minimum of F."
    plrv = (1000*S(.3, 1e-4)).remove
    for eps in (.5, 1., 5., 20., 80.):
        t = saddle_point(plrv, eps)
        near = t*np.linspace(.98, 1.02, 41)
        F = plrv.cgf(near) - eps*near - np.log(near*(1 + near))
        assert abs(F.argmin() - 20) <= 1

# Published settings [SP Fig. 1-6]: order 1 within 0.1 % in eps

@pytest.mark.parametrize('mechanism, deltas',
                         [*[(n*S(2., .01), [1e-15]) for n in (2000, 2500, 3500, 4500)],
                         (3000*S(2., .01), [1e-5, 1e-10, 1e-15]),
                         *[(n*S(9.4, 2**14/50000), [1e-5]) for n in (100, 250, 500, 1000, 2000)],
                         (1000*Laplace(scale=100.), [1e-5, 1e-10, 1e-15])],
                         ids=lambda v: f'{v}'[:70])
def test_published_accuracy(mechanism, deltas):
    truth = ContourAccountant(mechanism).epsilon(deltas).estimate
    msd = SaddlePointMSD(mechanism).epsilon(deltas).estimate
    clt = SaddlePointCLT(mechanism).epsilon(deltas)
    assert np.abs(msd/truth - 1).max() < 1e-3 and np.abs(clt.estimate/truth - 1).max() < 1e-3
    assert (clt.lower <= truth).all() and (truth <= clt.upper).all()

def test_published_closed_forms():
    "[SP 31, 32, 33] written out."
    plrv, eps = (3000*S(2., .01)).remove, 1.5
    t, F = saddle_point(plrv, eps), {}
    for k, kappa in enumerate(plrv.cumulants(t, 6), 1):
        F[k] = kappa + (-1)**k*mp.factorial(k - 1)*(t**-k + (1 + t)**-k)
    first = mp.exp(plrv.cgf(t) - eps*t)/mp.sqrt(2*mp.pi*t*t*(1 + t)**2*F[2])
    b2, b3 = F[4]/(8*F[2]**2), -5*F[3]**2/(24*F[2]**3) - F[6]/(48*F[2]**3)
    for order, want in ((1, first), (2, first*(1 + b2)), (3, first*(1 + b2 + b3))):
        assert SaddlePointMSD(plrv, order=order).delta(eps).estimate == pytest.approx(float(want),
            rel=1e-9)
    assert SaddlePointMSD(plrv, order=2,
                          grouping='classical').delta(eps).estimate == pytest.approx(float(first
                          *(1 + b2 - 5*F[3]**2/(24*F[2]**3))), rel=1e-9)

def test_curve_is_the_curve():
    "Every tilt is a saddle-point: the parametric curve and the solved one are the same."
    run_, t = 500*S(1., .05), np.geomspace(.5, 10, 30)
    for build in (SaddlePointMSD, SaddlePointCLT, MomentsAccountant):
        eps, delta = build(run_).curve(t)
        assert eps.shape == delta.shape == (2, 30)
        for plrv, e, d in zip((run_.remove, run_.add), eps, delta):
            inside = (e > 0) & (e < plrv.ess_sup)
            assert np.allclose(build(plrv).delta(e[inside]).estimate, d[inside], rtol=1e-8, atol=0)

# Extremes

def test_log_space():
    "delta = 1e-300 and 10^7 steps."
    for n in (3000, 10**7):
        m = n*S(20., .01)
        truth = ContourAccountant(m).epsilon(1e-300).estimate
        clt = SaddlePointCLT(m).epsilon(1e-300)
        assert clt.lower <= truth <= clt.upper
        assert SaddlePointMSD(m).epsilon(1e-300).estimate == pytest.approx(truth, rel=1e-4)
        assert clt.estimate == pytest.approx(truth, rel=1e-4)
        assert SaddlePointMSD(m).delta(truth).estimate == pytest.approx(1e-300, rel=.05)

@pytest.mark.parametrize('mu', [.01, 1., 9.9, 10.1, 40., 100., 1e3, 1e5])
def test_normal_curve(mu):
    "The closed form behind it all, for narrow and for very wide losses."
    with mp.workdps(60):
        for a in (30., 3., 1.001, .999, 0., -1., -8., -30.):
            eps = mu*mu/2 - a*mu
            # e^eps Phi(a - mu)
            second = mp.exp(-mp.mpf(a)**2/2)*mp.erfc((mp.mpf(mu) - a)
                /mp.sqrt(2))*mp.exp((mp.mpf(mu) - a)**2/2)/2
            want = mp.log(mp.ncdf(a) - second)
            assert gaussian_log_delta(eps, mu) == pytest.approx(float(want), rel=1e-12,
                abs=3e-13*max(1, abs(eps)/mu**2*mu*abs(a), abs(a)))

def test_gaussian_steps_cost_nothing():
    """A Gaussian is infinitely divisible: with Gaussians alone the CLT version is exact, proved to
    1e-8; beside others they only help."""
    m = 100*Gaussian(sigma=20.)
    for accountant in (SaddlePointCLT(m), GaussianLimit(m)):
        bounds = accountant.delta([.1, 1., 3.])
        assert np.allclose(bounds.estimate, m.remove.delta([.1, 1., 3.]), rtol=1e-9)
        assert (bounds.upper - bounds.lower < 1e-7*bounds.upper + 1e-11).all()
    assert lyapunov_sum((m + 10*S(1., .1)).remove, 1.) == lyapunov_sum((10*S(1., .1)).remove, 1.)

@pytest.mark.parametrize('sigma', [1e-6, 1e-3, .1, 30., 1e4, 1e7])
def test_rounding_allowances(sigma):
    """What is allowed for rounding is what a change of the question by some 1e-12 makes, and 5e-9
    of delta, not more: from losses of 1e12 nats to such of 1e-7."""
    m, x = Gaussian(sigma=sigma), np.array([-1., 0., 2., 5., 12., 30.])
    eps = np.maximum(.5/sigma**2 + x/sigma, 0)
    low, _, up = np.log(SaddlePointCLT(m).delta(eps))
    exact, moved = m.remove.log_delta(eps), np.abs(m.remove.log_delta(eps*(1 + 1e-12))
        - m.remove.log_delta(eps*(1 - 1e-12)))
    assert (low <= exact + 1e-12 + moved).all()
    assert (exact <= up + 1e-12 + moved).all()
    assert (up - low <= 5e-9 + moved).all()
    low, _, up = GaussianLimit(m).delta(eps)
    assert (low <= np.exp(exact + moved) + 1e-15).all()
    assert (np.exp(exact - moved) <= up + 1e-15).all()
    assert (low < np.exp(exact)).all()
    assert (np.exp(exact) < up).all()
    assert (up - low <= 1e-11 + 2e-2*moved).all()
    ends = SaddlePointCLT(m).epsilon([.4, 1e-3, 1e-9, 1e-100])
    assert (ends.upper - ends.lower <= 5e-9/sigma + 1e-12/sigma**2 + 1e-12).all()

def test_the_allowance_of_sums_is_needed(monkeypatch):
    """A Gaussian's bounds hold its curve at each tilt, 5900 nats out, in 60 digits: an exponent of
    1.7e7 is rounded there. Without the allowance some do not."""
    plrv, eps, t = (1*Gaussian(sigma=1.)).remove, 5864.2, np.linspace(.1, 3, 59)
    with mp.workdps(60):
        def tail(x): return mp.erfc(x/mp.sqrt(2))/2
        at = mp.mpf(eps)
        exact = mp.log(tail(at - .5) - mp.exp(at)*tail(at + .5))
    def held():
        each = [TiltTable(plrv, u, BERRY_ESSEEN).log_bounds(np.array([eps])) for u in t[:, None]]
        return [low[0] <= exact <= up[0] for low, up in each]
    assert all(held())
    monkeypatch.setattr(tilted_clt, 'SUM_ULPS', 0)
    assert not all(held())

def test_renyi():
    "rdp against closed forms, and Gaussian's tight conversion as in [GDP 4.1]."
    assert rdp(4*Gaussian(sigma=2.), [1, 2.5, 100]) == pytest.approx(np.array([1, 2.5, 100])/2)
    assert rdp(RandomizedResponse(eps=1.),
               2.) == pytest.approx(float(mp.log((mp.e**2 + mp.e**-1)/(1 + mp.e))))
    assert rdp(0*Gaussian(sigma=1.), 3) == 0 and rdp(ApproxDP(eps=1., delta=.1), 3) == np.inf
    assert MomentsAccountant(420*Gaussian(sigma=100.)).epsilon(1e-5).upper == pytest.approx(.8156,
        abs=5e-5)

@pytest.mark.parametrize('sigma', [.1, .15, .2, .5, 1., 2., 10.])
def test_large_orders_at_small_noise(sigma):
    """1344 sampled Gaussians against the sum over a binomial [Mironov et al. 2019], orders up to
    1024: at sigma .1 it has terms of e^52,000,000."""
    def exact(order, rate):
        k = np.arange(order + 1)
        log_rest = xlogy(order - k, 1 - rate)
        terms = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        return logsumexp(terms + k*np.log(rate) + log_rest + k*(k - 1)/(2*sigma**2))/(order - 1)
    orders = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 256, 512, 1024]
    rates = [1e-6, 1e-5, 1e-4, 1e-3, .005, .01, .02, .05, .1, .3, .7, 1.]
    for rate in rates:
        found = rdp(S(sigma, rate) if rate < 1 else Gaussian(sigma=sigma), np.array(orders, float))
        known = np.array([exact(a, rate) for a in orders])
        assert np.isfinite(found).all()
        # (the sum itself loses digits where it is nearly 0)
        assert found == pytest.approx(known, rel=1e-7, abs=1e-12)

# What the theory does not cover

class Heavy(PLRV):
    "A loss with an exponential tail: its MGF ends at t = 2."
    def cgf(self, z):
        return np.where(np.asarray(z) < 2,
                        -np.log(np.maximum(1 - np.asarray(z, float)/2, 1e-300)) - .7*np.asarray(z),
                        np.inf)
    def cumulants(self, t=0., order=2):
        return np.array([np.where(np.asarray(t) < 2,
                                  1/np.maximum(2 - np.asarray(t, float), 1e-300)**k, np.inf)
                                  for k in range(1, order + 1)])

def test_infinite_mgf():
    with pytest.raises(ValueError, match='finite moment generating function'):
        SaddlePointMSD(Heavy()).delta(50.)

def test_no_density():
    for m in (10*PureDP(eps=1.), Discrete(p=(.5, .5), q=(.4, .6)),
              PoissonSubsampled(base=ApproxDP(eps=1., delta=.1), rate=.1)):
        with pytest.raises(ValueError, match='mechanism must have a step with a density'):
            SaddlePointMSD(m)
    SaddlePointMSD(PureDP(eps=1.) + Gaussian(sigma=1.)).delta(1.)

def test_beyond_the_support():
    plrv = (10*S(1., .1)).add
    for build in (SaddlePointMSD, SaddlePointCLT, MomentsAccountant):
        assert build(plrv).delta(plrv.ess_sup + 1e-6).estimate == 0
    assert SaddlePointCLT(plrv).delta(plrv.ess_sup + 1e-6) == (0, 0, 0)

def test_warning_when_the_series_grows():
    with pytest.warns(UserWarning, match='do not decrease at 1 of 2 points, first eps = 3'):
        SaddlePointMSD(3000*S(2., .01), order=3).delta([1., 3.])
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        SaddlePointMSD(3000*S(2., .01)).delta([.5, 1., 2.])
        SaddlePointMSD(3000*S(2., .01), order=3).delta(1.)

def test_the_warning_points_at_the_line_that_asked():
    accountant = SaddlePointMSD(3000*S(2., .01), order=3)
    def ask(method, x): return method(x)
    for method, x in [(accountant.delta, 3.), (accountant.delta, [1., 3.]),
                      (accountant.epsilon, 9e-24)]:
        with pytest.warns(UserWarning, match='do not decrease') as caught:
            ask(method, x)
        assert {w.filename for w in caught} == {__file__}
        assert {w.lineno for w in caught} == {ask.__code__.co_firstlineno}

M = 10*S(1., .1)
@pytest.mark.parametrize('text, error, call',
                         [('order must be an integer, got 1.5', TypeError,
                         lambda: SaddlePointMSD(M, order=1.5)),
                         ('order must be an integer >= 1, got 0', ValueError,
                         lambda: SaddlePointMSD(M, order=0)),
                         (r'order must be an integer in \[1, 8\], got 9: beyond, rounding',
                         ValueError, lambda: SaddlePointMSD(M, order=9)),
                         ('order must be an integer, got True', TypeError,
                         lambda: SaddlePointMSD(M, order=True)),
                         ("grouping must be 'paper' or 'classical', got 'x'", ValueError,
                         lambda: SaddlePointMSD(M, grouping='x')),
                         ("conversion must be 'tight' or 'classic', got 'rdp'", ValueError,
                         lambda: MomentsAccountant(M, conversion='rdp')),
                         ("kind must be 'clt' or 'gdp', got 3", ValueError,
                         lambda: GaussianLimit(M, kind=3)),
                         ('identical must be True or False, got 1', TypeError,
                         lambda: SaddlePointCLT(M, identical=1)),
                         ('identical must be False', ValueError,
                         lambda: SaddlePointCLT(M + Laplace(scale=1.), identical=True)),
                         ('mechanism must be a Mechanism', TypeError,
                         lambda: SaddlePointCLT('run')),
                         ('mechanism must have a finite loss', ValueError,
                         lambda: GaussianLimit(ApproxDP(eps=1., delta=.1), kind='gdp')),
                         (r'eps must be in \[0, inf\], got -1', ValueError,
                         lambda: SaddlePointMSD(M).delta(-1.)),
                         (r'delta must be in \[0, 1\), got -1', ValueError,
                         lambda: SaddlePointCLT(M).epsilon(-1)),
                         (r'delta must be in \[0, 1\), got nan', ValueError,
                         lambda: MomentsAccountant(M).epsilon(np.nan)),
                         ('eps must be a number', TypeError, lambda: GaussianLimit(M).delta('1')),
                         (r'alpha must be in \[1, 1e\+100\], got 0.5', ValueError,
                          lambda: rdp(M, .5)),
                         (r'delta must be in \(0, 0.5\), got 0.6', ValueError,
                         lambda: asymptotic_epsilon(M, delta=.6)),
                         ('mechanism must have at least one step', ValueError,
                         lambda: asymptotic_epsilon(0*M, delta=.1)),
                         ('plrv must be a PLRV', TypeError, lambda: saddle_point(M, 1.)),
                         ('plrv must be a PLRV', TypeError, lambda: asymptotic_saddle_point(3, 1.)),
                         (r'tilts must be in \(0, inf\), got 0', ValueError,
                         lambda: SaddlePointMSD(M).curve([0., 1.])),
                         ('tilts must be a 1-d array', ValueError,
                         lambda: SaddlePointMSD(M).curve(1.)),
                         *[('c must have 2 order - 2 rows', ValueError, lambda c=c: msd_terms(c))
                         for c in (1., np.ones(3), np.ones((24, 2)))],
                         ("grouping must be 'paper'", ValueError,
                         lambda: msd_terms(np.ones(2), 'x')),
                         ('noise over sensitivity', ValueError,
                         lambda: SaddlePointMSD(S(1e-3, .1)).delta(1.))])
def test_bad_input(text, error, call):
    with pytest.raises(error, match=text): call()

def test_high_orders_stop():
    "Eight terms and no more; each is what the definition says, whatever the shape."
    c = np.random.default_rng(0).normal(size=(14, 3))
    assert msd_terms(c).shape == (7, 3) and np.allclose(msd_terms(c)[:, 1], msd_terms(c[:, 1]))
    assert msd_terms(np.empty((0, 4))).shape == (0, 4)

@pytest.mark.parametrize('eps', [-3., 0., .04, .5, 4., 30.])
def test_asymptotic_saddle_point_solves_its_equation(eps):
    """K''(0) t = eps - K'(0) + 1/t, of which [SP 35] is the positive root, on both sides of the
    mean."""
    plrv = (1000*PoissonSubsampled(base=Gaussian(sigma=2.), rate=.01)).remove
    mean, var = plrv.cumulants(0.)
    t = asymptotic_saddle_point(plrv, eps)
    assert t > 0 and var*t == pytest.approx(eps - mean + 1/t, rel=1e-9)

def test_high_orders_of_a_rare_loss():
    """Where nearly all of the mass is at one atom, high cumulants neither overflow on the way nor
    vanish: those of a coin, written out."""
    plrv, t = (Gaussian(sigma=1.) + RandomizedResponse(eps=400.)).remove, .1
    # probability of -400 under the tilt; 1 - rare is 1 to 200 digits
    rare = mp.exp(-480)
    want = [1 + rare*800**2] + [rare*(-800)**n for n in range(3, 9)]
    assert plrv.cumulants(t, 8)[1:] == pytest.approx([float(w) for w in want], rel=1e-9, abs=0)
    with pytest.warns(UserWarning, match='do not decrease'):
        assert np.isfinite(SaddlePointMSD(plrv, order=8).delta([0., 1., 399., 401.])).all()

def test_the_tilts_tried_suffice():
    """Theorem 5.6 holds at every tilt: the few that are tried give bounds as good as 500 do, to a
    hundredth."""
    for m, eps in ((3000*S(2., .01), np.array([.3, 1., 2.])),
                   (200*PureDP(eps=.1), np.array([.5, 3., 6.]))):
        a = SaddlePointCLT(m.remove)
        low, _, up = a.delta(eps)
        t = saddle_point(m.remove, eps)
        best = np.exp([TiltTable(a.directions[0], np.linspace(.3, 1.5, 500)*x,
                                 .56).log_bounds(np.array([e])) for x, e in zip(t, eps)])[..., 0].T
        assert (low <= best[0]*1.001).all()
        assert (low >= best[0] - .01*best[1]).all()
        assert (up >= best[1]*.999).all()
        assert (up <= best[1]*1.01).all()
