"""What other accountants' tests expect, and what this library answers: tests/peers_tests.json.

A row of the file is one check of a peer's test: where it stands, the setting, and what is expected,
as numbers (no code of theirs is here). `answer` asks our adapters or the library the same,
`verdict` compares: an expectation E with the peer's own tolerance T, ours an interval
[lower, upper].

    agrees    E is in [lower - T, upper + T]; or the same error, the same support
    tighter   upper < E - T: theirs is a bound, and a loose one
    too small E + T < lower: theirs is no bound
    wider     upper > E + T and E is no less than the lower bound: ours could be better
    answered  theirs refuses, ours has a proof
    refused   ours refuses

Each row records the verdict, and if it is another than `agrees`, the key of the reason.
"""

import json
import math
import warnings
from functools import cache
from pathlib import Path

import numpy as np

import dp_saddle as ds

FILE = Path(__file__).resolve().parent / 'peers_tests.json'
ROUNDED_UP = 1e-10    # relative, or of delta absolute: an upper bound may be above by as much
NEWER = {             # events that not every release of dp_accounting has, and their fields
    'EpsilonDelta': ('epsilon', 'delta'),
    'ExponentialMechanism': ('epsilon',),
    'PermuteAndFlip': ('epsilon',),
    'DiscreteGaussian': ('sigma', 'sensitivity', 'dimension'),
    'Unknown': (),
}
DEFAULTS = {'DiscreteGaussian': (1.0, 1.0, 1)}


class Refusal(Exception):
    "Ours has no answer, and says why."


def number(x):
    "What JSON has no number for is written in words."
    if isinstance(x, list):
        return [number(v) for v in x]
    if isinstance(x, dict):
        return np.geomspace(*x['geomspace'])
    return {'inf': math.inf, '-inf': -math.inf}.get(x, x) if isinstance(x, str) else x


@cache
def newer(name):
    "A class for an event of a later release."
    import attr
    import dp_accounting

    return attr.make_class(
        name + 'DpEvent', list(NEWER[name]), bases=(dp_accounting.DpEvent,), frozen=True
    )


def event(said):
    'The event of ["Gaussian", 1.0], arguments in the order of its fields.'
    from dp_accounting import dp_event

    name, *rest = said
    if name in ('SelfComposed', 'RepeatAndSelect'):
        rest = [event(rest[0]), *map(number, rest[1:])]
    elif name in ('PoissonSampled', 'SampledWithoutReplacement', 'SampledWithReplacement'):
        rest = [*rest[:-1], event(rest[-1])]
    elif name == 'Composed':
        rest = [[event(part) for part in rest[0]]]
    else:
        rest = [number(x) for x in rest]
    kind = getattr(dp_event, name + 'DpEvent', None)
    if kind is None:
        kind, rest = newer(name), (*rest, *DEFAULTS.get(name, ())[len(rest) :])
    return kind(*rest)


def accountant(row):
    "Ours, with the row's events."
    from dp_accounting import NeighboringRelation
    from dp_accounting.privacy_accountant import UnsupportedEventError

    from dp_saddle.interop import SaddlePrivacyAccountant

    book = SaddlePrivacyAccountant(NeighboringRelation[row.get('relation', 'ADD_OR_REMOVE_ONE')])
    try:
        for said in row['events']:
            book.compose(event(said), row.get('count', 1))
    except UnsupportedEventError as error:
        raise Refusal(str(error)) from error
    return book


def stated(row):
    "Is an event here the worst step of its guarantee, not what the peer's name means?"
    return any(said[0] in ('PermuteAndFlip', 'ExponentialMechanism') for said in row['events'])


def by_events(row):
    "eps, delta, TPR, mu or a Renyi divergence of dp_accounting's events."
    book, at = accountant(row), number(row['at']) if 'at' in row else None
    run = book.composition if book.private and book.counts else None

    def bounds(name, x):
        return lambda: getattr(ds.ContourAccountant(run), name)(x).lower

    match row['ask']:
        case 'epsilon':
            inside = run is not None and 0 < at < 1 and not stated(row)
            return book.get_epsilon(at), bounds('epsilon', at) if inside else None
        case 'delta':
            inside = run is not None and at < math.inf and not stated(row)
            return book.get_delta(at), bounds('delta', at) if inside else None
        case 'tpr':
            return book.get_true_positive_rates(at), None
        case 'mu':
            return book.get_gdp_parameter_estimate(None if at is None else np.array(at)), None
    return renyi(book, run, at), None


def renyi(book, run, order):
    "Of all events."
    if not book.private:
        return math.inf
    if run is None:
        return 0.0
    return book.get_epsilon(0.0) if order == math.inf else float(ds.rdp(run, order))


def sampled(row):
    "The run of sigma, rate and steps."
    step = ds.PoissonSubsampled(base=ds.Gaussian(sigma=row['sigma']), rate=row['rate'])
    return row['steps'] * step


def by_history(row):
    "eps of an Opacus history."
    from dp_saddle.interop import SaddleAccountant

    book = SaddleAccountant()
    book.history = [(row['sigma'], row['rate'], row['steps'])]
    lower = ds.ContourAccountant(sampled(row)).epsilon
    return book.get_epsilon(row['at']), lambda: lower(row['at']).lower


def by_noise(row):
    "Opacus' search for the noise, with our accountant: not certified from below."
    from opacus.accountants.utils import get_noise_multiplier

    found = get_noise_multiplier(
        target_epsilon=row['eps'],
        target_delta=row['delta'],
        sample_rate=row['rate'],
        steps=row['steps'],
        accountant='saddle',
        epsilon_tolerance=1e-6,
    )
    return found, lambda: too_little(row, found)


def too_little(row, ours):
    "Ours, if the noise that is expected is surely too little for its target; or 0."
    run = sampled(row | {'sigma': row['is'] + row['within']})
    spent = ds.ContourAccountant(run).epsilon(row['delta']).lower
    return ours if spent > row['eps'] else 0.0


BUILDERS = {
    'laplace': lambda row: lambda scale: (
        row['steps'] * ds.Laplace(scale=scale, sensitivity=row['sensitivity'])
    ),
    'discrete laplace': lambda row: lambda scale: (
        row['steps'] * ds.DiscreteLaplace(scale=scale, sensitivity=row['sensitivity'])
    ),
    'gaussian': lambda row: lambda sigma: (
        row['steps'] * ds.Gaussian(sigma=sigma, sensitivity=row['sensitivity'])
    ),
    'sampled gaussian': lambda row: lambda sigma: (
        row['steps']
        * ds.PoissonSubsampled(
            base=ds.Gaussian(sigma=sigma, sensitivity=row['sensitivity']), rate=row['rate']
        )
    ),
    'stated': lambda row: lambda eps: row['steps'] * ds.ApproxDP(eps=eps, delta=row['delta']),
}


def by_calibration(row):
    "The parameter that meets a target; `inverse` where theirs is one over ours."
    build = BUILDERS[row['build']](row)
    if row['at'] == 0:
        return row['steps'] * row['sensitivity'] / row['eps'], None
    parameter = {'laplace': 'scale', 'discrete laplace': 'scale'}.get(row['build'], 'sigma')
    found = ds.calibrate(build, eps=row['eps'], delta=row['at'], parameter=parameter)
    return found, None


def by_attack(row):
    "The false negative rate at a false positive rate; the advantage; and the noise for either."
    run = sampled(row) if 'sigma' in row else None
    match row['ask']:
        case 'beta':
            return float(ds.tradeoff(run, fpr=row['at'])), None
        case 'advantage':
            return float(ds.advantage(run)), lambda: ds.ContourAccountant(run).delta(0.0).lower
        case 'noise for advantage':
            build = BUILDERS['sampled gaussian'](row | {'sensitivity': 1.0})
            return float(ds.calibrate(build, advantage=row['at'])), None
    return noise_for_errors(row), None


def noise_for_errors(row):
    "The smallest sigma, to 1e-4, at which every attack with this fpr misses as often."
    from scipy.optimize import brentq

    build = BUILDERS['sampled gaussian'](row | {'sensitivity': 1.0})
    return float(
        brentq(
            lambda sigma: ds.tradeoff(build(sigma), fpr=row['alpha']) - row['beta'],
            row['low'],
            row['high'],
            xtol=1e-4,
        )
    )


def by_target(row):
    "dp_accounting's search for the noise of an event, with our accountant: the eps it ends at."
    from dp_accounting import calibrate_dp_mechanism

    from dp_saddle.interop import SaddlePrivacyAccountant

    def filled(said, sigma):
        if isinstance(said, list):
            return [filled(part, sigma) for part in said]
        return sigma if said == 'sigma' else said

    relation = accountant(row | {'events': [filled(row['events'][0], 1.0)]}).neighboring_relation
    sigma = calibrate_dp_mechanism(
        lambda: SaddlePrivacyAccountant(relation),
        lambda x: event(filled(row['events'][0], x)),
        row['eps'],
        row['at'],
    )
    book = SaddlePrivacyAccountant(relation).compose(event(filled(row['events'][0], sigma)))
    return book.get_epsilon(row['at']), None


def by_loss(row):
    "The distribution function of a sampled Gaussian's loss."
    step = ds.PoissonSubsampled(base=ds.Gaussian(sigma=row['sigma']), rate=row['rate'])
    return float(step.remove.cdf(row['at'])), None


ASKED = {
    **dict.fromkeys(('epsilon', 'delta', 'tpr', 'mu', 'rdp'), by_events),
    'history': by_history,
    'noise': by_noise,
    'calibrate': by_calibration,
    **dict.fromkeys(('beta', 'advantage', 'noise for advantage', 'noise for errors'), by_attack),
    'target': by_target,
    'cdf': by_loss,
}


def answer(row):
    "(ours, a function without arguments for the lower bound or None), or Refusal."
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            return ASKED[row['ask']](row)
        except (ValueError, TypeError) as error:
            raise Refusal(str(error)) from error


def supported(row):
    "Does ours support the event?"
    try:
        accountant(row)
    except Refusal:
        return False
    return True


def verdict(row):
    "One of the words above, and ours: a number, True or False, or the words of a refusal."
    if row['ask'] == 'supports':
        ours = supported(row)
        return ('agrees' if ours == row['is'] else 'answered' if ours else 'refused'), ours
    try:
        ours, lower = answer(row)
    except Refusal as error:
        return ('agrees' if row['is'] == 'error' else 'refused'), str(error)
    if row['is'] == 'error':
        return 'answered', ours
    return compared(row, ours, lower), ours


def compared(row, ours, lower):
    "The verdict on a number; an inequality is an expectation that leaves a side open."
    low, high = number(row['is']) if isinstance(row['is'], list) else [number(row['is'])] * 2
    off = row.get('within', 0.0)
    up = off + ROUNDED_UP * max(abs(high), 1e-2 if row['ask'] == 'delta' else 1.0)
    if ours == low == high or low - off - ROUNDED_UP <= ours <= high + up:
        return 'agrees'
    if ours < low:
        return 'tighter'
    if lower is not None and lower() > high + off:
        return 'too small'
    return 'wider'


def rows():
    "All of them, with the peer's name."
    data = json.loads(FILE.read_text(encoding='utf-8'))
    return [{'peer': peer, **row} for peer, found in data['peers'].items() for row in found['rows']]


def reasons():
    "key: why the two differ."
    return json.loads(FILE.read_text(encoding='utf-8'))['reasons']
