"""The options of many items at once: their characters by class, their words by number, and how alike they are.

Item by item, Python spends most of its time on calls. Here a chunk of items is one text and its words are numbers. Every
amount has the same bits as its definition in one item: whole numbers are counted, quotients are of whole numbers, sums
are taken in the order of the options, and logarithms by the same function.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.wording import (
    ABSOLUTES,
    FUNCTION_WORDS,
    HEDGES,
    WORD,
    count_numbers,
    points_elsewhere,
)
from robustify.item import Item

CHUNK = 2_000
"""Items that are looked at together."""
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
    """Return the options of these items, `CHUNK` items at a time."""
    return (Options(items[start : start + CHUNK]) for start in range(0, len(items), CHUNK))


class Vocabulary(dict[str, int]):
    """The number of each word, in the order in which they were met; 0 is the end of a text."""

    def __init__(self) -> None:
        super().__init__({_END: 0})

    def __missing__(self, word: str) -> int:
        self[word] = at = len(self)
        return at

    def read(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the row and the number of each word of these texts, (w,) each, in their order."""
        joined = _END.join(texts)
        if joined.count(_END) >= max(len(texts), 1):
            joined = _END.join(text.replace(_END, " ") for text in texts)
        found = _TOKEN.findall(joined.casefold())
        numbers = np.fromiter(map(self.__getitem__, found), np.int64, len(found))
        word = numbers > 0
        return np.cumsum(~word, dtype=np.int64)[word], numbers[word]

    def among(self, words: frozenset[str]) -> Bools:
        """Return which numbers are of these words, (all,)."""
        out = np.zeros(len(self), dtype=bool)
        out[[self[word] for word in words if word in self]] = True
        return out


class Options:
    """The c options of n items, text by text without outer blanks. Nothing is counted before it is asked for."""

    def __init__(self, items: Sequence[Item]) -> None:
        choices = [item.choices for item in items]
        self._items = items
        self.choices = choices
        self.texts = [choice.strip() for one in choices for choice in one]
        self.k: Ints = np.fromiter(map(len, choices), np.int64, len(choices))
        self.key: Ints = np.fromiter((item.key for item in items), np.int64, len(choices))
        self.there: Bools = np.arange(int(self.k.max(initial=0))) < self.k[:, None]
        self.item = np.repeat(np.arange(len(choices)), self.k)
        self.vocabulary = Vocabulary()

    def padded(self, values: Ints) -> Ints:
        """Return values (c,) by item and position, (n, K); 0 where an item has no such option."""
        out = np.zeros(self.there.shape, dtype=np.int64)
        out[self.there] = values
        return out

    @cached_property
    def chars(self) -> Ints:
        """(c,): characters."""
        return np.fromiter(map(len, self.texts), np.int64, len(self.texts))

    @cached_property
    def split(self) -> Ints:
        """(c,): words between blanks."""
        return np.fromiter((len(text.split()) for text in self.texts), np.int64, len(self.texts))

    @cached_property
    def _signs(self) -> npt.NDArray[np.uint32]:
        return np.frombuffer("".join(self.texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)

    @cached_property
    def _table(self) -> Bools:
        """(classes, code points up to the largest): what each character is."""
        table = np.zeros((len(_CLASSES), int(self._signs.max(initial=0)) + 1), dtype=bool)
        codes = np.flatnonzero(np.bincount(self._signs, minlength=table.shape[1]))
        for row, is_one in zip(table, _CLASSES, strict=True):
            row[codes] = [is_one(chr(code)) for code in codes.tolist()]
        return table

    @cached_property
    def classes(self) -> Ints:
        """(classes, c): how many characters of each class."""
        n = len(self.texts)
        row = np.repeat(np.arange(n), self.chars)
        return np.array([np.bincount(row[is_one[self._signs]], minlength=n) for is_one in self._table])

    @cached_property
    def numbers(self) -> Ints:
        """(c,): numbers."""
        out = np.zeros(len(self.texts), dtype=np.int64)
        some = np.flatnonzero(self.classes[DECIMAL])
        out[some] = [count_numbers(self.texts[at]) for at in some.tolist()]
        return out

    @cached_property
    def points(self) -> Ints:
        """(c,): 1 where an option speaks of the others."""
        return np.fromiter(map(points_elsewhere, self.texts), np.int64, len(self.texts))

    @cached_property
    def forms(self) -> Bools:
        """(c, 8): the yes-or-no traits of the form of each option."""
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
        """(c,): whether an option begins with a capital."""
        first = np.minimum(np.cumsum(self.chars) - self.chars, max(len(self._signs) - 1, 0))
        capital = self._table[CAPITAL][self._signs[first]] if len(self._signs) else np.zeros(len(first), bool)
        return np.asarray(capital & (self.chars > 0))

    @cached_property
    def oddness(self) -> Ints:
        """(c,): in how many of its traits of form an option differs from how many of the others."""
        if not len(self.k):
            return np.empty(0, dtype=np.int64)
        forms, of = self.forms, np.repeat(self.k, self.k)[:, None]
        having = np.repeat(
            np.add.reduceat(forms.astype(np.int64), np.cumsum(self.k) - self.k), self.k, axis=0
        )
        return np.asarray(np.where(forms, of - having, having).sum(axis=1), dtype=np.int64)

    # Words by number.

    @cached_property
    def words(self) -> tuple[Ints, Ints]:
        """The row and the number of each word of each option, in their order."""
        return self.vocabulary.read(self.texts)

    @cached_property
    def sets(self) -> tuple[Ints, Ints]:
        """The row and the number of each distinct word of each option, by row."""
        row, word = self.words
        size = len(self.vocabulary)
        both = np.sort(row * size + word)
        both = both[np.diff(both, prepend=-1) > 0]
        return both // size, both % size

    @property
    def absolutes(self) -> Ints:
        """(c,): words like always, never, only."""
        return self.count_of(ABSOLUTES)

    @property
    def hedges(self) -> Ints:
        """(c,): words like may, often, usually."""
        return self.count_of(HEDGES)

    def count_of(self, words: frozenset[str]) -> Ints:
        """Return for each option how many of its words are among these, (c,)."""
        row, word = self.words
        return np.bincount(row[self.vocabulary.among(words)[word]], minlength=len(self.texts))

    @cached_property
    def likeness(self) -> Floats:
        """(n, K, K): the Jaccard index of the words of every two options of an item; 1 where both have none."""
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
        """(n, K, K): the other options of each option that an item has."""
        width = self.there.shape[1]
        both = self.there[:, :, None] & self.there[:, None, :]
        return np.asarray(both & ~np.eye(width, dtype=bool))

    @cached_property
    def overlap(self) -> Floats:
        """(c,): the mean likeness with the others, as a sum over all options less 1."""
        shown = np.where(self.there[:, None, :], self.likeness, 0.0)
        return np.asarray((summed(shown) - 1.0)[self.there] / (np.repeat(self.k, self.k) - 1))

    @cached_property
    def in_stem(self) -> Floats:
        """(c,): the share of its words of content that stand in the stem."""
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
        """(c,): how many of its item's options come before it, case folded."""
        found: list[int] = []
        for choices in self.choices:
            lower = [choice.strip().casefold() for choice in choices]
            found.extend(map(sorted(lower).index, lower))
        return np.array(found, dtype=np.int64)


def summed(values: Floats) -> Floats:
    """Return the sums over the last axis, from its first to its last entry."""
    total = np.zeros(values.shape[:-1])
    for at in range(values.shape[-1]):
        total += values[..., at]
    return total
