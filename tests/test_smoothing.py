"engine/smoothing: a curve, smoothed, and its brackets."
import mpmath
import numpy as np
import pytest
from mpmath import mpf, workdps

from dp_saddle.engine.smoothing import PIECES, Smoothing, power


@pytest.mark.parametrize('x', [1e-9, 1e-5, .0199, .0201, 3.])
def test_the_shift_of_a_smoothing(x):
    "log(sinh(x)/x) for each of its pieces, to eleven digits, also where the quotient is nearly 1."
    with workdps(50):
        want = float(mpmath.log(mpmath.sinh(mpf(x))/mpf(x)))
    for pieces in (8, PIECES):
        assert Smoothing(2*x, pieces).shift/pieces == pytest.approx(want, rel=1e-11)

@pytest.mark.parametrize('pieces', [8, PIECES])
@pytest.mark.parametrize('w', [1e-6, 1e-3, .1, .2586, .9])
def test_transform_and_its_rounding(w, pieces):
    "On a line, where real parts are shared, and at points of any; near the zeros of sinh, too."
    spline, chance = Smoothing(w, pieces), np.random.default_rng(int(1/w) + pieces)
    zeros = 2*np.pi*np.arange(1, 9)/w
    line = 2.5 + 1j*np.append(chance.uniform(0, 40/w, 40), zeros)
    points = chance.uniform(.1, 9, 40) + 1j*chance.uniform(0, 9/w, 40)
    used = []
    with workdps(60):
        for z in (line, points):
            values, allowed = spline.transform(z), spline.rounding(z)
            for at, value, most in zip(z, values, allowed, strict=True):
                x, half = mpmath.mpc(at)*mpf(w)/2, mpf(w)/2
                shift = pieces*mpmath.log(mpmath.sinh(half)/half)
                exact = (mpmath.sinh(x)/x)**pieces*mpmath.exp(mpmath.mpc(at)*shift)
                used.append(float(abs(exact - mpmath.mpc(value))/most))
    assert .005 < max(used) <= 1

@pytest.mark.parametrize('pieces', [8, PIECES])
def test_a_bound_on_the_transform_falls(pieces):
    s = np.geomspace(1e-2, 1e6, 400)
    for t, w in ((.3, .01), (5., 1e-4), (40., .03)):
        bound, spline = Smoothing(w, pieces).log_bound(t, s), Smoothing(w, pieces)
        assert (np.diff(bound) <= 0).all()
        with np.errstate(divide='ignore'):
            assert (np.log(np.abs(spline.transform(t + 1j*s))) <= bound + 1e-9).all()

def test_no_smoothing():
    z = np.array([1. + 2j, 3.])
    none = Smoothing(0.)
    assert (none.transform(z) == 1).all() and not none.rounding(z).any() and none.reach == 0
    assert power(np.array([3.]), 5) == 243
