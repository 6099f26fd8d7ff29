"""Entropy balancing: the most equal weights under which all columns have mean zero.

The weights are exp(-c l), where l minimizes a convex function with one variable per column (Hainmueller 2012, Political
Analysis 20:25), a calibration with minimal divergence (Deville and Saerndal 1992, JASA 87:376).
"""

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.stats.intervals import Rate, group_sums
from robustify.judging.stats.tests import Difference

RIDGE = 10.0
"""Penalty on l, over n. It balances columns only up to noise, so that no item gets an extreme weight."""
MOST_OFF = 0.5
"""Maximum absolute sum of a column over a balanced subset, in standard deviations."""
_LOOKED_AT, _TRIES = 400, 200
Z = 1.959963984540054
"""Standard errors on each side of a 95 % interval."""


def balancing(columns: Floats, ridge: float = RIDGE) -> Floats:
    """Fit the parameters of weights under which every column has mean zero (c,). `columns` (n, c) have unit variance."""
    from scipy.optimize import minimize  # loaded only when needed

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
    """Compute the items' weights from the fitted parameters, scaled to mean 1. `columns` are (n, c), `at` is (c,)."""
    z = -columns @ at
    share = np.exp(z - z.max(initial=-np.inf))
    return np.asarray(share / share.mean())


def worth(weight: Floats) -> float:
    """Return the effective sample size of weights, (sum w)^2 / sum w^2 (Kish 1965)."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def balanced_subset(columns: Floats) -> tuple[Bools, float]:
    """Find a large subset of items whose columns each sum to about zero (n,). Return it with its largest absolute sum.

    A linear program bounds each column sum by `MOST_OFF`. Items that it selects in part are dropped. Then, among randomly
    drawn items, the one or two that balance best are added or dropped, until every sum is within the bound, if ever.
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
    """Return the weighted mean of x and its standard error, given fixed weights. The error is the sandwich over groups,
    sqrt(sum over groups of (sum of w (x - mean))^2) / sum of w."""
    total = float(weight.sum())
    mean = float((weight * x).sum() / total)
    return mean, float(np.sqrt((group_sums(weight * (x - mean), groups) ** 2).sum())) / total


def weighted_rate(credit: Floats, weight: Floats, groups: Ints | None = None) -> Rate:
    """Return the weighted mean of credits in [0, 1], with its 95 % interval. NaN (unanswered) does not count."""
    there = ~np.isnan(credit) & ~np.isnan(weight)
    if not there.any():
        return Rate(None, 0, None)
    mean, error = weighted_mean(credit[there], weight[there], None if groups is None else groups[there])
    return Rate(mean, int(there.sum()), (max(0.0, mean - Z * error), min(1.0, mean + Z * error)))


def weighted_difference(
    one: Floats, two: Floats, weight: Floats, groups: Ints | None = None
) -> tuple[Difference, float]:
    """Return the weighted mean difference of two models' credits, with its two-sided Wald p-value. NaN does not count."""
    from scipy.special import ndtr

    there = ~np.isnan(one - two) & ~np.isnan(weight)
    if not there.any():
        return Difference(None, 0, None), 1.0
    groups = None if groups is None else groups[there]
    value, error = weighted_mean((one - two)[there], weight[there], groups)
    p = 2 * float(ndtr(-abs(value) / error)) if error else 1.0
    return Difference(value, int(there.sum()), (value - Z * error, value + Z * error), error), p


def taken_out(credit: Floats, weight: Floats, columns: Floats, groups: Ints | None = None) -> Difference:
    """Return the mean of credits minus their weighted mean, with its standard error. NaN (unanswered) does not count. The
    weights balance `columns` (n, c), whose means are partly chance, so that the error has two terms: what the columns
    predict of an item's credit, and its residual times the difference of both weights (Deville and Saerndal 1992)."""
    there = ~np.isnan(credit) & ~np.isnan(weight)
    if not there.any():
        return Difference(None, 0, None)
    x, share = credit[there], weight[there] / weight[there].sum()
    n, design = len(x), np.column_stack([np.ones(len(x)), columns[there]])
    heavy = design.T * share
    fit = design @ (np.linalg.pinv(heavy @ design, hermitian=True) @ (heavy @ x))
    off = (fit - fit.mean()) / n + (x - fit) * (1 / n - share)
    off = group_sums(off, None if groups is None else groups[there])
    value, error = float(x.mean() - share @ x), float(np.sqrt((off**2).sum()))
    return Difference(value, n, (value - Z * error, value + Z * error), error)
