"""Reader for CSV, TSV, and other records of cells. It keeps the line of each record.

A CSV without a header (MMLU: stem, choices, letter) is recognized by its records. A record narrower or wider than the
header is a fault, and is never padded.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Literal

from robustify.base.errors import DataError, Notice, counted
from robustify.base.files import QUOTED, original
from robustify.base.texts import UNSEEN
from robustify.reading.columns import (
    WRONG_PREFIXES,
    choice_columns,
    known_name,
    usual_names,
    without_notes,
)
from robustify.reading.loaders import rows

Record = tuple[int, list[str]]
"""First line of a record, and its cells."""
_Shape = tuple[int, int, bool, bool]
_LETTER = re.compile(r"\s*[A-Za-z]\s*")
_ID = re.compile(r"\S*\d\S*")
_BREAKS = re.compile(r"\s*[\r\n]\s*")
_FEWEST_WITH_IDS, _MOST_SAMPLED = 3, 10_000
MOST_ABOVE = 6
"""Largest number of records that are searched for a header."""
_EXCEL_SEPARATOR = re.compile(r"sep=.\r?\n", re.IGNORECASE)
_MARKDOWN_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?)?\s*")
"""Lines that Excel writes above a header, and Markdown below it."""


class _Records:
    """Records of a CSV text or a sheet, with counts of their shapes. Every pass reads the records again.

    `shapes` counts the records with text, by number of cells, number of cells up to the last one with text, whether that is
    a letter, and whether all are UTF-8. A spreadsheet may write empty rows, of which those between others are counted."""

    def __init__(self, records: Callable[[], Iterable[Record]]) -> None:
        self._records, self.shapes, self.n_blank, n_below = records, Counter[_Shape](), 0, 0
        for _, cells in records():
            used = len(cells) if cells[-1:] and cells[-1].strip() else len(_trimmed(cells, 0))
            letter = used > 0 and _LETTER.fullmatch(cells[used - 1]) is not None
            shape = len(cells), used, letter, not rows.undecoded("".join(cells))
            if not used:
                n_below += 1
                continue
            self.n_blank, n_below = self.n_blank + n_below * bool(self.shapes), 0
            self.shapes[shape] += 1
        self._has_blank = self.n_blank + n_below > 0
        self.n, self.width = self.shapes.total(), max((used for _, used, *_ in self.shapes), default=0)
        widths = [(width, n) for (width, *_), n in self.shapes.items()]
        alike = sum(n for width, n in widths if width == widths[0][0] > 1)
        self.evenness = alike / max(1, self.n)
        """Share of records with as many cells as the first, or 0 if the first has a single cell."""

    def count_complete(self, width: int) -> int:
        """Count the UTF-8 records that are as wide as a header, ignoring empty cells at the end."""
        shapes = self.shapes.items()
        return sum(n for (k, used, _, utf8), n in shapes if utf8 and used <= width <= min(k, self.width))

    @property
    def regular(self) -> bool:
        """Whether all records are UTF-8 and have the same number of cells, and the last column contains text."""
        return all(utf8 and width == self.width for width, _, _, utf8 in self.shapes)

    def __iter__(self) -> Iterator[Record]:
        records = iter(self._records())
        if self._has_blank:
            records = (record for record in records if any(map(str.strip, record[1])))
        return records if self.regular else ((line, _trimmed(cells, self.width)) for line, cells in records)


def csv_rows(name: str, text: rows.Text) -> rows.SourceTable:
    """Read the rows of a CSV or TSV text, with a header or in MMLU's layout without a header. Raise `DataError` if
    the quoting is invalid, there are no records, or the header repeats a name."""
    head = [*islice(_lines(text), MOST_ABOVE)]
    for i, line in enumerate(head):
        if header_words(re.split(r"[\t,;|]", line.rstrip("\n"))) > 1:
            if any(above.strip("\r\n") for above in head[:i]):
                raise DataError(
                    f"{name}:1: the header is on line {i + 1}; expected it on line 1. Remove the lines above it.",
                    code="lines-above-header",
                )
            break
    return _records_table(name, _records(name, text))


def _blank_rows(records: _Records) -> tuple[Notice, ...]:
    """Return a note on the blank rows between others."""
    text = f"{counted(records.n_blank, 'blank row')} between other rows not read"
    return (Notice(text, code="blank-rows"),) * (records.n_blank > 0)


def _lines(text: rows.Text, newline: str = "\n") -> Iterator[str]:
    """Yield the lines of a text. Lines beside the header that Excel or Markdown writes become blank, so that line numbers
    stay the same."""
    with text(newline) as lines:
        for line, mark in zip(islice(lines, 2), (_EXCEL_SEPARATOR, _MARKDOWN_RULE), strict=False):
            yield "\n" if mark.fullmatch(line) else line
        yield from lines


def list_rows(name: str, members: Sequence[tuple[int, Sequence[object]]]) -> rows.SourceTable:
    """Read the rows of a list of records, each a list of texts, numbers, and nulls, with or without a header above them.
    Raises the same errors as `csv_rows`."""
    texts = [(line, ["" if cell is None else str(cell) for cell in cells]) for line, cells in members]
    return _records_table(name, _Records(lambda: texts))


def _records_table(name: str, records: _Records) -> rows.SourceTable:
    (line, first), *more = [*islice(records, 2)] or [(0, [])]
    if not line:
        raise DataError(f"{name} has no records; expected a header and items", code="no-records")
    if _without_header(first, records):
        # A different width more often means an unquoted comma than a different number of choices.
        widths = Counter[int]()
        for (width, *_), n in records.shapes.items():
            widths[min(width, records.width)] += n
        [(width, _)] = widths.most_common(1)
        sample = [cells for _, cells in islice(records, _MOST_SAMPLED) if len(cells) == width]
        _require_questions_first(name, line, sample)
        return rows.streamed(
            lambda: _members(records, width, "the most common width"),
            layout="mmlu_csv",
            notes=_blank_rows(records),
        )
    header, below = _with_names(first, records)
    if len(set(header)) < len(header):
        raise DataError(
            f"{name}:{line}: the header repeats a name. Give each of the {len(header)} columns its own name. If the line "
            "is an item, put a header above it, for example question,A,B,C,D,answer.",
            code="repeated-column",
        )
    if not more:
        raise DataError(
            f"{name} has only one record, with {len(header)} cells; expected a header and items",
            code="single-record",
        )
    n, notes = records.count_complete(len(first)) - (not rows.undecoded("".join(first))), _blank_rows(records)
    members = partial(_members, width=len(header), reason="the width of the header", names=header)
    if records.regular and len(header) == len(first) == records.width and QUOTED not in header:
        # No record is faulty or has cells to leave out, so that none needs to be checked again.
        return rows.streamed(
            lambda: _named_cells(records, header), n, flat=True, names=tuple(header), notes=notes
        )
    return rows.streamed(lambda: members(below()), n, flat=True, names=tuple(header), notes=notes)


def _members(records: Iterable[Record], width: int, reason: str, names: Sequence[str] = ()) -> rows.Members:
    """Yield the line and cells of each record, or the fault of the record. Without names, MMLU's layout applies."""
    for line, cells in records:
        if rows.undecoded("".join(cells)):
            yield line, rows.NOT_UTF8
        elif len(cells) != width:
            text = f"found {counted(len(cells), 'cell')}; expected {width}, {reason}"
            yield line, Notice(text, code="cell-count")
        elif names:
            yield line, dict(zip(names, cells, strict=True))
        else:
            yield line, {"stem": cells[0], "choices": cells[1:-1], "key": cells[-1]}


def _named_cells(records: Iterable[Record], names: Sequence[str]) -> rows.Members:
    """Yield the line and cells of each record below the header. All records are as wide as the header."""
    return ((line, dict(zip(names, cells, strict=True))) for line, cells in islice(records, 1, None))


def header_words(cells: Sequence[str]) -> int:
    """Count the known names among the cells of a possible header, or return 0 if another cell is no name."""
    names = {cell.strip(f' "\r{UNSEEN}') for cell in cells}
    named = all(not name or rows.name_like(without_notes(name)) for name in names)
    # One name may be longer, if others are those of a question and of options.
    options = choice_columns(names) or choice_columns(names, WRONG_PREFIXES)
    named = named or bool(usual_names(names, "stem") and options)
    return sum(map(known_name, names)) if named else 0


def _trimmed(cells: list[str], width: int) -> list[str]:
    while len(cells) > width and not cells[-1].strip():
        cells = cells[:-1]
    return cells


def _with_names(
    first: Sequence[str], records: Iterable[Record]
) -> tuple[list[str], Callable[[], Iterator[Record]]]:
    """Return the header and a function that reads the records below it. Columns without a name and a value, cells beyond
    the header, and cells that `mend` adds for spreadsheets are left out. Other nameless columns are numbered. A line break
    in a name becomes a space, so that the name can be shown and mapped."""
    header, width = [_BREAKS.sub(" ", cell.strip().strip(UNSEEN)) for cell in first], len(first)
    empty = {i for i, name in enumerate(header) if not name}
    for _, cells in islice(records, 1, None) if empty else ():
        cells = _trimmed(cells, width)
        empty -= {i for i in empty if len(cells) == width and cells[i].strip()}
        if not empty:
            break
    kept = [i for i in range(width) if i not in empty]
    names = [header[i] or f"column {i + 1}" for i in kept]
    quoted = names.index(QUOTED) if QUOTED in names else None

    def below() -> Iterator[Record]:
        for line, cells in islice(records, 1, None):
            cells = _trimmed(cells, width)
            if empty and len(cells) == width:
                cells = [cells[i] for i in kept]
            if quoted is not None:
                cells = [original(cell) for i, cell in enumerate(cells) if i != quoted]
            yield line, cells

    if quoted is not None:
        names = [original(name) for i, name in enumerate(names) if i != quoted]
    return names, below


def _without_header(first: Sequence[str], records: _Records) -> bool:
    """Return whether most records end in a letter and the first record does not look like a header.

    A header needs two header words, because one can be a choice ("id" is one in psychology). A first record with a bad
    key is not a header if its cells are too long for names."""
    if (
        not first
        or header_words(first) > 1
        or (header_words(first) and choice_columns(map(str.strip, first[1:-1])))
        or (not _LETTER.fullmatch(first[-1]) and all(rows.name_like(cell) for cell in first if cell))
    ):
        return False
    shapes = records.shapes.items()
    ends = sum(
        n for (width, used, letter, _), n in shapes if letter and 4 <= used == min(width, records.width)
    )
    return ends > records.n / 2


def _require_questions_first(name: str, line: int, records: Sequence[Sequence[str]]) -> None:
    """Raise `DataError` if IDs or topics precede the questions in a table without a header."""
    firsts = {cells[0] for cells in records}
    ids = all(_ID.fullmatch(first) for first in firsts) or 2 * len(firsts) <= len(records)
    n_longest = sum(len(cells[1]) > max(map(len, cells[2:-1]), default=0) for cells in records)
    if ids and len(records) >= _FEWEST_WITH_IDS and n_longest >= 0.9 * len(records):
        raise DataError(
            f"{name}:{line}: column 1 seems to hold IDs or topics, and column 2 the questions. Put a header above them, "
            "for example id,question,A,B,C,D,answer.",
            code="column-before-questions",
        )


_UNCLOSED = re.compile(r'(?:^|(?<=\t))"(?!(?:[^"\t\r\n]|"")*"\r?(?:\t|$))', re.MULTILINE)
"""Quotation mark that a cell of a TSV opens and does not close."""


def _records(name: str, text: rows.Text) -> _Records:
    """Read the records with the delimiter and quoting that give the most consistent number of cells."""
    first = next(filter(lambda line: line.strip("\r\n"), _lines(text)), "")
    delimiters = [delimiter for delimiter in "\t,;|" if delimiter in first] or [","]
    ways: list[tuple[str, Literal[0, 3]]] = [(delimiter, csv.QUOTE_MINIMAL) for delimiter in delimiters]
    if "\t" in delimiters:
        # In many TSV files, quotation marks are text. The first of equally even ways is taken.
        ways.insert(0 if any(map(_UNCLOSED.search, _lines(text))) else 1, ("\t", csv.QUOTE_NONE))
    attempts, errors = list[_Records](), list[DataError]()
    for way in ways:
        try:
            attempts.append(_Records(partial(_read, name, text, *way)))
        except DataError as error:  # noqa: PERF203
            errors.append(error)
    if not attempts:
        raise errors[0]
    return max(attempts, key=attrgetter("evenness"))


def _read(name: str, text: rows.Text, delimiter: str, quoting: Literal[0, 3]) -> Iterator[Record]:
    # A cell may contain line ends, so newline="" leaves them to the csv module.
    reader = csv.reader(_lines(text, ""), delimiter=delimiter, quoting=quoting, strict=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{name}:{line}: the record cannot be read ({error}); expected valid CSV quoting",
            code="invalid-csv",
        ) from None
