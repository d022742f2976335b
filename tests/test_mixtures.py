"Mixtures of Gaussians and groups, against definitions at more digits."
import json
import math
import pickle
import time
import warnings

import mpmath as mp
import numpy as np
import pytest

import conformance
from dp_saddle import (
    Composition,
    ContourAccountant,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PoissonSubsampled,
    RandomizedResponse,
    compare,
    dpsgd,
    epsilon,
    epsilon_after,
    from_steps,
    group,
    report,
    to_steps,
)
from dp_saddle.engine.largest_loss_levels import can_be_cut
from dp_saddle.losses.densities import SubsampledGaussianLoss
from dp_saddle.losses.mixtures import (
    MixtureLoss,
    binomial_off,
    convolution_power,
    merged,
    mixture_loss,
)
from dp_saddle.plrv import ComposedLoss, GaussianLoss

BOTH = ('remove', 'add')
STEP = PoissonSubsampled(Gaussian(sigma=1.), rate=.01)

# ---------------------------------------------------------------------- references

def curve(sigma, c, p, direction, eps):
    "One step at 40 digits: where the ratio of the densities is e^eps, and normal tails there."
    with mp.workdps(50):
        s, c, p = mp.mpf(sigma), [mp.mpf(x) for x in c], [mp.mpf(x) for x in p]
        p = [x/mp.fsum(p) for x in p]
        goal = mp.mpf(eps) if direction == 'remove' else -mp.mpf(eps)
        def loss(x):
            pairs = zip(c, p, strict=True)
            return mp.log(mp.fsum(q*mp.exp((2*x*v - v*v)/(2*s*s)) for v, q in pairs))
        def tail(x, v): return mp.ncdf((v - x)/s)
        low, high = mp.mpf(-10**4), mp.mpf(10**4)
        if loss(low) >= goal: return max(-mp.expm1(eps), 0) if direction == 'remove' else mp.mpf(0)
        for _ in range(190):
            middle = (low + high)/2
            low, high = (middle, high) if loss(middle) < goal else (low, middle)
        with_record = mp.fsum(q*tail(low, v) for v, q in zip(c, p, strict=True))
        if direction == 'remove': return with_record - mp.exp(eps)*tail(low, 0)
        below = mp.fsum(q*tail(-low, -v) for v, q in zip(c, p, strict=True))
        return tail(-low, 0) - mp.exp(eps)*below

def transform(sigma, c, p, direction, z):
    "E e^{zL} at the digits that are set: a sum over outcomes on the real axis."
    s, h = mp.mpf(sigma), mp.mpf(sigma)/24
    z, last = mp.mpmathify(z), max(c)*(abs(mp.re(z)) + 1)/sigma + 14
    total = mp.mpf(0)
    for k in range(-14*24 - int(24*max(c)*abs(mp.re(z))/sigma), int(24*last) + 1):
        x = k*h
        w = mp.fsum(q*mp.exp((2*x*v - v*v)/(2*s*s)) for v, q in zip(c, p, strict=True))
        total += mp.exp(-x*x/(2*s*s))*w**(z + 1 if direction == 'remove' else -z)
    return total*h/(s*mp.sqrt(2*mp.pi))

class Several:
    "delta of several steps by sums alone, in extended precision: no path is bent, no bound taken."
    def __init__(self, sigma, c, p, direction, steps):
        c, p = np.array(c, np.longdouble)[:, None], np.array(p, np.longdouble)[:, None]
        far = float(c[-1, 0])/sigma
        fine = 50*math.ceil(2 + far)
        h = sigma/np.longdouble(fine)
        x = h*np.arange(int(-fine*(14 + far)), int(fine*(14 + 5*far)))
        L = np.log((p*np.exp(c*(2*x - c)/(2*sigma**2))).sum(0))
        logp = -x*x/(2*sigma**2) + np.log(h/sigma/np.sqrt(2*np.longdouble(math.pi)))
        self.L, self.logp = (L, logp + L) if direction == 'remove' else (-L, logp)
        self.n, self.most = steps, float(sigma/h/far)         # up to there the grid sees waves

    def K(self, t): return self.n*np.log(np.exp(self.logp + t*self.L).sum())

    def delta(self, eps):
        "delta; None where the grid is too coarse before the transform has died out."
        tilts = np.geomspace(.05, 4, 40)
        K = np.array([self.K(t) for t in tilts])
        best = (K - tilts*eps).argmin()
        t = tilts[best]/2
        X = 60/t                                              # what wraps around is below e^-60
        while (K - tilts*(eps + X)).min() + t*(eps + X) > self.K(t) - 45: X *= 1.5
        s, w = 2*np.longdouble(math.pi)/X, np.exp(self.logp + t*self.L)
        felt = w > w.max()*1e-23
        w, turn, total = w[felt], np.exp(1j*s*self.L[felt]), np.longdouble(0)
        for k in range(min(int(self.most/s) + 1, 3000)):
            z = t + 1j*k*s
            term = (np.exp(self.n*np.log(w.sum()) - z*eps)/(z*(z + 1))).real
            size = abs(np.exp(self.n*np.log(abs(w.sum())) - t*eps)/(z*(z + 1)))
            total += term/2 if k == 0 else term
            if k and size < 1e-18*total: return float(total*s/np.longdouble(math.pi))
            w = w*turn
        return None

def some_mixtures(count, seed):
    "(sigma, sensitivities, probabilities) of 2 to 6 components: groups, lattices, any."
    rng = np.random.default_rng(seed)
    for k in range(count):
        sigma = float(rng.choice([.6, 1., 2.5]))
        if k % 3 == 0:
            size, rate = int(rng.integers(2, 7)), float(rng.uniform(.02, .6))
            found = group(PoissonSubsampled(Gaussian(sigma=sigma), rate=rate), size)
        else:
            m = int(rng.integers(2, 7))
            c = np.arange(m) if k % 3 == 1 else np.sort(rng.uniform(0, 2.5, m))
            if rng.random() < .7: c = c - c[0]
            p = rng.dirichlet(np.ones(m))
            found = MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p/p.sum())
        yield sigma, found.sensitivities, found.probabilities

# ---------------------------------------------------------------------- bounds against them

@pytest.mark.parametrize('count', [12, pytest.param(100, marks=pytest.mark.slow)])
def test_single_steps(count):
    "Mixtures and groups, both directions: the curve in closed form, at three eps each."
    for sigma, c, p in some_mixtures(count, count):
        for direction in BOTH:
            plrv = mixture_loss(sigma, c, p, direction)
            eps = np.array([-.3, .05, 1.5])
            for e, got in zip(eps, plrv.log_delta(eps), strict=True):
                want = curve(sigma, c, p, direction, e)
                if want < mp.mpf(10)**-290: continue
                off = abs(mp.exp(mp.mpf(float(got)))/want - 1)
                assert off < 3e-13*(1 + abs(got)), (sigma, c, p, direction, e)

def judge_steps(mixtures, seed):
    rng, judged = np.random.default_rng(seed), 0
    for sigma, c, p in mixtures:
        steps = int(rng.integers(2, 30))
        for direction in BOTH:
            plrv = ComposedLoss([(mixture_loss(sigma, c, p, direction), steps)])
            mean, var = plrv.cumulants(0., 2)
            eps = float(max(mean + rng.uniform(.5, 3.)*np.sqrt(var), .1))
            if eps > .9*plrv.ess_sup: eps = .6*plrv.ess_sup
            delta = Several(sigma, c, p, direction, steps).delta(eps)
            if delta is None: continue
            judged += 1
            about = sigma, c, p, direction, steps, eps
            low, _, up = ContourAccountant(plrv).delta(eps)
            assert low*(1 - 1e-14) <= delta <= up*(1 + 1e-14), about
            assert up - low <= 1e-9*up, about
            low, _, up = ContourAccountant(plrv).epsilon(delta)
            assert low*(1 - 1e-14) <= eps <= up*(1 + 1e-14), about
            assert up - low <= 1e-9*up, about
    return judged

@pytest.mark.slow
def test_several_steps():
    assert judge_steps(some_mixtures(10, 2), 3) >= 8

@pytest.mark.slow
def test_several_steps_of_100():
    assert judge_steps(some_mixtures(100, 4), 5) >= 100

# ---------------------------------------------------------------------- known numbers

GROUPS = {1: 2.95524591094393, 2: 6.43259992969640, 4: 14.5349763822966, 8: 34.8906956203}

@pytest.mark.parametrize('size, eps', GROUPS.items())
def test_groups_of_users(size, eps):
    """sigma 1, rate .01, 2000 steps, delta 1e-6. The first three to all digits by sums of 30 digits
    on two grids, the last to the digits given by others."""
    low, _, up = ContourAccountant(2000*group(STEP, size)).epsilon(1e-6)
    digits = 2e-11 if size == 8 else 2e-14
    assert low*(1 - digits) <= eps <= up*(1 + digits) and up - low < 1e-10*up

def test_groups_at_more_digits():
    "The estimate that the bounds enclose, by sums alone: two of eight records, three steps."
    delta = Several(1., (0., 1., 2.), (.9801, .0198, .0001), 'remove', 40).delta(2.)
    if delta is not None:
        low, _, up = ContourAccountant((40*group(STEP, 2)).remove).delta(2.)
        assert low <= delta <= up

@pytest.mark.slow
def test_others_agree():
    "dp_accounting's pessimistic and optimistic grids are on either side."
    accounting = pytest.importorskip('dp_accounting')
    from dp_saddle.interop import SaddlePrivacyAccountant
    mixture = group(STEP, 2)
    event = accounting.dp_event.MixtureOfGaussiansDpEvent(
        1., mixture.sensitivities, mixture.probabilities)
    theirs = accounting.pld.PLDAccountant(value_discretization_interval=1e-2)
    theirs.compose(event, 2000)
    ours = SaddlePrivacyAccountant().compose(event, 2000)
    assert abs(ours.get_epsilon(1e-6)/GROUPS[2] - 1) < 1e-10
    assert ours.get_epsilon(1e-6) <= theirs.get_epsilon(1e-6) < 1.02*GROUPS[2]

def test_events():
    accounting = pytest.importorskip('dp_accounting')
    from dp_saddle.interop import SaddlePrivacyAccountant
    event, relation = accounting.dp_event, accounting.NeighboringRelation
    mixture = event.MixtureOfGaussiansDpEvent(2., (0., 1., 3.), (.5, .3, .2))
    sampled = event.PoissonSampledDpEvent(.1, mixture)
    known = MixtureOfGaussians(sigma=2., sensitivities=(0., 1., 3.), probabilities=(.5, .3, .2))
    ours = SaddlePrivacyAccountant(relation.REPLACE_SPECIAL).compose(sampled, 10)
    assert ours.get_epsilon(1e-5) == epsilon(10*PoissonSubsampled(known, rate=.1), delta=1e-5)
    nothing = event.MixtureOfGaussiansDpEvent(0., (0.,), (1.,))
    assert SaddlePrivacyAccountant().compose(nothing).get_epsilon(1e-5) == 0
    naked = event.MixtureOfGaussiansDpEvent(0., (0., 1.), (.5, .5))
    assert SaddlePrivacyAccountant().compose(naked).get_epsilon(1e-5) == math.inf
    with pytest.raises(Exception, match='replacing a record has no proved loss'):
        SaddlePrivacyAccountant(relation.REPLACE_ONE).compose(mixture)

# ---------------------------------------------------------------------- losses

LOSSES = [(1., (0., .6, 1.), (.6, .3, .1)), (.7, (.5, 1.), (.4, .6)),
          (1.5, *convolution_power((0., 1.), (.8, .2), 4))]

@pytest.mark.parametrize('direction', BOTH)
@pytest.mark.parametrize('law', LOSSES, ids=str)
def test_promises(law, direction):
    "What any loss has to be like; its lines against 50 digits."
    plrv = MixtureLoss(*law, direction)
    assert conformance.check(plrv) == []
    for t in (.4, 2.):
        s = np.array([0., 1., 8., 30., 90.])/np.sqrt(plrv.cumulants(t, 2)[1])/6
        for some in (s[:1], np.linspace(0, s[-1], 4)):
            line = plrv.line(t, some)
            with mp.workdps(30):
                for at, change, log_error in zip(some, line.change, line.log_error, strict=True):
                    want = transform(*law, direction, mp.mpc(t, float(at)))
                    want /= transform(*law, direction, mp.mpf(t))
                    if abs(want) < 1e-18: continue             # the sum has no more digits
                    off = abs(mp.exp(mp.mpmathify(complex(change)))/want - 1)
                    assert off <= mp.expm1(mp.mpf(float(log_error))) + line.error

def test_simplest():
    "Two components, one at 0: a sampled Gaussian; one alone: a Gaussian; none that moves: no loss."
    def mixture(c, p): return MixtureOfGaussians(sigma=2., sensitivities=c, probabilities=p)
    sampled = 10*PoissonSubsampled(Gaussian(sigma=2., sensitivity=3.), rate=.1)
    assert 10*mixture((3, 0), (.1, .9)).remove.cgf(.7) == sampled.remove.cgf(.7)
    one, other = (ContourAccountant(run).epsilon(1e-5)          # the second goes by rows
                  for run in (10*mixture((3, 0), (.1, .9)), sampled))
    assert max(one.lower, other.lower) <= min(one.upper, other.upper)
    assert max(one.width, other.width) < 1e-10
    assert mixture((3,), (1,)).remove.mu == mixture((3, 3, 5), (.5, .5, 0)).add.mu == 1.5
    assert isinstance(mixture((3,), (1,)).remove, GaussianLoss) and mixture((3,), (1,)).symmetric
    assert isinstance(mixture((0, 3), (.5, .5)).add, SubsampledGaussianLoss)
    assert epsilon(5*mixture((0, 0), (.5, .5)), delta=1e-9) == 0
    assert mixture((1, 0, 1, 2), (.2, .5, .2, .1)) == mixture((0, 1, 2), (.5, .4, .1))
    again = MixtureOfGaussians(sigma=2., sensitivities=(.1, .7), probabilities=(1/3, 2/3))
    assert mixture(again.sensitivities, again.probabilities) == again

def test_general_code_on_the_simplest():
    "The loss of many components, given two: the sampled Gaussian's, to rounding."
    for direction in BOTH:
        general = MixtureLoss(1.3, (0., 2.), (.97, .03), direction)
        plrv = SubsampledGaussianLoss(2/1.3, .03, direction)
        t, eps = np.array([-.5, -.1, .3, 2., 30.]), np.array([-.02, .01, .5, 3.])
        assert np.allclose(general.cgf(t), plrv.cgf(t), rtol=1e-12, atol=1e-15)
        z = t[1:] + np.array([.3j, 5j, 80j, 400j])
        size, ours, theirs = plrv.cgf(t[1:]), general.cgf(z), plrv.cgf(z)
        off = np.abs(np.exp(ours - size) - np.exp(theirs - size))
        assert (off < 1e-11).all()
        assert np.allclose(general.log_delta(eps), plrv.log_delta(eps), rtol=1e-12)
        assert np.allclose(general.density(eps), plrv.density(eps), rtol=1e-11)
        assert np.allclose(general.cdf(eps), plrv.cdf(eps), rtol=1e-12)
        assert np.allclose(general.abs_moment(t, 3), plrv.abs_moment(t, 3), rtol=1e-9)

@pytest.mark.filterwarnings('ignore:the bounds hold')
def test_rare_components():
    "Runs sorted by their largest loss, and one line: bounds overlap, and sorting is narrower."
    run = (2000*group(PoissonSubsampled(Gaussian(sigma=1.), rate=.0002), 6)).remove
    assert can_be_cut(ComposedLoss(run.parts))
    sorted_, line = (ContourAccountant(run, levels=levels).delta(2.) for levels in (True, False))
    assert sorted_.lower <= line.upper and line.lower <= sorted_.upper
    assert sorted_.width <= line.width

@pytest.mark.parametrize('size, rate, sigma', [
    (2, 1e-4, 2.), (8, 1e-4, 2.), (8, 1e-5, 2.), (32, 1e-5, 2.),
    pytest.param(8, 1e-4, 1., marks=pytest.mark.slow),
    pytest.param(32, 1e-4, 1., marks=pytest.mark.slow)])
def test_rare_groups_are_narrow(size, rate, sigma):
    "One line of theirs is 4e-9 to 6e-8 wide, relatively."
    run = 10**4*group(PoissonSubsampled(Gaussian(sigma=sigma), rate=rate), size)
    low, _, up = ContourAccountant(run).epsilon(1e-6)
    assert up - low < 1e-9*up
    wide = ContourAccountant(run, levels=False).epsilon(1e-6)
    assert wide.lower <= low <= up <= wide.upper and wide.width > 2*(up - low)

def test_binomial_laws_are_recognised():
    for size in (2, 8, 64):
        for rate in (.5, .01, 1e-4):
            if rate**size < 1e-300: continue
            c, p = convolution_power((0., 1.), (1 - rate, rate), size)
            assert binomial_off(p).max() < 1e-13 and MixtureLoss(3., c, p, 'add').turns
            other = p[-1:] + p[1:-1] + p[:1]
            assert not MixtureLoss(9., c, other, 'add').turns or size == 2 or rate == .5

def test_components():
    assert merged([2., 1., 2.], [.25, .5, .25]) == ((1., 2.), (.5, .5))
    c, p = convolution_power((0., .5, 2.), (.5, .3, .2), 3)
    assert c == (0., .5, 1., 1.5, 2., 2.5, 3., 4., 4.5, 6.) and abs(sum(p) - 1) < 1e-15
    assert abs(p[5] - 6*.5*.3*.2) < 1e-16

# ---------------------------------------------------------------------- what is refused

def mixture(c=(0., 1.), p=(.5, .5), sigma=1.):
    return MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p)

@pytest.mark.parametrize('words, make', [
    (r'probabilities must sum to 1 \(within 1e-12\), got a sum of 0.9',
     lambda: mixture(p=(.5, .4))),
    ('sensitivities must be >= 0', lambda: mixture(c=(0., -1.))),
    ('sensitivities must be in .* got nan', lambda: mixture(c=(0., math.nan))),
    ('sensitivities must be in .* got inf', lambda: mixture(c=(0., math.inf))),
    ('probabilities must be in .* got -0.5', lambda: mixture(p=(-.5, 1.5))),
    ('probabilities must be in .* got nan', lambda: mixture(p=(math.nan, 1.))),
    ('probabilities must be as many as sensitivities, 2, got 1', lambda: mixture(p=(1.,))),
    ('sensitivities must be a vector of 1 to 2000', lambda: mixture(c=(), p=())),
    ('probabilities must be 0 or at least 1e-300', lambda: mixture(p=(1., 1e-310))),
    ('sigma must be in', lambda: mixture(sigma=0.)),
    ('sigma/sensitivity must be in', lambda: mixture(sigma=1e-150)),
    ('size must be an integer >= 1, got 0', lambda: group(STEP, 0)),
    ('or the rarest amount likelier: one of the sums of 500 records', lambda: group(STEP, 500)),
    ('a group of 1000000 records has 1000001 different sums', lambda: group(STEP, 10**6)),
    ('a group of 60 records has', lambda: group(
        mixture(c=(0., .1, .37, 1.1, 2.3), p=(.2,)*5), 60)),
    ('a group of 2 records is asked for, got RandomizedResponse',
     lambda: group(RandomizedResponse(eps=1.), 2)),
    ('a mixture of Gaussians on a Poisson sample for a group of 2',
     lambda: group(PoissonSubsampled(Laplace(scale=1.), rate=.1), 2)),
    ("unit_records must be 1 for sampling = 'without-replacement'",
     lambda: dpsgd(sigma=1., batch_size=1, dataset_size=9, sampling='without-replacement', steps=1,
                   unit_records=2)),
    ('unit_records must be an integer >= 1', lambda: dpsgd(
        sigma=1., batch_size=1, dataset_size=9, sampling='poisson', steps=1, unit_records=0))])
def test_refused(words, make):
    with pytest.raises(ValueError, match=words): make()

def test_types():
    with pytest.raises(TypeError, match='mechanism must be a Mechanism, got 3'): group(3, 2)
    with pytest.raises(TypeError, match='size must be an integer'): group(STEP, 2.5)
    with pytest.raises(TypeError, match='sensitivities must be a number'): mixture(c=('a', 1.))

# ---------------------------------------------------------------------- groups

def test_groups():
    assert group(STEP, 1) is STEP
    assert group(Gaussian(sigma=3.), 4) == Gaussian(sigma=3., sensitivity=4.)
    assert group(Laplace(scale=3.), 4).remove.ess_sup == Laplace(scale=.75).remove.ess_sup
    assert group(DiscreteGaussian(sigma=3.), 2).sensitivity == 2
    assert group(DiscreteLaplace(scale=3., sensitivity=2), 3).sensitivity == 6
    assert group(PoissonSubsampled(Gaussian(sigma=3.), rate=1), 4).sensitivity == 4
    both = 3*STEP + 2*Laplace(scale=4.)
    assert group(both, 5) == 3*group(STEP, 5) + 2*Laplace(scale=4., sensitivity=5.)
    assert Composition(both.steps) == both
    twice, at_once = group(group(STEP, 3), 2), group(STEP, 6)
    assert twice.sensitivities == at_once.sensitivities
    assert np.allclose(twice.probabilities, at_once.probabilities, rtol=1e-14)
    sampled = PoissonSubsampled(mixture((0., 1., 2.), (.5, .3, .2)), rate=.1)
    two = group(sampled, 2)
    assert two.sensitivities == (0., 1., 2., 3., 4.)
    assert np.allclose(two.probabilities, np.convolve([.95, .03, .02], [.95, .03, .02]), rtol=1e-14)
    assert epsilon(9*group(sampled, 2), delta=1e-5) > epsilon(9*sampled, delta=1e-5)

def test_runs():
    given = dict(sigma=1., batch_size=100, dataset_size=10_000, steps=2000)
    run = dpsgd(sampling='poisson', unit_records=8, **given)
    assert run.mechanism == 2000*group(STEP, 8) and 'at most 8 records' in str(run)
    said = report(run, delta=1e-6)
    assert 'Each user with at most 8 records' in said
    assert 'all records of one user, at most 8' in said
    assert json.loads(report(run, delta=1e-6, unit='patient', form='json'))['unit'] == (
        'patient with at most 8 records')
    assert dpsgd(sampling='none', unit_records=2, **given).mechanism == (
        2000*Gaussian(sigma=1., sensitivity=2.))
    assert dpsgd(sampling='shuffle', unit_records=2, **given).mechanism == (
        20*Gaussian(sigma=1., sensitivity=2.))
    assert pickle.loads(pickle.dumps(run)) == run
    steps = json.loads(json.dumps(to_steps(run)))
    assert Composition(tuple(from_steps(steps))) == run.mechanism

@pytest.mark.slow
def test_prefixes():
    run = dpsgd(sigma=1., batch_size=100, dataset_size=10_000, steps=50, sampling='poisson',
                unit_records=3)
    after = epsilon_after(run, delta=1e-6)
    assert np.isclose(after[-1], epsilon(50*group(STEP, 3), delta=1e-6), rtol=1e-6)
    assert (np.diff(after) >= 0).all()

def test_every_accountant():
    "All that say bounds agree; estimates are near."
    run = 50*PoissonSubsampled(mixture((0., 1., 2.5), (.5, .3, .2), 2.), rate=.2)
    rows, truth = compare(run, delta=1e-5), ContourAccountant(run).epsilon(1e-5)
    assert not [row for row in rows if 'not for this run' in row['worth']]
    for row in rows:
        assert float(row['lower']) <= truth.upper*(1 + 1e-9), row
        assert truth.lower*(1 - 1e-9) <= float(row['upper']), row
    estimates = {row['accountant']: float(row['estimate']) for row in rows}
    for name in ('TiltedFFT', 'PRVAccountant', 'FourierAccountant', 'TiltedEdgeworth'):
        assert abs(estimates[name]/truth.estimate - 1) < 1e-2, name

@pytest.mark.parametrize('sigma, c, p, eps', [
    (5., (20., 21., 22.), (.3, .3, .4), .01), (1., (10., 11.), (.5, .5), 150.),
    (1., (3.148, 3.201), (.4, .6), 20.), (1., (4.144, 5., 5.429), (.2, .3, .5), 30.)])
def test_every_component_far_away(sigma, c, p, eps):
    "The angle of w passes pi; two steps by a fine sum over one of them and the other's curve."
    run = MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p)
    x = np.linspace(-14*sigma, c[-1] + 14*sigma, 200_001)
    parts = [np.log(q) + m*(2*x - m)/(2*sigma**2) for m, q in zip(c, p, strict=True)]
    loss = np.logaddexp.reduce(parts)
    logq = -x*x/2/sigma**2 - np.log(sigma*np.sqrt(2*np.pi)) + np.log(x[1] - x[0])
    for top, losses, logp in (('remove', loss, logq + loss), ('add', -loss, logq)):
        one = getattr(run, top)
        truth = (np.exp(logp)*np.exp(one.log_delta(eps - losses))).sum()
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            found = ContourAccountant(getattr(2*run, top)).delta(eps)
        assert found.lower <= truth*(1 + 1e-8) and truth <= found.upper*(1 + 1e-8)
        if top == 'remove': assert found.upper < found.lower*(1 + 1e-8)

def test_too_large_groups_are_refused_at_once():
    "Before any sum is made: by how many there are at least, and by the rarest."
    start = time.perf_counter()
    for size, why in ((5000, '5001 different sums or more'), (200, 'of about 1e-400, at least')):
        with pytest.raises(ValueError, match=why):
            group(PoissonSubsampled(Gaussian(sigma=1.), rate=.01), size)
    amounts = MixtureOfGaussians(sigma=1., sensitivities=(.1, .3, 2**.5),
                                 probabilities=(.3, .3, .4))
    with pytest.raises(ValueError, match='different sums or more, at most 2000'):
        group(amounts, 100)
    assert time.perf_counter() - start < 5

@pytest.mark.parametrize(('sigma', 'c', 'p', 'n'), [
    (.502, (1.88, 1.98), 1.6e-3, 4), (.3, (1.72, 4.66), 8.8e-3, 132),
    (.119, (.613, .659), 1.2e-6, 2385), (.2, (1.98, 10.4), .061, 62)])
def test_nothing_at_zero(sigma, c, p, n):
    "Adding, where every component moves: w has no lowest value, and the bounds are narrow."
    step = MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=(1 - p, p))
    low, _, up = ContourAccountant((n*step).add).epsilon(1e-6)
    assert up - low < 1e-9*up
    lowest, largest = (ContourAccountant(n*Gaussian(sigma=sigma, sensitivity=v)).epsilon(1e-6)
                       for v in c)
    assert lowest.lower*(1 - 1e-9) <= up and low <= largest.upper

def crossing(gap, eps, low=-8., high=2.):
    "Where a gap that is positive on the left ends, by halves."
    for _ in range(120):
        middle = (mp.mpf(low) + high)/2
        low, high = (middle, high) if gap(middle, eps) > 0 else (low, middle)
    return low

def test_nothing_at_zero_by_quadrature():
    "One step, adding, against an integral."
    sigma, c, p = .4, (1., 1.3), (.9, .1)
    loss = MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p).add
    with mp.workdps(40):
        q = [mp.mpf(v) for v in p]
        def gap(x, eps):
            w = sum(v*mp.npdf(x, d, sigma) for d, v in zip(c, q, strict=True))
            return mp.npdf(x, 0, sigma) - mp.exp(eps)*w
        for eps in (1., 8.):
            end = crossing(gap, eps)
            true = float(mp.quad(lambda x, e=eps: gap(x, e), [-8, -3, -1, end]))
            low, _, up = ContourAccountant(loss).delta(eps)
            assert low <= true*(1 + 1e-12) and true <= up*(1 + 1e-12) and up < low*(1 + 1e-8)

@pytest.mark.parametrize('t', [-.48, -.3, -.05])
def test_negative_tilts_of_large_steps_reach_both_laws(t):
    "K at tilts between -1/2 and 0, against quadrature: one step in 20, and that a large one."
    q, mu = .05, 20
    loss = MixtureOfGaussians(sigma=1/mu, sensitivities=(0., 1.), probabilities=(1 - q, q)).remove

    def term(x):
        ratio = 1 - q + q*mp.exp(mu*x - mp.mpf(mu)**2/2)
        return mp.npdf(x)*ratio**(t + 1)
    truth = mp.log(mp.quad(term, np.linspace(-12, mu + 12, 80).tolist()))
    line = loss.line(t, np.array([0., .5]))
    assert abs(line.K - truth) <= line.error < 1e-10
