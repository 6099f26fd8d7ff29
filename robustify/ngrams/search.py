"""Finds thousands of word sequences in a stream of text of any length, in memory that does not grow with it.

Sequences are held as 64-bit hashes of their words, and the text goes by once. Two different sequences are taken
for one with a probability of 2^-64 a pair, which is the only way in which this can be wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustify.arrays import Bools, Ints
from robustify.ngrams.words import Codes, word_codes

FEWEST_WORDS = 5
"""A shorter sequence is common property: "the capital of France" is no item."""

_BASE = np.uint64(0xA0761D6478BD642F)


@dataclass(frozen=True, slots=True, repr=False)
class Sought:
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


def sought(sequences: Sequence[tuple[Sequence[int], int]]) -> Sought:
    """Look for these: of each sequence of word codes every window of as many words as the number beside it.

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
    return Sought(hashes, openings, tuple(np.unique(lengths).tolist()), window, numbers)


class Search:
    """Text goes by, and what of it was sought is remembered. `words`: how many went by since `restart`."""

    def __init__(self, what: Sought) -> None:
        self.words = 0
        self._what = what
        self._found = np.zeros(len(what.hashes), dtype=bool)
        self._tail = np.zeros(0, dtype=np.uint64)

    def restart(self) -> None:
        """Another file begins: no sequence goes on from the one before."""
        self.words = 0
        self._tail = self._tail[:0]

    def see(self, text: str) -> None:
        """The next piece of text, which must begin and end between two words."""
        what, new = self._what, word_codes(text)
        self.words += int(np.count_nonzero(new))
        code = np.concatenate([self._tail, new])
        self._tail = code[len(code) - min(len(code), max(what.lengths, default=1) - 1) :].copy()
        if len(code) < FEWEST_WORDS or not len(what.hashes):
            return
        opening = code[: len(code) - FEWEST_WORDS + 1].copy()
        for j in range(1, FEWEST_WORDS):
            opening *= _BASE
            opening += code[j : j + len(opening)]
        at = np.flatnonzero(what.openings[_place(opening, what.openings)])
        for length in what.lengths:
            at = at[at + length <= len(code)]
            hashed = _hash(code, at, length)
            place = np.minimum(np.searchsorted(what.hashes, hashed), len(what.hashes) - 1)
            self._found[place[what.hashes[place] == hashed]] = True

    def counted(self) -> tuple[Ints, Ints]:
        """Of each sequence how many windows were found, and how many it has, (sequences,) both."""
        what = self._what
        n = int(what.sequence.max(initial=-1)) + 1
        seen = np.bincount(what.sequence, weights=self._found[what.window], minlength=n)
        return seen.astype(np.int64), np.bincount(what.sequence, minlength=n)


def _hash(code: Codes, start: Ints, length: int) -> Codes:
    """The hash of the `length` words from each start on: a polynomial of their codes, modulo 2^64."""
    out = code[start]
    for j in range(1, length):
        out = out * _BASE + code[start + j]
    return np.asarray(out, dtype=np.uint64)


def _place(hashed: Codes, openings: Bools) -> Ints:
    # The upper bits: the lowest ones of a product depend on the lowest ones of its factors alone.
    return (hashed >> np.uint64(65 - len(openings).bit_length())).astype(np.int64)
