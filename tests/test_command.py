"command/main, the command: the installed `dp-saddle` as typed, and what `main` answers to words."
import io
import json
import os
import re
import resource
import shlex
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import commands as page
import numpy as np
import pytest

from dp_saddle import (
    Budget,
    Gaussian,
    Geometric,
    Laplace,
    PoissonSubsampled,
    TruncatedNegativeBinomial,
    certify,
    compare_sampling,
    dpsgd,
    epsilon,
    load_certificate,
    read_run,
    report,
    selected,
    to_steps,
    tpr,
    tradeoff,
)
from dp_saddle.command.main import main
from dp_saddle.command.words import COMMANDS, EXAMPLES, KEYS, STATUS, command_parser
from dp_saddle.engine.ways import ContourAccountant
from dp_saddle.practice.audits import audit
from dp_saddle.practice.reports import neighbours
from dp_saddle.practice.run_files import run_of
from once import once_each

COMMAND = os.path.join(os.path.dirname(sys.executable), 'dp-saddle')

def typed(*words, **options):
    "The installed command, in a process of its own."
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, **options)

@contextmanager
def folder(path):
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)

def dp_saddle(*words, cwd='.'):
    "The same words for `main`, here, in a folder: a process takes half a second."
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), folder(cwd):
        try:
            code = main(list(words)) or 0
        except SystemExit as stop:
            code = stop.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())

def S(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

RUN = ['--sigma', '2', '--rate', '0.01', '--steps', '3000']

# The README

ROOT = Path(__file__).parent.parent
README = (ROOT/'README.md').read_text(encoding='utf-8')
EXAMPLE = re.compile(r'^\$ (dp-saddle (?:.*\\\n)*.*)\n((?:(?!\$ |```).*\n)*)', re.M)

def shown_in(text):
    "(command, what it is said to print) of each example."
    return [(line.replace('\\\n', ''), said) for line, said in EXAMPLE.findall(text)]

SHOWN = shown_in(README)

def text_of(notebook):
    "Of its cells of text."
    cells = json.loads((ROOT/'nbs'/notebook).read_text(encoding='utf-8'))['cells']
    return '\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')

def test_the_first_example_of_the_readme_is_the_command():
    assert re.search(r'```(\w+)\n\$ (\S+)', README).groups() == ('console', 'dp-saddle')
    assert README.index('```console') == README.index('```')

@pytest.mark.parametrize('line, shown', SHOWN)
def test_readme_prints_what_it_says(line, shown):
    assert shown and same_words(shown, typed(*shlex.split(line)[1:]).stdout)

def same_words(said, done):
    "Word by word, numbers to 1e-6: so far noise is calibrated."
    pairs = list(zip(said.split(), done.split(), strict=True))
    return all(a == b or float(a.rstrip(':')) == pytest.approx(float(b.rstrip(':')), rel=1e-6)
               for a, b in pairs)

@pytest.mark.parametrize('notebook', ['five_minutes.ipynb', 'faq.ipynb'])
def test_lines_to_type_print_what_is_said(notebook, tmp_path):
    examples = shown_in(text_of(notebook))
    assert sum(bool(said) for _, said in examples) >= 1 and len(examples) >= 3
    for line, said in examples:
        done = dp_saddle(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
        assert not said or same_words(said, done.stdout), line

@pytest.mark.parametrize('line', re.findall(r'^(dp-saddle .*)', README.replace('\\\n', ''), re.M))
def test_readme_commands_work(line, tmp_path):
    assert typed(*shlex.split(line)[1:], cwd=tmp_path).returncode == 0

# What it answers

def test_epsilon_and_delta():
    done = dp_saddle('epsilon', *RUN, '--delta', '1e-15')
    assert done.returncode == 0 and '2.328029714' in done.stdout and done.stderr == ''
    row, = json.loads(dp_saddle('delta', *RUN, '--eps', '1', '--json').stdout)['results']
    assert row['steps'] == 3000 and row['lower'] <= row['estimate'] <= row['upper']
    assert row['estimate'] == pytest.approx(4.64853066236e-5, rel=1e-11)

def test_several_at_once():
    words = 'epsilon --sigma 9.4 --rate 0.32768 --steps 0 1000 2000 --delta 1e-5 1e-100 --json'
    rows = json.loads(dp_saddle(*words.split()).stdout)['results']
    asked = [(n, d) for n in (0, 1000, 2000) for d in (1e-5, 1e-100)]
    assert [(r['steps'], r['delta']) for r in rows] == asked
    assert rows[0]['upper'] == 0 and rows[4]['upper'] == pytest.approx(7.42438, abs=1e-5)

def test_printed_bounds_are_rounded_outwards():
    words = ['epsilon', *RUN, '--delta', '1e-15']
    low, high = dp_saddle(*words).stdout.split()[-2:]
    exact, = json.loads(dp_saddle(*words, '--json').stdout)['results']
    assert float(low) <= exact['lower'] and exact['upper'] <= float(high)

def test_curve(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = dp_saddle('curve', *RUN, '--out', 'c.png')
    assert done.returncode == 0 and 'c.png' in done.stdout
    assert (tmp_path/'c.png').read_bytes()[:4] == b'\x89PNG'

def test_curve_as_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = json.loads(dp_saddle('curve', *RUN, '--out', 'c.svg', '--json').stdout)
    assert len(done['eps']) == len(done['delta']) == 200 and done['steps'] == 3000

def test_calibrate():
    words = 'calibrate --rate .01 --steps 1000 --eps 1 --delta 1e-5 --json'
    out = json.loads(dp_saddle(*words.split()).stdout)
    assert epsilon(1000*S(out['value'], .01), delta=1e-5) == out['epsilon'] <= 1
    assert out['find'] == 'sigma'
    words = 'calibrate --rate .01 --sigma 1 --find steps --eps 2 --delta 1e-5'
    assert dp_saddle(*words.split()).stdout.startswith('steps ')

SHORT = ['--sigma', '2', '--rate', '0.01', '--steps', '300']
CUT = ['--sampling', 'truncated-poisson', '--dataset-size', '10000', '--max-batch-size', '130']
SIZES = dict(sigma=2., batch_size=100, dataset_size=10_000, steps=300)
FLAGS = {
    'user': (['--unit-records', '3'], dpsgd(**SIZES, sampling='poisson', unit_records=3)),
    'cut': (CUT, dpsgd(**SIZES, sampling='truncated-poisson', max_batch_size=130)),
    'tries': (['--tries', 'geometric:4'],
              selected(dpsgd(**SIZES, sampling='poisson'), tries=Geometric(mean=4.))),
    'both': (['--tries', 'negative-binomial:4:2', '--unit-records', '2'],
             selected(dpsgd(**SIZES, sampling='poisson', unit_records=2),
                      tries=TruncatedNegativeBinomial(mean=4., shape=2.))),
    'once': (['--unit-records', '1', '--sampling', 'poisson'], 300*S(2., .01)),
}

@pytest.mark.parametrize('flags, run', FLAGS.values(), ids=FLAGS)
def test_flags_for_users_samples_that_are_cut_and_tries(flags, run):
    "As in Python, for the same neighbours; on paper, and for a machine."
    answer = json.loads(dp_saddle('epsilon', *SHORT, *flags, '--delta', '1e-5', '--json').stdout)
    assert answer['results'][0]['upper'] == epsilon(run, delta=1e-5)
    assert answer['relation'] in (neighbours(run), 'add or remove one record')
    shown = dp_saddle('epsilon', *SHORT, *flags, '--delta', '1e-5')
    assert shown.returncode == 0 and neighbours(run) in shown.stdout.splitlines()[0]

def test_reports_name_the_user():
    said = dp_saddle('report', *SHORT, '--delta', '1e-5', '--unit-records', '3').stdout
    assert said.startswith('Each user with at most 3 records is protected')
    assert report(FLAGS['user'][1], delta=1e-5).split(' for ')[0] == said.split(' for ')[0]
    words = '--tries', 'geometric:2', '--unit-records', '12'
    said = dp_saddle('report', *SHORT, '--delta', '1e-5', *words).stdout
    assert said.startswith('Each user is protected') and 'records of one user, at most 12' in said
    assert '13 sensitivities from 0 to 12' in said and len(said) < 1200

@pytest.mark.parametrize('name', ['user', 'cut', 'tries'])
def test_calibrate_with_flags(name):
    words = ['--rate', '.01', '--steps', '300', '--eps', '2', '--delta', '1e-5', '--json']
    out = json.loads(dp_saddle('calibrate', *words, *FLAGS[name][0]).stdout)
    again = ['--sigma', repr(out['value']), '--rate', '.01', '--steps', '300']
    there = dp_saddle('epsilon', *again, '--delta', '1e-5', '--json', *FLAGS[name][0]).stdout
    assert json.loads(there)['results'][0]['upper'] == out['epsilon'] <= 2
    assert out['relation'] == neighbours(FLAGS[name][1])

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_certify_users_and_samples_that_are_cut(tmp_path):
    for name in ('user', 'cut'):
        words = [*SHORT, *FLAGS[name][0], '--delta', '1e-5', '--out', 'a.json']
        assert dp_saddle('certify', *words, cwd=tmp_path).returncode == 0
        made = load_certificate(tmp_path/'a.json')
        assert made == certify(FLAGS[name][1], delta=1e-5)

def test_compare_has_the_accountant_of_a_search():
    words = [*SHORT, '--tries', 'geometric:4', '--delta', '1e-5', '--json']
    said = dp_saddle('compare', *words).stdout
    first, *others = json.loads(said)['results']
    assert first['accountant'] == 'SelectionAccountant' and first['worth'] == 'certified'
    assert first['upper'] == pytest.approx(epsilon(FLAGS['tries'][1], delta=1e-5), rel=1e-9)
    assert all(row['worth'].startswith('not for this run') for row in others)

def test_help_speaks_of_users():
    for command in ('epsilon', 'calibrate', 'report', 'certify'):
        said = ' '.join(dp_saddle(command, '--help').stdout.split())
        assert all(text in said for text in ('--unit-records', '--tries', 'all of them are'))
    said = ' '.join(dp_saddle('--help').stdout.split())
    assert 'with --unit-records: all records of one user' in said

def test_runs_from_files(tmp_path):
    run, path = 1000*S(2., .01) + Laplace(scale=5.), tmp_path/'run.json'
    path.write_text(json.dumps({'steps': to_steps(run)}))
    done = dp_saddle('epsilon', '--run', str(path), '--delta', '1e-5', '--json')
    row, = json.loads(done.stdout)['results']
    assert row['upper'] == epsilon(run, delta=1e-5) and done.stderr == ''
    done = dp_saddle('report', '--run', str(path), '--delta', '1e-5')
    assert '-differential privacy' in done.stdout

def test_compare():
    words = 'compare --sigma 2 --rate .01 --steps 100 --delta 1e-5'.split()
    assert 'ContourAccountant' in dp_saddle(*words).stdout

CERTIFY = ['certify', *RUN, '--delta', '1e-5', '--out', 'run.cert.json']

def test_certify_and_verify(tmp_path):
    done = dp_saddle(*CERTIFY, cwd=tmp_path)
    made = load_certificate(tmp_path/'run.cert.json')
    assert done.returncode == 0 and done.stderr == '' and made.digest in done.stdout
    assert made.answer['upper'] in done.stdout and 'at delta 1e-05' in done.stdout
    done = dp_saddle('verify', 'run.cert.json', cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith('proved\n')
    assert made.digest in done.stdout and 'remove: delta(' in done.stdout

def test_certify_and_verify_as_json(tmp_path):
    said = json.loads(dp_saddle(*CERTIFY, '--json', cwd=tmp_path).stdout)
    assert said['question'] == {'delta': 1e-5} and said['out'] == 'run.cert.json'
    done = dp_saddle('verify', 'run.cert.json', '--json', cwd=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found['proved'] is True and len(found['findings']) == 3
    assert found['digest'] == said['digest'] and found['answer'] == said['answer']

def test_a_report_with_a_certificate(tmp_path):
    dp_saddle(*CERTIFY, cwd=tmp_path)
    words = 'report', *RUN, '--certificate', 'run.cert.json', '--delta'
    done = dp_saddle(*words, '1e-5', cwd=tmp_path)
    assert load_certificate(tmp_path/'run.cert.json').digest in done.stdout
    done = dp_saddle(*words, '1e-6', cwd=tmp_path)
    assert done.returncode == 2 and 'certificate must be about delta = 1e-06' in done.stderr

def test_what_is_not_proved_is_status_1(tmp_path):
    dp_saddle(*CERTIFY, cwd=tmp_path)
    path = tmp_path/'run.cert.json'
    path.write_text(path.read_text(encoding='utf-8').replace('"sigma": 2.0', '"sigma": 1.9'))
    done = dp_saddle('verify', 'run.cert.json', cwd=tmp_path)
    assert done.returncode == 1 and done.stderr == '' and 'NOT PROVED' in done.stdout
    done = dp_saddle('verify', 'run.cert.json', '--json', cwd=tmp_path)
    assert done.returncode == 1 and json.loads(done.stdout)['proved'] is False

def test_what_is_no_certificate_is_status_2(tmp_path):
    (tmp_path/'run.cert.json').write_text('{}')
    for file, message in [('run.cert.json', 'must have the keys'), ('none.json', 'No such file')]:
        done = dp_saddle('verify', file, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == '' and message in done.stderr
        assert done.stderr.count('\n') == 1

def test_verify_without_python_flint(tmp_path, monkeypatch, capsys):
    certify(1000*S(2., .01), eps=1.).save(tmp_path/'run.cert.json')
    monkeypatch.setattr('dp_saddle.certificates.verification.arb', None)
    with pytest.raises(SystemExit) as stop:
        main(['verify', str(tmp_path/'run.cert.json')])
    assert stop.value.code == 2 and 'dp-saddle[certificate]' in capsys.readouterr().err

def test_certify_a_run_from_a_file(tmp_path):
    run, path = 1000*S(2., .01) + Laplace(scale=5.), tmp_path/'run.json'
    path.write_text(json.dumps({'steps': to_steps(run)}))
    done = dp_saddle('certify', '--run', 'run.json', '--eps', '1', '--out', 'a.json', cwd=tmp_path)
    assert done.returncode == 0 and load_certificate(tmp_path/'a.json') == certify(run, eps=1.)

@pytest.mark.parametrize('command', ['certify', 'verify'])
def test_help_has_an_example(command):
    assert f'example: dp-saddle {command} ' in ' '.join(dp_saddle(command, '--help').stdout.split())

def test_version():
    assert typed('--version').stdout.startswith('dp-saddle ')

def test_completion(capsys):
    pytest.importorskip('shtab')
    main(['completion', 'bash'])
    assert 'calibrate' in capsys.readouterr().out

# Mistakes

@pytest.mark.parametrize('words, named', [
    ('epsilon --sigma 0 --rate 1 --steps 1 --delta .1', 'sigma must be in (0, inf), got 0.0'),
    ('epsilon --sigma nan --rate 1 --steps 1 --delta .1', 'sigma'),
    ('epsilon --sigma x --rate 1 --steps 1 --delta .1', '--sigma'),
    ('epsilon --sigma 1 --rate 1.5 --steps 1 --delta .1', 'rate must be in (0, 1]'),
    ('epsilon --sigma 1 --steps 1 --delta .1', '--rate'),
    ('epsilon --sigma 1 --rate 1 --steps -1 --delta .1', 'steps must be an integer >= 0'),
    ('epsilon --sigma 1 --rate 1 --steps 1.5 --delta .1', '--steps'),
    ('epsilon --sigma 1 --rate 1 --steps 1 --delta 1', 'delta must be in [0, 1)'),
    ('epsilon --sigma 1 --rate 1 --steps 1 --delta 1', 'delta'),
    ('delta --sigma 1 --rate 1 --steps 1 --eps -1', 'eps must be in [0, inf]'),
    ('delta --sigma 1 --rate 1 --steps 1 --eps nan', 'eps'),
    ('curve --sigma 1 --rate 1 --steps 1 --out /no/such/folder/c.png', 'No such file'),
    ('curve --sigma 1 --rate 1 --steps 1 --out c.xyz', 'xyz'),
    ('curve --sigma 1 --rate 1 --steps 1', '--out'),
    ('', 'required'),
    ('epsilom', 'epsilom'),
])
def test_mistakes_are_one_line_and_status_2(words, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = dp_saddle(*words.split())
    assert done.returncode == 2 and done.stdout == ''
    assert done.stderr.count('\n') == 1 and named in done.stderr, done.stderr

def test_a_mistake_as_typed():
    done = typed('epsilon', *RUN, '--delta', '1')
    assert done.returncode == 2 and done.stdout == '' and done.stderr.count('\n') == 1

@pytest.mark.parametrize('words, message', [
    ('calibrate --rate .01 --eps 1 --delta 1e-5', '--steps is needed'),
    ('calibrate --rate .01 --steps 5 --sigma 1 --eps 1 --delta 1e-5',
     '--sigma is what is to be found'),
    ('epsilon --delta 1e-5', '--sigma is needed'),
    ('epsilon --run no.json --delta 1e-5', 'no.json'),
    ('epsilon --run a.txt --delta 1e-5', 'suffix'),
    ('compare --sigma 1 --rate 1 --steps 1', 'either delta or eps'),
    ('report --sigma 1 --rate 1 --steps 1 --delta 3', 'delta must be'),
    ('certify --sigma 1 --rate 1 --steps 1 --out a.json', 'either eps or delta'),
    ('certify --sigma 1 --rate 1 --steps 1 --out a.json --eps 1 --delta .1', 'either eps or delta'),
    ('certify --sigma 1 --rate 1 --steps 1 --eps 1', '--out'),
    ('verify', 'file'),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --unit-records 0',
     '--unit-records must be an integer >= 1, got 0'),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --max-batch-size 5',
     '--max-batch-size is for --sampling truncated-poisson'),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --sampling truncated-poisson '
     '--max-batch-size 5', '--dataset-size is needed for --sampling truncated-poisson'),
    (f'epsilon {" ".join(RUN)} --delta .1 --sampling truncated-poisson --dataset-size 9 '
     '--max-batch-size 5 --unit-records 2', '--unit-records must be 1'),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --tries 10',
     "must be one of geometric:MEAN, logarithmic:MEAN"),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --tries negative-binomial:3',
     'negative-binomial:MEAN:SHAPE'),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --tries poisson:x',
     "--tries: must be a number or a fraction, got 'x'"),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --tries poisson:0', 'mean must be in'),
    ('certify --sigma 1 --rate .1 --steps 1 --delta .1 --tries poisson:3 --out a.json',
     "got 'Selected': its bounds are proved in doubles"),
])
def test_mistakes_of_words_are_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == '' and err.count('\n') == 1 and message in err

BUILT = [dict(mechanism='TruncatedPoisson', sigma=1., rate=.01, dataset_size=10**4,
              max_batch_size=150, count=1000)]
MOMENTS = [dict(mechanism='ZCDP', rho=.01, count=3),
           dict(mechanism='BoundedRange', eps=.2, shift=.1),
           dict(mechanism='ExponentialMechanism', eps=.1), dict(mechanism='Gaussian', sigma=3.)]

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('steps', [
    pytest.param(BUILT, marks=pytest.mark.slow, id='built'), pytest.param(MOMENTS, id='moments')])
def test_steps_that_are_built(tmp_path, steps):
    "The command serves what a file holds; what is not proved in balls is refused by name."
    (tmp_path/'run.json').write_text(json.dumps({'steps': steps}))
    run = ['--run', 'run.json', '--delta', '1e-5']
    answer = json.loads(dp_saddle('epsilon', *run, '--json', cwd=tmp_path).stdout)
    row, = answer['results']
    assert 0 < row['lower'] <= row['upper'] < 4
    assert answer['relation'] == neighbours(read_run(tmp_path/'run.json'))
    head = dp_saddle('epsilon', *run, cwd=tmp_path).stdout.splitlines()[0]
    assert head == f"run.json; {answer['relation']}; certified bounds"
    assert ('adding or removing' in head) == (steps is MOMENTS)
    for word in ('compare', 'report'):
        done = dp_saddle(word, *run, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout
    done = dp_saddle('certify', *run, '--out', 'a.json', cwd=tmp_path)
    assert done.returncode == 2*(steps is MOMENTS)
    assert (steps[0]['mechanism'] in done.stderr) == (steps is MOMENTS)

@pytest.mark.parametrize('bad, words', [
    (dict(BUILT[0], rate=0.), 'rate must be in'), (dict(BUILT[0], max_batch_size=0), 'max_batch'),
    ({k: v for k, v in BUILT[0].items() if k != 'rate'}, 'rate'),
    (dict(mechanism='ZCDP', rho=-1.), 'rho must be in'),
    (dict(mechanism='ZCDP', rho=1., rate=.1), 'base must be'),
    (dict(mechanism='TruncatedPoison', sigma=1.), "did you mean 'TruncatedPoisson'")])
def test_bad_steps(tmp_path, bad, words):
    (tmp_path/'run.json').write_text(json.dumps({'steps': [bad]}))
    done = dp_saddle('epsilon', '--run', 'run.json', '--delta', '1e-5', cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count('\n') == 1

def test_ctrl_c_is_quiet(monkeypatch, capsys):
    "The shell's own status, and not a word."
    def interrupted(*given, **named): raise KeyboardInterrupt
    monkeypatch.setattr('dp_saddle.engine.ways.ContourAccountant.epsilon', interrupted)
    args = ['epsilon', '--sigma', '2', '--rate', '.01', '--steps', '10', '--delta', '1e-5']
    assert main(args) == 130
    said = capsys.readouterr()
    assert said.out + said.err == ''

# A trainer's words

LOADER = {'noise_multiplier': 1.1, 'batch_size': 20, 'dataset_size': 200, 'epochs': 2}
WORDS = ['--noise-multiplier', '1.1', '--batch-size', '20', '--dataset-size', '2e2', '--epochs']
SAMPLINGS = ['poisson', 'balls-in-bins', 'shuffle', 'without-replacement', 'with-replacement',
             'none']

def read_back(answer, folder):
    "The run in what `--json` has printed."
    path = folder/'again.json'
    path.write_text(answer)
    return read_run(path)

@pytest.mark.parametrize('sampling', SAMPLINGS)
def test_words_are_those_of_dpsgd(sampling, tmp_path):
    "By the flags, by a file, by YAML, and by what was printed: one run."
    run = dpsgd(sigma=1.1, batch_size=20, dataset_size=200, epochs=2, sampling=sampling)
    expected = epsilon(run, delta=1e-5)
    flags = [*WORDS, '2', '--sampling', sampling, '--delta', '1e-5', '--json']
    said = dp_saddle('epsilon', *flags).stdout
    assert read_back(said, tmp_path) == run
    (tmp_path/'run.json').write_text(json.dumps({'dpsgd': {**LOADER, 'sampling': sampling}}))
    for file in ('run.json', 'again.json'):
        done = dp_saddle('epsilon', '--run', file, '--delta', '1e-5', '--json', cwd=tmp_path)
        answer = json.loads(done.stdout)
        assert answer['results'][0]['upper'] == expected
        assert answer['relation'] == run.relation and done.stderr == ''

def test_epochs_may_be_several():
    rows = json.loads(dp_saddle('epsilon', *WORDS, '1', '3/2', '--sampling', 'poisson', '--delta',
                                '1/1000', '--json').stdout)['results']
    assert [(row['steps'], row['delta']) for row in rows] == [(10, .001), (15, .001)]

@pytest.mark.parametrize('sampling', ['balls-in-bins', 'shuffle', 'none'])
def test_calibrate_in_words(sampling, tmp_path):
    "By any sampling; and what was found is a run."
    words = ['--batch-size', '20', '--dataset-size', '200', '--epochs', '2', '--sampling', sampling]
    said = dp_saddle('calibrate', *words, '--eps', '4', '--delta', '1e-5', '--json').stdout
    run, found = read_back(said, tmp_path), json.loads(said)
    assert run.sigma == found['value'] and run.sampling == sampling
    assert epsilon(run, delta=1e-5) == found['epsilon'] <= 4
    less = run_of(found['run']['dpsgd'] | {'sigma': found['value']*(1 - 1e-5)})
    assert epsilon(less, delta=1e-5) > 4

@pytest.mark.parametrize('find, given', [
    ('epochs', ['--batch-size', '20']), ('batch-size', ['--epochs', '2'])])
def test_calibrate_finds_epochs_and_batches(find, given):
    words = ['--sigma', '1.1', '--dataset-size', '200', '--sampling', 'poisson', *given]
    words += ['--find', find, '--eps', '6', '--delta', '1e-5', '--json']
    found = json.loads(dp_saddle('calibrate', *words).stdout)
    name = find.replace('-', '_')
    more = run_of(found['run']['dpsgd'] | {name: found['value'] + 1})
    assert found['epsilon'] <= 6 < epsilon(more, delta=1e-5) and isinstance(found['value'], int)

def zcdp_delta(rho, eps):
    "Canonne, Kamath and Steinke (2020), Proposition 12, at its best order."
    a = 1 + np.geomspace(1e-3, 1e3, 200_001)
    return np.exp(((a - 1)*(a*rho - eps) - np.log(a - 1) + a*np.log1p(-1/a)).min())

@pytest.mark.parametrize('rho, steps, eps', [(.1, 1, 2.), (.02, 9, 1.5), (1., 1, 8.)])
def test_zcdp_by_rho(rho, steps, eps):
    "delta at eps and back; at most the published conversion, and at least a Gaussian that is it."
    words = ['--rho', str(rho), '--steps', str(steps)]
    row, = json.loads(dp_saddle('delta', *words, '--eps', str(eps), '--json').stdout)['results']
    assert row['lower'] <= row['upper'] <= zcdp_delta(steps*rho, eps)*1.0001
    assert row['upper'] >= Gaussian(sigma=(2*steps*rho)**-.5).remove.delta(eps)*(1 - 1e-9)
    answer = dp_saddle('epsilon', *words, '--delta', repr(row['upper']), '--json').stdout
    assert json.loads(answer)['results'][0]['upper'] == pytest.approx(eps, rel=1e-9)
    assert json.loads(answer)['run'] == [{'mechanism': 'ZCDP', 'rho': rho, 'count': steps}]
    found = dp_saddle('calibrate', '--find', 'rho', '--steps', str(steps), '--eps', str(eps),
                      '--delta', repr(row['upper']), '--json').stdout
    assert json.loads(found)['value'] == pytest.approx(rho, rel=2e-6)

def test_one_zcdp_step_if_none_are_said():
    said = [dp_saddle('epsilon', '--rho', '1/8', *more, '--delta', '1e-6').stdout
            for more in ([], ['--steps', '1'])]
    assert said[0] == said[1] and 'zCDP steps of rho 0.125' in said[0]

STEPS = [{'mechanism': 'Laplace', 'scale': None, 'count': 3},
         {'dpsgd': {'sigma': 2, 'rate': .01, 'steps': 100}},
         {'mechanism': 'Laplace', 'scale': '?', 'sensitivity': 2}]

@pytest.mark.parametrize('find, form, finer', [
    ('scale', STEPS, 1 - 2e-6), ('eps', [{'mechanism': 'PureDP', 'eps': None}], 1 + 2e-6),
    ('sigma', [{'dpsgd': {'sigma': None, 'rate': .01, 'steps': 100}}], 1 - 2e-6),
    ('count', [{'mechanism': 'Gaussian', 'sigma': 9, 'count': '?'}], None)])
def test_calibrate_what_a_file_leaves_open(find, form, finer, tmp_path):
    "In every place the same; and rounded, as it is printed, it meets the target."
    (tmp_path/'open.json').write_text(json.dumps(form))
    words = ['calibrate', '--run', 'open.json', '--find', find, '--eps', '2', '--delta', '1e-6']
    found = json.loads(dp_saddle(*words, '--json', cwd=tmp_path).stdout)
    def run(value):
        text = json.dumps(form).replace('null', repr(value)).replace('"?"', repr(value))
        (tmp_path/'said.json').write_text(text)
        return read_run(tmp_path/'said.json')
    assert epsilon(run(found['value']), delta=1e-6) == found['epsilon'] <= 2
    more = found['value']*finer if finer else found['value'] + 1
    assert epsilon(run(more), delta=1e-6) > 2
    name, printed, *how = dp_saddle(*words, cwd=tmp_path).stdout.split(':')[0].split(maxsplit=2)
    assert name == find and how[0].strip('()') == {'scale': 'rounded up', 'sigma':
        'rounded up', 'eps': 'rounded down', 'count': 'the last whole number that meets it'}[find]
    assert epsilon(run(json.loads(printed)), delta=1e-6) <= 2

def test_calibrate_a_data_set_and_the_records_of_a_user():
    words = ['--batch-size', '20', '--steps', '30', '--sampling', 'poisson', '--sigma', '1.5',
             '--delta', '1e-5', '--json']
    for find, less, eps, more in (('dataset-size', -1, 1., []),
                                  ('unit-records', 1, 3., ['--dataset-size', '1000'])):
        done = dp_saddle('calibrate', '--find', find, *words, *more, '--eps', str(eps))
        found, name = json.loads(done.stdout), find.replace('-', '_')
        next_one = run_of(found['run']['dpsgd'] | {name: found['value'] + less})
        assert found['epsilon'] <= eps < epsilon(next_one, delta=1e-5)

@pytest.fixture
def coarse(monkeypatch):
    "Fewer points of the curves of cohorts: the bounds hold, and are wider."
    monkeypatch.setattr('dp_saddle.sampling.two_level._PER_FALL', 8)

def test_compare_sampling_takes_the_same_words(coarse, monkeypatch):
    monkeypatch.setattr('dp_saddle.practice.compare_sampling', once_each(compare_sampling))
    first = dp_saddle('compare-sampling', '--noise-multiplier', '11/10', *WORDS[2:], '2', '--delta',
                      '1/100000', '--json').stdout
    other = dp_saddle('compare-sampling', '--sigma', '1.1', *WORDS[2:-1], '--steps', '2e1',
                      '--delta', '1e-5', '--json').stdout
    assert json.loads(first)['results'] and json.loads(first) == json.loads(other)

# What is printed is read back

BACK = {
    'steps': 1000*S(2., .01) + 10*Laplace(scale=20.),
    'search': selected(30*S(2., .01), tries=Geometric(mean=4.)),
    'cut': 3*FLAGS['cut'][1].mechanism,
}

@pytest.mark.parametrize('run', BACK.values(), ids=BACK)
def test_what_to_steps_makes_is_a_file(run, tmp_path):
    "The bare list, and what the command prints of it."
    (tmp_path/'run.json').write_text(json.dumps(to_steps(run)))
    said = dp_saddle('delta', '--run', 'run.json', '--eps', '1', '--json', cwd=tmp_path).stdout
    assert read_run(tmp_path/'run.json') == read_back(said, tmp_path)
    assert to_steps(read_back(said, tmp_path)) == to_steps(run)

@pytest.mark.parametrize('flags', [flags for flags, _ in FLAGS.values()], ids=FLAGS)
def test_flags_are_read_back(flags, tmp_path):
    words = [*SHORT, *flags, '--delta', '1e-5', '--json']
    said = dp_saddle('epsilon', *words).stdout
    run = read_back(said, tmp_path)
    assert epsilon(run, delta=1e-5) == json.loads(said)['results'][0]['upper']
    again = dp_saddle('epsilon', '--run', 'again.json', '--delta', '1e-5', '--json', cwd=tmp_path)
    assert json.loads(again.stdout) == json.loads(said)

def test_a_changed_relation_is_refused(tmp_path):
    said = json.loads(dp_saddle('epsilon', *WORDS, '1', '--sampling', 'shuffle', '--delta', '1e-5',
                                '--json').stdout)
    said['run']['dpsgd']['sampling'] = 'poisson'
    (tmp_path/'run.json').write_text(json.dumps(said))
    done = dp_saddle('epsilon', '--run', 'run.json', '--delta', '1e-5', cwd=tmp_path)
    assert done.returncode == 2 and 'relation must be' in done.stderr

@pytest.mark.parametrize('data, message', [
    ({'dpsgd': {**LOADER, 'samplings': 'none'}}, "did you mean 'sampling'?"),
    ({'dpsgd': {**LOADER, 'sampling': 'poison'}}, "did you mean 'poisson'?"),
    ({'dpsgd': LOADER}, 'sampling is needed'),
    ({'dpsdg': LOADER}, "did you mean 'dpsgd'?"),
    ({'dpsgd': {**LOADER, 'sigma': 1}}, 'sigma is given twice'),
    ({'dpsgd': {'sigma': '1,5', 'rate': .1, 'steps': 1}}, 'sigma must be a number'),
    ({'dpsgd': {'sigma': 1.5, 'rate': .1, 'steps': 1.5}}, 'steps must be an integer'),
    ({'dpsgd': {'sigma': None}}, 'sigma is needed'), ({'dpsgd': 3}, 'a mapping of words'),
    ([{'dpsgd': {'sigma': 1, 'rate': .1, 'steps': 1}, 'counts': 2}], "did you mean 'count'?"),
    ([{'mechanism': 'Gaussian', 'sigma': 1}, {'mechanism': 'Gaussian', 'sigm': 1}], 'of step 1'),
    ({'dpsgd': {'sigma': [1, 2], 'rate': .1, 'steps': 1}}, 'sigma must be one value here'),
])
def test_files_with_mistakes(tmp_path, data, message):
    (tmp_path/'run.json').write_text(json.dumps(data))
    done = dp_saddle('epsilon', '--run', 'run.json', '--delta', '1e-5', cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ''
    assert done.stderr.count('\n') == 1 and message in done.stderr, done.stderr

def test_the_file_in_the_help_is_a_run(tmp_path):
    pytest.importorskip('yaml')
    for words in (['--help'], ['epsilon', '--help']):
        shown = dp_saddle(*words).stdout.partition('dpsgd:')[2].partition('dp-saddle COMMAND')[0]
        (tmp_path/'run.yaml').write_text('dpsgd:' + '\n'.join(
            line for line in shown.splitlines()))
        sizes = dict(batch_size=256, dataset_size=60_000, epochs=60)
        expected = dpsgd(sigma=1.1, **sizes, sampling='poisson')
        assert read_run(tmp_path/'run.yaml') == expected

# Trade-off, sweep, budget, audit

def test_tradeoff_is_that_of_the_library(tmp_path):
    words = ['tradeoff', *SHORT, '--fpr', '1/1000', '.2', '--json']
    said = json.loads(dp_saddle(*words, '--out', 'f.png', cwd=tmp_path).stdout)
    fpr = [.001, .2]
    assert [row['fpr'] for row in said['results']] == fpr
    assert [row['fnr'] for row in said['results']] == tradeoff(300*S(2., .01), fpr=fpr).tolist()
    assert [row['tpr'] for row in said['results']] == tpr(300*S(2., .01), fpr=fpr).tolist()
    assert (tmp_path/'f.png').read_bytes()[:4] == b'\x89PNG'
    said = json.loads(dp_saddle(*words, '--direction', 'add').stdout)
    missed = tradeoff(300*S(2., .01), fpr=fpr, direction='add').tolist()
    assert [row['fnr'] for row in said['results']] == missed
    for row in said['results']:
        assert row['fnr'] + row['tpr'] == pytest.approx(1, abs=1e-15)
    shown = dp_saddle('tradeoff', *SHORT, '--fpr', '.2').stdout.split()[-2:]
    exact = tradeoff(300*S(2., .01), fpr=.2)
    assert float(shown[0]) <= exact and tpr(300*S(2., .01), fpr=.2) <= float(shown[1])

def test_sweep_in_three_forms(tmp_path):
    words = ['sweep', '--sigma', '1', '2', '--rate', '.01', '.02', '--steps', '1e2', '--delta',
             '1e-5', '1e-6']
    said = json.loads(dp_saddle(*words, '--json', '--out', 'h.svg', cwd=tmp_path).stdout)
    columns = said['columns']
    assert said['shape'] == [2, 2, 1, 2] and len(columns['epsilon']) == 8
    for sigma, rate, delta, eps in zip(columns['sigma'], columns['rate'], columns['delta'],
                                       columns['epsilon'], strict=True):
        assert eps == pytest.approx(epsilon(100*S(sigma, rate), delta=delta), rel=1e-9)
    assert (tmp_path/'h.svg').stat().st_size > 5000
    lines = dp_saddle(*words, '--csv').stdout.splitlines()
    assert lines[0] == 'sigma,rate,steps,delta,epsilon'
    assert [float(line.split(',')[-1]) for line in lines[1:]] == columns['epsilon']
    shown = dp_saddle(*words).stdout.splitlines()[2:]
    up = [float(line.split()[-1]) for line in shown]
    assert all(a >= b for a, b in zip(up, columns['epsilon'], strict=True))

def test_sweep_in_words():
    said = json.loads(dp_saddle('sweep', *WORDS, '1', '2', '--sampling', 'shuffle', '--delta',
                                '1e-5', '--json').stdout)
    for epochs, eps in zip(said['columns']['epochs'], said['columns']['epsilon'], strict=True):
        run = dpsgd(sigma=1.1, batch_size=20, dataset_size=200, epochs=epochs, sampling='shuffle')
        assert eps == epsilon(run, delta=1e-5) and said['relation'] == run.relation

def ledger(folder, *words):
    done = dp_saddle('budget', words[0], 'l.json', *words[1:], '--json', cwd=folder)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

def test_a_budget_in_a_file(tmp_path):
    "Paid until nothing fits; the file is the library's own, and each state is whole."
    assert ledger(tmp_path, 'new', '--eps', '1', '--delta', '1e-5')[1]['spent'] == 0
    status, said = ledger(tmp_path, 'spend', *SHORT)
    assert (status, said['fits'], said['steps']) == (0, True, 300)
    assert said['spent'] == epsilon(300*S(2., .01), delta=1e-5)
    more = ledger(tmp_path, 'left', '--sigma', '2', '--rate', '.01')[1]['more']
    for steps, fits in ((more + 1, False), (more, True), (1, False)):
        words = ['--sigma', '2', '--rate', '.01', '--steps', str(steps)]
        status, said = ledger(tmp_path, 'spend', *words)
        assert (status, said['fits']) == (int(not fits), fits)
    there = Budget(eps=1., delta=1e-5).load(tmp_path/'l.json')
    assert there.steps == 300 + more and there.spent == said['spent'] <= 1
    assert epsilon((301 + more)*S(2., .01), delta=1e-5) > 1
    assert [path.name for path in tmp_path.iterdir()] == ['l.json']         # nothing beside it

def test_a_budget_of_several_kinds(tmp_path):
    ledger(tmp_path, 'new', '--eps', '2', '--delta', '1e-5')
    (tmp_path/'run.json').write_text(json.dumps(to_steps(Laplace(scale=20.))))
    assert ledger(tmp_path, 'spend', '--run', 'run.json')[0] == 0
    bins = [*WORDS[2:], '1', '--sampling', 'balls-in-bins', '--sigma', '3']
    assert ledger(tmp_path, 'spend', *bins)[0] == 0
    run = Laplace(scale=20.) + dpsgd(sigma=3., batch_size=20, dataset_size=200, epochs=1,
                                     sampling='balls-in-bins').mechanism
    assert ledger(tmp_path, 'show')[1]['spent'] == epsilon(run, delta=1e-5)

def test_two_commands_at_once_pay_both(tmp_path):
    "One waits for the other: nothing is spent twice, and nothing is lost."
    ledger(tmp_path, 'new', '--eps', '9', '--delta', '1e-5')
    words = [COMMAND, 'budget', 'spend', 'l.json', '--sigma', '2', '--rate', '.01', '--steps', '7']
    both = [subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [one.wait() for one in both] == [0, 0, 0]
    assert ledger(tmp_path, 'show')[1]['steps'] == 21

@pytest.mark.parametrize('words, message', [
    (['new', '--eps', '1', '--delta', '.1'], 'is there already'), (['spend'], '--sigma is needed'),
    (['spend', *SHORT, '--eps', '1'], 'for a new ledger'), (['show', *SHORT], 'takes no run'),
    (['spend', '--sigma', '1', '--rate', '.1', '--steps', '0'], 'must be at least 1'),
    (['spend', *WORDS, '1', '--sampling', 'shuffle'], 'the ledger keeps steps'),
    (['spend', *WORDS, '1', '--sampling', 'poisson', '--relation', 'replace-one'],
     'must be for the neighbours of the ledger'),
    (['pay', *SHORT], "must be one of new, spend, left, show"),
])
def test_mistakes_with_a_budget(tmp_path, words, message):
    budget = Budget(eps=1., delta=1e-5)
    budget.spend(S(2., .01))
    budget.save(tmp_path/'l.json')
    before = (tmp_path/'l.json').read_bytes()
    status, said = ledger(tmp_path, *words)
    assert status == 2 and message in said and said.count('\n') == 1
    assert (tmp_path/'l.json').read_bytes() == before

@pytest.mark.parametrize('text', ['', '{}', '[1]', '{"eps": 1, "delta": 0.1}', '{"eps": "x"}',
                                  '{"eps": -1, "delta": 0.1}'])
def test_what_is_no_ledger(tmp_path, text):
    (tmp_path/'l.json').write_text(text)
    status, said = ledger(tmp_path, 'show')
    assert status == 2 and said.count('\n') == 1

def scores(folder, ending):
    rng = np.random.default_rng(1)
    made = {'in': rng.normal(1, 1, 3000), 'out': rng.normal(0, 1, 3000)}
    for name, values in made.items():
        path = folder/f'{name}.{ending}'
        if ending == 'npy': np.save(path, values)
        elif ending == 'csv': path.write_text('score\n' + '\n'.join(map(repr, values.tolist())))
        else: path.write_text('# of an attack\n' + ' '.join(map(repr, values.tolist())))
    return made

@pytest.mark.parametrize('ending', ['txt', 'csv', 'npy'])
@pytest.mark.parametrize('method', ['threshold', 'curve', 'gdp', 'one-run'])
def test_audit_is_that_of_the_library(tmp_path, ending, method):
    made = scores(tmp_path, ending)
    files = ['--in', f'in.{ending}', '--out', f'out.{ending}', '--rate', '1', '--steps', '1']
    words = [*files, '--delta', '1e-5', '--method', method, '--confidence', '9/10', '--seed', '3']
    done = dp_saddle('audit', *words, '--sigma', '1', '--json', cwd=tmp_path)
    said = json.loads(done.stdout)
    ours = audit(Gaussian(sigma=1.), made['in'], made['out'], delta=1e-5, method=method,
                 confidence=.9, seed=3)
    assert done.returncode == 0 and said['passed'] and said['scores'] == [3000, 3000]
    assert (said['eps_lower'], said['eps_upper']) == (ours.eps_lower, ours.eps_upper)
    done = dp_saddle('audit', *words, '--sigma', '20', cwd=tmp_path)    # noise that was not there
    assert done.returncode == 1 and 'CONTRADICTED' in done.stdout

@pytest.mark.parametrize('text, message', [
    ('1 2\n3 x', 'line 2 must hold numbers'), ('', 'vector of 2 scores'), ('1\nnan', 'scores_out')])
def test_scores_with_mistakes(tmp_path, text, message):
    (tmp_path/'in.txt').write_text('1 2 3')
    (tmp_path/'out.txt').write_text(text)
    done = dp_saddle('audit', '--in', 'in.txt', '--out', 'out.txt', '--sigma', '1', '--rate', '1',
                     '--steps', '1', '--delta', '.1', cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count('\n') == 1

# What is documented

CALLS = {
    'epsilon': f'{" ".join(SHORT)} --delta 1e-5', 'delta': f'{" ".join(SHORT)} --eps 1',
    'calibrate': '--rate 1 --steps 4 --eps 1 --delta 1e-5',
    'sweep': f'{" ".join(SHORT)} --delta 1e-5', 'curve': f'{" ".join(SHORT)} --out c.png',
    'tradeoff': f'{" ".join(SHORT)} --out t.png',
    'compare': '--sigma 2 --rate 1 --steps 1 --delta 1e-5',
    'explain': f'{" ".join(SHORT)} --delta 1e-5',
    'compare-sampling': f'{" ".join(WORDS)} 1 --delta 1e-5',
    'report': f'{" ".join(SHORT)} --delta 1e-5',
    'certify': f'{" ".join(SHORT)} --delta 1e-5 --out a.cert.json', 'verify': 'a.cert.json',
    'budget': 'new l.json --eps 1 --delta 1e-5',
    'audit': f'--in in.txt --out out.txt {" ".join(SHORT)} --delta 1e-5'}

def test_the_keys_of_json_are_those_documented(tmp_path, coarse):
    "Of each command, and of each row; and --help names them all, and every exit status."
    assert list(CALLS) and set(CALLS) == set(COMMANDS) == set(KEYS)
    scores(tmp_path, 'txt')
    for name, words in CALLS.items():
        done = dp_saddle(name, *words.split(), '--json', cwd=tmp_path)
        answer, (keys, rows) = json.loads(done.stdout), KEYS[name]
        assert list(answer) == keys, name
        for row in answer['results'] if rows else []: assert list(row) == rows, name
        shown = dp_saddle(name, '--help').stdout
        for key in [*keys, *(f'results[].{row}' for row in rows)]: assert f'  {key}: ' in shown
        for status in STATUS: assert f'  {status}: ' in shown

@pytest.mark.parametrize('name', EXAMPLES)
def test_examples_are_understood(name):
    "Those of --help: the parser takes them, and README says the same words."
    args = vars(command_parser().parse_args([name, *EXAMPLES[name].split()]))
    assert args['command'] == name
    assert f'dp-saddle {name} {EXAMPLES[name].split()[0]}' in dp_saddle(name, '--help').stdout

def test_the_page_of_commands_names_every_option():
    text = page.page()
    parts = dict(zip(re.findall(r'^## (.*)', text, re.M), re.split(r'^## .*', text, flags=re.M)[1:],
                     strict=True))
    assert list(parts) == list(command_parser().commands)
    for name, command in command_parser().commands.items():
        for names, _ in command.options:
            shown = [f'`{one}`' in parts[name] for one in names]
            assert all(shown) or '--help' in names, (name, names)
        for key in KEYS.get(name, [[]])[0]: assert f'`{key}`' in parts[name]
        typed = ' '.join(parts[name].replace('\\\n', ' ').split())       # lines are broken
        if name in EXAMPLES: assert f'$ dp-saddle {name} {EXAMPLES[name]}' in typed
    for status in STATUS: assert f'| {status} |' in text
    assert '–' not in text and len(parts) == len(COMMANDS) + 1

# What was meant

@pytest.mark.parametrize('words, message', [
    ('epsilom --sigma 1', "did you mean 'epsilon'?"),
    ('trade-off --sigma 1', "did you mean 'tradeoff'?"),
    ('epsilon --batchsize 3', 'did you mean --batch-size?'),
    ('epsilon --noise_multiplier 3', 'did you mean --noise-multiplier?'),
    ('epsilon --sampling poison', "did you mean 'poisson'?"),
    ('calibrate --find sigmas --eps 1 --delta .1', "did you mean 'sigma'?"),
    ('epsilon --relation replace_one', "did you mean 'replace-one'?"),
    ('--sigma 1 epsilon', 'the command comes first'),
    ('epsilon --sigma 1 --sigma 2 --delta .1', '--sigma is given twice'),
    ('epsilon --sigma 1 --noise-multiplier 2 --delta .1', 'given twice: --sigma'),
    ('epsilon --steps 500,1000 --delta .1', "got '500,1000'"),
    ('epsilon --rate 0.4% --delta .1', "got '0.4%'"),
    ('epsilon --sigma 1 --rate .1 --epochs 3 --delta .1', 'with --rate say --steps'),
    ('epsilon --sigma 1 --rate .1 --batch-size 3 --delta .1', '--rate follows from'),
    ('epsilon --sigma 1 --rate .1 --steps 1 --sampling shuffle --delta .1',
     '--batch-size is needed with --sampling shuffle'),
    ('report --sigma 1 --batch-size 5 --dataset-size 9 --epochs 1 --delta .1',
     '--sampling is needed'),
    ('certify --run a.json --eps 1 --out b.json', 'No such file'),
    ('tradeoff --sigma 1 --rate .1 --steps 1 --fpr 2', 'fpr must be in [0, 1]'),
    ('tradeoff --sigma 1 --rate .1 --steps 1 --direction up', 'must be one of remove, add'),
    ('sweep --sigma 1 --rate .1 --delta .1', '--steps is needed'),
    ('sweep --sigma 1 -1 --rate .1 --steps 1 --delta .1', 'sigma'),
    ('sweep --sigma 1 2 --rate .1 --steps 1 --delta .1 --up sigma --across sigma --out a.png',
     'y must be another parameter'),
    ('compare-sampling --sigma 1 --batch-size 5 --dataset-size 9 --delta .1',
     'either --epochs or --steps'),
    ('calibrate --rate .1 --steps 5 --find steps --eps 1 --delta .1', '--steps is what is to be'),
    ('calibrate --rate .1 --find steps --eps 1 --delta .1', '--sigma is needed to find steps'),
    ('calibrate --find rho --rho 1 --eps 1 --delta .1', '--rho is what is to be found'),
    ('calibrate --find scale --eps 1 --delta .1', '--find must be one of sigma, steps'),
    ('epsilon --rho 1 --sigma 2 --delta .1', '--rho goes with --steps alone: --sigma'),
    ('epsilon --rho 1 --steps 2 3 --delta .1', '--steps must be one value with --rho, got [2, 3]'),
    ('epsilon --rho 1 --run a.json --delta .1', '--rho does not go with --run'),
    ('epsilon --rho -1 --delta .1', 'rho must be in (0, inf), got -1'),
    ('audit --in a.txt --out b.txt --sigma 1 --rate 1 --steps 1 --delta .1', 'No such file'),
    ('budget show l.txt', 'suffix of the ledger'), ('budget show l.json', 'budget new'),
    ('budget new a/b/l.json --eps 1 --delta .1', 'no folder'),
])
def test_what_was_meant(words, message, tmp_path):
    done = dp_saddle(*words.split(), cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == '' and message in done.stderr, done.stderr
    assert done.stderr.count('\n') == 1

def test_what_no_step_leaves_open(tmp_path):
    (tmp_path/'a.json').write_text('[{"mechanism": "Laplace", "scale": 2}]')
    words = ['calibrate', '--run', 'a.json', '--eps', '1', '--delta', '.1', '--find']
    done = dp_saddle(*words, 'scale', cwd=tmp_path)
    assert done.returncode == 2 and 'no step leaves scale open' in done.stderr
    (tmp_path/'a.json').write_text('{"dpsgd": {"sigma": 1, "rate": 1, "steps": 1}}')
    done = dp_saddle(*words, 'scale', cwd=tmp_path)
    assert done.returncode == 2 and '--find must be one of sigma' in done.stderr

def test_numbers_are_exact():
    "A fraction is the double nearest to it, in every option that takes a number."
    words = 'epsilon --sigma 11/10 --rate 512/60000 --steps 1e3 --delta 1/60000 --json'.split()
    row, = json.loads(dp_saddle(*words).stdout)['results']
    assert row['delta'] == 1/60000
    assert row['upper'] == epsilon(1000*S(1.1, 512/60000), delta=1/60000)
    assert '1.6666666666666667e-05' in dp_saddle(*words[:-1]).stdout    # none other is claimed
    words = 'delta --sigma 2 --rate 1e-2 --steps 10 --epsilon 1/3 --json'.split()
    assert json.loads(dp_saddle(*words).stdout)['results'][0]['eps'] == 1/3

def test_help_says_that_a_rate_is_not_how_batches_are_drawn():
    said = ' '.join(dp_saddle('--help').stdout.split())
    assert 'A loader that shuffles draws no Poisson samples' in said
    assert 'poisson_sampling=False): say --sampling shuffle, or see compare-sampling' in said
    assert 'Two rates, of clients and of batches inside a round, are not to be multiplied' in said

def test_help_by_its_name():
    assert dp_saddle('help').stdout == dp_saddle('--help').stdout
    assert dp_saddle('help', 'audit').stdout == dp_saddle('audit', '--help').stdout

# Long work, and quick starts

class Terminal(io.StringIO):
    def isatty(self):
        return True

@pytest.mark.parametrize('file, seen', [(Terminal, True), (io.StringIO, False)])
def test_progress_on_a_terminal_alone(file, seen, monkeypatch):
    "After a second a line on stderr, gone at the end; nothing where nobody looks."
    epsilon_of, now = ContourAccountant.epsilon, [0.]
    monkeypatch.setattr('dp_saddle.base.progress.monotonic', lambda: now[0])
    def slow(*given, **named):
        now[0] += .7
        return epsilon_of(*given, **named)
    monkeypatch.setattr('dp_saddle.engine.ways.ContourAccountant.epsilon', slow)
    out, err = io.StringIO(), file()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(['epsilon', *SHORT, '--delta', '.1', '.2', '.3']) == 0
    said = err.getvalue()
    assert ('epsilon 2 of 3' in said, said.endswith('\r')) == (seen, seen)
    assert len(out.getvalue().splitlines()) == 5 and (seen or said == '')

def test_a_second_is_not_spoken_of():
    err = Terminal()
    with redirect_stdout(io.StringIO()), redirect_stderr(err):
        main(['epsilon', *SHORT, '--delta', '1e-5'])
    assert err.getvalue() == ''

def test_one_question_loads_little():
    "Neither pictures nor ledgers, neither attacks nor searches, neither schedules nor reports."
    code = ('import sys; from dp_saddle.command.main import main; '
            f'main({["epsilon", *SHORT, "--delta", "1e-5"]!r}); '
            'print(*sorted(name for name in sys.modules if name.startswith("dp_saddle."))); '
            'print("scipy.linalg" in sys.modules)')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    *_, loaded, algebra = done.stdout.splitlines()
    loads = 'import sys, scipy.special; print("scipy.linalg" in sys.modules)'
    alone = subprocess.run([sys.executable, '-c', loads], capture_output=True, text=True).stdout
    assert algebra == alone.strip()             # early SciPy needs it for its special functions
    loaded = {name.rpartition('.')[2] for name in loaded.split()}
    assert 'accounting' in loaded and not loaded & {
        'attacks', 'audits', 'bins', 'calibration', 'certificates',
        'ledgers', 'edgeworth', 'pictures', 'reports', 'samplers', 'sampling',
        'schedules', 'selection', 'sweeps', 'tilted_fft'}

@pytest.mark.parametrize('form, said', [('latex', '$'), ('huggingface', ':'), ('markdown', '**')])
def test_reports_in_every_form(form, said):
    words = ['report', *SHORT, '--delta', '1e-5', '--form', form, '--tuning', 'none']
    shown = dp_saddle(*words).stdout
    assert said in shown
    assert shown.strip() == report(300*S(2., .01), delta=1e-5, form=form, tuning='none').strip()

@pytest.mark.parametrize('words, said', [
    (['--tuning', 'private'], '--tuning private is for a run with a private search: say --tries'),
    (['--tuning', 'none', '--tries', 'geometric:10'], '--tuning none is for a run without')])
def test_a_tuning_that_contradicts_the_run(words, said):
    failed = dp_saddle('report', *SHORT, '--delta', '1e-5', *words)
    assert failed.returncode == 2 and said in failed.stderr and 'selected(' not in failed.stderr

def test_yaml_is_read_as_the_command_line_reads_it(tmp_path):
    path = tmp_path/'run.yaml'
    path.write_text('- {mechanism: Gaussian, sigma: 2e0, rate: 512/60000, count: 1e4}\n'
                    '- {mechanism: Laplace, scale: 2e1}\n'
                    '- {mechanism: Selected, run: [{mechanism: Gaussian, sigma: 1e2}], '
                    'tries: {law: Geometric, mean: 1e1}, count: 1e0}\n'
                    '- {dpsgd: {sigma: 11e-1, rate: 1e-2, steps: 1e2}, count: 3e0}\n')
    best = selected(Gaussian(sigma=100.), tries=Geometric(mean=10))
    whole = 10**4*S(2., 512/60000) + Laplace(scale=20.) + best + 300*S(1.1, .01)
    assert read_run(path) == whole
    for wrong, said in (('rate: 1e1', 'rate must be in'), ('rate: 1e-x', "'1e-x'"),
                        ('count: 15e-1', 'count must be an integer'), ('rate: 1/0', "'1/0'")):
        path.write_text('- {mechanism: Gaussian, sigma: 2, ' + wrong + '}')
        with pytest.raises(ValueError, match=f'step 0.*{said}'): read_run(path)

def windows(monkeypatch, locking):
    "No fcntl, and an msvcrt with this `locking`."
    monkeypatch.setitem(sys.modules, 'fcntl', None)
    fake = locking and SimpleNamespace(locking=locking, LK_LOCK=1, LK_UNLCK=0)
    monkeypatch.setitem(sys.modules, 'msvcrt', fake)

def test_ledgers_are_locked_without_fcntl(tmp_path, monkeypatch):
    calls = []
    def locking(file, mode, size):
        calls.append((os.lseek(file, 0, os.SEEK_CUR), mode, size))
        os.write(file, b'.')                                    # the place is not kept
    windows(monkeypatch, locking)
    def budget(action, *words): return dp_saddle('budget', action, 'l.json', *words, cwd=tmp_path)
    assert budget('new', '--eps', '3', '--delta', '1e-5').returncode == 0
    assert budget('spend', *SHORT).returncode == 0 and (tmp_path/'l.json.lock').exists()
    assert budget('spend', '--sigma', '1', '--rate', '1', '--steps', '1e6').returncode == 1
    assert calls == [(0, 1, 1), (0, 0, 1)]*3                    # its first byte, each time

def test_a_ledger_in_use_is_left_alone(tmp_path, monkeypatch):
    def budget(action, *words): return dp_saddle('budget', action, 'l.json', *words, cwd=tmp_path)
    budget('new', '--eps', '3', '--delta', '1e-5')
    before = (tmp_path/'l.json').read_bytes()
    def busy(*_): raise OSError(36, 'Resource deadlock avoided')
    windows(monkeypatch, busy)
    done = budget('spend', *SHORT)
    assert done.returncode == 2 and 'must be free' in done.stderr
    assert (tmp_path/'l.json').read_bytes() == before
    windows(monkeypatch, None)                                  # a browser: one process
    assert budget('spend', *SHORT).returncode == 0

def cpu(words, env):
    "Seconds of CPU of a process."
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

@pytest.mark.slow
def test_one_question_is_quick(tmp_path):
    "Within 1.5 times of what numpy and scipy.special take to be imported; compiled, both of them."
    env = os.environ | dict(PYTHONPYCACHEPREFIX=str(tmp_path))
    env.pop('PYTHONDONTWRITEBYTECODE', None)
    least = [sys.executable, '-c', 'import numpy, scipy.special']
    question = [COMMAND, 'epsilon', *RUN, '--delta', '1e-5']
    bare = [sys.executable, '-c', 'import numpy, scipy.special, dp_saddle']
    took = np.array([[cpu(words, env) for words in (least, question, bare)] for _ in range(16)])
    of_least, of_question, of_bare = np.median(took[1:], axis=0)      # the first one compiles
    assert of_question < 1.5*of_least and of_bare < 1.15*of_least, took
