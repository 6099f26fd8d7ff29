"""The fingerprint layer: does a text hold words of a registered set, in their order? And the index file of such sets.

A text is refused if distinct shingles of one item cover at least seven words, six of them different, within a window
of 48, or if it holds a whole registered text. Paraphrase is out of its reach: it knows words, not meanings.

The index carries an HMAC-SHA256 over everything and is not encrypted: a tag is 64 bits of a keyed BLAKE2b, from which no
word can be read without the key. It does show names of sets, numbers of items, shingles and words, and the number of
words of each text. With the key it gives the registered text back word by word: keep the two apart.
"""

import hashlib
import hmac
import json
import re
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import xor
from pathlib import Path
from typing import Any

from robustify.errors import DataError
from robustify.files import read_regular, writable, write_atomic
from robustify.gate.key_file import Key
from robustify.gate.words import Stream, joined_letters, streams

MAGIC = b"RBGIX\x02\r\n"
SPAN = 3
"""Words in a shingle."""
COVER, HINT = 7, 6
"""Words of one item that refuse, and that warn."""
DIFFERENT = 6
"""How many of them must be different words: ordinary text says `the left side of the right side` too."""
WINDOW = 48
"""Words within which they must be."""
_HEAD, _MAC, _MOST = len(MAGIC) + 8, 32, 256 << 20
_MOST_WORDS = 1 << 20
"""Words that are remembered between texts."""
_RUN = re.compile(rb"\x01{%d,}" % SPAN)

Hit = tuple[int, int]
"""The position of a shingle in a text, and its tag."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What an index holds. `tags[i]` is a shingle of item `owners[i]`, sorted; `starts` are the first three words of each
    whole text, with its number of words, its item and its 16-byte HMAC. `marks` are those of every registered word.
    `sets` are (name, first item) pairs."""

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

    A word's keyed BLAKE2b gives three 64-bit values, one for each position in a shingle, and a shingle's tag is their
    XOR (tabulation hashing), so that a scan pays one hash for each distinct word instead of one for each shingle.
    """

    def __init__(self, key: Key) -> None:
        self._word_key = key.derived("gate/word")
        self._text_key = key.derived("gate/text")
        self._mark = hashlib.blake2b(key=key.derived("gate/vocabulary"), digest_size=4)
        self._values: tuple[dict[bytes, int], ...] = ({}, {}, {})

    def tags(self, words: Sequence[bytes]) -> list[int]:
        """Return the tag of every three consecutive words: n - 2 of them."""
        first, second, third = self._values
        for word in set(words).difference(first):
            digest = hashlib.blake2b(word, key=self._word_key, digest_size=24).digest()
            first[word], second[word], third[word] = struct.unpack("<3Q", digest)
        pairs = map(xor, map(first.__getitem__, words[:-2]), map(second.__getitem__, words[1:-1]))
        return list(map(xor, pairs, map(third.__getitem__, words[2:])))

    def mark(self, word: bytes) -> int:
        """Return 32 bits of the word's keyed BLAKE2b, by which a scan sees quickly that a word is not registered."""
        hashed = self._mark.copy()
        hashed.update(word)
        return int.from_bytes(hashed.digest(), "little")

    def whole(self, words: Sequence[bytes]) -> bytes:
        """Return the 16-byte HMAC-SHA256 of a whole text's words."""
        return hmac.digest(self._text_key, b" ".join(words), "sha256")[:16]


def write_index(path: Path, tables: Tables, key: Key) -> None:
    """Write the tables under the key's HMAC: a JSON line with the size of each table, then the tables."""
    parts = {name: bytes(value) for name, value in asdict(tables).items() if name != "sets"}
    line = json.dumps({"sets": tables.sets, "sizes": {name: len(part) for name, part in parts.items()}})
    head, body = MAGIC + bytes.fromhex(key.id), line.encode() + b"\n" + b"".join(parts.values())
    mac = hmac.digest(key.derived("gate/mac"), head + body, "sha256")
    with writable(f"index {str(path)!a}"):
        write_atomic(path, head + mac + body, sync=False)


def read_index(path: Path, key: Key) -> Tables:
    """Open an index. Raises `DataError` (exit 3) if it is not an index, not of this key, cut or changed."""
    shown = f"index {str(path)!a}"
    try:
        raw = read_regular(path, _MOST, follow=True)
    except OSError as error:
        raise DataError(f"{shown} cannot be read ({error.strerror})") from None
    if not raw.startswith(MAGIC) or len(raw) < _HEAD + _MAC:
        raise DataError(
            f"{shown} is not a gate index of this version; make it: robustify gate index ITEMS -o INDEX"
        )
    head, mac, body = raw[:_HEAD], raw[_HEAD : _HEAD + _MAC], raw[_HEAD + _MAC :]
    key_id = head[len(MAGIC) :].hex()
    if key_id != key.id:
        raise DataError(f"{shown} was made with key {key_id}, this key is {key.id}; use its own key")
    if not hmac.compare_digest(hmac.digest(key.derived("gate/mac"), head + body, "sha256"), mac):
        raise DataError(f"{shown} was changed or cut since it was made; restore or rebuild it")
    line, _, rest = body.partition(b"\n")
    named = json.loads(line)
    parts: dict[str, Any] = {"sets": tuple((str(name), int(first)) for name, first in named["sets"])}
    for name, size in named["sizes"].items():
        part, rest = rest[:size], rest[size:]
        parts[name] = part if name == "wholes" else array("Q" if name in ("tags", "starts") else "I", part)
    return Tables(**parts)


@dataclass(frozen=True, slots=True)
class Match:
    """The strongest match of one text with one set: the line, the words covered, or a whole text."""

    set_name: str
    line: int
    cover: int
    whole: bool

    @property
    def refuses(self) -> bool:
        """Whether the match is sure enough to refuse."""
        return self.whole or self.cover >= COVER

    @property
    def weight(self) -> tuple[bool, int]:
        """What makes one match stronger than another."""
        return (self.whole, self.cover)


class Fingerprints:
    """An opened index, ready to look texts up."""

    def __init__(self, tables: Tables, key: Key) -> None:
        self._tables = tables
        self._tagger = Tagger(key)
        self._starts: dict[int, set[tuple[int, int, bytes]]] = defaultdict(set)
        for i, (start, length) in enumerate(zip(tables.starts, tables.lengths, strict=True)):
            self._starts[start].add((length, tables.whole_owners[i], tables.wholes[16 * i : 16 * i + 16]))
        self._known = frozenset(tables.tags) | self._starts.keys()
        self._marks = frozenset(tables.marks)
        self._known_words: dict[bytes, bool] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the registered sets."""
        return tuple(name for name, _ in self._tables.sets)

    def matches(self, text: str, *, disguised: bool = True) -> Iterator[Match]:
        """Yield what a text shares with the registered sets; if `disguised`, also `l i k e  t h i s`."""
        for plain in streams(text):
            for stream in (plain, joined_letters(plain) if disguised else None):
                if stream is not None:
                    yield from self._judged(stream, stream.kept())

    def _judged(self, stream: Stream, words: list[bytes]) -> Iterator[Match]:
        """Yield the strongest match with each set. `words` are those of the stream that count."""
        hits = self._hits(stream, words)
        positions = stream.positions() if hits else []
        best: dict[str, Match] = {}
        for owner, at, cover, whole in (*self._wholes(words, hits), *self._covers(words, hits, positions)):
            name = self._set_of(owner)
            match = Match(name, positions[at], cover, whole)
            best[name] = max(best.get(name, match), match, key=lambda one: one.weight)
        for one in best.values():
            yield Match(one.set_name, stream.line_of(one.line), one.cover, one.whole)

    def _hits(self, stream: Stream, words: list[bytes]) -> list[Hit]:
        """Return the registered shingles of a text: only runs of its words are tagged; a new word is looked up once."""
        if len(self._known_words) > _MOST_WORDS:
            self._known_words.clear()
        for word in stream.distinct.difference(self._known_words):
            self._known_words[word] = self._tagger.mark(word) in self._marks
        hits: list[Hit] = []
        for run in _RUN.finditer(bytes(map(self._known_words.__getitem__, words))):
            tags = self._tagger.tags(words[run.start() : run.end()])
            hits += ((run.start() + i, tag) for i, tag in enumerate(tags) if tag in self._known)
        return hits

    def _wholes(self, words: list[bytes], hits: list[Hit]) -> Iterator[tuple[int, int, int, bool]]:
        for at, tag in hits:
            for length, owner, digest in self._starts.get(tag, ()):
                if at + length <= len(words) and self._tagger.whole(words[at : at + length]) == digest:
                    yield owner, at, length, True

    def _covers(
        self, words: list[bytes], hits: list[Hit], positions: list[int]
    ) -> Iterator[tuple[int, int, int, bool]]:
        """Yield runs of hits of one item that cover enough words within the window (safety.md, section 4)."""
        near: dict[int, deque[Hit]] = defaultdict(deque)
        tags = self._tables.tags
        for at, tag in hits:
            for owner in self._tables.owners[bisect_left(tags, tag) : bisect_right(tags, tag)]:
                window = near[owner]
                window.append((at, tag))
                while window[0][0] < at + SPAN - WINDOW:
                    window.popleft()
                cover = _covered(window, positions)
                different = {word for start, _ in window for word in words[start : start + SPAN]}
                if cover >= COVER and len(different) < DIFFERENT:
                    cover = HINT
                if cover >= HINT:
                    yield owner, window[0][0], cover, False

    def _set_of(self, owner: int) -> str:
        sets = self._tables.sets
        return sets[bisect_right([first for _, first in sets], owner) - 1][0]


def _covered(hits: "deque[Hit]", positions: list[int]) -> int:
    """Return how many words the hits cover; a repeated shingle counts once, a lone letter within a shingle too."""
    out: set[int] = set()
    for at in {tag: at for at, tag in hits}.values():
        first, last = sorted((positions[at], positions[at + SPAN - 1]))
        out |= set(range(first, last + 1)) if last - first <= SPAN else set(positions[at : at + SPAN])
    return len(out)
