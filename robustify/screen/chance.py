"""How much of what was flagged is expected under the null.

The null is exchangeable keys: had any other option of the item been its key, would the same answers have
flagged it? Voters share their errors, so chance is not a product of 1/k; this count assumes nothing about how
they correlate. Where voters could see the places of the choices, a key is as likely at a place as the keys of
the benchmark are, because knowing places says nothing of the choices. The formulas of `independence` are for
reference only.
"""

from dataclasses import dataclass, replace

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.screen.key_positions import Places, key_shares
from robustify.stats.distributions import central, poisson_binomial, upper_tail
from robustify.stats.intervals import (
    FEWEST_CLUSTERS,
    Interval,
    clopper_pearson,
    clusters,
    interval,
    resampled,
    wilson,
)

_NOTHING = 1e-12
"""Sums of shares that differ by less differ by rounding."""


@dataclass(frozen=True, slots=True)
class Chance:
    """Counts over `n` items, and what they say.

    `expected` flags under the null, `expected_ci` the central 95 % of their distribution; `p`: how often the null
    flags as many or more. `excess` and `latent` are shares of the items with item-bootstrap intervals, which are
    None below 10 items (or groups of them); where none is flagged, the latent rate has an upper bound instead. All
    are None where no item was weighed. `by_place` is the same for a null that knows the places of the keys, which
    `places` describes; both are None where no voter could see places.
    """

    n: int
    flagged: int
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


_NONE = Chance(0, 0, 0.0, (0.0, 0.0), None, None, None, None, None)


def chance(flagged: Bools, would: Bools, k: Ints, groups: Ints | None = None) -> Chance:
    """How much of what a filter flags is expected under the null.

    `flagged` (n,) what it flags, `would` (n, K) what it would flag were option j the key, `k` (n,) the number
    of options, `groups` (n,) of items that are resampled together.

    Item i is flagged under the null with probability A_i / k_i, A_i being its options that would be flagged, and
    the number of flags is Poisson-binomial (the permutation of keys within items, exactly). The latent rate
    s solves F = s + (A - s) / k, summed over items: a shortcut item is always flagged, the other flags are chance.
    """
    if not len(flagged):
        return _NONE
    probability = would.sum(axis=1) / k
    return _judged(flagged, probability, flagged - probability, 1 - 1 / k, groups)


def chance_by_place(flagged: Bools, would: Bools, key: Ints, k: Ints, groups: Ints | None = None) -> Chance:
    """As `chance`, when a key is at place j with the share of the keys at j among items of as many options.

    `key` (n,). The expectation is exactly that of the keys dealt anew among items of as many options, the
    numbers at each place kept. Its distribution is taken as Poisson-binomial, whose variance is at least
    that of the dealing times (n - 1) / n, so p errs upwards. The excess is the same sum with the share of the
    flags at each place taken off (double centring), which adds nothing to it and widens its interval because
    the shares were estimated. A shortcut item leaves 1 - sum of squared shares to see; where all keys are at
    one place nothing is left, and latent rate and intervals are None.
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
    return _judged(flagged, probability, flagged - probability - here, room, groups)


def _judged(flagged: Bools, probability: Floats, over: Floats, room: Floats, groups: Ints | None) -> Chance:
    """From each item's probability (n,) under the null, what it has above that, and what a shortcut there would."""
    n, pmf, left = len(flagged), poisson_binomial(probability), float(room.mean())
    found = Chance(
        n=n,
        flagged=int(flagged.sum()),
        expected=float(probability.sum()),
        expected_ci=central(pmf),
        p=upper_tail(pmf, int(flagged.sum())),
        excess=float(over.mean()),
        excess_ci=None,
        latent=None,
        latent_ci=None,
    )
    if left < _NOTHING:
        return found
    excess_ci = latent_ci = None
    drawn = clusters(n, groups)
    if drawn >= FEWEST_CLUSTERS:
        means = resampled(np.column_stack([over, room]), groups)
        excess_ci, latent_ci = interval(means[:, 0]), interval(means[:, 0] / means[:, 1])
    # Where nothing varied, resampling would claim to know it exactly: what was not seen may be one flag off.
    unseen = clopper_pearson(0, drawn)[1]
    if np.abs(over).max() < _NOTHING:
        excess_ci = wilson(0, drawn)
    elif excess_ci is not None and np.ptp(over) < _NOTHING:
        excess_ci = max(-1.0, float(over[0]) - unseen), min(1.0, float(over[0]) + unseen)
        latent_ci = excess_ci[0] / left, excess_ci[1] / left
    if np.abs(over).max() < _NOTHING or not flagged.any():
        latent_ci = 0.0, unseen / left
    return replace(
        found,
        excess_ci=excess_ci,
        latent=_clipped(float(over.sum() / room.sum())),
        latent_ci=None if latent_ci is None else (_clipped(latent_ci[0]), _clipped(latent_ci[1])),
    )


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))
