"""Accountants side by side: `make benchmark`. Measures, and leaves the judging to
nbs/benchmark.ipynb, which reads what is written here.

One question, the eps of a setting at its delta, for every accountant in PEERS on every setting
in SETTINGS. A process per accountant imports it (not timed) and forks a child per setting: one
thread, a time limit, a memory limit. Everything is built anew in each repeat (ours with a noise
that differs in the last digit, for something is kept of each noise); the first call is
noted, and the median of the others if it was quick. MB is the peak of resident memory above what
was there after the imports. Nothing proved on a side is null. A failure is an exception, a
time-out, NaN, a negative eps, or no finite answer. Then LADDERS: one question made harder until
an accountant fails or is wrong (below .99 or above 2 times what ours answers); and checks: delta
at both our bounds by tests/oracles.py, which does not know the library.

BUILT are runs that are not Poisson samples of one Gaussian - mixtures, groups, batches that are
cut, selection - each with those who can do it; --built measures these alone, and keeps the rest.
--bins measures balls in bins alone, beside PLD-accounting, which no extra installs; with --again,
those that were quick.

The file is written after each setting. --resume keeps what it has; --only measures what is named
(accountants or settings) again and keeps the rest. --again SECONDS measures in one run, one
accountant after the other on each setting, whoever answered within so many seconds when the file
was written, and repeats an answer for half a second: ten minutes in place of more than thirty.
Failures, slower answers and the ladders, in which no time is, keep what the file has; how many
answers are older is in its part `machine`.
"""

import argparse
import contextlib
import datetime
import io
import itertools
import json
import math
import os
import platform
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
import warnings
from functools import partial
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
S = lambda name, sigma, rate, steps, delta, source='', kind='run': dict(
    name=name,
    sigma=float(sigma),
    rate=float(rate),
    steps=int(steps),
    delta=float(delta),
    source=source,
    kind=kind,
)
SETTINGS = [
    S(
        'MNIST, noise 1.12',
        1.12,
        256 / 60000,
        60 * 60000 // 256,
        1e-5,
        'TensorFlow Privacy, tutorials/README.md: batch 256, 60 epochs; eps 2.92 there',
    ),
    S(
        'MNIST, noise .6',
        0.6,
        256 / 60000,
        30 * 60000 // 256,
        1e-5,
        'TensorFlow Privacy, tutorials/README.md: batch 256, 30 epochs; eps 9.74 there',
    ),
    S(
        'MNIST, noise .7',
        0.7,
        0.004,
        45 * 250,
        1e-5,
        'Opacus, examples/mnist_README.md: rate .004, 45 epochs; eps 7.10 there',
    ),
    S(
        'MNIST, GDP',
        1.3,
        256 / 60000,
        20 * 60000 // 256,
        1e-5,
        'Bu et al. 2020, Fig. 4: 256 of 60000, 20 epochs; eps 1.34 there by moments',
    ),
    S(
        'CIFAR-10, 81.4 %',
        9.4,
        2**14 / 50000,
        2000,
        1e-5,
        'De et al. 2022, as in Alghamdi et al. 2023, Fig. 2: batch 16384; eps 8 there',
    ),
    S(
        'CIFAR-10, eps 1',
        10,
        4096 / 50000,
        725,
        1e-5,
        'De et al. 2022, jax_privacy cifar10_wrn_16_4_eps1.py: batch 4096, stops at eps 1',
    ),
    S(
        'CIFAR-100, fine-tuned',
        21.1,
        2**14 / 50000,
        250,
        1e-5,
        'De et al. 2022, jax_privacy cifar100_wrn_28_10_eps1_finetune.py: '
        'batch 16384, stops at eps 1',
    ),
    S(
        'ImageNet',
        2.5,
        2**14 / 1281167,
        71589,
        8e-7,
        'De et al. 2022, jax_privacy imagenet_nf_resnet_50_eps8.py: batch 16384, stops at eps 8',
    ),
    S(
        'CIFAR-10, TAN',
        3,
        4096 / 50000,
        2500,
        1e-5,
        'Sander et al. 2023, facebookresearch/tan README: '
        'batch 4096; eps 8 there; the delta is ours',
    ),
    S(
        'ImageNet, TAN',
        2.5,
        2**15 / 1281167,
        18000,
        8e-7,
        'Sander et al. 2023, facebookresearch/tan README: '
        'batch 32768; eps 8 there; the delta is that of De et al.',
    ),
    S(
        'GPT-2 on E2E',
        0.6,
        128 / 42061,
        20 * (42061 // 128),
        1e-5,
        "Yu et al. 2022, their repository's GPT-2 README: "
        "16 times 8 records, noise .6, 20 epochs; the 42061 records are E2E's training set",
    ),
    S(
        'MNIST, individual',
        2,
        300 / 60000,
        10000,
        1e-5,
        'Koskela et al. 2023, Fig. 1: batch 300, 50 epochs; the delta is ours',
    ),
    S(
        'Gradient descent',
        100,
        1,
        420,
        1e-5,
        'Feldman and Zrnic 2021, as in Koskela et al. 2023, 4.1: '
        'every record in every step; eps .8 there by RDP',
    ),
    S('PRV Fig. 1', 0.8, 1e-3, 2000, 1e-7, 'Gopi et al. 2021, Fig. 1: the last point of the curve'),
    S(
        'Fourier Fig. 1',
        1,
        0.01,
        10000,
        1e-6,
        'Koskela et al. 2020, Fig. 1: the last point of a curve; delta as in their Fig. 2',
    ),
    S('Little noise', 0.3, 0.1, 1000, 1e-5, 'rate .1, noise .3: eps in the hundreds', 'corner'),
    S(
        'Large eps',
        0.5,
        81920 / 1281167,
        10000,
        0.5 / 1281167,
        'facebookresearch/ViP-MAE PRETRAIN.md, its command for ImageNet-1K as it stands '
        "(the paper's run had other data)",
        'corner',
    ),
    S('Rare and sharp', 0.3, 1e-4, 1000, 1e-5, 'a loss of two humps', 'corner'),
    S('A million rare steps', 1, 1e-6, 10**6, 1e-8, 'grids lose every step in rounding', 'corner'),
    S('Ten million steps', 20, 0.01, 10**7, 1e-5, '', 'corner'),
    S('Small delta', 2, 0.01, 1000, 1e-15, '', 'corner'),
    S('Tiny delta', 2, 0.01, 1000, 1e-30, '', 'corner'),
    S('Absurd delta', 2, 0.01, 1000, 1e-100, '', 'corner'),
    S('Tiny eps', 100, 0.01, 1000, 1e-5, 'much noise', 'corner'),
    S('One step', 1, 0.01, 1, 1e-5, '', 'corner'),
    S('One release', 0.5, 1, 1, 1e-5, 'the Gaussian mechanism itself', 'corner'),
]
LADDERS = {
    'delta': [
        S(f'delta {d:g}', 2, 0.01, 1000, d)
        for d in (
            1e-8,
            1e-9,
            1e-10,
            1e-11,
            1e-12,
            1e-13,
            1e-14,
            1e-15,
            1e-16,
            1e-18,
            1e-20,
            1e-30,
            1e-50,
            1e-100,
            1e-200,
            1e-300,
        )
    ],
    'eps': [
        S(f'sigma {s:g}', s, 0.01, 1000, 1e-5)
        for s in (1, 0.7, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05)
    ],
}
# first call and median, seconds; null: nothing proved, or no answer
BRIEFLY = 0.5  # seconds of repeats with --again
COLUMNS = (
    'lower',
    'estimate',
    'upper',
    'first',
    'seconds',
    'MB',
    'failure',
)
# where rivals are asked for more than their defaults
REFINED = ['MNIST, noise 1.12', 'CIFAR-10, 81.4 %', 'ImageNet']


def ours(name, **options):
    import dp_saddle as d
    times = itertools.count()

    def ask(sigma, rate, steps, delta):
        sigma *= 1 + next(times) * 2**-52  # first as it is; what is kept of a noise helps no repeat
        step = d.PoissonSubsampled(base=d.Gaussian(sigma=sigma), rate=rate)
        return getattr(d, name)(steps * step, **options).epsilon(delta)

    return ask


def dp_accounting(kind):
    import dp_accounting as d

    def ask(sigma, rate, steps, delta):
        event = (
            d.GaussianDpEvent(sigma)
            if rate == 1
            else d.PoissonSampledDpEvent(rate, d.GaussianDpEvent(sigma))
        )
        eps = (
            (d.pld.PLDAccountant if kind == 'pld' else d.rdp.RdpAccountant)()
            .compose(event, steps)
            .get_epsilon(delta)
        )
        return 0, eps, eps

    return ask


def pld_both(mesh):
    """Upper bound by connected dots, lower bound by the optimistic rounding that the same
    library has."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    def ask(sigma, rate, steps, delta):
        low, high = [
            from_gaussian_mechanism(
                sigma,
                sampling_prob=rate,
                value_discretization_interval=mesh,
                pessimistic_estimate=p,
                use_connect_dots=p,
            )
            .self_compose(steps)
            .get_epsilon_for_delta(delta)
            for p in (False, True)
        ]
        return low, high, high

    return ask


def prv(eps_error):
    "Removing a record only: the larger of the two directions wherever we know."
    import prv_accountant as p
    from prv_accountant.privacy_random_variables import GaussianMechanism

    def ask(sigma, rate, steps, delta):
        loss = (
            GaussianMechanism(sigma)
            if rate == 1
            else p.PoissonSubsampledGaussianMechanism(
                sampling_probability=rate, noise_multiplier=sigma
            )
        )
        return p.PRVAccountant(
            prvs=[loss],
            max_self_compositions=[steps],
            eps_error=eps_error,
            delta_error=delta / 1000,
        ).compute_epsilon(delta, [steps])

    return ask


def opacus(kind):
    from opacus.accountants import create_accountant

    def ask(sigma, rate, steps, delta):
        a = create_accountant(kind)
        a.history = [(sigma, rate, steps)]
        eps = a.get_epsilon(delta)
        return 0, eps, math.inf if kind == 'gdp' else eps

    return ask


def riskcal():
    from riskcal.accountants import CTDAccountant

    def ask(sigma, rate, steps, delta):
        a = CTDAccountant()
        a.history = [(sigma, rate, steps)]
        eps = a.get_epsilon(delta=delta)
        return 0, eps, eps

    return ask


def fourier():
    from fourier_accountant import get_epsilon_R

    return lambda sigma, rate, steps, delta: (0, get_epsilon_R(delta, sigma, rate, steps), math.inf)


def fourier_bounds():
    """eps from the bounds on delta that the package calls experimental, by the secant method for
    log delta."""
    from fourier_accountant import get_epsilon_R
    from fourier_accountant.experimental.subsampled_gaussian_bounds import (
        get_delta_max,
        get_delta_min,
    )
    from scipy.optimize import root_scalar

    def ask(sigma, rate, steps, delta):
        x = get_epsilon_R(delta, sigma, rate, steps)
        miss = lambda f: lambda e: math.log(float(f(e, sigma, rate, steps).item()) / delta)
        low, high = [
            root_scalar(miss(f), x0=x, x1=x * 1.01, xtol=1e-9)
            for f in (get_delta_min, get_delta_max)
        ]
        if not (low.converged and high.converged):
            raise ArithmeticError('no eps has this bound')
        return low.root, x, high.root

    return ask


def line(sigma, rate, steps, eps):
    """delta of removing a record, in double precision: the trapezoidal rule for M(z) = E[(1 - q
    + q e^(X/s - 1/2s^2))^(z+1)], X standard normal, and on the vertical line through the saddle
    point, until half the step changes nothing."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    x = np.arange(-14, 26, 0.1)
    weight, loss = (
        np.exp(-(x**2) / 2) * 0.1 / math.sqrt(2 * math.pi),
        np.log1p(rate * np.expm1(x / sigma - 0.5 / sigma**2)),
    )

    def f(z):
        m = np.expm1(np.multiply.outer(z + 1, loss)) @ weight
        return (
            steps * (0.5 * np.log1p(2 * m.real + abs(m) ** 2) + 1j * np.angle(1 + m))
            - eps * z
            - np.log(z * (z + 1))
        )

    t = math.exp(minimize_scalar(lambda u: f(np.exp(u)).real, bounds=(-8, 5), method='bounded').x)
    top, step, found = f(t).real, t / 64, [0.0, 0.0]
    while len(found) < 4 or abs(found[-1] - found[-2]) >= 1e-9 * abs(found[-1]):
        step, total = step / 2, 0.0
        for k in range(0, 10**7, 500):
            terms = np.exp(f(t + 1j * step * np.arange(k, k + 500)) - top).real
            total += terms.sum() - (k == 0) / 2
            if np.abs(terms[-50:]).max() < 1e-18:
                break
        found.append(total * step / math.pi * math.exp(top))
    return found[-1]


def oracle():
    """delta over its target, minus 1, at both our bounds: (from, to, route) for the upper one
    and the lower one."""
    sys.path.insert(0, str(ROOT / 'tests'))
    import oracles

    def ask(sigma, rate, steps, delta, lower, upper):
        def one(eps, way):
            low, high, route = oracles.reference(
                [(('sub', ('gaussian', sigma), rate), steps)], eps, way, 14, 150
            )
            if route == 'by_fft' and way == 'remove':
                value = line(sigma, rate, steps, eps)
                low, high, route = value * (1 - 1e-8), value * (1 + 1e-8), 'line'
            return float(low / delta - 1), float(high / delta - 1), route

        return [max(one(upper, way) for way in ('remove', 'add')), one(lower, 'remove')]

    return ask


ASKED = {
    **{
        name: lambda name=name: ours(name)
        for name in (
            'ContourAccountant',
            'PRVAccountant',
            'TiltedFFT',
            'SaddlePointCLT',
            'SaddlePointMSD',
            'TiltedEdgeworth',
            'EdgeworthInterval',
            'MomentsAccountant',
        )
    },
    'prv_accountant': lambda: prv(0.01),
    'dp_accounting PLD': lambda: dp_accounting('pld'),
    'dp_accounting PLD, both sides': lambda: pld_both(1e-4),
    'dp_accounting RDP': lambda: dp_accounting('rdp'),
    'riskcal': riskcal,
    'Opacus PRV': lambda: opacus('prv'),
    'Opacus RDP': lambda: opacus('rdp'),
    'Opacus GDP': lambda: opacus('gdp'),
    'fourier_accountant': fourier,
}
MORE = {
    **{f'prv_accountant, eps_error {e:g}': lambda e=e: prv(e) for e in (1e-3, 1e-4, 5e-6)},
    **{f'dp_accounting PLD, both sides, mesh {h:g}': lambda h=h: pld_both(h) for h in (1e-5, 1e-6)},
    'fourier_accountant, bounds': fourier_bounds,
}
PEERS, OURS = ASKED | MORE, list(ASKED)[:8]


def sampled(d, sigma=1.0, rate=0.01):
    return d.PoissonSubsampled(d.Gaussian(sigma=sigma), rate=rate)


def mixture_of_nine(d):
    "Nine sensitivities from 0 to 2, on no lattice."
    amounts = [0.0, 0.11, 0.37, 0.52, 0.83, 1.07, 1.31, 1.72, 2.0]
    return d.MixtureOfGaussians(
        sigma=1.0, sensitivities=amounts, probabilities=[0.992] + [0.001] * 8
    )


def truncated(d):
    return d.TruncatedPoisson(sigma=1.0, rate=0.01, dataset_size=10_000, max_batch_size=150)


def searched(d):
    return d.selected(3000 * sampled(d, 2.0), tries=d.Geometric(mean=10.0))


BUILT = {  # (a function of the library -> the run, its delta)
    'Poisson, 2000 steps': (lambda d: 2000 * sampled(d), 1e-6),
    'mixture of 9, 2000 steps': (lambda d: 2000 * mixture_of_nine(d), 1e-6),
    'users with 8 records': (lambda d: d.group(2000 * sampled(d), 8), 1e-6),
    'users with 64 records': (lambda d: d.group(2000 * sampled(d, 8.0), 64), 1e-6),
    'batches of 150 at most': (lambda d: 1000 * truncated(d), 1e-5),
    'rare users with 8 records': (lambda d: d.group(10_000 * sampled(d, 2.0, 1e-5), 8), 1e-6),
    'the best of 10 runs': (searched, 1e-5),
}


def build_ours(name):
    import dp_saddle as d
    from dp_saddle.accounting import best_accountant

    make, delta = BUILT[name]
    return lambda: best_accountant(make(d)).epsilon(delta)


def build_pld(name, mesh=1e-3):
    "dp_accounting's grid, from above."
    from dp_accounting.pld import privacy_loss_distribution as pld

    import dp_saddle as ours

    make, delta = BUILT[name]
    if name.startswith('the best'):
        raise ValueError('no selection by privacy loss distributions')
    ((step, steps),) = make(ours).as_steps()

    def one():
        known = dict(value_discretization_interval=mesh)
        if isinstance(step, ours.TruncatedPoisson):
            sizes = step.dataset_size, step.rate, step.max_batch_size, step.sigma
            return pld.from_truncated_subsampled_gaussian_mechanism(*sizes, **known)
        if isinstance(step, ours.PoissonSubsampled):
            return pld.from_gaussian_mechanism(step.base.sigma, sampling_prob=step.rate, **known)
        law = step.sensitivities, step.probabilities
        return pld.from_mixture_gaussian_mechanism(step.sigma, *law, **known)

    def ask():
        above = one().self_compose(steps).get_epsilon_for_delta(delta)
        return 0, above, above

    return ask


def build_rdp(name):
    "dp_accounting's Renyi bounds, which know sampled Gaussians and selection."
    import dp_accounting as d

    if name not in ('Poisson, 2000 steps', 'the best of 10 runs'):
        raise ValueError('no Renyi divergences of this step')
    best = name.startswith('the best')
    sigma, steps, delta = (2.0, 3000, 1e-5) if best else (1.0, 2000, 1e-6)
    one = d.PoissonSampledDpEvent(0.01, d.GaussianDpEvent(sigma))
    run = d.SelfComposedDpEvent(one, steps)
    if best:
        run = d.dp_event.RepeatAndSelectDpEvent(run, 10, 1)

    def ask():
        eps = d.rdp.RdpAccountant().compose(run).get_epsilon(delta)
        return 0, eps, eps

    return ask


def build_riskcal(name):
    "Its connected dots know a sampled Gaussian."
    if name != 'Poisson, 2000 steps':
        raise ValueError('sampled Gaussians only')
    ask = riskcal()
    return lambda: ask(sigma=1.0, rate=0.01, steps=2000, delta=1e-6)


BUILDERS = {
    'ours': build_ours,
    'dp_accounting PLD': build_pld,
    'dp_accounting RDP': build_rdp,
    'riskcal': build_riskcal,
}


def built():
    "The rows of BUILT, in this process: [lower, estimate, upper, first, seconds, MB, failure]."
    rows = {}
    for name in BUILT:
        for peer, build in BUILDERS.items():
            try:
                ask = build(name)
            except ValueError as error:
                row = dict(failure=f'not served: {error}')
            else:
                row = answer(ask, {}, exact=peer == 'ours')
            rows.setdefault(name, {})[peer] = [row.get(c) for c in COLUMNS]
            print(f'{name} | {peer} | {row}', flush=True)
    return rows


def peak():
    "MB of resident memory, the largest since the last call."
    status = Path('/proc/self/status').read_text(encoding='utf-8')
    lines = dict(line.split(':', 1) for line in status.splitlines())
    with contextlib.suppress(OSError):
        Path('/proc/self/clear_refs').write_text('5', encoding='utf-8')
    return int(lines['VmHWM'].split()[0]) / 1024


def answer(ask, question, exact=True, repeats=9, patience=2.0):
    "The row of one accountant on one question."
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter('ignore')
            peak()
            before, times, begun, answers = peak(), [], time.perf_counter(), []
            while not times or (len(times) <= repeats and time.perf_counter() - begun < patience):
                start = time.perf_counter()
                answers.append(ask(**question))
                times.append(time.perf_counter() - start)
            said = answers[0]
            memory = peak() - before
    except BaseException as error:
        return dict(failure=f'{type(error).__name__}: {error}'[:90])
    if isinstance(said, list):
        return dict(check=said, seconds=times[0])
    lower, estimate, upper = map(float, said)
    show = lambda x: (x if exact else float(f'{x:.12g}')) if math.isfinite(x) else None
    value = upper if upper < math.inf else estimate
    failure = (
        'NaN'
        if any(map(math.isnan, (lower, estimate, upper)))
        else 'no finite answer'
        if not value < math.inf
        else 'negative eps'
        if value < 0
        else ''
    )
    return dict(
        zip(
            COLUMNS,
            (
                show(lower) if lower > 0 else None,
                show(estimate),
                show(upper),
                float(f'{times[0]:.4g}'),
                float(f'{statistics.median(times[1:] or times):.4g}'),
                round(memory, 1),
                failure,
            ),
        )
    )


def serve(make, exact=True, memory=8):
    "In a process of its own: a child per line of stdin, its row to stdout."
    ask = make()
    for line in sys.stdin:
        limit, question, *patience = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_DATA, (memory << 30, memory << 30))
            row = answer(ask, question, exact, patience=patience[0] if patience else 2.0)
            os.write(write, json.dumps(row).encode())
            os._exit(0)
        os.close(write)
        text = os.read(read, 1 << 16) if select.select([read], [], [], limit)[0] else None
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        print(
            (text or b'').decode()
            or json.dumps(dict(failure=f'more than {limit:g} s' if text is None else 'killed')),
            flush=True,
        )


class Peer:
    "Asks an accountant that runs in its own process."

    def __init__(self, name, patience=2.0):
        self.patience = patience
        one = {k: '1' for k in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')} | {
            'PYTHONPATH': os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')]),
            'MPLBACKEND': 'agg',
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__, '--serve', name],
            env=os.environ | one,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, setting, limit, **more):
        question = {k: setting[k] for k in ('sigma', 'rate', 'steps', 'delta')} | more
        try:
            self.process.stdin.write(json.dumps([limit, question, self.patience]) + '\n')
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return json.loads(self.process.stdout.readline() or '{"failure": "cannot be imported"}')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def climb(ask, rungs, known, limit):
    "How far up a ladder the answers are right: the last rung, and why not the next."
    last = None
    for rung in rungs:
        row, true = ask(rung, limit), known[rung['name']]
        value = row.get('upper') or row.get('estimate')
        why = row['failure'] or (
            '' if 0.99 * true <= value <= 2 * true else f'says {value:.4g} for {true:.4g}'
        )
        if why:
            return dict(last=last, why=why)
        last = rung['name'] if rung['name'].startswith('delta') else true
    return dict(last=last, why='')


def write_parts(path, parts):
    "The file, a part a line."
    lines = ',\n'.join(f'{json.dumps(k)}: {json.dumps(v)}' for k, v in parts.items())
    lines = lines.replace(': {"MNIST, noise 1.12"', ':\n{"MNIST, noise 1.12"')
    path.write_text('{' + lines + '}\n', encoding='utf-8')


# ---------------- balls in bins: other packages, other settings, the same judge
B = lambda sigma, batches, epochs, delta: S(
    f'sigma {sigma:g}, {batches} batches, {epochs} epoch{"s"[: epochs > 1]}',
    sigma,
    1 / batches,
    epochs,
    delta,
    kind='bins',
)
BINS = [
    B(1, 10, 1, 1e-6),
    B(1, 1000, 1, 1e-5),
    B(0.35, 1000, 1, 1e-6),
    B(0.4, 10_000, 1, 1e-6),
    B(1, 1000, 10, 1e-5),
    B(2, 100, 100, 1e-6),
]
SAMPLES = 200_000  # of the Monte Carlo estimate


def bins_ours():
    from dp_saddle import BallsInBins, ContourAccountant, Gaussian
    from dp_saddle.sampling.lognormal_moments import bin_moments

    def ask(sigma, rate, steps, delta):
        bin_moments.cache_clear()
        run = steps * BallsInBins(Gaussian(sigma=sigma), batches=round(1 / rate))
        return ContourAccountant(run).epsilon(delta)

    return ask


def bins_grid():
    "Feldman and Shenfeld's grids, as their package refines them by default."
    import PLD_accounting as p

    def ask(sigma, rate, steps, delta):
        high, low = p.gaussian_allocation_epsilon_range(
            delta=delta, sigma=sigma, num_steps=round(1 / rate), num_epochs=steps
        )
        return low, high, high

    return ask


def bins_sampled():
    "Removing a record: the estimate of many sampled losses, with the record. Proves nothing."
    import numpy as np

    def ask(sigma, rate, steps, delta):
        rng, T, loss = np.random.default_rng(0), round(1 / rate), np.zeros(SAMPLES)
        for some in np.array_split(np.arange(SAMPLES), max(1, SAMPLES * T // 10**7)):
            for _ in range(steps):
                x = rng.standard_normal((len(some), T)) / sigma
                x[:, 0] += 1 / sigma**2
                top = x.max(1)
                sums = np.exp(x - top[:, None]).mean(1)
                loss[some] += top + np.log(sums) - 0.5 / sigma**2
        low, high = 0.0, max(loss.max(), 1e-9)
        for _ in range(60):
            eps = (low + high) / 2
            enough = -np.expm1(np.minimum(eps - loss, 0)).mean() > delta
            low, high = (eps, high) if enough else (low, eps)
        return 0, high, math.inf

    return ask


BIN_PEERS = {
    'BallsInBins': bins_ours,
    'PLD_accounting': bins_grid,
    'Monte Carlo, 200000 losses': bins_sampled,
}


def measure_bins(out, limit, again=None):
    "Into the part `bins` of the file, or those of it that take `again` seconds at most."
    data = json.loads(out.read_text(encoding='utf-8'))
    rows = data['bins']['rows'] if again else {name: {} for name in BIN_PEERS}

    def is_kept(name, setting):
        row = dict(zip(COLUMNS, rows[name].get(setting, ())))
        return bool(row) and bool(row['failure'] or max(row['first'], row['seconds']) > again)

    older = [(name, s['name']) for name in BIN_PEERS for s in BINS if is_kept(name, s['name'])]
    for name in BIN_PEERS:
        with Peer(name) as ask:
            for s in BINS:
                if (name, s['name']) in older:
                    continue
                row = ask(s, limit)
                rows[name][s['name']] = [row.get(c) for c in COLUMNS]
                print(name, s['name'], row, flush=True)
    told = dict(date=str(datetime.date.today()), limit=limit, settings=BINS, rows=rows)
    told |= {'PLD-accounting': version('PLD-accounting')}
    write_parts(out, data | dict(bins=told))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        '--only', nargs='+', default=[], metavar='NAME', help='accountants or settings'
    )
    parser.add_argument(
        '--limit', type=float, default=60, metavar='SECONDS', help='for one answer; default: 60'
    )
    parser.add_argument('--out', type=Path, default=ROOT / 'nbs' / 'benchmark.json')
    parser.add_argument(
        '--again',
        type=float,
        metavar='SECONDS',
        help='measure quick ones again, in one run; 4 takes ten minutes',
    )
    parser.add_argument('--resume', action='store_true', help='keep what the file has')
    parser.add_argument('--built', action='store_true', help='measure BUILT alone')
    parser.add_argument('--bins', action='store_true', help='measure balls in bins, nothing else')
    parser.add_argument('--serve', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.built:
        data = json.loads(args.out.read_text(encoding='utf-8'))
        today = str(datetime.date.today())
        return write_parts(args.out, data | dict(built=built(), built_date=today))
    if args.serve:
        known = PEERS | BIN_PEERS | {'oracle': oracle}
        return serve(known[args.serve], args.serve in [*OURS, 'BallsInBins', 'oracle'])
    if args.bins:
        return measure_bins(args.out, args.limit, args.again)
    unknown = set(args.only) - set(PEERS) - {s['name'] for s in SETTINGS}
    if unknown:
        known = ', '.join([*PEERS, *(s['name'] for s in SETTINGS)])
        parser.error(
            f'{", ".join(sorted(unknown))}: neither an accountant nor a setting; there are {known}'
        )
    old = (
        json.loads(args.out.read_text(encoding='utf-8'))
        if args.out.exists()
        else dict(rows={}, ladders={}, checks={})
    )
    rows, ladders, checks = (
        old[k] if args.resume or args.only or args.again or k == 'checks' else {}
        for k in ('rows', 'ladders', 'checks')
    )
    rows = {
        peer: {name: dict(zip(COLUMNS, row)) for name, row in answers.items()}
        for peer, answers in rows.items()
    }
    chosen = lambda *names: not args.only or set(names) & set(args.only)

    def is_kept(name, setting):
        "Is an answer, with --again, too slow to be measured again, or none?"
        row = rows.get(name, {}).get(setting, {})
        return bool(row) and (
            bool(row['failure']) or max(row['first'], row['seconds']) > args.again
        )

    older = [(p, n) for p in rows for n in rows[p] if args.again and is_kept(p, n)]

    def write():
        packages = {
            p: version(p)
            for p in (
                'numpy',
                'scipy',
                'prv-accountant',
                'dp-accounting',
                'fourier-accountant',
                'riskcal',
                'opacus',
            )
        }
        machine = dict(
            date=str(datetime.date.today()),
            python=platform.python_version(),
            machine=platform.machine(),
            cores=os.cpu_count(),
            limit=args.limit,
            load=load,
            older=len(older),
            **packages,
        )
        told = {
            peer: {
                s['name']: [rows[peer][s['name']].get(c) for c in COLUMNS]
                for s in SETTINGS
                if s['name'] in rows[peer]
            }
            for peer in PEERS
            if peer in rows
        }
        parts = dict(
            machine=machine,
            columns=COLUMNS,
            settings=SETTINGS,
            ours=OURS,
            rows=told,
            ladders={k: ladders[k] for k in PEERS if k in ladders},
            checks=checks,
        )
        parts |= {k: v for k, v in old.items() if k not in parts}  # what is measured apart
        write_parts(args.out, parts)

    load = round(os.getloadavg()[0], 1)
    with contextlib.ExitStack() as open_ones:
        asked = {}

        def ask(name, *question):
            if name not in asked:
                patience = BRIEFLY if args.again else 2.0
                asked[name] = open_ones.enter_context(Peer(name, patience))
            return asked[name](*question)

        for s in (
            SETTINGS
        ):  # one after the other on the same setting: the load of the machine changes slowly
            todo, begun = (
                [
                    n
                    for n in PEERS
                    if (n in ASKED or s['name'] in REFINED)
                    and chosen(n, s['name'])
                    and not (args.resume and s['name'] in rows.get(n, {}))
                    and (n, s['name']) not in older
                ],
                time.time(),
            )
            for name in todo:
                rows.setdefault(name, {})[s['name']] = ask(name, s, args.limit)
            failed = [
                f'{n} ({rows[n][s["name"]]["failure"]})'
                for n in todo
                if rows[n][s['name']]['failure']
            ]
            if todo:
                print(
                    f'{s["name"]}: {len(todo)} in {time.time() - begun:.0f} s;',
                    'failed:' * bool(failed),
                    '; '.join(failed),
                    flush=True,
                )
                write()
        keeps = args.resume or args.again
        todo = [n for n in ASKED if chosen(n) and not (keeps and n in ladders)]
        known = {
            rung['name']: ask('ContourAccountant', rung, args.limit)['upper']
            for rung in sum(LADDERS.values(), [])
            if todo
        }
        for name in todo:
            ladders[name] = {
                k: climb(partial(ask, name), rungs, known, args.limit / 3)
                for k, rungs in LADDERS.items()
            }
            print(f'ladders of {name}: {ladders[name]}', flush=True)
            write()
    with Peer('oracle') as ask:
        for s in SETTINGS:
            row = rows['ContourAccountant'].get(s['name'], {})
            bounds = {k: row.get(k) or 0.0 for k in ('lower', 'upper')}
            if {k: checks.get(s['name'], {}).get(k) for k in bounds} != bounds or not checks[
                s['name']
            ]['check']:  # slow, and the same on every machine where our bounds are
                checks[s['name']] = bounds | {
                    'check': ask(s, 15 * args.limit, **bounds).get('check')
                }
                print(f'checked {s["name"]}: {checks[s["name"]]}', flush=True)
                write()


if __name__ == '__main__':
    main()
