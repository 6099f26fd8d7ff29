"""How much of what was flagged is expected under the null, and how much of it is there by chance.

The null is exchangeable keys: had any other option of the item been its key, would the same answers have
flagged it? Voters share their errors, so chance is not a product of 1/k; this count assumes nothing about how
they correlate. Where voters could see the positions of the choices, a key is as likely at a position as the keys of
the benchmark are, because knowing positions says nothing of the choices.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from robustify.arrays import Bools, Floats, Ints
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
_NOTHING = 1e-12
"""Sums of shares that differ by less differ by rounding."""


@dataclass(frozen=True, slots=True)
class Chance:
    """Counts over `n` items, and what they say; None if no item was weighed.

    `expected` flags under the null with the central 95 % of their distribution; `p`: how often it flags as many. `excess`
    and `latent` are shares of the items with item-bootstrap intervals, None below 10 items or groups. `latent` is None if
    two options of an item would be flagged. `false_share`: the share of the flags that are right by chance, by decoys.
    `by_position` is the same for a null that knows the positions of the keys; None if no voter could see positions.
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
        """The null that decides: with positions where voters could see them, else without."""
        return self if self.by_position is None else self.by_position

    @property
    def rate(self) -> float | None:
        """The share of the items that is flagged under the null."""
        return self.expected / self.n if self.n else None


_NO_RATE = Rate(None, 0, None)
_NONE = Chance(0, 0, _NO_RATE, _NO_RATE, 0.0, (0.0, 0.0), None, None, None, None, None)


def chance(flagged: Bools, would: Bools, k: Ints, groups: Ints | None = None) -> Chance:
    """Return how much of what a filter flags is expected under the null.

    `would` (n, K): what it would flag were option j the key; `groups` (n,) are resampled together. Item i is flagged with
    probability A_i / k_i, A_i being its options that would be flagged, so the number of flags is Poisson-binomial. A
    shortcut is always flagged and adds 1 - 1/k_i: the latent rate is the mean of (F_i - A_i / k_i) / (1 - 1/k_i).
    """
    if not len(flagged):
        return _NONE
    options = would.sum(axis=1)
    false = false_share(flagged, (options - flagged) / (k - 1), 1 / (k - 1))
    found = _found(flagged, options / k, false, groups)
    return _known(_rated(found, flagged - options / k, 1 - 1 / k, k, groups), would)


def chance_by_position(
    flagged: Bools, would: Bools, key: Ints, k: Ints, groups: Ints | None = None
) -> Chance:
    """Return what `chance` does, if a key is at position j with the share of keys at j among items of as many options.

    The Poisson-binomial variance is at least that of permuted keys times (n - 1) / n, so p errs upwards. The excess has
    the share of the flags at each position taken off (double centring), which only widens its interval: the shares were
    estimated. Items whose number of options has all its keys at one position say nothing of the latent rate.
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
    # Where all keys are at one position no other option can be the key, and none is a decoy.
    ratio = np.where(share < 1, share / np.maximum(1 - share, _NOTHING), 0.0)
    decoys = (would & (np.arange(would.shape[1]) != at)) * ratio
    found = _found(flagged, probability, false_share(flagged, decoys.sum(axis=1), ratio.max(axis=1)), groups)
    return _known(_rated(found, flagged - probability - here, room, k, groups), would)


def false_share(hits: Bools, decoys: Floats, ratio: Floats) -> Rate:
    """The share of the hits that are right by chance, D / H. Decoys would be flagged, were they the key, and are not it.

    `hits` (n,) flagged items; `decoys` (n,) the chance hits that each item's decoys stand for, c / (1 - c) for one that is
    the key with probability c under the null: 1 / (k - 1) for each, so D = (agreements - hits) / (k - 1). `ratio` (n,) is
    that number, the largest of them where they differ; a hit whose ratio is 0 can have no decoy and is left out. Without
    shortcuts E[D] is the expected number of hits; one whose key is missed adds to D and to no hit, which errs upwards.

    The interval is one of prediction, of the share in these very hits (their number is `n`): under the null D less the
    chance hits L is a sum of independent differences with mean 0 and variance c / (1 - c), however items depend on one
    another, and the interval holds each L that its score test does not reject. None without hits.
    """
    there = (hits & (ratio > 0)) | (decoys > 0)
    n, by_chance = int(np.count_nonzero(hits & there)), float(decoys[there].sum())
    if not n:
        return _NO_RATE
    each = float((decoys[there] ** 2).sum()) / by_chance if by_chance else float(ratio[there].max())
    middle = by_chance + _Z2 * each / 2
    half = math.sqrt(_Z2 * (by_chance * (1 + each) + _Z2 * each**2 / 4))
    return Rate(_clipped(by_chance / n), n, (_clipped((middle - half) / n), _clipped((middle + half) / n)))


def _found(flagged: Bools, probability: Floats, false: Rate, groups: Ints | None) -> Chance:
    """The counts, from each item's probability (n,) under the null."""
    pmf, count = poisson_binomial(probability), int(flagged.sum())
    share = rate(flagged.astype(np.float64), groups)
    return Chance(len(flagged), count, share, false, float(probability.sum()), central(pmf), upper_tail(pmf, count),
                  None, None, None, None)  # fmt: skip


def _known(found: Chance, would: Bools) -> Chance:
    """Without the latent rate where two options of an item would be flagged."""
    return replace(found, latent=None, latent_ci=None) if (would.sum(axis=1) > 1).any() else found


def _rated(found: Chance, over: Floats, room: Floats, k: Ints, groups: Ints | None) -> Chance:
    """With excess and latent rate, from what each item (n,) has above the null and what a shortcut there would have."""
    rated = _linear(over, room, k)
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
    # Where nothing varied, resampling would claim to know it exactly: what was not seen may be one flag off.
    unseen, left = clopper_pearson(0, drawn)[1], float(room.mean())
    if np.abs(over).max() < _NOTHING:
        excess_ci = wilson(0, drawn)
    elif excess_ci is not None and np.ptp(over) < _NOTHING:
        excess_ci = max(-1.0, float(over[0]) - unseen), min(1.0, float(over[0]) + unseen)
    if np.abs(over).max() < _NOTHING or not found.flagged:
        latent_ci = 0.0, unseen / left
    elif latent_ci is not None and np.ptp(rated[knows]) < _NOTHING:
        latent_ci = float(rated[knows][0]) - unseen / left, float(rated[knows][0]) + unseen / left
    return replace(
        found,
        excess_ci=excess_ci,
        latent=_clipped(float(rated[knows].mean())),
        latent_ci=None if latent_ci is None else (_clipped(latent_ci[0]), _clipped(latent_ci[1])),
    )


def _linear(over: Floats, room: Floats, k: Ints) -> Floats:
    """Each item's share in the latent rate (n,): their mean is the mean over items of the rates by number of options.

    Within a number of options the rate is sum of `over` / sum of `room`; NaN where that has no room.
    """
    out = np.full(len(over), np.nan)
    for options in np.unique(k).tolist():
        here = k == options
        left = float(room[here].mean())
        if left > _NOTHING:
            latent = float(over[here].mean()) / left
            out[here] = latent + (over[here] - latent * room[here]) / left
    return out


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))
