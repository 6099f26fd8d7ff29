"""What the meaning of options gives away: a conditional logit on a sentence encoder's vectors, the outside auditor.

It takes no part in the filter. An option's vector is centred within its item, so that what all options speak of is gone;
64 principal axes of what is left, and how like the other options an option is, are what the logit is fitted on,
cross-fitted in the run's own folds. It sees no question and no position.
"""

from collections.abc import Sequence

import numpy as np

from robustify import orders
from robustify.answers import Answer, Asked, answer, unanswered
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.artifact_probe import ProbeSettings, folds, padded
from robustify.baselines.conditional_logit import (
    FEWEST_ITEMS,
    centred,
    coefficients,
    cross_fitted,
    drawn,
    log_probabilities,
)
from robustify.item import Item

VIEW = "meaning"
TEMPLATE = "meaning-v1"
AXES = 64
RIDGE = 10.0
MOST_ENCODED = 5_000
"""Items that are encoded; of a larger set so many are drawn."""
_ALIKE = 1e-9


def encoded(items: Sequence[Item]) -> list[Item]:
    """Return the items that are audited by meaning: all of them, or `MOST_ENCODED` drawn with a fixed seed."""
    return [items[at] for at in drawn(np.ones(len(items), dtype=bool), MOST_ENCODED).tolist()]


def meaning(items: Sequence[Item], vectors: Floats, model: str, settings: ProbeSettings) -> list[Answer]:
    """Return one row per item, its scores the cross-fitted log probabilities of its options.

    `vectors` (sum of k, d), of length 1, option after option. Fewer than 50 items are not fitted on, and each row says so.
    """
    asked = [Asked(item.id, VIEW, model, orders.own(item.k), TEMPLATE, item.key) for item in items]
    if len(items) < FEWEST_ITEMS:
        why = f"{len(items)} items; an audit by meaning needs {FEWEST_ITEMS}"
        return [unanswered(row, why) for row in asked]
    k = np.array([item.k for item in items], dtype=np.int64)
    key = np.array([item.key for item in items], dtype=np.int64)
    there = np.arange(int(k.max())) < k[:, None]
    x = places(vectors, there)
    fold = folds(items, settings)
    logits = cross_fitted(
        lambda train, test: np.asarray(x[test] @ coefficients(x, key, there, RIDGE, train)), fold
    )
    log_p = log_probabilities(logits, there)
    return [answer(row, log_p[i, : k[i]].tolist()) for i, row in enumerate(asked)]


def places(vectors: Floats, there: Bools) -> Floats:
    """Return where options lie among the others of their item, (n, K, axes + 1): principal axes, and mean likeness."""
    wide = padded(vectors.astype(np.float64), there)
    k: Ints = there.sum(axis=1)
    like = np.einsum("nkd,nd->nk", wide, wide.sum(axis=1)) - (wide**2).sum(axis=2)
    alike = _scaled(centred(like / np.maximum(k - 1, 1)[:, None], there)[:, :, None], there)
    inside = np.moveaxis(centred(np.moveaxis(wide, 2, 0), there), 0, 2)
    rows = inside[there]
    axes = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :AXES]
    return np.concatenate([_scaled(inside @ axes, there), alike], axis=2)


def _scaled(x: Floats, there: Bools) -> Floats:
    spread = float(x[there].std())
    return x / spread if spread > _ALIKE else np.zeros_like(x)
