"""Every page of the site that `make docs` has built, opened as a file: nothing from elsewhere,
nothing missing, and every slider says what Python says."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from dp_saddle import widgets
from dp_saddle.explorer import shown

SITE = Path(__file__).parents[2] / 'docs' / '_build' / 'html'
PAGES = sorted(
    p.relative_to(SITE).as_posix() for p in SITE.rglob('*.html') if '_static' not in p.parts
)
EXPLORERS = {
    name: getattr(widgets, 'explore_' + name)
    for name in ('curve', 'saddle', 'tilt', 'edgeworth', 'fft', 'filter', 'tradeoff', 'sampling')
}


def test_the_site_is_built():
    assert len(PAGES) > 15, 'first make docs'


def kind_of(name):
    "What is alike on many pages: 'api', 'source', 'papers'; a chapter or another page is itself."
    return name.rsplit('/', 1)[0] if '/' in name else ''


def asks_all(name):
    "Is axe asked? Of the pages of the book; of modules, sources and papers the first of each."
    alike = [p for p in PAGES if kind_of(p) == kind_of(name)]
    return not kind_of(name) or name == alike[0]


# Made from the modules by one program: code and lists, no formula, no slider.
GENERATED = [p for p in PAGES if kind_of(p) in ('api', 'source') and not asks_all(p)]
TOGETHER = 8  # of them in a test


@pytest.mark.parametrize('name', [p for p in PAGES if p not in GENERATED])
def test_page(browser, name):
    opened(browser, name)
    browser.execute_async_script(
        "const done = arguments[0]; (window.MathJax && MathJax.startup ? "
        "MathJax.startup.promise : Promise.resolve()).then(() => "
        "setTimeout(done, 100))"
    )
    nothing_from_elsewhere(browser)
    nothing_is_missing(browser)
    sliders_say_what_python_says(browser)
    accessible(browser, name)
    nothing_is_clipped(browser, 1440)
    fits_a_phone(browser)


@pytest.mark.parametrize('first', range(0, len(GENERATED), TOGETHER))
def test_generated_pages(browser, first):
    for name in GENERATED[first : first + TOGETHER]:
        opened(browser, name)
        nothing_from_elsewhere(browser)
        nothing_is_missing(browser)
        nothing_is_clipped(browser, 1440)
        fits_a_phone(browser)


def opened(browser, name):
    # what the page before still has to say is not this one's
    browser.get('about:blank')
    for log in ('browser', 'performance'):
        browser.get_log(log)
    browser.get((SITE / name).as_uri())


def nothing_from_elsewhere(browser):
    errors = [e['message'] for e in browser.get_log('browser') if e['level'] == 'SEVERE']
    assert not errors, errors
    asked = [json.loads(e['message'])['message'] for e in browser.get_log('performance')]
    remote = [
        m['params']['request']['url']
        for m in asked
        if m['method'] == 'Network.requestWillBeSent'
        and not m['params']['request']['url'].startswith(('file:', 'data:', 'blob:', 'chrome'))
    ]
    assert not remote, remote


def nothing_is_missing(browser):
    assert (
        browser.execute_script(
            "return [...document.images].filter(i => i.loading != 'lazy' && "
            "!(i.complete && i.naturalWidth)).map(i => i.src)"
        )
        == []
    )
    assert (
        browser.execute_script(
            "return [...document.images].filter(i => i.alt.length < 10).map(i => i.src)"
        )
        == []
    ), 'pictures without a text'
    assert (
        browser.execute_script(
            "return [...document.querySelectorAll('.bd-article "
            ".math')].filter(m => !m.querySelector('mjx-container')).length"
        )
        == 0
    )
    text = browser.execute_script(
        "return [...document.querySelectorAll('.bd-article')].map(x => x.textContent).join()"
    )
    assert not re.search(
        r'\{(admonition|prf:\w+|exercise[\w-]*|solution[\w-]*|figure|raw)\}|`{3}|\*\*(Claim|Theorem|Exercise)',
        text,
    ), 'a directive that was not understood'
    assert (
        browser.execute_script(
            "return [...document.querySelectorAll('mjx-merror, "
            "[data-mml-node=merror]')].map(m => m.textContent)"
        )
        == []
    )


DRAWN = """
const [figure] = arguments;
const drawn = figure.querySelectorAll("svg g[id*=-line] path, svg g[id*=-mark] path");
const image = figure.querySelector("svg image") || {getAttribute: () => ""};
return [...drawn].map(p => p.getAttribute("d")).join() + image.getAttribute("href");
"""
SLIDE = """
const [figure, index] = arguments;
figure.querySelectorAll("input").forEach((x, i) => {
    x.value = index[i];
    x.dispatchEvent(new Event("input"));
});
"""


def sliders_say_what_python_says(browser):
    for figure in browser.find_elements('css selector', 'figure.explorer'):
        name = figure.get_attribute('id').removeprefix('explorer-')
        explorer = EXPLORERS[name]()
        inputs = figure.find_elements('css selector', 'input')
        pictures = set()
        for k in range(3):
            index = [(s.start, 0, len(s.values) - 1)[k] for s in explorer.sliders]
            browser.execute_script(SLIDE, figure, index)
            values = {s.name: s.values[i] for s, i in zip(explorer.sliders, index)}
            numbers = figure.find_elements('css selector', 'output.number')
            said = [o.get_attribute('textContent') for o in numbers]
            assert said == list(explorer.at(**values)[2]), (name, values)
            told = [x.get_attribute('aria-valuetext') for x in inputs]
            assert told == [shown(v) for v in values.values()]
            pictures.add(browser.execute_script(DRAWN, figure))
        assert len(pictures) == 3, name
        for x, s in zip(inputs, explorer.sliders):  # by keyboard, from the last value
            x.send_keys('\ue012')  # arrow left
            assert int(x.get_attribute('value')) == len(s.values) - 2
            assert x.get_attribute('aria-valuetext') == shown(s.values[-2])


# Rendered formulas are thousands of paths, all alike, and each is tested on its own: hidden here.
# `color-contrast` looks at every word of a page; the theme's colours are the same on all of them.
CONTRAST = {'index.html', '00_plrv.html', '01_contour.html', '07_widgets.html', 'gallery.html',
            'search.html', 'api/index.html', 'papers/items.html', 'source/accounting.html'}
VIOLATIONS = """
const [contrast, done] = arguments;
const said = v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary];
const formulas = [...document.querySelectorAll("mjx-container > svg")];
const kept = formulas.slice(5).map(f => [f, f.parentNode]);
kept.forEach(([f, parent]) => f.remove());
const rules = {"color-contrast": {enabled: contrast}};
const asked = axe.run({resultTypes: ["violations"], rules}).finally(
  () => kept.forEach(([f, parent]) => parent.prepend(f)));
asked.then(r => done(r.violations.map(said)), e => done([String(e)]));
"""


def accessible(browser, name):
    if not asks_all(name):
        return
    import axe_core_python

    browser.execute_script((Path(axe_core_python.__file__).parent / 'axe.min.js').read_text())
    found = browser.execute_async_script(VIOLATIONS, name in CONTRAST)
    assert found == [], found


# What is wider than its place: {code: [...], equations: [...]}; and what neither fits nor scrolls.
WIDE = """
const seen = e => e.checkVisibility();
const wide = e => e.scrollWidth > e.clientWidth + 1;
const found = css => [...document.querySelectorAll('.bd-article ' + css)].filter(seen).filter(wide);
const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
const code = found('pre'), maths = found('div.math, .math-wrapper');
const said = e => e.textContent.slice(0, 80);
return {code: code.map(said), equations: maths.map(said),
        page: document.documentElement.scrollWidth,
        lost: [...code, ...maths].filter(e => !scrolls(e)).map(said)};
"""


def seen_at(browser, width, media=''):
    "WIDE, of the page as it is at this width, or on paper."
    mobile = width < 500
    size = {'width': width, 'height': 800, 'deviceScaleFactor': 1, 'mobile': mobile}
    browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', size)
    browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'media': media})
    try:
        return browser.execute_script(WIDE)
    finally:
        browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'media': ''})
        browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


def nothing_is_clipped(browser, width):
    "On a desk nothing scrolls sideways, no code and no equation; on A4 paper nothing is lost."
    here = seen_at(browser, width)
    assert here['code'] == here['equations'] == [], here
    paper = seen_at(browser, 718, 'print')  # A4, with margins of 1 cm, at 96 pixels an inch
    assert paper['code'] == paper['lost'] == [], paper


def fits_a_phone(browser):
    "What is wider scrolls in a box of its own."
    here = seen_at(browser, 390)
    assert here['page'] <= 391 and here['lost'] == [], here


def test_folds_open_by_keyboard(browser):
    "Checks and pictures' code are folded; formulas, which are exported, stand open."
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((SITE / '00_plrv.html').as_uri())
    folds = browser.find_elements('css selector', 'div.cell details.hide')
    assert len(folds) > 5 and not any(f.get_attribute('open') for f in folds)
    summary = folds[1].find_element('css selector', 'summary')
    browser.execute_script('arguments[0].focus()', summary)
    summary.send_keys('\ue007')  # enter
    assert folds[1].get_attribute('open')
    code = WebDriverWait(browser, 20).until(  # it fades in, and has no text before
        lambda b: folds[1].find_element('css selector', 'pre').text
    )
    assert re.search(r'^(import|from|assert|test_|for|with|fig)', code, flags=re.M), code
    shown = [p.text for p in browser.find_elements('css selector', 'div.cell pre')]
    assert any(text.startswith('class PLRV') for text in shown)


def test_one_search_box_and_an_icon(browser):
    browser.get((SITE / 'index.html').as_uri())
    boxes = browser.find_elements('css selector', '.search-button-field, .search-button')
    assert sum(box.is_displayed() for box in boxes) == 1
    icon = browser.find_element('css selector', 'link[rel*=icon]').get_attribute('href')
    assert icon.split('?')[0].endswith('favicon.svg')


def test_reference():
    "Signatures with their star, and every parameter as its comment says."
    text = (SITE / 'api' / 'accounting.html').read_text(encoding='utf-8')
    plain = re.sub(r'<[^>]+>', '', text)
    assert 'epsilon(run, *, delta)' in plain
    assert 'eps, a float (or array; a row for each of a list), rounded up' in plain
    calibrate = (SITE / 'api' / 'calibration.html').read_text(encoding='utf-8')
    assert 'a function of the parameter -&gt; a mechanism' in calibrate


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.ids |= {a[k] for k in ('id', 'name') if a.get(k)}
        if tag in ('a', 'img', 'script', 'link') and (to := a.get('href') or a.get('src')):
            self.links.append(to)


def test_no_link_is_broken():
    pages, broken = {p: Links((SITE / p).read_text(encoding='utf-8')) for p in PAGES}, []
    for name, page in pages.items():
        for link in page.links:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = (SITE / name).parent / unquote(to.path) if to.path else SITE / name
            key = target.resolve().relative_to(SITE.resolve()).as_posix()
            if (
                not target.exists()
                or to.fragment
                and key in pages
                and unquote(to.fragment) not in pages[key].ids
            ):
                broken.append((name, link))
    assert not broken, broken[:20]


def test_sizes():
    import gzip

    # all else, with its pictures; a page of the book, with all its code; a page of the reference,
    # or of a module's source: this notices what none of them accounts for
    most = 12_000_000 + 230_000 * (len(PAGES) - len(GENERATED)) + 55_000 * len(GENERATED)
    files = [
        p
        for p in SITE.rglob('*')
        if p.is_file() and p.suffix != '.map' and 'pyodide' not in p.parts
    ]
    assert sum(p.stat().st_size for p in files) < most
    for p in PAGES:
        assert len(gzip.compress((SITE / p).read_bytes())) < 300_000, p


def test_methods_are_documented():
    "Every public method of an exported class stands in the reference."
    import importlib
    import inspect

    for path in Path(widgets.__file__).parent.glob('[a-z]*.py'):
        library = importlib.import_module(f'dp_saddle.{path.stem}')
        classes = [getattr(library, name) for name in library.__all__]
        classes = [c for c in classes if inspect.isclass(c) and c.__module__ == library.__name__]
        if not classes:
            continue  # told where they are defined
        page = (SITE / 'api' / f'{path.stem}.html').read_text(encoding='utf-8')
        for cls in classes:
            for name, f in vars(cls).items():
                if not name.startswith('_') and inspect.isfunction(f) and f.__doc__:
                    assert f'id="api-{cls.__name__}.{name}"' in page, f'{cls.__name__}.{name}'
