"""The words of the book: one spelling, the British one, and a word for one thing."""
import json
import re

import pytest

from test_project import ROOT, notebooks

# American spellings, by their beginnings; beside each a word of the same beginning that is none.
AMERICAN = re.compile(r"""\b(
    analyz | artifact | behavior | cancel(ed|ing)\b | catalog\b | center | color | defense | favor |
    fulfill\b | gray\b | honor | label(ed|ing)\b | labor\b | license\b | model(ed|ing)\b |
    neighbor | percent\b | program(ed|ing)\b | skeptic | toward\b | travel(ed|ing)\b | tumor |
    (character|equal|factor|final|formal|general|initial|linear|local|maxim|minim|normal|optim|
     organ|parametr|quant|random|real|recogn|regular|special|stabil|standard|summar|symmetr|
     util|vector)iz
    )""", flags=re.X | re.I)
# Code, formulas, titles and quotations keep their spelling, and so does what a link leads to.
KEPT = re.compile(r"```.*?```|^ {4,}[^\n]*$|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$|"
                  r"(?<![*\w])\*[^*\n]+\*(?![*\w])|\"[^\"\n]*\"|\]\([^)\s]*\)|https?://\S+",
                  flags=re.S | re.M)

def prose(text): return KEPT.sub(" ", text)

def found(text): return [m[0] + text[m.end():m.end() + 12] for m in AMERICAN.finditer(text)]

def markdown(path):
    "The text of a notebook, or of a file of text."
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb": return text
    cells = (c for c in json.loads(text)["cells"] if c["cell_type"] == "markdown")
    return "\n\n".join("".join(c["source"]) for c in cells)

READ = [*notebooks(), *(ROOT/name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]

@pytest.mark.parametrize("path", READ, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_spelling_is_british(path):
    assert not found(prose(markdown(path)))

def test_the_list_knows_both():
    "The check itself: what it finds, and what it leaves."
    for word in ("randomized", "Neighboring", "a gray line", "ten percent", "the center"):
        assert found(word), word
    kept = ("randomised", "neighbouring", "size", "promise", "metric", "reality", "a percentage",
            "the *Randomized Response* of 1965", "`center`", "realise", "towards", "general")
    assert not found(prose(" ".join(kept)))
