"""Comparison of two finished runs of a set: changed numbers, changed verdicts, and edited items. No model is asked."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.base.files import neutral
from robustify.judging import measures
from robustify.judging.accuracy import ScoredModel, score_model
from robustify.judging.measures import SET, Measure, PerItem, of_section
from robustify.judging.readers.reader_rows import NAME, VIEW
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.stats.intervals import rate
from robustify.judging.stats.tests import LEVEL, holm
from robustify.judging.summary.quantity import Measured
from robustify.judging.summary.result import Summary
from robustify.reading.guard import Guard
from robustify.report.compare.change import (
    FROM_CUT,
    Change,
    Models,
    SameItem,
    Sample,
    Split,
    Tree,
    added_change,
    looks_change,
    paired_change,
    same_items,
    unpaired_change,
)
from robustify.report.format import in_points
from robustify.report.printing import catalogue, filled
from robustify.runs.run import VERDICTS, Run, looks_column, open_run

ANSWERS = "answers.parquet"


@dataclass(frozen=True)
class Side:
    """One of two compared runs, with its position on the command line and its own IDs of the matched items."""

    place: int
    run: Run
    items: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary:
        """Summary of the run."""
        return self.run.summary

    def column(self, name: str) -> list[str]:
        """Return a column of verdicts.csv for the matched items (n_items,). Missing columns give empty strings."""
        cells = {row["item"]: row.get(name, "") for row in self.run.verdict_rows()}
        return [cells[item] for item in self.items]

    @property
    def others(self) -> tuple[str, ...]:
        """IDs of the items that were not matched."""
        matched = set(self.items)
        return tuple(item for item in self.run.verdicts if item not in matched)

    @cached_property
    def groups(self) -> Ints | None:
        """Independent group of each matched item (n_items,), or None if no group has several items."""
        return self._groups_of(self.items)

    def _groups_of(self, names: Sequence[str]) -> Ints | None:
        group_of = self.run.group_of
        return None if group_of is None else np.array([group_of[name] for name in names])

    def scored(self, model: str) -> ScoredModel:
        """Return the model's score on each matched item in each view, under the run's settings."""
        screen, rules, answers = self.summary.screen, ScreenRules(), self.run.answers
        if screen is not None:
            rules = ScreenRules(mode=screen.mode, template=screen.template, norm=screen.norm or "chars")
        return score_model(answers, item_index(answers, self.items), model, self.summary.full_mode, rules)

    def owed(self, model: str) -> Floats | None:
        """Return the model's looks on the matched items, or None if the run cannot estimate them (n_items,)."""
        cells, column = self.run.looks if self.items else None, looks_column(neutral(model))
        if cells is None or column not in cells:
            return None
        looks = dict(zip(cells["item"], cells[column], strict=True))
        return np.array([float(looks[item] or "nan") for item in self.items])

    def read(self, names: Sequence[str]) -> Floats | None:
        """Return the credits of the cross-fitted probe on these items (n_items,), or None if no probe was fitted."""
        block = self.run.answers.block(VIEW, NAME).first()
        return item_index(self.run.answers, names).spread(block, block.correct) if len(block) else None

    def sample(self, names: Sequence[str]) -> Sample | None:
        """Return the cross-fitted probe's credits on these items, and the items' groups, or None if no probe was fitted."""
        credits = self.read(names)
        return None if credits is None else (credits, self._groups_of(names))

    def values(self, measure: Measure, model: ScoredModel) -> Floats | None:
        """Return a measure's values for the matched items, or None if the measure has no values by item (n_items,)."""
        if not isinstance(measure.compute, PerItem):
            return None
        values = measure.compute.values(model)
        if values is None or not measure.compute.cloze:
            return values
        return np.where([not reason for reason in self.column("cloze_excluded")], values, np.nan)


@dataclass(frozen=True)
class RunPair:
    """Two runs and their differences. Items are matched unless `why_not` gives a reason. `only` has the verdicts of
    items that only one run contains."""

    first: Side
    second: Side
    why_not: str | None
    items: tuple[SameItem, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    changes: tuple[Change, ...] = ()

    @property
    def moved(self) -> list[SameItem]:
        """Items whose verdict changed."""
        return [item for item in self.items if item.moved]

    @property
    def edited(self) -> list[SameItem]:
        """Items whose text or key changed."""
        return [item for item in self.items if item.edited]

    @property
    def counts(self) -> dict[str, int]:
        """Number of items for each change of verdict."""
        return dict(sorted(Counter(f"{item.was} -> {item.now}" for item in self.moved).items()))

    @property
    def edits(self) -> dict[str, int]:
        """Number of items for each part that was edited."""
        return dict(sorted(Counter(part for item in self.edited for part in item.edited).items()))

    def screens(self, name: str) -> list[str]:
        """Return the distinct values of a setting in the screens with voters. The first run's value comes first."""
        screens = (side.summary.screen for side in (self.first, self.second))
        return list(dict.fromkeys(getattr(screen, name) for screen in screens if screen and screen.voters))

    def says(self, code: str) -> str:
        """Return the text `code` of the catalog for this pair, or "" if the text does not apply."""
        return filled(catalogue()["compared"][code], {"pair": self, "read": self.reader})

    @property
    def reader(self) -> Change | None:
        """Change in the accuracy of the reader that sees no question, if both runs have such a reader."""
        return next((change for change in self.changes if change.number == measures.READER.name), None)

    @property
    def effect(self) -> list[str]:
        """Sentences on what edits did to the reader's accuracy and the flags, and on what no run can see."""
        return [
            f"{sentence}."
            for code in ("reader", "mended", "edits", "unseen")
            if (sentence := self.says(code))
        ]

    @property
    def printed(self) -> list[Change]:
        """Changes for a terminal: nonzero differences, without the reader's if a sentence on the edits has it."""
        given = self.reader if self.edited else None
        return [c for c in self.changes if c.difference.value and c is not given]

    @property
    def n_equal(self) -> int:
        """Number of changes in which both runs have the same value."""
        return sum(not change.difference.value for change in self.changes)

    def tree(self) -> Tree:
        """Return the pair as JSON values."""
        named: Tree = {
            "runs": [self.first.place, self.second.place],
            "changes": [c.tree() for c in self.changes],
            "why_not": self.why_not,
        }
        if self.why_not is not None:
            return named
        flagged_first, flagged_second = self.removed
        return {
            **named,
            "n_common": len(self.items),
            "n_only": [len(words) for words in self.only],
            "flagged_only": [words.count("flagged") for words in self.only],
            "removed": [int(flagged_first.sum()), int(flagged_second.sum())],
            "jaccard": rate((flagged_first * flagged_second)[flagged_first + flagged_second > 0]).json(),
            "moved": self.counts,
            "moved_items": _listed(self.moved),
            "edited": len(self.edited),
            "edited_items": _listed(self.edited),
        }

    @property
    def removed(self) -> tuple[Floats, Floats]:
        """Flags (1 or 0) of the matched items in the first run and in the second run (n_items,)."""
        flagged_first, flagged_second = np.array(
            [(i.was == "flagged", i.now == "flagged") for i in self.items], dtype=float
        ).T
        return flagged_first, flagged_second

    def measured(self) -> Iterator[Change]:
        """Yield the change of every number that both runs contain, before `p_holm` is set."""
        by_item = bool(self.items) and all(
            ANSWERS in s.run.manifest["files"] for s in (self.first, self.second)
        )
        cut = any(s.summary.screen is not None and s.summary.screen.cut for s in (self.first, self.second))
        for measure in (m for m in of_section(*measures.COMPARED) if m.scope == "set"):
            x: Floats | None = None
            y: Floats | None = None
            if measure is measures.FLAGGED and self.items:
                x, y = self.removed
            elif measure is measures.READER and by_item:
                x, y = self.first.read(self.first.items), self.second.read(self.second.items)
            if x is None or y is None:
                changes = list(self._unpaired(measure, None))
            else:
                changes = [paired_change(measure.name, None, x, y, self.first.groups)]
                if measure is measures.READER and (added := self._added(measure)):
                    changes.append(added)
            yield from (
                (change.untested() for change in changes) if cut and measure.name in FROM_CUT else changes
            )
        first, second = self.first.summary.models, self.second.summary.models
        for a, b in _same_models(list(first), list(second)):
            scores = (self.first.scored(a), self.second.scored(b)) if by_item else None
            voter = first[a].is_voter or second[b].is_voter
            for measure in (m for m in of_section(*measures.COMPARED) if m.scope == "model"):
                for change in self._of_model(measure, (a, b), scores):
                    yield change.model_copy(update={"voter": voter and change.part == "kept"})
            x, y = self.first.owed(a), self.second.owed(b)
            if x is None or y is None:
                yield from self._unpaired(measures.LOOKS, (a, b), ("all",))
            else:
                yield looks_change((a, b), x, y, self.first.groups)

    def _added(self, measure: Measure) -> Change | None:
        """Compare the items that only the second run contains with the first run's items, or return None if there are
        none. Without them, a set could get worse by new items alone."""
        if not self.second.others:
            return None
        x, y = self.first.sample(tuple(self.first.run.verdicts)), self.second.sample(self.second.others)
        return added_change(measure.name, x, y) if x and y else None

    def _of_model(
        self, measure: Measure, models: tuple[str, str], scores: tuple[ScoredModel, ScoredModel] | None
    ) -> Iterator[Change]:
        """Yield the change of a model's number on all and on kept items, paired if both runs have values by item."""
        if measure is measures.CHOICES_ONLY and len(self.screens("mode")) > 1:
            return
        x = y = None
        if scores is not None:
            x, y = self.first.values(measure, scores[0]), self.second.values(measure, scores[1])
        if x is None or y is None:
            yield from self._unpaired(measure, models)
            return
        change = paired_change(measure.name, models, x, y, self.first.groups)
        yield change
        was = np.array([item.was == "kept" for item in self.items])
        now = np.array([item.now == "kept" for item in self.items])
        if change.same and not np.array_equal(was, now):
            # The answers are equal, so only the kept items can differ.
            yield from self._unpaired(measure, models, ("kept",))
        else:
            x, y = (np.where(was & now, values, np.nan) for values in (x, y))
            change = paired_change(measure.name, models, x, y, self.first.groups)
            yield change.model_copy(update={"part": "kept"})

    def _unpaired(
        self, measure: Measure, models: Models, parts: tuple[Split, ...] = ("all", "kept")
    ) -> Iterator[Change]:
        """Yield the change of a number on each part of the items, from the two summaries alone."""
        named = zip((self.first, self.second), models or (SET, SET), strict=True)
        measured = [measure.read(side.summary).get(model, Measured()) for side, model in named]
        for part in parts:
            q, r = (values.all if part == "all" else values.kept for values in measured)
            if (change := unpaired_change(measure.name, models, part, q, r)) is not None:
                yield change


def _listed(items: Sequence[SameItem]) -> list[Tree]:
    return [
        {"item": i.first, "now": i.second, "from": i.was, "to": i.now, "edited": list(i.edited)}
        for i in items
    ]


def _same_models(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Match models by name. If each run has one model left, such as a base and a tuned model, match these two as well."""
    only_first, only_second = [m for m in first if m not in second], [m for m in second if m not in first]
    return [(m, m) for m in first if m in second] + (
        [(only_first[0], only_second[0])] if len(only_first) == len(only_second) == 1 else []
    )


@dataclass(frozen=True)
class Comparison:
    """Runs to compare, and all pairs of them."""

    runs: tuple[Run, ...]
    pairs: tuple[RunPair, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """Changes of all pairs."""
        return tuple(change for pair in self.pairs for change in pair.changes)

    @property
    def degraded(self) -> list[str]:
        """Results that got worse from the first run to the last run: numbers, and audits that no longer pass."""
        pair = next(pair for pair in self.pairs if pair.second.place == len(self.runs) - 1)
        states = pair.first.summary.state, pair.second.summary.state
        worse = (c for c in pair.changes if c.degraded)
        numbers = [f"{c.label}: {c.noise}, {in_points(c.difference.value or 0.0)}" for c in worse]
        return [*["the audit passed, and now failed"] * (states == ("passed", "failed")), *numbers]

    def tree(self) -> Tree:
        """Return the comparison as JSON values."""
        runs = [{"run": str(run.folder), "signature": run.manifest["signature"]} for run in self.runs]
        return {"runs": runs, "pairs": [pair.tree() for pair in self.pairs]}


def compared(folders: Sequence[Path], guard: Guard) -> Comparison:
    """Compare runs. Raise `UsageError` if a folder is not a run, and `DataError` if a file was changed after its run."""
    runs = tuple(open_run(folder, guard) for folder in folders)
    for run in runs:
        run.require_unchanged("summary.json", VERDICTS, ANSWERS, *run.split_files)
    pairs = [_pair(first, second) for first, second in combinations(map(Side, range(len(runs)), runs), 2)]
    changes = [list(pair.measured()) for pair in pairs]
    p_values = [c.p_mid for of_pair in changes for c in of_pair if c.p_mid is not None]
    corrected, confidence = iter(holm(p_values)), 1 - LEVEL / max(1, len(p_values))
    tested = (
        tuple(
            c if c.p_mid is None
            else c.model_copy(update={"p_holm": next(corrected), "confidence": confidence})
            for c in of_pair
        )
        for of_pair in changes
    )  # fmt: skip
    return Comparison(
        runs, tuple(replace(p, changes=of_pair) for p, of_pair in zip(pairs, tested, strict=True))
    )


def _pair(first: Side, second: Side) -> RunPair:
    """Match the items of two runs."""
    if not all(VERDICTS in side.run.manifest["files"] for side in (first, second)):
        return RunPair(first, second, "a run without verdicts.csv", (), ((), ()))
    items = same_items(first.run, second.run)
    first = replace(first, items=tuple(item.first for item in items))
    second = replace(second, items=tuple(item.second for item in items))
    only = tuple(tuple(side.run.verdicts[name] for name in side.others) for side in (first, second))
    return RunPair(first, second, None if items else "no item is in both", items, (only[0], only[1]))
