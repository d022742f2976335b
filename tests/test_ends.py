"""Losses that are bounded, at the ends of their supports: from both sides, at 0 to 64 ulps, proved
bounds hold the truth, and beyond the largest loss there is nothing."""
import math

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

import oracles
from certify import mechanism
from dp_saddle import (
    AdditiveNoise,
    BoundedRange,
    Composition,
    ContourAccountant,
    DiscreteLaplace,
    ExponentialMechanism,
    PoissonSubsampled,
    PureDP,
    group,
)
from dp_saddle.accounting import best_accountant
from test_own_noise import NOISES

# Where eps is next to the largest loss, bounds are wide.
pytestmark = pytest.mark.filterwarnings('ignore:the bounds hold', 'ignore:max_nodes')
ULPS = 0, 1, 2, 3, 8, 64
COUNTS = 1, 3, 5, 20
FAR = 1e-12        # relative: what ends may be off by in doubles
MASS = 2e-12       # relative: and a mass at infinity

# Of these the largest loss is known to all digits, and so is how often it comes.
KNOWN = {
    'randomised response': [('rr', .7)], 'hardly random': [('rr', 30.)], 'random': [('rr', 1e-9)],
    'sampled response': [('sub', ('rr', 1.), .1)], 'Laplace': [('laplace', 1.3)],
    'little Laplace': [('laplace', .05)], 'much Laplace': [('laplace', 1e4)],
    'sampled Laplace': [('sub', ('laplace', .7), .01)],
    'half of Laplace': [('sub', ('laplace', 2.), .5)],
    'rare Laplace': [('sub', ('laplace', .2), 1e-6)], 'approximate': [('approx', .5, 1e-6)],
    'nothing but delta': [('approx', 0., 1e-3)],
    'discrete': [('discrete', (.5, .3, .2), (.2, .3, .5))],
    'disjoint': [('discrete', (.5, .5, 0.), (.5, 0., .5))],
    'two kinds': [('rr', .7), ('laplace', 1.3)],
    'three kinds': [('sub', ('laplace', .7), .01), ('rr', .1), ('approx', .2, 1e-9)]}

@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(60): yield

def noise(name, s): return AdditiveNoise(sensitivity=s, **NOISES[name][0])

# And of these a loss that dominates theirs.
DOMINATED = {
    'pure': PureDP(eps=.3), 'exponential mechanism': ExponentialMechanism(eps=.5),
    'bounded range': BoundedRange(eps=.5, shift=.2), 'discrete Laplace': DiscreteLaplace(scale=2.),
    'two records': group(mechanism(('laplace', 2.)), 2), 'own Laplace': noise('laplace', .5),
    'logistic': noise('logistic', .5), 'cut off': noise('cut off', .5),
    'triangle': noise('triangle', .3), 'uniform': noise('uniform', .3),
    'exponential': noise('exponential', .5),
    'sampled and cut off': PoissonSubsampled(noise('cut off', .5), rate=.1)}

def around(*ends):
    "All eps >= 0 at so many ulps from these."
    places = [end + side*k*np.spacing(end) for end in ends for k in ULPS for side in (-1, 1)]
    return np.unique([x for x in places if 0 <= x < math.inf])

def largest(m, direction):
    "(the largest finite loss of one step, its mass under P)."
    if (pair := oracles.finite_pair(m)) is not None:
        p, q = pair if direction == 'remove' else pair[::-1]
        return max((mp.log(a/b), a) for a, b in zip(p, q, strict=True) if a > 0 and b > 0)
    base, rate = (m[1], mpf(m[2])) if m[0] == 'sub' else (m, mpf(1))
    mu = 1/mpf(base[1])
    if direction == 'add': return -mp.log1p(rate*mp.expm1(-mu)), mpf(1)/2
    return mp.log1p(rate*mp.expm1(mu)), ((1 - rate)*mp.exp(-mu) + rate)/2

def at_the_end(steps, direction):
    "(the largest finite loss of the run, its mass under P, the mass at infinity)."
    ends = [(n*loss, mass**n) for m, n in steps for loss, mass in [largest(m, direction)]]
    losses, masses = zip(*ends, strict=True)
    return mp.fsum(losses), mp.fprod(masses), oracles.p_inf(steps, direction)

def truth(steps, direction, eps):
    "Proved bounds on delta: all digits, or what the atom at the end and the end alone say."
    if all(oracles.finite_pair(m) is not None for m, _ in steps):
        return 2*[min(oracles.finite(steps, eps, direction), mpf(1))]
    end, mass, p = at_the_end(steps, direction)
    jump = max(-mp.expm1(mpf(eps) - end), 0)
    return p + mass*jump, p + (1 - p)*jump

def check(found):
    "Numbers, in order, that no curve which falls contradicts: (lower, upper)."
    low, mid, up = map(np.asarray, found)
    assert np.isfinite([low, mid, up]).all()
    assert (low >= 0).all() and (low <= mid).all() and (mid <= up).all() and (up <= 1).all()
    assert (np.maximum.accumulate(low[::-1])[::-1] <= up).all()
    return low, up

@pytest.mark.parametrize('count', COUNTS)
@pytest.mark.parametrize('name', KNOWN)
def test_known_ends(name, count):
    "At 0, at both ends, and where the other direction has them."
    steps = [(m, count) for m in KNOWN[name]]
    run = Composition(tuple((mechanism(m), n) for m, n in steps))
    for way in ('remove', 'add'):
        end, mass, p = at_the_end(steps, way)
        loss = getattr(run, way)
        least = abs(at_the_end(steps, 'add' if way == 'remove' else 'remove')[0])
        eps = np.r_[around(0., float(least), float(end)), float(end*(1 + FAR) + FAR)]
        low, up = check(ContourAccountant(loss).delta(eps))
        for x, lower, upper in zip(eps.tolist(), low, up, strict=True):
            true_low, true_up = truth(steps, way, x)
            assert lower <= true_up and true_low <= upper
            if abs(x - end) < FAR*end: assert upper <= p*(1 + MASS) + mass*FAR*(1 + end)
        assert up[-1] <= p*(1 + MASS)              # nothing, where no mass is at infinity

@pytest.mark.parametrize('count', COUNTS)
@pytest.mark.parametrize('name', DOMINATED)
def test_ends_of_what_dominates(name, count):
    run = count*DOMINATED[name]
    for loss in (run.remove, run.add):
        end = loss.ess_sup
        eps = np.r_[around(0., abs(loss.ess_inf), end), end*(1 + FAR) + FAR]
        eps = eps[np.isfinite(eps)]
        _, up = check(best_accountant(loss).delta(eps))
        assert (up[eps > end*(1 + FAR)] <= loss.p_inf*(1 + MASS)).all()

@pytest.mark.parametrize('name', [k for k, v in KNOWN.items() if len(v) == 1])
def test_below_all_losses(name):
    "There the curve of one step is a straight line over e^eps, next to it nearly so."
    m, = KNOWN[name]
    for way, other in (('remove', 'add'), ('add', 'remove')):
        end, _, only = at_the_end([(m, 1)], other)   # of Q there is so much where P has nothing
        for x in around(float(end)):
            told = getattr(mechanism(m), way).delta(-x)
            assert told == pytest.approx(float(1 - (1 - only)*mp.exp(-x)), rel=1e-9, abs=1e-15)
