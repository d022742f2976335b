"""The promises of a loss (conformance.py): all our losses keep them, a loss of one's own can,
and each check finds a mistake."""

from math import inf, pi

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr

import conformance
from dp_saddle import (
    ApproxDP,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    DiscreteLaplace,
    EdgeworthAccountant,
    FourierAccountant,
    Gaussian,
    Laplace,
    MomentsAccountant,
    PoissonSubsampled,
    PRVAccountant,
    RandomizedResponse,
    SaddlePointCLT,
    SaddlePointMSD,
    TiltedFFT,
)
from dp_saddle.losses.densities import DensityLoss, SubsampledGaussianLoss
from dp_saddle.losses.laplace import LaplaceLoss
from dp_saddle.losses.nodes import NodeLoss
from dp_saddle.plrv import PLRV, ComposedLoss, Decay, GaussianLoss, LineValues


def sampled(base, rate):
    return PoissonSubsampled(base=base, rate=rate)


PAIR = dict(p=(0.5, 0.3, 0.2, 0.0), q=(0.2, 0.3, 0.4, 0.1))
STEPS = {
    'Gaussian': Gaussian(sigma=1.4),
    'Gaussian, much noise': Gaussian(sigma=60.0),
    'sampled Gaussian': sampled(Gaussian(sigma=1.0), 0.1),
    'rarely sampled Gaussian': sampled(Gaussian(sigma=0.7), 1e-3),
    'often sampled Gaussian': sampled(Gaussian(sigma=5.0), 0.9),
    'Laplace': Laplace(scale=1.0),
    'Laplace, little noise': Laplace(scale=0.1),
    'sampled Laplace': sampled(Laplace(scale=1.0), 0.1),
    'randomised response': RandomizedResponse(eps=1.0),
    'sampled response': sampled(RandomizedResponse(eps=1.0), 0.2),
    'mass at infinity': ApproxDP(eps=0.5, delta=0.01),
    'finite pair': Discrete(**PAIR),
    'discrete Gaussian': DiscreteGaussian(sigma=2.0),
    'discrete Laplace': DiscreteLaplace(scale=3.0, sensitivity=2),
    'composition': 3 * Laplace(scale=2.0) + 100 * sampled(Gaussian(sigma=1.0), 0.05),
    'composition with mass': 3 * ApproxDP(eps=0.1, delta=1e-3) + 2 * Gaussian(sigma=1.0),
}


class LogisticLoss(DensityLoss):
    "The loss of logistic noise of scale 1 on a value that one record moves by d: losses/densities."

    loss_ulps = 8.0

    def __init__(self, d):
        super().__init__(height=pi / 4)
        self.d, self.ess_inf, self.ess_sup = d, -d, d

    @property
    def reverse(self):
        return self

    def loss(self, x):
        return 2 * np.log(np.cosh(x / 2) / np.cosh((x - self.d) / 2))

    def log_density(self, x):
        return -2 * np.log(2 * np.cosh((x - self.d) / 2))

    def ends(self, t):
        return -55.0 - self.d, 55.0 + 2 * self.d + np.log1p(max(t, 0.0))

    def cdf(self, x):
        inside = np.clip(x, -self.d, self.d)
        return np.expm1((inside + self.d) / 2) / np.expm1(self.d)

    def log_delta(self, eps):
        inside = np.clip(eps, -self.d, self.d)
        with np.errstate(divide='ignore'):
            below = np.log(-np.expm1(np.minimum(eps, -self.d)))
            root = np.log(-np.expm1((inside - self.d) / 2))
        curve = 2 * root - np.log(-np.expm1(-self.d))
        return np.where(eps < -self.d, below, curve)

    def exact(self, z):
        "K(z), for mpmath."
        return mp.log(mp.sinh((z + 0.5) * self.d) / ((2 * z + 1) * mp.sinh(mp.mpf(self.d) / 2)))


class NormalLoss(PLRV):
    "A Gaussian's loss, written from the protocol alone."

    def __init__(self, mu):
        self.mu = mu

    @property
    def reverse(self):
        return self

    def cgf(self, z):
        z = np.asarray(z)
        return (self.mu**2 * z * (z + 1) / 2)[()]

    def cumulants(self, t=0.0, order=2):
        t = np.asarray(t, float)
        rest = [0 * t] * order
        return np.array([self.mu**2 * (t + 0.5), self.mu**2 + 0 * t, *rest])[:order]

    def abs_moment(self, t=0.0, order=3):
        return GaussianLoss(self.mu).abs_moment(t, order)

    def cdf(self, x):
        return ndtr(np.asarray(x) / self.mu - self.mu / 2)

    def log_delta(self, eps):
        return GaussianLoss(self.mu).log_delta(eps)

    def line(self, t, s):
        change = self.mu**2 * (1j * s * (t + 0.5) - s * s / 2)
        return LineValues(self.cgf(t), 1e-15 * self.cgf(t), change, 1e-15 * np.abs(change))

    def decay(self, t, s):
        return Decay(-inf, self.cgf(t) - (self.mu * s) ** 2 / 2)


OWED = 'cgf cumulants reverse log_delta line decay cdf abs_moment'.split()


@pytest.mark.parametrize('first, accountant', [(5, MomentsAccountant), (6, ContourAccountant)])
def test_so_many_answers_are_enough(first, accountant):
    "The first rows of the table, and no other name, for what is said above it."
    kind = type('FewAnswers', (PLRV,), {name: vars(NormalLoss)[name] for name in OWED[:first]})
    loss = kind()
    loss.mu = 0.3
    found = accountant(ComposedLoss([(loss, 20)])).epsilon(1e-6)
    known = accountant(ComposedLoss([(NormalLoss(0.3), 20)])).epsilon(1e-6)
    assert found == known and 0 < found.upper < 10
    for name in OWED[first:]:
        with pytest.raises(AttributeError, match=f'FewAnswers must define `{name}`'):
            getattr(loss, name)


def test_what_is_missing_is_named_by_its_own_name():
    "Not by that of a form which is derived from it."
    class Nothing(PLRV):
        pass
    for name, args in (('cgf_on', (np.ones(2),)), ('real_cgf', (np.ones(2),))):
        with pytest.raises(AttributeError, match='must define `cgf`'):
            getattr(Nothing(), name)(*args)


CHECKED = pytest.mark.parametrize('promise', conformance.CHECKS, ids=lambda f: f.__name__)


@CHECKED
@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('step', STEPS)
def test_our_losses(step, direction, promise):
    promise(getattr(STEPS[step], direction))


@CHECKED
@pytest.mark.parametrize('d', [0.02, 0.5, 6.0])
def test_a_loss_of_your_own(d, promise):
    plrv = LogisticLoss(d)
    promise(plrv, exact=plrv.exact)


@CHECKED
def test_a_loss_from_the_protocol_alone(promise):
    promise(NormalLoss(0.8))


@pytest.mark.parametrize('steps', [1, 30])
def test_a_loss_of_your_own_meets_every_accountant(steps):
    "What is proved does not contradict what others prove; the rest is near."
    run = ComposedLoss([(LogisticLoss(0.5), steps)])
    eps = 0.25 if steps == 1 else 4.0
    low, _, high = ContourAccountant(run).delta(eps)
    assert 0 < low <= high <= low * (1 + 1e-8)
    for accountant in (MomentsAccountant, PRVAccountant, SaddlePointCLT, SaddlePointMSD, TiltedFFT):
        bounds = accountant(run).delta(eps)
        assert bounds.lower <= high and low <= bounds.upper, (accountant, bounds)
    if steps > 1:
        assert EdgeworthAccountant(run).delta(eps).estimate == pytest.approx(high, rel=0.3)
    with pytest.raises(ValueError, match='density'):
        FourierAccountant(run)


# ------------------------------------------------------------------------------- mistakes


def broken(base, **changes):
    "An object of a class that is `base`, but for some methods or attributes."
    cls, *settings = base
    attributes = {k: v for k, v in changes.items() if callable(v) or isinstance(v, property)}
    plrv = type('Broken', (cls,), attributes)(*settings)
    for name in changes.keys() - attributes.keys():
        setattr(plrv, name, changes[name])
    return plrv


GAUSS, SAMPLED = (GaussianLoss, 0.8), (SubsampledGaussianLoss, 1.0, 0.1, 'remove')
LAPLACE, LOGISTIC = (LaplaceLoss, 1.0, 1.0, 'remove'), (LogisticLoss, 0.5)


def times(cls, method, factor):
    "That method of the class, its answer multiplied."
    return lambda self, *question: factor * getattr(cls, method)(self, *question)


def line_with(cls, **changes):
    "The line of the class, with some of its values changed by functions."

    def line(self, t, s):
        values = cls.line(self, t, s)
        return values._replace(**{k: f(getattr(values, k)) for k, f in changes.items()})

    return line


def slow(self, t, s):
    log_atoms, log_density = SubsampledGaussianLoss.decay(self, t, s)
    return Decay(log_atoms, log_density - 0.1)


def fast(self, t, s):
    log_atoms, log_density = SubsampledGaussianLoss.decay(self, t, s)
    return Decay(log_atoms, log_density - 0.3 * s)


def growing(self, t, s):
    log_atoms, log_density = SubsampledGaussianLoss.decay(self, t, s)
    return Decay(log_atoms, np.maximum(log_density, log_density[0]) + 1e-3 * s)


def absurd(self, t, s):
    log_atoms, log_density = SubsampledGaussianLoss.decay(self, t, s)
    return Decay(log_atoms, log_density + 50)


def conjugate(self, z):
    z = np.asarray(z)
    upper = z.real + 1j * np.abs(z.imag) if np.iscomplexobj(z) else z
    return SubsampledGaussianLoss.cgf(self, upper)


def other_way(self, x):
    return 1 - LogisticLoss.cdf(self, x)


def lifted(self, eps):
    return np.logaddexp(LogisticLoss.log_delta(self, eps), np.log(1e-6))


def constant(value):
    return lambda self, *question: value


def with_rate(rate):
    return property(lambda self: SubsampledGaussianLoss(1.0, rate, 'add'))


MISTAKES = [
    ('check_masses', LAPLACE, dict(p_inf=1.5)),
    ('check_masses', LAPLACE, dict(p_inf=0.1)),
    ('check_masses', LAPLACE, dict(atoms=(np.zeros(1), np.array([0.1])))),
    ('check_masses', GAUSS, dict(cgf=lambda self, z: GaussianLoss.cgf(self, z) + 1e-9)),
    ('check_support', LOGISTIC, dict(ess_sup=0.4)),
    ('check_support', LOGISTIC, dict(ess_sup=0.7)),
    ('check_support', LOGISTIC, dict(ess_inf=-0.4)),
    ('check_support', LOGISTIC, dict(ess_inf=0.5, ess_sup=-0.5)),
    ('check_support', LAPLACE, dict(ess_sup=0.9)),
    ('check_support', LOGISTIC, dict(cdf=other_way)),
    ('check_support', LOGISTIC, dict(cdf=times(LogisticLoss, 'cdf', 1.01))),
    ('check_atoms', LAPLACE, dict(atoms=(np.array([-1.0, 1.0]), np.log([0.2, 0.5])))),
    ('check_symmetry', SAMPLED, dict(cgf=conjugate)),
    ('check_symmetry', GAUSS, dict(cgf=lambda self, z: np.ravel(GaussianLoss.cgf(self, z)))),
    ('check_unchecked_forms', SAMPLED, dict(real_cgf=lambda self, t: self.cgf(t) * (1 + 1e-9))),
    ('check_unchecked_forms', SAMPLED,
     dict(known_cgfs=times(SubsampledGaussianLoss, 'known_cgfs', 1 + 1e-9))),
    ('check_unchecked_forms', SAMPLED, dict(cgf_on=lambda self, z: GaussianLoss(1.0).cgf(z))),
    ('check_unchecked_forms', LAPLACE, dict(cumulants=times(LaplaceLoss, 'cumulants', 1.01))),
    ('check_transform', GAUSS, dict(cgf=times(GaussianLoss, 'cgf', 1 + 1e-6))),
    ('check_transform', LOGISTIC, dict(ends=constant((-5.0, 5.0)))),
    ('check_transform', SAMPLED, dict(density=times(SubsampledGaussianLoss, 'density', 1.001))),
    ('check_cumulants', LAPLACE, dict(cumulants=times(LaplaceLoss, 'cumulants', 1.0001))),
    ('check_cumulants', GAUSS, dict(cgf=times(GaussianLoss, 'cgf', 1.0001))),
    ('check_moments', LAPLACE, dict(abs_moment=times(LaplaceLoss, 'abs_moment', 1 + 1e-6))),
    ('check_moments', LOGISTIC, dict(split=lambda self, t, x: [])),
    ('check_reverse', SAMPLED, dict(reverse=with_rate(0.11))),
    ('check_reverse', SAMPLED, dict(reverse=property(lambda self: self))),
    ('check_reverse_curve', LOGISTIC, dict(reverse=property(lambda self: LogisticLoss(0.51)))),
    ('check_reverse_curve', LOGISTIC, dict(log_delta=lifted)),
    ('check_curve', LOGISTIC, dict(log_delta=lifted)),
    ('check_curve', LOGISTIC, dict(cdf=lambda self, x: LogisticLoss.cdf(self, x - 1e-3))),
    ('check_line', SAMPLED, dict(line=line_with(SubsampledGaussianLoss, K=lambda K: K + 1e-9))),
    ('check_line', LAPLACE, dict(line=line_with(LaplaceLoss, change=lambda D: D * (1 + 1e-9)))),
    ('check_line', GAUSS, dict(line=line_with(GaussianLoss, error=lambda e: -e))),
    ('check_line_errors', GAUSS, dict(line=line_with(GaussianLoss, error=lambda e: 0 * e))),
    ('check_line_errors', GAUSS, dict(line=line_with(GaussianLoss, log_error=lambda e: e / 1e3))),
    ('check_line_errors', GAUSS, dict(line=line_with(GaussianLoss, error=lambda e: e + 1e-3))),
    ('check_line_errors', GAUSS, dict(line=line_with(GaussianLoss, log_error=lambda e: e + 1e-3))),
    ('check_decay', SAMPLED, dict(decay=slow)),
    ('check_decay', SAMPLED, dict(decay=fast)),
    ('check_decay', SAMPLED, dict(decay=growing)),
    ('check_decay', SAMPLED, dict(decay=absurd)),
    ('check_sizes', SAMPLED, dict(nodes_at=constant(3e4))),
    ('check_sizes', GAUSS, dict(largest_tilt=property(constant(0.0)))),
    ('check_line', LOGISTIC, dict(known_cgf=lambda self, t: (0.3 * self.cgf(t), 0.0))),
    ('check_accountants', LOGISTIC, dict(line=line_with(LogisticLoss, K=lambda K: K + 0.5))),
]


MISTAKE_NAMES = [f'{i}-{name}' for i, (name, *_) in enumerate(MISTAKES)]


@pytest.mark.parametrize('name, base, changes', MISTAKES, ids=MISTAKE_NAMES)
def test_each_check_finds_mistakes(name, base, changes):
    one = getattr(conformance, name)
    one(broken(base))
    with pytest.raises(AssertionError):
        one(broken(base, **changes))


def test_every_check_has_a_mistake_to_find():
    assert {f.__name__ for f in conformance.CHECKS} == {name for name, *_ in MISTAKES}


def test_errors_are_judged_by_the_truth():
    "With K to 50 digits, an error that is understated by less than a rounding of `cgf` is found."
    plrv = LogisticLoss(0.5)
    conformance.check_line_errors(plrv, exact=plrv.exact)
    for part in ('error', 'log_error'):
        small = {part: lambda e: e / 1e3}
        with pytest.raises(AssertionError, match='off by'):
            changed = broken(LOGISTIC, line=line_with(LogisticLoss, **small))
            conformance.check_line_errors(changed, exact=plrv.exact)


def test_check_asks_all():
    conformance.check(LogisticLoss(0.5), steps=4, accountants=('ContourAccountant', 'TiltedFFT'))
    with pytest.raises(AssertionError, match='ess_sup'):
        conformance.check(broken(LOGISTIC, ess_sup=0.4))


# ------------------------------------------------------------------------------- what is missing


class Bare(NodeLoss):
    pass


class BareDensity(DensityLoss):
    def __init__(self):
        super().__init__(1.0)


@pytest.mark.parametrize(
    'plrv, question, name',
    [
        (Bare(), lambda p: p.cgf(1.0), 'path'),
        (Bare(), lambda p: p.largest_tilt, 'nodes_at'),
        (Bare(), lambda p: p.log_strip(1.0, 0.0, 1.0, 0.0), 'log_strip'),
        (Bare(), lambda p: p.split(np.zeros(1), np.zeros((1, 1))), 'split'),
        (BareDensity(), lambda p: p.cgf(1.0), 'ends'),
        (BareDensity(), lambda p: p.at(np.zeros(1), 1.0), 'loss'),
        (BareDensity(), lambda p: p.log_density(np.zeros(1)), 'log_density'),
    ],
)
def test_a_missing_method_is_named(plrv, question, name):
    with pytest.raises(NotImplementedError, match=rf'{type(plrv).__name__} must define {name}\('):
        question(plrv)


def test_a_path_on_the_wrong_side_is_refused():
    plrv = LogisticLoss(0.5)
    plrv.height = -plrv.height
    with pytest.raises(ValueError, match='height must have the other sign'):
        plrv.line(1.0, np.arange(4.0))


def test_a_mistake_in_the_middle_of_a_line_is_found():
    "Not only at its last frequency."
    plrv, s = GaussianLoss(0.5), np.linspace(0, 5, 9)
    def exact(z):
        return mp.mpf(0.5) ** 2 * z * (z + 1) / 2
    line = plrv.line(2.0, s)
    conformance.judge(exact, 2.0, s, line)
    change = line.change.copy()
    change[4] += 1e-9
    with pytest.raises(AssertionError, match='2.5i is off by 1e-09'):
        conformance.judge(exact, 2.0, s, line._replace(change=change))


class Mistaken(GaussianLoss):
    "Its curve cannot be asked for, by mistake."

    def log_delta(self, eps):
        raise ValueError('a mistake')


class Typo(GaussianLoss):
    "Another."

    def cdf(self, x):
        return self.missing


@pytest.mark.parametrize('loss, error', [(Mistaken, ValueError), (Typo, AttributeError)])
def test_a_method_that_fails_is_not_one_that_is_not_there(loss, error):
    "What a loss does not define is left out, and named; what it defines has to work."
    with pytest.raises(error, match='mistake|missing'):
        conformance.check(loss(0.5))
    assert conformance.check(GaussianLoss(0.5)) == []
