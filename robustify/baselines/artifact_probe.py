"""The artifact probe: what a small trained classifier gets right from the choices alone.

A logistic regression on hand-made features of the choices (never the stem, never the place), cross-fitted: an
item is judged by a fit that saw neither it nor a near-duplicate of it. It is asked once, or in AFLite's rounds.
It refuses to guess where there are too few items to fit on, and says so in the row.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.special import log_softmax

from robustify import orders
from robustify.answers import Answer, answer, unanswered
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.aflite import Course, Terms, iterate
from robustify.baselines.features import matrix
from robustify.baselines.near_duplicates import near_duplicate_groups
from robustify.item import Item
from robustify.scoring import best

VIEW = "probe"
NAME = "probe"
TEMPLATE = "probe-v1"
AFLITE_TEMPLATE = "aflite-v1"

FEWEST_ITEMS = 50
FEWEST_TRAINING_ITEMS = 30
FEWEST_IN_PLAY = 2 * FEWEST_TRAINING_ITEMS
"""AFLite trains on half of the items."""
SHRINKAGE = 0.1
"""scikit-learn's C: the inverse strength of the ridge on standardised features."""
UNFITTED = f"fewer than {FEWEST_TRAINING_ITEMS} items without near-duplicates to fit on"

Reduce = Callable[[Floats, Floats, int], tuple[Floats, Floats]]
"""The rows fitted on (r, f), those predicted (t, f) and the number of items fitted on -> both in fewer columns."""


class ProbeSettings(BaseModel):
    """How the artifact probe is fitted; nothing here needs a model.

    `method`: `crossfit` predicts every item once, with `folds` (and `seed`) of the cross-fit; `aflite` predicts in
    rounds of `partitions` random halvings and names an item as soon as one option has `threshold` of the
    predictions; at most a share `slice` of the items leaves in a round, and a share `floor` always stays. Whatever
    the method, the audit of what was kept is a fresh cross-fit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    folds: int = Field(default=5, ge=2, le=20)
    seed: int = Field(default=0, ge=0)
    method: Literal["crossfit", "aflite"] = "crossfit"
    partitions: int = Field(default=16, ge=4, le=256)
    threshold: float = Field(default=0.75, gt=0.5, lt=1)
    slice: float = Field(default=0.1, gt=0, le=1)
    floor: float = Field(default=0.5, ge=0, le=1)

    @model_validator(mode="after")
    def _within_reach(self) -> "ProbeSettings":
        # Shares are smoothed by one prediction more, so that no item reaches 1.
        most = self.partitions / (self.partitions + 1)
        if self.threshold > most:
            raise ValueError(
                f"threshold: no share of {self.partitions} partitions reaches it; expected at most {most:.2f}, "
                "or more partitions"
            )
        return self


def probe(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    """One row an item. The scores of a cross-fit are log probabilities whose exponentials sum to 1; for those of
    AFLite see `aflite`.
    """
    match settings.method:
        case "crossfit":
            return _crossfitted(items, settings)
        case "aflite":
            return aflite(items, settings)[0]


def aflite(items: Sequence[Item], settings: ProbeSettings) -> tuple[list[Answer], Course]:
    """One row an item, and the course of the rounds; the order of the items changes neither.

    Scores are the logs of each option's smoothed share of the predictions. An item that no round named has its
    shares halved, the other half standing for no option, so that none of them passes for sure: at a
    `probe_confidence` from 1/2 to `threshold` exactly the named items cast a vote, exactly those that left are
    flagged by a probe that votes alone, and the floor holds.
    """
    order = sorted(range(len(items)), key=lambda i: items[i].id)
    held = [items[i] for i in order]
    k, key = _sizes(held)
    terms = Terms(settings.partitions, settings.threshold, settings.slice, settings.floor, settings.seed)
    course = iterate(
        [item.id for item in held], group_ids(held), k, key, terms, _predicting(held, k, key), FEWEST_IN_PLAY
    )
    rows: dict[str, Answer] = {}
    for item, shares, named in zip(held, course.shares, course.named.tolist(), strict=True):
        scores = np.log(shares[: item.k] * (1.0 if named else 0.5))
        few = f"{len(items)} items; AFLite needs {FEWEST_IN_PLAY}" if not course.rounds else UNFITTED
        rows[item.id] = _row(item, scores, AFLITE_TEMPLATE, few)
    return [rows[item.id] for item in items], course


def folds(items: Sequence[Item], settings: ProbeSettings) -> Ints:
    """The fold of each item, (n,): a hash of the smallest id in its group of near-duplicates."""
    return np.array([_fold(name, settings) for name in group_ids(items)], dtype=np.int64)


def group_ids(items: Sequence[Item]) -> list[str]:
    """For each item the smallest id in its group of near-duplicates."""
    group = near_duplicate_groups(items).tolist()
    smallest: dict[int, str] = {}
    for item, g in zip(items, group, strict=True):
        smallest[g] = min(item.id, smallest.get(g, item.id))
    return [smallest[g] for g in group]


def crossfit(x: Floats, k: Ints, key: Ints, fold: Ints, reduce: Reduce | None = None) -> Floats:
    """Cross-fitted log probabilities of all choices, (sum of k,), normalised within each item.

    `x` (sum of k, f) features, `k`, `key`, `fold` (n,). A logistic regression tells keys from other choices;
    within an item, where exactly one choice is right, the odds are normalised. `reduce` is fitted with it, inside
    the other folds. NaN where these hold too few items to fit on.
    """
    from sklearn.linear_model import LogisticRegression  # 2 s that only a run with a probe should pay

    item_of = np.repeat(np.arange(len(k)), k)
    right = np.zeros(len(item_of), dtype=bool)
    right[np.cumsum(k) - k + key] = True
    out = np.full(len(item_of), np.nan)
    for f in np.unique(fold):
        inside = fold == f
        n_training = int(np.count_nonzero(~inside))
        if n_training < FEWEST_TRAINING_ITEMS:
            continue
        test = inside[item_of]
        train_x, test_x = x[~test], x[test]
        if reduce is not None:
            train_x, test_x = reduce(train_x, test_x, n_training)
        model = LogisticRegression(C=SHRINKAGE, max_iter=500).fit(train_x, right[~test])
        out[test] = _normalised(model.decision_function(test_x), k[inside])
    return out


def _crossfitted(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    if len(items) < FEWEST_ITEMS:
        few = f"{len(items)} items; the probe needs {FEWEST_ITEMS}"
        return [_silent(item, TEMPLATE, few) for item in items]
    k, key = _sizes(items)
    scores = crossfit(matrix(items), k, key, folds(items, settings))
    ends = np.cumsum(k)
    return [
        _row(item, scores[end - item.k : end], TEMPLATE, UNFITTED)
        for item, end in zip(items, ends.tolist(), strict=True)
    ]


def _predicting(items: Sequence[Item], k: Ints, key: Ints) -> Callable[[Bools, Ints], Floats]:
    """What AFLite asks: which options a fit on the other side predicts, for the items in play."""
    x = matrix(items) if len(items) >= FEWEST_IN_PLAY else np.zeros((0, 0))
    there = np.arange(int(k.max(initial=1))) < k[:, None]
    item_of = np.repeat(np.arange(len(k)), k)

    def predict(playing: Bools, side: Ints) -> Floats:
        scores = np.full(there.shape, np.nan)
        scores[there & playing[:, None]] = crossfit(
            x[playing[item_of]], k[playing], key[playing], side[playing]
        )
        tied = best(scores, k)
        return np.asarray(tied / np.maximum(tied.sum(axis=1, keepdims=True), 1))

    return predict


def _sizes(items: Sequence[Item]) -> tuple[Ints, Ints]:
    sizes = [item.k for item in items], [item.key for item in items]
    return np.array(sizes[0], dtype=np.int64), np.array(sizes[1], dtype=np.int64)


def _normalised(logits: Floats, k: Ints) -> Floats:
    padded = np.full((len(k), int(k.max())), -np.inf)
    there = np.arange(padded.shape[1]) < k[:, None]
    padded[there] = logits
    return np.asarray(log_softmax(padded, axis=1)[there], dtype=np.float64)


def _fold(name: str, settings: ProbeSettings) -> int:
    digest = hashlib.sha256(f"fold/{settings.seed}/{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % settings.folds


def _row(item: Item, scores: Floats, template: str, why: str) -> Answer:
    if np.isnan(scores).any():
        return _silent(item, template, why)
    return answer(item.id, VIEW, NAME, orders.own(item.k), template, item.key, scores.tolist())


def _silent(item: Item, template: str, why: str) -> Answer:
    return unanswered(item.id, VIEW, NAME, orders.own(item.k), template, item.key, why)
