"""Effect of the order of choices: position bias, and how accuracy and picks vary over orders.

Position bias is how much more often a model picks a position than the key occupies it. Statistics of orders use only
the items answered in every order of a set.
"""

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.answers import Block
from robustify.items.scoring import as_compared, best
from robustify.judging.context import Context
from robustify.judging.screen.votes import first_block
from robustify.judging.stats import intervals
from robustify.judging.stats.intervals import effective_size, rate, wilson
from robustify.judging.stats.tests import holm, sign_flip
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.scored import Moved, OnePosition, Orders, Permutation, PositionBias, Stability
from robustify.judging.summary.screened import FavouredPosition

_EVERY = 1 << 30
SAME_SCORE = 1e-3
"""Tolerance in nats for a continuation's score in two orders, because other batches round differently."""


def picked_by_position(rows: Block) -> Floats:
    """Return which displayed position each row picks (r, width). Tied picks share it equally."""
    return np.concatenate([np.empty((0, rows.order.shape[1])), *map(_picked_by_position, rows.parts())])


def _picked_by_position(rows: Block) -> Floats:
    width = rows.order.shape[1]
    tied = best(rows.scores, rows.k)
    tied = np.pad(tied, ((0, 0), (0, max(0, width - tied.shape[1]))))[:, :width]
    # Ties share only if the row's scores show which choices are tied. Otherwise the pick counts alone.
    shared = (rows.tie > 1) & (tied.sum(axis=1) == rows.tie)
    picked = np.where(shared[:, None], tied, np.arange(width) == rows.pick[:, None]).astype(np.float64)
    picked /= picked.sum(axis=1, keepdims=True)
    known = rows.order >= 0
    return np.where(known, np.take_along_axis(picked, np.where(known, rows.order, 0), axis=1), 0.0)


def position_share(block: Block) -> list[float] | None:
    """Return the share of picks at each displayed position, or None without picks."""
    there = block.where(_shown(block))
    return [float(share) for share in picked_by_position(there).mean(axis=0)] if len(there) else None


def _shown(block: Block) -> Bools:
    return np.asarray((block.pick >= 0) & ((block.order >= 0).sum(axis=1) > block.pick))


def favoured_position(block: Block, groups: Ints | None = None) -> FavouredPosition | None:
    """Return the position that has more than half of a voter's picks, or None. `picked` is the mean over
    items of the share of an item's orders in which the voter picked that position, so n counts items. `keys`
    is the share of keys. `groups` (r,) are resampled."""
    there = _shown(block)
    rows = block.where(there)
    if not len(rows):
        return None
    table = picked_by_position(rows)
    at = int(table.mean(axis=0).argmax())
    picked, shown = table[:, at].copy(), rows.order[:, at]
    # Tables of many rows are dropped before the bootstrap.
    del table
    if picked.mean() <= 0.5:
        return None
    share, keys = (_by_item(rows, of) for of in (picked, (shown == rows.key) & (shown >= 0)))
    del picked, shown
    first = slice(0) if groups is None else np.unique(rows.item, return_index=True)[1]
    together = None if groups is None else groups[there][first]
    ci = _gap_interval(share - keys, together)
    return FavouredPosition(
        position=at,
        picked=Quantity.of(rate(share, together)),
        keys=float(keys.mean()),
        excess=Quantity(value=float((share - keys).mean()), n=len(share), ci=ci),
    )


def _by_item(rows: Block, values: Floats | Bools) -> Floats:
    """Return the mean of the values (r,) over the rows of each item, in the order of items (n,)."""
    item = np.unique(rows.item, return_inverse=True)[1]
    return np.asarray(np.bincount(item, weights=values.astype(np.float64)) / np.bincount(item))


def position_bias(block: Block, groups: Ints | None = None) -> PositionBias | None:
    """Compare the positions of a model's picks with those of the keys. Only the first row of each item counts.
    None without picks. `p_holm` comes from an exact McNemar test of picks at a position with the key elsewhere
    against the reverse, with Holm's correction over positions. `groups` (r,) count as one unit each."""
    rows = block.first()
    answered = (rows.pick >= 0) & (rows.key >= 0)
    together = None if groups is None else groups[answered]
    rows = rows.where(answered)
    if not len(rows):
        return None
    picked, shown = picked_by_position(rows), rows.order >= 0
    key, single = (rows.order == rows.key[:, None]) & shown, picked.max(axis=1) == 1
    tests, found = [], []
    for at, theirs, there in zip(picked.T, key.T, shown.T, strict=True):
        apart = ((at == 1).astype(np.int64) - theirs)[single & there]
        tests.append(sign_flip(apart, None if together is None else together[single & there])[0])
        gap = at[there] - theirs[there]
        own = None if together is None else together[there]
        ci = _gap_interval(gap, own)
        excess = Quantity(value=float(gap.mean()) if len(gap) else None, n=len(gap), ci=ci)
        share = float(theirs[there].mean()) if len(gap) else None
        picks = Quantity.of(rate(at[there], own))
        found.append(OnePosition(picked=picks, key=share, excess=excess, p_holm=1.0))
    positions = (one.model_copy(update={"p_holm": p}) for one, p in zip(found, holm(tests), strict=True))
    return PositionBias(n=len(rows), positions=tuple(positions))


def _gap_interval(gap: Floats, groups: Ints | None) -> intervals.Interval | None:
    units = intervals.clusters(len(gap), groups)
    if units < intervals.FEWEST_CLUSTERS:
        return None
    if np.ptp(gap) > 0:
        return intervals.bootstrap(gap, groups=groups)
    # Resampling constant values gives no interval, so bound the share of unseen picks instead.
    value, unseen = float(gap[0]), intervals.clopper_pearson(0, units)[1]
    return max(-1.0, value - unseen), min(1.0, value + unseen)


def permutation(ctx: Context) -> Permutation:
    """Return the effect of the order of choices on each model that was asked the full question."""
    out: dict[str, Stability | None] = {}
    for name in ctx.names:
        block = as_compared(first_block(ctx.answers, ctx.full, name), ctx.full)
        if len(block):
            here = block.where(ctx.index.index_of[block.item] >= 0)
            out[name] = stability(here, ctx.row_groups(here), is_voter=name in ctx.votes.voters)
    cloze = [first_block(ctx.answers, "cloze", name) for name in ctx.names]
    return Permutation(by_model=out, cloze_invariance=cloze_invariance(cloze))


def stability(block: Block, groups: Ints | None = None, *, is_voter: bool | None = None) -> Stability | None:
    """Return how a model's accuracy and picks vary with the order of choices, or None if too few orders were answered.
    The main fields describe the random orders, including the original order, or the rotations if there are no others."""
    spread, turned = orders_asked(block)
    several = int(np.count_nonzero(np.bincount(block.item) >= 2))
    random, rotations = (moved(block, rows, several, groups) for rows in (spread, turned))
    top = random or rotations
    return None if top is None else Stability(**dict(top), is_voter=is_voter, rotations=rotations)


def moved(block: Block, rows: Ints, asked: int, groups: Ints | None = None) -> Orders | None:
    """Return how much answers vary over a set of orders, or None if no item was answered in every order.

    `rows` (items, orders) is padded with -1. `flip_rate` is the share of other orders whose pick differs from the
    first, and `consistency` the share of items with the same pick in all orders. A tied pick agrees with no pick.
    """
    rows = rows[((block.pick[rows] >= 0) | (rows < 0)).all(axis=1)]
    rows = rows[:, : int((rows >= 0).sum(axis=1).max(initial=0))]
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


def orders_asked(block: Block) -> tuple[Ints, Ints]:
    """Find the rows that show each item in random orders, and those that show its rotations. They are (items, orders) and
    (items, K), padded with -1.

    Both begin with the item's own order (rotation 0). If all rotations were asked as well, the random set has the first
    order and all orders that are not rotations, and is filled with rotations, because a random order may be one.
    """
    if not len(block):
        return (np.zeros((0, 0), dtype=np.int64),) * 2
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
    several = besides and len(met) > 0
    available = np.where((k > 2) & (besides and not several), 1, asked)
    # Not the maximum, because one item that was asked more often must not exclude all others.
    size = int(np.quantile(met, 0.95, method="lower")) if several else 0
    if not several:
        # The number of orders per item that leaves the fewest rows out of complete sets, and the larger in a tie.
        due_of = {size: _orders_due(size, k) for size in range(2, max(3, int(available.max()) + 1))}
        size = max(due_of, key=lambda size: (int(due_of[size][available >= due_of[size]].sum()), size))
    last = in_ring if besides else np.zeros(len(item), dtype=bool)
    by_item = np.lexsort((np.where(turn == 0, 0, 1 + last), item))
    due = _orders_due(size, k)
    full = (due >= 2) & (available >= due)
    there = np.arange(size) < due[full, None]
    starts = (np.cumsum(asked) - asked)[full, None]
    return np.where(there, by_item[np.where(there, starts + np.arange(size), 0)], -1), turned[whole]


def _orders_due(size: int, k: Ints) -> Ints:
    """Return how many orders of each item a set of `size` orders contains: at most k! (n,)."""
    most = np.array([min(size, math.factorial(options)) for options in range(int(k.max()) + 1)])
    return np.asarray(most[k], dtype=np.int64)


def cloze_invariance(blocks: Iterable[Block]) -> Literal["inert"] | Moved | None:
    """Return "inert" if cloze did not depend on the order of choices, otherwise how many items changed. An item changes if
    its pick differs between two orders, or a score by more than 1e-3 nats. None if no item was answered in two orders."""
    changed = n = 0
    for block in blocks:
        rows = block.where(block.pick >= 0)
        if not len(rows):
            continue
        start, item = np.unique(rows.item, return_index=True, return_inverse=True)[1:]
        first = start[item]
        other = (rows.order != rows.order[first]).any(axis=1)
        # A score that exists in one order only has changed too. -inf in both orders has not.
        alike = np.isclose(rows.scores, rows.scores[first], rtol=0, atol=SAME_SCORE, equal_nan=True)
        differs = (rows.pick != rows.pick[first]) | ~alike.all(axis=1)
        n += len(np.unique(item[other]))
        changed += len(np.unique(item[other & differs]))
    if not n:
        return None
    return Moved(n_changed=changed, n=n) if changed else "inert"
