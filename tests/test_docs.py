"""Everything exported says what it is: its meaning, each parameter with unit, shape or range, its errors, and where its formula comes from."""
import ast, importlib, inspect, io, re, textwrap, tokenize
from functools import cached_property, lru_cache
from math import inf
from types import FunctionType
import pytest

MODULES = [importlib.import_module(f"dp_saddle.{m}") for m in "plrv contour saddlepoint edgeworth prv_fft individual accounting widgets".split()]
SYMBOLS = {f"{m.__name__.split('.')[1]}.{name}": getattr(m, name) for m in MODULES for name in m.__all__}

# What cites no paper, and why. All else has to.
OWN = {
    "definition": "plrv.Bounds plrv.PLRV plrv.Mechanism plrv.Accountant plrv.Discrete plrv.RandomizedResponse saddlepoint.TiltedAccountant",
    "plumbing": "plrv.expm1mx plrv.NodeLoss plrv.FiniteLoss edgeworth.step_moments individual.backward individual.accuracy "
                "accounting.Run accounting.Table accounting.to_steps accounting.from_steps accounting.read_run accounting.Budget accounting.report accounting.main",
    "asks the accountants of other chapters, which cite": "accounting.accountant accounting.epsilon accounting.delta accounting.dpsgd accounting.compare accounting.calibrate accounting.epsilon_after "
                "accounting.plot_curve accounting.plot_steps accounting.plot_tradeoff accounting.plot_rdp individual.individual_epsilon individual.account_store",
    "the book's own": "contour.composed_atoms contour.spline_transform saddlepoint.cumulant_powers edgeworth.TiltedEdgeworth prv_fft.log_transform prv_fft.TiltedFFT",
    "a picture of what other chapters cite": "widgets.Slider widgets.Explorer widgets.tabulate widgets.explore_curve widgets.explore_tilt widgets.explore_tradeoff widgets.explore_edgeworth widgets.digits_norms",
}

# What raises an error of its own, and the words that say when (regular expressions). Ranges of parameters need none.
ERRORS = {
}

# Parameters that are numbers, and what is enough to say of them: a range, a unit or a shape.
NUMBERS = set("""eps delta sigma rate steps order scale mu norms clip t alpha fpr x y z w s L n h u k K K1 K2 K3 K4 Kt3 lam lam3 c d q p mesh points max_points max_nodes rtol eps_resolution eps_error delta_error
    tilts tilt budget increment grid sigma_grid records cells seed lr prior loss losses logw logp logq limit loose largest t0 sensitivity batch_size dataset_size epochs accumulate count window shown lower estimate upper
    regret start values marks reach places dropped noise drift defect cap advantage""".split())
SAID = re.compile(r"[<>]|\bin [\[(]|\bnats\b|shape|\b[12]-d\b|\barrays?\b|\d to \d|\bat (least|most)\b|\binteger|\bwhole|\bnumbers?\b|how many|\bstd\b|vector|probabilit|\bshare\b|first axis|\bfrom \d|\bindices|\blambda_3|what `step_moments` gives|the run\b")

def source_of(thing):
    f = inspect.unwrap(thing.fget if isinstance(thing, property) else thing.func if isinstance(thing, cached_property) else thing)
    return textwrap.dedent(inspect.getsource(f))

@lru_cache(None)
def parsed(thing):
    "(the syntax tree of a function or class, {line: comment})."
    text = source_of(thing)
    comments = {t.start[0]: t.string.lstrip("# ") for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT}
    return ast.parse(text).body[0], comments

def parameters(f):
    "{parameter: the comment behind it}, and the comment behind the return value ('' if there is none)."
    tree, comments = parsed(f)
    a = tree.args
    defaults = dict(zip([x.arg for x in (a.posonlyargs + a.args)][::-1], a.defaults[::-1])) | {x.arg: d for x, d in zip(a.kwonlyargs, a.kw_defaults) if d}
    every = [x for x in a.posonlyargs + a.args + [a.vararg] + a.kwonlyargs + [a.kwarg] if x and x.arg not in ("self", "cls")]
    end = {x.arg: (defaults.get(x.arg) or x).end_lineno for x in every}
    lines, body = set(end.values()), tree.body[0].lineno
    said = {name: comments.get(line, "") if line < body else "" for name, line in end.items()}
    result = " ".join(c for line, c in comments.items() if line < body and line not in lines and line >= max(lines, default=tree.lineno))
    return said, result

def fields_of(cls):
    "{field of a dataclass or named tuple: the comment behind it}."
    out = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("dp_saddle") or not base.__dict__.get("__annotations__"): continue
        tree, comments = parsed(base)
        out |= {node.target.id: comments.get(node.end_lineno, "") for node in tree.body if isinstance(node, ast.AnnAssign)}
    return out

def ours(cls): return [c for c in cls.__mro__ if c.__module__.startswith("dp_saddle")]

def methods(cls):
    "{name: function or property} of a class, its own and what it inherits from others of the library."
    found = {}
    for base in ours(cls):
        for name, thing in vars(base).items():
            if not name.startswith("_") and isinstance(thing, (FunctionType, property, cached_property)): found.setdefault(name, thing)
    return found

def constructor(cls):
    "The class's own way to make one: a function, or None for dataclasses and named tuples."
    return next((vars(c)["__init__"] for c in ours(cls) if isinstance(vars(c).get("__init__"), FunctionType) and not hasattr(c, "__dataclass_fields__")), None)

def returns(tree):
    "Does the function return a value? Functions inside it do not count."
    def inside(node): return any(isinstance(n, ast.Return) and n.value or not isinstance(n, (ast.FunctionDef, ast.Lambda, ast.ClassDef)) and inside(n) for n in ast.iter_child_nodes(node))
    return bool(inside(tree))

def described(symbol):
    "[(what it is called, the function or None, {parameter: docment}, docs of the whole, is it a method)] of a symbol, its methods included."
    thing = SYMBOLS[symbol]
    if not inspect.isclass(thing):
        said, result = parameters(thing)
        return [(symbol, thing, said, f"{thing.__doc__ or ''} -> {result}", False)]
    doc, out, make = inspect.getdoc(thing) or "", [], constructor(thing)
    if fields_of(thing): out.append((symbol, vars(thing).get("__post_init__"), fields_of(thing), doc, False))
    elif make: out.append((symbol, make, parameters(make)[0], doc + (make.__doc__ or ""), False))
    for name, m in methods(thing).items():
        if isinstance(m, FunctionType):
            said, result = parameters(m)
            out.append((f"{symbol}.{name}", m, said, f"{inspect.getdoc(getattr(thing, name)) or ''} -> {result}", True))
    return out

each = pytest.mark.parametrize("symbol", SYMBOLS)

@each
def test_docstrings(symbol):
    "The symbol and its public methods and properties have one."
    thing, missing = SYMBOLS[symbol], []
    if not (thing.__doc__ or "").strip() or thing.__doc__.startswith(f"{symbol.split('.')[1]}("): missing.append(symbol)
    if inspect.isclass(thing): missing += [f"{symbol}.{name}" for name in methods(thing) if not inspect.getdoc(getattr(thing, name))]
    assert not missing, f"no docstring: {', '.join(missing)}"

@each
def test_parameters(symbol):
    "Functions and constructors: a docment for every parameter and the result. Methods: that, or their docstring names the parameter. Numbers: range, unit or shape."
    wrong = []
    for name, f, said, doc, method in described(symbol):
        for parameter, comment in said.items():
            named = re.search(rf"(?<![\w.]){parameter}(?!\w)", doc)
            if not comment and not (method and named): wrong.append(f"{name}: {parameter} is not described")
            if parameter in NUMBERS and not SAID.search(comment or doc): wrong.append(f"{name}: {parameter} has no range, unit or shape: {comment or doc!r}")
        if f and (not method or any(said.values())) and not inspect.isclass(SYMBOLS[symbol]) | method:
            if returns(parsed(f)[0]) and doc.endswith("-> "): wrong.append(f"{name}: what it returns is not described")
        if f and method and any(said.values()) and returns(parsed(f)[0]) and doc.endswith("-> "): wrong.append(f"{name}: what it returns is not described")
    assert not wrong, "\n".join(wrong)

def number(x): return re.sub(r"^(-?)0\.", r"\1.", f"{x:g}")

def ways(low, high, brackets):
    "How a range may be written. Bounds that only keep doubles from overflowing need not be named."
    if high is None or low is None: return [r"[<>]|\bin [\[(]|shape"]
    far, near = high >= 1e6, 0 <= low <= 1e-12
    closed = brackets[0] == "[" and not (near and low > 0)
    low = 0. if near else low
    if low == -inf and high == inf: return ["."]
    out = [rf"in {re.escape(f'{brackets[0]}{number(low)}, {number(high)}{brackets[1]}')}"]
    out += [rf"{re.escape(number(low))} {'<=' if closed else '<'} \w+ {'<=' if brackets[1] == ']' else '<'} {re.escape(number(high))}(?![\d.])"]
    if far: out += [rf"{'>=' if closed else '>'} {re.escape(number(low))}(?![\d.])"]
    elif brackets[1] == "]": out += [rf"{re.escape(number(low))} to {re.escape(number(high))}(?![\d.])"]
    if far and low == -inf: return ["."]
    return out

def literal(node):
    try: return eval(compile(ast.Expression(node), "", "eval"), {"inf": inf, "__builtins__": {}})
    except Exception: return None

def checks(f):
    "(parameter, ways to say its range, in words) for every call of a validator in the body."
    tree, _ = parsed(f)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call): continue
        kind = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
        values = [literal(a) for a in call.args if not isinstance(a, ast.Starred)]
        names = [k.arg for k in call.keywords if k.arg]
        if kind in ("_real", "_array", "_floats"):
            low, high, brackets = (values + ["()"])[:3] if len(values) >= 2 else (None, None, "()")
            for name in names: yield name, ways(low, high, brackets), f"{brackets[0]}{low}, {high}{brackets[1]}"
        elif kind == "_count":
            for name in names: yield name, [rf">= {values[0]}\b", rf"\b{values[0]} to \d", rf"{values[0]} <= {name}", r"how many", rf"in \[{values[0]}, "] if values[0] is not None else ["."], f">= {values[0]}"
        elif kind == "_choice":
            options = values[0] if values and values[0] else None
            for name in names: yield name, None if options else ["."], options
        elif kind == "_series_order": yield "order", [rf"\b{values[0]}\b.* to 8\b"], f"{values[0]} to 8"

@each
def test_ranges(symbol):
    "What is validated says the range it is validated against, or the choices."
    wrong = []
    for name, f, said, doc, method in described(symbol):
        for parameter, patterns, text in checks(f) if f else ():
            if parameter not in said: continue                    # an attribute, a suffix, ...
            where = f"{said[parameter]} {doc}".replace("1/2", ".5").replace(" 0.", " .")
            if patterns is None:
                lost = [o for o in text if f"'{o}'" not in where and f'"{o}"' not in where]
                if lost: wrong.append(f"{name}: {parameter} may be {', '.join(map(repr, lost))}: it does not say so")
            elif not any(re.search(p, where) for p in patterns): wrong.append(f"{name}: {parameter} is checked to be in {text}: {said[parameter] or doc!r} does not say so")
    assert not wrong, "\n".join(wrong)

CITED = re.compile(r"\[(SP|EA|PRV|FA|GDP)( [^\]]+|, [^\]]+)\]|[A-Z]\w+(,? [A-Z]\w+)*( et al\.| and [A-Z]\w+)? \(?(19|20)\d\d\b")

def test_sources():
    "A formula names its source; what has none is in OWN, with the reason."
    own = {s for names in OWN.values() for s in names.split()}
    assert not own - SYMBOLS.keys(), f"not exported: {own - SYMBOLS.keys()}"
    assert len(own) == sum(len(names.split()) for names in OWN.values()), "twice in OWN"
    cited = {s for s, thing in SYMBOLS.items() if CITED.search((thing.__doc__ or "") + " ".join(" ".join(said.values()) + doc for _, _, said, doc, method in described(s)))}
    assert not SYMBOLS.keys() - own - cited, f"no source, and not in OWN: {sorted(SYMBOLS.keys() - own - cited)}"
    assert not own & cited, f"has a source: take it out of OWN: {sorted(own & cited)}"

def raised():
    "What raises ValueError or TypeError by itself, in its own body."
    for symbol in SYMBOLS:
        for name, f, *_ in described(symbol):
            if f and any(isinstance(n, ast.Raise) and n.exc and getattr(getattr(n.exc, "func", None), "id", "") in ("ValueError", "TypeError") for n in ast.walk(parsed(f)[0])): yield name

def test_errors():
    "What a user can run into beyond a range is said: by docstring or docments."
    docs = {name: f"{' '.join(said.values())} {doc}" for s in SYMBOLS for name, _, said, doc, _ in described(s)}
    found = set(raised())
    assert not found - ERRORS.keys(), f"raises, and is not in ERRORS: {sorted(found - ERRORS.keys())}"
    assert not ERRORS.keys() - found, f"raises nothing: take it out of ERRORS: {sorted(ERRORS.keys() - found)}"
    wrong = [f"{name}: {words!r} is not said" for name, words in ERRORS.items() if not re.search(words, docs[name])]
    assert not wrong, "\n".join(wrong)
