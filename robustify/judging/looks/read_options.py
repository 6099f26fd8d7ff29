"""Options as a question-free reader sees them, and the rows in which a model picked an option."""

from dataclasses import dataclass, replace

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.scoring import best, credit
from robustify.judging.baselines.conditional_logit import centred, log_probabilities
from robustify.judging.stats.intervals import group_sums, unit_index

CLIP = 3.0
"""Largest standardized logit, so that single options do not decide a fit."""
CAP = 0.8
"""Largest probability of picking the key by looks. Closer to 1, a few wrong picks would count for many items."""
UNREAD, TIED = -1, -2
"""Picks of a row without a readable answer, and of one with several best options."""
PLACEBO_LIMIT = 3.09
"""Standard errors above chance from which a reader of redrawn keys has seen the items (one-sided p = 0.001)."""


@dataclass(frozen=True, eq=False)
class PickRows:
    """Answers of one model in r rows. `item` (r,) is the index of the item, and `pick` (r,) an option, `UNREAD`, or `TIED`.
    `credit` (r,) is tie-fair, NaN if unread, and `position` (r, K) the place at which an option was shown, or -1."""

    item: Ints
    pick: Ints
    credit: Floats
    position: Ints

    def filled(self, option: Ints, key: Ints) -> "PickRows":
        """Return the rows as if each unreadable answer were the item's `option` (n,). `key` is (n,)."""
        pick = np.where(self.pick == UNREAD, option[self.item], self.pick)
        right = (pick == key[self.item]).astype(np.float64)
        return replace(self, pick=pick, credit=np.where(self.pick == UNREAD, right, self.credit))

    def by_item(self, values: Floats, n: int) -> Floats:
        """Return the mean of the values (r,) for each of n items, ignoring NaN. Items without values are NaN (n,)."""
        finite = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            return np.bincount(self.item[finite], values[finite], n) / np.bincount(
                self.item[finite], minlength=n
            )

    def first_picks(self, n: int) -> Ints:
        """Return the pick of the first row of each of n items, or `UNREAD` if the item has no row (n,)."""
        out = np.full(n, UNREAD, dtype=np.int64)
        out[self.item[::-1]] = self.pick[::-1]
        return out

    def first_credits(self, n: int) -> Floats:
        """Return the credit of the first row of each of n items, or NaN if the item has no row (n,)."""
        out = np.full(n, np.nan)
        out[self.item[::-1]] = self.credit[::-1]
        return out


@dataclass(frozen=True, eq=False)
class KeyProbability:
    """Probability of picking the key by looks alone (n,), with its derivatives by b and by kappa (n,)."""

    p: Floats
    by_b: Floats
    by_kappa: Floats


@dataclass(frozen=True, eq=False)
class ReadOptions:
    """Options of n items, at most K each. `z` (n, K) is the reader's logit, centered in the item, with unit standard
    deviation, clipped, and 0 for an item that the reader could not score. `mask` (n, K) marks options, `key` (n,) is known,
    and items of one `group` (n,), numbered from 0, depend on each other."""

    z: Floats
    mask: Bools
    key: Ints
    group: Ints

    @classmethod
    def from_logits(cls, logits: Floats, mask: Bools, key: Ints, groups: Ints | None = None) -> "ReadOptions":
        """Standardize a reader's logits (n, K). Items without `groups` (n,) are independent."""
        scored = mask & np.isfinite(np.where(mask, logits, 0.0)).all(axis=1, keepdims=True)
        z = centred(np.where(scored, logits, 0.0), mask)
        spread = float(z[scored].std()) if scored.any() else 0.0
        group = unit_index(len(key), groups)
        return cls(np.clip(z / (spread or 1.0), -CLIP, CLIP), mask, key.astype(np.int64), group)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def is_key(self) -> Bools:
        """Mask of the keys (n, K)."""
        return np.asarray(np.arange(self.mask.shape[1]) == self.key[:, None])

    @property
    def groups(self) -> int:
        """Number of independent groups of items."""
        return int(self.group.max(initial=-1)) + 1

    def rows(self, pick: Ints) -> PickRows:
        """Return rows in the benchmark's order of options, for one pick of each item (n,), which may be `UNREAD`."""
        credit = np.where(pick < 0, np.nan, pick == self.key)
        position = np.where(self.mask, np.arange(self.mask.shape[1]), -1)
        return PickRows(np.arange(len(self)), pick.astype(np.int64), credit, position)

    def key_probability(self, b: float, kappa: float = 0.0, wrong_b: float | None = None) -> KeyProbability:
        """Return the probability of picking the key by looks: softmax(b z + kappa [is the key]), at most `CAP`. The slope
        of the wrong options is `wrong_b` if it is given."""
        at_key = np.arange(len(self)), self.key
        wrong = (b if wrong_b is None else wrong_b) * self.z
        p = np.exp(log_probabilities(np.where(self.is_key, b * self.z + kappa, wrong), self.mask))
        key, uncapped = p[at_key], p[at_key] < CAP
        mean = (p * self.z).sum(axis=1) if wrong_b is None else key * self.z[at_key]
        by_b = np.where(uncapped, key * (self.z[at_key] - mean), 0.0)
        return KeyProbability(np.minimum(key, CAP), by_b, np.where(uncapped, key * (1 - key), 0.0))

    def extreme(self, *, most: bool, wrong: bool) -> Ints:
        """Return each item's most (least) key-like option. If `wrong` (n,), consider only wrong options."""
        among = self.mask & ~self.is_key if wrong else self.mask
        z = self.z if most else -self.z
        return np.asarray(np.where(among, z, -np.inf).argmax(axis=1))

    def wrong_counts(self, picks: Ints) -> tuple[Ints, Ints]:
        """Count the models that pick each wrong option (n, K), and the models with a pick (n,), from the `picks` (M, n)."""
        counts = np.stack([(picks == j).sum(axis=0) for j in range(self.mask.shape[1])], axis=1)
        return np.where(self.is_key, 0, counts), (picks >= 0).sum(axis=0)


def beats_chance(
    logits: Floats, mask: Bools, key: Ints, groups: Ints | None = None
) -> tuple[bool, float, float]:
    """Return whether a reader finds keys more often than by chance, with its accuracy and chance. If the keys were redrawn
    at random, only a reader that was fitted to the same items can do so. `groups` (n,) are independent."""
    k = mask.sum(axis=1)
    credits = credit(best(np.where(mask, logits, -np.inf), k), key)
    scored = ~np.isnan(credits)
    group_gains = group_sums((credits - 1 / k)[scored], None if groups is None else groups[scored])
    is_above = float(group_gains.sum()) > PLACEBO_LIMIT * float(np.sqrt(group_gains @ group_gains))
    return is_above, float(credits[scored].mean()), float((1 / k)[scored].mean())
