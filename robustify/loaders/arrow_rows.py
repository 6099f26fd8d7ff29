"""Parquet and Arrow (file or stream, as `save_to_disk` writes them) -> rows, numbered from 1.

Refuses a damaged file without repeating what pyarrow says of it: its messages can hold values.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from robustify.errors import DataError
from robustify.loaders.rows import Row, Table


def arrow_rows(name: str, files: Sequence[Path]) -> Table:
    """The rows of one data set, in the order of `files`.

    Raises:
        DataError: a file that cannot be read, or no rows.
    """
    cells = [row for file in files for row in _rows(file)]
    if not cells:
        raise DataError(f"{name}: no rows; expected items")
    rows = tuple(Row(place, place, row) for place, row in enumerate(cells, start=1))
    return Table(rows, literals=True)


def _rows(file: Path) -> list[dict[str, object]]:
    try:
        with file.open("rb") as stream:
            head = stream.read(6)
        with pa.memory_map(str(file)) as source:
            if head.startswith(b"PAR1"):
                table = pa.parquet.read_table(source)
            elif head.startswith(b"ARROW1"):
                table = pa.ipc.open_file(source).read_all()
            else:
                table = pa.ipc.open_stream(source).read_all()
            rows: list[dict[str, object]] = table.to_pylist()
            return rows
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        kind = "Parquet" if head.startswith(b"PAR1") else "Arrow"
        raise DataError(
            f"{file.name}: {kind} that cannot be read ({type(error).__name__}); is it whole?"
        ) from None
