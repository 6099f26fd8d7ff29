"""Choices of one row, given as a list, an object, several columns, or one text cell.

A row may also mark the correct choice with `correct: true`, with scores, or with a separate column. A text cell is split
at its labels, its line ends, or at `|` or `;`. The caller checks that all rows are split at the same separator.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from robustify.errors import ItemError
from robustify.loaders.rows import Cells, cell_value, choice_text, has, json_kind, text_list
from robustify.redaction import HoldsText
from robustify.texts import bare, is_blank, undressed

TEXTS = (("text", "option", "answer", "content", "choice", "value"),)
LABELS = (("label", "letter", "id", "key"),)
MARKS = (("correct", "is_correct", "right", "is_right", "is_answer"),)
ORDERS = (list(ascii_lowercase), [str(n) for n in range(26)], [str(n) for n in range(1, 27)])
OPTION_COLUMNS = frozenset(("", "option", "choice", "opt", "op", "answer", "ans", "ending", "sol"))
WRONG_COLUMNS = frozenset(("incorrectanswer", "wronganswer", "distractor", "incorrect", "wrong"))
SEVERAL_WRONG = frozenset(("incorrectanswers", "wronganswers", "distractors"))
"""Fields that contain all wrong choices. In a flat file, they are in one cell."""
_COLUMN = re.compile(r"\(?([a-z _-]*?)[ _-]*\(?([a-z]|[0-9]{1,2})\s*[).:]?", re.IGNORECASE)
_BETWEEN = re.compile(r"[\s_-]+")
_FIRST_LABEL = re.compile(r"\s*(\(?)([a-z]|[0-9])([.):])\s*\S", re.IGNORECASE)
_SEPARATORS = ("\n", "|", ";")
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
BY_LABEL = "labels"


@dataclass(frozen=True, slots=True, repr=False)
class Choices(HoldsText):
    """Choices of a row, with any labels and any marks that show which choice is correct. `cut` is the separator if the
    choices came in one cell."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    marks: tuple[object, ...] = ()
    cut: str = ""

    @property
    def right(self) -> int:
        """Index of the only choice marked as correct. Raises `ItemError` if none or several are marked."""
        said = [_TRUTHS.get(m.strip().casefold()) if isinstance(m, str) else m for m in self.marks]
        right = [at for at, mark in enumerate(said) if mark]
        if len(right) != 1:
            raise ItemError(f"{len(right)} choices are marked as correct; expected one")
        return right[0]


def name_key(name: str) -> str:
    """Normalize a field name for comparison, ignoring case, spaces, hyphens, and underscores."""
    return _BETWEEN.sub("", name).casefold()


def usual_names(names: Iterable[str], ranks: Sequence[Sequence[str]]) -> list[str]:
    """Return the field names that match the first possible group of synonyms, ignoring case and separators."""
    there: dict[str, list[str]] = {}
    for name in names:
        there.setdefault(name_key(name), []).append(name)
    for rank in ranks:
        if usual := [name for known in dict.fromkeys(map(name_key, rank)) for name in there.get(known, ())]:
            return usual
    return []


def choice_columns(names: Iterable[str], prefixes: Iterable[str] = OPTION_COLUMNS) -> list[tuple[str, ...]]:
    """Return series of option columns such as A B C D, a) b) c), or option1 option2. A series has at least two columns,
    in order, and starts at A, 0, or 1."""
    series: dict[str, dict[str, str]] = {}
    for name in names:
        prefix, suffix = _column(name)
        if suffix and prefix in prefixes:
            series.setdefault(prefix, {})[suffix.casefold()] = name
    return [
        tuple(members[at] for at in order[: len(members)])
        for members in series.values()
        for order in ORDERS
        if len(members) > 1 and set(members) == set(order[: len(members)])
    ]


def _column(name: str) -> tuple[str, str]:
    """Split the name of an option column into prefix and label. Return two empty strings for other names."""
    match = _COLUMN.fullmatch(name)
    prefix = name_key(match[1]) if match else ""
    return (prefix, match[2]) if match and prefix in OPTION_COLUMNS | WRONG_COLUMNS else ("", "")


def read_choices(cells: Cells, choices: str | Sequence[str], key: str | None = None) -> Choices:
    """Return the choices of a row from one field, or from one field per choice.

    With several fields, `key` may be the field of the correct choice. Raise `ItemError` if a choice is not text, labels
    do not match the choices, or several choices are marked."""
    if not isinstance(choices, str):
        return _from_columns(cells, choices, key)
    value, what, cut = cell_value(cells, choices), f"`{choices}`", ""
    if isinstance(value, str):
        value, cut = _unpacked(value, what)
    match value:
        case {"choices": list(texts), "labels": list(marks)}:
            return Choices(text_list(texts, what), marks=tuple(marks))
        case {"text": texts, "label": names}:
            return _labelled(text_list(texts, what), names, what)
        case {"text": texts}:
            return Choices(text_list(texts, what))
        case Mapping():
            return _from_object(value, what)
        case [Mapping(), *_]:
            return _from_objects([member if isinstance(member, Mapping) else {} for member in value], what)
        case _:
            return Choices(text_list(value, what), cut=cut)


def _from_object(members: Mapping[str, Any], what: str) -> Choices:
    """Read choices from a JSON object whose names are their labels. If all values are numbers, the names are the choices,
    and the numbers are scores."""
    names, values = list(members), list(members.values())
    numbers = values and all(isinstance(value, int | float) for value in values)
    if numbers and [name.casefold() for name in names] not in [order[: len(names)] for order in ORDERS]:
        return Choices(tuple(names), marks=tuple(values))
    # Every row of an Arrow struct has all labels. Nulls at the end are missing choices.
    while values and values[-1] is None:
        values.pop()
    return Choices(text_list(values, what), tuple(map(str, names[: len(values)])))


def _from_objects(members: Sequence[Mapping[str, Any]], what: str) -> Choices:
    names = dict.fromkeys(name for member in members for name in member)
    text, label, mark = (next(iter(usual_names(names, ranks)), "") for ranks in (TEXTS, LABELS, MARKS))
    texts = text_list([member.get(text) for member in members], what)
    found = _labelled(texts, [m.get(label) for m in members], what) if label else Choices(texts)
    marks = tuple(member.get(mark) for member in members) if mark else ()
    return Choices(found.texts, found.labels, marks)


def _labelled(texts: tuple[str, ...], names: object, what: str) -> Choices:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != len(texts):
        raise ItemError(
            f"{what} has {len(texts)} choices, but a different number of labels; expected one label per choice"
        )
    labels = tuple(str(name).strip() if isinstance(name, str | int) else "" for name in names)
    if "" in labels or len(set(labels)) < len(labels):
        raise ItemError(
            f"{what} has an empty, repeated, or non-text label; expected one distinct label per choice"
        )
    return Choices(texts, labels)


def _from_columns(cells: Cells, names: Sequence[str], key: str | None) -> Choices:
    """Read choices from columns that contain one choice or a list of choices. Ignore empty columns at the end."""
    values = [(name, cell_value(cells, name) if has(cells, name) else None) for name in names]
    while values and values[-1][1] in (None, ""):
        values.pop()
    texts: list[str] = []
    marks: list[bool] = []
    cut = ""
    for name, value in values:
        marks += [name == key]
        if key in names and isinstance(value, str) and name_key(name) in SEVERAL_WRONG:
            with suppress(ItemError):
                value, cut = _unpacked(value, name)
        match value:
            case [*_, {"content": content}]:
                # In a conversation, the last turn is the reply.
                texts.append(choice_text(content, f"`{name}`"))
            case [_, *more]:
                texts += text_list(value, f"`{name}`")
                marks += [False] * len(more)
            case _:
                texts.append(choice_text(value, f"`{name}`"))
    used = [name for name, _ in values]
    suffixes = tuple(_column(name)[1].upper() for name in used)
    labels = suffixes if all(suffixes) else tuple(used)
    return Choices(
        tuple(texts), labels if len(used) == len(texts) else (), tuple(marks) * (key in names), cut
    )


def _unpacked(cell: str, what: str) -> tuple[object, str]:
    """Split a text cell into choices, and return them with their separator. The cell may be a JSON or Python list."""
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError), warnings.catch_warnings():
        # Python's warnings about odd escapes quote the text.
        warnings.simplefilter("ignore")
        value = _literal(cell.strip())
        if isinstance(value, list | tuple | Mapping):
            return value, ""
    if pieces := _at_labels(cell):
        return pieces, BY_LABEL
    for separator in _SEPARATORS:
        pieces = [piece for piece in bare(cell).split(separator) if not is_blank(piece)]
        if len(pieces) > 1:
            return list(undressed(pieces, cut=True)), separator
    raise ItemError(
        f"{what} is {json_kind(cell)}; expected a JSON or Python list, or choices separated by `|` or `;`"
    )


def _literal(cell: str) -> object:
    with suppress(ValueError):
        return json.loads(cell)
    return ast.literal_eval(cell)


def _at_labels(cell: str) -> list[str]:
    """Split `A) red | B) blue` at its labels. Return an empty list unless each label appears once and in order."""
    first = _FIRST_LABEL.match(cell)
    if first is None:
        return []
    mark = rf"(?:^|(?<=[\s|;,/])){re.escape(first[1])}([a-z]|[0-9]{{1,2}}){re.escape(first[3])}"
    marks = list(re.finditer(mark, cell, re.IGNORECASE))
    labels = [one[1].casefold() for one in marks]
    if len(labels) < 2 or labels not in [order[: len(labels)] for order in ORDERS]:
        return []
    ends = [one.start() for one in marks[1:]] + [len(cell)]
    return [cell[one.start() : end].strip(" \t\r\n|;,/") for one, end in zip(marks, ends, strict=True)]
