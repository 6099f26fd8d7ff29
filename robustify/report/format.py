"""Formatting of numbers and names: 31.8 % (n = 360, 27.2 to 36.8), p < 0.001, 4.2 points.

Names come from files of users, so their control characters (terminal escapes, right-to-left overrides) are escaped.
"""

from collections.abc import Callable, Sequence

from robustify.base.errors import counted as counted
from robustify.base.texts import escaped
from robustify.judging.summary.quantity import Quantity

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


def percent(x: float) -> str:
    """Format a share as a percentage: `31.8 %`."""
    return f"{signed(100 * x, 1)} %"


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
    """Format an interval: `27.2 to 36.8`."""
    return f"{signed(scale * ends[0], places)} to {signed(scale * ends[1], places)}"


def joined(*parts: str) -> str:
    """Join the nonempty parts with commas."""
    return ", ".join(filter(None, parts))


def rated(q: Quantity | None) -> str:
    """Format a rate with n and its interval: `31.8 % (n = 360, 27.2 to 36.8)`."""
    return _written(q, percent)


def points(q: Quantity | None) -> str:
    """Format a difference with n and its interval: `4.2 points (n = 360, 1.0 to 7.4)`."""
    return _written(q, in_points)


def _written(q: Quantity | None, how: Callable[[float], str]) -> str:
    if q is None or q.value is None:
        return "no items (n = 0)" if q is not None and q.n == 0 else "not measured"
    small = joined("" if q.n is None else f"n = {count(q.n)}", "" if q.ci is None else between(q.ci))
    return f"{how(q.value)} ({small})" if small else how(q.value)


FILTERS = {
    one.__name__: one
    for one in (
        added, between, count, counted, in_points, lasting, likely, ordinal, p_value, percent, plain, points, rated, spaced,
    )
}  # fmt: skip
"""Filters of all templates and of the message catalogue."""
