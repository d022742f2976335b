"Chapter 06db: what an audit proves, and what it must not."
import numpy as np
import pytest
from scipy.stats import binom

from dp_saddle import Gaussian, PureDP, audit, epsilon
from dp_saddle.audits import one_run_tail, rate_bound

RELEASE = Gaussian(sigma=1.)

def scores(n, seed=0, sigma=1.):
    rng = np.random.default_rng(seed)
    return rng.normal(1/sigma, 1, n), rng.normal(0, 1, n)

def test_the_upper_bound_is_the_front_doors():
    said = audit(RELEASE, *scores(50), delta=1e-6)
    assert said.eps_upper == epsilon(RELEASE, delta=1e-6) and said.sizes == (50, 50)
    assert said.passed and 'consistent' in repr(said)

@pytest.mark.parametrize('method', ['threshold', 'gdp', 'one-run'])
def test_no_attack_proves_nothing(method):
    "Scores that are all the same, and scores that are the wrong way round for a single run."
    same = np.zeros(200), np.zeros(200)
    assert audit(RELEASE, *same, delta=1e-5, method=method).eps_lower <= .2
    assert audit(RELEASE, np.zeros(200), np.ones(200), delta=1e-5, method='one-run').eps_lower == 0

@pytest.mark.parametrize('method', ['threshold', 'gdp', 'one-run'])
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
