"""Independent references for delta(eps), for testing `dp_saddle`, which this file never imports.

    delta(eps) = p_inf + E[(1 - e^{eps-L})_+; L < inf]

A mechanism is a tuple, a composition a list of `(mechanism, count)`:

    ('gaussian', sigma[, sensitivity])   ('laplace', scale[, sensitivity])   ('rr', eps)
    ('approx', eps, delta)               ('discrete', p, q)                  ('sub', base, rate)

`direction` is 'remove' (loss log dP/dQ under P) or 'add' (log dQ/dP under Q). Floats stand for
their exact binary value.

| route | method | result |
|---|---|---|
| `one_step` | probabilities of the half-lines on which dP > e^eps dQ, closed form | 40+ digits |
| `gaussian` | closed form | 40+ digits |
| `few_laplace` | a finite sum of powers, closed form | 40+ digits |
| `finite` | every multinomial class, masses under P and Q where P > e^eps Q | 40+ digits |
| `contour_mp` | integral along *bent rays*; M(z) by rigorous balls | value and error estimate |
| `by_fft` | losses on a grid that keeps P- and Q-mass, tilted FFT, doubles | (lo, hi) |
| `reference` | the best of these | (lo, hi) |

The rays of `contour_mp` make less than 90 degrees with the real line; the quadrature is adaptive
Gauss-Legendre, and the balls of M(z) are integrated along a polygon.

Regenerate golden.json: python oracles.py
"""

import itertools
import json
import math
import os
import time
from contextlib import contextmanager

import flint
import mpmath as mp
import numpy as np
from flint import acb, arb
from mpmath import mpf
from scipy import optimize

DPS = 60  # working digits of the closed forms; doubled until two precisions agree


# ---------------- descriptions


def _args(m):
    "Name and parameters of a mechanism, sensitivity filled in."
    name, *a = m
    if name in ('gaussian', 'laplace') and len(a) == 1:
        a = a + [1.0]
    return name, a


def _mpf(x):
    return mpf(x) if not isinstance(x, (np.floating, np.integer)) else mpf(float(x))


def finite_pair(m):
    "Probabilities (P1, P0) of a finite mechanism as lists of mpf, or None. P1: record present."
    name, a = _args(m)
    if name == 'rr':
        e = mp.exp(_mpf(a[0]))
        return [e / (1 + e), 1 / (1 + e)], [1 / (1 + e), e / (1 + e)]
    if name == 'approx':
        e, d = mp.exp(_mpf(a[0])), _mpf(a[1])
        return [d, (1 - d) * e / (1 + e), (1 - d) / (1 + e), mpf(0)], [
            mpf(0),
            (1 - d) / (1 + e),
            (1 - d) * e / (1 + e),
            d,
        ]
    if name == 'discrete':
        return [_mpf(x) for x in a[0]], [_mpf(x) for x in a[1]]
    if name == 'sub':
        base = finite_pair(a[0])
        if base is None:
            return None
        q = _mpf(a[1])
        return [q * x + (1 - q) * y for x, y in zip(*base)], base[1]
    return None


def directed(m, direction):
    "(P, Q) of a finite mechanism in this direction."
    p, q = finite_pair(m)
    return (p, q) if direction == 'remove' else (q, p)


REL = mpf(10) ** -40


def _digits(f, rel=REL):
    "f() at growing precision until two results agree to `rel`."
    dps, old = DPS, None
    while dps < 4000:
        with mp.workdps(dps):
            new = f()
        if old is not None and (new == old or abs(new - old) <= rel * abs(new)):
            return new
        old, dps = new, 2 * dps
    raise ArithmeticError('no convergence')


# ---------------- few Laplace steps, closed form


def laplace_terms(n, u, bits):
    "So many terms that those beyond move the sum of `few_laplace` by less than 2^-bits."
    size, k = float(n + bits + 1), 0
    while size > 0 or k < 2 * u:
        k += 1
        size += math.log2(u / k)
    return k + 1


def few_laplace(kinds, eps, bits=400):
    """delta of (count, sensitivity over scale) pairs of Laplace steps, not sampled: the sum over
    sets of steps of nbs/engine/endpoint_expansion, exercise 1, to `bits` binary digits."""
    with mp.workprec(2 * bits):
        n, eps = sum(k for k, _ in kinds), mpf(eps)
        U, total = (sum(k * mpf(d) for k, d in kinds) - eps) / 2, mpf(0)
        if U <= 0:
            return mpf(0)
        terms = laplace_terms(n, float(U), bits)
        for js in itertools.product(*(range(k + 1) for k, _ in kinds)):
            u, J = U - sum(j * mpf(d) for j, (_, d) in zip(js, kinds, strict=True)), sum(js)
            if u > 0 and J < n:
                sets = math.prod(math.comb(k, j) for j, (k, _) in zip(js, kinds, strict=True))
                total += 2 * sets * _horner(_laplace_coefficients(n, J, terms), u)
        return total * mp.exp(-U) / 2**n


def _laplace_coefficients(n, J, terms):
    "Of w^k in (1 + w)^(n-J-1) (1 - w)^(J-1), J < n: whole numbers."
    plus = [math.comb(n - J - 1, k) for k in range(terms)]
    if J == 0:
        return list(itertools.accumulate(plus))
    minus = [(-1) ** k * math.comb(J - 1, k) for k in range(J)]
    return [sum(minus[i] * plus[k - i] for i in range(min(k + 1, J))) for k in range(terms)]


def _horner(c, u):
    "sum c_k u^(k+1)/(k+1)!"
    a = mpf(0)
    for k in reversed(range(len(c))):
        a = c[k] + a * u / (k + 2)
    return u * a


# ---------------- one step, closed form


def _tails(m, tau):
    """P1[l > tau], P0[l > tau], P1[l <= tau], P0[l <= tau] of the base loss l = log dP1/dP0
    (Gaussian, Laplace)."""
    name, (s, D) = _args(m)
    s, D = _mpf(s), _mpf(D)
    if name == 'gaussian':
        mu = D / s
        a, b = tau / mu - mu / 2, tau / mu + mu / 2
        return mp.ncdf(-a), mp.ncdf(-b), mp.ncdf(a), mp.ncdf(b)
    d = D / s
    if tau >= d:
        return mpf(0), mpf(0), mpf(1), mpf(1)
    if tau < -d:
        return mpf(1), mpf(1), mpf(0), mpf(0)
    lo1, up0 = mp.exp((tau - d) / 2) / 2, mp.exp(-(tau + d) / 2) / 2  # P1[l <= tau], P0[l > tau]
    return 1 - lo1, up0, lo1, 1 - up0


def one_step(m, eps, direction='remove'):
    """delta of one step, 40 digits: integral of (dP - e^eps dQ)_+ over the half-line where it is
    positive."""

    def f():
        if finite_pair(m) is not None:
            return _sum_pos(list(zip(*directed(m, direction))), eps)
        name, a = _args(m)
        base, q = (a[0], _mpf(a[1])) if name == 'sub' else (m, mpf(1))
        e = mp.exp(_mpf(eps))
        if q == 1:  # both bases are symmetric
            u1, u0, _, _ = _tails(base, _mpf(eps))
            return u1 - e * u0
        if direction == 'remove':  # 1-q+q e^l > e^eps
            r = e - 1 + q
            if r <= 0:
                return 1 - e
            u1, u0, _, _ = _tails(base, mp.log(r / q))
            return q * u1 - r * u0
        r = 1 / e - 1 + q  # 1-q+q e^l < e^-eps
        if r <= 0:
            return mpf(0)
        _, _, l1, l0 = _tails(base, mp.log(r / q))
        return e * (r * l0 - q * l1)

    return _digits(f)


def gaussian(mus, eps):
    "delta of composed Gaussians, mu_i = sensitivity/sigma; 40 digits."

    def f():
        mu, e = mp.sqrt(mp.fsum(_mpf(x) ** 2 for x in mus)), _mpf(eps)
        return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)

    return _digits(f)


# ---------------- finite pairs


def _sum_pos(law, eps):
    e = mp.exp(_mpf(eps))
    return mp.fsum(max(p - e * q, mpf(0)) for p, q in law)


def power(pair, n):
    "Multinomial classes of n draws: [(P mass, Q mass)]. Outcomes of equal ratio are merged first."
    merged = {}
    for p, q in zip(*pair):
        if p == 0 and q == 0:
            continue
        key = mp.nstr(p / q, 40) if q else 'inf'
        a, b = merged.get(key, (mpf(0), mpf(0)))
        merged[key] = a + p, b + q
    out = list(merged.values())
    if math.comb(n + len(out) - 1, len(out) - 1) > 300000:
        raise NotImplementedError('too many classes')
    law = [(mpf(1), mpf(1), n)]
    for k, (p, q) in enumerate(out):
        last, new = k == len(out) - 1, []
        for a, b, r in law:
            if last:
                new.append((a * p**r, b * q**r, 0))
                continue
            c, pp, qq = 1, mpf(1), mpf(1)
            for j in range(r + 1):
                new.append((a * c * pp, b * c * qq, r - j))
                c = c * (r - j) // (j + 1)
                pp *= p
                qq *= q
        law = new
    return [(a, b) for a, b, _ in law]


def finite(steps, eps, direction='remove', dps=60):
    """Exact delta of a composition of finite pairs: two half-laws, joined along sorted ratios.
    About 50 digits."""
    with mp.workdps(dps):
        halves = [[(mpf(1), mpf(1))], [(mpf(1), mpf(1))]]
        for m, n in sorted(steps, key=lambda x: -x[1]):
            law = power(directed(m, direction), n)
            i = 0 if len(halves[0]) <= len(halves[1]) else 1
            if len(law) * len(halves[i]) > 400000:
                raise NotImplementedError('too many classes')
            halves[i] = [(a * c, b * d) for a, b in halves[i] for c, d in law]
        ratio = lambda x: x[0] / x[1] if x[1] else mp.inf
        A, B = (sorted((x for x in h if x[0] > 0), key=ratio) for h in halves)
        e, j, P, Q, tot = mp.exp(_mpf(eps)), len(B), mpf(0), mpf(0), mpf(0)
        for a, b in A:  # ratio grows, so the set of partners in B grows
            while j and B[j - 1][0] * a > e * b * B[j - 1][1]:
                j -= 1
                P += B[j][0]
                Q += B[j][1]
            tot += a * P - e * b * Q
        return tot


# ---------------- M(z), rigorous balls (python-flint)


@contextmanager
def _prec(dps):
    old = flint.ctx.dps
    flint.ctx.dps = int(dps)
    try:
        yield
    finally:
        flint.ctx.dps = old


_a = lambda x: arb(float(x)) if isinstance(x, (int, float, np.floating, np.integer)) else x
_I = acb(0, 1)
_conj = lambda z: acb(z.real, -z.imag)
_f = lambda x: float(x.mid())


def _to_mpf(x):
    return mpf(x.mid().str(flint.ctx.dps + 5, radius=False))


def _height(x, s, q, mu, top, stop):
    "Im l of the horizontal part: the candidate with the least maximum modulus for Re l < stop."
    if top <= 0:
        return 0.0
    y = np.linspace(-12, max(min((stop + mu * mu / 2) / mu, max(mu * (x + 1), 0) + 12), -11), 300)
    best = np.inf, 0.0
    for th in top * np.array([1, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05, 0.02, 0]):
        with np.errstate(all='ignore'):
            w = np.log1p(q * np.expm1(mu * y - mu * mu / 2 + 1j * th))
        best = min(
            best,
            (float(np.nanmax((x + 1) * w.real - s * w.imag - (y * y - (th / mu) ** 2) / 2)), th),
        )
    return best[1]


def sub_gaussian_mgf(z, q, mu, tol):
    """E_{y~N(0,1)}[(1-q+q e^{mu y - mu^2/2})^{z+1}], Im z >= 0, by `acb.integral` along a
    polygon in y. With l = mu y - mu^2/2: horizontal at the Im l in [0, min(2, mu^2 Im z)] where
    the integrand's largest modulus is least (ten candidates), then, for a large mu^2 Im z, a
    climb to the saddle point of the e^{(z+1) l} part, to the right of the branch points Re l =
    log((1-q)/q), Im l = pi (2k+1)."""
    q, mu = _a(q), _a(mu)
    c, mid = (1 / q - 1).log(), mu * mu / 2
    h, x, s = _f(mu * mu * z.imag), _f(z.real), _f(z.imag)
    cap = 2.0 if x > -0.5 else 1.2
    th = _height(x, s, float(q.mid()), _f(mu), min(cap, h), _f(c) + 0.5)
    Y = math.sqrt(2 * math.log(10) * (flint.ctx.dps + 5) + (th / _f(mu)) ** 2) + 1
    ym = lambda l: (l + _f(mid)) / _f(mu)
    low = lambda y, an: (
        (z + 1) * (1 - q + q * (mu * y - mid).exp()).log(analytic=an) - y * y / 2
    ).exp()

    def high(y, an):
        l = mu * y - mid
        return ((z + 1) * (l + q.log() + (1 + (c - l).exp()).log(analytic=an)) - y * y / 2).exp()

    yb, yh = ym(_f(c) + 0.5), _f(mu) * (x + 1)
    if h <= cap and th == h or x <= 0:
        pts = [(-Y, th), (max(yh, 0) + Y, th)]
        if -Y < yb < pts[1][0]:
            pts.insert(1, (yb, th))
        segs = [low] * (len(pts) - 1)
    else:
        top = max(yb, yh)
        pts, segs = [(-Y, th)], []
        if yb > -Y:
            pts.append((yb, th))
            segs.append(low)
        pts += [(top, h), (top + Y, h)]
        segs += [high, high]
    tot, m = acb(0), _f(mu)
    for f, (x0, t0), (x1, t1) in zip(segs, pts, pts[1:]):
        tot += acb.integral(
            f, acb(x0, t0 / m), acb(x1, t1 / m), abs_tol=tol, rel_tol=arb(2) ** (-flint.ctx.prec)
        )
    return tot / (2 * arb.pi()).sqrt()


def _sub_laplace_parts(z, q, d):
    """M_remove(z) = sum over both ends u of [log w(-d), log w(d)] of e^{uz} g(z): the smooth
    part's path is turned straight up from each end (period 2 pi, geometric sum), Im z > 0.
    Returns [(u, g)]."""
    q, d = _a(q), _a(d)
    out = []
    for sign, atom in ((-1, arb(1) / 2), (1, (-d).exp() / 2)):
        u = (1 - q + q * (sign * d).exp()).log()
        k = (-d / 2).exp() * q.sqrt() / 4

        def f(y, an, u=u):
            v = u + _I * y
            r = (1 - (1 - q) * (-v).exp()).log(analytic=an)
            return (_I * y * z + v / 2 - r * 3 / 2).exp()

        G = _I * k * acb.integral(f, 0, 2 * arb.pi()) / (1 + (2 * _I * arb.pi() * z).exp())
        out.append((u, atom * u.exp() - sign * G))
    return out


def _mgf_real(m, direction, t):
    "M(t), t > 0 real, as arb."
    name, a = _args(m)
    t = _a(t)
    if name == 'sub' and float(a[1]) == 1:
        return _mgf_real(a[0], direction, t)
    if finite_pair(m) is not None:
        with mp.workdps(flint.ctx.dps + 10):
            return sum(
                (
                    arb(mp.nstr(p, flint.ctx.dps + 5))
                    * ((arb(mp.nstr(p / q, flint.ctx.dps + 5)).log() * t).exp())
                    for p, q in zip(*directed(m, direction))
                    if p > 0 and q > 0
                ),
                arb(0),
            )
    if name == 'gaussian':
        return ((_a(a[1]) / _a(a[0])) ** 2 * t * (t + 1) / 2).exp()
    if name == 'laplace':
        d = _a(a[1]) / _a(a[0])
        return (
            (t * d).exp() / 2
            + (-d * (t + 1)).exp() / 2
            + (t * d).exp() * (1 - (-(1 + 2 * t) * d).exp()) / (2 * (1 + 2 * t))
        )
    (kind, (s, D)), q = _args(a[0]), _a(a[1])
    z = t if direction == 'remove' else -1 - t
    if kind == 'gaussian':
        return sub_gaussian_mgf(acb(z), q, _a(D) / _a(s), arb(0)).real
    d = _a(D) / _a(s)
    w = lambda l: 1 - q + q * l.exp()
    smooth = acb.integral(
        lambda l, an: ((z + 1) * w(l).log(analytic=an) - (l + d) / 2).exp() / 4, -d, d
    ).real
    return (
        ((z + 1) * w(-d).log()).exp() / 2 + (-d).exp() / 2 * ((z + 1) * w(d).log()).exp() + smooth
    )


def _terms(m, direction, tol, t):
    """M(z) = sum_j e^{a_j z} g_j(z) for Im z > 0: (shifts, function z -> [g_j], kind). Every g_j
    is entire in the upper half plane and grows on neither ray. kind: 'unbounded' loss;
    'bounded', g_j analytic and bounded for large Re z, so that a term with a_j <= eps integrates
    to 0; 'poles', bounded, g_j with poles at 1/2, 3/2, ..."""
    name, a = _args(m)
    if name == 'sub' and float(a[1]) == 1:
        return _terms(a[0], direction, tol, t)
    if finite_pair(m) is not None:
        merged = {}
        with mp.workdps(flint.ctx.dps + 10):
            for p, q in zip(*directed(m, direction)):
                if p > 0 and q > 0:
                    merged[mp.nstr(p / q, flint.ctx.dps)] = (
                        merged.get(mp.nstr(p / q, flint.ctx.dps), 0) + p
                    )
            shifts, g = (
                [arb(k).log() for k in merged],
                [arb(mp.nstr(v, flint.ctx.dps + 5)) for v in merged.values()],
            )
        return shifts, lambda z: g, 'bounded'
    if name == 'gaussian':
        v = (_a(a[1]) / _a(a[0])) ** 2
        return [arb(0)], lambda z: [(v * z * (z + 1) / 2).exp()], 'unbounded'
    if name == 'laplace':
        d = _a(a[1]) / _a(a[0])

        def g(z):
            r = 1 / (2 * (1 + 2 * z))
            return [arb(1) / 2 + r, (-d).exp() * (arb(1) / 2 - r)]

        return [d, -d], g, 'bounded'
    (kind, (s, D)), q = _args(a[0]), _a(a[1])
    mu = _a(D) / _a(s)
    if kind == 'gaussian':
        a0 = (1 - q).log()
        # error of M: of g, tol, wherever z is
        near = lambda z, a: tol * (a * (z.real - _a(t))).exp()
        if direction == 'remove':
            return (
                [a0],
                lambda z: [sub_gaussian_mgf(z, q, mu, near(z, a0)) * (-a0 * z).exp()],
                'unbounded',
            )
        return (
            [-a0],
            lambda z: [
                _conj(sub_gaussian_mgf(-1 - _conj(z), q, mu, near(z, -a0))) * (a0 * z).exp()
            ],
            'bounded',
        )
    u = [(1 - q + q * (sg * mu).exp()).log() for sg in (-1, 1)]
    if direction == 'remove':
        return u, lambda z: [g for _, g in _sub_laplace_parts(z, q, mu)], 'poles'
    return (
        [-x for x in u],
        lambda z: [(-x).exp() * _conj(g) for x, g in _sub_laplace_parts(-1 - _conj(z), q, mu)],
        'bounded',
    )


def p_inf(steps, direction='remove'):
    "1 - prod (1 - p_i)^n_i."
    keep = mpf(1)
    for m, n in steps:
        if finite_pair(m) is None:
            continue
        keep *= (1 - mp.fsum(p for p, q in zip(*directed(m, direction)) if q == 0)) ** n
    return 1 - keep


# ---------------- contour along bent rays

_GL = {}


def _gl(n):
    key = n, flint.ctx.prec
    if key not in _GL:
        _GL[key] = [arb.legendre_p_root(n, k, weight=True) for k in range(n)]
    return _GL[key]


def _multinomials(shifts, n):
    "[(coefficient, exponents, total shift)] of (sum_j e^{a_j z} g_j)^n."
    if math.comb(n + len(shifts) - 1, len(shifts) - 1) > 20000:
        raise NotImplementedError('too many atom classes')

    def rec(k, r):
        if k == len(shifts) - 1:
            yield 1, (r,)
            return
        for j in range(r + 1):
            for c, e in rec(k + 1, r - j):
                yield c * math.comb(r, j), (j,) + e

    return [(c, e, sum((s * i for s, i in zip(shifts, e)), arb(0))) for c, e in rec(0, n)]


def contour_mp(steps, eps, direction='remove', digits=30, seconds=60, t=None, info=None):
    """delta of any composition, (value, error estimate) as mpf, from p_inf + (1/2 pi i) int
    e^{K(z)-eps z}/(z(z+1)) dz.

    e^{K(z)} is written as sum_j e^{a_j z} G_j(z), a_j the total shift of one choice of atoms.
    The path leaves t > 0 along t + r e^{i phi}, to the right (phi about 62 degrees) for the
    terms with a_j <= eps and to the left for the others, so that terms decay exponentially in r
    even for few steps or pure atoms. Right-hand terms of bounded losses are zero exactly.
    Panels: geometric, Gauss-Legendre with 18 and 28 nodes, bisected until the two agree. The
    error returned is the sum of the differences and of the ball radii: an estimate, not a proof,
    in practice too large."""
    start = time.time()
    steps = [(m, n) for m, n in steps if n]
    total = sum(n for _, n in steps)
    dps = digits + 16 + int(math.log10(total + 1))
    if info is None:
        info = {}
    with mp.workdps(dps + 10), _prec(dps):
        pinf = p_inf(steps, direction)
        e = _a(eps)
        F = lambda t: (
            float(sum((_mgf_real(m, direction, t).log() * n for m, n in steps), arb(0)).mid())
            - float(eps) * t
            - math.log(t)
            - math.log1p(t)
        )
        given, t = t, t or _saddle(F)  # any t > 0 gives the same delta: a check
        if not given and t > 0.5 and any(m[0] == 'sub' for m, _ in steps):
            t = float(round(t))  # away from the poles at 1/2, 3/2, ...
        tol = arb(10) ** -(dps - 8)
        mgf_t = [_mgf_real(m, direction, t) for m, n in steps]
        parts = [_terms(m, direction, tol * M, t) for (m, n), M in zip(steps, mgf_t)]
        kinds = {p[2] for p in parts}
        combos = [(arb(1), [], arb(0))]
        for (_, n), (shifts, _, _) in zip(steps, parts):
            mult = _multinomials(shifts, n)
            if len(mult) * len(combos) > 50000:
                raise NotImplementedError('too many atom classes')
            combos = [(c * c2, ex + [e2], s + s2) for c, ex, s in combos for c2, e2, s2 in mult]
        right = [x for x in combos if not (x[2] - e).mid() > 0]
        left = [x for x in combos if (x[2] - e).mid() > 0]
        if kinds <= {'bounded'} or ('unbounded' not in kinds and not left):
            right = []
        scale = (
            1 / (sum((M.log() * n for M, (_, n) in zip(mgf_t, steps)), arb(0)) - e * arb(t)).exp()
        )
        dd = 1e-3 * t
        curv = (F(t + dd) - 2 * F(t) + F(t - dd)) / dd**2
        s0 = min(1 / math.sqrt(curv) if curv > 0 else t, 2 * t)
        evals = 0

        def integrand(terms):
            def f(z):
                nonlocal evals
                evals += 1
                if time.time() - start > seconds:
                    raise NotImplementedError(f'more than {seconds} s')
                gs, tot, cache = [p[1](z) for p in parts], acb(0), {}
                for c, ex, s in terms:
                    x = acb(c) * ((s - e) * z).exp()
                    for i, ei in enumerate(ex):
                        for j, k in enumerate(ei):
                            if k:
                                if (i, j, k) not in cache:
                                    cache[i, j, k] = acb(gs[i][j]) ** k
                                x *= cache[i, j, k]
                    tot += x
                return tot * scale / (z * (z + 1))

            return f

        def ray(terms, to_right):
            f = integrand(terms)
            peak = abs(f(acb(t, 1e-6 * t))).mid()
            for deg in (62, 70, 78, 84, 88):  # steeper while the modulus rises along the ray
                phi = math.radians(deg if to_right else 180 - deg)
                d = acb(math.cos(phi), math.sin(phi))
                if all(_f(abs(f(t + d * arb(s0 * 2.0**k)))) < 1e3 * _f(peak) for k in range(-1, 9)):
                    break
            panels = {}

            def panel(a, b, n):
                if (a, b, n) not in panels:
                    half, mid = arb(b - a) / 2, (arb(a) + b) / 2
                    panels[a, b, n] = (
                        sum(
                            (w * half * (f(t + d * (mid + half * x)) * d).imag for x, w in _gl(n)),
                            arb(0),
                        )
                        / arb.pi()
                    )
                return panels[a, b, n]

            def adapt(a, b, goal, depth=0):
                c, g = panel(a, b, 18), panel(a, b, 28)
                diff = abs(c - g).mid()
                if diff < goal or depth > 40:
                    return g, diff
                m = (a + b) / 2
                (x, ex), (y, ey) = adapt(a, m, goal, depth + 1), adapt(m, b, goal, depth + 1)
                return x + y, ex + ey

            def integral(goal):
                a, b, quiet, tot, bad = 0.0, s0, 0, arb(0), arb(0)
                while quiet < 2:  # small panels and nothing left beyond (decay >= 1/r)
                    v, dv = adapt(a, b, goal)
                    tot += v
                    bad += dv
                    quiet = (
                        quiet + 1
                        if abs(v).mid() < goal and (abs(f(t + d * b)) * b).mid() < goal
                        else 0
                    )
                    a, b = b, 2 * b
                return tot, bad

            return integral, peak, deg

        rays = [ray(x, x is right) for x in (right, left) if x]
        value, err = arb(0), arb(0)
        size = sum((p * arb(s0) * 1e-3 for _, p, _ in rays), arb(0)).mid()
        floor = size * arb(10) ** -digits
        while rays:  # the terms may cancel: aim at the size of the result
            goal = size * arb(10) ** -(digits + 1)
            (value, err) = (sum(x, arb(0)) for x in zip(*(r(goal) for r, _, _ in rays)))
            new = max(abs(value.mid()), floor)
            if new > size / 10:
                break
            size = new
        angle = [deg for _, _, deg in rays]
        info.update(
            t=t,
            evals=evals,
            angle=angle,
            seconds=time.time() - start,
            terms=(len(right), len(left)),
        )
        got = value / scale
        rad = (abs(err) + value.rad()) / scale
        return _to_mpf(got) + pinf, _to_mpf(rad) + abs(_to_mpf(got)) * mpf(10) ** -(digits + 3)


def _saddle(F):
    """Minimum of F(t) = K(t) - eps t - log t - log(1+t) over t > 0, roughly; low precision is
    enough: any t > 0 is valid."""
    with _prec(25):
        g = lambda x: F(math.exp(x))
        lo, hi = -2.0, 2.0
        while lo > -30 and g(lo - 2) < g(lo):
            lo -= 2
        while hi < 16 and g(hi + 2) < g(hi):
            hi += 2
        r = optimize.minimize_scalar(
            g, bounds=(lo - 2, hi + 2), method='bounded', options=dict(xatol=1e-3)
        )
        return float(f'{math.exp(r.x):.6g}')


# ---------------- discretise and FFT, double precision


class _Step:
    """One step's loss as weighted cells: `nodes(h, c)` gives (index, log P-mass, u): mass at
    grid c + h*index, a share u one up."""

    def __init__(self, m, direction, ycut=38.5):
        name, a = _args(m)
        self.dir, self.atoms, self.cont, self.ycut = direction, [], None, ycut
        if name == 'sub' and float(a[1]) == 1:
            m, (name, a) = a[0], _args(a[0])
        fp = finite_pair(m)
        if fp is not None:
            p, q = directed(m, direction)
            self.atoms = [
                (float(mp.log(x / y)), float(mp.log(x))) for x, y in zip(p, q) if x > 0 and y > 0
            ]
            self.c = self.atoms[0][0]
            return
        q, base = (float(a[1]), a[0]) if name == 'sub' else (1.0, m)
        kind, (s, D) = _args(base)
        self.q, self.mu, self.kind = q, D / s, kind
        sg = 1 if direction == 'remove' else -1
        if kind == 'gaussian':
            self.cont = True
            self.c = float(self.loss(np.array(0.0)))
        else:
            d = self.mu
            self.cont, self.c = True, float(self.loss(np.array(0.0)))
            w = lambda l: math.log1p(q * math.expm1(l))
            for l, lp0 in ((-d, -math.log(2)), (d, -d - math.log(2))):
                self.atoms.append((sg * w(l), lp0 + (w(l) if sg > 0 else 0)))

    def lr(self, y):
        return self.mu * y - self.mu**2 / 2 if self.kind == 'gaussian' else y  # l = log dP1/dP0

    def logw(self, y):
        l = self.lr(y)
        if self.q == 1:
            return l
        small = l < 30
        return np.where(
            small,
            np.log1p(self.q * np.expm1(np.minimum(l, 30))),
            l + np.log(self.q) + np.log1p((1 - self.q) / self.q * np.exp(-np.maximum(l, 30))),
        )

    def loss(self, y):
        return self.logw(y) if self.dir == 'remove' else -self.logw(y)

    def logp(self, y):
        "log density of the upper measure P in y."
        base = (
            -y * y / 2 - 0.5 * math.log(2 * math.pi)
            if self.kind == 'gaussian'
            else -(y + self.mu) / 2 - math.log(4)
        )
        return base + (self.logw(y) if self.dir == 'remove' else 0)

    def range_y(self, t=None):
        "Interval of y; given t, only what is within e^-70 of the largest tilted density."
        if self.kind != 'gaussian':
            return -self.mu, self.mu
        y = np.linspace(-self.ycut, self.ycut + self.mu, 8000)
        if t is None:
            return y[0], y[-1]
        g = self.logp(y) + t * self.loss(y)
        k = np.flatnonzero(g > g.max() - 70)
        return y[max(k[0] - 1, 0)], y[min(k[-1] + 1, len(y) - 1)]

    def inverse(self, L):
        "y at these losses; nan or inf where there is none."
        v = L if self.dir == 'remove' else -L
        if self.q == 1:
            return (v + self.mu**2 / 2) / self.mu if self.kind == 'gaussian' else v
        with np.errstate(all='ignore'):
            l = np.where(
                v > 30,
                v - np.log(self.q) + np.log1p(-(1 - self.q) * np.exp(-np.maximum(v, 30))),
                np.log1p(np.expm1(np.minimum(v, 30)) / self.q),
            )
        return (l + self.mu**2 / 2) / self.mu if self.kind == 'gaussian' else l

    def cells(self, h, c, t):
        """(index j, log mass, u) of pieces, each inside one cell [c+jh, c+(j+1)h]; u is the
        P-mean of (e^{-a}-e^{-l})/(e^{-a}-e^{-b}): spreading (1-u, u) to the ends a, b keeps the
        masses under P and under Q."""
        J, LM, U = [], [], []
        den = -math.expm1(-h)
        for l, lm in self.atoms:
            j = math.floor((l - c) / h)
            J.append([j])
            LM.append([lm])
            U.append([min(1.0, max(0.0, -math.expm1(-(l - c - j * h)) / den))])
        if self.cont:
            y0, y1 = self.range_y(t)
            ends = sorted((float(self.loss(np.array(y0))), float(self.loss(np.array(y1)))))
            js = np.arange(math.ceil((ends[0] - c) / h), math.floor((ends[1] - c) / h) + 1)
            if len(js) > 3e7:
                raise MemoryError('grid too fine')
            yb = self.inverse(c + h * js)
            yb = yb[np.isfinite(yb) & (yb > y0) & (yb < y1)]
            step = 0.05 * min(1.0, 1 / self.mu) if self.kind == 'gaussian' else 0.05
            pts = np.unique(np.concatenate([yb, np.linspace(y0, y1, int((y1 - y0) / step) + 2)]))
            x, w = np.polynomial.legendre.leggauss(5)
            for i in range(0, len(pts) - 1, 1 << 20):
                a, b = pts[i : i + (1 << 20) + 1][:-1], pts[i : i + (1 << 20) + 1][1:]
                y = (a + b)[:, None] / 2 + (b - a)[:, None] / 2 * x
                L = self.loss(y)
                j = np.floor((self.loss((a + b) / 2) - c) / h).astype(np.int64)
                u = np.clip(-np.expm1(-(L - c - h * j[:, None])) / den, 0, 1)
                lp = self.logp(y)
                top = lp.max(1, keepdims=True)
                e = w * np.exp(lp - top)
                mass = e.sum(1)
                J.append(j)
                LM.append(np.log(mass * (b - a) / 2) + top[:, 0])
                U.append((e * u).sum(1) / mass)
        return (np.concatenate(x) for x in (J, LM, U))


def _lse(x):
    m = x.max()
    return m + math.log(np.exp(x - m).sum())


def by_fft(steps, eps, direction='remove', log2n=20, info=None):
    """Bracket (lo, hi) of delta(eps), double precision (floats, or mpf below 1e-300).

    hi: every piece of loss l in a cell [a, b] is split between a and b keeping its P- and Q-mass
    ("connect the dots"): e^{-L} gets a mean-preserving spread and delta is convex in it, so the
    spread law's curve lies above at every step of the composition. lo: the loss H of the spread
    law is L + N, so delta(eps) >= delta_H(eps + s) - P[N > s, H > eps + s], the probability by
    Chernoff in both, with the moments of N per cell: |N| <= h, E[N^2 e^{tH}] <= (e^h-1)^2 u(1-u)
    e^{tb} P(cell), and likewise E[N e^{tH}]. The law is tilted by e^{tl}; one circular FFT per
    mechanism, multiplied; the mass outside the window by Chernoff. Rounding: n*E/N sum_k
    |g_k||phi_k|, E = 2^-53 (20 + 4 log2 N), g the transform of the tilted payoff; plus a
    relative 1e-12. Exact arithmetic would make it rigorous but for the 5-point quadrature of the
    cell masses (pieces of at most .05 standard deviations: below 1e-14) and the part of a
    Gaussian beyond 38.5 standard deviations or with a tilted density below e^-70 of the largest
    (e^-55 per step is charged)."""
    steps = [(m, n) for m, n in steps if n]
    if p_inf(steps, direction):
        raise NotImplementedError(
            "by_fft is not used for mass at infinity: there it has been seen 2e-4 too low"
        )
    S = [(_Step(m, direction), n) for m, n in steps]
    total, pinf, N = sum(n for _, n in S), float(p_inf(steps, direction)), 1 << log2n
    # coarse cells for K(t), K'(t)
    coarse = []
    for s, n in S:
        pts = [(np.array([l]), np.array([lm])) for l, lm in s.atoms]
        if s.cont:
            y0, y1 = s.range_y()
            x, w = np.polynomial.legendre.leggauss(8)
            e = np.linspace(y0, y1, 2000)
            y = (e[1:] + e[:-1])[:, None] / 2 + (e[1:] - e[:-1])[:, None] / 2 * x
            pts.append((s.loss(y).ravel(), (s.logp(y) + np.log(w * (e[1] - e[0]) / 2)).ravel()))
        coarse.append((np.concatenate([p[0] for p in pts]), np.concatenate([p[1] for p in pts]), n))

    def K(t):
        k = 0.0
        for l, lm, n in coarse:  # loss relative to its middle node
            k += n * (_lse(lm + t * (l - l[len(l) // 2])))
        return k

    base = sum(n * l[len(l) // 2] for l, _, n in coarse)  # centre: K above is that of L - base
    x0 = eps - base
    F = lambda v: K(math.exp(v)) - math.exp(v) * x0 - v - math.log1p(math.exp(v))
    lo, hi = -2.0, 2.0
    while lo > -25 and F(lo - 1) < F(lo):
        lo -= 1
    while hi < 12 and F(hi + 1) < F(hi):
        hi += 1
    t = math.exp(optimize.minimize_scalar(F, bounds=(lo - 1, hi + 1), method='bounded').x)
    Kt, tail = K(t), 36.0

    def edge(sign):
        """x beyond which the tilted sum has probability < e^-tail: min over s of
        (K(t+s)-K(t)+tail)/s."""
        g = lambda v: (K(t + sign * math.exp(v)) - Kt + tail) / math.exp(v)
        vs = np.linspace(-15, 12, 109)
        vals = [g(v) for v in vs]
        i = int(np.argmin(vals))
        return (
            sign
            * optimize.minimize_scalar(
                g, bounds=(vs[max(i - 1, 0)], vs[min(i + 1, 108)]), method='bounded'
            ).fun
        )

    xlo, xhi = min(edge(-1), x0), max(edge(1), x0)
    h = (xhi - xlo) * 1.02 / (N - 8)
    if h < 1e-12:
        h = 1e-12
    lattice = sum(n * s.c for s, n in S)
    J0 = math.floor((xlo - 0.01 * (xhi - xlo) + base - lattice) / h)
    # spread, tilt, transform
    fk, logM, offset, muN, vN, rounding = np.ones(N // 2 + 1, complex), 0.0, 0.0, 0.0, 0.0, 0.0
    phi = np.ones(N // 2 + 1)
    for s, n in S:
        c = s.c
        j, LM, U = s.cells(h, c, t)
        with np.errstate(divide='ignore'):
            # tilted relative to c
            la, lb = LM + np.log1p(-U) + t * (h * j), LM + np.log(U) + t * (h * (j + 1))
        top = max(la.max(), lb.max())
        p = np.bincount(j % N, np.exp(la - top), N) + np.bincount((j + 1) % N, np.exp(lb - top), N)
        Z = p.sum()
        p /= Z
        logM += n * (math.log(Z) + top + t * c)
        offset += n * c
        q = U * (1 - U) * np.exp(LM + t * h * (j + 1) - top) / Z
        vN += n * math.expm1(h) ** 2 * q.sum()
        muN += n * (math.expm1(h) + math.expm1(-h) * math.exp(-t * h)) * q.sum()
        F_ = np.fft.rfft(p)
        fk *= F_**n
        phi *= np.abs(F_) ** (n - 1)
    dist = np.fft.irfft(fk, N)  # index k: J = k mod N
    Jw = np.arange(J0, J0 + N)
    dist = dist[Jw % N]
    x = offset + h * Jw

    def hi_at(e):
        "log of delta_H(e), without p_inf."
        pos = x > e
        v = (dist[pos] * np.exp(-t * (x[pos] - e)) * -np.expm1(e - x[pos])).sum()
        return v, logM - t * e

    payoff = np.where(
        x > eps, np.exp(-t * np.maximum(x - eps, 0)) * -np.expm1(np.minimum(eps - x, 0)), 0
    )
    gk = np.abs(np.fft.rfft(payoff))
    E = 2.0**-53 * (20 + 4 * log2n)
    rounding = total * E * 2 * (gk * phi).sum() / N
    gmax = math.exp(t * math.log(t) - (1 + t) * math.log1p(t))
    alias = (2 * math.exp(-tail + 1) + total * math.exp(-55)) * gmax * 1.1
    v, ls = hi_at(eps)
    hi_v = v * (1 + 1e-12) + rounding + alias
    lo_v, at = 0.0, 0.0
    sd = math.sqrt(vN)
    for k in np.geomspace(1e-2, 40, 60):
        e_ = k * sd + max(muN, 0)
        if e_ <= 0:
            break
        lam = min(k / max(sd, 1e-300), 0.5 / h)
        logP = lam * (muN - e_) + lam**2 / 2 * vN * math.exp(lam * h) - t * e_
        w, _ = hi_at(eps + e_)
        cand = w * math.exp(-t * e_) * (1 - 1e-12) - math.exp(min(logP, 50)) - rounding - alias
        if cand > lo_v:
            lo_v, at = cand, e_
    w, _ = hi_at(eps + total * h)  # |N| <= h per step, always
    lo_v = max(lo_v, w * math.exp(-t * total * h) * (1 - 1e-12) - rounding - alias)
    if sd == 0:
        lo_v = v * (1 - 1e-12) - rounding - alias
    if info is not None:
        info.update(
            t=t,
            h=h,
            window=(xhi - xlo),
            shift=at,
            rounding=rounding / v,
            alias=alias / v,
            sd=sd,
            mid=v,
        )
    out = [mpf(max(y, 0)) * mp.exp(mpf(ls)) + pinf for y in (lo_v, hi_v)]
    return tuple(float(y) if y > 1e-300 else y for y in out)


# ---------------- the best of these


def reference(steps, eps, direction='remove', digits=16, seconds=60, log2n=21):
    """(lo, hi, route) around delta(eps): closed form or exact sum, else contour_mp (error
    estimate times 10, at least 1e-14 relative), else by_fft. lo and hi are mpf; a bracket of the
    first two kinds is 1e-30 relative wide."""
    steps = [(m, n) for m, n in steps if n]

    def around(v, rel, route):
        with mp.workdps(DPS):
            return v * (1 - mpf(rel)), v * (1 + mpf(rel)), route

    if not steps:
        return mpf(max(0, -math.expm1(eps))), mpf(max(0, -math.expm1(eps))), 'empty'
    flat = [(m[1] if m[0] == 'sub' and float(m[2]) == 1 else m, n) for m, n in steps]
    if all(m[0] == 'gaussian' for m, _ in flat):
        with mp.workdps(DPS):
            v = sum(n * (_mpf(_args(m)[1][1]) / _mpf(_args(m)[1][0])) ** 2 for m, n in flat)
            return around(gaussian([mp.sqrt(v)], eps), 1e-30, 'gaussian')
    if sum(n for _, n in flat) == 1:
        return around(one_step(flat[0][0], eps, direction), 1e-30, 'one_step')
    if all(finite_pair(m) is not None for m, _ in flat):
        try:
            return around(finite(flat, eps, direction), 1e-30, 'finite')
        except NotImplementedError:
            pass
    try:
        v, err = contour_mp(flat, eps, direction, digits, seconds)
        err = max(10 * err, abs(v) * mpf(10) ** -14)
        return max(v - err, mpf(0)), v + err, 'contour_mp'
    except (NotImplementedError, ArithmeticError, ValueError):
        pass
    lo, hi = by_fft(flat, eps, direction, log2n)
    return mpf(lo), mpf(hi), 'by_fft'


# ---------------- golden.json


def _g(s):
    return ('gaussian', s)


def _s(s, q):
    return ('sub', _g(s), q)


MIX = [(_s(1.0, 0.01), 1000), (('laplace', 20.0), 10), (('rr', 0.1), 5)]

# fmt: off
CLOSED = [  # closed forms and exact sums
    *[
        ([(_g(s), n)], e, 'remove')
        for s, n, e in (
            (.3, 1, 0.), (.3, 1, 50.), (1., 1, 1.), (1., 1, 38.), (1., 100, 50.), (5., 1, .5),
            (20., 1, .01), (20., 400, 38.), (9.4, 2000, 50.), (20., 10**7, 50.), (20., 1000, 10.),
            (2., 4, 35.),
        )
    ],
    *[
        ([(_s(s, q), 1)], e, d)
        for s, q, e, d in (
            (1., .01, .5, 'remove'), (1., .01, .005, 'add'), (.3, .1, 10., 'remove'),
            (.3, 1e-6, 1e-7, 'remove'), (.3, 1e-6, 5e-7, 'add'), (20., .5, .1, 'remove'),
            (20., .5, .1, 'add'), (1., .3, .2, 'add'), (.5, .2, 50., 'remove'),
            (5., 1e-4, 1e-5, 'remove'), (2., .01, 5., 'remove'), (1., 1., 2., 'remove'),
        )
    ],
    *[
        ([(m, 1)], e, d)
        for m, e, d in (
            (('laplace', 1.), .5, 'remove'), (('laplace', 20.), .01, 'add'),
            (('sub', ('laplace', 1.), .3), .2, 'remove'), (('sub', ('laplace', 1.), .3), .1, 'add'),
            (('sub', ('laplace', .2), .01), .5, 'remove'),
        )
    ],
    ([(('rr', .1), 100)], 1., 'remove'), ([(('rr', .1), 1000)], 50., 'remove'),
    ([(('rr', 1.), 1000)], 500., 'add'), ([(('rr', 1.), 300)], 299.5, 'remove'),
    ([(('approx', .1, 1e-6), 50)], 1., 'remove'),
    ([(('approx', .5, 1e-9), 5), (('rr', .25), 40)], 6., 'add'),
    ([(('sub', ('rr', 2.), .05), 200)], 2., 'remove'),
    ([(('sub', ('rr', 2.), .05), 200)], 1., 'add'),
    ([(('sub', ('approx', 1., 1e-5), .1), 30)], .7, 'remove'),
    ([(('sub', ('approx', 1., 1e-5), .1), 30)], .7, 'add'),
    ([(('discrete', (.5, .25, .25), (.25, .25, .5)), 20)], 3., 'remove'),
    ([(('discrete', (.75, .25, 0.), (.25, .5, .25)), 6)], .5, 'remove'),
    ([(('discrete', (.75, .25, 0.), (.25, .5, .25)), 6)], .5, 'add'),
    ([(('discrete', (.625, .25, .125), (.125, .25, .625)), 12), (('rr', .3), 30)], 8., 'remove'),
]
CONTOUR = [  # (steps, eps, direction, digits asked)
    ([(_s(1.5, .01), 10**4)], 1., 'remove', 20), ([(_s(1.5, .01), 10**4)], 1., 'add', 20),
    ([(_s(.8, 4e-3), 1000)], 1.5, 'remove', 16), ([(_s(.8, 4e-3), 1000)], 1., 'add', 16),
    ([(_s(5., .1), 5000)], 3., 'remove', 20), ([(_s(5., .1), 5000)], 3., 'add', 20),
    ([(_s(.3, .1), 5000)], 1500., 'remove', 16), ([(_s(.3, 1e-4), 1000)], 1., 'remove', 16),
    ([(_s(.3, 1e-4), 1000)], 5., 'remove', 16), ([(_s(.3, 1e-4), 1000)], .05, 'add', 14),
    ([(_s(20., .2), 10**4)], 1., 'remove', 20), ([(_s(20., .2), 10**4)], 40., 'remove', 20),
    ([(_s(20., .2), 10**4)], 20., 'add', 20), ([(_s(10., 1e-3), 10**7)], 1., 'remove', 16),
    ([(_s(10., 1e-3), 10**7)], 10., 'add', 16), ([(_s(1., 1e-6), 10**6)], .01, 'remove', 10),
    ([(_s(5., 1e-6), 10**6)], 1e-3, 'remove', 14), ([(_s(2., 1e-6), 10**7)], .005, 'remove', 14),
    ([(_s(9.4, 2**14/50000), 2000)], 7.42438, 'remove', 16),
    ([(_s(9.4, 2**14/50000), 2000)], 7.42438, 'add', 16),
    ([(_s(9.4, 2**14/50000), 2000)], 50., 'remove', 16), ([(_s(2., .02), 3000)], 0., 'remove', 16),
    ([(_s(2., .02), 3000)], 0., 'add', 16), ([(_s(2., .02), 3000)], 50., 'remove', 16),
    ([(_s(1., .5), 30)], 30., 'remove', 16), ([(_s(1., .5), 30)], 15., "add", 16),
    ([(_s(3., .1), 2)], .3, 'remove', 16), ([(_s(3., .1), 2)], .1, 'add', 16),
    ([(('laplace', 20.), 100)], 1.5, 'remove', 16), ([(('laplace', 1.), 20)], 15., 'remove', 16),
    ([(('sub', ('laplace', 1.), .1), 20)], .5, 'remove', 14),
    ([(('sub', ('laplace', 1.), .1), 20)], .5, 'add', 14),
    ([(_g(5.), 10), (('laplace', 2.), 4), (('rr', .5), 6)], 3., 'remove', 16),
    ([(_g(20.), 5), (('approx', .1, 1e-7), 3)], 1., 'add', 16), (MIX, 2., 'remove', 14),
    (MIX, 2., 'add', 14), (MIX, 0., 'remove', 14),
    ([(_s(.8, 1e-3), 10)], .2564439927, 'remove', 14), ([(_s(.8, 1e-3), 1000)], 2., 'remove', 16),
    ([(_s(.5, 1e-5), 10**4)], 3., 'remove', 16), ([(_s(1., 1e-4), 10**6)], 1., 'remove', 22),
    ([(_s(1., .01), 500), (_s(2., .02), 500)], 1., 'remove', 16),
    ([(_s(1., .01), 500), (_g(10.), 20)], 20., 'remove', 16),
    ([(_s(1., .01), 500), (_g(10.), 20)], 2., 'add', 16), ([(_s(.5, .2), 100)], 200., 'remove', 16),
]
# fmt: on


def _compute(case):
    steps, eps, direction, *digits = case
    start = time.time()
    try:
        if not digits:
            lo, hi, route = reference(steps, eps, direction)
            v, n = (lo + hi) / 2, 28
            with mp.workdps(50):
                v = (lo + hi) / 2
            v = {
                'gaussian': lambda: v,
                'one_step': lambda: one_step(steps[0][0], eps, direction),
                'finite': lambda: finite(steps, eps, direction),
            }[route]()
        else:
            v, err = contour_mp(steps, eps, direction, digits[0], 240)
            route, n = (
                'contour_mp',
                min(digits[0], int(-mp.log10(max(10 * err / abs(v), mpf(10) ** -40)))) if v else 0,
            )
    except (NotImplementedError, ArithmeticError, ValueError) as ex:
        return dict(steps=steps, eps=eps, direction=direction, error=repr(ex)), time.time() - start
    if n < 6:
        return dict(
            steps=steps, eps=eps, direction=direction, error=f'{n} digits only'
        ), time.time() - start
    return dict(
        steps=steps,
        eps=eps,
        direction=direction,
        value=mp.nstr(v, n, min_fixed=0, max_fixed=0),
        digits=n,
        route=route,
    ), time.time() - start


def solve_eps(steps, delta, direction, guess, digits=16):
    "eps with delta(eps) = delta, secant on log delta over contour_mp (a few evaluations)."
    f = lambda e: float(mp.log(contour_mp(steps, e, direction, digits)[0] / mpf(delta)))
    x, y = guess, guess * 1.0001
    fx, fy = f(x), f(y)
    for _ in range(8):
        if fy == fx or abs(y - x) < 1e-14 * abs(y):
            break
        x, fx, y = y, fy, y - fy * (y - x) / (fy - fx)
        fy = f(y)
    return y


GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'golden.json')


def regenerate(path=GOLDEN, workers=2):
    "Compute every golden value; written after each one, since some take minutes."
    from multiprocessing import Pool

    out = []
    with Pool(workers) as pool:
        for row, sec in pool.imap_unordered(_compute, CLOSED + CONTOUR, chunksize=1):
            print(row, f'{sec:.1f} s', flush=True)
            if 'value' in row:
                out.append(row)
            _write(path, out)
    run = [(_s(9.4, 2**14 / 50000), 2000)]  # De et al. 2022: eps at delta = 1e-5
    for direction in ('remove', 'add'):
        e = solve_eps(run, 1e-5, direction, 7.42438)
        row, _ = _compute((run, e, direction, 16))
        out.append(row | dict(note='eps solves delta(eps) = 1e-5'))
        _write(path, out)


def _write(path, rows):
    rows = sorted(
        rows, key=lambda r: (r['route'], json.dumps(r['steps']), r['eps'], r['direction'])
    )
    with open(path, 'w', encoding="utf-8") as f:
        f.write('[\n' + ',\n'.join(json.dumps(r) for r in rows) + '\n]\n')


if __name__ == '__main__':
    regenerate()
