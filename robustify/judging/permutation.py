"""Effect of the order of choices on models that see the question.

Statistics use only the items answered in every order of a set. Items asked once are ignored.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Ints
from robustify.judging.context import Context
from robustify.scoring import as_compared
from robustify.screen.votes import first_block
from robustify.stats.intervals import effective_size, rate, wilson
from robustify.summary.quantity import Quantity
from robustify.summary.scored import Moved, Orders, Permutation, Stability

_EVERY = 1 << 30
SAME_SCORE = 1e-3
"""Tolerance in nats for a continuation's score in two orders, because other batches round differently."""


def permutation(ctx: Context) -> Permutation:
    """Return the effect of the order of choices on each model that was asked the full question."""
    out: dict[str, Stability | None] = {}
    for name in ctx.names:
        block = as_compared(first_block(ctx.answers, ctx.full, name), ctx.full)
        if len(block):
            here = block.where(ctx.index.index_of[block.item] >= 0)
            out[name] = stability(here, ctx.row_groups(here), is_voter=name in ctx.votes.voters)
    return Permutation(by_model=out, cloze_invariance=cloze_invariance(ctx.answers, ctx.names))


def stability(block: Block, groups: Ints | None = None, *, is_voter: bool | None = None) -> Stability | None:
    """Return how a model's accuracy and picks vary with the order of choices, or None if too few orders were answered.

    The main fields describe the random orders, including the original order, or the rotations if there are no random
    orders. `groups` (r,) marks clustered rows, which widen the intervals.
    """
    spread, turned = orders_asked(block)
    several = int(np.count_nonzero(np.bincount(block.item) >= 2))
    random, rotations = (moved(block, rows, several, groups) for rows in (spread, turned))
    top = random or rotations
    if top is None:
        return None
    own = {name: getattr(top, name) for name in Orders.model_fields}
    return Stability(**own, is_voter=is_voter, rotations=rotations)


def moved(block: Block, rows: Ints, asked: int, groups: Ints | None = None) -> Orders | None:
    """Return how much answers vary over a set of orders, or None if no item was answered in every order.

    `rows` (items, orders) is padded with -1. The accuracy of an order counts the items that have an order of that rank.
    `flip_rate` is the share of other orders whose pick differs from the first. `consistency` is the share of items with the
    same pick in all orders. A tied pick agrees with no pick.
    """
    rows = _answered(block, rows)
    if not len(rows):
        return None
    n, orders = rows.shape
    there = rows >= 0
    won = np.where(there, block.correct[rows], 0.0)
    accuracy = won.sum(axis=0) / there.sum(axis=0)
    together = None if groups is None else groups[rows[:, 0]]
    size = effective_size(won.sum(axis=1) / there.sum(axis=1), together)
    pick, sure = block.pick[rows], block.tie[rows] == 1
    same = (pick == pick[:, :1]) & sure & sure[:, :1] & there
    mean = float(accuracy.mean())
    return Orders(
        mean=mean,
        mean_ci=None if size is None else wilson(mean * size, size),
        sd=float(accuracy.std(ddof=1)),
        min=float(accuracy.min()),
        max=float(accuracy.max()),
        flip_rate=Quantity.of(rate(1 - same[:, 1:].sum(axis=1) / there[:, 1:].sum(axis=1), together)),
        consistency=Quantity.of(rate((same | ~there).all(axis=1).astype(np.float64), together)),
        orders=orders,
        n=n,
        asked=asked,
    )


def _answered(block: Block, rows: Ints) -> Ints:
    rows = rows[((block.pick[rows] >= 0) | (rows < 0)).all(axis=1)]
    return rows[:, : int((rows >= 0).sum(axis=1).max(initial=0))]


def orders_asked(block: Block) -> tuple[Ints, Ints]:
    """Return the rows of each item's random orders (items, orders) and rotations (items, K), padded with -1.

    Both begin with the item's own order (rotation 0). A random order may also be a rotation.
    If rotations were asked as well, the random set has the first order and all orders that are not rotations. Rotations
    fill it up to the size of a set without overlap.
    """
    if not len(block):
        return _NONE, _NONE
    _, item, asked = np.unique(block.item, return_inverse=True, return_counts=True)
    k = np.zeros(len(asked), dtype=np.int64)
    k[item] = block.k
    turn, in_ring = block.rotation, block.rotation >= 0
    turned = np.full((len(asked), int(k.max())), -1)
    # Assign in reverse, so that the earliest of equal rows remains.
    rows = np.flatnonzero(in_ring)[::-1]
    turned[item[rows], turn[rows]] = rows
    whole = ((turned >= 0) | (np.arange(turned.shape[1]) >= k[:, None])).all(axis=1) & (k >= 2)
    outside = 1 + np.bincount(item, weights=~in_ring, minlength=len(asked)).astype(np.int64)
    outside = np.where(asked == _orders_due(_EVERY, k), asked, outside)
    many = (k >= 4) & (asked >= 2)
    # With 4 or more choices, five random orders contain all rotations of an item less than once in 400.
    besides = bool(many.any() and whole[many].mean() >= 0.5)
    met = outside[many & whole & (outside > 1)]
    rotated_only = besides and not len(met)
    available = np.where((k > 2) & rotated_only, 1, asked)
    size = _usual(met) if besides and len(met) else _most_used(available, k)
    last = in_ring if besides else np.zeros(len(item), dtype=bool)
    by_item = np.lexsort((np.where(turn == 0, 0, 1 + last), item))
    due = _orders_due(size, k)
    full = (due >= 2) & (available >= due)
    there = np.arange(size) < due[full, None]
    starts = (np.cumsum(asked) - asked)[full, None]
    return np.where(there, by_item[np.where(there, starts + np.arange(size), 0)], -1), turned[whole]


_NONE: Ints = np.zeros((0, 0), dtype=np.int64)


def _usual(sizes: Ints) -> int:
    # Not the maximum, because one item that was asked more often must not exclude all others.
    return int(np.quantile(sizes, 0.95, method="lower"))


def _most_used(available: Ints, k: Ints) -> int:
    """Return the number of orders per item that leaves the fewest rows out of complete sets. Prefer the larger in a tie."""
    sizes = range(2, max(3, int(available.max()) + 1))
    used = [(int(due[available >= due].sum()), size) for size in sizes for due in (_orders_due(size, k),)]
    return max(used)[1]


def _orders_due(size: int, k: Ints) -> Ints:
    """Return how many orders each item (n,) contributes to a set of this size, at most k!."""
    most = np.array([min(size, math.factorial(options)) for options in range(int(k.max()) + 1)])
    return np.asarray(most[k], dtype=np.int64)


def cloze_invariance(answers: Answers, names: Sequence[str]) -> Literal["inert"] | Moved | None:
    """Return "inert" if cloze did not depend on the order of choices, otherwise how many items changed.

    This tests the program. An item of a model changes if its pick differs between two orders, or a score differs by more
    than 1e-3 nats. None if no item was answered in two orders.
    """
    changed = n = 0
    for name in names:
        block = first_block(answers, "cloze", name)
        rows = block.where(block.pick >= 0)
        if not len(rows):
            continue
        start, item = np.unique(rows.item, return_index=True, return_inverse=True)[1:]
        first = start[item]
        other = (rows.order != rows.order[first]).any(axis=1)
        with np.errstate(invalid="ignore"):
            apart = np.abs(rows.scores - rows.scores[first]) > SAME_SCORE
        # A score that exists in one order only has changed too. -inf in both orders has not.
        apart |= np.isnan(rows.scores) != np.isnan(rows.scores[first])
        differs = (rows.pick != rows.pick[first]) | apart.any(axis=1)
        n += len(np.unique(item[other]))
        changed += len(np.unique(item[other & differs]))
    if not n:
        return None
    return Moved(n_changed=changed, n=n) if changed else "inert"
