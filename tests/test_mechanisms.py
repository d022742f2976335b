"Mechanisms: their algebra, their values, bad input; and what all accountants share."
import copy
import math
import pickle
import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_saddle import (
    ApproxDP,
    Composition,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    delta,
    epsilon,
)
from dp_saddle.mechanisms import Accountant, FiniteMechanism, FinitePair, Mechanism
from dp_saddle.plrv import GaussianLoss
from dp_saddle.saddlepoint import TiltedAccountant

STEPS = [Gaussian(sigma=2.), Laplace(scale=3.), RandomizedResponse(eps=.2),
         PoissonSubsampled(Gaussian(sigma=1.), rate=.1), ApproxDP(eps=.1, delta=1e-6)]
steps, counts = st.sampled_from(STEPS), st.integers(0, 50)

@given(steps, counts, steps, counts)
def test_algebra(a, n, b, m):
    left, right = n*a + m*b, Composition(((a, n), (b, m)))
    assert left == right and a*n == n*a and 2*(n*a) == (2*n)*a and (n*a) + a == (n + 1)*a
    parts = n*a.remove.cgf(1.5) + m*b.remove.cgf(1.5)
    np.testing.assert_allclose(left.remove.cgf(1.5), parts, rtol=1e-12, atol=1e-15)

@given(steps, st.integers(1, 30), st.floats(0, 3), st.floats(0, 3))
def test_curves_fall_and_grow(a, n, x, y):
    "delta falls with eps and grows with the steps."
    x, y = sorted((x, y))
    one, more = (ContourAccountant(k*a).delta([x, y]) for k in (n, n + 3))
    assert one.upper[0] >= one.lower[1] and (more.upper >= one.lower).all()
    for b in (one, more):
        assert ((0 <= b.lower) & (b.lower <= b.estimate)).all()
        assert ((b.estimate <= b.upper) & (b.upper <= 1)).all()

def test_single_precision_parameters_are_not_single_precision_results():
    x, rate = np.float32(1.1), np.float32(.1)
    many = [10*RandomizedResponse(eps=v) for v in (x, float(x))]
    assert delta(many[0], eps=1.) == delta(many[1], eps=1.)
    sampled = [PoissonSubsampled(Gaussian(sigma=x), rate=rate),
               PoissonSubsampled(Gaussian(sigma=float(x)), rate=float(rate))]
    assert delta(sampled[0], eps=.1) == delta(sampled[1], eps=.1)

# Values

def test_equal_steps_merge():
    assert hash(3*Gaussian(sigma=1.)) == hash(Gaussian(sigma=1.) + 2*Gaussian(sigma=1.))
    assert np.int64(3)*Gaussian(sigma=1.) == 3*Gaussian(sigma=1.)
    assert sum(STEPS).as_steps() == tuple((m, 1) for m in STEPS)
    assert (0*STEPS[0] + STEPS[1]).as_steps() == ((STEPS[0], 0), (STEPS[1], 1))

def test_a_sum_of_thousands_looks_up_only_what_is_new(monkeypatch):
    "Asked: hashes of steps; a sum that merges all anew at each step takes their number's square."
    asked = []
    monkeypatch.setattr(Gaussian, '__hash__', lambda step: asked.append(1) or hash(step.sigma))
    n = 300
    run = sum(Gaussian(sigma=1. + k/n) for k in range(n)) + 2*Gaussian(sigma=1.)
    assert len(asked) < 10*n
    assert [k for _, k in run.as_steps()] == [3, *[1]*(n - 1)]
    assert [m.sigma for m, _ in run.as_steps()] == [1. + k/n for k in range(n)]
    assert run == Composition(run.as_steps()) and repr(run).startswith('3*Gaussian(sigma=1.0')
    with pytest.raises(ValueError, match='at most 2.53'): run + 2**53*Gaussian(sigma=5.)

def test_values():
    whole = PoissonSubsampled(base=Gaussian(sigma=1.), rate=1.)
    assert whole.remove.delta(.5) == Gaussian(sigma=1.).remove.delta(.5)
    assert epsilon(PureDP(eps=.7), delta=1e-12) == pytest.approx(.7, abs=1e-11)
    assert PureDP(eps=.7) != RandomizedResponse(eps=.7)
    with pytest.raises(AttributeError): Gaussian(sigma=1.).sigma = 2.
    with pytest.raises(AttributeError): whole.rate = .5

def test_representations():
    assert repr(2*RandomizedResponse(eps=1.)) == '2*RandomizedResponse(eps=1.0)'
    sampled = PoissonSubsampled(base=Gaussian(sigma=2.), rate=.01)
    base = 'Gaussian(sigma=2.0, sensitivity=1.0)'
    assert repr(sampled) == f'PoissonSubsampled(base={base}, rate=0.01)'
    assert eval(repr(sampled)) == sampled

def test_a_base_by_position():
    base = Gaussian(sigma=2.)
    one, other = PoissonSubsampled(base, rate=.01), PoissonSubsampled(base=base, rate=.01)
    assert one == other and hash(one) == hash(other) and repr(one) == repr(other)
    for wrong in (lambda: PoissonSubsampled(base, .01), lambda: PoissonSubsampled(base),
                  lambda: PoissonSubsampled(base, base=base, rate=.01)):
        with pytest.raises(TypeError, match='argument'): wrong()

@pytest.mark.parametrize('m', [*STEPS, 3*STEPS[0] + STEPS[3], Discrete(p=(.5, .5), q=(.4, .6)),
                               DiscreteGaussian(sigma=2.), DiscreteLaplace(scale=2.)], ids=str)
def test_copies_are_equal(m):
    m.remove.cumulants(.5)                            # also after a loss was asked for
    for again in (pickle.loads(pickle.dumps(m)), copy.copy(m), copy.deepcopy(m)):
        assert again == m and hash(again) == hash(m) and repr(again) == repr(m)
        assert again.add.cgf(.7) == m.add.cgf(.7)

@pytest.mark.parametrize('m, symmetric', [
    (STEPS[0], True), (STEPS[3], False), (STEPS[0] + STEPS[1], True), (STEPS[0] + STEPS[3], False),
    (PoissonSubsampled(STEPS[0], rate=1.), True), (Discrete(p=(.5, .5), q=(.4, .6)), False),
    (PoissonSubsampled(RandomizedResponse(eps=1.), rate=.5), False)], ids=str)
def test_where_both_directions_are_one(m, symmetric):
    assert m.symmetric == symmetric and (m.add is m.remove) == symmetric
    assert len(Accountant(m).directions) == 2 - symmetric

# Pairs that are given as numbers

NEARLY = [((.5 + 2**-52, .5 - 2**-52), (.5, .5)),
          ((.25, .25 + 2**-50, .5 - 2**-50), (.25, .25, .5)),
          ((.125, .25, .625), (.125, .25 + 2**-53, .625 - 2**-53))]

def exact_delta(p, q, n, eps):
    "The curve of n steps, from all outcomes, the doubles taken as they are."
    law = [(Fraction(1), Fraction(1))]
    for _ in range(n):
        law = [(a*Fraction(x), b*Fraction(y)) for a, b in law for x, y in zip(p, q, strict=True)]
    factor = sum(Fraction(eps)**k/math.factorial(k) for k in range(9))      # of e^eps: 1e-150
    return sum(max(a - factor*b, 0) for a, b in law)

@pytest.mark.parametrize('p, q', NEARLY)
@pytest.mark.parametrize('n', [1, 2, 5])
@pytest.mark.parametrize('eps', [1e-15, 1e-16, 1e-17, 1e-19])
def test_losses_near_zero(p, q, n, eps):
    "Sums that miss 1 by nothing cost nothing: also a loss of one ulp is known to all digits."
    for way, pair in (('remove', (p, q)), ('add', (q, p))):
        got = ContourAccountant(getattr(n*Discrete(p=p, q=q), way)).delta(eps)
        truth = exact_delta(*pair, n, eps)
        assert Fraction(got.lower) <= truth <= Fraction(got.upper)
        assert got.upper - got.lower <= 1e-9*got.upper

@pytest.mark.parametrize('p, q', [*NEARLY, ((.1, .2, .7), (.3, .3, .4)), ((1e-300, 1.), (.5, .5))])
def test_computed_probabilities_are_known_to_some_ulp(p, q):
    given, computed = Discrete(p=p, q=q), Discrete(p=p, q=q).as_computed()
    assert not given.computed and computed.computed and given != computed
    assert (given.p, given.q) == (computed.p, computed.q) == (p, q)
    assert len((2*given + 3*computed).steps) == 2               # which must not merge
    assert (computed.pair().loss_ulps >= 4).all()
    assert (given.pair().loss_ulps <= computed.pair().loss_ulps + 2).all()     # two sums' ulps
    assert pickle.loads(pickle.dumps(computed)) == computed == copy.deepcopy(computed)

@pytest.mark.parametrize('off', [2**-51, -2**-51, 1e-13])
def test_what_is_divided_by_its_sum_is_computed(off):
    m = Discrete(p=(.25, .75 + off), q=(.5, .5))
    assert m.computed and m.p != (.25, .75 + off)
    exact = [Fraction(x)/(1 + Fraction(off)) for x in (.25, Fraction(.75 + off))]
    for loss, x, ulps in zip(m.pair().losses, exact, m.pair().loss_ulps, strict=True):
        with mp.workdps(30):
            truth = mp.log(mp.mpf(x.numerator)/x.denominator*2)
            assert abs(truth - float(loss)) <= ulps*2**-52

def test_a_probability_with_few_digits_left():
    tiny = Discrete(p=(5e-324, 1 - 5e-13), q=(.5, .5))
    assert tiny.computed and tiny.pair().loss_ulps[0] >= 2**52      # one nat

# Mechanisms and accountants of one's own

def test_a_mechanism_of_ones_own():
    class Twice(Mechanism):
        def loss_of(self, direction): return GaussianLoss(2. if direction == 'remove' else 1.)
    class Third(FiniteMechanism):
        def pair(self):
            p = np.log([2/3, 1/3])
            return FinitePair(p, p[::-1], np.log([2., .5]), 1.)
    three = 3*Twice()
    assert three.remove.cgf(1.) == pytest.approx(12) and three.add.cgf(1.) == pytest.approx(3)
    truth = RandomizedResponse(eps=math.log(2.))
    for mine, theirs in ((Third(), truth), (PoissonSubsampled(Third(), rate=.3),
                                            PoissonSubsampled(truth, rate=.3))):
        for direction in ('remove', 'add'):
            a, b = getattr(mine, direction).delta([0., .1, .5]), getattr(theirs, direction)
            np.testing.assert_allclose(a, b.delta([0., .1, .5]), rtol=1e-13, atol=1e-16)
    with pytest.raises(NotImplementedError, match=r'Empty must define pair\(\)'):
        type('Empty', (FiniteMechanism,), {})().remove.cgf(1.)
    with pytest.raises(TypeError, match='base must be'): PoissonSubsampled(Twice(), rate=.1)

def answers(*three):
    "An accountant that always says the same."
    class Fixed(Accountant):
        def delta_of(self, plrv, eps, floor): return [v + 0*eps for v in three]
        def epsilon_of(self, plrv, delta, floor): return [v + 0*delta for v in three]
    return Fixed

def test_where_doubles_end_nothing_is_known():
    known = answers(math.nan, math.nan, math.nan)(STEPS[0])
    with pytest.warns(UserWarning, match='nothing is proved from above'):
        assert known.delta(.3) == (0, 1, 1) and known.epsilon(.3) == (0, math.inf, math.inf)
    assert answers(.1, math.nan, .3)(STEPS[0]).delta(.3) == (.1, .3, .3)

def test_the_floor_is_what_the_first_direction_proved():
    floors = []
    class Noting(Accountant):
        def delta_of(self, plrv, eps, floor):
            floors.append(floor.tolist())
            return eps, eps, eps
    Noting(STEPS[3]).delta([.1, .2])
    assert floors == [[0., 0.], [.1, .2]]

def test_shapes_of_answers():
    for shape in ((), (1,), (2, 3), (0,)):
        b = answers(.1, .2, .3)(STEPS[0]).delta(np.full(shape, .5))
        assert np.shape(b.lower) == np.shape(b.upper) == shape
    assert isinstance(answers(.1, .2, .3)(STEPS[0]).delta(.5).upper, float)

@pytest.mark.parametrize('m', [ApproxDP(eps=.5, delta=.25), 2*ApproxDP(eps=.5, delta=.25)], ids=str)
def test_at_the_mass_at_infinity(m):
    "From above eps is proved if p_inf is a number somebody gave; below it, there is none."
    a, p = answers(.1, .2, .3)(m), m.remove.p_inf
    assert a.epsilon(p*(1 + 1e-9)) == (.1, .2, .3)
    at = a.epsilon(p)
    given = m.as_steps()[0][1] == 1
    assert at.lower == .1 and at.upper == (m.remove.ess_sup if given else math.inf)
    below = a.epsilon(p*(1 - 1e-12))
    assert below.lower == .1 and below.upper == math.inf

# Bad input

nan, inf = math.nan, math.inf
ONE = Gaussian(sigma=1.)

def sampled(base=ONE, rate=.1): return PoissonSubsampled(base=base, rate=rate)

def gaussian(x): return Gaussian(sigma=x)

def given_p(x): return Discrete(p=x, q=(.5, .5))

BAD_VALUES = [
    ('sigma', gaussian, (nan, inf, 0., -1., 0, 1e-200)),
    ('sensitivity', lambda x: Gaussian(sigma=1., sensitivity=x), (nan, inf, 0., -2)),
    ('scale', lambda x: Laplace(scale=x), (nan, -inf, 0., -1., 1e200)),
    ('eps', lambda x: RandomizedResponse(eps=x), (nan, inf, -.1)),
    ('eps', lambda x: PureDP(eps=x), (nan, inf, -.1)),
    ('eps', lambda x: ApproxDP(eps=x, delta=.1), (nan, inf, -1.)),
    ('delta', lambda x: ApproxDP(eps=1., delta=x), (nan, -.1, 2.)),
    ('sigma', lambda x: DiscreteGaussian(sigma=x), (nan, 0., 801., 1/64)),
    ('sensitivity', lambda x: DiscreteGaussian(sigma=1., sensitivity=x), (0, -1)),
    ('scale', lambda x: DiscreteLaplace(scale=x), (nan, 0., 1e6)),
    ('sensitivity', lambda x: DiscreteLaplace(scale=1., sensitivity=x), (0, 10001)),
    ('rate', lambda x: sampled(rate=x), (0., -.1, 1.0001, nan, inf)),
    ('p must', given_p, ((.5, .4), (1.5, -.5), (nan, .5), (), [[.5, .5]], (.5, .5 + 1e-9))),
    ('q must', lambda x: Discrete(p=(.5, .5), q=x), ((.2, .3, .5), (.9, .9))),
    ('steps', lambda x: x*ONE, (-1, 10**30)),
    ('steps', lambda x: Composition(x), ((), ((ONE, -2),))),
    ('delta', lambda x: epsilon(ONE, delta=x), (1., -1e-5, 1.5, nan, inf, [1e-5, 1.])),
    ('eps', lambda x: delta(ONE, eps=x), (-1e-9, nan, -inf, [1., -1.])),
    ('rtol', lambda x: ContourAccountant(ONE, rtol=x), (0., 1., nan)),
    ('eps_resolution', lambda x: ContourAccountant(ONE, eps_resolution=x), (-1.,)),
    ('max_nodes', lambda x: ContourAccountant(ONE, max_nodes=x), (0,)),
    ('order', lambda x: sampled().remove.cumulants(0., x), (0,)),
    ('t must', lambda x: sampled().remove.cumulants(x, 2), (-2.,)),
]
BAD_KINDS = [
    ('sigma', gaussian, ('1', None, True, 1j, [1.])),
    ('scale', lambda x: Laplace(scale=x), ('a',)),
    ('sensitivity', lambda x: DiscreteLaplace(scale=1., sensitivity=x), (1., True)),
    ('rate', lambda x: sampled(rate=x), ('.1',)),
    ('base', lambda x: sampled(base=x), (None, 3., 2*Laplace(scale=1.), 2*sampled(), sampled(),
                                         Gaussian)),
    ('p must', given_p, ('ab', None, (.5, 'x'), [.5, [.5]])),
    ('steps', lambda x: x*ONE, (2.5, 2., True, nan)),
    ('steps', lambda x: Composition(x), (3, None, (ONE,), (('a', 1),), ((ONE, 1.5),))),
    ('delta', lambda x: epsilon(ONE, delta=x), ('1e-5', None, 1j, [[.1], [.1, .2]], True)),
    ('eps', lambda x: delta(ONE, eps=x), ('1', None, 1j)),
    ('run', lambda x: epsilon(x, delta=1e-5), (None, 0, 'gaussian', [None], Gaussian)),
    ('max_nodes', lambda x: ContourAccountant(ONE, max_nodes=x), (1e5,)),
]
BAD = [(kind, name, call, x) for kind, table in ((ValueError, BAD_VALUES), (TypeError, BAD_KINDS))
       for name, call, values in table for x in values]

@pytest.mark.parametrize('kind, name, call, x', BAD, ids=[f'{b[1]}-{i}' for i, b in enumerate(BAD)])
def test_bad_input(kind, name, call, x):
    "The error names the parameter first."
    with pytest.raises(kind) as e: call(x)
    assert str(e.value).startswith(name), str(e.value)

@pytest.mark.parametrize('make', [
    lambda x: Gaussian(sigma=x), lambda x: Laplace(scale=x),
    lambda x: Gaussian(sigma=1., sensitivity=1/x), lambda x: Laplace(scale=1., sensitivity=1/x)])
def test_the_ends_of_the_noise_that_is_taken(make):
    for x in (1.01e-100, .99e100): make(x)
    for x in (.99e-100, 1.01e100):
        with pytest.raises(ValueError, match=r'must be in \(1e-100, 1e\+100\)'): make(x)

class Silent(Mechanism):
    "Says nothing."

class NoPair(FiniteMechanism):
    "Says nothing either."

class Deaf(Accountant):
    "Answers nothing."

class Half(Accountant):
    "Answers one question of two."
    def delta_of(self, plrv, eps, floor): return [0*eps, 0*eps, 0*eps + 1]

class Blind(TiltedAccountant):
    "Has tilts, and no formula."

@pytest.mark.parametrize('ask, said', [
    (lambda: Silent().remove, r'Silent must define loss_of\(direction\)'),
    (lambda: Silent().add, r'Silent must define loss_of\(direction\)'),
    (lambda: (3*Silent()).remove, r'Silent must define loss_of\(direction\)'),
    (lambda: ContourAccountant(Silent()), r'Silent must define loss_of\(direction\)'),
    (lambda: epsilon(Silent(), delta=1e-5), r'Silent must define loss_of\(direction\)'),
    (lambda: NoPair().remove, r'NoPair must define pair\(\)'),
    (lambda: Deaf(Gaussian(sigma=1.)).delta(1.), r'Deaf must define delta_of\(plrv, eps, floor\)'),
    (lambda: Deaf(Gaussian(sigma=1.)).epsilon([.1, .2]), r'Deaf must define epsilon_of\(plrv, '),
    (lambda: Half(Gaussian(sigma=1.)).epsilon(.1), r'Half must define epsilon_of\(plrv, delta, '),
    (lambda: Blind(Laplace(scale=1.)).delta(.1), r'Blind must define log_value\(t, eps, k, ')])
def test_a_class_that_forgets_a_method_is_told_which(ask, said):
    where = '.*see (chapter [24]|mechanisms/finite_pairs)$'
    with pytest.raises(NotImplementedError, match=said + where): ask()

def test_what_is_defined_is_enough():
    assert Half(Gaussian(sigma=1.)).delta(1.) == (0., 0., 1.)

def test_a_sample_of_no_step():
    with pytest.raises(TypeError, match='^base must be .*: there is no step in it, got 0'):
        PoissonSubsampled(0*Gaussian(sigma=2.), rate=.1)

@pytest.mark.parametrize('kind', [np.uint8, np.uint16, np.uint64, np.int8])
@pytest.mark.parametrize('make', [
    lambda d: DiscreteLaplace(scale=2., sensitivity=d),
    lambda d: DiscreteGaussian(sigma=2., sensitivity=d)])
def test_whole_numbers_that_wrap_around(make, kind):
    "-3 as an unsigned number is 253, and the eps was."
    m = make(kind(3))
    assert type(m.sensitivity) is int and m == make(3)
    assert ContourAccountant(m).epsilon(1e-5) == ContourAccountant(make(3)).epsilon(1e-5)

@pytest.mark.parametrize('m', [Gaussian(sigma=1.), Laplace(scale=1.), 3*Laplace(scale=2.)])
def test_an_accountant_is_sent_to_another_process(m):
    "It says the same there; what it has kept from a question may make the next answer narrower."
    for sent in (lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy):
        accountant = ContourAccountant(m)
        again = sent(accountant)
        first = accountant.epsilon(1e-3)
        assert again.epsilon(1e-3) == first
        later = sent(accountant).epsilon(1e-3)
        assert later.width <= first.width
        assert max(first.lower, later.lower) <= min(first.upper, later.upper)

def test_settings_of_few_bits():
    "Twice 100 nodes are 200, not -56; and no setting is so fine that its logarithm is none."
    run = 3*PoissonSubsampled(base=Gaussian(sigma=1.), rate=.1)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        asked = [ContourAccountant(run, max_nodes=kind(100), rtol=1e-9).delta(1.)
                 for kind in (np.int8, int)]
    assert asked[0] == asked[1]
    for name in ('rtol', 'eps_resolution'):
        with pytest.raises(ValueError, match=f'{name} must be in'):
            ContourAccountant(run, **{name: 5e-324})
    with pytest.raises(TypeError, match="levels must be True or False, got 'no'"):
        ContourAccountant(run, levels='no')

@pytest.mark.parametrize('scale', [5e-324, 1e-308, 1e-101])
def test_discrete_noise_that_is_next_to_none(scale):
    "1/scale would be infinite, and its bounds useless: refused, as other noise of that size."
    with pytest.raises(ValueError, match='scale must be in'): DiscreteLaplace(scale=scale)

class PlainGaussian(Mechanism):
    "Written without `@dataclass`: what it is, no comparison sees."
    symmetric = True
    def __init__(self, mu): object.__setattr__(self, 'mu', mu)
    def loss_of(self, direction): return GaussianLoss(self.mu)

class PlainPair(FiniteMechanism):
    def __init__(self, p): object.__setattr__(self, 'p', p)
    def pair(self):
        logs = np.log([self.p, 1 - self.p])
        return FinitePair(logs, logs[::-1], logs - logs[::-1], 4.)

def test_plain_classes_are_not_taken_for_one_another():
    both = PlainGaussian(.1) + PlainGaussian(3.)
    assert [count for _, count in both.steps] == [1, 1] and len((2*both).steps) == 2
    known = Gaussian(sigma=10.) + Gaussian(sigma=1/3)
    assert epsilon(both, delta=1e-6) == pytest.approx(epsilon(known, delta=1e-6), rel=1e-12)
    step = PlainGaussian(1.)
    assert (step + step).steps == ((step, 2),) and step != PlainGaussian(1.)
    pairs = PlainPair(.5) + PlainPair(.9)
    assert [count for _, count in pairs.steps] == [1, 1]
    known = Discrete(p=[.5, .5], q=[.5, .5]) + Discrete(p=[.9, .1], q=[.1, .9])
    assert .7 < delta(pairs, eps=.1) == pytest.approx(delta(known, eps=.1), rel=1e-12)
