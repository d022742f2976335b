"Slopes of eps against differences, closed forms and mpmath; optimal schedules."
from math import inf

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

from dp_saddle import (
    AdditiveNoise,
    ApproxDP,
    Composition,
    ContourAccountant,
    Discrete,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    calibrate,
    dpsgd,
    epsilon,
    epsilon_slopes,
    optimal_schedule,
)
from dp_saddle.practice.derivatives import cgf_slopes, changed, parameters

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes',
                                        'ignore:the bounds hold, but are far apart')

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def by_differences(f, x, h):
    "Central differences, extrapolated to an error of fourth order."
    near, far = ((f(x + k*h) - f(x - k*h))/(2*k*h) for k in (1, 2))
    return (4*near - far)/3

def certified(run, delta, direction):
    loss = getattr(run, direction)
    return ContourAccountant(loss, rtol=1e-13, eps_resolution=1e-8).epsilon(delta).estimate

RUNS = {
    'sampled': (3000*S(2., .01), 1e-5), 'little noise': (1000*S(.6, .01), 1e-6),
    'rare': (10_000*S(1., 1e-4), 1e-7), 'often': (100*S(3., .3), 1e-5),
    'far down': (100*S(3., .3), 1e-300), 'large delta': (500*S(1., .02), .05),
    'two kinds': (1000*S(.7, .01) + 500*S(1., .02), 1e-6),
    'with a release': (500*S(1.2, .02) + 3*Gaussian(sigma=9.), 1e-5),
    'one step': (S(1., .1), 1e-3), 'few large losses': (1000*S(.35, 1e-3), 1e-5),
    'Laplace': (5*Laplace(scale=8.), 1e-4),
    'Laplace beside': (5*PoissonSubsampled(base=Laplace(scale=1.), rate=.1) + 100*S(2., .05), 1e-5),
    'answers': (20*RandomizedResponse(eps=.2), 1e-4),
    'a leak': (50*ApproxDP(eps=.1, delta=1e-8), 1e-5),
}

@pytest.mark.parametrize('name', [
    *sorted(RUNS.keys() - {'Laplace'}), pytest.param('Laplace', marks=pytest.mark.slow)])
def test_differences_of_certified_eps(name):
    "Every parameter of every step, and delta, in the direction that decides."
    run, delta = RUNS[name]
    found = epsilon_slopes(run, delta=delta)
    direction = found.direction.replace('both', 'remove')
    exact = any(part in name for part in ('answers', 'leak', 'one'))
    h = 1e-5 if exact else 1e-3                    # those with corners are known to all digits
    rel = 2e-5 if name == 'Laplace' else 1e-6      # its atoms are smoothed
    assert found.epsilon == pytest.approx(ContourAccountant(run).epsilon(delta).estimate, rel=1e-9)
    for i, (step, count) in enumerate(run.as_steps()):
        slopes = found.steps[i]
        assert (slopes.mechanism, slopes.count) == (step, count)
        assert slopes.slopes.keys() == parameters(step).keys()
        for parameter, value in parameters(step).items():
            def eps(x, i=i, step=step, count=count, parameter=parameter):
                steps = list(run.as_steps())
                steps[i] = changed(step, parameter, x), count
                return certified(Composition(tuple(steps)), delta, direction)
            slope = by_differences(eps, value, h*min(value, 1 - value if value < 1 else value))
            assert slopes.slopes[parameter] == pytest.approx(slope, rel=rel, abs=1e-9)
            assert slopes.each[parameter]*count == pytest.approx(slopes.slopes[parameter])
    slope = by_differences(lambda d: certified(run, d, direction), delta, h*delta)
    assert found.delta == pytest.approx(slope, rel=rel)

def test_published_slopes():
    found = epsilon_slopes(3000*S(2., .01), delta=1e-5)
    (step,) = found.steps
    assert step.slopes['sigma'] == pytest.approx(-.7101, abs=5e-5)
    assert step.slopes['rate'] == pytest.approx(123.102, abs=5e-4)
    assert found.direction == 'remove' and .04 < found.lead < .05

@pytest.mark.parametrize('sigma, n, delta', [(5., 10, 1e-6), (.3, 1, 1e-5), (40., 1000, 1e-300),
                                             (100., 4, .001), (2., 1, .1)])
def test_gaussians_in_closed_form(sigma, n, delta):
    run = n*Gaussian(sigma=sigma)
    found, mu = epsilon_slopes(run, delta=delta), np.sqrt(n)/sigma
    eps = found.epsilon
    log_rise = norm.logpdf(mu/2 - eps/mu)
    log_fall = eps + norm.logcdf(-eps/mu - mu/2)
    wanted = -mu/sigma*np.exp(log_rise - log_fall)
    assert found.steps[0].slopes['sigma'] == pytest.approx(wanted, rel=1e-8)
    assert found.delta == pytest.approx(-np.exp(-log_fall), rel=1e-8)
    assert (found.direction, found.lead) == ('both', inf)

def in_mpmath(mu, q, power, z):
    "dK/dmu and dK/drate by quadrature along a shifted path: M is E of the mixture's power."
    mu, q, z = mp.mpf(mu), mp.mpf(q), mp.mpc(z)
    e = power(z)
    sign = 1 if power(1) > 0 else -1
    height = mp.mpc(0, sign*min(1., .8/float(mu))) if z.imag else mp.mpf(0)
    points = [height + i for i in range(-14, 15 + int(8*mu))]
    def w(g): return 1 - q + q*mp.exp(g*mu - mu*mu/2)
    def mean(f): return mp.quad(lambda g: mp.npdf(g)*f(g), points)
    M = mean(lambda g: mp.exp(e*mp.log(w(g))))
    def slope(of): return complex(mean(lambda g: e*mp.exp((e - 1)*mp.log(w(g)))*of(g))/M)
    return (slope(lambda g: q*(g - mu)*mp.exp(g*mu - mu*mu/2)),
            slope(lambda g: mp.expm1(g*mu - mu*mu/2)))

@pytest.mark.parametrize('sigma, rate', [
    (2., .01), *(pytest.param(*setting, marks=pytest.mark.slow)
                 for setting in ((.7, .3), (10., 1e-6), (.5, .001)))])
@pytest.mark.parametrize('direction', ['remove', 'add'])
def test_slopes_of_the_transform(sigma, rate, direction):
    power = {'remove': lambda z: 1 + z, 'add': lambda z: -z}[direction]
    s = np.array([0., 2.])
    with mp.workdps(20):
        found = cgf_slopes(S(sigma, rate), direction, 2.5 + 1j*s)
        for k, frequency in enumerate(s):
            by_mu, by_rate = in_mpmath(1/sigma, rate, power, 2.5 + 1j*frequency)
            assert found['sigma'][k] == pytest.approx(-by_mu/sigma**2, rel=1e-8)
            assert found['rate'][k] == pytest.approx(by_rate, rel=1e-8)

def test_a_large_power_does_not_overflow():
    slopes = cgf_slopes(S(.2, .5), 'remove', np.array([40.]) + 0j)
    K = by_differences(lambda s: S(s, .5).remove.cgf(40.), .2, 1e-4)
    assert slopes['sigma'][0].real == pytest.approx(K, rel=1e-6)

def test_other_steps_by_differences_of_k():
    "A rate of one is no sampling; parameters that are 0, or no numbers, have no slopes."
    assert parameters(Discrete(p=(.5, .5), q=(.4, .6))) == {}
    assert parameters(PoissonSubsampled(base=Gaussian(sigma=2.), rate=1.)) == {'sigma': 2.}
    whole = epsilon_slopes(10*PoissonSubsampled(base=Gaussian(sigma=5.), rate=1.), delta=1e-6)
    plain = epsilon_slopes(10*Gaussian(sigma=5.), delta=1e-6)
    assert whole.steps[0].slopes['sigma'] == pytest.approx(plain.steps[0].slopes['sigma'], rel=1e-7)

def test_what_is_no_parameter():
    "A mesh, or what is said of a density, is nothing that eps hangs on."
    noise = AdditiveNoise(log_density=lambda x: -x*x/2 - np.log(2*np.pi)/2, sensitivity=.1,
                          log_concave=True, even=True, slope=40., mesh=1e-3)
    step = PoissonSubsampled(noise, rate=.1)
    assert parameters(noise) == {} and list(parameters(step)) == ['rate']

def test_runs_of_dpsgd():
    run = dpsgd(sigma=1.1, batch_size=256, dataset_size=60_000, epochs=10, sampling='poisson')
    (step,) = epsilon_slopes(run, delta=1e-5).steps
    assert step.count == run.steps and step.slopes.keys() == {'sigma', 'rate'}

def test_nothing_to_gain():
    found = epsilon_slopes(Gaussian(sigma=100.), delta=.1)
    assert (found.epsilon, found.delta, found.steps[0].slopes) == (0., 0., {'sigma': 0.})
    assert epsilon_slopes(0*S(1., .1), delta=.1).steps[0].each == {}

@pytest.mark.parametrize('run, delta, message', [
    (S(1., .1).remove, 1e-5, 'run must be made of mechanisms'), (3, 1e-5, 'run must be made of'),
    (S(1., .1), 0., 'delta must'), (S(1., .1), 1., 'delta must'),
    (ApproxDP(eps=1., delta=.1), .01, 'delta must be larger than the mass at infinity, got 0.01'),
])
def test_bad_input(run, delta, message):
    with pytest.raises((ValueError, TypeError), match=message):
        epsilon_slopes(run, delta=delta)

@pytest.mark.parametrize('eps', [.1, 1., 8.])
@pytest.mark.parametrize('parameter, build', [
    ('sigma', lambda sigma: 1000*S(sigma, .01)), ('rate', lambda rate: 1000*S(1.5, rate)),
    ('sigma', lambda sigma: 500*S(sigma, .01) + 500*S(2*sigma, .02)),
    ('sigma', lambda sigma: 500*S(sigma, .01) + Gaussian(sigma=200.)),
], ids=['sigma', 'rate', 'two', 'beside'])
def test_calibration_along_the_slopes(parameter, build, eps):
    "The same promise as ever: private, and a millionth less noise, or more rate, is not."
    x = calibrate(build, eps=eps, delta=1e-6, parameter=parameter)
    less = -1 if parameter == 'sigma' else 1
    assert epsilon(build(x), delta=1e-6) <= eps < epsilon(build(x*(1 + less*1e-6)), delta=1e-6)

def test_schedule_in_closed_form():
    w, n = np.array([1., 4., 9., .5]), np.array([10, 10, 40, 3])
    found = optimal_schedule(w, eps=2., delta=1e-5, rate=1., steps=n)
    shape = (n/w)**.25
    assert found.sigmas/shape == pytest.approx(np.full(4, (found.sigmas/shape)[0]), rel=1e-4)
    assert found.cost/found.constant == pytest.approx(
        np.sqrt(w*n).sum()**2/(w.sum()*n.sum()), rel=1e-6)
    assert 2*(1 - 1e-6) < epsilon(found.run, delta=1e-5) <= 2

@pytest.mark.parametrize('rate', [.01, .1, np.array([.01, .02, .04, .02])], ids=str)
def test_schedule_of_samples(rate):
    "Lagrange's condition holds, eps is met, and noise moved from one group to another costs more."
    w, target = np.array([1., 2., 5., .3]), dict(eps=1.5, delta=1e-6)
    found = optimal_schedule(w, rate=rate, steps=100, **target)
    assert found.cost <= found.constant
    assert 1.5*(1 - 1e-6) < epsilon(found.run, delta=1e-6) <= 1.5
    slopes = [s.slopes['sigma']*s.mechanism.base.sigma
              for s in epsilon_slopes(found.run, delta=1e-6).steps]
    sides = w*found.sigmas**2/-np.array(slopes)
    assert sides == pytest.approx(np.full(4, sides.mean()), rel=1e-3)

def test_equal_weights_make_a_constant_schedule():
    found = optimal_schedule(np.ones(3), eps=1., delta=1e-5, rate=.02, steps=50)
    assert found.sigmas == pytest.approx(np.full(3, found.sigmas.mean()), rel=1e-4)
    assert found.cost == pytest.approx(found.constant, rel=1e-5)

@pytest.mark.parametrize('change, message', [
    (dict(weights=[1., -1.]), 'weights must'), (dict(weights=3.), 'weights must be a vector'),
    (dict(weights=[]), 'weights'), (dict(rate=[.1, .1, .1]), 'of its length, got shapes'),
    (dict(rate=0.), 'rate must'), (dict(steps=0), 'steps must'), (dict(steps=1.5), 'steps must'),
    (dict(eps=0.), 'eps must'), (dict(delta=1.), 'delta must'),
])
def test_bad_schedules(change, message):
    asked = dict(weights=[1., 2.], eps=1., delta=1e-5, rate=.1, steps=10) | change
    with pytest.raises((ValueError, TypeError), match=message):
        optimal_schedule(asked.pop('weights'), **asked)

@pytest.mark.parametrize('run', [Laplace(scale=1.), PureDP(eps=1.), 2*PureDP(eps=1.)], ids=str)
def test_beside_the_end_of_a_curve(run):
    "delta is 0 from there on: a difference must not reach so far."
    found = epsilon_slopes(run, delta=1e-6).delta
    ends = [epsilon(run, delta=1e-6*(1 + side*1e-3)) for side in (-1, 1)]
    assert found == pytest.approx((ends[1] - ends[0])/2e-9, rel=1e-2) and found < 0

def test_noise_of_ones_own_has_no_slopes_by_its_knobs():
    "Not by mesh, slope or rounding; the other steps' are what differences say."
    def logistic(x): return -np.abs(x) - 2*np.log1p(np.exp(-np.abs(x)))
    own = AdditiveNoise(log_density=logistic, sensitivity=.5, slope=1.,
                        log_concave=True, even=True)
    def run(sigma): return 10*own + 5*Gaussian(sigma=sigma)
    first, second = epsilon_slopes(run(3.), delta=1e-6).steps
    assert first.slopes == {} and first.count == 10 and set(second.slopes) == {'sigma'}
    high, low = (epsilon(run(sigma), delta=1e-6) for sigma in (3.05, 2.95))
    assert second.slopes['sigma'] == pytest.approx((high - low)/.1, rel=1e-2)

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('sigma, rate, last', [(.3, 1e-5, 2e6), (1., .01, 4e3), (2., .3, 90.)])
def test_slopes_on_a_long_line(sigma, rate, last, direction):
    "By tables they are what each frequency has alone, on the axis and on the shifted path."
    step = PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)
    z = 3.1 + 1j*np.linspace(0, last, 1000)
    line = cgf_slopes(step, direction, z)
    for k in (1, 127, 128, 255, 256, 700, 999):
        alone = cgf_slopes(step, direction, z[k:k + 1])
        for name, slope in alone.items():
            assert abs(line[name][k] - slope[0]) < 1e-9*abs(slope[0])
