"""Chance-corrected agreement between raters: kappa. Undefined values are None. Intervals resample whole items."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.stats.intervals import FEWEST_CLUSTERS, Rate, bootstrap, clusters, rate, wilson

Weights = Literal["linear"]


def kappa_of(table: Floats, weights: Weights | None = None) -> Floats:
    """Return Cohen's kappa (Cohen 1960; weighted 1968) for tables of shares (..., k, k), NaN if undefined."""
    cost = _disagreement_weights(table.shape[-1], weights)
    expected = table.sum(-1)[..., :, None] * table.sum(-2)[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - (table * cost).sum((-1, -2)) / (expected * cost).sum((-1, -2)))


def _disagreement_weights(k: int, weights: Weights | None) -> Floats:
    apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(np.float64)
    return apart if weights == "linear" else (apart > 0).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two raters on the same units: the share of equal labels (`raw`) and kappa, with intervals.

    Rows of `confusion` are classes of the first rater, and columns are classes of the second.
    """

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
    seed: int = 0,
) -> Agreement:
    """Measure how well `second` (a judge) agrees with `first` (a person). Items of a group (n,) are resampled together."""
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
    units = clusters(len(cells), groups)
    if units < FEWEST_CLUSTERS:
        return None

    low, high = bootstrap(cells, lambda of: kappa_of(of.reshape(-1, k, k), weights), groups, seed=seed)
    if low < high:
        return low, high
    if not high > 0:  # one rater gives one label to all items, so that kappa is 0, or undefined
        return None
    # Resampling raters who never disagree shows no spread, so up to Wilson's bound of the units may disagree most.
    table, cost = cells.mean(axis=0).reshape(k, k), _disagreement_weights(k, weights)
    by_chance = float((np.outer(table.sum(axis=1), table.sum(axis=0)) * cost).sum())
    unseen = 1 - wilson(units, units)[0]
    return max(-1.0, 1 - unseen * float(cost.max()) / by_chance), high


def fleiss_kappa(votes_correct: Bools) -> float:
    """Return Fleiss' kappa of right and wrong votes (n items, m voters), NaN if all are equal or m < 2 (Fleiss 1971)."""
    n, m = votes_correct.shape
    if n == 0 or m < 2:
        return math.nan
    right = votes_correct.sum(axis=1).astype(np.float64)
    agree = float(np.mean((right**2 + (m - right) ** 2 - m) / (m * (m - 1))))
    share = float(right.mean() / m)
    by_chance = share**2 + (1 - share) ** 2
    return math.nan if by_chance == 1 else (agree - by_chance) / (1 - by_chance)
