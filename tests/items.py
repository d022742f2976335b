"""Mutants of the papers' items: items.json changes one constant, sign or hypothesis for each item,
and the cell that checks the item has to notice.

    python tests/items.py nbs/06_edgeworth.ipynb ['EA Theorem 1' ...]

An entry {"cell": the checking cell, "text": what stands there, "becomes": what the mutant says} may
name, as "in", another cell of the notebook whose text changes. Of a notebook only those cells run
that the checking cell needs: imports, what is exported, and what binds a name that is used. First
all as they stand, then each mutant. It is killed by an assertion that fails, never by another
error. Prints {item: "killed", "survived" or the error}."""
import argparse
import ast
import dis
import json
import os
import types
from pathlib import Path

from notebooks import Shell

HERE = Path(__file__).resolve().parent
MUTANTS = json.loads((HERE/"items.json").read_text(encoding="utf-8"))
ASSERTED = "killed"


def code_cells(path):
    "{id: source} of a notebook, in its order."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {c["id"]: "".join(c["source"]) for c in cells if c["cell_type"] == "code"
            and not any(line.startswith("#| eval: false") for line in c["source"])}


def within(code):
    "The names that functions of `code` look up when they are called."
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from (i.argval for i in dis.get_instructions(inner)
                        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
            yield from within(inner)


def names(source):
    "(bound, used, used when called): what a cell binds, and what it needs of cells before."
    tree, bound, used = ast.parse(source), set(), set()
    for i in dis.get_instructions(compile(tree, "cell", "exec")):
        if i.opname == "LOAD_NAME" and i.argval not in bound:
            used.add(i.argval)
        elif i.opname == "STORE_NAME":
            bound.add(i.argval)
    called = set(within(compile(tree, "cell", "exec")))
    for node in ast.walk(tree):         # a[0] = 1 and a.b = 1 change what they need
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound |= {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)} & used
    return bound, used | called - bound, called


def needed(cells, last):
    "The ids of the cells that `last` needs, in order, and itself."
    order = list(cells)
    parts = [names(cells[id]) for id in order]
    always = [i for i, id in enumerate(order) if "#| export" in cells[id] or any(
        isinstance(s, ast.Import | ast.ImportFrom) for s in ast.parse(cells[id]).body)]
    end = order.index(last)
    kept, asked = {i for i in always if i < end} | {end}, set()
    wanted = [(name, i) for i in kept for name in parts[i][1]]
    wanted += [(name, end) for i in kept for name in parts[i][2]]
    while wanted:
        if (one := wanted.pop()) in asked:
            continue
        asked.add(one)
        name, before = one
        found = next((i for i in range(before - 1, -1, -1) if name in parts[i][0]), None)
        if found is not None and found not in kept:
            kept.add(found)
            wanted += [(n, found) for n in parts[found][1]]
            wanted += [(n, end) for n in parts[found][2]]
    return [order[i] for i in sorted(kept)]


class Book:
    "A notebook, run as far as its cells need it."

    def __init__(self, path):
        self.cells, self.shell, self.done = code_cells(path), Shell(path), set()

    def run(self, ids, change=None):
        """The error of the first of these cells that fails, or None. `change` is a cell and what
        stands there instead."""
        for id in ids:
            self.shell.run(change[1] if change and change[0] == id else self.cells[id])
            if self.shell.exc:
                return self.shell.exc
        return None

    def judge(self, mutant):
        "What becomes of a mutant: ASSERTED, or what happened else."
        ids, place = needed(self.cells, mutant["cell"]), mutant.get("in", mutant["cell"])
        source = self.cells[place]
        if place not in ids or source.count(mutant["text"]) != 1:
            return "its text does not stand there once"
        if error := self.run([id for id in ids if id not in self.done]):
            return f"as it stands: {error!r}"
        self.done |= set(ids) - {mutant["cell"]}
        before = dict(self.shell.user_ns)
        again = ids[ids.index(place):]
        wrong = source.replace(mutant["text"], mutant["becomes"])
        error = self.run(again, (place, wrong))
        self.shell.user_ns.clear()
        self.shell.user_ns.update(before)
        if place != mutant["cell"]:
            self.run(again[:-1])                      # what it has patched
        if isinstance(error, AssertionError):
            return ASSERTED
        return f"another error: {error!r}" if error else "survived"


def judge(path, items):
    "{item: what became of its mutant}, in the notebook's order."
    os.chdir(path.parent)
    book = Book(path)
    order = list(book.cells)
    items = sorted(items, key=lambda item: order.index(MUTANTS[item]["cell"]))
    return {item: book.judge(MUTANTS[item]) for item in items}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("items", nargs="*", help="all of the notebook, if none is named")
    asked = parser.parse_args()
    path = asked.path.resolve()
    items = asked.items or [item for item, m in MUTANTS.items() if m["cell"] in code_cells(path)]
    print(json.dumps(judge(path, items), indent=1))


if __name__ == "__main__":
    main()
