"The installed `dp-saddle` command, as typed."
import json, os, re, shlex, subprocess, sys
from pathlib import Path
import pytest

def dp_saddle(*words, **kw):
    return subprocess.run([os.path.join(os.path.dirname(sys.executable), 'dp-saddle'), *words], capture_output=True, text=True, **kw)

RUN = ['--sigma', '2', '--rate', '0.01', '--steps', '3000']

README = (Path(__file__).parent.parent/'README.md').read_text()

def test_the_first_example_of_the_readme_is_the_command(): assert re.search(r'```(\w+)\n\$ (\S+)', README).groups() == ('console', 'dp-saddle') and README.index('```console') == README.index('```')

@pytest.mark.parametrize('line, shown', re.findall(r'^\$ (dp-saddle .*)\n((?:(?!\$ |```).*\n)*)', README, re.M))
def test_readme_prints_what_it_says(line, shown):
    said, done = shown.split(), dp_saddle(*shlex.split(line)[1:]).stdout.split()
    assert said and len(said) == len(done)
    for a, b in zip(said, done): assert a == b or float(a.rstrip(':')) == pytest.approx(float(b.rstrip(':')), rel=1e-6)    # calibrated to 1e-6

@pytest.mark.parametrize('line', re.findall(r'^(dp-saddle .*)', README, re.M))
def test_readme_commands_work(line, tmp_path): assert dp_saddle(*shlex.split(line)[1:], cwd=tmp_path).returncode == 0

def test_epsilon_and_delta():
    done = dp_saddle('epsilon', *RUN, '--delta', '1e-15')
    assert done.returncode == 0 and '2.328029714' in done.stdout and done.stderr == ''
    row, = json.loads(dp_saddle('delta', *RUN, '--eps', '1', '--json').stdout)['results']
    assert row['steps'] == 3000 and row['lower'] <= row['estimate'] <= row['upper'] and row['estimate'] == pytest.approx(4.64853066236e-5, rel=1e-11)

def test_several_at_once():
    rows = json.loads(dp_saddle('epsilon', '--sigma', '9.4', '--rate', '0.32768', '--steps', '0', '1000', '2000', '--delta', '1e-5', '1e-100', '--json').stdout)['results']
    assert [(r['steps'], r['delta']) for r in rows] == [(n, d) for n in (0, 1000, 2000) for d in (1e-5, 1e-100)]
    assert rows[0]['upper'] == 0 and rows[4]['upper'] == pytest.approx(7.42438, abs=1e-5)

def test_printed_bounds_are_rounded_outwards():
    words = ['epsilon', *RUN, '--delta', '1e-15']
    low, high = dp_saddle(*words).stdout.split()[-2:]
    exact, = json.loads(dp_saddle(*words, '--json').stdout)['results']
    assert float(low) <= exact['lower'] and exact['upper'] <= float(high)

def test_curve(tmp_path):
    done = dp_saddle('curve', *RUN, '--out', 'c.png', cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path/'c.png').read_bytes()[:4] == b'\x89PNG' and 'c.png' in done.stdout

def test_version(): assert dp_saddle('--version').stdout.startswith('dp-saddle ')

@pytest.mark.parametrize('words, named', [
    (['epsilon', '--sigma', '0', '--rate', '1', '--steps', '1', '--delta', '.1'], 'sigma must be in (0, inf), got 0.0'), (['epsilon', '--sigma', 'nan', '--rate', '1', '--steps', '1', '--delta', '.1'], 'sigma'),
    (['epsilon', '--sigma', 'x', '--rate', '1', '--steps', '1', '--delta', '.1'], '--sigma'), (['epsilon', '--sigma', '1', '--rate', '1.5', '--steps', '1', '--delta', '.1'], 'rate must be in (0, 1]'),
    (['epsilon', '--sigma', '1', '--steps', '1', '--delta', '.1'], '--rate'), (['epsilon', '--sigma', '1', '--rate', '1', '--steps', '-1', '--delta', '.1'], 'steps must be an integer >= 0'),
    (['epsilon', '--sigma', '1', '--rate', '1', '--steps', '1.5', '--delta', '.1'], '--steps'), (['epsilon', '--sigma', '1', '--rate', '1', '--steps', '1', '--delta', '0'], 'delta must be in (0, 1)'),
    (['epsilon', '--sigma', '1', '--rate', '1', '--steps', '1', '--delta', '1'], 'delta'), (['delta', '--sigma', '1', '--rate', '1', '--steps', '1', '--eps', '-1'], 'eps must be in [0, inf)'),
    (['delta', '--sigma', '1', '--rate', '1', '--steps', '1', '--eps', 'inf'], 'eps'), (['curve', '--sigma', '1', '--rate', '1', '--steps', '1', '--out', '/no/such/folder/c.png'], 'No such file'),
    (['curve', '--sigma', '1', '--rate', '1', '--steps', '1', '--out', 'c.xyz'], 'xyz'), (['curve', '--sigma', '1', '--rate', '1', '--steps', '1'], '--out'), ([], 'required'), (['epsilom'], 'epsilom')])
def test_mistakes_are_one_line_and_status_2(words, named, tmp_path):
    done = dp_saddle(*words, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == '' and done.stderr.count('\n') == 1 and named in done.stderr, done.stderr
