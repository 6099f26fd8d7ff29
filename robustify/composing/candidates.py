"""Read candidates from files, which are other sets with the same questions, or rows with an item's ID or question.

A row belongs to the item with its question. If no item has it, the ID decides, but only if the questions resemble each
other, because IDs of different files may agree by chance.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from robustify.base.errors import DataError, UsageError, counted
from robustify.base.texts import folded
from robustify.composing.pool import Candidate, own_candidates, typed_plainly
from robustify.items.item import Item
from robustify.judging.readers.reader_rows import LEAST_LIKENESS
from robustify.judging.text_overlap import likeness_by_words
from robustify.reading.columns import known_name, name_key, usual_name
from robustify.reading.guard import Guard
from robustify.reading.loaders import Source, load
from robustify.reading.loaders.open_file import open_rows
from robustify.reading.loaders.rows import (
    Cells,
    SourceRow,
    SourceTable,
    cell_label,
    choice_text,
    fault_lines,
    rows_or_faults,
    stem_text,
    text_list,
)

_CANDIDATES = re.compile("candidate|distractor|incorrect|wrong")
"""Part of the name of a column that contains candidates, which does not name their writer."""
_Row = tuple[str, str, tuple[Candidate, ...]]
"""ID, question, and candidates of a row."""


def read_candidates(
    items: Sequence[Item], files: Sequence[Source], guard: Guard, columns: Sequence[str] = ()
) -> tuple[list[list[Candidate]], dict[str, int]]:
    """Read candidates from files. Return the candidates for each item, and the number of unmatched rows of each file.

    `columns` name the fields with candidates, which are otherwise recognized.

    Raises:
        UsageError: a file does not exist, or lacks a column of `columns`.
        DataError: a file contains no candidates, faulty rows, or no row for an item.
    """
    candidates: list[list[Candidate]] = [[] for _ in items]
    unmatched: Counter[str] = Counter()
    find_positions = _position_finder(items)
    for source in files:
        rows, name = list(_rows(source, guard, columns)), Path(source.path).name
        for row_id, question, row_candidates in rows:
            positions = find_positions(row_id, question)
            unmatched[name] += not positions
            for position in positions:
                candidates[position] += row_candidates
        if unmatched[name] == len(rows):
            raise DataError(
                f"{name}: none of {counted(len(rows), 'row')} matches an item by its question or ID. Expected candidates "
                "for the items of the set.",
                code="no-matching-row",
            )
    return candidates, dict(+unmatched)


def _position_finder(items: Sequence[Item]) -> Callable[[str, str], list[int]]:
    """Return a function that maps the ID and question of a row to the positions of its items: the item with the ID, or all
    items with the question."""
    by_id, by_stem = {item.id: i for i, item in enumerate(items)}, defaultdict[str, list[int]](list)
    for position, item in enumerate(items):
        for stem in {_form(item.stem), _form(item.question or item.stem)}:
            by_stem[stem].append(position)

    def find(row_id: str, question: str) -> list[int]:
        named, alike = by_id.get(row_id), by_stem.get(_form(question), []) if question else []
        if named is None or (alike and named not in alike):
            return alike
        resembles = likeness_by_words(question, items[named].stem) >= LEAST_LIKENESS["meaning"]
        return [named] * (not question or named in alike or resembles)

    return find


def _form(question: str) -> str:
    return folded(typed_plainly(question))


def _rows(source: Source, guard: Guard, columns: Sequence[str]) -> Iterator[_Row]:
    file = Path(source.path)
    if not columns:
        try:
            for item in load(source, guard).items:
                yield item.id, item.question or item.stem, own_candidates(item, file.stem)
            return
        except DataError:
            if not (columns := _candidate_columns(open_rows(source.path, split=source.split)[0])):
                raise
    yield from _rows_of(file, open_rows(source.path, split=source.split)[0], columns)


def _candidate_columns(table: SourceTable) -> list[str]:
    """Return the columns that contain candidates: those named so (such as `distractor 1`) or, if there are none, lists that
    are not a known part of an item."""
    cells = [cell for row in table.rows for cell in row.cells.items()]
    names = [name for name in dict(cells) if _CANDIDATES.search(name_key(name))]
    lists = {name for name, cell in cells if isinstance(cell, list)}
    return names or [name for name in dict(cells) if name in lists and not known_name(name)]


def _rows_of(file: Path, table: SourceTable, columns: Sequence[str]) -> Iterator[_Row]:
    """Yield the rows of a table. The writer of a row is named by its cell `writer`, or else by the column or the file."""
    names = dict.fromkeys(name for row in table.rows for name in row.cells)
    if missing := [column for column in columns if column not in names]:
        raise UsageError(
            f"{file.name} has no column {missing[0]!r}. Use --candidates to name the columns that contain candidates.",
            code="unknown-column",
        )
    id_column, stem_column = (usual_name(names, part) for part in ("id", "stem"))
    if not id_column and not stem_column:
        fault = f"{file.name} has neither IDs nor questions. Add a column `id` or `question`."
        raise DataError(fault, code="no-id-or-question")
    writers = {name: file.stem if _CANDIDATES.search(name_key(name)) else name for name in columns}

    def read_row(_: SourceRow, cells: Cells) -> _Row:
        who, question = cell_label(cells, "writer"), cells.get(stem_column)
        texts = ((name, text) for name in columns for text in _texts(cells.get(name), name))
        candidates = tuple(Candidate(text, who or writers[name]) for name, text in texts)
        return (
            cell_label(cells, id_column),
            "" if question is None else stem_text(cells, stem_column),
            candidates,
        )

    numbered_rows, faults = rows_or_faults(((row, row.cells) for row in table.rows), read_row)
    if faults := [*table.faults, *faults]:
        raise DataError.gather(fault_lines(file.name, faults))
    yield from (row for _, row in numbered_rows)


def _texts(cell: object, name: str) -> tuple[str, ...]:
    """Return the candidates in a cell, which may be empty, a text, or a list of texts."""
    if cell is None or cell == "":
        return ()
    return text_list(cell, f"`{name}`") if isinstance(cell, list) else (choice_text(cell, f"`{name}`"),)
