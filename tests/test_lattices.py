"Lines of lattices by three transforms, against sums in forty digits and against the plain sums."
from fractions import Fraction

import flint
import numpy as np
import pytest
from flint import acb, arb
from mpmath import mp, mpf, workdps

from dp_saddle import (
    AdditiveNoise,
    ContourAccountant,
    FixedSize,
    Gaussian,
    PoissonReplaceOne,
    PoissonSubsampled,
    TiltedFFT,
)
from dp_saddle.losses import nodes as losses
from dp_saddle.losses.nodes import FiniteLoss
from dp_saddle.prv_fft.lattices import LatticeLoss, chirped

REPLACED = PoissonReplaceOne(sigma=1., rate=.01)


def logistic(x):
    return -np.abs(x) - 2*np.log1p(np.exp(-np.abs(x)))

NOISE = AdditiveNoise(log_density=logistic, sensitivity=.1, log_concave=True, even=True, slope=1.)
LAWS = [REPLACED, FixedSize(sigma=1., batch_size=100, dataset_size=10000), NOISE]

def exact_sum(terms, first, angle, k):
    "sum_j terms_j e^{2 pi i (first + j) k angle}."
    turn = mpf(2*k*angle.numerator)/angle.denominator
    return mp.fsum(mpf(x)*mp.expjpi(turn*(first + j)) for j, x in enumerate(terms.tolist()))

@pytest.mark.parametrize('n, first, count, angle', [
    (1, 0, 1, .25), (1, -7, 9, .1), (700, -350, 400, 1/3), (300, -10**6, 2000, 1.234e-7),
    (300, 10**5, 5000, .4999), (64, 0, 3, 17.3), (2, -1, 30_000, .713)])
@pytest.mark.parametrize('kind', ['normal', 'tails', 'one large'])
def test_a_chirp_is_within_its_bound(n, first, count, angle, kind):
    rng, angle = np.random.default_rng(n + count), Fraction(angle)
    terms = {'normal': rng.normal(size=n), 'tails': np.exp(-.1*np.arange(n)),
             'one large': np.where(np.arange(n) == n//2, 1e9, rng.uniform(size=n))}[kind]
    found, off = chirped(terms, first, angle, count)
    assert found.shape == (count,) and off < 1e-10*np.abs(terms).sum()
    with workdps(40):
        for k in {0, 1, count//3, count - 1}:
            if k < count:
                exact = exact_sum(terms, first, angle, k)
                assert abs(mp.mpc(found[k]) - exact) < off/4     # a bound, and with room

def test_the_bound_is_of_the_right_size():
    "A hundredth of it would not do: an allowance that is never near would hide mistakes."
    found, off = chirped(np.ones(3), 0, Fraction(1, 7), 7)
    with workdps(40):
        miss = max(abs(mp.mpc(found[k]) - exact_sum(np.ones(3), 0, Fraction(1, 7), k))
                   for k in range(7))
    assert off/10_000 < miss < off/4

def law_of(step, direction='remove'):
    return step.loss_of(direction)

@pytest.mark.parametrize('step', LAWS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize('t, period', [(.02, 70.), (1.3, 40.), (9., 3.)])
def test_a_line_is_that_of_the_sums(step, t, period):
    loss, s = law_of(step), 2*np.pi/period*np.arange(120)
    chirp, sums = loss.by_chirp(t, s), FiniteLoss.line(loss, t, s)
    assert (chirp.K, chirp.error) == (sums.K, sums.error)
    apart = np.abs(np.expm1(chirp.change - sums.change))
    assert (apart <= np.expm1(chirp.log_error + sums.log_error)).all()
    assert chirp.log_error[0] < 1e-15 and chirp.log_error.max() < 1e-6

@pytest.mark.parametrize('step', LAWS[1:], ids=lambda m: type(m).__name__)
def test_a_line_in_forty_digits(step):
    loss, t, s = law_of(step), 1.7, .31*np.arange(5000)
    chirp, (y, logw) = loss.by_chirp(t, s), loss.atoms
    heavy = np.flatnonzero(logw + t*y > -45)                  # the others: 1e-14 of it in all
    with flint.ctx.workdps(40):
        y, logw = ([arb(v) for v in w[heavy].tolist()] for w in (y, logw))
        w = [(a + arb(t)*b).exp() for a, b in zip(logw, y, strict=True)]
        total = sum(w, arb(0))
        for k in (1, 40, 4999):
            turned = (a*acb(0, arb(s[k])*b).exp() for a, b in zip(w, y, strict=True))
            exact = sum(turned, acb(0))/total
            assert exact.rad() < 1e-30
            change = acb(arb(chirp.change[k].real), arb(chirp.change[k].imag))
            miss, size = (float(abs(v).mid()) for v in (change.exp() - exact, exact))
            assert miss/size <= np.expm1(chirp.log_error[k]) + 1e-13/size

def test_both_directions_are_lattices():
    loss = NOISE.loss_of('add')
    assert isinstance(loss, LatticeLoss) and isinstance(loss.reverse, LatticeLoss)
    assert loss.reverse.mesh == loss.mesh and isinstance(loss.dominated, LatticeLoss)
    k = np.rint(loss.atoms[0]/loss.mesh)
    assert (loss.mesh*k == loss.atoms[0]).all() and np.abs(k).max() > 100

@pytest.mark.filterwarnings('ignore:max_nodes', 'ignore:the bounds hold')
@pytest.mark.parametrize('run', [
    1000*REPLACED, 1000*LAWS[1], REPLACED + NOISE,
    REPLACED + PoissonSubsampled(Gaussian(sigma=.8), rate=.01)], ids=lambda m: f'{m}'[:40])
def test_no_line_is_a_sum_of_many_terms(run, monkeypatch):
    "A billion terms would take ten seconds."
    asked, increments = [], losses.increments
    def counted(p, y, s):
        asked.append(y.size*s.size)
        assert asked[-1] < 1 << 25
        return increments(p, y, s)
    monkeypatch.setattr(losses, 'increments', counted)
    delta = ContourAccountant(run.remove).delta(1.)
    assert 0 < delta.lower <= delta.upper < 1

@pytest.mark.filterwarnings('ignore:max_nodes', 'ignore:the bounds hold')
def test_against_a_grid():
    "1000 steps, as an accountant has them that knows no line."
    line, grid = (of(1000*REPLACED).epsilon(1e-5) for of in (ContourAccountant, TiltedFFT))
    assert max(line.lower, grid.lower) < min(line.upper, grid.upper)
