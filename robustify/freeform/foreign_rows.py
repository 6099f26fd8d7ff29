"""Rows of other evaluations: questions with an answer, predictions, and passages with their nuggets.

Each is read by the names of its fields, and a row that does not fit is refused with what was expected: nothing is
dropped in silence. A multiple-choice question may have its options in its own text, `(A) ...`; they are then shown.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from robustify.errors import AuthorisationError, DataError
from robustify.freeform.answer_text import plain_text
from robustify.freeform.grade.nuggets import require_distinct
from robustify.freeform.jsonl import read_jsonl, rows_of
from robustify.freeform.questions import convert_item, route, with_options
from robustify.freeform.schema import AnswerRow, FreeItem, Nugget
from robustify.freeform.settings import RUBRICS
from robustify.item import MOST, Item
from robustify.loaders import Source, load
from robustify.loaders.answer_keys import letter_index
from robustify.logs.checked_names import as_name, names_in, topics_in
from robustify.restricted.ids import PREFIX
from robustify.restricted.recognition import require_ordinary_files

Row = Mapping[str, Any]
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "question_id", "item_id", "qid"),
    "item_id": ("question_id", "item_id", "qid", "id"),
    "group": ("qid", "id", "question_id", "item_id"),
    "question": ("question", "query", "prompt"),
    "query": ("query", "question"),
    "answer": ("answer", "gold", "correct", "correct_answer", "reference"),
    "topic": ("topic", "subject", "category", "chapter"),
    "model": ("model", "config", "system"),
    "prediction": ("predicted", "prediction", "text", "response", "output", "answer"),
    "passage": ("passage", "answer", "response", "text"),
    "text": ("text", "nugget"),
    "options": ("options", "choices"),
}
"""The names under which each field is found; the first one that has a value counts."""
_ROWS = (".jsonl", ".json", ".csv")
_KINDS = {**RUBRICS, "multiple_choice": "short_text", "numerical": "numeric", "explain": "explanation"}
_OPTION = re.compile(r"(?:\(([A-J])\)|^[ \t]*([A-J])[.):])[ \t]*(?=\S)", re.MULTILINE)


def _named(row: Row, name: str) -> Any:
    """Return the value of the first field of this meaning that has one, or None."""
    names = _FIELDS.get(name, (name,))
    return next((row[one] for one in names if row.get(one) is not None and row[one] != ""), None)


def _text(row: Row, name: str, default: str | None = None) -> str:
    """Return a field as text; raise `DataError` if it is neither text nor a number, or missing without a default."""
    found = _named(row, name)
    if found is None and default is not None:
        return default
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        was = "no" if found is None else "no text or number as"
        raise DataError(f"{was} {name}; expected one of the fields {', '.join(_FIELDS.get(name, (name,)))}")
    return str(found)


def _list(row: Row, name: str) -> list[Any]:
    """Return the values of a field, a list or an object; none if there is no such field."""
    found = _named(row, name)
    found = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(found, list | None):
        raise DataError(f"{name}: not a list; expected a list in `{name}`")
    return found or []


def _texts(row: Row, name: str) -> tuple[str, ...]:
    return tuple(_text({name: one}, name) for one in _list(row, name))


def _nuggets(row: Row, name: str) -> tuple[Nugget, ...]:
    """Return the nuggets of a row: texts, or objects with `text` and perhaps `id`, `importance` and `reviewed`."""
    made = []
    for i, one in enumerate(_list(row, "nuggets"), start=1):
        fields = one if isinstance(one, dict) else {"text": one}
        importance: Any = _text(fields, "importance", "vital")
        text = " ".join(_text(fields, "text").split())
        reviewed = fields.get("reviewed") is not False
        made.append(Nugget(_text(fields, "id", f"{name}/n{i}"), text, importance, reviewed))
    require_distinct(made)
    return tuple(made)


def _public(row: Row) -> None:
    """Refuse a row of a restricted set, which comes in through its adapter alone."""
    if row.get("restricted") or str(_named(row, "id") or "").startswith(PREFIX):
        raise AuthorisationError(
            "rows: of a restricted set; expected a `free:` block in the config of its adapter"
        )


def read_items(path: Path) -> list[FreeItem]:
    """Return the items of a file: questions with their `answer`, or multiple-choice items in any known layout.

    Raises:
        DataError: rows that are neither.
        AuthorisationError: rows of a restricted set.
    """
    rows = [row.cells for row in rows_of(path).rows] if path.suffix.lower() in _ROWS else []
    chosen = any({"choices", "options"} & row.keys() and "type" not in row for row in rows)
    if rows and not chosen and any({*_FIELDS["answer"]} & row.keys() for row in rows):
        return read_jsonl(path, _question)
    return [convert_item(item, explanations=True) for item in load(Source(path=str(path))).items]


def _require_public(items: Sequence[FreeItem], files: Sequence[Path]) -> None:
    """Refuse rows that are recognised as those of a sensitive set (`AuthorisationError`)."""
    enough = (i.options if 2 <= len(i.options) <= MOST else (i.reference, "another text") for i in items)
    made = [Item(i.id, i.question, choices, 0) for i, choices in zip(items, enough, strict=True)]
    require_ordinary_files("items", made, files)


def read_answers(
    paths: Sequence[Path], items: Sequence[FreeItem], *, restricted: bool = False
) -> Sequence[AnswerRow]:
    """Return rows of question id, prediction and (if there are several) model; raise `DataError` if they are not.

    `restricted`: models are numbered, because any word of a row may belong to the set.
    """
    rows = [row for path in paths for row in read_jsonl(path, _prediction)]
    return _with_names(Rows(items, rows), numbered=restricted).answers


def _prediction(row: Row) -> AnswerRow:
    if not any(name in row for name in _FIELDS["prediction"]):
        raise DataError(f"no prediction; expected one of the fields {', '.join(_FIELDS['prediction'])}")
    name, model, text = _text(row, "item_id"), _text(row, "model", "model"), _text(row, "prediction", "")
    return AnswerRow(name, model, text, finish_reason=_text(row, "finish_reason", "") or None)


@dataclass(frozen=True, slots=True)
class Rows:
    """Questions or queries with answers or passages; `left_out` counts rows by reason."""

    items: Sequence[FreeItem]
    answers: Sequence[AnswerRow]
    left_out: Mapping[str, int] = field(default_factory=dict)


def _with_names(rows: Rows, *, numbered: bool = False) -> Rows:
    """Return rows with `model 1` for a model, and "" for a topic, that may be the text of an item: both are printed."""
    texts = {text.casefold() for i in rows.items for text in (i.question, i.reference, *i.options)}
    texts |= {answer.text.casefold() for answer in rows.answers}
    models = [] if numbered else [answer.model for answer in rows.answers]
    named: dict[str, str] = {**names_in(models, texts)}
    withheld = 0
    for model in dict.fromkeys(answer.model for answer in rows.answers):
        if model not in named and (numbered or as_name(model) is None or model.casefold() in texts):
            withheld += 1
            named[model] = f"model {withheld}"
    topics = topics_in(item.topic for item in rows.items)
    shown = {one: one for one in topics if not any(one.casefold() in text for text in texts) or as_name(one)}
    items = [replace(item, topic=shown.get(item.topic, "")) for item in rows.items]
    answers = [replace(answer, model=named.get(answer.model, answer.model)) for answer in rows.answers]
    return Rows(items, answers, rows.left_out)


def read_rows(paths: Sequence[Path], items_file: Path | None, *, options_shown: bool = False) -> Rows:
    """Return predictions and their questions, which are in a file of their own or in the same rows.

    Raises:
        DataError: rows that do not fit, or two rows of one id with different questions.
        AuthorisationError: rows of a restricted set.
    """
    items: dict[str, FreeItem] = {}

    def read(row: Row) -> AnswerRow:
        answer = _prediction({name: value for name, value in row.items() if name != "answer"})
        item = _question(row)
        if items.setdefault(item.id, item) != item:
            raise DataError("other words or answer than an earlier row of this id; expected the same")
        return replace(answer, item_id=item.id)

    kind = _prediction if items_file else read
    answers = [row for path in paths for row in read_jsonl(path, kind)]
    found = read_items(items_file) if items_file else list(items.values())
    found = [with_options(item) for item in found] if options_shown else found
    _require_public(found, [*paths, *([items_file] if items_file else [])])
    return _with_names(Rows(found, answers))


def _question(row: Row) -> FreeItem:
    _public(row)
    name, question, answer = (_text(row, field) for field in ("id", "question", "answer"))
    kind = _KINDS.get(_text(row, "type", "").casefold().replace("-", "_").replace(" ", "_"))
    common: dict[str, Any] = {
        "unit": _text(row, "unit", "") or None, "topic": _text(row, "topic", ""), "aliases": _texts(row, "aliases"),
        "nuggets": _nuggets(row, name),
    }  # fmt: skip
    given = _texts(row, "options")
    stem, options = (question, given) if given else _options(question)
    if kind != "short_text" and (kind or not options):
        return FreeItem(name, question, kind or route(answer), answer, **common)
    at = _chosen(answer, options)
    if at is None:
        raise DataError(
            f"a multiple-choice question with {len(options)} options whose answer names none;"
            " expected (A) ..., (B) ... in the question, or `options`, and the answer's letter"
        )
    return FreeItem(
        name, stem, "short_text", options[at], options=options, correct=at, options_shown=True, **common
    )


def _chosen(answer: str, options: Sequence[str]) -> int | None:
    """Return the option that an answer names by its letter or by its text."""
    letter = letter_index(answer.strip())
    if letter is not None and letter < len(options):
        return letter
    return next((i for i, option in enumerate(options) if plain_text(option) == plain_text(answer)), None)


def _options(question: str) -> tuple[str, tuple[str, ...]]:
    """Return the stem of a question and the options at the end of its text."""
    marks = list(_OPTION.finditer(question))
    starts = [i for i, mark in enumerate(marks) if (mark[1] or mark[2]) == "A"]
    marks = marks[starts[-1] :] if starts else []
    if len(marks) < 2 or [m[1] or m[2] for m in marks] != list(ascii_uppercase[: len(marks)]):
        return question, ()
    ends = [*(mark.start() for mark in marks[1:]), len(question)]
    texts = [question[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return question[: marks[0].start()].strip(), tuple(texts)


def read_nugget_rows(path: Path) -> Rows:
    """Return rows of query, passage and nuggets: texts, or objects with text and perhaps id and importance.

    Passages of one query and model are drawn together; a row whose nuggets are empty is left out and counted.

    Raises:
        DataError: rows that do not fit, all at once.
        AuthorisationError: rows of a restricted set.
    """
    counts: Counter[tuple[str, str]] = Counter()
    items: dict[str, FreeItem] = {}

    def read(row: Row) -> AnswerRow | None:
        _public(row)
        model = _text(row, "model", "passages")
        group = _text(row, "group", f"row{counts.total() + 1}")
        counts[group, model] += 1
        nth = counts[group, model]
        name = group if nth == 1 else f"{group}#{nth}"
        for needed in ("nuggets", "passage"):
            # A passage that is there and empty states nothing; one that is not there is a fault.
            if not any(known in row for known in _FIELDS.get(needed, (needed,))):
                _text({}, needed)
        nuggets = _nuggets(row, name)
        item = FreeItem(
            name, _text(row, "query"), "explanation", "", nuggets=nuggets, topic=_text(row, "topic", ""), group=group
        )  # fmt: skip
        if nuggets and items.setdefault(name, item) != item:
            raise DataError("other words or nuggets than an earlier row of this query; expected the same")
        return AnswerRow(name, model, _text(row, "passage", "")) if nuggets else None

    rows = read_jsonl(path, read)
    answers = [row for row in rows if row is not None]
    none = len(rows) - len(answers)
    _require_public(list(items.values()), [path])
    return _with_names(Rows(list(items.values()), answers, {"no_nuggets": none} if none else {}))


def with_facts(items: Sequence[FreeItem], path: Path) -> list[FreeItem]:
    """Return the items with the nuggets that rows of `id` and `nuggets` give them; raise `DataError` if they do not fit."""

    facts = dict(read_jsonl(path, lambda row: (name := _text(row, "id"), _nuggets(row, name))))
    strange = len(facts.keys() - {item.id for item in items})
    if strange:
        raise DataError(
            f"{path.name}: nuggets of {strange} ids that no item of this set has; expected its ids"
        )
    return [replace(item, nuggets=facts.get(item.id, item.nuggets)) for item in items]
