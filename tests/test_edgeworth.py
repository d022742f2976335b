"Edgeworth expansions: accountants that estimate, on anything that can be composed."
import json, warnings
from decimal import Decimal
import numpy as np
import pytest
from certify import FILE, run
from test_saddlepoint import ODD, S
from dp_saddle import ApproxDP, ContourAccountant, EdgeworthAccountant, EdgeworthInterval, Gaussian, SaddlePointCLT, TiltedEdgeworth
from dp_saddle.edgeworth import edgeworth_tail, moment_bound
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
        law = getattr(run(row['steps']), row['direction'])
        low, high = float(row['low']), float(row['high'])
        if row['route'] != 'contour_mp' or not 1e-250 < low or row['eps'] >= law.sup: continue
        k = law.cumulants(saddle_point(law, row['eps']), 4)
        if abs(k[2])/k[1]**1.5 > .1 or abs(k[3])/k[1]**2 > .1: continue               # the tilted loss has one smooth hump
        errors.append([abs(TiltedEdgeworth(law, order=k).delta(row['eps']).estimate/high - 1) for k in (0, 2)])
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

def test_tail_shapes():
    assert edgeworth_tail(0., []).shape == () and edgeworth_tail(np.zeros((2, 3)), [.1, .2]).shape == (2, 3)

# The interval

def test_interval_on_random_settings():
    "lower <= truth <= upper on all 300 random runs; now and then better than moments alone."
    for row in json.load(open(FILE)):
        bounds = EdgeworthInterval(getattr(run(row['steps']), row['direction'])).delta(row['eps'])
        assert Decimal(bounds.lower) <= Decimal(row['high']) and Decimal(row['low']) <= Decimal(bounds.upper), row
        assert bounds.lower <= bounds.estimate <= bounds.upper

@pytest.mark.parametrize('mechanism', ODD, ids=lambda m: f'{m}'[:80])
def test_interval_on_odd_mechanisms(mechanism):
    eps, delta = np.array([0, 1e-6, .5, 3., 100., 1e8]), np.array([.999, .1, 1e-6, 1e-300])
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning); warnings.simplefilter('ignore', UserWarning)
        exact, accountant = ContourAccountant(mechanism), EdgeworthInterval(mechanism)
        for (low, mid, up), truth in ((accountant.delta(eps), exact.delta(eps)), (accountant.epsilon(delta), exact.epsilon(delta))):
            assert (0 <= low).all() and (low <= mid).all() and (mid <= up).all()
            assert (low <= truth.upper).all() and (truth.lower <= up).all()

def test_interval_of_gaussians():
    "Order 1 is exact for them, and the interval knows."
    m = 50*Gaussian(sigma=10.)
    low, mid, up = EdgeworthInterval(m).delta([.1, 1.])
    assert np.allclose(mid, m.remove.delta([.1, 1.]), rtol=1e-7) and (up - low < 1e-8).all()

@pytest.mark.parametrize('identical, n, want', [(False, 150, .6151882), (False, 1000, .1462589), (False, 2000, .0888137), (True, 1000, .1626857), (True, 2000, .1056023)])
def test_published_moment_bounds(identical, n, want):
    "The package BoundEdgeworth 0.1.3: K_4 = 9, all else by its fallbacks."
    K3 = 9**.75
    assert moment_bound(n, .621*K3, K3, 9., K3 + 1 if identical else 2*K3, identical) == pytest.approx(want, abs=6e-8)
