"""Choice of the columns that contain the parts of an item, by the user's field map or by common names.

If two columns could both be the stem or the choices, the file is refused. The correct choice may have a separate column,
which is then also one of the choices (`choices: [right, wrong1, wrong2], key: right`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from string import ascii_lowercase

from robustify.base.errors import DataError
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import Cells, SourceTable, cell_or_none

# Each line lists synonyms. A later line counts only if no name of an earlier line is present.
STEMS = (
    ("stem", "question", "query", "question_stem"),
    ("prompt", "input", "sentence", "ctx", "goal"),
    ("question_text", "problem", "qtext", "full_question", "startphrase", "citing_prompt", "instruction"),
    ("frage", "fragestellung", "fragetext", "pregunta", "enunciado"),
)  # fmt: skip
CHOICES = (
    ("choices", "options"),
    ("mc1_targets", "target_scores"),
    ("endings", "answers", "candidates", "choice"),
    ("opciones", "alternativas", "respuestas", "antworten", "optionen", "antwortmoglichkeiten"),
)
KEYS = (
    ("correct_answer", "correct_option", "correct_choice", "correct_index", "right_answer", "right_option", "cop",
     "correct_answer_num", "correct_answer_id", "correct_answer_index", "correct_option_index", "correct_letter"),
    ("key", "answerKey", "answer_key", "answer_idx", "answer_index", "answer_letter", "target_idx", "gold", "gold_label",
     "gold_index"),
    ("answer",),
    ("label", "target"),
    ("correct",),
    ("answer_text", "ideal", "ra", "q_ans", "richtige_antwort", "korrekte_antwort", "richtige_losung",
     "respuesta_correcta", "opcion_correcta"),
    ("richtig", "korrekt", "correcta", "correcto", "clave"),
    ("final_decision",),
    ("losung", "loesung", "solucion", "antwort", "respuesta"),
)  # fmt: skip
RIGHT = (
    ("correct_answer", "right_answer", "best_answer", "chosen", "gold_ending", "sentence_good"),
    ("answer", "correct", "ideal", "correct_answers", "right_answers"),
    ("richtige_antwort", "korrekte_antwort", "respuesta_correcta"),
    ("antwort", "respuesta", "richtig", "correcta"),
)
SEVERAL_WRONG = (
    "incorrect_answers", "wrong_answers", "distractors", "falsche_antworten", "falsch", "respuestas_incorrectas",
)  # fmt: skip
"""Fields that contain all wrong choices. In a flat file, they are in one cell."""
WRONG = ((*SEVERAL_WRONG, "rejected", "incorrect_answer", "wrong_answer", "sentence_bad"),)
IDS = (("id", "#id"), ("question_id", "qid", "item_id", "uid", "uuid", "_id", "record_id", "nr"))
TOPICS = (
    ("topic",),
    ("subject",),
    ("category",),
    ("activity_label", "high-level domain", "thema", "tema", "categoria"),
)
PASSAGES = (
    ("passage", "context", "article"),
    (
        "contexts",
        "narrative",
        "story",
        "puzzle",
        "flores_passage",
        "dialogue",
        "paragraph",
        "kontext",
        "contexto",
    ),
)
LOGGED_TARGET = "target of the log"
"""Field of a log that repeats the key of its item. It tells how the key counts, but it is not read as the key."""
_ORDERS = (list(ascii_lowercase), [str(n) for n in range(26)], [str(n) for n in range(1, 27)])
_OPTION_COLUMNS = frozenset(
    ("", "option", "choice", "opt", "op", "answer", "ans", "ending", "sol", "mcanswer", "qop", "holding", "hypothesis",
     "antwort", "antwortoption", "opcion", "respuesta", "alternativa")
)  # fmt: skip
_WRONG_COLUMNS = frozenset(
    ("incorrectanswer", "wronganswer", "distractor", "incorrect", "wrong", "falscheantwort", "falsch", "distraktor",
     "respuestaincorrecta", "incorrecta", "falsa")
)  # fmt: skip
_COLUMN = re.compile(r"\(?((?:[^\W\d]|[ -])*?)[ _-]*\(?([a-z]|[0-9]{1,2})\s*[).:]?", re.IGNORECASE)
_PLAIN = str.maketrans("áéíóúüöäñ", "aeiouuoan")
_BETWEEN = re.compile(r"[\s_-]+")
_ROWS_LOOKED_AT = 1000
"""Number of rows in which empty columns are looked for, spread over the file."""


@lru_cache(4096)
def name_key(name: str) -> str:
    """Normalize a field name for comparison, ignoring case, accents, spaces, hyphens, and underscores."""
    return _BETWEEN.sub("", name).casefold().translate(_PLAIN)


_KNOWN_NAMES = frozenset(
    name_key(name)
    for part in (STEMS, CHOICES, KEYS, RIGHT, WRONG, IDS, TOPICS, PASSAGES)
    for line in part
    for name in line
)


def known_name(name: str) -> bool:
    """Return whether a field of this name is known as a part of an item."""
    return name_key(name) in _KNOWN_NAMES or column_label(name)[0] != ""


def usual_names(names: Iterable[str], ranks: Sequence[Sequence[str]]) -> list[str]:
    """Return the field names in the first group of synonyms that has any, ignoring case and separators."""
    there: dict[str, list[str]] = {}
    for name in names:
        there.setdefault(name_key(name), []).append(name)
    found = ([name for known in map(name_key, rank) for name in there.get(known, ())] for rank in ranks)
    return next(filter(None, found), [])


@lru_cache(4096)
def column_label(name: str) -> tuple[str, str]:
    """Return the prefix and the label of an option column, such as `option` and `B`, or two empty texts."""
    match = _COLUMN.fullmatch(name)
    prefix = name_key(match[1]) if match else ""
    return (prefix, match[2]) if match and prefix in _OPTION_COLUMNS | _WRONG_COLUMNS else ("", "")


def choice_columns(names: Iterable[str], prefixes: Iterable[str] = _OPTION_COLUMNS) -> list[tuple[str, ...]]:
    """Return series of option columns, such as A B C D, or option1 option2. Each has two or more, from A, 0, or 1."""
    series: dict[str, dict[str, str]] = {}
    for name in names:
        prefix, label = column_label(name)
        if label and prefix in prefixes:
            series.setdefault(prefix, {})[label.casefold()] = name
    return [
        tuple(members[at] for at in order[: len(members)])
        for members in series.values()
        for order in _ORDERS
        if len(members) > 1 and set(members) == set(order[: len(members)])
    ]


def several(choices: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the fields of the choices as a tuple."""
    return (choices,) if isinstance(choices, str) else tuple(choices or ())


class ColumnError(DataError):
    """Error for a part of an item whose field is missing or ambiguous."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Field names of a table, the most common first, and the number of rows with a value in each.

    `example` is a row with the most common names."""

    names: tuple[str, ...]
    filled: Mapping[str, int]
    example: Cells

    @classmethod
    def of(cls, table: SourceTable) -> "Columns":
        """Collect the field names of a table. The first rows may be bad, so the most common names come first."""
        rows, shapes, examples = table.rows, Counter[tuple[str, ...]](), dict[tuple[str, ...], Cells]()
        for row in rows[:1] if table.names else rows:
            shapes[shape := tuple(row.cells)] += len(rows) if table.names else 1
            examples.setdefault(shape, row.cells)
        usual = shapes.most_common(1)[0][0]
        some = islice(rows, 0, None, max(1, shapes.total() // _ROWS_LOOKED_AT))
        pairs = ((name, cell) for row in some for name, cell in row.cells.items() if cell is not None)
        filled = Counter(name for name, cell in pairs if not isinstance(cell, str) or cell.strip())
        names = dict.fromkeys([*usual, *(name for shape in shapes for name in shape)])
        return cls(tuple(names), filled, examples[usual])


def complete(fields: FieldMap, columns: Columns) -> FieldMap:
    """Fill in the missing parts of a field map by common names.

    An ID, topic, or passage that `fields` sets to null stays out. The key is None if no field has a common name for it.
    Raise `ColumnError`, which names the part, if another part is missing or two fields could be the part."""
    taken = {fields.stem, fields.key, fields.id, fields.topic, fields.passage, *several(fields.choices)}
    every = [name for name in columns.names if name not in taken]
    own = [name for name in every if name in columns.example and columns.filled[name]]
    choices, key = fields.choices, fields.key
    if choices is None:
        try:
            choices, right = _choices(own, every, columns)
        except ColumnError:
            # Most rows may be open questions without options.
            choices, right = _choices([name for name in every if columns.filled[name]], every, columns)
        key = key or right
    own = [name for name in own if name not in several(choices)]
    keys = [name for rank in KEYS for name in usual_names(own, [rank])]
    # A sparse field never wins over a full one.
    most = max((columns.filled[name] for name in keys), default=0)
    key = key or next((name for name in keys if 10 * columns.filled[name] >= 9 * most), None)
    stem = fields.stem or _only("stem", [name for name in own if name != key], STEMS)
    free = [name for name in every if name != stem and name not in several(choices)]
    # A field that is null in the first rows may have values later in the file.
    filled = [name for name in free if columns.filled[name]]
    parts = {"id": IDS, "topic": TOPICS, "passage": PASSAGES}
    more = {
        part: getattr(fields, part)
        if part in fields.model_fields_set
        else next(iter(usual_names(filled, ranks) or usual_names(free, ranks)), None)
        for part, ranks in parts.items()
    }
    asked, above = (cell_or_none(columns.example, name or "") for name in (stem, more["passage"]))
    if isinstance(asked, str) and isinstance(above, str) and asked in above and fields.passage is None:
        more["passage"] = None  # a whole prompt
    return FieldMap(stem=stem, choices=choices, key=key, key_is=fields.key_is, **more)


def _only(part: str, names: Iterable[str], ranks: Sequence[Sequence[str]]) -> str:
    usual = usual_names(names, ranks)
    if not usual:
        raise ColumnError(f"no field has one of the usual names for the {part}")
    if len(usual) > 1:
        raise ColumnError(f"{' and '.join(f'`{name}`' for name in usual)} could each be the {part}")
    return usual[0]


def _choices(
    own: Sequence[str], every: Sequence[str], table: Columns
) -> tuple[str | tuple[str, ...], str | None]:
    """Return the fields of the choices, and the field that always contains the right choice, if any."""
    columns = [series for series in choice_columns(every) if any(table.filled[name] for name in series)]
    numbered = {name for series in columns for name in series}  # "Option S" is not "options"
    own = [name for name in own if name not in numbered]
    usual = usual_names(own, CHOICES)
    if usual and not (columns and name_key(usual[0]) not in map(name_key, CHOICES[0])):
        return _only("choices", own, CHOICES), None
    if len(columns) == 1:
        return columns[0], None
    if columns:
        raise ColumnError("several series of columns could be the choices")
    series = choice_columns(every, _WRONG_COLUMNS)
    wrong = usual_names(own, WRONG) or [name for columns in series[:1] for name in columns]
    if wrong and (right := usual_names([name for name in own if name not in wrong], RIGHT)):
        return (right[0], *wrong), right[0]
    raise ColumnError("no field has one of the usual names for the choices")
