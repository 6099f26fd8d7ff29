"""What is packed inside content, within bounds: a bomb costs its bound and is refused, never opened whole.

Nothing is written to disk, no member's name is used as a path, and a member that cannot be opened is an obstacle
that refuses, not one that is skipped.
"""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from robustify.gate.decode.magic import Kind

MOST_BYTES = 16 << 20
"""Bytes of one file."""
MOST_UNPACKED = 32 << 20
"""Bytes that one file may unpack to, all its members together."""
MOST_MEMBERS = 2000
MOST_DEPTH = 5
PACKED: frozenset[Kind] = frozenset({"gzip", "bzip2", "xz", "zlib", "zip", "tar", "parquet"})
_RATIO = 200
_FREE = 1 << 20
"""Bytes that may be unpacked whatever the ratio."""


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
            raise Obstacle(
                "RBG503", f"unpacks to more than {MOST_UNPACKED >> 20} MiB or {MOST_MEMBERS:,} members"
            )
        if len(data) > max(_FREE, _RATIO * packed):
            raise Obstacle("RBG503", f"unpacks to more than {_RATIO} times its size")
        return data


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a packed table's columns (those within columns too) and its number of rows."""

    names: tuple[str, ...]
    rows: int


class _Opener(Protocol):
    """What the decompressors of zlib, bz2 and lzma share."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def opened(kind: Kind, data: bytes, budget: Budget) -> Iterator["bytes | Columns"]:
    """The contents packed in `data`, one by one, the names of members first. Raises `Obstacle`."""
    match kind:
        case "gzip":
            yield from _streams(data, lambda: zlib.decompressobj(31), budget)
        case "zlib":
            yield from _streams(data, lambda: zlib.decompressobj(15), budget)
        case "bzip2":
            yield from _streams(data, bz2.BZ2Decompressor, budget)
        case "xz":
            yield from _streams(data, lambda: lzma.LZMADecompressor(memlimit=128 << 20), budget)
        case "zip":
            yield from _zipped(data, budget)
        case "tar":
            yield from _tarred(data, budget)
        case "parquet":
            from robustify.gate.decode.parquet import pages

            yield from pages(data, budget)
        case _:
            return


def _streams(data: bytes, opener: Callable[[], _Opener], budget: Budget) -> Iterator[bytes]:
    """One stream; what stands behind it is content of its own."""
    stream = opener()
    most = min(budget.left, max(_FREE, _RATIO * len(data))) + 1
    try:
        found = stream.decompress(data, most)
    except (zlib.error, OSError, lzma.LZMAError, EOFError):
        raise Obstacle("RBG504", "a compressed stream that does not open") from None
    yield budget.taken(found, len(data))
    if not stream.eof:
        raise Obstacle("RBG504", "a compressed stream that is cut short")
    if stream.unused_data.strip(b"\0"):
        yield stream.unused_data


def _zipped(data: bytes, budget: Budget) -> Iterator[bytes]:
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            held = archive.infolist()
            yield "\n".join(info.filename for info in held).encode("utf-8", "replace")
            yield b"\n".join([archive.comment, *(info.comment for info in held)])
            for info in held:
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
