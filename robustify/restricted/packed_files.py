"""What is packed in a file: the members of an archive, and what a compressed file becomes."""

import bz2
import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import IO

Stream = IO[bytes]

DEEPEST = 3
"""Most archives in one another. A compressed tar file is one in another."""
_COMPRESSED: Mapping[bytes, Callable[[Stream], Stream]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),  # type: ignore[dict-item, return-value]
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_ZIP, _TAR, _TAR_AT = b"PK\x03\x04", b"ustar", 257
_UNREADABLE = (
    OSError, EOFError, ValueError, RuntimeError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile,
    tarfile.TarError,
)  # fmt: skip
"""What the libraries raise for damaged and encrypted archives, and for unknown methods of packing."""


def layers(stream: Stream, size: int, deepest: int = DEEPEST) -> Iterator[Iterator[bytes]]:
    """Yield the blocks of a file, and those of each file that is packed in it. Blocks have at most `size` bytes. They end
    where a packed file cannot be unpacked."""
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
        yield from (unpack(stream) for magic, unpack in _COMPRESSED.items() if start.startswith(magic))
