"""The artifact probe: what a small trained classifier gets right from the choices alone.

A logistic regression on hand-made features of the choices (never the stem, never the place), cross-fitted: an
item is judged by a fit that saw neither it nor a near-duplicate of it. It refuses to guess where there are
too few items to fit on, and says so in the row.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import log_softmax

from robustify import orders
from robustify.answers import Answer, answer, unanswered
from robustify.duplicates import kin
from robustify.features import Floats, Ints, matrix
from robustify.item import Item
from robustify.stats import Rate, rate

VIEW = "probe"
NAME = "probe"
TEMPLATE = "probe-v1"

FEWEST_ITEMS = 50
FEWEST_TRAINING_ITEMS = 30
SHRINKAGE = 0.1
"""scikit-learn's C: the inverse strength of the ridge on standardised features."""


class ProbeSettings(BaseModel):
    """`folds` of the cross-fit; `seed` of the folds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folds: int = Field(default=5, ge=2, le=20)
    seed: int = Field(default=0, ge=0)


def probe(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    """One row an item; its scores are cross-fitted log probabilities whose exponentials sum to 1."""
    if len(items) < FEWEST_ITEMS:
        return [_silent(item, f"{len(items)} items; the probe needs {FEWEST_ITEMS}") for item in items]
    k = np.array([item.k for item in items], dtype=np.int64)
    key = np.array([item.key for item in items], dtype=np.int64)
    scores = crossfit(matrix(items), k, key, folds(items, settings))
    ends = np.cumsum(k)
    return [_row(item, scores[end - item.k : end]) for item, end in zip(items, ends.tolist(), strict=True)]


def audit(items: Sequence[Item], settings: ProbeSettings) -> Rate:
    """The tie-fair accuracy of a fresh probe, fitted and tested on these items alone."""
    credits = [row.correct for row in probe(items, settings)]
    return rate(np.array([np.nan if c is None else c for c in credits], dtype=np.float64))


def folds(items: Sequence[Item], settings: ProbeSettings) -> Ints:
    """The fold of each item, (n,): a hash of the smallest id in its group of near-duplicates."""
    group = kin(items)
    smallest: dict[int, str] = {}
    for item, g in zip(items, group.tolist(), strict=True):
        smallest[g] = min(item.id, smallest.get(g, item.id))
    return np.array([_fold(smallest[g], settings) for g in group.tolist()], dtype=np.int64)


def crossfit(x: Floats, k: Ints, key: Ints, fold: Ints) -> Floats:
    """Cross-fitted log probabilities of all choices, (sum of k,), normalised within each item.

    `x` (sum of k, f) features, `k`, `key`, `fold` (n,). A logistic regression tells keys from other choices;
    within an item, where exactly one choice is right, the odds are normalised. NaN where the other folds hold
    too few items to fit on.
    """
    from sklearn.linear_model import LogisticRegression  # 2 s that only a run with a probe should pay

    item_of = np.repeat(np.arange(len(k)), k)
    right = np.zeros(len(item_of), dtype=bool)
    right[np.cumsum(k) - k + key] = True
    out = np.full(len(item_of), np.nan)
    for f in np.unique(fold):
        inside = fold == f
        if np.count_nonzero(~inside) < FEWEST_TRAINING_ITEMS:
            continue
        test = inside[item_of]
        model = LogisticRegression(C=SHRINKAGE, max_iter=500).fit(x[~test], right[~test])
        out[test] = _normalised(model.decision_function(x[test]), k[inside])
    return out


def _normalised(logits: Floats, k: Ints) -> Floats:
    padded = np.full((len(k), int(k.max())), -np.inf)
    there = np.arange(padded.shape[1]) < k[:, None]
    padded[there] = logits
    return np.asarray(log_softmax(padded, axis=1)[there], dtype=np.float64)


def _fold(name: str, settings: ProbeSettings) -> int:
    digest = hashlib.sha256(f"fold/{settings.seed}/{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % settings.folds


def _row(item: Item, scores: npt.NDArray[np.float64]) -> Answer:
    if np.isnan(scores).any():
        return _silent(item, f"fewer than {FEWEST_TRAINING_ITEMS} items without near-duplicates to fit on")
    return answer(item.id, VIEW, NAME, orders.own(item.k), TEMPLATE, item.key, scores.tolist())


def _silent(item: Item, why: str) -> Answer:
    return unanswered(item.id, VIEW, NAME, orders.own(item.k), TEMPLATE, item.key, why)
