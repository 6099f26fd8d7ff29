"""Reads an item by the names of its fields: the user's map, completed by the names usually met.

It refuses to choose between two fields that could both be the stem, the choices or the key, and labels that do not
fit their texts: a key that names a label must name one choice.
"""

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from string import ascii_lowercase

from robustify.errors import DataError, ItemError
from robustify.loaders.answer_keys import key_index
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import (
    Cells,
    RawItem,
    cell_label,
    cell_text,
    cell_value,
    has,
    json_kind,
    require_text,
    text_list,
)

# Each line: names that mean the same. A later line counts only where no name of an earlier one is there.
STEMS = (("stem", "question", "query", "question_stem"), ("prompt", "input", "sentence"), ("question_text",))
CHOICES = (("choices", "options"), ("endings", "answers", "candidates"))
KEYS = (
    ("key", "answerKey", "answer_key", "answer_idx", "answer_index", "gold", "gold_index", "correct_index"),
    ("answer",),
    ("label", "target"),
    ("correct_answer", "correct_option", "correct_choice", "correct", "right_answer", "right_option"),
)
IDS = (("id", "#id"), ("question_id", "qid", "item_id", "uid"))
TOPICS = (("topic",), ("subject",), ("category",))
PASSAGES = (("passage", "context", "article"),)
_BETWEEN = re.compile(r"[\s_-]+")


def name_key(name: str) -> str:
    """A name as it is compared: `Correct Answer`, `correct-answer` and `correct_answer` are one."""
    return _BETWEEN.sub("", name).casefold()


KNOWN_NAMES = frozenset(
    name_key(name) for part in (STEMS, CHOICES, KEYS, IDS, TOPICS, PASSAGES) for line in part for name in line
)
Labelled = tuple[tuple[str, ...], tuple[str, ...]]
"""Texts and labels; no labels, or one for each text."""
_COLUMN = re.compile(
    r"\(?(|option|choice|opt|answer|ending)[ _-]?\(?([a-z]|[0-9]{1,2})\s*[).:]?", re.IGNORECASE
)
_ORDERS = (list(ascii_lowercase), [str(n) for n in range(26)], [str(n) for n in range(1, 27)])


class AmbiguousError(DataError):
    """Fields that could be read in two ways, or a part of an item for which there is none."""


def complete(fields: FieldMap, cells: Cells, absent: Collection[str] = ()) -> FieldMap:
    """`fields` with what it leaves out taken from the names of `cells`; `absent`: those that are null in every row.

    An id, a topic or a passage that `fields` calls null is left out.
    Raises `AmbiguousError`: a part is missing, or two fields could be it. The message names the part."""
    taken = {fields.stem, fields.key, fields.id, fields.topic, fields.passage}
    names = [name for name in cells if name not in taken and not _is_choice(name, fields.choices)]
    choices = fields.choices or _choices(names, absent)
    free = [name for name in names if not _is_choice(name, choices)]
    there = [name for name in free if name not in absent]
    stem = fields.stem or _only("stem", there, STEMS)

    def usual(part: str, said: str | None, ranks: Sequence[Sequence[str]]) -> str | None:
        if part in fields.model_fields_set:
            return said
        # Another part of a large file may hold what is null in this one.
        return _first((n for n in there if n != stem), ranks) or _first((n for n in free if n != stem), ranks)

    return FieldMap(
        stem=stem,
        choices=choices,
        key=fields.key or _only("key", there, KEYS),
        key_is=fields.key_is,
        id=usual("id", fields.id, IDS),
        topic=usual("topic", fields.topic, TOPICS),
        passage=usual("passage", fields.passage, PASSAGES),
    )


def read_fields(cells: Cells, fields: FieldMap, *, literals: bool) -> RawItem:
    """The item that a complete map gives for a row. `literals`: a list may be written out in a flat cell.
    Raises `ItemError`: a field is missing or holds another type."""
    choices, labels = choice_texts(cells, fields.choices or "choices", literals=literals)
    stem, passage = cell_text(cells, fields.stem or "stem"), ""
    if (
        fields.passage is not None
        and has(cells, fields.passage)
        and cell_value(cells, fields.passage) is not None
    ):
        passage = cell_text(cells, fields.passage)
    raw = RawItem(
        stem=f"{passage}\n\n{stem}" if passage.strip() else stem,
        choices=choices,
        key=_key(cell_value(cells, fields.key or "key"), fields.choices, labels),
        key_is=fields.key_is,
        labels=labels,
        id=cell_label(cells, fields.id),
        topic=cell_label(cells, fields.topic),
        passage=passage,
    )
    _require_one_key(raw, cells, fields)
    return raw


def _key(key: object, choices: str | Sequence[str] | None, labels: tuple[str, ...]) -> object:
    """The key; where it is the name of a choice's own column (`Option B`), that choice's label."""
    if isinstance(key, str) and choices is not None and not isinstance(choices, str):
        named = [
            label for name, label in zip(choices, labels, strict=False) if name_key(name) == name_key(key)
        ]
        return named[0] if len(named) == 1 else key
    return key


def _require_one_key(raw: RawItem, cells: Cells, fields: FieldMap) -> None:
    """Where a row gives its key twice (MMLU-Pro: a letter and an index), both must mean the same choice."""
    other = "answer"
    if fields.key == other or other not in cells or fields.key_is != "auto":
        return
    second = RawItem(raw.stem, raw.choices, cells[other], labels=raw.labels)
    try:
        both = key_index(raw), key_index(second)
    except ItemError:
        return
    if both[0] != both[1]:
        raise ItemError(
            f"`{fields.key}` means choice {both[0] + 1}, but `{other}` choice {both[1] + 1}; expected one"
        )


def _is_choice(name: str, choices: str | Sequence[str] | None) -> bool:
    return choices is not None and (name == choices if isinstance(choices, str) else name in choices)


def usual_names(names: Iterable[str], ranks: Sequence[Sequence[str]]) -> list[str]:
    """Those of these names that the first line of `ranks` holds of which any is there, compared as `name_key` says."""
    there: dict[str, list[str]] = {}
    for name in names:
        there.setdefault(name_key(name), []).append(name)
    for rank in ranks:
        if usual := [name for known in dict.fromkeys(map(name_key, rank)) for name in there.get(known, ())]:
            return usual
    return []


def _first(names: Iterable[str], ranks: Sequence[Sequence[str]]) -> str | None:
    return next(iter(usual_names(names, ranks)), None)


def _only(part: str, names: Iterable[str], ranks: Sequence[Sequence[str]]) -> str:
    usual = usual_names(names, ranks)
    if not usual:
        raise AmbiguousError(f"no field for the {part}")
    if len(usual) > 1:
        raise AmbiguousError(f"{' and '.join(f'`{name}`' for name in usual)} could each be the {part}")
    return usual[0]


def _choices(names: Sequence[str], absent: Collection[str]) -> str | tuple[str, ...]:
    there = [name for name in names if name not in absent]
    usual = usual_names(there, CHOICES)
    columns = [series for series in choice_columns(names) if not set(series) <= set(absent)]
    if usual and not (columns and name_key(usual[0]) not in CHOICES[0]):
        return _only("choices", there, CHOICES)
    if len(columns) == 1:
        return columns[0]
    raise AmbiguousError(
        "several rows of columns could be the choices" if columns else "no field for the choices"
    )


def shape(cells: Cells, choices: str | Sequence[str], *, literals: bool) -> str:
    """The name of the layout that a choices field makes: what `validate` prints and `layout:` takes."""
    if not isinstance(choices, str):
        return "choice_columns"
    value = cell_value(cells, choices) if has(cells, choices) else None
    match value:
        case str() if literals:
            return "choices_literal"
        case Mapping() if "text" in value:
            return "text_label"
        case Mapping():
            return "choices_by_letter"
        case [Mapping(), *_]:
            return "text_label"
        case _:
            return "query_gold" if {"query", "gold"} <= set(cells) else "choices_list"


def choice_columns(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Series like A B C D, a) b) c), option1 option2, Choice A: at least two in order, from a, 0 or 1."""
    series: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _COLUMN.fullmatch(name):
            series.setdefault(match[1].casefold(), {})[match[2].casefold()] = name
    return [
        tuple(members[at] for at in order[: len(members)])
        for members in series.values()
        for order in _ORDERS
        if len(members) > 1 and set(members) == set(order[: len(members)])
    ]


def choice_texts(cells: Cells, choices: str | Sequence[str], *, literals: bool) -> Labelled:
    """The texts of the choices and their labels (none: no labels), from one field or from one field a choice.

    One field may hold a list of texts, a list of {text, label}, {text: [..], label: [..]} or {label: text};
    with `literals` also any of these written out as JSON or Python shows it.
    Raises `ItemError`: another shape, a choice that is no text, or labels that do not fit."""
    if not isinstance(choices, str):
        return _from_columns(cells, choices)
    value, what = cell_value(cells, choices), f"`{choices}`"
    if isinstance(value, str) and literals:
        value = _literal(value, what)
    match value:
        case {"text": texts, "label": names}:
            return _labelled(text_list(texts, what), names, what)
        case {"text": texts}:
            return text_list(texts, what), ()
        case Mapping():
            members = list(value.items())
            # Every row of an Arrow struct has all labels: null at the end means no such choice.
            while literals and members and members[-1][1] is None:
                members.pop()
            return text_list([text for _, text in members], what), tuple(str(name) for name, _ in members)
        case [Mapping(), *_]:
            objects = [dict(member) if isinstance(member, Mapping) else {} for member in value]
            found = text_list([member.get("text") for member in objects], what)
            labels = [member["label"] for member in objects if "label" in member]
            return _labelled(found, labels, what) if labels else (found, ())
        case _:
            return text_list(value, what), ()


def _labelled(texts: tuple[str, ...], names: object, what: str) -> Labelled:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != len(texts):
        raise ItemError(f"{what} has {len(texts)} texts, but not as many labels; expected one label a choice")
    labels = tuple(str(name).strip() if isinstance(name, str | int) else "" for name in names)
    if "" in labels or len(set(labels)) < len(labels):
        raise ItemError(
            f"{what} has a label that is empty, no text, or there twice; expected one label a choice"
        )
    return texts, labels


def _from_columns(cells: Cells, names: Sequence[str]) -> Labelled:
    """One choice a column. Empty columns at the end are choices this item does not have."""
    values = [cell_value(cells, name) for name in names]
    while values and (values[-1] is None or values[-1] == ""):
        values.pop()
    texts = tuple(require_text(value, f"`{name}`") for value, name in zip(values, names, strict=False))
    matches = [_COLUMN.fullmatch(name) for name in names[: len(texts)]]
    suffixes = tuple(match[2].upper() for match in matches if match)
    return texts, suffixes if len(suffixes) == len(texts) else tuple(names[: len(texts)])


def _literal(cell: str, what: str) -> object:
    """A list written into a flat cell, as JSON or as Python shows it."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            # Python warns of odd escapes with the text itself.
            warnings.simplefilter("ignore")
            value: object = ast.literal_eval(cell.strip())
            return value
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ItemError(
            f"{what} is {json_kind(cell)}; expected a list, written as JSON or Python does"
        ) from None
