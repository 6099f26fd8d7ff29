"""Reader for sheets of .xlsx workbooks."""

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from robustify.base.compressed import MOST_UNPACKED
from robustify.base.errors import DataError, Notice, UsageError, counted, installing
from robustify.reading.loaders import rows
from robustify.reading.records import MOST_ABOVE, Record, header_words, list_rows

_NUMBER_FORMAT = re.compile(r"0(\.0+)?(%)?")


def sheet_rows(name: str, data: bytes, sheet: str | None) -> rows.SourceTable:
    """Read the rows of a sheet of an .xlsx workbook, by default the first. Raise `UsageError` if openpyxl is missing or no
    sheet has this name, and `DataError` if the workbook cannot be read or has no rows."""
    try:
        import openpyxl
    except ImportError:
        raise UsageError(
            f"{name} is an .xlsx workbook, which needs openpyxl. Run {installing('tables')}, or save the "
            "sheet as CSV (UTF-8).",
            code="openpyxl-missing",
        ) from None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_UNPACKED:
            raise DataError(
                f"{name} unpacks to {size:,} bytes; expected at most {MOST_UNPACKED:,}. Save it as CSV.",
                code="workbook-too-large",
            )
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = {worksheet.title: worksheet for worksheet in book.worksheets}
        if sheet is not None and sheet not in sheets:
            raise UsageError(
                f"{name} has no sheet {sheet!r}; expected one of {', '.join(sheets)}", code="no-such-sheet"
            )
        title = sheet or next(iter(sheets))
        records = _sheet_records(sheets[title])
        if sheet is None and not _has_header(records):
            # The first sheet may be a page of instructions.
            every = ((other, _sheet_records(sheets[other])) for other in sheets)
            title, records = next((pair for pair in every if _has_header(pair[1])), (title, records))
    except (UsageError, DataError):
        raise
    except Exception as error:
        # openpyxl raises errors of many types, and their messages may quote cells.
        raise DataError(
            f"{name}: the workbook cannot be read ({type(error).__name__}). Save it as CSV.",
            code="unreadable-workbook",
        ) from None
    filled = [record for record in records if any(record[1])]
    above = _titles_above(name, filled)
    table = list_rows(name, filled[above:])
    others = Notice(
        f"read the sheet {title!r} of {len(sheets)} sheets; to read another, add `--sheet NAME`",
        code="several-sheets",
    )
    titles = f"{counted(above, 'row')} above the header, with a single filled cell, not read"
    notes = [*[others] * (len(sheets) > 1), *[Notice(titles, code="titles-not-read")] * (above > 0)]
    return replace(table, notes=(*table.notes, *notes))


def _sheet_records(sheet: Any) -> list[Record]:
    return [
        (number, [_sheet_text(cell) for cell in row]) for number, row in enumerate(sheet.iter_rows(), start=1)
    ]


def _has_header(records: Sequence[Record]) -> bool:
    filled = [cells for _, cells in records if any(cells)]
    return any(header_words(cells) > 1 for cells in filled[:MOST_ABOVE])


def _titles_above(name: str, records: Sequence[Record]) -> int:
    """Count the single-cell rows above the header of a sheet, such as a title. Raise `DataError` if other rows are
    above it."""
    for i, (_, cells) in enumerate(records[:MOST_ABOVE]):
        if header_words(cells) > 1:
            if any(sum(bool(cell.strip()) for cell in above) > 1 for _, above in records[:i]):
                raise DataError(
                    f"{name}: the header is on row {records[i][0]}; expected it on row 1. Remove the rows above it.",
                    code="lines-above-header",
                )
            return i
    return 0


def _sheet_text(cell: Any) -> str:
    """Return the text of a cell as the sheet shows it, or `DATED` if it is a date or a formatted number."""
    match cell.value:
        case None:
            return ""
        case str() | bool() as value:
            return str(value)
        case int() | float() as value if cell.number_format in ("General", "@", "0"):
            return str(int(value)) if float(value).is_integer() else repr(value)
        case int() | float() as value if number_format := _NUMBER_FORMAT.fullmatch(cell.number_format):
            places = len(number_format[1] or ".") - 1
            return f"{value:.{places}{'%' if number_format[2] else 'f'}}"
    return rows.DATED
