"""Finished runs compared: which numbers differ, whether that is more than noise, and which items moved.

Folders are read and nothing is asked. Items are compared by id only where both runs have the same text of them, or were
made from the same file; of a restricted run nothing is compared item by item, and no number that its summary does not show.
Differences are the second run less the first.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from robustify.files import neutral
from robustify.report.changes import VIEWS, Change, Side, changes
from robustify.report.format import (
    as_released,
    count,
    counted,
    in_points,
    missing,
    percent,
    plain,
    points,
    rate,
)
from robustify.run import SPLIT_FILES, VERDICTS, Run, open_run
from robustify.stats import intervals
from robustify.stats.tests import holm
from robustify.summary.result import Residual, Summary
from robustify.summary.screened import Benchmark, Screen, Splits

Tree = dict[str, Any]
RULE = ("criterion", "mode", "flagged", "expected_flags", "excess_over_chance", "latent_shortcut_rate")


@dataclass(frozen=True)
class Pair:
    """Two runs: by item where `why_not` is None. `items`: those of both with their verdicts, in the first run's order."""

    runs: tuple[int, int]
    why_not: str | None
    items: Mapping[str, tuple[str, str]]
    n_only: tuple[int, int]
    changes: tuple[Change, ...]

    @cached_property
    def moved(self) -> dict[str, tuple[str, str]]:
        """The items with another verdict, and both verdicts."""
        return {item: both for item, both in self.items.items() if both[0] != both[1]}

    def tree(self) -> Tree:
        """The pair as in JSON."""
        named: Tree = {"runs": list(self.runs), "changes": [change.row() for change in self.changes]}
        if self.why_not is not None:
            return {**named, "why_not": self.why_not}
        removed = [(a == "shortcut", b == "shortcut") for a, b in self.items.values()]
        either = np.array([a and b for a, b in removed if a or b], dtype=np.float64)
        return {
            **named,
            "n_common": len(self.items),
            "n_only": list(self.n_only),
            "removed": [sum(a for a, _ in removed), sum(b for _, b in removed)],
            "jaccard": intervals.rate(either).json(),
            "moved": dict(sorted(Counter(f"{a} -> {b}" for a, b in self.moved.values()).items())),
            "moved_items": [{"item": item, "from": a, "to": b} for item, (a, b) in self.moved.items()],
            "why_not": None,
        }


@dataclass(frozen=True)
class Comparison:
    """Runs beside one another and every two of them as a pair; `released`: one of them shows only what was released."""

    runs: tuple[Run, ...]
    summaries: tuple[Summary, ...]
    pairs: tuple[Pair, ...]

    @property
    def released(self) -> bool:
        """Whether numbers are written as a restricted run's are."""
        return any(summary.release is not None for summary in self.summaries)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Of all pairs."""
        return tuple(change for pair in self.pairs for change in pair.changes)

    def tree(self) -> Tree:
        """The comparison for JSON: `runs` in the order given, and `pairs`, by their places from 0."""
        runs = [_run(run, summary) for run, summary in zip(self.runs, self.summaries, strict=True)]
        return {"runs": runs, "pairs": [pair.tree() for pair in self.pairs]}

    def csv(self) -> str:
        """Every difference as CSV: the rows of `Change.row`, runs by their places from 0; what is not known is empty."""
        out = io.StringIO()
        rows = [change.row() for change in self.changes]
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["first", "second"] if not rows else rows[0])
        writer.writerows([neutral(v) if isinstance(v, str) else v for v in row.values()] for row in rows)
        return out.getvalue()

    def lines(self) -> list[str]:
        """The comparison for a terminal."""
        with as_released(self.released):
            both = enumerate(zip(self.runs, self.summaries, strict=True), start=1)
            lines = [line for place, (run, summary) in both for line in _run_lines(place, run, summary)]
            return lines + [
                line for pair in self.pairs for line in (*_pair_lines(pair), f"  {chance_of(self, pair)}")
            ]


def compared(folders: Sequence[Path]) -> Comparison:
    """The runs in these folders, two or more.

    Raises:
        UsageError: a folder that is no run.
        DataError: a file that is not as its run left it.
    """
    runs = tuple(open_run(folder) for folder in folders)
    for run in runs:
        read = ("summary.json", VERDICTS, "answers.parquet", *SPLIT_FILES)
        run.require_unchanged(
            *(name for name in read if name in run.manifest["files"] or name == "summary.json")
        )
    summaries = tuple(run.summary for run in runs)
    pairs = [_pair((i, j), runs, summaries) for i, j in combinations(range(len(runs)), 2)]
    tested = [change.p for pair in pairs for change in pair.changes if change.p is not None]
    adjusted = iter(holm(tested))
    return Comparison(
        runs,
        summaries,
        tuple(
            replace(pair, changes=tuple(
                change if change.p is None else replace(change, p_holm=next(adjusted)) for change in pair.changes
            ))
            for pair in pairs
        ),
    )  # fmt: skip


def _run(run: Run, summary: Summary) -> Tree:
    screen, residual = summary.screen or Screen(), summary.residual or Residual()
    tree = screen.model_dump(mode="json", include=set(RULE))
    return {
        "run": str(run.folder),
        "signature": run.manifest["signature"],
        "n_items": run.manifest["data"].get("n_items"),
        "splits": summary.splits and summary.splits.model_dump(mode="json"),
        "screen": {name: tree[name] for name in RULE},
        "probe": residual.probe and residual.probe.model_dump(mode="json"),
        "certificate": summary.certificate and summary.certificate.verdict,
        "accuracy": {
            model: {view: m.model_dump(mode="json") for view in VIEWS if (m := getattr(entry, view)) is not None}
            | {"is_voter": entry.is_voter}
            for model, entry in (summary.accuracy or {}).items()
        },
    }  # fmt: skip


def _pair(places: tuple[int, int], runs: Sequence[Run], summaries: Sequence[Summary]) -> Pair:
    one, two = (runs[place] for place in places)
    why_not, alone = _incomparable(one, two), (0, 0)
    items: dict[str, tuple[str, str]] = {}
    if why_not is None:
        first, second = one.verdicts, two.verdicts
        items = {item: (first[item], second[item]) for item in _same_items(one, two, first, second)}
        why_not = None if items else "no item is in both"
        alone = (len(first) - len(items), len(second) - len(items))
    sides = [
        Side(runs[p], summaries[p], tuple(items), [v[i] for v in items.values()])
        for i, p in enumerate(places)
    ]
    return Pair(places, why_not, items, alone, tuple(changes(places, *sides)))


def _incomparable(one: Run, two: Run) -> str | None:
    if any(run.restricted or run.manifest.get("sensitivity") == "restricted" for run in (one, two)):
        return "a restricted run holds no verdict of any item"
    if any(VERDICTS not in run.manifest["files"] for run in (one, two)):
        return "a run without verdicts.csv"
    return None


def _same_items(one: Run, two: Run, first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    both = [item for item in first if item in second]
    if one.manifest["data"].get("sha256") == two.manifest["data"].get("sha256"):
        return both
    texts = [{i.id: (i.stem, i.choices, i.key) for i in run.items or ()} for run in (one, two)]
    return [i for i in both if i in texts[0] and texts[0][i] == texts[1].get(i)]


def _run_lines(place: int, run: Run, summary: Summary) -> Iterator[str]:
    screen, splits = summary.screen or Screen(), summary.splits or Splits()
    verdict = summary.certificate and summary.certificate.verdict
    yield f"[{place}] {plain(str(run.folder))}: {verdict or 'no verdict'}"
    yield f"    {plain(run.manifest['signature'], 500)}"
    expected = None if screen.expected_flags is None else screen.expected_flags.value
    by_chance = "" if expected is None else f"; {counted(round(expected), 'item')} expected by chance alone"
    yield f"    removed by {rule_of(screen)}: {rate(screen.flagged)}{by_chance}"
    sizes = {"robust": splits.robust, "shortcut": splits.shortcut, "undecided": splits.undecided}
    chance = (summary.benchmark or Benchmark()).chance_accuracy
    beside = "" if chance is None else f"; chance {percent(chance)}"
    shown = ", ".join(f"{name} {n}" for name, n in sizes.items() if n is not None) or "not shown"
    yield f"    splits: {shown}{beside}"


def rule_of(screen: Screen) -> str:
    """The screen's rule in two words."""
    return "/".join(word for word in (screen.criterion, screen.mode) if word) or "no screen"


def _pair_lines(pair: Pair) -> Iterator[str]:
    names = "[{}] and [{}]".format(*(place + 1 for place in pair.runs))
    yield ""
    if pair.why_not is not None:
        yield f"{names}: items are not compared ({pair.why_not})"
    else:
        alone = sum(pair.n_only)
        other = f"; {counted(alone, 'item')} in one of them only" if alone else ""
        yield f"{names}: {counted(len(pair.items), 'item')} in both, {count(len(pair.moved))} with another verdict{other}"
    moved = pair.tree().get("moved", {})
    yield from (f"  {n} {kind}" for kind, n in moved.items())
    for change in pair.changes:
        both = f"{rate(change.first)} -> {rate(change.second)}"
        yield f"  {change.label}: {both}, {points(change.difference)}: {said(change)}"


def chance_of(found: Comparison, pair: Pair) -> str:
    """What guessing scores in both runs, to be read beside every accuracy of theirs."""
    values = [(found.summaries[place].benchmark or Benchmark()).chance_accuracy for place in pair.runs]
    words = [missing() if value is None else percent(value) for value in values]
    return f"Chance: {' and '.join(dict.fromkeys(words))}."


def said(change: Change) -> str:
    """Whether it is more than noise."""
    if change.changed is None:
        return "the same on every item" if change.same and change.first.n else "too few to tell"
    seen = "" if change.mde is None else f" (80 % power from {in_points(change.mde)})"
    return "changed" if change.changed else f"within noise{seen}"
