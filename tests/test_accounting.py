"Chapter 06: the pains of users, each answered; calibration, risk, ledger, files, report, commands."
import json, os, subprocess, sys
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import ndtr, ndtri
import dp_saddle
from dp_saddle import (ApproxDP, Budget, Composition, ContourAccountant, Discrete, EdgeworthInterval, Gaussian, GaussianLimit, Laplace, MomentsAccountant, PoissonSubsampled, PRVAccountant,
                       PureDP, RandomizedResponse, SaddlePointCLT, TiltedFFT, advantage, bayes_risk, calibrate, compare, delta, dpsgd, epsilon, epsilon_after, gdp, plot_curve, plot_steps,
                       plot_tradeoff, report, tpr, tradeoff, without_replacement)
from dp_saddle.accounting import from_steps, main, read_run, to_steps
from dp_saddle.plrv import gaussian_log_delta

pytestmark = pytest.mark.filterwarnings('error', 'ignore:max_nodes')
S = lambda sigma, rate: PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

# What users of other libraries report

def test_small_noise(): assert 4916 < epsilon(100*S(.05, .1), delta=1e-5) < 4917
def test_tiny_deltas():
    eps = epsilon(3000*S(2., .01), delta=np.array([1e-14, 1e-100]))
    assert eps == pytest.approx([2.232674272, 8.088407653], abs=1e-8) and delta(3000*S(2., .01), eps=eps) == pytest.approx([1e-14, 1e-100], rel=1e-6)
def test_eps_is_never_negative(): assert epsilon(Gaussian(sigma=1e6), delta=.1) == 0 == epsilon(10*S(50., 1e-4), delta=.01)
def test_a_rate_of_1e_6_for_a_million_steps(): assert .005 < epsilon(10**6*S(1., 1e-6), delta=1e-8) <= .0055
def test_nothing_done_costs_nothing():
    assert epsilon(0*Gaussian(sigma=1.), delta=1e-5) == 0 == Budget(1., 1e-5).spent == advantage(0*Gaussian(sigma=1.))
    assert epsilon_after([], delta=1e-5).shape == (0,) and epsilon(dpsgd(sigma=1., batch_size=1, dataset_size=10, steps=0, sampling='poisson'), delta=1e-5) == 0
def test_ten_million_steps():
    e = epsilon(10**7*S(20., 1e-3), delta=1e-6)
    assert .5 < e < 1.5 and epsilon(np.int64(10**7)*S(20., 1e-3), delta=1e-6) == e
def test_a_hundred_distinct_noises():
    run = sum(10*S(s, .01) for s in np.linspace(1, 3, 100))
    assert epsilon(run, delta=1e-6) == pytest.approx(epsilon_after(run, delta=1e-6)[-1], rel=1e-3)

METHODS = dict(contour=ContourAccountant, clt=SaddlePointCLT, moments=MomentsAccountant, limit=GaussianLimit, prv=PRVAccountant, tilted=lambda m: TiltedFFT(m, mesh=1e-3), edgeworth=EdgeworthInterval)

@pytest.mark.parametrize('name', METHODS)
def test_delta_at_the_mass_at_infinity(name):
    "eps jumps there. Of one (eps, delta)-DP step that mass is what was typed; of several it is known to a rounding, and both sides of the jump are possible."
    for d in (.1, .3, 1e-5, 1e-6, 1e-300):
        a = METHODS[name](ApproxDP(eps=1., delta=d))
        for asked in (d, np.nextafter(d, 1), d*(1 + 1e-13)):
            bounds = a.epsilon(asked)
            assert bounds.lower <= 1 == bounds.upper == bounds.estimate
        assert a.epsilon(np.nextafter(d, 0)).upper == np.inf and a.epsilon(d*(1 - 1e-11)).upper == np.inf == a.epsilon(d*(1 - 1e-11)).estimate
    small, certain = METHODS[name](ApproxDP(eps=.5, delta=1e-5)).epsilon(1e-5), METHODS[name](ApproxDP(eps=.5, delta=1 - 1e-12)).epsilon(1 - 1e-12)
    assert small.lower <= .5 == small.upper == small.estimate and certain.lower <= .5 == certain.upper
    two = METHODS[name](2*ApproxDP(eps=1., delta=.1))
    for asked in (.19, 1 - .9**2, np.nextafter(.19, 1)): assert two.epsilon(asked).lower <= 2 and two.epsilon(asked)[1:] == (2, np.inf)
    assert two.epsilon(.19*(1 + 1e-11)).lower <= 2 and METHODS[name](Discrete(p=(.1, .9), q=(0., 1.))).epsilon(.1).lower == 0
    assert METHODS[name](10**4*ApproxDP(eps=1., delta=.9)).epsilon(1 - 1e-15)[1:] == (np.inf, np.inf)
    bounds = METHODS[name](10*Gaussian(sigma=5.) + ApproxDP(eps=0., delta=1e-6)).epsilon([1e-6*(1 - 1e-14), 1e-6, 1e-6*(1 + 1e-11)])
    assert bounds.lower[1] <= bounds.estimate[1] == np.inf and bounds.lower[2] <= 5.3729 <= bounds.upper[2]

@pytest.mark.parametrize('name', METHODS)
def test_the_smallest_delta(name):
    "5e-324, of losses that are next to constant: an answer, or an error that says what must be larger."
    for m in (RandomizedResponse(eps=855.), 2*RandomizedResponse(eps=5e4), S(807., 1e-240), PoissonSubsampled(base=Laplace(scale=11.), rate=1e-190), 1000*S(2., .01)):
        for d in (5e-324, 1e-310, 1e-300):
            try: bounds = METHODS[name](m).epsilon(d)
            except ValueError as error:
                assert 'must be' in str(error) and name in ('prv', 'tilted')
                continue
            truth = ContourAccountant(m).epsilon(d)
            assert bounds.lower <= bounds.estimate <= bounds.upper and bounds.lower <= truth.upper and truth.lower <= bounds.upper

def test_the_contour_is_sharp_at_the_mass_at_infinity():
    assert ContourAccountant(ApproxDP(eps=1., delta=1e-5)).epsilon(1e-5).lower > 1 - 1e-9 and epsilon(ApproxDP(eps=1., delta=1e-6), delta=1e-6) == 1
    assert not Budget(1., 1e-6).would_exceed(ApproxDP(eps=1., delta=1e-6)) and Budget(1., 1e-6).would_exceed(ApproxDP(eps=1., delta=1.1e-6))
    assert ContourAccountant(2*ApproxDP(eps=1., delta=.1)).epsilon(.19).lower > 2 - 1e-7
    assert ContourAccountant(2*ApproxDP(eps=1., delta=.1)).epsilon(.19*(1 + 3e-12)).upper == pytest.approx(2, abs=1e-12)
    assert ContourAccountant(10*Gaussian(sigma=5.) + ApproxDP(eps=0., delta=1e-6)).epsilon(1e-6).lower > 5.4

# The run

def test_dpsgd_derives_and_echoes():
    run = dpsgd(sigma=1.1, batch_size=256, dataset_size=60_000, epochs=60, sampling='poisson')
    assert (run.steps, run.rate) == (14063, 256/60_000) and '14063 steps' in str(run) and 'poisson' in str(run) and run.poisson is None
    assert epsilon(run, delta=1e-5) == epsilon(14063*S(1.1, 256/60_000), delta=1e-5)
    more = dpsgd(sigma=1.1, batch_size=64, accumulate=4, dataset_size=60_000, epochs=60, sampling='poisson')
    assert (more.steps, more.rate) == (run.steps, run.rate)
    assert dpsgd(sigma=1., batch_size=50, dataset_size=100, epochs=3, sampling='poisson').steps == 6

def test_shuffling_has_no_amplification():
    run = dpsgd(sigma=1.1, batch_size=256, dataset_size=60_000, epochs=2.5, sampling='shuffle')
    assert epsilon(run, delta=1e-5) == epsilon(3*Gaussian(sigma=1.1), delta=1e-5) > epsilon(run.poisson, delta=1e-5)
    assert 'no amplification' in str(run) and 'this is no guarantee' in report(run, delta=1e-5)
    assert epsilon(dpsgd(sigma=1.1, batch_size=256, dataset_size=60_000, steps=7, sampling='none'), delta=1e-5) == epsilon(7*Gaussian(sigma=1.1), delta=1e-5)

@pytest.mark.parametrize('sigma, rate, steps', [(1., .02, 1), (2., .02, 100), (4., .3, 20)])
def test_without_replacement_is_above_what_any_pair_shows(sigma, rate, steps):
    "Above the curve of one step, closely; above the known pair of [FA 6.2]; and below no amplification."
    batch = round(rate*1000)
    run = dpsgd(sigma=sigma, batch_size=batch, dataset_size=1000, steps=steps, sampling='without-replacement')
    one = dpsgd(sigma=sigma, batch_size=batch, dataset_size=1000, steps=1, sampling='without-replacement')
    e = np.linspace(0, 2, 21)
    curve = rate*np.exp(gaussian_log_delta(np.log1p(np.expm1(e)/rate), 2/sigma))
    assert (delta(one, eps=e) >= curve*(1 - 1e-12)).all() and delta(one, eps=e) == pytest.approx(curve, rel=.02, abs=1e-15)
    pair = PRVAccountant(without_replacement(sigma=sigma, rate=rate, steps=steps))
    for d in (1e-3, 1e-6): assert pair.epsilon(d).lower <= epsilon(run, delta=d) <= epsilon(steps*Gaussian(sigma=sigma, sensitivity=2.), delta=d)
    assert run.relation == 'replacing one record'

DPSGD = dict(sigma=1., batch_size=10, dataset_size=100, epochs=1, sampling='poisson')
@pytest.mark.parametrize('change, message', [(dict(sigma=0), 'sigma must'), (dict(batch_size=0), 'batch_size must'), (dict(batch_size=2.5), 'batch_size must'), (dict(batch_size=200), r'batch_size\*accumulate must be at most dataset_size = 100, got 200'), (dict(accumulate=11), 'got 110'),
    (dict(epochs=None), 'either epochs or steps'), (dict(steps=3), 'either epochs or steps'), (dict(epochs=-1), 'epochs must'), (dict(epochs=None, steps=-1), 'steps must'), (dict(epochs=None, steps=1.5), 'steps must'), (dict(sampling='Poison'), 'sampling must'), (dict(sampling=None), 'sampling must')])
def test_dpsgd_refuses(change, message):
    with pytest.raises((ValueError, TypeError), match=message): dpsgd(**(DPSGD | change))

def test_sampling_has_no_default():
    with pytest.raises(TypeError, match='sampling'): dpsgd(sigma=1., batch_size=10, dataset_size=100, epochs=1)

# Calibration

@pytest.mark.parametrize('eps', [.01, .1, 1., 10., 100., 1000.])
@pytest.mark.parametrize('build', [lambda sigma: 1000*S(sigma, .01), lambda sigma: 10*Gaussian(sigma=sigma), lambda sigma: 200*S(sigma, .3) + 5*Laplace(scale=2000.)])
def test_the_smallest_noise(build, eps):
    "Private, and a millionth less is not: no 'budget too low', no 1280 for 80."
    sigma = calibrate(build, eps=eps, delta=1e-5)
    assert epsilon(build(sigma), delta=1e-5) <= eps < epsilon(build(sigma*(1 - 1e-6)), delta=1e-5)

def test_closed_form_of_calibration():
    sigma = calibrate(lambda sigma: Gaussian(sigma=sigma), mu=.5)
    assert sigma == pytest.approx(2., rel=1e-3) and sigma >= 2
    assert calibrate(lambda sigma: Gaussian(sigma=sigma), advantage=2*ndtr(.25) - 1) == pytest.approx(2., rel=2e-6)

@pytest.mark.parametrize('eps', [.3, 2., 20.])
def test_whole_numbers_exactly(eps):
    build = lambda steps: steps*S(1., .01)
    n = calibrate(build, eps=eps, delta=1e-5, parameter='steps')
    assert isinstance(n, int) and epsilon(build(n), delta=1e-5) <= eps < epsilon(build(n + 1), delta=1e-5)

def test_rates_scales_epochs_and_limits():
    q = calibrate(lambda rate: 1000*S(1., rate), eps=2., delta=1e-5, parameter='rate')
    assert epsilon(1000*S(1., q), delta=1e-5) <= 2 < epsilon(1000*S(1., q*(1 + 1e-6)), delta=1e-5)
    assert calibrate(lambda rate: S(50., rate), eps=2., delta=1e-5, parameter='rate') == 1
    assert calibrate(lambda steps: steps*Gaussian(sigma=.1), eps=2., delta=1e-5, parameter='steps') == 0
    b = calibrate(lambda scale: 10*Laplace(scale=scale), eps=1., delta=1e-6, parameter='scale')
    assert epsilon(10*Laplace(scale=b), delta=1e-6) <= 1 < epsilon(10*Laplace(scale=b*(1 - 1e-6)), delta=1e-6)
    n = calibrate(lambda epochs: dpsgd(sigma=1., batch_size=100, dataset_size=10_000, epochs=epochs, sampling='poisson'), eps=3., delta=1e-5, parameter='epochs')
    run = lambda epochs: dpsgd(sigma=1., batch_size=100, dataset_size=10_000, epochs=epochs, sampling='poisson')
    assert epsilon(run(n), delta=1e-5) <= 3 < epsilon(run(n + 1), delta=1e-5)

@pytest.mark.parametrize('call, message', [
    (lambda b: calibrate(b, delta=1e-5), 'one of eps, mu and advantage'), (lambda b: calibrate(b, eps=1., mu=1., delta=1e-5), 'one of eps, mu and advantage'), (lambda b: calibrate(b, eps=1.), 'delta must'), (lambda b: calibrate(b, eps=0., delta=1e-5), 'eps must'),
    (lambda b: calibrate(b, eps=-1., delta=1e-5), 'eps must'), (lambda b: calibrate(b, eps=np.nan, delta=1e-5), 'eps must'), (lambda b: calibrate(b, eps=1., delta=0.), 'delta must'), (lambda b: calibrate(b, advantage=1.5), 'advantage must'), (lambda b: calibrate(b, mu=0.), 'mu must'),
    (lambda b: calibrate(lambda sigma: b(sigma) + ApproxDP(eps=0., delta=.1), eps=1., delta=1e-5), 'sigma cannot be found')])
def test_bad_targets(call, message):
    with pytest.raises((ValueError, TypeError), match=message): call(lambda sigma: Gaussian(sigma=sigma))

# Risk

@pytest.mark.parametrize('mu', [.1, 1., 6.])
def test_trade_off_of_gaussians_in_closed_form(mu):
    alpha, run = np.array([0., 1e-9, 1e-3, .05, .3, .5, .9, 1 - 1e-9, 1.]), Gaussian(sigma=1/mu)
    exact = np.where(alpha == 0, 1, np.where(alpha == 1, 0, ndtr(-ndtri(np.clip(alpha, 1e-300, 1 - 1e-16)) - mu)))
    ours = tradeoff(run, fpr=alpha)
    assert (ours <= exact + 1e-12).all() and ours == pytest.approx(exact, abs=1e-10) and tpr(run, fpr=alpha) == pytest.approx(1 - exact, abs=1e-10)
    assert advantage(run) == pytest.approx(2*ndtr(mu/2) - 1, rel=1e-10) and bayes_risk(run) == pytest.approx(ndtr(-mu/2), rel=1e-9)

@pytest.mark.parametrize('run', [1000*S(2., .01), Laplace(scale=1.) + S(2., .1), 20*RandomizedResponse(eps=.3), 3*Discrete(p=(.5, .3, .2), q=(.2, .3, .5))])
def test_curves_are_conjugates(run):
    "delta(eps) = max over alpha of 1 - f(alpha) - e^eps alpha, to 1e-10; and f from delta is never above any of its lines."
    alpha = np.linspace(0, 1, 301)**4
    f = tradeoff(run, fpr=alpha)
    assert (np.diff(f) <= 1e-12).all() and f[-1] == 0 and f[0] == pytest.approx(1 - delta(run, eps=600.), abs=1e-10)
    for e in (0., .1, .7, 2.):
        near, gain = alpha, 1 - f - np.exp(e)*alpha
        for _ in range(10):
            i = np.clip(gain.argmax(), 1, len(near) - 2)
            near = np.linspace(near[i-1], near[i+1], 21)
            gain = 1 - tradeoff(run, fpr=near) - np.exp(e)*near
        assert abs(gain.max() - delta(run, eps=e)) < 1e-10
    assert advantage(run) == delta(run, eps=0.) and (1 - alpha - f).max() == pytest.approx(advantage(run), abs=1e-3)

def test_bayes_risk_is_that_of_the_best_test():
    run, alpha = 100*S(1., .05), np.linspace(0, 1, 20001)**3
    f = tradeoff(run, fpr=alpha)
    for p in (.01, .3, .5, .8): assert bayes_risk(run, prior=p) == pytest.approx(min((p*f + (1 - p)*alpha).min(), (p*alpha + (1 - p)*f).min()), abs=1e-6)

def test_mu_and_its_regret():
    run = 1000*S(2., .01)
    g = gdp(run, delta=1e-8)
    e = np.linspace(0, epsilon(run, delta=1e-8), 50)
    assert (np.exp(gaussian_log_delta(e, g.mu)) >= delta(run, eps=e)*(1 - 1e-9)).all() and 0 < g.regret < .05
    assert (np.exp(gaussian_log_delta(e, .999*g.mu)) < delta(run, eps=e)).any()
    alpha, f = np.linspace(0, 1, 501), tradeoff(run, fpr=np.linspace(0, 1, 501))
    shifted = np.interp(alpha + g.regret, alpha, f, right=0.) - g.regret             # the Levy distance: f moved by the regret is below f_mu
    assert (shifted <= ndtr(-ndtri(np.clip(alpha, 1e-300, 1 - 1e-16)) - g.mu) + 1e-6).all()
    assert gdp(run, delta=1e-30).mu > g.mu and gdp(0*Gaussian(sigma=1.)).mu == 0

@pytest.mark.parametrize('call, message', [(lambda: tradeoff(Gaussian(sigma=1.), fpr=1.1), 'fpr must'), (lambda: tradeoff(Gaussian(sigma=1.), fpr=np.nan), 'fpr must'), (lambda: bayes_risk(Gaussian(sigma=1.), prior=0.), 'prior must'), (lambda: gdp(Gaussian(sigma=1.), delta=1.), 'delta must'),
    (lambda: epsilon('run', delta=1e-5), 'mechanism must'), (lambda: delta(Gaussian(sigma=1.), eps=-1.), 'eps must'), (lambda: epsilon(Gaussian(sigma=1.), delta=2.), 'delta must'), (lambda: compare(Gaussian(sigma=1.)), 'either delta or eps'), (lambda: compare(Gaussian(sigma=1.), delta=2.), 'delta must'),
    (lambda: epsilon_after([3], delta=1e-5), 'schedule must'), (lambda: epsilon_after([(Gaussian(sigma=1.), -1)], delta=1e-5), 'count must'), (lambda: epsilon_after([ApproxDP(eps=1., delta=.1)], delta=1e-5), 'finite loss')])
def test_bad_questions(call, message):
    with pytest.raises((ValueError, TypeError), match=message): call()

# All steps, all accountants

@settings(max_examples=5)
@given(st.lists(st.tuples(st.sampled_from([S(1., .01), S(2., .05), Gaussian(sigma=9.), Laplace(scale=30.), RandomizedResponse(eps=.01)]), st.integers(1, 30)), min_size=1, max_size=5), st.sampled_from([1e-3, 1e-8]))
def test_every_prefix_is_bounded(schedule, delta):
    eps, steps = epsilon_after(schedule, delta=delta), [m for m, n in schedule for _ in range(n)]
    assert len(eps) == len(steps) and (np.diff(eps) >= 0).all()
    for n in (1, len(steps)//2 or 1, len(steps)):
        exact = ContourAccountant(sum(steps[:n], 0*steps[0])).epsilon(delta)
        assert exact.lower <= eps[n-1]*(1 + 1e-9) + 1e-9
    assert eps[-1] <= exact.upper*1.05 + .02

def test_compare_lists_every_accountant():
    table = compare(1000*S(2., .01), delta=1e-5)
    assert len(table) >= 11 and table[0]['accountant'] == 'ContourAccountant' and '<table>' in table._repr_html_() and 'MomentsAccountant' in str(table) and '\n' in repr(table)
    exact = ContourAccountant(1000*S(2., .01)).epsilon(1e-5)
    for row in table: assert float(row['lower'])*(1 - 1e-9) <= exact.upper and exact.lower <= float(row['upper'])*(1 + 1e-9)
    odd = compare(ApproxDP(eps=1., delta=.1), eps=.5)
    assert any('not for this run' in row['worth'] for row in odd) and odd[0]['upper']

# Ledger

def test_the_ledger_stops_at_the_budget():
    budget, step = Budget(eps=2., delta=1e-5), S(1., .01)
    budget.spend(Gaussian(sigma=10.)); budget.spend(step, 7); budget.spend(step)
    assert budget.history == ((Gaussian(sigma=10.), 1), (step, 8)) and budget.steps == 9
    while not budget.would_exceed(step): budget.spend(step)
    assert budget.spent <= 2 < epsilon(Gaussian(sigma=10.) + (budget.steps)*step, delta=1e-5) and budget.spent == epsilon(Gaussian(sigma=10.) + (budget.steps - 1)*step, delta=1e-5)
    before = budget.history
    with pytest.raises(ValueError, match='nothing was spent'): budget.spend(step)
    with pytest.raises(ValueError, match='nothing was spent'): budget.spend(Gaussian(sigma=.1))
    assert budget.history == before and not budget.would_exceed(S(1000., 1e-5))

@settings(max_examples=10)
@given(st.lists(st.tuples(st.sampled_from([S(1., .05), S(2., .05), Gaussian(sigma=20.)]), st.integers(1, 60)), min_size=1, max_size=12))
def test_the_ledger_knows_what_fits(asked):
    budget = Budget(eps=1., delta=1e-5)
    for step, n in asked:
        parts = budget.history + ((step, n),)
        assert budget.would_exceed(step, n) == (epsilon(Composition(parts), delta=1e-5) > 1)
        if not budget.would_exceed(step, n): budget.spend(step, n)

def test_the_ledger_survives(tmp_path):
    budget = Budget(1., 1e-5)
    budget.spend(S(1., .01), 5); budget.spend(Discrete(p=(.5, .5), q=(.49, .51)))
    for suffix in ('json', 'npz'):
        budget.save(tmp_path/f'b.{suffix}')
        again = Budget(1., 1e-5).load(tmp_path/f'b.{suffix}')
        assert again.history == budget.history and again.spent == budget.spent
    with pytest.raises(ValueError, match='delta is'): Budget(1., 1e-6).load(tmp_path/'b.json')
    (tmp_path/'b.json').write_text((tmp_path/'b.json').read_text()[:-9])
    mine = Budget(1., 1e-5); mine.spend(S(1., .01))
    with pytest.raises(ValueError, match='path must be'): mine.load(tmp_path/'b.json')
    assert mine.steps == 1
    for bad in (0, 1.5, -1): pytest.raises((ValueError, TypeError), mine.spend, S(1., .01), bad)
    with pytest.raises(TypeError, match='step must be'): mine.would_exceed(1.)
    for eps, delta in ((0, .1), (1, 0), (np.nan, .1), (1, 1)): pytest.raises(ValueError, Budget, eps, delta)

# Files, report, pictures

def test_runs_in_files(tmp_path):
    run = 3000*S(2., .01) + 10*Laplace(scale=20.) + ApproxDP(eps=.1, delta=1e-9) + Discrete(p=(.5, .5), q=(.4, .6)) + 2*dp_saddle.DiscreteGaussian(sigma=3.)
    (tmp_path/'run.json').write_text(json.dumps({'steps': to_steps(run)}))
    assert read_run(tmp_path/'run.json') == run
    yaml = pytest.importorskip('yaml')
    (tmp_path/'run.yaml').write_text(yaml.safe_dump({'steps': json.loads(json.dumps(to_steps(run)))}))
    assert read_run(tmp_path/'run.yaml') == run
    (tmp_path/'evil.yaml').write_text('steps: !!python/object/apply:os.system ["true"]')
    with pytest.raises(ValueError, match='evil.yaml'): read_run(tmp_path/'evil.yaml')

@pytest.mark.parametrize('text, message', [('{"steps": [{"mechanism": "Gausian", "sigma": 1}]}', "did you mean 'Gaussian'"), ('{"steps": [{"mechanism": "Gaussian", "sigma": 1, "rates": 0.1}]}', "did you mean 'rate'"), ('{"step": []}', "did you mean 'steps'"), ('{"steps": 3}', 'steps must be a list'),
    ('{"steps": [3]}', 'step 0 must be a mapping'), ('{"steps": [{"sigma": 1}]}', 'mechanism of step 0'), ('{"steps": [{"mechanism": "Gaussian"}]}', "step 0: .*sigma"), ('{"steps": [{"mechanism": "Gaussian", "sigma": -1}]}', 'step 0: sigma must'), ('{"steps": [{"mechanism": "Gaussian", "sigma": 1, "count": 1.5}]}', 'step 0: count must'),
    ('{"steps": [{"mechanism": "Gaussian", "sigma": 1, "rate": 2}]}', 'step 0: rate must'), ('[1]', 'mapping'), ('{', 'run.json'), ('{}', 'steps must be a list')])
def test_files_that_are_refused(tmp_path, text, message):
    (tmp_path/'run.json').write_text(text)
    with pytest.raises(ValueError, match=message): read_run(tmp_path/'run.json')

def test_report_says_all_that_a_guarantee_needs():
    run = dpsgd(sigma=9.4, batch_size=2**14, dataset_size=50_000, steps=2000, sampling='poisson')
    text = report(run, delta=1e-5, unit='image')
    for words in ('(7.425, 1e-05)-differential privacy', 'Each image', 'adding or removing one record', 'Poisson', '7.424378898', 'sum of clipped gradients', 'all checkpoints', dp_saddle.__version__): assert words in text
    facts = json.loads(report(run, delta=1e-5, form='json'))
    assert facts['certified interval'][0] <= facts['epsilon'] == epsilon(run, delta=1e-5) and facts['unit'] == 'record'
    assert report(run, delta=1e-5, form='markdown').startswith('**(7.425, 1e-05)') and 'the last is released' in report(run, delta=1e-5, released='last')
    assert 'Laplace' in report(3*Laplace(scale=2.), delta=1e-5)
    with pytest.raises(ValueError, match='no finite eps'): report(ApproxDP(eps=1., delta=.1), delta=1e-5)
    for bad in (dict(delta=0.), dict(delta=1e-5, form='html'), dict(delta=1e-5, released='some')): pytest.raises(ValueError, report, run, **bad)

def test_plots_take_axes_and_return_them():
    import matplotlib.pyplot as plt
    axes = plt.subplots(1, 3)[1]
    run = 100*S(1., .05)
    assert plot_curve(run, ax=axes[0]) is axes[0] and plot_steps(run, delta=1e-5, ax=axes[1]) is axes[1] and plot_tradeoff(run, ax=axes[2]) is axes[2]
    assert axes[1].lines[0].get_ydata()[-1] == pytest.approx(epsilon(run, delta=1e-5), rel=1e-3) and len(axes[1].lines[0].get_xdata()) == 101
    plt.close('all')

# Commands

def run_command(*words): return subprocess.run([os.path.join(os.path.dirname(sys.executable), 'dp-saddle'), *words], capture_output=True, text=True)

def test_calibrate_compare_and_report_commands(tmp_path):
    out = json.loads(run_command('calibrate', '--rate', '.01', '--steps', '1000', '--eps', '1', '--delta', '1e-5', '--json').stdout)
    assert epsilon(1000*S(out['sigma'], .01), delta=1e-5) == out['epsilon'] <= 1
    assert run_command('calibrate', '--rate', '.01', '--sigma', '1', '--find', 'steps', '--eps', '2', '--delta', '1e-5').stdout.startswith('steps ')
    (tmp_path/'run.json').write_text(json.dumps({'steps': to_steps(1000*S(2., .01) + Laplace(scale=5.))}))
    done = run_command('epsilon', '--run', str(tmp_path/'run.json'), '--delta', '1e-5', '--json')
    assert json.loads(done.stdout)['results'][0]['upper'] == epsilon(1000*S(2., .01) + Laplace(scale=5.), delta=1e-5) and done.stderr == ''
    assert 'ContourAccountant' in run_command('compare', '--sigma', '2', '--rate', '.01', '--steps', '100', '--delta', '1e-5').stdout
    assert '-differential privacy' in run_command('report', '--run', str(tmp_path/'run.json'), '--delta', '1e-5').stdout

@pytest.mark.parametrize('words, message', [('calibrate --rate .01 --eps 1 --delta 1e-5', '--steps is needed'), ('calibrate --rate .01 --steps 5 --sigma 1 --eps 1 --delta 1e-5', '--sigma is what is to be found'), ('epsilon --delta 1e-5', '--sigma is needed'), ('epsilon --run no.json --delta 1e-5', 'no.json'),
    ('epsilon --run a.txt --delta 1e-5', 'suffix'), ('epsilon --run a.json --sigma 1 --delta 1e-5', '--sigma does not go with it'), ('compare --sigma 1 --rate 1 --steps 1', 'either delta or eps'), ('report --sigma 1 --rate 1 --steps 1 --delta 3', 'delta must be')])
def test_mistakes_are_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stop: main(words.split())
    out, err = capsys.readouterr()
    assert stop.value.code == 2 and out == '' and err.count('\n') == 1 and message in err

def test_completion(capsys):
    pytest.importorskip('shtab')
    main(['completion', 'bash'])
    assert 'calibrate' in capsys.readouterr().out

# What a reviewer found: floors, directions, infinite losses, loaders that drop the last batch.
SUB = lambda sigma, rate, n: n*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def test_a_cost_that_stays_makes_the_target_impossible():
    with pytest.raises(ValueError, match='steps cannot be found: the target is missed at 1'): calibrate(lambda steps: SUB(1., .01, steps) + Gaussian(sigma=1.), parameter='steps', eps=1, delta=1e-5)
    assert calibrate(lambda steps: SUB(1., .01, steps) + Gaussian(sigma=8.), parameter='steps', eps=1, delta=1e-5) > 0

def test_the_direction_of_any_parameter_is_found(): assert calibrate(lambda std: Gaussian(sigma=std), parameter='std', eps=1, delta=1e-5) == pytest.approx(3.730631634816464, rel=1e-6)   # scipy.optimize on the closed form

def test_whole_parameters_end_where_the_builder_refuses():
    build = lambda **k: dpsgd(**dict(sigma=1., batch_size=100, dataset_size=10_000, epochs=10, sampling='poisson') | k)
    assert calibrate(lambda batch_size: build(batch_size=batch_size), parameter='batch_size', eps=200, delta=1e-6) == 10_000
    b = calibrate(lambda batch_size: build(batch_size=batch_size), parameter='batch_size', eps=8, delta=1e-6)
    assert epsilon(build(batch_size=b), delta=1e-6) <= 8 < epsilon(build(batch_size=b + 1), delta=1e-6)
    with pytest.raises(ValueError, match='missed at 1'): calibrate(lambda epochs: build(epochs=epochs, sampling='none'), parameter='epochs', eps=8, delta=1e-6)

def test_a_builders_mistake_is_its_own():
    with pytest.raises(ValueError, match='sampling'): calibrate(lambda sigma: dpsgd(sigma=sigma, batch_size=1, dataset_size=10, steps=1, sampling='x'), eps=1., delta=1e-5)

def test_no_mu_covers_an_infinite_loss():
    with pytest.raises(ValueError, match='delta must be larger than 0.001'): gdp(ApproxDP(eps=1., delta=1e-3))
    run = ApproxDP(eps=1., delta=1e-3) + Gaussian(sigma=1.)
    g, at = gdp(run, delta=2e-3), np.linspace(0, 8, 400)
    d = delta(run, eps=at)
    assert (np.exp(gaussian_log_delta(at, g.mu))[d >= 2e-3] >= d[d >= 2e-3]*(1 - 1e-9)).all()

@pytest.mark.parametrize('sigma', [.05, .3, 1., 5.])
def test_mu_of_a_gaussian_is_its_own(sigma): assert 1/sigma <= gdp(Gaussian(sigma=sigma)).mu*(1 + 1e-12) and gdp(Gaussian(sigma=sigma)).mu == pytest.approx(1/sigma, rel=1e-5)

@pytest.mark.parametrize('fpr', [1e-300, 1e-100, 1e-15, 1e-3, .5, 1.])
def test_tpr_is_rounded_up_however_small(fpr):
    true = 1. if fpr == 1 else float(ndtr(ndtri(fpr) + 1))
    assert true*(1 - 1e-13) <= tpr(Gaussian(sigma=1.), fpr=fpr) <= true*(1 + 1e-6) and tpr(Gaussian(sigma=1.), fpr=fpr) >= fpr

@pytest.mark.parametrize('fpr', [0., 1e-6, .01, .5])
def test_tpr_with_an_infinite_loss(fpr): assert tpr(ApproxDP(eps=.5, delta=1e-3), fpr=fpr) == pytest.approx(min(1e-3 + np.exp(.5)*fpr, 1 - np.exp(-.5)*(1 - 1e-3 - fpr)), rel=1e-9)

def test_shuffled_batches_of_a_loader_that_drops_the_last():
    assert dpsgd(sigma=2., batch_size=600, dataset_size=1000, steps=5, sampling='shuffle').mechanism == 5*Gaussian(sigma=2.)
    assert dpsgd(sigma=2., batch_size=256, dataset_size=60_000, steps=14_041, sampling='shuffle').mechanism == 61*Gaussian(sigma=2.)

def test_shuffled_steps_are_charged_by_epoch():
    run = dpsgd(sigma=2., batch_size=100, dataset_size=1000, epochs=3, sampling='shuffle')
    spent = epsilon_after(run, delta=1e-5)
    assert len(spent) == 30 and len(set(spent)) == 3 and 1 <= spent[-1]/epsilon(run, delta=1e-5) < 1.001

@pytest.mark.parametrize('schedule', [5, 'x', None])
def test_schedules_of_other_kinds(schedule):
    with pytest.raises(TypeError, match='schedule'): epsilon_after(schedule, delta=1e-5)

def test_schedules_that_no_array_holds():
    with pytest.raises(ValueError, match='count'): epsilon_after([(Gaussian(sigma=1e5), 10**12)], delta=1e-5)

def test_small_noise_without_replacement_is_refused_by_name():
    with pytest.raises(ValueError, match='sigma must be larger'): dpsgd(sigma=.05, batch_size=10, dataset_size=1000, steps=5, sampling='without-replacement')

def test_numpy_counts_do_not_wrap():
    with pytest.raises(ValueError, match='at most dataset_size'): dpsgd(sigma=1., batch_size=np.int32(100_000), accumulate=np.int32(100_000), dataset_size=np.int64(2)*10**9, steps=1, sampling='poisson')

def test_a_ledger_takes_an_epoch_at_once(tmp_path):
    book, epoch = Budget(2., 1e-5), SUB(1., .01, 100) + Laplace(scale=50.)
    book.spend(epoch); book.spend(epoch, 2)
    assert book.steps == 303 and book.spent == pytest.approx(epsilon(3*epoch, delta=1e-5), rel=1e-9) and 'steps=303' in repr(book)
    book.save(tmp_path/'b.json')
    again = Budget(2., 1e-5); again.load(tmp_path/'b.json')
    assert again.spent == book.spent

def test_a_ledger_of_alternating_steps_asks_seldom(monkeypatch):
    asked, book = [], Budget(3., 1e-5)
    monkeypatch.setattr(Budget, '_epsilon', lambda self, counts, f=Budget.epsilon_of: asked.append(1) or f(self, counts))
    for _ in range(100): book.spend(SUB(1., .01, 1)); book.spend(Laplace(scale=200.))
    assert len(asked) < 30

@pytest.mark.parametrize('text, said', [('{"steps": [{"mechanism": "Gaussian", "sigma": 1, "sigma": 5}]}', "'sigma' is given twice"), ('{"steps": [{"mechanism": ["Gaussian"], "sigma": 1}]}', 'mechanism of step 0'),
                                        ('{"steps": [{"mechanism": "Gaussian", "sigma": 1, "rate": true}]}', 'rate'), ('{"steps": [{"sigma": 1}]}', 'mechanism of step 0')])
def test_files_with_mistakes(tmp_path, text, said):
    (tmp_path/'run.json').write_text(text)
    with pytest.raises(ValueError, match=said): read_run(tmp_path/'run.json')

@pytest.mark.parametrize('text, said', [('steps:\n- mechanism: Gaussian\n  sigma: 1\n  sigma: 5\n', 'twice'), ('steps:\n- mechanism: Gaussian\n  sigma: 1\n  rate: 1e-2\n', '1.0e-2')])
def test_yaml_with_mistakes(tmp_path, text, said):
    (tmp_path/'run.yaml').write_text(text)
    with pytest.raises(ValueError, match=said): read_run(tmp_path/'run.yaml')

def test_a_file_that_is_no_text(tmp_path):
    (tmp_path/'run.json').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(ValueError, match='run.json'): read_run(tmp_path/'run.json')

def test_calibration_at_the_end_of_the_doubles():
    sigma = calibrate(lambda sigma: SUB(sigma, .1, 10), eps=1., delta=1e-300)
    assert epsilon(SUB(sigma, .1, 10), delta=1e-300) <= 1 < epsilon(SUB(sigma*(1 - 1e-6), .1, 10), delta=1e-300)

def test_a_ledger_of_very_many_steps():
    book, tiny = Budget(1., 1e-5), S(1e5, 1e-3)
    for k in (0, 20, 40, 47): book.spend(tiny, 2**k)
    assert book.steps == (total := 1 + 2**20 + 2**40 + 2**47) and book.spent <= 1
    with pytest.raises(ValueError, match='2.53'): book.spend(tiny, 2**53)
    assert book.steps == total
