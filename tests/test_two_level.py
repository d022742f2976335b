"""sampling.two_level: a run on a sample, as one step. References: enumeration in Fractions, closed
forms of Gaussian steps, quadrature of sampled ones."""
import itertools
import json
import math
import re
import warnings
from decimal import localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from dp_saddle import (
    ApproxDP,
    BallsInBins,
    Composition,
    ContourAccountant,
    Discrete,
    FixedSize,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    TwoLevelSampled,
    certify,
    delta,
    dpsgd,
    epsilon,
    explain,
    fixed_size,
    from_steps,
    group,
    report,
    run_of_history,
    to_steps,
)
from dp_saddle.accounting import relations_of
from dp_saddle.command.main import main
from dp_saddle.sampling import two_level as page

pytestmark = pytest.mark.filterwarnings("ignore:the bounds hold, but are far apart")

WHOSE = 'record', 'client'

@pytest.fixture
def coarse(monkeypatch):
    "Fewer points: the bounds hold, and are wider."
    def forget():
        for kept in (page.pairs_of_run, page.pair_under): kept.cache_clear()
    forget()
    monkeypatch.setattr(page, '_PER_FALL', 12)
    yield
    forget()

def curve(pairs, gamma): return sum(max(p - gamma*q, 0) for p, q in pairs)

def steps_of(pairs, n):
    "The pairs of n steps, each outcome by itself."
    return [(math.prod(p for p, _ in row), math.prod(q for _, q in row))
            for row in itertools.product(pairs, repeat=n)]

def round_of(pairs, p, whose):
    "The pairs of a round, by what a coin does."
    if whose == 'client': return [(p*a, p*b) for a, b in pairs] + [(1 - p, 1 - p)]
    return [((1 - p)*b + p*a, b) for a, b in pairs]

def bounds(run, direction, eps):
    return ContourAccountant(getattr(run, direction)).delta(eps)

def vectors(rng, outcomes, zeros):
    "Two probability vectors of 64ths, with outcomes that one of them has alone."
    made = []
    for hole in (0, outcomes - 1):
        cuts = np.sort(rng.choice(np.arange(1, 64), outcomes - 1 - zeros, replace=False))
        v = np.diff(np.r_[0, cuts, 64])
        made.append([Fraction(int(x), 64) for x in (np.insert(v, hole, 0) if zeros else v)])
    return made

@pytest.mark.parametrize('whose', WHOSE)
@pytest.mark.parametrize('zeros', [0, 1])
def test_two_rounds_of_two_steps_by_enumeration(whose, zeros):
    "All outcomes of two rounds of two steps of any pair, in Fractions, in both directions."
    rng = np.random.default_rng(7 + zeros)
    for p in (Fraction(1, 4), Fraction(5, 8)):
        laws = vectors(rng, 4, zeros)
        pairs = list(zip(*laws, strict=True))
        whole = steps_of(round_of(steps_of(pairs, 2), p, whose), 2)
        step = Discrete(p=tuple(map(float, laws[0])), q=tuple(map(float, laws[1])))
        run = 2*TwoLevelSampled(2*step, rate=float(p), whose=whose)
        for gamma in (1, Fraction(5, 4), 3, 9):
            eps = math.log(gamma)
            for direction, them in (('remove', whole), ('add', [(b, a) for a, b in whole])):
                exact = float(curve(them, gamma))
                low, _, up = bounds(run, direction, eps)
                assert low <= exact*(1 + 1e-12) + 1e-15 and exact <= up*(1 + 1e-12)
                assert up - low <= 1e-2*exact + 1e-12

@pytest.mark.parametrize('whose', WHOSE)
def test_randomised_responses_are_exact(whose):
    "A run of few outcomes has few corners, and its points meet them all."
    told = [(Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))]
    whole = steps_of(round_of(steps_of(told, 2), Fraction(1, 4), whose), 2)
    run = 2*TwoLevelSampled(2*RandomizedResponse(eps=math.log(3)), rate=.25, whose=whose)
    low, _, up = ContourAccountant(run).delta(math.log(1.5))
    assert low <= float(curve(whole, Fraction(3, 2))) <= up < low + 1e-12
    most = {'record': 2*math.log(3/4 + 9/4), 'client': 4*math.log(3)}
    assert abs(epsilon(run, delta=0.) - most[whose]) < 1e-9

def test_a_round_of_one_step_is_a_step_at_the_product_of_the_rates():
    for n, direction in ((1, 'add'), (30, 'remove')):
        inner = PoissonSubsampled(Gaussian(sigma=1.), rate=.3)
        found = bounds(n*TwoLevelSampled(inner, rate=.1, whose='record'), direction, .02)
        exact = bounds(n*PoissonSubsampled(Gaussian(sigma=1.), rate=.03), direction, .02)
        assert found.lower <= exact.upper and exact.lower <= found.upper
        assert found.width < 2e-4*exact.estimate

def test_a_round_of_gaussian_steps_is_one_sampled_gaussian():
    for direction in ('remove', 'add'):
        inner = 4*Gaussian(sigma=2.) + Gaussian(sigma=1.)
        found = bounds(20*TwoLevelSampled(inner, rate=.2, whose='record'), direction, 2.)
        exact = bounds(20*PoissonSubsampled(inner, rate=.2), direction, 2.)
        assert found.lower <= exact.upper and exact.lower <= found.upper
        assert found.width < 2e-4*exact.estimate

@pytest.mark.parametrize('sigma, q, p, eps', [(1., .3, .4, .5), (.7, .1, .8, 1.)])
def test_sampled_steps_by_quadrature(sigma, q, p, eps):
    "Two sampled steps on a sample: the second one's threshold is known, the first is integrated."
    def of(x): return 1 - q + q*np.exp((2*x - 1)/(2*sigma**2))
    def tails(ratio):
        "P and Q of the second step's ratio being larger."
        if ratio <= 1 - q: return 1., 1.
        x = sigma**2*np.log((ratio - 1 + q)/q) + .5
        alone = stats.norm.sf(x, 0, sigma)
        return (1 - q)*alone + q*stats.norm.sf(x, 1, sigma), alone
    gamma = math.exp(eps)
    def density(x):
        P, Q = tails((1 + (gamma - 1)/p)/of(x))
        return stats.norm.pdf(x, 0, sigma)*(p*of(x)*P - (gamma - 1 + p)*Q)
    exact = integrate.quad(density, -9*sigma, 12*sigma + 1, points=(0, .5, 1, 2), limit=400,
                           epsabs=0, epsrel=1e-11)[0]
    inner = 2*PoissonSubsampled(Gaussian(sigma=sigma), rate=q)
    low, _, up = bounds(TwoLevelSampled(inner, rate=p, whose='record'), 'remove', eps)
    assert low <= exact*(1 + 1e-9) and exact <= up*(1 + 1e-9) and up - low < 1e-4*exact

def gaussian_delta(mu, eps):
    return stats.norm.cdf(mu/2 - eps/mu) - math.exp(eps)*stats.norm.cdf(-mu/2 - eps/mu)

@pytest.mark.parametrize('rounds', [1, 2, 6])
def test_a_coin_that_is_seen_mixes_over_the_rounds(rounds):
    p, sigma, eps = .3, 1.5, 1.
    weights = stats.binom.pmf(np.arange(rounds + 1), rounds, p)
    exact = sum(w*gaussian_delta(math.sqrt(3*k)/sigma, eps)
                for k, w in enumerate(weights) if k)
    run = rounds*TwoLevelSampled(3*Gaussian(sigma=sigma), rate=p, whose='client')
    low, _, up = ContourAccountant(run).delta(eps)
    assert low <= exact*(1 + 1e-12) and exact <= up*(1 + 1e-12) and up - low < 1e-4*exact
    assert run.symmetric

def test_the_product_of_rates_promises_too_much(coarse):
    local = 20*PoissonSubsampled(Gaussian(sigma=1.), rate=.05)
    flat = epsilon(100*PoissonSubsampled(Gaussian(sigma=1.), rate=.02), delta=1e-6)
    lower = [ContourAccountant(5*TwoLevelSampled(local, rate=.4, whose=whose)).epsilon(1e-6).lower
             for whose in WHOSE]
    assert 1.1*flat < lower[0] < lower[1] < epsilon(5*local, delta=1e-6)

@pytest.mark.parametrize('place', ['README.md', 'nbs/faq.ipynb', 'nbs/interop/flower.ipynb',
                                   'nbs/interop/events.ipynb', 'dp_saddle/command/words.py'])
def test_nobody_is_to_multiply_rates(place):
    "Where people look: front page, questions, adapters, --help."
    text = (Path(__file__).parent.parent/place).read_text(encoding='utf-8')
    assert re.search(r"rates?\b[^.|]*?\bnot\b[^.|]*?\bmultiplied|multiply the two rates\? *No\b",
                     text.replace("'\n          '", '').replace('\\n",\n    "', ''))

@pytest.mark.parametrize('seed', range(5))
def test_hulls_are_on_their_sides_of_any_curve(seed):
    "Bounds with noise at random points of a finite pair's curve: between the points, too."
    rng = np.random.default_rng(seed)
    pairs = [(float(p), float(q)) for p, q in rng.dirichlet(np.ones(9)/2, 2).T]
    def side(pairs):
        eps = np.append(0, np.sort(rng.uniform(0, 6, 25)))
        exact = np.array([curve(pairs, math.exp(e)) for e in eps])
        noise = rng.uniform(0, .01, (2, eps.size))*exact
        return page.Side(eps, exact - noise[0], exact + noise[1], 0.)
    right, left = side(pairs), side([(q, p) for p, q in pairs])
    left.lower[0], left.upper[0] = right.lower[0], right.upper[0]
    with localcontext() as context:
        context.prec = 130
        points = page.curve_points(right, left)
        hulls = [page.corners_of(page.points_below(points, 0., 0.)),
                 page.corners_of([(x, up) for x, _, up in points])]
    for gamma in np.exp(rng.uniform(-7, 7, 200)):
        below, above = (float(last) + sum(max(float(x) - gamma, 0)*float(q) for x, q in corners)
                        for corners, last in hulls)
        exact = curve(pairs, gamma)
        assert below <= exact + 1e-14 and exact <= above + 1e-14

def test_masses_at_infinity():
    "Seen: with probability p it happens; of an own coin only who is there can be betrayed."
    inner, mass = 3*ApproxDP(eps=.5, delta=.01), 1 - .99**3
    for whose, back in (('record', 0.), ('client', .4*mass)):
        step = TwoLevelSampled(inner, rate=.4, whose=whose)
        for direction, exact in (('remove', .4*mass), ('add', back)):
            low, _, up = bounds(step, direction, np.inf)
            assert low <= exact*(1 + 1e-9) and exact <= up*(1 + 1e-9) and up - low <= 1e-9*exact

def test_a_mass_beside_a_density():
    "Points end where the curve is its mass, to rounding, and lie close before."
    step = TwoLevelSampled(4*Gaussian(sigma=1.) + ApproxDP(eps=.1, delta=.3), rate=.1,
                           whose='client')
    truth = 1/(1 + math.exp(-.1))
    exact = .03 + .07*(truth*gaussian_delta(2, 1.9) + (1 - truth)*gaussian_delta(2, 2.1))
    low, _, up = ContourAccountant(step).delta(2.)
    assert low <= exact*(1 + 1e-12) and exact <= up*(1 + 1e-12) and up - low < 1e-4*exact
    assert len(page.pairs_of_run(step.base)[1][0]) < 6000

@pytest.mark.parametrize('whose', WHOSE)
@pytest.mark.parametrize('inner', [
    3*Laplace(scale=3.), BallsInBins(Gaussian(sigma=2.), batches=5), PureDP(eps=1.),
    2*TwoLevelSampled(2*Gaussian(sigma=2.), rate=.5, whose='client')], ids=str)
def test_kinds_of_runs(inner, whose, coarse):
    "Any kind of run: it costs less than if all joined, and the less the rarer one joins."
    rare, often = (TwoLevelSampled(inner, rate=p, whose=whose) for p in (.1, .5))
    found = [ContourAccountant(4*run).epsilon(1e-4) for run in (rare, often)]
    assert 0 <= found[0].upper < found[1].upper < epsilon(4*inner, delta=1e-4)
    assert all(0 <= b.lower <= b.upper and b.width <= 1e-2*b.upper for b in found)

def test_a_run_that_is_only_dominated():
    "Below is what its own loss dominates, above what dominates it, round by round."
    inner = 2*FixedSize(sigma=2., batch_size=5, dataset_size=50)
    step, eps = TwoLevelSampled(inner, rate=.5, whose='client'), .4
    losses = [[(k*inner).remove.dominated, (k*inner).remove] for k in (1, 2)]
    one, two = ([ContourAccountant(loss).delta(eps).upper for loss in both] for both in losses)
    below, above = (.5*a + .25*b for a, b in zip(one, two, strict=True))
    low, _, up = ContourAccountant(2*step).delta(eps)
    assert .999*below <= low <= below < .999*above < up <= 1.001*above

def test_all_join():
    inner = 2*PoissonSubsampled(Gaussian(sigma=1.), rate=.1)
    for whose in WHOSE:
        assert 3*TwoLevelSampled(inner, rate=1., whose=whose) == 3*inner
        alone = epsilon(TwoLevelSampled(inner, rate=1., whose=whose), delta=1e-6)
        assert abs(alone - epsilon(inner, delta=1e-6)) < 1e-9
    assert TwoLevelSampled(1*Gaussian(sigma=1.), rate=.5, whose='record') == TwoLevelSampled(
        Gaussian(sigma=1.), rate=.5, whose='record')
    assert delta(TwoLevelSampled(0*inner, rate=.5, whose='record'), eps=.1) == 0
    run = dpsgd(sigma=1., batch_size=1, dataset_size=9, steps=1, sampling='poisson')
    assert TwoLevelSampled(run, rate=.5, whose='client').base == run.mechanism.as_steps()[0][0]

@pytest.mark.parametrize('given, error, message', [
    (dict(base=3), TypeError, 'base must be a mechanism'),
    (dict(rate=0.), ValueError, r'rate must be in \(0, 1\], got 0.0'),
    (dict(whose='hers'), ValueError, "whose must be 'record' or 'client', got 'hers'"),
    (dict(base=FixedSize(sigma=2., batch_size=5, dataset_size=50)), ValueError,
     "base must be for adding or removing one record, with whose = 'record'"),
    (dict(base=TwoLevelSampled(FixedSize(sigma=2., batch_size=5, dataset_size=50), rate=.5,
                               whose='client')), ValueError, "got one for 'replacing one record'"),
    ], ids=str)
def test_bad_rounds(given, error, message):
    with pytest.raises(error, match=message):
        TwoLevelSampled(**dict(base=Gaussian(sigma=1.), rate=.5, whose='record') | given)

@pytest.mark.parametrize('base, message', [
    (RenyiDP(orders=(2.,), divergences=(.1,)), 'the curve of a base, .* is not known for RenyiDP'),
    (Gaussian(sigma=.02), 'base must cost less, .* at most 700 nats, got delta = 1 there'),
    (PureDP(eps=800.), 'base must cost less')], ids=str)
def test_runs_without_a_curve(base, message):
    with pytest.raises(ValueError, match=message):
        epsilon(TwoLevelSampled(base, rate=.5, whose='client'), delta=1e-5)

RUN = (3*TwoLevelSampled(2*PoissonSubsampled(Gaussian(sigma=1.), rate=.1) + Laplace(scale=3.),
                         rate=.5, whose='client')
       + TwoLevelSampled(Gaussian(sigma=2.), rate=.25, whose='record'))

def test_files(tmp_path, capsys, coarse):
    "A round is a step of a file, with the steps of its run within."
    steps = json.loads(json.dumps(to_steps(RUN)))
    assert Composition(tuple(from_steps(steps))) == RUN
    assert steps[0]['base'][0] == dict(mechanism='Gaussian', sigma=1., sensitivity=1., rate=.1,
                                       count=2)
    path = tmp_path/'run.json'
    path.write_text(json.dumps(steps))
    assert main(['epsilon', '--run', str(path), '--delta', '1e-5']) in (0, None)
    assert f'{epsilon(RUN, delta=1e-5):.6g}'[:6] in capsys.readouterr().out

@pytest.mark.parametrize('change, message', [
    (dict(base=[{'mechanism': 'Gaussian'}]), 'step 0: base: step 0: sigma is needed for Gaussian'),
    (dict(base={}), 'step 0: base: steps must be a list'),
    (dict(rate='x'), "step 0: rate must be a number, got the text 'x'"),
    (dict(whose='hers'), "step 0: whose must be 'record' or 'client'")])
def test_bad_files(change, message):
    with pytest.raises(ValueError, match=message):
        from_steps([to_steps(RUN)[0] | change])

def test_what_is_said_of_it(coarse):
    "Neighbours of the run inside, how batches are drawn on both levels, and only its own ways."
    replaced = TwoLevelSampled(2*FixedSize(sigma=2., batch_size=5, dataset_size=50), rate=.5,
                               whose='client')
    assert relations_of(replaced) == ['replacing one record']
    assert relations_of(RUN) == ['adding or removing one record']
    inner = 2*PoissonSubsampled(Gaussian(sigma=1.), rate=.1)
    step = TwoLevelSampled(inner, rate=.5, whose='client')
    said = str(report(step, delta=1e-5))
    assert "a round's clients, each by a coin that counts as seen" in said
    assert 'Poisson, a fresh sample at each step' in said
    assert str(explain(TwoLevelSampled(Laplace(scale=2.5), rate=.5, whose='client'),
                       delta=1e-5)).count('tried') < 6

def test_a_warning_says_what_it_is_known_by(monkeypatch):
    "Of bounds that are further apart than is usual for them."
    monkeypatch.setattr(page, '_USUAL', 0.)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter('always')
        ContourAccountant(9*TwoLevelSampled(4*Gaussian(sigma=2.), rate=.1,
                                            whose='record')).epsilon(1e-6)
    assert any('the curve of a run on a sample is known at some' in str(w.message) for w in said)

def test_events_in_events(coarse):
    "A sampled event around sampled events is a round with a coin of its own."
    text = ('PoissonSampledDpEvent(sampling_probability=.5, event=SelfComposedDpEvent(count=4, '
            'event=PoissonSampledDpEvent(sampling_probability=.05, event=GaussianDpEvent('
            'noise_multiplier=1.))))')
    step = TwoLevelSampled(4*PoissonSubsampled(Gaussian(sigma=1.), rate=.05), rate=.5,
                           whose='record')
    assert run_of_history(text) == 1*step
    events = pytest.importorskip('dp_accounting')
    from dp_saddle.interop import SaddlePrivacyAccountant, as_event
    event = events.PoissonSampledDpEvent(.5, events.SelfComposedDpEvent(
        events.PoissonSampledDpEvent(.05, events.GaussianDpEvent(1.)), 4))
    assert as_event(step) == event
    relations = events.NeighboringRelation
    for relation in (relations.ADD_OR_REMOVE_ONE, relations.REPLACE_SPECIAL):
        found = SaddlePrivacyAccountant(relation).compose(event, 2).get_epsilon(1e-5)
        assert found == epsilon(2*step, delta=1e-5)
    assert not SaddlePrivacyAccountant(relations.REPLACE_ONE).supports(event)
    with pytest.raises(ValueError):
        as_event(TwoLevelSampled(Gaussian(sigma=1.), rate=.5, whose='client'))

@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize('whose', WHOSE)
def test_no_warning_with_each_answer(whose):
    "The curve's points leave a hundred-thousandth open: the interval shows it, and that is all."
    run = 3*TwoLevelSampled(2*Gaussian(sigma=2.), rate=.1, whose=whose)
    low, _, up = ContourAccountant(run).epsilon(1e-5)[:3]
    assert 1e-6 < up - low < 1e-4 and low < epsilon(run, delta=1e-5) < up + 1e-4

@pytest.mark.parametrize('step', [
    TwoLevelSampled(2*Gaussian(sigma=2.), rate=.1, whose='client'),
    fixed_size(sigma=1., batch_size=9, dataset_size=90, relation='zero-out')])
def test_what_to_do_for_groups_and_certificates(step):
    "Errors that say it; and what they say is proved of a group: twice eps, 1 + e^eps times delta."
    with pytest.raises(ValueError, match='proved in doubles, by epsilon, delta and report'):
        certify(step, delta=1e-5)
    with pytest.raises(ValueError, match=r'group\(ApproxDP\(eps=epsilon\(run, delta=d\), delta=d'):
        group(step, 2)
    eps = 1.
    both = group(ApproxDP(eps=eps, delta=1e-9), 2)
    assert epsilon(both, delta=1e-9*(1 + math.e)*(1 + 1e-9)) <= 2*eps*(1 + 1e-9)
