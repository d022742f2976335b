"Samplers draw what is accounted: frequencies, pairs and sizes, by chi-square with fixed seeds."
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from dp_saddle import (
    BinBatches,
    CyclicPoissonBatches,
    FixedSizeBatches,
    PoissonBatches,
    ShuffledBatches,
    dpsgd,
)

ALL = {
    'poisson': lambda **kw: PoissonBatches(dataset_size=12, rate=.25, **kw),
    'cut': lambda **kw: PoissonBatches(dataset_size=12, rate=.25, max_batch_size=4, **kw),
    'bins': lambda **kw: BinBatches(dataset_size=12, batches=4, **kw),
    'shuffle': lambda **kw: ShuffledBatches(dataset_size=12, batch_size=3, **kw),
    'fixed': lambda **kw: FixedSizeBatches(dataset_size=12, batch_size=3, **kw),
    'again': lambda **kw: FixedSizeBatches(dataset_size=12, batch_size=3, replacement=True, **kw),
    'cyclic': lambda **kw: CyclicPoissonBatches(dataset_size=12, rate=.25, bands=2, **kw),
}
each = pytest.mark.parametrize('build', ALL.values(), ids=ALL)

def drawn(sampler, epochs): return [b for _ in range(epochs) for b in sampler]

@each
def test_batches_are_places(build):
    sampler = build(seed=0)
    assert len(sampler) == 4
    batches = drawn(sampler, 3)
    assert len(batches) == 12
    for b in batches:
        assert b.dtype == np.int64 and ((b >= 0) & (b < 12)).all()

@each
def test_a_seed_repeats_and_epochs_do_not(build):
    first, again = (drawn(build(seed=5), 3) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    other = drawn(build(seed=6), 3)
    assert any(a.tolist() != b.tolist() for a, b in zip(first, other, strict=True))
    assert any(a.tolist() != b.tolist() for a, b in zip(first[:4], first[4:8], strict=True))
    unseeded = [np.concatenate(drawn(build(), 8)).tolist() for _ in range(2)]
    assert unseeded[0] != unseeded[1]

@each
def test_no_more_than_was_accounted(build):
    sampler = build(seed=0, steps=6)
    assert [len(list(sampler)), len(sampler), len(list(sampler)), len(sampler)] == [4, 2, 2, 0]
    with pytest.raises(ValueError, match='6 batches were accounted, and all of them are drawn'):
        iter(sampler)

def test_breaking_off():
    "A Poisson sample that is not drawn is not spent; an epoch that was begun is."
    for name, left in (('poisson', 9), ('bins', 6), ('shuffle', 6)):
        sampler = ALL[name](seed=0, steps=10)
        next(iter(sampler))
        assert sampler.left == left

def test_poisson_samples():
    "All subsets of four records, with their probabilities."
    sampler = PoissonBatches(dataset_size=4, rate=.3, seed=0)
    seen = Counter(tuple(sorted(b.tolist())) for b in drawn(sampler, 5000))
    subsets = [tuple(j for j in range(4) if k >> j & 1) for k in range(16)]
    total = sum(seen.values())
    expected = [total*.3**len(s)*.7**(4 - len(s)) for s in subsets]
    assert chisquare([seen[s] for s in subsets], expected).pvalue > 1e-3

def test_cut_samples():
    "As a sample, of which two random records are left where there are more."
    sampler = PoissonBatches(dataset_size=4, rate=.5, max_batch_size=2, seed=0)
    seen = Counter(tuple(sorted(b.tolist())) for b in drawn(sampler, 10_000))
    total, size = sum(seen.values()), binom(4, .5).pmf(np.arange(5))
    pairs = [(i, j) for i in range(4) for j in range(i)]
    expected = {(): size[0], **{(i,): size[1]/4 for i in range(4)},
                **{(j, i): size[2:].sum()/6 for i, j in pairs}}
    counts = [total*p for p in expected.values()]
    assert chisquare([seen[s] for s in expected], counts).pvalue > 1e-3

def test_bins():
    "Three records in three bins: 27 ways, all alike, from epoch to epoch."
    sampler = BinBatches(dataset_size=3, batches=3, seed=0)
    seen, before, kept = Counter(), None, 0
    for _ in range(20_000):
        places = {r: i for i, b in enumerate(sampler) for r in b.tolist()}
        way = tuple(places[r] for r in range(3))
        kept += way == before
        seen[way], before = seen[way] + 1, way
    assert len(seen) == 27 and chisquare(list(seen.values())).pvalue > 1e-3
    assert abs(kept - 20_000/27) < 5*np.sqrt(20_000/27)

def test_shuffles():
    "Every order of four records; each record once an epoch."
    sampler = ShuffledBatches(dataset_size=4, batch_size=3, seed=0)
    seen = Counter(tuple(np.concatenate(list(sampler)).tolist()) for _ in range(12_000))
    assert len(seen) == 24 and chisquare(list(seen.values())).pvalue > 1e-3
    short = ShuffledBatches(dataset_size=4, batch_size=3, drop_last=True, seed=0)
    assert [len(b) for b in short] == [3] and len(short) == 1

@pytest.mark.parametrize('replacement, ways', [(False, 6), (True, 16)])
def test_fixed_sizes(replacement, ways):
    sampler = FixedSizeBatches(dataset_size=4, batch_size=2, replacement=replacement, seed=0)
    def key(b): return tuple(b.tolist() if replacement else sorted(b.tolist()))
    seen = Counter(key(b) for b in drawn(sampler, 8000))
    assert len(seen) == ways and chisquare(list(seen.values())).pvalue > 1e-3

def test_cyclic():
    "Parts in turn, at twice the rate; none of another part; the next epoch goes on."
    sampler = CyclicPoissonBatches(dataset_size=200, rate=.2, bands=2, seed=0)
    parts = [set(p.tolist()) for p in sampler.parts]
    assert parts[0] | parts[1] == set(range(200)) and not parts[0] & parts[1]
    batches = drawn(sampler, 401)
    hits = np.zeros(200)
    for i, b in enumerate(batches):
        assert set(b.tolist()) <= parts[i % 2]
        hits[b] += 1
    assert abs(hits.mean()/len(batches) - .2) < .004
    assert 60 < len(parts[0]) < 140

@pytest.mark.parametrize('sampling, kind', [
    ('poisson', PoissonBatches), ('truncated-poisson', PoissonBatches),
    ('balls-in-bins', BinBatches), ('shuffle', ShuffledBatches), ('none', ShuffledBatches),
    ('without-replacement', FixedSizeBatches), ('with-replacement', FixedSizeBatches)])
def test_the_sampler_of_a_run(sampling, kind):
    most = dict(max_batch_size=14) if 'truncated' in sampling else {}
    run = dpsgd(sigma=1., batch_size=5, accumulate=2, dataset_size=103, epochs=2,
                sampling=sampling, **most)
    sampler = run.sampler(seed=0)
    assert type(sampler) is kind and len(sampler) == 11
    batches = list(sampler) + list(sampler)
    assert len(batches) == run.steps
    with pytest.raises(ValueError, match='were accounted'):
        list(sampler)
    sizes = [len(b) for b in batches]
    if kind is PoissonBatches: assert max(sizes) <= most.get('max_batch_size', 103)
    if kind is FixedSizeBatches: assert set(sizes) == {10}
    if kind is BinBatches: assert sum(sizes) == 206

def test_expected_sizes_are_the_rate():
    run = dpsgd(sigma=1., batch_size=10, dataset_size=100, steps=20_000, sampling='poisson')
    sampler = run.sampler(seed=0)
    sizes = [len(b) for b in drawn(sampler, 2000)]
    assert np.mean(sizes) == pytest.approx(run.rate*100, abs=.15)
    assert np.var(sizes) == pytest.approx(9, abs=.4)

@pytest.mark.parametrize('build, message', [
    (lambda: PoissonBatches(dataset_size=0, rate=.1), 'dataset_size must'),
    (lambda: PoissonBatches(dataset_size=9, rate=0), 'rate must'),
    (lambda: PoissonBatches(dataset_size=9, rate=.1, max_batch_size=0), 'max_batch_size must'),
    (lambda: BinBatches(dataset_size=9, batches=0), 'batches must'),
    (lambda: ShuffledBatches(dataset_size=9, batch_size=10), 'batch_size must be at most'),
    (lambda: FixedSizeBatches(dataset_size=9, batch_size=0), 'batch_size must'),
    (lambda: CyclicPoissonBatches(dataset_size=9, rate=.6, bands=2), 'rate must'),
    (lambda: BinBatches(dataset_size=9, batches=2, steps=-1), 'steps must')])
def test_bad_samplers(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()

def test_a_loader_of_pytorch_takes_it():
    data = pytest.importorskip('torch.utils.data')
    run = dpsgd(sigma=1., batch_size=5, dataset_size=50, epochs=2, sampling='balls-in-bins')
    loader = data.DataLoader(list(range(50)), batch_sampler=run.sampler(seed=0), collate_fn=list)
    assert len(loader) == 10
    for _ in range(2):
        assert sorted(r for batch in loader for r in batch) == list(range(50))
    with pytest.raises(ValueError, match='were accounted'):
        list(loader)

@pytest.mark.parametrize('build, name', [
    (lambda: ShuffledBatches(dataset_size=9, batch_size=2, drop_last='no'), 'drop_last'),
    (lambda: FixedSizeBatches(dataset_size=9, batch_size=2, replacement='no'), 'replacement')])
def test_a_word_is_no_answer(build, name):
    "'no' would count as yes."
    with pytest.raises(TypeError, match=f"{name} must be True or False, got 'no'"): build()

@pytest.mark.parametrize('seed', [-1, 'x', 1.5])
def test_a_seed_that_is_none(seed):
    run = dpsgd(sigma=1., batch_size=10, dataset_size=200, epochs=2, sampling='balls-in-bins')
    with pytest.raises((TypeError, ValueError), match='seed must be an integer'):
        run.sampler(seed=seed)
