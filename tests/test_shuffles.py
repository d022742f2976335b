"Shuffled batches and fixed sizes: lower bounds are below, upper bounds above, whatever is asked."
from math import log

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from dp_saddle import (
    BallsInBins,
    ContourAccountant,
    FixedSize,
    Gaussian,
    MixtureOfGaussians,
    PoissonReplaceOne,
    PoissonSubsampled,
    PRVAccountant,
    TiltedFFT,
    delta,
    dpsgd,
    epsilon,
    fixed_size,
    from_steps,
    shuffled_lower_bound,
    to_steps,
    with_replacement,
    without_replacement,
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
    (dict(epochs=-1), 'epochs must'), (dict(delta=0.), 'delta must'),
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

# Fixed sizes, and records that are replaced

def shifted(means, p, sigma, eps, against=None):
    "delta of a mixture over another, by a sum; `against`: its means, else 0."
    x, h = np.linspace(-14*sigma - max(means), 14*sigma + max(means), 400_001, retstep=True)
    def N(c): return np.exp(-(x - c)**2/(2*sigma**2))/(sigma*np.sqrt(2*np.pi))
    P = sum(w*N(c) for c, w in zip(means, p, strict=True))
    Q = N(0) if against is None else sum(w*N(c) for c, w in zip(against, p, strict=True))
    return [np.maximum(a - np.exp(eps)*b, 0).sum()*h for a, b in ((P, Q), (Q, P))]

@pytest.mark.parametrize('eps', [.01, .3, 1.5])
def test_added_or_removed(eps):
    step = fixed_size(sigma=1.5, batch_size=5, dataset_size=20, relation='add-remove')
    assert step == PoissonSubsampled(Gaussian(sigma=1.5, sensitivity=2.), rate=.25)
    often = fixed_size(sigma=1.5, batch_size=3, dataset_size=20, relation='add-remove',
                       replacement=True)
    assert isinstance(often, MixtureOfGaussians)
    p = [.95**3, 3*.05*.95**2, 3*.05**2*.95, .05**3]
    exact = shifted([0., 2., 4., 6.], p, 1.5, eps)
    assert [often.remove.delta(eps), often.add.delta(eps)] == pytest.approx(exact, rel=1e-6)

@pytest.mark.parametrize('sigma, rate, eps', [(1., .1, .2), (2., .01, .05), (.5, .4, 2.)])
def test_replaced_in_a_poisson_sample(sigma, rate, eps):
    loss = PoissonReplaceOne(sigma=sigma, rate=rate).remove
    exact, other = shifted([0., 1.], [1 - rate, rate], sigma, eps, against=[0., -1.])
    assert exact == pytest.approx(other, rel=1e-9)
    low, up = loss.dominated.delta(eps), loss.delta(eps)
    assert low <= exact*(1 + 1e-9) and exact <= up*(1 + 1e-9) and up < 1.01*low

def test_random_neighbours_in_the_plane_cost_no_more():
    "Any two replaced vectors in the unit disc, sampled: below the pair of opposite ones."
    rng, rate, sigma = np.random.default_rng(2), .3, 1.
    x = np.linspace(-9, 9, 181)
    z, h2 = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2), (x[1] - x[0])**2/(2*np.pi)
    base = np.exp(-(z**2).sum(1)/2)*h2
    def ratio(c): return np.exp(z @ c - c @ c/2)
    for _ in range(30):
        c = rng.normal(size=(2, 2))
        c *= (rng.random((2, 1))**.5)/np.linalg.norm(c, axis=1, keepdims=True)
        P, Q = ((1 - rate) + rate*ratio(v) for v in c)
        for eps in (-.5, 0., .4, 1.):
            worst = shifted([0., 1.], [1 - rate, rate], sigma, eps, against=[0., -1.])[0]
            assert np.maximum(P - np.exp(eps)*Q, 0) @ base <= worst + 1e-9

@pytest.mark.parametrize('replacement', [False, True])
def test_exchanged_draws_in_small_data_sets_cost_no_more(replacement):
    "All data sets of -1, 0, 1, three records, batches of two: neighbours, below the curve."
    from itertools import combinations, product
    sigma, eps = 1., np.array([.1, .6, 1.5])
    x, h = np.linspace(-14, 14, 60_001, retstep=True)
    def law(data):
        batches = list(product(data, repeat=2) if replacement else combinations(data, 2))
        return sum(np.exp(-(x - sum(b))**2/2) for b in batches)/len(batches)/np.sqrt(2*np.pi)
    step = FixedSize(sigma=sigma, batch_size=2, dataset_size=3, replacement=replacement)
    proved = delta(step, eps=eps)
    removed = fixed_size(sigma=sigma, batch_size=2, dataset_size=3, relation='add-remove',
                         replacement=replacement)
    some = np.maximum(*(getattr(removed, d).delta(eps) for d in ('remove', 'add')))
    most, most_removed = np.zeros(3), np.zeros(3)
    for others in product((-1, 0, 1), repeat=2):
        laws = [law((r, *others)) for r in (-1, 0, 1)]
        without = law(others)
        for P, Q in product(laws, repeat=2):
            most = np.maximum(most, [np.maximum(P - np.exp(e)*Q, 0).sum()*h for e in eps])
        for P in laws:
            for A, B in ((P, without), (without, P)):
                found = [np.maximum(A - np.exp(e)*B, 0).sum()*h for e in eps]
                most_removed = np.maximum(most_removed, found)
    off = 1 + h**2                        # of the sums over the grid, at their corners
    assert (most <= proved*off).all() and (most > .3*proved).all()
    assert (most_removed <= some*off).all() and (most_removed > .99*some).all()

@pytest.mark.parametrize('sigma, published', [(1., 14.82), (2., 2.199), (4., .7186)])
def test_published_fixed_sizes(sigma, published):
    sizes = dict(sigma=sigma, batch_size=10, dataset_size=1000)
    run = dpsgd(**sizes, steps=1000, sampling='without-replacement')
    assert epsilon(run, delta=1e-5) == pytest.approx(published, rel=5e-4)
    removed = dpsgd(**sizes, steps=1000, sampling='without-replacement', relation='add-remove')
    assert run.at_least(1e-5) == pytest.approx(epsilon(removed, delta=1e-5), rel=1e-9)
    pair = PRVAccountant(without_replacement(sigma=sigma, rate=.01, steps=1000), eps_error=.05)
    assert pair.epsilon(1e-5).lower < epsilon(run, delta=1e-5)

def test_with_replacement_is_above_its_pairs():
    given = dict(sigma=2., batch_size=50, dataset_size=500)
    run = 30*FixedSize(replacement=True, **given)
    pair = PRVAccountant(with_replacement(**given, steps=30), eps_error=.02).epsilon(1e-5)
    removed = fixed_size(relation='add-remove', replacement=True, **given)
    assert max(pair.lower, ContourAccountant(30*removed).epsilon(1e-5).lower) < epsilon(
        run, delta=1e-5)

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('sigma, published', [(1., 2.843), (2., 1.205), (4., .5614)])
def test_published_poisson_replaced(sigma, published):
    low, _, up = TiltedFFT(1000*PoissonReplaceOne(sigma=sigma, rate=.01)).epsilon(1e-5)
    assert low <= up < low*(1 + 2e-4) and published == pytest.approx(up, abs=6e-4)

def test_all_records_in_every_batch():
    twice = Gaussian(sigma=1., sensitivity=2.)
    for step in (fixed_size(sigma=1., batch_size=7, dataset_size=7, relation='replace-one'),
                 PoissonReplaceOne(sigma=1., rate=1.),
                 FixedSize(sigma=1., batch_size=7, dataset_size=7)):
        assert epsilon(step, delta=1e-5) == pytest.approx(epsilon(twice, delta=1e-5), rel=1e-12)

def test_steps_can_be_kept_in_files():
    steps = (3*FixedSize(sigma=1., batch_size=7, dataset_size=70, replacement=True)
             + 2*PoissonReplaceOne(sigma=1., rate=.1)
             + 4*BallsInBins(Gaussian(sigma=2.), batches=9))
    again = from_steps(to_steps(steps))
    assert tuple(again) == steps.steps

@pytest.mark.parametrize('bad, message', [
    (dict(batch_size=0), 'batch_size must'), (dict(batch_size=21), 'at most dataset_size'),
    (dict(replacement=1), 'replacement must'), (dict(relation='zero-out'), 'relation must'),
    (dict(sigma=-1.), 'sigma must'), (dict(dataset_size=1, replacement=True, batch_size=1),
                                     'dataset_size must')])
def test_bad_fixed_sizes(bad, message):
    given = dict(sigma=1., batch_size=5, dataset_size=20, relation='replace-one') | bad
    with pytest.raises((ValueError, TypeError), match=message):
        fixed_size(**given)

def test_the_gaussian_tail_is_what_it_is():
    "`log_ndtr` and `ndtr`, of which slices are made, agree with 40 digits."
    mp.mp.dps = 40
    for x in np.linspace(-20, 8, 57):
        exact = mp.ncdf(mp.mpf(x))
        assert float(abs(mp.mpf(ndtr(x))/exact - 1)) < 1e-12
        assert float(abs(mp.mpf(log_ndtr(x))/mp.log(exact) - 1)) < 1e-12
