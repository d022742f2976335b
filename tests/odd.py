"""Odd mechanisms, and what the certified contour says of them, in odd.json: some take seconds, and
three files ask.

Compute them again: python tests/odd.py
"""
import functools
import json
import os
import re

import numpy as np

from dp_saddle import (
    AdditiveNoise,
    ApproxDP,
    Bounds,
    ContourAccountant,
    Discrete,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PoissonSubsampled,
    RandomizedResponse,
    TruncatedPoisson,
    group,
)

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'odd.json')
ODD_EPS, ODD_DELTA = np.array([0, 1e-6, .5, 3., 100., 1e8]), np.array([.999, .1, 1e-6, 1e-300])

def S(sigma, rate): return PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

def M(sigma, c, p): return MixtureOfGaussians(sigma=sigma, sensitivities=c, probabilities=p)

class Logistic:
    "A log-density that is called the same in every process."
    def __call__(self, x): return -np.abs(x) - 2*np.log1p(np.exp(-np.abs(x)))
    def __repr__(self): return '<function logistic>'

OWN = AdditiveNoise(log_density=Logistic(), sensitivity=.1, slope=1., log_concave=True, even=True)

ODD = [0*Gaussian(sigma=1.), Gaussian(sigma=1.), Gaussian(sigma=1e-3), Gaussian(sigma=1e-50),
       Gaussian(sigma=1e50), 10**12*Gaussian(sigma=1e5), Laplace(scale=1.), Laplace(scale=1e-3),
       10**6*Laplace(scale=1e3), RandomizedResponse(eps=0), RandomizedResponse(eps=100.),
       50*RandomizedResponse(eps=.1), 10**9*RandomizedResponse(eps=1e-4), ApproxDP(eps=0, delta=.1),
       5*ApproxDP(eps=1., delta=1e-6), 10**4*ApproxDP(eps=.1, delta=.9),
       Discrete(p=(1., 0.), q=(0., 1.)), Discrete(p=(.5, .5), q=(.5, .5)),
       Discrete(p=(.6, .4, 0), q=(.3, 0, .7)), Discrete(p=(1e-300, 1.), q=(.5, .5)),
       20*Discrete(p=(.1, .2, .7), q=(.3, .3, .4)),
       10**9*Discrete(p=(.500001, .499999), q=(.5, .5)), 10*S(.3, .999), 10**6*S(.3, 1e-9),
       3*S(.05, .01), 10**10*S(1e4, .5), 10*S(1., 1e-12),
       1000*PoissonSubsampled(base=Laplace(scale=1.), rate=.01),
       100*PoissonSubsampled(base=RandomizedResponse(eps=1.), rate=.1),
       10*S(1., .1) + Gaussian(sigma=.01),
       10*S(1., .1) + 1000*RandomizedResponse(eps=.01) + ApproxDP(eps=.1, delta=1e-8)
       + 3*Laplace(scale=2.), Gaussian(sigma=1e6) + RandomizedResponse(eps=1.),
       Gaussian(sigma=1e90) + RandomizedResponse(eps=1e-3),
       3*M(1., (1., 3.), (.999, .001)), 10**6*M(1e3, (0., .5, 1.), (.2, .3, .5)),
       group(5*S(.3, .9), 2), group(1000*S(2., .01), 4),
       10*TruncatedPoisson(sigma=1., rate=.01, dataset_size=10**4, max_batch_size=100),
       TruncatedPoisson(sigma=.3, rate=1., dataset_size=2, max_batch_size=1),
       OWN + Gaussian(sigma=30.)]

def name_of(mechanism):
    "As in odd.json: of a function without its place in memory."
    return re.sub(' at 0x[0-9a-f]+', '', str(mechanism))

def asked(mechanism):
    "The contour's answers at ODD_EPS and ODD_DELTA."
    return (ContourAccountant(mechanism).delta(ODD_EPS),
            ContourAccountant(mechanism).epsilon(ODD_DELTA))

@functools.cache
def kept():
    with open(FILE, encoding='utf-8') as file:
        return json.load(file)

def truth_of(mechanism):
    "The same, as they are kept."
    return tuple(Bounds(*np.array(rows, float)) for rows in kept()[name_of(mechanism)])

def main():
    rows = {name_of(m): [[[repr(float(x)) for x in row] for row in bounds] for bounds in asked(m)]
            for m in ODD}
    with open(FILE, 'w', encoding='utf-8') as file:
        file.write('{\n' + ',\n'.join(f'{json.dumps(m)}: {json.dumps(r)}' for m, r in rows.items())
                   + '\n}\n')

if __name__ == '__main__': main()
