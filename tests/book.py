"""The site's pages as docs/source.py makes them, without building the site: what their cells need,
what they print, their exercises and solutions, and the Python of static/python-worker.js."""

import functools
import gc
import json
import re
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / 'docs'))

import pyodide  # noqa: E402, F401
import runnable  # noqa: E402
import source  # noqa: E402

WORKER = ROOT / 'docs' / 'static' / 'python-worker.js'


@functools.cache
def page(name):
    "The page's cells, and what its script reads: {cells, exercises}."
    gc.disable()  # syntax trees are many objects, and kept: to look through them takes as long
    try:
        return made(name)
    finally:
        gc.freeze()
        gc.enable()


def made(name):
    "The same, made anew."
    nb = nbformat.read(ROOT / 'nbs' / f'{name}.ipynb', as_version=4)
    made = dict.fromkeys(source.calls({name: nb}), 'an explorer')
    nb = runnable.annotate(source.page(nb, name, made, {}), name)
    found = re.findall(r'id="run-data">(.*?)</script>', nb.cells[-1].source, flags=re.S)
    return nb.cells, json.loads(found[0].replace('<\\/', '</')) if found else None


def placed(name):
    "[(place, cell)] of the cells that have buttons."
    for cell in page(name)[0]:
        for tag in cell.metadata.get('tags', []):
            if tag.startswith('run-'):
                yield int(tag[4:]), cell


def codes(name):
    "{place: code} of all cells that a page may run."
    shown = {k: cell.source for k, cell in placed(name)}
    return {k: row.get('code', shown.get(k)) for k, row in enumerate(page(name)[1]['cells'])}


def stored(name):
    "{place: (id, text)} of the cells that print, as stored."
    found = {}
    for place, cell in placed(name):
        outputs = [o for o in cell.get('outputs', []) if 'image/png' not in o.get('data', {})]
        if outputs:
            texts = [o.text if 'text' in o else o.data['text/plain'] for o in outputs]
            found[place] = cell.id, ''.join(texts)
    return found


def setup(name, needs):
    "The codes of these places as Run has them: from the library what is in it."
    rows, code = page(name)[1]['cells'], codes(name)
    return [rows[k].get('library', code[k]) for k in needs]


def solutions(name):
    "{label: code} of the exercises' solutions, as a reader would copy them."
    found, label = {}, None
    for cell in page(name)[0]:
        if cell.cell_type == 'markdown':
            if start := re.search(r'\{solution-start\} (\S+)', cell.source):
                label = start[1]
            elif '{solution-end}' in cell.source:
                label = None
        elif label:
            found.setdefault(label, []).append(cell.source)
    return {label: '\n'.join(parts) for label, parts in found.items()}


def exercises(name):
    "The labels of all exercises of a page."
    text = '\n'.join(c.source for c in page(name)[0] if c.cell_type == 'markdown')
    return re.findall(r'^`+\{exercise\}.*\n:label: (\S+)', text, flags=re.M)


def names():
    "All pages that are notebooks."
    found = ((ROOT / 'nbs').rglob('*.ipynb'))
    all_names = (p.relative_to(ROOT / 'nbs').with_suffix('').as_posix() for p in found)
    return sorted(n for n in all_names if not re.search(r'(^|/)[._]', n))


def harness():
    "The worker's own functions: cell, judge."
    (text,) = re.findall(r'String\.raw`(.*?)`;', WORKER.read_text(encoding='utf-8'), flags=re.S)
    space = {'__file__': '<harness>', '__name__': 'harness'}
    exec(compile(text, '<harness>', 'exec'), space)
    return space
