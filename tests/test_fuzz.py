"""Odd values for each parameter of each public function, class and method: a named error or a right
answer. A few values for each in the ordinary run, all of them in the slow one."""
import inspect
import json
import warnings
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

import dp_saddle as dp
from dp_saddle import Gaussian, Geometric, PoissonSubsampled

ODD = {
    'None': None, 'True': True, 'numpy True': np.True_, 'word': 'x', 'digits': '1', 'bytes': b'1',
    'complex': 1j, 'numpy complex': np.complex128(.5), 'nan': nan, 'inf': inf, '-inf': -inf,
    '-1': -1, '0': 0, 'huge int': 10**400, '2^63': 2**63, 'numpy 2^63': np.uint64(2**63),
    'tiny': 5e-324, 'large': 1e308, 'fraction': Fraction(1, 2), 'decimal': Decimal('.5'),
    'decimal nan': Decimal('nan'), 'long double': np.longdouble('.5'), 'float32': np.float32(.5),
    '0-d': np.array(.5), '0-d int': np.array(3), 'empty': np.array([]), 'list': [],
    'nan in it': np.array([1., nan]), 'masked': np.ma.array([.5, .1], mask=[True, False]),
    'mask': np.ma.masked, 'ragged': [[.1], [.1, .2]], 'dict': {}, 'object': object(),
    'words': np.array(['a']), 'range': range(3), 'class': Gaussian, '3': 3, '1.5': 1.5}
NEVER = {'True', 'numpy True', 'word', 'digits', 'bytes', 'complex', 'numpy complex', 'nan',
         'decimal', 'decimal nan', 'nan in it', 'masked', 'mask', 'ragged', 'dict', 'object',
         'words', 'class'}      # are no number and no array of numbers
HALVES = 'fraction', 'long double', 'float32'       # are .5

G = Gaussian(sigma=2.)
STEP = PoissonSubsampled(base=G, rate=.1)
RUN = 3*STEP

RIGHT = {
    'ApproxDP': dict(eps=1., delta=.1), 'BallsInBins': dict(base=G, batches=3, draws=1),
    'BinBatches': dict(dataset_size=9, batches=3, steps=2, seed=1), 'ZCDP': dict(rho=.1, xi=0.),
    'BoundedRange': dict(eps=1., shift=.5), 'Budget': dict(eps=1., delta=1e-5),
    'Composition': dict(steps=((G, 2),)),
    'ContourAccountant': dict(mechanism=RUN, rtol=1e-10, eps_resolution=1e-6, max_nodes=2**14,
                              levels=True),
    'CyclicPoissonBatches': dict(dataset_size=9, rate=.5, bands=2, steps=2, seed=1),
    'Discrete': dict(p=(.5, .5), q=(.4, .6)), 'DiscreteGaussian': dict(sigma=2., sensitivity=1),
    'DiscreteLaplace': dict(scale=2., sensitivity=1), 'Laplace': dict(scale=2., sensitivity=1.),
    'EdgeworthAccountant': dict(mechanism=RUN, order=2),
    'EdgeworthInterval': dict(mechanism=RUN, order=1, proof='moments'),
    'ExponentialMechanism': dict(eps=1.), 'PureDP': dict(eps=1.),
    'FixedSize': dict(sigma=2., batch_size=2, dataset_size=9, replacement=False),
    'FixedSizeBatches': dict(dataset_size=9, batch_size=3, replacement=False, steps=2, seed=1),
    'FourierAccountant': dict(mechanism=RUN, L=10., n=2**10), 'GDPFilter': dict(budget=1.),
    'GDPOdometer': dict(increment=.5, n=3), 'GDPResidueFilter': dict(budget=1., n=3),
    'Gaussian': dict(sigma=2., sensitivity=1.), 'GaussianLimit': dict(mechanism=RUN, kind='clt'),
    'Geometric': dict(mean=3.), 'Logarithmic': dict(mean=3.), 'Poisson': dict(mean=3.),
    'IndividualAccountant': dict(sigma=2., clip=1., rate=.1, sigma_grid=8, n=3),
    'IndividualGDPFilter': dict(budget=1., n=3), 'RandomizedResponse': dict(eps=1.),
    'MixtureOfGaussians': dict(sigma=2., sensitivities=(0., 1.), probabilities=(.5, .5)),
    'MomentsAccountant': dict(mechanism=RUN, conversion='tight'),
    'PRVAccountant': dict(mechanism=RUN, eps_error=.1, delta_error=1e-8, max_points=2**20),
    'CorrelatedBins': dict(base=G, batches=2, noise=dp.MatrixFactorization(
        inverse_bands=[1., -.5], steps=2)),
    'MatrixFactorization': dict(C=None, column=[1., .5], bands=None, inverse_bands=None,
                                buffers=None, steps=2),
    'PoissonBatches': dict(dataset_size=9, rate=.5, max_batch_size=3, steps=2, seed=1),
    'PoissonReplaceOne': dict(sigma=2., rate=.1, sensitivity=1.),
    'PoissonSubsampled': dict(base=G, rate=.1), 'RDPFilter': dict(order=2., budget=1., n=3),
    'RDPOdometer': dict(order=2., increment=.5, n=3),
    'SaddlePointCLT': dict(mechanism=RUN, identical=False),
    'SaddlePointMSD': dict(mechanism=RUN, order=1, grouping='paper'),
    'SelectionAccountant': dict(mechanism=dp.selected(RUN)),
    'ShuffledBatches': dict(dataset_size=9, batch_size=3, drop_last=False, steps=2, seed=1),
    'TiltedEdgeworth': dict(mechanism=RUN, order=2),
    'TiltedFFT': dict(mechanism=RUN, mesh=.01, max_points=2**20),
    'TruncatedNegativeBinomial': dict(mean=3., shape=.5),
    'TruncatedPoisson': dict(sigma=2., rate=.1, dataset_size=100, max_batch_size=20,
                             sensitivity=1.),
}
RIGHT |= {
    'adaptive_clipping': dict(sigma=2., sigma_b=10.), 'advantage': dict(run=RUN),
    'audit': dict(run=RUN, scores_in=np.arange(9.), scores_out=np.arange(9.), delta=1e-5,
                  confidence=.9, method='threshold', threshold=5., seed=0),
    'banded_matrix_factorization': dict(steps=4, bands=2, sigma=2., rate=.1),
    'bayes_risk': dict(run=RUN, prior=.5), 'certify': dict(run=RUN, eps=.1),
    'calibrate': dict(builder=lambda sigma: 3*Gaussian(sigma=sigma), eps=1., delta=1e-5,
                      parameter='sigma'),
    'compare': dict(run=RUN, delta=1e-5, methods=['ContourAccountant']),
    'explain': dict(run=RUN, delta=1e-5),
    'connect_the_dots': dict(plrv=STEP.remove, mesh=.05, up=True), 'delta': dict(run=RUN, eps=1.),
    'dpsgd': dict(sigma=2., batch_size=10, dataset_size=100, sampling='poisson', steps=3,
                  accumulate=1, max_batch_size=None, unit_records=1, relation=None),
    'epsilon': dict(run=RUN, delta=1e-5), 'epsilon_after': dict(schedule=[(G, 2)], delta=1e-5),
    'epsilon_slopes': dict(run=RUN, delta=1e-5), 'to_steps': dict(run=RUN),
    'exponential_delta': dict(eps=.1, steps=3, at=.2),
    'exponential_epsilon': dict(eps=.1, steps=3, delta=1e-5),
    'fixed_size': dict(sigma=2., batch_size=2, dataset_size=9, relation='replace-one',
                       replacement=False),
    'from_steps': dict(steps=[{'mechanism': 'Gaussian', 'sigma': 2.}]),
    'gdp': dict(run=RUN, delta=1e-5), 'group': dict(mechanism=G, size=2),
    'individual_epsilon': dict(norms=np.ones((3, 2)), delta=1e-5, sigma=2., clip=1., rate=.1,
                               sigma_grid=8, engine='contour'),
    'load_certificate': dict(path='none.cert.json'), 'read_run': dict(path='none.json'),
    'account_store': dict(source='none.zarr', target='other.zarr'),
    'optimal_schedule': dict(weights=(1, 2), eps=3., delta=1e-5, rate=1., steps=3),
    'rdp': dict(mechanism=RUN, alpha=2.), 'selected': dict(run=RUN, tries=Geometric(mean=3.)),
    'report': dict(run=RUN, delta=1e-5, unit='record', released='all', form='text',
                   certificate=None, tuning=None),
    'show_progress': dict(to=None, after=1.), 'sweep': dict(sigma=[2.], rate=.1, steps=3,
                                                            delta=1e-5, client=None),
    'shuffled_lower_bound': dict(run=2., delta=1e-5, batches=3, epochs=1, relation='zero-out',
                                 dropped=0.),
    'shuffled_reports': dict(eps0=1., n=100, clones=None),
    'shuffled_blanket': dict(randomizer=[[.75, .25], [.25, .75]], n=100),
    'subset_selection': dict(eps0=1., values=4, size=1), 'unary_encoding': dict(eps0=1.),
    'laplace_reports': dict(eps0=1.),
    'response_lower_bound': dict(eps0=1., n=100, delta=1e-6, values=2),
    'tpr': dict(run=RUN, fpr=.1), 'tradeoff': dict(run=RUN, fpr=.1, direction=None),
    'tree_aggregation': dict(steps=4, sigma=2., sensitivity=1.),
    'with_replacement': dict(sigma=2., batch_size=2, dataset_size=9, steps=1),
    'without_replacement': dict(sigma=2., rate=.1, steps=1),
    'TwoLevelSampled': dict(base=G, rate=.5, whose='client'),
    'plot_curve': dict(run=G, eps=[.1, 1.], ax=None),
    'plot_rdp': dict(run=G, alpha=[2., 3.], ax=None),
    'plot_tradeoff': dict(run=G, fpr=[.1, .2], ax=None, direction=None),
    'plot_steps': dict(schedule=[G], delta=1e-5, ax=None),
    'verify': dict(certificate=3, seconds=1.),
    'GaussianDP': dict(mu=1.), 'RenyiDP': dict(orders=(2., 3.), divergences=(.1, .2)),
    'PrivacyProfile': dict(eps=(0., 1.), delta=(.1, .01)),
    'run_of_history': dict(state={'history': [(1., .1, 3)], 'sampling': 'poisson'}),
    'compare_sampling': dict(sigma=2., batch_size=50, dataset_size=100, epochs=1, delta=1e-5,
                             max_batch_size=None),
}
# Not asked: what is returned only or inherited from, and what has a function of the user's.
NOT_ASKED = {'Accountant', 'AdditiveNoise', 'Audit', 'Bounds', 'Certificate', 'DensityLoss',
             'Mechanism', 'PLRV', 'plot_sampling', 'privacy_profile'}

def budget():
    paid = dp.Budget(eps=3., delta=1e-5)
    paid.spend(G)
    return paid

def people():
    account = dp.IndividualAccountant(**RIGHT['IndividualAccountant'])
    account.step(np.ones(3))
    return account

def made(name): return lambda: getattr(dp, name)(**RIGHT[name])

SAVED = budget().to_dict()
METHODS = {
    'Budget.cost': (budget, dict(counts={G: 2})), 'Budget.restore': (budget, dict(history='[]')),
    'Budget.spend': (budget, dict(step=G, count=1)), 'Budget.save': (budget, dict(path='x.txt')),
    'Budget.would_exceed': (budget, dict(step=G, count=1)),
    'Budget.load': (budget, dict(path='x.json')), 'Budget.from_dict': (budget, dict(saved=SAVED)),
    'IndividualAccountant.step': (people, dict(norms=np.ones(3))),
    'IndividualAccountant.epsilon': (people, dict(delta=1e-5)),
    'GDPFilter.restore': (made('GDPFilter'), dict(total=0., lost=0., steps=0)),
    'RDPFilter.restore': (made('RDPFilter'), dict(total=np.zeros(3), lost=np.zeros(3), steps=0)),
    'GDPResidueFilter.restore': (made('GDPResidueFilter'), dict(square=np.zeros(3), steps=0)),
    'GDPResidueFilter.step': (made('GDPResidueFilter'), dict(mu=np.full(3, .1))),
}
for kind in ('GDPFilter', 'IndividualGDPFilter', 'RDPFilter', 'GDPOdometer', 'RDPOdometer'):
    size = .1 if kind == 'GDPFilter' else np.full(3, .1)
    METHODS |= {f'{kind}.spend': (made(kind), dict(x=size)),
                f'{kind}.epsilon': (made(kind), dict(delta=1e-5))}
for kind in RIGHT:
    if kind.endswith(('Accountant', 'CLT', 'MSD', 'Limit', 'FFT', 'Interval', 'Edgeworth')):
        if kind != 'IndividualAccountant':
            METHODS |= {f'{kind}.epsilon': (made(kind), dict(delta=1e-5)),
                        f'{kind}.delta': (made(kind), dict(eps=1.))}
CALLS = [(name, par) for name, right in RIGHT.items() for par in right]
CALLS += [(name, par) for name, (_, right) in METHODS.items() for par in right]
# An error may speak of what a parameter is: {parameter: words}.
ALSO = {'x': ('mu', 'rho'), 'path': ('suffix',), 'history': ('steps',), 'epochs': ('steps',),
        'methods': ('method',), 'steps': ('step ',), 'builder': ('sigma',), 'eps': ('sigma',),
        'saved': ('mapping',), 'delta': ('scale',), 'run': ('mechanism must', 'sigma')}
# Right, and too long to wait for: what is asked is costly.
COSTLY = {('optimal_schedule', 'eps'), ('optimal_schedule', 'delta'), ('optimal_schedule', 'rate'),
          ('compare_sampling', 'sigma'), ('compare_sampling', 'max_batch_size')}

def target(name):
    "What is called, and a right call."
    if name in RIGHT: return getattr(dp, name), RIGHT[name]
    make, right = METHODS[name]
    return getattr(make(), name.partition('.')[2]), right

def is_number(x): return isinstance(x, (float, np.ndarray)) or type(x) is int

def outcome(call, args):
    "(What it returned, None), or (None, the error)."
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            return call(**args), None
        except (ValueError, TypeError, FileNotFoundError) as error:
            return None, error

def has_nan(x):
    if x is None: return False
    try:
        return bool(np.isnan(np.asarray(x, float)).any())
    except (TypeError, ValueError):
        return False

def check(name, par, key):
    "One odd value in a right call."
    call, right = target(name)
    found, error = outcome(call, {**right, par: ODD[key]})
    if error is None:
        assert not has_nan(found), f'{name}({par}={key}) is NaN'
        assert not (key in NEVER and is_number(right[par])), f'{name}({par}={key}) is accepted'
    else:
        words = [word for one in right for word in (one, *ALSO.get(one, ()))]
        said = f'{name}({par}={key}): {error!r}'
        assert isinstance(error, FileNotFoundError) or any(w in str(error) for w in words), said
        assert len(str(error)) < 600 and 'ufunc' not in str(error), said
    if key in HALVES and type(right[par]) is float:
        same, wrong = outcome(target(name)[0], {**right, par: .5})
        assert type(error) is type(wrong), f'{name}({par}={key}): {error!r}, of .5: {wrong!r}'
        assert error or repr(same) == repr(found) or not isinstance(same, (float, dp.Bounds)), name

@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    "No file of a test's name is there; what is shown of progress stays."
    monkeypatch.chdir(tmp_path)
    matplotlib = pytest.importorskip('matplotlib')
    matplotlib.use('agg')
    yield
    dp.show_progress()
    import matplotlib.pyplot as plt
    plt.close('all')

EACH = 3      # values for each parameter in the ordinary run, others for the next one

@pytest.mark.parametrize('name', [*RIGHT, *METHODS])
def test_an_odd_value_is_refused_by_name_or_right(name, monkeypatch):
    monkeypatch.setattr("dp_saddle.sampling.two_level._PER_FALL", 8)    # of compare_sampling
    for i, (one, par) in enumerate(CALLS):
        keys = [key for j, key in enumerate(ODD) if (j + 5*i) % len(ODD) < EACH]
        for key in keys if one == name and (name, par) not in COSTLY else (): check(name, par, key)

@pytest.mark.slow
@pytest.mark.parametrize('name', [*RIGHT, *METHODS])
def test_every_odd_value_is_refused_by_name_or_right(name):
    for one, par in CALLS:
        for key in ODD if one == name and (name, par) not in COSTLY else (): check(name, par, key)

def test_all_public_names_are_asked():
    assert {*RIGHT} | NOT_ASKED == {*dp.__all__}
    for name, right in RIGHT.items():
        assert set(right) <= set(inspect.signature(getattr(dp, name)).parameters), name

@pytest.mark.parametrize('name', sorted(RIGHT))
def test_the_right_calls_are_right(name):
    "Else a wrong value is refused for another's sake."
    if name in ('verify', 'load_certificate', 'read_run', 'account_store', 'compare_sampling'):
        return                                     # no file is there; a second of work
    _, error = outcome(*target(name))
    assert error is None, error

# Found by asking like that

def test_a_rate_of_which_no_epoch_has_batches():
    for kind, more in ((dp.PoissonBatches, {}), (dp.CyclicPoissonBatches, {'bands': 1})):
        assert not next(iter(kind(dataset_size=9, rate=5e-324, **more))).size

def test_states_that_are_none():
    filtered = dp.GDPFilter(1.)
    for state in ((1, 1, 1), (nan, 0., 0), (None, 0., 0), (0., 0., .5), ([0.], [0.], 1),
                  (Decimal('NaN'), 0., 0)):
        with pytest.raises((ValueError, TypeError), match='total|lost|steps'):
            filtered.restore(*state)
    with pytest.raises(TypeError, match='counts must be a dict'): budget().cost(3)
    with pytest.raises(ValueError, match='history: must be JSON'): budget().restore(nan)

@pytest.mark.parametrize('half', [Fraction(1, 2), np.longdouble('.5'), np.float32(.5)])
def test_halves_are_halves(half):
    "Whatever kind of number they are."
    builder = RIGHT['calibrate']['builder']
    assert dp.calibrate(builder, eps=half, delta=half) == dp.calibrate(builder, eps=.5, delta=.5)
    assert dp.shuffled_lower_bound(1., delta=half, batches=3, epochs=1) == dp.shuffled_lower_bound(
        1., delta=.5, batches=3, epochs=1)
    one, other = (dp.without_replacement(sigma=x, rate=x).cumulants(.3) for x in (half, .5))
    assert np.array_equal(one, other)
    one, other = (dp.optimal_schedule((1, 2), eps=x, delta=x, rate=1., steps=2) for x in (half, .5))
    assert one.sigmas.tolist() == other.sigmas.tolist()

def test_a_run_is_called_a_run():
    for name in ('advantage', 'audit', 'bayes_risk', 'compare', 'delta', 'epsilon', 'explain',
                 'gdp', 'tpr', 'tradeoff', 'report'):
        for wrong in (nan, Gaussian, [])[:2 if name == 'epsilon' else 3]:   # it takes several
            with pytest.raises(TypeError, match='run must be a mechanism'):
                getattr(dp, name)(**{**RIGHT[name], 'run': wrong})

def test_methods_are_a_list():
    for wrong in (3, 'x', np.array([]), True):
        with pytest.raises(TypeError, match='methods must be a list of names'):
            dp.compare(RUN, delta=.1, methods=wrong)

def test_files_have_paths(tmp_path):
    for call in (dp.load_certificate, dp.read_run, budget().save, budget().load):
        with pytest.raises(TypeError, match='path must be the path of a file, got 3'): call(3)
    with pytest.raises(TypeError, match='source must be the path'): dp.account_store(3, 'a.zarr')
    with pytest.raises(TypeError, match='target must be the path'): dp.account_store('a.zarr', 3)

def test_a_certificate_of_other_things_than_json():
    proved = dp.certify(RUN, eps=.1)
    deep = []
    for _ in range(10**4): deep = [deep]
    for wrong in ({1}, object(), nan, inf, 1j, b'x', deep):
        broken = dp.Certificate(proved.run, proved.question, proved.answer, wrong)
        with pytest.raises(ValueError, match='certificate'): dp.verify(broken)
    while deep: deep = deep[0]

def test_a_saved_state_is_a_mapping(tmp_path):
    for text in ('[]', '3', 'null', '"x"'):
        (tmp_path/'a.json').write_text(text)
        with pytest.raises(ValueError, match='a mapping is due'):
            budget().load(Path(tmp_path/'a.json'))
    assert json.dumps(SAVED)
