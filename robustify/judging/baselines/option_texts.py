"""Vectorized text statistics of the options of many items: character classes, word counts, and similarity.

Words become integers. Results are bit-identical to a computation per item: integers are counted, quotients are of
integers, and sums follow the order of the options.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.odd_characters import CLASSES, OddClass, odd_characters
from robustify.base.texts import EDGES, edges
from robustify.items.item import Item
from robustify.judging.baselines.wording import (
    ABSOLUTES,
    FUNCTION_WORDS,
    HEDGES,
    WORD,
    count_numbers,
    points_elsewhere,
)

CHUNK = 2_000
"""Number of items per chunk."""
_SPLIT = 20_000
"""Number of texts that are split into words at a time."""
_END = "\0"
_TOKEN = re.compile(f"{_END}|{WORD.pattern}")
_CLASSES: tuple[Callable[[str], bool], ...] = (
    str.isdigit,
    str.isdecimal,
    str.isalpha,
    str.isupper,
    ",".__eq__,
    ";:\"'“”!?—–".__contains__,
    "([".__contains__,
    "(".__eq__,
    "-–".__contains__,
)
DIGIT, DECIMAL, LETTER, CAPITAL, COMMA, PUNCTUATION, BRACKET, ROUND, HYPHEN = range(len(_CLASSES))


def chunks(items: Sequence[Item]) -> "Iterator[OptionTexts]":
    """Yield the options of these items, `CHUNK` items at a time."""
    for start in range(0, len(items), CHUNK):
        yield OptionTexts(items[start : start + CHUNK])


class Vocabulary(dict[str, int]):
    """Mapping of words to integer codes, in order of first appearance. Code 0 marks the end of a text."""

    def __init__(self) -> None:
        super().__init__({_END: 0})

    def __missing__(self, word: str) -> int:
        self[word] = code = len(self)
        return code

    def read(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """Split texts into words. Return the text number and the code of each word, in order (w,)."""
        # Words as strings take ten times the memory of their codes, so they are split in blocks.
        blocks = (texts[start : start + _SPLIT] for start in range(0, len(texts), _SPLIT))
        codes = np.concatenate([np.empty(0, dtype=np.int64), *map(self._codes, blocks)])
        is_word = codes > 0
        return np.cumsum(~is_word, dtype=np.int64)[is_word], codes[is_word]

    def _codes(self, texts: Sequence[str]) -> Ints:
        joined = _END.join([*texts, ""])
        if joined.count(_END) > len(texts):
            joined = _END.join([*(text.replace(_END, " ") for text in texts), ""])
        tokens = _TOKEN.findall(joined.casefold())
        return np.fromiter(map(self.__getitem__, tokens), np.int64, len(tokens))

    def among(self, words: frozenset[str]) -> Bools:
        """Return a mask over all codes that selects these words (codes,)."""
        out = np.zeros(len(self), dtype=bool)
        out[[self[word] for word in words if word in self]] = True
        return out


class OptionTexts:
    """Text statistics of the c options of n items. Each is computed at first use, and ignores spaces around options."""

    def __init__(self, items: Sequence[Item]) -> None:
        choices = [item.choices for item in items]
        self._items = items
        self.choices = choices
        self.texts = [choice.strip(EDGES) for options in choices for choice in options]
        self.k: Ints = np.fromiter(map(len, choices), np.int64, len(choices))
        self.key: Ints = np.fromiter((item.key for item in items), np.int64, len(choices))
        self.mask: Bools = np.arange(int(self.k.max(initial=0))) < self.k[:, None]
        self.item = np.repeat(np.arange(len(choices)), self.k)
        self.vocabulary = Vocabulary()

    def padded(self, values: Ints) -> Ints:
        """Arrange the values of options by item, with zeros for missing options. The shape (c,) becomes (n, K)."""
        out = np.zeros(self.mask.shape, dtype=np.int64)
        out[self.mask] = values
        return out

    @cached_property
    def chars(self) -> Ints:
        """Number of characters of each option (c,)."""
        return np.fromiter(map(len, self.texts), np.int64, len(self.texts))

    @cached_property
    def outer_space(self) -> Floats:
        """Number of other options with different white space at their ends, plus 0.5 if the option itself has some (c,)."""
        if sum(len(choice) for options in self.choices for choice in options) == self.chars.sum():
            return np.zeros(len(self.texts))
        ends = [[edges(choice) for choice in options] for options in self.choices]
        differ = [len(options) - options.count(own) + any(own) / 2 for options in ends for own in options]
        return np.array(differ, dtype=np.float64)

    @cached_property
    def odd(self) -> Floats:
        """Number of other options with different odd characters, plus 0.5 if the option itself has odd characters (c,
        classes). Blanks and invisible characters differ by their kind, and others by whether there are any."""
        odd, out = list(map(odd_characters, self.texts)), np.zeros((len(self.texts), len(CLASSES)))
        for end, k in zip(np.cumsum(self.k).tolist(), self.k.tolist(), strict=True):
            if any(odd[end - k : end]):
                out[end - k : end] = np.column_stack(
                    [_differing(kind, odd[end - k : end]) for kind in CLASSES]
                )
        return out

    def each(self, count: Callable[[str], int]) -> Ints:
        """Apply a function to the text of each option (c,)."""
        return np.fromiter(map(count, self.texts), np.int64, len(self.texts))

    @cached_property
    def split(self) -> Ints:
        """Number of words separated by spaces in each option (c,)."""
        return self.each(lambda text: len(text.split()))

    @cached_property
    def classes(self) -> Ints:
        """Number of characters of each class in each option (classes, c)."""
        n, characters = len(self.texts), code_points(self.texts)
        row, codes = np.repeat(np.arange(n), self.chars), np.flatnonzero(np.bincount(characters))
        in_class, counts = np.zeros(int(characters.max(initial=0)) + 1, dtype=bool), []
        for is_of_class in _CLASSES:
            in_class[codes] = [is_of_class(chr(code)) for code in codes.tolist()]
            counts.append(np.bincount(row[in_class[characters]], minlength=n))
        return np.array(counts)

    @cached_property
    def numbers(self) -> Ints:
        """Count of numbers in each option (c,)."""
        return self.each(count_numbers)

    @cached_property
    def points(self) -> Ints:
        """Whether each option refers to other options: 1 or 0 (c,)."""
        return self.each(points_elsewhere)

    @cached_property
    def forms(self) -> Bools:
        """Binary features of each option's surface form, such as an initial capital (c, 8)."""
        signs = (self.classes[sign] > 0 for sign in (DECIMAL, COMMA, ROUND, HYPHEN))
        final_mark = self.each(lambda text: text.endswith((".", "!", "?", ";"))) > 0
        return np.column_stack(
            [self.capital_first, final_mark, *signs, self.split == 1, self.each(str.isupper) > 0]
        )

    @cached_property
    def capital_first(self) -> Bools:
        """Mask of the options that begin with a capital letter (c,)."""
        return self.each(lambda text: text[:1].isupper()) > 0

    @cached_property
    def oddness(self) -> Ints:
        """Number of differences in form between each option and the others, summed over `forms` (c,)."""
        if not len(self.k):
            return np.empty(0, dtype=np.int64)
        forms, k = self.forms, np.repeat(self.k, self.k)[:, None]
        counts = np.add.reduceat(forms.astype(np.int64), np.cumsum(self.k) - self.k)
        others = np.repeat(counts, self.k, axis=0)
        return np.asarray(np.where(forms, k - others, others).sum(axis=1), dtype=np.int64)

    @cached_property
    def words(self) -> tuple[Ints, Ints]:
        """Option index and vocabulary code of each word, in text order (w,)."""
        return self.vocabulary.read(self.texts)

    @cached_property
    def sets(self) -> tuple[Ints, Ints]:
        """Option index and vocabulary code of each distinct word of an option, sorted by option."""
        row, word = self.words
        size = len(self.vocabulary)
        pairs = np.sort(row * size + word)
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        return pairs // size, pairs % size

    @property
    def absolutes(self) -> Ints:
        """Number of absolute words such as always, never and only in each option (c,)."""
        return self.count_of(ABSOLUTES)

    @property
    def hedges(self) -> Ints:
        """Number of hedging words such as may, often and usually in each option (c,)."""
        return self.count_of(HEDGES)

    def count_of(self, words: frozenset[str]) -> Ints:
        """Count the given words in each option (c,)."""
        row, word = self.words
        return np.bincount(row[self.vocabulary.among(words)[word]], minlength=len(self.texts))

    @cached_property
    def likeness(self) -> Floats:
        """Jaccard index of the words in each pair of an item's options (n, K, K). It is 1 if neither option has words."""
        row, word = self.sets
        n, width = self.mask.shape
        size = self.padded(np.bincount(row, minlength=len(self.texts)))
        code = self.item[row] * len(self.vocabulary) + word
        order = np.argsort(code, kind="stable")
        start = np.flatnonzero(np.diff(code[order], prepend=-1))
        bits = np.int64(1) << (row - (np.cumsum(self.k) - self.k)[self.item[row]])
        holders = np.bitwise_or.reduceat(bits[order], start) if len(start) else bits[:0]
        item = self.item[row[order[start]]]
        is_shared = (holders & (holders - 1)) > 0
        holders, item = holders[is_shared], item[is_shared]
        out = np.ones((n, width, width))
        for i in range(width):
            for j in range(i):
                items_with_both = item[(holders >> i) & (holders >> j) & 1 > 0]
                shared = np.bincount(items_with_both, minlength=n)
                joint = size[:, i] + size[:, j] - shared
                out[:, i, j] = out[:, j, i] = np.where(joint > 0, shared / np.maximum(joint, 1), 1.0)
        return out

    @cached_property
    def others(self) -> Bools:
        """Mask of the pairs of different options of the same item (n, K, K)."""
        width = self.mask.shape[1]
        return np.asarray(self.mask[:, :, None] & self.mask[:, None, :] & ~np.eye(width, dtype=bool))

    @cached_property
    def overlap(self) -> Floats:
        """Mean similarity of each option to the item's others (c,). It is computed as a sum over all options minus 1."""
        likeness = np.where(self.mask[:, None, :], self.likeness, 0.0)
        return np.asarray((summed(likeness) - 1.0)[self.mask] / (np.repeat(self.k, self.k) - 1))

    @cached_property
    def in_stem(self) -> Floats:
        """Share of each option's content words that are in the stem (c,)."""
        row, word = self.sets
        stem_row, stem_word = self.vocabulary.read([item.stem for item in self._items])
        content = ~self.vocabulary.among(FUNCTION_WORDS)
        row, word = row[content[word]], word[content[word]]
        # `np.isin` uses hashing and is many times slower here.
        own, stems = self.item[row] * len(content) + word, np.sort(stem_row * len(content) + stem_word)
        is_in_stem = np.searchsorted(stems, own, "right") > np.searchsorted(stems, own)
        n = len(self.texts)
        return np.bincount(row[is_in_stem], minlength=n) / np.maximum(np.bincount(row, minlength=n), 1)

    @cached_property
    def alphabet(self) -> Ints:
        """Number of the item's options that precede each option in alphabetical order, ignoring case (c,)."""
        cased = [[choice.strip(EDGES).casefold() for choice in options] for options in self.choices]
        return np.array(
            [rank for options in cased for rank in map(sorted(options).index, options)], dtype=np.int64
        )


def _differing(odd_class: OddClass, odd: Sequence[Sequence[tuple[OddClass, str]]]) -> list[float]:
    by_kind = odd_class in ("invisible", "space")
    kinds = [
        {sign if by_kind else "" for marks, sign in option_marks if marks == odd_class}
        for option_marks in odd
    ]
    return [len(kinds) - kinds.count(marks) + bool(marks) / 2 for marks in kinds]


def code_points(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Return the code points of all texts, one after the other."""
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def summed(values: Floats) -> Floats:
    """Sum over the last axis in index order."""
    total = np.zeros(values.shape[:-1])
    for column in range(values.shape[-1]):
        total += values[..., column]
    return total
