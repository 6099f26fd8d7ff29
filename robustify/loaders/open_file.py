"""Opens a benchmark file: what kind it is (by its first bytes, never by its name), its digest, its rows.

Refuses by name what is no data: a Git LFS pointer, an archive, UTF-16, something empty or binary.
"""

import errno
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robustify.errors import DataError, UsageError
from robustify.files import open_regular, sha256
from robustify.loaders.json_rows import json_rows
from robustify.loaders.rows import SourceTable
from robustify.loaders.tables import arrow_rows, block_rows, csv_rows, in_blocks

_ARCHIVES = (
    (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"),
    (b"7z\xbc\xaf", "7z"),
)  # fmt: skip
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_LFS = b"version https://git-lfs"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
HEAD = 4096


@dataclass(frozen=True, slots=True, repr=False)
class Opened:
    """A file's rows and the digest of its bytes (of a folder with several data files: of their digests)."""

    table: SourceTable
    sha256: str


def open_rows(path: str, pinned: str | None = None) -> Opened:
    """The rows of the file or Arrow folder at `path`; `pinned` is the sha256 it must have.

    Raises:
        UsageError: no such path, a folder without data files, something that is no regular file.
        DataError: another digest, a file that holds no rows, or none that can be read.
    """
    file = Path(path)
    data = _read(file)
    if data is None:
        return _open_folder(file, pinned)
    digest = require_pinned(file.name, hashlib.sha256(data).hexdigest(), pinned)
    return Opened(_rows(file, data), digest)


def open_parts(name: str, files: Sequence[Path], pinned: str | None = None) -> Opened:
    """The rows of one file, or of the Parquet or Arrow parts of one data set in their order.
    Raises `UsageError` or `DataError`: as `open_rows`."""
    if len(files) == 1:
        return open_rows(str(files[0]), pinned)
    digests = "".join(map(sha256, files))
    whole = require_pinned(name, hashlib.sha256(digests.encode()).hexdigest(), pinned)
    return Opened(arrow_rows(name, files), whole)


def require_pinned(name: str, digest: str, pinned: str | None) -> str:
    """The digest of the file of this name. Raises `DataError`: it is not the one that is pinned."""
    if pinned is not None and pinned.lower() != digest:
        raise DataError(f"{name}: sha256 is {digest}; expected {pinned.lower()}, as the config pins it")
    return digest


def _read(file: Path) -> bytes | None:
    """The bytes of a file; None for a folder."""
    try:
        if file.is_dir():
            return None
        with open_regular(file, follow=True) as opened:
            return opened.read()
    except (OSError, ValueError) as error:
        kind = type(error).__name__
        match getattr(error, "errno", None):
            case errno.ENOENT:
                why = f"{file}: no such file; expected a file of items or an Arrow folder"
            case errno.EINVAL:
                why = f"{file}: no regular file (a pipe or device); expected a file of items"
            case None | errno.ENAMETOOLONG:
                # The path itself is what is wrong, so it is not repeated.
                why = f"path cannot be opened ({kind}); expected a file of items"
            case _:
                why = f"{file}: cannot be read ({kind}); expected a readable file"
        raise UsageError(why) from None


def _rows(file: Path, data: bytes) -> SourceTable:
    if data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        return arrow_rows(file.name, [file])
    _refuse(file.name, data[:HEAD], data)
    # Bytes that are not UTF-8 survive as lone surrogates, so that every bad line can be named.
    text = data.decode("utf-8-sig", errors="surrogateescape")
    start = text.lstrip()[:1]
    if not start:
        raise DataError(f"{file.name}: empty; expected items (JSON Lines, JSON, CSV, TSV, Parquet or Arrow)")
    if start in "{[":
        return json_rows(file.name, text)
    return block_rows(text) if in_blocks(text) else csv_rows(file.name, text)


def _refuse(name: str, head: bytes, data: bytes) -> None:
    if head.startswith(_LFS):
        raise DataError(f"{name}: is a Git LFS pointer, not the data: run `git lfs pull`")
    if head.startswith(b"PK\x03\x04"):
        if b"header.json" in data or b"_journal/" in data:
            raise DataError(
                f"{name}: is a zipped Inspect log (.eval); expected its JSON form: "
                "run `inspect log convert --to json --output-dir DIR FILE`"
            )
        if b"xl/workbook" in data or b"opendocument.spreadsheet" in data[:HEAD]:
            raise DataError(f"{name}: is a spreadsheet; expected a data file: save its sheet as CSV (UTF-8)")
        raise DataError(f"{name}: is a zip archive; expected a data file: unpack it first")
    if head.startswith(_OLE):
        raise DataError(
            f"{name}: is an old Office file (.xls?); expected a data file: save its sheet as CSV (UTF-8)"
        )
    for mark, kind in _ARCHIVES:
        if head.startswith(mark):
            raise DataError(f"{name}: is compressed ({kind}); expected a data file: unpack it first")
    # UTF-16 without its mark: mostly ASCII leaves every other byte zero.
    zeros, half = max(head[0::2].count(0), head[1::2].count(0)), len(head) // 2
    if head.startswith(_WIDE_MARKS) or (half and zeros > half / 2):
        raise DataError(f"{name}: is UTF-16 or UTF-32; expected UTF-8: run `iconv -f UTF-16 -t UTF-8`")
    if b"\x00" in head:
        raise DataError(f"{name}: is a binary file; expected JSON Lines, JSON, CSV, TSV, Parquet or Arrow")


def _open_folder(folder: Path, pinned: str | None) -> Opened:
    files = sorted(folder.glob("*.arrow")) or sorted(folder.glob("*.parquet"))
    if not files:
        split = (folder / "dataset_dict.json").is_file()
        mend = "give one of its split folders" if split else "give a file in it"
        raise UsageError(
            f"{folder}: is a folder without .arrow or .parquet files; expected a file of items: {mend}"
        )
    return open_parts(folder.name, files, pinned)
