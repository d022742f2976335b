"""Sphinx configuration of the site. Its pages are made by source.py."""
from configparser import ConfigParser
from pathlib import Path

_about = ConfigParser(delimiters=["="])
_about.read(Path(__file__).resolve().parent.parent/"settings.ini", encoding="utf-8")
_about = _about["DEFAULT"]

project, release = _about["title"], _about["version"]
author, copyright = _about["author"], _about["copyright"]

extensions = ["myst_nb"]
myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebooks are committed with their outputs, and hidden cells are gone here
nb_render_markdown_format = "myst"  # in outputs too: documentation made by nbdev has attributes
nb_ipywidgets_js = {}      # no scripts from elsewhere: widgets are for live notebooks
# MathJax is the one thing a page still takes from elsewhere; a local copy (mathjax_path) is to come.

html_theme = "sphinx_book_theme"
html_title = project
