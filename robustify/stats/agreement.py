"""How far two judgements agree beyond chance: kappa, alpha, and the table behind them.

What is not defined (one class only, nothing to compare) is None and never 0 or 1. Intervals resample whole items.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.stats.intervals import FEWEST_CLUSTERS, Rate, bootstrap, clusters, rate, wilson

Weights = Literal["linear"]
Level = Literal["nominal", "ordinal"]


def kappa_of(table: Floats, weights: Weights | None = None) -> Floats:
    """Cohen's kappa of two raters (Cohen 1960; weighted 1968), of tables of shares (..., k, k); NaN where not defined."""
    cost = _costs(table.shape[-1], weights)
    expected = table.sum(-1)[..., :, None] * table.sum(-2)[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - (table * cost).sum((-1, -2)) / (expected * cost).sum((-1, -2)))


def _costs(k: int, weights: Weights | None) -> Floats:
    """What it costs to give one of k classes for another (k, k)."""
    apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(np.float64)
    return apart if weights == "linear" else (apart > 0).astype(np.float64)


def krippendorff_alpha(units: Sequence[Sequence[float | None]], *, level: Level = "nominal") -> float | None:
    """Krippendorff's alpha of units rated by any number of raters (Krippendorff 2011); None where not defined.

    A rating is a number; None is no rating. Units with fewer than two ratings say nothing.
    """
    rated = [[r for r in unit if r is not None] for unit in units]
    rated = [unit for unit in rated if len(unit) > 1]
    values = sorted({r for unit in rated for r in unit})
    if len(values) < 2:
        return None
    place = {value: i for i, value in enumerate(values)}
    pairs = np.zeros((len(values), len(values)))
    for unit in rated:
        counts = np.bincount([place[r] for r in unit], minlength=len(values)).astype(np.float64)
        pairs += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    margin = pairs.sum(axis=1)
    apart = 1 - np.eye(len(values)) if level == "nominal" else _ranks_apart(margin)
    observed = float((pairs * apart).sum())
    by_chance = float((np.outer(margin, margin) * apart).sum()) / (margin.sum() - 1)
    return 1 - observed / by_chance if by_chance else None


def _ranks_apart(margin: Floats) -> Floats:
    """The squared distance of every two ordered values: of their mid-ranks, given how often each is used."""
    return np.asarray(np.subtract.outer(*2 * [np.cumsum(margin) - margin / 2]) ** 2)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two raters' labels of the same units: how often they are the same, and kappa with its interval.

    `confusion` has a row for each class of the first rater, a column for each of the second.
    """

    n: int
    labels: tuple[str, ...]
    raw: Rate
    kappa: Rate
    confusion: tuple[tuple[int, ...], ...]

    def json(self) -> dict[str, Any]:
        """Return the agreement as it is in a summary."""
        return asdict(self)


def agreement(
    first: Sequence[str],
    second: Sequence[str],
    labels: Sequence[str],
    *,
    weights: Weights | None = None,
    groups: Ints | None = None,
    seed: int = 0,
) -> Agreement:
    """How far `second` (a judge) says what `first` (a person) says; `groups` (n,) are drawn together."""
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
        raw=rate(cells[:, :: k + 1].sum(axis=1)),
        kappa=Rate(None if math.isnan(kappa) else kappa, n, _kappa_interval(cells, k, weights, groups, seed)),
        confusion=tuple(map(tuple, table.tolist())),
    )


def _kappa_interval(
    cells: Floats, k: int, weights: Weights | None, groups: Ints | None, seed: int
) -> tuple[float, float] | None:
    if clusters(len(cells), groups) < FEWEST_CLUSTERS:
        return None

    def kappas(means: Floats) -> Floats:
        return kappa_of(means.reshape(-1, k, k), weights)

    low, high = bootstrap(cells, kappas, groups, seed=seed)
    if math.isnan(low):
        return None
    return (
        (low, high) if low < high else (_least_kappa(cells, k, weights, clusters(len(cells), groups)), high)
    )


def _least_kappa(cells: Floats, k: int, weights: Weights | None, units: int) -> float:
    """The lower end where nobody disagrees: drawing again shows no spread, and that is no certainty.

    Wilson's upper bound of the share of `units` that may disagree, each by as much as two classes can.
    """
    table, cost = cells.mean(axis=0).reshape(k, k), _costs(k, weights)
    by_chance = float((np.outer(table.sum(axis=1), table.sum(axis=0)) * cost).sum())
    return max(-1.0, 1 - (1 - wilson(units, units)[0]) * float(cost.max()) / by_chance)


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
    by_chance = share**2 + (1 - share) ** 2
    return math.nan if by_chance == 1 else (agree - by_chance) / (1 - by_chance)
