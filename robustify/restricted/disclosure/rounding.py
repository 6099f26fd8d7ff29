"""Rounding of released numbers, and the bits that they may reveal."""

import math
from typing import Literal

from robustify.judging.stats.intervals import wilson

FINE, COARSE = 0.01, 0.05
CELL = 10
"""Minimum number of items, right answers, wrong answers or flags behind a released number or topic."""
P_VALUES = 28
"""Number of values of a rounded p-value: 0.001 to 0.009, 0.01 to 0.09, and 0.1 to 1."""

Kind = Literal["share", "p"]


def rounded(x: float, step: float) -> float:
    """Return the nearest multiple of `step`. Zero is never negative."""
    return round(round(x / step) * step, 6) + 0.0


def one_digit_up(p: float) -> float:
    """Round a p-value upwards to one digit, so that it never looks more significant. The minimum is 0.001."""
    if p <= 0.001:
        return 0.001
    unit = 10.0 ** math.floor(math.log10(p) + 1e-12)
    return min(1.0, round(math.ceil(p / unit - 1e-9) * unit, 6))


def rounded_interval(share: float, n: int) -> tuple[float, float]:
    """Return the rounded Wilson interval of a share of `n`, which reveals nothing beyond these two arguments."""
    low, high = wilson(share * n, n)
    return rounded(low, FINE), rounded(high, FINE)


def bits(kind: Kind, step: float) -> float:
    """Return log2 of the number of values that a released number may have, including the reasons for not being shown: a p
    is not measured, and a share not measured or based on too few items."""
    return math.log2(P_VALUES + 1 if kind == "p" else round(1 / step) + 3)


def log2_choose(n: int, m: int) -> float:
    """Return log2 of the binomial coefficient C(n, m)."""
    return (math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)) / math.log(2)
