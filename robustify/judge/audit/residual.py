"""Are shortcuts left in what was kept? No filter certifies itself.

Four kinds of auditors answer the kept items without their questions: each voter on what the other voters
keep, models that did not vote, linear probes on frozen models' vectors, and a fresh cross-fitted probe. An auditor that
agrees with the filter scores low on the kept items by selection alone, so each is compared with what selection leaves
to chance, and nothing is certified unless an independent auditor could have seen a shortcut.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.artifact_probe import FEWEST_ITEMS, ProbeSettings, crossfit, folds
from robustify.baselines.features import matrix
from robustify.baselines.linear_probes import CONTROL, TEMPLATE
from robustify.baselines.linear_probes import VIEW as HEAD
from robustify.item import Item
from robustify.scoring import best as tied_for_best
from robustify.screen.consensus import ROBUST, outcome, weighed, would_flag
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import VIEW_OF, ScreenRules
from robustify.screen.votes import PROBE, Votes, averaged, cast_votes, models_asked
from robustify.stats.intervals import Interval, Rate, clopper_pearson, rate, wilson
from robustify.summary import result as entries
from robustify.summary.quantity import Quantity
from robustify.summary.reason import (
    AboveChance,
    AuditorKind,
    AuditReason,
    BelowMargin,
    CouldNotSee,
    NotBelowMargin,
    Plain,
)
from robustify.summary.result import Residual, Verdict


@dataclass(frozen=True, slots=True)
class Audit:
    """A rate on some items, and what is expected there by chance: `chance` is what the selection leaves a picker that
    knows nothing, `even` the mean of 1/k on the same items, and `free` the number of them on which the pick was not
    ruled out beforehand (None: all). `fitted`: the picker was cross-fitted on these items.
    """

    rate: Rate
    chance: float | None
    even: float | None = None
    free: int | None = None
    fitted: bool = False

    def bounds(self, level: float = 0.95) -> Interval:
        """The interval that decides: Clopper-Pearson, see `_bounds`."""
        return _bounds((self.rate.value or 0.0) * self.rate.n, self.rate.n, self.fitted, level)

    def limit(self, overall: float) -> float:
        """What counts as chance: the smaller of 1/k and chance after selection, so that neither agreeing nor
        disagreeing with the filter hides a shortcut. `overall` is used where 1/k of these items is not known.
        """
        even = overall if self.even is None else self.even
        return even if self.chance is None else min(even, self.chance)

    def could_see(self, margin: float) -> bool:
        """Whether these items could have shown a shortcut: on those where the pick was free, the upper bound is
        below chance plus `margin`. An auditor that picks as the filter does is never right on what was kept, and
        proves nothing.
        """
        free = self.rate.n if self.free is None else self.free
        if not free or self.chance is None:
            return False
        right = (self.rate.value or 0.0) * self.rate.n
        return _bounds(right, free, self.fitted)[1] < self.chance * self.rate.n / free + margin

    def entry(self) -> entries.Audit:
        """The rate with its own chance beside it."""
        return entries.Audit.of(self.rate, chance=self.chance, free=self.free)


@dataclass(frozen=True, slots=True)
class Auditor:
    """An auditor, whether it is independent of the filter, and its rates.

    `before`: on all items, kept or not; `control`: of the same head on the vectors of random weights.
    """

    kind: AuditorKind
    name: str
    audit: Audit
    independent: bool
    before: Audit | None = None
    control: Rate | None = None

    @property
    def sees(self) -> bool | None:
        """Whether it is above chance on all items; None where it was not asked them."""
        if self.before is None or self.before.even is None:
            return None
        return self.before.bounds()[0] > self.before.even

    def entry(self) -> entries.Auditor:
        """Its rates as in the summary."""
        return entries.Auditor.of(self.audit.rate, **self._beside())

    def head_entry(self) -> entries.HeadAuditor:
        """A head's rates with its control."""
        control = None if self.control is None else Quantity.of(self.control)
        return entries.HeadAuditor.of(self.audit.rate, control=control, **self._beside())

    def _beside(self) -> dict[str, Any]:
        before = None if self.before is None else Quantity.of(self.before.rate)
        return {"chance": self.audit.chance, "free": self.audit.free, "before": before}

    def reason(self) -> dict[str, Any]:
        """The fields of a reason that names it."""
        rate = self.audit.rate
        return {"auditor": self.name, "kind": self.kind, "value": rate.value or 0.0, "n": rate.n}


class FreshProbe:
    """Probes trained afresh on kept items, each set of items once; without items there are none."""

    def __init__(self, items: Sequence[Item] | None, settings: ProbeSettings) -> None:
        self.items = {item.id: (i, item) for i, item in enumerate(items or ())}
        self.settings = settings
        self._seen: dict[tuple[str, ...], Bools] = {}

    def audit(self, votes: Votes, rules: ScreenRules) -> Audit | None:
        """A fresh probe on what these rules keep; None where there is too little to fit on."""
        mask = _kept(votes, rules)
        kept = votes.where(mask)
        if not kept.items or not all(name in self.items for name in kept.items):
            return None
        if kept.items not in self._seen:
            self._seen[kept.items] = self._best(kept.items)
        best = self._seen[kept.items]
        would = would_flag(votes, rules)[mask]
        best = np.pad(best, ((0, 0), (0, would.shape[1] - best.shape[1])))
        return _audited(best, kept.key, kept.k, would, fitted=True) if best.any() else None

    @cached_property
    def _features(self) -> tuple[Floats, Ints]:
        items = [item for _, item in self.items.values()]
        return matrix(items), np.array([item.k for item in items], dtype=np.int64)

    def _best(self, names: tuple[str, ...]) -> Bools:
        here = [self.items[name] for name in names]
        if len(here) < FEWEST_ITEMS:
            return np.zeros((len(here), 1), dtype=bool)
        x, size = self._features
        place = np.array([i for i, _ in here], dtype=np.int64)
        end = np.cumsum(size)
        rows = np.concatenate([np.arange(end[i] - size[i], end[i]) for i in place.tolist()])
        items, k = [item for _, item in here], size[place]
        key = np.array([item.key for item in items], dtype=np.int64)
        padded = np.full((len(here), int(k.max())), np.nan)
        padded[np.arange(padded.shape[1]) < k[:, None]] = crossfit(
            x[rows], k, key, folds(items, self.settings)
        )
        return tied_for_best(padded, k)


def residual(
    answers: Answers,
    index: ItemIndex,
    votes: Votes,
    rules: ScreenRules,
    probe: FreshProbe,
    margin: float,
) -> Residual:
    """The audit of the items that `rules` keep; `margin`: what may be left above chance.

    `certified` when the upper bound of every auditor is below chance plus margin and one of them is
    independent and could have seen a shortcut; else `not certified` when the lower bound of any is above chance;
    else `inconclusive`. An auditor's `chance` is chance after selection (`Audit.limit`), the audit's is
    mean(1/k). A head's control is there to be compared and does not enter the verdict.
    """
    auditors = [
        *_left_out(index, votes, rules),
        *_non_voters(answers, index, votes, rules),
        *_on_vectors(answers, index, votes, rules),
        *_fresh(answers, index, votes, rules, probe),
    ]
    kept = (outcome(votes, rules) == ROBUST) & (index.k > 0)
    chance = float(np.mean(1 / index.k[kept])) if kept.any() else None
    verdict, reasons = judged(auditors, chance, margin)
    if rules.probe_vote != "none":
        reasons = [*reasons, Plain(code="probe_voted")]
    return Residual(
        leave_one_out=_of_kind("leave_one_out", auditors),
        non_voters=_of_kind("non_voter", auditors),
        heads={a.name: a.head_entry() for a in auditors if a.kind == "head"},
        probe=next(iter(_of_kind("probe", auditors).values()), None),
        probe_voted=rules.probe_vote != "none",
        chance=chance,
        margin=margin,
        verdict=verdict,
        reasons=tuple(reasons),
    )


def judged(
    auditors: Sequence[Auditor], chance: float | None, margin: float
) -> tuple[Verdict, list[AuditReason]]:
    """The verdict and its reasons; auditors without an answer do not count.

    Upper bounds are at 95 %, as all of them must hold. Lower bounds share 5 % among the auditors
    (Bonferroni), as any of them may raise the alarm. What stays within the margin is certified even where
    it is above chance.
    """
    answered = [a for a in auditors if a.audit.rate.n]
    if chance is None or not answered:
        return "inconclusive", [Plain(code="no_item_kept" if chance is None else "no_auditor")]
    level = 1 - 0.05 / len(answered)
    open_ = [a for a in answered if a.audit.bounds()[1] >= a.audit.limit(chance) + margin]
    above = [(a.audit.bounds(level)[0] - a.audit.limit(chance), a) for a in answered]
    outside = [a for a in answered if a.independent]
    vouching = [a for a in outside if a.audit.could_see(margin)]
    if vouching and not open_:
        blind = all(a.sees is False for a in vouching)
        below = BelowMargin(auditors=len(answered), margin=margin)
        return "certified", [below, *([Plain(code="nothing_to_see")] if blind else [])]
    if any(by > 0 for by, _ in above):
        most_first = sorted(above, key=lambda one: one[0], reverse=True)
        return "not certified", [_above_chance(a, chance, level) for by, a in most_first if by > 0]
    reasons: list[AuditReason] = [] if outside else [Plain(code="no_independent_auditor")]
    reasons += [_not_below_margin(a, chance, margin) for a in open_]
    if not vouching:
        could_not = [a for a in outside if a not in open_]
        reasons += [CouldNotSee(**a.reason(), free=a.audit.free) for a in could_not]
    return "inconclusive", reasons


def _above_chance(a: Auditor, chance: float, level: float) -> AboveChance:
    even = chance if a.audit.even is None else a.audit.even
    low, limit = a.audit.bounds(level)[0], a.audit.limit(chance)
    return AboveChance(**a.reason(), low=low, limit=limit, even=even, expected=a.audit.chance)


def _not_below_margin(a: Auditor, chance: float, margin: float) -> NotBelowMargin:
    return NotBelowMargin(**a.reason(), high=a.audit.bounds()[1], limit=a.audit.limit(chance) + margin)


def _of_kind(kind: AuditorKind, auditors: Sequence[Auditor]) -> dict[str, entries.Auditor]:
    return {a.name: a.entry() for a in auditors if a.kind == kind}


def _left_out(index: ItemIndex, votes: Votes, rules: ScreenRules) -> Iterator[Auditor]:
    for m, name in enumerate(votes.voters):
        others = votes.without(name)
        if others.voters or rules.probe_vote != "none":
            best = votes.best[:, m]
            found, before = _on_kept(best, others, rules), _on_all(best, index)
            yield Auditor("leave_one_out", name, found, independent=False, before=before)


def _non_voters(answers: Answers, index: ItemIndex, votes: Votes, rules: ScreenRules) -> Iterator[Auditor]:
    names = [m for m in models_asked(answers, VIEW_OF[rules.mode], votes.template) if m not in votes.voters]
    if names and votes.template is not None:
        apart = rules.model_copy(update={"voters": tuple(names), "template": votes.template})
        best = cast_votes(answers, apart, index).best
        for m, name in enumerate(names):
            found, before = _on_kept(best[:, m], votes, rules), _on_all(best[:, m], index)
            yield Auditor("non_voter", name, found, independent=True, before=before)


def _on_vectors(answers: Answers, index: ItemIndex, votes: Votes, rules: ScreenRules) -> Iterator[Auditor]:
    """A head is independent although it was cross-fitted on all items, those that the filter removed too: it
    never voted, and a prediction rests on the keys of other items only, neither its own nor its near-duplicates'.
    Were there no shortcut in what was kept, its pick would not know which of the options left is the key.
    """
    for name in models_asked(answers, HEAD, TEMPLATE):
        if not name.endswith(CONTROL):
            best = _head_picks(answers, index, name)
            control = _on_kept(_head_picks(answers, index, name + CONTROL), votes, rules, fitted=True).rate
            yield Auditor(
                "head",
                name,
                _on_kept(best, votes, rules, fitted=True),
                independent=True,
                before=_on_all(best, index, fitted=True),
                control=control if control.n else None,
            )


def _head_picks(answers: Answers, index: ItemIndex, name: str) -> Bools:
    # Its rows are log probabilities over the options, as those of letters are.
    return averaged(answers.block(HEAD, name, TEMPLATE), "letter", index)


def _fresh(
    answers: Answers, index: ItemIndex, votes: Votes, rules: ScreenRules, probe: FreshProbe
) -> Iterator[Auditor]:
    found = probe.audit(votes, rules)
    if found is not None:
        before = _on_all(averaged(answers.block(PROBE, PROBE), "letter", index), index, fitted=True)
        yield Auditor("probe", "probe", found, rules.probe_vote == "none", before=before)


def _on_kept(best: Bools, by: Votes, rules: ScreenRules, *, fitted: bool = False) -> Audit:
    mask = _kept(by, rules)
    return _audited(best[mask], by.key[mask], by.k[mask], would_flag(by, rules)[mask], fitted=fitted)


def _on_all(best: Bools, index: ItemIndex, *, fitted: bool = False) -> Audit:
    known = index.k > 0
    return _audited(best[known], index.key[known], index.k[known], np.zeros_like(best[known]), fitted=fitted)


def _kept(votes: Votes, rules: ScreenRules) -> Bools:
    # Without the items that a missing answer could turn, chance after selection is exact.
    return np.asarray((outcome(votes, rules) == ROBUST) & weighed(votes, rules))


def _audited(best: Bools, key: Ints, k: Ints, would: Bools, *, fitted: bool) -> Audit:
    """An item is kept because its key is none of the options that would have flagged it, so under
    exchangeable keys the key is any of the others; a pick among the flagging options cannot be right.
    """
    tied = best.sum(axis=1)
    there = tied > 0
    share, k = best[there] / tied[there, None], k[there]
    won = np.take_along_axis(share, key[there, None], axis=1)[:, 0] if there.any() else np.zeros(0)
    open_ = (share * ~would[there]).sum(axis=1)
    chance = open_ / np.maximum(k - would[there].sum(axis=1), 1)
    if not len(won):
        return Audit(rate(won), None)
    shown = _widened(rate(won)) if fitted else rate(won)
    return Audit(shown, float(chance.mean()), float(np.mean(1 / k)), int(np.count_nonzero(open_)), fitted)


def _bounds(right: float, n: int, fitted: bool, level: float = 0.95) -> Interval:
    """Clopper-Pearson; of the next whole counts where ties share credit.

    Of cross-fitted picks half are counted. A coin's interval is too narrow for them (Noirhomme et al. 2014): an
    item's key is in the fit of the others' picks, and theirs in its own, so that they are correlated. As far as
    a pick depends on the other keys one by one, this at most doubles the variance; on clean sets it was 1.1 to 1.9
    times a coin's.
    """
    weight = 0.5 if fitted else 1.0
    few = math.floor(n * weight)
    low = clopper_pearson(math.floor(right * weight + 1e-6), math.ceil(n * weight), level)[0]
    return low, clopper_pearson(min(math.ceil(right * weight - 1e-6), few), few, level)[1]


def _widened(of: Rate) -> Rate:
    """The same rate with the interval of half as many items, for display."""
    half = of.n // 2
    return Rate(of.value, of.n, wilson((of.value or 0.0) * half, half)) if of.n else of
