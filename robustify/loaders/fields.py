"""Reader that finds the parts of an item by field name, using the user's field map or common names.

If two fields could both be the stem, the choices, or the key, the file is refused. The correct choice may have a separate
column, which is then also one of the choices (`choices: [right, wrong1, wrong2], key: right`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from robustify.errors import DataError
from robustify.loaders.choices import (
    BY_LABEL,
    LINE_ABOVE,
    WRONG_COLUMNS,
    choice_columns,
    name_key,
    read_choices,
    usual_names,
)
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import Cells, RawItem, cell_label, cell_text, cell_value, has
from robustify.marks.labelling import Labelled, split_labels

# Each line lists synonyms. A later line counts only if no name of an earlier line is present.
STEMS = (
    ("stem", "question", "query", "question_stem"),
    ("prompt", "input", "sentence", "ctx", "goal"),
    ("question_text",),
)
CHOICES = (("choices", "options"), ("mc1_targets", "target_scores"), ("endings", "answers", "candidates"))
KEYS = (
    ("correct_answer", "correct_option", "correct_choice", "correct_index", "right_answer", "right_option", "cop"),
    ("key", "answerKey", "answer_key", "answer_idx", "answer_index", "gold", "gold_label", "gold_index"),
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
LOGGED_TARGET = "target of the log"
"""Field of a log that repeats the key of its item. It tells how the key counts, but it is not read as the key."""
_LEAD, _TAIL = "Question: ", "\nAnswer:"
ROWS_LOOKED_AT = 1000
"""Number of rows in which empty columns are looked for, spread over the file."""
KNOWN_NAMES = frozenset(
    name_key(name)
    for part in (STEMS, CHOICES, KEYS, RIGHT, WRONG, IDS, TOPICS, PASSAGES)
    for line in part
    for name in line
)


def is_empty(cell: object) -> bool:
    """Return whether a cell has no value."""
    return cell is None or (isinstance(cell, str) and not cell.strip())


class AmbiguousError(DataError):
    """Error for a part of an item whose field is missing or ambiguous."""


class NoKeyError(AmbiguousError):
    """Error for a file in which no field has a common name for the key. `choices` are the fields of the choices."""

    def __init__(self, reason: str, choices: str | tuple[str, ...]) -> None:
        super().__init__(reason)
        self.choices = choices


@dataclass(frozen=True, slots=True)
class Columns:
    """Field names of a table: those of most rows, those of other rows, and the number of rows with a value in each."""

    usual: tuple[str, ...]
    more: tuple[str, ...]
    filled: Mapping[str, int]
    example: Cells

    @classmethod
    def of(cls, rows: Sequence[Cells]) -> "Columns":
        """Count the field names of a table. The first rows may be bad, so the most common names come first."""
        shapes = Counter(map(tuple, rows))
        usual = shapes.most_common(1)[0][0]
        more = dict.fromkeys(name for shape in shapes for name in shape if name not in usual)
        some = rows[:: max(1, len(rows) // ROWS_LOOKED_AT)]
        filled = Counter(name for cells in some for name, cell in cells.items() if not is_empty(cell))
        example = next(cells for cells in rows if tuple(cells) == usual)
        return cls(usual, tuple(more), filled, example)

    def keys(self, names: Iterable[str]) -> list[str]:
        """Return the fields that may be the key, the most likely first. A sparse field never wins over a full one."""
        found = [name for rank in KEYS for name in usual_names(names, [rank])]
        most = max((self.filled[name] for name in found), default=0)
        return [name for name in found if 10 * self.filled[name] >= 9 * most]


def complete(fields: FieldMap, columns: Columns) -> FieldMap:
    """Fill in a field map with common names.

    An ID, topic, or passage that `fields` sets to null stays out. A key is not needed if the choices mark the correct
    one. Raise `AmbiguousError`, which names the part, if a part is missing or two fields could be the part."""
    taken = {fields.stem, fields.key, fields.id, fields.topic, fields.passage, *several(fields.choices)}
    every = [name for name in (*columns.usual, *columns.more) if name not in taken]
    own = [name for name in every if name in columns.usual and columns.filled[name]]
    choices, key = fields.choices, fields.key
    if choices is None:
        choices, right = _choices(own, every, columns)
        key = key or right
    chosen = several(choices)
    own = [name for name in own if name not in chosen]
    if key is None and (found := columns.keys(own)):
        key = found[0]
    if key is None and not (isinstance(choices, str) and _marks(columns.example, choices)):
        raise NoKeyError("no field has a common name for the key", choices)
    stem = fields.stem or _only("stem", [name for name in own if name != key], STEMS)

    def usual(part: str, said: str | None, ranks: Sequence[Sequence[str]]) -> str | None:
        if part in fields.model_fields_set:
            return said
        free = [name for name in every if name != stem and name not in chosen]
        # A field that is null in the first rows may have values later in the file.
        found = usual_names([name for name in free if columns.filled[name]], ranks) or usual_names(
            free, ranks
        )
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


def rival_keys(fields: FieldMap, names: Sequence[str]) -> list[str]:
    """Return the names of other columns that may contain the key. If the name of the key column says "correct", only such
    columns do."""
    if fields.key is None or fields.key in several(fields.choices):
        return []
    ranks = KEYS[:1] if usual_names([fields.key], KEYS[:1]) else KEYS
    taken = {fields.key, fields.id, fields.topic, *several(fields.choices)}
    return [name for rank in ranks for name in usual_names(names, [rank]) if name not in taken]


def read_fields(cells: Cells, fields: FieldMap) -> RawItem:
    """Read a row with a complete field map. Raise `ItemError` if a field is missing or has another type."""
    found = read_choices(cells, fields.choices or "choices", fields.key)
    stem, passage = cell_text(cells, fields.stem or "stem"), ""
    if fields.passage and has(cells, fields.passage) and cell_value(cells, fields.passage) is not None:
        passage = cell_text(cells, fields.passage)
    whole, question_at = after(passage, stem)
    in_choices = fields.key is None or fields.key in several(fields.choices)
    marked = in_choices or (bool(found.marks) and not has(cells, fields.key or ""))
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
        unread=found.unread,
    )


def after(passage: str, question: str) -> tuple[str, int]:
    """Put the passage, if any, before the question. Return the stem and the index at which the question begins."""
    stem = f"{passage}\n\n{question}" if passage.strip() else question
    return stem, len(stem) - len(question)


def own_label(key: object, fields: FieldMap, labels: tuple[str, ...]) -> object:
    """Replace a key that is a column name, such as `Option B`, with the label of the choice. Keep any other key."""
    if isinstance(key, str):
        columns = zip(several(fields.choices), labels, strict=False)
        named = [label for name, label in columns if name_key(name) == name_key(key)]
        return named[0] if len(named) == 1 else key
    return key


def several(choices: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the fields of the choices as a tuple."""
    return (choices,) if isinstance(choices, str) else tuple(choices or ())


def _marks(cells: Cells, choices: str) -> bool:
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
    own: Sequence[str], every: Sequence[str], table: Columns
) -> tuple[str | tuple[str, ...], str | None]:
    usual = usual_names(own, CHOICES)
    columns = [series for series in choice_columns(every) if any(table.filled[name] for name in series)]
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


def bare_stems(raws: Sequence[RawItem]) -> Sequence[RawItem]:
    """Remove `Question: ` and `Answer:` from the stems if all stems have them."""
    lead = _LEAD if all(raw.stem.startswith(_LEAD) for raw in raws) else ""
    stems = [raw.stem.removeprefix(lead) for raw in raws]
    tail = _TAIL if all(stem.endswith(_TAIL) for stem in stems) else ""
    if not lead and not tail:
        return raws
    return [replace(raw, stem=stem.removesuffix(tail)) for raw, stem in zip(raws, stems, strict=True)]


def without_leads(raws: Sequence[RawItem]) -> Sequence[RawItem]:
    """Remove the first choice if in most items of a file it alone ends in a colon, as the line "Options:" does."""
    led = [
        not raw.labels
        and [text.rstrip()[-1:] in (":", "：") for text in raw.choices]
        == [True, *[False] * (len(raw.choices) - 1)]
        for raw in raws
    ]
    if sum(led) * 2 <= len(raws):
        return raws
    return [
        replace(raw, choices=raw.choices[lead:], unread=(*raw.unread, *[LINE_ABOVE] * lead))
        for raw, lead in zip(raws, led, strict=True)
    ]


def bare_choices(raws: Sequence[RawItem]) -> Sequence[RawItem]:
    """Remove the label from each choice, such as "(A) red", if every choice of the file has one. A key that is a label
    names the choice with this label, even if the labels are not in order."""
    found: list[Labelled] = []
    for raw in raws:
        if raw.cut == BY_LABEL:
            found.append(Labelled(raw.labels, raw.choices, tuple(range(len(raw.choices)))))
        elif (labelled := split_labels(raw.choices)) is not None:
            found.append(labelled)
        else:
            return raws
    return [_bare(raw, labelled) for raw, labelled in zip(raws, found, strict=True)]


def _bare(raw: RawItem, labelled: Labelled) -> RawItem:
    shuffled = not labelled.in_order and raw.key_is == "letter"
    labels = raw.labels or tuple(label.upper() for label in labelled.labels)
    return replace(raw, choices=labelled.texts, labels=labels, key_is="label" if shuffled else raw.key_is)
