"""Reader for JSON Lines, JSON documents, and rows inside other rows. It keeps the line number of each row.

Only LF ends a line of JSON Lines, because U+2028 and similar characters may appear inside a string. A bad line is
reported, and the other lines are still read. A truncated document is refused. Unlike `json`, this module refuses NaN and
repeated field names. Messages never quote the file, although a JSONDecodeError contains all of its text. From harness
logs, only the original items are read, each once (`robustify import` reads the answers).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from sys import intern
from types import NoneType
from typing import TypeGuard

from robustify.base.errors import DataError, Notice, counted
from robustify.reading.columns import usual_names
from robustify.reading.loaders.converters import inner_items, is_item, is_lm_eval
from robustify.reading.loaders.rows import (
    NOT_UTF8,
    RAW_CONTROL,
    Cells,
    Fault,
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
from robustify.reading.records import list_rows

_SPACE = " \t\r\n"
_BLANK = re.compile(f"[{_SPACE}]*")
_CELLS = (str, int, float, NoneType)
_PYTHON = re.compile(r"\s*[\[{]\s*'")


class _RefusedError(ValueError):
    """Error for JSON that Python accepts but robustify refuses. Its message is safe to show."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice)
        self.notice = notice


def _refuse_constant(name: str) -> object:
    raise _RefusedError(Notice(f"{name} is not a JSON number. Write null", code="not-a-json-number"))


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    # Share one string per usual name. The decoder would create one per row.
    members = {intern(name): value for name, value in pairs}
    if len(members) < len(pairs):
        raise _RefusedError(Notice("an object repeats a field name", code="repeated-field"))
    return members


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)
_LOG_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _decoded(text: str, start: int = 0) -> tuple[object, int]:
    """Decode a value. NaN is accepted only in logs, because Python writes it for scores that could not be computed."""
    try:
        return _DECODER.raw_decode(text, start)
    except _RefusedError as error:
        if error.notice.code != "not-a-json-number":
            raise
        value, end = _LOG_DECODER.raw_decode(text, start)
        if not (is_lm_eval(as_object(value)) or _is_inspect(as_object(value))):
            raise
        return value, end


def _is_inspect(value: Mapping[str, object]) -> bool:
    return "eval" in value and ("samples" in value or isinstance(value.get("plan"), dict))


def json_rows(name: str, text: Text) -> SourceTable:
    """Read the rows of a JSON text: one object per line, a list of objects, or one object that contains the rows. Raise
    `DataError` if the document cannot be read or has no rows."""
    start = [line for _, line in islice(_lines(text), 2)]
    if start[0].startswith("["):
        content = whole_text(text)
        members = _members(name, content, content.index("[") + 1, "]")
        records = [(line, value) for line, value in members if _is_record(value)]
        return list_rows(name, records) if len(records) == len(members) > 1 else _table(name, members)
    if not _one_a_line(text):
        content = whole_text(text)
        return _document_rows(name, whole_object(name, content), content)
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
    return streamed(lambda: ((number, value_or_reason(line)) for number, line in _lines(text)))


def _lines(text: Text) -> Iterator[tuple[int, str]]:
    """Yield the number and stripped text of each nonblank line."""
    with text("\n") as lines:
        for number, line in enumerate(lines, start=1):
            if bare := line.strip(_SPACE):
                yield number, bare


def _one_a_line(text: Text) -> bool:
    """Return whether a text that begins with `{` contains one object per line."""
    try:
        _decoded(next(_lines(text))[1])
    except (ValueError, RecursionError):
        # A row of a list inside a document ends with a comma.
        begin = [line.startswith("{") and not line.endswith(",") for _, line in _lines(text)]
        return sum(begin) > len(begin) / 2
    return True


def value_or_reason(line: str) -> Cells | Notice:
    """Return the cells of a line of JSON Lines, or the reason why the line has none."""
    if undecoded(line):
        return NOT_UTF8
    try:
        value, end = _decoded(line)
    except (ValueError, RecursionError) as error:
        return _reason(error, line)
    if end < len(line):
        text = f"not valid JSON: more text follows the first value (column {end + 1})"
        return Notice(text, code="text-after-json")
    return _object_or_reason(value)


def _is_record(value: object) -> TypeGuard[list[str | float | None]]:
    """Return whether a value is a list of cells, as a table without names has it."""
    return isinstance(value, list) and len(value) > 2 and all(isinstance(cell, _CELLS) for cell in value)


def _object_or_reason(value: object) -> Cells | Notice:
    match value:
        case dict():
            return value
        case [[str(), *_] as turns, [dict(), *_] as questions, str() as name]:
            # DREAM and C3: a conversation, its questions, and its ID.
            return {"passage": turns, "questions": questions, "id": name}
    text = f"the row is {json_kind(value)}; expected an object with fields, such as question, A, B, C, D, and answer"
    return Notice(text, code="not-an-object")


def _members(
    name: str, text: str, start: int, close: str = "", *, inner: bool = False
) -> list[tuple[int, object]]:
    """Decode all values of a list that ends with `close`, or one value if `close` is empty, each with its line. Raise
    `DataError` if the text is not valid JSON, a line is not UTF-8, or more text follows a value that is not `inner`."""
    bad = [number for number, line in enumerate(text.split("\n"), start=1) if undecoded(line)]
    if bad:
        raise DataError.gather(fault_lines(name, [Fault(number, NOT_UTF8) for number in bad]))
    members: list[tuple[int, object]] = []
    line, seen = 1, 0
    start = _blank(text, start)
    try:
        while not (close and not members and text.startswith(close, start)):
            line, seen = line + text.count("\n", seen, start), start
            value, end = _decoded(text, start)
            members.append((line, value))
            start = _blank(text, end)
            if not close or text.startswith(close, start):
                break
            if not text.startswith(",", start):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, start)
            start = _blank(text, start + 1)
    except (ValueError, RecursionError) as error:
        start = error.pos if isinstance(error, json.JSONDecodeError) else start
        fault = Fault(_line_at(text, start), _reason(error, text))
        raise DataError.gather(fault_lines(name, [fault])) from None
    if not inner and text[start + len(close) :].strip(_SPACE):
        raise DataError(
            f"{name}:{_line_at(text, start)}: more text follows the JSON document; "
            "expected one document, or one object per line. If these are objects, `jq -c .` writes one per line.",
            code="text-after-json",
        )
    return _distinct(members)


def _distinct(members: list[tuple[int, object]]) -> list[tuple[int, object]]:
    """Return members with numbers instead of lines if some members share a line, because the line identifies a row."""
    lines = {line for line, _ in members}
    return members if len(lines) == len(members) else [*enumerate((value for _, value in members), start=1)]


def document_rows(name: str, value: object) -> SourceTable:
    """Read the rows of a document in a format other than JSON, such as YAML. Raises the same errors as `json_rows`."""
    if isinstance(value, list):
        return _table(name, enumerate(value, start=1))
    return _document_rows(name, as_object(value), "")


def _document_rows(name: str, value: Mapping[str, object], text: str) -> SourceTable:
    """Read the rows of a JSON object, which may be a log, an archive, a list, columns, rows by ID, or a single row."""
    if value and all("prediction" in as_object(row) for row in value.values()):
        predictions = ({"id": number, **as_object(row)} for number, row in value.items())
        return replace(_table(name, enumerate(predictions, start=1)), outer="opencompass")
    if {"item_content", "responses"} <= set(value):
        return table_of([(1, value)])
    if _is_inspect(value):
        samples = value.get("samples")
        if not isinstance(samples, list) or not samples:
            raise DataError(
                f"{name}: the Inspect log has no samples; it may be only a header. Use the complete log.",
                code="log-without-samples",
            )
        return replace(_table(name, enumerate(samples, start=1)), outer="inspect_log")
    # Questions below a passage keep it: `table_of_items` unrolls them.
    below = usual_names(value, "passage", slice(1)) and inner_items(value)
    lists = (
        {}
        if below or any(usual_names(value, part, slice(1)) for part in ("stem", "choices"))
        else _lists_of_objects(value)
    )
    if lists:
        main = set(max(lists.values(), key=len)[0])
        alike = {name: rows for name, rows in lists.items() if 2 * len(main & set(rows[0])) > len(main)}
        members = [row for rows in alike.values() for row in rows]
        lines = [line for list_name, rows in alike.items() for line in _lines_of(text, list_name, rows)]
        table = _table(name, zip(lines, members, strict=True))
        others = [list_name for list_name in lists if list_name not in alike]
        joined = Notice(f"the items of {_list_names([*alike])} were read as one file", code="lists-joined")
        text = f"not read: {_list_names(others)}, whose members have different fields than the items"
        notes = [*[joined] * (len(alike) > 1), *[Notice(text, code="lists-not-read")] * bool(others)]
        return replace(table, notes=tuple(notes))
    rows = _columns_or_named_rows(value)
    return _table(name, enumerate(rows, start=1)) if rows else table_of([(1, value)])


def _lines_of(text: str, name: str, rows: Sequence[object]) -> list[int]:
    """Return the line of each row in a document's list, or the row's number if the list cannot be found by its name."""
    key = re.escape(json.dumps(name.rpartition(".")[2], ensure_ascii=False))
    for start in re.finditer(rf"{key}\s*:\s*\[", text):
        with suppress(DataError):
            members = _members("", text, start.end(), "]", inner=True)
            if [row for _, row in members] == rows:
                return [line for line, _ in members]
    return [*range(1, len(rows) + 1)]


def _columns_or_named_rows(value: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the rows of an object that maps names to columns (lists, or objects as pandas writes them), maps IDs to
    rows, or names its columns separately from its data."""
    names, records = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(records, list) and isinstance(next(iter(records), None), list):
        return [dict(zip(map(str, names), record, strict=False)) for record in records]
    columns = [[*column.values()] if isinstance(column, dict) else column for column in value.values()]
    lists = [column for column in columns if isinstance(column, list) and column]
    if len(lists) < max(3, len(value)):
        return []
    if usual_names(value, "stem") and len({len(column) for column in lists}) == 1:
        return [dict(zip(value, cells, strict=True)) for cells in zip(*lists, strict=True)]
    rows = [{"id": name, **as_object(row)} for name, row in value.items()]
    return rows if all(usual_names(row, "stem") for row in rows) else []


def _lists_of_objects(value: Mapping[str, object], depth: int = 3) -> dict[str, list[dict[str, object]]]:
    """Map names to the lists of objects in a document, including lists inside its objects."""
    lists: dict[str, list[dict[str, object]]] = {}
    for name, member in value.items():
        if isinstance(member, list) and member and all(isinstance(m, dict) and len(m) > 1 for m in member):
            lists[name] = member
        elif isinstance(member, dict) and member and all(is_item(as_object(m)) for m in member.values()):
            lists[name] = [{"id": key, **as_object(m)} for key, m in member.items()]
        elif isinstance(member, dict) and depth:
            inner = _lists_of_objects(member, depth - 1)
            lists |= {f"{name}.{below}": rows for below, rows in inner.items()}
    return lists


def _list_names(lists: Sequence[str]) -> str:
    """Return the number and names of lists, or only the number if a name may be item text."""
    are_names = all(part.isidentifier() and len(part) <= 40 for name in lists for part in name.split("."))
    return counted(len(lists), "list") + (f" ({', '.join(lists)})" if are_names else "")


def _table(name: str, members: Iterable[tuple[int, object]]) -> SourceTable:
    table = table_of((line, _object_or_reason(value)) for line, value in members)
    if not table.rows and not table.faults:
        raise DataError(f"{name}: the list is empty; expected items", code="empty-list")
    return table


def _reason(error: ValueError | RecursionError, text: str) -> Notice:
    match error:
        case json.JSONDecodeError(msg=message) if message.startswith("Invalid control character"):
            line = text[text.rfind("\n", 0, error.pos) + 1 : error.pos].encode("utf-8", "surrogateescape")
            place = f"0x{ord(text[error.pos]):02X}, byte {len(line) + 1} of the line"
            return Notice(f"{RAW_CONTROL} ({place})", code="raw-control-character")
        case json.JSONDecodeError():
            if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
                return Notice(
                    "not valid JSON: it ends too early and may be truncated, or a text contains a raw line break",
                    code="truncated-json",
                )
            if _PYTHON.match(text):
                return Notice(
                    "not JSON but Python, with texts in '...'. Use `json.dumps`", code="python-not-json"
                )
            return Notice(f"not valid JSON: column {error.colno}", code="invalid-json")
        case _RefusedError():
            return Notice(f"not valid JSON: {error}", code=error.notice.code)
        case RecursionError():
            return Notice("the JSON is nested too deeply; expected a flat object", code="deep-json")
        case _:
            return Notice("a number has too many digits", code="number-too-long")


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _blank(text: str, start: int) -> int:
    """Return the position of the next character that is not white space."""
    blank = _BLANK.match(text, start)
    return blank.end() if blank else start
