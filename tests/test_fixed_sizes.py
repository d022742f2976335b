"Batches of fixed size: one pair of neighbours, which proves nothing, and what is proved."
import numpy as np
import pytest

from dp_saddle import (
    BallsInBins,
    ContourAccountant,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSize,
    FourierAccountant,
    Gaussian,
    GaussianLimit,
    Laplace,
    MixtureOfGaussians,
    PoissonReplaceOne,
    PoissonSubsampled,
    PRVAccountant,
    SaddlePointCLT,
    TiltedFFT,
    delta,
    dpsgd,
    epsilon,
    fixed_size,
    from_steps,
    to_steps,
    with_replacement,
    without_replacement,
)
from dp_saddle.plrv import ComposedLoss, GaussianLoss
from dp_saddle.sampling.fixed_sizes import ReplaceOneLoss
from test_saddlepoint import S

# One pair

RUNS = {'without': without_replacement(sigma=1.5, rate=.1, steps=30),
        'with': with_replacement(sigma=2., batch_size=50, dataset_size=500, steps=30)}

@pytest.mark.parametrize('plrv', RUNS.values(), ids=RUNS)
def test_replace_one(plrv):
    "Density, cdf and loss agree; PRV bounds contain the Fourier estimate."
    part = plrv.parts[0][0]
    s, step = np.linspace(-6, 6, 200001, retstep=True)
    p = part.density(s)
    assert p.sum()*step == pytest.approx(1, abs=1e-9)
    assert (p*np.exp(-s)).sum()*step == pytest.approx(1, abs=1e-9)
    assert part.cumulants(0., 2)[0] == pytest.approx((p*s).sum()*step, rel=1e-9)
    assert part.reverse is part
    eps = np.array([.1, .5, 1., 2.])
    bounds = PRVAccountant(plrv, eps_error=.02).delta(eps)
    estimate = FourierAccountant(plrv, n=1 << 16).delta(eps).estimate
    assert (bounds.lower <= estimate).all() and (estimate <= bounds.upper).all()

@pytest.mark.parametrize('build', [ContourAccountant, TiltedFFT])
@pytest.mark.parametrize('plrv', RUNS.values(), ids=RUNS)
def test_replace_one_proves_nothing(plrv, build):
    with pytest.raises(ValueError, match='this loss has no proved bounds'):
        build(plrv).delta(1.)

@pytest.mark.parametrize('plrv', [
    without_replacement(sigma=4., rate=.05, steps=4000),
    pytest.param(with_replacement(sigma=20., batch_size=500, dataset_size=5000, steps=4000),
                 marks=pytest.mark.slow)],
    ids=['without', 'with'])
def test_replace_one_for_many_steps(plrv):
    "What is near to normal: central limits are within a percent, and their bounds hold."
    eps = np.array([.1, .5, 1.])
    sure = PRVAccountant(plrv, eps_error=.001).delta(eps)
    assert (sure.upper < 1.02*sure.lower).all()
    for build in (SaddlePointCLT, GaussianLimit):
        found = build(plrv).delta(eps)
        assert (found.lower <= sure.upper).all() and (sure.lower <= found.upper).all()
        np.testing.assert_allclose(found.estimate, sure.estimate, rtol=.01)

def test_replace_one_that_is_a_gaussian():
    "A record that is always in the batch: the contour knows it."
    part = ReplaceOneLoss(20., np.ones(1), np.zeros(1))
    known = ContourAccountant(4000*Gaussian(sigma=20., sensitivity=2.))
    found = SaddlePointCLT(ComposedLoss([(part, 4000)])).delta([10., 30.])
    sure = known.delta([10., 30.])
    assert (found.lower <= sure.upper).all() and (sure.lower <= found.upper).all()
    np.testing.assert_allclose(found.estimate, sure.estimate, rtol=1e-9)
    third = part.abs_moment(np.array([0., 1.]), 3)
    np.testing.assert_allclose(third, GaussianLoss(.1).abs_moment(0., 3), rtol=1e-10)

def test_many_draws_of_one_record():
    "More than a thousand copies in a batch: all of them count."
    def loss(m):
        return with_replacement(sigma=200., batch_size=m, dataset_size=2).parts[0][0]
    few, many = loss(1000), loss(2000)
    assert many.l.max() > 1200 and np.exp(many.logw).sum() == pytest.approx(1)
    assert many.l @ np.exp(many.logw) == pytest.approx(1000, rel=1e-9)
    assert few.l @ np.exp(few.logw) == pytest.approx(500, rel=1e-9)
    with pytest.raises(ValueError, match='batch_size must be in'):
        with_replacement(sigma=1., batch_size=10**7, dataset_size=10)

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('sigma', [.1, .2])
def test_replace_one_with_little_noise(sigma):
    "Losses of hundreds of nats, on a lattice that is not wider than it may be."
    step = FixedSize(sigma=sigma, batch_size=10, dataset_size=20)
    bounds = ContourAccountant(step).epsilon(1e-5)
    two = ContourAccountant(Gaussian(sigma=sigma, sensitivity=2.)).epsilon(1e-5)  # never sampled
    assert .97*two.lower < bounds.lower and bounds.upper < two.upper
    assert bounds.upper - bounds.lower < 3e-4*bounds.upper

@pytest.mark.parametrize('build, how, match', [
    (without_replacement, dict(sigma=0, rate=.1), 'sigma'),
    (without_replacement, dict(sigma=1., rate=1.), 'rate'),
    (without_replacement, dict(sigma=1., rate=.1, steps=0), 'steps'),
    (with_replacement, dict(sigma=1., batch_size=0, dataset_size=10), 'batch_size'),
    (with_replacement, dict(sigma=1., batch_size=5, dataset_size=1), 'dataset_size')])
def test_replace_one_bad_input(build, how, match):
    with pytest.raises(ValueError, match=match):
        build(**how)

@pytest.mark.parametrize('plrv', [
    S(.7, .1).remove, S(3., .01).add, without_replacement(sigma=2., rate=.1, steps=1),
    PoissonSubsampled(base=Laplace(scale=.02), rate=.1).remove,
    DiscreteGaussian(sigma=3.).remove, DiscreteLaplace(scale=2., sensitivity=3).remove])
def test_grids_are_as_large_as_announced(plrv):
    "What a loss says of its grid is what refuses noise that is too small."
    for p in [p for p, _ in plrv.parts] if hasattr(plrv, 'parts') else [plrv]:
        for t in (.5, 6., 40.):
            size = len(p.path(t, 0., 0.)[0])
            assert .95*(size - 3) <= p.nodes_at(t) <= 1.2*size + 500

# What is proved

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
    for _ in range(10):
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
    given = dict(sigma=2., batch_size=3, dataset_size=20)
    run = 3*FixedSize(replacement=True, **given)
    pair = PRVAccountant(with_replacement(**given, steps=3), eps_error=.02).epsilon(1e-5)
    removed = fixed_size(relation='add-remove', replacement=True, **given)
    assert max(pair.lower, ContourAccountant(3*removed).epsilon(1e-5).lower) < epsilon(
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
    (dict(replacement=1), 'replacement must'), (dict(relation='none'), 'relation must'),
    (dict(sigma=-1.), 'sigma must'), (dict(dataset_size=1, replacement=True, batch_size=1),
                                     'dataset_size must')])
def test_bad_fixed_sizes(bad, message):
    given = dict(sigma=1., batch_size=5, dataset_size=20, relation='replace-one') | bad
    with pytest.raises((ValueError, TypeError), match=message):
        fixed_size(**given)
