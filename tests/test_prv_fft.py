"The FFT accountants: what they prove against the certified contour, where their rivals fail, and lattices against exact sums."
import json, math, re, warnings
from decimal import Decimal
import numpy as np
import pytest
from mpmath import mp, mpf
from certify import FILE, run
from test_saddlepoint import ODD, ODD_DELTA, ODD_EPS, S, truth_of
from dp_saddle import (ApproxDP, ContourAccountant, Discrete, DiscreteGaussian, DiscreteLaplace, FourierAccountant, Gaussian, Laplace, PoissonSubsampled,
    PRVAccountant, RandomizedResponse, TiltedFFT, with_replacement, without_replacement)
from dp_saddle.plrv import ComposedLoss
from dp_saddle.prv_fft import connect_the_dots, fourier_tail

def prv(plrv, eps_error=.1, **more):
    "As asked, or with the smallest error that fits into memory."
    try: return PRVAccountant(plrv, eps_error=eps_error, **more)
    except ValueError as error: return PRVAccountant(plrv, eps_error=float(re.search('at least ([0-9.e+-]+)', str(error))[1]), **more)

# PRV

@pytest.mark.parametrize('part', range(5))
def test_prv_on_random_settings(part):
    "All 300 random runs: lower <= truth <= upper."
    for row in json.load(open(FILE))[part::5]:
        bounds = prv(getattr(run(row['steps']), row['direction']), max_points=1 << 21).delta(row['eps'])
        assert Decimal(bounds.lower) <= Decimal(row['high']) and Decimal(row['low']) <= Decimal(bounds.upper), row
        assert bounds.lower <= bounds.estimate <= bounds.upper

def contained(accountant, mechanism):
    for (low, mid, up), truth in zip((accountant.delta(ODD_EPS), accountant.epsilon(ODD_DELTA)), truth_of(mechanism)):
        assert (0 <= low).all() and (low <= mid).all() and (mid <= up).all()
        assert (low <= truth.upper*(1 + 1e-12)).all() and (truth.lower <= up*(1 + 1e-12)).all()

@pytest.mark.parametrize('mechanism', ODD, ids=lambda m: f'{m}'[:80])
def test_prv_on_odd_mechanisms(mechanism):
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning); warnings.simplefilter('ignore', UserWarning)
        contained(prv(mechanism, max_points=1 << 20), mechanism)

@pytest.mark.parametrize('mechanism, eps_error', [(1000*S(.8, 4e-3), .1), (2000*S(1., .1), .1), (100*S(.1, .1), .1), (10**6*S(1., 1e-6), .1), (10**7*S(1., 1e-4), .1), (sum(3*S(1. + i/50, .01 + i/5000) for i in range(100)), .1), (3000*S(2., .01), .01)], ids=lambda x: f'{x}'[:60])
def test_prv_where_rivals_fail(mechanism, eps_error):
    "delta 1e-14 and below, eps above 100, sigma .1, rate 1e-6 with 10^6 steps, 10^7 steps, 100 distinct mechanisms: an answer, finite, and right."
    a, exact = PRVAccountant(mechanism, eps_error=eps_error), ContourAccountant(mechanism)
    for delta in (1e-3, 1e-6, 1e-14, 1e-20, 1e-100):
        b, c = a.epsilon(delta), exact.epsilon(delta)
        assert b.lower <= c.upper and c.lower <= b.upper < np.inf
        if delta > 1e-5 and b.lower > 0: assert b.upper - b.lower < 2*eps_error*1.1

def test_prv_width_and_closed_form():
    "Without sampling [PRV Fig. 2]: sandwiched, 2 eps_error apart."
    m, eps = 50*Gaussian(sigma=10.), np.linspace(0, 3, 40)
    a = PRVAccountant(m, eps_error=.05)
    low, _, up = a.delta(eps)
    assert (low <= m.remove.delta(eps)).all() and (m.remove.delta(eps) <= up).all()
    for delta in (1e-2, 1e-5): assert a.epsilon(delta).upper - a.epsilon(delta).lower == pytest.approx(.1, rel=1e-3)

def test_prv_memory_budget():
    with pytest.raises(ValueError, match=r'eps_error must be at least [0-9.e-]+ to fit into max_points = 16777216, got 0.001') as error: PRVAccountant(10**6*S(.8, 4e-3), eps_error=1e-3)
    with pytest.raises(ValueError) as error: PRVAccountant(1000*S(.8, 4e-3), eps_error=.01, max_points=1 << 14)
    fits = float(re.search('at least ([0-9.e-]+)', str(error.value))[1])
    assert .01 < fits < .2 and PRVAccountant(1000*S(.8, 4e-3), eps_error=fits, max_points=1 << 14)
    with pytest.raises(ValueError): PRVAccountant(1000*S(.8, 4e-3), eps_error=.95*fits, max_points=1 << 14)

def test_prv_bad_input():
    m = 10*S(1., .1)
    for how, match in ((dict(eps_error=0), 'eps_error must be in'), (dict(eps_error=-1.), 'eps_error must be in'), (dict(delta_error=1.), 'delta_error must be in'), (dict(delta_error=0.), 'delta_error must be in'), (dict(max_points=3), 'max_points must be an integer >= 64')):
        with pytest.raises(ValueError, match=match): PRVAccountant(m, **how)
    with pytest.raises(TypeError, match='mechanism must be'): PRVAccountant('x')

# Fourier

@pytest.mark.parametrize('L, n, published', [(12., 50_000, '0.0491228786423'), (12., 200_000, '0.0496013846114'), (12., 800_000, '0.0496014103252'), (12., 3_200_000, '0.0496014103163'), (2., 3_200_000, '0.0422160172923'), (6., 3_200_000, '0.0496014103158'), (10., 3_200_000, '0.0496014103134')])
def test_fourier_tables(L, n, published):
    "[FA] Tables 1 and 2: the published figures have some 2e-12 of rounding in them (the exact value is .04960141031495)."
    a = FourierAccountant((10**4*S(1.5, .01)).remove, L=L, n=n)
    assert a.delta(1.).estimate == pytest.approx(float(published), abs=2e-11 if L > 2 else 1e-7)

def test_fourier_estimates():
    m = 500*S(1., .02) + 100*S(2., .05) + 50*Gaussian(sigma=20.)
    a, exact = FourierAccountant(m), ContourAccountant(m)
    eps = np.array([.1, .5, 1., 2., 4.])
    low, mid, up = a.delta(eps)
    assert (low == 0).all() and (up == 1).all() and (np.abs(mid - exact.delta(eps).estimate) <= a.error(eps) + 1e-11).all()
    low, mid, up = a.epsilon([1e-2, 1e-6])
    assert (low == 0).all() and np.isinf(up).all() and np.allclose(mid, exact.epsilon([1e-2, 1e-6]).estimate, rtol=1e-4)
    assert a.epsilon(.9).estimate == 0 and a.epsilon(1e-40).estimate > exact.epsilon(1e-12).lower          # rivals give one too small eps for all tiny delta
    assert a.delta(np.zeros((2, 3))).estimate.shape == (2, 3) and a.error(1.).shape == ()

def test_fourier_says_when_it_missed():
    "A grid that does not see the density: the error says so. A slope at 0 that is all rounding: Newton is not believed."
    a = FourierAccountant(without_replacement(sigma=.05, rate=.01, steps=10), n=1 << 12)
    assert a.error(0.) > .9
    m = Gaussian(sigma=.1)
    assert FourierAccountant(m).epsilon(1e-6).estimate == pytest.approx(ContourAccountant(m).epsilon(1e-6).estimate, rel=1e-6)

def test_newton_needs_no_search(monkeypatch):
    "Where the slope is sound, [FA 5.4] alone finds eps."
    a, exact = FourierAccountant(1000*S(2., .01)), ContourAccountant(1000*S(2., .01))
    monkeypatch.setattr('dp_saddle.prv_fft._GridCurve.epsilon', lambda self, delta: np.nan*delta)
    assert a.epsilon([.05, 1e-4, 1e-7]).estimate == pytest.approx(exact.epsilon([.05, 1e-4, 1e-7]).estimate, rel=1e-6)

def test_the_conditions_of_the_tail_bound():
    "[FA Thm 8] asks for rate <= 1/5, sigma >= 4, L/2 > 1 and two more: in all corners, each of these alone can make the difference."
    seen = set()
    for L in np.geomspace(1.5, 300, 1500).tolist():
        for sigma in (1., 3.9, 4., 8.):
            for q in (1e-6, 1e-3, .05, .2, .201):
                lam, s2 = L/2, sigma*sigma
                c = math.log((q*(lam - 1) + 1)/(q*(lam - 1))) if lam > 1 else math.nan
                conditions = (lam > 1, q <= .2, sigma >= 4, lam + 2*math.log(sigma) <= s2*c/2, lam*(c + math.log(q*lam) + .5/s2) + math.log(5*s2) <= s2*c/2)
                assert fourier_tail(L, sigma, q, 10)[1] == all(conditions), (L, sigma, q)
                seen.add(conditions)
    assert {(True, True, True, True, True), (True, True, True, True, False), (True, True, True, False, True), (True, False, True, True, True), (True, True, False, True, True)} <= seen, seen

def test_grids_are_as_large_as_announced():
    "What a loss says of its grid is what refuses noise that is too small."
    for plrv in (PoissonSubsampled(base=Gaussian(sigma=.7), rate=.1).remove, S(3., .01).add, without_replacement(sigma=2., rate=.1, steps=1), PoissonSubsampled(base=Laplace(scale=.02), rate=.1).remove, DiscreteGaussian(sigma=3.).remove):
        for p in [p for p, _ in plrv.parts] if hasattr(plrv, 'parts') else [plrv]:
            for t in (.5, 6., 40.): assert .95*(len(p.path(t, 0., 0.)[0]) - 3) <= p.nodes_at(t) <= 1.2*len(p.path(t, 0., 0.)[0]) + 500

def test_fourier_tails():
    "Thm 8 is a bound; [7.3] has its published values (cut off after three digits, not rounded)."
    assert fourier_tail(12., 1.5, .01, 10**4) == (pytest.approx(8.30e-24, rel=4e-3, abs=0), False) and fourier_tail(6., 1.5, .01, 10**4)[0] == pytest.approx(3.32e-6, rel=4e-3)
    value, proved = fourier_tail(6., 8., .01, 1000)
    plrv = (1000*S(8., .01)).remove
    assert proved and value > ContourAccountant(plrv).delta(6.).upper
    assert value == pytest.approx(math.exp(1000*math.log1p(2*.01**2*4*3/8**2) - 18), rel=1e-12)

def test_fourier_bad_input():
    m = 10*S(1., .1)
    for how, match in ((dict(L=0.), 'L must be in'), (dict(n=1001), 'n must be even'), (dict(n=2), 'n must be an integer >= 16'), (dict(n=1 << 25), 'n must be even and at most')):
        with pytest.raises(ValueError, match=match): FourierAccountant(m, **how)
    for m in (10*Laplace(scale=1.), RandomizedResponse(eps=1.), S(1., .1) + ApproxDP(eps=.1, delta=1e-6)):
        with pytest.raises(ValueError, match='FourierAccountant needs losses with a density'): FourierAccountant(m)
    assert FourierAccountant(0*Gaussian(sigma=1.)).epsilon(.1).estimate == 0

# Other sampling

@pytest.mark.parametrize('law', [without_replacement(sigma=1.5, rate=.1, steps=30), with_replacement(sigma=2., batch_size=50, dataset_size=500, steps=30)], ids=['without', 'with'])
def test_replace_one(plrv):
    "Density, cdf and loss agree; PRV bounds contain the Fourier estimate; nothing is proved by those that cannot."
    part = plrv.parts[0][0]
    s = np.linspace(-6, 6, 200001)
    p = part.density(s)
    assert p.sum()*(s[1] - s[0]) == pytest.approx(1, abs=1e-9) and (p*np.exp(-s)).sum()*(s[1] - s[0]) == pytest.approx(1, abs=1e-9)
    assert part.cumulants(0., 2)[0] == pytest.approx((p*s).sum()*(s[1] - s[0]), rel=1e-9) and part.reverse is part
    eps = np.array([.1, .5, 1., 2.])
    bounds, estimate = PRVAccountant(plrv, eps_error=.02).delta(eps), FourierAccountant(plrv, n=1 << 16).delta(eps).estimate
    assert (bounds.lower <= estimate).all() and (estimate <= bounds.upper).all()
    for build in (ContourAccountant, TiltedFFT):
        with pytest.raises(ValueError, match='this loss has no proved bounds'): build(plrv).delta(1.)

def test_many_draws_of_one_record():
    "More than a thousand copies in a batch: all of them count."
    few, many = (with_replacement(sigma=200., batch_size=m, dataset_size=2).parts[0][0] for m in (1000, 2000))
    assert many.l.max() > 1200 and np.exp(many.logw).sum() == pytest.approx(1) and many.l @ np.exp(many.logw) == pytest.approx(1000, rel=1e-9) and few.l @ np.exp(few.logw) == pytest.approx(500, rel=1e-9)
    with pytest.raises(ValueError, match='batch_size must be in'): with_replacement(sigma=1., batch_size=10**7, dataset_size=10)

def test_replace_one_bad_input():
    for build, match in ((lambda: without_replacement(sigma=0, rate=.1), 'sigma'), (lambda: without_replacement(sigma=1., rate=1.), 'rate'), (lambda: without_replacement(sigma=1., rate=.1, steps=0), 'steps'), (lambda: with_replacement(sigma=1., batch_size=0, dataset_size=10), 'batch_size'), (lambda: with_replacement(sigma=1., batch_size=5, dataset_size=1), 'dataset_size')):
        with pytest.raises(ValueError, match=match): build()

# Dots

LAWS = [S(1., .1), S(2., .01), S(.5, .3), S(1., 1e-4), Gaussian(sigma=1.), Gaussian(sigma=.3), Laplace(scale=1.), PoissonSubsampled(base=Laplace(scale=.5), rate=.2), RandomizedResponse(eps=.7), ApproxDP(eps=.3, delta=.01), Discrete(p=(.5, .3, .2), q=(.2, .5, .3)), Discrete(p=(.5, .5, 0.), q=(0., .5, .5))]

@pytest.mark.parametrize('mesh', [.3, .03, .002])
@pytest.mark.parametrize('mechanism', LAWS, ids=lambda m: f'{m}'[:60])
def test_dots_are_above_and_below(mechanism, mesh):
    "Of both directions; and they keep what every pair has: mass 1 under P and at most 1 under Q."
    for plrv in (mechanism.remove, mechanism.add):
        for up in (True, False):
            start, w, end = connect_the_dots(plrv, mesh, up)
            x = mesh*(start + np.arange(len(w)))
            assert w.min() > -1e-9 and w.sum() + end == pytest.approx(1, abs=1e-12) and (w*np.exp(-x)).sum() <= 1 + 1e-9
            eps = np.r_[0, np.random.default_rng(0).uniform(0, min(max(abs(plrv.ess_sup), .1), 20.), 300)]
            for curve, value in ((plrv.delta(eps), np.maximum(-np.expm1(np.subtract.outer(eps, x)), 0) @ w + end), (plrv.reverse.delta(eps), np.maximum(-np.expm1(np.subtract.outer(eps, -x)), 0) @ (w*np.exp(-x)) + max(1 - (w*np.exp(-x)).sum(), 0))):
                assert ((value >= curve*(1 - 1e-9) - 1e-12) if up else (value <= curve*(1 + 1e-9) + 1e-12)).all()

# Tilted

@pytest.mark.parametrize('part', [0, 1, *(pytest.param(k, marks=pytest.mark.slow) for k in range(2, 10))])
def test_tilted_on_random_settings(part):
    "The random runs whose grids are small: lower <= truth <= upper."
    for row in json.load(open(FILE))[part::10]:
        try: bounds = TiltedFFT(getattr(run(row['steps']), row['direction']), max_points=1 << 20).delta(row['eps'])
        except ValueError as error: assert 'mesh must be' in str(error) or 'below 700 nats' in str(error); continue
        assert Decimal(bounds.lower) <= Decimal(row['high'])*(1 + Decimal('1e-12')) and Decimal(row['low']) <= Decimal(bounds.upper), row
        assert bounds.lower <= bounds.estimate <= bounds.upper

@pytest.mark.parametrize('mechanism', [m for m in ODD if '1e-09' not in str(m) and '1e-12' not in str(m)], ids=lambda m: f'{m}'[:80])
def test_tilted_on_odd_mechanisms(mechanism):
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning); warnings.simplefilter('ignore', UserWarning)
        try: contained(TiltedFFT(mechanism), mechanism)
        except ValueError as error: assert 'mesh must be' in str(error) or 'below 700 nats' in str(error)

def test_tilted_binomial():
    "Randomised response: 10 digits against exact sums, from 1e-2 to 1e-250."
    mp.dps = 60
    n, e = 3000, mpf('.1')
    p = 1/(1 + mp.exp(-e))
    a = TiltedFFT(n*RandomizedResponse(eps=.1))
    for eps in (20.05, 40., 100., 200.):
        exact = sum(mp.binomial(n, k)*p**k*(1 - p)**(n - k)*(1 - mp.exp(mpf(eps) - (2*k - n)*e)) for k in range(n + 1) if (2*k - n)*e > eps)
        low, mid, up = a.delta(eps)
        assert low <= exact <= up and abs(mid/exact - 1) < 1e-10 and up/low - 1 < 1e-9

def test_tilted_small_delta():
    m = 3000*S(2., .01)
    a, exact = TiltedFFT(m), ContourAccountant(m)
    for delta in (1e-10, 1e-100, 1e-290):
        b, c = a.epsilon(delta), exact.epsilon(delta)
        assert b.lower <= c.lower and c.upper <= b.upper and b.upper - b.lower < 2e-3
        assert a.delta(c.estimate).estimate == pytest.approx(delta, rel=2e-4)

@pytest.mark.parametrize('mechanism', [5*RandomizedResponse(eps=400.), 2*PoissonSubsampled(base=DiscreteLaplace(scale=1e-3), rate=.1), DiscreteGaussian(sigma=200.), 3*DiscreteGaussian(sigma=800.), 5*Gaussian(sigma=1.) + 10*PoissonSubsampled(base=Gaussian(sigma=50.), rate=.5)], ids=lambda m: f'{m}'[:70])
def test_tilted_extremes(mechanism):
    "Lattices wider than e^709, and finer than a millionth; a step whose dots cannot be lowered."
    a, exact = TiltedFFT(mechanism), ContourAccountant(mechanism)
    for eps in (0., 1e-3, .3, 10., 1999.):
        b, c = a.delta(eps), exact.delta(eps)
        assert b.lower <= c.upper*(1 + 1e-12) and c.lower <= b.upper*(1 + 1e-12)
    for delta in (1e-2, 1e-6):
        b, c = a.epsilon(delta), exact.epsilon(delta)
        assert b.lower <= c.upper*(1 + 1e-12) and c.lower <= b.upper*(1 + 1e-12) and b.upper < c.upper*1.02 + 1e-9

def test_tilted_bad_input():
    for how, match in ((dict(mesh=0.), 'mesh must be in'), (dict(mesh=2.), 'mesh must be in'), (dict(max_points=1), 'max_points')):
        with pytest.raises(ValueError, match=match): TiltedFFT(10*S(1., .1), **how)
    for mesh in (0., 1.5):
        with pytest.raises(ValueError, match='mesh must be in'): connect_the_dots(S(1., .1).remove, mesh)
    with pytest.raises(TypeError, match='plrv must be the PLRV of one step'): connect_the_dots(S(1., .1), .1)
    with pytest.raises(ValueError, match='below 700 nats'): TiltedFFT(Gaussian(sigma=.05))
    with pytest.raises(ValueError, match='mesh must be at least .* to fit into max_points = 256'): TiltedFFT(1000*S(1., .1), mesh=1e-3, max_points=256).delta(1.)

# Discrete mechanisms

@pytest.mark.parametrize('sigma, d', [(1., 1), (3.5, 2), (40., 7), (.4, 1)])
def test_discrete_gaussian(sigma, d):
    "One step against its definition; many steps, contour against lattice; near the Gaussian for large sigma."
    m, x = DiscreteGaussian(sigma=sigma, sensitivity=d), np.arange(-3000, 3001)
    w = np.exp(-x*x/(2*sigma**2)); w /= w.sum()
    for eps in (0., .3, 1.7):
        assert m.remove.delta(eps) == pytest.approx(np.maximum(w - np.exp(eps)*np.roll(w, d), 0).sum(), rel=1e-9, abs=1e-15)
    a, b = TiltedFFT(20*m), ContourAccountant(20*m)
    for delta in (1e-3, 1e-30): assert a.epsilon(delta).lower <= b.epsilon(delta).upper and b.epsilon(delta).lower <= a.epsilon(delta).upper and a.epsilon(delta).upper - a.epsilon(delta).lower < 1e-7
    if sigma > 10: assert a.epsilon(1e-5).upper == pytest.approx(ContourAccountant(20*Gaussian(sigma=sigma, sensitivity=float(d))).epsilon(1e-5).upper, rel=.02)

def test_discrete_laplace():
    x, m = np.arange(-2000, 2001), DiscreteLaplace(scale=3., sensitivity=4)
    w = np.exp(-np.abs(x)/3); w /= w.sum()
    for eps in (0., .5, 1.): assert m.remove.delta(eps) == pytest.approx(np.maximum(np.roll(w, 4) - np.exp(eps)*w, 0).sum(), rel=1e-9)
    assert len(m.remove.atoms[0]) == 5 and m.remove.delta(4/3) < 1e-15
    one, rr = 30*DiscreteLaplace(scale=5.), 30*RandomizedResponse(eps=.2)
    assert TiltedFFT(one).epsilon(1e-6).estimate == pytest.approx(TiltedFFT(rr).epsilon(1e-6).estimate, rel=1e-9)
    assert PRVAccountant(one).epsilon(1e-6).lower <= TiltedFFT(rr).epsilon(1e-6).upper

def test_discrete_bad_input():
    for build, match in ((lambda: DiscreteGaussian(sigma=0), 'sigma must be in'), (lambda: DiscreteGaussian(sigma=801.), 'sigma must be in'), (lambda: DiscreteGaussian(sigma=1., sensitivity=0), 'sensitivity must be an integer >= 1'), (lambda: DiscreteGaussian(sigma=.01), 'sigma/sensitivity must be in'),
                         (lambda: DiscreteLaplace(scale=-1.), 'scale must be in'), (lambda: DiscreteLaplace(scale=1., sensitivity=20000), 'sensitivity must be in')):
        with pytest.raises(ValueError, match=match): build()
    with pytest.raises(TypeError, match='sensitivity must be an integer'): DiscreteGaussian(sigma=1., sensitivity=1.5)
    assert 3*PoissonSubsampled(base=DiscreteGaussian(sigma=2.), rate=.1) == 3*PoissonSubsampled(base=DiscreteGaussian(sigma=2.), rate=.1)
    m = 50*PoissonSubsampled(base=DiscreteGaussian(sigma=2.), rate=.1)
    assert TiltedFFT(m).epsilon(1e-5).upper >= ContourAccountant(m).epsilon(1e-5).lower

def test_losses_a_little_off_their_lattice():
    "Losses -1, 1 and 2 + 4e-11 pass for a lattice of mesh 1 - 4e-11, 1e-8 off after 60 steps: the bounds must know."
    from mpmath import binomial, exp, log, mpf, workdps
    c, d, n = .2, 4e-11, 60
    a = (1 - (1 - c)/np.e - c*np.exp(-2 - d))/(np.e - 1/np.e)
    p = (a, 1 - c - a, c)
    plrv = n*Discrete(p=p, q=(a*np.e, (1 - c - a)/np.e, 1 - a*np.e - (1 - c - a)/np.e))
    step = plrv.steps[0][0]
    with workdps(40):
        p, q = [[mpf(x) for x in v] for v in (step.p, step.q)]
        classes = [(binomial(n, i)*binomial(n - i, j), (i, j, n - i - j)) for i in range(n + 1) for j in range(n - i + 1)]
        for eps in (50., 60.5, 75.3, 90.):
            exact = sum(ways*max(mpf(0), p[0]**k[0]*p[1]**k[1]*p[2]**k[2] - exp(mpf(eps))*q[0]**k[0]*q[1]**k[1]*q[2]**k[2]) for ways, k in classes)
            low, mid, up = TiltedFFT(plrv.remove).delta(eps)
            assert low <= exact <= up < low*(1 + 1e-5) and abs(mid/exact - 1) > 1e-10
