"""Every page of the site that `make docs` has built, opened as a file: nothing from elsewhere,
nothing missing, and every slider says what Python says."""

import json
import posixpath
import re
from collections import Counter
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import axe_core_python
import pytest
from alike import Shape, exceeds, most_of, sample
from selenium.webdriver.support.ui import WebDriverWait

from dp_saddle import widgets
from dp_saddle.base.explorer import shown

SITE = Path(__file__).parents[2] / 'docs' / '_build' / 'html'
PAGES = sorted(
    p.relative_to(SITE).as_posix() for p in SITE.rglob('*.html') if '_static' not in p.parts
)
EXPLORERS = {
    name: getattr(widgets, 'explore_' + name)
    for name in ('curve', 'saddle', 'tilt', 'edgeworth', 'fft', 'filter', 'tradeoff', 'sampling')
}


# What Sphinx has left as it was.
DIRECTIVE = re.compile(
    r'\{(admonition|prf:\w+|exercise[\w-]*|solution[\w-]*|figure|raw)\}|`{3}|\*\*(Claim|Theorem|Exercise)'
)


def test_the_site_is_built():
    assert len(PAGES) > 15, 'first make docs'


def read(name):
    return (SITE / name).read_text(encoding='utf-8')


# Made from the modules by one program: code and lists, no formula, no slider.
MADE = [p for p in PAGES if p.startswith(('api/', 'source/'))]
SHAPES = {p: Shape(read(p)) for p in PAGES}
SAMPLE = sample({p: SHAPES[p].longest for p in MADE})
UNOPENED = [p for p in MADE if p not in SAMPLE]

# The book: in the ordinary run where a reader begins, every slider, and enough of the rest that
# each kind of element is on a page that is opened, and the longest line of code. Formulas whose
# commands are on none of these are written into one. `make test-slow` opens all.
BOOK = [p for p in PAGES if p not in MADE]
DOORS = {'index.html', '03_contour.html', '11_live_curves.html', 'your_run.html',
         'five_minutes.html', 'papers/items.html'}
OF_ITS_PAGE = re.compile(r'tag_run-\d+|docutils|align-\w+|xref|myst')


def parts(shape):
    "The classes of each tag of a page."
    return {(tag, word) for tag, classes in shape.longest
            for word in [w for w in classes.split() if not OF_ITS_PAGE.fullmatch(w)] or ['']}


def chosen(of):
    "Of {name: parts}: the doors, and as many others as have all that they have not."
    had = set().union(*(of[name] for name in DOORS if name in of))
    return DOORS | {*sample({name: dict.fromkeys(has - had, 0) for name, has in of.items()})}


def formulas(text):
    "The formulas of a page, as MathJax reads them."
    found = re.findall(r'<(div|span) class="math[^>]*>(.*?)</\1>', text, flags=re.S)
    numberless = (re.sub(r'<span class="eqno">.*?</span>', '', f, flags=re.S) for _, f in found)
    return [unescape(f).strip() for f in numberless]


def commands(formula):
    return set(re.findall(r'\\(?:[a-zA-Z]+|.)', formula))


def unseen(written, opened):
    "Of {name: formulas}: one for each command that those of the pages `opened` have not."
    had = set().union(*(commands(f) for name in opened for f in written.get(name, [])))
    found = []
    for formula in (f for name in written if name not in opened for f in written[name]):
        if commands(formula) - had:
            had |= commands(formula)
            found.append(formula)
    return found


PARTS = {p: parts(SHAPES[p]) for p in BOOK}
LINES = {p: SHAPES[p].longest.get(('pre', ''), 0) for p in BOOK}
ORDINARY = chosen(PARTS) | {max(LINES, key=LINES.get)} if BOOK else DOORS
FORMULAS = {p: formulas(read(p)) for p in BOOK}


@pytest.mark.parametrize('name', [
    *SAMPLE, *(p if p in ORDINARY else pytest.param(p, marks=pytest.mark.slow) for p in BOOK)])
def test_page(browser, name):
    "A layout costs: each width once, a phone's first, and axe last, which takes things away."
    opened(browser, name, width=390)
    fits_a_phone(browser)
    nothing_is_clipped(browser)
    nothing_from_elsewhere(browser)
    nothing_is_missing(browser)
    no_bells(browser, name)
    says_why_nothing_runs(browser, name)
    sliders_say_what_python_says(browser)
    accessible(browser)
    if name in NIGHT:
        night_falls(browser)
        dark(browser)


def has_been_understood(name, shape):
    "What can be seen without a browser: whom it asks, pictures with a text, no directive left."
    remote = [to for to in shape.asks if urlsplit(to).scheme not in ('', 'data')]
    assert not remote and all(len(alt) >= 10 for alt in shape.pictures), name
    article = read(name).split('<article', 1)[1]
    assert not DIRECTIVE.search(re.sub(r'<pre>.*?</pre>', '', article, flags=re.S)), name


def test_pages_for_the_slow_run():
    "They have no part that no page of the ordinary run has, and no longer line of code."
    had = set().union(*(PARTS[p] for p in ORDINARY))
    longest = max(LINES[p] for p in ORDINARY)
    for name in (p for p in BOOK if p not in ORDINARY):
        assert PARTS[name] <= had and LINES[name] <= longest, name
        has_been_understood(name, SHAPES[name])


# What MathJax does not understand: an error; and a command that it does not know, in red.
MISREAD = 'mjx-merror, [data-mml-node=merror], mtext[mathcolor=red]'
WRITE = """
const [formulas, misread, done] = arguments, article = document.querySelector('.bd-article');
const places = formulas.map(f => {
  const place = document.createElement('div');
  place.className = 'math';
  place.textContent = f;
  return article.appendChild(place);
});
MathJax.typesetPromise(places).then(() => done(places.map(p => [
  p.querySelectorAll('mjx-container').length,
  p.querySelectorAll(misread).length > 0])));
"""


def test_formulas_for_the_slow_run(browser):
    "Each command of TeX is understood; those of pages that are not opened, on one that is."
    opened(browser, 'five_minutes.html')
    written = unseen(FORMULAS, ORDINARY)
    found = browser.execute_async_script(WRITE, written, MISREAD)
    assert found == [[1, False]] * len(written), written
    wrong = [r'\(\nonsense{1}\)', r'\(\frac{1}\)', r'\(x']
    noticed = browser.execute_async_script(WRITE, wrong, MISREAD)
    assert noticed == [[1, True], [1, True], [0, False]]


def test_another_chapter_would_be_opened():
    "By another element; and the formula of a command that none has is written."
    page = read('glossary.html')
    text = page.replace('</article>', '<table class="new"></article>', 1)
    changed = parts(Shape(text))
    assert changed - PARTS['glossary.html'] == {('table', 'new')}
    assert 'odd.html' in chosen(PARTS | {'odd.html': changed})
    text = page.replace('</article>', r'<span class="math">\(\new{1}\)</span></article>', 1)
    odd = FORMULAS | {'odd.html': formulas(text)}
    assert [*unseen(FORMULAS, ORDINARY), r'\(\new{1}\)'] == unseen(odd, ORDINARY)


def test_pages_that_are_not_opened():
    "They have no element and no longer word or line of code than those that are, and ask nobody."
    most = most_of(SHAPES[p].longest for p in SAMPLE)
    assert 1 < len(SAMPLE) < len(MADE) / 4
    for name in UNOPENED:
        shape = SHAPES[name]
        assert not exceeds(shape.longest, most), name
        has_been_understood(name, shape)


def test_another_page_would_be_opened():
    "A wider line of code, a longer name, an element of another kind: each is noticed."
    most = most_of(SHAPES[p].longest for p in SAMPLE)
    page = read(UNOPENED[0])
    for more, kind in (
        (f'<pre>{"x" * 200}</pre>', ('pre', '')),
        (f'<h2>{"x" * 99}</h2>', ('h2', '')),
        ('<table class="new">', ('table', 'new')),
    ):
        changed = Shape(page.replace('</article>', f'{more}</article>', 1))
        assert exceeds(changed.longest, most) == {kind}
    assert Shape('<img src="http://elsewhere/x.png">').asks == ['http://elsewhere/x.png']


def opened(browser, name, width=None):
    # what the page before still has to say is not this one's
    browser.get('about:blank')
    for log in ('browser', 'performance'):
        browser.get_log(log)
    if width:
        sized(browser, width)
    browser.get((SITE / name).as_uri())
    browser.execute_async_script(
        "const done = arguments[0]; (window.MathJax && MathJax.startup ? "
        "MathJax.startup.promise : Promise.resolve()).then(() => "
        "setTimeout(done, 100))"
    )


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
    assert not DIRECTIVE.search(text), 'a directive that was not understood'
    assert (
        browser.execute_script(
            'return [...document.querySelectorAll(arguments[0])].map(m => m.textContent)', MISREAD
        )
        == []
    )


def no_bells(browser, name):
    "A theorem, a proof, an exercise: their names say what they are."
    icons = browser.execute_script(
        "return [...document.querySelectorAll('.bd-article .admonition > .admonition-title')].map("
        "e => [e.textContent, getComputedStyle(e, '::after').content])"
    )
    assert len(icons) > 9 or name != '03_contour.html'
    assert all(content in ('none', '""') for _, content in icons), icons


# How many buttons there are; what says why there are none; and where that leads.
WHY = """
const lines = [...document.querySelectorAll('.dp-why')].filter(e => e.checkVisibility());
return [document.querySelectorAll('.dp-run, .dp-answer').length, lines.map(e => e.textContent),
        [...document.querySelectorAll('.dp-why a')].map(a => a.href)];
"""
HOW = 'faq.html#can-i-run-the-cells-of-the-site'


def says_why_nothing_runs(browser, name):
    "A page with something to run, opened as a file: no button, and a line with a link."
    buttons, said, how = browser.execute_script(WHY)
    wanted = [(SITE / HOW).as_uri().replace('%23', '#')] if 'id="run-data"' in read(name) else []
    assert buttons == 0 and how == wanted and len(said) == len(wanted), (buttons, said, how)
    assert all('Opened as a file' in text for text in said), said


# Moves the sliders of a figure, and reads what it says then: its numbers, what a screen reader is
# told of each slider, and what is drawn.
SLIDE = """
const [figure, index] = arguments;
figure.querySelectorAll("input").forEach((x, i) => {
    x.value = index[i];
    x.dispatchEvent(new Event("input"));
});
const all = (css, read) => [...figure.querySelectorAll(css)].map(read);
const drawn = all("svg g[id*=-line] path, svg g[id*=-mark] path", p => p.getAttribute("d"));
const image = figure.querySelector("svg image") || {getAttribute: () => ""};
return [all("output.number", o => o.textContent), all("input", x => x.ariaValueText),
        drawn.join() + image.getAttribute("href")];
"""
HELD = "return [...arguments[0].querySelectorAll('input')].map(x => [+x.value, x.ariaValueText])"


def sliders_say_what_python_says(browser):
    for figure in browser.find_elements('css selector', 'figure.explorer'):
        name = figure.get_attribute('id').removeprefix('explorer-')
        explorer = EXPLORERS[name]()
        pictures = set()
        for k in range(3):
            index = [(s.start, 0, len(s.values) - 1)[k] for s in explorer.sliders]
            said, told, drawn = browser.execute_script(SLIDE, figure, index)
            values = {s.name: s.values[i] for s, i in zip(explorer.sliders, index)}
            assert said == list(explorer.at(**values)[2]), (name, values)
            assert told == [shown(v) for v in values.values()]
            pictures.add(drawn)
        assert len(pictures) == 3, name
        for x in figure.find_elements('css selector', 'input'):  # by keyboard, from the last value
            x.send_keys('\ue012')  # arrow left
        before = [[len(s.values) - 2, shown(s.values[-2])] for s in explorer.sliders]
        assert browser.execute_script(HELD, figure) == before


# Nine tenths of a page's elements are coloured words of code and strokes of formulas: nothing but
# text to a screen reader. What is nothing else - `span`s with a class; what MathJax draws, and the
# MathML that it writes - is taken away before axe is asked. What has anything more in it stays, and
# so do the first formulas, and the code that has the first word of a colour.
PLAIN = r"""
const only = (e, tags, attributes) => [...e.querySelectorAll('*')].every(x =>
  tags.test(x.localName) && [...x.attributes].every(a => attributes.test(a.name)));
const one_of = names => new RegExp('^(' + names.trim().split(/\s+/).join('|') + ')$');
const stroke = one_of(`data-c data-mml-node data-mjx-[a-z]+ x y width height xlink:href transform
  d style fill stroke stroke-width viewBox`);
const word = one_of(`data-mjx-[a-z-]+ width maxsize minsize lspace rspace display displaystyle
  movablelimits accent scriptlevel linethickness xmlns fence stretchy mathvariant`);
const seen = new Set();
for (const code of document.querySelectorAll('.bd-article pre')) {
  const colours = [...code.querySelectorAll('span')].map(x => x.className);
  const fresh = colours.some(c => !seen.has(c));
  colours.forEach(c => seen.add(c));
  if (!fresh && only(code, /^span$/, /^class$/)) code.textContent = code.textContent;
}
for (const formula of [...document.querySelectorAll('mjx-container')].slice(5)) {
  const drawing = formula.querySelector(':scope > svg');
  const words = formula.querySelector(':scope > mjx-assistive-mml');
  if (drawing && only(drawing, /^(svg|g|path|use|rect)$/, stroke)) drawing.remove();
  if (words && only(words, /^m[a-z]+$/, word)) words.remove();
}
"""
# `color-contrast` takes longer than all other rules together: of words that look the same, in the
# same kind of element on the same grounds, it is asked of three.
VIOLATIONS = """
const [options, done] = arguments, grounds = new Map([[null, '']]), asked = new Map();
const look = (e, ...what) => { const s = getComputedStyle(e); return what.map(w => s[w]).join(); };
const ground = e => {
  const none = 'rgba(0, 0, 0, 0),none,1';
  if (!grounds.has(e)) grounds.set(e, ground(e.parentElement) +
    look(e, 'backgroundColor', 'backgroundImage', 'opacity').replace(none, ''));
  return grounds.get(e);
};
for (const e of document.querySelectorAll('body *')) {
  e.removeAttribute('data-asked');
  const words = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
  if (!words && !e.matches('input, textarea, select') || !e.checkVisibility()) continue;
  const kind = [e.localName, e.className, Boolean(e.disabled), ground(e),
    look(e, 'color', 'fontSize', 'fontWeight', 'textShadow')].join('|');
  asked.set(kind, (asked.get(kind) || 0) + 1);
  if (asked.get(kind) <= 3) e.setAttribute('data-asked', '');
}
axe.configure({rules: [{id: 'color-contrast', selector: '[data-asked]'}]});
const {include, ...how} = options;
const said = v => [v.id, ...v.nodes.map(n => n.html.slice(0, 200)), v.nodes[0].failureSummary];
axe.run(include ? {include} : document, {resultTypes: ["violations"], ...how}).then(
  r => done(r.violations.map(said)), e => done([String(e)]));
"""
AXE = (Path(axe_core_python.__file__).parent / 'axe.min.js').read_text(encoding='utf-8')


def violations(browser, **options):
    "What axe finds; the page is not as it was."
    browser.execute_script(PLAIN)
    if not browser.execute_script('return Boolean(window.axe)'):
        browser.execute_script(AXE)
    return browser.execute_async_script(VIOLATIONS, options)


def accessible(browser):
    found = violations(browser)
    assert found == [], found
    unreached = 'mjx-container[display=true]:not([tabindex])'
    assert not browser.find_elements('css selector', unreached), 'no key can scroll it'


# A mistake of each kind, outside, in the last piece of code, and in the last formula.
FAULTS = """
const SEEN = {opacityProperty: true, visibilityProperty: true};
const last = css => [...document.querySelectorAll(css)].filter(e => e.checkVisibility(SEEN)).pop();
const put = (e, html) => e.insertAdjacentHTML('beforeend', html);
put(last('.bd-article p'), '<img src="data:," data-fault="outside">');
put(last('.bd-article pre span'), '<img src="data:," data-fault="in code">');
put(last('.bd-article .cell_input pre'), '<span style="color: #eee" data-fault="pale">pale</span>');
put(last('.bd-article p'), '<em style="background: #777" data-fault="on grey">grey</em>');
put(last('mjx-assistive-mml'), '<button data-fault="in a formula"></button>');
return [document.querySelectorAll('*').length, document.querySelectorAll('[data-fault]').length];
"""


def test_axe_misses_nothing_by_it(browser):
    "By what is taken away: every planted fault is found, in what is left."
    opened(browser, '04_saddlepoint.html')
    elements, planted = browser.execute_script(FAULTS)
    found = violations(browser)
    left = browser.execute_script("return document.querySelectorAll('*').length")
    assert planted == 5 and left < elements / 4
    fault = re.compile('data-fault="(.*?)"')
    told = {(v[0], name) for v in found for said in v for name in fault.findall(said)}
    assert told == {('image-alt', 'outside'), ('image-alt', 'in code'), ('color-contrast', 'pale'),
                    ('color-contrast', 'on grey'), ('button-name', 'in a formula')}, found


@pytest.mark.parametrize('name', ['index.html', *(pytest.param(p, marks=pytest.mark.slow)
    for p in ('preface.html', '03_contour.html', 'gallery.html', 'api/accounting.html'))])
def test_in_the_dark(browser, name):
    browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [DARK]})
    opened(browser, name)
    dark(browser)


# No colour fades into the next: what is looked at is what stays.
AT_ONCE = """
document.head.insertAdjacentHTML('beforeend',
  '<style>*, *::before, *::after { transition: none !important; }</style>');
"""


def night_falls(browser):
    "While a page is read."
    browser.execute_script(AT_ONCE)
    browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'features': [DARK]})
    now = "return document.documentElement.dataset.theme === 'dark'"
    WebDriverWait(browser, 20, 0.05).until(lambda b: b.execute_script(now))


def dark(browser):
    "Words can be read, and nothing but a picture, on its card, is bright."
    theme = browser.execute_script('return document.documentElement.dataset.theme')
    assert theme == 'dark'
    assert browser.execute_script(BRIGHT) == []
    browser.execute_script("document.body.insertAdjacentHTML('beforeend', arguments[0])", WHITE)
    assert len(browser.execute_script(BRIGHT)) == 1, 'a white box is noticed'
    browser.execute_script('document.body.lastChild.remove()')
    found = violations(browser, runOnly=['color-contrast'])
    assert found == [], found


# A chapter and a form, where night falls while they are read.
NIGHT = {'05_tilting.html', 'your_run.html'}
DARK = {'name': 'prefers-color-scheme', 'value': 'dark'}
WHITE = '<div style="background: white; width: 90px; height: 9px"></div>'
# Elements with a bright ground that are no pictures.
BRIGHT = """
const light = e => (getComputedStyle(e).backgroundColor.match(/[\\d.]+/g) || []).map(Number);
const bright = ([r, g, b, a = 1]) => a > .5 && r + g + b > 3*160;
return [...document.querySelectorAll('body, body *')]
  .filter(e => !e.closest('img, figure.explorer svg') && e.checkVisibility() && e.offsetWidth > 40)
  .filter(e => bright(light(e))).map(e => e.outerHTML.slice(0, 120));
"""


# What is wider than its place: {code: [...], equations: [...]}; what neither fits nor scrolls; and
# formulas under their own numbers.
WIDE = """
const seen = e => e.checkVisibility();
const wide = e => e.scrollWidth > e.clientWidth + 1;
const found = css => [...document.querySelectorAll('.bd-article ' + css)].filter(seen).filter(wide);
const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
const code = found('pre'), maths = found('div.math, .math-wrapper, div.math mjx-container');
const said = e => e.textContent.slice(0, 80);
const meet = (a, b) => a && b && a.left < b.right && b.left < a.right &&
  a.top < b.bottom && b.top < a.bottom;
const box = e => e && e.getBoundingClientRect();
const covered = [...document.querySelectorAll('.bd-article div.math')].filter(seen).filter(e =>
  meet(box(e.querySelector('.eqno')), box(e.querySelector('mjx-container > svg'))));
const scale = e => box(e).height/e.viewBox.baseVal.height;
const drawn = [...document.querySelectorAll('div.math mjx-container > svg')].filter(seen);
const scales = drawn.map(scale);
return {smallest: scales.length ? Math.min(...scales)/Math.max(...scales) : 1,
        covered: covered.map(said), code: code.map(said), equations: maths.map(said),
        page: document.documentElement.scrollWidth,
        lost: [...code, ...maths].filter(e => !scrolls(e)).map(said)};
"""


def sized(browser, width, media=''):
    mobile = width < 500
    size = {'width': width, 'height': 800, 'deviceScaleFactor': 1, 'mobile': mobile}
    browser.execute_cdp_cmd('Emulation.setEmulatedMedia', {'media': media})
    browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', size)


def seen_at(browser, width, media=''):
    "WIDE, of the page as it is at this width, or on paper; the width stays."
    sized(browser, width, media)
    return browser.execute_script(WIDE)


def nothing_is_clipped(browser):
    "On A4 paper nothing is lost; on a desk nothing scrolls sideways, no code and no equation."
    paper = seen_at(browser, 718, 'print')  # A4, with margins of 1 cm, at 96 pixels an inch
    assert paper['code'] == paper['lost'] == [], paper
    here = seen_at(browser, 1440)
    assert here['code'] == here['equations'] == here['covered'] == [], here
    assert here['smallest'] > 0.6, 'an equation is made too small to be read'


def fits_a_phone(browser):
    "What is wider scrolls in a box of its own. The width stays that of a phone."
    here = seen_at(browser, 390)
    assert here['page'] <= 391 and here['lost'] == [], here


def test_folds_open_by_keyboard(browser):
    "The library's code, checks and pictures' code are folded; what is done by hand stands open."
    browser.get((SITE / 'losses/mixtures.html').as_uri())
    for kind in 'details.step', 'div.cell details.hide':
        folds = browser.find_elements('css selector', kind)
        assert len(folds) > 3 and not any(f.get_attribute('open') for f in folds)
        summary = folds[-1].find_element('css selector', 'summary')
        browser.execute_script('arguments[0].focus()', summary)
        summary.send_keys('\ue007')  # enter
        assert folds[-1].get_attribute('open')
        code = WebDriverWait(browser, 20).until(  # it fades in, and has no text before
            lambda b, fold=folds[-1]: fold.find_element('css selector', 'pre').text
        )
        begins = r'^(import|from|assert|test_|for|with|fig|class|def|@patch)'
        assert re.search(begins, code, flags=re.M), code
    browser.get((SITE / '03_contour.html').as_uri())
    seen = browser.execute_script(
        "return [...document.querySelectorAll('div.cell pre')].filter(p => p.checkVisibility())"
        ".map(p => p.textContent)")
    assert any('def contour_sum' in text for text in seen)


def test_one_search_box_and_an_icon(browser):
    browser.get((SITE / 'index.html').as_uri())
    boxes = browser.find_elements('css selector', '.search-button-field, .search-button')
    WebDriverWait(browser, 20).until(lambda _: any(box.is_displayed() for box in boxes))
    assert sum(box.is_displayed() for box in boxes) == 1
    icon = browser.find_element('css selector', 'link[rel*=icon]').get_attribute('href')
    assert icon.split('?')[0].endswith('favicon.svg')


def test_numbers_in_the_sidebar_and_sliders_in_chapters():
    sidebar = read('preface.html').split('<article', 1)[0]
    for number, title in (('1', 'Privacy-loss random variables'), ('11', 'Live curves')):
        assert f'{number} {title}' in sidebar
    def live(page):
        return re.findall(r'<figure class="explorer"[^>]* id="explorer-(\w+)"', read(page))
    chapters = [page for page in PAGES if re.match(r'\d\d_', page)]
    assert set(live('11_live_curves.html')) == {'curve', 'tradeoff', 'sampling'}
    assert {name for page in chapters for name in live(page)} == set(EXPLORERS)


def test_links_to_a_code_host():
    "Only where settings.ini says that there is one."
    from nbdev.config import get_config

    host = get_config().git_url
    of_ours = [p for p in PAGES if re.search(r'href="https?://[^"]*/(blob|tree|edit)/', read(p))]
    assert bool(of_ours) == bool(host), of_ours[:5]


def test_reference():
    "Signatures with their star, and every parameter as its comment says."
    text = (SITE / 'api' / 'accounting.best_answers.html').read_text(encoding='utf-8')
    plain = re.sub(r'<[^>]+>', '', text)
    assert 'epsilon(run, *, delta)' in plain
    assert 'eps, a float (or array; a row for each of a list), rounded up' in plain
    calibrate = (SITE / 'api' / 'practice.calibration.html').read_text(encoding='utf-8')
    assert 'a function of the parameter -&gt; a mechanism' in calibrate


class Links:
    "What a page refers to, and the places that it has."

    def __init__(self, text):
        text = re.sub(r'(<script\b[^>]*>).*?</script>|<!--.*?-->', r'\1', text, flags=re.S)
        self.links, ids = [], []
        for tag, inside in re.findall(r'<([a-z]\w*)\b([^>]*)', text):
            a = dict(re.findall(r'\s(id|name|href|src)="([^"]*)"', inside))
            ids += [unescape(a[k]) for k in ('id',) if a.get(k)]
            to = a.get('href') or a.get('src')
            if tag in ('a', 'img', 'script', 'link') and to:
                self.links.append(unescape(to))
        self.twice = [i for i, n in Counter(ids).items() if n > 1]
        self.ids = {*ids, *map(unescape, re.findall(r'\sname="([^"]+)"', text))}


def test_what_is_a_link():
    page = Links('<a href="x.html?a&amp;b#c" id="d"><!-- <a href="no"> --><img src=\'q\' name="e">'
                 '<script src="s.js">"<a href=no>"</script><p id="d">')
    assert page.links == ['x.html?a&b#c', 's.js'] and page.ids == {'d', 'e'} and page.twice == ['d']


def test_no_link_is_broken():
    pages, broken, there = {p: Links(read(p)) for p in PAGES}, [], {}
    for name, page in pages.items():
        for link in set(page.links):
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            key = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(to.path)))
            if not to.path:
                key = name
            if key not in there:
                there[key] = not key.startswith('..') and (SITE / key).exists()
            lost = to.fragment and key in pages and unquote(to.fragment) not in pages[key].ids
            if lost or not there[key]:
                broken.append((name, link))
    assert not broken, broken[:20]
    twice = {name: page.twice for name, page in pages.items() if page.twice}
    assert not twice, 'an id must be there once'


def test_sizes():
    import gzip

    files = [
        p
        for p in SITE.rglob('*')
        if p.is_file() and p.suffix != '.map' and 'pyodide' not in p.parts
    ]

    def weigh(chosen):
        return sum(p.stat().st_size for p in files if chosen(p.relative_to(SITE)))

    # Code in colours is most of a page, and gzip makes a sixth of it: what is sent is tested below.
    made = len(MADE)
    assert weigh(lambda p: p.suffix == '.html' and p.parts[0] in ('api', 'source')) < 56_000 * made
    book = len(PAGES) - made
    assert weigh(lambda p: p.suffix == '.html' and p.parts[0] not in ('api', 'source')) < (
        240_000 * book
    )
    assert weigh(lambda p: p.suffix == '.png') < 5_000_000  # pictures 3.1, thumbnails 1.7
    assert weigh(lambda p: 'explorers' in p.parts) < 1_500_000  # tables of the sliders
    # MathJax 2.1, the theme 2.5, the search index, our scripts
    assert weigh(lambda p: p.suffix not in ('.html', '.png') and 'explorers' not in p.parts) < (
        5_700_000
    )
    for p in PAGES:
        assert len(gzip.compress((SITE / p).read_bytes())) < 300_000, p


def test_methods_are_documented():
    "Every public method of an exported class stands in the reference."
    import importlib
    import inspect

    import house

    for module in house.MODULES:
        library = importlib.import_module(f'dp_saddle.{module}')
        classes = [getattr(library, name) for name in library.__all__]
        classes = [c for c in classes if inspect.isclass(c) and c.__module__ == library.__name__]
        if not classes:
            continue  # told where they are defined
        page = (SITE / 'api' / f'{module}.html').read_text(encoding='utf-8')
        for cls in classes:
            for name, f in vars(cls).items():
                if not name.startswith('_') and inspect.isfunction(f) and f.__doc__:
                    assert f'id="api-{cls.__name__}.{name}"' in page, f'{cls.__name__}.{name}'
