"""Write dp_saddle/*.py from the notebooks, as nbdev_export does, with lists of names as narrow as a
page."""
import textwrap

import nbdev.maker
from nbdev.doclinks import nbdev_export

WIDTH = 90    # behind `__all__ = `


class Narrow(textwrap.TextWrapper):
    "What nbdev wraps `__all__` with, at our width."
    def __init__(self, **settings):
        super().__init__(**settings | {"width": WIDTH})


if __name__ == "__main__":
    nbdev.maker.TextWrapper = Narrow
    nbdev_export()
