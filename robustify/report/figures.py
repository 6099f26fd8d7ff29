"""Draw the figures: dot plots with intervals over shares from 0 to 1.

Positions are computed here, and `plot.svg.j2` writes them. On a phone a drawing keeps its size and is scrolled.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robustify.report.format import at, counted, percent, plain, spaced

Kind = Literal["main", "before", "chance"]
Ends = Sequence[float]
STEPS = (0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
WIDTH, LABEL, NOTE, ROW, TICKS = 640.0, 180.0, 150.0, 28.0, 7
"""Pixels: a drawing, the words at the left and right of a line, a line; and the most ticks of an axis."""
MARK_GAP, INSET, COLUMNS = 9.0, 19.0, 4
MOST_ROWS, MOST_MODELS = 30, 4
"""Rows of a plot, and models of the first screen."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its interval; `kind` says how it is drawn."""

    value: float
    ci: Ends | None = None
    kind: Kind = "main"


@dataclass(frozen=True, slots=True)
class PlotRow:
    """A line of a plot; `note` is at its right end."""

    label: str
    marks: tuple[Mark, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """A dot plot; `name` becomes the file's name, `lines` are reference values with their labels."""

    name: str
    title: str
    rows: tuple[PlotRow, ...]
    legend: tuple[tuple[Kind, str], ...] = ()
    lines: tuple[tuple[float, str], ...] = ()
    note: str = ""


Series = Sequence[tuple[Kind, str, str]]
"""How a mark is drawn, its words in the legend, and the dotted path of its quantity below a row."""


def dot_plot(
    name: str, title: str, rows: Iterable[tuple[str, Any]], series: Series, lines: Any = (), note: str = ""
) -> Plot | None:
    """Return the plot of these parts of the summary by label; None if none of them has a value."""
    drawn = []
    for label, part in rows:
        found = [(kind, at(part, path)) for kind, _, path in series]
        marks = tuple(Mark(q["value"], q["ci"], kind) for kind, q in found if at(q, "value") is not None)
        if marks:
            shares = " \u2192 ".join(percent(mark.value).removesuffix(" %") for mark in marks)
            drawn.append(PlotRow(label, marks, f"{shares} %"))
    if not drawn:
        return None
    kinds = {mark.kind for row in drawn for mark in row.marks}
    legend = tuple((kind, words) for kind, words, _ in series if kind in kinds)
    cut = f"The first {MOST_ROWS} of {len(drawn)} are drawn." if len(drawn) > MOST_ROWS else ""
    return Plot(name, title, tuple(drawn[:MOST_ROWS]), legend, tuple(lines), f"{note} {cut}".strip())


# The figures of a run


def run_plots(s: Mapping[str, Any]) -> dict[str, Plot]:
    """Return the figures of a run's summary by name, those that have anything to show."""
    robust, all_ = at(s, "splits.robust"), at(s, "splits.all")
    overall = [(robust / all_, f"all topics {percent(robust / all_)}")] if robust is not None and all_ else []
    topics = sorted(
        (at(s, "topics.by_topic") or {}).items(), key=lambda one: at(one[1], "retention.value") or 2.0
    )
    found = (
        _accuracy(s),
        dot_plot(
            "topics", "Share of each topic that was kept", ((plain(name), e) for name, e in topics),
            [("main", "kept", "retention")], overall,
        ),
        dot_plot(
            "heuristics", "Accuracy of each heuristic before and after the removal",
            ((spaced(name), row) for name, row in heuristics(s).items()),
            [("before", "all items", "all"), ("main", "robust items", "robust")], _chance(s),
            "On all items, a point to the right of chance is a feature that gives the key away.",
        ),
    )  # fmt: skip
    return {plot.name: plot for plot in found if plot is not None}


def _accuracy(s: Mapping[str, Any]) -> Plot | None:
    models = list((s["accuracy"] or {}).items())
    voted = any(at(e, "is_voter") for _, e in models)
    more = f"The first {MOST_MODELS} of {counted(len(models), 'model')}." if len(models) > MOST_MODELS else ""
    return dot_plot(
        "accuracy",
        "Accuracy of each model",
        ((f"{plain(name)}{'*' if at(e, 'is_voter') else ''}", e) for name, e in models[:MOST_MODELS]),
        [
            ("before", "all items", "full.all"),
            ("main", "robust items", "full.robust"),
            ("chance", "cloze, no options", "cloze_chars.all"),
        ],
        _chance(s),
        f"{'* chose what is kept: low on robust. ' if voted else ''}{more}".strip(),
    )


def _chance(s: Mapping[str, Any]) -> list[tuple[float, str]]:
    chance = at(s, "benchmark.chance_accuracy")
    return [] if chance is None else [(chance, f"chance {percent(chance)}")]


def heuristics(s: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the heuristics by name, each with its part on every split."""
    by_split = {split: at(s, f"heuristics.{split}") or {} for split in ("all", "shortcut", "robust", "cloze")}
    names = dict.fromkeys(name for rows in by_split.values() for name in rows)
    return {name: {split: rows.get(name) for split, rows in by_split.items()} for name in names}


AUDITORS = {"non_voters": "did not vote", "leave_one_out": "left out of the vote", "heuristics": "rule"}
"""What each kind of auditor is, by its part of the summary."""


def auditors(s: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield every auditor of the items kept, with its name and kind."""
    for part, kind in AUDITORS.items():
        for name, auditor in (at(s, f"residual.{part}") or {}).items():
            yield (spaced(name) if kind == "rule" else name, kind), auditor
    if at(s, "residual.probe"):
        yield (
            ("probe", "fresh, but a probe voted" if at(s, "residual.probe_voted") else "fresh"),
            s["residual"]["probe"],
        )
    if at(s, "residual.encoder"):
        yield ("meaning of the options", "sentence encoder"), s["residual"]["encoder"]


# Where marks and words are


def placed(plot: Plot) -> dict[str, Any]:
    """Return the position of every mark and word, in pixels, for `plot.svg.j2`."""
    x0, x1 = LABEL + INSET, WIDTH - NOTE - INSET
    ends = [end for row in plot.rows for m in row.marks for end in (m.value, *(m.ci or ()))]
    ticks = axis([*ends, *(value for value, _ in plot.lines)])

    def across(share: float) -> float:
        return x0 + min(max(share, 0.0), ticks[-1]) / ticks[-1] * (x1 - x0)

    keys, top = _legend(plot)
    labels, points, y = [], [], top
    for row in plot.rows:
        height = ROW + MARK_GAP * max(0, len(row.marks) - 2)
        middle = y + height / 2
        labels.append((middle + 4.5, row.label, row.note))
        for i, m in enumerate(row.marks):
            left, right = (across(end) for end in m.ci or (m.value, m.value))
            line = middle + (i - (len(row.marks) - 1) / 2) * MARK_GAP
            points.append((m.kind, across(m.value), line, left, right))
        y += height
    return {
        "id": plot.name, "title": plot.title, "desc": described(plot), "width": WIDTH, "label": LABEL,
        "height": y + 26, "top": top, "bottom": y + 4, "keys": keys, "labels": labels, "points": points,
        "grid": [(across(t), f"{100 * t:.0f}{' %' if t == ticks[-1] else ''}") for t in ticks],
        "lines": [across(value) for value, _ in plot.lines],
    }  # fmt: skip


def axis(ends: Iterable[float]) -> tuple[float, ...]:
    """Return the ticks from 0 to just above the largest value, never above 1."""
    largest = min(1.0, max([*ends, 0.05]))
    for step in STEPS:
        n = math.ceil(largest / step - 1e-9)
        if n < TICKS:
            return tuple(round(i * step, 6) for i in range(n + 1))
    return (0.0, 0.5, 1.0)


def described(plot: Plot) -> str:
    """Return the plot in words, for those who do not see it."""
    lines = [f"Reference line: {label}." for _, label in plot.lines]
    return " ".join([*lines, *(f"{row.label}: {row.note}." for row in plot.rows)])


def _legend(plot: Plot) -> tuple[list[tuple[float, float, str, str]], float]:
    """Return the keys of a plot in columns of one width, and where its lines begin."""
    words = [*plot.legend, *((f"line-{i}", label) for i, (_, label) in enumerate(plot.lines))]
    keys = [
        (i % COLUMNS * WIDTH / COLUMNS, 12 + i // COLUMNS * ROW, label, kind)
        for i, (kind, label) in enumerate(words)
    ]
    return keys, 12 + math.ceil(len(words) / COLUMNS) * ROW - ROW / 2
