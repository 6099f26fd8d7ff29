"""Detection of relatives: items whose options resemble each other, such as reworded copies and translations.

A scorer that is fitted on an item's relatives may learn the item's key from theirs, so relatives share a fold. No
threshold is needed, because an unrelated item in the same fold does no harm.

Likeness is the cosine of TF-IDF vectors of the words and letter sequences in two items' options, after the strongest
common directions are removed. Without this step, the same language or subject makes unrelated items look alike.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh

from robustify.base.arrays import ROUNDING, Floats, Ints
from robustify.items.item import Item
from robustify.judging.baselines.parallel import Pairs
from robustify.judging.baselines.words import columns

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
    """Return the numbers of both items of each pair of relatives (p,), (p,), with the most similar pairs first. `order`
    (n,) sorts the items by content, and they are compared in this order, so that rounding does not depend on theirs."""
    weights = _weights(items, order)
    if len(items) <= DIRECTIONS or not weights.nnz:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    near, likeness = _nearest(weights)
    row, nth = np.nonzero(near >= 0)
    to = near[row, nth]
    mutual = (near[to] == row[:, None]).any(axis=1) & (row < to)
    best = np.argsort(-likeness[row, nth][mutual], kind="stable")
    return order[row[mutual][best]], order[to[mutual][best]]


def joined(group: Ints, a: Ints, b: Ints) -> Ints:
    """Return `group` (n,), joined along the pairs `a`, `b` (p,) from the first on, if not too large. A group is named by
    its first item."""
    largest = min(LARGEST, int(SHARE * len(group)))
    of, size = group.tolist(), np.bincount(group, minlength=len(group)).tolist()

    def first(i: int) -> int:
        while of[i] != i:
            of[i] = of[of[i]]
            i = of[i]
        return i

    for i, j in zip(a.tolist(), b.tolist(), strict=True):
        low, high = sorted((first(i), first(j)))
        if low != high and size[low] + size[high] <= largest:
            of[high] = low
            size[low] += size[high]
    return np.array([first(i) for i in range(len(of))], dtype=np.int64)


def _weights(items: Sequence[Item], order: Ints) -> csr_array:
    """Return the TF-IDF weights of the items in `order` (n, columns), in rows of length 1."""
    by_option = columns(items, FEWEST_SHARING)
    ends = by_option.indptr[np.cumsum([0, *(item.k for item in items)])]
    ones = np.ones(by_option.nnz, dtype=np.float32)
    weights = csr_array((ones, by_option.indices, ends), shape=(len(items), by_option.shape[1]))
    weights.sum_duplicates()
    sharing = np.bincount(weights.indices, minlength=weights.shape[1])
    idf = np.log((1 + len(items)) / (1 + sharing)) + 1
    idf[(sharing < FEWEST_SHARING) | (sharing > MOST_SHARING)] = 0
    weights.data = ((1 + np.log(weights.data)) * idf[weights.indices]).astype(np.float32)
    weights.eliminate_zeros()
    length = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    weights.data /= np.repeat(length, np.diff(weights.indptr))
    return csr_array(weights[order])


def _nearest(weights: csr_array) -> tuple[Ints, Floats]:
    """Return the nearest other items of each item (n, NEAREST), -1 beyond those that share a column, and their likeness."""
    n = weights.shape[0]
    mean = np.asarray(weights.mean(axis=0)).ravel()
    by_column = weights.T.tocsr()
    common = _common(weights, by_column, mean)
    # The cosine of centered rows is that of the rows, less what both share with the mean.
    share = weights @ mean - mean @ mean / 2
    own = np.asarray(weights.multiply(weights).sum(axis=1)).ravel() - 2 * share - (common**2).sum(axis=1)
    scale = 1 / np.sqrt(np.maximum(own, ROUNDING))
    size = np.sqrt((common**2).sum(axis=1))
    most_scale, least_share, most_size = scale.max(), share.min(), size.max()
    near, likeness = np.full((n, NEAREST), -1), np.zeros((n, NEAREST))

    def alike(i: Ints, j: Ints, shared: Floats) -> Floats:
        found = shared - share[i] - share[j] - np.einsum("pd,pd->p", common[i], common[j])
        return np.where(i == j, -np.inf, np.round(found * scale[i] * scale[j], 6))

    for start in range(0, n, _COMPARED):
        met = weights[start : start + _COMPARED] @ by_column
        rows, met_of = np.arange(start, start + met.shape[0]), np.diff(met.indptr)
        # The pairs with the largest products show how similar the nearest items are at least. Of the other pairs, only
        # those are compared that could be as similar.
        tried = max(0.0, 1 - _TRIED * len(rows) / max(1, met.nnz))
        enough = np.full(len(rows), np.quantile(met.data[::_SAMPLED], tried) if met.nnz else 0.0)
        for _ in range(2):
            at = np.flatnonzero(met.data >= np.repeat(enough, met_of))
            i, j = np.repeat(rows, met_of)[at], met.indices[at]
            _fill(near, likeness, i, j, alike(i, j, met.data[at]))
            least = likeness[rows, -1]
            bound = least / (scale[rows] * most_scale) + share[rows] + least_share - size[rows] * most_size
            enough = np.where(least > 0, np.minimum(enough, bound - _SLACK), -np.inf)
    return near, likeness


def _fill(near: Ints, likeness: Floats, i: Ints, j: Ints, alike: Floats) -> None:
    """Fill in the most similar of the pairs of items `i` and `j` (p,), given their likeness (p,), sorted by `i`."""
    edges = np.flatnonzero(np.diff(i, prepend=-1, append=len(near)))
    for nth in range(NEAREST):
        best = np.repeat(np.maximum.reduceat(alike, edges[:-1]), np.diff(edges)) if len(i) else alike
        found = np.flatnonzero((alike == best) & (best > -np.inf))
        found = found[np.diff(i[found], prepend=-1) > 0]
        near[i[found], nth], likeness[i[found], nth] = j[found], alike[found]
        alike[found] = -np.inf


def _common(weights: csr_array, by_column: csr_array, mean: Floats) -> Floats:
    """Return the coordinates of each item in the strongest directions of the centered weights (n, DIRECTIONS)."""

    def likeness_times(vector: Floats) -> Floats:
        v = vector.ravel()
        sums = by_column @ v - mean * v.sum()
        return np.asarray(weights @ sums - mean @ sums)

    n = weights.shape[0]
    # Products with vectors of another type would copy the weights each time.
    weights, by_column = weights.astype(np.float64), by_column.astype(np.float64)
    start = np.cos(np.arange(n))
    # Without shared columns, no item differs from the mean, and there is no direction.
    if np.abs(likeness_times(start)).max() < ROUNDING:
        return np.zeros((n, DIRECTIONS))
    likeness = LinearOperator((n, n), matvec=likeness_times, dtype=np.float64)
    strength, of = eigsh(likeness, DIRECTIONS, v0=start, tol=ROUNDING)
    return np.asarray(of * np.sqrt(np.maximum(strength, 0)))
