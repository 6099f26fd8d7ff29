"""Comparison of readers with chance: their gains over chance, and the hits of readers refitted to permuted keys.

Cross-fitted hits have no simple null distribution, so it is estimated by refits (Ojala and Garriga 2010). A ridge
regression is linear in the keys, so that refits for many permutations are solved at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import stdtr, stdtrit

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.judging.stats.intervals import NORMAL, group_sums, mean_error
from robustify.judging.stats.tests import LEVEL, holm
from robustify.judging.summary.model_parts import Gain

TO_SEE = 0.03
"""Gain over chance that an audit should be able to see."""
RIDGE = 50.0
"""Ridge penalty: the artifact probe's logistic penalty, 10, over the variance of a key among four choices, 0.19."""
FEWEST_REFITS = 199
_CELLS = 1 << 26
"""Product of choices and refits above which fewer refits are made."""
_AT_ONCE = 1 << 23


def gains(credits: Mapping[str, Floats], k: Ints, groups: Ints | None = None) -> dict[str, Gain]:
    """Return the gain of each auditor over chance accuracy, 1 / `k`. `credits` (n,) are NaN if unanswered.

    Items of one of `groups` (n,) count together. p-values are one-sided and corrected by Holm over the auditors. `power` is
    that to see 3 points at their joint level.
    """
    answered = {name: mask for name, credit in credits.items() if (mask := ~np.isnan(credit)).any()}
    gains_of = dict[str, Gain]()
    level = NORMAL.inv_cdf(1 - LEVEL / max(1, len(answered)))
    for name, mask in answered.items():
        chance, group = 1 / k[mask], None if groups is None else groups[mask]
        gain, n = credits[name][mask] - chance, len(chance)
        value = float(gain.mean())
        error, df = mean_error(gain - value, group)
        if error < ROUNDING:
            # Credits that are all alike, such as all right, show no spread, so they get that of picks by chance.
            error = float(np.linalg.norm(group_sums(np.sqrt(chance * (1 - chance)), group))) / n
        p, z = float(stdtr(df, -value / error)), float(stdtrit(df, 0.975))
        ci = value - z * error, value + z * error
        power = NORMAL.cdf(TO_SEE / error - level)
        gains_of[name] = Gain(
            value=value, n=n, ci=ci, chance=float(chance.mean()), p=p, p_holm=p, power=power
        )
    corrected = holm([gain.p for gain in gains_of.values()])
    return {
        name: gains_of[name].model_copy(update={"p_holm": p})
        for name, p in zip(gains_of, corrected, strict=True)
    }


@dataclass(frozen=True, eq=False)
class RidgeFits:
    """Cross-fit of ridge regressions to the keys of n items. No part of it depends on the keys.

    `x` (r, f) are the features of the options that could be the key, concatenated over items and centered within each item.
    `size` (n,) is their number, at least 2, and `fold` (n,) is nondecreasing. Ties are broken at random.
    """

    x: Floats
    size: Ints
    fold: Ints
    seed: int

    def hits_by_chance(self, refits: int) -> Ints:
        """Return the number of hits in each of `refits` refits with permuted keys (c,). A large set has fewer refits."""
        refits = int(np.clip(_CELLS // len(self.x), min(FEWEST_REFITS, refits), refits))
        rng, step, hits = np.random.default_rng(self.seed), max(1, _AT_ONCE // len(self.x)), list[Ints]()
        for start in range(0, refits, step):
            uniform = rng.random((len(self.size), min(step, refits - start)))
            hits.append(self.hits((uniform * self.size[:, None]).astype(np.int64)).sum(axis=0))
        return np.concatenate(hits)

    def hits(self, key: Ints) -> Bools:
        """Return whether a fit to all other folds picks each item's key, under each of c assignments of keys (n, c)."""
        key_rows, is_hit = self._starts[:, None] + key, np.zeros(key.shape, dtype=bool)
        sums = []
        for items, rows, _ in self._folds:
            is_key = np.zeros((rows.stop - rows.start, key.shape[1]))
            np.put_along_axis(is_key, key_rows[items] - rows.start, 1.0, axis=0)
            sums.append(self.x[rows].T @ is_key)
        total = np.sum(sums, axis=0)
        for (items, rows, factor), own in zip(self._folds, sums, strict=True):
            # Scores are rounded so that options with equal features tie on any machine.
            scores = np.round(self.x[rows] @ cho_solve(factor, total - own), 9) + self._tiebreak[rows, None]
            first, size = self._starts[items] - rows.start, self.size[items]
            top = scores[first]
            # A loop over options is many times faster than `np.maximum.reduceat` along columns.
            for option in range(1, int(size.max(initial=0))):
                wider = np.flatnonzero(size > option)
                top[wider] = np.maximum(top[wider], scores[first[wider] + option])
            is_hit[items] = np.take_along_axis(scores, key_rows[items] - rows.start, axis=0) >= top
        return is_hit

    @cached_property
    def _starts(self) -> Ints:
        return np.asarray(np.cumsum(self.size) - self.size)

    @cached_property
    def _tiebreak(self) -> Floats:
        return 1e-10 * np.random.default_rng(self.seed).random(len(self.x))

    @cached_property
    def _folds(self) -> list[tuple[slice, slice, Any]]:
        """Items and feature rows of each fold, with the Cholesky factor for a ridge fit on all other folds."""
        edges = [*np.unique(self.fold, return_index=True)[1].tolist(), len(self.fold)]
        rows = [*self._starts[edges[:-1]].tolist(), len(self.x)]
        slices = [(slice(*edges[f : f + 2]), slice(*rows[f : f + 2])) for f in range(len(edges) - 1)]
        products = [self.x[part].T @ self.x[part] for _, part in slices]
        total = sum(products) + RIDGE * np.eye(self.x.shape[1])
        return [(*part, cho_factor(total - own)) for part, own in zip(slices, products, strict=True)]
