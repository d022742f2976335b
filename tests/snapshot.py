"""Does the library still give the same answers?

    python tests/snapshot.py                                 compares; exit status 1 on a difference
    python tests/snapshot.py --write tests/snapshot.json     what it says now is kept

Many questions, and the answers of an earlier commit, kept as hexadecimal doubles. Answers are the
same, on any processor and with any NumPy and SciPy, if bounds overlap and are at most `WIDER` times
as wide as they were, all other numbers agree to `LOOSELY`, and words are equal. An answer that is
meant to differ further is named in `MEANT`, which is emptied when the file is written anew.

Code that is moved and not changed gives the same doubles, on one machine: `--write` another file at
the earlier commit, and compare with `--bits --against` that file.

Every question builds its mechanisms and accountants itself, for what they keep may change the last
bits of the next answer. Only public names of the package are used, so that its modules may be taken
apart and put together in other ways.
"""

import os

for _variable in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ[_variable] = (
        '1'  # before NumPy is imported: sums in other orders have other last bits
    )
os.environ.setdefault('MPLBACKEND', 'Agg')

import argparse
import contextlib
import importlib
import io
import json
import pkgutil
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dp_saddle as dp
from dp_saddle import (
    ApproxDP,
    ContourAccountant,
    Discrete,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
)

FILE = Path(__file__).resolve().with_suffix('.json')

LOOSELY = 1e-6  # relative, of numbers that are no bounds
WIDER = 2
WIDER_HERE = {  # by name: lines of classes of deltas are others; 3e-12 of delta
    'ContourAccountant(1000 Poisson(Gaussian(1), .01)).delta(16 values)': 2.5,
}
ROUNDING = 2**-51  # relative: two units in the last place, where bounds were equal
# Of numbers near 0, beside the largest in the same answer: what cancels has no digits of its own.
NOTHING = 1e-12
# {a question, or a part of its text: (how far a number may go, relative; why)}.
MEANT = {
    'gdp(dpsgd(without-replacement': (0.5, 'how much less the run may cost is that of one pair'),
    'prawitz_bound(': (1e-3, 'its integrals have equally many panels'),
    'EdgeworthInterval in compare(': (1e-2, 'it tries other tilts and free parameters'),
    'epsilon_after: two kinds': (2e-4, 'few prefixes: each is asked of the front door'),
    'epsilon_after: one kind': (2e-4, 'few prefixes: each is asked of the front door'),
    'individual_epsilon(contour)': (1e-4, 'lines of split steps leave out 1e-5 of delta'),
    'IndividualAccountant.mu': (6e-3, 'a mu from such lines: one of four is wider'),
    'compare(10 DiscreteLaplace(4)': (1, "the CLT's lower bound is .318, was 0; PRV's by 4e-9"),
    'newer: epsilon(selected, Poisson)': (1e-4, 'an upper bound, from finer cells'),
    'epsilon_after(dpsgd(without-replacement': (5e-2, 'others are bounded one by one'),
    'connect_the_dots(': (1, 'a few points more; what is below 1e-30 is smaller'),
    'with_replacement: cgf(real)': (1e-14, 'its nodes end where a normal number has e^-37'),
    'transform_bound': (.75, "smaller: a third moment's error is, and two parameters are tried"),
    'gdp(': (3e-3, 'its points are others; regret by .3 per cent'),
}

QUESTIONS = {}  # {text: function without arguments}, in the order they are asked
LAST_MODULES = 'widgets.runs', 'interop.events', 'interop.opacus'  # slow to import


def public(name):
    "The public function or class of that name, in whichever module of the package it is."
    if name in dp.__all__:
        return getattr(dp, name)
    modules = [m.name for m in pkgutil.walk_packages(dp.__path__, 'dp_saddle.') if not m.ispkg]
    modules = [module for module in modules if '._' not in module]
    for module in sorted(modules, key=lambda module: (module.endswith(LAST_MODULES), module)):
        found = importlib.import_module(module)
        if name in getattr(found, '__all__', ()):
            return getattr(found, name)
    raise AttributeError(f'no public name {name!r} in any module of dp_saddle')


def ask(text, question):
    "Add a question: a text of its own, and a function without arguments that answers it."
    if text in QUESTIONS:
        raise ValueError(f'this question is asked twice: {text}')
    QUESTIONS[text] = question


# ----------------------------------------------------------------------------------------- the runs


def sampled(base, rate):
    "A Poisson-subsampled step."
    return PoissonSubsampled(base=base, rate=rate)


SKEWED = dict(p=(0.5, 0.3, 0.2), q=(0.4, 0.35, 0.25))
ROUGH = dict(p=(0.31, 0.27, 0.42), q=(0.29, 0.3, 0.41))
PARTLY_INFINITE = dict(p=(0.6, 0.399, 0.001), q=(0.5, 0.5, 0.0))

# {text: (function that builds the run, the eps at about delta = 1e-5)}
RUNS = {
    'Gaussian(1.3)': (lambda: Gaussian(sigma=1.3), 3.3),
    '50 Gaussian(8)': (lambda: 50 * Gaussian(sigma=8.0), 3.9),
    'Gaussian(80)': (lambda: Gaussian(sigma=80.0), 0.036),
    '3 Gaussian(.3, sensitivity 2)': (lambda: 3 * Gaussian(sigma=0.3, sensitivity=2.0), 115.0),
    'Laplace(1.5)': (lambda: Laplace(scale=1.5), 0.66),
    '20 Laplace(6)': (lambda: 20 * Laplace(scale=6.0), 2.6),
    '400 Laplace(40)': (lambda: 400 * Laplace(scale=40.0), 1.9),
    '1000 Poisson(Gaussian(1), .01)': (lambda: 1000 * sampled(Gaussian(sigma=1.0), 0.01), 1.8),
    '3 Poisson(Gaussian(.8), .1)': (lambda: 3 * sampled(Gaussian(sigma=0.8), 0.1), 3.6),
    '1 Poisson(Gaussian(1.2), .3)': (lambda: sampled(Gaussian(sigma=1.2), 0.3), 2.4),
    '100000 Poisson(Gaussian(.7), 1e-6)': (
        lambda: 10**5 * sampled(Gaussian(sigma=0.7), 1e-6),
        0.05,
    ),
    '20000 Poisson(Gaussian(1), 1e-4)': (lambda: 20000 * sampled(Gaussian(sigma=1.0), 1e-4), 0.1),
    '40 Poisson(Gaussian(5), .9)': (lambda: 40 * sampled(Gaussian(sigma=5.0), 0.9), 5.2),
    '10 Poisson(Gaussian(4), 1)': (lambda: 10 * sampled(Gaussian(sigma=4.0), 1.0), 3.3),
    '1000000 Poisson(Gaussian(20), .001)': (
        lambda: 10**6 * sampled(Gaussian(sigma=20.0), 0.001),
        0.2,
    ),
    '60 Poisson(Laplace(1), .05)': (lambda: 60 * sampled(Laplace(scale=1.0), 0.05), 2.0),
    '2 Poisson(Laplace(.7), .4)': (lambda: 2 * sampled(Laplace(scale=0.7), 0.4), 1.5),
    'RandomizedResponse(.5)': (lambda: RandomizedResponse(eps=0.5), 0.49),
    '30 RandomizedResponse(.2)': (lambda: 30 * RandomizedResponse(eps=0.2), 4.2),
    '3000 RandomizedResponse(.02)': (lambda: 3000 * RandomizedResponse(eps=0.02), 4.6),
    '100 Poisson(RandomizedResponse(1), .1)': (
        lambda: 100 * sampled(RandomizedResponse(eps=1.0), 0.1),
        2.0,
    ),
    '5 PureDP(.1)': (lambda: 5 * PureDP(eps=0.1), 0.49),
    'ApproxDP(.3, 1e-6)': (lambda: ApproxDP(eps=0.3, delta=1e-6), 0.29),
    '10 ApproxDP(.1, 1e-8)': (lambda: 10 * ApproxDP(eps=0.1, delta=1e-8), 0.9),
    '20 Poisson(ApproxDP(.5, 1e-5), .2)': (
        lambda: 20 * sampled(ApproxDP(eps=0.5, delta=1e-5), 0.2),
        1.5,
    ),
    '12 Discrete(skewed)': (lambda: 12 * Discrete(**SKEWED), 2.0),
    '200 Discrete(rough)': (lambda: 200 * Discrete(**ROUGH), 4.0),
    '4 Discrete(partly infinite)': (lambda: 4 * Discrete(**PARTLY_INFINITE), 0.7),
    '20 DiscreteGaussian(6)': (lambda: 20 * DiscreteGaussian(sigma=6.0), 3.1),
    '50 Poisson(DiscreteGaussian(2), .1)': (
        lambda: 50 * sampled(DiscreteGaussian(sigma=2.0), 0.1),
        1.4,
    ),
    '30 DiscreteLaplace(5, sensitivity 2)': (
        lambda: 30 * DiscreteLaplace(scale=5.0, sensitivity=2),
        10.0,
    ),
    '40 Poisson(DiscreteLaplace(1), .2)': (
        lambda: 40 * sampled(DiscreteLaplace(scale=1.0), 0.2),
        4.5,
    ),
    '10 Gaussian(10) + 4 Laplace(10)': (
        lambda: 10 * Gaussian(sigma=10.0) + 4 * Laplace(scale=10.0),
        1.6,
    ),
    '500 Poisson(Gaussian(1), .01) + 3 Laplace(8)': (
        lambda: 500 * sampled(Gaussian(sigma=1.0), 0.01) + 3 * Laplace(scale=8.0),
        1.8,
    ),
    '200 Poisson(Gaussian(1), .01) + 100 Poisson(Gaussian(2), .05)': (
        lambda: 200 * sampled(Gaussian(sigma=1.0), 0.01) + 100 * sampled(Gaussian(sigma=2.0), 0.05),
        1.9,
    ),
    '100 Poisson(Gaussian(1), .02) + 5 RandomizedResponse(.1) + 2 ApproxDP(.05, 1e-7)': (
        lambda: (
            100 * sampled(Gaussian(sigma=1.0), 0.02)
            + 5 * RandomizedResponse(eps=0.1)
            + 2 * ApproxDP(eps=0.05, delta=1e-7)
        ),
        1.7,
    ),
    '10 DiscreteLaplace(4) + 6 RandomizedResponse(.25)': (
        lambda: 10 * DiscreteLaplace(scale=4.0) + 6 * RandomizedResponse(eps=0.25),
        3.0,
    ),
    'no steps': (lambda: 0 * Gaussian(sigma=1.0), 1.0),
}

# What takes long for these is left out: long curves, searches, and finding a mesh.
LONG_RUNS = (
    '400 Laplace(40)',
    '100000 Poisson(Gaussian(.7), 1e-6)',
    '20000 Poisson(Gaussian(1), 1e-4)',
    '1000000 Poisson(Gaussian(20), .001)',
    '60 Poisson(Laplace(1), .05)',
    '2 Poisson(Laplace(.7), .4)',
    '1000 Poisson(Gaussian(1), .01)',
    '200 Poisson(Gaussian(1), .01) + 100 Poisson(Gaussian(2), .05)',
    '3000 RandomizedResponse(.02)',
    '500 Poisson(Gaussian(1), .01) + 3 Laplace(8)',
    '100 Poisson(Gaussian(1), .02) + 5 RandomizedResponse(.1) + 2 ApproxDP(.05, 1e-7)',
)
# Runs for which all accountants together are quick.
COMPARED_RUNS = (
    '50 Gaussian(8)',
    '20 Laplace(6)',
    'RandomizedResponse(.5)',
    '30 RandomizedResponse(.2)',
    '12 Discrete(skewed)',
    '4 Discrete(partly infinite)',
    '10 DiscreteLaplace(4) + 6 RandomizedResponse(.25)',
)
# Runs for which a trade-off curve of many points is quick.
TRADEOFF_RUNS = (
    'Gaussian(1.3)',
    '50 Gaussian(8)',
    '3 Poisson(Gaussian(.8), .1)',
    '40 Poisson(Gaussian(5), .9)',
    'RandomizedResponse(.5)',
    '30 RandomizedResponse(.2)',
    'ApproxDP(.3, 1e-6)',
    '12 Discrete(skewed)',
    '4 Discrete(partly infinite)',
    '10 Gaussian(10) + 4 Laplace(10)',
    'no steps',
)

# {text: function that builds one step}, for questions about a single loss. Of these, adding a
# record is another loss than removing one:
STEPS = {
    'Poisson(Gaussian(1), .01)': lambda: sampled(Gaussian(sigma=1.0), 0.01),
    'Poisson(Gaussian(.4), .2)': lambda: sampled(Gaussian(sigma=0.4), 0.2),
    'Poisson(Gaussian(5), .9)': lambda: sampled(Gaussian(sigma=5.0), 0.9),
    'Poisson(Gaussian(.7), 1e-6)': lambda: sampled(Gaussian(sigma=0.7), 1e-6),
    'Poisson(Laplace(1), .05)': lambda: sampled(Laplace(scale=1.0), 0.05),
    'Poisson(Laplace(.2), .6)': lambda: sampled(Laplace(scale=0.2), 0.6),
    'Poisson(RandomizedResponse(1), .1)': lambda: sampled(RandomizedResponse(eps=1.0), 0.1),
    'Poisson(ApproxDP(.5, 1e-5), .2)': lambda: sampled(ApproxDP(eps=0.5, delta=1e-5), 0.2),
    'Discrete(skewed)': lambda: Discrete(**SKEWED),
    'Discrete(partly infinite)': lambda: Discrete(**PARTLY_INFINITE),
    'Poisson(DiscreteGaussian(2), .1)': lambda: sampled(DiscreteGaussian(sigma=2.0), 0.1),
    'Poisson(DiscreteLaplace(1), .2)': lambda: sampled(DiscreteLaplace(scale=1.0), 0.2),
}
SYMMETRIC_STEPS = {
    'Gaussian(1.3)': lambda: Gaussian(sigma=1.3),
    'Gaussian(.05)': lambda: Gaussian(sigma=0.05),
    'Laplace(1.5)': lambda: Laplace(scale=1.5),
    'Laplace(60, sensitivity 3)': lambda: Laplace(scale=60.0, sensitivity=3.0),
    'Poisson(Gaussian(4), 1)': lambda: sampled(Gaussian(sigma=4.0), 1.0),
    'RandomizedResponse(.5)': lambda: RandomizedResponse(eps=0.5),
    'PureDP(0)': lambda: PureDP(eps=0.0),
    'ApproxDP(.3, 1e-6)': lambda: ApproxDP(eps=0.3, delta=1e-6),
    'DiscreteGaussian(1.5)': lambda: DiscreteGaussian(sigma=1.5),
    'DiscreteLaplace(5, sensitivity 2)': lambda: DiscreteLaplace(scale=5.0, sensitivity=2),
}


# ------------------------------------------------------------------------------------ the questions

DELTAS = np.array([0.05, 1e-5, 1e-12])
TINY_DELTAS = np.array([1e-40, 1e-200])


def spread(eps):
    "Values of eps from 0 to well beyond the one given."
    return eps * np.array([0.0, 0.4, 1.1, 2.3])


def ask_both(name, method, run, build, eps, tiny=False):
    "A curve in both directions: arrays, and a number."
    ask(f'{name}({run}).delta(array)', lambda: method(build(), eps).delta(spread(eps)))
    ask(f'{name}({run}).epsilon(array)', lambda: method(build(), eps).epsilon(DELTAS))
    if tiny:
        ask(f'{name}({run}).epsilon(tiny)', lambda: method(build(), eps).epsilon(TINY_DELTAS))


def ask_number(name, method, run, build, eps, backwards):
    "One number: delta at an eps, or eps at a delta."
    if backwards:
        ask(f'{name}({run}).epsilon(1e-6)', lambda: method(build(), eps).epsilon(1e-6))
    else:
        ask(f'{name}({run}).delta({1.2*eps:g})', lambda: method(build(), eps).delta(1.2 * eps))


def with_settings(name, **settings):
    "A function (run, eps) -> the accountant of that name with these settings."
    return lambda run, eps: getattr(dp, name)(run, **settings)


# These answer in both directions for every run ...
MAIN_METHODS = {
    'ContourAccountant': with_settings('ContourAccountant'),
    'SaddlePointCLT': with_settings('SaddlePointCLT'),
    'MomentsAccountant': with_settings('MomentsAccountant'),
    'TiltedFFT': with_settings('TiltedFFT'),
    'PRVAccountant': with_settings('PRVAccountant'),
}
# ... and these one number for most.
OTHER_METHODS = {
    'ContourAccountant, few nodes, ': with_settings(
        'ContourAccountant', rtol=1e-6, eps_resolution=1e-3, max_nodes=1024
    ),
    'SaddlePointMSD': with_settings('SaddlePointMSD'),
    'SaddlePointMSD, order 2, classical, ': with_settings(
        'SaddlePointMSD', order=2, grouping='classical'
    ),
    'SaddlePointMSD, order 3, paper, ': with_settings('SaddlePointMSD', order=3, grouping='paper'),
    'SaddlePointMSD, order 8, classical, ': with_settings(
        'SaddlePointMSD', order=8, grouping='classical'
    ),
    'SaddlePointCLT, identical, ': with_settings('SaddlePointCLT', identical=True),
    'MomentsAccountant, classic, ': with_settings('MomentsAccountant', conversion='classic'),
    'GaussianLimit': with_settings('GaussianLimit'),
    'GaussianLimit, gdp, ': with_settings('GaussianLimit', kind='gdp'),
    'EdgeworthAccountant': with_settings('EdgeworthAccountant'),
    'EdgeworthAccountant, order 5, ': with_settings('EdgeworthAccountant', order=5),
    'EdgeworthInterval': with_settings('EdgeworthInterval'),
    'EdgeworthInterval, transform, ': with_settings('EdgeworthInterval', proof='transform'),
    'EdgeworthInterval, transform, order 3, ': with_settings(
        'EdgeworthInterval', order=3, proof='transform'
    ),
    'TiltedEdgeworth': with_settings('TiltedEdgeworth'),
    'TiltedEdgeworth, order 6, ': with_settings('TiltedEdgeworth', order=6),
    'PRVAccountant, coarse, ': with_settings('PRVAccountant', eps_error=0.5, delta_error=1e-6),
}


def ask_accountants():
    "Every accountant about every run."
    for i, (run, (build, eps)) in enumerate(RUNS.items()):
        for name, method in MAIN_METHODS.items():
            if name == 'TiltedFFT' and run in LONG_RUNS:
                continue
            tiny = name == 'ContourAccountant' and i % 2 == 0 and run not in LONG_RUNS
            ask_both(name, method, run, build, eps, tiny)
        for j, (name, method) in enumerate(OTHER_METHODS.items()):
            if (i + j) % 3:
                ask_number(name, method, run, build, eps, (i + j) % 2)
        fourier = lambda run, eps: dp.FourierAccountant(run, L=4 * eps + 4, n=1 << 13)
        ask_number('FourierAccountant, n = 8192, ', fourier, run, build, eps, i % 2)
        mesh = lambda run, eps: dp.TiltedFFT(run, mesh=min(eps / 50, 0.05))
        ask_number('TiltedFFT, with a mesh, ', mesh, run, build, eps, i % 2)


def ask_curves():
    "Accountants asked for longer curves, for what they know besides, and for one direction."

    def fourier_error():
        accountant = dp.FourierAccountant(RUNS['40 Poisson(Gaussian(5), .9)'][0](), n=1 << 15)
        return (
            accountant.delta(spread(5.2)),
            accountant.epsilon(DELTAS),
            accountant.error(spread(5.2)),
        )

    ask('FourierAccountant, found L, (40 Poisson(Gaussian(5), .9)), with error', fourier_error)
    tilts = np.geomspace(0.01, 30, 6)
    for name in ('SaddlePointMSD', 'SaddlePointCLT', 'MomentsAccountant', 'TiltedEdgeworth'):
        for run in ('50 Gaussian(8)', '60 Poisson(Laplace(1), .05)', '3 Poisson(Gaussian(.8), .1)'):
            ask(
                f'{name}({run}).curve(tilts)',
                lambda name=name, run=run: getattr(dp, name)(RUNS[run][0]()).curve(tilts),
            )
    for run in (
        '1000 Poisson(Gaussian(1), .01)',
        '20 Laplace(6)',
        '200 Discrete(rough)',
        '100 Poisson(RandomizedResponse(1), .1)',
    ):
        build, eps = RUNS[run]
        grid = np.linspace(0, 3 * eps, 16)
        ask(
            f'ContourAccountant({run}).delta(16 values)',
            lambda build=build, grid=grid: ContourAccountant(build()).delta(grid),
        )
        deltas = np.geomspace(1e-3, 1e-8, 6).reshape(2, 3)
        ask(
            f'ContourAccountant({run}).epsilon(2 x 3 values)',
            lambda build=build, deltas=deltas: ContourAccountant(build()).epsilon(deltas),
        )
    one_direction = (
        '1000 Poisson(Gaussian(1), .01)',
        '3 Poisson(Gaussian(.8), .1)',
        '60 Poisson(Laplace(1), .05)',
        '12 Discrete(skewed)',
        '4 Discrete(partly infinite)',
        '40 Poisson(DiscreteLaplace(1), .2)',
        '20 Poisson(ApproxDP(.5, 1e-5), .2)',
        '200 Poisson(Gaussian(1), .01) + 100 Poisson(Gaussian(2), .05)',
    )
    for run in one_direction:
        for top in ('remove', 'add'):
            loss = lambda run=run, top=top: getattr(RUNS[run][0](), top)
            for j, name in enumerate(
                (
                    'ContourAccountant',
                    'SaddlePointCLT',
                    'MomentsAccountant',
                    'TiltedFFT',
                    'PRVAccountant',
                    'EdgeworthInterval',
                    'TiltedEdgeworth',
                    'SaddlePointMSD',
                )
            ):
                ask_number(
                    name,
                    with_settings(name),
                    f'{run}, {top}',
                    loss,
                    RUNS[run][1],
                    (j + (top == 'add')) % 2,
                )
    tilted = lambda: dp.TiltedFFT(
        RUNS['1000 Poisson(Gaussian(1), .01)'][0](), mesh=0.02, max_points=1 << 20
    )
    ask(
        'TiltedFFT, mesh .02, (1000 Poisson(Gaussian(1), .01)).delta(far)',
        lambda: tilted().delta(np.array([3.0, 8.0, 30.0])),
    )


REAL_TILTS = np.array([-3.0, -0.5, 0.0, 1e-9, 0.3, 1.0, 7.0, 40.0])
COMPLEX_TILTS = np.array([0.5 + 0.1j, 2.0 - 3j, 5.0 + 40j, -0.5 + 1j])
LOSSES = np.array([-2.0, -0.01, 0.0, 0.004, 0.2, 1.0, 20.0])

def beside_the_axis(loss, tilts):
    "M(t + is)/M(t): far out the logarithm of it is that of rounding errors."
    return np.exp(loss.cgf(tilts) - loss.cgf(tilts.real))


LOSS_QUESTIONS = {
    'cgf(real)': lambda loss: loss.cgf(REAL_TILTS),
    'transform(complex)': lambda loss: beside_the_axis(loss, COMPLEX_TILTS),
    'cumulants(0, 6)': lambda loss: loss.cumulants(0.0, 6),
    'cumulants(tilts, 3)': lambda loss: loss.cumulants(np.array([-0.4, 0.5, 12.0]), 3),
    'abs_moment': lambda loss: loss.abs_moment(np.array([0.0, 0.7, 5.0]), 3),
    'abs_moment(0, 1 and 4)': lambda loss: [loss.abs_moment(0.0, 1), loss.abs_moment(0.0, 4)],
    'cdf': lambda loss: loss.cdf(LOSSES),
    'log_delta': lambda loss: loss.log_delta(LOSSES),
    'delta': lambda loss: loss.delta(LOSSES),
    'reverse': lambda loss: [loss.reverse.cgf(REAL_TILTS[2:6]), loss.reverse.delta(LOSSES[2:])],
}


def ask_losses():
    "The loss of one step: its transform, moments, distribution and curve."
    losses = [(text, build, 'remove') for text, build in SYMMETRIC_STEPS.items()]
    losses += [(text, build, top) for text, build in STEPS.items() for top in ('remove', 'add')]
    for text, build, top in losses:
        for name, question in LOSS_QUESTIONS.items():
            ask(
                f'{text}.{top}.{name}',
                lambda build=build, top=top, question=question: question(getattr(build(), top)),
            )
    for run in (
        '20 Laplace(6)',
        '1000 Poisson(Gaussian(1), .01)',
        '10 ApproxDP(.1, 1e-8)',
        '500 Poisson(Gaussian(1), .01) + 3 Laplace(8)',
        '12 Discrete(skewed)',
        'no steps',
    ):
        for name in ('cgf(real)', 'transform(complex)', 'cumulants(0, 6)', 'cdf', 'log_delta'):
            ask(
                f'({run}).add.{name}',
                lambda run=run, name=name: LOSS_QUESTIONS[name](RUNS[run][0]().add),
            )
    replaced = {
        'without_replacement': lambda: dp.without_replacement(sigma=2.0, rate=0.1, steps=5),
        'with_replacement': lambda: dp.with_replacement(sigma=3.0, batch_size=20, dataset_size=100),
    }
    for name, build in replaced.items():
        for part in ('cgf(real)', 'cumulants(0, 6)', 'cdf'):
            ask(f'{name}: {part}', lambda build=build, part=part: LOSS_QUESTIONS[part](build()))
        ask(
            f'PRVAccountant({name}).delta',
            lambda build=build: dp.PRVAccountant(build()).delta(LOSSES[3:6]),
        )
        fourier = lambda build=build: dp.FourierAccountant(build(), L=12.0, n=1 << 12)
        ask(
            f'FourierAccountant({name}).delta', lambda fourier=fourier: fourier().delta(LOSSES[3:6])
        )
        ask(
            f'MomentsAccountant({name}).epsilon',
            lambda build=build: dp.MomentsAccountant(build()).epsilon(1e-5),
        )


def ask_saddle_points():
    "Saddle-points, Renyi divergences, and what else is known about a sum."
    runs = (
        '50 Gaussian(8)',
        '20 Laplace(6)',
        '1000 Poisson(Gaussian(1), .01)',
        '100000 Poisson(Gaussian(.7), 1e-6)',
        '60 Poisson(Laplace(1), .05)',
        '3000 RandomizedResponse(.02)',
        '12 Discrete(skewed)',
        '20 DiscreteGaussian(6)',
        '30 DiscreteLaplace(5, sensitivity 2)',
        '10 Gaussian(10) + 4 Laplace(10)',
        '500 Poisson(Gaussian(1), .01) + 3 Laplace(8)',
        '10 ApproxDP(.1, 1e-8)',
    )
    of_a_loss = {
        'saddle_point': lambda loss, eps: public('saddle_point')(loss, spread(eps)[:3]),
        'asymptotic_saddle_point': lambda loss, eps: public('asymptotic_saddle_point')(
            loss, spread(eps)
        ),
        'lyapunov_sum': lambda loss, eps: public('lyapunov_sum')(loss, np.array([0.0, 0.5, 6.0])),
        'standard_cumulants': lambda loss, eps: public('standard_cumulants')(loss, 4),
        'standard_cumulants, null': lambda loss, eps: public('standard_cumulants')(
            loss, 2, null=True
        ),
        'step_moments': lambda loss, eps: public('step_moments')(loss),
        'step_moments, null': lambda loss, eps: public('step_moments')(loss, null=True),
        'transform_bound': lambda loss, eps: public('transform_bound')(loss),
        'transform_bound, order 4': lambda loss, eps: public('transform_bound')(loss, 4),
    }
    for run in runs:
        build, eps = RUNS[run]
        for name, question in of_a_loss.items():
            ask(
                f'{name}({run})',
                lambda build=build, eps=eps, question=question: question(build().remove, eps),
            )
        ask(f'rdp({run})', lambda build=build: dp.rdp(build(), np.array([1.0, 1.5, 8.0, 60.0])))
        ask(
            f'asymptotic_epsilon({run})',
            lambda build=build: public('asymptotic_epsilon')(build(), delta=np.array([0.1, 1e-6])),
        )
    for steps in (
        'Poisson(RandomizedResponse(1), .1)',
        'Discrete(skewed)',
        'Discrete(partly infinite)',
    ):
        for count in (1, 3, 40):
            ask(
                f'composed_atoms({count} {steps})',
                lambda steps=steps, count=count: summary(
                    public('composed_atoms')((count * STEPS[steps]()).remove)
                ),
            )


def summary(pair):
    "Sums and some entries of two long vectors: enough to see that any entry has changed."
    if pair is None:
        return 'none'
    return [digest(v) for v in pair]


def digest(v):
    "Length, sum, a weighted sum and some entries of a vector."
    v = np.asarray(v, float)
    finite = np.where(np.isfinite(v), v, 0.0)
    weights = np.linspace(1, 2, v.size)
    middle = v[np.linspace(0, max(v.size - 1, 0), min(v.size, 5)).astype(int)]
    return [v.size, float(finite.sum()), float((finite * weights).sum()), middle]


def ask_formulas():
    "Functions of numbers alone."
    x = np.array([-700.0, -2.0, -0.1, -1e-9, 0.0, 1e-12, 1e-3, 0.24, 0.26, 3.0, 100.0])
    ask('expm1mx(real)', lambda: public('expm1mx')(x))
    ask('expm1mx(complex)', lambda: public('expm1mx')(np.array([0.1 + 0.1j, 1e-8j, 2.0 - 3j])))
    y = np.array([-1.0, 0.5, 2.0])
    logw = np.log([0.2, 0.5, 0.3])
    ask('log_mgf(real)', lambda: public('log_mgf')(np.array([0.0, 1e-9, 0.5, 400.0]), y, logw))
    ask(
        'log_mgf(complex)',
        lambda: public('log_mgf')(np.array([0.5 + 1j, 3.0 - 2j]), y, logw, (0.01, 0.02)),
    )
    eps = np.array([-3.0, 0.0, 0.5, 4.0, 40.0, 700.0])
    for mu in (1e-3, 0.1, 1.0, 8.0, 100.0):
        ask(
            f'gaussian_log_delta(array, {mu:g})',
            lambda mu=mu: public('gaussian_log_delta')(eps, mu),
        )
        ask(
            f'gaussian_epsilon({mu:g}, array)', lambda mu=mu: public('gaussian_epsilon')(mu, DELTAS)
        )
    ask(
        'gaussian_epsilon(array, 1e-5)',
        lambda: public('gaussian_epsilon')(np.array([0.0, 0.2, 5.0]), 1e-5),
    )
    ask('log_chernoff_factor', lambda: public('log_chernoff_factor')(np.geomspace(1e-6, 1e6, 7)))
    tilts = np.array([0.5 + 1j, 2.0 + 30j, 9.0 - 4j])
    for width in (0.0, 1e-3, 0.5):
        ask(
            f'spline_transform(complex, {width:g})',
            lambda width=width: public('Smoothing')(width).transform(tilts),
        )
    ask(
        'clt_log_delta',
        lambda: public('clt_log_delta')(
            eps, np.array([0.01, 1.0, 2.0, 3.0, 9.0, 30.0]), 0.3, 1.2, 0.7
        ),
    )
    standard = np.array(
        [[0.3, 0.1], [0.08, -0.2], [0.02, 0.01], [0.004, 0.03], [0.001, 0.0], [1e-4, 0.2]]
    )
    for grouping in ('paper', 'classical'):
        for rows in (2, 4, 6):
            ask(
                f'msd_terms({rows} rows, {grouping})',
                lambda rows=rows, grouping=grouping: public('msd_terms')(standard[:rows], grouping),
            )
    ask('cumulant_powers', lambda: [np.asarray(p) for p in public('cumulant_powers')(standard[:3])])
    for order in range(4):
        lam = standard[:order, 0]
        ask(f'hermite_series(order {order})', lambda lam=lam: public('hermite_series')(lam))
        ask(
            f'edgeworth_tail(order {order})',
            lambda lam=lam: public('edgeworth_tail')(
                np.array([-4.0, -0.5, 0.0, 1.0, 3.0, 9.0, 40.0]), lam
            ),
        )
    for n in (1, 30, 1000, 10**6):
        ask(f'berry_esseen({n})', lambda n=n: public('berry_esseen')(n, 1.8))
        for identical in (False, True):
            moments = (n, 0.4, 1.8, 4.0, 2.6)
            ask(
                f'moment_bound({n}, identical {identical})',
                lambda m=moments, identical=identical: public('moment_bound')(
                    *m, identical=identical
                ),
            )
        ask(
            f'moment_bound({n}), smooth',
            lambda m=moments: public('moment_bound')(*m, smooth=lambda a, b: max(b - a, 0) * 1e-3),
        )
        ask(f'prawitz_bound({n})', lambda m=moments: public('prawitz_bound')(*m, 1 / m[0]))
    for L, sigma, rate, steps in (
        (8.0, 5.0, 0.01, 1000),
        (3.0, 1.0, 0.01, 1000),
        (30.0, 4.0, 0.1, 10),
        (12.0, 20.0, 1e-3, 10**5),
    ):
        ask(
            f'fourier_tail({L:g}, {sigma:g}, {rate:g}, {steps})',
            lambda a=(L, sigma, rate, steps): public('fourier_tail')(*a),
        )
    weights = np.array([0.1, 0.2, 0.4, 0.25, 0.05])
    for n in (1, 10, 10**5):
        ask(f'log_transform({n})', lambda n=n: public('log_transform')(weights, -2, 64, n))


def ask_dots():
    "Losses moved to a grid, above and below."

    def dots(build, top, mesh, up):
        start, weights, infinite = dp.connect_the_dots(getattr(build(), top), mesh, up)
        return start, digest(weights), infinite

    for name in ('Gaussian(1.3)', 'Laplace(1.5)', 'ApproxDP(.3, 1e-6)'):
        for up in (True, False):
            ask(
                f'connect_the_dots({name}, .05, {up})',
                lambda name=name, up=up: dots(SYMMETRIC_STEPS[name], 'remove', 0.05, up),
            )
    for name in (
        'Poisson(Gaussian(1), .01)',
        'Poisson(Laplace(1), .05)',
        'Discrete(partly infinite)',
        'Poisson(DiscreteGaussian(2), .1)',
    ):
        for top in ('remove', 'add'):
            for up in (True, False):
                ask(
                    f'connect_the_dots({name}.{top}, .02, {up})',
                    lambda name=name, top=top, up=up: dots(STEPS[name], top, 0.02, up),
                )


# -------------------------------------------------------------------------- filters and individuals


def read(meter, names):
    "Attributes of a filter or an odometer."
    return [getattr(meter, name) for name in names]


def filter_story(build, sizes, budgeted=True):
    "What a filter or an odometer says, step by step."
    meter = build()
    answers = []
    for size in sizes:
        if budgeted:
            answers += [meter.would_exceed(size), meter.scale(size)]
        answers.append(meter.step(size))
        answers += read(
            meter, ('steps', 'spent', 'remaining') if budgeted else ('steps', 'spent', 'bound')
        )
    return [answer for answer in answers if answer is not None]


def saved_and_loaded(build, size, suffix):
    "What a meter has spent after it was saved and loaded."
    with tempfile.TemporaryDirectory() as folder:
        meter = build()
        meter.step(size)
        path = Path(folder) / f'state{suffix}'
        meter.save(path)
        again = build().load(path)
    return again.steps, again.spent


def ask_filters():
    "Filters and odometers."
    some = [0.3, 0.1, 0.7, 0.05, 0.4]
    each = [np.array([0.3, 0.1, 0.5]), np.array([0.9, 0.0, 0.2]), np.array([0.1, 0.4, 0.3])]
    filters = {
        'GDPFilter(1)': (lambda: dp.GDPFilter(1.0), some),
        'GDPFilter(.31)': (lambda: dp.GDPFilter(0.31), some),
        'IndividualGDPFilter(1, 3)': (lambda: dp.IndividualGDPFilter(1.0, 3), each),
        'RDPFilter(8, 1)': (lambda: dp.RDPFilter(8.0, 1.0), some),
        'RDPFilter(1.5, .8, 3)': (lambda: dp.RDPFilter(1.5, 0.8, 3), each),
    }
    odometers = {
        'GDPOdometer(.25)': (lambda: dp.GDPOdometer(0.25), some),
        'GDPOdometer(.5, 3)': (lambda: dp.GDPOdometer(0.5, 3), each),
        'RDPOdometer(8, .1)': (lambda: dp.RDPOdometer(8.0, 0.1), some),
        'RDPOdometer(3, .2, 3)': (lambda: dp.RDPOdometer(3.0, 0.2, 3), each),
    }
    for name, (build, sizes) in {**filters, **odometers}.items():
        ask(
            f'{name}, step by step',
            lambda build=build, sizes=sizes, name=name: filter_story(build, sizes, name in filters),
        )
        for suffix in ('.json', '.npz'):
            ask(
                f'{name}, saved as {suffix} and loaded',
                lambda build=build, sizes=sizes, suffix=suffix: saved_and_loaded(
                    build, sizes[1], suffix
                ),
            )

        def spent_at(build=build, sizes=sizes, name=name):
            meter = build()
            before = meter.epsilon(1e-5)
            meter.step(sizes[0])
            return before, meter.epsilon(1e-5)

        ask(f'{name}.epsilon(1e-5), before and after a step', spent_at)
    for budget in (0.05, 1.0, 6.0):
        ask(
            f'GDPFilter({budget:g}).epsilon(array)',
            lambda budget=budget: dp.GDPFilter(budget).epsilon(DELTAS),
        )
        ask(
            f'GDPFilter({budget:g}).delta(array)',
            lambda budget=budget: dp.GDPFilter(budget).delta(spread(budget)),
        )
        ask(
            f'RDPFilter(4, {budget:g}).epsilon(array)',
            lambda budget=budget: dp.RDPFilter(4.0, budget).epsilon(DELTAS),
        )


NORMS = np.array(
    [
        [1.0, 0.5, 0.9, 0.8, 1.0, 0.2],
        [0.1, 0.12, 0.05, 0.0, 0.3, 0.2],
        [0.0] * 6,
        [0.7, 0.66, 0.01, 1.0, 1.0, 0.99],
    ]
)


def individual(sigma, rate, repeats=1, grid=12):
    "An accountant that has seen the norms. Each question has a sigma of its own: tables are kept."
    accountant = dp.IndividualAccountant(sigma, 1.0, rate, sigma_grid=grid)
    for _ in range(repeats):
        for column in NORMS.T:
            accountant.step(column)
    return accountant


def ask_individuals():
    "The cost of a run for each of its records."
    grid = np.geomspace(1.0, 100.0, 9)
    ask('norm_counts', lambda: public('norm_counts')(2 * NORMS, grid, 1.0, 2.0))
    for _k, (sigma, rate, repeats) in enumerate(
        ((1.0, 0.1, 1), (2.0, 0.01, 100), (4.0, 1.0, 3), (0.6, 0.3, 1))
    ):
        about = f'sigma {sigma:g}, rate {rate:g}, {6*repeats} steps'
        for j, engine in enumerate(('contour', 'rdp', 'fourier')):
            own = sigma * (1 + 0.01 * j)
            ask(
                f'IndividualAccountant.epsilon({engine}), {about}',
                lambda s=own, r=rate, n=repeats, engine=engine: individual(s, r, n).epsilon(
                    1e-5, engine=engine, n=1 << 12
                ),
            )
        ask(
            f'IndividualAccountant.delta, {about}',
            lambda s=sigma * 1.03, r=rate, n=repeats: individual(s, r, n).delta(0.8),
        )
        ask(
            f'IndividualAccountant.delta of some, {about}',
            lambda s=sigma * 1.04, r=rate, n=repeats: individual(s, r, n).delta(
                np.array([0.2, 3.0]), records=[0, 3]
            ),
        )
        ask(
            f'IndividualAccountant.mu, {about}',
            lambda s=sigma * 1.05, r=rate, n=repeats: individual(s, r, n).mu(1e-6, cells=6),
        )
        ask(
            f'IndividualAccountant.rdp, {about}',
            lambda s=sigma * 1.06, r=rate, n=repeats: individual(s, r, n).rdp(5.0),
        )
        ask(
            f'IndividualAccountant.step_rdp, {about}',
            lambda s=sigma * 1.07, r=rate, n=repeats: individual(s, r, n).step_rdp(
                NORMS[:, 0], 3.0
            ),
        )
        for j, engine in enumerate(('contour', 'rdp')):
            ask(
                f'individual_epsilon({engine}), {about}',
                lambda s=sigma * (
                    1.08 + 0.01 * j
                ), r=rate, n=repeats, engine=engine: dp.individual_epsilon(
                    np.tile(NORMS, n),
                    delta=1e-6,
                    sigma=s,
                    clip=1.0,
                    rate=r,
                    sigma_grid=8,
                    engine=engine,
                ),
            )


# --------------------------------------------------------------------------- what practitioners ask


def ask_practice():
    "The functions of the top level, over many runs."
    for i, (run, (build, eps)) in enumerate(RUNS.items()):
        ask(
            f'epsilon({run})', lambda build=build: dp.epsilon(build(), delta=np.array([1e-4, 1e-9]))
        )
        ask(
            f'delta({run})',
            lambda build=build, eps=eps: dp.delta(build(), eps=np.array([0.3, 1.3]) * eps),
        )
        if i % 2:
            ask(f'advantage({run})', lambda build=build: dp.advantage(build()))
        ask(
            f'bayes_risk({run})',
            lambda build=build: dp.bayes_risk(build(), np.array([0.5, 0.2, 0.99])),
        )
        if i % 2 == 0:
            ask(f'to_steps and from_steps({run})', lambda build=build: there_and_back(build()))
        if run in TRADEOFF_RUNS:
            ask(
                f'tradeoff({run})',
                lambda build=build: dp.tradeoff(build(), fpr=np.array([0.0, 0.01, 0.3, 1.0])),
            )
            ask(f'tpr({run})', lambda build=build: dp.tpr(build(), fpr=np.array([1e-6, 0.05, 0.5])))
        if run in TRADEOFF_RUNS:
            ask(f'gdp({run})', lambda build=build: dp.gdp(build(), delta=1e-6))
        if run in COMPARED_RUNS:
            for part in ('compare', 'EdgeworthInterval in compare'):
                ask(
                    f'{part}({run}, delta)',
                    lambda build=build, part=part: compared(part, build(), delta=1e-5),
                )
                ask(
                    f'{part}({run}, eps)',
                    lambda build=build, eps=eps, part=part: compared(part, build(), eps=eps),
                )
        if i % 5 == 0:
            for form in ('text', 'json'):
                ask(
                    f'report({run}, {form})',
                    lambda build=build, form=form: text_of(
                        dp.report(build(), delta=1e-4, form=form)
                    ),
                )


def there_and_back(run):
    "The steps as JSON, and the run that is made from them again."
    steps = dp.to_steps(run)
    again = dp.from_steps(json.loads(json.dumps(steps)))
    return json.dumps(steps, sort_keys=True), dp.Composition(tuple(again)) == 1 * run


def compared(part, run, **asked):
    "Names and numbers of a comparison, without the seconds; EdgeworthInterval's own or the rest."
    rows = [
        [row[key] for key in ('accountant', 'lower', 'estimate', 'upper')]
        for row in dp.compare(run, **asked)
        if (row['accountant'] == 'EdgeworthInterval') == (part != 'compare')
    ]
    return [[name, *(float(cell) if cell else 'none' for cell in cells)] for name, *cells in rows]


def text_of(text):
    "A text without the version of the package, and without places in memory."
    text = re.sub(r'<[\w.]*?(\w+) object at 0x[0-9a-f]+>', r'<\1>', text)
    return text.replace(f'dp_saddle {dp.__version__}', 'dp_saddle')


def ask_training_runs():
    "DP-SGD by its usual parameters, calibration, schedules, budgets."
    settings = dict(sigma=1.1, batch_size=64, dataset_size=4000)
    for sampling in ('poisson', 'without-replacement', 'shuffle', 'none'):
        for length in (dict(epochs=1.5), dict(steps=40, accumulate=2)):
            build = lambda sampling=sampling, length=length: dp.dpsgd(
                **settings, sampling=sampling, **length
            )
            about = f'dpsgd({sampling}, {", ".join(f"{k} {v}" for k, v in length.items())})'
            ask(about, lambda build=build: [str(build()), build().rate, build().steps])
            ask(f'epsilon({about})', lambda build=build: dp.epsilon(build(), delta=1e-5))
            ask(f'delta({about})', lambda build=build: dp.delta(build(), eps=1.0))
            if 'epochs' in length:
                ask(f'advantage({about})', lambda build=build: dp.advantage(build()))
                ask(
                    f'report({about})',
                    lambda build=build: text_of(dp.report(build(), delta=1e-5, unit='user')),
                )
                ask(
                    f'report({about}), markdown',
                    lambda build=build: text_of(
                        dp.report(build(), delta=1e-5, form='markdown', released='last')
                    ),
                )
                ask(f'gdp({about})', lambda build=build: dp.gdp(build()))
                ask(
                    f'epsilon_after({about})',
                    lambda build=build: dp.epsilon_after(build(), delta=1e-5)[::20],
                )
    sgd = lambda sigma=1.0, rate=0.01, steps=500: steps * sampled(Gaussian(sigma=sigma), rate)
    laplace = lambda scale: 10 * Laplace(scale=scale)
    calibrations = {
        'sigma of DP-SGD': lambda: dp.calibrate(sgd, eps=2.0, delta=1e-5),
        'rate of DP-SGD': lambda: dp.calibrate(sgd, eps=2.0, delta=1e-5, parameter='rate'),
        'steps of DP-SGD': lambda: dp.calibrate(sgd, eps=2.0, delta=1e-5, parameter='steps'),
        'sigma of DP-SGD for mu': lambda: dp.calibrate(sgd, mu=0.5, delta=1e-6),
        'sigma of DP-SGD for an advantage': lambda: dp.calibrate(sgd, advantage=0.1),
        'scale of 10 Laplace': lambda: dp.calibrate(
            laplace, eps=1.5, delta=1e-6, parameter='scale'
        ),
        'sigma of a Gaussian': lambda: dp.calibrate(
            lambda sigma: Gaussian(sigma=sigma), eps=1.0, delta=1e-9
        ),
        'eps of randomised responses': lambda: dp.calibrate(
            lambda eps: 50 * RandomizedResponse(eps=eps), eps=3.0, delta=1e-5, parameter='eps'
        ),
        'epochs of dpsgd': lambda: dp.calibrate(
            lambda epochs: dp.dpsgd(**settings, sampling='poisson', epochs=epochs),
            eps=3.0,
            delta=1e-5,
            parameter='epochs',
        ),
    }
    for about, question in calibrations.items():
        ask(f'calibrate: {about}', question)
    first = lambda: sampled(Gaussian(sigma=1.0), 0.02)
    second = lambda: sampled(Gaussian(sigma=2.0), 0.1)
    schedules = {
        'one kind': lambda: [(first(), 12)],
        'two kinds': lambda: [(first(), 5), (second(), 6), first()],
        'with Laplace and discrete': lambda: [
            (Laplace(scale=9.0), 4),
            (RandomizedResponse(eps=0.2), 3),
            first(),
        ],
        'Gaussians': lambda: 8 * Gaussian(sigma=6.0),
    }
    for about, schedule in schedules.items():
        ask(
            f'epsilon_after: {about}',
            lambda schedule=schedule: dp.epsilon_after(schedule(), delta=1e-6),
        )

    def budget_story():
        budget = dp.Budget(2.0, 1e-5)
        answers = [budget.spent, budget.would_exceed(first(), 50)]
        for step, count in ((first(), 50), (second(), 20), (Laplace(scale=5.0), 1), (first(), 7)):
            budget.spend(step, count)
            answers += [budget.steps, budget.spent, budget.would_exceed(step, 3000), str(budget)]
        return answers

    ask('Budget, step by step', budget_story)

    def budget_saved():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'budget.json'
            budget = dp.Budget(2.0, 1e-5)
            budget.spend(first(), 30)
            budget.save(path)
            again = dp.Budget(2.0, 1e-5).load(path)
        return again.steps, again.spent, str(again.history)

    ask('Budget, saved and loaded', budget_saved)

    def run_file():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'run.json'
            path.write_text(json.dumps({'steps': dp.to_steps(sgd() + laplace(8.0))}))
            run = dp.read_run(path)
        return str(run), dp.epsilon(run, delta=1e-5)

    ask('read_run', run_file)


def printed(words):
    "What the command prints, without a key that is younger than the answers: null of words."
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = public('main')(words)
    return status, text_of(re.sub(r'\n *"understood": null,', '', out.getvalue()))


def printed_comparison(words):
    "What the command compares, without the seconds and the reasons."
    found = json.loads(printed([*words, '--json'])[1])
    for row in found['results']:
        del row['seconds'], row['worth']
    return json.dumps(found, sort_keys=True)


def ask_commands():
    "The command line."
    run = '--sigma 1.1 --rate .02 --steps 300'
    commands = (
        f'epsilon {run} 600 --delta 1e-5 1e-9',
        f'epsilon {run} --delta 1e-5 --json',
        f'delta {run} --eps 0 .5 2',
        'delta --sigma 3 --rate 1 --steps 4 --eps 1 --json',
        'calibrate --rate .02 --steps 300 --eps 2 --delta 1e-5',
        'calibrate --sigma 1.1 --rate .02 --find steps --eps 2 --delta 1e-5 --json',
        'calibrate --sigma 1.1 --steps 300 --find rate --eps 2 --delta 1e-5',
        f'report {run} --delta 1e-6 --unit user',
        f'report {run} --delta 1e-6 --form markdown',
        f'report {run} --delta 1e-6 --json',
    )
    for command in commands:
        ask(f'dp-saddle {command}', lambda command=command: printed(command.split()))
    for asked in ('--delta 1e-5', '--eps 1.5'):
        command = f'compare --sigma 5 --rate 1 --steps 4 {asked}'
        ask(f'dp-saddle {command}', lambda command=command: printed_comparison(command.split()))


def ask_mistakes():
    "Wrong inputs: what is said about them is kept too, but may change."
    loss = lambda: sampled(Gaussian(sigma=1.0), 0.1).remove
    mistakes = {
        'Gaussian(sigma=-1)': lambda: Gaussian(sigma=-1.0),
        'Laplace(scale=inf)': lambda: Laplace(scale=np.inf),
        'Discrete that sums to .9': lambda: Discrete(p=(0.5, 0.4), q=(0.5, 0.5)),
        'PoissonSubsampled of a composition': lambda: sampled(2 * Laplace(scale=1.0), 0.1),
        'PoissonSubsampled, rate 2': lambda: sampled(Gaussian(sigma=1.0), 2.0),
        'ApproxDP, delta 1.1': lambda: ApproxDP(eps=1.0, delta=1.1),
        '-1 steps': lambda: -1 * Gaussian(sigma=1.0),
        '1.5 steps': lambda: 1.5 * Gaussian(sigma=1.0),
        'ContourAccountant of a number': lambda: ContourAccountant(3.0),
        'ContourAccountant, delta -1': lambda: ContourAccountant(loss()).epsilon(-1.0),
        'ContourAccountant, eps -1': lambda: ContourAccountant(loss()).delta(-1.0),
        'ContourAccountant, eps as text': lambda: ContourAccountant(loss()).delta('1'),
        'SaddlePointMSD, order 9': lambda: dp.SaddlePointMSD(loss(), order=9),
        'SaddlePointMSD, grouping': lambda: dp.SaddlePointMSD(loss(), grouping='other'),
        'EdgeworthInterval, order 2 by moments': lambda: dp.EdgeworthInterval(loss(), order=2),
        'PRVAccountant, too few points': lambda: dp.PRVAccountant(
            50 * Gaussian(sigma=1.0), max_points=64
        ),
        'FourierAccountant of a Laplace step': lambda: dp.FourierAccountant(Laplace(scale=1.0)),
        'TiltedFFT, mesh 2': lambda: dp.TiltedFFT(loss(), mesh=2.0),
        'saddle_point of a mechanism': lambda: public('saddle_point')(Gaussian(sigma=1.0), 1.0),
        'connect_the_dots of a mechanism': lambda: dp.connect_the_dots(Gaussian(sigma=1.0), 0.1),
        'GDPFilter, passed': lambda: dp.GDPFilter(1.0).spend(2.0),
        'IndividualGDPFilter, shape': lambda: dp.IndividualGDPFilter(1.0, 3).step(np.ones(2)),
        'IndividualAccountant, norms above the clip': lambda: dp.IndividualAccountant(
            1.0, 1.0, 0.1
        ).step(np.array([2.0])),
        'Budget, passed': lambda: dp.Budget(1.0, 1e-5).spend(Gaussian(sigma=0.1)),
        'calibrate without a target': lambda: dp.calibrate(lambda sigma: Gaussian(sigma=sigma)),
        'from_steps, unknown mechanism': lambda: dp.from_steps(
            [{'mechanism': 'Gauss', 'sigma': 1}]
        ),
        'dpsgd without a length': lambda: dp.dpsgd(
            sigma=1.0, batch_size=1, dataset_size=9, sampling='poisson'
        ),
        'compare without a question': lambda: dp.compare(Gaussian(sigma=1.0)),
        'report, form': lambda: dp.report(Gaussian(sigma=1.0), delta=1e-5, form='tex'),
        'advantage of a list': lambda: dp.advantage([1]),
    }
    for about, mistake in mistakes.items():
        ask(f'mistake: {about}', mistake)


def mixed(sigma, amounts, probabilities):
    "A mixture of Gaussians."
    return dp.MixtureOfGaussians(
        sigma=sigma, sensitivities=amounts, probabilities=probabilities
    )


# {text: function that builds the run}
NEWER = {
    '100 group(Poisson(Gaussian(2), .01), 4)': lambda: (
        100 * dp.group(sampled(Gaussian(sigma=2.0), 0.01), 4)
    ),
    '3 Mixture(1, 2, 5)': lambda: 3 * mixed(4.0, (1.0, 2.0, 5.0), (0.5, 0.4, 0.1)),
    'Poisson(Mixture(0, 1.5), .1)': lambda: (
        sampled(mixed(2.0, (0.0, 1.0, 1.5), (0.2, 0.3, 0.5)), 0.1)
    ),
    '300 TruncatedPoisson(2, .01)': lambda: 300
    * dp.TruncatedPoisson(sigma=2.0, rate=0.01, dataset_size=10000, max_batch_size=130),
    'tree of 100': lambda: dp.tree_aggregation(steps=100, sigma=5.0),
    '2 BoundedRange(1, .3)': lambda: 2 * dp.BoundedRange(eps=1.0, shift=0.3),
    '3 ZCDP(.01) + Gaussian(3)': lambda: 3 * dp.ZCDP(rho=0.01) + Gaussian(sigma=3.0),
    '5 ExponentialMechanism(.2)': lambda: 5 * dp.ExponentialMechanism(eps=0.2),
    'selected, geometric': lambda: dp.selected(
        100 * sampled(Gaussian(sigma=2.0), 0.01), tries=dp.Geometric(mean=5.0)
    ),
    'selected, Poisson': lambda: dp.selected(Gaussian(sigma=5.0), tries=dp.Poisson(mean=5.0)),
    'Laplace as AdditiveNoise': lambda: dp.AdditiveNoise(
        log_density=lambda x: -np.abs(x) / 2 - np.log(4.0),
        **dict(sensitivity=1.0, log_concave=True, even=True, mesh=0.01),
    ),
}


def ask_newer():
    "Users, samples that are cut, trees, bands, moments, searches, noise of one's own."
    for name, build in NEWER.items():
        ask(f'newer: epsilon({name})', lambda build=build: dp.epsilon(build(), delta=1e-6))


for _section in (
    ask_accountants,
    ask_curves,
    ask_losses,
    ask_saddle_points,
    ask_formulas,
    ask_dots,
    ask_filters,
    ask_individuals,
    ask_practice,
    ask_training_runs,
    ask_commands,
    ask_mistakes,
    ask_newer,
):
    _section()

# ------------------------------------------------------------------------------- asking and keeping


# A quick run asks no question with one of these words.
SLOW_WORDS = (
    *(
        'TiltedFFT',
        'FourierAccountant',
        'EdgeworthInterval',
        'DiscreteGaussian',
        'connect_the_dots',
    ),
    *('Individual', 'individual', 'tradeoff', 'tpr', 'gdp', 'compare', 'calibrate', 'report'),
    *('dp-saddle', 'tiny', 'values'),
)


def tenth():
    "A tenth of the questions: quick ones, always the same."
    quick = [text for text in QUESTIONS if not any(word in text for word in SLOW_WORDS)]
    count = len(QUESTIONS) // 10
    return quick[:: len(quick) // count][:count]


def is_bounds(answer):
    "Is this what accountants answer?"
    return getattr(answer, '_fields', None) == ('lower', 'estimate', 'upper')


def shape_text(array):
    "The shape of an array, such as [2,3]; [] for a number."
    return f'[{",".join(map(str, array.shape))}]'


def hexadecimal(values):
    "Doubles, exactly, as texts."
    return [float(v).hex() for v in np.asarray(values).ravel()]


def tokens(answer):
    "An answer as texts: doubles in hexadecimal, '=words', '[shape]' and 'Bounds[shape]'."
    if is_bounds(answer):
        parts = [np.asarray(part, float) for part in answer]
        return ['Bounds' + shape_text(parts[0]), *(t for part in parts for t in hexadecimal(part))]
    if isinstance(answer, str):
        return ['=' + answer]
    if isinstance(answer, dict):
        return [t for key, value in answer.items() for t in ['=' + str(key), *tokens(value)]]
    if isinstance(answer, (list, tuple)):
        return [t for part in answer for t in tokens(part)]
    if not isinstance(answer, (bool, int, float, complex)) and not hasattr(answer, '__array__'):
        raise RuntimeError(f'no number, text, array or list of these: {answer!r}')
    array = np.asarray(answer)
    head = [shape_text(array)] if array.ndim else []
    if np.iscomplexobj(array):
        array = np.stack([array.real, array.imag], axis=-1)
    return head + hexadecimal(array)


def answer_of(text):
    "('answer' or 'error', its tokens, whether there was a warning of the library's own)."
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try:
            found = 'answer', tokens(QUESTIONS[text]())
        except (ValueError, TypeError, SystemExit) as error:
            found = 'error', ['=' + text_of(f'{type(error).__name__}: {error}')]
    return *found, any(w.category is UserWarning for w in caught)


def snapshot(texts=None, progress=None):
    "All answers (or those to some questions), as they are kept in the file."
    found = {'answers': {}, 'errors': {}, 'warned': []}
    for text in QUESTIONS if texts is None else texts:
        start = time.perf_counter()
        kind, answer, warned = answer_of(text)
        found[{'answer': 'answers', 'error': 'errors'}[kind]][text] = packed(answer)
        if warned:
            found['warned'].append(text)
        if progress:
            progress(text, time.perf_counter() - start)
    return found


def packed(answer):
    "Tokens as one text where they are only numbers, else as a list."
    return (
        ' '.join(answer) if all(' ' not in t and not t.startswith('=') for t in answer) else answer
    )


def unpacked(answer):
    "The tokens again."
    return answer.split() if isinstance(answer, str) else answer


def is_number(token):
    "Is this token a double?"
    return not token.startswith(('=', '[', 'Bounds'))


def count_doubles(found):
    "How many doubles there are in the answers."
    return sum(is_number(t) for answer in found['answers'].values() for t in unpacked(answer))


def write(found, path):
    "One question a line, so that a change of one is a change of one line."
    lines = []
    for section in ('answers', 'errors'):
        rows = [
            f'{json.dumps(text)}: {json.dumps(answer)}' for text, answer in found[section].items()
        ]
        lines.append(f'"{section}": {{\n' + ',\n'.join(rows) + '\n}')
    head = f'"warned": {json.dumps(found["warned"])}'
    Path(path).write_text('{\n' + head + ',\n' + ',\n'.join(lines) + '\n}\n', encoding='utf-8')


# ---------------------------------------------------------------------------------------- comparing


def relative(old, new):
    "Relative difference of two doubles; inf where there is none to speak of."
    if old == new:
        return 0.0
    size = max(abs(old), abs(new))
    return abs(new - old) / size if np.isfinite(old) and np.isfinite(new) else float('inf')


def differences(old, new):
    "A line for each token that differs."
    if len(old) != len(new):
        return [
            f'{len(old)} parts before, {len(new)} now: '
            f'{" ".join(old)[:200]} ... {" ".join(new)[:200]}'
        ]
    lines = []
    for place, (a, b) in enumerate(zip(old, new)):
        if a == b:
            continue
        if is_number(a) and is_number(b):
            x, y = float.fromhex(a), float.fromhex(b)
            lines.append(
                f'part {place}: {x!r} ({a}) before, {y!r} ({b}) now, relative {relative(x, y):.2g}'
            )
        else:
            lines.append(f'part {place}: {a} before, {b} now')
    return lines


def pieces(answer):
    "The parts of an answer: ('bounds', array of 3 rows), ('number', x) or ('word', text)."
    found, rest = [], list(answer)
    while rest:
        token = rest.pop(0)
        if token.startswith('Bounds'):
            sizes = [int(n) for n in token[7:-1].split(',') if n]
            size = int(np.prod(sizes, dtype=int))
            numbers = np.array([float.fromhex(t) for t in rest[: 3 * size]]).reshape(3, size)
            found.append(('bounds', numbers))
            rest = rest[3 * size :]
        else:
            found.append(('number', float.fromhex(token)) if is_number(token) else ('word', token))
    return found


def compatible(old, new, loosely=LOOSELY, times=WIDER):
    "May one stand for the other? Bounds overlap, numbers agree loosely, all else is the same."
    before, now = pieces(old), pieces(new)
    if [piece[0] for piece in before] != [piece[0] for piece in now]:
        return False
    nothing = NOTHING * largest(before)
    return all(same_piece(*pair, loosely, nothing, times) for pair in zip(before, now))


def largest(parts):
    "The largest of an answer's numbers that are finite and no bounds, without its sign."
    sizes = [abs(number) for kind, number in parts if kind == 'number']
    return max((size for size in sizes if np.isfinite(size)), default=0.0)


def same_piece(a, b, loosely, nothing, times):
    "Two parts of one kind."
    (kind, before), (_, now) = a, b
    if kind == 'bounds':
        return before.shape == now.shape and overlap(before, now) and not wider(before, now, times)
    if kind == 'number':
        return near(before, now, loosely, nothing)
    return before == now or alike(before, now)


def overlap(a, b):
    "Is a number in both of two bounds, for each column?"
    return (np.maximum(a[0], b[0]) <= np.minimum(a[2], b[2])).all()


def wider(a, b, times):
    "Are the second bounds more than so many times as wide as the first, in some column?"
    with np.errstate(invalid='ignore'):  # inf - inf
        return (b[2] - b[0] > times * (a[2] - a[0]) + ROUNDING * np.abs(a[2])).any()


def near(x, y, loosely, nothing=0.0):
    "Do two numbers agree, or are both NaN?"
    return relative(x, y) <= loosely or abs(x - y) <= nothing or (np.isnan(x) and np.isnan(y))


def alike(a, b):
    "Are these the same words, with numbers that agree loosely?"
    if not isinstance(a, str) or not isinstance(b, str):
        return False
    number = re.compile(r'\d*\.?\d+(?:e[-+]?\d+)?')
    pairs = zip(number.findall(a), number.findall(b))
    same_words = number.sub('#', a) == number.sub('#', b)
    return same_words and all(relative(float(x), float(y)) <= LOOSELY for x, y in pairs)


def verdict(text, before, now, bits=False, meant=MEANT):
    "(what to say of an answer that is another one, is it a mistake?); `before`, `now`: by section."
    ((section, answer),) = now.items()
    if not before:
        return 'NEW QUESTION, no answer is kept', True
    if section not in before:
        return 'DIFFERENT KIND', True
    if section == 'errors':
        return 'other words (not counted)', False
    if bits:
        return 'OTHER DOUBLES', True
    further, why = next((meant[part] for part in meant if part in text), (LOOSELY, ''))
    if compatible(before[section], answer, further, WIDER_HERE.get(text, WIDER)):
        return f'meant: {why}' if why else '', False
    return 'MEANT, BUT INCOMPATIBLE' if why else 'DIFFERENT', True


def sections(found, text):
    "{'answers' or 'errors': the tokens} of a question."
    return {s: unpacked(found[s][text]) for s in ('answers', 'errors') if text in found[s]}


def compare(old, new, bits=False, meant=MEANT):
    "(lines to print, how many differences are mistakes) in what was asked in the `new` snapshot."
    lines, wrong = [], 0
    asked = [*new['answers'], *new['errors']]
    for text in asked:
        before, now = sections(old, text), sections(new, text)
        if before == now:
            continue
        said, mistake = verdict(text, before, now, bits, meant)
        wrong += mistake
        if said:
            ((section, answer),) = now.items()
            details = differences(before.get(section, []), answer)
            lines += [f'{said}: {text}'] + [f'    {line}' for line in details]
    for text in asked:
        if (text in old['warned']) != (text in new['warned']):
            lines.append(
                f'a warning {"more" if text in new["warned"] else "less"} (not counted): {text}'
            )
    return lines, wrong


def load(path=FILE):
    "The kept snapshot."
    return json.loads(Path(path).read_text(encoding='utf-8'))


def main(argv=None):
    "The command; the exit status."
    parser = argparse.ArgumentParser(description='The same answers?')
    parser.add_argument('--write', metavar='FILE', help='write the answers into this file')
    parser.add_argument('--against', metavar='FILE', default=FILE, help='compare with this file')
    parser.add_argument('--bits', action='store_true', help='the same doubles, on one machine')
    parser.add_argument('--only', metavar='TEXT', default='', help='questions that hold this text')
    parser.add_argument('--tenth', action='store_true', help='a quick tenth of the questions')
    parser.add_argument('--times', action='store_true', help='print the slowest questions')
    args = parser.parse_args(argv)
    times = {}
    texts = tenth() if args.tenth else list(QUESTIONS)
    start = time.perf_counter()
    found = snapshot([text for text in texts if args.only in text], times.__setitem__)
    print(
        f'{len(found["answers"])} questions with {count_doubles(found)} doubles, '
        f'{len(found["errors"])} errors, '
        f'{len(found["warned"])} with a warning; {time.perf_counter() - start:.0f} s'
    )
    if args.times:
        for text in sorted(times, key=times.get)[:-26:-1]:
            print(f'{times[text]:8.3f} s  {text}')
    if args.write:
        write(found, args.write)
        return 0
    old = load(args.against)
    lines, wrong = compare(old, found, args.bits)
    gone = [
        text
        for text in [*old['answers'], *old['errors']]
        if args.only in text and text not in QUESTIONS
    ]
    print('\n'.join([*lines, *(f'GONE: {text}' for text in gone)]))
    print(f'{wrong + len(gone)} differences that are mistakes')
    return 1 if wrong or gone else 0


if __name__ == '__main__':
    sys.exit(main())
