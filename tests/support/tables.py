"""Rows as files of Parquet and Arrow."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def parquet(path: Path, rows: Any, **options: Any) -> Path:
    """Write rows or a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(_table(rows), path, **options)
    return path


def arrow(path: Path, rows: Any, new: Any = pa.ipc.new_stream, **options: Any) -> Path:
    """Write rows or a table as a stream of Arrow, or as a file of it."""
    table = _table(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
        writer.write_table(table, **options)
    return path


def _table(rows: Any) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
