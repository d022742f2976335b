"""A small private trainer in NumPy, which the chapters on filters and individual costs train with.

An example, not a part of the library: it is neither exported nor installed. Networks of matrices
with tanh between them and a softmax at the end. The gradient of one record is an outer product for
each layer, so its norm is a product of norms, and no gradient of a single record is ever stored.
"""
import numpy as np

TINY = 1e-300           # a norm of 0 is no division by 0


def backward(
    weights,  # one matrix for each layer, as for `train`
    X, y,     # records, shape (records, inputs), the last column 1; their classes 0, 1, ...
):            # two lists, an array of shape (records, units) for each layer
    "What each layer saw, and the error that came back: their outer products are the gradients."
    seen = [X]
    for W in weights[:-1]:
        seen.append(np.c_[np.tanh(seen[-1] @ W), np.ones(len(X))])
    scores = seen[-1] @ weights[-1]
    p = np.exp(scores - scores.max(1, keepdims=True))
    errors = [p/p.sum(1, keepdims=True) - np.eye(p.shape[1])[y]]
    for W, h in zip(weights[:0:-1], seen[:0:-1], strict=True):
        errors.append(((errors[-1] @ W.T)*(1 - h*h))[:, :-1])
    return seen, errors[::-1]


def gradient_norms(
    seen, errors,  # what `backward` gives
):                 # the norm of each record's whole gradient, shape (records,)
    "The norm of an outer product is the product of the norms."
    squares = [(a*a).sum(1)*(d*d).sum(1) for a, d in zip(seen, errors, strict=True)]
    return np.sqrt(sum(squares))


def train(
    X, y,        # records, shape (records, inputs), the last column 1; their classes 0, 1, ...
    weights,     # start: one matrix for each layer
    *, sigma,    # noise std over the clip, >= 0
    clip,        # L2 norm to which each record's gradient is clipped, > 0
    steps, lr,   # number and length of the steps, > 0
    rate=1.,     # Poisson sampling rate, in (0, 1]
    choose=None, # choose(norms/clip) -> which records may take part; all if not given
    seed=0,      # of the noise and the samples, an integer >= 0
):               # weights; norms over the clip of all records, shape (steps, records)
    "Private gradient descent: clip, sum, add noise [GDP 3.3]."
    rng, history = np.random.default_rng(seed), []
    for _ in range(steps):
        seen, errors = backward(weights, X, y)
        norms = gradient_norms(seen, errors)
        history.append(np.minimum(norms/clip, 1))
        sampled = rng.random(len(X)) < rate
        allowed = 1. if choose is None else choose(history[-1])
        share = sampled*allowed*np.minimum(1, clip/np.maximum(norms, TINY))
        sums = [a.T @ (d*share[:, None]) for a, d in zip(seen, errors, strict=True)]
        noise = [sigma*clip*rng.standard_normal(W.shape) for W in weights]
        length = lr/(rate*len(X))
        weights = [W - length*(g + z) for W, g, z in zip(weights, sums, noise, strict=True)]
    return weights, np.array(history)


def accuracy(
    weights,  # one matrix for each layer, as for `train`
    X, y,     # records, shape (records, inputs), the last column 1; their classes 0, 1, ...
):            # in [0, 1]
    "Share of the records that the model gets right."
    return (np.argmax(backward(weights, X, y)[0][-1] @ weights[-1], 1) == y).mean()


def tumours():  # X, y, and the names of the classes
    "The Wisconsin breast-cancer records, in a fixed random order: 569 tumours, 30 measurements."
    from sklearn.datasets import load_breast_cancer
    cancer = load_breast_cancer()
    X = (cancer.data - cancer.data.mean(0))/cancer.data.std(0)
    X = np.c_[X, np.ones(len(X))]/np.sqrt(31)
    order = np.random.default_rng(1).permutation(len(X))
    return X[order], cancer.target[order], cancer.target_names


DIGITS_RATE = 300/1300    # batches of 300 or so


def digits_run():  # pixels and classes of the 1797 digits, 1300 of them seen; weights; norms
    "A small network that learns 1300 handwritten digits of 8 by 8 pixels in 200 sampled steps."
    from sklearn.datasets import load_digits
    digits, rng = load_digits(), np.random.default_rng(0)
    pixels = np.c_[digits.data/16, np.ones(len(digits.data))]
    order = rng.permutation(len(pixels))
    X, y = pixels[order], digits.target[order]
    start = [rng.standard_normal((65, 32))/8, np.zeros((33, 10))]
    settings = dict(sigma=2., clip=1., steps=200, lr=2., rate=DIGITS_RATE)
    weights, norms = train(X[:1300], y[:1300], start, **settings)
    return X, y, weights, norms


def doubted_run(
    seed,  # of the choice of 1300 digits, of the start, the samples and the noise
):         # classes; read rightly at the end?; then norms, doubts, sizes: (200 steps, 1300 records)
    """The network of `digits_run` again, with all that a step's cost depends on: the norms, not
    clipped; the doubts, 1 less the probability of a record's own class; and as two sizes the norm
    of what the last layer sees, and that of the input times the last matrix's largest factor."""
    from sklearn.datasets import load_digits
    digits, rng = load_digits(), np.random.default_rng(seed)
    some = np.random.default_rng(0).permutation(len(digits.data))
    some = some[rng.permutation(len(some))[:1300]]
    X, y = np.c_[digits.data/16, np.ones(len(digits.data))][some], digits.target[some]
    weights = [rng.standard_normal((65, 32))/8, np.zeros((33, 10))]
    settings, history = dict(sigma=2., clip=1., steps=1, lr=2., rate=DIGITS_RATE), []
    for m in range(200):
        seen, errors = backward(weights, X, y)
        doubts = -errors[-1][np.arange(len(y)), y]
        factor = np.linalg.norm(weights[-1][:-1], 2)
        history.append((gradient_norms(seen, errors), doubts, np.linalg.norm(seen[-1], axis=1),
                        factor*np.linalg.norm(X, axis=1)))
        weights, _ = train(X, y, weights, seed=1000*seed + m, **settings)
    right = (backward(weights, X, y)[0][-1] @ weights[-1]).argmax(1) == y
    norms, doubts, *sizes = map(np.array, zip(*history))
    return y, right, norms, doubts, sizes


def packed(
    norms,  # in [0, 1], shape (steps, records), as `train` returns them
):          # bytes, shape (records, steps)
    "255ths, and of each record the differences from step to step, modulo 256: they compress well."
    shares = np.round(255*norms).astype(np.uint8).T
    return np.diff(shares, axis=1, prepend=np.uint8(0))


def unpacked(
    differences,  # as `packed` gives them
):                # norms, within 1/510, shape (steps, records)
    "The norms again."
    return np.cumsum(differences, axis=1, dtype=np.uint8).T/255


def main(path, every=1):
    "Write the norms of every so-many-th record of `digits_run` to an .npz file."
    norms = digits_run()[-1][:, ::every]
    np.savez_compressed(path, norms=packed(norms))
    print(f'{path}: {norms.shape[1]} records, {norms.shape[0]} steps')


if __name__ == '__main__':       # python nbs/toy_training.py FILE.npz [EVERY]
    import sys
    main(sys.argv[1], *map(int, sys.argv[2:]))
