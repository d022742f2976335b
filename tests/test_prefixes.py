"engine/prefixes: every prefix of a schedule, by running sums."
import numpy as np
import pytest

from dp_saddle import (
    Composition,
    ContourAccountant,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    epsilon_after,
)
from dp_saddle.engine import prefixes
from dp_saddle.engine.mixed_steps import split_steps
from dp_saddle.engine.prefixes import families_for, prefix_epsilon
from dp_saddle.engine.record_bounds import upper_epsilon

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes')

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def run_of(kinds, which):
    counts = np.bincount(which, minlength=len(kinds)).tolist()
    return Composition(tuple((m, n) for m, n in zip(kinds, counts, strict=True) if n))

def bounded(kinds, which, delta):
    return prefix_epsilon(families_for(kinds), which, np.ones(len(which)), delta)

def random_schedule(seed):
    "(kinds, which, delta): noises and rates, in any order or in blocks; a Laplace in some."
    rng = np.random.default_rng(seed)
    many, steps = rng.integers(2, 12), int(10**rng.uniform(2.5, 4.3))
    rate = 10**rng.uniform(-2.5, -.5)
    kinds = [S(s, r) for s, r in zip(rng.uniform(.9, 4, many), rate*rng.uniform(.5, 2, many),
                                     strict=True)]
    if rng.random() < .3: kinds[0] = Laplace(scale=float(rng.uniform(50, 500)))
    if rng.random() < .3: kinds[-1] = Gaussian(sigma=float(rng.uniform(20, 200)))
    which = rng.integers(0, many, steps)
    if rng.random() < .5: which.sort()
    return kinds, which, 10**rng.uniform(-10, -4)

GOOD = 2e-3      # of eps: a bound is good where it estimates that it is too large by half of that

def compare(seed, prefixes):
    "Of some prefixes: each bound is at least the certified lower one, and a good one is as near."
    kinds, which, delta = random_schedule(seed)
    eps, good = bounded(kinds, which, delta)
    assert good[len(good)//2:].all() and (eps >= 0).all()
    rng = np.random.default_rng(seed)
    for n in rng.integers(1, len(which), prefixes) + 1:
        exact = ContourAccountant(run_of(kinds, which[:n])).epsilon(delta)
        assert exact.lower <= eps[n - 1]
        if good[n - 1]:
            assert eps[n - 1] - exact.upper <= max(exact.width, GOOD*exact.upper)

def test_random_schedules():
    compare(1, 3)

def test_a_curve_that_is_flat_at_the_goal():
    """Next to where rare losses begin to count, delta hardly falls with eps: a search that takes
    short steps is not at its end there, and little noise in delta is much in eps."""
    kinds, which, delta = random_schedule(26)
    eps, good = bounded(kinds, which, delta)
    after = epsilon_after([kinds[k] for k in which], delta=delta)
    for n in (283, 328, 399):
        exact = ContourAccountant(run_of(kinds, which[:n])).epsilon(delta)
        assert not good[n - 1] or eps[n - 1] <= exact.upper*(1 + GOOD)
        assert exact.lower <= after[n - 1] <= 1.011*exact.upper
    assert good[327] and good[398]

def test_bounds_that_are_not_good_are_asked_where_they_are_widest():
    "Laplaces with rare samples: no prefix is left that is 1 % above, nor is each asked alone."
    kinds, which, delta = random_schedule(20)
    after = epsilon_after([kinds[k] for k in which], delta=delta)
    for n in (7, 47, 138, 213, 300, 2000):
        exact = ContourAccountant(run_of(kinds, which[:n])).epsilon(delta)
        assert exact.lower <= after[n - 1] <= 1.011*exact.upper

@pytest.mark.slow
@pytest.mark.parametrize('seed', range(2, 42))
def test_two_thousand_prefixes(seed):
    compare(seed, 50)

def test_either_direction_may_cost_more():
    "At few, often sampled steps removing costs more, at others adding: the larger is the answer."
    kinds = [Laplace(scale=2.), S(3., .9)]
    which = np.tile([0, 1], 150)
    eps, _ = bounded(kinds, which, 1e-6)
    for n in (90, 150, 233, 300):
        run = run_of(kinds, which[:n])
        assert eps[n - 1] >= max(ContourAccountant(side).epsilon(1e-6).lower
                                 for side in (run.remove, run.add))

def test_a_large_step_among_small_ones():
    "A guess that is far off is mended."
    kinds = [S(2., .01), Gaussian(sigma=1.5)]
    which = np.zeros(6000, int)
    which[5000] = 1
    eps, good = bounded(kinds, which, 1e-6)
    for n in (5000, 5001, 5002, 6000):
        exact = ContourAccountant(run_of(kinds, which[:n])).epsilon(1e-6)
        assert good[n - 1] and exact.lower <= eps[n - 1] <= exact.upper*(1 + 1e-7)

def test_steps_between_two_kinds():
    "Split steps cost at least what they are split from, and as much as records say."
    kinds, rng = [S(1., .01), S(1.05, .01), S(1.1, .01)], np.random.default_rng(3)
    which = rng.integers(0, 5, 4000)
    row, weight = np.array([0, 0, 1, 1, 2])[which], np.array([1, .4, 1., .3, 1])[which]
    families = families_for(kinds)
    eps, good = prefix_epsilon(families, row, weight, 1e-6)
    at = np.arange(1500, 4000, 499)
    steps, weights = ([np.bincount(row[:n], w[:n], 3) for n in at]
                      for w in (np.ones(4000), weight))
    table = np.concatenate([steps, weights], axis=1)
    records = upper_epsilon(families, split_steps(table), 1e-6)[0]
    assert good[at - 1].all()             # on a tilt that a stretch shares mixing costs more
    assert eps[at - 1] == pytest.approx(records, rel=3e-5)
    larger = run_of(kinds, row)        # each step its costlier neighbour
    assert eps[-1] < ContourAccountant(larger).epsilon(1e-6).upper

def test_the_other_direction_takes_no_line():
    "Adding is dismissed after the first steps, too: at tilts beyond those of a long schedule."
    kinds, which = [S(1., .005), S(2., .01)], np.tile([0, 1], 40)
    remove, add = families_for(kinds)
    alone, _ = prefix_epsilon([remove], which, np.ones(80), 1e-5)
    def asked(*args): pytest.fail('a line was asked for')
    add.line = add.decay = asked
    both, _ = prefix_epsilon([remove, add], which, np.ones(80), 1e-5)
    assert (both == alone).all()
    for n in (1, 7, 40):
        assert ContourAccountant(run_of(kinds, which[:n]).add).delta(both[n - 1]).upper <= 1e-5

def test_noise_makes_a_bound_larger():
    "What terms may be off by is added, not taken away."
    kinds, which = [S(1., .02), S(2., .02)], np.tile([0, 1], 500)
    whole, families = np.ones(1000), families_for(kinds)
    exact, _ = prefix_epsilon(families, which, whole, 1e-6)
    line = families[0].line
    def noisy(*args):
        plan = line(*args)
        values = plan.values._replace(log_error=plan.values.log_error + 1e-8)
        return plan._replace(values=values)
    families[0].line = noisy
    noisier, good = prefix_epsilon(families, which, whole, 1e-6)
    assert good[400:].all() and (noisier >= exact).all()
    assert np.mean(noisier[400:] > exact[400:]) > .9

def test_some_prefixes_of_very_many(monkeypatch):
    "One that is not asked costs at most what the next does that is; the last of a stretch is."
    kinds, which = [S(1., .02), S(2., .02)], np.random.default_rng(2).integers(0, 2, 3000)
    every, _ = bounded(kinds, which, 1e-6)
    monkeypatch.setattr(prefixes, '_MOST_ASKED', 100)
    some, good = bounded(kinds, which, 1e-6)
    assert good[100:].all() and (some >= every*(1 - 1e-9)).all()
    apart = 1 + np.arange(1, 3001)//100
    later = np.minimum(np.arange(3000) + apart, 2999)
    assert (some <= every[later]*(1 + 1e-9)).all() and (some > every*(1 + 1e-6)).mean() > 1/2

def test_equal_or_no_steps_are_not_asked_here():
    assert epsilon_after([], delta=1e-6).size == 0
    assert epsilon_after([S(1., .01)], delta=1e-6).size == 1
