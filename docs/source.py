"""Prepare the site's pages: nbs/ -> _proc/ by nbdev -> docs/_build/source/ for Sphinx.

nbdev adds the documentation of what is exported, and leaves out what is hidden. It writes for Quarto:
what myst-nb says otherwise is changed here."""
import re, shutil
from pathlib import Path
import nbformat
from nbdev.config import get_config
from nbdev.serve import proc_nbs

CONTENTS = "```{{toctree}}\n:hidden:\n{}\n```"

def page(nb, depth):
    "Change the notebook `nb`, as nbdev processed it and `depth` folders below nbs/, into a page for myst-nb."
    top, code = "../"*(depth + 1), f"{get_config().git_url}/blob/{get_config().branch}/"
    cells = []
    for cell in nb.cells:
        if cell.cell_type == "code":
            if re.search(r"^#\|\s*echo:\s*false", cell.source, flags=re.M):
                cell.metadata.setdefault("tags", []).append("remove-input")
            cell.source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M)
            for output in cell.outputs:  # documentation of functions starts with a rule, for which it is too deep
                data = output.get("data", {})
                if "text/markdown" in data: data["text/markdown"] = re.sub(r"^\s*---\s*\n", "", data["text/markdown"])
            if not cell.source.strip() and not cell.outputs: continue
        elif cell.cell_type == "raw" or not cell.source.strip(): continue  # raw cells are settings for nbdev
        else: cell.source = cell.source.replace(f"]({top}", f"]({code}")  # links out of nbs/ lead out of the site
        cells.append(cell)
    nb.cells = cells
    return nb

def write(processed, source):
    "Write all pages of `processed` to `source`, which is made anew."
    shutil.rmtree(source, ignore_errors=True)
    for path in sorted(processed.rglob("*")):
        to = source/path.relative_to(processed)
        if path.is_dir(): continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb": nbformat.write(page(nbformat.read(path, as_version=4), len(path.relative_to(processed).parts) - 1), to)
        else: shutil.copy(path, to)
    index = nbformat.read(source/"index.ipynb", as_version=4)
    names = sorted(p.relative_to(source).with_suffix("").as_posix() for p in source.rglob("*.ipynb"))
    names.remove("index")
    index.cells.append(nbformat.v4.new_markdown_cell(CONTENTS.format("\n".join(names))))
    nbformat.write(index, source/"index.ipynb")

if __name__ == "__main__":
    # In one process, and all anew: this takes seconds. (nbdev's own docs commands would download Quarto.)
    write(Path(proc_nbs(n_workers=0, force=True)), Path("docs/_build/source"))
