"""What a page needs for its cells to run in the browser: which can and what is in the way of the
others, which cells each one needs, the hidden ones (imports, settings, and what the library has
exported), and the exercises' blanks and checks. `static/run.js` reads it."""
import ast
import builtins
import functools
import json
import re
import sys
from pathlib import Path

import api
import nbformat

NBS = Path(__file__).resolve().parent.parent/"nbs"
# What the browser's Python has, besides its own library.
HAS = {"numpy", "scipy", "matplotlib", "mpl_toolkits", "fastcore", "mpmath", "dp_saddle", "cycler",
       "dateutil", "packaging", "PIL"}
CALLED = {"flint": "python-flint", "sklearn": "scikit-learn", "yaml": "PyYAML", "dask": "Dask",
          "torch": "PyTorch", "opacus": "Opacus", "distributed": "Dask"}
LACKS = {"subprocess", "multiprocessing"}
# Names of the library that lead to what is not there.
LEADS = {"verify": "python-flint", "dp_saddle.interop": "PyTorch and Opacus"}
DATA = {"array", "linspace", "geomspace", "arange", "logspace", "ones", "zeros", "default_rng",
        "range", "float", "inf", "pi"}
BUILT_IN = set(dir(builtins))

def plain(source):
    "Without nbdev's directives."
    return re.sub(r"^#\|.*\n?", "", source, flags=re.M).strip("\n")

def directives(source): return set(re.findall(r"^#\|\s*(\w+)", source, flags=re.M))

@functools.cache
def walked(statement):
    "All that is in a statement, which does not change: of each it is asked many times."
    return list(ast.walk(statement))

# Names

def roots(target):
    "The names that a target binds or changes."
    if isinstance(target, ast.Name): return {target.id}
    if isinstance(target, (ast.Tuple, ast.List)): return set().union(*map(roots, target.elts))
    if isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)): return roots(target.value)
    return set()

def binds(node):
    "The names that are bound, or changed in place, where this statement has run."
    if is_patch(node): return set()
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)): return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(a.asname or a.name).split(".")[0] for a in node.names}
    return bound_in(node) | {n.target.id for n in walked(node) if isinstance(n, ast.NamedExpr)}

def bound_in(node):
    "The same of a statement and of those in it, apart from what `:=` binds."
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return binds(node)
    found = set()
    for sub in ast.iter_child_nodes(node):
        if isinstance(sub, (ast.stmt, ast.ExceptHandler, ast.withitem)): found |= bound_in(sub)
    if isinstance(node, ast.Assign): found |= set().union(*map(roots, node.targets))
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)): found |= roots(node.target)
    if isinstance(node, ast.withitem) and node.optional_vars: found |= roots(node.optional_vars)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        found |= roots(node.value.func) if isinstance(node.value.func, ast.Attribute) else set()
    return found

@functools.cache
def reads(tree):
    "The names that are read before they are bound: they must come from above."
    bound, found = set(), set()
    for node in tree.body:
        parts = walked(node)
        loads = {n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        inner = {n.arg for n in parts if isinstance(n, ast.arg)}
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inner |= {n.id for n in parts if isinstance(n, ast.Name)
                      and isinstance(n.ctx, ast.Store)} | {node.name}
        inner |= {name for n in parts if isinstance(n, ast.comprehension)
                  for name in roots(n.target)}
        found |= loads - bound - inner
        found |= {n.target.id for n in parts if isinstance(n, ast.AugAssign)
                  and isinstance(n.target, ast.Name)} - bound
        bound |= binds(node)
    return found - BUILT_IN

def modules(nodes):
    "All that is imported, and what is asked of the library."
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import): found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return found

def in_the_way(tree, marks):
    "Why this cannot run in a browser, or ''."
    if "slow" in marks: return "it takes minutes"
    if "eval" in marks: return "it is not meant to be run"
    nodes = [n for statement in tree.body for n in walked(statement)]
    called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    asked, found = modules(nodes), []
    for name in sorted(asked):
        top = name.split(".")[0]
        if top in HAS or top in sys.stdlib_module_names - LACKS: continue
        found.append("a file of the checkout" if (NBS/f"{top}.py").exists()
                     or top == "oracles" else CALLED.get(top, top))
    found += [what for name, what in LEADS.items() if name in asked or name in called]
    files = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    found += ["a file of the checkout" for name in files if "/" in name + "/" and len(name) < 99
              and name.endswith((".json", ".npz", ".py")) and (NBS/name).exists()]
    return "it needs " + " and ".join(dict.fromkeys(found)) if found else ""

# Cells

def items_of(original, shown):
    """A list of {code, shown, no, needs, solution} of a notebook's code cells, in their order;
    `shown` has the code that is on the page, by the cells' ids."""
    items, exporting = [], None
    for cell in original.cells:
        if cell.cell_type != "code": continue
        marks, code = directives(cell.source), plain(cell.source)
        if found := re.search(r"^#\|\s*default_exp\s+([\w.]+)", cell.source, flags=re.M):
            exporting = found[1]
        if cell.id in shown: code = shown[cell.id].strip("\n")
        elif re.match(r"explore_\w+\(|show_doc\(", code) or not code.strip(): continue
        if re.search(r"^\s*[%!]", code, flags=re.M): continue
        tree, library = ast.parse(code), None
        if marks & {"export", "exporti", "exports"} and exporting:
            library = imported(tree, exporting)
        if cell.id not in shown and library is not None:
            if not library: continue
            code, tree, marks = library, ast.parse(library), {"exported"}
        if cell.id not in shown:            # what cannot be imported is in nobody else's way
            lost = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))
                    and in_the_way(ast.Module([n], []), ())]
            items += [item_of(cell, ast.Module([n], []), ast.unparse(n), shown, (), None)
                      for n in lost]
            tree.body = [n for n in tree.body if n not in lost]
            if lost: code = ast.unparse(tree)
        if code.strip(): items.append(item_of(cell, tree, code, shown, marks, library))
    places = places_of(items)
    for k, item in enumerate(items): item["needs"] = needs(items[:k], item["tree"], places=places)
    for item in items:
        blocked = [items[k]["no"] for k in item["needs"] if items[k]["no"]]
        if not item["no"] and blocked: item["no"] = blocked[-1]
    for k, item in enumerate(items):
        written = needs(items[:k], item["tree"], True, places)
        item["all"] = [j for j in written if not items[j]["no"]]
    return items

def item_of(cell, tree, code, shown, marks, library):
    """What is known of a cell. `library`: what imports the same from the library, if it has been
    exported; '' where nothing is left to import."""
    return {"id": cell.id, "code": code, "tree": tree, "shown": cell.id in shown,
            "no": in_the_way(tree, marks), "exported": "exported" in marks,
            "solution": "solution" in cell.metadata.get("tags", []),
            "library": library if cell.id in shown else None}

@functools.cache
def module_names(name):
    "What a module of the library binds."
    tree, *_ = api.module(Path("dp_saddle", *name.split(".")).with_suffix(".py"))
    return set().union(*map(binds, tree.body))

def imported(tree, module):
    "An import of what this exported code binds; None where the library has it otherwise."
    imports = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    own = [n for n in tree.body if n not in imports and not is_patch(n)]
    names = set().union(set(), *map(binds, own))
    if not names <= module_names(module): return None
    lines = [ast.unparse(n) for n in imports]
    if names: lines.append(f"from dp_saddle.{module} import {', '.join(sorted(names))}")
    return "\n".join(lines)

def needs(above, tree, written=False, places=None):
    """The places of the items whose names this code reads, theirs included, in their order. Of what
    has been exported the library is asked, which needs nothing; `written`: the cells themselves,
    with the methods that their classes get in later ones. `places`: what `places_of` says of these
    and, maybe, of later ones."""
    found, end, at_name = set(), len(above), places or places_of(above)
    wanted = [(end, name) for name in reads(tree)]
    while wanted:
        place, name = wanted.pop()
        at = last(above, [k for k in at_name.get(name, ()) if k < place])
        if at is None and written:      # functions read names that later cells bind
            at = next((k for k in at_name.get(name, ()) if place < k < end), None)
        if at is None or at in found: continue
        found.add(at)
        if above[at]["library"] and not written: continue
        wanted += [(at, n) for n in reads(above[at]["tree"])]
        for k in range(at + 1, end if written else 0):
            if k not in found and patches(above[k]["tree"]) & bound_by(above[at]):
                found.add(k)
                wanted += [(k, n) for n in reads(above[k]["tree"])]
    found |= {k for k, item in enumerate(above) if not item["shown"] and not item["exported"]
              and not item["no"] and sets(item["tree"])}
    for k in sorted(found):
        if written or not above[k]["library"]: found |= set(above[k].get("needs", ()))
    return sorted(found)

def places_of(items):
    "{name: the places of the items that bind it}."
    found = {}
    for k, item in enumerate(items):
        for name in bound_by(item): found.setdefault(name, []).append(k)
    return found

def last(items, places):
    "The last of these places; a solution's if there is no other."
    others = [k for k in places if not items[k].get("solution")]
    return (others or places or [None])[-1]

@functools.cache
def sets(tree):
    "Are these settings, which bind nothing?"
    return any(isinstance(n, ast.Expr) for n in tree.body) and not any(
        isinstance(n, ast.Assert) for statement in tree.body for n in walked(statement))

def is_patch(node):
    "Does this add a method to a class?"
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(d).startswith("patch") for d in node.decorator_list)

@functools.cache
def patches(tree):
    "The classes that get a method here, by `@patch def method(self: Class)`."
    return {n.id for node in tree.body if is_patch(node) and node.args.args
            and node.args.args[0].annotation
            for n in ast.walk(node.args.args[0].annotation) if isinstance(n, ast.Name)}

def bound_by(item):
    if "binds" not in item: item["binds"] = set().union(set(), *map(binds, item["tree"].body))
    return item["binds"]

# Exercises

def checks(node):
    "Does this statement judge?"
    return not isinstance(node, (ast.FunctionDef, ast.ClassDef)) and asserts(node)

def asserts(node):
    return any(isinstance(n, ast.Assert) or isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
               and n.func.id.startswith("test_") for n in ast.walk(node))

def names_in(nodes):
    return {n.id for node in nodes for n in ast.walk(node)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}

def given(node):
    "Numbers and grids: no part of an answer."
    if not isinstance(node, ast.Assign): return False
    called = (n.func for n in ast.walk(node.value) if isinstance(n, ast.Call))
    names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "?") for f in called}
    return names <= DATA and names_in([node.value]) <= {"np", "pi", "inf", *DATA}

def unwrapped(code):
    "The statements of a solution; those of `def solution()`, where all is in it."
    body = ast.parse(code).body
    if len(body) == 2 and isinstance(body[0], ast.FunctionDef) and not body[0].args.args and (
            ast.unparse(body[1]) == f"{body[0].name}()"):
        lines = code.splitlines()[body[0].body[0].lineno - 1:body[1].lineno - 1]
        return "\n".join(line[4:] for line in lines)
    return code

def stub(node):
    "A definition whose bodies are to be written."
    if isinstance(node, ast.ClassDef):
        kept = [n for n in node.body if isinstance(n, ast.FunctionDef)
                or isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
        node = ast.ClassDef(node.name, node.bases, node.keywords, [
            emptied(n) if isinstance(n, ast.FunctionDef) else n for n in kept],
            node.decorator_list, type_params=[])
        return ast.unparse(ast.fix_missing_locations(node))
    return ast.unparse(ast.fix_missing_locations(emptied(node)))

def emptied(node):
    said = [n for n in node.body[:1] if isinstance(n, ast.Expr)
            and isinstance(n.value, ast.Constant)]
    made = ast.FunctionDef(node.name, node.args, [*said, ast.Expr(ast.Constant(...))],
                           node.decorator_list, node.returns)
    made.type_params = []
    return made

def blanks(code):
    """{names, start, checks} of a solution: what the reader's answer must define, the cell that it
    starts from, and what it is judged by; None where nothing in it judges an answer."""
    code = unwrapped(code)
    body = ast.parse(code).body
    judges = [n for n in body if checks(n)]
    defined = {n.name: n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    used = names_in(n for n in body if not isinstance(n, (ast.FunctionDef, ast.ClassDef)))
    judging = [name for name in defined if name in used and asserts(defined[name])]
    answers = [name for name in defined if name in used and name not in judging]
    def text(nodes): return "\n".join(ast.get_source_segment(code, n) for n in nodes)
    imports = [n for n in body if isinstance(n, (ast.Import, ast.ImportFrom))]
    if not answers and (judging or not judges): return None
    if answers:
        judged = [n for n in body if getattr(n, "name", "") in judging or not isinstance(n, (
            ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom))]
        if not any(map(checks, judged)) and not judging: return None
        start = "\n\n".join(filter(None, [text(imports), *(stub(defined[a]) for a in answers)]))
        return {"names": answers, "start": start, "checks": text(judged)}
    wanted, asked, lines = names_in(judges), [], []
    for node in body:
        if node in judges or node in imports: continue
        if given(node): lines.append(ast.get_source_segment(code, node))
        else:
            new = [name for name in sorted(binds(node)) if name in wanted and name not in asked
                   and not isinstance(node, ast.Expr)]
            asked += new
            lines += [f"{name} = ..." for name in new]
    if not asked: return None
    return {"names": asked, "start": "\n".join(filter(None, [text(imports), *lines])),
            "checks": text(judges)}

def exercises_of(nb, items):
    "{label: {names, start, checks, needs, all}} of the page's exercises that can judge an answer."
    place, found, label = {item["id"]: k for k, item in enumerate(items)}, {}, None
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            if at := re.search(r"\{solution-start\} (\S+)", cell.source): label = at[1]
            elif "{solution-end}" in cell.source: label = None
        elif label and cell.id in place: found.setdefault(label, []).append(place[cell.id])
    made = {}
    for label, places in found.items():
        code = "\n".join(items[k]["code"] for k in places)
        one = blanks(code)
        if one is None or any(items[k]["no"] for k in places): continue
        tree = ast.parse(code)
        written = [k for k in needs(items[:places[0]], tree, True) if not items[k]["no"]]
        made[label] = one | {"needs": needs(items[:places[0]], tree), "all": written}
    return made

def annotate(nb, name):
    "Mark the code cells of a page, and add what its script has to know."
    shown = {c.id: c.source for c in nb.cells if c.cell_type == "code"
             and "remove-input" not in c.metadata.get("tags", [])}
    items = items_of(nbformat.read(NBS/f"{name}.ipynb", as_version=4), shown)
    at = {item["id"]: k for k, item in enumerate(items)}
    for cell in nb.cells:
        if cell.cell_type == "code" and cell.id in shown and cell.id in at:
            cell.metadata.setdefault("tags", []).append(f"run-{at[cell.id]}")
    if not any(item["shown"] for item in items): return nb
    rows = [{} if item["shown"] else {"code": item["code"]} for item in items]
    for row, item in zip(rows, items):
        if item["no"]: row["no"] = item["no"]
        if item["needs"]: row["needs"] = item["needs"]
        if item["all"] != item["needs"]: row["all"] = item["all"]
        if item["library"] is not None: row["library"] = item["library"]
        if item["solution"]: row["solution"] = 1
    text = json.dumps({"cells": rows, "exercises": exercises_of(nb, items)},
                      separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    nb.cells.append(nbformat.v4.new_markdown_cell(
        f'``````{{raw}} html\n<script type="application/json" id="run-data">{text}</script>\n'
        "``````"))
    return nb
