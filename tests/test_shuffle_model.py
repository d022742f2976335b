"""sampling.shuffle_model: the shuffle model. References: reports of random private randomisers,
shuffled, and the pair of binomial numbers, both by enumeration in Fractions; scipy's binomials;
mpmath."""
import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dp_saddle import Gaussian, PureDP, delta, epsilon, from_steps, shuffled_reports, to_steps
from dp_saddle.sampling import shuffle_model as page

GAMMAS = 1, Fraction(5, 4), 2, Fraction(7, 2)

def curve(pairs, gamma): return sum(max(p - gamma*q, 0) for p, q in pairs)

def shuffled(laws):
    "{sorted reports: probability}."
    found = Counter()
    for reports in itertools.product(range(len(laws[0])), repeat=len(laws)):
        found[tuple(sorted(reports))] += math.prod(w[r] for w, r in zip(laws, reports, strict=True))
    return found

def private(rng, g, values, outcomes):
    "Laws of reports, one for each value, of which no two differ by more than a factor of g."
    rows = []
    base = [Fraction(int(w)) for w in rng.integers(1, 9, outcomes)]
    for _ in range(values):
        mask = rng.permutation([1]*(outcomes//2) + [0]*(outcomes - outcomes//2))
        high, low = (sum(b for b, m in zip(base, mask, strict=True) if m == k) for k in (1, 0))
        # between the factors 1 and g, and so that each row sums to high + low of all
        up = 1 + (g - 1)*low/(high + low)
        rows.append([b*(up if m else up/g) for b, m in zip(base, mask, strict=True)])
    return [[x/sum(row) for x in row] for row in rows]

def worst_ratio(laws):
    return max(a/b for x in laws for y in laws for a, b in zip(x, y, strict=True))

def pair_of(n, g, c):
    "[(P, Q)] of the two binomial numbers, in the numbers that are given."
    outcomes = {}
    for C in range(n):
        for A in range(C + 1):
            w = math.comb(n - 1, C)*c**C*(1 - c)**(n - 1 - C)*math.comb(C, A)/2**C/(g + 1)
            for side in (0, 1):
                for coin, chance in ((1 - side, g), (side, 1)):
                    outcomes.setdefault((A + coin, C + 1 - A - coin), [0, 0])[side] += w*chance
    return list(outcomes.values())

@pytest.mark.parametrize('seed', range(6))
def test_any_private_reports_cost_less(seed):
    "Random randomisers, all data of the others: their own eps0, and no more than that many clones."
    rng = np.random.default_rng(seed)
    laws = private(rng, 4, values=3, outcomes=4)
    ratio = worst_ratio(laws)
    step = shuffled_reports(eps0=math.log(ratio)*(1 + 1e-15), n=3)
    for others in itertools.product(range(3), repeat=2):
        for x, y in ((0, 1), (2, 0)):
            one, other = (shuffled([laws[v], *(laws[o] for o in others)]) for v in (x, y))
            for gamma in GAMMAS:
                found = float(curve([(one[k], other[k]) for k in one], gamma))
                assert found <= delta(step, eps=math.log(gamma))*(1 + 1e-12)

@pytest.mark.parametrize('values', [2, 3, 5])
def test_randomised_response_has_more_clones(values):
    "k-RR with all others alike, and with all different: below the curve of 2/(e^eps0 + 1) clones."
    g, n = 3, 4
    def told(v): return [Fraction(g if r == v else 1, g + values - 1) for r in range(values)]
    step = shuffled_reports(eps0=math.log(g), n=n, clones=2/(g + 1))
    loose = shuffled_reports(eps0=math.log(g), n=n)
    for others in ([0]*3, [1]*3, [values - 1]*3, [0, 1, values - 1]):
        one, other = (shuffled([told(v), *map(told, others)]) for v in (0, 1))
        for gamma in GAMMAS[:3]:
            found = float(curve([(one[k], other[k]) for k in one], gamma))
            at = delta(step, eps=math.log(gamma))
            assert found <= at*(1 + 1e-12) and at <= delta(loose, eps=math.log(gamma))

@pytest.mark.parametrize('n', [1, 2, 3, 8, 20])
@pytest.mark.parametrize('g', [2, 4, 30])
def test_the_pair_in_fractions(n, g):
    pair, step = pair_of(n, Fraction(g), Fraction(1, g)), shuffled_reports(eps0=math.log(g), n=n)
    for gamma in (1, Fraction(5, 4), Fraction(7, 4)):
        exact = float(curve(pair, gamma))
        assert exact*(1 - 1e-13) <= delta(step, eps=math.log(gamma)) <= exact*1.001
    at = np.array(step.eps[:-1:40])
    with mp.workdps(30):
        same = pair_of(n, mp.exp(step.eps[-1]), mp.exp(-mp.mpf(step.eps[-1])))
        exact = [float(curve(same, mp.exp(e))) for e in at]
    found = np.array(step.delta[:-1:40])
    kept = np.array(exact) > 1e-12
    assert (found[kept] >= np.array(exact)[kept]*(1 - 1e-13)).all()
    assert (found[kept] <= np.array(exact)[kept]*(1 + 1e-10)).all()

def test_rounds_compose():
    "Three rounds of three users, by enumeration."
    pair = pair_of(3, Fraction(3), Fraction(1, 3))
    three = [(math.prod(p for p, _ in xs), math.prod(q for _, q in xs))
             for xs in itertools.product(pair, repeat=3)]
    run = 3*shuffled_reports(eps0=math.log(3), n=3)
    for gamma in GAMMAS:
        exact = float(curve(three, gamma))
        assert exact*(1 - 1e-13) <= delta(run, eps=math.log(gamma)) <= exact*1.0002

def by_scipy(eps0, n, eps):
    "Of each number of clones and of heads, scipy's binomials."
    mean = (n - 1)*math.exp(-eps0)
    C = np.arange(max(0, int(mean - 12*mean**.5)), int(mean + 12*mean**.5 + 30))[:, None]
    k = np.arange(C.max() + 2)
    g = math.exp(eps0)
    upper, lower = g*(C + 1 - k) + k, g*k + C + 1 - k
    law = stats.binom.pmf(C, n - 1, 1/g)*stats.binom.pmf(k, C + 1, .5)*2/(C + 1)/(g + 1)
    return float((law*np.maximum(upper - math.exp(eps)*lower, 0)).sum())

@pytest.mark.parametrize('eps0, n, eps', [(4., 10**4, .3), (2., 3000, .05), (6., 10**5, 1.)])
def test_many_users(eps0, n, eps):
    exact = by_scipy(eps0, n, eps)
    assert exact*(1 - 1e-9) <= delta(shuffled_reports(eps0=eps0, n=n), eps=eps) <= exact*1.001

def test_what_is_left_out_is_charged(monkeypatch):
    "With tails that are far too short: without their charge it would be no bound, with it it is."
    exact, levels = by_scipy(2., 3000, .05), (2999, -2., math.log(-math.expm1(-2.)))
    monkeypatch.setattr(page, '_TAIL', 3.)
    monkeypatch.setattr(page, '_LEFT_OUT', 0.)
    assert page.upper_curve(np.array([.05]), 2., page.clone_levels(*levels))[0] < exact
    monkeypatch.setattr(page, '_LEFT_OUT', 4*math.exp(-3.))
    assert delta(shuffled_reports(eps0=2., n=3000), eps=.05) > exact

def test_few_levels_are_a_bound(monkeypatch):
    exact = by_scipy(2., 3000, .05)
    monkeypatch.setattr(page, '_WORK', 2e3)
    found = delta(shuffled_reports(eps0=2., n=3000), eps=.05)
    assert 1.001*exact < found < 1.2*exact

@pytest.mark.parametrize('n, k, logp', [(10**6, 367_000, -1.), (10**9, 367_880_000, -1.),
                                        (10**6, 17_900, -4.), (50, 3, -.7), (10**5, 99_990, -1e-4)])
def test_binomial_probabilities_are_known_so_well(n, k, logp):
    logq = math.log(-math.expm1(logp))
    found, off = page.binomial_law(n, np.array([k, 0., n]), logp, logq)
    with mp.workdps(50):
        p = mp.exp(mp.mpf(logp))
        exact = mp.binomial(n, k)*p**k*(1 - p)**(n - k)
        assert abs(mp.log(mp.mpf(float(found[0]))/exact)) < off < 1e-3

def test_more_users_and_smaller_eps_cost_less():
    costs = [epsilon(shuffled_reports(eps0=2., n=n), delta=1e-6) for n in (1, 30, 1000, 10**5)]
    assert (np.diff(costs) < 0).all() and costs[0] < 2
    costs = [epsilon(shuffled_reports(eps0=e, n=1000), delta=1e-6) for e in (.1, 1., 4., 20.)]
    assert (np.diff(costs) > 0).all()
    alone = shuffled_reports(eps0=2., n=1)
    for eps in (0., .7, 1.9):
        assert math.isclose(delta(alone, eps=eps), delta(PureDP(eps=2.), eps=eps), rel_tol=1e-3)

def test_the_published_closed_form_is_larger():
    "Feldman, McMillan and Talwar (2022), Theorem 3.1."
    for eps0, n, d in ((1., 10**4, 1e-6), (4., 10**5, 1e-6), (.5, 10**6, 1e-8)):
        root = math.sqrt(math.exp(eps0)*math.log(4/d)/n)
        published = math.log1p(math.tanh(eps0/2)*8*(root + math.exp(eps0)/n))
        assert eps0 <= math.log(n/16/math.log(2/d))          # where it holds
        assert epsilon(shuffled_reports(eps0=eps0, n=n), delta=d) < published/2

@pytest.mark.parametrize('eps0, n', [(1e-300, 10), (1e-6, 10**6), (100., 1), (100., 10**9),
                                     (30., 1000), (.1, 10**6), (1., 10**9)])
def test_ends(eps0, n):
    step = shuffled_reports(eps0=eps0, n=n)
    assert (step.eps[-1], step.delta[-1]) == (max(eps0, 1e-100), 0.)
    assert 0 <= epsilon(step, delta=1e-6) <= eps0
    assert all(0 <= d < 1 for d in step.delta)

def test_it_is_a_step_as_others():
    step = shuffled_reports(eps0=1., n=1000)
    run = 5*step + Gaussian(sigma=3.)
    assert from_steps(to_steps(run)) == [(step, 5), (Gaussian(sigma=3.), 1)]
    assert epsilon(run, delta=1e-6) > epsilon(5*step, delta=1e-6)
    assert step.symmetric and shuffled_reports(eps0=1., n=1000) == step

@pytest.mark.parametrize('given, said', [
    (dict(eps0=0., n=9), 'eps0'), (dict(eps0=101., n=9), 'eps0'), (dict(eps0=1., n=0), 'n'),
    (dict(eps0=1., n=10**9 + 1), 'n'), (dict(eps0=1., n=9, clones=1.), 'clones'),
    (dict(eps0=1., n=9, clones=0.), 'clones')])
def test_errors_name_the_parameter(given, said):
    with pytest.raises(ValueError, match=f'^{said} must be'):
        shuffled_reports(**given)
