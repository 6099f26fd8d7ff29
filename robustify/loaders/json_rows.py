"""Reader for JSON Lines and JSON documents, which keeps the line number of each row.

Only LF ends a line of JSON Lines, because U+2028 and similar characters may appear inside a string. A bad line is
reported, and the other lines are still read. A truncated document is refused. Unlike `json`, this module refuses NaN and
repeated field names. Messages never quote the file, although a JSONDecodeError contains all of its text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from robustify.errors import DataError, counted
from robustify.loaders.rows import (
    NOT_UTF8,
    Cells,
    Fault,
    SourceTable,
    fault_lines,
    json_kind,
    table_of,
    undecoded,
)

_BLANK = " \t\r\n"
_NAMES: dict[str, str] = {}
_MOST_NAMES = 1000


class RefusedJsonError(ValueError):
    """JSON that Python accepts but robustify refuses, with a message that is safe to show."""


def _refuse_constant(name: str) -> object:
    raise RefusedJsonError(f"{name} is not a JSON number")


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    # Share one string per name. The decoder would create one per row.
    whole = {_NAMES.setdefault(name, name): value for name, value in pairs}
    if len(_NAMES) > _MOST_NAMES:
        _NAMES.clear()
    if len(whole) < len(pairs):
        raise RefusedJsonError("an object repeats a field name")
    return whole


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)


def decode(text: str, start: int = 0) -> tuple[object, int]:
    """Decode the JSON value that begins at `start`. Return the value and the index of its end.

    Raises:
        ValueError: the text is not valid JSON, or contains NaN, a repeated field, or a number with thousands of digits.
        RecursionError: the value is nested too deeply.
    """
    value, end = _DECODER.raw_decode(text, start)
    return value, end


def json_rows(name: str, text: str) -> SourceTable:
    """Read the rows of a JSON text: one object per line, a list of objects, or one object that contains the rows. Raise
    `DataError` if the document cannot be read or has no rows."""
    start = _skip_blank(text, 0)
    if text.startswith("[", start):
        return _list_rows(name, text, start)
    if not one_a_line(text):
        return _document_rows(name, whole_object(name, text, start))
    table = line_rows(text)
    # A single line may also be a complete document without line breaks.
    single = len(table.rows) == 1 and not table.faults
    return _document_rows(name, table.rows[0].cells) if single else table


def whole_object(name: str, text: str, start: int) -> Mapping[str, object]:
    """Read the single object in a text, which begins with `{` at `start`. Raise `DataError` if the object cannot be read or
    more text follows."""
    _refuse_undecoded(name, text)
    try:
        value, end = decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _broken(name, text, start, error) from None
    _refuse_more(name, text, end)
    return value if isinstance(value, dict) else {}


def one_a_line(text: str) -> bool:
    """Return whether a text that begins with `{` contains one object per line."""
    try:
        decode(next(_lines(text))[1])
    except (ValueError, RecursionError):
        begin = [line.startswith("{") for _, line in _lines(text)]
        return sum(begin) > len(begin) / 2
    return True


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and stripped text of each nonblank line, without keeping all lines in memory."""
    number, start = 1, 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if line := text[start:end].strip(_BLANK):
            yield number, line
        number, start = number + 1, end + 1


def line_rows(text: str) -> SourceTable:
    """Read rows from JSON Lines."""
    return table_of((at, _value_or_reason(one)) for at, one in _lines(text))


def _value_or_reason(line: str) -> Cells | str:
    if undecoded(line):
        return NOT_UTF8
    try:
        value, end = decode(line)
    except (ValueError, RecursionError) as error:
        return _reason(error, line)
    if end < len(line):
        return f"not valid JSON: more text follows the first value (column {end + 1})"
    return _object_or_reason(value)


def _list_rows(name: str, text: str, start: int) -> SourceTable:
    _refuse_undecoded(name, text)
    values: list[object] = []
    offsets: list[int] = []
    at = _skip_blank(text, start + 1)
    try:
        while not (text.startswith("]", at) and not values):
            offsets.append(at)
            value, end = decode(text, at)
            values.append(value)
            at = _skip_blank(text, end)
            if text.startswith("]", at):
                break
            if not text.startswith(",", at):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _skip_blank(text, at + 1)
    except (ValueError, RecursionError) as error:
        raise _broken(name, text, at, error) from None
    _refuse_more(name, text, at + 1)
    return _members(name, values, _line_numbers(text, offsets))


def _document_rows(name: str, value: Mapping[str, object]) -> SourceTable:
    """Read the rows of an object: an Inspect log, a list of rows, parallel columns, or a single row."""
    if "samples" in value and "eval" in value:
        if not isinstance(value["samples"], list) or not value["samples"]:
            raise DataError(
                f"{name}: the Inspect log has no samples; it may be only a header. Use the complete log."
            )
        return replace(_members(name, value["samples"]), outer="inspect_log")
    lists = [column for column in value.values() if isinstance(column, list) and column]
    found = {} if {"choices", "options", "question"} & set(value) else _lists_of_objects(value)
    if found:
        main = set(max(found.values(), key=len)[0])
        alike = {name: rows for name, rows in found.items() if 2 * len(main & set(rows[0])) > len(main)}
        table = _members(name, [row for rows in alike.values() for row in rows])
        return replace(
            table, notes=tuple(_list_notes(list(alike), [one for one in found if one not in alike]))
        )
    if len(value) > 2 and len(lists) == len(value) and len({len(column) for column in lists}) == 1:
        return _members(name, [dict(zip(value, cells, strict=True)) for cells in zip(*lists, strict=True)])
    return table_of([(1, value)])


def _lists_of_objects(value: Mapping[str, object], depth: int = 3) -> dict[str, list[dict[str, object]]]:
    """Return the lists of objects in a document by name, also those inside its objects."""
    found: dict[str, list[dict[str, object]]] = {}
    for name, member in value.items():
        if (
            isinstance(member, list)
            and member
            and all(isinstance(one, dict) and len(one) > 1 for one in member)
        ):
            found[name] = member
        elif isinstance(member, dict) and depth:
            inner = _lists_of_objects(member, depth - 1)
            found |= {f"{name}.{below}": rows for below, rows in inner.items()}
    return found


def _list_notes(read: Sequence[str], unread: Sequence[str]) -> Iterator[str]:
    if len(read) > 1:
        yield f"the items of {_named(read)} were read as one file"
    if unread:
        yield f"not read: {_named(unread)}, whose members have other fields than the items"


def _named(lists: Sequence[str]) -> str:
    """Name lists, unless a name may be item text."""
    shown = all(part.isidentifier() and len(part) <= 40 for name in lists for part in name.split("."))
    return counted(len(lists), "list") + (f" ({', '.join(lists)})" if shown else "")


def _members(name: str, values: Sequence[object], lines: Iterable[int] | None = None) -> SourceTable:
    if not values:
        raise DataError(f"{name}: the list is empty; expected items")
    numbers = range(1, len(values) + 1) if lines is None else lines
    return table_of(zip(numbers, map(_object_or_reason, values), strict=True))


def _object_or_reason(value: object) -> Cells | str:
    return value if isinstance(value, dict) else f"the row is {json_kind(value)}; expected an object"


def _line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    line, numbers = 1, []
    for before, offset in pairwise([0, *offsets]):
        line += text.count("\n", before, offset)
        numbers.append(line)
    return numbers


def _refuse_undecoded(name: str, text: str) -> None:
    bad = [at for at, line in enumerate(text.split("\n"), start=1) if undecoded(line)]
    if bad:
        raise DataError.gather(fault_lines(name, [Fault(at, NOT_UTF8) for at in bad]))


def _refuse_more(name: str, text: str, end: int) -> None:
    if text[end:].strip(_BLANK):
        raise DataError(
            f"{name}:{_line_at(text, end)}: more text follows the JSON document; "
            "expected one document, or one object per line"
        )


def _broken(name: str, text: str, at: int, error: ValueError | RecursionError) -> DataError:
    offset = error.pos if isinstance(error, json.JSONDecodeError) else at
    return DataError(f"{name}:{_line_at(text, offset)}: {_reason(error, text)}")


def _reason(error: ValueError | RecursionError, text: str) -> str:
    match error:
        case json.JSONDecodeError():
            early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
            return f"not valid JSON: {'it ends too early and may be truncated' if early else f'column {error.colno}'}"
        case RefusedJsonError():
            return f"not valid JSON: {error}"
        case RecursionError():
            return "the JSON is nested too deeply; expected a flat object"
        case _:
            return "a number has too many digits"


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at
