"practice/reports, reports: a paragraph that names everything, and pictures."
import json
import re
import shutil
import subprocess
import sys
import warnings

import matplotlib.pyplot as plt
import pytest
import yaml

import dp_saddle
from dp_saddle import (
    ZCDP,
    ApproxDP,
    BallsInBins,
    Discrete,
    Gaussian,
    Geometric,
    Laplace,
    PoissonSubsampled,
    RenyiDP,
    TruncatedPoisson,
    TwoLevelSampled,
    certify,
    dpsgd,
    epsilon,
    fixed_size,
    from_steps,
    group,
    plot_curve,
    plot_rdp,
    plot_steps,
    plot_tradeoff,
    report,
    selected,
    shuffled_blanket,
    subset_selection,
    to_steps,
    tree_aggregation,
)
from dp_saddle.practice.reports import REPORT_FORMS, neighbours, relation_name

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

@pytest.mark.parametrize('step, said', [
    (shuffled_blanket(subset_selection(eps0=1., values=3), n=1000), 'eps from 0 to 1, '),
    (Discrete(p=(.03, .01)*25, q=(.01, .03)*25), '50 p from 0.03 to 0.01, '),
    (TwoLevelSampled(RenyiDP(orders=tuple(range(2, 99)), divergences=(.1,)*97), rate=1.,
                     whose='client'), '97 orders from 2 to 98, ')])
def test_report_has_not_all_numbers_of_a_curve(step, said):
    text = report(step, delta=1e-6)
    assert said in text and len(text) < 1200

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
    assert 'Sampling: Poisson, a fresh sample at each step, of which large ones are cut' in text
    assert 'how many there are being public' in text and 'adding' not in text
    text = report(cut + Gaussian(sigma=9.), delta=1e-5)
    assert 'large ones are cut at random; then none, each record may take part in every' in text

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
                  'Sampling: Poisson, a fresh sample at each step; then none', users[0].relation):
        assert words in text

SETTING = dict(sigma=2., batch_size=10, dataset_size=1000, steps=30)
SAMPLED = 30*PoissonSubsampled(Gaussian(sigma=2.), rate=.01)

KINDS = {   # run: (name of its relation, how its batches are said to be drawn)
    'poisson': (lambda: dpsgd(sampling='poisson', **SETTING), 'add/remove', 'a fresh sample'),
    'replaced': (lambda: dpsgd(sampling='poisson', relation='replace-one', **SETTING),
                 'replace-one', 'Poisson, a fresh sample at each step'),
    'zero-out': (lambda: dpsgd(sampling='poisson', relation='zero-out', **SETTING), 'zero-out',
                 'Poisson, a fresh sample at each step'),
    'cut': (lambda: dpsgd(sampling='truncated-poisson', max_batch_size=40, **SETTING),
            'add/remove, the number of records being public', 'large ones are cut at random'),
    'bins': (lambda: dpsgd(sampling='balls-in-bins', **SETTING), 'add/remove',
             'each record in one random batch of an epoch, on its own'),
    'shuffle': (lambda: dpsgd(sampling='shuffle', **SETTING), 'zero-out', 'no amplification'),
    'without': (lambda: dpsgd(sampling='without-replacement', **SETTING), 'replace-one',
                'batches of one size, each drawn anew without replacement'),
    'with': (lambda: dpsgd(sampling='with-replacement', relation='add-remove', **SETTING),
             'add/remove', 'batches of one size, each drawn anew with replacement'),
    'none': (lambda: dpsgd(sampling='none', **SETTING), 'add/remove', 'none, each record'),
    'users': (lambda: dpsgd(sampling='poisson', unit_records=3, **SETTING), 'add/remove, of a user',
              'Poisson, a fresh sample at each step'),
    'shuffled users': (lambda: dpsgd(sampling='shuffle', unit_records=3, **SETTING),
                       'zero-out, of a user', 'no amplification'),
    'two runs': (lambda: 2*dpsgd(sampling='poisson', **SETTING) + Laplace(scale=20.), 'add/remove',
                 'Poisson, a fresh sample at each step; then none, each record'),
    'selected': (lambda: selected(SAMPLED, tries=Geometric(mean=3.)), 'add/remove',
                 'Poisson, a fresh sample at each step'),
    'mixed': (lambda: SAMPLED + 2*Laplace(scale=5.) + ZCDP(rho=.001), 'add/remove',
              'then none'),
    'tree': (lambda: group(tree_aggregation(steps=10, sigma=9.), 2), 'zero-out, of a user', 'none'),
    'bins alone': (lambda: 2*BallsInBins(Gaussian(sigma=2.), batches=10), 'add/remove',
                   'each record in one random batch'),
    'size': (lambda: fixed_size(sigma=2., batch_size=10, dataset_size=1000, relation='replace-one',
                                replacement=False), 'replace-one', 'without replacement'),
    'loss': (lambda: Gaussian(sigma=2.).remove, 'a relation without a name', 'as the pair given'),
}

def card_of(text):
    "(what the YAML block says, what is below), by the Hub's own regular expression."
    block = re.search(r"---[\n\r]+([\S\s]*?)[\n\r]+---[\n\r]", text)
    assert block.start() == 0
    return yaml.safe_load(block[1]), text[block.end():]

def check_tex(text):
    "What TeX would stop at: marks that are commands, braces or mathematics without an end."
    bare = re.sub(r'\\[\\{}$&#_%]', '', text)               # those that are written as text
    assert not set('&#%~') & set(bare), text
    depth = 0
    for part in re.findall(r'[{}]', bare):
        depth += 1 if part == '{' else -1
        assert depth >= 0, text
    assert depth == 0 and bare.count('$') % 2 == 0, text
    outside = re.sub(r'\$[^$]*\$', '', bare)
    assert not set('^_<>|') & set(outside), text
    commands = set(re.findall(r'\\([a-z]+)', outside))
    assert commands <= {'texttt', 'textbackslash', 'textasciicircum', 'textasciitilde',
                        'textless', 'textgreater', 'textbar'}, commands

def kept(function):
    "Its first answer, whenever it is asked again; an accountant's eps too."
    answers = []

    def first(*asked):
        if not answers:
            answers.append(function(*asked))
            if hasattr(answers[0], 'epsilon'):
                answers[0].epsilon = kept(answers[0].epsilon)
        return answers[0]
    return first

@pytest.mark.parametrize('kind', KINDS)
def test_every_kind_of_run_in_every_form(kind, monkeypatch):
    """The relation by its name, how batches are drawn, and the same facts in all forms. (These are
    the same computation for each form, so it is done once.)"""
    build, relation, drawn = KINDS[kind]
    run = build()
    for name in ('best_accountant', '_facts'):
        reports = dp_saddle.practice.reports
        monkeypatch.setattr(reports, name, kept(getattr(reports, name)))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')             # of bounds that are wide; others test these
        said = {form: report(run, delta=1e-5, form=form) for form in REPORT_FORMS}
        eps = epsilon(run, delta=1e-5)
    facts = json.loads(said['json'])
    assert facts['relation'] == relation == relation_name(run) and drawn in facts['sampling']
    assert f'({relation}): eps is' in said['text'] and drawn in said['text']
    block, body = card_of(said['huggingface'])
    assert block['tags'] == ['differential-privacy']
    assert list(block['differential_privacy'].values()) == list(facts.values())
    assert set(block['differential_privacy']) >= {'epsilon', 'delta', 'relation', 'unit', 'tuning'}
    assert block['differential_privacy']['epsilon'] == eps == facts['epsilon']
    assert body.startswith('\n## Differential privacy\n\nEach ')
    assert re.sub(r'\\(.)', r'\1', body).split() == (
        '## Differential privacy ' + said['text']).split()
    check_tex(said['latex'])
    assert '10^{-5}' in said['latex'] and r'$\varepsilon$ is certified' in said['latex']
    rows = [row.split(' | ')[0][2:] for row in said['markdown'].splitlines()[4:]]
    assert rows == list(facts)

NASTY = 'a & b_c #1 {50%} $x$ ^~ \\n <user> | "quoted": - é 😀 *'

def test_what_a_user_writes_is_no_command():
    "In TeX, Markdown and YAML."
    run = Gaussian(sigma=9.)
    tex = report(run, delta=1e-5, unit=NASTY, form='latex')
    check_tex(tex)
    for escaped in (r'\&', r'b\_c', r'\#1', r'\{50\%\}', r'\$x\$', r'\textasciicircum{}',
                    r'\textbackslash{}n', r'\textless{}user\textgreater{}', r'\textbar{}'):
        assert escaped in tex
    block, body = card_of(report(run, delta=1e-5, unit=NASTY, form='huggingface'))
    assert block['differential_privacy']['unit'] == NASTY
    assert r'\<user\>' in body and r'\|' in body
    broken = card_of(report(run, delta=1e-5, unit='a\n---\nb', form='huggingface'))[0]
    assert broken['differential_privacy']['unit'] == 'a\n---\nb'
    row, = [row for row in report(run, delta=1e-5, unit='a|b\nc', form='markdown').splitlines()
            if row.startswith('| unit')]
    assert row == r'| unit | a\|b c |'

@pytest.mark.skipif(not shutil.which('pdflatex'), reason='no TeX here')
def test_the_latex_form_compiles(tmp_path):
    made = certify(SAMPLED, delta=1e-5)
    said = [report(SAMPLED, delta=1e-5, form='latex', unit=NASTY.replace('😀', ''), tuning='none'),
            report(SAMPLED, delta=1e-5, form='latex', certificate=made)]
    page = '\n\n'.join([r'\documentclass{article}', r'\begin{document}', *said, r'\end{document}'])
    (tmp_path/'page.tex').write_text(page, encoding='utf-8')
    done = subprocess.run(['pdflatex', '-halt-on-error', '-interaction=batchmode', 'page.tex'],
                          cwd=tmp_path, check=False)
    assert done.returncode == 0 and (tmp_path/'page.pdf').exists()

@pytest.mark.parametrize('value', [1e-5, 1e-300, 2.5e20, 1e16, 7, .25, 'yes', '1e-5', '', ': #'])
def test_the_card_keeps_every_value(value):
    "YAML takes 1e-05 for a text, and `yes` for a truth."
    unit = value if isinstance(value, str) and value.strip() else 'record'
    delta = value if isinstance(value, float) and value < 1e-4 else 1e-5
    block, _ = card_of(report(Gaussian(sigma=9.), delta=delta, unit=unit, form='huggingface'))
    said = block['differential_privacy']
    assert (said['delta'], said['unit']) == (delta, unit) and type(said['delta']) is float

def test_what_was_tuned():
    search = selected(SAMPLED, tries=Geometric(mean=3.))
    said = {tuning: report(SAMPLED, delta=1e-5, tuning=tuning)
            for tuning in (None, 'none', 'not private')}
    assert 'Tuning: not said; if hyperparameters were tuned' in said[None]
    assert 'Tuning: no hyperparameter was tuned on these records.' in said['none']
    assert 'without privacy, which this guarantee does not cover' in said['not private']
    for tuning in (None, 'private'):
        assert 'the search is part of the mechanism' in report(search, delta=1e-5, tuning=tuning)
    both = report(2*search, delta=1e-5, tuning='not private')
    assert 'Tuning: besides the search, hyperparameters were tuned' in both

@pytest.mark.parametrize('run, tuning, message', [
    (SAMPLED, 'private', r'selected\(run, tries=\)'), (0*selected(SAMPLED), 'private', 'selected'),
    (selected(SAMPLED), 'none', "must be 'private', 'not private' or left out"),
    (SAMPLED, 'yes', 'tuning must be')])
def test_a_tuning_that_contradicts_the_run(run, tuning, message):
    with pytest.raises(ValueError, match=message):
        report(run, delta=1e-5, tuning=tuning)

def test_relations_have_the_names_that_dp_accounting_has():
    "The three of its enumeration."
    theirs = pytest.importorskip('dp_accounting').NeighboringRelation
    ours = {way: relation_name(dpsgd(sampling='poisson', relation=way, **SETTING))
            for way in ('add-remove', 'replace-one', 'zero-out')}
    assert ours == {'add-remove': 'add/remove', 'replace-one': 'replace-one',
                    'zero-out': 'zero-out'}
    assert {r.name for r in theirs} == {'ADD_OR_REMOVE_ONE', 'REPLACE_ONE', 'REPLACE_SPECIAL'}

def test_a_report_loads_what_it_needs():
    "And the command's module with it: neither searches nor schedules nor audits."
    code = """if True:
        import sys
        import dp_saddle.practice.reports
        loaded = {m.split('.')[-1] for m in sys.modules if m.startswith('dp_saddle.')}
        late = {'attacks', 'schedules', 'selection', 'tilted_clt', 'bins', 'builders', 'batch',
                'edgeworth', 'tilted_fft', 'shuffles', 'samplers', 'worst_case'}
        assert not loaded & late, loaded & late
        from dp_saddle import Gaussian, PoissonSubsampled, epsilon
        epsilon(300*PoissonSubsampled(base=Gaussian(sigma=2.), rate=.01), delta=1e-5)
        loaded = {m.split('.')[-1] for m in sys.modules if m.startswith('dp_saddle.')}
        assert not loaded & late, loaded & late"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

def test_the_command_knows_every_form(capsys):
    from dp_saddle.command.main import main
    with pytest.raises(SystemExit):
        main(['report', '--help'])
    assert '{' + ','.join(REPORT_FORMS) + '}' in capsys.readouterr().out.replace('\n', '')

def test_several_batches_of_an_epoch():
    with pytest.warns(UserWarning, match='the bounds hold'):
        text = report(BallsInBins(Gaussian(sigma=1.), batches=10, draws=2), delta=1e-5)
    assert 'each record in some random batches of an epoch' in text
    assert 'each record in one random batch' not in text
