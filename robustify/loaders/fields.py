"""Reader that finds the parts of an item by field name, using the user's field map or common names.

If two fields could both be the stem, the choices, or the key, the file is refused. The correct choice may have a separate
column, which is then also one of the choices (`choices: [right, wrong1, wrong2], key: right`).
"""

from collections.abc import Collection, Iterable, Sequence

from robustify.errors import DataError
from robustify.loaders.choices import (
    WRONG_COLUMNS,
    choice_columns,
    name_key,
    read_choices,
    usual_names,
)
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import Cells, RawItem, cell_label, cell_text, cell_value, has

# Each line lists synonyms. A later line counts only if no name of an earlier line is present.
STEMS = (
    ("stem", "question", "query", "question_stem"),
    ("prompt", "input", "sentence", "ctx", "goal"),
    ("question_text",),
)
CHOICES = (("choices", "options"), ("mc1_targets", "target_scores"), ("endings", "answers", "candidates"))
KEYS = (
    ("correct_answer", "correct_option", "correct_choice", "correct_index", "right_answer", "right_option", "cop"),
    ("key", "answerKey", "answer_key", "answer_idx", "answer_index", "gold", "gold_index"),
    ("answer",),
    ("label", "target"),
    ("correct",),
)  # fmt: skip
RIGHT = (("correct_answer", "right_answer", "best_answer", "chosen"), ("answer", "correct"))
WRONG = (
    ("incorrect_answers", "wrong_answers", "distractors", "rejected", "incorrect_answer", "wrong_answer"),
)
IDS = (("id", "#id"), ("question_id", "qid", "item_id", "uid", "record_id"))
TOPICS = (("topic",), ("subject",), ("category",), ("activity_label", "high-level domain"))
PASSAGES = (("passage", "context", "article"),)
KNOWN_NAMES = frozenset(
    name_key(name)
    for part in (STEMS, CHOICES, KEYS, RIGHT, WRONG, IDS, TOPICS, PASSAGES)
    for line in part
    for name in line
)


class AmbiguousError(DataError):
    """Error for a part of an item whose field is missing or ambiguous."""


def complete(
    fields: FieldMap, cells: Cells, more: Sequence[str] = (), absent: Collection[str] = ()
) -> FieldMap:
    """Fill in a field map with common names found in a typical row.

    `cells` is the row, `more` lists names that only other rows have, and `absent` lists names that are null in every row.
    An ID, topic, or passage that `fields` sets to null stays out. A key is not needed if the choices mark the correct
    one. Raise `AmbiguousError`, which names the part, if a part is missing or two fields could be the part."""
    taken = {fields.stem, fields.key, fields.id, fields.topic, fields.passage, *_several(fields.choices)}
    every = [name for name in (*cells, *more) if name not in taken]
    own = [name for name in every if name in cells and name not in absent]
    choices, key = fields.choices, fields.key
    if choices is None:
        choices, right = _choices(own, every, absent)
        key = key or right
    chosen = _several(choices)
    own = [name for name in own if name not in chosen]
    marked = isinstance(choices, str) and _marks(cells, choices)
    if key is None and (usual_names(own, KEYS) or not marked):
        key = _only("key", own, KEYS)
    stem = fields.stem or _only("stem", [name for name in own if name != key], STEMS)

    def usual(part: str, said: str | None, ranks: Sequence[Sequence[str]]) -> str | None:
        if part in fields.model_fields_set:
            return said
        free = [name for name in every if name != stem and name not in chosen]
        # A field that is null in these rows may have values later in the file.
        found = usual_names([name for name in free if name not in absent], ranks) or usual_names(free, ranks)
        return found[0] if found else None

    return FieldMap(
        stem=stem,
        choices=choices,
        key=key,
        key_is=fields.key_is,
        id=usual("id", fields.id, IDS),
        topic=usual("topic", fields.topic, TOPICS),
        passage=usual("passage", fields.passage, PASSAGES),
    )


def rival_keys(fields: FieldMap, names: Iterable[str]) -> list[str]:
    """Return the names of other columns that may contain the key. Return none if the key column's name says "correct"."""
    if fields.key is None or fields.key in _several(fields.choices) or usual_names([fields.key], KEYS[:1]):
        return []
    known = {name_key(name) for rank in KEYS for name in rank}
    taken = {fields.key, fields.id, fields.topic, *_several(fields.choices)}
    return [name for name in names if name_key(name) in known and name not in taken]


def read_fields(cells: Cells, fields: FieldMap) -> RawItem:
    """Read a row with a complete field map. Raise `ItemError` if a field is missing or has another type."""
    found = read_choices(cells, fields.choices or "choices", fields.key)
    stem, passage = cell_text(cells, fields.stem or "stem"), ""
    if fields.passage and has(cells, fields.passage) and cell_value(cells, fields.passage) is not None:
        passage = cell_text(cells, fields.passage)
    whole, question_at = after(passage, stem)
    marked = fields.key is None or fields.key in _several(fields.choices)
    right = found.right if marked or found.marks else None
    return RawItem(
        stem=whole,
        choices=found.texts,
        key=right if marked else own_label(cell_value(cells, fields.key or ""), fields, found.labels),
        key_is="index" if marked else fields.key_is,
        labels=found.labels,
        id=cell_label(cells, fields.id),
        topic=cell_label(cells, fields.topic),
        passage=passage,
        question_at=question_at,
        marked=right,
        cut=found.cut,
    )


def after(passage: str, question: str) -> tuple[str, int]:
    """Put the passage, if any, before the question. Return the stem and the index at which the question begins."""
    stem = f"{passage}\n\n{question}" if passage.strip() else question
    return stem, len(stem) - len(question)


def own_label(key: object, fields: FieldMap, labels: tuple[str, ...]) -> object:
    """Replace a key that is a column name, such as `Option B`, with the label of the choice. Keep any other key."""
    if isinstance(key, str):
        columns = zip(_several(fields.choices), labels, strict=False)
        named = [label for name, label in columns if name_key(name) == name_key(key)]
        return named[0] if len(named) == 1 else key
    return key


def _several(choices: str | Sequence[str] | None) -> tuple[str, ...]:
    return (choices,) if isinstance(choices, str) else tuple(choices or ())


def _marks(cells: Cells, choices: str) -> bool:
    """Return whether the choices of this row mark the correct one."""
    try:
        return has(cells, choices) and bool(read_choices(cells, choices).marks)
    except DataError:
        return False


def _only(part: str, names: Iterable[str], ranks: Sequence[Sequence[str]]) -> str:
    usual = usual_names(names, ranks)
    if not usual:
        raise AmbiguousError(f"no field has a common name for the {part}")
    if len(usual) > 1:
        raise AmbiguousError(f"{' and '.join(f'`{name}`' for name in usual)} could each be the {part}")
    return usual[0]


def _choices(
    own: Sequence[str], every: Sequence[str], absent: Collection[str]
) -> tuple[str | tuple[str, ...], str | None]:
    """Return the fields of the choices, and the field of the correct choice if it has one."""
    usual = usual_names(own, CHOICES)
    columns = [series for series in choice_columns(every) if not set(series) <= set(absent)]
    if usual and not (columns and name_key(usual[0]) not in map(name_key, CHOICES[0])):
        return _only("choices", own, CHOICES), None
    if len(columns) == 1:
        return columns[0], None
    if columns:
        raise AmbiguousError("several series of columns could be the choices")
    series = choice_columns(every, WRONG_COLUMNS)
    wrong = usual_names(own, WRONG) or [name for columns in series[:1] for name in columns]
    if wrong and (right := usual_names([name for name in own if name not in wrong], RIGHT)):
        return (right[0], *wrong), right[0]
    raise AmbiguousError("no field has a common name for the choices")
