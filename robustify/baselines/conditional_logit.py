"""The conditional logit: which option of an item is its key, from what tells its options apart.

McFadden (1974), with a ridge, fitted by Newton's method; and the one cross-fitting routine of all that is fitted on
keys here. Every item is predicted by a fit that saw neither it nor any other item of its fold.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from robustify.arrays import Bools, Floats, Ints

FEWEST_ITEMS = 50
"""Items below which nothing is fitted: less two folds of five, the fewest that a fit needs are left."""
FEWEST_TRAINING_ITEMS = 30
MOST_FITTED = 20_000
"""Items that one fit looks at: a thousand for each of the probe's features. Which ones is drawn with a fixed seed."""

Fit = Callable[[Bools, Bools], Floats]
"""The items fitted on and those predicted, both masks (n,) -> logits of the latter, (t, K), centred in the item."""


def cross_fitted(fit: Fit, fold: Ints) -> Floats:
    """Return the logits (n, K) of all items, each by a fit on the other folds; `fold` (n,)."""
    return np.asarray(_assembled(fit, fold, [(f,) for f in np.unique(fold).tolist()])[-1])


def nested(fit: Fit, fold: Ints) -> Floats:
    """Return for each fold f, in ascending order, logits of all items from fits that never saw f, (folds, n, K).

    The items of f by a fit on all other folds; those of another fold g by a fit on all folds but f and g.
    """
    names = np.unique(fold).tolist()
    return _assembled(fit, fold, [*((f,) for f in names), *combinations(names, 2)])[:-1]


def _assembled(fit: Fit, fold: Ints, left_out: list[tuple[int, ...]]) -> Floats:
    """Return what `nested` returns, and last the plain cross-fit, (folds + 1, n, K)."""
    index = {f: i for i, f in enumerate(np.unique(fold).tolist())}
    out: Floats | None = None
    for pair in left_out:
        test = np.isin(fold, pair)
        logits = fit(~test, test)
        if out is None:
            out = np.full((len(index) + 1, len(fold), logits.shape[1]), np.nan)
        for f in pair:
            # The other one's items, from a fit without f; a single fold's own items.
            of = fold[test] == (f if len(pair) == 1 else next(g for g in pair if g != f))
            rows = np.flatnonzero(test)[of]
            out[index[f], rows] = logits[of]
            if len(pair) == 1:
                out[-1, rows] = logits[of]
    return np.empty((1, 0, 0)) if out is None else out


def coefficients(x: Floats, key: Ints, there: Bools, ridge: float, train: Bools) -> Floats:
    """Return what `fitted` returns on the items where `train` (n,) is true, at most `MOST_FITTED` of them."""
    rows = drawn(train)
    return fitted(x[rows], key[rows], there[rows], ridge)


def drawn(train: Bools, most: int = MOST_FITTED) -> Ints:
    """Return the indices of the items of one fit: all where `train` (n,) is true, at most `most`."""
    rows = np.flatnonzero(train)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    return rows


def fitted(x: Floats, key: Ints, there: Bools, ridge: float, steps: int = 50) -> Floats:
    """Return the coefficients (f,) that maximise log likelihood minus ridge / 2 times their squared length.

    `x` (n, K, f), `key` (n,), `there` (n, K): which options an item has. Newton's method with halved steps; the
    likelihood is concave, so the maximum is the only one.
    """
    from scipy.linalg import cho_factor, cho_solve  # not for a warm run

    n, width, f = x.shape
    x = np.where(there[:, :, None], x, 0.0)
    at_key = x[np.arange(n), key].sum(axis=0)
    flat = x.reshape(n * width, f)
    beta = np.zeros(f)
    value, p = _likelihood(flat, beta, there, at_key, ridge)
    for _ in range(steps):
        mean = np.einsum("nk,nkf->nf", p, x)
        slope = at_key - mean.sum(axis=0) - ridge * beta
        curve = flat.T @ (flat * p.reshape(-1, 1)) - mean.T @ mean + ridge * np.eye(f)
        step = cho_solve(cho_factor(curve), slope)
        if float(slope @ step) < 1e-10 * max(n, 1):
            break
        size = 1.0
        while size > 1e-6:
            new, q = _likelihood(flat, beta + size * step, there, at_key, ridge)
            if new >= value:
                beta, value, p = beta + size * step, new, q
                break
            size /= 2
        else:
            break
    return beta


def _likelihood(
    flat: Floats, beta: Floats, there: Bools, at_key: Floats, ridge: float
) -> tuple[float, Floats]:
    logits = (flat @ beta).reshape(there.shape)
    p, total = _softmax(logits, there)
    return float(at_key @ beta - total.sum() - ridge / 2 * beta @ beta), p


def _softmax(logits: Floats, there: Bools) -> tuple[Floats, Floats]:
    shown = np.where(there, logits, -np.inf)
    top = shown.max(axis=1, keepdims=True)
    weight = np.exp(shown - top)
    total = weight.sum(axis=1, keepdims=True)
    return weight / total, (top + np.log(total))[:, 0]


def log_probabilities(logits: Floats, there: Bools) -> Floats:
    """Return logits (n, K) normalised over the options that are `there` (n, K); -inf elsewhere."""
    _, total = _softmax(logits, there)
    return np.asarray(np.where(there, logits - total[:, None], -np.inf))


def centred(values: Floats, there: Bools) -> Floats:
    """Return values (..., n, K) minus their mean over the options of the item that are `there` (n, K), 0 elsewhere."""
    known = np.where(there, values, 0.0)
    return np.asarray(
        np.where(there, known - known.sum(-1, keepdims=True) / there.sum(-1, keepdims=True), 0.0)
    )
