"""Rows of other evaluations: questions with a type and an answer, predictions, and passages with their nuggets.

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
from robustify.restricted.ids import PREFIX
from robustify.restricted.recognition import require_ordinary_files

Row = Mapping[str, Any]
_IDS = ("id", "question_id", "item_id", "qid")
_QUESTIONS = ("question", "query", "prompt")
_ANSWERS = ("answer", "gold", "correct", "correct_answer", "reference")
_TOPICS = ("topic", "subject", "category", "chapter")
_MODELS = ("model", "config", "system")
_PREDICTED = ("predicted", "prediction", "text", "response", "output")
_TEXTS = (*_PREDICTED, "answer")
_PASSAGES = ("passage", "answer", "response", "text")
_ROWS = (".jsonl", ".json", ".csv")
_KINDS = {**RUBRICS, "multiple_choice": "short_text", "numerical": "numeric", "explain": "explanation"}
_OPTION = re.compile(r"(?:\(([A-J])\)|^[ \t]*([A-J])[.):])[ \t]*(?=\S)", re.MULTILINE)


def read_items(path: Path) -> list[FreeItem]:
    """Return the items of a file: questions with their `answer`, or multiple-choice items in any known layout.

    Raises:
        DataError: rows that are neither.
        AuthorisationError: rows of a restricted set.
    """
    rows = [row for row in rows_of(path) if isinstance(row, dict)] if path.suffix.lower() in _ROWS else []
    chosen = any({"choices", "options"} & row.keys() and "type" not in row for row in rows)
    if rows and not chosen and any({*_ANSWERS} & row.keys() for row in rows):
        return read_jsonl(path, _question)
    items = [convert_item(item, explanations=True) for item in load(Source(path=str(path))).items]
    return with_facts(items, path) if any(row.get("nuggets") for row in rows) else items


def _require_public(items: Sequence[FreeItem], files: Sequence[Path]) -> None:
    """Refuse rows that are recognised as those of a sensitive set (`AuthorisationError`)."""
    enough = (i.options if 2 <= len(i.options) <= MOST else (i.reference, "another text") for i in items)
    made = [Item(i.id, i.question, choices, 0) for i, choices in zip(items, enough, strict=True)]
    require_ordinary_files("items", made, files)


def read_answers(path: Path) -> list[AnswerRow]:
    """Return rows of question id, prediction and (if there are several) model; raise `DataError` if they are not."""
    return read_jsonl(path, _prediction)


@dataclass(frozen=True, slots=True)
class Rows:
    """Questions or queries with answers or passages; `left_out` counts rows by reason."""

    items: Sequence[FreeItem]
    answers: Sequence[AnswerRow]
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_rows(paths: Sequence[Path], items_file: Path | None, *, options_shown: bool = False) -> Rows:
    """Return predictions and their questions, which are in a file of their own or in the same rows.

    Raises:
        DataError: rows that do not fit, or two rows of one id with different questions.
        AuthorisationError: rows of a restricted set.
    """
    items: dict[str, FreeItem] = {}

    def read(row: Row) -> AnswerRow:
        if not {*_PREDICTED} & row.keys():
            raise DataError(
                f"no prediction; expected one of the fields {', '.join(_PREDICTED)} beside the answer"
            )
        item = _question(row)
        if items.setdefault(item.id, item) != item:
            raise DataError(f"question {item.id}: other words or answer than before; expected the same")
        return _prediction(row)

    answers = [
        row for path in paths for row in (read_answers(path) if items_file else read_jsonl(path, read))
    ]
    found = read_items(items_file) if items_file else list(items.values())
    found = [with_options(item) for item in found] if options_shown else found
    _require_public(found, [*paths, *([items_file] if items_file else [])])
    return Rows(found, answers)


def _named(row: Row, names: Sequence[str]) -> Any:
    """Return the value of the first of these fields that has one, or None."""
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _text(row: Row, names: Sequence[str], what: str) -> str:
    found = _named(row, names)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise DataError(f"no {what}; expected one of the fields {', '.join(names)} (found {len(row)} others)")
    return str(found)


def _public(row: Row) -> None:
    """Refuse a row of a restricted set, which comes in through its adapter alone."""
    if row.get("restricted") or str(_named(row, _IDS) or "").startswith(PREFIX):
        raise AuthorisationError(
            "rows: of a restricted set; expected a `free:` block in the config of its adapter"
        )


def _question(row: Row) -> FreeItem:
    _public(row)
    name, question = _text(row, _IDS, "id"), _text(row, _QUESTIONS, "question")
    answer = _text(row, _ANSWERS, "answer")
    kind = _KINDS.get(str(row.get("type") or "").casefold().replace("-", "_").replace(" ", "_"))
    nuggets = tuple(_nugget(one, f"{name}/n{i}") for i, one in enumerate(row.get("nuggets") or (), start=1))
    common: dict[str, Any] = {
        "unit": row.get("unit") or None, "topic": str(_named(row, _TOPICS) or ""),
        "aliases": tuple(map(str, row.get("aliases") or ())), "nuggets": nuggets,
    }  # fmt: skip
    stem, options = _options(question, row)
    if kind == "short_text" or (options and kind is None):
        at = _chosen(answer, options)
        if at is None:
            raise DataError(
                f"question {name}: a multiple-choice question with {len(options)} options whose answer names none;"
                " expected (A) ..., (B) ... in the question, or `options`, and the answer's letter"
            )
        return FreeItem(
            name, stem, "short_text", options[at], options=options, correct=at, options_shown=True, **common
        )
    return FreeItem(name, question, kind or route(answer), answer, **common)


def _chosen(answer: str, options: Sequence[str]) -> int | None:
    """Return the option that an answer names by its letter or by its text."""
    letter = answer.strip().strip("().").upper()
    if len(letter) == 1 and letter in ascii_uppercase[: len(options)]:
        return ascii_uppercase.index(letter)
    return next((i for i, option in enumerate(options) if plain_text(option) == plain_text(answer)), None)


def _options(question: str, row: Row) -> tuple[str, tuple[str, ...]]:
    """Return the stem of a question and its options, from their own field or from the end of its text."""
    given = row.get("options") or row.get("choices")
    if given:
        return question, tuple(map(str, given.values() if isinstance(given, dict) else given))
    marks = list(_OPTION.finditer(question))
    starts = [i for i, mark in enumerate(marks) if (mark[1] or mark[2]) == "A"]
    marks = marks[starts[-1] :] if starts else []
    if len(marks) < 2 or [m[1] or m[2] for m in marks] != list(ascii_uppercase[: len(marks)]):
        return question, ()
    ends = [*(mark.start() for mark in marks[1:]), len(question)]
    texts = [question[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return question[: marks[0].start()].strip(), tuple(texts)


def _prediction(row: Row) -> AnswerRow:
    names = [name for name in _TEXTS if name in row]
    if not names:
        raise DataError(f"no prediction; expected one of the fields {', '.join(_TEXTS)}")
    finish = row.get("finish_reason") or None
    text, model = row[names[0]], str(_named(row, _MODELS) or "model")
    name = _text(row, _IDS[1:] + _IDS[:1], "question id")
    return AnswerRow(name, model, str(text or ""), finish_reason=finish)


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
        item, answer = _nugget_row(row, counts)
        if item.nuggets and items.setdefault(item.id, item) != item:
            raise DataError(f"query {item.id}: other words or nuggets for another model; expected the same")
        return answer if item.nuggets else None

    rows = read_jsonl(path, read)
    answers = [row for row in rows if row is not None]
    none = len(rows) - len(answers)
    _require_public(list(items.values()), [path])
    return Rows(list(items.values()), answers, {"no_nuggets": none} if none else {})


def _nugget_row(row: Row, counts: "Counter[tuple[str, str]]") -> tuple[FreeItem, AnswerRow]:
    _public(row)
    model = str(_named(row, _MODELS) or "passages")
    group = str(_named(row, ("qid", *_IDS)) or f"row{counts.total() + 1}")
    counts[group, model] += 1
    given = row.get("nuggets")
    if not isinstance(given, list):
        raise DataError("nuggets: missing or not a list; expected texts, or objects with `text`")
    name = group if counts[group, model] == 1 else f"{group}#{counts[group, model]}"
    nuggets = tuple(_nugget(one, f"{name}/n{i}") for i, one in enumerate(given, start=1))
    require_distinct(nuggets)
    query = _text(row, ("query", "question"), "query")
    item = FreeItem(
        name, query, "explanation", "", nuggets=nuggets, topic=str(_named(row, _TOPICS) or ""), group=group
    )
    # A passage that is there and empty states nothing; one that is not there is a fault.
    empty = any(row.get(name) == "" for name in _PASSAGES) and _named(row, _PASSAGES) is None
    return item, AnswerRow(name, model, "" if empty else _text(row, _PASSAGES, "passage"))


def _nugget(given: Any, name: str) -> Nugget:
    fields: dict[str, Any] = given if isinstance(given, dict) else {"text": given}
    text, importance = fields.get("text") or fields.get("nugget") or "", fields.get("importance", "vital")
    if not isinstance(text, str):
        raise DataError(f"nugget {name}: no text; expected a string, or an object with `text`")
    return Nugget(
        str(fields.get("id") or name), " ".join(text.split()), importance, fields.get("reviewed") is not False
    )


def with_facts(items: Sequence[FreeItem], path: Path) -> list[FreeItem]:
    """Return the items with the nuggets that rows of `id` and `nuggets` give them; raise `DataError` if they do not fit."""
    rows = read_jsonl(path, lambda row: (_text(row, _IDS, "id"), row.get("nuggets") or ()))
    facts = {name: tuple(_nugget(n, f"{name}/n{i}") for i, n in enumerate(some, 1)) for name, some in rows}
    strange = sorted(facts.keys() - {item.id for item in items})
    if strange:
        raise DataError(
            f"{path.name}: nuggets of {strange[0]}, which is not an item of this set; expected its ids"
        )
    return [replace(item, nuggets=facts.get(item.id, item.nuggets)) for item in items]
