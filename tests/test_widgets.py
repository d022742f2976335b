"""Chapter 11 and Appendix C: the explorers' data, their tables and pages, and their widgets; in a
browser, see tests/browser/."""
import base64
import gzip
import json
import re
import sys
from dataclasses import replace
from decimal import Decimal
from itertools import product
from math import inf
from pathlib import Path

import explorer_tables
import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtr

from dp_saddle import (
    ContourAccountant,
    Gaussian,
    IndividualGDPFilter,
    PoissonSubsampled,
    delta,
    dpsgd,
    epsilon,
    tradeoff,
)
from dp_saddle import widgets as W
from dp_saddle.base.explorer import quantised
from dp_saddle.base.pictures import style_of

ROOT = Path(__file__).resolve().parent.parent
NORMS = np.random.default_rng(0).random((60, 50))**2
ALL = [W.explore_curve, W.explore_saddle, W.explore_tilt, W.explore_edgeworth, W.explore_fft,
       lambda: W.explore_filter(NORMS), W.explore_tradeoff, W.explore_sampling]

def run(sigma, rate, n):
    return n*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def small():
    "A curve of eight settings."
    return W.explore_curve(sigma=(1., 2.), rate=(.01, .1), steps=(10, 100),
                           eps=np.geomspace(.01, 10, 9))

def plain(data, values=(1,), x=(0., 1.), ylim=(0, 3), lines=(('line', ''),), **others):
    "An explorer of one slider, s."
    axes = dict(xlabel='x', ylabel='y', xlim=(x[0], x[-1]), ylim=ylim)
    slider = W.Slider('s', others.pop('label', 's'), values, 0)
    return W.Explorer('x', others.pop('title', 't'), others.pop('alt', 'a'), data, (slider,),
                      np.array(x), axes, lines, **others)

@pytest.mark.parametrize('make', ALL)
def test_every_corner_of_the_sliders_is_finite(make):
    e = make()
    for k in range(2**len(e.sliders)):
        corner = {s.name: s.values[-(k >> i & 1)] for i, s in enumerate(e.sliders)}
        lines, marks, numbers = e.at(**corner)
        assert np.isfinite(lines).all()
        assert lines.shape == (len(e.lines), len(e.x))
        assert (len(marks), len(numbers)) == (len(e.marks), len(e.numbers))
        assert not any('nan' in str(text) for text in numbers)

PARTS = 60

@pytest.mark.parametrize('part', [
    0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, PARTS))])
@pytest.mark.parametrize('call', explorer_tables.CALLS)
def test_tables_of_the_site(call, part):
    "docs/explorers.npz has what the library says, to a unit of what is drawn and what is printed."
    figure = explorer_tables.made(call)
    table = explorer_tables.kept(call, figure)
    assert table, 'the figure is another one: python docs/explorer_tables.py'
    settings = list(product(*(s.values for s in figure.sliders)))
    assert {len(rows) for rows in table} == {len(settings)}
    for k in range(part, len(settings), PARTS):
        values = dict(zip((s.name for s in figure.sliders), settings[k], strict=True))
        lines, marks, numbers = figure.at(**values)
        there = [rows[k] for rows in table]
        off = there[0].astype(int) - quantised(figure, lines)
        assert np.abs(off).max() <= 1, (values, 'python docs/explorer_tables.py')
        assert there[1] == pytest.approx(marks, rel=1e-9)
        for one, other in zip(map(Decimal, there[2]), map(Decimal, numbers), strict=True):
            unit = Decimal(1).scaleb(max(one.as_tuple().exponent, other.as_tuple().exponent))
            assert abs(one - other) <= unit, (values, 'python docs/explorer_tables.py')

def moved(numbers, toward):
    "The numbers, each one double further, as another processor may compute them."
    return tuple(np.nextafter(numbers, toward).tolist())

def elsewhere(figure, toward):
    "The figure as another processor may compute its axes and its sliders."
    sliders = [replace(s, values=moved(s.values, toward)) for s in figure.sliders]
    return replace(figure, x=np.array(moved(figure.x, toward)), sliders=tuple(sliders))

@pytest.mark.parametrize('call', explorer_tables.CALLS)
def test_tables_of_the_site_are_found_on_any_processor(call):
    "By what was asked, not by its last bits; another question has no table."
    figure = explorer_tables.made(call)
    first = figure.sliders[0]
    for toward in (-inf, inf):
        assert explorer_tables.kept(call, elsewhere(figure, toward))
    other = replace(first, values=(*first.values[:-1], first.values[-1]*(1 + 1e-6)))
    for change in (dict(sliders=(other, *figure.sliders[1:])), dict(x=figure.x*(1 + 1e-6)),
                   dict(numbers=(*figure.numbers[:-1], 'another number'))):
        assert explorer_tables.kept(call, replace(figure, **change)) is None

def test_the_curve_is_certified_and_read_off_outwards():
    e = W.explore_curve()
    lines, (mark,), (most, least) = e.at(sigma=2., rate=.01, steps=3000)
    exact = ContourAccountant(run(2., .01, 3000)).delta(e.x)
    assert (lines[0] >= exact.lower)[lines[0] > 1e-300].all()
    assert np.allclose(lines[0], np.maximum(exact.upper, 1e-300), rtol=1e-6)
    assert (lines[1] >= lines[0]*(1 - 1e-9)).all()                   # moments are a bound
    eps = epsilon(run(2., .01, 3000), delta=1e-5)
    assert float(least) <= eps <= float(most)
    assert float(most) == pytest.approx(eps, rel=1e-3)
    assert mark == pytest.approx(eps, rel=1e-6)

def test_accountants_of_ones_own():
    e = W.explore_curve(accountants={'mine': ContourAccountant})
    assert e.lines == (('mine', 'up'),)
    assert e.at()[0].shape == (1, len(e.x))

def test_the_sum_does_not_depend_on_the_line():
    e, exact = W.explore_saddle(), ContourAccountant(run(2., .01, 3000).remove).delta(1.)
    def said(t):
        "The sum, and all it may be."
        total, left, right = map(float, e.at(tilt=t, eps=1.)[2][:3])
        return total, exact.upper + left + right + 1e-13
    for t in (8., 12., 16.):
        total, most = said(t)
        assert total == pytest.approx(exact.estimate, rel=1e-9)
        assert exact.lower <= total*(1 + 1e-9)
        assert total <= most
    total, most = said(1.)
    assert 10*exact.upper < total <= most        # too large, and by no more than it says

def test_the_saddle_is_where_the_modulus_is_least():
    e = W.explore_saddle()
    picture, (_, t0) = e.image(eps=1.), e.at(eps=1.)[1]
    row = picture[len(picture)//2]
    assert abs(e.x[np.flatnonzero(row == row.min())].mean() - t0) < 2
    assert (row >= picture[0]).all()

@pytest.mark.parametrize('t, sigma', [(0., 1.), (10., 2.), (37., 2.)])
def test_tilted_densities_integrate_to_one(t, sigma):
    e = W.explore_tilt(loss=np.r_[np.linspace(-.02, .4, 4001), np.linspace(.4, 30, 8000)[1:]])
    (_, tilted, _), (mean,), _ = e.at(tilt=t, sigma=sigma)
    plrv = PoissonSubsampled(base=Gaussian(sigma=sigma), rate=.01).remove
    assert trapezoid(tilted, e.x) == pytest.approx(1, abs=2e-3)
    assert trapezoid(e.x*tilted, e.x) == pytest.approx(mean, abs=2e-3*max(mean, 1))
    assert mean == pytest.approx(plrv.cumulants(t, 1)[0])

def test_the_true_distribution_by_simulation():
    "What Edgeworth's explorer calls true: its line is root n (F(x) - Phi(x))."
    plrv, rng = run(1., .2, 4).remove, np.random.default_rng(1)
    z = rng.standard_normal((400_000, 4)) + (rng.random((400_000, 4)) < .2)
    loss = np.log1p(.2*np.expm1(z - .5)).sum(1)
    shares = np.array([.02, .1, .3, .5, .7, .9, .98])
    mean, var = plrv.cumulants(0., 2)[0], plrv.cumulants(0., 2)[1]
    x = (np.quantile(loss, shares) - mean)/np.sqrt(var)
    true = W.explore_edgeworth(x=x).at(steps=4, rate=.2)[0][0]
    assert np.abs(true/np.sqrt(4) + ndtr(x) - shares).max() < 3e-3

@pytest.mark.parametrize('steps, rate', [(1, .05), (2, .05), (4, .2)])
def test_the_true_distribution_of_few_steps(steps, rate):
    lines, _, (far, most) = W.explore_edgeworth().at(steps=steps, order=1, rate=rate)
    assert float(far) <= float(most) + 1e-4
    assert np.abs(lines[0]).max() < 1                        # a distribution function, at that

@pytest.mark.parametrize('steps, order', [(4, 1), (64, 2), (1024, 4)])
def test_the_proved_band_holds_the_truth(steps, order):
    true, _, low, high = W.explore_edgeworth().at(steps=steps, order=order, rate=.2)[0]
    assert (low - 1e-4 <= true).all()
    assert (true <= high + 1e-4).all()

def test_the_grid_converges():
    e = W.explore_fft()
    few, more, many = (float(e.at(points=n, window=12., steps=300)[2][1])
                       for n in (2**9, 2**12, 2**15))
    assert few > 10*more > 100*many or many < 1e-9

@pytest.mark.parametrize('step, budget', [(1, .1), (30, .2), (60, .05)])
def test_the_filter_is_chapter_fives(step, budget):
    e = W.explore_filter(NORMS, sigma=20., budget=(.05, .1, .2))
    guard = IndividualGDPFilter(budget, 50)
    active = [guard.step(row) for row in NORMS[:step]/20.][-1]
    lines, _, (taking_part, *_) = e.at(step=step, budget=budget)
    assert int(taking_part.split()[0]) == active.sum()
    assert lines[0].sum() == pytest.approx(2)
    assert (e.sliders[0].values[0], e.sliders[0].values[-1]) == (1, 60)

def test_the_norms_of_the_digits_are_there():
    norms = W.digits_norms()
    assert norms.shape == (200, 400)
    assert norms.min() >= 0
    assert norms.max() == 1
    assert (ROOT/'dp_saddle'/'norms.npz').stat().st_size < 60_000

@pytest.mark.slow
def test_the_norms_of_the_digits_are_those_of_the_run():
    "The file is what the chapter's cell makes: rounded up, by less than a level."
    pytest.importorskip('sklearn')
    sys.path.insert(0, str(ROOT/'nbs'))
    try:
        from toy_training import digits_run
    finally:
        sys.path.pop(0)
    over = W.digits_norms() - digits_run()[3][:, :400]
    assert over.min() >= 0
    root = np.sqrt(W.digits_norms())
    assert (over <= root**2 - (root - 1/255).clip(0)**2 + 1e-15).all()

def test_no_attack_is_above():
    e = W.explore_tradeoff()
    for sigma, rate, steps in ((1., .01, 1000), (.5, .1, 100), (2., 1., 10)):
        lines, _, (_, advantage, _) = e.at(sigma=sigma, rate=rate, steps=steps)
        exact = 1 - tradeoff(run(sigma, rate, steps), fpr=e.x)
        assert (lines[0] >= exact - 1e-12).all()
        assert (lines[0] <= exact*1.02 + 1e-12).all()
        assert delta(run(sigma, rate, steps), eps=0.) <= float(advantage)

# --- tables and pages

def unpack(page):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page,
                                flags=re.S)[1])

def test_a_table_holds_what_the_function_returns_rounded_outwards():
    e = small()
    said, k = unpack(e.page()), 0
    table = np.frombuffer(base64.b64decode(said['lines']), '<u2')
    back = 1e-12**(1 - table.reshape(8, len(e.lines), len(e.x))/65534)
    settings = [dict(sigma=sigma, rate=rate, steps=steps)
                for sigma in (1., 2.) for rate in (.01, .1) for steps in (10, 100)]
    for k, setting in enumerate(settings):
        lines, _, numbers = e.at(**setting)
        assert tuple(said['numbers'][k]) == numbers
        seen = lines[0] > 1e-12
        assert (back[k][0] >= lines[0]*(1 - 1e-12))[seen].all()
        assert np.abs(np.log10(back[k]/np.clip(lines, 1e-12, 1))).max() < 12/65534*1.01

XML = (r'http://www.w3.org/[\w/]*|xmlns[^ ]*|http://purl[^ "]*|http://creativecommons[^ "]*')

@pytest.mark.parametrize('make', [small, lambda: W.explore_saddle(tilt=(5., 12.), eps=(1., 2.)),
                                  lambda: W.explore_filter(NORMS, shown=3)])
def test_a_page_stands_alone(make):
    page = make().page()
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert 'http' not in re.sub(XML, '', page)
    assert page.count('<input type="range"') == len(make().sliders)
    assert 'aria-valuetext' in page
    assert 'role="img"' in page
    assert '<figcaption' in page

def test_without_scripts_there_is_a_table():
    page = small().page()
    assert '<details>' in page
    assert page.count('<tr>') == 8

def test_texts_are_escaped():
    e = plain(lambda s: ([[1., 2.]], (), ('<i>',)), (1, 2), numbers=('n',), title='a<b',
              alt='c & d', label='l<m')
    page = e.page()
    assert '<i>' not in page
    assert 'l&lt;m' in page
    assert 'c &amp; d' in page

@pytest.mark.slow
@pytest.mark.parametrize('make', ALL[:5] + [W.explore_filter] + ALL[6:])
def test_pages_are_small(make):
    assert len(gzip.compress(make().page().encode())) < 300_000

def test_bounds_beyond_the_picture_are_left_out():
    lines = ('u', 'up'), ('l', 'down'), ('e', '')
    e = plain(lambda s: ([[2., 5., -1.]]*3, (), ()), x=(0., 1., 2.), ylim=(0, 4), lines=lines)
    table = W.tabulate(e)[0][0]
    assert (table[:, 0] == 32767).all()
    assert table[:, 1].tolist() == [65535]*3
    assert table[:, 2].tolist() == [0, 65535, 0]

# --- widgets

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
    assert before[0][:4] == b'\x89PNG'
    assert before != after
    for slider, s in zip(sliders, e.sliders):
        slider.index = s.start
    assert (picture.value, numbers.value) == before                    # nothing is left behind

def test_in_a_notebook_there_is_a_picture_too():
    bundle = small()._repr_mimebundle_()
    assert base64.b64decode(bundle['image/png'])[:4] == b'\x89PNG'
    assert 'application/vnd.jupyter.widget-view+json' in bundle
    assert 'privacy curve' in bundle['text/plain']

def test_an_accountant_that_fails_says_so():
    def failing(s):
        if s == 2:
            raise ValueError('no more')
        return [[1., 2.]], (), ()
    box = plain(failing, (1, 2)).widget()
    box.children[0].index = 1
    assert 'no more' in box.children[-1].value
    assert box.children[-2].value == b''
    box.children[0].index = 0
    assert box.children[-2].value[:4] == b'\x89PNG'

# --- mistakes

@pytest.mark.parametrize('make, named', [
    (lambda: W.explore_curve(accountants=('best',)), 'accountant'),
    (lambda: W.explore_curve(delta=0.), 'delta must be in'),
    (lambda: W.explore_curve(sigma=()), 'sigma must have one or more'),
    (lambda: W.explore_curve(sigma=(1., 1.)), 'sigma must have one or more different'),
    (lambda: W.explore_curve(sigma=('u"><i>',)), 'sigma'),
    (lambda: W.explore_curve(eps=[]), 'eps'),
    (lambda: W.explore_curve().at(steps=10.7), 'steps'),
    (lambda: small().at(sigm=1.), 'slider'),
    (lambda: W.explore_saddle(period=-6.), 'period'),
    (lambda: W.explore_saddle(tilt=(0., 1.)), 'tilt'),
    (lambda: W.explore_saddle().at(tilt=-2.), 'tilt'),
    (lambda: W.explore_tilt(rate=1.), 'rate'),
    (lambda: W.explore_filter(np.ones(3)), 'norms must have shape'),
    (lambda: W.explore_filter(NORMS, sigma=0.), 'sigma must be in'),
    (lambda: W.explore_filter(NORMS, shown=1), 'shown'),
    (lambda: W.explore_filter(NORMS).at(step=0), 'step'),
    (lambda: W.explore_filter(NORMS).at(step=999), 'step'),
    (lambda: W.explore_tradeoff(fpr=[.1, 2.]), 'fpr'),
    (lambda: W.explore_sampling(sigma=[1.]), 'sigma must be a 1-d array of two'),
    (lambda: W.explore_sampling(batches=()), 'batches must have one or more'),
    (lambda: W.explore_sampling().at(batches=0), 'batches'),
    (lambda: W.explore_sampling().at(sigma=.01), 'sigma'),
    (lambda: W.explore_sampling().at(epochs=1.5), 'epochs'),
])
def test_mistakes(make, named):
    with pytest.raises((ValueError, TypeError), match=named):
        make()

@pytest.mark.parametrize('make, named', [
    (lambda: W.Slider('s', 's', (1, 2), 2), 'start'),
    (lambda: W.Explorer('a b', 't', 'a', None, (), np.arange(2.), {}, ()), 'name'),
    (lambda: W.Explorer('a', 't', 'a', None, (), np.arange(2.), {}, ()), 'axes'),
    (lambda: plain(None, lines=(('line', 'outwards'),)), 'rounding'),
    (lambda: plain(None, x=(1.,)), 'x must be'),
    (lambda: plain(None, lines=(('a', ''), ('b', '')), styles=('bound',)), 'styles must have one'),
    (lambda: plain(lambda s: ([[1., 2.]], (), ('1',))).at(), 'data must return 1 lines, 0 marks'),
])
def test_mistakes_in_ones_own(make, named):
    with pytest.raises(ValueError, match=named):
        make()

@pytest.mark.slow
@pytest.mark.parametrize('epochs', (1, 5, 20, 100))
@pytest.mark.parametrize('batches', (10, 100, 1000))
def test_the_loaders_table_is_what_is_computed(batches, epochs):
    "Each setting at two noises; a stored bound is one of the library's, and in order."
    for sigma in (.4, 2.):
        size = dict(batch_size=256, dataset_size=256*batches, epochs=epochs)
        *most, least = W.loader_table()[sigma, batches, epochs]
        for name, up in zip(W.LOADERS, most, strict=True):
            run = dpsgd(sigma=sigma, sampling=name, **size)
            assert up == pytest.approx(epsilon(run, delta=1e-5), rel=1e-6)
            if name == 'shuffle':
                assert least <= up
                assert least == pytest.approx(run.at_least(1e-5), rel=1e-5)

def test_a_loader_off_the_table_is_computed():
    e = W.explore_sampling(sigma=(1., 1.5), batches=(7,), epochs=(2,))
    lines, (mark,), said = e.at(sigma=1.5, batches=7, epochs=2)
    run = dpsgd(sigma=1.5, batch_size=256, dataset_size=7*256, epochs=2, sampling='balls-in-bins')
    assert lines[0][1] == pytest.approx(epsilon(run, delta=1e-5)) and mark == 1.5
    assert float(said[0]) >= epsilon(run, delta=1e-5)

def test_six_ways_of_drawing_have_six_styles():
    styles = W.explore_sampling().styles
    assert len(styles) == len({tuple(style_of(name).items()) for name in styles}) == 6
