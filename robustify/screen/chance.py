"""Flags expected under the null, and the share of flags that is due to chance.

The null hypothesis is exchangeable keys: if any other option had been the key, would the same answers have flagged the
item? Voters share errors, so chance is not a product of 1/k. This count assumes nothing about their correlation. If voters
could see positions, a key is as likely at a position as the benchmark's keys are, because positions reveal nothing about
the choices.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from robustify.arrays import ROUNDING, Bools, Floats, Ints
from robustify.screen.item_index import KeyPositions, key_shares
from robustify.stats.distributions import central, poisson_binomial, upper_tail
from robustify.stats.intervals import (
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


@dataclass(frozen=True, slots=True)
class Chance:
    """Number of flags on `n` items, compared with the number expected by chance. Results are None if no item counts.

    `expected` is the number of flags under the null, with the central 95 % of their distribution, and `p` is the
    probability of at least as many. `excess` and `latent` are shares of the items with item-bootstrap intervals, which are
    None below 10 items or groups. `latent` is None if two options of an item would be flagged. `false_share` is the share
    of flags due to chance, estimated from decoys. `by_position` is the same under a null that knows the positions of the
    keys, or None if no voter could see positions.
    """

    n: int
    flagged: int
    share: Rate
    false_share: Rate
    expected: float
    expected_ci: Interval
    p: float | None
    excess: float | None
    excess_ci: Interval | None
    latent: float | None
    latent_ci: Interval | None
    by_position: "Chance | None" = None
    positions: KeyPositions | None = None

    @property
    def deciding(self) -> "Chance":
        """Comparison that decides: the one that uses key positions if voters could see positions, otherwise this one."""
        return self if self.by_position is None else self.by_position

    @property
    def rate(self) -> float | None:
        """Share of items that are flagged under the null."""
        return self.expected / self.n if self.n else None


_NO_RATE = Rate(None, 0, None)
_NONE = Chance(0, 0, _NO_RATE, _NO_RATE, 0.0, (0.0, 0.0), None, None, None, None, None)


def chance(flagged: Bools, would: Bools, k: Ints, groups: Ints | None = None) -> Chance:
    """Compare the flags of a filter with those expected under the null.

    `would` (n, K) marks the options that would be flagged if they were the key. `groups` (n,) are resampled together. Item
    i is flagged with probability A_i / k_i, where A_i counts the options that would be flagged, so the number of flags is
    Poisson-binomial. A shortcut is always flagged and adds 1 - 1/k_i: the latent rate is the mean of (F_i - A_i / k_i) / (1
    - 1/k_i).
    """
    if not len(flagged):
        return _NONE
    options = would.sum(axis=1)
    false = false_share(flagged, (options - flagged) / (k - 1), 1 / (k - 1))
    found = _counts(flagged, options / k, false, groups)
    return _drop_ambiguous_latent(_add_rates(found, flagged - options / k, 1 - 1 / k, k, groups), would)


def chance_by_position(
    flagged: Bools, would: Bools, key: Ints, k: Ints, groups: Ints | None = None
) -> Chance:
    """Compare the flags of a filter with those expected under a null that uses the positions of the keys.

    A key is at position j with the share of keys at j among items with as many options. The Poisson-binomial variance is at
    least (n - 1) / n times that of permuted keys, so p is conservative. The excess is adjusted for the share of flags at
    each position (double centering), which only widens its interval. The latent rate excludes numbers of options whose keys
    are all at one position.
    """
    if not len(flagged):
        return _NONE
    share = key_shares(key, k, would.shape[1])
    probability = np.minimum((would * share).sum(axis=1), 1.0)
    drawn = np.zeros(would.shape)
    for options in np.unique(k).tolist():
        drawn[k == options] = would[k == options].mean(axis=0)
    at = key[:, None]
    here = np.take_along_axis(drawn, at, axis=1)[:, 0] - (drawn * share).sum(axis=1)
    even = (share**2).sum(axis=1)
    room = 1 + even - 2 * np.take_along_axis(share, at, axis=1)[:, 0]
    # If all keys are at one position, no other option can be the key or a decoy.
    ratio = np.where(share < 1, share / np.maximum(1 - share, ROUNDING), 0.0)
    decoys = (would & (np.arange(would.shape[1]) != at)) * ratio
    found = _counts(flagged, probability, false_share(flagged, decoys.sum(axis=1), ratio.max(axis=1)), groups)
    return _drop_ambiguous_latent(_add_rates(found, flagged - probability - here, room, k, groups), would)


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


def _counts(flagged: Bools, probability: Floats, false: Rate, groups: Ints | None) -> Chance:
    pmf, count = poisson_binomial(probability), int(flagged.sum())
    share = rate(flagged.astype(np.float64), groups)
    return Chance(len(flagged), count, share, false, float(probability.sum()), central(pmf), upper_tail(pmf, count),
                  None, None, None, None)  # fmt: skip


def _drop_ambiguous_latent(found: Chance, would: Bools) -> Chance:
    """Drop the latent rate if two options of an item would be flagged."""
    return replace(found, latent=None, latent_ci=None) if (would.sum(axis=1) > 1).any() else found


def _add_rates(found: Chance, over: Floats, room: Floats, k: Ints, groups: Ints | None) -> Chance:
    """Add the excess and the latent rate, given each item's excess (`over`) and the excess of a shortcut (`room`)."""
    rated = _latent_contributions(over, room, k)
    found = replace(found, excess=float(over.mean()))
    knows = ~np.isnan(rated)
    if not knows.any():
        return found
    excess_ci = latent_ci = None
    drawn = clusters(len(over), groups)
    if drawn >= FEWEST_CLUSTERS:
        means = resampled(np.column_stack([over, np.where(knows, rated, 0.0), knows]), groups)
        with np.errstate(invalid="ignore"):
            excess_ci, latent_ci = interval(means[:, 0]), interval(means[:, 1] / means[:, 2])
    # Resampling constant values gives zero width, so allow for the flags that may have been missed.
    unseen, left = clopper_pearson(0, drawn)[1], float(room.mean())
    if np.abs(over).max() < ROUNDING:
        excess_ci = wilson(0, drawn)
    elif excess_ci is not None and np.ptp(over) < ROUNDING:
        excess_ci = max(-1.0, float(over[0]) - unseen), min(1.0, float(over[0]) + unseen)
    if np.abs(over).max() < ROUNDING or not found.flagged:
        latent_ci = 0.0, unseen / left
    elif latent_ci is not None and np.ptp(rated[knows]) < ROUNDING:
        latent_ci = float(rated[knows][0]) - unseen / left, float(rated[knows][0]) + unseen / left
    return replace(
        found,
        excess_ci=excess_ci,
        latent=_clipped(float(rated[knows].mean())),
        latent_ci=None if latent_ci is None else (_clipped(latent_ci[0]), _clipped(latent_ci[1])),
    )


def _latent_contributions(over: Floats, room: Floats, k: Ints) -> Floats:
    """Return each item's contribution (n,) to the latent rate, an item-weighted mean of the rates by number of options.

    For one number of options, the rate is sum of `over` / sum of `room`, or NaN if the latter is 0.
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
