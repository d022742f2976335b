"""Losses with a density: one-step curves and transforms against the oracles, what a line says of
its errors, and the noise of one's own that losses/densities teaches."""
import json
import math
from contextlib import contextmanager
from pathlib import Path

import flint
import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb
from scipy.integrate import trapezoid

import conformance
import oracles
from certify import mechanism
from dp_saddle import (
    ContourAccountant,
    DensityLoss,
    Laplace,
    MomentsAccountant,
    PoissonSubsampled,
    epsilon,
)
from dp_saddle.losses.densities import SubsampledLoss, TrapezoidLoss, log_mix


def gauss(sigma, rate=None):
    "What an oracle calls a Gaussian step, sampled or not."
    return ('gaussian', sigma) if rate is None else ('sub', ('gaussian', sigma), rate)

def laplace(scale, rate=None):
    return ('laplace', scale) if rate is None else ('sub', ('laplace', scale), rate)

SKEWED = 'discrete', (.5, .25, .25), (.25, .25, .5)
ONE_STEP = [
    (gauss(1.), (0., 1., 10., 36.)),
    (gauss(.3), (0., 50., 115.)),
    (gauss(1e3), (0., 1e-3, .03)),
    (gauss(20.), (0., .1, 1.8)),
    (('gaussian', 2., .5), (.7,)),
    (gauss(2., .01), (0., .01, 1., 9.)),
    (gauss(.3, 1e-6), (0., 1e-7, 3., 100.)),
    (gauss(.5, .2), (.1, 20., 70.)),
    (gauss(20., .9), (0., .1, 1.7)),
    (gauss(9.4, .32768), (.01, 1.)),
    (laplace(1.), (0., .5, .999)),
    (laplace(50.), (0., .01)),
    (laplace(1., .3), (0., .1, .35)),
    (laplace(.2, 1e-4), (0., .005)),
    (('rr', 2.), (0., 1., 1.9)),
    (('approx', .5, 1e-9), (0., .4, 3.)),
    (SKEWED, (0., .3)),
    (('sub', ('rr', 2.), .05), (0., .1)),
    (('sub', ('approx', 1., 1e-5), .1), (.05,)),
]

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('m, eps', ONE_STEP, ids=lambda x: str(x)[:40])
def test_one_step_curves(m, eps, direction):
    "To 1e-12 relative, down to 1e-300, and inside the accountant's certificate."
    plrv = getattr(mechanism(m), direction)
    for e in eps:
        want = oracles.one_step(m, e, direction)
        if want > 1e-300 or want == 0:
            assert abs(plrv.delta(e) - want) <= 1e-12*want, (e, want)
        bounds = ContourAccountant(plrv).delta(e)
        assert bounds.lower <= want <= bounds.upper

@contextmanager
def flint_digits(digits):
    "flint computes with so many digits meanwhile."
    before, flint.ctx.dps = flint.ctx.dps, digits
    try:
        yield
    finally:
        flint.ctx.dps = before

def exact_mgf(sigma, rate, z, digits):
    "M of a sampled Gaussian step: flint proves it to 45 digits or more."
    with flint_digits(digits):
        at = acb(float(z.real), float(z.imag))
        M = oracles.sub_gaussian_mgf(at, rate, 1/sigma, arb(10)**(-digits if digits > 50 else -45))
        parts = [x.mid().str(digits + 5, radius=False) for x in (M.real, M.imag)]
    return mp.mpc(*parts)

@pytest.mark.parametrize('sigma, rate', [(2., .01), (.8, 1e-3), (.3, .1), (9.4, .32768),
                                         (1., 1e-5), (20., 1e-6), (.5, .9)])
def test_transform_against_rigorous_integration(sigma, rate):
    """M - 1 to 1e-12 of its own size on the real axis - n K is right for n = 1e7 - and to 1e-13 of
    M(Re z) off it; flint proves the reference."""
    plrv = mechanism(gauss(sigma, rate)).remove
    for z in (.3, 2., 2 + 1j, 1 + 40j):
        with mp.workdps(60):
            want = exact_mgf(sigma, rate, complex(z), 50)
            got = mp.expm1(mp.mpmathify(plrv.cgf(z)))
            on_axis = isinstance(z, float)
            scale = 1e-12*abs(want - 1) if on_axis else 1e-13*mp.exp(plrv.cgf(z.real))
        assert abs(got - (want - 1)) < scale, z

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('m', [gauss(1., .2), laplace(1.), laplace(1., .3), ('rr', 1.)], ids=str)
def test_cdf_and_support(m, direction):
    plrv = getattr(mechanism(m), direction)
    x = np.linspace(max(plrv.ess_inf, -9), min(plrv.ess_sup, 9), 400)
    c = plrv.cdf(x)
    assert (np.diff(c) >= 0).all() and 0 <= c[0] and c[-1] == pytest.approx(1, abs=1e-6)
    assert plrv.ess_inf == -np.inf or plrv.cdf(plrv.ess_inf - 1e-9) == 0
    mean = trapezoid(1 - c, x) + x[0]              # E[L], up to the grid
    assert mean == pytest.approx(plrv.cumulants(0., 1)[0], abs=.03)

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('m', [gauss(1., .2), laplace(1., .2), laplace(1.)], ids=str)
def test_negative_eps(m, direction):
    "A composition meets its steps at negative eps."
    for e in (-.05, -1., -5.):
        want = float(oracles.one_step(m, e, direction))
        assert getattr(mechanism(m), direction).delta(e) == pytest.approx(want, rel=1e-12)

@pytest.mark.parametrize('m', [laplace(.005), laplace(.005, .1)], ids=str)
def test_wide_laplace(m):
    """Losses of 200 nats, where each tilt feels another part of the density: K against both atoms
    and the density in closed form, from tilt -1/2 on."""
    d, rate = 200, arb(m[2] if m[0] == 'sub' else 1)
    def term(l, t, analytic=False):
        return (-(l + d)/2 + (1 + t)*(1 - rate + rate*l.exp()).log(analytic=analytic)).exp()
    for t in (-.5, -.2, 0., .01, .5, 3., 8., 9., 40.):
        ends = term(acb(-d), t) + term(acb(d), t)
        between = acb.integral(lambda l, analytic, t=t: term(l, t, analytic), -d, d,
                               abs_tol=arb(10)**-200)
        ball = (between/4 + ends/2).real.log()
        want = float(ball.mid())
        assert ball.rad() < 1e-13*(1 + abs(want))
        for plrv, tilt in ((mechanism(m).remove, t), (mechanism(m).add, -1 - t)):
            if tilt >= -.5:
                assert plrv.cgf(tilt) == pytest.approx(want, rel=1e-12, abs=1e-13), (t, tilt)

@pytest.mark.parametrize('direction, scale, rate, t, s', [
    ('add', .125, 2e-4, 4300., 2e3), ('add', .125, 2e-4, 4300., 2e5), ('add', .25, .015, 2e4, 5e4),
    ('add', .08, 1e-6, 3e5, 1e6), ('remove', .2, .01, 400., 900.), ('remove', .05, .1, 900., 4e3)])
def test_laplace_that_is_felt_where_it_is_flat(direction, scale, rate, t, s):
    "Panels and paths that differ from place to place: a line, and its decay, against flint's."
    plrv = getattr(mechanism(laplace(scale, rate)), direction)
    K, error, change, log_error = plrv.line(t, np.array([0., s/2, s]))
    with flint_digits(50):
        at_t, turned = (laplace_mgf(direction, scale, rate, acb(t, x)) for x in (0., s))
        assert at_t.real.rel_accuracy_bits() > 80 and abs(turned).rel_accuracy_bits() > 80
        want = at_t.real.log()
        assert abs(float(want - arb(K))) <= error
        off = float(abs(turned/at_t/acb(change[2].real, change[2].imag).exp() - 1))
        size = float(abs(turned).log())
    assert plrv.cgf(t) == pytest.approx(float(want), rel=1e-12, abs=1e-13)
    assert off <= math.expm1(log_error[2]) + 2*error
    assert size <= np.logaddexp(*plrv.decay(t, np.array([s])))[0]

def laplace_mgf(direction, scale, rate, z):
    "M of a sampled Laplace step, in 64 pieces of its base losses."
    d, q, power = 1/arb(scale), arb(rate), 1 + z if direction == 'remove' else -z
    def term(l, analytic=False):
        return (-(l + d)/2 + power*(1 - q + q*l.exp()).log(analytic=analytic)).exp()
    pieces = [acb.integral(term, -d + d*k/32, -d + d*(k + 1)/32, rel_tol=arb(10)**-30)
              for k in range(64)]
    return sum(pieces, acb(0))/4 + (term(acb(-d)) + term(acb(d)))/2

def exact_cgf(m, z):
    "K of removing a record from the step `m`, to 50 digits: closed forms, and flint's integration."
    if m[0] == 'gaussian':
        return z*(z + 1)/(2*mp.mpf(m[1])**2)
    if m[0] == 'laplace':
        d = 1/mp.mpf(m[1])
        high, low = (mp.exp(-(l + d)/2 + (1 + z)*l) for l in (d, -d))
        return mp.log((high + low)/2 + (high - low)/(4*z + 2))
    if m[0] == 'sub' and m[1][0] == 'gaussian':
        return mp.log(exact_mgf(m[1][1], m[2], z, 60))
    eps, rate = mp.mpf(m[-2][-1] if m[0] == 'sub' else m[1]), mp.mpf(m[2] if m[0] == 'sub' else 1)
    q = [1/(1 + mp.exp(eps)), 1/(1 + mp.exp(-eps))]
    finite = 1 - mp.mpf(m[2]) if m[0] == 'approx' else 1
    pairs = (q, q[::-1])
    return mp.log(finite*sum(b*((1 - rate) + rate*a/b)**(1 + z) for a, b in pairs))

RUNS = [
    [(gauss(.7), 1)],
    [(('rr', .8), 1)],
    [(('sub', ('rr', 2.), .1), 300)],
    [(('approx', .5, .2), 3)],
    [(laplace(2.), 40)],
    [(gauss(1.3, .25), 16)],
    [(gauss(2., .01), 1)],
    [(gauss(30.), 7), (('rr', .02), 900), (laplace(12.), 55), (gauss(2., .03), 1000)],
]

def seen_and_said(plrv, parts, t):
    "How far K(t), and e^{change} on its line, are off, relative to what is said."
    s = np.arange(9)*(1.375/np.sqrt(plrv.cumulants(t)[1]))
    line = plrv.line(t, s)
    with mp.workdps(50):
        def exact(z): return sum(n*exact_cgf(m, z) for m, n in parts)
        base = exact(mp.mpc(float(t)))
        assert line.error <= 1e-9*(1 + abs(base))
        beside = []
        for x, change, log_error in zip(s[1:], line.change[1:], line.log_error[1:], strict=True):
            want = exact(mp.mpc(float(t), float(x))) - base
            off = abs(mp.exp(want - mp.mpc(change)) - 1)
            beside.append(off/mp.expm1(float(log_error)))
        return abs(line.K - base)/line.error, beside

@pytest.mark.parametrize('parts', RUNS, ids=str)
def test_what_the_line_says_of_its_errors(parts):
    """K(t) and K(t + is) - K(t) are as near to the truth as is said, which the certificate of
    engine/line rests on; and what is said is at most 1000 times what is seen (for K at tilts
    below 1, where it can be next to 0, more)."""
    plrv = sum(n*mechanism(m) for m, n in parts).remove
    for tilts in (np.geomspace(1e-5, .1, 8), [.25, .75, 1.5, 6., 23.]):
        answers = [seen_and_said(plrv, parts, t) for t in tilts]
        at_t, beside = [a for a, _ in answers], [b for _, bs in answers for b in bs]
        assert max(at_t) <= 1 and max(beside) <= 1
        assert max(at_t) > (1/1000 if tilts[-1] > 1 else 0) and max(beside) > 1/1000


# A noise of one's own

def page():
    "What the chapter's page defines: its cells with a class, run; and the lines of its loss."
    path = Path(__file__).resolve().parent.parent/'nbs'/'losses/densities.ipynb'
    cells = json.loads(path.read_text(encoding='utf-8'))['cells']
    cells = [''.join(cell['source']) for cell in cells if cell['cell_type'] == 'code']
    wanted = 'from dataclasses', 'class LogisticLoss', '@dataclass(frozen=True, kw_only'
    found = [next(text for text in cells if text.startswith(start)) for start in wanted]
    names = {'np': np, 'pi': math.pi, '__name__': __name__}
    for text in found:
        exec('\n'.join(line for line in text.splitlines() if not line.startswith('print')), names)
    return names, found[1].splitlines()

NAMES, LINES = page()

def test_the_page_is_short():
    assert len(LINES) <= 30

@pytest.mark.parametrize('d', [.5, 3.])
def test_the_page_keeps_the_promises(d):
    "The class that a reader copies; its transform to 50 digits, on lines too."
    def exact(z):
        half = z + mp.mpf(1)/2
        return mp.log(mp.sinh(half*d)/(2*half*mp.sinh(mp.mpf(d)/2)))
    def density(l): return np.exp((l + d)/2)/(2*np.expm1(d))
    assert conformance.check(NAMES['LogisticLoss'](d), density=density, exact=exact) == []

def test_the_page_makes_a_mechanism():
    "It composes with others, merges, and every front door takes it."
    Logistic = NAMES['Logistic']
    run = 100*Logistic(scale=10.) + 50*Logistic(scale=10.)
    assert run == 150*Logistic(scale=10.) and run.symmetric
    low, _, high = ContourAccountant(run).epsilon(1e-6)
    assert high - low < 1e-9 and epsilon(run, delta=1e-6) == pytest.approx(high, rel=1e-9)
    assert MomentsAccountant(run).epsilon(1e-6).upper > low
    with pytest.raises(TypeError, match='base must be .*`loss_of_sample`.*AdditiveNoise'):
        PoissonSubsampled(Logistic(scale=1.), rate=.1)

@pytest.mark.parametrize('missing', ['loss', 'log_density', 'ends'])
def test_a_density_that_lacks_a_part_is_told_which(missing):
    parts = {'loss': lambda self, x: x + .5, 'ends': lambda self, t: (-11., 11. + t),
             'log_density': lambda self, x: -x*x/2 - math.log(2*math.pi)/2}
    whole = type('Whole', (DensityLoss,), parts)(1.)
    assert whole.cgf(2.) == pytest.approx(3., rel=1e-13)
    del parts[missing]
    told = rf'Part must define {missing}\(.\): see losses/densities'
    with pytest.raises(NotImplementedError, match=told):
        type('Part', (DensityLoss,), parts)(1.).cgf(2.)

@pytest.mark.parametrize('rate', [1e-200, 1e-9, .3, 1 - 1e-16])
@pytest.mark.parametrize('precision', [float, np.longdouble])
def test_log_mix(rate, precision):
    "To rounding, from e^-700 to e^700; long doubles go in and out."
    l = np.array([-700., -30., -1e-12, 0., .5, 600., 700.], precision)
    found = log_mix(l, rate)
    assert found.dtype == precision
    with mp.workdps(700):
        q = mp.mpf(rate)
        for x, got in zip(l, found, strict=True):
            want = mp.log(1 - q + q*mp.exp(mp.mpf(float(x))))
            assert abs(mp.mpf(float(got)) - want) <= 2e-15*abs(want)

def test_base_classes_name_what_they_want():
    for plrv, ask, name in [
            (TrapezoidLoss(1.), lambda p: p.cgf(1.), 'ends'),
            (TrapezoidLoss(1.), lambda p: p.at(0., 1.), 'at'),
            (SubsampledLoss(1., .1, 'add', math.inf), lambda p: p.cdf(0.), 'base_tail'),
            (SubsampledLoss(1., .1, 'remove', math.inf), lambda p: p.log_delta(np.ones(1)),
             'base_log_delta')]:
        with pytest.raises(NotImplementedError, match=rf'must define {name}\('):
            ask(plrv)


def test_what_nodes_are_off_by_is_finite():
    "However little the noise, sampled or not: a NaN would be no bound."
    for scale, rate in ((1e-3, 1.), (1e-3, .5), (1e-2, 1.), (1e-2, 1e-6)):
        step = Laplace(scale=scale)
        step = step if rate == 1 else PoissonSubsampled(step, rate=rate)
        for plrv in (step.remove, step.add):
            K, error = plrv.known_cgfs(np.array([.5, 1., 3.]))
            assert np.isfinite(K).all() and (0 < error).all() and (error < 1e-9*(1 + K)).all()
            assert 0 < plrv.known_cgf(1.)[1] < 1e-9*(1 + K[1])
