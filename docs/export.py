"""Write dp_saddle/*.py from the notebooks, as nbdev_export does, with lists of names as narrow as a
page, and with docstrings that say what the comments of a signature say."""
import textwrap
from pathlib import Path

import nbdev.maker
from docments import completed
from nbdev.doclinks import nbdev_export

WIDTH = 90    # behind `__all__ = `


class Narrow(textwrap.TextWrapper):
    "What nbdev wraps `__all__` with, at our width."
    def __init__(self, **settings):
        super().__init__(**settings | {"width": WIDTH})


if __name__ == "__main__":
    nbdev.maker.TextWrapper = Narrow
    nbdev_export()
    for path in Path("dp_saddle").rglob("[a-z]*.py"):
        path.write_text(completed(path.read_text(encoding="utf-8")), encoding="utf-8")
