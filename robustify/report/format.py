"""How numbers and names are written, in one place: 31.8 % (n = 360, 27.2 to 36.8), p < 0.001, 4.2 points.

Names come from files that others wrote. A control character in one (a terminal escape, a right-to-left
override) is written out as its code and never passed on.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TypeVar

from robustify.errors import counted as counted
from robustify.report.blocks import Cell, Kind, Mark, PlotRow, Tone
from robustify.summary.quantity import DifferenceQuantity, Interval, Part, Quantity
from robustify.summary.scored import AgainstChance

ABSENT = "not measured"
NOT_SHOWN = "not shown"
LIMIT = 0.9995
"""A probability of a shortcut from here on would be written as 100.0 %."""
AT_LIMIT = "\u2248 100 %"
WHY_LIMIT = "the most that can be measured: all items with so sure a pick are hits"
JOINERS = "\u200c\u200d"
LONGEST_NAME = 120
_RELEASED: ContextVar[bool] = ContextVar("released", default=False)


def plain(name: str, longest: int = LONGEST_NAME) -> str:
    """A name that is safe to print: no control, format or unassigned characters, not empty, not endless."""
    cut = name if len(name) <= longest else name[: longest - 1] + "…"
    return "".join(_shown(c) for c in cut) if cut.strip() else "(blank)"


def _shown(c: str) -> str:
    hidden = unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and c not in JOINERS
    return f"\\x{ord(c):02x}" if hidden and ord(c) < 256 else f"\\u{ord(c):04x}" if hidden else c


def spaced(name: str) -> str:
    """`longest_answer` as prose: longest answer."""
    return plain(name).replace("_", " ")


@contextmanager
def as_released(on: bool) -> Iterator[None]:
    """Inside, numbers are written as a restricted run's are: whole percents, and what is absent is not shown."""
    before = _RELEASED.set(on)
    try:
        yield
    finally:
        _RELEASED.reset(before)


def decimals() -> int:
    """The decimals of a percent."""
    return 0 if _RELEASED.get() else 1


def missing() -> str:
    """What is written for a number that is not there."""
    return NOT_SHOWN if _RELEASED.get() else ABSENT


def percent(x: float) -> str:
    """A share as percent with one decimal, or as whole percent."""
    return f"{signed(100 * x, decimals())} %"


def likely(p: float) -> str:
    """A probability of a shortcut; where all items alike are hits it can be measured no higher."""
    return AT_LIMIT if p >= LIMIT else percent(p)


def signed(x: float, decimals: int) -> str:
    """A number with a real minus sign; never a negative zero."""
    shown = f"{x:,.{decimals}f}"
    return shown.lstrip("-") if float(shown.replace(",", "")) == 0 else shown.replace("-", "\u2212")


def count(n: float) -> str:
    """A count, with thousands set apart; one decimal where it is no whole number (an expectation)."""
    return f"{n:,.0f}" if float(n).is_integer() else signed(n, 1)


def p_value(p: float | None) -> str:
    """`p = 0.012`, or `p < 0.001`."""
    if p is None:
        return f"p {missing()}"
    if _RELEASED.get():
        return f"p \u2264 {p:g}"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def by_mode(mode: str | None) -> str:
    """How a question was answered; null in files of before it could be by text."""
    return "by text" if mode == "text" else "by letter"


def between(ends: Interval, scale: float = 100.0, places: int | None = None) -> str:
    """An interval: `27.2 to 36.8`."""
    n = decimals() if places is None else places
    return f"{signed(scale * ends[0], n)} to {signed(scale * ends[1], n)}"


def half(ci: Interval | None, scale: float = 100.0, places: int | None = None) -> str:
    """Half the width of an interval, to stand beside its middle: `±5.0`; empty without one."""
    n = decimals() if places is None else places
    return "" if ci is None else f"\u00b1{scale * (ci[1] - ci[0]) / 2:,.{n}f}"


def joined(*parts: str) -> str:
    """The parts that are not empty, as one line of small print."""
    return ", ".join(p for p in parts if p)


def rests_on(q: Quantity, scale: float = 100.0) -> str:
    """What a quantity rests on: `n = 360, 27.2 to 36.8`; empty where neither is known."""
    return joined("" if q.n is None else f"n = {count(q.n)}", "" if q.ci is None else between(q.ci, scale))


P = TypeVar("P", bound=Part)


def present(part: P | None) -> P | None:
    """The part; None where a release left nothing of it."""
    return part if part is not None and any(v is not None for v in dict(part).values()) else None


def _written(q: Quantity | None, value: str) -> str:
    if q is None or q.value is None:
        return "no items (n = 0)" if q is not None and q.n == 0 else missing()
    small = rests_on(q)
    return value + (f" ({small})" if small else "")


def rate(q: Quantity | None) -> str:
    """A rate in a sentence: `31.8 % (n = 360, 27.2 to 36.8)`."""
    return _written(q, percent((q and q.value) or 0.0))


def points(q: Quantity | None) -> str:
    """A difference of two shares: `4.2 points (1.0 to 7.4)`."""
    return _written(q, in_points((q and q.value) or 0.0))


def in_points(x: float) -> str:
    """A difference of two shares without its interval: `4.2 points`."""
    return f"{signed(100 * x, decimals())} points"


def power(mde: float | None) -> str:
    """Beside a null result the difference that a test would detect: `80 % power at 12.6 points`."""
    return "" if mde is None else f"80 % power at {in_points(mde)}"


def absent(why: str = "") -> Cell:
    """An entry that says that there is nothing."""
    return Cell(why or missing(), tone="absent")


def _without_value(q: Quantity) -> Cell:
    if q.n == 0:
        return Cell("no items", "n = 0", "absent")
    return absent(f"withheld: {plain(q.withheld)}" if q.withheld else "")


def _quantity(x: Quantity | float | None) -> Quantity:
    return x if isinstance(x, Quantity) else Quantity(value=x)


def rate_cell(x: Quantity | float | None, tone: Tone = "") -> Cell:
    """A rate in a table."""
    q = _quantity(x)
    return (
        _without_value(q) if q.value is None else Cell(percent(q.value), rests_on(q), tone, spread=half(q.ci))
    )


def count_cell(x: Quantity | float | None) -> Cell:
    """A count, or an expected count with its interval, in a table."""
    q = _quantity(x)
    if q.value is None:
        return _without_value(q)
    return Cell(count(q.value), rests_on(q, scale=1.0), spread=half(q.ci, 1.0, 0))


def number_cell(x: float | None, decimals: int = 3, ci: Interval | None = None, small: str = "") -> Cell:
    """A bare number in a table, with its interval or other small print."""
    if x is None:
        return absent()
    return Cell(
        signed(x, decimals), between(ci, 1.0, decimals) if ci else small, spread=half(ci, 1.0, decimals)
    )


def points_cell(q: Quantity | None, p: float | None = None) -> Cell:
    """A difference of two shares in a table, with its p and the difference that has a power of 80 %."""
    if q is None or q.value is None:
        return _without_value(q or Quantity())
    mde = q.mde if isinstance(q, DifferenceQuantity) else None
    small = joined(rests_on(q), "" if p is None else p_value(p), power(mde))
    return Cell(in_points(q.value), small, spread=half(q.ci))


def against_chance_cell(q: AgainstChance | None) -> Cell:
    """A rate in a table, with chance where the rate is below it or does not differ from it significantly."""
    cell = rate_cell(q)
    if q is None or q.value is None or q.chance is None:
        return cell
    if q.significant is False:
        beside = noted(cell, f"not significantly above chance {percent(q.chance)}", power(q.mde))
        return replace(beside, badge="\u2248 chance")
    if q.significant and q.value < q.chance:
        return replace(noted(cell, f"below chance {percent(q.chance)}"), badge="below chance")
    return cell


def p_cell(p: float | None, *small: str) -> Cell:
    """A p in a table whose head says that it is one."""
    return absent() if p is None else Cell(p_value(p).removeprefix("p ").removeprefix("= "), joined(*small))


def p_before(p: float | None) -> str:
    """The p before a correction; empty where there is none."""
    return "" if p is None else p_value(p)


def shares_cell(shares: Sequence[float] | None) -> Cell:
    """Shares by position, from the first: `24.1/25.3/... %`."""
    if not shares:
        return absent()
    return Cell("/".join(f"{100 * s:.{decimals()}f}" for s in shares[:26]) + " %")


def model_cell(name: str, is_voter: bool | None) -> Cell:
    """A model's name, marked if it voted in the filter."""
    return Cell(plain(name), badge="voter" if is_voter else "")


def noted(cell: Cell, *small: str) -> Cell:
    """A cell with more small print."""
    return replace(cell, small=joined(cell.small, *small))


def dots(label: str, found: Iterable[tuple[Kind, Quantity | None]]) -> Iterator[PlotRow]:
    """The row of a plot with several rates, written from the first to the last; nothing where none has a value."""
    marks = tuple(Mark(q.value, q.ci, kind) for kind, q in found if q is not None and q.value is not None)
    if marks:
        values = (f"{100 * m.value:.{decimals()}f}" for m in marks)
        yield PlotRow(label, marks, " \u2192 ".join(values) + " %")


def dot(label: str, q: Quantity | None, kind: Kind = "main") -> Iterator[PlotRow]:
    """The row of a plot with this one rate; nothing where it has no value."""
    if q is not None and q.value is not None:
        yield PlotRow(label, (Mark(q.value, q.ci, kind),), percent(q.value))
