"""Many runs and gradings of free answers on one page: a folder's audits over time, to be filtered, with links to each.

Only `summary.json` is read, which of a restricted set holds what was released and no more; of each run its own numbers
are written as its own report writes them. Nothing is asked, and no item is opened. The page has no script: a filter is a
choice on the page, which its style reads.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from robustify.errors import AuthorisationError, DataError, RobustifyError, UsageError
from robustify.report.advice import verdict_in_short
from robustify.report.blocks import (
    Block,
    Cell,
    Column,
    Filter,
    FirstScreen,
    Group,
    Page,
    Row,
    Section,
    Step,
    Table,
    Tile,
    Todo,
    Trend,
    text_table,
)
from robustify.report.comparing import rule_of
from robustify.report.format import (
    against_chance_cell,
    as_released,
    count,
    counted,
    model_cell,
    noted,
    plain,
    rate_cell,
)
from robustify.report.free_page import MEASURES, measures, parts_of
from robustify.report.printing import html
from robustify.run import MANIFEST, open_run
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary
from robustify.summary.scored import Accuracy, ViewScores
from robustify.summary.screened import Benchmark, Screen

MOST_TRENDS, MOST_STEPS, MOST_TODO = 12, 40, 5
JOINED = (
    "In order of date; points are joined where rule and voters are the same. Whether a step is more than noise says "
    "`robustify compare`."
)
_DATE = re.compile(r"(?<!\d)(20\d\d-[01]\d-[0-3]\d)(?!\d)")
SHORT: Mapping[type[RobustifyError], str] = {
    AuthorisationError: "its seal cannot be checked",
    DataError: "changed, damaged or of another version",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A run, or free answers where `summary` is a tree. `folder`: below the one that was asked for, `date` of its end."""

    folder: str
    date: str
    written: float
    report: str
    summary: Summary | Mapping[str, Any]


def dashboard_html(root: Path, out: Path) -> str:
    """The text of the page of all runs and gradings below `root`, to be written to `out`.

    A run's date is that in its path (2026-11-22), else that of its run.json, since a run itself holds no clock.

    Raises:
        UsageError: no such folder, or nothing in it.
    """
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder; expected one that runs lie in")
    found = list(_entries(root, out.absolute().parent))
    left_out = {folder: why for folder, why in found if isinstance(why, str)}
    entries = sorted(
        (e for _, e in found if isinstance(e, Entry)), key=lambda e: (e.date, e.written, e.folder)
    )
    if not entries:
        why = (
            f"; {counted(len(left_out), 'folder')} cannot be read ({next(iter(left_out.values()))})"
            if left_out
            else ""
        )
        raise UsageError(f"{root}: no finished run and no graded answers below it{why}")
    return html(_page(root, entries, left_out))


def _entries(root: Path, beside: Path) -> Iterator[tuple[str, Entry | str]]:
    """Each folder with what is in it, or why it cannot be shown; links lead from the folder `beside`."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        name = MANIFEST if MANIFEST in files else "summary.json"
        if name not in files:
            continue
        folder, path = Path(place), Path(place, name)
        try:
            summary = _run(folder) if name == MANIFEST else _free(path)
        except RobustifyError as error:
            yield folder.relative_to(root).as_posix(), SHORT.get(type(error), "no finished run")
            continue
        if name == MANIFEST:
            folders.clear()
        if summary is None:
            continue
        report = quote(Path(os.path.relpath(folder / "report.html", beside)).as_posix())
        below, written = folder.relative_to(root).as_posix(), path.stat().st_mtime
        dated = _DATE.findall(folder.absolute().as_posix())
        date = dated[-1] if dated else datetime.fromtimestamp(written, timezone.utc).date().isoformat()
        there = report if "report.html" in files else ""
        yield below, Entry(folder.absolute().name if below == "." else below, date, written, there, summary)


def _run(folder: Path) -> Summary:
    run = open_run(folder)
    run.require_unchanged("summary.json")
    return run.summary


def _free(path: Path) -> Mapping[str, Any] | None:
    """The summary of graded answers; None where the file is something else."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        known = (
            isinstance(tree, dict) and {"models", "calibration", "against_base", "restricted"} <= tree.keys()
        )
        if known:
            # What cannot be printed is no summary of ours.
            _graded([Entry("", "", 0.0, "", tree)], _Tags("", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{path}: no summary that robustify wrote") from None
    return tree if known else None


class _Tags:
    """The values of a filter, each with a tag that a style can name."""

    def __init__(self, facet: str, label: str) -> None:
        self._facet, self._label = facet, label
        self._tags: dict[str, str] = {}

    def of(self, value: str) -> str:
        return self._tags.setdefault(value, f"{self._facet}-{len(self._tags)}")

    def filter(self) -> Filter:
        """All values, by name."""
        values = tuple((tag, name) for name, tag in sorted(self._tags.items()))
        return Filter(f"of-{self._facet}", self._label, values)


Runs = Sequence[tuple[Entry, Summary]]


@dataclass(frozen=True, slots=True)
class _Facets:
    benchmark: _Tags
    verdict: _Tags
    model: _Tags

    def of(self, summary: Summary) -> str:
        """The tags of a run but for its models."""
        return f"{self.benchmark.of(_name(summary))} {self.verdict.of(_verdict(summary).main)}"


def _page(root: Path, entries: Sequence[Entry], left_out: Mapping[str, str]) -> Page:
    facets = _Facets(_Tags("benchmark", "Benchmark"), _Tags("verdict", "Verdict"), _Tags("model", "Model"))
    runs = [(entry, entry.summary) for entry in entries if isinstance(entry.summary, Summary)]
    free = [entry for entry in entries if not isinstance(entry.summary, Summary)]
    trends = tuple(_trends(runs, facets))
    unread = tuple((plain(folder), why) for folder, why in left_out.items())
    groups = (
        _group("change", "Over time", "The share of items that can be answered without the question, with 95 % intervals.",
               *trends, *([JOINED] if trends else [])),
        _group("runs", "All runs", "The latest first; a name leads to its report.", *_audited(runs[::-1], facets)),
        _group("free", "Answers in words", "Bounds count every answer without a score as wrong, and as right.",
               *([_graded(free[::-1], facets.model)] if free else [])),
        _group("left", "Left out", "Folders of runs that cannot be shown.",
               *([text_table("Left out", ("Folder", "Why"), unread, words=2)] if unread else [])),
    )  # fmt: skip
    return Page(
        name=plain(root.absolute().name),
        first=_first(runs, len(free), len(left_out)),
        groups=tuple(group for group in groups if group.sections[0].blocks),
        signature="",
        filters=tuple(tags.filter() for tags in (facets.benchmark, facets.verdict, facets.model)),
    )


def _group(id_: str, title: str, sentence: str, *blocks: Block | str) -> Group:
    return Group(id_, title, sentence, (Section.of(f"{id_}-all", title, *blocks, open=True),))


def _first(runs: Runs, free: int, left_out: int) -> FirstScreen:
    latest = {_name(summary): (entry, _verdict(summary)) for entry, summary in runs}
    tones = Counter(verdict.tone for _, verdict in latest.values())
    kinds = {"may be trusted": tones["good"], "may not be trusted": tones["bad"]}
    kinds["not settled"] = len(latest) - sum(kinds.values())
    said = ", ".join(f"{count(n)} {words}" for words, n in kinds.items() if n)
    line = f"Latest runs of {counted(len(latest), 'benchmark')}: {said}."
    dates = [entry.date for entry, _ in runs]
    todo = (
        Todo(f"{name}: {verdict.main.lower()}", verdict.small, entry.report or "#runs")
        for name, (entry, verdict) in latest.items()
        if verdict.tone == "bad"
    )
    return FirstScreen(
        verdict=line if latest else "No benchmark was audited here.",
        tone="bad" if tones["bad"] else "good" if latest and not kinds["not settled"] else "unsure",
        above=(),
        tiles=(
            Tile("runs", count(len(runs)), " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else ""),
            Tile("gradings of answers in words", count(free), ""),
            Tile("folders left out", count(left_out), "listed below" if left_out else ""),
        ),
        bar=(),
        scores=None,
        todo=tuple(islice(todo, MOST_TODO)),
    )  # fmt: skip


def _name(summary: Summary) -> str:
    return plain((summary.benchmark or Benchmark()).name or "unnamed")


def _verdict(summary: Summary) -> Cell:
    tone, line = verdict_in_short(summary)
    short, _, why = line.rstrip(".").partition(": ")
    return Cell(short, why, tone)


def _trends(runs: Runs, facets: _Facets) -> Iterator[Trend]:
    """A line of each of the benchmarks with most runs, where there are two or more."""
    by_name: dict[str, list[tuple[Entry, Summary]]] = {}
    for entry, summary in runs:
        if (summary.screen or Screen()).flagged is not None:
            by_name.setdefault(_name(summary), []).append((entry, summary))
    many = sorted((one for one in by_name.items() if len(one[1]) > 1), key=lambda one: -len(one[1]))
    for at, (name, of_name) in enumerate(many[:MOST_TRENDS]):
        steps: list[Step] = []
        tags, before = set(), ""
        for entry, summary in of_name[-MOST_STEPS:]:
            screen, flagged = summary.screen or Screen(), (summary.screen or Screen()).flagged or Quantity()
            how = " ".join([rule_of(screen), *(screen.voters or ())])
            if flagged.value is not None:
                steps.append(Step(entry.date, flagged.value, flagged.ci, bool(steps) and how == before))
                before = how
            tags |= {facets.of(summary), *map(facets.model.of, _scored(summary))}
        if len(steps) > 1:
            yield Trend(f"trend-{at}", name, tuple(steps), " ".join(sorted(tags)))


def _scored(summary: Summary) -> Mapping[str, Accuracy]:
    """What each model scored; where none was asked the full question, that of nobody."""
    return {plain(name): scored for name, scored in (summary.accuracy or {}).items()} or {"none": Accuracy()}


def _audited(runs: Runs, facets: _Facets) -> Iterator[Table]:
    rows: list[Row] = []
    tags = []
    for entry, summary in runs:
        screen = summary.screen or Screen()
        with as_released(summary.release is not None):
            of_run = (
                _linked(entry), Cell(entry.date), Cell(_name(summary)), _verdict(summary),
                noted(rate_cell(screen.flagged), rule_of(screen)),
                rate_cell((summary.benchmark or Benchmark()).chance_accuracy),
            )  # fmt: skip
            for at, (model, scored) in enumerate(_scored(summary).items()):
                full, cloze = scored.full or ViewScores(), scored.cloze_chars or ViewScores()
                cells = (replace(cell, tone="again") if at else cell for cell in of_run)
                scores = map(against_chance_cell, (full.all, full.robust, cloze.all))
                rows.append((*cells, model_cell(model, scored.is_voter), *scores))
                tags.append(f"{facets.of(summary)} {facets.model.of(model)}")
    of_runs = ("Run", "Date", "Benchmark", "Verdict", Column("Shortcut"), Column("Chance"))
    heads = (*of_runs, "Model", "All", "Robust", "Cloze")
    note = "Shortcut: items that need no question; point at it for the rule."
    if rows:
        yield text_table("All runs", heads, rows, note, words=len(of_runs) + 1, tags=tags)


def _graded(entries: Sequence[Entry], models: _Tags) -> Table:
    rows: list[Row] = []
    tags = []
    for entry in entries:
        assert not isinstance(entry.summary, Summary)
        status = str(entry.summary["calibration"]["status"])
        with as_released(bool(entry.summary["restricted"])):
            for model, kind, part in parts_of(entry.summary):
                rows.append((_linked(entry), entry.date, model, kind, status, *measures(part)))
                tags.append(models.of(model))
    heads = ("Folder", "Date", "Model", "Kind", "Judge", *MEASURES)
    return text_table("Answers in words", heads, rows, words=5, tags=tags)


def _linked(entry: Entry) -> Cell:
    return Cell(plain(entry.folder), link=entry.report)
