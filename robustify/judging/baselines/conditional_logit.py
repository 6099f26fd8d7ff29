"""Conditional logit that predicts an item's key from features of its options (McFadden 1974), with a ridge
penalty. With cross-fitting, every item is predicted by a fit that saw no item of its fold."""

from functools import reduce

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints

FEWEST_ITEMS = 50
"""Fewest items in a cross-fit. Without two of five folds, the fewest items for one fit remain."""
FEWEST_TRAINING_ITEMS = 30


def fit_conditional_logit(x: Floats, key: Ints, mask: Bools, ridge: float, steps: int = 50) -> Floats:
    """Fit a conditional logit with a ridge penalty, and return the coefficients (f,). `x` is (n, K, f), `key` (n,),
    and `mask` (n, K) marks existing options. The penalty is ridge / 2 times the squared length of the coefficients. A
    Newton step that does not improve is halved."""
    from scipy.linalg import cho_factor, cho_solve  # deferred, because a cached run does not need it

    n, width, f = x.shape
    x = np.where(mask[:, :, None], x, 0.0)
    key_features = x[np.arange(n), key].sum(axis=0)
    flat = x.reshape(n * width, f)

    def penalized_log_likelihood(beta: Floats) -> tuple[float, Floats]:
        p, log_totals = _softmax((flat @ beta).reshape(n, width), mask)
        return float(key_features @ beta - log_totals.sum() - ridge / 2 * beta @ beta), p

    beta = np.zeros(f)
    log_likelihood, p = penalized_log_likelihood(beta)
    for _ in range(steps):
        mean = np.einsum("nk,nkf->nf", p, x)
        gradient = key_features - mean.sum(axis=0) - ridge * beta
        information = flat.T @ (flat * p.reshape(-1, 1)) - mean.T @ mean + ridge * np.eye(f)
        step = cho_solve(cho_factor(information), gradient)
        if float(gradient @ step) < 1e-10 * max(n, 1):
            break
        step_size = 1.0
        while step_size > 1e-6:
            new_value, new_p = penalized_log_likelihood(beta + step_size * step)
            if new_value >= log_likelihood:
                beta, log_likelihood, p = beta + step_size * step, new_value, new_p
                break
            step_size /= 2
        else:
            break
    return beta


def _softmax(logits: Floats, mask: Bools) -> tuple[Floats, Floats]:
    # NumPy reduces a short last axis slowly, and column by column fast.
    masked = np.where(mask, logits, -np.inf)
    maximum = reduce(np.maximum, masked.T)[:, None]
    weights = np.exp(masked - maximum)
    total = reduce(np.add, weights.T)[:, None]
    return weights / total, (maximum + np.log(total))[:, 0]


def log_probabilities(logits: Floats, mask: Bools) -> Floats:
    """Normalize logits to log probabilities over the options in the mask `mask` (n, K). Other entries are -inf."""
    _, log_total = _softmax(logits, mask)
    return np.asarray(np.where(mask, logits - log_total[:, None], -np.inf))


def centred(values: Floats, mask: Bools) -> Floats:
    """Center values within each item. Options outside the mask `mask` (n, K) get 0. `values` are (..., n, K)."""
    masked = np.where(mask, values, 0.0)
    mean = masked.sum(-1, keepdims=True) / mask.sum(-1, keepdims=True)
    return np.asarray(np.where(mask, masked - mean, 0.0))
