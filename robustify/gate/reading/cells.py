"""Rows of cells, as text holds them: HTML tables, LaTeX tables and columns of blanks, each row with its line.

Delimited files and the tuples of SQL are in `gate/detect/tabular.py`.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

Row = tuple[int, Sequence[str]]
"""The line of a row, and its cells."""
_NEWLINE = re.compile("\n")
_CELL = re.compile(r"<(/?)(table|tr|td|th)\b[^<>]{0,400}>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,400}>")
_MOST_CELLS = 512
"""Cells of one HTML row: what has more is no row of items, and its end may be missing."""
_COMMAND = re.compile(r"\\[A-Za-z]+\*?(?:\[[^\[\]\n]{0,80}\])?(?:\{[^{}\n]{0,80}\}){0,3}")
_LONGEST = 20_000
"""Characters of one row of a LaTeX table."""
_WIDEST = 8000
"""Characters of one line of a table of blanks."""
_WORDS = ("question", "stem", "problem", "prompt", "query", "mcq")
_HEADING = re.compile(r"\w+(?:[ _](?:text|stem|body))?(?= {2}| ?\\| ?[\n\x0b]| ?\Z)", re.IGNORECASE)
"""A stem's name at the head of a column of blanks."""
_BLANKS = re.compile(r"\s{2,}")
_CLEAN = re.compile(r'^(\s*)"|(?:\\n|\x0b)?",?\s*$')
"""A line within a notebook is a string of a list."""


class Lines:
    """The lines of one text, whose newlines are found once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def of(self, offset: int) -> int:
        """The line, from 1, of an offset."""
        if self._ends is None:
            self._ends = [match.start() for match in _NEWLINE.finditer(self._text)]
        return bisect_left(self._ends, offset) + 1


def word_places(text: str, word: str) -> Iterator[int]:
    """Where a word stands in a text; faster than a pattern."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def html_rows(text: str) -> Iterator[Row]:
    """The rows of HTML tables; a cell is the text without tags between its tag and the next."""
    if "<td" not in text and "<TD" not in text:
        return
    lines = Lines(text)
    cells: list[str] = []
    begin = 0
    marks = _CELL.finditer(text)
    open_at = -1
    for mark in marks:
        if open_at >= 0:
            cells.append(_TAG.sub("", text[open_at : min(mark.start(), open_at + _LONGEST)]))
            open_at = -1
        name, closes = mark[2].lower(), bool(mark[1])
        if name in ("tr", "table"):
            if cells:
                yield lines.of(begin), cells
            cells, begin = [], mark.start()
        elif not closes and len(cells) < _MOST_CELLS:
            open_at = mark.end()
    if cells:
        yield lines.of(begin), cells


def latex_rows(text: str) -> Iterator[Row]:
    r"""The rows of LaTeX tables: cells between `&`, rows that end with `\\`."""
    if "&" not in text or "\\\\" not in text:
        return
    lines = Lines(text)
    at = 0
    for row in text.split("\\\\"):
        begin, at = at, at + len(row) + 2
        if "&" in row and len(row) <= _LONGEST:
            cells = _COMMAND.sub(" ", row).replace("\\&", " ").split("&")
            yield lines.of(begin + len(row) - len(row.lstrip())), cells


def aligned(text: str) -> Iterator[tuple[list[str], list[Row]]]:
    """Tables whose columns are parted by blanks, as a frame is printed: the names of their columns, and for each row the
    words under the first name of a stem.

    A wide table is printed in blocks, whose head ends with a backslash; the names are those of all blocks.
    """
    lines = Lines(text)
    done = 0
    for found in _headings(text):
        begin = text.rfind("\n", max(0, found.start() - _WIDEST), found.start()) + 1
        if begin < done or found.start() - begin > _WIDEST:
            continue
        head, done = _line(text, begin)
        end, names = done, _names(head)
        heading = found[0].lower()
        column = next((i for i, (name, _, _) in enumerate(names) if name.lower() == heading), -1)
        if column < 0:
            continue
        rows, done = _under(text, end, names, column, lines)
        every = [name for name, _, _ in names]
        while head.rstrip().endswith("\\"):  # the next block
            head, end = _line(text, done)
            more = _names(head)
            every += [name for name, _, _ in more]
            done = _under(text, end, more, 0, lines)[1] if more else done
            if not more:
                break
        yield every, rows


def _headings(text: str) -> list[re.Match[str]]:
    found = {}
    low = text.lower()
    names = [name for name in _WORDS if name in low]
    for word in (case for name in names for case in (name, name.capitalize(), name.upper())):
        for at in word_places(text, word):
            before = text[at - 1 : at] if at else "\n"
            match = _HEADING.match(text, at) if before in ' \n\x0b"' else None
            if match is not None:
                found[at] = match
    return [found[at] for at in sorted(found)]


def _line(text: str, begin: int) -> tuple[str, int]:
    """A line without what a notebook puts around it, and where the next one begins."""
    end = text.find("\n", begin, begin + _WIDEST)
    cut = end if end >= 0 else min(len(text), begin + _WIDEST)
    return _CLEAN.sub(lambda m: (m[1] or "") + " " if m[1] is not None else "", text[begin:cut]), cut + 1


def _names(head: str) -> list[tuple[str, int, int]]:
    """The names in a head, each with its place; none where it is no head."""
    line = head.rstrip().removesuffix("\\").rstrip()
    gaps = [
        (0, len(line) - len(line.lstrip())),
        *(m.span() for m in _BLANKS.finditer(line.rstrip())),
        (len(line), 0),
    ]
    spans = [(a[1], b[0]) for a, b in pairwise(gaps) if a[1] < b[0]]
    names = [(line[a:b], a, b) for a, b in spans]
    short = all(len(name) <= 40 and (name[0].isalpha() or name == "...") for name, _, _ in names)
    return names if names and len(names) <= 100 and short else []


def _under(
    text: str, at: int, names: list[tuple[str, int, int]], column: int, lines: Lines
) -> tuple[list[Row], int]:
    """The words under one name, row for row down to a blank line, and where the text goes on."""
    rows: list[Row] = []
    _, begin, end = names[column]
    before = names[column - 1][2] if column else 0
    after = names[column + 1][1] if column + 1 < len(names) else _WIDEST
    while at < len(text):
        line, following = _line(text, at)
        if not line.strip():
            return rows, following
        # Names stand over the end of their column, or over its beginning.
        cells = [line[before:end], line[begin:after]]
        rows.append((lines.of(at), [max(cells, key=lambda cell: len(cell.split()))]))
        at = following
    return rows, at
