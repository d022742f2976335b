"""One style of picture: colours far apart for everybody, no others in the book, nothing blurred,
and names that stand beside their curves."""
import ast
import base64
import json
import re
import struct
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from dp_saddle.base import pictures
from dp_saddle.base.pictures import (
    COLOURS,
    METHODS,
    STYLES,
    band_of,
    contrast,
    distance,
    lab_of,
    label_lines,
    least_distance,
    shades,
    style_of,
    use_style,
)

ROOT = Path(__file__).resolve().parent.parent
def page(path): return path.relative_to(ROOT/"nbs").with_suffix("").as_posix()

BOOK = [p for p in sorted((ROOT/"nbs").rglob("*.ipynb"))
        if not any(part.startswith(("_", ".")) for part in p.relative_to(ROOT).parts)]
each_notebook = pytest.mark.parametrize("path", BOOK,
                                        ids=lambda p: p.relative_to(ROOT/"nbs").as_posix())
APART, NEAR, LINE_CONTRAST = 25, 2.3, 3

# --- the palette

def test_colours_are_far_apart_for_everybody():
    "Least distance in CIE Lab under normal sight, protanopia and deuteranopia."
    assert least_distance(COLOURS) > APART
    assert all(contrast(c) > LINE_CONTRAST for c in COLOURS)
    assert distance("#ff7f0e", "#2ca02c") < 5     # what one gets without a palette

def test_methods_differ():
    "No two look alike: another colour, or, of one family, another line."
    for a, b in combinations(METHODS.values(), 2):
        assert distance(a.color, b.color) > APART or (a.color == b.color
                                                      and a.linestyle != b.linestyle)
    assert {s.color for s in STYLES.values()} <= set(COLOURS)

@pytest.mark.parametrize("name", [None, "contour", "prv", "saddle", "edgeworth", "fourier"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_families_go_from_dark_to_light(name, n):
    family = [s["color"] for s in shades(n, name)]
    light = [[lab_of(c, v)[0] for c in family] for v in pictures.VISION]
    assert (np.diff(light, axis=1) > NEAR).all()
    lines = [str(s["linestyle"]) for s in shades(n, name)]
    assert all(a != b for a, b in zip(lines, lines[1:]))

def test_lab_of_known_colours():
    "Red, green and blue of a screen, as tables of CIE Lab with the white D65 have them."
    known = {"#ff0000": (53.24, 80.09, 67.20), "#00ff00": (87.73, -86.18, 83.18),
             "#0000ff": (32.30, 79.19, -107.86), "#808080": (53.59, 0, 0)}
    for colour, lab in known.items():
        assert np.allclose(lab_of(colour), lab, atol=.03)

def test_greys_look_grey_to_everybody():
    for grey in ("#000000", "#555555", "#c0c0c0", "#ffffff"):
        for vision in pictures.VISION:
            assert np.allclose(lab_of(grey, vision), lab_of(grey), atol=.1)

def test_the_library_draws_with_the_palette():
    from dp_saddle import Gaussian, plot_curve, plot_rdp, plot_tradeoff
    for draw in (plot_curve, plot_tradeoff, plot_rdp):
        ax = draw(Gaussian(sigma=1.))
        assert {line.get_color() for line in ax.lines} <= set(COLOURS)
        plt.close(ax.figure)

# --- the book

DRAWS = {"plot", "semilogy", "semilogx", "loglog", "fill_between", "axhline", "axvline", "hist",
         "bar", "barh", "errorbar", "step", "scatter", "contour", "contourf", "imshow", "text",
         "annotate", "legend"}
LOOKS = {"color", "c", "colors", "mfc", "facecolor", "edgecolor", "cmap"}
ALLOWED = {"white", "w", "none", "Greys"}     # on an image; not filled; under coloured lines
LETTER = re.compile(r"C\d|[bgrcmyk]|tab:")

def cells(path):
    "(id, source, outputs) of the code cells."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield cell["id"], "".join(cell["source"]), cell["outputs"]

def parsed(source):
    return ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.M))

def own_colours(source):
    "Colours that a cell gives its lines by itself, as strings."
    found = []
    for node in ast.walk(parsed(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in DRAWS:
            continue
        named = [k.value for k in node.keywords if k.arg in LOOKS]
        found += [v.value for v in named if isinstance(v, ast.Constant) and isinstance(v.value, str)
                  and v.value not in ALLOWED]
        formats = [] if node.func.attr in ("text", "annotate") else node.args[1:]
        found += [v.value for v in formats if isinstance(v, ast.Constant)
                  and isinstance(v.value, str) and LETTER.match(v.value)]
        found += [v for v in formats if isinstance(v, ast.JoinedStr)]
    return found

@each_notebook
def test_no_other_colours(path):
    "A colour is looked up by the name of its method; nothing else sets matplotlib's settings."
    for key, source, _ in cells(path):
        if page(path) == "base/pictures" and "#| export" in source:
            continue                                            # where they are kept
        assert not own_colours(source), (key, own_colours(source))
        assert not re.search(r"rcParams\.update|style\.use|rcParams\[[^]]*\] *=", source), key
        if page(path) != "base/pictures":
            assert not re.search(r"""['"]#[0-9a-fA-F]{6}['"]""", source), key
            assert not re.search(r"""['"](C\d|tab:\w+)['"]""", source), key

def size(png):
    "Width and height of a PNG file, pixels."
    return struct.unpack(">II", base64.b64decode(png)[16:24])

@each_notebook
def test_pictures_are_sharp(path):
    "Two pixels for each that a page gives them, and enough of those."
    for key, _, outputs in cells(path):
        for output in outputs:
            png = output.get("data", {}).get("image/png")
            if png is None:
                continue
            wide, _ = size("".join(png))
            shown = output["metadata"].get("image/png", {}).get("width")
            assert shown and wide >= 2*shown >= 700, (key, wide, shown)

# Pages of the classes of a chapter, which has the pictures.
CLASSES = ("plrv/", "mechanisms/", "saddlepoint/", "edgeworth/", "prv_fft/", "filters/",
           "individual/", "accounting/", "widgets/")

def test_every_chapter_has_a_picture():
    "What there is to see in it."
    without = {page(path) for path in BOOK if path.stem != "index"
               and not page(path).startswith(CLASSES)
               if not any("image/png" in o.get("data", {}) for *_, out in cells(path) for o in out)}
    assert without <= {"glossary", "base/constants", "base/texts", "base/checks", "base/progress",
                       "base/traces", "practice/training_configs", "practice/histories",
                       "command/main", "command/words", "interop/events", "interop/pfl",
                       "papers/items", "base/doors", "faq",
                       "your_run"}                         # its pictures are drawn by its form

def test_the_rules_can_be_broken():
    "A cell that draws as it likes is noticed."
    assert own_colours("ax.plot(x, y, 'k--')") == ["k--"]
    assert own_colours("plt.axhline(1, color='gray')") == ["gray"]
    assert len(own_colours("ax.semilogy(x, y, f'C{i}')")) == 1
    assert not own_colours("ax.plot(x, y, 'o', **style_of('contour'))\nax.axvline(3, c='w')")

# --- names beside curves

@pytest.fixture
def ax():
    with plt.rc_context():
        use_style()
        figure, ax = plt.subplots(layout="constrained")
        yield ax
        plt.close(figure)

def written(ax):
    return {text.get_text(): text for text in ax.texts}

def test_names_stand_beside_their_curves(ax):
    "In the colour of the curve, inside the axes, and nearest to it of all."
    x = np.linspace(0, 1, 50)
    heights = {"low": 0., "middle": 1., "high": 2.}
    for (name, height), style in zip(heights.items(), shades(3)):
        ax.plot(x, height + x, label=name, **style)
    assert label_lines(ax) == []
    names = written(ax)
    assert set(names) == set(heights)
    for line in ax.lines:
        text = names[line.get_label()]
        assert to_rgb(text.get_color()) == to_rgb(line.get_color())
        box = text.get_window_extent()
        assert ax.bbox.x0 <= box.x0 and box.x1 <= ax.bbox.x1
        assert ax.bbox.y0 <= box.y0 and box.y1 <= ax.bbox.y1
        x_at, y_at = ax.transData.inverted().transform(((box.x0 + box.x1)/2,
                                                        (box.y0 + box.y1)/2))
        nearest = min(heights, key=lambda k: abs(heights[k] + x_at - y_at))
        assert nearest == line.get_label()

def test_names_do_not_touch(ax):
    for k in range(6):
        ax.semilogy([1, 10], [10.**-k, 10.**(-3*k)],
                    **style_of("contour", label=f"curve {k}"))
    label_lines(ax)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))

def test_what_finds_no_place_is_told_in_a_legend(ax):
    for k in range(24):
        ax.plot([0, 1], [k, k], label="a name that is rather long")
    left = label_lines(ax)
    assert left and len(left) == len(ax.get_legend().get_texts())

def test_bands_are_named(ax):
    ax.fill_between([0, 1], [0, 0], [1, 2], **band_of("prv", label="proved"))
    assert label_lines(ax) == []
    assert to_rgb(written(ax)["proved"].get_color()) == to_rgb(style_of("prv")["color"])

def test_names_do_not_stand_on_bars(ax):
    bars = ax.bar(range(10), range(10), width=1., **band_of("contour"))
    ax.axvline(8, **style_of("bound", label="worst case"))
    assert label_lines(ax) == []
    box = written(ax)["worst case"].get_window_extent()
    assert not any(box.overlaps(bar.get_window_extent()) for bar in bars)

def test_only_words_of_the_table():
    with pytest.raises(ValueError, match="name must be .*'contour'"):
        style_of("countour")
    with pytest.raises(ValueError, match="vision must be"):
        pictures.light_of("#ffffff", "tritanopia")
    with pytest.raises(ValueError, match="n must be"):
        shades(0)
