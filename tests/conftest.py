import gc
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from dp_saddle.base import numerics

if os.environ.get("TESTS_IN_DOUBLES"):  # levels.py; before anything else of the library is loaded
    numerics.EXTENDED = np.float64

# Thousands of tests keep a million objects: to look through them for garbage as often as for a
# small program takes a fifth of the time, and finds nothing.
gc.set_threshold(100_000)
os.environ.setdefault("MPLBACKEND", "Agg")  # no window
# With nbformat comes a grammar of addresses that takes a second to compile, and judges no notebook.
sys.modules.setdefault("rfc3987_syntax", None)

# A plain run tries the same examples each time and never fails for a slow machine; "make test-slow"
# goes further.
settings.register_profile("plain", max_examples=30, derandomize=True, deadline=None)
settings.register_profile("slow", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("plain")

# {module: {function: ids}}: the examples that take a second, of tests that have quick ones too.
SLOW = json.loads((Path(__file__).parent / "slow.json").read_text(encoding="utf-8"))
LOST = pytest.StashKey[list]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    "They are in the slow run. LOST: those that are not there, of the tests that are collected."
    found = {}
    for item in items:
        module, function = item.path.stem.removeprefix("test_"), getattr(item, "originalname", "")
        example = getattr(item, "callspec", None)
        if example and function in SLOW.get(module, {}):
            found.setdefault((module, function), set()).add(example.id)
            if example.id in SLOW[module][function]:
                item.add_marker(pytest.mark.slow)
    config.stash[LOST] = [
        (*test, example)
        for test, ids in found.items()
        for example in SLOW[test[0]][test[1]]
        if example not in ids
    ]


def pytest_collection_finish(session):
    "What has been collected stays to the end: it is not looked through any more."
    gc.collect()
    gc.freeze()
