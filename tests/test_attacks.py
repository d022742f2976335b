"practice/attacks, attacks: closed forms, conjugates, one number for a curve."
import tracemalloc

import numpy as np
import pytest
from mpmath import mp
from scipy.special import ndtr, ndtri

from dp_saddle import (
    ApproxDP,
    ContourAccountant,
    Discrete,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
    advantage,
    bayes_risk,
    delta,
    epsilon,
    gdp,
    tpr,
    tradeoff,
)
from dp_saddle.accounting import best_accountant
from dp_saddle.engine.line import CgfTable
from dp_saddle.plrv import gaussian_log_delta

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes')

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def gaussian_tradeoff(alpha, mu):
    return ndtr(-ndtri(np.clip(alpha, 1e-300, 1 - 1e-16)) - mu)

@pytest.mark.parametrize('mu', [.1, 1., 6.])
def test_trade_off_of_gaussians_in_closed_form(mu):
    alpha, run = np.array([0., 1e-9, 1e-3, .05, .3, .5, .9, 1 - 1e-9, 1.]), Gaussian(sigma=1/mu)
    exact = gaussian_tradeoff(alpha, mu)
    exact[0], exact[-1] = 1., 0.
    ours = tradeoff(run, fpr=alpha)
    assert (ours <= exact + 1e-12).all() and ours == pytest.approx(exact, abs=1e-10)
    assert tpr(run, fpr=alpha) == pytest.approx(1 - exact, abs=1e-10)
    assert advantage(run) == pytest.approx(2*ndtr(mu/2) - 1, rel=1e-10)
    assert bayes_risk(run) == pytest.approx(ndtr(-mu/2), rel=1e-9)

RUNS = {
    'sampled': 1000*S(2., .01),
    'mixed': Laplace(scale=1.) + S(2., .1),
    'responses': 20*RandomizedResponse(eps=.3),
    'discrete': 3*Discrete(p=(.5, .3, .2), q=(.2, .3, .5)),
}
each_run = pytest.mark.parametrize('run', RUNS.values(), ids=RUNS)

@each_run
def test_shape_of_the_trade_off(run):
    alpha = np.linspace(0, 1, 301)**4
    f = tradeoff(run, fpr=alpha)
    assert (np.diff(f) <= 1e-12).all() and f[-1] == 0
    assert f[0] == pytest.approx(1 - delta(run, eps=600.), abs=1e-10)
    assert advantage(run) == delta(run, eps=0.)
    assert (1 - alpha - f).max() == pytest.approx(advantage(run), abs=1e-3)

@each_run
def test_curves_are_conjugates(run):
    "delta(eps) = max over alpha of 1 - f(alpha) - e^eps alpha; f is above none of its lines."
    eps, row = np.array([0., .1, .7, 2.]), np.arange(4)
    near = np.tile(np.linspace(0, 1, 301)**4, (4, 1))
    for _ in range(11):
        gain = 1 - tradeoff(run, fpr=near) - np.exp(eps)[:, None]*near
        i = np.clip(gain.argmax(1), 1, near.shape[1] - 2)
        near = np.linspace(near[row, i - 1], near[row, i + 1], 21, axis=1)
    assert abs(gain.max(1) - delta(run, eps=eps)).max() < 1e-10

def test_bayes_risk_is_that_of_the_best_test():
    run, p = 100*S(1., .05), np.array([.01, .3, .5, .8])
    first, row = np.r_[p, 1 - p][:, None], np.arange(8)
    near = np.tile(np.linspace(0, 1, 301)**3, (8, 1))
    for _ in range(4):                                # f is convex: the least is between neighbours
        risk = first*tradeoff(run, fpr=near) + (1 - first)*near
        i = np.clip(risk.argmin(1), 1, near.shape[1] - 2)
        near = np.linspace(near[row, i - 1], near[row, i + 1], 21, axis=1)
    best = risk.min(1).reshape(2, 4).min(0)
    assert [bayes_risk(run, prior=x) for x in p] == pytest.approx(best, abs=1e-7)

@pytest.mark.parametrize('fpr', [1e-300, 1e-100, 1e-15, 1e-3, .5, 1.])
def test_tpr_is_rounded_up_however_small(fpr):
    true = 1. if fpr == 1 else float(ndtr(ndtri(fpr) + 1))
    found = tpr(Gaussian(sigma=1.), fpr=fpr)
    assert true*(1 - 1e-13) <= found <= true*(1 + 1e-6) and found >= fpr

@pytest.mark.parametrize('fpr', [0., 1e-6, .01, .5])
def test_tpr_with_an_infinite_loss(fpr):
    e, d = .5, 1e-3
    exact = min(d + np.exp(e)*fpr, 1 - np.exp(-e)*(1 - d - fpr))
    assert tpr(ApproxDP(eps=e, delta=d), fpr=fpr) == pytest.approx(exact, rel=1e-9)

def test_each_direction_mirrors_the_other():
    "f_remove(f_add(x)) = x, and the symmetrised curve is below both."
    run, alpha = 3*S(.5, .5), np.linspace(.01, .99, 99)
    both, found, cleared = (tradeoff(run, fpr=alpha, direction=way)
                            for way in (None, 'remove', 'add'))
    assert tradeoff(run, fpr=found, direction='add') == pytest.approx(alpha, abs=1e-8)
    assert (both <= np.minimum(found, cleared) + 1e-12).all()
    assert (np.minimum(found, cleared) - both).max() > .01
    symmetric = Laplace(scale=1.) + Gaussian(sigma=2.)
    both, found = (tradeoff(symmetric, fpr=alpha, direction=way) for way in (None, 'add'))
    assert found == pytest.approx(both, abs=1e-9)

def test_many_corners_are_looked_up():
    "A best corner that is looked up is the best of all; of 60,000 responses there are as many."
    run, alpha = 2000*RandomizedResponse(eps=.03), np.linspace(0, 1, 1201)**3
    each = [tradeoff(run, fpr=x) for x in alpha[::100]]
    assert tradeoff(run, fpr=alpha)[::100] == pytest.approx(each, rel=1e-10, abs=1e-13)

@pytest.fixture
def asked(monkeypatch):
    "What the contour accountant is asked: an array of eps for each question."
    questions, delta_at = [], ContourAccountant.delta
    def counting(accountant, eps):
        questions.append(np.ravel(eps))
        return delta_at(accountant, eps)
    monkeypatch.setattr(ContourAccountant, 'delta', counting)
    return questions

@pytest.fixture
def built(monkeypatch):
    "The lines that are built."
    lines, line_for = [], CgfTable.line_for
    def counting(table, eps, log_delta):
        lines.append(line_for(table, eps, log_delta))
        return lines[-1]
    monkeypatch.setattr(CgfTable, 'line_for', counting)
    return lines

@pytest.mark.parametrize('run, directions', [
    (Laplace(scale=3.) + Gaussian(sigma=2.), 1), (1000*S(2., .01), 2), (100*S(30., .01), 2)])
def test_one_line_for_each_direction_makes_the_curve(run, directions, asked, built):
    "It shows where the best points are, and serves there, too: the accountant is not asked."
    alpha = np.linspace(.01, .99, 50)
    f = tradeoff(run, fpr=alpha)
    assert len(built) == directions and not asked
    assert f == pytest.approx(1 - tpr(run, fpr=alpha), abs=1e-9)
    for x, least in zip(alpha[::7], f[::7], strict=True):
        assert tradeoff(run, fpr=x) == pytest.approx(least, rel=1e-9)

def test_where_a_line_is_too_wide_the_accountant_is_asked(asked):
    "Once, about these points alone; and the bound is what it makes of them."
    run, alpha = 3*S(.3, .1), np.linspace(.01, .99, 50)
    f = tradeoff(run, fpr=alpha)
    assert len(asked) == 1 and 0 < len(asked[0]) <= 2*alpha.size
    eps = np.unique(asked[0])
    d, e = delta(run, eps=eps), np.exp(eps)
    lines = [1 - d - e*alpha[:, None], (1 - d - alpha[:, None])/e]
    assert (f >= np.max(lines, axis=0).max(1) - 1e-6).all()

@pytest.mark.parametrize('run', [1000*S(2., .01), 2*S(5., .1), 3*S(.5, .5), 100*S(.6, .01)])
@pytest.mark.parametrize('fpr', [.001, .3, .9])
def test_no_better_eps_is_left_out(run, fpr):
    "Neither between the points nor beyond the end of the curve that is looked at."
    f, eps = tradeoff(run, fpr=fpr), np.linspace(0, epsilon(run, delta=1e-9), 2001)
    d, e = delta(run, eps=eps), np.exp(eps)
    best = np.maximum(1 - d - e*fpr, (1 - d - fpr)/e).max()
    assert f >= best*(1 - 1e-9) and f == pytest.approx(best, rel=1e-3)

def test_no_table_of_all_corners():
    run = 20_000*RandomizedResponse(eps=.01)
    tracemalloc.start()
    f, found = tradeoff(run, fpr=.01), gdp(run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e8                                   # a table of all corners has 3e9 bytes
    assert f == pytest.approx(gaussian_tradeoff(.01, found.mu), abs=1e-4)
    assert found.mu == pytest.approx(.01*20_000**.5, rel=1e-4)

# One number

def test_mu_and_its_regret():
    run = 1000*S(2., .01)
    g = gdp(run, delta=1e-8)
    e = np.linspace(0, epsilon(run, delta=1e-8), 50)
    d = delta(run, eps=e)
    assert (np.exp(gaussian_log_delta(e, g.mu)) >= d*(1 - 1e-9)).all() and 0 < g.regret < .05
    assert (np.exp(gaussian_log_delta(e, .999*g.mu)) < d).any()
    assert gdp(run, delta=1e-30).mu > g.mu and gdp(0*Gaussian(sigma=1.)).mu == 0

@pytest.mark.parametrize('run, most', [(Laplace(scale=3.), 1100), (1000*S(2., .01), 350)])
def test_each_point_of_the_curve_is_asked_once(run, most, asked):
    "More of them where a Gaussian curve nearly touches: to a millionth of mu."
    mu = gdp(run).mu
    eps = np.concatenate(asked)
    assert len(set(eps)) == len(eps) < most
    e = np.linspace(0, epsilon(run, delta=1e-10), 30_000)[:-1]
    above = np.exp(gaussian_log_delta(e, mu*(1 - 2e-6))) >= delta(run, eps=e)
    assert not above.all()

def test_the_regret_is_a_levy_distance():
    "f moved by the regret is below f_mu."
    run = 1000*S(2., .01)
    g, alpha = gdp(run, delta=1e-8), np.linspace(0, 1, 501)
    f = tradeoff(run, fpr=alpha)
    shifted = np.interp(alpha + g.regret, alpha, f, right=0.) - g.regret
    assert (shifted <= gaussian_tradeoff(alpha, g.mu) + 1e-6).all()

@pytest.mark.parametrize('kinds', [
    [(.05, 1., 1)], [(.3, 1., 1)], [(7., 3., 1)], [(1e4, 1., 1)], [(1e-90, 1., 1)],
    [(1.7, 1., 3), (.9, .1, 7)], [(31., 1., 10**6), (17., 2., 1), (1e5, 1., 10**9)]])
def test_mu_of_gaussians_is_their_own(kinds):
    "The root of the sum of squares, to a few digits of the last place, from above."
    runs = [n*Gaussian(sigma=sigma, sensitivity=c) for sigma, c, n in kinds]
    with mp.workdps(40):
        exact = mp.sqrt(mp.fsum(n*(mp.mpf(c)/mp.mpf(sigma))**2 for sigma, c, n in kinds))
        found = gdp(sum(runs, 0*runs[0]))
        assert exact <= found.mu <= exact*(1 + mp.mpf('2e-15'))
        assert found.mu - exact <= 2.5*found.regret or found.regret == 1

def test_no_mu_covers_an_infinite_loss():
    with pytest.raises(ValueError, match='delta must be larger than 0.001'):
        gdp(ApproxDP(eps=1., delta=1e-3))
    run = ApproxDP(eps=1., delta=1e-3) + Gaussian(sigma=1.)
    g, at = gdp(run, delta=2e-3), np.linspace(0, 8, 400)
    d = delta(run, eps=at)
    covered = np.exp(gaussian_log_delta(at, g.mu)) >= d*(1 - 1e-9)
    assert covered[d >= 2e-3].all()

@pytest.mark.parametrize('call, message', [
    (lambda g: tradeoff(g, fpr=1.1), 'fpr must'),
    (lambda g: tradeoff(g, fpr=np.nan), 'fpr must'),
    (lambda g: tpr(g, fpr=-.1), 'fpr must'),
    (lambda g: bayes_risk(g, prior=0.), 'prior must'),
    (lambda g: gdp(g, delta=1.), 'delta must'),
    (lambda g: tradeoff(g, fpr=.1, direction='both'), "direction must be None, 'remove' or 'add'"),
    (lambda g: tradeoff(g, fpr=.1, direction=1), "direction must be .* got 1"),
    (lambda g: tradeoff(g.remove, fpr=.1, direction='add'), 'direction must be None for a run'),
])
def test_bad_questions(call, message):
    with pytest.raises(ValueError, match=message):
        call(Gaussian(sigma=1.))

@pytest.mark.parametrize('direction', [np.array(['remove', 'add']), np.array([]), ['remove']])
def test_a_direction_is_one_word(direction):
    with pytest.raises(ValueError, match="direction must be None, 'remove' or 'add', got"):
        tradeoff(Gaussian(sigma=1.), fpr=.1, direction=direction)

def test_the_smallest_doubles_as_false_positive_rates():
    "Their thousandth is 0, and no delta."
    found = tpr(Gaussian(sigma=1.), fpr=[5e-324, 1e-310])
    assert (found >= [5e-324, 1e-310]).all() and (found < 1e-290).all()
    assert 1 - 1e-12 <= tradeoff(Gaussian(sigma=1.), fpr=5e-324) <= 1

def test_rates_next_to_1_alone_and_beside_others():
    "The curve is followed as far down as the rarest miss asks for."
    run = 22*PoissonSubsampled(base=Laplace(scale=14.28144), rate=.0034923613)
    alone = tradeoff(run, fpr=1 - 7.04e-12, direction='remove')
    beside = tradeoff(run, fpr=[1e-12, 1 - 7.04e-12], direction='remove')[1]
    assert 6.9e-12 < alone and abs(alone/beside - 1) < 1e-3

@pytest.mark.parametrize('run', [
    Laplace(scale=.561) + 5*S(.874, .1477), Laplace(scale=1.165) + 14*S(.937, .0743)], ids=str)
def test_rounded_corners(run):
    "Where splines see no corner, the curve is asked: as good as four thousand of its lines."
    fpr = np.logspace(-5, -.3, 30)
    found, accountant = tradeoff(run, fpr=fpr), best_accountant(run)
    eps = np.linspace(0, 1, 4001)**1.5*accountant.epsilon(1e-9).upper
    delta = accountant.delta(eps).upper[:, None]
    slope = np.exp(eps)[:, None]
    best = np.maximum(1 - delta - slope*fpr, (1 - delta - fpr)/slope).max(0)
    assert (found > best - 1e-6).all() and (found < best + 5e-5).all()
