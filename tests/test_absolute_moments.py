"losses/absolute_moments: absolute moments against mpmath, for each kind of loss."
import mpmath as mp
import numpy as np
import pytest

from dp_saddle import Discrete, Gaussian, PoissonSubsampled, SaddlePointCLT
from dp_saddle.edgeworth.berry_esseen import step_moments
from dp_saddle.losses.absolute_moments import lyapunov_most
from dp_saddle.losses.densities import DensityLoss, SubsampledGaussianLoss
from dp_saddle.losses.laplace import LaplaceLoss
from dp_saddle.losses.mixtures import MixtureLoss
from dp_saddle.plrv import GaussianLoss
from dp_saddle.steps.builders import MixedLoss


def laplace_moment(d, q, top, t, m, order):
    "E|L - m|^order, tilted by t: two atoms and a density."
    d, q, t, m = (mp.mpf(float(v)) for v in (d, q, t, m))
    sign = 1 if top == 'remove' else -1
    def loss(l): return sign*mp.log1p(q*mp.expm1(l))
    power = t + 1 if sign > 0 else -t
    corner = mp.log1p(mp.expm1(sign*m)/q)
    cuts = sorted({-d, d, min(max(corner, -d), d)})
    def mean(f):
        def term(l): return f(loss(l))*mp.exp(power*sign*loss(l))
        density = mp.quad(lambda l: term(l)*mp.exp(-(l + d)/2)/4, cuts)
        return density + term(-d)/2 + term(d)*mp.exp(-d)/2
    return mean(lambda v: abs(v - m)**order)/mean(lambda v: mp.mpf(1))


def mixture_moment(step, t, m, order):
    "The same of a mixture of Gaussians."
    sign = 1 if step.top == 'remove' else -1
    t, m, (c, p), s = mp.mpf(t), mp.mpf(float(m)), step.given, mp.mpf(step.sigma)
    def loss(x):
        return sign*mp.log(mp.fsum(mp.mpf(b)*mp.exp(a*(2*x - a)/(2*s*s))
                                   for a, b in zip(map(mp.mpf, c), p, strict=True)))
    near = float(step.outcome_of(float(m), None, None))*c[-1]/step.c[-1]
    corner = mp.findroot(lambda x: loss(x) - m, near)
    power = t + 1 if sign > 0 else -t
    cuts = [corner + k*s for k in (-20, -9, -5, -2, 0, 2, 5, 9, 20)]
    def mean(f):
        return mp.quad(lambda x: f(loss(x))*mp.exp(power*sign*loss(x) - x*x/(2*s*s)), cuts)
    return mean(lambda v: abs(v - m)**order)/mean(lambda v: mp.mpf(1))


def holds(known, exact, most=1e-8):
    "Is the exact one below, and not far?"
    upper, off = (mp.mpf(float(v)) for v in (known.most[0], known.off[0]))
    assert exact <= upper <= exact*(1 + mp.mpf(most))
    assert abs(upper - off - exact) < off/2


@pytest.mark.parametrize('d, q', [(1., .1), (.2, 1e-5), (4., .3), (1e-3, .5)])
@pytest.mark.parametrize('top', ['remove', 'add'])
def test_laplaces(d, q, top):
    law = LaplaceLoss(d, q, top)
    for t in (0., 3.):
        tilt = np.array([t])
        m = law.cumulants_on(tilt, 1)[0, 0]
        for order in (1, 3, 4):
            with mp.workdps(40):
                holds(law.known_moment(tilt, order), laplace_moment(d, q, top, t, m, order))


@pytest.mark.parametrize('top', ['remove', 'add'])
@pytest.mark.parametrize('c', [(0., 1., 2.5), (.5, 1., 3.)])
def test_mixtures(c, top):
    law = MixtureLoss(1.5, c, (.9, .06, .04), top)
    for t in (0., 2.):
        tilt = np.array([t])
        m = law.cumulants_on(tilt, 1)[0, 0]
        with mp.workdps(30):
            holds(law.known_moment(tilt, 3), mixture_moment(law, t, m, 3))


def test_atoms_and_a_noise_of_ones_own():
    coin = Discrete(p=(.3, .7), q=(.6, .4)).remove
    known, mean = coin.known_moment(np.zeros(1), 3), coin.cumulants_on(np.zeros(1), 1)[0, 0]
    with mp.workdps(30):
        holds(known, sum(mp.mpf(a)*abs(mp.log(mp.mpf(a)/mp.mpf(b)) - mp.mpf(float(mean)))**3
                         for a, b in ((.3, .6), (.7, .4))))

    class Normal(DensityLoss):
        def loss(self, x): return x + .5
        def log_density(self, x): return -x*x/2 - np.log(2*np.pi)/2
        def ends(self, t): return -11., 11. + t

    t = np.array([0., 2., 9.])
    known, exact = Normal(1.).known_moment(t, 3), np.sqrt(8/np.pi)
    assert (exact < known.most).all() and (known.most < exact*(1 + 1e-11)).all()


def test_a_mixture_of_laws():
    law = SubsampledGaussianLoss(1., .1, 'remove')
    t = np.array([0., 3.])
    same = MixedLoss(np.log([.4, .6]), [law, law]).known_moment(t, 3)
    alone = law.known_moment(t, 3)
    np.testing.assert_allclose(same.most, alone.most, rtol=1e-11)
    np.testing.assert_allclose(same.signed, alone.signed, rtol=1e-11)
    other = MixedLoss(np.log([.4, .6]), [law, GaussianLoss(1.)])     # one of them has no pieces
    half = .4*alone.most[0] + .6*GaussianLoss(1.).abs_moment(0., 3)
    assert half/8 < other.known_moment(np.zeros(1), 3).most[0] < 8*half


def test_many_rare_steps_keep_their_bounds():
    "A step that loses next to nothing: its third moment is known relative to itself."
    for n, sigma, q in ((10**9, 20., 1e-5), (10**10, 2., 1e-6), (10**8, 1., 1e-4)):
        run = n*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=q)
        for side in (run.remove, run.add):
            (part, count), = side.parts
            plain = count*part.abs_moment(0., 3)
            assert plain < lyapunov_most(side, np.zeros(1))[0] < plain*(1 + 1e-9)
            moments = step_moments(side)
            fourth = part.abs_moment(0., 4)/part.cumulants(0.)[1]**2
            assert fourth < moments.K4 < (1 + 1e-6)*fourth
        bounds = SaddlePointCLT(run).delta(.5)
        assert bounds.lower <= bounds.upper
