"""Items read from the requests that lm-eval builds: the question, the options that lm-eval scores or shows, and its own
key.

A task shows more than the question: words such as `Question:` and `Answer:` around it, a passage before it, and often the
options. If only their letters are scored, the options are those that the prompt lists under them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from robustify.base.errors import ItemError, Notice
from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.reading.columns import usual_names
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.option_columns import right_count_error
from robustify.reading.loaders.rows import Fault, SourceRow, SourceTable, as_object
from robustify.reading.logs.requested import NO_TEXTS, listed_options
from robustify.reading.marks.labelling import (
    COUNTED,
    LETTERS,
    bare_mark,
    cut_at_labels,
    only_labels,
    series_named,
)

KEY = "doc_to_target"
STEM, CHOICES, TASK = "doc_to_text", "doc_to_choice", "lm-eval task"
Row = Mapping[str, Any]
_LEAD = re.compile(r"^.*(?:[:：]\s+|：|\n)", re.DOTALL)
_TAIL = re.compile(r"\s*\n.*|\s+\S+[:：]\s*$", re.DOTALL)


def item_table(rows: Sequence[Row], mapped: FieldMap | None = None) -> tuple[SourceTable, FieldMap]:
    """Return a table with one item per document, and the columns of its parts, of which the user may have mapped
    some. Documents that are not items become faults."""
    by_user = {} if mapped is None else mapped.model_dump()
    items, faults = list[_Asked](), list[Fault]()
    for line, row in enumerate(rows, start=1):
        try:
            items.append(_asked(line, row))
        except ItemError as error:  # noqa: PERF203
            faults.append(Fault(line, error.reason))
    tasks = [*dict.fromkeys(row["task"] for row in rows)]
    passage = _passage(items)
    stems: dict[int, str] = {}
    for task in tasks:
        own = [item for item in items if item.row["task"] == task]
        texts = _without_frame([_without(item, passage) for item in own])
        stems |= zip((item.line for item in own), texts, strict=True)
    parts: dict[str, Any] = {
        "stem": STEM,
        "choices": CHOICES,
        "key": KEY,
        "key_is": "index",
        "passage": passage,
    }
    if len(tasks) > 1:
        # The tasks of a group are its topics, and count their documents apart.
        parts |= {"topic": TASK, "id": None}
    table = SourceTable(
        tuple(
            SourceRow(
                item.line,
                item.line,
                {
                    **_about(item.row["doc"], by_user.values()),
                    **({TASK: item.row["task"]} if len(tasks) > 1 else {}),
                    **{STEM: stems[item.line], CHOICES: item.choices, KEY: item.key},
                },
            )
            for item in items
        ),
        tuple(faults),
        outer="lm-eval",
        notes=tuple(_notes(items)),
    )
    return table, FieldMap(**{**parts, **by_user})


@dataclass(frozen=True, slots=True, repr=False)
class _Asked(HoldsText):
    """A document's prompt up to the options, its options, and the index of its key."""

    line: int
    row: Row
    stem: str
    choices: list[str]
    key: int


def _notes(items: Sequence[_Asked]) -> Iterator[Notice]:
    """Yield a note if prompts list more or fewer options than lm-eval scores."""
    other = [item for item in items if item.row["choices"] and len(item.row["choices"]) != len(item.choices)]
    if other:
        n, scored = len(other[0].choices), len(other[0].row["choices"])
        yield Notice(
            f"in {len(other):,} of {len(items):,} prompts, the number of letters that lm-eval scores is not the number of "
            f"options (for example, {scored} for {n})",
            code="other-number-of-letters",
        )


def _about(doc: object, mapped: Collection[object]) -> dict[str, object]:
    """Return fields of a document besides the item's text: ID, topic, passage, group, and fields that the user mapped."""
    fields = as_object(doc)
    usual = [name for part in ("id", "topic", "passage", "group") for name in usual_names(fields, part)]
    return {name: value for name, value in fields.items() if name in usual or name in mapped}


def _asked(line: int, row: Row) -> _Asked:
    """Return the item that the requests of a document ask. Raise `ItemError` if they ask no item."""
    if "error" in row:
        raise ItemError(
            f"a template of the task raises {row['error']} on this document, so lm-eval cannot build a prompt from it",
            code="failed-template",
        )
    text, labels = str(row["text"]), [*map(str, row["choices"] or ())]
    stem, choices = _options(text, labels, row["doc"])
    return _Asked(line, row, stem, choices, _key(row["target"], labels, choices))


def _options(text: str, labels: list[str], doc: object) -> tuple[str, list[str]]:
    """Return a prompt up to its options, and the options: texts that were scored, or texts listed under scored letters."""
    listed = cut_at_labels(text)
    letters = only_labels(tuple(labels))
    if labels and not letters:
        same = listed and _is_listed(labels, listed.texts)
        return (listed.before if listed and same else text), labels
    if letters and listed is None and series_named([*map(str.strip, labels)]) in COUNTED:
        # Numbers that label nothing are the options themselves.
        return text, labels
    listed_texts = listed_options(text, listed.labels if listed else labels)
    for texts in _lists(doc):
        # Those of the document have their own white space and lines.
        if listed and _is_listed(texts, listed.texts):
            return listed.before, texts
    if listed_texts is None and labels:
        raise ItemError(NO_TEXTS, code=NO_TEXTS.code)
    if listed_texts is None:
        raise ItemError(
            "lm-eval asks for a written answer, and the prompt lists no options. To grade it, see `robustify free`.",
            code="no-options",
        )
    return (listed.before if listed else listed_texts[0]), listed_texts[1]


def _is_listed(texts: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a prompt lists these texts. Other words, such as `Answer:`, may follow the last one."""
    options, pieces = [*map(unspaced, texts)], [*map(unspaced, parts)]
    return len(options) == len(pieces) and options[:-1] == pieces[:-1] and pieces[-1].startswith(options[-1])


def _lists(value: object) -> Iterator[list[str]]:
    match value:
        case [str(), *_] if all(isinstance(member, str) for member in value):
            yield [*map(str, value)]
        case list() | dict():
            for member in value.values() if isinstance(value, dict) else value:
                yield from _lists(member)


def _key(target: object, labels: Sequence[str], choices: Sequence[str]) -> int:
    """Return the index of the right option as lm-eval counts. Raise `ItemError` unless exactly one option is right."""
    keys = {_index(each, labels, choices) for each in (target if isinstance(target, list) else [target])}
    if len(keys) > 1:
        raise right_count_error(len(keys))
    key = next(iter(keys), None)
    if key is None or not 0 <= key < len(choices):
        n = len(choices)
        raise ItemError(
            f"`{KEY}` names none of the {n} options, so lm-eval counts every answer as wrong",
            code="key-of-no-choice",
        )
    return key


def _index(target: object, labels: Sequence[str], choices: Sequence[str]) -> int | None:
    if isinstance(target, int):
        return int(target)
    text = str(target)
    if labels:
        return labels.index(text) if text in labels else None
    # Without scored options, the answer is a letter or the text of a listed option.
    if (mark := bare_mark(text)) in LETTERS[: len(choices)]:
        return LETTERS.index(str(mark))
    same = [index for index, choice in enumerate(choices) if unspaced(choice) == unspaced(text)]
    return same[0] if len(same) == 1 else None


def _passage(items: Sequence[_Asked]) -> str | None:
    """Return the column with the passage that most prompts show before the question, or None if no column has it."""
    for name in usual_names(as_object(items[0].row["doc"]), "passage") if items else ():
        if 2 * sum(_without(item, name) != item.stem for item in items) > len(items):
            return name
    return None


def _without(item: _Asked, passage: str | None) -> str:
    """Return a prompt without its passage. If nothing else is left, return the whole prompt."""
    text = as_object(item.row["doc"]).get(passage) if passage else None
    if not isinstance(text, str) or not text.strip() or text.strip() not in item.stem:
        return item.stem
    return item.stem.replace(text.strip(), "", 1).strip() or item.stem


def _without_frame(texts: Sequence[str]) -> list[str]:
    """Remove the text before and after the question that all prompts of a task have in common."""
    if len({*texts}) < 2:
        return [*texts]
    lead = _LEAD.match(commonprefix(texts))  # noqa: RUF071 (texts, not paths)
    begin = len(lead[0]) if lead else 0
    tail = _TAIL.search(commonprefix([text[::-1] for text in texts])[::-1])  # noqa: RUF071
    end = len(tail[0]) if tail else 0
    cut = [text[begin : len(text) - end].strip() for text in texts]
    return cut if all(cut) else [*texts]
