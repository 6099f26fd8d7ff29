"""Choices of one row, given as a list, an object, several columns, or one text cell.

A row may also mark the correct choice with `correct: true`, with scores, or with a separate column. A text cell is split
at its labels, its line ends, or at `|` or `;`. Lines before and after labelled choices, and members of an object that are
no labels beside labels, are no choices. The caller checks that all rows are split at the same separator.
"""

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any

from robustify.errors import ItemError
from robustify.loaders.rows import (
    Cells,
    as_object,
    cell_value,
    choice_text,
    has,
    json_kind,
    name_like,
    text_list,
)
from robustify.marks.labelling import Cut, cut_at_labels, positions_in_series, split_labels
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
_TAIL = re.compile(r"[\W_]*(?:[^\W\d_][^\n:：]{1,30}[:：].*|https?://\S+|\(.*\)\W*)", re.DOTALL)
"""Line below labelled choices, such as "Source: ..." or "(from a quiz book)"."""
_SEPARATORS = ("\n", "|", ";")
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "n", "0", "0.0", ""), False),
}
_LIKE_LABEL = re.compile(r"\W{0,4}(?:[^\W\d_]{3,10}\s+)?\w{1,5}\s?[^\w\s]|\S\s")
"""Start of an option that may have a label. Only such options are looked at closely."""
BY_LABEL = "labels"
LINE_ABOVE, LINE_BELOW = "a line above the options", "a line below the options"
KEPT_BELOW = "lines after its first line"


class SeveralRightError(ItemError):
    """Error for an item with several right answers, of which robustify can ask only one."""

    def __init__(self, n: int) -> None:
        super().__init__(
            f"the item has several right answers ({n} are named); expected one. Set such rows aside with --skip-bad, or "
            "keep one right answer."
        )


@dataclass(frozen=True, slots=True, repr=False)
class Choices(HoldsText):
    """Choices of a row, with any labels and any marks that show which choice is correct. `cut` is the separator if the
    choices came in one cell. `unread` names what stood beside the choices and is none."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    marks: tuple[object, ...] = ()
    cut: str = ""
    unread: tuple[str, ...] = ()

    @property
    def right(self) -> int:
        """Index of the only choice marked as correct. Raises `ItemError` if none or several are marked."""
        right = [at for at, mark in enumerate(self.marks) if truth(mark)]
        if len(right) > 1:
            raise SeveralRightError(len(right))
        if not right:
            raise ItemError("no choice is marked as correct; expected one")
        return right[0]


def truth(mark: object) -> object:
    """Return what a mark such as `yes`, `0` or `true` says, or None for a text that says neither."""
    return _TRUTHS.get(mark.strip().casefold()) if isinstance(mark, str) else mark


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
    match = _COLUMN.fullmatch(name)
    prefix = name_key(match[1]) if match else ""
    return (prefix, match[2]) if match and prefix in OPTION_COLUMNS | WRONG_COLUMNS else ("", "")


def read_choices(cells: Cells, choices: str | Sequence[str], key: str | None = None) -> Choices:
    """Return the choices of a row from one field, or from one field per choice.

    `key` may be the field of the correct choice, or the member of each choice that marks it. Raise `ItemError` if a choice
    is not text, labels do not match the choices, or several choices are marked."""
    if not isinstance(choices, str):
        return _from_columns(cells, choices, key)
    value, what = cell_value(cells, choices), f"`{choices}`"
    mark = None if key is None or has(cells, key) else key
    match _unpacked(value, what) if isinstance(value, str) else value:
        case Choices() as found:
            return found
        case {"choices": list(texts), "labels": list(marks)}:
            return Choices(text_list(texts, what), marks=tuple(marks))
        case {"text": texts, "label": names}:
            return _labelled(text_list(texts, what), names, what)
        case {"text": texts}:
            return Choices(text_list(texts, what))
        case Mapping() as members:
            return _from_object(members, what, mark)
        case [Mapping(), *_] as listed:
            return _from_objects([as_object(member) for member in listed], what, mark)
        case listed:
            texts, unread = _beside_labels(text_list(listed, what))
            return Choices(texts, unread=unread)


def _from_object(members: Mapping[str, Any], what: str, key: str | None) -> Choices:
    """Read choices from a JSON object whose names are their labels. If all values are numbers, the names are the choices,
    and the numbers are scores. Beside labels of a series, other members are no choices."""
    labels = label_members(members)
    if not labels and members and all(isinstance(value, int | float) for value in members.values()):
        return Choices(tuple(members), marks=tuple(members.values()))
    names = [name for name in members if not labels or name in labels]
    # Every row of an Arrow struct has all labels. Nulls at the end are missing choices.
    while names and members[names[-1]] is None:
        names.pop()
    unread = tuple(member_name(name) for name in members if labels and name not in labels)
    values = [members[name] for name in names]
    if values and all(isinstance(value, Mapping) for value in values):
        inner = _from_objects(values, what, key)
        return replace(inner, labels=tuple(names), unread=unread + inner.unread)
    return Choices(text_list(values, what), tuple(names), unread=unread)


def label_members(names: Iterable[str]) -> dict[str, str]:
    """Map the member names of an object that are labels, such as `A` or `option_a`, to their labels. Return an empty
    mapping unless at least two form a series from its beginning."""
    for series in (*choice_columns(names), *([[name for name in names if len(name.strip(" ().:")) <= 4]])):
        marks = [_column(name)[1] or name.strip(" ().:") for name in series]
        if len(marks) > 1 and positions_in_series(marks) is not None:
            return dict(zip(series, marks, strict=True))
    return {}


def member_name(name: str) -> str:
    """Return the name of a member in backquotes, or no name if it may be item text."""
    return f"`{name}`" if name_like(name) and name.replace("_", "").isalnum() else "a member"


def _from_objects(members: Sequence[Mapping[str, Any]], what: str, mark: str | None) -> Choices:
    names = dict.fromkeys(name for member in members for name in member)
    label = next(iter(usual_names(names, LABELS)), "")
    mark = mark if mark in names else next(iter(usual_names(names, MARKS)), "")
    others = [name for name in names if name not in (label, mark)]
    written = [name for name in others if all(_is_text(member.get(name)) for member in members)]
    text = next(iter(usual_names(others, TEXTS)), written[0] if len(written) == 1 else "")
    if not text:
        raise ItemError(
            f"{what} has {len(written)} members that may be the text of a choice; expected `text`"
        )
    texts = text_list([member.get(text) for member in members], what)
    found = _labelled(texts, [m.get(label) for m in members], what) if label else Choices(texts)
    unread = tuple(member_name(name) for name in others if name != text)
    marks = tuple(member.get(mark) for member in members) if mark else ()
    return replace(found, marks=marks, unread=unread)


def _is_text(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


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
                split = _unpacked(value, name)
                value, cut = (list(split.texts), split.cut) if isinstance(split, Choices) else (split, "")
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


def _unpacked(cell: str, what: str) -> Choices | object:
    """Split a text cell into choices, or return the JSON or Python list that it holds."""
    value = literal(cell)
    if isinstance(value, list | tuple | Mapping):
        return value
    if cut := cut_at_labels(cell):
        texts, below = _without_tail(_spaced(cell, cut))
        above = (LINE_ABOVE,) * bool(cut.before.strip())
        return Choices(texts, cut.labels, cut=BY_LABEL, unread=above + below)
    for separator in _SEPARATORS:
        pieces = [piece for piece in bare(cell).split(separator) if not is_blank(piece)]
        if len(pieces) > 1:
            return Choices(undressed(pieces, cut=True), cut=separator)
    raise ItemError(
        f"{what} is {json_kind(cell)}; expected a JSON or Python list, or choices separated by `|` or `;`"
    )


def _spaced(cell: str, cut: Cut) -> tuple[str, ...]:
    """Return the texts of a cell with the blanks before them that not all texts have."""
    texts: list[str] = []
    at = len(cut.before)
    for label, text in zip(cut.labels, cut.texts, strict=True):
        start = cell.index(text, cell.index(label, at) + len(label))
        before = cell[at:start]
        texts.append(before[len(before.rstrip()) :][1:] + text)
        at = start + len(text)
    return undressed(texts)


def literal(cell: str) -> object:
    """Return the JSON or Python value that a text cell holds, or None."""
    with suppress(ValueError):
        return json.loads(cell)
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError), warnings.catch_warnings():
        # Python's warnings about odd escapes quote the text.
        warnings.simplefilter("ignore")
        return ast.literal_eval(cell.strip())
    return None


def _beside_labels(texts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the choices of a list without unlabelled members before and after labelled ones, and what was left out."""
    if len(texts) > 2 and any(_LIKE_LABEL.match(text) for text in texts[1:3]):
        for above, below in ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1)):
            inner = texts[above : len(texts) - below]
            if (not below or _TAIL.fullmatch(texts[-1])) and split_labels(inner) is not None:
                inner, more = _without_tail(inner)
                return inner, (LINE_ABOVE,) * above + (LINE_BELOW,) * below + more
    return texts, ()


def _without_tail(texts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return labelled choices without the lines below the last one, if every other choice has one line."""
    for separator in ("\n", "|"):
        last, *below = [line for line in texts[-1].split(separator) if line.strip()] or [""]
        if below and not any(separator in text.strip() for text in texts[:-1]):
            if _TAIL.fullmatch(below[0].strip()):
                return (*texts[:-1], last.strip()), (LINE_BELOW,)
            return texts, (KEPT_BELOW,)
    return texts, ()
