"""The verifier's ways, beside enumeration and beside the library's bounds."""
import numpy as np
import pytest
from flint import arb, ctx

from dp_saddle import mechanisms as ms
from dp_saddle.certificates import interval_transforms as balls
from dp_saddle.certificates import verification
from dp_saddle.engine.ways import ContourAccountant
from dp_saddle.practice.schedules import to_steps


@pytest.fixture(autouse=True)
def precision():
    with ctx.workprec(balls.PRECISION):
        yield

RUNS = [
    7*ms.RandomizedResponse(eps=.3) + 2*ms.ApproxDP(eps=.1, delta=1e-3),
    5*ms.PoissonSubsampled(ms.DiscreteLaplace(scale=3., sensitivity=2), rate=.4),
    3*ms.Discrete(p=(.2, .3, .5), q=(.3, .3, .4)),
    ms.Discrete(p=(.25, .75, 0.), q=(0., .5, .5)),
    ms.PoissonSubsampled(ms.Laplace(scale=1.5), rate=.25),
    ms.PoissonSubsampled(ms.Gaussian(sigma=.8), rate=.5),
    2*ms.Gaussian(sigma=3.) + ms.Gaussian(sigma=1., sensitivity=.5),
]

@pytest.mark.parametrize('run', RUNS, ids=str)
def test_exact_ways(run):
    "Enumeration and one step's curve lie within the library's bounds."
    verifier = verification.Verifier(to_steps(run))
    for direction in ('remove', 'add'):
        parts = verifier.parts[direction]
        way = 'one step' if [n for _, n in parts] == [1] else 'outcomes'
        for eps in (0., .1, .4):
            low, up = verifier.bounds(direction, arb(eps), {'by': way})
            ours = ContourAccountant(getattr(run, direction)).delta(eps)
            assert ours.lower <= float(up) and float(low) <= ours.upper
            assert float(up - low) < 1e-30

def test_every_way_holds_the_truth():
    "All ways of one run, in the order of their sharpness."
    run = 20*ms.PoissonSubsampled(ms.Laplace(scale=3.), rate=.2) + 3*ms.RandomizedResponse(eps=.2)
    verifier = verification.Verifier(to_steps(run))
    ours = ContourAccountant(run.remove, max_nodes=1 << 14).delta(.5)
    plan = {'by': 'line', 'tilt': 9., 'period': 6., 'nodes': 3000, 'smoothing': 2e-3,
            'far tilt': 20.}
    ways = [plan, {'by': 'moments', 'tilt': 9.}, {'by': 'single steps'}, {'by': 'nothing'}]
    for way in ways:
        low, up = (float(x) for x in verifier.bounds('remove', arb(.5), way))
        assert low <= ours.upper and ours.lower <= up
    exact = verifier.bounds('remove', arb(.5), plan)
    assert float(exact[1] - exact[0]) < .01*ours.upper

def test_bad_plans_are_wide_or_refused():
    run = [{'mechanism': 'Gaussian', 'sigma': 2., 'rate': .01, 'count': 3000}]
    good = {'by': 'line', 'tilt': 10.5, 'period': 8., 'nodes': 40, 'smoothing': 0., 'far tilt': 18.}
    truth = verification.Verifier(run).bounds('remove', arb(1), good)
    rng = np.random.default_rng(5)
    for _ in range(40):
        plan = {**good, 'tilt': rng.uniform(.1, 40), 'period': rng.uniform(.1, 20),
                'nodes': int(rng.integers(1, 80)), 'smoothing': rng.choice([0., rng.uniform(0, 1)]),
                'far tilt': rng.choice([None, rng.uniform(.1, 50)])}
        low, up = verification.Verifier(run).bounds('remove', arb(1), plan)
        assert not low > truth[1] and not up < truth[0]
    for way in ('outcomes', 'one step'):
        with pytest.raises(ValueError, match='must be by a line'):
            verification.Verifier(run).bounds('remove', arb(1), {'by': way})

@pytest.mark.parametrize('run', RUNS[:5], ids=str)
def test_largest_losses_hold_what_the_outcomes_say(run):
    "Below by the chance of the largest one, above by its value: 0 from there on."
    verifier = verification.Verifier(to_steps(run))
    for direction in ('remove', 'add'):
        way = 'one step' if [n for _, n in verifier.parts[direction]] == [1] else 'outcomes'
        for eps in (0., .1, .4, .9, 2., 9.):
            low, up = verifier.bounds(direction, arb(eps), {'by': 'largest losses'})
            least, most = verifier.bounds(direction, arb(eps), {'by': way})
            mass = verification.lost(verifier.parts[direction])
            assert not low > most and not least > up
            assert (low > mass) == (up > mass) == (most > mass)

def test_no_largest_loss_proves_nothing():
    with pytest.raises(ValueError, match='plan must be another'):
        run = [{'mechanism': 'Gaussian', 'sigma': 2.}, {'mechanism': 'PureDP', 'eps': 1.}]
        verification.Verifier(run).bounds('remove', arb(1), {'by': 'largest losses'})
