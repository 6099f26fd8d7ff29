"""Which items are judged, and whether the rows about them can be believed: one key an item, each asking once.

Rows are compared as arrays, a million items at a time. Nothing is repaired: rows that contradict one another, or
that stand twice, refuse the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from robustify.answers import Answers, Block
from robustify.arrays import Floats, Ints
from robustify.errors import DataError

Words = npt.NDArray[np.uint64]

_CHUNK = 1 << 19


@dataclass(frozen=True)
class ItemIndex:
    """The items that are judged, in their order.

    `items` (n ids), `key` and `k` (n,), -1 and 0 where no row says. `place` gives for each of `Answers.items`
    its index here, -1 for items that are not judged.
    """

    items: tuple[str, ...]
    key: Ints
    k: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.items)

    @property
    def width(self) -> int:
        """The largest number of choices (1 where no row says any, so that arrays have a column)."""
        return int(self.k.max(initial=1))

    def spread(self, block: Block, values: Floats) -> Floats:
        """Values of a block's rows (one row an item) in the items' order, (n,); NaN where there is no row."""
        out = np.full(len(self), np.nan)
        where = self.place[block.item]
        out[where[where >= 0]] = values[where >= 0]
        return out


def item_index(answers: Answers, items_order: Sequence[str]) -> ItemIndex:
    """The items in this order, with the key and number of choices that their rows name.

    Raises:
        DataError: two rows of one item disagree on its key or on its number of choices, or an asking stands
            twice.
    """
    items = tuple(items_order)
    place = np.asarray(
        pc.fill_null(
            pc.index_in(pa.array(answers.items, pa.string()), value_set=pa.array(items, pa.string())), -1
        ),
        dtype=np.int64,
    )
    item = np.asarray(
        pc.index_in(answers.table["item"], value_set=pa.array(answers.items, pa.string())), dtype=np.int64
    )
    at = place[item]
    keys = np.asarray(answers.table["key"], dtype=np.int64)[at >= 0]
    ks = np.asarray(pc.list_value_length(answers.table["order"]), dtype=np.int64)[at >= 0]
    at = at[at >= 0]
    key, k = np.full(len(items), -1), np.zeros(len(items), dtype=np.int64)
    key[at], k[at] = keys, ks
    wrong = np.flatnonzero((key[at] != keys) | (k[at] != ks) | (keys < 0) | (keys >= ks))
    if len(wrong):
        n = len(np.unique(at[wrong]))
        raise DataError(
            f"answer table: the rows of item {items[at[wrong[0]]]} name different keys or numbers of choices "
            f"(or a key out of range; {n} such items); expected one key an item, so ask or import it again"
        )
    refuse_repeats(answers, item)
    return ItemIndex(items, key, k, place)


def refuse_repeats(answers: Answers, item: Ints) -> None:
    """No row stands twice: same item, view, model, template and order. `item` (rows,) indexes `answers.items`.

    Raises:
        DataError: one does; the first is named, and how many there are.
    """
    marks = _marks(answers.table, item)
    ranked = np.sort(marks)
    if not (ranked[1:] == ranked[:-1]).any():
        return
    by_mark = np.argsort(marks, kind="stable")
    same = np.flatnonzero(marks[by_mark[1:]] == marks[by_mark[:-1]])
    # Equal marks are no proof of equal rows: the first pair that is one in truth is named.
    for pair in same[np.argsort(by_mark[same + 1], kind="stable")]:
        first, again = int(by_mark[pair]), int(by_mark[pair + 1])
        row = _asking(answers.table, again)
        if row == _asking(answers.table, first):
            times = int(np.count_nonzero(marks == marks[again]))
            raise DataError(
                f"answer table: item {row['item']} stands {times} times for {row['model']} under {row['view']} "
                f"({row['template']}) in one order, {len(same)} rows too many in all; expected each asking "
                "once, so import each log once"
            )


def _marks(table: pa.Table, item: Ints) -> Words:
    """A 64-bit mark of each row's asking: a random linear hash, equal for equal rows."""
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
    place = np.arange(len(flat)) - np.repeat(ends - lengths, lengths)
    # Sums wrap around at 2^64, so the difference of two running sums is exact.
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(flat * weights[place])])
    return np.asarray(running[ends] - running[ends - lengths], dtype=np.uint64)


def _odd(rng: np.random.Generator, n: int) -> Words:
    drawn: Words = rng.integers(0, 1 << 64, size=n, dtype=np.uint64)
    return np.asarray(drawn | np.uint64(1), dtype=np.uint64)


def _codes(column: pa.ChunkedArray) -> Words:
    return np.asarray(pc.index_in(column, value_set=pc.unique(column)), dtype=np.int64).astype(np.uint64)


def _asking(table: pa.Table, row: int) -> dict[str, object]:
    return dict(table.select(["item", "view", "model", "template", "order"]).slice(row, 1).to_pylist()[0])
