"""The sentence-encoder auditor: a conditional logit on vectors of the options' meaning, cross-fitted in the run's folds.

It takes no part in the filter and sees neither question nor position. Vectors are centred within the item, which removes
the topic that all options share. The logit uses 64 principal axes of the result, and each option's mean similarity.
"""

from collections.abc import Sequence

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.items.answers import Answer
from robustify.items.item import Item
from robustify.judging.baselines.artifact_probe import ProbeSettings, fitted_rows, padded
from robustify.judging.baselines.conditional_logit import centred

VIEW = "meaning"
TEMPLATES = "meaning-v1", "meaning-v1-again"
"""Names of two cross-fits in different folds, so that the second can audit weights that balance the first."""
AXES = 64
RIDGE = 10.0
MOST_ENCODED, MOST_OPTIONS = 5_000, 20_000
"""Most items, and most of their options, that are encoded. A larger set is sampled."""


def encoded(items: Sequence[Item]) -> list[Item]:
    """Return the items that are encoded, in their order: all of them, or as many as `MOST_ENCODED` and `MOST_OPTIONS`
    allow, sampled with a fixed seed."""
    order = np.random.default_rng(0).permutation(len(items))[:MOST_ENCODED]
    within = np.cumsum([items[at].k for at in order.tolist()]) <= MOST_OPTIONS
    return [items[at] for at in np.sort(order[within]).tolist()]


def meaning(items: Sequence[Item], vectors: Floats, model: str, settings: ProbeSettings) -> list[Answer]:
    """Return an answer row per item and cross-fit, with log probabilities from unit vectors `vectors` (sum of k, d)."""
    k = np.array([item.k for item in items], dtype=np.int64)
    there = np.arange(int(k.max())) < k[:, None]
    x, rows = places(vectors, there)[there], list[Answer]()
    for times, template in enumerate(TEMPLATES):
        seeded = settings.model_copy(update={"seed": settings.seed + times})
        rows += fitted_rows(items, x, (VIEW, model, template), RIDGE, seeded)
    return rows


def places(vectors: Floats, there: Bools) -> Floats:
    """Return coordinates of the options within their item (n, K, axes + 1): principal axes and mean similarity."""
    wide = padded(vectors.astype(np.float64, copy=False), there)
    k: Ints = there.sum(axis=1)
    like = np.einsum("nkd,nd->nk", wide, wide.sum(axis=1)) - (wide**2).sum(axis=2)
    alike = _scaled(centred(like / np.maximum(k - 1, 1)[:, None], there)[:, :, None], there)
    inside = np.moveaxis(centred(np.moveaxis(wide, 2, 0), there), 0, 2)
    rows = inside[there]
    axes = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :AXES]
    return np.concatenate([_scaled(inside @ axes, there), alike], axis=2)


def _scaled(x: Floats, there: Bools) -> Floats:
    spread = float(x[there].std())
    return x / spread if spread > ROUNDING else np.zeros_like(x)
