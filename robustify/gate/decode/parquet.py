"""The column names and the text of a Parquet file, as far as the standard library can open it.

Pages that are plain, gzip or snappy are read; pages in zstd, LZ4 or Brotli, prefix-coded text and encrypted files
are refused. Only byte-array columns are read: numbers are not text.
"""

import struct
import zlib
from collections.abc import Iterator

from robustify.gate.decode.thrift import Fields, read_struct, varint
from robustify.gate.decode.unpack import Budget, Columns, Obstacle

_TEXT_TYPES = {6, 7}
_READABLE = {0, 2, 3, 4, 6, 8}
"""PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_LENGTH_BYTE_ARRAY, RLE_DICTIONARY: text stands in the clear."""
_PLAIN, _SNAPPY, _GZIP = 0, 1, 2
_MOST_PAGE = 32 << 20


def pages(data: bytes, budget: Budget) -> Iterator[bytes | Columns]:
    """The column names, then the text of every page. Raises `Obstacle` for what cannot be read."""
    try:
        yield from _pages(data, budget)
    except (IndexError, KeyError, TypeError, ValueError, struct.error, zlib.error, RecursionError):
        raise Obstacle("RBG504", "a Parquet file that does not open") from None


def _pages(data: bytes, budget: Budget) -> Iterator[bytes | Columns]:
    if data[-4:] != b"PAR1":
        raise Obstacle(
            "RBG502" if data[-4:] == b"PARE" else "RBG504", "a Parquet file without its plain footer"
        )
    size = struct.unpack("<I", data[-8:-4])[0]
    footer, _ = read_struct(data, len(data) - 8 - size)
    yield Columns(tuple(_text(element[4]) for element in footer[2][1:]), int(footer[3]))
    chunks = [column[3] for group in footer[4] for column in group[1]]
    unread = 0
    for chunk in chunks:
        if chunk[1] in _TEXT_TYPES:
            if set(chunk[2]) <= _READABLE and chunk[4] in (_PLAIN, _SNAPPY, _GZIP):
                yield from _chunk(data, chunk, budget)
            else:
                unread += 1
    if unread:
        raise Obstacle(
            "RBG501", f"a Parquet file with {unread} text columns in a compression that is not read here"
        )


def _chunk(data: bytes, chunk: Fields, budget: Budget) -> Iterator[bytes]:
    at = min(chunk[9], chunk.get(11) or chunk[9])
    end = at + chunk[7]
    while at < end:
        header, at = read_struct(data, at)
        body = data[at : at + header[3]]
        at += header[3]
        plain = budget.taken(_opened(body, chunk[4], header), len(body))
        yield plain.replace(b"\0", b"\n").decode("utf-8", "replace").translate(_CLEAN).encode()


def _opened(body: bytes, codec: int, header: Fields) -> bytes:
    if header[2] > _MOST_PAGE:
        raise Obstacle("RBG503", "a Parquet page of more than 32 MiB")
    levels = 0
    if 8 in header:  # version 2: the levels stand before the compressed part
        levels = header[8].get(5, 0) + header[8].get(6, 0)
        codec = codec if header[8].get(7, True) else _PLAIN
    head, packed = body[:levels], body[levels:]
    match codec:
        case 1:
            return head + unsnapped(packed, header[2])
        case 2:
            return head + zlib.decompressobj(47).decompress(packed, header[2] + 1)
        case _:
            return body


def unsnapped(data: bytes, most: int) -> bytes:
    """Snappy's raw format undone. Raises `ValueError` where it does not hold what it says."""
    size, at = varint(data, 0)
    if size > most:
        raise ValueError("longer than its page")
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                extra = length - 60
                length = int.from_bytes(data[at : at + extra], "little") + 1
                at += extra
            out += data[at : at + length]
            at += length
        else:
            width = (0, 1, 2, 4)[tag & 3]
            offset = int.from_bytes(data[at : at + width], "little")
            at += width
            length = (tag >> 2) + 1
            if tag & 3 == 1:
                offset |= (tag >> 5) << 8
                length = ((tag >> 2) & 7) + 4
            _copy(out, offset, length)
        if len(out) > size:
            raise ValueError("longer than it says")
    return bytes(out)


def _copy(out: bytearray, offset: int, length: int) -> None:
    if not 0 < offset <= len(out):
        raise ValueError("a copy from before the start")
    piece = out[-offset:]
    out += (bytes(piece) * (length // offset + 1))[:length]


def _text(found: object) -> str:
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else ""


_CLEAN = {code: " " for code in range(32) if chr(code) not in "\t\n"}
