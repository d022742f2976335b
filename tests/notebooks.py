"""Run the notebooks, which are tests, as `nbdev_test` does: all of them, or those named.

    python tests/notebooks.py [--all] [nbs/engine/line.ipynb ...]

A notebook is left out, and named, if one of its cells imports a package that is not installed:
other accountants are in the extra `peers`, Opacus and PyTorch in `interop`. With `--all`, or for a
notebook that is named, that is a failure. (What is imported within a function or a `try` is not
needed, nor what is not evaluated.)"""
import argparse
import ast
import gc
import importlib
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import nbdev.test
from execnb.shell import CaptureShell
from fastcore.parallel import parallel
from matplotlib.figure import Figure
from nbdev.config import get_config

gc.set_threshold(100_000)  # as in conftest.py
LEFT_OUT = re.compile(r"^#\|\s*(eval:\s*false|slow|thorough)", re.M)
NBS = Path(__file__).resolve().parent.parent / "nbs"
# The longest first: then no worker is left alone with one of them. (Only time depends on it.)
LONGEST = """tree_noise 03_contour bins zero_out 06_edgeworth two_level endpoint_expansion prv
    transform_grids normal_limits 10_accounting interval_transforms largest_loss_levels opacus
    laplace 11_live_curves 05_tilting saddle_point proved_expansions 09_individual 07_prv_fft
    02_mechanisms densities fixed_sizes shuffle_model""".split()


class Shell(CaptureShell):
    """nbdev's, without drawing the pictures that a cell shows: here nobody looks at them, and no
    cell fails for what cannot be drawn. (`docs/execute.py` draws, test_pictures.py judges.)"""

    def __init__(self, path, **options):
        super().__init__(path, mpl_format="png", **options)
        self.display_formatter.formatters["image/png"].for_type(Figure, lambda figure: b"")


def test(path, **options):
    "(Has it passed?, seconds)."
    nbdev.test.CaptureShell = Shell
    return nbdev.test.test_nb(path, **options)


def notebooks():
    "What nbdev runs: no drafts, no checkpoints."
    return [
        path
        for path in sorted(NBS.rglob("*.ipynb"))
        if not any(part.startswith(("_", ".")) for part in path.relative_to(NBS).parts)
    ]


def imports(path):
    "The packages without which the notebook at `path` cannot run."
    found = set()
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or LEFT_OUT.search(source):
            continue
        lines = [line for line in source.splitlines() if not line.startswith(("%", "!"))]
        for statement in ast.parse("\n".join(lines)).body:
            if isinstance(statement, ast.Import):
                found |= {alias.name.split(".")[0] for alias in statement.names}
            elif isinstance(statement, ast.ImportFrom):
                found.add(statement.module.split(".")[0])
    return found


def missing(path):
    "What the notebook at `path` imports and is not installed."
    beside = {module.stem for module in NBS.glob("*.py")}
    wanted = imports(path) - beside
    return sorted(name for name in wanted if importlib.util.find_spec(name) is None)


def run(paths):
    "All at the same time, as many as there are processors. 1 if a cell of one has failed."
    order = {name: i for i, name in enumerate(LONGEST)}
    paths = sorted(paths, key=lambda path: order.get(path.stem, len(order)))
    os.chdir(NBS)
    workers = min(os.cpu_count() or 1, len(paths))
    # By the module's name: what is run in a process takes the place of its __main__.
    passed = parallel(
        importlib.import_module(Path(__file__).stem).test,
        paths,
        skip_flags=get_config().tst_flags.split(),
        basepath=get_config().config_path,
        n_workers=workers if workers > 1 else 0,
    )
    for path, (_, seconds) in sorted(zip(paths, passed), key=lambda row: -row[1][1]):
        print(f"{path.name}: {seconds:.0f} s")
    failed = [path.name for path, (fine, _) in zip(paths, passed) if not fine]
    print(f"FAILED: {', '.join(failed)}" if failed else "Success.")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, help="all, if none is given")
    parser.add_argument("--all", action="store_true", help="fail if one has to be left out")
    asked = parser.parse_args()
    paths = [path.resolve() for path in asked.paths] or notebooks()
    left_out = {path: missing(path) for path in paths if missing(path)}
    for path, names in left_out.items():
        print(f"left out: {path.relative_to(NBS.parent)} needs {', '.join(names)}", flush=True)
    if left_out:
        print("These are in the extras `peers` and `interop`: make test-all", flush=True)
    if left_out and (asked.all or asked.paths):
        return 1
    return run([path for path in paths if path not in left_out])


if __name__ == "__main__":
    sys.exit(main())
