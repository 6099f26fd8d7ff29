"""Prints a report: one offline HTML page, its first screen in GitHub-flavoured Markdown, and its figures.

The page has style, drawings and data inline, no script, and fetches nothing. Everything that is printed into a template
is escaped. The same page gives the same bytes. A plot is drawn twice, wide and narrow, because text scaled down to a
phone's width cannot be read; where its marks and words are is decided here, and `plot.svg.j2` writes them.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from robustify.report.blocks import (
    Cell,
    Kind,
    Mark,
    Page,
    Plot,
    PlotRow,
    Row,
    Section,
    Table,
    Trend,
    text_table,
)
from robustify.report.format import absent, between, half, percent

STEPS = (0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
MARK_GAP = 9.0
LEGEND_LINE = 22.0


@dataclass(frozen=True, slots=True)
class PlotSize:
    """Sizes in pixels. A `label` of 0 sets the labels above their lines."""

    name: str
    width: float
    label: float
    note: float
    row: float
    ticks: int


WIDE = PlotSize("wide", 760, 218, 104, 28, 7)
NARROW = PlotSize("narrow", 344, 0, 0, 44, 5)
FIRST_WIDE = PlotSize("wide", 640, 132, 150, 27, 7)
FIRST_NARROW = PlotSize("narrow", 344, 0, 0, 42, 5)
MOST_WORDS = 6
"""Words of a cell of a table; what has more is cut, and whole where it is pointed at."""
MOST_ROWS = 20
"""Models that report.md shows."""
INSET = 19.0
TEXT = 13.0
TREND_X, TREND_Y, TREND_TICKS = (38.0, 330.0), (10.0, 124.0), 4
"""Where a line over time is drawn, on a ground of 344 x 150."""


@dataclass(frozen=True, slots=True)
class Point:
    """A mark in pixels."""

    x: float
    y: float
    left: float
    right: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class Label:
    """A text in pixels. `kind`: its style; of a legend entry a mark's kind, or `line-0`, `line-1` for reference lines."""

    x: float
    y: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that the template needs, in pixels; `grid` and `lines` are places on x, from `top` to `bottom`."""

    id: str
    title: str
    desc: str
    width: float
    height: float
    top: float
    bottom: float
    grid: tuple[tuple[float, str], ...]
    lines: tuple[float, ...]
    keys: tuple[Label, ...]
    labels: tuple[Label, ...]
    points: tuple[Point, ...]


def placed(plot: Plot, layout: PlotSize) -> Drawing:
    """Places every mark and word of a plot."""
    x0, x1 = layout.label + INSET, layout.width - layout.note - INSET
    ticks = axis(plot, layout.ticks)

    def across(share: float) -> float:
        return x0 + min(max(share, 0.0), ticks[-1]) / ticks[-1] * (x1 - x0)

    keys, top = _legend(plot, layout)
    labels: list[Label] = []
    points: list[Point] = []
    y = top
    for row in plot.rows:
        height = _height(row, layout)
        labels += _words(row, y, height, layout)
        line = y + (height / 2 if layout.label else 18 + (height - 18) / 2)
        for i, mark in enumerate(row.marks):
            points.append(_point(mark, line + (i - (len(row.marks) - 1) / 2) * MARK_GAP, across))
        y += height
    return Drawing(
        id=f"{plot.name}-{layout.name}",
        title=plot.title,
        desc=described(plot),
        width=layout.width,
        height=y + 26,
        top=top,
        bottom=y + 4,
        grid=tuple((across(t), f"{100 * t:.0f}{' %' if t == ticks[-1] else ''}") for t in ticks),
        lines=tuple(across(line.value) for line in plot.lines),
        keys=keys,
        labels=tuple(labels),
        points=tuple(points),
    )


def axis(plot: Plot, most: int) -> tuple[float, ...]:
    """The ticks from 0 to just above the largest value, at most `most` of them, never above 1."""
    ends = [end for row in plot.rows for m in row.marks for end in (m.value, *(m.ci or ()))]
    return _ticks([*ends, *(line.value for line in plot.lines)], most)


def _ticks(ends: Iterable[float], most: int) -> tuple[float, ...]:
    largest = min(1.0, max([*ends, 0.05]))
    for step in STEPS:
        n = math.ceil(largest / step - 1e-9)
        if n < most:
            return tuple(round(i * step, 6) for i in range(n + 1))
    return (0.0, 0.5, 1.0)


def described(plot: Plot) -> str:
    """The plot in words, for those who do not see it."""
    kinds = dict(plot.legend)
    lines = [f"Reference line: {line.label}." for line in plot.lines]
    return " ".join([*lines, *(_described(row, kinds) for row in plot.rows)])


def _described(row: PlotRow, kinds: dict[Kind, str]) -> str:
    if not row.marks:
        return f"{row.label}."
    marks = [
        f"{kinds.get(m.kind, '')} {percent(m.value)}" + (f" ({between(m.ci)})" if m.ci else "")
        for m in row.marks
    ]
    return f"{row.label}: {', '.join(m.strip() for m in marks)}."


def _height(row: PlotRow, layout: PlotSize) -> float:
    if not row.marks:
        return 30.0
    return layout.row + MARK_GAP * max(0, len(row.marks) - 2)


def _words(row: PlotRow, y: float, height: float, layout: PlotSize) -> list[Label]:
    base = y + (height / 2 + 4.5 if layout.label else 15)
    room = (layout.label - 8) if layout.label else layout.width - len(row.note) * 7.5 - 14
    style = "label" if row.marks else "heading"
    words = [
        Label(0, base if row.marks else y + 20, fit(row.label, room if row.marks else layout.width), style)
    ]
    return [*words, Label(layout.width, base, row.note, "note")] if row.note else words


def _point(mark: Mark, y: float, across: Callable[[float], float]) -> Point:
    left, right = (across(end) for end in mark.ci or (mark.value, mark.value))
    return Point(across(mark.value), y, left, right, mark.kind)


def _legend(plot: Plot, layout: PlotSize) -> tuple[tuple[Label, ...], float]:
    entries = [*plot.legend, *((f"line-{i}", line.label) for i, line in enumerate(plot.lines))]
    keys, x, y = [], 0.0, 12.0
    for kind, label in entries:
        words = fit(label, layout.width - 30)
        wide = 24 + breadth(words) + 20
        if x and x + wide - 20 > layout.width:
            x, y = 0.0, y + LEGEND_LINE
        keys.append(Label(x, y, words, kind))
        x += wide
    return tuple(keys), (y + LEGEND_LINE - 4 if keys else 4.0)


def breadth(words: str) -> float:
    """About how many pixels a text takes: the font is the reader's, so this leans to the wide side."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in words)
    return TEXT * (0.56 * (len(words) - wide) + 1.05 * wide)


def fit(words: str, room: float) -> str:
    """The text cut to the room there is, with an ellipsis where something is cut."""
    if breadth(words) <= room:
        return words
    while words and breadth(words + "…") > room:
        words = words[:-1]
    return words.rstrip() + "…"


SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$#])")


def environment(package: str, folder: str, *, autoescape: bool) -> jinja2.Environment:
    """Templates of a folder of ours; a missing value is an error, and the filter `md` escapes Markdown."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"md": escaped, "cut": cut, "csv": data_link}
    return made


def escaped(text: str) -> str:
    """Text that GitHub prints as it is: no markup, no tag, no cell border."""
    return SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")).replace("\n", " ")


@cache
def _templates(autoescape: bool) -> jinja2.Environment:
    return environment("robustify.report", "", autoescape=autoescape)


@cache
def _styles(*names: str) -> Markup:
    return Markup("".join((files("robustify.report") / f"{name}.css").read_text("utf-8") for name in names))


def cut(words: str) -> str:
    """The first six words, with an ellipsis where there are more."""
    parts = words.split(" ")
    return words if len(parts) <= MOST_WORDS else " ".join(parts[:MOST_WORDS]) + " \u2026"


def data_link(table: Table) -> str:
    """The table's CSV as a link that needs no other file."""
    return "data:text/csv;charset=utf-8," + quote(table.csv(), safe=" ,:;()/%")


def drawn_data(plot: Plot) -> Table:
    """The numbers of a plot as a table: a row for each of its lines, a column for each kind of mark."""
    kinds = plot.legend or (("main", "value"),)
    rows: list[Row] = []
    heading = ""
    for row in plot.rows:
        if not row.marks:
            heading = f"{row.label}, "
            continue
        by_kind = {mark.kind: mark for mark in row.marks}
        rows.append((heading + row.label, *(_marked(by_kind.get(kind)) for kind, _ in kinds)))
    return text_table(plot.title, ("", *(words for _, words in kinds)), rows)


def _marked(mark: Mark | None) -> Cell:
    if mark is None:
        return absent()
    return Cell(percent(mark.value), "" if mark.ci is None else between(mark.ci), spread=half(mark.ci))


def html(page: Page) -> str:
    """The text of report.html."""
    first = (FIRST_WIDE, FIRST_NARROW)
    lines = {trend.name: Markup(trend_svg(trend)) for trend in page.trends}
    plots = [(plot, first if plot is page.first.scores else (WIDE, NARROW)) for plot in page.plots]
    return (
        _templates(True)
        .get_template("page.html.j2")
        .render(
            page=page,
            styles=_styles("palette", "plot", "style"),
            drawings={
                plot.name: tuple(Markup(svg(plot, size, alone=False)) for size in sizes)
                for plot, sizes in plots
            },
            lines=lines,
            data={plot.name: drawn_data(plot) for plot, _ in plots},
        )
    )


def markdown(page: Page) -> str:
    """The text of report.md: the first screen, for a pull request."""
    tables = [b for s in page.sections if s.id == "scores" for b in s.blocks if isinstance(b, Table)]
    scores = tuple(replace(table, rows=table.rows[:MOST_ROWS]) for table in tables[:1])
    level = tuple(s for s in page.sections if s.id == "level")
    parts = (Section("", scores[0].caption if scores else "", scores), *(replace(s, title="") for s in level))
    return _markdown(page, parts, linked=True)


def whole_markdown(page: Page) -> str:
    """The page with all its tables and sentences in Markdown, without its figures and links."""
    return _markdown(page, page.sections, linked=False)


def _markdown(page: Page, parts: Sequence[Section], *, linked: bool) -> str:
    return _templates(False).get_template("report.md.j2").render(page=page, parts=parts, linked=linked)


def trend_svg(trend: Trend) -> str:
    """A line over time as an SVG element that uses the page's colours."""
    (left, right), (top, bottom) = TREND_X, TREND_Y
    ticks = _ticks([end for step in trend.steps for end in (step.value, *(step.ci or ()))], TREND_TICKS)

    def up(share: float) -> float:
        return bottom - min(share, ticks[-1]) / ticks[-1] * (bottom - top)

    wide = (right - left) / max(len(trend.steps) - 1, 1)
    points = [
        {
            "x": left + wide * i,
            "y": up(s.value),
            "reach": [up(end) for end in s.ci or (s.value, s.value)],
            "joined": s.joined,
            "said": f"{s.label}: {percent(s.value)}{f' ({between(s.ci)})' if s.ci else ''}",
        }
        for i, s in enumerate(trend.steps)
    ]
    grid = [(up(tick), f"{100 * tick:.0f}{' %' if tick == ticks[-1] else ''}") for tick in ticks]
    ends = [trend.steps[0].label, trend.steps[-1].label]
    return (
        _templates(True)
        .get_template("trend.svg.j2")
        .render(t=trend, points=points, grid=grid, ends=ends, left=left, right=right, bottom=bottom)
    )


def svg(plot: Plot, layout: PlotSize = WIDE, *, alone: bool = True) -> str:
    """The plot as an SVG document; `alone` brings light and dark colours, else the page's are used."""
    styles = _styles("palette", "plot") if alone else ""
    return _templates(True).get_template("plot.svg.j2").render(d=placed(plot, layout), styles=styles)
