"Few Laplace steps: the sum in whole numbers against integrals, and the accountant on it."
from math import log

import mpmath as mp
import numpy as np
import pytest

from dp_saddle import ContourAccountant, Laplace, PoissonSubsampled, RandomizedResponse
from dp_saddle.engine.laplace_polynomials import CornersTable
from dp_saddle.engine.ways import ConditionedTable
from dp_saddle.plrv import ComposedLoss


def table(*kinds):
    "Of (count, scale) pairs."
    return CornersTable(ComposedLoss([(Laplace(scale=b).remove, n) for n, b in kinds]))

def delta_by_integral(n, d, eps):
    "n steps of sensitivity over scale d, by the inversion of M on the line Re z = 1, in 30 digits."
    def M(z):
        s = z + mp.mpf(1)/2
        return mp.exp(-d/2)*(mp.cosh(s*d) + mp.sinh(s*d)/(2*s))
    def term(y):
        z = mp.mpc(1, y)
        return (mp.exp(n*mp.log(M(z)) - z*eps)/(z*(z + 1))).real
    def tail(y, power):                    # of 1/(y^power) beyond, by the size of M
        return mp.exp(-eps)*((mp.exp(d)/2 + mp.exp(-2*d)/2)*(1 + 1/y))**n*y**(1 - power)
    end = mp.mpf(4000)
    return mp.quad(term, mp.linspace(0, end, 1601))/mp.pi, tail(end, 2)/mp.pi

@pytest.mark.slow
@pytest.mark.parametrize('n, d, eps', [(3, .5, .4), (6, 1., 2.), (12, .3, .9)])
def test_curve_is_the_contour_integral(n, d, eps):
    with mp.workdps(20):
        value, off = delta_by_integral(n, mp.mpf(d), mp.mpf(eps))
        low, _, up = np.exp(table((n, 1/d)).log_bounds(np.array([eps])))[:, 0]
        assert low - off <= value <= up + off and off < value/100

@pytest.mark.parametrize('delta', [.3, 1e-5, 1e-14, 1e-40])
def test_there_and_back(delta):
    for kinds in ([(5, 1.)], [(3, 1.), (2, 2.)], [(30, 1.)], [(2, .1), (1, 7.), (4, 30.)]):
        asked = table(*kinds)
        low, mid, up = asked.epsilon(delta)
        assert 0 <= low <= mid <= up <= low + 2e-13*(1 + asked.reach)
        if low > 0: assert asked.bound(low, -1) >= log(delta)
        if up < asked.reach: assert asked.bound(up, 1) <= log(delta)

def test_what_the_accountant_says():
    run = 5*Laplace(scale=1.)
    accountant = ContourAccountant(run)
    deltas = np.array([1e-14, 1e-9, .01])
    found, alone = accountant.epsilon(deltas), [accountant.epsilon(x) for x in deltas]
    assert (found.upper - found.lower < 1e-12).all()
    assert [one.upper for one in alone] == found.upper.tolist()
    line = ContourAccountant(run, levels=False).epsilon(1e-9)       # one line only
    assert line.lower <= found.upper[1] and found.lower[1] <= line.upper
    assert alone[1].width <= line.width < 1e-11
    eps = np.linspace(0, 5.1, 12)
    curve = accountant.delta(eps)
    assert (curve.lower <= curve.upper).all() and (np.diff(curve.estimate) <= 0).all()
    assert curve.upper[-1] == 0 and (curve.upper - curve.lower).max() < 1e-12

def test_beside_randomised_response():
    "Given what finite steps gave, the others' curve is asked, here too."
    rest = Laplace(scale=2.) + Laplace(scale=3.)
    answer = RandomizedResponse(eps=1.).remove
    table = ConditionedTable(ComposedLoss([*rest.remove.parts, (answer, 1)]))
    low, _, up = np.exp(table.log_delta(np.array([.5])))[:, 0]
    given = ContourAccountant(rest)
    p = 1/(1 + np.exp(-1))                   # the curve of the rest at -.5 from that at .5
    above, below = given.delta(1.5).upper, given.delta(.5).upper
    exact = (1 - p)*above + p*(1 - np.exp(-.5) + np.exp(-.5)*below)
    assert low <= exact*(1 + 1e-12) and exact <= up*(1 + 1e-12) and up - low < 1e-11

def test_what_fits():
    def fits(run): return CornersTable.fit(run.remove)
    assert fits(2*Laplace(scale=1.)) and not fits(1*Laplace(scale=1.))
    assert not fits(5*PoissonSubsampled(Laplace(scale=1.), rate=.5))
    assert not fits(5*Laplace(scale=1e-4)) and not fits(5*Laplace(scale=1e9))
    assert not fits(sum((Laplace(scale=1. + i/9) for i in range(12)), 0*Laplace(scale=1.)))

def test_very_many_eps_are_left_to_the_line():
    asked = table((30, 1.))
    assert np.isinf(asked.log_bounds(np.full(10**5, 20.))[0]).all()
    assert np.isfinite(asked.log_bounds(np.full(3, 20.))).all()

def test_next_to_the_end_rounding_is_named():
    "Where losses are too little known for delta, no line is asked, and the warning says why."
    accountant = ContourAccountant(3*Laplace(scale=.5))
    with pytest.warns(UserWarning, match='known to rounding only'):
        found = accountant.delta(6 - 1e-13)
    assert 0 < found.lower < 1e-13/8 < found.upper < 2e-13
