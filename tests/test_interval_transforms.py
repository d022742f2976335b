"""Steps in ball arithmetic, beside quadratures of fifty digits."""
from itertools import product

import mpmath as mp
import pytest
from flint import acb, arb, ctx

from dp_saddle import Gaussian, PoissonSubsampled, group, to_steps
from dp_saddle.certificates import interval_transforms as balls


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
                                         pytest.param(1., 1e-5, 40., 40., marks=pytest.mark.slow),
                                         (3., .9, .5, 0.)])
def test_sampled_gaussian(mu, q, t, s, direction):
    step = balls.SampledGaussianStep(arb(mu), arb(q), direction)
    value = step.values(arb(t), arb(s), 2)[1]
    with mp.workdps(50):
        exact = sampled_gaussian(mp.mpc(t, s), mp.mpf(mu), mp.mpf(q), direction)
    size = abs(complex(step.at(arb(t))))
    assert float(value.rad()) < 1e-13*size
    assert apart(value, exact) <= 2*float(value.rad()) + 1e-30*size

@pytest.mark.parametrize('spread', [0., 1e-12, 1e-4, 3e-3, .03, .3])
@pytest.mark.parametrize('count', [1, 2, 130, 5000])
def test_sums_of_terms_that_keep_together(spread, count):
    "Beside sums term by term with more digits; the radius holds what the powers leave out."
    y = [acb(-spread*(j % 7), 1 + spread*j/100) for j in range(150)]
    c = [acb((-1)**j*(1 + j), j - 60) for j in range(150)]
    sums = balls.power_sums(c, y, count)
    for k in {0, 1, count//2, count - 1} & set(range(count)):
        with ctx.workprec(3*balls.PRECISION):
            exact = sum((a*(k*v).exp() for a, v in zip(c, y, strict=True)), acb(0))
        assert sums[k].contains(exact) and sums[k].rad() < 1e-28

def test_expansions_that_are_cut_short_say_so(monkeypatch):
    y = [acb(-.001*(j % 3), 1 + 1e-4*j) for j in range(200)]
    with ctx.workprec(3*balls.PRECISION):
        exact = [sum(((k*v).exp() for v in y), acb(0)) for k in range(500)]
    monkeypatch.setattr(balls, '_TINY', 10.)
    sums = balls.power_sums([acb(1)]*200, y, 500)
    assert all(a.contains(b) for a, b in zip(sums, exact, strict=True))
    assert max(float(a.rad()) for a in sums) > 1e-6

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

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('d, q, t, s', [(.05, .3, 20., 900.), (4., .5, .5, 80.),
                                        pytest.param(1., .01, 3., 2000., marks=pytest.mark.slow),
                                        (.2, .1, 600., 300.),
                                        (9., 1e-4, 1., 40.)])
def test_the_turned_path(d, q, t, s, direction):
    "At high frequencies, beside the straight one and beside a quadrature."
    step = balls.LaplaceStep(arb(d), arb(q), direction)
    turned, straight = step.turned(arb(t), arb(s), 1, 3), step.straight(arb(t), arb(s), 3)[1:]
    size = float(step.straight(arb(t), arb(0), 1)[0].real)
    for a, b in zip(turned, straight, strict=True):
        assert a.overlaps(b) and float(a.rad()) < 1e-24*size
    p = 1 + t if direction == 'remove' else -t
    with mp.workdps(40):
        rate, cuts = mp.mpf(q), mp.linspace(-d, d, 3 + int(s*d/4))
        def density(x):
            return (1 - rate + rate*mp.exp(x))**mp.mpc(p, s)*mp.exp(-(x + d)/2)/4
        exact = mp.quad(density, cuts)
    assert apart(turned[0], exact) <= 2*float(turned[0].rad()) + 1e-24*size

@pytest.mark.parametrize('d, q', [(.1, .3), (1., .05), (30., .01)])
def test_a_turned_path_that_is_cut_or_coarse_says_so(d, q, monkeypatch):
    "Fewer points, and a path across at a small height: wide balls that hold the truth."
    step, t, s = balls.LaplaceStep(arb(d), arb(q), 'remove'), arb(2), arb(50)
    exact = step.turned(t, s, 1, 2)[0]
    monkeypatch.setattr(balls, '_TINY', 2.)
    low = step.turned(t, s, 1, 2)[0]
    assert low.overlaps(exact) and low.rad() > 1e6*exact.rad()
    assert abs(low.mid() - exact).abs_lower() > 1e3*exact.rad()
    monkeypatch.undo()
    monkeypatch.setattr(balls, '_POINTS', 8)
    rough = step.turned(t, s, 1, 2)[0]
    assert rough.overlaps(exact) and rough.rad() > 1e6*exact.rad()

def mixture(z, parts, direction):
    "M(z) of a mixture by quadrature, mpmath."
    def w(x):
        return mp.fsum(p*mp.exp(m*x - m**2/2) for m, p in parts)
    def f(x):
        return mp.npdf(x)*w(x)**(1 + z if direction == 'remove' else -z)
    reach = float(parts[-1][0])*float(mp.re(z) + 1)
    return mp.quad(f, mp.linspace(-16, 13 + reach, 24))

MIXTURES = [((0., .5, 2.), (.5, .25, .25)), ((.25, .75, 1.), (.5, .25, .25)),
            ((0., .1, 1.), (.25, .25, .5))]

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('t, s', [(.5, 3.), (6., 9.)])
@pytest.mark.parametrize('c, p', MIXTURES)
def test_mixtures(c, p, t, s, direction):
    step = balls.MixtureStep([arb(x) for x in c], [arb(x) for x in p], direction)
    value = step.values(arb(t), arb(s), 2)[1]
    with mp.workdps(40):
        parts = [(mp.mpf(m), mp.mpf(q)) for m, q in zip(c, p, strict=True)]
        exact = mixture(mp.mpc(t, s), parts, direction)
    size = abs(complex(step.at(arb(t))))
    assert float(value.rad()) < 1e-13*size
    assert apart(value, exact) <= 2*float(value.rad()) + 1e-30*size

GROUPS = [(4, .01, 2.), (9, .3, 5.), (16, .001, 4.)]

def both(k, q, sigma, direction):
    "A group's step by its roots, and as any mixture."
    users = group(PoissonSubsampled(Gaussian(sigma=sigma), rate=q), k)
    step = to_steps(users)[0]
    by_roots = balls.as_step(step, direction)
    mu = [arb(c)/arb(sigma) for c in users.sensitivities]
    total = sum((arb(x) for x in users.probabilities), arb(0))
    return by_roots, balls.MixtureStep(mu, [arb(x)/total for x in users.probabilities], direction)

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('k, q, sigma', GROUPS)
def test_groups_by_their_roots(k, q, sigma, direction):
    "The same transform in a wider strip; bounds beyond a frequency are bounds, and better ones."
    step, plain = both(k, q, sigma, direction)
    assert type(step) is balls.LatticeStep and step.turn < .7*plain.turn
    t, h, count = arb(1.5), arb(sigma)/4, 24
    for a, b in zip(step.values(t, h, count), plain.values(t, h, count), strict=True):
        assert a.overlaps(b) and a.rad() < 1e-15*step.at(t)
    moduli = [float(abs(x).abs_lower()) for x in step.values(t, h, count)]
    for i in (2, 12):
        bound, other = (float(x.beyond(t, h*i)[1]) for x in (step, plain))
        assert max(moduli[i:]) <= bound <= 1.01*other

def test_a_polynomial_whose_roots_are_no_help():
    "Two far amounts: roots on a circle, some of them in front; the strip of any mixture serves."
    step = {'mechanism': 'MixtureOfGaussians', 'sigma': 5., 'sensitivities': (0., 1., 8.),
            'probabilities': (.5, 1e-9, .5 - 1e-9)}
    assert type(balls.as_step(step, 'remove')) is balls.MixtureStep
    off = {**step, 'sensitivities': (0., 1., 1.5)}
    assert type(balls.as_step(off, 'remove')) is balls.MixtureStep

def test_the_place_of_a_dyadic_quotient():
    "w(mu/2) = 1 exactly: the search meets it at once, and both ends are found."
    step = balls.MixtureStep([arb(0), arb(.5)], [arb(.75), arb(.25)], 'remove')
    assert step.place(arb(1)).contains(arb(.25)) and step.place(arb(1)).rad() < 1e-35

def test_the_curve_of_adding_ends():
    step = balls.MixtureStep([arb(0), arb(1), arb(2)], [arb(.5), arb(.25), arb(.25)], 'add')
    assert step.curve(step.largest + .001) == 0
    near = step.curve(step.largest)                    # a ball around the end: decided by none
    assert near.contains(0) and near.abs_upper() < 1e-30
    below = step.curve(step.largest - 1e-9)
    assert 0 < below < 1e-9

@pytest.mark.parametrize('n, k, q', [(100, 3, .25), (100, 60, .25), (7, 7, .5), (5000, 40, .01)])
def test_binomial_tails(n, k, q):
    with mp.workdps(60):
        exact = mp.fsum(mp.binomial(n, j)*mp.mpf(q)**j*(1 - mp.mpf(q))**(n - j)
                        for j in range(k, n + 1))
        ball = balls.binomial_tail(n, k, arb(q))
        assert abs(ball - arb(mp.nstr(exact, 50))) < 1e-33*ball
    assert ball.rad() < 1e-33*ball

def test_a_binomial_tail_of_a_file_does_not_hang():
    with pytest.raises(ValueError, match='dataset_size must be smaller for this proof'):
        balls.binomial_tail(10**15, 5*10**14, arb(.5))

@pytest.mark.parametrize('sigma', [1e-4, 1e-3])
def test_too_long_is_said(sigma):
    step = balls.SampledGaussianStep(1/arb(sigma), arb(.5), 'remove')
    with pytest.raises(ValueError, match='sigma must be larger for this proof'):
        step.values(arb(20), arb(1), 1)
