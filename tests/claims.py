"""The numbers under "Proved", and for each a check that fails if it is halved or doubled: a case in
which what it says is attained, or nearly. (tests/test_claims.py changes them, one at a time.)

A check is called with the number as it stands in its module. `wrong` says which changes break the
theorem; the other one makes a bound wider, or slower.
"""
import importlib
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy import special, stats

import test_berry_esseen
import test_builders
import test_known_by_moments
import test_mixed_steps
import test_prv_fft
import test_shuffles
from dp_saddle import Gaussian, Laplace, PoissonSubsampled, RenyiDP
from dp_saddle.base.numerics import ULP

SMALLER, LARGER, EITHER = (.5,), (2,), (.5, 2)


class Check(NamedTuple):
    wrong: tuple     # factors with which it must fail
    run: object      # called with the number


CHECKS = {}          # {(module, name, *place): its Check}


def check(module, *names, wrong):
    "Of these numbers of a module: 'NAME', or ('NAME', place, ...) within it."
    def take(run):
        for name in names:
            key = (module, *((name,) if isinstance(name, str) else name))
            assert key not in CHECKS, f"twice: {key}"
            CHECKS[key] = Check(wrong, run)
        return run
    return take


def of(module, name):
    "A name of the library, as it stands."
    return getattr(importlib.import_module(f"dp_saddle.{module}"), name)


def places(value):
    "Where the numbers are within a constant."
    if isinstance(value, (tuple, list)):
        return [(i, *place) for i, part in enumerate(value) for place in places(part)]
    if isinstance(value, dict):
        return [(key, *place) for key, part in value.items() for place in places(part)]
    return [()]


def at(value, place):
    return at(value[place[0]], place[1:]) if place else value


def changed(value, place, factor):
    "The constant with one of its numbers times a factor; a whole number stays one."
    if place:
        first, *rest = place
        if isinstance(value, dict):
            return value | {first: changed(value[first], rest, factor)}
        return tuple(changed(v, rest, factor) if i == first else v for i, v in enumerate(value))
    if isinstance(value, int):
        return int(value*Fraction(factor))
    return value*(type(value)(factor) if isinstance(value, (Decimal, Fraction)) else factor)


# --- base/numerics

@check("base.numerics", "SERIES_REACH", wrong=(.1,))
@check("base.numerics", "_SERIES_END", wrong=SMALLER)
def second_order(_):
    "e^x - 1 - x to 9 ULP, on both sides of where its formula changes."
    x = np.append(np.linspace(.125, .2, 100), np.linspace(1.2, 1.3, 20))
    ours = of("base.numerics", "expm1mx")(x)
    with mp.workdps(40):
        for v, found in zip(x.tolist(), ours.tolist(), strict=True):
            assert abs(found/(mp.expm1(v) - v) - 1) < 9*ULP


@check("base.numerics", "_NEWTON", wrong=(0,))
@check("base.numerics", "_WHOLE", wrong=(Fraction(1, 1 << 200),))
def digits(_):
    "Nodes and weights of Gauss's rule, rounded to the nearest double."
    nodes, weights = of("base.numerics", "legendre")(16)
    with mp.workdps(40):
        for x, w in zip(nodes[8:].tolist(), weights[8:].tolist(), strict=True):
            exact = mp.findroot(lambda v: mp.legendre(16, v), x)
            slope = mp.diff(lambda v: mp.legendre(16, v), exact)
            assert float(exact) == x and float(2/((1 - exact**2)*slope**2)) == w


@check("certificates.interval_transforms", ("_GAUSS", 0), wrong=SMALLER)
@check("certificates.interval_transforms", ("_GAUSS", 1), wrong=LARGER)
@check("base.numerics", ("_GAUSS", 0), wrong=SMALLER)
@check("base.numerics", ("_GAUSS", 1), wrong=LARGER)
def gauss(quotient):
    "Of T_2n the rule of n points misses half pi; on the ellipse it is cosh(2n log rho) at most."
    rule, n, rho = of("base.numerics", "legendre")(16), 16, 4.
    missed = rule.weights @ np.cos(2*n*np.arccos(rule.nodes)) - 2/(1 - 4*n*n)
    for module in ("base.numerics", "certificates.interval_transforms"):
        top, bottom = of(module, "_GAUSS")
        most = top/bottom*rho**(-2*n)/(1 - rho**-2)*np.cosh(2*n*np.log(rho))
        assert abs(missed) <= most
    assert abs(missed) <= of("base.numerics", "gauss_error")(n, rho)*np.cosh(2*n*np.log(rho))


# --- Edgeworth, Berry and Esseen

@check("edgeworth.berry_esseen", "PRAWITZ_SUP", wrong=SMALLER)
@check("edgeworth.proved_expansions", "KERNEL_CURVE", wrong=SMALLER)
def kernel(_):
    "Prawitz's kernel times 2 pi t: its largest value, and its curvature at 0."
    t = np.linspace(1e-3, .999, 999)
    size = 2*math.pi*t*np.abs(of("edgeworth.berry_esseen", "prawitz_kernel")(t))
    assert (size <= of("edgeworth.berry_esseen", "PRAWITZ_SUP")).all()
    assert (size <= 1 + of("edgeworth.proved_expansions", "KERNEL_CURVE")*t*t).all()


@check("edgeworth.proved_expansions", "CHORD", wrong=LARGER)
def chord(c):
    "u^2 is a quarter below its chord from 0 to 1."
    assert 1/2*1/2 <= 2/c


@check("edgeworth.proved_expansions", "CRAMER", wrong=SMALLER)
def cramer(c):
    "Hermite's polynomials, over sqrt(j!): the first is 1 at 0."
    x = np.linspace(-8, 8, 321)
    for j in range(12):
        he = np.polynomial.hermite_e.hermeval(x, np.eye(12)[j])
        assert (np.abs(he)*np.exp(-x*x/4) <= c*math.sqrt(math.factorial(j))).all()


@check("edgeworth.proved_expansions", "NORMAL_4", "NORMAL_8", wrong=SMALLER)
def normal_moments(_):
    x, w = np.polynomial.hermite_e.hermegauss(9)
    for name, power in (("NORMAL_4", 4), ("NORMAL_8", 8)):
        assert w @ x**power/w.sum() <= of("edgeworth.proved_expansions", name)*(1 + 1e-12)


@check("edgeworth.proved_expansions", "FOURTH", wrong=LARGER)
def from_the_origin(_):
    "The integral of a u^4/24 over u is u^4/96."
    u = np.array([0., .01, .02])
    cells = of("edgeworth.proved_expansions", "_cells")(u, 0*u, 0., 0., 0.)
    assert cells[0] >= 3*u[1]**4/96*(1 - 1e-12)


@check("edgeworth.proved_expansions", ("MOVED", 0), wrong=SMALLER)
@check("losses.tilted_cumulants", "_OF_VAR", wrong=SMALLER)
def moved_variance(_):
    "By a change e of the variance phi He_j changes by half of |x phi He_j| e, the normal law too."
    x = np.linspace(0, 9, 901)
    density = np.exp(-x*x/2)/math.sqrt(2*math.pi)
    least = of("edgeworth.proved_expansions", "MOVED")[0]*of("losses.tilted_cumulants", "_OF_VAR")
    for j in range(16):
        he = np.polynomial.hermite_e.hermeval(x, np.eye(16)[j])
        assert (np.abs(x*density*he)/2).max()/math.sqrt(math.factorial(j)) <= least
    e = of("losses.tilted_cumulants", "_MOST_OF_VAR")
    moved = np.abs(special.ndtr(x/math.sqrt(1 - e)) - special.ndtr(x)).max()
    assert moved <= of("losses.tilted_cumulants", "_OF_VAR")*e


@check("edgeworth.proved_expansions", ("MOVED", 1), wrong=SMALLER)
def moved_place(c):
    assert special.ndtr(.005) - special.ndtr(-.005) <= c*.01


@check("edgeworth.proved_expansions", "AT_ORIGIN", wrong=SMALLER)
def at_origin(c):
    "Of all grids that there are: what e_1 u + e_2 u^2/2 on them adds, e_1 and e_2 in turn."
    of_mean, of_var = (of("losses.tilted_cumulants", name) for name in ("_OF_MEAN", "_OF_VAR"))
    end = np.exp2(np.arange(3, 9)[:, None])
    step = end/np.exp2(np.arange(9, 16))
    first = np.maximum((.01/step).astype(int), 1)*step
    weights = np.log(end/first) + step/first            # the sum of step/u, at most
    factor = of("edgeworth.berry_esseen", "PRAWITZ_SUP")/math.pi
    assert (factor*first <= c*of_mean).all()
    assert (factor*(first**2/4 + weights*step**2/8) <= c*of_var).all()


@check("edgeworth.berry_esseen", "CHI", "BEND", wrong=SMALLER)
def decay(_):
    "cos x - 1 + x^2/2 touches chi x^3."
    x = np.linspace(.1, 6.2, 6000)
    gain = np.cos(x) - 1 + x*x/2
    assert (gain <= of("edgeworth.berry_esseen", "CHI")*x**3).all()
    assert (gain <= of("edgeworth.berry_esseen", "BEND")*x**3/(4*math.pi)*(1 + 1e-12)).all()


@check("edgeworth.berry_esseen", "CHI_PLACE", wrong=SMALLER)
def decay_place(c):
    def slope(x): return x*x + 2*x*mp.sin(x) + 6*(mp.cos(x) - 1)
    assert mp.findroot(slope, 4.) <= 2*mp.pi*c


@check("edgeworth.berry_esseen", "COTANGENT", wrong=LARGER)
def cotangent(_):
    "1/x - cot x is x/3 at 0."
    t = np.linspace(1e-3, .99, 100)
    lean = np.hypot(1, 1/(np.pi*t) - 1/np.tan(np.pi*t))
    assert (lean <= of("edgeworth.berry_esseen", "kernel_lean")(t)*(1 + 1e-12)).all()


def esseen():
    "(n, K_3, the largest |F - Phi|) of coins whose quotient tends to Esseen's (1956), .40973."
    n, p = 4000, (4 - math.sqrt(10))/2
    k, q = np.arange(n + 1), 1 - p
    z = (k - n*p)/math.sqrt(n*p*q)
    far = max(np.abs(stats.binom.cdf(k - i, n, p) - special.ndtr(z)).max() for i in (0, 1))
    return n, (p*p + q*q)/math.sqrt(p*q), far


@check("edgeworth.berry_esseen", *(("SHEVTSOVA", i, j) for i in range(3) for j in range(2)
                                if (i, j) != (0, 1)), wrong=SMALLER)
@check("saddlepoint.tilted_clt", "BERRY_ESSEEN", "IDENTICAL_STEPS", wrong=SMALLER)
def lattice(_):
    n, K3, far = esseen()
    assert far <= of("edgeworth.berry_esseen", "berry_esseen")(n, K3)
    for name in ("BERRY_ESSEEN", "IDENTICAL_STEPS"):
        assert far <= of("saddlepoint.tilted_clt", name)*K3/math.sqrt(n)


# No half, and no double.
ZEROS = [("IDENTICAL_TERMS", 0, 1), ("IDENTICAL_TERMS", 1, 0), ("IDENTICAL_TERMS", 2, 1),
         ("IDENTICAL_TERMS", 4, 0), ("IDENTICAL_CROSS", 0, 0), ("IDENTICAL_CROSS", 0, 1),
         ("IDENTICAL_CROSS", 1, 1)]


@check("edgeworth.berry_esseen", "OF_T4", wrong=SMALLER)
def cut_off(c):
    "Of the integral of e^{-u^2/2}/u beyond T/pi, over pi: times T^4 at most this."
    v = np.linspace(.1, 6, 500)
    assert (math.pi**3*v**4*special.exp1(v*v/2)/2 <= c).all()


@check("edgeworth.berry_esseen", "THIRD", "FOURTH", "FOURTH_ROOT", "THREE_HALVES", "OF_K4",
       "OF_LAM2", "OF_KT3", "OF_KT3_2", "OF_LAM_KT3", "OF_LAM2_IDENTICAL", "OF_T", "OF_LAM_T",
       "OF_LAM_T3",
       "OF_T4_ANY", "REGULAR_T", "FAR_TOP", "FAR_BOTTOM", "REMAINDER_START",
       "REMAINDER_OVER", "FREE_END", "SLOPE", *(("REMAINDER", i) for i in range(5)),
       *(("NEAR_TERMS", i, j) for i in range(5) for j in (0, 1)), ("NEAR_TERMS", 0, 2, 0),
       ("NEAR_TERMS", 1, 2, 0), ("NEAR_TERMS", 1, 2, 1), ("NEAR_TERMS", 2, 2, 0),
       ("NEAR_TERMS", 3, 2, 0), ("NEAR_TERMS", 4, 2, 0),
       *((name, i, j) for name, rows in (("IDENTICAL_TERMS", 5), ("IDENTICAL_CROSS", 2))
         for i in range(rows) for j in range(5)
         if (name, i, j) not in ZEROS), wrong=EITHER)
def published_moments(_):
    "Bounds of the package BoundEdgeworth 0.1.3, to their last digits."
    for identical, n, want in [(False, 150, .6151882), (False, 1000, .1462589),
                               (True, 1000, .1626857), (True, 2000, .1056023)]:
        test_berry_esseen.test_published_moment_bounds(identical, n, want)
    test_berry_esseen.test_published_regular_bounds(1000, .12140385)
    test_berry_esseen.test_published_regular_bounds(2000, .0768045)


# --- normal laws that are moved, differences

@check("losses.tilted_cumulants", "_MOST_OF_VAR", wrong=LARGER)
@check("losses.tilted_cumulants", "_OF_MEAN", wrong=SMALLER)
def moved_mean(_):
    "By e, of a normal law whose true variance is as small as it may be."
    of_mean, most = (of("losses.tilted_cumulants", v) for v in ("_OF_MEAN", "_MOST_OF_VAR"))
    moved = 2*special.ndtr(.5e-3/math.sqrt(1 - most)) - 1
    assert moved <= of_mean*1e-3


@check("losses.tilted_cumulants", "_OF_CUBES", wrong=SMALLER)
def cubes(c):
    "E|X|^3 of a rare large step, moved by v: 3v E X|X| is nearly 3v."
    p, v = 1e-6, 1e-6
    x, w = np.array([math.sqrt((1 - p)/p), -math.sqrt(p/(1 - p))]), np.array([p, 1 - p])
    more = w @ (3*v*x*np.abs(x))
    assert of("saddlepoint.tilted_clt", "BERRY_ESSEEN")*more <= c*v


@check("losses.tilted_cumulants", "_OF_QUOTIENT", wrong=SMALLER)
def quotient(c):
    e = of("losses.tilted_cumulants", "_MOST_OF_VAR")
    assert (1 - e)**-1.5 <= 1 + c*e


@check("losses.tilted_cumulants", *(("_FIRST", i) for i in range(4)),
       *(("_SECOND", i) for i in range(4)), wrong=EITHER)
@check("losses.tilted_cumulants", "_ORDER", wrong=LARGER)
@check("losses.tilted_cumulants", ("_LEFT", 0), ("_LEFT", 1), wrong=SMALLER)
def differences(_):
    "z, z^3, ... and z^2, z^4, ...: exact up to order eight, and what z^9 and z^10 miss."
    first, second, order, left = (np.array(of("losses.tilted_cumulants", name))
                                  for name in ("_FIRST", "_SECOND", "_ORDER", "_LEFT"))
    m = np.arange(1., 5)
    signs = [(-1.)**i for i in range(5)]
    odd = [abs(first @ m**k*sign) for k, sign in zip((1, 3, 5, 7, 9), signs, strict=True)]
    even = [abs(second @ m**k*sign) for k, sign in zip((2, 4, 6, 8, 10), signs, strict=True)]
    assert np.allclose(odd[:-1], [1, 0, 0, 0], atol=1e-9)
    assert np.allclose(even[:-1], [2, 0, 0, 0], atol=1e-9)
    for missed, most in zip((odd[-1], even[-1]), left, strict=True):
        assert missed*2.**-56 <= most*2.**(-7*order)


@check("losses.absolute_moments", "_THIRD", wrong=EITHER)
@check("losses.absolute_moments", "_FOURTH", wrong=EITHER)
def fourth(_):
    "Of a Laplace, by enumeration of its atoms and an integral; of a normal law by cosh."
    loss, d = (3*Laplace(scale=2.)).remove, 1/2
    with mp.workdps(25):
        def moment(k, mean=0):
            inner = mp.quad(lambda v: mp.exp(-(v + d)/2)/4*(v - mean)**k, [-d, d])
            return ((d - mean)**k + mp.exp(-d)*(-d - mean)**k)/2 + inner
        mean = moment(1)
        exact = 3*(moment(4, mean) - 3*moment(2, mean)**2)
    assert exact <= loss.fourth_most() < exact + .03
    gauss = Gaussian(sigma=2.).remove
    V, most = of("losses.absolute_moments", "_by_cosh")(gauss, 1., .375, .25, np.zeros(2))
    assert 3*V**2 <= most*(1 + 1e-9) < 3.1*V**2
    assert loss.third_off() < 1e-9


@check("losses.absolute_moments", "_COSH", wrong=SMALLER)
def cosh(c):
    with mp.workdps(40):
        x = mp.mpf("1e-3")
        assert x**4 <= c*(mp.cosh(x) - 1 - x*x/2)


# --- many compositions

@check("engine.mixed_steps", "_GROWTH", wrong=(0,))
@check("engine.mixed_steps", "_REACH", wrong=(2.2,))
def mixing(_):
    for u in (.1, -1.4, 1.4j, .9 + .9j, 1.e-8):
        test_mixed_steps.test_mixing_bounds_hold(u)
    test_mixed_steps.test_mixing_promises_nothing_for_wide_gaps()


@check("engine.mixed_steps", "_HOEFFDING", wrong=LARGER)
@check("steps.known_by_moments", "_HOEFFDING", wrong=EITHER)
@check("steps.known_by_moments", ("_SERIES", 0), wrong=EITHER)
def hoeffding(_):
    "A fair coin of 0 and x has x^2/8, at small x; K of a small range by its terms."
    x = 1e-3
    jump = of("engine.mixed_steps", "jump_bounds")(np.array([[0.], [x]]))[0, 0]
    assert math.log1p(.5*math.expm1(x)) - .5*x <= jump*(1 + 1e-9)
    test_known_by_moments.test_small_ranges_against_fifty_digits(1e-4)


def of_bernoulli(k):
    "log(sinh(x/2)/(x/2)) = sum of this times x^2k."
    return mp.bernoulli(2*k)/(2*k*mp.factorial(2*k))


@check("steps.known_by_moments", *(("_SINHC", i) for i in range(9)), wrong=EITHER)
@check("steps.known_by_moments", ("_SERIES", 1), wrong=EITHER)
def sinhc(_):
    "K of a range is b(b^4 - ...): its terms are those of log(sinh(x/2)/(x/2))."
    for k, found in enumerate(of("steps.known_by_moments", "_SINHC"), 1):
        assert abs(found/of_bernoulli(k) - 1) < 1e-15
    near = of("steps.known_by_moments", "_near_0")
    for t, eps in ((1., .01), (9., .003)):
        a, b = t*eps, (t + 1)*eps
        with mp.workdps(40):
            K = sum(of_bernoulli(k)*((t + 1)*mp.mpf(b)**(2*k) - t*mp.mpf(a)**(2*k)
                                     - mp.mpf(eps)**(2*k)) for k in (1, 2, 3, 4, 5))
        assert abs(near(a, b, eps)[0]/K - 1) < 1e-12


# --- smoothing

@check("engine.smoothing", *(("_LOG_SINHC", i) for i in range(3)), wrong=EITHER)
@check("engine.smoothing", "_SERIES_BELOW", wrong=LARGER)
def small_shift(_):
    for x in (.0199, .0399):
        with mp.workdps(40):
            exact = mp.log(mp.sinh(mp.mpf(x))/x)
        assert abs(of("engine.smoothing", "_log_sinhc")(x)/exact - 1) < 1e-13


@check("engine.smoothing", *((("KNOTS", n, i)) for n in (8, 32) for i in range(3)), wrong=SMALLER)
def knots(_):
    "E (U - a)_+ of n uniform variables' sum: Irwin and Hall's law, in whole numbers."
    for n, (knot, middle, left) in of("engine.smoothing", "KNOTS").items():
        for a, most in ((0, middle), (Fraction(knot), left)):
            below = range(math.ceil(Fraction(n, 2) - a))
            terms = ((-1)**k*math.comb(n, k)*(Fraction(n, 2) - a - k)**(n + 1) for k in below)
            assert sum(terms)/math.factorial(n + 1) <= most


# --- the mean of what is drawn; laws in closed form

@check("accounting.training_runs", "_TWICE", wrong=SMALLER)
@check("sampling.fixed_sizes", "_TWICE", wrong=SMALLER)
@check("steps.builders", "_TWICE", wrong=SMALLER)
def exchanged(c):
    "Two records of one clip each, opposite to each other."
    assert np.linalg.norm(np.array([1., 0]) - np.array([-1., 0])) <= c


@check("filters.residues", "_TV", wrong=EITHER)
@check("individual.counted_norms", "_TV", wrong=EITHER)
def total_variation(c):
    for mu in (.1, 1., 3.):
        assert abs(special.erf(mu/c) - (2*special.ndtr(mu/2) - 1)) < 1e-14


@check("mechanisms.composition", "_MAX_STEPS", wrong=LARGER)
def whole_doubles(c):
    assert int(float(c - 1)) == c - 1


@check("mechanisms.finite_pairs", "_END", wrong=SMALLER)
def unseen(c):
    with mp.workdps(20):
        assert mp.exp(-mp.mpf(c)**2/2) < mp.mpf(5e-324)/10


@check("steps.builders", "_BIT", wrong=EITHER)
def half_a_bit(_):
    "A record's bit, less one half."
    z = of("steps.builders", "adaptive_clipping")(sigma=1.1, sigma_b=5.)
    assert abs(z**-2 + (.5/5)**2 - 1.1**-2) < 1e-14


@check("steps.builders", *(("_STIRLING", i, j) for i in range(8)
                               for j in (0, 1)), "_LOG_ROOT_2PI", wrong=EITHER)
@check("steps.builders", "_EXACT", wrong=SMALLER)
def factorials(_):
    "Stirling's series in decimals, to 40 digits from where it begins."
    with localcontext() as context, mp.workdps(60):
        context.prec = 60
        n = of("steps.builders", "_EXACT")
        found = of("steps.builders", "_log_factorial")(n)
        assert abs(mp.mpf(str(found)) - mp.loggamma(n + 1)) < mp.mpf(10)**-40


@check("steps.builders", "_LEFT_OUT", wrong=("1e12",))
@check("steps.builders", "_DIGITS", wrong=(.25,))
def cut_samples(_):
    of("steps.builders", "truncation").cache_clear()
    for n, p, B in ((400, .3, 150), (300, .7, 100)):
        found = of("steps.builders", "truncation")(n, p, B)
        for ours, exact in zip(found, test_builders.by_sums(n, p, B), strict=True):
            assert abs(ours - exact) <= 4e-16*abs(exact) + mp.mpf("1e-45")


@check("plrv.gaussian_release", "_NEGLIGIBLE", "_LEFTMOST", wrong=SMALLER)
@check("plrv.gaussian_release", "_STEEP", wrong=(100,))
def gaussian_curves(_):
    "Both forms of a Gaussian's curve against many digits, at small and at large mu."
    curve = of("plrv.gaussian_release", "log_phi_gap")
    for a in (-30., -3., -.2, .5, .9):
        for w in (1e-3, 1., 9., 30., 900.):
            with mp.workdps(40):
                x, y = mp.mpf(a), mp.mpf(w)
                e = y*(y/2 - x)
                exact = mp.log(mp.ncdf(x) - mp.exp(e)*mp.ncdf(x - y))
            found = curve(np.array([a]), np.array([w]), np.array([w*(w/2 - a)]))[0]
            assert abs(found - exact) <= (256 + 16*abs(exact) + a*a)*ULP


@check("losses.gaussian", "_BEND", wrong=(1/64,))
def tangent(c):
    "The root of a Gaussian's curve, from a value that misses the wanted one by a hundredth."
    def curve(e): return mp.log(mp.ncdf(mp.mpf(1)/2 - e) - mp.exp(e)*mp.ncdf(-mp.mpf(1)/2 - e))
    for eps in (.01, 2.):
        fall = float(-mp.diff(curve, eps))
        for miss in (.01/(1 + 1/fall), -.01/(1 + 1/fall)):
            goal, step = curve(eps) - miss, miss/fall
            root = mp.findroot(lambda e, goal=goal: curve(e) - goal, eps + step)
            assert abs(root - eps - step) <= c*(1 + 1/fall)*miss*step


# --- strips, and angles in them

def without_zeros(share):
    "1 + e^z has none where |Im z| is below so much of pi."
    angles = np.minimum(np.linspace(0, share*math.pi, 721), math.pi)
    return np.abs(1 + np.exp(np.linspace(-3, 3, 61) + 1j*angles[:, None])).min() > 1e-3


def convex(angle):
    "log|1 + e^z| where Im z is this."
    x = np.linspace(-3, 3, 601)
    return (np.diff(np.log(np.abs(1 + np.exp(x + 1j*angle))), 2) > -1e-9).all()


@check("losses.densities", ("_OPEN", "remove"), wrong=LARGER)
@check("certificates.interval_transforms", ("_HIGHEST", 0), wrong=LARGER)
def twice_as_high(c):
    assert without_zeros(2*c)


@check("losses.densities", ("_OPEN", "add"), wrong=LARGER)
@check("certificates.interval_transforms", ("_HIGHEST", 1), wrong=LARGER)
def convex_twice_as_high(c):
    assert convex(2*c*math.pi)


@check("engine.transform_grids", ("_HEIGHT", 0), wrong=LARGER)
@check("engine.small_losses", ("_HEIGHT", 1), wrong=LARGER)
@check("certificates.interval_transforms", "_TOP", "_INSIDE", wrong=LARGER)
@check("certificates.interval_bins", "_STRIP", wrong=LARGER)
def as_high(c):
    assert without_zeros(c)


@check("engine.transform_grids", ("_HEIGHT", 1), wrong=LARGER)
@check("engine.small_losses", ("_HEIGHT", 0), wrong=LARGER)
def convex_as_high(c):
    assert convex(c*math.pi)


@check("losses.laplace", "_LAPLACE_HEIGHT", wrong=LARGER)
def positive(c):
    "Re e^l on the path."
    assert math.cos(c) > 0


@check("losses.mixtures", "_TURN", wrong=(2.2,))
def turns(c):
    "An angle that grows by so much from place to place is followed."
    angles = c*np.arange(9)
    assert np.allclose(np.unwrap(np.angle(np.exp(1j*angles))), angles)


@check("losses.mixtures", "_KURTZ", wrong=SMALLER)
def real_roots(c):
    roots = np.roots([1, math.sqrt(1.001*c), 1])
    assert (roots.imag == 0).all()


@check("engine.transform_grids", "TWICE", wrong=SMALLER)
@check("engine.small_losses", "_TWICE", wrong=SMALLER)
def two_edges(c):
    "Of a normal density a sum with step 2 misses what the edges of the best strip say."
    h, b = 2., math.pi
    k = np.arange(-20, 21)
    missed = h*(np.exp(-(h*k)**2/2)/math.sqrt(2*math.pi)).sum() - 1
    assert missed <= c*math.exp(b*b/2)/math.expm1(2*math.pi*b/h)


@check("engine.transform_grids", "_PEAK", wrong=LARGER)
@check("engine.small_losses", "_PEAK", wrong=LARGER)
def between_nodes(c):
    "The density at 0, from nodes at -1/2 and 1/2."
    assert 1 <= math.exp(1/c)*math.exp(-1/8)*(1 + 1e-12)


@check("engine.transform_grids", "_MOST_OF_TURN", wrong=SMALLER)
@check("sampling.one_epoch", "_MORE", wrong=SMALLER)
def half_a_turn(c):
    assert abs(np.exp(1j*math.pi) - 1) <= c*(1 + 1e-12)


@check("losses.densities", "_EDGE", wrong=SMALLER)
def far_out(c):
    assert math.exp(-c*c/2) <= math.exp(-50)*(1 + 1e-12)


@check("losses.densities", "_BEYOND", wrong=SMALLER)
def beyond(c):
    "A sum from an end of a grid on, over the largest term's exponential; heights reach 2 std."
    h = 2*math.pi*2/of("losses.densities", "_STRIP")[1]
    x = 10 + h*np.arange(400)
    assert h*np.exp(50 - x*x/2).sum()/math.sqrt(2*math.pi) <= c


@check("losses.laplace", "_LAPLACE", wrong=EITHER)
@check("certificates.interval_transforms", "_LAPLACE", wrong=EITHER)
def mass(c):
    "Both atoms and the density between add up to 1."
    d = 1.7
    assert abs((1 + math.exp(-d))/2 + 2*(1 - math.exp(-d))/c - 1) < 1e-12


@check("losses.laplace", "_PANEL", wrong=(8,))
@check("losses.laplace", "_FELT", wrong=(.05,))
def laplace_panels(_):
    "The transform of a sampled Laplace step, on a line, against many digits."
    scale, q = .3, .6
    d = 1/scale
    with mp.workdps(25):
        def exact(z, top):
            power = 1 + z if top == "remove" else -z
            def inner(l): return mp.exp(-(l + d)/2)/4*(1 - q + q*mp.exp(l))**power
            ends = sum(mp.exp(-(l + d)/2)/2*(1 - q + q*mp.exp(l))**power for l in (-d, d))
            return ends + mp.quad(inner, [-d, -d/2, 0, d/2, d])
        for top in ("remove", "add"):
            loss = PoissonSubsampled(Laplace(scale=scale), rate=q).loss_of(top)
            for t in (3., 40.):
                K, of_K, change, error = loss.line(t, np.array([0., 2., 30.]))[:4]
                for s, v, off in zip((0, 2, 30), change.tolist(), error.tolist(), strict=True):
                    found = mp.exp(mp.mpf(float(K)) + mp.mpmathify(v))
                    assert abs(found/exact(mp.mpc(t, s), top) - 1) <= math.expm1(of_K + off)


# --- panels next to a singularity

@check("losses.steepest_descent", ("_GRADED", 0), wrong=SMALLER)
@check("losses.steepest_descent", ("_GRADED", 1), wrong=LARGER)
def graded(_):
    "Panels are a fourth of the distance to i r, at most."
    for r in (1e-8, 1e-4, .01):
        cuts = of("losses.steepest_descent", "_cuts")(r, 20., 40., 10.)
        assert (np.diff(cuts) <= np.hypot(r, cuts[:-1])/4*(1 + 1e-9)).all()


@check("losses.steepest_descent", "_PANEL", "_MISSED", wrong=LARGER)
@check("losses.steepest_descent", "_END", wrong=SMALLER)
def sixteen_points(_):
    "The bound of the claim's proof: its ellipses are 1.05 panels to the left and 1.46 around."
    panel, end, missed = (of("losses.steepest_descent", v) for v in ("_PANEL", "_END", "_MISSED"))
    on_ellipses = math.log(8.6*64/15*1.03*4.01) - 32*math.log(6) + 1.46*panel
    assert np.logaddexp(on_ellipses, -end) <= -missed


@check("losses.steepest_descent", "_LEAST", wrong=SMALLER)
def below_pi(c):
    "The last panel begins below 2.2, and the ellipse around it ends below pi."
    assert of("losses.steepest_descent", "_END")/c <= 2.2 < math.pi - 2.05*8/c


@check("losses.steepest_descent", "_LEBESGUE", wrong=SMALLER)
@check("losses.steepest_descent", "COLUMNS", wrong=(8,))
@check("losses.steepest_descent", "FIRST", wrong=(1/8,))
def lebesgue(_):
    "The largest table that a row may take."
    points, polynomials = (of("losses.steepest_descent", v) for v in ("_points", "_polynomials"))
    columns, first, most = (of("losses.steepest_descent", v)
                            for v in ("COLUMNS", "FIRST", "_LEBESGUE"))
    n = points(first/columns)
    assert np.abs(polynomials(n)[1]).sum(0).max() < most


@check("losses.steepest_descent", "_GRID", wrong=(2.**-40,))
def exact_differences(c):
    points = np.round(np.cos(np.pi*(np.arange(66) + .5)/66)/c)*c
    for i in (0, 20, 40):
        exact = [Fraction(p) - Fraction(points[i]) for p in points]
        assert [Fraction(v) for v in points - points[i]] == exact


# --- circles, lattices, ends

@check("prv_fft.lattices", "_TURN", wrong=EITHER)
def turn(c):
    with mp.workdps(80):
        assert abs(mp.mpf(c.numerator)/c.denominator - 2*mp.pi) < mp.mpf(10)**-57


@check("prv_fft.lattices", "_WORDS", wrong=LARGER)
def words(_):
    x = np.array([1, 10**9 + 7, 2**53 - 1])
    found = of("prv_fft.lattices", "_turned")(Fraction(1, 7), x)
    exact = [np.exp(2j*math.pi*(v % 7)/7) for v in x.tolist()]
    assert np.allclose(found, exact, rtol=0, atol=1e-14)


@check("engine.endpoint_expansion", "_POWER", wrong=EITHER)
def powers(_):
    tau, found = .3, of("engine.endpoint_expansion", "_series")(.3)
    exact = mp.taylor(lambda u: (1 - mp.mpf(tau)*mp.expm1(u))**mp.mpf(-1.5), 0, 5)
    assert np.allclose(found[:6], [float(v) for v in exact], rtol=1e-9)


@check("engine.endpoint_expansion", "_FAR", wrong=(1/16,))
@check("engine.endpoint_expansion", ("_MORE", 0), ("_MORE", 1), wrong=(1/10,))
def poisson_sums(_):
    "Relative to their size: the last, at sigma 2, is where the other sum changes its sign."
    curves = of("engine.endpoint_expansion", "curves")
    for x in (.5, 6., 30., 63.9, 64.1, 200.):
        found = curves(np.array([x/2]), 2.)[0]
        with mp.workdps(40):
            for k in (1, len(found) - 1):
                terms = ((1 - mp.mpf(2)**(k - j))*mp.mpf(x)**j/mp.factorial(j)
                         for j in range(k + 1, 500))
                exact = mp.exp(-x)*mp.fsum(terms)
                assert abs(found[k]/exact - 1) < 1e-12


@check("engine.gaussian_tables", ("_FROM_ABOVE", 0), wrong=SMALLER)
@check("engine.gaussian_tables", ("_FROM_ABOVE", 1), wrong=LARGER)
def off_on_both_sides(_):
    "What is off above by x nats is off below by -log(2 - e^x)."
    times, most = of("engine.gaussian_tables", "_FROM_ABOVE")
    assert math.exp(most) < 2 and -math.log(2 - math.exp(most)) <= times*most


@check("engine.gaussian_rows", "_NO_LARGE", wrong=LARGER)
def of_a_sum(c):
    "A bound that is as large as the sum itself has to be refused."
    assert c < 1


# --- PRV accountant

@check("prv_fft.prv_bands", "SHARES", wrong=SMALLER)
def shares(_):
    "All that fails, by Hoeffding and by Chernoff, is within delta_error."
    plrv = (50*PoissonSubsampled(Gaussian(sigma=1.), rate=.2)).remove
    eps_error, delta_error, (part, n) = .1, 1e-6, plrv.parts[0]
    mesh = of("prv_fft.prv_bands", "prv_band")(plrv, eps_error, delta_error, 10**7).curve.mesh
    reach = of("prv_fft.prv_bands", "chernoff_reach")(plrv, delta_error)
    t = np.geomspace(.1, 40, 400)
    K = part.real_cgf(t)
    spent = 2*math.exp(-2*eps_error**2/(n*mesh**2)) + 2*np.exp((n*K - t*reach[0]).min())
    assert spent + 2*n*np.exp((K - t*reach[1][0]).min()) <= delta_error


@check("prv_fft.prv_bands", "_HOEFFDING", wrong=EITHER)
def hoeffdings_tilt(c):
    "At it E e^{s (X - E X)} <= e^{s^2 h^2/8} of each step says what the share grants."
    k, share = 100, 1e-9
    root = math.sqrt(k/2*math.log(2/share))
    s = c*root/k                                         # times the mesh
    assert k*s*s/8 - s*root <= math.log(share/2)*(1 - 1e-12)


@check("prv_fft.fourier_grids", "_THM8_RATE", "_THM8_SIGMA", "_THM8_FACTOR", wrong=EITHER)
def conditions(_):
    test_prv_fft.test_the_conditions_of_the_tail_bound()


# --- sampling

@check("sampling.bins", "_UNSURE", wrong=SMALLER)
def replaced(c):
    "What was found is within 1 of 0, the truth within 1 of that, and 1 replaces both."
    found, off = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9))
    assert np.abs(found + off - 1).max() <= c


@check("sampling.truncated_moments", "_UNSURE", wrong=SMALLER)
def replaced_in_quotients(c):
    "1 - |chi|^2, |chi| being off by twice what both parts of a quotient are off by."
    off = 1e-3
    assert 1 - (1 - 2*off)**2 <= c*off


@check("sampling.truncated_moments", "_CHORD", wrong=LARGER)
def between_frequencies(_):
    "|chi|^2 of a normal law, from two frequencies on either side of 0."
    s, variance = np.array([-.01, .01]), 2.
    most = of("sampling.truncated_moments", "between")(np.exp(-variance*s*s), variance, s)
    assert 1 <= most[0] + 1e-9


@check("sampling.one_epoch", "_DOUBLED", wrong=SMALLER)
def doubled(c):
    x = np.linspace(1e-3, math.pi, 100)
    assert (1 - np.cos(2*x) <= c*(1 - np.cos(x)) + 1e-12).all()


@check("sampling.lognormal_means", "_NEAR_ONE", wrong=LARGER)
@check("sampling.lognormal_moments", "_TERMS", wrong=SMALLER)
def two_sums(_):
    "One of them over phi, which is e^{-1/2} at least."
    near, terms = of("sampling.lognormal_means", "_NEAR_ONE"), of("sampling.lognormal_moments",
                                                                  "_TERMS")
    assert 1 + math.exp(near) <= terms


@check("sampling.lognormal_moments", "_TWICE", wrong=SMALLER)
@check("sampling.lognormal_moments", "_SURE", wrong=(2000,))
def many_factors(_):
    sure, twice = (of("sampling.lognormal_moments", v) for v in ("_SURE", "_TWICE"))
    assert math.expm1(sure) <= twice*sure


def series_at(z):
    "Stirling's series, its numbers as the fractions that they are."
    with mp.workdps(50):
        terms = [Fraction(c).limit_denominator(400_000)
                 for c in of("sampling.lognormal_moments", "_STIRLING")]
        series = sum(mp.mpf(c.numerator)/c.denominator/mp.mpf(z)**(2*k + 1)
                     for k, c in enumerate(terms))
        return abs((z - mp.mpf(.5))*mp.log(z) - z + mp.log(2*mp.pi)/2 + series - mp.loggamma(z))


@check("sampling.lognormal_moments", *(("_STIRLING", i) for i in range(8)), wrong=EITHER)
def stirling(_):
    "Off by less than the first term that is left out."
    assert series_at(16) < mp.bernoulli(18)/(18*17*mp.mpf(16)**17)


@check("sampling.lognormal_moments", "_LEAST_SHAPE", wrong=SMALLER)
@check("sampling.truncated_moments", "_SHIFT", wrong=SMALLER)
def stirling_from(c):
    assert series_at(c) < 1e-18


@check("sampling.shuffles", "_SEEN", ("_HIDDEN", "zero-out"), wrong=EITHER)
def one_batch(_):
    test_shuffles.test_one_batch_is_a_gaussian()


# --- rounding allowances that are inequalities

@check("base.numerics", "_FAR", wrong=SMALLER)
def next_to_an_exponential(c):
    assert 1 + c <= ULP*math.exp(c)


@check("losses.densities", "_SURE", wrong=SMALLER)
def beside_an_exponential(c):
    assert 1 <= ULP/2*math.exp(c)


@check("losses.nodes", "_OF_CHANGE", wrong=SMALLER)
@check("losses.nodes", "_SMALL", wrong=(3,))
def small_exponents(_):
    small, most = of("losses.nodes", "_SMALL"), of("losses.nodes", "_OF_CHANGE")
    assert math.expm1(small) <= most*small


@check("losses.tilted_cumulants", "_SMALL_ETA", wrong=LARGER)
@check("losses.tilted_cumulants", "_OF_ETA", wrong=SMALLER)
def of_a_logarithm(_):
    eta, most = (of("losses.tilted_cumulants", v) for v in ("_SMALL_ETA", "_OF_ETA"))
    assert -math.log(2 - math.exp(eta)) <= most*eta


@check("losses.absolute_moments", "_ROOM", wrong=SMALLER)
@check("losses.tilted_cumulants", "_ROOM", wrong=SMALLER)
def products_of_errors(c):
    "Of two errors that are small: (1 + e)^2 - 1."
    for module in ("losses.absolute_moments", "losses.tilted_cumulants"):
        few = of(module, "_FEW")
        assert (1 + few)**2 - 1 <= 2*few*c


@check("sampling.bins", ("_OF_NORMAL", 3), wrong=EITHER)
def fourth_cumulant(c):
    "That of a normal law is 0."
    x, w = np.polynomial.hermite_e.hermegauss(9)
    assert abs(w @ x**4/w.sum() - c) < 1e-9


@check("steps.guarantees", "_THRICE", wrong=(.25,))
def renyi_of_a_sample(_):
    "Randomised response, removed: the third moment of its sample is at most what is granted."
    p, q, rate = np.array([.6, .4]), np.array([.4, .6]), .3
    orders = np.array([2., 3.])
    moments = np.log([(p**a*q**(1 - a)).sum() for a in orders])
    step = RenyiDP(orders=orders, divergences=moments/(orders - 1))
    K = step.loss_of_sample(rate, "remove").bound(orders - 1)
    sampled = (1 - rate)*q + rate*p
    assert K[1] >= math.log((sampled**3*q**-2.).sum())*(1 - 1e-12)


@check("steps.guarantees", "_CHAIN", wrong=SMALLER)
def renyi_of_a_group(_):
    "Two records of a Gaussian step: four times the divergence of one, at any order."
    orders = np.array([4., 16.])
    two = RenyiDP(orders=orders, divergences=orders/2).of_group(2)
    assert (np.array(two.divergences) >= 4*np.array(two.orders)/2).all()


@check("steps.known_by_moments", "_LOSS_ULPS", wrong=SMALLER)
def last_place(c):
    "Half a unit in the last place of the largest eps."
    assert np.spacing(of("steps.known_by_moments", "_MOST_EPS"))/2 <= c*ULP


@check("practice.merged_steps", "_WEIGHT_UNIT", wrong=SMALLER)
def whole_units(c):
    "Of 2^23 weights."
    assert 2**23/c <= 2**53


@check("sampling.shuffles", "_LOG_LOST", wrong=SMALLER)
def lost(c):
    "In 802 slices of a step."
    assert 802*math.exp(c) <= of("sampling.shuffles", "_LOST")


@check("sampling.shuffle_model", "_TAIL", wrong=SMALLER)
def clones_left_out(c):
    "Four tails."
    assert 4*math.exp(-c) <= of("sampling.shuffle_model", "_LEFT_OUT")


@check("sampling.shuffle_model", "_LEFT_OUT", wrong=SMALLER)
def clones_charged(c):
    assert 4*math.exp(-of("sampling.shuffle_model", "_TAIL")) <= c
