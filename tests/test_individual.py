"Chapter 05: filters that stop in time and survive, everyone's own bounds, and the same on a cluster."
import json, os, signal, subprocess, sys, threading, time
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from dp_saddle import Composition, ContourAccountant, Gaussian, GDPFilter, GDPOdometer, IndividualAccountant, IndividualGDPFilter, MomentsAccountant, PoissonSubsampled, RDPFilter, RDPOdometer, epsilon, individual_epsilon, rdp
from dp_saddle.filters import gaussian_epsilon
from dp_saddle.individual import account_store, norm_counts
from oracles import gaussian

pytestmark = pytest.mark.filterwarnings('error', 'ignore:The inplace keyword')       # the latter is dask's own

# Filters

@given(st.floats(1e-3, 1e3), st.integers(1, 3000))
def test_a_budget_lasts_for_exactly_its_steps(budget, k):
    f, mu = GDPFilter(budget), budget/np.sqrt(k)
    for _ in range(k): f.spend(mu)
    assert f.would_exceed(mu) and not f.step(mu) and f.steps == k and f.spent == pytest.approx(budget, rel=1e-15)

def spend_equal(k):
    "Record i pays a k_i-th of the squared budget at each step: it takes part exactly k_i times."
    f, mu, count = IndividualGDPFilter(.7, len(k)), .7/np.sqrt(k), np.zeros(len(k), int)
    for _ in range(k.max() + 2): count += f.step(mu)
    assert (count == k).all()

def test_two_hundred_budgets_of_about_ten_thousand_steps(): spend_equal(np.arange(10_000, 10_200))
@pytest.mark.slow
def test_two_hundred_budgets_of_a_million_steps(): spend_equal(np.arange(1_000_000, 1_000_200))

@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_sums_are_those_of_exact_arithmetic(mus):
    from fractions import Fraction
    odometer = GDPOdometer(1.)
    for mu in mus: odometer.step(mu)
    exact = float(sum(Fraction(m)*Fraction(m) for m in mus))
    assert odometer.spent**2 == pytest.approx(exact, rel=1e-15, abs=1e-300)

@given(st.lists(st.floats(0, 2), min_size=1, max_size=50))
def test_step_is_would_exceed_then_spend(mus):
    a, b = GDPFilter(1.), GDPFilter(1.)
    for mu in mus:
        refused = b.would_exceed(mu)
        if not refused: b.spend(mu)
        assert a.step(mu) == (not refused)
    assert a.spent == b.spent <= 1 and a.steps == b.steps

def test_a_refused_spend_changes_nothing():
    f = IndividualGDPFilter(1., 3)
    f.spend([.5, .9, 0])
    with pytest.raises(ValueError, match=r'mu must be at most 0.43589, .* got 0.5 for record 1; nothing was spent'): f.spend([.1, .5, .1])
    assert f.spent.tolist() == [.5, .9, 0] and f.steps == 1
    assert f.step([.1, .5, .1]).tolist() == [True, False, True] and f.spent[1] == .9
    assert not f.step([9., 9., 9.]).any() and f.steps == 2          # nobody took part: no step

def test_the_last_step_scaled_uses_the_budget_exactly():
    f = IndividualGDPFilter(1.3, 4)
    f.spend([.2, .7, 1.1, 1.3])
    mu = np.full(4, 5.)
    f.spend(mu*f.scale(mu))
    assert f.spent == pytest.approx(np.full(4, 1.3), rel=1e-15) and f.would_exceed(np.full(4, 1e-4)).all()
    assert f.scale(0*mu).tolist() == [1]*4

def test_conversion_is_the_gaussian_curve():
    f, eps = GDPFilter(.8), np.array([0., .3, 1., 4.])
    exact = np.array([float(gaussian([.8], e)) for e in eps])
    assert (f.delta(eps) >= exact).all() and f.delta(eps) == pytest.approx(exact, rel=1e-10)
    assert f.epsilon(1e-5) == pytest.approx(epsilon(Gaussian(sigma=1.25), delta=1e-5), rel=1e-10)
    mu = np.array([0., 1e-9, 1e-4, .1, 3., 40., 1e4])
    upper = gaussian_epsilon(mu, 1e-5)
    assert upper[:2].tolist() == [0, 0]
    for m, e in zip(mu[2:], upper[2:]): assert float(gaussian([m], e)) <= 1e-5 and e == pytest.approx(epsilon(Gaussian(sigma=1/m), delta=1e-5), rel=1e-9, abs=1e-12)

def test_gdp_paper_section_4_1():
    assert [round(v, 4) for v in (MomentsAccountant(420*Gaussian(sigma=100.)).epsilon(1e-5).upper, gaussian_epsilon(np.sqrt(420)/100, 1e-5), gaussian_epsilon(np.sqrt(495)/100, 1e-5))] == [.8156, .7451, .8152]
    f, r = GDPFilter(np.sqrt(495)/100), RDPFilter(20., 420*20/2e4)
    while f.step(1/100): pass
    while r.step(20/2e4): pass
    assert (f.steps, r.steps) == (495, 420)

def test_renyi_filter_against_moments():
    orders = np.linspace(2, 60, 400)
    best = min(RDPFilter(a, 420*a/2e4).epsilon(1e-5) for a in orders)
    assert best == pytest.approx(MomentsAccountant(420*Gaussian(sigma=100.)).epsilon(1e-5).upper, rel=1e-4)

def test_odometers_prove_the_next_crossing():
    one, all_ = GDPOdometer(.5, 2), RDPOdometer(8., .1)
    assert one.bound.tolist() == [0, 0] and all_.epsilon(1e-5) == 0
    one.step([.5, 0]); assert one.bound.tolist() == [.5, 0]
    one.step([.1, .1]); assert one.bound == pytest.approx([np.sqrt(.5), .5])
    for _ in range(10): all_.step(.01)
    assert all_.bound == pytest.approx(.1) and all_.epsilon(1e-5) == RDPFilter(8., .1).epsilon(1e-5)
    assert (one.epsilon(1e-5) >= gaussian_epsilon(one.spent, 1e-5)).all()
    fine = GDPOdometer(1e-12)
    for mu in (1., 1e-9, .3): fine.step(mu); assert fine.bound >= fine.spent

def test_an_odometer_that_overflows_stays_as_it_was(tmp_path):
    o = GDPOdometer(1.)
    o.step(1e154)
    with pytest.raises(ValueError, match='finite'): o.step(1.2e154)
    assert o.steps == 1 and o.spent == 1e154
    o.save(tmp_path/'o.json')
    assert GDPOdometer(1.).load(tmp_path/'o.json').spent == 1e154

@pytest.mark.parametrize('mus, message', [([.1, -.1, .1], r'mu must be in \[0, inf\), got -0.1'), ([.1, np.nan, .1], 'mu must be .*nan'), ([.1, .1], r'shape \(3,\)'), (.1, r'shape \(3,\)'), ([np.inf]*3, 'mu must be'), ([[.1]*3], r'shape \(3,\)')])
@pytest.mark.parametrize('method', ['step', 'spend', 'would_exceed', 'scale'])
def test_bad_steps_leave_a_filter_as_it_was(method, mus, message):
    f = IndividualGDPFilter(1., 3)
    f.spend([.5]*3)
    with pytest.raises(ValueError, match=message): getattr(f, method)(mus)
    assert f.steps == 1 and f.spent.tolist() == [.5]*3

@pytest.mark.parametrize('make, message', [
    (lambda: GDPFilter(0), 'budget must be'), (lambda: GDPFilter(-1), 'budget must be'), (lambda: GDPFilter(np.nan), 'budget must be'), (lambda: GDPFilter('1'), 'budget must be'),
    (lambda: IndividualGDPFilter(1., 0), 'n must be'), (lambda: IndividualGDPFilter(1., 2.5), 'n must be'), (lambda: RDPFilter(1., 1.), 'order must be'), (lambda: RDPFilter(2., 0), 'budget must be'),
    (lambda: GDPFilter(1e9), 'budget must be'), (lambda: GDPOdometer(0), 'increment must be'), (lambda: GDPOdometer(1.01e8), 'increment must be'), (lambda: GDPOdometer(.99e-12), 'increment must be'), (lambda: gaussian_epsilon([1, 2], [1e-5]*3), 'delta must broadcast'), (lambda: GDPOdometer(1.).step(1e200), 'mu must leave the sum finite'), (lambda: RDPOdometer(.5, 1.), 'order must be'), (lambda: GDPFilter(1.).epsilon(0), 'delta must be'), (lambda: GDPFilter(1.).epsilon(1.), 'delta must be'),
    (lambda: GDPFilter(1.).delta(-1), 'eps must be'), (lambda: RDPFilter(2., 1.).epsilon(2), 'delta must be'), (lambda: gaussian_epsilon(-1, 1e-5), 'mu must be'), (lambda: gaussian_epsilon(1, [1e-5, 0]), 'delta must be')])
def test_bad_settings(make, message):
    with pytest.raises((ValueError, TypeError), match=message): make()

# State

def things():
    for make in (lambda: GDPFilter(1.), lambda: IndividualGDPFilter(1., 2), lambda: RDPFilter(3., 1.), lambda: RDPFilter(3., 1., 2), lambda: GDPOdometer(.1), lambda: RDPOdometer(3., .1, 2)):
        thing = make()
        for _ in range(7): thing.step(.1/3 if thing.n is None else [.1/3, .123])
        yield make, thing
    def account(): return IndividualAccountant(2., 1., .01)
    thing = account()
    for c in (.3, .7, 1.): thing.step([c, c/3])
    yield account, thing

@pytest.mark.parametrize('suffix', ['json', 'npz'])
def test_saved_state_is_exact(tmp_path, suffix):
    for make, thing in things():
        path = tmp_path/f'state.{suffix}'
        thing.save(path)
        again = make().load(path)
        assert again.steps == thing.steps
        for k, v in thing._state().items(): np.testing.assert_array_equal(again._state()[k], v)
        one, two = (x.step(.2/3 if x.n is None else [.2/3, .1]) for x in (thing, again))
        np.testing.assert_array_equal(one, two)
        for k, v in thing._state().items(): np.testing.assert_array_equal(again._state()[k], v)
    assert os.listdir(tmp_path) == [f'state.{suffix}']

@pytest.mark.parametrize('suffix', ['json', 'npz'])
def test_foreign_and_truncated_states_are_refused(tmp_path, suffix):
    paths, made = [], list(things())
    for i, (_, thing) in enumerate(made): thing.save(tmp_path/f'{i}.{suffix}'); paths.append(tmp_path/f'{i}.{suffix}')
    for i, (make, _) in enumerate(made):
        fresh = make()
        fresh.step(.01 if fresh.n is None and i < 6 else [.01, .02])
        before = {k: v.copy() for k, v in fresh._state().items()}
        for j, path in enumerate(paths):
            if i != j:
                with pytest.raises(ValueError, match='path must be'): fresh.load(path)
        whole = paths[i].read_bytes()
        for cut in (0, 1, len(whole)//3, len(whole) - 2):
            paths[i].write_bytes(whole[:cut])
            with pytest.raises(ValueError, match='path must be'): fresh.load(paths[i])
        for junk in (b'\0'*100, b'[]', b'{"kind": 3}', b'null'):
            paths[i].write_bytes(junk)
            with pytest.raises(ValueError, match='path must be'): fresh.load(paths[i])
        with pytest.raises(FileNotFoundError): fresh.load(tmp_path/f'none.{suffix}')
        for k, v in fresh._state().items(): np.testing.assert_array_equal(v, before[k])
        paths[i].write_bytes(whole)

def test_a_changed_state_is_refused(tmp_path):
    path = tmp_path/'a.json'
    GDPFilter(1.).save(path)
    good = json.loads(path.read_text())
    for change in ({'total': 1.5}, {'total': -.1}, {'total': 'x'}, {'total': None}, {'lost': .5}, {'steps': -1}, {'steps': 1.5}, {'total': [0.]}, {'budget': 2.}, {'more': 1}):
        path.write_text(json.dumps(good | change))
        with pytest.raises(ValueError, match='path must be'): GDPFilter(1.).load(path)
    with pytest.raises(ValueError, match='suffix'): GDPFilter(1.).save(tmp_path/'a.pickle')

def test_a_failing_save_leaves_the_old_state(tmp_path, monkeypatch):
    f, path = GDPFilter(1.), tmp_path/'a.json'
    f.step(.5); f.save(path)
    f.step(.5)
    monkeypatch.setattr(os, 'fsync', lambda _: (_ for _ in ()).throw(OSError('disk full')))
    with pytest.raises(OSError): f.save(path)
    assert GDPFilter(1.).load(path).spent == .5 and os.listdir(tmp_path) == ['a.json']

WORK = """
import sys
from pathlib import Path
from dp_saddle.filters import GDPFilter
state, released = Path(sys.argv[1]), open(sys.argv[2], 'a')
f = GDPFilter(1.)
if state.exists(): f.load(state)
print('ready', flush=True)
while True:
    f.spend(1e-3); f.save(state)
    released.write(f'{f.steps}\\n'); released.flush()
"""

@pytest.mark.skipif(sys.platform == 'win32', reason='SIGKILL is of Unix')
def test_killed_between_steps_nothing_is_lost_or_paid_twice(tmp_path):
    "Spend, save, release: what was released was paid for, and each kill costs at most the one step under way."
    state, released, rng, kills = tmp_path/'f.json', tmp_path/'released', np.random.default_rng(0), 6
    for _ in range(kills):
        p = subprocess.Popen([sys.executable, '-c', WORK, str(state), str(released)], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == 'ready\n'
        time.sleep(rng.uniform(.02, .2))
        p.send_signal(signal.SIGKILL); p.wait(); p.stdout.close()
    f = GDPFilter(1.).load(state)
    out = [int(line) for line in released.read_text().splitlines()]
    assert len(out) > kills and out == sorted(set(out)) and out[-1] <= f.steps                       # none is released twice
    assert len(out) <= f.steps <= len(out) + kills and f.spent**2 == pytest.approx(f.steps*1e-6, rel=1e-12)

# Everyone's own epsilon

MECHANISMS = {}
def alone(row, sigma, rate):
    "The truth: each different step composed by chapter 01."
    parts, counts = np.unique(row[row > 0], return_counts=True)
    for c in parts: MECHANISMS.setdefault((c, sigma, rate), PoissonSubsampled(base=Gaussian(sigma=sigma/c), rate=rate))
    return ContourAccountant(Composition(tuple((MECHANISMS[c, sigma, rate], int(k)) for c, k in zip(parts, counts))))

def fill(norms, **kw):
    book = IndividualAccountant(**kw)
    for column in norms.T: book.step(column)
    return book

@pytest.fixture(scope='module')
def fifty():
    "50 records, 1000 steps, norms that vary by a factor of ten within each."
    rng = np.random.default_rng(3)
    norms = np.minimum(np.exp(rng.normal(np.log(rng.uniform(.05, 1, (50, 1))), .6, (50, 1000))), 1)
    norms = np.maximum(np.round(norms*25), 1)/25                   # 25 values, between those of the grid
    return norms, fill(norms, sigma=2., clip=1., rate=.01), [alone(row, 2., .01) for row in norms]

def test_fifty_records_against_exact_composition(fifty):
    _, book, exact = fifty
    assert book.grid.size == 64
    ours, truth = book.epsilon(1e-5), np.array([a.epsilon(1e-5) for a in exact]).T
    assert (ours.lower <= truth[0]).all() and (truth[2] <= ours.upper).all() and (ours.upper <= 1.01*truth[2]).all()
    some, eps = range(0, 50, 7), truth[1, ::7]*1.1
    ours, truth = book.delta(eps, records=some), np.array([exact[i].delta(e) for i, e in zip(some, eps)]).T
    assert (ours.lower <= truth[0]).all() and (truth[2] <= ours.upper).all()

@pytest.mark.parametrize('delta, grid, loose', [(.1, 64, 1e-3), (1e-3, 64, 1e-3), (1e-10, 256, .01), (1e-30, 256, .05)])
def test_other_deltas(fifty, delta, grid, loose):
    "The smaller delta, the more the largest steps count, and the finer the grid has to be."
    norms, _, exact = fifty
    book, some = fill(norms, sigma=2., clip=1., rate=.01, sigma_grid=grid), [0, 17, 33, 49]
    ours, truth = book.epsilon(delta, records=some), np.array([exact[i].epsilon(delta) for i in some]).T
    assert (ours.lower <= truth[0]).all() and (truth[2] <= ours.upper).all() and (ours.upper <= (1 + loose)*truth[2]).all()

@settings(max_examples=40)
@given(st.sampled_from([(.7, .01), (2., .1), (5., 1.), (1., 1e-3)]), st.lists(st.sampled_from([0., .001, .05, .3, .31, .7, .99, 1.]), min_size=1, max_size=12), st.integers(1, 200), st.floats(1e-9, .3))
def test_bounds_of_random_records(setting, norms, times, delta):
    sigma, rate = setting
    row = np.repeat(norms, times)
    assume(row.any())
    book = fill(row[None], sigma=sigma, clip=1., rate=rate)
    ours, truth = book.epsilon(delta), alone(row, sigma, rate).epsilon(delta)
    assert ours.lower[0] <= truth.upper and truth.lower <= ours.upper[0] and ours.lower[0] <= ours.upper[0] < np.inf

@pytest.mark.parametrize('grid, loose', [(64, .05), (256, .01)])
def test_whole_curves_of_large_steps(grid, loose):
    "A rate of 1/6: from delta(0) to 1e-8, where few steps count."
    rng = np.random.default_rng(8)
    rows = rng.uniform(.05, .8, (4, 1))*np.exp(-rng.uniform(0, .02, (4, 1))*np.arange(300))*np.exp(.5*rng.standard_normal((4, 300)))
    rows = np.maximum(np.round(25*np.minimum(rows, 1)), 1)/25
    book = fill(rows, sigma=2., clip=1., rate=1/6, sigma_grid=grid)
    for i, a in enumerate(alone(row, 2., 1/6) for row in rows):
        eps = np.linspace(0, a.epsilon(1e-8).lower, 10)
        truth, ours = a.delta(eps), [book.delta(e, records=[i]) for e in eps]
        assert (np.ravel([b.lower for b in ours]) <= truth.lower).all() and (truth.upper <= np.ravel([b.upper for b in ours])).all() and (np.ravel([b.upper for b in ours]) <= (1 + loose)*truth.upper).all()

def test_on_the_grid_nothing_is_split():
    "Norms on the grid: the bounds are those of chapter 01, up to their certificate."
    book = IndividualAccountant(2., 1., .01)
    row = np.minimum(2/np.random.default_rng(1).choice(book.grid[:40], 500), 1)
    for c in row: book.step([c])
    truth = alone(row, 2., .01)
    for d in (1e-3, 1e-6, 1e-12): assert truth.epsilon(d).lower <= book.epsilon(d).upper[0] <= truth.epsilon(d).upper*(1 + 1e-3)

def test_engines(fifty):
    norms, book, exact = fifty
    contour, renyi, fourier = (book.epsilon(1e-5, engine=e) for e in ('contour', 'rdp', 'fourier'))
    assert (renyi.upper > 1.05*contour.upper).all() and (fourier.lower == 0).all() and (fourier.upper == renyi.upper).all()
    misses = [np.abs(book.epsilon(1e-5, engine='fourier', n=n).estimate/contour.upper - 1).max() for n in (1 << 14, 1 << 16)]
    assert misses[0] > misses[1] and misses[1] < 5e-3
    row = norms[4]
    order = 16.
    assert book.rdp(order, [4])[0] == pytest.approx(sum(rdp(PoissonSubsampled(base=Gaussian(sigma=2/c), rate=.01), order) for c in row), rel=5e-3)
    assert book.rdp(order, [4])[0] >= sum(rdp(PoissonSubsampled(base=Gaussian(sigma=2/c), rate=.01), order) for c in row)*(1 - 1e-9)

def test_fed_to_a_renyi_filter(fifty):
    "The adaptive way: one order, and the divergence of each step before it is taken."
    norms, book, _ = fifty
    guard, order = RDPFilter(16., .02, n=50), 16.
    for column in norms[:, :200].T: guard.step(book.step_rdp(column, order))
    assert (guard.spent <= .02*(1 + 1e-15)).all() and len(set(guard.spent)) == 50
    once = IndividualAccountant(2., 1., .01, n=50)
    once.step(norms[:, 0])
    assert once.rdp(order) == pytest.approx(book.step_rdp(norms[:, 0], order), rel=1e-12)

def test_mu_covers_the_curve_down_to_delta(fifty):
    _, book, exact = fifty
    mu = book.mu(1e-8, records=[3, 30])
    for m, i in zip(mu, (3, 30)):
        for e in np.linspace(0, exact[i].epsilon(1e-8).lower, 7): assert float(gaussian([m], e)) >= exact[i].delta(e).lower*(1 - 1e-9)
        assert float(gaussian([.9*m], 0.)) < exact[i].delta(0.).upper                     # and is not much too large
    full = fill(np.full((1, 9), 1.), sigma=3., clip=1., rate=1.)
    assert full.mu(1e-8)[0] == pytest.approx(1., rel=1e-2) and full.mu(1e-8, cells=96)[0] == pytest.approx(1., rel=1e-3)

def test_norms_of_zero_cost_nothing_and_full_ones_the_worst_case():
    book = fill(np.array([[0.]*20, [1.]*20]), sigma=2., clip=1., rate=.1)
    worst = epsilon(20*PoissonSubsampled(base=Gaussian(sigma=2.), rate=.1), delta=1e-5)
    for engine in ('contour', 'rdp', 'fourier'): assert book.epsilon(1e-5, engine=engine).upper[0] == 0
    assert book.epsilon(1e-5).upper[1] == pytest.approx(worst, rel=1e-6) and book.delta(0.).upper[0] == 0 == book.rdp(4.)[0] == book.mu()[0]

BOOK = dict(sigma=2., clip=1.5, rate=.1)
@pytest.mark.parametrize('norms, message', [([.1, -.1], r'norms must be in \[0, 1.5\], got -0.1'), ([.1, 1.6], r'norms must be in \[0, 1.5\], got 1.6'), ([np.nan, .1], 'norms must be .*nan'), ([.1], r'shape \(2,\)'), ([[.1, .2]], r'shape \(2,\)'), (.1, r'shape \(2,\)'), ([], r'shape \(2,\)'), (['a', 'b'], 'norms must be')])
def test_bad_norms_leave_the_accountant_as_it_was(norms, message):
    book = IndividualAccountant(**BOOK)
    book.step([.1, .2])
    before = book.counts.copy()
    for method in (book.step, lambda x: book.step_rdp(x, 4.)):
        with pytest.raises((ValueError, TypeError), match=message): method(norms)
    assert book.steps == 1 and (book.counts == before).all()

@pytest.mark.parametrize('call, message', [
    (lambda b: b.epsilon(0), 'delta must be'), (lambda b: b.epsilon(1.), 'delta must be'), (lambda b: b.epsilon(np.nan), 'delta must be'), (lambda b: b.epsilon(1e-5, records=2), r'records must be in \[0, 2\), got 2'),
    (lambda b: b.epsilon(1e-5, records=[0, -1]), 'records must be .*got -1'), (lambda b: b.epsilon(1e-5, records=[.5]), 'records must be'), (lambda b: b.epsilon(1e-5, engine='magic'), 'engine must be'), (lambda b: b.delta(-1), 'eps must be'),
    (lambda b: b.delta([1., 2., 3.]), r'shape \(2,\)'), (lambda b: b.delta(np.nan), 'eps must be'), (lambda b: b.rdp(1.), 'order must be'), (lambda b: b.rdp(1e9), 'order must be'), (lambda b: b.mu(0), 'delta must be'), (lambda b: b.epsilon(1e-5, engine='fourier', n=3), 'n must be'),
    (lambda b: b.epsilon(1e-5, engine='fourier', L=-1), 'L must be')])
def test_bad_questions(call, message):
    book = IndividualAccountant(**BOOK)
    book.step([.1, .2])
    with pytest.raises((ValueError, TypeError), match=message): call(book)

@pytest.mark.parametrize('change, message', [(dict(sigma=.09), 'sigma must be'), (dict(sigma=np.nan), 'sigma must be'), (dict(clip=0), 'clip must be'), (dict(rate=0), 'rate must be'), (dict(rate=1.1), 'rate must be'), (dict(sigma_grid=1), 'sigma_grid must be'), (dict(sigma_grid=[3., 4.]), 'sigma_grid must be'), (dict(sigma_grid=[2., 1.]), 'sigma_grid must be'), (dict(sigma_grid=[2., np.nan]), 'sigma_grid must be'), (dict(n=0), 'n must be')])
def test_bad_accountants(change, message):
    with pytest.raises((ValueError, TypeError), match=message): IndividualAccountant(**(BOOK | change))

def test_before_the_first_step(tmp_path):
    for suffix in ('json', 'npz'):
        IndividualAccountant(**BOOK).save(tmp_path/f'empty.{suffix}')
        assert IndividualAccountant(**BOOK).load(tmp_path/f'empty.{suffix}').n is None
    with pytest.raises(ValueError, match=r'norms must have shape \(1,\)'): IndividualAccountant(**BOOK).step([])
    assert individual_epsilon(np.empty((0, 5)), **SETTINGS).shape == (0, 3) and (individual_epsilon(np.empty((5, 0)), **SETTINGS) == 0).all()
    book = IndividualAccountant(**BOOK)
    book.step([.1, .5, 1.5])
    all_ = book.epsilon(1e-3).upper
    assert book.epsilon(1e-3, records=[]).upper.size == 0 and book.epsilon(1e-3, records=np.array([True, False, True])).upper.tolist() == all_[[0, 2]].tolist()
    assert IndividualAccountant(**BOOK).epsilon(1e-5).upper.shape == (0,) and IndividualAccountant(**BOOK, n=3).epsilon(1e-5).upper.tolist() == [0, 0, 0]

def test_small_noise_and_small_norms():
    "Noise levels at which total variation rounds to 1; and norms that no grid reaches."
    row = np.array([[1., .99, .97, .2]]).T
    book = fill(row, sigma=.1, clip=1., rate=1.)
    for up, c in zip(book.epsilon(1e-5).upper, row[:, 0]): assert epsilon(Gaussian(sigma=.1/c), delta=1e-5) <= up*(1 + 1e-12) and up < 1.08*epsilon(Gaussian(sigma=.1/c), delta=1e-5)
    tiny = fill(np.full((1, 300), 1e-12), sigma=1.5, clip=1., rate=.01).epsilon(1e-5)
    assert tiny.upper[0] == 0

@pytest.mark.parametrize('sigma, rate, steps, delta', [(.5, 1e-5, 1, 1e-6), (1., 1e-3, 1, 1e-8), (14.03, 1e-5, 1, 1e-30), (2., .01, 1, 1e-30), (1., .01, 3, 1e-5)])
def test_a_few_full_steps_cost_what_chapter_01_says(sigma, rate, steps, delta):
    truth = epsilon(steps*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate), delta=delta)
    ours = fill(np.ones((1, steps)), sigma=sigma, clip=1., rate=rate).epsilon(delta)
    assert ours.upper[0] == pytest.approx(truth, rel=1e-2) and ours.upper[0] >= truth*(1 - 1e-9)

@settings(max_examples=40)
@given(st.sampled_from([(.7, .01), (2., .1), (5., 1.), (1., 1e-3)]), st.lists(st.floats(.01, 1), min_size=1, max_size=6), st.floats(2, 64))
def test_renyi_divergences_are_bounds_and_never_above_the_worst_case(setting, norms, order):
    sigma, rate = setting
    book = fill(np.array([norms]), sigma=sigma, clip=1., rate=rate)
    exact = sum(rdp(PoissonSubsampled(base=Gaussian(sigma=sigma/c), rate=rate), order) for c in norms)
    worst = len(norms)*rdp(PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate), order)
    assert exact*(1 - 1e-9) <= book.rdp(order)[0] <= worst*(1 + 1e-9)

def test_where_mixing_has_no_bound_it_is_not_assumed():
    "Two grid values far apart: the certificate must cover the mixture that the split stands for."
    book = IndividualAccountant(.1, 1., 1., sigma_grid=[.1, 1.])
    book.step([.1*(1 + 1e-9)])
    weight = book.counts[0, 2]
    assert book.delta(100.).upper[0] >= weight*np.exp(-(100/10 - 5)**2/2)/50 if weight > 0 else book.delta(100.).upper[0] >= 0

# Stores and clusters

SETTINGS = dict(delta=1e-5, sigma=2., clip=1., rate=.01)

@pytest.fixture(scope='module')
def table(): return np.minimum(np.random.default_rng(5).lognormal(-1.5, 1, (240, 300)), 1)

@pytest.fixture(scope='module')
def expected(table): return individual_epsilon(table, **SETTINGS)

def test_arrays_and_the_accountant_agree(table, expected):
    da = pytest.importorskip('dask.array')
    assert expected.shape == (240, 3)
    book = fill(table[:20], sigma=2., clip=1., rate=.01)
    assert np.array(book.epsilon(1e-5)).T == pytest.approx(expected[:20], rel=1e-6)
    lazy = individual_epsilon(da.from_array(table, chunks=(60, 70)), **SETTINGS)
    assert lazy.shape == (240, 3) and lazy.compute(scheduler='threads') == pytest.approx(expected, rel=1e-6)

@pytest.mark.parametrize('kinds', [('zarr', 'zarr'), ('parquet', 'parquet'), ('zarr', 'parquet')])
def test_from_store_to_store(tmp_path, table, expected, kinds):
    da, dd = pytest.importorskip('dask.array'), pytest.importorskip('dask.dataframe')
    source, target = tmp_path/f'norms.{kinds[0]}', tmp_path/f'eps.{kinds[1]}'
    norms = da.from_array(table, chunks=(80, 150))
    if kinds[0] == 'zarr': norms.to_zarr(str(source))
    else: dd.from_dask_array(norms.rechunk((80, -1)), columns=[f's{i}' for i in range(300)]).to_parquet(source)
    account_store(source, target, progress=False, **SETTINGS)
    out = da.from_zarr(str(target)).compute() if kinds[1] == 'zarr' else dd.read_parquet(target).compute()
    if kinds[1] == 'parquet': assert list(out) == ['lower', 'estimate', 'upper']
    assert np.asarray(out) == pytest.approx(expected, rel=1e-6) and not list(tmp_path.glob('*.part'))
    with pytest.raises(ValueError, match='target must not exist'): account_store(source, target, **SETTINGS)

def test_bad_stores(tmp_path):
    da = pytest.importorskip('dask.array')
    store = tmp_path/'large.zarr'
    da.full((4, 5), 1.5, chunks=2).to_zarr(str(store))
    with pytest.raises(FileNotFoundError, match='source'): account_store(tmp_path/'no.zarr', tmp_path/'eps.zarr', **SETTINGS)
    with pytest.raises(ValueError, match='suffix of source'): account_store(tmp_path/'no.csv', tmp_path/'eps.zarr', **SETTINGS)
    with pytest.raises(FileNotFoundError, match='target'): account_store(store, tmp_path/'no'/'eps.zarr', **SETTINGS)
    with pytest.raises(ValueError, match='suffix of target'): account_store(tmp_path/'no.zarr', tmp_path/'eps.npz', **SETTINGS)
    with pytest.raises(ValueError, match=r'norms must be in \[0, 1\], got 1.5'): account_store(store, tmp_path/'eps.zarr', progress=False, **SETTINGS)
    assert os.listdir(tmp_path) == ['large.zarr']             # neither a target nor a draft
    with pytest.raises(ValueError, match='norms must have shape'): individual_epsilon(np.ones(3), **SETTINGS)

@pytest.mark.skipif(sys.platform == 'win32', reason='SIGKILL is of Unix')
def test_a_worker_killed_midway_changes_nothing(tmp_path, table, expected):
    da, distributed = pytest.importorskip('dask.array'), pytest.importorskip('distributed')
    da.from_array(table, chunks=(12, 60)).to_zarr(str(tmp_path/'norms.zarr'))           # 20 x 5 chunks
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        pids = client.run(os.getpid)
        assert len(pids) == 3
        run = threading.Thread(target=account_store, args=(tmp_path/'norms.zarr', tmp_path/'eps.zarr'), kwargs=dict(progress=False, **SETTINGS))
        run.start()
        while not any(client.has_what().values()) and run.is_alive(): time.sleep(.01)   # some chunks are done
        assert run.is_alive()
        os.kill(next(pid for worker, pid in pids.items() if client.has_what()[worker]), signal.SIGKILL)
        run.join(120)
        assert not run.is_alive() and set(client.run(os.getpid).values()) != set(pids.values())
    assert da.from_zarr(str(tmp_path/'eps.zarr')).compute() == pytest.approx(expected, rel=1e-6)

def test_mixing_promises_nothing_for_wide_gaps():
    "Between neighbours that differ by pi i, log(1 - w + w e^u) is infinite at w = 1/2; where the bound is finite, it holds."
    from dp_saddle.batch import mixing_bounds
    assert mixing_bounds(np.array([[0.], [np.pi*1j]]))[0][0, 0] >= 1e300
    w = np.linspace(.01, .99, 99)
    for u in (.1, -1.4, 1.4j, .9 + .9j):
        bound = mixing_bounds(np.array([[0.], [u]]))[0][0, 0]
        assert (np.abs(np.log(1 - w + w*np.exp(u)) - w*u) <= bound*w*(1 - w)).all()

def test_what_mixing_adds_is_added_where_steps_are_mixed_only():
    from types import SimpleNamespace
    from dp_saddle.batch import tilted_sum
    family = SimpleNamespace(K=np.array([[.1, .2], [.3, .5]]), jump=np.array([[.05, .02], [.04, .01]]))
    counts, steps, spread = np.array([[3., 4.], [3., 4.]]), np.array([[3., 5.], [3., 5.]]), np.array([[0., 0.], [0., 1.]])
    plain, mixed = tilted_sum(family, counts, steps, spread)
    assert plain == pytest.approx(counts[0] @ family.K, rel=1e-9)
    assert mixed == pytest.approx(np.minimum(counts[1] @ family.K + 5*family.jump[1], steps[1] @ family.K), rel=1e-9) and (mixed >= plain*(1 - 1e-12)).all()
