"""Position bias: how much more often a model picks a position than the key occupies it.

The share of picks alone is not a bias, because a model that is always right picks the positions of the keys.
"""

import numpy as np

from robustify.answers import Block
from robustify.arrays import Bools, Floats, Ints
from robustify.judging.context import Context
from robustify.scoring import best
from robustify.stats.intervals import FEWEST_CLUSTERS, Interval, bootstrap, clopper_pearson, clusters, rate
from robustify.stats.tests import holm, sign_flip
from robustify.summary.quantity import Quantity
from robustify.summary.scored import OnePosition, PositionBias
from robustify.summary.screened import FavouredPosition


def position_biases(ctx: Context) -> dict[str, PositionBias | None]:
    """Return each model's position bias on the full question, or None if the model was not asked."""
    blocks = {name: ctx.first_rows(ctx.full, name) for name in ctx.names}
    return {
        name: position_bias(block, ctx.row_groups(block)) if len(block) else None
        for name, block in blocks.items()
    }


def picked_by_position(rows: Block) -> Floats:
    """Return each row's pick as shares of the displayed positions (r, width). Tied picks share equally."""
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
    """Return the share of picks at each displayed position, or None without picks. Tied picks share equally."""
    there = block.where((block.pick >= 0) & ((block.order >= 0).sum(axis=1) > block.pick))
    return [float(share) for share in picked_by_position(there).mean(axis=0)] if len(there) else None


def favoured_position(block: Block, groups: Ints | None = None) -> FavouredPosition | None:
    """Return the position of more than half of a voter's picks, or None if there is none.

    `picked` is the mean over items of the share of an item's orders in which the voter picked that position. Answers to one
    item are dependent, so n counts items (Wilson). `keys` is the corresponding share of keys, and `excess` is the
    difference. `groups`, by row of the block, are resampled together.
    """
    there = (block.pick >= 0) & ((block.order >= 0).sum(axis=1) > block.pick)
    rows = block.where(there)
    if not len(rows):
        return None
    _, first, item = np.unique(rows.item, return_index=True, return_inverse=True)
    asked = np.bincount(item)
    picked, key = picked_by_position(rows), (rows.order == rows.key[:, None]) & (rows.order >= 0)
    at = int(picked.mean(axis=0).argmax())
    if picked[:, at].mean() <= 0.5:
        return None
    share, keys = (
        np.bincount(item, weights=column[:, at].astype(np.float64)) / asked for column in (picked, key)
    )
    ci = _gap_interval(share - keys, None if groups is None else groups[there][first])
    return FavouredPosition(
        position=at,
        picked=Quantity.of(rate(share)),
        keys=float(keys.mean()),
        excess=Quantity(value=float((share - keys).mean()), n=len(first), ci=ci),
    )


def position_bias(block: Block, groups: Ints | None = None) -> PositionBias | None:
    """Compare the positions of a model's picks with those of the keys, using the first row of each item.

    None without picks. `p_holm` comes from an exact McNemar test of picks at a position with the key elsewhere against the
    reverse, with Holm's correction over positions. `groups` are resampled together, and the test flips the signs of their
    sums.
    """
    rows = block.first()
    answered = (rows.pick >= 0) & (rows.key >= 0)
    together = None if groups is None else groups[answered]
    rows = rows.where(answered)
    if not len(rows):
        return None
    picked, there = picked_by_position(rows), rows.order >= 0
    key = (rows.order == rows.key[:, None]) & there
    whole = picked.max(axis=1) == 1
    tests = [_mcnemar(picked[:, j], key[:, j], whole & there[:, j], together) for j in range(picked.shape[1])]
    positions = tuple(
        _at_position(picked[:, j], key[:, j], there[:, j], p_holm, together)
        for j, p_holm in enumerate(holm(tests))
    )
    return PositionBias(n=len(rows), positions=positions)


def _mcnemar(picked: Floats, key: Bools, among: Bools, groups: Ints | None) -> float:
    apart = (picked[among] == 1).astype(np.int64) - key[among]
    return sign_flip(apart, None if groups is None else groups[among])


def _at_position(picked: Floats, key: Bools, there: Bools, p_holm: float, groups: Ints | None) -> OnePosition:
    gap = picked[there] - key[there]
    ci = _gap_interval(gap, None if groups is None else groups[there])
    return OnePosition(
        picked=Quantity.of(rate(picked[there])),
        key=float(key[there].mean()) if len(gap) else None,
        excess=Quantity(value=float(gap.mean()) if len(gap) else None, n=len(gap), ci=ci),
        p_holm=p_holm,
    )


def _gap_interval(gap: Floats, groups: Ints | None) -> Interval | None:
    units = clusters(len(gap), groups)
    if units < FEWEST_CLUSTERS:
        return None
    if np.ptp(gap) > 0:
        return bootstrap(gap, groups=groups)
    # Resampling constant values gives no interval, so bound the share of unseen picks instead.
    value, unseen = float(gap[0]), clopper_pearson(0, units)[1]
    return max(-1.0, value - unseen), min(1.0, value + unseen)
