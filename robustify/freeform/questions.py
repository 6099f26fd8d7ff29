"""Build open-ended questions from items, or read them with their answers from rows of other evaluations.

Rows are read by the names of their fields, and a row that does not fit is an error. A multiple-choice question may contain
its options, such as `(A) ...`. They are then shown to the model.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from robustify.base.compressed import plain_path
from robustify.base.errors import AuthorisationError, DataError
from robustify.base.key_file import ID_PREFIX
from robustify.freeform.grade.numbers import whole_quantity
from robustify.freeform.grade.text_rules import plain_words
from robustify.freeform.schema import AnswerRow, FreeItem, Nugget
from robustify.items.item import MOST, Item
from robustify.judging.cloze import exclusion
from robustify.pipeline.free_settings import RUBRICS, Kind
from robustify.reading.columns import NAMES, first_value
from robustify.reading.guard import Guard
from robustify.reading.jsonl import read_jsonl, rows_of
from robustify.reading.loaders import Source, load
from robustify.reading.logs.log import as_name, names_in, topics_in
from robustify.reading.marks.labelling import cut_at_labels
from robustify.reading.marks.picks import NoPick, read_pick

Row = Mapping[str, Any]
_ROWS = (".jsonl", ".json", ".csv")
_KINDS = {**RUBRICS, "multiple_choice": "short_text", "numerical": "numeric", "explain": "explanation"}


def _value(row: Row, name: str) -> Any:
    return first_value(row, f"free.{name}")


def _names(name: str) -> tuple[str, ...]:
    return tuple(field_name for rank in NAMES[f"free.{name}"] for field_name in rank)


def _text(row: Row, name: str, default: str | None = None) -> str:
    value = _value(row, name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        fault = "is missing" if value is None else "is neither text nor a number"
        line = f"The field `{name}` {fault}. Expected one of the fields {', '.join(_names(name))}."
        raise DataError(line, code="missing-field" if value is None else "unfit-field")
    return str(value)


def _maybe_empty(row: Row, name: str) -> str:
    return _text(row, name, "" if row.keys() & {*_names(name)} else None)


def _list(row: Row, name: str) -> list[Any]:
    value = _value(row, name)
    value = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(value, list | None):
        raise DataError(
            f"The field `{name}` is not a list. Write its values as a list.", code="field-not-a-list"
        )
    return value or []


def _nuggets(row: Row, name: str) -> tuple[Nugget, ...]:
    nuggets = []
    for i, nugget in enumerate(_list(row, "nuggets"), start=1):
        fields = nugget if isinstance(nugget, dict) else {"text": nugget}
        importance: Any = _text(fields, "importance", "vital")
        text = " ".join(_text(fields, "text").split())
        nuggets.append(Nugget(_text(fields, "id", f"{name}/n{i}"), text, importance))
    if min(
        len({plain_words(nugget.text) for nugget in nuggets}), len({nugget.id for nugget in nuggets})
    ) < len(nuggets):
        fault = f"Two of {len(nuggets)} nuggets repeat words or an ID"
        raise DataError(f"{fault}. State each fact once, with its own ID.", code="repeated-nugget")
    return tuple(nuggets)


def _add(items: dict[str, FreeItem], item: FreeItem, what: str) -> None:
    if items.setdefault(item.id, item) != item:
        fault = f"The {what} from an earlier row with this ID. Use the same text, or a new ID."
        raise DataError(fault, code="conflicting-rows")


def _refuse_restricted(row: Row) -> None:
    if row.get("restricted") or str(_value(row, "id") or "").startswith(ID_PREFIX):
        mend = "Add a `free:` block to the config of its adapter instead."
        raise AuthorisationError(
            f"The rows belong to a restricted set. {mend}", code="rows-of-restricted-set"
        )


def read_items(path: Path, guard: Guard) -> list[FreeItem]:
    """Read questions with an `answer`, or multiple-choice items in any known layout."""
    rows = [row.cells for row in rows_of(path).rows] if plain_path(path).suffix.lower() in _ROWS else []
    chosen = any({*_names("options")} & row.keys() and "type" not in row for row in rows)
    if rows and not chosen and any({*_names("answer")} & row.keys() for row in rows):
        return read_jsonl(path, _question)
    return [convert_item(item, explanations=True) for item in load(Source(path=str(path)), guard).items]


@dataclass(frozen=True, slots=True)
class AnsweredItems:
    """Questions, and the answers (or, for nuggets, the passages) to grade. `left_out` counts the skipped rows by reason."""

    items: Sequence[FreeItem]
    answers: Sequence[AnswerRow]
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_predictions(
    paths: Sequence[Path], items: Sequence[FreeItem], *, restricted: bool = False
) -> Sequence[AnswerRow]:
    """Read predictions with question IDs and model names. With `restricted`, models are numbered, because any word of a row
    may be text of the set."""
    rows = [row for path in paths for row in read_jsonl(path, _prediction)]
    return _with_safe_names(AnsweredItems(items, rows), numbered=restricted).answers


def _prediction(row: Row) -> AnswerRow:
    text, finish = _maybe_empty(row, "prediction"), _text(row, "finish_reason", "") or None
    return AnswerRow(_text(row, "item_id"), _text(row, "model", "model"), text, finish_reason=finish)


def _public(rows: AnsweredItems, files: Sequence[Path], guard: Guard) -> AnsweredItems:
    enough = (i.options if 2 <= len(i.options) <= MOST else (i.reference, "another text") for i in rows.items)
    as_items = [Item(i.id, i.question, choices, 0) for i, choices in zip(rows.items, enough, strict=True)]
    guard.require_ordinary_files("items", as_items, files)
    return _with_safe_names(rows)


def _with_safe_names(rows: AnsweredItems, *, numbered: bool = False) -> AnsweredItems:
    """Replace names that may be item text: models become `model 1` and so on, and topics become ""."""
    texts = {text.casefold() for i in rows.items for text in (i.question, i.reference, *i.options)}
    texts |= {answer.text.casefold() for answer in rows.answers}
    models = [answer.model for answer in rows.answers]
    words = [model for model in models if as_name(model) and model.casefold() not in texts]
    safe_names: dict[str, str] = (
        {} if numbered else {**names_in(models, texts), **{word: word for word in words}}
    )
    withheld = [model for model in dict.fromkeys(models) if model not in safe_names]
    safe_names |= {model: f"model {n}" for n, model in enumerate(withheld, start=1)}
    topics = topics_in(item.topic for item in rows.items)
    kept = {
        topic for topic in topics if as_name(topic) or not any(topic.casefold() in text for text in texts)
    }
    items = [replace(item, topic=item.topic if item.topic in kept else "") for item in rows.items]
    answers = [replace(answer, model=safe_names[answer.model]) for answer in rows.answers]
    return AnsweredItems(items, answers, rows.left_out)


def read_rows(
    paths: Sequence[Path], items_file: Path | None, guard: Guard, *, options_shown: bool = False
) -> AnsweredItems:
    """Read predictions and their questions, which are in a file of items or in the same rows. Raise `DataError` for an
    invalid row, and `AuthorisationError` if a row belongs to a restricted set."""
    items: dict[str, FreeItem] = {}

    def read(row: Row) -> AnswerRow:
        answer = _prediction({name: value for name, value in row.items() if name != "answer"})
        item = _question(row)
        _add(items, item, "question or answer differs")
        return replace(answer, item_id=item.id)

    answers = [row for path in paths for row in read_jsonl(path, _prediction if items_file else read)]
    questions = read_items(items_file, guard) if items_file else list(items.values())
    questions = [with_options(item) for item in questions] if options_shown else questions
    return _public(AnsweredItems(questions, answers), [*paths, *([items_file] if items_file else [])], guard)


def _question(row: Row) -> FreeItem:
    _refuse_restricted(row)
    name, question, answer = (_text(row, field) for field in ("id", "question", "answer"))
    kind = _KINDS.get(_text(row, "type", "").casefold().replace("-", "_").replace(" ", "_"))
    common: dict[str, Any] = {
        "unit": _text(row, "unit", "") or None, "topic": _text(row, "topic", ""), "nuggets": _nuggets(row, name),
        "aliases": tuple(_text({"aliases": entry}, "aliases") for entry in _list(row, "aliases")),
    }  # fmt: skip
    listed_options = tuple(_text({"options": entry}, "options") for entry in _list(row, "options"))
    listed = None if listed_options else cut_at_labels(question)
    if listed and kind != "short_text" and (listed.labels[0].islower() or listed.labels[0].isnumeric()):
        # Steps and parts of an open question are numbered so.
        listed = None
    stem, options = (listed.before, listed.texts) if listed else (question, listed_options)
    if kind != "short_text" and (kind or not options):
        return FreeItem(name, question, kind or route(answer), answer, **common)
    chosen = read_pick(answer, options)
    if isinstance(chosen, NoPick):
        raise DataError(
            f"The answer names none of the {len(options)} options ({chosen.reason}). Write options as (A) ..., (B) ... "
            "in the question or in `options`, and give the letter or text of one option as the answer.",
            code="answer-names-no-option",
        )
    common |= {"options": options, "correct": chosen.index, "options_shown": True}
    return FreeItem(name, stem, "short_text", options[chosen.index], **common)


def read_nugget_rows(path: Path, guard: Guard) -> AnsweredItems:
    """Read queries, passages, and nuggets. A nugget is a text, or an object with a text and optional ID and importance.
    Passages of the same query form a group. Passages without nuggets are counted in `left_out`."""
    counts: Counter[tuple[str, str]] = Counter()
    items: dict[str, FreeItem] = {}

    def read(row: Row) -> AnswerRow | None:
        _refuse_restricted(row)
        model, group = _text(row, "model", "passages"), _text(row, "group", f"row{counts.total() + 1}")
        counts[group, model] += 1
        nth = counts[group, model]
        name = group if nth == 1 else f"{group}#{nth}"
        if "nuggets" not in row:
            _text(row, "nuggets")
        query, topic, nuggets = _text(row, "query"), _text(row, "topic", ""), _nuggets(row, name)
        # An empty passage supports no nugget, but a missing passage is an error.
        answer = AnswerRow(name, model, _maybe_empty(row, "passage"))
        if not nuggets:
            return None
        item = FreeItem(name, query, "explanation", "", nuggets=nuggets, topic=topic, group=group)
        _add(items, item, "query or nuggets differ")
        return answer

    rows = read_jsonl(path, read)
    answers = [row for row in rows if row is not None]
    none = len(rows) - len(answers)
    return _public(
        AnsweredItems(list(items.values()), answers, {"no_nuggets": none} if none else {}), [path], guard
    )


def with_facts(items: Sequence[FreeItem], path: Path) -> list[FreeItem]:
    """Attach the nuggets in a file to the items with the same ID."""
    facts = dict(read_jsonl(path, lambda row: (name := _text(row, "id"), _nuggets(row, name))))
    if unknown := len(facts.keys() - {item.id for item in items}):
        fault = f"{path.name} has {unknown} unknown item IDs. Remove these IDs, or add their items."
        raise DataError(fault, code="unknown-item-ids")
    return [replace(item, nuggets=facts.get(item.id, item.nuggets)) for item in items]


# Items of a run

MIDDLE = 12
"""Longest key of a short text, in words."""


def convert_item(item: Item, *, explanations: bool = False, options_shown: bool = False) -> FreeItem:
    """Convert an item to an open-ended question. If the question cannot be asked, record the reason.

    With `explanations`, items whose key is longer than 12 words are also asked. Otherwise they are excluded as
    `long_answer`, because comparison cannot decide a long text. With `options_shown`, every item is asked by letter.
    """
    key = item.choices[item.key]
    reference = " ".join(key.split())
    kind = route(reference)
    # The reasons are those of the strict cloze profile, but only the words of the key matter for a free answer.
    reason = exclusion(Item(item.id, item.stem, (key, "another text"), 0), "strict")
    if reason in (None, "long_answer"):
        reason = "long_answer" if kind == "explanation" and not explanations else ""
    free = FreeItem(
        item.id, item.stem, kind, reference, options=item.choices, correct=item.key, topic=item.topic, group=item.group,
        excluded_reason=str(reason),
    )  # fmt: skip
    return with_options(free) if options_shown else free


def with_options(item: FreeItem) -> FreeItem:
    """Return the item with its options shown. An item without options is unchanged."""
    if item.correct is None:
        return item
    return replace(item, kind="short_text", options_shown=True, excluded_reason="")


def route(reference: str) -> Kind:
    """Return the kind of question that has this reference answer: numeric, short text, or explanation."""
    if whole_quantity(reference) is not None:
        return "numeric"
    return "short_text" if len(reference.split()) <= MIDDLE else "explanation"
