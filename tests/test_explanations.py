"practice/explanations, engine/ways: who answered is named, with what it did and what it erred by."
import json
from math import exp, log

import numpy as np
import pytest

from dp_saddle import (
    ZCDP,
    AdditiveNoise,
    BallsInBins,
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
    delta,
    epsilon,
    explain,
    group,
    selected,
)
from dp_saddle.base import attempt, traced, tracing
from dp_saddle.engine.solve import Stop
from dp_saddle.engine.ways import WAYS
from dp_saddle.practice.explanations import PAGES, page_of
from house import NBS, headings


def G(sigma, rate): return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)
def L(scale, rate): return PoissonSubsampled(base=Laplace(scale=scale), rate=rate)
def two(sigma, rate): return group(G(sigma, rate), 2)
def bins(n, sigma, batches): return n*BallsInBins(Gaussian(sigma=sigma), batches=batches)

def log_logistic(x): return -np.abs(x) - 2*np.log1p(np.exp(-np.abs(x)))

LOGISTIC = dict(log_density=log_logistic, sensitivity=.5, log_concave=True, even=True)

# One question for each way, that it answers: {way: (run, question)}.
ANSWERED = {
    'closed form': (3*Gaussian(sigma=2.), dict(delta=1e-5)),
    'rows': (3000*G(2., .01), dict(delta=1e-5)),
    'rows of several kinds': (300*G(2., .01) + 200*G(1., .02), dict(delta=1e-5)),
    'no loss': (5*L(1., .1), dict(delta=1e-5)),
    'own lines': (bins(1, 1., 100), dict(delta=1e-5)),
    'cut steps': (bins(2, 1., 1000), dict(delta=1e-5)),
    'formula': (3*RandomizedResponse(eps=1.), dict(delta=1e-2)),
    'endpoint expansion': (5*L(1., .1), dict(delta=1e-5)),
    'one line': (300*G(2., .01) + 5*Laplace(scale=8.), dict(eps=1.)),
    'eps = 0': (20*G(.3, 1e-8) + 14*L(.5, 1e-6), dict(delta=5e-5)),
    'other direction': (14*L(.5, 1e-6) + G(1., 1e-5), dict(eps=1e-7)),
    'all outcomes': (200*RandomizedResponse(eps=2.) + 20*RandomizedResponse(eps=1.3)
                     + 40*RandomizedResponse(eps=.9), dict(delta=1e-5)),
    'outcomes': (RandomizedResponse(eps=1.) + 3*G(.54, 8e-7), dict(eps=1.)),
    'counts': (10*G(.5, 1e-6), dict(eps=3.)),
    'levels': (10*two(.5, 1e-6), dict(eps=3.)),
    'all nodes': (20*DiscreteGaussian(sigma=6.), dict(delta=1e-200)),
    'TiltedFFT': (20*AdditiveNoise(**LOGISTIC), dict(delta=1e-5)),
    'WorstCaseAccountant': (3*ZCDP(rho=.1), dict(delta=1e-5)),
    'SelectionAccountant': (selected(10*G(1., .01), tries=Geometric(mean=5)), dict(delta=1e-5)),
}
# And for ways that improve an answer, or would.
ASKED = {
    'dominating losses': (bins(2, 3.93, 3), dict(eps=7.56)),
}

def ask(run, question):
    "What `epsilon` and `delta` say."
    return epsilon(run, **question) if 'delta' in question else delta(run, **question)

def test_every_way_has_its_question():
    assert [way.name for way in WAYS if way.name not in {**ANSWERED, **ASKED}] == []
    assert len({way.name for way in WAYS}) == len(WAYS) == len({**ANSWERED, **ASKED})

@pytest.mark.filterwarnings('ignore:.*bounds hold')
@pytest.mark.parametrize('way', {**ANSWERED, **ASKED})
def test_each_way_is_named(way):
    "And the answer is that of `epsilon` or `delta`, to the last bit: nothing is asked differently."
    run, question = (ANSWERED | ASKED)[way]
    said = explain(run, **question)
    assert way in [one.way for one in (said.answers if way in ANSWERED else said.tried)]
    assert said.bounds.upper == ask(run, question)
    found = max(one.bounds.upper for one in said.answers)
    assert said.bounds.upper == pytest.approx(found, rel=1e-12)     # e^log delta, rounded upwards
    assert said.bounds.lower <= said.bounds.estimate <= said.bounds.upper
    text = str(said)
    assert all(f'{one.way} ({page_of(one.way)})' in text for one in said.answers)
    assert all(one.way in {each.name for each in WAYS} for one in said.tried)
    parts = [(part, one.way) for one in said.answers for line in one.lines
             for part in [*line.get('taken', []), *line.get('errors', {})]]
    assert all(page_of(*part) or part[0] == 'all' for part in parts)
    assert json.loads(json.dumps(said.to_dict()))['upper'] == said.bounds.upper

# Honest: what is said is what was done

LINES = ['rows', 'one eps', 'rows of several kinds', 'endpoint expansion', 'one line', 'all nodes']

@pytest.mark.parametrize('way', LINES)
def test_the_parts_of_an_error_are_its_width(way):
    "Of one line: bounds are as far apart as aliases once, and all else twice."
    run, question = (ANSWERED | {'one eps': (3000*G(2., .01), dict(eps=1.))})[way]
    one = next(one for one in explain(run, **question).answers if one.way in (way, 'rows'))
    line = one.lines[0]
    assert line['kind'] == 'line' and line['nodes'] > 1 and line['cut'] > 0 < line['period']
    low, _, up = one.bounds[:3]
    apart = log(up/low) if 'eps' in question else (up - low)*line['tilt']
    parts = line['errors']
    most = parts['aliases'] + 2*sum(size for name, size in parts.items() if name != 'aliases')
    assert all(size >= 0 for size in parts.values())
    assert apart/6 <= most <= 6*apart + 1e-12

def test_the_line_is_the_one_that_answered():
    "As many nodes as the period and the cut have; its sum at eps is delta."
    run = 40*Laplace(scale=5.)
    said = explain(run, eps=2.)
    (one,), (line,) = said.answers, said.answers[0].lines
    assert line['nodes'] == int(np.ceil(line['cut']*line['period']/(2*np.pi))) + 1
    assert exp(line['gives']) == pytest.approx(said.bounds.estimate, rel=1e-12)
    assert one.direction == 'both' and one.why == ''

def test_what_is_taken_away():
    ends = explain(*ANSWERED['endpoint expansion'][:1], delta=1e-5).answers[0]
    assert ends.lines[0]['taken'] == ['singular part']
    atoms = explain(2*RandomizedResponse(eps=1.) + 3*Gaussian(sigma=1.), eps=1.)
    assert {one.way for one in atoms.answers} <= {'outcomes', 'one line'}
    few = explain(1000*G(.5, 1e-4), delta=1e-7).answers[0]
    assert few.way == 'rows' and few.lines[0]['taken'] == ['small losses']

def test_what_was_refused_says_why():
    said = explain(10*G(1., 1e-7), delta=1e-12)
    why = {one.way: one.why for one in said.tried if one.why}
    assert why == {'closed form': Stop.OTHER_KIND.value, 'rows': Stop.NO_LINE.value,
                   'rows of several kinds': Stop.OTHER_KIND.value,
                   'one line': Stop.MISLED.value}
    assert 'tried: rows: no line of it is short enough' in str(said)
    assert len(said.tried) == len(set((one.way, one.direction) for one in said.tried))

def test_directions():
    said = explain(300*G(2., .01) + 5*Laplace(scale=8.), eps=1.)
    assert [one.direction for one in said.answers] == ['removing', 'adding']
    assert explain((30*G(2., .01)).remove, eps=1.).answers[0].direction == ''
    (rows,) = explain(3000*G(2., .01), delta=1e-5).answers
    assert [line['direction'] for line in rows.lines] == ['removing', 'adding']

def test_bounds_are_never_below_0():
    "Also where a Chernoff bound is below delta at eps < 0."
    said = explain(100*G(1., .01), delta=.7)
    assert all(one.bounds.lower == 0 == one.bounds.upper for one in said.answers)

@pytest.mark.parametrize('run', [3*ZCDP(rho=.1), ANSWERED['SelectionAccountant'][0]])
def test_lines_of_others_are_not_its_own(run):
    "An accountant that asks others is named alone."
    said = explain(run, delta=1e-5)
    (one,) = said.answers
    assert one.lines == () and one.bounds.upper == said.bounds.upper

# Pages, mistakes, silence

@pytest.mark.parametrize('page', sorted({way.page for way in WAYS} | set(PAGES.values())))
def test_pages_and_their_sections_exist(page):
    name, _, section = page.partition('#')
    assert section in headings(NBS/f'{name}.ipynb')

def test_the_table_on_the_page_is_that_of_the_ways():
    cells = json.loads((NBS/'engine'/'ways.ipynb').read_text(encoding='utf-8'))['cells']
    tables = [''.join(out['data']['text/markdown']) for cell in cells
              for out in cell.get('outputs', []) if 'text/markdown' in out.get('data', {})]
    rows = [line.split('|')[1:4] for line in tables[0].splitlines()[2:]]
    assert rows == [[way.name, way.fits, way.buys] for way in WAYS]

@pytest.mark.parametrize('given', [{}, dict(delta=.1, eps=1.)])
def test_one_question_at_a_time(given):
    with pytest.raises(ValueError, match='give either delta or eps, got delta = .* and eps = '):
        explain(3*Gaussian(sigma=1.), **given)

@pytest.mark.parametrize('given', [dict(delta=-1e-9), dict(delta=1.), dict(eps=-1.)])
def test_numbers_out_of_range(given):
    with pytest.raises(ValueError, match=f'{[*given][0]} must be in'):
        explain(3*Gaussian(sigma=1.), **given)

def test_no_trace_is_left():
    "Nor after an error; and what is asked without a trace keeps nothing."
    with pytest.raises(ZeroDivisionError), traced(), attempt('a way'): raise ZeroDivisionError
    assert tracing() is None
    with attempt('a way') as one: epsilon(3000*G(2., .01), delta=1e-5)
    assert one.lines == []
