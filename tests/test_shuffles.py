"Shuffled batches: lower bounds are below, whatever is asked."
from math import log

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from dp_saddle import (
    BallsInBins,
    ContourAccountant,
    Gaussian,
    dpsgd,
    epsilon,
    shuffled_lower_bound,
)
from dp_saddle.sampling.shuffles import max_slices

# What a shuffled run costs at least

@pytest.mark.parametrize('sigma, batches, least', [(.5, 10**4, 10.99479), (.35, 1000, 17.0764)])
def test_published_lower_bounds(sigma, batches, least):
    found = shuffled_lower_bound(sigma, batches=batches, epochs=1, delta=1e-6)
    assert found == pytest.approx(least, abs=2e-5)
    assert found < epsilon(Gaussian(sigma=sigma), delta=1e-6) < found + .003

@pytest.mark.parametrize('sigma, batches', [(.5, 100), (.8, 1000), (1.5, 20)])
@pytest.mark.parametrize('relation, hidden', [('zero-out', 1.), ('replace-one', 0.)])
def test_no_threshold_proves_less(sigma, batches, relation, hidden):
    "The bound is at least what each of many thresholds proves, in 50 digits."
    mp.mp.dps = 50
    d = 1e-5
    found = shuffled_lower_bound(sigma, batches=batches, epochs=1, delta=d, relation=relation)
    def tail(c, mean): return 1 - mp.ncdf(c/sigma)**(batches - 1)*mp.ncdf((c - mean)/sigma)
    for c in np.linspace(1, 2 + 4*sigma, 25):
        p, q = tail(mp.mpf(c), 2), tail(mp.mpf(c), hidden)
        if p > d: assert found >= mp.log((p - d)/q) - 1e-7

def test_one_batch_is_a_gaussian():
    for relation, apart in (('zero-out', 1.), ('replace-one', 2.)):
        found = shuffled_lower_bound(1.5, batches=1, epochs=1, delta=1e-6, relation=relation)
        exact = epsilon(Gaussian(sigma=1.5, sensitivity=apart), delta=1e-6)
        assert exact - 1e-6 < found <= exact

@pytest.mark.parametrize('sigma, batches, epochs', [
    (.4, 1000, 3), (.8, 100, 10), (1., 1000, 10), (3., 50, 30)])
def test_between_bins_and_no_amplification(sigma, batches, epochs):
    found = shuffled_lower_bound(sigma, batches=batches, epochs=epochs, delta=1e-5)
    bins = ContourAccountant(epochs*BallsInBins(Gaussian(sigma=sigma), batches=batches))
    assert bins.epsilon(1e-5).lower - 1e-9 <= found <= epsilon(epochs*Gaussian(sigma=sigma),
                                                                delta=1e-5)

def test_more_epochs_and_smaller_delta_cost_more():
    given = dict(batches=200, delta=1e-6)
    epochs = [shuffled_lower_bound(.6, epochs=n, **given) for n in (0, 1, 2, 5)]
    assert epochs[0] == 0 and (np.diff(epochs) > 0).all()
    deltas = [shuffled_lower_bound(.6, batches=200, epochs=2, delta=d) for d in (.1, 1e-3, 1e-9)]
    assert (np.diff(deltas) > 0).all()

def test_simulated_runs_show_no_more():
    "Two epochs of a real data set, by the sum of the largest two: what is seen is about as much."
    rng, sigma, T, size, n = np.random.default_rng(1), .7, 5, 4, 200_000
    least = {}
    for record in (1., 0.):
        data = np.r_[record, -np.ones(T*size - 1)]
        total = 0.
        for _ in range(2):
            order = rng.permuted(np.tile(data, (n, 1)), axis=1).reshape(n, T, size).sum(2)
            total = total + (order + size + sigma*rng.standard_normal((n, T))).max(1)
        least[record] = total
    c, d = 5., 1e-3
    p, q = ((least[r] > c).mean() for r in (1., 0.))
    shown = log((p - 4*np.sqrt(p/n) - d)/(q + 4*np.sqrt(q/n)))
    assert .2 < shown < shuffled_lower_bound(sigma, batches=T, epochs=2, delta=d) + 1e-9

def test_slices_are_probabilities():
    for relation in ('zero-out', 'replace-one'):
        for dropped in (0., .3):
            step = max_slices(sigma=.5, batches=100, relation=relation, dropped=dropped)
            assert sum(step.p) == pytest.approx(1) == sum(step.q)
    full, some = (epsilon(max_slices(sigma=.5, batches=100, dropped=x), delta=1e-5)
                  for x in (0., .3))
    assert some < full

def test_a_left_out_record_costs_less():
    eps = [shuffled_lower_bound(s, batches=50, epochs=n, delta=1e-5, dropped=.2)
           for s, n in ((.5, 1), (.5, 3), (2., 3))]
    all_in = [shuffled_lower_bound(s, batches=50, epochs=n, delta=1e-5)
              for s, n in ((.5, 1), (.5, 3), (2., 3))]
    assert (np.array(eps) < all_in).all() and min(eps[:2]) > 0

@pytest.mark.parametrize('bad, message', [
    (dict(run=0.), 'run must'), (dict(batches=0), 'batches must'),
    (dict(batches=2.5), 'batches must'), (dict(batches=None), 'batches must'),
    (dict(epochs=-1), 'epochs must'), (dict(delta=-1e-9), 'delta must'),
    (dict(relation='add-remove'), 'relation must'), (dict(dropped=1.), 'dropped must')])
def test_bad_input(bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        shuffled_lower_bound(**(dict(run=1., batches=10, epochs=1, delta=1e-5) | bad))

@pytest.mark.parametrize('sigma', [1e-3, .05, .149, 30., 1e4])
@pytest.mark.parametrize('epochs', [1, pytest.param(5, marks=pytest.mark.slow)])
def test_extreme_noise(sigma, epochs):
    found = shuffled_lower_bound(sigma, batches=1000, epochs=epochs, delta=1e-6)
    assert 0 <= found <= epsilon(epochs*Gaussian(sigma=sigma), delta=1e-6)

def test_a_run_says_what_it_costs_at_least():
    run = dpsgd(sigma=.5, batch_size=10, dataset_size=1000, epochs=2, sampling='shuffle')
    least = run.at_least(1e-6)
    assert least == shuffled_lower_bound(run, delta=1e-6)
    assert least == shuffled_lower_bound(.5, batches=100, epochs=2, delta=1e-6)
    assert least <= epsilon(run, delta=1e-6)
    uneven = dpsgd(sigma=.5, batch_size=10, dataset_size=1003, epochs=2, sampling='shuffle')
    assert [s['batches'] for s in uneven.shuffles()] == [101, 100]
    assert uneven.shuffles()[1]['dropped'] == 3/1003
    assert .9*least < uneven.at_least(1e-6) < least
    begun = dpsgd(sigma=.5, batch_size=10, dataset_size=1000, steps=99, sampling='shuffle')
    assert begun.at_least(1e-6) == 0

def test_the_gaussian_tail_is_what_it_is():
    "`log_ndtr` and `ndtr`, of which slices are made, agree with 40 digits."
    mp.mp.dps = 40
    for x in np.linspace(-20, 8, 57):
        exact = mp.ncdf(mp.mpf(x))
        assert float(abs(mp.mpf(ndtr(x))/exact - 1)) < 1e-12
        assert float(abs(mp.mpf(log_ndtr(x))/mp.log(exact) - 1)) < 1e-12
