"""Which items are near-duplicates of each other by their choices.

Whoever trains on items and is tested on items must not meet the same choices on both sides. Exact: every two
items whose word sets reach the threshold are found, without comparing every two items.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from robustify.baselines.features import jaccard, words_of
from robustify.item import Item, folded

NEAR = 0.8
"""The Jaccard index of two items' choices from which on they count as one."""


def near_duplicate_groups(items: Sequence[Item], threshold: float = NEAR) -> npt.NDArray[np.int64]:
    """For each item the index of the first item of its group, (n,).

    Two items are in one group when the words of their choices have a Jaccard index of `threshold` or more,
    when they name the same `group` (a passage), or through a chain of such items.
    """
    parent = list(range(len(items)))
    held = [_bag(item) for item in items]
    for i, j in _near(held, threshold):
        _join(parent, i, j)
    first: dict[str, int] = {}
    for i, item in enumerate(items):
        if item.group:
            _join(parent, first.setdefault(item.group, i), i)
    return np.array([_root(parent, i) for i in range(len(items))], dtype=np.int64)


def _bag(item: Item) -> frozenset[str]:
    # Choices that are all symbols have no words; their texts stand for them.
    return frozenset(w for c in item.choices for w in words_of(c)) or frozenset(map(folded, item.choices))


def _near(held: Sequence[frozenset[str]], threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs at or above the threshold, by prefix filtering (Chaudhuri et al. 2006; Bayardo et al. 2007).

    Sets that are that alike share one of their rarest few members, so only sets that do are compared.
    """
    first: dict[frozenset[str], int] = {}
    for i, bag in enumerate(held):
        if first.setdefault(bag, i) != i:
            yield first[bag], i
    rarity = Counter(w for bag in first for w in bag)
    index: dict[str, list[frozenset[str]]] = defaultdict(list)
    for bag in sorted(first, key=len):
        ranked = sorted(bag, key=lambda w: (rarity[w], w))
        prefix = ranked[: len(bag) - int(np.ceil(threshold * len(bag) - 1e-9)) + 1]
        met = {other for w in prefix for other in index[w] if len(other) >= threshold * len(bag) - 1e-9}
        yield from ((first[other], first[bag]) for other in met if jaccard(bag, other) >= threshold - 1e-9)
        for w in prefix:
            index[w].append(bag)


def _root(parent: list[int], i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


def _join(parent: list[int], i: int, j: int) -> None:
    a, b = sorted((_root(parent, i), _root(parent, j)))
    parent[b] = a
