"""Matching of the items of two runs, including edited items.

Items are matched by ID, then by stem, then by their position between matched neighbors. Many files number their items
1, 2, 3, so IDs count only if their texts also agree. Positions count only if most items are already matched.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from robustify.item import Item
from robustify.run import Run

FEWEST_ALIKE, MOST_UNKNOWN = 0.1, 0.5
"""Smallest share of equal IDs with the same stem or options for which IDs count, and the largest share of unmatched items
for which positions count."""
Items = Mapping[str, Item]


@dataclass(frozen=True, slots=True)
class Match:
    """Item with its ID in each of two runs; `mended` if its text or key changed."""

    one: str
    two: str
    mended: bool = False


def matched(one: Run, two: Run) -> list[Match]:
    """Match the items of two runs, in the order of the first.

    If the runs contain no texts, items match only if both runs read the same file.
    """
    if one.manifest["data"].get("sha256") == two.manifest["data"].get("sha256"):
        there = two.verdicts
        return [Match(item, item) for item in one.verdicts if item in there]
    left, right = ({item.id: item for item in run.items or ()} for run in (one, two))
    found = {name: name for name in left if name in right}
    alike = sum(
        _same(left[name], right[name], "stem") or _same(left[name], right[name], "choices") for name in found
    )
    if alike < FEWEST_ALIKE * len(found):
        found = {}
    found |= _by(lambda item: (item.stem, item.choices), left, right, found)
    found |= _by(lambda item: item.stem, left, right, found)
    if max(len(left), len(right)) - len(found) <= MOST_UNKNOWN * len(left):
        found |= _by_row(list(left), list(right), found)
    return [
        Match(name, found[name], not _same(item, right[found[name]], "stem", "choices", "key"))
        for name, item in left.items() if name in found
    ]  # fmt: skip


def _same(one: Item, two: Item, *parts: str) -> bool:
    return all(getattr(one, part) == getattr(two, part) for part in parts)


def _by(
    key: Callable[[Item], Hashable], left: Items, right: Items, found: Mapping[str, str]
) -> dict[str, str]:
    """Match the remaining items by the value that `key` returns. Items with equal values are matched in order."""
    taken, there = set(found.values()), defaultdict(list)
    for item in right.values():
        if item.id not in taken:
            there[key(item)].append(item.id)
    rest = (item for item in left.values() if item.id not in found)
    return {item.id: there[key(item)].pop(0) for item in rest if there[key(item)]}


def _by_row(left: Sequence[str], right: Sequence[str], found: Mapping[str, str]) -> dict[str, str]:
    """Match items between matched neighbors if both runs have equally many items there."""
    place = {name: i for i, name in enumerate(right)}
    rows: dict[str, str] = {}
    known = [(i, place[found[name]]) for i, name in enumerate(left) if name in found]
    for (i, p), (j, q) in pairwise([(-1, -1), *known, (len(left), len(right))]):
        between = right[p + 1 : q]
        if j - i == q - p and not set(between) & set(found.values()):
            rows |= zip(left[i + 1 : j], between, strict=True)
    return rows
