"""Tests of hypotheses, differences with their intervals, corrections for many, and the smallest effect a sample shows.

A null result is never given alone but with the difference that would have been significant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from robustify.arrays import Floats, Ints
from robustify.stats.distributions import LEAST_LATTICE_P, lattice_tail
from robustify.stats.intervals import FEWEST_CLUSTERS, Interval, wilson

LEVEL = 0.05
"""The level of a test wherever a config names no other."""

NORMAL = NormalDist()
"""The standard normal distribution."""


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
    from scipy.special import bdtr  # only what needs it pays for the import

    return float(min(1.0, 2 * bdtr(min(b, c), b + c, 0.5)))


def minimum_detectable_difference(n: int, p0: float, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest rise above p0 that is significant on n items with this power; two-sided test, normal limit.

    NaN where even certainty (a rate of 1) would not be significant.
    """
    if n == 0:
        return math.nan
    z, beta = NORMAL.inv_cdf(0.5 + level / 2), NORMAL.inv_cdf(power)

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


def items_to_detect(p0: float, rise: float, level: float = 0.95, power: float = 0.8) -> int:
    """The items on which this rise above p0 is significant with this power; the converse of the function above."""
    p1 = min(1.0, p0 + rise)
    z, beta = NORMAL.inv_cdf(0.5 + level / 2), NORMAL.inv_cdf(power)
    return math.ceil(((z * math.sqrt(p0 * (1 - p0)) + beta * math.sqrt(p1 * (1 - p1))) / rise) ** 2)


_Z = NORMAL.inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference over n items answered on both sides; interval and standard error None below 10 units."""

    value: float | None
    n: int
    ci: Interval | None
    error: float | None = None

    @property
    def significant(self) -> bool | None:
        """Whether the interval leaves out 0; None without one."""
        return None if self.ci is None else not self.ci[0] <= 0 <= self.ci[1]

    @property
    def mde(self) -> float | None:
        """Beside a null result: the difference that is detectable with 80 % power; None beside a significant one."""
        return detectable(self.error) if self.significant is False and self.error is not None else None

    def json(self) -> dict[str, object]:
        """As a rate stands in summary.json, with `mde`."""
        ci = None if self.ci is None else list(self.ci)
        return {"value": self.value, "n": self.n, "ci": ci, "mde": self.mde}


def paired_difference(credit: Floats, other: Floats, groups: Ints | None = None) -> Difference:
    """The mean of credit - other, (n,) each in [0, 1], over items that have both (NaN: unanswered).

    The interval is Wald's with one item added on either side (Bonett and Price 2012), which takes shared
    credits as they are and is no point where nothing differs. With `groups` (n,) the standard error is
    clustered (Miller 2024, arXiv 2411.00640) and Student's t with groups - 1 degrees of freedom takes the
    place of the normal.
    """
    there = ~np.isnan(credit) & ~np.isnan(other)
    d = credit[there] - other[there]
    n = len(d)
    if not n:
        return Difference(None, 0, None)
    together = None if groups is None else np.unique(groups[there], return_inverse=True)[1]
    drawn = n if together is None else int(together.max()) + 1
    value, wide = float(d.mean()), n + 2
    if drawn < FEWEST_CLUSTERS:
        return Difference(value, n, None)
    middle = float(d.sum()) / wide
    if together is None:
        error = math.sqrt((float(d @ d) + 2) / wide - middle**2) / math.sqrt(wide)
        z = _Z
    else:
        off = np.bincount(together, weights=d) - middle * np.bincount(together)
        spread = float(off @ off) + (1 - middle) ** 2 + (1 + middle) ** 2
        error = math.sqrt(spread * (drawn + 2) / (drawn + 1)) / wide
        from scipy.special import stdtrit

        z = float(stdtrit(drawn - 1, 0.975))
    return Difference(value, n, (max(-1.0, middle - z * error), min(1.0, middle + z * error)), error)


def detectable(error: float, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest difference that is significant with this power at this standard error; normal limit."""
    return (NORMAL.inv_cdf(0.5 + level / 2) + NORMAL.inv_cdf(power)) * error


def sign_flip(sums: Ints, groups: Ints | None = None) -> float:
    """Two-sided exact p that the sum of whole numbers (g,), each as likely with the other sign, is as far from 0.

    With differences of +1 and -1 this is exact McNemar; with differences summed by `groups` (g,) it is its clustered
    form (the exact permutation form of Durkalski et al. 2003). It is never below 1e-12, where the transform's rounding is
    larger than p.
    """
    if groups is not None:
        sums = np.bincount(np.unique(groups, return_inverse=True)[1], weights=sums).astype(np.int64)
    size = np.abs(sums[sums != 0])
    distance, total = abs(int(sums.sum())), int(size.sum())
    if not len(size):
        return 1.0
    if int(size.max()) == 1:
        return mcnemar_exact((total + distance) // 2, (total - distance) // 2)
    kinds, counts = np.unique(size, return_counts=True)
    steps = [(step, 0.5, n) for step, n in zip(kinds.tolist(), counts.tolist(), strict=True)]
    # The positive parts sum to 0 ... total; the sum is twice that less the total.
    tail = lattice_tail(steps, total + 1, (total + distance) // 2)
    return float(np.clip(2 * tail, LEAST_LATTICE_P, 1.0))


def independent_difference(x: float, n: float, y: float, m: float) -> Difference:
    """The rate x/n less the rate y/m of other items, with Newcombe's hybrid score interval (1998, method 10).

    Counts may be sums of credits. The standard error, for the detectable difference, pools both rates with
    one success and one failure added.
    """
    p, q, drawn = x / n, y / m, round(n + m)
    if drawn < FEWEST_CLUSTERS:
        return Difference(p - q, drawn, None)
    (p_low, p_high), (q_low, q_high) = wilson(x, n), wilson(y, m)
    ci = p - q - math.hypot(p - p_low, q_high - q), p - q + math.hypot(p_high - p, q - q_low)
    both = (x + y + 1) / (n + m + 2)
    return Difference(p - q, drawn, ci, math.sqrt(both * (1 - both) * (1 / n + 1 / m)))
