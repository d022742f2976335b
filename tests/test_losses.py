"Losses of one step: curves and transforms against the oracles, and what a line says of its errors."
import math
from contextlib import contextmanager

import flint
import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb
from scipy.integrate import trapezoid

import oracles
from certify import mechanism
from dp_saddle import ContourAccountant, Discrete


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

TWO_DIRECTIONS = [gauss(2., .01), gauss(.5, .3), gauss(1., 1e-6), laplace(1.), laplace(.5, .2),
                  ('rr', 1.), ('approx', 1., .1), SKEWED]

@pytest.mark.parametrize('m', TWO_DIRECTIONS, ids=str)
def test_transforms_of_the_two_directions(m):
    "M_add(z) = M_remove(-1 - z), each by its own quadrature; conjugates; M(0) = 1 - p_inf."
    a, b = mechanism(m).remove, mechanism(m).add
    inner = -.5 + 1j*np.array([0, 3, -7, 60.])    # a line on which neither defers to the other
    np.testing.assert_allclose(np.exp(a.cgf(inner)), np.exp(b.cgf(-1 - inner)), rtol=1e-12)
    np.testing.assert_allclose(a.cgf(inner.conj()), a.cgf(inner).conj(), rtol=1e-13)
    assert a.cgf(0.) == pytest.approx(math.log1p(-a.p_inf), abs=1e-15)
    assert a.cgf(np.zeros((2, 3))).shape == (2, 3)

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

@pytest.mark.parametrize('m', [gauss(1., .1), laplace(1.), ('rr', 1.)], ids=str)
def test_far_tilts(m):
    "Cumulants do not overflow."
    assert np.isfinite(mechanism(m).remove.cumulants(1e3, 3)).all()

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
    chapter 01 rests on; and what is said is at most 500 times what is seen (for K at tilts below 1,
    where it can be next to 0, more)."""
    plrv = sum(n*mechanism(m) for m, n in parts).remove
    for tilts in (np.geomspace(1e-5, .1, 8), [.25, .75, 1.5, 6., 23.]):
        answers = [seen_and_said(plrv, parts, t) for t in tilts]
        at_t, beside = [a for a, _ in answers], [b for _, bs in answers for b in bs]
        assert max(at_t) <= 1 and max(beside) <= 1
        assert max(at_t) > (1/500 if tilts[-1] > 1 else 0) and max(beside) > 1/500

def test_a_loss_that_is_never_finite():
    plrv = Discrete(p=(1., 0.), q=(0., 1.)).remove
    assert (plrv.ess_inf, plrv.ess_sup, plrv.p_inf) == (math.inf, -math.inf, 1.)
    with pytest.raises(ValueError, match='finite somewhere'): plrv.cumulants(0.)
