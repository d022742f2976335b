"""An explorer in JupyterLab: moved by keyboard and by mouse, the picture changes, and there is no
error."""

import os
import re
import subprocess
import sys
import time

import nbformat
import pytest

pytest.importorskip('selenium')
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys


@pytest.fixture
def lab(tmp_path):
    "JupyterLab with one notebook, at a port of its own."
    import socket
    import urllib.request

    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    cells = [
        "from dp_saddle.widgets import explore_curve",
        "explore_curve(sigma=(.8, 1., 2.), rate=(.01, .1), steps=(100, 1000, 3000))",
    ]
    nb = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(c) for c in cells],
        metadata={
            'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}
        },
    )
    nbformat.write(nb, tmp_path / 'explore.ipynb')
    env = os.environ | {
        'JUPYTER_CONFIG_DIR': str(tmp_path / 'config'),
        'JUPYTER_DATA_DIR': str(tmp_path / 'data'),
        'JUPYTER_RUNTIME_DIR': str(tmp_path / 'runtime'),
        'IPYTHONDIR': str(tmp_path / 'ipython'),
    }
    with open(tmp_path / 'log', 'w', encoding='utf-8') as log:
        server = subprocess.Popen(
            [
                sys.executable,
                '-m',
                'jupyter',
                'lab',
                '--no-browser',
                '--allow-root',
                f'--port={port}',
                '--ServerApp.ip=127.0.0.1',
                '--IdentityProvider.token=',
                '--ServerApp.disable_check_xsrf=True',
                f'--ServerApp.root_dir={tmp_path}',
                '--LabApp.news_url=',
                '--LabApp.expose_app_in_browser=True',
                '--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate',
            ],
            env=env,
            stdout=log,
            stderr=log,
        )
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(f'http://127.0.0.1:{port}/api').read()
                    break
                except OSError:
                    time.sleep(0.2)
            yield f'http://127.0.0.1:{port}/lab/tree/explore.ipynb?reset'
        finally:
            server.terminate()
            server.wait(20)


def until(true, what, seconds=240):
    end = time.time() + seconds
    while time.time() < end:
        try:
            if found := true():
                return found
        except Exception:
            pass
        time.sleep(0.2)
    raise AssertionError(f'not in {seconds} s: {what}')


LAPTOP = 1280, 720
SIZE = """
const box = document.querySelector('.jp-OutputArea-output .widget-vbox').getBoundingClientRect();
const panel = document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect();
const image = document.querySelector('.jp-OutputArea-output img.widget-image');
return [box.height, panel.height, image.clientWidth, image.naturalWidth, panel.width];
"""


def fits_a_screen(browser):
    "Sliders, picture and numbers are seen at once on a laptop; the picture is sharp, not blown up."
    width, height = LAPTOP
    size = {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False}
    browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', size)
    box, panel, shown, pixels, wide = until(  # JupyterLab lays out the smaller window when it can
        lambda: (here := browser.execute_script(SIZE))[1] < height and here, 'a laptop', seconds=20
    )
    browser.execute_cdp_cmd('Emulation.clearDeviceMetricsOverride', {})
    assert box <= panel < height and shown < wide, (box, panel, shown, wide)
    assert shown <= pixels, (shown, pixels)


@pytest.mark.slow
def test_an_explorer_in_jupyterlab(browser, lab):
    browser.get(lab)
    one = lambda css: browser.find_element('css selector', css)
    until(
        lambda: len(browser.find_elements('css selector', '.jp-Notebook .jp-Cell')) == 2,
        'the notebook',
    )
    until(lambda: browser.find_elements('css selector', '[data-status=idle]'), 'the kernel')
    sliders = '.jp-OutputArea-output .noUi-handle'
    begun = lambda: re.search(r'[*1-9]', one('.jp-Cell .jp-InputPrompt').text)
    for last in [False] * 20 + [True]:
        # as the menu does; keys, and a command before all is there, get lost on a busy machine
        browser.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        try:
            until(begun, 'a cell that runs', seconds=4)
            break
        except AssertionError:
            if last:
                raise
    until(
        lambda: len(browser.find_elements('css selector', sliders)) == 3,
        'three sliders',
    )
    picture = lambda: one('.jp-OutputArea-output img.widget-image').get_attribute('src')
    numbers = lambda: one('.jp-OutputArea-output .widget-html b').text
    until(picture, 'the picture')
    from dp_saddle.widgets import explore_curve

    said = lambda **values: explore_curve(
        sigma=(0.8, 1.0, 2.0), rate=(0.01, 0.1), steps=(100, 1000, 3000)
    ).at(**values)[2][0]
    assert numbers() == said(sigma=1.0, rate=0.01, steps=1000)
    fits_a_screen(browser)
    labels = [
        e.text for e in browser.find_elements('css selector', '.jp-OutputArea-output .widget-label')
    ]
    assert any('noise over clip' in text for text in labels)
    handles = browser.find_elements('css selector', '.jp-OutputArea-output .noUi-handle')
    before = picture()
    handles[0].send_keys(Keys.ARROW_RIGHT)  # by keyboard
    until(lambda: numbers() == said(sigma=2.0, rate=0.01, steps=1000), 'the number for sigma 2')
    until(lambda: picture() != before, 'another picture')
    before = picture()
    ActionChains(browser).drag_and_drop_by_offset(handles[2], 200, 0).perform()  # by mouse
    until(lambda: numbers() == said(sigma=2.0, rate=0.01, steps=3000), 'the number for 3000 steps')
    until(lambda: picture() != before, 'another picture')
    assert not browser.find_elements(
        'css selector',
        ', '.join(
            f'.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.{kind}"]'
            for kind in ('stderr', 'error')
        ),
    )
    # before the server stops
    browser.get('about:blank')
