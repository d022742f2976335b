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

# What readers stumbled over: each has been said in other words.
ODD = ("would have kept what it reports", "see why one tilts", "on lattices to rounding",
       "where dice do as well", "Around them", "data speak of everyone", "too much from the left",
       "what small losses cannot reach", "a jump that is enough needs", "serve a hundred thousand",
       "both ends of an eps by one tangent", "lies without a blush", "impossible ones are none",
       "Here one pretends", "Who says nothing", "those of the one that decides",
       "needs no ε of its own", "there one that said something", "says nothing three times",
       "on which it may take differences", "are for those who come one by one",
       "is above what has fallen", "one for each shift are enough", "not for what is true",
       "and wait for it", "unless the loss is never so large", "it is what is typical",
       "is asked for what is above", "computed on the way here", "So high that what is above",
       "charge the *other* steps too", "and that is what `lower` says", "It says that one was not",
       "What a loss owes", "The judge is")
# Habits that a pattern finds: "Who trains so asks for ..." of users, chapters by their old numbers,
# headings that nobody looks for; in pictures a title that goes on in the next one.
WHO = re.compile(r"(?:^[-* ]*|[.!?:] )Who [a-z][^.?!]*\.", flags=re.M)
NUMBERED = re.compile(r"\bchapter 0\d")
RIDDLE = re.compile(r"\b(again|all of it|most of it|nobody|nothing|owes?|straight up)\b",
                    flags=re.I)
TORN = re.compile(r"""title[=(]\s*f?['"](…|\.\.\.|(?:and|but|or|than|along|with|which)\b)""")
WORDS_A_MINUTE = 120                # of who follows each line

def odd_in(text): return [words for words in ODD if words in " ".join(text.split())]

def test_what_readers_stumbled_over():
    library = sorted((ROOT/"dp_saddle").rglob("*.py"))
    said = {path.name: odd_in(markdown(path)) for path in [*READ, *library]}
    assert not any(said.values()), said
    assert odd_in("and around it, where dice\ndo as well") == ["where dice do as well"]

def habits_of(cells):
    "What the patterns find: in texts, in headings, in alternative texts, in titles of pictures."
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield from (m[0] for m in WHO.finditer(prose(source)))
            yield from (m[0] for m in NUMBERED.finditer(source))
            yield from (line for line in source.splitlines()
                        if line.startswith("#") and RIDDLE.search(line))
        else:
            yield from (m[0] for m in TORN.finditer(source))
        image = cell["metadata"].get("mystnb", {}).get("image", {})
        yield from (m[0] for m in NUMBERED.finditer(image.get("alt", "")))

@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_habits_that_a_pattern_finds(path):
    assert not list(habits_of(json.loads(path.read_text(encoding="utf-8"))["cells"]))

def test_the_patterns_find_them():
    "And leave a question, `Whoever`, and a title that is whole."
    def cell(kind, source, **meta): return {"cell_type": kind, "source": source, "metadata": meta}
    alt = {"image": {"alt": "the points of chapter 01"}}
    for bad in (cell("markdown", "It ends. Who trains so asks for a run."),
                cell("markdown", "as in chapter 04"), cell("markdown", "## Ours again, here"),
                cell("code", "ax.set(title='than one of 0.1')"), cell("code", "1", mystnb=alt)):
        assert list(habits_of([bad])), bad
    good = ["Who pays?", "Whoever trains asks.", "Chapter 4 does.", "## Who pays"]
    assert not list(habits_of([cell("markdown", text) for text in good]))
    assert not list(habits_of([cell("code", "ax.set_title('The interval: than and but')")]))

def test_a_term_of_the_book_is_defined():
    "What is said of every computed value is a row of the glossary."
    rows = re.findall(r"^\| (off by|ULP|filter|certificate) \| ",
                      markdown(ROOT/"nbs"/"glossary.ipynb"), flags=re.M)
    assert sorted(rows) == ["ULP", "certificate", "filter", "off by"]

def test_users_own_words():
    "Per-example, per-sample, noise multiplier: where users look first."
    for name in ("five_minutes", "glossary", "faq"):
        text = markdown(ROOT/"nbs"/f"{name}.ipynb").lower()
        assert "per-example" in text and "per-sample" in text, name
        assert "noise multiplier" in text or "noise_multiplier" in text, name

def test_the_preface_takes_as_long_as_it_says():
    "Its text, without what is folded and without the exercises."
    text = re.sub(r"<details>.*?</details>|\$\$.*?\$\$", "", markdown(ROOT/"nbs"/"preface.ipynb"),
                  flags=re.S)
    before, after = text.split("## Exercises")
    words = len(before.split()) + len(after[after.find("\n## "):].split())
    said = int(re.search(r"preface takes (\d+) minutes to read", text)[1])
    assert said - 5 <= words/WORDS_A_MINUTE <= said, words
    index = markdown(ROOT/"nbs"/"index.ipynb")
    assert "loss variable in a quarter of an hour" in index and f"Preface ({said})" in index
    for hours, route in ((1/2, "Half an hour, "), (2, "Two hours, ")):
        line = next(line for line in index.splitlines() if line.startswith(f"- **{route}"))
        assert 50*hours < sum(map(int, re.findall(r"\((\d+)\)", line))) <= 60*hours, line
