"""Index of the judged items, validation of their rows, and the positions of their keys.

Rows are compared as arrays, a million items at a time. Contradictory or duplicate rows are refused, never repaired. A voter
that always picks the first option is right whenever the key is first, which says nothing about shortcuts. The module
therefore also measures how evenly keys are spread over positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from robustify.answers import Answers, Block
from robustify.arrays import ROUNDING, Floats, Ints
from robustify.errors import DataError
from robustify.stats.tests import LEVEL

Words = npt.NDArray[np.uint64]

_CHUNK = 1 << 19
FEWEST_PER_POSITION = 5
"""Expected keys per position below which keys are simulated, because the chi-square limit is unreliable."""
DRAWS = 9999


@dataclass(frozen=True)
class ItemIndex:
    """Judged items in order.

    `items` are n IDs. `key` and `k` (n,) are -1 and 0 for items without rows. `index_of` is the index of each of
    `Answers.items`, or -1 for items that are not judged.
    """

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
        """Return row values in item order (n,), NaN for items without a row. A block has at most one row per item."""
        out = np.full(len(self), np.nan)
        where = self.index_of[block.item]
        out[where[where >= 0]] = values[where >= 0]
        return out


def item_index(answers: Answers, items_order: Sequence[str]) -> ItemIndex:
    """Return the index of the items in this order, with the key and number of choices from their rows.

    Raises:
        DataError: two rows of an item disagree on its key or number of choices, or a row is repeated.
    """
    items = tuple(items_order)
    if items == answers.items:
        index = np.arange(len(items))
    else:
        there = pa.array(answers.items, pa.string())
        found = pc.index_in(there, value_set=pa.array(items, pa.string()))
        index = np.asarray(pc.fill_null(found, -1), dtype=np.int64)
    item = answers.item_of
    at = index[item]
    known = at >= 0
    keys = np.asarray(answers.table["key"], dtype=np.int64)[known]
    ks = np.asarray(pc.list_value_length(answers.table["order"]), dtype=np.int64)[known]
    at = at[known]
    key, k = np.full(len(items), -1), np.zeros(len(items), dtype=np.int64)
    key[at], k[at] = keys, ks
    wrong = np.flatnonzero((key[at] != keys) | (k[at] != ks) | (keys < 0) | (keys >= ks))
    if len(wrong):
        n = len(np.unique(at[wrong]))
        raise DataError(
            f"answer table: the rows of item {items[at[wrong[0]]]} disagree on its key or number of choices, or the key "
            f"is out of range ({n} such items). Ask or import the items again."
        )
    refuse_repeats(answers, item)
    return ItemIndex(items, key, k, index)


def refuse_repeats(answers: Answers, item: Ints) -> None:
    """Check that no two rows have the same item, view, model, template and order.

    `item` (rows,) indexes `answers.items`.

    Raises:
        DataError: a row is repeated. The error names the first such row and the number of all.
    """
    marks = _marks(answers.table, item)
    ranked = np.sort(marks)
    if not (ranked[1:] == ranked[:-1]).any():
        return
    by_mark = np.argsort(marks, kind="stable")
    same = np.flatnonzero(marks[by_mark[1:]] == marks[by_mark[:-1]])
    # Equal hashes do not prove equal rows, so find the first pair that is really equal.
    for pair in same[np.argsort(by_mark[same + 1], kind="stable")]:
        first, again = int(by_mark[pair]), int(by_mark[pair + 1])
        row = _asking(answers.table, again)
        if row == _asking(answers.table, first):
            times = int(np.count_nonzero(marks == marks[again]))
            raise DataError(
                f"answer table: item {row['item']} has {times} rows for {row['model']} under {row['view']} "
                f"({row['template']}) in the same order ({len(same)} surplus rows in all). "
                "Import each log only once."
            )


def _marks(table: pa.Table, item: Ints) -> Words:
    """Return a 64-bit hash of each row, which is equal for rows with the same item, view, model, template and order."""
    rng = np.random.default_rng(0)
    lengths = pc.list_value_length(table["order"])
    width = int(pc.max(lengths).as_py() or 0)
    weights: Words = _odd(rng, width + 4)
    marks: Words = item.astype(np.uint64) * weights[0]
    for column, weight in zip(("view", "model", "template"), weights[1:4], strict=True):
        marks += _codes(table[column]) * weight
    for start in range(0, len(marks), _CHUNK):
        marks[start : start + _CHUNK] += _order_marks(table["order"].slice(start, _CHUNK), weights[4:])
    return marks


def _order_marks(orders: pa.ChunkedArray, weights: Words) -> Words:
    lengths = np.asarray(pc.list_value_length(orders), dtype=np.int64)
    flat = np.asarray(pc.list_flatten(orders), dtype=np.int64).astype(np.uint64) + np.uint64(1)
    ends = np.cumsum(lengths)
    position = np.arange(len(flat)) - np.repeat(ends - lengths, lengths)
    # Sums wrap around at 2^64, so the difference of two running sums is exact.
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(flat * weights[position])])
    return np.asarray(running[ends] - running[ends - lengths], dtype=np.uint64)


def _odd(rng: np.random.Generator, n: int) -> Words:
    drawn: Words = rng.integers(0, 1 << 64, size=n, dtype=np.uint64)
    return np.asarray(drawn | np.uint64(1), dtype=np.uint64)


def _codes(column: pa.ChunkedArray) -> Words:
    return np.asarray(pc.index_in(column, value_set=pc.unique(column)), dtype=np.int64).astype(np.uint64)


def _asking(table: pa.Table, row: int) -> dict[str, object]:
    return dict(table.select(["item", "view", "model", "template", "order"]).slice(row, 1).to_pylist()[0])


@dataclass(frozen=True, slots=True)
class KeyPositions:
    """Distribution of the keys of `n` items over positions.

    `shares` are by position, up to the largest number of options. `p` tests for keys spread evenly within each item, by a
    chi-square statistic with `df` degrees of freedom summed over numbers of options. `exact` is true if keys were simulated
    because counts were too small for the limit. `off` is the position (from 0) that deviates most, with its share of keys
    and its even share, or None if the deviation is not significant.
    """

    n: int
    shares: tuple[float, ...]
    chi_square: float
    df: int
    p: float
    exact: bool
    off: tuple[int, float, float] | None


def where_keys_are(key: Ints, k: Ints) -> KeyPositions | None:
    """Return the distribution of keys over positions, or None without items. `key` and `k` are (n,)."""
    from scipy.special import chdtrc

    if not len(key):
        return None
    counts = {options: _counts(key, k, options) for options in np.unique(k).tolist()}
    chi = sum(_chi_square(c[None, :])[0] for c in counts.values())
    df = sum(len(c) - 1 for c in counts.values())
    exact = any(c.sum() / len(c) < FEWEST_PER_POSITION for c in counts.values())
    if df == 0:
        p, exact = 1.0, True
    else:
        p = _drawn(list(counts.values()), float(chi)) if exact else float(chdtrc(df, chi))
    width = max(counts)
    total, even = np.zeros(width), np.zeros(width)
    for c in counts.values():
        total[: len(c)] += c
        even[: len(c)] += c.sum() / len(c)
    off = _off(total, even, len(key)) if p < LEVEL else None
    return KeyPositions(len(key), tuple((total / len(key)).tolist()), float(chi), df, p, exact, off)


def shares_by_options(key: Ints, k: Ints) -> dict[int, tuple[int, tuple[float, ...]]]:
    """Return the number of items and the share of keys at each position, by number of options."""
    counts = {options: _counts(key, k, options) for options in np.unique(k).tolist()}
    return {options: (int(c.sum()), tuple((c / c.sum()).tolist())) for options, c in counts.items()}


def key_shares(key: Ints, k: Ints, width: int) -> Floats:
    """Return, for each item, the share of keys at each position among items with as many options (n, width).

    The item itself counts, so expected flags are exactly those of keys permuted among items with as many options.
    Otherwise, less would be expected of a right item than of a wrong one, and an item with a unique number of options would
    have no share.
    """
    out = np.zeros((len(key), width))
    for options in np.unique(k).tolist():
        counts = _counts(key, k, options)
        out[k == options, :options] = counts / counts.sum()
    return out


def _counts(key: Ints, k: Ints, options: int) -> Ints:
    return np.bincount(key[k == options], minlength=options).astype(np.int64)


def _chi_square(counts: Ints) -> Floats:
    even = counts.sum(axis=1, keepdims=True) / counts.shape[1]
    return np.asarray(((counts - even) ** 2 / even).sum(axis=1), dtype=np.float64)


def _drawn(counts: list[Ints], chi: float) -> float:
    rng = np.random.default_rng(0)
    draws = np.zeros(DRAWS)
    for c in counts:
        draws += _chi_square(rng.multinomial(int(c.sum()), np.full(len(c), 1 / len(c)), size=DRAWS))
    # The observed keys are one of the draws, so p is never 0 (Davison and Hinkley 1997, 4.2).
    return float((1 + np.count_nonzero(draws >= chi - ROUNDING)) / (1 + DRAWS))


def _off(found: Floats, even: Floats, n: int) -> tuple[int, float, float]:
    position = int(np.abs((found - even) / np.sqrt(np.maximum(even, 1e-300))).argmax())
    return position, float(found[position] / n), float(even[position] / n)
