"""Whether the filter changed what the benchmark is about: topics before and after, and what chance would do.

Keeping fewer items moves the shares of the topics by itself, so the divergence is read against random
removals of the same size, and each topic against the removal of all. Small topics are counted too.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from robustify.arrays import Bools, Floats, Ints
from robustify.stats.intervals import rate, wilson
from robustify.stats.tests import benjamini_hochberg
from robustify.summary.quantity import Quantity
from robustify.summary.screened import TopicRow, Topics

DRAWS = 1_000


def topics(
    topic_of: Sequence[str], kept: Bools, groups: Ints | None = None, *, draws: int = DRAWS, seed: int = 0
) -> Topics:
    """Each topic before and after, and the divergence of the mix; arguments have one entry an item.

    `groups` of items that hang together widen the interval of a topic's retention.

    A topic's `p`: how often a random removal of as many items keeps a number of its items as unlikely as
    this (hypergeometric, two-sided, exact); `p_bh` bounds the false discovery rate over the topics (Benjamini
    and Hochberg 1995). `kl_nats` is KL(after || before) in nats with Jeffreys smoothing; `kl_null` its mean
    over `draws` random removals (multivariate hypergeometric), `p` the share of them that diverge as much.
    All p and both divergences are None where no item is kept.
    """
    names = sorted(set(map(str, topic_of)))
    place = {name: i for i, name in enumerate(names)}
    index = np.fromiter(map(place.__getitem__, map(str, topic_of)), np.int64, len(topic_of))
    before, after = np.bincount(index, minlength=len(names)), np.bincount(index[kept], minlength=len(names))
    unusual = _unusual(before, after) if after.sum() else None
    p = [None] * len(names) if unusual is None else unusual.tolist()
    adjusted = [None] * len(names) if unusual is None else benjamini_hochberg(unusual.tolist())
    rows = {}
    for t, (name, b, a) in enumerate(zip(names, before.tolist(), after.tolist(), strict=True)):
        ci = (
            wilson(a, b)
            if groups is None
            else rate(kept[index == t].astype(np.float64), groups[index == t]).ci
        )
        retention = Quantity(value=a / b, n=b, ci=ci)
        rows[name] = TopicRow(before=b, after=a, retention=retention, p=p[t], p_bh=adjusted[t])
    return Topics(by_topic=rows, **drift(before, after, draws=draws, seed=seed))


def _unusual(before: Ints, after: Ints) -> Floats:
    """Two-sided exact p of each topic's kept items, (t,): the mass of all counts as unlikely or more so."""
    n, kept = int(before.sum()), int(after.sum())
    low, high = np.maximum(0, kept - (n - before)), np.minimum(before, kept)
    size = high - low + 1
    topic = np.repeat(np.arange(len(before)), size)
    x = np.arange(len(topic)) - np.repeat(np.cumsum(size) - size, size) + low[topic]
    b = before[topic]
    log = _choose(b, x) + _choose(n - b, kept - x) - _choose(n, kept)
    found = log[np.cumsum(size) - size + after - low]
    # The slack takes counts of equal probability, computed apart, as equally unlikely.
    tail = np.where(log <= found[topic] + 1e-7, np.exp(log), 0.0)
    return np.minimum(1.0, np.bincount(topic, weights=tail, minlength=len(before)))


def _choose(n: Ints | int, x: Ints | int) -> Floats:
    return np.asarray(gammaln(np.add(n, 1)) - gammaln(np.add(x, 1)) - gammaln(np.subtract(n, x) + 1))


def drift(before: Ints, after: Ints, *, draws: int = DRAWS, seed: int = 0) -> dict[str, float | None]:
    """KL(after || before), its mean under random removal, how often that reaches it; counts (t,) by topic."""
    n = int(after.sum())
    if n == 0:
        return {"kl_nats": None, "kl_null": None, "p": None}
    found = float(divergence(after, before))
    rng = np.random.default_rng(seed)
    null = divergence(rng.multivariate_hypergeometric(before, n, size=draws, method="marginals"), before)
    reached = int(np.count_nonzero(null >= found - 1e-12))
    return {"kl_nats": found, "kl_null": float(null.mean()), "p": (1 + reached) / (1 + draws)}


def divergence(after: Ints, before: Ints) -> Floats:
    """KL(after || before) in nats of counts (..., t) against counts (t,), each with 0.5 added (Jeffreys)."""
    p, q = _shares(after), _shares(before)
    return np.asarray(np.sum(p * np.log(p / q), axis=-1))


def _shares(counts: Ints) -> Floats:
    return np.asarray((counts + 0.5) / (counts.sum(axis=-1, keepdims=True) + 0.5 * counts.shape[-1]))
