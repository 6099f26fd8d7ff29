"""Options of an item, with their labels and marks, from one or several columns of a row.

One column may hold the right option, and other columns the wrong options. Each column may hold several options. If one
column is unpacked from a written list, all columns are.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from robustify.base.errors import ItemError
from robustify.base.redaction import HoldsText
from robustify.base.texts import bare, is_blank, undressed
from robustify.items.item import FEWEST
from robustify.reading.columns import NAMES, column_label, is_named, name_key, several
from robustify.reading.loaders import rows
from robustify.reading.printed import literal, may_list_several, unquoted, unreadable_list

_SEPARATORS = ("\n", "|", ";")
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "n", "0", "0.0", ""), False),
}
_MARKS = {*"01,; "}
"""Signs in a text with the marks of all options."""
ONE_TEXT = "one text that may list several wrong options"
_SEVERAL_WRONG = frozenset(map(name_key, NAMES["several_wrong"][0]))
NO_OPTIONS = "the row has no options. Set rows without options, such as open questions, aside with --skip-bad"


def right_count_error(n: int) -> ItemError:
    """Return an error for an item with `n` right answers. Robustify can ask only items with one."""
    several = f"several right answers ({n} are named)" if n else "no right answer"
    return ItemError(
        f"the item has {several}; expected one. Set such rows aside with --skip-bad, or keep one right answer.",
        code="several-right-answers",
    )


@dataclass(frozen=True, slots=True, repr=False)
class Choices(HoldsText):
    """Choices of a row, with any labels and any marks that show which choice is correct. `cut` is the separator if
    the choices came in one cell. `unread` names parts next to the choices that are not choices."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    marks: tuple[object, ...] = ()
    cut: str = ""
    unread: tuple[str, ...] = ()

    @property
    def right(self) -> int:
        """Index of the only choice marked as correct. Raises `ItemError` if none or several are marked."""
        right = [i for i, mark in enumerate(self.marks) if truth(mark)]
        if len(right) > 1:
            raise right_count_error(len(right))
        if not right:
            raise ItemError("no choice is marked as correct; expected one", code="no-marked-choice")
        return right[0]


def has_points(value: object) -> bool | None:
    """Return whether an option earns points, such as Moodle's 100, or None if the value is not a number."""
    with suppress(TypeError, ValueError):
        return float(str(value)) > 0
    return None


def truth_of_member(name: str, value: object) -> object:
    """Return the truth value of an option's member that marks the right option, or has the points that it earns."""
    return has_points(value) if is_named(name, "option_points") else truth(value)


def truth(mark: object) -> object:
    """Return the truth value of a mark such as `yes`, `0` or `true`, or None for any other text."""
    return _TRUTHS.get(mark.strip().casefold()) if isinstance(mark, str) else mark


def written_list(key: str, k: int) -> str | list[Any] | tuple[Any, ...]:
    """Return the list that a key contains, or the marks of `k` options in a key such as `0100`, as R/exams writes them.
    Return any other key unchanged."""
    if key.strip()[:1] not in ("[", "(", "0", "1"):
        return key
    written, marks = literal(key), [sign == "1" for sign in key if sign in "01"]
    if isinstance(written, list | tuple):
        return written
    return marks if len(marks) == k > FEWEST and not {*key} - _MARKS else key


@lru_cache
def _labels_of(names: tuple[str, ...]) -> tuple[str, ...]:
    labels = tuple(column_label(name)[1].upper() for name in names)
    return labels if all(labels) else names


def choices_of_columns(
    cells: rows.Cells, names: tuple[str, ...], key: str | None, in_brackets: bool = False
) -> Choices:
    """Return the choices of a row that has one choice per column. The column `key`, if given, has the right one. With
    `in_brackets`, a cell may be a list of one text. Raise `ItemError` if all are empty, one is no text, or the right
    column holds several texts."""
    values = cells_of_columns(cells, names)
    if not values:
        raise ItemError(f"the option columns are empty: {NO_OPTIONS}", code="no-options")
    names = names[: len(values)]
    if in_brackets:
        values = without_brackets(values)
    if key not in names:
        if {*map(type, values)} == {str}:
            return Choices(rows.text_list(values, "the option columns"), _labels_of(names))
        return Choices(
            tuple(rows.choice_text(v, f"`{n}`") for n, v in zip(names, values, strict=True)),
            _labels_of(names),
        )
    return _right_and_wrong(names, values, key)


def cells_of_columns(cells: rows.Cells, names: Sequence[str]) -> list[Any]:
    """Return the cells of the columns with one option each, without trailing empty cells."""
    values: list[Any] = [cells[name] if name in cells else rows.cell_or_none(cells, name) for name in names]
    while values and values[-1] in (None, ""):
        values.pop()
    return values


def without_brackets(values: list[Any]) -> list[Any]:
    """Return the only text of each cell if all cells are written as lists of one text, such as `['red']`."""
    if not values or not all(isinstance(value, str) and value[:1] == "[" for value in values):
        return values
    listed = [literal(value) for value in values]
    alone = all(isinstance(texts, list) and len(texts) == 1 and isinstance(texts[0], str) for texts in listed)
    return [texts[0] for texts in listed if isinstance(texts, list)] if alone else values


def _right_and_wrong(names: Sequence[str], values: Sequence[object], key: str | None) -> Choices:
    """Read one column with the right option, and other columns with the wrong options. Raise `ItemError` if the right
    column holds several texts. If one column is unpacked from a written list, so are all."""
    alone = len(names) == FEWEST
    cells = [
        _several_texts(name, value, alone and name != key) for name, value in zip(names, values, strict=True)
    ]
    lists = any(isinstance(cell, list) for cell, _ in cells)
    texts, marks, unread = list[str](), list[bool](), tuple[str, ...]()
    cut = ""
    cell: Any
    for name, value, (cell, separator) in zip(names, values, cells, strict=True):
        if name == key and isinstance(value, str) and name_key(name).endswith("s") and lists:
            # `correct_answers` in one text beside wrong ones in one text
            cell = pieces_of(value)[1] or None
        if cell is None and isinstance(value, str):
            value = unquoted(value) if lists else value
            inner = literal(value) if lists and value.lstrip()[:1] in ("[", "(") else None
            is_list = isinstance(inner, list | tuple) and all(isinstance(member, str) for member in inner)
            cell = inner if is_list else value
            wrong_text = name != key and not is_list
            if wrong_text and may_list_several(value, name_key(name) in _SEVERAL_WRONG, alone):
                unread = (ONE_TEXT,)
        members = cell if isinstance(cell, list | tuple) else [value if cell is None else cell]
        more = rows.text_list([*members], f"`{name}`")
        if name == key and len({*more}) != 1:
            raise right_count_error(len({*more}))
        more = more[:1] if name == key else more
        texts += more
        marks += [name == key] * len(more)
        cut = separator or cut
    labels = _labels_of((*names,)) if len(names) == len(texts) else ()
    return Choices(tuple(texts), labels, tuple(marks), cut, unread)


def _several_texts(name: str, value: object, alone: bool) -> tuple[list[object] | None, str]:
    """Return the texts in a cell with several wrong options, and their separator. Return None if the cell has one text."""
    if isinstance(value, list | tuple):
        return [*value], ""
    if isinstance(value, str) and (alone or name_key(name) in _SEVERAL_WRONG):
        written = literal(value)
        if isinstance(written, list | tuple):
            return [*written], ""
        separator, pieces = pieces_of(value) if name_key(name) in _SEVERAL_WRONG else ("", [])
        if pieces:
            return [*undressed(pieces, cut=True)], separator
    return None, ""


def pieces_of(cell: str) -> tuple[str, list[str]]:
    """Return the first separator that cuts a text into several pieces, and the pieces, or "" and no pieces."""
    if unreadable_list(cell):
        return "", []
    cuts = (
        (separator, [piece for piece in bare(cell).split(separator) if not is_blank(piece)])
        for separator in _SEPARATORS
    )
    return next(((separator, pieces) for separator, pieces in cuts if len(pieces) > 1), ("", []))


def own_label(key: object, choices: str | Sequence[str] | None, labels: Sequence[str]) -> object:
    """Replace a key that is a column name, such as `Option B`, with the label of the choice. Keep any other key."""
    # A key of one character is the label of a column that is called so.
    if isinstance(key, str) and 1 < len(key) <= 40 and labels:
        return _labels_by_name(several(choices), tuple(labels)).get(name_key(key), key)
    return key


@lru_cache
def _labels_by_name(columns: tuple[str, ...], labels: tuple[str, ...]) -> Mapping[str, str]:
    """Map the name of each option column to the option's label, if no other column has this name."""
    names = [*map(name_key, columns[: len(labels)])]
    return {name: label for name, label in zip(names, labels, strict=False) if names.count(name) == 1}
