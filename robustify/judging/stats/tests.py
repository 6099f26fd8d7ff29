"""Hypothesis tests, differences with intervals, corrections for multiple tests, and exact distributions of sums."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Floats, Ints, coded
from robustify.judging.stats.intervals import FEWEST_CLUSTERS, NORMAL, Interval, clusters, group_sums, wilson

LEVEL = 0.05
"""Default significance level."""
_Z = NORMAL.inv_cdf(0.975)


def significantly_positive(
    p: float | None, interval: tuple[float, float] | None, level: float = LEVEL
) -> bool:
    """Return whether p is at most `level` and the interval is above zero. False if either is missing."""
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

    upto, below = (
        float(bdtr(least, b + c, 0.5)) if least >= 0 else 0.0 for least in (min(b, c), min(b, c) - 1)
    )
    return min(1.0, 2 * upto), min(1.0, upto + below)


def minimum_detectable_difference(n: int, p0: float, level: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest increase over p0 that a two-sided test on n items detects with this power. It is a
    normal approximation, NaN if even a rate of 1 would not be significant."""
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
        """Difference detectable with 80 % power if the result is not significant, otherwise None."""
        return detectable(self.error) if self.significant is False and self.error is not None else None

    def json(self) -> dict[str, object]:
        """Return the difference as a JSON object with `mde`."""
        ci = None if self.ci is None else list(self.ci)
        return {"value": self.value, "n": self.n, "ci": ci, "mde": self.mde}


def paired_difference(credit: Floats, other: Floats, groups: Ints | None = None) -> Difference:
    """Return the mean difference of two credits in [0, 1] over the items that have both. NaN marks unanswered items.

    The interval is Wald's with one item added on each side (Bonett and Price 2012). With `groups` (n,), the standard error
    is clustered (Miller 2024, arXiv 2411.00640), and Student's t with groups - 1 degrees of freedom replaces the normal.
    """
    there = ~np.isnan(credit) & ~np.isnan(other)
    d = credit[there] - other[there]
    n = len(d)
    if not n:
        return Difference(None, 0, None)
    together = None if groups is None else groups[there]
    drawn, value, wide = clusters(n, together), float(d.mean()), n + 2
    if drawn < FEWEST_CLUSTERS:
        return Difference(value, n, None)
    middle = float(d.sum()) / wide
    if together is None:
        error = math.sqrt((float(d @ d) + 2) / wide - middle**2) / math.sqrt(wide)
        z = _Z
    else:
        off = group_sums(d, together) - middle * group_sums(np.ones(n), together)
        spread = float(off @ off) + (1 - middle) ** 2 + (1 + middle) ** 2
        error = math.sqrt(spread * (drawn + 2) / (drawn + 1)) / wide
        from scipy.special import stdtrit

        z = float(stdtrit(drawn - 1, 0.975))
    return Difference(value, n, (max(-1.0, middle - z * error), min(1.0, middle + z * error)), error)


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
    steps = [(step, 0.5, n) for step, n in zip(kinds.tolist(), counts.tolist(), strict=True)]
    # The sum is twice the sum of the positive parts (0 to total) minus the total.
    least = (total + distance) // 2
    upto, below = (lattice_tail(steps, total + 1, at) for at in (least, least + 1))
    exact, mid = np.clip([2 * upto, upto + below], LEAST_LATTICE_P, 1.0).tolist()
    return exact, mid


def newcombe(p: float, p_ci: Interval, q: float, q_ci: Interval) -> Interval:
    """Return the interval of p - q for independent rates with these intervals (Newcombe 1998, method 10)."""
    low = p - q - math.hypot(p - p_ci[0], q_ci[1] - q)
    return max(-1.0, low), min(1.0, p - q + math.hypot(p_ci[1] - p, q - q_ci[0]))


def independent_difference(x: float, n: float, y: float, m: float) -> Difference:
    """Return the rate x/n minus the rate y/m of other items, with Newcombe's hybrid score interval. Counts may be sums
    of credits. The standard error pools both rates after adding one success and one failure."""
    p, q, drawn = x / n, y / m, round(n + m)
    if drawn < FEWEST_CLUSTERS:
        return Difference(p - q, drawn, None)
    both = (x + y + 1) / (n + m + 2)
    ci = newcombe(p, wilson(x, n), q, wilson(y, m))
    return Difference(p - q, drawn, ci, math.sqrt(both * (1 - both) * (1 / n + 1 / m)))


LEAST_P = 1e-40
"""Tail probabilities are exact down to this value, and smaller ones are reported as this value."""
LATTICE = 1 << 18
"""Maximum number of lattice points for a tail. Beyond it, callers use the normal limit."""
LEAST_LATTICE_P = 1e-12
"""Below this value, the rounding error of the transform is larger than the probability."""
_NOTHING = -160.0
"""Logarithm of a factor that is too small to affect a sum."""


def poisson_binomial(p: Floats) -> Floats:
    """Return the exact distribution of the number of successes in independent trials (n + 1,). `p` (n,) has their
    probabilities. Equal ones are combined into binomials, which are convolved pairwise. Tails below 1e-40 are cut."""
    if len(p) and not (float(p.min()) >= 0 and float(p.max()) <= 1):
        raise ValueError("probabilities must be in [0, 1]")
    values, place = coded(p)
    counts = np.bincount(place)
    parts = [_binomial(int(n), float(q)) for q, n in zip(values, counts, strict=True) if q > 0]
    out = np.zeros(len(p) + 1)
    start, mass = total(parts)
    out[start : start + len(mass)] = mass
    return np.asarray(out / out.sum(), dtype=np.float64)


def _binomial(n: int, q: float) -> tuple[int, Floats]:
    if q == 1:
        return n, np.ones(1)
    from scipy.special import gammaln  # loaded only when needed

    x = np.arange(n + 1, dtype=np.float64)
    log = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + x * math.log(q) + (n - x) * math.log1p(-q)
    return _trimmed(0, np.asarray(np.exp(log), dtype=np.float64))


def _trimmed(start: int, mass: Floats) -> tuple[int, Floats]:
    there = np.flatnonzero(mass >= LEAST_P)
    return start + int(there[0]), mass[there[0] : there[-1] + 1]


def total(parts: Iterable[tuple[int, Floats]]) -> tuple[int, Floats]:
    """Return the distribution of a sum of independent integers, each given by its minimum and its probabilities."""
    left = list(parts) or [(0, np.ones(1))]
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        merged = [_trimmed(i + j, np.convolve(x, y)) for (i, x), (j, y) in pairs]
        left = merged + ([left[-1]] if len(left) % 2 else [])
    return left[0]


def upper_tail(pmf: Floats, x: int) -> float:
    """Return P(X >= x) for a distribution on the nonnegative integers, at least 1e-40."""
    return float(min(1.0, max(LEAST_P, pmf[max(0, x) :].sum())))


def central(pmf: Floats, level: float = 0.95) -> Interval:
    """Return the central interval of a distribution on the nonnegative integers, with the same bound on both tails."""
    tail = (1 - level) / 2
    below = np.cumsum(pmf)
    return float(np.searchsorted(below, tail)), float(np.searchsorted(below, 1 - tail))


def lattice_tail(steps: Iterable[tuple[int, float, int]], size: int, least: int) -> float:
    """Return P(S >= least) for a sum S < `size` of independent variables that are either 0 or a positive
    step. Each (step, p, n) of `steps` stands for n variables that are `step` with probability p. It comes
    from the characteristic function, with rounding errors of about 1e-12."""
    wave, steps = -2j * np.pi * np.arange(size // 2 + 1) / size, list(steps)
    # Most frequencies are negligible, because log |1 - p + p z| <= -p (1 - p) (1 - Re z).
    bound = sum(n * p * (1 - p) * (np.cos(wave.imag * step) - 1) for step, p, n in steps)
    there = np.flatnonzero(bound > _NOTHING)
    log_cf, wave = np.zeros(len(there), dtype=np.complex128), wave[there]
    # A factor can be exactly 0 (a fair coin at half a turn). Its log is -inf, and exp restores 0.
    with np.errstate(divide="ignore"):
        for step, p, n in steps:
            log_cf += n * np.log(1 - p + p * np.exp(wave * step))
    cf = np.zeros(size // 2 + 1, dtype=np.complex128)
    cf[there] = np.exp(log_cf)
    return float(np.fft.irfft(cf, size)[least:].sum())
