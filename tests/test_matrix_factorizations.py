"""sampling.matrix_factorizations: noise that is correlated between steps. References: all patterns
of steps and all signs, by enumeration; columns in Fractions; the inverse matrix."""
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_saddle import Gaussian, MatrixFactorization, delta
from dp_saddle.base import TooDear
from dp_saddle.base.numerics import ULP
from dp_saddle.sampling import matrix_factorizations as page

LOWER = np.tril(np.random.default_rng(7).normal(size=(7, 7))) + 3*np.eye(7)
MADE = {
    'C': MatrixFactorization(C=LOWER),
    'banded C': MatrixFactorization(C=LOWER*np.tri(7, k=0)*(1 - np.tri(7, k=-3))),
    'column': MatrixFactorization(column=[2., -1, .5, 0, 3, 1, .1]),
    'bands': MatrixFactorization(bands=[1., .5, .25], steps=7),
    'one band': MatrixFactorization(bands=[2.], steps=5),
    'inverse_bands': MatrixFactorization(inverse_bands=[2., -1., -.3], steps=7),
    'buffers': MatrixFactorization(buffers=([.9, .3], [.2, .4]), steps=7),
    'one step': MatrixFactorization(buffers=([.9], [.2]), steps=1),
}
each_way = pytest.mark.parametrize('way', MADE)

def patterns(n, min_sep=1, most=None):
    "All sets of steps, not empty, that are so far apart."
    for k in range(1, (n if most is None else most) + 1):
        for p in itertools.combinations(range(n), k):
            if all(b - a >= min_sep for a, b in itertools.pairwise(p)): yield list(p)

def by_signs(C, all_patterns):
    "The largest move of a record whose gradients are numbers: a lower bound on any record's."
    return max(np.linalg.norm(C[:, p] @ np.array(signs))
               for p in all_patterns for signs in itertools.product((-1, 1), repeat=len(p)))

def by_norms(C, all_patterns):
    "The claim's upper bound, by enumeration."
    X = np.abs(C.T @ C)
    return max(math.sqrt(X[np.ix_(p, p)].sum()) for p in all_patterns)

@each_way
def test_unit_vectors_give_the_inverse(way):
    "The noise's law exactly: its matrix is C^-1, so its covariance is sigma^2 (C^T C)^-1."
    made = MADE[way]
    rows = np.array(list(made.correlate(np.eye(made.steps))))
    np.testing.assert_allclose(rows @ made.matrix(), np.eye(made.steps), atol=1e-13)
    assert not np.triu(rows, 1).any()        # no step waits for a later one

@each_way
def test_no_more_noise_than_steps(way):
    made = MADE[way]
    assert len(list(made.correlate([1.]*(made.steps + 3)))) == made.steps

def test_the_noise_is_streamed():
    "Each row needs the bands' last rows alone, and is there before the next is drawn."
    made = MatrixFactorization(inverse_bands=[1., -.9], steps=100)
    rows = made.noise(sigma=3., shape=(2, 3), rng=np.random.default_rng(1))
    rng = np.random.default_rng(1)
    z = [3*rng.standard_normal((2, 3)) for _ in range(4)]
    np.testing.assert_array_equal(next(rows), z[0])
    for before, now in itertools.pairwise(z):
        np.testing.assert_array_equal(next(rows), now - .9*before)

@each_way
@pytest.mark.parametrize('rule', [
    {}, dict(min_sep=1), dict(min_sep=2), dict(min_sep=3), dict(min_sep=3, max_participations=2),
    dict(max_participations=2), dict(min_sep=100, max_participations=1)])
def test_sensitivities_are_upper_bounds(way, rule):
    "At least what any signs do in any pattern; at most the rows' own patterns; exact where said."
    made, C = MADE[way], MADE[way].matrix()
    if rule.get('min_sep', 1) > made.steps: rule = {}
    limits = (rule.get('min_sep', 1), rule.get('max_participations')) if rule else (1, 1)
    found = made.sensitivity(**rule)
    allowed = list(patterns(made.steps, *limits[:1], limits[1] and min(limits[1], made.steps)))
    assert by_norms(C, allowed) <= found*(1 + 4*ULP)
    assert by_signs(C, allowed) <= found*(1 + 4*ULP)
    exact = not rule or made.num_bands <= limits[0]
    decreasing = made.column is not None and (np.diff(made.column) <= 0).all() \
        and (made.column >= 0).all()
    if exact or decreasing: assert found <= by_norms(C, allowed)*(1 + 1e-12)
    else: assert found <= 1.7*by_norms(C, allowed)

@pytest.mark.parametrize('epochs', [1, 2, 3, 6])
def test_epochs_by_enumeration(epochs):
    "One step in each, at the same place; signs in all ways where some products are negative."
    for made in (MatrixFactorization(bands=[1., .5, .25], steps=6),
                 MatrixFactorization(column=[2., -1, .5, 0, 3, 1]),
                 MatrixFactorization(C=LOWER[:6, :6])):
        b, C = 6//epochs, made.matrix()
        allowed = [list(range(i, 6, b)) for i in range(b)]
        exact = by_norms(C, allowed)
        assert exact <= made.sensitivity(epochs=epochs)*(1 + 4*ULP) <= exact*(1 + 1e-12)
        assert by_signs(C, allowed) <= exact*(1 + 1e-12)

def test_the_worst_pattern_of_a_decreasing_column():
    "Longer than the distance, not banded: as early and as often as it may be, in closed form."
    made = MatrixFactorization(column=.9**np.arange(12.))
    p = [0, 4, 8]
    exact = np.linalg.norm(made.matrix()[:, p].sum(1))
    assert by_norms(made.matrix(), patterns(12, 4)) == pytest.approx(exact, rel=1e-14)
    assert exact <= made.sensitivity(min_sep=4) <= exact*(1 + 1e-12)

@pytest.mark.parametrize('bands', [[1., -.999], [3., -1., -1., -.9], [1., 1.7, .9]])
def test_an_inverse_is_as_near_as_it_says(bands):
    "Its first column in Fractions: the difference in L1 is within `off`."
    made = MatrixFactorization(inverse_bands=bands, steps=60)
    exact = [1/Fraction(bands[0])]
    for k in range(1, 60):
        exact.append(-sum(Fraction(v)*exact[k - j] for j, v in enumerate(bands) if 0 < j <= k)
                     / Fraction(bands[0]))
    wrong = sum(abs(Fraction(float(a)) - b) for a, b in zip(made.column, exact, strict=True))
    assert wrong <= Fraction(made.off) and made.off < 1e-9*np.abs(made.column).sum()
    norm = math.sqrt(sum(x*x for x in exact))
    assert norm <= made.sensitivity() <= norm*(1 + 1e-9)

def test_buffers_are_as_near_as_they_say():
    decay, scale = [.97, .5, 1.], [.1, -.3, .01]
    made = MatrixFactorization(buffers=(decay, scale), steps=200)
    exact = [Fraction(1)] + [sum(Fraction(w)*Fraction(a)**k
                                 for a, w in zip(decay, scale, strict=True)) for k in range(199)]
    wrong = sum(abs(Fraction(float(a)) - b) for a, b in zip(made.column, exact, strict=True))
    assert 0 < wrong <= Fraction(made.off) and made.off < 1e-11

def test_independent_noise_costs_what_it_did():
    "C = 1: as many Gaussian steps as a record takes part in."
    made = MatrixFactorization(bands=[1.], steps=12)
    for rule, k in (({}, 1), (dict(epochs=3), 3), (dict(min_sep=5), 3)):
        found = made.gaussian(2., **rule)
        assert isinstance(found, Gaussian)
        assert delta(found, eps=1.) == pytest.approx(delta(k*Gaussian(sigma=2.), eps=1.), rel=1e-9)
    clipped = made.gaussian(2., clip=3., epochs=3)
    assert clipped.sensitivity == pytest.approx(3*math.sqrt(3), rel=1e-12)

def test_long_toeplitz_matrices_make_no_square():
    "A hundred thousand steps: neither the matrix nor its square is made."
    made = MatrixFactorization(buffers=([.99], [.1]), steps=10**5)
    c = made.column
    assert made.sensitivity() == pytest.approx(np.linalg.norm(c), rel=1e-9)
    assert made.sensitivity(epochs=2) == pytest.approx(
        math.sqrt((c @ c) + (c[:50000] @ c[:50000]) + 2*(c[:50000] @ c[50000:])), rel=1e-9)
    assert made.sensitivity(min_sep=50000) == pytest.approx(made.sensitivity(epochs=2), rel=1e-12)
    rising = MatrixFactorization(bands=[1., 2.], steps=10**5)
    with pytest.raises(TooDear, match='min_sep must be at least 2'): rising.sensitivity(min_sep=1)
    assert 500 <= rising.sensitivity(min_sep=2) < 500*(1 + 1e-9)

def test_best_pattern_by_enumeration():
    rng = np.random.default_rng(3)
    x = rng.exponential(size=(4, 9))
    for m, most in ((1, 4), (2, 3), (4, 9), (9, 1)):
        found = page.best_pattern(x, min_sep=m, max_participations=most)
        exact = [max(row[p].sum() for p in patterns(9, m, most)) for row in x]
        np.testing.assert_allclose(found, exact, rtol=1e-14)

@pytest.mark.parametrize('bad, words', [
    (dict(), 'got none'), (dict(C=np.eye(2), column=[1.]), 'got C, column'),
    (dict(C=[[1., 2.], [0., 1.]]), 'C must be lower triangular, got 2 above'),
    (dict(C=np.ones((2, 3))), r'C must be square and not empty, got shape \(2, 3\)'),
    (dict(C=np.diag([1., 0.])), 'C must have no 0 on its diagonal'),
    (dict(column=[0., 1.]), 'column must have no 0'), (dict(column=[]), 'column must be 1-d'),
    (dict(column=[[1.]]), r'1-d and not empty, got shape \(1, 1\)'),
    (dict(column=[1., math.nan]), 'column must be in'), (dict(bands=[1.]), 'steps must be an'),
    (dict(bands=[1., 1.], steps=1), 'bands must be at most steps = 1 numbers, got 2'),
    (dict(column=[1., 1.], steps=3), 'steps must be 2, as column has, got 3'),
    (dict(inverse_bands=[1., -9.], steps=999), 'grows too fast in 999 steps'),
    (dict(buffers=[1.], steps=3), 'buffers must be'),
    (dict(buffers=([1.], [1., 2.]), steps=3), r'got shapes \(1,\) and \(2,\)'),
    (dict(buffers=([1.5], [1.]), steps=3), r'buf_decay must be in \[0, 1\], got 1.5')])
def test_what_is_no_matrix_is_named(bad, words):
    with pytest.raises(ValueError, match=words): MatrixFactorization(**bad)

@pytest.mark.parametrize('bad, words', [
    (dict(epochs=4), 'epochs must divide steps = 7, got 4'), (dict(epochs=0), 'epochs must be an'),
    (dict(epochs=7, min_sep=1), 'epochs must be None beside min_sep, got 7'),
    (dict(min_sep=8), r'min_sep must be an integer in \[1, 7\], got 8'),
    (dict(max_participations=0), 'max_participations must be an integer >= 1')])
def test_what_is_no_rule_is_named(bad, words):
    with pytest.raises(ValueError, match=words): MADE['bands'].sensitivity(**bad)

def test_noise_is_named_wrong():
    with pytest.raises(ValueError, match='sigma must be in'):
        MADE['bands'].noise(sigma=0., shape=3, rng=np.random.default_rng(0))
    with pytest.raises(TypeError, match='rng must be a numpy.random.Generator'):
        MADE['bands'].noise(sigma=1., shape=3, rng=0)
    with pytest.raises(ValueError, match='clip must be in'): MADE['bands'].gaussian(1., clip=0.)

def test_it_says_what_it_is():
    assert repr(MADE['bands']).startswith('MatrixFactorization(bands=')

def test_matrices_of_the_same_numbers_are_one():
    "In any way they are said; and no number is like a matrix."
    again = MatrixFactorization(buffers=([.9, .3], [.2, .4]), steps=7)
    assert again == MADE['buffers'] and hash(again) == hash(MADE['buffers'])
    assert again != MatrixFactorization(buffers=([.9, .3], [.2, .4]), steps=8)
    assert len(set(MADE.values())) == len(MADE) and again != 1

def test_sums_of_columns_are_known_once():
    low, high = page.ring_of(MADE['bands'], 7)
    assert page.ring_of(MatrixFactorization(bands=[1., .5, .25], steps=7), 7)[0] is low
    C = MADE['bands'].matrix()
    assert (low <= C.T @ C).all() and (C.T @ C <= high).all() and (high - low).max() < 1e-12
