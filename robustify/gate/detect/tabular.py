"""Items in rows: CSV, TSV, tables in Markdown, HTML, LaTeX and blanks, and the tuples of SQL inserts.

A header counts by its names, also where it is the first column; without one, rows count when each has a long text, at
least three other texts and a cell that points at one of them.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from robustify.gate.detect.records import STEMS, WEAK_STEMS, Shaped, bare_name, n_words, shape_of
from robustify.gate.reading.cells import Lines, Row, aligned, html_rows, latex_rows, word_places

_DELIMITERS = (",", "\t", ";", "|")
_HEAD = 40
_BEGINNING = 30000
_PIPES = 4
_LETTERS = frozenset("ABCDEFGHIJabcdefghij")
_INSERT = re.compile(r"insert\s+into\s+[^\s(]{1,120}\s*(?:\(([^()]{3,600})\))?\s*values\b", re.IGNORECASE)
_INTO = tuple(re.compile(verb + r"\s+[Ii][Nn][Tt][Oo]\s") for verb in ("nsert", "NSERT"))
"""How it begins, found fast: the patterns begin with letters."""
_TUPLE = re.compile(
    r"[\s,]{0,200}\(((?:\s*(?:N?'(?:[^']|'')*'|\"[^\"]*\"|[\w.+-]+)\s*,){3,30}\s*(?:'(?:[^']|'')*'|\"[^\"]*\"|[\w.+-]+)\s*)\)"
)
_LITERAL = re.compile(r"N?'((?:[^']|'')*)'|\"([^\"]*)\"|([\w.+-]+)")
_STEMS = STEMS | WEAK_STEMS
_LEAST_ROWS = 3
_LEAST_WORDS = 3
_FEW_ROWS = 40
"""Rows of a table whose items are its columns."""


def table_items(text: str) -> Iterator[Shaped]:
    """The rows of a text that are shaped like items, at their lines."""
    values = "alues" in text or "ALUES" in text
    if values and any(into.search(text) for into in _INTO) and _INSERT.search(text):
        yield from _judged(_inserted(text))
        return
    for found in (_judged(_bare(html_rows(text))), _judged(_bare(latex_rows(text))), _aligned(text)):
        first = next(found, None)
        if first is not None:
            yield first
            yield from found
            return
    beginning = text[:_BEGINNING].replace("\x0b", "\n").split("\n")
    head = list(islice((line for line in beginning if line.strip()), _HEAD))
    for delimiter in _DELIMITERS:
        if _regular(text, head, delimiter):
            items = list(_judged(_rows(text, delimiter)))
            if not items and delimiter == "\t" and '"' in text:
                # Within a JSON string the quote before a table would swallow it whole.
                items = list(_judged(_rows(text, delimiter, quoting=csv.QUOTE_NONE)))
            if items:
                yield from items
                return


def _bare(rows: Iterable[Row]) -> Iterator[Row]:
    return ((line, [" ".join(cell.split()) for cell in cells]) for line, cells in rows)


def _regular(text: str, head: Sequence[str], delimiter: str) -> bool:
    """Whether half of the first lines, or the lines of a table in prose, have enough delimiters."""
    if delimiter == "|":
        bars = text.count(" | ") + text.count("\n|") >= _PIPES
        return bars and len(list(islice(filter(_piped, text.split("\n")), 2))) == 2
    if not head or not _occurs(text, delimiter, 4):
        return False
    if 2 * sum(line.count(delimiter) >= 3 for line in head) >= len(head):
        return True
    if shape_of(head[0].split(delimiter)).has_choices:
        return True
    quoted = _occurs(text, f'"{delimiter}', 4) and _occurs(text, '\n"', _LEAST_ROWS - 1)
    return quoted and _regular_rows(text[:_BEGINNING], delimiter)


def _occurs(text: str, mark: str, times: int) -> bool:
    """Whether a mark occurs in a text at least so many times."""
    return len(list(islice(word_places(text, mark), times))) == times


def _regular_rows(text: str, delimiter: str) -> bool:
    """The same for rows whose quoted cells hold newlines."""
    sizes = [len(cells) for _, cells in islice(_rows(text, delimiter), _HEAD)]
    return len(sizes) >= _LEAST_ROWS and 2 * sum(size >= 4 for size in sizes) >= len(sizes)


def _piped(line: str) -> bool:
    """Whether a line is a row of a table in prose: bars with spaces around them, not bars in a formula."""
    return "|" in line and line.count(" | ") + line.lstrip().startswith("|") >= _PIPES - 1


def _rows(text: str, delimiter: str, *, quoting: Literal[0, 3] = csv.QUOTE_MINIMAL) -> Iterator[Row]:
    csv.field_size_limit(1 << 27)
    numbers: list[int] = []
    physical = _physical(text, numbers, pipes=delimiter == "|")
    reader = csv.reader(physical, delimiter=delimiter, skipinitialspace=True, quoting=quoting)
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if delimiter == "|":
                row = row[1 if row and not row[0] else 0 : -1 if row and not row[-1] else None]
            if row and not all(set(cell) <= set("-: ") for cell in row):
                yield numbers[-1], row
    except csv.Error:
        return


def _physical(text: str, numbers: list[int], *, pipes: bool) -> Iterator[str]:
    """The lines of a text, decoded breaks included; `numbers` receives the file's line of each."""
    for number, line in enumerate(text.split("\n"), 1):
        if not pipes or _piped(line):
            for part in line.split("\x0b"):
                numbers.append(number)
                yield part + "\n"


def _inserted(text: str) -> Iterator[Row]:
    lines = Lines(text)
    for insert in _INSERT.finditer(text):
        if insert[1]:
            yield lines.of(insert.start()), insert[1].split(",")
        at = insert.end()
        while match := _TUPLE.match(text, at, at + 20000):
            cells = [(a or b or c).replace("''", "'") for a, b, c in _LITERAL.findall(match[1])]
            yield lines.of(match.start(1)), cells
            at = match.end()


def _judged(rows: Iterable[Row]) -> Iterator[Shaped]:
    """Rows under a header that names a stem and choices; else rows that look like items by their cells."""
    column, keyed = -1, False
    bare: list[tuple[Shaped, int]] = []
    first: list[Row] = []
    n = 0
    for line, cells in rows:
        n += 1
        if n <= _FEW_ROWS and cells and bare_name(cells[0]):
            first.append((line, cells))
        header = _header(cells)
        if header is not None:
            column, keyed = header
        elif column >= 0:
            if len(cells) > column and (n_words(cells[column]) >= _LEAST_WORDS or not any(cells)):
                yield Shaped(line, keyed)
        elif _is_item(cells):
            bare.append((Shaped(line, True), len(cells)))
    width = Counter(size for _, size in bare).most_common(1)
    if width and width[0][1] >= _LEAST_ROWS and 2 * width[0][1] >= n:
        yield from (shaped for shaped, size in bare if size == width[0][0])
    elif column < 0:
        yield from _turned(first)


def _turned(rows: Sequence[Row]) -> Iterator[Shaped]:
    """Items that are columns: the first cells of the rows are the names."""
    names = {bare_name(cells[0]) for _, cells in rows}
    if names.isdisjoint(_STEMS):
        return
    shape = shape_of(names)
    if shape.is_item:
        line, cells = next((line, cells) for line, cells in rows if bare_name(cells[0]) in _STEMS)
        if len(cells) <= _LEAST_ROWS:  # a glossary has such names too
            return
        yield from (Shaped(line, shape.key) for cell in cells[1:] if n_words(cell) >= _LEAST_WORDS)


def _aligned(text: str) -> Iterator[Shaped]:
    """The rows of tables in blanks; three dots stand for columns that were left out in print."""
    for names, rows in aligned(text):
        shape = shape_of(names)
        hidden = shape.key and "..." in names
        if (shape.has_choices or hidden) and (shape.stem or (shape.weak_stem and shape.key)):
            yield from (Shaped(line, shape.key) for line, (cell,) in rows if n_words(cell) >= _LEAST_WORDS)


def _header(cells: Sequence[str]) -> tuple[int, bool] | None:
    """The column of the stem and whether there is one of keys, where cells are a header that names choices."""
    if len(cells) < 3 or max(map(len, cells)) > 40 or any(cell[:1].isdigit() for cell in cells):
        return None
    if not any(bare_name(cell) in _STEMS for cell in cells):
        return None
    shape = shape_of(cells)
    if not shape.is_item:
        return None
    names = STEMS if shape.stem else WEAK_STEMS
    return next(i for i, cell in enumerate(cells) if bare_name(cell) in names), shape.key


def _is_item(cells: Sequence[str]) -> bool:
    if not 5 <= len(cells) <= 14:
        return False
    stem = max(cells, key=lambda cell: len(cell.split()))
    if len(stem.split()) < 5:
        return False
    rest = [cell for cell in cells if cell is not stem and cell]
    points = [
        c for i, c in enumerate(rest) if c in _LETTERS or (c.isdigit() and len(c) == 1) or c in rest[:i]
    ]
    options = {cell for cell in rest if cell not in points or rest.count(cell) > 1}
    return (
        bool(points)
        and len(options) >= 3
        and ("?" in stem or "__" in stem or any(c in _LETTERS for c in points))
    )
