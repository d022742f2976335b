"""sampling.rings: noise of a few bands, and a record that keeps its batch. References: two bins by
one integral over a closed form; all places of a lattice at once; pairs; simulation."""
import math
import warnings

import numpy as np
import pytest
from scipy import optimize, stats

from dp_saddle import (
    BallsInBins,
    ContourAccountant,
    CorrelatedBins,
    Gaussian,
    MatrixFactorization,
    epsilon,
)
from dp_saddle.base import EXTENDED
from dp_saddle.plrv import GaussianLoss
from dp_saddle.sampling import rings as page
from dp_saddle.sampling.bent_paths import BentPath
from dp_saddle.sampling.correlated_noise import LognormalPairs
from dp_saddle.sampling.lognormal_chains import TILTS, Lattice
from dp_saddle.sampling.lognormal_means import PARTS
from dp_saddle.sampling.matrix_factorizations import ring_of
from dp_saddle.sampling.rings import LognormalBands
from dp_saddle.sampling.small_deltas import log_along, log_beyond
from test_correlated_noise import ar, put_of_two


@pytest.mark.parametrize('K', [.5, 1.6])
@pytest.mark.parametrize('around', [0., .4, -.2])
def test_two_bins_of_bands_by_an_integral(K, around):
    "A number of each in the other: a ring of two. They are two bins of a chain."
    s, t, a = .7, .6, .3
    bins = LognormalBands([[s, around], [t, a]])
    var, cov = s*s + around**2, a*s + around*t
    slope = cov/var
    low, about, high = bins.puts(K)
    exact = put_of_two(K, slope, (math.sqrt(var), math.sqrt(t*t + a*a - slope*cov)))
    assert bins.closed == (around != 0) and math.isinf(bins.rate) == (around < 0)
    assert low - 1e-14 <= exact <= high + 1e-14 and high - low < 1e-6*K
    assert about == pytest.approx(exact, rel=1e-9)

def transform_of_two(u, B):
    "E e^{-uS}, Re u > 0, of two bins with logarithms Bz: a fine sum over the plane."
    g = np.linspace(-10, 10, 1001)
    z = np.stack(np.meshgrid(g, g, indexing='ij'))
    S = np.exp(np.tensordot(B, z, 1) - (B*B).sum(1)[:, None, None]/2).mean(0)
    return (np.exp(-(z*z).sum(0)/2 - u*S)).sum()*(g[1] - g[0])**2/(2*math.pi)

RING_OF_TWO = LognormalBands([[.8, .6], [.7, .2]])

@pytest.mark.parametrize('h', [1.2, 1., .8])
def test_what_a_coarse_lattice_of_bands_leaves_out(h):
    "A ring of two, turned: the error is seen, within the bound, and not far below it."
    one, r, angle, turn = RING_OF_TWO, 4., 1.4, .7
    np.testing.assert_allclose(one.matrix, [[.8, .6], [.2, .7]])
    exact = transform_of_two(r*np.exp(1j*angle), one.matrix)
    grown = math.exp(turn**2*one.total/2)
    def at(h, n): return Lattice(h, h*np.arange(-n, n + 1), np.array([r]), np.array([angle - turn]),
                                 np.array([turn]))
    coarse = at(h, math.ceil(9/h))
    error = abs(one.transform(coarse)[0][0]*grown - exact)
    assert 1e-13 < error <= grown*one.left_out(coarse, PARTS)[0] < 1e4*error
    fine = at(.15, 60)
    value, _, rounding = one.transform(fine)
    off = grown*(rounding + one.left_out(fine, PARTS))[0]
    assert abs(value[0]*grown - exact) <= off < 1e-11

def test_ends_of_a_lattice_of_bands():
    one, zero = RING_OF_TWO, np.zeros(1)
    exact = transform_of_two(3., one.matrix).real
    for first, last in ((-20, 60), (-25, 25), (-60, 18)):
        at = Lattice(.1, .1*np.arange(first, last + 1), np.array([3.]), zero, zero)
        lost = abs(one.transform(at)[0][0].real - exact)
        assert 1e-4 < lost <= one.left_out(at, PARTS)[0]

@pytest.mark.parametrize('h', [1.1, .95])
@pytest.mark.parametrize('psi', [0., .5])
def test_what_a_bent_path_leaves_out(h, psi):
    "A ring of three bands against a finer lattice: within the bound, which is below the strips'."
    bands = LognormalBands(np.tile([.6, .3, .1], (7, 1)))
    def at(h, n): return Lattice(h, h*np.arange(-n, n + 1), np.array([.3]), np.array([psi]),
                                 np.array([.4]))
    coarse, fine = at(h, math.ceil(9/h)), at(.5, 18)
    error = abs((bands.transform(coarse)[0] - bands.transform(fine)[0]).item())
    bent = math.exp(bands.log_bent(coarse, np.zeros(1))[0])
    assert 1e-13 < error < bent < 1e6*error
    assert bent < .2*math.exp(straight(bands, coarse))

def straight(bands, at):
    "log of what the best strip leaves out, compared with 1."
    a = (math.pi/2 - at.psi)*np.linspace(.001, 1, 1000)/bands.moves.max()
    logs = a*at.tau*bands.ones + a*a/2 - 2*math.pi*a/at.h - np.log1p(-np.exp(-2*math.pi*a/at.h))
    return logs.min() + math.log(2*bands.b)

def test_a_large_factor_is_no_place_for_a_bend():
    "What is said of a factor near its cliff: no less than the error of one bin, seen."
    one = LognormalBands(np.tile([.8, 0.], (4, 1)))
    for r in (3., 30., 300.):
        at = Lattice(1.2, 1.2*np.arange(-9, 10), np.array([r]), np.zeros(1), np.zeros(1))
        fine = Lattice(.3, .3*np.arange(-36, 37), *at[2:])
        error = abs((one.transform(at)[0] - one.transform(fine)[0]).item())
        assert error < math.exp(one.log_bent(at, np.zeros(1))[0])

@pytest.mark.parametrize('h', [0, 1.2, 2.])
@pytest.mark.parametrize('s', [.01, 1., 20., 300.])
def test_what_a_factor_costs(s, h):
    "-log E e^{-sY} of one normal number, or of its lattice: at most what is said, and not far."
    one, z = LognormalBands(np.tile([.8, 0.], (4, 1))), np.linspace(-20, 20, 4001)
    if h: z = h*np.arange(-20, 21)
    p = np.exp(-z*z/2)/np.exp(-z*z/2).sum()
    cost = -math.log(p @ np.exp(-s*np.exp(.8*z - .32)))
    q = 2*math.exp(-2*math.pi**2/h**2) if h else 0.
    rho = (1 + 1.1*q)/(1 - 1.1*q)
    found = one.grown(np.array([s*rho]), 1 + 1.1*q)[0]
    assert cost <= found <= s*rho and found < 2*cost + .1
    if s > 5: assert found < .8*s

def test_ends_of_independent_places():
    made = LognormalBands(np.tile([.6, .3], (6, 1)))
    for h in (.3, .8):
        x = h*np.arange(-5, 8)
        (low, _), (high, _) = made.cut(Lattice(h, x, np.ones(1), np.zeros(1), np.zeros(1)))
        for found, y in ((low, h - x[0]), (high, h + x[-1])):
            exact = h*stats.norm.pdf(y + h*np.arange(400)).sum()
            assert 6*exact < found < 6*1.2*exact

@pytest.mark.filterwarnings('ignore:the bounds', 'ignore:eps is known')
def test_no_lower_end_is_looked_for_in_vain(monkeypatch):
    "Where a sum would be too long, none is made: one batch alone is known from below at once."
    noise, b = RINGS['four']
    taken, transform = [], LognormalBands.transform
    def noticed(self, at):
        taken.append(len(at.x))
        return transform(self, at)
    monkeypatch.setattr(LognormalBands, 'transform', noticed)
    step = CorrelatedBins(Gaussian(sigma=1.3), batches=b, noise=noise)
    found = ContourAccountant(step).epsilon(1e-5)
    assert 10.4 < found.lower < found.upper == epsilon(step, delta=1e-5) < 10.6
    assert len(taken) == 1 and max(taken) < 9           # those of the first look
    assert not any(plan is not None for plan in step.chains[1].plans.values())

@pytest.mark.parametrize('around', [False, True])
@pytest.mark.parametrize('p', [2, 3, 4])
def test_bands_are_summed_one_after_the_other(p, around):
    "The same lattice, all of its places at once."
    rng, b = np.random.default_rng(p), p + 2
    bands = rng.uniform(.1, .6, (b, p))
    if not around:
        for j in range(p): bands[j, j+1:] = 0
    made = LognormalBands(bands)
    x = 1.1*np.arange(-1, 2)
    at = Lattice(1.1, x, np.array([2.]), np.array([.3]), np.array([.4]))
    z = np.stack(np.meshgrid(*b*[x], indexing='ij')).reshape(b, -1)
    weight = np.exp(-(z*z).sum(0)/2 + 1j*at.tau*(made.shift @ z))*(1.1/math.sqrt(2*math.pi))**b
    rate = 2*np.exp(.3j)*(made.w @ np.exp(made.matrix @ z))
    assert made.closed == around
    np.testing.assert_array_equal(made.moves, bands.max(0))
    assert made.sway == pytest.approx(made.matrix.sum(0).max(), rel=1e-5)
    assert made.transform(at)[0][0] == pytest.approx((weight*np.exp(-rate)).sum(), rel=1e-12)

@pytest.mark.parametrize('p', [3, 4])
def test_fewer_columns_cost_what_is_said(p, monkeypatch):
    "A ring with some of its columns, and with all: the distance is claimed, and is seen."
    made = LognormalBands(np.tile([.6, .4, .3, .2][:p], (2*p, 1)))
    at = Lattice(.8, .8*np.arange(-4, 5), np.array([3.]), np.array([.5]), np.array([.7]))
    exact, _, rounding = made.transform(at)
    seen = []
    for cut in (1e-3, 1e-2, .1):
        monkeypatch.setattr(page, '_CUT', cut)
        found, _, off = made.transform(at)
        seen.append(abs(found - exact).item())
        assert 1e-9 < off - rounding and seen[-1] <= off + rounding
        assert off < 5*cut
    assert max(seen) > 1e-6

@pytest.mark.parametrize('K', [.5, 1.6])
@pytest.mark.parametrize('row', [(.5, .2), (-.6, .3)])
def test_pairs_meet_bands(row, K):
    "Three bins, one by the last two: the same covariance by what makes it, another lattice."
    pairs = LognormalPairs([(0., 0.), (.4, 0.), row], [.8, .6, .9])
    A = np.linalg.cholesky(pairs.K)
    bands = LognormalBands([[A[j, j - k] if j >= k else 0. for k in range(3)] for j in range(3)])
    found, others = pairs.puts(K), bands.puts(K)
    assert found[1] == pytest.approx(others[1], rel=1e-9)
    assert found[0] <= others[2] and others[0] <= found[2] < found[0]*(1 + 1e-8)
    assert math.isinf(pairs.rate) == (row[0] < 0)
    assert pairs.total == pytest.approx(np.linalg.inv(pairs.K).sum(), rel=1e-12)

def in_epochs(noise, b):
    "The sums of columns that are whole epochs apart: of K, M."
    return noise.matrix().reshape(noise.steps, -1, b).sum(1)

JAX = np.array([1., .5, .25, .125])/math.sqrt(1.328125)
RINGS = {'two': (MatrixFactorization(bands=[1., .7], steps=15), 5),
         'three': (MatrixFactorization(bands=[1., .5, .2], steps=14), 7),
         'four': (MatrixFactorization(bands=JAX, steps=100), 10),
         'open': (MatrixFactorization(bands=[1., .5], steps=6), 6),
         'one': (MatrixFactorization(C=np.diag(1. + np.arange(8.))), 4)}

@pytest.mark.parametrize('name', RINGS)
def test_rings_are_below_and_above(name):
    "K is the Gram matrix of sums of columns, and is as near to what is made as is claimed."
    noise, b = RINGS[name]
    M = in_epochs(noise, b)
    low, high = ring_of(noise, b)
    np.testing.assert_allclose(low, M.T @ M, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(high, M.T @ M, rtol=1e-13, atol=1e-13)
    kernel = page.bands_of(low, high)
    made = kernel.matrix @ kernel.matrix.T
    np.testing.assert_allclose(kernel.var, np.diag(made), rtol=1e-13)
    np.testing.assert_allclose(kernel.matrix @ kernel.shift, 1., rtol=1e-12)
    assert kernel.closed == (name not in ('open', 'one')) and not math.isinf(kernel.rate)
    off = np.abs(made[::-1, ::-1] - M.T @ M)            # its last place is the first
    assert (off <= kernel.away*made[::-1, ::-1]).all() and 0 < kernel.away < 1e-12

@pytest.mark.parametrize('K', [.6, 1., 1.5])
def test_what_nearly_the_same_covariance_costs(K):
    "One bin, in closed form: a covariance that is off by a seen share, and what is claimed of it."
    def put(v): return K*stats.norm.cdf(math.log(K)/v**.5 + v**.5/2) \
        - stats.norm.cdf(math.log(K)/v**.5 - v**.5/2)
    kernel, v, seen = LognormalBands([[.8, 0.], [.8, 0.], [.8, 0.], [.8, 0.]]), .64, 1e-3
    exact = kernel.puts(K)
    kernel.away = seen
    low, about, high = kernel.puts(K)
    assert about == pytest.approx(exact[1], rel=1e-9)
    claimed = (high - about) - (exact[2] - exact[1])
    assert max(abs(put(v*(1 + sign*seen)) - put(v)) for sign in (-1, 1)) < claimed
    assert claimed == pytest.approx(2*seen*.8*stats.norm.pdf(0), rel=1e-3)
    assert kernel.known().mu > .8*(1 + seen)

@pytest.mark.parametrize('name', ['ring', 'chain'])
def test_weak_points_have_lattices_that_say_something(name):
    "Little is asked of a far point, but not less than the theorem does: eta is small."
    noise, b = RINGS['two']
    kernel = ar(9, .5, 1.) if name == 'chain' else \
        page.bands_of(*(K/9 for K in ring_of(noise, b)))
    t = np.array([90.])
    at, = kernel.lattices(t, np.array([-60.]), -10.)
    assert kernel.log_more(at.h, t)[0] < .1
    assert kernel.log_more(2*at.h, t)[0] == math.inf

@pytest.mark.parametrize('name', RINGS)
def test_a_chain_is_above_a_ring(name):
    "What bounds the transform of bands: it is at least the transform, at real arguments."
    noise, b = RINGS[name]
    kernel = page.bands_of(*(K/9 for K in ring_of(noise, b)))
    rng, few = np.random.default_rng(3), TILTS[20::20]
    X = rng.standard_normal((20000, b)) @ kernel.matrix.T
    each = np.exp(-np.multiply.outer(few, np.exp(X - kernel.var/2).mean(1)))
    most = np.exp(kernel.most(few))
    assert (most > each.mean(1) - 4*each.std(1)/141).all()
    assert (most < 2*each.mean(1))[:3].all()

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('name, sigma', [('two', 3.), ('open', 2.), ('three', 3.)])
def test_rings_by_simulation(name, sigma):
    "Both directions, four standard errors; the bounds are near each other."
    noise, b = RINGS[name]
    M, rng = in_epochs(noise, b), np.random.default_rng(8)
    K = M.T @ M/sigma**2
    X, i = rng.standard_normal((100000, len(M))) @ M/sigma, rng.integers(b, size=100000)
    def log_S(X): return np.log(np.exp(X - np.diag(K)/2).mean(1))
    each = (np.maximum(1 - np.exp(.4 - log_S(X + K[i])), 0),
            np.maximum(1 - np.exp(.4 + log_S(X)), 0))
    run = CorrelatedBins(Gaussian(sigma=sigma), batches=b, noise=noise)
    for way, v in zip(('remove', 'add'), each, strict=True):
        found, error = ContourAccountant(getattr(run, way)).delta(.4), 4*v.std()/math.sqrt(100000)
        assert 0 < found.lower - error < v.mean() < found.upper + error
        assert found.upper < 1.001*found.lower

@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_four_bands_over_ten_epochs():
    "Both directions, two eps: widths below a tenth (adding, a fiftieth); simulation is between."
    noise, b = RINGS['four']
    run = CorrelatedBins(Gaussian(sigma=4.), batches=b, noise=noise)
    M, rng = in_epochs(noise, b)/4, np.random.default_rng(8)
    K = M.T @ M
    X, i = rng.standard_normal((200000, len(M))) @ M, rng.integers(b, size=200000)
    def log_S(X): return np.log(np.exp(X - np.diag(K)/2).mean(1))
    for eps, way, width in ((.5, 'add', .02), (1., 'add', .02), (.5, 'remove', .01),
                            (1., 'remove', .1)):
        v = np.maximum(1 - np.exp(eps - log_S(X + K[i]) if way == 'remove'
                                  else eps + log_S(X)), 0)
        found, error = ContourAccountant(getattr(run, way)).delta(eps), 4*v.std()/447
        assert found.lower - error < v.mean() < found.upper + error
        assert found.lower < found.upper < (1 + width)*found.lower
    assert 1.75 < epsilon(run, delta=1e-5) < 1.81     # a known batch: 3.34

# what a second reading of the proofs found

def test_equal_matrices_share_what_nobody_can_change():
    one, other = (MatrixFactorization(bands=[1., .5], steps=12) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    for held in (one.column, *ring_of(one, 6)):
        with pytest.raises(ValueError, match='read-only'): held[...] = .01
    assert ring_of(other, 6) is ring_of(one, 6)

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('sigma', [1e-12, .003, .01, .03, .1, .2])
@pytest.mark.parametrize('given', [
    dict(bands=[1., .5, .25, .125], steps=40), dict(bands=[.8, .6], steps=30),
    dict(bands=[.8, .5, .3], steps=10), dict(bands=6*[.4], steps=10), dict(bands=[1.], steps=20),
    dict(bands=[1., .5, .3, .2, .1], steps=20), dict(inverse_bands=[1., -.5], steps=20),
    dict(inverse_bands=[1., -.5], steps=10), dict(inverse_bands=[1., -.5, -.2], steps=10)],
    ids=str)
def test_little_noise_is_known_at_once(given, sigma):
    """Ten batches, eps up to 1e24: between what each batch has alone and a known batch, with
    no other warning than that of wide bounds. There raw errors of NumPy were raised."""
    noise = MatrixFactorization(**given)
    step = CorrelatedBins(Gaussian(sigma=sigma), batches=10, noise=noise)
    found = ContourAccountant(step).epsilon(1e-5)
    known = epsilon(noise.gaussian(sigma, epochs=noise.steps//10), delta=1e-5)
    assert known - 2*math.log(10) - .15*known < found.lower < found.upper < known*(1 + 1e-6)
    low, _, up = ContourAccountant(step).delta(known)
    assert low <= up and (up <= 1e-5*(1 + 1e-3) or sigma < .001)     # or eps has no such digits

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_hardly_any_noise():
    "e^x is beyond a double at the end of a table's lattice: its bound is as good with less."
    given = dict(batches=4, noise=MatrixFactorization(bands=[1., .5], steps=8))
    for sigma in (.01, .014):
        step = CorrelatedBins(Gaussian(sigma=sigma), **given)
        low, _, up = ContourAccountant(step).delta(20.)
        assert 0 <= low <= up == 1          # it overflowed

def test_a_ring_of_four_bands_keeps_its_memory():
    "A sum with more numbers than fit is refused, not begun."
    noise = MatrixFactorization(bands=.5**np.arange(4), steps=80)
    step = CorrelatedBins(Gaussian(sigma=4.), batches=8, noise=noise)
    bands = step.chains[0]
    assert bands.closed and bands.p == 4
    class At: r = np.ones(1)
    for n, dear in ((20, False), (40, True)):
        At.x = np.zeros(n)
        assert (bands.work(At) == np.inf) == dear

def test_one_place_at_a_time():
    "Those that meet last: the columns of all parts make the sum, but for what is said."
    rng, n, y = np.random.default_rng(4), 7, 9
    x = np.linspace(-1.5, 1.5, n)
    held = np.exp(-(x[:, None, None] + x[:, None] + x)**2/3 + .5j*x)[..., None]
    g = np.exp(-(x[:, None, None] - x[:, None] + x)**2/4 + 0j)
    F = (np.exp(-np.subtract.outer(x, x)**2)[..., None]*np.exp(-np.outer(x, np.arange(y)))[:, None]
         + 1e-6*rng.normal(size=(n, n, y)) + 0j)
    exact = np.einsum('iabk,abc,iay->bcyi', held, g, F).reshape(n*n, y*n)
    for cut in (1e-7, 1e-3, .1):
        U, W, lost = page.summed_in_parts(held, F, g, cut)
        np.testing.assert_allclose(W @ W.conj().T, np.eye(len(W)), atol=1e-12)
        seen = np.linalg.norm(exact - U @ W)
        assert 0 < seen < n*lost and lost < 4*math.sqrt(n)*cut and len(W) < n*y

@pytest.mark.parametrize('p', [2, 3])
def test_roundings_of_bands_that_do_not_close(p):
    "A sum in more digits: the distance is below what is said, which is some hundred ulps a place."
    b = 24
    bands = np.tile([.5, .3, .2][:p], (b, 1))
    for j in range(p - 1): bands[j, j+1:] = 0
    made = LognormalBands(bands)
    at = Lattice(.5, .5*np.arange(-9, 9), np.array([6.]), np.array([1.2]), np.array([.8]))
    x, F = at.x.astype(np.longdouble), np.ones((), np.clongdouble)
    u = np.longdouble(6)*np.exp(np.clongdouble(1.2j))
    rule = at.h/np.sqrt(2*np.longdouble(np.pi))
    for j in range(b):
        row, grown = made.bands[j], np.ones((), np.longdouble)
        for a in row[:min(j + 1, p)][::-1]: grown = np.multiply.outer(grown, np.exp(a*x))
        F = F[..., None]*np.exp(-u*np.longdouble(made.w[j])*grown)
        if j >= p - 1: F = F.sum(0)
        F = F*np.exp(-x*x/2 + 1j*np.longdouble(.8*made.shift[j])*x)*rule
    found, _, off = made.transform(at)
    assert abs(found[0] - F.sum()) < off[0] < 300*b*2.**-53

@pytest.mark.parametrize('name', ['two', 'three', 'open'])
def test_a_chain_above_bounds_both_puts(name):
    noise, b = RINGS[name]
    kernel = page.bands_of(*(K/9 for K in ring_of(noise, b)))
    for K in (.6, .8, 1.4, 2.):
        low, _, high = kernel.puts(K)
        if K > 1: assert low < kernel.put_most(K) < K
        else: assert high <= kernel.rougher.puts(K)[2] < 4*high
        assert math.log(high) < kernel.log_put_most(K)

def test_adding_is_asked_roughly():
    "At the eps of removing a sum of few digits says enough; none of more is made."
    step = CorrelatedBins(Gaussian(sigma=2.), batches=10,
                          noise=MatrixFactorization(bands=[1., .5], steps=30))
    step.chains[1].plans.clear()
    assert epsilon(step, delta=1e-5) == pytest.approx(2.20905, abs=1e-5)
    assert min(step.chains[1].plans) > 1

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_adding_is_dismissed_beside_removing():
    "Its delta is below what removing has at least: no sum of many digits is made for it."
    step = CorrelatedBins(Gaussian(sigma=2.), batches=10,
                          noise=MatrixFactorization(bands=[1., .5], steps=30))
    step.chains[1].plans.clear()
    both = ContourAccountant(step).delta(np.array([2., 2.2]))
    assert min(step.chains[1].plans) > 1
    alone = ContourAccountant(step.remove).delta(np.array([2., 2.2]))
    np.testing.assert_array_equal(both[:3], alone[:3])
    assert (ContourAccountant(step.add).delta(np.array([2., 2.2])).upper < alone.lower).all()

def test_rows_of_many_batches_are_those_of_the_matrix():
    "But for the first ones, which the last steps make: so a factor is found once for all."
    noise = MatrixFactorization(bands=[1., .5, .25], steps=100)
    kernel = page.bands_of(*ring_of(noise, 100))
    assert len(np.unique(kernel.bands, axis=0)) == 3 and kernel.away < 1e-13
    np.testing.assert_allclose(kernel.bands[50], [1., .5, .25], rtol=1e-14)
    gram = noise.matrix().T @ noise.matrix()
    made = (kernel.matrix @ kernel.matrix.T)[::-1, ::-1]
    np.testing.assert_allclose(made, gram, rtol=1e-13, atol=1e-15)

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('log_delta', [-4., -9., -14.])
def test_a_first_eps_is_near(log_delta):
    "By two puts of few digits: one plan of many serves."
    noise = MatrixFactorization(bands=[1., .5, .25], steps=30)
    step = CorrelatedBins(Gaussian(sigma=1.5), batches=30, noise=noise)
    first = step.remove.own_lines.first_eps(log_delta)
    exact = ContourAccountant(step.remove).epsilon(math.exp(log_delta))
    assert abs(first - exact.upper) < .02*exact.upper

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('name', ['three', 'four'])
def test_ends_beyond_what_a_sum_knows(name):
    """Roundings are more than delta: the ends are by lines and by a place where the curve is known,
    nearer than by one batch and a known batch; beside draws that are all where S is large."""
    noise, b = RINGS[name]
    std = np.sqrt(np.diag(ring_of(noise, b)[0]))/4
    def alone(eps, shift, mu): return stats.norm.cdf(mu/2 - (eps + shift)/mu) \
        - math.exp(eps + shift)*stats.norm.cdf(-mu/2 - (eps + shift)/mu)
    def least(eps): return np.mean([alone(eps, math.log(b), mu) for mu in std]) - 1e-12
    def most(eps): return alone(eps, 0., std.max()) - 1e-12
    by_one, known = (optimize.brentq(f, .3, 9.) for f in (least, most))
    found = ContourAccountant(CorrelatedBins(Gaussian(sigma=4.), batches=b, noise=noise).remove)
    low, _, up = found.epsilon(1e-12)
    assert low > by_one + .08*(known - by_one) and up < by_one + .5*(known - by_one)
    for eps, side in ((low, -1), (up, 1))*(name == 'four'):     # of three, draws say little
        mean, off = drawn_delta(ring_of(noise, b)[0]/16, eps)
        assert off < .05*mean and side*(mean - 1e-12) < 4*off

def drawn_delta(K, eps, count=400000):
    "(E(S - e^eps)_+, its standard error): a bin's logarithm is drawn about where S is e^eps."
    rng, b, v = np.random.default_rng(11), len(K), np.diag(K)
    far = (eps + math.log(b) + v/2)/v
    X = rng.standard_normal((count, b)) @ np.linalg.cholesky(K).T
    j = rng.integers(b, size=count)
    X += far[j, None]*K[j]
    more = np.exp(far*X - far**2*v/2).mean(1)                  # of the density
    each = np.maximum(np.exp(X - v/2).mean(1) - math.exp(eps), 0)/more
    return each.mean(), each.std()/math.sqrt(count)

@pytest.mark.parametrize('seed', range(4))
def test_a_curve_from_below_along_lines(seed):
    "Random kernels, some with entries below 0: at most what draws say, and often near it."
    rng, near = np.random.default_rng(seed), []
    while len(near) < 3:
        b = int(rng.integers(2, 10))
        M = (rng.standard_normal((b, b)), rng.uniform(0, 1, (b, b)), np.eye(b))[len(near)]
        K = M @ M.T
        K *= rng.uniform(.2, 1.5)**2/K.max()
        mu = math.sqrt(np.diag(K).max())
        eps = mu*mu/2 + mu*rng.uniform(.5, 6)
        mean, off = drawn_delta(K, eps, 100000)
        if not off < .05*mean: continue
        low = max(log_along(K, eps, width) for width in (0, 1, 2, 4, 8))
        assert math.exp(low) < mean + 5*off
        near.append(math.log(mean) - low)
    assert min(near) < .2

FINER = {'ring': (RINGS['two'][0], RINGS['two'][1], 2.5), 'open': (*RINGS['open'], 1.5),
         'chain': (MatrixFactorization(inverse_bands=[1., -.6], steps=12), 12, 1.5)}

@pytest.mark.skipif(EXTENDED is np.float64, reason='numbers of 64 bits are needed')
@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('delta', [1e-9, 1e-12])
@pytest.mark.parametrize('name', FINER)
def test_tiny_deltas_of_a_removal(name, delta):
    "In numbers of 64 bits, beside draws that are all where S is large."
    noise, b, sigma = FINER[name]
    step = CorrelatedBins(Gaussian(sigma=sigma), batches=b, noise=noise)
    low, _, up = ContourAccountant(step.remove).epsilon(delta)
    M = in_epochs(noise, b)/sigma
    for eps, side in ((low, -1), (up, 1)):
        mean, off = drawn_delta(M.T @ M, eps)
        assert off < .04*mean and side*(mean - delta) < 4*off
    assert up - low < .02*up

def test_a_lag_that_is_next_to_nothing():
    "It turns no factor, as far as doubles see: what that factor grows by is then unknown."
    def asked(bands):
        noise = MatrixFactorization(bands=bands, steps=24)
        step = CorrelatedBins(Gaussian(sigma=2.), batches=8, noise=noise)
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')              # these bounds are wide, and say so
            return ContourAccountant(step).epsilon(1e-3)
    few, found = asked([1., .3]), asked([1., .3, 0., 1e-7])
    assert 0 < found.lower <= found.upper < 1.01*few.upper
    assert found.upper > few.lower

def test_ends_where_logarithms_are_not_associated():
    "Signs differ: nothing is known of a sum beside another, so it is not below all that there are."
    bands = LognormalBands([[.1574, -.2991], [-.5555, -.3124]])
    assert bands.rate == math.inf and bands.sway < 0
    at = Lattice(1.309, 1.309*np.arange(-1, 8), np.array([.972]), np.array([0.]), np.array([-.159]))
    (_, low), (_, high) = bands.cut(at)
    assert low >= bands.b and high == math.inf

UNEVEN = LognormalBands(np.tile([.7, .5, .2], (7, 1))*np.linspace(.8, 1.2, 7)[:, None])

@pytest.mark.parametrize('mass', [1., 1.2, 1.6])
def test_what_a_factor_costs_is_as_claimed(mass):
    "Not below the least of the claim over m, nor Jensen's bound, and near the lesser of them."
    v, log_rho = (UNEVEN.bands**2).sum(1).min(), math.log(mass/(2 - mass))
    m = np.linspace(0, 60, 60001)
    for s in .01, .5, 3., 40., 1e4:                      # s has the factor rho already
        cost = m*m/(2*v) + s*np.exp(-m) + log_rho + 2*m*math.sqrt(log_rho/v)
        least, found = min(cost.min(), s), UNEVEN.grown(np.array([s]), mass)[0]
        assert least*(1 - 1e-6) <= found <= 1.3*least    # the grid of m is this fine

@pytest.mark.parametrize('h, r, psi, tau', [(1.3, 2., .4, .7), (.9, 40., 1.1, -1.2),
                                            (1.6, .05, -.2, 0.), (.8, .3, .9, 1.5)])
def test_a_bent_path_of_bands(h, r, psi, tau):
    "What a place of bands moves; beside the sum for t, if its own factors are left out, or 1 + q."
    at = Lattice(h, h*np.arange(-12, 12), np.array([r]), np.array([psi]), np.array([tau]))
    moves, ones = np.abs(UNEVEN.bands).max(0), np.abs(UNEVEN.shift).max()
    path = BentPath(moves, 1., ones, UNEVEN.var.max(), UNEVEN.w.max())
    missed = 2*7*math.exp(path.log_missed(2*math.pi/h, r, psi, tau))
    mass = UNEVEN.mass(h)
    rho = mass/(2 - mass)
    cost = 3*UNEVEN.grown(np.array([rho/7*r*math.cos(psi)]), mass)[0]
    for most in -9., 0., 5.:
        beside = min(mass, rho*math.exp(most + cost))
        found = math.exp(UNEVEN.log_bent(at, np.array([most]))[0])
        assert found == pytest.approx(missed*beside, rel=1e-10, abs=0)

@pytest.mark.parametrize('h', [.8, 2.2])
def test_ends_of_independent_places_are_as_claimed(h):
    "Both ends, alone and beside phi, by sums of the places that are left out."
    r, psi = .3, .2
    at = Lattice(h, h*np.arange(-6, 8), np.array([r]), np.array([psi]), np.array([.5]))
    (low, beside), (high, part) = UNEVEN.cut(at)
    places = h*np.arange(200)
    def left(y): return h*np.exp(-(y + places)**2/2).sum()/math.sqrt(2*math.pi)
    rho = UNEVEN.mass(h)/(2 - UNEVEN.mass(h))
    near = 7*h - rho/7*r*math.cos(psi)*UNEVEN.sway        # the first below; moved by its factors
    assert rho > 1.1 or h < 1
    def just_above(bound, sums): return sums*(1 - 1e-12) <= bound < 1.01*sums
    assert just_above(low, 7*UNEVEN.mass(h)*left(7*h))
    assert beside == pytest.approx([7*math.exp(-near**2/2)], rel=1e-10)
    assert just_above(high, 7*UNEVEN.mass(h)*left(8*h))
    assert just_above(part, 7*rho*left(8*h))

def tapered(p, around):
    "Bands of a ring, or of a moving average that begins: rows that differ."
    rows = np.outer(1 + .1*np.cos(np.arange(2*p)), [.5, .25, .12, .06][:p])
    return LognormalBands(rows if around else np.where(np.tri(2*p, p, dtype=bool), rows, 0))

def lattice_at(r, psi, tau, n=11, h=.8):
    return Lattice(h, h*np.arange(-n + 3, 4), *(np.array([float(v)]) for v in (r, psi, tau)))

def all_places(made, at):
    "The sum over all places at once, in more digits than doubles have, of two or three bands."
    B, x = made.matrix.astype(np.longdouble), at.x.astype(np.longdouble)
    z = x[np.indices(made.b*(len(x),)).reshape(made.b, -1)]
    log_w = -(B*B).sum(1)/2 - np.log(np.longdouble(made.b))
    u = at.r[0]*np.exp(1j*at.psi[0].astype(np.longdouble))
    size = -(z*z).sum(0)/2 + made.b*np.log(at.h/np.sqrt(2*np.longdouble(np.pi)))
    size = size - u*np.exp(log_w[:, None] + B @ z).sum(0)
    return np.exp(size + 1j*at.tau[0]*(made.shift.astype(np.longdouble) @ z)).sum()

POINTS = [(.5, 1., .8), (40., .7, 0.), (300., 0., 0.), (300., .4, -.5)]

@pytest.mark.parametrize('r, psi, tau', POINTS)
@pytest.mark.parametrize('p, n', [(2, 11), (3, 6)])
@pytest.mark.parametrize('around', [False, True])
def test_a_tilted_sum_is_the_same(p, n, around, r, psi, tau):
    "As all places at once, in more digits: also where the sum is small, in proportion to it."
    made, at = tapered(p, around), lattice_at(r, psi, tau, n)
    (found,), _, (off,) = made.transform(at)
    error = abs(found - all_places(made, at))
    assert error < off < 1e-9*math.exp(-made.tilted(at).nats[0])

def tilts_of(made, t):
    return made.tilted(Lattice(1., np.arange(-3., 4), t, 0*t, 0*t))

@pytest.mark.parametrize('signs', [1, -1])
@pytest.mark.parametrize('p', [2, 3, 4])
def test_a_tilt_takes_out_the_largest_term(p, signs):
    "Nearly: of all places together, by a minimiser; and exactly what its c says, which is best."
    made = LognormalBands(tapered(p, True).bands*signs**np.arange(p))
    t = np.array([.1, 5., 80., 900.])
    tilt, w = tilts_of(made, t), np.exp(-(made.matrix**2).sum(1)/2)/made.b
    np.testing.assert_allclose(tilt.mean, tilt.rise[:, None]*made.matrix.sum(0), rtol=1e-12)
    for one, c, nats in zip(t, tilt.rise, tilt.nats, strict=True):
        def taken(c, one=one):
            return (c*(1 + np.log(one*w/c))).sum() - (c*made.matrix.sum(0))**2 @ np.ones(made.b)/2
        least = optimize.minimize(lambda z, one=one: z @ z/2 + one*w @ np.exp(made.matrix @ z),
                                  np.zeros(made.b), tol=1e-10).fun
        assert .95*least < nats <= least*(1 + 1e-9)
        assert nats == pytest.approx(taken(c), rel=1e-12)
        assert max(taken(.99*c), taken(1.01*c)) < nats

def test_where_nothing_can_be_taken_out():
    "Numbers next to nothing, and sums that are below all doubles: no NaN."
    made = tapered(2, True)
    tilt = tilts_of(made, np.array([1e-320, 1e-300, 1e12]))
    assert tilt.rise[0] == 0 and tilt.nats[0] == 0 and tilt.nats[2] > 750
    assert all(np.isfinite(v).all() for v in tilt)
    for each in (made, tapered(2, False)):
        for r in (1e-320, 1e7, 1e15):
            found, _, off = each.transform(lattice_at(r, 0., 0.))
            assert np.isfinite(found).all() and np.isfinite(off).all()

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('sigma', [30., 100., 1e4])
@pytest.mark.parametrize('direction', ['remove', 'add'])
def test_more_noise_than_tables_of_tilts_have(sigma, direction):
    "e^nats is no double at their end."
    noise = MatrixFactorization(bands=[1, .5], steps=24)
    step = getattr(CorrelatedBins(Gaussian(sigma=sigma), batches=8, noise=noise), direction)
    low, _, up = ContourAccountant(step).delta(.001)
    assert 0 <= low <= up < .6/sigma

@pytest.mark.parametrize('r, psi, tau', POINTS)
@pytest.mark.parametrize('p', [2, 3])
def test_what_roundings_of_a_tilted_sum_are(p, r, psi, tau):
    "Of bands that do not close, term by term, as the claims say."
    made, at = tapered(p, False), lattice_at(r, psi, tau)
    tilt, (_, _, (off,)), h = made.tilted(at), made.transform(at), at.h
    c, means = tilt.rise[0], np.abs(tilt.mean[0])
    reach, rows = 1 + h + means.max(), np.abs(made.matrix).sum(1)
    phase, rate, term, slope = (vars(page)[f'_{name}_ULPS'] for name in
                                ('PHASE', 'RATE', 'TERM', 'TILT'))
    places = np.abs(made.shift)*abs(tau)
    exponent = rate + made.var*made.off + p*reach*rows
    exponent = exponent + phase*(p + 1)*(1 + abs(tau)*rows*np.abs(made.shift).max())
    exponent = exponent + abs(tau)*np.abs(made.matrix @ made.shift - 1)*2**52
    largest = (1 + c)*(1 + 1/c)**c/(math.e*math.cos(psi))
    each = exponent*largest + phase*(places*reach + 1) + (slope + p)*c*reach*rows
    each = each + (1 + h) + 2*term + len(at.x)
    nats = (np.abs(tilt.top) + tilt.mean**2).sum()*(made.b + term)
    expected = (each.sum() + nats)*2.**-52*made.mass(h)*math.exp(-tilt.nats[0])
    assert off == pytest.approx(expected, rel=1e-5, abs=0)

def test_columns_are_left_out_of_what_is_left():
    "As many nats as are taken out of a sum, its columns may leave out more."
    made, at = tapered(3, True), lattice_at(300., .4, -.5)
    left = math.exp(-made.tilted(at).nats[0])
    off = [made.transform(at._replace(spare=part*left))[2][0]/left for part in (0., 1e-7, 1e-4)]
    assert 1e-12 < off[0] < 1e-10 < 1e-9 < off[1] < 1e-6 < off[2] < 1e-3

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_adding_with_much_noise_is_known_from_both_sides():
    "Ten epochs at sigma 10, where the put is e^-13 and phi e^-33: by draws that are moved there."
    noise = MatrixFactorization(bands=[1, .5, .25, .125], steps=100)
    ring = CorrelatedBins(Gaussian(sigma=10.*math.sqrt(1.328125)), batches=10, noise=noise)
    below, above = ring.chains
    low, _, high = above.puts(.5)
    assert below is above and 0 < low <= high < 1.03*low
    B, mean = above.matrix, 1.3
    z = np.random.default_rng(5).standard_normal((400_000, above.b)) - mean
    S = np.exp(z @ B.T - (B*B).sum(1)/2).mean(1)
    each = np.maximum(.5 - S, 0)*np.exp(mean*z.sum(1) + above.b*mean**2/2)
    spread = 5*each.std()/math.sqrt(len(each))
    assert low - spread < each.mean() < high + spread and spread < .2*low

@pytest.mark.parametrize('place', [1e-5, 1e-8])
@pytest.mark.parametrize(('sigma', 'bins'), [(1.1, 10), (2., 10), (.7, 40)])
def test_a_curve_beyond_a_known_place(sigma, bins, place):
    "Of independent noise, whose curve is known: above it, and nearer than a known batch."
    exact, mu = ContourAccountant(BallsInBins(Gaussian(sigma=sigma), batches=bins).remove), 1/sigma
    at = exact.epsilon(place).upper
    for eps in np.linspace(at, 1.6*at, 5):
        low, _, up = np.log(exact.delta(eps))
        most = log_beyond(eps, at, math.log(exact.delta(at).upper), mu)
        assert low <= most + 1e-9 and most < GaussianLoss(mu).log_delta(eps) - .5
        assert most < up + 6
