"""Reader of plain tables with a model, key, and pick in each row, or a column of picks for each model.

Columns are those that the user maps, and then those with common names. If two could be the same part, the table is refused.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robustify.base.arrays import tied_best
from robustify.base.errors import DataError, ItemError, UsageError
from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.items.item import FEWEST, MOST
from robustify.items.views import VIEWS, View
from robustify.reading.loaders import rows
from robustify.reading.loaders.columns import choice_columns, usual_names
from robustify.reading.loaders.listed_options import read_choices
from robustify.reading.loaders.loaded import said_columns
from robustify.reading.logs import log
from robustify.reading.logs.prompts import Naming, assumed, naming, whole_number

KIND = "picks"
# Names in one tuple are equivalent. A later tuple is used only if no name of an earlier one exists.
USUAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "model": (("model", "model_name"), ("scorer", "system")),
    "id": (("item", "item_id", "id"), ("question_id", "qid", "uid", "pair_id", "doc_id")),
    "view": (("view", "condition"),),
    "key": (
        ("key", "gold", "answer_key", "answerkey", "gold_index", "correct_answer"),
        ("answer",),
        ("label", "target"),
    ),
    "pick": (("pick", "picked"), ("prediction", "predicted", "pred", "model_answer")),
    "k": (("k", "n_choices", "n_options"),),
    "scores": (("scores", "logprobs", "log_probs", "loglikelihoods"),),
    "correct": (
        ("correct", "is_correct"),
        ("acc", "accuracy"),
        ("exact_match", "em"),
        ("score", "right", "is_right"),
    ),
    "stem": (("stem", "question"), ("query", "prompt")),
    "choices": (("choices", "options"),),
    "topic": (("topic",), ("subject",), ("category", "bank")),
}
PARTS = (*USUAL, "first", "key_is", "passage")
_OF_A_MODEL = "*_picked,*_pick,*_predicted,*_prediction,*_pred"
_LEAST = 1e-12
"""Value that replaces a probability of 0, so that its logarithm is finite."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of a table that hold each model's picks, the other parts, and the choices. The model is "" if all share one.
    A column is `=value` if the value is constant, and may contain `*` for the name of a model."""

    picks: Mapping[log.Name, str]
    parts: Mapping[str, str]
    choices: str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, repr=False)
class _Said(HoldsText):
    """Cells of a row that describe one model's pick. `model` is "" if the row names the model."""

    model: log.Name
    choices: tuple[str, ...]
    parts: Mapping[str, object]

    def text(self, part: str) -> str:
        """Return a part as text, or "" if it is neither text nor a whole number."""
        said = self.parts.get(part)
        number = rows.whole(said)
        return str(said if number is None else number).strip() if isinstance(said, str | int | float) else ""

    @property
    def scores(self) -> list[float]:
        """Finite scores of the choices."""
        match self.parts.get("scores"):
            case [list(values)] | list(values):
                return [number for value in values if math.isfinite(number := log.number_or_nan(value))]
        return []


@dataclass(frozen=True, slots=True)
class _Reading:
    """Rules for reading one table. The number of choices `k` is 0 if it depends on the item with a row's ID. `views` has
    the view of each word in the view column. If `probable` is true, scores are probabilities."""

    keys: Naming
    picks: Naming
    k: int
    views: Mapping[str, View]
    models: Mapping[str, log.Name]
    topics: Mapping[str, log.Name]
    probable: bool


def mapping(pairs: Iterable[str]) -> dict[str, str]:
    """Return the column of each part from `PART=COLUMN` options."""
    return said_columns(pairs, PARTS)


def _read(table_file: log.LogFile, options: log.LogOptions, _: log.ShownBefore) -> log.Log:
    """Read the replies in a table of picks."""
    file, table = table_file.path.name, table_file.table
    columns = _columns(file, table, options)
    made, faults = rows.rows_or_faults(((row, columns) for row in table.rows), _said)
    reading, notes = _reading(file, [one for _, row in made for one in row], columns, options)
    replies, more = rows.rows_or_faults(
        made, lambda row, picks: [_reply(row.line, one, reading) for one in picks]
    )
    return log.Log(
        file=file,
        kind=KIND,
        sha256=table_file.sha256,
        task=log.path_name(re.sub(r"\.[^.]*$", "", file)),
        replies=tuple(reply for _, row in replies for reply in row),
        faults=(*table.faults, *faults, *more),
        notes=tuple(filter(None, notes)),
    )


def _columns(file: str, table: rows.SourceTable, options: log.LogOptions) -> _Columns:
    names, said = list(table.rows[0].cells) if table.rows else [], dict(options.columns)
    if table.layout or not names:
        raise DataError(
            f"{file} contains items without picks; expected logs, or a table with model, key, and pick"
        )
    if "key_is" in said:
        raise UsageError(
            f"{file}: `key_is` is for logs. For a table of picks, use --map first==0 or --map first==1."
        )
    taken: set[str] = set()
    for part, mapped in said.items():
        for one in [] if mapped.startswith("=") else mapped.split(","):
            if not (found := _expanded(one, names)):
                fault = f"--map {part} names a column {one!r} that does not exist"
                raise UsageError(f"{file}: {fault}; {_shown(names)}")
            taken |= {name for _, name in found}
    free = [name for name in names if name not in taken]
    choices = _choices(said.get("choices"), free)
    free = [name for name in free if name not in ((choices,) if isinstance(choices, str) else choices or ())]
    others = [part for part in USUAL if part not in ("choices", "pick")]
    parts = {part: column for part in others if (column := said.get(part) or _usual(file, part, free))}
    free = [name for name in free if name not in parts.values()]
    parts |= {"first": said["first"]} if "first" in said else {}
    picks = _picks(file, names, said.get("pick") or _usual(file, "pick", free) or _OF_A_MODEL)
    if log.NOTHING not in picks and options.model is not None:
        raise UsageError(f"{file}: the columns of picks already name the models. Remove {options.model}=.")
    named = log.NOTHING not in picks or "model" in parts or options.model is not None
    for part in [*(["model"] * (not named)), *(["key"] * ("key" not in parts and not options.keyed))]:
        raise DataError(
            f"{file}: there is no column for the {part}; {_shown(names)}. Use --map {part}=NAME, or --map {part}==VALUE "
            "for a constant value"
            + (", or pass the items with their keys (--data ITEMS)" if part == "key" else "")
        )
    return _Columns(picks, parts, choices)


def _expanded(said: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return a (label, column) pair for each column that a mapping names. The label is the text of `*`, or the column."""
    patterns = [re.escape(one).replace(r"\*", "(.+)") for one in said.split(",")]
    matched = ((name, [m for one in patterns if (m := re.fullmatch(one, name))]) for name in names)
    return [(next((m[1] for m in found if m.groups()), name), name) for name, found in matched if found]


def _choices(said: str | None, names: Sequence[str]) -> str | tuple[str, ...] | None:
    if said is not None:
        return tuple(said.split(",")) if "," in said else said
    series = choice_columns(names)
    return next(iter(usual_names(names, USUAL["choices"])), series[0] if len(series) == 1 else None)


def _usual(file: str, part: str, names: Sequence[str]) -> str | None:
    usual = usual_names(names, USUAL[part])
    if len(usual) > 1:
        both = " and ".join(f"`{name}`" for name in usual)
        raise DataError(
            f"{file}: {both} could each be the {part}. Select one, as in --map {part}={usual[0]}."
        )
    return usual[0] if usual else None


def _picks(file: str, names: Sequence[str], said: str) -> dict[log.Name, str]:
    """Map each model name to its column of picks. If all models share one column, the only name is ""."""
    if not {"*", ","} & set(said):
        return {log.NOTHING: said}
    models = log.columns_of(_expanded(said, names), names)
    if models is None:
        raise DataError(
            f"{file}: some columns of picks are not named after a model; {_shown(names)}. Name each column after its "
            "model, in one word."
        )
    if not models:
        raise DataError(
            f"{file}: no column contains picks; {_shown(names)}; expected a log of lm-eval, Inspect, or lighteval, or a "
            "table of picks. Map its columns with --map model=NAME --map key=NAME --map pick=NAME, or with "
            "--map pick=NAME,NAME for one column per model."
        )
    return models


def _shown(names: Sequence[str]) -> str:
    if known := log.headings(names):
        return f"found the columns {log.listed(names, known, 12)}"
    return f"found {len(names)} columns (names not shown, because they may be item text)"


def _said(row: rows.SourceRow, columns: _Columns) -> list[_Said]:
    """Return one pick for each model of a row."""
    choices = () if columns.choices is None else read_choices(row.cells, columns.choices).texts

    def cell(part: str, column: str) -> object:
        if column.startswith("="):
            return column[1:]
        return [row.cells.get(c) for c in column.split(",")] if part == "scores" else row.cells.get(column)

    return [
        _Said(
            model,
            choices,
            {part: cell(part, c.replace("*", model or "*")) for part, c in columns.parts.items()}
            | {"pick": cell("pick", pick)},
        )
        for model, pick in columns.picks.items()
    ]


def _reading(
    file: str, said: Sequence[_Said], columns: _Columns, options: log.LogOptions
) -> tuple[_Reading, list[str]]:
    views, noted = _views(file, said, columns, options)
    keys = [one.parts.get("key") for one in said if "key" in one.parts]
    picks = [one.parts.get("pick") for one in said]
    by_key, by_pick = naming(file, keys, picks, columns.parts.get("first", ""))
    k, counted = 0, ""
    if columns.choices is None and "k" not in columns.parts and not (options.keyed and "id" in columns.parts):
        k, furthest = (
            max(
                (at + 1 for cell in cells if (at := way.answer(cell, MOST, ())["pick"]) is not None),
                default=0,
            )
            for way, cells in ((by_key, keys), (by_pick, picks))
        )
        if furthest > k or k < FEWEST:
            raise DataError(
                f"{file}: no column contains the number of choices. The keys go up to {k}, and the picks to {furthest}. "
                "Set the number with --map k=NAME or --map k==N."
            )
        counted = (
            f"every item was assumed to have {k} choices, based on the keys (to change this, use --map k==N)"
        )
    scores = [score for one in said for score in one.scores]
    probable = bool(scores) and all(0 <= score <= 1 for score in scores)
    if not probable and any(score > 0 for score in scores):
        raise DataError(
            f"{file}: some scores are above 0 but are not probabilities; expected log-probabilities (at most 0) or "
            "probabilities (0 to 1)"
        )
    models = _models(file, said, columns, options)
    named = [one.text("topic") for one in said]
    topics = log.topics_in(named, each=len(models) or 1)
    reading = _Reading(by_key, by_pick, k, views, models, topics, probable)
    return reading, [noted, counted, *log.topic_notes(named, topics)]


def _models(
    file: str, said: Sequence[_Said], columns: _Columns, options: log.LogOptions
) -> dict[str, log.Name]:
    """Map each model's name in the table to its checked name. The key is "" if the user names one model for all rows."""
    if options.name is not None:
        return {"": options.name}
    if log.NOTHING not in columns.picks:
        return {}
    column = columns.parts.get("model", "=")
    if column.startswith("="):
        return {column[1:].strip(): log.said_name(column[1:].strip())}
    names = [text for one in said if (text := one.text("model"))]
    models = log.names_in(names, (text for one in said for text in (one.parts.get("stem"), *one.choices)))
    if names and not models:
        raise DataError(
            f"{file}: `{column}` does not contain model names: {len(set(names))} different texts in {len(names)} rows; "
            "expected fewer models than rows per model. Use --map model=NAME, or MODEL=FILE."
        )
    return models


def _views(
    file: str, said: Sequence[_Said], columns: _Columns, options: log.LogOptions
) -> tuple[dict[str, View], str]:
    """Return the view that each word in the view column means, and a note. Without such a column, the only word is ""."""
    if "view" not in columns.parts:
        return {"": options.view or "full"}, "" if options.view else assumed("full")
    called: dict[str, View] = {view: view for view in VIEWS}
    called |= {f"no_{options.hidden}": "choices_only", f"with_{options.hidden}": "full"}
    found = {one.text("view"): one.text("view").casefold().replace("-", "_") for one in said}
    words = {word: called[name] for word, name in found.items() if name in called}
    if len(words) < len(found) and (len(found) > 1 or options.view is None):
        raise DataError(
            f"{file}: the view column contains {len(found) - len(words)} unknown values; expected {', '.join(called)}. "
            "Split the table by view and name the view of each file (choices_only:FILE, full:FILE)."
        )
    if options.view is not None and words and set(words.values()) != {options.view}:
        raise UsageError(
            f"{file}: the table has a view column (`{columns.parts['view']}`) that contradicts the view given for this "
            "log. Omit that view."
        )
    return words or dict.fromkeys(found, options.view or "full"), ""


def _reply(line: int, said: _Said, reading: _Reading) -> log.LogReply:
    item = _item(said, reading)
    model = said.model or reading.models.get("") or reading.models.get(said.text("model"))
    if not model:
        raise ItemError("the model name is missing or does not look like a name")
    answer = reading.picks.answer(said.parts.get("pick"), item.k or MOST, item.choices)
    scores = said.scores if len(said.scores) == item.k or not item.k else []
    logs = tuple(math.log(max(score, _LEAST)) if reading.probable else score for score in scores)
    # A row that contradicts itself means that a column or the key was misread.
    if logs and answer["pick"] not in (None, *tied_best(logs)):
        raise ItemError("the pick is not the choice with the best score. Check the mapped columns.")
    if log.pick_contradicts(
        right := log.scored_right(said.parts.get("correct")), item, answer["pick"], plain=True
    ):
        raise ItemError(
            f"the `correct` column says {'right' if right else 'wrong'}, but key and pick imply the opposite. Check the "
            "columns."
        )
    return log.LogReply(line, model, reading.views[said.text("view")], KIND, item, scores=logs, **answer)


def _item(said: _Said, reading: _Reading) -> log.LoggedItem:
    k = len(said.choices) or whole_number(said.text("k")) or reading.k
    if not FEWEST <= k <= MOST and (k or "k" in said.parts):
        found = f"the number of choices is {k}; expected {FEWEST} to {MOST}"
        raise ItemError(f"{found}. Set it with --map k=NAME or --map k==N.")
    key = reading.keys.answer(said.parts.get("key"), k or MOST, said.choices)["pick"]
    if "key" in said.parts and key is None:
        same = sum(unspaced(choice) == unspaced(said.text("key")) for choice in said.choices)
        which = f"names {same} identical choices" if same > 1 else f"names none of {k or MOST} choices"
        raise ItemError(f"the key is {rows.json_kind(said.parts['key'])} that {which}")
    name = log.as_label(said.text("id"))
    topic = reading.topics.get(said.text("topic"), log.NOTHING)
    stem = rows.require_text(said.parts["stem"], "the stem") if said.choices and "stem" in said.parts else ""
    return log.LoggedItem(k, stem, said.choices, key, name, id=name, topic=topic)


READER = log.LogReader(KIND, lambda _: True, _read)
"""Any file can be read as a table, or its columns are refused."""
