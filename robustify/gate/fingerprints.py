"""Index of registered sets, which contains no text, and a search for the text of these sets.

A text is refused if it contains a complete registered text, if distinct shingles of one item cover at least seven words,
six of them different, within 48 words, or if four words of each of four items of a set are within 96 words (cut stems).
The index is authenticated with HMAC-SHA256 but not encrypted: it shows the names of sets, the numbers of items and
shingles, and the number of words in each text. Anyone with both index and key can recover the text, so store them apart.
"""

import csv
import hashlib
import hmac
import io
import json
import re
import struct
import sysconfig
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import xor
from pathlib import Path

from robustify.base.errors import DataError, UsageError
from robustify.base.files import read_regular, writable, write_atomic
from robustify.base.folded_words import fold, kept_words, lexicon_file
from robustify.base.key_file import Key

MAGIC = b"RBGIX\x03\r\n"
SPAN = 3
"""Number of words in a shingle."""
COVER, DIFFERENT, WINDOW = 7, 6, 48
"""Minimum number of covered words, how many of them differ (`the left side of the right side` passes), and the window."""
CUTS, CUTS_WINDOW = 4, 96
"""Minimum number of items of a set with `SPAN + 1` words in a row each, at separate places, and the window."""
WHOLE_STEM, WHOLE = 4, 6
"""Minimum number of words in a registered complete text: first one that looks like a stem, then any other."""
_SHARED = 8
"""Maximum number of items in a set that share a shingle before it counts as a stock phrase of that set."""
_BACKGROUND, _MOST_INDEX, _MOST_ITEMS = 12 << 20, 256 << 20, 512 << 20
"""Maximum number of bytes to read from the standard library, from an index, and from a file of items."""
_HEAD, _MAC = len(MAGIC) + 8, 32
_MOST_WORDS = 1 << 20
"""Maximum number of words whose hashes are kept between texts."""
_WORD = re.compile(rb"[^ \n]{2,}")
_RUN = re.compile(rb"\x01{%d,}" % SPAN)

_BACKWARDS = "wave golden last the over hovers yet sings heron clay sleepy"
TEST_TEXT = " ".join(_BACKWARDS.split()[::-1])  # this file has it only backwards, so that the gate passes it
"""Made-up text in every index, by which `robustify gate doctor` tests the hooks."""
Item = Sequence[str]
"""Texts of an item: the stem, the choices, and any others."""


@dataclass(frozen=True, slots=True)
class Index:
    """Index of registered sets: the name and first item of each set, 64 bits per word, and shingles as pairs (tag, item).

    `wholes` has five numbers per complete text: the tag of its first three words, its number of words, its item, and 128
    bits of an HMAC. `blind` items are too short or too ordinary to be recognized.
    """

    sets: tuple[tuple[str, int], ...]
    words: "array[int]"
    shingles: "array[int]"
    wholes: "array[int]"
    items: int = field(default=0, compare=False)
    blind: int = field(default=0, compare=False)


class _Tagger:
    """Keyed hash functions for words, shingles, and texts. The BLAKE2b hash of a word gives a 64-bit value for each of the
    three positions in a shingle. The tag of a shingle is the XOR of its words' values, so a scan hashes each distinct
    word once."""

    def __init__(self, key: Key) -> None:
        self._word_key, self._text_key = key.derived("gate/word"), key.derived("gate/text")
        self._values: tuple[dict[bytes, int], ...] = ({}, {}, {})

    def marks(self, words: Iterable[bytes]) -> dict[bytes, int]:
        """Return the first 64 bits of the hash of each of these words, and of every cached word."""
        first, second, third = self._values
        if len(first) > _MOST_WORDS:
            for values in self._values:
                values.clear()
        for word in set(words).difference(first):
            digest = hashlib.blake2b(word, key=self._word_key, digest_size=24).digest()
            first[word], second[word], third[word] = struct.unpack("<3Q", digest)
        return first

    def tags(self, words: Sequence[bytes]) -> list[int]:
        """Return the tag of each three-word shingle (n_words - 2)."""
        self.marks(words)
        first, second, third = self._values
        pairs = map(xor, map(first.__getitem__, words[:-2]), map(second.__getitem__, words[1:-1]))
        return list(map(xor, pairs, map(third.__getitem__, words[2:])))

    def whole(self, words: Sequence[bytes]) -> tuple[int, int]:
        """Return 128 bits of the HMAC-SHA256 of a complete text, as two integers."""
        high, low = struct.unpack("<2Q", hmac.digest(self._text_key, b" ".join(words), "sha256")[:16])
        return high, low


class Fingerprints:
    """Opened index of registered sets, which finds their text in other texts."""

    def __init__(self, index: Index, key: Key) -> None:
        self._sets, self._tagger = index.sets, _Tagger(key)
        self._owners: dict[int, list[int]] = defaultdict(list)
        for tag, owner in zip(index.shingles[::2], index.shingles[1::2], strict=True):
            self._owners[tag].append(owner)
        self._wholes: dict[int, dict[tuple[int, int, int], int]] = defaultdict(dict)
        for start, length, owner, high, low in zip(*(index.wholes[i::5] for i in range(5)), strict=True):
            self._wholes[start][length, high, low] = owner
        self._known, self._marks = self._owners.keys() | self._wholes.keys(), frozenset(index.words)

    def matches(self, text: str) -> Iterator[tuple[str, int, str]]:
        """Yield the first match with each set: its name, the line, and the number of covered words or `a whole text`."""
        folded = fold(text)
        words = _WORD.findall(folded)
        marks = self._tagger.marks(words)
        registered = {word for word in set(words) if marks[word] in self._marks}
        hits = list[tuple[int, int]]()
        for run in _RUN.finditer(bytes(map(registered.__contains__, words))):  # other words need no tag
            tags = self._tagger.tags(words[run.start() : run.end()])
            hits += [(run.start() + i, tag) for i, tag in enumerate(tags) if tag in self._known]
        seen = set[str]()
        matchers = (self._whole_matches, self._cover_matches, self._cut_matches)
        for owner, position, strength in chain.from_iterable(find(words, hits) for find in matchers):
            name = self._set_name(owner)
            if name not in seen:
                seen.add(name)
                start = next(islice(_WORD.finditer(folded), position, None)).start()
                yield name, 1 + folded.count(b"\n", 0, start), strength

    def _set_name(self, owner: int) -> str:
        return next(name for name, first in reversed(self._sets) if first <= owner)

    def _whole_matches(
        self, words: list[bytes], hits: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int, str]]:
        for position, tag in hits:
            for (length, *digest), owner in self._wholes.get(tag, {}).items():
                candidate = words[position : position + length]
                if len(candidate) == length and self._tagger.whole(candidate) == tuple(digest):
                    yield owner, position, "a whole text"

    def _cover_matches(
        self, words: list[bytes], hits: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int, str]]:
        """Yield the first window in which an item's shingles cover enough words, for each item."""
        near: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for position, tag in hits:
            for owner in self._owners.get(tag, ()):
                near[owner].append((position, tag))
        for owner, owner_hits in near.items():
            for i, (first, _) in enumerate(owner_hits):
                window = {
                    tag: start for start, tag in owner_hits[i : i + WINDOW] if start + SPAN <= first + WINDOW
                }
                places = {start + j for start in window.values() for j in range(SPAN)}
                if len(places) >= COVER and len({words[place] for place in places}) >= DIFFERENT:
                    yield owner, first, f"cover {len(places)} words"
                    break

    def _cut_matches(self, words: list[bytes], hits: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
        """Yield the first window in which enough of a set's items have some words in a row, for each set."""
        runs, done = dict[int, tuple[int, int]](), set[str]()
        cuts, ends = defaultdict[str, dict[int, int]](dict), defaultdict[str, int](int)
        for place, owner in ((place, owner) for place, tag in hits for owner in self._owners.get(tag, ())):
            first, last = runs.get(owner, (place, place))
            runs[owner] = first, last = (first if place - last <= 1 else place, place)
            name = self._set_name(owner) if last > first else ""
            if name and name not in done and (first >= ends[name] or cuts[name].get(owner) == first):
                cuts[name][owner], ends[name] = first, last + SPAN
                near = {o: begin for o, begin in cuts[name].items() if begin + CUTS_WINDOW >= last + SPAN}
                cuts[name] = near
                if len(near) >= CUTS:
                    done.add(name)
                    yield owner, min(near.values()), f"parts of {len(near)} items"


# The index and its file.


def write_index(path: Path, index: Index, key: Key) -> None:
    """Write an index, authenticated by the key: a line of JSON with names and sizes, and then the numbers."""
    named = {"sets": index.sets, "words": len(index.words), "shingles": len(index.shingles)}
    numbers = index.words + index.shingles + index.wholes
    head, body = MAGIC + bytes.fromhex(key.id), json.dumps(named).encode() + b"\n" + numbers.tobytes()
    mac = hmac.digest(key.derived("gate/mac"), head + body, "sha256")
    with writable(f"index {str(path)!a}"):
        write_atomic(path, head + mac + body, sync=False)


def read_index(path: Path, key: Key) -> Index:
    """Read and verify an index. Raise `DataError` if it has another format, was made with another key, or was changed."""
    shown = f"index {str(path)!a}"
    raw = _bytes_of(path, shown, _MOST_INDEX)
    head, mac, body = raw[:_HEAD], raw[_HEAD : _HEAD + _MAC], raw[_HEAD + _MAC :]
    if not raw.startswith(MAGIC) or len(mac) < _MAC:
        remedy = "To create an index, run `robustify gate index ITEMS -o INDEX`."
        raise DataError(f"{shown} is not a gate index of this version. {remedy}", code="invalid-index")
    if head[len(MAGIC) :].hex() != key.id:
        raise DataError(
            f"{shown} was made with key {head[len(MAGIC) :].hex()}. Pass that key, not {key.id}.",
            code="other-index-key",
        )
    if not hmac.compare_digest(hmac.digest(key.derived("gate/mac"), head + body, "sha256"), mac):
        raise DataError(
            f"{shown} was changed or truncated after it was made. Restore or rebuild it.",
            code="changed-index",
        )
    line, _, packed = body.partition(b"\n")
    named, numbers = json.loads(line), array("Q", packed)
    n, m = named["words"], named["words"] + named["shingles"]
    return Index(tuple(map(tuple, named["sets"])), numbers[:n], numbers[n:m], numbers[m:])


def build_index(sets: Mapping[str, Iterable[Item]], key: Key, *, library: bool = True) -> Index:
    """Build the index of named sets without stock phrases and, if `library` is true, without phrases of Python's library.
    Raise `DataError` if no item has enough text to be registered."""
    tagger, firsts, read = _Tagger(key), list[tuple[str, int]](), list[list[tuple[str, list[bytes]]]]()
    for name, items in (*sets.items(), ("the test of gate doctor", [(TEST_TEXT,)])):
        firsts.append((name, len(read)))
        # Sorting by keyed digests hides the order of the file.
        texts = ([(text, kept_words(text)) for text in item] for item in items)
        read += sorted(texts, key=lambda item: tagger.whole(_words_of(item)))
    rows = [tagger.tags(_words_of(item)) for item in read]
    ordinary = _background_tags(tagger, set().union(*rows), library)
    counts = Counter(tag for tags in rows for tag in set(tags))
    common = ordinary | {tag for tag, n in counts.items() if n > _SHARED}
    owners: dict[int, list[int]] = defaultdict(list)
    wholes, blind = array("Q"), 0
    for owner, (item, tags) in enumerate(zip(read, rows, strict=True)):
        # An item made from a template keeps the shingles that it shares, because it has hardly any others.
        left_out = common if _n_covered(tags, common) >= COVER + SPAN else ordinary
        for tag in set(tags) - left_out:
            if len(owners[tag]) < _SHARED:  # the first few items also reveal a leak of the others
                owners[tag].append(owner)
        longest, before = max(len(words) for _, words in item), len(wholes)
        for text, words in item:
            stem = len(words) == longest or text.rstrip().endswith("?")
            its = tagger.tags(words) if len(words) >= (WHOLE_STEM if stem else WHOLE) else []
            if not common.issuperset(its):
                wholes.extend((its[0], len(words), owner, *tagger.whole(words)))
        blind += len(wholes) == before and _n_covered(tags, left_out) < COVER
    if blind >= len(read) - 1:
        raise DataError(
            f"None of {blind} items has enough text. Expected questions of {COVER} words or more.",
            code="items-too-short",
        )
    pairs = (number for tag in sorted(owners) for owner in owners[tag] for number in (tag, owner))
    marks = array("Q", sorted({tagger.marks([word])[word] for item in read for word in _words_of(item)}))
    return Index(tuple(firsts), marks, array("Q", pairs), wholes, len(read) - 1, blind)


def _words_of(item: Sequence[tuple[str, list[bytes]]]) -> list[bytes]:
    return [word for _, words in item for word in words]


def _n_covered(tags: Sequence[int], left_out: set[int]) -> int:
    return len({i + j for i, tag in enumerate(tags) if tag not in left_out for j in range(SPAN)})


def _background_tags(tagger: _Tagger, wanted: set[int], library: bool) -> set[int]:
    files, bytes_left, kinds = list[Path](), _BACKGROUND, {".py", ".txt", ".rst", ".md"}
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.*")) if library else ():
        if path.suffix in kinds and "site-packages" not in path.parts and path.is_file():
            bytes_left -= path.stat().st_size
            files += [path] if bytes_left >= 0 else []
    phrases = "\n\n".join(lexicon_file()["stock_phrases"])
    texts = (phrases, *(path.read_text("utf-8", "replace") for path in files))
    return {tag for text in texts for tag in wanted.intersection(tagger.tags(kept_words(text)))}


def read_texts(path: Path) -> list[Item]:
    """Return the items of a file, each with all its strings. An item is an object in a JSON list, a line of JSONL, a row of
    CSV or TSV, or a paragraph of plain text. Raise `DataError` if the file has no text or is invalid."""
    shown = f"{str(path)!a}"
    data = _bytes_of(path, shown, _MOST_ITEMS)
    try:
        rows = map(_strings, _parsed_records(path.suffix.lower(), data.decode("utf-8-sig")))
        items: list[Item] = [*filter(None, map(tuple, rows))]
    except (ValueError, RecursionError):
        expected = "Expected JSON, JSONL, CSV, TSV or plain text"
        raise DataError(
            f"{shown} is not valid UTF-8 or JSON, or is nested too deeply. {expected}.",
            code="unreadable-items",
        ) from None
    if not items:
        raise DataError(f"{shown} contains no text to register.", code="no-text")
    return items


def _bytes_of(path: Path, shown: str, most: int) -> bytes:
    try:
        return read_regular(path, most, follow=True)
    except OSError as error:
        kind = UsageError if isinstance(error, FileNotFoundError) else DataError
        raise kind(f"{shown} cannot be read ({error.strerror}).", code="file-not-readable") from None


def _parsed_records(suffix: str, text: str) -> Iterable[object]:
    match suffix:
        case ".json":
            tree = json.loads(text)
            lists = [tree] if isinstance(tree, list) else [*tree.values()] if isinstance(tree, dict) else []
            longest = max((member for member in lists if isinstance(member, list)), key=len, default=[])
            return longest if longest and not any(isinstance(member, str) for member in longest) else [tree]
        case ".jsonl" | ".ndjson":
            return (json.loads(line) for line in text.split("\n") if line.strip())
        case ".csv" | ".tsv":
            csv.field_size_limit(1 << 30)
            return csv.reader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",")
        case _:
            return text.split("\n\n")


def _strings(tree: object) -> Iterator[str]:
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    yield from (text for value in inner for text in _strings(value))
    if isinstance(tree, str) and tree.strip():
        yield tree
