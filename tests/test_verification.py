"""The verifier's enclosures, beside quadratures of fifty digits and beside enumeration."""
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb, ctx

from dp_saddle import balls, verification
from dp_saddle.contour import ContourAccountant
from dp_saddle.mechanisms import (
    ApproxDP,
    Discrete,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
)
from dp_saddle.schedules import to_steps


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

RUNS = [
    7*RandomizedResponse(eps=.3) + 2*ApproxDP(eps=.1, delta=1e-3),
    5*PoissonSubsampled(DiscreteLaplace(scale=3., sensitivity=2), rate=.4),
    3*Discrete(p=(.2, .3, .5), q=(.3, .3, .4)),
    Discrete(p=(.25, .75, 0.), q=(0., .5, .5)),
    PoissonSubsampled(Laplace(scale=1.5), rate=.25),
    PoissonSubsampled(Gaussian(sigma=.8), rate=.5),
    2*Gaussian(sigma=3.) + Gaussian(sigma=1., sensitivity=.5),
]

@pytest.mark.parametrize('run', RUNS, ids=str)
def test_exact_ways(run):
    "Enumeration and one step's curve lie within the library's bounds."
    verifier = verification.Verifier(to_steps(run))
    for direction in ('remove', 'add'):
        parts = verifier.parts[direction]
        way = 'one step' if [n for _, n in parts] == [1] else 'outcomes'
        for eps in (0., .1, .4):
            low, up = verifier.bounds(direction, arb(eps), {'by': way})
            ours = ContourAccountant(getattr(run, direction)).delta(eps)
            assert ours.lower <= float(up) and float(low) <= ours.upper
            assert float(up - low) < 1e-30

def test_every_way_holds_the_truth():
    "All ways of one run, in the order of their sharpness."
    run = 20*PoissonSubsampled(Laplace(scale=3.), rate=.2) + 3*RandomizedResponse(eps=.2)
    verifier = verification.Verifier(to_steps(run))
    ours = ContourAccountant(run.remove, max_nodes=1 << 14).delta(.5)
    plan = {'by': 'line', 'tilt': 9., 'period': 6., 'nodes': 3000, 'smoothing': 2e-3,
            'far tilt': 20.}
    ways = [plan, {'by': 'moments', 'tilt': 9.}, {'by': 'single steps'}, {'by': 'nothing'}]
    for way in ways:
        low, up = (float(x) for x in verifier.bounds('remove', arb(.5), way))
        assert low <= ours.upper and ours.lower <= up
    exact = verifier.bounds('remove', arb(.5), plan)
    assert float(exact[1] - exact[0]) < .01*ours.upper

def test_bad_plans_are_wide_or_refused():
    run = [{'mechanism': 'Gaussian', 'sigma': 2., 'rate': .01, 'count': 3000}]
    good = {'by': 'line', 'tilt': 10.5, 'period': 8., 'nodes': 40, 'smoothing': 0., 'far tilt': 18.}
    truth = verification.Verifier(run).bounds('remove', arb(1), good)
    rng = np.random.default_rng(5)
    for _ in range(40):
        plan = {**good, 'tilt': rng.uniform(.1, 40), 'period': rng.uniform(.1, 20),
                'nodes': int(rng.integers(1, 80)), 'smoothing': rng.choice([0., rng.uniform(0, 1)]),
                'far tilt': rng.choice([None, rng.uniform(.1, 50)])}
        low, up = verification.Verifier(run).bounds('remove', arb(1), plan)
        assert not low > truth[1] and not up < truth[0]
    for way in ('outcomes', 'one step'):
        with pytest.raises(ValueError, match='must be by a line'):
            verification.Verifier(run).bounds('remove', arb(1), {'by': way})

@pytest.mark.parametrize('sigma', [1e-4, 1e-3])
def test_too_long_is_said(sigma):
    step = balls.SampledGaussianStep(1/arb(sigma), arb(.5), 'remove')
    with pytest.raises(ValueError, match='sigma must be larger for this proof'):
        step.values(arb(20), arb(1), 1)
