"losses/laplace: the transform of Laplace noise by its formula."
import numpy as np
import pytest
from mpmath import mp

from dp_saddle import Laplace
from dp_saddle.base.numerics import ULP
from dp_saddle.engine.line import CgfTable
from dp_saddle.losses.laplace import LaplaceLoss, PlainLaplaceLoss
from oracles import few_laplace

NOISES = [1e-9, 1e-4, 0.03, 0.25, 1.0, 4.0, 50.0]


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60): yield


def exact(mu, t, s=0.0):
    "M(t + is), by the integral."
    z, mu = mp.mpc(float(t), float(s)), mp.mpf(mu)
    density = mu / 2 * mp.exp(z * mu) * (1 - mp.exp(-(2 * z + 1) * mu)) / ((2 * z + 1) * mu)
    return mp.exp(z * mu) / 2 + mp.exp(-(1 + z) * mu) / 2 + density


@pytest.mark.parametrize('mu', NOISES)
def test_K(mu):
    loss, used = PlainLaplaceLoss(mu, 1.0, 'add'), 0
    tilts = np.append(0, np.geomspace(1e-7, 1e7, 120))
    K, off = loss.formula(tilts)
    for t, got, allowed in zip(tilts, K, off, strict=True):
        miss = abs(mp.mpf(got) - mp.log(exact(mu, t)).real)
        assert miss <= allowed
        if allowed: used = max(used, miss / allowed)
    assert 0.01 < used < 0.5
    assert (loss.known_cgfs(tilts[1:]) == [K[1:], off[1:]]).all()
    assert loss.known_cgf(float(tilts[50])) == (K[50], off[50])


@pytest.mark.parametrize('mu', NOISES[1:])
def test_what_mu_is_off_by_is_allowed_for(mu):
    tilts = np.geomspace(1e-3, 1e3, 20)
    K, off = PlainLaplaceLoss(mu, 1.0, 'remove').formula(tilts)
    for moved in (mu * (1 + 4 * ULP), mu * (1 - 4 * ULP)):
        for t, got, allowed in zip(tilts, K, off, strict=True):
            assert abs(mp.mpf(got) - mp.log(exact(moved, t)).real) <= allowed


@pytest.mark.parametrize('way', ['remove', 'add'])
@pytest.mark.parametrize('mu', NOISES)
def test_lines(mu, way):
    chance, used = np.random.default_rng(3), 0
    loss = PlainLaplaceLoss(mu, 1.0, way)
    for t in (0.0, 1e-4, 0.3, 2.5, 20.0, 700.0):
        s = np.arange(600) * float(chance.uniform(1e-3, 0.1)) / mu
        found, nodes = loss.line(t, s), LaplaceLoss(mu, 1.0, way).line(t, s)
        assert abs(found.K - nodes.K) <= found.error + nodes.error
        apart = np.abs(np.exp(found.change) - np.exp(nodes.change))
        sizes = np.abs(np.exp(found.change)), np.abs(np.exp(nodes.change))
        allowed = sizes[0] * np.expm1(found.log_error) + sizes[1] * np.expm1(nodes.log_error)
        assert (apart <= allowed + 1e-300).all()
        for k in (1, 3, 77, 599):
            miss = abs(exact(mu, t, s[k]) / exact(mu, t) / mp.exp(mp.mpc(found.change[k])) - 1)
            assert miss <= np.expm1(found.log_error[k])
            used = max(used, miss / np.expm1(found.log_error[k]))
    assert 1e-3 < used < 0.7


@pytest.mark.parametrize('mu', NOISES)
def test_decay(mu):
    loss = PlainLaplaceLoss(mu, 1.0, 'remove')
    for t in (-0.3, 0.0, 0.2, 3.0, 100.0):
        s = np.geomspace(1e-2, 1e5, 60) / mu
        found, before = loss.decay(t, s), LaplaceLoss.decay(loss, t, s)
        assert (np.diff(found.log_density) <= 0).all()
        bound = np.logaddexp(*found)
        for k in (0, 20, 40, 59):
            assert mp.log(abs(exact(mu, t, s[k]))) <= bound[k]
        assert (bound <= np.logaddexp(*before) + np.log(2)).all()


def test_below_0_nodes_are_asked():
    loss, nodes = PlainLaplaceLoss(0.5, 1.0, 'remove'), LaplaceLoss(0.5, 1.0, 'remove')
    assert loss.known_cgf(-0.4) == nodes.known_cgf(-0.4)
    assert (loss.line(-0.4, np.arange(5.0)).change == nodes.line(-0.4, np.arange(5.0)).change).all()
    assert type(loss.reverse) is PlainLaplaceLoss and loss.reverse.top == 'add'


def test_several_kinds_beside_the_exact_sum():
    "A line, and the closed form of the same run."
    run, eps = 6 * Laplace(scale=8.0) + 5 * Laplace(scale=3.0), np.array([0.4, 1.1, 2.0])
    low, _, up = np.exp(CgfTable(run.remove, shortcut=False).log_delta(eps))
    exact = [few_laplace([(6, 1 / 8), (5, 1 / 3)], e) for e in eps]
    assert all(a <= x <= b for a, x, b in zip(low, exact, up, strict=True))
    assert (up - low < 1e-6 * up).all()
