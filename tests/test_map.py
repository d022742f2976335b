"""The map of the book, nbs/map.ipynb: its table says what its picture and the library say, its
minutes are those of the pages, and it is where readers look first."""
import ast
import json
import re
from functools import lru_cache
from statistics import median

import pytest
import source

import dp_saddle
from house import BOOK, DOORS, NBS, ROOT

PAGE = NBS/"map.ipynb"
WORDS_A_MINUTE, LINES_A_MINUTE = 200, 20
SHOWN_AS = {"cdf": "cdf or curve", "curve": "cdf or curve"}    # one column of the picture
UNITS = {"s": 1., "ms": 1e-3, "µs": 1e-6}

@lru_cache(None)
def cells(path): return json.loads(path.read_text(encoding="utf-8"))["cells"]

def text(cell): return "".join(cell["source"])

def table(heading):
    "The rows of the first table below a heading of the map, as lists of strings."
    page = "\n\n".join(text(c) for c in cells(PAGE) if c["cell_type"] == "markdown")
    lines = page[page.index(f"## {heading}\n"):].split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    rows = lines[start + 1:]
    end = next((i for i, line in enumerate(rows) if not line.startswith("|")), len(rows))
    return [[part.strip() for part in row.strip("|").split(" | ")] for row in rows[:end]]

def methods():
    "[(class, known, comes out, cost)] of the table of methods."
    return [(re.search(r"`(\w+)", row[0])[1], *row[2:]) for row in table("The methods")]

def picture(name="METHODS"):
    "{name in the picture: (style, what is known, what comes out)}, or another table of its cell."
    drawn = next(text(c) for c in cells(PAGE) if "METHODS = {" in text(c))
    return next(ast.literal_eval(node.value) for node in ast.parse(drawn).body
                if isinstance(node, ast.Assign) and node.targets[0].id == name)

def test_the_classes_are_there():
    assert len(methods()) > 10
    for name, *_ in methods(): assert getattr(dp_saddle, name), name

def test_the_picture_shows_the_table():
    "Each place of the picture that holds a method has one in the table, and the other way round."
    told = {(SHOWN_AS.get(known, known), out) for _, known, out, _ in methods()}
    assert told == {(known, out) for _, known, out in picture().values()}

def test_the_picture_names_the_chapters():
    "The number behind a name is that of the chapter which the table links to."
    drawn = {int(number) for name in picture() for number in re.findall(r", (\d+)$", name)}
    linked = {int(n) for row in table("The methods") for n in re.findall(r"\]\((\d\d)_", row[0])}
    assert drawn == linked

def test_arrows():
    "Each goes from one method to another, and the text below has a link to what is done there."
    told = next(text(c) for c in cells(PAGE) if "An arrow says" in text(c))
    for done, ends in picture("ARROWS").items():
        assert set(ends) < picture().keys(), ends
        assert f"[{done}](".replace("\n", " ") in told, done

def test_costs_are_those_of_the_benchmark():
    "Within a factor of three: the table promises orders of magnitude."
    data = json.loads((NBS/"benchmark.json").read_text(encoding="utf-8"))
    place, known = data["columns"].index("seconds"), 0
    for name, _, _, cost in methods():
        rows = data["rows"].get(name)
        if rows is None: continue
        number, unit = re.match(r"([\d.]+) (\w+)", cost).groups()
        seconds = median(row[place] for row in rows.values() if row and row[place])
        assert 1/3 < float(number)*UNITS[unit]/seconds < 3, (name, cost, seconds)
        known += 1
    assert known > 6

def minutes(page, words_a_minute=WORDS_A_MINUTE, lines_a_minute=LINES_A_MINUTE):
    "As the map counts them: without folds and exercises."
    words = lines = 0
    for cell in cells(page):
        if cell["cell_type"] == "markdown":
            if re.match("## Exercises", text(cell)): break
            shown = re.sub(r"<details>.*?</details>|\$\$.*?\$\$", "", text(cell), flags=re.S)
            words += len(shown.split())
        elif not re.search(r"^#\| *(hide|code-fold)", text(cell), flags=re.M):
            lines += sum(bool(line.strip()) for line in text(cell).splitlines())
    return words/words_a_minute + lines/lines_a_minute

@pytest.mark.parametrize("heading", ["Routes", "One paper"])
def test_minutes(heading):
    "To ten minutes or a quarter; of a chapter that is read in part, at most."
    counted = 0
    for row in table(heading):
        links = re.split(r", (?=\[)", row[1])
        said = row[2].split(" + ")
        assert len(row) == 4 and row[3], f"say when to skip: {row[0]}"
        if not re.fullmatch(r"[\d +]+", row[2]): continue
        assert len(links) == len(said), row
        for link, number in zip(links, said, strict=True):
            true = minutes(NBS/re.search(r"\]\(([^)#]+)", link)[1])
            part = re.search(r"up to|without", link)
            assert float(number) < max(true + 10, 1.25*true), (link, true)
            assert part or float(number) > min(true - 10, .75*true), (link, true)
            counted += 1
    assert counted > 6

@pytest.mark.parametrize("page", BOOK, ids=lambda page: page.stem)
def test_no_chapter_takes_more_than_an_hour(page):
    "Nor for whoever stops at each line: 75 words a minute, 15 lines of code."
    assert 20 < minutes(page, 75, 15) < 60

def test_every_paper_has_a_route_of_three_or_four_pages():
    rows = table("One paper")
    assert [re.match(r"\[(\w+)\]", row[0])[1] for row in rows] == ["SP", "EA", "PRV", "FA", "GDP"]
    assert all(3 <= row[1].count(".ipynb") <= 4 for row in rows)
    assert all("](papers/" in row[1] for row in rows)

def test_the_engine_room_is_all_there():
    "Each of its folders, as the site has them."
    rooms = {re.match(r"\[(\w+)\]", row[0])[1] for row in table("The engine room")}
    assert rooms == DOORS.keys() - {"accounting", "practice", "command", "interop"}
    for row in table("The engine room"): assert row[1].endswith("."), row

def test_the_site_keeps_its_links():
    "docs/source.py turns a link to a cell into one only where a cell's name is its text."
    page = "\n\n".join(text(c) for c in cells(PAGE) if c["cell_type"] == "markdown")
    assert not re.search(r"cell-id=", re.sub(source.CELL, "", page))
    assert "engine/line.ipynb#the-cut-of-the-sum)" in source.places_in(page)

def test_the_map_comes_first():
    "The first page that the README links to."
    readme = (ROOT/"README.md").read_text(encoding="utf-8")
    assert re.search(r"\]\(([^)\s]+\.ipynb)", readme)[1] == "nbs/map.ipynb"
