"""What a content is by its first bytes, and what is packed in it, within bounds.

A name or an extension is never trusted. A bomb costs its bound and is refused, never opened whole. Nothing is written
to disk, no member's name is used as a path, and a member that cannot be opened refuses; it is not skipped.
"""

import bz2
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

FileKind = Literal[
    "gzip", "bzip2", "xz", "zlib", "zip", "tar", "parquet", "binary", "cache", "encrypted", "pointer", "text"
]
MOST_BYTES = 16 << 20
"""Bytes of one file."""
MOST_UNPACKED = 32 << 20
"""Bytes that one file may unpack to, all its members together."""
MOST_MEMBERS = 2000
MOST_DEPTH = 5
_STREAMS: dict[FileKind, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "zlib": lambda: zlib.decompressobj(15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=128 << 20),
}
PACKED: frozenset[FileKind] = frozenset({*_STREAMS, "zip", "tar", "parquet"})
_RATIO = 200
_FREE = 1 << 20
"""Bytes that may be unpacked whatever the ratio."""
_MOST_ROWS = 1 << 22
"""Rows of one row group of a Parquet file."""
_NO_CONTROL = {0: "\n"} | {code: " " for code in range(1, 32) if chr(code) not in "\t\n"}

SUBMODULE = b"Subproject commit "
_POINTER = re.compile(
    rb"(?:version https://(?:git-lfs\.github|hawser\.github)\.com/spec/|version http://git-media\.io/v/|# git-media\n"
    rb"|Subproject commit [0-9a-f]{40}|/annex/objects/|(?:\.\./)*\.git/annex/objects/"
    rb"|(?:#.*\n)*(?:outs|md5|deps|schema|stages|wdir|frozen|meta|desc)\b"
    rb"(?:.*\n)*?[ \t-]*(?:md5|etag|checksum): *['\"]?[0-9a-f-]{16})"
)
"""Pointers to content elsewhere: git LFS and what it was before, a submodule, git-annex, DVC."""

_MAGIC: dict[FileKind, tuple[bytes, ...]] = {
    "gzip": (b"\x1f\x8b\x08",),
    "bzip2": (b"BZh",),
    "xz": (b"\xfd7zXZ\x00",),
    "zip": (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"),
    "parquet": (b"PAR1",),
    "encrypted": (
        b"PARE", b"-----BEGIN PGP MESSAGE-----", b"-----BEGIN AGE ENCRYPTED FILE-----", b"age-encryption.org/",
        b"$ANSIBLE_VAULT;", b"Salted__", b"\x00GITCRYPT\x00",
    ),
    "binary": (
        b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"RIFF", b"OggS", b"ARROW1", b"FEA1",
        b"ORC", b"Obj\x01", b"SQLite format 3", b"\x89HDF", b"\x93NUMPY", b"GGUF", b"7z\xbc\xaf\x27\x1c",
        b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\xd0\xcf\x11\xe0", b"\x7fELF", b"MZ", b"wOFF",
        b"wOF2", b"RBGIX",
    ),
}  # fmt: skip
_TEXT_WORDS = {b"BZh", b"ORC", b"MZ", b"RIFF", b"GIF8", b"PAR1", b"PARE", b"GGUF", b"FEA1"}
"""Marks that could also begin a text."""
_SQLITE = b"SQLite format 3\0"
_WAL = b"\x37\x7f\x06"
_CACHE_ID = b"RBST"
"""SQLite's application id of a score cache (engines/cache.py), at byte 68 of the first page."""


def file_kind(data: bytes) -> FileKind:
    """The kind of a content. Marks that could begin a text count only where something binary follows."""
    if data.startswith((_SQLITE, _WAL)):
        at = data.find(_SQLITE)
        return "cache" if at >= 0 and data[at + 68 : at + 72] == _CACHE_ID else "binary"
    for kind, marks in _MAGIC.items():
        mark = next((mark for mark in marks if data.startswith(mark)), None)
        if mark is not None and not (mark in _TEXT_WORDS and _is_text(data[:512])):
            return kind
    if _POINTER.match(data[:4096]):
        return "pointer"
    if data[257:262] == b"ustar":
        return "tar"
    if len(data) > 8 and data[0] == 0x78 and data[1] in b"\x01\x5e\x9c\xda" and not _is_text(data[:64]):
        return "zlib"
    return "text"


def _is_text(head: bytes) -> bool:
    return all(b >= 32 or b in b"\t\n\r\x0b\x0c" for b in head)


class Obstacle(Exception):
    """Why content cannot be read: the id of the rule that refuses it, and fixed words."""

    def __init__(self, rule: str, says: str) -> None:
        super().__init__(says)
        self.rule = rule
        self.says = says


@dataclass(slots=True)
class Budget:
    """What is left for one file."""

    left: int = MOST_UNPACKED
    members: int = MOST_MEMBERS

    def taken(self, data: bytes, packed: int) -> bytes:
        """The unpacked bytes, paid for. Raises `Obstacle` when the file asks for more than its bounds."""
        self.left -= len(data)
        self.members -= 1
        if self.left < 0 or self.members < 0:
            raise Obstacle("RBG503", f"unpacks to over {MOST_UNPACKED >> 20} MiB or {MOST_MEMBERS:,} members")
        if len(data) > max(_FREE, _RATIO * packed):
            raise Obstacle("RBG503", f"unpacks to more than {_RATIO} times its size")
        return data


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The names of a packed table's columns (those within columns too) and its number of rows."""

    names: tuple[str, ...]
    rows: int


def unpacked(kind: FileKind, data: bytes, budget: Budget) -> Iterator["bytes | ColumnNames"]:
    """The contents packed in `data`, one by one, the names of members first. Raises `Obstacle`."""
    match kind:
        case "zip":
            yield from _zipped(data, budget)
        case "tar":
            yield from _tarred(data, budget)
        case "parquet":
            yield from _parquet(data, budget)
        case _:
            yield from _streamed(data, _STREAMS[kind](), budget)


def _streamed(data: bytes, stream: Any, budget: Budget) -> Iterator[bytes]:
    """One stream; what follows it is content of its own."""
    most = min(budget.left, max(_FREE, _RATIO * len(data))) + 1
    try:
        plain = stream.decompress(data, most)
    except (zlib.error, OSError, lzma.LZMAError, EOFError):
        raise Obstacle("RBG504", "a compressed stream that does not open") from None
    yield budget.taken(plain, len(data))
    if not stream.eof:
        raise Obstacle("RBG504", "a compressed stream that is cut short")
    if stream.unused_data.strip(b"\0"):
        yield stream.unused_data


def _zipped(data: bytes, budget: Budget) -> Iterator[bytes]:
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            yield "\n".join(info.filename for info in members).encode("utf-8", "replace")
            yield b"\n".join([archive.comment, *(info.comment for info in members)])
            for info in members:
                if info.flag_bits & 1:
                    raise Obstacle("RBG502", "an archive with encrypted members")
                if not info.is_dir():
                    most = min(budget.left, max(_FREE, _RATIO * info.compress_size)) + 1
                    with archive.open(info) as member:
                        yield budget.taken(member.read(most), info.compress_size)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, RuntimeError):
        # NotImplementedError (an unknown method of compression) is a RuntimeError.
        raise Obstacle("RBG504", "an archive with members that do not open") from None


def _tarred(data: bytes, budget: Budget) -> Iterator[bytes]:
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for info in archive:
                yield f"{info.name}\n{info.linkname}\n{info.pax_headers}".encode("utf-8", "replace")
                member = archive.extractfile(info) if info.isreg() else None
                if member is not None:
                    yield budget.taken(member.read(budget.left + 1), len(data))
    except (tarfile.TarError, OSError, EOFError, ValueError):
        raise Obstacle("RBG504", "an archive with members that do not open") from None


_TEXT_TYPES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_LISTED = 4000
"""Numbers of a list column that are looked at: they may be token ids."""


def _parquet(data: bytes, budget: Budget) -> Iterator[bytes | ColumnNames]:
    """The column names of a Parquet file, the first numbers of its columns of lists, then the texts of its columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Obstacle("RBG501", "a Parquet file, read only with pyarrow: pip install pyarrow") from None
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        leaves = [file.schema.column(i) for i in range(len(file.schema))]
        names = dict.fromkeys(name for leaf in leaves for name in leaf.path.split("."))
        yield ColumnNames(tuple(names), file.metadata.num_rows)
        texts = {i: leaf.path for i, leaf in enumerate(leaves) if leaf.physical_type in _TEXT_TYPES}
        yield from _numbers(file, leaves)
        # Dictionaries hold each text once: a column that repeats one a million times is not spread out in memory.
        alike = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        by_word = pq.ParquetFile(pa.BufferReader(data), read_dictionary=alike)
        for i in range(file.num_row_groups if texts else 0):
            group = file.metadata.row_group(i)
            columns = [group.column(j) for j in texts]
            size = sum(column.total_uncompressed_size for column in columns)
            rows = max(group.num_rows, *(column.num_values for column in columns))
            if size > budget.left or rows > _MOST_ROWS:
                raise Obstacle(
                    "RBG503", f"row groups of over {budget.left >> 20} MiB or {_MOST_ROWS:,} values"
                )
            wanted = list(texts.values())
            try:
                table = by_word.read_row_group(i, columns=wanted, use_threads=False)
            except (pa.ArrowException, OSError):
                # Some encodings cannot be read as dictionaries.
                table = file.read_row_group(i, columns=wanted, use_threads=False)
            for chunk in (chunk for column in table.columns for chunk in column.chunks):
                text = "\n".join(_strings(chunk)).translate(_NO_CONTROL)
                yield budget.taken(text.encode("utf-8", "replace"), len(data))
    except (pa.ArrowException, OSError, ValueError, TypeError, RecursionError):
        # Noise that only begins like Parquet is no finding; what also ends like it is a file that could not be read.
        rule = "RBG501" if data[-4:] == b"PAR1" else "RBG504"
        raise Obstacle(rule, "a Parquet file that does not open") from None


def _numbers(file: Any, leaves: Any) -> Iterator[bytes]:
    """The first numbers of each column of lists, as text under the column's name."""
    for leaf in leaves:
        name = leaf.path.split(".")[0]
        if leaf.physical_type in ("INT32", "INT64") and leaf.max_repetition_level and "." in leaf.path:
            batches = file.iter_batches(batch_size=_LISTED // 40, columns=[leaf.path], use_threads=False)
            values: Any = next((batch.column(0) for batch in batches), None)
            if values is None:
                continue
            while type(values).__name__.endswith(("ListArray", "ListViewArray")):
                values = values.flatten()
            listed = [value for value in values[:_LISTED].to_pylist() if isinstance(value, int)]
            yield f"{name}: [{', '.join(map(str, listed))}]".encode()


def _strings(array: Any) -> Iterator[str]:
    """The different texts of a nested Arrow array."""
    kind = type(array).__name__
    if kind == "DictionaryArray":
        parts = [array.dictionary]
    elif kind == "MapArray":
        parts = [array.keys, array.items]
    elif kind == "StructArray":
        parts = array.flatten()
    elif kind.endswith(("ListArray", "ListViewArray")):
        parts = [array.flatten()]
    else:
        parts = None
    for part in parts or ():
        yield from _strings(part)
    for value in array.to_pylist() if parts is None else ():
        if isinstance(value, list | dict | tuple):
            raise Obstacle("RBG501", "a Parquet column of a nested type that the gate does not know")
        if isinstance(value, str | bytes):
            yield value if isinstance(value, str) else value.decode("utf-8", "replace")
