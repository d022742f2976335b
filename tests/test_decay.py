"""Sums of moduli, which bound what lies beyond a line's end, are rounded up: to the power of 10^13
steps they are bounds still."""

import mpmath as mp
import numpy as np
import pytest

from dp_saddle.base.numerics import ULP
from dp_saddle.losses import moduli as sums_of_moduli
from dp_saddle.losses.densities import SubsampledGaussianLoss
from dp_saddle.losses.laplace import LaplaceLoss
from dp_saddle.losses.mixtures import MixtureLoss
from dp_saddle.losses.nodes import FiniteLoss
from dp_saddle.losses.windows import WindowedGaussianLoss
from dp_saddle.steps.builders import MixedLoss

BARE = SubsampledGaussianLoss(1 / 0.8, 0.001, 'remove')
LOSSES = {
    'sampled': SubsampledGaussianLoss(1 / 2, 0.01, 'remove'),
    'adding': SubsampledGaussianLoss(1 / 9.4, 0.32768, 'add'),
    'rare': SubsampledGaussianLoss(1.0, 1e-9, 'remove'),
    'mixture': MixtureLoss(1.5, (0.0, 1.0, 2.5), (0.9, 0.07, 0.03), 'remove'),
    'laplace': LaplaceLoss(1.7, 0.1, 'remove'),
    'laplace, adding': LaplaceLoss(0.4, 0.9, 'add'),
    'window': WindowedGaussianLoss(BARE, 3.0, 5.0, 0.3, 5 + 20 * 0.3),
}
PLACES = (0.7, 0.01), (2.0, 1.3), (9.0, 30.0), (40.0, 3.0)


def moduli(loss, t, s):
    "log of the sum of moduli on the farthest path, its nodes off by all that is said: 50 digits."
    y, logw = loss.path(t, s, 1.0)
    off = np.broadcast_arrays(*loss.moduli_off(t, 1.0, y, logw), y.real)[:2]
    atoms = len(loss.atoms[0])
    with mp.workdps(50):
        terms = []
        for l, w, moved, weighed in list(zip(y, logw, *off, strict=True))[atoms:]:
            l, w, size = mp.mpmathify(complex(l)), mp.mpmathify(complex(w)), mp.mpf(ULP)
            more = size * (mp.mpf(float(weighed)) + (t + s) * mp.mpf(float(moved)))
            terms.append(mp.exp(mp.re(w) + t * mp.re(l) - s * mp.im(l) + more))
        return mp.log(mp.fsum(terms))


def found(loss, t, s):
    return mp.mpf(float(loss.log_modulus(t, np.array([s]), (1.0,))[0, 0]))


@pytest.mark.parametrize('name', LOSSES)
def test_sums_of_moduli_are_rounded_up(name):
    "Above the sum of true nodes wherever they may be, and not by much."
    loss = LOSSES[name]
    for t, s in PLACES:
        gap = float(found(loss, t, s) - moduli(loss, t, s))
        assert 0 < gap < 1e-11 * (1 + abs(t) + s), (t, s, gap)


@pytest.mark.parametrize('name', LOSSES)
def test_a_shortfall_is_noticed(name, monkeypatch):
    "Where nothing is rounded up, some are below."
    monkeypatch.setattr(sums_of_moduli, 'ULP', 0.0)
    loss = LOSSES[name]
    loss.__dict__.pop('answers', None)
    gaps = [float(found(loss, t, s) - moduli(loss, t, s)) for t, s in PLACES]
    loss.__dict__.pop('answers', None)
    assert min(gaps) < 0


def over(t, y, logw):
    "log_moduli of nodes that are exact, at frequency 0, over the sum in 50 digits; in ULP."
    found = sums_of_moduli.log_moduli(t, np.zeros(1), np.array(y) + 0j, np.array(logw) + 0j, (0, 0))
    with mp.workdps(50):
        terms = [mp.exp(mp.mpf(w) + mp.mpf(t) * mp.mpf(l)) for l, w in zip(y, logw, strict=True)]
        return float((mp.mpf(float(found[0])) - mp.log(mp.fsum(terms))) / ULP)


# Numpy adds up a row in eight sums. What is below half an ULP is lost in the one that begins with
# 1: fifteen terms, 7.5 ULP in all.
LOST = 1.0, [0.0] * 128, [0.0, *[float(np.log(0.499 * ULP))] * 127]
# Half an ULP of 1024 is 512 ULP of 1. The product, its sum with log w and the logarithm's sum with
# it are rounded down, by nearly 1500 together; the exponents' own allowance is 1060.
FALLS = 1.7673, [582.25, 578.638], [511 * ULP, 0.0]


@pytest.mark.parametrize('name, case', [('_MODULUS_ULPS', LOST), ('_LOG_ULPS', FALLS)])
def test_each_allowance_of_a_sum_is_needed(name, case, monkeypatch):
    "The sums are rounded up; without one of the allowances, one of them is not."
    assert over(*case) > 0
    monkeypatch.setattr(sums_of_moduli, name, 0)
    assert over(*case) < 0


def test_atoms_are_rounded_up():
    "The atoms' sum, to the power of 10^13, and each branch's of a mixture."
    rng = np.random.default_rng(3)
    for k in (2, 50, 1000):
        p, q = (v / v.sum() for v in rng.uniform(0.1, 1, (2, k)))
        loss = FiniteLoss(np.log(p), np.log(q))
        for t in (0.3, 4.0, 60.0):
            A, density = loss.decay(t, np.ones(1))
            y, logp = loss.atoms
            moved, weighed = loss.nodes_off(t, 0.0, y, logp)
            with mp.workdps(50):
                pairs = zip(moved + 0 * y, weighed, strict=True)
                off = [ULP * (t * mp.mpf(a) + b) for a, b in pairs]
                atoms = zip(y, logp, off, strict=True)
                exact = mp.log(mp.fsum(mp.exp(w + t * mp.mpf(l) + v) for l, w, v in atoms))
            assert 0 < float(mp.mpf(float(A)) - exact) < 1e-11 * (1 + t)
            assert density[0] == -np.inf


def test_mixed_branches_are_rounded_up():
    "A mixture's bound is above its branches' bounds, mixed with many digits; so is that of atoms."
    branches = [LOSSES['laplace'], LaplaceLoss(1.7, 0.3, 'remove'), LOSSES['sampled']]
    mixed = MixedLoss(np.log([0.5, 0.3, 0.2]), branches)
    s = np.array([0.1, 3.0, 200.0])
    for t in (0.4, 6.0):
        atoms, density = mixed.decay(t, s)
        each = [p.decay(t, s) for p in branches]
        with mp.workdps(50):
            for k, x in enumerate(density):
                parts = [mp.exp(mp.mpf(w) + mp.mpf(float(d.log_density[k])))
                         for w, d in zip(mixed.logw.tolist(), each, strict=True)]
                assert 0 < float(mp.mpf(float(x)) - mp.log(mp.fsum(parts))) < 1e-11
            parts = [mp.exp(mp.mpf(w) + mp.mpf(float(d.log_atoms)))
                     for w, d in zip(mixed.logw.tolist(), each, strict=True)]
            assert 0 < float(mp.mpf(float(atoms)) - mp.log(mp.fsum(parts))) < 1e-11


def test_noise_of_a_mixture_counts():
    "What w is off by besides its nodes is in its sums."
    loss = LOSSES['mixture']
    y, logw = loss.path(2.0, 3.0, 1.0)
    nodes, terms = (f(2.0, 1.0, y, logw) for f in (loss.nodes_off, loss.moduli_off))
    assert all((b > a).all() for a, b in zip(nodes, terms, strict=True))


def test_sums_of_logarithms_are_rounded_up():
    "Products and sums of logarithms of both signs, in rationals' digits."
    rng = np.random.default_rng(1)
    for k in (1, 2, 7, 40):
        counts, logs = rng.integers(1, 10**6, k), rng.normal(size=k)
        found = sums_of_moduli.sum_raised([n * v for n, v in zip(counts, logs, strict=True)])
        with mp.workdps(50):
            exact = mp.fsum(int(n) * mp.mpf(v) for n, v in zip(counts, logs, strict=True))
            assert 0 <= float(mp.mpf(float(found)) - exact) <= 2 * k * ULP * (counts @ abs(logs))
