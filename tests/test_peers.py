"""tests/peers.py measures and reports rightly, and nbs/benchmark.json, which it wrote, is whole.
The comparison itself is nbs/benchmark.ipynb."""
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dp_saddle

sys.path.insert(0, str(Path(__file__).parent))
import peers

QUESTION = {k: peers.SETTINGS[-1][k] for k in ('sigma', 'rate', 'steps', 'delta')}

@pytest.mark.parametrize('said, failure',
                         [((1., 2., float('nan')), 'NaN'), ((0, -1., -1.), 'negative eps'),
                         ((0, float('inf'), float('inf')), 'no finite answer'), ((.5, 1., 2.), '')])
def test_answer(said, failure):
    row = peers.answer(lambda **question: said, QUESTION)
    assert row['failure'] == failure
    if not failure:
        assert (row['lower'], row['estimate'],
                row['upper']) == said and row['seconds'] >= 0 and row['MB'] < 5

def test_nothing_proved_is_null():
    row = peers.answer(lambda **question: (0, 1., float('inf')), QUESTION)
    assert row['lower'] is row['upper'] is None and not row['failure']

def test_an_exception_is_a_failure():
    def ask(**question): raise ArithmeticError('too small')
    assert peers.answer(ask, QUESTION) == {'failure': 'ArithmeticError: too small'}

MEASURED = """
import json, sys, time; sys.path.insert(0, {tests!r}); import peers
def ask(**question):
    time.sleep(.05)
    block = bytearray(60 << 20)
    return 0, len(block), len(block)
print(json.dumps(peers.answer(ask, {question!r}, patience=0.)))
"""

def test_time_and_memory_are_seen():
    "In a process of its own: this one may have had more memory before, and a peak is what is seen."
    code = MEASURED.format(tests=str(Path(__file__).parent), question=QUESTION)
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)
    assert .05 <= row['seconds'] < 1 and 55 < row['MB'] < 80

FAKE = """
import sys, time; sys.path.insert(0, {tests!r}); import peers
def make():
    def ask(sigma, rate, steps, delta):
        if steps == 1: time.sleep(60)
        if steps == 2: bytearray(3 << 30)
        if steps == 3: import os; os._exit(1)
        return 0, sigma, sigma
    return ask
peers.serve(make, memory=1)
"""
def test_a_child_for_each_question():
    "Time-outs, too much memory and death are failures of one question, and the next is answered."
    asked = ''.join(json.dumps([1., QUESTION | {'steps': steps}]) + '\n' for steps in (1, 2, 3, 4))
    done = subprocess.run([sys.executable, '-c', FAKE.format(tests=str(Path(__file__).parent))],
                          input=asked, text=True, capture_output=True, timeout=60)
    slow, large, dead, good = map(json.loads, done.stdout.splitlines())
    assert slow['failure'] == 'more than 1 s'
    assert large['failure'].startswith('MemoryError')
    assert dead['failure'].startswith('killed')
    assert good['failure'] == '' and good['upper'] == QUESTION['sigma']

@pytest.mark.parametrize('peer', ['ContourAccountant', 'MomentsAccountant'])
def test_peer(peer):
    "One cheap setting, in a process of its own."
    with peers.Peer(peer) as ask: row = ask(peers.SETTINGS[-1], 20.)
    plrv = (peers.SETTINGS[-1]['steps']
            *dp_saddle.PoissonSubsampled(base=dp_saddle.Gaussian(sigma=.5), rate=1.))
    assert row['failure'] == ''
    assert row['upper'] == getattr(dp_saddle, peer)(plrv).epsilon(1e-5).upper
    assert 0 < row['seconds'] < 5

def test_line():
    "The fallback of the check agrees with an exact curve: one Gaussian step in every step."
    from dp_saddle import ContourAccountant, Gaussian, PoissonSubsampled
    b = ContourAccountant((2000*PoissonSubsampled(base=Gaussian(sigma=9.4),
        rate=2**14/50000)).remove).delta(7.)
    assert b.lower*(1 - 1e-9) <= peers.line(9.4, 2**14/50000, 2000, 7.) <= b.upper*(1 + 1e-9)

def test_climb():
    rungs = [{'name': f'delta {k}', 'true': k} for k in (1, 2, 3)]
    known = {r['name']: float(r['true']) for r in rungs}
    assert peers.climb(lambda r, limit: dict(failure='', upper=r['true']*1.5), rungs, known,
                       1.) == {'last': 'delta 3', 'why': ''}
    assert peers.climb(lambda r, limit: dict(failure='', upper=None, estimate=1.), rungs, known,
                       1.) == {'last': 'delta 1', 'why': 'says 1 for 2'}
    assert peers.climb(lambda r, limit: dict(failure='NaN'), rungs, known, 1.) == {'last': None,
        'why': 'NaN'}

def test_what_is_committed():
    """All settings and accountants, small, no failure of ours, and nothing about the machine but
    what explains the times."""
    text = (peers.ROOT/'nbs'/'benchmark.json').read_text(encoding='utf-8')
    data = json.loads(text)
    assert len(text) < 90_000                     # the limits, measured apart, are 15,000
    assert data['settings'] == peers.SETTINGS
    assert '/tmp' not in text
    assert '/home' not in text
    names = {s['name'] for s in peers.SETTINGS}
    assert list(data['rows']) == list(peers.PEERS)
    assert all(set(data['rows'][p]) == (names if p in peers.ASKED else set(peers.REFINED))
               for p in peers.PEERS)
    assert set(data['ladders']) == set(peers.ASKED) and set(data['checks']) == names
    assert all(not row[-1] for row in data['rows']['ContourAccountant'].values())
    assert list(data['built']) == list(peers.BUILT)
    assert re.fullmatch(r'20\d\d-\d\d-\d\d', data['built_date'])
    assert all(list(row) == list(peers.BUILDERS) and not row['ours'][-1]
               for row in data['built'].values())
    limits = data['limits']
    assert names <= set(limits['rows']) and set(limits['costs']) >= {'exp', 'turn', 'add', 'power'}
    for name, row in limits['rows'].items():
        low, up, seconds, why = row['answers']['ours']
        assert not why and up > 0 and seconds > row['least'], name
