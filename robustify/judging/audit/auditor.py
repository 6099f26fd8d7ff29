"""Auditors of the kept items: their accuracy compared with chance, and the fresh probe.

The probe is a ridge regression that predicts the keys of kept items from their choices' texts (`RidgeFits`). A choice is
open if the item would also have been kept with that choice as the key.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints, by_rows
from robustify.items.item import Item, kept_for_last
from robustify.items.scoring import credit
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS, centred
from robustify.judging.baselines.near_duplicates import (
    balanced_folds,
    content_hashes,
    fold_groups,
    near_duplicates,
)
from robustify.judging.readers import READERS
from robustify.judging.readers.chance import RidgeFits
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.screen.consensus import ScreenResult
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.votes import KEPT
from robustify.judging.stats.intervals import (
    Interval,
    Rate,
    clopper_pearson,
    clusters,
    effective_size,
    rate,
)
from robustify.judging.stats.tests import minimum_detectable_difference
from robustify.judging.summary.quantity import Quantity, ReasonValue
from robustify.judging.summary.result import AuditorResult

POWER = 0.8
FOLDS = 10
"""Folds of the fresh probe."""
_CENTRED = 5_000
"""Number of items whose features are centered at a time, because all of a large set take a gigabyte."""


@dataclass(frozen=True, slots=True)
class AuditRate:
    """Accuracy of an auditor on a set of items, with its chance level.

    `chance` is the expected rate of an uninformed auditor given the selection, and `even` the mean of 1/k on the same
    items. `free` counts the items on which the selection did not rule out the pick (None for all). If `p` is given, this
    exact p-value, or that of as many `refits` with permuted keys, decides instead of the bounds. `effect` is the design
    effect: how many of the items count as one independent item.
    """

    rate: Rate
    chance: float | None
    even: float | None = None
    free: int | None = None
    p: float | None = None
    refits: int | None = None
    effect: float = 1.0

    def bounds(self, level: float = 0.95, n: int | None = None) -> Interval:
        """Return the Clopper-Pearson interval of the accuracy over `n` items (default: all), rounded outward. Items that
        depend on each other count by their effective number (Korn and Graubard 1998)."""
        hits = (self.rate.value or 0.0) * self.rate.n
        n = self.rate.n if n is None else n
        effect = self.effect
        low = clopper_pearson(math.floor(hits + 1e-6) / effect, n / effect, level)[0]
        return low, clopper_pearson(min(math.ceil(hits - 1e-6), n) / effect, n / effect, level)[1]

    def limit(self, overall: float) -> float:
        """Return the chance level for comparison with the accuracy. It is `chance` if `p` is given, otherwise the smaller
        of it and `even`, or `overall` if `even` is unknown.

        Neither agreement nor disagreement with the filter then hides a shortcut.
        """
        if self.p is not None and self.chance is not None:
            return self.chance
        even = overall if self.even is None else self.even
        return even if self.chance is None else min(even, self.chance)

    def alarm(self, overall: float, level: float) -> bool:
        """Return whether the rate is significantly above chance, by `p` if given, otherwise by two-sided bounds."""
        if self.p is not None:
            return self.p <= level
        return self.bounds(1 - level)[0] > self.limit(overall)

    def could_see(self, margin: float) -> bool:
        """Return whether the auditor could get enough items right for the audit to rule out a gain of `margin` over chance.

        An auditor that picks like the filter is never right on kept items, which proves nothing.
        """
        free = self.rate.n if self.free is None else self.free
        if not free or self.chance is None:
            return False
        return self.bounds(n=free)[1] < self.chance * self.rate.n / free + margin

    def noticeable(self, level: float) -> float | None:
        """Return the lowest accuracy that raises an `alarm` at this level with 80 % power, or None if no accuracy does."""
        if not self.rate.n or self.chance is None:
            return None
        # A p-value is one-sided, and bounds are two-sided.
        confidence = 1 - level * (1 if self.p is None else 2)
        rise = minimum_detectable_difference(self.rate.n / self.effect, self.chance, confidence, POWER)
        return None if math.isnan(rise) else self.chance + rise


@dataclass(frozen=True, slots=True)
class AuditorRates:
    """Auditor with its rates on the kept items (`audit`) and on all items (`before`)."""

    kind: str
    name: str
    audit: AuditRate
    independent: bool
    before: AuditRate | None = None

    def entry(self, level: float) -> AuditorResult:
        """Return the auditor's summary entry. `level` is the significance level of its alarm."""
        audit = self.audit
        return AuditorResult.from_rate(
            audit.rate,
            chance=audit.chance,
            free=audit.free,
            p=audit.p,
            refits=audit.refits,
            before=None if self.before is None else Quantity.from_rate(self.before.rate),
            noticeable=audit.noticeable(level),
        )

    def reason(self) -> dict[str, ReasonValue]:
        """Return the auditor's name, kind, rate and number of items, as parameters of a `Reason`."""
        rate = self.audit.rate
        return {"auditor": self.name, "kind": self.kind, "value": rate.value or 0.0, "n": rate.n}


@dataclass(frozen=True)
class Kept:
    """Kept items whose outcome does not depend on missing answers. `mask` marks them among all items.

    `would` (n, K) marks the choices that would have removed the item if they were the key.
    """

    mask: Bools
    key: Ints
    k: Ints
    would: Bools

    @cached_property
    def open(self) -> Bools:
        """Mask of the choices that could be the key of each kept item, given that the filter kept the item (n, K)."""
        return np.asarray(~self.would & (np.arange(self.would.shape[1]) < self.k[:, None]))


def all_answered(index: ItemIndex) -> Kept:
    """Return all answered items as if the filter had kept them, with every choice as a possible key."""
    answered = np.asarray(index.k > 0)
    would = np.zeros((int(np.count_nonzero(answered)), index.width), dtype=bool)
    return Kept(answered, index.key[answered], index.k[answered], would)


def kept_by(result: ScreenResult) -> Kept:
    """Return the items that a screening outcome keeps."""
    votes, mask = result.votes, np.asarray((result.outcome == KEPT) & result.measurable)
    return Kept(mask, votes.key[mask], votes.k[mask], result.would[mask])


def audit_rate(best: Bools, kept: Kept, groups: Ints | None = None) -> AuditRate:
    """Return an auditor's accuracy and its chance level. Its picks, `best` (n, K), must not depend on the keys. Items of a
    group (n,) depend on each other.

    The key of a kept item is equally likely to be any choice that would not have flagged it (`would`, (n, K)).
    """
    key, k, would = kept.key, kept.k, kept.would
    n_best = best.sum(axis=1)
    answered = n_best > 0
    if not answered.any():
        return AuditRate(rate(np.empty(0)), None)
    best, key, k, would = best[answered], key[answered], k[answered], would[answered]
    n_open = by_rows(lambda *of: (of[0] / of[1][:, None] * ~of[2]).sum(axis=1), best, n_best[answered], would)
    chance = float((n_open / np.maximum(k - would.sum(axis=1), 1)).mean())
    hits, units = credit(best, key), None if groups is None else groups[answered]
    size = effective_size(hits, units) or clusters(len(hits), units)
    free = int(np.count_nonzero(n_open))
    return AuditRate(rate(hits, units), chance, float(np.mean(1 / k)), free, effect=len(hits) / size)


def _within_items(features: Floats, items: Ints, mask: Bools) -> Floats:
    """Return the features (n, K, f) of the masked options (m, K) of some items (m,), centered within items (r, f)."""
    out = np.empty((int(np.count_nonzero(mask)), features.shape[2]))
    ends = np.cumsum(mask.sum(axis=1)).tolist()
    for start in range(0, len(items), _CENTRED):
        part = slice(start, start + _CENTRED)
        deviations = centred(np.moveaxis(features[items[part]], 2, 0), mask[part])
        out[ends[start - 1] if start else 0 : ends[min(start + _CENTRED, len(items)) - 1]] = deviations[
            :, mask[part]
        ].T
    return out


@kept_for_last
def _known_audits(items: Sequence[Item]) -> dict[tuple[object, ...], AuditRate | None]:
    """Return an empty store of audits of the same items. If no item is flagged, the kept items are all items."""
    return {}


class FreshProbe:
    """Probe fitted only on the kept items, to find shortcuts that the filter missed.

    `items` are all items, or None if their texts are unknown. Of near-duplicates, only one is fitted and tested. Items that
    depend on each other are in the same fold.
    """

    def __init__(self, items: Sequence[Item] | None, settings: ProbeSettings) -> None:
        self.items, self.settings = items, settings

    def audit(self, kept: Kept) -> AuditRate | None:
        """Fit a probe only on the kept items, and return its accuracy, or None if texts are unknown or items too few.

        The p-value is (1 + refits with at least as many hits) / (1 + refits), with at least 199 refits.
        """
        if self.items is None:
            return None
        audits, outcome = _known_audits(self.items), (kept.mask, kept.key, kept.k, kept.would)
        mark = (self.settings, *(values.tobytes() for values in outcome))
        if mark not in audits:
            audits[mark] = self._fitted(self.items, kept)
        return audits[mark]

    def _fitted(self, items: Sequence[Item], kept: Kept) -> AuditRate | None:
        usable = np.flatnonzero(self.first(kept) & (kept.open.sum(axis=1) > 1))
        if len(usable) < FEWEST_ITEMS:
            return None
        index = np.flatnonzero(kept.mask)[usable]
        content = content_hashes(items)[index]
        fold = balanced_folds(fold_groups(items)[index], content, FOLDS, self.settings.seed)
        order = np.lexsort((content, fold))
        rows = usable[order]
        mask = kept.open[rows]
        features = _within_items(READERS["probe"].features(items, None), index[order], mask)
        fits = RidgeFits(features, mask.sum(axis=1), fold[order], self.settings.seed)
        key = (mask & (np.arange(mask.shape[1]) < kept.key[rows][:, None])).sum(axis=1)
        hits, by_chance = int(fits.hits(key[:, None]).sum()), fits.hits_by_chance(self.settings.refits)
        n, guess = len(rows), 1 / fits.size
        effect = max(1.0, float(by_chance.var() / (guess * (1 - guess)).sum()))
        accuracy = Rate(hits / n, n, clopper_pearson(hits / effect, n / effect))
        p = (1 + int((by_chance >= hits).sum())) / (1 + len(by_chance))
        even = float(np.mean(1 / kept.k[rows]))
        return AuditRate(accuracy, float(guess.mean()), even, p=p, refits=len(by_chance), effect=effect)

    def first(self, kept: Kept) -> Bools:
        """Mark one item of each group of near-duplicates, or all items if no text is known (n,).

        It has the most closed choices, because one that is closed for a copy is not the key of another copy either.
        """
        is_first = np.full(len(kept.key), self.items is None)
        if self.items is not None:
            content, duplicates = (read(self.items)[kept.mask] for read in (content_hashes, near_duplicates))
            order = np.lexsort((content, -kept.would.sum(axis=1)))
            is_first[order[np.unique(duplicates[order], return_index=True)[1]]] = True
        return is_first
