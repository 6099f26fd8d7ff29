"""What the order of the choices does to a model that sees the question.

Two sets of orders are known by the orders themselves: random ones, and all rotations of the first.
Everything is counted over items that were answered in every order of a set; what that leaves out is counted.
Items asked once say nothing about order and are not used.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Ints
from robustify.judging.context import Context
from robustify.scoring import as_compared
from robustify.screen.votes import first_block
from robustify.stats.intervals import effective_size, rate, wilson
from robustify.summary.quantity import Quantity
from robustify.summary.scored import Moved, Orders, Permutation, Stability

_EVERY = 1 << 30
SAME_SCORE = 1e-3
"""Nats by which a continuation's score may differ between two orders: other batches round otherwise."""


def permutation(ctx: Context) -> Permutation:
    """Return what the order of the choices does to each model that was asked the full question."""
    out: dict[str, Stability | None] = {}
    for name in ctx.names:
        block = as_compared(first_block(ctx.answers, ctx.full, name), ctx.full)
        if len(block):
            here = block.where(ctx.index.at[block.item] >= 0)
            out[name] = stability(here, ctx.row_groups(here), is_voter=name in ctx.votes.voters)
    return Permutation(by_model=out, cloze_invariance=cloze_invariance(ctx.answers, ctx.names))


def stability(block: Block, groups: Ints | None = None, *, is_voter: bool | None = None) -> Stability | None:
    """How a model's accuracy and picks move over the orders in which it was asked; None below two orders.

    First come the random orders, the own order among them (see `moved`), or the rotations if no other was asked. `groups`
    (r,) of rows whose items hang together widen the intervals.
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
    """Return how far answers move over a set of orders, rows (items, orders), -1 where an item has no more.

    None if no item was answered in all. An order counts the items that have one of that rank. `flip_rate`: share of the
    other orders whose pick is not that of the first. `consistency`: share of the items with one pick in all orders. A
    tied pick agrees with nothing.
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
    """Return the rows of the random orders (items, orders), and of all rotations (items, K), by item; -1 beyond.

    An item's first row is that of its own order, else the first of the table. A random order may be a rotation too: where
    rotations were asked besides, the random set is the first order, those that are none, and as many rotations as fill it
    up to the size that the set of an item without such overlap has.
    """
    if not len(block):
        return _NONE, _NONE
    _, item, asked = np.unique(block.item, return_inverse=True, return_counts=True)
    first = _first_rows(block, item, len(asked))
    k = block.k[first]
    turn, in_ring = _turns(block, first[item])
    turned = np.full((len(asked), int(k.max())), -1)
    # Backwards, so that of equal rows the earliest stays.
    rows = np.flatnonzero(in_ring)[::-1]
    turned[item[rows], turn[rows]] = rows
    whole = ((turned >= 0) | (np.arange(turned.shape[1]) >= k[:, None])).all(axis=1) & (k >= 2)
    outside = 1 + np.bincount(item, weights=~in_ring, minlength=len(asked)).astype(np.int64)
    outside = np.where(asked == _due(_EVERY, k), asked, outside)
    many = (k >= 4) & (asked >= 2)
    # Of 4 choices or more, five random orders hold all rotations of an item less than once in 400.
    besides = bool(many.any() and whole[many].mean() >= 0.5)
    met = outside[many & whole & (outside > 1)]
    rotated_only = besides and not len(met)
    available = np.where((k > 2) & rotated_only, 1, asked)
    size = _usual(met) if besides and len(met) else _most_used(available, k)
    last = in_ring if besides else np.zeros(len(item), dtype=bool)
    place = np.where(np.arange(len(item)) == first[item], 0, 1 + last)
    by_item = np.lexsort((np.arange(len(item)), place, item))
    due = _due(size, k)
    full = (due >= 2) & (available >= due)
    there = np.arange(size) < due[full, None]
    starts = (np.cumsum(asked) - asked)[full, None]
    return np.where(there, by_item[np.where(there, starts + np.arange(size), 0)], -1), turned[whole]


_NONE: Ints = np.zeros((0, 0), dtype=np.int64)


def _first_rows(block: Block, item: Ints, items: int) -> Ints:
    own = ((block.order == np.arange(block.order.shape[1])) | (block.order < 0)).all(axis=1)
    first = np.zeros(items, dtype=np.int64)
    for rows in (np.arange(len(item)), np.flatnonzero(own)):
        first[item[rows[::-1]]] = rows[::-1]
    return first


def _turns(block: Block, first: Ints) -> tuple[Ints, Bools]:
    """By how many places each row (r,) is turned against the row `first`, and whether it is its rotation."""
    start = (block.order == 0).argmax(axis=1)
    place = np.arange(block.order.shape[1])
    beyond = place >= block.k[:, None]
    at = np.where(beyond, place, (place + start[:, None]) % np.maximum(block.k, 1)[:, None])
    ring = np.take_along_axis(block.order, at, axis=1)
    turn = (start[first] - start) % np.maximum(block.k, 1)
    return turn, np.asarray((ring == ring[first]).all(axis=1))


def _usual(sizes: Ints) -> int:
    # Not the largest: a stray item that was asked more often must not put out all others.
    return int(np.quantile(sizes, 0.95, method="lower"))


def _most_used(available: Ints, k: Ints) -> int:
    """The size of a set that uses most rows; of equal ones the largest."""
    sizes = range(2, max(3, int(available.max()) + 1))
    used = [(int(due[available >= due].sum()), size) for size in sizes for due in (_due(size, k),)]
    return max(used)[1]


def _due(size: int, k: Ints) -> Ints:
    """How many orders each item (n,) has in a set of this size: no more than k!."""
    most = np.array([min(size, math.factorial(options)) for options in range(int(k.max()) + 1)])
    return np.asarray(most[k], dtype=np.int64)


def cloze_invariance(answers: Answers, names: Sequence[str]) -> Literal["inert"] | Moved | None:
    """Whether cloze moved with the order of the choices, as it must not: a test of the program.

    "inert" where at least one item was answered in two orders and none moved, else of the items (of each model)
    answered in two orders those whose pick, or a score by more than 1e-3 nats, differs between two orders. None where
    no item was: cloze was not asked, or not in two orders.
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
        # One score that is there in one order only has moved too; -inf in both has not.
        apart |= np.isnan(rows.scores) != np.isnan(rows.scores[first])
        differs = (rows.pick != rows.pick[first]) | apart.any(axis=1)
        n += len(np.unique(item[other]))
        changed += len(np.unique(item[other & differs]))
    if not n:
        return None
    return Moved(n_changed=changed, n=n) if changed else "inert"
