"""sampling.privacy_blanket: shuffled reports of a randomiser that is known. References: all reports
of a few users, shuffled, in Fractions; the multinomial numbers of the claim; binomials of scipy;
mpmath."""
import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dp_saddle import (
    Gaussian,
    PureDP,
    delta,
    epsilon,
    from_steps,
    laplace_reports,
    response_lower_bound,
    shuffled_blanket,
    shuffled_reports,
    subset_selection,
    to_steps,
    unary_encoding,
)
from dp_saddle.sampling import privacy_blanket as page

GAMMAS = 1, Fraction(5, 4), 2, Fraction(11, 4)
EPS = np.log(np.array(GAMMAS, float))

def curve(one, other, gamma): return sum(max(one[k] - gamma*other[k], 0) for k in one)

def shuffled(laws):
    "{sorted reports: probability}; all of them, also those of chance 0."
    found = Counter()
    for reports in itertools.product(range(len(laws[0])), repeat=len(laws)):
        found[tuple(sorted(reports))] += math.prod(w[r] for w, r in zip(laws, reports, strict=True))
    return found

def subsets(g, values, size):
    "The table of subset selection."
    outcomes = list(itertools.combinations(range(values), size))
    rows = [[g if v in o else 1 for o in outcomes] for v in range(values)]
    return [[Fraction(x, sum(row)) for x in row] for row in rows]

def bits(root, values):
    "The table of unary encoding with e^{eps0/2} = root."
    flip, keep = Fraction(1, root + 1), Fraction(root, root + 1)
    outcomes = list(itertools.product((0, 1), repeat=values))
    return [[math.prod(keep if b == (i == v) else flip for i, b in enumerate(o)) for o in outcomes]
            for v in range(values)]

TABLES = {
    'two answers': (subsets(3, 2, 1), subset_selection(eps0=math.log(3), values=2)),
    'four answers': (subsets(3, 4, 1), subset_selection(eps0=math.log(3), values=4)),
    'pairs of four': (subsets(3, 4, 2), subset_selection(eps0=math.log(3), values=4, size=2)),
    'two bits': (bits(2, 2), unary_encoding(eps0=2*math.log(2))),
    'three bits': (bits(2, 3), unary_encoding(eps0=2*math.log(2)))}

@pytest.mark.parametrize('rows, known', TABLES.values(), ids=TABLES)
def test_the_chances_of_a_known_randomiser(rows, known):
    "By the table: what pairs of answers have, and no more in common than all data have."
    for side, row in (('p', rows[0]), ('q', rows[1])):
        kinds = Counter()
        for one, other, chance in zip(rows[0], rows[1], row, strict=True):
            kinds[one/other] += float(chance)
        found = Counter()
        for p, q, mine in zip(known.p[0], known.q[0], getattr(known, side)[0], strict=True):
            found[Fraction(p/q).limit_denominator(99)] += mine
        assert set(found) == set(kinds)
        assert all(math.isclose(found[k], kinds[k], rel_tol=1e-13) for k in kinds)
    least = sum(min(column) for column in zip(*rows, strict=True))
    assert known.w.sum() <= least and (len(rows[0]) > 6 or known.w.sum() > .7*float(least))

@pytest.mark.parametrize('rows, known', TABLES.values(), ids=TABLES)
def test_no_data_of_the_others_cost_more(rows, known):
    "All reports of three users, all data of the others, by the family's name and as a table."
    table = np.array(rows, float)
    bounds = [page.blanket_curve(EPS, known, 3)]
    if len(rows[0]) < 9: bounds.append(page.blanket_curve(EPS, page.table_blanket(table), 3))
    for others in itertools.combinations_with_replacement(rows, 2):
        one, other = (shuffled([rows[v], *others]) for v in (0, 1))
        exact = [float(curve(one, other, g)) for g in GAMMAS]
        for bound in bounds: assert (exact <= bound*(1 + 1e-13)).all()

@pytest.mark.parametrize('seed', range(4))
def test_tables_at_random(seed):
    "Some outcomes are never sent by some data: whoever sends them is seen."
    rng = np.random.default_rng(seed)
    whole = rng.integers(1, 9, (3, 4))
    whole[rng.integers(3), rng.integers(4)] = 0
    rows = [[Fraction(int(x), int(row.sum())) for x in row] for row in whole]
    bound = page.blanket_curve(EPS, page.table_blanket(np.array(rows, float)), 3)
    step = shuffled_blanket(np.array(rows, float), n=3)
    worst = np.zeros(len(GAMMAS))
    for x, y in itertools.permutations(rows, 2):
        for others in itertools.combinations_with_replacement(rows, 2):
            one, other = (shuffled([v, *others]) for v in (x, y))
            worst = np.maximum(worst, [float(curve(one, other, g)) for g in GAMMAS])
    assert (worst <= bound*(1 + 1e-13)).all() and (bound < 1).all()
    assert (worst <= [delta(step, eps=e)*(1 + 1e-12) for e in EPS]).all()

def claimed(known, n, gamma):
    "The claim's mean over all multinomial numbers, in 30 digits."
    p, q, w = ([mp.mpf(float(x)) for x in v[0]] for v in known)
    l, total = [(a - gamma*b)/c for a, b, c in zip(p, q, w, strict=True)], mp.mpf(0)
    for N in itertools.product(range(n + 1), repeat=len(w)):
        if (left := n - sum(N)) < 0: continue
        ways = math.factorial(n)//math.prod(map(math.factorial, [*N, left]))
        chance = mp.fprod(c**k for c, k in zip([*w, 1 - sum(w)], [*N, left], strict=True))
        total += ways*chance*max(sum(k*x for k, x in zip(N, l, strict=True)), 0)
    return float(total/n)

def cells(eps0, x, edges):
    "Chances of the cells between edges, of a number with Laplace noise."
    return np.diff(stats.laplace.cdf(edges, x, 1/eps0))

@pytest.mark.parametrize('eps0', [.1, 1., 4., 9.])
def test_zero_and_one_are_the_worst_numbers(eps0):
    "In convex order, for all pairs: cells of a density are less than the density, by Jensen."
    edges = np.concatenate([[-np.inf], np.linspace(0, 1, 801), [np.inf]])
    (p,), (q,), (w,) = laplace_reports(eps0=eps0)
    ends = cells(eps0, 0, edges), cells(eps0, 1, edges)
    common = np.minimum(*ends)
    numbers = [cells(eps0, x, edges) for x in np.linspace(0, 1, 17)]
    def all_above(p, q, w): return np.maximum(p - g*q - levels*w, 0).sum(1)
    for g in np.exp(eps0*np.array([0., .03, .3, .6, .95])):
        levels = np.linspace(1 - g*math.exp(eps0), math.exp(eps0) - g, 61)[:-1, None]
        bound = all_above(p, q, w)*(1 + 1e-12)
        for one, other in itertools.permutations(numbers, 2):
            assert (all_above(one, other, common) <= bound).all()
        assert (bound <= all_above(*ends, common)*1.01).all()

@pytest.mark.parametrize('eps0', [1., 3.])
def test_all_reports_with_noise(eps0):
    "Of three users, in cells: for all of some numbers."
    edges = np.concatenate([[-np.inf], np.linspace(0, 1, 7), [np.inf]])
    bound = page.blanket_curve(EPS, laplace_reports(eps0=eps0), 3)
    rows = [cells(eps0, x, edges) for x in (0, .25, .4, .5, 1)]
    for x, y in itertools.permutations(rows, 2):
        for others in itertools.combinations_with_replacement(rows, 2):
            one, other = (sum(np.einsum('i,j,k', *order) for order in
                              itertools.permutations([v, *others]))/6 for v in (x, y))
            exact = [np.maximum(one - g*other, 0).sum() for g in map(float, GAMMAS)]
            assert (exact <= bound*(1 + 1e-12)).all()

@pytest.mark.parametrize('eps0, n, eps', [(1., 40, .3), (3., 200, .2), (4., 60, 1.)])
def test_noise_by_convolution(eps0, n, eps):
    "The claim's sum on a fine lattice, by powers of its discrete transform; no line."
    edges = np.concatenate([[-np.inf], np.linspace(0, 1, 20001), [np.inf]])
    one, other = cells(eps0, 0, edges), cells(eps0, 1, edges)
    w = np.minimum(one, other)
    l, step, size = (one - math.exp(eps)*other)/w, math.exp(eps0 + eps)/300, 1 << 19
    low = np.floor(l/step)
    law = np.zeros(size)
    for place, share in ((low, low + 1 - l/step), (low + 1, l/step - low)):
        np.add.at(law, place.astype(int) % size, w*share)
    law[0] += 1 - w.sum()
    total = np.fft.irfft(np.fft.rfft(law)**n)
    exact = float((total[1:size//2]*np.arange(1, size//2)).sum())*step/n
    found, = page.blanket_curve(np.array([eps]), laplace_reports(eps0=eps0), n)
    assert exact*(1 - 1e-3) < found < exact*1.004

@pytest.mark.parametrize('n', [1, 2, 7])
@pytest.mark.parametrize('known', [known for _, known in TABLES.values()], ids=TABLES)
def test_a_line_is_at_least_the_claim(known, n):
    with mp.workdps(30):
        exact = np.array([claimed(known, n, mp.mpf(float(g))) for g in GAMMAS])
    found = page.blanket_curve(EPS, known, n)
    assert (exact <= found).all() and (found <= exact*1.04 + 1e-300).all()

def by_scipy(eps0, n, eps):
    "Two answers: of each number of blanket reports, and of each number of ones among them."
    p, q, g = 1/(1 + math.exp(-eps0)), 1/(1 + math.exp(eps0)), math.exp(eps)
    mean = 2*q*n
    M = np.arange(max(1, int(mean - 12*mean**.5)), int(mean + 12*mean**.5 + 30))[:, None]
    k = np.arange(M.max() + 1)
    law = stats.binom.pmf(M, n, 2*q)*stats.binom.pmf(k, M, .5)
    return float((law*np.maximum(k*(p - g*q) + (M - k)*(q - g*p), 0)).sum()/q/n)

@pytest.mark.parametrize('eps0, n, eps', [(4., 10**4, .3), (2., 3000, .05), (6., 10**5, .2),
                                          (1., 2000, 0.), (4., 10**4, .6)])
def test_many_users(eps0, n, eps):
    "Noise that smooths costs a thousandth of delta."
    exact = by_scipy(eps0, n, eps)
    known = subset_selection(eps0=eps0, values=2)
    found, = page.blanket_curve(np.array([eps]), known, n)
    assert exact*(1 - 1e-9) <= found <= exact*1.0015

@pytest.mark.parametrize('eps0, n', [(4., 10**5), (1., 10**4), (1., 10**6), (1., 10**9)])
def test_two_answers_are_the_clones_pair(eps0, n):
    "The same pair by another page, which enumerates it."
    clones = epsilon(shuffled_reports(eps0=eps0, n=n, clones=2/(math.exp(eps0) + 1)), delta=1e-6)
    found = epsilon(shuffled_blanket(subset_selection(eps0=eps0, values=2), n=n), delta=1e-6)
    assert clones*(1 - 1e-6) <= found <= clones*(1 + 2e-4)

@pytest.mark.parametrize('s', [.3, 2 + 5j, .01 + 40j])
@pytest.mark.parametrize('n', [10, 10**9, 10**15])
def test_the_transform_is_known_so_well(s, n):
    "Its logarithm, where it is largest: by mpmath, from eps0 and eps themselves."
    scale, eps0, eps = n**-.5, 1., 2*n**-.5
    known = subset_selection(eps0=eps0, values=3)
    p, q, w = (v[0] for v in known)
    l = (p - np.exp(eps)*q)/w
    t = complex(s)*scale
    at = np.array([t.imag]), np.array([0]), l[None], np.expm1(t.real*l)[None]
    found = complex(page.log_sum_transform(*at, w, n)[0])
    with mp.workdps(60):
        g, z = mp.exp(mp.mpf(eps)), mp.mpc(t)
        share = 1/(mp.exp(1) + 2)
        low = 1 - mp.mpf(page.ULP)*vars(page)['_BELOW_ULPS']        # as the blanket is rounded down
        M = 1 + sum(share*low*mp.expm1(z*x/low) for x in (mp.e - g, 1 - g*mp.e, 1 - g))
        exact = complex(n*mp.log(M))
    sizes = n*abs(t)*((p + np.exp(eps)*q)*np.exp(t.real*np.maximum(l, 0))).sum()
    assert abs(found - exact) < page.ULP*vars(page)['_TERM_ULPS']*sizes

def test_what_is_not_summed_is_charged(monkeypatch):
    "Lines that end too soon are no bound without their charge; with it they are, and wide."
    exact, known = by_scipy(2., 3000, .05), subset_selection(eps0=2., values=2)
    def found(): return page.blanket_curve(np.array([.05]), known, 3000)[0]
    for name, value in (('_CUT', .6), ('_DECAYED', 1.)):
        with monkeypatch.context() as patched:
            patched.setattr(page, name, value)
            assert found() > exact*1.01
            patched.setattr(page, '_left_out', lambda line: 0*line.c)
            assert found() < exact*1.0015

@pytest.mark.parametrize('known', [
    subset_selection(eps0=4., values=2), unary_encoding(eps0=2.), laplace_reports(eps0=1.)],
    ids=['two', 'bits', 'noise'])
@pytest.mark.parametrize('n, most', [(10**3, 300_000), (10**5, 25_000), (10**9, 10_000)])
def test_frequencies_that_are_asked(monkeypatch, known, n, most):
    "So many for all points of a curve, and some tilts for each: no time depends on the machine."
    sizes, transform, tilted = [], page.log_sum_transform, vars(page)['_tilted']
    def counted(y, *rest):
        sizes.append(y.size)
        return transform(y, *rest)
    rows = []
    def looked(c, *rest):
        rows.append(c.size)
        return tilted(c, *rest)
    monkeypatch.setattr(page, 'log_sum_transform', counted)
    monkeypatch.setattr(page, '_tilted', looked)
    points = len(shuffled_blanket(known, n=n).eps)
    assert sum(sizes) < most and len(sizes) < 12 and sum(rows) < 12*points

@pytest.mark.parametrize('known, n', [
    (subset_selection(eps0=2., values=2), 300), (subset_selection(eps0=4., values=9), 10**4),
    (unary_encoding(eps0=3.), 600), (laplace_reports(eps0=2.), 100)],
    ids=['two', 'nine', 'bits', 'noise'])
def test_what_is_passed_over_is_small(known, n):
    "All frequencies, one by one: those that no cell holds are below by the nats that are charged."
    (p,), (q,), (w,) = known
    g = np.exp(np.array([0., .01, .2]))[:, None]
    l, sizes = (p - g*q)/w, p + g*q
    line = vars(page)['_lines'](l, sizes, w, n)
    rows, low, high = vars(page)['_cells'](line, w, n)
    for row in range(3):
        y = np.arange(line.end[row])*line.h[row]
        M = 1 + (w*np.expm1((line.c[row] + 1j*y[:, None])*l[row])).sum(1)
        fall = n*np.log(np.abs(M)/M[0].real)
        held = np.zeros(len(y), bool)
        for a, b in np.array([low, high], int).T[rows == row]: held[a:b] = True
        assert held[:3].all() and not held.all()
        assert (fall[~held] < -vars(page)['_DECAYED'] + 1e-9).all()
        assert (fall[held] > -3).any() and held.sum() < .7*len(y)

@pytest.mark.parametrize('known, n, most', [
    (laplace_reports(eps0=1e-13), 10**7, 0), (laplace_reports(eps0=40.), 10**6, 10**6),
    (subset_selection(eps0=30., values=5), 10**5, 600_000)], ids=['little', 'noise', 'much'])
def test_what_hides_nothing_takes_no_time(monkeypatch, known, n, most):
    "Where rounding is all, or no other report is there: few frequencies, and no false bound."
    sizes, transform = [], page.log_sum_transform
    def counted(y, *rest):
        sizes.append(y.size)
        return transform(y, *rest)
    monkeypatch.setattr(page, 'log_sum_transform', counted)
    step, top = shuffled_blanket(known, n=n), float(np.log(known.p/known.q).max())
    assert sum(sizes) <= most
    assert epsilon(step, delta=1e-9) == pytest.approx(top, rel=1e-6, abs=1e-12)

def test_far_beyond_all_doubles():
    "No line is needed there, and none takes long: Chernoff's bound."
    known = subset_selection(eps0=1., values=2)
    found = page.blanket_curve(np.array([.5, .9, 1., 2.]), known, 10**6)
    assert (0 < found[:2]).all() and (found[:2] < 1e-300).all() and not found[2:].any()

@pytest.mark.parametrize('values', [2, 3, 6])
@pytest.mark.parametrize('n', [1, 2, 5])
def test_from_below(n, values):
    "Counts of one answer, all other users having one value: exact for two values."
    rows = subsets(3, values, 1)
    one, other = (shuffled([rows[v], *[rows[0]]*(n - 1)]) for v in (1, 0))
    counts = [Counter(), Counter()]
    for law, found in zip((one, other), counts, strict=True):
        for reports, chance in law.items(): found[reports.count(1)] += chance
    pair = page.ResponseCounts(math.log(3), values, n)
    def most(a, b, gamma): return float(max(curve(a, b, gamma), curve(b, a, gamma)))
    for gamma in GAMMAS:
        found, exact = pair.delta(math.log(gamma)), most(*counts, gamma)
        assert exact*(1 - 1e-11) - 1e-14 <= found <= exact <= most(one, other, gamma)
        assert values > 2 or exact == most(one, other, gamma)

@pytest.mark.parametrize('eps0, n, values', [(4., 10**5, 2), (1., 10**4, 5), (2., 300, 2)])
def test_both_sides(eps0, n, values):
    "By scipy's binomials, in both directions; and below what is proved from above."
    g = math.exp(eps0)
    p, q = g/(g + values - 1), 1/(g + values - 1)
    k = np.arange(n + 1)
    b = stats.binom.pmf(np.arange(-1, n + 1), n - 1, q)
    laws = [(1 - a)*b[1:] + a*b[:-1] for a in (p, q)]
    def most(eps):
        return max(np.maximum(x - math.exp(eps)*y, 0).sum() for x, y in (laws, laws[::-1]))
    low = response_lower_bound(eps0=eps0, n=n, delta=1e-6, values=values)
    assert k.size == n + 1 and most(low*(1 - 1e-6)) > 1e-6 > most(low*(1 + 1e-6))
    high = epsilon(shuffled_blanket(subset_selection(eps0=eps0, values=values), n=n), delta=1e-6)
    assert low < high < 2.2*low

def test_more_answers_and_more_users_cost_less():
    costs = [epsilon(shuffled_blanket(subset_selection(eps0=4., values=k), n=10**5), delta=1e-6)
             for k in (2, 10, 100)]
    assert (np.diff(costs) < 0).all() and math.isclose(costs[0], .118153, rel_tol=2e-4)
    costs = [epsilon(shuffled_blanket(unary_encoding(eps0=2.), n=n), delta=1e-10)
             for n in (1, 10**8, 10**12, 10**15)]
    assert (np.diff(costs) < 0).all() and math.isclose(costs[0], 2., rel_tol=1e-5)
    assert math.isclose(costs[2]/costs[1], 1e-2, rel_tol=.3)        # one over the root of n

@pytest.mark.parametrize('known', [
    subset_selection(eps0=1e-6, values=2), subset_selection(eps0=100., values=3),
    subset_selection(eps0=30., values=10**9, size=10**8), unary_encoding(eps0=20.)])
@pytest.mark.parametrize('n', [1, 40, 10**12])
def test_ends(known, n):
    "A report is never worse than on its own."
    step = shuffled_blanket(known, n=n)
    top = float(np.log(known.p/known.q).max())
    assert math.isclose(step.eps[-1], top, rel_tol=1e-9, abs_tol=1e-12) and step.delta[-1] == 0
    assert 0 <= epsilon(step, delta=1e-6) <= epsilon(PureDP(eps=top), delta=1e-6)*(1 + 1e-9)

def test_it_is_a_step_as_others():
    step = shuffled_blanket(unary_encoding(eps0=1.), n=10**7)
    run = 5*step + Gaussian(sigma=3.)
    assert from_steps(to_steps(run)) == [(step, 5), (Gaussian(sigma=3.), 1)]
    assert 5*epsilon(step, delta=1e-6) > epsilon(5*step, delta=1e-6) > epsilon(step, delta=1e-6)

@pytest.mark.parametrize('call, said', [
    (lambda: subset_selection(eps0=0., values=2), 'eps0 must be'),
    (lambda: subset_selection(eps0=1., values=1), 'values must be'),
    (lambda: subset_selection(eps0=1., values=3, size=3), 'size must be'),
    (lambda: unary_encoding(eps0=101.), 'eps0 must be'),
    (lambda: shuffled_blanket(unary_encoding(eps0=1.), n=0), 'n must be'),
    (lambda: shuffled_blanket(unary_encoding(eps0=1.), n=10**15 + 1), 'n must be'),
    (lambda: shuffled_blanket([[1.]], n=3), 'randomizer .* table of 2 to 8 rows'),
    (lambda: shuffled_blanket(np.full((9, 2), .5), n=3), 'randomizer .* table of 2 to 8 rows'),
    (lambda: shuffled_blanket([[.5, .5], [.5, .4]], n=3), 'randomizer must have rows that'),
    (lambda: shuffled_blanket([[1.5, -.5], [.5, .5]], n=3), 'randomizer must be in'),
    (lambda: shuffled_blanket(Gaussian(sigma=1.), n=3), 'randomizer must be a Blanket'),
    (lambda: laplace_reports(eps0=0.), 'eps0 must be'),
    (lambda: shuffled_blanket(np.eye(3), n=3), 'randomizer must be one'),
    (lambda: response_lower_bound(eps0=1., n=3, delta=1.), 'delta must be'),
    (lambda: response_lower_bound(eps0=1., n=0, delta=.1), 'n must be'),
    (lambda: response_lower_bound(eps0=1., n=3, delta=.1, values=1), 'values must be')])
def test_errors_name_the_parameter(call, said):
    with pytest.raises(ValueError, match=f'^{said}'):
        call()
