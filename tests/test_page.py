"""A page of the book: how wide, how long, one statement a line, and no number without a name."""
import ast
import json
import re
import tokenize
from pathlib import Path

import pytest
from docments import without

from house import BOOK, MODULES, NOTEBOOK_OF, NOTEBOOKS, dotted

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted({*BOOK, *NOTEBOOK_OF.values()})
# The book's other pages, and what reproduces the papers.
OTHERS = [path for path in NOTEBOOKS if path not in CHAPTERS]
EXPORTED_WIDTH, READERS_WIDTH, CELL_LINES, MODULE_LINES = 100, 88, 25, 450

# Exported cells that are longer, and why: {cell id: reason}.
LONG_CELLS = {}
# Modules that are longer: how long at most, and why. What could be cut says so.
LONG_MODULES = {
    "interop.opacus": (610,
        "what Opacus calls and what its users call: hooks, loaders, guards, ghosts; the norms "
        "of records, at the end, could have a room of their own"),
    "practice.training_configs": (539,
        "names in use, and what a value may mean beside others; the names could have a page of "
        "their own"),
    "engine.many": (520,
        "records on shared lines, and what each of their sums is off by, beside it; the "
        "family of losses could have a room of its own"),
    "certificates.interval_transforms": (770,
        "what a step is, in one place: who believes these pages need believe nothing else; a "
        "file of three parts would be three things to believe"),
    "engine.gaussian_rows": (900,
        "a question alone, a thousand at once and a run of many kinds are the same "
        "operations, and one proof; what is planned, and kinds, could have rooms"),
    "engine.line": (972,
        "the line, its plan and its curves share one table of the loss"),
    "engine.ways": (715,
        "one accountant: what it tries, in which order, the table of it, and how bounds are "
        "joined; what finite steps gave asks the accountant itself for the rest"),
    "sampling.truncated_moments": (470,
        "moments below a cut, and the loss that they make; that, from 'The loss' on, could "
        "have a room of its own"),
    "losses.nodes": (740,
        "what all sums over nodes share: K, its rounding, its lines, what is kept"),
    "losses.densities": (560,
        "all Gaussians, sampled and mixed, share a path; your own, beside it, could have a "
        "room of its own"),
    "practice.calibration": (480,
        "one search, for whole numbers and others; the optimal schedule could have a room"),
    "practice.schedules": (650,
        "prefixes by tables, by outcomes, by moments; the files they come from could have a "
        "room of their own"),
    "prv_fft.tilted_fft": (490,
        "dots, lattices, and one transform of both: dots could be parted from it"),
}

def page(path): return path.relative_to(ROOT/"nbs").with_suffix("").as_posix()

each_module = pytest.mark.parametrize("path", MODULES.values(), ids=MODULES)
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=page)
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=page)

def cells(path):
    "(id, first line, source lines) of the code cells."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            lines = "".join(cell["source"]).splitlines()
            yield cell["id"], lines[0] if lines else "", lines

def is_exported(first):
    return first.startswith("#|") and "export" in first and "default_exp" not in first

def body(lines):
    "What there is to read: a cell of imports is a list, and not read."
    text = [line for line in lines if not line.startswith("#|")]
    tree = ast.parse("\n".join(text)).body
    only_imports = all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in tree)
    return [] if only_imports else text

@each_module
def test_width_of_modules(path):
    wide = [i for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if len(line) > EXPORTED_WIDTH]
    assert not wide, f"lines over {EXPORTED_WIDTH} columns: {wide}"

@each_module
def test_length_of_modules(path):
    """In lines that say something: neither blank nor the mark of a cell, nor written by export.py,
    nor imports, which are a list."""
    text = without(path.read_text(encoding="utf-8"))
    imports = [node for node in ast.parse(text).body
               if isinstance(node, (ast.Import, ast.ImportFrom))]
    count = sum(bool(line.strip()) and not line.startswith("# %%") for line in text.splitlines())
    count -= sum(node.end_lineno - node.lineno + 1 for node in imports)
    most, _ = LONG_MODULES.get(dotted(path), (MODULE_LINES, ""))
    assert count <= most, f"{count} lines"
    assert count > MODULE_LINES or dotted(path) not in LONG_MODULES, "no longer long: off the list"

def joined(path):
    "Lines with a semicolon between statements."
    with tokenize.open(path) as file:
        return [t.start[0] for t in tokenize.generate_tokens(file.readline)
                if t.type == tokenize.OP and t.string == ";"]

@each_module
def test_one_statement_a_line(path):
    assert not joined(path), f"more than one statement in lines {joined(path)}"

@each_chapter
def test_length_of_cells(path):
    "An exported cell fits on a page."
    long = [(key, len(body(lines))) for key, first, lines in cells(path)
            if is_exported(first) and len(body(lines)) > CELL_LINES and key not in LONG_CELLS]
    assert not long, f"cells of more than {CELL_LINES} lines: {long}"

@each_notebook
def test_width_of_what_readers_see(path):
    "Nothing scrolls sideways: what is not exported is narrower."
    wide = [(key, max(map(len, lines))) for key, first, lines in cells(path)
            if not is_exported(first) and "hide" not in first and lines
            and max(map(len, lines)) > READERS_WIDTH]
    assert not wide, f"cells with lines over {READERS_WIDTH} columns: {wide}"

def in_text(source):
    "Lines of the blocks of code that stand in a Markdown cell."
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", source, flags=re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]

@each_notebook
def test_width_of_code_in_text(path):
    "A column of the site has room for a line of exported code, and for no wider one."
    nb = json.loads(path.read_text(encoding="utf-8"))
    texts = ["".join(c["source"]) for c in nb["cells"] if c["cell_type"] == "markdown"]
    wide = [line for text in texts for line in in_text(text) if len(line) > EXPORTED_WIDTH]
    assert not wide, f"lines over {EXPORTED_WIDTH} columns: {wide}"

# Outputs that are wider: one sentence, which `print` does not wrap and the site does.
WIDE_OUTPUTS = {
    "2e3c0ddc": "print(run), as every user will type it",
    "7ebb5c06": "print(run), the same",
    "f927b234": "the library's error messages",
    "808e4725": "other accountants' own error messages",
    "bb505036": "the same",
    "2a81f8c8": "versions, in one line",
    "8c7cdb9a": "two sentences on other accountants",
}

def printed(cell):
    "The lines that a cell has printed, or shows as text alone."
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if not {"image/png", "text/html"} & set(data):
            yield from "".join(output.get("text", data.get("text/plain", ""))).splitlines()

@pytest.mark.parametrize("path", OTHERS, ids=page)
def test_width_of_what_is_printed(path):
    nb = json.loads(path.read_text(encoding="utf-8"))
    wide = {cell["id"]: len(line) for cell in nb["cells"] for line in printed(cell)
            if len(line) > READERS_WIDTH and cell["id"] not in WIDE_OUTPUTS}
    assert not wide, f"outputs with lines over {READERS_WIDTH} columns: {wide}"

@each_chapter
def test_exercises_begin_their_cells(path):
    "docs/source.py makes a box of a cell that begins with an exercise, and a fold of its solution."
    nb = json.loads(path.read_text(encoding="utf-8"))
    texts = ["".join(c["source"]) for c in nb["cells"] if c["cell_type"] == "markdown"]
    late = [text for text in texts if "\n**Exercise " in text]
    assert not late, f"exercises within a cell: {late}"

@pytest.mark.parametrize("name", ["engine/many"])
def test_engineering_comes_last(name):
    "By hand first; checked arguments, rounding and brackets in the last section of the text."
    nb = json.loads((ROOT/"nbs"/f"{name}.ipynb").read_text(encoding="utf-8"))
    text = "\n".join("".join(c["source"]) for c in nb["cells"] if c["cell_type"] == "markdown")
    sections = re.findall(r"^## (.*)", text, flags=re.M)
    assert sections[-3:] == ["Engineering", "Exercises", "Summary and sources"]
    assert 0 < re.search("by hand", text, flags=re.I).start() < text.index("\n## Engineering")

# --- numbers

FREE = {0, 1, 2, .5, 1j}

class Numbers(ast.NodeVisitor):
    """Collects the numbers that stand bare. Named are: the value of an UPPER_CASE name (at the head
    of a module
    or of a class), the default of a parameter or a field, and whole numbers that count axes, orders
    or places:
    in an index, an axis=, a shape, a round(x, n), a format."""
    def __init__(self):
        self.bare = []

    def visit_Assign(self, node):
        names = [t.id for target in node.targets for t in ast.walk(target)
                 if isinstance(t, ast.Name)]
        if not (names and all(name.strip("_").isupper() for name in names)):
            self.generic_visit(node)

    def visit_AnnAssign(self, node):    # a field and its default
        pass

    def visit_arguments(self, node):    # a parameter and its default
        pass

    def visit_Subscript(self, node):    # a place
        self.visit(node.value)

    def visit_keyword(self, node):
        if node.arg not in ("axis", "ndmin", "minlength"):
            self.generic_visit(node)

    def visit_FormattedValue(self, node):
        self.visit(node.value)

    def visit_Constant(self, node):
        number = isinstance(node.value, (int, float, complex)) and not isinstance(node.value, bool)
        if number and node.value not in FREE:
            self.bare.append((node.lineno, node.value))

def bare_numbers(path):
    visitor = Numbers()
    visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
    return visitor.bare

# Lines that may keep a bare number: {module: {text that the line holds: why}}.
EXCUSED = {
    "engine.line": {
        "(3, 1)": "a shape: lower, estimate, upper",
        "pieces = 8": "of the spline, which is defined by it",
    },
    "engine.solve": {
        "reshape(3, 2, -1)": "a shape: lower, estimate, upper, at two places each",
    },
    "engine.ways": {
        "reshape(-1, 3)": "a shape: lower, estimate, upper",
        "checks.count(64": "the least node budget, as the message says",
    },
}

@each_module
def test_numbers_have_names(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    excused = EXCUSED.get(dotted(path), {})
    bare = [(i, x) for i, x in bare_numbers(path)
            if not any(text in lines[i - 1] for text in excused)]
    assert not bare, f"{len(bare)} numbers without a name, as (line, number): {bare}"

def test_the_rules_can_be_broken(tmp_path):
    "A module that breaks them is noticed."
    bad = tmp_path/"bad.py"
    bad.write_text("LIMIT = 760\nx = 3.5*y[7]; z = 2*x\nif x: y = 1\ndef f(a, b=9): return a\n")
    page = {"id": "x", "outputs": [{"text": ["a\n", "b"*89]}, {"data": {"text/html": "c"}}]}
    assert [len(line) for line in printed(page)] == [1, 89]
    assert in_text("text\n```sh\none \\\n  two\n```\n`three`\n```\nfour\n```") == [
        "one \\", "  two", "four"]
    assert bare_numbers(bad) == [(2, 3.5)]
    assert joined(bad) == [2]
