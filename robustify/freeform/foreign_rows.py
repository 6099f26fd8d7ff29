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

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.answer_text import plain_text
from robustify.freeform.grade.graders import RUBRICS
from robustify.freeform.grade.nuggets import require_distinct
from robustify.freeform.human import HumanLabel
from robustify.freeform.jsonl import read_jsonl, rows_of
from robustify.freeform.judge.verdicts import SUPPORT3
from robustify.freeform.questions import route
from robustify.freeform.schema import AnswerRow, FreeItem, Nugget, answer_from, item_from
from robustify.restricted.ids import PREFIX

Row = Mapping[str, Any]
_IDS = ("id", "question_id", "item_id", "qid")
_QUESTIONS = ("question", "query", "prompt")
_ANSWERS = ("answer", "gold", "correct", "correct_answer", "reference")
_TOPICS = ("topic", "subject", "category", "chapter")
_MODELS = ("model", "config", "system")
_TEXTS = ("predicted", "prediction", "text", "response", "output", "answer")
_PASSAGES = ("passage", "block", "answer", "response", "text")
_NUGGETS = ("nuggets", "block_nuggets_assignment")
_LABELS = ("label", "assignment", "golden_label")
_KINDS = {**RUBRICS, "multiple_choice": "short_text", "numerical": "numeric", "explain": "explanation"}
_OPTION = re.compile(r"(?:\(([A-J])\)|^[ \t]*([A-J])[.):])[ \t]*(?=\S)", re.MULTILINE)


def read_items(path: Path) -> list[FreeItem]:
    """The items of `robustify free prepare`, or questions with `type` (mcq, numeric, explanation) and `answer`.

    Raises:
        DataError: rows that are neither.
    """
    return read_jsonl(
        path, lambda row: item_from(row) if {"kind", "restricted"} & row.keys() else _question(row)
    )


def read_answers(path: Path) -> list[AnswerRow]:
    """The answers of `robustify free generate`, or rows of question id, prediction and (several) model.

    Raises:
        DataError: rows that are neither.
    """
    return read_jsonl(path, lambda row: answer_from(row) if "template_sha256" in row else _prediction(row))


def foreign_form(path: Path) -> bool:
    """Whether a file has questions with a type and an answer, and no choices of their own.

    Raises:
        UsageError: rows of query, passage and nuggets, which another command reads.
    """
    if path.suffix.lower() not in (".jsonl", ".json", ".csv") or not path.is_file():
        return False
    fields = [row.keys() for row in rows_of(path) if isinstance(row, dict)]
    if not fields or any({"choices", "options"} & names for names in fields):
        return False
    if any({*_NUGGETS} & names for names in fields):
        raise UsageError(f"{path.name}: nuggets, no choices; grade such rows with `robustify free nuggets`")
    return all("type" in names and {*_ANSWERS} & names for names in fields)


def _named(row: Row, names: Sequence[str]) -> Any:
    """The value of the first of these fields that has one; None where none has."""
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _text(row: Row, names: Sequence[str], what: str) -> str:
    found = _named(row, names)
    # A passage may stand first in a list, before its sources.
    found = found[0] if isinstance(found, list) and found else found
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        fields = ", ".join(sorted(map(str, row))[:12])
        raise DataError(f"no {what}; expected one of the fields {', '.join(names)} (found {fields})")
    return str(found)


def _public(row: Row) -> None:
    """Refuse a row of a restricted set, which comes in through its adapter alone."""
    if row.get("restricted") or str(_named(row, _IDS) or "").startswith(PREFIX):
        raise AuthorisationError("rows: of a restricted set; expected files of `robustify free prepare`")


def _question(row: Row) -> FreeItem:
    _public(row)
    name, question = _text(row, _IDS, "id"), _text(row, _QUESTIONS, "question")
    answer = _text(row, _ANSWERS, "answer")
    kind = _KINDS.get(str(row.get("type") or "").casefold().replace("-", "_").replace(" ", "_"))
    common: dict[str, Any] = {"unit": row.get("unit") or None, "topic": str(_named(row, _TOPICS) or "")}
    stem, options = _options(question, row)
    if kind == "short_text" or (options and kind is None):
        letters = ascii_uppercase[: len(options)]
        same = [i for i, option in enumerate(options) if plain_text(option) == plain_text(answer)]
        letter = answer.strip().strip("().").upper()
        at = letters.find(letter) if len(letter) == 1 else (same or [-1])[0]
        if at < 0:
            raise DataError(
                f"question {name}: a multiple-choice question with {len(options)} options whose answer names none;"
                " expected (A) ..., (B) ... in the question, or `options`, and the answer's letter"
            )
        return FreeItem(
            name, stem, "short_text", options[at], options=options, correct=at, options_shown=True, **common
        )
    return FreeItem(name, question, kind or route(answer)[0], answer, **common)


def _options(question: str, row: Row) -> tuple[str, tuple[str, ...]]:
    """The stem of a question and its options, from their own field or from the end of its text."""
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
    return AnswerRow(
        _text(row, _IDS[1:] + _IDS[:1], "question id"), model, str(text or ""), "", "", "", finish_reason=finish,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NuggetRows:
    """Passages as answers to their queries, with people's labels of their nuggets; `left_out` counts rows by reason."""

    items: tuple[FreeItem, ...]
    answers: tuple[AnswerRow, ...]
    labels: tuple[HumanLabel, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_nugget_rows(path: Path) -> NuggetRows:
    """Rows of query, passage and nuggets: texts, or objects with text and perhaps id, importance and a person's label.

    `labels` may be a list in the order of the nuggets, or such a list for each annotator. Passages of one query and
    model are drawn together; a row whose nuggets are empty is left out and counted.

    Raises:
        DataError: rows that do not fit, all at once.
        AuthorisationError: rows of a restricted set.
    """
    counts: Counter[tuple[str, str]] = Counter()
    items: dict[str, FreeItem] = {}

    def read(row: Row) -> tuple[AnswerRow, list[HumanLabel]] | None:
        item, answer, labels = _nugget_row(row, counts)
        if item.nuggets and items.setdefault(item.id, item) != item:
            raise DataError(f"query {item.id}: other words or nuggets for another model; expected the same")
        return (answer, labels) if item.nuggets else None

    rows = read_jsonl(path, read)
    there = [row for row in rows if row is not None]
    none = len(rows) - len(there)
    labels = tuple(label for _, some in there for label in some)
    return NuggetRows(
        tuple(items.values()),
        tuple(answer for answer, _ in there),
        labels,
        {"no_nuggets": none} if none else {},
    )


def _nugget_row(row: Row, counts: "Counter[tuple[str, str]]") -> tuple[FreeItem, AnswerRow, list[HumanLabel]]:
    _public(row)
    model = str(_named(row, _MODELS) or "passages")
    group = str(_named(row, ("qid", *_IDS)) or f"row{counts.total() + 1}")
    counts[group, model] += 1
    if not any(name in row for name in _NUGGETS):
        raise DataError(f"no nuggets; expected {', '.join(_NUGGETS)} (found {', '.join(sorted(row))})")
    given = _named(row, _NUGGETS) or []
    if not isinstance(given, list):
        raise DataError("nuggets is no list; expected texts, or objects with `text`")
    name = group if counts[group, model] == 1 else f"{group}#{counts[group, model]}"
    nuggets = tuple(_nugget(one, f"{name}/n{i}") for i, one in enumerate(given, start=1))
    require_distinct(nuggets)
    query = _text(row, ("query", "question"), "query")
    item = FreeItem(
        name, query, "explanation", "", nuggets=nuggets, topic=str(_named(row, _TOPICS) or ""), group=group
    )
    # A passage that is there and empty states nothing; one that is not there is a fault.
    empty = any(row.get(name) == "" for name in _PASSAGES) and _named(row, _PASSAGES) is None
    answer = AnswerRow(name, model, "" if empty else _text(row, _PASSAGES, "passage"), "", "", "")
    return item, answer, _people(row, given, item, model)


def _nugget(given: Any, name: str) -> Nugget:
    fields: dict[str, Any] = given if isinstance(given, dict) else {"text": given}
    text, importance = fields.get("text") or fields.get("nugget") or "", fields.get("importance", "vital")
    if not isinstance(text, str):
        raise DataError(f"nugget {name}: no text; expected a string, or an object with `text`")
    return Nugget(
        str(fields.get("id") or name), " ".join(text.split()), importance, fields.get("reviewed") is not False
    )


def _people(row: Row, given: Sequence[Any], item: FreeItem, model: str) -> list[HumanLabel]:
    """The labels that people gave, by annotator."""
    own = [_named(one, _LABELS) if isinstance(one, dict) else None for one in given]
    lists = row.get("labels") or {}
    lists = lists if isinstance(lists, dict) else {str(row.get("annotator") or "human"): lists}
    lists = ({"human": own} if any(own) else {}) | lists
    found = []
    for annotator, labels in lists.items():
        if not isinstance(labels, list) or len(labels) != len(given):
            raise DataError(f"labels of {annotator}: expected {len(given)}, one a nugget, or null")
        words = [None if label is None else SUPPORT3.read(str(label)) for label in labels]
        if any(word is None and label is not None for word, label in zip(words, labels, strict=True)):
            raise DataError(f"labels of {annotator}: one is none of {', '.join(SUPPORT3.labels)}")
        known = {n.id: word for n, word in zip(item.nuggets, words, strict=True) if word is not None}
        found.append(HumanLabel(item.id, annotator, model, labels=known))
    return found


def with_nuggets(items: Sequence[FreeItem], path: Path) -> list[FreeItem]:
    """Items with the nuggets of the rows they were made from, where those have some.

    Raises:
        DataError: rows with nuggets that cannot be given to items one by one.
    """
    nuggets = read_jsonl(path, lambda row: row.get("nuggets"))
    if not any(nuggets):
        return list(items)
    if len(nuggets) != len(items):
        raise DataError(f"{path.name}: {len(nuggets)} rows, {len(items)} items; expected an item a row")
    return [
        replace(
            item, nuggets=tuple(_nugget(one, f"{item.id}/n{i}") for i, one in enumerate(some or (), start=1))
        )
        for item, some in zip(items, nuggets, strict=True)
    ]
