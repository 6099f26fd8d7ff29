"""Matching of the items of two runs, including edited items.

Items are matched by ID, then by stem, then by choices. Many files number their items 1, 2, 3, so IDs count only if their
texts also agree. An item with a new ID, stem, and choices is another item.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from robustify.items.item import Item
from robustify.runs.run import Run

FEWEST_ALIKE = 0.1
"""Smallest share of equal IDs with the same stem or choices for which IDs count."""
Items = Mapping[str, Item]


@dataclass(frozen=True, slots=True)
class SameItem:
    """Item of two runs: its ID (`one`, `two`) and verdict (`was`, `now`) in each.

    It is `edited` if its stem, its options in any order, or the text of its key changed.
    """

    one: str
    two: str
    was: str
    now: str
    edited: bool = False

    @property
    def moved(self) -> bool:
        """Whether its verdict changed."""
        return self.was != self.now


def same_items(one: Run, two: Run) -> tuple[SameItem, ...]:
    """Match the items of two runs, in the order of the first.

    If the runs contain no texts, items match only if both runs read the same file.
    """
    was, now = one.verdicts, two.verdicts
    if one.manifest["data"].get("sha256") == two.manifest["data"].get("sha256"):
        return tuple(SameItem(name, name, was[name], now[name]) for name in was if name in now)
    left, right = ({item.id: item for item in run.items or ()} for run in (one, two))
    found = {name: name for name in left if name in right}
    alike = sum(_same(left[n], right[n], "stem") or _same(left[n], right[n], "choices") for n in found)
    if alike < FEWEST_ALIKE * len(found):
        found = {}
    found |= _by(lambda item: (item.stem, item.choices), left, right, found)
    found |= _by(lambda item: item.stem, left, right, found)
    found |= _by(lambda item: item.choices, left, right, found)
    both = ((item, right[found[name]]) for name, item in left.items() if name in found)
    return tuple(SameItem(a.id, b.id, was[a.id], now[b.id], _content(a) != _content(b)) for a, b in both)


def _content(item: Item) -> tuple[str, list[str], str]:
    return item.stem, sorted(item.choices), item.choices[item.key]


def _same(one: Item, two: Item, *parts: str) -> bool:
    return all(getattr(one, part) == getattr(two, part) for part in parts)


def _by(
    key: Callable[[Item], Hashable], left: Items, right: Items, found: Mapping[str, str]
) -> dict[str, str]:
    """Match the remaining items by the value that `key` returns. Items with equal values are matched in order."""
    taken, there = set(found.values()), defaultdict[Hashable, list[str]](list)
    for item in right.values():
        if item.id not in taken:
            there[key(item)].append(item.id)
    rest = (item for item in left.values() if item.id not in found)
    return {item.id: there[key(item)].pop(0) for item in rest if there[key(item)]}
