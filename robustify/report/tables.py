"""Tables of all pages. A row is a part of the summary, and a column is a heading with a dotted path.

A cell shows a number and half the width of its interval. Its title has n, the interval, p, and chance, and the CSV has
them as numbers. Empty rows and columns are left out.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from robustify.files import neutral
from robustify.report.format import (
    at,
    between,
    count,
    half,
    in_points,
    joined,
    p_value,
    percent,
    plain,
    shares,
    signed,
)

How = Literal["rate", "points", "count", "items", "number", "p", "ids", "shares", "text"]
Tone = Literal["", "absent", "good", "bad", "unsure"]
Column = tuple[str, str] | tuple[str, str, How]
"""Heading, dotted path, and format of the value (default: rate). Of the paths `a|b`, the first that exists is used."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Table cell.

    `spread` is half the width of the interval, and `title` is shown on hover. `value`, `ends`, `n`, and `parts` are written
    to the CSV. `parts` has several numbers if the cell shows a list.
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
        texts = {i for row in self.rows for i, one in enumerate(row) if isinstance(one.value, str)}
        return set(range(self.names, len(self.heads))) - texts

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


Rows = Mapping[Any, Any] | Iterable[tuple[Any, Any]]


def table(
    caption: str, rows: Rows, columns: Sequence[Column], first: str | Sequence[str] = "", most: int = 0
) -> Table:
    """Return a table from a mapping, or from (name, summary part) pairs.

    A name may be a tuple, with a heading for each element in `first`. A voter is marked if its part has `is_voter`. `most`
    limits the number of rows.
    """
    heads = (first,) if isinstance(first, str) else tuple(first)
    pairs = list(rows.items() if isinstance(rows, Mapping) else rows)
    made = (
        (*_named(name, at(part, "is_voter") is True), *(_found(part, column) for column in columns))
        for name, part in pairs[: most or None]
    )
    return _filled(Table(caption, (*heads, *(c[0] for c in columns)), tuple(made), len(heads)))


def facts(caption: str, part: Any, fields: Sequence[Column], head: str = "Value") -> Table:
    """Return a table with one row per value of a part of the summary."""
    return _filled(Table(caption, ("", head), tuple((_text(f[0]), _found(part, f)) for f in fields)))


def _found(part: Any, column: Column) -> Cell:
    """Return the table cell of a column. A plain number gets its interval and p-value from `NAME_ci` and `NAME_p`."""
    paths = column[1].split("|")
    path = next((path for path in paths if at(part, path) is not None), "none")
    value = at(part, path)
    if isinstance(value, float):
        value = {"value": value, **{name: at(part, f"{path}_{name}") for name in ("ci", "p")}}
    return cell(value, column[2] if len(column) > 2 else "rate")


def named(rows: Iterable[Mapping[str, Any]] | None, key: str) -> Iterator[tuple[str, Any]]:
    """Yield each row with its name, which is the value at `key`."""
    return ((row[key] or "unnamed", row) for row in rows or ())


def worded(rows: Mapping[str, Any] | None, words: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield each part with its label, or with its name if it has no label."""
    return ((words.get(name, name), part) for name, part in (rows or {}).items())


def linked(label: str, link: str) -> Cell:
    """Return a row name with a link."""
    return Cell(plain(label), link=link)


def text_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], names: int = 1) -> Table:
    """Return a table of strings and ready-made cells."""
    made = tuple(tuple(x if isinstance(x, Cell) else _text(str(x)) for x in row) for row in rows)
    return Table(caption, tuple(heads), made, names)


def nested(rows: Rows, inner: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[Any, str], Any]]:
    """Yield one row per model and part of its nested summary."""
    for name, part in rows.items() if isinstance(rows, Mapping) else rows:
        for label, path in inner:
            found = at(part, path)
            if found is not None:
                yield (name, label), {**found, "is_voter": at(part, "is_voter") or at(found, "is_voter")}


def cell(value: Any, how: How = "rate") -> Cell:
    """Return the cell of a quantity or of a bare value."""
    if isinstance(value, Cell):
        return value
    q = _quantity(value)
    x = at(q, "value")
    if x is None:
        why = at(q, "withheld") or ("no items" if at(q, "n") == 0 else "")
        return Cell(why, tone="absent") if why else ABSENT
    match how:
        case "shares":
            return Cell(shares(x), value=shares(x), parts=tuple(x)) if x else ABSENT
        case "ids":
            return _text(", ".join(plain(one, 60) for one in x)) if x else ABSENT
        case "text":
            return _text(str(x))
        case "p":
            return Cell(p_value(x).removeprefix("p ").removeprefix("= "), value=x)
        case "items":
            return Cell(count(round(x * (at(q, "n") or 0))), value=round(x * (at(q, "n") or 0)))
    return _number(q, float(x), how)


WRITTEN: Mapping[How, Callable[[float], str]] = {
    "points": in_points, "count": count, "number": partial(signed, decimals=3),
}  # fmt: skip
"""Formats of numbers other than percentages."""


def _number(q: Any, x: float, how: How) -> Cell:
    scale, decimals = {"count": (1.0, 0), "number": (1.0, 3)}.get(how, (100.0, 1))
    ci, n = at(q, "ci"), at(q, "n")
    main = WRITTEN.get(how, percent)(x)
    known = "" if n is None else f"n = {count(n)}"
    title = joined(known, "" if ci is None else between(ci, scale, decimals), *_beside(q))
    ends = None if ci is None else (ci[0], ci[1])
    return Cell(main, title, half(ci, scale, decimals), _badge(q), value=x, ends=ends, n=n)


def _beside(q: Any) -> Iterator[str]:
    """Yield the further parts of a cell's title: p-value, chance, detectable difference, and ties."""
    for name in ("p_holm", "p"):
        if at(q, name) is not None:
            by = "Holm" if name == "p_holm" else f"{at(q, 'refits')} refits" if at(q, "refits") else ""
            yield p_value(at(q, name)) + (f" by {by}" if by else "")
            break
    expected = at(q, "expected") if at(q, "expected") is not None else at(q, "chance")
    if expected is not None:
        yield f"chance {percent(expected)}"
    if at(q, "mde") is not None and at(q, "significant") is not True:
        yield f"80 % power at {in_points(at(q, 'mde'))}"
    if at(q, "ties"):
        yield f"{count(at(q, 'ties'))} ties"


def _badge(q: Any) -> str:
    significant, value, chance = (at(q, name) for name in ("significant", "value", "chance"))
    if significant is None or chance is None:
        return ""
    return "\u2248 chance" if not significant else "below chance" if value < chance else ""


def _quantity(value: Any) -> Any:
    """Convert a mean over orders or removals, or a bare number, to a quantity."""
    if isinstance(value, Mapping) and "value" not in value and "mean" in value:
        return {**value, "value": value["mean"], "ci": value.get("mean_ci") or value.get("ci")}
    return value if isinstance(value, Mapping) or hasattr(value, "value") else {"value": value}


def _text(text: str) -> Cell:
    return Cell(plain(text, 400), value=text)


def _named(name: Any, voter: bool) -> Iterator[Cell]:
    for i, part in enumerate(name if isinstance(name, tuple) else (name,)):
        if isinstance(part, Cell):
            yield part
        else:
            yield Cell(plain(str(part)), badge="voter" if voter and i == 0 else "")


def _filled(found: Table) -> Table:
    """Drop the rows and columns without a value."""
    rows = [row for row in found.rows if any(c.value is not None for c in row[found.names :])]
    there = [
        i < found.names or any(row[i].value is not None for row in rows) for i in range(len(found.heads))
    ]
    kept = [i for i, one in enumerate(there) if one]
    heads = tuple(found.heads[i] for i in kept)
    return Table(found.caption, heads, tuple(tuple(row[i] for i in kept) for row in rows), found.names)
