"""Reads an item by the names of its fields: the user's map, completed by the names usually met.

It refuses to choose between two fields that could both be the stem, the choices or the key.
"""

from collections.abc import Iterable, Sequence

from robustify.errors import DataError, ItemError
from robustify.loaders.cells import dig, has, label, text
from robustify.loaders.choice_cells import choice_columns, choice_texts
from robustify.loaders.keys import key_index
from robustify.loaders.rows import Cells, Raw
from robustify.loaders.source import FieldMap

# Each line: names that mean the same. A later line counts only where no name of an earlier one is there.
STEMS = (("stem", "question", "query", "question_stem"), ("prompt", "input", "sentence"))
CHOICES = (("choices", "options"), ("endings", "answers", "candidates"))
KEYS = (
    ("key", "answerKey", "answer_key", "answer_idx", "answer_index", "gold", "gold_index", "correct_index"),
    ("answer",),
    ("label", "target"),
)
IDS = (("id", "#id"), ("question_id", "qid", "item_id", "uid"))
TOPICS = (("topic",), ("subject",), ("category",))
PASSAGES = (("passage", "context", "article"),)
KNOWN_NAMES = frozenset(
    name.casefold()
    for part in (STEMS, CHOICES, KEYS, IDS, TOPICS, PASSAGES)
    for line in part
    for name in line
)


class AmbiguousError(DataError):
    """Fields that could be read in two ways, or a part of an item for which there is none."""


def complete(fields: FieldMap, cells: Cells) -> FieldMap:
    """`fields` with what it leaves out taken from the names of `cells`.

    Raises:
        AmbiguousError: a part is missing, or two fields could be it. The message names the part.
    """
    taken = {fields.stem, fields.key, fields.id, fields.topic, fields.passage}
    names = [name for name in cells if name not in taken and not _is_choice(name, fields.choices)]
    choices = fields.choices or _choices(names)
    free = [name for name in names if not _is_choice(name, choices)]
    stem = fields.stem or _only("stem", free, STEMS)
    return FieldMap(
        stem=stem,
        choices=choices,
        key=fields.key or _only("key", free, KEYS),
        key_is=fields.key_is,
        id=fields.id or _first(free, IDS),
        topic=fields.topic or _first(free, TOPICS),
        passage=fields.passage or _first([name for name in free if name != stem], PASSAGES),
    )


def read_fields(cells: Cells, fields: FieldMap, *, literals: bool) -> Raw:
    """The item that a complete map finds in a row. `literals`: a list may be written out in a flat cell.

    Raises:
        ItemError: a field is missing or holds another type.
    """
    choices, labels = choice_texts(cells, fields.choices or "choices", literals=literals)
    stem, passage = text(cells, fields.stem or "stem"), ""
    if fields.passage is not None and has(cells, fields.passage):
        passage = text(cells, fields.passage)
    raw = Raw(
        stem=f"{passage}\n\n{stem}" if passage.strip() else stem,
        choices=choices,
        key=dig(cells, fields.key or "key"),
        key_is=fields.key_is,
        labels=labels,
        id=label(cells, fields.id),
        topic=label(cells, fields.topic),
        passage=passage,
    )
    _agree(raw, cells, fields)
    return raw


def _agree(raw: Raw, cells: Cells, fields: FieldMap) -> None:
    """Where a row gives its key twice (MMLU-Pro: a letter and an index), both must mean the same choice."""
    other = "answer"
    if fields.key == other or other not in cells or fields.key_is != "auto":
        return
    second = Raw(raw.stem, raw.choices, cells[other], labels=raw.labels)
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


def _found(names: Iterable[str], ranks: Sequence[Sequence[str]]) -> list[str]:
    by_fold = {name.casefold(): name for name in names}
    for rank in ranks:
        found = [by_fold[name.casefold()] for name in rank if name.casefold() in by_fold]
        if found:
            return found
    return []


def _first(names: Iterable[str], ranks: Sequence[Sequence[str]]) -> str | None:
    return next(iter(_found(names, ranks)), None)


def _only(part: str, names: Iterable[str], ranks: Sequence[Sequence[str]]) -> str:
    found = _found(names, ranks)
    if not found:
        raise AmbiguousError(f"no field for the {part}")
    if len(found) > 1:
        raise AmbiguousError(f"{' and '.join(f'`{name}`' for name in found)} could each be the {part}")
    return found[0]


def _choices(names: Sequence[str]) -> str | tuple[str, ...]:
    found = _found(names, CHOICES)
    columns = choice_columns(names)
    if found and not (columns and found[0].casefold() not in CHOICES[0]):
        return _only("choices", names, CHOICES)
    if len(columns) == 1:
        return columns[0]
    raise AmbiguousError(
        "several rows of columns could be the choices" if columns else "no field for the choices"
    )
