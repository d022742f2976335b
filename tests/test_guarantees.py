"""steps/guarantees: a Renyi curve, a mu, a profile. References: the theorems' formulas in mpmath,
in Fractions and by enumeration, and dp_accounting where it is installed."""
import itertools
import json
import math
import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dp_saddle import (
    ZCDP,
    ApproxDP,
    Budget,
    ContourAccountant,
    Gaussian,
    GaussianDP,
    Laplace,
    MomentsAccountant,
    PoissonSubsampled,
    PrivacyProfile,
    PureDP,
    RenyiDP,
    certify,
    delta,
    dpsgd,
    epsilon,
    epsilon_after,
    from_steps,
    group,
    privacy_profile,
    rdp,
    report,
    selected,
    to_steps,
)
from dp_saddle.accounting import best_accountant


def S(base, rate): return PoissonSubsampled(base, rate=rate)

def curve(orders, R): return RenyiDP(orders=orders, divergences=R)

def gaussian_curve(orders, sigma):
    return RenyiDP(orders=tuple(orders), divergences=tuple(a/(2*sigma**2) for a in orders))

def converted(orders, R, d):
    "The least eps of Canonne et al. (2020), Prop. 12, over these orders alone."
    a, R = np.array(orders), np.array(R)
    return float(np.min(R + np.log1p(-1/a) - (math.log(d) + np.log(a))/(a - 1)))

USUAL = [1 + x/10 for x in range(1, 100)] + list(range(12, 64))
SPARSE = [1.5, 2., 4., 32.]

@pytest.mark.parametrize('orders', [USUAL, SPARSE, [8.]], ids=['usual', 'sparse', 'one'])
@pytest.mark.parametrize('n, d', [(1, 1e-5), (40, 1e-5), (3, .01), (1000, 1e-12)])
def test_renyi_curve(orders, n, d):
    """At most what the given orders say, and no less than what all real orders do of the Gaussian
    that has these divergences, nor than what that costs."""
    step, sigma = gaussian_curve(orders, 6.), 6.
    found = best_accountant(n*step).epsilon(d)
    assert found.upper <= converted(orders, [n*a/(2*sigma**2) for a in orders], d)*(1 + 1e-11)
    assert MomentsAccountant(n*Gaussian(sigma=sigma)).epsilon(d).estimate <= found.upper*(1 + 1e-11)
    assert found.lower <= epsilon(n*Gaussian(sigma=sigma), delta=d) <= found.upper
    assert MomentsAccountant(n*step).epsilon(d).upper >= found.upper*(1 - 1e-11)

def test_delta_of_a_renyi_curve():
    "delta(eps) and eps(delta) are inverse; at eps = 0 and far away they are bounds still."
    run = 5*gaussian_curve(SPARSE, 3.)
    for e in (.5, 2., 9., 40.):
        d = delta(run, eps=e)
        a = np.array(SPARSE)
        K = (a - 1)*5*a/18 - (a - 1)*e + (a - 1)*np.log1p(-1/a) - np.log(a)
        assert ContourAccountant(5*Gaussian(sigma=3.)).delta(e).lower <= d
        assert d <= math.exp(min(K.min(), 0.))*(1 + 1e-11) + 5e-324
        if 1e-300 < d < 1: assert epsilon(run, delta=d) == pytest.approx(e, rel=1e-6)
    assert delta(run, eps=0) <= 1 and delta(run, eps=math.inf) == 0
    assert epsilon(run, delta=0) == math.inf

def test_hull_between_orders():
    "Where a given divergence is worse than what its neighbours prove, it does not count."
    plain = RenyiDP(orders=(2., 4.), divergences=(.5, 1.))
    worse = RenyiDP(orders=(2., 3., 4.), divergences=(.5, 40., 1.))
    assert rdp(worse, 3.) == rdp(plain, 3.) == pytest.approx((.5*.5 + .5*3)/2, rel=1e-12)
    assert rdp(worse, 1.5) == pytest.approx(.5, rel=1e-12)            # the chord from 0
    falls = RenyiDP(orders=(2., 4.), divergences=(3., 1.))             # divergences never fall
    assert rdp(falls, 2.) == pytest.approx(1., rel=1e-12)
    with pytest.raises(ValueError, match='alpha'): rdp(plain, 4.5)

def test_beside_known_laws():
    "A curve that costs hardly anything leaves the others their law."
    others = 500*S(Gaussian(sigma=2.), .01)
    orders = tuple(2.**k for k in range(1, 20))
    hair = RenyiDP(orders=orders, divergences=tuple(a*1e-14 for a in orders))
    assert epsilon(others, delta=1e-5) < epsilon(others + hair, delta=1e-5) \
        < 1.001*epsilon(others, delta=1e-5)
    both = hair + gaussian_curve(USUAL, 5.) + ZCDP(rho=.02)
    exact = epsilon(2*Gaussian(sigma=5.), delta=1e-6)
    found = best_accountant(both).epsilon(1e-6)
    assert found.lower <= exact <= found.upper < 1.3*exact

def sampled(orders, q, R):
    "K of [Zhu and Wang 2019, Thm 5], 60 digits."
    with mp.workdps(60):
        out = []
        for a in orders:
            total = (1 - mp.mpf(q))**(a - 1)*(1 + (a - 1)*mp.mpf(q))
            for l in range(2, a + 1):
                times = 1 if l == 2 else 3
                total += times*mp.binomial(a, l)*mp.mpf(q)**l*(1 - mp.mpf(q))**(a - l)*mp.e**(
                    (l - 1)*R(l))
            out.append(mp.log(total))
        return out

@pytest.mark.parametrize('q', [1e-7, .01, .3, .999])
@pytest.mark.parametrize('step, R', [
    (gaussian_curve(range(2, 33), 3.), lambda l: mp.mpf(l)/18),
    (gaussian_curve(range(2, 600), .5), lambda l: mp.mpf(l)*2),
    (gaussian_curve(range(2, 40), 2.**15), lambda l: mp.mpf(l)/2**31)],
    ids=['curve', 'much', 'little'])
def test_on_a_sample(step, R, q):
    "The theorem's sum, from above, to all digits but four; orders where the hull leaves it."
    orders = [2, 3, 9, 32]
    found = S(step, q).remove.bound(np.array(orders) - 1.)
    exact = sampled(orders, q, R)
    assert found[0] == pytest.approx(float(exact[0]), rel=1e-11)
    for ours, true in zip(found, exact, strict=True):
        assert ours <= true*(1 + mp.mpf(1e-11))
    on = S(step, q).remove
    for t, K in zip(on.t[1:40].tolist(), on.K[1:40].tolist(), strict=True):
        assert sampled([round(t) + 1], q, R)[0] <= K

def test_sampled_curve_is_above_its_gaussian():
    exact = S(Gaussian(sigma=2.), .02)
    ours = S(gaussian_curve(range(2, 129), 2.), .02)
    for n in (1, 200):
        least, most = epsilon(n*exact, delta=1e-6), epsilon(n*ours, delta=1e-6)
        assert least < most < epsilon(n*gaussian_curve(range(2, 129), 2.), delta=1e-6)
    assert (rdp(exact, [2., 5., 30.]) <= rdp(ours, [2., 5., 30.])*(1 + 1e-9)).all()

@pytest.mark.parametrize('make, message', [
    (lambda: curve((), ()), 'orders must be a vector of increasing'),
    (lambda: curve((2., 2.), (1., 1.)), 'orders must be a vector of increasing'),
    (lambda: curve((1., 2.), (1., 1.)), r'orders must be in \(1, 1e\+06\], got 1'),
    (lambda: curve((2.,), (0.,)), r'divergences must be in \(0, inf\), got 0'),
    (lambda: curve((2.,), (math.inf,)), r'divergences must be in \(0, inf\), got inf'),
    (lambda: curve((2., 3.), (1.,)), 'divergences must be as many as orders, 2'),
    (lambda: S(RenyiDP(orders=(1.5,), divergences=(1.,)), .1).add, 'orders must reach 2'),
    (lambda: group(RenyiDP(orders=(3.,), divergences=(1.,)), 2), 'orders must reach 4'),
    (lambda: GaussianDP(mu=0.), r'mu must be in \(1e-100, 1e\+100\), got 0'),
    (lambda: PrivacyProfile(eps=(1., 1.), delta=(.1, .1)), 'eps must be a vector of increasing'),
    (lambda: PrivacyProfile(eps=(1., -1.), delta=(.1, .1)), r'eps must be in \[0, 10000\], got -1'),
    (lambda: PrivacyProfile(eps=(1.,), delta=(1.,)), r'delta must be in \[0, 1\), got 1'),
    (lambda: PrivacyProfile(eps=(1., 2.), delta=(.1,)), 'delta must be as many as eps, 2'),
    (lambda: privacy_profile('curve'), 'curve must be a function of eps'),
    (lambda: group(PrivacyProfile(eps=(1.,), delta=(.1,)), 2), 'got PrivacyProfile'),
    (lambda: ContourAccountant(gaussian_curve(SPARSE, 1.)).epsilon(1e-5), 'known by its Renyi'),
])
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError), match=message): make()

# ---------------- mu

def test_gaussian_dp():
    "The Gaussian's pair: alone, sampled, composed, in groups; to all digits."
    for a, b in ((GaussianDP(mu=.5), Gaussian(sigma=2.)),
                 (30*GaussianDP(mu=.5), 30*Gaussian(sigma=2.)),
                 (99*S(GaussianDP(mu=.5), .02), 99*S(Gaussian(sigma=2.), .02)),
                 (GaussianDP(mu=.5) + 9*S(Gaussian(sigma=2.), .1),
                  Gaussian(sigma=2.) + 9*S(Gaussian(sigma=2.), .1)),
                 (group(GaussianDP(mu=.5), 3), group(Gaussian(sigma=2.), 3))):
        assert epsilon(a, delta=1e-6) == pytest.approx(epsilon(b, delta=1e-6), rel=1e-9)
        assert delta(a, eps=1.) == pytest.approx(delta(b, eps=1.), rel=1e-9)

# ---------------- profiles

def curve_of(p, q, e):
    "delta of a finite pair, exactly."
    return max(sum(max(x - y*Fraction(math.exp(e)), 0) for x, y in zip(*pair, strict=True))
               for pair in ((p, q), (q, p)))

def random_pair(seed, size=4):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    if seed % 2: p[0], q[0] = p[0] + q[0], 0.
    total = p.sum(), q.sum()
    return [Fraction(x)/Fraction(total[0]) for x in p.tolist()], [Fraction(x)/Fraction(total[1])
                                                                  for x in q.tolist()]

@pytest.mark.parametrize('seed', range(8))
@pytest.mark.parametrize('at', [(0., .25, .5, 1., 2., 4.), (.5, 1.), (1.,), (0.,)], ids=len)
def test_profile_of_a_pair(seed, at):
    """Above the true curve at every real eps, on or below the points, and its own mirror image; two
    steps of it are above two steps of the pair, which are enumerated."""
    p, q = random_pair(seed)
    exact = [curve_of(p, q, e) for e in at]
    step = PrivacyProfile(eps=at, delta=tuple(float(d)*(1 + 1e-15) for d in exact))
    for e in np.linspace(-4, 5, 37).tolist():
        assert step.remove.delta(e)*(1 + 1e-12) >= float(curve_of(p, q, e)), e
        assert step.remove.delta(e) == pytest.approx(step.add.delta(e), rel=1e-12)
    for e, d in zip(at, exact, strict=True):
        assert step.remove.delta(e) <= float(d)*(1 + 1e-12) + 1e-15
    if len(at) < 6: return
    pp, qq = ([x*y for x, y in itertools.product(v, v)] for v in (p, q))
    for e in (0., 1., 3.): assert delta(2*step, eps=e) >= float(curve_of(pp, qq, e))*(1 - 1e-12)

def test_two_points_by_hand():
    """(0, 1/4) and (ln 3, 0): half of the time randomised response with ln 3, whose delta(0) is
    1/2, and nothing otherwise; a point above the line between them says nothing."""
    step = PrivacyProfile(eps=(0., math.log(3)), delta=(.25, 0.))
    for e in (0., .3, 1., 1.2):
        assert step.remove.delta(e) == pytest.approx(.5*max(3 - math.exp(e), 0)/4, abs=1e-15)
    useless = PrivacyProfile(eps=(0., .5, math.log(3)), delta=(.25, .249, 0.))
    assert useless.remove.delta(.5) == pytest.approx(step.remove.delta(.5), abs=1e-15)

@pytest.mark.parametrize('eps, d', [(1., .01), (0., .2), (30., 1e-9), (700., 0.), (5000., 1e-4)])
def test_one_point_is_approximate_dp(eps, d):
    one, known = PrivacyProfile(eps=(eps,), delta=(d,)), ApproxDP(eps=eps, delta=d)
    for e in (0., eps/3, eps + 1):
        assert one.remove.delta(e) == pytest.approx(known.remove.delta(e), rel=1e-12, abs=1e-300)
        assert one.add.delta(-e) == pytest.approx(known.add.delta(-e), rel=1e-12, abs=1e-300)

def test_profile_of_a_gaussian():
    "Dots closer together cost less; sampled, it is above the sampled Gaussian."
    exact = epsilon(20*Gaussian(sigma=4.) + Laplace(scale=4.), delta=1e-6)
    def curve(e): return ContourAccountant(20*Gaussian(sigma=4.)).delta(e).upper
    found = [epsilon(privacy_profile(curve, np.linspace(0, 12, k)) + Laplace(scale=4.), delta=1e-6)
             for k in (40, 160)]
    assert exact < found[1] < found[0] < 1.1*exact and found[1] < 1.01*exact
    dots = privacy_profile(curve)
    one = privacy_profile(lambda e: float(delta(Gaussian(sigma=1.), eps=e)))
    assert exact <= epsilon(dots + Laplace(scale=4.), delta=1e-6) < 1.0001*exact
    least = epsilon(5*S(Gaussian(sigma=1.), .1), delta=1e-5)
    assert least <= epsilon(5*S(one, .1), delta=1e-5) < 1.01*least

def test_pld_of_dp_accounting():
    "Their distribution, and ours of the same run; an optimistic one is refused."
    pld = pytest.importorskip('dp_accounting.pld.privacy_loss_distribution')
    theirs = pld.from_gaussian_mechanism(2., sampling_prob=.1, value_discretization_interval=1e-3)
    run = 50*S(Gaussian(sigma=2.), .1)
    exact = epsilon(run + PureDP(eps=.5), delta=1e-5)
    found = epsilon(privacy_profile(theirs.self_compose(50)) + PureDP(eps=.5), delta=1e-5)
    assert exact <= found < 1.01*exact
    low = pld.from_gaussian_mechanism(2., pessimistic_estimate=False)
    with pytest.raises(ValueError, match='curve must be a pessimistic one'): privacy_profile(low)

def test_pld_of_riskcal():
    "The distribution that their accountant has after fifty steps."
    accountant = pytest.importorskip('riskcal.accountants').CTDAccountant()
    for _ in range(50): accountant.step(noise_multiplier=2., sample_rate=.1)
    exact = epsilon(50*S(Gaussian(sigma=2.), .1), delta=1e-5)
    assert exact <= epsilon(privacy_profile(accountant.get_pld()), delta=1e-5) < 1.01*exact

def test_rdp_of_dp_accounting():
    accounting = pytest.importorskip('dp_accounting.rdp.rdp_privacy_accountant')
    orders = list(range(2, 64))
    R = [a/8 for a in orders]
    theirs, _ = accounting.compute_epsilon(orders, R, 1e-5)
    ours = epsilon(RenyiDP(orders=tuple(orders), divergences=tuple(R)), delta=1e-5)
    assert .999*theirs < ours <= theirs*(1 + 1e-9)

# ---------------- groups

@pytest.mark.parametrize('k', [1, 2, 3, 10])
def test_groups(k):
    assert Fraction(group(PureDP(eps=.3), k).eps) >= k*Fraction(.3)
    assert group(PureDP(eps=.3), k).eps == pytest.approx(.3*k, rel=1e-15)
    assert group(GaussianDP(mu=.3), k).mu == pytest.approx(.3*k, rel=1e-15)
    for eps in (.3, 1e-9, 0.):
        found = group(ApproxDP(eps=eps, delta=1e-7), k)
        ladder = sum(mp.mpf(1e-7)*mp.e**(mp.mpf(eps)*i) for i in range(k))
        assert found.eps == pytest.approx(eps*k, rel=1e-15)
        assert ladder <= found.delta <= ladder*(1 + mp.mpf(1e-13)) or k == 1
    z = group(ZCDP(rho=.3, xi=.1), k)
    harmonic = sum(Fraction(1, i) for i in range(1, k + 1))
    assert Fraction(z.rho) >= k*k*Fraction(.3) and Fraction(z.xi) >= k*harmonic*Fraction(.1) \
        and z.xi == pytest.approx(k*float(harmonic)*.1, rel=1e-15)
    curve = group(gaussian_curve([4., 8., 16., 32., 64.], 3.), k)
    for a, R in zip(curve.orders, curve.divergences, strict=True): assert R >= k*k*a/18*(1 - 1e-15)

def test_group_of_no_privacy():
    assert group(ApproxDP(eps=300., delta=1e-9), 5) == ApproxDP(eps=1500., delta=1.)
    assert group(ApproxDP(eps=1., delta=0.), 5) == ApproxDP(eps=5., delta=0.)
    run = group(2*PureDP(eps=.25) + ZCDP(rho=.5), 2)
    assert dict(run.steps) == {PureDP(eps=.5): 2, ZCDP(rho=2.): 1}

def test_group_of_a_pair_that_is_known():
    "Three bits of randomised response in a row, each told about one record: enumerated."
    p = Fraction(math.e**.5)/(1 + Fraction(math.e**.5))
    pair = [p, 1 - p], [1 - p, p]
    three = [[math.prod(v) for v in itertools.product(x, x, x)] for x in pair]
    for e in (0., 1., 1.4):
        assert float(curve_of(*three, e)) <= delta(group(PureDP(eps=.5), 3), eps=e)*(1 + 1e-12)

# ---------------- beside runs, in files

GUARANTEES = [ZCDP(rho=.01), GaussianDP(mu=.1), gaussian_curve(SPARSE, 20.),
              PrivacyProfile(eps=(.5, 1.), delta=(1e-3, 1e-7)), S(gaussian_curve(SPARSE, 9.), .1),
              S(GaussianDP(mu=.5), .1)]

@pytest.mark.parametrize('step', GUARANTEES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize('relation', ['add-remove', 'replace-one', 'zero-out'])
def test_beside_a_run(step, relation):
    "For the neighbours of the run; two runs for different ones are refused still."
    run = dpsgd(sigma=4., batch_size=10, dataset_size=1000, steps=20, sampling='none',
                relation=relation)
    both = run + 2*step
    assert both.relation == (2*step + run).relation == run.relation
    assert epsilon(run, delta=.01) < epsilon(both, delta=.01) < math.inf
    other = dpsgd(sigma=4., batch_size=10, dataset_size=1000, steps=20, sampling='none',
                  relation='replace-one' if relation != 'replace-one' else 'zero-out')
    with pytest.raises(ValueError, match='for the same neighbours'): both + other

@pytest.mark.parametrize('step', GUARANTEES, ids=lambda m: type(m).__name__)
def test_in_files(step, tmp_path):
    run = 3*step + Gaussian(sigma=9.)
    text = json.dumps(to_steps(run), allow_nan=False)
    assert sum(n*m for m, n in from_steps(json.loads(text))) == run
    book = Budget(eps=9., delta=.05)
    book.spend(run)
    book.save(tmp_path/'book.json')
    assert Budget(eps=9., delta=.05).load(tmp_path/'book.json').spent == book.spent
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        after = epsilon_after([(step, 3)], delta=.05)
    assert after[-1] <= epsilon(3*step, delta=.05)*1.05 + 1e-9 and (np.diff(after) >= 0).all()

def test_certificates_name_what_they_have():
    with pytest.raises(ValueError, match='mechanism must be one of'):
        certify(GaussianDP(mu=1.), delta=1e-5)

def test_whom_it_protects():
    "A guarantee alone is for its own neighbours; beside others for theirs; so is a search of both."
    alone, both = 2*ZCDP(rho=.1), ZCDP(rho=.1) + Gaussian(sigma=2.)
    assert 'its guarantee is for' in report(alone, delta=1e-5)
    for run in (both, selected(both)):
        said = report(run, delta=1e-5)
        assert 'adding or removing one record' in said and 'its guarantee is for' not in said

@pytest.mark.parametrize('R, rate', [(10., 1e-3), (3., .01), (.25, .3)])
@pytest.mark.parametrize('top', ['remove', 'add'])
def test_a_sample_costs_no_less_than_one_that_it_may_be(R, rate, top):
    "A sample changes a share `rate` of all outcomes: no lower bound at eps = 0 is more."
    step = S(curve((2.,), (R,)), rate)
    found = best_accountant(step).delta(0.)
    assert 0 < found.lower <= rate
    mu = math.sqrt(R)*(1 - 1e-12)                     # a Gaussian of R(2) = R, sampled at this rate
    may_be = rate*(1 - 2*float(mp.ncdf(-mu/2)))
    assert found.lower == pytest.approx(may_be, rel=1e-6)
    loss = getattr(step, top)
    e = np.array([.001, .01])
    assert (loss.witness.reverse.delta(e) == loss.reverse.witness.delta(e)).all()
    assert (loss.reverse.witness.delta(e) != loss.witness.delta(e)).any()

def hull(eps, delta):
    "The curve of [points of a profile]: the lower hull of the points and their images, 700 digits."
    points = [(mp.mpf(0), mp.mpf(1))]
    for e, d in zip(eps, np.minimum.accumulate(delta).tolist(), strict=True):
        g, d = mp.e**mp.mpf(e), mp.mpf(d)
        points += [(g, d)] + [(1/g, 1 - (1 - d)/g)]*(e > 0)
    kept = []
    def slope(a, b): return (b[1] - a[1])/(b[0] - a[0])
    for b in sorted(points):
        while len(kept) > 1 and slope(*kept[-2:]) >= slope(kept[-1], b): kept.pop()
        kept.append(b)
    def at(e):
        g = mp.e**mp.mpf(e)
        for a, b in itertools.pairwise(kept):
            if a[0] <= g <= b[0]: return a[1] + slope(a, b)*(g - a[0])
        return kept[-1][1]
    return at

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('eps, delta', [
    (np.sort(np.random.default_rng(8).uniform(0, .1, 200)), None),
    (np.linspace(1e-9, 3e-9, 3), [1e-12, 9e-13, 8.5e-13]),
    ([.5, 1.], [1e-300, 5e-324]), ([0., 1e-300, 2.], [3e-300, 2.5e-300, 1e-310])],
    ids=['many', 'close', 'tiny', 'closer'])
def test_a_profile_is_known_to_all_digits(eps, delta):
    "Between lower and upper, where slopes hardly differ, too."
    eps = np.array(eps)
    if delta is None: delta = ContourAccountant(Gaussian(sigma=20.)).delta(eps).upper
    step = PrivacyProfile(eps=tuple(eps), delta=tuple(delta))
    with mp.workdps(700):
        at = hull(eps.tolist(), np.array(delta))
        for e in [0., *eps[:3].tolist(), .37*eps[-1], .999*eps[-1], 1.5*eps[-1]]:
            found = ContourAccountant(step).delta(float(e))
            assert found.lower <= at(float(e)) <= found.upper

def test_a_curve_may_answer_with_bounds():
    "An accountant's `delta`: the upper ones count. A number of another library is one, too."
    asked, at = ContourAccountant(10*Gaussian(sigma=4.)).delta, [0., 1., 3.]
    found = privacy_profile(asked, eps=at)
    assert found.delta == tuple(asked(e).upper for e in at)
    for number in (mp.mpf, np.float32, np.array):
        assert privacy_profile(lambda e, number=number: number(.25), eps=[1.]).delta == (.25,)

@pytest.mark.parametrize('answer, message', [
    (None, 'delta of curve must be a real number, got None'), (math.nan, 'delta of curve .* nan'),
    ([.1, .2], 'delta of curve must be a real number'), ('1', "delta of curve .*, got '1'"),
    (True, 'delta of curve .* True'), (2., r'delta must be in \[0, 1\), got 2')], ids=str)
def test_a_curve_that_answers_something_else(answer, message):
    with pytest.raises((TypeError, ValueError), match=message):
        privacy_profile(lambda e: answer, eps=[0., 1.])

@pytest.mark.parametrize('eps', [1., [], [[0., 1.]], [2., 1.]], ids=str)
def test_a_curve_is_asked_at_increasing_eps(eps):
    with pytest.raises(ValueError, match=r'eps must be a vector of increasing .* got [^n]*$'):
        privacy_profile(lambda e: math.exp(-1 - e), eps=eps)

@pytest.mark.parametrize('step, message', [
    (RenyiDP(orders=(16.,), divergences=(1e308,)), 'divergences must be in'),
    (PureDP(eps=9e99), 'eps must be in'), (ZCDP(rho=1e308), 'rho must be in')],
    ids=['R', 'eps', 'rho'])
def test_a_group_beyond_doubles(step, message):
    with pytest.raises(ValueError, match=message): group(step, 8)

@pytest.mark.filterwarnings('ignore:the bounds hold')
@pytest.mark.parametrize('base', [GaussianDP(mu=1e6), GaussianDP(mu=1e99), 4*Gaussian(sigma=1e-6)],
                         ids=['mu', 'huge', 'sum'])
def test_a_sample_with_too_little_noise_for_a_grid(base):
    "Charged without the gain from sampling, as a sampled Gaussian is, and 0 from below."
    found = best_accountant(3*S(base, .1)).epsilon(1e-5)
    assert found.lower == 0 < found.upper == pytest.approx(epsilon(3*base, delta=1e-5), rel=1e-12)

def test_a_profile_that_answers_both_questions():
    "OpenDP's profiles have delta(epsilon) and epsilon(delta), and so have accountants."
    class Profile:
        def delta(self, epsilon): return max(0., .5 - epsilon/4)
        def epsilon(self, delta): return 2 - 4*delta
    at = np.array([0., 1., 2.])
    assert privacy_profile(Profile(), eps=at).delta == (.5, .25, 0.)
    run = 3*Gaussian(sigma=2.)
    asked = privacy_profile(ContourAccountant(run), eps=at).delta
    assert asked == tuple(float(delta(run, eps=e)) for e in at)
    class Half:
        delta = Profile.delta
    for wrong in (Half(), Gaussian(sigma=1.).remove):          # a loss is of one direction alone
        with pytest.raises(TypeError, match='curve must be a function of eps, or have get_delta'):
            privacy_profile(wrong, eps=at)

def test_opendp():
    "Curves there and back: what its Gaussian costs by zCDP, and what a run costs here."
    theirs = pytest.importorskip('opendp.prelude')
    theirs.enable_features('contrib', 'honest-but-curious')
    noise = theirs.m.make_gaussian(theirs.atom_domain(T=float, nan=False),
                                   theirs.absolute_distance(T=float), scale=2.)
    known = theirs.c.make_zCDP_to_approxDP(noise).map(1.)
    step = privacy_profile(known)
    exact = known.epsilon(delta=1e-6)
    assert exact*(1 - 1e-9) <= epsilon(step, delta=1e-6) <= exact*(1 + 1e-5)
    assert epsilon(5*step, delta=1e-6) > epsilon(5*Gaussian(sigma=2.), delta=1e-6)
    run = 100*PoissonSubsampled(Gaussian(sigma=2.), rate=.01)
    profile = theirs.new_privacy_profile(lambda eps: delta(run, eps=eps))
    assert profile.delta(epsilon=.25) == delta(run, eps=.25)
    eps = profile.epsilon(delta=1e-5)
    assert math.isclose(eps, epsilon(run, delta=1e-5), rel_tol=1e-8) and delta(run, eps=eps) <= 1e-5
    assert profile.epsilon(delta=0.) == math.inf
