"""Confidence intervals of rates and kappa (Wilson for display, Clopper-Pearson for decisions, otherwise the bootstrap), and
majorities.

For clustered items, such as those of one passage, Wilson and Clopper-Pearson use the effective sample size (Korn and
Graubard 1998; Franco et al. 2019). Unanswered items are NaN in the input and do not count in n.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, coded

Interval = tuple[float, float]

FEWEST_CLUSTERS = 10
"""Minimum number of items or groups for a bootstrap interval. With fewer, the interval is too narrow."""
FEWEST_GROUPS = 30
"""Minimum number of groups for the interval of a rate. With fewer, the design effect is too uncertain."""
NORMAL = NormalDist()
"""Standard normal distribution."""
_CELLS = 1 << 22


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate over n answered items with its 95 % interval. Both are None if n is 0."""

    value: float | None
    n: int
    ci: Interval | None

    def json(self) -> dict[str, object]:
        """Return the rate as a JSON object."""
        return {"value": self.value, "n": self.n, "ci": None if self.ci is None else list(self.ci)}


def rate(credit: Floats, groups: Ints | None = None, effect: float = 1.0) -> Rate:
    """Return the mean of credits, with a Wilson interval for the effective sample size divided by the design effect
    `effect`. Credits (n,) are in [0, 1], and NaN does not count. Without an `effective_size`, there is no interval.
    For credits that are shared (1/t), `shared_rate` is narrower."""
    is_answered = ~np.isnan(credit)
    credits = credit[is_answered]
    if not len(credits):
        return Rate(None, 0, None)
    n, mean = len(credits), float(credits.mean())
    size = effective_size(credits, None if groups is None else groups[is_answered])
    return Rate(mean, n, None if size is None else wilson(mean * size / effect, size / effect))


def shared_rate(credit: Floats, tie: Ints, k: Ints, groups: Ints | None = None) -> Rate:
    """Return the mean of tie-fair credits. A credit is 1/t if the key is among the t best of k choices, otherwise 0.

    MOVER (Zou and Donner 2008) combines the Wilson intervals of each t with the variance of the mean over numbers of
    ties, to which one item of credit 0 and one of credit 1 are added, because few items may have a rare number. An item
    tied between all of its choices has credit 1/k whatever its key is. With `groups` (n,), the number of items is divided
    by the `design_effect`. Below 30 groups, there is no interval.
    """
    n = len(credit)
    if n == 0:
        return Rate(None, 0, None)
    code = tie * 2 + (tie < k)
    by_tie = [(c // 2, bool(c % 2), credit[code == c]) for c in np.unique(code).tolist()]
    counts = [(t, others, len(credits), int(np.count_nonzero(credits))) for t, others, credits in by_tie]
    mean = math.fsum(hits / t for t, _, _, hits in counts) / n
    effect = design_effect(credit, groups)
    if effect is None:
        return Rate(mean, n, None)
    if [kind[:2] for kind in counts] == [(1, True)]:
        return Rate(mean, n, wilson(mean * n / effect, n / effect))
    between = sum(items * (hits / (items * t) - mean) ** 2 for t, _, items, hits in counts)
    below = above = effect * (NORMAL.inv_cdf(0.975) / n) ** 2 * (between + mean**2 + (1 - mean) ** 2)
    for t, others, items, hits in counts:
        if others:
            low, high = wilson(hits / effect, items / effect)
            below += (items / (n * t) * (hits / items - low)) ** 2
            above += (items / (n * t) * (high - hits / items)) ** 2
    return Rate(mean, n, (max(0.0, mean - math.sqrt(below)), min(1.0, mean + math.sqrt(above))))


def effective_size(credit: Floats, groups: Ints | None = None, level: float = 0.95) -> float | None:
    """Return the number of independent items that would estimate the mean credit with the same precision. None below
    30 groups. Credits that vary less than those of 0 and 1 with their mean count as more items, up to n."""
    n, effect = len(credit), design_effect(credit, groups, level)
    if effect is None or groups is None or clusters(n, groups) == n:
        return None if effect is None else float(n)
    p, spread = float(credit.mean()), float(credit.var())
    return min(float(n), n / effect * (p * (1 - p) / spread if spread else 1.0))


def design_effect(credit: Floats, groups: Ints | None = None, level: float = 0.95) -> float | None:
    """Return how many dependent items tell as much about a mean as one independent item (at least 1). None below 30
    groups.

    This is the design effect, times (t(df) / t(n - 1))^2 (Korn and Graubard 1998), by the `clustered_variance` of the sum.
    If a few groups dominate it, its degrees of freedom fall to 2 G / (kurtosis - 1) for G groups (Box and Andersen 1955).
    If credits do not vary, groups count as items. The effect is at least that of the correlation within groups (Fleiss and
    Cuzick 1979), because the sums of large groups with equal credits, such as all right, vary too little.
    """
    n = len(credit)
    n_groups = clusters(n, groups)
    if groups is None or n_groups == n:
        return 1.0
    if n_groups < FEWEST_GROUPS:
        return None
    if not np.ptp(credit):
        return n / n_groups
    centred = credit - credit.mean()
    sums = group_sums(centred, groups)
    square = float(sums @ sums)
    if not square:
        return 1.0
    from scipy.special import stdtrit  # loaded only when needed

    variance, own_df = clustered_variance(centred, groups)
    tail, kurtosis = 0.5 + level / 2, n_groups * float((sums**4).sum()) / square**2
    df = max(1.0, min(own_df, 2 * n_groups / max(kurtosis - 1, ROUNDING)))
    t_ratio = float(stdtrit(df, tail) / stdtrit(n - 1, tail)) ** 2
    size, spread = group_sums(np.ones(n), groups), float(centred @ centred)
    within = spread - float((sums**2 / size).sum())
    correlation = max(0.0, 1 - within / spread * n / (n - n_groups))
    return max(1 + correlation * (float(size @ size) / n - 1), variance / spread * t_ratio)


def clustered_variance(deviations: Floats, groups: Ints) -> tuple[float, float]:
    """Return the variance of a sum of deviations from a mean (n,), and its degrees of freedom. Items of a group (n,) depend
    on each other.

    A group with a share h of the items draws the mean to itself, so that the square of its sum is divided by 1 - h (CR2;
    Bell and McCaffrey 2002). The degrees of freedom are Satterthwaite's, for the correlation within groups that these items
    show. They are G - 1 for G equal groups, and fall to 1 if a large group decides alone.
    """
    sums, size = group_sums(deviations, groups), group_sums(np.ones(len(deviations)), groups)
    share, square = size / len(deviations), float(deviations @ deviations)
    pairs = float((size * (size - 1)).sum()) * square / len(deviations)
    correlation = min(1.0, max(0.0, (float(sums @ sums) - square) / pairs)) if pairs else 0.0
    variance, weight = size * (1 + (size - 1) * correlation), 1 / np.maximum(1 - share, ROUNDING)
    # Traces of Q and of its square, Q = diag(weight) (I - share 1') diag(variance) (I - share 1')'.
    total, hh, hv = variance.sum(), weight @ share**2, weight @ (share * variance)
    own = share**2 * total - 2 * share * variance
    trace = float(weight @ (variance + own))
    of_square = 2 * (hh * (weight @ variance**2) + hv**2) + total**2 * hh**2 - 4 * total * hh * hv
    of_square += weight**2 @ (variance * (variance + 2 * own))
    df = trace**2 / float(of_square) if of_square > 0 else 1.0
    return float(weight @ sums**2), min(max(1.0, df), max(1.0, len(size) - 1.0))


def mean_error(deviations: Floats, groups: Ints | None = None) -> tuple[float, float]:
    """Return the standard error of a mean from the deviations from it (n,), and the degrees of freedom of the error. Items
    of a group (n,) depend on each other (`clustered_variance`)."""
    n = len(deviations)
    if groups is None:
        return float(np.linalg.norm(deviations)) / n, math.inf
    variance, df = clustered_variance(deviations, groups)
    return math.sqrt(variance) / n, df


def mean_interval(values: Floats, groups: Ints | None = None) -> Interval:
    """Return the interval of a mean of values (n,) by Student's t, with the `mean_error`."""
    from scipy.special import stdtrit  # loaded only when needed

    mean = float(values.mean())
    error, df = mean_error(values - mean, groups)
    half = error * float(stdtrit(df, 0.975))
    return mean - half, mean + half


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Return Wilson's score interval (Wilson 1927; Brown, Cai and DasGupta 2001). `n` may be an effective size."""
    if n == 0:
        return 0.0, 1.0
    z = NORMAL.inv_cdf(0.5 + level / 2)
    p = successes / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(max(0.0, p * (1 - p)) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes <= 0 else max(0.0, (middle - half) / scale)
    high = 1.0 if successes >= n else min(1.0, (middle + half) / scale)
    return low, high


def clopper_pearson(x: float, n: float, level: float = 0.95) -> Interval:
    """Return the Clopper-Pearson interval of x successes in n, whose coverage is at least `level`. The size n may be an
    effective one (Clopper and Pearson 1934; Korn and Graubard 1998)."""
    if n == 0:
        return 0.0, 1.0
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = 0.0 if x <= 0 else float(betaincinv(x, n - x + 1, tail))
    high = 1.0 if x >= n else float(betaincinv(x + 1, n - x, 1 - tail))
    return low, high


def bootstrap(
    values: Floats,
    statistic: Callable[[Floats], Floats] = lambda means: means[:, 0],
    groups: Ints | None = None,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Return the percentile bootstrap interval of a statistic, resampling items or groups. `statistic` maps the column
    means of all draws (draws, c) to (draws,)."""
    table = values[:, None] if values.ndim == 1 else values
    with np.errstate(divide="ignore", invalid="ignore"):
        return interval(statistic(resampled(table, groups, draws, seed)), level)


def resampled(table: Floats, groups: Ints | None = None, draws: int = 2000, seed: int = 0) -> Floats:
    """Resample items or groups with replacement, and return each draw's column means: (n, c) becomes (draws, c). Equal
    rows are drawn together (multinomial), so that the cost depends only on the number of distinct rows."""
    if not len(table):
        return np.full((draws, table.shape[1]), np.nan)
    if groups is None:
        rows, counts = _distinct(table)
        sizes = np.ones(len(rows))
    else:
        group = np.unique(groups, return_inverse=True)[1]
        sums = [np.bincount(group, weights=column) for column in table.T]
        rows, counts = _distinct(np.column_stack([*sums, np.bincount(group)]))
        rows, sizes = rows[:, :-1], rows[:, -1]
    rng = np.random.default_rng(seed)
    n, chunk = int(counts.sum()), max(1, _CELLS // len(rows))
    parts = []
    for start in range(0, draws, chunk):
        drawn = rng.multinomial(n, counts / n, size=min(chunk, draws - start)).astype(np.float64)
        parts.append((drawn @ rows) / (drawn @ sizes)[:, None])
    return np.concatenate(parts)


def clusters(n: int, groups: Ints | None = None) -> int:
    """Return how many units to resample: the number of groups, or n if the items have no `groups` (n,)."""
    return n if groups is None else len(np.unique(groups))


def unit_index(n: int, groups: Ints | None = None) -> Ints:
    """Return the zero-based index of each item's unit (n,). The unit is the item's group, or the item itself if `groups` is
    None."""
    return np.arange(n) if groups is None else np.asarray(np.unique(groups, return_inverse=True)[1])


def group_sums(values: Floats, groups: Ints | None) -> Floats:
    """Return the sum of the values of each group (g,), or the values unchanged if `groups` is None."""
    if groups is None:
        return values
    # An inverse of `np.unique` takes twice the memory.
    unit = np.searchsorted(np.unique(groups), groups)
    return np.asarray(np.bincount(unit, weights=values), dtype=np.float64)


def interval(draws: Floats, level: float = 0.95) -> Interval:
    """Return the percentile interval of the draws that are not NaN, or NaN if there are none."""
    finite, tail = draws[~np.isnan(draws)], (1 - level) / 2
    low, high = np.quantile(finite, [tail, 1 - tail]).tolist() if len(finite) else (math.nan, math.nan)
    return low, high


def _distinct(table: Floats) -> tuple[Floats, Ints]:
    # Encode column by column, which is far faster on a million rows than numpy's unique rows.
    code = np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        # All NaN are one value, and -0 equals 0.
        kinds, place = coded(column + 0.0)
        code = coded(code.astype(np.int64) * len(kinds) + place)[1]
    counts = np.bincount(code)
    first = np.empty(len(counts), dtype=np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    return table[first], counts.astype(np.int64)


Weights = Literal["linear"]


def kappa_of(table: Floats, weights: Weights | None = None) -> Floats:
    """Return Cohen's kappa for tables of shares (..., k, k), NaN if undefined. Sources: Cohen 1960, weighted 1968."""
    cost = _disagreement_weights(table.shape[-1], weights)
    expected = table.sum(-1)[..., :, None] * table.sum(-2)[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - (table * cost).sum((-1, -2)) / (expected * cost).sum((-1, -2)))


def _disagreement_weights(k: int, weights: Weights | None) -> Floats:
    apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(np.float64)
    return apart if weights == "linear" else (apart > 0).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two raters on the same units: the share of equal labels (`raw`) and kappa, with intervals. Rows of
    `confusion` are classes of the first rater, and columns are classes of the second."""

    n: int
    labels: tuple[str, ...]
    raw: Rate
    kappa: Rate
    confusion: tuple[tuple[int, ...], ...]

    def json(self) -> dict[str, Any]:
        """Return the agreement as a JSON object."""
        return asdict(self)


def agreement(
    first: Sequence[str],
    second: Sequence[str],
    labels: Sequence[str],
    *,
    weights: Weights | None = None,
    groups: Ints | None = None,
) -> Agreement:
    """Measure how well `second` (a judge) agrees with `first` (a person). Items of a group (n,) depend on each other."""
    classes = {label: i for i, label in enumerate(labels)}
    n, k = len(first), len(labels)
    pairs = np.array(
        [classes[a] * k + classes[b] for a, b in zip(first, second, strict=True)], dtype=np.int64
    )
    table = np.bincount(pairs, minlength=k * k).reshape(k, k)
    cells = np.zeros((n, k * k))
    cells[np.arange(n), pairs] = 1.0
    kappa = float(kappa_of(table / max(n, 1), weights))
    return Agreement(
        n=n,
        labels=tuple(labels),
        raw=rate(cells[:, :: k + 1].sum(axis=1), groups),
        kappa=Rate(None if math.isnan(kappa) else kappa, n, _kappa_interval(cells, k, weights, groups)),
        confusion=tuple(map(tuple, table.tolist())),
    )


def _kappa_interval(
    cells: Floats, k: int, weights: Weights | None, groups: Ints | None
) -> tuple[float, float] | None:
    """Return the interval of kappa from Wilson's interval of the mean disagreement, as a share of the largest one. Its size
    gives kappa the standard error of its linear approximation. None if a rater gives one label to all items."""
    units, cost = clusters(len(cells), groups), _disagreement_weights(k, weights)
    if units < FEWEST_CLUSTERS:
        return None
    table, cost = cells.mean(axis=0).reshape(k, k), cost / max(float(cost.max()), 1.0)
    first, second = table.sum(axis=1), table.sum(axis=0)
    by_chance = float(first @ cost @ second)
    if max(first.max(), second.max()) > 1 - ROUNDING:
        return None
    from scipy.special import stdtrit  # loaded only when needed

    disagreement = float((table * cost).sum())
    expected = (cost @ second)[:, None] + first @ cost
    influence = (cost - disagreement / by_chance * (expected - by_chance)).ravel()
    error, df = mean_error(cells @ influence - disagreement, groups)
    error *= float(stdtrit(df, 0.975)) / NORMAL.inv_cdf(0.975)
    spread = disagreement * (1 - disagreement)
    size = min(len(cells), spread / error**2) if spread and error else units
    low, high = wilson(disagreement * size, size)
    return max(-1.0, 1 - high / by_chance), 1 - low / by_chance


def fleiss_kappa(votes_correct: Bools) -> float:
    """Return Fleiss' kappa (1971) of right and wrong votes (n, m). It is NaN if all votes are equal or m < 2."""
    n, m = votes_correct.shape
    if n == 0 or m < 2:
        return math.nan
    right = votes_correct.sum(axis=1).astype(np.float64)
    agree = float(np.mean((right**2 + (m - right) ** 2 - m) / (m * (m - 1))))
    share = float(right.mean() / m)
    by_chance = share**2 + (1 - share) ** 2
    return math.nan if by_chance == 1 else (agree - by_chance) / (1 - by_chance)


class Vote(NamedTuple):
    """Majority verdict of several votes. `agreement` is the verdict's share of the requested votes."""

    verdict: str | None
    agreement: float
    error_type: Literal["tie", "no_majority"] | None


def majority_vote(verdicts: Sequence[str | None]) -> Vote:
    """Return the verdict that more than half of the requested votes share. A failed vote counts against it."""
    counts = Counter(v for v in verdicts if v is not None).most_common(2)
    shares = [n / len(verdicts) for _, n in counts]
    if counts and shares[0] > 0.5:
        return Vote(counts[0][0], shares[0], None)
    tied = len(counts) == 2 and shares[0] == shares[1]
    return Vote(None, max(shares, default=0.0), "tie" if tied else "no_majority")
