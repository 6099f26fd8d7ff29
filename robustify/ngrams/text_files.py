"""The text of a file that a user names, handed out piece by piece, so that no file is too big.

Plain text or JSON lines, gzipped or not, recognised by content, never by name. Anything else is refused by its path,
with what to do about it; no text of the file gets into a message.
"""

import errno
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from robustify.errors import DataError
from robustify.files import open_regular
from robustify.ngrams.search import BREAK

CHUNK = 1 << 18
"""Characters of a piece, about: as many as a processor keeps at hand."""
LONGEST_LINE = 1 << 24
LONGEST_WORD = 1 << 16

_HEAD = 4096
_GZIP = b"\x1f\x8b"
_MOST_FAULTS = 20
_LFS = "version https://git-lfs"
_DOCUMENT = re.compile(r'\s*(?:\[\s*[\[{"]|\{\s*")')
_WANTED = "expected plain text or JSON lines in UTF-8, gzipped or not"


def require_files(paths: Sequence[Path]) -> None:
    """Refuse, before anything is read, what is no file: missing, a folder, a pipe, unreadable or empty.

    Raises:
        DataError: all of them, a line each.
    """
    faults = [f"{path}: {fault}" for path in paths if (fault := _no_file(path)) is not None]
    if faults:
        raise DataError.gather(faults)


def read_text(
    path: Path, see: Callable[[str], None], progress: Callable[[int], None] | None = None
) -> tuple[str, int]:
    """Hand the file's text to `see` in pieces of bounded length; its sha256 and size in bytes.

    A piece ends between two words. Of a JSON line it is the `text`, or where there is none the values of all
    fields in their order; a `BREAK` follows. `progress` is called with the bytes read since its last call.

    Raises:
        DataError: no file, nothing but white space in it, damaged, binary, not UTF-8, or JSON of another form.
    """
    require_files([path])
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            tapped = _Tapped(raw)
            stream = io.BufferedReader(tapped, CHUNK)
            inner = gzip.GzipFile(fileobj=stream) if packed else stream
            text = io.TextIOWrapper(inner, encoding="utf-8-sig", newline="\n")
            reported = 0
            for piece in _pieces(_fragments(path, text)):
                see(piece)
                if progress is not None:
                    progress(tapped.size - reported)
                    reported = tapped.size
            return tapped.digest.hexdigest(), tapped.size
    except UnicodeDecodeError:
        raise DataError(
            f"{path}: is not UTF-8 text; {_WANTED} (unpack it, or run `iconv -t UTF-8`)"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{path}: is a damaged gzip file; expected a whole one: fetch it again") from None
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({type(error).__name__}); expected a readable file"
        ) from None


class _Tapped(io.RawIOBase):
    """A file whose bytes are hashed and counted on their way to the reader."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.digest = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        self.size += len(data)
        return len(data)


def _no_file(path: Path) -> str | None:
    try:
        if path.is_dir():
            return "is a folder; expected a text file: name the files in it"
        with open_regular(path, follow=True) as raw:
            return None if raw.read(1) else "empty; expected a text file"
    except FileNotFoundError:
        return "no such file; expected a text file"
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.EINVAL:
            return "no regular file (a pipe or device); expected a text file"
        return f"cannot be read ({type(error).__name__}); expected a readable text file"


def _pieces(fragments: Iterable[str]) -> Iterator[str]:
    """The same text in pieces of at least `CHUNK` characters (but for the last) that end between two words."""
    parts: list[str] = []
    size = 0
    for fragment in fragments:
        parts.append(fragment)
        size += len(fragment)
        if size < CHUNK:
            continue
        whole, rest = _cut("".join(parts))
        yield whole
        parts, size = [rest], len(rest)
    yield "".join(parts)


def _cut(text: str) -> tuple[str, str]:
    if text[-1].isspace():
        return text, ""
    rest = text.rsplit(None, 1)[-1]
    # What goes on for that long is no word: without a cut it would be kept for ever.
    return (text, "") if len(rest) > LONGEST_WORD else (text[: len(text) - len(rest)], rest)


def _fragments(path: Path, text: TextIO) -> Iterator[str]:
    number, line = _opening(text)
    if not line:
        raise DataError(f"{path}: holds white space alone; {_WANTED}")
    if "\x00" in line[:_HEAD]:
        raise DataError(f"{path}: is a binary file; {_WANTED}")
    if line.startswith(_LFS):
        raise DataError(f"{path}: is a Git LFS pointer, not the text: run `git lfs pull`")
    if isinstance(_parsed(line), dict):
        yield from _documents(path, text, number, line)
        return
    second = text.readline(_HEAD)
    if _DOCUMENT.match(line[:_HEAD] + second):
        raise DataError(
            f"{path}: is JSON, but no object stands whole on its first line; {_WANTED} (run `jq -c`)"
        )
    yield from _slices(line + second)
    while fragment := text.read(CHUNK):
        yield fragment


def _opening(text: TextIO) -> tuple[int, str]:
    """The first line that is not blank and its number; only one that may be an object is read to a far end."""
    number = 0
    while line := text.readline(CHUNK):
        number += 1
        if line.strip():
            return number, line + text.readline(LONGEST_LINE - len(line)) if _goes_on(line) else line
    return number, ""


def _goes_on(line: str) -> bool:
    return line.lstrip().startswith("{") and not line.endswith("\n")


def _documents(path: Path, text: TextIO, number: int, line: str) -> Iterator[str]:
    faults: list[str] = []
    while line and len(faults) < _MOST_FAULTS:
        record = _parsed(line)
        if len(line) >= LONGEST_LINE and not line.endswith("\n"):
            faults.append(
                f"{path}:{number}: longer than {LONGEST_LINE} characters; expected a document a line"
            )
            break
        if isinstance(record, dict):
            whole = record.get("text")
            yield from _slices(whole if isinstance(whole, str) else " ".join(_texts(record)))
            yield f" {BREAK} "
        elif line.strip():
            faults.append(
                f"{path}:{number}: no JSON object; expected one a line, with the text in its fields"
            )
        line = text.readline(LONGEST_LINE)
        number += 1
    if faults:
        raise DataError.gather(faults)


def _texts(value: object) -> Iterator[str]:
    match value:
        case dict():
            for member in value.values():
                yield from _texts(member)
        case list():
            for member in value:
                yield from _texts(member)
        case str() | int() | float():
            yield str(value)


def _slices(text: str) -> Iterator[str]:
    return (text[i : i + CHUNK] for i in range(0, len(text), CHUNK))


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
