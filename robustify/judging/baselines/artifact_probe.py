"""The artifact probe: a cross-fitted conditional logit on features of the choices, without the stem and the position.

With too few items, it makes no prediction and records the reason in the row.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items import orders
from robustify.items.answers import Answer, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import (
    FEWEST_ITEMS,
    FEWEST_TRAINING_ITEMS,
    coefficients,
    cross_fitted,
    log_probabilities,
)
from robustify.judging.baselines.features import matrix
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups

VIEW = "probe"
NAME = "probe"
TEMPLATE = "probe-v1"

SHRINKAGE = 5.0
"""Ridge penalty for features standardised within the item."""
UNFITTED = f"fewer than {FEWEST_TRAINING_ITEMS} items without near-duplicates to fit on"


class ProbeSettings(BaseModel):
    """Settings of the artifact probe, which needs no model.

    Every item is predicted once in a cross-fit with `folds` and `seed`. `refits` is the number of fits with permuted
    keys that the residual audit compares with its new probe.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    folds: int = Field(default=5, ge=5, le=20)
    seed: int = Field(default=0, ge=0)
    refits: int = Field(default=999, ge=199, le=9999)


def probe(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    """Return one answer row per item. The scores are log probabilities of the choices."""
    return fitted_rows(items, matrix(items), (VIEW, NAME, TEMPLATE), SHRINKAGE, settings)


def fitted_rows(
    items: Sequence[Item], x: Floats, asked: tuple[str, str, str], ridge: float, settings: ProbeSettings
) -> list[Answer]:
    """Return one answer row per item, with log probabilities from a cross-fit on the features `x` (sum of k, f). With
    fewer than 50 items, nothing is fitted, and each row contains the reason."""
    view, name, template = asked
    k = np.array([item.k for item in items], dtype=np.int64)
    key = np.array([item.key for item in items], dtype=np.int64)
    if len(items) < FEWEST_ITEMS:
        scores, why = np.full(int(k.sum()), np.nan), f"{len(items)} items; the {name} needs {FEWEST_ITEMS}"
    else:
        scores, why = crossfit(x, k, key, folds(items, settings), ridge), UNFITTED

    def row(item: Item, own_scores: Floats) -> Answer:
        what = Asked(item.id, view, name, orders.own(item.k), template, item.key)
        if np.isnan(own_scores).any():
            return unanswered(what, why)
        return answer(what, own_scores.tolist())

    ends = np.cumsum(k).tolist()
    return [row(item, scores[end - item.k : end]) for item, end in zip(items, ends, strict=True)]


def crossfit(x: Floats, k: Ints, key: Ints, fold: Ints, ridge: float = SHRINKAGE) -> Floats:
    """Return cross-fitted log probabilities (sum of k,) from features `x` (sum of k, f), NaN with too few items."""
    there = np.arange(int(k.max(initial=1))) < k[:, None]
    wide = padded(x, there)

    def fit(train: Bools, test: Bools) -> Floats:
        if np.count_nonzero(train) < FEWEST_TRAINING_ITEMS:
            return np.full((int(np.count_nonzero(test)), there.shape[1]), np.nan)
        return np.asarray(wide[test] @ coefficients(wide, key, there, ridge, train))

    logits = cross_fitted(fit, fold)
    return np.asarray(log_probabilities(logits, there)[there], dtype=np.float64)


def padded(x: Floats, there: Bools) -> Floats:
    """Convert option features (sum of k, f) to (n, K, f), with zeros for options missing in `there` (n, K)."""
    if there.all():
        return x.reshape(*there.shape, -1)
    out = np.zeros((*there.shape, x.shape[1]))
    out[there] = x
    return out


def folds(items: Sequence[Item], settings: ProbeSettings) -> Ints:
    """Assign each item to a fold (n,). Copies and items of one passage share a fold."""
    return balanced_folds(fold_groups(items), content_hashes(items), settings.folds, settings.seed)
