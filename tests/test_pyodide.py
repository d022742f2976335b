"Where the site has its Python from: a folder, a wheel, what was kept; nothing unchecked; or none."
import json
import subprocess
import zipfile

import pytest

from book import pyodide

CONTENTS = {'numpy.whl': b'n', 'pyodide.js': b'p'}
WANTED = {name: pyodide.sha256(data) for name, data in CONTENTS.items()}

@pytest.fixture
def kept(monkeypatch, tmp_path):
    "An empty folder of what is kept, and no network."
    def no_pip(command, **_):
        return subprocess.CompletedProcess(command, 1, '', 'looking\nno such host\n')
    monkeypatch.setattr(pyodide, 'HERE', tmp_path)      # a site that is built here stays
    monkeypatch.setattr(pyodide, 'KEPT', tmp_path/'kept')
    monkeypatch.setattr(pyodide, 'STATIC', tmp_path/'static')
    monkeypatch.setattr(pyodide.subprocess, 'run', no_pip)
    monkeypatch.delenv('PYODIDE', raising=False)
    return tmp_path

def folder(path, contents):
    path.mkdir()
    for name, data in contents.items():
        (path/name).write_bytes(data)
    return str(path)

def test_from_a_folder_and_then_from_what_is_kept(kept, monkeypatch):
    monkeypatch.setenv('PYODIDE', folder(kept/'release', CONTENTS | {'more.whl': b'm'}))
    assert pyodide.fetch(WANTED) == '' and pyodide.missing(WANTED) == {}
    assert {p.name for p in (kept/'kept').iterdir()} == set(CONTENTS)
    monkeypatch.delenv('PYODIDE')
    assert pyodide.fetch(WANTED) == ''

def test_what_is_not_as_the_lock_says_is_refused(kept, monkeypatch):
    monkeypatch.setenv('PYODIDE', folder(kept/'release', CONTENTS | {'numpy.whl': b'other'}))
    with pytest.raises(SystemExit, match=r'numpy.whl: sha256 .*, and pyodide-lock.json says'):
        pyodide.fetch(WANTED)
    assert not (kept/'kept'/'numpy.whl').exists()

def test_a_folder_that_lacks_a_file(kept, monkeypatch):
    monkeypatch.setenv('PYODIDE', folder(kept/'release', {'pyodide.js': b'p'}))
    assert pyodide.fetch(WANTED) == 'no such host'
    assert set(pyodide.missing(WANTED)) == {'numpy.whl'}

def test_from_a_wheel(kept):
    path = kept/'carrier.whl'
    with zipfile.ZipFile(path, 'w') as wheel:
        wheel.writestr('carrier/static/pyodide/numpy.whl', b'n')
        wheel.writestr('carrier/numpy.whl', b'not in the folder')
    read = pyodide.read_wheel(path)
    assert read('numpy.whl') == b'n' and read('pyodide.js') is None
    assert read('carrier.whl') == path.read_bytes()

def test_without_it_pages_are_told(kept, capsys):
    pyodide.prepare()
    said = (kept/'static'/'python-files.js').read_text(encoding='utf-8')
    assert json.loads(said.removeprefix('window.dpSaddleFiles = ').rstrip(';\n')) == pyodide.NONE
    assert 'no such host' in capsys.readouterr().err and not (kept/'static'/'pyodide').exists()
