"What four moments prove: published values, and bounds that hold."
import numpy as np
import pytest

from dp_saddle import Gaussian, Laplace, PoissonSubsampled, RandomizedResponse
from dp_saddle.edgeworth.berry_esseen import (
    berry_esseen,
    moment_bound,
    prawitz_bound,
    smallest_moment_bound,
    step_moments,
)

K3 = 9**.75

def subsampled(sigma, rate):
    return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

@pytest.mark.parametrize("identical, n, want", [
    (False, 150, .6151882), (False, 1000, .1462589), (False, 2000, .0888137),
    (True, 1000, .1626857), (True, 2000, .1056023)])
def test_published_moment_bounds(identical, n, want):
    "The package BoundEdgeworth 0.1.3: K_4 = 9, all else by its fallbacks."
    Kt3 = K3 + 1 if identical else 2*K3
    bound = moment_bound(n, .621*K3, K3, 9., Kt3, identical)
    assert bound == pytest.approx(want, abs=6e-8)

@pytest.mark.parametrize("n, want", [(1000, .12140385), (2000, .0768045)])
def test_published_regular_bounds(n, want):
    "Likewise under regularity, kappa = .99, the package's misplaced parenthesis in e_3 put back."
    e2, e3 = np.exp(.01/6 + .01/1.4**2), np.exp(.01/6 + .005/.7**2)
    slip = (.037 - 1.306/36)*(e2 - e3)*(.621*K3)**2/n
    bound = moment_bound(n, .621*K3, K3, 9., K3 + 1, True,
                         smooth=lambda a, b: .99**n*np.log(b/a))
    assert bound + slip == pytest.approx(want, abs=6e-8 if n > 1000 else 6e-9)

@pytest.mark.parametrize("n, want", [(100, .0940241598706), (1600, .0191056582258)])
def test_prawitz_bound_keeps_its_digits(n, want):
    "Pinned, not published: with a term of the remainder wrong a bound still looks like one."
    plrv = (n*subsampled(1., .3)).remove
    assert prawitz_bound(*step_moments(plrv), 1/n) == pytest.approx(want, rel=1e-8)

def test_step_moments():
    "Both directions, the null, and steps that do not count one by one."
    moments = step_moments((30*Laplace(scale=2.)).remove)
    assert moments._fields == ("n", "lam3", "K3", "K4", "Kt3") and moments.n == 30
    assert 1 <= moments.K3 <= moments.K4**.75 and moments.K3 < moments.Kt3 <= 2*moments.K3
    plrv = (30*subsampled(1., .1)).remove
    null, reverse = step_moments(plrv, null=True), step_moments(plrv.reverse)
    assert null.lam3 == -reverse.lam3 and null[2:] == reverse[2:]
    assert step_moments((50*Gaussian(sigma=1.)).remove).n == 1
    with pytest.raises(TypeError, match="plrv must be a PLRV"):
        step_moments(Laplace(scale=2.))

def test_smallest_moment_bound():
    "No larger than its parts, for identical steps, mixed ones, and on a lattice."
    with np.errstate(all="ignore"):
        for run in (1000*subsampled(1., .1), 40*RandomizedResponse(eps=1.),
                    1000*subsampled(1., .1) + 40*Laplace(scale=8.)):
            moments = step_moments(run.remove)
            best = smallest_moment_bound(run.remove)
            assert 0 < best <= moment_bound(*moments)
            if len(run.steps) == 1:
                normal = berry_esseen(moments.n, moments.K3)
                assert best <= normal + abs(moments.lam3)/(6*np.sqrt(2*np.pi*moments.n))
