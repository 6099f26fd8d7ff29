"""CSV and TSV text -> rows, each with the physical line on which its record starts.

Recognises a file without header (MMLU: stem, choices, letter) by its records. A record of another width than
the header's is a fault, never padded in silence.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from robustify.errors import DataError
from robustify.loaders.cells import name_like, undecoded
from robustify.loaders.rows import Fault, Row, Table

Record = tuple[int, list[str]]
_LETTER = re.compile(r"\s*[A-Za-z]\s*")
_HEADER_WORDS = frozenset(
    [
        "id",
        "question",
        "stem",
        "query",
        "prompt",
        "choices",
        "options",
        "answer",
        "key",
        "label",
        "gold",
        "target",
    ]
)


def csv_rows(name: str, text: str) -> Table:
    """The rows of a CSV or TSV text, with a header or as MMLU writes it.

    Raises:
        DataError: quoting that cannot be read, no records, or a header with a name twice.
    """
    records = _records(name, text)
    if not records:
        raise DataError(f"{name}: no records; expected a header and items")
    if _without_header(records):
        return _lettered(records)
    header = [cell.strip() for cell in records[0][1]]
    if len(set(header)) < len(header):
        raise DataError(
            f"{name}:{records[0][0]}: the header names a column twice; expected {len(header)} names"
        )
    if len(records) == 1:
        raise DataError(f"{name}: a single record of {len(header)} cells; expected a header and items")
    return _headed(header, records[1:])


def _headed(header: Sequence[str], records: Sequence[Record]) -> Table:
    rows: list[Row] = []
    faults: list[Fault] = []
    for place, (line, cells) in enumerate(records, start=1):
        if any(undecoded(cell) for cell in cells):
            faults.append(Fault(line, "not valid UTF-8"))
        elif len(cells) != len(header):
            faults.append(Fault(line, f"{len(cells)} cells; expected {len(header)}, as many as the header"))
        else:
            rows.append(Row(line, place, dict(zip(header, cells, strict=True))))
    return Table(tuple(rows), tuple(faults), literals=True)


def _lettered(records: Sequence[Record]) -> Table:
    """Records of one width: another one is more often an unquoted comma than another number of choices."""
    width = Counter(len(cells) for _, cells in records).most_common(1)[0][0]
    rows: list[Row] = []
    faults: list[Fault] = []
    for place, (line, cells) in enumerate(records, start=1):
        if any(undecoded(cell) for cell in cells):
            faults.append(Fault(line, "not valid UTF-8"))
        elif len(cells) != width:
            faults.append(Fault(line, f"{len(cells)} cells; expected {width}, as most records have"))
        else:
            rows.append(Row(line, place, {"stem": cells[0], "choices": cells[1:-1], "key": cells[-1]}))
    return Table(tuple(rows), tuple(faults), layout="mmlu_csv")


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
    able = [delimiter for delimiter in "\t,;" if delimiter in first] or [","]
    ways = [(delimiter, True) for delimiter in able]
    if "\t" in able:
        # In many a TSV quotation marks are text: some cell then opens one and leaves it open.
        ways.insert(0 if _unquoted(text) else 1, ("\t", False))
    if len(ways) == 1:
        return _read(name, text, able[0], quoted=True)
    tried: list[list[Record]] = []
    for delimiter, quoted in ways:
        with suppress(DataError):
            tried.append(_read(name, text, delimiter, quoted=quoted))
    return max(tried, key=_evenness) if tried else _read(name, text, able[0], quoted=True)


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
