"The trainer that the chapters use as an example: its gradients, its noise, its samples."
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

NOTEBOOKS = Path(__file__).resolve().parent.parent/'nbs'
sys.path.insert(0, str(NOTEBOOKS))
toy = importlib.import_module('toy_training')

@pytest.fixture
def small():
    "Twelve records of three inputs, two classes, a network with one hidden layer."
    rng = np.random.default_rng(7)
    X = np.c_[rng.standard_normal((12, 3)), np.ones(12)]
    weights = [rng.standard_normal((4, 5))*.3, rng.standard_normal((6, 2))*.3]
    return X, (X[:, 0] > 0).astype(int), weights

def losses(weights, X, y):
    "Of each record: minus the log of the probability of its class."
    seen, _ = toy.backward(weights, X, y)
    scores = seen[-1] @ weights[-1]
    return np.log(np.exp(scores).sum(1)) - scores[np.arange(len(y)), y]

def gradients(weights, X, y):
    "Of each record, one array of shape (records, inputs, units) for each layer."
    seen, errors = toy.backward(weights, X, y)
    return [a[:, :, None]*d[:, None, :] for a, d in zip(seen, errors, strict=True)]

def test_gradients_are_those_of_the_loss(small):
    "Central differences in every weight, for every record."
    X, y, weights = small
    found, h = gradients(weights, X, y), 1e-5
    for layer, W in enumerate(weights):
        for place in np.ndindex(W.shape):
            ends = []
            for sign in (1, -1):
                moved = [w.copy() for w in weights]
                moved[layer][place] += sign*h
                ends.append(losses(moved, X, y))
            slope = (ends[0] - ends[1])/(2*h)
            assert found[layer][:, place[0], place[1]] == pytest.approx(slope, rel=1e-6, abs=1e-9)

def test_norms_are_those_of_the_gradients(small):
    X, y, weights = small
    whole = np.concatenate([g.reshape(len(X), -1) for g in gradients(weights, X, y)], axis=1)
    norms = toy.gradient_norms(*toy.backward(weights, X, y))
    assert norms == pytest.approx(np.linalg.norm(whole, axis=1), rel=1e-12)

def test_a_step_is_the_clipped_mean_gradient(small):
    "Without noise; and it is clipped one by one."
    X, y, weights = small
    norms = toy.gradient_norms(*toy.backward(weights, X, y))
    clip = np.median(norms)
    after, history = toy.train(X, y, weights, sigma=0., clip=clip, steps=1, lr=.3)
    assert history[0] == pytest.approx(np.minimum(norms/clip, 1)) and (history == 1).any()
    shrink = np.minimum(1, clip/norms)[:, None, None]
    for W, V, g in zip(weights, after, gradients(weights, X, y), strict=True):
        assert V == pytest.approx(W - .3*(g*shrink).mean(0), abs=1e-12)

def test_noise_is_gaussian_of_sigma_times_the_clip(small):
    "Two thousand runs of one step from the same start: mean and variance of each weight."
    X, y, weights = small
    settings = dict(clip=.5, steps=1, lr=12.)              # lr/len(X) = 1
    quiet, _ = toy.train(X, y, weights, sigma=0., **settings)
    moved = [np.concatenate([V.ravel() - Q.ravel() for V, Q in zip(after, quiet, strict=True)])
             for after, _ in (toy.train(X, y, weights, sigma=3., seed=seed, **settings)
                              for seed in range(2000))]
    moved = np.array(moved)/(3*.5)
    assert abs(moved.mean()) < 5/np.sqrt(moved.size)
    assert abs(moved.var() - 1) < 5*np.sqrt(2/moved.size)
    assert abs(np.corrcoef(moved.T) - np.eye(moved.shape[1])).max() < 5/np.sqrt(2000)

def test_records_are_sampled_one_by_one(small):
    "At rate q the expected step is the same, and each record is in with probability q."
    X, y, weights = small
    taken = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        after, _ = toy.train(X, y, weights, sigma=0., clip=9., steps=1, lr=1., rate=.3, seed=seed)
        inside = rng.random(12) < .3
        grads = [(g*inside[:, None, None]).sum(0)/(.3*12) for g in gradients(weights, X, y)]
        for W, V, g in zip(weights, after, grads, strict=True):
            assert V == pytest.approx(W - g, abs=1e-12)
        taken.append(inside)
    assert np.mean(taken, axis=0) == pytest.approx(np.full(12, .3), abs=.12)

def test_who_is_refused_changes_nothing(small):
    "choose sees the norms over the clip, and a record that it leaves out is not there."
    X, y, weights = small
    seen = []
    def choose(share):
        seen.append(share)
        return np.arange(12) < 6
    settings = dict(sigma=0., clip=1., steps=3)
    after, history = toy.train(X, y, weights, lr=1., choose=choose, **settings)
    half, _ = toy.train(X[:6], y[:6], weights, lr=.5, **settings)
    assert np.array_equal(seen, history)
    for V, W in zip(after, half, strict=True):
        assert V == pytest.approx(W, abs=1e-12)

def test_the_same_seed_gives_the_same_run(small):
    X, y, weights = small
    runs = [toy.train(X, y, weights, sigma=1., clip=1., steps=4, lr=.1, rate=.5, seed=seed)[1]
            for seed in (3, 3, 4)]
    assert np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])

def test_accuracy(small):
    X, y, weights = small
    right, _ = toy.train(X, y, weights, sigma=0., clip=1., steps=400, lr=2.)
    assert toy.accuracy(right, X, y) == 1 and toy.accuracy(right, X, 1 - y) == 0

def test_packed_norms_come_back():
    norms = np.minimum(np.random.default_rng(0).exponential(.4, (30, 7)), 1)
    packed = toy.packed(norms)
    assert packed.dtype == np.uint8 and packed.shape == (7, 30)
    assert abs(toy.unpacked(packed) - norms).max() <= .5/255*(1 + 1e-9)

@pytest.mark.slow
def test_the_file_for_the_explorer(tmp_path):
    pytest.importorskip('sklearn')
    path = tmp_path/'norms.npz'
    command = [sys.executable, str(NOTEBOOKS/'toy_training.py'), str(path), '5']
    subprocess.run(command, check=True, capture_output=True)
    norms = toy.unpacked(np.load(path)['norms'])
    assert norms.shape == (200, 260) and path.stat().st_size < 40_000
    assert abs(norms - toy.digits_run()[-1][:, ::5]).max() <= .5/255*(1 + 1e-9)
