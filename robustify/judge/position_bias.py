"""Does a model that sees the question lean to a place? Told from one order of each item, as most logs have.

A model that is always right picks the places where the keys stand; what counts is how much more often it picks
a place than the key stands there. Moving the choices says more; where that was done, `stability` says it.
"""

from collections.abc import Sequence

import numpy as np

from robustify.answers import Block
from robustify.arrays import Bools, Floats, Ints
from robustify.scoring import best
from robustify.screen.key_positions import ordinal
from robustify.stats.differences import sign_flip
from robustify.stats.intervals import FEWEST_CLUSTERS, bootstrap, clopper_pearson, clusters, percent, rate
from robustify.stats.tests import holm, mcnemar_exact

Tree = dict[str, object]

LEVEL = 0.05


def position_bias(block: Block, groups: Ints | None = None) -> Tree | None:
    """How a model's picks and its keys fall on the places, over the first row of each item; None without picks.

    `n` answered items of `asked`, of which `tied` share their pick among several choices. For each place as
    shown, over the items that have it: `picked` and `key`, shares; `excess`, picked minus key, with an item
    bootstrap; `p_holm` of an exact McNemar test (picked here and the key elsewhere, against the reverse; ties
    left out), by Holm over the places; `recall`, the accuracy where the key stands there. `recall_sd`: their
    standard deviation, RStd of Zheng et al. 2024 (arXiv 2309.03882). `sentence` where a p_holm is below 0.05.
    `groups` (one for each item, as in `block.first()`) of items that are resampled together; the test then
    flips the signs of their sums, which is McNemar's where every item stands alone. An excess that does not
    vary has an exact bound.
    """
    rows = block.first()
    asked = len(rows)
    answered = (rows.pick >= 0) & (rows.key >= 0)
    together = None if groups is None else groups[answered]
    rows = rows.where(answered)
    if not len(rows):
        return None
    picked, key, there = _shown(rows)
    whole = picked.max(axis=1) == 1
    tests = [_mcnemar(picked[:, j], key[:, j], whole & there[:, j], together) for j in range(picked.shape[1])]
    adjusted = holm(tests)
    places = [
        _place(picked[:, j], key[:, j], there[:, j], rows.correct, p_holm, together)
        for j, p_holm in enumerate(adjusted)
    ]
    recalls = [float(rows.correct[key[:, j]].mean()) for j in range(key.shape[1]) if key[:, j].any()]
    return {
        "n": len(rows),
        "asked": asked,
        "tied": int(np.count_nonzero(~whole)),
        "places": places,
        "recall_sd": float(np.std(recalls)) if len(recalls) > 1 else None,
        "sentence": _sentence(picked, key, there, adjusted),
    }


def _shown(rows: Block) -> tuple[Floats, Bools, Bools]:
    """By place as shown (r, width): the share of the pick, whether the key stands there, whether it exists."""
    there = rows.order >= 0
    order = np.where(there, rows.order, 0)
    width = order.shape[1]
    tied = best(rows.scores, rows.k)
    tied = np.pad(tied, ((0, 0), (0, max(0, width - tied.shape[1]))))[:, :width]
    # Rows whose own scores name the tied choices share them; elsewhere the pick stands alone.
    shared = (rows.tie > 1) & (tied.sum(axis=1) == rows.tie)
    weight = np.where(shared[:, None], tied, np.arange(width) == rows.pick[:, None]).astype(np.float64)
    weight /= weight.sum(axis=1, keepdims=True)
    picked = np.where(there, np.take_along_axis(weight, order, axis=1), 0.0)
    return picked, (order == rows.key[:, None]) & there, there


def _mcnemar(picked: Floats, key: Bools, among: Bools, groups: Ints | None) -> float:
    apart = (picked[among] == 1).astype(np.int64) - key[among]
    if groups is None:
        return mcnemar_exact(int((apart > 0).sum()), int((apart < 0).sum()))
    kinds = np.unique(groups[among], return_inverse=True)[1]
    return sign_flip(np.bincount(kinds, weights=apart).astype(np.int64))


def _place(
    picked: Floats, key: Bools, there: Bools, correct: Floats, p_holm: float, groups: Ints | None
) -> Tree:
    gap = picked[there] - key[there]
    return {
        "picked": rate(picked[there]).json(),
        "key": float(key[there].mean()) if len(gap) else None,
        "excess": {
            "value": float(gap.mean()) if len(gap) else None,
            "n": len(gap),
            "ci": _gap_interval(gap, None if groups is None else groups[there]),
        },
        "p_holm": p_holm,
        "recall": rate(correct[key]).json(),
    }


def _gap_interval(gap: Floats, groups: Ints | None) -> list[float] | None:
    units = clusters(len(gap), groups)
    if units < FEWEST_CLUSTERS:
        return None
    if np.ptp(gap) > 0:
        return list(bootstrap(gap, groups=groups))
    # Nothing varied, so resampling would know it exactly: what was not seen may differ by one pick.
    value, unseen = float(gap[0]), clopper_pearson(0, units)[1]
    return [max(-1.0, value - unseen), min(1.0, value + unseen)]


def _sentence(picked: Floats, key: Bools, there: Bools, p_holm: Sequence[float]) -> str | None:
    """The place that is picked too often, the surest one first; None where there is none."""
    gaps = [
        (p, j, float(picked[there[:, j], j].mean()), float(key[there[:, j], j].mean()))
        for j, p in enumerate(p_holm)
        if p < LEVEL
    ]
    more = sorted(gap for gap in gaps if gap[2] > gap[3])
    if not more:
        return None
    p, j, share, due = more[0]
    told = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return (
        f"Picks the {ordinal(j)} option in {percent(share)} of the items; the key stands there in "
        f"{percent(due)} ({told})."
    )
