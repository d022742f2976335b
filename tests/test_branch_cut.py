"A line folded around the cut: against closed forms, other proofs, and thirty digits."
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from dp_saddle import BallsInBins, ContourAccountant, Gaussian
from dp_saddle.engine.line import CgfTable
from dp_saddle.plrv import ComposedLoss
from dp_saddle.sampling import branch_cut as page
from dp_saddle.sampling.bins import BinsLoss
from dp_saddle.sampling.branch_cut import (
    Turning,
    eps_of_jump,
    folded_line,
    log_jump,
    strip,
)
from dp_saddle.sampling.lognormal_moments import bin_moments
from dp_saddle.sampling.one_epoch import LikelihoodRatioMean


def call(sigma, K):
    "E(Y - K)_+ of one lognormal number."
    d = sigma*np.log(K) + 1/(2*sigma)
    return ndtr(1/sigma - d) - K*ndtr(-d)

@pytest.mark.parametrize('sigma', [.2, .3, .5, .8, 1.2, 2.])
def test_one_bin_in_closed_form(sigma):
    "Nothing in the proof asks for two bins: with one it is Black and Scholes' price."
    served = 0
    for log_delta in np.linspace(-3, -60, 9):
        epoch = SimpleNamespace(sigma=sigma, T=1)
        eps = eps_of_jump(epoch, log_delta)
        K = np.array([np.exp(eps)])
        truth = call(sigma, K[0])
        line = folded_line(epoch, K[0], np.log(truth))
        if line is None: continue
        served += 1
        low, mid, up = line.bounds(K)[:, 0]
        assert low*(1 - 1e-11) <= truth <= up*(1 + 1e-11)      # what the closed form is off by
        assert up - low < 1e-9*mid
    assert served > 6

def phi_in_digits(sigma, T, x, height=2.2):
    "phi at a complex x, |Im x| < pi/2, on the path that turns at g = 0, in thirty digits."
    with mpmath.workdps(30):
        b, z = 1/mpmath.mpf(sigma), mpmath.exp(mpmath.mpc(x))/mpmath.mpf(T)
        def term(g): return mpmath.npdf(g)*mpmath.exp(z*mpmath.exp(b*g - b*b/2))
        top = mpmath.mpc(0, sigma*(height - x.imag))
        real = mpmath.quad(term, [-18, -12, -8, -4, -2, 0])
        up = mpmath.quad(term, [0, top/4, top/2, 3*top/4, top])
        out = mpmath.quad(term, [top + k for k in (0, .25, .5, 1, 2, 3, 4, 6, 8, 12, 18)])
        return complex(real + up + out)

SETTINGS = [(.3, 4, 1.2), (.5, 50, 2.), (1., 7, 3.), (2., 3, 8.)]

@pytest.mark.parametrize('sigma, T, w', SETTINGS)
def test_values(sigma, T, w):
    turn = Turning(LikelihoodRatioMean(sigma, T), w)
    c = np.array([.5, 1.5, 2.5, 3.5])
    found = turn.values(c)
    for i, x in enumerate(found.x):
        truth = phi_in_digits(sigma, T, complex(x))**T
        size = np.exp(found.log_size[i])
        assert abs(size - abs(truth)) < 1e-10*size
        assert abs(size*np.sin(found.angle[i]) - truth.imag) <= (found.off[i] + 1e-14)*size
        assert found.off[i] < 1e-9

@pytest.mark.parametrize('sigma, T, w', SETTINGS)
@pytest.mark.parametrize('y', [0., .6, 1.2])
def test_strip_holds(sigma, T, w, y):
    "|F| at places and heights, by thirty digits, is below the bound of its box."
    turnings = [Turning(LikelihoodRatioMean(sigma, T), w*share) for share in (1., .3)]
    x = turnings[0].x(3.) + .25*np.arange(9)
    bounds, K = strip(turnings, y, x), 1.7
    for i in range(0, 8, 2):
        at = complex(x[i] + .1, y)
        one, other = (phi_in_digits(sigma, T, z)**T for z in (at, at.conjugate()))
        F = (one - other.conjugate())/2j*np.exp(-K*np.exp(at) - at)
        assert np.log(abs(F)) <= bounds.log_most[i] - K*np.exp(x[i])*np.cos(y) + 1e-9

def moments_line(sigma, T, eps):
    "The same curve by the line of moments: another proof."
    table = CgfTable(ComposedLoss([(BinsLoss(bin_moments(sigma, T), 'remove'), 1)]))
    return table.log_delta(np.array([eps]))[:, 0]

def check_against_moments(count, seed):
    rng, met = np.random.default_rng(seed), 0
    for _ in range(count):
        sigma = float(np.exp(rng.uniform(np.log(.25), np.log(1.5))))
        T = int(np.exp(rng.uniform(np.log(2), np.log(2000))))
        epoch = LikelihoodRatioMean(sigma, T)
        eps = eps_of_jump(epoch, np.log(10.)*rng.uniform(-12, -3))
        line = folded_line(epoch, np.exp(eps), float(log_jump(epoch, np.exp(eps))))
        if line is None: continue
        low, _, up = np.log(line.bounds(np.array([np.exp(eps)]))[:, 0])
        least, _, most = moments_line(sigma, T, eps)
        assert low <= most and least <= up, (sigma, T, eps)
        met += up < low + 1e-9
    assert met > .6*count

def test_against_moments(): check_against_moments(8, 5)

@pytest.mark.slow
def test_against_moments_often(): check_against_moments(150, 6)

def test_any_step_says_the_same():
    "Lines that were made for other K have other steps and ends."
    epoch, K = LikelihoodRatioMean(.5, 100), np.array([np.exp(6.4)])
    found = [folded_line(epoch, K[0]*share, -14.).bounds(K)[:, 0] for share in (.8, 1., 1.2, 2.)]
    assert max(low for low, _, _ in found) <= min(up for _, _, up in found)
    assert max(up/low - 1 for low, _, up in found) < 1e-6

def test_refuses_where_no_jump_rules():
    for sigma, T, eps in ((1., 1000, .14), (5., 10, .25), (2., 10**5, .008)):
        assert folded_line(LikelihoodRatioMean(sigma, T), np.exp(eps), -12.) is None

@pytest.mark.parametrize('sigma, T, eps', [(1., 6000, .01), (1., 10000, .03)])
def test_a_line_of_any_length_is_true(monkeypatch, sigma, T, eps):
    "Where no jump rules terms are beyond what doubles hold: then nothing is said."
    monkeypatch.setattr(page, '_MOST_PLACES', np.inf)
    line, K = folded_line(LikelihoodRatioMean(sigma, T), np.exp(eps), -12.), np.exp([eps])
    low, _, up = line.bounds(K)[:, 0]
    least, _, most = np.exp(moments_line(sigma, T, eps))
    assert line.exponents(K).max() > 600 and low <= most and least <= up

def test_a_misled_value_is_bounded(monkeypatch):
    "Whatever phi is, of the errors said: its power, for many bins."
    turn, c = Turning(LikelihoodRatioMean(.5, 1000), 1.5), np.array([1., 2.])
    monkeypatch.setattr(Turning, 'phi', lambda self, c: (-.9 + 0*c, .1 + 0*c, 3 + 0*c, 3 + 0*c))
    found = turn.values(c)
    assert (found.log_size + np.log(found.off) >= 1000*np.log(6 + .1*2**.5)).all()
    assert not np.sin(found.angle).any()

@pytest.mark.parametrize('d', [1e-3, 1e-12, 1e-100])
def test_widths(d):
    for sigma, T in ((.3, 2), (.3, 10**5), (.5, 1000), (1., 10)):
        found = ContourAccountant(BallsInBins(Gaussian(sigma=sigma), batches=T)).epsilon(d)
        assert found.width < 1e-9
