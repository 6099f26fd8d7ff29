"""Round what leaves a restricted set, and count the bits that a rounded number may reveal."""

import math
from typing import Literal

from robustify.stats.intervals import wilson

FINE, COARSE = 0.01, 0.05
CELL = 10
"""The fewest items, right answers, wrong answers or flags that a number or a topic may describe."""
P_VALUES = 28
"""A rounded p is 0.001 to 0.009, 0.01 to 0.09 or 0.1 to 1."""

Kind = Literal["share", "p"]


def rounded(x: float, step: float) -> float:
    """Return the nearest multiple of `step`, never a negative zero."""
    return round(round(x / step) * step, 6) + 0.0


def one_digit_up(p: float) -> float:
    """Return a p rounded upwards to one digit, at least 0.001: it never looks rarer than it is."""
    if p <= 0.001:
        return 0.001
    unit = 10.0 ** math.floor(math.log10(p) + 1e-12)
    return min(1.0, round(math.ceil(p / unit - 1e-9) * unit, 6))


def interval(share: float, n: int) -> tuple[float, float]:
    """Return the interval of a rounded share of `n`; it follows from both and reveals nothing more."""
    low, high = wilson(share * n, n)
    return rounded(low, FINE), rounded(high, FINE)


def bits(kind: Kind, step: float) -> float:
    """Return log2 of the values that a number may have, "not shown" included."""
    return math.log2(P_VALUES + 1 if kind == "p" else round(1 / step) + 2)


def log2_choose(n: int, m: int) -> float:
    """Return log2 of C(n, m)."""
    return (math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)) / math.log(2)
