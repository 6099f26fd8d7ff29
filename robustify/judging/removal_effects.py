"""Effect of the filter on accuracy and topics, compared with random removal of as many items. The kept shares
are permuted among groups of similar size, because items of a passage are removed together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtr

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, numbered
from robustify.judging.accuracy import Credits
from robustify.judging.context import UNNAMED, Parts
from robustify.judging.stats.intervals import NORMAL, Interval, clusters, effective_size, rate, wilson
from robustify.judging.stats.tests import benjamini_hochberg
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.scored import RandomRemoval
from robustify.judging.summary.screened import TopicRow, Topics

DRAWS = 1_000


@dataclass(frozen=True)
class Removal:
    """Random removal of as many items as the filter removed. It permutes the kept shares among groups of similar size.
    `group` (n,) is the group of each item. `size`, `share` and `stratum` (groups of similar size) are (g,)."""

    group: Ints
    size: Ints
    share: Floats
    stratum: Ints

    @classmethod
    def of(cls, kept: Bools, groups: Ints | None = None, strata: Ints | None = None) -> "Removal":
        """Build the random removal for the kept items (n,). A group belongs to the stratum (n,) of its first item."""
        n = len(kept)
        own, group = np.unique(np.arange(n) if groups is None else groups, return_inverse=True)
        size = np.bincount(group, minlength=len(own))
        of = np.zeros(len(own), dtype=np.int64)
        of[group[::-1]] = np.zeros(n, dtype=np.int64) if strata is None else strata[::-1]
        doubled = np.log2(np.maximum(size, 1)).astype(np.int64)
        return cls(group, size, np.bincount(group, weights=kept) / size, of * 64 + doubled)

    def moments(self, values: Floats) -> tuple[float, float]:
        """Return the mean and variance of the sum of the kept items' `values` (n,) over random removals."""
        of = np.unique(self.stratum, return_inverse=True)[1]
        n = np.bincount(of)

        def mean(x: Floats | Ints) -> Floats:
            return np.asarray(np.bincount(of, weights=x) / n)

        sums = np.asarray(np.bincount(self.group, weights=values), dtype=np.float64)
        apart = np.bincount(self.group, weights=(values - (sums / self.size)[self.group]) ** 2)
        within = apart * self.size / np.maximum(self.size - 1, 1) * mean(self.share * (1 - self.share))[of]
        between = mean((sums - mean(sums)[of]) ** 2) * mean((self.share - mean(self.share)[of]) ** 2)
        variance = float(within.sum() + (between * n**2 / np.maximum(n - 1, 1)).sum())
        return float(sums @ mean(self.share)[of]), variance

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
    """Return the accuracy on kept items compared with random removals of as many items of each topic, or None if unknown.

    The measure is `full`, or cloze if `full` was not asked. It is not a test, because the accuracy of a voter, or of a
    model with similar errors, falls by selection alone.
    """
    view = "cloze_chars" if credits.get("full") is None else "full"
    won = credits.get(view)
    if won is None:
        return None
    inside = ~np.isnan(won) & (parts.cloze if view == "cloze_chars" else True)
    kept = parts.kept[inside]
    if not kept.any():
        return None
    groups, won = None if parts.groups is None else parts.groups[inside], won[inside]
    removal = Removal.of(kept, groups, parts.topic[inside])
    mean = removal.moments(won)[0] / float(kept.sum())
    # If groups differ in size, the number kept varies too, so use the sum of deviations from the mean.
    error = math.sqrt(removal.moments(won - mean)[1]) / float(kept.sum())
    found = rate(won[kept], None if groups is None else groups[kept])
    # Continuity correction of half a credit.
    step = 0.5 / float(kept.sum())
    beyond, half = (found.value or 0.0) - mean + step, NORMAL.inv_cdf(0.975) * error + step
    return RandomRemoval(
        view=view,
        is_voter=is_voter,
        kept=Quantity.of(found),
        mean=mean,
        ci=(max(0.0, mean - half), min(1.0, mean + half)) if error else (mean, mean),
        percentile=100 * float(ndtr(beyond / error)) if error else 100.0,
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
    removal = Removal.of(kept, groups) if clusters(len(kept), groups) < len(kept) else None
    null = removal.counts(index, draws, seed) if removal is not None and after.any() else None
    p: Sequence[float | None] = [None] * len(names)
    adjusted = p
    if after.any():
        if null is None:
            found = _unusual(before, after)
        else:
            mean = null.mean(axis=0)
            reached = np.count_nonzero(np.abs(null - mean) >= np.abs(after - mean) - ROUNDING, axis=0)
            found = ((1 + reached) / (1 + len(null))).tolist()
        p, adjusted = found, benjamini_hochberg(found)
    rows = {}
    for t, (name, b, a) in enumerate(zip(names, before.tolist(), after.tolist(), strict=True)):
        ci: Interval | None = wilson(a, b)
        units: float | None = None
        if groups is not None and removal is not None:
            here, credit = groups[index == t], kept[index == t].astype(np.float64)
            ci, units = rate(credit, here).ci, effective_size(credit, here) or clusters(b, here)
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
    found, by_chance = float(divergence(after, before)), divergence(null, before)
    reached = int(np.count_nonzero(by_chance >= found - ROUNDING))
    return {"kl_nats": found, "kl_null": float(by_chance.mean()), "p": (1 + reached) / (1 + len(by_chance))}


def divergence(after: Ints | Floats, before: Ints) -> Floats:
    """Return the divergence KL(after || before) of two topic mixes in nats, with 0.5 added to each count (Jeffreys)."""

    def shares(counts: Ints | Floats) -> Floats:
        return np.asarray((counts + 0.5) / (counts.sum(axis=-1, keepdims=True) + 0.5 * counts.shape[-1]))

    p, q = shares(after), shares(before)
    return np.asarray(np.sum(p * np.log(p / q), axis=-1))
