"""How far from the limit: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python tests/limits.py
writes the part `limits` of nbs/benchmark.json.

For each setting, what a proof cannot do without is counted (`needs`), and what these operations
take on long arrays is measured in the same run; beside it our time, and that of those who answer
fastest: Renyi accountants, dp_accounting's PLD, riskcal. All in one process, one call of each in
each of several rounds, in an order that is drawn anew (who comes after a long one finds the
processor's caches empty); CPU seconds (other work on the machine then matters least), everything
built anew in each call, medians.

Kinds of operations: `exp` of a real number; `turn`, e^{is} of a real one; `add`, a complex
product and sum; `power`, the logarithm and the exponential of a complex number; `whole`, a
product, a quotient and a shift of whole numbers of some hundred binary digits; `tail`, of a normal
law. A line of N nodes, whose transform is a sum over j, needs for each direction j weights (exp),
the powers of j turns by two tables (2 j sqrt(N) turns), N j products and sums, and N powers; a
line without small losses has fewer nodes, and two transforms.
"""

import argparse
import contextlib
import datetime
import io
import itertools
import json
import logging
import math
import os
import random
import statistics
import time
import warnings
from functools import partial

import numpy as np
from scipy.special import log_ndtr

import dp_saddle as dp
import oracles
import peers
from dp_saddle.accounting import best_accountant
from dp_saddle.engine.gaussian_rows import epsilon_of_sampled, pair_of
from dp_saddle.engine.line import CgfTable
from dp_saddle.engine.stacked_kinds import kind_of
from dp_saddle.losses import LaplaceLoss
from dp_saddle.losses.long_lines import quotient

COUNT = 1 << 12  # of an array on which an operation is timed
ROUNDS, PATIENCE = 9, 0.5  # calls of each, and CPU seconds after which one is not asked again
TAILS = 8  # two at each end of an interval, and as many on the way
FPR = np.linspace(0.001, 0.999, 100)
WHOLE_BITS = 1 << 8


def laplace(*kinds):
    "A run of (count, scale) pairs, and dp_accounting's."

    def build(d):
        return sum((n * d.Laplace(scale=b) for n, b in kinds), 0 * d.Laplace(scale=1.0))

    from dp_accounting.pld.privacy_loss_distribution import (
        from_laplace_mechanism as one,
    )

    def pld():
        parts = [one(b).self_compose(n) if n > 1 else one(b) for n, b in kinds]
        total = parts[0]
        for part in parts[1:]:
            total = total.compose(part)
        return total

    return build, pld


def kinds(*steps):
    "A run of (what, its parameter, count), and dp_accounting's."
    from dp_accounting.pld import privacy_loss_distribution as theirs

    known = {
        'Laplace': (lambda x: dp.Laplace(scale=x), theirs.from_laplace_mechanism),
        'response': (
            lambda x: dp.RandomizedResponse(eps=x),
            lambda x: theirs.from_randomized_response(2 / (1 + math.exp(x)), 2),
        ),
        'discrete': (
            lambda x: dp.DiscreteGaussian(sigma=x),
            theirs.from_discrete_gaussian_mechanism,
        ),
        'sampled': (
            lambda x: dp.PoissonSubsampled(base=dp.Gaussian(sigma=x), rate=0.01),
            lambda x: theirs.from_gaussian_mechanism(x, sampling_prob=0.01),
        ),
    }

    def build(d):
        run = [n * known[what][0](x) for what, x, n in steps]
        return sum(run[1:], run[0])

    def pld():
        parts = [known[what][1](x).self_compose(n) for what, x, n in steps]
        total = parts[0]
        for part in parts[1:]:
            total = total.compose(part)
        return total

    return build, pld


KINDS = {  # as for corners
    '2 kinds of Laplace': (kinds(*(('Laplace', x, 30) for x in (14.0, 25.0))), 1e-6),
    '5 kinds of Laplace': (
        kinds(*(('Laplace', x, 30) for x in (12.0, 17.0, 23.0, 29.0, 37.0))),
        1e-6,
    ),
    '10 kinds of responses': (
        kinds(*(('response', 0.06 + 0.023 * k, 30) for k in range(10))),
        1e-6,
    ),
    '3 discrete Gaussians': (kinds(*(('discrete', x, 30) for x in (11.0, 17.0, 29.0))), 1e-6),
    '20 kinds of sampled steps, Laplace': (
        kinds(*(('sampled', 1 + 0.1 * k, 100) for k in range(20)), ('Laplace', 20.0, 10)),
        1e-6,
    ),
}
CORNERS = {  # (run, dp_accounting's), delta
    '5 Laplace(1)': (laplace((5, 1.0)), 1e-14),
    '3 Laplace(1), 2 Laplace(2)': (laplace((3, 1.0), (2, 2.0)), 1e-14),
    '3 Laplace(5)': (laplace((3, 5.0)), 1e-5),
    '30 Laplace(1)': (laplace((30, 1.0)), 1e-5),
    '100 Laplace(10)': (laplace((100, 10.0)), 1e-14),
}
GAUSSIANS = {'420 Gaussians': (100.0, 1.0, 420, 1e-5), 'one Gaussian': (1.0, 1.0, 1, 1e-6)}
FEW = {'2 sampled steps': (1.0, 0.1, 2, 1e-6), '10 sampled steps': (2.0, 0.01, 10, 1e-8)}
CURVES = {'curve, 5 sharp steps': (0.4, 0.1, 5), 'curve, 1000 steps': (1.0, 0.01, 1000)}


def costs(repeats=25):
    "Seconds of one operation of each kind, on long arrays: the least of many."
    rng = np.random.default_rng(0)
    x = rng.uniform(-5, 5, COUNT)
    z = np.exp(1j * x)
    a, u = (np.array([v] * 64, dtype=object) for v in (3 << WHOLE_BITS, 5 << WHOLE_BITS - 2))
    weights = np.ascontiguousarray(z.reshape(64, -1))
    kinds = {
        'exp': (lambda: np.exp(x), COUNT),
        'turn': (lambda: np.exp(1j * x), COUNT),
        'add': (lambda: weights @ weights.T, 64 * COUNT),
        'power': (lambda: np.exp(3 * np.log1p(z)), COUNT),
        'whole': (lambda: (a * u // 7 >> WHOLE_BITS) + a, len(a)),
        'tail': (lambda: log_ndtr(x), COUNT),
    }

    def once(work, count):
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) / count

    return {k: min(once(*v) for _ in range(repeats)) for k, v in kinds.items()}


def without_small_losses(run, delta):
    "Nodes of a removing line without small losses (engine/line, Few rare steps), or None."
    found = epsilon_of_sampled(run, delta)
    if found is None:
        return None
    ((step, n),) = run.steps
    pair = pair_of(*kind_of(step))
    with np.errstate(all='ignore'):
        line = pair.ready_for(pair.ready, n, math.log(delta)).step
    return line.s.shape[1] if line is not None and line.rest is not None else None


def terms_of(loss, t):
    "Of a sum that is its transform: atoms that are felt, or nodes."
    by_atoms = quotient(loss, t, 1.0, loss.known_cgf(t))
    return len(by_atoms.p) if by_atoms else loss.nodes_at(t)


def of_lines(run, delta):
    "The needs of a proof by one line for each direction."
    needs = dict.fromkeys(('exp', 'turn', 'add', 'power'), 0)
    for plrv in {run.remove, run.add}:
        table = CgfTable(plrv)
        goal, _, _ = table.epsilon(delta)
        line = table.line_for(np.array([max(goal, 1e-9)]), np.array([math.log(delta)]))
        N, j = len(line.s), sum(terms_of(p, line.plan.t) for p, _ in plrv.parts)
        if plrv is run.remove and (shorter := without_small_losses(run, delta)):
            N, j = shorter, 2 * j  # two transforms
        needs['exp'] += j
        needs['turn'] += min(2 * j * math.sqrt(N), N * j)
        needs['add'] += N * j
        needs['power'] += N
    return {k: math.ceil(v) for k, v in needs.items()}


def of_exact_sums(run, delta):
    "Those of the sum of `oracles.few_laplace` in whole numbers, at both ends and once between."
    parts = [(p.mu, n) for p, n in run.remove.parts]
    U = (sum(n * d for d, n in parts) - best_accountant(run).epsilon(delta).estimate) / 2
    taken = itertools.product(*(range(n + 1) for _, n in parts))
    sets = sum(sum(j * d for j, (d, _) in zip(js, parts, strict=True)) < U for js in taken)
    steps = sum(n for _, n in parts)
    return dict(whole=3 * sets * oracles.laplace_terms(steps, U, WHOLE_BITS // 2))


def needs_of(run, delta):
    table = CgfTable(run.remove)
    if table.closed_form:
        return dict(tail=TAILS)
    if all(isinstance(p, LaplaceLoss) and p.rate == 1 for p, _ in run.remove.parts):
        return of_exact_sums(run, delta)
    return of_lines(run, delta)


def timed(ask):
    "(CPU seconds, what it said) of one call; what was kept of earlier ones is forgotten."
    pair_of.cache_clear()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter('ignore')
        start = time.process_time()
        said = ask()
        return time.process_time() - start, said


def in_turn(asked):
    "{accountant: [lower, upper, median seconds, why there is none]}, one call of each in a round."
    times, said, why = {k: [] for k in asked}, {}, dict.fromkeys(asked, '')
    order = random.Random(0)
    for _ in range(ROUNDS):
        for name in order.sample(list(asked), len(asked)):
            if why[name] or sum(times[name]) > PATIENCE:
                continue
            try:
                seconds, said[name] = timed(asked[name])
                times[name].append(seconds)
            except Exception as error:
                why[name] = f'{type(error).__name__}: {error}'[:90]

    def row(name):
        if why[name] or not math.isfinite(said[name][1]):
            return [None, None, None, why[name] or 'no finite answer']
        return [*said[name], float(f'{statistics.median(times[name]):.3g}'), '']
    return {name: row(name) for name in asked}


def ends(found):
    "(lower, upper) of a Bounds, or of an upper bound."
    return found.lower, found.upper


def sampled(sigma, rate, steps, delta, left_out):
    "Accountants of a sampled Gaussian run, by name."

    def run(d):
        step = d.Gaussian(sigma=sigma)
        return steps * (step if rate == 1 else d.PoissonSubsampled(base=step, rate=rate))

    def of(name, make):
        ask = make()
        return name, lambda: (0, float(f'{ask(sigma, rate, steps, delta)[2]:.9g}'))

    others = {
        'dp_accounting PLD': partial(peers.dp_accounting, 'pld'),
        'dp_accounting RDP': partial(peers.dp_accounting, 'rdp'),
        'Opacus RDP': partial(peers.opacus, 'rdp'),
        'riskcal': peers.riskcal,
    }
    ours = {
        'ours': lambda: (lambda r: (0.0, float(dp.epsilon(r, delta=delta))))(run(dp)),
        'our interval': lambda: ends(best_accountant(run(dp)).epsilon(delta)),
        'our moments': lambda: ends(dp.MomentsAccountant(run(dp)).epsilon(delta)),
    }
    return run(dp), ours | dict(of(k, v) for k, v in others.items() if k not in left_out)


def cornered(build, pld, delta):
    "Accountants of a run of Laplace steps."
    return build(dp), {
        'ours': lambda: (0.0, float(dp.epsilon(build(dp), delta=delta))),
        'our interval': lambda: ends(best_accountant(build(dp)).epsilon(delta)),
        'dp_accounting PLD': lambda: (0.0, pld().get_epsilon_for_delta(delta)),
    }


def of_curve(sigma, rate, steps):
    "Trade-off curves: `lower` and `upper` are the mean false negative rate."
    from riskcal.accountants import CTDAccountant

    def ours():
        step = dp.PoissonSubsampled(base=dp.Gaussian(sigma=sigma), rate=rate)
        return 0.0, float(np.mean(dp.tradeoff(steps * step, fpr=FPR)))

    def theirs():
        a = CTDAccountant()
        a.history = [(sigma, rate, steps)]
        return 0.0, float(np.mean(a.get_beta(alpha=FPR)))

    return {'ours': ours, 'riskcal': theirs}


def slow_ones(data, name, most=1.0):
    "Who took long, or failed, when the grid was measured: not asked again here."

    def is_slow(row):
        return bool(row[6]) or row[4] > most

    return {p for p, rows in data['rows'].items() if name in rows and is_slow(rows[name])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--few', action='store_true', help='three settings only, printed')
    args = parser.parse_args()
    path = peers.ROOT / 'nbs' / 'benchmark.json'
    data = json.loads(path.read_text(encoding='utf-8'))
    logging.disable(logging.WARNING)
    load, rows = round(os.getloadavg()[0], 1), {}

    def add(name, kind, needs, answers):
        unit = costs()
        least = sum(unit[k] * n for k, n in needs.items())
        rows[name] = dict(kind=kind, needs=needs, least=float(f'{least:.4g}'), answers=answers)
        print(name, needs, f'{least:.2g}', answers, flush=True)
        if not args.few:
            told = dict(date=str(datetime.date.today()), load=load, rounds=ROUNDS, costs=unit)
            peers.write_parts(path, data | dict(limits=told | dict(rows=rows)))

    grid = {s['name']: tuple(s[k] for k in ('sigma', 'rate', 'steps', 'delta'))
            for s in peers.SETTINGS}
    for name, (built, delta) in list(CORNERS.items())[: 1 if args.few else None]:
        run, who = cornered(*built, delta)
        add(name, 'corners', needs_of(run, delta), in_turn(who))
    for name, (built, delta) in list(KINDS.items())[: 1 if args.few else None]:
        run, who = cornered(*built, delta)
        add(name, 'kinds', of_lines(run, delta), in_turn(who))
    for name, asked in list(CURVES.items())[: 0 if args.few else None]:
        add(name, 'curves', {}, in_turn(of_curve(*asked)))
    for kind, settings in (('few steps', FEW), ('Gaussians', GAUSSIANS), ('grid', grid)):
        for name, asked in list(settings.items())[: 1 if args.few else None]:
            left_out = slow_ones(data, name) | ({'riskcal'} if kind == 'grid' else set())
            run, who = sampled(*asked, left_out)
            add(name, kind, needs_of(run, asked[3]), in_turn(who))


if __name__ == '__main__':
    main()
