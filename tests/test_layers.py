"""The house stands: who may import whom, and that no name with an underscore leaves its module."""
import ast
import functools
import importlib
import re

import pytest

from house import DOORS, LIBRARY, MODULES, ROOT, dotted

# Each place of the house, a folder or a chapter of the book, and the places right below it; all
# that is below those may be imported too. Within a folder the door's order counts.
BELOW = {
    "base": (),
    "plrv": ("base",),               # chapter 1 is below the losses, which are all `PLRV`s,
    "losses": ("plrv",),
    "mechanisms": ("losses",),       # and chapter 2 names them
    "saddlepoint": ("mechanisms",),  # estimates of chapters 4 and 5, which the engine bounds
    "edgeworth": ("saddlepoint",),   # those of chapter 6, and its interval
    "engine": ("saddlepoint",),
    "prv_fft": ("engine",),
    "filters": ("engine",),
    "individual": ("filters",),
    "steps": ("prv_fft",),
    "sampling": ("steps",),
    "accounting": ("sampling", "edgeworth"),
    "practice": ("accounting", "individual"),
    "certificates": ("practice",),   # but for the verifier, which trusts nobody
    "command": ("certificates",),
    "interop": ("practice",),
    "your_run": ("practice",),
    "widgets": ("accounting", "individual"),
}
# What is verified may not help to verify it.
ALONE = [f"certificates.{page}"
         for page in ("interval_transforms", "interval_bins", "verification")]
TRUSTED = {"base", *ALONE}
# Underscored names that belong to Python or to a library, not to a module of ours.
THEIRS = {
    "_asdict", "_replace", "_fields",   # of a NamedTuple
    "_repr_html_", "_repr_mimebundle_", # of a notebook's display
    "_is_last_step_skipped", "_step_skip_queue",     # Opacus has no other names for them
    "_module",                          # the model within Opacus'
    "_client_config",                   # Selenium has no other name for its timeout
    "_maybe_compose",                   # what a dp_accounting accountant defines
    "_getframe", "_exit",               # of sys and os
    "_prec", "_to_mpf",                 # of mpmath and python-flint
}

def place(module):
    "The folder or the chapter that a module is."
    return module.split(".")[0]

def below(here):
    "Every place under this one."
    places = set(BELOW[here])
    for lower in BELOW[here]:
        places |= below(lower)
    return places

@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))

def is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))

@functools.cache
def imports(path):
    "(module of ours, name) for all that a file imports from the package; '' is the package."
    found = []
    here = path.parent.relative_to(LIBRARY).parts if LIBRARY in path.parents else ()
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level == 0 and not re.match(r"dp_saddle\b", module):
            continue
        if node.level:
            module = ".".join([*here[:len(here) - node.level + 1], *filter(None, [module])])
        module = re.sub(r"^dp_saddle\.?", "", module)
        for alias in node.names:
            is_module = not module and alias.name in {*MODULES, *BELOW}
            found.append((alias.name, None) if is_module else (module, alias.name))
    return found

def pages(folder):
    "The pages of a folder, in the order of its door."
    call = next(node for node in ast.walk(tree(DOORS[folder])) if isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "door")
    return list(ast.literal_eval(call.args[1]))

def defined(path):
    "The underscored names that a file gives itself: functions, methods, attributes, constants."
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return names

each_module = pytest.mark.parametrize("module", MODULES)

@each_module
def test_every_module_has_its_place(module):
    assert place(module) in BELOW, f"say in BELOW what {place(module)} may import"
    if "." in module:
        folder, page = module.split(".")
        assert page in pages(folder), f"say at the door of {folder} where {page} stands"

@each_module
def test_imports_go_down(module):
    "A module imports from places below its own, and of its own folder from earlier pages."
    found = [(room, name) for room, name in imports(MODULES[module]) if name != "__version__"]
    up = {room for room, _ in found if place(room) not in {*below(place(module)), place(module)}}
    assert not up, f"{module} is not above {sorted(up)}"
    if "." in module:
        folder, page = module.split(".")
        order = pages(folder)
        rooms = {room.split(".")[1] if "." in room else name for room, name in found
                 if place(room) == folder}
        later = {room for room in rooms if order.index(room) >= order.index(page)}
        assert not later, f"{module} is not after {sorted(later)}"

@each_module
def test_a_folder_is_entered_by_its_door(module):
    deep = {room for room, _ in imports(MODULES[module])
            if "." in room and place(room) != place(module) and room != "base.doors"}
    assert not deep, f"{module} imports from {sorted(deep)}: take the names from the door"

@pytest.mark.parametrize("module", ALONE)
def test_the_verifier_trusts_nobody(module):
    assert {room for room, _ in imports(MODULES[module])} <= TRUSTED | {""}

@pytest.mark.parametrize("folder", DOORS)
def test_doors(folder):
    "A door says what the folder is for, and each of its names is there and is asked for."
    door = importlib.import_module(f"dp_saddle.{folder}")
    assert len(door.__doc__) > 40
    assert set(pages(folder)) == {path.stem for path in (ROOT/"nbs"/folder).glob("[a-z]*.ipynb")
                                  } - {"index"}
    for name in door.__all__:
        assert getattr(door, name) is not None
    assert not hasattr(door, "none_such")

@each_module
def test_no_private_name_is_imported(module):
    private = [f"{room}.{name}" for room, name in imports(MODULES[module]) if name
               and is_private(name) and name != "__version__"]
    assert not private, f"{module} imports {private}"

@each_module
def test_no_private_attribute_of_another_module_is_used(module):
    "Every underscored attribute that a module uses, it defines."
    path = MODULES[module]
    used = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    foreign = {name for name in used if is_private(name)} - defined(path) - THEIRS
    assert not foreign, f"{module} uses {sorted(foreign)}, which it does not define"

TESTS = sorted([*(ROOT/"tests").glob("*.py"), *(ROOT/"tests"/"browser").glob("*.py")])

@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.name)
def test_tests_use_public_names(path):
    "What a test asks, a user may ask."
    private = [f"{room}.{name}" for room, name in imports(path) if name and is_private(name)]
    used = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    foreign = {name for name in used if is_private(name)} - defined(path) - THEIRS
    assert not private and not foreign, f"{path.name}: {private} {sorted(foreign)}"

def test_the_rules_can_be_broken(tmp_path):
    "A file that breaks each rule is noticed."
    bad = tmp_path/"bad.py"
    bad.write_text("from dp_saddle.accounting import _axes\nfrom dp_saddle.base import checks\nx"
                   " = y._hidden\n")
    assert set(imports(bad)) == {("accounting", "_axes"), ("base", "checks")}
    assert "accounting" not in below("engine") and below("command") > below("engine")
    assert dotted(LIBRARY/"engine"/"line.py") == "engine.line"
    assert "_hidden" not in defined(bad)
