"""Detection of parallel items: translations whose letters show nothing, because their languages share none.

The relative lengths of an item's options, and their punctuation, survive a translation. Two items are *near* if each is
among the six most similar ones of the other in these. Unrelated items are often near too, so that nearness shows a parallel
set, but rarely which items belong together. Equal numbers do.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.item import Item
from robustify.judging.baselines.option_texts import code_points
from robustify.judging.baselines.wording import NUMBER

MOST_COMPARED = 100_000
"""Most items in which translations are sought."""
MOST_NEAR, MOST_ALIKE = 6, 20
"""Number of nearest items, and most items of equal lengths and punctuation, beyond which these are too common."""
FEWEST_EQUAL, EQUAL = 10, 0.2
"""Fewest near pairs with the same numbers, and their share of those with numbers, in a set whose numbers pair its items."""
FOREIGN, FEWEST_LETTERS = 0.1, 20
"""Largest overlap of the letter frequencies of items in different alphabets, and fewest letters of each."""
CLEAR, LEAST_EXCESS = 4.0, 0.1
"""Least number of standard errors, and least share of near pairs, by which too many are in different alphabets."""
_LONGEST_OPTIONS = 8
"""Number of options, longest first, whose lengths are compared."""
_MARK = re.compile(r"[^\w\s]")
_BEYOND_ALPHABETS = 0x900
"""First code point of scripts with so many signs that all of a script count as one letter."""
_COUNTED = 5_000
"""Number of items whose letters are counted at a time, because each letter takes some 40 bytes."""
_DRAWN = 20_000
"""Number of random pairs that show how often unrelated items are in different alphabets."""

Pairs = tuple[Ints, Ints]


@dataclass(frozen=True, slots=True)
class Parallels:
    """Likely translations: both items of each pair (p,), (p,), the most similar first, and the number of items that look
    parallel although no passage says so. Without pairs, nothing shows which of these items belong together."""

    pairs: Pairs
    unnamed: int


def parallels(items: Sequence[Item], order: Ints) -> Parallels:
    """Return the likely translations among the items. `order` (n,) sorts them by content.

    Near items with equal numbers are translations, if numbers of near items mostly agree. Items look parallel if such pairs
    exist, or if near items are in different alphabets more often than random ones are, which independent items in several
    languages are not.
    """
    none = Parallels((order[:0], order[:0]), 0)
    if len(items) > MOST_COMPARED:
        return none
    texts = [" ".join(sorted(NUMBER.findall(" ".join(item.choices)))) for item in items]
    said, passage = np.array(texts, dtype=object), np.array([item.group for item in items], dtype=object)
    alphabets = _Alphabets(items)
    repeated = Counter(filter(None, texts))
    if repeated.total() - len(repeated) < FEWEST_EQUAL and not alphabets.expected:
        return none
    a, b = _near(np.array([_profile(items[i]) for i in order.tolist()]))
    a, b = order[a], order[b]
    equal, numbered = said[a] == said[b], (said[a] != "") | (said[b] != "")
    unnamed = (passage[a] != passage[b]) | (passage[a] == "")

    def paired(among: Bools) -> Bools:
        enough = max(FEWEST_EQUAL, EQUAL * np.count_nonzero(numbered & among))
        return np.asarray(equal & among & (np.count_nonzero(equal & numbered & among) >= enough), dtype=bool)

    pairs, looks = paired(np.ones_like(equal)), paired(unnamed)
    looks = looks if looks.any() else alphabets.too_often(a, b, unnamed)
    return Parallels((a[pairs], b[pairs]), len(np.union1d(a[looks], b[looks])))


def _near(profile: Floats) -> Pairs:
    """Return both rows of each pair of near rows of `profile` (n, d), the most similar first."""
    from scipy.spatial import cKDTree  # slow to import, so only on use

    _, kind, sharing = np.unique(profile, axis=0, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(sharing[kind.ravel()] <= MOST_ALIKE)
    if len(rows) <= MOST_NEAR:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    apart, near = map(np.asarray, cKDTree(profile[rows]).query(profile[rows], MOST_NEAR + 1))
    of, to = np.repeat(np.arange(len(rows)), near.shape[1]), near.ravel()
    mutual = (near[to] == of[:, None]).any(axis=1) & (of < to)
    best = np.argsort(apart.ravel()[mutual], kind="stable")
    return rows[of[mutual][best]], rows[to[mutual][best]]


class _Alphabets:
    """Alphabets of items. `expected` is the share of random pairs of items that are in different ones."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._shares, self._enough = _letters(items)
        there = np.flatnonzero(self._enough)
        drawn = np.random.default_rng(0).choice(there, (2, _DRAWN)) if len(there) else np.zeros((2, 0), int)
        self.expected = np.count_nonzero(self._differ(*drawn)) / _DRAWN

    def too_often(self, a: Ints, b: Ints, among: Bools) -> Bools:
        """Return which of the pairs `a`, `b` (p,) in `among` (p,) are in different alphabets, or none if not too many."""
        found = among & self._enough[a] & self._enough[b]
        n = np.count_nonzero(found)
        found[found] = self._differ(a[found], b[found])
        excess = np.count_nonzero(found) - self.expected * n
        clear = CLEAR * np.sqrt(self.expected * (1 - self.expected) * n)
        return np.asarray(found & (excess > max(clear, LEAST_EXCESS * (1 - self.expected) * n)), dtype=bool)

    def _differ(self, i: Ints, j: Ints) -> Bools:
        return np.asarray(np.minimum(self._shares[i], self._shares[j]).sum(axis=1) < FOREIGN)


def _letters(items: Sequence[Item]) -> tuple[npt.NDArray[np.float32], Bools]:
    """Return the frequency of each letter in each item's options (n, letters), and which items have enough letters (n,)."""
    texts = ["".join(item.choices).casefold() for item in items]
    letters = [sign for sign in set[str]().union(*texts) if sign.isalpha()]
    names = sorted({_letter(sign) for sign in letters})
    column = np.full(sys.maxunicode + 1, -1)
    column[list(map(ord, letters))] = [names.index(_letter(sign)) for sign in letters]
    shares, enough = np.zeros((len(texts), len(names)), dtype=np.float32), np.zeros(len(texts), dtype=bool)
    for start in range(0, len(texts), _COUNTED):
        part = texts[start : start + _COUNTED]
        of = column[code_points(part)]
        at = np.repeat(np.arange(len(part)), [len(text) for text in part]) * len(names) + of
        counts = np.bincount(at[of >= 0], minlength=len(part) * len(names)).reshape(len(part), len(names))
        n = counts.sum(axis=1)
        shares[start : start + len(part)] = counts / np.maximum(n, 1)[:, None]
        enough[start : start + len(part)] = n >= FEWEST_LETTERS
    return shares, enough


def _letter(sign: str) -> str:
    """Return the letter itself, or the name of its script if this has too many letters to compare."""
    return sign if ord(sign) < _BEYOND_ALPHABETS else unicodedata.name(sign, "").partition(" ")[0]


def _profile(item: Item) -> Floats:
    """Return the relative lengths of an item's options in order, their number, and that of punctuation marks (d,)."""
    sizes = np.log1p(sorted(map(len, item.choices), reverse=True))
    out = np.zeros(_LONGEST_OPTIONS + 2)
    out[: min(len(sizes), _LONGEST_OPTIONS)] = (sizes - sizes.mean())[:_LONGEST_OPTIONS]
    out[-2:] = len(sizes), sum(len(_MARK.findall(text)) for text in item.choices) / 4
    return np.round(out, 6)
