"The library's modules and doors, and the notebook that each is exported from."
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT/"dp_saddle"
NBS = ROOT/"nbs"
NOTEBOOKS = [path for path in sorted(NBS.rglob("[a-z0-9]*.ipynb"))
             if ".ipynb_checkpoints" not in path.parts]


def dotted(path):
    "The name of a module within the package: engine.line."
    return ".".join(path.relative_to(LIBRARY).with_suffix("").parts)


# {name within the package: its file}; {folder: its door}.
MODULES = {dotted(path): path for path in sorted(LIBRARY.rglob("[a-z]*.py"))}
# The comments above numbers: what breaks if one changes, and what steers nothing.
KINDS = "Proved", "Rounding", "Tuning"
OTHERS = ("What is drawn", "What is served", "What is written", "What is shown",
          "Said by others", "Names")
# The chapters of the book, in their order.
BOOK = sorted(NBS.glob("[01]*.ipynb"))
DOORS = {path.parent.name: path for path in sorted(LIBRARY.glob("*/__init__.py"))}


def exported_to(path):
    "The name of the module that a notebook is exported to, or None."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if found := re.match(r"#\|\s*default_exp ([\w.]+)", "".join(cell["source"])):
            return found[1]
    return None


def tests_of(module):
    "The file with the tests of a module: by its own name, or by its folder's; None without any."
    for name in reversed(module.split(".")):
        if (found := ROOT/"tests"/f"test_{name}.py").exists():
            return found
    return None


def headings(path):
    "The anchors of a notebook's headings, as Jupyter makes them."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = (line for c in cells if c["cell_type"] == "markdown"
             for line in "".join(c["source"]).splitlines())
    return {re.sub(r"^#+ ", "", line).strip().replace(" ", "-")
            for line in lines if re.match(r"#{1,4} ", line)}


# {name of a module or of a door: the notebook}.
NOTEBOOK_OF = {name: path for path in NOTEBOOKS if (name := exported_to(path))}
