"A jump that is enough, cuts for each eps; against uncut lines, sums and play."
from math import exp, inf, log

import numpy as np
import pytest
from scipy.special import log_ndtr

from dp_saddle import BallsInBins, ContourAccountant, Gaussian, PoissonSubsampled
from dp_saddle.engine.line import CgfTable
from dp_saddle.sampling.epoch_planner import epoch_of
from dp_saddle.sampling.large_jumps import CutRun, CutTable, Jumps, Kind

SETTINGS = 1e-10, 1e-6, 1 << 18

def epochs(n, sigma, T): return n*BallsInBins(Gaussian(sigma=sigma), batches=T)

def below(n, sigma, T, cut):
    "The table of so many epochs with a cut."
    run = epochs(n, sigma, T).remove
    (loss, count), = run.parts
    return CutRun(run, [Kind(loss, epoch_of(sigma, T), count)], [cut], *SETTINGS)

def normal(step=.01, end=9.):
    g = np.arange(-end, end + step/2, step)
    return g, np.exp(-g*g/2)/np.sqrt(2*np.pi)*step

@pytest.mark.parametrize('sigma, cut, K', [
    (1., 2.21, 2.), (1., 3.01, 1.2), (2., 1.51, 1.1), (.7, 3.01, 6.)])    # halfway between places
def test_the_theorem_for_two_epochs_of_two_bins(sigma, cut, K):
    "What is above is P(A) - K Q(A), and more by at most the bound: a plain sum in one dimension."
    g, weight = normal(.02, 8.5)
    weight = weight/weight.sum()
    Y = np.exp(g/sigma - 1/(2*sigma**2))
    log_S = np.log((Y[:, None] + Y)/2).ravel()
    mass, above = np.outer(weight, weight).ravel(), (np.maximum(g[:, None], g) > cut).ravel()
    places = np.arange(log_S.min() - .01, log_S.max() + .01, .004)
    def histogram(some):
        return np.histogram(log_S[some], places, weights=mass[some])[0]
    middle = (places[1:] + places[:-1])/2
    free, cut_off = histogram(~above), histogram(above)
    S, gain, missing = np.exp(middle), 0., 0.
    for a, b in ((cut_off, free), (free, cut_off), (cut_off, cut_off)):
        for x, p in zip(S[a > 0], a[a > 0], strict=True):
            gain += p*(b @ np.maximum(x*S - K, 0))
            missing += p*(b @ np.maximum(K - x*S, 0))
    table = below(2, sigma, 2, cut)
    masses = table.masses()
    assert abs(gain - missing - (masses[0] - K*masses[2])) < 5e-3*gain
    (kind, c), = table.pairs
    for u in (2., 5., 9.):
        front, less = kind.log_front(c, u)
        y = (Y[:, None] + Y)/2
        kappa = log(mass @ y.ravel()**-u)
        most = exp(front + (1 + u)*log(K) + (2 - less)*kappa)
        assert missing < most*(1 + 1e-2)

def test_played():
    "Three epochs of a thousand bins, drawn: both sorts, within five standard deviations."
    rng, n, T, eps = np.random.default_rng(5), 3, 1000, .12
    losses, tops = [], []
    for _ in range(6):
        g = rng.standard_normal((2000, n, T))
        g[:, :, 0] += 1                               # under P, by symmetry in the first bin
        losses.append(np.log(np.exp(g - .5).mean(2)).sum(1))
        tops.append(g.max((1, 2)))
    gain, top = np.maximum(-np.expm1(eps - np.concatenate(losses)), 0), np.concatenate(tops)
    for cut in (3.5, 4., 5.):
        table, at = below(n, 1., T, cut), np.array([eps])
        above = table.jumps_at(eps, -60.).log_bounds(at)
        sorts = (table.log_delta(at), top <= cut), (above, top > cut)
        for logs, some in sorts:
            low, _, up = np.exp(logs[:, 0])
            played, doubt = gain*some, 5*(gain*some).std()/len(gain)**.5 + 1e-5
            assert low - doubt < played.mean() < up + doubt
        low, _, up = np.exp(sorts[0][0][:, 0])
        assert up < 1.0001*low

def test_bounds_of_jumps():
    "They are in order at all eps; nothing is said where K leaves the doubles."
    eps = np.r_[np.linspace(0, 3, 31), 50., 700.]
    for least, log_missing in ((1e-9, -30.), (5e-10, inf)):
        jumps = Jumps(1e-9, least, 1e-11, 1e-14, 40., log_missing)
        low, mid, up = np.exp(jumps.log_bounds(eps))
        assert (low <= mid).all() and (mid <= up).all() and (up <= 1.001e-9).all()
        assert low[0] <= 1e-9 - 1e-11 <= up[0]*(1 + 1e-12)
        assert low[-1] == 0

@pytest.mark.parametrize('sigma, T, eps', [(1., 10**4, .19), (.7, 10**4, .9), (1., 1000, .56)])
def test_any_cut(sigma, T, eps):
    "However the curve is parted, what is proved of the whole overlaps."
    found, at = [], np.array([eps])
    for more in (.1, .3, .6):
        y = np.expm1(eps + more*eps)
        cut = sigma*log(T*y) + 1/(2*sigma)
        table = below(5, sigma, T, cut)
        found.append(np.exp(table.log_delta(at)) + np.exp(table.jumps_at(eps, -80.).log_bounds(at)))
    low, _, up = np.array(found)[:, :, 0].T
    assert low.max() <= up.min() and 0 < low.max()
    assert up.min() < low.max()*1.001

# epochs, sigma, batches, delta
FIVE = [(5, 1., 10**4, 1e-12), (5, 1., 10**4, 1e-9), (5, .7, 10**4, 1e-9), (5, 1., 1000, 1e-9),
        (5, 1., 1000, 1e-5), (3, 1., 1000, 1e-5), (10, 1., 1000, 1e-5), (40, 1., 1000, 1e-5),
        (2, 2., 10**4, 1e-12), (20, .85, 10**4, 1e-6)]

@pytest.mark.parametrize('n, sigma, T, d', FIVE)
def test_a_few_epochs(n, sigma, T, d):
    "Below 2e-7 in eps; within what the line of uncut moments proves."
    run = epochs(n, sigma, T).remove
    found = ContourAccountant(run).epsilon(d)
    assert found.width < 2e-7
    low, _, up = CgfTable(run, 1e-10, 1e-6, 1 << 12).log_delta(np.array(found[::2]))
    assert low[1] <= log(d)*(1 - 1e-12) and log(d)*(1 + 1e-12) <= up[0]

def test_a_hundred_epochs_of_jumps():
    "Uncut moments leave eps between .74 and .81."
    found = ContourAccountant(epochs(100, .7, 10**5).remove).epsilon(1e-12)
    assert .74 < found.lower < .780881 < found.upper < .809 and found.width < 3e-7

@pytest.mark.parametrize('n, sigma, T, d, low, up', [
    (2, .6, 10**5, 1e-12, 1.5985130, 1.5985322),
    pytest.param(5, .6, 10**5, 1e-12, 1.7724016, 1.7724181, marks=pytest.mark.xfail(
        strict=True, reason='8e-6 apart, as a warning says: rounding of cut moments'))])
def test_large_jumps(n, sigma, T, d, low, up):
    "Within what uncut moments, in half a minute, had proved; the line knows all its places."
    found = ContourAccountant(epochs(n, sigma, T).remove).epsilon(d)
    assert low < found.lower < found.upper < up and found.width < 1e-8

def test_two_kinds_and_other_steps():
    "Cuts of their own; and by mass alone where other steps are."
    kinds = 3*BallsInBins(Gaussian(sigma=1.), batches=10**4) + epochs(2, 2., 2000)
    others = Gaussian(sigma=30.) + PoissonSubsampled(Gaussian(sigma=2.), rate=1e-3)
    for run in (kinds.remove, (kinds + others).remove):
        found = CutTable(run, *SETTINGS).epsilon(1e-7)
        low, _, up = CgfTable(run, 1e-10, 1e-6, 1 << 12).log_delta(np.array(found[::2]))
        assert low[1] <= log(1e-7) <= up[0] and found[2] - found[0] < 1e-5

def test_mass_above_is_not_missing():
    "A cut in the middle of the law: both sorts add up to what no cut says."
    table, eps = below(5, 1., 1000, 6.), np.array([.3])
    run = CgfTable(table.run, 1e-10, 1e-6, 1 << 14)
    low, _, up = np.exp(run.log_delta(eps))[:, 0]
    parts = np.exp(table.log_delta(eps)) + np.exp(table.jumps_at(.3, -60.).log_bounds(eps))
    assert parts[0, 0] <= up and low <= parts[2, 0]
    P, least, Q, _ = table.masses()
    log_free = 5*log_ndtr(5.) + 5*999*log_ndtr(6.)
    assert P == least and abs(P + np.expm1(log_free)) < 1e-12*P and Q < P

def test_where_it_says_nothing():
    "Adding, one epoch, few bins, many windows."
    assert not CutTable.fit(epochs(100, 1., 1000).add)
    assert not CutTable.fit(epochs(1, 1., 1000).remove)
    for n, sigma, T in ((10, .5, 10**4), (100, 1., 100)):
        table = CutTable(epochs(n, sigma, T).remove, *SETTINGS)
        assert table.epsilon(1e-6) == (0., 0., inf)
        assert (table.log_delta(np.array([2.9]))[:, 0] == [-inf, -inf, 0.]).all()

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_delta_and_back():
    accountant = ContourAccountant(epochs(5, 1., 10**4).remove)
    eps = accountant.epsilon(1e-12)
    found = accountant.delta([eps.lower, eps.upper])
    assert found.upper[0] >= 1e-12 >= found.lower[1]
    assert found.lower[0] <= 1e-12*(1 + 1e-4) and found.upper[1] >= 1e-12*(1 - 1e-4)

def test_few_digits_below_a_cut():
    "Where a search ends at single steps there is an answer: between one epoch and unsampled noise."
    delta = 1e-17
    with pytest.warns(UserWarning, match='wider than asked'):
        low, _, up = ContourAccountant(epochs(9, 5.5, 1394)).epsilon(delta)
    least = ContourAccountant(epochs(1, 5.5, 1394)).epsilon(delta).lower
    most = ContourAccountant(9*Gaussian(sigma=5.5)).epsilon(delta).upper
    assert 0 < least <= up <= most and low <= up

@pytest.mark.parametrize('sigma', [4.9, 4.97])
def test_a_first_eps_where_all_is_rounding(sigma):
    "Far beyond the eps that is asked for a line knows a bound alone, and the search goes on by it."
    found = ContourAccountant((5*BallsInBins(Gaussian(sigma=sigma), batches=1000)).remove)
    assert found.epsilon(1e-12).width < 1e-7
