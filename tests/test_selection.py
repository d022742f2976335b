"The best of many runs: against all orders of outcomes, published numbers, bad input."
import json
import pickle
from itertools import permutations
from math import exp, inf, log, tanh

import numpy as np
import pytest
from scipy.special import gammaln

from dp_saddle import (
    ApproxDP,
    Composition,
    ContourAccountant,
    Discrete,
    Gaussian,
    Geometric,
    Logarithmic,
    Poisson,
    PoissonSubsampled,
    PureDP,
    SelectionAccountant,
    TruncatedNegativeBinomial,
    TruncatedPoisson,
    calibrate,
    certify,
    compare,
    delta,
    dpsgd,
    epsilon,
    epsilon_after,
    from_steps,
    gdp,
    rdp,
    read_run,
    report,
    selected,
    to_steps,
    tree_aggregation,
)
from dp_saddle.command.main import main
from dp_saddle.practice.reports import neighbours

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes')

RUN = 3000*PoissonSubsampled(base=Gaussian(sigma=2.), rate=.01)
CUT = TruncatedPoisson(sigma=2., rate=.01, dataset_size=1000, max_batch_size=30)
LAWS = (Geometric(mean=3.), Geometric(mean=40.), Logarithmic(mean=5.), Poisson(mean=3.),
        Poisson(mean=.7), Poisson(mean=20.), TruncatedNegativeBinomial(mean=6., shape=8.),
        TruncatedNegativeBinomial(mean=6., shape=-.6), Geometric(mean=1.))

def name(law):
    return repr(law)

@pytest.mark.parametrize('tries, published', [
    (Geometric(mean=10.), 2.56071), (Logarithmic(mean=10.), 2.13424), (Poisson(mean=10.), 2.80002),
    (Geometric(mean=100.), 3.23533)], ids=str)
def test_published_numbers(tries, published):
    "Those of dp_accounting 0.6, to their rounding: real orders are never worse than its list."
    search = SelectionAccountant(selected(RUN, tries=tries))
    by_renyi = search.by_renyi(delta=1e-5)
    assert by_renyi <= published + 5e-6
    if not isinstance(tries, Poisson):       # it takes the delta of a list of orders, we the run's
        assert by_renyi == pytest.approx(published, abs=1e-5)
    low, mid, up = search.epsilon(1e-5)
    assert low < up == mid < by_renyi
    assert low == pytest.approx(1.11954, abs=1e-5)

def best_of(law, tries, most=3000):
    "The law of the best outcome, by the generating function: the worst first."
    likely, below = tries.probabilities(most), np.append(0, np.cumsum(law))
    assert likely.sum() == pytest.approx(1, abs=1e-6)
    return np.diff((likely*np.minimum(below, 1)[:, None]**np.arange(most + 1)).sum(1))

PAIRS = (((.5, .3, .15, .05), (.4, .33, .17, .1)), ((.7, .2, .08, .02), (.55, .4, .045, .005)),
         ((.25, .25, .25, .25), (.1, .2, .3, .4)))

@pytest.mark.parametrize('tries', LAWS, ids=name)
@pytest.mark.parametrize('pair', PAIRS, ids=str)
def test_all_orders(tries, pair):
    "Every order of the outcomes, both directions: delta at every eps is below the bound."
    p, q = (np.array(v) for v in pair)
    search = SelectionAccountant(selected(Discrete(p=pair[0], q=pair[1]), tries=tries))
    orders = [list(order) for order in permutations(range(4))]
    found = [(best_of(p[o], tries), best_of(q[o], tries)) for o in orders]
    for eps in (0., .1, .4, .8, 1.3, 2., 3.):
        up = search.delta(eps).upper
        for one, other in found:
            assert np.maximum(one - exp(eps)*other, 0).sum() <= up + 1e-14
            assert np.maximum(other - exp(eps)*one, 0).sum() <= up + 1e-14

@pytest.mark.parametrize('tries', LAWS, ids=name)
def test_scores_that_say_nothing(tries):
    """Outcomes that are ordered by a label which is drawn apart from the data: the best is one run,
    so the lower bound is below what they have, and with one try they meet."""
    pair = PAIRS[0]
    one, search = Discrete(p=pair[0], q=pair[1]), None
    search = SelectionAccountant(selected(one, tries=tries))
    runs_at_all = 1 - tries.probabilities(1)[0]
    for eps in (0., .2, .5):
        truth = runs_at_all*delta(one, eps=eps)
        low, _, up = search.delta(eps)
        assert low <= truth*(1 + 1e-12) and truth <= up*(1 + 1e-9)
        assert low == pytest.approx(truth, rel=1e-6)

def test_many_labels_have_the_lower_bound():
    "The same by enumeration: with 400 labels the best of K is nearly one run."
    p, q, labels, tries = np.array([.7, .3]), np.array([.4, .6]), 400, Geometric(mean=3.)
    best = [best_of(np.tile(v/labels, labels), tries, 400) for v in (p, q)]
    at = max(np.maximum(a - exp(.2)*b, 0).sum() for a, b in (best, best[::-1]))
    alone = delta(Discrete(p=(.7, .3), q=(.4, .6)), eps=.2)
    assert at == pytest.approx(alone, rel=.003)

@pytest.mark.parametrize('tries', LAWS, ids=name)
def test_laws(tries):
    likely = tries.probabilities(5000)
    assert likely.sum() == pytest.approx(1, abs=1e-9)
    assert likely @ np.arange(5001) == pytest.approx(tries.mean, rel=1e-7)

@pytest.mark.parametrize('tries', [Geometric(mean=10.), Poisson(mean=4.)], ids=name)
def test_there_and_back(tries):
    search = SelectionAccountant(selected(RUN, tries=tries))
    for d in (1e-3, 1e-6, 1e-10):
        eps = search.epsilon(d).upper
        assert search.delta(eps).upper == pytest.approx(d, rel=.02)
        renyi = search.by_renyi(delta=d)
        assert search.by_renyi(eps=renyi) == pytest.approx(d, rel=.02)
    deltas = search.delta(np.linspace(0, 3, 13))
    assert (np.diff(deltas.upper) <= 0).all() and (deltas.lower <= deltas.upper).all()
    assert deltas.upper.shape == (13,) and deltas.upper[0] < 1

def test_one_try_is_the_run():
    for tries in (Geometric(mean=1.), Logarithmic(mean=1.)):
        assert epsilon(selected(RUN, tries=tries), delta=1e-5) == pytest.approx(
            epsilon(RUN, delta=1e-5), rel=1e-9)

def test_pure_runs():
    "eps_0-DP: the theorem of Liu and Talwar, three times that, for geometric tries."
    search = selected(PureDP(eps=.3), tries=Geometric(mean=50.))
    assert epsilon(search, delta=1e-12) == pytest.approx(.9, rel=1e-6)

def test_pure_runs_by_their_curve():
    """Of few tries the curve says less than three times eps, by a closed form: its shift is least
    at 0. And no less than what the best of geometrically many coins costs, by its law."""
    eps, m = 1., 4.
    search = selected(PureDP(eps=eps), tries=Geometric(mean=m))
    exact = eps + 2*log(1 + (m - 1)*tanh(eps/2))
    assert epsilon(search, delta=0.) == pytest.approx(exact, rel=1e-9) and exact < 2.8*eps
    assert epsilon(2*search, delta=0.) == pytest.approx(2*exact, rel=1e-9)
    assert delta(search, eps=exact*1.001) == 0. < delta(search, eps=.9*exact)
    worse = [1/(1 + exp(s*eps)) for s in (1, -1)]         # chance of the worse outcome
    none = [q/m/(1 - (1 - 1/m)*q) for q in worse]              # all tries are worse
    assert max(abs(log(a[0]/a[1])) for a in (none, [1 - x for x in none])) < exact

def test_poisson_beats_its_divergences():
    for mean in (.5, 2., 10., 100.):
        search = SelectionAccountant(selected(RUN, tries=Poisson(mean=mean)))
        assert search.by_profile(delta=1e-5) < search.by_renyi(delta=1e-5)

def test_compositions():
    search = selected(RUN)
    other = Gaussian(sigma=20.)
    alone, both, twice = (epsilon(run, delta=1e-5) for run in (search, search + other, 2*search))
    assert alone < both < twice
    assert SelectionAccountant(search + other).by_renyi(delta=1e-5) == pytest.approx(both)
    assert epsilon(search + other, delta=1e-5) < 2.582        # dp_accounting: 2.58104
    assert epsilon(0*search + other, delta=1e-5) == epsilon(other, delta=1e-5)
    lower = SelectionAccountant(search + other).epsilon(1e-5).lower
    assert lower == pytest.approx(epsilon(RUN + other, delta=1e-5), rel=1e-6)

def test_mass_at_infinity():
    leaky = 2*Gaussian(sigma=3.) + ApproxDP(eps=0., delta=1e-7)
    for tries in (Geometric(mean=5.), Poisson(mean=5.)):
        search = SelectionAccountant(selected(leaky, tries=tries))
        assert search.epsilon(1e-7).upper == inf
        assert search.epsilon(1e-5).upper < inf
        assert 5e-7 <= search.delta(50.).upper < 1e-4
        assert search.by_renyi(delta=1e-5) == inf

@pytest.mark.parametrize('sigma', [1e-1, 1e4])
def test_far_ends(sigma):
    "Much and little noise."
    for tries in (Geometric(mean=5.), Poisson(mean=5.)):
        search = SelectionAccountant(selected(Gaussian(sigma=sigma), tries=tries))
        for d in (1e-9, 1e-3, .3):
            low, _, up = search.epsilon(d)
            assert 0 <= low <= up < 1e3
        for eps in (0., 1e-4, 1., 100., 1e6):
            low, _, up = search.delta(eps)
            assert 0 <= low <= up <= 1

@pytest.mark.parametrize('make, message', [
    (lambda: Geometric(mean=.9), r'mean must .*\[1, .*0\.9'),
    (lambda: Geometric(mean=np.nan), 'mean must'),
    (lambda: Logarithmic(mean=1e7), 'mean must'),
    (lambda: Poisson(mean=0.), r'mean must .*\(0, .*0\.0'),
    (lambda: Poisson(mean='10'), 'mean must'),
    (lambda: TruncatedNegativeBinomial(mean=3., shape=-1.), r'shape must .*\[-0\.9, .*-1'),
    (lambda: selected(RUN, tries=10), 'tries must be one of Geometric.*got 10'),
    (lambda: selected(RUN.remove), 'run must be a mechanism'),
    (lambda: selected(selected(RUN)), 'run must not be selected itself'),
    (lambda: selected(tree_aggregation(steps=4, sigma=2.) + Gaussian(sigma=2.)),
     'same neighbours in all of its steps, got steps for replacing one record by an empty one, '
     'and for adding or removing one record'),
    (lambda: selected(RUN + CUT), 'same neighbours in all of its steps'),
    (lambda: SelectionAccountant(RUN), 'mechanism must have selected runs'),
    (lambda: SelectionAccountant(3), 'mechanism must have selected runs'),
    (lambda: epsilon(selected(RUN), delta=1.), 'delta must'),
    (lambda: delta(selected(RUN), eps=-1.), 'eps must'),
])
def test_bad_input(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()

@pytest.mark.parametrize('ask', [
    lambda run: ContourAccountant(run), lambda run: rdp(run, 2.), lambda run: gdp(run, delta=1e-5),
    lambda run: epsilon_after([run], delta=1e-5)])
def test_what_needs_a_loss_says_what_serves(ask):
    with pytest.raises(ValueError, match='selected runs have no loss.*SelectionAccountant'):
        ask(selected(RUN))

def test_certificates_refuse():
    with pytest.raises(ValueError, match='Selected'):
        certify(selected(RUN), delta=1e-5)

def test_every_row_of_compare_says_so():
    own, *others = compare(selected(RUN), delta=1e-5)
    assert own['accountant'] == 'SelectionAccountant'
    assert float(own['upper']) == pytest.approx(epsilon(selected(RUN), delta=1e-5), rel=1e-9)
    assert all('selected runs have no loss' in row['worth'] for row in others)

def test_files(tmp_path, capsys):
    run = selected(RUN, tries=TruncatedNegativeBinomial(mean=10., shape=.5)) + Gaussian(sigma=20.)
    steps = json.loads(json.dumps(to_steps(run)))
    assert Composition(tuple(from_steps(steps))) == run
    assert pickle.loads(pickle.dumps(run)) == run
    path = tmp_path/'run.json'
    path.write_text(json.dumps({'steps': steps}), encoding='utf-8')
    assert read_run(path) == run
    assert main(['epsilon', '--run', str(path), '--delta', '1e-5', '--json']) == 0
    (row,) = json.loads(capsys.readouterr().out)['results']
    assert row['upper'] == epsilon(run, delta=1e-5)

@pytest.mark.parametrize('change, message', [
    ({'tries': {'law': 'Normal', 'mean': 3}}, "law of step 0 must be one of.*'Normal'"),
    ({'tries': {'law': 'Geometric', 'mean': .3}}, 'step 0: mean must'),
    ({'tries': {'law': 'Geometric', 'shape': 3}}, 'key of the tries of step 0'),
    ({'tries': 10}, 'step 0: tries must be a mapping'),
    ({'rate': .1}, 'key of step 0'),
    ({'run': 'x'}, 'step 0: steps must be a list'),
    ({'count': -1}, 'step 0: count must'),
])
def test_bad_files(change, message):
    (step,) = to_steps(selected(RUN))
    with pytest.raises(ValueError, match=message):
        from_steps([step | change])

def test_the_report_says_what_is_published():
    text = report(selected(RUN), delta=1e-5)
    assert 'the best run of each search and nothing else' in text
    assert 'all checkpoints' not in text and 'SelectionAccountant' in text

def test_noise_for_a_search():
    def build(sigma):
        return selected(500*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=.02))
    sigma = calibrate(build, eps=3., delta=1e-5)
    assert epsilon(build(sigma), delta=1e-5) <= 3 < epsilon(build(sigma*(1 - 1e-4)), delta=1e-5)

@pytest.mark.parametrize('shape', [pytest.param(0, marks=pytest.mark.slow), 1, inf, .5])
def test_events_of_dp_accounting(shape):
    "The same searches as events: below what their accountant says, and with the same composition."
    dp_event = pytest.importorskip('dp_accounting', reason='in the extra interop').dp_event
    from dp_accounting.rdp import RdpAccountant

    from dp_saddle.interop import SaddlePrivacyAccountant
    sampled = dp_event.PoissonSampledDpEvent(.01, dp_event.GaussianDpEvent(2.))
    trained = dp_event.SelfComposedDpEvent(sampled, 3000)
    search = dp_event.RepeatAndSelectDpEvent(trained, 10., shape)
    ours = SaddlePrivacyAccountant().compose(search)
    laws = {0: Logarithmic, 1: Geometric, inf: Poisson}
    law = laws[shape](mean=10.) if shape in laws else TruncatedNegativeBinomial(mean=10., shape=.5)
    assert ours.composition == Composition(((selected(RUN, tries=law), 1),))
    assert ours.get_epsilon(1e-5) == epsilon(selected(RUN, tries=law), delta=1e-5)
    assert ours.get_epsilon(1e-5) < RdpAccountant().compose(search).get_epsilon(1e-5) - .2
    both = dp_event.ComposedDpEvent([search, dp_event.GaussianDpEvent(20.)])
    theirs = RdpAccountant().compose(both).get_epsilon(1e-5)
    of_both = SaddlePrivacyAccountant().compose(both).get_epsilon(1e-5)
    assert ours.get_epsilon(1e-5) < of_both < theirs

def test_events_that_are_refused():
    dp_accounting = pytest.importorskip('dp_accounting', reason='in the extra interop')
    from dp_saddle.interop import SaddlePrivacyAccountant
    event, one = dp_accounting.dp_event, dp_accounting.dp_event.GaussianDpEvent(2.)
    accountant = SaddlePrivacyAccountant()
    for bad, message in ((event.RepeatAndSelectDpEvent(one, .5, 1), 'mean must'),
                         (event.RepeatAndSelectDpEvent(one, 3., -2.), 'shape must')):
        assert not accountant.supports(bad)
        with pytest.raises(dp_accounting.UnsupportedEventError, match=message):
            accountant.compose(bad)
    free = event.RepeatAndSelectDpEvent(event.NoOpDpEvent(), 3., 1)
    assert accountant.compose(free).get_epsilon(1e-5) == 0
    open_book = event.RepeatAndSelectDpEvent(event.NonPrivateDpEvent(), 3., 1)
    assert accountant.compose(open_book).get_epsilon(1e-5) == inf

@pytest.mark.parametrize('mean, exact', [(.3, .328), (.6, .523), (.9, .618), (1., .639)])
def test_searches_that_hardly_try(mean, exact):
    "A composition has to hold the case of no try; eight searches, enumerated: three outcomes each."
    coin = Discrete(p=(.75, .25), q=(.25, .75))
    def law(p):
        k = np.arange(60)
        chance = np.exp(k*np.log(mean) - mean - gammaln(k + 1))
        worse = (chance[1:]*p[1]**k[1:]).sum()
        v = np.array([chance[0], worse, 1 - chance[0] - worse])
        return v/v.sum()
    truth = ContourAccountant(8*Discrete(p=law((.75, .25)), q=law((.25, .75)))).delta(1.)
    found = SelectionAccountant(8*selected(coin, tries=Poisson(mean=mean))).delta(1.)
    assert truth.estimate == pytest.approx(exact, abs=1e-3)
    assert found.lower <= truth.lower and truth.upper <= found.upper

def test_a_search_beside_others_costs_no_less_than_they():
    alone = epsilon(Gaussian(sigma=1.), delta=1e-5)
    rarely = selected(Gaussian(sigma=10.), tries=Poisson(mean=1e-3))
    assert epsilon(rarely + Gaussian(sigma=1.), delta=1e-5) > alone

@pytest.mark.parametrize('tries, most', [
    (Geometric(mean=10.), 0.), (Logarithmic(mean=3.), 0.), (Geometric(mean=1.), 0.),
    (Poisson(mean=2.), 1e-3)], ids=str)
def test_no_steps_cost_nothing(tries, most):
    "Also of a search."
    nothing = selected(0*Gaussian(sigma=1.), tries=tries)
    assert epsilon(nothing, delta=1e-5) <= most

SETTING = dict(sigma=2., batch_size=10, dataset_size=1000, epochs=1)

@pytest.mark.parametrize('run', [
    dpsgd(**SETTING, sampling='poisson'),
    pytest.param(dpsgd(**SETTING, sampling='poisson', unit_records=3), marks=pytest.mark.slow),
    dpsgd(**SETTING, sampling='shuffle'), dpsgd(**SETTING, sampling='none', unit_records=2),
    pytest.param(dpsgd(**SETTING, sampling='truncated-poisson', max_batch_size=30),
                 marks=pytest.mark.slow),
], ids=lambda run: run.relation)
def test_a_search_is_for_the_neighbours_of_its_tries(run, tmp_path):
    "In reports and in files; the same numbers as for the mechanism."
    search = selected(run)
    assert neighbours(search) == run.relation == neighbours(2*search)
    assert run.relation in report(search, delta=1e-5)
    again, = from_steps(json.loads(json.dumps(to_steps(search))))
    assert again == (search, 1) and again[0].relation == run.relation
    assert pickle.loads(pickle.dumps(search)).relation == run.relation
    assert epsilon(search, delta=1e-5) == epsilon(selected(run.mechanism), delta=1e-5)

def test_steps_of_a_search_for_other_neighbours():
    for one in (10*CUT, tree_aggregation(steps=4, sigma=2.)):
        (step, _), = one.as_steps()
        assert selected(one).relation == step.relation == neighbours(selected(one))
    assert selected(RUN + 0*CUT).relation == 'adding or removing one record'

@pytest.mark.parametrize('search, words', [
    ({'tries': {'law': 'Geometric'}}, 'step 0: tries: mean is needed for Geometric'),
    ({'tries': {'law': 'TruncatedNegativeBinomial', 'mean': 3.}}, 'tries: shape is needed'),
    ({'tries': {}}, 'law of step 0 must be one of'),
    ({'relation': 3}, 'step 0: relation must be a text, got 3'),
    ({'run': 3}, 'step 0: steps must be a list'),
    ({'run': [{'mechanism': 'Gaussian'}]}, 'step 0: step 0: sigma is needed for Gaussian'),
    ({'count': -1}, 'step 0: count must be')])
def test_what_is_missing_in_a_file_is_said(search, words):
    good, = to_steps(selected(RUN))
    with pytest.raises(ValueError, match=words):
        from_steps([good | search])
