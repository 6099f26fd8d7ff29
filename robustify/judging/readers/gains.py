"""How much more accurate readers are than chance, over items that depend on each other in groups."""

from collections.abc import Mapping

import numpy as np

from robustify.base.arrays import ROUNDING, Floats, Ints
from robustify.judging.stats.intervals import NORMAL, group_sums
from robustify.judging.stats.tests import LEVEL, holm
from robustify.judging.summary.scored import Gain

TO_SEE = 0.03
"""Gain over chance that an audit should be able to see."""


def gains(credits: Mapping[str, Floats], k: Ints, groups: Ints | None = None) -> dict[str, Gain]:
    """Return how much more accurate each auditor is than chance, 1 / `k`. `credits` (n,) are NaN if unanswered.

    Items of one of `groups` (n,) count together. p-values are one-sided and corrected by Holm over the auditors. `power` is
    that to see 3 points at their joint level.
    """
    found, z = dict[str, Gain](), NORMAL.inv_cdf(0.975)
    answered = {name: ~np.isnan(won) for name, won in credits.items()}
    level = NORMAL.inv_cdf(1 - LEVEL / max(1, sum(map(np.any, answered.values()))))
    for name, won in credits.items():
        if (of := answered[name]).any():
            beyond, chance = (won - 1 / k)[of], 1 / k[of]
            n, together, value = len(beyond), None if groups is None else groups[of], float(beyond.mean())
            error = float(np.linalg.norm(group_sums(beyond - value, together))) / n
            if error < ROUNDING:
                # Credits that are all alike, such as all right, show no spread, so they get that of picks by chance.
                error = float(np.linalg.norm(group_sums(np.sqrt(chance * (1 - chance)), together))) / n
            p = NORMAL.cdf(-value / error)
            found[name] = Gain(
                value=value, n=n, ci=(value - z * error, value + z * error), chance=float(chance.mean()), p=p, p_holm=p,
                power=NORMAL.cdf(TO_SEE / error - level),
            )  # fmt: skip
    corrected = holm([one.p for one in found.values()])
    return {
        name: one.model_copy(update={"p_holm": p})
        for (name, one), p in zip(found.items(), corrected, strict=True)
    }
