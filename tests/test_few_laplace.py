"Few Laplace steps: the sum over sets against integrals, and the accountant against the sum."
import mpmath as mp
import numpy as np
import pytest

from dp_saddle import ContourAccountant, Laplace, RandomizedResponse
from dp_saddle.engine.ways import GivenOutcomes
from dp_saddle.plrv import ComposedLoss
from oracles import few_laplace


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
def test_sum_is_the_contour_integral(n, d, eps):
    with mp.workdps(20):
        value, off = delta_by_integral(n, mp.mpf(d), mp.mpf(eps))
        assert abs(few_laplace([(n, d)], eps) - value) <= off < value/100

@pytest.mark.parametrize('d', [.25, 1., 7.])
def test_sum_of_one_step(d):
    "1 - e^{(eps - d)/2} at every eps from 0 to d, and 0 beyond."
    with mp.workdps(40):
        for eps in (0., .3*d, .999*d):
            assert abs(few_laplace([(1, d)], eps)/-mp.expm1((eps - mp.mpf(d))/2) - 1) < 1e-38
        assert few_laplace([(1, d)], d) == 0 == few_laplace([(3, d)], 4*d)

@pytest.mark.parametrize('kinds', [[(2, 2.)], [(5, 1.)], [(20, 6.)], [(3, 1.), (2, 2.)],
                                   [(2, .1), (1, 7.), (4, 30.)]], ids=str)
def test_the_accountant_holds_the_sum(kinds):
    "Lines without corners share nothing with it; next to the end as well."
    run, sizes = sum(n*Laplace(scale=b) for n, b in kinds), [(n, 1/b) for n, b in kinds]
    accountant = ContourAccountant(run)
    for delta in (.01, 1e-5, 1e-14):
        found = accountant.epsilon(delta)
        assert few_laplace(sizes, found.upper) <= delta <= few_laplace(sizes, found.lower)
        assert found.width <= 1e-10*found.upper
    eps = np.linspace(.05, .95, 7)*sum(n*d for n, d in sizes)
    curve, exact = accountant.delta(eps), [few_laplace(sizes, e) for e in eps]
    assert all(a <= x <= b for a, x, b in zip(curve.lower, exact, curve.upper, strict=True))
    assert (curve.upper - curve.lower <= 1e-9*curve.upper).all()

def test_one_line_alone_holds_the_sum():
    line = ContourAccountant(5*Laplace(scale=1.), levels=False).epsilon(1e-9)
    assert few_laplace([(5, 1.)], line.upper) <= 1e-9 <= few_laplace([(5, 1.)], line.lower)
    assert line.width < 1e-11
    curve = ContourAccountant(5*Laplace(scale=1.)).delta(np.linspace(0, 5.1, 12))
    assert (np.diff(curve.estimate) <= 0).all() and curve.upper[-1] == 0

def test_beside_randomised_response():
    "Given what finite steps gave, the others' curve is asked: the sum has it."
    rest, answer = Laplace(scale=2.) + Laplace(scale=3.), RandomizedResponse(eps=1.)
    given = GivenOutcomes(ComposedLoss([*rest.remove.parts, (answer.remove, 1)]))
    low, _, up = np.exp(given.log_delta(np.array([.5])))[:, 0]
    p, (above, below) = 1/(1 + np.exp(-1)), (
        few_laplace([(1, 1/2), (1, 1/3)], eps) for eps in (1.5, .5))
    # the curve of the rest at -.5 from that at .5
    exact = (1 - p)*above + p*(1 - np.exp(-.5) + np.exp(-.5)*below)
    assert low <= exact <= up < low + 1e-9

def test_next_to_the_end():
    "Where losses are hardly known for delta, bounds are wide, hold, and a warning says so."
    eps = 6 - 1e-13
    with pytest.warns(UserWarning, match='wider than asked'):
        found = ContourAccountant(3*Laplace(scale=.5)).delta(eps)
    assert 0 < found.lower <= few_laplace([(3, 2.)], eps) <= found.upper < 2e-13
