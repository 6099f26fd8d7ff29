"""The answer table: the file that asking writes and judging reads.

One row is one asking of one item by one model in one order under one template; nothing here holds the text of an
item. The rows of an item are in the order in which it was asked, and the first of them is the plain one (D.4's for
the screen, the benchmark's own order for the full view).
"""

from collections.abc import Iterable, Sequence
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

from robustify.arrays import Floats, Ints, tied_best
from robustify.errors import DataError

SCHEMA = pa.schema(
    [
        ("item", pa.string()),
        ("view", pa.string()),
        ("model", pa.string()),
        ("order", pa.list_(pa.int16())),
        ("template", pa.string()),
        ("key", pa.int16()),
        ("pick", pa.int16()),
        ("correct", pa.float64()),
        ("scores", pa.list_(pa.float64())),
        ("n_chars", pa.list_(pa.int32())),
        ("n_bytes", pa.list_(pa.int32())),
        ("n_tokens", pa.list_(pa.int32())),
        ("tie", pa.int16()),
        ("error", pa.string()),
    ]
)
OPTIONAL = pa.schema([("draws", pa.int16()), ("at_most", pa.float64())])
"""Columns of a table with letters that were drawn, or that a server did not show; no table without has them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One row. `scores`, `n_chars`, `n_bytes`, `n_tokens` are in the item's own order, one entry a choice.

    `pick` is the best choice in the item's own order (the lowest index among ties) or None when there is no
    readable answer; `tie` counts the choices that share the best score; `correct` is the credit 1/tie if the
    key is among them, 0 if not, None when unanswered. `error` says why there is no answer, without text.
    `draws`: scores are logs of the letters' shares of so many replies; None of log-probabilities. `at_most`: those
    letters whose score is NaN were not shown, and are no likelier than that; the pick is likelier.
    """

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
            raise ValueError(f"{self.item}: pick and correct must both be there or both be missing")


class Asked(NamedTuple):
    """What was asked of whom: the columns that an answer does not change."""

    item: str
    view: str
    model: str
    order: tuple[int, ...]
    template: str
    key: int


class Details(TypedDict, total=False):
    """Columns of a scored row that not every source knows; as in `Answer`."""

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
    """Return a scored row: pick, tie and credit follow from `ranked_by` (the scores themselves by default).

    All sequences have one entry a choice, in the item's own order.
    """
    best = tied_best(scores if ranked_by is None else ranked_by)
    credit = 1 / len(best) if asked.key in best else 0.0
    return Answer(*asked, best[0], credit, tuple(map(float, scores)), tie=len(best), **details)


def unanswered(asked: Asked, why: str) -> Answer:
    """Return a row without a readable answer: the item stays undecided, never wrong and never robust."""
    return Answer(*asked, None, None, (), tie=0, error=why)


class Block:
    """Some rows of a table as arrays: r rows, K the largest number of choices among them.

    `item` (r,) indexes `Answers.items`; `key`, `pick` (r,), pick -1 where unanswered; `correct` (r,) credit,
    NaN where unanswered; `tie` (r,); `k` (r,) number of choices; `scores`, `n_chars`, `n_bytes`, `n_tokens`
    (r, K), NaN beyond a row's choices or where absent; `order` (r, K), -1 beyond a row's choices; `draws` (r,), 0 where
    scores are log-probabilities; `at_most` (r,), NaN where every score is there. A column is read when it is first
    asked for: most questions need few of them.
    """

    item: Ints
    key: Ints
    pick: Ints
    correct: Floats
    tie: Ints
    k: Ints
    scores: Floats
    n_chars: Floats
    n_bytes: Floats
    n_tokens: Floats
    order: Ints
    draws: Ints
    at_most: Floats

    def __init__(
        self, table: pa.Table, item: Ints, rows: Ints | None = None, width: int | None = None
    ) -> None:
        """`rows` (r,) of the table, all where None; `item` (r,); `width` is K where it is known."""
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
            case "key" | "pick" | "tie":
                return _ints(column)
            case "k":
                return _ints(pc.list_value_length(column))
            case "draws":
                return _ints(pc.fill_null(column, 0))
            case "correct" | "at_most":
                return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
            case "order":
                return _padded(column, np.int64, self._width, fill=-1)
        return _padded(column, np.float64, self._width, fill=np.nan)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Block":
        """Return the rows where `mask` (r,) is true."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask) if self._rows is None else self._rows[mask]
        part = Block(self._table, self.item[mask], rows, self._width)
        known = self.__dict__.keys() & Block.__annotations__.keys()
        part.__dict__.update({name: self.__dict__[name][mask] for name in known})
        return part

    def first(self) -> "Block":
        """Return of each item only its first row: the plain asking."""
        if (self.item[1:] > self.item[:-1]).all():
            return self
        keep = np.zeros(len(self), dtype=bool)
        keep[np.unique(self.item, return_index=True)[1]] = True
        return self.where(keep)

    def scored(self, scores: Floats) -> "Block":
        """Return these rows with other scores."""
        new = copy(self)
        new.scores = scores
        return new


class Answers:
    """An answer table in memory; columns as in `SCHEMA`."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @classmethod
    def of(cls, rows: Iterable[Answer]) -> "Answers":
        """A table of these rows, in this order."""
        answers = list(rows)
        # Typed columns at once: a table made of lists of lists guesses its types row by row.
        schema = pa.schema(
            [*SCHEMA, *(f for f in OPTIONAL if any(getattr(one, f.name) is not None for one in answers))]
        )
        columns = [pa.array(list(map(attrgetter(f.name), answers)), type=f.type) for f in schema]
        return cls(pa.table(columns, schema=schema))

    @classmethod
    def concat(cls, tables: Iterable["Answers"]) -> "Answers":
        """All rows, one table after the other."""
        parts = [SCHEMA.empty_table(), *(t.table for t in tables)]
        return cls(pa.concat_tables(parts, promote_options="default").combine_chunks())

    @classmethod
    def read(cls, path: Path) -> "Answers":
        """Read `answers.parquet`.

        Raises:
            DataError: no Parquet file, a damaged one, or one whose columns are not those of `SCHEMA`.
        """
        try:
            # The reader of one file: that of data sets imports far more.
            with pq.ParquetFile(path) as file:
                table = file.read(use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(
                f"{path}: no readable answer table ({type(error).__name__}); run the asking again"
            ) from None
        missing = [f.name for f in SCHEMA if f.name not in table.column_names]
        if missing:
            raise DataError(
                f"{path}: columns {', '.join(missing)} are missing; expected an answer table of robustify"
            )
        empty = [c for c in ("item", "view", "model", "template", "order") if table[c].null_count]
        if empty:
            raise DataError(f"{path}: column {empty[0]} has empty cells; expected a value in every row")
        try:
            schema = pa.schema([*SCHEMA, *(f for f in OPTIONAL if f.name in table.column_names)])
            return cls(table.select(schema.names).cast(schema).combine_chunks())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            raise DataError(f"{path}: a column has another type than an answer table of robustify") from None

    def write(self, path: Path) -> None:
        """Write the table; the same rows give the same bytes."""
        pq.write_table(self.table, path, compression="zstd", write_statistics=False, store_schema=False)

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The item ids in the order of their first row."""
        return tuple(self._encoded.dictionary.to_pylist())

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        return _one(self.table["item"].dictionary_encode())

    @cached_property
    def item_of(self) -> Ints:
        """Of each row its item, as an index of `items`, (rows,)."""
        return np.asarray(self._encoded.indices, dtype=np.int64)

    def askings(self) -> list[tuple[str, str, str]]:
        """The distinct (view, model, template) in the order of their first row."""
        return list(self._rows)

    @cached_property
    def _rows(self) -> dict[tuple[str, str, str], Ints]:
        """The rows of each (view, model, template), in the order of their first row."""
        names: list[list[str]] = []
        asking = np.zeros(len(self), dtype=np.int64)
        for column in ("view", "model", "template"):
            encoded = _one(self.table[column].dictionary_encode())
            names.append(encoded.dictionary.to_pylist())
            asking = asking * len(names[-1]) + np.asarray(encoded.indices, dtype=np.int64)
        kinds, first, which = np.unique(asking, return_index=True, return_inverse=True)
        sorted_rows = np.argsort(which, kind="stable")
        parts = np.split(sorted_rows, np.cumsum(np.bincount(which, minlength=len(kinds)))[:-1])
        sizes = [len(values) for values in names]
        rows = {}
        for kind in np.argsort(first).tolist():
            places = np.unravel_index(int(kinds[kind]), sizes)
            view, model, template = (values[int(at)] for values, at in zip(names, places, strict=True))
            rows[view, model, template] = parts[kind]
        return rows

    def block(self, view: str, model: str, template: str | None = None) -> Block:
        """The rows of one model under one view (and one template), in table order, as arrays."""
        asked = [
            rows
            for (v, m, t), rows in self._rows.items()
            if (v, m) == (view, model) and template in (None, t)
        ]
        rows = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *asked]))
        # Rows that follow one another are not copied.
        whole = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        table = self.table.slice(int(rows[0]), len(rows)) if whole else self.table
        return Block(table, self.item_of[rows], None if whole else rows)


def _one(column: pa.ChunkedArray | pa.DictionaryArray) -> pa.DictionaryArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _padded(column: pa.ChunkedArray, dtype: type, width: int, *, fill: float) -> npt.NDArray[Any]:
    """Lists as rows (r, `width` or the longest), filled up."""
    lengths = np.maximum(_ints(pc.list_value_length(column)), 0)
    widest = max(width, int(lengths.max(initial=0)))
    flat: npt.NDArray[Any] = np.asarray(pc.list_flatten(column).to_numpy(zero_copy_only=False), dtype=dtype)
    if len(flat) == len(lengths) * widest:
        return flat.reshape(len(lengths), widest)
    out: npt.NDArray[Any] = np.full((len(lengths), widest), fill, dtype=dtype)
    out[np.arange(widest) < lengths[:, None]] = flat
    return out
