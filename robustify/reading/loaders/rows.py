"""Types that readers and layouts share (rows, faults, raw items), and typed access to cells.

A cell of the wrong type is reported by field and type, never by value. Reprs never show text.
"""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import IO, Any, TextIO, TypeVar

from robustify.base.errors import DataError, ItemError, Notice, notice_code
from robustify.base.redaction import HoldsText
from robustify.base.texts import UNPRINTABLE
from robustify.items.packed import Packed, builder_of
from robustify.reading.loaders.loaded import KeyKind

V = TypeVar("V")
T = TypeVar("T")
Cells = Mapping[str, object]
"""Cells of one row by field name."""
NOT_UTF8 = Notice("not valid UTF-8", code="not-utf-8")
RAW_CONTROL = "not valid JSON: a text contains a raw control character"
DATED = "\ud800"
"""Cell of a sheet that is no text: a date, a time, or a number in a format of its own."""
NOT_SHOWN = "({}, not shown)"
"""Text in place of an image or other content of a question."""
_MOST_OF_A_KIND = 5
"""Number of similar faults that are listed one by one."""
_NUMBERS = re.compile(r"(?<=key is )[A-Z]\b|[0-9]+")
_UNDECODED = re.compile("[\udc80-\udcff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MISSING = object()
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "text"),
    (Mapping, "an object"),
    ((list, tuple), "a list"),
)


@dataclass(frozen=True, slots=True, repr=False)
class SourceRow(HoldsText):
    """Row of a file, with the line on which it starts and its number among all rows, both from 1."""

    line: int
    number: int
    cells: Cells


@dataclass(frozen=True, slots=True)
class Fault:
    """Reason why the row at `line` cannot become an item: a `Notice` with its code."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class SourceTable(HoldsText):
    """Rows of one file. `flat` is set if the cells are not nested, so that their names are columns.

    A reader sets `layout` if it knows the layout, because a CSV without a header has no field names. `outer` names the
    harness log that contained the rows. `notes` name the parts that a reader left out. `names` are the
    names of the cells if all rows have the same names."""

    rows: Sequence[SourceRow]
    faults: Sequence[Fault] = ()
    layout: str = ""
    outer: str = ""
    flat: bool = False
    notes: tuple[Notice, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RawItem(HoldsText):
    """Item as read by a layout. The key is still in the form of the file, which `key_is` names.

    `question_at` is where the question begins in the stem. `marked` is the choice marked as correct. `cut` is the
    separator of choices that came in one cell. `unread` names what stood beside the choices and is none. `candidates` are
    the cells of other columns that may be the key."""

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
    unread: tuple[str, ...] = ()
    candidates: tuple[object, ...] = ()


Raws = Packed[RawItem]
raw_parts = attrgetter(*RawItem.__slots__)


def packed_raws() -> Raws:
    """Return an empty sequence of raw items."""
    return Packed(builder_of(RawItem, RawItem.__slots__))


def changed(raws: Raws, change: Callable[[RawItem], RawItem]) -> Raws:
    """Apply a change to all raw items. Return the changed items, and free the originals."""
    return raws.changed(change, raw_parts)


Again = Callable[[], AbstractContextManager[IO[bytes]]]
"""Function that opens a file at its start."""
Text = Callable[[str], AbstractContextManager[TextIO]]
"""Function that opens a text at its start. Its argument says where lines end, as `newline` of `open`."""
Members = Iterable[tuple[int, Cells | str]]
"""Lines of a file, each with its cells or the reason why it has none."""


class Streamed(HoldsText, Sequence[SourceRow]):
    """Rows of a file that is read again at every pass, because the rows would take several times the file's size in memory.
    `faults` are those of the first whole pass, and empty before. `n` is the number of rows, if it is known."""

    __slots__ = ("_members", "_n", "_read", "faults")

    def __init__(self, members: Callable[[], Members], n: int | None = None) -> None:
        self._members, self._n, self._read = members, n, False
        self.faults: list[Fault] = []

    def __iter__(self) -> Iterator[SourceRow]:
        n, faults = 0, []
        for number, (line, cells) in enumerate(self._members(), start=1):
            if isinstance(cells, str):
                faults.append(Fault(line, cells))
            else:
                n += 1
                yield SourceRow(line, number, cells)
        if not self._read:
            self._n, self._read = n, True
            self.faults += faults

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._n is None else self._n

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [*islice(self, index.start, index.stop, index.step)]
        return next(islice(self, index, None))


def streamed(members: Callable[[], Members], n: int | None = None, **about: Any) -> SourceTable:
    """Build a table whose rows and faults, numbered in order, are read at every pass. `about` are other parts of it."""
    rows = Streamed(members, n)
    return SourceTable(rows, rows.faults, **about)


def in_memory(table: SourceTable) -> SourceTable:
    """Return a table with its rows in memory."""
    # `tuple` would first ask a sequence for its length, which takes a pass over the file.
    rows = tuple(iter(table.rows))
    return replace(table, rows=rows, faults=tuple(table.faults))


def table_of(members: Members, layout: str = "") -> SourceTable:
    """Build a table in memory from rows and faults, which are numbered in order."""
    return in_memory(streamed(lambda: members, layout=layout))


def whole_text(text: Text) -> str:
    """Read a whole text into memory."""
    with text("\n") as lines:
        return lines.read()


def rows_or_faults(
    rows: Iterable[tuple[SourceRow, V]], make: Callable[[SourceRow, V], T]
) -> tuple[list[tuple[SourceRow, T]], list[Fault]]:
    """Apply `make` to each (row, value) pair. Return the results, and a fault for each error."""
    results: list[tuple[SourceRow, T]] = []
    faults: list[Fault] = []
    for row, value in rows:
        try:
            results.append((row, make(row, value)))
        except DataError as error:  # noqa: PERF203
            faults.append(Fault(row.line, error.reason))
    return results, faults


def line_spans(lines: Sequence[int], most: int = 5) -> str:
    """Format line numbers as ranges, such as `2, 4, 6 to 9`, and count the lines after `most` ranges."""
    runs: list[list[int]] = []
    for line in sorted(set(lines)):
        if runs and line == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], line]
        else:
            runs.append([line])
    spans = [" to ".join(map(str, run)) for run in runs[:most]]
    n_more = sum(run[-1] - run[0] + 1 for run in runs[most:])
    return ", ".join(spans) + (f" and {n_more:,} more" if n_more else "")


def fault_lines(name: str, faults: Sequence[Fault]) -> list[Notice]:
    """Format faults one per line, with their codes. More than five rows with similar faults share one line."""
    kinds: dict[str, list[Fault]] = {}
    for fault in faults:
        kinds.setdefault(_NUMBERS.sub("0", fault.reason), []).append(fault)
    lines: list[tuple[int, Notice]] = []
    for first, *others in kinds.values():
        code, reason = notice_code(first.reason), first.reason + _remedy(name, first.reason)
        if len(others) < _MOST_OF_A_KIND:
            lines.append((first.line, Notice(f"{name}:{first.line}: {reason}", code=code)))
            more = ((fault.line, f"{name}:{fault.line}: {fault.reason}") for fault in others)
            lines += [(line, Notice(text, code=code)) for line, text in more]
        else:
            same = "" if {fault.reason for fault in others} == {first.reason} else "the first: "
            numbers = line_spans([fault.line for fault in (first, *others)])
            text = f"{name}: {len(others) + 1:,} lines ({numbers}): {same}{reason}"
            lines.append((first.line, Notice(text, code=code)))
    return [text for _, text in sorted(lines, key=lambda line: line[0])]


def _remedy(name: str, reason: str) -> str:
    """Return the command that converts a file with unreadable bytes, or "" for another fault."""
    file = shlex.quote(name)
    if reason == NOT_UTF8:
        return (
            f". Save it as UTF-8. `iconv -f WINDOWS-1252 -t UTF-8 {file} > utf8-{file}` converts Western text. Otherwise, "
            "replace WINDOWS-1252, for example by MACINTOSH, WINDOWS-1251 (Cyrillic), or GB18030. Check letters afterwards."
        )
    if reason.startswith(RAW_CONTROL):
        bytes_ = r"\001-\037" if "(0x0A" in reason else r"\001-\011\013-\037"
        return f". `LC_ALL=C tr '{bytes_}' ' ' < {file} > mended-{file}` puts a space in place of each."
    return ""


def undecoded(text: str) -> bool:
    """Return whether text decoded with `surrogateescape` contains bytes that were not UTF-8."""
    return not text.isascii() and _UNDECODED.search(text) is not None


def json_kind(value: object) -> str:
    """Return a readable name for the type of a JSON value."""
    return next((kind for types, kind in _KINDS if isinstance(value, types)), f"a {type(value).__name__}")


def name_like(cell: str) -> bool:
    """Return whether a cell is short and has few words, like a column name and unlike most stems."""
    return bool(cell.strip()) and len(cell) <= 40 and len(cell.split()) <= 3 and cell.isprintable()


def as_object(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a mapping, and an empty mapping otherwise."""
    return value if isinstance(value, Mapping) else {}


def cell_value(cells: Cells, name: str) -> object:
    """Return the cell called `name`. If there is no such cell, a dot selects a member of an object. Raise `ItemError` if
    the field is missing."""
    value = _lookup(cells, name)
    if value is _MISSING:
        raise ItemError(f"the field `{name}` is missing", code="missing-field")
    return value


def cell_or_none(cells: Cells, name: str) -> object:
    """Return the cell called `name` like `cell_value`, or None if there is no such cell."""
    if name in cells:
        return cells[name]
    return None if (value := _lookup(cells, name)) is _MISSING else value


def has(cells: Cells, name: str) -> bool:
    """Return whether `cell_value` would find this field in a row."""
    return _lookup(cells, name) is not _MISSING


def _lookup(cells: Cells, name: str) -> object:
    if name in cells:
        return cells[name]
    value: object = cells
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return _MISSING
        value = value[step]
    return value


def require_text(value: object, what: str) -> str:
    """Return `value` if it is text that UTF-8 can encode. Raise `ItemError` if it has another type or contains an
    incomplete character."""
    if not isinstance(value, str):
        raise ItemError(f"{what} is {json_kind(value)}; expected text", code="not-text")
    if value == DATED:
        raise ItemError(
            f"{what} is a date or formatted number; expected text. Format the cells as text, and enter the text again",
            code="formatted-cell",
        )
    if not value.isascii() and _SURROGATE.search(value):
        other = (
            "bytes that are not UTF-8" if undecoded(value) else "an incomplete character (a lone surrogate)"
        )
        raise ItemError(f"{what} contains {other}", code="incomplete-character")
    return value


def cell_text(cells: Cells, name: str) -> str:
    """Return the unchanged text of a field. Raise `ItemError` if the field is missing or not text."""
    return require_text(cell_value(cells, name), f"`{name}`")


def stem_text(cells: Cells, name: str) -> str:
    """Return the text of a question, even if the text is in an object with only `text`, or in the user's last turn."""
    if name.startswith("="):
        return name[1:]
    value = cell_value(cells, name)
    if type(value) is str:
        return require_text(value, f"`{name}`")
    if isinstance(value, list):
        users = [turn for turn in map(as_object, value) if turn.get("role") == "user"]
        value = users[-1].get("content") if users else value
    elif [member for member, cell in as_object(value).items() if cell not in (None, "", [])] == ["text"]:
        value = as_object(value)["text"]
    elif isinstance(value, Mapping):
        raise ItemError(f"`{name}` is an object. Choose a member: `--map stem={name}.NAME`", code="not-text")
    if as_integer(value) is not None:
        text = f"`{name}` is a number; expected the text of a question. Name another field with `--map stem=NAME`"
        raise ItemError(text, code="number-as-stem")
    return shown_text(value, f"`{name}`")


def shown_text(value: object, what: str) -> str:
    """Return a text, or the joined texts of a content list. Name only the kind of other content, such as an image.
    Raise `ItemError` if the value is neither."""
    parts = [as_object(part) for part in value] if isinstance(value, list) else []
    if not parts or not all(isinstance(part.get("type"), str) for part in parts):
        return require_text(value, what)
    kinds = [(str(part["type"]).removeprefix("input_"), part.get("text")) for part in parts]
    return "\n".join(
        require_text(text, what) if kind == "text" else NOT_SHOWN.format(kind) for kind, text in kinds
    )


def cell_label(cells: Cells, name: str | None) -> str:
    """Return an ID or topic, or "" if the field is missing, null, or empty. Format numbers as text. Raise `ItemError` if
    it has another type or contains control characters, because it is printed on terminals."""
    value = cell_or_none(cells, name) if name is not None else None
    if value is None:
        return ""
    if isinstance(value, str) and value.isascii() and value.isprintable():
        return value
    if (number := as_integer(value)) is not None:
        if abs(number) >= 10**18:
            raise ItemError(
                f"`{name}` is a number with more than 18 digits. Write it as text.", code="number-too-long"
            )
        return str(number)
    label = require_text(value, f"`{name}`")
    if UNPRINTABLE.search(label):
        raise ItemError(f"`{name}` contains control characters. Remove them.", code="control-characters")
    return label


def text_list(values: object, what: str) -> tuple[str, ...]:
    """Return a list of choices as a tuple of strings. Raise `ItemError` if it is not a list or a member is not text."""
    # Fast path: nearly always, this is a list of plain texts.
    if type(values) is list and {*map(type, values)} <= {str}:
        if (joined := "".join(values)).isascii() or not _SURROGATE.search(joined):
            return tuple(values)
    elif isinstance(values, str) or not isinstance(values, Sequence):
        raise ItemError(f"{what} is {json_kind(values)}; expected a list of strings", code="not-a-list")
    return tuple(
        choice_text(value, f"choice {number} of {what}") for number, value in enumerate(values, start=1)
    )


def choice_text(value: object, what: str) -> str:
    """Return a choice as a string. Raise `ItemError` if it is neither text nor a number."""
    if (number := as_integer(value)) is not None and abs(number) < 10**18:
        return str(number)
    if isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    return shown_text(value, what)


def as_integer(value: object) -> int | None:
    """Return `value` as an integer if it is whole, or None. In columns with gaps, 2 becomes 2.0, which counts as whole."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
