"""Index of the judged items, with validation of their rows, and the positions of keys. Contradictory or duplicate
rows are refused, never repaired."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robustify.base.arrays import ROUNDING, Floats, Ints
from robustify.base.errors import DataError
from robustify.items.answers import Answers, Block
from robustify.judging.stats.intervals import clusters, design_effect
from robustify.judging.stats.tests import LEVEL
from robustify.judging.summary.screen_parts import KeysAmong, KeySpread, OffPosition

FEWEST_PER_POSITION = 5
"""Expected keys per position below which keys are simulated, because the chi-square limit is unreliable."""
DRAWS = 9999


@dataclass(frozen=True)
class ItemIndex:
    """Judged items in order, with the key and the number of choices of each. `key` and `k` (n,) are -1 and 0 for
    items without rows. `index_of` is the index of each of `Answers.items`, or -1 for items that are not judged."""

    items: tuple[str, ...]
    key: Ints
    k: Ints
    index_of: Ints

    def __len__(self) -> int:
        return len(self.items)

    @property
    def width(self) -> int:
        """Maximum number of choices, or 1 if there are no rows, so that arrays have at least one column."""
        return int(self.k.max(initial=1))

    def spread(self, block: Block, values: Floats) -> Floats:
        """Arrange the values of rows by item (n,). Items without a row are NaN. A block has at most one row per item."""
        if not len(block):
            return np.broadcast_to(np.nan, len(self))
        spread = np.full(len(self), np.nan)
        place = self.index_of[block.item]
        spread[place[place >= 0]] = values[place >= 0]
        return spread


def item_index(answers: Answers, items_order: Sequence[str]) -> ItemIndex:
    """Return the judged items in the given order, each with the key and number of choices from its rows. Raise
    `DataError` if two rows of an item disagree on the key or number of choices, or a row is repeated."""
    items = tuple(items_order)
    if items == answers.items:
        index = np.arange(len(items), dtype=np.int32)
    else:
        table_items = pa.array(answers.items, pa.string())
        positions = pc.index_in(table_items, value_set=pa.array(items, pa.string()))
        index = np.asarray(pc.fill_null(positions, -1), dtype=np.int32)
    place = index[answers.item_of]
    keys, ks = np.asarray(answers.column("key")), np.asarray(answers.column("k"))
    if not (is_judged := place >= 0).all():
        place, keys, ks = place[is_judged], keys[is_judged], ks[is_judged]
    key, k = np.full(len(items), -1, dtype=np.int16), np.zeros(len(items), dtype=np.int16)
    key[place], k[place] = keys, ks
    conflicting = np.flatnonzero((key[place] != keys) | (k[place] != ks) | (keys < 0) | (keys >= ks))
    if len(conflicting):
        item, n = items[place[conflicting[0]]], len(np.unique(place[conflicting]))
        rows = place == place[conflicting[0]]
        differing = [
            what for what, column in (("keys", keys), ("numbers of choices", ks)) if np.ptp(column[rows])
        ]
        fault = f"different {' and '.join(differing)}" if differing else "a key out of range"
        raise DataError(
            f"answer table: the rows of item {item} have {fault} ({n} items with such faults in all). Ask or import the "
            "items again.",
            code="contradictory-rows",
        )
    _refuse_repeated_rows(answers)
    return ItemIndex(items, key, k, index)


def _refuse_repeated_rows(answers: Answers) -> None:
    surplus, first = 0, ""
    for view, model, template in answers.askings():
        block = answers.block(view, model, template)
        if (block.item[1:] > block.item[:-1]).all():
            continue
        weights = np.random.default_rng(0).integers(0, 1 << 64, block.order.shape[1] + 1, dtype=np.uint64) | 1
        hashes = block.item.astype(np.uint64) * weights[0]
        for position, weight in zip(block.order.T, weights[1:], strict=True):
            hashes += position.astype(np.uint64) * weight
        distinct, counts = np.unique(hashes, return_counts=True)
        if len(distinct) == len(hashes):
            continue
        # Equal hashes do not prove equal rows.
        repeated = np.isin(hashes, distinct[counts > 1])
        rows, times = np.unique(
            np.column_stack([block.item, block.order])[repeated], axis=0, return_counts=True
        )
        surplus += int((times - 1).sum())
        if surplus and not first:
            item, n = answers.items[rows[times > 1][0, 0]], times[times > 1][0]
            first = f"item {item} has {n} rows for {model} under {view} ({template})"
    if surplus:
        raise DataError(
            f"answer table: {first} in the same order. {surplus} rows are repeated in all. Import each log only once.",
            code="repeated-rows",
        )


def key_spread(key: Ints, k: Ints, groups: Ints | None = None) -> KeySpread:
    """Return the shares of keys by position, and test whether the shares are even. The chi-square test is summed over
    numbers of options, and keys are drawn if counts are too small. Items without rows or a known key are left out.
    With `groups` (n,), the statistic is divided by the mean design effect (Rao and Scott 1981)."""
    from scipy.special import chdtrc

    is_known = (k > 0) & (key >= 0)
    key, k = key[is_known], k[is_known]
    if not len(key):
        return KeySpread(n=0)
    counts = {options: _counts(key, k, options) for options in np.unique(k).tolist()}
    effect = _mean_effect(key, k, None if groups is None else groups[is_known])
    chi = sum(_chi_square(c[None, :])[0] for c in counts.values()) / effect
    df = sum(len(c) - 1 for c in counts.values())
    exact = not df or any(c.sum() / len(c) < FEWEST_PER_POSITION for c in counts.values())
    p = float(chdtrc(df, chi)) if df else 1.0
    if df and exact:
        rng, draws = np.random.default_rng(0), np.zeros(DRAWS)
        for c in counts.values():
            draws += _chi_square(rng.multinomial(int(c.sum()), np.full(len(c), 1 / len(c)), size=DRAWS))
        # The observed keys are one of the draws, so p is never 0 (Davison and Hinkley 1997, 4.2).
        p = float((1 + np.count_nonzero(draws >= chi - ROUNDING)) / (1 + DRAWS))
    observed, expected = np.zeros(max(counts)), np.zeros(max(counts))
    for c in counts.values():
        observed[: len(c)] += c
        expected[: len(c)] += c.sum() / len(c)
    farthest = int(np.abs((observed - expected) / np.sqrt(np.maximum(expected, 1e-300))).argmax())
    share, expected_share = float(observed[farthest] / len(key)), float(expected[farthest] / len(key))
    return KeySpread(
        n=len(key),
        shares=tuple((observed / len(key)).tolist()),
        by_options={
            str(o): KeysAmong(n=int(c.sum()), shares=tuple((c / c.sum()).tolist())) for o, c in counts.items()
        },
        p=p,
        test="drawn" if exact else "chi-square",
        off=OffPosition(position=farthest, share=share, even=expected_share) if p < LEVEL else None,
    )


def _mean_effect(key: Ints, k: Ints, groups: Ints | None) -> float:
    """Return the mean design effect of the shares of keys at each position, weighted by 1 - share."""
    if groups is None:
        return 1.0
    effects, weights = [], []
    for options in np.unique(k).tolist():
        same_k = k == options
        for position in range(options):
            is_at = (key[same_k] == position).astype(np.float64)
            ratio = np.count_nonzero(same_k) / clusters(len(is_at), groups[same_k])
            effects.append(design_effect(is_at, groups[same_k]) or ratio)
            weights.append(len(is_at) * (1 - is_at.mean()))
    return float(np.average(effects, weights=weights)) if sum(weights) else 1.0


def key_shares(key: Ints, k: Ints, width: int) -> Floats:
    """Return the share of keys at each position, for each number of options (options, width). Expected flags
    are then exactly those of keys permuted among items with as many options."""
    out = np.zeros((width + 1, width))
    for options in np.unique(k).tolist():
        counts = _counts(key, k, options)
        out[options, :options] = counts / counts.sum()
    return out


def _counts(key: Ints, k: Ints, options: int) -> Ints:
    return np.bincount(key[k == options], minlength=options).astype(np.int64)


def _chi_square(counts: Ints) -> Floats:
    even = counts.sum(axis=1, keepdims=True) / counts.shape[1]
    return np.asarray(((counts - even) ** 2 / even).sum(axis=1), dtype=np.float64)
