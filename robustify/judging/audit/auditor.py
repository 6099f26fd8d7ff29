"""An auditor of the items kept: its rate, what chance gives it there, and the bounds that decide."""

import math
from dataclasses import dataclass

import numpy as np

from robustify.arrays import Bools, Ints
from robustify.stats.intervals import Interval, Rate, clopper_pearson, rate
from robustify.stats.tests import LEVEL, minimum_detectable_difference
from robustify.summary.quantity import Quantity
from robustify.summary.reason import AuditorKind, ReasonValue
from robustify.summary.result import AuditorResult

POWER = 0.8


@dataclass(frozen=True, slots=True)
class AuditRate:
    """A rate on some items, and what is expected there by chance: `chance` is what the selection leaves a picker that
    knows nothing, `even` the mean of 1/k on the same items, and `free` the number of them on which the pick was not
    ruled out beforehand (None: all). `p`: how often chance gives as much, where an exact or a permutation test
    decides and not the bounds; `refits` it rests on, None where it is exact.
    """

    rate: Rate
    chance: float | None
    even: float | None = None
    free: int | None = None
    p: float | None = None
    refits: int | None = None

    @property
    def right(self) -> float:
        """The credit of all items."""
        return (self.rate.value or 0.0) * self.rate.n

    def bounds(self, level: float = 0.95) -> Interval:
        """The interval that decides: Clopper-Pearson; of the next whole counts where ties share credit."""
        return _exact(self.right, self.rate.n, level)

    def limit(self, overall: float) -> float:
        """What counts as chance. Of picks among open options alone it is their own chance; else the smaller of 1/k
        and chance after selection, so that neither agreeing nor disagreeing with the filter hides a shortcut.
        `overall` is used where 1/k of these items is not known.
        """
        if self.p is not None and self.chance is not None:
            return self.chance
        even = overall if self.even is None else self.even
        return even if self.chance is None else min(even, self.chance)

    def alarm(self, overall: float, level: float) -> bool:
        """Whether it is above chance at this level, two-sided where bounds decide."""
        if self.p is not None:
            return self.p <= level
        return self.bounds(1 - level)[0] > self.limit(overall)

    def could_see(self, margin: float) -> bool:
        """Whether these items could have shown a shortcut: on those where the pick was free, the upper bound is
        below chance plus `margin`. An auditor that picks as the filter does is never right on what was kept, and
        proves nothing.
        """
        free = self.rate.n if self.free is None else self.free
        if not free or self.chance is None:
            return False
        return _exact(self.right, free)[1] < self.chance * self.rate.n / free + margin

    def noticeable(self) -> float | None:
        """Return the rate on these items that is above chance with 80 % power; None if no rate is."""
        if not self.rate.n or self.chance is None:
            return None
        rise = minimum_detectable_difference(self.rate.n, self.chance, 1 - 2 * LEVEL, POWER)
        return None if math.isnan(rise) else self.chance + rise


@dataclass(frozen=True, slots=True)
class AuditorRates:
    """An auditor, whether it is independent of the filter, and its rates.

    `before`: on all items, kept or not.
    """

    kind: AuditorKind
    name: str
    audit: AuditRate
    independent: bool
    before: AuditRate | None = None

    def entry(self) -> AuditorResult:
        """Return its rates as in the summary."""
        audit = self.audit
        return AuditorResult.of(
            audit.rate,
            chance=audit.chance,
            free=audit.free,
            p=audit.p,
            refits=audit.refits,
            before=None if self.before is None else Quantity.of(self.before.rate),
            noticeable=audit.noticeable(),
        )

    def reason(self) -> dict[str, ReasonValue]:
        """The parameters of a reason that names it."""
        rate = self.audit.rate
        return {"auditor": self.name, "kind": self.kind, "value": rate.value or 0.0, "n": rate.n}


def audited(best: Bools, key: Ints, k: Ints, would: Bools) -> AuditRate:
    """Of picks `best` (n, K) that were fixed before the keys were known.

    An item is kept because its key is none of the options that would have flagged it (`would`, (n, K)), so under
    exchangeable keys the key is any of the others; a pick among the flagging options cannot be right.
    """
    tied = best.sum(axis=1)
    there = tied > 0
    share, k = best[there] / tied[there, None], k[there]
    won = np.take_along_axis(share, key[there, None], axis=1)[:, 0] if there.any() else np.zeros(0)
    open_ = (share * ~would[there]).sum(axis=1)
    chance = open_ / np.maximum(k - would[there].sum(axis=1), 1)
    if not len(won):
        return AuditRate(rate(won), None)
    return AuditRate(rate(won), float(chance.mean()), float(np.mean(1 / k)), int(np.count_nonzero(open_)))


def among_open(hit: Bools, size: Ints, k: Ints, p: float, refits: int) -> AuditRate:
    """Return the rate of one pick per item among its `size` open options: `hit`, `size`, `k` (n,), n at least 1."""
    n, hits = len(hit), int(np.count_nonzero(hit))
    found = Rate(hits / n, n, clopper_pearson(hits, n))
    return AuditRate(found, float(np.mean(1 / size)), float(np.mean(1 / k)), p=p, refits=refits)


def _exact(right: float, n: int, level: float = 0.95) -> Interval:
    low = clopper_pearson(math.floor(right + 1e-6), n, level)[0]
    return low, clopper_pearson(min(math.ceil(right - 1e-6), n), n, level)[1]
