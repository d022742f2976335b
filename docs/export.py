"""Write dp_saddle/*.py from the notebooks, as nbdev_export does, with lists of names as narrow as a
page, and with docstrings that say what the comments of a signature say; doors' docstrings with what
stands at the door; and nbdev 3's settings, in pyproject.toml, from settings.ini, which has nbdev
2's."""
import re
import textwrap
from configparser import ConfigParser
from pathlib import Path

import doorwords
import nbdev.maker
from docments import apart, completed
from nbdev.doclinks import nbdev_export

WIDTH = 90    # behind `__all__ = `
# What both nbdevs know, by the kind of value that the newer one wants.
WORDS = "nbs_path", "doc_path", "readme_nb", "tst_flags", "skip_procs", "branch", "title"
LISTS = "allowed_cell_metadata_keys", "allowed_out_metadata_keys"
SWITCHES = "recursive", "clean_ids", "jupyter_hooks", "put_version_in_init"
TABLE = """
# From settings.ini, by docs/export.py: the same for nbdev 3. Change it there.
[tool.nbdev]
"""


class Narrow(textwrap.TextWrapper):
    "What nbdev wraps `__all__` with, at our width."
    def __init__(self, **settings):
        super().__init__(**settings | {"width": WIDTH})


def quoted(word):
    return f'"{word}"'


def nbdev_table(settings):
    "The table [tool.nbdev] of pyproject.toml."
    values = {key: quoted(settings[key]) for key in WORDS}
    values |= {key: f"[{', '.join(map(quoted, settings[key].split()))}]" for key in LISTS}
    values |= {key: str(settings.getboolean(key)).lower() for key in SWITCHES}
    return TABLE + "".join(f"{key} = {value}\n" for key, value in values.items())


def pyproject(text, settings):
    "pyproject.toml with that table, and with its two lines of nbdev's as nbdev 2 writes them."
    text = re.sub(r'^(name|requires-python) = "', r'\1="', text, flags=re.M)
    return text.partition(TABLE)[0] + nbdev_table(settings)


if __name__ == "__main__":
    nbdev.maker.TextWrapper = Narrow
    nbdev_export()
    for path in Path("dp_saddle").rglob("[a-z]*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(apart(completed(text)), encoding="utf-8")
    for door in Path("dp_saddle").glob("*/__init__.py"):
        notebook = Path("nbs", door.parent.name, "index.ipynb")
        door.write_text(doorwords.completed(door, notebook), encoding="utf-8")
    config = ConfigParser(delimiters=["="])
    config.read("settings.ini", encoding="utf-8")
    at = Path("pyproject.toml")
    at.write_text(pyproject(at.read_text(encoding="utf-8"), config["DEFAULT"]), encoding="utf-8")
