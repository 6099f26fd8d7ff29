"""Weights under which what is listed is worthless: as close to equal ones as they can be.

Entropy balancing (Hainmueller 2012, Political Analysis 20:25), which is calibration with minimal divergence (Deville and
Saerndal 1992, JASA 87:376): of all weights that make the weighted mean of every column zero, those of least relative
entropy to equal weights. They are exp(-c l), with l the minimum of a convex function of as many numbers as columns.
"""

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.stats.intervals import Rate
from robustify.stats.tests import Difference

RIDGE = 10.0
"""On l, over n: columns are balanced up to noise, so that no item pays for a perfect balance with its whole weight."""
MOST_OFF = 0.5
"""By how many deviations the sum of a column over a balanced subset may be off."""
_LOOKED_AT, _TRIES = 400, 200
Z = 1.959963984540054
"""Standard errors on each side of a 95 % interval."""


def balancing(columns: Floats, ridge: float = RIDGE) -> Floats:
    """Return l, (c,), of the weights that balance `columns` (n, c), each column in units of its deviation."""
    from scipy.optimize import minimize  # late: a run without items never balances

    n = len(columns)

    def dual(at: Floats) -> tuple[float, Floats]:
        z = -columns @ at
        top = float(z.max())
        share = np.exp(z - top)
        total = float(share.sum())
        slope = -(share / total) @ columns + ridge / n * at
        return top + np.log(total / n) + ridge / n / 2 * float(at @ at), slope

    found = minimize(dual, np.zeros(columns.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x, dtype=np.float64)


def weights(columns: Floats, at: Floats) -> Floats:
    """Return the weights (n,) that l = `at` (c,) gives items with these columns (n, c); their mean is 1."""
    z = -columns @ at
    share = np.exp(z - z.max(initial=-np.inf))
    return np.asarray(share / share.mean())


def worth(weight: Floats) -> float:
    """Return how many equally weighted items the weighted ones are worth (Kish 1965): (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def balanced_subset(columns: Floats) -> tuple[Bools, float]:
    """Return a largest subset, (n,), in which no column (n, c) pays, and by how much its worst column is off.

    The linear programme bounds each column's sum by `MOST_OFF`; at most c of its items are taken in part and are left
    out. Then the one or two items, among some that are drawn, whose turning balances best are taken or left, until every
    sum is within the bound. Few items may not reach it.
    """
    from scipy.optimize import linprog

    n, draw = len(columns), np.random.default_rng(0)
    both_ways = np.vstack([columns.T, -columns.T])
    found = linprog(-np.ones(n), A_ub=both_ways, b_ub=np.full(len(both_ways), MOST_OFF), bounds=(0, 1))
    taken = np.asarray(np.asarray(found.x) > 1 - 1e-6)
    best, least = taken, float(np.abs(columns[taken].sum(axis=0)).max(initial=0.0))
    for _ in range(_TRIES):
        if least <= MOST_OFF:
            break
        rows = draw.permutation(n)[:_LOOKED_AT]
        turned = np.where(taken[rows], -1.0, 1.0)[:, None] * columns[rows]
        total = columns[taken].sum(axis=0) + turned
        off = np.abs(total[:, None] + turned).max(axis=2)
        np.fill_diagonal(off, np.abs(total).max(axis=1))
        one, two = np.unravel_index(off.argmin(), off.shape)
        taken = taken.copy()
        taken[np.unique(rows[[one, two]])] ^= True
        if off[one, two] < least:
            best, least = taken, float(off[one, two])
    return best, least


def weighted_mean(x: Floats, weight: Floats, groups: Ints | None = None) -> tuple[float, float]:
    """Return the weighted mean of x (n,) and its standard error, the weights fixed.

    The error is the sandwich over groups: sqrt(sum over groups of (sum of w (x - mean))^2) / sum of w.
    """
    total = float(weight.sum())
    mean = float((weight * x).sum() / total)
    off = weight * (x - mean)
    if groups is not None:
        off = np.bincount(np.unique(groups, return_inverse=True)[1], weights=off).astype(np.float64)
    return mean, float(np.sqrt((off**2).sum())) / total


def weighted_rate(credit: Floats, weight: Floats, groups: Ints | None = None) -> Rate:
    """Return the weighted mean of credits (n,) in [0, 1] with its 95 % interval; NaN (not answered) is left out."""
    there = ~np.isnan(credit) & ~np.isnan(weight)
    if not there.any():
        return Rate(None, 0, None)
    mean, error = weighted_mean(credit[there], weight[there], None if groups is None else groups[there])
    return Rate(mean, int(there.sum()), (max(0.0, mean - Z * error), min(1.0, mean + Z * error)))


def weighted_difference(
    one: Floats, two: Floats, weight: Floats, groups: Ints | None = None
) -> tuple[Difference, float]:
    """Return the weighted mean of one - two, (n,) each, NaN: not answered, and its two-sided p (Wald)."""
    from scipy.special import ndtr

    there = ~np.isnan(one - two) & ~np.isnan(weight)
    if not there.any():
        return Difference(None, 0, None), 1.0
    groups = None if groups is None else groups[there]
    value, error = weighted_mean((one - two)[there], weight[there], groups)
    p = 2 * float(ndtr(-abs(value) / error)) if error else 1.0
    return Difference(value, int(there.sum()), (value - Z * error, value + Z * error), error), p
