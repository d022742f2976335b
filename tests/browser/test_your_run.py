"""The page "Your run": its form says what Python says, with the network blocked and, once Python is
loaded, with the server switched off."""
import http.server
import threading
from functools import partial

import pytest
from test_site import SITE, accessible, fits_a_phone

from dp_saddle.your_run import answer

FIRST = dict(sigma='1.1', batch_size='256', dataset_size='60000', epochs='60', delta='1e-5',
             sampling='poisson', target_eps='1')
PAGE = 'your_run.html'


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *said):
        pass


@pytest.fixture
def server():
    "The site under a path of its own."
    root = SITE.parent
    made = http.server.ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=root))
    threading.Thread(target=made.serve_forever, daemon=True).start()
    made.address = f'http://127.0.0.1:{made.server_port}/{SITE.name}/'
    yield made
    made.shutdown()
    made.server_close()


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


def wait_for(browser, condition, seconds=120):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, seconds, 0.1).until(lambda b: condition())


def says_what_python_says(browser, asked):
    told = answer('cost', asked)
    high = told['shown'][1]
    assert text(browser, '.eps output') == f'ε ≤ {high} at δ = {asked["delta"]}'
    shown = browser.execute_script(
        "return document.querySelector('#run-form .interval').dataset.exact"
    )
    assert abs(float(shown) - told['eps']) <= 1e-9 * told['eps']
    assert answer('noise', asked)['shown'][:9] in text(browser, '.noise')
    assert text(browser, '.paragraph') == answer('paragraph', asked)['text']
    assert told['code'] in text(browser, '.python')


def test_before_anything_is_pressed(browser):
    "An answer stands there, and no Python was loaded; opened as a file, the page says why not."
    browser.get((SITE / PAGE).as_uri())
    says_what_python_says(browser, FIRST)
    assert text(browser, 'figure[data-plot=curve] figcaption').startswith('The privacy curve')
    browser.execute_script("document.querySelector('#run-form form').requestSubmit()")
    assert 'serve the site' in text(browser, '.status')
    accessible(browser, PAGE)
    fits_a_phone(browser)


def test_with_the_server_switched_off(browser, server):
    "Loaded, computed, a mistake at its field; then without a server: another run, by its link."
    browser.get(server.address + PAGE)
    if 'without Pyodide' in browser.execute_script('return dpSaddlePython.reason()'):
        pytest.skip('the site was built without Pyodide')
    type_in(browser, sigma='1.3')
    assert not browser.execute_script('return dpSaddlePython.started()')
    browser.execute_script("document.querySelector('#run-form form').requestSubmit()")
    wait_for(browser, lambda: text(browser, '.status') == 'Done.')
    says_what_python_says(browser, FIRST | dict(sigma='1.3'))
    assert 'sigma=1.3' in browser.execute_script('return location.hash')

    type_in(browser, batch_size='70000')
    wait_for(browser, lambda: text(browser, '#yr-batch_size-problem'))
    wrong = FIRST | dict(sigma='1.3', batch_size='70000')
    assert text(browser, '#yr-batch_size-problem') == answer('cost', wrong)['error']

    server.shutdown()
    server.server_close()
    other = FIRST | dict(sigma='.9', sampling='balls-in-bins')
    type_in(browser, batch_size='256', sigma='.9', sampling='balls-in-bins')
    wait_for(browser, lambda: text(browser, '.status') == 'Done.')
    says_what_python_says(browser, other)
    assert text(browser, '#yr-batch_size-problem') == ''
