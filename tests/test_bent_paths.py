"""sampling.bent_paths: what a lattice sum misses. References: the claim, term by term; the sums of
one and of two normal numbers, beside finer ones."""
import math

import numpy as np
import pytest

from dp_saddle.sampling import bent_paths as page
from dp_saddle.sampling.bent_paths import BentPath

BANDS = BentPath(np.array([.9, .5, .2]), 1., .7, 1.3, .1)
CHAIN = BentPath(np.ones(1), 4.2, 1.6, .8, .02)

def omega(d): return math.exp(-d)*math.sin(min(d, math.pi/2))

def claimed(path, h, r, psi, tau, gamma, last):
    "The claim's bound with so many pieces and the mu_i that it calls best; no logarithms."
    f, turn, d = math.pi/2 - abs(psi), path.turn.tolist(), page.ANGLES.tolist()
    xi, v = math.log(gamma/r/path.weight), path.var
    alpha = [(f + one)/max(turn) for one in d]
    g = [a*abs(tau)*path.ones + a*a*path.precision/2 - 2*math.pi*a/h for a in alpha]
    many = [sum(abs(psi) + m*a > math.pi/2 for m in turn) for a in alpha]
    total = math.exp(g[last] + many[last]*gamma*omega(d[last]))
    for i in range(1, last + 1):
        rise, step = (g[i-1] - g[i])/(d[i] - d[i-1]), d[i] - d[i-1]
        mu = min(max(rise, max(xi - d[i], 0)/v), max(xi - d[i-1], 0)/v)
        most = max(map(omega, np.linspace(d[i-1], d[i], 2001)))
        size = g[i] + many[i]*gamma*most + mu*mu*v/2 - mu*(xi - d[i])
        total += len(turn)*math.exp(size + max(rise - mu, 0)*step)
    return total*math.sqrt(2)/-math.expm1(-2*math.pi*alpha[0]/h)

@pytest.mark.parametrize('path', [BANDS, CHAIN], ids=['bands', 'chain'])
@pytest.mark.parametrize('h, r, psi, tau', [(1.1, 2., .4, .7), (.5, 40., 1.1, -1.2),
                                            (.8, .05, -.2, 0.), (.3, 900., 1.5, .3)])
def test_the_bound_is_as_claimed(path, h, r, psi, tau):
    best = min(claimed(path, h, r, psi, tau, gamma, last) for gamma in page.SIZES
               for last in range(1, len(page.ANGLES)))
    found = math.exp(path.log_missed(2*math.pi/h, r, psi, tau))
    assert best*(1 - 1e-5) <= found <= best*(1 + 1e-5)      # of the grid for omega

def terms(h, std, r, psi, tau):
    "Of E e^{-u e^{std z}} on the turned path, over what the turn costs."
    z = h*np.arange(-math.ceil(11/h), math.ceil(11/h) + 1)
    exponent = 1j*tau*z/std - r*np.exp(1j*psi + std*z) - z*z/2
    return np.exp(exponent)*h/math.sqrt(2*math.pi)

def mass(h): return 1 + 2*math.exp(-2*math.pi**2/h**2)/(1 - math.exp(-4*math.pi**2/h**2))

@pytest.mark.parametrize('seed', range(8))
def test_one_normal_number(seed):
    "What a sum is seen to miss is within the bound, and often not far below it."
    rng, ratios = np.random.default_rng(seed), []
    for _ in range(50):
        std, h = rng.choice([.3, .6, 1., 2., 4.]), rng.uniform(.4, 1.8)
        r, psi, tau = math.exp(rng.uniform(-6, 4)), rng.uniform(0, 1.5), rng.uniform(-1, 1)*std
        exact = terms(.05, std, r, psi, tau).sum()
        error = abs(terms(h, std, r, psi, tau).sum() - exact)
        path = BentPath(np.array([std]), 1., 1/std, std**2, 1.)
        bound = 2*mass(h)*math.exp(path.log_missed(2*math.pi/h, r, psi, tau))
        assert error < bound + 1e-14, (std, h, r, psi, tau)      # of both sums' rounding
        if error > 1e-14: ratios.append(bound/error)
    assert min(ratios) < 30

@pytest.mark.parametrize('tau', [0., .5])
@pytest.mark.parametrize('r', [.02, .5, 10.])
def test_two_numbers_of_two_logarithms(r, tau):
    "X_1 = .8 z_1 + .4 z_2 and X_2 = .8 z_2 + .4 z_1, each with a half of the mean."
    shift = 1/1.2
    def total(h):
        z = h*np.arange(-math.ceil(8/h), math.ceil(8/h) + 1)
        x, y = z[:, None], z
        S = np.exp(.8*x + .4*y) + np.exp(.8*y + .4*x)
        exponent = 1j*tau*shift*(x + y) - r*np.exp(.3j)*S/2 - (x*x + y*y)/2
        return np.exp(exponent).sum()*h*h/(2*math.pi)
    path, exact = BentPath(np.array([.8, .4]), 1., shift, .8, 1/2), total(.1)
    for h in np.linspace(.7, 1.7, 11):
        bound = 2*2*mass(h)**2*math.exp(path.log_missed(2*math.pi/h, r, .3, tau))
        assert abs(total(h) - exact) < bound + 1e-14             # of both sums' rounding

@pytest.mark.parametrize('path', [BANDS, CHAIN], ids=['bands', 'chain'])
def test_a_step_misses_what_was_asked(path):
    "On any path: a nat or two beside it. And a step that is a tenth longer misses more."
    rng = np.random.default_rng(1)
    r, psi = np.exp(rng.uniform(-5, 7, (200, 1))), rng.uniform(0, 1.56, (200, 3))
    tau, nats = rng.uniform(0, 2, (200, 3)), rng.uniform(2, 45, (200, 3))
    y = path.frequency(nats, r, psi, tau)
    assert y.shape == (200, 3)
    missed = -path.log_missed(y, r, psi, tau)
    assert (missed > nats - 1.5).all() and (missed < nats + 2.5).all()
    assert (-path.log_missed(y/1.1, r, psi, tau) < missed).all()

def test_a_large_factor_makes_the_path_straight():
    "The step of a path at the right angle, for a factor that is large wherever the law is."
    for psi in (0., .7, 1.4):
        a = (math.pi/2 - psi)/BANDS.turn.max()
        y = BANDS.frequency(25., 1e9, psi, .4)
        straight = (25 + a*.4*BANDS.ones + a*a/2)/a
        assert straight < y < 1.15*straight
