"""Pictures of a summary in which each row has two bars: flags by limit, scores by order of the options, and topics."""

from collections.abc import Iterator
from dataclasses import dataclass

from robustify.judging.summary.result import Summary
from robustify.report.format import percent, plain
from robustify.report.quoting import LONGEST_MODEL

MOST_ROWS = 24
Legend = tuple[str, str]
"""Class of a bar in `plot.css`, and its words."""


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a picture: its label, the longer bar, the shorter one on it, and the text at its end. `own` is bold."""

    label: str
    outer: float
    inner: float
    text: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Picture with rows of two bars. `most` is the length of a bar over the whole width."""

    id: str
    title: str
    outer: Legend
    inner: Legend
    rows: tuple[Row, ...]
    most: float


def charts(s: Summary) -> Iterator[Chart]:
    """Yield the pictures for which a summary has numbers."""
    own = s.screen.cut.q if s.screen and s.screen.cut else None
    cuts = tuple(
        Row(f"{percent(c.q)}{', this run' * (c.q == own)}", c.flagged, c.by_chance,
            f"{c.flagged}, {c.by_chance:.0f} by chance", c.q == own)
        for c in (s.screen.cuts if s.screen else ())
    )  # fmt: skip
    orders = tuple(
        Row(plain(name, LONGEST_MODEL), f.max, f.min,
            f"{100 * f.min:.1f} to {percent(f.max)}, {percent(f.flip_rate.value or 0.0)} flip")
        for name, f in s.permutation.by_model.items() if f
    )  # fmt: skip
    topics = tuple(
        Row(plain(name, LONGEST_MODEL), t.before, t.after, f"{t.after}/{t.before}")
        for name, t in (s.topics.by_topic if s.topics else {}).items()
    )
    titles = {
        "cuts": ("Flagged items by the limit of their share by chance", ("flagged", "the other flagged items"),
                 ("by-chance", "by chance"), cuts, max((row.outer for row in cuts), default=0.0)),
        "order": ("Lowest and highest score by order of the options", ("by-chance", "in the best order"),
                  ("kept", "in the worst order"), orders, 1.0),
        "topics": ("Items of each topic before and after flagging", ("by-chance", "before"), ("kept", "after"),
                   topics[:MOST_ROWS], max((row.outer for row in topics), default=0.0)),
    }  # fmt: skip
    for name, (title, outer, inner, rows, most) in titles.items():
        if rows and most:
            yield Chart(name, title, outer, inner, rows, most)
