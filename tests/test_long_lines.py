"losses/long_lines: long lines by tables of turns."
from math import comb, exp, log

import numpy as np
import pytest
from mpmath import mp

from dp_saddle import (
    ContourAccountant,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
)
from dp_saddle.engine.line import CgfTable
from dp_saddle.losses.long_lines import quotient, quotients_on


def on_a_lattice(kinds, unit):
    "(least loss, probabilities of losses a unit apart): sums of n draws each from {k: p}."
    low, total = 0, np.ones(1)
    for step, n in kinds:
        first = min(step)
        one = np.zeros(max(step) - first + 1)
        for k, p in step.items(): one[k - first] += p
        for _ in range(n):
            total, low = np.convolve(total, one), low + first
    return low * unit, total

def delta_of(law, unit, eps):
    "E(1 - e^(eps - L))_+, to some digits: sums of doubles of one sign."
    low, p = law
    losses = low + unit * np.arange(len(p))
    return float(p @ np.maximum(-np.expm1(np.minimum(eps - losses, 0)), 0))

def eps_of(law, unit, delta):
    low, high = 0.0, law[0] + unit * len(law[1])
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if delta_of(law, unit, mid) > delta else (low, mid)
    return high

def bits(k, unit):
    "Randomised response with parameter k units."
    p = 1 / (1 + exp(-k * unit))
    return {k: p, -k: 1 - p}

@pytest.mark.parametrize('seed', range(6))
def test_several_responses_beside_a_convolution(seed):
    "Parameters are multiples of a unit, so all sums are: an exact law, that shares nothing."
    chance, unit = np.random.default_rng(seed), 0.0625
    sizes = sorted(set(chance.integers(1, 7, 9).tolist()))
    counts = chance.integers(5, 45, len(sizes)).tolist()
    law = on_a_lattice([(bits(k, unit), n) for k, n in zip(sizes, counts, strict=True)], unit)
    run = sum((n * RandomizedResponse(eps=k * unit) for k, n in zip(sizes, counts, strict=True)),
              0 * RandomizedResponse(eps=1.0))
    delta = float(10.0 ** chance.uniform(-9, -3))
    found = ContourAccountant(run).epsilon(delta)
    assert found.lower - 1e-9 <= eps_of(law, unit, delta) <= found.upper + 1e-9
    assert found.upper - found.lower < 5e-7
    for pieces in (8, 32):
        table = CgfTable(run.remove, shortcut=False)
        table.pieces, at = pieces, np.array([found.estimate - 0.4, found.estimate - 0.1])
        low, _, up = np.exp(table.log_delta(at))
        for e, a, b in zip(at, low, up, strict=True):
            assert a * (1 - 1e-9) <= delta_of(law, unit, e) <= b * (1 + 1e-9)
        assert (up - low < 2e-6 * up).all()

def discrete_gaussian(sigma, unit):
    "Losses of one step, in units."
    k = np.arange(-12 * sigma, 12 * sigma + 2)
    p = np.exp(-k**2 / (2 * sigma**2))
    p /= p.sum()
    apart = round(1 / sigma**2 / unit)                # from loss to loss: k is there, k - 1 is not
    return {int(apart * (1 - 2 * j) // 2): x for j, x in zip(k.tolist(), p, strict=True)}

def test_discrete_gaussians_beside_a_convolution():
    unit = 1 / 800
    kinds = [(discrete_gaussian(10, unit), 7), (discrete_gaussian(20, unit), 12)]
    law = on_a_lattice(kinds, unit)
    run = 7 * DiscreteGaussian(sigma=10.0) + 12 * DiscreteGaussian(sigma=20.0)
    found = ContourAccountant(run).epsilon(1e-6)
    assert found.lower - 1e-9 <= eps_of(law, unit, 1e-6) <= found.upper + 1e-9
    assert found.upper - found.lower < 5e-7

def drawn(seed):
    "A run of several kinds whose steps all have atoms."
    chance = np.random.default_rng(seed)
    def one():
        size = float(np.exp(chance.uniform(log(3), log(40))))
        return [Laplace(scale=size), RandomizedResponse(eps=2 / size), DiscreteLaplace(scale=size),
                DiscreteGaussian(sigma=size)][chance.integers(4)]
    steps = [(int(chance.integers(1, 60)), one()) for _ in range(chance.integers(1, 6))]
    return sum((n * step for n, step in steps[1:]), steps[0][0] * steps[0][1])

@pytest.mark.parametrize('seed', range(12))
def test_as_lines_have_it(seed):
    chance, run = np.random.default_rng(seed + 50), drawn(seed)
    t, h = float(np.exp(chance.uniform(-1, 3))), float(chance.uniform(0.2, 2))
    s = h * np.arange(5000)
    for plrv in (run.remove, run.add):
        found, values = quotients_on(plrv, t, s), plrv.line(t, s)
        M = np.exp(values.change)
        noise = np.abs(M) * np.expm1(np.minimum(values.log_error, 600))
        assert (np.abs(found.M - M) <= found.noise + noise).all()
        assert (found.K, found.error) == values[:2]
        steps = sum(n for _, n in plrv.parts)
        assert found.noise.max() < 1e-13 * steps * (1 + t + s[-1])

def test_allowances_are_felt():
    "A turn of the least unit that is allowed for shows where it is not."
    loss, t, h = RandomizedResponse(eps=0.7).remove, 2.0, 0.9
    found = quotient(loss, t, h, loss.known_cgf(t))
    used = []
    with mp.workdps(40):
        y, logw = ([mp.mpf(float(x)) for x in v] for v in loss.atoms)
        def M(z): return mp.fsum(mp.exp(w + z * x) for x, w in zip(y, logw, strict=True))
        for first in range(128, 200128, 20000):
            value = mp.mpc(found.at(np.array([first]), None)[0, 37])
            miss = abs(complex(M(mp.mpc(t, mp.mpf(h) * (first + 37))) / M(mp.mpf(t)) - value))
            used.append(miss / (found.off + found.drift * h * (first + 37)))
    assert 0.005 < max(used) < 0.5

def test_samples_and_others_beside():
    "Steps without tables are asked for their lines; and where none has tables, all are."
    t, s = 4.0, 0.5 * np.arange(3000)
    sampled = PoissonSubsampled(Laplace(scale=2.0), rate=0.1)
    plain, flat = Laplace(scale=4.0), Laplace(scale=0.04)
    late, wide = PoissonSubsampled(flat, rate=0.01), Gaussian(sigma=2000.0)
    with_tables = 20 * sampled + 9 * plain
    for loss in (late.remove, wide.remove):
        assert quotient(loss, t, s[1], loss.known_cgf(t)) is None
    for run in (with_tables, with_tables + 3 * wide, with_tables + late, 7 * wide + 2 * late):
        found, values = quotients_on(run.remove, t, s), run.remove.line(t, s)
        noise = np.abs(np.exp(values.change)) * np.expm1(np.minimum(values.log_error, 600))
        assert (np.abs(found.M - np.exp(values.change)) <= found.noise + noise).all()
        steps = sum(n for _, n in run.remove.parts)
        assert found.noise.max() < 1e-13 * steps * (1 + t + s[-1])
        assert np.abs(found.M[-500:]).max() > 1e-9

def test_many_atoms_of_which_few_are_felt():
    loss = DiscreteGaussian(sigma=30.0).remove
    few = quotient(loss, 6.0, 1.0, loss.known_cgf(6.0))
    assert len(few.p) < 0.4 * len(loss.atoms[0]) and abs(few.p.sum() - 1) < few.off

def test_an_exact_sum_of_binomials():
    "Forty responses of one kind are enumerated; of four kinds, a line is exact as well."
    kinds, unit = [(1, 9), (2, 11), (3, 10), (5, 8)], 0.03
    law = on_a_lattice([(bits(k, unit), n) for k, n in kinds], unit)
    tops = sum(k * n for k, n in kinds)
    assert len(law[1]) == 2 * tops + 1 and abs(law[1].sum() - 1) < 1e-13
    p = bits(1, unit)[1]
    one = on_a_lattice([(bits(1, unit), 9)], unit)[1][::2]
    assert np.allclose(one, [comb(9, j) * p**j * (1 - p)**(9 - j) for j in range(10)])


def test_many_steps_are_asked_for_their_lines():
    "What tables are off by counts for each step: a million are known better by their increments."
    few = 3 * RandomizedResponse(eps=0.3) + 3 * RandomizedResponse(eps=0.17)
    many = 10**6 * Laplace(scale=1e4) + few
    line = CgfTable(many.remove).line_for(np.array([4.0]), np.array([-14.0]))
    assert len(line.s) > 2048 and line.rounding < 1e-12
    assert ContourAccountant(many).epsilon(1e-6).width < 2e-8

def test_few_nodes_take_the_better_spline():
    "Of 8 pieces where few nats are missing, of 32 where many are; and as many as the table allows."
    few, many = (CgfTable(plrv.remove) for plrv in (
        30 * Laplace(scale=1.139) + 1000 * Laplace(scale=20.96), drawn(3)))
    assert few.coarse_smoothing(3.0, 40.0, 3.0).pieces == 8
    assert many.coarse_smoothing(3.0, 4000.0, 25.0).pieces == 32
    many.pieces = 8
    assert many.coarse_smoothing(3.0, 4000.0, 25.0).pieces == 8
    for excess in (1.0, 10.0, 40.0, 300.0):
        for t in (0.1, 3.0, 300.0):
            spline = few.coarse_smoothing(t, 5.0, excess)
            assert np.isfinite(np.exp(t * spline.reach + 32 * t * spline.width / 2 / 32))
