"""Items in blocks for forward fits: each block is predicted by a fit on those before it, so no key is fitted on twice.

The order is a hash of ids. Near-duplicates and the items of a passage stand in one block.
"""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from robustify.arrays import Ints
from robustify.baselines.artifact_probe import near_duplicate_groups
from robustify.item import Item

BLOCKS, UNSCORED = 10, 2
"""Blocks of items, and how many of the first are only fitted on."""
RIDGE = 50.0
"""The penalty of the fits: the artifact probe's logistic one, 10, over the variance of a key among four options, 0.19."""


def forward_rank(items: Sequence[Item], seed: int, groups: Ints | None = None) -> tuple[Ints, Ints]:
    """The rank (n,) of each item in hash order, in which a group stands together, and its group (n,).

    `groups`: as `near_duplicate_groups` gives them.
    """
    groups = near_duplicate_groups(items) if groups is None else groups
    smallest: dict[int, str] = {}
    for item, group in zip(items, groups.tolist(), strict=True):
        smallest[group] = min(item.id, smallest.get(group, item.id))
    marks = [
        (_hash(smallest[group], seed), _hash(item.id, seed))
        for item, group in zip(items, groups.tolist(), strict=True)
    ]
    rank = np.empty(len(marks), dtype=np.int64)
    rank[sorted(range(len(marks)), key=marks.__getitem__)] = np.arange(len(marks))
    return rank, groups


def forward_blocks(groups: Ints) -> Ints:
    """The block (n,) of items in their order, so that no group (n,), which stands together, is cut."""
    if not len(groups):
        return groups
    new = np.append(True, groups[1:] != groups[:-1])
    start = np.maximum.accumulate(np.where(new, np.arange(len(groups)), 0))
    return np.asarray(start * BLOCKS // len(groups))


def _hash(name: str, seed: int) -> bytes:
    return sha256(f"forward/{seed}/{name}".encode("utf-8", "surrogatepass")).digest()
