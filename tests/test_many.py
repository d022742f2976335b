"engine/many: one line for many compositions, against engine/line."
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_saddle import Composition, ContourAccountant, Gaussian, Laplace, PoissonSubsampled
from dp_saddle.base.numerics import ULP
from dp_saddle.engine.many import LinePlan, LossFamily, on_lines, tilted_sum
from dp_saddle.engine.mixed_steps import SplitCounts, smaller_steps, split_steps, whole_steps

pytestmark = pytest.mark.filterwarnings('error')

NOISES = 1.5*np.geomspace(1, 20, 8)
KINDS = [PoissonSubsampled(base=Gaussian(sigma=float(s)), rate=.05) for s in NOISES]

@pytest.fixture(scope='module')
def families():
    return [LossFamily(KINDS, direction) for direction in ('remove', 'add')]

def test_what_mixing_adds_is_added_where_steps_are_mixed_only(families):
    family = families[0]
    counts = np.zeros((2, 8))
    counts[:, :2] = 3, 4
    steps = np.zeros((2, 8))
    steps[:, 0] = 7
    spread = np.zeros((2, 8))
    spread[1, 0] = 1.
    plain, mixed = tilted_sum(family, SplitCounts(counts, steps, spread))
    above = family.K + family.error
    assert plain == pytest.approx(counts[0] @ above, rel=1e-9, abs=2e-12)
    split = counts[1] @ above + 7*family.jump[0]
    assert mixed == pytest.approx(np.minimum(split, 7*above[0]), rel=1e-9, abs=2e-12)
    assert (mixed >= plain*(1 - 1e-12)).all()

CELLS = (0, 1), (2, 3), (7, 8)

@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.sampled_from(CELLS))
def test_tilted_sum_covers_mixtures(families, weights, cell):
    "K of the steps whose coin is shown, at every tilt of the family."
    family, w = families[0], np.array(weights)
    K = np.vstack([family.K, np.zeros(family.t.size)])[list(cell)]
    K = K[:, family.t < 50]
    gain = w[:, None]*np.expm1(K[0]) + (1 - w)[:, None]*np.expm1(K[1])    # K may be 1e-9
    truth = np.log1p(gain).sum(0)*(1 - 32*ULP)                            # as doubles know it
    table = np.zeros((1, 16))
    table[0, cell[0]], table[0, 8 + cell[0]] = len(w), w.sum()
    bound = tilted_sum(family, split_steps(table))[0, family.t < 50]
    assert (truth <= bound).all()

# The steps of records

def test_tables_are_split_and_rounded():
    table = np.array([[4., 0., 2., 1., 0., 2.]])           # 4 of cell 0 of weight 1, 2 of cell 2
    split, small = split_steps(table), smaller_steps(table)
    assert split.counts.tolist() == [[1, 3, 2]] and split.steps.tolist() == [[4, 0, 2]]
    assert split.spread.tolist() == [[.75, 0, 0]]          # w(1 - w) = 3/16, four times
    assert small.counts.tolist() == [[0, 4, 0]] and not small.spread.any()

def test_rounded_steps_are_of_the_larger_kind():
    mixed = split_steps(np.array([[4., 0., 1., 0.], [4., 0., 1., 0.]]))
    rounded = mixed.rounded(np.array([True, False]))
    assert rounded.counts.tolist() == [[4, 0], [1, 3]]
    assert rounded.spread.tolist() == [[0, 0], mixed.spread[1].tolist()]
    assert rounded.of([1]).counts.tolist() == [[1, 3]]

# Families and lines

def test_a_family_knows_its_losses(families):
    for family, direction in zip(families, ('remove', 'add'), strict=True):
        near = family.t < 250
        for kind, K, error, tv in zip(KINDS, family.K, family.error, family.tv, strict=True):
            loss = getattr(kind, direction)
            truth = loss.cgf(family.t[:300])
            assert K[near] == pytest.approx(truth[near[:300]], rel=1e-9, abs=1e-15)
            assert (abs(K[:300] - truth) <= error[:300] + 1e-9*abs(truth)).all()
            assert tv == pytest.approx(float(loss.delta(0.)), rel=1e-9)

def test_a_family_with_corners_takes_what_a_smooth_one_has(families):
    "And the other way round: they look at other frequencies."
    smooth, (loud, quiet) = families[0], KINDS[:2]
    mixed = [loud, quiet, Laplace(scale=30.)]
    corners = LossFamily(mixed, 'remove', tilts=smooth.t)
    for kinds, known in ((mixed, smooth), (KINDS, corners)):
        used = np.ones(len(kinds), bool)
        known.decay(3, np.ones(len(known.steps), bool))
        s, log_most = LossFamily(kinds, 'remove', known, smooth.t).decay(3, used)
        alone = LossFamily(kinds, 'remove', tilts=smooth.t).decay(3, used)
        assert np.array_equal(s, alone[0]) and log_most == pytest.approx(alone[1], rel=1e-12)

def test_lines_are_kept_and_cut(families):
    family, used = families[0], np.ones(8, bool)
    plans = [LinePlan(100, .5, n) for n in (30, 90)]
    short, long = (family.line(plan, used, False).values for plan in plans)
    mixed = family.line(plans[0], used, True)
    again = mixed.values
    assert short.change.shape == again.change.shape == (8, 30) and long.change.shape == (8, 90)
    assert long.change[:, :30] == pytest.approx(short.change, rel=1e-12, abs=1e-15)
    assert np.array_equal(again.change, long.change[:, :30])
    assert family.line(plans[0], used, False).mixing is None and mixed.mixing.shape == (8, 30)
    z = family.t[100] + .5j*np.arange(30)
    truth = KINDS[2].remove.cgf(z) - KINDS[2].remove.cgf(z[:1])
    assert short.change[2] == pytest.approx(truth, rel=1e-9, abs=1e-12)

def test_losses_that_are_not_used_cost_nothing(families):
    used = np.arange(8) == 3
    table = families[0].line(LinePlan(50, .3, 20), used, False).values
    s, decay = families[0].decay(50, used)
    assert table.change[3].any() and not np.delete(table.change, 3, axis=0).any()
    assert decay[3].any() and not np.delete(decay, 3, axis=0).any() and s.size == decay.shape[1]

@pytest.mark.parametrize('log_goal', [-2., -12., -40.])
def test_every_line_brackets_the_truth(families, log_goal):
    "At eps that the line was not made for, too."
    counts = np.random.default_rng(2).integers(0, 60, (6, 8)).astype(float)
    mixed = whole_steps(counts)
    runs = [Composition(tuple(zip(KINDS, map(int, row), strict=True))) for row in counts]
    accounts = [ContourAccountant(run.remove) for run in runs]
    eps = np.array([max(a.epsilon(np.exp(log_goal)).estimate, .1) for a in accounts])
    seen = []
    def look(rows, batch):
        for moved in (.5, 1., 1.3):
            e = moved*eps[rows]
            (up, fall, _), (low, *_) = batch.log_delta(e, 1), batch.log_delta(e, -1)
            for r, one_eps, lower, upper in zip(rows, e, low, up, strict=True):
                truth = accounts[r].delta(one_eps)
                assert lower <= np.log(truth.upper) and np.log(truth.lower) <= upper
            assert (fall > 0).all()
        seen.extend(rows)
    on_lines(families[0], mixed, tilted_sum(families[0], mixed), eps, np.full(6, log_goal), look)
    assert sorted(seen) == list(range(6))

def test_an_error_on_a_line_is_raised(families):
    counts = np.ones((2, 8))
    def broken(rows, batch):
        raise RuntimeError('asked for it')
    mixed = whole_steps(counts)
    K, one = tilted_sum(families[0], mixed), np.ones(2)
    with pytest.raises(RuntimeError, match='asked for it'):
        on_lines(families[0], mixed, K, one, -one, broken)

def test_without_threads(families, monkeypatch):
    "Of one processor no thread is asked: a browser's Python has none."
    def refused(*a): raise RuntimeError("can't start new thread")
    counts, served = np.ones((2, 8)), []
    mixed = whole_steps(counts)
    monkeypatch.setattr('dp_saddle.base.progress.os.cpu_count', lambda: 1)
    monkeypatch.setattr('dp_saddle.base.progress.ThreadPoolExecutor', refused)
    K, one = tilted_sum(families[0], mixed), np.ones(2)
    on_lines(families[0], mixed, K, one, -one, lambda rows, batch: served.extend(rows))
    assert sorted(served) == [0, 1]
