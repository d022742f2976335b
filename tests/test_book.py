"""The book is for readers: chapters of at most eighty cells, none of which is exported, which
open with the whole method by hand and close with exercises at three levels."""
import ast
import json
import re

import pytest

from house import BOOK, NBS

MOST_CELLS, BY_HAND_LINES = 80, 25
LEVELS = {"Check", "Derive", "Extend"}
FEWEST_EXERCISES = 6

PAGES = [NBS/"preface.ipynb", *BOOK]
each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
each_chapter = pytest.mark.parametrize("path", BOOK, ids=lambda path: path.stem)


def cells(path):
    "(kind, text) of each cell."
    nb = json.loads(path.read_text(encoding="utf-8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in nb["cells"]]


def code(text):
    "The lines of a cell that say something."
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#|")]


def is_exported(text):
    return re.match(r"#\|\s*exporti?\b", text) is not None


def is_hidden(text):
    return re.match(r"#\|\s*(hide|default_exp)\b", text) is not None


def by_hand(path):
    "The first section with code, and those right behind it that are by hand, too: (title, code)."
    sections, now = [], None
    for kind, text in cells(path):
        if kind == "markdown" and (found := re.match(r"## (.*)", text)):
            now = (found[1], [])
            sections.append(now)
        elif now and kind == "code" and not is_hidden(text) and not is_exported(text):
            now[1].append(text)
    sections = [(title, found) for title, found in sections if found]
    more = next((k for k, (title, _) in enumerate(sections) if k and not of_hands(title)), None)
    return sections[0][0], [text for _, found in sections[:more] for text in found]


def of_hands(title): return re.search("by hand", title, flags=re.I)


def asserts(text):
    return any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(text))) or re.search(
        r"\btest_(close|eq)\(", text)


@each_page
def test_a_chapter_is_a_chapter_long(path):
    count = len(cells(path))
    assert count <= MOST_CELLS, f"{count} cells"


@each_page
def test_a_chapter_exports_nothing(path):
    "Functions and classes stand on pages of the folders."
    found = [text for kind, text in cells(path) if kind == "code" and is_exported(text)]
    assert not found, found


@each_chapter
def test_the_method_by_hand_comes_first(path):
    "The first section with code, of at most so many lines before the check, and a check."
    title, found = by_hand(path)
    assert of_hands(title), title
    assert len(code(found[0])) <= BY_HAND_LINES, len(code(found[0]))
    assert any(asserts(text) for text in found)
    first = next(k for k, (_, text) in enumerate(cells(path)) if text == found[0])
    assert first < 12, f"it is cell {first}"


@each_page
def test_exercises_at_three_levels(path):
    texts = [text for kind, text in cells(path) if kind == "markdown"]
    found = [re.match(r"\*\*Exercise (\d+): [^*]+\*\* \((\w+)[,;] ", text) for text in texts
             if text.startswith("**Exercise ")]
    assert all(found), "an exercise begins with (Check, ...), (Derive, ...) or (Extend, ...)"
    assert [int(m[1]) for m in found] == list(range(1, len(found) + 1))
    assert {m[2] for m in found} == LEVELS
    assert len(found) >= FEWEST_EXERCISES
    solved = sum("<summary>Solution" in text for text in texts)
    assert solved == len(found), f"{solved} solutions"


def test_the_rules_can_be_broken(tmp_path):
    "A chapter that breaks each of them is noticed."
    def cell(kind, source): return {"cell_type": kind, "source": [source]}
    bad = tmp_path/"12_bad.ipynb"
    bad.write_text(json.dumps({"cells": [
        cell("markdown", "## Machinery"), cell("code", "#| export\nA_ULPS = 3\nB = 4"),
        cell("code", "#| hide\nimport math"), cell("code", "x = 1"),
        cell("markdown", "**Exercise 1: no level.** What is x?")]}), encoding="utf-8")
    assert by_hand(bad) == ("Machinery", ["x = 1"]) and not asserts("x = 1")
    for rule in (test_a_chapter_exports_nothing, test_the_method_by_hand_comes_first,
                 test_exercises_at_three_levels):
        with pytest.raises(AssertionError): rule(bad)
