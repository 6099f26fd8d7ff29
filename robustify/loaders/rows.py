"""What passes between the readers of files and the layouts: rows, faults, raw items; and typed access to cells.

A cell of the wrong type is refused by its field and type, never by its value. Reprs show no text.
"""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from robustify.errors import DataError, ItemError
from robustify.loaders.loaded import KeyKind
from robustify.redaction import KeptHere

V = TypeVar("V")
T = TypeVar("T")
Cells = Mapping[str, object]
"""One row by field name."""
MOST_OF_A_KIND = 5
"""Faults of one kind that are each given a line."""
_NUMBERS = re.compile(r"(?<=key )[A-Z]\b|[0-9]+")
_UNDECODED = re.compile("[\udc80-\udcff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_MISSING = object()


@dataclass(frozen=True, slots=True, repr=False)
class SourceRow(KeptHere):
    """One row. `line` is where it starts, `number` its position among all rows, bad ones too; both from 1."""

    line: int
    number: int
    cells: Cells


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the row at `line` cannot be an item."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class SourceTable(KeptHere):
    """The rows of one file. `flat`: its cells are, so that their names are columns.

    `layout` is set by a reader that knows it (a CSV without header has no field names to recognise), `outer`
    by what the rows were wrapped in (a harness log).
    """

    rows: tuple[SourceRow, ...]
    faults: tuple[Fault, ...] = ()
    layout: str = ""
    outer: str = ""
    flat: bool = False


def table_of(
    members: Iterable[tuple[int, Cells | str]], layout: str = "", *, flat: bool = False
) -> SourceTable:
    """Return the table of (line, cells) and of (line, why there are none), numbered together in their order."""
    rows: list[SourceRow] = []
    faults: list[Fault] = []
    for number, (line, cells) in enumerate(members, start=1):
        if isinstance(cells, str):
            faults.append(Fault(line, cells))
        else:
            rows.append(SourceRow(line, number, cells))
    return SourceTable(tuple(rows), tuple(faults), layout, flat=flat)


@dataclass(frozen=True, slots=True, repr=False)
class RawItem(KeptHere):
    """An item as a layout read it: the key is still what the file says, `key_is` says how to read it.

    `question_at`: as in `ItemText`. `marked` and `cut`: as in `Choices`.
    """

    stem: str
    choices: tuple[str, ...]
    key: object
    key_is: KeyKind = "auto"
    labels: tuple[str, ...] = ()
    id: str = ""
    topic: str = ""
    passage: str = ""
    group: str = ""
    question_at: int = 0
    marked: int | None = None
    cut: str = ""


NOT_UTF8 = "not valid UTF-8"


def rows_or_faults(
    rows: Iterable[tuple[SourceRow, V]], make: Callable[[SourceRow, V], T]
) -> tuple[list[tuple[SourceRow, T]], list[Fault]]:
    """Each row with what `make` gives for it and its value, and a fault for each row where it raises DataError."""
    made: list[tuple[SourceRow, T]] = []
    faults: list[Fault] = []
    for row, value in rows:
        try:
            made.append((row, make(row, value)))
        except DataError as error:  # noqa: PERF203
            faults.append(Fault(row.line, error.lines[0]))
    return made, faults


def line_spans(lines: Sequence[int], most: int = 5) -> str:
    """Line numbers in words: `2 to 25`, `2, 4, 6 to 9`; of more than `most` runs only how many lines are left."""
    runs: list[list[int]] = []
    for line in sorted(set(lines)):
        if runs and line == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], line]
        else:
            runs.append([line])
    shown = [" to ".join(map(str, run)) for run in runs[:most]]
    left = sum(run[-1] - run[0] + 1 for run in runs[most:])
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def fault_lines(name: str, faults: Sequence[Fault]) -> list[str]:
    """A line for each fault, and one alone for all of a kind that more than `MOST_OF_A_KIND` rows have."""
    kinds: dict[str, list[Fault]] = {}
    for fault in faults:
        kinds.setdefault(_NUMBERS.sub("0", fault.reason), []).append(fault)
    lines: list[tuple[int, str]] = []
    for alike in kinds.values():
        first = alike[0]
        says = first.reason + _mend(name, first.reason)
        if len(alike) <= MOST_OF_A_KIND:
            lines.append((first.line, f"{name}:{first.line}: {says}"))
            lines += [(fault.line, f"{name}:{fault.line}: {fault.reason}") for fault in alike[1:]]
        else:
            same = "" if len({fault.reason for fault in alike}) == 1 else "the first: "
            numbers = line_spans([fault.line for fault in alike])
            lines.append((first.line, f"{name}: {len(alike):,} lines ({numbers}): {same}{says}"))
    return [text for _, text in sorted(lines, key=lambda line: line[0])]


def _mend(name: str, reason: str) -> str:
    if reason != NOT_UTF8:
        return ""
    file = shlex.quote(name)
    return f"; save it as UTF-8, or try `iconv -f WINDOWS-1252 -t UTF-8 {file} > utf8-{file}`"


def undecoded(text: str) -> bool:
    """Whether text read with `surrogateescape` holds bytes that were not UTF-8."""
    return not text.isascii() and _UNDECODED.search(text) is not None


def json_kind(value: object) -> str:
    """The type of a JSON value in a user's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def name_like(cell: str) -> bool:
    """Whether a cell could be the name of a column: short, few words. A stem hardly ever is."""
    return bool(cell.strip()) and len(cell) <= 40 and len(cell.split()) <= 3 and cell.isprintable()


def cell_value(cells: Cells, name: str) -> object:
    """The cell called `name`; where there is none, a dot steps into an object.
    Raises `ItemError`: no such field."""
    value = _value(cells, name)
    if value is _MISSING:
        raise ItemError(f"no field `{name}`")
    return value


def as_object(value: object) -> Mapping[str, Any]:
    """`value` where it is an object; else one without fields."""
    return value if isinstance(value, Mapping) else {}


def has(cells: Cells, name: str) -> bool:
    """Whether there is a field of this name, as `cell_value` looks for it."""
    return _value(cells, name) is not _MISSING


def _value(cells: Cells, name: str) -> object:
    if name in cells:
        return cells[name]
    value: object = cells
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return _MISSING
        value = value[step]
    return value


def require_text(value: object, what: str) -> str:
    """`value` if it is text that can be written as UTF-8.
    Raises `ItemError`: another type, or half a character."""
    if not isinstance(value, str):
        raise ItemError(f"{what} is {json_kind(value)}; expected text")
    if not value.isascii() and _SURROGATE.search(value):
        if undecoded(value):
            raise ItemError(f"{what} holds bytes that are not UTF-8")
        raise ItemError(f"{what} holds half a character (a lone surrogate)")
    return value


def cell_text(cells: Cells, name: str) -> str:
    """The text in a field, unchanged."""
    return require_text(cell_value(cells, name), f"`{name}`")


def cell_label(cells: Cells, name: str | None) -> str:
    """An id or topic, "" where the field is missing, null or empty. Numbers are taken as written.
    Raises `ItemError`: another type, or control characters (it will be printed on terminals)."""
    value = _value(cells, name) if name is not None else None
    if value is None or value is _MISSING:
        return ""
    if (number := whole(value)) is not None:
        if abs(number) >= 10**18:
            raise ItemError(f"`{name}` is a number of more than 18 digits; expected a name")
        return str(number)
    label = require_text(value, f"`{name}`")
    if _CONTROL.search(label):
        raise ItemError(f"`{name}` holds control characters; expected a plain name")
    return label


def text_list(values: object, what: str) -> tuple[str, ...]:
    """A list of choice texts. Raises `ItemError`: not a list, or a member that is no text."""
    # Nearly always a list of plain texts, which takes one look.
    if type(values) is list and all(type(value) is str for value in values):
        if not _SURROGATE.search("".join(values)):
            return tuple(values)
    elif isinstance(values, str) or not isinstance(values, Sequence):
        raise ItemError(f"{what} is {json_kind(values)}; expected a list of texts")
    return tuple(choice_text(value, f"choice {at} of {what}") for at, value in enumerate(values, start=1))


def choice_text(value: object, what: str) -> str:
    """Return the text of a choice; a number is written out. Raises `ItemError`: another type."""
    if (number := whole(value)) is not None and abs(number) < 10**18:
        return str(number)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    return require_text(value, what)


def whole(value: object) -> int | None:
    """Return a whole number, also one that a column with gaps made 2.0; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
