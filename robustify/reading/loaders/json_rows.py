"""Reader for JSON Lines, JSON documents, and rows inside other rows, which keeps the line number of each row.

Only LF ends a line of JSON Lines, because U+2028 and similar characters may appear inside a string. A bad line is
reported, and the other lines are still read. A truncated document is refused. Unlike `json`, this module refuses NaN and
repeated field names. Messages never quote the file, although a JSONDecodeError contains all of its text. From harness
logs, only the original items are read, each once (`robustify import` reads the answers).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from sys import intern
from typing import Any

from robustify.base.errors import DataError, counted
from robustify.reading.loaders.columns import (
    CHOICES,
    KEYS,
    LOGGED_TARGET,
    PASSAGES,
    STEMS,
    choice_columns,
    usual_names,
)
from robustify.reading.loaders.rows import (
    NOT_UTF8,
    RAW_CONTROL,
    Cells,
    Fault,
    SourceRow,
    SourceTable,
    Text,
    as_object,
    fault_lines,
    json_kind,
    streamed,
    table_of,
    undecoded,
    whole_text,
)

_ROWS_LOOKED_AT = 20
_SPACE = " \t\r\n"
_BLANK = re.compile(f"[{_SPACE}]*")


class _RefusedError(ValueError):
    """Error for JSON that Python accepts but robustify refuses, with a message that is safe to show."""


def _refuse_constant(name: str) -> object:
    raise _RefusedError(f"{name} is not a JSON number")


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    # Share one string per usual name. The decoder would create one per row.
    whole = {intern(name): value for name, value in pairs}
    if len(whole) < len(pairs):
        raise _RefusedError("an object repeats a field name")
    return whole


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)


def json_rows(name: str, text: Text) -> SourceTable:
    """Read the rows of a JSON text: one object per line, a list of objects, or one object that contains the rows. Raise
    `DataError` if the document cannot be read or has no rows."""
    start = [line for _, line in islice(_lines(text), 2)]
    if start[0].startswith("["):
        whole = whole_text(text)
        return _table(name, _members(name, whole, whole.index("[") + 1, "]"))
    if not _one_a_line(text):
        whole = whole_text(text)
        return _document_rows(name, whole_object(name, whole), whole)
    table = line_rows(text)
    # A single line may also be a complete document without line breaks.
    alone = next(iter(table.rows), None) if len(start) == 1 else None
    return _document_rows(name, alone.cells, whole_text(text)) if alone else table


def whole_object(name: str, text: str) -> Mapping[str, object]:
    """Read the single object in a text. Raise `DataError` if the object cannot be read or more text follows."""
    (_, value), *_ = _members(name, text, len(text) - len(text.lstrip(_SPACE)))
    return value if isinstance(value, dict) else {}


def line_rows(text: Text) -> SourceTable:
    """Read rows from JSON Lines."""
    return streamed(lambda: ((at, value_or_reason(line)) for at, line in _lines(text)))


def _lines(text: Text) -> Iterator[tuple[int, str]]:
    """Yield the number and stripped text of each nonblank line."""
    with text("\n") as lines:
        for at, line in enumerate(lines, start=1):
            if bare := line.strip(_SPACE):
                yield at, bare


def _one_a_line(text: Text) -> bool:
    """Return whether a text that begins with `{` contains one object per line."""
    try:
        _DECODER.raw_decode(next(_lines(text))[1])
    except (ValueError, RecursionError):
        begin = [line.startswith("{") for _, line in _lines(text)]
        return sum(begin) > len(begin) / 2
    return True


def value_or_reason(line: str) -> Cells | str:
    """Return the cells of a line of JSON Lines, or the reason why it has none."""
    if undecoded(line):
        return NOT_UTF8
    try:
        value, end = _DECODER.raw_decode(line)
    except (ValueError, RecursionError) as error:
        return _reason(error, line)
    if end < len(line):
        return f"not valid JSON: more text follows the first value (column {end + 1})"
    return _object_or_reason(value)


def _object_or_reason(value: object) -> Cells | str:
    match value:
        case dict():
            return value
        case [[str(), *_] as turns, [dict(), *_] as asked, str() as name]:
            # DREAM and C3: a conversation, its questions, and its ID.
            return {"passage": turns, "questions": asked, "id": name}
    return f"the row is {json_kind(value)}; expected an object"


def _members(
    name: str, text: str, at: int, close: str = "", *, inner: bool = False
) -> list[tuple[int, object]]:
    """Decode all values of a list that ends with `close`, or one value if `close` is empty, each with its line. Raise
    `DataError` if the text is no valid JSON, a line is not UTF-8, or more text follows a value that is not `inner`."""
    bad = [at for at, line in enumerate(text.split("\n"), start=1) if undecoded(line)]
    if bad:
        raise DataError.gather(fault_lines(name, [Fault(at, NOT_UTF8) for at in bad]))
    members: list[tuple[int, object]] = []
    line, seen = 1, 0
    at = _blank(text, at)
    try:
        while not (close and not members and text.startswith(close, at)):
            line, seen = line + text.count("\n", seen, at), at
            value, end = _DECODER.raw_decode(text, at)
            members.append((line, value))
            at = _blank(text, end)
            if not close or text.startswith(close, at):
                break
            if not text.startswith(",", at):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _blank(text, at + 1)
    except (ValueError, RecursionError) as error:
        at = error.pos if isinstance(error, json.JSONDecodeError) else at
        raise DataError.gather(fault_lines(name, [Fault(_line_at(text, at), _reason(error, text))])) from None
    if not inner and text[at + len(close) :].strip(_SPACE):
        raise DataError(
            f"{name}:{_line_at(text, at)}: more text follows the JSON document; "
            "expected one document, or one object per line"
        )
    return members


def _document_rows(name: str, value: Mapping[str, object], text: str) -> SourceTable:
    """Read the rows of a JSON object, which may hold a log, an archive, a list, columns, rows by ID, or a single row."""
    if value and all("prediction" in as_object(row) for row in value.values()):
        predictions = ({"id": number, **as_object(row)} for number, row in value.items())
        return replace(_table(name, enumerate(predictions, start=1)), outer="opencompass")
    if {"item_content", "responses"} <= set(value):
        return table_of([(1, value)])
    if "eval" in value and ("samples" in value or isinstance(value.get("plan"), dict)):
        samples = value.get("samples")
        if not isinstance(samples, list) or not samples:
            raise DataError(
                f"{name}: the Inspect log has no samples; it may be only a header. Use the complete log."
            )
        return replace(_table(name, enumerate(samples, start=1)), outer="inspect_log")
    # Questions below a passage keep it: `item_table` unrolls them.
    below = usual_names(value, PASSAGES[:1]) and _inner_items(value)
    found = {} if below or usual_names(value, [*STEMS[:1], *CHOICES[:1]]) else _lists_of_objects(value)
    if found:
        main = set(max(found.values(), key=len)[0])
        alike = {name: rows for name, rows in found.items() if 2 * len(main & set(rows[0])) > len(main)}
        members = [row for rows in alike.values() for row in rows]
        lines = [line for one, rows in alike.items() for line in _lines_of(text, one, rows)]
        table = _table(name, zip(lines, members, strict=True))
        others = [one for one in found if one not in alike]
        notes = [f"the items of {_named([*alike])} were read as one file"] * (len(alike) > 1)
        notes += [f"not read: {_named(others)}, whose members have other fields than the items"] * bool(
            others
        )
        return replace(table, notes=tuple(notes))
    rows = _columns_or_named_rows(value)
    return _table(name, enumerate(rows, start=1)) if rows else table_of([(1, value)])


def _lines_of(text: str, name: str, rows: Sequence[object]) -> list[int]:
    """Return the line of each row in a document's list, or the row's number if the list cannot be found by its name."""
    key = re.escape(json.dumps(name.rpartition(".")[2], ensure_ascii=False))
    for start in re.finditer(rf"{key}\s*:\s*\[", text):
        with suppress(DataError):
            found = _members("", text, start.end(), "]", inner=True)
            if [row for _, row in found] == rows:
                return [line for line, _ in found]
    return [*range(1, len(rows) + 1)]


def _columns_or_named_rows(value: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the rows of an object that maps names to columns (lists, or objects as pandas writes them), or IDs to rows."""
    columns = [[*column.values()] if isinstance(column, dict) else column for column in value.values()]
    lists = [column for column in columns if isinstance(column, list) and column]
    if len(lists) < max(3, len(value)):
        return []
    if usual_names(value, STEMS) and len({len(column) for column in lists}) == 1:
        return [dict(zip(value, cells, strict=True)) for cells in zip(*lists, strict=True)]
    rows = [{"id": name, **as_object(row)} for name, row in value.items()]
    return rows if all(usual_names(row, STEMS) for row in rows) else []


def _lists_of_objects(value: Mapping[str, object], depth: int = 3) -> dict[str, list[dict[str, object]]]:
    """Map names to the lists of objects in a document, including lists inside its objects."""
    found: dict[str, list[dict[str, object]]] = {}
    for name, member in value.items():
        if isinstance(member, list) and member and all(isinstance(m, dict) and len(m) > 1 for m in member):
            found[name] = member
        elif isinstance(member, dict) and member and all(_is_item(as_object(m)) for m in member.values()):
            found[name] = [{"id": key, **as_object(m)} for key, m in member.items()]
        elif isinstance(member, dict) and depth:
            inner = _lists_of_objects(member, depth - 1)
            found |= {f"{name}.{below}": rows for below, rows in inner.items()}
    return found


def _named(lists: Sequence[str]) -> str:
    """Return the number of lists and their names, or only the number if a name may be item text."""
    shown = all(part.isidentifier() and len(part) <= 40 for name in lists for part in name.split("."))
    return counted(len(lists), "list") + (f" ({', '.join(lists)})" if shown else "")


def _table(name: str, members: Iterable[tuple[int, object]]) -> SourceTable:
    table = table_of((line, _object_or_reason(value)) for line, value in members)
    if not table.rows and not table.faults:
        raise DataError(f"{name}: the list is empty; expected items")
    return table


def _reason(error: ValueError | RecursionError, text: str) -> str:
    match error:
        case json.JSONDecodeError(msg=said) if said.startswith("Invalid control character"):
            line = text[text.rfind("\n", 0, error.pos) + 1 : error.pos].encode("utf-8", "surrogateescape")
            return f"{RAW_CONTROL} (0x{ord(text[error.pos]):02X}, byte {len(line) + 1} of the line)"
        case json.JSONDecodeError():
            if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
                return "not valid JSON: it ends too early and may be truncated, or a text contains a raw line break"
            return f"not valid JSON: column {error.colno}"
        case _RefusedError():
            return f"not valid JSON: {error}"
        case RecursionError():
            return "the JSON is nested too deeply; expected a flat object"
        case _:
            return "a number has too many digits"


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _blank(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def is_lm_eval(cells: Cells) -> bool:
    """Return whether a row is a sample logged by lm-eval."""
    inner = isinstance(cells.get("doc"), Mapping)
    return inner and "doc_id" in cells and bool({"resps", "arguments"} & cells.keys())


def item_table(name: str, table: SourceTable) -> SourceTable:
    """Extract the items from a log, or from rows that hold several items each. Return any other table unchanged. Raise
    `DataError` if an Inspect log is of a task without choices."""
    if table.outer == "inspect_log":
        if not any(row.cells.get("choices") for row in table.rows):
            raise DataError(
                f"{name}: the samples of the Inspect log have no choices; expected a multiple-choice task"
            )
        return _rebuilt(table, partial(_inspect_cells, set()), layout="inspect_log", outer="")
    first = table.rows[0].cells if table.rows else {}
    if is_lm_eval(first):
        return _rebuilt(table, partial(_lm_eval_cells, {}), outer="lm_eval_samples")
    if isinstance(first.get("row"), dict) and "row_idx" in first:
        table = _rebuilt(table, _viewed_cells)
    if table.layout or not any(_inner_items(row.cells) for row in table.rows[:_ROWS_LOOKED_AT]):
        return table
    unrolled = _rebuilt(table, _unrolled_cells, flat=False)
    rows = tuple(replace(row, number=at) for at, row in enumerate(unrolled.rows, start=1))
    note = f"{counted(len(rows), 'item')} were taken from lists inside {counted(len(table.rows), 'row')}"
    return replace(unrolled, rows=rows, notes=(*table.notes, note))


def _rebuilt(table: SourceTable, made: Callable[[Cells], Sequence[Cells] | str], **more: Any) -> SourceTable:
    """Replace each row of a table with the rows that `made` returns for it, or with a fault if it returns a reason."""
    rows, faults = list[SourceRow](), list[Fault]()
    for row in table.rows:
        match made(row.cells):
            case str() as reason:
                faults.append(Fault(row.line, reason))
            case several:
                rows += [SourceRow(row.line, row.number, cells) for cells in several]
    return replace(table, rows=tuple(rows), faults=(*table.faults, *faults), names=(), **more)


def _viewed_cells(cells: Cells) -> Sequence[Cells] | str:
    """Return the cells nested inside a row of the Hub's dataset viewer."""
    if cells.get("truncated_cells"):
        return "the viewer of the Hub cut texts of the row (`truncated_cells`); download the file of the set"
    return [as_object(cells.get("row"))]


def _unrolled_cells(cells: Cells) -> Sequence[Cells] | str:
    found = _inner_items(cells)
    if not found and [] not in cells.values():
        return "the row has no list of questions with options, as the first row has"
    return found


def _is_item(cells: Cells) -> bool:
    return bool(usual_names(cells, STEMS)) and bool(usual_names(cells, CHOICES) or choice_columns(cells))


def _inner_items(cells: Cells, depth: int = 3) -> list[Cells]:
    """Return the items in the lists of a row, each with the row's other fields. A row that is an item itself has none."""
    if _is_item(cells) or not depth:
        return []
    for name, value in cells.items():
        rest = {other: cell for other, cell in cells.items() if other != name}
        if isinstance(value, list) and value and all(isinstance(member, Mapping) for member in value):
            inner = [[member] if _is_item(member) else _inner_items(member, depth - 1) for member in value]
            if all(inner):
                return [{**rest, **one} for found in inner for one in found]
    # The row may have a list of questions and a list of lists of options.
    lists = {name: cell for name, cell in cells.items() if isinstance(cell, list) and cell}
    options = [name for name, cell in lists.items() if all(isinstance(one, list) for one in cell)]
    n = len(lists[options[0]]) if len(options) == 1 else 0
    names = {name for name, cell in lists.items() if len(cell) == n}
    rest = {name: cell for name, cell in cells.items() if name not in names}
    made: list[Cells] = [
        {**rest, **{name if name in options else name.removesuffix("s"): lists[name][at] for name in names}}
        for at in range(n)
    ]
    return made if made and _is_item(made[0]) else []


@lru_cache
def _has_key(names: tuple[str, ...]) -> bool:
    return bool(usual_names(names, KEYS))


def _lm_eval_cells(seen: dict[str, object], cells: Cells) -> Sequence[Cells] | str:
    inner, number = cells.get("doc"), str(cells.get("doc_id"))
    if not isinstance(inner, dict):
        return "the row has no object `doc`; expected an lm-eval sample"
    if seen.get(number) == inner:
        return ()
    seen[number] = inner
    # lm-eval's `target` is the key if the inner row has none, and otherwise it tells how the key counts.
    as_what = LOGGED_TARGET if _has_key(tuple(inner)) else "target"
    return [{**inner, **({as_what: cells["target"]} if "target" in cells else {})}]


def _inspect_cells(seen: set[str], sample: Cells) -> Sequence[Cells]:
    # Of a sample with several epochs, the first is taken.
    name = str(sample.get("id"))
    if name in seen and sample.get("epoch", 1) != 1:
        return ()
    seen.add(name)
    metadata = as_object(sample.get("metadata"))
    topic = next((metadata[name] for name in ("topic", "subject", "category") if name in metadata), None)
    return [{"topic": topic, **{name: sample.get(name) for name in ("input", "id", "target", "choices")}}]
