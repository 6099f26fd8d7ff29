"""Read rows of JSON lines, of one JSON array, or of CSV with a header; every fault is reported at once."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from robustify.errors import DataError
from robustify.files import writable, write_atomic

T = TypeVar("T")


def read_jsonl(path: Path, kind: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Return every row of a file, each passed to `kind`.

    Raises:
        DataError: the file is missing or has a line that is not a row of this kind.
    """
    rows, faults = [], []
    for number, row in enumerate(rows_of(path), start=1):
        if not isinstance(row, dict):
            faults.append(f"{path.name}:{number}: not a JSON object; expected one per line")
            continue
        try:
            rows.append(kind(row))
        except DataError as fault:
            faults.append(f"{path.name}:{number}: {fault.lines[0]}")
    if faults:
        raise DataError.gather(faults)
    return rows


def rows_of(path: Path) -> list[Any]:
    """Return the values of a file, one per line, array entry or table row."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "surrogatepass")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); expected a file of JSON lines") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; expected UTF-8") from None
    if path.suffix.lower() == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    if text.lstrip().startswith("[") and isinstance(whole := _decoded(text), list):
        return whole
    return [_decoded(line) for line in text.split("\n") if line.strip()]


def _decoded(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole file of rows in one step; raise `ResourceError` if it cannot be written."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    with writable(path, "expected a file of yours"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "".join(lines).encode("utf-8", "surrogatepass"))
