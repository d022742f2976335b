"Joined dots above and below, and the tilted transform, against exact sums and the contour."
import json
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf, workdps

from certify import FILE, run
from dp_saddle import (
    ApproxDP,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PRVAccountant,
    RandomizedResponse,
    TiltedFFT,
    connect_the_dots,
)
from dp_saddle.losses.nodes import FiniteLoss
from dp_saddle.plrv import ComposedLoss, GaussianLoss
from dp_saddle.prv_fft import tilted_fft
from dp_saddle.prv_fft.tilted_fft import TiltedCurve
from odd import ODD, S
from test_prv_fft import contained


def meet(a, b, rtol=1e-12):
    "Bounds on one thing."
    assert a.lower <= b.upper*(1 + rtol) and b.lower <= a.upper*(1 + rtol), (a, b)

# Dots

STEPS = [
    S(1., .1), S(2., .01), S(.5, .3), S(1., 1e-4), Gaussian(sigma=1.), Gaussian(sigma=.3),
    Laplace(scale=1.), PoissonSubsampled(base=Laplace(scale=.5), rate=.2),
    RandomizedResponse(eps=.7), ApproxDP(eps=.3, delta=.01),
    Discrete(p=(.5, .3, .2), q=(.2, .5, .3)), Discrete(p=(.5, .5, 0.), q=(0., .5, .5))]

def curve_of(x, w, eps, p_inf):
    return np.maximum(-np.expm1(np.subtract.outer(eps, x)), 0) @ w + p_inf

@pytest.mark.parametrize('up', [True, False], ids=['above', 'below'])
@pytest.mark.parametrize('mesh', [.3, .03, .002])
@pytest.mark.parametrize('mechanism', STEPS, ids=lambda m: f'{m}'[:60])
def test_dots_are_above_and_below(mechanism, mesh, up):
    "Of both directions; and they keep what every pair has: mass 1 under P, at most 1 under Q."
    for plrv in (mechanism.remove, mechanism.add):
        start, w, end = connect_the_dots(plrv, mesh, up)
        x = mesh*(start + np.arange(len(w)))
        v = w*np.exp(-x)                                         # under Q
        assert w.min() > -1e-9 and w.sum() + end == pytest.approx(1, abs=1e-12)
        assert v.sum() <= 1 + 1e-9
        reach = min(max(abs(plrv.ess_sup), .1), 20.)
        eps = np.r_[0, np.random.default_rng(0).uniform(0, reach, 300)]
        for exact, value in (
                (plrv.delta(eps), curve_of(x, w, eps, end)),
                (plrv.reverse.delta(eps), curve_of(-x, v, eps, max(1 - v.sum(), 0)))):
            if up:
                assert (value >= exact*(1 - 1e-9) - 1e-12).all()
            else:
                assert (value <= exact*(1 + 1e-9) + 1e-12).all()

def test_a_step_whose_dots_cannot_be_lowered():
    "Then nothing is lost, which is below any curve; from above doubles give up, and say so."
    start, w, end = connect_the_dots(Gaussian(sigma=50.).remove, .5, up=False)
    assert w.sum() + end == pytest.approx(1, abs=1e-15)
    with pytest.raises(ValueError, match='mesh must be'):
        connect_the_dots(Gaussian(sigma=1e-1).remove, 1e-5)

# Tilted

@pytest.mark.parametrize('part', [
    0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 30))])
def test_tilted_on_random_settings(part):
    "The random runs whose grids are small: lower <= truth <= upper."
    for row in json.loads(Path(FILE).read_text(encoding="utf-8"))[part::30]:
        plrv = getattr(run(row['steps']), row['direction'])
        try:
            bounds = TiltedFFT(plrv, max_points=1 << 20).delta(row['eps'])
        except ValueError as error:
            assert 'mesh must be' in str(error) or 'below 700 nats' in str(error)
            continue
        assert Decimal(bounds.lower) <= Decimal(row['high'])*(1 + Decimal('1e-12')), row
        assert Decimal(row['low']) <= Decimal(bounds.upper), row
        assert bounds.lower <= bounds.estimate <= bounds.upper

COMMON = [m for m in ODD if '1e-09' not in str(m) and '1e-12' not in str(m)]

@pytest.mark.parametrize('mechanism', [
    pytest.param(m, marks=pytest.mark.slow if str(m).startswith('1000*Mixture') else ())
    for m in COMMON], ids=lambda m: f'{m}'[:80])
def test_tilted_on_odd_mechanisms(mechanism):
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning)
        warnings.simplefilter('ignore', UserWarning)
        try:
            contained(TiltedFFT(mechanism), mechanism)
        except ValueError as error:
            assert 'mesh must be' in str(error) or 'below 700 nats' in str(error)

def test_tilted_binomial():
    "Randomised response: 10 digits against exact sums, from 1e-2 to 1e-250."
    n, a = 3000, TiltedFFT(3000*RandomizedResponse(eps=.1))
    with workdps(60):
        e = mpf('.1')
        p = 1/(1 + mp.exp(-e))
        def weight(k): return mp.binomial(n, k)*p**k*(1 - p)**(n - k)
        for eps in (20.05, 40., 100., 200.):
            some = [k for k in range(n + 1) if (2*k - n)*e > eps]
            exact = sum(weight(k)*(1 - mp.exp(mpf(eps) - (2*k - n)*e)) for k in some)
            low, mid, up = a.delta(eps)
            assert low <= exact <= up and abs(mid/exact - 1) < 1e-10 and up/low - 1 < 1e-9

@pytest.mark.parametrize('delta', [
    1e-100, *(pytest.param(d, marks=pytest.mark.slow) for d in (1e-10, 1e-290))])
def test_tilted_small_delta(delta):
    m = 3000*S(2., .01)
    a, exact = TiltedFFT(m), ContourAccountant(m)
    b, c = a.epsilon(delta), exact.epsilon(delta)
    assert b.lower <= c.lower and c.upper <= b.upper and b.upper - b.lower < 2e-3
    assert a.delta(c.estimate).estimate == pytest.approx(delta, rel=2e-4)

@pytest.mark.slow
def test_one_tilt_serves_a_cluster():
    "Answers for a whole array are those for its members, to within the bounds."
    m, eps = 400*S(2., .05), np.linspace(0, 8, 33)
    together = TiltedFFT(m).delta(eps)
    for i in (0, 7, 20, 32):
        meet(TiltedFFT(m).delta(eps[i]), type(together)(*(v[i] for v in together)))
    assert (together.upper <= 1.05*together.estimate).all()

def test_a_transform_by_itself():
    "The grid and one tilt, as the accountant uses them: bounds also at places in between."
    plrv = (1000*RandomizedResponse(eps=.1)).remove
    grid = TiltedFFT(plrv).grids[plrv]
    assert grid.mesh == pytest.approx(.2) and grid.slack < 1e-9 and len(grid.sides) == 1
    eps = np.linspace(14., 16., 9)
    exact = ContourAccountant(plrv).delta(eps)
    curve = TiltedCurve(grid, eps, np.log(exact.lower) - 3)
    low, mid, up = curve.bounds(eps)
    assert (low <= exact.upper).all() and (exact.lower <= up).all() and (up/low < 1 + 1e-9).all()
    assert (low <= mid).all() and (mid <= up).all() and curve.t > 0
    with pytest.raises(ValueError, match='to fit into max_points = 64'):
        TiltedCurve(grid, eps, np.log(exact.lower) - 3, max_points=64)

@pytest.mark.filterwarnings('ignore:the bounds hold', 'ignore:max_nodes')
@pytest.mark.parametrize('mechanism', [
    5*RandomizedResponse(eps=400.), 2*PoissonSubsampled(base=DiscreteLaplace(scale=1e-3), rate=.1),
    DiscreteGaussian(sigma=200.), RandomizedResponse(eps=1.) + RandomizedResponse(eps=1 + 2**-30),
    pytest.param(3*DiscreteGaussian(sigma=800.), marks=pytest.mark.slow),
    5*Gaussian(sigma=1.) + 10*S(50., .5)], ids=lambda m: f'{m}'[:70])
def test_tilted_extremes(mechanism):
    "Lattices wider than e^709, finer than a millionth, too fine for any circle; no lowered dots."
    a, exact = TiltedFFT(mechanism), ContourAccountant(mechanism)
    for eps in (0., 1e-3, .3, 10., 1999.):
        meet(a.delta(eps), exact.delta(eps))
    for delta in (1e-2, 1e-6):
        b, c = a.epsilon(delta), exact.epsilon(delta)
        meet(b, c)
        assert b.upper < c.upper*1.02 + 1e-9

@pytest.mark.parametrize('how, match', [
    (dict(mesh=0.), 'mesh must be in'), (dict(mesh=2.), 'mesh must be in'),
    (dict(max_points=1), 'max_points')])
def test_tilted_bad_input(how, match):
    with pytest.raises(ValueError, match=match):
        TiltedFFT(10*S(1., .1), **how)

def test_dots_of_bad_input():
    for mesh in (0., 1.5):
        with pytest.raises(ValueError, match='mesh must be in'):
            connect_the_dots(S(1., .1).remove, mesh)
    with pytest.raises(TypeError, match='plrv must be a PLRV, such as'):
        connect_the_dots(S(1., .1), .1)
    with pytest.raises(ValueError, match='below 700 nats'):
        TiltedFFT(Gaussian(sigma=.05))
    small = TiltedFFT(1000*S(1., .1), mesh=1e-3, max_points=256)
    with pytest.raises(ValueError, match='mesh must be at least .* to fit into max_points = 256'):
        small.delta(1.)

# Discrete mechanisms

@pytest.mark.parametrize('sigma, d', [
    (1., 1), (3.5, 2), pytest.param(40., 7, marks=pytest.mark.slow), (.4, 1)])
def test_discrete_gaussian(sigma, d):
    "One step against its definition; many, contour against lattice; near the Gaussian if wide."
    m, x = DiscreteGaussian(sigma=sigma, sensitivity=d), np.arange(-3000, 3001)
    w = np.exp(-x*x/(2*sigma**2))
    w /= w.sum()
    for eps in (0., .3, 1.7):
        exact = np.maximum(w - np.exp(eps)*np.roll(w, d), 0).sum()
        assert m.remove.delta(eps) == pytest.approx(exact, rel=1e-9, abs=1e-15)
    a, b = TiltedFFT(20*m), ContourAccountant(20*m)
    for delta in (1e-3, 1e-30):
        bounds = a.epsilon(delta)
        meet(bounds, b.epsilon(delta), 0.)
        assert bounds.upper - bounds.lower < 1e-7
    if sigma > 10:
        smooth = ContourAccountant(20*Gaussian(sigma=sigma, sensitivity=float(d)))
        assert a.epsilon(1e-5).upper == pytest.approx(smooth.epsilon(1e-5).upper, rel=.02)

def test_discrete_laplace():
    x, m = np.arange(-2000, 2001), DiscreteLaplace(scale=3., sensitivity=4)
    w = np.exp(-np.abs(x)/3)
    w /= w.sum()
    for eps in (0., .5, 1.):
        exact = np.maximum(np.roll(w, 4) - np.exp(eps)*w, 0).sum()
        assert m.remove.delta(eps) == pytest.approx(exact, rel=1e-9)
    assert len(m.remove.atoms[0]) == 5 and m.remove.delta(4/3) < 1e-15
    one = TiltedFFT(30*DiscreteLaplace(scale=5.)).epsilon(1e-6)
    rr = TiltedFFT(30*RandomizedResponse(eps=.2)).epsilon(1e-6)
    assert one.estimate == pytest.approx(rr.estimate, rel=1e-9)
    assert PRVAccountant(30*DiscreteLaplace(scale=5.)).epsilon(1e-6).lower <= rr.upper

@pytest.mark.parametrize('build, how, match', [
    (DiscreteGaussian, dict(sigma=0), 'sigma must be in'),
    (DiscreteGaussian, dict(sigma=801.), 'sigma must be in'),
    (DiscreteGaussian, dict(sigma=1., sensitivity=0), 'sensitivity must be an integer >= 1'),
    (DiscreteGaussian, dict(sigma=.01), 'sigma/sensitivity must be in'),
    (DiscreteLaplace, dict(scale=-1.), 'scale must be in'),
    (DiscreteLaplace, dict(scale=1., sensitivity=20000), 'sensitivity must be in')])
def test_discrete_bad_input(build, how, match):
    with pytest.raises(ValueError, match=match):
        build(**how)
    with pytest.raises(TypeError, match='sensitivity must be an integer'):
        DiscreteGaussian(sigma=1., sensitivity=1.5)

def test_sampled_discrete_steps():
    m = 50*PoissonSubsampled(base=DiscreteGaussian(sigma=2.), rate=.1)
    assert m == 50*PoissonSubsampled(base=DiscreteGaussian(sigma=2.), rate=.1)
    assert TiltedFFT(m).epsilon(1e-5).upper >= ContourAccountant(m).epsilon(1e-5).lower

def test_losses_a_little_off_their_lattice():
    """Losses -1, 1 and 2 + 4e-11 pass for a lattice of mesh 1 - 4e-11, 1e-8 off after 60 steps:
    the bounds must know."""
    c, d, n = .2, 4e-11, 60
    a = (1 - (1 - c)/np.e - c*np.exp(-2 - d))/(np.e - 1/np.e)
    p, first, second = (a, 1 - c - a, c), a*np.e, (1 - c - a)/np.e
    plrv = n*Discrete(p=p, q=(first, second, 1 - a*np.e - second))
    step, tilted = plrv.steps[0][0], TiltedFFT(plrv.remove)
    with workdps(40):
        p, q = [[mpf(x) for x in v] for v in (step.p, step.q)]
        def power(v, k): return v[0]**k[0]*v[1]**k[1]*v[2]**k[2]
        classes = [(mp.binomial(n, i)*mp.binomial(n - i, j), (i, j, n - i - j))
                   for i in range(n + 1) for j in range(n - i + 1)]
        known = [(ways, power(p, k), power(q, k)) for ways, k in classes]
        for eps in (50., 60.5, 75.3, 90.):
            exact = sum(w*max(mpf(0), under_p - mp.exp(mpf(eps))*under_q)
                        for w, under_p, under_q in known)
            low, mid, up = tilted.delta(eps)
            assert low <= exact <= up < low*(1 + 1e-5) and abs(mid/exact - 1) > 1e-10

def test_each_curve_is_asked_once(monkeypatch):
    "One bound of it at a time, and of a symmetric pair one direction."
    asked, curve = [], GaussianLoss.log_delta
    def counting(self, eps):
        asked.append(np.size(eps))
        return curve(self, eps)
    monkeypatch.setattr(GaussianLoss, 'log_delta', counting)
    law = connect_the_dots(Gaussian(sigma=1.).remove, 1e-3)
    assert sum(asked) < 1.4*len(law.weights)/2          # 6 times that, both bounds and the middle

def test_a_terminal_is_told_the_price(monkeypatch, capsys):
    monkeypatch.setattr('sys.stderr.isatty', lambda: True, raising=False)
    loss = Gaussian(sigma=1.).remove
    for mesh, told in ((1e-2, False), (3e-5, True)):
        connect_the_dots(loss, mesh)
        assert ('dots of each curve take about' in capsys.readouterr().err) == told

def test_a_lattice_that_is_cut(monkeypatch):
    "What is left out of a long lattice is in the bounds: around the uncut ones, and near."
    place = np.r_[-9000, -3000, np.arange(-40, 41), 3000, 9000]
    far = np.where(abs(place) < 9000, -12., -60.)
    logc = np.where(abs(place) <= 40, -.5*(place/12)**2, far)
    losses = place*2.**-9
    logp = logc + losses/2
    logp -= np.logaddexp.reduce(logp)       # Q's masses are P's, mirrored
    run = ComposedLoss([(FiniteLoss(logp, logp - losses, losses), 50)])
    whole = TiltedFFT(run)
    assert all(grid.whole is None for grid in whole.grids.values())
    monkeypatch.setattr(tilted_fft, 'AT_ONCE', 1 << 9)
    cut = TiltedFFT(run)
    assert cut.grids and all(grid.whole is not None for grid in cut.grids.values())
    for ask, x in (('delta', [.1, 1., 6.]), ('epsilon', [1e-3, 1e-8])):
        found, exact = (getattr(accountant, ask)(x) for accountant in (cut, whole))
        assert (found.lower <= exact.upper).all() and (exact.lower <= found.upper).all()
        assert (found.upper - found.lower <= 1e-5*exact.upper).all()
