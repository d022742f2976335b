"""interop.pfl: mechanisms on one cohort. References: the pair's curve on a grid of both outputs, by
quadrature; one Gaussian for several; enumeration in Fractions."""
import math

import numpy as np
import pytest
from scipy import stats

from dp_saddle import ContourAccountant, Gaussian, Laplace, PoissonSubsampled, delta, epsilon
from dp_saddle.interop import JointAccountant, one_cohort


def by_quadrature(sigma, scale, rate, eps, direction):
    "delta of one round of Gaussian and Laplace noise, over a grid of both outputs."
    x = np.linspace(-9*sigma, 9*sigma + 1, 4001)
    y = np.unique(np.concatenate([np.linspace(-30*scale, 30*scale, 3001), [0., 1.]]))
    q = stats.norm.pdf(x, 0, sigma)[:, None]*stats.laplace.pdf(y, 0, scale)
    p = stats.norm.pdf(x, 1, sigma)[:, None]*stats.laplace.pdf(y, 1, scale)
    mixed = (1 - rate)*q + rate*p
    one, other = (mixed, q) if direction == 'remove' else (q, mixed)
    excess = np.maximum(one - math.exp(eps)*other, 0)
    weights = [np.gradient(v) for v in (x, y)]
    return float(weights[0] @ excess @ weights[1])

@pytest.mark.parametrize('direction, eps', [('remove', .02), ('remove', .2), ('add', .02),
                                            ('add', .05)])
def test_one_round_on_a_grid(direction, eps):
    exact = by_quadrature(1.5, 2., .1, eps, direction)
    step = one_cohort(['gaussian', 'laplace'], [1.5, 2.], .1)
    found = float(ContourAccountant(getattr(step, direction)).delta(eps).upper)
    assert exact*(1 - 1e-4) <= found <= exact*1.02 + 1e-6

def test_the_formula_of_a_sample():
    "delta of a composition on a sample, far out too."
    inner, rate = Gaussian(sigma=1.) + Laplace(scale=2.), .02
    step = one_cohort(['laplace', 'gaussian'], [2., 1.], rate)
    for eps in (1e-3, .1, .5, 1.):
        exact = rate*delta(inner, eps=math.log1p(math.expm1(eps)/rate))
        found = float(ContourAccountant(step.remove).delta(eps).upper)
        assert exact*(1 - 1e-12) <= found <= exact*1.03

def test_several_gaussian_mechanisms_are_one():
    step = one_cohort(['gaussian']*3, [3., 4., 12.], .05)
    sigma = (1/9 + 1/16 + 1/144)**-.5
    assert type(step) is PoissonSubsampled and sigma*(1 - 1e-14) < step.base.sigma < sigma
    assert math.isclose(epsilon(50*step, delta=1e-6),
                        epsilon(50*PoissonSubsampled(Gaussian(sigma=sigma), rate=.05), delta=1e-6),
                        rel_tol=1e-9)

def test_without_sampling_it_is_the_composition():
    both = one_cohort(['gaussian', 'laplace', 'laplace'], [2., 3., 4.], 1)
    plain = Gaussian(sigma=2.) + Laplace(scale=3.) + Laplace(scale=4.)
    assert math.isclose(epsilon(both, delta=1e-6), epsilon(plain, delta=1e-6), rel_tol=1e-9)
    one = one_cohort(['laplace'], [3.], .1)
    assert one == PoissonSubsampled(Laplace(scale=3.), rate=.1)

def test_a_cohort_for_each_costs_less():
    "What an accountant composes that samples each mechanism on its own: it is no bound."
    together = one_cohort(['gaussian', 'laplace'], [1.5, 2.], .1)
    apart = (PoissonSubsampled(Gaussian(sigma=1.5), rate=.1)
             + PoissonSubsampled(Laplace(scale=2.), rate=.1))
    at = .4
    assert delta(apart, eps=at) < .8*by_quadrature(1.5, 2., .1, at, 'remove')
    assert delta(together, eps=at) > by_quadrature(1.5, 2., .1, at, 'remove')*(1 - 1e-4)

SAID = dict(num_compositions=100, sampling_probability=.05)

@pytest.mark.parametrize('names, shares', [
    (['gaussian', 'gaussian'], [.9, .1]), (['Gaussian', 'Laplace'], [.5, .5]), (['laplace'], [1.])])
def test_a_budget_that_is_divided(names, shares):
    found = JointAccountant(**SAID, mechanisms=names, epsilon=1.5, delta=1e-6,
                            budget_proportions=shares)
    assert 1.5*(1 - 1e-4) <= epsilon(found.run, delta=1e-6) <= 1.5
    alone = [epsilon(100*one_cohort([name.lower()], [noise], .05), delta=1e-6)
             for name, noise in zip(names, found.noise_parameters, strict=True)]
    assert np.allclose(np.array(alone)/sum(alone), shares, rtol=1e-5)
    assert sum(alone) > 1.5*(1 - 1e-4)

def test_the_third_of_three():
    said = dict(SAID, mechanisms=['gaussian', 'laplace'], noise_parameters=[2., 3.])
    spent = JointAccountant(**said, delta=1e-6)
    assert spent.epsilon == epsilon(spent.run, delta=1e-6)
    other = JointAccountant(**said, epsilon=spent.epsilon)
    assert math.isclose(other.delta, 1e-6, rel_tol=1e-3)
    assert JointAccountant(**said, epsilon=spent.epsilon*1.01, delta=1e-6).epsilon > spent.epsilon
    tried = JointAccountant(**said, delta=1e-6, noise_scale=.5)
    assert tried.cohort_noise_parameters == [1., 1.5] and tried.epsilon == spent.epsilon

@pytest.mark.parametrize('wrong, message', [
    (dict(num_compositions=0), 'num_compositions must be'),
    (dict(sampling_probability=0.), 'sampling_probability must be'),
    (dict(mechanisms=['gauss']), "mechanisms must be 'gaussian' or"),
    (dict(mechanisms=[]), 'mechanisms must be one or more'),
    (dict(noise_scale=1.5), 'noise_scale must be'), (dict(epsilon=0.), 'epsilon must be'),
    (dict(delta=1.), 'delta must be'), (dict(epsilon=None), 'epsilon, delta and noise_parameters'),
    (dict(budget_proportions=None), 'budget_proportions must be'),
    (dict(budget_proportions=[1.]), 'budget_proportions must be 2 numbers'),
    (dict(budget_proportions=[.5, .4]), 'budget_proportions must add up to 1'),
    (dict(noise_parameters=[1.]), 'noise_parameters must be 2 numbers'),
    (dict(noise_parameters=[1., 0.]), 'noise_parameters must be'),
    (dict(noise_parameters=[1., 1.]), 'noise_parameters must be larger')])
def test_errors_name_the_parameter(wrong, message):
    said = dict(SAID, mechanisms=['gaussian', 'laplace'], epsilon=.1, delta=1e-6,
                budget_proportions=[.5, .5])
    with pytest.raises((ValueError, TypeError), match=f'^{message}'):
        JointAccountant(**said | wrong)
