"""The project fits together: notebooks, library, README and metadata. Nothing here changes the work
tree."""
import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path

import pytest

import dp_saddle
import house
import mutate

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
# Everything that is generated, and all that it is generated from.
PARTS = ("settings.ini", "setup.py", "pyproject.toml", "README.md", "LICENSE", "nbs", "dp_saddle",
         "docs")
MAX_BYTES = 300_000  # a larger notebook is no longer shown by code hosts

def notebooks(root=ROOT):
    "Paths of the notebooks, without drafts and checkpoints: what nbdev looks at."
    return [p for p in sorted((root/"nbs").rglob("*.ipynb"))
            if not any(part.startswith(("_", ".")) for part in p.relative_to(root).parts)]

each_notebook = pytest.mark.parametrize("path", notebooks(),
                                        ids=lambda p: p.relative_to(ROOT).as_posix())

def run(*command, cwd=ROOT):
    "Output of `command`; if it fails, so does the test, with what the command said."
    # IN_TEST turns nbdev_export off
    env = {k: v for k, v in os.environ.items() if k not in ("IN_TEST", "PYTHONPATH")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, text=True,
                          capture_output=True)
    said = f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}"
    assert done.returncode == 0, said
    return done.stdout

def settings():
    "The settings of settings.ini."
    config = ConfigParser(delimiters=["="])
    config.read(ROOT/"settings.ini", encoding="utf-8")
    return config["DEFAULT"]

def files(root):
    "What is kept in sync in the project at `root`: {path: content}."
    found = [root/"README.md", root/"pyproject.toml", *notebooks(root),
             *(root/"dp_saddle").rglob("*.py"), *(root/"docs"/"images").glob("index-*")]
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in found if p.exists()}

def copy(to):
    "A copy of the project in the folder `to`."
    junk = shutil.ignore_patterns("__pycache__", ".*", "_build")
    for part in PARTS:
        if (ROOT/part).is_dir(): shutil.copytree(ROOT/part, to/part, ignore=junk)
        elif (ROOT/part).exists(): shutil.copy(ROOT/part, to/part)
    return to

def test_in_sync(tmp_path):
    "Exporting, cleaning and rendering again changes nothing."
    root = copy(tmp_path)
    for module in (root/"dp_saddle").rglob("*.py"):     # all but the package's own door
        if module != root/"dp_saddle"/"__init__.py": module.unlink()
    run(sys.executable, "docs/export.py", cwd=root)
    run(BIN/"nbdev_clean", cwd=root)
    run(sys.executable, "docs/readme.py", cwd=root)
    made, here = files(root), files(ROOT)
    wrong = sorted(name for name in made.keys() | here.keys() if made.get(name) != here.get(name))
    def why(name):
        if name.endswith(".ipynb"): return "is not clean"
        source = "nbs/index.ipynb" if name == "README.md" or name.startswith("docs/") else "nbs/"
        if name not in here: return f"is missing, but made from {source}"
        if name not in made: return f"is made from nothing in {source}: delete it"
        return f"is not what {source} gives"
    if wrong:
        pytest.fail("\n".join(f"{name} {why(name)}" for name in wrong)
                    + "\nRun `make export readme`. "
                    "(Was a module or README.md edited by hand? Then first take the edit to its "
                    "notebook.)", pytrace=False)

def test_generated_files_are_tracked():
    "What is generated and used must also be committed."
    if not (ROOT/".git").exists() or not shutil.which("git"): pytest.skip("not a git checkout")
    new = run("git", "-c", "safe.directory=*", "ls-files", "--others", "--", "nbs", "dp_saddle",
              "docs/images").splitlines()
    forgotten = [name for name in new if name in files(ROOT)]
    if forgotten: pytest.fail(f"not yet known to git: git add {' '.join(forgotten)}", pytrace=False)

@each_notebook
def test_notebook(path):
    """A notebook is stored as run: with outputs, without errors and warnings, and small enough to
    be shown."""
    nb = json.loads(path.read_text(encoding="utf-8"))
    redo = f"make execute NOTEBOOK={path.relative_to(ROOT).as_posix()}"
    cells = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
    assert nb["metadata"]["kernelspec"]["name"] == "python3", "its kernel must be called python3"
    ids = [cell["id"] for cell in nb["cells"]]
    assert len({*ids}) == len(ids), "two of its cells have the same id"
    assert not cells or any(cell["outputs"] for cell in cells), f"it has no outputs: {redo}"
    for cell in cells:
        source = "".join(cell["source"])
        if "raises-exception" in cell["metadata"].get("tags", []): continue
        for output in cell["outputs"]:
            assert output["output_type"] != "error", f"this cell's output is an error:\n{source}"
            said = "".join(output.get("text", []))
            warned = output.get("name") == "stderr"
            assert not warned, f"this cell's output has a warning:\n{source}\n{said}"
    assert path.stat().st_size <= MAX_BYTES, f"{path.stat().st_size} bytes; at most {MAX_BYTES}"

@each_notebook
def test_alternative_text(path):
    "Every picture is told in words, for those who do not see it."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if not any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            continue
        text = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
        source = "".join(cell["source"])
        assert len(text) >= 40, f"no alternative text, or too short a one: {text!r}\n{source}"

def test_figures_with_sliders_are_told_alike():
    "Where two chapters show the same figure, both say the same of it."
    told = {}
    for path in notebooks():
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            call = re.fullmatch(r"explore_\w+\(\)", "".join(cell["source"]).strip())
            if call:
                told.setdefault(call[0], set()).add(cell["metadata"]["mystnb"]["image"]["alt"])
    assert len(told) > 5 and not [call for call, texts in told.items() if len(texts) > 1]

def test_the_front_page_says_in_words_what_was_measured(monkeypatch):
    "The alternative text of its picture is made from benchmark.json: number by number."
    monkeypatch.chdir(ROOT)
    cells = json.loads((ROOT/"nbs"/"index.ipynb").read_text(encoding="utf-8"))["cells"]
    preparing, drawing = (next(c for c in cells if name in "".join(c["source"]))
                          for name in ("def in_words", "in_words()}"))
    names = {}
    exec("".join(preparing["source"]), names)
    text = drawing["metadata"]["mystnb"]["image"]["alt"]
    assert names["in_words"]() == text
    data = json.loads((ROOT/"nbs"/"benchmark.json").read_text(encoding="utf-8"))
    answers = re.sub(r"^.* 8\. |\.$", "", text).split("; ")
    assert text.startswith(f"Answers of {len(answers)} accountants")
    for answer, (peer, _) in zip(answers, names["shown"].values(), strict=True):
        low, mid, up, _, seconds, *_ = data["rows"][peer]["CIFAR-10, 81.4 %"]
        assert ("no bound" in answer) == (up is None), answer
        assert ("at most" in answer) == (low is None and up is not None), answer
        told = float(re.search(r"([\d.]+), ", answer)[1])
        assert told == pytest.approx(mid if up is None else up, abs=5.01e-4), answer
        time, unit = re.search(r" in ([\d.]+) (m?s)$", answer).groups()
        assert float(time)*{"s": 1, "ms": 1e-3}[unit] == pytest.approx(seconds, rel=.3), answer
        if width := re.search(r"± (\S+),", answer):
            assert float(width[1]) == pytest.approx((up - low)/2, rel=.5), answer

def test_the_readme_comes_to_the_book_in_two_screens():
    "In lines of 100 columns, the picture's text aside; and its list has the book alone."
    text = (ROOT/"README.md").read_text(encoding="utf-8")
    head, book = text.split("\n## The book\n")
    lines = re.sub(r"!\[[^\]]*\]", "![]", head).splitlines()
    assert sum(max(1, -(-len(line)//100)) for line in lines) <= 90
    listed = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\)", book.split("\n## ")[0], flags=re.M)
    chapters = {f"nbs/{path.name}" for path in (ROOT/"nbs").glob("[01]*.ipynb")}
    assert {"nbs/preface.ipynb", "nbs/glossary.ipynb", *chapters} == set(listed)

def test_import_is_light():
    """The library needs numpy and scipy; what draws is imported where it draws, and nbdev's tools
    never."""
    heavy = "matplotlib", "ipywidgets", "IPython", "fastcore", "nbdev", "flint"
    loaded = run(sys.executable, "-c", "import sys, dp_saddle; print(*sys.modules)").split()
    assert not set(heavy) & set(loaded)

def test_version():
    newest = re.search(r"^## \[?(\d+\.\d+\.\d+)", (ROOT/"CHANGELOG.md").read_text(encoding="utf-8"),
                       flags=re.M)
    installed = importlib.metadata.version("dp_saddle")
    assert dp_saddle.__version__ == settings()["version"] == newest[1] == installed

def test_command():
    assert "usage: dp-saddle" in run(BIN/"dp-saddle", "--help")

@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run",
                                  *(f".github/workflows/{name}.yml"
                                  for name in ("test", "docs", "release"))])
def test_make_targets_exist(name):
    "Every `make ...` that a reader is told to run is there."
    makefile = (ROOT/"Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, flags=re.M))
    text = (ROOT/name).read_text(encoding="utf-8")
    # A command stands at the start of a line of code or right after a backtick.
    commands = re.findall(r"(?:^[ \t$]*(?:- run: )?|`)make((?: [a-z][a-z-]*(?![\w=]))+)", text,
                          flags=re.M)
    assert {word for command in commands for word in command.split()} <= targets

@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_exist(name):
    "What a page of the repository links to, and is in it, is there."
    links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", (ROOT/name).read_text(encoding="utf-8"))
    assert not [link for link in links if not (ROOT/link).exists()]

@pytest.mark.parametrize("path", sorted((ROOT/"nbs").rglob("[!_.]*.ipynb")), ids=lambda p: p.stem)
def test_links_of_notebooks_exist(path):
    "What a chapter or a paper's table links to is there."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", re.sub(r"\$[^$]*\$", "", text))
    assert not [link for link in links if not (path.parent/link).exists()]

def test_contributing_is_a_page_and_a_half_and_true():
    "Its files are there, and so are the lines of code and the section that it takes as examples."
    text = (ROOT/"CONTRIBUTING.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    named = re.findall(r"(?<![\w./])(?:nbs|tests|docs|dp_saddle)/[\w./]*", text)
    assert len(named) > 20
    lost = {name for name in named if not (ROOT/name.rstrip(".")).exists()}
    assert lost == {"nbs/engine/line.py"}           # which jupytext writes
    module, cell = re.search(r"`(# %% \S+) #(\w{8})`", text).groups()
    where = ROOT/"dp_saddle"/"engine"/"line.py"
    assert f"{module} #{cell}\n" in where.read_text(encoding="utf-8")
    for page, title in (("losses/densities", "By-hand:-a-class-for-an-analytic-density"),
                        ("02_mechanisms", "Mechanisms"), ("map", "Places-to-look-up")):
        assert title in house.headings(ROOT/"nbs"/f"{page}.ipynb")

def test_a_release_is_one_screen():
    "And the names that it tells are there."
    text = (ROOT/"CHANGELOG.md").read_text(encoding="utf-8")
    first, *releases = re.split(r"^## \[", text, flags=re.M)
    assert releases and all(len(release.splitlines()) <= 55 for release in releases)
    told = set(re.findall(r"`([A-Z]\w+)[`(]", text))
    from_interop = {"SaddlePrivacyAccountant"}
    assert len(told) > 30 and told - from_interop <= set(dp_saddle.__all__)

def lost_anchors(path, text):
    "Links of a notebook's text whose heading or cell is not where they lead."
    lost = []
    for to, anchor in re.findall(r"\]\(([^)#\s]*\.ipynb)#([^)\s]+)\)", text):
        there = (path.parent/to).resolve()
        ids = {c["id"] for c in json.loads(there.read_text(encoding="utf-8"))["cells"]}
        known = house.headings(there) | {f"cell-id={key}" for key in ids}
        if anchor not in known: lost.append(f"{to}#{anchor}")
    return lost

@pytest.mark.parametrize("path", sorted((ROOT/"nbs").rglob("[!_.]*.ipynb")), ids=lambda p: p.stem)
def test_anchors_of_notebooks_exist(path):
    "A link to a section or a cell of another page leads to one that is there."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    assert not lost_anchors(path, text)

def test_a_lost_anchor_is_seen():
    text = "[a](01_plrv.ipynb#Sums) [b](01_plrv.ipynb#Some) [c](08_filters.ipynb#cell-id=none)"
    lost = ["01_plrv.ipynb#Some", "08_filters.ipynb#cell-id=none"]
    assert lost_anchors(ROOT/"nbs"/"map.ipynb", text) == lost

def test_mutants_are_of_the_first_two_kinds():
    "Numbers that are proved or allow for rounding are mutated, tuning numbers never."
    text = [b"# Proved: x\n", b"A = .5\n", b"# Rounding: y\n", b"B = 8.\n", b"# Tuning: z\n",
    b"C = 3\n",
            b"def f(x):\n", b"    return x + A\n"]
    tree = ast.parse(b"".join(text))
    made = [(name, new.value) for name, _, new in mutate.constants(tree, text)]
    assert made == [("A", .5*mutate.PROVED_CHANGE), ("B", 8.*mutate.ROUNDING_CHANGE)]
    assert [ast.unparse(new) for _, _, new in mutate.in_functions(tree, text)] == ["x - A"]
    assert len(mutate.mutants("base.numerics")) > 3

@pytest.mark.slow
def test_every_module_has_mutants():
    assert all(len(mutate.mutants(module)) > 3 for module in mutate.MODULES)

def test_address():
    "As long as settings.ini names no code host, nothing else does."
    if not settings()["git_url"]:
        assert not re.search(r"^(url|repository)",
                             (ROOT/"CITATION.cff").read_text(encoding="utf-8"), flags=re.M)
    index = importlib.import_module("dp_saddle._modidx").d["settings"]
    assert all(index[key] == settings()[key] for key in ("git_url", "doc_host", "branch"))

# The package

LAZY = """
import sys
import dp_saddle
assert not {"numpy", "scipy"} & set(sys.modules), "loaded before anything was asked for"
from dp_saddle import epsilon
slow = {"scipy.optimize", "scipy.integrate", "scipy.interpolate", "matplotlib", "ipywidgets"}
assert not slow & set(sys.modules), f"epsilon loads {slow & set(sys.modules)}"
from dp_saddle import *
assert set(dp_saddle.__all__) <= set(globals()) and set(dp_saddle.__all__) <= set(dir(dp_saddle))
assert dp_saddle.engine.line.CgfTable and not hasattr(dp_saddle, "none_such")
"""

def test_the_package_loads_what_is_asked_for():
    subprocess.run([sys.executable, "-c", LAZY], check=True)

def test_type_checkers_are_told_the_same():
    "The stub imports each public name from the module that the package takes it from."
    tree = ast.parse((ROOT/"dp_saddle"/"__init__.pyi").read_text(encoding="utf-8"))
    said = {a.name: n.module for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert said.keys() == set(dp_saddle.__all__)
    for name, module in said.items():
        room = import_module(f"dp_saddle.{module}")
        assert getattr(dp_saddle, name) is getattr(room, name)
