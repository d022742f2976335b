"""The tables of the three explorers that take longest, in explorers.npz, so that a build need not
make them: `python docs/explorer_tables.py` does, in a minute. tests/test_widgets.py asks the
library whether they are what it says, some settings in the ordinary run and all in the slow one. A
figure with other sliders, another axis or other lines than its table had is tabulated anew."""
import hashlib
import json
from pathlib import Path

import numpy as np

from dp_saddle import explorer, widgets

FILE = Path(__file__).resolve().parent/"explorers.npz"
CALLS = "explore_curve()", "explore_tradeoff()", "explore_edgeworth()"

def made_for(figure):
    "What a table depends on, besides the library's answers."
    sliders = [[s.name, s.values] for s in figure.sliders]
    axes = sorted((name, str(value)) for name, value in figure.axes.items())
    asked = sliders, axes, figure.x.tolist(), figure.lines, figure.marks, figure.numbers
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()

def kept(call, figure):
    "(lines, marks, numbers) as `tabulate` gives them; None where there are none for this figure."
    if not FILE.exists(): return None
    with np.load(FILE) as file:
        if call not in file or str(file[call]) != made_for(figure): return None
        return tuple(file[f"{call} {part}"] for part in ("lines", "marks", "numbers"))

def page(call):
    "The figure's HTML."
    figure = eval(call, vars(widgets))
    if table := kept(call, figure):
        lines, marks, numbers = table
        explorer.tabulate = lambda _: (lines, marks, [tuple(row) for row in numbers.tolist()])
    return figure.page()

def write():
    "All tables, anew."
    found = {}
    for call in CALLS:
        figure = eval(call, vars(widgets))
        found[call] = made_for(figure)
        for part, table in zip(("lines", "marks", "numbers"), explorer.tabulate(figure)):
            found[f"{call} {part}"] = np.array(table)
    np.savez_compressed(FILE, **found)

if __name__ == "__main__":
    write()
