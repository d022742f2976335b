"""The docstring of a folder's door, for `help`: what its first notebook says of the folder and of
its protocol, and what each name at the door is."""
import ast
import functools
import json
import re
import textwrap

import api

WIDTH = 98
# A constant, or several, with the comment behind it, or the lines of comment above.
CONSTANT = re.compile(r"((?:^#(?! %%| \|).*\n)*)^([A-Za-z]\w*(?:, \w+)*) = [^#\n]*(?:# *(.*))?$",
                      flags=re.M)

def plain(text):
    "Markdown as `help` shows it: no bold, no links, no formulas' signs."
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*|\$|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)", "", text)

def first_line(node):
    "The first sentence of a docstring, or its first lines."
    said = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[a-z\])])\. (?=[A-Z])", said)[0].rstrip(".")

@functools.cache
def meanings(path):
    "{name: what a module says of it}: of a constant, the comment behind it."
    text = path.read_text(encoding="utf-8")
    found = {name: (behind or above.replace("#", " ")).strip().rstrip(",.")
             for above, names, behind in CONSTANT.findall(text) for name in names.split(", ")}
    return found | {node.name: first_line(node) for node in ast.parse(text).body
                    if isinstance(node, api.DEFINED) and not api.is_patch(node)}

def elsewhere(library, name):
    "What the module says that defines a name which a page only passes on."
    found = (meanings(path).get(name) for path in sorted(library.rglob("[a-z]*.py")))
    return next(filter(None, found), "")

def opening(notebook):
    "The paragraphs of a door's notebook between its title and its first heading."
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    before = next(k for k, text in enumerate(texts) if text.startswith("## "))
    return plain("\n\n".join(texts[1:before])).split("\n\n")

def wrapped(text, first="", others=""):
    "Lines that are no wider than a page, with these indents."
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=first,
                         subsequent_indent=others, break_long_words=False,
                         break_on_hyphens=False)

def docstring(door, notebook):
    "What `help` says of the folder whose door is the file `door`."
    summary = ast.get_docstring(ast.parse(door.read_text(encoding="utf-8"))).split("\n\n")[0]
    parts = [summary, *map(wrapped, opening(notebook))]
    for page, names in api.door_of(door).items():
        said = meanings(door.parent/f"{page}.py") if names else {}
        rows = [wrapped(f"{name}: {said.get(name) or elsewhere(door.parent.parent, name)}",
                        " "*4, " "*8) for name in names.split()]
        if rows: parts.append("\n".join([f"From `{page}`:", *rows]))
    return "\n\n".join(parts)

def completed(door, notebook):
    "The text of a door, with this docstring."
    text = door.read_text(encoding="utf-8")
    said = docstring(door, notebook).replace("\\", "\\\\").replace('"""', "'''")
    return re.sub(r'\A""".*?"""\n', lambda found: f'"""{said}\n"""\n', text, flags=re.S)
