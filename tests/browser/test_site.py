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


@pytest.mark.parametrize('name', PAGES)
def test_page(browser, name):
    # what the page before still has to say is not this one's
    browser.get('about:blank')
    for log in ('browser', 'performance'):
        browser.get_log(log)
    browser.get((SITE / name).as_uri())
    browser.execute_async_script(
        "const done = arguments[0]; (window.MathJax && MathJax.startup ? "
        "MathJax.startup.promise : Promise.resolve()).then(() => "
        "setTimeout(done, 100))"
    )
    nothing_from_elsewhere(browser)
    nothing_is_missing(browser)
    sliders_say_what_python_says(browser)
    accessible(browser)
    fits_a_phone(browser)


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


VIOLATIONS = """
const done = arguments[0];
const said = v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary];
const asked = axe.run({resultTypes: ["violations"]});
asked.then(r => done(r.violations.map(said)), e => done([String(e)]));
"""


def accessible(browser):
    import axe_core_python

    browser.execute_script((Path(axe_core_python.__file__).parent / 'axe.min.js').read_text())
    found = browser.execute_async_script(VIOLATIONS)
    assert found == [], found


def fits_a_phone(browser):
    browser.execute_cdp_cmd(
        'Emulation.setDeviceMetricsOverride',
        {'width': 390, 'height': 800, 'deviceScaleFactor': 1, 'mobile': True},
    )
    try:
        assert browser.execute_script('return document.documentElement.scrollWidth') <= 391
    finally:
        browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})


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

    # a page of the book is about 200 kB: this notices what none of its chapters accounts for
    files = [p for p in SITE.rglob('*') if p.is_file() and 'pyodide' not in p.parts]
    assert sum(p.stat().st_size for p in files) < 23_000_000
    for p in PAGES:
        assert len(gzip.compress((SITE / p).read_bytes())) < 300_000, p


def test_methods_are_documented():
    "Every public method of an exported class stands on the page of its chapter."
    import importlib
    import inspect

    pages = {
        p.name: re.sub(r'<[^>]+>', '', p.read_text(encoding='utf-8'))
        for p in SITE.glob('[0-9]*.html')
    }
    exported = {p.stem for p in Path(widgets.__file__).parent.glob('*.py')}
    pages = {name.split('_', 1)[1][:-5]: text for name, text in pages.items()}
    named = set(pages)
    assert named - exported == {'constants'}  # a table, no module
    for module in named & exported:
        text = pages[module]
        library = importlib.import_module(f'dp_saddle.{module}')
        classes = (getattr(library, name) for name in library.__all__)
        for cls in classes:
            if not inspect.isclass(cls) or cls.__module__ != library.__name__:
                continue  # told where it is defined
            for name, f in vars(cls).items():
                if not name.startswith('_') and inspect.isfunction(f) and f.__doc__:
                    assert f'def {name}(' in text, f'{cls.__name__}.{name}'
