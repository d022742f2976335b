"""[GDP] Figures 9 and 10 with Opacus, on the digits that scikit-learn ships.

    python tests/filters.py [FILE] [--seeds 8] [--quick]      (make filters)

Half of the steps spend the budget of a record whose gradient is as long as the clip, the others go
on under `attach_filter`. What was measured goes to nbs/papers/filters.json, which the page of the
paper's figures shows; `--quick` is one short training of each setting, for the tests."""
import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from opacus import PrivacyEngine
from scipy.optimize import brentq
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import dp_saddle.interop  # noqa: F401 - registers the accountant
from dp_saddle import IndividualGDPFilter
from dp_saddle.engine import gaussian_epsilon

FILE = Path(__file__).resolve().parent.parent/'nbs'/'papers'/'filters.json'
SEEN, DELTA, STEPS, EVERY = 1300, 1e-5, 100, 5
# eps, clip, length of the steps (of one clip), optimiser
SETTINGS = [(.5, 2., 1., 'SGD'), (10., 1., 8., 'SGD'),       # the best of a few for the digits
            (.5, 10., 1., 'SGD'), (10., 5., 8., 'SGD'),      # a clip five times too large
            (.5, 2., .02, 'Adam'), (10., 1., .05, 'Adam')]   # the paper's optimiser


def budget_of(eps):
    "The mu that eps is at DELTA."
    return brentq(lambda mu: gaussian_epsilon(mu, DELTA) - eps, .01, 10)


def digits():
    "Pixels and classes of 1797 pictures of 8 by 8, as tensors."
    found = load_digits()
    return torch.tensor(found.data/16, dtype=torch.float32), torch.tensor(found.target)


def prepared(eps, clip, lr, kind, seed, steps):
    "Everything that a filtered training has, with ghost clipping, in batches of all."
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    length = lr/clip if kind == 'SGD' else lr
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=length)
    pixels, labels = digits()
    data = DataLoader(TensorDataset(pixels[:SEEN], labels[:SEEN]), batch_size=SEEN)
    engine, mu = PrivacyEngine(accountant='saddle'), budget_of(eps)
    model, optimizer, criterion, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=data, criterion=nn.CrossEntropyLoss(),
        noise_multiplier=math.sqrt(steps/2)/mu, max_grad_norm=clip, grad_sample_mode='ghost')
    guard = IndividualGDPFilter(mu, n=SEEN)
    loader = engine.accountant.attach_filter(optimizer, guard, loader, model=model)
    return model, optimizer, criterion, loader, guard


def training(eps, clip, lr, kind, seed, steps=STEPS):
    "How many digits are right, and how many records took part, every few steps; what was spent."
    model, optimizer, criterion, loader, guard = prepared(eps, clip, lr, kind, seed, steps)
    pixels, labels = digits()
    right, active = [], []
    for k in range(steps):
        before = guard.spent
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        active.append(int((guard.spent > before).sum()))
        if (k + 1) % EVERY == 0:
            with torch.no_grad():
                found = model(pixels[SEEN:]).argmax(1) == labels[SEEN:]
            right.append(int(found.sum()))
    return dict(right=right, active=active[EVERY - 1::EVERY], first_without=active[steps//2],
                steps=guard.steps, most_spent=float(guard.spent.max()))


def main():
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument('file', nargs='?', default=FILE)
    ask.add_argument('--seeds', type=int, default=8)
    ask.add_argument('--quick', action='store_true')
    asked = ask.parse_args()
    warnings.simplefilter('ignore')
    torch.set_num_threads(1)
    seeds, steps, rows, began = asked.seeds, STEPS, [], time.process_time()
    if asked.quick:
        seeds, steps = 1, 20
    for eps, clip, lr, kind in SETTINGS:
        runs = [training(eps, clip, lr, kind, seed, steps) for seed in range(seeds)]
        rows.append(dict(eps=eps, clip=clip, lr=lr, optimiser=kind, mu=budget_of(eps), runs=runs))
        ends = np.array([[run['right'][len(run['right'])//2 - 1], run['right'][-1]]
                         for run in runs])
        print(f'eps {eps:g}, clip {clip:g}, {kind}: {ends[:, 0].mean():.1f} right at half time, '
              f'{ends[:, 1].mean():.1f} at the end, '
              f'{np.mean([run["active"][-1] for run in runs]):.0f} take part; '
              f'{time.process_time() - began:.0f} s', flush=True)
    table = dict(seen=SEEN, unseen=1797 - SEEN, delta=DELTA, steps=steps, every=EVERY, rows=rows)
    text = json.dumps(table).replace('{"eps"', '\n{"eps"').replace('{"right"', '\n {"right"')
    Path(asked.file).write_text(text + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
