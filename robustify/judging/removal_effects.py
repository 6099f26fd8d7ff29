"""Effect of the filter on accuracy and topics, compared with random removal of the same number of items. The kept
shares are permuted among groups of similar size, because items of a passage are removed together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtr

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, numbered
from robustify.judging.accuracy import Credits
from robustify.judging.context import UNNAMED, Parts
from robustify.judging.stats.intervals import (
    NORMAL,
    Interval,
    clusters,
    effective_size,
    rate,
    unit_index,
    wilson,
)
from robustify.judging.stats.tests import benjamini_hochberg
from robustify.judging.summary.model_parts import RandomRemoval
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.screen_parts import TopicRow, Topics

DRAWS = 1_000


@dataclass(frozen=True)
class Removal:
    """Random removal of the same number of items as the filter removed. It permutes the kept shares among groups
    of similar size. `group` (n,) is the group of each item. `size`, `share` and `stratum` (groups of similar size) are
    (g,)."""

    group: Ints
    size: Ints
    share: Floats
    stratum: Ints

    @classmethod
    def from_kept(cls, kept: Bools, groups: Ints | None = None, strata: Ints | None = None) -> "Removal":
        """Build the random removal for the kept items (n,). A group belongs to the stratum (n,) of its first item."""
        n = len(kept)
        group = unit_index(n, groups)
        size = np.bincount(group)
        stratum = np.zeros(len(size), dtype=np.int64)
        stratum[group[::-1]] = np.zeros(n, dtype=np.int64) if strata is None else strata[::-1]
        size_class = np.log2(np.maximum(size, 1)).astype(np.int64)
        return cls(group, size, np.bincount(group, weights=kept) / size, stratum * 64 + size_class)

    def moments(self, values: Floats) -> tuple[float, float]:
        """Return the mean and variance, over random removals, of the sum of `values` (n,) on the kept items."""
        stratum = np.unique(self.stratum, return_inverse=True)[1]
        n = np.bincount(stratum)

        def mean(x: Floats | Ints) -> Floats:
            return np.asarray(np.bincount(stratum, weights=x) / n)

        sums = np.asarray(np.bincount(self.group, weights=values), dtype=np.float64)
        square = np.bincount(self.group, weights=(values - (sums / self.size)[self.group]) ** 2)
        within = (
            square * self.size / np.maximum(self.size - 1, 1) * mean(self.share * (1 - self.share))[stratum]
        )
        between = mean((sums - mean(sums)[stratum]) ** 2) * mean(
            (self.share - mean(self.share)[stratum]) ** 2
        )
        variance = float(within.sum() + (between * n**2 / np.maximum(n - 1, 1)).sum())
        return float(sums @ mean(self.share)[stratum]), variance

    def counts(self, index: Ints, draws: int, seed: int) -> Floats:
        """Count the items of each category that random removals keep (draws, t). `index` (n,) has the items' categories."""
        rng, kinds = np.random.default_rng(seed), int(index.max()) + 1
        places = [np.flatnonzero(self.stratum == s) for s in np.unique(self.stratum)]
        out, shuffled = np.empty((draws, kinds)), self.share.copy()
        for row in out:
            for place in places:
                shuffled[place] = rng.permutation(self.share[place])
            row[:] = np.bincount(index, weights=shuffled[self.group], minlength=kinds)
        return out


def random_removal(credits: Credits, parts: Parts, *, is_voter: bool | None = None) -> RandomRemoval | None:
    """Return the accuracy on the kept items and on random subsets with the same number of items from each topic. Return
    None if unknown.

    The measure is `full`, or cloze if `full` was not asked. It is not a test, because the accuracy of a voter, or of a
    model with similar errors, falls by selection alone.
    """
    view = "cloze_chars" if credits.get("full") is None else "full"
    credit = credits.get(view)
    if credit is None:
        return None
    fit = ~np.isnan(credit) & (parts.cloze if view == "cloze_chars" else True)
    kept = parts.kept[fit]
    if not kept.any():
        return None
    groups, credit = None if parts.groups is None else parts.groups[fit], credit[fit]
    removal = Removal.from_kept(kept, groups, parts.topic[fit])
    mean = removal.moments(credit)[0] / float(kept.sum())
    # If groups differ in size, the number kept varies too, so use the sum of deviations from the mean.
    error = math.sqrt(removal.moments(credit - mean)[1]) / float(kept.sum())
    measured = rate(credit[kept], None if groups is None else groups[kept])
    # Continuity correction of half a credit.
    step = 0.5 / float(kept.sum())
    excess, half = (measured.value or 0.0) - mean + step, NORMAL.inv_cdf(0.975) * error + step
    return RandomRemoval(
        view=view,
        is_voter=is_voter,
        kept=Quantity.from_rate(measured),
        mean=mean,
        ci=(max(0.0, mean - half), min(1.0, mean + half)) if error else (mean, mean),
        percentile=100 * float(ndtr(excess / error)) if error else 100.0,
    )


def topics(
    topic_of: Sequence[str], kept: Bools, groups: Ints | None = None, *, draws: int = DRAWS, seed: int = 0
) -> Topics:
    """Compare the topics before and after the filter, and measure how far their mix shifted. `topic_of` (n,)
    is "" without one.

    A topic's `p` is the two-sided probability that random removal keeps a number of its items as unlikely as the
    observed one: exact (hypergeometric), or estimated by `draws` removals if there are groups. `p_bh` is adjusted
    (Benjamini and Hochberg 1995). `units` is the effective number of items of a topic, or its number of groups if they
    are few. All p-values and divergences (`mix_drift`) are None if no item is kept.
    """
    names, index = numbered([str(name) or UNNAMED for name in topic_of])
    before, after = np.bincount(index, minlength=len(names)), np.bincount(index[kept], minlength=len(names))
    removal = Removal.from_kept(kept, groups) if clusters(len(kept), groups) < len(kept) else None
    null = removal.counts(index, draws, seed) if removal is not None and after.any() else None
    p: Sequence[float | None] = [None] * len(names)
    adjusted = p
    if after.any():
        if null is None:
            p_values = _unusual(before, after)
        else:
            mean = null.mean(axis=0)
            n_extreme = np.count_nonzero(np.abs(null - mean) >= np.abs(after - mean) - ROUNDING, axis=0)
            p_values = ((1 + n_extreme) / (1 + len(null))).tolist()
        p, adjusted = p_values, benjamini_hochberg(p_values)
    rows = {}
    for t, (name, b, a) in enumerate(zip(names, before.tolist(), after.tolist(), strict=True)):
        ci: Interval | None = wilson(a, b)
        units: float | None = None
        if groups is not None and removal is not None:
            own, credit = groups[index == t], kept[index == t].astype(np.float64)
            ci = rate(credit, own).ci
            units = effective_size(credit, own) or clusters(b, own)
        retention = Quantity(value=a / b, n=b, ci=ci)
        rows[name] = TopicRow(before=b, after=a, retention=retention, p=p[t], p_bh=adjusted[t], units=units)
    return Topics(by_topic=rows, **mix_drift(before, after, null, draws=draws, seed=seed))


def _unusual(before: Ints, after: Ints) -> list[float]:
    """Return the exact two-sided p-value of each topic's kept count: the probability of counts no likelier than it (t,)."""
    n, kept = int(before.sum()), int(after.sum())
    p = []
    for b, a in zip(before.tolist(), after.tolist(), strict=True):
        x = np.arange(max(0, kept - (n - b)), min(b, kept) + 1)
        log = _choose(b, x) + _choose(n - b, kept - x) - _choose(n, kept)
        # The slack makes counts of equal probability compare as equal despite rounding.
        tail = np.where(log <= log[x == a] + 1e-7, np.exp(log), 0.0)
        p.append(min(1.0, float(tail.cumsum()[-1])))
    return p


def _choose(n: Ints | int, x: Ints | int) -> Floats:
    return np.asarray(gammaln(np.add(n, 1)) - gammaln(np.add(x, 1)) - gammaln(np.subtract(n, x) + 1))


def mix_drift(
    before: Ints, after: Ints, null: Floats | None = None, *, draws: int = DRAWS, seed: int = 0
) -> dict[str, float | None]:
    """Measure how far the topic mix shifted by KL(after || before), with its mean and p-value under random removal.
    `null` (draws, t) are counts after random removals, by default of independent items (multivariate hypergeometric)."""
    n = int(after.sum())
    if n == 0:
        return {"kl_nats": None, "kl_null": None, "p": None}
    if null is None:
        rng = np.random.default_rng(seed)
        null = rng.multivariate_hypergeometric(before, n, size=draws, method="marginals").astype(np.float64)
    kl, null_kl = float(divergence(after, before)), divergence(null, before)
    n_extreme = int(np.count_nonzero(null_kl >= kl - ROUNDING))
    return {"kl_nats": kl, "kl_null": float(null_kl.mean()), "p": (1 + n_extreme) / (1 + len(null_kl))}


def divergence(after: Ints | Floats, before: Ints) -> Floats:
    """Return the divergence KL(after || before) of two topic mixes in nats, with 0.5 added to each count (Jeffreys)."""

    def shares(counts: Ints | Floats) -> Floats:
        return np.asarray((counts + 0.5) / (counts.sum(axis=-1, keepdims=True) + 0.5 * counts.shape[-1]))

    p, q = shares(after), shares(before)
    return np.asarray(np.sum(p * np.log(p / q), axis=-1))
