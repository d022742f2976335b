"""What users have written keeps working: the public signatures, as they were said last.

`python tests/test_signatures.py` writes them anew, into tests/signatures.json: do so together with
a line in
CHANGELOG.md, and where a name or a parameter goes, with a deprecation (CONTRIBUTING.md says
how)."""
import inspect
import json
from pathlib import Path

import dp_saddle

FILE = Path(__file__).with_name("signatures.json")

def signature(thing):
    "Parameters without their annotations, which are comments; defaults as they are written."
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=found.empty))

def members(cls):
    "Public methods and properties of a class and those it inherits from ours: {name: signature}."
    found = {}
    for name in dir(cls):
        if name.startswith("_"):
            continue
        owner = next((c for c in cls.__mro__ if name in vars(c)), None)
        if owner is None or not owner.__module__.startswith("dp_saddle"):
            continue
        thing = inspect.getattr_static(cls, name)
        if isinstance(thing, (staticmethod, classmethod)):
            thing = thing.__func__
        if inspect.isfunction(thing):
            found[name] = signature(thing)
        elif isinstance(thing, property) or hasattr(thing, "__get__"):
            found[name] = "property"
    return found

def public():
    "{name: signature, or members and the constructor's signature} of all that `dp_saddle` exports."
    said = {}
    for name in sorted(dp_saddle.__all__):
        thing = getattr(dp_saddle, name)
        if inspect.isclass(thing):
            said[name] = {"()": signature(thing), **members(thing)}
        else:
            said[name] = signature(thing)
    return said

def test_public_signatures():
    "Nothing public has changed without being said."
    now, before = public(), json.loads(FILE.read_text(encoding="utf-8"))
    changed = {name: (before.get(name), now.get(name))
               for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    assert not changed, f"(before, now), see the top of {Path(__file__).name}: {changed}"

def test_a_change_is_noticed():
    "A parameter that is renamed, made positional or given another default shows."
    def one(run, *, delta):
        return run
    def other(run, delta):
        return run
    assert signature(one) == "(run, *, delta)" != signature(other)
    assert members(dp_saddle.Accountant)["delta"] == "(self, eps)"
    assert members(dp_saddle.PLRV)["largest_tilt"] == "property"

if __name__ == "__main__":
    FILE.write_text(json.dumps(public(), indent=1) + "\n", encoding="utf-8")
