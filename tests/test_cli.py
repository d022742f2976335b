"Chapter 06e, the command: the installed `dp-saddle` as typed, and what `main` answers to words."
import io
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from dp_saddle import (
    Gaussian,
    Geometric,
    Laplace,
    PoissonSubsampled,
    TruncatedNegativeBinomial,
    certify,
    dpsgd,
    epsilon,
    load_certificate,
    read_run,
    report,
    selected,
    to_steps,
)
from dp_saddle.cli import main
from dp_saddle.reports import neighbours

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

README = (Path(__file__).parent.parent/'README.md').read_text()
SHOWN = re.findall(r'^\$ (dp-saddle .*)\n((?:(?!\$ |```).*\n)*)', README, re.M)

def test_the_first_example_of_the_readme_is_the_command():
    assert re.search(r'```(\w+)\n\$ (\S+)', README).groups() == ('console', 'dp-saddle')
    assert README.index('```console') == README.index('```')

@pytest.mark.parametrize('line, shown', SHOWN)
def test_readme_prints_what_it_says(line, shown):
    said, done = shown.split(), typed(*shlex.split(line)[1:]).stdout.split()
    assert said and len(said) == len(done)
    for a, b in zip(said, done, strict=True):
        same = a == b or float(a.rstrip(':')) == pytest.approx(float(b.rstrip(':')), rel=1e-6)
        assert same                                                      # calibrated to 1e-6

@pytest.mark.parametrize('line', re.findall(r'^(dp-saddle .*)', README, re.M))
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
    assert epsilon(1000*S(out['sigma'], .01), delta=1e-5) == out['epsilon'] <= 1
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
    again = ['--sigma', repr(out['sigma']), '--rate', '.01', '--steps', '300']
    there = dp_saddle('epsilon', *again, '--delta', '1e-5', '--json', *FLAGS[name][0]).stdout
    assert json.loads(there)['results'][0]['upper'] == out['epsilon'] <= 2
    assert out['relation'] == neighbours(FLAGS[name][1])

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
    path.write_text(path.read_text().replace('"sigma": 2.0', '"sigma": 1.9'))
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
    monkeypatch.setattr('dp_saddle.verification.arb', None)
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
    ('epsilon --sigma 1 --rate 1 --steps 1 --delta 0', 'delta must be in (0, 1)'),
    ('epsilon --sigma 1 --rate 1 --steps 1 --delta 1', 'delta'),
    ('delta --sigma 1 --rate 1 --steps 1 --eps -1', 'eps must be in [0, inf)'),
    ('delta --sigma 1 --rate 1 --steps 1 --eps inf', 'eps'),
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
    done = typed('epsilon', *RUN, '--delta', '0')
    assert done.returncode == 2 and done.stdout == '' and done.stderr.count('\n') == 1

@pytest.mark.parametrize('words, message', [
    ('calibrate --rate .01 --eps 1 --delta 1e-5', '--steps is needed'),
    ('calibrate --rate .01 --steps 5 --sigma 1 --eps 1 --delta 1e-5',
     '--sigma is what is to be found'),
    ('epsilon --delta 1e-5', '--sigma is needed'),
    ('epsilon --run no.json --delta 1e-5', 'no.json'),
    ('epsilon --run a.txt --delta 1e-5', 'suffix'),
    ('epsilon --run a.json --sigma 1 --delta 1e-5', '--sigma does not go with it'),
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
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --tries poisson:x', 'argument --tries'),
    ('epsilon --sigma 1 --rate .1 --steps 1 --delta .1 --tries poisson:0', 'mean must be in'),
    ('epsilon --run a.json --delta 1e-5 --tries poisson:3', '--tries does not go with it'),
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
    monkeypatch.setattr('dp_saddle.certified.ContourAccountant.epsilon', interrupted)
    args = ['epsilon', '--sigma', '2', '--rate', '.01', '--steps', '10', '--delta', '1e-5']
    assert main(args) == 130
    said = capsys.readouterr()
    assert said.out + said.err == ''
