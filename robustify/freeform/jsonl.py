"""Rows of a file, and JSON lines that survive a kill: each row reaches the disk before the next is made.

One JSON array and CSV with a header are read too, because other evaluations write them.
A last line that was cut off in the middle is dropped and made again; a damaged line anywhere else refuses the file.
"""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from robustify.errors import DataError
from robustify.files import writable, write_atomic

T = TypeVar("T")
Append = Callable[[Mapping[str, Any]], None]
_MEND = "expected a file of yours"


def read_jsonl(path: Path, kind: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Every row of a file, each passed to `kind`; all faults at once.

    Raises:
        DataError: the file is missing or has a line that is no row of this kind.
    """
    rows, faults = [], []
    for number, row in enumerate(rows_of(path), start=1):
        if not isinstance(row, dict):
            faults.append(f"{path.name}:{number}: no JSON object; expected one a line")
            continue
        try:
            rows.append(kind(row))
        except DataError as fault:
            faults.append(f"{path.name}:{number}: {fault.lines[0]}")
    if faults:
        raise DataError.gather(faults)
    return rows


def rows_of(path: Path) -> list[Any]:
    """What stands on each line, in each place of a single array, or in each row of a table."""
    text = _text(path)
    if path.suffix.lower() == ".csv":
        return list(csv.DictReader(io.StringIO(text, newline="")))
    if text.lstrip().startswith("[") and isinstance(whole := _decoded(text), list):
        return whole
    *lines, last = text.split("\n")
    # A last line without its end may have been cut off.
    return [_decoded(line) for line in lines if line.strip()] + [
        row for row in [_decoded(last)] if row is not None
    ]


def _decoded(line: str) -> Any:
    """The value of a line; None for what is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig", "surrogatepass")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); expected a file of JSON lines") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: no UTF-8 at byte {error.start}; expected UTF-8") from None


@contextmanager
def appending(path: Path, *, private: bool = False) -> Iterator[Append]:
    """Append rows, each on the disk before the call returns; what a kill cut off is dropped first.

    `private`: nobody but the owner may read the file.

    Raises:
        ResourceError: the file cannot be written.
    """
    with writable(path, _MEND):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab+") as file:
            if private:
                os.fchmod(file.fileno(), 0o600)
            _drop_cut_line(file)

            def append(row: Mapping[str, Any]) -> None:
                file.write(_line(row))
                file.flush()
                os.fsync(file.fileno())

            yield append


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], *, private: bool = False) -> None:
    """A whole file of rows in one step; `private`: nobody but the owner may read it.

    Raises:
        ResourceError: it cannot be written.
    """
    with writable(path, _MEND):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, b"".join(map(_line, rows)), private=private)


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "surrogatepass")


def _drop_cut_line(file: Any) -> None:
    file.seek(0)
    whole = file.read()
    place = whole.rfind(b"\n") + 1
    if place < len(whole):
        if _decoded(whole[place:].decode("utf-8", "replace")) is None:
            file.truncate(place)
        else:
            file.write(b"\n")
