"engine/mixed_steps: what a step between two kinds adds."
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_saddle.engine.mixed_steps import jump_bounds, mixing_bounds, split_steps


@pytest.mark.parametrize('u', [.1, -1.4, 1.4j, .9 + .9j, 1e-8])
def test_mixing_bounds_hold(u):
    w = np.linspace(.01, .99, 99)
    adds = np.log1p(w*np.expm1(u)) - w*u
    bound, jump = (of(np.array([[0.], [u]]))[0, 0] for of in (mixing_bounds, jump_bounds))
    rounding = 1e-16*abs(u) + 1e-18
    assert (np.abs(adds) <= bound*w*(1 - w) + rounding).all()
    assert (adds.real <= jump + rounding).all()

def test_mixing_promises_nothing_for_wide_gaps():
    "Where u is pi i, log(1 - w + w e^u) is infinite at w = 1/2; the real part is bounded anyway."
    K = np.array([[0.], [np.pi*1j]])
    bound, jump = mixing_bounds(K)[0, 0], jump_bounds(K)[0, 0]
    assert bound >= 1e300 and jump == 0

@given(st.floats(-30, 30), st.floats(-30, 30), st.floats(0, 1))
def test_the_real_part_is_bounded_for_any_gap(x, y, w):
    u = complex(x, y)
    jump = jump_bounds(np.array([[0.], [u]]))[0, 0]
    size = abs(1 - w + w*np.exp(u))
    assert size <= np.exp(w*x + jump)*(1 + 1e-12)

def test_after_the_last_kind_comes_no_loss():
    both, last = np.array([[.3], [.1]]), np.array([[.1], [0.]])
    for bounds in (mixing_bounds, jump_bounds):
        assert bounds(both)[1] == bounds(last)[0] and bounds(both).shape == (2, 1)

@pytest.mark.parametrize('steps', [.25, 1., 3.])
def test_what_is_split_is_bounded_for_fractions_of_a_step_too(steps):
    "By concavity: weights of this sum have no larger sum of w(1 - w) than equal ones."
    for share in (.1, .5, .9):
        found = split_steps(np.array([[steps, 0, share*steps, 0]])).spread[0, 0]
        assert found == pytest.approx(steps*share*(1 - share), rel=1e-14, abs=0)
