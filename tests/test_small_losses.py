"engine/small_losses: what small losses cannot reach, and lines without it."
from math import log
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import trapezoid
from scipy.special import log_ndtr

from dp_saddle.base.numerics import ULP
from dp_saddle.engine import gaussian_rows as rows
from dp_saddle.engine import small_losses as rare
from dp_saddle.engine.small_losses import SmallLossShare, guess_of, split_for, taken_away
from test_gaussian_rows import found_beside_lines, one, run_of


def split_of(sigma, rate, steps, delta):
    "(SmallLossShare, guess of eps, log of what it may take away) of a run."
    most, eps = log(delta) - 27, .95*guess_of(1/sigma, rate, delta/steps)
    return split_for(1/sigma, rate, 17., steps, eps, most), eps, most


SETTINGS = [(.3, 1e-4, 1000, 1e-5), (.7, .003, 10, 1e-6), (.5, .005, 5, 1e-6),
            (.4, .02, 3, 1e-7), (.33, 3e-4, 34, 1.6e-11), (.32, .0017, 38, 4.6e-6)]


@pytest.mark.parametrize('setting', SETTINGS, ids=str)
def test_as_by_lines(setting):
    "An answer without small losses: the long lines of engine/line meet it, and it is as narrow."
    found = found_beside_lines(setting)
    pair = rows.pair_of(*one(*setting[:2]))
    with np.errstate(all='ignore'):
        step = pair.ready_for(pair.ready, setting[2], log(setting[3])).step
    assert step.rest is not None and step.least < found.lower and step.s.shape[1] < 4000


def test_random_runs_meet_the_lines():
    chance, split = np.random.default_rng(11), 0
    for _ in range(12):
        sigma, rate = np.exp(chance.uniform(np.log((.3, 2e-4)), np.log((.9, .02)))).tolist()
        steps, delta = int(np.exp(chance.uniform(.7, 5))), float(10**-chance.uniform(4, 12))
        split += split_of(sigma, rate, steps, delta)[0] is not None
        if rows.epsilon_of_sampled(run_of(sigma, rate, steps), delta):
            found_beside_lines((sigma, rate, steps, delta))
    assert split > 6


def test_a_guess_above_the_answer_is_no_answer(monkeypatch):
    "What small losses give is known from the guess on; below it nothing is said."
    setting = SETTINGS[1]
    monkeypatch.setattr(rare, '_FROM_BELOW', 1.1)
    pair = rows.pair_of.__wrapped__(*one(*setting[:2]))
    assert np.isnan(pair.bounds([setting[2]]*2, [setting[3]]*2)).all()


def test_what_two_steps_without_a_share_give():
    "Against the integral over both outcomes; and it falls with eps."
    law, eps, most = split_of(.5, .005, 2, 1e-6)
    y = np.linspace(-9, 12, 4001)
    p = np.exp(-y*y/2 + law.loss(y) + log_ndtr((law.center - y)/law.width))*(y[1] - y[0])
    p /= np.sqrt(2*np.pi)
    e = law.loss(y)
    given = -np.expm1(np.minimum(eps - e[:, None] - e, 0))
    true = p @ given @ p
    assert 0 < true <= np.exp(law.unreached(2, eps)) < np.exp(most + 1)
    assert law.unreached(2, 1.1*eps) < law.unreached(2, eps)


def by_sum(law, z):
    "B(z), 30 digits: on a path two widths above the axis, nodes 1/6 of a width apart."
    mu, q, c, width = map(mp.mpf, (law.mu, law.rate, law.center, law.width))
    def f(y):
        x = y + 2j*width
        w = 1 - q + q*mp.exp((x - mu/2)*mu)
        share = mp.erfc((c - x)/width/mp.sqrt(2))/2
        return mp.exp(-x*x/2 + (1 + z)*mp.log(w))*share/mp.sqrt(2*mp.pi)
    return mp.fsum(f(y) for y in mp.arange(c - 2, law.end, width/6))*width/6


@pytest.mark.parametrize('setting, t', [*zip(SETTINGS[:3], (1., 4., 2.), strict=True)], ids=str)
def test_shares(setting, t):
    "On the axis and on a path: off by less than they say, and by little."
    law, *_ = split_of(*setting)
    ways, count = set(), 400
    with mp.workdps(30):
        K = float(mp.log(abs(by_sum(law, mp.mpf(t)))))     # of B alone, so that it is about 1
        for h in (.02, 1.):
            B, off = law.shares(t, K, h, count)
            ways.add(law.rule(t, K, h*count)[1] > 0)
            for k in (7, 399):
                true = complex(by_sum(law, mp.mpc(t, h*k))*mp.exp(-mp.mpf(K)))
                assert abs(B[k] - true) < off[k]/10 < 1e-11
            s = h*np.array([7., 399.])
            fades = np.exp(law.log_fades(t, K, s))
            assert (fades >= np.abs(B[[7, 399]]) - off[[7, 399]]).all()
    assert ways == {False, True}


def test_logarithms_of_shares():
    "log_ndtr where it is asked: above and below the centre, on the axis and above it."
    chance = np.random.default_rng(3)
    z = chance.uniform(-11, 40, 300) + 1j*chance.choice([0, .5, 2.], 300)
    with mp.workdps(60):
        for v in z:
            true = mp.log(mp.erfc(-mp.mpmathify(complex(v))/mp.sqrt(2))/2)
            miss = abs(mp.mpmathify(complex(log_ndtr(v))) - true)
            assert miss < .5*24*ULP*(1 + abs(true))


FAR = [(.3, 1.7869174010732308e-12, 1546, 5.7186522342010595e-64), (.3, 1.4e-9, 4, 4e-100),
       (.374, 3.4e-11, 2, 1e-139), (.35, 1e-8, 2, 1e-15)]


@pytest.mark.parametrize('setting', FAR, ids=str)
def test_lines_that_no_split_makes_short(setting):
    "Millions of frequencies, without small losses, too: no answer here, and none asked of memory."
    assert rows.epsilon_of_sampled(run_of(*setting[:3]), setting[3]) is None


def test_rules_that_are_too_coarse():
    "A wide share: a strip ends before the zeros of w, and what is known of a rest is above it."
    law, u = SmallLossShare(10/3, .1, 16., 5.5, .8), np.array([.5])
    y = np.linspace(-12, 16, 200_001)
    f = np.exp(-y*y/2 + (1 + u)*law.loss(y) + log_ndtr((law.center - y)/law.width))
    assert np.log(trapezoid(f, y)/np.sqrt(2*np.pi)) <= law.log_rest(u)[0]


def test_a_share_of_next_to_nothing():
    "Below the least double: its bounds are above it, and no logarithm of 0 is asked for."
    law, s = SmallLossShare(10/3, 1e-12, 60., 45., .1), np.arange(20)*.1
    B, off = law.shares(.01, 0., .1, len(s))
    with np.errstate(divide='ignore'):
        assert (np.log(np.abs(B)) <= law.log_fades(.01, 0., s)).all()
    assert (np.abs(B) < 1e-200).all() and np.isfinite(off).all() and (off < 1e-100).all()


def test_no_split():
    "An eps in reach of small losses, a delta that one outcome has anyway, an end too far away."
    assert split_for(1., 1e-3, 20., 5, .018, log(1e-5) - 27) is None
    assert guess_of(1., 1e-3, .2) == 0
    assert split_for(10/3, 1e-4, 250., 5, 8., log(1e-5) - 27) is None


def test_terms():
    "What is taken away, in whatever size; a term that says nothing has no bound."
    c, rest = np.array([1., .5 - 1j]), np.array([-1e-14, -.3 + .2j])
    left, wrong = taken_away(10, rest, np.array([1e-18, 1e-16]), c, 1e-15*abs(c))
    assert np.allclose(left, c*-np.expm1(10*rest), rtol=1e-15) and (wrong < 1e-14).all()
    _, wrong = taken_away(10, rest, np.array([1e-18, .2]), c, 0*wrong)
    assert np.isinf(wrong).tolist() == [False, True]
    assert SmallLossShare(1., .1, 9., 3., .1).blunt == pytest.approx(101)

@pytest.mark.parametrize('share, missed', [(.5, 1e-12), (.8, .08), (.95, .02), (.95, .06)])
def test_a_share_that_is_off_moves_the_rest_by_no_more(share, missed):
    "log(1 - r), r off by as much as is said: next to a share of 1 the first order is too little."
    told = SimpleNamespace(shares=lambda *_: (np.array([[share]]), np.array([[missed]])))
    log_rest, unsure = SmallLossShare.rest(told, 1., 0., .1, np.zeros((1, 1)), np.zeros((1, 1)))
    test = np.log(1 - share) - np.log(max(1 - share - missed, 0.) or 5e-324)
    assert log_rest[0, 0] == pytest.approx(np.log(1 - share))
    assert unsure[0, 0] >= test*(1 - 1e-3) and (unsure[0, 0] == np.inf) == (share + missed >= 1)
