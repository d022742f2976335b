"""The reference: a page for each module, made from the modules' text, and none of them is imported.

Signatures are as Python writes them, `*` included; parameters are what the comments behind them say
(docments.py), which is what `help` says too."""
import ast
import re
from copy import copy
from functools import lru_cache
from pathlib import Path

from docments import comments_in, described
from nbdev.config import get_config

DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LIBRARY = sorted(Path("dp_saddle").rglob("[a-z]*.py"))
LINE = 72       # columns of a signature, then one parameter a line
FIRST = "accounting", "practice", "mechanisms"     # on the front page
# Left as they are in a docstring: code, and what is cited.
KEPT = re.compile(r"(`[^`]*`|\[(?:SP|EA|PRV|FA|GDP)\b[^\]]*\])")

@lru_cache(None)
def module(path):
    "(syntax tree, comments, names in `__all__`) of a module."
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    listed = next((ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign)
                   and getattr(n.targets[0], "id", "") == "__all__"), [])
    return tree, comments_in(text), listed

def dotted(path):
    "The module's name within the package: engine.line."
    return ".".join(path.relative_to("dp_saddle").with_suffix("").parts)

def door_of(path):
    "{page: names} of the door that a module is: what it hands to `door`."
    calls = (n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "door")
    return ast.literal_eval(next(calls).args[1])

@lru_cache(None)
def rooms():
    "{exported name: the module that defines it}."
    return {n.name: path for path in LIBRARY for n in module(path)[0].body
            if isinstance(n, DEFINED) and n.name in module(path)[2] and not is_patch(n)}

def imported(path):
    "The modules from which a file imports: for a name at a door, the page that has it."
    here = path.parent.relative_to("dp_saddle").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom): continue
        if not node.level and (node.module or "").split(".")[0] != "dp_saddle": continue
        top = here[:len(here) - node.level + 1] if node.level else ()
        words = [*top, *(node.module or "").split(".")]
        room = Path("dp_saddle", *(word for word in words if word and word != "dp_saddle"))
        for alias in node.names:
            if found := behind(room, alias.name): yield found

def behind(room, name):
    "The module that has a name of `room`, which may be a door, or a door's door; None without any."
    while (room/"__init__.py").exists():
        pages = door_of(room/"__init__.py")
        if (room/f"{name}.py").exists(): return room/f"{name}.py"
        page = next((page for page, names in pages.items() if name in names.split()), None)
        if page is None: return None
        room = room/page
    return room.with_suffix(".py")

@lru_cache(None)
def users():
    "{module: those that import from it}, by their names within the package; a door is its folder."
    found = {}
    for path in (*LIBRARY, *Path("dp_saddle").glob("*/__init__.py")):
        me = dotted(path.parent if path.name == "__init__.py" else path)
        for room in imported(path):
            found.setdefault(dotted(room), set()).add(me)
    return found

@lru_cache(None)
def decorators(node):
    return {ast.unparse(d) for d in node.decorator_list}

def is_patch(node): return any(d.startswith("patch") for d in decorators(node))

@lru_cache(None)
def patches(path):
    "{class: methods} that the module adds by @patch."
    found = {}
    for n in module(path)[0].body:
        if isinstance(n, ast.FunctionDef) and is_patch(n) and n.args.args:
            found.setdefault(getattr(n.args.args[0].annotation, "id", ""), []).append(n)
    return found

def patched(name, path):
    "Methods that the module adds to a class by @patch."
    return patches(path).get(name, [])

def renamed(node, path):
    "Methods of a class that are a function by another name: `line = decay = _refused`."
    known = {n.name: n for n in [*module(path)[0].body, *node.body]
             if isinstance(n, ast.FunctionDef)}
    for n in node.body:
        if isinstance(n, ast.Assign) and getattr(n.value, "id", "") in known:
            for target in n.targets:
                method = copy(known[n.value.id])
                method.name = target.id
                yield method

def is_property(node):
    return any("property" in d or "as_prop=True" in d or "cached=True" in d
               for d in decorators(node))

def members(node, path):
    "Public methods and properties of a class, in the order of its module."
    found = [n for n in node.body if isinstance(n, ast.FunctionDef)] + [*renamed(node, path)]
    for where in LIBRARY:       # later chapters add methods to a class, too
        if where != path and rooms().get(node.name) != path: continue
        added = patched(node.name, where)
        for n in added: n.room = where
        found += added
    return {n.name: n for n in found if not n.name.startswith("_") and documented(n)}

def documented(node):
    "The docstring, without the sections that docs/export.py adds."
    text = ast.get_docstring(node) or ""
    return re.split(r"(?:\n\n|^)(?:Parameters\n-{10}|Returns\n-{7})\n", text)[0]

def plain(text):
    "A docstring as Markdown that shows what stands there."
    def shown(part):
        return re.sub(r"([\\*_<>\[\]$#|~{}^])", r"\\\1", part)
    return "".join(part if i % 2 else shown(part) for i, part in enumerate(KEPT.split(text)))

def signature(name, args, shown=""):
    "A call, in one line or one parameter a line."
    bare = ast.arguments(args.posonlyargs, [a for a in args.args if a.arg not in ("self", "cls")],
                         args.vararg, args.kwonlyargs, args.kw_defaults, args.kwarg, args.defaults)
    for a in [*bare.posonlyargs, *bare.args, bare.vararg, *bare.kwonlyargs, bare.kwarg]:
        if a: a.annotation = None
    text = ast.unparse(bare)
    if len(name + text) + 2 > LINE:
        words, depth, start = [], 0, 0
        for i, c in enumerate(text):
            depth += (c in "([{") - (c in ")]}")
            if c == "," and not depth: words, start = [*words, text[start:i].strip()], i + 1
        text = "\n    " + ",\n    ".join([*words, text[start:].strip()]) + ",\n"
        text = text.replace("    *,\n    ", "    *, ", 1)
    return f"{name}({text}){shown}"

def code(text): return f"```{{code-block}} python\n{text}\n```"

def fields(node, comments):
    "The call that makes a dataclass or a named tuple."
    named = [n for n in node.body if isinstance(n, ast.AnnAssign)
             and not n.target.id.startswith("_")]
    args = [ast.arg(n.target.id) for n in named]
    defaults = [n.value for n in named]
    only = any("kw_only=True" in d for d in decorators(node))
    none = dict(posonlyargs=[], vararg=None, kwarg=None)
    if only:
        return ast.arguments(args=[], kwonlyargs=args, kw_defaults=defaults, defaults=[], **none)
    return ast.arguments(args=args, kwonlyargs=[], kw_defaults=[],
                         defaults=[d for d in defaults if d is not None], **none)

def bases(node):
    "The classes of the library that it inherits from, the nearest first."
    for base in (getattr(b, "id", getattr(b, "attr", "")) for b in node.bases):
        for path in LIBRARY:
            for n in module(path)[0].body:
                if isinstance(n, ast.ClassDef) and n.name == base:
                    yield n, path
                    yield from bases(n)
                    break

def making(node, path):
    "(how a class is made: arguments or None, what is said of them)."
    for cls, where in [(node, path), *bases(node)]:
        comments = module(where)[1]
        own = [n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        own += [n for n in patched(cls.name, where) if n.name == "__init__"]
        if own: return own[0].args, described(own[0], comments)[0], documented(own[0])
        kinds = decorators(cls) | {ast.unparse(b) for b in cls.bases}
        if any("dataclass" in k or k == "NamedTuple" for k in kinds):
            return fields(cls, comments), described(cls, comments)[0], ""
    return None, [], ""

def listed(said, result):
    "Parameters as a list of definitions."
    out = [", ".join(f"`{name}`" for name in names) + f"\n: {plain(comment)}"
           for names, comment in said]
    if result: out.append(f"*returns*\n: {plain(result)}")
    return "\n\n".join(out)

def link(node, path, top):
    "Where the definition stands: on the code host, or on the site's copy."
    host, line = get_config().git_url, f"L{node.lineno}"
    to = (f"{host}/blob/{get_config().branch}/{path.as_posix()}#{line}" if host
          else f"{top}source/{dotted(path)}.html#{line}")
    return f'<a class="source" href="{to}">source</a>'

def to(name, room): return f'<a href="{room}.html#api-{name}"><code>{name}</code></a>'

def inherited(node, path):
    "What else it can do, and where that is told."
    own, parts = set(members(node, path)), []
    for cls, where in bases(node):
        more = [name for name in members(cls, where) if name not in own]
        own |= set(more)
        public = cls.name in rooms()
        if not more: continue
        of = f" from {to(cls.name, dotted(where))}" if public else ""
        names = ", ".join(f"`{name}`" for name in more)
        parts.append(f"Inherited{of}: {names}.")
    return "\n\n".join(parts)

def entry(node, path, chapter):
    "A function or class: signature, text, parameters; of a class its methods too."
    comments, name = module(path)[1], node.name
    where = f' · <a href="../{chapter}.html#api-{name}">chapter</a>' if chapter else ""
    parts = [f'<span id="api-{name}"></span>', f"## {name}"]
    if not isinstance(node, ast.ClassDef):
        said, result = described(node, comments)
        parts += [code(signature(name, node.args)), plain(documented(node)), listed(said, result)]
        return [*parts, link(node, path, "../") + where]
    args, said, more = making(node, path)
    if args: parts.append(code(signature(name, args)))
    parts += [plain(documented(node)), plain(more), listed(said, ""), inherited(node, path)]
    for key, f in members(node, path).items():
        head = f"{name}.{key}"
        parts += [f'<span id="api-{head}"></span>',
                  code(f"{head}    # a property" if is_property(f) else signature(head, f.args)),
                  plain(documented(f)),
                  listed(*described(f, module(getattr(f, "room", path))[1]))]
    return [*parts, link(node, path, "../") + where]

def page(path, chapter, title):
    "The page of a module."
    tree, _, names = module(path)
    parts = [f"# dp_saddle.{dotted(path)}", plain(ast.get_docstring(tree) or "")]
    if chapter: parts.append(f"Derived and checked in [{title}](../{chapter}.ipynb).")
    for node in tree.body:
        if isinstance(node, DEFINED) and node.name in names and not is_patch(node):
            parts += entry(node, path, chapter)
    return "\n\n".join(part for part in parts if part)

def public():
    "{module: names} that `import dp_saddle` brings."
    return {room: names.split() for room, names in door_of(Path("dp_saddle/__init__.py")).items()}

def first_sentence(name):
    node = next(n for n in module(rooms()[name])[0].body if getattr(n, "name", "") == name)
    text = " ".join(documented(node).split())
    return re.split(r"(?<!al)(?<!App)(?<=\w|\)|\])\. (?=[A-Z`])", text)[0]

def front(paths):
    "The reference's first page: what `import dp_saddle` brings, in one table, and all modules."
    parts = ["# Reference", "What `from dp_saddle import ...` brings, by the module that it comes "
             "from; and below, every module. `help(epsilon)` says the same."]
    table = public()
    for room in [*FIRST, *(room for room in table if room not in FIRST)]:
        names = table[room]
        rows = [f"{to(name, dotted(rooms()[name]))}\n: {plain(first_sentence(name))}"
                for name in names]
        parts += [f"## {room}", *rows]
    listed = "\n".join(f"dp_saddle.{dotted(path)} <{dotted(path)}>" for path in paths)
    return "\n\n".join([*parts, "## All modules", f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```"])

def write(to, chapters, titles):
    "All pages of the reference, into the folder `to`. chapters: {module: the notebook it is from}."
    to.mkdir(parents=True)
    paths = [path for path in LIBRARY if any(name in rooms() and rooms()[name] == path
                                             for name in module(path)[2])]
    for path in paths:
        chapter = chapters.get(dotted(path))
        (to/f"{dotted(path)}.md").write_text(page(path, chapter, titles.get(chapter, "")),
                                                     encoding="utf-8")
    (to/"index.md").write_text(front(paths), encoding="utf-8")
