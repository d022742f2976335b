"""Write README.md from nbs/index.ipynb, and its pictures to docs/images/.

nbdev does this with Quarto, a program of its own; nbconvert is already here. Nothing is executed:
the outputs stored in the notebook are shown, so the same notebook always gives the same bytes."""
import base64
import posixpath
import re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

NOTE = "<!-- Made from nbs/index.ipynb by `make readme`: edit the notebook. -->\n\n"

def directives(source):
    "The `#| key: value` lines of a cell, as a dict."
    return {key: value.strip().lower()
            for key, value in re.findall(r"^#\|\s*([\w-]+):?[ \t]*(.*)$", source, flags=re.M)}

def shown(cell):
    "`cell` without what nbdev and the site leave out; None if nothing is left."
    tags = set(cell.metadata.get("tags", []))
    if "remove-cell" in tags or cell.cell_type == "raw": return None
    if cell.cell_type == "markdown": return cell
    found = directives(cell.source)
    if found.keys() & {"hide", "default_exp", "export",
                       "exporti"} or found.get("include") == "false":
        return None
    if found.get("output") == "false" or "remove-output" in tags: cell.outputs = []
    cell.source = re.sub(r"^#\|.*\n?", "", cell.source, flags=re.M).strip()
    if found.get("echo") == "false" or "remove-input" in tags: cell.source = ""
    return cell if cell.source or cell.outputs else None

def relink(text):
    "`text` with links that are relative to nbs/ made relative to the top folder."
    def link(match):
        path, mark, anchor = match[1].partition("#")
        # an anchor, a web address, no link
        if not re.search(r"[./]", path) or re.match(r"/|\w+:", path):
            return match[0]
        return f"]({posixpath.normpath('nbs/' + path)}{mark}{anchor})"
    return re.sub(r"\]\(([^)\s]+)\)", link, text)

def take_pictures(cell, pictures):
    "Move the pictures among the outputs of `cell` to `pictures`, and leave links to them."
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "Figure")
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/svg+xml" in data: suffix, content = "svg", data["image/svg+xml"].encode()
        elif "image/png" in data: suffix, content = "png", base64.b64decode(data["image/png"])
        else: continue
        name = f"docs/images/index-{len(pictures) + 1}.{suffix}"
        pictures[name] = content
        output.data = {"text/markdown": f"![{alt}]({name})"}

def render(root):
    "README.md's text, and its pictures as {path: bytes}, for the project in the folder `root`."
    pictures = {}
    nb = nbformat.read(Path(root)/"nbs"/"index.ipynb", as_version=4)
    nb.cells = [cell for cell in map(shown, nb.cells) if cell]
    nb.metadata.language_info = {"name": "python"}  # for the code blocks; nbdev_clean drops it
    for cell in nb.cells:
        if cell.cell_type == "code": take_pictures(cell, pictures)
        else: cell.source = relink(cell.source)
    exporter = MarkdownExporter()
    # code hosts show little of other HTML
    exporter.display_data_priority = ["text/markdown", "text/plain"]
    text, _ = exporter.from_notebook_node(nb)
    # of cells that show only what they print
    text = re.sub(r"^```python\n+```\n", "", text, flags=re.M)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", text, flags=re.M))
    return NOTE + text.strip() + "\n", pictures

def write(root):
    "Write README.md and its pictures, and delete those that it no longer has."
    text, pictures = render(root)
    (root/"README.md").write_text(text, encoding="utf-8")
    for old in (root/"docs"/"images").glob("index-*"): old.unlink()
    for name, content in pictures.items():
        (root/name).parent.mkdir(parents=True, exist_ok=True)
        (root/name).write_bytes(content)

if __name__ == "__main__": write(Path(__file__).resolve().parent.parent)
