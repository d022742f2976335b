"""sampling.tree_noise: correlated noise between trees. References: all numbers of a small tree at
once, in order; chains and a Gaussian integral; covariances entry by entry; simulation."""
import math

import mpmath as mp
import numpy as np
import pytest

from dp_saddle import (
    BallsInBins,
    ContourAccountant,
    Gaussian,
    MatrixFactorization,
    dpsgd,
    epsilon,
)
from dp_saddle.base import TooDear
from dp_saddle.sampling.lognormal_chains import TILTS, Lattice, LognormalChain
from dp_saddle.sampling.tree_noise import (
    LognormalTree,
    any_around,
    clusters_around,
    decay_around,
    trees_around,
)

PARTS = np.linspace(.05, 1, 20)

def covariance(tree):
    "Of the leaves, each as often as it stands."
    rows, todo = [], [(j, None, -1) for j, i in enumerate(tree.above) if i < 0]
    while todo:
        j, row, _ = todo.pop(0)
        for _ in range(tree.count[j]):
            mine = {k: tree.slope[j]*v for k, v in (row or {}).items()}
            mine[object()] = tree.std[j]
            if tree.leaf[j]: rows.append(mine)
            todo += [(k, mine, j) for k, i in enumerate(tree.above) if i == j]
    return np.array([[sum(v*b.get(k, 0.) for k, v in a.items()) for b in rows] for a in rows])

TREES = {
    'slopes': LognormalTree([-1, 0, 0, 0, 2, 2, -1], [0, .9, .7, 1, 1.1, .8, 0],
                            [.5, .4, .3, .6, .5, .4, .8]),
    'steps': LognormalTree([-1, 0, 1], [0, 1, 1], [.5, .4, .6], [1, 2, 3]),
    'forest': LognormalTree([-1, 0, -1, 2], [0, 1, 0, .5], [.7, .3, .6, .5], [2, 1, 1, 2]),
    'one factor': LognormalTree([-1, 0, 0, 0], [0, .8, .5, .3], [1., .6, .7, .5])}

@pytest.mark.parametrize('name', TREES)
def test_what_the_theorem_asks_for(name):
    tree = TREES[name]
    K = covariance(tree)
    assert tree.b == len(K) and tree.integrals >= tree.b
    assert sorted(np.diag(K)) == pytest.approx(sorted(np.repeat(tree.var[tree.leaf],
                                                                tree.many[tree.leaf].astype(int))))
    assert tree.total == pytest.approx(np.linalg.inv(K).sum(), rel=1e-12)
    assert tree.sway*tree.rate*tree.b >= K.sum(1).max()*(1 - 1e-12)
    assert tree.rate == (1. if name == 'steps' else 1/tree.b)
    assert tree.known().mu >= math.sqrt(K.max())

@pytest.mark.parametrize('name', TREES)
@pytest.mark.parametrize('eps', [-.5, .4])
def test_puts_by_simulation(name, eps):
    "Four standard errors, and bounds that are near each other."
    tree, g = TREES[name], math.exp(eps)
    K, rng = covariance(tree), np.random.default_rng(7)
    X = rng.standard_normal((200000, len(K))) @ np.linalg.cholesky(K).T
    each = np.maximum(g - np.exp(X - np.diag(K)/2).mean(1), 0)
    low, about, high = tree.puts(g)
    assert low <= about <= high < low + 1e-10
    assert abs(each.mean() - about) < 4*each.std()/447

def plain_sum(tree, at, k):
    "Three numbers, the first above the others, in forty digits: all places at once."
    with mp.workdps(40):
        r, psi, tau, h = (mp.mpf(float(v)) for v in (at.r[k], at.psi[k], at.tau[k], at.h))
        def sent(j, y):
            a, s, d = (mp.mpf(float(v)) for v in (tree.slope[j], tree.std[j], tree.turn[j]))
            w, total = mp.exp(-mp.mpf(float(tree.var[j]))/2)/tree.b, mp.mpc(0)
            for x in map(mp.mpf, at.x.tolist()):
                F = mp.exp(-r*mp.expj(psi)*w*mp.exp(x)) if tree.leaf[j] else \
                    mp.fprod(sent(i, x) for i in range(len(tree.std)) if tree.above[i] == j)
                kernel = mp.exp(-((x - a*y)/s)**2/2 + 1j*tau*d*(x - a*y)/s**2)
                total += kernel*h/(s*mp.sqrt(2*mp.pi))*F
            return total**tree.count[j]
        return sent(0, mp.mpf(0))

@pytest.mark.parametrize('tree', [
    LognormalTree([-1, 0, 0], [0, .8, .5], [.9, .5, .7]),
    LognormalTree([-1, 0, 0], [0, 1, 1], [.6, .3, .7], [1, 3, 2])])
def test_roundings_are_counted(tree):
    "The same sum over a lattice, in forty digits: the difference is within the bound."
    h = .3
    at = Lattice(h, h*np.arange(-9, 8), *np.array([[2., 9.], [.4, .9], [.3, .8]]))
    value, moduli, rounding = tree.transform(at)
    for k in range(2):
        wrong = abs(mp.mpc(complex(value[k])) - plain_sum(tree, at, k))
        assert wrong <= rounding[k] < 1e-12*moduli[k]
    zero = np.zeros(2)
    real = Lattice(h, at.x, at.r, zero, zero)
    assert tree.transform(real)[0][1] == pytest.approx(float(plain_sum(tree, real, 1).real))

@pytest.mark.parametrize('h', [1.2, 1., .8])
@pytest.mark.parametrize('slope', [.8, 1.])
def test_what_a_coarse_lattice_leaves_out(h, slope):
    "The error is seen, and is within the bound."
    tree, r, psi, tau = LognormalTree([-1, 0, 0], [0, slope, slope], [.9, .8, .9]), 4., .7, .5
    def at(h): return Lattice(h, h*np.arange(-math.ceil(16/h), math.ceil(14/h) + 1),
                              np.array([r]), np.array([psi]), np.array([tau]))
    exact, coarse = tree.transform(at(.1))[0][0], tree.transform(at(h))[0][0]
    bound = tree.left_out(at(h), PARTS)[0]
    assert 1e-14 < abs(coarse - exact) <= bound < 1e5*abs(coarse - exact)
    assert tree.left_out(at(.1), PARTS)[0] < 1e-14

def test_ends_of_a_lattice():
    tree, r, zero = LognormalTree([-1, 0, 0], [0, 1, 1], [.8, .6, .7]), np.array([3.]), np.zeros(1)
    def at(first, last): return Lattice(.1, .1*np.arange(first, last + 1), r, zero, zero)
    exact = tree.transform(at(-120, 90))[0][0]
    for first, last in ((-18, 90), (-120, 16), (-20, 20)):
        lost = abs(exact - tree.transform(at(first, last))[0][0])
        assert 1e-9 < lost <= tree.left_out(at(first, last), PARTS)[0]

def test_a_table_bounds_the_transform():
    for tree in TREES.values():
        K, rng = covariance(tree), np.random.default_rng(3)
        X = rng.standard_normal((20000, len(K))) @ np.linalg.cholesky(K).T
        few = TILTS[20::20]
        each = np.exp(-np.multiply.outer(few, np.exp(X - np.diag(K)/2).mean(1)))
        assert (np.exp(tree.most(few)) > each.mean(1) - 4*each.std(1)/141).all()

def shared(b):
    i = np.arange(b)
    return sum(np.equal.outer(i >> k, i >> k)*1. for k in range(b.bit_length()))

ROOT = np.cumprod(np.append(1., 1 - .5/np.arange(1., 20)))
MATRICES = {
    'root': MatrixFactorization(column=ROOT),
    'buffers': MatrixFactorization(buffers=([.97, .6], [.2, .3]), steps=20),
    'bands': MatrixFactorization(bands=ROOT[:6], steps=20),
    'C': MatrixFactorization(C=np.tri(8)*np.random.default_rng(2).uniform(.1, 1, (8, 8))
                             + np.eye(8)),
    'epochs': MatrixFactorization(inverse_bands=[1., -.5, -.125, -.0625], steps=40)}

def gram(name, sigma=1.3):
    noise = MATRICES[name]
    b = 8 if name == 'epochs' else noise.steps
    M = noise.matrix().reshape(noise.steps, -1, b).sum(1)/sigma
    return noise, b, M.T @ M

@pytest.mark.parametrize('name', MATRICES)
def test_trees_are_below_and_above(name):
    "In E S^2 as they say; all entries in order of size."
    _, b, K = gram(name)
    for above, sign in ((False, 1), (True, -1)):
        for around in (clusters_around, decay_around):
            score, tree = around(K, above)
            made = covariance(tree)
            assert made.shape == (b, b) and tree.top >= K.max()
            assert (sign*(np.sort(K.ravel()) - np.sort(made.ravel())) >= -1e-12).all()
            assert (sign*(np.sort(np.diag(K)) - np.sort(np.diag(made))) >= -1e-12).all()
            assert sign*(np.exp(K).mean() - np.exp(made).mean()) >= 0
            assert score == pytest.approx(np.exp(made).mean(), rel=1e-6)

@pytest.mark.parametrize('name', MATRICES)
def test_entry_by_entry(name):
    "A chain's leaves are in the order of the steps, or along both sides of a ring."
    _, b, K = gram(name)
    j = np.arange(b)
    for above, sign in ((False, 1), (True, -1)):
        made = covariance_in_order(decay_around(K, above)[1])
        orders = j, np.where(j % 2, b - 1 - j//2, j//2)
        assert any((sign*(K[np.ix_(o, o)] - made) >= 0).all() for o in orders)

def covariance_in_order(tree):
    made = np.diag(tree.std)
    for j, (i, a) in enumerate(zip(tree.above, tree.slope, strict=True)):
        if i >= 0: made[j] += a*made[i]
    return made[tree.leaf] @ made[tree.leaf].T

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('name', MATRICES)
def test_steps_by_simulation(name):
    "Both directions, four standard errors."
    noise, b, K = gram(name)
    step, rng = BallsInBins(Gaussian(sigma=1.3), batches=b, noise=noise), np.random.default_rng(5)
    X, i = rng.standard_normal((100000, b)) @ np.linalg.cholesky(K).T, rng.integers(b, size=100000)
    def log_S(X): return np.log(np.exp(X - np.diag(K)/2).mean(1))
    each = (np.maximum(1 - np.exp(.6 - log_S(X + K[i])), 0),
            np.maximum(1 - np.exp(.6 + log_S(X)), 0))
    for way, v in zip(('remove', 'add'), each, strict=True):
        found, error = ContourAccountant(getattr(step, way)).delta(.6), 4*v.std()/316
        assert 0 < found.lower - error < v.mean() < found.upper + error

def test_tree_aggregation_is_exact():
    "And its lower triangle, made of a covariance, is the same noise."
    K = shared(16)
    C = np.tril(np.linalg.cholesky(K[::-1, ::-1])[::-1, ::-1].T)
    below, above = any_around(MatrixFactorization(C=C), 2., 16)
    assert len(below.std) == len(above.std) == 5
    low, high = below.puts(.6)[0], above.puts(.6)[2]
    assert 0 < low < high < low*(1 + 1e-6)

def test_equal_batches_are_one():
    "Nearly: no step of a lattice is too small."
    low, high = (tree.puts(.6) for tree in trees_around(np.ones((6, 6)), np.ones((6, 6))))
    one = LognormalChain([0.], [1.]).puts(.6)[1]
    assert .9*one < low[1] < one and low[0] < one < high[2] < 1.1*one

def test_independent_batches():
    below, above = trees_around(np.eye(5), np.eye(5))
    exact = LognormalChain(5*[0.], 5*[1.]).puts(.6)[1]
    assert .9*exact < below.puts(.6)[0] <= exact*(1 + 1e-9) < above.puts(.6)[2] < 1.3*exact

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_several_epochs_of_any_matrix():
    "As users ask for them; and many batches stay refused, by name."
    made = MatrixFactorization(inverse_bands=[1., -.5], steps=32)
    run = dict(sigma=3., batch_size=10, dataset_size=160, epochs=2, noise=made)
    bins, known = (epsilon(dpsgd(**run, sampling=way), delta=1e-3)
                   for way in ('balls-in-bins', 'fixed-order'))
    assert bins < .8*known
    with pytest.raises(TooDear, match='noise must have few bands'):
        any_around(MatrixFactorization(bands=np.ones(5), steps=2200), 1., 1100)
    with pytest.raises(ValueError, match='C\\^T C >= 0'):
        any_around(MatrixFactorization(bands=[1., -.5, .1, .1, .1, .1], steps=16), 1., 8)

def test_much_noise_on_a_tree():
    "Precisions of thousands: small heights serve; a put by simulation, four standard errors."
    noise = MatrixFactorization(buffers=([.9, .4], [.2, .3]), steps=12)
    _, tree = any_around(noise, 40., 12)
    low, _, high = tree.puts(math.exp(-.02))
    K = covariance(tree)
    X = np.random.default_rng(6).multivariate_normal(-np.diag(K)/2, K, 40000)
    each = np.maximum(math.exp(-.02) - np.exp(X).mean(1), 0)
    assert 1e-5 < low <= high < low*(1 + 1e-8)
    assert abs(low - each.mean()) < 4*each.std()/200
    assert 0 < tree.log_more(.011, np.array([132.]))[0] < .1
