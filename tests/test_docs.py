"""Everything exported says what it is: its meaning, each parameter with unit, shape or range, its
errors, and where its formula comes from."""
import ast
import importlib
import inspect
import io
import re
import textwrap
import tokenize
from functools import lru_cache
from math import inf
from types import FunctionType

import pytest

import dp_saddle
import house
from dp_saddle.base.checks import cached_property

MODULES = [importlib.import_module(f"dp_saddle.{name}") for name in house.MODULES]
EXPORTED = {name: getattr(m, name) for m in MODULES for name in getattr(m, "__all__", ())
            if callable(getattr(m, name))}
# What chapters teach beside what `import dp_saddle` brings. All else that is exported is a door
# between rooms: it has a docstring, and is not held to the rest.
TAUGHT = """
    expm1mx log_mgf gaussian_log_delta GaussianLoss NodeLoss SubsampledLoss SubsampledGaussianLoss
    LaplaceLoss FiniteLoss ComposedLoss log_chernoff_factor composed_atoms asymptotic_saddle_point
    saddle_point cumulant_powers msd_terms TiltedAccountant clt_log_delta lyapunov_sum
    asymptotic_epsilon standard_cumulants hermite_series edgeworth_tail step_moments berry_esseen
    moment_bound prawitz_bound transform_bound log_transform fourier_tail ReplaceOneLoss
    gaussian_epsilon norm_counts Run Table GDP main Slider Explorer tabulate explore_curve
    explore_tilt explore_saddle explore_edgeworth explore_fft explore_filter explore_tradeoff
    explore_sampling BudgetSpent SaddleAccountant SaddlePrivacyAccountant record_norms
    attach_filter show_loader""".split()
SYMBOLS = {name: EXPORTED[name] for name in [*dp_saddle.__all__, *TAUGHT]}
DOORS = {name: thing for name, thing in EXPORTED.items() if name not in SYMBOLS}

# What cites no paper, and why. All else has to.
OWN = {
    "a definition": """BudgetSpent Bounds Mechanism Accountant Gaussian Laplace Discrete
        RandomizedResponse DiscreteLaplace advantage PrivacyProfile""",
    "plumbing": """expm1mx NodeLoss FiniteLoss Run Table to_steps from_steps read_run Budget report
        privacy_profile run_of_history
        Certificate load_certificate main BinBatches CyclicPoissonBatches FixedSizeBatches
        PoissonBatches ShuffledBatches Audit show_progress attach_filter
        show_loader""",
    "asks others, which cite": """certify verify epsilon delta compare calibrate epsilon_after
        plot_curve plot_steps plot_tradeoff plot_rdp individual_epsilon account_store
        compare_sampling plot_sampling sweep explain
        SaddlePrivacyAccountant""",
    "derived or proved in its chapter": """log_mgf composed_atoms cumulant_powers TiltedEdgeworth
        log_transform TiltedFFT bayes_risk GDPResidueFilter PoissonReplaceOne fixed_size
        response_lower_bound""",
    "a picture": """Slider Explorer tabulate explore_curve explore_tilt explore_tradeoff
        explore_sampling""",
}

# What raises a ValueError or TypeError of its own, itself or by a helper, and the words that say
# when (regular expressions). The validators of ranges do not count.
GRID, PAID = "noise is too small", r"a number or of shape \(n,\)"
ERRORS = {
    "CorrelatedBins.__post_init__": r"needs C\^T C >= 0; else ValueError",
    "Run.shuffles": "ValueError with correlated noise",
    "FiniteLoss.__init__": "ValueError if one does not add up to 1",
    "MatrixFactorization.__init__": "ValueError if it has no inverse",
    "MatrixFactorization.sensitivity": "ValueError if.*TooDear",
    "run_of_history": "ValueError for what is none",
    "RenyiDP.__post_init__": "increasing", "PrivacyProfile.__post_init__": "increasing",
    "RenyiDP.of_group": "ValueError where no order is left",
    "RenyiDP.loss_of_sample": "ValueError where no order reaches 2",
    "privacy_profile": "TypeError for what is no curve, ValueError",
    "show_progress": "TypeError for anything else",
    "audit": "ValueError for no scores",
    "RDPOdometer.epsilon": "ValueError for a vector of deltas of another length",
    "GDPResidueFilter.step": "ValueError for both, or neither",
    "GDPResidueFilter.would_exceed": "ValueError for both, or neither",
    "sweep": "ValueError for a parameter that is neither",
    "explain": "ValueError for both delta and eps, or neither",
    "NodeLoss.cumulants": "ValueError for a loss that is infinite",
    "ComposedLoss.cdf": "ValueError unless there is exactly one step",
    "ComposedLoss.log_delta": "ValueError unless there is exactly one step",
    "Composition.__post_init__": "at least one, .* at most 2\\^53",
    "Discrete.__post_init__": "sum to 1 .*of the length of p",
    "PoissonSubsampled.__post_init__": "TypeError",
    "MixtureOfGaussians.__post_init__": r"at most 2000.*with sum 1 \(within 1e-12\): as many",
    "group": "TypeError for what is no mechanism, ValueError where a group's loss is not known",
    "Accountant.__init__": "TypeError for anything else",
    "Accountant.delta": "ValueError where", "Accountant.epsilon": "ValueError where",
    "ContourAccountant.__init__": GRID, "TiltedAccountant.__init__": GRID,
    "asymptotic_saddle_point": "a PLRV",
    "tradeoff": "ValueError for a\\s+direction of a run",
    "saddle_point": "or ValueError",
    "lyapunov_sum": "up to what the loss's grid allows",
    "msd_terms": "order in",
    "TiltedAccountant.curve": "1-d array, .* Needs a loss that can be positive",
    "rdp": "up to what the loss's grid allows",
    "SaddlePointMSD.__init__": "Needs a step with a density .* ValueError",
    "SaddlePointCLT.__init__": "runs of one mechanism; else ValueError",
    "GaussianLimit.__init__": "a ValueError for mass at infinity",
    "asymptotic_epsilon": "ValueError for no steps, or mass at infinity",
    "EdgeworthAccountant.__init__": GRID,
    "EdgeworthInterval.__init__": "1 if proof='moments'",
    "step_moments": "a PLRV", "transform_bound": "a PLRV that varies",
    # the constructor has asked before
    "PRVAccountant.__init__": "ValueError if eps_error takes more",
    "FourierAccountant.__init__": "even, .*ValueError for losses without a density",
    "FourierAccountant.error": "",
    "ReplaceOneLoss.log_delta": "ValueError",
    "with_replacement": r"in \[1, 1000000\]",
    "BallsInBins.__post_init__": "ValueError for too little noise",
    "Mechanism.of_group": "ValueError where its loss is not known",
    "PoissonSubsampled.of_group": "ValueError for\\s+other noise than Gaussian",
    "BallsInBins.of_group": "ValueError for several draws, and for large groups",
    "AdditiveNoise.__post_init__": "ValueError where it is not as\\s+said",
    "AdditiveNoise.loss_of_sample": "ValueError where",
    "connect_the_dots": "up to 700 nats .*ValueError if it is too small",
    "DiscreteLaplace.__post_init__": "<= 10000",
    "TiltedFFT.__init__": "ValueError if the mesh takes more",
    "CostFilter.would_exceed": r"of shape \(n,\)",
    "CostFilter.spend": f"{PAID}.*ValueError if that passes the budget",
    "CostFilter.step": PAID, "CostFilter.scale": PAID,
    "CostOdometer.step": r"of shape \(n,\)",
    "gaussian_epsilon": "broadcasts with mu",
    "norm_counts": r"shape \(records, steps\)",
    "individual_epsilon": r"shape \(records, steps\)",
    "account_store": "must not exist",
    "IndividualAccountant.__init__": "increasing values",
    "IndividualAccountant.step": r"shape \(n,\)",
    "IndividualAccountant.step_rdp": r"shape \(n,\)",
    "IndividualAccountant.delta": "one for each record",
    "IndividualAccountant.epsilon": r"indices in \[0, n\), or a mask",
    "IndividualAccountant.mu": r"indices in \[0, n\), or a mask",
    "IndividualAccountant.rdp": r"indices in \[0, n\), or a mask",
    "exponential_delta": "in \\[1, 2000\\].*ValueError for more",
    "exponential_epsilon": "in \\[1, 2000\\].*ValueError for more",
    "FixedSize.__post_init__": "not below about .1.*at most dataset_size",
    "fixed_size": "not below about .1.*at most dataset_size",
    "PoissonReplaceOne.__post_init__": "not below about .1",
    "TwoLevelSampled.__post_init__": "ValueError for the coin of a record that is replaced",
    "shuffled_lower_bound": "left out with a run",
    "shuffled_blanket": "ValueError for one whose reports tell two values apart",
    "FixedSizeBatches.__init__": r"in \[1, dataset_size\]",
    "ShuffledBatches.__init__": r"in \[1, dataset_size\]",
    "dpsgd": "at most dataset_size .*give this or.*not for sigma below about .1",
    "compare": "give this or",
    "certify": "TypeError for what is no mechanism; ValueError for one of one's own, and where no",
    "verify": "ValueError if it is not in the form.*ImportError",
    "load_certificate": "ValueError, with the path",
    "calibrate": "give one of the three.*ValueError if none is found",
    "optimal_schedule": "> 0, 1-d array",
    "selected": "TypeError for other\\s+laws; ValueError for selected runs",
    "SelectionAccountant.__init__": "else TypeError",
    "epsilon_slopes": "ValueError where eps is infinite, TypeError for a loss",
    "gdp": "ValueError if delta is not above",
    "epsilon_after": r"at most 10\^8 .*infinite where the mass",
    "to_steps": "ValueError for mechanisms of one's own",
    "from_steps": "ValueError for anything",
    "read_run": "ValueError for anything",
    "Budget.would_exceed": "a mechanism, or a composition",
    "Budget.spend": "ValueError if that passes the budget",
    "report": "a word, .*ValueError if no finite .*for a certificate of another run",
    "main": "status 2",
    "Slider.__post_init__": "at least one",
    "Explorer.__post_init__": "ValueError for a name",
    "Explorer.at": "ValueError if the function",
    "explore_curve": "1-d array, nats, > 0", "explore_edgeworth": "1-d array",
    "explore_fft": "1-d array", "explore_saddle": "t > 0",
    "explore_tilt": "1-d array",
    "explore_tradeoff": r"1-d array of false positive rates, in \(0, 1\]",
    "explore_filter": r"shape \(steps, records\)",
    "SaddleAccountant.load_state_dict": "ValueError for a state that is not",
    "SaddleAccountant.attach_filter": "BudgetSpent.*ValueError for one that paid for others",
    "attach_filter": "ValueError for an optimizer that reports to another",
    "SaddleAccountant.get_epsilon": "ValueError\\s+for a history that is none",
    "SaddleAccountant.get_optimizer_hook_fn": "batch of a loader that was shown is refused",
    "show_loader": "ValueError for an optimizer that reports to another",
    "record_norms": "ValueError or TypeError where",
    "OpacusHistory.step": r">= 0 .*in \(0, 1\]", "Saved.load": "else ValueError",
    "Saved.from_dict": "else ValueError",
    "SaddleAccountant.leave_records_out": "TypeError or ValueError for a guard of other records",
    "SaddlePrivacyAccountant.__init__": "TypeError for a relation",
}

# Parameters that are numbers, and what is enough to say of them: a range, a unit or a shape.
NUMBERS = set("""
    eps delta sigma rate steps order scale mu norms clip t alpha fpr x y z w s L n u K K1 K2 K3 K4
    Kt3 lam lam3 c d q p mesh points max_points max_nodes rtol eps_resolution eps_error delta_error
    tilts tilt budget increment grid sigma_grid records cells seed lr prior loss losses logw logp
    logq limit loose largest t_s sensitivity batch_size dataset_size epochs accumulate count window
    shown lower estimate upper regret start values marks reach places drift defect advantage period
    X""".split())
SAID = re.compile(r"[<>]|\bin [\[(]|\bnats\b|shape|\b[12]-d\b|\barrays?\b|\d to "
                  r"\d|\binteger|\bnumbers?\b|how many|vector|probabilit|first axis|lambda_3|what "
                  r"`step_moments` gives")

# The same everywhere, also where another function does the check.
ALWAYS = {"delta": r"in [\[(]0, 1(/2)?\)", "rate": r"in \(0, 1[\])]|0 < rate < 1|as for",
          "sigma": r"[>(]=? ?0|>= \.1", "fpr": r"in [\[(]0, 1\]", "prior": r"in \(0, 1\)",
          "alpha": r">=? 1"}

def source_of(thing):
    f = inspect.unwrap(thing.fget if isinstance(thing, property) else thing.func
                       if isinstance(thing, cached_property) else thing)
    return textwrap.dedent(inspect.getsource(f))

@lru_cache(None)
def parsed(thing):
    "(the syntax tree of a function or class, {line: comment})."
    text = source_of(thing)
    comments = {t.start[0]: t.string.lstrip("# ")
                for t in tokenize.generate_tokens(io.StringIO(text).readline)
                if t.type == tokenize.COMMENT}
    return ast.parse(text).body[0], comments

def parameters(f):
    """{parameter: the comment behind it}, and the comment behind the return value ('' if there is
    none)."""
    tree, comments = parsed(f)
    a = tree.args
    defaults = dict(zip([x.arg for x in (a.posonlyargs + a.args)][::-1], a.defaults[::-1]))
    defaults |= {x.arg: d for x, d in zip(a.kwonlyargs, a.kw_defaults) if d}
    every = [x for x in a.posonlyargs + a.args + [a.vararg] + a.kwonlyargs + [a.kwarg] if x
             and x.arg not in ("self", "cls")]
    end = {x.arg: (defaults.get(x.arg) or x).end_lineno for x in every}
    lines, body = set(end.values()), tree.body[0].lineno
    said = {name: comments.get(line, "") if line < body else "" for name, line in end.items()}
    result = " ".join(c for line, c in comments.items() if line < body and line not in lines
                      and line >= max(lines, default=tree.lineno))
    return said, result

def fields_of(cls):
    "{field of a dataclass or named tuple: the comment behind it}."
    out = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("dp_saddle") or not base.__dict__.get("__annotations__"):
            continue
        tree, comments = parsed(base)
        out |= {node.target.id: comments.get(node.end_lineno, "") for node in tree.body
                if isinstance(node, ast.AnnAssign)}
    return out

def ours(cls): return [c for c in cls.__mro__ if c.__module__.startswith("dp_saddle")]

def methods(cls):
    """{name: function or property} of a class, its own and what it inherits from others of the
    library."""
    found = {}
    for base in ours(cls):
        for name, thing in vars(base).items():
            if not name.startswith("_") and isinstance(thing,
                    (FunctionType, property, cached_property)):
                found.setdefault(name, thing)
    return found

def constructor(cls):
    "The class's own way to make one: a function, or None for dataclasses and named tuples."
    return next((vars(c)["__init__"] for c in ours(cls)
                 if isinstance(vars(c).get("__init__"), FunctionType)
                 and not hasattr(c, "__dataclass_fields__")), None)

def returns(tree):
    "Does the function return a value? Functions inside it do not count."
    def inside(node):
        return any(isinstance(n, ast.Return) and n.value
                   or not isinstance(n, (ast.FunctionDef, ast.Lambda, ast.ClassDef)) and inside(n)
                   for n in ast.iter_child_nodes(node))
    return bool(inside(tree))

def described(symbol):
    """[(what it is called, the function or None, {parameter: docment}, docs of the whole, is it a
    method)] of a symbol, its methods included."""
    thing = SYMBOLS[symbol]
    if not inspect.isclass(thing):
        said, result = parameters(thing)
        return [(symbol, thing, said, f"{thing.__doc__ or ''} -> {result}", False)]
    doc, out, make = inspect.getdoc(thing) or "", [], constructor(thing)
    if fields_of(thing):
        out.append((symbol, vars(thing).get("__post_init__"), fields_of(thing), doc, False))
    elif make: out.append((symbol, make, parameters(make)[0], doc + (make.__doc__ or ""), False))
    for name, m in methods(thing).items():
        if isinstance(m, FunctionType):
            said, result = parameters(m)
            out.append((f"{symbol}.{name}", m, said,
                        f"{inspect.getdoc(getattr(thing, name)) or ''} -> {result}", True))
    return out

# What a loss owes its accountants, and an accountant the class it comes from: chapters 1 and 4
# say once what their parameters are.
HOOKS = {"cgf_on", "real_cgf", "cumulants_on", "line", "decay", "nodes_at", "path", "log_strip",
         "split", "shift_from", "delta_of", "epsilon_of", "log_value", "prove_delta",
         "prove_epsilon", "loss_of", "set_floats", "state", "restore"}

each = pytest.mark.parametrize("symbol", SYMBOLS)

@pytest.mark.parametrize("name", DOORS)
def test_doors(name):
    "What rooms share says what it is."
    assert (DOORS[name].__doc__ or "").strip(), f"{name} has no docstring"
    assert not DOORS[name].__doc__.startswith(f"{name}("), f"{name} has no docstring of its own"

@each
def test_docstrings(symbol):
    "The symbol and its public methods and properties have one."
    thing, missing = SYMBOLS[symbol], []
    if not (thing.__doc__ or "").strip() or thing.__doc__.startswith(f"{symbol}("):
        missing.append(symbol)
    if inspect.isclass(thing):
        missing += [f"{symbol}.{name}" for name in methods(thing)
                    if not inspect.getdoc(getattr(thing, name))]
    assert not missing, f"no docstring: {', '.join(missing)}"

@each
def test_parameters(symbol):
    """Functions and constructors: a docment for every parameter and the result. Methods: that, or
    their docstring names the parameter. Numbers: range, unit or shape."""
    wrong = []
    for name, f, said, doc, method in described(symbol):
        if name.rpartition(".")[2] in HOOKS: continue
        for parameter, comment in said.items():
            named = re.search(rf"(?<![\w.]){parameter}(?!\w)", doc)
            if not comment and not (method and named):
                wrong.append(f"{name}: {parameter} is not described")
            if not re.search(ALWAYS.get(parameter, ""), f"{comment} {doc}"):
                wrong.append(f"{name}: {parameter} is in {ALWAYS[parameter]} elsewhere: "
                             f"{comment or doc!r}")
            if parameter in NUMBERS and not SAID.search(comment or doc):
                wrong.append(f"{name}: {parameter} has no range, unit or shape: {comment or doc!r}")
        # returns something, and no docment says what
        answers = f and doc.endswith("-> ") and returns(parsed(f)[0])
        if answers and (any(said.values()) if method else not inspect.isclass(SYMBOLS[symbol])):
            wrong.append(f"{name}: what it returns is not described")
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
    out += [rf"{re.escape(number(low))} {'<=' if closed else '<'} \w+ "
            rf"{'<=' if brackets[1] == ']' else '<'} {re.escape(number(high))}(?![\d.])"]
    if far: out += [rf"{'>=' if closed else '>'} {re.escape(number(low))}(?![\d.])"]
    elif brackets[1] == "]":
        out += [rf"{re.escape(number(low))} to {re.escape(number(high))}(?![\d.])"]
    if far and low == -inf: return ["."]
    return out

def value(node, f):
    "What an argument of a validator is, or None where only a call knows."
    try: found = eval(compile(ast.Expression(node), "", "eval"), inspect.unwrap(f).__globals__)
    except (NameError, AttributeError, IndexError): return None
    # a local variable may have the name of a function
    return found if isinstance(found, (int, float, str, tuple)) else None

VALIDATORS = {"real", "count", "array", "choice", "instance", "_floats", "check_series_order"}

def checks(f):
    "(parameter, ways to say its range, in words) for every call of a validator in the body."
    tree, _ = parsed(f)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call): continue
        kind = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if kind not in VALIDATORS: continue
        values = [value(a, f) for a in call.args if not isinstance(a, ast.Starred)]
        names = [k.arg for k in call.keywords if k.arg]
        if kind in ("real", "array", "_floats"):
            low, high, brackets = (values + ["()"])[:3] if len(values) >= 2 else (None, None, "()")
            for name in names:
                yield name, ways(low, high, brackets), f"{brackets[0]}{low}, {high}{brackets[1]}"
        elif kind == "count":
            least = values[0]
            for name in names:
                words = [rf">= {least}\b", rf"\b{least} to \d", rf"{least} <= {name}", "how many",
                         rf"in \[{least}, "]
                yield name, ["."] if least is None else words, f">= {least}"
        elif kind == "choice":
            options = values[0] if values and values[0] else None
            for name in names: yield name, None if options else ["."], options
        elif kind == "check_series_order":
            yield "order", [rf"\b{values[0]}\b.* to 8\b"], f"{values[0]} to 8"

@each
def test_ranges(symbol):
    "What is validated says the range it is validated against, or the choices."
    wrong = []
    for name, f, said, doc, _method in described(symbol):
        for parameter, patterns, text in checks(f) if f else ():
            if parameter not in said: continue                    # an attribute, a suffix, ...
            where = f"{said[parameter]} {doc}".replace("1/2", ".5").replace(" 0.", " .")
            if patterns is None:
                lost = [o for o in text if f"'{o}'" not in where and f'"{o}"' not in where]
                if lost:
                    wrong.append(f"{name}: {parameter} may be {', '.join(map(repr, lost))}: it "
                                 f"does not say so")
            elif not any(re.search(p, where) for p in patterns):
                wrong.append(f"{name}: {parameter} is checked to be in {text}: "
                             f"{said[parameter] or doc!r} does not say so")
    assert not wrong, "\n".join(wrong)

CITED = re.compile(r"\[(SP|EA|PRV|FA|GDP)( [^\]]+|, [^\]]+)\]|[A-Z]\w+(,? [A-Z]\w+)*( et al\.| and "
                   r"[A-Z]\w+)? \(?(19|20)\d\d\b")

def own_docs(symbol):
    "Docstrings and docments of a symbol, without what it inherits."
    thing = SYMBOLS[symbol]
    mine = {f"{symbol}.{name}"
            for name in vars(thing)} | {symbol} if inspect.isclass(thing) else {symbol}
    docs = (thing.__doc__ or "") + " ".join(" ".join(said.values()) + doc
                                            for name, f, said, doc, _ in described(symbol)
                                            if name in mine and (f is None or name != symbol
                                            or not inspect.isclass(thing)
                                            or f in vars(thing).values()))
    return " ".join(docs.split())

def test_sources():
    "A formula names its source; what has none is in OWN, with the reason."
    own = {s for names in OWN.values() for s in names.split()}
    assert not own - SYMBOLS.keys(), f"not exported: {own - SYMBOLS.keys()}"
    assert len(own) == sum(len(names.split()) for names in OWN.values()), "twice in OWN"
    cited = {s for s in SYMBOLS if CITED.search(own_docs(s))}
    lost = sorted(SYMBOLS.keys() - own - cited)
    assert not lost, f"no source, and not in OWN: {lost}"
    assert not own & cited, f"has a source: take it out of OWN: {sorted(own & cited)}"

def raises(f, cls, seen):
    """Does the function raise a ValueError or TypeError, or a private helper of it, whatever the
    depth?"""
    f = inspect.unwrap(f)
    if f in seen: return False
    seen.add(f)
    for n in ast.walk(parsed(f)[0]):
        if isinstance(n, ast.Raise) and n.exc and getattr(getattr(n.exc, "func", None), "id",
                "") in ("ValueError", "TypeError"):
            return True
        name, helper = "", None
        if isinstance(n, ast.Name): name, helper = n.id, f.__globals__.get(n.id)
        elif isinstance(n, ast.Attribute) and isinstance(n.value,
                ast.Name) and n.value.id == "self" and cls:
            name, helper = n.attr, next((vars(c)[n.attr] for c in ours(cls) if n.attr in vars(c)),
                                        None)
        if inspect.isclass(helper) and name.startswith("_"):
            cls, helper = helper, vars(helper).get("__init__")
        ours_too = isinstance(helper, FunctionType) and helper.__module__.startswith("dp_saddle")
        private = name.startswith("_") and name not in VALIDATORS
        if ours_too and private and raises(helper, cls, seen):
            return True
    return False

@lru_cache(None)
def documented():
    """{qualified name: (function, all that its docstring, its docments and those of the
    constructors it inherits say)}, hooks left out."""
    found = {}
    for symbol, thing in SYMBOLS.items():
        for name, f, said, doc, _ in described(symbol):
            if not f or name.rpartition(".")[2] in HOOKS:
                continue
            inherited = []
            if f.__name__ == "__init__":
                makers = [vars(c).get("__init__") for c in ours(thing)[1:]]
                inherited = [" ".join(parameters(make)[0].values())
                             for make in makers if isinstance(make, FunctionType)]
            told = " ".join([*said.values(), doc, *inherited])
            found.setdefault(f.__qualname__, (inspect.unwrap(f), re.sub(r"\s+", " ", told)))
    return found

def test_errors():
    """What a user can run into beyond a range is said: by docstring or docments. (That it is true:
    test_errors.py.)"""
    docs, raising = {name: told for name, (_, told) in documented().items()}, set()
    for symbol, thing in SYMBOLS.items():
        cls = thing if inspect.isclass(thing) else None
        for name, f, _, _, _ in described(symbol):
            if f and name.rpartition(".")[2] not in HOOKS and raises(f, cls, set()):
                raising.add(f.__qualname__)
    assert not raising - ERRORS.keys(), f"raises, and is not in ERRORS: {raising - ERRORS.keys()}"
    gone = ERRORS.keys() - docs.keys()
    assert not gone, f"is not there: take it out of ERRORS: {gone}"
    wrong = [f"{name}: {words!r} is not said in {docs[name]!r}" for name, words in ERRORS.items()
             if not re.search(words, docs[name], flags=re.S)]
    assert not wrong, "\n".join(wrong)
