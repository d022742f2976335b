"""The page of the papers' items, nbs/papers/items.ipynb: none is missing, its links lead somewhere,
and what is said to check an item does check something."""
import json
import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from house import NOTEBOOKS, headings
from items import KILLED, MUTANTS, Book, code_cells, needed
from notebooks import LEFT_OUT, missing

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT/"nbs"/"papers"/"items.ipynb"

# What each paper numbers, counted from the papers; of [FA]'s appendix what its text names.
COUNTED = {
    "SP": """Definition 2.1 2.3 3.2 3.6 5.1; Lemma 2.2 2.4 A.1 E.1; Assumption 2.5 2.6 2.7;
        Remark 2.8 2.9 2.10 2.11 3.3 3.4 5.2 5.4 5.8; Theorem 3.1 4.1 4.2 5.6 5.7; Heuristic 3.5;
        Proposition 5.3 5.5; Algorithm 1; Figure 1 2 3 4 5 6""",
    "EA": """Definition 2.1 2.2 3.1 4.1 4.2; Fact 1 2 3 4; Proposition 3.2 4.5; Lemma 3.3 4.3;
        Remark 3.4 4.4 B.1; Theorem 1; Algorithm 1; Figure 1 2 3; Table 1""",
    "PRV": """Definition 1.1 1.4 2.1 2.3 3.1 5.1; Proposition 1.2 1.3; Lemma 5.2 5.3 5.4;
        Theorem 1.5 1.6 2.4 3.2 3.3 3.5 5.5; Remark 2.2 3.4 5.6; Algorithm 1 2; Figure 1 2 3""",
    "FA": """Definition 1 2 3 4; Lemma 5 7 9 A.2 A.9 C.6 D.1 D.4; Theorem 6 8; Algorithm 1;
        Figure 1 2 3 4; Table 1 2""",
    "GDP": """Definition 2.1 2.3 2.5 2.9; Lemma 2.2 2.8 3.1 C.4 D.1; Corollary 2.7 C.2;
        Theorem 2.4 2.6 3.2 4.1 B.1 C.1 D.2; Remark C.3; Algorithm 1 2;
        Figure 1 2 3 4 5 6 7 8 9 10"""}

def counted(paper):
    "The items of a paper."
    found = []
    for kind in COUNTED[paper].split(";"):
        name, *numbers = kind.split()
        found += [f"{name} {number}" for number in numbers]
    return found

@lru_cache(None)
def cells(path):
    "The cells of a notebook."
    return json.loads(path.read_text(encoding="utf-8"))["cells"]

def text(cell): return "".join(cell["source"])

def section(paper):
    "The cell of a paper's table."
    return next(text(c) for c in cells(PAGE) if f"\n[{paper}] " in text(c))

def rows(paper):
    "The rows: item, what it says, where it is, what checks it, what is asserted."
    lines = [line for line in section(paper).splitlines() if line.startswith("| ")]
    return [[part.strip() for part in line.strip("|").split("|")] for line in lines[1:]]

def links(part):
    "(path, anchor) of each link."
    found = re.findall(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)", part)
    return [((PAGE.parent/path).resolve(), anchor) for path, anchor in found]

def asserts(source): return re.search(r"\bassert\b|\btest_\w+\(|pytest\.raises", source)

each = pytest.mark.parametrize("paper", COUNTED)

@each
def test_no_item_is_missing(paper):
    listed = [row[0] for row in rows(paper)]
    assert sorted(listed) == sorted(counted(paper))
    assert f": {len(listed)} items." in section(paper)

def test_the_page_counts_right():
    absent = [row[0] for paper in COUNTED for row in rows(paper) if "not in the book" in row[2]]
    total = sum(len(counted(paper)) for paper in COUNTED)
    assert f"{total} items; {len(absent)} of them are not in the book" in text(cells(PAGE)[1])

@each
def test_links_lead_somewhere(paper):
    "To a notebook, and in it to a heading or a cell."
    lost = [(path.name, anchor) for path, anchor in links(section(paper)) if not path.exists()
            or anchor and not anchor.startswith("cell-id=") and anchor not in headings(path)]
    assert not lost

@each
def test_an_item_is_where_it_is_said_to_be(paper):
    "Each row names a place, or says why there is none."
    for item, said, where, *_ in rows(paper):
        assert said and (links(where) or re.fullmatch(r"not in the book: .{10,}", where)), item

@each
def test_what_checks_it_checks(paper):
    "A cell with an assertion, or a test; only what is not in the book has none."
    for item, _, where, by, asserted in rows(paper):
        named = [(path, anchor.removeprefix("cell-id=")) for path, anchor in links(by)]
        for path, name in named:
            cell = next((c for c in cells(path) if c.get("id") == name), None)
            assert cell and cell["cell_type"] == "code" and asserts(text(cell)), (item, name)
        tests = re.findall(r"`(tests/\w+\.py)::(\w+)`", by)
        for file, name in tests:
            source = (ROOT/file).read_text(encoding="utf-8")
            body = re.search(rf"^def {name}\(.*?(?=^\S|\Z)", source, flags=re.M | re.S)
            assert body and asserts(body[0]), (item, name)
        absent = where.startswith("not in the book")
        assert bool(named or tests) is bool(asserted) is not absent, item

def checked():
    "{item with its paper: the cells that check it} of all that are in the book."
    return {f"{paper} {row[0]}": [anchor.removeprefix("cell-id=") for _, anchor in links(row[3])]
            for paper in COUNTED for row in rows(paper) if row[4]}

def notebook_of(item): return next(path for path in NOTEBOOKS
                                   if MUTANTS[item]["cell"] in code_cells(path))

def test_each_item_has_a_mutant():
    "Its cell is one that the page names, and the text that it changes stands there once."
    assert list(MUTANTS) == list(checked())
    for item, cells_of_it in checked().items():
        mutant, sources = MUTANTS[item], code_cells(notebook_of(item))
        assert mutant["cell"] in cells_of_it, item
        source = sources[mutant.get("in", mutant["cell"])]
        assert source.count(mutant["text"]) == 1 and mutant["text"] != mutant["becomes"], item

def takes_long(item):
    sources = code_cells(notebook_of(item))
    return any(LEFT_OUT.search(sources[id]) for id in needed(sources, MUTANTS[item]["cell"]))

def killed(items):
    "In a process of its own: a notebook's cells change the library's classes."
    run = subprocess.run([sys.executable, ROOT/"tests"/"items.py", *items], text=True,
                         capture_output=True, check=True, env=os.environ | {"MPLBACKEND": "agg"})
    found = json.loads(run.stdout)
    assert found == dict.fromkeys(found, KILLED) and set(found) == set(items)

class Plain:
    "As much of a notebook's shell as a Book needs."
    def __init__(self): self.user_ns, self.exc = {}, None
    def run(self, source):
        self.exc = None
        try:
            exec(source, self.user_ns)
        except Exception as error:
            self.exc = error

@pytest.mark.parametrize("place, text, becomes, found", [
    ("law", "2*x", "3*x", KILLED), ("check", "== 6", "== 7", KILLED),
    ("law", "2*x", "x + x", "survived"), ("check", "None", "0", "survived"),
    ("law", "2*x", "2*z", "another error"), ("later", "0", "1", "its text"),
    ("law", "x", "y", "its text")])
def test_what_becomes_of_a_mutant(place, text, becomes, found):
    "Only an assertion that fails kills it; afterwards all is as it was."
    cells = {"law": "def f(x): return 2*x", "aside": "assert False", "use": "six = f(3)",
             "check": "assert six == 6\nsix = None", "later": "six = 0"}
    book = Book(cells, Plain())
    assert needed(cells, "check") == ["law", "use", "check"]
    mutant = {"cell": "check", "in": place, "text": text, "becomes": becomes}
    assert book.judge(mutant).startswith(found)
    assert not book.done or book.run(["check"]) is None and book.run(["use", "check"]) is None

def test_cells_run_in_their_order():
    "A cell that a later check needs is not run after one that stands below it."
    cells = {"a": "i = k = 1", "b": "j = 2*k", "c": "k = 5", "d": "assert k == 5*i",
             "e": "assert j == 2"}
    book = Book(cells, Plain())
    for cell, text in (("d", "5"), ("e", "2")):
        assert book.judge({"cell": cell, "text": text, "becomes": "7"}) == KILLED

def test_some_mutants_are_noticed():
    "Every fifty-sixth: all are in the slow run."
    some = [item for item in list(MUTANTS)[1::56] if not missing(notebook_of(item))]
    killed([item for item in some if not takes_long(item)])

@pytest.mark.slow
@pytest.mark.parametrize("path", sorted({notebook_of(item) for item in MUTANTS}),
                         ids=lambda path: path.stem)
def test_all_mutants_are_noticed(path):
    if missing(path): pytest.skip(f"needs {', '.join(missing(path))}")
    killed([item for item in MUTANTS if notebook_of(item) == path])

def test_a_wrong_link_is_seen():
    "The check itself: a heading or a cell that is not there."
    path, _ = links("](../08_filters.ipynb#The-last-step)")[0]
    assert "The-last-step" in headings(path) and "The-last-straw" not in headings(path)


def linked(path):
    "The notebooks that the text of this one links to."
    page = "".join(text(cell) for cell in cells(path))
    return {(path.parent/to).resolve() for to in re.findall(r"\]\(([\w./]+\.ipynb)\)", page)}

def test_every_page_is_listed():
    "The README lists the book and the doors, and each door lists its pages."
    index = ROOT/"nbs"/"index.ipynb"
    doors = {path for path in NOTEBOOKS if path.name == index.name and path != index}
    assert doors <= linked(index)
    listed = linked(index).union(*map(linked, doors))
    assert set(NOTEBOOKS) - listed == {index}
