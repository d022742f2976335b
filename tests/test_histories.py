"""practice/histories: what Opacus and dp_accounting have kept of a run. References: the same run as
steps of ours, and the libraries themselves where they are installed."""
import contextlib
import io
import json
import math
import warnings

import numpy as np
import pytest

from dp_saddle import (
    ZCDP,
    ApproxDP,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    delta,
    epsilon,
    read_run,
    run_of_history,
)
from dp_saddle.command.main import main
from dp_saddle.practice import is_history


def S(sigma, rate): return PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

HISTORY = [(1.1, .01, 300), (2., .02, 40), (1.1, .01, 5)]
RUN = 305*S(1.1, .01) + 40*S(2., .02)

@pytest.mark.parametrize('mechanism', ['rdp', 'prv', 'gdp', 'saddle', None])
def test_state_of_any_accountant(mechanism):
    "One run; that the samples are taken to be Poisson is said, unless the state says it."
    state = dict(history=HISTORY, mechanism=mechanism)
    with pytest.warns(UserWarning, match='taken as of Poisson samples.*adding or removing one'):
        assert run_of_history(state) == RUN
    said = state | dict(sampling='poisson')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert run_of_history(said) == run_of_history(json.loads(json.dumps(said))) == RUN
        assert epsilon(said, delta=1e-5) == epsilon(RUN, delta=1e-5)
        assert delta(said, eps=1.) == delta(RUN, eps=1.)

def test_checkpoint_around_a_state():
    inner = dict(history=HISTORY, mechanism='prv', sampling='poisson')
    assert run_of_history(dict(privacy_accountant_state_dict=inner, module_state_dict={})) == RUN

@pytest.mark.parametrize('around', [
    lambda s: dict(accountant=s, model=dict(w=[1., 2.])), lambda s: dict(a=dict(b=dict(c=s)), n=3)])
def test_a_state_among_other_keys(around):
    "A checkpoint of one's own; of two accountants neither is meant."
    inner = dict(history=HISTORY, mechanism='rdp', sampling='poisson')
    assert is_history(around(inner)) and run_of_history(around(inner)) == RUN
    with pytest.raises(ValueError, match="^state must have one accountant's history, got 2"):
        run_of_history(dict(old=inner, new=around(inner)))
    assert not is_history(dict(log=dict(history=[.5, .4], loss='mse')))

def test_how_batches_were_drawn_may_be_said(tmp_path, capsys):
    "In the call or as an option, with no warning; another way is refused, whatever else is said."
    state, path = dict(history=HISTORY, mechanism='rdp'), tmp_path/'state.json'
    path.write_text(json.dumps(state))
    words = ['epsilon', '--run', str(path), '--delta', '1e-5', '--json', '--sampling']
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert run_of_history(state, sampling='poisson') == RUN
        assert main([*words, 'poisson']) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)['results'][0]['upper'] == epsilon(RUN, delta=1e-5) and not out.err
    for said in (state, state | dict(sampling='poisson')):
        with pytest.raises(ValueError, match="^sampling must be 'poisson' .* got"):
            run_of_history(said, sampling='shuffle')
    with pytest.raises(ValueError, match='^sampling does not go with an event'):
        run_of_history('GaussianDpEvent(noise_multiplier=1.0)', sampling='poisson')

@pytest.mark.parametrize('rates', [.1, [.1, .1, .1, .2]])
def test_a_noise_for_each_step(rates):
    state = dict(noise_multiplier=[1., 2., 1., 2.], sample_rate=rates, sampling='poisson')
    last = S(2., .2 if isinstance(rates, list) else .1)
    assert dict(run_of_history(state).steps) == dict((2*S(1., .1) + S(2., .1) + last).steps)

def test_no_noise_and_no_steps():
    bare = dict(history=[(1., .1, 3), (0., .1, 1)], sampling='poisson')
    for d in (0, 1e-5, .5): assert epsilon(bare, delta=d) == math.inf
    assert delta(bare, eps=9.) == 1
    for empty in ([], [(1., .1, 0)]):
        assert epsilon(dict(history=empty, sampling='poisson'), delta=1e-5) == 0

@pytest.mark.parametrize('state, message', [
    (dict(history=7), 'history must be a list, got'),
    (dict(history=[(1., .1)]), 'history must hold .noise_multiplier, sample_rate, steps.'),
    (dict(history=['secret secret']), 'history must hold .* as entry 0'),
    (dict(history=[(-1., .1, 3)]), r'noise_multiplier must be in \[0, inf\), got -1'),
    (dict(history=[(1., 0., 3)]), r'sample_rate must be in \(0, 1\], got 0'),
    (dict(history=[(1., .1, -3)]), 'steps must be an integer >= 0, got -3'),
    (dict(history=[(1., .1, 2.5)]), 'steps must be an integer, got 2.5'),
    (dict(history=[(1., .1, 3)], sampling='shuffle'), "sampling must be 'poisson'.*got 'shuffle'"),
    (dict(history=[(1., .1, 3)], sampling='poisson', passes=[{}]), "sampling must be 'poisson'"),
    (dict(noise_multiplier=[1., 2.], sample_rate=[.1]), 'sample_rate must be one number'),
    (dict(noise_multiplier=[1.], sampling='poisson'), 'sample_rate must be a real number'),
    (dict(spam=3), 'state must have .history.'),
    (dict(noise_multiplier=[1.], sample_rate=.1, history=[(1., .1, 9)]), 'one of .*, got both'),
    ({'privacy_accountant_state_dict': None}, 'privacy_accountant_state_dict must be a mapping'),
    ({'privacy_accountant_state_dict': [(1., .1, 3)]}, "with 'history', got a list"),
    (dict(history=np.ones((1, 3))), 'history must be a list, got a ndarray'),
    (Gaussian(sigma=1.), 'got a Gaussian'),
    ('GaussianDpEvent(noise_multiplier=1, noise_multiplier=9)', 'what dp_accounting prints'),
    ('GaussianDpEvent(noise_multiplier=-1.0)', r'noise_multiplier must be in \[0, inf\), got -1'),
    ('SelfComposedDpEvent(event=NoOpDpEvent(), count=-2)', 'count must be an integer >= 0, got -2'),
    ({'type': 'ShuffledDpEvent'}, 'event must be one of NoOp'),
    ({'type': 'GaussianDpEvent'}, "noise_multiplier is needed for 'GaussianDpEvent'"),
    ('secret GaussianDpEvent secret', 'event must be what dp_accounting prints, got another text'),
    ('__import__("os").system("DpEvent")', 'event must be what dp_accounting prints'),
    ('GaussianDpEvent(1.0)', 'event must be what dp_accounting prints'),
    ('SelfComposedDpEvent(event='*80 + 'NoOpDpEvent()' + ', count=1)'*80, 'at most 64 deep'),
    ('('*10**5 + 'DpEvent' + ')'*10**5, 'event must be what dp_accounting prints'),
])
def test_bad_input(state, message):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        with pytest.raises((ValueError, TypeError), match=message) as caught: run_of_history(state)
    assert 'secret' not in str(caught.value)

EVENTS = {
    'GaussianDpEvent(noise_multiplier=2.0)': 1*Gaussian(sigma=2.),
    'SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.1, event='
    'GaussianDpEvent(noise_multiplier=1.0)), count=3)': 3*S(1., .1),
    'ComposedDpEvent(events=[LaplaceDpEvent(noise_multiplier=3), NoOpDpEvent(), '
    'ZCDpEvent(rho=0.5, xi=0.0)])': Laplace(scale=3.) + ZCDP(rho=.5),
    'PoissonSampledDpEvent(sampling_probability=1, event=SelfComposedDpEvent('
    'event=GaussianDpEvent(noise_multiplier=2.0), count=4))': 1*PoissonSubsampled(
        4*Gaussian(sigma=2.), rate=1.),
    'NonPrivateDpEvent()': 1*ApproxDP(eps=0., delta=1.),
    'PoissonSampledDpEvent(sampling_probability=0.0, event=NonPrivateDpEvent())':
        0*Gaussian(sigma=1.),
}

@pytest.mark.parametrize('text, run', EVENTS.items(), ids=range(len(EVENTS)))
def test_events_in_print(text, run):
    "What the text prints, and what dp_accounting itself makes of it."
    assert run_of_history(text) == run
    events = pytest.importorskip('dp_accounting')
    event = eval(text, {name: getattr(events, name) for name in dir(events)})
    assert run_of_history(repr(event)) == run
    from dp_saddle.interop import SaddlePrivacyAccountant
    theirs = SaddlePrivacyAccountant().compose(event)
    assert theirs.get_epsilon(1e-5) == pytest.approx(epsilon(run, delta=1e-5), rel=1e-12)

def test_events_as_json():
    event = {'type': 'SelfComposedDpEvent', 'count': 3, 'event': {
        'type': 'PoissonSampledDpEvent', 'sampling_probability': .1,
        'event': {'type': 'GaussianDpEvent', 'noise_multiplier': 1.}}}
    assert is_history(event) and run_of_history(json.loads(json.dumps(event))) == 3*S(1., .1)

# ---------------- files

def cli(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try: status = main([*map(str, words)])
        except SystemExit as stop: status = stop.code
    return status, out.getvalue(), err.getvalue()

@pytest.mark.parametrize('data, run', [
    (dict(history=HISTORY, mechanism='rdp'), RUN), (list(EVENTS)[1], 3*S(1., .1))],
    ids=['state', 'event'])
def test_json_on_the_command_line(data, run, tmp_path):
    file = tmp_path/'state.json'
    file.write_text(json.dumps(data))
    with warnings.catch_warnings():
        warnings.simplefilter('always')
        status, out, err = cli('epsilon', '--run', file, '--delta', '1e-5', '--json')
    row, = json.loads(out)['results']
    assert status == 0 and row['upper'] == epsilon(run, delta=1e-5)
    assert ('taken as of Poisson samples' in err) == isinstance(data, dict)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        assert read_run(file) == run

def test_checkpoint_on_the_command_line(tmp_path):
    "A .pt file is read without running what is in it."
    torch = pytest.importorskip('torch')
    file = tmp_path/'checkpoint.pt'
    state = dict(history=HISTORY, mechanism='gdp', sampling='poisson')
    torch.save(dict(privacy_accountant_state_dict=state, module_state_dict={
        'w': torch.zeros(3)}), file)
    status, out, err = cli('epsilon', '--run', file, '--delta', '1e-5', '--json')
    assert status == 0 and not err
    assert json.loads(out)['results'][0]['upper'] == epsilon(RUN, delta=1e-5)
    torch.save(dict(history=[io.StringIO('secret')]), file)
    status, _, err = cli('epsilon', '--run', file, '--delta', '1e-5')
    assert status == 2 and 'weights_only=True' in err and 'secret' not in err
    file.write_bytes(b'secret')
    status, _, err = cli('epsilon', '--run', file, '--delta', '1e-5')
    assert status == 2 and 'weights_only=True' in err and 'secret' not in err

@pytest.mark.filterwarnings('ignore:Secure RNG')
@pytest.mark.filterwarnings('ignore:Optimal order')
@pytest.mark.filterwarnings('ignore:GDP accounting')
@pytest.mark.parametrize('name', ['rdp', 'prv', 'gdp'])
def test_opacus_own_accountants(name):
    "Their state goes on in ours, and says the same run; a bad one changes nothing."
    accountants = pytest.importorskip('opacus.accountants')
    from dp_saddle.interop import SaddleAccountant
    theirs, ours = accountants.create_accountant(name), SaddleAccountant()
    for _ in range(3): theirs.step(noise_multiplier=1.1, sample_rate=.01)
    state = json.loads(json.dumps(theirs.state_dict()))
    with pytest.warns(UserWarning, match='taken as of Poisson samples'):
        ours.load_state_dict(theirs.state_dict())
    assert ours.get_epsilon(1e-5) == epsilon(3*S(1.1, .01), delta=1e-5)
    assert ours.get_epsilon(1e-5) <= theirs.get_epsilon(1e-5)*(1 + 1e-9) or name == 'gdp'
    ours.step(noise_multiplier=1.1, sample_rate=.01)
    assert len(ours) == 4 and ours.state_dict()['mechanism'] == 'saddle'
    for bad in (state | dict(sampling='shuffle'), state | dict(history=[(1., 2., 3)])):
        with pytest.raises(ValueError, match='state_dict cannot be loaded: '):
            ours.load_state_dict(bad)
    assert len(ours) == 4
    with pytest.raises(ValueError, match='state_dict cannot be loaded'):
        ours.load_state_dict(state | dict(mechanism='another'))

def test_numbers_of_numpy():
    state = dict(history=[(np.float64(1.), np.float32(.5), np.int64(3))], sampling='poisson')
    assert run_of_history(state) == 3*S(1., .5)
