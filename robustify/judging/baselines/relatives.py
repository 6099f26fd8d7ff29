"""Detection of items that belong together: relatives, such as reworded copies, and parallel items, such as translations.

A scorer that is fitted on an item's relatives may learn its key from theirs, so relatives share a fold. No threshold is
needed, because an unrelated item in the same fold does no harm. Likeness is the cosine of TF-IDF vectors of the words and
letter sequences in two items' options, without the strongest common directions, such as a language or a subject.

The letters of translations may show nothing, but the relative lengths of an item's options and their punctuation survive.
Two items are *near* if each is among the six most similar ones of the other in these. Unrelated items are often near too,
so that nearness shows a parallel set, but rarely which items belong together. Equal numbers do.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import ROUNDING, ROWS, Bools, Floats, Ints
from robustify.items.item import Item
from robustify.judging.baselines.option_texts import code_points
from robustify.judging.baselines.wording import NUMBER

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Pairs = tuple[Ints, Ints]
NEAREST = 3
"""Two items are relatives if each is among this many nearest items of the other."""
DIRECTIONS = 5
"""Number of common directions to remove."""
LARGEST, SHARE = 20, 0.1
"""Most items in a group of relatives, and largest share of the items, so that small sets still fill several folds."""
FEWEST_SHARING, MOST_SHARING = 2, 300
"""Fewest and most items that contain a compared column. More common columns hardly tell relatives from other items."""
_COMPARED = 500
"""Number of items per batch of comparisons."""
_TRIED, _SAMPLED = 64, 97
"""Mean number of pairs per item that are compared first, and the step at which their smallest product is estimated."""
_SLACK = 1e-5
"""Allowance for rounding when a pair's greatest possible likeness is compared."""


def relatives(items: Sequence[Item], order: Ints) -> Pairs:
    """Find pairs of relatives, such as reworded copies, the most similar first. Return both items of each pair (p,),
    (p,). `order` (n,) sorts the items by content. Items are compared in this order, so that rounding does not depend
    on the order of the file."""
    weights = _weights([items[i] for i in order.tolist()])
    if len(items) <= DIRECTIONS or not weights.nnz:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    nearest, likeness = _nearest(weights)
    row, nth = np.nonzero(nearest >= 0)
    other = nearest[row, nth]
    mutual = (nearest[other] == row[:, None]).any(axis=1) & (row < other)
    best_first = np.argsort(-likeness[row, nth][mutual], kind="stable")
    return order[row[mutual][best_first]], order[other[mutual][best_first]]


def merge_groups(group: Ints, a: Ints, b: Ints) -> Ints:
    """Merge groups along pairs of items, unless the merged group would be too large. `group` (n,) has the first item
    of each group, and the pairs `a`, `b` (p,) are taken in order."""
    top_size = min(LARGEST, int(SHARE * len(group)))
    parent, sizes = group.tolist(), np.bincount(group, minlength=len(group)).tolist()

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, j in zip(a.tolist(), b.tolist(), strict=True):
        low, high = sorted((root(i), root(j)))
        if low != high and sizes[low] + sizes[high] <= top_size:
            parent[high] = low
            sizes[low] += sizes[high]
    return np.array([root(i) for i in range(len(parent))], dtype=np.int64)


def _weights(items: Sequence[Item]) -> "csr_array":
    """Return the TF-IDF weights of the items' options, with rows of unit length (n, columns)."""
    from scipy.sparse import csr_array  # deferred, because `validate` needs only the parallels

    from robustify.judging.baselines.words import columns

    by_option = columns(items, FEWEST_SHARING)
    ends = by_option.indptr[np.cumsum([0, *(item.k for item in items)])]
    # Each option counts once, so that the sum of an item fits into the 8 bits of `by_option`.
    counts = csr_array((by_option.data, by_option.indices, ends), shape=(len(items), by_option.shape[1]))
    del by_option
    counts.sum_duplicates()
    # `np.add.at` and arithmetic in doubles copy their input, so they see a block at a time.
    sharing = np.zeros(counts.shape[1], dtype=np.int64)
    for part in _blocks(counts.nnz):
        np.add.at(sharing, counts.indices[part], 1)
    is_shared = (sharing >= FEWEST_SHARING) & (sharing <= MOST_SHARING)
    # Most cells are left out here, before the others take four bytes.
    for part in _blocks(counts.nnz):
        counts.data[part] *= is_shared[counts.indices[part]]
    counts.eliminate_zeros()
    idf = np.log((1 + len(items)) / (1 + sharing)) + 1
    weights = _with_data(counts, np.empty(counts.nnz, dtype=np.float32))
    for part in _blocks(weights.nnz):
        count = counts.data[part].astype(np.float32)
        weights.data[part] = (1 + np.log(count)) * idf[weights.indices[part]]
    length = np.sqrt(_with_data(weights, weights.data**2).sum(axis=1))
    weights.data /= np.repeat(length, np.diff(weights.indptr))
    return weights


def _blocks(cells: int) -> list[slice]:
    return [slice(start, start + ROWS) for start in range(0, cells, ROWS)]


def _with_data(matrix: "csr_array", data: npt.NDArray[Any]) -> "csr_array":
    """Return a sparse matrix with other values in the same cells. The cell positions are not copied."""
    return type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _nearest(weights: "csr_array") -> tuple[Ints, Floats]:
    """Return the other items most similar to each item, and their likeness (n, NEAREST). Missing ones are -1."""
    n = weights.shape[0]
    mean = np.asarray(weights.mean(axis=0)).ravel()
    by_column = weights.T.tocsr()
    common = _common(by_column, mean)
    # The cosine of centered rows is that of the rows, less what both share with the mean.
    share = weights @ mean - mean @ mean / 2
    square = _with_data(weights, weights.data**2).sum(axis=1) - 2 * share - (common**2).sum(axis=1)
    scale = 1 / np.sqrt(np.maximum(square, ROUNDING))
    size = np.sqrt((common**2).sum(axis=1))
    top_scale, least_share, top_size = scale.max(), share.min(), size.max()
    near, likeness = np.full((n, NEAREST), -1), np.zeros((n, NEAREST))

    def likeness_of(i: Ints, j: Ints, shared: Floats) -> Floats:
        covariance = shared - share[i] - share[j] - np.einsum("pd,pd->p", common[i], common[j])
        return np.where(i == j, -np.inf, np.round(covariance * scale[i] * scale[j], 6))

    for start in range(0, n, _COMPARED):
        products = weights[start : start + _COMPARED] @ by_column
        rows, n_products = np.arange(start, start + products.shape[0]), np.diff(products.indptr)
        # The pairs with the largest products show how similar the nearest items are at least. Of the other pairs, only
        # those are compared that could be as similar.
        level = max(0.0, 1 - _TRIED * len(rows) / max(1, products.nnz))
        fewest = np.full(len(rows), np.quantile(products.data[::_SAMPLED], level) if products.nnz else 0.0)
        for _ in range(2):
            # Single precision suffices with the slack, and halves what is compared.
            chosen = np.flatnonzero(products.data >= np.repeat(fewest.astype(np.float32), n_products))
            i, j = np.searchsorted(products.indptr, chosen, "right") - 1 + start, products.indices[chosen]
            _fill(near, likeness, i, j, likeness_of(i, j, products.data[chosen]))
            weakest = likeness[rows, -1]
            bound = weakest / (scale[rows] * top_scale) + share[rows] + least_share - size[rows] * top_size
            bound = np.where(weakest > 0, bound - _SLACK, -np.inf)
            fewest = np.where(bound < fewest, bound, np.inf)
    return near, likeness


def _fill(nearest: Ints, likeness: Floats, i: Ints, j: Ints, alike: Floats) -> None:
    """Write the most similar partners of each item into `nearest`. The pairs `i`, `j` (p,) are sorted by `i`."""
    starts = np.flatnonzero(np.diff(i, prepend=-1, append=len(nearest)))
    for nth in range(NEAREST):
        maxima = np.repeat(np.maximum.reduceat(alike, starts[:-1]), np.diff(starts)) if len(i) else alike
        winners = np.flatnonzero((alike == maxima) & (maxima > -np.inf))
        winners = winners[np.diff(i[winners], prepend=-1) > 0]
        nearest[i[winners], nth], likeness[i[winners], nth] = j[winners], alike[winners]
        alike[winners] = -np.inf


def _common(by_column: "csr_array", mean: Floats) -> Floats:
    """Return the coordinates of each item on the leading directions of the centered weights (n, DIRECTIONS)."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    def likeness_times(vector: Floats) -> Floats:
        v = vector.ravel()
        sums = by_column @ v - mean * v.sum()
        return np.asarray(by_column.T @ sums - mean @ sums)

    n = by_column.shape[1]
    # Products with vectors of another type would copy the weights each time. By column, they stay in the cache.
    by_column = _with_data(by_column, by_column.data.astype(np.float64))
    start = np.cos(np.arange(n))
    # Without shared columns, no item differs from the mean, and there is no direction.
    if np.abs(likeness_times(start)).max() < ROUNDING:
        return np.zeros((n, DIRECTIONS))
    likeness = LinearOperator((n, n), matvec=likeness_times, dtype=np.float64)
    strength, directions = eigsh(likeness, DIRECTIONS, v0=start, tol=ROUNDING)
    return np.asarray(directions * np.sqrt(np.maximum(strength, 0)))


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


@dataclass(frozen=True, slots=True)
class Parallels:
    """Likely translations among the items. `pairs` (p,), (p,) are the items of each pair, the most similar
    first. `unnamed` is the number of items that look parallel although no passage says so, None if the set is
    too large to seek them. Without pairs, nothing shows which of these items belong together. `alphabets` is their
    effective number: one over the probability that two random items share one."""

    pairs: Pairs
    unnamed: int | None
    alphabets: float = 1.0


def parallels(items: Sequence[Item], order: Ints) -> Parallels:
    """Return the pairs of items that are probably translations. `order` (n,) sorts the items by content.

    Near items with equal numbers are translations, if numbers of near items mostly agree. Items look parallel if such
    pairs exist, or if near items are in different alphabets more often than random ones, which independent items in
    several languages are not.
    """
    no_parallels = Parallels((order[:0], order[:0]), 0)
    if len(items) > MOST_COMPARED:
        return replace(no_parallels, unnamed=None)
    texts = [" ".join(sorted(NUMBER.findall(" ".join(item.choices)))) for item in items]
    numbers = np.array(texts, dtype=object)
    passage = np.array([item.group for item in items], dtype=object)
    alphabets = _Alphabets(items)
    repeated = Counter(filter(None, texts))
    if repeated.total() - len(repeated) < FEWEST_EQUAL and not alphabets.expected:
        return no_parallels
    a, b = _near(np.array([_profile(items[i]) for i in order.tolist()]))
    a, b = order[a], order[b]
    equal = numbers[a] == numbers[b]
    numbered = (numbers[a] != "") | (numbers[b] != "")
    is_unnamed = (passage[a] != passage[b]) | (passage[a] == "")

    def paired(mask: Bools) -> Bools:
        fewest = max(FEWEST_EQUAL, EQUAL * np.count_nonzero(numbered & mask))
        return np.asarray(equal & mask & (np.count_nonzero(equal & numbered & mask) >= fewest), dtype=bool)

    pairs, looks_parallel = paired(np.ones_like(equal)), paired(is_unnamed)
    looks_parallel = looks_parallel if looks_parallel.any() else alphabets.too_often(a, b, is_unnamed)
    n_alphabets = 1 / (1 - alphabets.expected) if alphabets.expected < 1 else float(len(items))
    return Parallels((a[pairs], b[pairs]), len(np.union1d(a[looks_parallel], b[looks_parallel])), n_alphabets)


def _near(profile: Floats) -> Pairs:
    """Find the pairs of rows that are near each other, the most similar first. `profile` is (n, d)."""
    from scipy.spatial import cKDTree  # slow to import, so only on use

    _, kind, sharing = np.unique(profile, axis=0, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(sharing[kind.ravel()] <= MOST_ALIKE)
    if len(rows) <= MOST_NEAR:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    distances, neighbours = map(np.asarray, cKDTree(profile[rows]).query(profile[rows], MOST_NEAR + 1))
    row, neighbour = np.repeat(np.arange(len(rows)), neighbours.shape[1]), neighbours.ravel()
    mutual = (neighbours[neighbour] == row[:, None]).any(axis=1) & (row < neighbour)
    closest_first = np.argsort(distances.ravel()[mutual], kind="stable")
    return rows[row[mutual][closest_first]], rows[neighbour[mutual][closest_first]]


class _Alphabets:
    """Letter frequencies of items, which show whether two items are in different alphabets. `expected` is the share
    of random pairs of items whose alphabets differ."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._shares, self._enough = _letters(items)
        with_letters = np.flatnonzero(self._enough)
        drawn = (
            np.random.default_rng(0).choice(with_letters, (2, _DRAWN))
            if len(with_letters)
            else np.zeros((2, 0), int)
        )
        self.expected = np.count_nonzero(self._differ(*drawn)) / _DRAWN

    def too_often(self, a: Ints, b: Ints, mask: Bools) -> Bools:
        """Mark pairs of items in different alphabets, if they are significantly frequent. Arguments are (p,)."""
        differ = mask & self._enough[a] & self._enough[b]
        n = np.count_nonzero(differ)
        differ[differ] = self._differ(a[differ], b[differ])
        excess = np.count_nonzero(differ) - self.expected * n
        clear_excess = CLEAR * np.sqrt(self.expected * (1 - self.expected) * n)
        return np.asarray(
            differ & (excess > max(clear_excess, LEAST_EXCESS * (1 - self.expected) * n)), dtype=bool
        )

    def _differ(self, i: Ints, j: Ints) -> Bools:
        return np.asarray(np.minimum(self._shares[i], self._shares[j]).sum(axis=1) < FOREIGN)


def _letters(items: Sequence[Item]) -> tuple[npt.NDArray[np.float32], Bools]:
    """Return the letter frequencies of each item's options (n, letters), and which items have enough letters (n,)."""
    texts = ["".join(item.choices).casefold() for item in items]
    letters = [sign for sign in set[str]().union(*texts) if sign.isalpha()]
    names = sorted({_letter(sign) for sign in letters})
    letter_of = np.full(sys.maxunicode + 1, -1)
    letter_of[list(map(ord, letters))] = [names.index(_letter(sign)) for sign in letters]
    shares, enough = np.zeros((len(texts), len(names)), dtype=np.float32), np.zeros(len(texts), dtype=bool)
    for start in range(0, len(texts), _COUNTED):
        chunk = texts[start : start + _COUNTED]
        codes = letter_of[code_points(chunk)]
        cells = np.repeat(np.arange(len(chunk)), [len(text) for text in chunk]) * len(names) + codes
        counts = np.bincount(cells[codes >= 0], minlength=len(chunk) * len(names)).reshape(
            len(chunk), len(names)
        )
        n = counts.sum(axis=1)
        shares[start : start + len(chunk)] = counts / np.maximum(n, 1)[:, None]
        enough[start : start + len(chunk)] = n >= FEWEST_LETTERS
    return shares, enough


def _letter(sign: str) -> str:
    """Return the letter itself, or the name of its script if the script has too many letters to compare."""
    return sign if ord(sign) < _BEYOND_ALPHABETS else unicodedata.name(sign, "").partition(" ")[0]


def _profile(item: Item) -> Floats:
    """Describe an item by features that survive translation: option lengths, and counts of options and marks (d,)."""
    sizes = np.log1p(sorted(map(len, item.choices), reverse=True))
    out = np.zeros(_LONGEST_OPTIONS + 2)
    out[: min(len(sizes), _LONGEST_OPTIONS)] = (sizes - sizes.mean())[:_LONGEST_OPTIONS]
    out[-2:] = len(sizes), sum(len(_MARK.findall(text)) for text in item.choices) / 4
    return np.round(out, 6)
