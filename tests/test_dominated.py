"""Steps whose law dominates the true one: no lower bound is above what is proved from above, by any
way; whoever asks is told."""
import json
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

import dp_saddle
from dp_saddle import (
    AdditiveNoise,
    BallsInBins,
    ContourAccountant,
    FixedSize,
    Gaussian,
    Laplace,
    PoissonReplaceOne,
    PoissonSubsampled,
    TiltedFFT,
    TruncatedPoisson,
    certify,
    epsilon,
    epsilon_slopes,
    fixed_size,
    group,
    report,
    tradeoff,
)
from dp_saddle.accounting import ACCOUNTANTS
from dp_saddle.sampling.bins import BinDraw

pytestmark = pytest.mark.filterwarnings('ignore:the bounds hold')

def normal(x): return mpmath.ncdf(x)

def replaced(eps, sigma, batch_size, dataset_size):
    "What Balle et al. (2018, Theorem 9) prove of one replaced record, in 40 digits."
    with mpmath.workdps(40):
        q, mu = mpmath.mpf(batch_size)/dataset_size, 2/mpmath.mpf(sigma)
        e = mpmath.log1p(mpmath.expm1(eps)/q)
        return q*(normal(mu/2 - e/mu) - mpmath.exp(e)*normal(-mu/2 - e/mu))

SIZES = [(2., 50, 100, 1.), (2., 10, 100, .1), (1., 1, 10, .5), (8., 100, 1000, .05),
         (1., 30, 1000, 2.)]

@cache
def sized(sigma, batch_size, dataset_size):
    return fixed_size(sigma=sigma, batch_size=batch_size, dataset_size=dataset_size,
                      relation='replace-one')

def lower_bounds(run, eps):
    "Of all accountants that serve it."
    for name in ACCOUNTANTS:
        try:
            yield getattr(dp_saddle, name)(run).delta(eps).lower
        except ValueError: pass

@pytest.mark.parametrize('sigma, m, n, eps', SIZES)
def test_no_lower_bound_of_a_replaced_record_is_above_the_formula(sigma, m, n, eps):
    "And the best come near from below, for of one step all is known."
    step, most = sized(sigma, m, n), float(replaced(eps, sigma, m, n))*(1 + 1e-12)
    for method in (ContourAccountant, TiltedFFT):
        bounds = method(step).delta(eps)
        assert most*.99 < bounds.lower <= most <= bounds.upper*(1 + 2e-12)
        back = method(step).epsilon(most)
        assert back.lower <= eps*(1 + 1e-9) and eps <= back.upper*(1 + 1e-9)

def test_of_no_accountant_either():
    (sigma, m, n, eps), *_ = SIZES
    found = list(lower_bounds(sized(sigma, m, n), eps))
    assert len(found) >= 8 and max(found) <= float(replaced(eps, sigma, m, n))*(1 + 1e-12)

def test_whoever_asks_is_told():
    "Reports say both ends; slopes and trade-offs are those of the upper bound."
    step = 20*sized(2., 10, 100)
    bounds = ContourAccountant(step).epsilon(1e-4)
    assert bounds.lower < .999*bounds.upper
    facts = json.loads(report(step, delta=1e-4, form='json'))
    assert facts['certified interval'][0] <= bounds.upper*.999
    known = 20*PoissonSubsampled(Gaussian(sigma=2., sensitivity=2.), rate=.1)
    assert tradeoff(step, fpr=.1) < tradeoff(known, fpr=.1)

def test_slopes_are_of_what_is_proved():
    step = 20*TruncatedPoisson(sigma=2., rate=.3, dataset_size=20, max_batch_size=5)
    slopes = epsilon_slopes(step, delta=1e-4)
    def at(delta): return epsilon(step, delta=delta)
    assert slopes.epsilon == pytest.approx(at(1e-4), rel=1e-9)
    assert slopes.delta == pytest.approx((at(1.01e-4) - at(.99e-4))/2e-6, rel=1e-3)

def integral(f, low, high):
    "By Gauss's rule on panels of a quarter."
    x, w = np.polynomial.legendre.leggauss(20)
    middles = np.arange(low, high, .25)[:, None] + .125
    return float((f(middles + x/8) @ w).sum()/8)

def normals(x, *pairs):
    return sum(w*np.exp(-(x - c)**2/2)/np.sqrt(2*np.pi) for c, w in pairs)

def exactly_cut(eps, sigma, p):
    """Of two records, samples cut to one: with it N(0), N(-1), N(1) of weights (1-p)^2, and twice
    p(1-p) + p^2/2; without it N(0) and N(-1), of 1-p and p. By *the worst shifts* no two vectors
    are worse, for eps >= 0."""
    some, d = p*(1 - p) + p*p/2, 1/sigma
    def more(x):
        there = normals(x, (0, (1 - p)**2), (-d, some), (d, some))
        return np.maximum(there - np.exp(eps)*normals(x, (0, 1 - p), (-d, p)), 0)
    return integral(more, -12, 14)

@pytest.mark.parametrize('sigma, p, eps', [(1., .5, .3), (.7, .3, 1.), (2., .9, .1)])
def test_no_lower_bound_of_a_sample_that_is_cut_is_above_the_truth(sigma, p, eps):
    step = TruncatedPoisson(sigma=sigma, rate=p, dataset_size=2, max_batch_size=1)
    most = exactly_cut(eps, sigma, p)*(1 + 1e-4)
    bounds = ContourAccountant(step.remove).delta(eps)
    assert .3*most < bounds.lower <= most < bounds.upper
    assert TiltedFFT(step.remove).delta(eps).lower <= most
    assert certify(step, eps=eps).answer['lower'] == '0'

@pytest.mark.filterwarnings('ignore:verify will take')
def test_draws_that_are_left_out_count_from_above_only():
    "Fifty draws with replacement of a thousand, at an eps that next to no draws have."
    step = fixed_size(sigma=1., batch_size=50, dataset_size=1000, relation='add-remove',
                      replacement=True)
    l = np.arange(51)
    chances = [math.comb(50, k)*999.**(50 - k)/1000.**50 for k in l.tolist()]
    def more(x):
        log_ratio = logsumexp(2*l*x[..., None] - 2*l*l, axis=-1, b=chances)
        density = np.exp(log_ratio - x*x/2)/np.sqrt(2*np.pi)
        return density*-np.expm1(np.minimum(eps - log_ratio, 0))
    eps = 400.
    most = integral(more, 5, 120)
    bounds = ContourAccountant(step).delta(eps)
    assert 0 < bounds.lower <= most < 1e-30 and bounds.upper > 1e-24
    assert certify(step, eps=1.).answer['lower'] == '0'

class Bell:
    "The log-density of logistic noise."
    def __call__(self, x): return -np.abs(x) - 2*np.log1p(np.exp(-np.abs(x)))

USUAL = {
    'gaussian': Gaussian(sigma=2.), 'sampled': PoissonSubsampled(Gaussian(sigma=2.), rate=.1),
    'laplace': Laplace(scale=2.), 'an epoch of bins': BallsInBins(Gaussian(sigma=2.), batches=5),
    'never cut': TruncatedPoisson(sigma=1., rate=.1, dataset_size=5, max_batch_size=5),
    'all of them': fixed_size(sigma=2., batch_size=9, dataset_size=9, relation='replace-one')}
DOMINATING = {
    'of one size': FixedSize(sigma=2., batch_size=5, dataset_size=50),
    'drawn again': FixedSize(sigma=3., batch_size=5, dataset_size=50, replacement=True),
    'rare draws': fixed_size(sigma=1., batch_size=50, dataset_size=1000, relation='add-remove',
                             replacement=True),
    'cut': TruncatedPoisson(sigma=1., rate=.1, dataset_size=100, max_batch_size=12),
    'replaced in a sample': PoissonReplaceOne(sigma=2., rate=.1),
    'one bin': BinDraw(sigma=2., bins=1), 'bins': BinDraw(sigma=2., bins=4),
    'several draws': BallsInBins(Gaussian(sigma=2.), batches=4, draws=3),
    "a user's records in bins": group(BallsInBins(Gaussian(sigma=2.), batches=5), 2),
    'noise between values': AdditiveNoise(log_density=Bell(), sensitivity=.5, slope=1.,
                                          log_concave=True, even=True)}

@pytest.mark.parametrize('name', [*USUAL, *DOMINATING])
def test_what_only_dominates_says_so(name):
    "In both directions, exchanged, composed with others of any kind, and with itself."
    step = (USUAL | DOMINATING)[name]
    for way in ('remove', 'add'):
        plain = getattr(step, way)
        both = getattr(2*step + Gaussian(sigma=3.) + Laplace(scale=3.), way)
        for loss in (plain, plain.reverse, plain.reverse.reverse, both, both.reverse):
            assert (loss.dominated is None) == (name in USUAL)

def test_nothing_is_known_from_below_of_several_draws():
    "Nor of one whose loss is a Gaussian's, beside others."
    for run in (BinDraw(sigma=2., bins=1), 3*BinDraw(sigma=2., bins=1),
                BallsInBins(Gaussian(sigma=2.), batches=4, draws=3)):
        assert ContourAccountant(run).delta(.2).lower == 0
    more = BinDraw(sigma=2., bins=1) + Gaussian(sigma=3.)
    alone = ContourAccountant(Gaussian(sigma=3.)).delta(.2)
    bounds = ContourAccountant(more).delta(.2)
    assert alone.lower*(1 - 1e-9) <= bounds.lower <= alone.upper < bounds.upper
