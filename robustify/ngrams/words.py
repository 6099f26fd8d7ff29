"""A text as numbers: one for each of its words, the same for words that differ in case or form alone.

This is what makes a search through gigabytes of text cheap: no word becomes an object of its own. Two different
words get one number with a probability of 2^-64 a pair.
"""

import unicodedata
from functools import cache

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint64]
Kinds = npt.NDArray[np.uint8]

BREAK = "\x01"
"""A word of its own whose number is 0, between two texts that do not belong together."""

_UNKNOWN, _SPACE, _LETTER, _ALONE, _CHANGES = range(5)
_POINTS = 0x110000
_BLOCK = 256
_BASE = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1
# Scripts that leave no space between words: a character counts as one.
_NO_SPACES = (
    (0x3041, 0x3096),
    (0x309D, 0x30FA),
    (0x30FC, 0x30FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
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
    z = (point + 1) * _BASE & _WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _WORD
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
