"""Reader of plain tables of picks (JSON, JSON Lines, CSV, Parquet).

A table contains a model, key, and pick in each row, or a column of picks for each model.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustify.arrays import tied_best
from robustify.errors import DataError, ItemError, UsageError
from robustify.item import FEWEST, MOST
from robustify.loaders.options import read_choices
from robustify.loaders.rows import SourceRow, json_kind, require_text, rows_or_faults, whole
from robustify.logs.checked_names import (
    NOTHING,
    Name,
    as_label,
    names_in,
    path_name,
    said_name,
    topics_in,
)
from robustify.logs.log import Log, LogFile, LoggedItem, LogOptions, LogReply, ShownBefore, topic_notes
from robustify.logs.own_scores import number_or_nan, pick_contradicts, scored_right
from robustify.logs.pick_columns import PickColumns, pick_columns
from robustify.logs.prompts import Naming, assumed, naming, whole_number
from robustify.redaction import HoldsText
from robustify.texts import unspaced
from robustify.views import VIEWS, View

KIND = "picks"
LEAST = 1e-12
"""Value that replaces a probability of 0, so that its logarithm is finite."""


@dataclass(frozen=True, slots=True, repr=False)
class SaidPick(HoldsText):
    """Cells of a row that describe one model's pick. `model` is "" if the row names the model."""

    model: Name
    choices: tuple[str, ...]
    parts: Mapping[str, object]

    def text(self, part: str) -> str:
        """Return a part as text, or "" if it is neither text nor a whole number."""
        said = self.parts.get(part)
        number = whole(said)
        return str(said if number is None else number).strip() if isinstance(said, str | int | float) else ""


@dataclass(frozen=True, slots=True)
class TableReading:
    """Rules for reading one table: formats of keys and picks, number of choices, and known names.
    `k` is 0 if the number of choices depends on the item with a row's ID. `words` maps each word in the view column to a
    view. `models` and `topics` contain the names in those columns. If `probable` is true, scores are probabilities."""

    keys: Naming
    picks: Naming
    k: int
    words: Mapping[str, View]
    models: Mapping[str, Name]
    topics: Mapping[str, Name]
    probable: bool


def recognizes(_: LogFile) -> bool:
    """Return whether a file can be read as a table. Any other file can, or its columns are refused."""
    return True


def read(table_file: LogFile, options: LogOptions, _: ShownBefore) -> Log:
    """Read the replies in a table of picks. Raise `DataError` if a part has no column or several, or a view or number of
    choices is unknown. Raise `UsageError` if a mapped column does not exist, or the asked view contradicts the table."""
    file, table = table_file.path.name, table_file.table
    columns = pick_columns(file, table, options)
    made, faults = rows_or_faults(((row, columns) for row in table.rows), _said)
    said = [one for _, row in made for one in row]
    reading, notes = _reading(file, said, columns, options)
    replies, more = rows_or_faults(made, lambda row, picks: [_reply(row.line, one, reading) for one in picks])
    return Log(
        file=file,
        kind=KIND,
        sha256=table_file.sha256,
        task=path_name(re.sub(r"\.[^.]*$", "", file)),
        replies=tuple(reply for _, row in replies for reply in row),
        faults=(*table.faults, *faults, *more),
        notes=tuple(filter(None, notes)),
    )


def _said(row: SourceRow, columns: PickColumns) -> list[SaidPick]:
    choices = () if columns.choices is None else read_choices(row.cells, columns.choices).texts
    return [
        SaidPick(model, choices, {part: _cell(row, part, column) for part, column in columns.of(model)})
        for model in columns.picks
    ]


def _cell(row: SourceRow, part: str, column: str) -> object:
    if column.startswith("="):
        return column[1:]
    return [row.cells.get(c) for c in column.split(",")] if part == "scores" else row.cells.get(column)


def _reading(
    file: str, said: Sequence[SaidPick], columns: PickColumns, options: LogOptions
) -> tuple[TableReading, list[str]]:
    words, noted = _views(file, said, columns, options)
    keys = [one.parts.get("key") for one in said if "key" in one.parts]
    picks = [one.parts.get("pick") for one in said]
    by_key, by_pick = naming(file, keys, picks, columns.parts.get("first", ""))
    k, counted = 0, ""
    if columns.choices is None and "k" not in columns.parts and not (options.keyed and "id" in columns.parts):
        both = (by_key, keys), (by_pick, picks)
        k = _furthest(file, *([way.position(cell, MOST, ()) for cell in cells] for way, cells in both))
        counted = (
            f"every item was assumed to have {k} choices, based on the keys (to change this, use --map k==N)"
        )
    scores = [score for one in said for score in _finite_scores(one)]
    probable = bool(scores) and all(0 <= score <= 1 for score in scores)
    if not probable and any(score > 0 for score in scores):
        raise DataError(
            f"{file}: some scores are above 0 but are not probabilities; expected log-probabilities (at most 0) or "
            "probabilities (0 to 1)"
        )
    models = _models(file, said, columns, options)
    named = [one.text("topic") for one in said]
    topics = topics_in(named, each=len(models) or 1)
    reading = TableReading(by_key, by_pick, k, words, models, topics, probable)
    return reading, [noted, counted, *topic_notes(named, topics)]


def _models(
    file: str, said: Sequence[SaidPick], columns: PickColumns, options: LogOptions
) -> dict[str, Name]:
    """Return the checked model names by cell text. The key is "" if the user names one model for all rows."""
    if options.name is not None:
        return {"": options.name}
    column = columns.parts.get("model", "=")
    if NOTHING not in columns.picks:
        return {}
    if column.startswith("="):
        return {column[1:].strip(): said_name(column[1:].strip())}
    names = [text for one in said if (text := one.text("model"))]
    models = names_in(names, (text for one in said for text in (one.parts.get("stem"), *one.choices)))
    if names and not models:
        raise DataError(
            f"{file}: `{column}` does not contain model names: {len(set(names))} different texts in {len(names)} rows; "
            "expected fewer models than rows per model. Use --map model=NAME, or MODEL=FILE."
        )
    return models


def _furthest(file: str, *positions: Sequence[int | None]) -> int:
    """Infer the number of choices from the highest position that a key names. No pick may exceed it."""
    k, furthest = (max((p + 1 for p in found if p is not None), default=0) for found in positions)
    if furthest > k or k < FEWEST:
        raise DataError(
            f"{file}: no column contains the number of choices. The keys name {k} and the picks name {furthest}. Set "
            "the number with --map k=NAME or --map k==N."
        )
    return k


def _views(
    file: str, said: Sequence[SaidPick], columns: PickColumns, options: LogOptions
) -> tuple[dict[str, View], str]:
    """Return the view of each word in the view column (only "" if there is none), and a note about assumptions."""
    if "view" not in columns.parts:
        return {"": options.view or "full"}, "" if options.view else assumed("full")
    found = {one.text("view") for one in said}
    called: dict[str, View] = {view: view for view in VIEWS}
    called |= {f"no_{options.hidden}": "choices_only", f"with_{options.hidden}": "full"}
    plain = {word: word.casefold().replace("-", "_") for word in found}
    words = {word: called[name] for word, name in plain.items() if name in called}
    strange = found - set(words)
    if strange and (len(found) > 1 or options.view is None):
        raise DataError(
            f"{file}: the view column contains {len(strange)} unknown values; expected {', '.join(called)}. Split the "
            "table by view and name the view of each file (choices_only:FILE, full:FILE)."
        )
    if options.view is not None and words and set(words.values()) != {options.view}:
        raise UsageError(
            f"{file}: the table has a view column (`{columns.parts['view']}`) that contradicts the view given for this "
            "log. Omit that view."
        )
    return words or dict.fromkeys(found, options.view or "full"), ""


def _reply(line: int, said: SaidPick, reading: TableReading) -> LogReply:
    item = _item(said, reading)
    model = said.model or reading.models.get("") or reading.models.get(said.text("model"))
    if not model:
        raise ItemError("the model name is missing or does not look like a name")
    answer, scores = reading.picks.answer(said.parts.get("pick"), item), _finite_scores(said)
    if len(scores) != (item.k or len(scores)):
        scores = []
    logs = tuple(math.log(max(score, LEAST)) if reading.probable else score for score in scores)
    _require_agreement(said.parts.get("correct"), item, answer["pick"], logs)
    view = reading.words[said.text("view")]
    return LogReply(line, model, view, KIND, item, scores=logs, **answer)


def _item(said: SaidPick, reading: TableReading) -> LoggedItem:
    k = len(said.choices) or whole_number(said.text("k")) or reading.k
    if not FEWEST <= k <= MOST and (k or "k" in said.parts):
        found = f"the number of choices is {k}; expected {FEWEST} to {MOST}"
        raise ItemError(f"{found}. Set it with --map k=NAME or --map k==N.")
    key = reading.keys.position(said.parts.get("key"), k or MOST, said.choices)
    if "key" in said.parts and key is None:
        same = sum(unspaced(choice) == unspaced(said.text("key")) for choice in said.choices)
        which = f"names {same} identical choices" if same > 1 else f"names none of {k or MOST} choices"
        raise ItemError(f"the key is {json_kind(said.parts['key'])} that {which}")
    name = as_label(said.text("id"))
    topic = reading.topics.get(said.text("topic"), NOTHING)
    stem = require_text(said.parts["stem"], "the stem") if said.choices and "stem" in said.parts else ""
    return LoggedItem(k, stem, said.choices, key, name, id=name, topic=topic)


def _finite_scores(said: SaidPick) -> list[float]:
    match said.parts.get("scores"):
        case [list(values)] | list(values):
            return [number for value in values if math.isfinite(number := _number(value))]
    return []


def _number(value: object) -> float:
    return float(value) if isinstance(value, bool) else number_or_nan(value)


def _require_agreement(
    correct: object, item: LoggedItem, pick: int | None, scores: tuple[float, ...]
) -> None:
    """Refuse a row that contradicts itself, which means that a column or the key was misread."""
    best = tied_best(scores) if scores else ()
    if best and pick is not None and pick not in best:
        raise ItemError("the pick is not the choice with the best score. Check the mapped columns.")
    if pick_contradicts(right := scored_right(correct), item, pick, plain=True):
        raise ItemError(
            f"the `correct` column says {'right' if right else 'wrong'}, but key and pick imply the opposite. Check the "
            "columns."
        )
