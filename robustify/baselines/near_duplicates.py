"""Detection of near-duplicate items, and cross-fitting folds that keep related items together.

Two items are near-duplicates if the words of their choices have a Jaccard index of at least `NEAR`. Folds also keep
looser copies (`LOOSE`) and passages together. Folds depend on content only, so names and row order do not matter.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from robustify.arrays import Floats, Ints
from robustify.baselines.wording import words_of
from robustify.item import Item, kept_for_last
from robustify.texts import folded

T = TypeVar("T", bound=np.generic)

NEAR = 0.8
"""Smallest Jaccard index of the choices of near-duplicates."""
LOOSE = 0.65
"""Smallest Jaccard index of items that must share a fold."""
FORMAT_ITEMS, FORMAT_SHARE = 5, 0.1
"""Fewest items, and share of items, with the same choices that make these choices a format such as True/False."""
LARGEST_GROUP = 0.2
"""Largest share of items that loose copies may link into one fold. Above it, only near-duplicates stay together."""
_COMPARED = 1_000
"""Number of word sets per batch of comparisons."""


@kept_for_last
def near_duplicates(items: Sequence[Item]) -> Ints:
    """Return, for each item, the index of the first item linked to it by a chain of near-duplicates (n,)."""
    a, b, likeness = _alike(items)
    return _linked(len(items), a[likeness >= NEAR], b[likeness >= NEAR])


@kept_for_last
def fold_groups(items: Sequence[Item]) -> Ints:
    """Return, for each item, the index of the first item in its group of loose copies and passages (n,)."""
    a, b, likeness = _alike(items)
    first: dict[str, int] = {}
    passages = [(first.setdefault(item.group, i), i) for i, item in enumerate(items) if item.group]
    of, at = np.array(passages, dtype=np.int64).reshape(-1, 2).T
    loose, near = (
        _linked(len(items), np.append(a[likeness >= least], of), np.append(b[likeness >= least], at))
        for least in (LOOSE, NEAR)
    )
    chained = np.bincount(loose, minlength=1)[loose] > LARGEST_GROUP * len(items)
    return _read_only(np.where(chained, near, loose))


@kept_for_last
def content_hashes(items: Sequence[Item]) -> Floats:
    """Return a hash in [0, 1) of each item's stem and set of choices, independent of their order (n,)."""
    return _read_only(unit_hashes(list(map(_content, items))))


def unit_hashes(texts: Sequence[str]) -> Floats:
    """Return a reproducible hash in [0, 1) of each text (n,)."""
    digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)
    return np.array([int.from_bytes(d[:8], "big") / 2.0**64 for d in digests], dtype=np.float64)


def balanced_folds(group: Ints, content: Floats, folds: int, seed: int) -> Ints:
    """Assign each item to a fold (n,). A `group` (n,) shares a fold, and folds are as even as groups allow.

    Groups are sorted by their smallest hash in `content` (n,) and shuffled by `seed`. Then each group, largest first,
    is added to the smallest fold.
    """
    kinds, inverse, sizes = np.unique(group, return_inverse=True, return_counts=True)
    smallest = np.full(len(kinds), np.inf)
    np.minimum.at(smallest, inverse, content)
    shuffled = np.empty(len(kinds))
    shuffled[np.argsort(smallest, kind="stable")] = np.random.default_rng(seed).permutation(len(kinds))
    fold, size_of = np.zeros(len(kinds), dtype=np.int64), [0] * folds
    for at in np.lexsort((shuffled, -sizes)).tolist():
        fold[at] = size_of.index(min(size_of))
        size_of[fold[at]] += int(sizes[at])
    return fold[inverse]


def _linked(n: int, a: Ints, b: Ints) -> Ints:
    from scipy.sparse import coo_array  # deferred, because only runs with a probe need it
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(coo_array((np.ones(len(a)), (a, b)), shape=(n, n)), directed=False)[1]
    _, smallest, group = np.unique(labels, return_index=True, return_inverse=True)
    return _read_only(np.asarray(smallest[group], dtype=np.int64))


def _read_only(values: npt.NDArray[T]) -> npt.NDArray[T]:
    values.flags.writeable = False
    return values


@kept_for_last
def _alike(items: Sequence[Item]) -> tuple[Ints, Ints, Floats]:
    """Return pairs of items with a Jaccard index of at least `LOOSE`, by prefix filtering (Chaudhuri et al. 2006).

    Sets with such an index share one of their rarest words, so only those that do are compared.
    """
    from scipy.sparse import csr_array

    first: dict[frozenset[str], int] = {}
    same = [(first.setdefault(bag, i), i, 1.0) for i, bag in enumerate(_bags(items))]
    pairs = [np.array([pair for pair in same if pair[0] != pair[1]]).reshape(-1, 3)]
    rarity = Counter(w for bag in first for w in bag)
    rank = {w: r for r, w in enumerate(sorted(rarity, key=lambda w: (rarity[w], w)))}
    size = np.fromiter(map(len, first), np.int64, len(first))
    words = np.fromiter((rank[w] for bag in first for w in bag), np.int64, int(size.sum()))
    row = np.repeat(np.arange(len(size)), size)
    # The rarest word of each set first.
    words = np.sort(row * len(rank) + words) % max(len(rank), 1)
    starts = np.cumsum(size) - size
    fewest = np.ceil(LOOSE * size - 1e-9)
    prefix = np.arange(len(words)) - starts[row] < (size - fewest + 1)[row]
    shape = len(size), len(rank)
    whole = csr_array((np.ones(len(words), dtype=np.int32), (row, words)), shape=shape)
    rare = csr_array((np.ones(int(prefix.sum()), dtype=np.int32), (row[prefix], words[prefix])), shape=shape)
    holders = rare.T.tocsr()
    number = np.fromiter(first.values(), np.int64, len(first))
    for start in range(0, len(size), _COMPARED):
        met = (rare[start : start + _COMPARED] @ holders).tocoo()
        i, j = met.coords[0] + start, met.coords[1]
        less, more = np.minimum(size[i], size[j]), np.maximum(size[i], size[j])
        # Beyond both prefixes, the sets can share at most the longer remainder.
        most = met.data + np.maximum(fewest[i], fewest[j]) - 1
        enough = most >= LOOSE / (1 + LOOSE) * (less + more) - 1e-6
        possible = (j < i) & (less >= LOOSE * more - 1e-9) & enough
        i, j = i[possible], j[possible]
        shared = np.asarray(whole[i].multiply(whole[j]).sum(axis=1)).ravel()
        # Rounding lets a quotient that equals a threshold reach it.
        likeness = np.round(shared / (size[i] + size[j] - shared), 9)
        near = likeness >= LOOSE
        pairs.append(np.column_stack([number[j[near]], number[i[near]], likeness[near]]))
    a, b, likeness = np.concatenate(pairs).T
    return a.astype(np.int64), b.astype(np.int64), likeness


def _bags(items: Sequence[Item]) -> list[frozenset[str]]:
    """Return the word set of each item's choices, or its complete text if the choices are a format (True/False)."""
    # Choices of symbols have no words, so their texts are compared.
    bags = [
        frozenset(w for c in item.choices for w in words_of(c)) or frozenset(map(folded, item.choices))
        for item in items
    ]
    count = Counter(bags)
    many = max(FORMAT_ITEMS, FORMAT_SHARE * len(items))
    return [
        frozenset([_content(item)]) if count[bag] >= many else bag
        for bag, item in zip(bags, items, strict=True)
    ]


def _content(item: Item) -> str:
    return "\0".join([folded(item.stem), *sorted(set(map(folded, item.choices)))])
