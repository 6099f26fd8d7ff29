"""Readers for CSV, TSV, Parquet, Arrow, XML, and LogiQA files, which keep the line or row number of each row.

A CSV without a header (MMLU: stem, choices, letter) is recognized by its records. A record narrower or wider than the
header is a fault, and is never padded. Errors about damaged Parquet or Arrow files do not repeat pyarrow's message,
because it can contain values.
"""

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from xml.etree.ElementTree import Element, ParseError, XMLParser

from robustify.base.errors import DataError, UsageError, counted, installing
from robustify.base.files import QUOTED, original
from robustify.reading.loaders.columns import known_name
from robustify.reading.loaders.rows import DATED, NOT_UTF8, Cells, SourceTable, name_like, table_of, undecoded

_Record = tuple[int, list[str]]
"""First line of a record, and its cells."""
_LETTER = re.compile(r"\s*[A-Za-z]\s*")
_BLOCK_KEY = re.compile(r"\s*[a-dA-D]\s*")
_MARKER = re.compile(r"\s*([a-dA-D])(?:\s*[.:)]\s*|\s+(?=[A-Z]))")
_BLOCK_LINES = 7
_MOST_ABOVE = 6
_MOST_UNPACKED = 1 << 30
_NUMBER_FORMAT = re.compile(r"0(\.0+)?(%)?")
QUIZ = "a quiz export ({}). Save it as CSV with the columns question, A, B, C, D, and answer."
_EXCEL_SEPARATOR = re.compile(r"\Asep=.\r?(?=\n)", re.IGNORECASE)
"""Line that Excel writes above a header. Its line break stays, so that lines keep their numbers."""


def csv_rows(name: str, text: str) -> SourceTable:
    """Read the rows of a CSV or TSV text, with a header or in MMLU's layout without one. Raise `DataError` if the quoting
    is invalid, there are no records, or the header repeats a name."""
    text = _EXCEL_SEPARATOR.sub("", text)
    blank = len(text) - len(text.lstrip("\r\n"))
    for at, line in enumerate(text.split("\n", _MOST_ABOVE)[:_MOST_ABOVE], start=1):
        if _header_words(re.split(r"[\t,;|]", line)) > 1:
            if at > 1 and text[:blank].count("\n") < at - 1:
                raise DataError(
                    f"{name}:1: the header is on line {at}; expected it on line 1. Remove the lines above it."
                )
            break
    return _records_table(name, _records(name, text))


def _records_table(name: str, records: list[_Record]) -> SourceTable:
    # A spreadsheet may write empty rows below its last one.
    while len(records) > 1 and not _trimmed(records[-1][1], 0):
        records.pop()
    if not records:
        raise DataError(f"{name} has no records; expected a header and items")
    used = max(len(_trimmed(cells, 0)) for _, cells in records)
    records = [(line, _trimmed(cells, used)) for line, cells in records]
    if _without_header(records):
        # A different width more often means an unquoted comma than a different number of choices.
        width = Counter(len(cells) for _, cells in records).most_common(1)[0][0]
        rows = _of_width(records, width, "the most common width")
        made = (
            (at, {"stem": c[0], "choices": c[1:-1], "key": c[-1]} if isinstance(c, list) else c)
            for at, c in rows
        )
        return table_of(made, "mmlu_csv")
    (at, header), *records = _unquoted(_without_empty_columns(records))
    if len(set(header)) < len(header):
        raise DataError(
            f"{name}:{at}: the header repeats a name. Give each of the {len(header)} columns its own name."
        )
    if not records:
        raise DataError(f"{name} has only one record, with {len(header)} cells; expected a header and items")
    rows = _of_width(records, len(header), "the width of the header")
    return table_of(
        (
            (line, dict(zip(header, cells, strict=True)) if isinstance(cells, list) else cells)
            for line, cells in rows
        ),
        flat=True,
    )


def _header_words(cells: Sequence[str]) -> int:
    names = {cell.strip(' "\r') for cell in cells}
    return sum(map(known_name, names)) if all(not name or name_like(name) for name in names) else 0


def _trimmed(cells: list[str], width: int) -> list[str]:
    while len(cells) > width and not cells[-1].strip():
        cells = cells[:-1]
    return cells


def _without_empty_columns(records: Sequence[_Record]) -> list[_Record]:
    """Remove columns with neither a name nor a value, and cells beyond the header. Number other nameless columns."""
    header = [cell.strip() for cell in records[0][1]]
    rows = [(line, _trimmed(cells, len(header))) for line, cells in records[1:]]
    whole = [cells for _, cells in rows if len(cells) == len(header)]
    kept = [at for at, name in enumerate(header) if name or any(cells[at].strip() for cells in whole)]
    if len(kept) < len(header):
        rows = [(at, [c[i] for i in kept] if len(c) == len(header) else c) for at, c in rows]
    return [(records[0][0], [header[at] or f"column {at + 1}" for at in kept]), *rows]


def _unquoted(records: Sequence[_Record]) -> Sequence[_Record]:
    """Return the records without the quotes that `mend` adds for spreadsheets, and without the column that says so."""
    if QUOTED not in (header := records[0][1]):
        return records
    at = header.index(QUOTED)
    return [(line, [original(c) for i, c in enumerate(cells) if i != at]) for line, cells in records]


def _of_width(records: Sequence[_Record], width: int, why: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the line number and cells of each record, or the reason why a record is faulty."""
    for line, cells in records:
        if undecoded("".join(cells)):
            yield line, NOT_UTF8
        elif len(cells) != width:
            yield line, f"found {counted(len(cells), 'cell')}; expected {width}, {why}"
        else:
            yield line, cells


def _without_header(records: Sequence[_Record]) -> bool:
    """Return whether most records end in a letter and the first record does not look like a header.

    A header needs two header words, because one can be a choice ("id" is one in psychology). A first record with a bad
    key is not a header if its cells are too long for names."""
    first = records[0][1]
    if (
        not first
        or _header_words(first) > 1
        or (not _LETTER.fullmatch(first[-1]) and all(name_like(cell) for cell in first if cell))
    ):
        return False
    ends = [len(cells) >= 4 and _LETTER.fullmatch(cells[-1]) is not None for _, cells in records]
    return sum(ends) > len(ends) / 2


_UNCLOSED = re.compile(r'(?:^|(?<=\t))"(?!(?:[^"\t\r\n]|"")*"\r?(?:\t|$))', re.MULTILINE)
"""Quotation mark that a cell of a TSV opens and does not close."""


def _records(name: str, text: str) -> list[_Record]:
    """Read the records with the delimiter and quoting that give the most consistent number of cells."""
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiters = [delimiter for delimiter in "\t,;|" if delimiter in first] or [","]
    ways: list[tuple[str, Literal[0, 3]]] = [(delimiter, csv.QUOTE_MINIMAL) for delimiter in delimiters]
    if "\t" in delimiters:
        # In many TSV files, quotation marks are text. The first of equally even ways is taken.
        ways.insert(0 if _UNCLOSED.search(text) else 1, ("\t", csv.QUOTE_NONE))
    readings = [_read(name, text, delimiter, quoting) for delimiter, quoting in ways]
    found = [records for records in readings if isinstance(records, list)]
    if not found and isinstance(readings[0], DataError):
        raise readings[0]
    return max(found, key=_evenness)


def _evenness(records: Sequence[_Record]) -> float:
    """Return the share of records with as many cells as the first, or 0 if the first has a single cell."""
    widths = [len(cells) for _, cells in records]
    return widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0


def _read(name: str, text: str, delimiter: str, quoting: Literal[0, 3]) -> list[_Record] | DataError:
    # A cell may contain line ends, so newline="" leaves them to the csv module.
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    records: list[_Record] = []
    line = 1
    try:
        for cells in reader:
            records += [(line, cells)] * bool(cells)
            line = reader.line_num + 1
    except csv.Error as error:
        return DataError(f"{name}:{line}: the record cannot be read ({error}); expected valid CSV quoting")
    return records


def sheet_rows(name: str, data: bytes, sheet: str | None) -> SourceTable:
    """Read the rows of a sheet of an .xlsx workbook, by default the first. Raise `UsageError` if openpyxl is missing or no
    sheet has this name, and `DataError` if the workbook cannot be read or has no rows."""
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{name} is an .xlsx workbook, which needs openpyxl. Run {installing('tables')}, or save the "
            "sheet as CSV (UTF-8)."
        ) from None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _MOST_UNPACKED:
            raise DataError(
                f"{name} unpacks to {size:,} bytes; expected at most {_MOST_UNPACKED:,}. Save it as CSV."
            )
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = {one.title: one for one in book.worksheets}
        if sheet is not None and sheet not in sheets:
            raise UsageError(f"{name} has no sheet {sheet!r}; expected one of {', '.join(sheets)}")
        title = sheet or next(iter(sheets))
        rows = enumerate(sheets[title].iter_rows(), start=1)
        records = [(at, [_sheet_text(cell) for cell in row]) for at, row in rows]
    except (UsageError, DataError):
        raise
    except Exception as error:
        # openpyxl raises errors of many types, and their messages may quote cells.
        raise DataError(
            f"{name}: the workbook cannot be read ({type(error).__name__}). Save it as CSV."
        ) from None
    table = _records_table(name, [record for record in records if any(record[1])])
    note = f"read the sheet {title!r} of {len(sheets)}: choose another with `--sheet`"
    return replace(table, notes=(note,) * (len(sheets) > 1))


def _sheet_text(cell: Any) -> str:
    """Return the text of a cell as the sheet shows it, or `DATED`."""
    match cell.value:
        case None:
            return ""
        case str() | bool() as value:
            return str(value)
        case int() | float() as value if cell.number_format in ("General", "@", "0"):
            return str(int(value)) if float(value).is_integer() else repr(value)
        case int() | float() as value if shown := _NUMBER_FORMAT.fullmatch(cell.number_format):
            places = len(shown[1] or ".") - 1
            return f"{value:.{places}{'%' if shown[2] else 'f'}}"
    return DATED


def in_blocks(text: str) -> bool:
    """Return whether the first line of a text is a single letter, and at least six nonblank lines follow."""
    first, *lines = text.lstrip("\r\n").split("\n", _BLOCK_LINES)[:_BLOCK_LINES]
    return len(lines) + 1 == _BLOCK_LINES and bool(_BLOCK_KEY.fullmatch(first)) and all(map(str.strip, lines))


def block_rows(text: str) -> SourceTable:
    """Read LogiQA blocks (blank line, letter, context, question, four options) into one row per block.

    If the options have the letters A to D, once each, the letters give the order. Otherwise, the lines do, because
    letters are often garbled. A block of another size is a fault, and so is a letter on the wrong line."""
    lines = ["", *(line.rstrip("\r") for line in text.rstrip().split("\n"))]
    starts = [
        at for at, line in enumerate(lines) if at and not lines[at - 1].strip() and _BLOCK_KEY.fullmatch(line)
    ]
    ends = [*starts[1:], len(lines)]
    blocks = (
        (start, "\n".join(lines[start:end]).rstrip().split("\n"))
        for start, end in zip(starts, ends, strict=True)
    )
    return table_of(((start, _block(block)) for start, block in blocks), "logiqa")


def _block(lines: Sequence[str]) -> Cells | str:
    """Return the cells of a block, or the reason why it is faulty."""
    if len(lines) != _BLOCK_LINES:
        return f"the block has {len(lines)} lines; expected {_BLOCK_LINES} after a blank line"
    if undecoded("".join(lines)):
        return NOT_UTF8
    key, context, question, *options = lines
    marks = [_MARKER.match(line) for line in options]
    letters = [mark[1].upper() if mark else "" for mark in marks]
    clear = [
        letter if mark and mark[0].strip()[1:] else "" for mark, letter in zip(marks, letters, strict=True)
    ]
    if sorted(letters) == [*"ABCD"]:
        options = [options[letters.index(letter)] for letter in "ABCD"]
    elif any(
        letter not in ("", own) and clear.count(letter) == 1
        for letter, own in zip(clear, "ABCD", strict=True)
    ):
        return "the letters of the options are out of order; expected A to D, once each"
    texts = [_unlettered(line, letter) for line, letter in zip(options, "ABCD", strict=True)]
    return {"key": key.strip(), "context": context, "question": question, "options": texts}


def _unlettered(line: str, letter: str) -> str:
    """Remove the letter of an option, from its start or from where a translation moved it."""
    front = _MARKER.match(line)
    if front and front[1].upper() == letter:
        return line[front.end() :].strip()
    inside, n = re.subn(rf"\b{letter}\.\s*", "", line)
    return (inside if n == 1 else line).strip()


def arrow_rows(name: str, files: Sequence[Path]) -> SourceTable:
    """Read the rows of Parquet or Arrow files, in the order of `files`. An Arrow file can be a stream, as `save_to_disk`
    writes. Raise `DataError` if a file cannot be read or there are no rows."""
    # Importing pyarrow takes a quarter of a second, so only import it if needed.
    import pyarrow as pa
    import pyarrow.parquet

    readers = {b"PAR1": pa.parquet.read_table, b"ARRO": lambda source: pa.ipc.open_file(source).read_all()}
    cells: list[dict[str, object]] = []
    for file in files:
        with file.open("rb") as stream:
            head = stream.read(4)
        read = readers.get(head, lambda source: pa.ipc.open_stream(source).read_all())
        try:
            with pa.memory_map(str(file)) as source:
                cells += read(source).to_pylist()
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
            kind = "Parquet" if head == b"PAR1" else "Arrow"
            raise DataError(
                f"{file.name}: the {kind} file cannot be read ({type(error).__name__}) and may be incomplete. "
                "Get a new copy."
            ) from None
    if not cells:
        raise DataError(f"{name} has no rows; expected items")
    return table_of(enumerate(cells, start=1), flat=True)


def xml_rows(name: str, data: bytes) -> SourceTable:
    """Read the items of the XML of COPA and MCScript. Raise `DataError` if it cannot be read, is of another kind, or
    declares entities."""
    if b"<!ENTITY" in data:
        raise DataError(
            f"{name}: the XML declares entities; expected plain text. Replace them by their text."
        )
    parser = XMLParser()
    try:
        parser.feed(data)
        root = parser.close()
    except ParseError as error:
        line, column = error.position
        raise DataError(f"{name}:{line}: not valid XML (column {column + 1})") from None
    rows = [*_copa(root), *_mcscript(root)]
    if not rows:
        raise DataError(f"{name} is {QUIZ.format('Moodle XML?')}")
    return table_of(enumerate(rows, start=1))


def _copa(root: Element) -> Iterator[Cells]:
    for item in root.iter("item"):
        if item.get("asks-for"):
            yield {**item.attrib, **{part.tag: (part.text or "").strip() for part in item}}


def _mcscript(root: Element) -> Iterator[Cells]:
    for instance in root.iter("instance"):
        for question in instance.iter("question"):
            yield {
                "id": f"{instance.get('id')}-{question.get('id')}",
                "topic": instance.get("scenario"),
                "passage": (instance.findtext("text") or "").strip(),
                "question": question.get("text"),
                "options": [{**answer.attrib} for answer in question.iter("answer")],
            }
