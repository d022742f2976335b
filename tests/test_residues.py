"Chapter 8a: what a step leaves of a Gaussian budget, and a filter that uses it."
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtri

from dp_saddle import GDPFilter, GDPResidueFilter
from dp_saddle.filters import gaussian_epsilon
from dp_saddle.residues import residue


def curve(x, r):
    "D_r at a real x, in as many digits as mpmath has now."
    if not r:
        return max(1 - mp.exp(x), mp.mpf(0))
    return mp.ncdf(r/2 - x/r) - mp.exp(x)*mp.ncdf(-r/2 - x/r)

FEW = settings(max_examples=settings.default.max_examples//4, deadline=None)

@FEW
@given(st.floats(.05, 6), st.floats(.001, 3), st.lists(st.floats(-15, 15), min_size=3, max_size=5))
def test_what_is_left_is_dominated_everywhere(r, e, places):
    "Randomised response and the residue, against the budget; a little more is too much."
    left = residue(r, e)
    with mp.workdps(60):
        r, e = mp.mpf(r), mp.mpf(e)
        p = mp.exp(e)/(1 + mp.exp(e))
        def gap(x, left):
            return curve(x, r) - p*curve(x - e, left) - (1 - p)*curve(x + e, left)
        if np.isnan(left):
            assert gap(mp.mpf(0), mp.mpf(0)) < 1e-13
            return
        left = mp.mpf(float(left))
        # (1e-55: of 60 digits)
        assert all(gap(mp.mpf(x), left) >= -1e-55 for x in (0., *places))
        assert gap(mp.mpf(0), left) < 3e-14 or gap(mp.mpf(0), left*(1 + mp.mpf('1e-9'))) < 0

@given(st.floats(.1, 5), st.floats(1e-3, 2))
def test_never_less_than_squares_leave(r, e):
    size = 2*ndtri(expit(e))
    if size < r*(1 - 1e-9):
        assert residue(r, e)**2 >= (r**2 - size**2)*(1 - 1e-6) - 1e-7

@pytest.mark.parametrize('budget, e, steps', [(1., .1, 98), (3., .5, 35)])
def test_steps(budget, e, steps):
    guard, squares = GDPResidueFilter(budget), GDPFilter(budget)
    while guard.step(eps=e): pass
    while squares.step(2*ndtri(expit(e))*(1 + 1e-12)): pass
    assert guard.steps == steps > 1.45*squares.steps
    assert guard.would_exceed(eps=e) and not guard.would_exceed(eps=0.)

def test_mixed_runs_are_below_the_budget():
    "The exact curve of a run of both kinds, added up over the outcomes of randomised response."
    guard, spent, taken, rng = GDPResidueFilter(1.5), 0., [], np.random.default_rng(0)
    for _ in range(60):
        if rng.random() < .3:
            mu = rng.uniform(.05, .4)
            spent += mu**2*guard.step(mu=mu)
        else:
            e = rng.choice([.1, .2])
            taken += [e]*bool(guard.step(eps=e))
    losses, masses = np.zeros(1), np.ones(1)
    for e in taken:
        losses = np.round(np.append(losses + e, losses - e), 9)
        masses = np.append(masses*expit(e), masses*expit(-e))
        losses, place = np.unique(losses, return_inverse=True)
        masses = np.bincount(place, masses)
    assert len(taken) > 15 and spent > .3
    for x in (0., .3, 1., 2., 4.):
        found = sum(m*float(curve(x - l, np.sqrt(spent))) for m, l in zip(masses, losses))
        allowed = float(curve(x, 1.5))
        assert found <= allowed
        assert x or found > .8*allowed

def test_records_and_files(tmp_path):
    each = GDPResidueFilter(1., n=3)
    assert each.step(eps=[.1, 1.5, 0.]).tolist() == [True, False, True]
    assert each.step(mu=[.5, 1., 0.]).tolist() == [True, True, True] and each.steps == 2
    assert not each.step(mu=[2., 2., 2.]).any() and each.steps == 2
    for name in ('state.json', 'state.npz'):
        each.save(tmp_path/name)
        again = GDPResidueFilter(1., n=3).load(tmp_path/name)
        assert (again.remaining == each.remaining).all() and again.steps == 2
        with pytest.raises(ValueError, match='budget'):
            GDPResidueFilter(2., n=3).load(tmp_path/name)
    state = each.to_dict() | {'square': [2., 0., 0.]}
    with pytest.raises(ValueError): GDPResidueFilter(1., n=3).from_dict(state)

def test_what_is_promised():
    guard = GDPResidueFilter(.7)
    least = gaussian_epsilon(.7, 1e-5)
    assert least <= guard.epsilon(1e-5) < least*(1 + 1e-11)

@pytest.mark.parametrize('ask, words', [
    (dict(), 'eps or mu'), (dict(eps=.1, mu=.1), 'not both'), (dict(eps=-1.), 'eps'),
    (dict(mu=np.nan), 'mu'), (dict(eps=[.1, .1]), 'shape')])
def test_wrong_use_changes_nothing(ask, words):
    guard = GDPResidueFilter(1.)
    for method in (guard.step, guard.would_exceed):
        with pytest.raises(ValueError, match=words): method(**ask)
    assert guard.steps == 0
    for bad in (dict(budget=0.), dict(budget=np.inf), dict(budget=1., n=0)):
        with pytest.raises(ValueError): GDPResidueFilter(**bad)
    assert not guard.step(eps=1e308) and not guard.step(mu=1e308)
