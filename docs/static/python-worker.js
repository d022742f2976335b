// Python itself: Pyodide with numpy and SciPy, this library, and matplotlib where it is asked for,
// all from the site's own folder. The page's side is python.js.
'use strict';

const HARNESS = String.raw`
import ast, io, json, linecache, logging, os, symtable, sys, textwrap, traceback, types

logging.getLogger('matplotlib.font_manager').setLevel(logging.ERROR)   # of its cache, each time
sys.modules['__main__'] = types.ModuleType('__main__')   # where classes and pickles are looked for
sys.modules['__main__'].__builtins__ = __builtins__

def wanted(code, packages):
    "What the code imports of what can be loaded; and matplotlib, where it draws by our library."
    try: nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError: return []
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import): found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f'{node.module}.{a.name}' for a in node.names)}
        elif isinstance(node, ast.Attribute): found.add(node.attr)
        elif isinstance(node, ast.Name): found.add(node.id)
    draws = any(name.startswith(('plot', 'dp_saddle.base.pictures', 'dp_saddle.plot', 'cycler'))
                for name in found)
    found = {name.split('.')[0] for name in found} | ({'matplotlib'} if draws else set())
    return [name for name in packages if name in found]

class Stream(io.TextIOBase):
    "Lines, as soon as they are complete."
    def __init__(self, say, kind): self.say, self.kind, self.held = say, kind, ''
    def writable(self): return True
    def write(self, text):
        self.held += text
        if '\n' in text: self.flush()
        return len(text)
    def flush(self):
        if self.held: self.say(self.kind, self.held)
        self.held = ''

def figures(show):
    "All that pyplot has drawn, as Jupyter shows it: with two pixels for each that is seen."
    sharp = 160
    if 'matplotlib.pyplot' not in sys.modules: return
    import base64
    plt = sys.modules['matplotlib.pyplot']
    for number in plt.get_fignums():
        out, figure = io.BytesIO(), plt.figure(number)
        figure.savefig(out, format='png', dpi=max(sharp, figure.dpi), bbox_inches='tight')
        show('data:image/png;base64,' + base64.b64encode(out.getvalue()).decode())
    plt.close('all')

def plain(value):
    "As JSON has it, or as Python prints it."
    try: return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError): return json.dumps(repr(value))

def cell(code, name, say, show, quiet, place=None):
    "Run it: JSON of {ok, value, error}."
    names = sys.modules['__main__'].__dict__
    there = dict(names)
    before, value, error = (sys.stdout, sys.stderr), None, ''
    sys.stdout, sys.stderr = Stream(say, 'stdout'), Stream(say, 'stderr')
    linecache.cache[name] = len(code), None, [line + '\n' for line in code.split('\n')], name
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, 'exec'), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, 'eval'), names)
        sys.stdout.flush()
        if value is not None and not quiet and not code.rstrip().endswith(';'):
            if hasattr(value, '_repr_html_'): say('html', value._repr_html_())
            elif not type(value).__module__.startswith('matplotlib'): say('result', repr(value))
        if value is not None: names['_'] = value
        figures(show)
        if place is not None: leave(place, code, there)
    except BaseException as e:
        kept = e.__traceback__
        while kept and kept.tb_frame.f_code.co_filename == __file__: kept = kept.tb_next
        if isinstance(e, SyntaxError) and e.filename == name: kept = None
        error = ''.join(traceback.format_exception(type(e), e, kept))
        if 'matplotlib.pyplot' in sys.modules: sys.modules['matplotlib.pyplot'].close('all')
    finally:
        for stream in (sys.stdout, sys.stderr): stream.flush()
        sys.stdout, sys.stderr = before
    return answer(error, value)

def answer(error, value):
    return f'{{"ok": {json.dumps(not error)}, "value": {plain(value)}, "error": {json.dumps(error)}}}'

def values_of(node, frame):
    "What is compared in an assert, with its values: 'len(x) = 3'."
    found = {}
    for part in (n for n in ast.walk(node) if isinstance(n, ast.Compare)):
        for side in (part.left, *part.comparators):
            if isinstance(side, ast.Constant): continue
            try: value = eval(compile(ast.Expression(side), '', 'eval'), frame.f_globals, frame.f_locals)
            except Exception: continue
            found[ast.unparse(side)] = ' '.join(repr(value).split())[:200]
    return [f'{name} = {value}' for name, value in found.items()]

def defines(code, name):
    "Does this code bind the name? That it is there is not enough: the solution may have been run."
    top = symtable.symtable(code, '<answer>', 'exec')
    if name not in top.get_identifiers(): return False
    return top.lookup(name).is_assigned() or top.lookup(name).is_imported()

def opened(code):
    "The statements of 'def solution(): ...', where all that follows is its call: its names are asked for."
    try: body = ast.parse(code).body
    except SyntaxError: return code
    if len(body) != 2 or not isinstance(body[0], ast.FunctionDef) or body[0].args.args: return code
    if ast.unparse(body[1]) != body[0].name + '()': return code
    lines = code.split('\n')[body[0].body[0].lineno - 1:body[0].end_lineno]
    return textwrap.dedent('\n'.join(lines))

left = {}

def leave(place, code, before):
    "Keep what the cell at this place of the page has bound: cells below may bind the same names."
    names = sys.modules['__main__'].__dict__
    bound = {name for name in names if name not in before or before[name] is not names[name]}
    bound |= {s.get_name() for s in symtable.symtable(code, '<cell>', 'exec').get_symbols()
              if s.is_assigned() or s.is_imported()}
    left[place] = {name: names[name] for name in bound if name in names}

def judge(code, checks, wanted, name, say, show, above=()):
    """As judged, by what the cells at the places above have left; what an answer has defined is
    gone again, so that no other is judged by it."""
    names = sys.modules['__main__'].__dict__
    kept = dict(names)
    for place in above: names.update(left.get(place, {}))
    try: return judged(code, checks, wanted, name, say, show)
    finally:
        names.clear()
        names.update(kept)

def judged(code, checks, wanted, name, say, show):
    "Run the reader's code, and then what the solution asserts: JSON as of a cell, of how many hold."
    code = opened(code)
    done = cell(code, name, say, show, True)
    if not json.loads(done)['ok']: return done
    names = sys.modules['__main__'].__dict__
    for one in wanted:
        if not defines(code, one) or one not in names or names[one] is ...:
            return answer(f'{one} is not there: your answer must define it.', None)
    tree = ast.parse(checks, '<check>')
    linecache.cache['<check>'] = len(checks), None, [f'{x}\n' for x in checks.split('\n')], '<check>'
    held = 0
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.StringIO(), Stream(say, 'stderr')
    try:
        for statement in tree.body:
            exec(compile(ast.Module([statement], []), '<check>', 'exec'), names)
            held += sum(isinstance(n, ast.Assert) or isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
                        and n.func.id.startswith('test_') for n in ast.walk(statement))
        figures(lambda url: None)
    except BaseException as e:
        frames = [(f, line) for f, line in traceback.walk_tb(e.__traceback__)
                  if f.f_code.co_filename == '<check>']
        frame, line = frames[-1]
        inner = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= n.end_lineno]
        at = max(inner, key=lambda n: n.lineno)
        lines = ['This check does not hold:' if isinstance(e, AssertionError) else 'This check fails:', '',
                 *(f'    {x}' for x in ast.get_source_segment(checks, at).split('\n')), '']
        if isinstance(at, ast.Assert) and isinstance(e, AssertionError): lines += values_of(at.test, frame)
        else: lines += traceback.format_exception_only(e)
        return answer('\n'.join(x.rstrip('\n') for x in lines), None)
    finally:
        sys.stdout, sys.stderr = before
    return answer('', held)
`;

const ask = self.fetch.bind(self);
const byUrl = new Map();      // what is on its way, or here
let files, base, ready, python, job = 0, expected = 0, arrived = 0, what = '';

const say = (type, more) => postMessage({type, job, ...more});
const MB = bytes => (bytes/1e6).toFixed(bytes < 1e6 ? 1 : 0);

// Names are for good, so a file that a browser has kept is never asked for again. (Where it keeps
// nothing - a site that is neither https nor on this machine - its plain cache has to do.)
const shelf = (async () => {
  try { return self.caches ? await caches.open('dp_saddle ' + new URL('.', self.location).pathname) : null; }
  catch { return null; }
})();

async function bytes(url) {
  const kept = await shelf;
  const found = kept && await kept.match(url);
  if (found) return found.arrayBuffer();
  const response = await ask(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const parts = [], reader = response.body.getReader();
  for (let part; !(part = await reader.read()).done;) {
    parts.push(part.value);
    arrived += part.value.length;
    say('progress', {text: `Loading ${what} (${MB(expected)} MB)`, count: `: ${MB(arrived)} MB are here`});
  }
  const blob = new Blob(parts);
  if (kept) await kept.put(url, new Response(blob)).catch(() => {});      // full: then not
  return blob.arrayBuffer();
}

function fetched(url) {
  if (!byUrl.has(url)) byUrl.set(url, bytes(url));
  return byUrl.get(url);
}

self.fetch = async (request, options) => {
  const url = new URL(typeof request === 'string' ? request : request.url || request, self.location).href;
  if (!base || !url.startsWith(base.href)) return ask(request, options);
  const data = await fetched(url);
  byUrl.delete(url);
  const type = url.endsWith('.wasm') ? 'application/wasm' : url.endsWith('.json') ? 'application/json'
    : 'application/octet-stream';
  return new Response(data, {headers: {'Content-Type': type}});
};

// Everything at once: how much there is to come is known from the beginning.
async function expect(names, title) {
  const kept = await shelf;
  const has = await Promise.all(names.map(name => kept ? kept.match(new URL(name, base)) : null));
  what = title;
  arrived = 0;
  expected = names.reduce((sum, name, i) => sum + (has[i] ? 0 : files.sizes[name.split('/').pop()]), 0);
  for (const name of names) fetched(new URL(name, base).href);
}

async function forget() {        // what an earlier version of the site has left
  const kept = await shelf;
  if (!kept) return;
  const now = [base.href, new URL(files.library, new URL('..', new URL('..', base))).href];
  for (const request of await kept.keys()) {
    if (!now.some(start => request.url.startsWith(start))) kept.delete(request);
  }
}

async function begin() {
  const library = new URL(files.library, new URL('../..', base)).href;
  const core = ['pyodide.asm.wasm', 'python_stdlib.zip', 'pyodide-lock.json'];
  say('progress', {text: 'Loading Python'});
  await expect([...core, ...files.groups.scipy, '../' + library.split('/').pop()], 'Python, numpy and SciPy');
  importScripts(new URL('pyodide.js', base).href);
  python = await loadPyodide({indexURL: base.href, env: {HOME: '/home/pyodide', MPLBACKEND: 'agg'}});
  await load(['scipy']);
  say('progress', {text: 'Starting Python'});
  python.unpackArchive(await fetched(library), 'wheel');
  byUrl.clear();
  python.runPython(HARNESS, {filename: '<harness>', globals: harness()});
  forget();
}

let space;
function harness() {
  if (!space) space = python.toPy({__file__: '<harness>', __name__: 'harness'});
  return space;
}

const loaded = new Set();
async function load(names) {
  const more = names.filter(name => !loaded.has(name));
  if (!more.length) return;
  const missing = more.flatMap(name => files.groups[name]).filter(name => !loaded.has(name));
  if (more[0] !== 'scipy') await expect([...new Set(missing)], more.join(', ').replace(/, ([^,]*)$/, ' and $1'));
  await python.loadPackage(more, {messageCallback() {}, errorCallback(text) { say('progress', {text}); }});
  [...more, ...missing].forEach(name => loaded.add(name));
}

async function run({code, name, quiet, check, place}) {
  const packages = python.toPy(Object.keys(files.groups));
  const wanted = harness().get('wanted')(code + (check ? '\n' + check.checks : ''), packages);
  await load(wanted.toJs());
  wanted.destroy();
  say('progress', {text: 'Running'});
  const text = (kind, text) => say('text', {kind, text}), figure = url => say('figure', {url});
  if (check) {
    const names = python.toPy(check.names), above = python.toPy(check.above);
    return JSON.parse(harness().get('judge')(code, check.checks, names, name, text, figure, above));
  }
  return JSON.parse(harness().get('cell')(code, name || `<cell ${job}>`, text, figure, Boolean(quiet), place ?? null));
}

// One after the other.
let last = Promise.resolve();
onmessage = ({data}) => {
  if (data.type === 'start') {
    files = data.files;
    base = new URL(files.base, data.here);
    return;
  }
  last = last.then(async () => {
    job = data.job;
    let result;
    try {
      ready ||= begin();
      await ready;
      result = await run(data);
    } catch (e) {
      result = {ok: false, value: null, error: `Python could not be loaded: ${e.message || e}`};
      if (!python || !space) ready = null;           // the next Run tries again
    }
    say('progress', {text: ''});
    say('done', {result});
  });
};
