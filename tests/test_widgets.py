"Chapter 07: the explorers' data, their tables and pages, and their widgets; in a browser, see tests/browser/."
import base64, gzip, json, re
import numpy as np
import pytest
from scipy.special import ndtr
from dp_saddle import ContourAccountant, Gaussian, IndividualGDPFilter, PoissonSubsampled, delta, epsilon, tradeoff
from dp_saddle import widgets as W

ALL = [W.explore_curve, W.explore_saddle, W.explore_tilt, W.explore_edgeworth, W.explore_fft, lambda: W.explore_filter(NORMS), W.explore_tradeoff]
NORMS = np.random.default_rng(0).random((60, 50))**2
S = lambda sigma, rate, n: n*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)
SMALL = lambda: W.explore_curve(sigma=(1., 2.), rate=(.01, .1), steps=(10, 100), eps=np.geomspace(.01, 10, 9))

@pytest.mark.parametrize('make', ALL)
def test_every_corner_of_the_sliders_is_finite(make):
    e = make()
    for k in range(2**len(e.sliders)):
        lines, marks, numbers = e.at(**{s.name: s.values[-(k >> i & 1)] for i, s in enumerate(e.sliders)})
        assert np.isfinite(lines).all() and lines.shape == (len(e.lines), len(e.x)) and len(marks) == len(e.marks) and len(numbers) == len(e.numbers)
        assert not any('nan' in str(text) for text in numbers)

def test_the_curve_is_certified_and_read_off_outwards():
    e = W.explore_curve()
    lines, (mark,), (most, least) = e.at(sigma=2., rate=.01, steps=3000)
    exact = ContourAccountant(S(2., .01, 3000)).delta(e.x)
    assert (lines[0] >= exact.lower)[lines[0] > 1e-300].all() and np.allclose(lines[0], np.maximum(exact.upper, 1e-300), rtol=1e-6)
    assert (lines[1] >= lines[0]*(1 - 1e-9)).all()                                        # moments are a bound
    eps = epsilon(S(2., .01, 3000), delta=1e-5)
    assert float(least) <= eps <= float(most) and float(most) == pytest.approx(eps, rel=1e-3) and mark == pytest.approx(eps, rel=1e-6)

def test_accountants_of_ones_own():
    e = W.explore_curve(accountants={'mine': ContourAccountant})
    assert e.lines == (('mine', 'up'),) and e.at()[0].shape == (1, len(e.x))

def test_the_sum_does_not_depend_on_the_line():
    e, exact = W.explore_saddle(), ContourAccountant(S(2., .01, 3000).remove).delta(1.)
    for t in (8., 12., 16.):
        numbers = e.at(tilt=t, eps=1.)[2]
        assert float(numbers[0]) == pytest.approx(exact.estimate, rel=1e-9)
        assert exact.lower <= float(numbers[0])*(1 + 1e-9) and float(numbers[0]) <= exact.upper + float(numbers[1]) + float(numbers[2]) + 1e-13
    far = e.at(tilt=1., eps=1.)[2]
    assert float(far[0]) > 10*exact.upper and float(far[0]) <= exact.upper + float(far[1]) + float(far[2]) + 1e-13          # too large, and by no more than it says

def test_the_saddle_is_where_the_modulus_is_least():
    e = W.explore_saddle()
    picture, (_, t0) = e.image(eps=1.), e.at(eps=1.)[1]
    row = picture[len(picture)//2]
    assert abs(e.x[np.flatnonzero(row == row.min())].mean() - t0) < 2 and (picture[len(picture)//2] >= picture[0]).all()

@pytest.mark.parametrize('t, sigma', [(0., 1.), (10., 2.), (37., 2.)])
def test_tilted_densities_integrate_to_one(t, sigma):
    e = W.explore_tilt(loss=np.r_[np.linspace(-.02, .4, 4001), np.linspace(.4, 30, 8000)[1:]])
    lines, (mean,), _ = e.at(tilt=t, sigma=sigma)
    plrv = PoissonSubsampled(base=Gaussian(sigma=sigma), rate=.01).remove
    assert np.trapezoid(lines[1], e.x) == pytest.approx(1, abs=2e-3) and np.trapezoid(e.x*lines[1], e.x) == pytest.approx(mean, abs=2e-3*max(mean, 1))
    assert mean == pytest.approx(plrv.cumulants(t, 1)[0])

def test_the_true_distribution_by_simulation():
    plrv, rng = S(1., .2, 4).remove, np.random.default_rng(1)
    z = rng.standard_normal((400_000, 4)) + (rng.random((400_000, 4)) < .2)
    loss = np.log1p(.2*np.expm1(z - .5)).sum(1)
    x = np.quantile(loss, [.02, .1, .3, .5, .7, .9, .98])
    assert np.abs(W._tail_of_sum(plrv, x) - [.98, .9, .7, .5, .3, .1, .02]).max() < 3e-3

@pytest.mark.parametrize('steps, order', [(4, 1), (64, 2), (1024, 4)])
def test_the_proved_band_holds_the_truth(steps, order):
    lines = W.explore_edgeworth().at(steps=steps, order=order, rate=.2)[0]
    assert (lines[2] - 1e-4 <= lines[0]).all() and (lines[0] <= lines[3] + 1e-4).all()

def test_the_grid_converges():
    e = W.explore_fft()
    errors = [float(e.at(points=n, window=12., steps=300)[2][1]) for n in (2**9, 2**12, 2**15)]
    assert errors[0] > 10*errors[1] > 100*errors[2] or errors[2] < 1e-9

@pytest.mark.parametrize('step, budget', [(1, .1), (30, .2), (60, .05)])
def test_the_filter_is_chapter_fives(step, budget):
    e, guard, mus = W.explore_filter(NORMS, sigma=20., budget=(.05, .1, .2)), IndividualGDPFilter(budget, 50), NORMS/20.
    active = np.ones(50, bool)
    for row in mus[:step]: active = guard.step(row)
    said = e.at(step=min(e.sliders[0].values, key=lambda s: abs(s - step)), budget=budget)
    assert e.sliders[0].values[0] == 1 and e.sliders[0].values[-1] == 60
    assert int(e.at(step=step, budget=budget)[2][0].split()[0]) == active.sum() and said[0].sum() == pytest.approx(2)

def test_no_attack_is_above():
    e = W.explore_tradeoff()
    for sigma, rate, steps in ((1., .01, 1000), (.5, .1, 100), (2., 1., 10)):
        lines, _, (tpr, advantage, error) = e.at(sigma=sigma, rate=rate, steps=steps)
        exact = 1 - tradeoff(S(sigma, rate, steps), fpr=e.x)
        assert (lines[0] >= exact - 1e-12).all() and (lines[0] <= exact*1.02 + 1e-12).all()
        assert delta(S(sigma, rate, steps), eps=0.) <= float(advantage)

# Tables and pages

def unpack(page): return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, flags=re.S)[1])

def test_a_table_holds_what_the_function_returns_rounded_outwards():
    e = SMALL()
    said, k = unpack(e.page()), 0
    table = np.frombuffer(base64.b64decode(said['lines']), '<u2').reshape(8, len(e.lines), len(e.x))
    for sigma in (1., 2.):
        for rate in (.01, .1):
            for steps in (10, 100):
                lines, _, numbers = e.at(sigma=sigma, rate=rate, steps=steps)
                assert tuple(said['numbers'][k]) == numbers
                back = 1e-12**(1 - table[k]/65534)
                seen = lines[0] > 1e-12
                assert (back[0] >= lines[0]*(1 - 1e-12))[seen].all() and np.abs(np.log10(back/np.clip(lines, 1e-12, 1))).max() < 12/65534*1.01
                k += 1

@pytest.mark.parametrize('make', [SMALL, lambda: W.explore_saddle(tilt=(5., 12.), eps=(1., 2.)), lambda: W.explore_filter(NORMS, shown=3)])
def test_a_page_stands_alone(make):
    page = make().page()
    assert not re.search(r'(?:src|href)="(?!data:|#)', page) and 'http' not in re.sub(r'http://www.w3.org/[\w/]*|xmlns[^ ]*|http://purl[^ "]*|http://creativecommons[^ "]*', '', page)
    assert page.count('<input type="range"') == len(make().sliders) and 'aria-valuetext' in page and 'role="img"' in page and '<figcaption' in page

def test_without_scripts_there_is_a_table():
    page = SMALL().page()
    assert '<details>' in page and page.count('<tr>') == 8

def test_texts_are_escaped():
    e = W.Explorer('x', 'a<b', 'c & d', lambda s: ([[1., 2.]], (), ('<i>',)), (W.Slider('s', 'l<m', (1, 2), 0),), np.array([0., 1.]), dict(xlabel='x', ylabel='y', xlim=(0, 1), ylim=(0, 3)), (('line', ''),), numbers=('n',))
    page = e.page()
    assert '<i>' not in page and 'l&lt;m' in page and 'c &amp; d' in page

@pytest.mark.slow
@pytest.mark.parametrize('make', ALL[:5] + [W.explore_filter] + ALL[6:])
def test_pages_are_small(make): assert len(gzip.compress(make().page().encode())) < 300_000

# Widgets

@pytest.mark.parametrize('make', ALL)
def test_a_widget_redraws(make):
    e = make()
    box = e.widget()
    sliders, (picture, numbers) = box.children[:-2], box.children[-2:]
    before = picture.value, numbers.value
    for slider, s in zip(sliders, e.sliders):
        assert slider.description == s.label
        slider.index = (s.start + len(s.values)//2) % len(s.values)
    after = picture.value, numbers.value
    assert before[0][:4] == b'\x89PNG' and before != after
    for slider, s in zip(sliders, e.sliders): slider.index = s.start
    assert (picture.value, numbers.value) == before                                       # nothing is left behind

def test_in_a_notebook_there_is_a_picture_too():
    bundle = SMALL()._repr_mimebundle_()
    assert base64.b64decode(bundle['image/png'])[:4] == b'\x89PNG' and 'application/vnd.jupyter.widget-view+json' in bundle and 'privacy curve' in bundle['text/plain']

# Mistakes

@pytest.mark.parametrize('make, named', [(lambda: W.explore_curve(accountants=('best',)), 'accountant'), (lambda: W.explore_curve(delta=0.), 'delta must be in'), (lambda: W.explore_curve(sigma=()), 'sigma must have one or more'),
                                         (lambda: SMALL().at(sigm=1.), 'slider'), (lambda: W.explore_filter(np.ones(3)), 'norms must have shape'), (lambda: W.explore_filter(NORMS, sigma=0.), 'sigma must be in'), (lambda: W.explore_filter(NORMS, shown=1), 'shown')])
def test_mistakes(make, named):
    with pytest.raises(ValueError, match=named): make()

@pytest.mark.parametrize('steps, rate', [(1, .05), (2, .05), (4, .2)])
def test_the_true_distribution_of_few_steps(steps, rate):
    lines, _, (far, most) = W.explore_edgeworth().at(steps=steps, order=1, rate=rate)
    assert float(far) <= float(most) + 1e-4 and np.abs(lines[0]).max() < 1                                        # a distribution function, at that

def test_bounds_beyond_the_picture_are_left_out():
    e = W.Explorer('x', 't', 'a', lambda s: ([[2., 5., -1.]]*3, (), ()), (W.Slider('s', 's', (1,), 0),), np.array([0., 1., 2.]), dict(xlabel='x', ylabel='y', xlim=(0, 2), ylim=(0, 4)), (('u', 'up'), ('l', 'down'), ('e', '')))
    table = W._quantised(e, e.at()[0])
    assert table[:, 1].tolist() == [65535]*3 and table[:, 2].tolist() == [0, 65535, 0] and (table[:, 0] == 32767).all()

def test_an_accountant_that_fails_says_so():
    failing = W.Explorer('x', 't', 'a', lambda s: (_ for _ in ()).throw(ValueError('no more')) if s == 2 else ([[1., 2.]], (), ()), (W.Slider('s', 's', (1, 2), 0),), np.array([0., 1.]), dict(xlabel='x', ylabel='y', xlim=(0, 1), ylim=(0, 3)), (('l', ''),))
    box = failing.widget()
    box.children[0].index = 1
    assert 'no more' in box.children[-1].value and box.children[-2].value == b''
    box.children[0].index = 0
    assert box.children[-2].value[:4] == b'\x89PNG'

@pytest.mark.parametrize('make, named', [(lambda: W.explore_curve().at(steps=10.7), 'steps'), (lambda: W.explore_saddle(period=-6.), 'period'), (lambda: W.explore_saddle(tilt=(0., 1.)), 'tilt'), (lambda: W.explore_saddle().at(tilt=-2.), 'tilt'),
                                         (lambda: W.explore_filter(NORMS).at(step=0), 'step'), (lambda: W.explore_filter(NORMS).at(step=999), 'step'), (lambda: W.explore_tilt(rate=1.), 'rate'), (lambda: W.explore_curve(eps=[]), 'eps'), (lambda: W.explore_tradeoff(fpr=[.1, 2.]), 'fpr'),
                                         (lambda: W.explore_curve(sigma=(1., 1.)), 'sigma must have one or more different'), (lambda: W.explore_curve(sigma=('u"><i>',)), 'sigma'), (lambda: W.Slider('s', 's', (1, 2), 2), 'start'),
                                         (lambda: W.Explorer('a b', 't', 'a', None, (), np.arange(2.), {}, ()), 'name'), (lambda: W.Explorer('a', 't', 'a', None, (), np.arange(2.), {}, ()), 'axes')])
def test_more_mistakes(make, named):
    with pytest.raises((ValueError, TypeError), match=named): make()
