"""What the comments of a signature say, `help` says too: docs/docments.py and docs/export.py."""
import ast
import inspect
import pydoc
from pathlib import Path

import docments
import pytest

import dp_saddle
from house import MODULES

ROOT = Path(__file__).resolve().parent.parent
HAND = '''
class Pair(NamedTuple):
    "Two numbers."
    low: float      # proved, nats,
                    # >= 0
    high: float
    _kept: int = 0  # private

def f(
    w=(1,
       2), x=3,  # two things, as \\mu
    y=0,
    *args,      # others
    # in a line above,
    z,          # [0, 1]
    **named
):              # their sum
    "It's added."
    return x

class Made:
    "A class."
    def __init__(self,
        n=None,  # how many
    ):
        self.n = n

def _hidden(
    a,   # said here only
): "Nothing."

def short(a): # what comes back
    """Over two lines, as one cannot hold what there is to say, were it only for the sake of
    the width."""
    return a
'''

def test_by_hand():
    "Functions, fields and constructors; names that share a line; comments that go on."
    made = docments.completed(HAND)
    docs = {n.name: ast.get_docstring(n) for n in ast.walk(ast.parse(made))
            if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    assert docs["Pair"] == ("Two numbers.\n\nParameters\n----------\nlow\n    proved, nats, >= 0")
    assert docs["f"] == ("It's added.\n\nParameters\n----------\nw, x\n    two things, as "
                         "\\mu\n*args\n    others\nz\n    in a line above, [0, 1]\n\nReturns\n"
                         "-------\ntheir sum")
    assert docs["Made"] == "A class."
    assert docs["__init__"] == "Parameters\n----------\nn\n    how many"
    assert docs["_hidden"] == "Nothing."
    assert docs["short"] == (
        "Over two lines, as one cannot hold what there is to say, were it only for the sake of\n"
        "the width.\n\nReturns\n-------\nwhat comes back")
    assert docments.without(made) == HAND

@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES)
def test_there_and_back(path):
    "What docs/update.py takes back to a notebook is what came from there."
    text = path.read_text(encoding="utf-8")
    before = docments.without(text)
    assert docments.completed(before) == text
    assert "-------\n" not in before

@pytest.mark.parametrize("accountant, method, said", [
    (dp_saddle.EdgeworthInterval, "delta_of", "what the other direction has proved of delta"),
    (dp_saddle.FourierAccountant, "epsilon_of", "in (0, 1), shape (k,)"),
    (dp_saddle.ContourAccountant, "delta_of", "nats, >= 0, shape (k,)"),
    (dp_saddle.MomentsAccountant, "prove_delta", "tilts, > 0, shape (k,)"),
    (dp_saddle.SaddlePointCLT, "log_value", "warn of what is not to be trusted")])
def test_help_of_a_method_that_another_class_describes(accountant, method, said):
    own = vars(accountant)[method]
    assert own.__doc__ is None and said in pydoc.render_doc(own, renderer=pydoc.plaintext)

def test_help_says_what_comments_say():
    for name in dp_saddle.__all__:
        thing = getattr(dp_saddle, name)
        if not inspect.isfunction(thing): continue
        text = Path(inspect.getsourcefile(inspect.unwrap(thing))).read_text(encoding="utf-8")
        node = next(n for n in ast.parse(text).body if getattr(n, "name", "") == name)
        said, _ = docments.described(node, docments.comments_in(text))
        told = " ".join(pydoc.render_doc(thing, renderer=pydoc.plaintext).split())
        for names, comment in said:
            assert f"{', '.join(names)} {' '.join(comment.split())}" in told, name
    assert "builder a function of the parameter -> a mechanism" in " ".join(
        pydoc.render_doc(dp_saddle.calibrate, renderer=pydoc.plaintext).split())

@pytest.mark.parametrize("name", MODULES)
def test_help_takes_no_address_for_words(name):
    "Where there is no docstring, `help` shows the comment above: that is no cell's address."
    path = ROOT/"dp_saddle"/f"{name.replace('.', '/')}.py"
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)): continue
        if ast.get_docstring(node): continue
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        assert not lines[first - 2].startswith("# %%"), node.name
    assert "# %%" not in pydoc.render_doc(dp_saddle.Gaussian.__add__)

def test_a_blank_line_above_what_has_no_docstring():
    made = "# %% x.ipynb #1\n@one\ndef f(a): return a\n\n# %% x.ipynb #2\ndef g():\n    'said'\n"
    moved = docments.apart(made)
    assert moved == made.replace("#1\n", "#1\n\n")
