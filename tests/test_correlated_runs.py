"""Runs with correlated noise, as users ask for them: `BallsInBins(noise=)`, `dpsgd(noise=)`, files,
commands, the table. References: all patterns of steps, by enumeration; runs with independent noise;
simulation of the pair; JAX-Privacy's own sampler."""
import copy
import functools
import itertools
import json
import math
import pickle

import numpy as np
import pytest

from dp_saddle import (
    BallsInBins,
    BinBatches,
    ContourAccountant,
    CorrelatedBins,
    CyclicPoissonBatches,
    Gaussian,
    MatrixFactorization,
    PoissonReplaceOne,
    PoissonSubsampled,
    ShuffledBatches,
    calibrate,
    certify,
    compare_sampling,
    dpsgd,
    epsilon,
    epsilon_after,
    read_run,
    report,
    shuffled_lower_bound,
    to_steps,
)
from dp_saddle.command.main import main
from dp_saddle.interop import drawn_as
from dp_saddle.practice import comparison, run_of

HALF = dict(inverse_bands=[1., -.5])
WAYS = 'balls-in-bins', 'cyclic-poisson', 'poisson', 'shuffle', 'fixed-order', 'none'
SIZES = dict(sigma=1.5, batch_size=10, dataset_size=40)

def noise(steps, **said): return MatrixFactorization(**(said or HALF), steps=steps)

def run(sampling, epochs=1, said=None, **more):
    "Four batches an epoch."
    made = noise(4*epochs, **(said or HALF))
    return dpsgd(**SIZES | more, epochs=epochs, sampling=sampling, noise=made)

# the builder

def test_bins_with_noise_are_correlated_bins():
    "And nothing that reads balls in bins field by field takes them for such."
    made = noise(4)
    step = BallsInBins(base=Gaussian(sigma=1.), batches=4, noise=made)
    assert step == CorrelatedBins(Gaussian(sigma=1.), batches=4, noise=made)
    assert not isinstance(step, BallsInBins)
    with pytest.raises(ValueError, match='must have a name in a file'): to_steps(step)

def test_bins_without_noise_are_what_they_were():
    step = BallsInBins(Gaussian(sigma=1.), batches=4, noise=None)
    assert step == BallsInBins(Gaussian(sigma=1.), batches=4) and step.noise is None
    assert pickle.loads(pickle.dumps(step)) == copy.deepcopy(step) == step

@pytest.mark.parametrize('bad, kind, words', [
    (dict(draws=2), ValueError, 'draws must be 1 with correlated noise, got 2'),
    (dict(noise=[1., -.5]), TypeError, 'noise must be a MatrixFactorization'),
    (dict(batches=5), ValueError, 'noise must have as many steps as batches, 5')])
def test_what_is_no_epoch_is_named(bad, kind, words):
    with pytest.raises(kind, match=words):
        BallsInBins(Gaussian(sigma=1.), **dict(batches=4, noise=noise(4)) | bad)

# what is accounted

def moved(C, patterns):
    "How far one record moves CG at worst, for C >= 0: all its gradients alike."
    return max(np.linalg.norm(C[:, list(p)].sum(1)) for p in patterns)

ONE_EACH = [(i, j) for i in range(4) for j in range(4, 8)]

@pytest.mark.parametrize('sampling, patterns', [
    ('fixed-order', [(i, i + 4) for i in range(4)]), ('none', [range(8)]), ('shuffle', ONE_EACH)])
@pytest.mark.parametrize('said', [HALF, dict(bands=[1., .5, .25]), dict(buffers=([.9], [.2]))])
def test_by_enumeration(sampling, patterns, said):
    "Two epochs of four batches, without amplification: one Gaussian; doubled by a replaced record."
    C = noise(8, **said).matrix()
    exact, found = moved(C, patterns), run(sampling, 2, said)
    assert isinstance(found.mechanism, Gaussian) and found.mechanism.sigma == 1.5
    slack = 1.4 if sampling == 'shuffle' else 1 + 1e-12
    assert exact <= found.mechanism.sensitivity*(1 + 1e-15) <= exact*slack
    twice = run(sampling, 2, said, relation='replace-one').mechanism
    assert twice.sensitivity == pytest.approx(2*found.mechanism.sensitivity, rel=1e-15)

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_bins_that_are_kept_cost_no_more_than_if_they_were_known():
    "Nor less than one epoch of the two: its steps are among those that are released."
    two, known = run('balls-in-bins', 2), run('fixed-order', 2)
    assert epsilon(run('balls-in-bins'), delta=1e-5) < epsilon(two, delta=1e-5)
    assert epsilon(two, delta=1e-5) <= epsilon(known, delta=1e-5)*(1 + 1e-9)
    assert two.at_least(1e-5) <= epsilon(two, delta=1e-5)

def test_a_begun_epoch():
    "Six steps of four batches an epoch: a record twice, four steps apart, or once."
    made = noise(6, bands=[1., .5])
    exact = moved(made.matrix(), [(0, 4), (1, 5), (2,), (3,)])
    for sampling in ('fixed-order', 'balls-in-bins'):
        found = dpsgd(**SIZES, steps=6, sampling=sampling, noise=made).mechanism
        assert exact <= found.sensitivity*(1 + 1e-15) <= exact*(1 + 1e-12)

def test_parts_in_turn():
    "Of five steps with two bands a record may be in three, at twice the rate."
    made = noise(5, bands=[1., .5])
    given = dict(**SIZES, steps=5, sampling='cyclic-poisson', noise=made)
    step = PoissonSubsampled(Gaussian(sigma=1.5, sensitivity=made.sensitivity()), rate=.5)
    assert dpsgd(**given).mechanism == 3*step
    replaced = PoissonReplaceOne(sigma=1.5/made.sensitivity(), rate=.5)
    assert dpsgd(**given, relation='replace-one').mechanism == 3*replaced

@pytest.mark.parametrize('direction', ['remove', 'add'])
def test_parts_in_turn_by_simulation(direction):
    "The pair itself, four steps and all coins: two whole blocks, so the bound is reached."
    found = run('cyclic-poisson', said=dict(bands=[1., .5]))
    C, sigma, eps, count = found.noise.matrix(), 1.5, .3, 200_000
    rng = np.random.default_rng(5)
    coins = np.array(list(itertools.product((0, 1), repeat=2)))
    means = coins @ C[:, [0, 2]].T                      # rate 1/2: all as likely
    z = sigma*rng.standard_normal((count, 4))
    if direction == 'remove': z += means[rng.integers(4, size=count)]
    log_S = np.log(np.exp((z @ means.T - (means**2).sum(1)/2)/sigma**2).mean(1))
    loss = log_S if direction == 'remove' else -log_S
    each = np.maximum(1 - np.exp(eps - loss), 0)
    exact = ContourAccountant(getattr(found.mechanism, direction)).delta(eps).estimate
    assert abs(each.mean() - exact) < 4*each.std()/math.sqrt(count)

@pytest.mark.parametrize('sampling', WAYS)
def test_independent_noise_costs_what_it_did(sampling):
    "C = 2, and noise twice as large. Shuffled twice, a record is charged for two of any steps."
    one = dict(bands=[2.])
    found = dpsgd(**SIZES | dict(sigma=3.), epochs=1, sampling=sampling, noise=noise(4, **one))
    before = 'poisson' if sampling == 'cyclic-poisson' else sampling
    plain = dpsgd(**SIZES, epochs=1, sampling=before)
    assert epsilon(found, delta=1e-5) == pytest.approx(epsilon(plain, delta=1e-5), rel=1e-6)

def test_one_epoch_of_bins_is_amplified():
    found = run('balls-in-bins')
    assert found.mechanism == CorrelatedBins(Gaussian(sigma=1.5), batches=4, noise=found.noise)
    assert epsilon(found, delta=1e-5) < epsilon(run('fixed-order'), delta=1e-5)
    assert found.at_least(1e-5) == pytest.approx(epsilon(found, delta=1e-5), rel=1e-5)

# what it costs at least

def test_at_least():
    "A place that is known shows all of it; a place that is not, nothing; nor signs that cancel."
    for sampling in ('fixed-order', 'none'):
        found = run(sampling, 2)
        assert epsilon(found, delta=1e-5)*(1 - 1e-7) < found.at_least(1e-5) \
            < epsilon(found, delta=1e-5)
    signs = dict(bands=[1., -.5, -.25])
    for found in (run('shuffle'), run('cyclic-poisson'), run('none', said=signs),
                  run('balls-in-bins', 2, signs)):
        assert found.at_least(1e-5) == 0 and not found.holds_below
        assert (2*found).at_least(1e-5) == 0 and not (2*found).holds_below
    with pytest.raises(ValueError, match='noise must be None for a lower bound of shuffles'):
        shuffled_lower_bound(run('shuffle'), delta=1e-5)
    assert certify(run('shuffle'), delta=1e-5).answer['lower'] == '0'

# what is refused

@pytest.mark.parametrize('sampling', ['without-replacement', 'with-replacement'])
def test_what_nobody_has_proved(sampling):
    with pytest.raises(ValueError, match=f"got '{sampling}', for which nothing is proved: 'none'"):
        run(sampling)

@pytest.mark.parametrize('bad, kind, words', [
    (dict(noise=noise(5)), ValueError, 'noise must have as many steps as the run, 4, got 5'),
    (dict(noise=.5), TypeError, 'noise must be a MatrixFactorization, got 0.5'),
    (dict(unit_records=2), ValueError, 'unit_records must be 1 with correlated noise, got 2'),
    (dict(sampling='poisson'), ValueError, r'noise.num_bands must be at most 1 .* got 4'),
    (dict(sampling='truncated-poisson', max_batch_size=20), ValueError, 'nothing is proved'),
    (dict(sampling='cyclic-poisson', batch_size=20, epochs=2), ValueError, 'at most 2 .* got 4'),
    (dict(sampling='cyclic-poisson', noise=None), ValueError, "independent noise 'poisson' costs"),
    (dict(noise=noise(4, bands=[1., -.5, -.25])), ValueError, r'C\^T C >= 0 for random batches')])
def test_what_does_not_fit_is_named(bad, kind, words):
    given = SIZES | dict(epochs=1, sampling='balls-in-bins', noise=noise(4)) | bad
    with pytest.raises(kind, match=words): dpsgd(**given)

# who draws so, and what is said

@pytest.mark.parametrize('sampling, kind', [
    ('balls-in-bins', BinBatches), ('fixed-order', ShuffledBatches), ('shuffle', ShuffledBatches),
    ('cyclic-poisson', CyclicPoissonBatches)])
def test_the_sampler(sampling, kind):
    "Bins and a fixed order are kept; a shuffle is none; parts are as many as bands."
    found = run(sampling, 2, dict(bands=[1., .5]))
    sampler = found.sampler(seed=1)
    first, then = ([b.tolist() for b in sampler] for _ in range(2))
    assert type(sampler) is kind
    assert (first == then) == (sampling in ('balls-in-bins', 'fixed-order'))
    if sampling == 'fixed-order': assert sum(first, []) == list(range(40))
    if sampling == 'cyclic-poisson':
        assert len(sampler.parts) == 2 and not set(first[0]) & set(first[1])
    with pytest.raises(ValueError, match='were accounted'): list(sampler)

def test_independent_bins_are_drawn_anew():
    "And bins that are kept are not taken for these."
    sampler = dpsgd(**SIZES, epochs=2, sampling='balls-in-bins').sampler(seed=1)
    first, then = ([b.tolist() for b in sampler] for _ in range(2))
    assert first != then and drawn_as(sampler) == ('balls-in-bins', 4)
    with pytest.raises(ValueError, match='loader must draw batches whose cost is proved'):
        drawn_as(run('balls-in-bins').sampler(seed=1))
    with pytest.raises(TypeError, match="kept must be True or False, got 'no'"):
        BinBatches(dataset_size=9, batches=3, kept='no')

def test_fixed_order_with_independent_noise():
    "As many Gaussian steps as epochs were begun; known from below; a file and a report name it."
    found = dpsgd(**SIZES, epochs=2.5, sampling='fixed-order')
    assert found.mechanism == 3*Gaussian(sigma=1.5)
    assert found.at_least(1e-5) == pytest.approx(epsilon(found, delta=1e-5), rel=1e-8)
    after = epsilon_after(found, delta=1e-5)
    assert len(after) == 10 and after[3] < after[4] == after[7] < after[8]
    assert 'batches in one order' in report(found, delta=1e-5)

@pytest.mark.parametrize('sampling', ['none', 'balls-in-bins', 'cyclic-poisson'])
def test_words(sampling):
    "All of it is paid at once; text and report name the matrix."
    found = run(sampling)
    after = epsilon_after(found, delta=1e-5)
    assert after.tolist() == 4*[epsilon(found, delta=1e-5)]
    for text in (str(found), report(found, delta=1e-5)): assert 'inverse_bands=' in text

def test_noise_for_a_target():
    made = noise(4)
    def build(sigma):
        return dpsgd(**SIZES | dict(sigma=sigma), epochs=1, sampling='balls-in-bins', noise=made)
    sigma = calibrate(build, eps=1., delta=1e-5)
    assert .9999 < epsilon(build(sigma), delta=1e-5) <= 1

# files and commands

@pytest.mark.parametrize('text, said', [
    ('bands:1,.5', dict(bands=[1., .5])), ('inverse-bands:1,-1/2', HALF),
    ('column:1,.5,.25,.125', dict(column=[1., .5, .25, .125])),
    ('buffers:.9,.5:.1,.2', dict(buffers=([.9, .5], [.1, .2])))])
def test_a_word_for_the_matrix(text, said):
    words = dict(sigma=1.5, batch_size=10, dataset_size=40, epochs=1, matrix=text)
    for sampling in ('fixed-order', 'balls-in-bins'):
        found = run_of(words | dict(sampling=sampling))
        assert found.mechanism.base.sigma == 1.5 if sampling == 'balls-in-bins' else \
            found.mechanism == run('fixed-order', said=said).mechanism
        assert found.noise.column.tolist() == noise(4, **said).column.tolist()
    if text == 'bands:1,.5': assert run_of(words | dict(sampling='cyclic-poisson')).steps == 4

@pytest.mark.parametrize('bad, words', [
    (dict(matrix='band:1'), "matrix must be one of bands:NUMBERS, .* did you mean 'bands'"),
    (dict(matrix='buffers:1'), "matrix must be one of"), (dict(matrix=1), 'matrix must be one of'),
    (dict(matrix='bands:1,x'), "matrix must be a number or a fraction, got 'x'"),
    (dict(matrix='bands:0,1'), 'bands must have no 0 on its diagonal'),
    (dict(matrix='bands:1,1,1,1,1'), 'bands must be at most steps = 4 numbers, got 5')])
def test_a_word_that_says_no_matrix(bad, words):
    given = dict(sigma=1., batch_size=10, dataset_size=40, epochs=1, sampling='none')
    with pytest.raises(ValueError, match=words): run_of(given | bad)
    with pytest.raises(ValueError, match='matrix goes with batch_size'):
        run_of(dict(sigma=1., rate=.1, steps=4, matrix='bands:1'))

def test_the_command(capsys):
    words = ('epsilon --sigma 1.5 --batch-size 10 --dataset-size 40 --epochs 1 --delta 1e-5 '
             '--sampling balls-in-bins --matrix inverse-bands:1,-.5').split()
    assert main([*words, '--json']) == 0
    said = json.loads(capsys.readouterr().out)
    assert said['run']['dpsgd']['matrix'] == 'inverse-bands:1,-.5'
    assert said['results'][0]['upper'] == epsilon(run('balls-in-bins'), delta=1e-5)

def test_a_configuration_with_a_matrix(tmp_path):
    "It is not passed over; and the number of its bands alone does not say it."
    path = tmp_path/'run.json'
    words = dict(noise_multiplier=1.5, batch_size=10, dataset_size=40, epochs=1, num_bands=2,
                 sampling='fixed-order')
    path.write_text(json.dumps(words | dict(matrix='inverse-bands:1,-.5')))
    assert read_run(path).mechanism == run('fixed-order').mechanism
    path.write_text(json.dumps(words))
    with pytest.raises(ValueError, match='correlates the noise of several steps: say the numbers'):
        read_run(path)

# the table

@functools.cache
def table():
    """Bands of any number of steps; a matrix of another size; one with negative entries of C^T C,
    which bins do not take."""
    made = {'half': noise(9), 'other': MatrixFactorization(C=np.eye(3) + .5*np.eye(3, k=-1)),
            'signs': noise(4, bands=[1., -.5, -.25])}
    quick = [s for s in comparison.SCHEMES if 'replacement' not in s.sampling]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(comparison, 'SCHEMES', quick)
        return compare_sampling(**SIZES, epochs=1, delta=1e-5, noise=made)

def found(name):
    "{(sampling, relation): bounds} of a noise."
    return {(b.scheme.sampling, b.scheme.relation): b for b in table().bounds if b.noise == name}

def test_every_way_with_every_noise():
    "The noise of a row has as many steps as its run."
    half = found('half')
    for key in (('balls-in-bins', 'add-remove'), ('none', 'add-remove'),
                ('shuffle', 'replace-one'), ('fixed-order', 'zero-out')):
        made = run(key[0], relation=key[1])
        assert half[key].most == epsilon(made, delta=1e-5)
        assert half[key].least <= made.at_least(1e-5)*(1 + 1e-12)
    known = half['fixed-order', 'zero-out'].most
    assert half['b-min-sep', 'add-remove'].most == pytest.approx(known, rel=1e-6)
    assert {row['noise'] for row in table()} == {'independent', 'half', 'other', 'signs'}

def test_the_grid():
    grid = {(row['sampling'], row['relation']): row for row in table().grid()}
    columns = ['sampling', 'relation', 'independent', 'half', 'other', 'signs']
    assert list(grid['poisson', 'add-remove']) == columns
    assert grid['poisson', 'add-remove']['half'] == 'nobody'
    assert grid['shuffle', 'zero-out']['half'].startswith('at most ')
    assert ' to ' in grid['shuffle', 'zero-out']['independent']
    known = found('half')['fixed-order', 'zero-out'].most
    assert known <= float(grid['fixed-order', 'zero-out']['half']) < known + .01
    assert grid['none', 'add-remove']['other'] == ''

def test_a_matrix_that_is_not_for_this_run():
    "Each row says so, but where no matrix would help."
    other = found('other')
    assert 'as many steps as the run, 4, got 3' in other['none', 'add-remove'].reason
    assert other['poisson', 'add-remove'].reason.startswith('nobody has proved')
    with pytest.raises(TypeError, match='noise must be a MatrixFactorization, got 3'):
        compare_sampling(**SIZES, epochs=1, delta=1e-5, noise={'three': 3})

def test_a_matrix_that_bins_do_not_take():
    "A record whose bin is known is still an upper bound."
    signs = found('signs')
    known = signs['fixed-order', 'zero-out'].most
    assert signs['balls-in-bins', 'add-remove'].most == known > 0

def test_bins_for_several_epochs_in_the_table(monkeypatch):
    "Kept: at the same place in each epoch. Anew: anywhere in each."
    monkeypatch.setattr('dp_saddle.sampling.two_level._PER_FALL', 8)    # other rows: coarser
    given = SIZES | dict(batch_size=20, epochs=2, delta=1e-5)
    table = compare_sampling(**given, noise=noise(4, bands=[1., .5]))
    most = {b.scheme.sampling: b.most for b in table.bounds
            if b.noise == 'correlated' and b.scheme.relation in ('add-remove', 'zero-out')}
    assert most['kept bins'] <= most['fixed-order']*(1 + 1e-9)
    assert most['balls-in-bins'] == most['shuffle'] > most['fixed-order']

# simulations

def simulated(losses, eps):
    "(lower, upper) of delta from a sample: empirical Bernstein, wrong once in a billion times."
    each, log = np.maximum(-np.expm1(eps - losses), 0), math.log(3e9)
    off = math.sqrt(2*each.var()*log/each.size) + 3*log/each.size
    return each.mean() - off, each.mean() + off

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_what_jax_privacy_simulates():
    "Its sampler of the pair of balls in bins, both directions: one epoch, two bands."
    drawn = pytest.importorskip('jax_privacy.experimental.monte_carlo.sample_generation',
                                reason='jax_privacy is in the extra jax: make test-all')
    from jax_privacy.batch_selection import BallsInBinsSampling
    bands, sigma, eps, b = [1., .5], 1.5, .5, 5
    step = BallsInBins(Gaussian(sigma=sigma), batches=b, noise=noise(b, bands=bands))
    for direction, there in (('remove', True), ('add', False)):
        losses, _ = drawn.get_privacy_loss_sample(
            BallsInBinsSampling(iterations=b, cycle_length=b), sigma, np.array(bands), seed=1,
            positive_sample=there, num_samples=2000)
        low, high = simulated(losses, eps)
        bounds = ContourAccountant(getattr(step, direction)).delta(eps)
        assert bounds.lower <= high and low <= bounds.upper < 2*high

def random_run(rng):
    "(a Run of one epoch of bins, eps, a direction)."
    b, sigma = int(rng.integers(2, 9)), float(np.exp(rng.uniform(-.5, 1.)))
    falling = np.append(1., np.sort(rng.uniform(0, .8, int(rng.integers(1, b))))[::-1])
    said = [dict(inverse_bands=[1., -rng.uniform(0, .9)]), dict(bands=falling),
            dict(buffers=([rng.uniform(.1, .9)], [rng.uniform(0, .5)]))][rng.integers(3)]
    made = dpsgd(sigma=sigma, batch_size=10, dataset_size=10*b, epochs=1, sampling='balls-in-bins',
                 noise=noise(b, **said))
    return made, float(rng.uniform(.05, 1.5)), ['remove', 'add'][rng.integers(2)]

def losses_of(made, direction, rng, count):
    "Of the pair of an epoch, drawn."
    C, b, sigma = made.noise.matrix(), made.noise.steps, made.sigma
    z = sigma*rng.standard_normal((count, b))
    if direction == 'remove': z += C.T[rng.integers(b, size=count)]
    log_S = np.log(np.exp((z @ C - (C**2).sum(0)/2)/sigma**2).mean(1))
    return log_S if direction == 'remove' else -log_S

def check_by_simulation(seeds, count):
    "None of these settings is missed."
    for seed in seeds:
        rng = np.random.default_rng(seed)
        made, eps, direction = random_run(rng)
        low, high = simulated(losses_of(made, direction, rng, count), eps)
        bounds = ContourAccountant(getattr(made.mechanism, direction)).delta(eps)
        assert bounds.lower <= high and low <= bounds.upper, (seed, made, eps, direction)

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_random_runs_by_simulation(): check_by_simulation(range(3), 30_000)

@pytest.mark.slow
@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_a_hundred_random_runs_by_simulation(): check_by_simulation(range(100), 200_000)

# how often it asks

def test_an_epsilon_asks_for_few_puts(monkeypatch):
    "Ends are sought no finer than a put is known: some twenty of them, where it were fifty."
    from dp_saddle.sampling.lognormal_chains import LognormalChain
    asked, puts = set(), LognormalChain.puts
    def noticed(self, K):
        asked.add(K)
        return puts(self, K)
    monkeypatch.setattr(LognormalChain, 'puts', noticed)
    step = BallsInBins(Gaussian(sigma=1.), batches=10, noise=noise(10))
    found = ContourAccountant(step).epsilon(1e-5)
    assert len(asked) < 26 and found.upper - found.lower < 5e-7
