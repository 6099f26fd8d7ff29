"""How much released numbers may reveal of which items were flagged, in bits.

A part of n items of which m were kept can be any of C(n, m) sets. Numbers that reveal less than half of that fit so
many sets that no arithmetic finds the one; what does not fit is made coarser, and then withheld. The decision looks
at how many numbers there are and never at what they are, so that it reveals nothing itself.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from robustify.disclosure.coarse import COARSER, FINEST

SHARE = 0.5
STEPS = (FINEST, COARSER)


@dataclass(frozen=True, slots=True)
class Spending:
    """What was decided: the step of each group of numbers (None: withheld), the bits there were and are spent."""

    steps: Mapping[str, float | None]
    available: float
    spent: float


def log2_choose(n: int, m: int) -> float:
    """log2 of C(n, m)."""
    return (math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)) / math.log(2)


def available(cells: Iterable[tuple[int, int]]) -> float:
    """The bits that may be spent on cells (items, items kept), whose counts are shown: half of what the sets hold."""
    return SHARE * sum(log2_choose(n, m) for n, m in cells)


def spend(groups: Mapping[str, Mapping[float, float]], bits: float, *, owed: float = 0.0) -> Spending:
    """Steps for the groups, in their order: as fine as still fits, else the next coarser one, else withheld.

    `groups`: by name the bits of all its numbers at each step of `STEPS`; `owed`: bits that are spent in any case.
    A group is shown whole or not at all, so that nobody can choose among its numbers.
    """
    steps: dict[str, float | None] = {}
    spent = owed
    for name, cost in groups.items():
        steps[name] = next((step for step in STEPS if spent + cost[step] <= bits), None)
        spent += cost[steps[name]] if steps[name] is not None else 0.0  # type: ignore[index]
    return Spending(steps, bits, spent)


def unlimited(groups: Iterable[str]) -> Spending:
    """Every group at the finest step: what stays on the evaluator's machine has no budget."""
    return Spending(dict.fromkeys(groups, FINEST), math.inf, 0.0)
