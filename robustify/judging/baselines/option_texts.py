"""Vectorized text statistics of the options of many items: character classes, word counts, and similarity.

Processing items one by one in Python is slow. Here, a chunk of items becomes one text, and its words become integers.
Results are bit-identical to a computation per item: integers are counted, quotients are of integers, sums follow the
order of the options, and logarithms use the same function.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
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


def chunks(items: Sequence[Item]) -> "Iterator[Options]":
    """Yield the options of these items, `CHUNK` items at a time."""
    for start in range(0, len(items), CHUNK):
        yield Options(items[start : start + CHUNK])


class Vocabulary(dict[str, int]):
    """Mapping of words to integer codes, in order of first appearance. Code 0 marks the end of a text."""

    def __init__(self) -> None:
        super().__init__({_END: 0})

    def __missing__(self, word: str) -> int:
        self[word] = at = len(self)
        return at

    def read(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the row and code of each word of the texts, in order (w,)."""
        joined = _END.join(texts)
        if joined.count(_END) >= max(len(texts), 1):
            joined = _END.join(text.replace(_END, " ") for text in texts)
        found = _TOKEN.findall(joined.casefold())
        numbers = np.fromiter(map(self.__getitem__, found), np.int64, len(found))
        word = numbers > 0
        return np.cumsum(~word, dtype=np.int64)[word], numbers[word]

    def among(self, words: frozenset[str]) -> Bools:
        """Return a mask over all codes that selects these words (codes,)."""
        out = np.zeros(len(self), dtype=bool)
        out[[self[word] for word in words if word in self]] = True
        return out


class Options:
    """Statistics of the c options of n items. Each is computed at first use, and ignores spaces around an option."""

    def __init__(self, items: Sequence[Item]) -> None:
        choices = [item.choices for item in items]
        self._items = items
        self.choices = choices
        self.texts = [choice.strip(EDGES) for one in choices for choice in one]
        self.k: Ints = np.fromiter(map(len, choices), np.int64, len(choices))
        self.key: Ints = np.fromiter((item.key for item in items), np.int64, len(choices))
        self.there: Bools = np.arange(int(self.k.max(initial=0))) < self.k[:, None]
        self.item = np.repeat(np.arange(len(choices)), self.k)
        self.vocabulary = Vocabulary()

    def padded(self, values: Ints) -> Ints:
        """Convert values (c,) to the shape (n, K), with zeros for missing options."""
        out = np.zeros(self.there.shape, dtype=np.int64)
        out[self.there] = values
        return out

    @cached_property
    def chars(self) -> Ints:
        """Number of characters of each option (c,)."""
        return np.fromiter(map(len, self.texts), np.int64, len(self.texts))

    @cached_property
    def outer_space(self) -> Floats:
        """Number of other options in the item with other blanks at their ends, and 0.5 for blanks of its own (c,)."""
        if sum(len(choice) for one in self.choices for choice in one) == self.chars.sum():
            return np.zeros(len(self.texts))
        found = [[edges(choice) for choice in one] for one in self.choices]
        differ = [len(one) - one.count(own) + any(own) / 2 for one in found for own in one]
        return np.array(differ, dtype=np.float64)

    @cached_property
    def split(self) -> Ints:
        """Number of words separated by spaces in each option (c,)."""
        return np.fromiter((len(text.split()) for text in self.texts), np.int64, len(self.texts))

    @cached_property
    def _signs(self) -> npt.NDArray[np.uint32]:
        return np.frombuffer("".join(self.texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)

    @cached_property
    def _table(self) -> Bools:
        """Table of the character classes of each code point (classes, code points)."""
        table = np.zeros((len(_CLASSES), int(self._signs.max(initial=0)) + 1), dtype=bool)
        codes = np.flatnonzero(np.bincount(self._signs, minlength=table.shape[1]))
        for row, is_one in zip(table, _CLASSES, strict=True):
            row[codes] = [is_one(chr(code)) for code in codes.tolist()]
        return table

    @cached_property
    def classes(self) -> Ints:
        """Number of characters of each class in each option (classes, c)."""
        n = len(self.texts)
        row = np.repeat(np.arange(n), self.chars)
        return np.array([np.bincount(row[is_one[self._signs]], minlength=n) for is_one in self._table])

    @cached_property
    def numbers(self) -> Ints:
        """Count of numbers in each option (c,)."""
        out = np.zeros(len(self.texts), dtype=np.int64)
        some = np.flatnonzero(self.classes[DECIMAL])
        out[some] = [count_numbers(self.texts[at]) for at in some.tolist()]
        return out

    @cached_property
    def points(self) -> Ints:
        """Indicator of options that refer to the others, 0 or 1 (c,)."""
        return np.fromiter(map(points_elsewhere, self.texts), np.int64, len(self.texts))

    @cached_property
    def forms(self) -> Bools:
        """Binary features of each option's surface form, such as an initial capital (c, 8)."""
        n, texts = len(self.texts), self.texts
        return np.column_stack(
            [
                self.capital_first,
                np.fromiter((text.endswith((".", "!", "?", ";")) for text in texts), bool, n),
                self.classes[DECIMAL] > 0,
                self.classes[COMMA] > 0,
                self.classes[ROUND] > 0,
                self.classes[HYPHEN] > 0,
                self.split == 1,
                np.fromiter(map(str.isupper, texts), bool, n),
            ]
        )

    @cached_property
    def capital_first(self) -> Bools:
        """Mask of the options that begin with a capital letter (c,)."""
        first = np.minimum(np.cumsum(self.chars) - self.chars, max(len(self._signs) - 1, 0))
        capital = self._table[CAPITAL][self._signs[first]] if len(self._signs) else np.zeros(len(first), bool)
        return np.asarray(capital & (self.chars > 0))

    @cached_property
    def oddness(self) -> Ints:
        """Number of differences in form between each option and the others (c,), summed over the features in `forms`."""
        if not len(self.k):
            return np.empty(0, dtype=np.int64)
        forms, of = self.forms, np.repeat(self.k, self.k)[:, None]
        having = np.repeat(
            np.add.reduceat(forms.astype(np.int64), np.cumsum(self.k) - self.k), self.k, axis=0
        )
        return np.asarray(np.where(forms, of - having, having).sum(axis=1), dtype=np.int64)

    # Words as integers

    @cached_property
    def words(self) -> tuple[Ints, Ints]:
        """Row and code of each word of the options, in order."""
        return self.vocabulary.read(self.texts)

    @cached_property
    def sets(self) -> tuple[Ints, Ints]:
        """Row and code of each distinct word of the options, by row."""
        row, word = self.words
        size = len(self.vocabulary)
        both = np.sort(row * size + word)
        both = both[np.diff(both, prepend=-1) > 0]
        return both // size, both % size

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
        """Jaccard index of the words of each pair of options of an item (n, K, K), or 1 if neither has words."""
        row, word = self.sets
        n, width = self.there.shape
        size = self.padded(np.bincount(row, minlength=len(self.texts)))
        code = self.item[row] * len(self.vocabulary) + word
        order = np.argsort(code, kind="stable")
        start = np.flatnonzero(np.diff(code[order], prepend=-1))
        bits = np.int64(1) << (row - (np.cumsum(self.k) - self.k)[self.item[row]])
        holders = np.bitwise_or.reduceat(bits[order], start) if len(start) else bits[:0]
        item = self.item[row[order[start]]]
        several = (holders & (holders - 1)) > 0
        holders, item = holders[several], item[several]
        out = np.ones((n, width, width))
        for i in range(width):
            for j in range(i):
                both = item[(holders >> i) & (holders >> j) & 1 > 0]
                shared = np.bincount(both, minlength=n)
                joint = size[:, i] + size[:, j] - shared
                out[:, i, j] = out[:, j, i] = np.where(joint > 0, shared / np.maximum(joint, 1), 1.0)
        return out

    @cached_property
    def others(self) -> Bools:
        """Mask of the other options of each option of an item (n, K, K)."""
        width = self.there.shape[1]
        both = self.there[:, :, None] & self.there[:, None, :]
        return np.asarray(both & ~np.eye(width, dtype=bool))

    @cached_property
    def overlap(self) -> Floats:
        """Mean similarity of each option to the others (c,). It is computed as a sum over all options minus 1."""
        shown = np.where(self.there[:, None, :], self.likeness, 0.0)
        return np.asarray((summed(shown) - 1.0)[self.there] / (np.repeat(self.k, self.k) - 1))

    @cached_property
    def in_stem(self) -> Floats:
        """Share of each option's content words that are in the stem (c,)."""
        row, word = self.sets
        stem_row, stem_word = self.vocabulary.read([item.stem for item in self._items])
        content = ~self.vocabulary.among(FUNCTION_WORDS)
        row, word = row[content[word]], word[content[word]]
        asked = np.sort(stem_row * len(content) + stem_word)
        code = self.item[row] * len(content) + word
        at = np.searchsorted(asked, code)
        there = at < len(asked)
        there[there] = asked[at[there]] == code[there]
        n = len(self.texts)
        return np.bincount(row[there], minlength=n) / np.maximum(np.bincount(row, minlength=n), 1)

    @cached_property
    def alphabet(self) -> Ints:
        """Number of options of the same item that come before each option, ignoring case (c,)."""
        found: list[int] = []
        for choices in self.choices:
            lower = [choice.strip(EDGES).casefold() for choice in choices]
            found.extend(map(sorted(lower).index, lower))
        return np.array(found, dtype=np.int64)


def summed(values: Floats) -> Floats:
    """Sum over the last axis in index order."""
    total = np.zeros(values.shape[:-1])
    for at in range(values.shape[-1]):
        total += values[..., at]
    return total
