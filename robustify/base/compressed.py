"""Read compressed files and archives without writing the unpacked content to disk."""

import bz2
import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, BinaryIO

from robustify.base.errors import DataError

Stream = IO[bytes]
MOST_UNPACKED = 1 << 30
"""Most bytes that a compressed file or a workbook may contain, because a small file can unpack to any size."""
_UNPACK: Mapping[bytes, Callable[[Stream], Stream]] = {
    # The mode is named, because `gzip` reads that of a file in another one, which is a number there, as a text.
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream, mode="rb"),  # type: ignore[dict-item, return-value]
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
"""Functions that unpack a stream, by the bytes with which it begins."""
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What the libraries raise for damaged files."""
_CHUNK = 1 << 20
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
"""Endings of compressed files, also of those that no function unpacks, so that they are refused and not left out."""
DEEPEST = 3
"""Most archives in one another. A compressed tar file is one in another."""
_ZIP, _TAR, _TAR_AT = b"PK\x03\x04", b"ustar", 257
_UNREADABLE = (*DAMAGED, ValueError, RuntimeError, struct.error, zipfile.BadZipFile, tarfile.TarError)
"""What the libraries raise for damaged and encrypted archives, and for unknown methods of packing."""


def unpacked(stream: Stream) -> Stream:
    """Return the content of a compressed stream, or the stream itself if it is not compressed."""
    start = stream.read(max(map(len, _UNPACK)))
    stream.seek(0)
    return next((unpack(stream) for magic, unpack in _UNPACK.items() if start.startswith(magic)), stream)


def unpacked_size(name: str, file: BinaryIO) -> int:
    """Return the size of a file in bytes, after decompression if it is compressed. Raise `DataError` if a compressed file
    is damaged or too large."""
    with unpacked(file) as content:
        if content is file:
            return os.fstat(file.fileno()).st_size
        try:
            sizes = map(len, iter(partial(content.read, _CHUNK), b""))
            size = sum(islice(sizes, MOST_UNPACKED // _CHUNK + 1))
        except DAMAGED as error:
            raise DataError(
                f"{name} is a damaged or incomplete compressed file ({type(error).__name__}). Get a new copy.",
                code="damaged-compressed-file",
            ) from None
    if size > MOST_UNPACKED:
        raise DataError(
            f"{name} unpacks to more than {MOST_UNPACKED >> 20:,} MiB, the limit for compressed files. Unpack it first.",
            code="compressed-file-too-large",
        )
    return size


def plain_path(path: Path) -> Path:
    """Return the path without the suffix of a compressed file, such as `.gz`."""
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path


def layers(stream: Stream, size: int, deepest: int = DEEPEST) -> Iterator[Iterator[bytes]]:
    """Yield one iterator of blocks for a file, and one for each file packed inside it. Blocks have at most `size` bytes. An
    iterator ends early if a packed file is damaged."""
    yield iter(partial(stream.read, size), b"")
    stream.seek(0)
    start = stream.read(_TAR_AT + len(_TAR))
    stream.seek(0)
    with suppress(*_UNREADABLE):
        for packed in _packed(stream, start) if deepest else ():
            with packed:
                for blocks in layers(packed, size, deepest - 1):
                    yield _readable(blocks)


def _readable(blocks: Iterator[bytes]) -> Iterator[bytes]:
    with suppress(*_UNREADABLE):
        yield from blocks


def _packed(stream: Stream, start: bytes) -> Iterator[Stream]:
    if start.startswith(_ZIP):
        with zipfile.ZipFile(stream) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    with suppress(*_UNREADABLE):
                        yield archive.open(member)
    elif start[_TAR_AT:] == _TAR:
        with tarfile.open(fileobj=stream) as tape:
            # A link may name no member, and the member that it names is read itself.
            yield from filter(None, (tape.extractfile(member) for member in tape if member.isfile()))
    else:
        yield from (unpack(stream) for magic, unpack in _UNPACK.items() if start.startswith(magic))
