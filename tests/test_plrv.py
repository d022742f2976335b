"Losses and mechanisms: one-step curves and transforms against the oracles, algebra, bad input."
import math
import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb
from hypothesis import given, strategies as st
import oracles
from certify import mechanism, run
from dp_saddle import (ApproxDP, Composition, ContourAccountant, Discrete, Gaussian, Laplace, PoissonSubsampled, PureDP, RandomizedResponse, delta, epsilon)
from dp_saddle.plrv import PLRV
from dp_saddle.mechanisms import Accountant

S = lambda sigma, rate: PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)
gauss = lambda sigma, rate=None: ('gaussian', sigma) if rate is None else ('sub', ('gaussian', sigma), rate)
ONE_STEP = [(gauss(1.), (0., 1., 10., 36.)), (gauss(.3), (0., 50., 115.)), (gauss(1e3), (0., 1e-3, .03)), (gauss(20.), (0., .1, 1.8)), (('gaussian', 2., .5), (.7,)),
            (gauss(2., .01), (0., .01, 1., 9.)), (gauss(.3, 1e-6), (0., 1e-7, 3., 100.)), (gauss(.5, .2), (.1, 20., 70.)), (gauss(20., .9), (0., .1, 1.7)), (gauss(9.4, .32768), (.01, 1.)),
            (('laplace', 1.), (0., .5, .999)), (('laplace', 50.), (0., .01)), (('sub', ('laplace', 1.), .3), (0., .1, .35)), (('sub', ('laplace', .2), 1e-4), (0., .005)),
            (('rr', 2.), (0., 1., 1.9)), (('approx', .5, 1e-9), (0., .4, 3.)), (('discrete', (.5, .25, .25), (.25, .25, .5)), (0., .3)), (('sub', ('rr', 2.), .05), (0., .1)), (('sub', ('approx', 1., 1e-5), .1), (.05,))]

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('m, eps', ONE_STEP, ids=lambda x: str(x)[:40])
def test_one_step_curves(m, eps, direction):
    "To 1e-12 relative, down to 1e-300, and inside the accountant's certificate."
    plrv = getattr(mechanism(m), direction)
    for e in eps:
        want = oracles.one_step(m, e, direction)
        if want > 1e-300 or want == 0: assert abs(plrv.delta(e) - want) <= 1e-12*want, (e, want)
        bounds = ContourAccountant(plrv).delta(e)
        assert bounds.lower <= want <= bounds.upper

@pytest.mark.parametrize('sigma, rate', [(2., .01), (.8, 1e-3), (.3, .1), (9.4, .32768), (1., 1e-5), (20., 1e-6), (.5, .9)])
def test_transform_against_rigorous_integration(sigma, rate):
    "M - 1 to 1e-12 of its own size on the real axis - n K is right for n = 1e7 - and to 1e-13 of M(Re z) off it; flint proves the reference."
    plrv = mechanism(gauss(sigma, rate)).remove
    for z in (.3, 2., 2 + 1j, 1 + 40j):
        with oracles._prec(50), mp.workdps(60):
            M = oracles.sub_gaussian_mgf(acb(complex(z).real, complex(z).imag), rate, 1/sigma, arb(10)**-45)
            want = mp.mpc(*(oracles._to_mpf(x) for x in (M.real, M.imag)))
            got = mp.expm1(mp.mpmathify(plrv.cgf(z)))
        assert abs(got - (want - 1)) < (1e-12*abs(want - 1) if z in (.3, 2.) else 1e-13*mp.exp(plrv.cgf(complex(z).real))), z

@pytest.mark.parametrize('m', [gauss(2., .01), gauss(.5, .3), gauss(1., 1e-6), ('laplace', 1.), ('sub', ('laplace', .5), .2), ('rr', 1.), ('approx', 1., .1), ('discrete', (.5, .25, .25), (.25, .25, .5))], ids=str)
def test_transforms_of_the_two_directions(m):
    "M_add(z) = M_remove(-1 - z), each by its own quadrature; conjugate symmetry; M(0) = 1 - p_inf."
    a, b = mechanism(m).remove, mechanism(m).add
    inner = -.5 + 1j*np.array([0, 3, -7, 60.])                  # the line on which neither defers to the other
    np.testing.assert_allclose(np.exp(a.cgf(inner)), np.exp(b.cgf(-1 - inner)), rtol=1e-12)
    np.testing.assert_allclose(a.cgf(inner.conj()), a.cgf(inner).conj(), rtol=1e-13)
    assert a.cgf(0.) == pytest.approx(math.log1p(-a.p_inf), abs=1e-15)
    assert a.cgf(np.zeros((2, 3))).shape == (2, 3)

def test_cdf_and_support():
    for m in (gauss(1., .2), ('laplace', 1.), ('sub', ('laplace', 1.), .3), ('rr', 1.)):
        for plrv in (mechanism(m).remove, mechanism(m).add):
            x = np.linspace(max(plrv.ess_inf, -9), min(plrv.ess_sup, 9), 400)
            c = plrv.cdf(x)
            assert (np.diff(c) >= 0).all() and 0 <= c[0] and c[-1] == pytest.approx(1, abs=1e-6)
            assert plrv.cdf(plrv.ess_inf - 1e-9) == 0 if plrv.ess_inf > -np.inf else True
            mean = np.trapezoid(1 - c, x) + x[0]              # E[L], up to the grid
            assert mean == pytest.approx(plrv.cumulants(0., 1)[0], abs=.03)

steps = st.sampled_from([Gaussian(sigma=2.), Laplace(scale=3.), RandomizedResponse(eps=.2), PoissonSubsampled(base=Gaussian(sigma=1.), rate=.1), ApproxDP(eps=.1, delta=1e-6)])
counts = st.integers(0, 50)

@given(steps, counts, steps, counts)
def test_algebra(a, n, b, m):
    left, right = n*a + m*b, Composition(((a, n), (b, m)))
    assert left == right and a*n == n*a and 2*(n*a) == (2*n)*a and (n*a) + a == (n + 1)*a
    np.testing.assert_allclose(left.remove.cgf(1.5), n*a.remove.cgf(1.5) + m*b.remove.cgf(1.5), rtol=1e-12, atol=1e-15)

@given(steps, st.integers(1, 30), st.floats(0, 3), st.floats(0, 3))
def test_curves_fall_and_grow(a, n, x, y):
    "delta falls with eps and grows with the steps."
    x, y = sorted((x, y))
    one, more = ContourAccountant(n*a).delta([x, y]), ContourAccountant((n + 3)*a).delta([x, y])
    assert one.upper[0] >= one.lower[1] and (more.upper >= one.lower).all()
    for b in (one, more): assert ((0 <= b.lower) & (b.lower <= b.estimate) & (b.estimate <= b.upper) & (b.upper <= 1)).all()

def test_single_precision_parameters_are_not_single_precision_results():
    x = np.float32(1.1)
    assert delta(10*RandomizedResponse(eps=x), eps=1.) == delta(10*RandomizedResponse(eps=float(x)), eps=1.)
    assert delta(PoissonSubsampled(base=Gaussian(sigma=x), rate=np.float32(.1)), eps=.1) == delta(PoissonSubsampled(base=Gaussian(sigma=float(x)), rate=float(np.float32(.1))), eps=.1)

def test_negative_eps_and_far_tilts():
    'A composition meets its steps at negative eps; cumulants do not overflow.'
    for m in (gauss(1., .2), ('sub', ('laplace', 1.), .2), ('laplace', 1.)):
        for e in (-.05, -1., -5.):
            for d in ('remove', 'add'): assert getattr(mechanism(m), d).delta(e) == pytest.approx(float(oracles.one_step(m, e, d)), rel=1e-12)
    for m in (gauss(1., .1), ('laplace', 1.), ('rr', 1.)): assert np.isfinite(mechanism(m).remove.cumulants(1e3, 3)).all()

@pytest.mark.parametrize('m', [('laplace', .005), ('sub', ('laplace', .005), .1)], ids=str)
def test_wide_laplace(m):
    "Losses of 200 nats, where each tilt feels another part of the density: K against both atoms and the density in closed form, from tilt -1/2 on."
    d, rate = mp.mpf(200), mp.mpf(m[2] if m[0] == 'sub' else 1)
    for t in (-.5, -.2, 0., .01, .5, 3., 8., 9., 40.):
        with mp.workdps(30):
            mixed = lambda l: mp.log(1 - rate + rate*mp.exp(l))
            pieces = [mp.quad(lambda l: mp.exp(-(l + d)/2 + (1 + t)*mixed(l))/4, mp.linspace(-d, d, 21), maxdegree=8)] + [mp.exp(-(l + d)/2 + (1 + t)*mixed(l))/2 for l in (-d, d)]
            want = mp.log(sum(pieces))
        for plrv, tilt in ((mechanism(m).remove, t), (mechanism(m).add, -1 - t)):
            if tilt >= -.5: assert plrv.cgf(tilt) == pytest.approx(float(want), rel=1e-12, abs=1e-13), (t, tilt)

def exact_cgf(m, z):
    "K of removing a record from the step `m`, to 50 digits: closed forms, and flint's integration."
    if m[0] == 'gaussian': return z*(z + 1)/(2*mp.mpf(m[1])**2)
    if m[0] == 'laplace':
        d, p = 1/mp.mpf(m[1]), lambda l: mp.exp(-(l + d)/2 + (1 + z)*l)
        return mp.log((p(d) + p(-d))/2 + (p(d) - p(-d))/(4*z + 2))
    if m[0] == 'sub' and m[1][0] == 'gaussian':
        with oracles._prec(60): M = oracles.sub_gaussian_mgf(acb(float(z.real), float(z.imag)), m[2], 1/m[1][1], arb(10)**-50); return mp.log(mp.mpc(*(oracles._to_mpf(x) for x in (M.real, M.imag))))
    eps, rate = mp.mpf(m[-2][-1] if m[0] == 'sub' else m[1]), mp.mpf(m[2] if m[0] == 'sub' else 1)
    q = [1/(1 + mp.exp(eps)), 1/(1 + mp.exp(-eps))]
    return mp.log((1 - (mp.mpf(m[2]) if m[0] == 'approx' else 0))*sum(b*((1 - rate) + rate*a/b)**(1 + z) for a, b in (q, q[::-1])))

@pytest.mark.parametrize('parts', [[(gauss(.7), 1)], [(('rr', .8), 1)], [(('sub', ('rr', 2.), .1), 300)], [(('approx', .5, .2), 3)], [(('laplace', 2.), 40)], [(gauss(1.3, .25), 16)], [(gauss(2., .01), 1)],
                                   [(gauss(30.), 7), (('rr', .02), 900), (('laplace', 12.), 55), (gauss(2., .03), 1000)]], ids=str)
def test_what_the_line_says_of_its_errors(parts):
    "K(t) and K(t + is) - K(t) are as near to the truth as is said, which the contour's certificate rests on; and what is said is at most 500 times what is seen (for K at tilts below 1, where it can be next to 0, more)."
    plrv = sum(n*mechanism(m) for m, n in parts).remove
    for tilts in (np.geomspace(1e-5, .1, 8), [.25, .75, 1.5, 6., 23.]):
        at_t, beside = [], []
        for t in tilts:
            s = np.arange(9)*(1.375/np.sqrt(plrv.cumulants(t)[1]))
            K, e, D, error = plrv.line(t, s)
            with mp.workdps(50):
                at = lambda z: sum(n*exact_cgf(m, z) for m, n in parts)
                base = at(mp.mpc(float(t)))
                assert abs(K - base) <= e <= 1e-9*(1 + abs(base))
                at_t.append(abs(K - base)/e)
                for x, d, most in zip(s[1:], D[1:], error[1:]):
                    off = abs(mp.exp(at(mp.mpc(float(t), float(x))) - base - mp.mpc(d)) - 1)
                    assert off <= mp.expm1(float(most)), (t, x)
                    beside.append(off/mp.expm1(float(most)))
        assert max(at_t) > (1/500 if t > 1 else 0) and max(beside) > 1/500

def test_one_step_of_a_composition():
    "A composition of one step has that step's laws; of two, it sends the reader to an accountant."
    one, two = S(1., .1), 2*S(1., .1)
    assert (1*one).remove.cdf(.2) == one.remove.cdf(.2) and (1*one).add.log_delta(.2) == one.add.log_delta(.2) and (3*Gaussian(sigma=3.)).remove.cdf(.5) == pytest.approx(Gaussian(sigma=3**.5).remove.cdf(.5), rel=1e-14)
    with pytest.raises(ValueError, match='exactly one step .*, got 2 steps'): two.remove.cdf(.2)
    with pytest.raises(ValueError, match='exactly one step'): two.add.log_delta(.2)

def test_a_loss_that_is_never_finite():
    plrv = Discrete(p=(1., 0.), q=(0., 1.)).remove
    assert (plrv.ess_inf, plrv.ess_sup, plrv.p_inf) == (math.inf, -math.inf, 1.)
    with pytest.raises(ValueError, match='finite somewhere'): plrv.cumulants(0.)

def test_values():
    assert hash(3*Gaussian(sigma=1.)) == hash(Gaussian(sigma=1.) + 2*Gaussian(sigma=1.))
    assert repr(2*RandomizedResponse(eps=1.)) == '2*RandomizedResponse(eps=1.0)' and np.int64(3)*Gaussian(sigma=1.) == 3*Gaussian(sigma=1.)
    assert PoissonSubsampled(base=Gaussian(sigma=1.), rate=1.).remove.delta(.5) == Gaussian(sigma=1.).remove.delta(.5)
    assert epsilon(PureDP(eps=.7), delta=1e-12) == pytest.approx(.7, abs=1e-11) and PureDP(eps=.7) != RandomizedResponse(eps=.7)
    with pytest.raises(AttributeError): Gaussian(sigma=1.).sigma = 2.

nan, inf = math.nan, math.inf
BAD = [(f'{name}', kind, call) for name, kind, call in [
    *(('sigma', ValueError, lambda x=x: Gaussian(sigma=x)) for x in (nan, inf, 0., -1., 0)), *(('sensitivity', ValueError, lambda x=x: Gaussian(sigma=1., sensitivity=x)) for x in (nan, inf, 0., -2)),
    *(('sigma', TypeError, lambda x=x: Gaussian(sigma=x)) for x in ('1', None, True, 1j, [1.])), *(('scale', ValueError, lambda x=x: Laplace(scale=x)) for x in (nan, -inf, 0., -1.)), ('scale', TypeError, lambda: Laplace(scale='a')),
    *(('eps', ValueError, lambda x=x, m=m: m(eps=x)) for x in (nan, inf, -.1) for m in (RandomizedResponse, PureDP)), *(('delta', ValueError, lambda x=x: ApproxDP(eps=1., delta=x)) for x in (nan, -.1, 1., 2.)), ('eps', ValueError, lambda: ApproxDP(eps=-1., delta=.1)),
    *(('rate', ValueError, lambda x=x: PoissonSubsampled(base=Gaussian(sigma=1.), rate=x)) for x in (0., -.1, 1.0001, nan, inf)), ('rate', TypeError, lambda: PoissonSubsampled(base=Gaussian(sigma=1.), rate='.1')),
    *(('base', TypeError, lambda x=x: PoissonSubsampled(base=x, rate=.1)) for x in (None, 3., 2*Gaussian(sigma=1.), PoissonSubsampled(base=Gaussian(sigma=1.), rate=.1))),
    *(('p must', ValueError, lambda x=x: Discrete(p=x, q=(.5, .5))) for x in ((.5, .4), (1.5, -.5), (nan, .5), (), [[.5, .5]], (.5, .5 + 1e-9))), ('q must', ValueError, lambda: Discrete(p=(.5, .5), q=(.2, .3, .5))), ('q must', ValueError, lambda: Discrete(p=(.5, .5), q=(.9, .9))),
    *(('p must', TypeError, lambda x=x: Discrete(p=x, q=(.5, .5))) for x in ('ab', None, (.5, 'x'), [.5, [.5]])),
    *(('steps', TypeError, lambda x=x: x*Gaussian(sigma=1.)) for x in (2.5, 2., True, nan)), ('steps', ValueError, lambda: -1*Gaussian(sigma=1.)), ('steps', ValueError, lambda: 10**30*Gaussian(sigma=1.)), ('base', TypeError, lambda: PoissonSubsampled(base=Gaussian, rate=.1)), ('sigma', ValueError, lambda: Gaussian(sigma=1e-200)), ('scale', ValueError, lambda: Laplace(scale=1e200)), ('steps', ValueError, lambda: Composition(())), ('steps', ValueError, lambda: Composition(((Gaussian(sigma=1.), -2),))), *(('steps', TypeError, lambda x=x: Composition(x)) for x in (3, None, (Gaussian(sigma=1.),), (('a', 1),), ((Gaussian(sigma=1.), 1.5),))),
    *(('delta', ValueError, lambda x=x: epsilon(Gaussian(sigma=1.), delta=x)) for x in (0., 1., -1e-5, 1.5, nan, inf, [1e-5, 0.])), *(('delta', TypeError, lambda x=x: epsilon(Gaussian(sigma=1.), delta=x)) for x in ('1e-5', None, 1j, [[.1], [.1, .2]], True)),
    *(('eps', ValueError, lambda x=x: delta(Gaussian(sigma=1.), eps=x)) for x in (-1e-9, nan, inf, -inf, [1., -1.])), *(('eps', TypeError, lambda x=x: delta(Gaussian(sigma=1.), eps=x)) for x in ('1', None, 1j)),
    *(('mechanism', TypeError, lambda x=x: epsilon(x, delta=1e-5)) for x in (None, 0, 'gaussian', [Gaussian(sigma=1.)], Gaussian)),
    *(('rtol', ValueError, lambda x=x: ContourAccountant(Gaussian(sigma=1.), rtol=x)) for x in (0., 1., nan)), ('eps_resolution', ValueError, lambda: ContourAccountant(Gaussian(sigma=1.), eps_resolution=-1.)), ('max_nodes', ValueError, lambda: ContourAccountant(Gaussian(sigma=1.), max_nodes=0)), ('max_nodes', TypeError, lambda: ContourAccountant(Gaussian(sigma=1.), max_nodes=1e5)),
    ('order', ValueError, lambda: PoissonSubsampled(base=Gaussian(sigma=1.), rate=.1).remove.cumulants(0., 0)), ('t must', ValueError, lambda: PoissonSubsampled(base=Gaussian(sigma=1.), rate=.1).remove.cumulants(-2., 2))]]

@pytest.mark.parametrize('name, kind, call', BAD, ids=[f'{i}-{b[0]}' for i, b in enumerate(BAD)])
def test_bad_input(name, kind, call):
    "The error names the parameter first."
    with pytest.raises(kind) as e: call()
    assert str(e.value).startswith(name), str(e.value)

@pytest.mark.parametrize('make', [lambda x: Gaussian(sigma=x), lambda x: Laplace(scale=x), lambda x: Gaussian(sigma=1., sensitivity=1/x), lambda x: Laplace(scale=1., sensitivity=1/x)])
def test_the_ends_of_the_noise_that_is_taken(make):
    for x in (1.01e-100, .99e100): make(x)
    for x in (.99e-100, 1.01e100):
        with pytest.raises(ValueError, match=r'must be in \(1e-100, 1e\+100\)'): make(x)
