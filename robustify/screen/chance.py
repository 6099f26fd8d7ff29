"""How much of what was flagged is expected under the null, and how much of it is there by chance.

The null is exchangeable keys: had any other option of the item been its key, would the same answers have
flagged it? Voters share their errors, so chance is not a product of 1/k; this count assumes nothing about how
they correlate. Where voters could see the places of the choices, a key is as likely at a place as the keys of
the benchmark are, because knowing places says nothing of the choices.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.screen.item_index import Places, key_shares
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
    """Counts over `n` items, and what they say.

    `share`: flagged of n. `expected` flags under the null, were every key drawn anew, and `expected_ci` the central
    95 % of their distribution; `p`: how often the null flags as many or more. `excess` and `latent` are shares of the
    items with item-bootstrap intervals, which are None below 10 items (or groups of them); where none is flagged, the
    latent rate has an upper bound instead. It is None where two options of one item would be flagged: what a shortcut
    adds to chance is then unknown. `false_share`: the share of the flags that are right by chance, by decoys. All are None
    where no item was weighed. `by_place` is the same for a null that knows the places of the keys, which `places`
    describes; both are None where no voter could see places.
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
    by_place: "Chance | None" = None
    places: Places | None = None

    @property
    def deciding(self) -> "Chance":
        """The null that decides: with places where voters could see them, else without."""
        return self if self.by_place is None else self.by_place

    @property
    def rate(self) -> float | None:
        """The share of the items that is flagged under the null."""
        return self.expected / self.n if self.n else None


_NO_RATE = Rate(None, 0, None)
_NONE = Chance(0, 0, _NO_RATE, _NO_RATE, 0.0, (0.0, 0.0), None, None, None, None, None)


def chance(flagged: Bools, would: Bools, k: Ints, groups: Ints | None = None) -> Chance:
    """How much of what a filter flags is expected under the null.

    `flagged` (n,) what it flags, `would` (n, K) what it would flag were option j the key, `k` (n,) the number
    of options, `groups` (n,) of items that are resampled together.

    Item i is flagged under the null with probability A_i / k_i, A_i being its options that would be flagged, and
    the number of flags is Poisson-binomial (the permutation of keys within items, exactly). A shortcut of which one
    option is flagged is flagged always and adds 1 - 1/k_i to that, so the latent rate is the mean over items of
    (F_i - A_i / k_i) / (1 - 1/k_i), whichever number of options shortcuts favour.
    """
    if not len(flagged):
        return _NONE
    options = would.sum(axis=1)
    found = _found(
        flagged, options / k, false_share(flagged, (options - flagged) / (k - 1), 1 / (k - 1)), groups
    )
    return _rated(found, flagged - options / k, 1 - 1 / k, k, flagged, groups, bool((options > 1).any()))


def chance_by_place(flagged: Bools, would: Bools, key: Ints, k: Ints, groups: Ints | None = None) -> Chance:
    """As `chance`, when a key is at place j with the share of the keys at j among items of as many options.

    `key` (n,). The expectation is exactly that of the keys dealt anew among items of as many options, the
    numbers at each place kept. Its distribution is taken as Poisson-binomial, whose variance is at least
    that of the dealing times (n - 1) / n, so p errs upwards. The excess is the same sum with the share of the
    flags at each place taken off (double centring), which adds nothing to it and widens its interval because
    the shares were estimated. A shortcut item leaves 1 - sum of squared shares to see. Items whose number of options
    has all its keys at one place say nothing of the latent rate; without others it and the intervals are None.
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
    # Where all keys are at one place no other option can be the key, and none is a decoy.
    ratio = np.where(share < 1, share / np.maximum(1 - share, _NOTHING), 0.0)
    decoys = (would & (np.arange(would.shape[1]) != at)) * ratio
    found = _found(flagged, probability, false_share(flagged, decoys.sum(axis=1), ratio.max(axis=1)), groups)
    many = bool((would.sum(axis=1) > 1).any())
    return _rated(found, flagged - probability - here, room, k, flagged, groups, many)


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


def _rated(
    found: Chance, over: Floats, room: Floats, k: Ints, flagged: Bools, groups: Ints | None, many: bool
) -> Chance:
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
    if np.abs(over).max() < _NOTHING or not flagged.any():
        latent_ci = 0.0, unseen / left
    elif latent_ci is not None and np.ptp(rated[knows]) < _NOTHING:
        latent_ci = float(rated[knows][0]) - unseen / left, float(rated[knows][0]) + unseen / left
    found = replace(found, excess_ci=excess_ci)
    if many:
        return found
    return replace(
        found,
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
