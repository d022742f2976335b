"engine/line, the ends of a loss: beside lines that share no frequency with it, and by hand."
import numpy as np
import pytest
from mpmath import mp

from dp_saddle import ContourAccountant, Laplace, PoissonSubsampled, RandomizedResponse
from dp_saddle.base.numerics import ULP
from dp_saddle.engine.endpoint_expansion import (
    EndsTable,
    SingularPart,
    curves,
    derivatives,
)


def steps(*kinds):
    "A run of (count, scale, rate) triples."
    def one(scale, rate):
        base = Laplace(scale=scale)
        return base if rate == 1 else PoissonSubsampled(base, rate=rate)
    return sum((n*one(b, q) for n, b, q in kinds), 0*Laplace(scale=1.))


def line_alone(run, delta, monkeypatch):
    "The eps of engine/line's lines."
    with monkeypatch.context() as patched:
        patched.setattr(EndsTable, "fit", staticmethod(lambda plrv: False))
        return ContourAccountant(run).epsilon(delta)


def test_derivatives_are_those_of_the_function():
    with mp.workdps(40):
        for tau, sigma in ((0., .5), (1e-3, 2.), (30., 512.), (1e4, 8.)):
            def f(u, tau=tau, sigma=sigma):
                odd = 1 - mp.mpf(tau)*mp.expm1(u)
                return mp.exp((mp.mpf(sigma) - mp.mpf(.5))*u)*odd**-mp.mpf(1.5)
            got = derivatives(tau, sigma)
            for j, x in enumerate(mp.taylor(f, 0, got.size - 1)):
                assert abs(got[j] - mp.factorial(j)*x) <= 128*ULP*mp.factorial(j)*x


@pytest.mark.parametrize("sigma", [2., 8., 512.])
def test_curves_meet_where_their_formulas_do(sigma):
    "Both sums of the claim, and G_k as the k-fold mean of G_0."
    R = np.array([64/sigma*(1 - 1e-12), 64/sigma*(1 + 1e-12)])
    low, high = curves(R, sigma)
    np.testing.assert_allclose(low, high, rtol=1e-10)
    x = np.geomspace(1e-12, 3e3, 60)/sigma
    assert (np.diff(curves(x, sigma), axis=0) >= 0).all()       # they grow with the distance
    assert (curves(x, sigma) <= 1 + 1e-12).all()


def test_one_step_is_its_curve():
    "The main part of one step, with what is left of it, is the closed form."
    loss = PoissonSubsampled(Laplace(scale=1.5), rate=.3).remove
    run = steps((2, 1.5, .3)).remove
    main = SingularPart(run, 8.)
    S, P = main.shifts
    assert len(S) == 3 and P[:, 0].sum() == pytest.approx(np.exp(loss.atoms[1]).sum()**2)


@pytest.mark.parametrize("seed", range(6))
def test_overlaps_with_lines_that_smooth(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    kinds = [(int(rng.integers(1, 12)), float(np.exp(rng.uniform(-1.5, 3))),
              float(np.exp(rng.uniform(-4.5, 0)))) for _ in range(1 + seed % 2)]
    kinds[0] = (kinds[0][0] + 1, *kinds[0][1:])
    run, delta = steps(*kinds), float(10**rng.uniform(-14, -3))
    new, old = ContourAccountant(run).epsilon(delta), line_alone(run, delta, monkeypatch)
    assert new.lower <= old.upper and old.lower <= new.upper, kinds
    assert new.upper - new.lower <= 2*(old.upper - old.lower) + 1e-14


@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_delta_and_epsilon_agree():
    run = steps((5, 2., .1))
    ours = ContourAccountant(run)
    for delta in (1e-3, 1e-6, 1e-12):
        eps = ours.epsilon(delta)
        found = ours.delta([eps.lower, eps.upper])
        assert found.upper[0] >= delta*(1 - 1e-9) and found.lower[1] <= delta*(1 + 1e-9)
    curve = ours.delta(np.linspace(.01, .5, 40))
    assert (np.diff(curve.upper) <= 0).all() and (curve.lower <= curve.upper).all()


def test_who_is_served():
    assert EndsTable.fit(steps((3, 1., .2)).remove)
    assert EndsTable.fit(steps((3, 1., .2), (2, 1., 1.)).remove)
    assert not EndsTable.fit(steps((3, 1., .2)).add)            # no sign there
    assert not EndsTable.fit(steps((1000, 1., .2)).remove)
    assert not EndsTable.fit(steps((3, .01, .2)).remove)
    mild, steep = (EndsTable(steps((5, b, .05)).remove) for b in (2., .12))
    eps, goal = np.array([.05]), np.array([np.log(1e-3)])
    assert isinstance(mild.line_for(eps, goal).plan.known, SingularPart)
    assert not isinstance(steep.line_for(eps, goal).plan.known, SingularPart)


def test_main_part_is_exact_in_its_doubles():
    "Its curve and its transform are of the same measure, whatever the coefficients: spoiled ones."
    run = steps((3, 2., .3))
    table = EndsTable(run.remove)
    eps, goal = np.array([.4]), np.array([-6.])
    fair = table.line_for(eps, goal)
    main = fair.plan.known
    S, P = main.shifts
    spoiled = SingularPart(run.remove, main.sigma)
    spoiled.__dict__["shifts"] = S, P*(1 + 1e-9*np.cos(np.arange(P.size)).reshape(P.shape))
    other = table.line(fair.plan._replace(cut=fair.plan.cut*8, known=spoiled))
    low, mid, up = fair.log_bounds(eps)
    assert abs(other.log_bounds(eps)[1] - mid) < 1e-9
    assert table.line_for(eps, goal).plan.known is main

def near(end):
    "The end of a loss, from both sides, at 0 to 64 ulps."
    ulps = np.array([-64, -50, -17, -9, -5, -3, -2, -1, 0, 1, 2, 64])
    return end + ulps*np.spacing(end)

@pytest.mark.filterwarnings('ignore:the bounds hold', 'ignore:max_nodes')
@pytest.mark.parametrize('scale, rate, n', [
    (1., .5, 5), (1., .5, 3), (.43, .02, 3), pytest.param(3., .9, 10, marks=pytest.mark.slow)])
@pytest.mark.parametrize('way', ['remove', 'add'])
def test_next_to_the_largest_loss(scale, rate, n, way):
    """Within what all steps at their largest cost, w^n (1 - e^{eps - end}), and what is proved of
    doubles: eps may be some 100 ulp further."""
    plrv = getattr(n*PoissonSubsampled(Laplace(scale=scale), rate=rate), way)
    eps = near(plrv.ess_sup)
    low, _, up = ContourAccountant(plrv).delta(eps)
    with mp.workdps(60):
        d, q = 1/mp.mpf(scale), mp.mpf(rate)
        if way == 'remove': end, w = mp.log1p(q*mp.expm1(d)), ((1 - q)*mp.exp(-d) + q)/2
        else: end, w = -mp.log1p(q*mp.expm1(-d)), mp.mpf(1)/2
        exact = [float(w**n*max(-mp.expm1(mp.mpf(e) - n*end), 0)) for e in eps.tolist()]
    assert (low <= exact).all() and (exact <= up).all()
    assert up.max() < float(w)**n*1e-12

@pytest.mark.filterwarnings('ignore:the bounds hold', 'ignore:max_nodes')
@pytest.mark.parametrize('run', [
    pytest.param(PoissonSubsampled(Laplace(scale=.3), rate=.5) + RandomizedResponse(eps=.5),
                 marks=pytest.mark.slow),
    3*PoissonSubsampled(Laplace(scale=1.), rate=.5) + 2*Laplace(scale=2.)], ids=str)
def test_next_to_the_largest_loss_of_a_composition(run):
    for plrv in (run.remove, run.add):
        low, _, up = ContourAccountant(plrv).delta(near(plrv.ess_sup)[[3, 7, 8, 9]])
        assert (0 <= low).all() and (low <= up).all() and up.max() < 1e-12
