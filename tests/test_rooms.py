"""Calls across rooms for one eps: a question goes down through the folders, and not to and fro."""
import os
import sys
from collections import Counter

import pytest

import dp_saddle
from dp_saddle import BallsInBins, Gaussian, Laplace, PoissonSubsampled, epsilon

LIBRARY = os.path.dirname(dp_saddle.__file__) + os.sep

def sampled(base, rate=.01):
    return PoissonSubsampled(base=base, rate=rate)

# A run, and how many calls across rooms its eps may take when it is asked a second time.
RUNS = {
    "sampled Gaussians": (lambda: 3000 * sampled(Gaussian(sigma=1.)), 5),
    "Gaussians": (lambda: 30 * Gaussian(sigma=5.), 10),
    "Laplace": (lambda: 20 * Laplace(scale=5.), 40),
    "sampled Laplace": (lambda: 20 * sampled(Laplace(scale=1.)), 40),
    "sampled Laplace and sampled Gaussians":
        (lambda: 1000 * sampled(Laplace(scale=1.)) + 100 * sampled(Gaussian(sigma=1.)), 40),
    "sampled Laplace and Gaussians":
        (lambda: 1000 * sampled(Laplace(scale=1.)) + 10 * Gaussian(sigma=10.), 55),
    "one epoch of bins": (lambda: BallsInBins(Gaussian(sigma=1.), batches=100), 40),
    "ten epochs of bins": (lambda: 10 * BallsInBins(Gaussian(sigma=1.), batches=100), 40),
}

def room(frame):
    "The folder or the chapter that a frame's code is in; None outside of the library."
    path = frame.f_code.co_filename
    return path[len(LIBRARY):].split(os.sep)[0] if path.startswith(LIBRARY) else None

def calls_across(ask):
    """{(from, to): how many calls}. The ground floor, `base`, is everywhere: a call through it
    counts as one of whoever called it, and a call of it does not count."""
    found = Counter()
    def look(frame, event, _):
        if event != "call" or (here := room(frame)) in (None, "base"): return
        before = frame.f_back
        while before is not None and room(before) in (None, "base"): before = before.f_back
        if before is not None and room(before) != here: found[room(before), here] += 1
    sys.setprofile(look)
    try: ask()
    finally: sys.setprofile(None)
    return found

@pytest.mark.parametrize("name", RUNS)
def test_a_question_crosses_few_doors(name):
    "Asked again, of a run that is made anew."
    run, most = RUNS[name]
    epsilon(run(), delta=1e-5)
    found = calls_across(lambda: epsilon(run(), delta=1e-5))
    assert 0 < found.total() <= most, found.most_common()
