"""Find the items of one run in another: the same items, and those that were mended in between.

An item is known by the author's id, then by its stem, then by its row between neighbours that are known. An id or a row
says little by itself (1, 2, 3 ... are in every file), so ids count only where texts agree too, and rows only where most
items are known already.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from robustify.item import Item
from robustify.run import Run

FEWEST_ALIKE, MOST_UNKNOWN = 0.1, 0.5
"""The share of items of one id with a stem or options in common from which ids count; up to that unknown rows do."""
Items = Mapping[str, Item]


@dataclass(frozen=True, slots=True)
class Match:
    """An item of two runs by its id in each; `mended`: its text or key is another."""

    one: str
    two: str
    mended: bool = False


def matched(one: Run, two: Run) -> list[Match]:
    """Return the items that are in both runs, in the order of the first.

    Without texts items are known only where both runs are of one file.
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
    """Match by a key those that are not found yet; of several with one key, the first with the first."""
    taken, there = set(found.values()), defaultdict(list)
    for item in right.values():
        if item.id not in taken:
            there[key(item)].append(item.id)
    rest = (item for item in left.values() if item.id not in found)
    return {item.id: there[key(item)].pop(0) for item in rest if there[key(item)]}


def _by_row(left: Sequence[str], right: Sequence[str], found: Mapping[str, str]) -> dict[str, str]:
    """Match the items between neighbours that are known, where as many stand between them in both."""
    place = {name: i for i, name in enumerate(right)}
    rows: dict[str, str] = {}
    known = [(i, place[found[name]]) for i, name in enumerate(left) if name in found]
    for (i, p), (j, q) in pairwise([(-1, -1), *known, (len(left), len(right))]):
        between = right[p + 1 : q]
        if j - i == q - p and not set(between) & set(found.values()):
            rows |= zip(left[i + 1 : j], between, strict=True)
    return rows
