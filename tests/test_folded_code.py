"""The library's code on the site's pages: folded under the claim it belongs to, as one box; what is
done by hand stands open."""
import re

import nbformat
import pytest
import source

from house import NBS, NOTEBOOKS

OPENED = re.compile(r'<details class="step"><summary>(.*?)</summary>')
FEW = 300       # letters between two boxes of settings that stand in a row


def page_of(*cells):
    "The page of a notebook with these cells: the code, and the text, that readers get."
    nb = nbformat.v4.new_notebook(cells=list(cells))
    return source.page(nb, "chapter", {}, {}, {"5eed0001"}).cells


def code(text, **more): return nbformat.v4.new_code_cell(text, **more)


def text(words): return nbformat.v4.new_markdown_cell(words)


def opened(cells):
    return [OPENED.search(cell.source)[1] for cell in cells if OPENED.search(cell.source)]


def test_cells_in_a_row_are_one_box():
    cells = page_of(
        text("**Claim.** Two and two."),
        code("#| export\nfrom math import exp"),
        code("#| hide\nimport numpy"),
        code("#| export\nA = 1\nB = 2"),
        code("#| export\ndef f(x):\n\n    return x", id="5eed0001"),
        text("Then"),
        code("#| export\n@patch\ndef g(x): return x"))
    assert opened(cells) == ["Code of this step, 5 lines", "Code of this step, 2 lines"]
    kinds = [cell.source if cell.cell_type == "code" else cell.source[:12] for cell in cells]
    end = kinds.index("def f(x):\n\n    return x")
    assert kinds[end + 1].startswith("``````{raw}") and "</details>" in cells[end + 1].source
    anchors = [k for k, cell in enumerate(cells) if 'id="cell-5eed0001"' in cell.source]
    boxes = [k for k, cell in enumerate(cells) if OPENED.search(cell.source)]
    assert len(anchors) == 1 and anchors[0] < boxes[0], "a link leads to what can be seen"
    assert sum("</details>" in cell.source for cell in cells) == 2


def test_settings_are_called_what_they_are():
    imports, numbers = "#| export\nimport math", "#| export\nA = 1"
    assert opened(page_of(code(imports), code(numbers))) == ["Imports and constants"]
    assert opened(page_of(code(imports))) == ["Imports"]
    assert opened(page_of(code(numbers))) == ["Constants"]


def test_by_hand_stands_open():
    "What is not exported; what shows something; a solution, which is folded by itself."
    shows = nbformat.v4.new_output("stream", text="1")
    by_hand = (code("def f(x): return x"), code("#| export\nh()", outputs=[shows]),
               code("#| export\ndef g(): pass", metadata={"tags": ["solution"]}))
    cells = page_of(*by_hand)
    assert opened(cells) == []
    assert not [c for c in cells if "hide-input" in c.metadata.get("tags", [])]


def rows_of_settings(path):
    "The most boxes with imports or constants that stand with little between them."
    nb = nbformat.read(path, as_version=4)
    cells = source.page(nb, path.relative_to(NBS).with_suffix("").as_posix(), {}, {}).cells
    most = row = 0
    for cell in cells:
        box = OPENED.search(cell.source) if cell.cell_type == "markdown" else None
        if box: row = 0 if box[1].startswith("Code") else row + 1
        elif cell.cell_type == "markdown" and (len(cell.source) > FEW or "# " in cell.source):
            row = 0
        most = max(most, row)
    return most


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.relative_to(NBS).as_posix())
def test_settings_are_no_row_of_boxes(path):
    assert rows_of_settings(path) <= 2
