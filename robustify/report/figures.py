"""Draw the figures: dot plots with intervals over shares from 0 to 1, and a share over time as a small line.

A plot is drawn twice, wide and narrow, because text scaled down to the width of a phone cannot be read. Positions are
computed here, and `plot.svg.j2` writes them.
"""

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robustify.report.format import at, between, count, counted, percent, plain, spaced

Kind = Literal["main", "before", "chance"]
Ends = Sequence[float]
STEPS = (0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
MARK_GAP, LEGEND_LINE, INSET, TEXT = 9.0, 22.0, 19.0, 13.0
MOST_ROWS, MOST_MODELS, FEWEST = 30, 4, 10
"""Rows of a plot, models of the first screen and of the reliability plot, items of a bin that is drawn."""


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes in pixels; with a `label` of 0 the labels are above their lines."""

    name: str
    width: float
    label: float
    note: float
    row: float
    ticks: int


WIDE, NARROW = Size("wide", 760, 218, 104, 28, 7), Size("narrow", 344, 0, 0, 44, 5)
FIRST_WIDE, FIRST_NARROW = Size("wide", 640, 132, 150, 27, 7), Size("narrow", 344, 0, 0, 42, 5)


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its interval; `kind` says how it is drawn."""

    value: float
    ci: Ends | None = None
    kind: Kind = "main"


@dataclass(frozen=True, slots=True)
class PlotRow:
    """A line of a plot; without marks it is the heading of the lines below it. `note` is at its right end."""

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
    drawn = [row for label, part in rows for row in _row(label, part, series)]
    if not drawn:
        return None
    kinds = {mark.kind for row in drawn for mark in row.marks}
    legend = tuple((kind, words) for kind, words, _ in series if kind in kinds)
    cut = f"The first {MOST_ROWS} of {len(drawn)} are drawn." if len(drawn) > MOST_ROWS else ""
    return Plot(name, title, tuple(drawn[:MOST_ROWS]), legend, tuple(lines), f"{note} {cut}".strip())


def _row(label: str, part: Any, series: Series) -> Iterator[PlotRow]:
    quantities = [(kind, at(part, path)) for kind, _, path in series]
    marks = tuple(
        Mark(at(q, "value"), at(q, "ci"), kind) for kind, q in quantities if at(q, "value") is not None
    )
    if marks:
        yield PlotRow(
            label, marks, " \u2192 ".join(percent(m.value).removesuffix(" %") for m in marks) + " %"
        )


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
        dot_plot(
            "residual", "Right answers without the question, on the items kept",
            ((f"{plain(name)}, {kind}", e) for (name, kind), e in auditors(s)), [("main", "auditor", "")], _limits(s),
            "A certificate needs every auditor's interval to the left of its own chance + margin.",
        ),
        _order(s),
        _reliability(s),
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
            ("chance", "asked without options (cloze)", "cloze_chars.all"),
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


def _limits(s: Mapping[str, Any]) -> list[tuple[float, str]]:
    chance, margin = at(s, "residual.chance"), at(s, "residual.margin")
    ends = [] if chance is None else [(chance, f"chance {percent(chance)}")]
    return ends if chance is None or margin is None else [
        *ends, (chance + margin, f"chance + margin {percent(chance + margin)}")
    ]  # fmt: skip


ORDERS = (("random orders", "main", ""), ("all rotations", "before", "rotations"))
"""The sets of orders in which a model may be asked, how each is drawn, and its path below a model's part."""


def _order(s: Mapping[str, Any]) -> Plot | None:
    def range_of(e: Any) -> dict[str, Any]:
        low, high = at(e, "min"), at(e, "max")
        return {"value": at(e, "mean"), "ci": None if low is None else [low, high]}

    models = (at(s, "permutation.by_model") or {}).items()
    rows = (
        (plain(name), {label: range_of(at(e, path)) for label, _, path in ORDERS}) for name, e in models if e
    )
    series: Series = [(kind, f"{label}: mean, lowest to highest", label) for label, kind, _ in ORDERS]  # type: ignore[misc]
    return dot_plot(
        "order", "Accuracy on the full question over the orders of its options", rows, series, _chance(s)
    )


def _reliability(s: Mapping[str, Any]) -> Plot | None:
    rows: list[PlotRow] = []
    for name, views in list((s["calibration"] or {}).items())[:MOST_MODELS]:
        bins = at(views, "full.bins") or ()
        drawn = [(i, b) for i, b in enumerate(bins) if b["accuracy"] is not None and (b["n"] or 0) >= FEWEST]
        rows += [PlotRow(plain(name))] if drawn else []
        for i, b in drawn:
            edges = f"{100 * i / len(bins):.0f} to {100 * (i + 1) / len(bins):.0f} %"
            marks = (Mark(b["accuracy"], b["ci"]), Mark(b["confidence"], kind="before"))
            rows.append(PlotRow(f"sure by {edges}, n = {count(b['n'])}", marks, percent(b["accuracy"])))
    note = (
        f"Calibrated: the two dots are one below the other. Bins of fewer than {FEWEST} items are not drawn."
    )
    title = "How sure models are on the full question, and how often they are right"
    legend: tuple[tuple[Kind, str], ...] = (("main", "right"), ("before", "sure"))
    return Plot("reliability", title, tuple(rows), legend, note=note) if rows else None


# Where marks and words are


def placed(plot: Plot, size: Size) -> dict[str, Any]:
    """Return the position of every mark and word, in pixels, for `plot.svg.j2`."""
    x0, x1 = size.label + INSET, size.width - size.note - INSET
    ends = [end for row in plot.rows for m in row.marks for end in (m.value, *(m.ci or ()))]
    ticks = axis([*ends, *(value for value, _ in plot.lines)], size.ticks)

    def across(share: float) -> float:
        return x0 + min(max(share, 0.0), ticks[-1]) / ticks[-1] * (x1 - x0)

    keys, top = _legend(plot, size)
    labels: list[tuple[float, float, str, str]] = []
    points = []
    y = top
    for row in plot.rows:
        height = size.row + MARK_GAP * max(0, len(row.marks) - 2) if row.marks else 30.0
        labels += _words(row, y, height, size)
        line = y + (height / 2 if size.label else 18 + (height - 18) / 2)
        for i, m in enumerate(row.marks):
            left, right = (across(end) for end in m.ci or (m.value, m.value))
            middle = line + (i - (len(row.marks) - 1) / 2) * MARK_GAP
            points.append((m.kind, across(m.value), middle, left, right))
        y += height
    return {
        "id": f"{plot.name}-{size.name}", "title": plot.title, "desc": described(plot), "width": size.width,
        "height": y + 26, "top": top, "bottom": y + 4, "keys": keys, "labels": labels, "points": points,
        "grid": [(across(t), f"{100 * t:.0f}{' %' if t == ticks[-1] else ''}") for t in ticks],
        "lines": [across(value) for value, _ in plot.lines],
    }  # fmt: skip


def axis(ends: Iterable[float], most: int) -> tuple[float, ...]:
    """Return the ticks from 0 to just above the largest value, at most `most` of them, never above 1."""
    largest = min(1.0, max([*ends, 0.05]))
    for step in STEPS:
        n = math.ceil(largest / step - 1e-9)
        if n < most:
            return tuple(round(i * step, 6) for i in range(n + 1))
    return (0.0, 0.5, 1.0)


def described(plot: Plot) -> str:
    """Return the plot in words, for those who do not see it."""
    kinds = dict(plot.legend)
    said = [f"Reference line: {label}." for _, label in plot.lines]
    for row in plot.rows:
        marks = (
            f"{kinds.get(m.kind, '')} {percent(m.value)}{f' ({between(m.ci)})' if m.ci else ''}".strip()
            for m in row.marks
        )
        said.append(f"{row.label}{': ' if row.marks else ''}{', '.join(marks)}.")
    return " ".join(said)


def _words(row: PlotRow, y: float, height: float, size: Size) -> Iterator[tuple[float, float, str, str]]:
    base = y + (height / 2 + 4.5 if size.label else 15)
    if not row.marks:
        yield 0, y + 20, fit(row.label, size.width), "heading"
        return
    yield (
        0,
        base,
        fit(row.label, (size.label - 8) if size.label else size.width - len(row.note) * 7.5 - 14),
        "label",
    )
    yield size.width, base, row.note, "note"


def _legend(plot: Plot, size: Size) -> tuple[list[tuple[float, float, str, str]], float]:
    keys, x, y = [], 0.0, 12.0
    for kind, label in (*plot.legend, *((f"line-{i}", label) for i, (_, label) in enumerate(plot.lines))):
        words = fit(label, size.width - 30)
        wide = 24 + breadth(words) + 20
        if x and x + wide - 20 > size.width:
            x, y = 0.0, y + LEGEND_LINE
        keys.append((x, y, words, kind))
        x += wide
    return keys, (y + LEGEND_LINE - 4 if keys else 4.0)


def breadth(words: str) -> float:
    """Estimate the width of a text in pixels; the font is the reader's, so this errs on the wide side."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in words)
    return TEXT * (0.56 * (len(words) - wide) + 1.05 * wide)


def fit(words: str, room: float) -> str:
    """Return the text cut to the room there is, with an ellipsis if something is cut."""
    if breadth(words) <= room:
        return words
    while words and breadth(words + "…") > room:
        words = words[:-1]
    return words.rstrip() + "…"
