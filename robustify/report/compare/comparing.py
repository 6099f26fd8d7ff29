"""Comparison of finished runs: changed numbers, changed verdicts, and edited items.

The runs are read, and no model is asked. Differences on matched items are paired. All others use only the two
summaries. A difference is the second run minus the first.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from robustify.arrays import Floats, Ints, group_numbers
from robustify.judging.accuracy import Scored, ScoredBy, compare_pair, scored
from robustify.judging.measures import (
    ADJUSTED,
    CHOICES_ONLY,
    COMPARED,
    FLAGGED,
    SET,
    Measure,
    PerItem,
    of_section,
)
from robustify.report.compare.change import Change, Split
from robustify.report.compare.matching import Match, matched
from robustify.report.format import counted
from robustify.run import SPLIT_FILES, VERDICTS, Run, open_run
from robustify.screen.item_index import item_index
from robustify.stats.balance import weighted_difference
from robustify.stats.intervals import rate
from robustify.stats.tests import NORMAL, holm, newcombe
from robustify.summary.measured import Measured
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary

Tree = dict[str, Any]
ANSWERS = "answers.parquet"


@dataclass(frozen=True)
class Side:
    """One run of a pair: its index, its summary, and its IDs of the `common` items."""

    place: int
    run: Run
    summary: Summary
    common: tuple[str, ...]

    @cached_property
    def verdicts(self) -> list[str]:
        """Verdicts of this run on the items that both runs contain."""
        found = self.run.verdicts if self.common else {}
        return [found[item] for item in self.common]

    @cached_property
    def weight(self) -> Floats:
        """Weights of the common items in the adjusted score, NaN if an item has none (n_common,)."""
        found = {row["item"]: float(row.get("adjusted_weight") or "nan") for row in self.run.verdict_rows()}
        return np.array([found[item] for item in self.common])

    @property
    def removed(self) -> Floats:
        """1 for each removed item and 0 for every other common item (n_common,)."""
        return np.array([float(verdict == "shortcut") for verdict in self.verdicts])

    @cached_property
    def groups(self) -> Ints | None:
        """Group number of each common item (n_common,), or None if no item belongs to a group."""
        group_of = {item.id: item.group for item in self.run.items or ()}
        return group_numbers(self.common, group_of) if any(map(group_of.get, self.common)) else None

    def scored(self, model: str) -> Scored:
        """Return the model's credits on the common items by view, as the run scored them."""
        screen = self.summary.screen
        by = ScoredBy(self.summary.full_mode)
        if screen is not None:
            by = replace(by, screen=screen.mode, template=screen.template, norm=screen.norm or "chars")
        answers = self.run.answers
        return scored(answers, item_index(answers, self.common), model, by)

    def values(self, measure: PerItem, model: Scored) -> Floats | None:
        """Return the value of a measure for each common item (n_common,)."""
        values = measure.values(model)
        if values is None or not measure.cloze:
            return values
        fit = {row["item"] for row in self.run.verdict_rows() if not row.get("cloze_excluded")}
        return np.where([item in fit for item in self.common], values, np.nan)


@dataclass(frozen=True)
class Pair:
    """Two runs and their differences.

    Items are matched unless `why_not` gives a reason. `n_only` counts the items that only one of the runs contains.
    """

    one: Side
    two: Side
    why_not: str | None
    items: tuple[Match, ...]
    n_only: tuple[int, int]
    changes: tuple[Change, ...] = ()

    @cached_property
    def verdicts(self) -> list[tuple[Match, tuple[str, str]]]:
        """Pairs of matched items, each with the verdicts of both runs."""
        return list(zip(self.items, zip(self.one.verdicts, self.two.verdicts, strict=True), strict=True))

    @cached_property
    def moved(self) -> list[tuple[Match, tuple[str, str]]]:
        """Matched items whose verdict changed, with both verdicts."""
        return [(item, both) for item, both in self.verdicts if both[0] != both[1]]

    @cached_property
    def mended(self) -> list[tuple[Match, tuple[str, str]]]:
        """Matched items whose text or key changed, with both verdicts."""
        return [(item, both) for item, both in self.verdicts if item.mended]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Number of items for each change of verdict."""
        return sorted(Counter(f"{a} -> {b}" for _, (a, b) in self.moved).items())

    @property
    def warning(self) -> str:
        """Reason why the numbers of the two runs differ in meaning, or an empty string."""
        one, two = self.one.summary.screen, self.two.summary.screen
        if one is not None and two is not None and one.hidden != two.hidden:
            hidden = f"{one.hidden} and {two.hidden}"
            return f"the screens hid different parts of the items ({hidden}); do not compare their rates"
        if self.two_modes:
            return "one screen asked by letter and the other by text, so choices only is not compared"
        return ""

    @property
    def two_modes(self) -> bool:
        """Whether one screen asked by letter and the other by text."""
        one, two = self.one.summary.screen, self.two.summary.screen
        return one is not None and two is not None and one.mode != two.mode

    @property
    def mended_words(self) -> str:
        """Effect of the edits, such as `29 of 31 flagged items mended, 2 not edited, 0 newly flagged`.

        An item is mended if it was edited and is no longer flagged.
        """
        edited = Counter(both for _, both in self.mended)
        flagged = [item for item, (a, _) in self.verdicts if a == "shortcut"]
        still = edited["shortcut", "shortcut"]
        mended = sum(n for (a, _), n in edited.items() if a == "shortcut") - still
        newly = sum(b == "shortcut" != a for _, (a, b) in self.verdicts)
        counts = {"not edited": sum(not item.mended for item in flagged), "still flagged": still}
        parts = (f", {n} {words}" for words, n in counts.items() if n)
        return f"{mended} of {counted(len(flagged), 'flagged item')} mended{''.join(parts)}, {newly} newly flagged"

    def tree(self) -> Tree:
        """Return the pair as JSON values."""
        named: Tree = {
            "runs": [self.one.place, self.two.place],
            "changes": [c.tree() for c in self.changes],
            "why_not": self.why_not,
        }
        if self.why_not is not None:
            return named
        removed = [(a == "shortcut", b == "shortcut") for _, (a, b) in self.verdicts]
        either = np.array([a and b for a, b in removed if a or b], dtype=np.float64)
        return {
            **named,
            "n_common": len(self.items),
            "n_only": list(self.n_only),
            "removed": [sum(a for a, _ in removed), sum(b for _, b in removed)],
            "jaccard": rate(either).json(),
            "moved": dict(self.counts),
            "moved_items": _listed(self.moved),
            "mended": len(self.mended),
            "mended_items": _listed(self.mended),
        }

    def measured(self) -> Iterator[Change]:
        """Yield the change of every number that both runs contain, without `p_holm`."""
        one, two = self.one, self.two
        compared = of_section(*COMPARED)
        for measure in (m for m in compared if m.scope == "set"):
            # Flagged items are counted over all items, because dropping an item fixes it as well as rewriting does.
            if measure is FLAGGED and self.items and not any(self.n_only):
                yield self._paired(measure, "all", None, one.removed, two.removed)
            else:
                yield from self._unpaired(measure, None)
        by_item = bool(self.items) and all(ANSWERS in side.run.manifest["files"] for side in (one, two))
        first, second = one.summary.models, two.summary.models
        for a, b in _same_models(list(first), list(second)):
            x, y = (one.scored(a), two.scored(b)) if by_item else (None, None)
            voter = first[a].is_voter or second[b].is_voter
            for measure in (m for m in compared if m.scope == "model"):
                for change in self._of_model(measure, (a, b), x, y):
                    yield replace(change, voter=voter and change.part == "kept")

    def _of_model(
        self, measure: Measure, models: tuple[str, str], one: Scored | None, two: Scored | None
    ) -> Iterator[Change]:
        """Yield the change on all and on the kept items, paired if both runs have a value for each item."""
        if measure is CHOICES_ONLY and self.two_modes:
            return
        x = y = None
        if one is not None and two is not None and isinstance(measure.compute, PerItem):
            x, y = self.one.values(measure.compute, one), self.two.values(measure.compute, two)
        elif one is not None and two is not None and measure is ADJUSTED:
            yield from self._adjusted(models, one.credits["full"], two.credits["full"])
            return
        if x is None or y is None:
            yield from self._unpaired(measure, models)
            return
        change = self._paired(measure, "all", models, x, y)
        yield change
        if change.same:
            # The answers are equal, so only the kept items can differ.
            yield from self._unpaired(measure, models, ("kept",))
        else:
            robust = np.array([both == ("robust", "robust") for _, both in self.verdicts])
            yield self._paired(measure, "kept", models, *(np.where(robust, v, np.nan) for v in (x, y)))

    def _adjusted(self, models: tuple[str, str], x: Floats | None, y: Floats | None) -> Iterator[Change]:
        """Yield the change of the adjusted score, paired if both runs weight every item alike."""
        if x is None or y is None or not np.array_equal(self.one.weight, self.two.weight, equal_nan=True):
            yield from self._unpaired(ADJUSTED, models)
            return
        weight = self.one.weight
        found, p = weighted_difference(y, x, weight, self.one.groups)
        if not found.n:
            return
        there, same = ~np.isnan(x + y + weight), not found.error
        values = (float(np.average(v[there], weights=weight[there])) for v in (x, y))
        first, second = (Quantity(value=value, n=found.n) for value in values)
        shown = first, second, Quantity.of(found)
        yield Change(
            ADJUSTED.name, "all", models, *shown, found.error, None if same else p, paired=True, same=same
        )

    def _paired(
        self, measure: Measure, part: Split, models: tuple[str, str] | None, x: Floats, y: Floats
    ) -> Change:
        """Return the change on items that both runs answered. Credits are NaN if unanswered (n_common,)."""
        there = ~np.isnan(x) & ~np.isnan(y)
        found = compare_pair(y, x, self.one.groups)
        same = bool(np.array_equal(x[there], y[there]))
        n = found.difference.n
        first, second = (Quantity(value=float(v[there].mean()) if n else None, n=n) for v in (x, y))
        difference = Quantity.of(found.difference)
        p, error = None if same else found.p, found.difference.error
        return Change(measure.name, part, models, first, second, difference, error, p, paired=True, same=same)

    def _unpaired(
        self, measure: Measure, models: tuple[str, str] | None, parts: tuple[Split, ...] = ("all", "kept")
    ) -> Iterator[Change]:
        """Yield the change of each part of a number that both summaries contain."""
        named = zip((self.one, self.two), models or (SET, SET), strict=True)
        found = [measure.of(side.summary).get(model, Measured()) for side, model in named]
        for part in parts:
            q, r = (one.all if part == "all" else one.kept for one in found)
            if q is None or r is None or q.value is None or r.value is None or q.n is None or r.n is None:
                continue
            value, ci, error, p = r.value - q.value, None, None, None
            if q.ci is not None and r.ci is not None:
                ci = newcombe(r.value, r.ci, q.value, q.ci)
                error = (ci[1] - ci[0]) / 2 / NORMAL.inv_cdf(0.975)
                p = 2 * NORMAL.cdf(-abs(value) / error) if error else None
            first, second = (Quantity(value=x.value, n=x.n, ci=x.ci) for x in (q, r))
            shown = first, second, Quantity(value=value, ci=ci)
            yield Change(measure.name, part, models, *shown, error, p, paired=False)


def _listed(items: Sequence[tuple[Match, tuple[str, str]]]) -> list[Tree]:
    return [{"item": item.one, "now": item.two, "from": a, "to": b} for item, (a, b) in items]


def _same_models(one: Sequence[str], two: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of models with the same name.

    If each run has exactly one other model, these two are paired as well, such as a base model and its fine-tuned form.
    """
    left, right = [m for m in one if m not in two], [m for m in two if m not in one]
    return [(m, m) for m in one if m in two] + ([(left[0], right[0])] if len(left) == len(right) == 1 else [])


@dataclass(frozen=True)
class Comparison:
    """Runs, their summaries, and all pairs of runs."""

    runs: tuple[Run, ...]
    summaries: tuple[Summary, ...]
    pairs: tuple[Pair, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """Changes of all pairs."""
        return tuple(change for pair in self.pairs for change in pair.changes)

    def tree(self) -> Tree:
        """Return the comparison as JSON values."""
        runs = [{"run": str(run.folder), "signature": run.manifest["signature"]} for run in self.runs]
        return {"runs": runs, "pairs": [pair.tree() for pair in self.pairs]}


def compared(folders: Sequence[Path]) -> Comparison:
    """Compare the runs in two or more folders.

    Raises:
        UsageError: A folder is not a run.
        DataError: A file was changed after its run.
    """
    runs = tuple(open_run(folder) for folder in folders)
    for run in runs:
        read = ("summary.json", VERDICTS, "answers.parquet", *SPLIT_FILES)
        run.require_unchanged(
            *(name for name in read if name in run.manifest["files"] or name == "summary.json")
        )
    summaries = tuple(run.summary for run in runs)
    pairs = [_pair((i, j), runs, summaries) for i, j in combinations(range(len(runs)), 2)]
    changes = [list(pair.measured()) for pair in pairs]
    adjusted = iter(holm([c.p for of_pair in changes for c in of_pair if c.p is not None]))
    compared_pairs = (
        replace(pair, changes=tuple(c if c.p is None else replace(c, p_holm=next(adjusted)) for c in of_pair))
        for pair, of_pair in zip(pairs, changes, strict=True)
    )
    return Comparison(runs, summaries, tuple(compared_pairs))


def _pair(places: tuple[int, int], runs: Sequence[Run], summaries: Sequence[Summary]) -> Pair:
    one, two = (runs[place] for place in places)
    items: tuple[Match, ...] = ()
    why_not: str | None = "a run without verdicts.csv"
    n_only = (0, 0)
    if all(VERDICTS in run.manifest["files"] for run in (one, two)):
        items = tuple(matched(one, two))
        why_not = None if items else "no item is in both"
        n_only = (len(one.verdicts) - len(items), len(two.verdicts) - len(items))
    common = (tuple(item.one for item in items), tuple(item.two for item in items))
    sides = [
        Side(place, runs[place], summaries[place], ids) for place, ids in zip(places, common, strict=True)
    ]
    return Pair(sides[0], sides[1], why_not, items, n_only)


def rule_of(s: Summary) -> str:
    """Return the criterion and mode of a screen, such as `fdr/text`."""
    return f"{s.screen.criterion}/{s.screen.mode}" if s.screen else "no screen"
