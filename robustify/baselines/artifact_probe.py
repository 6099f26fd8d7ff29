"""The artifact probe: what a small trained classifier gets right from the choices alone.

A conditional logit on hand-made features of the choices (never the stem, never the position), cross-fitted: an item is
judged by a fit that saw neither it nor a near-duplicate of it. With too few items to fit on it does not guess, and says so
in the row.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robustify import orders
from robustify.answers import Answer, Asked, answer, unanswered
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.conditional_logit import (
    FEWEST_ITEMS,
    FEWEST_TRAINING_ITEMS,
    coefficients,
    cross_fitted,
    log_probabilities,
)
from robustify.baselines.features import matrix
from robustify.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups
from robustify.item import Item

VIEW = "probe"
NAME = "probe"
TEMPLATE = "probe-v1"

SHRINKAGE = 5.0
"""The strength of the ridge on features standardised within the item."""
UNFITTED = f"fewer than {FEWEST_TRAINING_ITEMS} items without near-duplicates to fit on"


class ProbeSettings(BaseModel):
    """How the artifact probe is fitted; nothing here needs a model.

    Every item is predicted once, with `folds` (and `seed`) of the cross-fit. `refits`: how many with permuted keys the
    residual audit compares its fresh probe with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    folds: int = Field(default=5, ge=5, le=20)
    seed: int = Field(default=0, ge=0)
    refits: int = Field(default=999, ge=199, le=9999)


def probe(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    """Return one row per item; the scores are log probabilities whose exponentials sum to 1."""
    return fitted_rows(items, matrix(items), (VIEW, NAME, TEMPLATE), SHRINKAGE, settings)


def fitted_rows(
    items: Sequence[Item], x: Floats, asked: tuple[str, str, str], ridge: float, settings: ProbeSettings
) -> list[Answer]:
    """Return one row per item under this view, model and template: log probabilities by a cross-fit on the features `x`,
    (sum of k, f). With fewer than 50 items nothing is fitted, and each row says so.
    """
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
    """Return cross-fitted log probabilities of all choices, (sum of k,), normalised within each item.

    `x` (sum of k, f) features, `k`, `key`, `fold` (n,). NaN if the other folds hold too few items to fit on.
    """
    there = np.arange(int(k.max(initial=1))) < k[:, None]
    wide = padded(x, there)

    def fit(train: Bools, test: Bools) -> Floats:
        if np.count_nonzero(train) < FEWEST_TRAINING_ITEMS:
            return np.full((int(np.count_nonzero(test)), there.shape[1]), np.nan)
        return np.asarray(wide[test] @ coefficients(wide, key, there, ridge, train))

    logits = cross_fitted(fit, fold)
    return np.asarray(log_probabilities(logits, there)[there], dtype=np.float64)


def padded(x: Floats, there: Bools) -> Floats:
    """Return rows (sum of k, f) of options as (n, K, f), 0 if an item has no such option; `there` (n, K)."""
    if there.all():
        return x.reshape(*there.shape, -1)
    out = np.zeros((*there.shape, x.shape[1]))
    out[there] = x
    return out


def folds(items: Sequence[Item], settings: ProbeSettings) -> Ints:
    """Return the fold of each item, (n,), equal within a passage and among copies."""
    return balanced_folds(fold_groups(items), content_hashes(items), settings.folds, settings.seed)
