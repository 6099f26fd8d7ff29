"""A JSON document (a list, or an object that holds the rows) -> rows.

Unlike a line of JSON Lines, a document that breaks off cannot be read past the break, so it is refused whole.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

from robustify.errors import DataError
from robustify.loaders.cells import kind_of, undecoded
from robustify.loaders.json_text import BLANK, decode, line_at, skip_blank, why
from robustify.loaders.rows import Fault, Row, Table


def whole_object(name: str, text: str, start: int) -> Mapping[str, object]:
    """The one object of a text that begins with `{` at `start`.

    Raises:
        DataError: it cannot be read, or more follows.
    """
    _refuse_undecoded(name, text)
    try:
        value, end = decode(text, start)
    except (ValueError, RecursionError) as error:
        raise _broken(name, text, start, error) from None
    _refuse_more(name, text, end)
    return value if isinstance(value, dict) else {}


def list_rows(name: str, text: str, start: int) -> Table:
    """The members of a text that begins with `[` at `start`, read one by one so that each keeps its line.

    Raises:
        DataError: it cannot be read, is empty, or more follows.
    """
    _refuse_undecoded(name, text)
    values: list[object] = []
    places: list[int] = []
    at = skip_blank(text, start + 1)
    try:
        while not (text.startswith("]", at) and not values):
            places.append(at)
            value, end = decode(text, at)
            values.append(value)
            at = skip_blank(text, end)
            if text.startswith("]", at):
                break
            if not text.startswith(",", at):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = skip_blank(text, at + 1)
    except (ValueError, RecursionError) as error:
        raise _broken(name, text, at, error) from None
    _refuse_more(name, text, at + 1)
    return _members(name, values, _line_numbers(text, places))


def document_rows(name: str, value: Mapping[str, object]) -> Table:
    """The rows of an object: an Inspect log, one list of rows, columns side by side, or itself the one row.

    Raises:
        DataError: a log or list without rows.
    """
    if "samples" in value and "eval" in value:
        return _inspect_log(name, value["samples"])
    lists = [column for column in value.values() if isinstance(column, list) and column]
    objects = [column for column in lists if all(isinstance(member, dict) for member in column)]
    if len(objects) == 1 and not {"choices", "options", "question"} & set(value):
        return _members(name, objects[0], range(1, len(objects[0]) + 1))
    if len(value) > 2 and len(lists) == len(value) and len({len(column) for column in lists}) == 1:
        rows = [dict(zip(value, cells, strict=True)) for cells in zip(*lists, strict=True)]
        return _members(name, rows, range(1, len(rows) + 1))
    return Table((Row(1, 1, value),))


def _inspect_log(name: str, samples: object) -> Table:
    if not isinstance(samples, list) or not samples:
        raise DataError(f"{name}: an Inspect log without samples (its header only?); expected a whole log")
    table = _members(name, samples, range(1, len(samples) + 1))
    return Table(table.rows, table.faults, outer="inspect_log")


def _members(name: str, values: Sequence[object], lines: Sequence[int]) -> Table:
    if not values:
        raise DataError(f"{name}: an empty list; expected items")
    rows: list[Row] = []
    faults: list[Fault] = []
    for place, (value, line) in enumerate(zip(values, lines, strict=True), start=1):
        if isinstance(value, dict):
            rows.append(Row(line, place, value))
        else:
            faults.append(Fault(line, f"{kind_of(value)}; expected an object"))
    return Table(tuple(rows), tuple(faults))


def _line_numbers(text: str, places: Sequence[int]) -> list[int]:
    line, numbers = 1, []
    for before, place in pairwise([0, *places]):
        line += text.count("\n", before, place)
        numbers.append(line)
    return numbers


def _refuse_undecoded(name: str, text: str) -> None:
    bad = [at for at, line in enumerate(text.split("\n"), start=1) if undecoded(line)]
    if bad:
        raise DataError.gather([f"{name}:{at}: not valid UTF-8" for at in bad])


def _refuse_more(name: str, text: str, end: int) -> None:
    if text[end:].strip(BLANK):
        raise DataError(
            f"{name}:{line_at(text, end)}: more after the end of the JSON document; "
            "expected one document, or one object a line"
        )


def _broken(name: str, text: str, at: int, error: ValueError | RecursionError) -> DataError:
    place = error.pos if isinstance(error, json.JSONDecodeError) else at
    return DataError(f"{name}:{line_at(text, place)}: {why(error, text)}")
