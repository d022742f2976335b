"Many points of one curve on kept lines: against references, the general lines, and wrong guesses."

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from dp_saddle import (
    Accountant,
    ContourAccountant,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    delta,
    epsilon,
)
from dp_saddle.engine import gaussian_curves as curves
from dp_saddle.engine import gaussian_rows as rows
from dp_saddle.engine.ways import delta_without, epsilon_without

TINY = 1e-300

def run_of(sigma, rate, steps):
    return steps*PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

def random_runs(seed, n):
    chance = np.random.default_rng(seed)
    for _ in range(n):
        sigma, rate = np.exp(chance.uniform(np.log((.5, 1e-3)), np.log((20., .5))))
        yield run_of(sigma, rate, int(np.exp(chance.uniform(2, 11)))), 10**-chance.uniform(2, 15)

GOLDEN = [row for row in json.loads(Path(__file__).with_name('golden.json').read_text('utf-8'))
          if len(row['steps']) == 1 and row['steps'][0][0][0] == 'sub'
          and row['steps'][0][0][1][0] == 'gaussian' and row['steps'][0][1] > 1]

def of_direction(row):
    "(run, eps, delta of one direction from 14 digits on)."
    ((_, (_, sigma), rate), n), = row['steps']
    return run_of(sigma, rate, n), float(row['eps']), float(row['value'])

def test_delta_holds_references():
    "The larger of both directions is no less than a reference; and no more, where that is larger."
    larger, answered = {}, 0
    for row in GOLDEN:
        run, eps, value = of_direction(row)
        larger.setdefault((run, eps), {})[row['direction']] = value
    for (run, eps), values in larger.items():
        if (found := delta_without(run, eps)) is None: continue
        answered += 1
        assert max(values.values())*(1 - 1e-13) <= found.upper, (run, eps)
        if 'remove' in values: assert found.lower <= values['remove']*(1 + 1e-13), (run, eps)
    assert answered >= 8

def by_general(run, what, x):
    "Bounds of the same accountant without rows."
    return getattr(Accountant, what)(ContourAccountant(run), x)

def known(found, other):
    "Both, where the first is known."
    at = ~np.isnan(found.upper)
    return [type(b)(*(v[at] for v in b)) for b in (found, other)]

def assert_meet(one, other, most):
    "The same shape, a number in both; and the first not wide: `most`, relative."
    for v in (*one, *other): assert np.shape(v) == np.shape(one.upper)
    assert np.all((one.lower <= other.upper) & (other.lower <= one.upper))
    assert np.all((one.lower <= one.estimate) & (one.estimate <= one.upper))
    assert np.all(np.asarray(one.upper) - one.lower <= most*np.maximum(one.upper, TINY))

def test_arrays_and_deltas_of_random_runs():
    chance, answered = np.random.default_rng(71), np.zeros(2, int)
    for run, goal in random_runs(71, 25):
        if (at := rows.epsilon_of_sampled(run, goal)) is None or not at.upper: continue
        deltas = goal**chance.uniform(.4, 1.3, (2, 2))
        if (found := curves.epsilon_of_run(run, deltas)):
            assert_meet(*known(found, by_general(run, 'epsilon', deltas)), 1e-9)
            answered[0] += 1
        eps = at.upper*chance.uniform(.1, 1.6, (1, 3))
        if (found := delta_without(run, eps)):
            assert_meet(*known(found, by_general(run, 'delta', eps)), 1e-11)
            answered[1] += 1
    assert (answered > 8).all()

USED = [(9.4, 16384/50000, 2000), (2., .01, 3000), (1.1, 256/60000, 14062), (1., .01, 3000)]

@pytest.mark.parametrize('setting', USED, ids=str)
def test_there_and_back(setting):
    "delta at both ends of eps is on either side, at any places, in any order and shape."
    run, deltas = run_of(*setting), np.array([[1e-4, 1e-7, .02], [3e-5, 1e-4, 1e-9]])
    found = epsilon_without(run, deltas)
    assert (found.lower < found.upper).all() and (found.upper - found.lower < 1e-11).all()
    assert (ContourAccountant(run).delta(found.upper).lower <= deltas).all()
    assert (ContourAccountant(run).delta(found.lower).upper >= deltas).all()
    assert (ContourAccountant(run).epsilon(deltas).upper == found.upper).all()
    assert (epsilon(run, delta=deltas) == found.upper).all()
    assert (delta(run, eps=found.upper) == ContourAccountant(run).delta(found.upper).upper).all()
    flat = epsilon_without(run, deltas.ravel())
    assert (flat.upper == found.upper.ravel()).all()

@pytest.mark.parametrize('kind', [float, np.float64, np.array, lambda v: np.array([v])],
                         ids=['float', 'np.float64', 'no axis', 'one'])
def test_one_question_has_one_answer(kind):
    "However it is written."
    run = run_of(2., .01, 3000)
    for what, x in ((epsilon_without, 1e-5), (delta_without, 1.)):
        found, one = what(run, kind(x)), what(run, x)
        assert [np.ravel(v).item() for v in found] == list(one)
        assert np.shape(found.upper) == np.shape(kind(x))
    assert delta_without(run, 1) == delta_without(run, 1.)
    whole = delta_without(run, np.array([1, 2]))
    assert whole.upper[0] == pytest.approx(delta_without(run, 1.).upper, rel=1e-11)

def test_no_answer_depends_on_the_guess():
    "A line that is planned for another delta makes true bounds, or none."
    run = run_of(2., .01, 3000)
    eps, answered = np.array([.3, 1.1, 2.]), 0
    true = by_general(run, 'delta', eps)
    pair = rows.pair_of(2., (1.,), (1.,), .01)
    for goal in np.log([.3, 1e-2, 1e-4, 1e-6, 1e-9, 1e-15, 1e-40, 1e-120]):
        low, _, up = pair.of_run(3000, np.full(3, goal), eps)
        known = ~np.isnan(low)
        answered += known.sum()
        assert (np.exp(low) <= true.upper*(1 + 1e-14))[known].all()
        assert (true.lower <= np.exp(up)*(1 + 1e-14))[known].all()
    assert 3 <= answered < 24

def test_at_zero_and_beyond():
    "The distance in total variation, and what is too small for rows."
    run = run_of(2., .02, 3000)
    found = delta_without(run, 0.)
    assert found.lower <= .2286233795528589 <= found.upper and found.width < 1e-11
    many = delta_without(run, np.array([1., 0., .5]))
    assert many.lower[1] <= .2286233795528589 <= many.upper[1]
    assert curves.log_delta_of_run(run, 60.) is None                # below 1e-200
    assert np.isnan(curves.log_delta_of_run(run, np.array([1., 60.])).upper).tolist() == [0, 1]
    for eps in (60., np.array([1., 60.])):
        assert np.ravel(delta(run, eps=eps))[-1] < 1e-190
    assert (delta(run, eps=np.zeros((0, 2))).shape == epsilon(run, delta=np.zeros((0, 2))).shape
            == (0, 2))

@pytest.mark.parametrize('bad', [-1., -1e-310, np.array([-5e-324]), np.nan, np.array([1., -1.]),
                                 np.array([np.nan, 1.]),
                                 np.ma.array([1., 2.], mask=[True, False]), '1', None, True,
                                 -10**400], ids=str)
def test_what_is_no_eps_is_said(bad):
    run = run_of(2., .01, 3000)
    for asked in (lambda: delta(run, eps=bad), lambda: ContourAccountant(run).delta(bad)):
        with pytest.raises((TypeError, ValueError), match='eps must be'):
            asked()

@pytest.mark.parametrize('bad', [1., -1., True, np.array([1e-5, -1e-9]), np.array([1e-5, np.nan])],
                         ids=str)
def test_what_is_no_delta_is_said(bad):
    run = run_of(2., .01, 3000)
    for asked in (lambda: epsilon(run, delta=bad), lambda: ContourAccountant(run).epsilon(bad)):
        with pytest.raises((TypeError, ValueError), match='delta must be'):
            asked()

@pytest.mark.parametrize('run', [run_of(2., .01, 3000), Gaussian(sigma=1.), Laplace(scale=1.),
                                 PoissonSubsampled(Gaussian(sigma=1.), rate=.1)], ids=range(4))
def test_an_integer_beyond_doubles_is_an_infinite_eps(run):
    assert delta(run, eps=10**400) == delta(run, eps=np.inf) == 0
    assert ContourAccountant(run).delta(2**1024).upper == 0
    assert delta(run, eps=sys.float_info.max) <= 5e-324

def test_many_at_once_are_taken_a_few_at_a_time(monkeypatch):
    run, deltas = run_of(2., .01, 3000), np.geomspace(1e-4, 1e-9, 40)
    whole = epsilon_without(run, deltas)
    monkeypatch.setattr(curves, 'in_blocks', lambda x, _: np.split(x, range(3, len(x), 3)))
    parts = epsilon_without(run, deltas)
    np.testing.assert_allclose(parts.upper, whole.upper, rtol=1e-11)
    assert (np.diff(whole.lower) > 0).all()

def test_what_is_not_asked_here():
    step = PoissonSubsampled(Gaussian(sigma=2.), rate=.01)
    for run in (3000*step + Gaussian(sigma=1.), 0*step, step, 3000*step.base, (3000*step).remove,
                9*PoissonSubsampled(Laplace(scale=2.), rate=.01), None):
        assert curves.epsilon_of_run(run, np.array([1e-5])) is None
        assert curves.log_delta_of_run(run, 1.) is None
    for goal in (0., 1., np.array([1e-300]), np.zeros(0), [1e-5], '1e-5', 1, True):
        assert curves.epsilon_of_run(3000*step, goal) is None
    for eps in (-1., np.inf, np.nan, 1e9, np.array([1., -1.]), np.zeros(0), [1.], '1', True):
        assert curves.log_delta_of_run(3000*step, eps) is None
    free = curves.epsilon_of_run(100*step, np.array([.7, .4]))
    assert (free.upper == 0).all()
