"A proved number halved or doubled is noticed: its check fails."
import ast
import functools
import importlib
import re
import sys
from contextlib import contextmanager

import pytest

from claims import CHECKS, at, changed, places
from house import MODULES, headings
from index_of_claims import CLAIMS, index, names
from index_of_claims import place as place_of
from test_constants import TABLE, constants, page_text


def numbers():
    "(module, name, *place) of all proved numbers."
    for module, path in MODULES.items():
        for name in sorted(constants(path.read_text(encoding="utf-8"), ("Proved",))):
            value = getattr(importlib.import_module(f"dp_saddle.{module}"), name)
            yield from ((module, name, *place) for place in places(value))


NUMBERS = list(numbers())


def caches():
    "Everything of the library that keeps answers."
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith("dp_saddle"):
            found += [v for v in vars(module).values() if hasattr(v, "cache_clear")]
    return found


@functools.cache
def imports():
    "(module, where from, name) of what the library's modules take from each other."
    return [(module, (node.module or "").split(".")[-1], part.name)
            for module, path in MODULES.items()
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom) for part in node.names]


def holders(module, name):
    "The modules that have this constant: its own, and those that import it."
    own = importlib.import_module(f"dp_saddle.{module}")
    others = [importlib.import_module(f"dp_saddle.{other}") for other, source, found in imports()
              if found == name and source in module.split(".")]
    return [own, *(m for m in others if getattr(m, name) is getattr(own, name))]


@contextmanager
def mutant(key, factor):
    module, name, *place = key
    modules = holders(module, name)
    before = getattr(modules[0], name)
    after = changed(before, place, factor)
    assert after != before
    kept = caches()
    try:
        for m in modules:
            setattr(m, name, after)
        for cache in kept:
            cache.cache_clear()
        yield after
    finally:
        for m in modules:
            setattr(m, name, before)
        for cache in kept:
            cache.cache_clear()


def test_no_number_is_without_a_check_or_a_reason():
    "The page has those whose half and double are not noticed, and says when a change is."
    rows = re.findall(r"^\| `([\w.]+)\.(\w+)((?:\[\w+\])*)` \| (?:at|from|never|it is)\b",
                      page_text(), flags=re.M)
    excused = {f"{module}.{name}{place}" for module, name, place in rows}
    needed = set()
    for module, name, *place in NUMBERS:
        check = CHECKS.get((module, name, *place))
        value = at(getattr(importlib.import_module(f"dp_saddle.{module}"), name), place)
        of_range = TABLE[module][name][2].startswith("range")
        if value and not of_range and not (check and {.5, 2} & set(check.wrong)):
            whole, part = f"{module}.{name}", "".join(f"[{x}]" for x in place)
            needed.add(whole if whole in excused else whole + part)
    assert needed == excused
    assert {key[:2] for key in CHECKS} <= {(m, n) for m, rows in TABLE.items() for n in rows}


def test_every_constant_names_its_claim():
    "Names are those of claims or of parts of pages; a theorem has one, a source or a formula."
    for module, rows in TABLE.items():
        for constant, row in rows.items():
            for name in names(row):
                assert place_of(module, row, name), f"{module}.{constant}: there is no {name!r}"
            if row[2].startswith("theorem"):
                assert names(row) or re.search(r"\$|\d{4}|\[", row[2]), f"{module}.{constant}"


def test_the_index_has_all_claims():
    "And the headings that it links to are there. Mend: python tests/index_of_claims.py"
    assert index() in page_text()
    for path, found in CLAIMS.items():
        assert {claim.anchor for claim in found} <= headings(path), path


@pytest.mark.parametrize("key", CHECKS, ids=lambda key: ".".join(map(str, key)))
def test_a_wrong_number_is_noticed(key):
    module, name, *place = key
    value = getattr(importlib.import_module(f"dp_saddle.{module}"), name)
    CHECKS[key].run(at(value, place))
    for factor in CHECKS[key].wrong:
        with mutant(key, factor) as wrong:
            try:
                CHECKS[key].run(at(wrong, place))
            except Exception:
                continue
        pytest.fail(f"{'.'.join(map(str, key))} times {factor}: not noticed")
