"""How numbers and names are written, everywhere the same: 31.8 % (n = 360, 27.2 to 36.8).

Names come from files that others wrote. A control character in one (a terminal escape, a right-to-left
override) is written out as its code and never passed on.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import PurePath

from robustify.report.blocks import Cell, Tone
from robustify.report.reading import Quantity, at, deciding, number, numbers, quantity, records, text, whole

ABSENT = "not measured"
NOT_SHOWN = "not shown"
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
def released(on: bool) -> Iterator[None]:
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
    """What is said of a number that is not there."""
    return NOT_SHOWN if _RELEASED.get() else ABSENT


def percent(x: float) -> str:
    """A share as percent with one decimal, or as whole percent."""
    return f"{signed(100 * x, decimals())} %"


def signed(x: float, decimals: int) -> str:
    """A number with a real minus sign; never a negative zero."""
    shown = f"{x:,.{decimals}f}"
    return shown.lstrip("-") if float(shown.replace(",", "")) == 0 else shown.replace("-", "\u2212")


def count(n: float) -> str:
    """A count, with thousands set apart; one decimal where it is no whole number (an expectation)."""
    return f"{n:,.0f}" if float(n).is_integer() else signed(n, 1)


def counted(n: int, one: str, many: str = "") -> str:
    """`1 item`, `3 items`."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def p_value(p: float | None) -> str:
    """`p = 0.012`, or `p < 0.001`."""
    if p is None:
        return f"p {missing()}"
    if _RELEASED.get():
        return f"p \u2264 {p:g}"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def between(lo: float, hi: float, scale: float = 100.0, places: int | None = None) -> str:
    """An interval: `27.2 to 36.8`."""
    n = decimals() if places is None else places
    return f"{signed(scale * lo, n)} to {signed(scale * hi, n)}"


def rests_on(q: Quantity, scale: float = 100.0) -> str:
    """What a quantity rests on: `n = 360, 27.2 to 36.8`; empty where neither is known."""
    n = [f"n = {count(q.n)}"] if q.n is not None else []
    ci = [between(q.lo, q.hi, scale)] if q.lo is not None and q.hi is not None else []
    return ", ".join(n + ci)


def rate(q: Quantity) -> str:
    """A rate in a sentence: `31.8 % (n = 360, 27.2 to 36.8)`."""
    if q.value is None:
        return "no items (n = 0)" if q.n == 0 else missing()
    small = rests_on(q)
    return percent(q.value) + (f" ({small})" if small else "")


def rate_cell(x: object, tone: Tone = "") -> Cell:
    """A rate in a table."""
    q = x if isinstance(x, Quantity) else quantity(x)
    if q.value is None:
        return Cell("no items", "n = 0", "absent") if q.n == 0 else absent(_withheld(x))
    return Cell(percent(q.value), rests_on(q), tone)


def count_cell(x: object) -> Cell:
    """A count, or an expected count with its interval, in a table."""
    q = x if isinstance(x, Quantity) else quantity(x)
    return absent(_withheld(x)) if q.value is None else Cell(count(q.value), rests_on(q, scale=1.0))


def _withheld(x: object) -> str:
    why = text(at(x, "withheld"))
    return f"withheld: {plain(why)}" if why else missing()


def number_cell(x: object, decimals: int = 3) -> Cell:
    """A bare number in a table."""
    found = number(x)
    return absent() if found is None else Cell(signed(found, decimals))


def absent(why: str = "") -> Cell:
    """An entry that says that there is nothing."""
    return Cell(why or missing(), tone="absent")


def again(cell: Cell) -> Cell:
    """A row's name that repeats the one above it."""
    return replace(cell, tone="again")


def points(q: Quantity) -> str:
    """A difference of two shares: `4.2 points (1.0 to 7.4)`."""
    if q.value is None:
        return missing()
    small = rests_on(q)
    return f"{signed(100 * q.value, decimals())} points" + (f" ({small})" if small else "")


def model_cell(name: str, entry: object) -> Cell:
    """A model's name, marked if it voted in the filter."""
    return Cell(plain(name), badge="voter" if at(entry, "is_voter") is True else "")


def points_cell(x: object, p: float | None = None) -> Cell:
    """A difference of two shares in a table, with its p and what it would have told, where there is one."""
    q = quantity(x)
    if q.value is None:
        return Cell("no items", "n = 0", "absent") if q.n == 0 else absent(_withheld(x))
    beside = ("" if p is None else p_value(p), power(at(x, "mde")))
    return Cell(f"{signed(100 * q.value, decimals())} points", joined(rests_on(q), *beside))


def power(mde: object) -> str:
    """Beside a null result the difference that would have been told: `80 % power at 12.6 points`."""
    found = number(mde)
    return "" if found is None else f"80 % power at {signed(100 * found, decimals())} points"


def judged_cell(x: object) -> Cell:
    """A rate in a table; said of chance is only that it is below it, or cannot be told from it."""
    cell, q = rate_cell(x), quantity(x)
    chance, told = number(at(x, "chance")), at(x, "told_from_chance")
    if q.value is None or chance is None:
        return cell
    if told is False:
        return replace(
            cell,
            small=joined(cell.small, f"not told from chance {percent(chance)}", power(at(x, "mde"))),
        )
    below = told is True and q.value < chance
    return replace(cell, small=joined(cell.small, f"below chance {percent(chance)}")) if below else cell


def p_cell(p: object, small: str = "") -> Cell:
    """A p in a table whose head says that it is one."""
    found = number(p)
    return absent() if found is None else Cell(p_value(found).removeprefix("p ").removeprefix("= "), small)


def places(x: object) -> Cell:
    """Shares by place: `A 24.1, B 25.3, ... %`."""
    shares = numbers(x)
    if not shares:
        return absent()
    return Cell(
        ", ".join(f"{chr(65 + i)} {100 * s:.{decimals()}f}" for i, s in enumerate(shares[:26])) + " %"
    )


def joined(*parts: str) -> str:
    """The parts that say something, as one line of small print."""
    return ", ".join(p for p in parts if p)


def verdict(summary: Mapping[str, object]) -> tuple[str, Tone, str]:
    """The certificate's word, its tone and its sentence."""
    said = text(at(summary, "certificate", "sentence"))
    sentence = plain(said, 1000) if said else ""
    match at(summary, "certificate", "verdict"):
        case "certified":
            return (
                "Certified",
                "good",
                sentence or "No outside auditor found a shortcut left in what was kept.",
            )
        case "not certified":
            return (
                "Not certified",
                "bad",
                sentence or "What was kept can still be answered above chance by shortcuts.",
            )
        case "inconclusive":
            return (
                "Inconclusive",
                "unsure",
                sentence or "The auditors cannot tell whether shortcuts are left.",
            )
        case _:
            return "No verdict", "unsure", sentence or "This run holds no certificate."


def closing(summary: Mapping[str, object], folder: str) -> list[str]:
    """The last lines on the terminal: the verdict, what was removed, what of it is luck, the report."""
    restricted = "release" in summary
    with released(restricted):
        whole_set = restricted and at(summary, "release", "published") is not False
        public = [f"may be published: {PurePath(folder) / 'published'}"] if whole_set else []
        return [*_closing(summary), f"report: {PurePath(folder) / 'report.html'}", *public]


def _closing(summary: Mapping[str, object]) -> list[str]:
    word, _, sentence = verdict(summary)
    flagged = quantity(at(summary, "screen", "flagged"))
    luck = quantity(deciding(at(summary, "screen"), "expected_false_flags"))
    said = "" if luck.value is None else f"; luck alone flags {count(luck.value)} items"
    splits = ("robust", "shortcut", "undecided", "cloze")
    sizes = [
        f"{name} {missing() if n is None else count(n)}"
        for name in splits
        for n in [whole(at(summary, "splits", name))]
    ]
    failed = [
        (plain(text(g.get("name"), "unnamed")), plain(text(g.get("reason"), "failed"), 500))
        for g in records(at(summary, "guardrails"))
        if g.get("passed") is False
    ]
    return [
        f"{word.upper()}: {sentence}",
        f"flagged: {rate(flagged)}{said}",
        "splits: " + ", ".join(sizes),
        *(f"guardrail {name}: {reason}" for name, reason in failed),
    ]
