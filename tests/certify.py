"""300 random runs and what `oracles.reference` says of them, in random.json: an interval that holds
the truth.

The settings are drawn from a seed; the library is asked only for mean and standard deviation of the
loss, to ask for an eps
where delta is neither 0 nor 1. Recompute (an hour or so on two cores, resumes where it was): python
tests/certify.py
"""
import json
import os
from multiprocessing import Pool
from pathlib import Path

import mpmath as mp
import numpy as np

import oracles
from dp_saddle import (
    ApproxDP,
    Composition,
    Discrete,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    RandomizedResponse,
)

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'random.json')

def mechanism(m):
    "The library's mechanism for an oracle's description."
    name, *a = m
    make = {'gaussian': lambda s, d=1.: Gaussian(sigma=s, sensitivity=d),
            'laplace': lambda b, d=1.: Laplace(scale=b, sensitivity=d),
            'rr': lambda e: RandomizedResponse(eps=e),
            'approx': lambda e, d: ApproxDP(eps=e, delta=d),
            'discrete': lambda p, q: Discrete(p=p, q=q),
            'sub': lambda base, rate: PoissonSubsampled(base=mechanism(base), rate=rate)}
    return make[name](*a)

def run(steps): return Composition(tuple((mechanism(m), n) for m, n in steps))

def settings(count=300, seed=2026):
    """(steps, eps, direction): sigma .3 to 20, rate 1e-6 to 1, 1 to 1e7 steps, eps 0 to 50, some
    with Laplace, randomised response or a second kind of step."""
    rng, out = np.random.default_rng(seed), []
    log_uniform = lambda a, b: float(np.exp(rng.uniform(np.log(a), np.log(b))))
    while len(out) < count:
        rate = log_uniform(1e-6, 3)
        first = ('gaussian', log_uniform(.3, 20))
        steps = [(('sub', first, rate) if rate < 1 else first, int(log_uniform(1, 1e7)))]
        kind = rng.integers(5)
        if kind == 1: steps.append((('laplace', log_uniform(1, 50)), int(rng.integers(1, 30))))
        if kind == 2: steps.append((('rr', log_uniform(.01, 1)), int(rng.integers(1, 30))))
        if kind == 3:
            steps.append((('sub', ('gaussian', log_uniform(.5, 10)), log_uniform(1e-4, .5)),
                          int(log_uniform(1, 1e5))))
        direction = str(rng.choice(['remove', 'add']))
        plrv = getattr(run(steps), direction)
        mean, variance = plrv.cumulants(0., 2)
        eps = float(mean + rng.uniform(-1, 8)*np.sqrt(variance))
        if -1 < eps < min(50, plrv.ess_sup): out.append((steps, max(eps, 0.), direction))
    return out

def _refer(setting):
    steps, eps, direction = setting
    low, high, route = oracles.reference(steps, eps, direction, seconds=40)
    return dict(steps=steps, eps=eps, direction=direction, low=mp.nstr(low, 20),
                high=mp.nstr(high, 20), route=route)

def main():
    rows = json.loads(Path(FILE).read_text(encoding='utf-8')) if os.path.exists(FILE) else []
    with Pool(2) as pool:
        for row in pool.imap(_refer, settings()[len(rows):]):
            rows.append(row)
            with open(FILE, 'w', encoding='utf-8') as f:
                f.write('[\n' + ',\n'.join(json.dumps(r) for r in rows) + '\n]\n')
            print(len(rows), row, flush=True)

if __name__ == '__main__': main()
