"A real browser, Chromium, with nothing of the network but this machine. `make test-browser`."

import functools
import http.server
import re
import shutil
import threading
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / 'docs' / '_build' / 'html'

CHROMIUM, DRIVER = (shutil.which(name) for name in ('chromium', 'chromedriver'))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    "Of several workers, one has all tests of Python in the browser: so it is started once."
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            alone = not re.search(r'test_(run|keyboard)\.py', nodeid)
            return nodeid if alone else 'Python in the browser'

    return Together(config, log)


def pytest_collection_modifyitems(items):
    for item in items:
        if 'browser' in str(item.path):
            item.add_marker('browser')
            if not (CHROMIUM and DRIVER):
                item.add_marker(
                    pytest.mark.skip(
                        reason='no chromium and chromedriver: apt-get '
                        'install chromium chromium-driver'
                    )
                )


@pytest.fixture(scope='session')
def browser(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        '--headless=new',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--window-size=1300,1000',
        '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost , EXCLUDE 127.0.0.1',
        f'--user-data-dir={tmp_path_factory.mktemp("profile")}',
    ):
        options.add_argument(argument)
    options.set_capability('goog:loggingPrefs', {'performance': 'ALL', 'browser': 'ALL'})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)) as driver:
        driver.command_executor._client_config.timeout = 330
        driver.set_script_timeout(300)  # seconds: axe reads a long page, and is not alone
        yield driver


@pytest.fixture(scope='session')
def served():
    "Where the site is, by a plain static server, under a path of its own."
    from running import Quiet

    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(('localhost', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://localhost:{server.server_port}/a/book/'
        server.shutdown()


@pytest.fixture(scope='session')
def begun(browser, served):
    """The preface, by a browser that has nothing yet: its first cell and its first picture have
    been run. [(heard, seen, asked)] of the two."""
    from running import PICTURE, PLACES, run_by, scripts_are_done
    from selenium.webdriver.common.keys import Keys

    origin = {'origin': served.split('/a/')[0], 'storageTypes': 'all'}
    browser.execute_cdp_cmd('Storage.clearDataForOrigin', origin)
    browser.execute_cdp_cmd('Network.clearBrowserCache', {})
    browser.get(served + 'preface.html')
    scripts_are_done(browser)
    first, picture = browser.execute_script(PLACES)[0], browser.execute_script(PICTURE)
    return [run_by(browser, first, Keys.ENTER), run_by(browser, picture, Keys.SPACE)]


@pytest.fixture(autouse=True)
def on_a_desk(request):
    "Whatever a test has set: the next one has the window as it was, on a screen, by day."
    yield
    if 'browser' in request.fixturenames:
        driver = request.getfixturevalue('browser')
        driver.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})
        driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {'media': '', 'features': []})
