"Edgeworth expansions: accountants that estimate, on anything that can be composed."
import json, warnings
from decimal import Decimal
import numpy as np
import pytest
from scipy.special import gammaln
from certify import FILE, run
from test_saddlepoint import ODD, ODD_DELTA, ODD_EPS, S, truth_of
from dp_saddle import ApproxDP, ContourAccountant, Discrete, EdgeworthAccountant, EdgeworthInterval, Gaussian, Laplace, RandomizedResponse, SaddlePointCLT, TiltedEdgeworth
from dp_saddle.edgeworth import (
    edgeworth_tail, moment_bound, prawitz_bound, standard_cumulants, step_moments,
    transform_bound)
from dp_saddle.saddlepoint import saddle_point

@pytest.mark.parametrize('mechanism', ODD, ids=lambda m: f'{m}'[:80])
@pytest.mark.parametrize('build', [lambda m: EdgeworthAccountant(m, order=3), lambda m: TiltedEdgeworth(m, order=3)], ids=['plain', 'tilted'])
def test_odd_mechanisms(build, mechanism):
    "Trivial bounds around an estimate that is a probability, no NaN, no RuntimeWarning."
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        low, mid, up = build(mechanism).delta([0, 1e-6, .5, 3., 100., 1e8])
        assert (0 <= low).all() and (low <= mid).all() and (mid <= up).all() and (up <= 1).all()
        low, mid, up = build(mechanism).epsilon([.999, .1, 1e-6, 1e-300])
        assert (0 <= low).all() and (low <= mid).all() and (mid <= up).all()

def test_tilted_on_long_runs():
    "On the random runs of certify.py whose tilted loss is nearly normal: order 0 to a per cent or so, order 2 to a thousandth of that."
    errors = []
    for row in json.load(open(FILE)):
        plrv = getattr(run(row['steps']), row['direction'])
        low, high = float(row['low']), float(row['high'])
        if row['route'] != 'contour_mp' or not 1e-250 < low or row['eps'] >= plrv.ess_sup: continue
        k = plrv.cumulants(saddle_point(plrv, row['eps']), 4)
        if abs(k[2])/k[1]**1.5 > .1 or abs(k[3])/k[1]**2 > .1: continue               # the tilted loss has one smooth hump
        errors.append([abs(TiltedEdgeworth(plrv, order=k).delta(row['eps']).estimate/high - 1) for k in (0, 2)])
    errors = np.array(errors)
    assert len(errors) > 60 and np.median(errors[:, 1]) < np.median(errors[:, 0])/1000 and errors[:, 0].max() < .05 and errors[:, 1].max() < 1e-3, errors.max(0)

def test_gaussian_and_zero():
    "Exact for Gaussians at any order; nothing to account for without steps."
    m = 50*Gaussian(sigma=10.)
    for k in (0, 1, 4):
        for build in (EdgeworthAccountant, TiltedEdgeworth): assert np.allclose(build(m, order=k).delta([.1, 1., 2.]).estimate, m.remove.delta([.1, 1., 2.]), rtol=1e-7)
        assert EdgeworthAccountant(0*m, order=k).epsilon(.1).estimate == 0 and TiltedEdgeworth(0*m, order=k).delta(0.).estimate == 0

def test_log_space():
    m = 10**7*S(20., .01)
    truth = ContourAccountant(m).epsilon(1e-300).estimate
    assert TiltedEdgeworth(m).epsilon(1e-300).estimate == pytest.approx(truth, rel=1e-8)
    assert TiltedEdgeworth(m, order=0).epsilon(1e-300).estimate == pytest.approx(SaddlePointCLT(m).epsilon(1e-300).estimate, rel=1e-12)

def test_mass_at_infinity():
    m = 100*S(1., .1) + ApproxDP(eps=.1, delta=1e-3)
    for build in (EdgeworthAccountant, TiltedEdgeworth):
        assert build(m).epsilon(1e-3).estimate == np.inf and build(m).delta(1e5).estimate == pytest.approx(1e-3)
        assert build(m).delta(3.).lower == pytest.approx(1e-3, rel=1e-9)

@pytest.mark.parametrize('build', [EdgeworthAccountant, TiltedEdgeworth])
def test_bad_input(build):
    for order, error in ((-1, ValueError), (9, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match='order must be an integer'): build(S(1., .1), order=order)
    with pytest.raises(ValueError, match='noise over sensitivity'): build(S(1e-3, .1))
    with pytest.raises(TypeError, match='mechanism must be'): build(3)

@pytest.mark.parametrize('m, eps', [(Discrete(p=(1., 0.), q=(.5, .5)), 0.), (RandomizedResponse(eps=800.), 1.), (5*Discrete(p=(1., 0.), q=(.5, .5)), 1.)])
def test_losses_that_do_not_vary(m, eps):
    "The expansion is a step, and right."
    plrv = m.remove
    for k in (0, 2, 8): assert EdgeworthAccountant(plrv, order=k).delta(eps).estimate == pytest.approx(ContourAccountant(plrv).delta(eps).estimate, rel=1e-9)

def test_tail_shapes():
    assert edgeworth_tail(0., []).shape == () and edgeworth_tail(np.zeros((2, 3)), [.1, .2]).shape == (2, 3)

# The interval

HOWS = [{}, dict(proof='transform', order=3)]

@pytest.mark.parametrize('mechanism, n', [(RandomizedResponse(eps=1.), 40), (RandomizedResponse(eps=.1), 2000), (Discrete(p=(.5, .3, .2), q=(.2, .5, .3)), 60)], ids=lambda x: f'{x}'[:30])
@pytest.mark.parametrize('order', [1, 2, 5])
def test_transform_bound_of_lattices(mechanism, n, order):
    "Against the exact distribution of a sum on a lattice, left and right of every jump: no density, so the bound stops at the size of the jumps."
    plrv = (n*mechanism).remove
    (losses, logp), mean, std, lam = plrv.parts[0][0].atoms, *standard_cumulants(plrv, order)
    counts = np.array(np.meshgrid(*[np.arange(n + 1)]*(len(losses) - 1))).reshape(len(losses) - 1, -1)
    counts = np.vstack([counts, n - counts.sum(0)])[:, n >= counts.sum(0)]
    x = (losses @ counts - mean)/std
    p = np.exp(gammaln(n + 1) - gammaln(counts + 1).sum(0) + logp @ counts)
    i = np.argsort(x)
    tail = 1 - np.cumsum(p[i])
    expansion = edgeworth_tail(x[i], lam)
    first = np.r_[True, np.diff(x[i]) > 1e-9]              # equal sums count together
    last = np.r_[first[1:], True]
    error = max(np.abs(tail - expansion)[last].max(), np.abs(tail + p[i] - expansion)[first].max())
    assert error < transform_bound(plrv, order) < 4*error + .01

@pytest.mark.parametrize('n', [10, 100, 10000])
def test_transform_bound_of_a_density(n):
    "Against the exact distribution by inversion, for a skew loss and its reverse."
    for plrv in ((n*S(1., .1)).remove, (n*S(1., .1)).add):
        mean, std, lam = standard_cumulants(plrv, 4)
        x, u = np.linspace(-6, 6, 121), np.arange(.01, 120, .02)
        f = np.exp(plrv.cgf(1j*u/std) - 1j*u*mean/std)
        exact = .5 + (np.imag(np.exp(-1j*np.multiply.outer(x, u))*f)/u).sum(-1)*.02/np.pi
        for order in (1, 2, 3, 4):
            error = np.abs(exact - edgeworth_tail(x, lam[:order])).max()
            assert error < transform_bound(plrv, order) < 4*error + 1e-6

@pytest.mark.parametrize('m', [10**6*Laplace(scale=1000.), 10**6*RandomizedResponse(eps=1e-3), 1000*Gaussian(sigma=50.)])
def test_transform_is_no_wider_than_moments(m):
    "Near-lattices, whose transform does not decay in reach: at order 1 no wider; order 4 pays for its distance from order 1."
    for delta in (.1, .01):
        moments, transform = EdgeworthInterval(m).epsilon(delta), [EdgeworthInterval(m, proof='transform', order=k).epsilon(delta) for k in (1, 4)]
        for b, factor in zip(transform, (1.01, 3)): assert b.upper - b.lower <= factor*(moments.upper - moments.lower) + 1e-9

def test_interval_arguments():
    m = 100*S(1., .1)
    assert transform_bound(S(1., .1).remove) > 0
    with pytest.raises(ValueError, match='order must be'): transform_bound(m.remove, 0)
    for how, match in ((dict(order=2), "order must be 1 with proof='moments', got 2"), (dict(order=0), 'order must be an integer'), (dict(proof='magic'), "proof must be 'moments' or 'transform', got 'magic'"), (dict(order=9, proof='transform'), 'order must be')):
        with pytest.raises(ValueError, match=match): EdgeworthInterval(m, **how)

@pytest.mark.parametrize('how', HOWS, ids=str)
def test_interval_on_random_settings(how):
    "lower <= truth <= upper on all 300 random runs."
    for row in json.load(open(FILE)):
        bounds = EdgeworthInterval(getattr(run(row['steps']), row['direction']), **how).delta(row['eps'])
        assert Decimal(bounds.lower) <= Decimal(row['high']) and Decimal(row['low']) <= Decimal(bounds.upper), row
        assert bounds.lower <= bounds.estimate <= bounds.upper

@pytest.mark.parametrize('how', HOWS, ids=str)
@pytest.mark.parametrize('mechanism', ODD, ids=lambda m: f'{m}'[:80])
def test_interval_on_odd_mechanisms(mechanism, how):
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning); warnings.simplefilter('ignore', UserWarning)
        accountant = EdgeworthInterval(mechanism, **how)
        for (low, mid, up), truth in zip((accountant.delta(ODD_EPS), accountant.epsilon(ODD_DELTA)), truth_of(mechanism)):
            assert (0 <= low).all() and (low <= mid).all() and (mid <= up).all()
            assert (low <= truth.upper).all() and (truth.lower <= up).all()

def test_interval_of_gaussians():
    "Order 1 is exact for them, and the interval knows."
    m = 50*Gaussian(sigma=10.)
    for how in HOWS:
        low, mid, up = EdgeworthInterval(m, **how).delta([.1, 1.])
        assert np.allclose(mid, m.remove.delta([.1, 1.]), rtol=1e-7) and (up - low < (1e-6 if how else 1e-8)).all()

@pytest.mark.parametrize('identical, n, want', [(False, 150, .6151882), (False, 1000, .1462589), (False, 2000, .0888137), (True, 1000, .1626857), (True, 2000, .1056023)])
def test_published_moment_bounds(identical, n, want):
    "The package BoundEdgeworth 0.1.3: K_4 = 9, all else by its fallbacks."
    K3 = 9**.75
    assert moment_bound(n, .621*K3, K3, 9., K3 + 1 if identical else 2*K3, identical) == pytest.approx(want, abs=6e-8)

@pytest.mark.parametrize('n, want', [(1000, .12140385), (2000, .0768045)])
def test_published_regular_bounds(n, want):
    "The same under regularity, kappa = .99, with the package's misplaced parenthesis in e_3 put back."
    K3 = 9**.75
    slip = (.037 - 1.306/36)*(np.exp(.01/6 + .01/1.4**2) - np.exp(.01/6 + .005/.7**2))*(.621*K3)**2/n
    assert moment_bound(n, .621*K3, K3, 9., K3 + 1, True, smooth=lambda a, b: .99**n*np.log(b/a)) + slip == pytest.approx(want, abs=6e-8 if n > 1000 else 6e-9)

@pytest.mark.parametrize('n, want', [(100, .0939907866), (1600, .0191051688)])
def test_prawitz_bound_keeps_its_digits(n, want):
    "No published value: pinned, as a term of the remainder that goes wrong still leaves a bound that looks like one."
    plrv = (n*S(1., .3)).remove
    assert prawitz_bound(*step_moments(plrv), 1/n) == pytest.approx(want, rel=1e-8)

def test_mass_at_infinity_is_counted_once():
    run = 100*ApproxDP(eps=.01, delta=1e-4)
    low, _, up = EdgeworthInterval(run).delta(50.)
    assert low == pytest.approx(-np.expm1(100*np.log1p(-1e-4)), rel=1e-9) and up == pytest.approx(low, rel=1e-9)
    run, eps = 10**4*S(3., .05) + ApproxDP(eps=.1, delta=1e-3), np.array([.5, 1., 2.])
    bounds, truth = EdgeworthInterval(run).delta(eps), ContourAccountant(run).delta(eps).estimate
    assert bounds.estimate == pytest.approx(truth, abs=1e-5) and (bounds.lower < truth - 1e-3).all() and (truth + 1e-3 < bounds.upper).all()
