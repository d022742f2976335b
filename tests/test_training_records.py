"Ids, norms and accounts of records, without Opacus; PyTorch and JAX where they are."
import importlib
import json
import math
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from dp_saddle import (
    BinBatches,
    Budget,
    CyclicPoissonBatches,
    FixedSizeBatches,
    Gaussian,
    IndividualGDPFilter,
    PoissonBatches,
    PoissonSubsampled,
    RDPFilter,
    ShuffledBatches,
    dpsgd,
    epsilon,
    rdp,
)
from dp_saddle.interop.training_records import (
    NumberedLoader,
    Passes,
    RecordFilter,
    batches_of,
    chosen_records,
    drawn_as,
    jax_norms,
    poisson_rate,
    renyi_cost,
    rounded_norms,
    share_between,
    torch_norms,
    watched,
)

NBS = Path(__file__).resolve().parent.parent/'nbs'

# Who pays, and what it is good for

lengths = st.lists(st.floats(0, 5), min_size=6, max_size=6)

@pytest.mark.filterwarnings('ignore:budget 1 is less than what one step costs')
@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), lengths), min_size=1, max_size=30),
       st.sampled_from([.5, 1., 3.]))
def test_nobody_gets_more_than_was_paid(steps, sigma):
    "Who was drawn pays for its gradient; what is added is no longer than what was paid."
    guard, moved = IndividualGDPFilter(1., n=6), np.zeros(6)
    records = RecordFilter(guard, n=6, rate=.5, sampling='poisson')
    for drawn, norms in steps:
        ids, before = np.array(sorted(drawn), int), guard.spent**2
        norms = np.array(norms)[ids]
        share = records.factors(ids, norms, sigma=sigma, clip=2.)
        paid = guard.spent**2 - before
        assert (share >= 0).all() and (share <= 1).all()
        assert ((share*norms/(2*sigma))**2 <= paid[ids] + 1e-15).all()
        others = np.setdiff1d(np.arange(6), ids)
        assert (guard.spent[others]**2 == before[others]).all()
        moved[ids] += (share*norms/(2*sigma))**2
    assert (guard.spent <= 1 + 1e-15).all() and (moved <= 1 + 1e-12).all()
    assert guard.steps == len(steps)

def test_who_cannot_pay_is_left_out_and_comes_back_for_less():
    guard = IndividualGDPFilter(1., n=2)
    records = RecordFilter(guard, n=2, rate=1., sampling='poisson')
    def ask(*norms): return records.factors([1, 0], norms, sigma=1., clip=1.)
    assert ask(9., .5) == pytest.approx([1/9, 1], rel=2e-5)          # record 1 has spent all
    assert ask(.1, .5) == pytest.approx([0, 1], rel=2e-5)
    assert ask(0., .8).tolist() == [0, 0]                            # nothing moves
    assert ask(0., .7) == pytest.approx([0, 1], rel=2e-5)
    assert guard.steps == 4 and guard.spent.max() == 1

def test_a_step_of_noise_alone_is_a_step():
    guard = IndividualGDPFilter(1., n=1)
    records = RecordFilter(guard, n=1, rate=1., sampling='poisson')
    for _ in range(3):
        records.factors([0], [5.], sigma=1., clip=1.)
    assert guard.steps == 3 and guard.spent.tolist() == [1.]
    assert records.factors([], [], sigma=1., clip=1.).shape == (0,) and guard.steps == 4

@pytest.mark.parametrize('guard, full', [
    (IndividualGDPFilter(.5, n=2), 1.), (IndividualGDPFilter(1., n=2), None),
    (RDPFilter(4., .01, n=2), renyi_cost(PoissonSubsampled(Gaussian(sigma=1.), rate=.5), 4.)),
    (RDPFilter(4., 5., n=2), None)])
def test_a_budget_below_one_step_is_said(guard, full):
    "From the settings alone, before the first step: whatever the gradients are."
    records = RecordFilter(guard, n=2, rate=.5, sampling='poisson')
    norms = [.2, .2] if isinstance(guard, RDPFilter) else None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter('always')
        for _ in range(2):
            records.factors([0], [.2], sigma=1., clip=1., norms=norms)
    assert len(said) == (full is not None)
    if full: assert f'budget {guard.budget:g} is less' in str(said[0].message)
    if full: assert f'clip, {full:.6g} with sigma = 1' in str(said[0].message)

@given(lengths, lengths, st.sampled_from([1., .1]))
def test_renyi_all_pay_and_are_clipped_to_what_they_paid(known, own, rate):
    "Drawn or not; at least the divergence of their norm, and not much more."
    guard = RDPFilter(4., 50., n=6)
    records = RecordFilter(guard, n=6, rate=rate, sampling='poisson')
    known = np.array(known)
    share = records.factors([2, 4], np.array(own)[[2, 4]], sigma=2., clip=3., norms=known)
    for i, norm in enumerate(np.clip(known/3, 1e-3, 1)):
        least = rdp(PoissonSubsampled(Gaussian(sigma=2/norm), rate=rate), 4.)
        more = rdp(PoissonSubsampled(Gaussian(sigma=2/min(1, 1.12*norm)), rate=rate), 4.)
        assert least <= guard.spent[i] <= more*(1 + 1e-4)
    for i, s in zip((2, 4), share):
        assert s*own[i] <= 3*min(1, max(1e-3, 1.12*known[i]/3))*(1 + 1e-12)

@pytest.mark.parametrize('change, words', [
    (dict(ids=[0, 0]), 'ids'), (dict(ids=[0, 3]), 'ids'), (dict(ids=[-1, 0]), 'ids'),
    (dict(ids=[0]), 'lengths'), (dict(lengths=[1., math.nan]), 'finite'),
    (dict(lengths=[1., math.inf]), 'finite'), (dict(sigma=0.), 'sigma'), (dict(clip=0.), 'clip'),
    (dict(norms=np.ones(3)), 'norms must not be given')])
def test_wrong_use_changes_nothing(change, words):
    guard = IndividualGDPFilter(1., n=3)
    asked = dict(dict(ids=[0, 1], lengths=[1., 2.], sigma=1., clip=1.), **change)
    ids, own = asked.pop('ids'), asked.pop('lengths')
    with pytest.raises(ValueError, match=words):
        RecordFilter(guard, n=3, rate=.5, sampling='poisson').factors(ids, own, **asked)
    assert guard.steps == 0

def test_guards_that_do_not_fit():
    for guard in (RDPFilter(4., 1.), None):
        with pytest.raises(TypeError, match='guard'):
            RecordFilter(guard, n=3, rate=.5, sampling='poisson')
    with pytest.raises(ValueError, match='n = 3'):
        RecordFilter(IndividualGDPFilter(1., n=4), n=3, rate=.5, sampling='poisson')
    with pytest.raises(ValueError, match='rate'):
        RecordFilter(IndividualGDPFilter(1., n=3), n=3, rate=0., sampling='poisson')
    records = RecordFilter(RDPFilter(4., 1., n=3), n=3, rate=.5, sampling='poisson')
    with pytest.raises(ValueError, match='norms must be given'):
        records.factors([0], [1.], sigma=1., clip=1.)
    for bad in (np.ones(2), -np.ones(3), np.full(3, np.nan)):
        with pytest.raises(ValueError, match='norms must have shape'):
            records.factors([0], [1.], sigma=1., clip=1., norms=bad)

# A random subset

@pytest.mark.parametrize('n, sample', [(30, 7), (50, 50), (12, 1)])
def test_what_a_subset_says_is_right_as_often_as_it_claims(n, sample):
    "By enumeration: whatever the share is, the interval misses it at most so often."
    intervals = [share_between(hits, sample, n, confidence=.9) for hits in range(sample + 1)]
    for have in range(n + 1):
        chance = hypergeom.pmf(np.arange(sample + 1), n, have, sample)
        covers = [low <= have/n <= high for low, high in intervals]
        assert chance @ covers >= .9 - 1e-12
    assert intervals[0][0] == 0 and intervals[-1][1] == 1

def test_share_between():
    assert share_between(50, 50, 50) == (1, 1)
    low, high = share_between(900, 1000, 60_000)
    assert .87 < low < .9 < high < .93
    for bad, words in ((dict(hits=-1), 'hits'), (dict(hits=11), 'hits'), (dict(n=9), 'n'),
                       (dict(confidence=1.), 'confidence'), (dict(sample=0), 'sample')):
        with pytest.raises(ValueError, match=words):
            share_between(**dict(dict(hits=5, sample=10, n=100), **bad))

def test_chosen_records():
    ids = chosen_records(1000, 100, seed=3)
    assert (np.diff(ids) > 0).all() and ids.shape == (100,) and 0 <= ids[0] <= ids[-1] < 1000
    assert (chosen_records(1000, 100, seed=3) == ids).all()
    assert (chosen_records(1000, 100, seed=4) != ids).any()
    assert (chosen_records(5, 5) == np.arange(5)).all()
    for bad in (dict(sample=0), dict(sample=11), dict(n=0), dict(seed=-1)):
        with pytest.raises(ValueError): chosen_records(**dict(dict(n=10, sample=3), **bad))

# Norms

def test_rounded_norms():
    assert rounded_norms([0., .5, 7.], 2.) == pytest.approx([0, .500005, 2], rel=1e-12)
    with pytest.raises(ValueError, match='place 1'): rounded_norms([1., math.nan], 2.)
    with pytest.raises(ValueError, match='clip'): rounded_norms([1.], 0.)

def test_batches():
    parts = list(batches_of(np.arange(7), np.arange(7)*2, 3))
    assert [len(x) for x, _ in parts] == [3, 3, 1] and (parts[1][1] == [6, 8, 10]).all()
    with pytest.raises(ValueError, match='targets'): list(batches_of([1], [1, 2], 3))
    with pytest.raises(ValueError, match='batch'): list(batches_of([1], [1], 0))

rng = np.random.default_rng(5)
X, Y = rng.standard_normal((23, 4)).astype(np.float32), rng.integers(3, size=23)
START = {'W': rng.standard_normal((4, 3)).astype(np.float32), 'b': np.zeros(3, np.float32)}

def softmax_norms(clip):
    "By hand, in double precision: the gradient is an outer product."
    scores = X.astype(float) @ START['W'] + START['b']
    p = np.exp(scores - scores.max(1, keepdims=True))
    errors = p/p.sum(1, keepdims=True) - np.eye(3)[Y]
    norms = np.linalg.norm(errors, axis=1)*np.sqrt(1 + (X.astype(float)**2).sum(1))
    return np.minimum(norms, clip)

def between(norms, exact):
    return (norms >= exact*(1 - 1e-9)).all() and (norms <= exact*(1 + 3e-5) + 1e-9).all()

def test_torch_norms():
    torch = pytest.importorskip('torch', reason='PyTorch is in the extra interop: make test-all')
    def loss_of(weights, x, y):
        return torch.nn.functional.cross_entropy(x @ weights['W'] + weights['b'], y)
    weights = {name: torch.tensor(w) for name, w in START.items()}
    x, y = torch.tensor(X), torch.tensor(Y)
    for batch in (5, 512):
        assert between(torch_norms(loss_of, weights, x, y, clip=1.5, batch=batch),
                       softmax_norms(1.5))
    assert torch_norms(loss_of, weights, x[:0], y[:0], clip=1.).shape == (0,)
    coarse = {name: w.to(torch.bfloat16) for name, w in weights.items()}
    with pytest.raises(ValueError, match='single precision'):
        torch_norms(loss_of, coarse, x, y, clip=1.)
    with pytest.raises(ValueError, match='finite'):
        torch_norms(loss_of, weights, x/0, y, clip=1.)

# Ids

def loader_of(seed, **how):
    torch = pytest.importorskip('torch', reason='PyTorch is in the extra interop: make test-all')
    opacus = pytest.importorskip('opacus', reason='Opacus is in the extra interop: make test-all')
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.arange(23))
    plain = torch.utils.data.DataLoader(data, batch_size=5, **how)
    return opacus.data_loader.DPDataLoader.from_data_loader(
        plain, generator=torch.Generator().manual_seed(seed))

@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('how', [{}, {'num_workers': 2}])
def test_the_same_batches_with_their_ids(how):
    numbered = NumberedLoader(loader_of(1, **how))
    seen = 0
    for (x, i), (again, _) in zip(numbered, loader_of(1), strict=True):
        assert x.shape == again.shape and bool((x == again).all())
        assert numbered.take(len(x)).tolist() == i.tolist()
        seen += len(x)
    assert seen and len(numbered) == 5

def test_ids_are_taken_once_and_of_this_batch():
    numbered = NumberedLoader(loader_of(2))
    with pytest.raises(ValueError, match='no ids'): numbered.take(3)
    for x, _ in numbered:
        with pytest.raises(ValueError, match='gradients'): numbered.take(len(x) + 1)
        with pytest.raises(ValueError, match='no ids'): numbered.take(len(x))
    with pytest.raises(TypeError, match='loader'): NumberedLoader([1, 2])

# How batches were drawn

@pytest.mark.parametrize('said', [{}, {'sampling': 'shuffle'}, {'sampling': None}])
def test_a_filter_of_records_is_told_how_batches_are_drawn(said):
    "A rate says nothing of it: of shuffled batches the theorems are silent."
    guard = RDPFilter(4., 1., n=3)
    with pytest.raises((ValueError, TypeError), match='sampling'):
        RecordFilter(guard, n=3, rate=.5, **said)
    if said:
        with pytest.raises(ValueError, match='Draw by PoissonBatches'):
            RecordFilter(guard, n=3, rate=.5, **said)

def test_the_rate_is_asked_of_what_draws():
    "Our samplers, without PyTorch: what the recipes in JAX pay for."
    poisson = PoissonBatches(dataset_size=20, rate=.15)
    assert poisson_rate(poisson) == .15 != 1/len(poisson)
    assert drawn_as(BinBatches(dataset_size=20, batches=4)) == ('balls-in-bins', 4)
    assert drawn_as(ShuffledBatches(dataset_size=20, batch_size=6)) == ('shuffle', 4)
    for other, kind in ((ShuffledBatches(dataset_size=20, batch_size=5), 'shuffle'),
                        (BinBatches(dataset_size=20, batches=4), 'balls-in-bins')):
        with pytest.raises(ValueError, match=f"as '{kind}': write PoissonBatches"):
            poisson_rate(other)
    class Own(PoissonBatches):
        "What it does nobody knows."
    for other in (Own(dataset_size=20, rate=.15), [[1, 2], [3]], None,
                  CyclicPoissonBatches(dataset_size=20, rate=.1, bands=2),
                  FixedSizeBatches(dataset_size=20, batch_size=5),
                  PoissonBatches(dataset_size=20, rate=.15, max_batch_size=5)):
        with pytest.raises(ValueError, match=f'got {type(other).__name__}: write'):
            drawn_as(other)

def test_the_recipe_in_jax_pays_for_what_draws():
    "The chapter's loop, on a sampler that shuffles: refused before its first step."
    names = dict(Gaussian=Gaussian, PoissonSubsampled=PoissonSubsampled, poisson_rate=poisson_rate,
                 n=20, rate=.25, sigma=1., start=None, weights=None,
                 PoissonBatches=lambda dataset_size, rate, seed: ShuffledBatches(
                     dataset_size=dataset_size, batch_size=int(rate*dataset_size), seed=seed),
                 jax=SimpleNamespace(random=SimpleNamespace(
                     PRNGKey=lambda seed: seed, split=lambda key, n: [])),
                 optax=SimpleNamespace(sgd=lambda lr: SimpleNamespace(init=lambda start: None)))
    book = json.loads((NBS/'interop/training_records.ipynb').read_text(encoding='utf-8'))['cells']
    loop, = [''.join(c['source']) for c in book if 'def jax_training' in ''.join(c['source'])]
    exec(compile(loop.partition('\nguard = ')[0], 'jax_training', 'exec'), names)
    with pytest.raises(ValueError, match="drawn as 'shuffle': write PoissonBatches"):
        names['jax_training'](Budget(eps=3., delta=1e-5))

def test_who_watches_a_loader_sees_its_passes():
    "The same batches; a new one who watches begins anew, and the first sees no more."
    torch = pytest.importorskip('torch', reason='PyTorch is in the extra interop: make test-all')
    def loader():
        data = torch.utils.data.TensorDataset(torch.arange(20))
        return torch.utils.data.DataLoader(data, batch_size=6, shuffle=True,
                                           generator=torch.Generator().manual_seed(1))
    mine, other = loader(), loader()
    first = watched(mine)
    for _ in range(2):
        assert all((x == y).all() for (x,), (y,) in zip(mine, other, strict=True))
    open_pass = iter(mine)
    next(open_pass)
    assert (first.passes, first.drawn) == (3, 1) and len(mine) == 4
    second = watched(mine)
    assert len(list(open_pass)) == 3
    assert (first.drawn, second.passes, second.drawn) == (4, 0, 0)
    for _ in NumberedLoader(mine): pass
    assert (first.passes, second.passes, second.drawn) == (3, 1, 4)
    assert isinstance(mine.batch_sampler, torch.utils.data.BatchSampler)

@pytest.mark.parametrize('drop_last', [False, True])
def test_what_passes_cost(drop_last):
    "At most what `dpsgd` says of shuffled batches, at least what is proved of this loader."
    n, size = 20, 6
    batches = n//size if drop_last else -(-n//size)
    passes = Passes('shuffle', batches, (n - batches*size)/n if drop_last else 0., [.7, .7])
    for epoch in range(3):
        for step in range(batches):
            count = SimpleNamespace(passes=epoch + 1, taken=step + 1)
            passes.note(count, .7)
    run = dpsgd(sigma=.7, batch_size=size, dataset_size=n, epochs=3, sampling='shuffle')
    assert epsilon(passes.cost, delta=1e-5) == epsilon(run, delta=1e-5)
    assert 0 < run.at_least(1e-5) <= passes.at_least(1e-5) <= epsilon(run, delta=1e-5)
    passes.note(SimpleNamespace(passes=4, taken=1), 2.)                # begun, with more noise
    assert epsilon(passes.cost, delta=1e-5) == epsilon(4*Gaussian(sigma=.7), delta=1e-5)
    quiet = dpsgd(sigma=2., batch_size=size, dataset_size=n, epochs=3, sampling='shuffle')
    assert quiet.at_least(1e-5) <= passes.at_least(1e-5) < run.at_least(1e-5)

# JAX

def test_jax_norms():
    jax = pytest.importorskip('jax', reason='JAX is in the extra jax: make test-all')
    def loss_of(weights, x, y):
        scores = x @ weights['W'] + weights['b']
        return jax.nn.logsumexp(scores) - scores[y]
    weights = {name: jax.numpy.array(w) for name, w in START.items()}
    for batch in (5, 512):
        assert between(jax_norms(loss_of, weights, X, Y, clip=1.5, batch=batch),
                       softmax_norms(1.5))
    coarse = {name: w.astype(jax.numpy.bfloat16) for name, w in weights.items()}
    with pytest.raises(ValueError, match='single precision'):
        jax_norms(loss_of, coarse, X, Y, clip=1.)

def cells(notebook, marker, names):
    "Runs the cells of a notebook that are only shown there, from the one with `marker` on."
    book = json.loads((NBS/notebook).read_text(encoding='utf-8'))['cells']
    sources = [''.join(cell['source']) for cell in book if cell['cell_type'] == 'code']
    shown = [text for text in sources if text.startswith('#| eval: false') and marker in text]
    assert shown, 'the notebook shows no such cell'
    for text in shown: exec(compile(text, notebook, 'exec'), names)
    return names

@pytest.mark.slow
def test_the_chapter_trains_with_flax_and_optax(capsys):
    "The chapter's cells: the budget stops the loop, and what was drawn is what was paid."
    for name in ('jax', 'flax', 'optax', 'sklearn'):
        pytest.importorskip(name, reason=f'{name} is in the extra jax: make test-all')
    names = dict(np=np, Gaussian=Gaussian, PoissonSubsampled=PoissonSubsampled)
    names = cells('interop/training_records.ipynb', 'jax', names)
    assert isinstance(names['start'], importlib.import_module('flax').nnx.State)
    guard, step = names['guard'], PoissonSubsampled(Gaussian(sigma=1.), rate=.05)
    assert guard.would_exceed(step) and epsilon(guard.steps*step, delta=1e-5) <= 3
    assert epsilon((guard.steps + 1)*step, delta=1e-5) > 3 and names['right'].mean() > .7
    assert f'{guard.steps} steps' in capsys.readouterr().out

def test_the_chapter_accounts_for_jax_privacy():
    "The cell of interop/events, with the real library: both of its answers are the certified one."
    pytest.importorskip('jax_privacy', reason='jax_privacy is in the extra jax: make test-all')
    pytest.importorskip('dp_accounting', reason='dp_accounting is in the extra interop')
    from dp_saddle.interop.events import SaddlePrivacyAccountant
    names = cells('interop/events.ipynb', 'jax_privacy',
                  dict(SaddlePrivacyAccountant=SaddlePrivacyAccountant))
    step = PoissonSubsampled(Gaussian(sigma=1.1), rate=.01)
    asked = names['accounting'].DpsgdTrainingAccountant(names['SaddleConfig']())
    params = names['accounting'].DpParams(noise_multipliers=1.1, num_samples=60_000,
                                          batch_size=600, delta=1e-6)
    assert asked.compute_epsilon(2000, params) == epsilon(2000*step, delta=1e-6)

# [GDP] Figures 9 and 10

@pytest.mark.slow
@pytest.mark.filterwarnings('ignore')
def test_the_filters_of_the_figures_are_made_by_their_script():
    "One training of nbs/papers/filters.json, again; and the settings that are there."
    for name in ('opacus', 'torch', 'sklearn'):
        pytest.importorskip(name, reason=f'{name} is in the extra interop: make test-all')
    import filters
    kept = json.loads(filters.FILE.read_text(encoding='utf-8'))
    assert [(r['eps'], r['clip'], r['lr'], r['optimiser']) for r in kept['rows']] \
        == filters.SETTINGS
    assert all(len(r['runs']) == 8 for r in kept['rows'])
    row = kept['rows'][0]
    found = filters.training(*filters.SETTINGS[0], seed=0)
    stored = row['runs'][0]
    assert found['steps'] == 100 and found['most_spent'] <= row['mu']*(1 + 1e-15)
    # (another processor rounds otherwise)
    assert np.abs(np.subtract(found['right'], stored['right'])).max() <= 15
    assert np.abs(np.subtract(found['active'], stored['active'])).max() <= 40
    assert found['active'][9] == 1300 > found['first_without']
