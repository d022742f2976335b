"""Steps in ball arithmetic, beside quadratures of fifty digits."""
from itertools import product

import mpmath as mp
import pytest
from flint import acb, arb, ctx

from dp_saddle import balls


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(balls.PRECISION):
        yield

def sampled_gaussian(z, mu, q, direction):
    "M(z) by quadrature, mpmath."
    def w(x):
        return 1 - q + q*mp.exp(mu*x - mu**2/2)
    def f(x):
        return mp.npdf(x)*w(x)**(1 + z if direction == 'remove' else -z)
    reach = float(mu)*float(mp.re(z) + 1)
    return mp.quad(f, mp.linspace(-13, 13 + reach, 60))

def sampled_laplace(z, d, q, direction):
    def w(x):
        return 1 - q + q*mp.exp(x)
    def power(x):
        return w(x)**(1 + z if direction == 'remove' else -z)
    density = mp.quad(lambda x: power(x)*mp.exp(-(x + d)/2)/4, mp.linspace(-d, d, 12))
    return density + power(-d)/2 + power(d)*mp.exp(-d)/2

def apart(ball, exact):
    "How far the ball's midpoint is from an mpmath number."
    real, imag = (mp.nstr(x, 40) for x in (mp.re(exact), mp.im(exact)))
    return float(abs(ball - acb(real, imag)).abs_upper())

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('mu, q, t, s', [(.5, .01, 6., 3.), (2., .3, 1.5, 12.), (.1, .5, 40., 2.),
                                         (1., 1e-5, 40., 40.), (3., .9, .5, 0.)])
def test_sampled_gaussian(mu, q, t, s, direction):
    step = balls.SampledGaussianStep(arb(mu), arb(q), direction)
    value = step.values(arb(t), arb(s), 2)[1]
    with mp.workdps(50):
        exact = sampled_gaussian(mp.mpc(t, s), mp.mpf(mu), mp.mpf(q), direction)
    size = abs(complex(step.at(arb(t))))
    assert float(value.rad()) < 1e-13*size
    assert apart(value, exact) <= 2*float(value.rad()) + 1e-30*size

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('d, q, t, s', [(.05, .3, 20., 400.), (1., .01, 3., 7.), (4., .5, .5, 2.)])
def test_sampled_laplace(d, q, t, s, direction):
    step = balls.LaplaceStep(arb(d), arb(q), direction)
    value = step.values(arb(t), arb(s), 2)[1]
    with mp.workdps(40):
        exact = sampled_laplace(mp.mpc(t, s), mp.mpf(d), mp.mpf(q), direction)
    assert apart(value, exact) <= 2*float(value.rad()) + 1e-25

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('mu, q, t', [(.5, .01, 6.), (2., .3, 1.5), (1., 1e-4, 300.)])
def test_nothing_beyond_a_frequency_is_larger(mu, q, t, direction):
    step = balls.SampledGaussianStep(arb(mu), arb(q), direction)
    h, count = 4/mu/(1 + q*t), 64
    moduli = [float(abs(x).abs_lower()) for x in step.values(arb(t), arb(h), count)]
    for k in (1, 5, 20, 50):
        atoms, bound = step.beyond(arb(t), arb(h)*k)
        assert atoms == 0 and max(moduli[k:]) <= float(bound.abs_upper())

def test_sampled_laplace_beyond():
    for d, q, t, direction in product((.1, 2.), (.05, 1.), (1., 30.), ('remove', 'add')):
        step = balls.LaplaceStep(arb(d), arb(q), direction)
        h, count = arb(3/d), 40
        values, atoms = step.values(arb(t), h, count), step.atoms_at(arb(t), h, count)
        density = [float(abs(a - b).abs_lower()) for a, b in zip(values, atoms, strict=True)]
        for k in (1, 10, 30):
            assert max(density[k:]) <= float(step.beyond(arb(t), h*k)[1].abs_upper())

@pytest.mark.parametrize('sigma', [1e-4, 1e-3])
def test_too_long_is_said(sigma):
    step = balls.SampledGaussianStep(1/arb(sigma), arb(.5), 'remove')
    with pytest.raises(ValueError, match='sigma must be larger for this proof'):
        step.values(arb(20), arb(1), 1)
