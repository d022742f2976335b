"Arguments, state that is saved, and classes in pieces: what Appendix B does not show."
import json
import os
from decimal import Decimal
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

from dp_saddle.base import checks
from dp_saddle.base.checks import Saved, patch


@pytest.mark.parametrize('value', [1, .5, Fraction(1, 3), np.float32(.25), np.int64(1)])
def test_real_numbers_of_any_kind(value):
    checks.real(0, 1, '(]', x=value)

@pytest.mark.parametrize('value', ['1', None, True, np.True_, 1j, [1.], Decimal(1)])
def test_what_is_no_real_number(value):
    with pytest.raises(TypeError, match='x must be a real number, got'): checks.real(0, 9, x=value)

@pytest.mark.parametrize('value', [nan, inf, -inf, 10**400, -10**400])
def test_what_is_not_finite(value):
    with pytest.raises(ValueError, match=r'x must be in \(-inf, inf\)'):
        checks.real(-inf, inf, x=value)

@pytest.mark.parametrize('check', [checks.real, checks.array])
def test_an_infinite_end_of_a_range(check):
    "Taken where the bracket takes it, and nothing else that is not finite."
    check(0, inf, '[]', x=inf)
    for value in (nan, -inf):
        with pytest.raises(ValueError, match=r'x must be in \[0, inf\]'):
            check(0, inf, '[]', x=value)

ENDS = [('()', []), ('[)', [0]), ('(]', [1]), ('[]', [0, 1])]

@pytest.mark.parametrize('brackets, allowed', ENDS)
def test_ends_of_a_range(brackets, allowed):
    for end in (0, 1):
        for check in (checks.real, checks.array):
            if end in allowed:
                check(0, 1, brackets, x=end)
            else:
                with pytest.raises(ValueError, match='x must be in .0, 1.'):
                    check(0, 1, brackets, x=end)

def test_the_second_of_two_is_named():
    with pytest.raises(ValueError, match='b must be'): checks.real(0, 1, a=.5, b=2.)
    with pytest.raises(TypeError, match='b must be'): checks.count(0, a=1, b=1.)

@pytest.mark.parametrize('value', [np.array([[.1, .2]]), .5, [1], np.float32(.5), ((.1,), (.2,))])
def test_arrays_keep_their_shape(value):
    a = checks.array(0, 1, '(]', x=value)
    assert a.dtype == float and a.shape == np.shape(value)

@pytest.mark.parametrize('value', ['ab', None, [True], [1j], [.1, [.2]], [None]])
def test_what_is_no_array_of_numbers(value):
    with pytest.raises(TypeError, match='x must be a number or an array of numbers'):
        checks.array(0, 1, x=value)

def test_an_array_is_a_copy():
    mine = np.array([.5])
    checks.array(0, 1, x=mine)[0] = 9.
    assert mine == .5

def test_a_choice_is_a_word():
    checks.choice(('a', 'b'), kind='a')
    for wrong in ('A', None, 1, 'ab'):
        with pytest.raises(ValueError, match="kind must be 'a' or 'b', got"):
            checks.choice(('a', 'b'), kind=wrong)

# Classes in pieces

class Base:
    "To be patched."

def test_patched_methods_are_inherited_and_documented():
    class Child(Base):
        pass
    @patch
    def double(self: Base, x):
        "Twice x."
        return 2*x
    assert double is None and Child().double(3) == 6
    assert Base.double.__doc__ == 'Twice x.' and Base.double.__qualname__ == 'Base.double'

def test_a_cached_property_is_computed_once_for_each():
    calls = []
    @patch(cached=True)
    def slow(self: Base):
        calls.append(self)
        return len(calls)
    one, other = Base(), Base()
    assert [one.slow, one.slow, other.slow, other.slow] == [1, 1, 2, 2]

def helper(): return 'mine'

def test_a_name_of_the_module_keeps_its_meaning():
    def make():
        def helper(self: Base): return 'theirs'
        return patch(helper)
    assert make() is helper and helper() == 'mine' and Base().helper() == 'theirs'

@pytest.mark.parametrize('function', [lambda self: 0, lambda: 0])
def test_what_cannot_be_patched(function):
    with pytest.raises(TypeError, match='method must have a class at its first parameter'):
        patch(function)
    def later(self, other: Base): return 0
    with pytest.raises(TypeError, match='method must have a class'): patch(later)

# State

class Tally(Saved):
    "Counts, and a word."
    settings = 'size', 'limit'
    def __init__(self, size, limit=None):
        self.size, self.limit = size, limit
        self.counts, self.word = np.zeros(size, int), 'none'
    def state(self): return {'counts': self.counts, 'word': np.array(self.word)}
    def restore(self, counts, word): self.counts, self.word = counts, str(word)

def filled(size, limit=None):
    tally = Tally(size, limit)
    tally.counts, tally.word = np.arange(size)*10**15, 'some'
    return tally

@pytest.mark.parametrize('suffix', ['.json', '.npz'])
@pytest.mark.parametrize('size, limit', [(0, None), (3, None), (3, .1)])
def test_what_is_saved_is_loaded(tmp_path, suffix, size, limit):
    path = tmp_path/f'tally{suffix}'
    filled(size, limit).save(str(path))
    again = Tally(size, limit)
    assert again.load(path) is again
    assert again.counts.tolist() == filled(size).counts.tolist() and again.word == 'some'
    assert os.listdir(tmp_path) == [path.name]
    for other in (Tally(size, .2), Tally(size + 1, limit)):
        with pytest.raises(ValueError, match=' there and .* here'): other.load(path)

def test_a_class_has_names_of_its_own(tmp_path):
    tally = filled(2)
    ours = 'settings', 'state', 'restore'
    for name in [n for n in dir(checks) if n[0] == '_' != n[1] and n not in ours]:
        setattr(tally, name, 'taken')
    tally.save(tmp_path/'a.json')
    assert tally.load(tmp_path/'a.json').word == 'some'

def test_formats_are_not_guessed(tmp_path):
    for name in ('a', 'a.txt', 'a.JSON', '.json'):
        with pytest.raises(ValueError, match="suffix of path must be '.json' or '.npz'"):
            filled(1).save(tmp_path/name)
    with pytest.raises(FileNotFoundError, match='in a directory that exists'):
        filled(1).save(tmp_path/'none'/'a.json')
    with pytest.raises(FileNotFoundError): filled(1).load(tmp_path/'none.json')

@pytest.mark.parametrize('suffix', ['.json', '.npz'])
def test_a_file_that_is_cut_off(tmp_path, suffix):
    path = tmp_path/f'a{suffix}'
    filled(3).save(path)
    data = path.read_bytes()
    for size in (0, 1, len(data)//2, len(data) - 3):
        path.write_bytes(data[:size])
        tally = Tally(3)
        with pytest.raises(ValueError, match='path must be a state that a Tally'): tally.load(path)
        assert tally.word == 'none' and not tally.counts.any()

def test_nothing_in_a_file_is_executed(tmp_path):
    path = tmp_path/'a.npz'
    np.savez(path, kind='Tally', counts=np.array([print], dtype=object), word='x')
    with pytest.raises(ValueError, match='path must be a state'): Tally(1).load(path)

@pytest.mark.parametrize('change', [{'kind': 'Other'}, {'counts': [[1, 2]]}, {'counts': 'word'},
                                    {'counts': [1, None]}, {'word': 3}, {'more': 1}, {'size': 9}])
def test_entries_that_are_not_ours(tmp_path, change):
    path = tmp_path/'a.json'
    state = {'kind': 'Tally', 'size': 2, 'limit': -1, 'counts': [1, 2], 'word': 'x'}
    path.write_text(json.dumps(state))
    Tally(2).load(path)
    path.write_text(json.dumps(state | change))
    with pytest.raises(ValueError, match='path must be a state'): Tally(2).load(path)

@pytest.mark.parametrize('step', ['fsync', 'replace'])
def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path/'a.json'
    filled(2).save(path)
    before = path.read_bytes()
    def fail(*_): raise OSError('no space left on device')
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match='no space left'): Tally(2).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ['a.json']

def test_a_class_that_owes_its_state():
    class Empty(Saved):
        pass
    with pytest.raises(NotImplementedError, match='Empty has no method `state`'):
        Empty().save('a.json')

# What was found by asking wrongly

@pytest.mark.parametrize('value', [2**53 + 1, 10**400, np.uint64(2**63)])
def test_counts_that_are_no_doubles(value):
    with pytest.raises(ValueError, match=r'n must be an integer in \[1, 9007199254740992\], got'):
        checks.count(1, n=value)
    checks.count(1, inf, n=value)                   # a seed, say

def test_a_word_is_no_answer():
    checks.flag(fast=True, slow=np.False_)
    for wrong in ('no', 0, None, np.array([True])):
        with pytest.raises(TypeError, match='fast must be True or False, got'):
            checks.flag(fast=wrong)

def test_what_is_masked_is_no_number():
    with pytest.raises(TypeError, match='x must be a number or an array of numbers'):
        checks.array(0, 1, x=np.ma.array([.1, .2], mask=[False, True]))
    assert checks.array(0, 1, x=np.ma.array([.1, .2])).tolist() == [.1, .2]

def test_long_doubles_that_are_no_doubles():
    tiny, large = np.longdouble('1e-4000'), np.longdouble('1e4000')
    if float(tiny) == tiny: pytest.skip('long doubles are doubles')
    for value in (tiny, large, np.array([.5, tiny])):
        with pytest.raises(ValueError, match=r'x must be in \(0, 1\), got'):
            checks.array(0, 1, x=value)

def test_kept_answers_are_few_and_the_oldest_goes():
    "Also None is an answer; one that is asked again is not made again, nor younger for it."
    made, answers = [], {}
    def ask(key): return checks.kept_answer(answers, key, lambda: made.append(key), most=3)
    for key in 'abcaabdb': assert ask(key) is None
    assert made == list('abcd') and list(answers) == list('bcd')
    ask('a')
    assert made == list('abcda') and list(answers) == list('cda')

def test_a_function_keeps_its_answers():
    made = []
    @checks.keeps_answers
    def thrice(x):
        made.append(x)
        return 3*x
    for x in [*range(checks.KEPT + 1), 5, 0]: assert thrice(x) == 3*x
    assert made == [*range(checks.KEPT + 1), 0]
