"""The tables of the three explorers that take longest, in explorers.npz, so that a build need not
make them: `python docs/explorer_tables.py` does, in a minute. tests/test_widgets.py asks the
library whether they are what it says, some settings in the ordinary run and all in the slow one. A
figure with other sliders, another axis or other lines than its table had is tabulated anew."""
import json
from pathlib import Path

import numpy as np

from dp_saddle import widgets
from dp_saddle.base import explorer

FILE = Path(__file__).resolve().parent/"explorers.npz"
CALLS = "explore_curve()", "explore_tradeoff()", "explore_edgeworth()"
PARTS = "lines", "marks", "numbers"
# Computed numbers differ in their last bits between processors: what is the same agrees to this.
SAME = dict(rtol=1e-9, atol=1e-15)

def asked(figure):
    "What a table depends on, besides the library's answers: (words, numbers)."
    axes = sorted(figure.axes.items())
    words = [axis for axis in axes if isinstance(axis[1], str)]
    limits = [value for _, value in axes if not isinstance(value, str)]
    numbers = [figure.x, *(s.values for s in figure.sliders), *limits]
    names = [s.name for s in figure.sliders], [len(part) for part in numbers]
    text = json.dumps([names, words, figure.lines, figure.marks, figure.numbers])
    return text, np.concatenate(numbers)

def kept(call, figure, file=FILE):
    "(lines, marks, numbers) as `tabulate` gives them; None where there are none for this figure."
    if not file.exists(): return None
    words, numbers = asked(figure)
    with np.load(file) as tables:
        if call not in tables or str(tables[call]) != words: return None
        if not np.allclose(tables[f"{call} asked"], numbers, **SAME): return None
        return tuple(tables[f"{call} {part}"] for part in PARTS)

def made(call):
    "The figure that a call of this text makes."
    return eval(call, {name: getattr(widgets, name) for name in widgets.__all__})

def page(call):
    "The figure's HTML."
    figure = made(call)
    if table := kept(call, figure):
        lines, marks, numbers = table
        explorer.tabulate = lambda _: (lines, marks, [tuple(row) for row in numbers.tolist()])
    return figure.page()

def write():
    "All tables, anew."
    found = {}
    for call in CALLS:
        figure = made(call)
        found[call], found[f"{call} asked"] = asked(figure)
        for part, table in zip(PARTS, explorer.tabulate(figure)):
            found[f"{call} {part}"] = np.array(table)
    np.savez_compressed(FILE, **found)

if __name__ == "__main__":
    write()
