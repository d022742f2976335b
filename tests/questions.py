"""Random questions to the accountant, and what an answer has to stand.

A question is a run, a direction, a delta, and where eps is to be: it is drawn from a seed, a family
and a number alone. Two are asked of each: the eps of the delta, and the delta of an eps near it.

| reference | for | method |
|---|---|---|
| `exact` | finite pairs, few classes | `oracles.finite` |
| `closed` | one step with density | closed form, in doubles |
| `quadrature` | two or three steps with density, finite pairs beside them | nested, in doubles |
| `cells` | three steps, of noise of one's own and others | the same on cells that stay |
| `bins` | an epoch of three batches, finite pairs beside it | two by quadrature, one closed |
| `instance` | batches of fixed size, a record replaced | the same of one pair, so from below |
| none | all others | bounds that must not contradict each other |

No reference asks the library. `python tests/questions.py --questions 6000` prints a table.
"""
import argparse
import json
import math
import os
import signal
import time
import warnings
from collections import Counter
from typing import NamedTuple

import mpmath as mp
import numpy as np
from mpmath import mpf
from scipy.special import erfcx, expit, gammaln, log_expit, log_ndtr, ndtr, stdtr

import oracles
from certify import mechanism
from dp_saddle import (
    AdditiveNoise,
    BallsInBins,
    Composition,
    ContourAccountant,
    Gaussian,
    PoissonSubsampled,
    TiltedFFT,
    fixed_size,
)

CHOSEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'questions.json')
OF_ALL_KINDS = 'own', 'triples', 'bins', 'replaced', 'ends'
FAMILIES = 'sampled-few', 'sampled', 'laplace', 'finite', 'mixed', 'hetero', *OF_ALL_KINDS
WIDE = 1e-6         # relative in delta, absolute in eps: wider must be rare, and carry a warning
SLOW = 2.           # seconds of CPU
SMALLEST = 1e-307   # a delta below it needs no warning
QUADRATURE = 1e-11  # what a quadrature may be off by, relative
BY_CDFS = 1e-8      # where curves are differences of distribution functions, or two integrals
EXACT = 1e-30       # what an exact sum may be off by, relative
ULPS = 4            # of losses and eps, in a reference computed in doubles

# ---------------- the questions

class Question(NamedTuple):
    family: str
    steps: tuple      # (description as in `oracles`, count) pairs
    direction: str    # 'remove' or 'add'
    delta: float      # of which eps is asked
    part: float       # delta is then asked at this part of that eps; at 0 where it is 0

def _between(rng, low, high): return float(np.exp(rng.uniform(np.log(low), np.log(high))))

def _count(rng, most):
    "1 to `most`: one, two or three half of the time."
    return int(rng.integers(1, 4)) if rng.random() < .5 else int(_between(rng, 1, most + 1))

def _sampled(rng, rates, sigmas=(.4, 25)):
    return 'sub', ('gaussian', _between(rng, *sigmas)), _between(rng, *rates)

def _probabilities(rng, size):
    "A vector of probabilities, some tiny."
    p = rng.dirichlet(np.ones(size))
    if rng.random() < .5: p[:-1] *= [_between(rng, 1e-300, 1) for _ in p[:-1]]
    p[-1] = 1 - p[:-1].sum()
    return tuple(float(x) for x in p)

def _finite(rng):
    kind = rng.integers(4)
    if kind == 0: return 'rr', _between(rng, 1e-4, 30)
    if kind == 1: return 'sub', ('rr', _between(rng, .01, 20)), _between(rng, 1e-9, .9)
    if kind == 2: return 'approx', _between(rng, 1e-3, 5), _between(rng, 1e-300, .1)
    size = int(rng.integers(2, 5))
    return 'discrete', _probabilities(rng, size), _probabilities(rng, size)

def _laplace(rng):
    base = 'laplace', _between(rng, .1, 50)
    return base if rng.random() < .4 else ('sub', base, _between(rng, 1e-9, .9))

def _own(rng):
    "Noise of one's own: its scale, and how far it reaches."
    kind = rng.integers(3)
    if kind == 0: return 'student', float(rng.choice([2., 3., 5., 30.])), _between(rng, .3, 20)
    if kind == 1: return 'truncated', _between(rng, .7, 6), _between(rng, .8, 20)
    return 'logistic', _between(rng, .2, 20)

def _sometimes_sampled(rng, m):
    return m if rng.random() < .5 else ('sub', m, _between(rng, .01, .9))

def _any(rng):
    "A step with density, of any kind."
    kind = rng.integers(4)
    if kind == 0: return 'gaussian', _between(rng, .5, 20)
    if kind == 1: return _sampled(rng, (1e-3, .9), (.5, 20))
    return _laplace(rng) if kind == 2 else _sometimes_sampled(rng, _own(rng))

def _new_steps(rng, family):
    "Of what is neither Gaussian nor Laplace, and of triples."
    if family == 'own': return ((_sometimes_sampled(rng, _own(rng)), int(rng.integers(1, 4))),)
    if family == 'triples':
        return ((_sometimes_sampled(rng, _own(rng)), 1), *((_any(rng), 1) for _ in range(2)))
    if family == 'bins':
        beside = ((_finite(rng), int(rng.integers(1, 4))),) if rng.random() < .5 else ()
        return (*beside, (('bins', _between(rng, .5, 20), 3), 1))
    if family == 'replaced':
        size = int(rng.integers(2, 1000))
        step = 'replaced', _between(rng, .5, 20), int(rng.integers(1, size)), size
        return ((step, int(rng.integers(1, 4))),)
    return ((('sub', ('laplace', _between(rng, .1, 20)), _between(rng, 1e-6, .9)),
             int(rng.integers(1, 3))),)

def _steps(rng, family):
    if family == 'sampled-few': return ((_sampled(rng, (1e-9, 1e-2)), _count(rng, 100)),)
    if family == 'sampled': return ((_sampled(rng, (1e-6, .9)), int(_between(rng, 1, 1e6))),)
    if family == 'laplace': return ((_laplace(rng), _count(rng, 1e4)),)
    if family == 'finite':
        return tuple((_finite(rng), _count(rng, 30)) for _ in range(rng.integers(1, 4)))
    if family in OF_ALL_KINDS: return _new_steps(rng, family)
    if family == 'mixed':
        gaussian = ('gaussian', _between(rng, .5, 50)), _count(rng, 100)
        sampled = _sampled(rng, (1e-9, .5)), _count(rng, 1000)
        continuous = [(gaussian,), (sampled,), (gaussian, sampled)][rng.integers(3)]
        return ((_finite(rng), _count(rng, 10)), *continuous)
    kinds = rng.integers(2, 4)
    return tuple((_sampled(rng, (1e-9, .5), (.3, 30)), _count(rng, 100)) for _ in range(kinds))

def question(family, number, seed=0, light=False):
    "The Question of a family with this number; `light`: no delta below 1e-12 that costs seconds."
    rng = np.random.default_rng([seed, FAMILIES.index(family), number])
    deep = rng.random() < .4 and (family == 'finite' or not light)
    delta = _between(rng, 1e-300, 1e-1) if deep else _between(rng, 1e-12, 1e-1)
    part = 0. if rng.random() < .05 else float(rng.uniform(.3, 1.3))
    direction = str(rng.choice(['remove', 'add']))
    steps = _steps(rng, family)
    if family in OF_ALL_KINDS and family != 'ends': delta = _between(rng, 1e-9, 1e-1)
    if family == 'ends':              # next to the largest loss, from both sides
        (step, n), = steps
        delta = _mass_at_the_end(step, direction)**n*_between(rng, 1e-13, .1)
        part = 1 + float(rng.choice([-1, 1]))*_between(rng, 1e-16, 1e-3)
    return Question(family, steps, direction, delta, part)

def _mass_at_the_end(step, direction):
    _, (_, scale), rate = step
    return .5 if direction == 'add' else ((1 - rate)*math.exp(-1/scale) + rate)/2

def questions(count, seed=0, first=0, families=FAMILIES, light=False):
    "So many questions, the families in turn."
    for i in range(first, first + count):
        yield question(families[i % len(families)], i//len(families), seed, light)

# ---------------- mechanisms

def _student(x, nu):
    front = gammaln((nu + 1)/2) - gammaln(nu/2) - math.log(nu*math.pi)/2
    return front - (nu + 1)/2*np.log1p(x*x/nu)

def _truncated(x, end):
    mass = math.log(2*math.pi)/2 + math.log(1 - 2*ndtr(-end))
    return np.where(np.abs(x) <= end, -np.square(x)/2 - mass, -np.inf)

def _logistic(x): return -np.abs(x) + 2*log_expit(np.abs(x))

class Density(NamedTuple):
    "log of the density of a kind of noise, at a 1-d array."
    kind: str
    shape: tuple = ()
    def __call__(self, x):
        named = {'student': _student, 'truncated': _truncated, 'logistic': _logistic}
        return named[self.kind](np.asarray(x, float), *self.shape)

def _mechanism(m):
    "The library's mechanism for a description, here or in `oracles`."
    name, *a = m
    if name == 'sub' and m[1][0] in OWN:
        return PoissonSubsampled(base=_mechanism(m[1]), rate=m[2])
    if name == 'bins': return BallsInBins(Gaussian(sigma=a[0]), batches=a[1])
    if name == 'replaced':
        return fixed_size(sigma=a[0], batch_size=a[1], dataset_size=a[2], relation='replace-one')
    if name not in OWN: return mechanism(m)
    *shape, scale = a
    given = {'student': lambda: dict(inflections=(-math.sqrt(*shape), math.sqrt(*shape))),
             'truncated': lambda: dict(log_concave=True, support=(-shape[0], shape[0])),
             'logistic': lambda: dict(log_concave=True, slope=1.)}[name]()
    return AdditiveNoise(log_density=Density(name, tuple(shape)), sensitivity=1/scale, even=True,
                         **given)

OWN = 'student', 'truncated', 'logistic'

def make(steps): return Composition(tuple((_mechanism(m), n) for m, n in steps))

# ---------------- one step with density, in closed form

def _log_minus_expm1(x):
    "log(1 - e^x) for x <= 0."
    with np.errstate(divide='ignore'): return np.log(-np.expm1(np.minimum(x, 0)))

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_TOWARDS = 4.**-np.arange(25)

class Step(NamedTuple):
    "A Gaussian or Laplace step in one direction."
    kind: str         # 'gaussian' or 'laplace'
    mu: float         # sensitivity over scale
    rate: float       # in (0, 1]
    remove: bool

    def log_base(self, tau):
        "log delta of the base mechanism at any real tau."
        if self.kind == 'laplace':
            inside = _log_minus_expm1((tau - self.mu)/2)
            return np.where(tau < -self.mu, _log_minus_expm1(tau), inside)
        a, b = tau/self.mu - self.mu/2, tau/self.mu + self.mu/2
        near = a > -3
        with np.errstate(all='ignore'):
            c = np.where(near, a, 0)
            mills = erfcx(c/math.sqrt(2)) - erfcx((c + self.mu)/math.sqrt(2))
            tail = np.log(mills/2) - c*c/2
            plain = np.log(ndtr(-a) - np.exp(np.where(near, 0, tau) + log_ndtr(-b)))
            return np.where(near, tail, np.where(np.isneginf(tau), 0., plain))

    def tau(self, eps):
        "The base loss at which dP = e^eps dQ; -inf or inf beyond the support."
        if self.rate == 1: return eps if self.remove else -eps
        with np.errstate(all='ignore'):
            change = np.expm1(eps if self.remove else -eps)/self.rate
            large = np.isinf(change)
            return np.where(large, (eps if self.remove else -eps) - math.log(self.rate),
                            np.log1p(np.maximum(change, -1)))

    def log_delta(self, eps):
        "log delta at any real eps, an array."
        tau = self.tau(eps)
        with np.errstate(all='ignore'):
            if self.remove:
                got = math.log(self.rate) + self.log_base(tau)
                return np.where(np.isneginf(tau), _log_minus_expm1(eps), got)
            got = eps + math.log(self.rate) + tau + self.log_base(-tau)
            return np.where(np.isneginf(tau), -np.inf, got)

    def ends(self):
        "Losses at which the curve is not analytic."
        taus = [-self.mu, self.mu] if self.kind == 'laplace' else []
        losses = [math.log1p(self.rate*math.expm1(tau)) for tau in taus]
        if self.rate < 1: losses.append(math.log1p(-self.rate))
        return losses if self.remove else [-x for x in losses]

    def least(self):
        "The infimum of the loss."
        if self.kind == 'laplace': return min(x for x in self.ends() if self._has(x))
        if self.remove: return math.log1p(-self.rate) if self.rate < 1 else -math.inf
        return -math.inf

    def _has(self, x):
        return self.rate == 1 or x != (1 if self.remove else -1)*math.log1p(-self.rate)

    def outcome(self, y):
        "(loss, log density), the outcome in units of the scale."
        if self.kind == 'laplace':
            inside = np.where(y < self.mu, 2*y - self.mu, self.mu)       # |y| - |y - mu|, exactly
            base, log_density = np.where(y > 0, inside, -self.mu), -np.abs(y) - math.log(2)
        else:
            base = self.mu*y - self.mu**2/2
            log_density = -y*y/2 - math.log(2*math.pi)/2
        if self.rate == 1: mixed = base
        else:
            with np.errstate(over='ignore'):
                mixed = np.where(base > 30, np.logaddexp(math.log1p(-self.rate),
                                                         math.log(self.rate) + base),
                                 np.log1p(self.rate*np.expm1(np.minimum(base, 30))))
        return (mixed, log_density + mixed) if self.remove else (-mixed, log_density)

    def places(self, losses):
        "Outcomes at which the loss has these values, where there are such."
        v = np.array(losses)*(1 if self.remove else -1)
        with np.errstate(all='ignore'):
            l = np.log1p(np.expm1(v)/self.rate)
            l = np.where(v > 30, v - math.log(self.rate), l)
        l = l[np.isfinite(l)]
        if self.kind == 'laplace':
            y = (l[np.abs(l) < self.mu] + self.mu)/2
            return np.r_[0., self.mu, y]
        return l/self.mu + self.mu/2

    def grid(self):
        "Where to begin with cells."
        reach, width = (780., 10.) if self.kind == 'laplace' else (40., 1.)
        return np.r_[np.arange(-reach, self.mu + reach, width), self.mu + reach]

class OwnStep(Step):
    "The same of noise of one's own; `kind` is a Density."
    __slots__ = ()

    def log_base(self, tau):
        tau = np.asarray(tau, float)
        with np.errstate(all='ignore'):
            gap = getattr(self, f'gap_{self.kind.kind}')(np.where(np.isneginf(tau), 0, tau))
            return np.where(np.isneginf(tau), 0., np.log(np.maximum(gap, 0)))

    def roots(self, tau):
        "Where the base loss of Student's noise is tau, the smaller one first; tau is not 0."
        nu, s = self.kind.shape[0], self.mu
        A = np.exp(2*tau/(nu + 1))
        a, b, c = 1 - A, 2*A*s, nu - A*nu - A*s*s
        root = np.sqrt(b*b - 4*a*c)
        big = -(b + root)/2
        return np.sort([big/a, c/big], axis=0)

    def gap_student(self, tau):
        nu, s = self.kind.shape[0], self.mu
        tau = np.where(tau == 0, 1e-300, tau)
        low, high = self.roots(np.where(np.abs(tau) < 1e-12, 1e-12, tau))
        high = np.where(np.abs(tau) < 1e-12, np.inf, high)
        low = np.where(np.abs(tau) < 1e-12, s/2, low)
        def between(a, b):
            right = a + b > 0
            a, b = np.where(right, -b, a), np.where(right, -a, b)
            return stdtr(nu, b) - stdtr(nu, a)
        inside = between(low - s, high - s) - np.exp(tau)*between(low, high)
        outside = (stdtr(nu, low - s) + stdtr(nu, s - high)
                   - np.exp(tau)*(stdtr(nu, low) + stdtr(nu, -high)))
        far = np.abs(tau) >= self.top()
        inside = np.where(far, 0, inside)
        return np.where(tau > 0, inside, np.where(far, -np.expm1(tau), outside))

    def gap_truncated(self, tau):
        (end,), s = self.kind.shape, self.mu
        mass = 1 - 2*ndtr(-end)
        def above(x): return np.where(x >= end, 0, ndtr(-np.maximum(x, -end)) - ndtr(-end))/mass
        x = np.clip(tau/s + s/2, s - end, end)      # losses beyond are infinite
        return above(x - s) - np.exp(np.minimum(tau, 700))*above(x)

    def gap_logistic(self, tau):
        s = self.mu
        u = self.place_of(np.clip(tau, -s, s))
        inside = expit(s - u) - np.exp(np.minimum(tau, 700))*expit(-u)
        return np.where(tau >= s, 0, np.where(tau <= -s, -np.expm1(tau), inside))

    def place_of(self, tau):
        "Where the base loss of logistic noise is tau, in (-mu, mu)."
        s = self.mu
        return (np.log(np.expm1((s + tau)/2)) - np.log(-np.expm1((tau - s)/2))) + 0.

    def top(self):
        "The largest finite base loss."
        s = self.mu
        if self.kind.kind == 'logistic': return s
        if self.kind.kind == 'truncated': return max(s*self.kind.shape[0] - s*s/2, 0.)
        nu = self.kind.shape[0]
        x = s/2 + math.hypot(s/2, math.sqrt(nu))
        return (nu + 1)/2*(math.log1p(x*x/nu) - math.log1p((x - s)**2/nu))

    def ends(self):
        losses = [math.log1p(self.rate*math.expm1(tau)) for tau in (-self.top(), self.top())]
        if self.rate < 1: losses.append(math.log1p(-self.rate))
        return losses if self.remove else [-x for x in losses]

    def least(self):
        if self.kind.kind == 'truncated': return -math.inf
        return min(math.log1p(self.rate*math.expm1(t))*(1 if self.remove else -1)
                   for t in (-self.top(), self.top()))

    def outcome(self, y):
        f, moved = self.kind(y), self.kind(y - self.mu)
        with np.errstate(all='ignore'):
            mixed = np.logaddexp(math.log1p(-self.rate) + f if self.rate < 1 else -np.inf,
                                 math.log(self.rate) + moved)
            loss = np.where(np.isneginf(mixed), -np.inf, mixed - f)
            loss = np.where(np.isneginf(f), np.inf, loss)
        return (loss, mixed) if self.remove else (-loss, f)

    def places(self, losses):
        v = np.array(losses, float)*(1 if self.remove else -1)
        with np.errstate(all='ignore'): l = np.log1p(np.expm1(v)/self.rate)
        l = l[np.isfinite(l) & (np.abs(l) < self.top()) & (l != 0)]
        with np.errstate(all='ignore'):
            if self.kind.kind == 'student': y = self.roots(l).ravel()
            elif self.kind.kind == 'logistic': y = self.place_of(l)
            else: y = l/self.mu + self.mu/2
        return np.r_[self.corners(), y[np.isfinite(y)]]

    def corners(self):
        if self.kind.kind == 'truncated':
            end = self.kind.shape[0]
            return np.r_[-end, end, self.mu - end, self.mu + end]
        return np.r_[0., self.mu]

    def grid(self):
        if self.kind.kind == 'student':
            half = np.r_[0., np.geomspace(.1, 1e12, 60)]
            return np.unique(np.r_[-half, half, self.mu + half])
        if self.kind.kind == 'logistic': return np.arange(-800., self.mu + 800, 5)
        corners = np.sort(self.corners())
        return np.r_[corners[0] - 1e-9, np.linspace(corners[0], corners[-1], 41)]

class Replaced(NamedTuple):
    "One record of a batch of fixed size, 1 or -1, and all others 0: rate and sigma."
    mu: float
    rate: float
    kind = 'replaced'

    def mixtures(self, y):
        with np.errstate(all='ignore'):
            none = math.log1p(-self.rate) - y*y/2 - math.log(2*math.pi)/2
            return [np.logaddexp(none, math.log(self.rate) - (y - m)**2/2 - math.log(2*math.pi)/2)
                    for m in (self.mu, -self.mu)]

    def place_of(self, eps):
        "Where the loss is eps: it grows, slowly near 0, by 2 mu at most."
        low, high = (np.full(np.shape(eps), side*(60. + 60*self.mu)) for side in (-1, 1))
        for _ in range(70):
            middle = (low + high)/2
            top, under = self.mixtures(middle)
            less = top - under < eps
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        return high

    def log_delta(self, eps):
        eps = np.asarray(eps, float)
        with np.errstate(all='ignore'):
            x, q = self.place_of(eps), self.rate
            gap = ((1 - q)*-np.expm1(eps)*ndtr(-x) + q*(ndtr(self.mu - x)
                   - np.exp(eps)*ndtr(-x - self.mu)))
            return np.where(np.isneginf(eps), 0., np.log(np.maximum(gap, 0)))

    def ends(self): return [0.]
    def least(self): return -math.inf
    def outcome(self, y):
        top, under = self.mixtures(y)
        return top - under, top
    def places(self, losses): return np.r_[0., self.place_of(np.array(losses, float))]
    def grid(self): return np.arange(-40., self.mu + 40, 1)

class Bins(NamedTuple):
    "An epoch of three batches; its curve alone."
    sigma: float
    remove: bool
    kind, rate = 'bins', 1.

    def log_delta(self, eps):
        eps = np.asarray(eps, float)
        with np.errstate(all='ignore'):
            return np.log([max(self.delta(e), 0.) for e in eps.ravel()]).reshape(eps.shape)

    def delta(self, eps):
        "E (w - e^eps)_+ of w, the mean of three e^{z/sigma - 1/(2 sigma^2)}; or E (1 - e^eps w)_+."
        s, w = 1/self.sigma, np.exp
        strike = w(eps if self.remove else -eps)
        if not 0 < strike < math.inf: return float(-np.expm1(eps))
        kink = math.log(3*strike)/s + s/2                  # of one batch alone
        cuts = np.unique(np.clip(np.r_[np.arange(-38., 39.), kink, kink - _TOWARDS],
                                 -38, 38 + s))
        z, weight = _panels(cuts)
        a = w(s*z - s*s/2)
        total = 0.
        for x, v in zip(a, weight, strict=True):
            rest = 3*strike - x
            edge = math.log(rest)/s + s/2 if rest > 0 else -38.
            y, u = _panels(np.unique(np.clip(np.r_[np.arange(-38., 39., 2.), edge,
                                                   edge - _TOWARDS], -38, 38 + s)))
            total += v*(u*_option(rest - w(s*y - s*s/2), s, self.remove)).sum()
        return total/3*(1 if self.remove else w(eps))

def _panels(cuts):
    "Nodes and weights under the standard normal density."
    half = np.diff(cuts)/2
    z = ((cuts[:-1] + half)[:, None] + half[:, None]*_NODES).ravel()
    return z, (half[:, None]*_WEIGHTS).ravel()*np.exp(-z*z/2)/math.sqrt(2*math.pi)

def _option(strike, s, call):
    "E (e^{s z - s^2/2} - strike)_+, or of its negative: (strike - ...)_+."
    with np.errstate(all='ignore'):
        d = np.where(strike > 0, -np.log(np.maximum(strike, 1e-300))/s + s/2, np.inf)
        if call: return np.where(strike > 0, ndtr(d) - strike*ndtr(d - s), 1 - strike)
        return np.where(strike > 0, strike*ndtr(s - d) - ndtr(-d), 0.)

# ---------------- nested quadrature

class Unknown(Exception):
    "There is no reference for this question."

def log_integral(f, cuts, rtol):
    "log of the integral of e^f between the first and the last cut, adaptively."
    a, b = cuts[:-1], cuts[1:]
    a, b = a[b > a], b[b > a]
    def panels(a, b):
        y = (a + b)[:, None]/2 + (b - a)[:, None]/2*_NODES
        return f(y.ravel()).reshape(y.shape)
    first = panels(a, b)
    top = first.max()
    if top == -np.inf: return -np.inf
    keep = first.max(1) > top - 60
    keep = keep | np.r_[keep[1:], False] | np.r_[False, keep[:-1]]
    a, b = a[keep], b[keep]
    def sums(a, b): return (np.exp(panels(a, b) - top)*_WEIGHTS).sum(1)*(b - a)/2
    value, done = sums(a, b), 0.
    for _ in range(60):
        m = (a + b)/2
        left, right = sums(a, m), sums(m, b)
        total = done + (left + right).sum()
        off = np.abs(left + right - value)
        bad = (off > rtol*total/50) & (off > 8*rtol*np.abs(value))
        bad &= (m > a) & (b > m) & (b - a > 4e-16*np.maximum(np.abs(a), np.abs(b)))
        done += (left + right)[~bad].sum()
        if not bad.any(): break
        if bad.sum() > 20000: raise Unknown
        a, b = np.r_[a[bad], m[bad]], np.r_[m[bad], b[bad]]
        value = np.r_[left[bad], right[bad]]
    else: raise Unknown
    if not done < math.inf: raise Unknown
    return top + math.log(done) if done > 0 else -math.inf

def log_delta_of(steps, eps, rtol=1e-13):
    "log delta of the composition of a few Steps, at an array of any reals."
    eps = np.asarray(eps, float)
    if not steps: return _log_minus_expm1(eps)
    if len(steps) == 1:                             # of an infinite loss nothing is left
        with np.errstate(all='ignore'):
            return np.where(np.isneginf(eps), 0., steps[0].log_delta(eps))
    return np.array([_log_delta_at(steps, e, rtol) for e in eps.ravel()]).reshape(eps.shape)

def _log_delta_at(steps, eps, rtol):
    first, rest = steps[0], steps[1:]
    if eps <= sum(s.least() for s in steps): return float(_log_minus_expm1(eps))
    ends = [0.]
    for s in rest: ends = [x + y for x in ends for y in s.ends()] or ends
    grid = first.grid()
    bends = first.places([eps - x for x in ends])     # narrow peaks may be next to them
    near = np.add.outer(bends, np.r_[-_TOWARDS, 0., _TOWARDS]).ravel()
    cuts = np.unique(np.clip(np.r_[grid, near], grid[0], grid[-1]))
    def f(y):
        loss, log_density = first.outcome(y)
        with np.errstate(invalid='ignore'):
            v = log_density + log_delta_of(rest, eps - loss, rtol/10)
        return np.where(np.isnan(v), -np.inf, v)
    return log_integral(f, cuts, rtol)

def log_delta_on_grids(steps, eps, order):
    "The same of a triple, by Gauss's rule of this order on cells that stay, down to about 1e-15."
    losses, logs = np.zeros(1), np.zeros(1)
    nodes, weights = np.polynomial.legendre.leggauss(order)
    for s in steps[:-1]:
        near = np.add.outer(s.places([]), np.r_[-_TOWARDS[:8], 0., _TOWARDS[:8]]).ravel()
        grid = s.grid()
        cuts = np.unique(np.clip(np.r_[grid, near], grid[0], grid[-1]))
        half = np.diff(cuts)[:, None]/2
        loss, log_density = s.outcome(((cuts[:-1, None] + half) + half*nodes).ravel())
        logw = log_density + np.log(half*weights).ravel()
        some = logw > -46
        losses = np.add.outer(losses, loss[some]).ravel()
        logs = np.add.outer(logs, logw[some]).ravel()
        losses, logs = losses[logs > -46], logs[logs > -46]
    with np.errstate(all='ignore'):
        terms = logs + log_delta_of(steps[-1:], eps - losses)
    return float(np.logaddexp.reduce(terms))

# ---------------- references

def _law(finite, direction, most):
    "The law of the finite steps: (log P-mass, loss) pairs, and the mass at infinity."
    law, p_inf = [(mpf(1), mpf(1))], mpf(0)
    for m, n in finite:
        try: power = oracles.power(oracles.directed(m, direction), n)
        except NotImplementedError: raise Unknown from None
        if len(law)*len(power) > most: raise Unknown
        law = [(a*c, b*d) for a, b in law for c, d in power]
    p_inf = mp.fsum(a for a, b in law if b == 0)
    return [(float(mp.log(a)), float(mp.log(a/b))) for a, b in law if a > 0 and b > 0], p_inf

def _step(m, remove):
    "The step with density of this description."
    if m[0] == 'bins': return Bins(m[1], remove)
    if m[0] == 'replaced': return Replaced(1/m[1], m[2]/m[3])
    base, rate = (m[1], m[2]) if m[0] == 'sub' else (m, 1.)
    if base[0] not in OWN: return Step(base[0], 1/base[1], rate, remove)
    return OwnStep(Density(base[0], base[1:-1]), 1/base[-1], rate, remove)

class Reference:
    "Bounds on delta at any eps: `bounds(eps)`, as mpf; Unknown where there are none."
    def __init__(self, steps, direction, nested=2, classes=2000):
        self.steps, self.direction = steps, direction
        finite = [(m, n) for m, n in steps if oracles.finite_pair(m) is not None]
        rest = [(m, n) for m, n in steps if oracles.finite_pair(m) is None]
        self.tiny = any(min(x for p in oracles.finite_pair(m) for x in p if x) < 1e-15
                        for m, _ in finite)
        if not rest:
            sizes = [math.comb(n + len(oracles.finite_pair(m)[0]) - 1, n) for m, n in finite]
            if math.prod(sizes) > 20*classes or max(sizes) > 5*classes: raise Unknown
            self.name = 'exact'
            return
        plain = [m for m, _ in rest if m[0] == 'gaussian']
        mu = math.sqrt(sum(n/m[1]**2 for m, n in rest if m[0] == 'gaussian'))
        remove = direction == 'remove'
        kinds = {m[1][0] if m[0] == 'sub' else m[0] for m, _ in rest}
        self.rough = bool(kinds & {*OWN, 'bins', 'replaced'})
        most = max(nested, 3) if self.rough else nested
        self.continuous = [Step('gaussian', mu, 1., remove)] if plain else []
        for m, n in rest:
            if m[0] == 'gaussian': continue
            if len(self.continuous) + n > most: raise Unknown
            self.continuous += n*[_step(m, remove)]
        if 'bins' in kinds and len(self.continuous) > 1: raise Unknown
        self.continuous.sort(key=lambda s: s.rate)
        many = len(self.continuous)
        self.name = 'closed' if many == 1 and not finite else f'quadrature {many}'
        if self.rough and many > 2: self.name = 'cells'
        if 'bins' in kinds: self.name = 'bins'
        if 'replaced' in kinds: self.name = 'instance'
        with mp.workdps(60):
            self.law, self.p_inf = _law(finite, direction, classes if many == 1 else 30)
        losses = [abs(x) for _, x in self.law]
        self.size = max(losses)

    def bounds(self, eps):
        low, up = self._bounds(eps)
        return (low, mpf(1)) if self.name == 'instance' else (low, up)

    def _bounds(self, eps):
        if self.name == 'exact':
            with mp.workdps(700 if self.tiny else 60):
                v = oracles.finite(self.steps, eps, self.direction, 700 if self.tiny else 60)
                v = min(v, mpf(1))           # doubles may sum to a little more than 1
                return v*(1 - mpf(EXACT)), v*(1 + mpf(EXACT))
        moved = ULPS*2**-53*(self.size + abs(eps) + 1e-6)
        low, up = self._at(eps + moved, -1), self._at(max(eps - moved, 0), 1)
        up += max(moved - eps, 0)                     # a curve falls no steeper than eps grows
        off = QUADRATURE if len(self.continuous) < 3 else 10*QUADRATURE
        if self.rough: off = BY_CDFS
        return low*(1 - mpf(off)), up*(1 + mpf(off))

    def _on_grids(self, eps, side):
        "A triple, and what finer cells might change."
        steps = sorted(self.continuous, key=lambda s: s.kind == 'gaussian')   # smooth: the last
        total = mpf(0)
        for mass, loss in self.law:
            found = [math.exp(log_delta_on_grids(steps, eps - loss, order))
                     for order in (8, 13, 18)]
            off = 30*(max(found) - min(found) + 1e-15)
            total += mp.exp(mpf(mass))*max(mpf(found[-1]) + side*off, mpf(0))
        return self.p_inf + total

    def _at(self, eps, side):
        mass, loss = np.array(self.law).T
        if self.rough and len(self.continuous) > 2: return self._on_grids(eps, side)
        rtol = 1e-10 if self.rough else 1e-13 if len(self.continuous) < 3 else 1e-11
        logs = mass + log_delta_of(self.continuous, eps - loss, rtol)
        top = logs.max()
        if top == -np.inf: return self.p_inf
        if not top < np.inf: raise Unknown                   # a quadrature that doubles cannot do
        return self.p_inf + mp.exp(mpf(float(top)))*mpf(float(np.exp(logs - top).sum()))

# ---------------- asking

class Answer(NamedTuple):
    low: float
    up: float
    warned: tuple
    seconds: float

def ask(accountant, method, x):
    "One answer, with what it warned of and the CPU time it took."
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        got = getattr(accountant(), method)(x)
    seconds = time.process_time() - start
    said = tuple(str(w.message) for w in caught)
    return Answer(float(got.lower), float(got.upper), said, seconds)

class Record(NamedTuple):
    "What became of one answer."
    method: str       # 'epsilon' or 'delta'
    x: float          # what was asked
    answer: Answer
    missed: str       # what contradicts it; empty if nothing does
    width: float
    reference: str

    @property
    def wide(self): return self.width > WIDE
    @property
    def unsaid(self):
        return self.wide and not self.answer.warned
    @property
    def slow(self): return self.answer.seconds > SLOW

def _width(method, answer):
    low, up = answer.low, answer.up
    if low == up or method == 'delta' and up < SMALLEST: return 0.
    return up - low if method == 'epsilon' else (up - low)/up

def loss(q): return getattr(make(q.steps), q.direction)

def judged(q, nested=2, more=False):
    "Both answers to a question: (Records)."
    plrv = loss(q)
    accountant = lambda: ContourAccountant(plrv)
    kept = ContourAccountant(plrv)
    try: reference = Reference(q.steps, q.direction, nested)
    except Unknown: reference = None
    name = reference.name if reference else 'none'
    eps = ask(accountant, 'epsilon', q.delta)
    try: wrong = _eps_contradicted(q.delta, eps, reference, kept)
    except Unknown: wrong, name, reference = '', 'none', None
    yield Record('epsilon', q.delta, eps, wrong, _width('epsilon', eps), name)
    middle = min((eps.low + eps.up)/2, 1e3)
    x = q.part*middle if middle > 0 else q.part*1e-3
    delta = ask(accountant, 'delta', x)
    try: wrong = _delta_contradicted(x, delta, reference, plrv, q, more)
    except Unknown: wrong, name = '', 'none'
    yield Record('delta', x, delta, wrong, _width('delta', delta), name)

def _quiet(f, x):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return f(x)

def _eps_contradicted(delta, eps, reference, kept):
    if not 0 <= eps.low <= eps.up: return f'not in order: {eps}'
    if reference:
        if eps.low > 0 and not math.isinf(eps.low) and reference.bounds(eps.low)[1] < delta:
            return f'lower too large: delta there is {mp.nstr(reference.bounds(eps.low)[1], 17)}'
        if math.isinf(eps.low) and reference.bounds(1e6)[1] < delta: return 'not infinite'
        if not math.isinf(eps.up) and reference.bounds(eps.up)[0] > delta:
            return f'upper too small: delta there is {mp.nstr(reference.bounds(eps.up)[0], 17)}'
        return ''
    if eps.low > 0 and not math.isinf(eps.low) and _quiet(kept.delta, eps.low).upper < delta:
        return 'delta at the lower end is below'
    if not math.isinf(eps.up) and _quiet(kept.delta, eps.up).lower > delta:
        return 'delta at the upper end is above'
    return ''

def _delta_contradicted(eps, delta, reference, plrv, q, more):
    if not 0 <= delta.low <= delta.up <= 1: return f'not in order: {delta}'
    if reference:
        low, up = reference.bounds(eps)
        if up >= SMALLEST and (delta.low > up or delta.up < low):
            return f'truth {mp.nstr(low, 17)} to {mp.nstr(up, 17)}'
        if up < SMALLEST < delta.low: return f'truth {mp.nstr(low, 17)}'
    if not more: return ''
    for name, other in _routes(q, plrv):
        try: got = _quiet(other().delta, eps)
        except ValueError: continue
        if got.lower > delta.up or got.upper < delta.low: return f'{name} says {got}'
    return ''

def _routes(q, plrv):
    "Other ways to the same delta, (name, accountant)."
    yield 'coarser', lambda: ContourAccountant(plrv, rtol=1e-6, eps_resolution=1e-4)
    yield 'few nodes', lambda: ContourAccountant(plrv, max_nodes=2048)
    steps = tuple((m, k) for m, n in q.steps[::-1] for k in (n//2, n - n//2) if k)
    halved = tuple((('gaussian', m[1]*math.sqrt(2)), 2*k) if m[0] == 'gaussian' else (m, k)
                   for m, k in steps)
    yield 'halves', lambda: ContourAccountant(getattr(make(halved), q.direction))
    if all(n < 1e4 for _, n in q.steps): yield 'TiltedFFT', lambda: TiltedFFT(plrv)

def within(seconds, q, *how):
    "The Records of a question; TimeoutError after so much CPU time, where the system can tell."
    def stop(*_): raise TimeoutError
    if not hasattr(signal, 'setitimer'): return list(judged(q, *how))
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try: return list(judged(q, *how))
    finally: signal.setitimer(signal.ITIMER_PROF, 0)

def chosen(seconds=.15, finite=300, others=40, new=8):
    "Numbers of light questions, family by family, that cost no more."
    out, most = {}, {'finite': finite} | dict.fromkeys(OF_ALL_KINDS, new)
    for family in FAMILIES:
        out[family], number = [], 0
        while len(out[family]) < most.get(family, others):
            try:
                within(seconds, question(family, number, light=True))
                out[family].append(number)
            except TimeoutError: pass
            number += 1
    return out

# ---------------- the table

def told(q, record):
    "A question and its answer as text, to be asked again."
    a = record.answer
    return (f"{record.method}({record.x!r}) of {q.steps!r}, {q.direction!r}: [{a.low!r}, {a.up!r}]"
            f" ({record.reference}; {a.seconds:.2f} s{'; warned' if a.warned else ''})")

class Table:
    "What is counted, family by family."
    def __init__(self): self.counts, self.worst, self.slowest, self.lines = {}, {}, {}, []

    def add(self, q, r):
        c = self.counts.setdefault(q.family, Counter())
        c.update(dict(asked=1, referred=r.reference != 'none', missed=bool(r.missed), wide=r.wide,
                      unsaid=r.unsaid, slow=r.slow))
        for name in ('wide', 'unsaid', 'slow'):
            if getattr(r, name): self.lines.append(f'{name:7} {r.width:.1e} {told(q, r)}')
        if r.missed: self.lines.append(f'MISSED: {r.missed} | {told(q, r)}')
        if r.width >= self.worst.get(q.family, (-1,))[0]: self.worst[q.family] = r.width, told(q, r)
        if r.answer.seconds >= self.slowest.get(q.family, (-1,))[0]:
            self.slowest[q.family] = r.answer.seconds, told(q, r)

    def late(self, q, limit):
        "A question that was given up."
        c = self.counts.setdefault(q.family, Counter())
        c.update(dict(asked=1, slow=1))
        self.lines.append(f'STOPPED after {limit} s: {q!r}')

    def total(self, name): return sum(c[name] for c in self.counts.values())

    def __str__(self):
        columns = 'asked', 'referred', 'missed', 'wide', 'unsaid', 'slow'
        rows = ['family       ' + ''.join(f'{c:>9}' for c in columns) + '   widest  seconds']
        for family, c in self.counts.items():
            widest, slowest = (d.get(family, (0.,))[0] for d in (self.worst, self.slowest))
            rows.append(f'{family:13}' + ''.join(f'{c[n]:9}' for n in columns)
                        + f'{widest:9.1e}{slowest:9.2f}')
        return '\n'.join(rows)

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--questions', type=int, default=600)
    parser.add_argument('--first', type=int, default=0)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--nested', type=int, default=2)
    parser.add_argument('--choose', action='store_true', help='write questions.json again')
    parser.add_argument('--limit', type=float, default=20, help='seconds for one question')
    parser.add_argument('--seconds', type=float, default=math.inf, help='after which to stop')
    parser.add_argument('--light', action='store_true', help='without what costs seconds')
    parser.add_argument('--more', action='store_true', help='other routes too')
    parser.add_argument('--families', nargs='*', default=FAMILIES)
    given = parser.parse_args()
    if given.choose:
        with open(CHOSEN, 'w', encoding='utf-8') as file: json.dump(chosen(), file)
        return
    table, end = Table(), time.time() + given.seconds
    for q in questions(given.questions, given.seed, given.first, given.families,
                       given.light):
        if time.time() > end: break
        before = len(table.lines)
        try:
            for r in within(given.limit, q, given.nested, given.more): table.add(q, r)
        except TimeoutError: table.late(q, given.limit)
        except Exception as error:
            table.lines.append(f'ERROR: {error!r} | {q!r}')
        for line in table.lines[before:]: print(line, flush=True)
    print(table)

if __name__ == '__main__': main()
