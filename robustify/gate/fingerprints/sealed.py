"""The sealed index file: fingerprints that say nothing to whoever lacks the key, and that nobody can forge.

The content is encrypted under a key of its own and carries a MAC over everything (SIV: the MAC is the nonce, so
the same content gives the same file). Without the key the file shows a key id and a size rounded up to 64 KiB.
With the key it gives text back word by word: keep the two apart.
"""

import hashlib
import hmac
import json
import struct
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.errors import DataError, ResourceError
from robustify.gate.decode.opening import regular
from robustify.gate.key_file import Key

MAGIC = b"RBGIX\x01\r\n"
FORMAT = "robustify.gate-index/1"
_BLOCK = 1 << 16
_MOST = 256 << 20


@dataclass(frozen=True, slots=True)
class Tables:
    """What an index holds. `tags[i]` is a shingle of item `owners[i]`, sorted; `starts` are the first three words
    of each whole text, with its number of words, its item and its 16-byte HMAC. `marks` are those of every registered word.
    `sets` are (name, first item) pairs."""

    sets: tuple[tuple[str, int], ...]
    tags: "array[int]"
    owners: "array[int]"
    starts: "array[int]"
    lengths: "array[int]"
    whole_owners: "array[int]"
    marks: "array[int]"
    wholes: bytes
    told: dict[str, Any]


def write(path: Path, tables: Tables, key: Key) -> None:
    """Seal the tables under the key; the file takes its place in one step."""
    plain = _packed(tables)
    head = MAGIC + bytes.fromhex(key.id)
    seal = hmac.digest(key.derived("gate/mac"), head + plain, "sha256")
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(head + seal + _crossed(plain, key.derived("gate/seal") + seal))
        part.replace(path)
    except OSError as error:
        raise ResourceError(f"{str(path)!a}: the index cannot be written ({error.strerror})") from None


def read(path: Path, key: Key) -> Tables:
    """Open an index. Raises `DataError` (exit 3) where it is no index, not of this key, cut or changed."""
    try:
        raw = regular(path, _MOST)
    except OSError as error:
        raise DataError(f"index {str(path)!a} cannot be read ({error.strerror})") from None
    if not raw.startswith(MAGIC) or len(raw) < len(MAGIC) + 40:
        raise DataError(f"index {str(path)!a} is no gate index; make it: robustify gate index ITEMS -o INDEX")
    head, seal, body = raw[:16], raw[16:48], raw[48:]
    if head[8:].hex() != key.id:
        raise DataError(
            f"index {str(path)!a} was made with key {head[8:].hex()}, this key is {key.id}; use its own key"
        )
    plain = _crossed(body, key.derived("gate/seal") + seal)
    if not hmac.compare_digest(hmac.digest(key.derived("gate/mac"), head + plain, "sha256"), seal):
        raise DataError(f"index {str(path)!a} was changed or cut since it was made; restore or rebuild it")
    return _unpacked(plain)


def _crossed(data: bytes, seed: bytes) -> bytes:
    """Data XOR the SHAKE-256 stream of a secret seed: the same step seals and opens."""
    stream = hashlib.shake_256(seed).digest(len(data))
    return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(len(data), "little")


def _packed(tables: Tables) -> bytes:
    head = {
        "format": FORMAT,
        "sets": tables.sets,
        "tags": len(tables.tags),
        "wholes": len(tables.starts),
        "marks": len(tables.marks),
        "told": tables.told,
    }
    text = json.dumps(head, sort_keys=True).encode()
    arrays = b"".join(
        map(
            _little,
            (tables.tags, tables.owners, tables.starts, tables.lengths, tables.whole_owners, tables.marks),
        )
    )
    plain = struct.pack("<I", len(text)) + text + arrays + tables.wholes
    return plain + bytes(-len(plain) % _BLOCK)


def _unpacked(plain: bytes) -> Tables:
    size = struct.unpack_from("<I", plain)[0]
    head = json.loads(plain[4 : 4 + size])
    at = 4 + size
    cut: list[array[int]] = []
    sizes = (("Q", "tags"), ("I", "tags"), ("Q", "wholes"), ("I", "wholes"), ("I", "wholes"), ("I", "marks"))
    for code, name in sizes:
        held = array(code)
        end = at + head[name] * held.itemsize
        held.frombytes(plain[at:end])
        cut.append(_native(held))
        at = end
    sets = tuple((str(name), int(first)) for name, first in head["sets"])
    wholes = plain[at : at + 16 * head["wholes"]]
    tags, owners, starts, lengths, whole_owners, marks = cut
    return Tables(sets, tags, owners, starts, lengths, whole_owners, marks, wholes, head["told"])


def _little(held: "array[int]") -> bytes:
    return _native(array(held.typecode, held)).tobytes()


def _native(held: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        held.byteswap()
    return held
