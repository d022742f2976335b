"""interop/flower: an accountant for Flower's strategies. References: the library's own steps, a
closed form, and Flower's own accountant where it is installed."""
import json
import math
from types import SimpleNamespace

import pytest

from dp_saddle import Gaussian, PoissonSubsampled, delta, epsilon, fixed_size
from dp_saddle.interop import FlowerAccountant

METHODS = {'poisson': 'add-or-remove-one', 'without-replacement': 'replace-one',
           'no-amplification': 'add-or-remove-one'}

def config(method='poisson', **other):
    return SimpleNamespace(**dict(
        target_delta=1e-5, population_size=200, sampling_method=method,
        neighboring_relation=METHODS.get(method), max_epsilon=None) | other)

def event(sigma=2., size=20, n=200):
    return SimpleNamespace(noise_multiplier=sigma, sample_size=size, population_size=n)

def step(method, sigma, size, n=200):
    if method == 'poisson': return PoissonSubsampled(Gaussian(sigma=sigma), rate=size/n)
    if method == 'no-amplification': return Gaussian(sigma=sigma)
    return fixed_size(sigma=sigma, batch_size=size, dataset_size=n, relation='replace-one')

@pytest.mark.parametrize('method', METHODS)
def test_each_way_to_sample_is_its_step(method):
    account = FlowerAccountant(config(method))
    assert (account.get_epsilon(1e-5), account.get_delta(1.), account.num_releases) == (0., 0., 0)
    account.compose(event())
    sigma = 2. if method == 'without-replacement' else 3.        # several kinds take long
    account.compose(event(sigma=sigma), count=4)
    run = step(method, 2., 20) + 4*step(method, sigma, 20)
    assert account.get_epsilon(1e-6) == epsilon(run, delta=1e-6)
    assert account.get_delta(.7) == delta(run, eps=.7)
    spent = account.get_privacy_spent()
    assert (spent.epsilon, spent.delta) == (epsilon(run, delta=1e-5), 1e-5)
    assert (spent.num_releases, spent.optimal_order) == (5, None)
    assert account.get_privacy_spent(1e-3).delta == 1e-3

def test_everyone_without_replacement_is_two_clips():
    "All clients in each round, one replaced: a Gaussian that moves by 2, in closed form."
    account = FlowerAccountant(config('without-replacement'))
    account.compose(event(sigma=4., size=200))
    mu = 2/4
    def Phi(x): return math.erfc(-x/math.sqrt(2))/2
    for eps in (0., .5, 1.):
        exact = Phi(mu/2 - eps/mu) - math.exp(eps)*Phi(-mu/2 - eps/mu)
        assert math.isclose(account.get_delta(eps), exact, rel_tol=1e-9)

def test_two_data_sets_cost_more_than_one_clip():
    """1,000 rounds of 100 of 10,000 clients, sigma 1: Renyi divergences of one clip say 3.576. But
    all others may send -1, and one 1 or -1: in a cohort that is a sampled Gaussian of two clips."""
    account = FlowerAccountant(config('without-replacement', population_size=10_000))
    account.compose(event(sigma=1., size=100, n=10_000), count=1000)
    two_clips = epsilon(1000*PoissonSubsampled(Gaussian(sigma=1., sensitivity=2.), rate=.01),
                        delta=1e-5)
    assert two_clips == pytest.approx(13.36, abs=.002)
    assert 3*3.576 < two_clips <= account.get_epsilon(1e-5) < 1.2*two_clips

def test_a_budget_is_not_exceeded():
    account = FlowerAccountant(config(max_epsilon=1.))
    while not account.would_exceed(event()): account.compose(event())
    n = account.num_releases
    assert account.get_epsilon(1e-5) <= 1 < epsilon((n + 1)*step('poisson', 2., 20), delta=1e-5)
    assert n > 5 and account.would_exceed(event(), max_epsilon=.5)
    assert not account.would_exceed(event(), max_epsilon=2.)
    assert account.would_exceed(event(), max_epsilon=2., count=100*n)
    assert account.num_releases == n
    with pytest.raises(ValueError, match='^max_epsilon must'):
        FlowerAccountant(config()).would_exceed(event())

def test_a_state_is_restored():
    account, other = (FlowerAccountant(config()) for _ in range(2))
    account.compose(event(), count=3)
    account.compose(event(size=40))
    state = json.loads(json.dumps(account.state_dict()))
    other.load_state_dict(state)
    assert other.state_dict() == account.state_dict()
    assert other.get_privacy_spent() == account.get_privacy_spent()
    other.compose(event())
    assert (other.num_releases, account.num_releases) == (5, 4)

@pytest.mark.parametrize('change', [
    lambda s: s.pop('config'), lambda s: s.pop('compositions'), lambda s: s.update(backend='rdp'),
    lambda s: s['config'].update(target_delta=1e-6), lambda s: s.update(compositions=3),
    lambda s: s['compositions'][0].pop('count'), lambda s: s['compositions'][0].update(count=0),
    lambda s: s['compositions'][0]['event'].update(noise_multiplier=-1.)])
def test_a_state_that_is_none_changes_nothing(change):
    account = FlowerAccountant(config())
    account.compose(event(), count=3)
    state = json.loads(json.dumps(account.state_dict()))
    change(state)
    with pytest.raises(ValueError, match='must'): account.load_state_dict(state)
    assert account.num_releases == 3

@pytest.mark.parametrize('given, said', [
    (dict(target_delta=0.), 'target_delta'), (dict(target_delta=1.), 'target_delta'),
    (dict(population_size=0), 'population_size'), (dict(max_epsilon=0.), 'max_epsilon'),
    (dict(sampling_method='shuffled'), 'sampling_method'),
    (dict(neighboring_relation='replace-one'), 'neighboring_relation')])
def test_configurations_are_checked(given, said):
    with pytest.raises(ValueError, match=f'^{said} must'): FlowerAccountant(config(**given))

@pytest.mark.parametrize('wrong, count, said', [
    (event(sigma=0.), 1, 'noise_multiplier'), (event(sigma=math.nan), 1, 'noise_multiplier'),
    (event(size=0), 1, 'sample_size'), (event(size=201), 1, 'sample_size'),
    (event(n=100), 1, 'population_size'), (event(), 0, 'count')])
def test_events_are_checked(wrong, count, said):
    account = FlowerAccountant(config())
    with pytest.raises(ValueError, match=f'^{said} must'): account.compose(wrong, count)
    assert account.num_releases == 0
    with pytest.raises(TypeError, match='^event must have the fields'): account.compose(3)

def theirs():
    "Flower's own types and its accountant, or the test is skipped."
    types = pytest.importorskip('flwr.supercore.privacy_accounting')
    pytest.importorskip('dp_accounting')
    from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant
    return types, RdpAccountant

@pytest.mark.parametrize('method', METHODS)
def test_beside_flowers_own(method):
    """Its types are read as they are. Its Renyi number is larger where the neighbours are the same;
    without replacement it is that of one clip, and smaller than what two clips cost."""
    types, RdpAccountant = theirs()
    given = types.PrivacyConfig(
        target_delta=1e-5, population_size=200, max_epsilon=5.,
        sampling_method=types.SamplingMethod(method),
        neighboring_relation=types.NeighboringRelation(METHODS[method]))
    ours, other = FlowerAccountant(given), RdpAccountant(given)
    for account in (ours, other): account.compose(types.GaussianPrivacyEvent(2., 20, 200), 30)
    asked = [name for name in vars(types.PrivacyAccountant) if not name.startswith('_')]
    assert len(asked) >= 9 and all(hasattr(ours, name) for name in asked)
    fields = types.PrivacySpent.__dataclass_fields__
    assert all(hasattr(ours.get_privacy_spent(), name) for name in fields)
    assert ours.config is given and json.dumps(ours.state_dict())
    if method == 'without-replacement':
        twice = FlowerAccountant(given)
        twice.compose(types.GaussianPrivacyEvent(4., 20, 200), 30)
        assert twice.get_epsilon(1e-5) < other.get_epsilon(1e-5) < ours.get_epsilon(1e-5)
    else:
        assert ours.get_epsilon(1e-5) < other.get_epsilon(1e-5)
