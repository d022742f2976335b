"losses/steepest_descent: what a sampled Laplace step's density gives far out, from both ends."
import numpy as np
import pytest
from mpmath import mp

from dp_saddle import ContourAccountant, Laplace, PoissonSubsampled
from dp_saddle.engine.endpoint_expansion import EndsTable
from dp_saddle.engine.line import CgfTable
from dp_saddle.losses.long_lines import quotient, quotients_on
from dp_saddle.losses.steepest_descent import COLUMNS, descents, turns


def sampled(scale, rate): return PoissonSubsampled(base=Laplace(scale=scale), rate=rate)

def exact(loss, t, s):
    "M(t + is)/M(t), an integral over the base loss itself, in as many pieces as it has waves."
    d, q = mp.mpf(loss.mu), mp.mpf(loss.rate)
    z, sign = mp.mpc(t, s), 1 if loss.top == 'remove' else -1
    def w(l): return 1 - q + q * mp.exp(l)
    span = mp.log(w(d) / w(-d))
    waves = int(mp.ceil(abs(s) * span / (2 * mp.pi))) + 4
    # cut where the loss has gone on by one wave
    at = [mp.log((w(-d) * mp.exp(span * k / waves) - 1 + q) / q) for k in range(1, waves)]
    def M(z):
        p = 1 + z if sign > 0 else -z
        def inside(l): return w(l)**p * mp.exp(-(l + d) / 2) / 4
        return mp.quad(inside, [-d, *at, d]) + w(-d)**p / 2 + w(d)**p * mp.exp(-d) / 2
    return M(z) / M(mp.mpf(t))

@pytest.mark.parametrize('top', ['remove', 'add'])
@pytest.mark.parametrize('scale, rate, t, h', [
    (1.3, 0.02, 10.0, 0.9), (0.7, 0.2, 2.0, 0.2), (3.0, 0.5, 4.0, 1.1), (0.4, 0.9, 0.3, 0.17)])
def test_beside_an_integral(scale, rate, t, h, top):
    "Over real base losses: no path, no end is apart in it."
    loss = getattr(sampled(scale, rate), top)
    found = descents(loss, t, h, loss.known_cgf(t))
    row, allowed = found.at(np.array([found.first])), found.off + found.drift * h * found.first
    assert allowed < 1e-11
    with mp.workdps(25):
        for column in (0, 1, 200):
            s = mp.mpf(h) * (found.first + column)
            assert abs(complex(mp.mpc(row[0, column]) - exact(loss, t, s))) <= allowed

def drawn(seed):
    "A step, a tilt and a distance of frequencies, far apart from seed to seed."
    chance = np.random.default_rng(seed)
    scale, rate = np.exp(chance.uniform(-2, 2)), np.exp(chance.uniform(np.log(1e-3), -0.05))
    return sampled(scale, rate), np.exp(chance.uniform(-1, 5)), np.exp(chance.uniform(-2, 3))

@pytest.mark.parametrize('seed', range(16))
def test_as_lines_have_it(seed):
    step, t, h = drawn(seed)
    s = h * np.arange(40 * COLUMNS)
    for loss in (step.remove, step.add):
        found = descents(loss, t, h, loss.known_cgf(t))
        if found is None or found.first > len(s) // 2: continue
        rows = np.arange(found.first, len(s), COLUMNS)
        M = found.at(rows).ravel()[:len(s) - found.first]
        values = loss.line(t, s)
        line, off = np.exp(values.change), np.expm1(np.minimum(values.log_error, 600))
        allowed = (found.off + found.drift * s + np.abs(line) * off)[found.first:]
        assert (np.abs(M - line[found.first:]) <= allowed).all()
        assert found.off < 1e-9

def test_rows_do_not_depend_on_their_neighbours():
    "Asked for in blocks or alone, from any frequency on: nodes and points differ, values do not."
    loss, t, h = sampled(0.5, 0.05).add, 3.0, 0.5
    found = descents(loss, t, h, loss.known_cgf(t))
    rows = found.first + COLUMNS * np.arange(40)
    whole = found.at(rows)
    alone = np.concatenate([found.at(rows[k:k + 1]) for k in range(40)])
    parts = np.concatenate([found.at(part) for part in np.array_split(rows, 3)])
    later = found.at(rows[:-1] + COLUMNS // 2).ravel()
    allowed = 2 * (found.off + found.drift * h * (rows[-1] + COLUMNS))
    for other in (alone, parts): assert np.abs(whole - other).max() <= allowed
    assert np.abs(whole.ravel()[COLUMNS // 2:-COLUMNS // 2] - later).max() <= allowed

@pytest.mark.parametrize('seed', range(30))
def test_farther_out_there_are_no_more_nodes(seed):
    "But for one panel: what rows are off by counts those of the first, of an octave and a row."
    step, t, h = drawn(seed)
    found = descents(step.add, t, h, step.add.known_cgf(t))
    if found is None: return
    counted = len(found.nodes(found.first, max(2 * found.first, found.first + COLUMNS))[0])
    for k in found.first * np.geomspace(1, 1e4, 40):
        for last in (k + COLUMNS, max(2 * k, k + COLUMNS)):
            assert len(found.nodes(k, last)[0]) <= counted + 16

def test_where_there_are_no_tables():
    "Without a sample a formula; where the lower end's loss is flat to nine digits, nodes."
    t, h = 2.0, 0.5
    for step in (sampled(0.04, 0.01), sampled(0.001, 0.5)):
        assert quotient(step.remove, t, h, (0.0, 0.0)) is None
    plain = sampled(3.0, 1.0).remove
    assert quotient(plain, t, h, plain.known_cgf(t)) is not None
    late = descents(sampled(1.0, 0.1).remove, 400.0, 0.1, (3.0, 0.0))
    assert late.first > 900                     # frequencies are at least a fourth of the tilt
    s = 0.1 * np.arange(3000)
    plrv = (5 * sampled(1.0, 0.1)).remove
    found, line = quotients_on(plrv, 400.0, s), np.exp(plrv.line(400.0, s).change)
    assert (np.abs(found.M - line) <= found.noise).all() and found.noise.max() < 1e-11
    assert (found.M != line).any()

def test_turns():
    y = np.array([0.3, -1.7, 0.0])
    for count, first in ((1, 0), (10, 3), (137, 0.5)):
        found = turns(y, 0.11, count, first)
        assert found.shape == (count, 3)
        expected = np.exp(1j * np.multiply.outer(0.11 * (first + np.arange(count)), y))
        assert np.abs(found - expected).max() < 1e-13

@pytest.mark.parametrize('n, step', [
    (3, sampled(0.5, 0.2)), (4, sampled(2.0, 0.3)), (2, sampled(0.25, 0.1))])
def test_beside_ends(n, step):
    "Few steps have a curve of their own (engine/line, Ends), which shares no line with this one."
    plrv = (n * step).remove
    assert EndsTable.fit(plrv)
    eps = plrv.ess_sup * np.array([0.2, 0.5, 0.7])
    low, _, up = CgfTable(plrv, shortcut=False).log_delta(eps)
    below, _, above = EndsTable(plrv).log_delta(eps)
    assert (low <= above).all() and (below <= up).all() and (up - low < 1e-4).all()

def test_two_kinds_are_as_narrow():
    run = 30 * sampled(1.3, 0.012) + 30 * sampled(2.2, 0.007)
    found = ContourAccountant(run).epsilon(1e-6)
    assert found.lower <= 0.19851838303 <= found.upper and found.width < 3e-9
