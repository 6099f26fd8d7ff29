"""Reader of tables with a model, key, and pick in each row, or with a column of picks for each model.

The rules of `pick_rules` decide which columns hold which part. The whole columns then decide how keys, picks, and views are
written (`_Encoding`), and each row is read by these decisions.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from robustify.base.arrays import tied_best
from robustify.base.errors import DataError, ItemError, Notice, UsageError
from robustify.base.texts import unspaced
from robustify.items.item import FEWEST, MOST
from robustify.items.views import VIEWS, View
from robustify.reading.loaders import rows
from robustify.reading.loaders.loaded import mapped_columns
from robustify.reading.logs import log, stated_scores
from robustify.reading.logs.exchanges import Exchange
from robustify.reading.logs.naming import Naming, decide_naming, whole_number
from robustify.reading.logs.prompts import assumed_view
from robustify.reading.logs.responses import run_on_notes
from robustify.reading.logs.tables.pick_rules import (
    BEST_SCORE,
    CALLED,
    PARTS,
    PickCells,
    PickColumns,
    Profile,
    decide,
    model_columns,
    option_columns,
    pick_cells,
    require_parts,
)
from robustify.reading.marks.picks import runs_on

KIND = "picks"
_LEAST = 1e-12
"""Value that replaces a probability of 0, so that its logarithm is finite."""


@dataclass(frozen=True, slots=True)
class _Encoding:
    """Rules for reading one table. The number of choices `k` is 0 if it depends on the item with a row's ID. `views`
    has the view of each word in the view column. If `probable` is true, scores are probabilities. `targets` are the
    texts of the keys."""

    keys: Naming
    picks: Naming
    k: int
    views: Mapping[str, View]
    models: Mapping[str, log.Name]
    topics: Mapping[str, log.Name]
    probable: bool
    targets: frozenset[object] = frozenset()
    linting: bool = False


def mapping(pairs: Iterable[str]) -> dict[str, str]:
    """Return the column of each part from `PART=COLUMN` options. A part may also be given by a usual name of its column."""
    words = ((pair, pair.partition("=")[0]) for pair in pairs)
    return mapped_columns((CALLED.get(part, part) + pair[len(part) :] for pair, part in words), PARTS)


def _read(table_file: log.LogFile, options: log.LogOptions, _: log.ShownBefore) -> log.Log:
    """Read the replies in a table of picks."""
    file, table = table_file.path.name, table_file.table
    columns = _columns(table, options, file)
    read, faults = rows.rows_or_faults(((row, columns) for row in table.rows), pick_cells)
    encoding, notes = _encoding(file, [pick for _, row in read for pick in row], columns, options)
    replies, more = rows.rows_or_faults(
        read, lambda row, picks: [(pick, _reply(row.line, pick, encoding)) for pick in picks]
    )
    kept = [pair for _, row in replies for pair in row]
    return log.Log(
        file=file,
        kind=KIND,
        sha256=table_file.sha256,
        task=log.path_name(re.sub(r"\.[^.]*$", "", file)),
        replies=tuple(reply for _, reply in kept),
        faults=(*table.faults, *faults, *more),
        notes=(*notes, *_run_on_notes(read), *_score_notes(columns), *_stricter_notes(kept)),
        exchanges={(reply.line, reply.model): _exchange(cells, reply, encoding) for cells, reply in kept}
        if options.linting
        else {},
    )


def _run_on_notes(read: Sequence[tuple[rows.SourceRow, Sequence[PickCells]]]) -> list[Notice]:
    cells = (
        (cells_of_pick.parts.get("pick"), cells_of_pick.choices) for _, row in read for cells_of_pick in row
    )
    return run_on_notes(sum(isinstance(pick, str) and runs_on(pick, choices) for pick, choices in cells))


def _stricter_notes(kept: Iterable[tuple[PickCells, log.LogReply]]) -> list[Notice]:
    scored = ((stated_scores.scored_right(cells.parts.get("correct")), reply) for cells, reply in kept)
    return stated_scores.stricter_notes(
        sum(stated_scores.is_stricter(right, reply.item, reply.pick) for right, reply in scored)
    )


def _score_notes(columns: PickColumns) -> list[Notice]:
    best = "the option with the best score is the pick, because no column contains picks"
    return [Notice(best, code="best-score-picked")] * (columns.picks.get(log.NOTHING) == BEST_SCORE)


def _columns(table: rows.SourceTable, options: log.LogOptions, file: str) -> PickColumns:
    if table.layout or not table.rows or not table.rows[0].cells:
        raise DataError(
            f"{file} contains items without picks; expected {log.READABLE}", code="items-without-picks"
        )
    if "key_is" in options.columns:
        raise UsageError(
            f"{file}: `key_is` is for logs. For a table of picks, use --map first==0 or --map first==1.",
            code="key-form-of-picks",
        )
    profile = Profile.from_table(file, table)
    decided = decide(profile, options.columns)
    several = bool({"*", ","} & set(decided.parts.get("pick", "")))
    if several and options.model is not None:
        raise UsageError(
            f"{file}: the columns of picks already name the models. Remove {options.model}=.",
            code="models-named-twice",
        )
    require_parts(decided, has_models=several or options.model is not None, keyed=options.keyed)
    parts = {part: column for part, column in decided.parts.items() if part not in ("choices", "pick")}
    parts |= {"first": options.columns["first"]} if "first" in options.columns else {}
    return PickColumns(model_columns(profile, decided.parts["pick"]), parts, option_columns(decided))


def has_all_parts(file: log.LogFile) -> bool:
    """Return whether a table has columns with usual names for the model, the key, and the pick. Raise `DataError` if
    several could be one of them."""
    if file.table.layout or not file.table.rows:
        return False
    profile = Profile.from_table(file.path.name, file.table)
    return {"model", "key", "pick"} <= decide(profile, {}).parts.keys()


def _encoding(
    file: str, picks: Sequence[PickCells], columns: PickColumns, options: log.LogOptions
) -> tuple[_Encoding, list[Notice]]:
    """Decide how a table is written, from whole columns. Return the assumptions as notes, too."""
    views, view_notes = _views(file, picks, columns, options)
    keys = [pick.parts.get("key") for pick in picks if "key" in pick.parts]
    by_key, by_pick = decide_naming(
        file, keys, [pick.parts.get("pick") for pick in picks], columns.parts.get("first", "")
    )
    case = _Counting(file, picks, columns, options.keyed, by_key, by_pick)
    k, k_notes = next(number for rule in NUMBER_RULES if (number := rule.find(case)) is not None)
    scores = [score for pick in picks for score in pick.scores]
    probable = bool(scores) and all(0 <= score <= 1 for score in scores)
    if not probable and any(score > 0 for score in scores):
        raise DataError(
            f"{file}: some scores are above 0 but are not probabilities; expected log-probabilities (at most 0) or "
            "probabilities (0 to 1)",
            code="positive-scores",
        )
    models = _models(file, picks, columns, options)
    cells = [pick.text("topic") for pick in picks]
    topics = log.topics_in(cells, each=len(models) or 1)
    targets = frozenset(key for key in keys if isinstance(key, str))
    encoding = _Encoding(by_key, by_pick, k, views, models, topics, probable, targets, options.linting)
    return encoding, [*view_notes, *k_notes, *log.topic_notes(cells, topics)]


class _Counting(NamedTuple):
    """Clues to the number of choices of a table's items. The keys of `keyed` tables are in another file."""

    file: str
    picks: Sequence[PickCells]
    columns: PickColumns
    keyed: bool
    by_key: Naming
    by_pick: Naming

    @property
    def lengths(self) -> set[int]:
        """Distinct numbers of scores per row, among the rows with scores."""
        return {len(scores) for pick in self.picks if (scores := pick.scores)}


class NumberRule(NamedTuple):
    """Rule that finds the number of choices of all items (0 if each row states its own number), with notes. `find`
    returns None if the rule does not apply."""

    name: str
    reason: str
    find: Callable[[_Counting], tuple[int, list[Notice]] | None]


def _by_scores(case: _Counting) -> tuple[int, list[Notice]] | None:
    lengths = case.lengths
    return (lengths.pop(), []) if len(lengths) == 1 else None


def _by_rows(case: _Counting) -> tuple[int, list[Notice]] | None:
    parts = case.columns.parts
    by_row = case.lengths or case.columns.choices or "k" in parts or (case.keyed and "id" in parts)
    return (0, []) if by_row else None


def _largest_key(case: _Counting) -> tuple[int, list[Notice]]:
    """Return the number of choices that the largest key implies, and a note. Raise `DataError` if a pick is larger."""
    k, furthest = (
        max(
            (
                index + 1
                for pick in case.picks
                if (index := column.answer(pick.parts.get(part), MOST, ()).pick) is not None
            ),
            default=0,
        )
        for column, part in ((case.by_key, "key"), (case.by_pick, "pick"))
    )
    if furthest > k or k < FEWEST:
        raise DataError(
            f"{case.file}: no column contains the number of choices. The keys go up to {k}, and the picks to {furthest}. "
            "Set the number with --map k=NAME or --map k==N.",
            code="unknown-number-of-options",
        )
    note = f"every item was assumed to have {k} choices, based on the keys (to change this, use --map k==N)"
    return k, [Notice(note, code="assumed-number-of-options")]


NUMBER_RULES = (
    NumberRule("scores", "all rows have equally many scores, one per choice", _by_scores),
    NumberRule(
        "rows", "the scores, options, number, or item of each row show the number of choices", _by_rows
    ),
    NumberRule(
        "keys",
        "nothing shows the number of choices, so the highest key is taken for the last choice",
        _largest_key,
    ),
)
"""In order. The last one always applies, or refuses the table."""


def _models(
    file: str, picks: Sequence[PickCells], columns: PickColumns, options: log.LogOptions
) -> dict[str, log.Name]:
    """Map each model name in the table to a checked name. The key is "" if the user names one model for all rows."""
    if options.name is not None:
        return {"": options.name}
    if log.NOTHING not in columns.picks:
        return {}
    column = columns.parts.get("model", "=")
    if column.startswith("="):
        return {column[1:].strip(): log.checked_model_name(column[1:].strip())}
    names = [text for pick in picks if (text := pick.text("model"))]
    models = log.names_in(names, (text for pick in picks for text in (pick.parts.get("stem"), *pick.choices)))
    if names and not models:
        raise DataError(
            f"{file}: `{column}` has too many different texts for model names ({len(set(names))} in {len(names)} rows). "
            "Use --map model=NAME, or MODEL=FILE.",
            code="not-model-names",
        )
    return models


def _views(
    file: str, picks: Sequence[PickCells], columns: PickColumns, options: log.LogOptions
) -> tuple[dict[str, View], list[Notice]]:
    """Return the view of each word in the view column, and notes. Without such a column, the only word is ""."""
    if "view" not in columns.parts:
        notes = [] if options.view else [Notice(assumed_view("full"), code="assumed-view")]
        return {"": options.view or "full"}, notes
    views_by_word: dict[str, View] = {view: view for view in VIEWS}
    views_by_word |= {f"no_{options.hidden}": "choices_only", f"with_{options.hidden}": "full"}
    values = {pick.text("view"): pick.text("view").casefold().replace("-", "_") for pick in picks}
    words = {word: views_by_word[name] for word, name in values.items() if name in views_by_word}
    if len(words) < len(values) and (len(values) > 1 or options.view is None):
        raise DataError(
            f"{file}: the view column contains {len(values) - len(words)} unknown values; expected "
            f"{', '.join(views_by_word)}. Split the table by view and name the view of each file "
            "(choices_only:FILE, full:FILE).",
            code="unknown-views",
        )
    if options.view is not None and words and set(words.values()) != {options.view}:
        raise UsageError(
            f"{file}: the table has a view column (`{columns.parts['view']}`) that contradicts the view given for this "
            "log. Omit that view.",
            code="contradicted-view",
        )
    return words or dict.fromkeys(values, options.view or "full"), []


def _reply(line: int, cells: PickCells, encoding: _Encoding) -> log.LogReply:
    item = _item(cells, encoding)
    model = cells.model or encoding.models.get("") or encoding.models.get(cells.text("model"))
    if not model:
        raise ItemError(
            "the model name is missing or does not look like a name. Name the model of all rows with --map model==NAME, or "
            "set such rows aside with --skip-bad.",
            code="no-model-name",
        )
    pick, scores = cells.parts.get("pick"), cells.scores
    named = encoding.picks.answer(pick, item.k or MOST, item.choices)
    if scores and item.k not in (0, len(scores)):
        raise ItemError(
            f"{len(scores)} scores for {item.k} choices; expected one per choice",
            code="other-number-of-scores",
        )
    if not all(map(math.isfinite, scores)):
        raise ItemError(
            "a score is not a finite number. Write one number per choice, or leave the cell empty.",
            code="not-finite-score",
        )
    logs = tuple(math.log(max(score, _LEAST)) if encoding.probable else score for score in scores)
    # A row that contradicts itself means that a column or the key was misread.
    if logs and named.pick not in (None, *tied_best(logs)):
        raise ItemError(
            "the pick is not the choice with the best score. Check the mapped columns.",
            code="pick-against-scores",
        )
    right = stated_scores.scored_right(cells.parts.get("correct"))
    if isinstance(pick, str) and runs_on(pick, item.choices):
        # The table may have scored the answer to another question.
        right = None
    if not encoding.linting and _contradicts(right, item, named.pick, logs, plain=_is_plain(pick, encoding)):
        raise ItemError(
            f"the `correct` column says {'right' if right else 'wrong'}, but key and pick imply the opposite. Check the "
            "columns.",
            code="contradicted-key",
        )
    view = encoding.views[cells.text("view")]
    return log.LogReply(line, model, view, KIND, item, named.pick, logs, reason=named.reason)


def _is_plain(pick: object, encoding: _Encoding) -> bool:
    """Return whether a comparison of texts would find a right pick, because picks are written like the keys."""
    return not isinstance(pick, str) or pick in encoding.targets or not encoding.targets


def _contradicts(
    right: bool | None, item: log.LoggedItem, pick: int | None, logs: tuple[float, ...], *, plain: bool
) -> bool:
    """Return whether the column of scores contradicts the key and the pick (or, without a pick, the best score)."""
    if pick is None:
        return stated_scores.score_contradicts(right, item.key, [logs])
    return stated_scores.pick_contradicts(right, item, pick, plain=plain)


def _exchange(cells: PickCells, reply: log.LogReply, encoding: _Encoding) -> Exchange:
    """Return the part of a row about one model's reply. A table has no prompts."""
    pick, right = cells.parts.get("pick"), stated_scores.scored_right(cells.parts.get("correct"))
    text = pick if isinstance(pick, str) else ""
    right = None if runs_on(text, reply.item.choices) else right
    return Exchange(
        texts=(text,) * bool(text),
        extracted=text,
        rightness={} if right is None else {"correct": right},
        contradicts=_contradicts(
            right, reply.item, reply.pick, reply.scores, plain=_is_plain(pick, encoding)
        ),
    )


def _item(cells: PickCells, encoding: _Encoding) -> log.LoggedItem:
    choices, key = cells.choices, cells.parts.get("key")
    k = len(choices) or whole_number(cells.text("k")) or encoding.k or len(cells.scores)
    if not FEWEST <= k <= MOST and (k or "k" in cells.parts):
        fault = f"the number of choices is {k}; expected {FEWEST} to {MOST}"
        raise ItemError(f"{fault}. Set it with --map k=NAME or --map k==N.", code="invalid-number-of-options")
    place = encoding.keys.answer(key, k or MOST, choices).pick
    if "key" in cells.parts and place is None:
        same = sum(unspaced(choice) == unspaced(cells.text("key")) for choice in choices)
        kind = rows.json_kind(key)
        if same > 1:
            raise ItemError(
                f"the key is {kind} that names {same} identical choices", code="key-of-identical-choices"
            )
        raise ItemError(
            f"the key is {kind} that names no choice; expected one of {k or MOST}", code="key-of-no-choice"
        )
    name = log.as_label(cells.text("id"))
    topic = encoding.topics.get(cells.text("topic"), log.NOTHING)
    stem = rows.require_text(cells.parts["stem"], "the stem") if choices and "stem" in cells.parts else ""
    return log.LoggedItem(k, stem, choices, place, name, id=name, topic=topic)


READER = log.LogReader(KIND, lambda _: True, _read)
"""Any file can be read as a table, or its columns are refused."""
