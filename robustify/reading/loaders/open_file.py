"""Functions that open benchmark files and folders: they detect the type by content, check digests, and return rows.

Files that are not data are refused with their type: a Git LFS pointer, an archive, UTF-16, or an empty or binary file.
"""

import errno
import hashlib
import os
import re
from codecs import BOM_UTF8
from functools import partial
from pathlib import Path
from typing import BinaryIO

from robustify.base.errors import DataError, UsageError
from robustify.base.files import open_regular, sha256
from robustify.reading.loaders import tables
from robustify.reading.loaders.json_rows import (
    item_table,
    json_rows,
    line_rows,
    value_or_reason,
    whole_object,
)
from robustify.reading.loaders.rows import Members, SourceTable, Streamed, table_of

_PACKED = "compressed ({}). Unpack it first."
_SHEET = ". Save the sheet as CSV (UTF-8)."
_KINDS = {
    b"version https://git-lfs": "a Git LFS pointer, not the data. Run `git lfs pull`.",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": f"an old Office file, perhaps .xls{_SHEET}",
    b"\x1f\x8b": _PACKED.format("gzip"),
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd"),
    b"\xfd7zXZ\x00": _PACKED.format("xz"),
    b"BZh": _PACKED.format("bzip2"),
    b"7z\xbc\xaf": _PACKED.format("7z"),
}
_EVAL = "a zipped Inspect log (.eval). Convert it with `inspect log convert --to json --output-dir DIR FILE`."
_ZIPPED = {
    b"header.json": _EVAL,
    b"_journal/": _EVAL,
    b"opendocument.spreadsheet": f"a spreadsheet{_SHEET}",
    b"": "a zip archive. Unpack it first.",
}
_QUIZ_LINE = re.compile(rb"^(?:ANSWER:\s*[A-Z]\s*$|::.*::|[^{}\n]*\{\s*[=~])", re.MULTILINE)
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_HEAD = 4096
_LARGE, _FIRST_BYTES = 8 << 20, 1 << 20
"""Size from which a file of JSON Lines is streamed, and how much of it is looked at to see that it can be."""
_PARTS = [f"{at}*.{kind}" for at in ("", "*/", "*/*/") for kind in ("arrow", "parquet")]
_ZIP = b"PK\x03\x04"
_NUMBERED_PART = re.compile(r"[-_.]?\d*(-of-\d+)?$")


def open_rows(
    path: str, pinned: str | None = None, split: str | None = None, *, stream: bool = False
) -> tuple[SourceTable, str]:
    """Return the rows of a file or folder, and the SHA-256 digest of its bytes (of several files, that of their digests).

    If given, `pinned` is the required digest, and `split` names the split of a folder or the sheet of a workbook. With
    `stream`, the rows of a large file of JSON Lines with one item each stay in the file, and are `Streamed`. Raise
    `UsageError` if the path does not exist, is not a regular file, or is a folder without data files, or `split` is missing
    or is none of its splits, and `DataError` if the digest differs, or the file has no rows or cannot be read."""
    file = Path(path)
    if stream and split is None and (rows := _streamed(file)) is not None:
        digest = _require_pinned(file.name, sha256(file), pinned)
        return SourceTable(rows, rows.faults), digest
    data = _read(file)
    if data is None:
        return _open_folder(file, pinned, split)
    digest = _require_pinned(file.name, hashlib.sha256(data).hexdigest(), pinned)
    if data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        return tables.arrow_rows(file.name, [file]), digest
    if data.startswith(_ZIP) and b"xl/workbook" in data:
        return tables.sheet_rows(file.name, data, split), digest
    if split is not None:
        raise UsageError(
            f"{file.name} has no splits or sheets. Remove `--split` or `--sheet`, or `split` in the config."
        )
    if kind := _other_kind(data[:_HEAD], data):
        raise DataError(f"{file.name} is {kind}")
    if data.removeprefix(BOM_UTF8).lstrip().startswith(b"<"):
        return tables.xml_rows(file.name, data), digest
    # Decode invalid bytes to lone surrogates, so that every bad line can be named.
    text = data.decode("utf-8-sig", errors="surrogateescape")
    del data
    match text.lstrip()[:1]:
        case "":
            raise DataError(
                f"{file.name} is empty; expected items in JSON Lines, JSON, CSV, TSV, Parquet, or Arrow"
            )
        case "{" | "[":
            table = json_rows(file.name, text)
        case _:
            table = tables.block_rows(text) if tables.in_blocks(text) else tables.csv_rows(file.name, text)
    return table, digest


def _streamed(file: Path) -> Streamed | None:
    """Return the rows of a large file whose first lines are items in JSON Lines, or None."""
    try:
        with open_regular(file, follow=True) as opened:
            stamp = _stamp(opened)
            head = opened.read(_FIRST_BYTES)
    except (OSError, ValueError):
        return None
    if stamp[2] < _LARGE or _other_kind(head[:_HEAD], b""):
        return None
    first = head[: head.rfind(b"\n") + 1].decode("utf-8-sig", errors="surrogateescape")
    table = line_rows(first)
    one_item_a_line = (
        len(table.rows) > 1 and table.rows[0].number == 1 and item_table(file.name, table) is table
    )
    return Streamed(partial(_lines_of, file, stamp)) if one_item_a_line else None


def _stamp(file: BinaryIO) -> tuple[int, ...]:
    """Return what differs if an open file is not the same, or was written to."""
    at = os.fstat(file.fileno())
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns


def _lines_of(file: Path, stamp: tuple[int, ...]) -> Members:
    """Yield the lines of a file of JSON Lines, as `line_rows` reads them, without the whole file in memory. Raise
    `DataError` if the file does not have this stamp any more."""
    with open_regular(file, follow=True) as lines:
        for at, line in enumerate(lines, start=1):
            text = line.decode("utf-8-sig" if at == 1 else "utf-8", "surrogateescape").strip(" \t\r\n")
            if text:
                yield at, value_or_reason(text)
        if _stamp(lines) != stamp:
            raise DataError(f"{file.name} changed while it was read. Run the command again.")


def _require_pinned(name: str, digest: str, pinned: str | None) -> str:
    if pinned is not None and pinned.lower() != digest:
        raise DataError(
            f"{name}: sha256 is {digest}; expected {pinned.lower()}, which the config pins. Get the pinned version of "
            "the data, or update the config."
        )
    return digest


def _read(file: Path) -> bytes | None:
    """Return the bytes of a file, or None for a folder."""
    try:
        if file.is_dir():
            return None
        with open_regular(file, follow=True) as opened:
            return opened.read()
    except (OSError, ValueError) as error:
        kind = type(error).__name__
        match getattr(error, "errno", None):
            case errno.ENOENT if re.match("https?:/", str(file)):
                why = "the path is a URL; expected a file. Download it with `curl -LO URL` or `hf download`."
            case errno.ENOENT:
                why = f"{file} does not exist; expected a file of items or an Arrow folder"
            case errno.EINVAL:
                why = f"{file} is a pipe or device; expected a file of items"
            case None | errno.ENAMETOOLONG:
                # The path itself is wrong and may be item text, so do not repeat it.
                why = f"the path cannot be opened ({kind}); expected a file of items"
            case _:
                why = f"{file} cannot be read ({kind}). Check its permissions."
        raise UsageError(why) from None


def _other_kind(head: bytes, data: bytes) -> str | None:
    """Return the kind of a file that is no text of items, with what to do, or None."""
    # In UTF-16 without a byte-order mark, ASCII leaves every other byte zero.
    zeros, half = max(head[0::2].count(0), head[1::2].count(0)), len(head) // 2
    text = head.removeprefix(BOM_UTF8).lstrip()
    if head.startswith(_ZIP):
        return next(kind for sign, kind in _ZIPPED.items() if sign in data)
    if found := [kind for sign, kind in _KINDS.items() if text.startswith(sign)]:
        return found[0]
    if head.startswith(_WIDE_MARKS) or (half and zeros > half / 2):
        return "UTF-16 or UTF-32 text. Convert it with `iconv -f UTF-16 -t UTF-8`."
    if b"\x00" in head:
        return "a binary file; expected JSON Lines, JSON, CSV, TSV, Parquet, or Arrow"
    quiz = not text.startswith((b"{", b"[")) and _QUIZ_LINE.search(text)
    return tables.QUIZ.format("Aiken or GIFT?") if quiz else None


def _open_folder(folder: Path, pinned: str | None, split: str | None) -> tuple[SourceTable, str]:
    """Read the parts of a split of a folder, in order. The digest covers the digests of the parts."""
    splits: dict[str, list[Path]] = {}
    for file in sorted(file for glob in _PARTS for file in folder.glob(glob)):
        within = [*file.relative_to(folder).parent.parts, _NUMBERED_PART.sub("", file.stem)]
        splits.setdefault("/".join(part for part in within if part not in ("", "data")), []).append(file)
    # RACE has a file of JSON for each passage.
    splits = splits or {"": sorted([*folder.glob("*.txt"), *folder.glob("*.json")])}
    if split is None and len(splits) == 1:
        (split,) = splits
    if split not in splits:
        raise UsageError(
            f"{folder} has the splits {', '.join(filter(None, splits))}. Choose one with `--split NAME`, or "
            "`split: NAME` in the config."
        )
    files = splits[split]
    if not files:
        raise UsageError(
            f"{folder} is a folder without .arrow, .parquet, or JSON files. Give a file of items."
        )
    if len(files) == 1:
        return open_rows(str(files[0]), pinned)
    digest = _require_pinned(
        folder.name, hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest(), pinned
    )
    if files[0].suffix in (".arrow", ".parquet"):
        return tables.arrow_rows(folder.name, files), digest
    texts = (file.read_text("utf-8", "surrogateescape") for file in files)
    documents = [whole_object(file.name, text) for file, text in zip(files, texts, strict=True)]
    return table_of(enumerate(documents, start=1)), digest
