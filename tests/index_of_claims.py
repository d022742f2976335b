"""All claims of the book, with the constants that rest on each and where they are tested: a part of
nbs/base/constants.ipynb. `python tests/index_of_claims.py` writes it again."""
import json
import re
from typing import NamedTuple

import house
from claims import CHECKS
from house import BOOK, NBS, NOTEBOOK_OF, ROOT
from test_constants import PAGE, TABLE

CELL = "0c1a1b5b"      # of the page, which holds the index
CLAIM = re.compile(r"\*{2,3}(Claim|Theorem|Lemma|Assumption|Definition)(?: \[[^\]]*\])?"
                   r"(?: \(((?:[^()]|\([^()]*\))*)\))?[.*]")
INTRODUCTION = (
    "## Claims, and what rests on them\n\n"
    "Each claim of the book that has a name, where it stands, the constants that say in *why* that "
    "they rest on it, and the tests of its page beside its own asserts. Rounding constants that "
    "name no claim rest on the two of this page, *the standard model* and *functions*; other "
    "numbers without a name have their whole reason in the tables above. (`python "
    "tests/index_of_claims.py` writes this part.)\n\n"
    "| claim | page | constants | tests |\n|---|---|---|---|\n")


class Claim(NamedTuple):
    notebook: object   # its path
    name: str
    anchor: str        # of the heading that it stands below


def cells(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "markdown" and cell["id"] != CELL:
            yield "".join(cell["source"])


def claims(path):
    "Those of a notebook that have a name."
    found, anchor = [], ""
    for line in "\n".join(cells(path)).splitlines():
        if re.match(r"#{1,4} ", line):
            anchor = re.sub(r"^#+ ", "", line).strip().replace(" ", "-")
        named = CLAIM.match(line)
        if named and named[2]:
            found.append(Claim(path, plain(named[2]), anchor))
    return found


def plain(name):
    "Without who proved it, and without what is assumed."
    return re.split(r"; |, ours$|, Theorem |,? \(?[A-Z]\w+ (?:and|et) ", name)[0].strip()


def titles(path):
    "What else a row may name: headings, and words in italics or bold that begin a paragraph."
    for text in cells(path):
        for line in text.splitlines():
            if found := re.match(r"(?:#+ (?:\d+\. )?|> |[-*] )?\*{0,3}([^*]+)", line):
                yield found[1].strip().rstrip(".").lower()


def names(row):
    "The claims that a row names."
    return re.findall(r"(?<![\w*\[])\*([^*]+)\*(?![\w*\]])", row[2])


def said(row):
    "The notebooks that a row mentions."
    pages = re.findall(r"`(\w+/\w+)`|\(\.\./([\w/]+)\.ipynb\)", row[2])
    found = [NBS/f"{a or b}.ipynb" for a, b in pages]
    chapters = re.findall(r"chapter (\d+)|\b(0\d|10)\b", row[2])
    return found + [path for a, b in chapters for path in NBS.glob(f"{int(a or b):02}_*.ipynb")]


CLAIMS = {path: claims(path) for path in dict.fromkeys([*BOOK, *NOTEBOOK_OF.values(), PAGE])}


def place(module, row, name):
    "The Claim of this name, a notebook where it is the title of something, or None."
    near = [path for path in (NOTEBOOK_OF[module], *said(row), PAGE) if path in CLAIMS]
    for path in (*near, *CLAIMS):
        for claim in CLAIMS[path]:
            if claim.name.lower() == name.lower().rstrip("."): return claim
        if path in near and name.lower() in titles(path): return path
    return None


def resting():
    "{claim: [module.NAME, ...]} of all rows."
    found = {}
    for module, rows in TABLE.items():
        for constant, row in rows.items():
            for name in names(row):
                claim = place(module, row, name)
                if isinstance(claim, Claim):
                    found.setdefault(claim, []).append(f"`{module}.{constant}`")
    return found


def line(claim, constants):
    modules = [m for m, path in NOTEBOOK_OF.items() if path == claim.notebook]
    about = modules[0] if modules else claim.notebook.stem.partition("_")[2]
    tests = house.tests_of(about)
    page = claim.notebook.relative_to(NBS).with_suffix("").as_posix()
    link = f"[{page}](../{page}.ipynb#{claim.anchor})"
    where = [f"`{tests.name}`"] if tests else []
    checked = {f"`{module}.{name}`" for module, name, *_ in CHECKS}
    where += ["`claims.py`"] if checked & set(constants) else []
    rest, tested = (", ".join(v) or "-" for v in (constants, where))
    return f"| {claim.name} | {link} | {rest} | {tested} |\n"


def index():
    "The text of the cell."
    rests = resting()
    return INTRODUCTION + "".join(line(c, rests.get(c, [])) for v in CLAIMS.values() for c in v)


def write():
    page = json.loads(PAGE.read_text(encoding="utf-8"))
    where, = (c for c in page["cells"] if c["id"] == CELL)
    where["source"] = index().splitlines(keepends=True)
    PAGE.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
    print(f"{sum(map(len, CLAIMS.values()))} claims into {PAGE.relative_to(ROOT)}")
