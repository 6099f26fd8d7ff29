"""Detection of near-duplicate items, and folds for cross-fitting that keep related items together.

Two items are near-duplicates if the words of their choices have a Jaccard index of at least `NEAR`. Folds also keep
looser copies (`LOOSE`) and passages together. Folds depend on content only, so names and row order do not matter.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import chain, count
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import ROUNDING, Floats, Ints
from robustify.base.texts import folded
from robustify.items.item import Item, kept_for_last
from robustify.judging.baselines.relatives import Parallels, merge_groups, parallels, relatives
from robustify.judging.baselines.wording import words_of
from robustify.judging.stats.intervals import clusters

T = TypeVar("T", bound=np.generic)

NEAR = 0.8
"""Smallest Jaccard index of the choices of near-duplicates."""
LOOSE = 0.65
"""Smallest Jaccard index of items that must share a fold."""
FORMAT_ITEMS, FORMAT_SHARE = 5, 0.1
"""Fewest items, and share of items, with the same choices that make these choices a format such as True/False."""
LARGEST_GROUP = 0.2
"""Largest share of items that loose copies may link into one fold. Above it, only near-duplicates stay together."""
MOST_GROUPED = 1_000_000
"""Most items whose texts are compared by words."""
_COMPARED = 1_000
"""Number of word sets per batch of comparisons."""
_MET = 3
"""Number of rare words that two close sets share at least. More are rarer, but are looked up in more sets."""


@kept_for_last
def near_duplicates(items: Sequence[Item]) -> Ints:
    """Group chains of near-duplicates. Return the index of the first item in each item's group (n,)."""
    a, b, likeness = _alike(items)
    return _linked(len(items), a[likeness >= NEAR], b[likeness >= NEAR])


@kept_for_last
def independent_groups(items: Sequence[Item]) -> Ints:
    """Group items that depend on each other. Return the index of the first item in each item's group (n,).

    These are loose copies, among them rotations of one question, items of one passage, and paired translations. Every
    p-value, interval, and fold uses these groups.
    """
    a, b, likeness = _alike(items)
    first: dict[str, int] = {}
    passages = [(first.setdefault(item.group, i), i) for i, item in enumerate(items) if item.group]
    passage_first, passage_item = np.array(passages, dtype=np.int64).reshape(-1, 2).T
    loose_group, near_group = (
        _linked(
            len(items),
            np.append(a[likeness >= threshold], passage_first),
            np.append(b[likeness >= threshold], passage_item),
        )
        for threshold in (LOOSE, NEAR)
    )
    chained = np.bincount(loose_group, minlength=1)[loose_group] > LARGEST_GROUP * len(items)
    group = np.where(chained, near_group, loose_group)
    # Copies have equal numbers and lengths, so that translations are sought among one of each.
    representatives = np.unique(group)
    pair_a, pair_b = parallel_items([items[i] for i in representatives.tolist()]).pairs
    return _read_only(merge_groups(group, representatives[pair_a], representatives[pair_b]))


def numbered_groups(items: Sequence[Item]) -> Ints | None:
    """Return the independent group of each item (n,), or None if no group has several items. Of more than `MOST_GROUPED`
    items, only copies with the same texts are sought."""
    group = equal_texts(items) if len(items) > MOST_GROUPED else independent_groups(items)
    return group if clusters(len(group), group) < len(group) else None


def equal_texts(items: Sequence[Item]) -> Ints:
    """Return a number for each item (n,), equal for items with the same texts, whatever the order of their choices."""
    starts = range(0, len(items), _COMPARED)
    hashes = [unit_hashes(list(map(_content, items[start : start + _COMPARED]))) for start in starts]
    return np.unique(np.concatenate([np.empty(0), *hashes]), return_inverse=True)[1].astype(np.int64)


@kept_for_last
def fold_groups(items: Sequence[Item]) -> Ints:
    """Group items that must share a fold. Return the index of the first item in each item's group (n,). The groups
    are the independent groups and relatives."""
    order = np.argsort(content_hashes(items), kind="stable")
    return _read_only(merge_groups(independent_groups(items), *relatives(items, order)))


@kept_for_last
def parallel_items(items: Sequence[Item]) -> Parallels:
    """Return the pairs of items that are probably translations of each other."""
    return parallels(items, np.argsort(content_hashes(items), kind="stable"))


@kept_for_last
def content_hashes(items: Sequence[Item]) -> Floats:
    """Return a hash in [0, 1) of each item's stem and choices, independent of the order of the choices (n,)."""
    return _read_only(unit_hashes(list(map(_content, items))))


def unit_hashes(texts: Sequence[str]) -> Floats:
    """Return a reproducible hash in [0, 1) of each text (n,)."""
    digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8] for text in texts)
    return np.asarray(np.fromiter(digests, "V8", len(texts)).view(">u8") / 2.0**64)


def balanced_folds(group: Ints, content: Floats, folds: int, seed: int) -> Ints:
    """Assign items to folds of similar size, without splitting a group. `group` and the result are (n,).
    Groups are sorted by their smallest hash in `content` (n,) and shuffled by `seed`. Then each, largest
    first, is added to the smallest fold."""
    groups, group_index, sizes = np.unique(group, return_inverse=True, return_counts=True)
    smallest, descending = np.empty(len(groups)), np.argsort(-content)
    smallest[group_index[descending]] = content[descending]
    shuffled = np.empty(len(groups))
    shuffled[np.argsort(smallest, kind="stable")] = np.random.default_rng(seed).permutation(len(groups))
    fold, fold_sizes = np.zeros(len(groups), dtype=np.int8), [0] * folds
    order, single = np.lexsort((shuffled, -sizes)), int(np.count_nonzero(sizes == 1))
    for largest in order[: len(order) - single].tolist():
        fold[largest] = fold_sizes.index(min(fold_sizes))
        fold_sizes[fold[largest]] += int(sizes[largest])
    # Single items take the free places of each level in turn, which are the smallest fold's.
    levels = np.arange(min(fold_sizes), max(fold_sizes) + single // folds + 1)[:, None]
    fold[order[len(order) - single :]] = np.nonzero(levels >= fold_sizes)[1][:single]
    return fold[group_index]


def _linked(n: int, a: Ints, b: Ints) -> Ints:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(a)), (a, b)), shape=(n, n))
    labels = connected_components(edges, directed=False)[1]
    _, smallest, group = np.unique(labels, return_index=True, return_inverse=True)
    return _read_only(np.asarray(smallest[group], dtype=np.int64))


def _read_only(values: npt.NDArray[T]) -> npt.NDArray[T]:
    values.flags.writeable = False
    return values


@kept_for_last
def _alike(items: Sequence[Item]) -> tuple[Ints, Ints, Floats]:
    """Return the pairs of items whose choices have a Jaccard index of at least `LOOSE`, with the index (p,)."""
    first_with: dict[frozenset[str], int] = {}
    first_index = [first_with.setdefault(bag, i) for i, bag in enumerate(_bags(items))]
    repeats = np.array([i for i, first in enumerate(first_index) if first != i], dtype=np.int64)
    distinct = np.fromiter(first_with.values(), np.int64, len(first_with))
    numbered = _numbered_words(first_with)
    # The sets need much memory, and only their numbers are compared.
    first_with.clear()
    i, j, jaccard = _close_sets(*numbered)
    a = np.append(np.array(first_index, dtype=np.int64)[repeats], distinct[j])
    b = np.append(repeats, distinct[i])
    return a, b, np.append(np.ones(len(repeats)), jaccard)


def _close_sets(size: Ints, words: Ints, n_words: int) -> tuple[Ints, Ints, Floats]:
    """Return the pairs of word sets (i > j) whose Jaccard index is at least `LOOSE`, and the index of each pair (p,).
    `size` (n,) is the number of words of each set. `words` has the words of one set after the other, as ranks less than
    `n_words`.

    Such a pair shares at least `LOOSE` of the words of each set, and so also some of those that are left if all but `_MET`
    of this share, the most frequent ones, are taken off (prefix filtering, Chaudhuri et al. 2006). Only pairs that share
    as many of them as their sizes demand are compared.
    """
    from scipy.sparse import csr_array  # deferred, because only runs with a probe need it

    row = np.repeat(np.arange(len(size)), size)
    words = np.sort(row * n_words + words) % max(1, n_words)
    beyond = np.maximum(np.ceil(LOOSE * size - ROUNDING) - _MET, 0)
    position_in_set = np.arange(len(words)) - (np.cumsum(size) - size)[row]
    prefix, ones = position_in_set < (size - beyond)[row], np.ones(len(row), dtype=np.int32)
    incidence = csr_array((ones, (row, words)), shape=(len(size), n_words))
    rare_incidence = csr_array((ones[prefix], (row[prefix], words[prefix])), shape=incidence.shape)
    kinds, first, kind = np.unique(size, return_index=True, return_inverse=True)
    fewest_met, pairs = _fewest_met(kinds, beyond[first]), [np.empty((0, 3))]
    for start in range(0, len(size), _COMPARED):
        rows = slice(start, start + _COMPARED)
        met = rare_incidence[rows] @ rare_incidence[: rows.stop].T.tocsr()
        sizes = np.repeat(kind[rows] * len(kinds), np.diff(met.indptr)) + kind[met.indices]
        possible = np.flatnonzero(met.data >= fewest_met[sizes])
        i, j = np.searchsorted(met.indptr, possible, "right") - 1 + start, met.indices[possible]
        i, j = i[j < i], j[j < i]
        shared = np.asarray(incidence[i].multiply(incidence[j]).sum(axis=1)).ravel()
        # Rounding lets a quotient that equals a threshold reach it.
        likeness = np.round(shared / (size[i] + size[j] - shared), 9)
        is_close = likeness >= LOOSE
        pairs.append(np.column_stack([i, j, likeness])[is_close])
    i, j, likeness = np.concatenate(pairs).T
    return i.astype(np.int64), j.astype(np.int64), likeness


def _numbered_words(bags: Collection[frozenset[str]]) -> tuple[Ints, Ints, int]:
    """Rank all words of the sets, the rarest first. Return the size of each set (n,), the ranks of the words of one
    set after the other (sum of sizes,), and the number of different words."""
    size = np.fromiter(map(len, bags), np.int64, len(bags))
    number_of = defaultdict[str, int](count().__next__)
    words = np.fromiter(map(number_of.__getitem__, chain.from_iterable(bags)), np.int64, int(size.sum()))
    times, names = np.bincount(words, minlength=len(number_of)), list(number_of)
    number = np.empty(len(names), dtype=np.int64)
    number[sorted(range(len(names)), key=lambda word: (times[word], names[word]))] = np.arange(len(names))
    return size, number[words], len(names)


def _fewest_met(size: Ints, beyond: Floats) -> Ints:
    """Return the number of rare words that two close sets must share, by the size of each set (s * s,). `beyond` (s,)
    is the number of their other words."""
    larger, smaller = np.maximum(size, size[:, None]), np.minimum(size, size[:, None])
    fewest = np.ceil(
        LOOSE / (1 + LOOSE) * (smaller + larger) - ROUNDING - np.maximum(beyond, beyond[:, None])
    )
    return np.where(smaller >= LOOSE * larger - ROUNDING, fewest, larger + 1).astype(np.int32).ravel()


def _bags(items: Sequence[Item]) -> list[frozenset[str]]:
    """Return the words of each item's choices, or its complete text if the choices are a format such as True/False."""
    # Choices of symbols have no words, so their texts are compared.
    sets = (frozenset(word for choice in item.choices for word in words_of(choice)) for item in items)
    bags = [words or frozenset(map(folded, item.choices)) for words, item in zip(sets, items, strict=True)]
    count, format_count = Counter(bags), max(FORMAT_ITEMS, FORMAT_SHARE * len(items))
    return [
        frozenset([_content(item)]) if count[bag] >= format_count else bag
        for bag, item in zip(bags, items, strict=True)
    ]


def _content(item: Item) -> str:
    return "\0".join([folded(item.stem), *sorted(set(map(folded, item.choices)))])
