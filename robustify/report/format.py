"""Format numbers, names, cells, and tables for all pages, such as 31.8 % (n = 360, 27.2 to 36.8).

Names come from files of users, so their control characters (terminal escapes, right-to-left overrides) are escaped.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal
from urllib.parse import quote

from robustify.base.errors import counted as counted
from robustify.base.files import neutral
from robustify.base.texts import escaped
from robustify.judging.summary.model_parts import Gain
from robustify.judging.summary.quantity import Quantity, Score
from robustify.judging.summary.result import AuditorResult

Ends = Sequence[float]
LIMIT = 0.9995
"""Probabilities of a shortcut above this limit would round to 100.0 %."""
AT_LIMIT = "\u2248 100 %"
LONGEST_NAME = 120
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def plain(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a printable name: shortened, with control characters escaped, and never blank."""
    cut = name if len(name) <= longest else name[: longest - 1] + "…"
    return escaped(cut) if cut.strip() else "(blank)"


def spaced(name: str) -> str:
    """Replace the underscores of a name with spaces."""
    return plain(name).replace("_", " ")


def signed(x: float, decimals: int) -> str:
    """Format a number with a typographic minus sign, and never as a negative zero."""
    shown = f"{x:,.{decimals}f}"
    return shown.lstrip("-") if float(shown.replace(",", "")) == 0 else shown.replace("-", "\u2212")


def added(x: float) -> str:
    """Format a contribution to a logit with its sign: `+0.52`."""
    return f"{'+' if x > 0 else ''}{signed(x, 2)}"


def percent(x: float, decimals: int = 1) -> str:
    """Format a share as a percentage: `31.8 %`."""
    return f"{signed(100 * x, decimals)} %"


def likely(p: float) -> str:
    """Format the probability of a shortcut, capped at `≈ 100 %`."""
    return AT_LIMIT if p >= LIMIT else percent(p)


def in_points(x: float) -> str:
    """Format a difference of two shares: `4.2 points`."""
    return f"{signed(100 * x, 1)} points"


def lasting(seconds: float) -> str:
    """Format a duration: `12 s`, `4 min`, `2.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def count(n: float) -> str:
    """Format a count with thousands separators, and with one decimal if it is not an integer."""
    return f"{n:,.0f}" if float(n).is_integer() else signed(n, 1)


def p_value(p: float | None) -> str:
    """Format a p-value: `p = 0.012` or `p < 0.001`."""
    if p is None:
        return "p not measured"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def ordinal(position: int) -> str:
    """Format a zero-based position as an ordinal: first, second, ... 11th."""
    if position < len(_ORDINALS):
        return _ORDINALS[position]
    number = position + 1
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def between(ends: Ends, scale: float = 100.0, places: int = 1) -> str:
    """Format an interval, as in `27.2 to 36.8`, or return "" if both ends look the same."""
    low, high = (signed(scale * end, places) for end in ends)
    return "" if low == high else f"{low} to {high}"


def bracketed(ends: Ends | None, scale: float = 100.0, places: int = 1) -> str:
    """Format an interval that follows its number: ` (27.2 to 36.8)`. Return "" if there is no interval to show."""
    shown = "" if ends is None else between(ends, scale, places)
    return f" ({shown})" if shown else ""


def about(n: float) -> str:
    """Format an estimated number: `about 12`, or `almost none` if it is below a half."""
    return f"about {round(n):,}" if round(n) else "almost none"


def agreeing(n: int, singular: str, plural: str) -> str:
    """Return the singular or plural words that agree with a number."""
    return singular if n == 1 else plural


def joined(*parts: str) -> str:
    """Join the nonempty parts with commas."""
    return ", ".join(filter(None, parts))


def rated(q: Quantity | None) -> str:
    """Format a rate with n and its interval: `31.8 % (n = 360, 27.2 to 36.8)`."""
    return _written(q, percent)


def points(q: Quantity | None) -> str:
    """Format a difference with n and its interval: `4.2 points (n = 360, 1.0 to 7.4)`."""
    return _written(q, in_points)


def _written(q: Quantity | None, write: Callable[[float], str]) -> str:
    if q is None or q.value is None:
        return "no items (n = 0)" if q is not None and q.n == 0 else "not measured"
    small = joined("" if q.n is None else f"n = {count(q.n)}", "" if q.ci is None else between(q.ci))
    return f"{write(q.value)} ({small})" if small else write(q.value)


FILTERS = {
    function.__name__: function
    for function in (
        about, added, agreeing, between, bracketed, count, counted, in_points, lasting, likely, ordinal, p_value, percent,
        plain, points, rated, spaced,
    )
}  # fmt: skip
"""Filters of all templates and of the message catalog."""


Scale = Literal["rate", "points", "count", "number"]
Tone = Literal["", "absent", "good", "bad", "unsure"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Table cell. `spread` is half the width of the interval, or its ends. `title` has n, interval, p, and chance, and is
    shown on hover.

    `value`, `ends`, `n`, and `parts` (of a list) are written to the CSV.
    """

    main: str
    title: str = ""
    spread: str = ""
    badge: str = ""
    tone: Tone = ""
    link: str = ""
    value: float | str | None = None
    ends: tuple[float, float] | None = None
    n: int | None = None
    parts: tuple[float, ...] = ()

    @property
    def exact(self) -> str:
        """Text of the cell with its title."""
        return f"{self.main} ({self.title})" if self.title else self.main


ABSENT = Cell("\u2013", tone="absent")


@dataclass(frozen=True, slots=True)
class Table:
    """Table whose first `names` columns name the row."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    names: int = 1

    @property
    def figures(self) -> set[int]:
        """Indices of the numeric columns."""
        texts = {i for row in self.rows for i, entry in enumerate(row) if isinstance(entry.value, str)}
        return set(range(self.names, len(self.heads))) - texts

    def first(self, most: int) -> "Table":
        """Return the table with only its first `most` rows."""
        return replace(self, rows=self.rows[:most])

    def link(self) -> str:
        """Return the table's CSV as a data URL."""
        return "data:text/csv;charset=utf-8," + quote(self.csv(), safe=" ,:;()/%")

    def csv(self) -> str:
        """Return the table as CSV in long format: row names, column, value, low, high, n."""
        out = io.StringIO()
        writer = csv.writer(out)
        names = [head or "name" for head in self.heads[: self.names]]
        writer.writerow([*names, "column", "value", "low", "high", "n"])
        for row in self.rows:
            named = [neutral(c.main) for c in row[: self.names]]
            for head, cell in zip(self.heads[self.names :], row[self.names :], strict=True):
                for i, share in enumerate(cell.parts, start=1):
                    writer.writerow([*named, f"{neutral(head)}, {i}", share, None, None, cell.n])
                if cell.value is not None and not cell.parts:
                    value = neutral(cell.value) if isinstance(cell.value, str) else cell.value
                    writer.writerow([*named, neutral(head), value, *(cell.ends or (None, None)), cell.n])
        return out.getvalue()


Shown = Quantity | float | str | Cell | None
Row = tuple[Shown, ...]


def table(caption: str, heads: Sequence[str], rows: Iterable[Row], names: int = 1) -> Table:
    """Return a table of values without empty rows and columns. The first `names` columns name the row."""
    cells = [tuple(_named(x) if i < names else cell(x) for i, x in enumerate(row)) for row in rows]
    cells = [row for row in cells if any(c.value is not None for c in row[names:])]
    kept = [i for i in range(len(heads)) if i < names or any(row[i].value is not None for row in cells)]
    shown = tuple(tuple(row[i] for i in kept) for row in cells)
    return Table(caption, tuple(heads[i] for i in kept), shown, names)


def value_table(caption: str, *values: tuple[str, Shown]) -> Table:
    """Return a table with one row per named value."""
    return table(caption, ("", "Value"), values)


def text_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], names: int = 1) -> Table:
    """Return a table of strings and cells. Its first `names` columns name the row."""
    cells = (tuple(x if isinstance(x, Cell) else text(str(x)) for x in row) for row in rows)
    return Table(caption, tuple(heads), tuple(cells), names)


def _named(name: Shown) -> Cell:
    return name if isinstance(name, Cell) else Cell(plain(str(name))) if str(name).strip() else ABSENT


def voting(name: str, is_voter: bool | None) -> Cell:
    """Return a table cell with the name of a model, marked if it is a voter."""
    return Cell(plain(name), badge="voter" if is_voter else "")


def text(words: str | None) -> Cell:
    """Return a table cell for a text. A blank text is absent."""
    return ABSENT if words is None or not words.strip() else Cell(plain(words, 400), value=words)


def p_cell(p: float | None) -> Cell:
    """Return a table cell for a p-value."""
    return ABSENT if p is None else Cell(p_value(p).removeprefix("p ").removeprefix("= "), value=p)


SCALES: Mapping[Scale, tuple[Callable[[float], str], float, int]] = {
    "rate": (percent, 100.0, 1), "points": (in_points, 100.0, 1), "count": (count, 1.0, 0),
    "number": (partial(signed, decimals=3), 1.0, 3),
}  # fmt: skip
"""Format of a number, and factor and decimals of the ends of its interval."""


def cell(value: Shown, scale: Scale = "rate", *beside: str) -> Cell:
    """Return a table cell for a quantity, a number or a text. Integers are counts. `beside` is added to the title."""
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        scale = "count"
    q = value if isinstance(value, Quantity) else Quantity(value=value)
    if q.value is None:
        reason = (isinstance(q, Score) and q.withheld) or ("no items" if q.n == 0 else "")
        return Cell(reason, tone="absent") if reason else ABSENT
    write, times, decimals = SCALES[scale]
    ends = spread = badge = ""
    if q.ci is not None:
        ends, half = between(q.ci, times, decimals), (q.ci[1] - q.ci[0]) / 2
        # An interval that a share cannot be the middle of is shown by its ends.
        fits = scale != "rate" or half <= min(q.value, 1 - q.value) + 1e-9
        spread = (f"±{times * half:,.{decimals}f}" if fits else f"({ends})") if ends else ""
    if isinstance(q, Score) and q.significant is not None and q.chance is not None:
        badge = "≈ chance" if not q.significant else "below chance" if q.value < q.chance else ""
    title = joined("" if q.n is None else f"n = {count(q.n)}", ends, *_notes(q), *beside)
    return Cell(write(q.value), title, spread, badge, value=q.value, ends=q.ci, n=q.n)


def _notes(q: Quantity) -> Iterator[str]:
    """Yield the additional parts of a cell's title: p-value, chance, detectable difference, and ties."""
    holm = q.p_holm if isinstance(q, Score | Gain) else None
    if holm is not None:
        yield f"{p_value(holm)} by Holm"
    elif isinstance(q, Score | AuditorResult) and q.p is not None:
        refits = f" by {q.refits} refits" if isinstance(q, AuditorResult) and q.refits else ""
        yield p_value(q.p) + refits
    if isinstance(q, Score | AuditorResult):
        share = q.expected if isinstance(q, Score) and q.expected is not None else q.chance
        yield "" if share is None else f"chance {percent(share)}"
    if isinstance(q, Score):
        yield "" if q.significant or q.mde is None else f"80 % power at {in_points(q.mde)}"
        yield f"{count(q.ties)} ties" if q.ties else ""
