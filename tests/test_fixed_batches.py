"Batches of fixed size: the loss of one pair of neighbours, which proves nothing."
import numpy as np
import pytest

from dp_saddle import (
    ContourAccountant,
    DiscreteGaussian,
    DiscreteLaplace,
    FourierAccountant,
    Gaussian,
    GaussianLimit,
    Laplace,
    PoissonSubsampled,
    PRVAccountant,
    SaddlePointCLT,
    TiltedFFT,
    with_replacement,
    without_replacement,
)
from dp_saddle.plrv import ComposedLoss, GaussianLoss
from dp_saddle.sampling.fixed_batches import ReplaceOneLoss
from test_saddlepoint import S

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
    with_replacement(sigma=20., batch_size=500, dataset_size=5000, steps=4000)],
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
