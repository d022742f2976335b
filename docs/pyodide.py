"""Python for the site's readers: Pyodide, with numpy, SciPy, matplotlib and this very library.

The files are those of `pyodide-lock.json`, which has the sha256 of each, as npm's package
`pyodide` has them (`python docs/pyodide.py` says so again, where npm is). They come from the
folder `PYODIDE`, an unpacked release of that version, or from the wheels in `pyodide.txt`; are
kept in `docs/_build/pyodide`, so that the next build needs no network; and are copied to the
site. Without them the site is built too: then its cells have no Run button."""
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE/"pyodide-lock.json"
KEPT = HERE/"_build"/"pyodide"
STATIC = HERE/"_build"/"static"
CORE = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
# What the library imports, and then what some pages import, when they do.
WANTED = ("numpy", "scipy", "matplotlib")
# What these depend on by the lock, and need not to draw.
SPARED = {"fonttools", "matplotlib-pyodide", "pytz"}
OURS = ("fastcore", "mpmath")
VERSION = "0.27.7"
NPM = ("sha512-RUSVJlhQdfWfgO9hVHCiXoG+nVZQRS5D9FzgpLJ/VcgGBLSAKoPL8kTiOikxbHQm"
       "1kRISeWUBdulEgO26qpSRA==")
NONE = {"none": "This site was built without Pyodide."}     # what its pages are told then
EPOCH = 1980, 1, 1, 0, 0, 0        # of all files in the wheel: equal contents, equal bytes

def sha256(data): return hashlib.sha256(data).hexdigest()

def needed(lock):
    "{file: sha256} of all that is served."
    return lock["core"] | {p["file_name"]: p["sha256"] for p in lock["packages"].values()}

def take(wanted, read):
    "Keep those files of `wanted` that `read(name)` has, if they are what they should be."
    for name, hashed in wanted.items():
        data = read(name)
        if data is None: continue
        if sha256(data) != hashed:
            raise SystemExit(f"{name}: sha256 {sha256(data)}, and {LOCK.name} says {hashed}")
        (KEPT/name).write_bytes(data)

def read_folder(folder):
    return lambda name: (folder/name).read_bytes() if (folder/name).is_file() else None

def read_wheel(path):
    "A wheel itself, if it is asked for, or what lies in it."
    with zipfile.ZipFile(path) as wheel:
        inside = {Path(name).name: name for name in wheel.namelist() if "/pyodide/" in name}
    def read(name):
        if name == path.name: return path.read_bytes()
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(inside[name]) if name in inside else None
    return read

def missing(wanted):
    return {name: hashed for name, hashed in wanted.items()
            if not (KEPT/name).is_file() or sha256((KEPT/name).read_bytes()) != hashed}

def fetch(wanted):
    "All files into the folder that survives. What went wrong, or ''."
    KEPT.mkdir(parents=True, exist_ok=True)
    if folder := os.environ.get("PYODIDE"): take(missing(wanted), read_folder(Path(folder)))
    if not missing(wanted): return ""
    with tempfile.TemporaryDirectory() as to:
        print("Pyodide for the Run buttons: 77 MB, once", flush=True)
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
            "--no-cache-dir", "--retries", "1", "--require-hashes", "-r", HERE/"pyodide.txt",
            "-d", to], capture_output=True, text=True)
        if done.returncode: return (done.stderr.strip() or "pip failed").splitlines()[-1]
        for path in sorted(Path(to).iterdir()): take(missing(wanted), read_wheel(path))
    lost = missing(wanted)
    return f"nobody has {', '.join(lost)}" if lost else ""

def wheel(to):
    "The library as it is in this checkout, as a wheel in the folder `to`: its name."
    about = ConfigParser(delimiters=["="])
    about.read(HERE.parent/"settings.ini", encoding="utf-8")
    name, version = (about["DEFAULT"][key] for key in ("lib_name", "version"))
    info = f"{name}-{version}.dist-info"
    files = {p.relative_to(HERE.parent).as_posix(): p.read_bytes()
             for p in sorted((HERE.parent/name).rglob("*")) if p.suffix in (".py", ".npz")}
    files |= {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\n"
              f"Version: {version}\n".encode(), f"{info}/WHEEL": b"Wheel-Version: 1.0\n"
              b"Generator: dp_saddle\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    def coded(data): return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()[:-1]
    rows = [f"{path},sha256={coded(data)},{len(data)}\n" for path, data in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    contents = sha256("".join(rows).encode())[:12]
    path = to/f"{name}-{version}-py3-none-any.{contents}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for inside, data in files.items():
            out.writestr(zipfile.ZipInfo(inside, EPOCH), data, zipfile.ZIP_DEFLATED)
    return path.name

def groups(lock):
    "{package: its files and those of what it depends on}"
    def files(name):
        package = lock["packages"][name]
        return {package["file_name"], *(f for d in package["depends"] for f in files(d))}
    return {name: sorted(files(name)) for name in (*WANTED, *OURS)}

def prepare():
    "Put into `docs/_build/static` what the pages load when Run is pressed."
    lock = json.loads(LOCK.read_text(encoding="utf-8"))
    for stale in (STATIC/"pyodide", HERE/"_build"/"html"/"_static"/"pyodide"):
        shutil.rmtree(stale, ignore_errors=True)
    STATIC.mkdir(parents=True, exist_ok=True)
    wanted = needed(lock)
    said = NONE
    if error := fetch(wanted):
        print(f"No Pyodide: {error}. The cells of this site have no Run button: give its files as "
              f"PYODIDE=folder.", file=sys.stderr)
    else:
        # a name for good: what is in a browser's cache is never asked for again
        to = STATIC/"pyodide"/f"{lock['info']['version']}-{sha256(LOCK.read_bytes())[:12]}"
        to.mkdir(parents=True)
        for name in wanted: shutil.copy2(KEPT/name, to/name)
        shutil.copy(LOCK, to/LOCK.name)
        library = wheel(to.parent)
        sizes = {p.name: p.stat().st_size for p in [*to.iterdir(), to.parent/library]}
        script = sha256((HERE/"static"/"python-worker.js").read_bytes())[:8]
        said = {"base": f"pyodide/{to.name}/", "library": f"pyodide/{library}", "sizes": sizes,
                "worker": f"python-worker.js?v={script}", "groups": groups(lock)}
    text = f"window.dpSaddleFiles = {json.dumps(said, separators=(',', ':'))};\n"
    (STATIC/"python-files.js").write_text(text, encoding="utf-8")

def lock_of_npm():
    "The lock by npm's package, with the wheels of PyPI that are ours to choose."
    npm = shutil.which("npm") or sys.exit("no npm")
    with tempfile.TemporaryDirectory() as to:
        subprocess.run([npm, "pack", "--silent", f"pyodide@{VERSION}"], cwd=to, check=True)
        data = next(Path(to).glob("*.tgz")).read_bytes()
        found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        if found != NPM: sys.exit(f"npm's pyodide is {found}, and not {NPM}")
        with tarfile.open(next(Path(to).glob("*.tgz"))) as tar:
            files = {name: tar.extractfile(f"package/{name}").read()
                     for name in (*CORE, "pyodide-lock.json")}
    theirs, packages = json.loads(files["pyodide-lock.json"]), {}
    def add(name):
        package = theirs["packages"][name]
        depends = [d for d in package["depends"] if d not in SPARED]
        packages[name] = package | {"depends": depends}
        for d in depends: add(d)
    for name in WANTED: add(name)
    pinned = (line.split() for line in (HERE/"pyodide.txt").read_text(encoding="utf-8").splitlines()
              if line.startswith(OURS))
    for (name, version), hashed in ((p.split("=="), h) for p, h in pinned):
        packages[name] = {"name": name, "version": version, "depends": [], "imports": [name],
            "file_name": f"{name}-{version}-py3-none-any.whl", "install_dir": "site",
            "package_type": "package", "sha256": hashed.split(":")[1], "unvendored_tests": False}
    return {"info": theirs["info"], "core": {name: sha256(files[name]) for name in CORE},
            "packages": dict(sorted(packages.items()))}

if __name__ == "__main__":
    lock = lock_of_npm()
    if "--write" in sys.argv:
        LOCK.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    elif lock != json.loads(LOCK.read_text(encoding="utf-8")):
        sys.exit(f"{LOCK.name} is not what npm's pyodide and pyodide.txt say")
    print(f"{LOCK.name}: as npm's pyodide {lock['info']['version']} has it")
