"""The texts of a set that is to be registered, read with the standard library.

Every JSON object of a list (or line) is an item, every row of a CSV or TSV file, every paragraph of a plain text.
All strings of an item count, whatever its layout: nothing here needs to know which one is the stem.
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from robustify.errors import DataError
from robustify.gate.decode.opening import regular

Texts = tuple[str, ...]
_MOST = 512 << 20


def read_items(path: Path) -> list[Texts]:
    """The items of a file, each as its strings. Raises `DataError` (exit 3) where it cannot be read."""
    try:
        text = regular(path, _MOST).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{str(path)!a} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{str(path)!a} is not UTF-8 text; expected JSON, JSONL, CSV, TSV or plain text, not a packed format"
        ) from None
    found = [item for item in _items(path, text) if item]
    if not found:
        raise DataError(f"{str(path)!a} holds no text to register")
    return found


def _items(path: Path, text: str) -> Iterator[Texts]:
    match path.suffix.lower():
        case ".json":
            yield from _records(_json(path, text, 1))
        case ".jsonl" | ".ndjson":
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    yield tuple(_strings(_json(path, line, number)))
        case ".csv" | ".tsv":
            delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
            csv.field_size_limit(1 << 30)
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
                yield tuple(cell for cell in row if cell.strip())
        case _:
            yield from ((part,) for part in text.split("\n\n") if part.strip())


def _json(path: Path, text: str, line: int) -> object:
    try:
        held: object = json.loads(text)
    except ValueError:
        raise DataError(f"{str(path)!a}:{line}: is not JSON; expected one value") from None
    except RecursionError:
        raise DataError(f"{str(path)!a}:{line}: is nested too deep") from None
    return held


def _records(held: object) -> Iterator[Texts]:
    """The records of a document: the members of its longest list of objects or lists, or the document itself."""
    lists = [held] if isinstance(held, list) else []
    if isinstance(held, dict):
        lists = [value for value in held.values() if isinstance(value, list) and value]
    longest = max(lists, key=len, default=[])
    if longest and all(isinstance(member, dict | list) for member in longest):
        for member in longest:
            yield tuple(_strings(member))
    else:
        yield tuple(_strings(held))


def _strings(held: object) -> Iterator[str]:
    match held:
        case str():
            yield held
        case dict():
            for value in held.values():
                yield from _strings(value)
        case list():
            for value in held:
                yield from _strings(value)
        case _:
            return
