"Chapter 06d, reports: a paragraph that names everything, and pictures."
import json

import matplotlib.pyplot as plt
import pytest

import dp_saddle
from dp_saddle import (
    ApproxDP,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    TruncatedPoisson,
    certify,
    dpsgd,
    epsilon,
    from_steps,
    plot_curve,
    plot_rdp,
    plot_steps,
    plot_tradeoff,
    report,
    to_steps,
    tree_aggregation,
)
from dp_saddle.reports import neighbours

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes')

def cifar():
    return dpsgd(sigma=9.4, batch_size=2**14, dataset_size=50_000, steps=2000, sampling='poisson')

def test_report_says_all_that_a_guarantee_needs():
    text = report(cifar(), delta=1e-5, unit='image')
    for words in ('(7.425, 1e-05)-differential privacy', 'Each image', 'Poisson', '7.424378898',
                  'adding or removing one record', 'sum of clipped gradients', 'all checkpoints',
                  dp_saddle.__version__):
        assert words in text

def test_report_in_other_forms():
    facts = json.loads(report(cifar(), delta=1e-5, form='json'))
    eps = epsilon(cifar(), delta=1e-5)
    assert facts['certified interval'][0] <= facts['epsilon'] == eps and facts['unit'] == 'record'
    assert report(cifar(), delta=1e-5, form='markdown').startswith('**(7.425, 1e-05)')
    assert 'the last is released' in report(cifar(), delta=1e-5, released='last')

def test_report_of_mechanisms_and_losses():
    assert 'Laplace' in report(3*Laplace(scale=2.), delta=1e-5)
    text = report(Gaussian(sigma=2.).remove, delta=1e-5)
    assert 'those of the pair given' in text and 'one direction of a pair' in text

def test_report_names_what_the_batches_were():
    run = dpsgd(sigma=2., batch_size=10, dataset_size=100, epochs=3, sampling='shuffle')
    facts = json.loads(report(run, delta=1e-5, form='json'))
    assert 'accounted as 3*Gaussian' in facts['mechanism']
    assert facts['sampling'] == 'shuffled batches, no amplification claimed'

@pytest.mark.parametrize('bad, message', [
    (dict(delta=0.), 'delta must'),
    (dict(form='html'), 'form must'),
    (dict(released='some'), 'released must'),
    (dict(unit=' '), 'unit must'),
    (dict(unit=3), 'unit must'),
])
def test_reports_that_are_none(bad, message):
    with pytest.raises(ValueError, match=message):
        report(Gaussian(sigma=1.), **(dict(delta=1e-5) | bad))

def test_there_is_no_report_without_a_finite_eps():
    with pytest.raises(ValueError, match='no finite eps'):
        report(ApproxDP(eps=1., delta=.1), delta=1e-5)

def test_a_report_quotes_a_certificate():
    made = certify(cifar().mechanism, delta=1e-5)
    text = report(cifar(), delta=1e-5, certificate=made)
    sentence, _, line = text.partition('\n\n')
    assert made.digest[:16] in sentence and line == f'Certificate, SHA-256: {made.digest}'
    assert made.answer['lower'] in sentence and made.answer['upper'] in sentence
    facts = json.loads(report(cifar(), delta=1e-5, form='json', certificate=made))
    assert facts['certificate'] == made.digest
    assert f'| certificate | {made.digest} |' in report(cifar(), delta=1e-5, form='markdown',
                                                        certificate=made)
    assert 'ertificate' not in report(cifar(), delta=1e-5)

@pytest.mark.parametrize('run, question, error, message', [
    (2*Gaussian(sigma=4.), {'delta': 1e-6}, ValueError, 'about delta = 1e-05'),
    (2*Gaussian(sigma=4.), {'eps': 1.}, ValueError, 'about delta = 1e-05'),
    (3*Gaussian(sigma=4.), {'delta': 1e-5}, ValueError, 'about this run'),
    (2*Gaussian(sigma=4.1), {'delta': 1e-5}, ValueError, 'about this run'),
    (None, None, TypeError, 'must be a Certificate')])
def test_a_certificate_of_something_else_is_not_quoted(run, question, error, message):
    made = 'run.cert.json' if run is None else certify(run, **question)
    with pytest.raises(error, match=message):
        report(2*Gaussian(sigma=4.), delta=1e-5, certificate=made)

def test_plots_take_axes_and_return_them():
    axes = plt.subplots(1, 4)[1]
    run = 100*PoissonSubsampled(base=Gaussian(sigma=1.), rate=.05)
    assert plot_curve(run, ax=axes[0]) is axes[0]
    assert plot_steps(run, delta=1e-5, ax=axes[1]) is axes[1]
    assert plot_tradeoff(run, ax=axes[2]) is axes[2]
    assert plot_rdp(run, ax=axes[3]) is axes[3]
    steps, eps = axes[1].lines[0].get_data()
    assert eps[-1] == pytest.approx(epsilon(run, delta=1e-5), rel=1e-3) and len(steps) == 101
    plt.close('all')

def test_plots_make_axes():
    ax = plot_tradeoff(Gaussian(sigma=1.), fpr=[.1, .5])
    assert len(ax.lines[1].get_xdata()) == 2
    plt.close('all')

def test_the_relation_is_the_proved_one():
    "Of a tree, of samples that are cut, of what they are part of; and how they are sampled."
    tree = tree_aggregation(steps=100, sigma=4.)
    cut = 10*TruncatedPoisson(sigma=1., rate=.01, dataset_size=10**4, max_batch_size=150)
    for run in (tree, 3*tree, PoissonSubsampled(tree.steps[0][0], rate=.1)):
        text = report(run, delta=1e-5)
        assert 'replacing one record by an empty one' in text and 'adding' not in text
    both = neighbours(tree + Gaussian(sigma=5.))
    assert both == 'replacing one record by an empty one; adding or removing one record'
    assert neighbours(0*tree + Gaussian(sigma=5.)) == 'adding or removing one record'
    text = report(cut, delta=1e-5)
    assert 'Sampling: Poisson, large samples cut at random.' in text
    assert 'how many there are being public' in text and 'adding' not in text
    text = report(cut + Gaussian(sigma=9.), delta=1e-5)
    assert 'large samples are cut at random, where a largest batch is given' in text

def test_a_tree_goes_where_gaussians_go():
    tree = tree_aggregation(steps=100, sigma=4.)
    same = 7*Gaussian(sigma=4.)
    assert epsilon(tree, delta=1e-5) == epsilon(same, delta=1e-5)
    assert from_steps(to_steps(tree)) == list(tree.steps)
    made = certify(tree, delta=1e-5)
    assert made.answer == certify(same, delta=1e-5).answer
    assert 'replacing one record by an empty one' in report(tree, delta=1e-5, certificate=made)

def test_report_of_two_runs():
    "Each is described; and batches drawn in two ways are."
    given = dict(sigma=9.4, batch_size=2**14, dataset_size=50_000, steps=20)
    users = [dpsgd(sampling=way, **given) for way in ('poisson', 'none')]
    text = report(2*users[0] + users[1] + 3*Laplace(scale=20.), delta=1e-5)
    for words in ('2 times 20 steps', '; then 1 times 20 steps', '; then 3*Laplace(scale=20.0',
                  'Sampling: Poisson; then none', users[0].relation):
        assert words in text
