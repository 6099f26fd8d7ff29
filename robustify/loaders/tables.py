"""CSV, TSV, Parquet, Arrow and text in blocks of lines -> rows, each with the line or number at which it starts.

A CSV without header (MMLU: stem, choices, letter) is recognised by its records. A record of another width than the
header's is a fault, never padded in silence. Of a damaged Parquet or Arrow file pyarrow's message is not repeated,
because it can hold values.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from robustify.errors import DataError
from robustify.loaders.rows import NOT_UTF8, Cells, SourceTable, name_like, table_of, undecoded

Record = tuple[int, list[str]]
"""The line on which a record starts, and its cells."""
_LETTER = re.compile(r"\s*[A-Za-z]\s*")
_HEADER_WORDS = {"id", "question", "stem", "query", "prompt", "choices", "options"} | {
    *("answer", "key", "label", "gold", "target")
}
_BLOCK_KEY = re.compile(r"\s*[a-dA-D]\s*")
_MARKER = re.compile(r"\s*([a-dA-D])(?:\s*[.:)]\s*|\s+(?=[A-Z]))")
BLOCK_LINES = 7
MOST_ABOVE = 6


def csv_rows(name: str, text: str) -> SourceTable:
    """The rows of a CSV or TSV text, with a header or as MMLU writes it.
    Raises `DataError`: quoting that cannot be read, no records, or a header with a name twice."""
    if above := _lines_above_header(text):
        raise DataError(
            f"{name}:1: is no header; expected it first: the header is on line {above + 1}, so remove what is above it"
        )
    records = _records(name, text)
    if not records:
        raise DataError(f"{name}: no records; expected a header and items")
    if _without_header(records):
        # Another width is more often an unquoted comma than another number of choices.
        width = Counter(len(cells) for _, cells in records).most_common(1)[0][0]
        rows = _of_width(records, width, "as most records have")
        return table_of(
            (
                (
                    line,
                    row if isinstance(row, str) else {"stem": row[0], "choices": row[1:-1], "key": row[-1]},
                )
                for line, row in rows
            ),
            "mmlu_csv",
        )
    header = [cell.strip() for cell in records[0][1]]
    if len(set(header)) < len(header):
        raise DataError(
            f"{name}:{records[0][0]}: the header names a column twice; expected {len(header)} names"
        )
    if len(records) == 1:
        raise DataError(f"{name}: a single record of {len(header)} cells; expected a header and items")
    rows = _of_width(records[1:], len(header), "as many as the header")
    return table_of(
        ((line, row if isinstance(row, str) else dict(zip(header, row, strict=True))) for line, row in rows),
        flat=True,
    )


def _of_width(records: Iterable[Record], width: int, why: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each record with its line, or why it is none."""
    for line, cells in records:
        if any(map(undecoded, cells)):
            yield line, NOT_UTF8
        else:
            yield line, cells if len(cells) == width else f"{len(cells)} cells; expected {width}, {why}"


def _lines_above_header(text: str) -> int:
    """Return how many of the first lines, titles perhaps, stand before one that is plainly a header."""
    for at, line in enumerate(text.split("\n", MOST_ABOVE)[:MOST_ABOVE]):
        cells = {cell.strip(' "\r').casefold() for cell in re.split(r"[\t,;]", line)}
        if len(_HEADER_WORDS & cells) > 1:
            return at
    return 0


def _without_header(records: Sequence[Record]) -> bool:
    """Most records end in a letter, and the first does not look like a header.

    One header word alone can be a choice ("id" is one in psychology), so that it takes two; a first record
    with a bad key is still no header if its cells are too long for names.
    """
    first = records[0][1]
    if len(_HEADER_WORDS & {cell.strip().casefold() for cell in first}) > 1:
        return False
    if not _LETTER.fullmatch(first[-1]) and all(map(name_like, first)):
        return False
    ends = [len(cells) >= 4 and _LETTER.fullmatch(cells[-1]) is not None for _, cells in records]
    return sum(ends) > len(ends) / 2


def _records(name: str, text: str) -> list[Record]:
    """The reading of most even width: delimiter and quoting are found by trying."""
    first = text.lstrip("\r\n").split("\n", 1)[0]
    delimiters = [delimiter for delimiter in "\t,;" if delimiter in first] or [","]
    ways = [(delimiter, True) for delimiter in delimiters]
    if "\t" in delimiters:
        # In many a TSV quotation marks are text: some cell then opens one and leaves it open.
        ways.insert(0 if _unquoted(text) else 1, ("\t", False))
    readings: list[list[Record]] = []
    for delimiter, quoted in ways if len(ways) > 1 else ():
        with suppress(DataError):
            readings.append(_read(name, text, delimiter, quoted=quoted))
    return max(readings, key=_evenness) if readings else _read(name, text, delimiters[0], quoted=True)


def _evenness(records: Sequence[Record]) -> float:
    """The share of records as wide as the first, 0 where that is a single cell."""
    widths = [len(cells) for _, cells in records]
    return widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0


def _read(name: str, text: str, delimiter: str, *, quoted: bool) -> list[Record]:
    # newline="" leaves line ends to the csv module: a cell may hold some.
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
                f"{name}:{line}: the record cannot be read ({error}); expected CSV quoting"
            ) from None
        if cells:
            records.append((line, cells))


def _unquoted(text: str) -> bool:
    """Whether quotation marks in a TSV are part of the text: some cell opens one and does not close it."""
    cells = (cell for line in text.split("\n") for cell in line.rstrip("\r").split("\t"))
    return any(
        cell.startswith('"')
        and (len(cell) < 2 or not cell.endswith('"') or '"' in cell[1:-1].replace('""', ""))
        for cell in cells
    )


def in_blocks(text: str) -> bool:
    """Whether the first line with something on it is a lone letter, and six more lines follow it."""
    lines = text.lstrip("\r\n").split("\n", BLOCK_LINES)
    return (
        len(lines) >= BLOCK_LINES
        and _BLOCK_KEY.fullmatch(lines[0]) is not None
        and all(map(str.strip, lines[:BLOCK_LINES]))
    )


def block_rows(text: str) -> SourceTable:
    """One row a block (LogiQA: blank, letter, context, question, four options): key, context, question, options.

    Where the options have the letters A to D, one each, these say which is which; else the order of the lines does,
    because letters are often mangled. A block of another size is a fault, and so is a letter off its line.
    """
    lines = ["", *(line.rstrip("\r") for line in text.split("\n"))]
    starts = [
        at for at in range(1, len(lines)) if not lines[at - 1].strip() and _BLOCK_KEY.fullmatch(lines[at])
    ]
    return table_of(_blocks(lines, starts), "logiqa")


def _blocks(lines: Sequence[str], starts: Sequence[int]) -> Iterator[tuple[int, Cells | str]]:
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = lines[start:end]
        while block and not block[-1].strip():
            block = block[:-1]
        if len(block) != BLOCK_LINES:
            yield start, f"a block of {len(block)} lines; expected {BLOCK_LINES} after a blank line"
        elif any(map(undecoded, block)):
            yield start, NOT_UTF8
        elif (options := _options(block[3:])) is None:
            yield start, "an option's letter is not that of its line; expected A to D, one each"
        else:
            yield (
                start,
                {"key": block[0].strip(), "context": block[1], "question": block[2], "options": options},
            )


def _options(lines: Sequence[str]) -> list[str] | None:
    """The options in the order of their letters, without them; None where a letter contradicts the order."""
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
    """An option without its letter: at the front, or where a translation has moved it into the sentence."""
    front = _MARKER.match(line)
    if front and front[1].upper() == letter:
        return line[front.end() :].strip()
    inside = re.findall(rf"\b{letter}\.", line)
    return re.sub(rf"\b{letter}\.\s*", "", line).strip() if len(inside) == 1 else line.strip()


def arrow_rows(name: str, files: Sequence[Path]) -> SourceTable:
    """The rows of one Parquet or Arrow data set (file or stream, as `save_to_disk` writes), in order of `files`.
    Raises `DataError`: a file that cannot be read, or no rows."""
    cells = [row for file in files for row in _arrow_cells(file)]
    if not cells:
        raise DataError(f"{name}: no rows; expected items")
    return table_of(enumerate(cells, start=1), flat=True)


def _arrow_cells(file: Path) -> list[dict[str, object]]:
    # pyarrow takes a quarter of a second to import: only files that need it pay.
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
            f"{file.name}: {kind} that cannot be read ({type(error).__name__}); is it whole?"
        ) from None
