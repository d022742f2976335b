"""Random questions against independent references: a thousand answers here, as many as you like by
`QUESTIONS=100000 pytest -m slow tests/test_questions.py`, or in parts by
`python tests/questions.py --first N`."""
import json
import math
import os
import warnings

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

import oracles
import questions as asked
from dp_saddle.engine.line import CgfTable
from dp_saddle.engine.sorted_runs import LeveledTable
from dp_saddle.engine.ways import ContourAccountant
from dp_saddle.plrv import composed

# Of answers; 1 in 1,000 is the aim. (Finite: an eps and a loss of 1e-139 beside probabilities that
# are given to 1e-16. Of noise of one's own, and of replaced records, less is known.)
MOST_WIDE = {'sampled-few': 0, 'sampled': 0, 'laplace': 0, 'finite': 1, 'mixed': 0, 'hetero': 0,
             'own': 14, 'triples': 3, 'bins': 0, 'replaced': 22, 'ends': 0}
SLOW = int(os.environ.get('QUESTIONS', 600))
with open(asked.CHOSEN, encoding='utf-8') as file: CHOSEN = json.load(file)

def S(sigma, rate): return 'sub', ('gaussian', sigma), rate

@pytest.mark.parametrize('part', [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize('family', asked.FAMILIES)
def test_cheap_questions(family, part):
    "None missed, none wider than 1e-6 without a warning, and no more of them than there were."
    table, chosen = asked.Table(), CHOSEN[family][part::2]
    for number in chosen:
        q = asked.question(family, number, light=True)
        for record in asked.judged(q): table.add(q, record)
    said = '\n'.join([str(table), *table.lines])
    assert table.total('asked') == 2*len(chosen)
    assert table.total('missed') == table.total('unsaid') == 0, said
    assert table.total('wide') <= MOST_WIDE[family], said

def test_a_thousand():
    assert sum(map(len, CHOSEN.values())) >= 500        # of each, eps and delta are asked

@pytest.mark.slow
@pytest.mark.parametrize('family', asked.FAMILIES)
def test_questions(family):
    "As many as the environment's QUESTIONS says, as many of each family."
    table = asked.Table()
    for q in asked.questions(SLOW//len(asked.FAMILIES), seed=1, families=[family]):
        try:
            for record in asked.within(60, q, 2, True): table.add(q, record)
        except TimeoutError: table.late(q, 60)
    said = '\n'.join([str(table), *table.lines])
    print(said)
    assert table.total('missed') == table.total('unsaid') == 0, said

NOTHING = [
    (((S(5.03736830287425, 2.639704367558326e-08), 1), (S(9.949668800807341, 4.9827616e-06), 1),
      (S(.8104901407736567, 4.0206975516995565e-06), 2)), .0158761955998779),
    (((S(.9848417008732042, 5.235858181302383e-08), 41), (S(.40667807982, 6.28528719e-09), 91)),
     6.324846480133634e-05),
]

@pytest.mark.parametrize('steps, delta', NOTHING)
def test_nothing_is_said_at_once(monkeypatch, steps, delta):
    "Where single steps prove that eps is 0, no run is sorted."
    def sorted_out(*_): raise AssertionError('runs were sorted')
    monkeypatch.setattr(LeveledTable, 'line_for', sorted_out)
    run = asked.make(steps).remove
    assert ContourAccountant(run).epsilon(delta) == (0., 0., 0.)
    assert asked.ask(lambda: ContourAccountant(run), 'delta', 0.).up <= delta

# ---------------- the levels, where a closed form or a quadrature tells the truth

def leveled(steps, eps):
    "Bounds on delta, level by level, also of one step."
    table = LeveledTable(composed(asked.make(steps).remove), 1e-10, 1e-6, 1 << 18)
    with np.errstate(all='ignore'): low, _, up = table.log_delta(np.array([eps]))[:, 0]
    return [mp.exp(mpf(float(x))) if x > -math.inf else mpf(0) for x in (low, up)]

LEVELS = [
    (((S(2.338088864713637, 5.884250439436732e-07), 2),), 1.5612160542620237),
    (((S(1., 1e-6), 2),), 3.), (((S(25., 1e-3), 2),), .002), (((S(.4, 1e-9), 2),), 10.),
    (((S(.7, 1e-8), 1), (S(5., 1e-2), 1)), .3),
    (((S(1., 1e-4), 1),), 2.), (((S(.5, 1e-9), 1),), 20.), (((S(10., 1e-2), 1),), .05),
]

@pytest.mark.parametrize('steps, eps', LEVELS)
def test_levels(steps, eps):
    low, up = leveled(steps, eps)
    least, most = asked.Reference(steps, 'remove').bounds(eps)
    assert low <= most and least <= up

BELOW_0 = ((S(1.8406022145581213, 4.385435341920269e-09), 35),
           (S(.463283034317424, 8.352164365718657e-4), 2))

@pytest.mark.parametrize('eps', [0., pytest.param(1e-6, marks=pytest.mark.slow)])
def test_a_window_of_nothing_but_losses_below_0(eps):
    "Its tilts are positive nevertheless: this was [.00107, 1], and nothing warned."
    two = asked.Reference(BELOW_0[1:], 'remove')
    accountant, rare = ContourAccountant(asked.make(BELOW_0).remove), 35*BELOW_0[0][0][2]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter('always')
        low, _, up = accountant.delta(eps)
    least, most = two.bounds(eps)
    assert least <= up <= low*(1 + 1e-4) and low <= most + rare
    assert warned or up <= low*(1 + 1e-6)

def test_a_way_that_says_nothing(monkeypatch):
    "nan is no bound: what else is known stays, and it is said that this is wide."
    run = asked.make(BELOW_0).remove
    def nothing(self, eps, floor=-math.inf): return np.full((3, len(eps)), math.nan)
    monkeypatch.setattr(LeveledTable, 'log_delta', nothing)
    with pytest.warns(UserWarning, match='wide'): low, mid, up = ContourAccountant(run).delta(.1)
    assert 0 < low <= mid <= up < 1.5*low

# ---------------- adding, at tilts so steep that the line's paths have to be lower

STEEP = [(S(13.8, .0078), 2, 9.1e-106), (S(2.63, .0127), 2, 4.3e-210), (S(2.63, .0127), 3, 4e-210),
         (S(1.58, 3.2e-6), 2, 5.7e-133), (S(1.58, 3.2e-6), 5, 5.7e-133), (S(.5, 1.2e-4), 3, 3e-193)]

@pytest.mark.parametrize('step, count, delta', STEEP)
def test_adding_at_steep_tilts(step, count, delta):
    "eps of a tiny delta, next to the largest loss: narrow, soon, and true."
    steps = ((step, count),)
    accountant = ContourAccountant(asked.make(steps).add)
    low, mid, up = accountant.epsilon(delta)
    assert low <= mid <= up <= low*(1 + 2e-8)
    if count == 2:
        for eps in (low, up):
            least, most = asked.Reference(steps, 'add').bounds(eps)
            found = accountant.delta(eps)
            assert found.lower <= most and least <= found.upper <= found.lower*(1 + 1e-6)

# ---------------- several kinds of rare steps; beside finite ones; sharp ones; flat losses

SORTED = {
    'two kinds': (((S(1.5, 3e-8), 1), (S(7.4, 2e-7), 1)), 'remove', 5e-145, .8),
    'three kinds': (((S(23.7, 4e-5), 3), (S(.8, 1.6e-6), 2), (S(16., 2e-5), 1)), 'remove', 3e-6,
                    1.1),
    'answers': (((('rr', .147), 2), (S(5.3, 2e-7), 1)), 'remove', 1e-108, 1.04),
    'a rare answer': (((('sub', ('rr', .67), 2.6e-7), 1), (S(.62, 1.8e-5), 2)), 'remove', 8e-11,
                      1.05),
    'infinite losses': (((('approx', 1.58, 2.2e-213), 1), (S(5.7, 7.6e-6), 2)), 'remove',
                        2.4e-134, 1.04),
    'beside a Gaussian': (((('rr', .5), 1), (('gaussian', 3.), 4), (S(2., 1e-6), 5)), 'remove',
                          1e-30, 1.1),
    'two, by a chord': (((S(2.276, 1e-6), 2),), 'remove', 3.5e-232, .34),
    'sharp': (((S(.5, 1e-5), 2),), 'remove', 1e-101, .8),
    'many sharp': (((S(.46, 5.4e-5), 60),), 'remove', 1e-124, 1.14),
    'flat': (((('sub', ('laplace', 3.6), 4.9e-6), 2),), 'remove', 1.9e-109, .63),
    'flat, many': (((('sub', ('laplace', 42.), 1e-9), 265),), 'add', 1e-10, .6),
    'two sizes': (((('sub', ('laplace', .18), 1.9e-7), 2),), 'add', 1e-7, .5),
    'two sizes, at 0': (((('sub', ('laplace', .19), 2e-4), 2),), 'remove', 1e-9, 0.),
    'two sizes, many': (((('sub', ('laplace', .1145), 7.8e-8), 6151),), 'remove', 1e-251, .9),
    'heavy beside light': (((S(17.6, .33), 1), (S(2.37, 4.3e-7), 1)), 'remove', 3e-293, .98),
    'at the end': (((('laplace', 9.2), 96),), 'add', 1e-276, .9),
    'at both ends': (((S(.42, 3e-6), 2),), 'add', 1e-280, .9),
}

LONG = 'three kinds', 'many sharp', 'flat, many'    # seconds each, and the others like them are not
DEAR = 'two kinds', 'answers', 'a rare answer', 'infinite losses'    # unsorted; a second each

@pytest.mark.parametrize('name', [
    pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in SORTED])
def test_what_one_line_cannot_do(name):
    "Both answers are true and narrow where runs are sorted, and where panels follow the slope."
    q = asked.Question('', *SORTED[name])
    for record in asked.judged(q):
        assert not record.missed and not record.wide, asked.told(q, record)

RARE = (('discrete', (.4, .01, .55, .04), (5e-151, 1.6e-29, 3e-83, 1.)), 25)
RARER = (('discrete', (2.6e-130, 2.3e-119, 4e-222, 1.), (5e-154, 8.8e-45, 9e-181, 1.)), 9)

@pytest.mark.parametrize('delta', [5e-119, 1e-40, .1])
def test_two_million_outcomes(delta):
    "Nearly all of them rarer than any double: the others are added up. The oracle adds up all."
    steps = RARE, (('sub', ('rr', 8.), 4e-5), 2), RARER
    low, _, up = ContourAccountant(asked.make(steps).add).epsilon(delta)
    assert low <= up < low + 1e-9 and math.comb(28, 3)*3*math.comb(12, 3) > 2e6
    assert oracles.finite(steps, up, 'add', 400) <= delta
    assert low == 0 or oracles.finite(steps, low, 'add', 400) >= delta

@pytest.fixture
def made(monkeypatch):
    "What sets of lines are asked for, one entry each."
    asked_for, line_for = [], LeveledTable.line_for
    def counted(*given):
        asked_for.append(given)
        return line_for(*given)
    monkeypatch.setattr(LeveledTable, 'line_for', counted)
    return asked_for

@pytest.mark.parametrize('steps, delta, most', [
    (((S(23.008914451114514, 2.0382538123994145e-4), 5),), 2.064601512189323e-166, 1),
    (((S(9.166994068645455, 3.333307359195499e-05), 181567),), 7.36693727049919e-132, 1),
    (((S(18.119406548609287, 3.864680095313916e-4), 2),
      (S(29.564594567351087, 6.712924974269082e-4), 3)), 7.978443977544751e-144, 1),
    pytest.param(((S(21.18, .0273), 2), (S(.401, 3.78e-9), 3)), 4.65e-11, 2,
                 marks=[pytest.mark.slow, pytest.mark.xfail(strict=True, reason='it takes four')]),
    pytest.param(((S(7.230718760046749, 8.111152345362677e-09), 3),
                  (S(.3698520247809448, 1.307099807931633e-07), 45),
                  (S(.6298583218359948, 5.343505481562061e-4), 2)), 2.4897013941896476e-263, 1,
                 marks=pytest.mark.slow),
    pytest.param(((S(1.94, 4.8e-5), 93824),), 7.6e-44, 2, marks=pytest.mark.slow),
    pytest.param(((S(11.4, 3.7e-4), 20142),), 2.1e-158, 2, marks=pytest.mark.slow),
    pytest.param(((('rr', 2.8e-4), 3), (S(23.3, 5.2e-7), 7)), 1e-20, 40, marks=pytest.mark.slow),
    (((S(.6070914089594092, 3.978643339953109e-09), 3),
      (S(12.763316487822646, 5.615731602509112e-09), 1)), 1.9807792237864117e-11, 2),
    (((S(.4382170696034242, 7.239706292775849e-08), 2),
      (S(4.3106871181861095, 3.3925951075599544e-07), 2)), 6.6143165695117204e-09, 2),
    (((S(.4813675137877483, 9.167342821074281e-08), 4),), 1.3519892699404307e-07, 3),
])
def test_few_lines_on_the_way(made, steps, delta, most):
    "An eps of runs that have to be sorted is found with few sets of lines."
    run = asked.make(steps).remove
    low, _, up = ContourAccountant(run).epsilon(delta)
    assert 0 < len(made) <= most and low <= up < low + 1e-9
    kept = ContourAccountant(run)
    assert kept.delta(up).lower <= delta <= kept.delta(low).upper

def delta_of_two_steps(eps, sigma, rate):
    "Removing: the outcome of the first by quadrature, the curve of the second in closed form."
    mu, q, eps = 1/mpf(sigma), mpf(rate), mpf(eps)
    def where(ratio): return mp.log1p((ratio - 1)/q)/mu + mu/2     # there P is `ratio` times Q
    def curve(ratio):
        if ratio <= 1 - q: return 1 - ratio
        x = where(ratio)
        return (1 - q)*mp.ncdf(-x) + q*mp.ncdf(mu - x) - ratio*mp.ncdf(-x)
    def part(x):
        both = 1 + q*mp.expm1(mu*x - mu*mu/2)
        return mp.npdf(x)*both*curve(mp.exp(eps)/both)
    bends = [where(mp.exp(eps)), where(mp.exp(eps)/(1 - q))]
    near = [bends[1] + k*mpf(10)**-j for k in (-1, 1) for j in range(4)]
    return mp.quad(part, sorted([-mp.inf, *range(-10, 40, 2), *bends, *near, mp.inf]))

def test_many_deltas_share_lines(made):
    "Sixty deltas of rare, large losses: a few sets of lines, and the bounds hold."
    deltas = np.geomspace(1e-12, 5e-6, 60)
    found = ContourAccountant(asked.make(((S(.6, 1e-5), 2),))).epsilon(deltas)
    assert (found.upper - found.lower < 1e-11).all() and 0 < len(made) <= 12
    with mp.workdps(30):
        for k in (0, 59):
            assert delta_of_two_steps(found.upper[k], .6, 1e-5) <= deltas[k]
            assert deltas[k] <= delta_of_two_steps(found.lower[k], .6, 1e-5)

def test_no_delta_is_asked_alone(made):
    "A guess far too large, and a line that is too wide: both are tried together once more."
    run = asked.make(((S(.6, 1e-5), 10),))
    deltas = np.logspace(-12, -2, 100)
    found = ContourAccountant(run).epsilon(deltas)
    assert 0 < len(made) <= 6
    assert (np.diff(found.lower) <= 0).all() and (found.upper - found.lower < 1e-10).all()
    for k in (0, 61, 75):
        alone = ContourAccountant(run).epsilon(deltas[k])
        assert found.lower[k] <= alone.upper and alone.lower <= found.upper[k]

def test_an_eps_next_to_0(made):
    "delta is that of eps = 0 but for 1e-9: one chord leads there, not thirty halves of sets."
    steps = ((S(.6913487598725387, 1.0201199759775372e-07), 2),
             (S(1.339826942262704, 1.0415455552284112e-06), 1))
    run, delta = asked.make(steps).remove, 3.302467163537275e-07
    low, _, up = ContourAccountant(run).epsilon(delta)
    assert len(made) < 4 and low <= up < 1e-12
    assert low == 0 or ContourAccountant(run).delta(low).upper >= delta

def test_a_line_that_no_longer_knows():
    "delta falls faster than the line's terms: it is built again, where it said nothing before."
    steps = ((('sub', ('rr', .10486578766021565), 3.558200112969709e-4), 1),
             (S(20.53356002535096, 3.1086449500829035e-07), 307))
    low, _, up = ContourAccountant(asked.make(steps).remove).epsilon(4.2749445602403856e-139)
    assert 4.6e-5 < low <= up < low*(1 + 1e-9)

def test_kept_tables_say_the_same():
    "One table asked for many deltas, against new ones; eps up and down, so that cuts are kept."
    plrv, deltas = composed((9*asked.make(((S(2., 1e-6), 1),))).remove), [1e-9, 1e-60, 1e-200]
    settings = 1e-10, 1e-6, 1 << 18
    kept = LeveledTable(plrv, *settings)
    for delta in [*deltas, *deltas[::-1]]:
        low, _, up = kept.epsilon(delta)
        least, _, most = LeveledTable(plrv, *settings).epsilon(delta)
        assert low <= most and least <= up < low + 2*(most - least) + 1e-14*up
    for eps in (low, up, low/2, 2*up):
        at, near = np.array([eps]), np.array([math.log(deltas[0])])
        logs = kept.line_for(at, near).log_bounds(at)[:, 0]
        new = LeveledTable(plrv, *settings).line_for(at, near).log_bounds(at)[:, 0]
        assert logs[0] <= new[2] and new[0] <= logs[2] < max(logs[0], new[2]) + 1e-6

def test_a_level_serves_smaller_eps():
    "Its line knows delta two nats of its terms below where it was built: no alias sets in at once."
    plrv = composed(asked.make(((S(23., 2e-4), 5),)).remove)
    table = LeveledTable(plrv, 1e-10, 1e-6, 1 << 18)
    goal, eps = np.array([-381.5]), np.array([7e-4])
    line = table.line_for(eps, goal)
    low, _, up = line.log_bounds(eps*np.array([1, 1 - 1e-9, 1 - 1e-6]))
    assert (up - low < 1e-7).all() and 0 < line.cancellation(7e-10) < 2

def test_single_steps_tell_a_misled_line(monkeypatch):
    "The leading order of K with a sharp corner is far off: no line is built where it leads."
    run, built = asked.make(((S(23.008914451114514, 2.0382538123994145e-4), 5),)).remove, []
    plain = CgfTable.line
    def line(self, plan):
        built.append(self.plrv.whole)
        return plain(self, plan)
    monkeypatch.setattr(CgfTable, 'line', line)
    low, _, up = ContourAccountant(run).epsilon(2.064601512189323e-166)
    assert low <= up < low*(1 + 1e-9) and built and not any(built)

@pytest.mark.slow
def relative_width(steps, direction, eps):
    plrv = getattr(asked.make(steps), direction)
    answer = asked.ask(lambda: ContourAccountant(plrv), 'delta', eps)
    assert not answer.warned
    return (answer.up - answer.low)/answer.up

@pytest.mark.parametrize('steps, direction, eps', [
    (((('sub', ('laplace', .16125365372395672), .004645375524485246), 9),), 'remove', 1.6634769),
    (((('sub', ('laplace', .11628228595960553), 3.0056866e-6), 6),), 'remove', .010261643),
    (((('sub', ('laplace', 3.382071780690267), 2.1154526e-6), 408),), 'add', 2.13594341e-5),
    (((('sub', ('laplace', 2.62002115934384), 3.711651e-6), 285),), 'add', 1.12570610463e-4),
])
def test_a_spline_has_room(steps, direction, eps):
    "Losses end where the period does: the spline looks beyond neither."
    assert relative_width(steps, direction, eps) < 5e-7

@pytest.mark.parametrize('steps, eps, width', [
    (((S(4.264564494536837, 8.023586209734518e-07), 1),
      (S(18.703793747104573, 2.1854572158085114e-4), 2)), 9.288805923322823e-4, 1e-4),
    (((S(4.249497271267477, 8.660835217357638e-07), 2),
      (S(27.455746150925282, 1.0622322936287698e-09), 1),
      (S(24.36455189870502, 9.031636690721855e-05), 1)), 1.2026502477805918e-4, .1),
])
def test_two_clumps_in_a_level(steps, eps, width):
    "Levels of unlike kinds, next to a delta of 1e-200: wider than others, and a warning says so."
    run = asked.make(steps).remove
    answer = asked.ask(lambda: ContourAccountant(run), 'delta', eps)
    assert answer.warned and 0 < answer.low <= answer.up < answer.low*(1 + width)

@pytest.mark.parametrize('steps, delta', [
    (((('discrete', (9.2e-156, 4.53e-31, 8.29e-294, 1.), (.76, .128, .104, .008)), 1),
      (S(3.808, 1.7946e-8), 253)), 8.56e-5),
    (((('rr', 22.985431565577514), 8), (S(6.054238502754725, 1.0604509e-7), 3)), 2.35462571e-5),
])
def test_next_to_a_largest_loss(steps, delta):
    "A few losses of next to nothing beside one of hundreds of nats."
    plrv = asked.make(steps).add
    answer = asked.ask(lambda: ContourAccountant(plrv), 'epsilon', delta)
    assert answer.low <= answer.up < answer.low + asked.WIDE and not answer.warned
    kept = ContourAccountant(plrv)
    assert kept.delta(answer.up).lower <= delta <= kept.delta(answer.low).upper

@pytest.mark.parametrize('names, least', [
    (sorted(SORTED.keys() - set(DEAR)), 3), pytest.param(DEAR, 4, marks=pytest.mark.slow)],
    ids=['cheap', 'dear'])
def test_sorted_is_narrower(names, least):
    "Without sorting, some of these are wide, so that the test above tests something."
    wide = 0
    for steps, direction, delta, _ in (SORTED[name] for name in names):
        accountant = ContourAccountant(asked.loss(asked.Question('', steps, direction, 0., 0.)),
                                       levels=False)
        answer = asked.ask(lambda accountant=accountant: accountant, 'epsilon', delta)
        wide += answer.up - answer.low > asked.WIDE
        assert answer.warned or answer.up - answer.low <= asked.WIDE
    assert wide >= least

@pytest.mark.parametrize('kind', ['gaussian', 'laplace'])
def test_references_at_large_losses(kind):
    "The closed form in doubles where a loss is many nats."
    for mu in (2., 7.4, 20.):
        for eps in (0., .001, mu/2, .9*mu, mu*mu/4):
            step = asked.Step(kind, mu, 1., False)
            exact = oracles.one_step((kind, 1/mu), eps, 'add')
            if exact < 1e-300: continue
            assert abs(float(step.log_delta(np.array([eps]))[0]) - float(mp.log(exact))) < 1e-12

# ---------------- the references themselves

@pytest.mark.parametrize('kind', ['gaussian', 'laplace'])
@pytest.mark.parametrize('direction', ['remove', 'add'])
def test_one_step_in_doubles(kind, direction):
    "The closed form in doubles is that of the oracles, at positive and negative eps."
    rng = np.random.default_rng(3)
    for _ in range(50):
        scale, rate = np.exp(rng.uniform(np.log([.3, 1e-9]), np.log([30, .9])))
        eps = float(rng.choice([-1, 1])*np.exp(rng.uniform(-20, 3)))
        step = asked.Step(kind, 1/scale, rate, direction == 'remove')
        exact = oracles.one_step(('sub', (kind, float(scale)), float(rate)), eps, direction)
        if exact < 1e-290: continue
        assert abs(float(step.log_delta(np.array([eps]))[0]) - float(mp.log(exact))) < 1e-12

@pytest.mark.parametrize('eps', [0., .3, 5., 30.])
def test_two_steps_are_one_gaussian(eps):
    steps = [asked.Step('gaussian', mu, 1., True) for mu in (.8, 1.1)]
    exact = float(mp.log(oracles.gaussian([.8, 1.1], eps)))
    assert abs(float(asked.log_delta_of(steps, eps)) - exact) < 1e-12

def test_an_overflow_is_no_truth():
    "It would contradict nothing. A function that is large but where it is first looked at:"
    first = (np.polynomial.legendre.leggauss(16)[0] + 1)/2
    def hidden(y): return np.where(np.abs(y[:, None] - first).min(1) < 1e-12, 0., 1500.)
    with np.errstate(over='ignore', invalid='ignore'), pytest.raises(asked.Unknown):
        asked.log_integral(hidden, np.array([0., 1.]), 1e-13)

def test_narrow_peaks_are_seen():
    "Next to where the second step's support ends; the value is from a quadrature in 40 digits."
    steps, eps = LEVELS[0]
    low, up = asked.Reference(steps, 'remove').bounds(eps)
    assert low < mpf('1.0687004982992743909e-298') < up < low*(1 + mpf('1e-10'))
