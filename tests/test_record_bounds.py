"engine/record_bounds: bounds for thousands of records, against engine/line."
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from dp_saddle import (
    Composition,
    ContourAccountant,
    Gaussian,
    Laplace,
    PoissonSubsampled,
)
from dp_saddle.engine import record_bounds
from dp_saddle.engine.many import GOOD, LossFamily, on_lines, tilted_sum
from dp_saddle.engine.mixed_steps import split_steps, whole_steps
from dp_saddle.engine.record_bounds import (
    delta_bounds,
    dominating_mu,
    epsilon_bounds,
    gaussian_above,
    upper_epsilon,
)
from dp_saddle.individual import noise_families, norm_counts
from dp_saddle.plrv import gaussian_log_delta
from oracles import gaussian
from test_many import KINDS, families  # noqa: F401 (a fixture)

pytestmark = pytest.mark.filterwarnings('error')

def alone(counts, kinds=KINDS):
    "The truth: engine/line, each kind composed as often as it occurs."
    parts = tuple((kind, int(n)) for kind, n in zip(kinds, counts, strict=True) if n)
    return ContourAccountant(Composition(parts))

def whole(counts):
    "The table of steps that are exactly of one kind."
    return np.concatenate([counts, counts], axis=1)

# Bounds

@settings(max_examples=25)
@given(st.lists(st.integers(0, 300), min_size=8, max_size=8), st.floats(1e-12, .2))
def test_epsilon_bounds_of_whole_counts(families, counts, delta):
    counts = np.array([counts], float)
    low, estimate, up = epsilon_bounds(families, whole(counts), delta)[:, 0]
    if not counts.any():
        assert low == up == 0
        return
    truth = alone(counts[0]).epsilon(delta)
    assert low <= truth.upper and truth.lower <= up and low <= estimate <= up

def test_whole_counts_lose_nothing(families):
    rng = np.random.default_rng(4)
    counts = rng.multinomial(800, rng.dirichlet(np.full(8, .4), 12)).astype(float)
    bounds = epsilon_bounds(families, whole(counts), 1e-6)
    truth = np.array([alone(row).epsilon(1e-6) for row in counts])
    assert (truth[:, 0] <= bounds[2]).all()
    assert bounds[2] == pytest.approx(truth[:, 2], rel=1e-6)
    deltas = delta_bounds(families, whole(counts), truth[:, 1]*.7)
    exact = np.array([alone(row).delta(.7*t) for row, t in zip(counts, truth[:, 1], strict=True)])
    assert (deltas[0] <= exact[:, 2]).all() and (exact[:, 0] <= deltas[2]).all()
    assert deltas[2] == pytest.approx(exact[:, 2], rel=1e-5)

@settings(max_examples=25)
@given(st.integers(0, 7), st.integers(1, 400), st.floats(0, 1), st.floats(1e-9, .1))
def test_mixtures_are_between_their_kinds(families, j, steps, w, delta):
    """Split steps cost at most what the larger kind costs, and at least what the smaller one does.
    A bound that is good is not asked for again at the larger kind: it may be too large by GOOD (by
    half of it in thousands of draws, for a step or two, mixed or not). One that is not is capped
    there."""
    table = np.zeros((1, 16))
    table[0, j], table[0, 8 + j] = steps, w*steps
    low, _, up = epsilon_bounds(families, table, delta)[:, 0]
    _, (good,) = upper_epsilon(families, split_steps(table), delta)
    larger = ContourAccountant(steps*KINDS[j]).epsilon(delta)
    assert up <= larger.upper*(1 + good*GOOD)
    if j == 7:
        assert low == 0
        return
    smaller = ContourAccountant(steps*KINDS[j + 1]).epsilon(delta)
    assert low <= smaller.upper and smaller.lower <= up

def test_no_records_and_no_steps(families):
    assert epsilon_bounds(families, np.zeros((3, 16)), 1e-5).tolist() == [[0.]*3]*3
    assert delta_bounds(families, np.zeros((3, 16)), np.zeros(3)).tolist() == [[0.]*3]*3
    assert epsilon_bounds(families, np.zeros((0, 16)), 1e-5).shape == (3, 0)
    assert delta_bounds(families, np.zeros((0, 16)), np.zeros(0)).shape == (3, 0)

def test_small_total_variation_needs_no_line(families):
    counts = np.zeros((1, 8))
    counts[0, 7] = 1.
    bound, good = upper_epsilon(families, whole_steps(counts), .5)
    assert bound[0] == 0 and good[0]

def test_few_rare_steps_are_said_to_be_bad_and_capped():
    step = PoissonSubsampled(base=Gaussian(sigma=1.), rate=.002)
    pair = [LossFamily([step], direction) for direction in ('remove', 'add')]
    counts = np.array([[5.], [1000.]])
    bound, good = upper_epsilon(pair, whole_steps(counts), 1e-5)
    assert good.tolist() == [False, True]
    truth = [ContourAccountant(n*step).epsilon(1e-5).upper for n in (5, 1000)]
    assert bound[0] > 1.1*truth[0]
    capped = epsilon_bounds(pair, whole(counts), 1e-5)[2]
    assert capped == pytest.approx(truth, rel=1e-6) and capped[0] >= truth[0]*(1 - 1e-12)

@pytest.mark.slow
def test_chapter_01_is_asked_only_where_it_can_help(monkeypatch):
    "Where a line proves that all steps at the largest cost more than the bound, no one asks."
    asked = []
    class Counting(ContourAccountant):
        def __init__(self, run):
            asked.append(run)
            super().__init__(run)
    monkeypatch.setattr(record_bounds, 'ContourAccountant', Counting)
    noises, rng = .1*np.geomspace(1, 20, 24), np.random.default_rng(0)
    kinds = [PoissonSubsampled(base=Gaussian(sigma=s), rate=.1) for s in noises]
    both = [LossFamily(kinds, way) for way in ('remove', 'add')]
    steps = rng.multinomial(400, np.full(24, 1/24), 3).astype(float)
    split = np.concatenate([steps, steps/2], axis=1)
    low, _, up = epsilon_bounds(both, split, 1e-5)
    assert not upper_epsilon(both, split_steps(split), 1e-5)[1].all() and not asked
    assert (0 < low).all() and (low < up).all()
    one = np.zeros((1, 48))
    one[0, 0] = one[0, 24] = 1         # one step, and the capped bound is engine/line's
    bad = [PoissonSubsampled(base=Gaussian(sigma=s), rate=1e-3) for s in noises]
    both = [LossFamily(bad, way) for way in ('remove', 'add')]
    up = epsilon_bounds(both, one, 1e-8)[2, 0]
    assert len(asked) == 1 and up == pytest.approx(ContourAccountant(bad[0]).epsilon(1e-8).upper)

def test_other_mechanisms():
    "A family may be of any steps: here sampled Laplace, and two directions that are the same."
    laplace = [PoissonSubsampled(base=Laplace(scale=s), rate=.1) for s in (2., 4., 8.)]
    pair = [LossFamily(laplace, direction) for direction in ('remove', 'add')]
    counts = np.array([[30., 0., 100.], [0., 200., 10.]])
    bounds = epsilon_bounds(pair, whole(counts), 1e-5)
    truth = np.array([alone(row, laplace).epsilon(1e-5) for row in counts])
    assert (bounds[0] <= truth[:, 2]).all() and (truth[:, 0] <= bounds[2]).all()
    assert bounds[2] == pytest.approx(truth[:, 2], rel=1e-3)

# Which Gaussian is above

@pytest.mark.parametrize('mu', [.01, .5, 3., 30.])
def test_a_gaussian_dominates_itself(mu):
    last = ContourAccountant(Gaussian(sigma=1/mu)).epsilon(1e-8).upper
    at = np.linspace(0, last, 97)[:, None]*np.ones(2)
    curve = np.exp(gaussian_log_delta(at, mu))
    missed = np.logaddexp(log_ndtr(at/mu - mu/2), at + log_ndtr(-at/mu - mu/2)) - 1e-11
    found = dominating_mu(at, curve, missed)
    assert found.shape == (2,) and (mu*(1 - 1e-9) <= found).all() and (found < 1.01*mu).all()
    alone = dominating_mu(at, curve)            # without the digits of 1 - delta: not less
    assert (alone >= found*(1 - 1e-12)).all() and gaussian_above(at, curve, alone*1.001).all()
    assert gaussian_above(at, curve, found*(1 + 1e-9), missed).all()
    assert not gaussian_above(at, curve, np.full(2, .9*mu)).all(0).any()

def test_a_chord_is_checked_between_its_ends():
    "A Gaussian that is above both ends of a long chord, and below its middle."
    at = np.array([[0.], [3.]])
    curve = np.array([[.4], [.02]])
    found = dominating_mu(at, curve)[0]
    ends = max(m for m in np.linspace(.1, 5, 2000)
               if not (np.exp(gaussian_log_delta(at[:, 0], m)) >= curve[:, 0]).all())
    assert found > ends*1.01
    e = np.linspace(0, 3, 50)
    share = (np.exp(e) - 1)/np.expm1(3)
    chord = .4*(1 - share) + .02*share
    assert all(float(gaussian([found], x)) >= c*(1 - 1e-9) for x, c in zip(e, chord, strict=True))

def test_no_loss_needs_no_gaussian():
    assert dominating_mu(np.zeros((3, 1)), np.zeros((3, 1))).tolist() == [0.]

# Few steps, rarely sampled

@pytest.mark.parametrize('rate, helps', [(.01, True), (.0002, False)])
def test_smoothing_of_a_line_that_ends_too_soon(rate, helps):
    """Ten split steps: the smoothing beyond the last point is a small part of eps; or it is not,
    and the answer is that of steps that are rounded down in noise."""
    cell = 100**(1/63)
    grid = cell**np.arange(5)
    counts = 10*norm_counts(np.array([[cell**-.5]]), grid, 1., 1.)
    families, widths = noise_families(tuple(grid), rate), []
    top = epsilon_bounds(families, counts, 1e-5)[2]
    mixed = split_steps(counts)
    on_lines(families[0], mixed, tilted_sum(families[0], mixed), top, np.log([1e-5]),
             lambda rows, batch: widths.append(batch.width))
    down = epsilon_bounds(families, np.c_[mixed.steps, mixed.steps], 1e-5)[2]
    if helps:
        assert widths[0] < .1*top[0] and top[0] < .95*down[0]
    else:
        assert widths[0] > .5*top[0] and top[0] == pytest.approx(down[0], rel=1e-9)
