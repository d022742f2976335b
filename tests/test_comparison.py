"One run under every way of drawing batches: the table, the command, the picture, the relations."
import functools
import json

import numpy as np
import pytest
from scipy.optimize import brentq

from dp_saddle import (
    BallsInBins,
    Budget,
    Gaussian,
    Geometric,
    PoissonSubsampled,
    SelectionAccountant,
    calibrate,
    certify,
    compare,
    compare_sampling,
    dpsgd,
    epsilon,
    epsilon_after,
    from_steps,
    plot_sampling,
    report,
    selected,
    to_steps,
)
from dp_saddle.accounting import RELATIONS
from dp_saddle.command.main import main
from dp_saddle.practice.comparison import SCHEMES
from once import once_each

SMALL = dict(sigma=1., batch_size=10, dataset_size=200, epochs=2)

@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    "Fewer points of the curves of cohorts: the bounds hold, and are wider."
    monkeypatch.setattr('dp_saddle.sampling.two_level._PER_FALL', 8)

@functools.cache
def table(): return compare_sampling(**SMALL, delta=1e-5)

def found(): return {(b.scheme.sampling, b.scheme.relation): b for b in table().bounds}

def test_every_way_has_its_row():
    bands = 'cyclic-poisson', 'b-min-sep'       # Poisson samples, where noise is independent
    assert [row['sampling'] for row in table()] == [
        s.sampling for s in SCHEMES if s.sampling not in bands]
    assert 'noise' not in table()[0]
    assert {row['neighbours'] for row in table()} == set(RELATIONS.values())
    assert all(b.least <= b.most and not b.reason for b in table().bounds)
    for b, row in zip(table().bounds, table(), strict=True):
        assert float(row['eps at least']) <= b.least and b.most <= float(row['at most'])
    assert '<table>' in table()._repr_html_() and 'balls-in-bins' in repr(table())

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_rows_are_what_dpsgd_says():
    for (sampling, relation), b in found().items():
        if sampling in ('kept bins', 'truncated-poisson', 'random allocation'): continue
        run = dpsgd(**SMALL, sampling=sampling, relation=relation)
        assert b.most == pytest.approx(epsilon(run, delta=1e-5), rel=1e-12)
        assert b.least == pytest.approx(min(run.at_least(1e-5), b.most), rel=1e-9)

BEGUN = dict(sigma=1.1, batch_size=10, dataset_size=100)

def test_a_begun_epoch_is_nothing_from_below():
    "Kept bins: at least what whole epochs cost. One step of ten is a sample of a tenth."
    one = PoissonSubsampled(Gaussian(sigma=1.1), rate=.1)
    for epochs, whole in ((.9, 0), (2.5, 2)):
        bounds = compare_sampling(**BEGUN, epochs=epochs, delta=1e-5).bounds
        kept = next(b for b in bounds if b.scheme.sampling == 'kept bins')
        known = BallsInBins(whole*Gaussian(sigma=1.1), batches=10) if whole else None
        assert kept.least <= (epsilon(known, delta=1e-5) if whole else epsilon(one, delta=1e-5))
        assert kept.most > 1.2*kept.least and (kept.least > 0) == (whole > 0)

@pytest.mark.parametrize('how', [dict(sampling='balls-in-bins', steps=1), dict(
    sampling='balls-in-bins', steps=15), dict(sampling='shuffle', steps=20)])
def test_bounds_of_what_no_data_sets_show(how, capsys):
    "Commands, certificates and `compare` say of them what is known of the run, not of its bound."
    run = dpsgd(**BEGUN, **how)
    assert not run.holds_below and not (2*run).holds_below
    words = [f"--{k.replace('_', '-')}={v}" for k, v in (BEGUN | how).items()]
    main(['epsilon', *words, '--delta=1e-5', '--json'])
    (row,) = json.loads(capsys.readouterr().out)['results']
    assert row['lower'] == run.at_least(1e-5) < row['upper'] == epsilon(run, delta=1e-5)
    main(['delta', *words, '--eps=.1', '--json'])
    (row,) = json.loads(capsys.readouterr().out)['results']
    assert row['lower'] == 0 < row['upper']
    assert certify(run, delta=1e-5).answer['lower'] == '0'
    (row,) = compare(run, delta=1e-5, methods=['ContourAccountant'])
    assert row['lower'] == '0' < row['upper']
    search = selected(run, tries=Geometric(mean=4.))
    assert SelectionAccountant(2*search).epsilon(1e-5).lower == 0 < epsilon(search, delta=1e-5)
    assert from_steps(json.loads(json.dumps(to_steps(search)))) == [(search, 1)]
    main(['epsilon', *words, '--delta=1e-5', '--tries=geometric:4', '--json'])
    (row,) = json.loads(capsys.readouterr().out)['results']
    assert row['lower'] == 0 < row['upper'] == epsilon(search, delta=1e-5)

@pytest.mark.parametrize('sampling', ['poisson', 'balls-in-bins', 'none'])
def test_bounds_of_what_data_sets_show(sampling):
    run = dpsgd(**BEGUN, epochs=2, sampling=sampling)
    assert run.holds_below and (run + Gaussian(sigma=9.)).holds_below
    assert 0 < float(certify(run, delta=1e-5).answer['lower']) <= epsilon(run, delta=1e-5)

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_random_allocation():
    "Two of forty steps for each record."
    step = BallsInBins(Gaussian(sigma=1.), batches=40, draws=2)
    bounds = found()['random allocation', 'add-remove']
    assert bounds.most == epsilon(step, delta=1e-5) and bounds.least < bounds.most

def test_order_of_the_ways():
    "Of one relation: none costs most, sizes that are fixed more than Poisson samples."
    def most(*key): return found()[key].most
    assert most('balls-in-bins', 'add-remove') < most('kept bins', 'add-remove')
    assert most('poisson', 'add-remove') < most('without-replacement', 'add-remove')
    assert most('without-replacement', 'add-remove') < most('with-replacement', 'add-remove')
    assert most('with-replacement', 'add-remove') < most('none', 'add-remove')
    for sampling in ('poisson', 'without-replacement', 'with-replacement', 'shuffle'):
        first = found().get((sampling, 'add-remove')) or found()[sampling, 'zero-out']
        assert most(sampling, 'replace-one') > first.most
    bins, shuffled = found()['balls-in-bins', 'add-remove'], found()['shuffle', 'zero-out']
    assert bins.least <= shuffled.least

def test_cohorts_of_one_size_under_zero_out(monkeypatch):
    """One step, 5 of 20: a record that is drawn displaces one whose gradient is -1, or is empty. By
    a sum over the outcomes; between Poisson samples and replacing a record."""
    monkeypatch.undo()                       # as many points as users have
    x, step = np.linspace(-14, 14, 280_001, retstep=True)
    def law(mean): return np.exp(-(x - mean)**2/2)/np.sqrt(2*np.pi)*step
    one, other = .25*law(1) + .75*law(-1), .25*law(0) + .75*law(-1)
    def delta_at(eps): return np.maximum(one - np.exp(eps)*other, 0).sum()
    exact = brentq(lambda eps: delta_at(eps) - 1e-5, 0, 5)
    rows = {(b.scheme.sampling, b.scheme.relation): b for b in compare_sampling(
        sigma=1., batch_size=5, dataset_size=20, epochs=.25, delta=1e-5).bounds}
    found = rows['without-replacement', 'zero-out']
    assert found.least <= exact + 1e-7 and exact - 1e-7 <= found.most <= exact*1.001
    assert rows['poisson', 'add-remove'].most < found.most < rows['without-replacement',
                                                                  'replace-one'].most

def test_one_row_teaches_the_topic():
    given = dict(sigma=.35, batch_size=1, dataset_size=1000, epochs=1)
    found = [epsilon(dpsgd(sampling=s, **given), delta=1e-6)
             for s in ('balls-in-bins', 'poisson', 'shuffle')]
    assert found == pytest.approx([10.1686961, 13.293, 17.0764], abs=5e-4)
    assert dpsgd(sampling='shuffle', **given).at_least(1e-6) == pytest.approx(17.0764, abs=1e-4)

@pytest.mark.parametrize('bad, message', [
    (dict(sigma=0.), 'sigma must'), (dict(delta=1.), 'delta must'),
    (dict(batch_size=0), 'batch_size must'), (dict(epochs=-1), 'epochs must'),
    (dict(batch_size=300), 'at most dataset_size'), (dict(max_batch_size=0), 'max_batch_size')])
def test_bad_input(bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        compare_sampling(**SMALL | dict(delta=1e-5) | bad)

@pytest.mark.slow      # a cell of practice/comparison asks the same
def test_what_cannot_be_answered_says_why():
    table = compare_sampling(sigma=.12, batch_size=1, dataset_size=10, epochs=1, delta=1e-5)
    bins = next(b for b in table.bounds if b.scheme.sampling == 'balls-in-bins')
    assert bins.most is None and 'at least 0.15' in bins.reason
    assert any(row['at most'].startswith('not for this run: ') for row in table)

def test_the_command(capsys, monkeypatch):
    once = once_each(compare_sampling)
    monkeypatch.setattr('dp_saddle.practice.compare_sampling', once)
    words = ['compare-sampling', '--sigma', '1', '--batch-size', '10', '--dataset-size', '200',
             '--epochs', '2', '--delta', '1e-5']
    assert main(words) == 0
    assert capsys.readouterr().out.strip() == repr(table())
    assert main([*words, '--json']) == 0
    rows = json.loads(capsys.readouterr().out)['results']
    assert [row['most'] for row in rows] == [b.most for b in table().bounds]
    short = 'compare-sampling --sigma 2 --batch-size 10 --dataset-size 20 --epochs 1 --delta 1e-5'
    assert main([*short.split(), '--matrix', 'bands:1,.5', '--json']) == 0
    rows = json.loads(capsys.readouterr().out)['results']
    assert {row['noise'] for row in rows} == {'independent', 'bands:1,.5'}
    with pytest.raises(SystemExit):
        main([*words[:-1], '2'])
    assert 'delta must' in capsys.readouterr().err

def test_the_picture():
    import matplotlib.pyplot as plt
    ax = plot_sampling(table())
    assert len(ax.get_yticks()) == len(table())
    assert plot_sampling(table(), ax) is ax
    plt.close('all')

# dpsgd: relations, bins, what is attained

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('sampling, relations', [
    ('poisson', {'add-remove', 'zero-out', 'replace-one'}), ('truncated-poisson', {'public-size'}),
    ('balls-in-bins', {'add-remove', 'zero-out'}), ('shuffle', {'zero-out', 'replace-one'}),
    ('without-replacement', {'replace-one', 'add-remove', 'zero-out'}),
    ('with-replacement', {'replace-one', 'add-remove'}),
    ('none', {'add-remove', 'zero-out', 'replace-one'})])
def test_relations(sampling, relations):
    most = dict(max_batch_size=20) if 'truncated' in sampling else {}
    for relation in RELATIONS:
        def build(relation=relation):
            return dpsgd(**SMALL, sampling=sampling, relation=relation, **most)
        if relation in relations:
            run = build()
            assert run.relation == RELATIONS[relation] and run.neighbours == relation
            assert 0 < run.at_least(1e-5) <= epsilon(run, delta=1e-5)*(1 + 1e-12)
        else:
            with pytest.raises(ValueError, match='relation must be one of'):
                build()
    with pytest.raises(ValueError, match='relation must'):
        dpsgd(**SMALL, sampling=sampling, relation='any', **most)

def test_removed_and_emptied_cost_the_same():
    for sampling in ('poisson', 'balls-in-bins', 'none'):
        first, other = (dpsgd(**SMALL, sampling=sampling, relation=r).mechanism
                        for r in ('add-remove', 'zero-out'))
        assert first == other

def test_cut_samples_are_bounded_from_below():
    run = dpsgd(**SMALL, sampling='truncated-poisson', max_batch_size=11)
    least, most = run.at_least(1e-5), epsilon(run, delta=1e-5)
    rate = run.attained.steps[0][0].rate
    assert 0 < least < most and .8*run.rate < rate < run.rate
    whole = dpsgd(**SMALL, sampling='truncated-poisson', max_batch_size=200)
    assert whole.at_least(1e-5) == pytest.approx(epsilon(whole, delta=1e-5), rel=1e-9)

def test_users_and_relations():
    with pytest.raises(ValueError, match='unit_records must be 1'):
        dpsgd(**SMALL, sampling='poisson', relation='replace-one', unit_records=2)
    with pytest.raises(ValueError, match='unit_records must be 1'):
        dpsgd(**SMALL, sampling='truncated-poisson', max_batch_size=200, unit_records=2)
    two = dpsgd(**SMALL, sampling='balls-in-bins', unit_records=2)
    assert two.relation.startswith('adding or removing all records of one user')
    with pytest.raises(ValueError, match='unit_records must be at most 8'):
        dpsgd(**SMALL, sampling='balls-in-bins', unit_records=9)
    one, two = (dpsgd(**SMALL, sampling='shuffle', unit_records=k) for k in (1, 2))
    assert one.at_least(1e-5) == two.at_least(1e-5) < epsilon(two, delta=1e-5)

@pytest.mark.parametrize('length, epochs, steps', [
    (dict(epochs=3), 3, 63), (dict(epochs=2.5), 3, 53), (dict(steps=21), 1, 21),
    (dict(steps=22), 2, 22)])
def test_bins_of_a_run(length, epochs, steps):
    "Batches that do not divide: 21 bins, a begun epoch is a whole one."
    run = dpsgd(sigma=1., batch_size=5, dataset_size=103, sampling='balls-in-bins', **length)
    assert run.mechanism == epochs*BallsInBins(Gaussian(sigma=1.), batches=21)
    assert (run.steps, run.rate) == (steps, 1/21)
    whole = epsilon(steps//21*BallsInBins(Gaussian(sigma=1.), batches=21), delta=1e-5)
    assert run.at_least(1e-5) == pytest.approx(whole, rel=1e-6)

def test_bins_over_epochs():
    run = dpsgd(sigma=1., batch_size=5, dataset_size=100, epochs=2, sampling='balls-in-bins')
    after = epsilon_after(run, delta=1e-5)
    step = BallsInBins(Gaussian(sigma=1.), batches=20)
    each = [epsilon(n*step, delta=1e-5) for n in (1, 2)]
    assert after == pytest.approx(np.repeat(each, 20), rel=1e-4)
    assert 'each record in one random batch of an epoch' in report(run, delta=1e-5)
    budget = Budget(eps=each[1]*1.001, delta=1e-5)
    budget.spend(step, 2)
    assert budget.would_exceed(step) and budget.spent <= each[1]*(1 + 1e-9)

def test_noise_for_bins():
    def build(sigma): return dpsgd(**SMALL | dict(sigma=sigma), sampling='balls-in-bins')
    sigma = calibrate(build, eps=1., delta=1e-5)
    assert .999 < epsilon(build(sigma), delta=1e-5) <= 1

def test_reports_say_both_ends():
    run = dpsgd(**SMALL, sampling='shuffle')
    facts = json.loads(report(run, delta=1e-5, form='json'))
    assert facts['certified interval'] == [run.at_least(1e-5), epsilon(run, delta=1e-5)]
    assert 'Not known is which eps' in report(run, delta=1e-5)
    certain = report(dpsgd(**SMALL, sampling='poisson'), delta=1e-5)
    assert 'Not known' not in certain

def test_bins_compose_with_others():
    step = BallsInBins(Gaussian(sigma=1.), batches=20)
    other = PoissonSubsampled(Gaussian(sigma=1.), rate=.05)
    both = epsilon(step + 20*other, delta=1e-5)
    assert epsilon(step, delta=1e-5) < both < epsilon(step, delta=5e-6) + epsilon(
        20*other, delta=5e-6)
