"""Plain tables of picks (JSON, JSON Lines, CSV, Parquet) -> replies.

A table names a model, a key and a pick in each row, or has a column of picks for each model.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from robustify.arrays import tied_best
from robustify.errors import DataError, ItemError, UsageError
from robustify.item import FEWEST, MOST, unspaced
from robustify.loaders.choices import read_choices
from robustify.loaders.rows import (
    Cells,
    SourceRow,
    SourceTable,
    cell_label,
    cell_text,
    cell_value,
    json_kind,
    rows_or_faults,
)
from robustify.logs.checked_names import (
    NOTHING,
    Name,
    as_label,
    names_in,
    path_name,
    said_name,
    topics_in,
)
from robustify.logs.log import Log, LoggedItem, LogOptions, LogReply, topic_notes
from robustify.logs.pick_columns import PickColumns, missing_column, pick_columns
from robustify.logs.prompts import Naming, assumed, naming, whole_number
from robustify.views import VIEWS, View

KIND = "picks"
LEAST = 1e-12
"""A probability of 0 counts as this, because its logarithm has to be a number."""
_NUMERIC = (str, int, float)


@dataclass(frozen=True, slots=True)
class TableReading:
    """How one table is read: its columns, how they name a choice, and what no row says.

    `k` and `view` stand where no column does (`k` 0: the item of a row's id says how many choices it has); `words` gives
    the view of each word of the view column, `models` and `topics` the names in those columns.
    `probable`: scores are probabilities.
    """

    columns: PickColumns
    keys: Naming
    picks: Naming
    k: int | None
    view: View
    words: Mapping[str, View]
    model: Name | None
    models: Mapping[str, Name]
    topics: Mapping[str, Name]
    probable: bool


def read_picks(file: str, table: SourceTable, sha256: str, options: LogOptions) -> Log:
    """The replies of one table.

    Raises:
        DataError: a part that no column holds, or that two could; a view or a count that is not known.
        UsageError: a mapped column that is not there, or a view other than the table's own.
    """
    columns = pick_columns(file, table, options)
    if NOTHING in columns.picks and "model" not in columns.parts and options.model is None:
        raise missing_column(file, "model", list(table.rows[0].cells))
    if NOTHING not in columns.picks and options.model is not None:
        raise UsageError(f"{file}: has a column of picks for each model; leave {options.model}= out")
    if "key" not in columns.parts and not options.keyed:
        raise missing_column(file, "key", list(table.rows[0].cells))
    reading, notes = _reading(file, table, columns, options)
    every = ((row, reading) for row in table.rows)
    made, faults = rows_or_faults(every, lambda row, reading: list(_replies(row, reading)))
    return Log(
        file=file,
        kind=KIND,
        sha256=sha256,
        task=path_name(re.sub(r"\.[^.]*$", "", file)),
        replies=tuple(reply for _, replies in made for reply in replies),
        faults=(*table.faults, *faults),
        notes=tuple(filter(None, notes)),
    )


def _reading(
    file: str, table: SourceTable, columns: PickColumns, options: LogOptions
) -> tuple[TableReading, list[str]]:
    rows = [row.cells for row in table.rows]
    view, words, noted = _views(file, rows, columns, options)
    keys = [said for cells in rows if (said := _key(cells, columns)) is not None]
    picks = [cells.get(column) for cells in rows for column in columns.picks.values()]
    by_key, by_pick = naming(file, keys, picks, columns.parts.get("first", ""))
    k, counted = None, ""
    if options.keyed and columns.choices is None and "id" in columns.parts:
        k = 0
    elif columns.choices is None and "k" not in columns.parts:
        positions = (
            [by_key.position(c, MOST, ()) for c in keys],
            [by_pick.position(c, MOST, ()) for c in picks],
        )
        k = _furthest(file, *positions)
        counted = f"every item was taken to have {k} choices, as many as its keys name (--map k==N)"
    values = [v for cells in rows for m in columns.scores for v in _numbers(cells, columns.scores[m])]
    probable = bool(values) and all(0 <= v <= 1 for v in values)
    if not probable and any(v > 0 for v in values):
        raise DataError(
            f"{file}: scores above 0 that are no probabilities; expected log-probabilities (at most 0) or "
            "probabilities (0 to 1)"
        )
    models, said = _models(file, rows, columns), _column(rows, columns.parts.get("topic"))
    topics = topics_in(said, each=len(models) or 1)
    reading = TableReading(columns, by_key, by_pick, k, view, words, options.name, models, topics, probable)
    return reading, [noted, counted, *topic_notes(said, topics)]


def _column(rows: Sequence[Cells], column: str | None) -> list[str]:
    """The labels in a column, "" where a cell is none; none where the table has no such column."""
    if column is None or column.startswith("="):
        return [] if column is None else [column[1:]]
    cells = (cells.get(column) for cells in rows)
    return [str(cell) if isinstance(cell, str | int) else "" for cell in cells]


def _models(file: str, rows: Sequence[Cells], columns: PickColumns) -> dict[str, Name]:
    """The models that the rows name."""
    column = columns.parts.get("model")
    if NOTHING not in columns.picks or column is None:
        return {}
    if column.startswith("="):
        return {column[1:].strip(): said_name(column[1:].strip())}
    said = [text for text in map(str.strip, _column(rows, column)) if text]
    models = names_in(said, (text for cells in rows for text in _texts(cells, columns)))
    if said and not models:
        raise DataError(
            f"{file}: `{column}` holds no names of models: {len(set(said))} different texts in {len(said)} rows; "
            "expected fewer models than rows of each (--map model=NAME, or MODEL=FILE)"
        )
    return models


def _texts(cells: Cells, columns: PickColumns) -> Iterator[object]:
    """Yield the stem and the choices of a row."""
    names = (columns.choices,) if isinstance(columns.choices, str) else columns.choices or ()
    for name in (*names, *(columns.parts[part] for part in ("stem",) if part in columns.parts)):
        cell = cells.get(name)
        yield from cell if isinstance(cell, list) else [cell]


def _furthest(file: str, keys: Sequence[int | None], picks: Sequence[int | None]) -> int:
    """The number of choices of every item where no row says it: the furthest position that a key names."""
    k, furthest = (max((p + 1 for p in positions if p is not None), default=0) for positions in (keys, picks))
    if furthest > k or k < FEWEST:
        raise DataError(
            f"{file}: no column says how many choices an item has; its keys name {k}, its picks {furthest}; "
            "expected it to be said: --map k=NAME or --map k==N"
        )
    return k


def _views(
    file: str, rows: Sequence[Cells], columns: PickColumns, options: LogOptions
) -> tuple[View, dict[str, View], str]:
    """The view where no column says one, the view of each word of the column, and what was assumed."""
    column = columns.parts.get("view")
    if column is None:
        return options.view or "full", {}, "" if options.view else assumed("full")
    said = {column[1:]} if column.startswith("=") else {str(cells.get(column)) for cells in rows}
    words = {word: view for word in said for view in VIEWS if word.casefold().replace("-", "_") == view}
    strange = said - set(words)
    if strange and (len(said) > 1 or options.view is None):
        raise DataError(
            f"{file}: the column of views holds {len(strange)} other values; expected {', '.join(VIEWS)}: split the table "
            "by view and say which is which (choices_only:FILE, full:FILE)"
        )
    if strange:
        return options.view or "full", dict.fromkeys(strange, options.view or "full"), ""
    if options.view is not None and set(words.values()) != {options.view}:
        raise UsageError(f"{file}: says itself how it was asked (`{column}`); leave the view out")
    read_as = ", ".join(f"{w!r} as {v}" for w, v in sorted(words.items()) if w != v)
    return "full", words, f"`{column}` says the view: {read_as}" if read_as else ""


def _key(cells: Cells, columns: PickColumns) -> object:
    column = columns.parts.get("key")
    if column is None:
        return None
    return column[1:] if column.startswith("=") else cells.get(column)


def _replies(row: SourceRow, reading: TableReading) -> Iterator[LogReply]:
    """One reply for each model that the row names."""
    columns, cells = reading.columns, row.cells
    item = _item(cells, reading)
    word = _said(cells, columns.parts.get("view"))
    view = reading.words.get(word, reading.view)
    for name, column in columns.picks.items():
        model = name or reading.model or reading.models.get(_said(cells, columns.parts.get("model")).strip())
        if not model:
            raise ItemError("no model is named, or by no name; expected whose pick it is")
        pick = reading.picks.position(cells.get(column), item.k or MOST, item.choices)
        scores = _scores(cells, columns.scores.get(name, ()), item.k, reading.probable)
        _require_agreement(cells, columns.correct.get(name), item, pick, scores)
        yield LogReply(row.line, model, view, KIND, item, pick, scores, reason="names no choice, or several")


def _item(cells: Cells, reading: TableReading) -> LoggedItem:
    parts = reading.columns.parts
    choices: tuple[str, ...] = ()
    if reading.columns.choices is not None:
        choices = read_choices(cells, reading.columns.choices).texts
    counted = whole_number(_said(cells, parts["k"])) if "k" in parts else None
    k = len(choices) or counted or reading.k or 0
    if not FEWEST <= k <= MOST and (k or reading.k != 0):
        raise ItemError(f"{k} choices; expected {FEWEST} to {MOST} (say how many: --map k=NAME or k==N)")
    key = None
    if "key" in parts:
        said = _key(cells, reading.columns)
        key = reading.keys.position(said, k or MOST, choices)
        if key is None:
            same = sum(unspaced(choice) == unspaced(str(said)) for choice in choices)
            which = f"names {same} identical choices" if same > 1 else f"names none of {k or MOST} choices"
            raise ItemError(f"key is {json_kind(said)} that {which}")
    name = as_label(cell_label(cells, parts.get("id")))
    named = parts.get("topic") or ""
    said_topic = named[1:] if named.startswith("=") else cell_label(cells, named or None)
    topic = reading.topics.get(said_topic.strip(), NOTHING)
    stem = cell_text(cells, parts["stem"]) if "stem" in parts and choices else ""
    return LoggedItem(k, stem, choices, key, name, id=name, topic=topic)


def _said(cells: Cells, column: str | None) -> str:
    if column is None:
        return ""
    return column[1:] if column.startswith("=") else str(cell_value(cells, column))


def _numbers(cells: Cells, names: Sequence[str]) -> list[float]:
    values = [cells.get(name) for name in names]
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    return [number for value in values if (number := _number(value)) is not None]


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, _NUMERIC) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _scores(cells: Cells, names: Sequence[str], k: int, probable: bool) -> tuple[float, ...]:
    values = _numbers(cells, names)
    if not names or len(values) != (k or len(values)):
        return ()
    return tuple(math.log(max(v, LEAST)) if probable else v for v in values)


def _require_agreement(
    cells: Cells, correct: str | None, item: LoggedItem, pick: int | None, scores: tuple[float, ...]
) -> None:
    """Refuse a row that contradicts itself: a wrong column, or a key that is read wrongly."""
    best = tied_best(scores) if scores else ()
    if best and pick is not None and pick not in best:
        raise ItemError("the pick is not the best of its own scores; expected both to name one choice")
    said = str(cells.get(correct)).strip().casefold() if correct is not None else ""
    if pick is None or item.key is None or said not in ("0", "1", "true", "false", "0.0", "1.0"):
        return
    if said.startswith(("1", "t")) != (pick == item.key):
        raise ItemError(f"`{correct}` is {said}, but key and pick say otherwise; expected the same")
