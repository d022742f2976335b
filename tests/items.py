"""Mutants of the papers' items: items.json changes one constant, sign or hypothesis for each item,
and the cell that checks the item has to notice.

    python tests/items.py 'EA Theorem 1' 'FA Lemma 7'

An entry {"cell": the checking cell, "text": what stands there, "becomes": what the mutant says} may
name, as "in", another cell of the notebook whose text changes. Of a notebook those cells run whose
names the checking cell needs: as they stand, and then with each change. A mutant is killed by an
assertion that fails, never by another error. Prints {item: "killed", "survived" or the error}."""
import argparse
import ast
import functools
import json
import os
import sys
from pathlib import Path

from house import NOTEBOOKS
from notebooks import Shell

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent/"docs"))
sys.modules.setdefault("rfc3987_syntax", None)      # as in conftest.py
import runnable  # noqa: E402

MUTANTS = json.loads((HERE/"items.json").read_text(encoding="utf-8"))
KILLED = "killed"


@functools.cache
def code_cells(path):
    "{id: source} of a notebook, in its order."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    read = {c["id"]: "".join(c["source"]) for c in cells if c["cell_type"] == "code"}
    return {id: source for id, source in read.items() if "#| eval: false" not in source}


def needed(cells, last):
    "The ids of the cells whose names the cell `last` reads, in order, and itself."
    above = {}
    for id, source in cells.items():
        one = {"tree": ast.parse(source), "shown": "#| hide" not in source}
        if id == last:
            places = runnable.needs(list(above.values()), one["tree"], written=True)
            return [*(list(above)[k] for k in places), last]
        above[id] = one | {"library": None, "exported": False, "no": ""}
    raise KeyError(last)


class Book:
    "A notebook, run as far as its cells need it."

    def __init__(self, cells, shell):
        self.cells, self.shell, self.done = cells, shell, set()

    def run(self, ids, change=None):
        """The error of the first of these cells that fails, or None. `change` is a cell and what
        stands there instead."""
        for id in ids:
            self.shell.run(change[1] if change and change[0] == id else self.cells[id])
            if self.shell.exc:
                return self.shell.exc
        return None

    def judge(self, mutant):
        "What becomes of a mutant: KILLED, or what happened else."
        ids, place = needed(self.cells, mutant["cell"]), mutant.get("in", mutant["cell"])
        source = self.cells[place]
        if place not in ids or source.count(mutant["text"]) != 1:
            return "its text does not stand there once"
        *above, check = ids
        lacking, order = [id for id in above if id not in self.done], list(self.cells)
        if lacking and max(map(order.index, self.done), default=-1) > order.index(lacking[0]):
            lacking, self.done = above, set()          # never a cell after a later one
        if error := self.run(lacking):
            return f"as it stands: {error!r}"
        self.done |= set(above)
        before = dict(self.shell.user_ns)
        for _ in range(2):           # it passes again: nothing that it changes kills a mutant
            if error := self.run_and_forget([check], before):
                return f"as it stands: {error!r}"
        again, wrong = ids[ids.index(place):], source.replace(mutant["text"], mutant["becomes"])
        error = self.run_and_forget(again, before, (place, wrong))
        self.run(again[:-1])                           # their methods, as they stand
        if isinstance(error, AssertionError):
            return KILLED
        return f"another error: {error!r}" if error else "survived"

    def run_and_forget(self, ids, before, change=None):
        "The error as of `run`; afterwards the names are those of `before`."
        error = self.run(ids, change)
        self.shell.user_ns.clear()
        self.shell.user_ns.update(before)
        return error


def judge(items):
    "{item: what became of its mutant}, each notebook's in the order of its cells."
    found = {}
    for path in NOTEBOOKS:
        order = list(code_cells(path))
        here = sorted((item for item in items if MUTANTS[item]["cell"] in order),
                      key=lambda item: order.index(MUTANTS[item]["cell"]))
        if here:
            os.chdir(path.parent)
            book = Book(code_cells(path), Shell(path))
            found |= {item: book.judge(MUTANTS[item]) for item in here}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("items", nargs="*", help="'EA Theorem 1'; all, if none is named")
    print(json.dumps(judge(parser.parse_args().items or MUTANTS), indent=1))


if __name__ == "__main__":
    main()
