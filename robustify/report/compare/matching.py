"""Matching of the items of two runs, including edited items.

Items are matched by ID, then by stem, then by choices. Many files number their items 1, 2, 3, so IDs count only if their
texts also agree. An item with a new ID, stem, and choices is another item.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from robustify.items.item import Item
from robustify.runs.run import Run

FEWEST_ALIKE = 0.1
"""Smallest share of equal IDs with the same stem or choices for which IDs count."""


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
    alike = sum(left[n].stem == right[n].stem or left[n].choices == right[n].choices for n in found)
    if alike < FEWEST_ALIKE * len(found):
        found = {}
    keys: tuple[Callable[[Item], Hashable], ...] = (
        lambda item: (item.stem, item.choices), lambda item: item.stem, lambda item: item.choices,
    )  # fmt: skip
    for key in keys:
        # Items with equal values are matched in order.
        there, taken = defaultdict[Hashable, list[str]](list), set(found.values())
        for item in right.values():
            if item.id not in taken:
                there[key(item)].append(item.id)
        rest = [item for item in left.values() if item.id not in found]
        found |= {item.id: there[key(item)].pop(0) for item in rest if there[key(item)]}
    both = ((item, right[found[name]]) for name, item in left.items() if name in found)
    return tuple(SameItem(a.id, b.id, was[a.id], now[b.id], _content(a) != _content(b)) for a, b in both)


def _content(item: Item) -> tuple[str, list[str], str]:
    return item.stem, sorted(item.choices), item.choices[item.key]
