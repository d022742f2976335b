"Chapter 8: filters that stop in time and survive, and odometers."
import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtri

from dp_saddle import (
    Gaussian,
    GDPFilter,
    GDPOdometer,
    GDPResidueFilter,
    IndividualGDPFilter,
    MomentsAccountant,
    RDPFilter,
    RDPOdometer,
    epsilon,
)
from dp_saddle.engine import gaussian_epsilon
from dp_saddle.filters import residue
from oracles import gaussian

# Sums

@given(st.floats(1e-3, 1e3), st.integers(1, 3000))
def test_a_budget_lasts_for_exactly_its_steps(budget, k):
    f, mu = GDPFilter(budget), budget/np.sqrt(k)
    for _ in range(k):
        f.spend(mu)
    assert f.would_exceed(mu) and not f.step(mu)
    assert f.steps == k and f.spent == pytest.approx(budget, rel=1e-15)

def spend_equal(k):
    "Record i pays a k_i-th of the squared budget at each step: it takes part exactly k_i times."
    f, mu, count = IndividualGDPFilter(.7, len(k)), .7/np.sqrt(k), np.zeros(len(k), int)
    for _ in range(k.max() + 2):
        count += f.step(mu)
    assert (count == k).all()

def test_two_hundred_budgets_of_about_two_thousand_steps():
    spend_equal(np.arange(2_000, 2_200))

@pytest.mark.slow
def test_two_hundred_budgets_of_a_million_steps():
    spend_equal(np.arange(1_000_000, 1_000_200))

@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_sums_are_those_of_exact_arithmetic(mus):
    odometer = GDPOdometer(1.)
    for mu in mus:
        odometer.step(mu)
    exact = float(sum(Fraction(m)*Fraction(m) for m in mus))
    assert odometer.spent**2 == pytest.approx(exact, rel=1e-15, abs=1e-300)

# Filters

@given(st.lists(st.floats(0, 2), min_size=1, max_size=50))
def test_step_is_would_exceed_then_spend(mus):
    a, b = GDPFilter(1.), GDPFilter(1.)
    for mu in mus:
        refused = b.would_exceed(mu)
        if not refused:
            b.spend(mu)
        assert a.step(mu) == (not refused)
    assert a.spent == b.spent <= 1 and a.steps == b.steps

# A step whose size depends on what came out before, by enumeration

def response(eps):
    "A randomised response: the probabilities of its two outcomes, with the record and without."
    p = 1/(1 + np.exp(-eps))
    return (p, 1 - p), (1 - p, p)

def played(fresh, cost, rng, depth):
    """(P, Q) of all outcomes, where each step is any that the filter admits after those before it:
    the largest of a dozen."""
    leaves = []
    def play(path, p, q):
        chosen = None
        for eps in sorted(rng.uniform(.01, 1.5, 12), reverse=True) if len(path) < depth else ():
            ledger = fresh()
            for before in path: ledger.spend(cost(before))
            if ledger.step(cost(eps)):
                chosen = eps
                break
        if chosen is None: leaves.append((p, q))
        else:
            for a, b in zip(*response(chosen), strict=True): play([*path, chosen], p*a, q*b)
    play([], 1., 1.)
    return np.array(leaves).T

@pytest.mark.parametrize('seed', range(12))
def test_renyi_divergence_of_steps_that_depend_on_outcomes(seed):
    rng = np.random.default_rng(seed)
    order, budget = rng.uniform(1.2, 20), rng.uniform(1, 3)
    def divergence(p, q):
        return np.log((p**order*q**(1 - order)).sum())/(order - 1)
    def cost(eps): return float(divergence(*map(np.array, response(eps))))
    P, Q = played(lambda: RDPFilter(order, budget), cost, rng, 6)
    assert max(divergence(P, Q), divergence(Q, P)) <= budget*(1 + 1e-12)
    assert P.size > 1

@pytest.mark.parametrize('seed', range(12))
def test_curve_of_steps_that_depend_on_outcomes(seed):
    "A randomised response costs as much as the Gaussian mechanism that tells as well."
    rng = np.random.default_rng(seed)
    mu = rng.uniform(.3, 3)
    def cost(eps): return float(-2*ndtri(1/(1 + np.exp(eps))))
    P, Q = played(lambda: GDPFilter(mu), cost, rng, 6)
    assert P.size > 1
    for eps in (0., .1, .5, 1., 2.):
        most = max(np.maximum(a - np.exp(eps)*b, 0).sum() for a, b in ((P, Q), (Q, P)))
        assert most <= float(gaussian([mu], eps))*(1 + 1e-12)

def test_a_refused_spend_changes_nothing():
    f = IndividualGDPFilter(1., 3)
    f.spend([.5, .9, 0])
    words = r'mu must be at most 0.43589, .* got 0.5 for record 1; nothing was spent'
    with pytest.raises(ValueError, match=words):
        f.spend([.1, .5, .1])
    assert f.spent.tolist() == [.5, .9, 0] and f.steps == 1
    assert f.step([.1, .5, .1]).tolist() == [True, False, True] and f.spent[1] == .9
    assert not f.step([9., 9., 9.]).any() and f.steps == 2          # nobody took part: no step

def test_the_message_of_one_sum_names_no_record():
    f = RDPFilter(2., 1.)
    with pytest.raises(ValueError, match=r'rho must be at most 1, .* got 1.5; nothing was spent'):
        f.spend(1.5)

def test_the_last_step_scaled_uses_the_budget_exactly():
    f = IndividualGDPFilter(1.3, 4)
    f.spend([.2, .7, 1.1, 1.3])
    mu = np.full(4, 5.)
    f.spend(mu*f.scale(mu))
    assert f.spent == pytest.approx(np.full(4, 1.3), rel=1e-15)
    assert f.would_exceed(np.full(4, 1e-4)).all() and f.scale(0*mu).tolist() == [1]*4

def test_numbers_of_one_sum_are_numbers():
    f = GDPFilter(1.)
    answers = [f.would_exceed(.1), f.step(.1), f.spent, f.remaining, f.scale(.1)]
    answers.append(GDPOdometer(1.).bound)
    assert all(np.ndim(x) == 0 and not isinstance(x, np.ndarray) for x in answers)

def test_conversion_is_the_gaussian_curve():
    f, eps = GDPFilter(.8), np.array([0., .3, 1., 4.])
    exact = np.array([float(gaussian([.8], e)) for e in eps])
    assert (f.delta(eps) >= exact).all() and f.delta(eps) == pytest.approx(exact, rel=1e-10)
    assert f.epsilon(1e-5) == pytest.approx(epsilon(Gaussian(sigma=1.25), delta=1e-5), rel=1e-10)

def test_gdp_paper_section_4_1():
    by_rdp = MomentsAccountant(420*Gaussian(sigma=100.)).epsilon(1e-5).upper
    by_gdp = gaussian_epsilon(np.sqrt([420, 495])/100, 1e-5)
    assert [round(v, 4) for v in (by_rdp, *by_gdp)] == [.8156, .7451, .8152]
    f, r = GDPFilter(np.sqrt(495)/100), RDPFilter(20., 420*20/2e4)
    while f.step(1/100):
        pass
    while r.step(20/2e4):
        pass
    assert (f.steps, r.steps) == (495, 420)

def test_renyi_filter_against_moments():
    orders = np.linspace(2, 60, 400)
    best = min(RDPFilter(a, 420*a/2e4).epsilon(1e-5) for a in orders)
    moments = MomentsAccountant(420*Gaussian(sigma=100.)).epsilon(1e-5).upper
    assert best == pytest.approx(moments, rel=1e-4)

# Odometers

def test_odometers_prove_the_next_crossing():
    one, all_ = GDPOdometer(.5, 2), RDPOdometer(8., .1)
    assert one.bound.tolist() == [0, 0] and all_.epsilon(1e-5) == 0
    one.step([.5, 0])
    assert one.bound.tolist() == [.5, 0]
    one.step([.1, .1])
    assert one.bound == pytest.approx([np.sqrt(.5), .5])
    for _ in range(10):
        all_.step(.01)
    assert all_.bound == pytest.approx(.1)
    assert all_.epsilon(1e-5) == RDPFilter(8., .1).epsilon(1e-5)
    assert (one.epsilon(1e-5) >= gaussian_epsilon(one.spent, 1e-5)).all()

def test_a_bound_is_never_below_what_was_spent():
    fine = GDPOdometer(1e-12)
    for mu in (1., 1e-9, .3):
        fine.step(mu)
        assert fine.bound >= fine.spent

def test_an_odometer_that_overflows_stays_as_it_was(tmp_path):
    o = GDPOdometer(1.)
    o.step(1e154)
    with pytest.raises(ValueError, match='mu must leave the sum finite, got 1.2e'):
        o.step(1.2e154)
    assert o.steps == 1 and o.spent == 1e154
    o.save(tmp_path/'o.json')
    assert GDPOdometer(1.).load(tmp_path/'o.json').spent == 1e154

# eps of Gaussian steps

def test_gaussian_epsilon():
    mu = np.array([0., 1e-9, 1e-4, .1, 3., 40., 1e4])
    upper = gaussian_epsilon(mu, 1e-5)
    assert upper[:2].tolist() == [0, 0]
    for m, e in zip(mu[2:], upper[2:], strict=True):
        assert float(gaussian([m], e)) <= 1e-5
        assert e == pytest.approx(epsilon(Gaussian(sigma=1/m), delta=1e-5), rel=1e-9, abs=1e-12)

def test_gaussian_epsilon_is_a_number_or_broadcasts():
    assert np.ndim(gaussian_epsilon(1., 1e-5)) == 0
    grid = gaussian_epsilon(np.array([[.5], [1.]]), np.array([1e-3, 1e-5, 1e-7]))
    assert grid.shape == (2, 3) and (np.diff(grid, axis=1) > 0).all()
    assert grid[1, 1] == pytest.approx(gaussian_epsilon(1., 1e-5), rel=1e-13)

@given(st.floats(1e-6, 1e4), st.floats(1e-200, .99))
def test_gaussian_epsilon_is_rounded_up(mu, delta):
    found = gaussian_epsilon(mu, delta)
    assert float(gaussian([mu], found)) <= delta*(1 + 1e-13)

# Mistakes

@pytest.mark.parametrize('mus, message', [
    ([.1, -.1, .1], r'mu must be in \[0, inf\), got -0.1'),
    ([.1, np.nan, .1], 'mu must be .*nan'),
    ([.1, .1], r'shape \(3,\)'),
    (.1, r'shape \(3,\)'),
    ([np.inf]*3, 'mu must be'),
    ([[.1]*3], r'shape \(3,\)'),
])
@pytest.mark.parametrize('method', ['step', 'spend', 'would_exceed', 'scale'])
def test_bad_steps_leave_a_filter_as_it_was(method, mus, message):
    f = IndividualGDPFilter(1., 3)
    f.spend([.5]*3)
    with pytest.raises(ValueError, match=message):
        getattr(f, method)(mus)
    assert f.steps == 1 and f.spent.tolist() == [.5]*3

@pytest.mark.parametrize('make, message', [
    (lambda: GDPFilter(0), 'budget must be'),
    (lambda: GDPFilter(-1), 'budget must be'),
    (lambda: GDPFilter(np.nan), 'budget must be'),
    (lambda: GDPFilter('1'), 'budget must be'),
    (lambda: GDPFilter(1e9), 'budget must be'),
    (lambda: IndividualGDPFilter(1., 0), 'n must be'),
    (lambda: IndividualGDPFilter(1., 2.5), 'n must be'),
    (lambda: RDPFilter(1., 1.), 'order must be'),
    (lambda: RDPFilter(2., 0), 'budget must be'),
    (lambda: GDPOdometer(0), 'increment must be'),
    (lambda: GDPOdometer(1.01e8), 'increment must be'),
    (lambda: GDPOdometer(.99e-12), 'increment must be'),
    (lambda: RDPOdometer(.5, 1.), 'order must be'),
    (lambda: GDPOdometer(1.).step(1e200), 'mu must leave the sum finite'),
    (lambda: GDPFilter(1.).epsilon(-1e-9), 'delta must be'),
    (lambda: GDPFilter(1.).epsilon(1.), 'delta must be'),
    (lambda: GDPFilter(1.).delta(-1), 'eps must be'),
    (lambda: RDPFilter(2., 1.).epsilon(2), 'delta must be'),
    (lambda: gaussian_epsilon([1, 2], [1e-5]*3), 'delta must broadcast'),
    (lambda: gaussian_epsilon(-1, 1e-5), 'mu must be'),
    (lambda: gaussian_epsilon(1, [1e-5, -1e-9]), 'delta must be'),
])
def test_bad_settings(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()

# State

KINDS = (
    lambda: GDPFilter(1.),
    lambda: IndividualGDPFilter(1., 2),
    lambda: RDPFilter(3., 1.),
    lambda: RDPFilter(3., 1., 2),
    lambda: GDPOdometer(.1),
    lambda: RDPOdometer(3., .1, 2),
)

def meters():
    "(how to make one, one that has taken seven steps) for each kind."
    for make in KINDS:
        meter = make()
        for _ in range(7):
            meter.step(.1/3 if meter.n is None else [.1/3, .123])
        yield make, meter

def contents(meter, folder):
    "All that is saved of it, each double exactly."
    meter.save(folder/'contents.json')
    return json.loads((folder/'contents.json').read_text(encoding='utf-8'))

@pytest.mark.parametrize('suffix', ['json', 'npz'])
def test_saved_state_is_exact(tmp_path, suffix):
    looks = tmp_path/'looks'
    looks.mkdir()
    for make, meter in meters():
        path = tmp_path/f'state.{suffix}'
        meter.save(path)
        again = make().load(path)
        assert again.steps == meter.steps and contents(again, looks) == contents(meter, looks)
        one, two = (m.step(.2/3 if m.n is None else [.2/3, .1]) for m in (meter, again))
        np.testing.assert_array_equal(one, two)
        assert contents(again, looks) == contents(meter, looks)
    assert sorted(os.listdir(tmp_path)) == ['looks', f'state.{suffix}']

# As version 0.1.0 wrote them: what was saved then must load now.
EARLIER = [
    (KINDS[0], .58309518948453, {
        'kind': 'GDPFilter', 'n': -1, 'budget': 1.0,
        'total': 0.33999999999999997, 'lost': 2.7755575615628914e-17, 'steps': 2}),
    (KINDS[1], [.31622776601683794, .9219544457292888], {
        'kind': 'IndividualGDPFilter', 'n': 2, 'budget': 1.0, 'total': [0.1, 0.8500000000000001],
        'lost': [-6.938893903907228e-18, -2.7755575615628914e-17], 'steps': 2}),
    (KINDS[2], .3, {
        'kind': 'RDPFilter', 'n': -1, 'budget': 1.0, 'order': 3.0,
        'total': 0.30000000000000004, 'lost': -2.7755575615628914e-17, 'steps': 2}),
    (KINDS[3], [.4, .2], {
        'kind': 'RDPFilter', 'n': 2, 'budget': 1.0, 'order': 3.0, 'total': [0.4, 0.2],
        'lost': [-2.7755575615628914e-17, 0.0], 'steps': 2}),
    (KINDS[4], .58309518948453, {
        'kind': 'GDPOdometer', 'n': -1, 'increment': 0.1,
        'total': 0.33999999999999997, 'lost': 2.7755575615628914e-17, 'steps': 2}),
    (KINDS[5], [.4, 1.1], {
        'kind': 'RDPOdometer', 'n': 2, 'increment': 0.1, 'order': 3.0, 'total': [0.4, 1.1],
        'lost': [-2.7755575615628914e-17, -5.551115123125783e-17], 'steps': 2}),
]

@pytest.mark.parametrize('make, spent, saved', EARLIER)
def test_files_of_the_first_version_load(tmp_path, make, spent, saved):
    path = tmp_path/'earlier.json'
    path.write_text(json.dumps(saved))
    meter = make().load(path)
    assert meter.spent == pytest.approx(spent, rel=1e-8) and meter.steps == 2
    assert contents(meter, tmp_path) == saved                     # and is written in the same way
    np.savez(tmp_path/'earlier.npz', **saved)
    assert contents(make().load(tmp_path/'earlier.npz'), tmp_path) == saved

@pytest.mark.parametrize('suffix', ['json', 'npz'])
def test_foreign_and_truncated_states_are_refused(tmp_path, suffix):
    made = list(meters())
    paths = [tmp_path/f'{i}.{suffix}' for i in range(len(made))]
    for path, (_, meter) in zip(paths, made, strict=True):
        meter.save(path)
    for i, (make, _) in enumerate(made):
        fresh = make()
        fresh.step(.01 if fresh.n is None else [.01, .02])
        before, whole = contents(fresh, tmp_path), paths[i].read_bytes()
        wrong = [path for path in paths if path != paths[i]]
        cuts = [whole[:size] for size in (0, 1, len(whole)//3, len(whole) - 2)]
        for j, bad in enumerate(cuts + [b'\0'*100, b'[]', b'{"kind": 3}', b'null']):
            wrong.append(tmp_path/f'bad{j}.{suffix}')
            wrong[-1].write_bytes(bad)
        for path in wrong:
            with pytest.raises(ValueError, match='path must be'):
                fresh.load(path)
        with pytest.raises(FileNotFoundError):
            fresh.load(tmp_path/f'none.{suffix}')
        assert contents(fresh, tmp_path) == before

@pytest.mark.parametrize('change', [
    {'total': 1.5}, {'total': -.1}, {'total': 'x'}, {'total': None}, {'lost': .5}, {'steps': -1},
    {'steps': 1.5}, {'total': [0.]}, {'budget': 2.}, {'more': 1},
])
def test_a_changed_state_is_refused(tmp_path, change):
    path = tmp_path/'a.json'
    GDPFilter(1.).save(path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding='utf-8')) | change))
    with pytest.raises(ValueError, match='path must be'):
        GDPFilter(1.).load(path)

def test_a_full_budget_loads(tmp_path):
    "What a filter forgives in a sum, it forgives in a file."
    f, path = GDPFilter(1.), tmp_path/'full.json'
    for _ in range(1000):
        f.spend(np.sqrt(1/1000))
    f.save(path)
    assert GDPFilter(1.).load(path).would_exceed(1e-3)

def test_suffixes(tmp_path):
    with pytest.raises(ValueError, match='suffix'):
        GDPFilter(1.).save(tmp_path/'a.pickle')

def test_a_failing_save_leaves_the_old_state(tmp_path, monkeypatch):
    def full(_):
        raise OSError('disk full')
    f, path = GDPFilter(1.), tmp_path/'a.json'
    f.step(.5)
    f.save(path)
    f.step(.5)
    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(OSError):
        f.save(path)
    assert GDPFilter(1.).load(path).spent == .5 and os.listdir(tmp_path) == ['a.json']

WORK = """
import sys
from pathlib import Path
from dp_saddle.filters import GDPFilter
state, released = Path(sys.argv[1]), open(sys.argv[2], 'a')
f = GDPFilter(1.)
if state.exists():
    f.load(state)
print('ready', flush=True)
while True:
    f.spend(1e-3)
    f.save(state)
    released.write(f'{f.steps}\\n')
    released.flush()
"""

@pytest.mark.skipif(os.name == 'nt', reason='SIGKILL is of Unix')
def test_killed_between_steps_nothing_is_lost_or_paid_twice(tmp_path):
    "Spend, save, release: what was released was paid for, and a kill costs the step under way."
    state, released = tmp_path/'f.json', tmp_path/'released'
    rng, kills = np.random.default_rng(0), 3
    for _ in range(kills):
        command = [sys.executable, '-c', WORK, str(state), str(released)]
        p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == 'ready\n'
        time.sleep(rng.uniform(.02, .2))
        p.send_signal(signal.SIGKILL)
        p.wait()
        p.stdout.close()
    f = GDPFilter(1.).load(state)
    out = [int(line) for line in released.read_text(encoding='utf-8').splitlines()]
    assert len(out) > kills and out == sorted(set(out))             # none is released twice
    assert out[-1] <= f.steps and len(out) <= f.steps <= len(out) + kills
    assert f.spent**2 == pytest.approx(f.steps*1e-6, rel=1e-12)

# Residues

def curve(x, r):
    "D_r at a real x, in as many digits as mpmath has now."
    if not r:
        return max(1 - mp.exp(x), mp.mpf(0))
    return mp.ncdf(r/2 - x/r) - mp.exp(x)*mp.ncdf(-r/2 - x/r)

FEW = settings(max_examples=settings.default.max_examples//4, deadline=None)

@FEW
@given(st.floats(.05, 6), st.floats(.001, 3), st.lists(st.floats(-15, 15), min_size=3, max_size=5))
def test_what_is_left_is_dominated_everywhere(r, e, places):
    "Randomised response and the residue, against the budget; a little more is too much."
    left = residue(r, e)
    with mp.workdps(60):
        r, e = mp.mpf(r), mp.mpf(e)
        p = mp.exp(e)/(1 + mp.exp(e))
        def gap(x, left):
            return curve(x, r) - p*curve(x - e, left) - (1 - p)*curve(x + e, left)
        if np.isnan(left):
            assert gap(mp.mpf(0), mp.mpf(0)) < 1e-13
            return
        left = mp.mpf(float(left))
        # (1e-55: of 60 digits)
        assert all(gap(mp.mpf(x), left) >= -1e-55 for x in (0., *places))
        assert gap(mp.mpf(0), left) < 3e-14 or gap(mp.mpf(0), left*(1 + mp.mpf('1e-9'))) < 0

@given(st.floats(.1, 5), st.floats(1e-3, 2))
def test_never_less_than_squares_leave(r, e):
    size = 2*ndtri(expit(e))
    if size < r*(1 - 1e-9):
        assert residue(r, e)**2 >= (r**2 - size**2)*(1 - 1e-6) - 1e-7

@pytest.mark.parametrize('budget, e, steps', [(1., .1, 98), (3., .5, 35)])
def test_steps_by_residues(budget, e, steps):
    guard, squares = GDPResidueFilter(budget), GDPFilter(budget)
    while guard.step(eps=e): pass
    while squares.step(2*ndtri(expit(e))*(1 + 1e-12)): pass
    assert guard.steps == steps > 1.45*squares.steps
    assert guard.would_exceed(eps=e) and not guard.would_exceed(eps=0.)

def test_mixed_runs_are_below_the_budget():
    "The exact curve of a run of both kinds, added up over the outcomes of randomised response."
    guard, spent, taken, rng = GDPResidueFilter(1.5), 0., [], np.random.default_rng(0)
    for _ in range(60):
        if rng.random() < .3:
            mu = rng.uniform(.05, .4)
            spent += mu**2*guard.step(mu=mu)
        else:
            e = rng.choice([.1, .2])
            taken += [e]*bool(guard.step(eps=e))
    losses, masses = np.zeros(1), np.ones(1)
    for e in taken:
        losses = np.round(np.append(losses + e, losses - e), 9)
        masses = np.append(masses*expit(e), masses*expit(-e))
        losses, place = np.unique(losses, return_inverse=True)
        masses = np.bincount(place, masses)
    assert len(taken) > 15 and spent > .3
    for x in (0., .3, 1., 2., 4.):
        found = sum(m*float(curve(x - l, np.sqrt(spent))) for m, l in zip(masses, losses))
        allowed = float(curve(x, 1.5))
        assert found <= allowed
        assert x or found > .8*allowed

def test_residues_of_records_and_files(tmp_path):
    each = GDPResidueFilter(1., n=3)
    assert each.step(eps=[.1, 1.5, 0.]).tolist() == [True, False, True]
    assert each.step(mu=[.5, 1., 0.]).tolist() == [True, True, True] and each.steps == 2
    assert not each.step(mu=[2., 2., 2.]).any() and each.steps == 2
    for name in ('state.json', 'state.npz'):
        each.save(tmp_path/name)
        again = GDPResidueFilter(1., n=3).load(tmp_path/name)
        assert (again.remaining == each.remaining).all() and again.steps == 2
        with pytest.raises(ValueError, match='budget'):
            GDPResidueFilter(2., n=3).load(tmp_path/name)
    state = each.to_dict() | {'square': [2., 0., 0.]}
    with pytest.raises(ValueError): GDPResidueFilter(1., n=3).from_dict(state)

def test_what_residues_promise():
    guard = GDPResidueFilter(.7)
    least = gaussian_epsilon(.7, 1e-5)
    assert least <= guard.epsilon(1e-5) < least*(1 + 1e-11)

@pytest.mark.parametrize('ask, words', [
    (dict(), 'eps or mu'), (dict(eps=.1, mu=.1), 'not both'), (dict(eps=-1.), 'eps'),
    (dict(mu=np.nan), 'mu'), (dict(eps=[.1, .1]), 'shape')])
def test_wrong_use_of_residues_changes_nothing(ask, words):
    guard = GDPResidueFilter(1.)
    for method in (guard.step, guard.would_exceed):
        with pytest.raises(ValueError, match=words): method(**ask)
    assert guard.steps == 0
    for bad in (dict(budget=0.), dict(budget=np.inf), dict(budget=1., n=0)):
        with pytest.raises(ValueError): GDPResidueFilter(**bad)
    assert not guard.step(eps=1e308) and not guard.step(mu=1e308)
