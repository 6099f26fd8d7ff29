"""The fingerprint layer: does a text hold words of a registered set, in their order?

A text is refused where distinct shingles of one item cover at least seven words, six of them different, within a
window of 48, or where it holds a whole registered text. Paraphrase is out of its reach: it knows words, not meanings.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from robustify.gate.fingerprints.folding import ROTATED, Stream, joined_letters, rotated, streams
from robustify.gate.fingerprints.index_file import SPAN, Tables, Tagger
from robustify.gate.key_file import Key

COVER = 7
"""Words of one item that refuse."""
DIFFERENT = 6
"""How many of them must be different words: ordinary text says `the left side of the right side` too."""
HINT = 6
"""Words of one item that warn."""
WINDOW = 48
"""Words within which they must be."""
_MOST_WORDS = 1 << 20
"""Words that are remembered between texts."""

Hit = tuple[int, int]
"""The position of a shingle in a text, and its tag."""
Seen = tuple[str, int, int, bool]
"""The name of a set, the position of a word, the words covered, and whether a whole text begins there."""
# A word's kind is the sum of 1 (the vocabulary holds it), 2 (read from its end) and 4 (in ROT13).
_RUN = re.compile(rb"[\x01\x03\x05\x07]{%d,}" % SPAN)
_RUN_BACKWARDS = re.compile(rb"[\x02\x03\x06\x07]{%d,}" % SPAN)
_RUN_ROTATED = re.compile(rb"[\x04-\x07]{2,}")
"""Two words are enough to look closer: folding takes one letter or digit for another, which turned are two."""


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
        self._kinds: dict[bytes, int] = {}

    def matches(self, text: str, *, disguised: bool = True) -> Iterator[Match]:
        """What a text shares with the registered sets; disguised: also spaced out, in ROT13 and backwards."""
        rotates = False
        for stream in streams(text):
            words = stream.kept()
            kinds = self._kinds_of(stream, words)
            yield from self._judged(stream, words, kinds)
            if disguised:
                if _RUN_BACKWARDS.search(kinds):
                    turned = [word[::-1] for word in reversed(words)]
                    yield from self._judged(
                        stream, turned, bytes(k >> 1 for k in reversed(kinds)), backwards=True
                    )
                yield from self._in(joined_letters(stream))
                rotates = rotates or _RUN_ROTATED.search(kinds) is not None
        for stream in rotated(text) if rotates else ():
            yield from self._in(stream)

    def _in(self, stream: Stream | None) -> Iterator[Match]:
        if stream is not None:
            words = stream.kept()
            yield from self._judged(stream, words, self._kinds_of(stream, words))

    def _judged(
        self, stream: Stream, words: list[bytes], kinds: bytes, *, backwards: bool = False
    ) -> Iterator[Match]:
        """The strongest match with each set. `words`: those of the stream that count, in the order of reading."""
        hits = self._hits(words, kinds)
        if not hits:
            return
        places = stream.places()[::-1] if backwards else stream.places()
        best: dict[str, tuple[tuple[bool, int], int]] = {}
        for name, place, cover, whole in (*self._wholes(words, hits), *self._covers(words, hits, places)):
            if name not in best or (whole, cover) > best[name][0]:
                best[name] = ((whole, cover), place)
        for name, ((whole, cover), place) in best.items():
            yield Match(name, stream.line_of(places[place]), cover, whole)

    def _kinds_of(self, stream: Stream, words: list[bytes]) -> bytes:
        """For each word whether the vocabulary holds it, and in which disguise; a new word is looked up once."""
        marks, mark = self._marks, self._tagger.mark
        if len(self._kinds) > _MOST_WORDS:
            self._kinds.clear()
        for word in stream.distinct.difference(self._kinds):
            self._kinds[word] = (
                (mark(word) in marks)
                | (mark(word[::-1]) in marks) << 1
                | (mark(word.translate(ROTATED)) in marks) << 2
            )
        return bytes(map(self._kinds.__getitem__, words))

    def _hits(self, words: list[bytes], kinds: bytes) -> list[Hit]:
        """The registered shingles of a text: only runs of words of the vocabulary are tagged at all."""
        hits: list[Hit] = []
        for run in _RUN.finditer(kinds):
            tags = self._tagger.tags(words[run.start() : run.end()])
            if not self._known.isdisjoint(tags):
                hits += ((run.start() + i, tag) for i, tag in enumerate(tags) if tag in self._known)
        return hits

    def _wholes(self, words: list[bytes], hits: list[Hit]) -> Iterator[Seen]:
        for place, tag in hits:
            for length, owner, digest in self._starts.get(tag, ()):
                if (
                    place + length <= len(words)
                    and self._tagger.whole(words[place : place + length]) == digest
                ):
                    yield self._set_of(owner), place, length, True

    def _covers(self, words: list[bytes], hits: list[Hit], places: list[int]) -> Iterator[Seen]:
        """Runs of hits of one item that cover enough words within the window (safety.md, section 4)."""
        near: dict[int, deque[Hit]] = defaultdict(deque)
        for place, tag in hits:
            for owner in self._owners(tag):
                window = near[owner]
                window.append((place, tag))
                while window[0][0] < place + SPAN - WINDOW:
                    window.popleft()
                cover = _covered(window, places)
                if cover >= COVER and _different(window, words) < DIFFERENT:
                    cover = HINT
                if cover >= HINT:
                    yield self._set_of(owner), window[0][0], cover, False

    def _owners(self, tag: int) -> "list[int]":
        tags = self._tables.tags
        return list(self._tables.owners[bisect_left(tags, tag) : bisect_right(tags, tag)])

    def _set_of(self, owner: int) -> str:
        sets = self._tables.sets
        return sets[bisect_right([first for _, first in sets], owner) - 1][0]


def _covered(hits: "deque[Hit]", places: list[int]) -> int:
    """How many words the hits cover, a repeated shingle counted once, one lone letter within a shingle too."""
    out: set[int] = set()
    for place in {tag: place for place, tag in hits}.values():
        first, last = sorted((places[place], places[place + SPAN - 1]))
        out |= set(range(first, last + 1)) if last - first <= SPAN else set(places[place : place + SPAN])
    return len(out)


def _different(hits: "deque[Hit]", words: list[bytes]) -> int:
    """How many different words the hits cover."""
    return len({word for place, _ in hits for word in words[place : place + SPAN]})
