"""Certificates: those of published and of random runs are proved, and false ones are refused."""
import dataclasses
import json
import time
import warnings
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from certify import run as run_of
from dp_saddle import (
    ZCDP,
    ApproxDP,
    BallsInBins,
    BoundedRange,
    Budget,
    Composition,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    TruncatedPoisson,
    certify,
    dpsgd,
    group,
    load_certificate,
    read_run,
    selected,
    verify,
)
from dp_saddle.base import checks
from dp_saddle.certificates import verification
from dp_saddle.certificates.files import Certificate
from dp_saddle.certificates.interval_bins import bin_values
from dp_saddle.certificates.interval_transforms import MOST_BITS
from dp_saddle.command import main as cli
from peers import SETTINGS

RANDOM = json.loads((Path(__file__).parent/"random.json").read_text(encoding='utf-8'))

@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        yield

def sgd(sigma, rate, steps):
    return steps*PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

def setting_of(name):
    return next(s for s in SETTINGS if s['name'] == name)

LONG = 'Rare and sharp',     # its line has 200,000 nodes: five seconds

@pytest.mark.parametrize('name', [
    pytest.param(s['name'], marks=pytest.mark.slow if s['name'] in LONG else ())
    for s in SETTINGS])
def test_benchmark_settings(name):
    s = setting_of(name)
    run = sgd(s['sigma'], s['rate'], s['steps'])
    made = certify(run, delta=s['delta'])
    verdict = verify(made)
    assert verdict, verdict
    ours = ContourAccountant(run).epsilon(s['delta'])
    low, up = (float(made.answer[k]) for k in ('lower', 'upper'))
    assert low <= ours.upper and ours.lower <= up
    assert up - low <= 1e-9*up or name == 'A million rare steps'

def check_random(row):
    made = certify(run_of(row['steps']), eps=row['eps'])
    verdict = verify(made)
    assert verdict, verdict
    assert Decimal(made.answer['upper']) >= Decimal(row['low'])     # of one direction

@pytest.mark.parametrize('i', [i for i in range(0, 300, 20)])
def test_random_runs(i):
    check_random(RANDOM[i])

@pytest.mark.slow
@pytest.mark.parametrize('i', [i for i in range(300) if i % 20])
def test_all_random_runs(i):
    check_random(RANDOM[i])

# Lies

def moved(text, units):
    "A decimal number, moved by units of its tenth digit."
    x = Decimal(text)
    return str(x + units*Decimal(1).scaleb(x.adjusted() - 9))

def altered(certificate, **parts):
    return dataclasses.replace(certificate, **parts)

def with_step(certificate, **change):
    return altered(certificate, run=[{**certificate.run[0], **change}, *certificate.run[1:]])

def lies(c):
    "Five certificates that are not true."
    low, up = c.answer['lower'], c.answer['upper']
    yield altered(c, answer={'lower': low, 'upper': moved(up, -1)})
    yield altered(c, answer={'lower': moved(low, 1), 'upper': up})
    yield with_step(c, count=c.run[0]['count'] + 1)
    yield with_step(c, rate=c.run[0]['rate']*(1 - 1e-6))
    other = {'remove': 'add', 'add': 'remove'}
    swapped = {side: {other[d]: plan for d, plan in plans.items()}
               for side, plans in c.proof.items()}
    yield altered(c, proof=swapped, answer={'lower': moved(up, 1), 'upper': moved(up, 2)})

RATES = np.geomspace(.003, .3, 20)

@pytest.mark.parametrize('rate', [
    rate if k % 4 == 0 else pytest.param(rate, marks=pytest.mark.slow)
    for k, rate in enumerate(RATES)])
def test_a_hundred_lies(rate):
    "Twenty certificates, five lies each."
    made = certify(sgd(8*rate**.25, float(rate), int(20/rate)), delta=1e-6)
    assert verify(made)
    false = list(lies(made))
    assert len(false) == 5 and not any(verify(c) for c in false)

def test_a_proof_left_out():
    made = certify(sgd(2., .01, 1000), delta=1e-6)
    upper = made.proof['upper']
    assert sorted(upper) == ['add', 'remove']
    for direction in upper:
        one = {**made.proof, 'upper': {direction: upper[direction]}}
        assert not verify(altered(made, proof=one))
    assert not verify(altered(made, proof={**made.proof, 'lower': {}}))
    zero = altered(made, proof={**made.proof, 'lower': {}},
                   answer={**made.answer, 'lower': '0'})
    assert verify(zero)

@pytest.mark.parametrize('direction', ['remove', 'add'])
@pytest.mark.parametrize('way', ['nothing', 'single steps', 'moments'])
def test_a_lower_bound_is_looked_at_in_any_direction(way, direction):
    "Also where both directions are the same, and one is enough for the upper bound."
    made = certify(4*RandomizedResponse(eps=.5) + Gaussian(sigma=1.), eps=1.)
    plan = {'by': way, 'tilt': 2.} if way == 'moments' else {'by': way}
    lower = {direction: plan}
    assert verify(made) and float(made.answer['upper']) < .5
    assert not verify(altered(made, proof={**made.proof, 'lower': lower},
                              answer={**made.answer, 'lower': '0.5'}))

@pytest.mark.parametrize('first, second', [
    (RandomizedResponse(eps=5.), ApproxDP(eps=.1, delta=.5)),
    (ApproxDP(eps=2., delta=.3), 3*ApproxDP(eps=.1, delta=.4)),
    (Discrete(p=(.25, .75, 0.), q=(0., .5, .5)), RandomizedResponse(eps=3.))])
def test_a_mass_is_not_added_to_anothers_curve(first, second):
    "No way proves a lower bound above the truth where steps have mass at infinity."
    run = first + second
    truth = ContourAccountant(run).delta(0.)
    made = certify(run, eps=0.)
    for direction in ('remove', 'add'):
        for way in ('single steps', 'outcomes', 'nothing'):
            lower = {direction: {'by': way}}
            low = Decimal(truth.upper) + Decimal('1e-9')
            assert not verify(altered(made, proof={**made.proof, 'lower': lower},
                                      answer={**made.answer, 'lower': f'{low:.12f}'}))
    trivial = {'remove': {'by': 'nothing'}, 'add': {'by': 'nothing'}}
    assert verify(altered(made, proof={'upper': trivial, 'lower': {}},
                          answer={'lower': '0', 'upper': '1'}))

@pytest.mark.parametrize('change', [
    {'tilt': 1e300}, {'tilt': 0}, {'tilt': 1e-300}, {'period': 0}, {'period': 1e300}, {'nodes': 0},
    {'nodes': 1}, {'smoothing': 1e300}, {'smoothing': 1e-40}, {'far tilt': 1e300},
    {'far tilt': None}], ids=str)
def test_wild_plans_prove_nothing(change):
    made = certify(sgd(2., .01, 1000), eps=1.)
    assert made.proof['upper']['remove']['by'] == 'line'
    proof = {side: {d: {**plan, **change} if plan['by'] == 'line' else plan
                    for d, plan in plans.items()} for side, plans in made.proof.items()}
    assert not verify(altered(made, proof=proof))

def test_verify_asks_for_the_form():
    "A certificate that was not read from a file is checked like one that was."
    made = certify(sgd(2., .01, 1000), eps=1.)
    for wrong in ({'question': {'eps': -1.}}, {'answer': {'lower': '0', 'upper': 'inf'}},
                  {'run': [{}]}, {'form': 'mine'}, {'proof': {'upper': {}, 'more': {}}}):
        with pytest.raises(ValueError, match='must'):
            verify(altered(made, **wrong))

def test_without_python_flint(monkeypatch):
    "A certificate can be made, saved and read; to verify it takes the extra, which is named."
    made = certify(sgd(2., .01, 1000), eps=1.)
    monkeypatch.setattr('dp_saddle.certificates.verification.arb', None)
    assert certify(sgd(2., .01, 1000), eps=1.) == made == Certificate.from_json(made.to_json())
    with pytest.raises(ImportError, match=r"pip install 'dp-saddle\[certificate\]'"):
        verify(made)

@pytest.mark.parametrize('run, question', [
    (30*Laplace(scale=10.), {'delta': 1e-6}),
    (4*PoissonSubsampled(Laplace(scale=2.), rate=.2) + Gaussian(sigma=2.), {'eps': .5}),
    (3*Discrete(p=(.25, .75, 0.), q=(0., .5, .5)), {'eps': .2}),
    (6*DiscreteLaplace(scale=4., sensitivity=2) + 2*RandomizedResponse(eps=.1), {'delta': 1e-4}),
    (sgd(1., .01, 0) + Gaussian(sigma=3.), {'delta': 1e-5}),
    (sgd(1., 1., 5), {'delta': .5}),
    (2*RandomizedResponse(eps=0.), {'delta': .1}),
    (5*BoundedRange(eps=1., shift=.3), {'delta': 1e-3}),
    (2*BoundedRange(eps=1e-9, shift=3e-10) + Gaussian(sigma=3.), {'eps': .2}),
], ids=str)
def test_other_runs(run, question):
    made = certify(run, **question)
    assert verify(made), verify(made)

def mixture(*pairs, sigma=2.):
    c, p = zip(*pairs, strict=True)
    return MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p)

def cut(**changed):
    given = dict(sigma=2., rate=.01, dataset_size=10_000, max_batch_size=150)
    return TruncatedPoisson(**(given | changed))

def step(sigma, rate):
    return PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

@pytest.mark.parametrize('run, question', [
    (100*group(step(2., .01), 4), {'delta': 1e-6}),
    (group(step(2., .01), 4), {'delta': 1e-6}),
    (1000*group(step(2., .01), 16), {'delta': 1e-6}),
    pytest.param(100*group(step(10., .01), 64), {'delta': 1e-6}, marks=pytest.mark.slow),
    (10*mixture((1, .5), (2, .4), (5, .1)), {'eps': 1.}),
    pytest.param(10*mixture((0, .9), (1.5, .01), (9, .09)), {'delta': 1e-6},
                 marks=pytest.mark.slow),
    (3*PoissonSubsampled(mixture((1, .5), (2, .5)), rate=.1) + Laplace(scale=5.), {'delta': 1e-5}),
    (1000*cut(), {'delta': 1e-6}),
    (1000*cut(max_batch_size=60), {'eps': 2.}),
    (3*cut() + 2*step(1., .1), {'delta': 1e-6}),
    (20*cut(rate=1.), {'delta': 1e-6}),
])
def test_mixtures_and_samples_that_are_cut(run, question):
    "Narrow bounds that are proved, and refused where they are moved."
    made = certify(run, **question)
    low, up = (Decimal(made.answer[side]) for side in ('lower', 'upper'))
    assert verify(made), verify(made)
    if 'TruncatedPoisson' in {step['mechanism'] for step in made.run}:   # a bound from above only
        lower = {'lower': str(up/2), 'upper': made.answer['upper']}
        assert low == 0 < up and not verify(altered(made, answer=lower))
    else:
        assert low < up < low*(1 + Decimal('1e-8'))
    assert Certificate.from_json(made.to_json()).digest == made.digest
    for answer in ({'lower': made.answer['lower'], 'upper': moved(made.answer['upper'], -1)},
                   {'lower': moved(made.answer['lower'], 1), 'upper': made.answer['upper']}):
        assert not verify(altered(made, answer=answer))

@pytest.mark.parametrize('run, change', [
    (100*group(step(2., .01), 2), {'probabilities': (.98, .0198, .0002)}),
    (100*group(step(2., .01), 2), {'sensitivities': (0., 1., 2.001)}),
    (1000*cut(), {'dataset_size': 10_020}),
    (1000*cut(), {'max_batch_size': 140}),
    (1000*cut(), {'rate': .0101}),
])
def test_the_certificate_of_another_run(run, change):
    assert not verify(with_step(certify(run, delta=1e-6), **change))

@pytest.mark.parametrize('run', [
    ZCDP(rho=.1), ExponentialMechanism(eps=1.), DiscreteGaussian(sigma=2.),
    selected(step(2., .01))], ids=str)
def test_what_is_not_certified_says_what_serves(run):
    with pytest.raises(ValueError, match='to be verified.*: its bounds are proved in doubles, by '
                                         'epsilon, delta and report'):
        certify(run, delta=1e-6)

def sampled_laplace(scale, rate, steps):
    return steps*PoissonSubsampled(Laplace(scale=scale), rate=rate)

@pytest.mark.parametrize('run, question', [
    pytest.param(sampled_laplace(1., .05, 60), {'delta': 1e-6}, marks=pytest.mark.slow),
    (sampled_laplace(1., .05, 1000), {'delta': 1e-6}),
    (sampled_laplace(1., .01, 5000), {'delta': 1e-6}),
    pytest.param(sampled_laplace(5., .001, 100_000), {'eps': .2}, marks=pytest.mark.slow),
    pytest.param(sampled_laplace(2., .3, 100), {'delta': 1e-9}, marks=pytest.mark.slow),
    pytest.param(sampled_laplace(.2, .02, 200), {'delta': 1e-6}, marks=pytest.mark.slow),
    (sampled_laplace(1., .05, 60) + sampled_laplace(2., .1, 30), {'delta': 1e-6}),
    pytest.param(sampled_laplace(5., .01, 2000) + 100*RandomizedResponse(eps=.1), {'eps': .5},
                 marks=pytest.mark.slow),
    (sampled_laplace(1., .05, 100) + sgd(1., .01, 1000), {'eps': .5}),
], ids=str)
def test_sampled_laplace(run, question):
    "Bounds that are proved, narrow, and refused where they are moved by their own width."
    made = certify(run, **question)
    low, up = (Decimal(made.answer[side]) for side in ('lower', 'upper'))
    assert verify(made), verify(made)
    assert low < up < low*(1 + Decimal('1e-5'))
    for moved_by in (low - up, up - low):
        false = {'lower': str(low + moved_by), 'upper': str(up + moved_by)}
        assert not verify(altered(made, answer=false))

@pytest.mark.parametrize('i', [*(pytest.param(i, marks=pytest.mark.slow) for i in (49, 272)), 135])
def test_long_lines_take_seconds(i):
    "Tilts in the thousands, between two maxima of the integrand; or half a million nodes."
    made = certify(run_of(RANDOM[i]['steps']), eps=RANDOM[i]['eps'])
    start = time.process_time()
    assert verify(made)
    assert time.process_time() - start < 10

def test_long_verifications_are_announced():
    with pytest.warns(UserWarning, match=r'verify will take about \d\d seconds'):
        certify(sampled_laplace(.025, .1, 2), delta=1e-5)
    with pytest.warns(UserWarning, match='verify will refuse this certificate'):
        made = certify(sampled_laplace(.001, .1, 3), delta=1e-5)
    verdict = verify(made)
    assert not verdict and 'at least 1/50 of the sensitivity' in str(verdict)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter('always')
        certify(sampled_laplace(.5, .1, 20), delta=1e-6)
        certify(sampled_laplace(.001, .1, 1), delta=1e-5)       # without a line
    assert not [w for w in said if 'verify' in str(w.message)]

@pytest.mark.parametrize('run, eps', [
    (3*Gaussian(sigma=3.58), 2813.5), (Gaussian(sigma=1.), 2500.), (Gaussian(sigma=1.), 1e5),
    (Gaussian(sigma=1.), 1e30), (Gaussian(sigma=1.) + RandomizedResponse(eps=1.), 1e5),
    (sgd(1., .1, 100), 1e9)], ids=str)
def test_a_delta_below_all_decimals_is_not_0(run, eps):
    "A Gaussian loss has no largest: each delta is above 0."
    made = certify(run, eps=eps)
    low, up = (Decimal(made.answer[side]) for side in ('lower', 'upper'))
    assert low == 0 < up <= Decimal('1e-999999') and verify(made)

def test_an_eps_whose_exponentials_overflow_is_refused():
    with pytest.raises(ValueError, match=r'eps must be in \[0, 1e\+30\], got 1e\+31'):
        certify(Gaussian(sigma=1.), eps=1e31)

def test_beyond_the_largest_losses_delta_is_0():
    made = certify(5*Laplace(scale=1.), eps=20.)
    assert made.answer == {'lower': '0', 'upper': '0'} and verify(made)

@pytest.mark.parametrize('eps', [100., 2000.])
def test_an_epoch_of_bins_leaves_the_lower_bounds_of_other_steps(eps):
    "Of one epoch alone the verifier knows nothing, which takes nothing from the others' curves."
    run = 2*BallsInBins(base=Gaussian(sigma=1.38), batches=2) + Gaussian(sigma=1.)
    made = certify(run, eps=eps)
    with mp.workdps(40):
        below, above = (mp.erfc((eps + side)/mp.sqrt(2))/2 for side in (-.5, .5))
        alone = below - mp.exp(eps)*above
        assert alone*(1 - mp.mpf('1e-4')) < mp.mpf(made.answer['lower']) <= alone
    assert verify(made)

def test_no_line_is_written_that_is_not_read(monkeypatch):
    monkeypatch.setattr('dp_saddle.certificates.files._MOST_NODES', 8)
    made = certify(sgd(2., .01, 1000), eps=1.)
    assert Certificate.from_json(made.to_json()) == made and verify(made)
    plans = [plan for side in made.proof.values() for plan in side.values()]
    assert all(plan['by'] != 'line' for plan in plans)

@pytest.mark.slow
def test_no_line_of_a_million_nodes_is_written():
    "Seven losses, next to their largest sum: a line of 1.25 million nodes is found."
    made = certify(7*Laplace(scale=.815), delta=1.2130837973027611e-168)
    assert Certificate.from_json(made.to_json()) == made and verify(made)
    low, up = (Decimal(made.answer[side]) for side in ('lower', 'upper'))
    assert up - Decimal('2e-12') < low < 7/Decimal(.815) < up

def test_the_chance_that_all_losses_are_largest_is_a_lower_bound():
    "Of seven steps of Laplace noise, each largest with a chance of 1/2."
    steps = [{'mechanism': 'Laplace', 'scale': .815, 'count': 7}]
    low, _ = verification.Verifier(steps).bounds('remove', arb(8.5), {'by': 'single steps'})
    known = -np.expm1(8.5 - 7/.815)/2**7
    assert known*(1 - 1e-12) < low < known*(1 + 1e-12)

def test_bins_of_much_noise_are_enclosed():
    "Errors of the noise, which is known to so many bits, grow by hundreds of nats on a ray."
    sigma, bins = 17.8, 20
    with ctx.workprec(MOST_BITS):
        (at_0, far), whole = bin_values(1/arb(sigma), bins, arb(-5), arb(395.7), 2)
        assert max(v.real.rad() for v in (at_0, far)) < 1e-20
        assert abs(far) < abs(at_0) < whole + 1e-20
    variance = np.expm1(sigma**-2)/bins
    assert abs(at_0 - (1 + 15*variance)) < 1e-5      # E S^-5, the fourth central moment left out

def test_files(tmp_path):
    made = certify(sgd(2., .01, 1000), eps=1.)
    made.save(tmp_path/'a.cert.json')
    assert load_certificate(tmp_path/'a.cert.json') == made
    assert Certificate.from_json(made.to_json()).digest == made.digest
    with pytest.raises(ValueError, match=r'b\.json: certificate must be JSON'):
        (tmp_path/'b.json').write_text('eps')
        load_certificate(tmp_path/'b.json')

@pytest.mark.parametrize('break_it, message', [
    (lambda d: d.pop('proof'), 'must have the keys'),
    (lambda d: d.update(form='mine'), 'must have the form'),
    (lambda d: d.update(question={'eps': -1}), 'one question'),
    (lambda d: d.update(question={'eps': 1, 'delta': .1}), 'one question'),
    (lambda d: d['answer'].update(upper='much'), 'two numbers'),
    (lambda d: d['answer'].update(upper='NaN'), 'two numbers'),
    (lambda d: d['answer'].update(upper=1.), 'two numbers'),
    (lambda d: d['proof']['upper'].update(sideways={'by': 'nothing'}), "directions 'remove'"),
    (lambda d: d['proof']['upper']['remove'].update(by='magic'), 'plans by one of'),
    (lambda d: d['proof']['upper']['remove'].update(nodes=1e9), "a number as 'nodes'"),
    (lambda d: d['proof']['upper']['remove'].update(nodes=10**9), "nodes"),
    (lambda d: d['proof']['upper']['remove'].update(nodes=1 << 22), "a number as 'nodes'"),
    (lambda d: d['proof']['upper']['remove'].pop('far tilt'), "plans of"),
    (lambda d: d['proof']['upper']['remove'].update(tilt='1'), "a number as 'tilt'"),
    (lambda d: d['run'][0].update(sigma=-1.), 'step 0: sigma'),
    (lambda d: d['run'].clear(), 'a run of at least one step'),
    (lambda d: d['run'][0].update(mechanism='Mine'), 'mechanism of step 0'),
])
def test_what_is_not_in_form(break_it, message):
    data = json.loads(certify(sgd(2., .01, 1000), eps=1.).to_json())
    break_it(data)
    with pytest.raises(ValueError, match=message):
        Certificate.from_json(json.dumps(data))

def test_user_mistakes():
    run = sgd(2., .01, 1000)
    for question in ({}, {'eps': 1., 'delta': .1}):
        with pytest.raises(ValueError, match='either eps or delta'):
            certify(run, **question)
    for question in ({'eps': -1.}, {'eps': np.nan}, {'delta': 0.}, {'delta': 1.}):
        with pytest.raises(ValueError, match='eps|delta'):
            certify(run, **question)
    with pytest.raises(TypeError, match='run must be'):
        certify('run', eps=1.)
    with pytest.raises(TypeError, match='certificate must be'):
        verify('a file')

def bins(sigma, batches, epochs=1):
    return epochs*BallsInBins(Gaussian(sigma=sigma), batches=batches)

@pytest.mark.parametrize('sigma, batches, epochs, delta', [
    (1., 2, 1, 1e-6), (1., 10, 1, 1e-6),
    pytest.param(2., 10, 3, 1e-6, marks=pytest.mark.slow),
    pytest.param(.5, 100, 1, 1e-6, marks=pytest.mark.slow),
    pytest.param(1., 1000, 1, 1e-5, marks=pytest.mark.slow),
    pytest.param(1., 1000, 10, 1e-5, marks=pytest.mark.slow),
    pytest.param(.35, 1000, 1, 1e-6, marks=pytest.mark.slow),
    pytest.param(2., 1000, 1, 1e-6, marks=[pytest.mark.slow, pytest.mark.xfail(
        raises=checks.TooDear, strict=True, reason='sums of 1647 bits at 15,053 places')])])
def test_epochs_of_bins(sigma, batches, epochs, delta):
    made = certify(bins(sigma, batches, epochs), delta=delta)
    verdict = verify(made, seconds=300)
    assert verdict, verdict
    low, up = (float(made.answer[k]) for k in ('lower', 'upper'))
    ours = ContourAccountant(bins(sigma, batches, epochs)).epsilon(delta)
    assert low <= ours.upper and ours.lower <= up and up - low < 1e-8

def test_a_false_certificate_of_bins_is_refused():
    made = certify(bins(1., 4), delta=1e-6)
    for side, factor in (('upper', '.999999999'), ('lower', '1.000000001')):
        moved = str(Decimal(made.answer[side])*Decimal(factor))
        false = dataclasses.replace(made, answer={**made.answer, side: moved})
        assert not verify(false)
    louder = dataclasses.replace(made, run=[{**made.run[0], 'sigma': .99}])
    assert not verify(louder)

def test_bins_with_other_steps():
    run = bins(1., 3) + sgd(2., .1, 10)
    assert verify(certify(run, eps=1.))

def test_bins_that_are_gaussians():
    run = BallsInBins(Gaussian(sigma=1.), batches=1)
    assert verify(certify(run, delta=1e-6))
    assert verify(certify(BallsInBins(Gaussian(sigma=2.), batches=3, draws=3), delta=1e-6))

@pytest.mark.parametrize('batches, draws', [
    (3, 2), *(pytest.param(*of, marks=pytest.mark.slow) for of in ((4, 3), (9, 2)))])
def test_several_draws_are_certified_from_above(batches, draws):
    "Their steps are a bound: a claim from below is refused, whatever its plan."
    run = BallsInBins(Gaussian(sigma=2.), batches=batches, draws=draws)
    made = certify(run, delta=1e-6)
    assert verify(made) and made.answer['lower'] == '0'
    assert {step['mechanism'] for step in made.run} == {'BinDraw'}
    up = float(made.answer['upper'])
    assert abs(up - ContourAccountant(run.remove).epsilon(1e-6).upper) < 1e-8
    low = {'remove': made.proof['upper']['remove']}
    below = dataclasses.replace(made, answer={**made.answer, 'lower': f'{up/2}'},
                                proof={**made.proof, 'lower': low})
    assert not verify(below)
    false = dataclasses.replace(made, answer={**made.answer, 'upper': f'{up*.999999}'})
    assert not verify(false)

def test_a_shuffled_run_is_certified_from_above():
    "Its steps are what no amplification leaves: they say nothing of it from below."
    run = dpsgd(sigma=1., batch_size=10, dataset_size=1000, epochs=2, sampling='shuffle')
    made = certify(run, delta=1e-5)
    assert verify(made) and made.answer['lower'] == '0'
    assert run.at_least(1e-5) < float(made.answer['upper'])

# What is too dear, and what is not understood

def lined(run, **numbers):
    "A certificate of a run by a line of these numbers."
    plan = {'by': 'line', 'tilt': 5., 'period': 10., 'nodes': 50, 'smoothing': 0., 'far tilt': 10.}
    plans = dict.fromkeys(('remove', 'add'), plan | numbers)
    return Certificate(run, {'eps': 1.}, {'lower': '0', 'upper': '1e-5'},
                       {'upper': plans, 'lower': {}})

KIND = {'mechanism': 'Gaussian', 'rate': .01, 'count': 1}
IN_BINS = {'mechanism': 'BallsInBins', 'sigma': 1., 'batches': 20, 'count': 1}
DEAR = [lined([KIND | {'sigma': 2. + i/1e4} for i in range(3000)], nodes=5),
        lined([KIND | {'sigma': 2. + i/9} for i in range(9)], nodes=2**20 - 1),
        lined([IN_BINS], tilt=3000., nodes=5),
        lined([IN_BINS | {'batches': 20 + i} for i in range(100)], nodes=5),
        lined([{'mechanism': 'Discrete', 'p': [.001]*1000, 'q': [.001]*1000}], nodes=2**15)]

@pytest.mark.parametrize('dear', DEAR)
def test_what_is_too_dear_is_refused_before_it_is_begun(dear, monkeypatch):
    def computed(*_): raise AssertionError('something was computed')
    monkeypatch.setattr(verification, 'check', computed)
    with pytest.raises(checks.TooDear, match='seconds must be at least about .*, got 60'):
        verify(dear)
    with pytest.raises(AssertionError, match='something'): verify(dear, seconds=1e9)

@pytest.mark.parametrize('plan', [{'by': 'moments', 'tilt': 1e300}, {'by': 'moments', 'tilt': 2e3}])
def test_moments_in_bins_have_an_end(plan):
    plans = {'upper': {'remove': plan, 'add': plan}, 'lower': {}}
    with pytest.raises(checks.TooDear, match='tilt must be at most'):
        verify(replace(lined([IN_BINS]), proof=plans))

def test_a_loud_ray_and_an_endless_quadrature_are_not_begun():
    with pytest.raises(checks.TooDear, match='tilt must be smaller in bins'):
        verify(lined([IN_BINS], tilt=150., nodes=5), seconds=1e9)
    fast = {'mechanism': 'Laplace', 'scale': 1., 'rate': .5, 'count': 3}
    with pytest.raises(checks.TooDear, match=r'a quadrature takes \d+ panels'):
        verify(lined([fast], nodes=9999, period=1e-9))
    many = {'mechanism': 'MixtureOfGaussians', 'sigma': 1., 'count': 1,
            'sensitivities': [i/7 for i in range(1, 300)], 'probabilities': [1/299]*299}
    with pytest.raises(checks.TooDear, match='a quadrature at tilt 5 takes'): verify(lined([many]))

@pytest.mark.parametrize('wrong, status', [(DEAR[1], 3), (lined([KIND | {'sigma': 2.}]), 1)])
def test_exit_statuses_tell_false_from_dear(tmp_path, capsys, wrong, status):
    wrong = replace(wrong, answer={'lower': '0', 'upper': '1e-50'})
    wrong.save(tmp_path/'a.json')
    try:
        found = cli.main(['verify', str(tmp_path/'a.json')])
    except SystemExit as stop:
        found = stop.code
        assert capsys.readouterr().err.count('\n') == 1
    assert found == status

@pytest.mark.parametrize('text, why', [
    ('['*10**5, '32 deep'), ('{"a":'*10**5, '32 deep'), ('[1e999]', 'doubles'),
    ('[NaN]', 'finite'), ('[-Infinity]', 'finite'), ('9'*10**5, 'doubles'),
    ('{"a": 1, "a": 2}', "'a' is given twice"), ('[000]', 'JSON'), ('[1e-999]', 'doubles')])
def test_what_is_not_understood_is_status_2(tmp_path, capsys, text, why):
    (tmp_path/'a.json').write_text(text)
    for words in (['verify', 'a.json'], ['epsilon', '--run', 'a.json', '--delta', '.1'],
                  ['budget', 'show', 'a.json']):
        words = [str(tmp_path/word) if word == 'a.json' else word for word in words]
        with pytest.raises(SystemExit) as stop: cli.main(words)
        said = capsys.readouterr().err
        assert stop.value.code == 2 and said.count('\n') == 1 and len(said) < 400
        assert why in said or words[0] == 'budget'
    with pytest.raises(ValueError, match=why): Certificate.from_json(text)

@pytest.mark.parametrize('key', ['sigma', 'upper', 'delta', 'by', 'form'])
def test_a_key_that_is_given_twice(key):
    "Readers differ in which they take: nothing is proved."
    text = certify(sgd(2., .01, 10), delta=1e-5).to_json()
    twice = text.replace(f'"{key}": ', f'"{key}": "1", "{key}": ', 1)
    assert twice != text
    with pytest.raises(ValueError, match=f"key '{key}' is given twice"):
        Certificate.from_json(twice)

def test_an_endless_file(tmp_path, capsys):
    if not Path('/dev/zero').exists(): pytest.skip('no endless file here')
    for words in (['verify', '/dev/zero'], ['epsilon', '--run', 'x.json', '--delta', '.1'],
                  ['budget', 'show', 'x.json'], ['epsilon', '--run', 'x.yaml', '--delta', '.1']):
        for name in ('x.json', 'x.yaml'):
            if not (tmp_path/name).exists(): (tmp_path/name).symlink_to('/dev/zero')
        words = [str(tmp_path/word) if word.startswith('x.') else word for word in words]
        with pytest.raises(SystemExit) as stop: cli.main(words)
        assert stop.value.code == 2 and len(capsys.readouterr().err) < 400
    for name in ('x.json', 'x.npz'):
        if name == 'x.npz': (tmp_path/name).symlink_to('/dev/zero')
        with pytest.raises(ValueError, match='at most .* bytes'):
            Budget(eps=1., delta=.1).load(tmp_path/name)

def test_a_small_file_that_unpacks_to_a_large_one(tmp_path):
    np.savez_compressed(tmp_path/'a.npz', kind='Budget', eps=1., delta=.1, history=np.zeros(10**7))
    with pytest.raises(ValueError, match='must unpack to at most'):
        Budget(eps=1., delta=.1).load(tmp_path/'a.npz')

@pytest.mark.parametrize('text', [
    'count: 010', 'sigma: 1:30', 'rate: 0x1', 'count: 0b11', 'count: 1_000', 'sigma: .inf',
    'sigma: .nan', 'sigma: yes', 'sigma: 2001-01-01', 'sigma: !!float 1', 'sigma: &a 2',
    'sigma: ='])
def test_numbers_of_yaml_that_can_be_read_in_two_ways(tmp_path, text):
    pytest.importorskip('yaml')
    path = tmp_path/'run.yaml'
    more = {'sigma': 2, 'rate': .5, 'count': 3, text.partition(':')[0]: text.partition(': ')[2]}
    path.write_text('\n'.join(['- mechanism: Gaussian', *(f'  {k}: {v}' for k, v in more.items())]))
    with pytest.raises(ValueError, match='YAML|sigma must be'): read_run(path)

@pytest.mark.parametrize('text, value', [('2', 2.), ('2.5', 2.5), ('.5', .5), ('2.', 2.),
                                         ('+3', 3.), ('1e1', 10.), ('1.5e-1', .15), ('"2"', 2.),
                                         ('5/2', 2.5)])
def test_numbers_of_yaml_that_have_one_reading(tmp_path, text, value):
    pytest.importorskip('yaml')
    path = tmp_path/'run.yaml'
    path.write_text(f'- mechanism: Gaussian\n  sigma: {text}\n')
    assert read_run(path) == Composition(((Gaussian(sigma=value), 1),))

# delta = 0

def sampled(base, rate): return PoissonSubsampled(base, rate=rate)

PURE = {
    'guarantees': (3*PureDP(eps=.5), 1.5),
    'Laplace noise, and a guarantee': (2*Laplace(scale=4., sensitivity=2.) + PureDP(eps=.25), 1.25),
    'a sample': (5*sampled(Laplace(scale=2.), .1), 5*np.log1p(.1*np.expm1(.5))),
    'integers': (4*DiscreteLaplace(scale=8., sensitivity=3), 1.5),
    'a table that is lopsided': (2*Discrete(p=(.25, .75), q=(.5, .5)), 2*np.log(2)),
    'many': (10**5*RandomizedResponse(eps=.1), 1e4),
    'bounded range': (3*BoundedRange(eps=1., shift=.25), 2.25),
    'nothing': (0*Gaussian(sigma=1.), 0.)}

@pytest.mark.parametrize('run, eps', PURE.values(), ids=PURE)
def test_pure_runs(run, eps):
    "At delta = 0: the sum of the largest losses, proved from both sides to 12 digits."
    made = certify(run, delta=0)
    low, up = (float(made.answer[side]) for side in ('lower', 'upper'))
    assert low <= eps*(1 + 1e-15) and eps*(1 - 1e-15) <= up <= low*(1 + 1e-11) and verify(made)
    if eps:
        assert not verify(replace(made, answer={**made.answer, 'upper': repr(low)}))
        assert not verify(replace(made, answer={**made.answer, 'lower': repr(up)}))

@pytest.mark.parametrize('run', [
    Gaussian(sigma=1.), PureDP(eps=1.) + sgd(2., .1, 3), ApproxDP(eps=1., delta=1e-9),
    TruncatedPoisson(sigma=1., rate=.1, dataset_size=100, max_batch_size=20)])
def test_a_run_without_a_largest_loss(run):
    with pytest.raises(ValueError, match='^delta must be > 0 for this run, got 0: its losses have'):
        certify(run, delta=0)
    made = certify(PureDP(eps=1.), delta=0)
    steps = certify(run, eps=1.).run
    assert not verify(replace(made, run=steps)), 'the same claim of another run'

def test_pure_runs_from_a_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path('pure.json').write_bytes(b'[{"mechanism": "Laplace", "scale": 4, "count": 3}]')
    assert cli.main('certify --run pure.json --delta 0 --out pure.cert.json'.split()) == 0
    assert cli.main('verify pure.cert.json'.split()) == 0
    assert '<= 0.75000' in capsys.readouterr().out
