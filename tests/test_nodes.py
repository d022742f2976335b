"Sums over nodes: both directions, far tilts, finite pairs and what their sums are off by."
import math
import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify import mechanism
from dp_saddle import Discrete
from dp_saddle.base.numerics import ULP
from dp_saddle.losses.nodes import (
    FiniteLoss,
    NodeLoss,
    cuts_at_corner,
    increment_noise,
    increments,
    legendre_panels,
    log_delta_of_atoms,
    log_mgf,
)

SKEWED = 'discrete', (.5, .25, .25), (.25, .25, .5)

def atoms(size, seed=7):
    "Losses of about this size, their probabilities, and the other law's: exact as doubles."
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6), 2)
    q = p + size*(q - p)
    return np.log(p/p.sum()), np.log(q/q.sum())

@pytest.mark.parametrize('size', [1e-9, 1e-5, .01, 1.])
def test_sums_against_mpmath(size):
    "K of a finite pair to a few ulp of its own size, though M - 1 may be 1e-18."
    p, q = atoms(size)
    plrv = FiniteLoss(p, q)
    losses, logp = plrv.atoms
    with mp.workdps(60):
        weights = [mp.exp(mp.mpf(v)) for v in logp]
        other = mp.fsum(w*mp.exp(-mp.mpf(v)) for w, v in zip(weights, losses, strict=True))
        total = mp.fsum(weights)
        for t in (.3, 2., 30.):
            M = mp.fsum(w*mp.exp(t*mp.mpf(v)) for w, v in zip(weights, losses, strict=True))
            # the doubles sum to 1 but for rounding: what the code takes out by hand
            want = mp.log1p(M - total + t*(other - total))
            assert abs(plrv.cgf(t)/want - 1) < 1e-13

class Given(NodeLoss):
    "Nodes that are what they are."
    def __init__(self, y, logw):
        super().__init__()
        self.nodes = np.array(y), np.array(logw)
    def path(self, t, s, shift, precision=float): return [v.astype(precision) for v in self.nodes]
    def nodes_off(self, t, shift, y, logw): return 0*y, 0*logw
    def singular_at(self, t): return 0., 0.

@pytest.mark.parametrize('y, logw', [
    ([-.2555508370374441, .2536333833792513], [-.020373396569073048, -3.9036947224890195]),
    ([-.25958977928888627, .2580404842398635], [-.07619531518361189, -2.6123110627515964]),
    ([-.25767207043251916, -.2541362027424674], [-.18078543308440417, -1.799475683546388])])
def test_the_rounding_of_a_sum_holds_where_first_orders_cancel(y, logw):
    "Losses next to a quarter of a nat: e^x - 1 - x is a thirtieth of its parts there."
    for t in (1e-6, 1e-3, .1):
        K, off = Given(y, logw).known_cgf_of_sum(t)
        with mp.workdps(50):
            def f(x): return mp.expm1(x) - x
            nodes = [(mp.exp(l), mp.mpf(v)) for l, v in zip(logw, y, strict=True)]
            change = mp.fsum(w*(f(t*v) + t*f(-v)) for w, v in nodes)
            assert abs(mp.expm1(mp.mpf(K)) - change)/(1 + change) <= off

def test_increments_of_many_losses_at_few_frequencies():
    "A block has one at least. Of losses on a lattice the sum is a geometric series."
    n, h = 1 << 17, 2.**-16
    s = np.linspace(1e-3, 5, 40)
    found = increments(np.full(n, 1/n), h*np.arange(n), s)
    want = np.expm1(1j*s*h*n)/np.expm1(1j*s*h)/n - 1
    assert np.abs(found - want).max() < 1e-12

@pytest.mark.parametrize('points', [60, 5000])
def test_increments_say_what_they_are_off_by(points):
    "Term by term, and by runs of 64."
    losses, logp = FiniteLoss(*atoms(.5)).atoms
    y, p = np.tile(losses, 10) + np.arange(60)/7, np.tile(np.exp(logp), 10)/10
    s = np.arange(points)*.37
    found, noise = increments(p, y, s), increment_noise(p, 0., y, s)
    assert found.shape == noise.shape == s.shape
    with mp.workdps(40):
        for k in np.linspace(0, points - 1, 9).astype(int):
            turn = 1j*mp.mpf(s[k])
            want = mp.fsum(w*mp.expm1(turn*mp.mpf(v)) for w, v in zip(p, y, strict=True))
            assert abs(mp.mpc(found[k]) - want) <= noise[k] <= 500*ULP*(1 + s[k]*y.max())

def test_sums_that_would_overflow():
    y, logw = np.array([3., -800.]), np.log([.25, .75])
    found = log_mgf(np.array([500., 1e6]), y, logw)
    np.testing.assert_allclose(found, np.array([1500., 3e6]) + math.log(.25), rtol=1e-15)
    assert log_mgf(np.array([-1.]), y, logw)[0] == pytest.approx(800 + math.log(.75))

def test_panels():
    "Exact for polynomials of degree 31 on each side of a corner; empty panels have a weight."
    low, high = np.zeros((3, 1)), np.array([[1.], [4.], [2.5]])
    corner = np.array([[.3], [-1.], [2.5]])
    cuts = cuts_at_corner(low, high, .75, corner)
    assert (np.diff(cuts) >= 0).all() and np.diff(cuts).max() <= .75
    np.testing.assert_array_equal(cuts[:, [0, -1]], np.hstack([low, high]))
    x, w = (v.reshape(3, -1) for v in legendre_panels(cuts, 1e-300))
    assert (w > 0).all()
    for row in range(3):
        a, b, c = low[row, 0], high[row, 0], np.clip(corner[row, 0], low[row, 0], high[row, 0])
        want = ((c - a)**32 + (b - c)**32)/32
        assert (np.abs(x[row] - c)**31*w[row]).sum() == pytest.approx(want, rel=1e-12)

class Still(NodeLoss):
    "A class that says nothing."

@pytest.mark.parametrize('ask, name', [
    (lambda p: p.cgf(1.), 'path'), (lambda p: p.cumulants(1.), 'path'),
    (lambda p: p.line(1., np.arange(3.)), 'path'), (lambda p: p.nodes_at(1.), 'nodes_at'),
    (lambda p: p.split(np.zeros(1), np.zeros((1, 1))), 'split')])
def test_what_is_missing_is_named(ask, name):
    with pytest.raises(NotImplementedError, match=rf'Still must define {name}\(.*see losses/nodes'):
        ask(Still())

def gauss(sigma, rate=None):
    "What an oracle calls a Gaussian step, sampled or not."
    return ('gaussian', sigma) if rate is None else ('sub', ('gaussian', sigma), rate)

def laplace(scale, rate=None):
    return ('laplace', scale) if rate is None else ('sub', ('laplace', scale), rate)

TWO_DIRECTIONS = [gauss(2., .01), gauss(.5, .3), gauss(1., 1e-6), laplace(1.), laplace(.5, .2),
                  ('rr', 1.), ('approx', 1., .1), SKEWED]

@pytest.mark.parametrize('m', TWO_DIRECTIONS, ids=str)
def test_transforms_of_the_two_directions(m):
    "M_add(z) = M_remove(-1 - z), each by its own quadrature; conjugates; M(0) = 1 - p_inf."
    a, b = mechanism(m).remove, mechanism(m).add
    inner = -.5 + 1j*np.array([0, 3, -7, 60.])    # a line on which neither defers to the other
    np.testing.assert_allclose(np.exp(a.cgf(inner)), np.exp(b.cgf(-1 - inner)), rtol=1e-12)
    np.testing.assert_allclose(a.cgf(inner.conj()), a.cgf(inner).conj(), rtol=1e-13)
    assert a.cgf(0.) == pytest.approx(math.log1p(-a.p_inf), abs=1e-15)
    assert a.cgf(np.zeros((2, 3))).shape == (2, 3)

@pytest.mark.parametrize('m', [gauss(1., .1), laplace(1.), ('rr', 1.)], ids=str)
def test_far_tilts(m):
    "Cumulants do not overflow."
    assert np.isfinite(mechanism(m).remove.cumulants(1e3, 3)).all()

def test_a_loss_that_is_never_finite():
    plrv = Discrete(p=(1., 0.), q=(0., 1.)).remove
    assert (plrv.ess_inf, plrv.ess_sup, plrv.p_inf) == (math.inf, -math.inf, 1.)
    with pytest.raises(ValueError, match='finite somewhere'): plrv.cumulants(0.)

# Sums that many eps share

@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.floats(-8, 2), st.floats(0, 3))
def test_sums_that_many_eps_share(seed, spread, depth):
    "Against 40 digits, and without a table: 1,000 atoms, 1,100 eps; gaps and masses of any size."
    rng = np.random.default_rng(seed)
    losses, logp = 10**spread*rng.normal(size=1000), -10**depth*rng.exponential(size=1000)
    eps = np.append(losses, losses[:100] + 1e-9*10**spread)
    tracemalloc.start()
    found = log_delta_of_atoms(eps, losses, logp)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6
    with mp.workdps(40):
        for i in (*rng.integers(0, 1100, 4), losses.argsort()[-2]):
            some = [j for j in range(1000) if losses[j] > eps[i]]
            terms = [mp.exp(mp.mpf(logp[j]))*-mp.expm1(mp.mpf(eps[i]) - mp.mpf(losses[j]))
                     for j in some]
            if not some:
                assert found[i] == -np.inf
                continue
            truth = mp.log(mp.fsum(terms))
            assert abs(found[i] - truth) <= 2.3e-16*(68 + 4*abs(truth))

@pytest.mark.parametrize('p, q, name', [
    ([.5, .5], [.5, .4], 'logq'), ([.5, .4], [.5, .5], 'logp'), ([.5, .5], [.5, .5 + 1e-9], 'logq'),
    ([.5, math.nan], [.5, .5], 'logp'), ([[.5, .5]], [[.5, .5]], 'logp')])
def test_a_pair_that_is_no_law_is_refused(p, q, name):
    "Its curve would be that of nothing: delta(0) of (.5, .5) and (.5, .4) is no .1."
    with pytest.raises(ValueError, match=f'^{name} must be a vector .* add up to 1'):
        FiniteLoss(np.log(p), np.log(q))
