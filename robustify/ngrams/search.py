"""Finds thousands of word sequences in a stream of text of any length, in memory that does not grow with it.

A word becomes a number, the same for words that differ in case or form alone, so no word is an object of its own; a
sequence becomes a 64-bit hash of these numbers; the text goes by once. Two different words or sequences are taken for
one with a probability of 2^-64 a pair.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from robustify.arrays import Bools, Ints

Codes = npt.NDArray[np.uint64]
Kinds = npt.NDArray[np.uint8]

BREAK = "\x01"
"""A word of its own whose number is 0, between two texts that do not belong together."""

FEWEST_WORDS = 5
"""A shorter sequence is common property: "the capital of France" is no item."""

_SEQUENCE_BASE = np.uint64(0xA0761D6478BD642F)
_UNKNOWN, _SPACE, _LETTER, _ALONE, _CHANGES = range(5)
_POINTS = 0x110000
_BLOCK = 256
_BASE = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
# Scripts that leave no space between words: a character counts as one.
_NO_SPACES = (
    (0x3041, 0x3096), (0x309D, 0x30FA), (0x30FC, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))
_JAMO = range(0x1100, 0x1200)


def word_codes(text: str) -> Codes:
    """The numbers of the words of a text, in their order.

    Words are compared after NFKC and case folding. Whatever is no letter, digit or mark separates them, so white
    space, line breaks and punctuation do not matter. A Chinese character or a kana is a word.
    """
    points, kind = _characters(text)
    if (kind == _CHANGES).any():
        points, kind = _characters(_normalised(text))
    letter = _table()[1][points]
    inside, alone = letter != 0, kind == _ALONE
    opens = inside.copy()
    opens[1:] &= ~inside[:-1] | alone[1:] | alone[:-1]
    start = np.flatnonzero(opens)
    if not len(start):
        return np.zeros(0, dtype=np.uint64)
    up, down = _powers(1 << max(16, (len(points) - 1).bit_length()))
    # What separates words counts 0, so a word may be summed up to where the next one begins.
    code = _mixed(np.add.reduceat(letter * up[: len(points)], start) * down[start])
    code[points[start] == ord(BREAK)] = 0
    return code


def _characters(text: str) -> tuple[npt.NDArray[np.intp], Kinds]:
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.intp)
    kinds, codes = _table()
    kind = kinds[points]
    new = points[kind == _UNKNOWN]
    if not len(new):
        return points, kind
    for block in np.unique(new // _BLOCK).tolist():
        for point in range(block * _BLOCK, (block + 1) * _BLOCK):
            kinds[point], codes[point] = _described(point)
    return points, kinds[points]


@cache
def _table() -> tuple[Kinds, Codes]:
    """The kind and the number of every character met so far; both are filled block by block."""
    return np.zeros(_POINTS, dtype=np.uint8), np.zeros(_POINTS, dtype=np.uint64)


def _described(point: int) -> tuple[int, int]:
    """A character's kind, and the number of what it becomes (0 for what separates words).

    `_CHANGES` are those that become more than one character, none, or one that depends on their neighbours.
    """
    character = chr(point)
    if character == BREAK:
        return _ALONE, _number(point)
    own = _number(point) if _in_words(character) else 0
    if _is_mark(character) or point in _INVISIBLE or point in _JAMO:
        return _CHANGES, own
    becomes = _normalised(character)
    if not any(map(_in_words, becomes)):
        return _SPACE, 0
    if len(becomes) > 1 or _normalised(becomes) != becomes:
        return _CHANGES, own
    folded = ord(becomes)
    alone = any(first <= folded <= last for first, last in _NO_SPACES)
    return _ALONE if alone else _LETTER, _number(folded)


def _in_words(character: str) -> bool:
    return character.isalnum() or _is_mark(character)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_INVISIBLE)).casefold()


def _number(point: int) -> int:
    """A random-looking odd number for a character (SplitMix64)."""
    z = (point + 1) * _BASE & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return (z ^ z >> 31) | 1


@cache
def _powers(n: int) -> tuple[Codes, Codes]:
    """The powers 0 to n - 1 of an odd number and of its inverse, modulo 2^64."""

    def powers(base: int) -> Codes:
        steps = np.full(n, base, dtype=np.uint64)
        steps[0] = 1
        return np.asarray(np.cumprod(steps), dtype=np.uint64)

    return powers(_BASE), powers(pow(_BASE, -1, 1 << 64))


def _mixed(code: Codes) -> Codes:
    # Sums of powers are linear; a product with a shift between is not, so that words cannot add up to others.
    code ^= code >> np.uint64(32)
    code *= np.uint64(0xD6E8FEB86659FD93)
    code ^= code >> np.uint64(29)
    code *= np.uint64(0xD6E8FEB86659FD93)
    return code


@dataclass(frozen=True, slots=True, repr=False)
class Windows:
    """What is looked for: windows of words, each the whole or an n-gram of one of the sequences.

    `hashes`: of all windows, each once, sorted. `openings`: a bit map of the hashes of their first 5 words.
    `lengths`: the windows' lengths, each once. `window`, `sequence` (windows,): the place of a window's hash,
    and the sequence that it belongs to.
    """

    hashes: Codes
    openings: Bools
    lengths: tuple[int, ...]
    window: Ints
    sequence: Ints


def windows_of(sequences: Sequence[tuple[Sequence[int], int]]) -> Windows:
    """Of each sequence of word codes every window of as many words as the number beside it.

    Raises:
        ValueError: a window of fewer than 5 words, or longer than its sequence.
    """
    if any(not FEWEST_WORDS <= length <= len(words) for words, length in sequences):
        raise ValueError(f"a window of less than {FEWEST_WORDS} words or of more than its sequence has")
    code = np.array([word for words, _ in sequences for word in words], dtype=np.uint64)
    size = np.array([len(words) for words, _ in sequences], dtype=np.int64)
    length = np.array([length for _, length in sequences], dtype=np.int64)
    count = size - length + 1
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    start, lengths = np.repeat(np.cumsum(size) - size, count) + within, np.repeat(length, count)
    hashed = np.zeros(len(start), dtype=np.uint64)
    for words in np.unique(lengths).tolist():
        here = lengths == words
        hashed[here] = _hash(code, start[here], words)
    hashes, window = np.unique(hashed, return_inverse=True)
    # 64 places for each window, so that few of the text's words need a second look.
    openings = np.zeros(1 << min(26, max(16, 6 + len(hashes).bit_length())), dtype=bool)
    openings[_place(_hash(code, start, FEWEST_WORDS), openings)] = True
    numbers = np.repeat(np.arange(len(size)), count)
    return Windows(hashes, openings, tuple(np.unique(lengths).tolist()), window, numbers)


class Search:
    """Remembers which windows occur in the text it is given. `words`: how many it was given since `restart`."""

    def __init__(self, windows: Windows) -> None:
        self.words = 0
        self._windows = windows
        self._found = np.zeros(len(windows.hashes), dtype=bool)
        self._tail = np.zeros(0, dtype=np.uint64)

    def restart(self) -> None:
        """Another file begins: no sequence goes on from the one before."""
        self.words = 0
        self._tail = self._tail[:0]

    def see(self, text: str) -> None:
        """The next piece of text, which must begin and end between two words."""
        windows, new = self._windows, word_codes(text)
        self.words += int(np.count_nonzero(new))
        code = np.concatenate([self._tail, new])
        self._tail = code[len(code) - min(len(code), max(windows.lengths, default=1) - 1) :].copy()
        if len(code) < FEWEST_WORDS or not len(windows.hashes):
            return
        opening = code[: len(code) - FEWEST_WORDS + 1].copy()
        for j in range(1, FEWEST_WORDS):
            opening *= _SEQUENCE_BASE
            opening += code[j : j + len(opening)]
        at = np.flatnonzero(windows.openings[_place(opening, windows.openings)])
        for length in windows.lengths:
            at = at[at + length <= len(code)]
            hashed = _hash(code, at, length)
            place = np.minimum(np.searchsorted(windows.hashes, hashed), len(windows.hashes) - 1)
            self._found[place[windows.hashes[place] == hashed]] = True

    def counted(self) -> tuple[Ints, Ints]:
        """Of each sequence how many windows were found, and how many it has, (sequences,) both."""
        windows = self._windows
        n = int(windows.sequence.max(initial=-1)) + 1
        seen = np.bincount(windows.sequence, weights=self._found[windows.window], minlength=n)
        return seen.astype(np.int64), np.bincount(windows.sequence, minlength=n)


def _hash(code: Codes, start: Ints, length: int) -> Codes:
    """The hash of the `length` words from each start on: a polynomial of their codes, modulo 2^64."""
    out = code[start]
    for j in range(1, length):
        out = out * _SEQUENCE_BASE + code[start + j]
    return np.asarray(out, dtype=np.uint64)


def _place(hashed: Codes, openings: Bools) -> Ints:
    # The upper bits: the lowest ones of a product depend on the lowest ones of its factors alone.
    return (hashed >> np.uint64(65 - len(openings).bit_length())).astype(np.int64)
