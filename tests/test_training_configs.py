"A run that stands among other keys: files as trainers have them, each of our own making."
import json
import sys
from math import ceil
from pathlib import Path

import pytest

from dp_saddle import Gaussian, PoissonSubsampled, calibrate, dpsgd, epsilon, read_run, to_steps
from dp_saddle.accounting import best_accountant
from dp_saddle.base import UNCLEAR, lines_of, read_file, read_toml, read_yaml
from dp_saddle.command.main import main
from dp_saddle.practice import read_form
from dp_saddle.practice.training_configs import SYNONYMS
from oracles import by_fft, gaussian

FILES = Path(__file__).with_name('run_files')

def S(sigma, rate): return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def loader(sigma, batch_size, dataset_size, sampling='poisson', **length):
    return dpsgd(sigma=sigma, batch_size=batch_size, dataset_size=dataset_size, sampling=sampling,
                 **length)

# {file: (what is said beside it, the run, the delta of the file)}
RUNS = {
    'fl4health_client.yaml': ({}, 120*S(.9, .02), None),
    'flsim.json': (dict(dataset_size=1000, sampling='poisson'), loader(1.2, 50, 1000, epochs=4),
                   1e-6),
    'nemo_megatron.yaml': ({}, loader(.8, 256, 80_000, steps=900), 2e-6),
    'dp_transformers.json': ({}, loader(.75, 8*16*4, 41_000, epochs=3), 1/41_000),
    'opacus_mnist.json': (dict(dataset_size=60_000, sampling='poisson'),
                          loader(1.05, 64, 60_000, epochs=5), 1e-5),
    'opacus_cifar.json': ({}, ceil(11*100/3)*S(1.6, .03), 1e-5),
    'jax_privacy.yaml': ({}, loader(5., 4000, 45_000, steps=250), 1e-5),
    'jax_privacy_plan.toml': ({}, 400*S(2.5, .05), 1e-6),
    'tf_privacy.json': ({}, loader(.95, 200, 20_000, 'shuffle', epochs=12), None),
    'flower.toml': ({}, loader(1.4, 10, 200, steps=30), None),
    'hydra.yaml': ({}, loader(.7, 500, 50_000, epochs=10), 1/50_000),
    'lightning.yaml': ({}, loader(1., 250, 10_000, 'balls-in-bins', epochs=4), 1e-5),
    'torch_shared.yaml': ({}, loader(1.1, 100, 10_000, 'without-replacement', steps=30), None),
    'gretel.yaml': (dict(sigma=1., dataset_size=4000, sampling='poisson'),
                    loader(1., 80, 4000, epochs=6), 4000**-1.2),
    'nemo_synthesizer.yaml': (dict(sigma=1., dataset_size=6000, epochs=5, sampling='poisson'),
                              loader(1., 120, 6000, epochs=5), 6000**-1.2),
    'pfl.yaml': (dict(sigma=1.), loader(1., 1000, 10**6, steps=1500), 1e-6),
}
TARGETS = {'gretel.yaml': 5, 'nemo_synthesizer.yaml': 6, 'pfl.yaml': 2}

def needs(name):
    if name.endswith('yaml'): pytest.importorskip('yaml')
    if name.endswith('toml') and sys.version_info < (3, 11): pytest.importorskip('tomli')
    return FILES/name

@pytest.mark.parametrize('name', RUNS)
def test_files_as_they_are(name):
    "The run, the question, and a line in which the key of each value stands."
    given, run, delta = RUNS[name]
    path = needs(name)
    assert read_run(path, **given) == run
    found = read_form(path, given)
    near = delta and pytest.approx(delta, rel=1e-14)
    assert found.delta == near and found.eps == TARGETS.get(name)
    lines = path.read_text(encoding='utf-8').splitlines()
    rows = [row for row in found.said if row['line']]
    assert len(rows) > 3
    for row in rows: assert row['key'].rpartition('.')[2] in lines[row['line'] - 1]

def test_each_file_is_asked():
    assert {path.name for path in FILES.iterdir()} == {*RUNS, 'fl4health_instance.yaml'}

@pytest.mark.parametrize('name', ['fl4health_client.yaml', 'opacus_cifar.json', 'pfl.yaml'])
def test_epsilon_of_a_file_by_another_method(name):
    "Fourier transforms of the losses' law, which never import the library's bounds."
    given, _, delta = RUNS[name]
    delta = delta or 1e-5
    sigma, rate, n = {'fl4health_client.yaml': (.9, .02, 120), 'pfl.yaml': (1., .001, 1500),
                      'opacus_cifar.json': (1.6, .03, 367)}[name]
    step = 'sub', ('gaussian', sigma), rate
    found = best_accountant(read_run(needs(name), **given)).epsilon(delta)
    at = {side: [by_fft([(step, n)], getattr(found, side), direction, log2n=16)
                 for direction in ('remove', 'add')] for side in ('lower', 'upper')}
    assert max(low for low, _ in at['upper']) <= delta <= max(high for _, high in at['lower'])
    assert found.upper - found.lower < 1e-6

def test_noise_for_a_target_by_the_closed_form(tmp_path):
    "All records in each step: n steps are one Gaussian with mean sqrt(n)/sigma."
    path = tmp_path/'all.json'
    path.write_text(json.dumps(dict(target_epsilon=2, delta=1e-5, sample_rate=1, max_steps=9,
                                    sampling='none')))
    found = read_form(path, {'sigma': None})
    sigma = calibrate(lambda sigma: read_run(path, sigma=sigma), eps=found.eps, delta=found.delta)
    assert float(gaussian([3/sigma], 2.)) <= 1e-5 < float(gaussian([3/sigma*(1 + 1e-6)], 2.))

# What is asked for

BASE = dict(noise_multiplier=1.1, batch_size=20, dataset_size=200, epochs=2, sampling='poisson')

def refused(tmp_path, data, suffix='json', **given):
    path = tmp_path/f'run.{suffix}'
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1))
    with pytest.raises(ValueError, match=f'run.{suffix}') as error: read_run(path, **given)
    return str(error.value)

def without(*names): return {name: value for name, value in BASE.items() if name not in names}

@pytest.mark.parametrize('more, batch', [
    ({'num_gpus': 4, 'num_nodes': 2}, 16), ({'world_size': 8, 'num_nodes': 2}, 16),
    ({'world_size': 8, 'num_gpus': 4, 'num_nodes': 2}, 16), ({'devices': 1}, 2),
    ({'world_size': 3, 'gradient_accumulation_steps': None, 'num_nodes': None}, 6)])
def test_devices_in_all(tmp_path, more, batch):
    "`world_size` counts all of them, `num_gpus` those of a node; a null is a factor of 1."
    path = tmp_path/'run.json'
    path.write_text(json.dumps(without('batch_size') | {'per_device_batch_size': 2} | more))
    assert read_run(path) == loader(1.1, batch, 200, epochs=2)

@pytest.mark.parametrize('section', [
    'eval_loader', 'valData', 'lr_scheduler', 'early_stopping', 'warmup', 'test-set', 'dropout'])
def test_numbers_of_something_else(tmp_path, section):
    path = tmp_path/'run.json'
    other = dict(batch_size=7, steps=9, rate=.3, delta=.1, eps=2, sigma=3, dataset_size=8)
    path.write_text(json.dumps(BASE | {section: other, 'dp_optimizer': {'sigma': 1.1}}))
    assert read_run(path) == loader(1.1, 20, 200, epochs=2)
    assert read_form(path).delta is None

@pytest.mark.parametrize('data, said', [
    (without('sampling'), ['sampling is needed', '`sampling: poisson`', 'sampling=...']),
    (without('sampling') | {'poisson_sampling': False}, ['sampling is needed', 'poisson_sampling']),
    (without('sampling') | {'loader': {'shuffle': True}}, ['sampling is needed']),
    (BASE | {'sampling': 'nucleus'}, ['sampling is not clear: sampling (line 6)', 'shuffle']),
    (without('noise_multiplier'), ['sigma is needed', 'noise_multiplier', 'sigma=...']),
    (BASE | {'noise_multiplier': None}, ['sigma is needed', 'noise_multiplier (line 2) has none']),
    (without('noise_multiplier') | {'target_epsilon': 3},
     ['sigma is needed', 'target_epsilon (line 6)', 'dp-saddle calibrate']),
    (without('batch_size'), ['batch_size is needed']),
    (without('dataset_size'), ['dataset_size is needed', 'num_examples']),
    (without('epochs'), ['epochs is needed']),
    (BASE | {'epochs': -1}, ['epochs (line 5) has none']),
    (BASE | {'x': {'sigma': 2}}, ['noise_multiplier (line 2) and x.sigma (line 8)', 'sigma=...']),
    (BASE | {'max_steps': 5}, ['steps and epochs', 'max_steps (line 7) and epochs (line 5)']),
    (BASE | {'num_gpus': 2}, ['batch_size (line 3)', 'or of all 2?']),
    (without('batch_size') | {'per_device_train_batch_size': 2}, ['world_size is needed']),
    (BASE | {'per_device_train_batch_size': 2}, ['batch_size has several values']),
    (BASE | {'train_micro_batch_size_per_gpu': 4}, ['batch_size has several values']),
    (BASE | {'num_nodes': 4}, ['batch_size (line 3)', 'or of all 4?']),
    (BASE | {'devices': 'auto'}, ['devices is not clear: devices (line 7)', 'batch_size=...']),
    (BASE | {'world_size': -1}, ['world_size is not clear: world_size (line 7)']),
    (BASE | {'gradient_accumulation_steps': 'auto'}, ['accumulate is not clear', '(line 7)']),
    (BASE | {'gradient_accumulation_steps': 0}, ['must be an integer >= 1']),
    (BASE | {'world_size': 2, 'num_nodes': 4}, ['world_size (line 7) and num_nodes (line 8)']),
    (BASE | {'world_size': 9, 'num_gpus': 4}, ['world_size (line 7) and num_gpus (line 8)']),
    (BASE | {'poisson_sampling': False}, ['sampling (line 6) and poisson_sampling (line 7)']),
    (BASE | {'noise_multiplier': [1., 2.], 'sample_rate': .1}, ['noise_multiplier (line 2) has']),
    (without('epochs') | {'warmup': {'steps': 9}}, ['epochs is needed']),
    (without('dataset_size') | {'test_data': {'num_samples': 9}}, ['dataset_size is needed']),
    (without('dataset_size', 'batch_size') | {'learning': {'rate': .1}}, ['batch_size is needed']),
    (BASE | {'sample_rate': .2}, ['rate 0.2 is not batch_size 20 over dataset_size 200']),
    (BASE | {'clients_per_round': 2}, ['privacy_unit is needed', 'clients_per_round (line 7)']),
    (BASE | {'clients_per_round': 2, 'privacy_unit': 'record'}, ['must be client']),
    (BASE | {'truncated_batch_size': 40}, ['(line 7) cuts samples', 'truncated-poisson']),
    (without('dataset_size') | {'train_size': .8}, ['is not clear: train_size (line 6)']),
    (BASE | {'mechanism': 'laplace'}, ['mechanism (line 7) says another noise']),
    (BASE | {'privacy': {'enabled': False}}, ['privacy.enabled (line 8)', 'no privacy']),
    (BASE | {'disable_dp': True}, ['disable_dp (line 7)', 'no privacy']),
    (BASE | {'num_microbatches': 4}, ['several records together']),
    (BASE | {'noise_scheduler': 'step'}, ['from step to step']),
    (BASE | {'num_bands': 8}, ['correlates']),
    ({'lr': 1, 'name': 'x'}, ['no run is found', "['lr', 'name']", '{"noise_multiplier": 1.1, ']),
    (BASE | {'noise_multiplier': 0}, ['sigma must be']), ('{"a": ', ['JSON']),
])
def test_what_is_missing_is_asked_for_by_name(tmp_path, data, said):
    error = refused(tmp_path, data)
    for words in said: assert words in error
    assert len(error.replace(str(tmp_path), '')) < 400

@pytest.mark.parametrize('more', [
    'max_steps: 100_00', 'max_steps: 100k', 'disable_dp: True', 'use_dp: no', 'use_dp: 0',
    'use_dp: maybe', 'noise_decay: 0.99', 'noise_schedule: {type: exponential}',
    'noise_schedule: [1.0, 2.0]', 'noise_type: [laplace]', 'mechanism: {name: laplace}',
    'mechanism: {kind: laplace, sigma: 1.1}', 'noise_mechanism: {family: laplace}',
    'logical_batch_size: 1_24', 'unit_records: 5_0', 'examples_per_user: 10x', 'tries: 3',
    'tries: {geometric: 10}', 'relation: 5', 'relation: [replace-one]', 'microbatches: 1_6',
    'poisson_sampling: False', 'sampling_method: uniform', 'truncated_batch_size: 1_000',
    'num_bands: 4_0', 'sample_rate: 5%', 'dp_sigma: 0_5', 'sampler: {name: RandomSampler}',
    'users_per_round: 1_00', 'rounds: 100000', 'server_noise_multiplier: .2', 'train_size: .8'])
def test_nothing_that_changes_the_run_is_passed_over(tmp_path, more):
    "A known key whose value cannot be read is refused by its line, not dropped."
    needs('x.yaml')
    path = tmp_path/'run.yaml'
    path.write_text('\n'.join(f'{key}: {value}' for key, value in BASE.items()) + f'\n{more}\n')
    with pytest.raises(ValueError, match=r'\(line 6\)|line 7|tries must be'): read_run(path)

def test_a_value_left_open_is_passed_over(tmp_path):
    "As trainers write it: null, auto, no limit on steps, a section of the same name."
    needs('x.yaml')
    path = tmp_path/'run.yaml'
    text = '\n'.join(f'{key}: {value}' for key, value in BASE.items())
    path.write_text(text + '\nmax_steps: -1\ntrain_batch_size: auto\nnum_gpus: null\n'
                    'dp: {max_grad_norm: 1.0}\nsampler: {seed: 3}\nenable_dp: yes\n')
    assert read_run(path) == loader(1.1, 20, 200, epochs=2)
    path.write_text(text + '\nmax_steps: 100_000\n')
    assert read_run(path, steps=7) == loader(1.1, 20, 200, steps=7)

def test_what_cannot_be_accounted_for_is_refused():
    path = needs('fl4health_instance.yaml')
    for given in ({}, {'rate': .1}, {'steps': 5}):
        with pytest.raises(ValueError, match='records within sampled clients'):
            read_run(path, sigma=2., **given)
    assert read_run(path, sigma=2., rate=.1, steps=5) == 5*S(2., .1)

def test_words_beside_a_file_are_those_of_a_run(tmp_path):
    path = tmp_path/'run.json'
    path.write_text(json.dumps(BASE))
    with pytest.raises(ValueError, match="did you mean 'sigma'"): read_run(path, sgima=2)
    with pytest.raises(ValueError, match='sampling must be one of'): read_run(path, sampling='x')
    assert read_run(path, rate=.3) == ceil(2/.3)*S(1.1, .3)
    path.write_text(json.dumps(BASE | {'gradient_accumulation_steps': 2}))
    assert read_run(path) == loader(1.1, 40, 200, epochs=2)
    assert read_run(path, accumulate=3) == loader(1.1, 60, 200, epochs=2)
    flsim = FILES/'flsim.json'
    assert read_run(flsim, dataset_size=900, batch_size=30, sampling='poisson') == loader(
        1.2, 30, 900, epochs=4)

@pytest.mark.parametrize('suffix', ['json', 'yaml', 'toml'])
def test_the_shortest_file_works(tmp_path, suffix):
    "As the error shows it."
    needs(f'x.{suffix}')
    text = {'json': '{"a": 1}', 'yaml': 'a: 1', 'toml': 'a = 1'}[suffix]
    shown = refused(tmp_path, text, suffix).partition('file that says one: ')[2]
    path = tmp_path/f'shortest.{suffix}'
    path.write_text(shown)
    assert read_run(path) == loader(1.1, 256, 60_000, epochs=60)

SECRET = 'hunter2-of-somebody'

@pytest.mark.parametrize('word', SYNONYMS)
def test_no_error_repeats_what_it_was_not_asked_about(tmp_path, word):
    "Wherever a secret stands: beside the words, in place of one, and referred to by one."
    for name in SYNONYMS[word].split()[:2]:
        for value in (SECRET, [SECRET], {'deep': SECRET}, '${password}', f'${{{SECRET}}}'):
            data = {'password': SECRET, **BASE, 'section': {name: value}, 'max_steps': 3}
            assert SECRET not in refused(tmp_path, data)

def test_references_that_grow_are_not_followed(tmp_path):
    data = {f'k{i}': f'${{k{i + 1}}}'*20 for i in range(20)} | {'k20': '1'*150}
    error = refused(tmp_path, {**data, **BASE, 'noise_multiplier': '${k0}'})
    assert 'sigma is not clear: noise_multiplier (line 23)' in error

def test_equal_values_are_one(tmp_path):
    path = tmp_path/'run.json'
    path.write_text(json.dumps(BASE | {'again': {'sigma': '11/10', 'epochs': 2.}}))
    assert read_run(path) == loader(1.1, 20, 200, epochs=2)
    assert read_run(path, steps=7) == loader(1.1, 20, 200, steps=7)

def test_truncated_samples_and_users(tmp_path):
    path = tmp_path/'run.json'
    cut = {'sampling': 'truncated_poisson', 'truncated_batch_size': 40}
    path.write_text(json.dumps(BASE | cut))
    assert read_run(path) == dpsgd(sigma=1.1, batch_size=20, dataset_size=200, epochs=2,
                                   sampling='truncated-poisson', max_batch_size=40)
    path.write_text(json.dumps(BASE | {'examples_per_user': 3}))
    assert read_run(path) == dpsgd(sigma=1.1, batch_size=20, dataset_size=200, epochs=2,
                                   sampling='poisson', unit_records=3)

# Readers

def test_what_has_two_readings_is_marked():
    pytest.importorskip('yaml')
    text = ('a: 010\nb: 2020-01-01\nc: !x [1]\nd: yes\non: 1\n1: 2\ne: &n 3\nf: *n\ng: .nan\n'
            'h: 1.0e+999')
    found = read_yaml(text, strict=False)
    assert {key for key, value in found.items() if value is UNCLEAR} == set('abcgh')
    assert found['d'] is True and found['e'] == found['f'] == 3 and not {'on', True} & found.keys()
    for wrong in ('a: &b [1]\nc: *b', 'a: &b {c: 1}\nd: {<<: *b}', 'a: 1\na: 2', 'a: ['):
        with pytest.raises(ValueError, match='YAML|twice'): read_yaml(wrong, strict=False)

@pytest.mark.parametrize('text', ['a = 1e999', 'a = inf', 'a = nan', 'a = 1\na = 2', 'a', '['*99])
def test_toml_has_one_reading(text):
    needs('x.toml')
    with pytest.raises(ValueError, match='TOML|doubles|finite'): read_toml(text)

def test_a_missing_reader_is_named(tmp_path, monkeypatch):
    for suffix, modules, said in (('toml', ('tomllib', 'tomli'), r'dp-saddle\[toml\]'),
                                  ('yaml', ('yaml',), r'dp-saddle\[yaml\]')):
        path = tmp_path/f'run.{suffix}'
        path.write_text('')
        for module in modules: monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ValueError, match=said): read_run(path)

def test_lines_of_keys_that_hold_one_another(tmp_path):
    "A name within another, above itself, and in a comment."
    for suffix, text in (
            ('json', '{"sigmas": 0,\n "x": "sigma",\n "sigma": {\n "sigma":\n 3}}'),
            ('toml', '# sigma\nsigmas = 0\n[sigma]\nsigma = 3'),
            ('yaml', '# sigma\nsigmas: 0\nsigma:\n  sigma: 3')):
        if suffix == 'yaml': pytest.importorskip('yaml')
        path = tmp_path/f'run.{suffix}'
        path.write_text(text)
        assert read_file(path, strict=False)['sigma'] == {'sigma': 3}
        line = lines_of(path)
        assert (line(('sigma',)), line(('sigma', 'sigma'))) == (3, 4)

# The command

def asked(capsys, *words):
    "(status, what is printed, what is told)."
    try:
        status = main([*map(str, words)])
    except SystemExit as stop:
        status = stop.code
    return status, *capsys.readouterr()

def config(tmp_path, **more):
    path = tmp_path/'train.json'
    path.write_text(json.dumps({'seed': 1, 'privacy': {'noise_multiplier': 1.1, 'delta': '1/N'},
                                'data': {'batch_size': 20, 'n_train': 200}, 'max_grad_norm': 3,
                                'trainer': {'max_epochs': 2}, **more}, indent=1))
    return path

def test_what_was_understood_is_told_first(tmp_path, capsys):
    path, run = config(tmp_path, sampling='poisson'), loader(1.1, 20, 200, epochs=2)
    status, out, err = asked(capsys, 'epsilon', '--run', path)
    assert status == 0 and '0.005' in out
    for line in (f'{path} is read as', 'sigma 1.1 by privacy.noise_multiplier, line 4',
                 'delta 0.005 by privacy.delta, line 5', 'epochs 2 by trainer.max_epochs, line 13',
                 'max_grad_norm (line 11) is not needed: the noise is said in units of it'):
        assert line in [text.strip() for text in err.splitlines()]
    status, out, err = asked(capsys, 'epsilon', '--run', path, '--json')
    answer = json.loads(out)
    assert err == '' and answer['results'][0]['upper'] == epsilon(run, delta=1/200)
    assert {'word': 'sigma', 'value': 1.1, 'key': 'privacy.noise_multiplier',
            'line': 4} in answer['understood']
    (tmp_path/'again.json').write_text(out)
    assert read_run(tmp_path/'again.json') == run
    assert json.loads(asked(capsys, 'epsilon', '--run', tmp_path/'again.json', '--delta', '.1',
                            '--json')[1])['understood'] is None

def test_words_of_the_line_say_what_is_missing(tmp_path, capsys):
    path = config(tmp_path)
    status, out, err = asked(capsys, 'epsilon', '--run', path)
    assert status == 2 and out == '' and 'say --sampling' in err and err.count('\n') == 1
    words = ['--sampling', 'none', '--sigma', '2', '--delta', '1e-5', '--json']
    answer = json.loads(asked(capsys, 'epsilon', '--run', path, *words)[1])
    run = loader(2., 20, 200, 'none', epochs=2)
    assert answer['results'][0]['upper'] == epsilon(run, delta=1e-5)
    _, _, err = asked(capsys, 'epsilon', '--run', path, *words[:-1])
    assert 'privacy.noise_multiplier (line 4) is not used: --sigma comes first' in err
    assert 'privacy.delta' not in err

def test_what_stands_beside_a_given_word_is_named(tmp_path, capsys):
    "Factors of a batch, and a key that denies the sampling: neither is dropped in silence."
    path = tmp_path/'run.yaml'
    path.write_text('noise_multiplier: 2\nepochs: 2\ndataset_size: 1000\nbatch_size: 64\n'
                    'accumulate_grad_batches: 4\npoisson_sampling: false\n')
    words = 'epsilon', '--run', path, '--sampling', 'poisson', '--delta', '1e-5'
    _, whole, err = asked(capsys, *words)
    assert 'poisson_sampling (line 6) is not used: --sampling comes first' in err
    assert 'accumulate_grad_batches' in err and 'accumulate_grad_batches (line 5) is not' not in err
    _, out, err = asked(capsys, *words, '--batch-size', 64)
    assert 'accumulate_grad_batches (line 5) is not used: --batch-size comes first' in err
    assert out != whole

def test_a_length_may_be_several(tmp_path, capsys):
    path = config(tmp_path, sampling='poisson')
    answer = json.loads(asked(capsys, 'epsilon', '--run', path, '--steps', 5, 10, '--json')[1])
    assert [row['steps'] for row in answer['results']] == [5, 10]

def test_calibrate_sweep_and_compare_read_files(tmp_path, capsys):
    path = config(tmp_path, target_epsilon=4)
    words = '--run', path, '--sampling', 'poisson', '--json'
    found = json.loads(asked(capsys, 'calibrate', *words)[1])
    run = loader(found['value'], 20, 200, epochs=2)
    assert epsilon(run, delta=1/200) == found['epsilon'] <= 4
    assert epsilon(loader(found['value']*(1 - 1e-5), 20, 200, epochs=2), delta=1/200) > 4
    found = json.loads(asked(capsys, 'calibrate', *words, '--find', 'epochs')[1])
    assert found['run']['dpsgd']['sigma'] == 1.1
    table = json.loads(asked(capsys, 'sweep', *words, '--sigma', 1, 2)[1])['columns']
    assert table['epsilon'] == [epsilon(loader(s, 20, 200, epochs=2), delta=1/200) for s in (1, 2)]

def test_compare_sampling_reads_a_file(tmp_path, capsys, monkeypatch):
    "It needs no sampling, and uses none: what it compares is what the file says."
    def compared(**words): raise ValueError(f'asked: {sorted(words.items())}')
    monkeypatch.setattr('dp_saddle.practice.compare_sampling', compared, raising=False)
    expected = dict(sigma=1.1, batch_size=20, dataset_size=200, epochs=2, delta=1/200)
    for more in ({}, {'sampling': 'shuffle'}):
        _, _, err = asked(capsys, 'compare-sampling', '--run', config(tmp_path, **more))
        assert err.endswith(f'asked: {sorted(expected.items())}\n')

@pytest.mark.parametrize('command', ['report', 'tradeoff', 'certify'])
def test_other_commands_read_files(tmp_path, capsys, command):
    path, out = config(tmp_path, sampling='poisson'), tmp_path/'out.json'
    words = ['--out', out] if command == 'certify' else []
    status, said, err = asked(capsys, command, '--run', path, *words, '--json')
    assert status == 0, err
    assert len(json.loads(said)['understood']) >= 5

def test_a_ledger_pays_for_a_file(tmp_path, capsys):
    path, ledger = config(tmp_path, sampling='poisson'), tmp_path/'ledger.json'
    asked(capsys, 'budget', 'new', ledger, '--eps', 9, '--delta', 1e-5)
    status, out, err = asked(capsys, 'budget', 'spend', ledger, '--run', path, '--json')
    answer = json.loads(out)
    assert status == 0 and answer['fits'] and answer['steps'] == 20
    assert 'delta' not in [row['word'] for row in answer['understood']]

@pytest.mark.parametrize('words, delta', [
    ({'delta': '1/N^1.1'}, 200**-1.1), ({'delta': '2 / n ** 1.5'}, 2*200**-1.5),
    ({'delta': 'auto'}, 1/200), ({'target_delta': '1/N'}, 1/200),
    ({'delta': 'auto', 'per_sample_max_grad_norm': 1.}, 200**-1.2)])
def test_a_delta_of_how_many_records(tmp_path, words, delta):
    "A power of N; and what Gretel's and NeMo's synthesizers document as auto: 1/n^1.2."
    path = config(tmp_path, sampling='poisson', privacy=dict(noise_multiplier=1.1) | words)
    assert read_form(path).delta == pytest.approx(delta, rel=1e-14)

def test_a_question_that_nobody_asks(tmp_path, capsys):
    path = config(tmp_path, sampling='poisson', privacy=dict(noise_multiplier=1.1))
    assert '--delta is needed' in asked(capsys, 'epsilon', '--run', path)[2]
    assert '--eps is needed' in asked(capsys, 'delta', '--run', path)[2]
    path = config(tmp_path, sampling='poisson', x=dict(delta=1e-7))
    assert 'delta has several values' in asked(capsys, 'epsilon', '--run', path)[2]
    assert asked(capsys, 'epsilon', '--run', path, '--delta', 1e-5)[0] == 0
    path = config(tmp_path, sampling='poisson', privacy=dict(sigma=1, delta='1/N^'))
    assert 'privacy.delta (line 5) is no number' in asked(capsys, 'epsilon', '--run', path)[2]
    path.write_text(json.dumps(dict(sigma=1, sample_rate=.1, steps=3, delta='auto',
                                    sampling='poisson')))
    assert '1/N, and dataset_size is not said' in asked(capsys, 'epsilon', '--run', path)[2]

@pytest.mark.parametrize('suffix', ['json', 'yaml'])
def test_words_beside_the_library_s_own_form(tmp_path, suffix):
    "There a rate is that of Poisson samples; of an answer, too."
    needs(f'x.{suffix}')
    path = tmp_path/f'run.{suffix}'
    for data in ({'dpsgd': dict(sigma=2, rate=.1, steps=7)},
                 {'run': {'dpsgd': dict(sigma=2, rate=.1, steps=7)}, 'seconds': 1}):
        path.write_text(json.dumps(data))
        assert read_run(path) == 7*S(2., .1) and read_run(path, sigma=3.) == 7*S(3., .1)
        assert read_run(path, steps=9) == 9*S(2., .1)
    path.write_text(json.dumps({'dpsgd': BASE | {'sampling': 'shuffle'}}))
    assert read_run(path, epochs=3) == loader(1.1, 20, 200, 'shuffle', epochs=3)

def test_a_list_of_steps_says_it_all(tmp_path, capsys):
    path = tmp_path/'steps.json'
    path.write_text(json.dumps(to_steps(3*S(2., .1))))
    for words in (('epsilon', '--sigma', 1), ('calibrate', '--eps', 1), ('compare-sampling',),
                  ('sweep', '--sigma', 1)):
        status, _, err = asked(capsys, *words, '--delta', 1e-5, '--run', path)
        assert status == 2 and 'does not go with it' in err

def test_a_configuration_in_a_checkpoint(tmp_path):
    "Its keys have no lines; and an error names the file once."
    torch = pytest.importorskip('torch')
    path = tmp_path/'run.pt'
    torch.save(BASE, path)
    assert read_run(path) == loader(1.1, 20, 200, epochs=2)
    path.write_bytes(b'garbage')
    with pytest.raises(ValueError, match='a checkpoint of numbers') as error: read_run(path)
    assert str(error.value).count('run.pt') == 1

@pytest.mark.parametrize('digits', [13, 15, 17])
def test_a_rate_as_it_is_printed_is_the_quotient(tmp_path, digits):
    path = tmp_path/'run.json'
    rate = float(f'{64/60_000:.{digits}g}')
    data = BASE | dict(batch_size=64, dataset_size=60_000, sample_rate=rate)
    path.write_text(json.dumps(data))
    assert read_run(path) == loader(1.1, 64, 60_000, epochs=2)

def test_thousands_may_be_set_apart(tmp_path):
    "50_000 in YAML is a number, as in Python; digits set apart in another way are refused."
    needs('x.yaml')
    path = tmp_path/'run.yaml'
    text = "noise_multiplier: 1.1\nbatch_size: 20\nnum_train: 50_000\nepochs: 2\n" \
           "sampling: poisson\n"
    path.write_text(text)
    assert read_run(path).dataset_size == 50_000
    path.write_text(text.replace('50_000', '5_00_00'))
    with pytest.raises(ValueError, match=r'num_train \(line 3\)'): read_run(path)
