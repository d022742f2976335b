"Balls in bins: what is known of them from elsewhere, and 40 random settings, none missed."
import sys
import warnings

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtri

import conformance
from dp_saddle import (
    BallsInBins,
    ContourAccountant,
    DiscreteGaussian,
    Gaussian,
    PoissonSubsampled,
    TiltedFFT,
    delta,
    epsilon,
    epsilon_after,
    group,
)
from dp_saddle.engine.line import CgfTable, SingleStepTable
from dp_saddle.plrv import ComposedLoss, gaussian_log_delta
from dp_saddle.sampling.bins import BinsLoss, sum_test
from dp_saddle.sampling.epoch_planner import epoch_of
from dp_saddle.sampling.lognormal_means import (
    BinMean,
    in_units,
    last_of_power,
    power_series,
)
from dp_saddle.sampling.lognormal_moments import (
    BinMoments,
    Counts,
    bin_moments,
    log_gamma,
)

NOISE = Gaussian(sigma=1.)

def bins(sigma, batches, **more):
    return BallsInBins(Gaussian(sigma=sigma), batches=batches, **more)

# sigma, batches, epochs, delta: eps removing and adding; prototypes with 13 digits, and grids
GOLDEN = [(1., 1000, 1, 1e-5, .13884660001, .12629374416),
          (.35, 1000, 1, 1e-6, 10.1686961, 1.341830884),
          (.4, 10**4, 1, 1e-6, 5.24572217, .396998530),
          (1., 1000, 10, 1e-5, .4644585, .45128253504)]

@pytest.mark.parametrize('sigma, T, epochs, d, remove, add', GOLDEN)
def test_golden(sigma, T, epochs, d, remove, add):
    run = epochs*bins(sigma, T)
    for loss, eps in ((run.remove, remove), (run.add, add)):
        bounds = ContourAccountant(loss).epsilon(d)
        digits = len(str(eps).split('.')[1])
        assert bounds.lower - 10.**-digits <= eps <= bounds.upper + 10.**-digits
        assert bounds.width < 1e-8

def test_last_digit_of_the_first():
    "A prototype had 2 as its eleventh digit; the line of moments, another route, has 1, too."
    loss = bins(1., 1000).remove
    found = ContourAccountant(loss).epsilon(1e-5)
    moments = CgfTable(ComposedLoss([(loss, 1)]), shortcut=False).epsilon(1e-5)
    assert abs(moments[1] - found.estimate) < 1e-13
    assert moments[0] <= found.lower <= found.upper <= moments[2]

def test_one_bin_is_a_gaussian():
    for sigma in (.3, 1., 5.):
        for eps in (0., .5, 3.):
            log_delta = float(np.log(delta(bins(sigma, 1), eps=eps)))
            wanted = float(gaussian_log_delta(eps, 1/sigma))
            assert log_delta == pytest.approx(wanted, rel=1e-13, abs=1e-13)
    assert bins(1., 7, draws=7).symmetric and bins(1., 1).symmetric and not bins(1., 2).symmetric
    assert epsilon(bins(1., 7, draws=7), delta=1e-5) == pytest.approx(epsilon(7*NOISE, delta=1e-5))

def two_bins(sigma, eps):
    """(removing, adding) at two bins, by an outer sum over the difference of both numbers and the
    normal law of their mean, in closed form."""
    h = .02
    d = np.arange(-14, 14, h)                 # (g1 - g2)/sqrt 2
    b = 1/sigma
    log_cosh = np.logaddexp(b*d/2**.5, -b*d/2**.5) - np.log(2) - b*b/2
    weight = np.exp(-d*d/2)/np.sqrt(2*np.pi)*h
    # S = e^{m + log_cosh}, m ~ N(0, b^2/2): a lognormal number of mean e^{b^2/4 + log_cosh}
    mu, mean = b/2**.5, np.exp(b*b/4 + log_cosh)
    put = np.exp(gaussian_log_delta(eps + b*b/4 + log_cosh, mu))     # E(1 - e^x Y)_+
    call = np.exp(gaussian_log_delta(eps - b*b/4 - log_cosh, mu))    # E(Y - e^x)_+
    return weight @ (mean*call), weight @ put

@pytest.mark.parametrize('sigma', [.3, .6, 1., 2., 5.])
def test_two_bins(sigma):
    run = bins(sigma, 2)
    for eps in (0., .1/sigma, 1/sigma, 3/sigma):
        for loss, truth in zip((run.remove, run.add), two_bins(sigma, eps), strict=True):
            low, _, up = ContourAccountant(loss).delta(eps)
            assert low*(1 - 1e-11) <= truth <= up*(1 + 1e-11)
            assert up - low < 1e-8*up + 1e-14

def play(rng, sigma, T, draws):
    "S of so many epochs."
    S = np.zeros(draws)
    for _ in range(T):
        S += np.exp(rng.standard_normal(draws)/sigma - 1/(2*sigma**2))/T
    return S

@pytest.mark.parametrize('sigma, T, eps', [
    (.7, 10, 1.), (1., 100, .1), (2., 1000, .02), (.5, 30, 0.)])
def test_played(sigma, T, eps):
    "Of gains in [0, 1] adding: Bernstein's interval at one in a million. Removing: five std."
    draws = 200_000 if T < 1000 else 40_000
    S = play(np.random.default_rng(7), sigma, T, draws)
    run = bins(sigma, T)
    gain = np.maximum(1 - np.exp(eps)*S, 0)
    reach = -ndtri(1e-6/2)*gain.std()/draws**.5 + 7*np.log(4e6)/(3*draws)
    low, _, up = ContourAccountant(run.add).delta(eps)
    assert low - reach <= gain.mean() <= up + reach
    gain = np.maximum(S - np.exp(eps), 0)
    low, _, up = ContourAccountant(run.remove).delta(eps)
    assert low - 5*gain.std()/draws**.5 <= gain.mean() <= up + 5*gain.std()/draws**.5

def random_settings(count):
    rng = np.random.default_rng(22)
    for _ in range(count):
        yield (float(np.exp(rng.uniform(np.log(.3), np.log(5)))), float(rng.uniform(0, 2)),
               rng.choice([1., -1.]), float(rng.uniform()))

def check_random(count):
    "The moments of two bins, of any order and frequency, within what they are said to be off by."
    d = np.arange(-16, 16, .02)
    weight = np.exp(-d*d/2)/np.sqrt(2*np.pi)*.02
    for sigma, turn, sign, share in random_settings(count):
        mean, b = BinMoments(sigma, 2), 1/sigma
        order = 1 + share*min(7*sigma, mean.largest - 1) if sign > 0 else -share*min(
            9*sigma, -mean.smallest)
        moment = mean.family(order).moment(order)
        s = np.array([0., turn*2*sigma])
        value, error = mean.family(order).line(moment, s)
        log_S0 = np.logaddexp(b*d/2**.5, -b*d/2**.5) - np.log(2) - b*b/2
        z = order - 1j*s[:, None]
        truth = (np.exp(z*log_S0) @ weight)*np.exp(z[:, 0]**2*b*b/4)
        size = truth[0].real
        assert abs(moment.log - np.log(size)) <= moment.error + 1e-12, (sigma, order)
        wrong = np.abs(value*np.exp(moment.log) - truth)/size
        assert (wrong <= error + 1e-12).all(), (sigma, order, s)
        assert error.max() < 1e-8

def test_random_settings(): check_random(40)

@pytest.mark.slow
def test_many_random_settings(): check_random(200)

def put(sigma, T, k):
    "E(k - S)_+ by the Laplace transform of S, inverted on a vertical line: nothing of the library."
    g = np.arange(-16, 16 + 3/sigma, .02)
    n = np.exp(-g*g/2)/np.sqrt(2*np.pi)*.02
    Y = np.exp(g/sigma - 1/(2*sigma**2))
    def log_M(u):
        return T*np.log1p(np.expm1(-np.multiply.outer(np.asarray(u, complex)/T, Y)) @ n)
    tried = np.geomspace(.5, 3000, 120)
    c = tried[(tried*k + log_M(tried).real - 2*np.log(tried)).argmin()]
    X = 45/c + k                                   # what lies whole periods away is below e^-45
    total, step, block = 0., 2*np.pi/X, 0
    while True:
        u = c + 1j*step*np.arange(block, block + 256)
        f = np.exp(u*k + log_M(u))/u**2
        total += 2*f.real.sum() - (f[0].real if block == 0 else 0)
        block += 256
        if np.abs(f[-1]) < 1e-18 or block > 20_000: return total/X

def check_by_laplace(count, seed):
    "Both curves of one epoch at random noise, bins and depth, as far as that sum has digits."
    rng = np.random.default_rng(seed)
    for _ in range(count):
        sigma = np.exp(rng.uniform(np.log(.5), np.log(4)))
        T = int(np.exp(rng.uniform(np.log(30), np.log(3000))))
        eps = rng.uniform(0, 4.5)*np.sqrt(np.expm1(sigma**-2)/T)
        if eps > 1: continue
        run = bins(sigma, T)
        K = np.exp(eps)
        truths = 1 - K + put(sigma, T, K), K*put(sigma, T, 1/K)
        for loss, truth in zip((run.remove, run.add), truths, strict=True):
            low, _, up = ContourAccountant(loss).delta(eps)
            assert low - 2e-13 <= truth <= up + 2e-13, (sigma, T, eps, low, truth, up)
            assert up - low < 1e-10

def test_by_laplace(): check_by_laplace(8, 1)

@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_by_laplace_often(): check_by_laplace(200, 2)

@pytest.mark.parametrize('T', [3, 40, 10**4])
def test_families_agree(T):
    "Different numbers of points, rays and paths say the same."
    mean = BinMoments(1.3, T)
    from dp_saddle.sampling.lognormal_moments import Counts
    for order in (-12., 2.1, 5.):
        other = Counts(mean, max(0, int(order)) + 26, order - .5, order + .5)
        one, two = mean.family(order).moment(order), other.moment(order)
        assert abs(one.log - two.log) <= one.error + two.error
        s = np.linspace(0, 40, 5)
        (M, e), (N, f) = mean.family(order).line(one, s), other.line(two, s)
        assert (np.abs(M - N) <= e + f + 2*(one.error + two.error)).all()
        assert (np.abs(M) <= np.exp(mean.log_bound(s)) + e).all()

PROMISES = [conformance.check_symmetry, conformance.check_unchecked_forms,
            conformance.check_cumulants, conformance.check_reverse, conformance.check_line,
            conformance.check_decay]

@pytest.mark.parametrize('promise', PROMISES, ids=lambda f: f.__name__)
@pytest.mark.parametrize('direction', ['remove', 'add'])
def test_promises(promise, direction):
    "Those of the conformance suite that do not ask for a law: that is not served."
    promise(BinsLoss(bin_moments(1., 60), direction))

def test_both_sides_of_zero():
    "delta removing at eps is that of adding at -eps, by 1 - e^eps + e^eps delta(-eps)."
    loss = BinsLoss(bin_moments(1., 50), 'remove')
    eps = np.array([.05, .2, .5])
    wanted = -np.expm1(eps) + np.exp(eps)*loss.reverse.delta(-eps)
    assert loss.delta(eps) == pytest.approx(wanted, rel=1e-8)

def test_more_bins_cost_less_and_poisson_is_near():
    costs = [epsilon(bins(1., T), delta=1e-5) for T in (1, 2, 10, 100, 1000)]
    assert costs == sorted(costs, reverse=True)
    assert epsilon(bins(1., 1000), delta=1e-5) < epsilon(
        1000*PoissonSubsampled(NOISE, rate=1e-3), delta=1e-5)

def test_composes():
    epoch = bins(1., 100)
    run = 3*epoch + Gaussian(sigma=4.) + 10*PoissonSubsampled(NOISE, rate=.01)
    low, _, up = ContourAccountant(run).epsilon(1e-5)
    assert low <= up < low + 1e-7
    alone = epsilon(3*epoch, delta=1e-5)
    assert alone < low
    small = ContourAccountant(3*epoch + 1*Gaussian(sigma=1e4)).epsilon(1e-5)
    assert small.upper == pytest.approx(alone, abs=1e-4)
    assert epsilon(sum([epoch]*3), delta=1e-5) == alone
    assert BallsInBins(2*Gaussian(sigma=2.), batches=9).base.sigma == pytest.approx(2**.5)

def test_draws():
    run = bins(1., 100, draws=3)
    parts = 2*bins(1., 33) + 1*bins(1., 34)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')              # nothing is known from below, and it says so
        bounds = ContourAccountant(run).epsilon(1e-5)
        assert bounds.lower == 0
        assert bounds.upper == pytest.approx(epsilon(parts, delta=1e-5), rel=1e-12)
        assert epsilon(run, delta=1e-5) > epsilon(bins(1., 100), delta=1e-5)
        assert epsilon(2*run, delta=1e-5) == pytest.approx(epsilon(2*parts, delta=1e-5), rel=1e-9)

def settings_asked(count, seed):
    "Random runs as users ask for them: (noise, bins, epochs, eps)."
    rng = np.random.default_rng(seed)
    for k in range(count):
        T = (1, 2, int(rng.integers(3, 60)), int(rng.integers(60, 600)))[k % 4]
        sigma, n = float(np.exp(rng.uniform(np.log(.4), np.log(5)))), int(rng.integers(1, 4))
        n = 1 if T == 2 else n
        yield sigma, T, n, float(rng.uniform(0, 1.5))*(n/T)**.5/sigma

def check_asked(count, seed, draws):
    """One bin: a Gaussian. Two: an integral. More: played, the mean of a gain between 0 and 1 by
    Bernstein's interval at one in a million; so removing is asked as 1 - e^eps/S under P."""
    for k, (sigma, T, n, eps) in enumerate(settings_asked(count, seed)):
        run = n*bins(sigma, T)
        found = [ContourAccountant(loss).delta(eps) for loss in (run.remove, run.add)]
        if T == 1: truths = (np.exp(gaussian_log_delta(eps, n**.5/sigma)),)*2
        if T == 2: truths = two_bins(sigma, eps)
        if T < 3:
            for bounds, truth in zip(found, truths, strict=True):
                assert bounds.lower*(1 - 1e-10) <= truth <= bounds.upper*(1 + 1e-10)
            continue
        rng, losses = np.random.default_rng([seed, k]), np.zeros((2, draws))
        for _ in range(n):
            Y = np.exp(rng.standard_normal((draws, T))/sigma - 1/(2*sigma**2))
            losses[1] -= np.log(Y.mean(1))
            Y[:, 0] *= np.exp(1/sigma**2)      # the record is in the first bin
            losses[0] += np.log(Y.mean(1))
        for bounds, loss in zip(found, losses, strict=True):
            gain = np.maximum(-np.expm1(eps - loss), 0)
            reach = -ndtri(1e-6/2)*gain.std()/draws**.5 + 7*np.log(4e6)/(3*draws)
            assert bounds.lower - reach <= gain.mean() <= bounds.upper + reach

@pytest.mark.slow
def test_two_hundred_settings_asked(): check_asked(200, 6, 40_000)

def both_ends(loss, eps):
    "What is proved of delta, without the warning that the lower end is one record's."
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return ContourAccountant(loss).delta(eps)[::2]

def thrown_group(k, T, sigma, draws):
    "S of a user with k records, the mean over all ways to throw them, at random outcomes."
    g = np.random.default_rng(11).standard_normal((draws, T))
    ways = np.array(np.meshgrid(*[range(T)]*k)).reshape(k, -1).T
    counts, often = np.unique([np.bincount(w, minlength=T) for w in ways], axis=0,
                              return_counts=True)
    return np.exp(g @ counts.T/sigma - (counts**2).sum(1)/(2*sigma**2)) @ often/len(ways)

@pytest.mark.slow
@pytest.mark.parametrize('k, T, sigma, eps', [
    (2, 2, 1., .5), (2, 20, 2., .2), (2, 20, 1., 1.), (3, 2, 3., .3), (3, 6, 3., .3),
    (3, 9, 1.5, 2.), (4, 4, 4., .2)])
def test_users(k, T, sigma, eps):
    "Played: within the bounds for all records of a user, in both directions."
    S, user = thrown_group(k, T, sigma, 100_000), group(bins(sigma, T), k)
    gains = np.maximum(S - np.exp(eps), 0), np.maximum(1 - np.exp(eps)*S, 0)
    for loss, gain in zip((user.remove, user.add), gains, strict=True):
        low, up = both_ends(loss, eps)
        reach = 5*gain.std()/len(gain)**.5
        assert low - reach <= gain.mean() <= up + reach

def test_two_records():
    "Of two bins: both in the same, with probability 1/2, or in both."
    user = group(bins(1., 2), 2)
    for eps in (.5, 2.):
        same, both = bins(.5, 2), 2*Gaussian(sigma=1.)
        for loss, others in ((user.remove, (same.remove, both.remove)),
                             (user.add, (same.add, both.add))):
            told = sum(ContourAccountant(x).delta(eps).estimate/2 for x in others)
            assert both_ends(loss, eps)[1] == pytest.approx(told, rel=1e-7)
    whole = group(bins(1., 3, draws=3), 2)
    assert epsilon(whole, delta=1e-5) == pytest.approx(epsilon(group(3*NOISE, 2), delta=1e-5))
    assert group(bins(1., 3), 2).relation == 'adding or removing all records of one user, at most 2'

def test_tiny_delta_is_bounded():
    "Where doubles have too few digits the interval is wide, and holds what a wider law says."
    run = bins(2., 1000)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        low, _, up = ContourAccountant(run).epsilon(1e-12)
        far = ContourAccountant(run).epsilon(1e-100)
    assert 0 < low <= up < epsilon(bins(2., 100), delta=1e-12)
    assert up < far.upper < np.inf

@pytest.mark.parametrize('wrong, what', [
    (dict(batches=0), 'batches'), (dict(batches=2.5), 'batches'),
    (dict(batches=10, draws=0), 'draws'),
    (dict(batches=10, draws=11), 'draws must be in')])
def test_wrong_numbers(wrong, what):
    with pytest.raises((ValueError, TypeError), match=what):
        BallsInBins(NOISE, **wrong)

def test_wrong_noise():
    from dp_saddle import Laplace
    with pytest.raises(TypeError, match='base must be a Gaussian'):
        BallsInBins(Laplace(scale=1.), batches=10)
    with pytest.raises(TypeError, match='base must be a Gaussian'):
        BallsInBins(PoissonSubsampled(NOISE, rate=.1), batches=10)
    with pytest.raises(ValueError, match='at least 0.15'):
        bins(.1, 10)
    with pytest.raises(ValueError, match='batches'):
        bins(100., 10**5)
    with pytest.raises(ValueError, match='the order must be in'):
        bin_moments(1., 10).family(100.)

def test_not_served():
    loss = BinsLoss(bin_moments(1., 100), 'remove')
    for ask in (lambda: loss.cdf(0.), lambda: loss.abs_moment(), lambda: loss.log_delta_to(1., 1),
                lambda: loss.log_delta(np.array([50.])), lambda: TiltedFFT(2*bins(1., 100))):
        with pytest.raises(ValueError, match='use ContourAccountant'):
            ask().epsilon(1e-5)

def test_gamma_and_powers():
    from scipy.special import loggamma
    z = 16 + np.array([0, 1j, 30j, 1e4j])
    found, wanted = log_gamma(z), loggamma(z)
    assert (np.abs(found - wanted) < 4e-16*(np.abs(z)*(np.abs(np.log(z)) + 2) + 9)).all()
    rng = np.random.default_rng(0)
    for T in (0, 1, 2, 7, 40):
        a = np.r_[1., rng.random(6)]
        slow = np.r_[1., np.zeros(6)]
        for _ in range(T):
            slow = np.convolve(slow, a)[:7]
        assert power_series(a, T) == pytest.approx(slow, rel=1e-12, abs=1e-12)

def test_whole_moments():
    "E S^2 and E S^3 by hand, for few and many bins."
    for sigma, T in ((.5, 2), (1., 10), (3., 1000)):
        q = np.exp(1/sigma**2)
        logs = BinMean(sigma, T).log_whole
        assert np.exp(logs[:4]) == pytest.approx(
            [1, 1, 1 + (q - 1)/T, (q**3 + 3*(T - 1)*q + (T - 1)*(T - 2))/T**2], rel=1e-12)

@pytest.mark.parametrize('sigma, T, order', [
    (1., 200, 31), (1.5, 10, 46), (1.8, 10, 56), (1.9, 10**5, 59), (2., 200, 61), (100., 10, 61)])
def test_moments_whose_parts_are_no_doubles(sigma, T, order):
    "By exact sums: E Y^77 and the density of Gaussians it comes from leave doubles."
    with mp.workdps(40):
        power = [mp.exp(mp.mpf(j*(j - 1))/(2*mp.mpf(sigma)**2))/mp.factorial(j)/mp.mpf(T)**j
                 for j in range(order + 1)]
        d = [mp.mpf(1)]
        for n in range(1, order + 1):
            d.append(mp.fsum((mp.mpf(T + 1)*j/n - 1)*power[j]*d[n - j] for j in range(1, n + 1)))
        truth = mp.log(d[order]*mp.factorial(order))
    moment = bin_moments(sigma, T).alone(float(order)).moment(float(order))
    off = abs(float(mp.mpf(moment.log) - truth))
    assert off <= moment.error < 1e-10

@pytest.mark.slow
def test_prefixes():
    "After each epoch."
    eps = epsilon_after(3*bins(1., 100), delta=1e-5)
    assert len(np.ravel(eps)) >= 1

def put_in_digits(sigma, T, eps):
    """E(S - e^eps)_+ = 1 - e^eps + E(e^eps - S)_+ by the Laplace transform of S, in 120 digits:
    nothing of the library. Sums with even steps, of Gaussians and of frequencies."""
    import flint
    old, flint.ctx.prec = flint.ctx.prec, 400
    try:
        arb, acb = flint.arb, flint.acb
        h, b = arb(1)/12, 1/arb(sigma)
        g = [h*k for k in range(-200, 215)]
        y = [(b*x - b*b/2).exp()/T for x in g]
        w = [(-x*x/2).exp()*h/(2*arb.pi()).sqrt() for x in g]
        K, std = arb(eps).exp(), (np.expm1(sigma**-2)/T)**.5
        c, X = arb(8/std), K*6/5                      # e^{-c X} is below 1e-100, and X above K
        total = arb(0)
        for j in range(10**4):
            u = acb(c, 2*arb.pi()*j/X)
            M = sum((p*(u/T - u*x).exp() for p, x in zip(w, y, strict=True)), acb(0))**T
            f = ((u*(K - 1)).exp()*M/u**2).real
            total += f if j else f/2
            if abs(float(f)) < 1e-40: break
        return float(1 - K + 2*total/X)
    finally:
        flint.ctx.prec = old

@pytest.mark.parametrize('sigma, T, eps', [
    (2., 300, .19), (5., 1000, .0383), (20., 10, .0973), (100., 10, .0186), (170., 12, .0098)])
def test_tiny_delta_removing(sigma, T, eps):
    "Near 1e-12, where doubles leave nothing of 1 - K + E(K - S)_+."
    truth = put_in_digits(sigma, T, eps)
    loss = bins(sigma, T).remove
    low, _, up = ContourAccountant(loss).delta(eps)
    assert 1e-14 < truth < 1e-10
    assert low*(1 - 1e-12) <= truth <= up*(1 + 1e-12) and up < low*(1 + 1e-7)
    least, _, most = CgfTable(ComposedLoss([(loss, 1)])).log_delta(np.array([eps]))[:, 0]
    assert least <= np.log(truth) <= most

def central_moments(sigma, T, count):
    "E (S - 1)^n exactly, as closed forms of one bin and the power of a series."
    def one(n):
        return mp.fsum(mp.binomial(n, j)*(-1)**(n - j)*mp.exp(mp.mpf(j*(j - 1))/(2*sigma**2))
                       for j in range(n + 1))/mp.factorial(n)/mp.mpf(T)**n
    a = [one(n) for n in range(count)]
    power = [mp.mpf(1)] + [mp.mpf(0)]*(count - 1)
    for _ in range(T):
        power = [mp.fsum(power[i]*a[n - i] for i in range(n + 1)) for n in range(count)]
    return [v*mp.factorial(n) for n, v in enumerate(power)]

@pytest.mark.parametrize('sigma, T, order, s', [
    (100, 10, 61, 700), (100, 10, 61, 1500), (170, 12, 21, 2000), (300, 20, 2, 4000)])
def test_moments_of_few_bins_under_much_noise(sigma, T, order, s):
    "By the series of S^z in S - 1; at large |u| what matters is far below the largest."
    with mp.workdps(160):
        moments = central_moments(sigma, T, int(60 + 45*s/sigma/T**.5))
        def of(z): return mp.fsum(mp.binomial(z, n)*c for n, c in enumerate(moments))
        truth = complex(of(mp.mpc(order, s))/of(mp.mpf(order)))
    loss = bins(float(sigma), T).remove
    values = loss.line(order - 1., np.array([0., s]))
    found = np.exp(values.change[1])
    assert abs(found - truth) <= np.expm1(values.log_error[1])*abs(found) < 1e-8
    assert 1e-9 < abs(truth) < .9

@pytest.mark.parametrize('T, r', [(10, 110.), (10, .01), (2, 7500.), (70, 3.)])
def test_no_product_underflows(T, r):
    "Poisson chances of one bin's rate r, and of bins that now and then have many: as exact sums."
    k = 77
    with mp.workdps(50):
        exact = [mp.mpf(r)**j/mp.factorial(j)*(1 + mp.exp(j*j/20 - 100)) for j in range(k + 2)]
        power = [mp.mpf(1)] + [mp.mpf(0)]*k
        for _ in range(T):
            power = [mp.fsum(power[i]*exact[n - i] for i in range(n + 1)) for n in range(k + 1)]
        truth = float(mp.log(power[k]))
    a = np.array([[float(v)] for v in exact])
    log_c, a, _, m, _ = in_units(a, a, np.zeros(k + 2), T)
    found = np.log(last_of_power(a[:k+1], T)) + T*log_c - k*m*np.log(2)
    assert found == pytest.approx(truth, rel=1e-13) and a.max() <= 1

def test_a_moment_that_is_all_error(monkeypatch):
    "It is unknown, and no bound comes of it: errors of more than the value itself are infinite."
    monkeypatch.setattr(Counts, '_on_ray', lambda self, j, moment, s: (s + 1., s + 1e200))
    family = BinMoments(1., 10).family(2.)
    assert family.moment(2.).error == np.inf

@pytest.mark.parametrize('sigma, T, d, epochs', [
    (20., 10, 1e-100, 3), (20., 10, 1e-100, 1), (170., 10, 1e-12, 3)])
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_never_more_than_in_one_batch(sigma, T, d, epochs):
    "A mean has a smaller curve than one of its parts: a bound that is wide falls back on that."
    bounds = ContourAccountant(epochs*bins(sigma, T)).epsilon(d)
    single = ContourAccountant(epochs*Gaussian(sigma=sigma)).epsilon(d)
    assert 0 < bounds.lower <= bounds.upper <= single.upper*(1 + 1e-12)
    at = ContourAccountant(epochs*bins(sigma, T)).delta(single.upper)
    assert at.lower <= at.upper <= d*(1 + 1e-6)

def check_against_moments(count, seed):
    "The sum's lines and the moments' line are two proofs: their intervals meet."
    rng, met = np.random.default_rng(seed), 0
    for _ in range(count):
        sigma = np.exp(rng.uniform(np.log(.6), np.log(5)))
        T = int(np.exp(rng.uniform(np.log(180), np.log(3000))))
        direction = rng.choice(['remove', 'add'])
        epoch, sign = epoch_of(sigma, T), 1 if direction == 'remove' else -1
        eps = epoch.first_eps(np.log(10.)*rng.uniform(-12, -2), sign)
        option = epoch.option(eps, sign)
        if option is None: continue
        low, mid, up = option.log_bounds(np.array([eps]))[:, 0]
        assert low <= mid <= up <= 0
        table = CgfTable(ComposedLoss([(BinsLoss(bin_moments(sigma, T), direction), 1)]))
        least, _, most = table.log_delta(np.array([eps]))[:, 0]
        assert low <= most and least <= up, (sigma, T, direction, eps)
        met += up < low + 1e-6
    assert met > .7*count

def test_against_moments(): check_against_moments(5, 3)

@pytest.mark.slow
def test_against_moments_often(): check_against_moments(200, 4)

@pytest.mark.parametrize('sigma, T', [
    (1., 10), (5., 12), (2., 25), (.7, 40), (.4, 1000), (.3, 10**4)])
@pytest.mark.parametrize('log_delta', [-7., -25.])
def test_few_bins_and_little_noise_adding(sigma, T, log_delta):
    "There E e^{zy} is small itself; the line of moments is another proof, of the quick bound, too."
    epoch = epoch_of(sigma, T)
    eps = epoch.first_eps(log_delta, -1)
    option = epoch.option(eps, -1)
    low, mid, up = option.log_bounds(np.array([eps]))[:, 0]
    assert up - low < 1e-8 and abs(mid - log_delta) < 1
    table = CgfTable(ComposedLoss([(BinsLoss(bin_moments(sigma, T), 'add'), 1)]))
    least, _, most = table.log_delta(np.array([eps]))[:, 0]
    assert low <= most and least <= up
    assert low < epoch.log_put_most(eps)

@pytest.mark.parametrize('sigma, T', [(1., 1000), (2., 100), (5., 10**4), (1., 10**5)])
def test_width_at_tiny_delta(sigma, T):
    "One epoch below 1e-8, where one line of moments is 1e-7 to 7e-3 wide."
    for d in (1e-3, 1e-9, 1e-12):
        for loss in (bins(sigma, T).remove, bins(sigma, T).add):
            assert ContourAccountant(loss).epsilon(d).width < 1e-8

def test_own_lines_are_asked_first():
    run = bins(1., 1000).remove
    assert SingleStepTable.fit(ComposedLoss([(run, 1)]))
    assert not SingleStepTable.fit(ComposedLoss([(run, 2)]))
    accountant = ContourAccountant(run)
    one = accountant.delta([.1, .2, .4])
    apart = [ContourAccountant(run).delta(e) for e in (.1, .2, .4)]
    for k, other in enumerate(apart):
        assert one.lower[k] <= other.upper and other.lower <= one.upper[k]
    for sigma, T in ((.3, 10), (1., 5), (.5, 9)):
        assert epoch_of(sigma, T).option(.1, -1) is None
    # where neither a folded line is narrow nor one of its own short, the moments serve
    assert epoch_of(1., 2).option(.01, 1) is None
    assert ContourAccountant(bins(1., 2).remove).delta(.01).width < 1e-8

@pytest.mark.parametrize('build', [
    lambda: BallsInBins(Gaussian(sigma=1.), batches=997),
    lambda: DiscreteGaussian(sigma=800),
])
def test_whole_numbers_of_32_bits(build, monkeypatch):
    "Nothing overflows where numpy's whole numbers have 32 bits: in browsers, once on Windows."
    real, wide = np.arange, ContourAccountant(build()).epsilon(1e-12)
    def narrow(*a, **k):
        made = real(*a, **k)
        return made.astype(np.int32) if made.dtype == np.int64 and 'dtype' not in k else made
    for module in [m for name, m in sys.modules.items() if name.startswith('dp_saddle')]:
        for kept in [v for v in vars(module).values() if hasattr(v, 'cache_clear')]:
            kept.cache_clear()
    monkeypatch.setattr(np, 'arange', narrow)
    again = ContourAccountant(build()).epsilon(1e-12)
    assert max(again.lower, wide.lower) <= min(again.upper, wide.upper)
    assert abs(again.estimate - wide.estimate) < 1e-9*wide.estimate

@pytest.mark.parametrize('eps', [699., 701., 1e4, 1e300])
def test_eps_of_which_e_to_the_power_is_no_double(eps):
    for direction in ('remove', 'add'):
        low, _, up = ContourAccountant(getattr(BallsInBins(Gaussian(sigma=1.), batches=10),
                                               direction)).delta(eps)
        assert low == 0 <= up < 1e-200

def log_put_in_digits(sigma, T, eps):
    """log E(1 - e^eps S)_+ by the Laplace transform of S where terms are least, about, in 80
    digits: nothing of the library, and no doubles."""
    import flint
    old, flint.ctx.prec = flint.ctx.prec, 270
    try:
        arb, acb = flint.arb, flint.acb
        h, b, K = arb(1)/24, 1/arb(sigma), (-arb(eps)).exp()
        g = [h*k for k in range(-20*24, 16*24)]
        y = [(b*x - b*b/2).exp()/T for x in g]
        w = [(-x*x/2).exp()*h/(2*arb.pi()).sqrt() for x in g]
        c = arb(36*np.exp(eps)*(np.expm1(sigma**-2)/T)**-.5)
        X = K + 80/c                              # what lies whole periods away is below e^-80
        total = first = arb(0)
        for j in range(10**4):
            u = acb(c, 2*arb.pi()*j/X)
            M = sum((p*(-u*x).exp() for p, x in zip(w, y, strict=True)), acb(0))**T
            f = ((u*K).exp()*M/u**2).real
            if not j: first, f = f, f/2
            total += f
            if abs(float(f/first)) < 1e-24: break
        return float((2*total/X).log()) + eps
    finally:
        flint.ctx.prec = old

@pytest.mark.parametrize('sigma, T, eps', [
    (2., 1000, .59), (2., 1000, .6317030089016713), (2., 1000, .6556713022558908),
    (3., 300, .8)])
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_adding_where_delta_is_no_double(sigma, T, eps):
    "What underflows is counted: neither 0, nor a few denormal bits, is what is proved."
    truth = log_put_in_digits(sigma, T, eps)
    loss = bins(sigma, T).add
    option = epoch_of(sigma, T).option(eps, -1)
    low, _, up = option.log_bounds(np.array([eps]))[:, 0]
    assert low <= truth <= up < np.log(1e-300) or truth > np.log(1e-300)
    low, _, up = ContourAccountant(loss).delta(eps)
    assert low*(1 - 1e-12) <= np.exp(truth) <= up*(1 + 1e-12) and up > 0

@pytest.mark.parametrize('sigma, T, d', [(.8618736492040329, 59, 1e-48), (.82, 41, 1e-200)])
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_no_tilt_is_a_double(sigma, T, d):
    "Removing, where e^{vS} has no mean below the cut in doubles: moments serve, not a ValueError."
    low, _, up = ContourAccountant(bins(sigma, T)).epsilon(d)
    single = ContourAccountant(Gaussian(sigma=sigma)).epsilon(d)
    assert 0 <= low <= up <= single.upper*(1 + 1e-12)

@pytest.mark.parametrize('sigma, T', [(30., 100), (100., 10), (200., 50), (5., 10)])
def test_bounds_on_means_far_below_one(sigma, T):
    "log E e^{vS}, v < 0, where that of one bin is too small for 1 less something: no nan."
    epoch = epoch_of(sigma, T)
    v = -np.geomspace(.3, 20, 12)/epoch.std
    at = epoch.nodes(epoch.edges(-13., 9., -v[-1]))
    g = np.arange(-16, 14, .01)
    logs = np.multiply.outer(v, epoch.part(g)) - g*g/2 + np.log(.01/np.sqrt(2*np.pi))
    truth = T*np.logaddexp.reduce(logs, axis=1)
    assert (epoch.log_mean(at, v) >= truth - 1e-9*np.abs(truth)).all()

def conv(*laws):
    "The law of a sum of independent numbers, by enumeration."
    out = np.ones(1)
    for law in laws: out = np.convolve(out, law)
    return out

@pytest.mark.parametrize('T, k', [(2, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize('direction', ['remove', 'add'])
def test_a_sum_of_cells(T, k, direction):
    "Means of a test, by all sums of cells whose chances come from quadrature over each."
    b, z, most = 1/.8, .7, (60, 10)
    test, c = sum_test(b, T, k, z, direction, most)
    u = np.log1p(z*np.exp(b*(x := np.linspace(-13, 15, 2_000_001)) - b*b/2))
    first, last = np.log1p(z*np.exp(b*np.array([-9, 9 + b]) - b*b/2))
    law = np.exp(-(g := np.linspace(-9, 9 + b, 400))**2/2)
    law /= law.sum()
    v = np.log1p(z*np.exp(b*g - b*b/2))
    mesh = max(np.sqrt(law @ v**2 - (law @ v)**2)/10, (last - first)/60)
    cell = np.maximum(np.floor((u - first)/mesh), 0).astype(int)
    cell = np.minimum(cell, len(np.arange(first + mesh, last, mesh)))
    q, p = (np.bincount(cell, np.exp(-(x - m)**2/2)) for m in (0, b))
    q, p = q/q.sum(), p/p.sum()
    if direction == 'add': q, p = q[::-1], p[::-1]
    top, other = conv(*[p]*k, *[q]*(T - k)), conv(*[q]*T)
    if direction == 'add': top, other = other, top
    c = c[(c < len(top) - 1) & (c > 0)][::6]
    low, up = test(c)
    gains = np.maximum(-np.expm1(c[:, None] - np.arange(len(top))), 0)
    assert len(c) > 5
    assert low == pytest.approx(gains @ top, rel=1e-3, abs=1e-9)
    assert up == pytest.approx(gains @ other, rel=1e-3, abs=1e-9)

@pytest.mark.parametrize('sigma, eps', [(1., .5), (.6, 3.), (4., .1)])
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_two_of_three(sigma, eps):
    "By a sum over a grid of three Gaussians; removing and adding, whichever is larger."
    x = np.arange(-7.5, 8 + 2/sigma, .15)
    w, Y = np.exp(-x*x/2)*.15/np.sqrt(2*np.pi), np.exp(x/sigma - 1/(2*sigma**2))
    S = (Y[:, None, None]*(Y[:, None] + Y) + Y[:, None]*Y)/3
    gains = np.maximum(S - np.exp(eps), 0), np.maximum(1 - np.exp(eps)*S, 0)
    truth = max(w @ (w @ (w @ gain)) for gain in gains)
    run = bins(sigma, 3, draws=2)
    low = run.delta_at_least(eps)
    assert .95*truth < low < truth*(1 + 1e-3)
    assert low < ContourAccountant(run).delta(eps).upper

def test_several_draws_played():
    "Three of twenty batches in two epochs: below the mean and five std of it."
    rng, sigma, eps, draws = np.random.default_rng(8), 1.5, .8, 100_000
    S = np.ones(draws)
    for _ in range(2):
        e = [np.ones(draws), *np.zeros((3, draws))]
        for _ in range(20):
            Y = np.exp(rng.standard_normal(draws)/sigma - 1/(2*sigma**2))
            e = [e[0], *(e[j] + Y*e[j - 1] for j in (1, 2, 3))]
        S *= e[3]/1140                                  # 20 over 3
    gain = np.maximum(S - np.exp(eps), 0)
    low, doubt = bins(sigma, 20, draws=3).delta_at_least(eps, 2), 5*gain.std()/draws**.5
    assert .9*gain.mean() - doubt < low < gain.mean() + doubt

@pytest.mark.parametrize('T, k, eps, sigma, least', [
    (391, 5, 8, .6, 1.98e-8), (2000, 655, 3, 20.5, 8.775e-6),
    pytest.param(391, 5, 8, .5, 4.77e-5, marks=pytest.mark.slow),
    pytest.param(1000, 10, 2, 1., 5.8e-7, marks=pytest.mark.slow),
    pytest.param(10_000, 205, 8, 1.36, 2.37e-5, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_several_draws_from_below(T, k, eps, sigma, least):
    run = bins(sigma, T, draws=k)
    low = run.delta_at_least(eps)
    assert least < low < 1.03*least
    assert low < ContourAccountant(run).delta(eps).upper

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_at_least():
    run = bins(.7, 9, draws=2)
    eps = run.at_least(1e-6)
    assert 1e-6*(1 - 1e-9) < run.delta_at_least(eps) < 1.01e-6
    assert .9*epsilon(run, delta=1e-6) < eps < epsilon(run, delta=1e-6)
    assert 2*eps > run.at_least(1e-6, 2) > 1.2*eps and run.at_least(.999) == 0
    assert bins(.2, 3, draws=2).at_least(1e-5) > 53         # e^-25 is the best z
    assert run.at_least(0) == np.inf and bins(2., 10**9, draws=10**6).at_least(1e-5) == 0
    for one in (bins(1., 5), bins(1., 5, draws=5)):
        for n in (1, 2):
            assert one.at_least(1e-4, n) == ContourAccountant(n*one).epsilon(1e-4).lower
            assert one.delta_at_least(1., n) == ContourAccountant(n*one).delta(1.).lower

@pytest.mark.parametrize('name, asked', [
    ('delta', lambda run: run.at_least(1.)), ('delta', lambda run: run.at_least(-.1)),
    ('epochs', lambda run: run.at_least(.1, 0)), ('epochs', lambda run: run.delta_at_least(1., -1)),
    ('eps', lambda run: run.delta_at_least(-1.))])
def test_at_least_refuses(name, asked):
    for run in (bins(1., 5), bins(1., 5, draws=2)):
        with pytest.raises(ValueError, match=f'^{name} must be'): asked(run)
