"""Carry small edits of dp_saddle/*.py back into the notebooks, as nbdev_update does, without what
docs/export.py has added to the docstrings: `python docs/update.py [dp_saddle/MODULE.py]`."""
import sys

import nbdev.sync
from docments import without


def cells(path, found=nbdev.sync._iter_py_cells):
    "The module's cells, as the notebooks have them."
    for cell in found(path):
        cell.code = without(cell.code).lstrip("\n")
        yield cell


if __name__ == "__main__":
    nbdev.sync._iter_py_cells = cells
    nbdev.sync.nbdev_update.__wrapped__(sys.argv[1] if sys.argv[1:] else None)
