"Functions of doubles: against many digits, and searches that keep what they have proved."
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, inf, isfinite, nan, nextafter

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dp_saddle.base.numerics import (
    AT_ONCE,
    LARGEST_LOG,
    RTOL,
    SAFE_LOG,
    SERIES_REACH,
    TINY,
    ULP,
    Crossing,
    bisect,
    capped_exp,
    capped_expm1,
    expm1mx,
    find_roots,
    in_blocks,
    invert,
    legendre,
    log_chernoff_factor,
    log_expm1,
    round_outwards,
    safe_log,
    two_sum,
    ways_to_draw,
    weighted_expm1mx,
)

finite = st.floats(allow_nan=False, allow_infinity=False)

def exact_expm1mx(x):
    "e^x - 1 - x, with digits enough for x down to 1e-150."
    with mp.workdps(400):
        z = mp.mpmathify(x)
        return mp.expm1(z) - z

@given(st.floats(-700, 700))
def test_expm1mx_of_real_numbers(x):
    assume(abs(x) > 1e-150)                           # its square is a double
    assert abs(expm1mx(x)/exact_expm1mx(x) - 1) < 2e-15

@pytest.mark.parametrize('size', [nextafter(SERIES_REACH, to) for to in (0, SERIES_REACH, 1)])
@pytest.mark.parametrize('turn', [1, -1, 1j, -1j, (3 + 4j)/5])
def test_expm1mx_where_the_formula_changes(size, turn):
    x = size*turn
    assert abs(complex(expm1mx(x))/complex(exact_expm1mx(x)) - 1) < 3e-15

def test_expm1mx_keeps_shapes():
    assert expm1mx(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert expm1mx(0.).shape == () and expm1mx(0.) == 0
    assert expm1mx(np.array([1e-200, -800.])).tolist() == [0., 799.]

@given(st.floats(-900, 0), st.floats(-30, 900))
def test_weights_that_make_up_for_an_overflow(logw, x):
    assume(logw + x < 700 and abs(x) > 1e-100)
    with mp.workdps(60), np.errstate(over='ignore', invalid='ignore'):
        want = mp.exp(logw)*exact_expm1mx(x)
        got = weighted_expm1mx(np.array([logw]), np.array([x]))[0]
    assert abs(got - want) <= 1e-12*want + 1e-300

@pytest.mark.parametrize('x', [.2501, -.2501, .3, -.5, 1., -1., 1.2501, 3., 39.9, 40.1, 300.])
def test_second_order_terms_keep_their_digits(x):
    "9 ULP of expm1mx, and 4 with a weight, besides the exponent: no cancellation at any x."
    rng = np.random.default_rng(0)
    xs, logw = x*(1 + rng.uniform(0, .02, 50)), -rng.uniform(0, 40, 50)
    with mp.workdps(60):
        exact = [exact_expm1mx(v) for v in xs.tolist()]
        plain = [abs(a/b - 1) for a, b in zip(expm1mx(xs).tolist(), exact, strict=True)]
        assert max(plain) < 9*ULP
        found = weighted_expm1mx(logw, xs).tolist()
        for got, l, v, want in zip(found, logw.tolist(), xs.tolist(), exact, strict=True):
            assert abs(got/(mp.exp(l)*want) - 1) < (13 + abs(l)/2 + abs(v))*ULP

@given(st.floats(1e-300, 1e6))
def test_log_expm1(x):
    with mp.workdps(60):
        want = mp.log(mp.expm1(mp.mpf(x)))
    assert abs(log_expm1(x) - want) <= 4*ULP*(1 + x + abs(want))

def test_safe_log_is_silent():
    with np.errstate(all='raise'):
        found = safe_log(np.array([[0., exp(1.)]]))
        assert found == pytest.approx(np.array([[-inf, 1.]]), rel=4e-16)
        assert safe_log(0.) == -inf

@given(st.floats(1e-6, 1e6), st.floats(1e-9, 100))
def test_chernoff_factor_is_the_largest(u, length):
    "(1 - e^{-l}) e^{-ul} is nowhere larger, and nearly so large where it has to be."
    def at(x): return np.log(-np.expm1(-x)) - u*x
    slack = 1e-9*(1 + u)
    assert at(length) <= log_chernoff_factor(u) + slack
    assert at(np.log1p(1/u)) == pytest.approx(log_chernoff_factor(u), abs=slack)

@given(finite, finite)
def test_two_sum_is_exact(a, b):
    assume(isfinite(a + b) and isfinite(2*abs(a)) and isfinite(2*abs(b)))
    s, lost = two_sum(a, b)
    assert s == a + b and Fraction(s) + Fraction(lost) == Fraction(a) + Fraction(b)

def test_two_sum_overflows_without_a_warning():
    with np.errstate(all='raise'):
        s, lost = two_sum(np.array([1e308, 1.]), np.array([1e308, inf]))
    assert (s == inf).all() and np.isnan(lost).all()

@pytest.mark.parametrize('n', [1, 2, 7, 16, 50])
def test_gauss_rules_are_exact(n):
    rule = legendre(n)
    assert len(rule.nodes) == n and (rule.weights > 0).all() and (np.diff(rule.nodes) > 0).all()
    for power in range(2*n):
        exact = 0 if power % 2 else 2/(power + 1)
        assert (rule.weights*rule.nodes**power).sum() == pytest.approx(exact, abs=1e-14)
    assert rule is legendre(n)
    with pytest.raises(ValueError, match='read-only'): rule.nodes[0] = 0

@pytest.mark.parametrize('n', [2, 3, 16, 24, 50])
def test_gauss_rules_to_the_last_digit(n):
    "scipy's outermost weights are off by hundreds of units; ours are rounded once."
    rule = legendre(n)
    with mp.workdps(40):
        for x, w in zip(*rule, strict=True):
            z = mp.mpf(float(x))
            for _ in range(3):
                slope = n*(z*mp.legendre(n, z) - mp.legendre(n - 1, z))/(z*z - 1)
                z -= mp.legendre(n, z)/slope
            assert abs(z - mp.mpf(float(x))) <= .51*ULP*abs(z)
            assert abs(2/((1 - z*z)*slope**2)/mp.mpf(float(w)) - 1) <= .51*ULP

@given(finite, st.integers(1, 20))
def test_rounding_outwards(x, digits):
    down, up = (Decimal(round_outwards(x, way, digits)) for way in (ROUND_FLOOR, ROUND_CEILING))
    assert down <= Decimal(x) <= up
    assert max(len(v.as_tuple().digits) for v in (down, up)) <= max(digits, 1)
    assert (up - down) <= abs(Decimal(x))*Decimal(10)**(1 - digits)*2

# Halving

@given(st.lists(st.floats(-9.99, 9.99), min_size=1, max_size=7))
def test_halves_end_at_neighbours(roots):
    "Each element is a search of its own; both ends have been asked, or were given."
    roots = np.array(roots)
    low, high = bisect(lambda x: x >= roots, np.full(roots.shape, -10.), np.full(roots.shape, 10.))
    assert low.shape == roots.shape and (low < roots).all() and (roots <= high).all()
    near_zero = high - low <= 20*2.**-80
    assert (near_zero | (np.nextafter(low, inf) == high)).all()

def test_halves_of_what_switches_often():
    "Any function: false at one end, true at the other."
    def true_at(x): return np.sin(1e3/x) > .5*np.cos(x)
    x = np.linspace(.02, .04, 301)
    start, end = x[~true_at(x)][:90], x[true_at(x)][:90]
    low, high = bisect(true_at, start, end)
    assert ((np.minimum(start, end) <= low) & (low <= np.maximum(start, end))).all()
    assert not true_at(low).any() and true_at(high).all()
    assert (np.nextafter(low, high) == high).all()

def test_halves_of_a_number_and_of_nothing():
    low, high = bisect(lambda x: x*x >= 2, 1., 2.)
    assert isinstance(low, float) and low*low < 2 <= high*high and nextafter(low, inf) == high
    assert bisect(lambda x: x >= .5, 0, 1) == (nextafter(.5, 0), .5)             # of integers
    assert bisect(None, 3., 3.) == (3., 3.) and bisect(None, 1., nextafter(1., 2)) == (
        1., nextafter(1., 2))                                                    # never asked
    low, high = bisect(lambda x: x <= -.3, 0., -1.)                              # downwards
    assert high <= -.3 < low and nextafter(low, -1) == high

def test_halves_of_long_doubles():
    root = np.longdouble(1)/3
    low, high = bisect(lambda x: x >= root, np.zeros(2, np.longdouble), np.ones(2, np.longdouble))
    assert low.dtype == np.longdouble and (low < root).all() and (high == root).all()

def test_halves_stop_when_all_are_done():
    calls = []
    def true_at(x):
        calls.append(x)
        return x >= np.array([.7, 1e-3])
    bisect(true_at, np.zeros(2), np.ones(2))
    assert 53 <= len(calls) <= 64
    assert bisect(lambda x: x >= .3, 0., 1., halvings=2) == (.25, .5)       # or earlier

# Inversion

@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.integers(1, 5), st.floats(-1e3, 1e3))
def test_a_bracket_is_proved(root, scale, power, start):
    "Both ends have been asked; between them lies the root; and they are as near as they can be."
    assume(start < root)
    asked = {}
    def miss(x):
        asked[x] = (root - x)*abs((root - x)/scale)**(power - 1)
        return asked[x]
    low, high = invert(miss, start)
    if asked[start] == 0:                             # a power of a small number may be 0
        assert low == high == start
        return
    assert low < high and asked[low] > 0 >= asked[high]
    assert low <= root <= high or power > 1           # the same within the bracket
    assert high - low <= max(RTOL*abs(high), TINY) or nextafter(low, inf) == high

@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, .5))
def test_what_falls_in_steps(first, second, top):
    "Not smooth, not even falling everywhere: still a bracket of one of its crossings."
    def miss(x): return 1. if x < first else (top if x < second else -1.)
    low, high = invert(miss, -1., 2.)
    assert miss(low) > 0 >= miss(high) and low < high
    assert high - low <= max(RTOL*abs(high), TINY) or nextafter(low, inf) == high

def count_calls(f, *args, **options):
    "The bracket, and the number of calls."
    calls = []
    def counted(x):
        calls.append(x)
        return f(x)
    return invert(counted, *args, **options), len(calls)

@pytest.mark.parametrize('f', [lambda x: 5 - x, lambda x: 30 - x**2, lambda x: np.exp(-x) - 1e-9,
                               lambda x: 1/(1 + x) - 1e-3, lambda x: -np.log(1e-3 + x/9)])
def test_smooth_functions_take_few_calls(f):
    assert count_calls(f, 0.)[1] <= 30
    assert count_calls(f, 0., 2000.)[1] <= 30

@pytest.mark.parametrize('f', [lambda x: 1. if x < 1e-5 else -1., lambda x: inf if x < .3 else -inf,
                               lambda x: (.3 - x)**21, lambda x: 1e-300 if x < .3 else -1e300])
def test_the_worst_functions_take_four_times_as_many_as_halves(f):
    (low, high), calls = count_calls(f, 0., 1.)
    assert f(low) > 0 >= f(high) and calls <= 4*80

def test_ends_of_an_inversion():
    assert invert(lambda x: 1 - x, 2., 9.) == Crossing(2., 2.)          # enough already
    assert invert(lambda x: 1 - x, 1.) == Crossing(1., 1.)
    assert invert(lambda x: 1., 0., 9.) == Crossing(9., inf)            # not enough at the end
    low, high = invert(lambda x: 1., 0.)
    assert low > 1e307 and high == inf
    assert invert(lambda x: 9 - x, 0., 9.).high == 9.                   # the end is the root
    low, high = invert(lambda x: 1. if x <= 0 else -1., 0., 1.)
    assert low == 0 < high <= TINY

def test_a_guess_saves_calls():
    f = lambda x: 100 - x
    assert count_calls(f, 0., guess=100.1)[1] < count_calls(f, 0.)[1]
    assert invert(f, 0., guess=99.5, rtol=.01) == Crossing(99.5, 100.5)
    for guess in (-5., 0., 300., inf):
        assert invert(f, 0., 200., guess=guess).high == pytest.approx(100, rel=1e-15)

def test_widths_that_are_asked_for():
    f = lambda x: np.exp(-x) - .2
    for rtol in (.5, 1e-3, 1e-9):
        low, high = invert(f, 0., rtol=rtol)
        assert 0 < high - low <= rtol*high
    low, high = invert(f, 0., rtol=0., atol=1e-4)
    assert 0 < high - low <= 1e-4
    low, high = invert(f, 0., rtol=0.)
    assert nextafter(low, inf) == high                                  # neighbours

def test_near_enough_at_one_end():
    f = lambda x: 2 - x*x
    low, high = invert(f, 0., 9., enough=-.1)
    assert f(low) > 0 >= f(high) >= -.1
    assert count_calls(f, 0., 9., enough=-.1)[1] < count_calls(f, 0., 9.)[1]
    def flat(x): return max(1 - x, 0.)
    assert invert(flat, 0., 2., enough=0.) == Crossing(0., 2.)          # 0 at the end
    low, high = invert(flat, 0., 2.)
    assert low < 1 <= high and high - low <= RTOL*high                  # 0 alone is not enough
    low, high = invert(f, 0., 9., enough=-1e-300)                       # the width ends it too
    assert nextafter(low, inf) == high or high - low <= RTOL*high

@pytest.mark.parametrize('f', [lambda x: 1e-200 if x < .1 else (1e200 if x < .4 else -1e-200),
                               lambda x: 1e308 if x < .3 else -1e308,
                               lambda x: inf if x < .3 else -1., lambda x: 1. if x < .3 else -inf,
                               lambda x: 5e-324 if x < .3 else 0.])
def test_values_beyond_all_proportion(f):
    "Squares and differences of the values may be beyond doubles."
    low, high = invert(f, 0., 1.)
    assert f(low) > 0 >= f(high) and high - low <= RTOL*high

@pytest.mark.parametrize('start', [1e17, 1e150, -1e150, 1e300])
def test_steps_outwards_reach_the_next_double(start):
    "Where the next double is farther away than 1."
    goal = nextafter(start, inf) if start > 0 else 7.
    (low, high), calls = count_calls(lambda x: 1. if x < goal else -1., start)
    assert low < goal <= high and nextafter(low, inf) == high or high - low <= RTOL*abs(high)
    assert calls <= 600

@pytest.mark.parametrize('where', [0., 1., .5])
def test_nan_is_on_no_side(where):
    def miss(x): return nan if x == where else .7 - x
    with pytest.raises(ValueError, match='miss must be a number everywhere'):
        invert(miss, 0., 1., guess=.5)

def test_roots_are_scipys():
    "Bit for bit, where SciPy has a solver of this kind; no root where both signs are one."
    elementwise = pytest.importorskip('scipy.optimize.elementwise')
    rng = np.random.default_rng(0)
    for f, low, high in ((lambda x, c: x**3 + x - c, -1e3, 1e3),
                         (lambda x, c: np.tanh(x - c), -900., 1200.),
                         (lambda x, c: (x - c)**9, -700., 700.)):
        c = rng.uniform(-800, 800, (20, 5))
        ends = np.full(c.shape, low), np.full(c.shape, high)
        theirs = elementwise.find_root(f, ends, args=(c,)).x
        ours = find_roots(f, *ends, (c,))
        assert np.array_equal(ours, theirs, equal_nan=True) and ours.shape == c.shape
    assert np.isnan(find_roots(lambda x: x*x + 1, np.array([-1.]), np.array([1.])))
    assert find_roots(lambda x: x, np.array(-1.), np.array(3.)) == pytest.approx(0, abs=1e-300)

@pytest.mark.parametrize('kinds, n', [(1, 4), (2, 3), (3, 2), (4, 4), (6, 3), (9, 2), (3, 8)])
def test_ways_to_draw_are_all_there_are(kinds, n):
    "The same in order, by kinds and by draws; many kinds are not gone through one by one."
    found = ways_to_draw(kinds, n)
    counts = sum(np.eye(kinds, dtype=int)[kind]*np.atleast_1d(often)[:, None]
                 for kind, often in found)
    drawn = [*combinations_with_replacement(range(kinds), n)][::-1]
    assert counts.tolist() == [[way.count(k) for k in range(kinds)] for way in drawn]
    assert len(found) == min(kinds, n)

def test_a_capped_exponential_is_the_exponential_below_its_limit():
    "And from there on its largest value, which leaves room for factors."
    for x in (-inf, -745., -1e-300, 0., 3., SAFE_LOG):
        assert capped_exp(x) == np.exp(x) and capped_expm1(x) == np.expm1(x)
    beyond = np.array([nextafter(SAFE_LOG, inf), LARGEST_LOG, 1e308, inf])
    assert set(capped_exp(beyond)) == {np.exp(SAFE_LOG)}
    assert 1e40*capped_expm1(beyond).sum() < inf and np.exp(LARGEST_LOG) < inf

@pytest.mark.parametrize('rows', [0, 1, 2, 7, 1000])
@pytest.mark.parametrize('each', [0, 1, 1000, AT_ONCE/3, AT_ONCE, 5*AT_ONCE])
def test_blocks_are_small_and_in_their_order(rows, each):
    "Each has at most so many numbers, or one row; together they are all, and not many more parts."
    parts = in_blocks(np.arange(rows), each)
    assert parts and np.concatenate(parts).tolist() == list(range(rows))
    assert all(len(part) <= 1 or len(part)*each <= AT_ONCE for part in parts)
    assert len(parts) <= max(1, 2*rows*each/AT_ONCE + 1)
