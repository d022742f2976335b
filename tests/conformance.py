"""What any privacy loss has to be like, one function for each promise: our losses, and yours.

    import conformance

    conformance.check(MyLoss(.5))                # an AssertionError says what is wrong
    conformance.check(MyLoss(.5), exact=my_cgf)  # and the errors on a line against 50 digits

    @pytest.mark.parametrize('promise', conformance.CHECKS, ids=lambda f: f.__name__)
    def test_my_loss(promise):
        promise(MyLoss(.5))

A check asks by the names that accountants use (the table at the end of chapter 1) and compares
what a loss says in one place with what it says in another: its transform with an integral of its
curve, its cumulants with the transform on a circle, one direction with the other. What a loss does
not say (a composition has no distribution function, a loss with atoms no density) is left out. The
checks are no proof, but tests/test_conformance.py shows for each of them a mistake that it finds.
"""

from math import factorial, inf, pi

import mpmath as mp
import numpy as np

from dp_saddle import (
    ContourAccountant,
    MomentsAccountant,
    PRVAccountant,
    SaddlePointCLT,
    SaddlePointMSD,
    TiltedFFT,
)
from dp_saddle.base.numerics import ULP, legendre
from dp_saddle.plrv import ComposedLoss

TILTS = 0.3, 1.0, 4.0  # in units of one over the standard deviation
ROUNDING = 1e-12  # relative, of M(Re z): what two ways to compute M may differ by
QUADRATURE = 1e-9  # relative: what the integrals here may be off by
ABSURD = 1e-8  # a line that knows less than that is of no use


# ---------------------------------------------------------------------- helpers


def says(plrv, method, *question):
    """Does the loss answer? Not if it does not define the method; and a sum of losses says by a
    ValueError that it has no answer. All else is a mistake."""
    if not any(method in vars(cls) for cls in type(plrv).__mro__):
        return False
    try:
        getattr(plrv, method)(*question)
    except (ValueError, NotImplementedError):
        if isinstance(plrv, ComposedLoss):
            return False
        raise
    return True


QUESTIONS = {
    'cdf': (0.0,),
    'log_delta': (np.zeros(1),),
    'line': (1.0, np.arange(2.0)),
    'decay': (1.0, np.arange(2.0)),
}


def has_curve(plrv):
    "Is it one step, with a distribution function and a curve?"
    return says(plrv, 'cdf', 0.0) and says(plrv, 'log_delta', np.zeros(1))


def agree(found, wanted, rtol, atol, what):
    "Arrays are the same but for rtol and atol, or an AssertionError names the first place."
    found, wanted = np.atleast_1d(found), np.atleast_1d(wanted)
    with np.errstate(invalid='ignore'):
        allowed = atol + rtol * np.abs(wanted)
        wrong = ~((np.abs(found - wanted) <= allowed) | (found == wanted))
    if wrong.any():
        i = np.flatnonzero(wrong.ravel())[0]
        pair = [np.broadcast_to(x, wrong.shape).ravel()[i] for x in (found, wanted)]
        raise AssertionError(f'{what}: {pair[0]}, and it should be {pair[1]} (place {i})')


def std_at(plrv, t=0.0):
    "The standard deviation of the loss tilted by t; 1 for a constant."
    return float(np.sqrt(plrv.cumulants(t, 2)[1])) or 1.0


def tilts(plrv):
    "Some tilts that tell something of this loss: K is no larger than it has to be."
    found = []
    for t in np.array(TILTS) / std_at(plrv):
        t = min(t, plrv.largest_tilt)
        while plrv.cgf(t) > 30:
            t /= 2
        found.append(t)
    return np.unique(found)


def window(plrv, t=0.0, depth=45.0):
    "An interval that holds all that matters of E[e^{tL}], and of the curve times e^{t eps}."
    mean, ends = float(plrv.cumulants(t, 1)[0]), []
    for sign, end in ((-1, plrv.ess_inf), (1, plrv.ess_sup)):
        slopes = chernoff(plrv, t, sign)
        far = 4 * std_at(plrv, t)
        while (slopes[1] - slopes[0] * far).min() > -depth and far < sign * (end - mean):
            far *= 1.5
        ends.append(mean + sign * min(far, sign * (end - mean)))
    return ends


def chernoff(plrv, t, sign):
    "(a, b): at most e^{b - a x} of the loss tilted by t is farther than x from its mean."
    steps = np.geomspace(0.05, min(max(30 / std_at(plrv, t), 1.0), 200.0, plrv.largest_tilt), 14)
    steps = steps if sign > 0 else np.minimum(steps, t + 0.5)
    mean = plrv.cumulants(t, 1)[0]
    return steps, plrv.cgf(t + sign * steps) - plrv.cgf(t) - sign * steps * mean


def cuts(plrv, low, high, z=0.0):
    "Ends of panels in [low, high]: atoms; more near ends, 0 and means; e^{zx} turns little in one."
    atoms = plrv.atoms[0]
    steps = (high - low) * np.r_[np.geomspace(1e-9, 0.02, 24), np.linspace(0.04, 1, 25)]
    corners = [x for x in getattr(plrv, 'corners', ()) if low < x < high]  # where parts of it end
    centres = np.r_[low, high, 0.0, corners, plrv.cumulants(np.array([0.0, np.real(z)]), 1)[0]]
    around = np.add.outer(centres, np.r_[-steps, steps]).ravel()
    even = np.linspace(low, high, 2 + int(min((high - low) * abs(z) / 4, 20000)))
    every = np.unique(np.r_[even, around, atoms])
    return every[(every >= low) & (every <= high)]


def integral(f, panels):
    "Of f, real or complex, over the panels between cuts: 16 Legendre points on each."
    x, w = legendre(16)
    centre, half = (panels[1:] + panels[:-1])[:, None] / 2, np.diff(panels)[:, None] / 2
    return (f((centre + half * x).ravel()) * (half * w).ravel()).sum()


def log_finite(plrv):
    "log of the mass of the finite losses."
    return np.log1p(-plrv.p_inf)


# ---------------------------------------------------------------------- masses


def check_masses(plrv, **_):
    "p_inf is a probability; atoms have no more than the rest; K(0) and K(-1) say the same."
    assert 0 <= plrv.p_inf <= 1, f'p_inf must be in [0, 1], got {plrv.p_inf}'
    losses, logp = plrv.atoms
    assert len(losses) == len(logp), 'atoms need a probability each'
    assert np.exp(logp).sum() <= (1 - plrv.p_inf) * (1 + ROUNDING), 'atoms have too much mass'
    agree(plrv.cgf(0.0), log_finite(plrv), ROUNDING, ROUNDING, 'K(0), log(1 - p_inf)')
    agree(plrv.cgf(-1.0), log_finite(plrv.reverse), ROUNDING, ROUNDING, 'K(-1), log(1 - q_0)')


def check_support(plrv, **_):
    "Nothing lies outside the ends, something just inside; the distribution function rises."
    assert plrv.ess_inf <= plrv.ess_sup, 'ess_inf must be at most ess_sup'
    losses, _ = plrv.atoms
    gap = 1e-9 * max((abs(x) for x in (plrv.ess_inf, plrv.ess_sup) if abs(x) < inf), default=1)
    inside = (losses >= plrv.ess_inf - gap) & (losses <= plrv.ess_sup + gap)
    assert inside.all(), 'an atom lies outside the support'
    if not has_curve(plrv):
        return
    low, high = window(plrv)
    P = plrv.cdf(np.linspace(low - 1, high + 1, 2001))
    assert (np.diff(P) >= -4 * ULP).all(), 'cdf must not fall'
    assert (P >= 0).all() and (P <= 1 + 4 * ULP).all(), 'cdf must be in [0, 1]'
    if plrv.ess_inf > -inf:
        assert plrv.cdf(plrv.ess_inf - gap) <= 0, 'ess_inf: something lies below'
    if plrv.ess_sup < inf:
        agree(plrv.cdf(plrv.ess_sup + gap), 1 - plrv.p_inf, 0, ROUNDING, 'cdf at ess_sup')
        below = plrv.ess_sup - 1e-3 * (high - low) - 2 * gap
        assert plrv.log_delta(np.array([plrv.ess_sup + 2 * gap]))[0] == -inf, 'ess_sup: more above'
        assert plrv.log_delta(np.array([below]))[0] > -inf, 'ess_sup: nothing lies just below'


def check_atoms(plrv, **_):
    "The distribution function jumps at atoms, by their probabilities."
    if not has_curve(plrv):
        return
    losses, logp = plrv.atoms
    gap = 1e-9 * (1 + np.abs(losses))
    apart = np.diff(losses, prepend=-inf, append=inf)
    alone = (apart[:-1] > 4 * gap) & (apart[1:] > 4 * gap)
    jumps = plrv.cdf(losses + gap) - plrv.cdf(losses - gap)
    agree(jumps[alone], np.exp(logp[alone]), 0, 1e-7, 'jump of cdf at an atom')


# ---------------------------------------------------------------------- transform


def check_symmetry(plrv, **_):
    "K(conj z) is conj K(z); numbers and arrays of any shape are answered in kind."
    z = np.add.outer(tilts(plrv), 1j * np.array([0.5, 3.0, 40.0]) / std_at(plrv))
    K = plrv.cgf(z)
    assert K.shape == z.shape and np.shape(plrv.cgf(0.5)) == (), 'cgf must keep the shape'
    agree(plrv.cgf(z.conj()), K.conj(), ROUNDING, ROUNDING, 'K(conj z), conj K(z)')
    assert np.isrealobj(plrv.cgf(0.5)), 'cgf must be real at real tilts'


def check_unchecked_forms(plrv, **_):
    "`cgf_on`, `real_cgf` and `cumulants_on` say what `cgf` and `cumulants` say."
    t = tilts(plrv)
    z = t + 1j * np.arange(t.size) / std_at(plrv)
    noise = ROUNDING * (1 + np.abs(plrv.cgf(t)))
    agree(plrv.cgf_on(t), plrv.cgf(t), ROUNDING, 0, 'cgf_on at real tilts')
    agree(plrv.cgf_on(z), plrv.cgf(z), ROUNDING, noise, 'cgf_on')
    agree(plrv.real_cgf(t), plrv.cgf(t), ROUNDING, 0, 'real_cgf')
    wanted = plrv.cumulants(t, 3)
    agree(plrv.cumulants_on(t, 3), wanted, ROUNDING, ROUNDING * abs(wanted[1]), 'cumulants_on')
    if plrv.proves:
        K, off = plrv.known_cgfs(t)
        alone, error = np.array([plrv.known_cgf(x) for x in t.tolist()]).T
        agree(K, alone, 0, off + error, 'known_cgfs')


def check_transform(plrv, density=None, **_):
    "M(z)/(z(z+1)) is the integral of e^{z eps} delta(eps), and M(z) that of e^{zl} by the density."
    density = density or getattr(plrv, 'density', None)
    for t in tilts(plrv):
        for z in (t, t + 2j / std_at(plrv, t)):
            M = np.exp(plrv.cgf(z))
            size = np.exp(plrv.cgf(t))
            if has_curve(plrv):
                wanted = z * (z + 1) * curve_integral(plrv, z)
                atol = QUADRATURE * size * abs(z * (z + 1)) / (t * (t + 1))
                agree(M, wanted, 0, atol, f'M({z:.3g}), by the curve')
            if density:
                wanted = density_integral(plrv, density, z)
                agree(M, wanted, 0, 10 * QUADRATURE * size, f'M({z:.3g}), by the density')


def curve_integral(plrv, z):
    "int e^{z eps} delta(eps) d eps without mass at infinity: below the support in closed form."
    low, high = window(plrv, np.real(z))

    def f(eps):
        return np.exp(z * eps + plrv.log_delta(eps))

    P, Q = (1 - plrv.p_inf), (1 - plrv.reverse.p_inf)
    return integral(f, cuts(plrv, low, high, z)) + below_support(z, low, P, Q)


def below_support(z, low, P, Q):
    "int_{-inf}^low e^{z eps} (P - e^eps Q) d eps."
    return P * np.exp(z * low) / z - Q * np.exp((z + 1) * low) / (z + 1)


def density_integral(plrv, density, z):
    "int e^{zl} density(l) dl and the atoms."
    losses, logp = plrv.atoms
    low, high = window(plrv, np.real(z))

    def f(l):
        return np.exp(z * l) * density(l)

    return integral(f, cuts(plrv, low, high, z)) + np.exp(z * losses + logp).sum()


def check_cumulants(plrv, **_):
    "Derivatives of K: from its values on a circle, by Cauchy's integral."
    for t in tilts(plrv):
        kappas = plrv.cumulants(t, 4)
        radius = min(0.5 / std_at(plrv, t), 0.4, t / 2, 8 / (1e-9 + abs(kappas[0])))
        turns = 2j * pi * np.arange(32) / 32
        K = plrv.cgf(t + radius * np.exp(turns))
        K = K.real + 1j * np.unwrap(K.imag)  # a logarithm is known up to whole turns
        for n, kappa in enumerate(kappas, 1):
            unit = factorial(n) / radius**n
            wanted = np.mean(K * np.exp(-n * turns)).real * unit
            agree(kappa, wanted, 1e-6, ROUNDING * abs(K).max() * unit, f'cumulant {n} at {t:.3g}')


def check_moments(plrv, **_):
    "E|L - EL|^2 is the variance, E|L - EL|^4 a cumulant and three squares; the third lies between."
    if isinstance(plrv, ComposedLoss):
        return
    t = tilts(plrv)
    k = plrv.cumulants(t, 4)
    agree(plrv.abs_moment(t, 2), k[1], 1e-9, 0, 'E|L - EL|^2')
    agree(plrv.abs_moment(t, 4), k[3] + 3 * k[1] ** 2, 1e-7, 0, 'E|L - EL|^4')
    third = plrv.abs_moment(t, 3)
    fourth = k[3] + 3 * k[1] ** 2
    slack = 1 + 1e-9
    assert (third >= k[1] ** 1.5 / slack).all(), 'E|L - EL|^3 is too small'
    assert (third <= np.sqrt(k[1] * fourth) * slack).all(), 'E|L - EL|^3 is too large'


# ---------------------------------------------------------------------- directions


def check_reverse(plrv, **_):
    "The exchanged pair has K(-1 - z), the mirrored support, and twice exchanged it is the same."
    other, back = plrv.reverse, plrv.reverse.reverse
    t = tilts(plrv)
    inner = -0.5 + 1j * np.r_[0.0, t, -t]
    agree(np.exp(other.cgf(inner)), np.exp(plrv.cgf(-1 - inner)), 0, ROUNDING, 'K of reverse')
    agree(other.cgf(t), plrv.cgf(-1 - t), ROUNDING, ROUNDING, 'K of reverse, far')
    agree(back.cgf(t), plrv.cgf(t), ROUNDING, ROUNDING, 'K of reverse.reverse')
    ends = np.array([plrv.ess_inf, plrv.ess_sup])
    mirrored = np.array([-other.ess_sup, -other.ess_inf])
    agree(mirrored, ends, ROUNDING, ROUNDING, 'support of reverse')


def check_reverse_curve(plrv, **_):
    "delta of the exchanged pair at eps is 1 - e^eps + e^eps delta(-eps)."
    if not has_curve(plrv):
        return
    eps = np.linspace(*window(plrv.reverse), 23)
    wanted = -np.expm1(eps) + np.exp(eps) * plrv.delta(-eps)
    agree(plrv.reverse.delta(eps), wanted, 1e-12, 1e-13 * (1 + np.exp(eps)), 'curve of reverse')


def check_curve(plrv, **_):
    "The curve is the integral of the distribution's tail; it falls, and is convex in e^eps."
    if not has_curve(plrv):
        return
    low, high = window(plrv)
    eps = np.linspace(low, high, 7)[:-1]
    for x in eps:

        def f(l, x=x):
            return np.exp(x - l) * (1 - plrv.p_inf - plrv.cdf(l))

        wanted = integral(f, cuts(plrv, x, high))
        agree(np.exp(plrv.log_delta(np.array([x])))[0], wanted, 0, 1e-8, f'curve at {x:.3g}')
    delta = plrv.delta(np.linspace(low, high, 201))
    assert (np.diff(delta) <= 1e-14).all(), 'the curve must fall'
    slopes = np.diff(delta) / np.diff(np.exp(np.linspace(low, high, 201)))
    noise = 1e-14 / np.diff(np.exp(np.linspace(low, high, 201))).min()
    assert (np.diff(slopes) >= -noise).all(), 'the curve must be convex in e^eps'


# ---------------------------------------------------------------------- lines


def frequencies(plrv, t):
    "Frequencies from 0: close ones, and far ones."
    std = std_at(plrv, t)
    return np.arange(16) * 0.7 / std, np.arange(25) * 40.0 / std


def check_line(plrv, **_):
    "K(t) and K(t + is) - K(t) are as near to `cgf` as they say, and `cgf` is to rounding."
    if not says(plrv, 'line', 1.0, np.arange(2.0)):
        return
    for t in tilts(plrv):
        K, error = plrv.known_cgf(t)
        agree(K, plrv.cgf(t), ROUNDING, error, f'K({t:.3g}) of known_cgf')
        for s in frequencies(plrv, t):
            K, error, change, log_error = plrv.line(t, s)
            assert error >= 0 and (log_error >= 0).all(), 'errors must be at least 0'
            agree(K, plrv.cgf(t), ROUNDING, error, f'K({t:.3g}) of the line')
            size = np.exp(change)
            allowed = np.abs(size) * np.expm1(np.minimum(log_error, 600)) + ROUNDING * (1 + abs(K))
            wanted = np.exp(plrv.cgf(t + 1j * s) - plrv.cgf(t))
            agree(size, wanted, 0, allowed, f'e^change of the line at {t:.3g}')


def check_line_errors(plrv, exact=None, **_):
    "The stated errors are neither absurd nor less than a double can know; with `exact`, they hold."
    if not says(plrv, 'line', 1.0, np.arange(2.0)):
        return
    for t in tilts(plrv):
        for s in frequencies(plrv, t):
            K, error, change, log_error = plrv.line(t, s)
            noise = np.abs(np.exp(change)) * np.expm1(np.minimum(log_error, 600))
            assert error <= ABSURD * (1 + abs(K)), f'error of K({t:.3g}) is absurd: {error}'
            assert noise.max() <= ABSURD * (1 + abs(K)), f'log_error at {t:.3g} is absurd'
            assert error >= ULP / 8 * abs(K), f'no double knows K({t:.3g}) to {error}'
            least = ULP / 8 * np.minimum(np.abs(change), 1)
            assert (log_error >= least).all(), f'no double knows the line at {t:.3g} so well'
            if exact:
                judge(exact, t, s, plrv.line(t, s))


def judge(exact, t, s, line):
    "A line against K to 50 digits: `exact` takes an mpmath number."
    with mp.workdps(50):
        K = exact(mp.mpc(float(t)))
        assert abs(line.K - K) <= line.error, f'K({t:.3g}) is off by {float(abs(line.K - K)):.2g}'
        for x, change, log_error in zip(s, line.change, line.log_error, strict=True):
            off = mp.exp(exact(mp.mpc(float(t), float(x))) - K - mp.mpc(change)) - 1
            most = mp.expm1(mp.mpf(float(log_error)))
            said = f'the line at {t:.3g} + {x:.3g}i'
            assert abs(off) <= most, f'{said} is off by {float(abs(off)):.2g}'


def check_decay(plrv, **_):
    "A bound on |M| from each frequency on, which falls, and is no absurd one at 0."
    if not says(plrv, 'decay', 1.0, np.arange(2.0)):
        return
    for t in tilts(plrv):
        s = np.r_[0.0, np.geomspace(0.01, 1e3, 31) / std_at(plrv, t)]
        log_atoms, log_density = plrv.decay(t, s)
        K = plrv.cgf(t)
        bound = np.logaddexp(log_atoms, log_density) - K
        assert (log_density[1:] <= log_density[:-1] + 1e-9).all(), f'decay at {t:.3g} must not grow'
        assert bound[0] <= 10, f'decay at {t:.3g} is absurd: e^{bound[0]:.3g} of M(t) at 0'
        between = np.r_[s, (s[1:] + s[:-1]) / 2, s[1:] * 1.013]
        size = np.exp((plrv.cgf(t + 1j * between) - plrv.cgf(t)).real)
        for first, most in zip(s, np.exp(bound), strict=True):
            worst = size[between >= first].max()
            most = most * (1 + 1e-9) + ROUNDING * (1 + abs(K))
            assert worst <= most, f'decay({t:.3g}, {first:.3g}): no bound'


def check_sizes(plrv, **_):
    "Grids are about as large as announced; a grid for the largest tilt would fit."
    assert plrv.largest_tilt > 0
    for t in tilts(plrv):
        assert plrv.nodes_at(t) >= 0
        if says(plrv, 'path', t, 0.0, 0.0):
            size = len(plrv.path(t, 0.0, 0.0)[0])
            assert size / 2 - 600 <= plrv.nodes_at(t) <= 2 * size + 600, f'nodes_at({t:.3g})'


# ---------------------------------------------------------------------- accountants

ACCOUNTANTS = {
    'ContourAccountant': ContourAccountant,
    'MomentsAccountant': MomentsAccountant,
    'SaddlePointCLT': SaddlePointCLT,
    'SaddlePointMSD': SaddlePointMSD,
    'TiltedFFT': TiltedFFT,
    'PRVAccountant': PRVAccountant,
}


def check_accountants(plrv, steps=8, accountants=('ContourAccountant', 'MomentsAccountant'), **_):
    "What accountants prove of a composition of the loss overlaps."
    if isinstance(plrv, ComposedLoss) or not says(plrv, 'line', 1.0, np.arange(2.0)):
        return
    run = ComposedLoss([(plrv, steps)])
    mean, var = run.cumulants(0.0, 2)
    eps = max(mean + 2 * np.sqrt(var), 0.1 * np.sqrt(var))
    if eps >= run.ess_sup:
        eps = run.ess_sup / 2
    found = {name: ACCOUNTANTS[name](run).delta(max(eps, 0.0)) for name in accountants}
    for name, bounds in found.items():
        low, estimate, high = bounds
        assert 0 <= low <= estimate <= high <= 1, f'{name}: {bounds}'
        for other, more in found.items():
            slack = 1e-12 * more.upper
            assert low <= more.upper + slack, f'{name} {bounds}, {other} {more}'


CHECKS = (
    check_masses,
    check_support,
    check_atoms,
    check_symmetry,
    check_unchecked_forms,
    check_transform,
    check_cumulants,
    check_moments,
    check_reverse,
    check_reverse_curve,
    check_curve,
    check_line,
    check_line_errors,
    check_decay,
    check_sizes,
    check_accountants,
)


def check(
    plrv,  # a loss: a PLRV that is finite somewhere
    density=None,  # of the loss, at a 1-d array, nats, if it is known and the loss does not say it
    exact=None,  # K to 50 digits: takes and gives an mpmath number
    **settings,  # of `check_accountants`: steps, accountants
):
    """All checks, one after the other. An AssertionError says which promise is not kept.

    Returns the methods that the loss does not offer: what they promise could not be checked."""
    for one in CHECKS:
        one(plrv, density=density, exact=exact, **settings)
    return [method for method, question in QUESTIONS.items() if not says(plrv, method, *question)]
