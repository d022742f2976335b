"""Sphinx configuration of the site. Its pages are made by source.py."""
import gc
import importlib.util
import re
import shutil
from configparser import ConfigParser
from pathlib import Path

from markupsafe import Markup
from sphinx.highlighting import PygmentsBridge
from sphinx.search.en import SearchEnglish

_here = Path(__file__).resolve().parent
_about = ConfigParser(delimiters=["="])
_about.read(_here.parent/"settings.ini", encoding="utf-8")
_about = _about["DEFAULT"]

project, release = _about["title"], _about["version"]
author, copyright = _about["author"], _about["copyright"]

extensions = ["myst_nb", "sphinx_proof", "sphinx_exercise", "sphinxcontrib.bibtex",
              "sphinx_togglebutton", "sphinx_copybutton"]
exclude_patterns = []
myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
# the notebooks are committed with their outputs, and hidden cells are gone here
nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # in outputs too: documentation made by nbdev has attributes
nb_ipywidgets_js = {}      # no scripts from elsewhere: source.py makes the figures that move
nb_mime_priority_overrides = [("html", "image/png", 5)]
bibtex_bibfiles = ["references.bib"]
exercise_style = "solution_follow_exercise"
# claims and theorems are counted together
prf_realtyp_to_countertyp = {kind: "theorem" for kind in ("proposition",)}

copybutton_prompt_text = "$ "                 # of a console: the commands alone
copybutton_copy_empty_lines = False
copybutton_selector = ", ".join(f"div.highlight-{language} pre" for language in
                                ("ipython3", "python", "py", "sh", "console"))

html_theme = "sphinx_book_theme"
html_title = project
html_theme_options = {"use_download_button": False, "use_fullscreen_button": False,
                      "show_toc_level": 2,
                      "pygments_dark_style": "a11y-dark",
                      "collapse_navbar": True,    # of a folder that is not shown its door alone
                      "navbar_persistent": [], "header_links_before_dropdown": 0}   # one search box
if _about["git_url"]:
    html_theme_options |= {"repository_url": _about["git_url"], "use_repository_button": True}
html_context = {"default_mode": "auto"}
templates_path = ["templates"]
html_sidebars = {"**": ["home.html", "search-button-field.html", "sidebar.html"]}
html_favicon = "static/favicon.svg"
html_use_index = html_domain_indices = False    # names are in the reference
html_copy_source = html_show_sourcelink = False
html_static_path, html_css_files = ["static", "_build/static"], ["custom.css", "run.css"]
# Python in the browser: pyodide.py has made python-files.js, runnable.py what run.js reads.
html_js_files = ["focus.js", *((name, {"defer": "defer"}) for name in
                               ("python-files.js", "python.js", "run.js"))]

# MathJax comes with the pages: one file of the many that the package brings.
_mathjax = (Path(importlib.util.find_spec("sphinx-mathjax-offline").submodule_search_locations[0])
            /"static"/"mathjax"/"tex-svg.js")
(_here/"_build"/"static").mkdir(parents=True, exist_ok=True)
shutil.copy(_mathjax, _here/"_build"/"static"/"mathjax.js")
mathjax_path = "mathjax.js"
mathjax3_config = {"options": {"enableMenu": False}, "svg": {"fontCache": "none"}}

# {folder: its sidebar}. Those of a folder's pages differ by which one is marked as shown, and to
# make them all takes a third of a build.
_sidebars = {}
_HERE = re.compile(r'(<li class="toctree-l\d) current active("><a class=")current '
                   r'(reference internal" href=")#')

def _nowhere(sidebar, page):
    "The sidebar of this page with no page marked as the one that is shown."
    if not page.startswith("api/"):
        sidebar = sidebar.replace('<ul class="current nav', '<ul class="nav')
    return _HERE.sub(rf"\1\2\g<3>{page.rpartition('/')[2]}.html", sidebar)

def _marked(sidebar, page):
    "And with this one: its entry, and the list that this is in."
    entry = re.search(rf'(<li class="toctree-l\d)("><a class=")(reference internal" href=")'
                      rf"{re.escape(page.rpartition('/')[2])}\.html", sidebar)
    if not entry: return sidebar
    above, below = sidebar[:entry.start()], sidebar[entry.end():]
    before, inside, after = above.rpartition('<ul class="')
    if after.startswith("nav "): inside += "current "
    here = f"{entry[1]} current active{entry[2]}current {entry[3]}#"
    return "".join([before, inside, after, here, below])

def _one_sidebar(app, page, template, context, doctree):
    folder = page if page == "api/index" else page.rpartition("/")[0]
    def sidebar(make):
        if folder not in _sidebars: _sidebars[folder] = _nowhere(str(make()), page)
        return Markup(_marked(_sidebars[folder], page))
    context["kept_sidebar"] = sidebar

# The search's words: each is reduced to its stem once, and not wherever it stands.
_stem, _stems = SearchEnglish.stem, {}

def _stem_once(self, word):
    if word not in _stems: _stems[word] = _stem(self, word)
    return _stems[word]

SearchEnglish.stem = _stem_once

# What writes colours, too: it lists all kinds of words when it is made, and was made for each piece
# of code.
_formatter, _formatters = PygmentsBridge.get_formatter, {}

def _formatter_once(self, **options):
    key = self, repr(sorted(options.items()))
    if key not in _formatters: _formatters[key] = _formatter(self, **options)
    return _formatters[key]

PygmentsBridge.get_formatter = _formatter_once


# Pages are millions of objects that are kept: to look through them often takes long.
gc.set_threshold(1_000_000)

def colourless(css):
    "Kinds of words that have the colour of all other text, by day and by night: names, brackets."
    found = []
    for theme in ("light", "dark"):
        rule = rf'html\[data-theme="{theme}"\] \.highlight'
        base = re.search(rf"{rule} {{[^}}]*[ ;]color: (#\w+)", css)[1]
        found.append(set(re.findall(rf"{rule} \.(\w+) {{ color: {base} }}", css)))
    return sorted(set.intersection(*found))

def setup(app):
    """What the extensions leave for a screen reader to stumble over: ids that are there many times,
    and a role that is no longer one. And what nobody reads: marks around words that get no colour,
    a fourth of all pages, and translations of the theme."""
    def mend(app, error):
        if error: return
        out = Path(app.outdir)
        shutil.rmtree(out/"_static"/"locales", ignore_errors=True)
        kinds = "|".join(colourless((out/"_static"/"pygments.css").read_text(encoding="utf-8")))
        marked = re.compile(rf'<span class="(?:{kinds})">([^<]*)</span>')
        for page in out.rglob("*.html"):
            text = marked.sub(r"\1", page.read_text(encoding="utf-8"))
            page.write_text(re.sub(r' id="(proof|exercise|solution)-content"', "",
                                   text).replace('role="doc-biblioentry"', 'role="listitem"'),
                                   encoding="utf-8")
    app.connect("build-finished", mend, priority=900)    # after the theme has written its colours
    app.connect("html-page-context", _one_sidebar, priority=400)
