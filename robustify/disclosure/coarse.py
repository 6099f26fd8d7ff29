"""What a released number may look like, and how much it may reveal.

Numbers are made coarse before they leave: whole percents, three digits, p upwards to one, small cells as "< k". What is
rounded here is rounded for good: intervals of rates about flags are computed again from the rounded rate, so that they
add nothing to it. How many values a number could have had bounds what it may reveal (`values`).

A part of n items of which m were kept can be any of C(n, m) sets. Numbers that reveal less than half of these bits fit so
many sets that no arithmetic finds the one; what does not fit is made coarser, and then withheld. The decision looks at
how many numbers there are and never at what they are, so that it reveals nothing itself.

Small topics are merged into one "Other", never left out: totals stay true and nothing can be found by subtraction. A
topic's name goes out only with at least k items in each of its cells, and only if it is a name.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robustify.stats.intervals import wilson
from robustify.summary.quantity import Kind

FINEST = 0.01
COARSER = 0.05
MOST_MISSING = 0.1
"""A rate about flags in which a larger share of the split has no answer is not shown."""
REASONS = 3
"""Why a rate may be withheld by what it is: few items, few right or wrong, few answers."""
P_VALUES = 28
"""0.001 to 0.009, 0.01 to 0.09, 0.1 to 1."""


def rounded(x: float, step: float) -> float:
    """The nearest multiple of `step`; never a negative zero."""
    return round(round(x / step) * step, 6) + 0.0


def three_digits(x: float) -> float:
    """Three significant digits."""
    return float(f"{x:.3g}") + 0.0


def one_digit_up(p: float) -> float:
    """A p rounded upwards to one digit, at least 0.001: it never looks rarer than it is."""
    if p <= 0.001:
        return 0.001
    unit = 10.0 ** math.floor(math.log10(p) + 1e-12)
    return min(1.0, round(math.ceil(p / unit - 1e-9) * unit, 6))


def withheld(why: str) -> dict[str, object]:
    """A number that is not shown, and why."""
    return {"value": None, "n": None, "ci": None, "withheld": why}


def plain_rate(node: Mapping[str, object], k: int, step: float = FINEST) -> dict[str, object]:
    """A rate or difference that no flag is part of: value and interval in steps, n as it is."""
    n = node.get("n")
    if isinstance(n, int) and 0 < n < k:
        return withheld(f"< {k} items")
    ci = node.get("ci")
    return {
        "value": _stepped(node.get("value"), step),
        "n": n if isinstance(n, int) else None,
        "ci": [_stepped(end, step) for end in ci] if isinstance(ci, list | tuple) else None,
    }


def flagged_rate(node: Mapping[str, object], n_split: int | None, k: int, step: float) -> dict[str, object]:
    """A rate on a part that the flags made: the size of the part stands for n.

    `n_split` None: nothing else gives the size of the part, so it is rounded down to a multiple of k. Fewer than k
    right or wrong answers are "< k", for none and all would say it of every item.
    """
    value, n = node.get("value"), node.get("n")
    if not isinstance(value, int | float) or not isinstance(n, int) or n == 0:
        return {"value": None, "n": 0 if n == 0 else None, "ci": None}
    size = n // k * k if n_split is None else n_split
    if n < k or size < k:
        return withheld(f"< {k} items")
    if n < (1 - MOST_MISSING) * size:
        return withheld("answers missing")
    if min(value * n, n - value * n) < k:
        return withheld(f"< {k} right or wrong")
    shown = rounded(value, step)
    return {"value": shown, "n": size, "ci": [rounded(end, FINEST) for end in wilson(shown * size, size)]}


def few_withheld(shown: dict[str, object], node: Mapping[str, object], k: int) -> dict[str, object]:
    """A rate of flags over all items; withheld where fewer than k, or all but fewer than k, are flagged."""
    value, n = node.get("value"), node.get("n")
    if isinstance(value, int | float) and isinstance(n, int) and min(value * n, n - value * n) < k:
        return withheld(f"< {k}")
    return shown


def values(kind: Kind, step: float, ends: int = 0) -> float:
    """In bits, what a number of this kind can reveal at most: log2 of the values it may have, and of the reasons why it
    may be withheld.

    `ends`: how many numbers stand beside it that the value does not give: ends of an interval, a size.
    """
    match kind:
        case "rate" | "share":
            return (1 + ends) * math.log2(round(1 / step) + 1 + REASONS)
        case "difference":
            return (1 + ends) * math.log2(round(2 / step) + 1 + REASONS)
        case "p":
            return math.log2(P_VALUES + 1)
        case "truth":
            return 1.0
        case _:
            return math.log2(1_000)


def _stepped(x: object, step: float) -> float | None:
    return rounded(x, step) if isinstance(x, int | float) and not isinstance(x, bool) else None


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


LONGEST, MOST_WORDS = 60, 8
"""A longer topic is no name but perhaps a text, and is numbered instead."""


@dataclass(frozen=True, slots=True)
class TopicBlock:
    """Topics that are shown as one: how many items they had, and how many were kept."""

    name: str
    before: int
    after: int
    topics: tuple[str, ...] = ()
    """Their own names; a block of all items names none."""

    @property
    def merged(self) -> int:
        """How many topics they are."""
        return len(self.topics)

    @property
    def least(self) -> int:
        """Its smallest cell: items, items kept, items not kept."""
        return min(self.before, self.after, self.before - self.after)


def counts(rows: Mapping[str, object]) -> list[TopicBlock]:
    """The topics of summary.json with both counts; rows without both are passed over."""
    out = []
    for name, row in rows.items():
        before, after = (row.get(end) if isinstance(row, Mapping) else None for end in ("before", "after"))
        if isinstance(before, int) and isinstance(after, int):
            out.append(TopicBlock(name, before, after, (name,)))
    return out


def partition(topics: Sequence[TopicBlock], k: int) -> list[TopicBlock] | None:
    """The topics, the small ones as one "Other" of at least two; None where even all together are too small.

    Topics with a cell below `k` are merged, then the smallest one after the other until Other is large enough.
    """
    kept = sorted((t for t in topics if t.least >= k), key=lambda t: (-t.least, t.name))
    other = [t for t in topics if t.least < k]
    while other and kept and (len(other) < 2 or _whole(other, "").least < k):
        other.append(kept.pop())
    if other and _whole(other, "").least < k:
        return None
    named = [_named(t, i) for i, t in enumerate(sorted(kept, key=lambda t: t.name), start=1)]
    return [*named, *([_whole(other, _free(len(other), named))] if other else [])]


def _whole(parts: Sequence[TopicBlock], name: str) -> TopicBlock:
    topics = tuple(topic for part in parts for topic in part.topics)
    return TopicBlock(name, sum(p.before for p in parts), sum(p.after for p in parts), topics)


def _free(n: int, named: Sequence[TopicBlock]) -> str:
    name = f"Other ({n} topics)"
    while any(p.name == name for p in named):
        name += "_"
    return name


def _named(topic: TopicBlock, place: int) -> TopicBlock:
    name = topic.name
    if len(name) <= LONGEST and len(name.split()) <= MOST_WORDS and name.isprintable():
        return topic
    return TopicBlock(f"Topic {place}", topic.before, topic.after, topic.topics)
