"""The filter with a bounded share of false removals: which items of a ranking are shortcuts.

Of each group of near-duplicates or of one passage a representative enters the cut, and the others follow its verdict.
An item that is not flagged, but whose ranking lacks an answer or has no single best option, is undecided.
"""

from dataclasses import dataclass

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.screen.consensus import ROBUST, SHORTCUT, UNDECIDED
from robustify.screen.ranking import Ranking
from robustify.stats.decoys import (
    Cut,
    decoy_cut,
    exact_hits,
    hit_probability,
    hits_per_miss,
    shortcut_probability,
)


@dataclass(frozen=True)
class Decision:
    """The filter's outcome on n items.

    `outcome` (n,) 1 shortcut, 0 robust, -1 undecided. `cut` counts representatives above the cut; under the exact rule
    all that are flagged, without a threshold. `hit` (n,): the top is the key. `posterior`
    (n,) h(W), the probability that the top is the key at this weight; `shortcut` (n,) the probability that an item
    has a shortcut, given that its top is its key; both NaN where there is no top.
    """

    outcome: Ints
    cut: Cut
    hit: Bools
    posterior: Floats
    shortcut: Floats


def flags(ranking: Ranking, key: Ints, q: float, *, exact: bool = False) -> Decision:
    """Flag items so that at most a share `q` of them is there by chance, in expectation; `key` (n,), -1 unknown.

    `exact`: the finite-sample rule (`exact_hits`), for a ranking made without linear probes (`vectors=False`).
    """
    n = len(ranking.items)
    ranked = (ranking.top >= 0) & (key >= 0)
    hit = ranked & (ranking.top == key)
    enter = np.flatnonzero(ranked & (ranking.group == np.arange(n)))
    weight, won, null = ranking.weight[enter], hit[enter], ranking.null[enter]
    rho = hits_per_miss(null)
    flagged = np.zeros(n, dtype=bool)
    if exact:
        names = [ranking.items[i] for i in enter.tolist()]
        chosen, cut = exact_hits(weight, won, rho, ranking.fold[enter], names, q)
        flagged[enter[chosen]] = True
    else:
        cut = decoy_cut(weight, won, rho, q)
        if cut.threshold is not None:
            flagged[enter[won & (weight >= cut.threshold)]] = True
    posterior, shortcut = np.full(n, np.nan), np.full(n, np.nan)
    posterior[ranked] = np.maximum(hit_probability(weight, won, ranking.weight[ranked]), ranking.null[ranked])
    shortcut[ranked] = shortcut_probability(posterior[ranked], ranking.null[ranked])
    settled = ranked & ranking.complete
    outcome = np.where(flagged, SHORTCUT, np.where(settled, ROBUST, UNDECIDED))
    return Decision(outcome[ranking.group], cut, hit, posterior, shortcut)
