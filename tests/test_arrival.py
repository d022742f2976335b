"""What others get, from nothing: source distribution and wheel, each in an environment of its own,
the oldest requirements that are allowed, and the site with its extra alone. `make test-arrival`."""
import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from test_project import ROOT, settings

pytestmark = pytest.mark.arrival
BIN = "Scripts" if os.name == "nt" else "bin"
# Each kind of accountant, a figure, an explorer, and the number of the README.
SMOKE = """
import warnings
import numpy as np
import dp_saddle as dp
from dp_saddle.widgets import explore_curve
run = dp.dpsgd(
    sigma=9.4, batch_size=2**14, dataset_size=50_000, steps=2000, sampling="poisson"
)
assert abs(dp.epsilon(run, delta=1e-5) - 7.424378899) < 1e-8
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    assert len(str(dp.compare(run, delta=1e-5))) > 100
    few = dp.IndividualAccountant(2.0, 1.0, 0.1)
    few.step(np.linspace(0, 1, 5))
    assert few.epsilon(1e-5).upper.shape == (5,)
    laplace = 20 * dp.Laplace(scale=5.0)
    assert 0 < dp.PRVAccountant(laplace).epsilon(1e-5).upper < 20
    assert 0 < dp.calibrate(lambda sigma: 10 * dp.Gaussian(sigma=sigma), eps=1.0, delta=1e-5)
dp.plot_curve(run)
explore_curve(sigma=(1.0, 2.0), rate=(0.01, 0.1), steps=(100, 1000))
"""


def environment(home):
    "Variables as for somebody who has nothing of this project; only what pip downloads is kept."
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MAKE", "MFLAGS"))}
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], text=True, capture_output=True
    )
    if cache.returncode == 0:
        kept["PIP_CACHE_DIR"] = cache.stdout.strip()
    home.mkdir(exist_ok=True)
    for name in ("VIRTUAL_ENV", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "IN_TEST"):
        kept.pop(name, None)
    return kept | {"HOME": str(home), "USERPROFILE": str(home), "MPLBACKEND": "Agg"}


def run(*command, cwd, timeout=900, more=None):
    """Output of `command` in the folder `cwd` with an empty home, and with `more` variables; if it
    fails, so does the test."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment(cwd / "home") | (more or {}),
        text=True,
        capture_output=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-5000:]}{done.stderr[-5000:]}"
    return done.stdout


def tracked():
    "What the project consists of: all that git knows, as it is now."
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        check=True,
        text=True,
        capture_output=True,
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def copy(to):
    "A fresh copy of the project in the folder `to`."
    for name in tracked():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    return to


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    "The folder with the source distribution, and with the wheel that is built from it."
    place = tmp_path_factory.mktemp("built")
    project = copy(place / "project")
    run(sys.executable, "-m", "build", "--outdir", place / "dist", project, cwd=place)
    return place / "dist"


def fresh_python(place):
    "The Python of a new virtual environment in the folder `place`."
    run(sys.executable, "-m", "venv", place / "venv", cwd=place)
    return place / "venv" / BIN / "python"


def installed(python, place):
    "The names of all that this Python has."
    listed = run(python, "-m", "pip", "list", "--format=json", cwd=place)
    return {one["name"].replace("_", "-") for one in json.loads(listed)}


FILES = """
import hashlib
from pathlib import Path
import dp_saddle
root = Path(dp_saddle.__file__).parent
for path in sorted(root.rglob('*')):
    if path.is_file() and path.suffix != '.pyc':        # what has been run is compiled
        print(path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest())
"""


def try_it(python, place):
    "The library imports and computes, from a folder that has nothing of it; so does the command."
    run(python, "-c", SMOKE, cwd=place)
    command = python.parent / "dp-saddle"
    assert "usage: dp-saddle" in run(command, "--help", cwd=place)
    question = "--sigma", 2, "--steps", 10, "--rate", 1, "--delta", 1e-5
    told = run(command, "epsilon", *question, cwd=place)
    assert "certified" in told
    run(python, "-m", "pip", "check", cwd=place)


def test_install(built, tmp_path):
    "The wheel, which `build` makes of the source distribution, with what it requires."
    python = fresh_python(tmp_path)
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "install", "-q", "--no-compile", wheel, cwd=tmp_path)
    try_it(python, tmp_path)


@pytest.mark.slow
def test_install_of_the_source(built, tmp_path):
    "The wheel, then the source distribution in its place: the same, file by file."
    python = fresh_python(tmp_path)
    options = "-q", "--no-compile"
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    run(python, "-m", "pip", "install", *options, wheel, cwd=tmp_path)
    required, files = installed(python, tmp_path), run(python, "-c", FILES, cwd=tmp_path)
    assert len(files.splitlines()) > 50
    run(python, "-m", "pip", "uninstall", "-q", "-y", "dp_saddle", cwd=tmp_path)
    assert required - installed(python, tmp_path) == {"dp-saddle"}
    run(python, "-m", "pip", "install", *options, sdist, cwd=tmp_path)
    assert installed(python, tmp_path) == required
    assert run(python, "-c", FILES, cwd=tmp_path) == files
    assert "usage: dp-saddle" in run(python.parent / "dp-saddle", "--help", cwd=tmp_path)


@pytest.mark.slow
def test_floors(built, tmp_path):
    "The oldest versions that settings.ini allows."
    if sys.version_info >= (3, 12):
        pytest.skip("the oldest numpy allowed is older than this Python: try it with 3.10 or 3.11")
    floors = run(sys.executable, ROOT / "tests" / "floors.py", cwd=tmp_path).split()
    assert floors and all("==" in floor for floor in floors)
    (wheel,) = built.glob("*.whl")
    python = fresh_python(tmp_path)
    options = "-q", "--no-compile", "--prefer-binary"
    run(python, "-m", "pip", "install", *options, wheel, *floors, cwd=tmp_path)
    try_it(python, tmp_path)


def test_contents(built):
    "The source distribution is the project; the wheel is the library with its licence."
    (sdist,) = built.glob("*.tar.gz")
    (wheel,) = built.glob("*.whl")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames() if "/" in name}
    assert set(tracked()) - inside <= {".gitignore"}
    names = zipfile.ZipFile(wheel).namelist()
    library = {name for name in names if not re.match(r"[^/]+\.dist-info/", name)}
    modules = {p.relative_to(ROOT).as_posix() for p in (ROOT / "dp_saddle").rglob("*.py*")
               if p.suffix in (".py", ".pyi")}
    data = {"dp_saddle/py.typed", "dp_saddle/norms.npz", "dp_saddle/sampling.npz"}
    assert library == modules | data
    assert any(name.endswith("LICENSE") for name in names)


def test_what_a_registry_shows(built):
    "No link that leads nowhere there, and all that a user looks for."
    (wheel,) = built.glob("*.whl")
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    about = email.message_from_bytes(archive.read(name))
    text = about.get_payload(decode=True).decode()
    assert "In other libraries" in text
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", text) == []
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.13"} <= set(
        about.get_all("Classifier")
    )
    assert about["Requires-Python"] == ">=3.10"
    links = " ".join(about.get_all("Project-URL", []) + about.get_all("Home-page", []))
    assert bool(links) == bool(settings()["git_url"])


def generated(project):
    "What is written by exporting and cleaning: {file: content}."
    files = *project.rglob("dp_saddle/**/*.py"), *project.rglob("nbs/**/*.ipynb")
    return {path.relative_to(project).as_posix(): path.read_bytes()
            for path in (*files, project / "pyproject.toml")}


@pytest.mark.slow
def test_nbdev_3(tmp_path):
    "The next nbdev, before this one: it exports and cleans the same, and the notebooks run in it."
    project, newer = copy(tmp_path / "project"), tmp_path / "newer"
    options = "-q", "--no-compile", "--target", newer
    run(sys.executable, "-m", "pip", "install", *options, "nbdev>=3", cwd=tmp_path)
    first = {"PYTHONPATH": os.pathsep.join([str(newer), str(project)])}
    version = "import nbdev; print(nbdev.__version__)"
    assert int(run(sys.executable, "-c", version, cwd=tmp_path, more=first).split(".")[0]) >= 3
    before = generated(project)
    module = project / "dp_saddle" / "filters" / "costs.py"
    module.write_text("# to be written again\n")
    run(sys.executable, project / "docs" / "export.py", cwd=project, more=first)
    run(sys.executable, newer / "bin" / "nbdev-clean", cwd=project, more=first)
    after = generated(project)
    assert [name for name in before if before[name] != after.get(name)] == []
    assert set(after) == set(before) and len(before) > 150
    pages = "five_minutes", "08_filters", "practice/audits"
    paths = [project / "nbs" / f"{page}.ipynb" for page in pages]
    said = run(sys.executable, project / "tests" / "notebooks.py", *paths, cwd=project, more=first)
    assert "Success." in said


@pytest.mark.skipif(not shutil.which("make"), reason="no make")
def test_docs(tmp_path):
    "The site, with nothing installed but its extra."
    project = copy(tmp_path / "project")
    run("make", "docs", f"PYTHON={sys.executable}", cwd=project)
    assert (project / "docs" / "_build" / "html" / "engine/line.html").stat().st_size > 10_000
