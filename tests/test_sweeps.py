"practice/sweeps: a grid of settings is what its settings are one by one, here and on a cluster."
import os
import signal
import threading
import time

import numpy as np
import pytest

from dp_saddle import (
    ContourAccountant,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    epsilon,
    sweep,
)

NOISES, RATES, STEPS = [.8, 2.], [.001, .05, 1.], [0, 30, 1000]

def run_of(sigma, rate, steps):
    return int(steps)*PoissonSubsampled(base=Gaussian(sigma=sigma), rate=rate)

@pytest.mark.parametrize('delta', [1e-5, [1e-4, 1e-8]])
def test_as_one_by_one(delta):
    table = sweep(sigma=NOISES, rate=RATES, steps=STEPS, delta=delta)
    assert table.shape == (2, 3, 3, np.size(delta)) and len(table) == np.prod(table.shape)
    rows = zip(*table.columns.values(), strict=True)
    for sigma, rate, steps, goal, eps in rows:
        low, _, up = ContourAccountant(run_of(sigma, rate, steps)).epsilon(goal)
        assert low <= eps <= up + 1e-9*(1 + up)
    assert (table['epsilon'].reshape(table.shape)[:, :, 0] == 0).all()         # no steps

def test_columns_and_words():
    table = sweep(sigma=2., rate=[.01, .02], steps=100, delta=1e-5)
    columns = table.to_dict()
    assert list(columns) == ['sigma', 'rate', 'steps', 'delta', 'epsilon']
    assert columns['rate'] == [.01, .02] and columns['steps'] == [100, 100]
    lines = repr(table).split('\n')
    assert lines[0].split() == list(columns)
    assert lines[2].split()[:4] == ['2', '0.02', '100', '1e-05']
    assert '<td>0.02</td>' in table._repr_html_()

def test_a_list_of_runs():
    runs = [run_of(2., .01, 300), 5*Laplace(scale=20.), 9*Gaussian(sigma=8.), run_of(2., .01, 300)]
    eps = epsilon(runs, delta=1e-5)
    assert eps[1:3].tolist() == [epsilon(run, delta=1e-5) for run in runs[1:3]]
    assert eps[0] == eps[3]                                     # sampled Gaussians are rows:
    low, _, up = ContourAccountant(runs[0]).epsilon(1e-5)       # other last digits, no wider
    assert low <= eps[0] <= low + 2*(up - low)
    assert epsilon(runs[:2], delta=np.array([1e-5, 1e-6, 1e-7])).shape == (2, 3)
    assert epsilon([], delta=.1).size == 0

@pytest.mark.parametrize('wrong, said', [
    (dict(sigma=0.), r'sigma must be in \(0, inf\), got 0.0'),
    (dict(sigma='2'), 'sigma must be a number or an array of numbers'),
    (dict(rate=[.1, 0.]), r'rate must be in \(0, 1\], got 0.0'),
    (dict(steps=-1), r'steps must be in \[0, inf\), got -1'),
    (dict(steps=1.5), 'steps must be an integer, got 1.5'),
    (dict(delta=[]), 'delta must be a number or a vector of one or more'),
    (dict(delta=1.), r'delta must be in \[0, 1\), got 1.0')])
def test_what_is_wrong_is_named(wrong, said):
    with pytest.raises((ValueError, TypeError), match=said):
        sweep(**(dict(sigma=1., rate=.1, steps=1, delta=1e-5) | wrong))

def test_heat_map():
    pyplot = pytest.importorskip('matplotlib.pyplot')
    table = sweep(sigma=[1., 2., 4.], rate=[.01, .1], steps=100, delta=1e-5)
    for x, y, shape in (('rate', 'sigma', (3, 2)), ('sigma', 'rate', (2, 3))):
        ax = table.plot(x=x, y=y)
        assert ax.images[0].get_array().shape == shape
        assert (ax.get_xlabel(), ax.get_ylabel()) == (x, y)
        first = table['epsilon'][0]
        assert float(ax.texts[0].get_text()) == pytest.approx(first, rel=.01)
        pyplot.close(ax.figure)

@pytest.mark.slow
@pytest.mark.skipif(os.name == 'nt', reason='SIGKILL is of Unix')
def test_a_worker_killed_midway_changes_nothing():
    distributed = pytest.importorskip('distributed')
    grid = dict(sigma=np.linspace(.8, 4, 16), rate=np.geomspace(1e-3, .1, 32), steps=[100, 3000],
                delta=1e-5)
    workers = dict(n_workers=3, threads_per_worker=1, dashboard_address=None)
    with distributed.LocalCluster(**workers) as cluster, distributed.Client(cluster) as client:
        pids, found = client.run(os.getpid), []
        work = threading.Thread(target=lambda: found.append(sweep(**grid, client=client)))
        work.start()
        while not any(client.has_what().values()) and work.is_alive():
            time.sleep(.01)                                           # until some chunks are done
        assert work.is_alive()
        busy = next(pid for worker, pid in pids.items() if client.has_what()[worker])
        os.kill(busy, signal.SIGKILL)
        work.join(240)
        assert not work.is_alive()
        assert set(client.run(os.getpid).values()) != set(pids.values())
    here = sweep(**grid)
    assert (found[0]['epsilon'] == here['epsilon']).all()

def test_a_client_that_is_none():
    with pytest.raises(TypeError, match='client must be a dask.distributed.Client or None'):
        sweep(sigma=1., rate=.1, steps=1, delta=.1, client='local')
