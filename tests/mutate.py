"""A wrong formula breaks its chapter: one small mistake at a time is put into a copy of the library, and something must notice.

    python tests/mutate.py --count 20                                (python tests/mutate.py --help: the options)

A mutant is one edit inside a function: + and -, * and /, ** and *, comparisons, and and or, min and max, exp and expm1, log and
log1p exchanged; a number changed; a condition negated; a not or a minus dropped; the first two parts of a returned tuple
exchanged. Errors, warnings, annotations and defaults that carry a comment stay as they are. All mutants of a module, in the order
of its functions, are cut into --count strata of one size, and the seed draws one of each.

A mutant lives in a copy of the project in a temporary folder. It is killed by the first that fails of: an import and one answer;
the chapter's cells in order, the exported ones as mutated; the module's tests; the chapters and tests that build on the module.
So is one that takes --slack times as long as the library itself (timed when first needed, and kept in the temporary folder).
Survivors are listed with their lines: equivalent to what was there, an allowance that shows nowhere, or a gap in the tests.
"""
import argparse, ast, copy, hashlib, json, os, random, resource, shutil, signal, subprocess, sys, tempfile, time, types
from collections import Counter
from multiprocessing.pool import ThreadPool
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = {p.stem[3:]: p for p in sorted((ROOT/'nbs').glob('[0-9]*.ipynb'))}
MODULES = ['plrv', 'contour', 'saddlepoint', 'prv_fft', 'edgeworth', 'individual']
SMOKE = '''import os, dp_saddle as d; assert os.path.dirname(d.__file__) == os.path.abspath('dp_saddle'), d.__file__
import dp_saddle.individual, dp_saddle.widgets; assert .1 < d.epsilon(9*d.PoissonSubsampled(base=d.Gaussian(sigma=1.), rate=.1), delta=1e-5) < 9'''
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
NAMES = {b: c for pair in (('min', 'max'), ('minimum', 'maximum'), ('exp', 'expm1'), ('log', 'log1p')) for b, c in (pair, pair[::-1])}

def changed(node, **fields):
    new = copy.copy(node)
    for name, value in fields.items(): setattr(new, name, value)
    return new

def edits(node):
    "(what is replaced, by what) for the mistakes that can be made at this node."
    negated = lambda test: (test, ast.UnaryOp(ast.Not(), test))
    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in OPERATORS: yield node, changed(node, op=OPERATORS[type(node.op)]())
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in COMPARISONS: yield node, changed(node, ops=node.ops[:i] + [COMPARISONS[type(op)]()] + node.ops[i+1:])
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, complex):
        x = node.value
        factor = 2 if type(x) is complex else random.Random(f'{node.lineno} {node.col_offset}').choice([1.01, 2])
        yield node, ast.Constant(x + 1 if type(x) is int else x*factor or 1.)
    if isinstance(node, ast.Attribute) and node.attr in NAMES: yield node, changed(node, attr=NAMES[node.attr])
    if isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield node, ast.Name(('' if node.id in ('min', 'max') else 'np.') + NAMES[node.id], ast.Load())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)): yield node, node.operand
    if isinstance(node, (ast.If, ast.While, ast.IfExp)): yield negated(node.test)
    if isinstance(node, ast.comprehension): yield from map(negated, node.ifs)
    value = node.value if isinstance(node, ast.Return) else node.body if isinstance(node, ast.Lambda) else None
    if isinstance(value, ast.Tuple) and len(value.elts) > 1: yield value, changed(value, elts=value.elts[1::-1] + value.elts[2:])

def mutants(module):
    "All of them: (id, function, change, the module's text)."
    text = (ROOT/'dp_saddle'/f'{module}.py').read_text(encoding='utf-8')
    lines, seen, found = text.encode().splitlines(keepends=True), Counter(), []
    def visit(node, path, inside):
        if isinstance(node, (ast.Raise, ast.JoinedStr)) or (isinstance(node, ast.Call) and ast.unparse(node.func) == 'warnings.warn'): return
        if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.unparse(node.test): return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)): path = path if inside else path + [node.name]
        for old, new in edits(node) if inside else ():
            before, after = ast.unparse(old), ast.unparse(new)
            if before == after: continue
            i, j, patch = old.lineno - 1, old.end_lineno - 1, after if isinstance(old, ast.stmt) else f'({after})'
            patch = lines[i][:old.col_offset] + patch.encode() + lines[j][old.end_col_offset:]
            seen[old.lineno] += 1
            found.append((f'{module}:{old.lineno}:{seen[old.lineno]}', '.'.join(path), f'{before} -> {after}', b''.join(lines[:i] + [patch] + lines[j+1:])))
        inside = inside or isinstance(node, (ast.FunctionDef, ast.Lambda))
        for name, field in ast.iter_fields(node):
            for child in field if isinstance(field, list) else [field]:
                if not isinstance(child, ast.AST) or name in ('annotation', 'returns', 'decorator_list'): continue
                if name in ('defaults', 'kw_defaults') and b'#' in lines[child.lineno - 1]: continue
                visit(child, path, inside)
    visit(ast.parse(text), [], False)
    return found

def run_cells(module):
    "The chapter as a script, with the module's text in place of the exported cells."
    parts = (Path('dp_saddle')/f'{module}.py').read_text(encoding='utf-8').split('\n# %% ')
    exported = {part.split('\n')[0].split('#')[-1]: part.partition('\n')[2] for part in parts}
    chapter = sys.modules['chapter'] = types.ModuleType('chapter')
    vars(chapter).update(__package__='dp_saddle', display=lambda *a: None)
    for cell in json.loads((Path('nbs')/CHAPTERS[module].name).read_text(encoding='utf-8'))['cells']:
        code = ''.join(cell['source'])
        if cell['cell_type'] != 'code' or any(s in code for s in ('#| eval: false', '#| slow', 'nbdev_export')): continue
        exec(compile(exported.get(cell['id'], code), f'{CHAPTERS[module].name} {cell["id"]}', 'exec'), vars(chapter))

def stages(module):
    "(name, command) in the order in which they judge."
    cells = lambda m: (f'chapter {m}', [sys.executable, 'tests/mutate.py', '--cells', m])
    tests = lambda m: (f'test_{m}', [sys.executable, '-m', 'pytest', '-x', '-q', '-m', 'not slow', '-p', 'no:cacheprovider', f'tests/test_{m}.py'])
    later = {'plrv': ['contour', 'accounting']}.get(module, ['accounting'])
    return [('import', [sys.executable, '-c', SMOKE]), cells(module), tests(module), *(f(m) for m in later for f in (cells, tests))]

def run(command, folder, limit):
    "(what happened, seconds) of a command in a copy of the project; nothing happened if it went well."
    env = os.environ | {'PYTHONPATH': f'{folder}', 'PYTHONDONTWRITEBYTECODE': '1', 'MPLBACKEND': 'Agg', 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}
    start = time.time()
    process = subprocess.Popen(command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)))
    try: said = process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL); process.communicate()
        return 'timeout', time.time() - start
    last = [x for x in said.splitlines() if x.startswith(('FAILED', 'ERROR'))] or said.strip().splitlines()[-1:]
    return (last or ['failed'])[-1][:120] if process.returncode else '', time.time() - start

class Judge:
    "Runs mutants; keeps how long each stage takes the library as it is."
    def __init__(self, args):
        self.args, digest = args, hashlib.sha256(b''.join(p.read_bytes() for p in sorted((ROOT/'dp_saddle').glob('*.py')))).hexdigest()
        self.file = Path(tempfile.gettempdir())/f'dp_saddle-mutants-{digest[:16]}.json'
        self.times = json.loads(self.file.read_text()) if self.file.exists() else {}
    def limit(self, name, command):
        if name not in self.times:
            with tempfile.TemporaryDirectory() as folder: what, seconds = run(command, fill(folder), None)
            if what: raise SystemExit(f'{name} fails without any mutant: {what}')
            self.times[name] = seconds
            self.file.write_text(json.dumps(self.times))
        return max(10, self.args.slack*self.times[name])
    def __call__(self, mutant):
        "(mutant, the stage that killed it or None): and a line that says so."
        (name, function, change, text), start, killer, what = mutant, time.time(), None, ''
        module, line, _ = name.split(':')
        with tempfile.TemporaryDirectory() as folder:
            (fill(folder)/'dp_saddle'/f'{module}.py').write_text(text, encoding='utf-8')
            for stage, command in stages(module)[:2 if self.args.chapter_only else None]:
                what, _ = run(command, folder, self.limit(stage, command))
                if what: killer = stage; break
        print(f'{name:18} {function}: {change} | {f"{killer}: {what}" if killer else "SURVIVED"} | {time.time() - start:.0f} s', flush=True)
        return mutant, killer

def fill(folder):
    "A copy of what the stages need."
    for part in ('dp_saddle', 'nbs', 'tests'): shutil.copytree(ROOT/part, Path(folder)/part, ignore=shutil.ignore_patterns('__pycache__', '.*', 'papers'))
    shutil.copy(ROOT/'pyproject.toml', folder)
    return Path(folder)

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--module', nargs='+', choices=MODULES, default=MODULES, metavar='NAME', help=f'of {", ".join(MODULES)}; default: all')
    parser.add_argument('--count', type=int, default=20, help='mutants per module')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', nargs='+', metavar='ID', help='these mutants and no others, such as plrv:74:1')
    parser.add_argument('--jobs', type=int, default=1, help='how many at a time')
    parser.add_argument('--slack', type=float, default=4., help='a stage may take so many times as long as without a mutant')
    parser.add_argument('--chapter-only', action='store_true', help='no pytest: what survives the chapter survives')
    parser.add_argument('--cells', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cells: return run_cells(args.cells)
    chosen = []
    for module in dict.fromkeys(x.split(':')[0] for x in args.only) if args.only else args.module:
        found, rng = mutants(module), random.Random(f'{args.seed} {module}')
        n = min(args.count, len(found))
        chosen += [m for m in found if m[0] in args.only] if args.only else [found[rng.randrange(i*len(found)//n, (i + 1)*len(found)//n)] for i in range(n)]
    with ThreadPool(args.jobs) as pool: judged = list(pool.imap(Judge(args), chosen))
    for module in dict.fromkeys(m[0].split(':')[0] for m in chosen):
        mine = [(m, killer) for m, killer in judged if m[0].startswith(module + ':')]
        killed = Counter(killer for _, killer in mine if killer)
        print(f'\n{module}: {sum(killed.values())} of {len(mine)} killed; ' + ', '.join(f'{k} {n}' for k, n in killed.items()))
        lines = (ROOT/'dp_saddle'/f'{module}.py').read_text(encoding='utf-8').splitlines()
        for m, killer in mine:
            if not killer: print(f'  survived {m[0]} {m[1]}: {m[2]}\n    {lines[int(m[0].split(":")[1]) - 1].strip()}')

if __name__ == '__main__': main()
