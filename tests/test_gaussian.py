"losses/gaussian: Gaussian steps, and one on a Poisson sample, in closed form."
import math
import sys
import warnings

import mpmath
import numpy as np
import pytest
from mpmath import mpf, workdps

import dp_saddle as dp
from dp_saddle.engine.line import CgfTable
from dp_saddle.losses.gaussian import (
    delta_of_mu,
    delta_of_sampled_step,
    epsilon_of_mu,
    epsilon_of_sampled_step,
)


def curve(mu, eps):
    "delta, with some digits to lose."
    half, moved = mpf(mu)/2, mpf(eps)/mpf(mu)
    second = mpmath.exp(eps)*mpmath.erfc((half + moved)/mpmath.sqrt(2))/2
    return mpmath.erfc((moved - half)/mpmath.sqrt(2))/2 - second

def sampled_curve(mu, rate, eps):
    "(removing, adding): each from its own likelihood ratio."
    left = 1 - mpmath.exp(eps)*(1 - mpf(rate))
    remove = rate*curve(mu, mpmath.log(1 + mpmath.expm1(eps)/rate))
    if left <= 0: return remove, mpf(0)
    return remove, left*curve(mu, mpmath.log(rate*mpmath.exp(eps)/left))

@pytest.mark.parametrize('mu', [1e7, 1e9, 1e10, 1e12, 1e16])
@pytest.mark.parametrize('delta', [1e-300, 1e-5, .5, .999])
def test_next_to_no_noise(mu, delta):
    "eps is known to fewer digits than mu^2/2 - eps: no division by a slope of 0."
    found = epsilon_of_mu(mu, delta)
    with workdps(100):
        assert curve(mu, found.upper) <= delta <= curve(mu, found.lower)
    assert found.lower <= found.estimate <= found.upper <= found.lower*(1 + 1e-7)

def test_random_gaussians():
    "Both ends, wherever delta lies; and narrow, but where doubles do not know delta."
    rng = np.random.default_rng(3)
    for _ in range(75):
        mu, delta = 10**rng.uniform(-8, 2), 10**rng.uniform(-300, -1e-4)
        if rng.random() < .2: delta = 1 - 10**rng.uniform(-15, -1)
        found = epsilon_of_mu(mu, delta)
        with workdps(420):
            assert not found.lower or curve(mu, found.lower) >= delta
            assert curve(mu, found.upper) <= delta
        assert found.lower <= found.estimate <= found.upper
        if delta < .9: assert found.width <= 2e-11*(found.upper + mu)

def test_a_doubted_delta():
    "Both ends hold for every delta within the doubt."
    for mu, delta in (1., 1e-5), (.01, 1e-3), (30., .7), (20., 1 - 1e-9):
        for doubt in 1e-12, 1e-6, .1:
            found = epsilon_of_mu(mu, delta, doubt)
            assert found.lower <= epsilon_of_mu(mu, min(delta*math.exp(doubt), 1 - 1e-16)).upper
            assert epsilon_of_mu(mu, delta*math.exp(-doubt)).lower <= found.upper
            with workdps(400):
                assert not found.lower or curve(mu, found.lower) >= delta*mpmath.exp(doubt)
                assert curve(mu, found.upper) <= delta*mpmath.exp(-doubt)

@pytest.mark.parametrize('eps', [1e100, 1e154, 1e200, 1e300, sys.float_info.max])
@pytest.mark.parametrize('sigma', [1e-90, 1e-3, 1., 1e90])
def test_absurd_eps(eps, sigma):
    "Where eps/mu, or its square, is no double: an answer, without a warning."
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        found = dp.delta(dp.Gaussian(sigma=sigma), eps=eps)
    with workdps(400):
        is_sure = mpf(eps) < mpf(1/sigma)**2/2
    assert found == (1. if is_sure else 5e-324)

def test_no_slope_in_doubles():
    "Where eps/mu is known to less than a std: both ends are as near as doubles are, and floats."
    rng = np.random.default_rng(6)
    for _ in range(200):
        mu, delta = 10**rng.uniform(15, 100), 10**rng.uniform(-300, -1e-3)
        found = epsilon_of_mu(mu, delta)
        assert found.lower >= found.upper*(1 - 1e-13) and type(found.upper) is float
        with workdps(400):
            for eps, sign in (found.lower, 1), (found.upper, -1):
                a = mpf(mu)/2 - mpf(eps)/mpf(mu)
                assert sign*(mpmath.ncdf(a) - delta) >= 0      # the second term is below 1e-1e30

def test_where_doubles_have_few_digits():
    "Deltas below 1e-308 are rounded by as much as they are; outwards."
    for eps in 38.3, 38.5, 38.59:
        found = delta_of_mu(1., eps)
        with workdps(60): assert found.lower <= curve(1., eps) <= found.upper
    for k in range(1, 8):
        for rate in .3, .7, .75:
            step, goal = dp.PoissonSubsampled(dp.Gaussian(sigma=1.), rate=rate), k*5e-324
            assert epsilon_of_sampled_step(1., rate, goal) is None
            found = dp.ContourAccountant(step).epsilon(goal)
            there = delta_of_sampled_step(1., rate, 38.5)
            with workdps(60):
                assert max(sampled_curve(1., rate, found.lower)) >= goal
                assert max(sampled_curve(1., rate, found.upper)) <= goal
                assert there.lower <= max(sampled_curve(1., rate, 38.5)) <= there.upper
    found = dp.ContourAccountant(2*dp.PoissonSubsampled(dp.Gaussian(sigma=1.), rate=.7)).delta(40.)
    assert found.lower <= found.estimate <= found.upper > 0

def test_random_sampled_steps():
    "One step on a sample, beside either side's own formula; eps and delta go back and forth."
    rng = np.random.default_rng(4)
    for _ in range(150):
        mu, rate = 10**rng.uniform(-3, 1.2), 10**rng.uniform(-6, -1e-3)
        delta = rate*10**rng.uniform(-50, -.01)
        found = epsilon_of_sampled_step(mu, rate, delta)
        with workdps(150):
            assert not found.lower or max(sampled_curve(mu, rate, found.lower)) >= delta
            assert max(sampled_curve(mu, rate, found.upper)) <= delta
            back = delta_of_sampled_step(mu, rate, found.upper)
            assert back.lower <= max(sampled_curve(mu, rate, found.upper)) <= back.upper
        assert found.lower <= found.estimate <= found.upper
        assert found.width <= 1e-10*(found.upper + mu)
        assert back.upper <= delta*(1 + 1e-9) or found.upper == 0

def test_sampled_step_as_its_lines():
    "engine/line's own tables, of both directions, which know nothing of this formula."
    for sigma, rate, delta in (1., .01, 1e-5), (.5, .3, 1e-9), (4., .9, 1e-3):
        run = 1*dp.PoissonSubsampled(dp.Gaussian(sigma=sigma), rate=rate)
        found = epsilon_of_sampled_step(1/sigma, rate, delta)
        both = [CgfTable(plrv).epsilon(delta) for plrv in (run.remove, run.add)]
        assert found.lower <= max(up for *_, up in both)
        assert max(low for low, *_ in both) <= found.upper
        test = dp.ContourAccountant(run)
        assert test.epsilon(delta) == found and dp.epsilon(run, delta=delta) == found.upper
        assert dp.delta(run, eps=.2) == delta_of_sampled_step(1/sigma, rate, .2).upper

def test_a_sample_of_everyone():
    "Rate 1 is no sample: the same bounds, alone and beside others, and a delta."
    gaussian = dp.Gaussian(sigma=4., sensitivity=.5)
    step = dp.PoissonSubsampled(gaussian, rate=1)
    for run, same in (step, gaussian), (7*step, 7*gaussian), (step + 2*gaussian, 3*gaussian):
        assert dp.epsilon(run, delta=1e-6) == dp.epsilon(same, delta=1e-6)
        assert dp.ContourAccountant(run).delta(.1) == dp.ContourAccountant(same).delta(.1)
        assert dp.delta(run, eps=.1) == dp.delta(same, eps=.1)

def test_ends_of_the_range():
    "No record to speak of, no delta to speak of, no noise to speak of."
    assert epsilon_of_sampled_step(1., 1e-9, 1e-9) == (0., 0., 0.)
    assert epsilon_of_sampled_step(1., 1e-9, 1e-9*(1 - 1e-16)).lower == 0.
    assert epsilon_of_sampled_step(1e5, .5, 1e-5) is None
    assert delta_of_sampled_step(1., .5, 1e4) is None
    step = dp.PoissonSubsampled(dp.Gaussian(sigma=1e-5), rate=.5)
    with pytest.warns(UserWarning, match='known to rounding only'):
        assert dp.epsilon(step, delta=1e-5) > 4e9
    assert dp.delta(dp.PoissonSubsampled(dp.Gaussian(sigma=1.), rate=.5), eps=1e4) == 5e-324
    for mu in 1e-12, 1e-3, 1.:
        assert delta_of_mu(mu, 0.).upper < 1 and delta_of_sampled_step(mu, 1e-9, 0.).upper < 1e-9
