"""sampling.correlated_noise: random batches with correlated noise. References: two bins by one
integral over a closed form; lognormal transforms by mpmath; sums over lattices in more digits;
balls in bins; simulation."""
import itertools
import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from dp_saddle import (
    BallsInBins,
    ContourAccountant,
    CorrelatedBins,
    Gaussian,
    MatrixFactorization,
    calibrate,
    delta,
    epsilon,
    report,
    to_steps,
)
from dp_saddle.base import EXTENDED, TooDear
from dp_saddle.sampling import correlated_noise as page
from dp_saddle.sampling import lognormal_chains as chains
from dp_saddle.sampling.correlated_noise import LognormalPairs
from dp_saddle.sampling.lognormal_chains import Lattice, LognormalChain
from dp_saddle.sampling.rings import LognormalBands


def ar(b, lam, sigma): return LognormalChain([0.] + (b - 1)*[lam], b*[1/sigma])

def deltas(chain, eps):
    "((lower, upper) removing, adding) of delta."
    g = math.exp(eps)
    low, _, high = chain.puts(g)
    least, _, most = chain.puts(1/g)
    return (1 - g + low, 1 - g + high), (g*least, g*most)

def put_of_two(K, slope, std):
    "E(K - S)_+ for two bins: given the first logarithm, a closed form; then an integral."
    s, t = std
    v, w = s*s, slope**2*s*s + t*t
    def given(x):
        left, mean = K - math.exp(x - v/2)/2, slope*x - w/2 - math.log(2)
        if left <= 0: return 0.
        d = (math.log(left) - mean)/t
        return (left*stats.norm.cdf(d) - math.exp(mean + t*t/2)*stats.norm.cdf(d - t)) \
            * stats.norm.pdf(x, scale=s)
    end = min(math.log(2*K) + v/2, 12*s)
    edges = np.linspace(-12*s, end, 25)
    return sum(integrate.quad(given, a, b, epsabs=1e-17, epsrel=1e-13)[0]
               for a, b in itertools.pairwise(edges))

@pytest.mark.parametrize('slope, std', [
    (.5, (1., 1.)), (0., (1., .5)), (-.7, (.4, 1.3)), (.95, (2., .3)), (1.5, (.2, .2))])
@pytest.mark.parametrize('K', [.2, .7, 1., 3.])
def test_two_bins_by_an_integral(slope, std, K):
    exact = put_of_two(K, slope, std)
    low, about, high = LognormalChain([0., slope], std).puts(K)
    assert low - 1e-15 <= exact <= high + 1e-15
    assert high - low < 1e-11*max(K, 1) and abs(about - exact) < 1e-13*max(K, 1)

@pytest.mark.parametrize('lam, sigma, remove, add', [
    (.5, 1., 5.0190804e-5, 3.3352190226e-7), (.9, 2., 1.10290835e-2, 5.9218622400e-3)])
def test_a_hundred_batches(lam, sigma, remove, add):
    "Against values of a plain program: a long line, a fine grid, nothing proved."
    of_remove, of_add = deltas(ar(100, lam, sigma), 1.)
    assert of_remove[0] < remove + 4e-10 and remove - 4e-10 < of_remove[1]
    assert of_add[0] == pytest.approx(add, rel=1e-9) == of_add[1]
    assert of_remove[1] - of_remove[0] < 4e-11

@pytest.mark.parametrize('b, sigma, eps', [(30, 1., 1.), (12, .7, .5), (40, 2., .3)])
def test_independent_noise_is_balls_in_bins(b, sigma, eps):
    "The chain itself, and the mechanism, which asks balls in bins."
    run = BallsInBins(Gaussian(sigma=sigma), batches=b)
    one = MatrixFactorization(bands=[2.], steps=b)
    same = CorrelatedBins(Gaussian(sigma=2*sigma), batches=b, noise=one)
    found = deltas(ar(b, 0., sigma), eps)
    for way, (low, high) in zip(('remove', 'add'), found, strict=True):
        exact = ContourAccountant(getattr(run, way)).delta(eps)
        assert low <= exact.upper and exact.lower <= high and high - low < 1e-11
        mine = ContourAccountant(getattr(same, way)).delta(eps)
        assert mine.estimate == pytest.approx(exact.estimate, rel=1e-9)

@pytest.mark.parametrize('seed', range(4))
def test_random_chains_by_simulation(seed):
    "Slopes of both signs, stds that differ: four standard errors."
    rng = np.random.default_rng(seed)
    b, count = int(rng.integers(3, 9)), 60000
    slope, std = np.append(0., rng.uniform(-.8, .9, b - 1)), rng.uniform(.3, .9, b)
    X, columns = np.empty((count, b)), []
    for j in range(b): X[:, j] = (slope[j]*X[:, j - 1] if j else 0) + std[j]*rng.normal(size=count)
    for j in range(b): columns.append(std*np.array([np.prod(slope[i+1:j+1]) if i <= j else 0
                                                    for i in range(b)]))
    K = np.array(columns) @ np.array(columns).T
    def log_S(X): return np.log(np.exp(X - np.diag(K)/2).mean(1))
    each = (np.maximum(1 - np.exp(.4 - log_S(X + K[rng.integers(b, size=count)])), 0),
            np.maximum(1 - np.exp(.4 + log_S(X)), 0))
    for (low, high), v in zip(deltas(LognormalChain(slope, std), .4), each, strict=True):
        assert abs((low + high)/2 - v.mean()) < 4*v.std()/math.sqrt(count) and high - low < 1e-11

def lognormal_transform(u, s, mean):
    "E e^{-u e^{X + mean}}, X ~ N(0, s^2), |arg u| < pi: on a path that is turned."
    u, turn = mp.mpc(u), mp.arg(mp.mpc(u))
    def f(x):
        z = x - 1j*turn
        return mp.exp(-z*z/(2*s*s) - u*mp.exp(z + mean))/(s*mp.sqrt(2*mp.pi))
    return mp.quad(f, mp.linspace(-14*s, 9*s, 30))

@pytest.mark.parametrize('angle', [0., .8, 1.7, 2.6])
@pytest.mark.parametrize('turn', [.6, 1.2])
def test_a_turned_path_continues_the_transform(angle, turn):
    "One bin against mpmath, to the left of the axis too; and |phi| is below the lemma's bound."
    if abs(angle - turn) > 1.5: return
    s, r, h = .8, 7., .05
    chain = LognormalChain([0.], [s])
    x = h*np.arange(-200, 121)
    at = Lattice(h, x, np.array([r]), np.array([angle - turn]), np.array([turn]))
    value, moduli, rounding = chain.transform(at)
    grown = math.exp(turn**2*chain.total/2)
    exact = complex(lognormal_transform(r*np.exp(1j*angle), s, -s*s/2))
    off = grown*(rounding + chain.left_out(at, chains.PARTS))[0]
    assert abs(value[0]*grown - exact) <= off < 1e-8
    assert abs(exact) <= grown*moduli[0]*(1 + 1e-9)
    real = float(lognormal_transform(r*math.cos(angle - turn), s, -s*s/2).real)
    assert moduli[0] == pytest.approx(real, rel=1e-6)

@pytest.mark.parametrize('h', [1.2, 1., .8, .6])
def test_what_a_coarse_lattice_leaves_out(h):
    "One bin, a lattice with an error that is seen: within the bound, and not far below."
    chain = LognormalChain([0.], [1.])
    x = h*np.arange(-math.ceil(9/h), math.ceil(5/h) + 1)
    r, angle, turn = 4., 1.4, .7
    at = Lattice(h, x, np.array([r]), np.array([angle - turn]), np.array([turn]))
    exact = complex(lognormal_transform(r*np.exp(1j*angle), 1., -1/2))
    grown = math.exp(turn**2/2)
    error = abs(chain.transform(at)[0][0]*grown - exact)
    bound = grown*chain.left_out(at, chains.PARTS)[0]
    assert error <= bound < 3000*error

def test_ends_of_a_lattice():
    "A lattice that ends too soon, on either side: what is lost is within the bound."
    chain, r = LognormalChain([0., .3], [1., 1.]), np.array([3.])
    zero = np.zeros(1)
    whole = Lattice(.1, .1*np.arange(-120, 91), r, zero, zero)
    exact = chain.transform(whole)[0][0]
    for first, last in ((-25, 90), (-120, 25), (-30, 30)):
        at = Lattice(.1, .1*np.arange(first, last + 1), r, zero, zero)
        lost = abs(exact - chain.transform(at)[0][0])
        assert 1e-9 < lost <= chain.left_out(at, chains.PARTS)[0]

@pytest.mark.parametrize('b, t', [(1, 3.), (3, 20.), (3, 100.)])
@pytest.mark.parametrize('h', [.8, 1., 1.2])
def test_a_sum_is_beside_the_transform(b, t, h):
    "At a real argument the sum over a coarse lattice is within 1 - eta of the transform: a share."
    chain, zero = ar(b, .5, 1.), np.zeros(1)
    def at(h): return Lattice(h, h*np.arange(-math.ceil(12/h), math.ceil(6/h) + 1),
                              np.array([t]), zero, zero)
    exact, coarse = (chain.transform(at(step))[0][0].real for step in (.1, h))
    more = chain.log_more(h, np.array([t]))[0]
    away = abs(math.log(coarse/exact))
    assert away <= more + 1e-12
    assert b > 1 or more == math.inf or more < 3000*away

@pytest.mark.parametrize('t', [5., 60.])
@pytest.mark.parametrize('spread', [.6, .8])
def test_what_a_moved_lattice_misses(t, spread):
    "One bin that varies little: of all lattices with a step the worst is as bad as is claimed."
    std = .1
    chain, h = LognormalChain([0.], [std]), spread*2*math.pi/math.sqrt(1/std**2 + t)/1.6
    def total(h, moved):
        x = moved + h*np.arange(-math.ceil(2/h), math.ceil(2/h) + 1)
        density = np.exp(-x*x/2/std**2)*h/(std*math.sqrt(2*math.pi))
        return (density*np.exp(-t*chain.w[0]*np.exp(x))).sum()
    exact = total(.001, 0.)
    away = max(abs(math.log(total(h, h*k/16)/exact)) for k in range(16))
    assert 1e-6 < away <= chain.log_more(h, np.array([t]))[0] < 2*away

def test_a_table_bounds_the_transform():
    "One bin by mpmath, above at and between the tilts; tight; and slopes below 0 have it too."
    chain, tilts = LognormalChain([0.], [1.2]), chains.TILTS
    for t in (tilts[30], (tilts[60] + 2*tilts[61])/3, tilts[90], .01):
        exact = math.log(lognormal_transform(t, 1.2, -.72).real)
        assert exact < chain.most(t) < exact + .02
    chain, steep = LognormalChain([0., -.5], [1., 1.]), LognormalChain([0., .5], [1., 1.])
    zero, x = np.zeros(len(tilts)), .1*np.arange(-120, 61)
    log_phi = np.log(chain.transform(Lattice(.1, x, tilts, zero, zero))[0].real)
    assert math.isinf(chain.rate) and (log_phi <= chain.most(tilts) + 1e-12).all()
    np.testing.assert_array_equal(chain.most(tilts), steep.most(tilts))

@pytest.mark.parametrize('first, last', [(-30, 60), (-80, 22)])
def test_ends_beside_the_transform(first, last):
    "Where the transform is small: what an end loses is within the part of it that is claimed."
    chain, r, zero = ar(20, .5, 3.), np.array([30.]), np.zeros(1)
    whole = Lattice(.05, .05*np.arange(-80, 61), r, zero, zero)
    at = whole._replace(x=.05*np.arange(first, last + 1))
    exact = chain.transform(whole)[0][0].real
    lost = exact - chain.transform(at)[0][0].real
    ends = [(float(np.max(part)*exact), float(np.max(end))) for end, part in chain.cut(at)]
    part, end = max(ends)
    assert 1e-15 < lost <= sum(min(pair) for pair in ends) and part < 1e-7*end

def test_roundings_are_counted():
    "The same sum over a lattice, in forty digits: the difference is within the bound."
    slope, std = [0., -.6, .8], [.7, .4, .9]
    chain, h = LognormalChain(slope, std), .25
    x = h*np.arange(-12, 9)
    r, psi, tau = np.array([2., 9.]), np.array([.4, .9]), np.array([.3, .8])
    value, moduli, rounding = chain.transform(Lattice(h, x, r, psi, tau))
    with mp.workdps(40):
        variances = [mp.mpf(std[0])**2]
        for a, s in zip(slope[1:], std[1:], strict=True):
            variances.append(mp.mpf(a)**2*variances[-1] + mp.mpf(s)**2)
        for k in range(2):
            f, kappa = {mp.mpf(0): mp.mpc(1)}, mp.mpf(tau[k])
            for a, s, v in zip(slope, std, variances, strict=True):
                a, s, w, new = mp.mpf(a), mp.mpf(s), mp.exp(-v/2)/3, {}
                for y in x:
                    z = mp.mpf(float(y))
                    total = sum(c*mp.exp(-((z - a*q) - 1j*kappa*(1 - a))**2/(2*s*s)
                                         - kappa**2*(1 - a)**2/(2*s*s)) for q, c in f.items())
                    rate = mp.mpf(r[k])*mp.expj(mp.mpf(psi[k]))*w*mp.exp(z)
                    new[z] = total*mp.mpf(h)/(s*mp.sqrt(2*mp.pi))*mp.exp(-rate)
                f = new
            wrong = abs(mp.mpc(complex(value[k])) - sum(f.values()))
            assert wrong <= rounding[k] < 1e-12*moduli[k]

def test_what_a_short_contour_misses():
    "Few places and long steps: what is missed is within the bound, and seen."
    chain, K = LognormalChain([0.], [1.]), 1.4
    exact = K*stats.norm.cdf(math.log(K) + .5) - stats.norm.cdf(math.log(K) - .5)
    assert chain.puts(K)[0] - 1e-15 <= exact <= chain.puts(K)[2] + 1e-15
    for n, h in ((9, .35), (8, .5), (14, .2)):
        line = chains.Contour(s=math.sin(.6), mu=4., h=h, n=n, left=.5, right=.45)
        u = line.u
        weight = np.exp(u*K)*line.slope/(1j*math.pi*u*u)*line.h
        weight[0] /= 2
        at, = chain.lattices(u, np.log(np.abs(weight)), -40., len(u))
        value = (weight*np.exp(at.tau**2*chain.total/2)*chain.transform(at)[0]).real.sum()
        assert 1e-12 < abs(value - exact) <= chain.missed(line, K)

@pytest.mark.parametrize('kernel', [
    LognormalChain([0., .5], [2., 2.]), LognormalPairs([[0., 0.], [.5, 0.]], [2., 2.])])
def test_a_large_eps_adding_has_its_tilts(kernel):
    "K is small: the vertex of the contour is beyond a thousand, and the put far below K."
    K = 2e-5
    low, _, high = kernel.puts(K)
    exact = put_of_two(K, .5, (2., 2.))
    assert kernel.guess(K)[0] > 1e5 and exact < 1e-4*K
    assert low - 1e-16 <= exact <= high + 1e-16 and high < low*(1 + 1e-5)

def test_a_contour_that_has_no_end_is_none():
    "Where an integrand never falls to the goal, all at once: no two points that say nothing."
    bands = LognormalBands(np.tile([1e-4, 5e-5], (8, 1)))
    assert bands.chosen(1.001, -28.) is None
    with pytest.raises(TooDear, match='batches must be fewer'): bands.puts(1.001)

def test_a_kernel_of_pairs_has_an_end():
    "Numbers that no memory holds are not asked for, whatever the noise."
    pairs = LognormalPairs(np.tile([.5, .1], (10, 1)), np.full(10, 1e-4))
    assert pairs.work(Lattice(1., np.arange(400.), *np.zeros((3, 6)))) == math.inf
    with pytest.raises(TooDear, match='batches must be fewer'): pairs.puts(math.exp(.5))

def test_points_of_a_contour():
    "1 - sin(alpha) cosh(xi) cancels: the points are known to some ulps of their modulus."
    line = chains.Contour(s=math.sin(1.2), mu=3., h=.01, n=200, left=.1, right=.1)
    with mp.workdps(40):
        for xi, u, slope in zip(line.xi, line.u, line.slope, strict=True):
            z, s = mp.mpf(float(xi)), mp.mpf(line.s)
            c = mp.sqrt(1 - s*s)
            exact = 3*mp.mpc(1 - s*mp.cosh(z), c*mp.sinh(z))
            assert abs(mp.mpc(complex(u)) - exact) <= 4*2**-52*abs(exact)
            steep = 3*mp.mpc(-s*mp.sinh(z), c*mp.cosh(z))
            assert abs(mp.mpc(complex(slope)) - steep) <= 4*2**-52*abs(steep)

def test_a_matrix_makes_the_chain():
    "K = C^T C/sigma^2: its diagonal, from the last step on, and the three numbers of its inverse."
    made = MatrixFactorization(inverse_bands=[2., -.6], steps=7)
    chain, C = page.chain_of(made, 1.5), made.matrix()
    K = (C.T @ C/1.5**2)[::-1, ::-1]
    np.testing.assert_allclose(chain.var, np.diag(K), rtol=1e-13)
    inverse = np.linalg.inv(K)
    assert chain.total == pytest.approx(inverse.sum(), rel=1e-10)
    assert chain.sway == pytest.approx(K.sum(1).max(), rel=1e-5)
    assert chain.precision == pytest.approx(np.diag(inverse).max(), rel=1e-10)
    assert chain.ones == pytest.approx(np.abs(inverse.sum(1)).max(), rel=1e-10)
    diagonal = MatrixFactorization(C=np.diag([1., -2., 3.]))
    np.testing.assert_allclose(page.chain_of(diagonal, 2.).std, [1.5, 1., .5])

HALVES = MatrixFactorization(inverse_bands=[1., -.5], steps=20)
def step(sigma): return CorrelatedBins(Gaussian(sigma=sigma), batches=20, noise=HALVES)

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_accountants_take_it():
    "delta and epsilon invert each other, the worse direction counts; calibration; a report."
    run = step(1.)
    found = ContourAccountant(run).epsilon(1e-5)
    assert found.lower <= found.upper < found.lower + 1e-5
    assert delta(run, eps=found.upper) <= 1e-5 <= delta(run, eps=found.lower)*(1 + 1e-9)
    remove, add = deltas(page.chain_of(HALVES, 1.), .8)
    assert delta(run, eps=.8) == pytest.approx(max(remove[1], add[1]), rel=1e-9)
    assert delta(step(2.), eps=.8) < delta(run, eps=.8)
    assert 'one random batch of an epoch' in str(report(run, delta=1e-5))
    scaled = CorrelatedBins(Gaussian(sigma=3., sensitivity=3.), batches=20, noise=HALVES)
    assert delta(scaled, eps=.8) == pytest.approx(delta(run, eps=.8), rel=1e-9)

def test_calibration():
    sigma = calibrate(step, eps=1., delta=1e-5, parameter='sigma')
    assert 1 - 1e-4 < epsilon(step(sigma), delta=1e-5) <= 1

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_several_epochs_are_charged_as_known():
    "From above only: the Gaussian of the largest column, in each epoch and beside others."
    run, known = step(1.), HALVES.gaussian(1.)
    assert delta(3*run, eps=4.) == pytest.approx(delta(3*known, eps=4.), rel=1e-9)
    assert delta(run, eps=1.) < delta(run + Gaussian(sigma=9.), eps=1.)
    with pytest.warns(UserWarning, match="as if each record's batch were known"):
        assert ContourAccountant(2*run).delta(1.).lower == 0

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('sigma, eps', [(10., .05), (30., .012)])
def test_much_noise(sigma, eps):
    "A hundred independent batches: the chain meets balls in bins, where little of S varies."
    run = BallsInBins(Gaussian(sigma=sigma), batches=100)
    remove, add = deltas(ar(100, 0., sigma), eps)
    exact = ContourAccountant(run.add).delta(eps)
    assert add[0] <= exact.estimate*(1 + 1e-6) and exact.estimate <= add[1]*(1 + 1e-6)
    assert 0 < add[0] < add[1] < add[0]*(1 + 1e-3)
    exact = ContourAccountant(run.remove).delta(eps)
    assert remove[0] <= exact.upper and exact.lower <= remove[1] and remove[1] - remove[0] < 1e-10

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_little_noise_and_a_large_eps_are_charged_as_known():
    assert delta(step(.2), eps=50.) <= delta(HALVES.gaussian(.2), eps=50.)*(1 + 1e-5)

@pytest.mark.parametrize('kernel', [
    ar(2, .5, 1.), ar(20, .3, .3), ar(5, -.5, .5), LognormalBands(np.tile([.6, .3], (6, 1))),
    page.pairs_of(MatrixFactorization(inverse_bands=[1., -.4, -.2], steps=6), .6, 6)])
def test_what_is_known_at_once_holds_what_a_sum_says(kernel):
    "Both bounds in both directions; and the lower ones are not far, where there is little noise."
    for direction in ('remove', 'add'):
        puts = page.CorrelatedLoss((kernel, kernel), direction).own_lines
        for eps in (.1, .5, 1., 3., 6.):
            low, high = deltas(kernel, eps)[direction == 'add']
            least = math.exp(puts.log_least(eps, puts.sign))
            assert least <= high + 1e-12 and max(low, 0) <= math.exp(puts.log_most(eps)) + 1e-12
    if kernel.var.max() < 4: return
    for direction in ('remove', 'add'):
        puts = page.CorrelatedLoss((kernel, kernel), direction).own_lines
        low, _ = deltas(kernel, .5)[direction == 'add']
        assert math.exp(puts.log_least(.5, puts.sign)) > low/20

def test_an_epsilon_takes_few_transforms(monkeypatch):
    "Puts near each other share a plan, and few points share a lattice."
    taken, transform = [], LognormalChain.transform
    def noticed(self, at):
        taken.append(len(at.r))
        return transform(self, at)
    monkeypatch.setattr(LognormalChain, 'transform', noticed)
    found = ContourAccountant(step(1.01).add).epsilon(1e-5)     # nobody else's: kernels are kept
    table, *others = taken
    assert table == len(chains.TILTS[::2]) and max(others) <= 6 and 4 <= len(others) <= 10
    assert found.upper - found.lower < 1e-9

def test_a_kernel_is_kept_by_value():
    "For the numbers of its matrix, not for the object; another sigma has its own."
    def made(sigma, ahead):
        noise = MatrixFactorization(inverse_bands=[1., ahead], steps=5)
        return CorrelatedBins(Gaussian(sigma=sigma), batches=5, noise=noise)
    first = made(1.3, -.5)
    assert made(1.3, -.5) == first and made(1.3, -.5).chains is first.chains
    for other in (made(1.4, -.5), made(1.3, -.4)):
        assert other != first and other.chains is not first.chains

@pytest.mark.parametrize('kernel', [
    ar(20, .5, 1.), LognormalPairs(np.tile([.4, .2], (6, 1)), np.full(6, .7)),
    LognormalBands(np.tile([.6, .3], (6, 1)))])
def test_a_put_at_once(kernel):
    "It is above the put, by no more than a few nats; and by what the covariance is away."
    for K in np.exp([-.2, -.5, -.8]):
        most, high = kernel.log_put_most(K), kernel.puts(K)[2]
        assert math.log(high) < most < math.log(high) + 3
        kernel.away = 1e-3
        off = kernel.puts(K)[2] - high
        assert math.exp(kernel.log_put_most(K)) == pytest.approx(math.exp(most) + off, rel=1e-5)
        kernel.away = 0.

def test_the_other_direction_needs_no_contour(monkeypatch):
    "Adding, at the eps of removing: the table says that it is less."
    asked, puts = [], LognormalChain.puts
    def noticed(self, K):
        asked.append(K)
        return puts(self, K)
    monkeypatch.setattr(LognormalChain, 'puts', noticed)
    epsilon(step(.9), delta=1e-5)
    assert min(asked) > 1

@pytest.mark.parametrize('bad, words', [
    (dict(batches=19), 'as batches, 19, or as several epochs, got 20'),
    (dict(noise=MatrixFactorization(bands=[1., -.5, -.25], steps=20)), r'C\^T C >= 0'),
    (dict(noise=MatrixFactorization(buffers=([1.], [.1]), steps=10**5), batches=10**5),
     'batches must be fewer'),
    (dict(batches=0), 'batches must be an integer >= 1')])
def test_what_is_no_step_is_named(bad, words):
    right = dict(batches=20, noise=HALVES)
    with pytest.raises(ValueError, match=words): CorrelatedBins(Gaussian(sigma=1.), **right | bad)

def test_other_questions_are_refused_by_name(monkeypatch):
    with pytest.raises(TypeError, match='base must be a Gaussian'):
        CorrelatedBins(3*Gaussian(sigma=1.), batches=20, noise=HALVES)
    with pytest.raises(TypeError, match='noise must be a MatrixFactorization'):
        CorrelatedBins(Gaussian(sigma=1.), batches=20, noise=[1., -.5])
    with pytest.raises(ValueError, match='must have a name in a file'): to_steps(step(1.))
    with pytest.raises(ValueError, match='noise must be independent for this method'):
        ContourAccountant(step(1.), levels=False)
    monkeypatch.setattr(LognormalChain, 'most_work', 1e4)
    with pytest.raises(TooDear, match='batches must be fewer'): ar(40, 0., 2.).puts(1.1)

def covariance(chain):
    "Of its logarithms, from slopes and stds."
    K = np.diag(chain.var)
    for i in range(chain.b):
        for j in range(i + 1, chain.b):
            K[i, j] = K[j, i] = chain.var[i]*np.prod(chain.slope[i+1:j+1])
    return K

MATRICES = {
    'bands': MatrixFactorization(bands=[1., .5, .25, .125], steps=10),
    'two bands': MatrixFactorization(bands=[1., .9], steps=7),
    'buffers': MatrixFactorization(buffers=([.9, .4], [.2, .3]), steps=10),
    'column': MatrixFactorization(column=.5**np.arange(9)),
    'three of the inverse': MatrixFactorization(inverse_bands=[1., -.4, -.2], steps=8),
    'C': MatrixFactorization(C=np.tri(6)*np.random.default_rng(2).uniform(.1, 1, (6, 6))
                             + np.eye(6)),
    'signs': MatrixFactorization(C=[[1., 0., 0.], [-.1, 1., 0.], [.5, .4, 2.]]),
}

@pytest.mark.parametrize('name', MATRICES)
def test_chains_are_below_and_above(name):
    "Entry by entry, whatever the order of steps; so are the curves, by simulation."
    noise, sigma = MATRICES[name], 1.3
    C, b = noise.matrix(), noise.steps
    K = C.T @ C/sigma**2
    below, above = page.chains_around(noise, sigma)
    assert (covariance(below) <= K).all() and (covariance(above) >= K).all()
    rng = np.random.default_rng(5)
    X, i = rng.standard_normal((40000, b)) @ C/sigma, rng.integers(b, size=40000)
    def log_S(X): return np.log(np.exp(X - np.diag(K)/2).mean(1))
    each = (np.maximum(1 - np.exp(.4 - log_S(X + K[i])), 0),
            np.maximum(1 - np.exp(.4 + log_S(X)), 0))
    for v, (low, _), (_, high) in zip(each, deltas(below, .4), deltas(above, .4), strict=True):
        error = 4*v.std()/200
        assert 0 < low - error < v.mean() < high + error
        assert high < 2.2*v.mean()

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_a_chain_by_its_column_is_between():
    "The same matrix said by its column: not known to be a chain, so bounds are apart around it."
    chain = MatrixFactorization(inverse_bands=[1., -.5], steps=9)
    exact = ContourAccountant(CorrelatedBins(Gaussian(sigma=1.), batches=9, noise=chain).add)
    found = ContourAccountant(CorrelatedBins(Gaussian(sigma=1.), batches=9,
                                             noise=MATRICES['column']).add).delta(.6)
    exact = exact.delta(.6)
    assert found.lower < exact.lower and exact.upper < found.upper < 1.1*exact.upper

def test_blocks():
    "The best length: all of a geometric column, and nothing beyond the bands."
    below, _ = page.chains_around(MATRICES['two bands'], 1.)
    assert below.slope[1:].tolist() == pytest.approx([.9, 0., .9, 0., .9, 0.], abs=1e-6)
    with pytest.raises(ValueError, match='noise must have one band, or two inverse_bands'):
        page.chain_of(MATRICES['bands'], 1.)

def test_pairs_that_are_a_chain():
    "Nothing is kept of the last but one: the same lattice, the same sum; its rounding is counted."
    chain = LognormalChain([0., -.6, .8, .5], [.7, .4, .9, .6])
    pairs = LognormalPairs([(a, 0.) for a in chain.slope], chain.std)
    np.testing.assert_allclose(pairs.var, chain.var, rtol=1e-14)
    for name in ('precision', 'ones', 'total'):
        assert getattr(pairs, name) == pytest.approx(getattr(chain, name), rel=1e-5)
    h = .25
    at = Lattice(h, h*np.arange(-16, 13), *np.array([[2., 9.], [.4, .9], [.3, .8]]))
    value, moduli, rounding = pairs.transform(at)
    other, sizes, off = chain.transform(at)
    np.testing.assert_allclose(moduli, sizes, rtol=1e-12)
    assert (np.abs(value - other) <= rounding + off).all()
    assert (off < rounding).all() and (rounding < 10*off).all()

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_three_bands_of_the_inverse_by_simulation():
    "Both directions, four standard errors; bounds that are near, where a chain's are apart."
    noise = MATRICES['three of the inverse']
    C, rng, sigma, b = noise.matrix(), np.random.default_rng(4), 1.3, noise.steps
    K = C.T @ C/sigma**2
    run = CorrelatedBins(Gaussian(sigma=sigma), batches=b, noise=noise)
    np.testing.assert_allclose(run.chains[0].K, K[::-1, ::-1], rtol=1e-12)
    assert run.chains[0].sway == pytest.approx(K.sum(1).max(), rel=1e-5)
    assert run.chains[0].rate == 1/b
    X, i = rng.standard_normal((100000, b)) @ C/sigma, rng.integers(b, size=100000)
    def log_S(X): return np.log(np.exp(X - np.diag(K)/2).mean(1))
    each = (np.maximum(1 - np.exp(.4 - log_S(X + K[i])), 0),
            np.maximum(1 - np.exp(.4 + log_S(X)), 0))
    for way, v in zip(('remove', 'add'), each, strict=True):
        found, error = ContourAccountant(getattr(run, way)).delta(.4), 4*v.std()/math.sqrt(100000)
        assert found.lower - error < v.mean() < found.upper + error
        assert found.upper < found.lower*(1 + 1e-6)
    long = MatrixFactorization(inverse_bands=[1., -.4, -.2], steps=300)
    assert page.pairs_of(long, 1., 300) is None and page.pairs_of(HALVES, 1., 20) is None

@pytest.mark.parametrize('b, sigma, eps', [
    (10, 4., .209), (10, 2., 2.31), (3, 2., 2.09), (10, 1., 3.68), (10, 10., .2)])
def test_pairs_are_as_tight_as_a_chain(b, sigma, eps):
    "For much noise, for a small delta: the same interval, nearly; few points of a contour."
    chain = ar(b, .5, sigma)
    pairs = LognormalPairs([(a, 0.) for a in chain.slope], chain.std)
    (low, high), (least, most) = deltas(pairs, eps)
    remove, add = deltas(chain, eps)
    assert low <= remove[1] and remove[0] <= high and least <= add[1] and add[0] <= most
    assert most < least*(1 + 1e-7) and high - low < max(2e-3*high, 2e-10)
    for _, tau, *_ in pairs.plans.values(): assert len(tau) < 60

@pytest.mark.skipif(EXTENDED is np.float64, reason='numbers of 64 bits are needed')
@pytest.mark.parametrize('eps', [2.5, 3.5])
def test_pairs_know_small_deltas(eps):
    "Three bins: given two logarithms, a closed form; sums of what is positive lose no digit."
    made = LognormalPairs([[0, 0], [.5, 0], [.4, .3]], [.6, .5, .5])
    K, v, h = math.exp(eps), made.var, .04
    z = h*np.arange(-300, 400)
    X, weight = .6*z[:, None], np.exp(-(z[:, None]**2 + z**2)/2)*h*h/(2*math.pi)
    Y = .5*X + .5*z
    rest = 3*K - np.exp(X - v[0]/2) - np.exp(Y - v[1]/2)
    mean = np.exp(.4*Y + .3*X + .125 - v[2]/2)
    d = np.log(mean/np.maximum(rest, 1e-300))/.5 + .25
    call = np.where(rest > 0, mean*stats.norm.cdf(d) - rest*stats.norm.cdf(d - .5), mean - rest)/3
    truth = (weight*call).sum()
    strike = np.exp(made.finer.w.dtype.type(eps))
    low, _, high = (float(1 - strike + put) for put in made.finer.puts(strike))
    assert low <= truth*(1 + 1e-8) and truth*(1 - 1e-8) <= high
    assert high - low < (1e-3, .01)[eps > 3]*truth
    least, _, most = made.puts(K)
    assert most - least > 30*(high - low)

def test_what_is_too_little_for_doubles_is_not_guessed():
    "Of a coarse lattice: where nothing is left, nothing is said; elsewhere it is about phi."
    chain = ar(10, .5, 4.)
    pairs = LognormalPairs([(a, 0.) for a in chain.slope], chain.std)
    about, n = pairs.look[0], len(pairs.look[0])
    assert 80 < n < len(chains.TILTS) and chains.TILTS[n-1] > 150
    n = min(n, len(chain.look[0]))
    np.testing.assert_allclose(about[:n], chain.look[0][:n], rtol=.05, atol=1e-5)

@pytest.mark.parametrize('name', ['bands', 'buffers', 'three of the inverse', 'C'])
def test_a_chain_covers_a_matrix(name):
    "Entry by entry; and where all entries are alike, by a single number."
    C = MATRICES[name].matrix()
    K = C.T @ C
    above = covariance(page.covering(K))
    assert (above >= K).all() and above.max() < K.max()*(1 + 1e-8)
    one = page.covering(np.full((3, 3), 2.))
    assert one.b == 1 and 2 < one.var[0] < 2 + 1e-8

def test_what_no_chain_serves_is_named():
    "`sampling.tree_noise` has trees for these."
    with pytest.raises(TooDear, match='noise must have few bands'):
        page.kernels_around(MatrixFactorization(inverse_bands=[1., -.5], steps=40), 1., 20)
    with pytest.raises(ValueError, match='fall with the lag'):
        page.kernels_around(MatrixFactorization(C=[[1e-6, 0.], [1., 1.]]), 1., 2)

@pytest.mark.parametrize('lam', [.2, .26, .42])
def test_delta_below_its_roundings_has_an_eps(lam):
    "Removing, little noise, a tiny delta: an upper end is the known batch's, if no sum has one."
    noise = MatrixFactorization(inverse_bands=[1, -lam], steps=38)
    step = CorrelatedBins(Gaussian(sigma=.509), batches=38, noise=noise)
    known = noise.gaussian(.509)
    with pytest.warns(UserWarning, match='wider than asked'):
        found = ContourAccountant(step).epsilon(1e-8)
    mu = known.sensitivity/known.sigma
    most = mu*(mu/2 + math.sqrt(-2*math.log(1e-8)))
    assert 0 < found.lower <= found.upper <= most*(1 + 1e-12)
    assert stats.norm.sf(most/mu - mu/2) < 1e-8/2


@pytest.mark.parametrize("given", [
    {"inverse_bands": [1, .7]},
    {"inverse_bands": [-1, -.5, .2]},
    {"inverse_bands": [1, .6, -.3]},
    {"inverse_bands": [1, .5, .1]},
    {"bands": [1, -.6]},
    {"column": [2, -1, .6]},
    {"C": [[1, 0, 0], [.5, 1, 0], [.2, .5, 1]]},
], ids=str)
def test_no_record_is_worse_whatever_its_signs(given):
    "Three batches: densities in space, for all signs of a record's gradients. The worst is served."
    steps = {} if "C" in given or "column" in given else {"steps": 3}
    noise, x, eps = MatrixFactorization(**given, **steps), np.arange(-8, 8, .2), .7
    X = np.stack(np.meshgrid(x, x, x))

    def density(mean):
        return np.exp(-((X - mean[:, None, None, None])**2).sum(0)/2)/(2*np.pi)**1.5

    Q, worst = density(np.zeros(3)), np.zeros(2)
    for signs in itertools.product((1,), (1, -1), (1, -1)):
        P = sum(density(column) for column in (noise.matrix()*signs/1.5).T)/3
        found = [np.maximum(A - np.exp(eps)*B, 0).sum()*.2**3 for A, B in ((P, Q), (Q, P))]
        worst = np.maximum(worst, found)
    step = CorrelatedBins(Gaussian(sigma=1.5), batches=3, noise=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)       # three bands of both signs: chains
        bounds = [ContourAccountant(way).delta(eps) for way in (step.remove, step.add)]
    for truth, (low, _, up, *_) in zip(worst, bounds):
        assert low*.997 <= truth <= up*1.003                # the sum's step
    if step.chains[0] is step.chains[1]:
        assert np.allclose([b.upper for b in bounds], worst, rtol=3e-3)


def test_signs_that_no_mirror_takes_away_are_refused():
    for bands in ([1, .5, .2], [1, -1., .5]):
        with pytest.raises(ValueError, match="a negative entry"):
            CorrelatedBins(Gaussian(sigma=2.), batches=10,
                           noise=MatrixFactorization(inverse_bands=bands, steps=10))
