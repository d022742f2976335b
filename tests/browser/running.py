"What the tests of running cells have in common: a server, and what is read of a page."

import http.server

from selenium.webdriver.support.ui import WebDriverWait

CAN_RUN = (
    "[...document.querySelectorAll('div.cell')]"
    ".filter(c => c.querySelector('.dp-run button:not(:disabled)'))"
)
PLACES = f"return {CAN_RUN}.map(c => Number(c.className.match(/tag_run-(\\d+)/)[1]))"
# The first cell that draws, and can be run.
PICTURE = """
const cell = 'div.cell[class*=tag_run-]:has(.cell_output img):has(.dp-run)';
return Number(document.querySelector(cell).className.match(/tag_run-(\\d+)/)[1]);
"""
# What the status says of a cell, each time it changes: what is read out, and all that is seen.
WATCH = """
const status = document.querySelector('.tag_run-' + arguments[0] + ' [role=status]');
const read = n => n.nodeType === Node.TEXT_NODE ? n.data
  : n.ariaHidden === 'true' ? '' : [...n.childNodes].map(read).join('');
window.told = [];
new MutationObserver(() => window.told.push([read(status), status.textContent]))
  .observe(status, {childList: true, characterData: true, subtree: true});
"""
# What Python consists of.
LOADED = '.whl', '.wasm', '.zip', 'pyodide-lock.json'


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list = []
    static: dict = {}  # of sites that have their Python from elsewhere: {name: what was prepared}

    def translate_path(self, path):
        _, _, site, rest = path.split('?')[0].split('/', 3)
        own = site in self.static and self.static[site] / rest.removeprefix('_static/')
        return str(own) if own and own.is_file() else super().translate_path('/' + rest)

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


def scripts_are_done(browser, opened=True):
    """The page has its buttons, or says why there are none; and its reader has opened the library's
    code, which is folded."""
    WebDriverWait(browser, 20).until(lambda b: b.execute_script(
        "return document.readyState === 'complete' && (!document.getElementById('run-data') || "
        "document.querySelector('.dp-run, .dp-why') !== null)"))
    if opened:
        browser.execute_script(
            "document.querySelectorAll('details.step').forEach(box => box.open = true)")


def told(browser):
    "What has been read out, each text once in a row, and all that was seen."
    said = browser.execute_script('return window.told')
    heard = [text for k, (text, _) in enumerate(said) if k == 0 or text != said[k - 1][0]]
    return heard, [text for _, text in said]


def ended(browser):
    busy = "return document.documentElement.classList.contains('dp-busy')"
    WebDriverWait(browser, 120, 0.05).until(lambda b: not b.execute_script(busy))


def run_by(browser, place, key):
    "Press Run at this place by a key: what is told until it is done, and what was asked for."
    browser.execute_script(WATCH, place)
    Quiet.asked.clear()
    browser.find_element('css selector', f'.tag_run-{place} .dp-run button').send_keys(key)
    ended(browser)
    return *told(browser), [path for path in Quiet.asked if path.endswith(LOADED)]
