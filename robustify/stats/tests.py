"""Tests of hypotheses, corrections for many of them, and the smallest effect that a sample would show."""

import math
from collections.abc import Sequence
from statistics import NormalDist

from scipy.special import bdtr

LEVEL = 0.05
"""The level of a test wherever a config names no other."""

_NORMAL = NormalDist()


def significantly_positive(
    p: float | None, interval: tuple[float, float] | None, level: float = LEVEL
) -> bool:
    """Whether an effect is above zero: p at most `level`, and its interval above zero; False where one is missing."""
    return p is not None and p <= level and interval is not None and interval[0] > 0


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values (Holm 1979), in the order given."""
    ranked = sorted(range(len(p)), key=lambda i: p[i])
    out, highest = [1.0] * len(p), 0.0
    for rank, i in enumerate(ranked):
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        out[i] = highest
    return out


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Adjusted p-values that hold the false discovery rate (Benjamini, Hochberg 1995), in the order given."""
    ranked = sorted(range(len(p)), key=lambda i: p[i], reverse=True)
    out, lowest = [1.0] * len(p), 1.0
    for rank, i in enumerate(ranked):
        lowest = min(lowest, p[i] * len(p) / (len(p) - rank))
        out[i] = lowest
    return out


def mcnemar_exact(b: int, c: int) -> float:
    """Two-sided exact p of b against c discordant pairs (McNemar 1947, binomial form)."""
    if b + c == 0:
        return 1.0
    return float(min(1.0, 2 * bdtr(min(b, c), b + c, 0.5)))


def minimum_detectable_difference(n: int, p0: float, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest rise above p0 that is significant on n items with this power; two-sided test, normal limit.

    NaN where even certainty (a rate of 1) would not be significant.
    """
    if n == 0:
        return math.nan
    z, beta = _NORMAL.inv_cdf(0.5 + level / 2), _NORMAL.inv_cdf(power)

    def short(d: float) -> float:
        p1 = p0 + d
        return z * math.sqrt(p0 * (1 - p0)) + beta * math.sqrt(max(0.0, p1 * (1 - p1))) - d * math.sqrt(n)

    low, high = 0.0, 1.0 - p0
    if short(high) > 0:
        return math.nan
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if short(middle) > 0 else (low, middle)
    return high
