"""What the filter changed beside chance: accuracy and topics against random removals of as many items.

Keeping fewer items moves accuracy and the shares of the topics by itself, so both are read against random removals of
the same size, accuracy also against what the voters' shared errors give. Small topics are counted too.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

from robustify.arrays import Bools, Floats, Ints, numbered
from robustify.judge.accuracy import Credits, Parts, ratio_gap
from robustify.stats.distributions import LEAST_LATTICE_P, central, removal, total
from robustify.stats.intervals import clusters, rate, resampled, wilson
from robustify.stats.tests import LEVEL, Difference, benjamini_hochberg, detectable
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import ByDecoys, RandomRemoval
from robustify.summary.screened import TopicRow, Topics

FEWEST_DECOYS = 10
"""Flagged items and decoys below which they are not compared."""
_FINEST = 5040
"""Parts of a credit that the sums of credits are counted in, at most; a finer credit is rounded."""
DRAWS = 1_000


def random_removal(
    credits: Credits, parts: Parts, pick: Ints | None = None, *, is_voter: bool | None = None
) -> RandomRemoval | None:
    """What random removals of as many items of each topic leave: the exact distribution.

    Measured on `full`, else on cloze by characters; None where neither was asked or nothing is kept.
    `percentile` (0 to 100): the share of removals that leave an accuracy no higher than the one on Robust;
    `p`: how often they leave one as far out on its side, doubled; `mde`: where p is above
    0.05, the difference that 80 % power would detect, None where no removal changes anything. What a voter
    scores on Robust is low by selection, which no random removal shows.

    The removals know nothing of the answers. A model that errs as the voters do is right where chance flagged an
    item, so on a set without a shortcut it falls too, and p calls it a fall. `by_decoys` does not: see there. `pick`
    (n,) is what it picked on `full`, below 0 where that is not known.
    """
    view = next((v for v in ("full", "cloze_chars") if credits.get(v) is not None), None)
    won = credits.get(view) if view is not None else None
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
        by_decoys=by_decoys(won, pick, parts) if pick is not None and view == "full" else None,
    )


def by_decoys(won: Floats, pick: Ints, parts: Parts) -> ByDecoys | None:
    """Accuracy on the flagged items against what it were, had chance flagged them all.

    Decoys are items on which the voters agree on a wrong option: as many stand for each flag by chance as for any other
    option, so they show how the model answers where the voters guess alike. It picks their option with frequency f. It
    knows the key with frequency a = P(key) - P(another option) / (k - 2), because what it guesses otherwise falls on
    the key as often as on any other option. Where such an agreement falls on the key it is right with a + f. `won` and
    `pick` (n,). A decoy weighs 1 / (k - 1), the flags by chance that it stands for. The error is that of an item (or
    group) bootstrap with Student's t. Items of two options have no third one and are left out; None below 10 flagged
    items, decoys, or groups of them.
    """
    if parts.agreed is None or parts.k is None:
        return None
    here = (parts.agreed >= 0) & (parts.k >= 3) & (pick >= 0) & ~np.isnan(won)
    hit, agreed, k = parts.shortcut[here], parts.agreed[here], parts.k[here]
    right, weight = won[here], np.where(hit, 0.0, 1 / (k - 1))
    expected = np.where((right == 1) | (pick[here] == agreed), 1.0, -1 / (k - 2))
    groups = None if parts.groups is None else parts.groups[here]
    sides = [clusters(int(m.sum()), None if groups is None else groups[m]) for m in (hit, ~hit)]
    if min(sides) < FEWEST_DECOYS:
        return None
    table = np.column_stack([hit * right, hit, weight * expected, weight])
    draws = resampled(table, groups)
    with np.errstate(invalid="ignore"):
        drawn, alone = float(np.nanstd(ratio_gap(draws))), float(np.nanstd(draws[:, 2] / draws[:, 3]))
    # Where nearly all are right too little varies: on either side one item more may have gone the other way.
    error = math.hypot(drawn, *(1 / (side + 2) for side in sides))
    found, by_chance = float(right[hit].mean()), float(np.average(expected, weights=weight))
    off, t = found - by_chance, float(stdtrit(min(sides) - 1, 0.975))
    half = t * math.hypot(alone, 1 / (sides[1] + 2))
    gap = Difference(off, len(right), (off - t * error, off + t * error), error)
    return ByDecoys(
        flagged=Quantity.of(rate(right[hit], None if groups is None else groups[hit])),
        expected=Quantity(value=by_chance, n=int((~hit).sum()), ci=(by_chance - half, by_chance + half)),
        difference=DifferenceQuantity.from_stats(gap),
        p=float(2 * stdtr(min(sides) - 1, -abs(off) / error)),
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
