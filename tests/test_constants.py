"Every constant of the kinds Proved and Rounding is on the page that says why it is enough."
import ast
import json
import re
from pathlib import Path

import pytest

from house import KINDS, MODULES, OTHERS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT/"nbs"/"base/constants.ipynb"
KIND = re.compile(rf"#\s*({'|'.join(KINDS + OTHERS)})\b")
WORDS = "theorem", "derived", "range", "measured", "open"

def constants(text, kinds=KINDS[:2]):
    "Names at the top of a module, of these kinds: by the comment above, or in the line."
    lines, names = text.splitlines(), set()
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign):
            continue
        here = KIND.search(lines[node.lineno - 1])
        kind = here[1] if here else above(lines, node.lineno - 1)
        if kind in kinds:
            names |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return names

def above(lines, i):
    "The kind that the nearest such comment in the same cell gives, if there is no code between."
    for line in reversed(lines[:i]):
        found = KIND.match(line)
        if found:
            return found[1]
        if line.startswith(("# %%", "def ", "class ", "@")):
            return None
    return None

def page_text():
    "The page's cells of text, one after the other."
    cells = json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")

def table():
    "{module: {name: its row}} of the page."
    rows, module = {}, None
    for line in page_text().splitlines():
        heading = re.match(r"### `([\w.]+)`", line)
        module = heading[1] if heading else module
        if line.startswith("| `"):
            columns = [x.strip() for x in re.split(r"(?<!\\)\|", line)[1:-1]]
            named = re.findall(r"`(\w+)`", columns[0])
            assert not set(named) & set(rows.setdefault(module, {})), f"twice: {named}"
            rows[module].update(dict.fromkeys(named, columns))
    return rows

TABLE = table()

@pytest.mark.parametrize("module", MODULES)
def test_every_constant_is_on_the_page(module):
    there = constants(MODULES[module].read_text(encoding="utf-8"))
    said = set(TABLE.get(module, {}))
    assert not there - said, f"say in {PAGE.name} why these are enough: {sorted(there - said)}"
    assert not said - there, f"{PAGE.name} has what {module} has not: {sorted(said - there)}"

def test_every_row_says_why():
    "Of one of the kinds that the page explains; what is bounded is said, too."
    for module, rows in TABLE.items():
        assert module in MODULES
        for name, (_, what, why, _) in rows.items():
            assert len(what) > 5 and why.startswith(WORDS), f"{module}.{name}: {what} | {why}"

def test_the_kinds_are_read_as_they_are_written():
    "A constant without a row would be seen."
    text = ("# Proved: a\nA, B = 1, 2\n# Rounding: b\nC = 3   # of it\n# Tuning: c\nD = 4\n"
            "E = 5   # Rounding: in the line\ndef f():\n    F = 6\nG = 7\n# %% cell\nH = 8\n"
            "# Rounding: i\nI = 9\n# What is served: j\nJ = 10\n")
    assert constants(text) == {"A", "B", "C", "E", "I"}
    assert "FFT_ULPS" in constants(MODULES["prv_fft.circles"].read_text(encoding="utf-8"))
