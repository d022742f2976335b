"The contour accountant: named figures, certification against independent references, extremes."
import json
import math
import os
import subprocess
import sys
import tracemalloc
import warnings
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf, workdps
from scipy.interpolate import BSpline

import oracles
from certify import FILE, run
from dp_saddle import (
    ApproxDP,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonReplaceOne,
    PoissonSubsampled,
    RandomizedResponse,
    TiltedFFT,
    delta,
    epsilon,
)
from dp_saddle.base.numerics import EXTENDED
from dp_saddle.engine.known_parts import composed_atoms
from dp_saddle.engine.line import CgfTable, Plan, is_enumerable
from dp_saddle.engine.smoothing import PIECES, Smoothing
from dp_saddle.engine.solve import Stop
from dp_saddle.losses.nodes import log_delta_of_atoms
from dp_saddle.plrv import ComposedLoss, GaussianLoss, composed


def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def L(scale, rate):
    return PoissonSubsampled(base=Laplace(scale=scale), rate=rate)

def RR(eps):
    return RandomizedResponse(eps=eps)

with open(os.path.join(os.path.dirname(FILE), 'golden.json'), encoding="utf-8") as file:
    GOLDEN = json.load(file)
with open(FILE, encoding="utf-8") as file:
    RANDOM = json.load(file)

def holds(bounds, low, high):
    return Decimal(bounds.lower) <= high and low <= Decimal(bounds.upper)

def said(row):
    return f"{str(row['steps'])[:60]} {row['eps']} {row['direction']}"

@pytest.mark.parametrize('row', GOLDEN, ids=said)
def test_golden(row):
    "References of 14 to 16 digits: inside the bounds; the estimate as close as the bounds say."
    value = Decimal(row['value'])
    slack = abs(value)*Decimal(10)**(1 - row['digits'])
    plrv = getattr(run(row['steps']), row['direction'])
    bounds = ContourAccountant(plrv).delta(float(row['eps']))
    assert holds(bounds, value - slack, value + slack), bounds
    sharp = row["steps"] == [[["sub", ["gaussian", 1.0], 1e-4], 10**6]]     # rounding is seen there
    # where nodes are doubles, a line knows eleven bits less of so rare a loss
    longer = EXTENDED is np.longdouble
    width = (3e-4 if longer else 1e-3) if sharp else 4e-6
    narrow = bounds.upper - bounds.lower <= width*bounds.upper
    assert narrow or bounds.upper == 5e-324

def test_published_fourier_table():
    "[FA Table 1]'s setting, 12 digits from a contour of another shape at high precision."
    steps = [[['sub', ['gaussian', 1.5], .01], 10000]]
    rows = [r for r in GOLDEN if r['steps'] == steps and r['direction'] == 'remove']
    want = float(rows[0]['value'])
    bounds = ContourAccountant((10**4*S(1.5, .01)).remove).delta(1.)
    assert want == pytest.approx(0.049601410315, abs=5e-13)
    assert bounds.estimate == pytest.approx(want, rel=1e-11)
    assert bounds.upper - bounds.lower < 1e-9*bounds.lower

@pytest.mark.parametrize('sigma, rate, n, eps, digits', [
    (.8, 4e-3, 1000, 1.5, '2.574967467E-6'),
    (.8, 1e-3, 1000, 2., '1.47906767E-11'),
    (.3, 1e-4, 1000, 1., '0.00663118463'),
    (.3, 1e-4, 1000, 5., '2.586514747E-4'),
    (.5, 1e-5, 10**4, 3., '5.4587896E-12'),
    (.3, .1, 5000, 1500., '0.427633576'),
    (5., .1, 5000, 3., '0.0337722025'),
])
def test_phase_transitions(sigma, rate, n, eps, digits):
    "Values known to so many digits: the bounds agree in all of them."
    want = Decimal(digits)
    half = Decimal(1).scaleb(want.as_tuple().exponent)
    bounds = ContourAccountant((n*S(sigma, rate)).remove).delta(eps)
    assert want - half < Decimal(bounds.lower) and Decimal(bounds.upper) < want + half

def test_all_of_the_curve():
    """From 1e-1 to 1e-300: upper/lower - 1 < 1e-8 (where nodes are doubles, 3e-8), and
    eps(delta(eps)) = eps to 1e-10."""
    narrow = 1e-8 if EXTENDED is np.longdouble else 3e-8
    accountant = ContourAccountant(3000*S(2., .01))
    targets = np.logspace(-1, -300, 60)
    eps = accountant.epsilon(targets)
    for target, e in zip(targets, eps.estimate, strict=True):
        bounds = accountant.delta(e)
        assert bounds.upper/bounds.lower - 1 < narrow
        assert bounds.estimate == pytest.approx(target, rel=1e-8)
        back = accountant.epsilon(bounds.estimate)
        assert abs(back.estimate - e) < 1e-10 and back.lower - 1e-10 <= e <= back.upper + 1e-10
    curve = accountant.delta(eps.estimate)          # all at once: shared nodes, the same promise
    assert (curve.upper/curve.lower - 1 < narrow).all() and (eps.upper - eps.lower < 1e-9).all()

def test_aliases_to_the_right():
    "Each tilt's bound is above the sum of the true ones, the best by a factor of about 20."
    mu, t, period, eps = 1.5, 3., 2.5, np.array([.5, 2.])
    table = CgfTable(ComposedLoss([(GaussianLoss(mu), 1)]), shortcut=False)
    table.tabulate(np.linspace(3.1, 9, 60))
    for reach in (0., .25):
        u, bounds = table.right_aliases(t, period, eps, reach)
        assert (u > t).all() and bounds.shape == (2, len(u))
        for x, row in zip(eps - reach, bounds, strict=True):
            truth = sum(mpmath.exp(t*m*period)*oracles.gaussian([mu], x + m*period)
                        for m in range(1, 12))
            assert mpmath.log(truth) < row.min() < mpmath.log(truth) + 3.2
        left = -np.log(np.expm1(t*period))
        assert table.log_alias(t, period, eps, reach) == pytest.approx(
            np.logaddexp(left, bounds.min(1)), abs=1e-12)

def test_the_cifar_run():
    "De et al. 2022: the authors, with Renyi accounting, reported 8."
    bounds = ContourAccountant(2000*S(9.4, 2**14/50000)).epsilon(1e-5)
    assert bounds.estimate == pytest.approx(7.42438, abs=5e-6)
    assert bounds.upper - bounds.lower < 1e-9

def test_gaussians_are_closed_form():
    many = 10**7*Gaussian(sigma=2e3) + 3*Gaussian(sigma=1., sensitivity=.5)
    for mix, mus in [(7*Gaussian(sigma=3.), [1/3]*7), (many, [1/2e3]*10**7 + [.5]*3)]:
        mu = np.sqrt(np.sum(np.square(mus)))
        for eps in (0., .5, 4., 25.):
            want, bounds = oracles.gaussian([mu], eps), ContourAccountant(mix).delta(eps)
            assert bounds.estimate == pytest.approx(float(want), rel=2e-12)
            assert bounds.lower <= want*(1 + 1e-14) and want*(1 - 1e-14) <= bounds.upper

def check(rows):
    for row in rows:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')                # the budget's: bounds hold all the same
            plrv = getattr(run(row['steps']), row['direction'])
            bounds = ContourAccountant(plrv).delta(row['eps'])
        low, high = Decimal(row['low']), Decimal(row['high'])
        tiny = Decimal(10)**-19                                # random.json keeps 20 digits
        assert holds(bounds, low*(1 - tiny), high*(1 + tiny)), (row, bounds)
        assert bounds.lower <= bounds.estimate <= bounds.upper

def test_certification_of_random_runs():
    check(RANDOM[:10])

@pytest.mark.slow
def test_certification_of_the_other_random_runs():
    check(RANDOM[10:])
    assert len(RANDOM) >= 300

@pytest.mark.slow
@pytest.mark.parametrize('row', RANDOM[::25], ids=lambda r: str(r['steps'])[:60])
def test_references_can_be_recomputed(row):
    steps = [(tuple(tuple(x) if isinstance(x, list) else x for x in m), n) for m, n in row['steps']]
    low, high, _ = oracles.reference(steps, row['eps'], row['direction'], seconds=40)
    assert float(low) <= float(row['high'])*(1 + 1e-15)
    assert float(row['low']) <= float(high)*(1 + 1e-15)

EXTREMES = [
    (100*S(.05, .1), 1e-5),
    (1000*S(.05, .1), 1e-5),
    (10**7*S(1., 1e-6), 1e-8),
    (10**6*S(1., 1e-6), 1e-8),
    (10**7*S(20., 1.), 1e-5),
    (S(.3, 1e-6), 1e-7),
    (2*S(2., .01), 1e-10),
    (3000*S(2., .01), 1e-100),
    (50*Laplace(scale=.1), 1e-9),
    (10*Laplace(scale=1e4), 1e-9),
    (10**7*RR(1e-3), 1e-6),
    (sum(10*RR(.1*i) for i in range(1, 13)), 1e-5),
    (1000*ApproxDP(eps=.01, delta=1e-9), 1e-5),
    (20*Discrete(p=(.4, .3, .2, .1), q=(.1, .2, .3, .4)), 1e-3),
    (sum(5*S(1. + i/50, .01) for i in range(100)), 1e-6),
    (30*L(.2, .01), 1e-4),
    (10*S(20., 1e-6), 1e-10),
    (5*PoissonSubsampled(base=RR(40.), rate=1e-5) + 10*S(.3, .9), 1e-6),
]

@pytest.mark.parametrize('mix, d', EXTREMES, ids=lambda x: str(x)[:50])
def test_extremes_have_finite_ordered_bounds(mix, d):
    "Where tools crash or hang: finite, ordered bounds, that invert each other."
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        accountant = ContourAccountant(mix)
        e = accountant.epsilon(d)
        assert 0 <= e.lower <= e.estimate <= e.upper < np.inf
        assert accountant.delta(e.upper).lower <= d
        if e.lower: assert accountant.delta(e.lower).upper >= d

def test_a_hundred_distinct_steps_against_their_mean():
    mix = sum(5*S(1. + i/50, .01) for i in range(100))
    least, most = (epsilon(500*S(sigma, .01), delta=1e-6) for sigma in (3., 1.))
    assert least < epsilon(mix, delta=1e-6) < most

def test_rival_mesh_looseness():
    "rate 1e-6, sigma 1, 10^6 steps, delta 1e-8: grids gave .0055 to .0562, by their mesh."
    assert epsilon(10**6*S(1., 1e-6), delta=1e-8) < .0055

def test_zero_and_infinity():
    nothing, leaky = 0*S(1., .1), ApproxDP(eps=1., delta=1e-3)
    apart = Discrete(p=(1., 0.), q=(0., 1.))
    assert epsilon(nothing, delta=1e-9) == 0 and delta(nothing, eps=0.) == 0
    assert epsilon(leaky, delta=1e-4) == np.inf
    assert delta(leaky, eps=5.) == pytest.approx(1e-3, rel=1e-13)
    assert delta(apart, eps=3.) == 1 and epsilon(apart, delta=.5) == np.inf
    assert epsilon(S(20., 1e-3), delta=.5) == 0 and epsilon(3*RR(0.), delta=1e-9) == 0
    far = 3000*S(2., .01)
    assert ContourAccountant(far).delta(500.).lower == 0 < delta(far, eps=500.)  # below all doubles
    assert delta(30*S(2., .01), eps=np.empty(0)).shape == (0,)
    assert delta(30*S(2., .01), eps=[[1., 2.]]).shape == (1, 2)

def test_budget_is_announced_and_bounds_hold():
    plrv = (100*S(.05, .1)).remove
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = ContourAccountant(plrv).delta(1000.)
    with pytest.warns(UserWarning, match='max_nodes = 1024'):
        bounds = ContourAccountant(plrv, max_nodes=1024).delta(1000.)
    assert 0 <= bounds.lower <= want.upper and want.lower <= bounds.upper <= 1
    assert bounds.upper - bounds.lower > want.upper - want.lower

def test_warnings_point_at_the_line_that_asked():
    "However many calls inside the library are between."
    accountant = ContourAccountant(100*S(.05, .1), max_nodes=64)
    for ask in (lambda: accountant.delta(1000.), lambda: accountant.epsilon(1e-5)):
        with pytest.warns(UserWarning, match='max_nodes = 64 reached') as caught:
            ask()
        assert {w.filename for w in caught} == {__file__}
        assert {w.lineno for w in caught} == {ask.__code__.co_firstlineno}

def test_resolution_where_there_are_atoms():
    "upper - lower < 1e-6 in eps by default, narrower when asked."
    for mix in (10*Laplace(scale=1.), 200*Laplace(scale=20.), 10*L(1., .1)):
        wide, narrow = (
            ContourAccountant(mix, eps_resolution=r).epsilon(1e-4) for r in (1e-6, 1e-7)
        )
        assert wide.upper - wide.lower < 1e-6 and narrow.upper - narrow.lower < 1e-7
        assert wide.lower <= narrow.upper and narrow.lower <= wide.upper

HARD_CORNER = """
import resource, sys
import dp_saddle as d
def sampled(rate): return d.PoissonSubsampled(base=d.Gaussian(sigma=.3), rate=rate)
assert d.delta(5000*sampled(.1), eps=700.) > .99
d.epsilon(5000*sampled(.1), delta=1e-5)
d.delta(1000*sampled(1e-4), eps=1.)
if sys.platform == 'linux':       # ru_maxrss starts from that of the process that runs the tests
    lines = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')]
    print(lines[0] if lines else 0)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

@pytest.mark.skipif(os.name == 'nt', reason='measured by the module resource, which is of Unix')
def test_memory_of_the_hard_corner():
    "sigma .3, rate .1, thousands of steps, eps in the hundreds: 500 MB are enough: twice what \
    the bare imports take, and more."
    command = [sys.executable, '-W', 'ignore', '-c', HARD_CORNER]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert 50e6 < int(out)*(1 if sys.platform == 'darwin' else 1024) < 500e6

RR1 = ('rr', 1.)
DELICATE = [
    (('rr', 1e-12), (0., 9.99999999e-13)),
    (('rr', 1e-9), (0.,)),
    (('sub', RR1, 1e-12), (0., 1.7011e-12)),
    (('sub', RR1, 1e-9), (0.,)),
    (('sub', RR1, 1e-6), (0., 1e-7)),
    (('sub', ('rr', 1e-6), 1e-12), (0.,)),
    (('sub', ('rr', 1e-6), .5), (0.,)),
    (('sub', ('rr', 1e-6), .999999), (0.,)),
    (('discrete', (.5 + 2**-40, .5 - 2**-40), (.5, .5)), (0.,)),
    (('sub', ('gaussian', .1), 1 - 1e-12), (26.24949107599869, 22.1048)),
    (('sub', ('gaussian', 1.), 1 - 1e-12), (22.1, 26.25)),
    (('sub', ('gaussian', 1.), .999999), (11.05, 13.12)),
    (('sub', ('laplace', .02), 1 - 1e-12), (26.25,)),
    (('sub', ('laplace', .02), .999999), (13.815510557921703,)),
    (('sub', ('gaussian', 1.), .1), (1000.,)),
]
for q in (1e-12, 1e-9, 1e-6, 1e-3):
    DELICATE.append((('sub', ('approx', 1., 1e-5), q), (-np.log1p(-q)*(1 - 1e-12),)))

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('m, eps', DELICATE, ids=lambda x: str(x)[:45])
def test_delicate_single_steps(m, eps, direction):
    "Tiny losses, rates near 0 and 1, the end of the support: where digits cancel."
    for e in eps:
        want = oracles.one_step(m, float(e), direction)
        bounds = ContourAccountant(getattr(run([(m, 1)]), direction)).delta(float(e))
        assert bounds.lower <= want <= bounds.upper or want < 1e-323, (e, want, bounds)

@pytest.mark.parametrize('n, rate, eps', [
    (2, 1e-12, 2.5),
    (2, 1e-12, 4.),
    (2, 1e-9, 2.5),
    (1000, 1e-9, 4.),
    (1000, 1e-12, 2.5),
    (1000, 1e-12, 4.),
    (2, 1e-9, 4.),
    (2, 1e-6, 2.5),
    (3, 1e-12, 0.),
    (3, 1e-12, 1e-12),
])
def test_tiny_rates(n, rate, eps):
    "More revealing than one step, less than basic composition allows; finite and ordered."
    one = ('sub', ('gaussian', 1.), rate)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)
        bounds = ContourAccountant((n*S(1., rate)).remove).delta(eps)
    least, most = oracles.one_step(one, eps, 'remove'), n*oracles.one_step(one, eps/n, 'remove')
    assert least <= bounds.upper and bounds.lower <= most*(1 + 1e-12)
    assert bounds.lower <= bounds.estimate <= bounds.upper <= float(most)*(1 + 1e-6) + 1e-320

@pytest.mark.parametrize('steps, eps, direction', [
    ([(('rr', 1e-6), 4), (('gaussian', 1e6), 1)], 0., 'remove'),
    pytest.param([(('sub', ('gaussian', .3), 1 - 1e-12), 2)], 45., 'add', marks=pytest.mark.slow),
    ([(('rr', 1e-12), 20)], 1e-11, 'remove'),
    ([(('rr', .1), 20)], 2., 'remove'),
], ids=str)
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_more_delicate_sums(steps, eps, direction):
    low, high, _ = oracles.reference(steps, eps, direction)
    bounds = ContourAccountant(getattr(run(steps), direction)).delta(eps)
    assert bounds.lower <= high and low <= bounds.upper, (steps, low, high, bounds)

def test_nearly_full_batches():
    "What `oracles.reference` says of the one that takes it seconds, to 14 digits."
    bounds = ContourAccountant((2*S(.3, 1 - 1e-12)).add).delta(45.)
    assert bounds.lower <= 1.08078014256488e-13 and 1.08078014256486e-13 <= bounds.upper

# The bounds hold with any number of nodes; with the full budget they take seconds.
few_nodes = pytest.mark.parametrize('nodes', [
    1 << 14, pytest.param(1 << 18, marks=pytest.mark.slow)])

@pytest.mark.parametrize('mix', [
    13832218814*Laplace(scale=41893.),
    9852165984*L(.1226, .0753),
    10**15*S(1., .1),
    102277776880*Laplace(scale=170.537519852372),
    101758912611*RR(.7594236611522126),
    pytest.param(10*Laplace(scale=1e-3), marks=pytest.mark.slow),
], ids=str)
@pytest.mark.filterwarnings('error::RuntimeWarning')
@few_nodes
def test_very_many_steps(mix, nodes):
    "No NaN, no warning but the budget's, ordered bounds."
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)
        accountant = ContourAccountant(mix, max_nodes=nodes)
        for low, mid, up in zip(*accountant.delta([0., 1e-4, 1.]), strict=True):
            assert 0 <= low <= mid <= up <= 1 and up > 0
        e = accountant.epsilon(1e-9)
        assert 0 <= e.lower <= e.estimate <= e.upper

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize('mix', [
    pytest.param(3*S(.5, 1e-5), marks=pytest.mark.slow),
    pytest.param(100*S(.05, .1), marks=pytest.mark.slow),
    12*Laplace(scale=2.),
    sum(9*RR(.1*i) for i in range(1, 9)),
], ids=lambda mix: str(mix)[:40])
def test_small_budgets_overlap_large_ones(mix):
    for e in (.1, 3., 1000.):
        best = ContourAccountant(mix.remove).delta(e)
        for nodes in (64, 1024, 16384):
            b = ContourAccountant(mix.remove, max_nodes=nodes).delta(e)
            assert b.lower <= best.upper and best.lower <= b.upper, (e, nodes, b, best)
            assert b.lower <= b.estimate <= b.upper, (e, nodes, b, best)

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize('eps', [3., 3.5, 3.6, 4.4])
def test_smoothing_on_and_off_atoms(eps):
    "Forty answers, not enumerated but smoothed: the exact sum is inside, on an atom too."
    table = CgfTable((40*RR(.2)).remove, shortcut=False)
    exact, table.atoms = log_delta_of_atoms(eps, *composed_atoms(table.plrv)), None
    low, _, up = table.log_delta(np.array([eps]))
    assert low[0] <= exact + 1e-11 and exact <= up[0] + 1e-11 and up[0] - low[0] < 1e-2

def exact_sum_of_answers(n, eps0, eps):
    "delta of n randomised responses, to 40 digits."
    with workdps(40):
        q = 1/(1 + mpmath.exp(mpf(eps0)))
        want, k = mpf(0), int(np.floor(n/2 + eps/eps0/2)) + 1
        term = mpmath.binomial(n, k)*(1 - q)**k*q**(n - k)
        while k <= n and term > 1e-40:
            want += term*(1 - mpmath.exp(eps - (2*k - n)*mpf(eps0)))
            term *= mpf(n - k)/(k + 1)*(1 - q)/q
            k += 1
        return want

@pytest.mark.parametrize('n', [30, 2000])
def test_rounding_of_enumerated_outcomes(n):
    "Sums of atoms are closed forms, but binomial coefficients are rounded: where delta is near 1, \
    only the allowance for that is left."
    for eps0 in (.1, .25, .5, 1.):
        eps = float(max(n*eps0*np.tanh(eps0/2) - 3.3*eps0*np.sqrt(n), 0))
        want, bounds = exact_sum_of_answers(n, eps0, eps), ContourAccountant(n*RR(eps0)).delta(eps)
        assert bounds.lower <= want <= bounds.upper, (eps0, want, bounds)
        assert bounds.upper - bounds.lower < 1e-9, (eps0, want, bounds)

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_next_to_the_end_of_the_support():
    "Tilts of 1e9 and more: the atom at the end decides, and the grids stay small."
    m, end = 100*Laplace(scale=5.), 20.
    tracemalloc.start()
    for gap in (1e-6, 1e-9, 1e-12):
        eps = end*(1 - gap)
        low, _, up = ContourAccountant(m).delta(eps)
        want = -2.**-100*np.expm1(eps - end)
        assert low <= want*(1 + 1e-3) and up >= want*(1 - 1e-3)
    assert tracemalloc.get_traced_memory()[1] < 1e9
    tracemalloc.stop()

@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:max_nodes", "ignore:the bounds hold")
@few_nodes
def test_smoothing_narrower_than_sqrt_of_the_rounding_unit(nodes):
    "The variance of a very narrow spline once came out as 0: losses of 1e-8 and less, where delta \
    must fall and the bounds stay in order."
    a = ContourAccountant(300*S(1e8, 1e-5), max_nodes=nodes)
    low, _, up = a.delta(np.geomspace(1e-13, 1e-5, 15))
    assert (low <= np.minimum.accumulate(up)).all()
    for d in (1e-14, 1e-20, 1e-30):
        e = a.epsilon(d)
        assert e.lower <= e.upper < 1e-6

def test_an_atom_is_not_smoothed_where_outcomes_are_few():
    "One randomised response has no delta at its largest loss, but for what rounding leaves."
    answer = CgfTable(ComposedLoss([(RandomizedResponse(eps=1.).remove, 1)]))
    assert np.exp(answer.log_delta(np.ones(1))[2, 0]) < 1e-14

@pytest.mark.parametrize('pieces', [8, PIECES])
@pytest.mark.parametrize('t, X, w, eps', [(2., 3., .5, 1.), (3., 2.5, .25, .5), (2., 2., .4, 0.)])
def test_what_is_too_much_in_a_smoothed_sum(t, X, w, eps, pieces):
    "The terms m > 0, by the smoothing's own definition: the mean over a B-spline. They outweigh \
    those of m < 0, and the bound must reach as far down as the smoothing."
    plrv, half, w = (1*Gaussian(sigma=1.)).remove, pieces/2, w*(8/pieces)**.5    # one variance
    line = CgfTable(plrv, shortcut=False).line(Plan(t, X, 60., w, -1e3, False, pieces))
    tau, m = np.linspace(-half, half, 4001), np.arange(1, 40)
    weight = BSpline.basis_element(np.arange(pieces + 1.) - half)(tau)
    def smoothed(x):
        at = np.add.outer(x, w*tau - Smoothing(w, pieces).shift)
        return np.exp(plrv.log_delta(at)) @ weight/weight.sum()
    right, left = np.exp(t*m*X) @ smoothed(eps + m*X), np.exp(-t*m*X) @ smoothed(eps - m*X)
    alias = line.alias(np.array([eps]))[0]*np.exp(line.base - t*eps)
    assert right > 2*left and right + left <= alias

def exact_gaussian(mu, eps):
    "log delta of the Gaussian curve to 40 digits."
    with workdps(80):
        mu, eps = mpf(mu), mpf(eps)
        below = mpmath.exp(eps)*mpmath.ncdf(-mu/2 - eps/mu)
        return mpmath.log(mpmath.ncdf(mu/2 - eps/mu) - below)

def gaussian_table(mu):
    return CgfTable(ComposedLoss([(GaussianLoss(mu), 1)]), shortcut=False)

@settings(max_examples=150, deadline=None)
@given(
    t=st.floats(.3, 6.),
    X=st.floats(1., 30.),
    w=st.sampled_from([0., 1e-3, .05, .2, .5, 1., 2.]),
    eps=st.floats(0., 4.),
    mu=st.floats(.5, 2.),
)
def test_any_line_has_true_bounds(t, X, w, eps, mu):
    "However coarse the step and wide the smoothing, what is proved of a sum holds; the closed \
    form is the judge. Aliases and smoothing are anything between nothing and all."
    line = gaussian_table(mu).line(Plan(t, X, 40/mu, w, -1e3, False))    # at 40/mu, |M| is e^-800
    low, mid, up = (v[0] for v in line.bracket(np.array([eps])))
    truth = float(np.exp(float(exact_gaussian(mu, eps)) - line.base + t*eps))
    inside = low <= truth*(1 + 1e-12) + 1e-15 and truth <= up*(1 + 1e-12) + 1e-15
    assert inside and low <= mid <= up or not low <= up

@pytest.mark.parametrize('mu', [10., 300., 1e4, 3e5])
def test_rounding_of_large_exponents(mu):
    "K and t eps are up to 1e11, so their difference has few digits left: the bounds must know."
    table = gaussian_table(mu)
    for e in mu*mu/2 + mu*np.linspace(-1, 9, 41):
        want, at = exact_gaussian(mu, float(e)), np.array([e])
        line = table.line(table.plan(at, np.array([float(want) - 26])))
        low, _, up = (mpf(float(v[0])) for v in line.log_bounds(at))
        assert low <= want <= up < low + 1e-8*(1 + mu*mu*1e-8)

@pytest.mark.filterwarnings("ignore:max_nodes")
@pytest.mark.parametrize('mix, goal', [
    (100*Laplace(scale=20.), 1e-5),
    (30*S(.7, .02), 1e-6),
    pytest.param(5*S(.02, 1e-5), 2e-5, marks=pytest.mark.slow),
], ids=str)
def test_where_the_basic_bounds_cross(mix, goal):
    "What is left where a sum of nodes says nothing: both ends, to 13 digits, of where the bounds \
    from single steps fall through the goal."
    table, exact = CgfTable(mix.remove), ContourAccountant(mix.remove).epsilon(goal)
    def bound(side, eps): return table.basic_bound(np.array([eps]), side)[0]
    for side in (-1, 1):
        low, high = table.basic_crossing(side, np.log(goal), 0.0, 3e4)
        assert 0 <= low <= high <= 3e4 and high - low <= 2e-13*high + 1e-50
        assert bound(side, high) <= np.log(goal)
        assert low == 0 or bound(side, low) > np.log(goal)
        assert low <= exact.upper if side < 0 else exact.lower <= high

def test_no_line_is_made_twice(monkeypatch):
    "Just below the end of a support, at the largest tilt, a plan does not change any more."
    plans, line = [], CgfTable.line
    def counting(self, plan):
        plans.append(plan)
        return line(self, plan)
    monkeypatch.setattr(CgfTable, 'line', counting)
    run = Laplace(scale=2.) + RandomizedResponse(eps=1.284371890296196)
    with pytest.warns(UserWarning, match='max_nodes = 262144 reached'):
        ContourAccountant(run).delta(1.784371889296196)
    assert len(plans) == len(set(plans))

@pytest.mark.parametrize('steps, eps', [(1000, 200.), (4209, 850.)])
def test_thousands_of_laplaces_of_little_noise(steps, eps):
    "Most losses are where the loss is flat: a path that goes up there has no bound below M(t)."
    run = steps*L(.1, .03)
    found, on_a_grid = ContourAccountant(run).delta(eps), TiltedFFT(run, mesh=.01).delta(eps)
    assert on_a_grid.lower <= found.lower <= found.upper <= on_a_grid.upper
    assert found.upper/found.lower < 1 + 1e-6

def test_far_in_the_tail_of_common_laplaces():
    "A first eps, where delta is still large, is not asked for what delta will be in the end."
    run = 613*PoissonSubsampled(Laplace(scale=5.59), rate=.069)
    accountant = ContourAccountant(run.remove)
    eps = accountant.epsilon(4e-156)
    assert eps.width < 1e-7
    assert accountant.delta(eps.upper).lower <= 4e-156 <= accountant.delta(eps.lower).upper

def test_steps_of_many_atoms_are_not_enumerated_one_by_one(monkeypatch):
    "A lattice of tens of thousands beside one step of some: once was a loop over them, of lists."
    plrv = composed((DiscreteGaussian(sigma=1.) + PoissonReplaceOne(sigma=3., rate=.01)).remove)
    assert max(p.atoms[0].size for p, _ in plrv.parts) > 10_000
    def refused(*args): raise AssertionError('one step has nothing to repeat')
    monkeypatch.setattr(np, 'repeat', refused)
    assert not is_enumerable(plrv)

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_a_discrete_step_beside_a_replaced_record():
    "The mean over the outcomes k of one, of the curve of the other by its densities."
    k = np.arange(-12, 14)
    p = np.exp(-(k - 1)**2/2.)/np.exp(-(k - 1)**2/2.).sum()
    x, h = np.linspace(-36, 36, 720_001, retstep=True)
    def bell(c): return np.exp(-(x - c)**2/18)/(3*math.sqrt(2*math.pi))
    P, Q = (.99*bell(0) + .01*bell(c) for c in (1, -1))
    eps = .8
    exact = sum(w*np.maximum(P - np.exp(eps - (2*j - 1)/2)*Q, 0).sum()*h
                for w, j in zip(p, k.tolist()))
    low, _, up = ContourAccountant(DiscreteGaussian(sigma=1.)
                                   + PoissonReplaceOne(sigma=3., rate=.01)).delta(eps)
    assert low*(1 - 1e-9) <= exact <= up*(1 + 1e-9) and up < low*(1 + 1e-4)

@pytest.mark.parametrize('run, way, eps', [
    (1000*PoissonSubsampled(Laplace(scale=63.), rate=.5), 'add', 7.886348497975351),
    (1025*PoissonSubsampled(Laplace(scale=758813.203123796), rate=.001), 'remove',
     1.3308157425501614e-06)], ids=str)
def test_what_is_wide_is_said_down_to_where_doubles_end(run, way, eps):
    "A delta of 1e-300, as one of 1e-200."
    ours = ContourAccountant(getattr(run, way))
    with pytest.warns(UserWarning, match='wider than asked'):
        low, _, up = ours.delta(eps)
    assert 0 < up < 1e-299 and up - low > 1e-6*up

def test_nothing_is_said_of_deltas_that_no_double_is():
    "Below 1e-308 doubles have fewer digits, and then none."
    ours = ContourAccountant(1000*PoissonSubsampled(Laplace(scale=63.), rate=.5))
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        low, _, up = ours.delta([8.3, 9.])
    assert (0 <= low).all() and (low <= up).all() and up.max() < 1e-307

def test_why_a_line_is_left():
    "Where there are other ways, and smoothing costs much: the bounds so far hold."
    rare = 10*PoissonSubsampled(Gaussian(sigma=.5), rate=1e-3)
    table, plain = (CgfTable((RandomizedResponse(eps=1.) + rare).remove, first_nodes=n)
                    for n in (1 << 14, None))
    exact = plain.epsilon(1e-8)
    assert plain.stop is None
    table.others = True
    found = table.epsilon(1e-8)
    assert table.stop is Stop.SMOOTHED
    assert found[0] <= exact[2] and exact[0] <= found[2]
    table.others = False
    table.epsilon(1e-8)
    assert table.stop is None

@pytest.mark.parametrize("run", [n*Laplace(scale=s) for n, s in ((2, 1.), (20, 5.), (100, 1.))])
def test_eps_of_basic_composition_needs_no_line(run):
    "There delta is 0, but for the rounding of the largest loss."
    (step, n), = run.steps
    largest = n/step.scale
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter('always')
        found = ContourAccountant(run).delta(np.array([largest*(1 - 1e-3), largest]))
    assert not any('max_nodes' in str(w.message) for w in said)
    assert found.lower[1] == 0 <= found.upper[1] < 1e-14*.5**n*largest
    assert 0 < found.lower[0] <= found.upper[0]
