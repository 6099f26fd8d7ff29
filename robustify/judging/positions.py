"""Effect of the order of choices: position bias, and how accuracy and picks vary with the order.

Position bias is how much more often a model picks a position than the key occupies it. Statistics of orders use only
the items answered in every order of a set.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.answers import Block
from robustify.items.scoring import as_compared, best
from robustify.judging.response_data import ResponseData
from robustify.judging.screen.votes import first_block
from robustify.judging.stats.intervals import effective_size, rate, wilson
from robustify.judging.stats.tests import holm, paired_difference, sign_flip
from robustify.judging.summary.model_parts import (
    Moved,
    OnePosition,
    Orders,
    Permutation,
    PositionBias,
    Stability,
)
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.screen_parts import FavouredPosition

_EVERY = 1 << 30
SAME_SCORE = 1e-3
"""Tolerance in nats for a continuation's score in two orders, because other batches round differently."""


def picked_by_position(rows: Block) -> Floats:
    """Return the displayed position that each row picks (r, width). Tied picks share it equally."""
    return np.concatenate([np.empty((0, rows.width)), *map(_picked_by_position, rows.parts())])


def _picked_by_position(rows: Block) -> Floats:
    width = rows.order.shape[1]
    tied = best(rows.scores, rows.k)
    tied = np.pad(tied, ((0, 0), (0, max(0, width - tied.shape[1]))))[:, :width]
    # Ties share only if the row's scores show which choices are tied. Otherwise the pick counts alone.
    shared = (rows.tie > 1) & (tied.sum(axis=1) == rows.tie)
    picked = np.where(shared[:, None], tied, np.arange(width) == rows.pick[:, None]).astype(np.float64)
    picked /= picked.sum(axis=1, keepdims=True)
    shown = rows.order >= 0
    return np.where(shown, np.take_along_axis(picked, np.where(shown, rows.order, 0), axis=1), 0.0)


def position_share(block: Block) -> list[float] | None:
    """Return the share of picks at each displayed position, or None if there are no picks."""
    rows = block.where(_has_position(block))
    return [float(share) for share in picked_by_position(rows).mean(axis=0)] if len(rows) else None


def _has_position(block: Block) -> Bools:
    return np.asarray((block.pick >= 0) & (block.k > block.pick))


def favoured_position(block: Block, groups: Ints | None = None) -> FavouredPosition | None:
    """Return the position that has more than half of a voter's picks, or None if no position has. `picked` is the
    mean over items of the share of an item's orders in which the voter picked that position, so n counts items.
    `keys` is the share of keys. `groups` (r,) are resampled."""
    is_shown = _has_position(block)
    rows = block.where(is_shown)
    if not len(rows):
        return None
    picks_at = picked_by_position(rows)
    position = int(picks_at.mean(axis=0).argmax())
    picked = picks_at[:, position].copy()
    del picks_at
    if picked.mean() <= 0.5:
        return None
    key_shown = rows.order[:, position]
    picks, keys = (_by_item(rows, values) for values in (picked, (key_shown == rows.key) & (key_shown >= 0)))
    del picked, key_shown
    first = slice(0) if groups is None else np.unique(rows.item, return_index=True)[1]
    units = None if groups is None else groups[is_shown][first]
    excess = paired_difference(picks, keys, units)
    return FavouredPosition(
        position=position,
        picked=Quantity.from_rate(rate(picks, units)),
        keys=float(keys.mean()),
        excess=Quantity.from_rate(excess),
    )


def _by_item(rows: Block, values: Floats | Bools) -> Floats:
    """Return the mean of the values (r,) over the rows of each item, in the order of items (n,)."""
    item = np.unique(rows.item, return_inverse=True)[1]
    return np.asarray(np.bincount(item, weights=values.astype(np.float64)) / np.bincount(item))


def position_bias(block: Block, groups: Ints | None = None) -> PositionBias | None:
    """Compare the positions of a model's picks with those of the keys. Only the first row of each item counts. None
    without picks. `p_holm` comes from an exact McNemar test of picks at a position with the key elsewhere against the
    reverse, with Holm's correction over positions. `groups` (r,) count as one unit each."""
    rows = block.first()
    answered = (rows.pick >= 0) & (rows.key >= 0)
    units = None if groups is None else groups[answered]
    rows = rows.where(answered)
    if not len(rows):
        return None
    picked, shown = picked_by_position(rows), rows.order >= 0
    key, single = (rows.order == rows.key[:, None]) & shown, picked.max(axis=1) == 1
    tests, positions = [], []
    for picks_here, keys_here, shown_here in zip(picked.T, key.T, shown.T, strict=True):
        discordance = ((picks_here == 1).astype(np.int64) - keys_here)[single & shown_here]
        tests.append(sign_flip(discordance, None if units is None else units[single & shown_here])[0])
        here, keys = picks_here[shown_here], keys_here[shown_here].astype(np.float64)
        own_units = None if units is None else units[shown_here]
        excess = Quantity.from_rate(paired_difference(here, keys, own_units))
        picks = Quantity.from_rate(rate(here, own_units))
        share = float(keys.mean()) if len(keys) else None
        positions.append(OnePosition(picked=picks, key=share, excess=excess, p_holm=1.0))
    adjusted = zip(positions, holm(tests), strict=True)
    return PositionBias(
        n=len(rows), positions=tuple(p.model_copy(update={"p_holm": p_holm}) for p, p_holm in adjusted)
    )


def permutation(responses: ResponseData, voters: Sequence[str]) -> Permutation:
    """Return the effect of the order of choices on each model that was asked the full question."""
    out: dict[str, Stability | None] = {}
    for name in responses.models:
        block = as_compared(first_block(responses.answers, responses.full, name), responses.full)
        if len(block):
            rows = block.where(responses.index.index_of[block.item] >= 0)
            out[name] = stability(rows, responses.row_groups(rows), is_voter=name in voters)
    cloze = [first_block(responses.answers, "cloze", name) for name in responses.models]
    return Permutation(by_model=out, cloze_invariance=cloze_invariance(cloze))


def stability(block: Block, groups: Ints | None = None, *, is_voter: bool | None = None) -> Stability | None:
    """Return how a model's accuracy and picks vary with the order of choices, or None if too few orders were answered.
    The main fields describe the random orders, including the original order, or the rotations if there are no others."""
    random_rows, rotated_rows = orders_asked(block)
    n_asked = int(np.count_nonzero(np.bincount(block.item) >= 2))
    random, rotations = (moved(block, rows, n_asked, groups) for rows in (random_rows, rotated_rows))
    main = random or rotations
    return None if main is None else Stability(**dict(main), is_voter=is_voter, rotations=rotations)


def moved(block: Block, rows: Ints, n_asked: int, groups: Ints | None = None) -> Orders | None:
    """Return how much answers vary over a set of orders, or None if no item was answered in every order.

    `rows` (items, orders) is padded with -1. `flip_rate` is the share of other orders whose pick differs from the
    first, and `consistency` the share of items with the same pick in all orders. A tied pick agrees with no pick.
    """
    rows = rows[((block.pick[rows] >= 0) | (rows < 0)).all(axis=1)]
    rows = rows[:, : int((rows >= 0).sum(axis=1).max(initial=0))]
    if not len(rows):
        return None
    n, orders = rows.shape
    exists = rows >= 0
    credit = np.where(exists, block.correct[rows], 0.0)
    accuracy = credit.sum(axis=0) / exists.sum(axis=0)
    units = None if groups is None else groups[rows[:, 0]]
    size = effective_size(credit.sum(axis=1) / exists.sum(axis=1), units)
    pick, is_sole = block.pick[rows], block.tie[rows] == 1
    same = (pick == pick[:, :1]) & is_sole & is_sole[:, :1] & exists
    mean = float(accuracy.mean())
    return Orders(
        mean=mean,
        mean_ci=None if size is None else wilson(mean * size, size),
        sd=float(accuracy.std(ddof=1)),
        min=float(accuracy.min()),
        max=float(accuracy.max()),
        flip_rate=Quantity.from_rate(rate(1 - same[:, 1:].sum(axis=1) / exists[:, 1:].sum(axis=1), units)),
        consistency=Quantity.from_rate(rate((same | ~exists).all(axis=1).astype(np.float64), units)),
        orders=orders,
        n=n,
        asked=n_asked,
    )


def orders_asked(block: Block) -> tuple[Ints, Ints]:
    """Find the rows that show each item in random orders, and those that show its rotations. They are (items, orders) and
    (items, K), padded with -1.

    Both begin with the item's own order (rotation 0). If all rotations were asked as well, the random set has the first
    order and all orders that are not rotations, and is filled with rotations, because a random order may be one.
    """
    if not len(block):
        return (np.zeros((0, 0), dtype=np.int64),) * 2
    _, item, n_orders = np.unique(block.item, return_inverse=True, return_counts=True)
    k = np.zeros(len(n_orders), dtype=np.int64)
    k[item] = block.k
    rotation, in_ring = block.rotation, block.rotation >= 0
    turned = np.full((len(n_orders), int(k.max())), -1)
    # Assign in reverse, so that the earliest of equal rows remains.
    rows = np.flatnonzero(in_ring)[::-1]
    turned[item[rows], rotation[rows]] = rows
    complete = ((turned >= 0) | (np.arange(turned.shape[1]) >= k[:, None])).all(axis=1) & (k >= 2)
    n_random = 1 + np.bincount(item, weights=~in_ring, minlength=len(n_orders)).astype(np.int64)
    n_random = np.where(n_orders == _orders_due(_EVERY, k), n_orders, n_random)
    many = (k >= 4) & (n_orders >= 2)
    # With 4 or more choices, five random orders contain all rotations of an item less than once in 400.
    has_rotations = bool(many.any() and complete[many].mean() >= 0.5)
    sizes = n_random[many & complete & (n_random > 1)]
    two_sets = has_rotations and len(sizes) > 0
    available = np.where((k > 2) & (has_rotations and not two_sets), 1, n_orders)
    # Not the maximum, because one item that was asked more often must not exclude all others.
    size = int(np.quantile(sizes, 0.95, method="lower")) if two_sets else 0
    if not two_sets:
        # The number of orders per item that leaves the fewest rows out of complete sets, and the larger in a tie.
        due_of = {size: _orders_due(size, k) for size in range(2, max(3, int(available.max()) + 1))}
        size = max(due_of, key=lambda size: (int(due_of[size][available >= due_of[size]].sum()), size))
    is_last = in_ring if has_rotations else np.zeros(len(item), dtype=bool)
    by_item = np.lexsort((np.where(rotation == 0, 0, 1 + is_last), item))
    due = _orders_due(size, k)
    full = (due >= 2) & (available >= due)
    exists = np.arange(size) < due[full, None]
    starts = (np.cumsum(n_orders) - n_orders)[full, None]
    return np.where(exists, by_item[np.where(exists, starts + np.arange(size), 0)], -1), turned[complete]


def _orders_due(size: int, k: Ints) -> Ints:
    """Return the number of orders of each item in a set of `size` orders, which is at most k! (n,)."""
    most = np.array([min(size, math.factorial(options)) for options in range(int(k.max()) + 1)])
    return np.asarray(most[k], dtype=np.int64)


def cloze_invariance(blocks: Iterable[Block]) -> Literal["inert"] | Moved | None:
    """Return "inert" if cloze scores did not depend on the order of choices, and otherwise the number of changed items. In
    them, the pick differs between two orders, or a score by over 1e-3 nats. None if no item was answered in two orders."""
    changed = n = 0
    for block in blocks:
        rows = block.where(block.pick >= 0)
        if not len(rows):
            continue
        start, item = np.unique(rows.item, return_index=True, return_inverse=True)[1:]
        first = start[item]
        reordered = (rows.order != rows.order[first]).any(axis=1)
        # A score that exists in one order only has changed too. -inf in both orders has not.
        alike = np.isclose(rows.scores, rows.scores[first], rtol=0, atol=SAME_SCORE, equal_nan=True)
        differs = (rows.pick != rows.pick[first]) | ~alike.all(axis=1)
        n += len(np.unique(item[reordered]))
        changed += len(np.unique(item[reordered & differs]))
    if not n:
        return None
    return Moved(n_changed=changed, n=n) if changed else "inert"
