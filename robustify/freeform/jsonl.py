"""JSON lines that survive a kill: rows are appended one by one and reach the disk before the next is made.

A last line that was cut off in the middle is dropped and made again; a damaged line anywhere else refuses the file.
Whole files are written beside their place and moved in.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from robustify.errors import DataError, ResourceError

T = TypeVar("T")
Append = Callable[[Mapping[str, Any]], None]


def read_rows(path: Path, kind: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Every row of a file, made into what it holds; all faults at once.

    Raises:
        DataError: the file is missing or has a line that is no row of this kind.
    """
    rows, faults = [], []
    for number, line in enumerate(_lines(path), start=1):
        row = _object(line)
        if row is None:
            faults.append(f"{path.name}:{number}: no JSON object; expected one a line")
            continue
        made = _made(row, kind)
        if isinstance(made, DataError):
            faults.append(f"{path.name}:{number}: {made.lines[0]}")
        else:
            rows.append(made)
    if faults:
        raise DataError.gather(faults)
    return rows


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _made(row: Mapping[str, Any], kind: Callable[[Mapping[str, Any]], T]) -> T | DataError:
    try:
        return kind(row)
    except DataError as fault:
        return fault


def row_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row as it stands."""
    return row


@contextmanager
def appending(path: Path, *, private: bool = False) -> Iterator[Append]:
    """Append rows, each on the disk before the call returns; what a kill cut off is dropped first.

    `private`: nobody but the owner may read the file.

    Raises:
        ResourceError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab+") as file:
            if private:
                os.fchmod(file.fileno(), 0o600)
            _drop_cut_line(file)

            def append(row: Mapping[str, Any]) -> None:
                line = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
                file.write(line.encode("utf-8", "surrogatepass"))
                file.flush()
                os.fsync(file.fileno())

            yield append
    except OSError as error:
        raise ResourceError(
            f"{path}: cannot be written ({error.strerror}); expected a file of yours"
        ) from None


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], *, private: bool = False) -> None:
    """A whole file of rows, moved into its place when it is on the disk; `private`: for its owner's eyes alone.

    Raises:
        ResourceError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.writing")
    try:
        beside.unlink(missing_ok=True)
        with appending(beside, private=private) as append:
            for row in rows:
                append(row)
        os.replace(beside, path)
    except OSError as error:
        raise ResourceError(
            f"{path}: cannot be written ({error.strerror}); expected a file of yours"
        ) from None


def _lines(path: Path) -> list[str]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); expected a file of JSON lines") from None
    try:
        text = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: no UTF-8 at byte {error.start}; expected UTF-8") from None
    lines = text.split("\n")
    # Only a line with its end was written whole.
    return [line for line in lines[:-1] if line.strip()] + ([lines[-1]] if _whole(lines[-1]) else [])


def _whole(line: str) -> bool:
    if not line.strip():
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _drop_cut_line(file: Any) -> None:
    file.seek(0, os.SEEK_END)
    size = place = file.tell()
    while place:
        start = max(0, place - 65_536)
        file.seek(start)
        end = file.read(place - start).rfind(b"\n")
        if end >= 0:
            place = start + end + 1
            break
        place = start
    if place < size:
        file.seek(place)
        last = file.read(size - place)
        if _whole(last.decode("utf-8", "replace")):
            file.write(b"\n")
        else:
            file.truncate(place)
