"""The same answers as at an earlier commit: see snapshot.py."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().with_name('snapshot.py')
sys.path.insert(0, str(SCRIPT.parent))

import snapshot  # noqa: E402


def compare(*options):
    "The command, in a process of its own, which has asked nothing before."
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr


def test_a_tenth_of_the_questions():
    "The quick check."
    compare('--tenth')


@pytest.mark.slow
def test_all_questions():
    "The whole comparison."
    compare()


def test_every_question_is_kept():
    "No question is new, none is gone; there are many, and the file is small."
    old = snapshot.load()
    assert {*old['answers'], *old['errors']} == set(snapshot.QUESTIONS)
    assert len(old['answers']) >= 700
    assert snapshot.FILE.stat().st_size < 450_000


def answers(**tokens):
    "A snapshot of these questions."
    return {'answers': tokens, 'errors': {}, 'warned': []}


def bounds(*values):
    "Bounds as they are kept."
    return answers(q=' '.join(['Bounds[]', *(float(v).hex() for v in values)]))


def numbers(*values):
    "An array as it is kept."
    return answers(q=' '.join([f'[{len(values)}]', *(float(v).hex() for v in values)]))


OLD = bounds(1, 2, 3)


@pytest.mark.parametrize(
    'old, new, wrong',
    [
        (OLD, bounds(1, 2, 3), 0),
        (OLD, bounds(1, 2, 3.0000000000000004), 0),
        (OLD, bounds(1, 2, 2.5), 0),
        (OLD, bounds(1, 2, 5), 0),
        (OLD, bounds(1, 2, 5.1), 1),
        (OLD, bounds(2.9, 4, 5), 0),
        (OLD, bounds(3.1, 4, 5), 1),
        (OLD, answers(q=['=word']), 1),
        (OLD, numbers(2), 1),
        (bounds(1, 2, float('inf')), bounds(1, 2, float('inf')), 0),
        (bounds(1, 2, 3), bounds(1, 2, float('inf')), 1),
        (bounds(1, 1, 1), bounds(1, 1, 1.0000000000000002), 0),
        (bounds(1, 1, 1), bounds(1, 1, 1.00000000000001), 1),
        (numbers(1, 2), numbers(1, 2.000001), 0),
        (numbers(1, 2), numbers(1, 2.00001), 1),
        (numbers(1, 1e-13), numbers(1, -3e-13), 0),
        (numbers(1, 1e-13), numbers(1, 3e-12), 1),
        (numbers(1e-13), numbers(3e-13), 1),
        (answers(q=['=eps is 1.25']), answers(q=['=eps is 1.2500001']), 0),
        (answers(q=['=eps is 1.25']), answers(q=['=eps is 1.26']), 1),
        (answers(q=['=eps is 1.25']), answers(q=['=eps: 1.25']), 1),
        (answers(), numbers(1), 1),
    ],
)
def test_a_difference_is_found(old, new, wrong):
    "Bounds that miss each other or are more than twice as wide; numbers that are not near."
    lines, found = snapshot.compare(old, new)
    assert found == wrong
    assert bool(lines) == bool(wrong)


def test_bit_for_bit():
    "On one machine, where code is moved and not changed."
    other = bounds(1, 2, 3.0000000000000004)
    assert snapshot.compare(OLD, OLD, bits=True) == ([], 0)
    lines, found = snapshot.compare(OLD, other, bits=True)
    assert found == 1 and 'part 3: 3.0' in lines[1]


def test_what_is_meant():
    "It is named, with how far a number may go; bounds overlap all the same."
    meant = {'q': (1e-3, 'tighter')}
    lines, found = snapshot.compare(numbers(1, 2), numbers(1, 1.999), meant=meant)
    assert found == 0 and lines[0] == 'meant: tighter: q'
    assert snapshot.compare(numbers(1, 2), numbers(1, 1.99), meant=meant)[1] == 1
    assert snapshot.compare(OLD, bounds(4, 5, 6), meant=meant)[1] == 1


def test_what_is_meant_is_asked():
    "No name of a question that is gone."
    for part in snapshot.MEANT:
        assert any(part in text for text in snapshot.QUESTIONS)


def test_kept_answers_do_not_rest_on_a_last_bit():
    "Numbers and upper bounds one double further are still the same answers."
    old = snapshot.load()
    moved = json.loads(json.dumps(old))
    for text, answer in old['answers'].items():
        moved['answers'][text] = next_doubles(snapshot.unpacked(answer))
    assert moved['answers'] != old['answers']
    assert snapshot.compare(old, moved)[1] == 0


def next_doubles(answer):
    "The tokens of an answer, numbers and upper bounds as another processor may compute them."
    found, kept = [], 0
    for token in answer:
        if token.startswith('Bounds'):
            sizes = [int(n) for n in token[7:-1].split(',') if n]
            kept = 1 + 2 * int(np.prod(sizes, dtype=int))
        found.append(token if kept else next_double(token))
        kept = max(kept - 1, 0)
    return found


def next_double(token):
    "The token of the next double, for a double."
    if not snapshot.is_number(token):
        return token
    number = float.fromhex(token)
    return float(np.nextafter(number, np.inf)).hex() if np.isfinite(number) and number else token
