"What Run needs of the cells above, and where its Python comes from (docs/runnable.py, pyodide.py)."

import ast
import hashlib
import json
import subprocess

import pytest

import book
from book import pyodide, runnable

CLASS = 'class Loss(Base):\n    pass\n'
PATCH = '@patch\ndef mean(self:Loss): return half(self)\n'


def item(code, library=None, no=''):
    return {'code': code, 'tree': ast.parse(code), 'library': library, 'shown': True, 'no': no,
            'exported': False, 'solution': False}


def needs(items, code, written):
    for k, one in enumerate(items):
        one['needs'] = runnable.needs(items[:k], one['tree'])
    return runnable.needs(items, ast.parse(code), written)


def test_needs():
    "An exported class is asked of the library; once it is changed, with the methods it gets later."
    above = [
        item('class Base: pass', 'from dp_saddle.x import Base'),
        item(CLASS, 'from dp_saddle.x import Loss'),
        item('def half(loss): return 1/2', 'from dp_saddle.x import half'),
        item(PATCH, ''),
        item('other = 3'),
    ]
    assert needs(above, 'print(Loss().mean())', False) == [1]
    assert needs(above, 'print(Loss().mean())', True) == [0, 1, 2, 3]
    assert needs(above, 'print(other)', True) == [4]


def test_a_function_that_reads_what_comes_later():
    "As a module's may: once its own cell is run, Python looks among the reader's names."
    above = [
        item('def whole(x): return half(x) + half(x)', 'from dp_saddle.x import whole'),
        item('def half(x): return x/2', 'from dp_saddle.x import half'),
        item('half = 3'),
    ]
    assert needs(above, 'whole(2)', True) == [0, 1]
    assert needs(above, 'whole(2)', False) == [0]


def test_an_import_is_no_hindrance():
    "engine/many imports threads, and does without where none can be started."
    assert len(book.page('engine/many')[1]['cells']) > 50
    assert not [row for row in book.page('engine/many')[1]['cells'] if 'no' in row]


def test_the_library_has_what_is_exported():
    "For nearly all exported cells that are shown Run has an import, and each of them works."
    pages = '01_plrv', 'losses/nodes', 'engine/line', '10_accounting', 'practice/attacks'
    rows = [row for n in pages
            for row in book.page(n)[1]['cells'] if 'no' not in row]
    imports = {row['library'] for row in rows if 'library' in row} - {''}
    assert len(imports) > 30
    for line in imports:
        exec(line, {})


@pytest.fixture
def place(tmp_path, monkeypatch):
    "A build of its own, whose lock asks for two files."
    files = {'pyodide.js': b'one', 'scipy.whl': b'two'}
    hashed = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    lock = {'info': {'version': '0'}, 'core': {'pyodide.js': hashed['pyodide.js']}, 'packages': {
        name: {'file_name': 'scipy.whl', 'sha256': hashed['scipy.whl'], 'depends': []}
        for name in (*pyodide.WANTED, *pyodide.OURS)}}
    monkeypatch.setattr(pyodide, 'KEPT', tmp_path / 'kept')
    monkeypatch.setattr(pyodide, 'STATIC', tmp_path / 'static')
    monkeypatch.setattr(pyodide, 'LOCK', tmp_path / 'lock.json')
    (tmp_path / 'lock.json').write_text(json.dumps(lock))
    (tmp_path / 'release').mkdir()
    for name, data in files.items():
        (tmp_path / 'release' / name).write_bytes(data)

    def no_network(command, **_):
        return subprocess.CompletedProcess(command, 1, '', 'ERROR: no network')

    monkeypatch.setattr(pyodide.subprocess, 'run', no_network)
    monkeypatch.delenv('PYODIDE', raising=False)
    monkeypatch.setattr(pyodide, 'HERE', tmp_path)
    (tmp_path / 'static').mkdir()
    worker = book.WORKER.read_bytes()
    (tmp_path / 'static' / 'python-worker.js').write_bytes(worker)
    monkeypatch.setattr(pyodide, 'wheel', lambda to: (to / 'dp.whl').write_bytes(b'') or 'dp.whl')
    return tmp_path


def told(place):
    text = (place / 'static' / 'python-files.js').read_text(encoding='utf-8')
    return json.loads(text.removeprefix('window.dpSaddleFiles = ').rstrip(';\n'))


def test_an_official_release(place, monkeypatch):
    "PYODIDE=folder: every file is taken from there, with no network, if it is what the lock says."
    monkeypatch.setenv('PYODIDE', str(place / 'release'))
    pyodide.prepare()
    base = place / 'static' / told(place)['base']
    assert (base / 'scipy.whl').read_bytes() == b'two' and set(told(place)['sizes']) == {
        'pyodide.js', 'scipy.whl', 'lock.json', 'dp.whl'}
    (place / 'kept' / 'scipy.whl').unlink()
    (place / 'release' / 'scipy.whl').write_bytes(b'changed')
    with pytest.raises(SystemExit, match='scipy.whl: sha256 .* and lock.json says'):
        pyodide.prepare()


def test_neither_source(place, capsys):
    "The site is built all the same: the build says what is missing, and the pages are told."
    pyodide.prepare()
    assert told(place) == pyodide.NONE
    said = capsys.readouterr().err
    assert 'No Pyodide: ERROR: no network' in said and 'PYODIDE=folder' in said
    assert not list((place / 'static').rglob('*.whl'))
