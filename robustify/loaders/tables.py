"""Readers for CSV, TSV, Parquet, Arrow, and LogiQA files, which keep the line or row number of each row.

A CSV without a header (MMLU: stem, choices, letter) is recognized by its records. A record narrower or wider than the
header is a fault, and is never padded. Errors about damaged Parquet or Arrow files do not repeat pyarrow's message,
because it can contain values.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from robustify.errors import DataError, counted
from robustify.loaders.rows import NOT_UTF8, Cells, SourceTable, name_like, table_of, undecoded

Record = tuple[int, list[str]]
"""First line of a record, and its cells."""
_LETTER = re.compile(r"\s*[A-Za-z]\s*")
_HEADER_WORDS = {"id", "question", "stem", "query", "prompt", "choices", "options"} | {
    *("answer", "key", "label", "gold", "target")
}
_BLOCK_KEY = re.compile(r"\s*[a-dA-D]\s*")
_MARKER = re.compile(r"\s*([a-dA-D])(?:\s*[.:)]\s*|\s+(?=[A-Z]))")
BLOCK_LINES = 7
MOST_ABOVE = 6


def csv_rows(name: str, text: str) -> SourceTable:
    """Read the rows of a CSV or TSV text, with a header or in MMLU's layout without one. Raise `DataError` if the quoting
    is invalid, there are no records, or the header repeats a name."""
    if above := _lines_above_header(text):
        raise DataError(
            f"{name}:1: the header is on line {above + 1}; expected it on line 1. Remove the lines above it."
        )
    records = _records(name, text)
    if not records:
        raise DataError(f"{name} has no records; expected a header and items")
    # A spreadsheet may write empty rows below its last one.
    while len(records) > 1 and not _trimmed(records[-1][1], 0):
        records.pop()
    used = max(len(_trimmed(cells, 0)) for _, cells in records)
    records = [(line, _trimmed(cells, used)) for line, cells in records]
    if _without_header(records):
        # A different width more often means an unquoted comma than a different number of choices.
        width = Counter(len(cells) for _, cells in records).most_common(1)[0][0]
        return table_of(
            _of_width(
                records,
                width,
                "the most common width",
                lambda row: {"stem": row[0], "choices": row[1:-1], "key": row[-1]},
            ),
            "mmlu_csv",
        )
    records = _without_empty_columns(records)
    header = records[0][1]
    if len(set(header)) < len(header):
        raise DataError(
            f"{name}:{records[0][0]}: the header repeats a name. Give each of the {len(header)} columns its own name."
        )
    if len(records) == 1:
        raise DataError(f"{name} has only one record, with {len(header)} cells; expected a header and items")
    width, why = len(header), "the width of the header"
    rows = _of_width(records[1:], width, why, lambda row: dict(zip(header, row, strict=True)))
    return table_of(rows, flat=True)


def _without_empty_columns(records: Sequence[Record]) -> list[Record]:
    """Remove columns with neither a name nor a value, as spreadsheets write them, and empty cells beyond the header. If
    several other columns have no name, number them."""
    header = [cell.strip() for cell in records[0][1]]
    rows = [(line, _trimmed(cells, len(header))) for line, cells in records[1:]]
    whole = [cells for _, cells in rows if len(cells) == len(header)]
    kept = [at for at, name in enumerate(header) if name or any(cells[at].strip() for cells in whole)]
    names = [header[at] or f"column {at + 1}" for at in kept]
    used = [
        (line, [cells[at] for at in kept] if len(cells) == len(header) else cells) for line, cells in rows
    ]
    return [(records[0][0], names), *used]


def _trimmed(cells: list[str], width: int) -> list[str]:
    while len(cells) > width and not cells[-1].strip():
        cells = cells[:-1]
    return cells


def _of_width(
    records: Iterable[Record], width: int, why: str, named: Callable[[list[str]], Cells]
) -> Iterator[tuple[int, Cells | str]]:
    """Yield the line number and named cells of each record, or the reason why a record is faulty."""
    for line, cells in records:
        if any(map(undecoded, cells)):
            yield line, NOT_UTF8
        elif len(cells) != width:
            yield line, f"found {counted(len(cells), 'cell')}; expected {width}, {why}"
        else:
            yield line, named(cells)


def _lines_above_header(text: str) -> int:
    """Return the number of lines, such as titles, above the first line that is clearly a header."""
    for at, line in enumerate(text.split("\n", MOST_ABOVE)[:MOST_ABOVE]):
        cells = {cell.strip(' "\r').casefold() for cell in re.split(r"[\t,;]", line)}
        if len(_HEADER_WORDS & cells) > 1:
            return at
    return 0


def _without_header(records: Sequence[Record]) -> bool:
    """Return whether most records end in a letter and the first record does not look like a header.

    A header needs two header words, because one can be a choice ("id" is one in psychology). A first record with a bad
    key is not a header if its cells are too long for names."""
    first = records[0][1]
    if len(_HEADER_WORDS & {cell.strip().casefold() for cell in first}) > 1:
        return False
    if not _LETTER.fullmatch(first[-1]) and all(map(name_like, first)):
        return False
    ends = [len(cells) >= 4 and _LETTER.fullmatch(cells[-1]) is not None for _, cells in records]
    return sum(ends) > len(ends) / 2


def _records(name: str, text: str) -> list[Record]:
    """Read the records with the delimiter and quoting that give the most consistent number of cells."""
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiters = [delimiter for delimiter in "\t,;" if delimiter in first] or [","]
    ways = [(delimiter, True) for delimiter in delimiters]
    if "\t" in delimiters:
        # In many TSV files, quotation marks are text, so that some cell opens a quotation and does not close it.
        ways.insert(0 if _unquoted(text) else 1, ("\t", False))
    readings: list[list[Record]] = []
    for delimiter, quoted in ways if len(ways) > 1 else ():
        with suppress(DataError):
            readings.append(_read(name, text, delimiter, quoted=quoted))
    return max(readings, key=_evenness) if readings else _read(name, text, delimiters[0], quoted=True)


def _evenness(records: Sequence[Record]) -> float:
    """Return the share of records with as many cells as the first, or 0 if the first has a single cell."""
    widths = [len(cells) for _, cells in records]
    return widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0


def _read(name: str, text: str, delimiter: str, *, quoted: bool) -> list[Record]:
    # A cell may contain line ends, so newline="" leaves them to the csv module.
    lines = io.StringIO(text, newline="")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    records: list[Record] = []
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return records
        except csv.Error as error:
            raise DataError(
                f"{name}:{line}: the record cannot be read ({error}); expected valid CSV quoting"
            ) from None
        if cells:
            records.append((line, cells))


def _unquoted(text: str) -> bool:
    """Return whether quotation marks in a TSV are part of the text, because a cell opens one without closing it."""
    return any(
        cell.startswith('"') and not re.fullmatch(r'"(?:[^"]|"")*"', cell)
        for line in text.split("\n")
        for cell in line.rstrip("\r").split("\t")
    )


def in_blocks(text: str) -> bool:
    """Return whether the first line of a text is a single letter, and at least six nonblank lines follow."""
    lines = text.lstrip("\r\n").split("\n", BLOCK_LINES)
    return (
        len(lines) >= BLOCK_LINES
        and _BLOCK_KEY.fullmatch(lines[0]) is not None
        and all(map(str.strip, lines[:BLOCK_LINES]))
    )


def block_rows(_name: str, text: str) -> SourceTable:
    """Read LogiQA blocks (blank line, letter, context, question, four options) into one row per block.

    If the options have the letters A to D, once each, the letters give the order. Otherwise, the lines do, because
    letters are often garbled. A block of another size is a fault, and so is a letter on the wrong line."""
    lines = ["", *(line.rstrip("\r") for line in text.split("\n"))]
    return table_of(_blocks(lines), "logiqa")


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, Cells | str]]:
    starts = [
        at for at, line in enumerate(lines) if at and not lines[at - 1].strip() and _BLOCK_KEY.fullmatch(line)
    ]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = lines[start:end]
        while block and not block[-1].strip():
            block = block[:-1]
        if len(block) != BLOCK_LINES:
            yield start, f"the block has {len(block)} lines; expected {BLOCK_LINES} after a blank line"
        elif any(map(undecoded, block)):
            yield start, NOT_UTF8
        elif (options := _options(block[3:])) is None:
            yield start, "the letters of the options are out of order; expected A to D, once each"
        else:
            key, context, question = block[:3]
            yield start, {"key": key.strip(), "context": context, "question": question, "options": options}


def _options(lines: Sequence[str]) -> list[str] | None:
    """Return the options without their letters, in order, or None if a letter contradicts the order of the lines."""
    marks = [_MARKER.match(line) for line in lines]
    letters = [mark[1].upper() if mark else "" for mark in marks]
    if sorted(letters) == list("ABCD"):
        lines = [lines[letters.index(letter)] for letter in "ABCD"]
    else:
        clear = [a if mark and mark[0].strip()[1:] else "" for mark, a in zip(marks, letters, strict=True)]
        off = [a for a, own in zip(clear, "ABCD", strict=True) if a not in ("", own)]
        if any(clear.count(a) == 1 for a in off):
            return None
    return [_unlettered(line, letter) for line, letter in zip(lines, "ABCD", strict=True)]


def _unlettered(line: str, letter: str) -> str:
    """Remove the letter of an option, from its start or from where a translation moved it."""
    front = _MARKER.match(line)
    if front and front[1].upper() == letter:
        return line[front.end() :].strip()
    inside = re.findall(rf"\b{letter}\.", line)
    return re.sub(rf"\b{letter}\.\s*", "", line).strip() if len(inside) == 1 else line.strip()


def arrow_rows(name: str, files: Sequence[Path]) -> SourceTable:
    """Read the rows of Parquet or Arrow files, in the order of `files`. An Arrow file can be a stream, as `save_to_disk`
    writes. Raise `DataError` if a file cannot be read or there are no rows."""
    cells = [row for file in files for row in _arrow_cells(file)]
    if not cells:
        raise DataError(f"{name} has no rows; expected items")
    return table_of(enumerate(cells, start=1), flat=True)


def _arrow_cells(file: Path) -> list[dict[str, object]]:
    # Importing pyarrow takes a quarter of a second, so only import it if needed.
    import pyarrow as pa
    import pyarrow.parquet

    head = b""
    try:
        with file.open("rb") as stream:
            head = stream.read(6)
        with pa.memory_map(str(file)) as source:
            if head.startswith(b"PAR1"):
                table = pa.parquet.read_table(source)
            elif head.startswith(b"ARROW1"):
                table = pa.ipc.open_file(source).read_all()
            else:
                table = pa.ipc.open_stream(source).read_all()
            rows: list[dict[str, object]] = table.to_pylist()
            return rows
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        kind = "Parquet" if head.startswith(b"PAR1") else "Arrow"
        raise DataError(
            f"{file.name}: the {kind} file cannot be read ({type(error).__name__}) and may be incomplete. Get a new copy."
        ) from None
