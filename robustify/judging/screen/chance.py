"""Flags expected under the null, and the share of flags that is due to chance.

The null hypothesis is exchangeable keys: if any other option had been the key, would the same answers have flagged the
item? Voters share errors, so chance is not a product of 1/k. This count assumes nothing about their correlation. If voters
could see positions, a key is as likely at a position as the benchmark's keys are, because positions reveal nothing about
the choices.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.judging.screen.item_index import KeyPositions, key_shares
from robustify.judging.stats.distributions import central, poisson_binomial, upper_tail
from robustify.judging.stats.intervals import (
    FEWEST_CLUSTERS,
    Interval,
    Rate,
    clopper_pearson,
    clusters,
    interval,
    rate,
    resampled,
    wilson,
)

_Z2 = NormalDist().inv_cdf(0.975) ** 2
_NO_RATE = Rate(None, 0, None)


@dataclass(frozen=True, slots=True)
class Chance:
    """Number of flags on `n` items, compared with the number expected by chance. Results are None if no item counts.

    `expected` has the central 95 % of its distribution, and `p` is the probability of at least as many flags. `excess` and
    `latent` are shares of the items with item-bootstrap intervals, which are None below 10 items or groups. `latent` is
    None if two options of an item would be flagged. `by_position` is the same under a null that knows the positions of the
    keys, or None if no voter could see positions.
    """

    n: int = 0
    flagged: int = 0
    share: Rate = _NO_RATE
    false_share: Rate = _NO_RATE
    expected: float = 0.0
    expected_ci: Interval = (0.0, 0.0)
    p: float | None = None
    excess: float | None = None
    excess_ci: Interval | None = None
    latent: float | None = None
    latent_ci: Interval | None = None
    by_position: "Chance | None" = None
    positions: KeyPositions | None = None

    @property
    def deciding(self) -> "Chance":
        """Comparison that decides: the one that uses key positions if voters could see positions, otherwise this one."""
        return self if self.by_position is None else self.by_position


def chance(
    flagged: Bools, would: Bools, k: Ints, groups: Ints | None = None, by_position: Ints | None = None
) -> Chance:
    """Compare the flags of a filter with those expected under the null.

    `would` (n, K) marks the options that would be flagged if they were the key. `groups` (n,) are resampled together. Item
    i is flagged with probability A_i / k_i, where A_i counts the options that would be flagged, so the number of flags is
    Poisson-binomial. A shortcut is always flagged and adds 1 - 1/k_i: the latent rate is the mean of (F_i - A_i / k_i) / (1
    - 1/k_i).

    With the keys (n,) as `by_position`, a key is at position j with the share of keys at j among items with as many
    options. The Poisson-binomial variance is at least (n - 1) / n times that of permuted keys, so p is conservative. The
    excess is adjusted for the share of flags at each position (double centering), which only widens its interval. The
    latent rate excludes numbers of options whose keys are all at one position.
    """
    if not len(flagged):
        return Chance()
    options = would.sum(axis=1)
    null, room, ratio = options / k, 1 - 1 / k, 1 / (k - 1)
    over, decoys = flagged - null, (options - flagged) / (k - 1)
    if by_position is not None:
        at = by_position[:, None]
        share = key_shares(by_position, k, would.shape[1])
        null = np.minimum((would * share).sum(axis=1), 1.0)
        drawn = np.zeros(would.shape)
        for size in np.unique(k).tolist():
            drawn[k == size] = would[k == size].mean(axis=0)
        over = flagged - null - (np.take_along_axis(drawn, at, axis=1)[:, 0] - (drawn * share).sum(axis=1))
        room = 1 + (share**2).sum(axis=1) - 2 * np.take_along_axis(share, at, axis=1)[:, 0]
        # If all keys are at one position, no other option can be the key or a decoy.
        per_decoy = np.where(share < 1, share / np.maximum(1 - share, ROUNDING), 0.0)
        decoys = ((would & (np.arange(would.shape[1]) != at)) * per_decoy).sum(axis=1)
        ratio = per_decoy.max(axis=1)
    pmf, count = poisson_binomial(null), int(flagged.sum())
    latent = excess_ci = latent_ci = None
    rated = _latent_contributions(over, room, k)
    if (knows := ~np.isnan(rated)).any():
        latent = _clipped(float(rated[knows].mean()))
        excess_ci, latent_ci = _intervals(over, rated, float(room.mean()), groups, count > 0)
    if (options > 1).any():
        latent = latent_ci = None
    return Chance(
        n=len(flagged),
        flagged=count,
        share=rate(flagged.astype(np.float64), groups),
        false_share=false_share(flagged, decoys, ratio),
        expected=float(null.sum()),
        expected_ci=central(pmf),
        p=upper_tail(pmf, count),
        excess=float(over.mean()),
        excess_ci=excess_ci,
        latent=latent,
        latent_ci=latent_ci,
    )


def false_share(hits: Bools, decoys: Floats, ratio: Floats) -> Rate:
    """Return the share of hits due to chance, D / H, estimated from decoys.

    A decoy would be flagged if it were the key, but is not. `hits` (n,) marks flagged items, and `decoys` (n,) is the
    number of chance hits that each item's decoys represent. A decoy that is the key with probability c under the null
    represents c / (1 - c) chance hits. This is 1 / (k - 1) for exchangeable keys, so D = (agreements - hits) / (k - 1).
    `ratio` (n,) is this number, or the largest if they differ. A hit with ratio 0 can have no decoy and is left out.
    Without shortcuts, E[D] is the expected number of hits. A shortcut whose key is missed adds only to D, so the estimate
    is conservative.

    The interval predicts the share in these very hits (their number is `n`). Under the null, D minus the chance hits L is a
    sum of independent differences with mean 0 and variance c / (1 - c), however items depend on one another. The interval
    contains every L that its score test does not reject. None without hits.
    """
    there = (hits & (ratio > 0)) | (decoys > 0)
    n, by_chance = int(np.count_nonzero(hits & there)), float(decoys[there].sum())
    if not n:
        return _NO_RATE
    each = float((decoys[there] ** 2).sum()) / by_chance if by_chance else float(ratio[there].max())
    middle = by_chance + _Z2 * each / 2
    half = math.sqrt(_Z2 * (by_chance * (1 + each) + _Z2 * each**2 / 4))
    return Rate(_clipped(by_chance / n), n, (_clipped((middle - half) / n), _clipped((middle + half) / n)))


def _intervals(
    over: Floats, rated: Floats, room: float, groups: Ints | None, any_flag: bool
) -> tuple[Interval | None, Interval | None]:
    excess: Interval | None = None
    latent: Interval | None = None
    knows, drawn = ~np.isnan(rated), clusters(len(over), groups)
    if drawn >= FEWEST_CLUSTERS:
        means = resampled(np.column_stack([over, np.where(knows, rated, 0.0), knows]), groups)
        with np.errstate(invalid="ignore"):
            excess, latent = interval(means[:, 0]), interval(means[:, 1] / means[:, 2])
    # Resampling constant values gives zero width, so allow for the flags that may have been missed.
    unseen, none_over = clopper_pearson(0, drawn)[1], bool(np.abs(over).max() < ROUNDING)
    if none_over:
        excess = wilson(0, drawn)
    elif excess is not None and np.ptp(over) < ROUNDING:
        excess = max(-1.0, float(over[0]) - unseen), min(1.0, float(over[0]) + unseen)
    if none_over or not any_flag:
        latent = 0.0, unseen / room
    elif latent is not None and np.ptp(rated[knows]) < ROUNDING:
        latent = float(rated[knows][0]) - unseen / room, float(rated[knows][0]) + unseen / room
    return excess, None if latent is None else (_clipped(latent[0]), _clipped(latent[1]))


def _latent_contributions(over: Floats, room: Floats, k: Ints) -> Floats:
    """Return each item's contribution (n,) to the latent rate, an item-weighted mean of the rates by number of options.

    `room` (n,) is the excess of a shortcut. For one number of options, the rate is sum of `over` / sum of `room`, or NaN if
    the latter is 0.
    """
    out = np.full(len(over), np.nan)
    for options in np.unique(k).tolist():
        here = k == options
        left = float(room[here].mean())
        if left > ROUNDING:
            latent = float(over[here].mean()) / left
            out[here] = latent + (over[here] - latent * room[here]) / left
    return out


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))
