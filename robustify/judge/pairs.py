"""Which of two models is better, on the items that both answered: exact McNemar for every pair of models.

Only items that one of the two got right and the other wrong say anything. A difference is never read off two
separate intervals, and no pair is tested as if it were the only one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.judge.accuracy import Credits, Parts
from robustify.stats.tests import (
    LEVEL,
    Difference,
    detectable,
    holm,
    mcnemar_exact,
    paired_difference,
    sign_flip,
)
from robustify.summary.quantity import Quantity
from robustify.summary.scored import Pair, PairOnAll, PairOnRobust, PairView

Place = tuple[str, str, str]

VIEWS = ("full", "cloze_chars")
SPLITS = ("all", "robust")


@dataclass(frozen=True, slots=True)
class Compared:
    """Two models on `difference.n` common items: `b` only the first got right, `c` only the second, and `tied`
    items with a shared credit. `p` is None where no item has whole credits on both sides.
    """

    b: int
    c: int
    tied: int
    difference: Difference
    p: float | None

    def entry(self, p_holm: float | None, level: float) -> dict[str, Any]:
        """The fields of a table entry; the detectable difference is given beside a null result only."""
        null = p_holm is not None and p_holm > LEVEL and self.difference.error is not None
        return {
            "n": self.difference.n,
            "b": self.b,
            "c": self.c,
            "tied": self.tied,
            "difference": Quantity.of(self.difference),
            "p": self.p,
            "p_holm": p_holm,
            "mde": detectable(self.difference.error or 0.0, level) if null else None,
        }


def pairs(credits: Mapping[str, Credits], parts: Parts, voters: Sequence[str] = ()) -> dict[str, Pair] | None:
    """Every pair of models by "A vs B"; None below two models. `credits` are each model's, (n,).

    `p_holm` is adjusted over all pairs, views and splits of the table. `mde`: where `p_holm` is above 0.05, the
    difference that 80 % power would detect at this n and this share of discordant items, at the level that Holm
    asks of the smallest p.
    """
    models = [m for m, c in credits.items() if any(c.get(view) is not None for view in VIEWS)]
    leaves: dict[Place, Compared] = {
        (f"{a} vs {b}", view, split): leaf for a, b, view, split, leaf in _each(credits, parts, models)
    }
    tested = {place: leaf.p for place, leaf in leaves.items() if leaf.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    level = 1 - LEVEL / max(1, len(tested))
    entries = {place: leaf.entry(adjusted.get(place), level) for place, leaf in leaves.items()}
    table = {}
    for a, b in combinations(models, 2):
        voter = a in voters or b in voters
        name = f"{a} vs {b}"
        views = {view: _view(entries, name, view, voter=voter) for view in VIEWS}
        table[name] = Pair(models=(a, b), is_voter=voter, **views)
    return table or None


def _view(entries: Mapping[Place, dict[str, Any]], name: str, view: str, *, voter: bool) -> PairView | None:
    if (name, view, "all") not in entries:
        return None
    return PairView(
        all=PairOnAll(**entries[name, view, "all"]),
        robust=PairOnRobust(**entries[name, view, "robust"], voter=voter),
    )


def _each(
    credits: Mapping[str, Credits], parts: Parts, models: Sequence[str]
) -> Iterator[tuple[str, str, str, str, Compared]]:
    for a, b in combinations(models, 2):
        for view in VIEWS:
            one, two = credits[a].get(view), credits[b].get(view)
            if one is None or two is None:
                continue
            inside = parts.cloze if view == "cloze_chars" else np.ones(len(one), dtype=bool)
            for split, mask in zip(SPLITS, (inside, inside & parts.robust), strict=True):
                groups = None if parts.groups is None else parts.groups[mask]
                yield a, b, view, split, compare_pair(one[mask], two[mask], groups)


def compare_pair(one: Floats, two: Floats, groups: Ints | None = None) -> Compared:
    """Two models' credits (n,) against each other, NaN where unanswered.

    McNemar (1947, exact) needs right or wrong, so an item on which either model shares its credit among equal
    choices counts as `tied` and in neither b nor c; the difference counts it by its credits. With `groups`
    (n,) p is the exact sign-flip test of the groups' sums, which is McNemar's where each item is a group.
    """
    there = ~np.isnan(one) & ~np.isnan(two)
    one, two = one[there], two[there]
    whole = _whole(one) & _whole(two)
    first, second = whole & (one > two), whole & (two > one)
    b, c = int(np.count_nonzero(first)), int(np.count_nonzero(second))
    if groups is None:
        p = mcnemar_exact(b, c)
    else:
        group = np.unique(groups[there], return_inverse=True)[1]
        p = sign_flip(np.bincount(group, weights=first * 1.0 - second * 1.0).astype(np.int64))
    found = paired_difference(one, two, None if groups is None else groups[there])
    return Compared(b, c, int(np.count_nonzero(~whole)), found, p if whole.any() else None)


def _whole(credit: Floats) -> Bools:
    return np.asarray((credit == 0) | (credit == 1))
