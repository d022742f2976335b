"""The registry of mechanisms: every name is read, written and known where it has to be."""
import subprocess
import sys
from dataclasses import dataclass, field, fields

import pytest

from dp_saddle import (
    BallsInBins,
    Composition,
    FixedSize,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
    TwoLevelSampled,
    group,
    report,
    selected,
)
from dp_saddle.certificates.interval_transforms import check_run
from dp_saddle.mechanisms import REGISTRY, Mechanism, is_registered, mechanism_named, register
from dp_saddle.plrv import GaussianLoss
from dp_saddle.practice import from_steps, to_steps


@pytest.fixture
def own():
    "A class that is registered for one test: numbers, a list, a text and a run are its fields."
    @register
    @dataclass(frozen=True, kw_only=True)
    class OfMany(Mechanism):
        sigma: float
        weights: tuple = (1.,)
        told: str = 'all'
        before: Mechanism = Gaussian(sigma=1.)
        unsaid: float = field(init=False, default=2.)
        made: tuple = field(default_factory=tuple)

        def loss_of(self, direction): return GaussianLoss(1/self.sigma)
    yield OfMany
    del REGISTRY['OfMany']


@pytest.mark.parametrize('name', REGISTRY)
def test_every_name_is_a_class(name):
    kind = mechanism_named(name)
    assert kind.__name__ == name and issubclass(kind, Mechanism) and is_registered(kind)
    assert all(f.init or f.name == 'computed' for f in fields(kind))


def test_there_and_back_with_every_kind_of_field(own):
    before = 2*Laplace(scale=3.) + 1*own(sigma=4.)
    step = own(sigma=2., weights=(1., 3.), told='some', before=before)
    said = to_steps(5*step)
    assert said[0]['told'] == 'some' and 'unsaid' not in said[0]
    assert said[0]['before'][0]['mechanism'] == 'Laplace'
    assert Composition(tuple(from_steps(said))) == 5*step
    assert from_steps([{'mechanism': 'OfMany', 'sigma': 3}]) == [(own(sigma=3), 1)]


@pytest.mark.parametrize('more, message', [
    ({}, 'sigma is needed for OfMany'), ({'sigma': 1, 'rate': .5}, 'base must be'),
    ({'sigma': 'x'}, "sigma must be a number, got the text 'x'"),
    ({'sigma': 1, 'before': 3}, 'before: steps must be a list'),
    ({'sigma': 1, 'before': []}, 'before: steps must hold at least one'),
    ({'sigma': 1, 'before': [{'mechanism': 'Gaussian', 'sigma': -1}]}, 'before: step 0: sigma'),
    ({'sigma': 1, 'told_': 'x'}, "did you mean 'told'"),
    ({'sigma': 1, 'unsaid': 1}, 'key of step 0')])
def test_what_is_wrong_is_said(own, more, message):
    with pytest.raises(ValueError, match=message): from_steps([{'mechanism': 'OfMany', **more}])


def test_what_is_not_registered_has_no_name(own):
    @dataclass(frozen=True)
    class OfMany(Mechanism): sigma: float = 1.
    for kind in (OfMany, type('Never', (Mechanism,), {})):
        with pytest.raises(ValueError, match='must have a name in a file'): to_steps(kind())


def test_a_function_cannot_be_in_a_file(own):
    with pytest.raises(ValueError, match='a function such as its told cannot be in a file'):
        to_steps(own(sigma=1., told=print))


def test_an_event_of_its_own(own):
    events = pytest.importorskip('dp_accounting').dp_event
    from dp_saddle.interop import as_event
    own.dp_event = lambda self, events: events.GaussianDpEvent(self.sigma/2)
    own.loss_of_sample = lambda self, rate, direction: self.loss_of(direction)
    assert as_event(own(sigma=3.)) == events.GaussianDpEvent(1.5)
    run = 7*PoissonSubsampled(own(sigma=4.), rate=.5) + Laplace(scale=2.)
    sampled = events.PoissonSampledDpEvent(.5, events.GaussianDpEvent(2.))
    steps = [events.SelfComposedDpEvent(sampled, 7), events.LaplaceDpEvent(2.)]
    assert as_event(run) == events.ComposedDpEvent(steps)
    replaced = FixedSize(sigma=4., batch_size=10, dataset_size=100)
    for run in (own(sigma=3.) + replaced, 2*RandomizedResponse(eps=1.)):
        with pytest.raises(ValueError, match='a method dp_event'): as_event(run)


def test_how_batches_are_drawn_is_said_by_the_class(own):
    own.drawn = 'by the moon',
    three = 2*own(sigma=3.) + Gaussian(sigma=1.) + own(sigma=9.)
    said = report(three, delta=1e-5)
    assert 'Sampling: by the moon; then none, each record may take part in every step.' in said
    some = TwoLevelSampled(three, rate=.5, whose='client')
    assert some.drawn == ('client', 'by the moon', 'none', 'by the moon')
    assert selected(some).drawn == some.drawn and (0*some).drawn == ()
    bins = BallsInBins(Gaussian(sigma=2.), batches=10, draws=3)
    assert set((2*bins).drawn) == set(selected(bins).drawn) == {'several-bins'}
    for replacement, word in ((False, 'without'), (True, 'with')):
        step = FixedSize(sigma=4., batch_size=10, dataset_size=100, replacement=replacement)
        assert step.drawn == (f'{word}-replacement',)


def test_a_group_of_its_own(own):
    with pytest.raises(ValueError, match='with `of_group`, where a group of 3 records'):
        group(own(sigma=1.), 3)
    own.of_group = lambda self, size: own(sigma=self.sigma/size)
    assert group(2*own(sigma=6.) + Laplace(scale=1.), 3) == (
        2*own(sigma=2.) + Laplace(scale=1., sensitivity=3.))
    assert group(own(sigma=6.), 1) == own(sigma=6.)


def test_register_refuses(own):
    for kind in (3, int, Gaussian(sigma=1.), type('Plain', (Gaussian,), {})):
        with pytest.raises(TypeError, match='kind must be a dataclass and a Mechanism, got'):
            register(kind)
    for name in ('Laplace', 'Selected', 'OfMany'):
        taken = dataclass(frozen=True)(type(name, (Mechanism,), {'__qualname__': 'elsewhere'}))
        with pytest.raises(ValueError, match=f'got {name}, which is taken'): register(taken)
    assert mechanism_named('OfMany') is own and register(own) is own


def test_what_is_verified_has_a_name():
    with pytest.raises(ValueError, match='to be verified') as found:
        check_run([{'mechanism': 'Selected'}])
    names = str(found.value).split('one of ')[1].split(' to be')[0].split(', ')
    assert len(names) > 9 and set(names) <= set(REGISTRY)


def test_a_file_of_gaussian_steps_loads_no_rare_mechanism():
    code = ("import sys; from dp_saddle.practice import from_steps; "
            "from_steps([{'mechanism': 'Gaussian', 'sigma': 1}]); "
            "assert 'dp_saddle.sampling.two_level' not in sys.modules; "
            "from_steps([{'mechanism': 'TwoLevelSampled', 'rate': .1, 'whose': 'client', "
            "'base': [{'mechanism': 'Gaussian', 'sigma': 2}]}]); "
            "assert 'dp_saddle.sampling.two_level' in sys.modules")
    subprocess.run([sys.executable, '-W', 'error', '-c', code], check=True)


def test_a_round_and_its_words():
    run = 3*PoissonSubsampled(Gaussian(sigma=2.), rate=.1)
    step = TwoLevelSampled(run, rate=.2, whose='record')
    said = to_steps(step)
    assert said[0]['rate'] == .2 and said[0]['base'][0]['rate'] == .1
    assert from_steps(said) == [(step, 1)]
