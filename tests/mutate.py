"""A wrong formula breaks its chapter: one small mistake at a time is put into a copy of the
library,
and something must notice.

A mutant is one edit: inside a function + and -, * and /, ** and *, comparisons turned round, `and`
and
`or`, min and max, exp and expm1, log and log1p exchanged; 0, 1, 2 or 1/2 changed; a condition
negated;
a `not` or a minus dropped; the first two parts of a returned tuple exchanged. At the head of a
module a
proved constant is moved by a tenth, and a rounding allowance, which may grow and never shrink, is
made a
hundred times smaller. Tuning numbers are left alone: only time and width depend on them. Errors,
warnings, annotations and defaults that carry a comment stay.

A module's mutants, in the order of its lines, are cut into --count strata of one size; the seed
draws one
of each. It is killed by the first that fails of: an import and one answer; the chapter's cells in
order,
the exported ones as mutated; the module's tests; the chapters and tests that build on it; the
checks of proved numbers (tests/claims.py). So is one that
takes --slack times as long as the library itself (timed when first needed). Survivors are listed
with
their lines, to be looked at one by one: equivalent to what was there, an allowance that shows
nowhere, or
a gap in the tests. A finding goes where it belongs: into a comment beside the line, or into a test.
The work tree is left as it is.
"""
import argparse
import ast
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import NamedTuple

import house
from house import KINDS, LIBRARY, NOTEBOOK_OF, OTHERS, tests_of

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = {module: path for module, path in NOTEBOOK_OF.items() if module in house.MODULES}
# What every mutant is judged by at the end, beside its own chapter and tests.
BUILT_ON_IT = dict.fromkeys(("base.numerics", "plrv.protocol", "losses.moduli",
                             "plrv.gaussian_release", "plrv.sums", "losses.nodes",
                             "losses.densities", "mechanisms.composition",
                             "mechanisms.finite_pairs", "mechanisms.accountants"), ["engine.line"])
# Judged by what they show, not by formulas.
DRAWING = {"base.explorer", "widgets.runs", "widgets.methods", "widgets.tables",
           "interop.opacus", "interop.events", "command.main", "practice.reports"}
MODULES = [name for name in CHAPTERS if name not in DRAWING]
SMOKE = """import os, dp_saddle as d, dp_saddle.widgets
assert os.path.dirname(d.__file__) == os.path.abspath('dp_saddle')
assert 4 < d.epsilon(d.Gaussian(sigma=1.), delta=1e-5) < 5"""
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
             ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
COMPARISONS = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
               ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
PAIRS = (("min", "max"), ("minimum", "maximum"), ("exp", "expm1"), ("log", "log1p"))
NAMES = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
PROVED_CHANGE, ROUNDING_CHANGE = .9, .01

class Mutant(NamedTuple):
    key: str        # module:line:number on the line
    function: str   # where, dotted
    change: str     # before -> after
    text: bytes     # the module with it

# --- making mutants

def changed(node, **fields):
    return type(node)(**(vars(node) | fields))

def edits(node):
    "(what is replaced, by what) for the mistakes that can be made at this node of a function."
    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in OPERATORS:
        yield node, changed(node, op=OPERATORS[type(node.op)]())
    for i, op in enumerate(node.ops if isinstance(node, ast.Compare) else ()):
        if type(op) in COMPARISONS:
            turned = [COMPARISONS[type(op)]()]
            yield node, changed(node, ops=node.ops[:i] + turned + node.ops[i+1:])
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, complex):
        x, factor = node.value, (1.01, 2.)[node.col_offset % 2]
        yield node, ast.Constant(x + 1 if type(x) is int else x*factor or 1.)
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield node, changed(node, attr=NAMES[node.attr])
    if isinstance(node, ast.Name) and node.id in NAMES:
        prefix = "" if node.id in ("min", "max") else "np."
        yield node, ast.Name(prefix + NAMES[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node, node.operand
    yield from negated(node)
    value = getattr(node, {ast.Return: "value", ast.Lambda: "body"}.get(type(node), ""), None)
    if isinstance(value, ast.Tuple) and len(value.elts) > 1:
        yield value, changed(value, elts=value.elts[1::-1] + value.elts[2:])

def negated(node):
    "Conditions, turned into their contrary."
    tests = [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else []
    for test in getattr(node, "ifs", tests):
        yield test, ast.UnaryOp(ast.Not(), test)

def kinds(lines):
    "For each line at the head of a module: a kind or another heading, in lower case, or nothing."
    kind = ""
    for line in lines:
        text = line.decode()
        if found := re.match(rf"# ({'|'.join(KINDS + OTHERS)})\b", text):
            kind = found[1].lower()
        elif re.match(r"(def|class|@|# %%)", text):
            kind = ""
        yield kind

def constants(tree, lines):
    "(what is replaced, by what) for the named numbers of the first two kinds."
    kind = list(kinds(lines))
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)):
            continue
        factor = {"proved": PROVED_CHANGE, "rounding": ROUNDING_CHANGE}.get(kind[node.lineno - 1])
        if factor and isinstance(node.value.value, (int, float)):
            yield node.targets[0].id, node.value, ast.Constant(node.value.value*factor)

def in_functions(tree, lines):
    "(function, what is replaced, by what) for all that stands in functions."
    def visit(node, path, inside):
        call = ast.unparse(getattr(node, "func", []))
        if isinstance(node, (ast.Raise, ast.JoinedStr)) or call == "warnings.warn":
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not inside:
            path = [*path, node.name]
        if inside:
            for old, new in edits(node):
                yield ".".join(path), old, new
        inside = inside or isinstance(node, (ast.FunctionDef, ast.Lambda))
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in field if isinstance(field, list) else [field]:
                if not isinstance(child, ast.AST):
                    continue
                if "defaults" in name and b"#" in lines[child.lineno - 1]:
                    continue
                yield from visit(child, path, inside)
    yield from visit(tree, [], False)

def mutants(module):
    "All mutants of a module, in the order of its lines."
    lines = house.MODULES[module].read_bytes().splitlines(keepends=True)
    tree, seen, found = ast.parse(b"".join(lines)), Counter(), []
    for function, old, new in [*constants(tree, lines), *in_functions(tree, lines)]:
        before, after = ast.unparse(old), ast.unparse(new)
        first, last = old.lineno - 1, old.end_lineno - 1
        inside = after if isinstance(old, ast.stmt) else f"({after})"
        patch = lines[first][:old.col_offset] + inside.encode() + lines[last][old.end_col_offset:]
        seen[first] += 1
        text = b"".join([*lines[:first], patch, *lines[last+1:]])
        key = f"{module}:{first + 1}:{seen[first]}"
        found.append(Mutant(key, function, f"{before} -> {after}", text))
    return sorted(found, key=lambda m: int(m.key.split(":")[1]))

# --- judging them

def run_cells(module):
    "The chapter as a script, with the module's text in place of the exported cells."
    path = Path("dp_saddle", *module.split(".")).with_suffix(".py")
    parts = [part.partition("\n") for part in path.read_text(encoding="utf-8").split("\n# %% ")]
    exported = {title.split("#")[-1]: code for title, _, code in parts}
    chapter = sys.modules["chapter"] = types.ModuleType("chapter")
    vars(chapter).update(__package__=".".join(path.parent.parts), display=lambda *a: None)
    notebook = json.loads(CHAPTERS[module].read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        code = "".join(cell["source"])
        marks = "#| eval: false", "#| slow", "#| thorough", "nbdev_export"
        left_out = any(mark in code for mark in marks)
        if cell["cell_type"] != "code" or left_out:
            continue
        name = f"{CHAPTERS[module].name} {cell['id']}"
        exec(compile(exported.get(cell["id"], code), name, "exec"), vars(chapter))

def stages(module):
    "(name, command) in the order in which they judge."
    def both(m):
        yield f"chapter {m}", ["tests/mutate.py", "--cells", m]
        if tests := tests_of(m):
            pytest = ["-m", "pytest", "-xqm", "not slow", "-p", "no:cacheprovider"]
            yield tests.stem, [*pytest, f"tests/{tests.name}"]
    judges = dict.fromkeys([module, *BUILT_ON_IT.get(module, []), "accounting.best_answers"])
    claims = "claims", ["-m", "pytest", "-xq", "-p", "no:cacheprovider", "tests/test_claims.py"]
    return [("import", ["-c", SMOKE]), *(stage for m in judges for stage in both(m)), claims]

def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

def run(command, limit=None, mutant=None):
    """(what failed, or nothing; seconds) of a command in a copy of the project, with the mutant in
    it."""
    junk = shutil.ignore_patterns(".*", "__pycache__", "papers", "docs", "build", "dist")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT, folder, ignore=junk, dirs_exist_ok=True)
        if mutant:
            module = mutant.key.split(":")[0]
            path = Path(folder, "dp_saddle", *module.split(".")).with_suffix(".py")
            path.write_bytes(mutant.text)
        env = os.environ | dict(PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1", MPLBACKEND="Agg",
                                OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        start = time.time()
        process = subprocess.Popen([sys.executable, *command], cwd=folder, env=env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True, preexec_fn=limit_memory)
        try:
            said = process.communicate(timeout=limit)[0].splitlines()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            said = ["timeout"]
        failures = [x for x in said if x.startswith(("FAILED", "ERROR"))] or said or ["failed"]
        return failures[-1][:120] if process.returncode else "", time.time() - start

def time_without_mutant(stage, command):
    "Seconds, kept until the library changes."
    sources = b"".join(p.read_bytes() for p in sorted(LIBRARY.rglob("*.py")))
    version = hashlib.sha256(sources).hexdigest()[:16]
    file = Path(tempfile.gettempdir())/f"dp_saddle-mutants-{version}.json"
    times = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if stage not in times:
        what, times[stage] = run(command)
        if what:
            raise RuntimeError(f"{stage} fails without a mutant: {what}")
        file.write_text(json.dumps(times))
    return times[stage]

def judge(mutant, args):
    "(mutant, the stage that killed it or None), and a line that says so."
    start, killer, what = time.time(), None, ""
    for stage, command in stages(mutant.key.split(":")[0])[:2 if args.chapter_only else None]:
        limit = max(10, args.slack*time_without_mutant(stage, command))
        what, _ = run(command, limit, mutant)
        if what:
            killer = stage
            break
    verdict = f"{killer}: {what}" if killer else "SURVIVED"
    print(*mutant[:3], verdict, f"{time.time() - start:.0f} s", sep=" | ", flush=True)
    return mutant, killer

def drawn(args):
    "The mutants to be judged."
    chosen = []
    for module in dict.fromkeys(x.split(":")[0] for x in args.only) or args.module:
        found = mutants(module)
        if args.only:
            chosen += [m for m in found if m.key in args.only]
            continue
        draw = random.Random(f"{args.seed} {module}").randrange
        cuts = [i*len(found)//args.count for i in range(args.count + 1)]
        chosen += [found[draw(a, b)] for a, b in zip(cuts, cuts[1:]) if a < b]
    return chosen

def summary(judged):
    "Score, and survivors with their lines."
    for module in dict.fromkeys(m.key.split(":")[0] for m, _ in judged):
        lines = house.MODULES[module].read_text(encoding="utf-8").splitlines()
        mine = [(m, killer) for m, killer in judged if m.key.startswith(module + ":")]
        killed = Counter(killer for _, killer in mine if killer)
        print(f"\n{module}: {sum(killed.values())} of {len(mine)} killed;",
              *(f"{n} by {k}" for k, n in killed.items()))
        for m in [m for m, killer in mine if not killer]:
            line = lines[int(m.key.split(":")[1]) - 1].strip()
            print(f"  survived {m.key} {m.function}: {m.change}\n    {line}")
    score = sum(bool(killer) for _, killer in judged)
    print(f"\n{score} of {len(judged)} killed, {score/max(len(judged), 1):.0%}")

def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", nargs="+", choices=MODULES, default=MODULES, metavar="NAME",
                        help=f"of {', '.join(MODULES)}; default: all")
    for name, default, text in (("count", 20, "mutants per module"), ("seed", 1, "which of them"),
                                ("jobs", 1, "how many at a time"), ("slack", 4, "see above")):
        parser.add_argument(f"--{name}", type=int, default=default,
                            help=f"{text}; default: {default}")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID",
                        help="these mutants and no others, such as plrv:74:1")
    parser.add_argument("--chapter-only", action="store_true", help="no pytest")
    parser.add_argument("--cells", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cells:
        run_cells(args.cells)
        return
    with ThreadPool(args.jobs) as pool:
        summary(list(pool.imap(lambda m: judge(m, args), drawn(args))))

if __name__ == "__main__":
    main()
