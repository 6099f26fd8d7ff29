"""Accuracy of an auditor on the kept items, with its chance level, bounds and power."""

import math
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import Bools, Ints
from robustify.items.scoring import credit
from robustify.judging.stats.intervals import Interval, Rate, clopper_pearson, rate
from robustify.judging.stats.tests import LEVEL, minimum_detectable_difference
from robustify.judging.summary.quantity import Quantity, ReasonValue
from robustify.judging.summary.result import AuditorResult

POWER = 0.8


@dataclass(frozen=True, slots=True)
class AuditRate:
    """Accuracy of an auditor on a set of items, with its chance level.

    `chance` is the expected rate of an uninformed auditor given the selection, and `even` the mean of 1/k on the same
    items. `free` counts the items on which the selection did not rule out the pick (None for all). If `p` is given, this
    exact p-value, or that of as many `refits` with permuted keys, decides instead of the bounds.
    """

    rate: Rate
    chance: float | None
    even: float | None = None
    free: int | None = None
    p: float | None = None
    refits: int | None = None

    def bounds(self, level: float = 0.95, n: int | None = None) -> Interval:
        """Return the Clopper-Pearson interval of the credits, rounded outward, over the items, or over n of them."""
        right, n = (self.rate.value or 0.0) * self.rate.n, self.rate.n if n is None else n
        low = clopper_pearson(math.floor(right + 1e-6), n, level)[0]
        return low, clopper_pearson(min(math.ceil(right - 1e-6), n), n, level)[1]

    def limit(self, overall: float) -> float:
        """Return `chance` if `p` is given, otherwise the smaller of it and `even`, or `overall` if that is unknown.

        Neither agreement nor disagreement with the filter then hides a shortcut.
        """
        if self.p is not None and self.chance is not None:
            return self.chance
        even = overall if self.even is None else self.even
        return even if self.chance is None else min(even, self.chance)

    def alarm(self, overall: float, level: float) -> bool:
        """Return whether the rate is significantly above chance, judged by `p` if given, otherwise by two-sided bounds."""
        if self.p is not None:
            return self.p <= level
        return self.bounds(1 - level)[0] > self.limit(overall)

    def could_see(self, margin: float) -> bool:
        """Return whether the upper bound on the items with a free pick is below chance plus `margin`.

        An auditor that picks like the filter is never right on kept items, which proves nothing.
        """
        free = self.rate.n if self.free is None else self.free
        if not free or self.chance is None:
            return False
        return self.bounds(n=free)[1] < self.chance * self.rate.n / free + margin

    def noticeable(self) -> float | None:
        """Return the smallest rate that is detectable with 80 % power, or None if no rate is."""
        if not self.rate.n or self.chance is None:
            return None
        rise = minimum_detectable_difference(self.rate.n, self.chance, 1 - 2 * LEVEL, POWER)
        return None if math.isnan(rise) else self.chance + rise


@dataclass(frozen=True, slots=True)
class AuditorRates:
    """Auditor with its rates on the kept items (`audit`) and on all items (`before`)."""

    kind: str
    name: str
    audit: AuditRate
    independent: bool
    before: AuditRate | None = None

    def entry(self) -> AuditorResult:
        """Return the summary entry of the auditor."""
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
        """Return the auditor's name, kind, rate and number of items, as parameters of a `Reason`."""
        rate = self.audit.rate
        return {"auditor": self.name, "kind": self.kind, "value": rate.value or 0.0, "n": rate.n}


def audited(best: Bools, key: Ints, k: Ints, would: Bools) -> AuditRate:
    """Return the audit rate of an auditor whose picks, `best` (n, K), do not depend on the keys.

    The key of a kept item is equally likely to be any choice that would not have flagged it (`would`, (n, K)).
    """
    tied = best.sum(axis=1)
    there = tied > 0
    if not there.any():
        return AuditRate(rate(np.empty(0)), None)
    best, key, k, would = best[there], key[there], k[there], would[there]
    open_ = (best / tied[there, None] * ~would).sum(axis=1)
    chance = float((open_ / np.maximum(k - would.sum(axis=1), 1)).mean())
    return AuditRate(rate(credit(best, key)), chance, float(np.mean(1 / k)), int(np.count_nonzero(open_)))
