"""The page "Your run": its form says what Python says, to the last digit that it prints, with the
network blocked and, once Python is loaded, with the server switched off; and a visitor's whole way,
on a phone."""
import http.server
import re
import threading
from functools import partial
from urllib.parse import parse_qsl, urlencode

import pytest
from test_site import (
    EXPLORERS,
    SITE,
    SLIDE,
    accessible,
    dark,
    fits_a_phone,
    night_falls,
    seen_at,
    sized,
    violations,
)

from dp_saddle.your_run import answer

FIRST = dict(sigma='1.1', batch_size='256', dataset_size='60000', epochs='60', delta='1e-5',
             sampling='poisson', target_eps='1')
OTHER = FIRST | dict(
    sigma='.9', sampling='shuffle', dataset_size='12800', epochs='4', target_eps='2'
)
PAGE = 'your_run.html'
# Its estimate, which proves nothing, prints more digits than the rounding of a transform of long
# arrays leaves: another build of it rounds otherwise (by 3e-9).
GRID = 'FourierAccountant'
needs_python = pytest.mark.skipif(not (SITE / '_static' / 'pyodide').exists(),
                                  reason='the site was built without Pyodide')


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *said):
        pass


class Site:
    "The site under a path of its own, by a plain static server that can be switched off."

    def __init__(self):
        handler = partial(Quiet, directory=SITE.parent)
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        self.address = f'http://127.0.0.1:{self.server.server_port}/{SITE.name}/'
        self.on = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def off(self):
        if self.on:
            self.server.shutdown()
            self.server.server_close()
        self.on = False


@pytest.fixture
def site():
    made = Site()
    yield made
    made.off()


def text(browser, selector):
    return browser.execute_script(
        "return document.querySelector('#run-form ' + arguments[0]).textContent", selector
    )


def type_in(browser, **fields):
    for name, value in fields.items():
        browser.execute_script(
            "const e = document.querySelector('#run-form [name=' + arguments[0] + ']');"
            "e.value = arguments[1]; e.dispatchEvent(new Event('input', {bubbles: true}))",
            name,
            value,
        )


def press(browser, selector):
    browser.execute_script("document.querySelector('#run-form ' + arguments[0]).click()", selector)


def wait_for(browser, condition, seconds=120):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, seconds, 0.1).until(lambda b: condition())


def done(browser):
    return text(browser, '.status') == 'Done.'


def precise(x, n):
    "x with n digits, as JavaScript's toPrecision writes it."
    mantissa, e = f'{x:.{n - 1}e}'.split('e')
    e = int(e)
    return f'{mantissa}e{e:+d}' if e < -6 or e >= n else f'{x:.{n - 1 - e}f}'


def test_digits():
    assert [precise(x, 3) for x in (0.01, 4.018, 1234.5, 1e-12)] == [
        '0.0100', '4.02', '1.23e+3', '1.00e-12']


def says_what_python_says(browser, asked):
    "Every number on the page, as it is printed there."
    told = {part: answer(part, asked) for part in ('cost', 'curve', 'attack', 'noise')}
    cost, curve, attack, noise = told.values()
    low, high = cost['shown']
    assert text(browser, '.eps output') == f'ε ≤ {high} at δ = {asked["delta"]}'
    interval = text(browser, '.interval')
    assert low in interval and (high in interval or cost['least'] >= 0.99 * cost['eps'])
    shown = browser.execute_script(
        "return document.querySelector('#run-form .interval').dataset.exact"
    )
    assert abs(float(shown) - cost['eps']) <= 1e-9 * cost['eps']
    assert cost['run'] in text(browser, '.note') and cost['relation'] in text(browser, '.note')
    assert cost['code'] in text(browser, '.python')

    used = [d for d in curve['delta'] if d > 0]
    assert text(browser, '[data-plot=curve] figcaption') == (
        f'The privacy curve: δ falls from {precise(used[0], 4)} at ε = 0 to '
        f'{precise(used[-1], 4)} at {precise(curve["eps"][len(used) - 1], 4)}.')

    def percent(x):
        return precise(100 * x, 3) + ' %'

    assert text(browser, '.attack') == (
        f'At a false positive rate of {percent(attack["false_alarms"])}, at most '
        f'{percent(attack["tpr"])} of the records are found. Who thinks it even odds that a record '
        f'is there guesses wrongly at least {percent(attack["wrong"])} of the time. True positives '
        f'exceed false ones by {percent(attack["advantage"])} at most.')
    assert percent(1 - attack['tpr']) in text(browser, '[data-plot=attack] figcaption')
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('#run-form .curve')].map(c => c.points.length)")
    assert drawn == [len(used), len(attack['fnr'])]

    assert text(browser, '.noise') == (
        f'Noise multiplier {noise["shown"]} meets ε ≤ {noise["target"]:g}: '
        f'ε = {precise(noise["eps"], 4)}, everything else as it is.')
    assert text(browser, '.paragraph') == answer('paragraph', asked)['text']
    linked = browser.execute_script("return [...document.querySelectorAll('#run-form .way a')]"
                                    ".map(a => a.getAttribute('href'))")
    assert len(linked) == len(re.findall(r'\w#\w', answer('way', asked)['text'])) > 0
    for page, section in (link.split('#') for link in linked):
        found = (SITE / page).read_text(encoding='utf-8')
        assert f'id="{section}"' in found, (page, section)


def rows_of(*parts, asked):
    keys = ('accountant', 'lower', 'estimate', 'upper', 'worth')
    return [[str(row[k]) for k in keys] for part in parts for row in answer(part, asked)['rows']]


def table(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('#run-form tbody tr')].map("
        "r => [...r.children].map(c => c.textContent))")


def test_before_anything_is_pressed(browser):
    "An answer stands there, and no Python was loaded; opened as a file, the page says why not."
    browser.get((SITE / PAGE).as_uri())
    says_what_python_says(browser, FIRST)
    assert table(browser) == rows_of('others', asked=FIRST)
    why = 'served by any static server'
    assert why in text(browser, '.status')
    press(browser, '.compute')
    assert why in text(browser, '.status')
    accessible(browser)
    fits_a_phone(browser)
    browser.find_element('css selector', '.dp-why a').click()  # it leads to what says how
    shown = browser.execute_script("return document.querySelector(':target').textContent")
    assert shown.strip().startswith('Can I run the cells of the site?')
    assert 'python -m http.server' in shown


def has(browser, css, value=True):
    assert browser.execute_script(
        "return document.querySelector('#run-form').matches(arguments[0])", css) == value


def a_link_is_opened(browser, address):
    "With its inputs; what stands there is another run; Stop, and Compute: its answer."
    browser.get(address + PAGE + '#' + urlencode(OTHER))
    browser.refresh()
    filled = browser.execute_script(
        "return Object.fromEntries(new FormData(document.querySelector('#run-form form')))")
    assert {k: v for k, v in filled.items() if k in OTHER} == OTHER
    assert text(browser, '.status') == 'Press Compute for these inputs.'
    has(browser, '.stale')
    begun = 'return dpSaddlePython.started()'
    assert not browser.execute_script(begun)
    press(browser, '.compute')
    visible = "return document.querySelector('#run-form .stop').checkVisibility()"
    assert browser.execute_script(visible) and browser.execute_script(begun)
    press(browser, '.stop')
    assert text(browser, '.status') == 'Stopped. Compute begins anew.'
    assert not browser.execute_script(visible) and not browser.execute_script(begun)
    assert text(browser, '.eps output') == f'ε ≤ {answer("cost", FIRST)["shown"][1]} at δ = 1e-5'
    has(browser, '.stale')
    press(browser, '.compute')
    wait_for(browser, lambda: done(browser))
    has(browser, '.stale', False)
    says_what_python_says(browser, OTHER)
    assert table(browser) == rows_of('others', asked=OTHER)
    page, link = browser.current_url.split('#')
    assert page == address + PAGE, 'what is typed is behind the #, and not sent'
    assert dict(parse_qsl(link)) == OTHER


def is_typed(browser, asked):
    type_in(browser, **asked)
    here = f'sigma={asked["sigma"]}'
    wait_for(browser, lambda: here in browser.current_url and done(browser))
    says_what_python_says(browser, asked)


def two_take_longer(browser, asked):
    press(browser, '.more')
    wait_for(browser, lambda: done(browser) and len(table(browser)) > 9)
    shown, told = table(browser), rows_of('others', 'slow_ones', asked=asked)
    assert [row for row in shown if row[0] != GRID] == [row for row in told if row[0] != GRID]
    (here,), (there,) = ([row for row in rows if row[0] == GRID] for rows in (shown, told))
    assert float(here.pop(2)) == pytest.approx(float(there.pop(2)), rel=1e-7) and here == there


# Mistakes: what is typed, and the field that has the library's own words beside it.
MISTAKES = (
    (dict(batch_size='70000'), 'batch_size'),
    (dict(sigma='-1'), 'sigma'),
    (dict(sigma=''), 'sigma'),
    (dict(epochs='many'), 'epochs'),
    (dict(delta='2'), 'delta'),
    (dict(sampling='truncated-poisson', max_batch_size=''), 'max_batch_size'),
)


def mistakes_are_told(browser, asked):
    for wrong, field in MISTAKES:
        typed = asked | wrong
        type_in(browser, **typed)
        problem = f'#yr-{field}-problem'
        words = answer('cost', typed)['error']
        wait_for(browser, lambda at=problem, words=words: text(browser, at) == words)
        invalid = "return document.querySelector('#yr-' + arguments[0]).ariaInvalid"
        assert browser.execute_script(invalid, field) == 'true' and field in words
        label = browser.execute_script(
            "return document.querySelector(`label[for=yr-${arguments[0]}]`).textContent", field)
        assert label in text(browser, '.status')
        has(browser, '.stale')


def a_slider_is_moved(browser):
    figure = browser.find_element('css selector', 'figure.explorer')
    explorer = EXPLORERS[figure.get_attribute('id').removeprefix('explorer-')]()
    index = [(s.start + 1) % len(s.values) for s in explorer.sliders]
    numbers, *_ = browser.execute_script(SLIDE, figure, index)
    values = {s.name: s.values[i] for s, i in zip(explorer.sliders, index)}
    assert numbers == list(explorer.at(**values)[2])
    inside = 'const r = arguments[0].getBoundingClientRect(); return r.left >= 0 && r.right <= 390'
    for slider in figure.find_elements('css selector', 'input'):
        assert browser.execute_script(inside, slider)


@needs_python
def test_a_visitor_on_a_phone(browser, site):
    """Reads the front page, moves a slider, opens somebody's link, types a run and mistakes, and,
    with the server switched off, a run of their own, and gets a certified number; then by night."""

    def follow(link):
        found = browser.find_element('css selector', f'.doors a[href^="{link}"]')
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()
        wait_for(browser, lambda: link in browser.current_url and browser.execute_script(
            "return document.readyState == 'complete'"))
        fits_a_phone(browser)

    sized(browser, 390)
    browser.get(site.address + 'index.html')
    fits_a_phone(browser)
    read = browser.find_element('css selector', '.bd-article').text
    assert 'What did a private training run cost?' in read and 'Use it.' in read
    picture = browser.find_element('css selector', '.bd-article img')
    assert picture.size['width'] > 340 and '7.424378899' in picture.get_attribute('alt')
    runs = 'return [...document.querySelectorAll(".dp-run button")].map(b => b.disabled)'
    assert browser.execute_script(runs) and not any(browser.execute_script(runs))

    follow('11_live_curves.html')
    a_slider_is_moved(browser)
    browser.back()
    follow(PAGE)
    a_link_is_opened(browser, site.address)
    asked = FIRST | dict(sigma='1.3', dataset_size='12800', epochs='4')  # short: small grids
    is_typed(browser, asked)
    two_take_longer(browser, asked)
    mistakes_are_told(browser, asked)

    site.off()
    own = FIRST | dict(sigma='0.8', batch_size='128', dataset_size='10000', epochs='20')
    is_typed(browser, own)
    assert 'Certified: ' in text(browser, '.interval')
    assert not browser.find_elements('css selector', '#run-form [aria-invalid]')
    fits_a_phone(browser)
    found = violations(browser)
    assert found == [], found
    assert seen_at(browser, 1440)['page'] <= 1441
    night_falls(browser)
    dark(browser)
