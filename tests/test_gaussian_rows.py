"One kind of sampled Gaussian step, in rows: against engine/line, references, and mutations."

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from dp_saddle import (
    ZCDP,
    Accountant,
    ApproxDP,
    Composition,
    ContourAccountant,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    TruncatedPoisson,
    epsilon,
    group,
)
from dp_saddle.accounting import best_answers
from dp_saddle.base.numerics import EXTENDED, ULP
from dp_saddle.engine import gaussian_rows as rows
from dp_saddle.engine import stacked_kinds
from dp_saddle.engine import transform_grids as grids
from dp_saddle.engine.line import CgfTable
from dp_saddle.engine.ways import epsilon_without
from dp_saddle.losses.densities import SubsampledGaussianLoss
from dp_saddle.losses.nodes import FiniteLoss
from dp_saddle.plrv import ComposedLoss
from oracles import by_fft
from test_transform_grids import mixed_pair, random_pairs

# What is narrow only where there is something finer than a double.
finer = pytest.mark.skipif(EXTENDED is np.float64, reason='nothing is finer than a double here')

def run_of(sigma, rate, steps):
    return steps*PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

def one(sigma, rate):
    "The kind of a sampled Gaussian step."
    return sigma, (1.,), (1.,), rate

def by_lines(run, delta):
    "(lower, upper) of eps by engine/line."
    both = [CgfTable(plrv).epsilon(delta) for plrv in (run.remove, run.add)]
    return max(low for low, *_ in both), max(0., *(up for *_, up in both))

def random_runs(seed, n):
    chance = np.random.default_rng(seed)
    for _ in range(n):
        sigma, rate = np.exp(chance.uniform(np.log((.5, 1e-3)), np.log((20., .5))))
        yield run_of(sigma, rate, int(np.exp(chance.uniform(2, 11)))), 10**-chance.uniform(2, 15)

def planned(pair, n, delta):
    "(plan, grid, step, line) of both directions together, for this question alone."
    steps, goal = np.full((2, 1), float(n)), np.full((2, 1), np.log(delta))
    with np.errstate(all='ignore'):
        plan = pair.plan(pair.table_for(n, np.log(delta)), steps, goal)
        grid = pair.grid_up_to(plan.t, 1.4*plan.guess, plan.end, 1e-9/n)
        step = pair.served(plan, steps)
        return plan, grid, step, pair.lines(step, steps, plan)

NARROW = 2e-10      # nats: an eps is known well enough (engine/gaussian_rows)

def found_beside_lines(setting):
    "What rows say: it meets the lines of engine/line, and is no wider than twice them."
    run, delta = run_of(*setting[:3]), setting[3]
    found, (low, up) = rows.epsilon_of_sampled(run, delta), by_lines(run, delta)
    assert found.lower <= up and low <= found.upper, setting
    assert found.width <= 2*(up - low) + NARROW, setting
    return found

USUAL = [(9.4, 16384/50000, 2000, 1e-5), (2., .01, 3000, 1e-5), (1.1, 256/60000, 14062, 1e-5),
         (1., .25, 40, 1e-5), (.8, .02, 2000, 1e-6), (10., .4, 5000, 1e-9), (1.5, .1, 300, 1e-12)]

@pytest.mark.parametrize('setting', USUAL, ids=str)
def test_usual_runs_are_answered_and_narrower(setting):
    run, delta = run_of(*setting[:3]), setting[3]
    found, (low, up) = rows.epsilon_of_sampled(run, delta), by_lines(run, delta)
    assert found.lower <= up and low <= found.upper
    assert found.lower <= found.estimate <= found.upper
    assert found.width <= 2*(up - low) + NARROW
    assert found == ContourAccountant(run).epsilon(delta) == epsilon_without(run, delta)
    assert epsilon(run, delta=delta) == found.upper

FEW = [pytest.param((2., .01, 10, 1e-8), marks=finer), (5.44, .0183, 5, 1.7e-10),
       (2.29, .225, 6, 6e-8), (3.4, .1, 2, 2e-8), (6.29, .00272, 13, 9e-10), (4.54, .0011, 4, 7e-8)]

@pytest.mark.parametrize('setting', FEW, ids=str)
def test_few_steps(setting):
    "Frequencies in the thousands, where the transform falls late: no wider than twice engine/line."
    found_beside_lines(setting)

@finer
@pytest.mark.parametrize('steps, delta', [(10, 1e-8), (1000, 1e-30)])
def test_where_terms_cancel(steps, delta, monkeypatch):
    "Thousands of times larger than their sum: doubles do not do, full precision does; both meet."
    run = run_of(2., .01, steps)
    rows.pair_of.cache_clear()
    fine = rows.epsilon_of_sampled(run, delta)
    pair = rows.pair_of(*one(2., .01))
    made = {name[0]: v.step for name, v in pair.known.items() if name[0] in ('ready', 'finely')}
    rough, exact = made['ready'], made['finely']
    assert np.allclose(rough.s, exact.s.astype(float), rtol=ULP, atol=0)
    assert (exact.off[0, 1:] < .01*rough.off[0, 1:]).all()
    assert (abs(exact.change - rough.change) <= exact.off + rough.off).all()
    never_again(monkeypatch)
    alone = rows.pair_of.__wrapped__(*one(2., .01))
    assert np.isnan(alone.bounds([steps, steps], [delta, delta])).all()
    low, up = by_lines(run, delta)
    assert low <= fine.upper and fine.lower <= up and 3*fine.width < up - low

@pytest.mark.parametrize('setting', [(.3, 1e-4, 1000, 1e-5), (.5132, 1.385e-4, 104, 1e-5),
                                     (.541, 1.015e-4, 327, 1e-5)], ids=str)
def test_few_rare_steps_on_a_long_line(setting):
    "Tens of thousands of nodes, where all losses are on the line: it is not kept, nor is another."
    found_beside_lines(setting)
    pair = rows.pair_of(*one(*setting[:2]))
    *_, line = planned(pair, *setting[2:])
    kept = [v for each in (pair, *pair.each) for v in each.known.values()]
    assert max(max(sizes(v), default=0) for v in kept) < 1 << 13 < line.c.shape[1]

def sizes(kept):
    "Of the arrays in what is kept."
    if isinstance(kept, np.ndarray):
        yield kept.size
    for v in kept if isinstance(kept, tuple) else ():
        yield from sizes(v)

def never_again(monkeypatch):
    "What is not narrow is not tried in full precision."
    monkeypatch.setattr(rows.Rows, 'finer', lambda self, ready: ready._replace(step=None))

def in_both(monkeypatch, **values):
    "Another value for what rows and their grids share."
    for name, value in values.items():
        for module in (rows, grids, stacked_kinds):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)

def answer_of(setting, precision, monkeypatch):
    "(bounds on eps, the grid) where the nodes are in this precision, nothing being kept."
    in_both(monkeypatch, EXTENDED=precision)
    sigma, rate, n, delta = setting
    pair = rows.pair_of.__wrapped__(*one(sigma, rate))
    _, grid, *_ = planned(pair, n, delta)
    return pair.bounds([n, n], [delta, delta])[:, 0], grid

@pytest.mark.parametrize('setting', USUAL, ids=str)
def test_a_machine_of_doubles(setting, monkeypatch):
    "A browser's answers meet ours, less than six times as wide; what its grid is off by, it says."
    (low, _, up), grid = answer_of(setting, np.float64, monkeypatch)
    here, own = answer_of(setting, EXTENDED, monkeypatch)
    assert low <= here[2] and here[0] <= up and up - low < 6*(here[2] - here[0])
    assert (abs(grid.K - own.K) <= grid.error + own.error).all()
    known = grid.off + own.off + grid.error[0] + own.error[0]
    assert (abs(grid.p - own.p) <= known*abs(own.p)).all()
    ulps = grid.moved*np.finfo(float).eps + own.moved*np.finfo(EXTENDED).eps
    # Early NumPy has exp and log of 4 ulp with AVX-512, on Linux, where there is more than doubles.
    times = 1 if np.lib.NumpyVersion(np.__version__) >= '1.25.0' else 4
    allowed = 4*ulps.astype(float) + np.finfo(float).eps*abs(own.L)
    assert (abs(grid.L - own.L) <= times*allowed).all()

def test_random_runs_meet_the_lines():
    answered = 0
    for run, delta in random_runs(23, 60):
        found = rows.epsilon_of_sampled(run, delta)
        if found is None:
            continue
        low, up = by_lines(run, delta)
        assert found.lower <= up and low <= found.upper, (run, delta)
        assert found.width <= 2.5*(up - low) + 4e-16*up + NARROW, (run, delta)
        answered += 1
    assert answered >= 40

@pytest.mark.parametrize('steps', [10**5, 10**6, 10**7])
def test_long_runs_are_no_wider(steps):
    "Rounding grows with the steps: where it would be felt, rows leave the run to engine/line."
    for sigma, rate in ((20., .01), (5., .002), (50., .2)):
        run = run_of(sigma, rate, steps)
        low, up = by_lines(run, 1e-5)
        assert ContourAccountant(run).epsilon(1e-5).width <= 2*(up - low) + NARROW

@pytest.mark.parametrize('noise', [30., 1e3, 1e4, 1e6, pytest.param(1e8, marks=finer)])
def test_much_noise(noise):
    "Tilts are large, and what they look for is far to the left: few steps or many, a small eps."
    for rate, steps in ((.01, 1000), (.3, 10), (.001, 10**5)):
        run = run_of(noise, rate, steps)
        found, (low, up) = rows.epsilon_of_sampled(run, 1e-12), by_lines(run, 1e-12)
        assert found.lower <= up and low <= found.upper
        assert found.width < 1e-6*found.upper and found.width < 1e-12

def test_free_by_chi_square():
    "Where it says that eps is 0, engine/line says so, too."
    for noise, rate, steps in ((1e3, .01, 100), (1e5, .2, 7), (3., 1e-6, 10**4), (2., 1e-4, 300)):
        run = run_of(noise, rate, steps)
        half = np.sqrt(steps*rate**2*np.expm1(noise**-2.))/2               # of the root of chi^2
        assert rows.epsilon_of_sampled(run, float(1.0001*half)) == (0, 0, 0)
        assert rows.epsilon_of_sampled(run, float(.999*half)) != (0, 0, 0)
        assert by_lines(run, float(1.0001*half)) == (0, 0)

@pytest.mark.slow
def test_more_random_runs_meet_the_lines():
    for run, delta in random_runs(24, 600):
        found = rows.epsilon_of_sampled(run, delta)
        if found:
            low, up = by_lines(run, delta)
            assert found.lower <= up and low <= found.upper, (run, delta)

def test_delta_at_the_ends():
    "By lines at the very doubles: on either side of the goal, as far as lines can tell."
    for setting in USUAL[:4]:
        run, delta = run_of(*setting[:3]), setting[3]
        found = rows.epsilon_of_sampled(run, delta)
        at = ContourAccountant(run, max_nodes=1 << 17).delta(np.array([found.lower, found.upper]))
        assert at.upper[0] >= delta >= at.lower[1]

def test_both_ways_of_the_smaller_direction():
    "A row that is dismissed and one that has a line: the answer is that of the larger direction."
    seen = set()
    for setting in USUAL + [(.67, .0056, 1000, 1e-5), (.7, .3, 30, 1e-5)]:
        run, delta = run_of(*setting[:3]), setting[3]
        pair = rows.pair_of(*one(*setting[:2]))
        n, goal = np.full((2, 1), float(setting[2])), np.full((2, 1), np.log(delta))
        with np.errstate(all='ignore'):
            found = pair.found(n, goal)
        if found:
            seen.add(bool(found.lined[1, 0]))
            assert found.lined[0, 0]
            assert rows.epsilon_of_sampled(run, delta).upper >= by_lines(run, delta)[0]
    assert seen == {True, False}

@pytest.mark.parametrize('name, value', [
    ('WEIGHT', 4e9), ('_TURN', (7e6, 3., 5)), ('_DOUBLING', (1e7, 1.)), ('_LOST', 1e-40),
    ('_CGF_ULPS', 1e7), ('BOUND_ULPS', 1e8), ('_WEIGHTED', 1e7), ('_PEAK', .01)])
def test_allowances_are_felt(monkeypatch, name, value):
    "Each enters the width: ten million times as large, it makes rows refuse or widen."
    run = run_of(*USUAL[1][:3])
    usual = rows.epsilon_of_sampled(run, 1e-5)
    in_both(monkeypatch, **{name: value})
    rows.pair_of.cache_clear()
    wide = rows.epsilon_of_sampled(run, 1e-5)
    rows.pair_of.cache_clear()
    assert wide is None or wide.width > 2*usual.width

def test_a_strip_that_is_too_coarse_is_refused(monkeypatch):
    in_both(monkeypatch, FINE_NATS=12., TURNED=(.1,))
    rows.pair_of.cache_clear()
    assert rows.epsilon_of_sampled(run_of(*USUAL[0][:3]), 1e-5) is None
    rows.pair_of.cache_clear()

def test_rows_know_what_they_do_not_serve():
    step = PoissonSubsampled(Gaussian(sigma=2.), rate=.01)
    for run in (step + Gaussian(sigma=1.), 0*step, PoissonSubsampled(Gaussian(sigma=2.), rate=.9),
                PoissonSubsampled(Gaussian(sigma=2.), rate=1.), 3*step.base, step.remove):
        assert rows.epsilon_of_sampled(run, 1e-5) is None
    for delta in (0., 1., .7, 1e-300, np.array([1e-5]), '1e-5', 1):
        assert rows.epsilon_of_sampled(100*step, delta) is None
    scaled = PoissonSubsampled(Gaussian(sigma=4., sensitivity=2.), rate=.01)
    assert rows.epsilon_of_sampled(900*scaled, 1e-5) == rows.epsilon_of_sampled(900*step, 1e-5)

def test_what_is_kept_does_not_change_the_answer():
    "Asked in any order, of one class or of several; bounded in number."
    asked = [(n, d) for n in (500, 2100, 3000, 3900, 20000) for d in (1e-3, 1e-5, 1e-6, 1e-9)]
    alone = {}
    for n, d in asked:
        rows.pair_of.cache_clear()
        alone[n, d] = rows.epsilon_of_sampled(run_of(2., .01, n), d)
    rows.pair_of.cache_clear()
    for n, d in asked[::-1] + asked:
        assert rows.epsilon_of_sampled(run_of(2., .01, n), d) == alone[n, d]
    pair = rows.pair_of(*one(2., .01))
    classes = sum(name[0] == 'ready' for name in pair.known)
    assert classes < len(asked)
    for n in range(2, 10**6, 10**4):
        rows.epsilon_of_sampled(run_of(2., .01, n), 10**-(2 + n/10**5))
    assert len(pair.known) <= 32

def test_a_class_serves_its_corners():
    "The fewest and the most steps, the largest and the smallest delta: all narrow."
    for sigma, rate, k in ((9.4, .33, 11), (2., .01, 12), (1.1, .0043, 14), (1.3, .02, 12)):
        for n in (2**k, 2**(k + 1) - 1):
            for log_delta in (-8., -11.3, -11.4, -15.9, -16.1):
                run, delta = run_of(sigma, rate, n), float(np.exp(log_delta))
                found, (low, up) = rows.epsilon_of_sampled(run, delta), by_lines(run, delta)
                assert found.lower <= up and low <= found.upper and found.width < NARROW

@finer
def test_many_runs_at_once(monkeypatch):
    """As alone, where none is tried again in full precision: who is answered, but for a few that
    are just narrow enough one way and, of fewer steps than 30, those whose tail just fits a class
    or one question; and bounds that meet and are no wider than twice; in any order."""
    never_again(monkeypatch)
    rows.pair_of.cache_clear()
    asked = [*random_runs(25, 150), *((run_of(*u[:3]), u[3]) for u in USUAL)]
    runs, deltas = zip(*asked, strict=True)
    together = rows.epsilons_of_sampled(runs, deltas)
    answered = alone_only = together_only = 0
    for (run, delta), found in zip(asked, together, strict=True):
        alone = rows.epsilon_of_sampled(run, delta)
        alone_only += found is None and alone is not None
        together_only += alone is None and found is not None and run.steps[0][1] >= 30
        if found and alone:
            assert found.lower <= found.estimate <= found.upper
            assert found.lower <= alone.upper and alone.lower <= found.upper, (run, delta)
            assert found.width <= 2*alone.width + 4e-16*found.upper + NARROW, (run, delta)
            answered += 1
    assert answered >= 75 and together_only <= 1 and alone_only <= 1
    back = rows.epsilons_of_sampled(runs[::-1], deltas[::-1])[::-1]
    for one, other in zip(together, back, strict=True):
        assert not (one and other) or one.lower <= other.upper and other.lower <= one.upper

def test_many_runs_and_what_is_none():
    "Whatever is no such run has no answer, and changes no other."
    runs = [run_of(2., .01, 3000), Gaussian(sigma=1.), 'run', 0*run_of(2., .01, 1)]
    first, *others = rows.epsilons_of_sampled(runs, [1e-5]*4)
    assert others == [None]*3 and [first] == rows.epsilons_of_sampled(runs[:1], [1e-5])
    for delta in (0., .7, 1e-300):
        assert rows.epsilons_of_sampled(runs, [delta]*4) == [None]*4
    assert rows.epsilons_of_sampled([], []) == []

@pytest.mark.parametrize('at_once', [1, 1 << 24])
def test_any_number_at_once(monkeypatch, at_once):
    "Alone or all together: proved the same way."
    usual = rows.epsilons_of_sampled([run_of(*u[:3]) for u in USUAL], [u[3] for u in USUAL])
    monkeypatch.setattr(rows, 'TOGETHER', at_once)
    found = rows.epsilons_of_sampled([run_of(*u[:3]) for u in USUAL], [u[3] for u in USUAL])
    for one, other in zip(usual, found, strict=True):
        assert one.lower <= other.upper and other.lower <= one.upper
        assert other.width <= 2*one.width + NARROW and one.width <= 2*other.width + NARROW

def test_what_is_lost():
    "The probability beyond an end; and the end is where that is next to nothing of delta."
    for pair, *_ in random_pairs(33, 40):
        for n, delta in ((1, 1e-2), (10**3, 1e-5), (10**6, 1e-9), (50, 1e-60)):
            steps, goal = np.full((2, 1), float(n)), np.full((2, 1), np.log(delta))
            end = pair.reach(steps, goal)[1]
            sigma, rate, x = pair.sigma[0, 0], pair.rate[0, 0], end[0, 0]
            beyond = (1 - rate)*ndtr(-x/sigma) + rate*ndtr(-(x - 1)/sigma)
            lost = np.exp(pair.lost(steps, end))
            assert n*beyond <= lost[0, 0] and lost[1, 0] == 0
            assert lost[0, 0] <= 2e-16*delta*np.sqrt(-2*n*np.log(delta))

def test_a_transform_is_below_its_coarse_bound():
    "Both directions, a table's tilts, against losses/nodes's sums; most are known to eight digits."
    off = []
    for pair, t, *_ in random_pairs(32, 40):
        with np.errstate(all='ignore'):
            table = pair.tabulate(2*t, 1 + (~pair.adds)*2*t + 10*pair.sigma)
            tops = pair.rounded_up(table)
        for row, top in enumerate(('remove', 'add')):
            loss = SubsampledGaussianLoss(pair.mu[0, 0], pair.rate[0, 0], top)
            for k in (0, -12, -6, -3, -1):
                exact, error = loss.known_cgf(float(table.u[row, k]))
                assert exact - error <= tops[row, k]
                off.append((tops[row, k] - exact - error)/max(1, abs(exact)))
    assert np.quantile(off, .9) < 1e-8

def test_who_is_dismissed_too_early_is_asked_again():
    "The first guess of eps is two thirds too large here, and adding has no line at first."
    run = run_of(1.3075864810601399, .00033909165332093866, 25271)
    (many,), alone = rows.epsilons_of_sampled([run], [1e-5]), rows.epsilon_of_sampled(run, 1e-5)
    assert many.lower <= alone.upper and alone.lower <= many.upper and many.width < NARROW

def test_a_list_is_an_array(monkeypatch):
    "Of deltas and of eps: the same doubles, and no accountant; what holds no numbers is an error."
    run = 3000*PoissonSubsampled(base=Gaussian(sigma=1.1), rate=.01)
    deltas, eps = [1e-5, 1e-6], [1, 2]
    found = epsilon(run, delta=np.array(deltas)), best_answers.delta(run, eps=np.array(eps, float))
    monkeypatch.setattr(best_answers, 'best_accountant', None)
    for kind in (list, tuple, np.array):
        assert np.array_equal(epsilon(run, delta=kind(deltas)), found[0])
        assert np.array_equal(best_answers.delta(run, eps=kind(eps)), found[1])
    monkeypatch.undo()
    for wrong in (['a'], [True], [.1, None], [.1, [.2]]):
        with pytest.raises(TypeError, match='delta must be'): epsilon(run, delta=wrong)

def test_few_calls():
    "A question takes hundreds of calls of functions of this library, not thousands."
    import cProfile
    import pstats
    run = run_of(*USUAL[0][:3])
    rows.pair_of.cache_clear()
    profile = cProfile.Profile()
    profile.enable()
    epsilon(run, delta=1e-5)
    profile.disable()
    calls = pstats.Stats(profile).stats.items()
    ours = str(Path(rows.__file__).parent)
    assert sum(count for (path, *_), (_, count, *_) in calls if path.startswith(ours)) < 300

def test_no_row_goes_beyond_its_strip(monkeypatch):
    "Rows share a number of nodes; one whose cut comes first stops there."
    shorter, grids, kind = 0, [], type(rows.pair_of(*one(2., .01)))
    make = kind.step
    def step_on(pair, plan, grid, *asked):
        grids.append(grid)
        return make(pair, plan, grid, *asked)
    monkeypatch.setattr(kind, 'step', step_on)
    for setting in USUAL + [(6., .3, 700, 1e-4), (1.2, .3, 60, 1e-5)]:
        sigma, rate, steps, delta = setting
        plan, _, step, line = planned(rows.pair_of(*one(sigma, rate)), steps, delta)
        for row in np.flatnonzero(plan.lined[:, 0]):
            used = line.c[row] != 0
            assert line.s[row][used].max() < step.cut[row, 0] + line.s[row, 1]
            assert line.s[row][used].max() <= grids[-1].cut[row, 0]
            shorter += not used.all()
    assert shorter >= 2

RARE = [(1.17, 1.3e-4, 8089, 1e-5), (.78, 4.9e-4, 28610, 1e-5), (2.06, 1.4e-4, 403, 1e-5),
        (.68, 1.7e-4, 157, 1e-5), (6.1, 1.6e-4, 169, 1e-5), (4.4, 4.1e-4, 11166, 1e-5)]

def test_rare_hits_have_paths(monkeypatch):
    grids = []
    make = type(rows.pair_of(*one(2., .01))).grid
    def grid(*asked):
        grids.append(make(*asked))
        return grids[-1]
    monkeypatch.setattr(type(rows.pair_of(*one(2., .01))), 'grid', grid)
    rows.pair_of.cache_clear()
    for setting in RARE:
        rows.epsilon_of_sampled(run_of(*setting[:3]), setting[3])
    assert len(grids) >= len(RARE) and all(grid.L.dtype == complex for grid in grids)

@pytest.mark.parametrize('setting', RARE, ids=str)
def test_rare_hits(setting):
    "Lines far below the saddle-point; alone and together, against sorted runs."
    run, delta = run_of(*setting[:3]), setting[3]
    (other,) = rows.epsilons_of_sampled([run], [delta])
    found, slow = rows.epsilon_of_sampled(run, delta), ContourAccountant(run, rtol=.99e-10)
    low, _, up = slow.epsilon(delta)
    for own in (found, other):
        assert own.lower <= up and low <= own.upper and own.width <= 2*(up - low) + NARROW

def test_a_machine_of_doubles_on_paths(monkeypatch):
    "As above; the answers meet."
    for setting in RARE[:3]:
        answers = []
        for precision in (EXTENDED, np.float64):
            in_both(monkeypatch, EXTENDED=precision)
            pair = rows.pair_of.__wrapped__(*one(*setting[:2]))
            answers.append(pair.bounds([setting[2]]*2, [setting[3]]*2)[:, 0])
        (low, _, up), (least, _, most) = answers
        assert not (low > most or least > up)

def test_ends_and_tangents_of_bad_plans(monkeypatch):
    "An end far too near, a strip too narrow, a tangent too long: wide, and true all the same."
    rng, answered = np.random.default_rng(11), 0
    for _ in range(60):
        rare = rng.random() < .5
        sigma = float(np.exp(rng.uniform(np.log(.3), np.log(3 if rare else 30))))
        rate = float(np.exp(rng.uniform(*np.log((1e-7, 3e-3) if rare else (1e-4, .5)))))
        run = run_of(sigma, rate, int(np.exp(rng.uniform(2, np.log(1e6)))))
        delta = float(10**-rng.uniform(.5, 12))
        rows.pair_of.cache_clear()
        known = rows.epsilon_of_sampled(run, delta)
        lost = 10**rng.uniform(3, 12)
        far = 10**rng.uniform(-8, -1)
        own = vars(rows)['_next_to']
        def next_to(*a, own=own, far=far):
            line, e = own(*a)
            return line, e*(1 + far)
        bad = dict(_HARM=lost, _fits=lambda g, plan, n, turned: n*g.strip <= 1e3, _next_to=next_to)
        with monkeypatch.context() as patch:
            for name, value in bad.items(): patch.setattr(rows, name, value)
            rows.pair_of.cache_clear()
            found = rows.epsilon_of_sampled(run, delta)
        if known is None or found is None: continue
        answered += 1
        assert found.lower <= known.upper and known.lower <= found.upper, (run, delta, lost, far)
    rows.pair_of.cache_clear()
    assert answered > 10

FARTHER = (.53, 1.2e-4, 13241, 1e-5), (.51, .0255, 12809, 1e-5)

@pytest.mark.parametrize('setting', FARTHER, ids=str)
def test_a_line_may_end_farther_than_planned(setting, monkeypatch):
    "One grid serves it if its strips do: up to 1.2 times the plan's frequency and far beyond."
    sigma, rate, n, delta = setting
    asked, own = [], rows.Rows.up_to
    def up_to(self, grid, cut):
        asked.append(float(cut.max()))
        return own(self, grid, cut)
    monkeypatch.setattr(rows.Rows, 'up_to', up_to)
    pair = rows.pair_of.__wrapped__(*one(sigma, rate))
    with np.errstate(all='ignore'):
        ready = pair.ready(n, n, np.log(delta))
    assert len(asked) == 1 and ready.step
    assert asked[0] > 1.2*ready.guess[0, 0]

def test_plans_of_many_are_rounded_up():
    "K_1 at the tilts of the aliases, from a table of each direction: just above losses/nodes's."
    noise, rates = np.array([.6, 1.3, 9.4]), np.array([1e-3, .03, .33])
    mu, rate = (np.tile(v, 2)[:, None] for v in (1/noise, rates))
    many = rows.Rows(mu, rate, np.repeat([[False], [True]], 3, axis=0))
    with np.errstate(all='ignore'):
        plans = many.plans(np.full((6, 1), 500.), np.full((6, 1), np.log(1e-6)))
    assert plans.ok.all()
    for k, adds in enumerate(many.adds[:, 0]):
        loss = SubsampledGaussianLoss(mu[k, 0], rate[k, 0], 'add' if adds else 'remove')
        exact, error = loss.known_cgf(float(plans.u[k, 0]))
        assert exact - error <= plans.top[k, 0] <= exact + 1e-8*max(1, exact)

# A plan's eps 30 times too large, where the sum is rounding; strips that only many nats of
# cancelling feel; paths next to the limit of what is narrow.
ONCE_LOST = [
    (1.2093977701416314, 1.1128075290575517e-06, 149, 3.512987802319804e-10),
    (1.3645014885885673, 6.896652418904491e-06, 35, 4.2167302020820484e-10),
    (.38157845875387425, .017690124327041434, 25758, 3.5706959901512874e-35),
    pytest.param((.631180642033459, .02736992002100058, 11100, 5.902084410266702e-122),
                 marks=finer),
    (.5259287038805228, .035295552447698844, 1029, 1.2394120658543664e-118)]

@pytest.mark.parametrize('setting', ONCE_LOST, ids=str)
def test_what_was_lost_once(setting):
    "Found by reviews: answers, alone or together, that a change of grids or of steps had lost."
    run, delta = run_of(*setting[:3]), setting[3]
    alone, (other,) = rows.epsilon_of_sampled(run, delta), rows.epsilons_of_sampled([run], [delta])
    assert alone and other and max(alone.width, other.width) < NARROW
    assert alone.lower <= other.upper and other.lower <= alone.upper

@finer
def test_full_precision_just_does():
    "Rounding as it is counted leaves .96 of what is narrow."
    run = run_of(1.1041451187339435, .0012880769694643213, 3148)
    assert rows.epsilon_of_sampled(run, 2.042838911601971e-12).width < NARROW

def random_kinds(seed, count):
    "Runs of two to eight kinds, every third with Gaussian steps; and deltas."
    chance = np.random.default_rng(seed)
    for k in range(count):
        run = run_of(1., .01, 2)
        for _ in range(chance.integers(1, 8)):
            sigma, rate = np.exp(chance.uniform(np.log((.5, 1e-4)), np.log((15., .5))))
            run = run + run_of(sigma, rate, int(np.exp(chance.uniform(0, 9))))
        yield run + (k % 3 == 0)*4*Gaussian(sigma=9.), 10**-chance.uniform(2, 14)

def meets_the_accountant(run, delta):
    "Is there an answer? If so, it meets engine/ways's, which knows nothing of rows."
    if not (found := rows.epsilon_of_kinds(run, delta)):
        return False
    known = Accountant.epsilon(ContourAccountant(run), delta)
    assert found.lower <= known.upper and known.lower <= found.upper, (run, delta)
    assert found.width <= 2*known.width + NARROW, (run, delta)
    return True

def test_several_kinds_on_one_line():
    answered = [meets_the_accountant(*asked) for asked in random_kinds(41, 20)]
    assert sum(answered) >= 14

@pytest.mark.slow
def test_more_of_several_kinds():
    answered = [meets_the_accountant(*asked) for asked in random_kinds(42, 400)]
    assert sum(answered) >= 280

def with_others(seed, count):
    "Runs of one to three kinds, with others beside; and deltas."
    chance = np.random.default_rng(seed)
    def size(low, high): return float(np.exp(chance.uniform(np.log(low), np.log(high))))
    kinds = [lambda: Laplace(scale=size(.5, 60)), lambda: RandomizedResponse(eps=size(.02, 2)),
             lambda: PureDP(eps=size(.01, 1)), lambda: Gaussian(sigma=size(3, 50)),
             lambda: DiscreteGaussian(sigma=size(2, 20)),
             lambda: DiscreteLaplace(scale=size(2, 20)),
             lambda: PoissonSubsampled(Laplace(scale=size(.7, 8)), rate=size(.002, .3)),
             lambda: PoissonSubsampled(RandomizedResponse(eps=size(.1, 2)), rate=size(.02, .5)),
             lambda: MixtureOfGaussians(sigma=size(.8, 5), sensitivities=(0., 1., 2.),
                                        probabilities=(.9, .08, .02))]
    for _ in range(count):
        run = run_of(size(.7, 8), size(.002, .3), int(size(10, 5000)))
        for _ in range(chance.integers(0, 3)):
            run = run + run_of(size(.7, 8), size(.002, .3), int(size(10, 5000)))
        for _ in range(chance.integers(1, 4)):
            run = run + int(size(1, 60))*kinds[chance.integers(len(kinds))]()
        yield run, 10**-chance.uniform(2, 14)

def test_others_beside():
    answered = [meets_the_accountant(*asked) for asked in with_others(43, 20)]
    assert sum(answered) >= 17

@pytest.mark.slow
def test_more_others_beside():
    answered = [meets_the_accountant(*asked) for asked in with_others(44, 400)]
    assert sum(answered) >= 340

@pytest.mark.parametrize('what', ['K', 'error', 'change', 'log_error'])
def test_what_others_say_is_heard(monkeypatch, what):
    "A line of theirs that says something else moves the answer, or its width."
    run, line = run_of(2., .01, 1000) + 9*Laplace(scale=15.), ComposedLoss.line
    usual = rows.epsilon_of_kinds(run, 1e-6)
    def other(self, t, s):
        values = line(self, t, s)
        return values._replace(**{what: getattr(values, what)*(1 + 1e-7) + 1e-7})
    monkeypatch.setattr(ComposedLoss, 'line', other)
    moved = rows.epsilon_of_kinds(run, 1e-6)
    if what in ('error', 'log_error'): assert moved is None or moved.width > 10*usual.width
    else: assert moved.upper < usual.lower or usual.upper < moved.lower

@pytest.mark.parametrize('method', ['decay', 'known_cgf'])
def test_what_others_bound_is_heard(monkeypatch, method):
    run = run_of(2., .01, 1000) + 9*RandomizedResponse(eps=.2)
    usual, bound = rows.epsilon_of_kinds(run, 1e-6), getattr(FiniteLoss, method)
    def worse(self, *asked):
        if method == 'known_cgf': return tuple(np.add(bound(self, *asked), (0., 40.)))
        return bound(self, *asked)._replace(log_atoms=np.nan)
    monkeypatch.setattr(FiniteLoss, method, worse)
    found = rows.epsilon_of_kinds(run, 1e-6)
    assert found is None or found.width > 10*usual.width

def test_a_hundred_kinds_and_one_kind_in_parts():
    "More than a group; and parts whose noise is the same but for an ulp or two are one run."
    sigmas = 2*(1 + 1e-13*np.arange(100))
    parts = sum((run_of(sigma, .01, 30) for sigma in sigmas[1:]), run_of(sigmas[0], .01, 30))
    whole, found = rows.epsilon_of_sampled(run_of(2., .01, 3000), 1e-5), epsilon(parts, delta=1e-5)
    assert whole.lower*(1 - 1e-11) <= found <= whole.upper + 1e-11
    assert rows.epsilon_of_kinds(parts, 1e-5).upper == found

@pytest.mark.parametrize('name, value', [('_ADDED', 1e7), ('_CGF_ULPS', 1e7), ('_LOST', 1e-40)])
def test_allowances_of_kinds_are_felt(monkeypatch, name, value):
    run = run_of(2., .01, 1000) + run_of(3., .02, 500) + Gaussian(sigma=8.)
    usual = rows.epsilon_of_kinds(run, 1e-6)
    monkeypatch.setattr(rows, name, value)
    wide = rows.epsilon_of_kinds(run, 1e-6)
    assert wide is None or wide.width > 2*usual.width

def test_kinds_that_are_none():
    sampled = run_of(2., .01, 100)
    for run in (sampled, Gaussian(sigma=3.), 2*Gaussian(sigma=3.), 5*Laplace(scale=9.),
                sampled + ApproxDP(eps=.1, delta=1e-9), sampled + ZCDP(rho=.01),
                sampled + TruncatedPoisson(sigma=2., rate=.01, dataset_size=10000,
                                           max_batch_size=120),
                sampled + run_of(.1, .01, 3), 0*sampled + sampled,
                None):
        assert rows.epsilon_of_kinds(run, 1e-5) is None
    several = sampled + Gaussian(sigma=3.)
    for delta in (0, 1e-300, .5, 1, None, np.array([1e-5]), float('nan')):
        assert rows.epsilon_of_kinds(several, delta) is None
    assert rows.epsilon_of_kinds(several, 1e-5)

def test_mixtures_of_two():
    "What one record moves with a probability is sampled, beside others, too."
    def mixture(c, p): return MixtureOfGaussians(sigma=3., sensitivities=c, probabilities=p)
    two, one = mixture((0., 1.5), (.98, .02)), PoissonSubsampled(Gaussian(sigma=2.), rate=.02)
    plain = mixture((1.5, 0., 1.5), (.01, .98, .01))
    for step in (two, plain):
        assert rows.epsilon_of_sampled(700*step, 1e-6) == rows.epsilon_of_sampled(700*one, 1e-6)
    beside = 700*two + 30*PoissonSubsampled(Gaussian(sigma=1.), rate=.01)
    found = rows.epsilon_of_kinds(beside, 1e-6)
    line = ContourAccountant(beside.remove).epsilon(1e-6)
    assert found.lower <= line.upper and line.lower <= found.upper

def test_fifteen_hundred_kinds_are_rows():
    "Noise from 1 to 1.000001 costs between what both ends cost; a thousand is no limit."
    sigmas = 1 + 1e-6*np.arange(1500)/1500
    run = sum((run_of(sigma, .01, 2) for sigma in sigmas[1:].tolist()), run_of(1., .01, 2))
    least, most = (rows.epsilon_of_sampled(run_of(s, .01, 3000), 1e-6) for s in sigmas[[-1, 0]])
    found = rows.epsilon_of_kinds(run, 1e-6)
    assert len(run.steps) == 1500 and found is not None
    assert least.lower < found.lower <= found.upper < most.upper < least.upper*(1 + 1e-5)
    assert found.upper - found.lower < 1e-9

# (noise, rate, steps of a kind, kinds of about this noise). Of the second, whose steps are rare,
# rounding is more than few kinds may have.
MANY_KINDS = [[(.8, .01, 1, 1000), (1., .01, 2, 1000), (3., .03, 1, 1000)],
              [(.7, .001, 1, 400), (1.5, .001, 1, 700)]]

def nearly_alike(kinds, apart=1e-14):
    "A run in which no two noises are the same, and the last digits of all differ."
    steps = [(PoissonSubsampled(Gaussian(sigma=sigma*(1 + apart*k)), rate=rate), n)
             for sigma, rate, n, count in kinds for k in range(count)]
    chance = np.random.default_rng(5)
    return Composition(steps=[steps[k] for k in chance.permutation(len(steps))])

def alike(kinds, more=0.):
    "The same with as few noises, `more` larger, relatively."
    return sum((run_of(sigma*(1 + more), rate, n*count) for sigma, rate, n, count in kinds[1:]),
               run_of(kinds[0][0]*(1 + more), kinds[0][1], kinds[0][2]*kinds[0][3]))

@pytest.mark.parametrize('kinds', MANY_KINDS, ids=['3000', '1100'])
def test_thousands_of_kinds_cost_what_two_or_three_do(kinds):
    "By a line that knows nothing of rows, and by a Fourier transform, of as few kinds."
    run = nearly_alike(kinds)
    found = rows.epsilon_of_kinds(run, 1e-5)
    assert len(run.steps) == sum(count for *_, count in kinds) and found.width < 1e-9
    most, least = (Accountant.epsilon(ContourAccountant(alike(kinds, more), max_nodes=1 << 17),
                                      1e-5) for more in (0., 1e-14*1000))
    assert least.lower <= found.upper and found.lower <= most.upper
    assert abs(found.estimate - most.estimate) < 2e-10 + 2e-11*found.estimate
    steps = [(('sub', ('gaussian', sigma), rate), n*count) for sigma, rate, n, count in kinds]
    low, up = by_fft(steps, found.estimate, log2n=16)
    assert low < 1e-5 < up < 1.01e-5
    assert epsilon_without(run, 1e-5) == found

def test_four_times_as_many_kinds_take_no_more_memory():
    def most_held(count):
        sigmas = np.linspace(2., .8, count).tolist()
        run = Composition(steps=[(PoissonSubsampled(Gaussian(sigma=s), rate=.05), 1)
                                 for s in sigmas])
        tracemalloc.start()
        try:
            assert rows.epsilon_of_kinds(run, 1e-5).width < NARROW
            return tracemalloc.get_traced_memory()[1]
        finally: tracemalloc.stop()
    assert most_held(800) < 1.5*most_held(200)

def test_no_number_of_kinds_is_too_large(monkeypatch):
    seen = []
    class Counted:
        def __init__(self, counts, *others): seen.append(len(counts))
        def bounds(self, delta): return None
    monkeypatch.setattr(rows, '_MixedRun', Counted)
    steps = [(PoissonSubsampled(Gaussian(sigma=1 + k*1e-6), rate=.01), 1) for k in range(17000)]
    rows.epsilon_of_kinds(Composition(steps=steps), 1e-5)
    assert seen == [17000]

def test_a_line_that_ends_too_early_is_made_again(monkeypatch):
    "And one that ends late is cut: the answer is the same."
    run = run_of(2., .01, 1000) + run_of(3., .02, 500) + Gaussian(sigma=8.)
    usual = rows.epsilon_of_kinds(run, 1e-6)
    for cut in (.3, 4.):
        monkeypatch.setattr(rows, '_ROOM', cut)
        found = rows.epsilon_of_kinds(run, 1e-6)
        assert max(abs(np.subtract(found[:3], usual[:3]))) < NARROW/10

@pytest.mark.slow
def test_a_noise_that_falls_at_each_step():
    run = Composition(steps=[(PoissonSubsampled(Gaussian(sigma=2*.999**k), rate=.001), 1)
                             for k in range(1030)])
    assert meets_the_accountant(run, 1e-5)

# --- several amounts

def random_step(chance):
    "Two to eight amounts: even, of all sizes, or any; alone, on a sample, or of a group."
    count = int(chance.integers(2, 9))
    sigma = float(np.exp(chance.uniform(np.log(.15), np.log(12))))
    amounts = (np.arange(1., count + 1), np.sort(np.exp(chance.uniform(-3, 0, count))),
               np.sort(chance.uniform(0, 3, count)))[chance.integers(3)]
    amounts = amounts/amounts[-1]
    shares = np.exp(chance.uniform(np.log(1e-6), np.log(.3), count))
    if chance.random() < .3: shares = .05**np.arange(1, count + 1)*chance.uniform(.2, 3)
    most = chance.uniform(.5, .89) if chance.random() < .2 else .45
    if (total := shares.sum()) > .45: shares *= most/total
    step = MixtureOfGaussians(sigma=sigma, sensitivities=(0., *amounts),
                              probabilities=(1 - shares.sum(), *shares))
    if chance.random() < .3: return PoissonSubsampled(step, rate=float(chance.uniform(.01, .9)))
    if chance.random() < .2: return group(run_of(sigma*count, chance.uniform(.001, .05), 1), count)
    return step

def random_mixtures(seed, n):
    chance = np.random.default_rng(seed)
    for _ in range(n):
        step = random_step(chance)
        yield int(np.exp(chance.uniform(2, 10)))*step, 10**-chance.uniform(2, 14)

def answered(seed, n):
    "How many of so many runs have an answer: it meets engine/line's, and is as narrow."
    found = 0
    for run, delta in random_mixtures(seed, n):
        ours, (low, up) = rows.epsilon_of_sampled(run, delta), by_lines(run, delta)
        if ours is None: continue
        assert ours.lower <= up and low <= ours.upper, (run, delta)
        assert ours.width <= 2*(up - low) + NARROW, (run, delta)
        found += 1
    return found

def test_random_mixtures_meet_the_lines():
    assert answered(71, 40) > 32

@pytest.mark.slow
def test_more_random_mixtures_meet_the_lines():
    assert answered(72, 250) > 210

def test_one_amount_is_a_sampled_gaussian():
    for sigma, rate, n, delta in ((2., .01, 3000, 1e-5), (.8, .2, 50, 1e-9), (9., .4, 800, 1e-7)):
        known = rows.pair_of(*one(sigma, rate)).bounds([n, n], [delta, delta])
        ours = mixed_pair(sigma, (1.,), (rate,)).bounds([n, n], [delta, delta])
        assert ours[0] <= known[2] and known[0] <= ours[2]
        assert ours[2] - ours[0] < 3*(known[2] - known[0])

def test_amounts_that_are_as_good_as_one():
    "Equal amounts but for a rounding, and one that is hardly ever there, change next to nothing."
    known = rows.pair_of(*one(2., .01)).bounds([3000, 3000], [1e-5, 1e-5])
    for amounts, shares in (((1., 1 + 1e-12), (.005, .005)), ((1., 1.2), (.01, 1e-25))):
        ours = mixed_pair(2., amounts, shares).bounds([3000, 3000], [1e-5, 1e-5])
        assert abs(ours - known).max() < 1e-9

@pytest.mark.parametrize('setting', [
    (2., (1., 2.), (.015, .005), 3000, 1e-5), (1., (.1, 1.), (.3, 1e-4), 200, 1e-9),
    (5., (1., 2., 3., 4.), (.03, 1e-3, 1e-5, 1e-8), 5000, 1e-6)], ids=str)
def test_mixtures_on_a_machine_of_doubles(setting, monkeypatch):
    "A browser's answers meet ours, less than six times as wide."
    *kind, n, delta = setting
    here = mixed_pair(*kind).bounds([n, n], [delta, delta])[:, 0]
    in_both(monkeypatch, EXTENDED=np.float64)
    low, _, up = mixed_pair(*kind).bounds([n, n], [delta, delta])[:, 0]
    assert low <= here[2] and here[0] <= up and up - low < 6*(here[2] - here[0]) + 1e-12

def test_mixtures_at_once_and_one_by_one(monkeypatch):
    "Runs of all shapes together are the runs alone, where none is tried again in full precision."
    never_again(monkeypatch)
    asked = [*random_mixtures(74, 50), (run_of(2., .01, 3000), 1e-5), (5*Laplace(scale=2.), 1e-5)]
    together = rows.epsilons_of_sampled(*zip(*asked, strict=True))
    alone = [rows.epsilon_of_sampled(*each) for each in asked]
    assert alone[-1] is together[-1] is None and alone[-2] and together[-2]
    both = [pair for pair in zip(alone, together, strict=True) if None not in pair]
    assert len(both) >= 40 and len(both) >= sum(one is not None for one in alone) - 2
    for one, other in both:
        assert one.lower <= other.upper and other.lower <= one.upper
        assert other.width <= 1.5*one.width + NARROW

def mixtures_beside(seed, count):
    "Runs of several kinds, mixtures among them; and deltas."
    chance = np.random.default_rng(seed)
    for k in range(count):
        run = int(chance.integers(2, 2000))*random_step(chance)
        for _ in range(chance.integers(1, 5)):
            run = run + int(chance.integers(2, 500))*random_step(chance)
        if k % 2: run = run + run_of(chance.uniform(.7, 8), .01, 700) + 3*Gaussian(sigma=9.)
        if not k % 5: run = run + 4*Laplace(scale=20.)
        yield run, 10**-chance.uniform(2, 14)

def test_several_kinds_of_mixtures():
    found = [meets_the_accountant(*asked) for asked in mixtures_beside(75, 20)]
    assert sum(found) >= 13

@pytest.mark.slow
def test_more_kinds_of_mixtures():
    found = [meets_the_accountant(*asked) for asked in mixtures_beside(76, 80)]
    assert sum(found) >= 52
