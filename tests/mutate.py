"""A wrong formula breaks its chapter: one small mistake at a time is put into a copy of the library, and something must notice.

A mutant is one edit inside a function: + and -, * and /, ** and *, comparisons turned round, and and or, min and max, exp and expm1, log and log1p exchanged; a number
changed; a condition negated; a not or a minus dropped; the first two parts of a returned tuple exchanged. Errors, warnings, annotations and defaults that
carry a comment stay. The second such change in a function is called #2. A module's mutants, in the order of its functions, are cut into --count strata of one size; the seed draws one of each. It is killed by
the first that fails of: an import and one answer; the chapter's cells in order, the exported ones as mutated; the module's tests; the chapters and tests that
build on it. So is one that takes --slack times as long as the library itself (timed when first needed, and kept in the temporary folder). Survivors are listed
with their lines, and looked at one by one: equivalent to what was there, an allowance that shows nowhere, or a gap in the tests. What was found is kept in
tests/survivors.txt; a survivor that is not in it is new. The work tree is left as it is.
"""
import argparse, ast, hashlib, json, os, random, resource, shutil, signal, subprocess, sys, tempfile, time, types
from collections import Counter
from multiprocessing.pool import ThreadPool
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = {p.stem[3:]: p.name for p in sorted((ROOT/'nbs').glob('[0-9]*.ipynb'))}
MODULES = ['plrv', 'contour', 'saddlepoint', 'prv_fft', 'edgeworth', 'individual']
KNOWN = {tuple(x.strip() for x in line.split('|')[:3]): line.split('|')[3].strip() for line in (ROOT/'tests'/'survivors.txt').read_text(encoding='utf-8').splitlines()[2:] if line.count('|') == 3}   # none of them has a | in it
SMOKE = "import os, dp_saddle as d, dp_saddle.widgets; assert os.path.dirname(d.__file__) == os.path.abspath('dp_saddle'); assert 4 < d.epsilon(d.Gaussian(sigma=1.), delta=1e-5) < 5"
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
COMPARISONS = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
NAMES = {b: c for pair in (('min', 'max'), ('minimum', 'maximum'), ('exp', 'expm1'), ('log', 'log1p')) for b, c in (pair, pair[::-1])}
changed = lambda node, **fields: type(node)(**(vars(node) | fields))

def edits(node):
    "(what is replaced, by what) for the mistakes that can be made at this node."
    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in OPERATORS: yield node, changed(node, op=OPERATORS[type(node.op)]())
    for i, op in enumerate(node.ops if isinstance(node, ast.Compare) else ()):
        if type(op) in COMPARISONS: yield node, changed(node, ops=node.ops[:i] + [COMPARISONS[type(op)]()] + node.ops[i+1:])
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, complex):
        x, factor = node.value, (1.01, 2.)[node.col_offset % 2]
        yield node, ast.Constant(x + 1 if type(x) is int else x*factor or 1.)
    if isinstance(node, ast.Attribute) and node.attr in NAMES: yield node, changed(node, attr=NAMES[node.attr])
    if isinstance(node, ast.Name) and node.id in NAMES: yield node, ast.Name(('' if node.id in ('min', 'max') else 'np.') + NAMES[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)): yield node, node.operand
    for test in getattr(node, 'ifs', [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else ()): yield test, ast.UnaryOp(ast.Not(), test)
    value = getattr(node, {ast.Return: 'value', ast.Lambda: 'body'}.get(type(node), ''), None)
    if isinstance(value, ast.Tuple) and len(value.elts) > 1: yield value, changed(value, elts=value.elts[1::-1] + value.elts[2:])

def mutants(module):
    "All of them: (id, function, change, the module's text)."
    lines, seen, found = (ROOT/'dp_saddle'/f'{module}.py').read_bytes().splitlines(keepends=True), Counter(), []
    def visit(node, path, inside):
        if isinstance(node, (ast.Raise, ast.JoinedStr)) or ast.unparse(getattr(node, 'func', [])) == 'warnings.warn': return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not inside: path = path + [node.name]
        for old, new in edits(node) if inside else ():
            (before, after), i, j = map(ast.unparse, (old, new)), old.lineno - 1, old.end_lineno - 1
            patch = lines[i][:old.col_offset] + (after if isinstance(old, ast.stmt) else f'({after})').encode() + lines[j][old.end_col_offset:]
            what = '.'.join(path), f'{before} -> {after}'
            seen[i], seen[what] = seen[i] + 1, seen[what] + 1
            found.append((f'{module}:{i + 1}:{seen[i]}', what[0], what[1] + f' #{seen[what]}'*(seen[what] > 1), b''.join(lines[:i] + [patch] + lines[j+1:])))
        for name, field in ast.iter_fields(node):
            for child in (field if isinstance(field, list) else [field]) if name not in ('annotation', 'returns', 'decorator_list') else ():
                if isinstance(child, ast.AST) and not ('defaults' in name and b'#' in lines[child.lineno - 1]): visit(child, path, inside or isinstance(node, (ast.FunctionDef, ast.Lambda)))
    visit(ast.parse(b''.join(lines)), [], False)
    return found

def run_cells(module):
    "The chapter as a script, with the module's text in place of the exported cells."
    parts = [part.partition('\n') for part in (Path('dp_saddle')/f'{module}.py').read_text(encoding='utf-8').split('\n# %% ')]
    exported = {title.split('#')[-1]: code for title, _, code in parts}
    chapter = sys.modules['chapter'] = types.ModuleType('chapter')
    vars(chapter).update(__package__='dp_saddle', display=lambda *a: None)
    for cell in json.loads((Path('nbs')/CHAPTERS[module]).read_text(encoding='utf-8'))['cells']:
        code = ''.join(cell['source'])
        if cell['cell_type'] != 'code' or any(s in code for s in ('#| eval: false', '#| slow', 'nbdev_export')): continue
        exec(compile(exported.get(cell['id'], code), f'{CHAPTERS[module]} {cell["id"]}', 'exec'), vars(chapter))

def stages(module):
    "(name, command) in the order in which they judge."
    both = lambda m: [(f'chapter {m}', ['tests/mutate.py', '--cells', m]), (f'test_{m}', ['-m', 'pytest', '-xqm', 'not slow', '-p', 'no:cacheprovider', f'tests/test_{m}.py'])]
    return [('import', ['-c', SMOKE])] + sum(map(both, [module] + ['contour']*(module == 'plrv') + ['accounting']), [])

def run(command, limit=None, mutant=None):
    "(what failed, or nothing; seconds) of a command in a copy of the project, with the mutant in it."
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns('.*', '__pycache__', 'papers', 'docs', 'build', 'dist'), dirs_exist_ok=True)
        if mutant: (Path(folder)/'dp_saddle'/f'{mutant[0].split(":")[0]}.py').write_bytes(mutant[3])
        env = os.environ | dict(PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE='1', MPLBACKEND='Agg', OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1')
        start, memory = time.time(), lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        process = subprocess.Popen([sys.executable, *command], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=memory)
        try: said = process.communicate(timeout=limit)[0].splitlines()
        except subprocess.TimeoutExpired: os.killpg(process.pid, signal.SIGKILL); process.communicate(); said = ['timeout']
        return ([x for x in said if x.startswith(('FAILED', 'ERROR'))] or said or ['failed'])[-1][:120] if process.returncode else '', time.time() - start

def judge(mutant, args):
    "(mutant, the stage that killed it or None), and a line that says so."
    start, killer, sources = time.time(), None, b''.join(p.read_bytes() for p in sorted((ROOT/'dp_saddle').glob('*.py')))
    file = Path(tempfile.gettempdir())/f'dp_saddle-mutants-{hashlib.sha256(sources).hexdigest()[:16]}.json'
    for stage, command in stages(mutant[0].split(':')[0])[:2 if args.chapter_only else None]:
        times = json.loads(file.read_text()) if file.exists() else {}
        if stage not in times:
            what, times[stage] = run(command)
            if what: raise RuntimeError(f'{stage} fails without a mutant: {what}')
            file.write_text(json.dumps(times))
        what, _ = run(command, max(10, args.slack*times[stage]), mutant)
        if what: killer = stage; break
    print(*mutant[:3], f'{killer}: {what}' if killer else 'SURVIVED', f'{time.time() - start:.0f} s', sep=' | ', flush=True)
    return mutant, killer

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--module', nargs='+', choices=MODULES, default=MODULES, metavar='NAME', help=f'of {", ".join(MODULES)}; default: all')
    for name, default, text in (('count', 20, 'mutants per module'), ('seed', 1, 'which of them'), ('jobs', 1, 'how many at a time'), ('slack', 4, 'see above')):
        parser.add_argument(f'--{name}', type=int, default=default, help=f'{text}; default: {default}')
    parser.add_argument('--only', nargs='+', default=[], metavar='ID', help='these mutants and no others, such as plrv:74:1')
    parser.add_argument('--chapter-only', action='store_true', help='no pytest')
    parser.add_argument('--cells', help=argparse.SUPPRESS)
    args, chosen = parser.parse_args(), []
    if args.cells: return run_cells(args.cells)
    for module in dict.fromkeys(x.split(':')[0] for x in args.only) or args.module:
        found, draw = mutants(module), random.Random(f'{args.seed} {module}').randrange
        cuts = [i*len(found)//args.count for i in range(args.count + 1)]
        chosen += [m for m in found if m[0] in args.only] if args.only else [found[draw(*cut)] for cut in zip(cuts, cuts[1:]) if cut[0] < cut[1]]
    with ThreadPool(args.jobs) as pool: judged = list(pool.imap(lambda m: judge(m, args), chosen))
    for module in dict.fromkeys(m[0].split(':')[0] for m in chosen):
        mine = [(m, killer) for m, killer in judged if m[0].startswith(module + ':')]
        killed, lines = Counter(killer for _, killer in mine if killer), (ROOT/'dp_saddle'/f'{module}.py').read_text(encoding='utf-8').splitlines()
        print(f'\n{module}: {sum(killed.values())} of {len(mine)} killed;', *(f'{n} by {k}' for k, n in killed.items()))
        for m in [m for m, killer in mine if not killer]: print(f'  survived {m[0]} {m[1]}: {m[2]}\n    {lines[int(m[0].split(":")[1]) - 1].strip()}\n    {KNOWN.get((module, m[1], m[2]), "NEW")}')
    score, same = sum(bool(killer) for _, killer in judged), sum(KNOWN.get((m[0].split(':')[0], *m[1:3]), '').startswith('same') for m, killer in judged if not killer)
    print(f'\n{score} of {len(judged)} killed, {score/max(len(judged), 1):.0%}; without the {same} that change no answer, {score/max(len(judged) - same, 1):.0%}')

if __name__ == '__main__': main()
