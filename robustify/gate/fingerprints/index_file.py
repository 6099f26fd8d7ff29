"""The index file of registered sets: keyed tags that nobody can forge, and the tagger that makes them.

The file carries an HMAC-SHA256 over everything and is not encrypted: a tag is 64 bits of a keyed BLAKE2b, from which no
word can be read without the key. What an index does show without it (names of sets, numbers of items, shingles and
words, the number of words of each text, relations between tags by which a copy of the set can be recognised) is listed
in docs/threat_model.md, T8. With the key it gives the registered text back word by word: keep the two apart.
"""

import hashlib
import hmac
import json
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import xor
from pathlib import Path
from typing import Any

from robustify.errors import DataError, ResourceError
from robustify.gate.key_file import Key
from robustify.gate.sources import read_regular

MAGIC = b"RBGIX\x02\r\n"
FORMAT = "robustify.gate-index/2"
SPAN = 3
"""Words in a shingle."""
_OLD_MAGIC = b"RBGIX\x01\r\n"
_HEAD = len(MAGIC) + 8
_MAC = 32
_MOST = 256 << 20


@dataclass(frozen=True, slots=True)
class Tables:
    """What an index holds. `tags[i]` is a shingle of item `owners[i]`, sorted; `starts` are the first three words
    of each whole text, with its number of words, its item and its 16-byte HMAC. `marks` are those of every registered
    word. `sets` are (name, first item) pairs."""

    sets: tuple[tuple[str, int], ...]
    tags: "array[int]"
    owners: "array[int]"
    starts: "array[int]"
    lengths: "array[int]"
    whole_owners: "array[int]"
    marks: "array[int]"
    wholes: bytes


class Tagger:
    """The tags of one key. Words once seen are remembered for the life of the process.

    A word's keyed BLAKE2b gives three 64-bit values, one for each place in a shingle, and a shingle's tag is their
    XOR (tabulation hashing), so that a scan pays one hash for each distinct word instead of one for each shingle.
    """

    def __init__(self, key: Key) -> None:
        self._word_key = key.derived("gate/word")
        self._text_key = key.derived("gate/text")
        self._mark = hashlib.blake2b(key=key.derived("gate/vocabulary"), digest_size=4)
        self._values: tuple[dict[bytes, int], ...] = ({}, {}, {})

    def tags(self, words: Sequence[bytes]) -> list[int]:
        """The tag of every three consecutive words: n - 2 of them."""
        first, second, third = self._values
        for word in set(words).difference(first):
            digest = hashlib.blake2b(word, key=self._word_key, digest_size=24).digest()
            first[word], second[word], third[word] = struct.unpack("<3Q", digest)
        pairs = map(xor, map(first.__getitem__, words[:-2]), map(second.__getitem__, words[1:-1]))
        return list(map(xor, pairs, map(third.__getitem__, words[2:])))

    def mark(self, word: bytes) -> int:
        """32 bits of the word's keyed BLAKE2b, by which a scan sees quickly that a word is not in a vocabulary."""
        hashed = self._mark.copy()
        hashed.update(word)
        return int.from_bytes(hashed.digest(), "little")

    def whole(self, words: Sequence[bytes]) -> bytes:
        """The 16-byte HMAC-SHA256 of a whole text's words."""
        return hmac.digest(self._text_key, b" ".join(words), "sha256")[:16]


def write_index(path: Path, tables: Tables, key: Key) -> None:
    """Write the tables under the key's HMAC; the file takes its place in one step."""
    head, body = MAGIC + bytes.fromhex(key.id), _packed(tables)
    mac = hmac.digest(key.derived("gate/mac"), head + body, "sha256")
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(head + mac + body)
        part.replace(path)
    except OSError as error:
        raise ResourceError(f"{str(path)!a}: the index cannot be written ({error.strerror})") from None


def read_index(path: Path, key: Key) -> Tables:
    """Open an index. Raises `DataError` (exit 3) where it is no index, not of this key, cut or changed."""
    place = f"index {str(path)!a}"
    try:
        raw = read_regular(path, _MOST)
    except OSError as error:
        raise DataError(f"{place} cannot be read ({error.strerror})") from None
    if raw.startswith(_OLD_MAGIC):
        raise DataError(f"{place} is of an older format; make it again: robustify gate index ITEMS -o INDEX")
    if not raw.startswith(MAGIC) or len(raw) < _HEAD + _MAC:
        raise DataError(f"{place} is no gate index; make it: robustify gate index ITEMS -o INDEX")
    head, mac, body = raw[:_HEAD], raw[_HEAD : _HEAD + _MAC], raw[_HEAD + _MAC :]
    key_id = head[len(MAGIC) :].hex()
    if key_id != key.id:
        raise DataError(f"{place} was made with key {key_id}, this key is {key.id}; use its own key")
    if not hmac.compare_digest(hmac.digest(key.derived("gate/mac"), head + body, "sha256"), mac):
        raise DataError(f"{place} was changed or cut since it was made; restore or rebuild it")
    return _unpacked(body)


def _packed(tables: Tables) -> bytes:
    """A JSON line with the sizes (in bytes) of what follows it."""
    fields: dict[str, Any] = asdict(tables)
    parts = {name: _little(value) for name, value in fields.items() if isinstance(value, array)}
    parts["wholes"] = fields["wholes"]
    head = {"format": FORMAT, "sets": tables.sets}
    sizes = {name: len(part) for name, part in parts.items()}
    return json.dumps(head | {"sizes": sizes}).encode() + b"\n" + b"".join(parts.values())


def _unpacked(body: bytes) -> Tables:
    line, _, rest = body.partition(b"\n")
    head = json.loads(line)
    parts: dict[str, Any] = {}
    at = 0
    for name, size in head["sizes"].items():
        parts[name], at = rest[at : at + size], at + size
    wholes = parts.pop("wholes")
    arrays = {
        name: _native(array("Q" if name in ("tags", "starts") else "I", part)) for name, part in parts.items()
    }
    sets = tuple((str(name), int(first)) for name, first in head["sets"])
    return Tables(sets=sets, wholes=wholes, **arrays)


def _little(values: "array[int]") -> bytes:
    return _native(array(values.typecode, values)).tobytes()


def _native(values: "array[int]") -> "array[int]":
    """The values with the bytes of each in the other order, where this machine needs it."""
    if sys.byteorder == "big":
        values.byteswap()
    return values
