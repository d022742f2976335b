"""The engine room, and the folders of "Using it", for those who come to them: each page says who
needs it and what its one result is, and the site says who uses it."""
import re
from functools import lru_cache
from importlib import import_module

import nbformat
import pytest
import source

from house import DOORS, NBS, NOTEBOOKS

ROOMS = source.PARTS["Using it"] + source.PARTS["The engine room"]
PAGES = [path for path in NOTEBOOKS if path.stem != "index"
         and path.relative_to(NBS).as_posix().startswith(tuple(ROOMS))]
HEAD = re.compile(r"\*\*You need this if\*\* (.+?)\. \*\*Its one result\*\*: (.+?)\.$", flags=re.M)

def name_of(path): return path.relative_to(NBS).with_suffix("").as_posix()

@lru_cache(None)
def notebooks(): return {name_of(path): nbformat.read(path, as_version=4) for path in NOTEBOOKS}

@lru_cache(None)
def known():
    "(The page of each module, the title of each page)."
    titles = {name: source.title_of(nb) for name, nb in notebooks().items()}
    return source.chapters(notebooks()), titles

def used_by(name): return source.used_by(name, *known())

def first_text(name):
    return next(c.source for c in notebooks()[name].cells if c.cell_type == "markdown")

@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_says_who_needs_it(path):
    "Below its title and its summary, once; in plain sentences, each with its own words."
    need, result = HEAD.search(first_text(name_of(path))).groups()
    assert 20 < len(need) < 250 and 20 < len(result) < 250
    assert not re.search(r"used by", f"{need} {result}", flags=re.I), "the site says that"

@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_who_uses_it_is_there(path):
    "Each link of the sentence leads to a page, and none to the page itself."
    text = used_by(name_of(path))
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links or text == "**Used by** no other page: it is for readers and users."
    assert all((path.parent/link).resolve() in NOTEBOOKS for link in links)
    assert not [link for link in links if (path.parent/link).resolve() == path]

def test_who_uses_the_lattices():
    "Two other folders import `LatticeLoss` from the engine's door."
    assert used_by("prv_fft/lattices") == (
        "**Used by** [More kinds of steps](../steps/index.ipynb) and "
        "[Ways to draw batches](../sampling/index.ipynb).")
    assert used_by("certificates/verification") == "**Used by** [Certificates](" \
        "../certificates/files.ipynb)."

def test_pages_of_a_folder_come_before_other_folders():
    found = used_by("base/checks")
    assert "(pictures.ipynb)" not in found and "(../base/pictures.ipynb)" in found
    assert found.index("(../base/explorer.ipynb)") < found.index("(../edgeworth/index.ipynb)")

def test_the_site_says_it_below_the_result():
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(first_text("engine/line"))])
    source.with_users(nb, "engine/line", *known())
    assert re.search(r"rounding\. \*\*Used by\*\* \[", nb.cells[0].source)

@pytest.mark.parametrize("folder", DOORS)
def test_help_of_a_door_is_enough(folder):
    "What the folder is for, its protocol, and a meaning for each name."
    door = import_module(f"dp_saddle.{folder}")
    said = door.__doc__
    assert "You need this folder if" in said and "Its protocol" in said
    assert max(map(len, said.splitlines())) <= 100
    rows = dict(re.findall(r"^    (\w+): (\S.*)$", said, flags=re.M))
    assert rows.keys() == set(door.__all__)
    assert not re.search(r"\*\*|\]\(", said)
