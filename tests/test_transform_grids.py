"One grid for a step: against losses/densities's sums, and sums by hand."

from functools import partial

import numpy as np
import pytest
from mpmath import mp

from dp_saddle.base.numerics import EXTENDED, ULP
from dp_saddle.engine import gaussian_rows as rows
from dp_saddle.engine import transform_grids as grids
from dp_saddle.losses.densities import SubsampledGaussianLoss


def pair_of(sigma, rate):
    "Removing, then adding."
    return grids.Rows(*(np.full((2, 1), v) for v in (1/sigma, rate)), np.array([[False], [True]]))

def grid_for(pair, t, cut, turned, end):
    "A grid with its own spacing, or None."
    with np.errstate(all='ignore'):
        grid = pair.grid(t, pair.spacing(t, cut, turned, end))
        return grid and pair.up_to(grid, cut)

def random_pairs(seed, n):
    "(rows of one kind of step, tilts of both, a frequency, an angle)."
    chance = np.random.default_rng(seed)
    for _ in range(n):
        sigma, rate = np.exp(chance.uniform(np.log((.4, 1e-5)), np.log((12., .4))))
        hits = 2*sigma**2*np.log(1/rate)                # from where on a tilt counts hits only
        t = np.full((2, 1), hits*chance.uniform(.05, .9) + .1)
        cut, angle = (np.full((2, 1), chance.uniform(0, most)) for most in (5., .5))
        yield pair_of(sigma, rate), t, cut, angle

def integrand(sigma, rate, power, x):
    "The density times w to a power, at outcomes, real or complex."
    log_w = np.log1p(rate*np.expm1((x - .5)/sigma**2))
    return np.exp(power*log_w - (x/sigma)**2/2)/np.sqrt(2*np.pi)/sigma

def test_a_sharp_end():
    "Sums over nodes up to it against a fine sum: the difference is what its claim and strips say."
    felt = 0
    for pair, t, cut, _ in random_pairs(31, 40):
        sigma, rate = pair.sigma[0, 0], pair.rate[0, 0]
        end, power = np.full((2, 1), 1 + 7*sigma), 1 + t[0, 0]
        b, a, _, h, *_ = pair.spacing(t, cut, 1., end)
        h, a, s = h[0, 0], a[0, 0], cut[0, 0]
        f = partial(integrand, sigma, rate, power + 1j*s)
        fine, step = np.linspace(-12*sigma, end[0, 0], 100001, retstep=True)
        exact = f(fine + 0j).sum()*step - f(end[0, 0] + 0j)*step/2
        nodes = end[0, 0] - (np.arange(np.ceil(20*sigma/h)) + .5)*h
        turn = s/sigma**2*pair.spread(end) if a == 0 else 0*end
        size = np.abs(f(fine + 0j)).sum()*step
        allowed = pair.sharp(pair.at_end(end, 1 + t), h, a, b, turn)[0, 0] + 1e-10*size
        miss = abs(f(nodes + 1j*a).sum()*h - exact)
        assert miss < allowed
        felt += miss > 1e-3*allowed > 1e-9*size
    assert felt >= 5

def test_second_order():
    "K_1 in doubles, of laws that end and of those that do not, against losses/nodes's."
    for pair, t, *_ in random_pairs(35, 40):
        end = 1 + t + 11*pair.sigma
        grid = grid_for(pair, t, 0*t, .7, end)
        if grid is None:
            continue
        asked = t, pair.sign*grid.y, grid.logp + pair.first*grid.y, grid.moved
        for row, top in enumerate(('remove', 'add')):
            K, error = (v[row, 0] for v in pair.second_order(*asked))
            loss = SubsampledGaussianLoss(pair.mu[0, 0], pair.rate[0, 0], top)
            exact, known = loss.known_cgf(float(t[row, 0]))
            missed = (2 + 4*t[row, 0])*1e-17*np.exp(-exact)
            assert abs(K - exact) <= error + known + missed
            assert error < 1e-12*exact + missed

def test_changes_along_a_line():
    "Both directions, hits rare or not, on the axis and on paths: as losses/densities has them."
    paths, made = 0, 0
    for pair, t, cut, _ in random_pairs(36, 40):
        end = np.where(pair.adds, 1, 1 + t) + 10*pair.sigma
        for last in (cut, 100*cut):
            with np.errstate(all='ignore'):
                grid = pair.grid_up_to(t, last, end, 1e-13)
                if grid is None:
                    continue
                change, noise = pair.changes(grid, last/16, 17)
            beyond = np.exp(pair.at_end(end, 1 + t) - grid.K.astype(float))     # stacked_kinds
            made, paths = made + 1, paths + grid.a.any()
            for row, top in enumerate(('remove', 'add')):
                loss, tilt = SubsampledGaussianLoss(pair.mu[0, 0], pair.rate[0, 0], top), t[row, 0]
                line = loss.line(tilt, last[row, 0]/16*np.arange(17))
                miss = abs(change[row] - np.expm1(line.change))
                known = noise[row] + np.expm1(line.log_error)*np.exp(line.change.real)
                assert (miss <= known + beyond[row]).all()
    assert made > 60 and 10 < paths < made - 10

def test_left_of_the_first_node():
    "Adding: a fine sum of what is there, on the axis and on an edge, is below its bound."
    sloped, chance = 0, np.random.default_rng(37)
    for pair, *_ in random_pairs(38, 40):
        sigma, rate = pair.sigma[0, 0], pair.rate[0, 0]
        t, angle = np.full((2, 1), chance.uniform(.1, 4)*sigma/rate), chance.uniform(0, np.pi/2)
        end = np.full((2, 1), 1 + 10*sigma)
        h = np.full((2, 1), .4*sigma)
        spacing = *pair.heights(t), h, end, *pair.places(pair.low(t, 10.), end, h)
        b, _, std, *rest = spacing
        grid = pair.grid(t, (b, 0*b, std, *rest))
        if grid is None:
            continue
        at = np.zeros((2, 1))
        left, _ = pair.beyond(grid, -t, grid.K.astype(float), at, angle)
        first = end[0, 0] - (grid.y.shape[1] - .5)*h[0, 0]
        x = first - np.linspace(0, 15*sigma, 100001)[1:]
        w = 1 - rate + rate*np.exp((x - .5)/sigma**2 + 1j*angle)
        logs = -t[0, 0]*np.log(abs(w)) - (x/sigma)**2/2 - float(grid.K[1, 0])
        held = np.exp(logs).sum()*(x[0] - x[1])/sigma/np.sqrt(2*np.pi)
        assert held <= left[1, 0]*(1 + 1e-9)
        sloped += t[0, 0]*rate > 1 and left[1, 0] < 1e-15
    assert sloped > 10

# --- several amounts

def mixed_pair(sigma, amounts, shares):
    return rows.pair_of.__wrapped__(sigma, amounts, shares, 1.)

def fine_sum(sigma, amounts, shares, power):
    "The integral of the density times w to a power, in units of the largest amount."
    c = np.array(amounts, EXTENDED)/EXTENDED(amounts[-1])
    s = EXTENDED(sigma)/EXTENDED(amounts[-1])
    x, h = np.linspace(-14*s, 45*s, 20001, dtype=EXTENDED, retstep=True)
    w = sum(q*np.expm1(a*(2*x - a)/(2*s*s)) for a, q in zip(c, shares, strict=True))
    return np.exp(power*np.log1p(w) - x*x/(2*s*s)).sum()*h/s/np.sqrt(4*np.arccos(EXTENDED(0)))

@pytest.mark.skipif(EXTENDED is np.float64, reason='the reference has no more digits than a double')
@pytest.mark.parametrize('runs', [10, pytest.param(25, marks=pytest.mark.slow)])
def test_grids_of_mixtures_against_fine_sums(runs):
    "K_1, changes and moduli, on the axis and on paths, both directions."
    chance, paths, made = np.random.default_rng(73), 0, 0
    for _ in range(runs):
        count = chance.integers(2, 6)
        amounts = np.sort(chance.uniform(.1, 3, count))
        shares = np.exp(chance.uniform(np.log(1e-4), np.log(.2), count))
        sigma = amounts[-1]*np.exp(chance.uniform(np.log(.25), np.log(5)))
        pair, t = mixed_pair(sigma, tuple(amounts), tuple(shares)), chance.uniform(.2, 6)
        tilt, end = np.full((2, 1), t), np.where([[False], [True]], 1, 1 + t) + 11*sigma/amounts[-1]
        for cut in (chance.uniform(.1, 3), 200.):
            last = np.full((2, 1), cut)
            grid = grid_for(pair, tilt, last, 1.1, end)
            if grid is None: continue
            with np.errstate(all='ignore'):
                change, noise = pair.changes(grid, last/8, 9)
                fall = pair.moduli(grid, last*np.arange(9)/8, last/2)
            made, paths = made + 1, paths + grid.a.any()
            for row, (first, sign) in enumerate(((1, 1), (0, -1))):
                exact = fine_sum(sigma, amounts, shares, first + sign*EXTENDED(t))
                assert abs(float(np.log(exact) - grid.K[row, 0])) <= grid.error[row, 0] + 1e-16
                for k in (1, 4, 8):
                    power = first + sign*(EXTENDED(t) + 1j*EXTENDED(cut)*k/8)
                    true = complex(fine_sum(sigma, amounts, shares, power)/exact)
                    assert abs(true - 1 - change[row, k]) <= noise[row, k] + 4e-16
                    assert np.log(abs(true)) <= fall[row, k]
    assert made > 1.6*runs and .4*runs < paths < made - .4*runs

def exactly(sigma, amounts, shares, x, turn):
    "log w at an outcome and a height, over sigma, 40 digits."
    w = mp.mpc(1)
    for a, q in zip(amounts, shares, strict=True):
        mu = mp.mpf(float(a))/mp.mpf(sigma)
        w += mp.mpf(float(q))*(mp.exp(mp.mpc(mu*(x - mu/2), turn*mu)) - 1)
    return mp.log(w)

def test_what_log_w_is_off_by():
    "In doubles, on the axis and on a path, also where w is small: a fraction of what is allowed."
    chance, worst = np.random.default_rng(77), 0.
    for k in range(40):
        count = chance.integers(2, 9) if k < 30 else 2
        amounts, sigma = np.sort(chance.uniform(.05, 1, count)), np.exp(chance.uniform(-1, 2))
        shares = np.exp(chance.uniform(np.log(1e-5), np.log(.3/count), count))
        if k >= 30: shares *= .9/shares.sum()
        pair = mixed_pair(sigma, tuple(amounts), tuple(shares))
        h, mu = .31*pair.sigma, pair.mu
        _, l, odds, y, _, moved = pair.nodes(h, np.full((2, 1), -30.), 70, float)
        angle = np.full((2, 1), .9 if k < 30 else .45*np.pi)
        real, imag = pair.turned(odds, angle)
        size, theta = np.log1p(real*(2 + real) + imag*imag)/2, np.arctan2(imag, 1 + real)
        above = pair.moved_there(odds, l, size)
        with mp.workdps(40):
            step, turn = (mp.mpf(float(v[0, 0])) for v in (h, angle))
            unit = mp.mpf(float(mu[0, 0]))
            for j in range(0, 70, 7):
                kind, x = (sigma, amounts, shares), (j - 30)*step*unit
                for ours, height, allowed in (
                        (mp.mpc(y[0, j]), 0, abs(y[0, j]) + moved[0, j]),
                        (mp.mpc(size[0, j], theta[0, j]), turn/unit,
                         abs(size[0, j]) + abs(theta[0, j]) + above[0, j])):
                    miss = float(abs(ours - exactly(*kind, x, height)))
                    worst = max(worst, miss/(4*ULP*allowed))
    assert .05 < worst < .2

@pytest.mark.parametrize('name', ['_OF_TERMS', '_TURNED_TERM', '_OF_SQUARE'])
def test_allowances_are_felt(monkeypatch, name):
    "On the axis, and on a path, where frequencies are large."
    kind, n, delta = (.5, (.6, 1.), (.03, .02)), 3, 1e-6
    def width():
        low, _, up = mixed_pair(*kind).bounds([n, n], [delta, delta])[:, 0]
        return up - low
    usual = width()
    monkeypatch.setattr(grids, name, 1e9)
    assert not width() < 10*usual
