"""One letter, one meaning: what a chapter defines a letter to be is what the glossary says, or the
glossary says that it means something else there."""
import re

import pytest

from house import BOOK, NBS
from test_words import markdown

PAGES = [NBS/"preface.ipynb", *BOOK]
# "Write $X$ for the ...", "let $X$ be a ...", "with $X$ the ...", "where $X$ is the ..."
SYMBOL, VALUE = r"\$([^$=]+)\$", r"\$([^$=]+)(?:=[^$]*)?\$"
DEFINED = [re.compile(form + r" (?:the|a|an) ([^.;:,]+)") for form in (
    rf"\b[Ww]rite {VALUE} for", rf"\b[Ll]et {VALUE} be", rf"\b(?:with|and) {SYMBOL}",
    rf"\b(?:[Hh]ere|where) {VALUE} is")]
NUMBERS = r"\varepsilon", r"\delta"      # what follows "and $\delta$ the" is a value of theirs
ACCENTED = re.compile(r"\\(?:hat|tilde|bar) ?\{?(\\?\w)")
LETTER = re.compile(r"^(\\[a-zA-Z]+|[A-Za-z])(?:[_^'({].*)?$", flags=re.S)
SAME = 4                 # letters that two words begin with, if they are the same word


def text(path):
    "What is written up to the exercises, without displayed formulas."
    written = re.sub(r"\$\$.*?\$\$", "", markdown(path), flags=re.S)
    return written.split("\n## Exercises")[0]


def letter(symbol):
    "`M` of `M_1(z)`, `hat L` of `\\hat L_i`; None for what is no letter."
    accent = ACCENTED.match(symbol)
    if accent: return f"{accent[0].split()[0].strip('{')[:4]} {accent[1]}"
    found = LETTER.match(symbol.strip())
    return found and found[1]


def words(phrase):
    "The beginnings of its words of three letters and more, but for the commonest."
    return {word[:SAME].lower() for word in re.findall(r"[A-Za-z]{3,}", phrase)
            } - {"the", "with", "and", "for", "that", "whic", "from", "its"}


def definitions(written):
    "[(letter, what it is said to be)]."
    found = [(letter(symbol), what) for form in DEFINED for symbol, what in form.findall(written)]
    return [(symbol, what) for symbol, what in found if symbol not in (None, *NUMBERS)]


def glossary():
    "({letter: [meaning]} of the table, {chapter: {letter}} of second jobs)."
    written = text(NBS/"glossary.ipynb")
    table, second = {}, {}
    for row in re.findall(r"^\| (\$.*)$", written, flags=re.M):
        symbols, _, meaning, *_ = re.split(r" ?\| ", row)
        for symbol in re.findall(r"\$([^$]+)\$", symbols):
            table.setdefault(letter(symbol) or symbol, []).append(meaning)
    jobs = written[written.index("Some letters have a second job"):]
    for job in re.split(r"(?=\bin (?:the preface|chapter|`))", jobs):
        where, *rest = job.split("$", 1)
        letters = {letter(symbol) for symbol in re.findall(r"\$([^$]+)\$", "$".join(["", *rest]))}
        for name in re.findall(r"preface|\b\d+\b", where):
            second.setdefault(name, set()).update(letters - {None})
    return table, second


def unlike(pages):
    "[(chapter, letter, definition)] where the glossary says neither."
    table, second = glossary()
    missed, others = [], {}
    for name, written in pages:
        for symbol, what in definitions(written):
            if symbol in second.get(name, ()): continue
            meant = table.get(symbol) or others.setdefault(symbol, [what])
            if not any(words(what) & words(meaning) for meaning in meant):
                missed.append((name, symbol, what))
    return missed


def chapter(path): return str(int(path.stem[:2])) if path.stem[:2].isdigit() else path.stem


def test_one_letter_has_one_meaning():
    pages = [(chapter(path), text(path)) for path in PAGES]
    assert sum(len(definitions(written)) for _, written in pages) > 30
    missed = unlike(pages)
    assert not missed, "a second meaning, or one for the glossary:\n" + "\n".join(map(str, missed))


@pytest.mark.parametrize("written", [
    r"Write $\sigma$ for the sampling rate.", "with $q$ the noise", "let $K_3$ be a budget",
    r"where $\hat L_i$ is the distance. Let $\hat L$ be a budget",
    "with $c$ the clip, as said. Let $c$ be a number of coins"])
def test_another_meaning_is_noticed(written):
    assert unlike([("1", written)])


def test_the_same_is_not():
    assert not unlike([("1", r"Write $\sigma$ for the standard deviation of the noise")])
    assert not unlike([("9", "with $T$ the total variation"), ("1", "with $c$ the cost"),
                       ("2", "where $c$ is the cost of a step")])
