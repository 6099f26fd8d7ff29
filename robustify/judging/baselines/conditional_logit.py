"""Conditional logit that predicts an item's key from features of its options (McFadden 1974), with a ridge
penalty. With cross-fitting, every item is predicted by a fit that saw no item of its fold."""

from collections.abc import Callable
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints

FEWEST_ITEMS = 50
"""Fewest items in a cross-fit. Without two of five folds, the fewest items for one fit remain."""
FEWEST_TRAINING_ITEMS = 30
MOST_FITTED = 20_000
"""Most items in one fit, about a thousand per feature of the probe. They are sampled with a fixed seed."""

Fit = Callable[[Bools, Bools], Floats]
"""Function of two masks (n,), for training and test items. Returns logits of the test items (t, K), centered per item."""


def cross_fitted(fit: Fit, fold: Ints) -> Floats:
    """Predict each item with a model fitted on all folds but its own. Return logits (n, K), given `fold` (n,)."""
    return np.asarray(_assembled(fit, fold, [(f,) for f in np.unique(fold).tolist()])[-1])


def nested(fit: Fit, fold: Ints) -> Floats:
    """Predict all items once per fold, with models that never saw that fold (folds, n, K). Folds f are in ascending
    order. Items of f are predicted by a fit on all other folds, and items of a fold g by a fit on all folds but f and g."""
    names = np.unique(fold).tolist()
    return _assembled(fit, fold, [*((f,) for f in names), *combinations(names, 2)])[:-1]


def _assembled(fit: Fit, fold: Ints, left_out: list[tuple[int, ...]]) -> Floats:
    """Return, for each fold, the logits of fits that never saw it (folds + 1, n, K). The plain cross-fit comes last."""
    index = {f: i for i, f in enumerate(np.unique(fold).tolist())}
    out: Floats | None = None
    for pair in left_out:
        test = np.isin(fold, pair)
        logits = fit(~test, test)
        if out is None:
            out = np.full((len(index) + 1, len(fold), logits.shape[1]), np.nan)
        for f in pair:
            # Items of the other fold of the pair, or of f if it is alone, all from a fit without f.
            of = fold[test] == (f if len(pair) == 1 else next(g for g in pair if g != f))
            rows = np.flatnonzero(test)[of]
            out[index[f], rows] = logits[of]
            if len(pair) == 1:
                out[-1, rows] = logits[of]
    return np.empty((1, 0, 0)) if out is None else out


Fits = dict[bytes, Floats]
"""Coefficients (f,) of the same features and ridge by the keys and training items of a fit."""


def coefficients(
    x: Floats, key: Ints, there: Bools, ridge: float, train: Bools, fits: Fits | None = None
) -> Floats:
    """Fit the coefficients on the training items, or on a sample of `MOST_FITTED` of them. If `fits` is given, it keeps
    them, so that no fit is repeated. `train` (n,) is a mask."""
    fits, mark = {} if fits is None else fits, train.tobytes() + key.tobytes()
    if mark not in fits:
        rows = drawn(train)
        fits[mark] = fitted(x[rows], key[rows], there[rows], ridge)
    return fits[mark]


def drawn(train: Bools, most: int = MOST_FITTED) -> Ints:
    """Return the indices of the masked items, or of a reproducible sample of `most` of them (n,)."""
    rows = np.flatnonzero(train)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    return rows


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


def boosting(rounds: int, leaves: int, seed: int = 0, **more: float) -> Any:
    """Return an unfitted gradient boosting classifier that predicts from one option whether it is the key."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]

    fixed = {"max_bins": 64, "early_stopping": False, "random_state": seed}
    return HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=leaves, **fixed, **more)


def tree_nodes(model: Any) -> list[Any]:
    """Return the nodes of each tree in a fitted `boosting` classifier, as arrays of scikit-learn's node records."""
    return [tree.nodes for (tree,) in model._predictors]
