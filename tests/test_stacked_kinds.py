"engine/stacked_kinds: kinds of sampled Gaussian steps as rows of one array."
import numpy as np
import pytest

from dp_saddle import Gaussian, Laplace, MixtureOfGaussians, PoissonSubsampled
from dp_saddle.base.numerics import EXTENDED, ULP
from dp_saddle.engine.many import LinePlan, LossFamily
from dp_saddle.engine.stacked_kinds import decays_of, kind_of, lines_of, rows_of
from dp_saddle.engine.transform_grids import Rows
from dp_saddle.losses.densities import SubsampledGaussianLoss


def drawn(seed, n=8):
    "Noises from .3 to 1000 and rates from 1e-6 to 1/2, most of them usual."
    chance = np.random.default_rng(seed)
    low = (.3, 1e-6) if seed % 3 == 0 else (.5, 1e-3)
    high = (1e3, .5) if seed % 3 == 1 else (5., .5)
    return np.exp(chance.uniform(np.log(low), np.log(high), (n, 2))).T

def rows_for(noises, rates, way):
    return Rows(1/noises[:, None], rates[:, None], np.full((len(noises), 1), way == 'add'))

@pytest.mark.parametrize('way', ['remove', 'add'])
@pytest.mark.parametrize('seed', range(6))
def test_lines_as_each_loss_has_them(way, seed):
    "Both say what they are off by: they are no farther apart than that; and about as narrow."
    noises, rates = drawn(seed)
    chance, served = np.random.default_rng(seed + 50), 0
    for _ in range(4):
        t = float(np.exp(chance.uniform(np.log(.05), np.log(40))))
        h, n = t*float(chance.uniform(.05, .5)), int(chance.integers(2, 500))
        lines = lines_of(rows_for(noises, rates, way), t, h, n)
        for sigma, rate, found in zip(noises, rates, lines, strict=True):
            if found is None: continue
            own = SubsampledGaussianLoss(1/sigma, rate, way).line(t, h*np.arange(n))
            assert abs(found.K - own.K) <= found.error + own.error
            assert found.error <= own.error + 1e-14*(1 + abs(own.K))
            said = np.maximum(found.log_error, own.log_error) < 300     # beyond, nothing is said
            some = said & (own.change.real > -100)
            apart = np.abs(np.expm1(found.change - own.change))[some]
            errors = found.log_error[some], own.log_error[some]
            allowed = sum(map(np.expm1, errors))
            assert (apart <= 1.01*allowed*(1 + np.exp(errors[0]))).all()
            phases = h*n*ULP*((1 + t)/sigma + 10)/sigma      # of s times the largest loss
            near = own.change.real > -3
            if EXTENDED is np.longdouble:                    # of doubles more is lost
                assert (found.log_error <= 1e-10 + 4*phases)[near].all()
            served += 1
    assert served >= 20

@pytest.mark.parametrize('way', ['remove', 'add'])
@pytest.mark.parametrize('seed', range(6))
def test_decays_bound_what_falls(way, seed):
    "At each frequency and all later ones; about as low as each loss's own."
    noises, rates = drawn(seed)
    for t in .1, 2., 15.:
        s = t*2.**np.arange(-4, 10.5, .5)
        found = decays_of(rows_for(noises, rates, way), t, s)
        for sigma, rate, bound in zip(noises, rates, found, strict=True):
            if bound is None: continue
            loss = SubsampledGaussianLoss(1/sigma, rate, way)
            assert (np.diff(bound) <= 0).all()
            size = loss.cgf(t + 1j*s).real
            assert (size <= bound + 1e-9)[size > loss.cgf(t) - 20].all()
            own = np.logaddexp(*loss.decay(t, s)) - loss.cgf(t)
            near = (own > -8) & (own < -1e-5)
            least = .8 if sigma > 1.6 else .45      # paths of little noise are half as high
            if near.sum() > 3: assert np.median((bound - loss.cgf(t))[near]/own[near]) > least

@pytest.mark.parametrize('way', ['remove', 'add'])
def test_a_family_with_rows_and_others(way, monkeypatch):
    "Kinds that are rows, and kinds that are not, say together what each says alone."
    steps = [PoissonSubsampled(Gaussian(sigma=.9 + .1*k), rate=.01*(8 - k)) for k in range(6)]
    steps += [MixtureOfGaussians(sigma=2. + .1*k, sensitivities=(0., 1., 1.5 + .1*k),
                                 probabilities=(.97, .02, .01)) for k in range(6)]
    steps += [Gaussian(sigma=3.), PoissonSubsampled(Laplace(scale=5.), rate=.1)]
    steps += [PoissonSubsampled(Gaussian(sigma=.1), rate=.01)]
    assert [kind_of(step) is not None for step in steps] == [True]*12 + [False]*3
    together, alone, used = LossFamily(steps, way), LossFamily(steps, way), np.ones(15, bool)
    i = int(np.searchsorted(alone.t, 3.))
    s, fall = together.decay(i, used)
    plan = LinePlan(i, .3, 90)
    mine = together.line(plan, used, True).values
    monkeypatch.setattr(LossFamily, '_together', lambda self, js, of: {})
    theirs, (_, its) = alone.line(plan, used, True).values, alone.decay(i, used)
    assert mine.K == pytest.approx(theirs.K, rel=1e-12, abs=1e-15)
    assert (abs(np.expm1(mine.change - theirs.change))
            <= 1.1*(np.expm1(mine.log_error) + np.expm1(theirs.log_error)))[:, :20].all()
    exact = np.array([loss.cgf(alone.t[i] + 1j*s).real for loss in alone.losses])
    known = exact > exact[:, :1] - 20
    assert (exact <= fall + 1e-9)[known].all() and (exact <= its + 1e-9)[known].all()
    assert (fall[12:] == its[12:]).all() and (fall[:12] != its[:12]).any(1).all()

def test_too_many_nodes():
    "What would take thousands of nodes is no row; its neighbours are."
    rows = rows_for(np.array([.3, 2.]), np.array([1e-6, .01]), 'remove')
    assert lines_of(rows.part([0]), 3000., 1e4, 5) == [None]
    assert lines_of(rows.part([1]), 3., .5, 5)[0] is not None

def mixture(c, p, sigma=3.):
    return MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p)

def test_what_is_a_row():
    two, one = mixture((0., 1.5), (.98, .02)), PoissonSubsampled(Gaussian(sigma=2.), rate=.02)
    plain = mixture((1.5, 0., 1.5), (.01, .98, .01))
    assert kind_of(two) == kind_of(plain) == (3., (1.5,), (.02,), 1.)
    assert kind_of(one) == (2., (1.,), (1.,), .02)
    several = mixture((0., 1., 1.5), (.9, .05, .05))
    assert kind_of(several) == (3., (1., 1.5), (.05, .05), 1.)
    always = PoissonSubsampled(mixture((1., 1.5), (.9, .1)), rate=.2)       # if in the sample
    assert kind_of(always) == (3., (1., 1.5), (.9, .1), .2)
    assert kind_of(PoissonSubsampled(mixture((1.5,), (1.,)), rate=.02)) == (3., (1.5,), (1.,), .02)
    twice = PoissonSubsampled(mixture((0., 1.5), (.9, .1)), rate=.2)      # .1*.2 is no double
    assert kind_of(twice) == (3., (1.5,), (.1,), .2)
    assert kind_of(mixture((0., 1.5), (.05, .95))) == (3., (1.5,), (.95,), 1.)
    for c, p in (((.5, 1.5), (.98, .02)), ((2.,), (1.,)), ((0.,), (1.,)),
                 ((0., 1e-30), (.98, .02)), ((0., 1., 40.), (.9, .09, .01)),
                 ((1., 2.), (.9, .1)), ((0., 1e-9, 1.), (.9, .05, .05)),
                 (tuple(range(66)), (.35, *[.01]*65))):
        assert kind_of(mixture(c, p)) is None
    rare = PoissonSubsampled(mixture((0., 1., 1.5), (.2, .8, 1e-300)), rate=1e-30)
    for other in (None, rare, Gaussian(sigma=2.), PoissonSubsampled(Laplace(scale=2.), rate=.1)):
        assert kind_of(other) is None

def test_probabilities_of_a_sample_keep_their_digits():
    "A rate times a probability is not rounded to a double first."
    kind = kind_of(PoissonSubsampled(mixture((0., 1., 2.), (.7, .2, .1)), rate=.1))
    row = rows_of([kind], True)
    assert (row.shares == EXTENDED(.1)*np.array([.2, .1], EXTENDED)).all()
