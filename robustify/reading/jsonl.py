"""Functions that read and write JSON Lines files. Rows may also come from a JSON array or a CSV file with a header."""

import io
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from robustify.base.compressed import plain_path, unpacked, unpacked_size
from robustify.base.errors import DataError, UsageError
from robustify.base.files import writable, write_atomic
from robustify.reading.loaders.json_rows import json_rows, line_rows
from robustify.reading.loaders.rows import SourceTable, fault_lines, in_memory, rows_or_faults
from robustify.reading.records import csv_rows

T = TypeVar("T")


def read_jsonl(path: Path, kind: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Read every row of a file and convert it with `kind`. Raise `UsageError` if the file does not exist, and `DataError`
    if it cannot be read, or rows do not fit. All faults are reported together."""
    table = rows_of(path)
    pairs, wrong = rows_or_faults(((row, row.cells) for row in table.rows), lambda _, cells: kind(cells))
    if faults := [*table.faults, *wrong]:
        raise DataError.gather(fault_lines(path.name, faults))
    return [row for _, row in pairs]


def rows_of(path: Path) -> SourceTable:
    """Read the rows of a file, compressed or not: lines of JSON, entries of an array, or rows of a table."""
    try:
        with path.open("rb") as opened:
            unpacked_size(path.name, opened)
        with path.open("rb") as opened:
            text = unpacked(opened).read().decode("utf-8-sig", "surrogatepass")
    except FileNotFoundError:
        raise UsageError(
            f"{path} does not exist; expected a file of JSON lines", code="no-such-file"
        ) from None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}). Expected a file of JSON lines.",
            code="file-not-readable",
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8. Save the file as UTF-8.", code="not-utf-8"
        ) from None
    again = partial(io.StringIO, text)
    if plain_path(path).suffix.lower() == ".csv":
        return in_memory(csv_rows(path.name, again))
    return in_memory(json_rows(path.name, again) if text.lstrip().startswith("[") else line_rows(again))


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write all rows to a file in one atomic step. Raise `ResourceError` if it cannot be written."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    with writable(path, "expected a file of yours"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "".join(lines).encode("utf-8", "surrogatepass"))
