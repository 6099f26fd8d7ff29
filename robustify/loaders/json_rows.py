"""JSON text -> rows, each with its line.

Lines of JSON Lines end at LF alone, because U+2028 and its like may stand inside a string. A bad line is a
fault of its own; the others are still read. No message quotes the file.
"""

from collections.abc import Mapping

from robustify.loaders.cells import kind_of, undecoded
from robustify.loaders.json_documents import document_rows, list_rows, whole_object
from robustify.loaders.json_text import BLANK, decode, skip_blank, why
from robustify.loaders.rows import Fault, Row, Table


def json_rows(name: str, text: str) -> Table:
    """The rows of a JSON text: one object a line, a list of objects, or one object that holds them.

    Raises:
        DataError: a document that cannot be read, or that holds no rows.
    """
    start = skip_blank(text, 0)
    if text.startswith("[", start):
        return list_rows(name, text, start)
    if not _one_a_line(text):
        return document_rows(name, whole_object(name, text, start))
    table = _lines(text)
    # A single line may also be a whole document, written without line breaks.
    single = len(table.rows) == 1 and not table.faults
    return document_rows(name, table.rows[0].cells) if single else table


def _one_a_line(text: str) -> bool:
    lines = [line.lstrip(BLANK) for line in text.split("\n") if line.strip(BLANK)]
    try:
        decode(lines[0])
    except (ValueError, RecursionError):
        return sum(line.startswith("{") for line in lines) > len(lines) / 2
    return True


def _lines(text: str) -> Table:
    rows: list[Row] = []
    faults: list[Fault] = []
    lines = [(at, line.strip(BLANK)) for at, line in enumerate(text.split("\n"), start=1)]
    for place, (at, line) in enumerate([(at, line) for at, line in lines if line], start=1):
        found = _object_or_reason(line)
        if isinstance(found, str):
            faults.append(Fault(at, found))
        else:
            rows.append(Row(at, place, found))
    return Table(tuple(rows), tuple(faults))


def _object_or_reason(line: str) -> Mapping[str, object] | str:
    """The object on a line, or why there is none."""
    if undecoded(line):
        return "not valid UTF-8"
    try:
        value, end = decode(line)
    except (ValueError, RecursionError) as error:
        return why(error, line)
    if end < len(line):
        return f"not valid JSON: more after the first value (column {end + 1})"
    return value if isinstance(value, dict) else f"{kind_of(value)}; expected an object"
