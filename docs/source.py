"""Prepare the site's pages: nbs/ -> _proc/ by nbdev -> docs/_build/source/ for Sphinx.

nbdev adds the documentation of what is exported, and leaves out what is hidden. It writes for
Quarto:
what myst-nb says otherwise is changed here. The notebooks are plain Markdown, so that they read
well in Jupyter
and on a code host; here their claims, proofs, exercises and solutions become directives, equations
get numbers,
citations and names of functions become links, and explorers become figures that work without
Python."""
import ast
import base64
import hashlib
import html
import inspect
import os
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import nbdev.processors
import nbformat
import pyodide
import runnable
from nbdev.config import get_config
from nbdev.serve import proc_nbs

LIBRARY = [f"dp_saddle.{p.stem}" for p in sorted((Path(__file__).parent.parent
    /"dp_saddle").glob("[a-z]*.py"))]
# The book's parts, and its pages by the start of their names, in this order. "More" has the pages
# that are made here.
PARTS = {
    "Losses": ("preface", "glossary", "00"),
    "Accountants": ("01", "02", "03", "04"),
    "Record by record": ("05",),
    "In practice": ("06", "07", "08", "09", "benchmark"),
    "Appendices": ("9",),
    "The papers": ("papers/",),
    "More": ("gallery", "references"),
}
# of the papers, as cited in the notebooks
KEYS = "SP|EA|PRV|FA|GDP"
OUTSIDE_CODE = re.compile(r"(^(`{3,})[^{`\n]*\n.*?^\2`*[ "
                          r"\t]*$|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]*`|\[[^\]\n]*\]\([^)\n]*\))",
                          flags=re.M | re.S)

def outside(text, change):
    "Apply `change` to the parts of the text that are no code, no formula and no link."
    return "".join(part if i % 3 == 1 else change(part) if i % 3 == 0 else ""
                   for i, part in enumerate(OUTSIDE_CODE.split(text)))

def fence(directive, title, options, body, ticks="````"):
    return "\n".join([f"{ticks}{{{directive}}} {title}".rstrip(),
                      *(f":{k}: {v}" for k, v in options.items()), "", body.strip(), ticks])

# Claims, proofs, exercises

CLAIM = re.compile(r"^\*\*(Claim|Theorem)((?: \[[^\]]*\])?)(?: \(([^)]*)\))?\.?\*\*\.?((?: "
                   r"\[[^\]]*\])?(?: \([^)]*\))?)\.?\s*", flags=re.M)
FOLDED = re.compile(r"<details>\s*<summary>(Proof|Solution)[^<]*</summary>(.*?)</details>",
                    flags=re.S)

def claims(text, label):
    """Statements, each to the next paragraph that begins in italics (*Why*), is folded, or is a
    claim."""
    out, end = [], 0
    for k, found in enumerate(CLAIM.finditer(text)):
        stop = re.compile(r"\n\n(?=\*[A-Z]|<details|\*\*(?:Claim|Theorem))").search(text,
            found.end())
        stop = stop.start() if stop else len(text)
        kind, source, name, late = found.groups()
        title = " ".join(x.strip() for x in (name or "", source or "", late or "") if x.strip())
        out += [text[end:found.start()], fence("prf:theorem" if kind == "Theorem"
            else "prf:proposition", title, {"label": f"{label}-{k}"}, text[found.end():stop])]
        end = stop
    return "".join(out) + text[end:]

def exercises(cells, chapter):
    "Exercises with their solutions, text and code, folded."
    out, label = [], None
    for cell in cells:
        solution = "solution" in cell.metadata.get("tags", [])
        started = cell.cell_type == "markdown" and re.match(r"\*\*Exercise (\d+): (.*?)\.?\*\*",
            cell.source)
        folded = cell.cell_type == "markdown" and (cell.source.startswith("<details>")
            and FOLDED.match(cell.source))
        if label and not solution:
            out.append(nbformat.v4.new_markdown_cell("```{solution-end}\n```"))
            label = None
        if started:
            name = f"ex-{chapter}-{started[1]}"
            cell.source = fence("exercise", started[2].replace("`", ""), {"label": name},
                                cell.source[started.end():])
        elif folded and folded[1] == "Solution":
            label = name
            out.append(nbformat.v4.new_markdown_cell(f"```{{solution-start}} {label}\n:class: "
                                                     f"dropdown\n```"))
            cell.source = folded[2].strip()
        out.append(cell)
    if label: out.append(nbformat.v4.new_markdown_cell("```{solution-end}\n```"))
    return out

# Equations, citations, names

def equations(text, chapter, numbers, cited):
    "Displayed formulas with labels; those that carry a citation are found by it."
    def one(found):
        numbers.append(len(numbers) + 1)
        label = f"eq-{chapter}-{numbers[-1]}".replace("_", "-")
        for key in re.findall(rf"\[((?:{KEYS}) [^\]]+)\]", found[1]):
            cited.setdefault(key, f"{{page}}.html#equation-{label}")
        return f"\n$$\n{found[1].strip()}\n$$ ({label})\n"
    # code, not directives
    parts = re.split(r"(^(`{3,})[^{`\n]*\n.*?^\2`*[ \t]*$)", text, flags=re.M | re.S)
    return "".join(re.sub(r"[ \t]*\$\$(.+?)\$\$[ \t]*\n?", one, part, flags=re.S) if i % 3 == 0
                   else part if i % 3 == 1 else "" for i, part in enumerate(parts))

def cite(text, cited, top):
    "[SP 25] leads to the equation that carries it, or to the bibliography."
    def one(found):
        first = re.split(r"[,;]", found[1])[0].strip()
        to = cited.get(found[1]) or cited.get(first) or "references.html"
        return f'<a href="{top}{to}">\\[{found[1]}\\]</a>'
    return outside(text, lambda part: re.sub(rf"\[((?:{KEYS})\b[^\]\[]*)\](?!\()", one, part))

def link_names(text, places, top):
    "Names of what the library exports lead to their documentation, the first time in a cell."
    done = set()
    def one(found):
        name = found[1]
        if name in done or name not in places: return found[0]
        done.add(name)
        return f'<a href="{top}{places[name]}.html#api-{name}">{found[0]}</a>'
    lines = re.split(r"(^(`{3,})[^{`\n]*\n.*?^\2`*[ "
                     r"\t]*$|^#.*$|\[[^\]\n]*\]\([^)\n]*\)|\$\$.*?\$\$)", text, flags=re.M | re.S)
    return "".join(re.sub(r"(?<!`)`([A-Za-z_]\w*)(?:\([^`]*\))?`(?!`)", one, part) if i % 3 == 0
                   else part if i % 3 == 1 else "" for i, part in enumerate(lines))

# Places in other notebooks

PLACE = re.compile(r"\]\(([^()\s]+?)\.ipynb#([^()\s=]+)\)")
CELL = re.compile(r"\[`(\w+)`\]\(([^()\s]+?)\.ipynb#cell-id=(\w+)\)")

def named_cells(notebooks):
    "The ids of the cells that a page links to."
    return {found[3] for nb in notebooks.values() for cell in nb.cells
            if cell.cell_type == "markdown" for found in CELL.finditer(cell.source)}

def places_in(text):
    """Anchors as Jupyter writes them, as the site has them: a heading's words in small letters
    without punctuation; and `cell-id=...`, which only Jupyter knows, as an anchor of its own."""
    def of_site(found):
        slug = re.sub(r"[^\w-]", "", found[2].lower())
        return f"]({found[1]}.ipynb#{slug})"
    text = CELL.sub(r'<a href="\2.html#cell-\3"><code>\1</code></a>', text)
    return PLACE.sub(of_site, text)

# Cells

def members(name):
    """The methods and properties of an exported class, which nbdev leaves out: signature with its
    comments, and docstring."""
    cls = next((getattr(m, name) for m in map(import_module, LIBRARY) if hasattr(m, name)), None)
    parts = []
    for key, thing in vars(cls).items() if isinstance(cls, type) else ():
        f = getattr(thing, "__func__", thing)
        if key.startswith("_") or not inspect.getdoc(f) or not (inspect.isfunction(f)
                or isinstance(f, property)):
            continue
        head = f"{key}"
        if inspect.isfunction(f):
            lines = textwrap.dedent(inspect.getsource(f)).splitlines()
            tree = ast.parse("\n".join(lines)).body[0]
            head = "\n".join(lines[tree.lineno - 1:tree.body[0].lineno
                                   - 1]) or f"def {key}({ast.unparse(tree.args)}):"
            # a name can be another's
            head = head.replace(f"def {tree.name}(", f"def {key}(", 1)
        parts.append(fence("code-block", "python", {}, head, "```") + "\n\n" + inspect.getdoc(f))
    return "\n\n".join(parts)

def source_link(found, top):
    """nbdev's link to the line of a definition. Where the project is on no code host, it leads to
    the site's copy."""
    path, line = re.fullmatch(r".*/(\w+)\.py#(L\w+)", found[1]).groups()
    to = found[1] if get_config().git_url else f"{top}source/{path}.html#{line}"
    return f'<a class="source" href="{to}">source</a>'

def document(cell, top):
    "What nbdev says of an exported name, as a box with an anchor."
    name = re.search(r"show_doc\(([\w.]+)", cell.source)[1]
    text = "".join(o.get("data", {}).get("text/markdown", "") for o in cell.outputs)
    text = re.sub(r"^\s*---\s*\n", "", text)
    text = re.sub(r"^###+ .*$", "", text, flags=re.M)
    text = re.sub(r"\[source\]\(([^)]*)\)\{[^}]*\}", lambda found: source_link(found, top), text)
    return nbformat.v4.new_markdown_cell(f'<span id="api-{name}"></span>\n\n'
                                         + fence("admonition", name, {"class": "api"},
                                         f"{text.strip()}\n\n{members(name)}"))

def explorer(cell, made):
    "An explorer's figure, made live without Python."
    found = re.match(r"^(explore_\w+\(.*\))\s*$", cell.source.strip(), flags=re.S)
    if not found or found[1] not in made: return None
    return nbformat.v4.new_markdown_cell("``````{raw} html\n" + made[found[1]] + "\n``````")

def page(nb, name, made, cited, named=()):
    """Change the notebook `nb`, as nbdev processed it, into a page for myst-nb; the cells whose ids
    are in `named` get an anchor."""
    depth, chapter = name.count("/"), name.split("/")[-1]
    top, code = "../"*(depth + 1), f"{get_config().git_url}/blob/{get_config().branch}/"
    # links out of nbs/ lead out of the site
    outside = rf"\[([^\]\n]*)\]\({re.escape(top)}([^)\s]*)\)"
    cells, numbers = [], []
    for k, cell in enumerate(nb.cells):
        if cell.cell_type == "code":
            if "show_doc(" in cell.source and cell.outputs:
                cells.append(document(cell, "../"*depth))
                continue
            if re.search(r"^#\|\s*echo:\s*false", cell.source, flags=re.M):
                cell.metadata.setdefault("tags", []).append("remove-input")
            cell.source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M)
            if not cell.source.strip() and not cell.outputs: continue
            if live := explorer(cell, made):
                cells.append(live)
                continue
            if cell.id in named and "solution" not in cell.metadata.get("tags", []):
                anchor = f'<span id="cell-{cell.id}"></span>'
                cells.append(nbformat.v4.new_markdown_cell(anchor))
        # raw cells are settings for nbdev
        elif cell.cell_type == "raw" or not cell.source.strip():
            continue
        else:
            cell.source = re.sub(outside, rf"[\1]({code}\2)" if get_config().git_url else r"\1",
                                 cell.source)
            cell.source = places_in(cell.source)
            if not FOLDED.fullmatch(cell.source.strip()) or "Solution" not in cell.source[:40]:
                cell.source = FOLDED.sub(lambda found: fence("admonition", "Proof",
                    {"collapsible": "closed"}, found[2]),
                    claims(cell.source, f"claim-{chapter}-{k}"))
        cells.append(cell)
    nb.cells = exercises(cells, chapter)
    for cell in nb.cells:
        if cell.cell_type == "markdown" and "{raw} html" not in cell.source[:20]:
            cell.source = equations(cell.source, chapter, numbers, cited)
    return nb

def finish(nb, name, places, cited):
    "The links, once all pages' equations are known."
    top = "../"*name.count("/")
    for cell in nb.cells:
        if cell.cell_type != "markdown" or "{raw} html" in cell.source[:20]: continue
        cell.source = cite(cell.source, cited, top)
        if ":class: api" not in cell.source[:200]:
            cell.source = link_names(cell.source, places, top)
    return nb

# The library's source

def sources(to):
    """A page for each module in the folder `to`, whose definitions have their line's number as an
    anchor."""
    to.mkdir(parents=True)
    for name in LIBRARY:
        path = Path(*name.split(".")).with_suffix(".py")
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        starts = [(min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.lineno)
                  for node in ast.parse(text).body if isinstance(node, defined)]
        parts = ["---", "orphan: true", "---", "", f"# Source of {name}", ""]
        pieces = [(1, 0), *starts]
        for (start, anchor), (end, _) in zip(pieces, [*starts, (len(lines) + 1, 0)]):
            if anchor: parts.append(f'<span id="L{anchor}"></span>\n')
            code = "\n".join(lines[start - 1:end - 1])
            if code.strip():                # without colours, which weigh twice as much
                parts.append(f"````text\n{code}\n````\n")
        (to/f"{path.stem}.md").write_text("\n".join(parts), encoding="utf-8")

# Explorers and the gallery

def calls(notebooks):
    "Calls of explorers that stand alone in a cell, of all chapters but that which defines them."
    found = (cell.source.strip() for name, nb in notebooks.items() if name != "07_widgets"
             for cell in nb.cells if cell.cell_type == "code")
    return sorted({re.sub(r"^#\|.*\n?", "", s, flags=re.M).strip() for s in found
                   if re.match(r"^(#\|.*\n)*explore_\w+\([^\n]*\)$", s)})

LIVE = """import sys
from pathlib import Path
from dp_saddle import widgets
page = eval(sys.argv[1], vars(widgets)).page()
Path(sys.argv[2]).write_text(page, encoding='utf-8')
"""

def explorers(wanted, kept=Path("docs/_build/explorers")):
    "{call: HTML}, kept until the library changes."
    sources = b"".join(p.read_bytes() for p in sorted(Path("dp_saddle").glob("*.py")))
    version = hashlib.sha256(sources).hexdigest()[:16]
    place = {call: kept/f"{version}-{hashlib.sha256(call.encode()).hexdigest()[:16]}.html"
             for call in wanted}
    missing = [call for call in wanted if not place[call].exists()]
    if missing:
        kept.mkdir(parents=True, exist_ok=True)
        # of processes: a table takes up to a minute
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda call: subprocess.run([sys.executable, "-c", LIVE, call,
                place[call]], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}), missing))
    return {call: place[call].read_text(encoding="utf-8") for call in wanted}

CARD = """```{{raw}} html
<figure class="shown"><a href="{page}"><img src="{file}" alt="{alt}" width="{width}"
loading="lazy"></a><figcaption>{alt}</figcaption></figure>
```"""

def gallery(notebooks, source, made):
    """A page of all figures, each with its text and a link to its chapter: the chapter's own file,
    named by myst-nb after what is in it, but for explorers, which are no file there."""
    (source/"figures").mkdir(parents=True, exist_ok=True)
    parts = ["# Gallery", "Every picture of the book. A click leads to the chapter that makes it."]
    for name, nb in notebooks.items():
        title = next((re.match(r"# (.*)", c.source)[1] for c in nb.cells
                      if c.cell_type == "markdown" and c.source.startswith("# ")), name)
        items = []
        for k, cell in enumerate(c for c in nb.cells if c.cell_type == "code"):
            output = next((o for o in cell.get("outputs", [])
                           if "image/png" in o.get("data", {})), None)
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt")
            if output is None or alt is None: continue
            png = base64.b64decode(output["data"]["image/png"])
            if name != "07_widgets" and explorer(cell, made):
                file = f"figures/{name.replace('/', '-')}-{k}.png"
                (source/file).write_bytes(png)
                items.append(f'```{{figure}} {file}\n:alt: {alt}\n:width: 100%\n:target: '
                             f'{name}.html\n\n{alt}\n```')
                continue
            width = output["metadata"].get("image/png", {}).get("width", "")
            items.append(CARD.format(page=f"{name}.html", alt=html.escape(alt), width=width,
                                     file=f"_images/{hashlib.sha256(png).hexdigest()}.png"))
        if items: parts += [f"## {title}", *items]
    return "\n\n".join(parts)

def part_of(name):
    "The part of the book that a page belongs to."
    return next((part for part, starts in PARTS.items() if name.startswith(starts)), "")

def place_of(name):
    "For sorting: the part, the place in it, the name."
    starts = [start for part in PARTS.values() for start in part]
    return next((i for i, start in enumerate(starts) if name.startswith(start)), -1), name

def entry(name, nb):
    "A line of the sidebar: chapters with their numbers, appendices with their letters."
    title = next(re.match(r"# (.*)", c.source)[1] for c in nb.cells if c.cell_type == "markdown"
                 and c.source.startswith("# "))
    number = re.match(r"(\d+[a-z]*)_", name)
    if not number: return name
    shown = number[1]
    if part_of(name) == "Appendices":
        shown = chr(ord("A") + int(shown[:2]) - 90) + shown[2:]
    return f"{shown} {title} <{name}>"

def contents(notebooks):
    "Cells with the sidebar: a list of pages for each part."
    cells = []
    for part in PARTS:
        entries = [entry(name, nb) for name, nb in notebooks.items() if part_of(name) == part]
        if part == "More": entries = list(PARTS[part])
        listed = "\n".join(["```{toctree}", ":hidden:", f":caption: {part}", "", *entries, "```"])
        cells.append(nbformat.v4.new_markdown_cell(listed))
    return cells

def write(processed, source):
    "Write all pages of `processed` to `source`, which is made anew."
    shutil.rmtree(source, ignore_errors=True)
    for path in sorted(processed.rglob("*")):
        if path.is_file() and path.suffix != ".ipynb":
            (source/path.relative_to(processed)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, source/path.relative_to(processed))
    names = sorted((p.relative_to(processed).with_suffix("").as_posix()
                    for p in processed.rglob("*.ipynb")), key=place_of)
    notebooks = {name: nbformat.read(processed/f"{name}.ipynb", as_version=4) for name in names}
    cited, named = {}, named_cells(notebooks)
    places = {found[1].split(".")[0]: name for name, nb in notebooks.items() for cell in nb.cells
              if cell.cell_type == "code"
              and (found := re.search(r"^show_doc\(([\w.]+)", cell.source, flags=re.M))}
    made = explorers(calls(notebooks))
    source.mkdir(parents=True, exist_ok=True)
    figures = gallery(notebooks, source, made)
    pages = {}
    for name, nb in notebooks.items():
        here = {}
        pages[name] = page(nb, name, made if name != "07_widgets" else {}, here, named)
        runnable.annotate(pages[name], name)
        for key, to in here.items(): cited.setdefault(key, to.format(page=name))
    for name, nb in pages.items():
        finish(nb, name, places, cited)
        if name == "index":
            nb.cells += contents(notebooks)
        (source/name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, source/f"{name}.ipynb")
    (source/"gallery.md").write_text(figures, encoding="utf-8")
    sources(source/"source")
    for file in ("references.md", "references.bib"): shutil.copy(Path("docs")/file, source/file)

# Running

def only_exports(cell, evaluates=nbdev.processors._do_eval):
    """nbdev runs what is exported, to show its documentation, and every import beside it: the
    rivals
    that a chapter is checked against, and PyTorch. The library is enough."""
    needed = cell.directives_.keys() & {"export", "exports", "exporti",
                                        "exec_doc"} or "show_doc(" in cell.source
    return evaluates(cell) and bool(needed)

if __name__ == "__main__":
    pyodide.prepare()
    nbdev.processors._do_eval = only_exports
    # In one process, and all anew: this takes seconds. (nbdev's own docs commands would download
    # Quarto.)
    write(Path(proc_nbs(n_workers=0, force=True)), Path("docs/_build/source"))
