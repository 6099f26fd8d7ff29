"""Answer table, which is written when models are asked and read when their answers are judged. It contains no item text.

A row records one item, asked of one model in one order under one template. The first row of an item has the plain order:
the first rotation for the screen, and the benchmark's order for the full view.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from typing_extensions import Unpack

from robustify.base.arrays import ROWS, Floats, Ints, tied_best
from robustify.items.answer_columns import (
    ASKING,
    BYTES,
    OPTIONAL,
    ROTATION,
    SCHEMA,
    STORED,
    K,
    StoredColumn,
    as_answer_table,
    in_bytes,
    ints,
    opened,
    padded,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Row of the answer table. Sequences have one entry per choice, in the benchmark's order.

    `pick` is the lowest of the `tie` choices that share the best score, or None for an unreadable answer, with the reason
    `error`. `correct` is 1/tie if the key is among them, 0 if not, and None if unanswered. With `draws`, scores are logs of
    each letter's share of that many replies. `at_most` bounds the log-probability of letters whose score is NaN."""

    item: str
    view: str
    model: str
    order: tuple[int, ...]
    template: str
    key: int
    pick: int | None
    correct: float | None
    scores: tuple[float, ...]
    n_chars: Sequence[int] = ()
    n_bytes: Sequence[int] = ()
    n_tokens: Sequence[int] = ()
    tie: int = 1
    error: str | None = None
    draws: int | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        if (self.pick is None) != (self.correct is None):
            raise ValueError(f"{self.item}: pick and correct must both be set or both be None")


class Asked(NamedTuple):
    """Columns of a row that are known before the model answers."""

    item: str
    view: str
    model: str
    order: tuple[int, ...]
    template: str
    key: int


class Details(TypedDict, total=False):
    """Optional columns of a scored row, named as in `Answer`."""

    n_chars: Sequence[int]
    n_bytes: Sequence[int]
    n_tokens: Sequence[int]
    draws: int | None
    at_most: float | None


def answer(
    asking: Asked,
    scores: Sequence[float],
    ranked_by: Sequence[float] | None = None,
    **details: Unpack[Details],
) -> Answer:
    """Build a scored row. Pick, tie, and credit are derived from `ranked_by`, or by default from the scores."""
    best = tied_best(scores if ranked_by is None else ranked_by)
    credit = 1 / len(best) if asking.key in best else 0.0
    return Answer(*asking, best[0], credit, tuple(map(float, scores)), tie=len(best), **details)


def unanswered(asking: Asked, reason: str) -> Answer:
    """Build a row for a missing or unreadable answer. The item stays undecided, and is never counted as wrong or kept."""
    return Answer(*asking, None, None, (), tie=0, error=reason)


def _integers(name: str, missing: int = -1) -> "cached_property[Ints]":
    return cached_property(lambda block: ints(block.read(name), missing))


def _numbers(name: str) -> "cached_property[Floats]":
    return cached_property(
        lambda block: np.asarray(block.read(name).to_numpy(zero_copy_only=False), dtype=np.float64)
    )


def _rows(name: str) -> "cached_property[Floats]":
    return cached_property(lambda block: padded(block.read(name), np.float64, block.width, fill=np.nan))


class Block:
    """Rows of an answer table as arrays, which are read on first use. There are r rows with at most K choices.

    Shape (r,): `item` (index into `Answers.items`), `key`, `pick` (-1 if unanswered), `correct` (NaN if unanswered), `tie`,
    `k` (choices), `rotation` (of the item's order, -1 if none), `draws` (0 if not sampled), and `at_most` (NaN if all
    scores are known). Shape (r, K): `scores`, `n_chars`, `n_bytes`, `n_tokens` (NaN if missing), and `order` (-1 beyond k).
    """

    key = _integers("key")
    k = _integers(K)
    pick = _integers("pick")
    tie = _integers("tie")
    rotation = _integers("rotation")
    draws = _integers("draws", missing=0)
    correct = _numbers("correct")
    at_most = _numbers("at_most")
    scores = _rows("scores")
    n_chars = _rows("n_chars")
    n_bytes = _rows("n_bytes")
    n_tokens = _rows("n_tokens")

    @cached_property
    def order(self) -> Ints:
        """Order of each row, with -1 beyond its choices (r, K)."""
        return padded(self.read("order"), np.int16, self.width, fill=-1)

    def __init__(self, answers: "Answers", rows: slice | Ints, item: Ints, width: int | None = None) -> None:
        """Select `rows` of an answer table. `item` (r,) is the item index of each row, and `width` is K, if known."""
        self.item, self._answers, self.rows = item, answers, rows
        self.width = int(self.k.max(initial=0)) if width is None else width

    def __len__(self) -> int:
        return len(self.item)

    def read(self, name: str) -> pa.ChunkedArray:
        """Return the values of one column for these rows, or nulls if the table lacks the column."""
        if isinstance(self.rows, slice):
            start, end = self.rows.start, self.rows.start + len(self)
        else:
            start, end = int(self.rows.min(initial=len(self._answers))), int(self.rows.max(initial=0)) + 1
        # No column is read for a model that was not asked.
        column = self._answers.column(name, start, end) if len(self) else None
        if column is None:
            return pa.chunked_array([pa.nulls(len(self), _ALL.field(name).type)])
        return column if isinstance(self.rows, slice) else column.take(pa.array(self.rows - start))

    def where(self, mask: npt.NDArray[np.bool_]) -> "Block":
        """Return the rows that a mask (r,) selects."""
        return self if mask.all() else self._select(np.flatnonzero(mask))

    def parts(self) -> Iterator["Block"]:
        """Yield the rows in blocks so small that many intermediate arrays fit into memory."""
        for start in range(0, len(self), ROWS):
            yield self._select(slice(start, start + ROWS))

    def _select(self, places: slice | Ints) -> "Block":
        if isinstance(self.rows, slice) and isinstance(places, slice):
            start = self.rows.start
            rows: slice | Ints = slice(start + places.start, min(start + places.stop, self.rows.stop))
        else:
            rows = self.rows.start + places if isinstance(self.rows, slice) else self.rows[places]
        part = Block(self._answers, rows, self.item[places], self.width)
        # What was read of these rows is not read again.
        columns = {name: values for name, values in vars(self).items() if name in _COLUMNS}
        vars(part).update({name: values[places] for name, values in columns.items()})
        return part

    def first(self) -> "Block":
        """Return the first row of each item, in which its choices have the first order."""
        if (self.item[1:] > self.item[:-1]).all():
            return self
        keep = np.zeros(len(self), dtype=bool)
        keep[np.unique(self.item, return_index=True)[1]] = True
        return self.where(keep)

    def scored(self, scores: Floats) -> "Block":
        """Return a copy of these rows with new scores."""
        new = copy(self)
        new.scores = scores
        return new


_COLUMNS = frozenset(name for name, value in vars(Block).items() if isinstance(value, cached_property))
_GROUP = 1 << 20
"""Rows of a row group, the standard of Parquet."""
_ALL = pa.schema([*SCHEMA, *OPTIONAL, (K, pa.int8())])
_Asking = tuple[str, str, str]
_Runs = dict[_Asking, Ints]
"""Runs of rows of each (view, model, template), as first row and end (s, 2), in the order of their first row."""


class Answers:
    """Answer table in memory, with the columns of `SCHEMA`. The `STORED` columns of a large table stay in its file."""

    def __init__(
        self, table: pa.Table, runs: _Runs | None = None, stored: Mapping[str, StoredColumn] | None = None
    ) -> None:
        """Build a table from the columns of `SCHEMA`, and add `rotation` and `k` if they are missing. If `runs` is given,
        view, model, and template may be missing. Columns that are `stored` in the file of the table may also be missing."""
        self._table, self._stored = table, stored or {}
        self._runs = _runs(table) if runs is None else runs
        if K not in table.column_names:
            self._table = table.append_column(K, pc.list_value_length(table["order"]))
        if ROTATION not in table.column_names:
            rotation = np.empty(len(self), dtype=np.int16)
            for asking in self._runs:
                block = self.block(*asking)
                rotation[block.rows] = _rotations(block)
            column = pa.array(rotation, mask=rotation < 0)
            self._table = self._table.append_column(OPTIONAL.field(ROTATION), column)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @classmethod
    def of(cls, rows: Iterable[Answer]) -> "Answers":
        """Build a table from rows, in the given order."""
        answers = list(rows)
        # Build typed columns, because pyarrow would infer the types of nested lists row by row.
        given = [f for f in OPTIONAL if any(getattr(row, f.name, None) is not None for row in answers)]
        schema = pa.schema([*SCHEMA, *given])
        columns = [pa.array(list(map(attrgetter(f.name), answers)), type=f.type) for f in schema]
        return cls(pa.table(columns, schema=schema))

    @classmethod
    def concat(cls, tables: Iterable["Answers"]) -> "Answers":
        """Concatenate tables in the given order, without copying columns that several tables share."""
        parts = [SCHEMA.empty_table(), *(t.table for t in tables)]
        return cls(pa.concat_tables(parts, promote_options="default"))

    @classmethod
    def read(cls, path: Path) -> "Answers":
        """Read `answers.parquet`. Raise `DataError` if it is not a Parquet file with the columns of `SCHEMA`."""
        parts, runs = list[pa.Table](), _Runs()
        with opened(path) as file:
            total = file.metadata.num_rows
            stored = {name: StoredColumn(path, name, total) for name in STORED if total > ROWS}
            tables = map(pa.Table.from_batches, zip(file.iter_batches(ROWS, use_threads=False)))
            for table in tables if total else [file.schema_arrow.empty_table()]:
                part = as_answer_table(path, table)
                for asking, own in _runs(part, sum(map(len, parts))).items():
                    runs[asking] = np.concatenate([runs.get(asking, own[:0]), own])
                part = part.append_column(K, pc.list_value_length(part["order"]))
                parts.append(in_bytes(part.drop_columns([*ASKING, *stored])))
        table = pa.concat_tables(parts)
        table = table.set_column(0, "item", table["item"].dictionary_encode().combine_chunks())
        # The arrays of judging cannot use what the reader keeps for later files.
        parts.clear()
        pa.default_memory_pool().release_unused()
        return cls(table, runs, stored)

    def write(self, path: Path) -> None:
        """Write the table to a Parquet file. The same rows always give the same bytes."""
        settings = {"compression": "zstd", "write_statistics": False, "store_schema": False}
        with pq.ParquetWriter(path, self._schema, **settings) as file:
            rows = self._schema.empty_table()
            for table in self._tables():
                rows = pa.concat_tables([rows, table])
                while len(rows) > _GROUP:
                    file.write_table(rows.slice(0, _GROUP).combine_chunks())
                    rows = rows.slice(_GROUP)
            file.write_table(rows.combine_chunks())

    @property
    def table(self) -> pa.Table:
        """All rows and columns."""
        return pa.concat_tables(self._tables())

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([*SCHEMA, *(f for f in OPTIONAL if f.name in self._table.column_names)])

    def _tables(self) -> Iterator[pa.Table]:
        """Yield the table with all columns. A table from a file is yielded in parts."""
        if set(ASKING) <= set(self._table.column_names):
            yield self._table.select(self._schema.names)
            return
        runs = np.concatenate([np.empty((0, 2), np.int64), *self._runs.values()])
        order, kinds = np.argsort(runs[:, 0]), np.arange(len(self._runs), dtype=np.int16)
        kind = np.repeat(kinds, list(map(len, self._runs.values())))[order]
        kind_of_row = pa.array(np.repeat(kind, np.diff(runs[order])[:, 0]))
        words = dict(zip(ASKING, zip(*self._runs, strict=True), strict=False))
        for start in range(0, max(len(self), 1), ROWS):
            part, which = self._table.slice(start, ROWS), kind_of_row.slice(start, ROWS)
            columns = {n: part[n].cast(pa.int16()) if n in BYTES else part[n] for n in part.column_names}
            columns |= {n: column.rows(start, start + len(part)) for n, column in self._stored.items()}
            columns |= {name: pa.array(words.get(name, ()), pa.string()).take(which) for name in ASKING}
            columns["item"] = part["item"].cast(pa.string())
            yield pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def column(self, name: str, start: int = 0, end: int | None = None) -> pa.ChunkedArray | None:
        """Return rows of a column, or None if the column is optional and the table lacks it."""
        end = len(self) if end is None else end
        if name in self._stored:
            return self._stored[name].rows(start, end)
        return self._table[name].slice(start, end - start) if name in self._table.column_names else None

    @cached_property
    def items(self) -> tuple[str, ...]:
        """Item IDs, in the order of each item's first row."""
        return tuple(self._encoded.dictionary.to_pylist())

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        items = self._table["item"].dictionary_encode()
        return items.chunk(0) if items.num_chunks == 1 else items.combine_chunks()

    @cached_property
    def item_of(self) -> Ints:
        """Index of each row's item in `items`, as a 4-byte integer (rows,)."""
        return np.asarray(self._encoded.indices)

    def askings(self) -> list[_Asking]:
        """Return the distinct (view, model, template) triples, in the order of their first rows."""
        return list(self._runs)

    def block(self, view: str, model: str, template: str | None = None) -> Block:
        """Return the rows of a model and view as arrays, in table order, for one template or for all templates."""
        own = [r for (v, m, t), r in self._runs.items() if (v, m) == (view, model) and template in (None, t)]
        runs = np.concatenate([np.zeros((0, 2), np.int64), *own])
        first, end = runs[np.argsort(runs[:, 0])].T
        if (first[1:] == end[:-1]).all():
            # Contiguous rows are sliced without a copy.
            rows: slice | Ints = slice(int(first.min(initial=len(self))), int(end.max(initial=0)))
        else:
            size = end - first
            rows = np.repeat(first - np.cumsum(size) + size, size) + np.arange(size.sum())
        return Block(self, rows, self.item_of[rows].astype(np.int64))


def _runs(table: pa.Table, start: int = 0) -> _Runs:
    """Return each run of successive rows with the same view, model, and template. Rows are counted from `start`."""
    asking = np.zeros(len(table), dtype=np.int64)
    for name in ASKING:
        encoded = table[name].dictionary_encode().combine_chunks()
        asking = asking * len(encoded.dictionary) + np.asarray(encoded.indices)
    first = np.flatnonzero(np.diff(asking, prepend=-1))
    runs = np.column_stack([first, np.append(first, len(table))[1:]]) + start
    _, kinds, which, n = np.unique(asking[first], return_index=True, return_inverse=True, return_counts=True)
    parts = np.split(runs[np.argsort(which, kind="stable")], np.cumsum(n)[:-1])
    out = _Runs()
    for kind in np.argsort(kinds).tolist():
        view, model, template = (table[name][int(first[kinds[kind]])].as_py() for name in ASKING)
        out[view, model, template] = parts[kind]
    return out


def _rotations(block: Block) -> Ints:
    """Return the number of places by which each row's choices are rotated from its item's order, or -1 for other orders
    (r,). All rows belong to one asking. An item's order is the benchmark's order if shown, or else the first order
    shown."""
    if (block.item[1:] > block.item[:-1]).all():
        return np.zeros(len(block), dtype=np.int64)
    position, k = np.arange(block.order.shape[1]), np.maximum(block.k, 1)[:, None]
    own = ((block.order == position) | (block.order < 0)).all(axis=1)
    by_item = np.lexsort((~own, block.item))
    _, start, item = np.unique(block.item[by_item], return_index=True, return_inverse=True)
    first = np.empty(len(block), dtype=np.int64)
    first[by_item] = by_item[start][item]
    zero = (block.order == 0).argmax(axis=1)
    from_zero = np.where(position < k, (position + zero[:, None]) % k, position)
    ring = np.take_along_axis(block.order, from_zero, axis=1)
    return np.where((ring == ring[first]).all(axis=1), (zero[first] - zero) % k[:, 0], -1)
