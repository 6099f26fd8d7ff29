"""Classifiers that learn to distinguish keys from other options, and cross-fitting of these classifiers.

A cross-fit predicts every item with a fit that saw no item of its fold. The fits of this module are a conditional logit
and the classifiers of scikit-learn. They see an option's features alone, neither its question nor its position.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import fit_conditional_logit

MOST_FITTED = 20_000
"""Most items in one fit, about a thousand per feature of the probe. They are sampled with a fixed seed."""


@dataclass(frozen=True, eq=False)
class OptionTable:
    """Number of options `k` and index of the `key` of n items (n,). A key is -1 if unknown.

    Features of options are either a matrix with one row per option (sum of k, f), or an array (n, K, f) with zeros for
    options that do not exist.
    """

    k: Ints
    key: Ints

    @classmethod
    def from_items(cls, items: Sequence[Item]) -> "OptionTable":
        """Return the table of items whose keys are all known."""
        return cls(*np.array([(item.k, item.key) for item in items], dtype=np.int64).reshape(-1, 2).T)

    @cached_property
    def mask(self) -> Bools:
        """Whether each option exists (n, K)."""
        return np.asarray(np.arange(int(self.k.max(initial=1))) < self.k[:, None])

    @cached_property
    def is_key(self) -> Bools:
        """Whether each option is the key of its item (sum of k,)."""
        return np.asarray((np.arange(self.mask.shape[1]) == self.key[:, None])[self.mask])


def by_item(rows: Floats, mask: Bools) -> Floats:
    """Arrange the values of masked options (n, K) by item, with zeros elsewhere: (options, ...) becomes (n, K, ...)."""
    if mask.all():
        return rows.reshape(*mask.shape, *rows.shape[1:])
    out = np.zeros((*mask.shape, *rows.shape[1:]))
    out[mask] = rows
    return out


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Fitted model: the function `logits`, which takes features (..., f), and the coefficients (f,) or the classifier."""

    logits: Callable[[Any], Floats]
    fitted: Any = None


Learner = Callable[[Bools], FittedModel]
"""Function that fits a model to the items in a mask (n,)."""
Fit = Callable[[Any, OptionTable], Learner]
"""Function that takes features of a set's options, prepares the parts that all models of the set share, and returns a
`Learner`."""
Predict = Callable[[Bools, Bools], Floats]
"""Function of two masks (n,), for training and test items. Returns values of the test items' options (t, K, ...)."""


def conditional_logit(ridge: float) -> Fit:
    """Return the fit of a conditional logit with a ridge penalty. Its features are an array (n, K, f)."""

    def learn(x: Floats, options: OptionTable, train: Bools) -> FittedModel:
        coefficients = fit_conditional_logit(x[train], options.key[train], options.mask[train], ridge)
        return FittedModel(lambda x: np.asarray(x @ coefficients), coefficients)

    return lambda x, options: partial(learn, x, options)


def classifier(unfitted: Callable[[], Any]) -> Fit:
    """Return the fit of a classifier of scikit-learn to single options. Its features are a matrix. It uses one thread."""

    def learn(x: Any, options: OptionTable, train: Bools) -> FittedModel:
        estimator, rows = unfitted(), np.repeat(train, options.k)
        with _threads().limit(limits=1):
            estimator.fit(x[rows], options.is_key[rows])

        def logits(x: Any) -> Floats:
            with _threads().limit(limits=1):
                return np.asarray(estimator.decision_function(x))

        return FittedModel(logits, estimator)

    return lambda x, options: partial(learn, x, options)


@cache
def _threads() -> Any:
    # Only libraries that are loaded are found, so a classifier must be made before.
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def boosting(rounds: int, leaves: int, **more: float) -> Any:
    """Return an unfitted gradient boosting classifier, which predicts from one option whether it is the key."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]

    fixed = {"max_bins": 64, "early_stopping": False, "random_state": 0}
    return HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=leaves, **fixed, **more)


def logistic(c: float) -> Fit:
    """Return the fit of a logistic regression with the inverse ridge penalty `c`."""

    def unfitted() -> Any:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

        return LogisticRegression(C=c, max_iter=300)

    return classifier(unfitted)


def item_sample(items: Bools, most: int | None = MOST_FITTED) -> Ints:
    """Return the indices of the masked items (n,), or of a reproducible sample of `most` of these items."""
    indices = np.flatnonzero(items)
    if most is not None and len(indices) > most:
        indices = np.sort(np.random.default_rng(0).permutation(indices)[:most])
    return indices


def nested_cross_fit(predict: Predict, fold: Ints) -> Floats:
    """Predict all items once per fold, with fits that never saw the fold (folds, n, K, ...). Folds f are in ascending
    order. Items of f are predicted by a fit on all other folds, and items of a fold g by a fit on all folds but f and g."""
    numbers = np.unique(fold)
    out: Floats = np.empty((1, 0, 0))
    for f, g in combinations_with_replacement(range(len(numbers)), 2):
        test = np.isin(fold, numbers[[f, g]])
        values = predict(~test, test)
        if not out.size:
            out = np.zeros((len(numbers), len(fold), *values.shape[1:]))
        for unseen, predicted in {(f, g), (g, f)}:
            items = fold == numbers[predicted]
            out[unseen, items] = values[items[test]]
    return out
