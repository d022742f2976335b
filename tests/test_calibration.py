"practice/calibration, calibration: the target is met, and a millionth less noise does not meet it."
import functools
import warnings

import numpy as np
import pytest
from scipy.special import ndtr

from dp_saddle import (
    ApproxDP,
    BallsInBins,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
    banded_matrix_factorization,
    calibrate,
    delta,
    dpsgd,
    epsilon,
    gdp,
    group,
)
from dp_saddle.practice import calibration

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes')

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def gaussian(sigma):
    return Gaussian(sigma=sigma)

BUILDERS = {
    'sampled': lambda sigma: 1000*S(sigma, .01),
    'Gaussian': lambda sigma: 10*Gaussian(sigma=sigma),
    'mixed': lambda sigma: 200*S(sigma, .3) + 5*Laplace(scale=2000.),
}

@pytest.mark.parametrize('eps', [.01, .1, 1., 10., 100., 1000.])
@pytest.mark.parametrize('build', BUILDERS.values(), ids=BUILDERS)
def test_the_smallest_noise(build, eps):
    "Private, and a millionth less is not: no 'budget too low', no 1280 for 80."
    sigma = calibrate(build, eps=eps, delta=1e-5)
    assert epsilon(build(sigma), delta=1e-5) <= eps
    assert epsilon(build(sigma*(1 - 1e-6)), delta=1e-5) > eps

def test_closed_form_of_calibration():
    sigma = calibrate(gaussian, mu=.5)
    assert sigma == pytest.approx(2., rel=1e-5) and sigma >= 2
    assert calibrate(gaussian, advantage=2*ndtr(.25) - 1) == pytest.approx(2., rel=2e-6)

def test_mu_of_a_sampled_run():
    sigma = calibrate(lambda sigma: 100*S(sigma, .05), mu=.5, delta=1e-6)
    assert gdp(100*S(sigma, .05), delta=1e-6).mu <= .5
    assert gdp(100*S(sigma*(1 - 3e-6), .05), delta=1e-6).mu > .5

def test_an_advantage_of_losses_without_a_density():
    "Of these there is no estimate to begin with."
    eps = calibrate(lambda e: 20*RandomizedResponse(eps=e), advantage=.3, parameter='eps')
    assert delta(20*RandomizedResponse(eps=eps), eps=0.) <= .3
    assert delta(20*RandomizedResponse(eps=eps*(1 + 1e-6)), eps=0.) > .3

@pytest.mark.parametrize('advantage', [
    1e-6, .9, *(pytest.param(a, marks=pytest.mark.slow) for a in (.01, .5, .999))])
def test_an_advantage_is_met(advantage):
    "Proved of the run, though no certified eps has the last word."
    def spent(scale): return delta(3*Laplace(scale=scale), eps=0.)
    scale = calibrate(lambda b: 3*Laplace(scale=b), advantage=advantage, parameter='scale')
    assert spent(scale) <= advantage < spent(scale*(1 - 1e-6))

@pytest.mark.parametrize('eps', [.3, 2., 20.])
def test_whole_numbers_exactly(eps):
    def build(steps): return steps*S(1., .01)
    n = calibrate(build, eps=eps, delta=1e-5, parameter='steps')
    assert isinstance(n, int)
    assert epsilon(build(n), delta=1e-5) <= eps < epsilon(build(n + 1), delta=1e-5)

def test_a_rate():
    def build(rate): return 1000*S(1., rate)
    q = calibrate(build, eps=2., delta=1e-5, parameter='rate')
    assert epsilon(build(q), delta=1e-5) <= 2 < epsilon(build(q*(1 + 1e-6)), delta=1e-5)

def test_a_scale():
    def build(scale): return 10*Laplace(scale=scale)
    b = calibrate(build, eps=1., delta=1e-6, parameter='scale')
    assert epsilon(build(b), delta=1e-6) <= 1 < epsilon(build(b*(1 - 1e-6)), delta=1e-6)

def test_epochs():
    def build(epochs):
        return dpsgd(sigma=1., batch_size=100, dataset_size=10_000, epochs=epochs,
                     sampling='poisson')
    n = calibrate(build, eps=3., delta=1e-5, parameter='epochs')
    assert epsilon(build(n), delta=1e-5) <= 3 < epsilon(build(n + 1), delta=1e-5)

def test_limits():
    assert calibrate(lambda rate: S(50., rate), eps=2., delta=1e-5, parameter='rate') == 1
    def loud(steps): return steps*Gaussian(sigma=.1)
    assert calibrate(loud, eps=2., delta=1e-5, parameter='steps') == 0
    def quiet(steps): return steps*Gaussian(sigma=1e9)
    assert calibrate(quiet, eps=2., delta=1e-5, parameter='steps') == 10**12

def wavy(run, *, delta):
    "As bounds are that are wide: below what delta says, and up and down with the noise."
    return epsilon(run, delta=delta)*(1 - 2e-4 + 4e-6*np.sin(1e8*run.as_steps()[0][0].base.scale))

@pytest.mark.parametrize('rate, eps', [(.1, 1.), (.5, 8.), (.01, .1)])
def test_bounds_that_are_wide(monkeypatch, rate, eps):
    "They are no smooth curve, and of delta they say another thing than of eps."
    def build(scale): return 5*PoissonSubsampled(Laplace(scale=scale), rate=rate)
    monkeypatch.setattr(calibration, 'epsilon', wavy)
    scale = calibrate(build, eps=eps, delta=1e-5, parameter='scale')
    monkeypatch.setattr(calibration, '_by_chords', lambda *_, nearest=False: None)
    again = calibrate(build, eps=eps, delta=1e-5, parameter='scale')
    for found in (scale, again):
        less = wavy(build(found*(1 - 1e-6)), delta=1e-5)
        assert wavy(build(found), delta=1e-5) <= eps < less
    assert again == pytest.approx(scale, rel=1e-4)

def test_a_whole_number_that_eps_alone_allows(monkeypatch):
    monkeypatch.setattr(calibration, 'epsilon', lambda run, *, delta: .98*epsilon(run, delta=delta))
    def build(steps): return steps*S(1., .01)
    n = calibrate(build, eps=2., delta=1e-5, parameter='steps')
    assert .98*epsilon(build(n), delta=1e-5) <= 2 < .98*epsilon(build(n + 1), delta=1e-5)

@pytest.mark.slow
def test_bins_whose_bounds_are_wide():
    "This was more noise than needed, by 1.3e-4."
    eps, delta = .02810759531276904, 4.831659885184444e-12
    def build(sigma): return 8*BallsInBins(Gaussian(sigma=sigma), batches=2)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')         # that they are wide is said
        sigma = calibrate(build, eps=eps, delta=delta)
        less = epsilon(build(sigma*(1 - 1e-6)), delta=delta)
        assert epsilon(build(sigma), delta=delta) <= eps < less

def test_the_end_of_the_doubles():
    def build(sigma): return 10*S(sigma, .1)
    sigma = calibrate(build, eps=1., delta=1e-300)
    assert epsilon(build(sigma), delta=1e-300) <= 1
    assert epsilon(build(sigma*(1 - 1e-6)), delta=1e-300) > 1

@pytest.mark.parametrize('target, message', [
    (dict(delta=1e-5), 'one of eps, mu and advantage'),
    (dict(eps=1., mu=1., delta=1e-5), 'one of eps, mu and advantage'),
    (dict(eps=1.), 'delta must'),
    (dict(eps=0., delta=1e-5), 'eps must'),
    (dict(eps=-1., delta=1e-5), 'eps must'),
    (dict(eps=np.nan, delta=1e-5), 'eps must'),
    (dict(eps=1., delta=0.), 'delta must'),
    (dict(mu=1., delta=0.), 'delta must'),
    (dict(advantage=1.5), 'advantage must'),
    (dict(mu=0.), 'mu must'),
])
def test_bad_targets(target, message):
    with pytest.raises((ValueError, TypeError), match=message):
        calibrate(gaussian, **target)

def test_a_cost_that_stays_makes_the_target_impossible():
    def build(n, beside): return n*S(1., .01) + Gaussian(sigma=beside)
    asked = dict(eps=1, delta=1e-5, parameter='steps')
    with pytest.raises(ValueError, match='steps cannot be found: the target is missed at 1'):
        calibrate(lambda steps: build(steps, 1.), **asked)
    assert calibrate(lambda steps: build(steps, 8.), **asked) > 0
    with pytest.raises(ValueError, match='sigma cannot be found: all values tried, .* miss'):
        calibrate(lambda sigma: gaussian(sigma) + ApproxDP(eps=0., delta=.1), eps=1., delta=1e-5)
    with pytest.raises(ValueError, match=r'1e\+12 is refused: batches\*.* must be at most'):
        calibrate(lambda sigma: BallsInBins(gaussian(sigma), batches=10**5), eps=1e-4, delta=1e-5)

def test_the_direction_of_any_parameter_is_found():
    std = calibrate(lambda std: Gaussian(sigma=std), parameter='std', eps=1, delta=1e-5)
    assert std == pytest.approx(3.730631634816464, rel=1e-6)    # by the closed form

@pytest.mark.parametrize('power', [1, -1])
def test_a_parameter_that_shows_nothing_near_1(power):
    "There delta is below all doubles, and a twentieth more still is: which way costs is tried."
    tried = set()
    def builder(x):
        tried.add(x)
        return Gaussian(sigma=1000*x**-power)
    found = calibrate(builder, eps=.5, delta=1e-6, parameter='x')
    assert found**power == pytest.approx(1000/calibrate(Gaussian, eps=.5, delta=1e-6), rel=1e-5)
    assert len(tried) < 30

def test_whole_parameters_end_where_the_builder_refuses():
    def build(batch_size):
        return dpsgd(sigma=1., batch_size=batch_size, dataset_size=10_000, epochs=10,
                     sampling='poisson')
    assert calibrate(build, parameter='batch_size', eps=200, delta=1e-6) == 10_000
    b = calibrate(build, parameter='batch_size', eps=8, delta=1e-6)
    assert epsilon(build(b), delta=1e-6) <= 8 < epsilon(build(b + 1), delta=1e-6)

def test_one_epoch_is_too_many():
    def build(epochs):
        return dpsgd(sigma=1., batch_size=100, dataset_size=10_000, epochs=epochs, sampling='none')
    with pytest.raises(ValueError, match='missed at 1'):
        calibrate(build, parameter='epochs', eps=8, delta=1e-6)

def test_a_number_ends_where_the_builder_refuses():
    def build(sigma):
        if sigma < 3:
            raise ValueError('less than 3')
        return Gaussian(sigma=sigma)
    def first(sigma): return build(3*sigma)
    assert 3*calibrate(first, eps=10., delta=1e-5) == pytest.approx(3., rel=1e-6)

# Builders

def test_a_builders_mistake_is_its_own():
    def build(sigma):
        return dpsgd(sigma=sigma, batch_size=1, dataset_size=10, steps=1, sampling='x')
    with pytest.raises(ValueError, match='sampling'):
        calibrate(build, eps=1., delta=1e-5)

class Lab:
    "Builders that are methods."
    def of_sigma(self, sigma): return Gaussian(sigma=sigma)
    def of_any(self, s, times=1): return times*Gaussian(sigma=s)
    @classmethod
    def of_class(cls, sigma, /): return Gaussian(sigma=sigma)
    def __call__(self, noise): return Gaussian(sigma=noise)

class Untold:
    "As some builtins are: it does not tell what it takes."
    def __call__(self, x): return Gaussian(sigma=x)
    @property
    def __signature__(self): raise ValueError('no signature found')

def shared(sigma, sensitivity): return Gaussian(sigma=sigma, sensitivity=sensitivity)

@pytest.mark.parametrize('builder', [
    Gaussian, gaussian, lambda s: Gaussian(sigma=s), lambda **given: Gaussian(**given),
    lambda s, times=1: times*Gaussian(sigma=s), lambda s, *more: Gaussian(sigma=s),
    functools.partial(Gaussian, sensitivity=1.), functools.partial(shared, sensitivity=1.),
    functools.partial(lambda times, s: times*Gaussian(sigma=s), 1),
    Lab().of_sigma, Lab().of_any, Lab.of_class, Lab(), Untold(),
])
def test_builders_of_all_kinds(builder):
    assert calibrate(builder, eps=1., delta=1e-5) == calibrate(gaussian, eps=1., delta=1e-5)

@pytest.mark.parametrize('builder, message', [
    (lambda a, b: a, r'builder must take sigma, .* got one that takes \(a, b\)'),
    (lambda: 1, r'builder must take sigma, .* got one that takes \(\)'),
    (lambda s=1.: s, 'builder must take sigma'),
    (lambda *s: s, 'builder must take sigma'),
    (lambda *, s: s, 'builder must take sigma'),
    (lambda a, *, b: a, 'builder must take sigma'),
    (Gaussian(sigma=1.), 'builder must be a function of sigma, got Gaussian'),
])
def test_builders_that_are_none(builder, message):
    with pytest.raises(TypeError, match=message):
        calibrate(builder, eps=1., delta=1e-5)

def test_a_rate_whose_first_guess_is_refused():
    "Banded noise takes rates up to 1/bands; where none is taken, the first refusal is told."
    def build(rate): return banded_matrix_factorization(steps=100, bands=4, sigma=2., rate=rate)
    rate = calibrate(build, eps=1., delta=1e-5, parameter='rate')
    assert epsilon(build(rate), delta=1e-5) <= 1 < epsilon(build(rate*(1 + 2e-6)), delta=1e-5)
    def never(rate): raise ValueError(f'no rate is good, not {rate:.3f}')
    with pytest.raises(ValueError, match='not 0.500'):
        calibrate(never, eps=1., delta=1e-5, parameter='rate')

def test_bands_and_limits_are_whole():
    def build(bands): return banded_matrix_factorization(steps=99, bands=bands, sigma=2., rate=.01)
    found = calibrate(build, eps=1., delta=1e-5, parameter='bands')
    assert isinstance(found, int) and found > 1
    assert epsilon(build(found), delta=1e-5) <= 1 < epsilon(build(found + 1), delta=1e-5)

@pytest.mark.slow
def test_whole_parameters_of_newer_runs():
    "The most records of a user, and a largest batch, that a target allows."
    known = dict(sigma=2., batch_size=100, dataset_size=10_000, steps=100)
    def users(unit_records):
        return dpsgd(**known, sampling='poisson', unit_records=unit_records)
    most = calibrate(users, eps=.8, delta=1e-5, parameter='unit_records')
    assert isinstance(most, int) and most > 1
    assert epsilon(users(most), delta=1e-5) <= .8 < epsilon(users(most + 1), delta=1e-5)
    step = PoissonSubsampled(Gaussian(sigma=2.), rate=.01)
    assert calibrate(lambda size: 100*group(step, size), eps=.8, delta=1e-5,
                     parameter='size') == most
    def cut(max_batch_size):
        return dpsgd(**known, sampling='truncated-poisson', max_batch_size=max_batch_size)
    with pytest.raises(ValueError, match='so that the largest batch no longer matters'):
        calibrate(cut, eps=.5, delta=1e-5, parameter='max_batch_size')
    largest = calibrate(cut, eps=.18, delta=1e-5, parameter='max_batch_size')
    assert isinstance(largest, int) and epsilon(cut(largest), delta=1e-5) <= .18

def evaluations(builder, **asked):
    "(what is found, at how many values): one is built at first, to see what kind of run it is."
    tried = []
    def counted(x):
        tried.append(x)
        return builder(x)
    found = calibrate(counted, **asked)
    return found, len(set(tried)) - 1

@pytest.mark.parametrize('parameter, builder, eps, most', [
    ('sigma', lambda sigma: 1000*S(sigma, .01), .1, 4),
    ('sigma', lambda sigma: 1000*S(sigma, .01), 1., 4),
    ('sigma', lambda sigma: 1000*S(sigma, .01), 10., 5),
    ('sigma', lambda sigma: 100*Gaussian(sigma=sigma), 1., 2),
    ('rate', lambda rate: 3000*S(2., rate), 2., 4)])
def test_one_kind_is_met_in_few_evaluations(parameter, builder, eps, most):
    "Along the curve of eps itself: certified, and a millionth further it is missed."
    found, count = evaluations(builder, eps=eps, delta=1e-5, parameter=parameter)
    further = found*(1 - 1e-6 if parameter == 'sigma' else 1 + 1e-6)
    assert epsilon(builder(found), delta=1e-5) <= eps < epsilon(builder(further), delta=1e-5)
    assert count <= most

@pytest.mark.parametrize('n, rate, eps, at', [
    (14, .03, .646, 1.2e-6), (769, .00171, 2.296, 8.1e-9), (617, .00124, 2.267, 1e-9),
    (74, .0043, .4766, 1.7e-6), (167, .0025, 1.132, 4.9e-9), (36, .0033, 13.1, 2.1e-9),
    (1479, .067, 6.37, 1.3e-6), (200, .2, 100., 1e-5)])
def test_rare_hits_are_met_in_few_evaluations(n, rate, eps, at):
    "Where one large loss is most of eps, and where it is part of it, as where there are many."
    def build(sigma): return n*S(sigma, rate)
    found, count = evaluations(build, eps=eps, delta=at)
    assert epsilon(build(found), delta=at) <= eps < epsilon(build(found*(1 - 1e-6)), delta=at)
    assert count <= 5

@pytest.mark.parametrize('n, eps, at', [
    (4043, .649, 2.1e-10), (70, .1973, 2.4e-5), (11, .2347, 6e-5)])
def test_rates_of_rare_hits_are_met_in_few_evaluations(n, eps, at):
    def build(rate): return n*S(1.5, rate)
    found, count = evaluations(build, eps=eps, delta=at, parameter='rate')
    assert epsilon(build(found), delta=at) <= eps < epsilon(build(found*(1 + 1e-6)), delta=at)
    assert count <= 5

@pytest.mark.parametrize('parameter, builder', [
    ('sigma', lambda sigma: 1000*S(sigma, .01)), ('sigma', lambda sigma: S(sigma, 1e-4)),
    ('rate', lambda rate: 1000*S(1.5, rate)), ('sigma', lambda sigma: 10*Gaussian(sigma=sigma))])
@pytest.mark.parametrize('eps, at', [(1e-18, 1e-5), (1e-300, 1e-5), (1., 5e-324)])
def test_targets_at_the_end_of_the_doubles(parameter, builder, eps, at):
    found = calibrate(builder, eps=eps, delta=at, parameter=parameter)
    assert epsilon(builder(found), delta=at) <= eps
    further = found*(1 - 1e-6 if parameter == 'sigma' else 1 + 1e-6)
    assert epsilon(builder(further), delta=at) > eps

def test_noise_beyond_all_reason_is_refused_by_bounds(monkeypatch):
    "No certified eps is asked at a noise of 1e9 and more."
    asked = []
    def watched(run, delta):
        asked.append(next(iter(run.as_steps()))[0].base.sigma)
        return epsilon(run, delta=delta)
    monkeypatch.setattr(calibration, 'epsilon', watched)
    with pytest.raises(ValueError, match='miss the target'):
        calibrate(lambda s: 1000*PoissonSubsampled(base=Gaussian(sigma=s), rate=.01), eps=1e-12,
                  delta=1e-300)
    assert not asked or max(asked) < 1e9

def test_discrete_noise_of_hundreds_of_outcomes():
    "Two steps, whose outcomes are added up: by the law of their sum."
    eps, delta = 1.597, 3.4e-5
    found = calibrate(lambda sigma: 2*DiscreteGaussian(sigma=sigma), eps=eps, delta=delta)
    def exact(sigma):
        k = np.arange(-60, 62)
        p = np.exp(-(k - 1)**2/(2*sigma**2))
        p = np.convolve(p, p)/p.sum()**2
        loss = (np.arange(-120, -120 + p.size) - 1)/sigma**2
        return (p*np.maximum(-np.expm1(eps - loss), 0)).sum()
    assert exact(found) <= delta < exact(found*(1 - 1e-3))

@pytest.mark.parametrize('eps', [.3, 2., 9.])
def test_the_smallest_data_set(eps):
    "Of a whole number that has to be large: one record less misses the target."
    def of(dataset_size):
        return dpsgd(sigma=1., batch_size=100, dataset_size=dataset_size, steps=50,
                     sampling='poisson')
    found = calibrate(of, eps=eps, delta=1e-5, parameter='dataset_size')
    assert epsilon(of(found), delta=1e-5) <= eps < epsilon(of(found - 1), delta=1e-5)

def test_the_fewest_bins():
    "The same of a parameter whose effect is not known by its name."
    def of(batches): return BallsInBins(Gaussian(sigma=1.5), batches=batches)
    found = calibrate(of, eps=1., delta=1e-5, parameter='batches')
    assert epsilon(of(found), delta=1e-5) <= 1 < epsilon(of(found - 1), delta=1e-5)

def test_a_search_begins_where_the_builder_takes_a_value():
    "A chance below 1/2: 1 is refused, and so is 1/4 if it has to be smaller still."
    def told(chance):
        if not 0 < chance < .2: raise ValueError(f"chance must be in (0, .2), got {chance}")
        return RandomizedResponse(eps=np.log((1 - chance)/chance))
    found = calibrate(told, eps=3., delta=1e-6, parameter='chance')
    assert found == pytest.approx(1/(1 + np.exp(3.)), rel=3e-6)
    assert epsilon(told(found), delta=1e-6) <= 3

@pytest.mark.parametrize('steps, eps', [(100, 1e5), (100, 1e300), (10_000, 1e5)])
def test_a_target_that_takes_hardly_any_noise_is_refused(steps, eps):
    "At once: each eps of such noise takes seconds."
    asked = []
    def build(sigma):
        asked.append(sigma)
        return steps*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=.01)
    with pytest.raises(ValueError, match=r'eps must be at most about \d.* for these sampled steps'):
        calibrate(build, eps=eps, delta=1e-5)
    assert min(asked) >= 1/16

def test_a_target_that_is_met_without_noise_is_refused():
    "The chance of any draw is less than delta: no noise is the least."
    with pytest.raises(ValueError, match='delta must be smaller than the chance of any draw'):
        calibrate(lambda sigma: 5*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=1e-7),
                  eps=10., delta=1e-5)

def test_large_targets_that_are_met():
    "Of one sampled step, of steps that are not sampled, and of so many that noise is not small."
    for n, rate, eps in ((1, .01, 1e3), (100, 1., 1e5), (10**6, .1, 1e5)):
        def build(sigma, n=n, rate=rate):
            step = Gaussian(sigma=sigma)
            return n*(step if rate == 1 else PoissonSubsampled(base=step, rate=rate))
        sigma = calibrate(build, eps=eps, delta=1e-5)
        spent, more = (epsilon(build(sigma*by), delta=1e-5) for by in (1, 1 - 1e-6))
        assert spent <= eps < more
