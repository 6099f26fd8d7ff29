"""Selection bias from unreadable replies: right replies may be readable more often than wrong ones."""

import math

import numpy as np

from robustify.base.arrays import Bools


def reading_ratio(asked: Bools, read: Bools, right: Bools) -> float:
    """Return a conservative estimate of how many times more often right replies are readable than wrong ones.

    This is the estimate plus one standard error, at least 1. Arguments are (n, m), with a column per voter, and the voters'
    ratios are multiplied. If right replies are readable with probability p and wrong ones with q, then right / p + wrong /
    q sums to the items asked, also if items are weighted by the share of other voters that were right. These are two
    equations for p and q (method of moments, sandwich error). Without other voters, all unreadable replies count as wrong.
    """
    total = variance = most = 0.0
    won, lost = read & right, read & ~right
    for v in range(asked.shape[1]):
        here = asked[:, v]
        unread, wrong = int((here & ~read[:, v]).sum()), int(lost[:, v].sum())
        if not unread:
            continue
        worst = math.log1p(unread / max(1, wrong))
        most += worst
        answered, right_ones = (np.delete(part, v, axis=1)[here].sum(axis=1) for part in (read, won))
        others = right_ones / np.maximum(answered, 1)
        weights = np.stack([np.ones(len(others)), others])
        seen = np.stack([won[here, v], lost[here, v]], axis=1).astype(np.float64)
        moments = weights @ seen
        factors = (
            np.zeros(2) if np.linalg.cond(moments) > 1e9 else np.linalg.solve(moments, weights.sum(axis=1))
        )
        if (factors <= 0).any():
            total += worst
            continue
        noise = (weights * (1 - seen @ factors) ** 2) @ weights.T
        slope = np.linalg.solve(moments.T, np.array([-1.0, 1.0]) / factors)
        total += min(worst, max(-worst, math.log(factors[1] / factors[0])))
        variance += min(worst**2, float(slope @ noise @ slope))
    return math.exp(min(most, max(0.0, total + math.sqrt(variance))))
