"""What other accountants' own tests expect, answered here: every difference is recorded, with its
reason, in peers_tests.json; the page nbs/papers/peers_tests.ipynb tells them."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import peers_tests as pt

ROWS = pt.rows()
WORDS = {'agrees', 'tighter', 'too small', 'wider', 'answered', 'refused'}
EVERY = 24           # of the rows that agree; all of them with -m slow

def test_the_file_is_whole():
    "Five peers; each difference has a reason, each reason a difference."
    assert {r['peer'] for r in ROWS} == {'dp_accounting', 'Opacus', 'prv-accountant', 'riskcal',
                                         'jax_privacy'}
    assert len(ROWS) > 600 and {r['ours'] for r in ROWS} <= WORDS
    assert all(('why' in r) == (r['ours'] != 'agrees') for r in ROWS)
    assert {r['why'] for r in ROWS if 'why' in r} == set(pt.reasons())
    assert len({repr(sorted(r.items(), key=str)) for r in ROWS}) > .9*len(ROWS)

def asked(rows):
    "Each is what was recorded; all that are not, at once."
    pytest.importorskip('dp_accounting', reason='dp_accounting is in the extra interop')
    pytest.importorskip('opacus', reason='Opacus is in the extra interop')
    said = [(pt.verdict(r), r) for r in rows]
    wrong = [(r['test'], r['ask'], verdict, ours, r['ours'])
             for (verdict, ours), r in said if verdict != r['ours']]
    assert not wrong, wrong

def cheap(peer):
    "Of a peer: what differs, one of each reason, and some of what agrees."
    mine = [r for r in ROWS if r['peer'] == peer]
    differ = {r['why']: r for r in mine if 'why' in r}
    return [*differ.values(), *[r for r in mine if 'why' not in r][::EVERY]]

@pytest.mark.parametrize('peer', sorted({r['peer'] for r in ROWS}))
def test_recorded_verdicts(peer): asked(cheap(peer))

@pytest.mark.slow
@pytest.mark.parametrize('peer', sorted({r['peer'] for r in ROWS}))
def test_all_recorded_verdicts(peer): asked([r for r in ROWS if r['peer'] == peer])

def test_a_difference_is_seen():
    "Each word is said where it is due."
    row = {'ask': 'epsilon', 'is': 1., 'within': .1}
    low = lambda value: lambda: value
    assert pt.compared(row, 1.05, None) == 'agrees' == pt.compared(row, .95, None)
    assert pt.compared(row, .89, None) == 'tighter'
    assert pt.compared(row, 1.2, low(.9)) == 'wider' == pt.compared(row, 1.2, None)
    assert pt.compared(row, 1.2, low(1.19)) == 'too small'
    assert pt.compared(row | {'is': [0., 'inf']}, 7., None) == 'agrees'
    assert pt.compared(row | {'is': 'inf'}, 7., None) == 'tighter'

def test_at_the_mass_at_infinity():
    "`edge`: a delta that is larger by a relative 1e-11 has the eps that is expected."
    pytest.importorskip('dp_accounting', reason='dp_accounting is in the extra interop')
    (row,) = [r for r in ROWS if r.get('why') == 'edge']
    assert pt.verdict(row | {'at': row['at']*(1 + 1e-11)})[0] == 'agrees'
