"""Numbers made coarse before they leave: whole percents, three digits, p upwards to one, small cells as "< k".

What is rounded here is rounded for good: intervals of rates about flags are computed again from the rounded rate,
so that they add nothing to it. How many values a number could have had bounds what it may reveal (`values`).
"""

import math
from collections.abc import Mapping

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
