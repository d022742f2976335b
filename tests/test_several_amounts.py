"Several amounts: against one amount, sums by hand, engine/line's lines and its accountant."

import numpy as np
import pytest
from mpmath import mp

from dp_saddle import Gaussian, Laplace, MixtureOfGaussians, PoissonSubsampled, group
from dp_saddle.base.numerics import EXTENDED, ULP
from dp_saddle.engine import gaussian_rows as rows
from dp_saddle.engine import several_amounts as mixed
from test_gaussian_rows import NARROW, by_lines, in_both, meets_the_accountant, run_of
from test_transform_grids import grid_for


def random_step(chance):
    "Two to eight amounts: even, of all sizes, or any; alone, on a sample, or of a group."
    count = int(chance.integers(2, 9))
    sigma = float(np.exp(chance.uniform(np.log(.15), np.log(12))))
    amounts = (np.arange(1., count + 1), np.sort(np.exp(chance.uniform(-3, 0, count))),
               np.sort(chance.uniform(0, 3, count)))[chance.integers(3)]
    amounts = amounts/amounts[-1]
    shares = np.exp(chance.uniform(np.log(1e-6), np.log(.3), count))
    if chance.random() < .3: shares = .05**np.arange(1, count + 1)*chance.uniform(.2, 3)
    most = chance.uniform(.5, .89) if chance.random() < .2 else .45
    if (total := shares.sum()) > .45: shares *= most/total
    step = MixtureOfGaussians(sigma=sigma, sensitivities=(0., *amounts),
                              probabilities=(1 - shares.sum(), *shares))
    if chance.random() < .3: return PoissonSubsampled(step, rate=float(chance.uniform(.01, .9)))
    if chance.random() < .2: return group(run_of(sigma*count, chance.uniform(.001, .05), 1), count)
    return step

def random_runs(seed, n):
    chance = np.random.default_rng(seed)
    for _ in range(n):
        step = random_step(chance)
        yield int(np.exp(chance.uniform(2, 10)))*step, 10**-chance.uniform(2, 14)

def answered(seed, n):
    "How many of so many runs have an answer: it meets engine/line's, and is as narrow."
    found = 0
    for run, delta in random_runs(seed, n):
        ours, (low, up) = rows.epsilon_of_sampled(run, delta), by_lines(run, delta)
        if ours is None: continue
        assert ours.lower <= up and low <= ours.upper, (run, delta)
        assert ours.width <= 2*(up - low) + NARROW, (run, delta)
        found += 1
    return found

def test_random_runs_meet_the_lines():
    assert answered(71, 60) > 50

@pytest.mark.slow
def test_more_random_runs_meet_the_lines():
    assert answered(72, 250) > 210

def pair_of(sigma, amounts, shares):
    return rows.pair_of.__wrapped__(sigma, amounts, shares, 1.)

def test_one_amount_is_a_sampled_gaussian():
    for sigma, rate, n, delta in ((2., .01, 3000, 1e-5), (.8, .2, 50, 1e-9), (9., .4, 800, 1e-7)):
        known = rows.pair_of(1/sigma, rate).bounds([n, n], [delta, delta])
        ours = pair_of(sigma, (1.,), (rate,)).bounds([n, n], [delta, delta])
        assert ours[0] <= known[2] and known[0] <= ours[2]
        assert ours[2] - ours[0] < 3*(known[2] - known[0])

def test_amounts_that_are_as_good_as_one():
    "Equal amounts but for a rounding, and one that is hardly ever there, change next to nothing."
    known = rows.pair_of(.5, .01).bounds([3000, 3000], [1e-5, 1e-5])
    for amounts, shares in (((1., 1 + 1e-12), (.005, .005)), ((1., 1.2), (.01, 1e-25))):
        ours = pair_of(2., amounts, shares).bounds([3000, 3000], [1e-5, 1e-5])
        assert abs(ours - known).max() < 1e-9

def fine_sum(sigma, amounts, shares, power):
    "The integral of the density times w to a power, in units of the largest amount."
    c = np.array(amounts, EXTENDED)/EXTENDED(amounts[-1])
    s = EXTENDED(sigma)/EXTENDED(amounts[-1])
    x, h = np.linspace(-14*s, 45*s, 20001, dtype=EXTENDED, retstep=True)
    w = sum(q*np.expm1(a*(2*x - a)/(2*s*s)) for a, q in zip(c, shares, strict=True))
    return np.exp(power*np.log1p(w) - x*x/(2*s*s)).sum()*h/s/np.sqrt(4*np.arccos(EXTENDED(0)))

@pytest.mark.skipif(EXTENDED is np.float64, reason='the reference has no more digits than a double')
def test_grids_of_mixtures_against_fine_sums():
    "K_1, changes and moduli, on the axis and on paths, both directions."
    chance, paths, made = np.random.default_rng(73), 0, 0
    for _ in range(25):
        count = chance.integers(2, 6)
        amounts = np.sort(chance.uniform(.1, 3, count))
        shares = np.exp(chance.uniform(np.log(1e-4), np.log(.2), count))
        sigma = amounts[-1]*np.exp(chance.uniform(np.log(.25), np.log(5)))
        pair, t = pair_of(sigma, tuple(amounts), tuple(shares)), chance.uniform(.2, 6)
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
    assert made > 40 and 10 < paths < made - 10

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
        pair = pair_of(sigma, tuple(amounts), tuple(shares))
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

@pytest.mark.parametrize('setting', [
    (2., (1., 2.), (.015, .005), 3000, 1e-5), (1., (.1, 1.), (.3, 1e-4), 200, 1e-9),
    (5., (1., 2., 3., 4.), (.03, 1e-3, 1e-5, 1e-8), 5000, 1e-6)], ids=str)
def test_a_machine_of_doubles(setting, monkeypatch):
    "A browser's answers meet ours, less than six times as wide."
    *kind, n, delta = setting
    here = pair_of(*kind).bounds([n, n], [delta, delta])[:, 0]
    in_both(monkeypatch, EXTENDED=np.float64)
    monkeypatch.setattr(mixed, 'EXTENDED', np.float64)
    low, _, up = pair_of(*kind).bounds([n, n], [delta, delta])[:, 0]
    assert low <= here[2] and here[0] <= up and up - low < 6*(here[2] - here[0]) + 1e-12

@pytest.mark.parametrize('name, value', [('_OF_TERMS', 1e9), ('_TURN', 1e9), ('_OF_SQUARE', 1e9)])
def test_allowances_are_felt(monkeypatch, name, value):
    "On the axis, and on a path, where frequencies are large."
    kind, n, delta = (.5, (.6, 1.), (.03, .02)), 3, 1e-6
    def width():
        low, _, up = pair_of(*kind).bounds([n, n], [delta, delta])[:, 0]
        return up - low
    usual = width()
    monkeypatch.setattr(mixed, name, value)
    assert not width() < 10*usual

def test_many_at_once_and_one_by_one(monkeypatch):
    "Runs of all shapes together are the runs alone, where none is tried again in full precision."
    monkeypatch.setattr(rows, '_FINE', 0)
    asked = [*random_runs(74, 50), (run_of(2., .01, 3000), 1e-5), (5*Laplace(scale=2.), 1e-5)]
    together = rows.epsilons_of_sampled(*zip(*asked, strict=True))
    alone = [rows.epsilon_of_sampled(*each) for each in asked]
    assert alone[-1] is together[-1] is None and alone[-2] and together[-2]
    both = [pair for pair in zip(alone, together, strict=True) if None not in pair]
    assert len(both) >= 40 and len(both) >= sum(one is not None for one in alone) - 1
    for one, other in both:
        assert one.lower <= other.upper and other.lower <= one.upper
        assert other.width <= 1.5*one.width + NARROW

def mixtures_beside(seed, count):
    "Runs of several kinds, mixtures among them; and deltas."
    chance = np.random.default_rng(seed)
    for k in range(count):
        run = int(chance.integers(2, 2000))*random_step(chance)
        for _ in range(chance.integers(1, 5)):
            run = run + int(chance.integers(2, 500))*random_step(chance)
        if k % 2: run = run + run_of(chance.uniform(.7, 8), .01, 700) + 3*Gaussian(sigma=9.)
        if not k % 5: run = run + 4*Laplace(scale=20.)
        yield run, 10**-chance.uniform(2, 14)

def test_several_kinds_of_mixtures():
    found = [meets_the_accountant(*asked) for asked in mixtures_beside(75, 20)]
    assert sum(found) >= 13

@pytest.mark.slow
def test_more_kinds_of_mixtures():
    found = [meets_the_accountant(*asked) for asked in mixtures_beside(76, 80)]
    assert sum(found) >= 52

def mixture(c, p, sigma=3.):
    return MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p)

def test_what_is_a_row():
    two, one = mixture((0., 1.5), (.98, .02)), PoissonSubsampled(Gaussian(sigma=2.), rate=.02)
    plain = mixture((1.5, 0., 1.5), (.01, .98, .01))
    assert mixed.kind_of(two) == mixed.kind_of(plain) == mixed.kind_of(one) == (.5, .02)
    several = mixture((0., 1., 1.5), (.9, .05, .05))
    assert mixed.kind_of(several) == (3., (1., 1.5), (.05, .05), 1.)
    always = PoissonSubsampled(mixture((1., 1.5), (.9, .1)), rate=.2)       # if in the sample
    assert mixed.kind_of(always) == (3., (1., 1.5), (.9, .1), .2)
    assert mixed.kind_of(PoissonSubsampled(mixture((1.5,), (1.,)), rate=.02)) == (.5, .02)
    twice = PoissonSubsampled(mixture((0., 1.5), (.9, .1)), rate=.2)      # .1*.2 is no double
    assert mixed.kind_of(twice) == (3., (1.5,), (.1,), .2)
    for c, p in (((.5, 1.5), (.98, .02)), ((2.,), (1.,)), ((0., 1.5), (.4, .6)), ((0.,), (1.,)),
                 ((0., 1e-30), (.98, .02)), ((0., 1., 40.), (.9, .09, .01)),
                 ((0., 1., 2.), (.05, .9, .05)), ((0., 1e-9, 1.), (.9, .05, .05)),
                 (tuple(range(66)), (.35, *[.01]*65))):
        assert mixed.kind_of(mixture(c, p)) is None
    rare = PoissonSubsampled(mixture((0., 1., 1.5), (.2, .8, 1e-300)), rate=1e-30)
    for other in (None, rare, Gaussian(sigma=2.), PoissonSubsampled(Laplace(scale=2.), rate=.1)):
        assert mixed.kind_of(other) is None

def test_probabilities_of_a_sample_keep_their_digits():
    "A rate times a probability is not rounded to a double first."
    kind = mixed.kind_of(PoissonSubsampled(mixture((0., 1., 2.), (.7, .2, .1)), rate=.1))
    pair = rows.pair_of(*kind)
    assert (pair.shares == EXTENDED(.1)*np.array([.2, .1], EXTENDED)).all()
