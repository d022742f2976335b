"""Run, Run all above, Stop, Edit, Reset and Check by the keyboard alone: where the focus is, that
it is seen, and what a screen reader is told; of what is loaded, too."""

import re
import time

import pytest
from running import PLACES, ended, scripts_are_done
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from test_run import SITE, pytestmark  # noqa: F401

# Of the element that has the focus: its mark, and the place of it in the window.
SEEN = """
const e = document.activeElement, style = getComputedStyle(e), r = e.getBoundingClientRect();
const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
return [outlined || style.boxShadow !== 'none',
        r.width > 0 && r.top >= 0 && r.bottom <= innerHeight];
"""
FIND = """
return arguments[0] ? document.querySelector(arguments[0]) : document.activeElement;
"""
ENDLESS = 'while True: pass'
LINKS = 400  # more presses of Tab than any page needs


def loaded(asked):
    "The sizes of these files, as they lie in the site's folder."
    files = {path.removeprefix('/a/book/') for path in asked}
    return {name: (SITE / name).stat().st_size for name in files}


def counted(seen, title):
    "The megabytes that the line has counted, while it said that this is loading."
    return [float(n) for text in seen for n in re.findall(
        rf'^Loading {re.escape(title)}: ([\d.]+) MB are here …$', text)]


def test_what_is_loading(begun):
    """The first Run says what is loading and how many MB, as many as the server has sent; so does
    what draws. What a screen reader is told is each text, and not each megabyte."""
    before, total = {}, {}
    for what, (heard, seen, asked) in zip(
        ('Python, numpy and SciPy', 'matplotlib and fastcore'), begun, strict=True
    ):
        sizes = loaded(asked)
        assert sizes and not set(sizes) & set(before)
        before |= sizes
        total[what] = sum(sizes.values()) / 1e6
        title = f'{what} ({total[what]:.0f} MB)'
        numbers = counted(seen, title)
        assert f'Loading {title}' in heard, heard
        assert len(numbers) >= 4 and numbers == sorted(numbers), numbers
        assert numbers[-1] == round(total[what]) and numbers[0] < numbers[-1] / 2, numbers
        assert heard[-1].startswith('Done in ') and heard[-2] == 'Running', heard
        assert len(heard) <= 6 < len(seen), (heard, seen)
        assert sum('MB' in text for text in heard) == 1, heard
    assert 25 < total['Python, numpy and SciPy'] < 40 and 5 < total[what] < 12, total


class Hands:
    "A reader without a mouse."

    def __init__(self, browser):
        self.browser = browser

    def press(self, *keys):
        ActionChains(self.browser).send_keys(*keys).perform()

    def press_with(self, held, key):
        ActionChains(self.browser).key_down(held).send_keys(key).key_up(held).perform()

    @property
    def at(self):
        return self.browser.execute_script(FIND, '')

    def name(self):
        "What a screen reader calls it; its mark is seen, and it is in the window."
        marked, inside = self.browser.execute_script(SEEN)
        name = self.at.accessible_name
        assert marked and inside, (name, marked, inside)
        return name

    def tab_to(self, name):
        for _ in range(LINKS):
            self.press(Keys.TAB)
            if self.at.accessible_name == name:
                return self.name()
        raise AssertionError(f'no Tab leads to {name}')

    def walk(self, *names):
        "Tab leads from one to the next, with nothing between."
        for name in names:
            self.press(Keys.TAB)
            assert self.name() == name

    def type(self, text):
        "In place of what is there."
        self.press_with(Keys.CONTROL, 'a')
        self.press(text)


# As if nobody had pressed a key yet.
AT_THE_TOP = """
const body = document.body;
body.tabIndex = -1;
body.focus();
body.removeAttribute('tabindex');
scrollTo(0, 0);
"""


@pytest.fixture
def page(browser, served, begun):
    "The preface, with the Python that is there, and the focus where a page begins."
    if browser.current_url.split('#')[0] != served + 'preface.html':
        browser.get(served + 'preface.html')
        scripts_are_done(browser)
    browser.execute_script(AT_THE_TOP)
    return Hands(browser)


def status(hands, box):
    line = hands.browser.execute_script(FIND, f'{box} [role=status]')
    assert line.aria_role == 'status'
    return line.text


def first_cell(browser):
    "Of the first cell: where it is, and what its buttons are called."
    label = browser.execute_script(
        "return document.querySelector('.dp-run button:not(:disabled)').ariaLabel.slice(5)")
    names = (f'Run: {label}', f'Run all above: {label}, and all before it', f'Stop: {label}',
             f'Edit: {label}', f'Reset: {label}')
    return f'.tag_run-{browser.execute_script(PLACES)[0]}', label, *names


def test_buttons(browser, page):
    "From the link that skips the sidebar to Run, and on; the focus is never lost."
    page.press(Keys.TAB)
    assert page.at.accessible_name == 'Skip to main content'
    page.press(Keys.ENTER)
    cell, label, run, everything, _, edit, reset = first_cell(browser)
    page.tab_to(run)
    page.press(Keys.ENTER)
    ended(browser)
    assert status(page, cell).startswith('Done') and page.name() == run
    page.walk(everything)
    page.press(Keys.SPACE)
    ended(browser)
    assert status(page, cell).startswith('Done') and page.name() == everything
    page.walk(edit)
    page.press(Keys.ENTER)
    assert page.name() == f'The code of {label}. Shift and Enter run it.'
    page.type('1/0')
    page.press_with(Keys.SHIFT, Keys.ENTER)
    ended(browser)
    assert status(page, cell).startswith('Error: ZeroDivisionError')
    browser.find_element('css selector', f'{cell} .dp-run button:last-of-type').click()


def test_check(browser, page):
    box = browser.execute_script(
        "return '#' + document.querySelector('.dp-answer').parentElement.id + ' .dp-answer'")
    browser.execute_script('arguments[0].focus()', browser.execute_script(FIND, f'{box} textarea'))
    page.press_with(Keys.SHIFT, Keys.TAB)
    page.press(Keys.TAB)
    assert page.name() == 'Your answer. Shift and Enter run it.'
    page.type('x = 1')
    page.walk('Check')
    page.press(Keys.SPACE)
    ended(browser)
    assert status(page, box) == 'Not yet.' and page.name() == 'Check'
    page.press_with(Keys.SHIFT, Keys.TAB)
    assert page.name() == 'Your answer. Shift and Enter run it.'
    page.type(ENDLESS)
    page.walk('Check')
    page.press(Keys.ENTER)
    time.sleep(1)
    page.walk('Stop')
    page.press(Keys.ENTER)
    ended(browser)
    assert status(page, box).startswith('Stopped.') and page.name() == 'Check'
    page.walk('Reset')
    page.press(Keys.SPACE)
    assert status(page, box) == '' and page.name() == 'Reset'


def test_stop(browser, page):
    "Of a cell that its reader has changed, while Python begins; and Reset."
    cell, label, run, everything, stop, edit, reset = first_cell(browser)
    stored = browser.execute_script(
        'return document.querySelector(arguments[0]).textContent', f'{cell} pre')
    page.tab_to(edit)
    page.press(Keys.ENTER)
    assert page.name() == f'The code of {label}. Shift and Enter run it.'
    page.type(ENDLESS)
    page.press_with(Keys.SHIFT, Keys.ENTER)
    page.tab_to(run)
    page.walk(everything, stop)
    assert browser.execute_script("return document.documentElement.classList.contains('dp-busy')")
    page.press(Keys.SPACE)
    ended(browser)
    assert status(page, cell).startswith('Stopped.') and page.name() == run
    page.walk(everything, edit, reset)
    page.press(Keys.ENTER)
    assert page.name() == edit and status(page, cell) == ''
    back = 'return document.querySelector(arguments[0]).textContent'
    assert browser.execute_script(back, f'{cell} pre') == stored


@pytest.mark.slow
def test_stop_that_goes_away(browser, page):
    "Where Python is done while Stop has the focus, Run has it; and Stop of what comes before."
    browser.refresh()
    scripts_are_done(browser)
    places = browser.execute_script(PLACES)[:2]
    cells = [f'.tag_run-{k}' for k in places]
    first, second = (browser.execute_script(FIND, f'{cell} .dp-run button') for cell in cells)
    names = [button.accessible_name for button in (first, second)]
    browser.execute_script('arguments[0].focus()', first)
    page.tab_to(names[0].replace('Run', 'Edit'))
    page.press(Keys.ENTER)
    page.type('import time; time.sleep(4)')
    page.tab_to(names[0])
    page.press(Keys.ENTER)
    page.tab_to(names[0].replace('Run', 'Stop'))
    second.send_keys(Keys.ENTER)  # which takes the focus
    assert status(page, cells[1]) == 'Another cell is running: wait for it, or stop it.'
    assert page.name() == names[1]
    browser.execute_script('arguments[0].focus()', first)
    page.tab_to(names[0].replace('Run', 'Stop'))
    ended(browser)
    assert status(page, cells[0]).startswith('Done') and page.name() == names[0]
    assert status(page, cells[1]) == ''
    page.tab_to(names[0].replace('Run', 'Edit'))
    page.press(Keys.ENTER)
    page.type(ENDLESS)
    page.tab_to(names[1].replace('Run', 'Run all above') + ', and all before it')
    page.press(Keys.ENTER)
    time.sleep(1)
    page.walk(names[1].replace('Run', 'Stop'))
    page.press(Keys.ENTER)
    ended(browser)
    assert status(page, cells[1]).startswith('Stopped.') and page.name() == names[1]
