"""What the order of the choices does to a model that sees the question.

Everything is counted over items that were answered in every order they can stand in; what that leaves out is
counted. Items asked once say nothing about order and are not used.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

from robustify.answers import Block
from robustify.cloze import best
from robustify.stats import rate

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def stability(block: Block) -> dict[str, object] | None:
    """How a model's accuracy and picks move over the orders in which it was asked; None below two orders.

    `mean`, `sd` (n - 1), `min`, `max` of the accuracies of the orders, the r-th order of an item being its
    r-th row; an order counts the items that have one of that rank. `flip_rate`: share of the other orders
    whose pick is not that of the first. `consistency`: share of the items with one and the same pick in all
    orders. A tied pick agrees with nothing. `n` items, each answered in all of its up to `orders` orders, of
    `asked` items that have two rows or more. `position_prior`: see `position_prior`.
    """
    rows = complete(block)
    if rows is None:
        return None
    n, orders = rows.shape
    there = rows >= 0
    accuracy = np.where(there, block.correct[rows], 0.0).sum(axis=0) / there.sum(axis=0)
    pick, sure = block.pick[rows], block.tie[rows] == 1
    same = (pick == pick[:, :1]) & sure & sure[:, :1] & there
    return {
        "mean": float(accuracy.mean()),
        "sd": float(accuracy.std(ddof=1)),
        "min": float(accuracy.min()),
        "max": float(accuracy.max()),
        "flip_rate": rate(1 - same[:, 1:].sum(axis=1) / there[:, 1:].sum(axis=1)).json(),
        "consistency": rate((same | ~there).all(axis=1).astype(np.float64)).json(),
        "orders": orders,
        "n": n,
        "asked": int(np.count_nonzero(np.unique(block.item, return_counts=True)[1] >= 2)),
        "position_prior": position_prior(block),
    }


def complete(block: Block) -> Ints | None:
    """The rows of the items answered in every order, (items, orders); None without two orders of one item.

    "Every order" is as many as the most asked item has, or k! where an item of k choices has no more; its row
    is then filled with -1.
    """
    if not len(block):
        return None
    by_item = np.argsort(block.item, kind="stable")
    _, starts, asked = np.unique(block.item[by_item], return_index=True, return_counts=True)
    most = int(asked.max())
    if most < 2:
        return None
    k = block.k[by_item[starts]]
    due = np.array([min(most, math.factorial(options)) for options in range(int(k.max()) + 1)])[k]
    full = (due >= 2) & (asked >= due)
    there = np.arange(most) < due[full, None]
    rows = by_item[np.where(there, starts[full, None] + np.arange(most), 0)]
    answered = ((block.pick[rows] >= 0) | ~there).all(axis=1)
    rows = np.where(there, rows, -1)[answered]
    return np.asarray(rows[:, : int((rows >= 0).sum(axis=1).max())]) if len(rows) else None


def position_prior(block: Block) -> list[float] | None:
    """The share of a model's probability that each place draws whatever stands there, from the first.

    PriDe (Zheng et al. 2024, arXiv 2309.03882): the softmax over places of the mean log probability over an
    item's orders, then the mean over items. Only items with the commonest number of choices and at least two
    orders count; None where scores are missing.
    """
    rows = complete(block)
    if rows is None or not block.scores.shape[1]:
        return None
    counts = np.bincount(block.k[rows[:, 0]])
    k = int(counts.argmax())
    rows = rows[block.k[rows[:, 0]] == k]
    rows = rows[:, rows[0] >= 0]
    shown = np.take_along_axis(block.scores[rows, :k], block.order[rows, :k], axis=-1)
    shown = shown[np.isfinite(shown).all(axis=(1, 2))]
    if not len(shown):
        return None
    per_item = softmax(log_softmax(shown, axis=-1).mean(axis=1), axis=-1)
    return [float(share) for share in per_item.mean(axis=0)]


def position_share(block: Block) -> list[float] | None:
    """The share of the picks that fell on each place as shown, from the first; ties share; None without."""
    there = block.where((block.pick >= 0) & ((block.order >= 0).sum(axis=1) > block.pick))
    if not len(there):
        return None
    width = there.order.shape[1]
    # Rows whose own scores name the tied choices share them; elsewhere the pick stands alone.
    tied = best(there.scores, there.k)
    shared = (there.tie > 1) & (tied.sum(axis=1) == there.tie)
    picked = np.where(shared[:, None], tied, np.arange(width) == there.pick[:, None])
    weight = picked / picked.sum(axis=1, keepdims=True)
    known = there.order >= 0
    shown = np.where(known, np.take_along_axis(weight, np.where(known, there.order, 0), axis=1), 0.0)
    return [float(share) for share in shown.mean(axis=0)]
