"""Are shortcuts left in what was kept? Nobody certifies with its own filter.

Four kinds of auditors answer the kept items without their questions: each voter on what the other voters
keep, models that did not vote, linear heads on frozen models' vectors, and a fresh cross-fitted probe. Whoever
agrees with the filter scores low on the kept items by selection alone, so each auditor is held against the luck
that the selection left it, and nothing is certified unless somebody independent looked, and could have seen.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

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
from robustify.stats.intervals import Interval, Rate, clopper_pearson, percent, rate, wilson

Word = Literal["certified", "not certified", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Audit:
    """A rate on some items, and what luck is there: `luck` is what the selection leaves a picker that knows
    nothing, `even` the mean of 1/k on the same items, and `free` the number of them on which the pick was not
    ruled out before anybody looked (None: all). `fitted`: the picker was cross-fitted on these items.
    """

    found: Rate
    luck: float | None
    even: float | None = None
    free: int | None = None
    fitted: bool = False

    def bounds(self, level: float = 0.95) -> Interval:
        """The interval that decides: Clopper-Pearson, see `_bounds`."""
        return _bounds((self.found.value or 0.0) * self.found.n, self.found.n, self.fitted, level)

    def bar(self, chance: float) -> float:
        """What counts as chance: the smaller of 1/k and the selection's luck, so that neither agreeing nor
        disagreeing with the filter hides a shortcut. `chance` stands in where 1/k of these items is not known.
        """
        even = chance if self.even is None else self.even
        return even if self.luck is None else min(even, self.luck)

    def could_see(self, margin: float) -> bool:
        """Whether these items could have shown a shortcut: on those where the pick was free, the upper bound is
        below luck plus `margin`. Who picks as the filter does is never right on what was kept, and proves nothing.
        """
        free = self.found.n if self.free is None else self.free
        if not free or self.luck is None:
            return False
        right = (self.found.value or 0.0) * self.found.n
        return _bounds(right, free, self.fitted)[1] < self.luck * self.found.n / free + margin

    def json(self) -> dict[str, object]:
        """The rate with its own chance beside it."""
        return {**self.found.json(), "chance": self.luck, "free": self.free}


@dataclass(frozen=True, slots=True)
class Auditor:
    """Who audited, whether it is independent of the filter, and what it found.

    `before`: what it got of all items, kept or not; `control`: what the same head on random weights found.
    """

    kind: Literal["leave_one_out", "held_out", "head", "probe"]
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

    def json(self) -> dict[str, object]:
        """What it found, as in summary.json."""
        before = None if self.before is None else self.before.found.json()
        control = {"control": None if self.control is None else self.control.json()}
        return {**self.audit.json(), "before": before, **(control if self.kind == "head" else {})}


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
    held: ItemIndex,
    votes: Votes,
    rules: ScreenRules,
    probe: FreshProbe,
    margin: float,
) -> dict[str, object]:
    """The audit of the items that `rules` keep, as in summary.json; `margin`: what may be left above chance.

    `certified` when the upper bound of every auditor is below chance plus margin and one of them is
    independent and could have seen a shortcut; else `not certified` when the lower bound of any is above chance;
    else `inconclusive`. An auditor's `chance` is what the selection leaves to luck (`Audit.bar`), the audit's is
    mean(1/k). A head's control is there to be compared and says nothing to the verdict.
    """
    auditors = [
        *_left_out(held, votes, rules),
        *_held_out(answers, held, votes, rules),
        *_on_vectors(answers, held, votes, rules),
        *_fresh(answers, held, votes, rules, probe),
    ]
    kept = (outcome(votes, rules) == ROBUST) & (held.k > 0)
    chance = float(np.mean(1 / held.k[kept])) if kept.any() else None
    verdict, reasons = judged(auditors, chance, margin)
    if rules.probe_vote != "none":
        reasons = [*reasons, "the probe voted, so a fresh probe is no independent auditor"]
    return {
        "leave_one_out": _of_kind("leave_one_out", auditors),
        "held_out": _of_kind("held_out", auditors),
        "heads": _of_kind("head", auditors),
        "probe": next(iter(_of_kind("probe", auditors).values()), None),
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
    outside = [a for a in heard if a.independent]
    vouching = [a for a in outside if a.audit.could_see(margin)]
    if vouching and not open_:
        said = f"{len(heard)} auditors stay below chance plus {100 * margin:.0f} points, bounds included"
        return "certified", [said, *_caveat(vouching)]
    if any(by > 0 for by, _ in above):
        return "not certified", [said for by, said in sorted(above, reverse=True) if by > 0]
    alone = ["no independent auditor: no model was held out of the vote, no head, no fresh probe"]
    blind = [_blind(a) for a in outside if a not in vouching and a not in open_]
    return "inconclusive", [
        *([] if outside else alone),
        *(_doubt(a, chance, margin) for a in open_),
        *([] if vouching else blind),
    ]


def _of_kind(kind: str, auditors: Sequence[Auditor]) -> dict[str, object]:
    return {a.name: a.json() for a in auditors if a.kind == kind}


def _left_out(held: ItemIndex, votes: Votes, rules: ScreenRules) -> Iterator[Auditor]:
    for m, name in enumerate(votes.voters):
        others = votes.without(name)
        if others.voters or rules.probe_vote != "none":
            best = votes.best[:, m]
            found, before = _on_kept(best, others, rules), _on_all(best, held)
            yield Auditor("leave_one_out", name, found, independent=False, before=before)


def _held_out(answers: Answers, held: ItemIndex, votes: Votes, rules: ScreenRules) -> Iterator[Auditor]:
    names = [m for m in models_asked(answers, VIEW_OF[rules.mode], votes.template) if m not in votes.voters]
    if names and votes.template is not None:
        apart = rules.model_copy(update={"voters": tuple(names), "template": votes.template})
        best = cast_votes(answers, apart, held).best
        for m, name in enumerate(names):
            found, before = _on_kept(best[:, m], votes, rules), _on_all(best[:, m], held)
            yield Auditor("held_out", name, found, independent=True, before=before)


def _on_vectors(answers: Answers, held: ItemIndex, votes: Votes, rules: ScreenRules) -> Iterator[Auditor]:
    """A head is independent although it was cross-fitted on all items, those that the filter removed too: it
    never voted, and a prediction rests on the keys of other items only, neither its own nor its near-duplicates'.
    Were there no shortcut in what was kept, its pick would not know which of the options left is the key.
    """
    for name in models_asked(answers, HEAD, TEMPLATE):
        if not name.endswith(CONTROL):
            best = _head_picks(answers, held, name)
            control = _on_kept(_head_picks(answers, held, name + CONTROL), votes, rules, fitted=True).found
            yield Auditor(
                "head",
                name,
                _on_kept(best, votes, rules, fitted=True),
                independent=True,
                before=_on_all(best, held, fitted=True),
                control=control if control.n else None,
            )


def _head_picks(answers: Answers, held: ItemIndex, name: str) -> Bools:
    # Its rows are log probabilities over the options, as those of letters are.
    return averaged(answers.block(HEAD, name, TEMPLATE), "letter", held)


def _fresh(
    answers: Answers, held: ItemIndex, votes: Votes, rules: ScreenRules, probe: FreshProbe
) -> Iterator[Auditor]:
    found = probe.audit(votes, rules)
    if found is not None:
        before = _on_all(averaged(answers.block(PROBE, PROBE), "letter", held), held, fitted=True)
        yield Auditor("probe", "probe", found, rules.probe_vote == "none", before=before)


def _on_kept(best: Bools, by: Votes, rules: ScreenRules, *, fitted: bool = False) -> Audit:
    mask = _kept(by, rules)
    return _audited(best[mask], by.key[mask], by.k[mask], would_flag(by, rules)[mask], fitted=fitted)


def _on_all(best: Bools, held: ItemIndex, *, fitted: bool = False) -> Audit:
    known = held.k > 0
    return _audited(best[known], held.key[known], held.k[known], np.zeros_like(best[known]), fitted=fitted)


def _kept(votes: Votes, rules: ScreenRules) -> Bools:
    # Without the items that a missing answer could turn, the luck below is exact.
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
    luck = open_ / np.maximum(k - would[there].sum(axis=1), 1)
    if not len(won):
        return Audit(rate(won), None)
    found = _widened(rate(won)) if fitted else rate(won)
    return Audit(found, float(luck.mean()), float(np.mean(1 / k)), int(np.count_nonzero(open_)), fitted)


def _bounds(right: float, n: int, fitted: bool, level: float = 0.95) -> Interval:
    """Clopper-Pearson; of the next whole counts where ties share credit.

    Of cross-fitted picks half are counted. A coin's interval is too narrow for them (Noirhomme et al. 2014): an
    item's key is in the fit of the others' picks, and theirs in its own, so that luck comes in company. As far as
    a pick leans on the other keys one by one, this at most doubles the variance; on clean sets it was 1.1 to 1.9
    times a coin's.
    """
    weight = 0.5 if fitted else 1.0
    few = math.floor(n * weight)
    low = clopper_pearson(math.floor(right * weight + 1e-6), math.ceil(n * weight), level)[0]
    return low, clopper_pearson(min(math.ceil(right * weight - 1e-6), few), few, level)[1]


def _widened(found: Rate) -> Rate:
    """The same rate with the interval of half as many items, for the eye."""
    half = found.n // 2
    return replace(found, ci=wilson((found.value or 0.0) * half, half)) if found.n else found


def _caveat(vouching: Sequence[Auditor]) -> list[str]:
    if all(a.sees is False for a in vouching):
        return [
            "none of the independent auditors is above chance on all items either: either there was nothing to "
            "see, or they cannot see it"
        ]
    return []


def _blind(a: Auditor) -> str:
    n, free = a.audit.found.n, a.audit.free
    return (
        f"{_rate(a)}: it picks so much as the filter does that it could have been right on {free} of the {n} "
        "only, too few to vouch for them"
    )


KINDS = {
    "leave_one_out": "left out of the vote",
    "held_out": "held out",
    "head": "linear head on its vectors",
    "probe": "trained on what was kept",
}


def _found(a: Auditor, chance: float, level: float) -> str:
    low, luck, bar = a.audit.bounds(level)[0], a.audit.luck, a.audit.bar(chance)
    even = chance if a.audit.even is None else a.audit.even
    said = f"{_rate(a)}, lower bound {percent(low)}, is above chance ({percent(bar)})"
    if luck is not None and even < luck and low <= luck:
        return f"{said}; no more than the filter itself made predictable ({percent(luck)})"
    if bar < even:
        return f"{said}: {percent(even)} less what selection takes from whoever agrees with the filter"
    return said


def _doubt(a: Auditor, chance: float, margin: float) -> str:
    bar = percent(a.audit.bar(chance) + margin)
    return f"{_rate(a)}, upper bound {percent(a.audit.bounds()[1])}, is not below chance plus margin ({bar})"


def _rate(a: Auditor) -> str:
    found = a.audit.found
    return f"{a.name} ({KINDS[a.kind]}): {percent(found.value or 0.0)} of {found.n} items"
