"""What the filter changed beside chance: accuracy and topics against random removals of as many items.

Keeping fewer items moves accuracy and the shares of the topics by itself, so both are read against random removals of
the same size, accuracy also against what the voters' shared errors give. Small topics are counted too.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from scipy.special import gammaln

from robustify.arrays import Bools, Floats, Ints, numbered
from robustify.judging.accuracy import Credits
from robustify.judging.context import UNNAMED, Context, Parts
from robustify.stats.distributions import LEAST_LATTICE_P, central, removal, total
from robustify.stats.intervals import rate, wilson
from robustify.stats.tests import LEVEL, benjamini_hochberg, detectable
from robustify.summary.quantity import Quantity
from robustify.summary.scored import RandomRemoval
from robustify.summary.screened import TopicRow, Topics

_FINEST = 5040
"""Parts of a credit that the sums of credits are counted in, at most; a finer credit is rounded."""
DRAWS = 1_000


def random_removals(ctx: Context, credits: Mapping[str, Credits]) -> dict[str, RandomRemoval] | None:
    """Return each model's accuracy on Robust against random removals; None if no model has one."""
    found = {
        name: random_removal(credits[name], ctx.parts, is_voter=name in ctx.votes.voters)
        for name in ctx.names
    }
    return {name: row for name, row in found.items() if row is not None} or None


def topic_table(ctx: Context) -> Topics | None:
    """Return the topics before and after the filter; None if no item has a topic."""
    if not any(ctx.facts.topics.values()):
        return None
    return topics([name or UNNAMED for name in ctx.topic_of], ctx.parts.robust, ctx.parts.groups)


def random_removal(credits: Credits, parts: Parts, *, is_voter: bool | None = None) -> RandomRemoval | None:
    """Return what random removals of as many items of each topic leave of `full`, else of cloze: the exact distribution.

    None if neither was asked or nothing is kept. `p`: how often they leave an accuracy as far out on its side, doubled.
    They know nothing of the answers: a voter, or a model that errs as the voters do, falls by selection alone.
    """
    view = "cloze_chars" if credits.get("full") is None else "full"
    won = credits.get(view)
    if won is None:
        return None
    inside = ~np.isnan(won) & (parts.cloze if view == "cloze_chars" else True)
    kept = inside & parts.robust
    if not kept.any():
        return None
    unit, credit = _counted(won, inside)
    by_topic = [
        (inside & (parts.topic == name), kept & (parts.topic == name))
        for name in np.unique(parts.topic[kept])
    ]
    first, mass = total(removal(credit[of], int(stay.sum())) for of, stay in by_topic)
    sums, here = first + np.arange(len(mass)), int(credit[kept].sum())
    at_most, at_least = float(mass[sums <= here].sum()), float(mass[sums >= here].sum())
    p = min(1.0, max(LEAST_LATTICE_P, 2 * min(at_most, at_least)))
    scale = unit * int(kept.sum())
    mean = float(sums @ mass) / scale
    error = math.sqrt(max(0.0, float((sums / scale - mean) ** 2 @ mass)))
    low, high = ((first + end) / scale for end in central(mass))
    return RandomRemoval(
        view=view,
        is_voter=is_voter,
        robust=Quantity.of(rate(won[kept], None if parts.groups is None else parts.groups[kept])),
        mean=mean,
        ci=(low, high),
        percentile=min(100.0, 100 * at_most),
        p=p,
        mde=detectable(error) if p > LEVEL and len(mass) > 1 else None,
    )


def _counted(won: Floats, inside: Bools) -> tuple[int, Ints]:
    """Credits (n,) as whole numbers of a unit, 1 / the first number."""
    values = np.unique(won[inside]).tolist()
    unit = min(math.lcm(*(Fraction(x).limit_denominator(64).denominator for x in values)), _FINEST)
    return unit, np.rint(np.where(inside, won, 0.0) * unit).astype(np.int64)


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
    names, index = numbered(list(map(str, topic_of)))
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
