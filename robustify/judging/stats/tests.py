"""Hypothesis tests and their power, differences with intervals, corrections for many tests, and exact distributions of
sums."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from robustify.base.arrays import Floats, Ints, by_rows
from robustify.judging.stats.intervals import (
    FEWEST_CLUSTERS,
    NORMAL,
    Interval,
    clustered_variance,
    clusters,
    group_sums,
    wilson,
)

LEVEL = 0.05
"""Default significance level."""
_Z = NORMAL.inv_cdf(0.975)


def significantly_positive(
    p: float | None, interval: tuple[float, float] | None, level: float = LEVEL
) -> bool:
    """Return whether p is at most `level` and the interval is above zero. Return False if either is missing."""
    return p is not None and p <= level and interval is not None and interval[0] > 0


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values in the given order (Holm 1979)."""
    ranked, out = np.argsort(p, kind="stable"), np.ones(len(p))
    scaled = np.arange(len(p), 0, -1) * np.asarray(p)[ranked]
    out[ranked] = np.maximum.accumulate(np.minimum(scaled, 1.0))
    return out.tolist()


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the false discovery rate, in the given order (Benjamini and Hochberg 1995)."""
    ranked, out = np.argsort(p, kind="stable")[::-1], np.ones(len(p))
    scaled = np.asarray(p)[ranked] * len(p) / np.arange(len(p), 0, -1)
    out[ranked] = np.minimum.accumulate(np.minimum(scaled, 1.0))
    return out.tolist()


def mcnemar(b: int, c: int) -> tuple[float, float]:
    """Return the two-sided exact p-value (McNemar 1947, binomial form) and mid-p for b versus c discordant pairs."""
    if b + c == 0:
        return 1.0, 1.0
    from scipy.special import bdtr  # loaded only when needed

    at_most, less_than = (
        float(bdtr(least, b + c, 0.5)) if least >= 0 else 0.0 for least in (min(b, c), min(b, c) - 1)
    )
    return min(1.0, 2 * at_most), min(1.0, at_most + less_than)


def minimum_detectable_difference(n: float, p0: float, level: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest increase over p0 that a two-sided test on n items detects with this power. It is a
    normal approximation, NaN if even a rate of 1 would not be significant."""
    if n == 0:
        return math.nan
    z, beta = NORMAL.inv_cdf(0.5 + level / 2), NORMAL.inv_cdf(power)

    def shortfall(rise: float) -> float:
        p1 = p0 + rise
        return z * math.sqrt(p0 * (1 - p0)) + beta * math.sqrt(max(0.0, p1 * (1 - p1))) - rise * math.sqrt(n)

    low, high = 0.0, 1.0 - p0
    if shortfall(high) > 0:
        return math.nan
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if shortfall(middle) > 0 else (low, middle)
    return high


def items_to_detect(p0: float, rise: float, level: float = 0.95, power: float = 0.8) -> int:
    """Return the number of items on which a two-sided test detects this increase over p0 with this power."""
    p1 = min(1.0, p0 + rise)
    z, beta = NORMAL.inv_cdf(0.5 + level / 2), NORMAL.inv_cdf(power)
    return math.ceil(((z * math.sqrt(p0 * (1 - p0)) + beta * math.sqrt(p1 * (1 - p1))) / rise) ** 2)


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference over n items answered on both sides. Below 10 units, `ci` and `error` (standard error) are None."""

    value: float | None
    n: int
    ci: Interval | None
    error: float | None = None

    @property
    def significant(self) -> bool | None:
        """Whether the interval excludes 0, or None if there is no interval."""
        return None if self.ci is None else not self.ci[0] <= 0 <= self.ci[1]

    @property
    def mde(self) -> float | None:
        """Difference detectable with 80 % power if the result is not significant, and otherwise None."""
        return detectable(self.error) if self.significant is False and self.error is not None else None

    def json(self) -> dict[str, object]:
        """Return the difference as a JSON object with `mde`."""
        ci = None if self.ci is None else list(self.ci)
        return {"value": self.value, "n": self.n, "ci": ci, "mde": self.mde}


def paired_difference(credit: Floats, other: Floats, groups: Ints | None = None) -> Difference:
    """Return the mean difference of two credits in [0, 1] over the items that have both. NaN marks unanswered items.

    The interval is Wald's with one item added on each side (Bonett and Price 2012). With `groups` (n,), the standard error
    is clustered (Miller 2024, arXiv 2411.00640), and Student's t replaces the normal (`clustered_variance`).
    """
    is_paired = ~np.isnan(credit) & ~np.isnan(other)
    d = credit[is_paired] - other[is_paired]
    n = len(d)
    if not n:
        return Difference(None, 0, None)
    units = None if groups is None else groups[is_paired]
    n_units, value, wide_n = clusters(n, units), float(d.mean()), n + 2
    if n_units < FEWEST_CLUSTERS:
        return Difference(value, n, None)
    mean = float(d.sum()) / wide_n
    if units is None:
        error = math.sqrt((float(d @ d) + 2) / wide_n - mean**2) / math.sqrt(wide_n)
        z = _Z
    else:
        from scipy.special import stdtrit

        spread, df = clustered_variance(d - mean, units)
        error = math.sqrt(spread + (1 - mean) ** 2 + (1 + mean) ** 2) / wide_n
        z = float(stdtrit(df, 0.975))
    return Difference(value, n, (max(-1.0, mean - z * error), min(1.0, mean + z * error)), error)


def detectable(error: float, level: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest difference that is detectable with the given standard error (normal approximation)."""
    return (NORMAL.inv_cdf(0.5 + level / 2) + NORMAL.inv_cdf(power)) * error


def sign_flip(sums: Ints, groups: Ints | None = None) -> tuple[float, float]:
    """Test whether a sum of integers differs from zero, by flipping their signs at random. Return the two-sided exact
    p-value and the mid-p, at least 1e-12.

    For differences of +1 and -1 this is McNemar's exact test, and summed by `groups` (g,) its clustered form (Durkalski
    et al. 2003). The mid-p rejects about as often as its level says (Fagerland, Lydersen and Laake 2013).
    """
    sums = group_sums(sums.astype(np.float64), groups).astype(np.int64)
    size = np.abs(sums[sums != 0])
    distance, total = abs(int(sums.sum())), int(size.sum())
    if not len(size):
        return 1.0, 1.0
    if int(size.max()) == 1:
        return mcnemar((total + distance) // 2, (total - distance) // 2)
    kinds, counts = np.unique(size, return_counts=True)
    draws = [UnitSums((step,), (0.5,), n) for step, n in zip(kinds.tolist(), counts.tolist(), strict=True)]
    # The sum is twice the sum of the positive parts (0 to total) minus the total.
    least = (total + distance) // 2
    at_least, above = (lattice_tail(draws, total + 1, minimum) for minimum in (least, least + 1))
    exact, mid = np.clip([2 * at_least, at_least + above], LEAST_LATTICE_P, 1.0).tolist()
    return exact, mid


def newcombe(p: float, p_ci: Interval, q: float, q_ci: Interval) -> Interval:
    """Return the interval of p - q for independent rates with these intervals (Newcombe 1998, method 10)."""
    low = p - q - math.hypot(p - p_ci[0], q_ci[1] - q)
    return max(-1.0, low), min(1.0, p - q + math.hypot(p_ci[1] - p, q - q_ci[0]))


def independent_difference(x: float, n: float, y: float, m: float) -> Difference:
    """Return the rate x/n minus the rate y/m of other items, with Newcombe's hybrid score interval. Counts may be sums
    of credits. The standard error pools both rates after adding one success and one failure."""
    p, q, total_n = x / n, y / m, round(n + m)
    if total_n < FEWEST_CLUSTERS:
        return Difference(p - q, total_n, None)
    pooled = (x + y + 1) / (n + m + 2)
    ci = newcombe(p, wilson(x, n), q, wilson(y, m))
    return Difference(p - q, total_n, ci, math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)))


LEAST_P = 1e-40
"""Tail probabilities are exact down to this value, and smaller ones are reported as this value."""
LATTICE = 1 << 18
"""Maximum number of lattice points for a tail. Beyond it, callers use the normal limit."""
LEAST_LATTICE_P = 1e-12
"""Below this value, the rounding error of the transform is larger than the probability."""
_NOTHING = -160.0
"""Logarithm of a factor that is too small to affect a sum."""


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Kind of `n` independent units. The sum over a unit's items reaches `levels` with these probabilities, otherwise 0."""

    levels: tuple[int, ...]
    probabilities: tuple[float, ...]
    n: int

    @property
    def mean(self) -> float:
        """Expected sum over all units."""
        return self.n * math.fsum(q * v for q, v in zip(self.probabilities, self.levels, strict=True))

    @property
    def variance(self) -> float:
        """Variance of the sum over all units."""
        square = math.fsum(q * v * v for q, v in zip(self.probabilities, self.levels, strict=True))
        return self.n * (square - (self.mean / self.n) ** 2)


def independent_draws(step: Ints, p: Floats, groups: Ints | None = None) -> list[UnitSums]:
    """Combine items into independent units. Item i adds `step` i with probability `p` i; both are (n,).

    The items of a group (n,) share one uniform number, and each adds its step if the number is below its p. For copies,
    whose keys are one draw, this is exact. For other items with these probabilities, no dependence gives a sum that varies
    more (comonotonicity; Dhaene et al. 2002), so that its tail is conservative.
    """
    # An inverse of `np.unique` takes twice the memory.
    chances = np.unique(p)
    code = step.astype(np.int64) * len(chances) + np.searchsorted(chances, p)
    codes = np.unique(code)
    code = np.searchsorted(codes, code)
    if groups is None:
        counts = np.bincount(code, minlength=len(codes)).tolist()
        kinds = zip(
            (codes // len(chances)).tolist(), chances[codes % len(chances)].tolist(), counts, strict=True
        )
        return [UnitSums((value,), (chance,), n) for value, chance, n in kinds if chance > 0]
    unit_of = np.unique(groups, return_inverse=True)[1]
    order = np.argsort(unit_of, kind="stable")
    edges = np.flatnonzero(np.diff(unit_of[order], prepend=-1, append=unit_of.max(initial=-1) + 1))
    # Units of the same items have the same sum of random marks.
    marks = np.random.default_rng(0).integers(0, 1 << 62, len(codes), dtype=np.uint64)
    sums = np.add.reduceat(marks[code[order]], edges[:-1]) if len(order) else marks[:0]
    _, first, counts = np.unique(sums, return_index=True, return_counts=True)
    units = []
    for unit, n in zip(first.tolist(), counts.tolist(), strict=True):
        members = codes[code[order[edges[unit] : edges[unit + 1]]]]
        steps: dict[float, int] = {}
        for value, chance in zip(
            (members // len(chances)).tolist(), chances[members % len(chances)].tolist(), strict=True
        ):
            steps[chance] = steps.get(chance, 0) + value
        falling = [chance for chance in sorted(steps, reverse=True) if chance > 0]
        probabilities = [chance - below for chance, below in pairwise([*falling, 0.0])]
        units.append(
            UnitSums(
                tuple(np.cumsum([steps[chance] for chance in falling]).tolist()), tuple(probabilities), n
            )
        )
    return units


def poisson_binomial(p: Floats, groups: Ints | None = None) -> Floats:
    """Return the exact distribution of the number of successes in independent trials (n + 1,). `p` (n,) has their
    probabilities. Those of a group (n,) are combined by `independent_draws`. Equal trials make binomials, then convolved
    pairwise. Tails below 1e-40 are cut."""
    if len(p) and not (float(p.min()) >= 0 and float(p.max()) <= 1):
        raise ValueError("probabilities must be in [0, 1]")
    parts: list[tuple[int, Floats]] = []
    for units in independent_draws(np.ones(len(p), dtype=np.int64), p, groups):
        if len(units.levels) == 1:
            start, mass = _binomial(units.n, units.probabilities[0])
            pmf = np.zeros((len(mass) - 1) * units.levels[0] + 1)
            pmf[:: units.levels[0]] = mass
            parts.append((start * units.levels[0], pmf))
        elif units.levels:
            unit_pmf = np.zeros(units.levels[-1] + 1)
            unit_pmf[[0, *units.levels]] = max(0.0, 1 - math.fsum(units.probabilities)), *units.probabilities
            parts += [(0, unit_pmf)] * units.n
    out = np.zeros(len(p) + 1)
    start, mass = total(parts)
    out[start : start + len(mass)] = mass
    return np.asarray(out / out.sum(), dtype=np.float64)


def _binomial(n: int, q: float) -> tuple[int, Floats]:
    if q == 1:
        return n, np.ones(1)
    from scipy.special import gammaln  # loaded only when needed

    def mass(x: Floats) -> Floats:
        ways = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
        return np.asarray(np.exp(ways + x * math.log(q) + (n - x) * math.log1p(-q)), dtype=np.float64)

    return _trimmed(0, by_rows(mass, np.arange(n + 1, dtype=np.float64)))


def _trimmed(start: int, mass: Floats) -> tuple[int, Floats]:
    kept = np.flatnonzero(mass >= LEAST_P)
    return start + int(kept[0]), mass[kept[0] : kept[-1] + 1]


def total(parts: Iterable[tuple[int, Floats]]) -> tuple[int, Floats]:
    """Return the distribution of a sum of independent integers, each given by its minimum and its probabilities."""
    remaining = list(parts) or [(0, np.ones(1))]
    while len(remaining) > 1:
        pairs = zip(remaining[::2], remaining[1::2], strict=False)
        merged = [_trimmed(i + j, np.convolve(x, y)) for (i, x), (j, y) in pairs]
        remaining = merged + ([remaining[-1]] if len(remaining) % 2 else [])
    return remaining[0]


def upper_tail(pmf: Floats, x: int) -> float:
    """Return P(X >= x) for a distribution on the nonnegative integers, at least 1e-40."""
    return float(min(1.0, max(LEAST_P, pmf[max(0, x) :].sum())))


def central(pmf: Floats, level: float = 0.95) -> Interval:
    """Return the central interval of a distribution on the nonnegative integers, with the same bound on both tails."""
    tail = (1 - level) / 2
    below = np.cumsum(pmf)
    return float(np.searchsorted(below, tail)), float(np.searchsorted(below, 1 - tail))


def lattice_tail(draws: Sequence[UnitSums], size: int, least: int) -> float:
    """Return P(S >= least) for the sum S < `size` of independent units. It comes from the characteristic function, with
    rounding errors of about 1e-12."""
    waves = -2j * np.pi * np.arange(size // 2 + 1) / size
    # Most frequencies are negligible, because log |cf| <= -p q (1 - Re z) for the probabilities p and q of two sums that
    # differ by a step, and z of that step.
    bound = np.zeros(len(waves))
    for units in draws:
        p_zero = max(0.0, 1 - math.fsum(units.probabilities))
        for level, p in zip(units.levels[-1:], units.probabilities[-1:], strict=True):
            bound += units.n * p * p_zero * (np.cos(waves.imag * level) - 1)
    kept = np.flatnonzero(bound > _NOTHING)
    log_cf, waves = np.zeros(len(kept), dtype=np.complex128), waves[kept]
    # A factor can be exactly 0. Its log is -inf (times n, with an undefined imaginary part), and exp restores 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        for units in draws:
            factor = np.full(len(kept), max(0.0, 1 - math.fsum(units.probabilities)), dtype=np.complex128)
            for level, p in zip(units.levels, units.probabilities, strict=True):
                factor += p * np.exp(waves * level)
            log_cf += units.n * np.log(factor)
    cf = np.zeros(size // 2 + 1, dtype=np.complex128)
    cf[kept] = np.exp(log_cf)
    return float(np.fft.irfft(cf, size)[least:].sum())
