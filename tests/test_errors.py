"""What a docstring says of errors is true: for each there is a call that ends in it."""
import re
import sys
import traceback
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import dp_saddle
from dp_saddle import (
    Accountant,
    ApproxDP,
    Budget,
    Composition,
    ContourAccountant,
    Discrete,
    DiscreteLaplace,
    EdgeworthAccountant,
    EdgeworthInterval,
    FixedSize,
    FixedSizeBatches,
    FourierAccountant,
    Gaussian,
    GaussianLimit,
    GDPResidueFilter,
    IndividualAccountant,
    IndividualGDPFilter,
    Laplace,
    MixtureOfGaussians,
    MomentsAccountant,
    PoissonReplaceOne,
    PoissonSubsampled,
    PrivacyProfile,
    PRVAccountant,
    RandomizedResponse,
    RDPFilter,
    RDPOdometer,
    RenyiDP,
    SaddlePointCLT,
    SaddlePointMSD,
    SelectionAccountant,
    ShuffledBatches,
    TiltedEdgeworth,
    TiltedFFT,
    TwoLevelSampled,
    account_store,
    audit,
    calibrate,
    certify,
    compare,
    dpsgd,
    epsilon_after,
    epsilon_slopes,
    explain,
    exponential_delta,
    exponential_epsilon,
    fixed_size,
    gdp,
    group,
    individual_epsilon,
    interop,
    load_certificate,
    optimal_schedule,
    privacy_profile,
    rdp,
    report,
    run_of_history,
    selected,
    show_progress,
    shuffled_blanket,
    shuffled_lower_bound,
    sweep,
    tradeoff,
    verify,
    widgets,
)
from dp_saddle.base import explorer
from dp_saddle.command import main as cli
from dp_saddle.edgeworth import transform_bound
from dp_saddle.edgeworth.berry_esseen import step_moments
from dp_saddle.engine import gaussian_epsilon
from dp_saddle.individual import norm_counts
from dp_saddle.losses import FiniteLoss
from dp_saddle.practice import schedules, training_configs
from dp_saddle.prv_fft.tilted_fft import connect_the_dots
from dp_saddle.saddlepoint import (
    TiltedAccountant,
    asymptotic_epsilon,
    asymptotic_saddle_point,
    lyapunov_sum,
    msd_terms,
    saddle_point,
)
from test_docs import ERRORS, VALIDATORS, documented

pytestmark = pytest.mark.filterwarnings('ignore:Secure RNG')      # Opacus', of secure_mode

HALF = dp_saddle.MatrixFactorization(inverse_bands=[1., -.5], steps=2)

def sampled(sigma): return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=.1)

ONE, RUN = Gaussian(sigma=1.), sampled(1.)
LEAKY, APART = ApproxDP(eps=1., delta=.1), Discrete(p=(1., 0.), q=(0., 1.))
TINY = 2*Laplace(scale=1e-4)                              # noise too small for any grid
UNPROVED = dp_saddle.without_replacement(sigma=1., rate=.1)
SPENT = dict(delta=1e-5, sigma=10., clip=1., rate=.1)
SIZES = dict(sigma=1., batch_size=8, dataset_size=4)


def filtered(method, *x, n=None):
    return getattr(RDPFilter(order=2., budget=1., n=n), method)(*x)

def people(method, *x, **how):
    return getattr(IndividualAccountant(1., 1., .1, n=3), method)(*x, **how)

def figure(name='a', **axes):
    return explorer.Explorer(name, 't', 'a', lambda: ((), (), ()), (), np.arange(2.), axes, ())

def drawn():
    "Its function says a number that the figure does not have."
    axes = dict(xlabel='x', ylabel='y', xlim=(0, 1), ylim=(0, 1))
    return explorer.Explorer('a', 't', 'a', lambda: ((), (), ('1',)), (), np.arange(2.), axes, ())

class Own(dp_saddle.Mechanism):
    "A mechanism that no schema knows."
    def pair(self): return ONE.pair()
    remove = add = ONE.remove

def from_file(tmp_path, text='7', name='run.json'):
    (tmp_path/name).write_text(text)
    return tmp_path/name

def untrained():
    "A model and an optimizer that Opacus has not seen."
    torch = pytest.importorskip('torch', reason='PyTorch is in the extra interop')
    pytest.importorskip('opacus', reason='Opacus is in the extra interop')
    model = torch.nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=1.)

def opacus_accountant():
    untrained()
    return interop.SaddleAccountant()

def of_history(history):
    "An accountant to which Opacus, or its user, gave a history."
    accountant = opacus_accountant()
    accountant.history = history
    return accountant

def adapter(relation):
    pytest.importorskip('dp_accounting', reason='dp_accounting is in the extra interop')
    return interop.SaddlePrivacyAccountant(relation)

def made_private(accountant='rdp'):
    "(model, optimizer, loader, engine, data) of a few records."
    opacus = pytest.importorskip('opacus', reason='Opacus is in the extra interop')
    model, plain = untrained()
    torch = sys.modules['torch']
    data = torch.utils.data.TensorDataset(torch.zeros(4, 2), torch.zeros(4, 1))
    engine = opacus.PrivacyEngine(accountant=accountant)
    return *engine.make_private(
        module=model, optimizer=plain, data_loader=torch.utils.data.DataLoader(data, batch_size=2),
        noise_multiplier=1., max_grad_norm=1.), engine, data

def norms_in_evaluation():
    "Of a model that is not training."
    model, private, _, _, data = made_private()
    model.eval()
    return interop.record_norms(model, private, sys.modules['torch'].nn.MSELoss(), *data.tensors)

def guard_of_other_records():
    "Three accounts, and four records."
    _, private, loader, engine, _ = made_private('saddle')
    engine.accountant.leave_records_out(private, IndividualGDPFilter(1., 3), loader)

# For each function that raises, calls that make it; one with an argument is given a directory.
CALLS = {
    'show_progress': [lambda: show_progress('loud')],
    'GDPResidueFilter.step': [lambda: GDPResidueFilter(1.).step(),
                              lambda: GDPResidueFilter(1.).step(eps=.1, mu=.1)],
    'GDPResidueFilter.would_exceed': [lambda: GDPResidueFilter(1.).would_exceed(),
                                      lambda: GDPResidueFilter(1.).would_exceed(eps=.1, mu=.1)],
    'Accountant.__init__': [lambda: Accountant(3)],
    'Accountant.delta': [lambda: ContourAccountant(UNPROVED).delta(1.)],
    'Accountant.epsilon': [lambda: ContourAccountant(UNPROVED).epsilon(1e-5)],
    'Budget.would_exceed': [lambda: Budget(eps=1., delta=1e-5).would_exceed(3)],
    'Budget.spend': [lambda: Budget(eps=.1, delta=1e-5).spend(ONE)],
    'Saved.load': [lambda tmp: RDPOdometer(2., .1).load(from_file(tmp))],
    'Saved.from_dict': [lambda: RDPOdometer(2., .1).from_dict({}),
                        lambda: RDPOdometer(2., .1).from_dict(RDPOdometer(3., .1).to_dict()),
                        lambda: RDPOdometer(2., .1).from_dict(3)],
    'certify': [lambda: certify(3, eps=1.), lambda: certify(Own(), eps=1.),
                lambda: certify(LEAKY, delta=.05)],
    'verify': [lambda: verify(3),
               lambda: verify(replace(certify(ONE, eps=1.), question={'eps': -1.}))],
    'load_certificate': [lambda tmp: load_certificate(from_file(tmp))],
    'Composition.__post_init__': [
        lambda: Composition(()), lambda: Composition(3),
        lambda: Composition(((ONE, 2**53), (RUN, 1)))],
    'ContourAccountant.__init__': [lambda: ContourAccountant(TINY)],
    'Discrete.__post_init__': [
        lambda: Discrete(p=(.5, .6), q=(.5, .5)), lambda: Discrete(p=(1.,), q=(.5, .5))],
    'DiscreteLaplace.__post_init__': [lambda: DiscreteLaplace(scale=1., sensitivity=10001)],
    'EdgeworthAccountant.__init__': [lambda: EdgeworthAccountant(TINY)],
    'EdgeworthInterval.__init__': [
        lambda: EdgeworthInterval(TINY), lambda: EdgeworthInterval(RUN, order=2)],
    'FourierAccountant.__init__': [
        lambda: FourierAccountant(RUN, n=63),
        lambda: FourierAccountant(RandomizedResponse(eps=1.))],
    'CostFilter.would_exceed': [lambda: filtered('would_exceed', [.1], n=2)],
    'CostFilter.spend': [lambda: filtered('spend', 2.), lambda: filtered('spend', [.1], n=2)],
    'CostFilter.step': [lambda: filtered('step', [.1], n=2)],
    'CostFilter.scale': [lambda: filtered('scale', [.1], n=2)],
    'CostOdometer.step': [lambda: RDPOdometer(2., .1, n=2).step([.1])],
    'GaussianLimit.__init__': [lambda: GaussianLimit(LEAKY, kind='gdp'),
                               lambda: GaussianLimit(TINY),
                               lambda: GaussianLimit(sampled(1e-6), kind='gdp')],
    'IndividualAccountant.__init__': [
        lambda: IndividualAccountant(1., 1., .1, sigma_grid=[2., 1.])],
    'IndividualAccountant.step': [lambda: people('step', [.5])],
    'IndividualAccountant.epsilon': [lambda: people('epsilon', 1e-5, records=[7])],
    'IndividualAccountant.delta': [lambda: people('delta', [1., 2.])],
    'IndividualAccountant.rdp': [lambda: people('rdp', 2., records=[7])],
    'IndividualAccountant.step_rdp': [lambda: people('step_rdp', [.5], 2.)],
    'IndividualAccountant.mu': [lambda: people('mu', records=[7])],
    'MomentsAccountant.__init__': [lambda: MomentsAccountant(TINY)],
    'TiltedAccountant.curve': [lambda: SaddlePointMSD(RUN).curve(1.)],
    'PRVAccountant.__init__': [lambda: PRVAccountant(100*RUN, eps_error=1e-3, max_points=64)],
    'MixtureOfGaussians.__post_init__': [
        lambda: MixtureOfGaussians(sigma=1., sensitivities=(0., 1.), probabilities=(.5, .6))],
    'PoissonSubsampled.__post_init__': [lambda: PoissonSubsampled(base=RUN, rate=.1)],
    'BallsInBins.__post_init__': [
        lambda: dp_saddle.BallsInBins(Gaussian(sigma=.1), batches=9),
        lambda: dp_saddle.BallsInBins(Gaussian(sigma=99.), batches=10**6),
        lambda: dp_saddle.BallsInBins(RUN, batches=9)],
    'Mechanism.of_group': [lambda: RandomizedResponse(eps=1.).of_group(2)],
    'PoissonSubsampled.of_group': [
        lambda: dp_saddle.PoissonSubsampled(dp_saddle.Laplace(scale=1.), rate=.1).of_group(2)],
    'BallsInBins.of_group': [
        lambda: dp_saddle.BallsInBins(Gaussian(sigma=1.), batches=9).of_group(9),
        lambda: dp_saddle.BallsInBins(Gaussian(sigma=1.), batches=9, draws=2).of_group(2)],
    'AdditiveNoise.__post_init__': [
        lambda: dp_saddle.AdditiveNoise(log_density=lambda x: -x*x, sensitivity=1.)],
    'AdditiveNoise.loss_of_sample': [
        lambda: dp_saddle.AdditiveNoise(log_density=lambda x: -x*x/2 - np.log(2*np.pi)/2,
                                        sensitivity=20., log_concave=True, even=True).remove],
    'SaddlePointCLT.__init__': [
        lambda: SaddlePointCLT(RUN + ONE, identical=True),
        lambda: SaddlePointCLT(RUN, identical=1)],
    'SaddlePointMSD.__init__': [
        lambda: SaddlePointMSD(TINY), lambda: SaddlePointMSD(RandomizedResponse(eps=1.))],
    'TiltedEdgeworth.__init__': [lambda: TiltedEdgeworth(TINY)],
    'TiltedFFT.__init__': [lambda: TiltedFFT(TINY)],
    'account_store': [lambda tmp: account_store('no.zarr', from_file(tmp, name='a.zarr'), **SPENT)],
    'calibrate': [
        lambda: calibrate(lambda sigma: RUN, eps=1e-3, delta=1e-5),
        lambda: calibrate(lambda sigma: Gaussian(sigma=sigma), eps=1., mu=1.)],
    'compare': [lambda: compare(RUN), lambda: compare(RUN, delta=1e-5, eps=1.)],
    'explain': [lambda: explain(RUN), lambda: explain(RUN, delta=1e-5, eps=1.)],
    'connect_the_dots': [
        lambda: connect_the_dots(RUN, .1),
        lambda: connect_the_dots(Gaussian(sigma=.05).remove, 1e-3)],
    'exponential_delta': [lambda: exponential_delta(eps=1., steps=2001, at=1.)],
    'exponential_epsilon': [lambda: exponential_epsilon(eps=1., steps=2001, delta=.1)],
    'TwoLevelSampled.__post_init__': [
        lambda: TwoLevelSampled(FixedSize(sigma=1., batch_size=1, dataset_size=9), rate=.5,
                                whose='record')],
    'FixedSize.__post_init__': [
        lambda: FixedSize(sigma=.05, batch_size=1, dataset_size=9),
        lambda: FixedSize(sigma=1., batch_size=10, dataset_size=9)],
    'fixed_size': [lambda: fixed_size(sigma=1., batch_size=10, dataset_size=9,
                                      relation='add-remove')],
    'PoissonReplaceOne.__post_init__': [lambda: PoissonReplaceOne(sigma=.02, rate=.1)],
    'shuffled_blanket': [lambda: shuffled_blanket([[1., 0.], [0., 1.]], n=9),
                         lambda: shuffled_blanket([[1.]], n=9)],
    'shuffled_lower_bound': [lambda: shuffled_lower_bound(
        dpsgd(sigma=1., batch_size=1, dataset_size=9, steps=9, sampling='shuffle'),
        batches=9, delta=1e-5)],
    'CorrelatedBins.__post_init__': [
        lambda: dp_saddle.CorrelatedBins(Gaussian(sigma=1.), batches=3, noise=HALF),
        lambda: dp_saddle.CorrelatedBins(Gaussian(sigma=1.), batches=3, noise=dp_saddle.
                                         MatrixFactorization(bands=[1., -.5, -.25], steps=3))],
    'Run.shuffles': [lambda: dpsgd(sigma=1., batch_size=1, dataset_size=2, epochs=1, noise=HALF,
                                   sampling='shuffle').shuffles()],
    'MatrixFactorization.__init__': [
        lambda: dp_saddle.MatrixFactorization(), lambda: dp_saddle.MatrixFactorization(bands=[1.]),
        lambda: dp_saddle.MatrixFactorization(column=[0.])],
    'MatrixFactorization.sensitivity': [
        lambda: dp_saddle.MatrixFactorization(column=[1., 1., 1.]).sensitivity(epochs=2),
        lambda: dp_saddle.MatrixFactorization(column=[1., 1.]).sensitivity(epochs=1, min_sep=2)],
    'FixedSizeBatches.__init__': [lambda: FixedSizeBatches(batch_size=10, dataset_size=9)],
    'ShuffledBatches.__init__': [lambda: ShuffledBatches(batch_size=10, dataset_size=9)],
    'dpsgd': [
        lambda: dpsgd(**SIZES, sampling='poisson', steps=1),
        lambda: dpsgd(**SIZES | dict(batch_size=2), sampling='poisson'),
        lambda: dpsgd(sigma=1., batch_size=1, dataset_size=9, steps=1, unit_records=2,
                      sampling='without-replacement')],
    'epsilon_after': [
        lambda: epsilon_after([3], delta=1e-5),
        lambda: epsilon_after([(Gaussian(sigma=1e5), 10**12)], delta=1e-5)],
    'from_steps': [lambda: schedules.from_steps(7)],
    'gdp': [lambda: gdp(LEAKY)],
    'tradeoff': [lambda: tradeoff(ONE.remove, fpr=.1, direction='add'),
                 lambda: tradeoff(ONE, fpr=.1, direction='both')],
    'run_of_history': [lambda: run_of_history({})],
    'FiniteLoss.__init__': [lambda: FiniteLoss(np.log([.5, .4]), np.log([.5, .5]))],
    'RenyiDP.of_group': [lambda: group(RenyiDP(orders=(3.,), divergences=(1.,)), 2)],
    'RenyiDP.loss_of_sample': [
        lambda: PoissonSubsampled(RenyiDP(orders=(1.5,), divergences=(1.,)), rate=.1).remove],
    'RenyiDP.__post_init__': [lambda: RenyiDP(orders=(3., 2.), divergences=(1., 1.))],
    'PrivacyProfile.__post_init__': [lambda: PrivacyProfile(eps=(1., 1.), delta=(.1, .1))],
    'privacy_profile': [lambda: privacy_profile(3.), lambda: privacy_profile(
        SimpleNamespace(_pmf_add=SimpleNamespace(_pessimistic_estimate=False)))],
    'group': [lambda: group(3, 2), lambda: group(RandomizedResponse(eps=1.), 2)],
    'individual_epsilon': [lambda: individual_epsilon(np.ones(3), **SPENT)],
    'rdp': [lambda: rdp(TINY, 2.)],
    'RDPOdometer.epsilon': [lambda: RDPOdometer(2., .1, n=3).epsilon([.1, .2])],
    'read_run': [lambda tmp: training_configs.read_run(from_file(tmp))],
    'SelectionAccountant.__init__': [lambda: SelectionAccountant(RUN)],
    'audit': [lambda: audit(Gaussian(sigma=1.), [], [1., 2.], delta=.1),
              lambda: audit(Gaussian(sigma=1.), [1., 2.], [1., 2.], delta=.1, threshold=1.,
                            method='one-run')],
    'sweep': [lambda: sweep(sigma=[[1.]], rate=.1, steps=1, delta=.1)],
    'epsilon_slopes': [
        lambda: epsilon_slopes(LEAKY, delta=1e-5), lambda: epsilon_slopes(RUN.remove, delta=1e-5)],
    'optimal_schedule': [
        lambda: optimal_schedule([[1.]], eps=1., delta=1e-5, rate=.1, steps=3)],
    'selected': [lambda: selected(RUN, tries=3), lambda: selected(selected(RUN))],
    'report': [lambda: report(LEAKY, delta=1e-5), lambda: report(RUN, delta=1e-5, unit=' ')],
    'to_steps': [lambda: schedules.to_steps(Own())],
    'with_replacement': [
        lambda: dp_saddle.with_replacement(sigma=1., batch_size=10**7, dataset_size=10)],
    'NodeLoss.cumulants': [lambda: APART.remove.cumulants(0.)],
    'ComposedLoss.cdf': [lambda: (2*RUN).remove.cdf(.2)],
    'ComposedLoss.log_delta': [lambda: (2*RUN).remove.log_delta(.2)],
    'asymptotic_saddle_point': [lambda: asymptotic_saddle_point(3, 1.)],
    'saddle_point': [lambda: saddle_point(TINY.remove, 1.), lambda: saddle_point(RUN, 1.)],
    'msd_terms': [lambda: msd_terms(np.ones(3))],
    'TiltedAccountant.__init__': [lambda: TiltedAccountant(TINY)],
    'lyapunov_sum': [lambda: lyapunov_sum(RUN.remove, 1e9)],
    'asymptotic_epsilon': [
        lambda: asymptotic_epsilon(LEAKY, delta=.1), lambda: asymptotic_epsilon(0*RUN, delta=.1)],
    'step_moments': [lambda: step_moments(3)],
    'transform_bound': [lambda: transform_bound(3)],
    'ReplaceOneLoss.log_delta': [
        lambda: UNPROVED.parts[0][0].log_delta(1.)],
    'gaussian_epsilon': [lambda: gaussian_epsilon(np.ones(2), np.full(3, .1))],
    'norm_counts': [lambda: norm_counts(np.ones(3), np.array([1., 2.]), 1., 1.)],
    'main': [lambda: cli.main(['epsilon', '--sigma', '0', '--steps', '1', '--delta', '.1'])],
    'Slider.__post_init__': [
        lambda: widgets.Slider('s', 's', (), 0), lambda: widgets.Slider('s', 's', (1, 2), 2)],
    'Explorer.__post_init__': [lambda: figure('a b'), lambda: figure()],
    'Explorer.at': [lambda: drawn().at()],
    'explore_curve': [lambda: widgets.explore_curve(eps=1.)],
    'explore_tilt': [lambda: widgets.explore_tilt(loss=1.)],
    'explore_saddle': [lambda: widgets.explore_saddle(tilt=(2., 1.))],
    'explore_edgeworth': [lambda: widgets.explore_edgeworth(x=1.)],
    'explore_fft': [lambda: widgets.explore_fft(eps=1.)],
    'explore_filter': [lambda: widgets.explore_filter(np.ones(3))],
    'explore_tradeoff': [lambda: widgets.explore_tradeoff(fpr=.1)],
    'SaddleAccountant.get_epsilon': [lambda: of_history([(1., .1)]).get_epsilon(1e-5)],
    'SaddleAccountant.load_state_dict': [
        lambda: opacus_accountant().load_state_dict({'history': 7, 'mechanism': 'saddle'})],
    'SaddleAccountant.attach_filter': [
        lambda: opacus_accountant().attach_filter(untrained()[1], Budget(eps=1., delta=1e-5)),
        lambda: opacus_accountant().attach_filter(untrained()[1], 3.)],
    'attach_filter': [lambda: interop.attach_filter(untrained()[1], 3.)],
    'show_loader': [lambda: interop.show_loader(untrained()[1], None)],
    'SaddleAccountant.leave_records_out': [
        lambda: opacus_accountant().leave_records_out(untrained()[1], IndividualGDPFilter(1., 3),
                                                      None),
        guard_of_other_records],
    'SaddlePrivacyAccountant.__init__': [lambda: adapter('both')],
    'record_norms': [
        norms_in_evaluation, lambda: interop.record_norms(*untrained(), None, None, None)],
}
# What the helpers they share raise for others: their constructors have asked before, or they hand
# over what is right. Their docstrings speak of ranges only.
NEVER = {'FourierAccountant.error', 'OpacusHistory.step',
         'SaddleAccountant.get_optimizer_hook_fn'}           # what it returns does
# Said once, at the parameter they all have: it is the accountants made of it that raise.
ITS_HEIRS = {('Accountant.__init__', 'ValueError')}


def run(call, directory):
    "The error that a call ends in, and the code that was running."
    with pytest.raises((ValueError, TypeError, SystemExit)) as caught:
        call(directory) if call.__code__.co_argcount else call()
    frames = [frame.f_code for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    return caught.value, frames

DOCUMENTED = documented()
TOLD = [name for name, (_, told) in DOCUMENTED.items()
        if name in ERRORS or re.search('ValueError|TypeError', told)]

@pytest.mark.parametrize('name', TOLD)
def test_what_is_said_to_raise_raises(name, tmp_path):
    "Itself, and no check of a range; of each kind that its docstring names."
    f, told = DOCUMENTED[name]
    said = {(name, kind) for kind in ('ValueError', 'TypeError') if kind in told} - ITS_HEIRS
    if name in NEVER:
        assert not said
        return
    assert name in CALLS, f'{name}: no call is known to end in the error that is said'
    kinds = set()
    for call in CALLS[name]:
        error, frames = run(call, tmp_path)
        assert f.__code__ in frames, f'{name} was not running: {error!r}'
        assert frames[-1].co_name not in VALIDATORS, f'{name}: a range only: {error!r}'
        kinds.add((name, type(error).__name__))
    assert said <= kinds, f'no call ends in {said - kinds}'

def test_no_call_is_left_over():
    "What is called is documented, and either raises or never does."
    assert {*CALLS, *NEVER} == set(TOLD) and not CALLS.keys() & NEVER
