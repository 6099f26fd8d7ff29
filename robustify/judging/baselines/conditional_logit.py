"""Conditional logit that predicts an item's key from features of its options (McFadden 1974), with a ridge
penalty. With cross-fitting, every item is predicted by a fit that saw no item of its fold."""

from functools import reduce

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints

FEWEST_ITEMS = 50
"""Fewest items in a cross-fit. Without two of five folds, the fewest items for one fit remain."""
FEWEST_TRAINING_ITEMS = 30


def fitted(x: Floats, key: Ints, there: Bools, ridge: float, steps: int = 50) -> Floats:
    """Fit a conditional logit with a ridge penalty, and return its coefficients (f,). `x` is (n, K, f), `key`
    (n,), and `there` (n, K) marks existing options. The penalty is ridge / 2 times the squared length of the
    coefficients. A Newton step that does not improve is halved."""
    from scipy.linalg import cho_factor, cho_solve  # deferred, because a cached run does not need it

    n, width, f = x.shape
    x = np.where(there[:, :, None], x, 0.0)
    at_key = x[np.arange(n), key].sum(axis=0)
    flat = x.reshape(n * width, f)

    def likelihood(beta: Floats) -> tuple[float, Floats]:
        p, total = _softmax((flat @ beta).reshape(n, width), there)
        return float(at_key @ beta - total.sum() - ridge / 2 * beta @ beta), p

    beta = np.zeros(f)
    value, p = likelihood(beta)
    for _ in range(steps):
        mean = np.einsum("nk,nkf->nf", p, x)
        slope = at_key - mean.sum(axis=0) - ridge * beta
        curve = flat.T @ (flat * p.reshape(-1, 1)) - mean.T @ mean + ridge * np.eye(f)
        step = cho_solve(cho_factor(curve), slope)
        if float(slope @ step) < 1e-10 * max(n, 1):
            break
        size = 1.0
        while size > 1e-6:
            new, q = likelihood(beta + size * step)
            if new >= value:
                beta, value, p = beta + size * step, new, q
                break
            size /= 2
        else:
            break
    return beta


def _softmax(logits: Floats, there: Bools) -> tuple[Floats, Floats]:
    # NumPy reduces a short last axis slowly, and column by column fast.
    shown = np.where(there, logits, -np.inf)
    top = reduce(np.maximum, shown.T)[:, None]
    weight = np.exp(shown - top)
    total = reduce(np.add, weight.T)[:, None]
    return weight / total, (top + np.log(total))[:, 0]


def log_probabilities(logits: Floats, there: Bools) -> Floats:
    """Normalize logits to log probabilities over the options in the mask `there` (n, K). Other entries are -inf."""
    _, total = _softmax(logits, there)
    return np.asarray(np.where(there, logits - total[:, None], -np.inf))


def centred(values: Floats, there: Bools) -> Floats:
    """Center values within each item. Options outside the mask `there` (n, K) get 0, and `values` are (..., n, K)."""
    known = np.where(there, values, 0.0)
    mean = known.sum(-1, keepdims=True) / there.sum(-1, keepdims=True)
    return np.asarray(np.where(there, known - mean, 0.0))
