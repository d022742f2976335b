"""Steps put between a few dozen kinds: bounds by it against those of the whole run, which do not
know it; and budgets whose spends are merged."""
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dp_saddle import (
    Budget,
    ContourAccountant,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    epsilon,
    epsilon_after,
)
from dp_saddle.mechanisms import Composition
from dp_saddle.practice.merged_steps import MergedSteps, RenyiSums

DELTA = 1e-5

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def steps_of(seed, many, noises=True, rates=True):
    "As many different steps, and how often each is taken."
    rng = np.random.default_rng(seed)
    sigma = np.exp(rng.uniform(0, 1, many)) if noises else np.full(many, 1.5)
    rate = np.exp(rng.uniform(-6, -3, many)) if rates else np.full(many, .01)
    counts = rng.integers(1, 6, many)
    steps = (S(float(s), float(q)) for s, q in zip(sigma, rate, strict=True))
    return dict(zip(steps, map(int, counts), strict=True))

def whole(counts):
    return Composition(tuple(counts.items()))

def merged_bound(merged, counts):
    (eps,), (good,) = merged.upper_epsilon(merged.table(merged.between(counts))[None], DELTA)
    return float(eps), bool(good)

KINDS = {'noise': dict(noises=True, rates=False), 'rate': dict(noises=False, rates=True),
         'both': dict(noises=True, rates=True)}

@pytest.mark.parametrize('along, seed', [('noise', 0), ('both', 0), *(
    pytest.param(*row, marks=pytest.mark.slow)
    for row in [('rate', 0), *((along, 1) for along in KINDS)])])
def test_bounds_are_above_and_near(along, seed):
    "What is merged costs at least as much as it is, and little more."
    counts = steps_of(seed, 40, **KINDS[along])
    merged = MergedSteps(counts)
    exact = epsilon(whole(counts), delta=DELTA)
    bound, good = merged_bound(merged, counts)
    assert merged.along == along and good
    assert exact*(1 - 1e-9) <= bound <= exact*(1.05 if along != 'both' else 1.15)

@pytest.mark.parametrize('along', KINDS)
def test_a_dominating_run_costs_more(along):
    "Each step's costlier neighbour, of few kinds."
    counts = steps_of(7, 60, **KINDS[along])
    above = MergedSteps(counts).dominating(counts)
    assert sum(above.values()) == sum(counts.values())
    assert epsilon(whole(above), delta=DELTA) >= epsilon(whole(counts), delta=DELTA)

def test_a_step_lies_between_its_neighbours():
    "One step alone, against both, at several deltas; others are kinds of their own."
    counts = steps_of(1, 30, rates=False)
    merged = MergedSteps([*counts, Laplace(scale=3.)])
    for step in list(counts)[:8]:
        cell = merged.cell(step)
        assert 0 < cell.weight <= 1
        for delta in (1e-3, 1e-6, 1e-9):
            low, mid, high = (epsilon(50*m, delta=delta) for m in (cell.low, step, cell.high))
            assert low <= mid*(1 + 1e-9) and mid <= high*(1 + 1e-9)
    alone = merged.cell(Laplace(scale=3.))
    assert (alone.high, alone.low, alone.weight) == (Laplace(scale=3.), None, 1.)
    assert merged.others == 1

def test_between_adds_up():
    "Counts and weights by name are sums; more of anything is more by name."
    one, other = steps_of(2, 20), steps_of(3, 20)
    merged = MergedSteps([*one, *other])
    both = merged.between(Counter(one) + Counter(other))
    apart = merged.between(one) + merged.between(other)
    assert both.keys() == apart.keys()
    assert all(both[key] == pytest.approx(apart[key], rel=1e-12) for key in both)
    steps = sum(n for (_, what), n in both.items() if what == 'steps')
    assert steps == sum(one.values()) + sum(other.values())

@pytest.mark.slow
def test_prefixes_are_bounded_one_by_one():
    "After each step at least what it has cost, never falling where the bound is good."
    counts = steps_of(4, 50, rates=False)
    kinds = list(counts)
    which = np.random.default_rng(0).integers(0, len(kinds), 200)
    eps, good = MergedSteps(kinds).prefixes(kinds, which, DELTA)
    assert good[-1] and eps.shape == good.shape == (200,)
    for n in (20, 100, 200):
        taken = Counter(kinds[i] for i in which[:n])
        assert eps[n - 1] >= epsilon(whole(taken), delta=DELTA)*(1 - 1e-9)
    after = epsilon_after([kinds[i] for i in which], delta=DELTA)
    assert after[-1] == pytest.approx(eps[-1], rel=.05)

# --- budgets

def spent_on(counts, eps=8.):
    budget = Budget(eps=eps, delta=DELTA)
    for step, n in counts.items(): budget.spend(step, n)
    return budget

@pytest.mark.slow       # the next two pay for as many kinds
@pytest.mark.parametrize('along', KINDS)
def test_a_budget_of_many_kinds_charges_enough(along):
    "Beyond 32 kinds they are merged: what is charged is at least what they cost, and near."
    counts = steps_of(5, 36, **KINDS[along])
    budget = spent_on(counts)
    exact = epsilon(whole(counts), delta=DELTA)
    assert budget.steps == sum(counts.values())
    assert exact*(1 - 1e-9) <= budget.spent <= exact*1.15
    assert Counter(dict(budget.history)) == Counter(counts)        # as they were paid

@pytest.mark.slow
def test_a_merged_budget_never_passes_its_eps():
    "Paid until nothing fits: what was paid is within, by the account of the whole run."
    counts = {step: 50*n for step, n in steps_of(6, 44, rates=False).items()}
    few = whole(dict(list(counts.items())[:36]))
    budget = Budget(eps=(epsilon(few, delta=DELTA) + epsilon(whole(counts), delta=DELTA))/2,
                    delta=DELTA)
    refused = 0
    for step, n in counts.items():
        if budget.would_exceed(step, n):
            refused += 1
            with pytest.raises(ValueError, match='do not fit; nothing was spent'):
                budget.spend(step, n)
        else:
            budget.spend(step, n)
    assert refused and len({m for m, _ in budget.history}) > 32
    taken = Counter()
    for m, n in budget.history: taken[m] += n
    assert epsilon(whole(taken), delta=DELTA) <= budget.spent*(1 + 1e-9)
    assert budget.spent <= budget.eps

@pytest.mark.parametrize('seed', [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))])
@pytest.mark.parametrize('along', KINDS)
def test_sums_of_divergences_are_above(seed, along):
    "Rounded up, direction by direction: never below the certified eps of the steps themselves."
    counts = steps_of(seed, 12, **KINDS[along])
    sums = RenyiSums().more(counts)
    one_by_one = RenyiSums()
    for step, n in counts.items(): one_by_one = one_by_one.more({step: n})
    for delta in (1e-2, 1e-5, 1e-10):
        exact = ContourAccountant(whole(counts)).epsilon(delta)
        assert exact.lower <= sums.epsilon(delta)
        assert one_by_one.epsilon(delta) == pytest.approx(sums.epsilon(delta), rel=1e-12)
    assert sums.more({Laplace(scale=3.): 1}) is None

@pytest.mark.slow
def test_a_budget_far_from_its_end_merges_nothing(monkeypatch):
    "The bound that is asked first is enough; once more is wanted, all is counted."
    counts = steps_of(12, 40)
    budget = Budget(eps=50., delta=DELTA)
    with monkeypatch.context() as m:
        m.setattr('dp_saddle.practice.merged_steps.MergedSteps', None)  # would fail if made
        for step, n in counts.items(): budget.spend(step, n)
    exact = epsilon(whole(counts), delta=DELTA)
    assert exact*(1 - 1e-9) <= budget.spent <= exact*1.15
    assert budget.spent <= RenyiSums().more(counts).epsilon(DELTA)
    budget.spend(Laplace(scale=3.), 2)                              # no divergences from here on
    assert budget.spent >= epsilon(whole(counts | {Laplace(scale=3.): 2}), delta=DELTA)*(1 - 1e-9)
    assert budget.would_exceed(Gaussian(sigma=.1))

@pytest.mark.slow
@pytest.mark.parametrize('suffix', ['json', 'npz'])
def test_a_merged_budget_is_saved_and_goes_on(tmp_path, suffix):
    "The file has the history alone: what is loaded answers as what was saved, once merged anew."
    counts = steps_of(8, 36, rates=False)
    budget, step = spent_on(counts, eps=2.), S(1.2, .013)
    budget.save(tmp_path/f'ledger.{suffix}')
    again = Budget(eps=2., delta=DELTA).load(tmp_path/f'ledger.{suffix}')
    exact = epsilon(whole(counts), delta=DELTA)
    assert again.history == budget.history and again.steps == budget.steps
    assert exact*(1 - 1e-9) <= again.spent <= exact*1.15
    assert again.would_exceed(step, 10**6) and not again.would_exceed(step)
    again.spend(step)
    assert again.steps == budget.steps + 1 and again.spent >= exact*(1 - 1e-9)

@pytest.mark.slow
def test_the_order_of_spends_changes_no_bound_for_the_worse():
    "Upwards, downwards and shuffled: each is a bound on the same run."
    counts = steps_of(9, 36, rates=False)
    exact = epsilon(whole(counts), delta=DELTA)
    pairs = list(counts.items())
    orders = pairs, pairs[::-1], sorted(pairs, key=lambda pair: pair[0].base.sigma)
    for order in orders:
        assert exact*(1 - 1e-9) <= spent_on(dict(order)).spent <= exact*1.15

@pytest.mark.parametrize('many', [200, pytest.param(5000, marks=pytest.mark.slow)])
def test_many_noises_are_a_few_dozen_kinds(many):
    "What is tabulated, and kept, does not grow with how many noises there are."
    merged = MergedSteps([S(float(sigma), .01) for sigma in np.linspace(1, 2, many)])
    assert merged.along == 'noise' and len(merged.cells) == many and 30 < len(merged.rows) < 50

@pytest.mark.slow
@pytest.mark.skipif(not Path('/proc/self/status').exists(), reason='no record of memory')
def test_five_thousand_noises_take_less_than_500_megabytes():
    "In a process of its own; every prefix bounded, the last by no less than its equal parts."
    code = """
import re
import numpy as np
from dp_saddle import Composition, Gaussian, PoissonSubsampled, epsilon_after
kinds = [PoissonSubsampled(Gaussian(sigma=float(s)), rate=.01) for s in np.linspace(1, 2, 5000)]
eps = epsilon_after(Composition(tuple((m, 1) for m in kinds)), delta=1e-5)
most = re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1]
print(len(eps), eps[-1], 1024*int(most))
"""
    done = subprocess.run([sys.executable, '-c', code], check=True, capture_output=True, text=True)
    steps, last, most = map(float, done.stdout.split())
    assert steps == 5000 and most < 500e6
    # each noise rounded up to the largest of its hundred, or down to the smallest
    ends = np.linspace(1, 2, 5000).reshape(50, 100)
    least, largest = (epsilon(Composition(tuple((S(float(s), .01), 100) for s in some)),
                              delta=1e-5) for some in (ends[:, -1], ends[:, 0]))
    assert least < last < largest
