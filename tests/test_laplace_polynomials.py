"Few Laplace steps: the sum in whole numbers against integrals, and the accountant against it."
from math import log

import mpmath as mp
import numpy as np
import pytest

from dp_saddle import ContourAccountant, Laplace, PoissonSubsampled, RandomizedResponse
from dp_saddle.engine.laplace_polynomials import ExactLaplaceCurve
from dp_saddle.engine.ways import GivenOutcomes
from dp_saddle.plrv import ComposedLoss


def table(*kinds):
    "Of (count, scale) pairs."
    return ExactLaplaceCurve(ComposedLoss([(Laplace(scale=b).remove, n) for n, b in kinds]))

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

@pytest.mark.parametrize('kinds', [[(2, 2.)], [(5, 1.)], [(20, 6.)], [(3, 1.), (2, 2.)],
                                   [(2, .1), (1, 7.), (4, 30.)]], ids=str)
def test_the_accountant_meets_the_sums(kinds):
    "Lines without corners share nothing with them: both hold the truth, next to the end as well."
    run, exact = sum(n*Laplace(scale=b) for n, b in kinds), table(*kinds)
    accountant = ContourAccountant(run)
    for delta in (.01, 1e-5, 1e-14):
        low, _, up = exact.epsilon(delta)
        found = accountant.epsilon(delta)
        assert found.lower <= up and low <= found.upper
        assert found.width <= 1e-10*found.upper
    eps = np.linspace(.05, .95, 7)*exact.reach
    low, _, up = np.exp(exact.log_bounds(eps))
    curve = accountant.delta(eps)
    assert (curve.lower <= up).all() and (low <= curve.upper).all()
    assert (curve.upper - curve.lower <= 1e-9*curve.upper).all()

def test_one_line_alone_meets_the_sums():
    low, _, up = table((5, 1.)).epsilon(1e-9)
    line = ContourAccountant(5*Laplace(scale=1.), levels=False).epsilon(1e-9)
    assert line.lower <= up and low <= line.upper and line.width < 1e-11
    curve = ContourAccountant(5*Laplace(scale=1.)).delta(np.linspace(0, 5.1, 12))
    assert (np.diff(curve.estimate) <= 0).all() and curve.upper[-1] == 0

def test_beside_randomised_response():
    "Given what finite steps gave, the others' curve is asked: the sums have it."
    rest, answer = Laplace(scale=2.) + Laplace(scale=3.), RandomizedResponse(eps=1.)
    given = GivenOutcomes(ComposedLoss([*rest.remove.parts, (answer.remove, 1)]))
    low, _, up = np.exp(given.log_delta(np.array([.5])))[:, 0]
    p, logs = 1/(1 + np.exp(-1)), table((1, 2.), (1, 3.)).log_bounds(np.array([1.5, .5]))
    above, below = np.exp(logs[1])           # the curve of the rest at -.5 from that at .5
    exact = (1 - p)*above + p*(1 - np.exp(-.5) + np.exp(-.5)*below)
    assert low <= exact <= up < low + 1e-9

def test_what_fits():
    def fits(run): return ExactLaplaceCurve.fit(run.remove)
    assert fits(2*Laplace(scale=1.)) and fits(30*Laplace(scale=1.) + Laplace(scale=7.))
    assert not fits(5*PoissonSubsampled(Laplace(scale=1.), rate=.5))
    assert not fits(5*Laplace(scale=1e-4)) and not fits(5*Laplace(scale=1e9))

def test_next_to_the_end():
    "Where losses are hardly known for delta, bounds are wide, hold, and a warning says so."
    exact, eps = table((3, .5)), 6 - 1e-13
    low, _, up = np.exp(exact.log_bounds(np.array([eps])))[:, 0]
    with pytest.warns(UserWarning, match='wider than asked'):
        found = ContourAccountant(3*Laplace(scale=.5)).delta(eps)
    assert 0 < found.lower <= up and low <= found.upper < 2e-13
