"""Thrift's compact protocol, read only: what a Parquet file's footer and page headers are written in.

Structures become dictionaries by field number. Depth and sizes are bounded by the data itself.
"""

import struct
from typing import Any

Fields = dict[int, Any]
_MOST_DEPTH = 24
_MOST_MEMBERS = 1 << 20


def read_struct(data: bytes, at: int, depth: int = 0) -> tuple[Fields, int]:
    """A structure and where it ends. Raises `ValueError` or `IndexError` for what is none."""
    if at < 0 or depth > _MOST_DEPTH:
        raise ValueError("no structure")
    fields: Fields = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            raw, at = varint(data, at)
            number = _unzigzag(raw)
        kind = head & 15
        if kind in (1, 2):
            fields[number] = kind == 1
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2 | 3:
            return data[at], at + 1
        case 4 | 5 | 6:
            raw, at = varint(data, at)
            return _unzigzag(raw), at
        case 7:
            return struct.unpack_from("<d", data, at)[0], at + 8
        case 8:
            size, at = varint(data, at)
            if at + size > len(data):
                raise ValueError("past the end")
            return data[at : at + size], at + size
        case 9 | 10:
            return _list(data, at, depth)
        case 12:
            return read_struct(data, at, depth + 1)
        case _:
            raise ValueError("a kind that Parquet does not use")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head = data[at]
    at += 1
    size = head >> 4
    if size == 15:
        size, at = varint(data, at)
    if size > min(_MOST_MEMBERS, len(data)):
        raise ValueError("longer than the file")
    out = []
    for _ in range(size):
        member, at = _value(data, at, head & 15, depth + 1)
        out.append(member)
    return out, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends. Raises `ValueError` where it does not end."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("a number without end")


def _unzigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)
