"engine/known_parts: the atoms of a composition, beside sums with 40 digits."
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp

from dp_saddle import Discrete, Laplace
from dp_saddle.base import ULP
from dp_saddle.engine.known_parts import FEW_OUTCOMES, atoms_apart, composed_atoms, log_outcomes

RUNS = [5*Laplace(scale=.7), 40*Laplace(scale=3.) + 2*Discrete(p=(.5, .3, .2), q=(.2, .3, .5)),
        3*Discrete(p=(1e-9, .4, .6 - 1e-9), q=(.1, .5, .4)) + 7*Laplace(scale=50.)]

def exact_transform(plrv, z):
    "The product of the steps' sums over their atoms, with many digits."
    def one(part):
        pairs = zip(*part.atoms, strict=True)
        return mp.fsum(mp.exp(mp.mpf(w) + mp.mpc(z)*mp.mpf(l)) for l, w in pairs)
    return mp.fprod(one(part)**n for part, n in plrv.parts)

@pytest.mark.parametrize('run', RUNS, ids=str)
@pytest.mark.parametrize('t, h', [(.3, .01), (4., 2.), (30., 700.)])
def test_the_transform_of_atoms(run, t, h):
    "Off by no more than it says, and that is little; beyond a block of columns too."
    plrv = run.remove
    s, base = h*np.arange(1500), float(plrv.cgf(t))
    A, most, ulps = atoms_apart(plrv, plrv.ess_sup).on_line(t, s, base)
    with mp.workdps(40):
        for i in (0, 1, 511, 512, 1499):
            exact = exact_transform(plrv, t + 1j*s[i])*mp.exp(-mp.mpf(base))
            assert abs(mp.mpc(A[i]) - exact) <= most*ULP*ulps[i] < 1e-7*most
    assert (np.abs(A) <= most*(1 + 1e-9)).all() and most <= 1 + 1e-9

@pytest.mark.parametrize('run', RUNS, ids=str)
def test_the_curve_of_atoms(run):
    "Every outcome by itself; the same in a line's units."
    plrv = run.remove
    part, eps = atoms_apart(plrv, plrv.ess_sup), np.array([-1., 0., .5, .9])*plrv.ess_sup
    low, _, up = part.log_bounds(eps)
    with mp.workdps(40):
        sums = {mp.mpf(0): mp.mpf(1)}
        for one, n in plrv.parts:
            for _ in range(n):
                new = {}
                for x, p in sums.items():
                    for l, w in zip(*one.atoms, strict=True):
                        at = mp.nint((x + mp.mpf(l))*mp.mpf(10)**25)/mp.mpf(10)**25
                        new[at] = new.get(at, 0) + p*mp.exp(mp.mpf(w))
                sums = new
        exact = [mp.log(mp.fsum(p*max(-mp.expm1(mp.mpf(e) - x), 0) for x, p in sums.items()))
                 for e in eps]
    assert all(a <= x <= b for a, x, b in zip(low, exact, up, strict=True))
    assert (up - low).max() < 1e-9
    line = SimpleNamespace(base=.7, plan=SimpleNamespace(t=2.))
    least, _, most = np.log(part.over(line, eps)) + line.base - 2*eps
    assert all(a <= x <= b for a, x, b in zip(least, exact, most, strict=True))

def test_atoms_that_are_too_many():
    "As many outcomes as said, up to the limit; and none where a step has a density only."
    four = Discrete(p=(.25,)*4, q=(.1, .2, .3, .4))
    for n in (71, 72):
        many, atoms = round(np.exp(log_outcomes(4, n))), composed_atoms((n*four).remove)
        assert many == (n + 1)*(n + 2)*(n + 3)//6
        assert atoms is None if many > FEW_OUTCOMES else len(atoms[0]) == many
