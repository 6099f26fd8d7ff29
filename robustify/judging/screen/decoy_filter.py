"""Filter that limits the share of flags due to chance. It sets a cutoff in the ranking of items (docs/filter.md).

Every wrong option is a decoy. In an item without a shortcut, the option that a question-free scorer likes best is the
key with a known probability c, so that hits by chance are estimated from misses. The cutoff is Selective SeqStep+
(Barber and Candes 2015, section 4; in competitions with c other than 1/2: Emery et al. 2019, arXiv 1907.01458). Every
item counts, because questions that share their options may have different keys. Copies and other families are hits or
misses together, so that its margin is a family.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import betainc, expit, logit

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, coded
from robustify.judging.screen.certainty import shortcut_if_hit
from robustify.judging.screen.ranking import Ranking
from robustify.judging.screen.votes import FLAGGED, KEPT, UNDECIDED
from robustify.judging.stats.intervals import Interval, Rate, group_sums

_NO_HIT = Rate(None, 0, None)
PRIOR, PENALTY = np.array([-1.0, 1.5]), 0.1
"""Intercept and slope of Platt's scaling without data, and the ridge penalty on the distance from them."""
_LEAST, _DECIMALS = 0.002, 2
"""Smallest distance of a probability from 0 and 1 before its logit is taken, and decimals of the logit. Items of equal
logits are counted together, so that the fit does not grow with them."""


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Cutoff of a ranking of `n` items, with the numbers of hits and misses above it. Their strength is at
    least `threshold` (None: no item is above).

    `decoys` D is the number of chance hits that the misses represent, plus a safety margin of `margin` misses.
    `false_share` D / H is the share of hits due to chance, at most the requested q. `groups` is the number of
    independent groups of items if it is too small for any cutoff, and otherwise None.
    """

    n: int
    threshold: float | None = None
    hits: int = 0
    misses: int = 0
    decoys: float = 0.0
    false_share: Rate = _NO_HIT
    groups: int | None = None
    margin: float = 1.0


def hits_per_miss(null: Floats) -> Floats:
    """Return the number of chance hits expected per miss: rho = c / (1 - c). A hit has the probability c (n,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(null < 1, null / (1 - null), np.inf))


def lowest_cutoff(
    strength: Floats, hit: Bools, rho: Floats, q: float, independent: int | None = None, margin: float = 1.0
) -> Cutoff:
    """Return the lowest cutoff at which the estimated share of chance hits, D / H, is at most q. Arrays are
    (n,). Ties are never split.

    D is the largest rho times `margin`, plus the sum of rho over the misses above. The false discovery rate is at most q in
    finite samples if all rho are equal and the ranking was made without these items' keys (Barber and Candes 2015, theorem
    3). For unequal rho, the same follows at a fixed cutoff, but only simulations show it at the selected one. A cutoff
    needs rho / q hits. If items repeat each other, their hits are one, so that fewer `independent` groups (by default,
    items) allow no cutoff. If families of m items are hits or misses together, the proof holds for families, with a margin
    of m misses.
    """
    n = len(strength)
    if not n:
        return Cutoff(0)
    if independent is not None and independent < min(np.ceil(rho.max() / q - ROUNDING), n):
        return Cutoff(n, groups=independent, margin=margin)
    start_decoys = margin * float(rho.max())
    order = np.argsort(-strength, kind="stable").astype(np.int32)
    last = np.append(np.diff(strength[order]) < 0, True)
    is_hit = hit[order]
    hits = np.cumsum(is_hit, dtype=np.int32)
    decoys = np.where(is_hit, 0.0, rho[order])
    decoys = np.cumsum(decoys, out=decoys)
    decoys += start_decoys
    cuts = np.flatnonzero(last & (hits > 0) & (decoys <= q * hits + ROUNDING))
    if not len(cuts):
        return Cutoff(n, decoys=start_decoys, margin=margin)
    cut = int(cuts[-1])
    n_hits, n_decoys = int(hits[cut]), float(decoys[cut])
    misses = cut + 1 - n_hits
    ratio = (n_decoys - start_decoys) / misses if misses else float(rho[order[: cut + 1]].mean())
    share = Rate(min(1.0, n_decoys / n_hits), n_hits, false_share_interval(n_hits, misses, ratio, margin))
    return Cutoff(n, float(strength[order[cut]]), n_hits, misses, n_decoys, share, margin=margin)


def false_share_interval(hits: int, misses: int, rho: float, family: float = 1.0) -> Interval:
    """Return a 95 % interval of the share of `hits` due to chance, if each miss represents `rho` chance hits.

    Hits without a shortcut have probability c = rho / (1 + rho), so those before a number of misses are negative binomial.
    The limits are its quantiles for this many misses, and for one more, counted in families of `family` items. It is valid
    for a cutoff fixed in advance.
    """
    if not hits:
        return 0.0, 1.0
    c = rho / (1 + rho)
    low = family * _negative_binomial(0.025, misses / family, c) if misses else 0
    high = family * _negative_binomial(0.975, misses / family + 1, c)
    return min(1.0, low / hits), min(1.0, high / hits)


def _negative_binomial(level: float, misses: float, c: float) -> int:
    """Return the `level` quantile of the number of successes (of probability c) before the given number of misses."""
    if c >= 1:
        return 1 << 31
    return bisect_left(range(1 << 31), level, key=lambda v: float(betainc(misses, v + 1, 1 - c)))


@dataclass(frozen=True, repr=False)
class FilterDecision:
    """Outcome of the filter on each item (n,): 1 flagged, 0 kept or -1 undecided.

    `would` (n, K) marks the option for which the item would be flagged if it were the key, and `open` (n, K) those for
    which a missing answer could still flag it, or for which this is unknown. `hit` (n,) marks items whose top is the
    key (n,) in the `ranking`.
    """

    outcome: Ints
    cutoff: Cutoff
    would: Bools
    open: Bools
    hit: Bools
    ranking: Ranking
    key: Ints

    @cached_property
    def posterior(self) -> Floats:
        """Calibrated probability that the top option is the key, fitted on other folds (n,). NaN without a top."""
        return hit_probability(self.ranking, *_entered(self.ranking, self.key))

    @cached_property
    def shortcut(self) -> Floats:
        """Probability that the item has a shortcut, NaN unless the top option is the key (n,)."""
        return np.where(self.hit, shortcut_if_hit(self.posterior, self.ranking.null), np.nan)


def hit_probability(ranking: Ranking, ranked: Bools, hit: Bools, enter: Ints) -> Floats:
    """Return the calibrated probability that the top option is the key (n,), fitted on the other folds. NaN without a
    top. The masks and indices are those of `_entered`."""
    share = np.full(len(hit), np.nan)
    cells = Cells.of(ranking.probable[enter], hit[enter], ranking.null[enter])
    for f in np.flatnonzero(np.bincount(ranking.fold)).tolist():
        # An item's own hit must not affect the probability of its shortcut.
        in_fold = ranked & (ranking.fold == f)
        share[in_fold] = shortcut_share(cells, ranking.fold[enter] != f, ranking.probable[in_fold])
    return share + (1 - share) * ranking.null


def family_size(ranking: Ranking, ranked: Bools, hit: Bools, enter: Ints) -> float:
    """Return the number of items that are hits or misses together. It is the design effect of the hits beyond their
    probability over the families, or the size of families that nothing pairs, if it is larger. At least 1."""
    residual = (hit - hit_probability(ranking, ranked, hit, enter))[enter]
    residual = residual[is_known := ~np.isnan(residual)]
    square = float(residual @ residual)
    sums = group_sums(residual, ranking.families[enter][is_known])
    return max(1.0, ranking.unpaired, float(sums @ sums) / square if square else 1.0)


def flags(ranking: Ranking, key: Ints, q: float) -> FilterDecision:
    """Flag items so that the expected share of flags due to chance is at most `q`. `key` (n,) is -1 if unknown."""
    n, (ranked, hit, enter) = len(key), _entered(ranking, key)
    margin = family_size(ranking, ranked, hit, enter)
    rho = hits_per_miss(ranking.null[enter])
    cutoff = lowest_cutoff(ranking.strength[enter], hit[enter], rho, q, ranking.independent, margin)
    above = ranked & (ranking.strength >= (np.inf if cutoff.threshold is None else cutoff.threshold))
    would = above[:, None] & (np.arange(ranking.width) == ranking.top[:, None])
    # Without a cutoff, a missing answer could have created one.
    is_open = ((ranking.reachable >= (cutoff.threshold or 0.0)) | (ranking.null >= 1)[:, None]) & ~would
    is_open |= cutoff.groups is not None
    is_unsettled = is_open[np.arange(n), np.maximum(key, 0)] | (key < 0)
    outcome = np.where(above & hit, FLAGGED, np.where(is_unsettled, UNDECIDED, KEPT))
    return FilterDecision(outcome.astype(np.int8), cutoff, would, is_open, hit, ranking, key)


@dataclass(frozen=True, repr=False)
class Cells:
    """Items (n,) in cells of equal x, the rounded logit of the scorer's probability, and nearly equal c, `null`."""

    cell: Ints
    x: Floats
    c: Floats
    hit: Bools

    @classmethod
    def of(cls, probable: Floats, hit: Bools, null: Floats) -> "Cells":
        """Put items into cells by the scorer's probabilities of their top options, and by `null`, each (n,)."""
        x, c = np.round(_logits(probable), _DECIMALS), np.minimum(null, 1 - _LEAST)
        return cls(coded(x + 1e3 * np.round(c, 6))[1], x, c, hit)


def shortcut_share(cells: Cells, fitted: Bools, probability: Floats) -> Floats:
    """Estimate the share s of shortcuts among items with the scorer's probabilities `probability` (m,).

    Of such items, s + (1 - s) c are hits. The scorer's probabilities are too even, so s is logistic in the logit of its
    probability (Platt 1999), which is steadier than an isotonic fit. The intercept and the slope, at least 0, are
    fitted to the hits of the items `fitted` (n,) by maximum likelihood with a ridge penalty.
    """
    cell = cells.cell[fitted]
    n = np.bincount(cell)
    filled = np.flatnonzero(n)
    sums = (np.bincount(cell, values[fitted]) for values in (cells.x, cells.c, cells.hit))
    x, c, hits = (of_cell[filled].astype(np.float64) for of_cell in sums)
    n = n[filled]
    x, c, misses = x / n, c / n, n - hits

    def loss(beta: Floats) -> tuple[float, Floats]:
        s = expit(beta[0] + beta[1] * x)
        p_hit = c + (1 - c) * s
        log_l = hits @ np.log(p_hit) + misses @ np.log1p(-np.minimum(s, 1 - 1e-12))
        gradient = hits * (1 - c) * s * (1 - s) / p_hit - misses * s
        off = beta - PRIOR
        return PENALTY / 2 * float(off @ off) - float(log_l), PENALTY * off - [gradient.sum(), gradient @ x]

    fit = minimize(loss, PRIOR, jac=True, method="L-BFGS-B", bounds=[(None, None), (0, None)])
    return np.asarray(expit(fit.x[0] + fit.x[1] * _logits(probability)))


def _logits(probable: Floats) -> Floats:
    return np.asarray(logit(np.clip(probable, _LEAST, 1 - _LEAST)))


def cutoffs(ranking: Ranking, key: Ints, shares: Sequence[float]) -> list[Cutoff]:
    """Return the cutoff for each requested false share. `key` is (n,)."""
    ranked, hit, enter = _entered(ranking, key)
    # What is sorted once is sorted fast again.
    enter = enter[np.argsort(-ranking.strength[enter], kind="stable")]
    rho = hits_per_miss(ranking.null[enter])
    margin, strength = family_size(ranking, ranked, hit, enter), ranking.strength[enter]
    return [lowest_cutoff(strength, hit[enter], rho, q, ranking.independent, margin) for q in shares]


def _entered(ranking: Ranking, key: Ints) -> tuple[Bools, Bools, Ints]:
    """Return which items are ranked, which of these are hits, and the indices of the items that count for the cutoff."""
    # If positions alone always give the key, no answer can be distinguished from chance.
    ranked = (ranking.top >= 0) & (key >= 0) & (ranking.null < 1)
    return ranked, ranked & (ranking.top == key), np.flatnonzero(ranked).astype(np.int32)
