"""Answer table, which is written when models are asked and read when their answers are judged. It has no item text.

A row records one item, asked of one model in one order under one template. The first row of an item has the plain order:
the first rotation for the screen, and the benchmark's order for the full view.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from typing_extensions import Unpack

from robustify.base.arrays import ROWS, Floats, Ints, tied_best
from robustify.base.errors import DataError
from robustify.items.item import MOST

_WORDS = dict.fromkeys(("item", "view", "model"), pa.string())
_COUNTS = dict.fromkeys(("n_chars", "n_bytes", "n_tokens"), pa.list_(pa.int32()))
SCHEMA = pa.schema({
    **_WORDS, "order": pa.list_(pa.int16()), "template": pa.string(), "key": pa.int16(), "pick": pa.int16(),
    "correct": pa.float64(), "scores": pa.list_(pa.float64()), **_COUNTS, "tie": pa.int16(), "error": pa.string(),
})  # fmt: skip
ROTATION = "rotation"
"""Column that `Answers` adds to tables without it, such as older files."""
OPTIONAL = pa.schema({ROTATION: pa.int16(), "draws": pa.int16(), "at_most": pa.float64()})
"""Columns that a file may lack. `draws` and `at_most` are for letters that were sampled or that a server did not return."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Row of the answer table. Sequences have one entry per choice, in benchmark order.

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
    """Optional columns of a scored row, with the same names as in `Answer`."""

    n_chars: Sequence[int]
    n_bytes: Sequence[int]
    n_tokens: Sequence[int]
    draws: int | None
    at_most: float | None


def answer(
    asked: Asked,
    scores: Sequence[float],
    ranked_by: Sequence[float] | None = None,
    **details: Unpack[Details],
) -> Answer:
    """Build a scored row. Pick, tie, and credit follow from `ranked_by`, or by default from the scores."""
    best = tied_best(scores if ranked_by is None else ranked_by)
    credit = 1 / len(best) if asked.key in best else 0.0
    return Answer(*asked, best[0], credit, tuple(map(float, scores)), tie=len(best), **details)


def unanswered(asked: Asked, why: str) -> Answer:
    """Build a row for a missing or unreadable answer. Its item stays undecided, never counted as wrong or kept."""
    return Answer(*asked, None, None, (), tie=0, error=why)


class Block:
    """Rows of an answer table as arrays, with r rows and at most K choices per row, which are read on first use.

    Shape (r,): `item` (index into `Answers.items`), `key`, `pick` (-1 if unanswered), `correct` (NaN if unanswered), `tie`,
    `k` (choices), `rotation` (of the item's order, -1 if none), `draws` (0 if not sampled), and `at_most` (NaN if all
    scores are known). Shape (r, K): `scores`, `n_chars`, `n_bytes`, `n_tokens` (NaN if missing), and `order` (-1 beyond k).
    """

    item: Ints
    key: Ints
    pick: Ints
    tie: Ints
    k: Ints
    order: Ints
    draws: Ints
    rotation: Ints
    correct: Floats
    scores: Floats
    n_chars: Floats
    n_bytes: Floats
    n_tokens: Floats
    at_most: Floats

    def __init__(
        self, table: pa.Table, item: Ints, rows: Ints | None = None, width: int | None = None
    ) -> None:
        """Select `rows` (r,) by number, or all rows if None. `item` has shape (r,), and `width` is K if known."""
        self.item, self._table, self._rows = item, table, rows
        self._width = int(self.k.max(initial=0)) if width is None else width

    def __len__(self) -> int:
        return len(self.item)

    def __getattr__(self, name: str) -> Any:
        if name not in Block.__annotations__:
            raise AttributeError(name)
        self.__dict__[name] = values = self._read(name)
        return values

    def _read(self, name: str) -> npt.NDArray[Any]:
        if name in OPTIONAL.names and name not in self._table.column_names:
            return np.zeros(len(self), dtype=np.int64) if name == "draws" else np.full(len(self), np.nan)
        column = self._table["order" if name == "k" else name]
        column = column if self._rows is None else column.take(pa.array(self._rows))
        match name:
            case "k":
                return _ints(pc.list_value_length(column))
            case "key" | "pick" | "tie" | "rotation" | "draws":
                return _ints(column, 0 if name == "draws" else -1)
            case "correct" | "at_most":
                return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        dtype, fill = (np.int16, -1) if name == "order" else (np.float64, np.nan)
        return _padded(column, dtype, self._width, fill=fill)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Block":
        """Return the rows for which `mask` (r,) is true."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask) if self._rows is None else self._rows[mask]
        return self._part(self._table, rows, mask)

    def parts(self) -> Iterator["Block"]:
        """Yield the rows in blocks that are small enough for many intermediate arrays."""
        for start in range(0, len(self), ROWS):
            some = slice(start, start + ROWS)
            if self._rows is None:
                yield self._part(self._table.slice(start, ROWS), None, some)
            else:
                yield self._part(self._table, self._rows[some], some)

    def _part(self, table: pa.Table, rows: Ints | None, place: slice | npt.NDArray[np.bool_]) -> "Block":
        part = Block(table, self.item[place], rows, self._width)
        known = self.__dict__.keys() & Block.__annotations__.keys()
        part.__dict__.update({name: self.__dict__[name][place] for name in known})
        return part

    def first(self) -> "Block":
        """Return the first row of each item, which is asked with the first order of its choices."""
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


class Answers:
    """Answer table in memory, with the columns of `SCHEMA`."""

    def __init__(self, table: pa.Table) -> None:
        """Keep a table with the columns of `SCHEMA`, and add `rotation` if it has none."""
        self.table = table
        if ROTATION not in table.column_names:
            rotation = np.empty(len(self), dtype=np.int64)
            for asking, rows in self._rows.items():
                rotation[rows] = _rotations(self.block(*asking))
            column = pa.array(rotation, pa.int16(), mask=rotation < 0)
            self.table = table.add_column(len(SCHEMA), OPTIONAL.field(ROTATION), column)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @classmethod
    def of(cls, rows: Iterable[Answer]) -> "Answers":
        """Build a table of the rows, in the given order."""
        answers = list(rows)
        # Build typed columns, because pyarrow would infer the types of nested lists row by row.
        given = [f for f in OPTIONAL if any(getattr(one, f.name, None) is not None for one in answers)]
        schema = pa.schema([*SCHEMA, *given])
        columns = [pa.array(list(map(attrgetter(f.name), answers)), type=f.type) for f in schema]
        return cls(pa.table(columns, schema=schema))

    @classmethod
    def concat(cls, tables: Iterable["Answers"]) -> "Answers":
        """Concatenate tables in the given order."""
        parts = [SCHEMA.empty_table(), *(t.table for t in tables)]
        return cls(pa.concat_tables(parts, promote_options="default").combine_chunks())

    @classmethod
    def read(cls, path: Path) -> "Answers":
        """Read `answers.parquet`. Raise `DataError` if it is no Parquet file or its columns do not match `SCHEMA`."""
        try:
            # ParquetFile imports far less than the reader of data sets.
            with pq.ParquetFile(path) as file:
                table = file.read(use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(
                f"{path}: the answer table cannot be read ({type(error).__name__}). Run the audit again."
            ) from None
        found = table.column_names
        wrong = [name for name in dict.fromkeys((*SCHEMA.names, *found)) if found.count(name) != 1]
        fault = None
        if wrong:
            fault = f"columns {', '.join(wrong)} are missing or repeated"
        elif empty := [c for c in (*_WORDS, "template", "order") if table[c].null_count]:
            fault = f"column {empty[0]} has empty cells"
        else:
            schema = pa.schema([*SCHEMA, *(f for f in OPTIONAL if f.name in found)])
            try:
                table = table.select(schema.names).cast(schema).combine_chunks()
                table.validate(full=True)
                fault = _odd_values(table)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
                fault = "a column has the wrong type"
            if fault is None:
                return cls(table)
        raise DataError(
            f"{path}: {fault}; expected an answer table written by robustify. Run the audit again."
        )

    def write(self, path: Path) -> None:
        """Write the table to a Parquet file. The same rows always give the same bytes."""
        pq.write_table(self.table, path, compression="zstd", write_statistics=False, store_schema=False)

    @cached_property
    def items(self) -> tuple[str, ...]:
        """Item IDs in the order of their first row."""
        return tuple(self._encoded.dictionary.to_pylist())

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return _one(self.table["item"].dictionary_encode())

    @cached_property
    def item_of(self) -> Ints:
        """Index into `items` for each row (rows,)."""
        return np.asarray(self._encoded.indices, dtype=np.int64)

    def askings(self) -> list[tuple[str, str, str]]:
        """Return the distinct (view, model, template) triples in the order of their first row."""
        return list(self._rows)

    @cached_property
    def _rows(self) -> dict[tuple[str, str, str], Ints]:
        """Row numbers for each (view, model, template), in the order of their first row."""
        columns = ("view", "model", "template")
        asking = np.zeros(len(self), dtype=np.int64)
        for column in columns:
            encoded = _one(self.table[column].dictionary_encode())
            asking = asking * len(encoded.dictionary) + np.asarray(encoded.indices, dtype=np.int64)
        _, first, which, n = np.unique(asking, return_index=True, return_inverse=True, return_counts=True)
        parts = np.split(np.argsort(which, kind="stable"), np.cumsum(n)[:-1])
        rows = {}
        for kind in np.argsort(first).tolist():
            view, model, template = (self.table[name][int(first[kind])].as_py() for name in columns)
            rows[view, model, template] = parts[kind]
        return rows

    def block(self, view: str, model: str, template: str | None = None) -> Block:
        """Return the rows of a model and view as arrays in table order, for all templates or the given one."""
        asked = [
            r for (v, m, t), r in self._rows.items() if (v, m) == (view, model) and template in (None, t)
        ]
        rows = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *asked]))
        # Contiguous rows are sliced without a copy.
        whole = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        table = self.table.slice(int(rows[0]), len(rows)) if whole else self.table
        return Block(table, self.item_of[rows], None if whole else rows)


def _rotations(block: Block) -> Ints:
    """Return which rotation of its item's order each row of one asking shows (r,), or -1. An item's order is the
    benchmark's if it was shown, otherwise the first one shown."""
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


def _odd_values(table: pa.Table) -> str | None:
    """Return which column has a value that no row can have, or None."""
    k, pick = _ints(pc.list_value_length(table["order"])), _ints(table["pick"])
    correct = np.asarray(table["correct"].to_numpy(zero_copy_only=False), dtype=np.float64)
    order, position = _padded(table["order"], np.int64, 1, fill=MOST), np.arange(max(1, k.max(initial=0)))
    right = {
        "order": (np.sort(order) == np.where(position < k[:, None], position, MOST)).all() and (k >= 2).all(),
        "pick": ((pick >= -1) & (pick < k)).all(),
        "correct": np.where(pick < 0, np.isnan(correct), (correct >= 0) & (correct <= 1)).all(),
    }
    for name in ("scores", "n_chars", "n_bytes", "n_tokens"):
        length = _ints(pc.list_value_length(table[name]))
        right[name] = ((length <= 0) | (length == k)).all()
    return next((f"column {name} has an impossible value" for name, all_ in right.items() if not all_), None)


def _one(column: pa.ChunkedArray | pa.DictionaryArray) -> pa.DictionaryArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _ints(column: pa.ChunkedArray, missing: int = -1) -> Ints:
    return np.asarray(pc.fill_null(column, missing).to_numpy(zero_copy_only=False), dtype=np.int64)


def _padded(column: pa.ChunkedArray, dtype: type, width: int, *, fill: float) -> npt.NDArray[Any]:
    """Convert a column of lists to a padded array with one row per list and at least `width` columns."""
    lengths = np.maximum(_ints(pc.list_value_length(column)), 0)
    widest = max(width, int(lengths.max(initial=0)))
    flat: npt.NDArray[Any] = np.asarray(pc.list_flatten(column).to_numpy(zero_copy_only=False), dtype=dtype)
    if len(flat) == len(lengths) * widest:
        return flat.reshape(len(lengths), widest)
    out: npt.NDArray[Any] = np.full((len(lengths), widest), fill, dtype=dtype)
    out[np.arange(widest) < lengths[:, None]] = flat
    return out
