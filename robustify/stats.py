"""Numbers in, numbers out: ties, intervals, tests. Nothing here knows what an item is.

Wilson intervals for display, Clopper-Pearson where a gate decides, an item (or cluster) bootstrap for what
is no plain rate. What was not answered is never counted: it is NaN on the way in and missing from n on the
way out.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, betaincinv, gammaln

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Interval = tuple[float, float]

RELATIVE_TIE = 1e-6
LEAST_P = 1e-40
"""Tail probabilities are exact down to here; a smaller one is reported as this."""
FEWEST_CLUSTERS = 10
"""Below this many items (or groups of them) a bootstrap interval is too narrow to be shown."""

_NORMAL = NormalDist()
_DIRECT = 1 << 30
_CELLS = 1 << 22


def tied_best(scores: Sequence[float]) -> tuple[int, ...]:
    """The indices that share the best score, lowest first; equal means within a relative 1e-6.

    An argmax alone gives every tie to the first place: on public bf16 logs that moved accuracy by a point.
    """
    best = max(scores)
    slack = RELATIVE_TIE * max(abs(best), 1e-300)
    return tuple(i for i, s in enumerate(scores) if best - s <= slack)


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of n answered items with its 95 % interval; value and interval are None when n is 0."""

    value: float | None
    n: int
    ci: Interval | None

    def json(self) -> dict[str, object]:
        """The rate as it stands in summary.json."""
        return {"value": self.value, "n": self.n, "ci": None if self.ci is None else list(self.ci)}


def rate(credit: Floats) -> Rate:
    """The mean of credits in [0, 1], (n,), with a Wilson interval; NaN (unanswered) is left out of n.

    With shared credit (1/t) the interval is Wilson's on the sum, which is wider than need be: a credit
    strictly between 0 and 1 varies less than a coin of the same mean.
    """
    held = credit[~np.isnan(credit)]
    n = len(held)
    if n == 0:
        return Rate(None, 0, None)
    return Rate(float(held.mean()), n, wilson(float(held.sum()), n))


def wilson(successes: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927; Brown, Cai and DasGupta 2001)."""
    if n == 0:
        return 0.0, 1.0
    z = _NORMAL.inv_cdf(0.5 + level / 2)
    p = successes / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(max(0.0, p * (1 - p)) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes <= 0 else max(0.0, (middle - half) / scale)
    high = 1.0 if successes >= n else min(1.0, (middle + half) / scale)
    return low, high


def clopper_pearson(x: int, n: int, level: float = 0.95) -> Interval:
    """The exact interval of x successes in n: it covers at least `level`, always (Clopper, Pearson 1934)."""
    if n == 0:
        return 0.0, 1.0
    tail = (1 - level) / 2
    low = 0.0 if x <= 0 else float(betaincinv(x, n - x + 1, tail))
    high = 1.0 if x >= n else float(betaincinv(x + 1, n - x, 1 - tail))
    return low, high


def first_mean(means: Floats) -> Floats:
    """The bootstrap's default statistic: the mean of the first column."""
    return means[:, 0]


def bootstrap(
    values: Floats,
    statistic: Callable[[Floats], Floats] = first_mean,
    groups: Ints | None = None,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """The percentile interval of a function of column means, items (or whole groups of items) resampled.

    `values` (n,) or (n, c); `statistic` takes the column means of all draws (draws, c) and gives (draws,),
    so differences and ratios of means are one vector operation. `groups` (n,): items with one number are
    drawn together.
    """
    table = values[:, None] if values.ndim == 1 else values
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(statistic(resampled(table, groups, draws, seed)), level)


def resampled(table: Floats, groups: Ints | None = None, draws: int = 2000, seed: int = 0) -> Floats:
    """The column means (draws, c) of a table (n, c) whose items, or groups of them, are drawn with replacement.

    Equal rows are counted and drawn at once (a multinomial). That is the same distribution as drawing items
    one by one, and makes a million items as cheap as their distinct rows.
    """
    if not len(table):
        return np.full((draws, table.shape[1]), np.nan)
    if groups is None:
        rows, counts = _distinct(table)
        sizes = np.ones(len(rows))
    else:
        _, group = np.unique(groups, return_inverse=True)
        sums = np.stack([np.bincount(group, weights=column) for column in table.T], axis=1)
        rows, counts = _distinct(np.column_stack([sums, np.bincount(group)]))
        rows, sizes = rows[:, :-1], rows[:, -1]
    rng = np.random.default_rng(seed)
    n, chunk = int(counts.sum()), max(1, _CELLS // len(rows))
    out = []
    for start in range(0, draws, chunk):
        drawn = rng.multinomial(n, counts / n, size=min(chunk, draws - start)).astype(np.float64)
        out.append((drawn @ rows) / (drawn @ sizes)[:, None])
    return np.concatenate(out)


def clusters(n: int, groups: Ints | None = None) -> int:
    """How many units a bootstrap of n items has to draw from: the items, or the groups (n,) they stand in."""
    return n if groups is None else len(np.unique(groups))


def interval(draws: Floats, level: float = 0.95) -> Interval:
    """The percentile interval of draws, NaN left out; NaN where none is left."""
    held = draws[~np.isnan(draws)]
    if not len(held):
        return math.nan, math.nan
    tail = (1 - level) / 2
    low, high = np.quantile(held, [tail, 1 - tail])
    return float(low), float(high)


def _distinct(table: Floats) -> tuple[Floats, Ints]:
    # Column by column, because numpy's own unique rows sort a million void records far more slowly.
    code = np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        kinds, place = np.unique(column, return_inverse=True)
        code = np.unique(code * len(kinds) + place, return_inverse=True)[1]
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return table[first], counts.astype(np.int64)


def poisson_binomial(p: Floats) -> Floats:
    """The exact distribution of the number of successes of independent trials.

    Their chances (n,) give (n + 1,). Equal chances are gathered into binomials and all of them convolved, pair
    by pair; tails below 1e-40 are cut, so that a million trials take well under a second.
    """
    if len(p) and not (float(p.min()) >= 0 and float(p.max()) <= 1):
        raise ValueError("chances outside [0, 1]")
    values, counts = np.unique(p, return_counts=True)
    parts = [_binomial(int(n), float(q)) for q, n in zip(values, counts, strict=True) if q > 0]
    while len(parts) > 1:
        merged = [_summed(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = merged + ([parts[-1]] if len(parts) % 2 else [])
    out = np.zeros(len(p) + 1)
    start, mass = parts[0] if parts else (0, np.ones(1))
    out[start : start + len(mass)] = mass
    return np.asarray(out / out.sum(), dtype=np.float64)


def _binomial(n: int, q: float) -> tuple[int, Floats]:
    if q == 1:
        return n, np.ones(1)
    x = np.arange(n + 1, dtype=np.float64)
    log = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) + x * math.log(q) + (n - x) * math.log1p(-q)
    return _trimmed(0, np.asarray(np.exp(log), dtype=np.float64))


def _summed(a: tuple[int, Floats], b: tuple[int, Floats]) -> tuple[int, Floats]:
    (i, x), (j, y) = a, b
    if len(x) * len(y) <= _DIRECT:
        return _trimmed(i + j, np.convolve(x, y))
    size = len(x) + len(y) - 1
    mass = np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(y, size), size)
    return _trimmed(i + j, np.maximum(mass, 0.0))


def _trimmed(start: int, mass: Floats) -> tuple[int, Floats]:
    there = np.flatnonzero(mass >= LEAST_P)
    return start + int(there[0]), mass[there[0] : there[-1] + 1]


def upper_tail(pmf: Floats, x: int) -> float:
    """P(X >= x) of a distribution on 0, 1, ..., never below 1e-40."""
    return float(min(1.0, max(LEAST_P, pmf[max(0, x) :].sum())))


def central(pmf: Floats, level: float = 0.95) -> Interval:
    """The central interval of a distribution on 0, 1, ...: each side leaves at most half the rest outside."""
    tail = (1 - level) / 2
    below = np.cumsum(pmf)
    return float(np.searchsorted(below, tail)), float(np.searchsorted(below, 1 - tail))


def percent(share: float) -> str:
    """A share as it is printed: `31.8 %`."""
    return f"{100 * share:.1f} %"


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


def fleiss_kappa(votes_correct: Bools) -> float:
    """Fleiss' kappa of right and wrong, (n items, m voters) (Fleiss 1971).

    NaN where all votes are alike or m < 2.
    """
    n, m = votes_correct.shape
    if n == 0 or m < 2:
        return math.nan
    right = votes_correct.sum(axis=1).astype(np.float64)
    agree = float(np.mean((right**2 + (m - right) ** 2 - m) / (m * (m - 1))))
    share = float(right.mean() / m)
    by_luck = share**2 + (1 - share) ** 2
    return math.nan if by_luck == 1 else (agree - by_luck) / (1 - by_luck)


def minimum_detectable_difference(n: int, p0: float, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest rise above p0 that n items tell from p0 with this power; two-sided test, normal limit.

    NaN where even certainty (a rate of 1) would not be told.
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
