"""Are shortcuts left in what was kept? Nobody certifies with its own filter.

Three kinds of auditors answer the kept items without their questions: each voter on what the other voters
keep, models that did not vote, and a fresh cross-fitted probe. Whoever agrees with the filter scores low on
the kept items by selection alone, so each auditor is held against the luck that the selection left it, and
nothing is certified unless somebody independent looked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from robustify.answers import Answers
from robustify.ballot import VIEW_OF, Ballot, Roll, ScreenRules, cast_votes, models
from robustify.cloze import best as tied_for_best
from robustify.consensus import ROBUST, outcome, weighed, would_flag
from robustify.features import matrix
from robustify.item import Item
from robustify.probe import FEWEST_ITEMS, ProbeSettings, crossfit, folds
from robustify.stats import Interval, Rate, clopper_pearson, percent, rate, wilson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Word = Literal["certified", "not certified", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Audit:
    """A rate on the kept items, and `luck`: what the selection leaves a picker that knows nothing. `whole`
    says that no credit was shared.
    """

    found: Rate
    luck: float | None
    whole: bool

    def bounds(self, level: float = 0.95) -> Interval:
        """The interval that decides: Clopper-Pearson, or Wilson where ties share credit."""
        right = (self.found.value or 0.0) * self.found.n
        if self.whole:
            return clopper_pearson(round(right), self.found.n, level)
        return wilson(right, self.found.n, level)

    def bar(self, chance: float) -> float:
        """What counts as chance: the smaller of 1/k and the selection's luck, so that neither agreeing nor
        disagreeing with the filter hides a shortcut.
        """
        return chance if self.luck is None else min(chance, self.luck)

    def json(self) -> dict[str, object]:
        """The rate with its own chance beside it."""
        return {**self.found.json(), "chance": self.luck}


@dataclass(frozen=True, slots=True)
class Auditor:
    """Who audited, whether it is independent of the filter, and what it found."""

    kind: Literal["leave_one_out", "held_out", "probe"]
    name: str
    audit: Audit
    independent: bool


class FreshProbe:
    """Probes trained afresh on kept items, each set of items once; without items there are none."""

    def __init__(self, items: Sequence[Item] | None, settings: ProbeSettings) -> None:
        self.items = {item.id: (i, item) for i, item in enumerate(items or ())}
        self.settings = settings
        self._seen: dict[tuple[str, ...], Bools] = {}

    def audit(self, votes: Ballot, rules: ScreenRules) -> Audit | None:
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
        return _audited(best, kept, would) if best.any() else None

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
    held: Roll,
    votes: Ballot,
    rules: ScreenRules,
    probe: FreshProbe,
    margin: float,
) -> dict[str, object]:
    """The audit of the items that `rules` keep, as in summary.json; `margin`: what may be left above chance.

    `certified` when the upper bound of every auditor is below chance plus margin and one of them is
    independent; else `not certified` when the lower bound of any is above chance; else `inconclusive`. An
    auditor's `chance` is what the selection leaves to luck (`Audit.bar`), the audit's is mean(1/k).
    """
    auditors = [
        *_left_out(votes, rules),
        *_held_out(answers, held, votes, rules),
        *_fresh(votes, rules, probe),
    ]
    kept = (outcome(votes, rules) == ROBUST) & (held.k > 0)
    chance = float(np.mean(1 / held.k[kept])) if kept.any() else None
    verdict, reasons = judged(auditors, chance, margin)
    if rules.probe_vote != "none":
        reasons = [*reasons, "the probe voted, so a fresh probe is no independent auditor"]
    by_kind = {
        kind: {a.name: a.audit.json() for a in auditors if a.kind == kind}
        for kind in ("leave_one_out", "held_out")
    }
    return {
        **by_kind,
        "probe": next((a.audit.json() for a in auditors if a.kind == "probe"), None),
        "probe_voted": rules.probe_vote != "none",
        "chance": chance,
        "margin": margin,
        "verdict": verdict,
        "reasons": reasons,
    }


def judged(auditors: Sequence[Auditor], chance: float | None, margin: float) -> tuple[Word, list[str]]:
    """The verdict and its reasons; auditors without an answer say nothing.

    Upper bounds are at 95 %, as all of them must hold. Lower bounds share 5 % among the auditors
    (Bonferroni), as any of them may raise the alarm. What stays within the margin is certified even where
    it is above chance.
    """
    heard = [a for a in auditors if a.audit.found.n]
    if chance is None or not heard:
        return "inconclusive", ["no item was kept" if chance is None else "nobody audited what was kept"]
    level = 1 - 0.05 / len(heard)
    open_ = [a for a in heard if a.audit.bounds()[1] >= a.audit.bar(chance) + margin]
    above = [(a.audit.bounds(level)[0] - a.audit.bar(chance), _found(a, chance, level)) for a in heard]
    outside = any(a.independent for a in heard)
    if outside and not open_:
        return "certified", [
            f"{len(heard)} auditors stay below chance plus {100 * margin:.0f} points, bounds included"
        ]
    if any(by > 0 for by, _ in above):
        return "not certified", [said for by, said in sorted(above, reverse=True) if by > 0]
    alone = [] if outside else ["no independent auditor: no model was held out of the vote, no fresh probe"]
    return "inconclusive", [*alone, *(_doubt(a, chance, margin) for a in open_)]


def _left_out(votes: Ballot, rules: ScreenRules) -> Iterator[Auditor]:
    for m, name in enumerate(votes.voters):
        others = votes.without(name)
        if others.voters or rules.probe_vote != "none":
            yield _auditor("leave_one_out", name, votes.best[:, m], others, rules, independent=False)


def _held_out(answers: Answers, held: Roll, votes: Ballot, rules: ScreenRules) -> Iterator[Auditor]:
    names = [m for m in models(answers, VIEW_OF[rules.mode], votes.template) if m not in votes.voters]
    if names and votes.template is not None:
        apart = rules.model_copy(update={"voters": tuple(names), "template": votes.template})
        best = cast_votes(answers, apart, held).best
        for m, name in enumerate(names):
            yield _auditor("held_out", name, best[:, m], votes, rules, independent=True)


def _fresh(votes: Ballot, rules: ScreenRules, probe: FreshProbe) -> Iterator[Auditor]:
    found = probe.audit(votes, rules)
    if found is not None:
        yield Auditor("probe", "probe", found, rules.probe_vote == "none")


def _auditor(
    kind: Literal["leave_one_out", "held_out"],
    name: str,
    best: Bools,
    by: Ballot,
    rules: ScreenRules,
    *,
    independent: bool,
) -> Auditor:
    mask = _kept(by, rules)
    found = _audited(best[mask], by.where(mask), would_flag(by, rules)[mask])
    return Auditor(kind, name, found, independent)


def _kept(votes: Ballot, rules: ScreenRules) -> Bools:
    # Without the items that a missing answer could turn, the luck below is exact.
    return np.asarray((outcome(votes, rules) == ROBUST) & weighed(votes, rules))


def _audited(best: Bools, kept: Ballot, would: Bools) -> Audit:
    """An item is kept because its key is none of the options that would have flagged it, so under
    exchangeable keys the key is any of the others; a pick among the flagging options cannot be right.
    """
    tied = best.sum(axis=1)
    there = tied > 0
    share = best[there] / tied[there, None]
    won = np.take_along_axis(share, kept.key[there, None], axis=1)[:, 0] if there.any() else np.zeros(0)
    free = kept.k[there] - would[there].sum(axis=1)
    luck = (share * ~would[there]).sum(axis=1) / np.maximum(free, 1)
    whole = bool(np.all((won == 0) | (won == 1)))
    return Audit(rate(won), float(luck.mean()) if len(won) else None, whole)


KINDS = {"leave_one_out": "left out of the vote", "held_out": "held out", "probe": "trained on what was kept"}


def _found(a: Auditor, chance: float, level: float) -> str:
    low, luck, bar = a.audit.bounds(level)[0], a.audit.luck, a.audit.bar(chance)
    said = f"{_rate(a)}, lower bound {percent(low)}, is above chance ({percent(bar)})"
    if luck is not None and chance < luck and low <= luck:
        return f"{said}; no more than the filter itself made predictable ({percent(luck)})"
    if bar < chance:
        return f"{said}: {percent(chance)} less what selection takes from whoever agrees with the filter"
    return said


def _doubt(a: Auditor, chance: float, margin: float) -> str:
    bar = percent(a.audit.bar(chance) + margin)
    return f"{_rate(a)}, upper bound {percent(a.audit.bounds()[1])}, is not below chance plus margin ({bar})"


def _rate(a: Auditor) -> str:
    found = a.audit.found
    return f"{a.name} ({KINDS[a.kind]}): {percent(found.value or 0.0)} of {found.n} items"
