"practice/audits: what an audit proves, and what it must not."
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import comb
from scipy.stats import binom

from dp_saddle import Gaussian, PoissonSubsampled, PureDP, audit, epsilon, tradeoff
from dp_saddle.practice.audits import one_run_tail, rate_bound

RELEASE = Gaussian(sigma=1.)
METHODS = 'threshold', 'curve', 'gdp', 'one-run'

def scores(n, seed=0, sigma=1.):
    rng = np.random.default_rng(seed)
    return rng.normal(1/sigma, 1, n), rng.normal(0, 1, n)

def test_the_upper_bound_is_the_front_doors():
    said = audit(RELEASE, *scores(50), delta=1e-6)
    assert said.eps_upper == epsilon(RELEASE, delta=1e-6) and said.sizes == (50, 50)
    assert said.passed and 'consistent' in repr(said)

@pytest.mark.parametrize('method', METHODS)
def test_no_attack_proves_nothing(method):
    "Scores that are all the same, and scores that are the wrong way round for a single run."
    same = np.zeros(200), np.zeros(200)
    assert audit(RELEASE, *same, delta=1e-5, method=method).eps_lower <= .2
    assert audit(RELEASE, np.zeros(200), np.ones(200), delta=1e-5, method='one-run').eps_lower == 0

@pytest.mark.parametrize('method', METHODS)
def test_scores_that_tell_all_contradict(method):
    told = np.ones(500), np.zeros(500)
    said = audit(PureDP(eps=.5), *told, delta=1e-5, method=method)
    assert not said.passed and said.eps_lower > 2 and 'CONTRADICTED' in repr(said)

def test_more_confidence_proves_less():
    found = [audit(RELEASE, *scores(500), delta=1e-5, confidence=c, threshold=.5).eps_lower
             for c in (.5, .9, .99, .9999)]
    assert found == sorted(found, reverse=True) and found[0] > found[-1]

@pytest.mark.parametrize('n, p', [(5, .2), (30, .5), (30, .97)])
def test_rates_are_covered(n, p):
    k = np.arange(n + 1)
    assert binom.pmf(k, n, p)[rate_bound(k, n, .1) > p].sum() <= .1

def test_one_run_against_randomised_response():
    "Each coin answered truthfully with odds e^eps: right answers are binomial."
    eps, m = 1.2, 40
    p = np.exp(eps)/(1 + np.exp(eps))
    for right in (0, 20, 35, 40):
        exact = binom.sf(right - 1, m, p)
        assert exact <= one_run_tail(eps, 0., m, m, right) <= exact*(1 + 1e-8) + 1e-300
    assert one_run_tail(eps, .01, m, m, 38) > one_run_tail(eps, 0., m, m, 38)
    tails = [one_run_tail(e, 1e-5, 100, 50, 45) for e in (0., .5, 1., 2.)]
    assert tails == sorted(tails)

# One run at delta > 0: the exact worst case

def worst(eps, delta, m, r, v):
    """The largest P(W >= v) over all mechanisms that answer with r guesses of m coins, without the
    symmetry of the chapter: a linear program in the probability of each answer to each input."""
    answers = [y for y in np.ndindex(*[3]*m) if np.count_nonzero(y) == r]     # 0 no guess, 1, 2
    inputs = list(np.ndindex(*[2]*m))
    size, pairs = len(answers), [(s, t) for s in range(2**m) for t in range(2**m)
                                 if sum(a != b for a, b in zip(inputs[s], inputs[t])) == 1]
    rows, limits, n = [], [], 2**m*size
    whole = n + len(pairs)*size
    for k, (s, t) in enumerate(pairs):
        spent = np.zeros(whole)
        for y in range(size):
            row, slack = np.zeros(whole), n + k*size + y
            row[s*size + y], row[t*size + y], row[slack] = 1, -np.exp(eps), -1
            spent[slack] = 1
            rows.append(row)
            limits.append(0)
        rows.append(spent)
        limits.append(delta)
    sums = np.zeros((2**m, whole))
    aim = np.zeros(whole)
    for s in range(2**m):
        sums[s, s*size:(s + 1)*size] = 1
        for y, answer in enumerate(answers):
            aim[s*size + y] = -(sum(a == b + 1 for a, b in zip(answer, inputs[s])) >= v)/2**m
    return -linprog(aim, np.array(rows), limits, sums, np.ones(2**m)).fun

@pytest.mark.parametrize('m, r, v', [(1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2),
                                     (3, 3, 2), (3, 3, 3)])
@pytest.mark.parametrize('eps, delta', [(0., .01), (1., .02), (2., .003)])
def test_no_mechanism_passes_the_theorem_and_one_meets_it(m, r, v, eps, delta):
    assert worst(eps, delta, m, r, v) == pytest.approx(one_run_tail(eps, delta, m, r, v), rel=1e-6)

def symmetric_run(eps, delta, m, r, v):
    "The run of the theorem's last line: f grows by e^eps, and at v by more. P(W = k)."
    f, more = np.array([np.exp(k*eps) for k in range(r + 1)]), np.zeros(r + 1)
    more[v:] = np.exp(eps*np.arange(r + 1 - v))
    more *= delta*m/r/comb(r - 1, v - 1)
    ways = comb(r, np.arange(r + 1))
    first = (1 - ways @ more)/(ways @ f)
    assert first >= 0
    return first*f + more, ways

@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.floats(0, 3),
       st.floats(1e-8, 1e-3))
def test_a_run_that_meets_it(m, r, v, eps, share):
    "It is (eps, delta)-DP in both directions, by addition, and its tail is the theorem's."
    r, v = min(r, m), min(v, r, m)
    law = binom(r, 1/(1 + np.exp(-eps)))
    delta = share*min(v*law.pmf(v)/m, 1.)
    f, ways = symmetric_run(eps, delta, m, r, v)
    assert ways @ f == pytest.approx(1)
    rest = comb(r - 1, np.arange(r))
    # outputs where the coin is guessed, rightly and wrongly, against the coin turned
    spent = rest @ np.maximum(f[1:] - np.exp(eps)*f[:-1], 0)
    spent += rest @ np.maximum(f[:-1] - np.exp(eps)*f[1:], 0)
    assert r/m*spent <= delta*(1 + 1e-4) + 1e-13
    tail = (ways*f)[v:].sum()
    assert tail == pytest.approx(one_run_tail(eps, delta, m, r, v), rel=1e-7)

@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.floats(0, 4),
       st.floats(1e-9, .5), st.integers(0, 2**32 - 1))
def test_no_symmetric_run_passes_it(m, r, v, eps, delta, seed):
    "Random runs, each charged the delta that it has."
    r, v = min(r, m), min(v, r, m)
    rng = np.random.default_rng(seed)
    ways, rest = comb(r, np.arange(r + 1)), comb(r - 1, np.arange(r))
    f = np.exp(np.cumsum(rng.normal(eps*.8, eps*.5 + delta, r + 1)))
    f /= ways @ f
    first = rest @ np.maximum(f[1:] - np.exp(eps)*f[:-1], 0)
    found = r/m*(first + rest @ np.maximum(f[:-1] - np.exp(eps)*f[1:], 0))
    if found < 1:
        assert (ways*f)[v:].sum() <= one_run_tail(eps, found, m, r, v) + 1e-12

def test_what_jax_privacy_computes():
    "More in the tail; less than a run can do where few guesses have to be right."
    theirs = pytest.importorskip('jax_privacy.auditing', reason='jax_privacy: make test-all')
    pvalue = vars(theirs)['_one_run_p_value']
    for eps, delta, m, r, v in ((1., 1e-5, 1000, 100, 90), (2., 1e-6, 5000, 500, 470)):
        assert pvalue(m, r, v, eps, delta) > 1.2*one_run_tail(eps, delta, m, r, v)
        assert pvalue(m, r, v, eps, 0.) == pytest.approx(one_run_tail(eps, 0., m, r, v), rel=1e-6)
    delta = 1/(2 + np.exp(2.))
    assert pvalue(2, 2, 1, 2., delta) < .995 and worst(2., delta, 2, 2, 1) > 1 - 1e-7

@given(st.integers(1, 10**6), st.floats(.01, 1), st.floats(0, 1), st.floats(0, 20))
def test_tails_where_doubles_end(m, share, high, eps):
    "A number in [0, 1], never below the tail at delta = 0, and no smaller for a larger delta."
    r = max(int(share*m), 1)
    v = int(high*r)
    tails = [one_run_tail(eps, d, m, r, v) for d in (0., 1e-12, 1e-6, .1)]
    assert tails == sorted(tails) and 0 <= tails[0] and tails[-1] <= 1
    if v and tails[2] < 1:
        fewer = binom.cdf(v - 1, r, 1/(1 + np.exp(-eps)))
        assert tails[2] >= m*1e-6*fewer/v*(1 - 1e-6)

# The curve, and scores that are odd

def test_the_curve_finds_what_one_eps_does_not_and_covers_runs_that_are_no_gaussians():
    told = scores(600, seed=3, sigma=.5)
    said = {m: audit(RELEASE, *told, delta=1e-5, method=m) for m in METHODS[:2]}
    assert said['threshold'].passed and not said['curve'].passed
    assert 'CONTRADICTED' in repr(said['curve']) and said['curve'].eps_lower <= 4.377
    right, wrong = said['curve'].rates
    assert 1 - tradeoff(RELEASE, fpr=wrong) == pytest.approx(said['curve'].tpr_upper, abs=1e-9)
    assert right > said['curve'].tpr_upper
    rng, rate, sigma = np.random.default_rng(0), .3, .5
    sampled = PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)
    def once():
        with_it = rng.normal(0, sigma, 100) + (rng.random(100) < rate)
        return audit(sampled, with_it, rng.normal(0, sigma, 100), delta=.1, method='curve')
    assert sum(not once().passed for _ in range(60)) <= binom.ppf(.999, 60, .05)

@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('scores_in, scores_out', [
    ([1., 1.], [1., 1.]), ([2., 3.], [0., 1.]), ([0., 0., 1.], [1., 1., 0.]),
    ([1e308, -1e308], [5e-324, 0.]), (np.arange(9), np.arange(7))])
def test_tiny_samples_prove_next_to_nothing(method, scores_in, scores_out):
    for delta in (1e-300, 1e-5, .5, 1 - 1e-9):
        said = audit(PureDP(eps=.1), scores_in, scores_out, delta=delta, method=method)
        assert said.passed and said.eps_lower <= .1

@pytest.mark.parametrize('method', METHODS)
def test_scores_that_are_exchanged(method):
    "An attack that accuses the wrong ones proves nothing."
    told = scores(2000, seed=1)
    assert audit(RELEASE, *told[::-1], delta=1e-5, method=method).eps_lower < .05

@pytest.mark.parametrize('bad', [[np.nan, 1.], [np.inf, 1.], [1.], [], [[1., 2.]]])
@pytest.mark.parametrize('method', METHODS)
def test_scores_that_are_none(bad, method):
    for given_, name in (((bad, [0., 1.]), 'scores_in'), (([0., 1.], bad), 'scores_out')):
        with pytest.raises(ValueError, match=name):
            audit(RELEASE, *given_, delta=.1, method=method)

@pytest.mark.parametrize('delta', [1., -1., np.nan])
def test_deltas_that_are_none(delta):
    with pytest.raises(ValueError, match='delta'):
        audit(RELEASE, [0., 1.], [0., 1.], delta=delta)
