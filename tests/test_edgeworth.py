"Edgeworth expansions: accountants that estimate, on anything that can be composed."
import json
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

from certify import FILE, run
from dp_saddle import (
    ApproxDP,
    ContourAccountant,
    Discrete,
    EdgeworthAccountant,
    EdgeworthInterval,
    Gaussian,
    Laplace,
    RandomizedResponse,
    SaddlePointCLT,
    TiltedEdgeworth,
)
from dp_saddle.edgeworth import edgeworth_tail, standard_cumulants, transform_bound
from dp_saddle.saddlepoint import saddle_point
from odd import ODD, ODD_DELTA, ODD_EPS, S, truth_of

ESTIMATES = [EdgeworthAccountant, TiltedEdgeworth]
odd = pytest.mark.parametrize("mechanism", ODD, ids=lambda m: f"{m}"[:80])
both = pytest.mark.parametrize("build", ESTIMATES, ids=["plain", "tilted"])

def ordered(low, mid, up):
    "Are these Bounds in order, and not NaN?"
    return (0 <= low).all() and (low <= mid).all() and (mid <= up).all()

@odd
@both
def test_odd_mechanisms(build, mechanism):
    "Trivial bounds around an estimate that is a probability, no NaN, no RuntimeWarning."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the bounds hold, but are far apart")
        accountant = build(mechanism, order=3)
        bounds = accountant.delta([0, 1e-6, .5, 3., 100., 1e8])
        assert ordered(*bounds) and (bounds.upper <= 1).all()
        assert ordered(*accountant.epsilon([.999, .1, 1e-6, 1e-300]))

def test_tilted_on_long_runs():
    """On the random runs of certify.py whose tilted loss is nearly normal: order 0 to a per cent
    or so, order 2 to a thousandth of that."""
    errors = []
    for row in json.loads(Path(FILE).read_text(encoding="utf-8")):
        plrv, eps = getattr(run(row["steps"]), row["direction"]), row["eps"]
        low, high = float(row["low"]), float(row["high"])
        if row["route"] != "contour_mp" or not 1e-250 < low or eps >= plrv.ess_sup:
            continue
        k = plrv.cumulants(saddle_point(plrv, eps), 4)
        if abs(k[2])/k[1]**1.5 > .1 or abs(k[3])/k[1]**2 > .1:
            continue                                   # the tilted loss has no one smooth hump
        values = [TiltedEdgeworth(plrv, order=order).delta(eps).estimate for order in (0, 2)]
        errors.append([abs(value/high - 1) for value in values])
    plain, second = np.array(errors).T
    assert len(errors) > 60 and np.median(second) < np.median(plain)/1000
    assert plain.max() < .05 and second.max() < 1e-3, (plain.max(), second.max())

@both
@pytest.mark.parametrize("order", [0, 1, 4])
def test_gaussian_and_zero(build, order):
    "Exact for Gaussians at any order; nothing to account for without steps."
    m, eps = 50*Gaussian(sigma=10.), [.1, 1., 2.]
    assert np.allclose(build(m, order=order).delta(eps).estimate, m.remove.delta(eps), rtol=1e-7)
    nothing = build(0*m, order=order)
    assert nothing.epsilon(.1).estimate == 0 and nothing.delta(0.).estimate == 0

def test_log_space():
    m = 10**7*S(20., .01)
    truth = ContourAccountant(m).epsilon(1e-300).estimate
    assert TiltedEdgeworth(m).epsilon(1e-300).estimate == pytest.approx(truth, rel=1e-8)
    order_0 = TiltedEdgeworth(m, order=0).epsilon(1e-300).estimate
    assert order_0 == pytest.approx(SaddlePointCLT(m).epsilon(1e-300).estimate, rel=1e-12)

@both
def test_mass_at_infinity(build):
    accountant = build(100*S(1., .1) + ApproxDP(eps=.1, delta=1e-3))
    assert accountant.epsilon(1e-3).estimate == np.inf
    assert accountant.delta(1e5).estimate == pytest.approx(1e-3)
    assert accountant.delta(3.).lower == pytest.approx(1e-3, rel=1e-9)

@both
def test_bad_input(build):
    for order, error in ((-1, ValueError), (9, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="order must be an integer"):
            build(S(1., .1), order=order)
    with pytest.raises(ValueError, match="noise over sensitivity"):
        build(S(1e-3, .1))
    with pytest.raises(TypeError, match="mechanism must be"):
        build(3)

@pytest.mark.parametrize("m, eps", [
    (Discrete(p=(1., 0.), q=(.5, .5)), 0.), (RandomizedResponse(eps=800.), 1.),
    (5*Discrete(p=(1., 0.), q=(.5, .5)), 1.)])
def test_losses_that_do_not_vary(m, eps):
    "The expansion is a step, and right."
    truth = ContourAccountant(m.remove).delta(eps).estimate
    for order in (0, 2, 8):
        value = EdgeworthAccountant(m.remove, order=order).delta(eps).estimate
        assert value == pytest.approx(truth, rel=1e-9)

def test_tail_shapes():
    assert edgeworth_tail(0., []).shape == ()
    assert edgeworth_tail(np.zeros((2, 3)), [.1, .2]).shape == (2, 3)

# --- the bound from the transform

def lattice_sum(plrv, n):
    "Values and probabilities of a sum of n equal finite losses."
    losses, logp = plrv.parts[0][0].atoms
    counts = np.array(np.meshgrid(*[np.arange(n + 1)]*(len(losses) - 1)))
    counts = counts.reshape(len(losses) - 1, -1)
    counts = np.vstack([counts, n - counts.sum(0)])[:, n >= counts.sum(0)]
    logs = gammaln(n + 1) - gammaln(counts + 1).sum(0) + logp @ counts
    return losses @ counts, np.exp(logs)

@pytest.mark.parametrize("mechanism, n", [
    (RandomizedResponse(eps=1.), 40), (RandomizedResponse(eps=.1), 2000),
    (Discrete(p=(.5, .3, .2), q=(.2, .5, .3)), 60)], ids=lambda x: f"{x}"[:30])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_transform_bound_of_lattices(mechanism, n, order):
    """Against the exact distribution of a sum on a lattice, left and right of every jump: no
    density, so the bound stops at the size of the jumps."""
    plrv = (n*mechanism).remove
    mean, std, lam = standard_cumulants(plrv, order)
    values, p = lattice_sum(plrv, n)
    i = np.argsort(values)
    x, p = (values[i] - mean)/std, p[i]
    tail, expansion = 1 - np.cumsum(p), edgeworth_tail(x, lam)
    first = np.r_[True, np.diff(x) > 1e-9]              # equal sums count together
    last = np.r_[first[1:], True]
    right, left = np.abs(tail - expansion)[last], np.abs(tail + p - expansion)[first]
    error = max(right.max(), left.max())
    assert error < transform_bound(plrv, order) < 4*error + .01

@pytest.mark.parametrize("n", [10, 100, 10000])
def test_transform_bound_of_a_density(n):
    "Against the exact distribution by inversion, for a skew loss and its reverse."
    for plrv in ((n*S(1., .1)).remove, (n*S(1., .1)).add):
        mean, std, lam = standard_cumulants(plrv, 4)
        x, u = np.linspace(-6, 6, 121), np.arange(.01, 120, .02)
        f = np.exp(plrv.cgf(1j*u/std) - 1j*u*mean/std)
        waves = np.exp(-1j*np.multiply.outer(x, u))*f
        exact = .5 + (np.imag(waves)/u).sum(-1)*.02/np.pi
        for order in (1, 2, 3, 4):
            error = np.abs(exact - edgeworth_tail(x, lam[:order])).max()
            assert error < transform_bound(plrv, order) < 4*error + 1e-6

def test_transform_bound_arguments():
    assert transform_bound(S(1., .1).remove) > 0
    with pytest.raises(ValueError, match="order must be"):
        transform_bound((100*S(1., .1)).remove, 0)

# --- the interval

HOWS = [{}, dict(proof="transform", order=3)]
proved = pytest.mark.parametrize("how", HOWS, ids=str)

@pytest.mark.parametrize("m", [
    10**6*Laplace(scale=1000.), 10**6*RandomizedResponse(eps=1e-3), 1000*Gaussian(sigma=50.)])
def test_transform_is_no_wider_than_moments(m):
    """Near-lattices, whose transform does not decay in reach: at order 1 no wider; order 4 pays
    for its distance from order 1."""
    for delta in (.1, .01):
        moments = EdgeworthInterval(m).epsilon(delta)
        for order, factor in ((1, 1.01), (4, 3)):
            b = EdgeworthInterval(m, proof="transform", order=order).epsilon(delta)
            assert b.upper - b.lower <= factor*(moments.upper - moments.lower) + 1e-9

@pytest.mark.parametrize("how, match", [
    (dict(order=2), "order must be 1 with proof='moments', got 2"),
    (dict(order=0), "order must be an integer"),
    (dict(proof="magic"), "proof must be 'moments' or 'transform', got 'magic'"),
    (dict(order=9, proof="transform"), "order must be")])
def test_interval_arguments(how, match):
    with pytest.raises(ValueError, match=match):
        EdgeworthInterval(100*S(1., .1), **how)

@proved
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 24))])
def test_interval_on_random_settings(how, part):
    "lower <= truth <= upper on the 300 random runs."
    for row in json.loads(Path(FILE).read_text(encoding="utf-8"))[part::24]:
        plrv = getattr(run(row["steps"]), row["direction"])
        low, mid, up = EdgeworthInterval(plrv, **how).delta(row["eps"])
        assert Decimal(low) <= Decimal(row["high"]) and Decimal(row["low"]) <= Decimal(up), row
        assert low <= mid <= up

@proved
@odd
def test_interval_on_odd_mechanisms(mechanism, how):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        accountant = EdgeworthInterval(mechanism, **how)
        answers = accountant.delta(ODD_EPS), accountant.epsilon(ODD_DELTA)
        for bounds, truth in zip(answers, truth_of(mechanism)):
            assert ordered(*bounds)
            assert (bounds.lower <= truth.upper).all() and (truth.lower <= bounds.upper).all()

@proved
def test_interval_of_gaussians(how):
    "Order 1 is exact for them, and the interval knows."
    m, eps = 50*Gaussian(sigma=10.), [.1, 1.]
    low, mid, up = EdgeworthInterval(m, **how).delta(eps)
    assert np.allclose(mid, m.remove.delta(eps), rtol=1e-7)
    assert (up - low < (1e-6 if how else 1e-8)).all()

def test_mass_at_infinity_is_counted_once():
    low, _, up = EdgeworthInterval(100*ApproxDP(eps=.01, delta=1e-4)).delta(50.)
    assert low == pytest.approx(-np.expm1(100*np.log1p(-1e-4)), rel=1e-9)
    assert up == pytest.approx(low, rel=1e-9)
    m, eps = 10**4*S(3., .05) + ApproxDP(eps=.1, delta=1e-3), np.array([.5, 1., 2.])
    bounds, truth = EdgeworthInterval(m).delta(eps), ContourAccountant(m).delta(eps).estimate
    assert bounds.estimate == pytest.approx(truth, abs=1e-5)
    assert (bounds.lower < truth - 1e-3).all() and (truth + 1e-3 < bounds.upper).all()
