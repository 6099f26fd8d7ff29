"""Functions that open benchmark files and folders, detect types by content, check digests, and return rows.

Files that are not data are refused with their type: a Git LFS pointer, an archive, UTF-16, or an empty or binary file.
Errors about damaged Parquet or Arrow files do not repeat pyarrow's message, because it can contain values.
"""

import errno
import hashlib
import io
import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, TextIO

from robustify.base.compressed import plain_path, unpacked, unpacked_size
from robustify.base.errors import DataError, Notice, UsageError
from robustify.base.files import open_regular, sha256
from robustify.base.redaction import HoldsText
from robustify.base.settings_files import read_yaml
from robustify.reading import records
from robustify.reading.loaders import special_layouts
from robustify.reading.loaders.loaded import FieldMap, TaskDocument
from robustify.reading.loaders.rows import (
    Again,
    Cells,
    SourceTable,
    Text,
    in_memory,
    streamed,
    table_of,
    whole_text,
)
from robustify.reading.marks.labelling import COUNTED, LETTERS

_COMPRESSED = {
    b"\x1f\x8b": "gzip -d",
    b"\x28\xb5\x2f\xfd": "zstd -d",
    b"\xfd7zXZ\x00": "xz -d",
    b"BZh": "bzip2 -d",
    b"7z\xbc\xaf": "7z x",
}
"""Commands that unpack compressed files, by the bytes with which such a file begins."""
_SHEET = ". Save the sheet as CSV (UTF-8)."
_TABLE = ". Save its questions as CSV with the columns question, A, B, C, D, and answer."
_KINDS = {
    b"version https://git-lfs": Notice(
        "a Git LFS pointer, not the data. Run `git lfs pull`.", code="git-lfs-pointer"
    ),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": Notice(
        f"an old Office file, perhaps .xls{_SHEET}", code="old-office-file"
    ),
    b"SQLite format 3": Notice(
        "an SQLite database. Write the table of questions to a CSV file, for example with `sqlite3 -header -csv`.",
        code="sqlite-file",
    ),
    b"%PDF": Notice(f"a PDF document{_TABLE}", code="document-file"),
    b"{\\rtf": Notice(f"a text document (RTF){_TABLE}", code="document-file"),
    **{
        sign: Notice(f"compressed. Unpack it with `{command}`.", code="compressed-file")
        for sign, command in _COMPRESSED.items()
    },
}
_EVAL = Notice(
    "a zipped Inspect log (.eval). Convert it with `inspect log convert --to json --output-dir DIR FILE`.",
    code="zipped-inspect-log",
)
_ZIPPED = {
    b"header.json": _EVAL,
    b"_journal/": _EVAL,
    b"opendocument.spreadsheet": Notice(f"a spreadsheet{_SHEET}", code="opendocument-sheet"),
    b"word/document.xml": Notice(f"a Word document{_TABLE}", code="document-file"),
    b"opendocument.text": Notice(f"a text document{_TABLE}", code="document-file"),
    b"collection.anki2": Notice(f"a package of Anki{_TABLE}", code="quiz-export"),
    b"": Notice("a zip archive. Unpack it first.", code="zip-archive"),
}
_XML = f"XML, such as a Moodle quiz{_TABLE}"
_FORMS = {
    rb"^(?:ANSWER:\s*[A-Z]\s*$|::.*::|[^{}\n]*\{\s*[=~])": Notice(
        f"a quiz export (Aiken or GIFT?){_TABLE}", code="quiz-export"
    ),
    rb"^NewQuestion,": Notice(f"a quiz export (Brightspace){_TABLE}", code="quiz-export"),
    rb"\A(?:MC|MA|TF|ESS)\t": Notice(f"a quiz export (Blackboard){_TABLE}", code="quiz-export"),
    rb"\A#separator:": Notice(f"an export of Anki{_TABLE}", code="quiz-export"),
    rb"^\s*[-*+] \[[ xX]\] ": Notice(f"a quiz in Markdown{_TABLE}", code="quiz-export"),
    rb"\A(?:export default|(?:[\w.]+\s+){0,3}[\w.]+(?::[^=\n]*)?\s*=)\s*[\[{]": Notice(
        "program code. Save only its list of questions, as JSON.", code="program-code"
    ),
    rb"\A(?://|/\*)": Notice(
        "JSON with comments, or program code. Remove all but the JSON.", code="program-code"
    ),
    rb"(?:\A\[|^\[\[)[A-Za-z_][\w.-]*\]{1,2}\s*$": Notice(
        "TOML. Save it as YAML or JSON, or with a table as CSV.", code="toml-file"
    ),
}
"""Patterns at the start of texts in forms that robustify does not read."""
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_HEAD = 4096
_LARGE = 8 << 20
"""Bytes from which rows are read again at every pass, because in memory they take several times the size of the file."""
_BATCH = 4096
"""Rows of a Parquet or Arrow file that become objects together."""
_ASCII_SPACE = " \t\n\r\v\f"
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True, repr=False)
class NamedSet(HoldsText):
    """Rows of a set that a harness loaded by name, and their digest. If the harness has the keys, `fields` map the rows,
    and `keyed_by` names the source of the keys. `origin` says what was loaded. `documents` are those of lm-eval."""

    table: SourceTable
    sha256: str
    fields: FieldMap | None = None
    keyed_by: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)
    documents: tuple[TaskDocument, ...] = ()


def open_rows(
    path: str, pinned: str | None = None, split: str | None = None, *, stream: bool = False
) -> tuple[SourceTable, str]:
    """Return the rows of a file or folder, and its SHA-256 digest. Several files have a digest of their digests.

    If given, `pinned` is the required digest, and `split` names the split of a folder or the sheet of a workbook. With
    `stream`, the rows of large files are read again at every pass. Raise `UsageError` if the path does not exist, is not a
    regular file, or is a folder without data files, or `split` is missing or is none of its splits, and `DataError` if the
    digest differs, or the file has no rows or cannot be read."""
    if os.path.isdir(path):
        from robustify.reading.loaders.folders import split_files

        files, split = split_files(Path(path), split), None
    else:
        files = [Path(path)]
    name = files[0].name if len(files) == 1 else Path(path).name
    openers = [*map(_opener, files)]
    opened = [(file.name, again) for file, (again, _) in zip(files, openers, strict=True)]
    digest = joined_digest([*map(sha256, files)])
    require_digest(name, digest, pinned)
    if len(files) == 1:
        table = _table_of(*opened[0], split)
    elif files[0].suffix in (".arrow", ".parquet"):
        table = arrow_rows(name, opened)
    else:
        from robustify.reading.loaders.json_rows import whole_object

        texts = ((file_name, whole_text(partial(_decoded, again))) for file_name, again in opened)
        table = table_of(enumerate((whole_object(*text) for text in texts), start=1))
    large = stream and sum(size for _, size in openers) >= _LARGE
    return table if large else in_memory(table), digest


def joined_digest(digests: Sequence[str]) -> str:
    """Return the only digest, or the SHA-256 digest of several digests."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def require_digest(name: str, digest: str, pinned: str | None) -> None:
    """Raise `DataError` if a digest is pinned and the data have a different digest."""
    if pinned is not None and pinned.lower() != digest:
        raise DataError(
            f"{name}: sha256 is {digest}; expected {pinned.lower()}, which the config pins. Get the pinned version of "
            "the data, or update the config.",
            code="digest-differs",
        )


def _opener(file: Path) -> tuple[Again, int]:
    """Return a function that opens a file again, and the number of bytes in the file. The function refuses a file
    that was replaced or modified."""
    try:
        with open_regular(file, follow=True) as opened:
            status = os.fstat(opened.fileno())
            return partial(_again, file, _stamp(status)), unpacked_size(file.name, opened)
    except (OSError, ValueError) as error:
        kind = type(error).__name__
        match getattr(error, "errno", None):
            case errno.ENOENT if re.match("https?:/", str(file)):
                text = "the path is a URL; expected a file. Download it with `curl` or `hf download`."
                fault = Notice(text, code="path-is-url")
            case errno.ENOENT:
                text = f"{file} does not exist; expected a file of items, or a folder of tables or of an Arrow set"
                fault = Notice(text, code="no-such-file")
            case errno.EINVAL:
                text = f"{file} is a pipe or device; expected a file of items"
                fault = Notice(text, code="not-a-regular-file")
            case None | errno.ENAMETOOLONG:
                # The path itself is wrong and may be item text, so do not repeat it.
                text = f"the path cannot be opened ({kind}); expected a file of items"
                fault = Notice(text, code="invalid-path")
            case _:
                text = f"{file} cannot be read ({kind}). Check its permissions."
                fault = Notice(text, code="file-not-readable")
        raise UsageError(fault, code=fault.code) from None


def text_of(file: Path) -> str:
    """Return the text of a file, unpacked if it is compressed. Raises the same errors as `open_rows`."""
    return whole_text(partial(_decoded, _opener(file)[0]))


@contextmanager
def _again(file: Path, stamp: tuple[int, ...]) -> Iterator[IO[bytes]]:
    """Open a file, and unpack it if it is compressed. Raise `DataError` at the end if the file no longer has this stamp."""
    with open_regular(file, follow=True) as opened, unpacked(opened) as content:
        yield content
    if _stamp(os.stat(file)) != stamp:
        raise DataError(f"{file.name} changed while it was read. Run the command again.", code="file-changed")


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return a stamp that changes if a file is replaced or modified."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _decoded(again: Again, newline: str) -> Iterator[TextIO]:
    """Open a file as text. Invalid bytes become lone surrogates, so that every bad line can be named."""
    with again() as opened:
        yield io.TextIOWrapper(opened, "utf-8-sig", "surrogateescape", newline)


def _table_of(name: str, again: Again, split: str | None) -> SourceTable:
    """Return the rows of a file of any type, which its content tells. `split` may name a sheet."""
    with again() as opened:
        head = opened.read(_HEAD)
        data = head + opened.read() if head.startswith(_ZIP) else b""
    if head.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        return arrow_rows(name, [(name, again)])
    if b"xl/workbook" in data:
        from robustify.reading.sheets import sheet_rows

        return sheet_rows(name, data, split)
    if split is not None:
        raise UsageError(
            f"{name} has no splits or sheets. Remove `--split` or `--sheet`, or `split` in the config.",
            code="no-splits",
        )
    if kind := _other_kind(head, data):
        raise DataError(f"{name} is {kind}", code=kind.code)
    text = partial(_decoded, again)
    if _begin(text, _ASCII_SPACE) == "<":
        raise DataError(f"{name} is {_XML}", code="xml-file")
    match _begin(text):
        case "":
            raise DataError(
                f"{name} is empty; expected items in JSON Lines, JSON, CSV, TSV, Parquet, or Arrow",
                code="empty-file",
            )
        case "{" | "[":
            from robustify.reading.loaders.json_rows import json_rows

            return json_rows(name, text)
        case _ if plain_path(Path(name)).suffix in (".yaml", ".yml"):
            from robustify.reading.loaders.json_rows import document_rows

            return document_rows(
                name,
                read_yaml(whole_text(text).encode("utf-8", "surrogateescape"), name, "items", texts=True),
            )
        case _ if special_layouts.in_blocks(text):
            return special_layouts.block_rows(whole_text(text))
    return records.csv_rows(name, text)


def _begin(text: Text, space: str | None = None) -> str:
    """Return the first character of a text that is not white space, or "" if there is none."""
    with text("\n") as lines:
        return next((bare[0] for line in lines if (bare := line.lstrip(space))), "")


def _other_kind(head: bytes, data: bytes) -> Notice | None:
    """Return the type of a file that robustify cannot read, usually with advice, or None if the file looks readable."""
    # In UTF-16 without a byte-order mark, ASCII leaves every other byte zero.
    (few, zeros), half = sorted((head[0::2].count(0), head[1::2].count(0))), len(head) // 2
    text = head.removeprefix(BOM_UTF8).lstrip()
    if head.startswith(_ZIP):
        return next(kind for sign, kind in _ZIPPED.items() if sign in data)
    if kinds := [kind for sign, kind in _KINDS.items() if text.startswith(sign)]:
        return kinds[0]
    if head[257:262] == b"ustar":
        return Notice("a tar archive. Unpack it first.", code="tar-archive")
    if head.startswith(_WIDE_MARKS) or (half and few < half / 10 and zeros > half / 2):
        return Notice("UTF-16 or UTF-32 text. Convert it with `iconv -f UTF-16 -t UTF-8`.", code="utf-16")
    if b"\x00" in head:
        text_ = "a binary file; expected JSON Lines, JSON, CSV, TSV, Parquet, or Arrow. Save it in one of these forms."
        return Notice(text_, code="binary-file")
    if text.startswith(b"{") or (text.startswith(b"[") and not text.lstrip(b"[")[:1].isalpha()):
        return None
    return next((kind for form, kind in _FORMS.items() if re.search(form, text, re.MULTILINE)), None)


def arrow_rows(name: str, files: Sequence[tuple[str, Again]]) -> SourceTable:
    """Read the rows of Parquet or Arrow files, in the order of `files`. An Arrow file can be a stream, as `save_to_disk`
    writes. Raise `DataError` if a file cannot be read or there are no rows."""
    table = streamed(
        lambda: enumerate(chain.from_iterable(_arrow_cells(*file) for file in files), start=1), flat=True
    )
    if not table.rows:
        raise DataError(f"{name} has no rows; expected items", code="no-rows")
    return table


def _arrow_cells(name: str, again: Again) -> Iterator[Cells]:
    # Importing pyarrow takes a quarter of a second, so only import it if needed.
    import pyarrow as pa
    import pyarrow.parquet

    with again() as file:
        head = file.read(4)
        file.seek(0)
        try:
            match head:
                case b"PAR1":
                    batches = pa.parquet.ParquetFile(
                        file, buffer_size=1 << 20, pre_buffer=False
                    ).iter_batches(_BATCH)
                case b"ARRO":
                    opened = pa.ipc.open_file(file)
                    batches = map(opened.get_batch, range(opened.num_record_batches))
                case _:
                    batches = pa.ipc.open_stream(file)
            for batch in batches:
                named, plain = _class_names(batch.schema.metadata), _plain_forms(batch.schema)
                for start in range(0, batch.num_rows, _BATCH):
                    for cells in batch.slice(start, _BATCH).to_pylist():
                        for name, form in plain.items():
                            cells[name] = None if cells[name] is None else form(cells[name])
                        yield {**cells, **dict(_in_words(cells, named))} if named else cells
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
            kind = "Parquet" if head == b"PAR1" else "Arrow"
            raise DataError(
                f"{name}: the {kind} file cannot be read ({type(error).__name__}) and may be incomplete. "
                "Get a new copy.",
                code="unreadable-arrow",
            ) from None


def _plain_forms(schema: Any) -> Mapping[str, Callable[[Any], object]]:
    """Return conversion functions for columns whose Python objects do not exist in JSON: maps and decimal numbers."""
    import pyarrow as pa

    kinds: Mapping[str, Any] = {field.name: field.type for field in schema}
    maps = {name: _distinct for name, kind in kinds.items() if pa.types.is_map(kind)}
    return {**maps, **{name: str for name, kind in kinds.items() if pa.types.is_decimal(kind)}}


def _distinct(pairs: Sequence[tuple[Any, Any]]) -> object:
    """Return a map as an object, or as a list of pairs if a name repeats."""
    members = dict(pairs)
    return members if len(members) == len(pairs) else [*map(list, pairs)]


def _class_names(metadata: Mapping[bytes, bytes] | None) -> Mapping[str, Sequence[str]]:
    """Return the class names of each column of class numbers (ClassLabel of the datasets library), except for names
    that only number the classes, such as A, B, and C."""
    with suppress(ValueError, KeyError, AttributeError, TypeError):
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        classes = {
            name: value["names"] for name, value in features.items() if value.get("_type") == "ClassLabel"
        }
        return {name: names for name, names in classes.items() if not _counting(names)}
    return {}


def _counting(names: Sequence[str]) -> bool:
    """Return whether names are letters or numbers in order, perhaps each after the same word, as in `ending0`."""
    begins = len(os.path.commonprefix([*names]))  # noqa: RUF071 (names, not paths)
    own = tuple(name[begins:].casefold() for name in names)
    return own in {series[: len(own)] for series in (LETTERS, *COUNTED)}


def _in_words(cells: Cells, named: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield each column of a row whose value is a class number, with the name of the class."""
    for column, names in named.items():
        number = cells.get(column)
        if isinstance(number, int) and 0 <= number < len(names):
            yield column, names[number]
