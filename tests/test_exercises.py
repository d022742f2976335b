"""Every exercise of the site that has a Check: the book's solution, pasted as it stands, is right;
an answer that returns 0 is wrong, and is told so. By the page's data and its worker's Python."""

import json
import re
import sys
import types

import pytest

import book

COUNTS = {'in words': 19, 'not in a browser': 10, 'nothing to judge by': 30}    # without a Check


@pytest.fixture
def afresh(monkeypatch):
    "A page's worker that has just started: its functions, with names of their own."
    def start():
        monkeypatch.setitem(sys.modules, '__main__', types.ModuleType('__main__'))
        sys.modules['__main__'].__builtins__ = __builtins__
        space = book.harness()

        def ask(function, *asked):
            return json.loads(space[function](*asked))

        return ask

    return start


def nothing(*said):
    pass


def run(worker, code):
    done = worker('cell', code, '<setup>', nothing, nothing, True)
    assert done['ok'], (code, done['error'])


def judge(worker, code, one):
    return worker('judge', code, one['checks'], one['names'], '<your answer>', nothing, nothing)


def wrong(start):
    "The blank, filled with what is not the answer."
    return start.replace('...', 'return 0' if 'def ' in start else '0')


def test_names_of_later_cells(afresh):
    """A Check judges by what the cells above have left, whatever cells below have bound since; and
    leaves all names as they were."""
    ask = afresh()
    cells = 'a = 1\nimport math as m', 'def f(x): return a*x', 'a, m = 2, None\nf = None', 'c = 5'
    for place, code in enumerate(cells):
        done = ask('cell', code, '<setup>', nothing, nothing, True, place)
        assert done['ok'], done
    one = {'names': ['b'], 'checks': 'assert b(3) == 3 and m.pi > 3 and c == 5'}
    asked = 'def b(x): return f(x)', one['checks'], one['names'], '<answer>', nothing, nothing
    assert ask('judge', *asked, (0, 1))['ok']
    assert not ask('judge', *asked, (1,))['ok'], 'a is that of a cell below'
    assert ask('cell', 'assert (a, m, f) == (2, None, None)', '', nothing, nothing, True)['ok']
    assert not ask('cell', 'b', '', nothing, nothing, True)['ok']


# What an exercise needs takes as long as its chapter; the notebooks' own tests run every solution.
QUICK = '02_mechanisms', 'sampling/lognormal_means', 'preface'
# (Which pages have a Check is asked within the tests: to make all pages takes seconds.)
PAGES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in book.names()]


def checked_on(name):
    "{label: what its Check needs} of the page's exercises that have one."
    return (book.page(name)[1] or {}).get('exercises', {})


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', PAGES)
def test_solutions(afresh, name):
    ask = afresh()
    solutions, ran = book.solutions(name), set()
    assert name not in QUICK or checked_on(name)
    for label, one in checked_on(name).items():
        needs = [k for k in one['needs'] if k not in ran]
        if ran and needs and needs[0] < max(ran):      # a later cell's names would be in its way
            ask, needs, ran = afresh(), one['needs'], set()
        for code in book.setup(name, needs):
            run(ask, code)
        ran.update(needs)
        told = judge(ask, wrong(one['start']), one)
        assert not told['ok'], (label, 'nothing is asked of the answer', one['start'])
        assert re.match('This check (does not hold|fails):\n\n    ', told['error']), told['error']
        assert len(told['error'].strip().splitlines()) > 3, (label, told['error'])
        told = judge(ask, solutions[label], one)
        assert told['ok'] and told['value'] >= 1, (label, told['error'])


def without(names):
    "{why: labels} of the exercises of these pages that have no Check."
    found = {'in words': [], 'not in a browser': [], 'nothing to judge by': []}
    for name in names:
        checked = checked_on(name)
        solutions = book.solutions(name)
        rows = book.page(name)[1]['cells'] if book.page(name)[1] else []
        blocked = {cell.source for k, cell in book.placed(name) if 'no' in rows[k]}
        for label in book.exercises(name):
            if label in checked:
                continue
            code = solutions.get(label, '')
            if not code:
                found['in words'].append(label)
            elif any(part in code for part in blocked):
                found['not in a browser'].append(label)
            else:
                found['nothing to judge by'].append(label)
    return found


@pytest.mark.parametrize('names', [
    (*QUICK, '04_saddlepoint', '05_tilting'), pytest.param(book.names(), marks=pytest.mark.slow)],
    ids=['quick', 'all'])
def test_exercises_without_a_check(names):
    "The others are answered in words, need what a browser lacks, or define nothing to be judged."
    found = without(names)
    total = sum(len(book.exercises(n)) for n in names)
    checked = sum(len(checked_on(n)) for n in names)
    assert checked + sum(map(len, found.values())) == total
    assert 0 < checked < total
    if len(names) == len(book.names()):
        assert (total, checked) == (182, 123)
        assert {why: len(labels) for why, labels in found.items()} == COUNTS, found
