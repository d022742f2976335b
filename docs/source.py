"""Prepare the site's pages: nbs/ -> docs/_build/source/ for Sphinx. No notebook is run; the
library is, to tabulate the explorers and to fill the form of "Your run".

The notebooks are plain Markdown, so that they read well in Jupyter and on a code host; here their
claims, proofs, exercises and solutions become directives, equations get numbers, citations and
names of functions become links, pictures' code and checks are folded, and explorers become figures
that work without Python. The reference is made by api.py."""
import ast
import base64
import functools
import gc
import hashlib
import html
import io
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import api
import commands
import form
import nbformat
import pyodide
import runnable
from nbdev.config import get_config
from PIL import Image

LIBRARY = [f"dp_saddle.{api.dotted(path)}" for path in api.LIBRARY]
# The site's parts, in this order: pages by the start of their names, or folders. A folder is one
# line of the sidebar, its door's; the door names its pages, in their order. "More" has the pages
# that are made here.
PARTS = {
    "Start here": ("map", "five_minutes", "your_run", "faq"),
    "The book": ("preface", "0", "1", "glossary"),
    "Using it": ("accounting/", "practice/", "command/", "interop/"),
    "The engine room": ("engine/", "plrv/", "losses/", "mechanisms/", "saddlepoint/",
                        "edgeworth/", "prv_fft/", "filters/", "individual/", "steps/",
                        "sampling/", "certificates/", "widgets/", "base/"),
    "The papers": ("papers/", "benchmark"),
    "More": ("commands", "api/index", "gallery", "references"),
}
NUMBER = re.compile(r"0*(\d+[a-z]*)_")      # of a chapter
# Below the title of the chapter on the command line: that page is the site's alone.
COMMANDS = "[All commands and their options](../commands.md), as the parser knows them."
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
        return f'<a href="{top}api/{places[name]}.html#api-{name}">{found[0]}</a>'
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

def place_outputs(cell):
    "The same of the text that a code cell has shown."
    for output in cell.outputs:
        if text := output.get("data", {}).get("text/markdown"):
            output["data"]["text/markdown"] = places_in(text)

# Cells

DIRECTIVE = re.compile(r"^#\|\s*(.*?)\s*$", flags=re.M)
HIDDEN = {"hide", "default_exp"}
# What a folded cell is called: {what it does: what opens it}.
PROMPTS = {"imports": "Imports", "constants": "Constants", "check": "The check",
           "picture": "The code of this picture"}
EXPORTED = {"export", "exporti", "exports"}

def directives(cell):
    "The words that begin the directives of a cell."
    return {found.split()[0].rstrip(":") for found in DIRECTIVE.findall(cell.source) if found}

@functools.cache
def body(source):
    "The statements of a cell; none where it is not Python alone."
    try: return ast.parse(DIRECTIVE.sub("", source)).body
    except SyntaxError: return []

def is_test(node):
    "An assert, a call of test_..., or a block that comes to one."
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return getattr(node.value.func, "id", "").startswith("test_")
    if isinstance(node, (ast.For, ast.With, ast.If)):
        return is_test(node.body[-1]) and all(map(prepares_or_tests, node.body))
    return isinstance(node, ast.Assert)

def prepares_or_tests(node):
    kinds = ast.Assign, ast.AugAssign, ast.Import, ast.ImportFrom
    return isinstance(node, kinds) or is_test(node)

def is_constant(node):
    return isinstance(node, ast.Assign) and all(
        name.id.strip("_").isupper() for target in node.targets for name in ast.walk(target)
        if isinstance(name, ast.Name))

def does(cell):
    """What a cell does that readers need not see at once: '' for what they do. What is done by hand
    stands open: a definition that is not exported."""
    statements, outputs = body(cell.source), cell.get("outputs", [])
    if statements and all(isinstance(n, (ast.Import, ast.ImportFrom)) for n in statements):
        return "imports"
    if directives(cell) & EXPORTED:
        return "constants" if statements and all(map(is_constant, statements)) else "code"
    if not statements: return ""
    if any("image/png" in o.get("data", {}) for o in outputs): return "picture"
    if outputs or not is_test(statements[-1]): return ""
    return "check" if all(map(prepares_or_tests, statements)) else ""

def fold(cell):
    "Fold the cell's input, if it is one to be folded."
    kind = does(cell)
    tags = cell.metadata.get("tags", [])
    if kind in PROMPTS and "solution" not in tags:
        cell.metadata["tags"] = [*(t for t in tags if t != "hide-input"), "hide-input"]
        mystnb = cell.metadata.setdefault("mystnb", {})
        mystnb["code_prompt_show"] = mystnb["code_prompt_hide"] = PROMPTS[kind]

# The library's code

STEP = """``````{raw} html
<details class="step"><summary>%s</summary>
``````"""
END_OF_STEP = """``````{raw} html
</details>
``````"""

def is_library(cell):
    "A cell of the library's code, or imports for it: with others beside it, it is folded as one."
    exported = directives(cell) & EXPORTED or does(cell) == "imports"
    return exported and not cell.outputs and "solution" not in cell.metadata.get("tags", [])

def summary(kinds, lines):
    "What opens the code of cells that do this, and have so many lines."
    if "code" in kinds: return f"Code of this step, {lines} line{'s' if lines > 1 else ''}"
    return " and ".join(PROMPTS[kind] for kind in sorted(kinds, reverse=True)).capitalize()

def folded(cells):
    "These cells of the library's code, one after the other, folded as one."
    if not cells: return []
    shown = [re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M) for cell in cells]
    lines = sum(bool(line.strip()) for text in shown for line in text.splitlines())
    opens = STEP % summary({does(cell) for cell in cells}, lines)
    for cell, text in zip(cells, shown): cell.source = text
    first, last = map(nbformat.v4.new_markdown_cell, (opens, END_OF_STEP))
    return [first, *cells, last]

def anchor(cell, named):
    "Where links to this cell lead."
    if cell.id not in named or "solution" in cell.metadata.get("tags", []): return []
    return [nbformat.v4.new_markdown_cell(f'<span id="cell-{cell.id}"></span>')]

def reference(cell, depth):
    "Below an exported cell: where its public names stand in the reference."
    if "export" not in directives(cell): return []
    names = [n.name for n in body(cell.source) if isinstance(n, api.DEFINED)
             and n.name in api.rooms() and not api.is_patch(n)]
    if not names: return []
    top = "../"*depth
    pages = [(name, f"{top}api/{api.dotted(api.rooms()[name])}.html#api-{name}") for name in names]
    links = ", ".join(f'<a id="api-{name}" href="{to}"><code>{name}</code></a>'
                      for name, to in pages)
    return [nbformat.v4.new_markdown_cell(f'<p class="api">Reference: {links}</p>')]

def explorer(cell, made, depth=0):
    "An explorer's figure, made live without Python."
    found = re.match(r"^(explore_\w+\(.*\))\s*$", cell.source.strip(), flags=re.S)
    if not found or found[1] not in made: return None
    figure = made[found[1]].replace("{top}", "../"*depth)
    return nbformat.v4.new_markdown_cell("``````{raw} html\n" + figure + "\n``````")

def page(nb, name, made, cited, named=()):
    """Change the notebook `nb` into a page for myst-nb; the cells whose ids
    are in `named` get an anchor."""
    depth, chapter = name.count("/"), name.split("/")[-1]
    top, code = "../"*(depth + 1), f"{get_config().git_url}/blob/{get_config().branch}/"
    # links out of nbs/ lead out of the site
    outside = rf"\[([^\]\n]*)\]\({re.escape(top)}([^)\s]*)\)"
    cells, numbers, step, after = [], [], [], []
    for k, cell in enumerate(nb.cells):
        if cell.cell_type == "code":
            said = directives(cell)
            if said & HIDDEN or re.match(r"(#\|.*\n)*_all_ = ", cell.source): continue
            place_outputs(cell)
            if re.search(r"^#\|\s*echo:\s*false", cell.source, flags=re.M):
                cell.metadata.setdefault("tags", []).append("remove-input")
            elif is_library(cell):
                cells += anchor(cell, named)
                after += reference(cell, depth)
                step.append(cell)
                continue
            fold(cell)
            cell.source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M)
            if not cell.source.strip() and not cell.outputs: continue
            cells += folded(step) + after
            step, after = [], reference(cell, depth)
            if live := explorer(cell, made, depth):
                cells.append(live)
                continue
            cells += anchor(cell, named)
        # raw cells are settings for nbdev
        elif cell.cell_type == "raw" or not cell.source.strip():
            continue
        else:
            cells += folded(step) + after
            step, after = [], []
            cell.source = re.sub(outside, rf"[\1]({code}\2)" if get_config().git_url else r"\1",
                                 cell.source)
            cell.source = places_in(cell.source)
            if not FOLDED.fullmatch(cell.source.strip()) or "Solution" not in cell.source[:40]:
                cell.source = FOLDED.sub(lambda found: fence("admonition", "Proof",
                    {"collapsible": "closed"}, found[2]),
                    claims(cell.source, f"claim-{chapter}-{k}"))
        cells.append(cell)
    cells += folded(step) + after
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
        if 'class="api"' not in cell.source[:20]:
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
        (to/f"{name.removeprefix('dp_saddle.')}.md").write_text("\n".join(parts), encoding="utf-8")

# Explorers and the gallery

def calls(notebooks):
    "Calls of explorers that stand alone in a cell."
    found = (cell.source.strip() for nb in notebooks.values() for cell in nb.cells
             if cell.cell_type == "code")
    return sorted({re.sub(r"^#\|.*\n?", "", s, flags=re.M).strip() for s in found
                   if re.match(r"^(#\|.*\n)*explore_\w+\([^\n]*\)$", s)})

LIVE = """import sys
from pathlib import Path
import explorer_tables
Path(sys.argv[2]).write_text(explorer_tables.page(sys.argv[1]), encoding='utf-8')
"""

# One of as many processes as there are processors; what it imports is here, and in docs.
ALONE = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(["docs", ".", *filter(None, [
    os.environ.get("PYTHONPATH")])])}

def explorers(wanted, kept=Path("docs/_build/explorers")):
    "{call: HTML}, kept until the library changes."
    files = *sorted(Path("dp_saddle").rglob("*.py")), *Path("docs").glob("explorers.npz")
    sources = b"".join(path.read_bytes() for path in files)
    version = hashlib.sha256(sources).hexdigest()[:16]
    place = {call: kept/f"{version}-{hashlib.sha256(call.encode()).hexdigest()[:16]}.html"
             for call in wanted}
    missing = [call for call in wanted if not place[call].exists()]
    if missing:
        kept.mkdir(parents=True, exist_ok=True)
        # of processes: a table takes up to a minute
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda call: subprocess.run([sys.executable, "-c", LIVE, call,
                place[call]], check=True, env=os.environ | ALONE), missing))
    return {call: place[call].read_text(encoding="utf-8") for call in wanted}

KNOWN = re.compile(r'<script type="application/json">(.*?)</script><script>(.*?)'
                   r"\(document\.currentScript\.parentElement\);\s*</script>", flags=re.S)

def shared(made, to=Path("docs/_build/static/explorers")):
    """The figures with their tables in files of their own, which pages share and browsers keep:
    {call: HTML, with {top} for the way to the site's first page}."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    out = {}
    for call, text in made.items():
        known, script = KNOWN.search(text).groups()
        name = re.search(r'id="explorer-(\w+)"', text)[1]
        file = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.js"
        (to/file).write_text(f"""(function () {{
  const figure = document.getElementById('explorer-{name}');
  const known = document.createElement('script');
  known.type = 'application/json';
  known.textContent = JSON.stringify({known});
  figure.append(known);
  {script.strip()}(figure);
}})();
""", encoding="utf-8")
        figure = KNOWN.sub("", text).replace("</figure>", "")
        source = f'<script defer src="{{top}}_static/explorers/{file}"></script>'
        out[call] = f"{figure}{source}</figure>"
    return out

THUMBNAIL, COLOURS = 480, 64   # pixels across, twice what is shown; and colours

def thumbnail(png, path):
    "The picture, smaller."
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    # the octree keeps the colours of thin lines and letters, which an average makes grey
    picture.quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(path, optimize=True)
    return picture.size

CARD = """<figure class="shown"><a href="{page}.html"><img src="_static/thumbnails/{file}"
alt="{alt}" width="{width}" height="{height}" loading="lazy"></a></figure>"""

def gallery(notebooks, titles, to=Path("docs/_build/static/thumbnails")):
    "A page of all pictures, small, in a grid: each with its text and a link to its chapter."
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    parts = ["# Gallery", "Every picture of the book. A click leads to the chapter that makes it."]
    for name, nb in notebooks.items():
        title, items = titles[name], []
        for cell in nb.cells:
            output = next((o for o in cell.get("outputs", [])
                           if "image/png" in o.get("data", {})), None)
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt")
            if output is None or alt is None or directives(cell) & HIDDEN: continue
            png = base64.b64decode(output["data"]["image/png"])
            file = f"{hashlib.sha256(png).hexdigest()[:16]}.png"
            width, height = thumbnail(png, to/file)
            items.append(CARD.format(page=name, file=file, alt=html.escape(alt),
                                     width=width//2, height=height//2))
        if items:
            grid = "\n".join(['<div class="gallery">', *items, "</div>"])
            parts += [f"## {title}", f"```{{raw}} html\n{grid}\n```"]
    return "\n\n".join(parts)

def title_of(nb):
    return next(re.match(r"# (.*)", c.source)[1] for c in nb.cells if c.cell_type == "markdown"
                and c.source.startswith("# "))

def part_of(name):
    "The part of the site that a page belongs to."
    return next((part for part, starts in PARTS.items() if name.startswith(starts)), "")

def door_of(folder):
    "The pages of a folder, in the order of its door; none of a folder that has no door."
    path = Path("dp_saddle", folder, "__init__.py")
    if not folder or not path.exists(): return []
    return [f"{folder}/index", *(f"{folder}/{page}" for page in api.door_of(path))]

def place_of(name):
    "For sorting: the part, the place in it, the name."
    starts = [start for part in PARTS.values() for start in part]
    first = next((i for i, start in enumerate(starts) if name.startswith(start)), -1)
    beside = door_of(name.rpartition("/")[0]) if "/" in name else []
    return first, beside.index(name) if name in beside else 0, name

def entry(name, nb):
    "A line of the sidebar: chapters with their numbers."
    number = NUMBER.match(name)
    return f"{number[1]} {title_of(nb)} <{name}>" if number else name

def toctree(entries, *options):
    "A cell with links that only the sidebar shows."
    lines = ["```{toctree}", ":hidden:", *options, "", *entries, "```"]
    return nbformat.v4.new_markdown_cell("\n".join(lines))

def contents(notebooks):
    "Cells with the sidebar: a list of pages for each part; of a folder, its door."
    cells = []
    for part, starts in PARTS.items():
        entries = [entry(name, nb) for name, nb in notebooks.items() if part_of(name) == part
                   and (not door_of(name.rpartition("/")[0]) or name.endswith("/index"))]
        if part == "More": entries = list(starts)
        cells.append(toctree(entries, f":caption: {part}"))
    return cells

def chapters(notebooks):
    "{module: the notebook that it is exported from}."
    found = {}
    for name, nb in notebooks.items():
        for cell in nb.cells:
            if exported := re.match(r"#\|\s*default_exp ([\w.]+)", cell.source):
                found[exported[1]] = name
    return found

# Who uses a page

RESULT = "**Its one result**"      # a page of the engine room has such a paragraph at its head

def used_by(name, pages, titles):
    """A sentence with links to what imports from the page `name`: pages of its folder, other
    folders. `pages`: {module: page}."""
    folder, top = name.split("/")[0], "../"*name.count("/")
    module = next((module for module, page in pages.items() if page == name), None)
    users = {pages.get(user, f"{user}/index") for user in api.users().get(module, ())}
    inside = {page for page in users if page.startswith(f"{folder}/")}
    others = {page if "/" not in page else f"{page.split('/')[0]}/index" for page in users - inside}
    found = [f"[{titles.get(page)}]({top}{page}.ipynb)" for those in (inside, others)
             for page in sorted(those, key=place_of)]
    if not found: return "**Used by** no other page: it is for readers and users."
    return f"**Used by** {', '.join(found[:-1])}{' and ' if found[1:] else ''}{found[-1]}."

def with_users(nb, name, pages, titles):
    "Say at the head of a page of the engine room who uses it."
    for cell in nb.cells:
        if cell.cell_type == "markdown" and RESULT in cell.source:
            cell.source = f"{cell.source.rstrip()} {used_by(name, pages, titles)}"

def write(written, source):
    "Write all pages of the folder `written` to `source`, which is made anew."
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in ("benchmark.json", "toy_training.py"): shutil.copy(written/name, source/name)
    names = sorted((name for path in written.rglob("*.ipynb")
                    if not re.search(r"(^|/)[._]", name := path.relative_to(written)
                                     .with_suffix("").as_posix())), key=place_of)
    notebooks = {name: nbformat.read(written/f"{name}.ipynb", as_version=4) for name in names}
    cited, named = {}, named_cells(notebooks)
    places = {name: api.dotted(path) for name, path in api.rooms().items()}
    made = shared(explorers(calls(notebooks)))
    titles = {name: entry(name, nb).split(" <")[0] if name[0].isdigit() else title_of(nb)
              for name, nb in notebooks.items()}
    modules = chapters(notebooks)
    api.write(source/"api", modules, titles)
    figures = gallery(notebooks, titles)
    pages = {}
    for name, nb in notebooks.items():
        here = {}
        with_users(nb, name, modules, titles)
        pages[name] = page(nb, name, made, here, named)
        runnable.annotate(pages[name], name)
        for key, to in here.items(): cited.setdefault(key, to.format(page=name))
    for name, nb in pages.items():
        finish(nb, name, places, cited)
        if name == "index":
            nb.cells += contents(notebooks)
        elif name.endswith("/index"):
            nb.cells.append(toctree(page.split("/")[1] for page in door_of(name.split("/")[0])[1:]))
        if name == "your_run":
            nb.cells.insert(1, form.form())
        if name == "command/main":
            nb.cells.insert(1, nbformat.v4.new_markdown_cell(COMMANDS))
        (source/name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, source/f"{name}.ipynb")
    (source/"gallery.md").write_text(figures, encoding="utf-8")
    (source/"commands.md").write_text(commands.page(), encoding="utf-8")
    sources(source/"source")
    for file in ("references.md", "references.bib"): shutil.copy(Path("docs")/file, source/file)

if __name__ == "__main__":
    gc.disable()        # syntax trees are millions of objects, and all are kept to the end
    pyodide.prepare()
    write(Path("nbs"), Path("docs/_build/source"))
