"practice/schedules, schedules: every prefix, runs in files, the ledger."
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from dp_saddle import (
    ZCDP,
    ApproxDP,
    BallsInBins,
    Budget,
    Composition,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonReplaceOne,
    PoissonSubsampled,
    RandomizedResponse,
    dpsgd,
    epsilon,
    epsilon_after,
    from_steps,
    read_run,
    to_steps,
)
from dp_saddle.engine import prefixes
from dp_saddle.engine.many import LossFamily
from dp_saddle.engine.record_bounds import upper_epsilon
from dp_saddle.practice.merged_steps import MergedSteps
from dp_saddle.practice.run_files import exact, number, whole

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes',
                                        'ignore:the bounds hold, but are far apart')

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

# Every prefix

KINDS = [S(1., .01), S(2., .05), Gaussian(sigma=9.), Laplace(scale=30.),
         RandomizedResponse(eps=.01)]
SCHEDULES = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 30)),
                     min_size=1, max_size=5)

@settings(max_examples=5)
@given(SCHEDULES, st.sampled_from([1e-3, 1e-8]))
def test_every_prefix_is_bounded(schedule, delta):
    eps, steps = epsilon_after(schedule, delta=delta), [m for m, n in schedule for _ in range(n)]
    assert len(eps) == len(steps) and (np.diff(eps) >= 0).all()
    for n in (1, len(steps)//2 or 1, len(steps)):
        exact = ContourAccountant(sum(steps[:n], 0*steps[0])).epsilon(delta)
        assert exact.lower <= eps[n-1]*(1 + 1e-9) + 1e-9
    assert eps[-1] <= exact.upper*1.05 + .02

@pytest.mark.parametrize('step, delta, steps, most', [
    pytest.param(S(1., .001), 1e-6, 200_000, 700, marks=pytest.mark.slow),
    (S(.8, .05), 1e-12, 200_000, 700),
    pytest.param(Laplace(scale=50.), 1e-5, 30_000, 13_000, marks=pytest.mark.slow)])
def test_many_equal_steps(step, delta, steps, most, monkeypatch):
    "Prefixes between those that were asked for, against engine/line; and few are asked for."
    asked = []
    def counting(families, mixed, delta):
        asked.append(len(mixed.counts))
        return upper_epsilon(families, mixed, delta)
    monkeypatch.setattr(prefixes, 'upper_epsilon', counting)
    eps = epsilon_after(steps*step, delta=delta)
    assert eps.shape == (steps,) and (np.diff(eps) >= 0).all() and sum(asked) < most
    for n in (5000, steps//4 + 1, 5*steps//8, steps - 1, steps):
        exact = ContourAccountant(n*step).epsilon(delta)
        assert exact.lower <= eps[n - 1] <= exact.upper*(1 + 1e-4) + 1e-9

def test_equal_steps_of_few_outcomes():
    step = Discrete(p=(.52, .48), q=(.5, .5))
    eps = epsilon_after(300*step, delta=1e-6)
    assert (np.diff(eps) >= 0).all()
    for n in (1, 40, 299, 300):
        exact = ContourAccountant(n*step).epsilon(1e-6)
        assert exact.lower <= eps[n - 1] <= exact.upper*1.01 + 1e-9

def test_shuffled_steps_are_charged_by_epoch():
    run = dpsgd(sigma=2., batch_size=100, dataset_size=1000, epochs=3, sampling='shuffle')
    spent = epsilon_after(run, delta=1e-5)
    assert len(spent) == 30 and len(set(spent)) == 3
    assert 1 <= spent[-1]/epsilon(run, delta=1e-5) < 1.001

@pytest.mark.parametrize('schedule, message', [
    (5, 'schedule must'),
    ('x', 'schedule must'),
    (None, 'schedule must'),
    ([3], 'schedule must hold'),
    ([(Gaussian(sigma=1.),)], 'schedule must hold'),
    ([(Gaussian(sigma=1.), -1)], 'count must'),
    ([(Gaussian(sigma=1e5), 10**12)], 'count must add up to at most'),
])
def test_schedules_that_are_none(schedule, message):
    with pytest.raises((ValueError, TypeError), match=message):
        epsilon_after(schedule, delta=1e-5)

# Ledger

def test_the_ledger_stops_at_the_budget():
    budget, step = Budget(eps=2., delta=1e-5), S(1., .01)
    for count in (7, 1):
        budget.spend(step, count)
    budget.spend(Gaussian(sigma=10.))
    assert budget.history == ((step, 8), (Gaussian(sigma=10.), 1)) and budget.steps == 9
    while not budget.would_exceed(step):
        budget.spend(step)
    n, beside = budget.steps - 1, Gaussian(sigma=10.)
    assert budget.spent <= 2 < epsilon(beside + (n + 1)*step, delta=1e-5)
    assert budget.spent == pytest.approx(epsilon(beside + n*step, delta=1e-5), rel=1e-12)

def test_what_passes_the_budget_is_not_spent():
    budget = Budget(eps=2., delta=1e-5)
    budget.spend(S(1., .01), 1100)
    before = budget.history
    for step, count in ((S(1., .01), 200), (Gaussian(sigma=.1), 1)):
        with pytest.raises(ValueError, match='nothing was spent'):
            budget.spend(step, count)
    assert budget.history == before and not budget.would_exceed(S(1000., 1e-5))

STEPS = st.sampled_from([S(1., .05), S(2., .05), Gaussian(sigma=20.)])

@settings(max_examples=10)
@given(st.lists(st.tuples(STEPS, st.integers(1, 60)), min_size=1, max_size=12))
def test_the_ledger_knows_what_fits(asked):
    budget = Budget(eps=1., delta=1e-5)
    for step, n in asked:
        parts = budget.history + ((step, n),)
        assert budget.would_exceed(step, n) == (epsilon(Composition(parts), delta=1e-5) > 1)
        if not budget.would_exceed(step, n):
            budget.spend(step, n)

@pytest.mark.parametrize('suffix', ['json', 'npz'])
def test_the_ledger_survives(tmp_path, suffix):
    budget, path = Budget(1., 1e-5), tmp_path/f'b.{suffix}'
    budget.spend(S(1., .01), 5)
    budget.spend(Discrete(p=(.5, .5), q=(.49, .51)))
    budget.save(path)
    again = Budget(1., 1e-5).load(path)
    assert again.history == budget.history and again.spent == budget.spent
    assert again.would_exceed(Gaussian(sigma=.1)) and not again.would_exceed(S(1., .01))
    with pytest.raises(ValueError, match='delta is'):
        Budget(1., 1e-6).load(path)

def test_a_damaged_ledger_is_refused(tmp_path):
    budget, path = Budget(1., 1e-5), tmp_path/'b.json'
    budget.spend(S(1., .01))
    budget.save(path)
    path.write_text(path.read_text(encoding='utf-8')[:-9])
    with pytest.raises(ValueError, match='path must be'):
        budget.load(path)
    assert budget.steps == 1

def test_the_ledger_refuses_what_is_no_step():
    budget = Budget(1., 1e-5)
    for bad in (0, 1.5, -1):
        with pytest.raises((ValueError, TypeError), match='count must'):
            budget.spend(S(1., .01), bad)
    with pytest.raises(TypeError, match='step must be'):
        budget.would_exceed(1.)

@pytest.mark.parametrize('eps, delta', [(0, .1), (1, -.1), (np.inf, .1), (np.nan, .1), (1, 1)])
def test_budgets_that_are_none(eps, delta):
    with pytest.raises(ValueError, match='must be in'):
        Budget(eps, delta)

def test_a_ledger_takes_an_epoch_at_once(tmp_path):
    book, epoch = Budget(2., 1e-5), 100*S(1., .01) + Laplace(scale=50.)
    book.spend(epoch)
    book.spend(epoch, 2)
    assert book.steps == 303 and 'steps=303' in repr(book)
    assert book.spent == pytest.approx(epsilon(3*epoch, delta=1e-5), rel=1e-9)
    book.save(tmp_path/'b.json')
    assert Budget(2., 1e-5).load(tmp_path/'b.json').spent == book.spent

def test_a_ledger_of_alternating_steps_asks_seldom(monkeypatch):
    asked, book = [], Budget(3., 1e-5)
    def counted(self, counts, cost=Budget.cost):
        asked.append(counts)
        return cost(self, counts)
    monkeypatch.setattr(Budget, 'cost', counted)
    for _ in range(100):
        book.spend(S(1., .01))
        book.spend(Laplace(scale=200.))
    assert 0 < len(asked) < 30

def test_a_ledger_of_very_many_steps():
    book, tiny = Budget(1., 1e-5), S(1e5, 1e-3)
    for k in (0, 20, 40, 47):
        book.spend(tiny, 2**k)
    assert book.steps == (total := 1 + 2**20 + 2**40 + 2**47) and book.spent <= 1
    with pytest.raises(ValueError, match='2.53|9007199254740992'):
        book.spend(tiny, 2**53)
    assert book.steps == total

# Files

def run_of_many_kinds():
    return (3000*S(2., .01) + 10*Laplace(scale=20.) + ApproxDP(eps=.1, delta=1e-9)
            + Discrete(p=(.5, .5), q=(.4, .6)) + 2*DiscreteGaussian(sigma=3.))

def test_runs_in_json(tmp_path):
    run, path = run_of_many_kinds(), tmp_path/'run.json'
    path.write_text(json.dumps({'steps': to_steps(run)}))
    assert read_run(path) == run

def test_runs_in_yaml(tmp_path):
    yaml, run, path = pytest.importorskip('yaml'), run_of_many_kinds(), tmp_path/'run.yaml'
    path.write_text(yaml.safe_dump({'steps': json.loads(json.dumps(to_steps(run)))}))
    assert read_run(path) == run
    path = tmp_path/'evil.yaml'
    path.write_text('steps: !!python/object/apply:os.system ["true"]')
    with pytest.raises(ValueError, match='evil.yaml'):
        read_run(path)

def one(parameters=''):
    "A file of one Gaussian step."
    return '{"steps": [{"mechanism": "Gaussian"' + (parameters and ', ' + parameters) + '}]}'

@pytest.mark.parametrize('text, message', [
    ('{"steps": [{"mechanism": "Gausian", "sigma": 1}]}', "did you mean 'Gaussian'"),
    (one('"sigma": 1, "rates": 0.1'), "did you mean 'rate'"),
    ('{"step": []}', "did you mean 'steps'"),
    ('{"steps": 3}', 'steps must be a list'),
    ('{"steps": [3]}', 'step 0 must be a mapping'),
    ('{"steps": [{"sigma": 1}]}', 'mechanism of step 0'),
    ('{"steps": [{"mechanism": ["Gaussian"], "sigma": 1}]}', 'mechanism of step 0'),
    (one(), "step 0: .*sigma"),
    (one('"sigma": -1'), 'step 0: sigma must'),
    (one('"sigma": 1, "count": 1.5'), 'step 0: count must'),
    (one('"sigma": 1, "rate": 2'), 'step 0: rate must'),
    (one('"sigma": 1, "rate": true'), 'rate'),
    (one('"sigma": 1, "sigma": 5'), "'sigma' is given twice"),
    ('[1]', 'mapping'),
    ('{', 'run.json'),
    ('{}', 'no run is found, in a mapping of'),
])
def test_files_that_are_refused(tmp_path, text, message):
    (tmp_path/'run.json').write_text(text)
    with pytest.raises(ValueError, match=message):
        read_run(tmp_path/'run.json')

@pytest.mark.parametrize('text, said', [
    ('steps:\n- mechanism: Gaussian\n  sigma: 1\n  sigma: 5\n', 'twice'),
    ('steps:\n- mechanism: Gaussian\n  sigma: 1\n  rate: 1e-x\n', "the text '1e-x'"),
    ('steps: [', 'run.yaml'),
])
def test_yaml_with_mistakes(tmp_path, text, said):
    pytest.importorskip('yaml')
    (tmp_path/'run.yaml').write_text(text)
    with pytest.raises(ValueError, match=said):
        read_run(tmp_path/'run.yaml')

def test_a_file_that_is_no_text(tmp_path):
    (tmp_path/'run.json').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(ValueError, match='run.json'):
        read_run(tmp_path/'run.json')

def test_lists_that_are_refused():
    with pytest.raises(ValueError, match='steps must be a list'):
        from_steps({})
    with pytest.raises(ValueError, match='a name in a file, .* got Own.* only Gaussian, '):
        to_steps([type('Own', (Gaussian,), {})(sigma=1.)])

def test_prefixes_of_steps_with_mass_at_infinity():
    "Upper bounds at each prefix, exact at some; infinite where the mass is more than delta."
    leak = ApproxDP(eps=.1, delta=4e-6)
    spent = epsilon_after([leak]*4, delta=1e-5)
    each = [epsilon(n*leak, delta=1e-5) for n in (1, 2)]
    assert np.allclose(spent[:2], each) and np.isinf(spent[2:]).all()
    mixed = [ZCDP(rho=.01), leak, leak, leak]    # steps known by their moments beside such a mass
    spent = epsilon_after(mixed, delta=1e-5)
    each = [epsilon(sum(mixed[1:n], 1*mixed[0]), delta=1e-5) for n in (1, 2, 3, 4)]
    assert np.allclose(spent, each) and np.isinf(spent[3]) and spent[2] < 2
    fixed = PoissonReplaceOne(sigma=2., rate=.01)
    spent = epsilon_after(5*fixed, delta=1e-5)
    assert (np.diff(spent) >= 0).all()
    assert spent[-1] == epsilon(5*fixed, delta=1e-5) and spent[2] >= epsilon(3*fixed, delta=1e-5)

def delta_of_responses(steps, x):
    "delta at x of ApproxDP steps (eps, delta): all sums of +-eps, exactly."
    finite, law = mp.mpf(1), {mp.mpf(0): mp.mpf(1)}
    for eps, mass in steps:
        finite, truth, more = finite*(1 - mp.mpf(mass)), 1/(1 + mp.exp(-mp.mpf(eps))), Counter()
        for loss, p in law.items():
            more[loss + eps] += p*truth
            more[loss - eps] += p*(1 - truth)
        law = more
    return 1 - finite + finite*mp.fsum(p*(1 - mp.exp(x - y)) for y, p in law.items() if y > x)

@pytest.mark.parametrize('delta', [4.3e-6, 2e-9])
def test_every_prefix_of_few_outcomes_with_mass_at_infinity_is_exact(delta):
    steps = [(.01465927242798572, 5.164261249047715e-10)] + 30*[(.2140189992536605, 2.7e-12)]
    spent = epsilon_after([ApproxDP(eps=e, delta=p) for e, p in steps], delta=delta)
    with mp.workdps(30):
        for k in (1, 5, 20, 28, 31):
            at = [delta_of_responses(steps[:k], mp.mpf(spent[k - 1])*q) for q in (1, 1 - 1e-6)]
            assert at[0] <= delta*(1 + 1e-12) and at[1] > delta, k

@pytest.mark.parametrize('schedule', [
    [(ApproxDP(eps=.1, delta=2e-8), 10), (S(1., .01), 60)],
    15*[(ApproxDP(eps=.1, delta=2e-8), 1), (Laplace(scale=10.), 1)]], ids=['in turn', 'mixed'])
def test_every_prefix_of_steps_with_mass_at_infinity_is_near(schedule):
    "By what the mass leaves of delta, at most half a per cent above."
    spent = epsilon_after(schedule, delta=1e-6)
    steps = [m for m, n in schedule for _ in range(n)]
    for k in (9, 19, 30):
        alone = ContourAccountant(Composition(tuple((m, 1) for m in steps[:k]))).epsilon(1e-6)
        assert alone.lower <= spent[k - 1] <= 1.005*alone.upper, k

def scattered(n, seed=7):
    "So many steps, each with a noise and a rate of its own."
    pairs = np.random.default_rng(seed).uniform((1., .005), (3., .02), (n, 2))
    return [S(*pair) for pair in pairs]

@pytest.mark.slow
@pytest.mark.parametrize('many', [34, 40, 70])
def test_a_ledger_of_random_noises_and_rates_is_above_the_truth(many):
    "Every noise and every rate another: merged above 32 kinds; by 10 % at most, at this size."
    steps, book = scattered(many), Budget(eps=5., delta=1e-5)
    for n, step in enumerate(steps, 1):
        book.spend(step)
        if n in (32, 33, 34, 40, 45, 70):
            run = Composition(tuple((m, 1) for m in steps[:n]))
            exact = ContourAccountant(run).epsilon(1e-5)
            assert exact.lower <= book.spent <= 1.1*exact.upper, n
    assert book.steps == many

@pytest.mark.slow
@pytest.mark.parametrize('seed', [0, 1, 2])
def test_coarser_grids_are_above_the_truth(seed, monkeypatch):
    "And the coarser, the higher: kinds that lie on a coarser grid are on the finer one, too."
    steps, found = scattered(18, seed), []
    exact = ContourAccountant(Composition(tuple((m, 1) for m in steps))).epsilon(1e-5)
    for ratio in (1.02, 1.02**3, 1.02**12):
        monkeypatch.setattr('dp_saddle.practice.merged_steps._RATIO', ratio)
        merged = MergedSteps(steps)
        assert merged.along == 'both' and merged.powers == (1, 2)
        (bound,), _ = merged.upper_epsilon(merged.table(merged.between(
            dict.fromkeys(steps, 1)))[None], 1e-5)
        assert exact.lower <= bound
        found.append(bound)
    assert found == sorted(found) and found[0] < 1.1*exact.upper

@pytest.mark.slow
def test_what_was_tabulated_serves_on(monkeypatch):
    "A ledger that begins anew with more kinds, or a coarser grid, asks no old kind again."
    asked = []
    of_family = LossFamily.__init__
    def counting(self, steps, direction, known=None):
        old = set() if known is None else set(known.steps)
        asked.extend((m, direction) for m in steps if m not in old)
        of_family(self, steps, direction, known)
    monkeypatch.setattr(LossFamily, '__init__', counting)
    monkeypatch.setattr('dp_saddle.practice.merged_steps._MOST_ROWS', 160)
    steps = scattered(60)
    first = MergedSteps(steps[:25])
    first.families()
    few = len(asked)
    second = MergedSteps(steps[:25], known=first)
    second.families()
    assert len(asked) == few > 0
    third = MergedSteps(steps, known=first)
    third.families()
    assert third.powers > first.powers and len(third.rows) <= 80
    shared = len(first.rows.keys() & third.rows.keys())
    assert shared and len(asked) == few + 2*(len(third.rows) - shared)

@pytest.mark.parametrize('text, message', [
    ('{"steps": {"sigma": 1}}', 'steps must be a list'),
    ('{"steps": {}}', 'steps must be a list'),
    ('{"dpsgd": {"sigma": [], "batch_size": 1, "dataset_size": 9, "steps": 1, '
     '"sampling": "poisson"}}', 'sigma must be a value, or several')])
def test_files_that_say_nothing(tmp_path, text, message):
    (tmp_path/'run.json').write_text(text)
    with pytest.raises(ValueError, match=f'run.json: {message}'): read_run(tmp_path/'run.json')

@pytest.mark.parametrize('text', ['1e999999999', '1e-999999999', '1/1E0999999999', '1e9_999_999'])
def test_numbers_that_would_take_hours(text):
    for read in (exact, number, whole):
        with pytest.raises(ValueError, match='must fit into a double, got'): read(text)
    assert number('1e-400') == 0 and exact('1e0003') == 1000

def test_gaussians_only_are_exact():
    "Each prefix by the closed form, as `epsilon` has it; of many, bounds that are hardly wider."
    one, other = Gaussian(sigma=1.1), Gaussian(sigma=2.)
    for schedule in (10*one, [one, (other, 3), one], 40*one + 9*other):
        steps = to_steps(schedule)
        flat = [from_steps([{**step, 'count': 1}])[0][0] for step in steps
                for _ in range(step['count'])]
        wanted = [epsilon(sum(flat[:i + 1], 0*one), delta=1e-5) for i in range(len(flat))]
        assert epsilon_after(schedule, delta=1e-5) == pytest.approx(wanted, rel=1e-15)
    many = epsilon_after(1500*one, delta=1e-5)
    assert many[9] == pytest.approx(epsilon(10*one, delta=1e-5), rel=1e-3)

def test_entries_of_several_steps():
    "One answer for each entry, of whatever steps it consists."
    both = Gaussian(sigma=3.) + Laplace(scale=2.)
    draws = BallsInBins(Gaussian(sigma=1.), batches=3, draws=2)
    schedule = [Gaussian(sigma=3.), (both, 2), 0*both, draws, (1*Gaussian(sigma=3.), 2)]
    runs = [Gaussian(sigma=3.), both, both, 0*both, draws, Gaussian(sigma=3.), Gaussian(sigma=3.)]
    found = epsilon_after(schedule, delta=1e-5)
    wanted = [epsilon(sum(runs[:i + 1], 0*both), delta=1e-5) for i in range(len(runs))]
    assert (found >= np.array(wanted)*(1 - 1e-9)).all()
    assert found == pytest.approx(wanted, rel=2e-3) and found[2] == found[3]
    assert len(epsilon_after(2*draws, delta=1e-5)) == 4           # draw by draw
    assert not len(epsilon_after([], delta=1e-5)) and epsilon_after([0*both], delta=1e-5) == 0
    with pytest.raises(ValueError, match='add up to at most 10.8'):
        epsilon_after([(both, 10**8)], delta=1e-5)
