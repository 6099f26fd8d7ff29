"""Columns of the answer table: their types, their allowed values, and their conversion to arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robustify.base.arrays import ROWS, Ints
from robustify.base.errors import DataError, Notice
from robustify.items.item import MOST

ASKING = ("view", "model", "template")
LENGTHS = ("n_chars", "n_bytes", "n_tokens")
SCHEMA = pa.schema({
    **dict.fromkeys(("item", "view", "model"), pa.string()), "order": pa.list_(pa.int16()), "template": pa.string(),
    "key": pa.int16(), "pick": pa.int16(), "correct": pa.float64(), "scores": pa.list_(pa.float64()),
    **dict.fromkeys(LENGTHS, pa.list_(pa.int32())), "tie": pa.int16(), "error": pa.string(),
})  # fmt: skip
STORED = ("order", "correct", "scores", *LENGTHS, "error")
"""Columns that are read from a large file whenever they are used, because they take nine tenths of its bytes."""
ROTATION, K = "rotation", "k"
"""Columns that `Answers` adds: `rotation` to older tables, and the number of choices, which is not written."""
BYTES = frozenset(("key", "pick", "tie", ROTATION, K))
"""Columns of a file that take one byte for each row in memory, because items have at most 26 options."""
OPTIONAL = pa.schema({ROTATION: pa.int16(), "draws": pa.int16(), "at_most": pa.float64()})
"""Columns that a file may lack. `draws` and `at_most` are for letters that were sampled or that a server did not return."""


def as_answer_table(path: Path, table: pa.Table) -> pa.Table:
    """Convert a table to the types of `SCHEMA`. Raise `DataError` if it is not an answer table."""
    columns, fault = table.column_names, None
    wrong = [name for name in dict.fromkeys((*SCHEMA.names, *columns)) if columns.count(name) != 1]
    if wrong:
        text = f"columns {', '.join(wrong)} are missing or repeated"
        fault = Notice(text, code="missing-answer-column")
    elif empty := [name for name in ("item", *ASKING, "order") if table[name].null_count]:
        fault = Notice(f"column {empty[0]} has empty cells", code="empty-answer-cell")
    else:
        schema = pa.schema([*SCHEMA, *(f for f in OPTIONAL if f.name in columns)])
        try:
            table = table.select(schema.names).cast(schema)
            table.validate(full=True)
            fault = _odd_values(table)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            fault = Notice("a column has the wrong type", code="answer-column-type")
    if fault is None:
        return table
    expected = "expected an answer table written by robustify. Run the audit again."
    raise DataError(f"{path}: {fault}; {expected}", code=fault.code)


def _odd_values(table: pa.Table) -> Notice | None:
    """Describe the first column that contains a value which no answer can have, or return None."""
    k, pick = ints(pc.list_value_length(table["order"])), ints(table["pick"])
    correct = np.asarray(table["correct"].to_numpy(zero_copy_only=False), dtype=np.float64)
    order, position = padded(table["order"], np.int16, 1, fill=MOST), np.arange(max(1, k.max(initial=0)))
    valid = {
        "order": (np.sort(order) == np.where(position < k[:, None], position, MOST)).all() and (k >= 2).all(),
        "pick": ((pick >= -1) & (pick < k)).all(),
        "correct": np.where(pick < 0, np.isnan(correct), (correct >= 0) & (correct <= 1)).all(),
    }
    for name in ("scores", *LENGTHS):
        length = ints(pc.list_value_length(table[name]))
        valid[name] = ((length <= 0) | (length == k)).all()
    wrong = (f"column {name} has an impossible value" for name, all_ in valid.items() if not all_)
    return next((Notice(text, code="impossible-answer") for text in wrong), None)


def in_bytes(table: pa.Table) -> pa.Table:
    """Return the table with the columns in `BYTES` stored as one byte per value."""
    return table.cast(pa.schema([f.with_type(pa.int8()) if f.name in BYTES else f for f in table.schema]))


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file. Raise `DataError` if it cannot be read."""
    try:
        # ParquetFile imports far less than the reader of data sets, and keeps 80 MiB less if it buffers no row groups.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield file
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{path}: the answer table cannot be read ({type(error).__name__}). Run the audit again.",
            code="unreadable-answer-table",
        ) from None


class StoredColumn:
    """Column of a file with `total` rows, read in blocks. The file is open only between its first and last block, and must
    not change after this object is created."""

    def __init__(self, path: Path, name: str, total: int) -> None:
        self._path, self._field, self._total = path, SCHEMA.field(name), total
        self._version = _version(path)
        self._blocks: Iterator[tuple[int, pa.ChunkedArray]] = iter(())
        self._first, self._block = -1, pa.chunked_array([], self._field.type)

    def rows(self, start: int, end: int) -> pa.ChunkedArray:
        """Return the rows from `start` to `end`. This is fast if the rows follow those of the last call."""
        if not self._first <= start <= self._first + len(self._block):
            self._blocks = self._read(start)
        parts = list[pa.Array]()
        while start < end:
            while not self._first <= start < self._first + len(self._block):
                self._first, self._block = next(self._blocks)
            part = self._block.slice(start - self._first, end - start)
            parts += part.chunks
            start += len(part)
        if self._first + len(self._block) == self._total:
            self._blocks = iter(())
        return pa.chunked_array(parts, self._field.type)

    def _read(self, start: int) -> Iterator[tuple[int, pa.ChunkedArray]]:
        """Yield the first row number and the values of each block, beginning with the row group that contains `start`."""
        with opened(self._path) as file:
            ends = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))])
            if _version(self._path) != self._version:
                raise pa.ArrowInvalid("The file was replaced.")
            group = int(np.searchsorted(ends, start, "right")) - 1
            first, groups = int(ends[group]), range(group, file.num_row_groups)
            for batch in file.iter_batches(ROWS, groups, [self._field.name], use_threads=False):
                yield first, pa.chunked_array([batch.column(0)]).cast(self._field.type)
                first += len(batch)


def _version(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def ints(column: pa.ChunkedArray, missing: int = -1) -> Ints:
    """Convert a column of integers to an array, with `missing` for empty cells."""
    return np.asarray(pc.fill_null(column, missing).to_numpy(zero_copy_only=False), dtype=np.int64)


def padded(column: pa.ChunkedArray, dtype: type, width: int, *, fill: float) -> npt.NDArray[Any]:
    """Convert a column of lists to a padded array with one row per list and at least `width` columns."""
    lengths = np.maximum(ints(pc.list_value_length(column)), 0)
    widest = max(width, int(lengths.max(initial=0)))
    flat: npt.NDArray[Any] = np.asarray(pc.list_flatten(column).to_numpy(zero_copy_only=False), dtype=dtype)
    if len(flat) == len(lengths) * widest:
        return flat.reshape(len(lengths), widest)
    out: npt.NDArray[Any] = np.full((len(lengths), widest), fill, dtype=dtype)
    out[np.arange(widest) < lengths[:, None]] = flat
    return out
