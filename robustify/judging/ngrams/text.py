"""Words of texts and of text files, which are plain text or JSON Lines in UTF-8, gzipped or not."""

import gzip
import io
import json
import os
import re
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TextIO

from robustify.base.errors import DataError
from robustify.base.texts import in_words

BREAK = "\x01"
"""A word that separates unrelated texts."""
PIECE = 1 << 18
"""Approximate number of characters to read at once."""
_NO_SPACES = "\u3041-\u3096\u309d-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_DOCUMENT = re.compile(r'\s*(?:\[\s*[\[{"]|\{\s*")')
_WANTED = "expected plain text or JSON Lines in UTF-8, gzipped or not"


def search_words(text: str) -> list[str]:
    """Return the words of a text after NFKC and case folding. A Chinese character or a kana is a separate word."""
    return _pattern().findall(in_words(text))


@cache
def _pattern() -> re.Pattern[str]:
    marks = "".join(c for c in map(chr, range(0x300, 0x1F000)) if unicodedata.category(c).startswith("M"))
    return re.compile(rf"[{_NO_SPACES}]|(?:[^\W_{_NO_SPACES}]|[{marks}])+|{BREAK}")


def require_files(paths: Sequence[Path]) -> None:
    """Check that every path is a nonempty file, before any file is read. Raise `DataError` with one line for each fault."""
    if bad := [path for path in paths if not (os.path.isfile(path) and os.path.getsize(path))]:
        raise DataError.gather(
            [f"{path} does not exist, is not a regular file, or is empty; {_WANTED}." for path in bad]
        )


def texts(path: Path) -> Iterator[str]:
    """Yield pieces of plain text, or the `text` field of each JSON line (all values if there is no such field).

    A `BREAK` follows each JSON line. Raises `DataError` if the file is empty, damaged, binary, not UTF-8, or other JSON.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            yield from _texts(path, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="\n"))
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; {_WANTED} (run `iconv -t UTF-8`).") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged or unreadable ({type(error).__name__}); {_WANTED}.") from None


def _texts(path: Path, text: TextIO) -> Iterator[str]:
    head = next((line for line in iter(partial(text.readline, PIECE), "") if line.strip()), "")
    if not head or "\0" in head or head.startswith("version https://git-lfs"):
        raise DataError(f"{path} contains only white space, is binary, or is a Git LFS pointer; {_WANTED}.")
    if head.lstrip().startswith("{") and not head.endswith("\n"):
        head += text.readline()
    if _record(head) is None:
        head += text.readline(PIECE)
        if _DOCUMENT.match(head):
            raise DataError(f"{path} is JSON without an object on its first line; {_WANTED} (run `jq -c`).")
        while more := text.read(PIECE):
            at = max(more.rfind(" "), more.rfind("\n")) + 1
            yield head + more[:at]
            head = more[at:]
        yield head
        return
    n_faults = 0
    for line in chain([head], text):
        record = _record(line)
        n_faults += bool(record is None and line.strip())
        if record is not None:
            whole = record.get("text")
            yield whole if isinstance(whole, str) else " ".join(_values(record))
            yield BREAK
    if n_faults:
        raise DataError(f"{path}: {n_faults} lines are not JSON objects; expected one object per line.")


def _values(value: object) -> Iterator[str]:
    match value:
        case dict() | list():
            members = value.values() if isinstance(value, dict) else value
            yield from chain.from_iterable(map(_values, members))
        case str() | int() | float():
            yield str(value)


def _record(line: str) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
