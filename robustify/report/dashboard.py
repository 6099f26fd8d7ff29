"""Dashboard of all public runs below a folder, made from their `summary.json` files."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from operator import attrgetter
from pathlib import Path
from typing import get_args
from urllib.parse import quote

from markupsafe import Markup

from robustify.base.errors import AuthorisationError, RobustifyError, UsageError
from robustify.judging.measures import CLOZE, FULL, LOOKS, READER, SET
from robustify.judging.summary.quantity import Measured, Quantity
from robustify.judging.summary.result import State, Summary
from robustify.reading.guard import Guard
from robustify.report.format import Cell, Row, cell, count, counted, plain, table, text_table
from robustify.report.opening import FirstScreen
from robustify.report.page_tables import Bar
from robustify.report.printing import finding, html
from robustify.report.verdict import grounds, headline
from robustify.runs.run import MANIFEST, open_run

HEADS = (
    "Run", "Benchmark", "Model", "Date", "Verdict", "Rule", "Flagged", "Reader", "Chance", "All", "Kept", "Looks",
    "Cloze",
)  # fmt: skip
MOST_TREND = 12
UNREADABLE = "unfinished, changed, damaged, or of another version"
_DATE = re.compile(r"(?<!\d)(20\d\d-[01]\d-[0-3]\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class RunEntry:
    """Finished run on the dashboard: its folder, date, report link, and summary."""

    folder: str
    date: str
    report: str
    summary: Summary

    @property
    def reader(self) -> Quantity | None:
        """Accuracy of the reader without questions on all items."""
        return READER.read(self.summary).get(SET, Measured()).all

    @property
    def verdict(self) -> Cell:
        """Table cell of the verdict. Its title gives the state of the run and the number of answerable items."""
        g = grounds(self.summary)
        tone, line = headline(g)
        number = finding("answerable", self.summary, g=g) if g.flagged is not None else ""
        state = self.summary.state
        return Cell(line.rstrip("."), f"Run {state}. {number}".strip(), badge=state, tone=tone, value=line)


def dashboard_html(root: Path, out: Path, guard: Guard) -> str:
    """Return the dashboard of all runs below `root`. Its links are relative to `out`.

    The date of a run comes from its path (2026-11-22) or from the time of its run.json. Raise `UsageError` if the
    folder does not exist or contains no finished run.
    """
    if not root.is_dir():
        raise UsageError(
            f"{root} is not a folder. Pass a folder that contains runs.", code="no-folder-of-runs"
        )
    entries = list(_entries(root, out.absolute().parent, guard))
    runs = sorted(
        (entry for _, entry in entries if isinstance(entry, RunEntry)), key=attrgetter("date", "folder")
    )
    left_out = [(plain(folder), reason) for folder, reason in entries if isinstance(reason, str)]
    if not runs:
        failures = (
            f" {counted(len(left_out), 'folder')} cannot be read ({left_out[0][1]})." if left_out else ""
        )
        raise UsageError(f"{root} contains no finished run.{failures}", code="no-finished-run")
    return html(
        "dashboard.html.j2",
        name=plain(root.absolute().name),
        signature="",
        first=_first(runs, len(left_out)),
        runs=table("All runs", HEADS, (row for run in runs[::-1] for row in _rows(run)), names=3),
        trend=_trend(runs),
        left_out=text_table("Left out", ("Folder", "Why"), left_out),
    )


def _entries(root: Path, beside: Path, guard: Guard) -> Iterator[tuple[str, RunEntry | str]]:
    """Yield each run folder with its entry, or with the reason to leave it out. Links are relative to `beside`."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST not in files:
            continue
        folder = Path(place)
        below = folder.relative_to(root).as_posix()
        try:
            run = open_run(folder, guard)
            run.require_unchanged("summary.json")
            summary = run.summary
        except AuthorisationError:
            yield below, "restricted"
            continue
        except RobustifyError:
            yield below, UNREADABLE
            continue
        folders.clear()
        report = quote(Path(os.path.relpath(folder / "report.html", beside)).as_posix())
        written = datetime.fromtimestamp((folder / MANIFEST).stat().st_mtime, timezone.utc)
        date = [written.date().isoformat(), *_DATE.findall(folder.absolute().as_posix())][-1]
        named = folder.absolute().name if below == "." else below
        yield below, RunEntry(named, date, report if "report.html" in files else "", summary)


def _rows(run: RunEntry) -> Iterator[Row]:
    """Yield one row per model, or one row if there is no model."""
    s, folder = run.summary, Cell(plain(run.folder), link=run.report)
    rule, flagged = (s.screen.criterion, s.screen.flagged) if s.screen else (None, None)
    of_run = run.date, run.verdict, rule, flagged, run.reader, s.benchmark.chance_accuracy
    for model in s.models or ("none",):
        full, looks, cloze = (by.read(s).get(model, Measured()) for by in (FULL, LOOKS, CLOZE))
        owed = s.models[model].looks if model in s.models else None
        marked = replace(
            cell(looks.all, "points"), badge="claimed" if owed and owed.state == "claimed" else ""
        )
        scores = full.all, full.kept, marked, cloze.all
        yield folder, s.benchmark.name or "unnamed", model, *of_run, *scores


def _trend(runs: Sequence[RunEntry]) -> Markup:
    """Return a chart of the accuracy of the reader without questions, for each benchmark with several runs."""
    bars: dict[str, list[Bar]] = {}
    for run in runs:
        if run.reader is not None and run.reader.value is not None:
            bars.setdefault(plain(run.summary.benchmark.name), []).append((run.date, run.reader, 0.0))
    chart = [(name, rows[-MOST_TREND:]) for name, rows in bars.items() if len(rows) > 1]
    chances = {run.summary.benchmark.chance_accuracy for run in runs}
    summary = {"benchmark": {"chance_accuracy": chances.pop() if len(chances) == 1 else None}}
    return Markup(html("scores.svg.j2", s=summary, chart=chart, styles="") if chart else "")


def _first(runs: Sequence[RunEntry], left_out: int) -> FirstScreen:
    latest = {run.summary.benchmark.name: run.summary.state for run in runs}
    states = Counter(latest.values())
    counts = ", ".join(f"{count(states[state])} {state}" for state in get_args(State) if states[state])
    days = " to ".join(dict.fromkeys((runs[0].date, runs[-1].date)))
    omitted = f"; {counted(left_out, 'folder')} left out" if left_out else ""
    return FirstScreen(
        f"Latest runs of {counted(len(latest), 'benchmark')}: {counts}.",
        "bad" if states["failed"] else "unsure" if states["not evaluated"] else "good",
        number=f"{counted(len(runs), 'run')}, {days}{omitted}.",
    )
