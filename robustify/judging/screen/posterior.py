"""Probability that a hit has a shortcut, calibrated on the hits and misses of other items.

An item with a shortcut is a hit, and one without is a hit with probability c. If a share s of the items that look alike to
the scorer has a shortcut, h = s + (1 - s) c of them are hits, and a hit has a shortcut with probability s / h.

The scorer gives each item a probability of a shortcut. It ranks items well, but its probabilities are too even: among
those of 0.9, nearly all have a shortcut, and among those of 0.4 one in seven. Platt's scaling (1999) corrects this: s is
logistic in the logit of the scorer's probability. It has two parameters, so that it is steadier than an isotonic fit, which
takes a run of hits by chance for shortcuts.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from robustify.base.arrays import Bools, Floats, coded

LEAST = 0.002
"""Smallest probability, and smallest distance from 1, before its logit is taken."""
PRIOR, PENALTY = np.array([-1.0, 1.5]), 0.1
"""Intercept and slope without data, and the ridge penalty on the distance from them."""
_DECIMALS = 2
"""Decimals of a logit. Items of equal rounded logits are counted together, so that the fit does not grow with them."""


def shortcut_share(probable: Floats, hit: Bools, null: Floats, at: Floats) -> Floats:
    """Return the estimated share of shortcuts among items of each scorer's probability `at` (m,).

    The intercept and the slope, at least 0, are fitted to `hit` (n,) by maximum likelihood with a ridge penalty, given the
    scorer's probabilities `probable` (n,) and c, `null` (n,).
    """
    x, c = np.round(_logits(probable), _DECIMALS), np.minimum(null, 1 - LEAST)
    place = coded(x + 1e3 * np.round(c, 6))[1]
    n = np.bincount(place)
    x, c, hits = (np.bincount(place, weights=of).astype(np.float64) for of in (x, c, hit.astype(np.float64)))
    x, c, misses = x / n, c / n, n - hits

    def loss(to: Floats) -> tuple[float, Floats]:
        s = expit(to[0] + to[1] * x)
        h = c + (1 - c) * s
        likely = hits @ np.log(h) + misses @ np.log1p(-np.minimum(s, 1 - 1e-12))
        slope = hits * (1 - c) * s * (1 - s) / h - misses * s
        off = to - PRIOR
        return PENALTY / 2 * float(off @ off) - float(likely), PENALTY * off - [slope.sum(), slope @ x]

    found = minimize(loss, PRIOR, jac=True, method="L-BFGS-B", bounds=[(None, None), (0, None)])
    return np.asarray(expit(found.x[0] + found.x[1] * _logits(at)))


def shortcut_probability(h: Floats, null: Floats) -> Floats:
    """Return P(shortcut | hit) = (h - c) / ((1 - c) h) (n,), assuming that a shortcut is always a hit.

    `h` is P(hit) >= c > 0, and `null` is c.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (h - null) / ((1 - null) * h)
    return np.asarray(np.where((null < 1) & (h > 0), found, 0.0))


def _logits(probable: Floats) -> Floats:
    return np.asarray(logit(np.clip(probable, LEAST, 1 - LEAST)))
