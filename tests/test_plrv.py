"The protocol of a loss: the Gaussian, sums, and bounds with a mass at infinity."
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_saddle import Gaussian, Laplace, PoissonSubsampled, RandomizedResponse
from dp_saddle.plrv import (
    PLRV,
    Bounds,
    ComposedLoss,
    GaussianLoss,
    as_composition,
    gaussian_log_delta,
)

# Bounds

chance = st.floats(0, 1)

@given(chance, chance, chance, chance)
def test_a_mass_is_added_to_bounds(a, b, c, p):
    "The truth is between, and nothing is far from it."
    low, mid, up = np.sort([a, b, c])*(1 - p)         # the finite part has no more
    bounds = Bounds(low, mid, up).with_mass(p)
    assert 0 <= bounds.lower <= bounds.estimate <= bounds.upper <= 1
    assert bounds.lower <= low + p and min(up + p, 1) <= bounds.upper
    np.testing.assert_allclose(bounds, [low + p, mid + p, min(up + p, 1)], rtol=2e-12)

def test_no_mass_changes_no_bit():
    values = np.array([.1, 1e-300, 5e-324]), np.array([.2, 1e-299, 1e-322]), np.array([.3, 1., .5])
    for old, new in zip(values, Bounds(*values).with_mass(0.), strict=True):
        assert old.tolist() == new.tolist()

# The Gaussian loss

@pytest.mark.parametrize('mu', [1e-8, 1e-3, .3, 1., 9.99, 10.01, 30., 1e3])
def test_gaussian_curve_at_the_seams(mu):
    "a = 1, and mu = 10, are where the forms change; each is right on both sides."
    a = np.array([-38., -3., 0., 1 - 1e-9, 1 + 1e-9, 1.6, 5.])
    eps = mu*(mu/2 - a)
    with mp.workdps(400):
        m = mp.mpf(mu)
        for e in eps:
            at = m/2 - mp.mpf(e)/m
            want = mp.log(mp.ncdf(at) - mp.e**mp.mpf(e)*mp.ncdf(at - m))
            got = gaussian_log_delta(e, mu)
            digits = 1e-12 if e >= 0 or mu > .1 else 1e-15/mu      # a rising curve and a small mu
            assert abs(got - want) < digits*max(1, at**2), e

def test_gaussian_curve_where_nothing_is_left():
    with np.errstate(divide='raise', over='raise', invalid='raise'):
        assert gaussian_log_delta(1e300, 1.) == -np.inf
        assert gaussian_log_delta(-1e300, 1.) == 0
    assert gaussian_log_delta(np.zeros((2, 1)), np.ones(3)).shape == (2, 3)
    assert GaussianLoss(1.).delta(-np.inf) == 1 and GaussianLoss(1.).delta(np.inf) == 0

@given(st.floats(1e-3, 30), st.floats(0, 40), st.lists(st.floats(0, 50), min_size=1, max_size=4))
def test_what_a_gaussian_line_says(mu, t, s):
    "K and its change to within what is said, against many digits; and a decay that is one."
    loss, s = GaussianLoss(mu), np.sort(s)
    line, decay = loss.line(t, s), loss.decay(t, s)
    with mp.workdps(40):
        def exact(z): return mp.mpf(mu)**2*z*(z + 1)/2
        base = exact(mp.mpf(t))
        assert abs(line.K - base) <= line.error
        for x, change, log_error in zip(s, line.change, line.log_error, strict=True):
            want = exact(mp.mpc(t, x)) - base
            off = abs(mp.expm1(want - mp.mpc(change)))
            assert off <= mp.expm1(mp.mpf(float(log_error))) + mp.mpf(10)**-30
            beyond = decay.log_density[list(s).index(x)]
            assert 0 <= mp.mpf(float(beyond)) - mp.re(base + want) <= 1e-12*(1 + abs(beyond) + base)
    assert decay.log_atoms == -np.inf

# Sums

def S(sigma, rate): return PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

def test_one_step_of_a_composition():
    "A composition of one step has that step's laws; of two, it sends the reader to an accountant."
    one, two = S(1., .1), 2*S(1., .1)
    assert (1*one).remove.cdf(.2) == one.remove.cdf(.2)
    assert (1*one).add.log_delta(.2) == one.add.log_delta(.2)
    three = (3*Gaussian(sigma=3.)).remove.cdf(.5)
    assert three == pytest.approx(Gaussian(sigma=3**.5).remove.cdf(.5), rel=1e-14)
    with pytest.raises(ValueError, match='exactly one step .*, got 2 steps'): two.remove.cdf(.2)
    with pytest.raises(ValueError, match='exactly one step'): two.add.log_delta(.2)

PARTS = [(S(1., .1).remove, 20), (Laplace(scale=4.).remove, 3), (GaussianLoss(.3), 2)]

def test_what_adds_up():
    total = ComposedLoss(PARTS)
    z, t, s = np.array([.5, 1 + 3j, 9.]), np.array([.1, 2., 30.]), np.array([0., .5, 8.])
    for name, arguments in (('cgf', (z,)), ('cgf_on', (z,)), ('real_cgf', (t,)),
                            ('cumulants', (t, 3)), ('cumulants_on', (t, 3))):
        parts = sum(n*getattr(p, name)(*arguments) for p, n in PARTS)
        np.testing.assert_allclose(getattr(total, name)(*arguments), parts, rtol=1e-13)
    lines = [(p.line(.7, s), n) for p, n in PARTS]
    line = total.line(.7, s)
    assert line.K == pytest.approx(sum(n*v.K for v, n in lines), rel=1e-13)
    assert line.error >= sum(n*v.error for v, n in lines)
    np.testing.assert_allclose(line.change, sum(n*v.change for v, n in lines), rtol=1e-12)
    assert (line.log_error >= sum(n*v.log_error for v, n in lines)*(1 - 1e-12)).all()

def test_ends_and_exchange():
    total = ComposedLoss(PARTS[1:2])
    assert (total.ess_inf, total.ess_sup) == (-.75, .75)
    assert total.rounding > ComposedLoss([(PARTS[1][0], 1)]).rounding > 0
    mixed = ComposedLoss(PARTS)
    assert mixed.reverse is mixed.reverse and mixed.ess_sup == math.inf
    assert mixed.reverse.cgf(-1.4) == pytest.approx(mixed.cgf(.4), rel=1e-11)
    assert mixed.nodes_at(3.) == max(p.nodes_at(3.) for p, _ in mixed.parts) > 1

def test_no_steps_at_all():
    nothing = ComposedLoss([(GaussianLoss(1.), 0), (Laplace(scale=1.).remove, 0)])
    assert nothing.parts == [] and nothing.p_inf == nothing.ess_inf == nothing.ess_sup == 0
    assert nothing.cgf(3.) == 0 and nothing.largest_tilt > 1e8 and nothing.rounding == 0
    assert nothing.cumulants(np.ones(2), 3).shape == (3, 2)

def test_masses_at_infinity():
    from dp_saddle import ApproxDP
    one = ApproxDP(eps=.1, delta=1e-5).remove
    assert ComposedLoss([(one, 1)]).p_inf == 1e-5 and ComposedLoss([(one, 1)]).p_inf_exact
    many = ComposedLoss([(one, 10**6)])
    assert not many.p_inf_exact
    assert many.p_inf == pytest.approx(-math.expm1(1e6*math.log1p(-1e-5)), rel=1e-14)

def test_as_composition():
    one = RandomizedResponse(eps=1.).remove
    assert as_composition(one).parts == [(one, 1)]
    assert as_composition(both := ComposedLoss(PARTS)) is both
    for wrong in (None, 3., RandomizedResponse(eps=1.)):
        with pytest.raises(TypeError, match='plrv must be a PLRV'): as_composition(wrong)

# A loss of one's own

class Coin(PLRV):
    "A bit told truly with probability 3/4."
    ess_inf, ess_sup = -math.log(3), math.log(3)
    def cgf(self, z): return np.log(.75*3.**z + .25*3.**-z)

def test_what_follows_for_a_loss_of_ones_own():
    loss, theirs = Coin(), RandomizedResponse(eps=math.log(3)).remove
    t = np.array([.1, 3.])
    np.testing.assert_allclose(loss.real_cgf(t), theirs.real_cgf(t), rtol=1e-13)
    np.testing.assert_allclose(ComposedLoss([(loss, 7)]).cgf(t), 7*theirs.cgf(t), rtol=1e-13)
    assert loss.nodes_at(5.) == 1 and loss.largest_tilt == GaussianLoss(1.).largest_tilt
    assert 0 < loss.rounding < 1e-14 and loss.p_inf == 0 and not loss.p_inf_exact

def test_a_grid_limits_the_tilt():
    class Hungry(Coin):
        def nodes_at(self, t): return int(1000*(1 + t))
    limit = Hungry().largest_tilt
    assert 30 < limit < 70 and Hungry().nodes_at(limit) <= 1 << 16 < Hungry().nodes_at(2*limit)
    class Starving(Hungry):
        mu = 1e6
        def nodes_at(self, t): return 10**6
    with pytest.raises(ValueError, match='noise over sensitivity .* must be larger .* got 1e-06'):
        _ = ComposedLoss([(Starving(), 2)]).largest_tilt
