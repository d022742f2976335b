"""The house stands: who may import whom, and that no name with an underscore leaves its module."""
import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = {p.stem: p for p in sorted((ROOT/"dp_saddle").glob("[a-z]*.py"))}

# Each room, and the rooms right below it; all that is below those may be imported too.
BELOW = {
    "texts": (),
    "numerics": ("texts",),
    "checks": ("texts",),
    "pictures": ("checks",),
    "plrv": ("numerics", "checks"),
    "losses": ("plrv",),
    "densities": ("losses",),
    "levels": ("densities",),
    "mixtures": ("densities",),
    "slopes": ("densities",),
    "abs_moments": ("slopes",),
    "laplace": ("densities",),
    "descents": ("losses", "checks"),
    "mechanisms": ("mixtures", "laplace"),
    "builders": ("mechanisms",),
    "moments": ("mechanisms",),
    "closed": ("mechanisms",),
    "quotients": ("laplace", "descents"),
    "smoothing": ("numerics", "checks"),
    "contour": ("closed", "quotients", "smoothing"),
    "rare": ("numerics", "checks"),
    "grids": ("numerics", "checks"),
    "mixed": ("mechanisms", "grids"),
    "rows": ("mixed", "rare"),
    "stacked": ("plrv", "grids"),
    "corners": ("densities",),
    "ends": ("contour",),
    "certified": ("ends", "levels", "rows", "corners"),
    "saddlepoint": ("mechanisms",),
    "tilting": ("saddlepoint", "abs_moments"),
    "berry_esseen": ("tilting",),
    "edgeworth": ("berry_esseen",),
    "prv_fft": ("tilting",),
    "tilted_fft": ("contour", "prv_fft"),
    "lattices": ("prv_fft", "quotients"),
    "fixed_batches": ("losses",),
    "bands": ("numerics", "checks"),
    "noise": ("tilted_fft", "lattices", "bands"),
    "bin_sums": ("numerics", "checks"),
    "bin_moments": ("bin_sums",),
    "one_epoch": ("numerics", "checks"),
    "folded_line": ("one_epoch", "bin_sums"),
    "epoch_options": ("folded_line",),
    "cut_moments": ("bin_moments", "epoch_options", "contour"),
    "rare_jumps": ("cut_moments",),
    "bins": ("certified", "rare_jumps", "builders"),
    "shuffles": ("tilted_fft", "bins"),
    "fixed_sizes": ("tilted_fft", "lattices", "fixed_batches"),
    "samplers": ("checks",),
    "filters": ("certified",),
    "batch": ("contour", "mixed", "stacked"),
    "record_bounds": ("batch", "certified"),
    "prefixes": ("record_bounds",),
    "residues": ("filters",),
    "individual": ("record_bounds", "filters"),
    # `compare` names every accountant, so the front door knows all the rooms of part two
    "runs": ("mechanisms",),
    "worst_case": ("certified", "moments", "tilting"),
    "accounting": ("runs", "bins", "tilted_fft", "edgeworth", "builders", "worst_case", "shuffles",
                   "fixed_sizes", "samplers"),
    "derivatives": ("accounting",),
    "selection": ("accounting",),
    "calibration": ("attacks", "derivatives"),
    "sweeps": ("accounting", "pictures"),
    "merged_steps": ("individual", "prefixes"),
    "attacks": ("accounting", "record_bounds"),
    "audits": ("attacks",),
    "schedules": ("selection", "record_bounds", "merged_steps"),
    "balls": ("checks",),            # nothing of what is verified by it
    "bin_balls": ("balls",),
    "verification": ("bin_balls",),
    "certificates": ("schedules", "verification"),
    "reports": ("attacks", "certificates", "pictures"),
    "sampling": ("accounting", "pictures"),
    "your_run": ("calibration", "reports"),
    "run_files": ("schedules",),
    "command_words": ("run_files",),
    "command_answers": ("run_files", "calibration", "reports"),
    "command_ledgers": ("command_answers", "sweeps", "sampling", "audits"),
    "cli": ("command_words", "command_ledgers"),
    "explorer": ("numerics", "pictures"),
    "widgets": ("cli", "individual", "explorer"),
    "events": ("selection", "attacks"),
    "records": ("filters", "tilting", "bins", "shuffles"),
    "interop": ("cli", "individual", "events", "records"),
}
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

def below(module):
    "Every room under this one."
    rooms = set(BELOW[module])
    for room in BELOW[module]:
        rooms |= below(room)
    return rooms

def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))

def is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))

def imports(path):
    "(module of ours, name) for all that a file imports from the package."
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level == 0 and not module.startswith("dp_saddle"):
            continue
        module = re.sub(r"^dp_saddle\.?", "", module)
        for alias in node.names:
            yield (module, alias.name) if module else (alias.name, None)

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
def test_every_module_has_its_room(module):
    assert module in BELOW, f"say in BELOW what {module} may import"

@each_module
def test_imports_go_down(module):
    "A module imports only from rooms below it."
    up = {room for room, _ in imports(MODULES[module])} - below(module) - {"__version__"}
    assert not up, f"{module} is not above {sorted(up)}"

@each_module
def test_no_private_name_is_imported(module):
    private = [f"{room}.{name}" for room, name in imports(MODULES[module]) if name
               and is_private(name)]
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
    bad.write_text("from dp_saddle.accounting import _axes\nfrom dp_saddle import checks\nx = "
                   "y._hidden\n")
    assert set(imports(bad)) == {("accounting", "_axes"), ("checks", None)}
    assert "accounting" not in below("contour") and below("cli") > below("contour")
    assert "_hidden" not in defined(bad)
