"""Items of rows that are read by a field map. The choices are a list, an object, several columns, or one text cell.

A row may also mark the correct choice with `correct: true`, with scores, or with a separate column. A text cell is split
at its labels, its line ends, or at `|` or `;`. Lines before and after labelled choices, and members of an object that are
no labels beside labels, are no choices. What stands around all stems or choices of a file is taken off (`bare_items`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from robustify.base.errors import ItemError
from robustify.base.redaction import HoldsText
from robustify.base.texts import bare, is_blank, undressed
from robustify.items.item import FEWEST
from robustify.reading.loaders import rows
from robustify.reading.marks import labelling
from robustify.reading.part_rules import several
from robustify.reading.printed import literal, may_list_several, unquoted, unreadable_list
from robustify.reading.vocabulary import NAMES, choice_columns, column_label, name_key, usual_names

_TAIL = re.compile(
    r"[\W_]*(?:[^\W\d_][^\n:：]{1,30}[:：].*|(?:choose|select|pick)\s.*|https?://\S+|\(.*\)\W*)",
    re.DOTALL | re.IGNORECASE,
)
"""Line below labelled choices, such as "Source: ..." or "(from a quiz book)"."""
_SEPARATORS = ("\n", "|", ";")
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "no", "n", "0", "0.0", ""), False),
}
_LIKE_LABEL = re.compile(r"\W{0,4}(?:[^\W\d_]{3,10}\s+)?\w{1,5}\s?[^\w\s]|\S\s")
"""Start of an option that may have a label. Only such options are looked at closely."""
BY_LABEL = "labels"
ONE_TEXT = "one text that may list several wrong options"
_SEVERAL_WRONG = frozenset(map(name_key, NAMES["several_wrong"][0]))
LINE_ABOVE, LINE_BELOW = "a line above the options", "a line below the options"
KEPT_BELOW = "lines after its first line"
KEPT = {KEPT_BELOW: "kept as a part of the last option", ONE_TEXT: "kept as one option"}
NO_OPTIONS = "the row has no options. Set rows without options, such as open questions, aside with --skip-bad"


class SeveralRightError(ItemError):
    """Error for an item with several right answers, of which robustify can ask only one."""

    def __init__(self, n: int) -> None:
        several = f"several right answers ({n} are named)" if n else "no right answer"
        super().__init__(
            f"the item has {several}; expected one. Set such rows aside with --skip-bad, or keep one right answer."
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
        right = [i for i, mark in enumerate(self.marks) if truth(mark)]
        if len(right) > 1:
            raise SeveralRightError(len(right))
        if not right:
            raise ItemError("no choice is marked as correct; expected one")
        return right[0]


def truth(mark: object) -> object:
    """Return the truth value of a mark such as `yes`, `0` or `true`, or None for any other text."""
    return _TRUTHS.get(mark.strip().casefold()) if isinstance(mark, str) else mark


def read_choices(
    cells: rows.Cells, choices: str | Sequence[str], key: str | None = None, usual: "FormRule | None" = None
) -> Choices:
    """Return the choices of a row from one field, or from one field per choice. `usual` is the form of the other rows.

    `key` may be the field of the correct choice, or the member of each choice that marks it. Raise `ItemError` if a choice
    is not text, labels do not match the choices, several choices are marked, or the row has another form."""
    if isinstance(choices, str) and choices.startswith("="):
        return Choices(tuple(map(str.strip, choices[1:].split(","))))
    if not isinstance(choices, str):
        return _from_columns(cells, tuple(choices), key)
    value, what = rows.cell_or_none(cells, choices), f"`{choices}`"
    if value in (None, "", [], {}):
        raise ItemError(f"{what} is {'empty' if rows.has(cells, choices) else 'missing'}: {NO_OPTIONS}")
    mark = None if key is None or rows.has(cells, key) else key
    value = _written_value(value)
    rule = form_of(value)
    if rule is None:
        raise ItemError(
            f"{what} is {rows.json_kind(value)}; expected a JSON or Python list, or choices separated by `|` or `;`"
        )
    if usual is not None and rule is not usual:
        raise ItemError(
            f"{what} is {rule.form}, but in most rows it is {usual.form}. Write all options in one form"
        )
    return rule.read(value, what, mark)


def _written_value(value: object) -> object:
    """Return the JSON or Python list or object that a text holds, and any other value unchanged."""
    written = literal(value) if isinstance(value, str) else None
    return written if isinstance(written, list | tuple | Mapping) else value


def form_of(value: object) -> "FormRule | None":
    """Return the first rule whose form a value has, or None."""
    return next((rule for rule in FORM_RULES if rule.matches(value)), None)


def usual_form(cells: Iterable[rows.Cells], choices: str | Sequence[str] | None) -> "FormRule | None":
    """Return the form in which most rows write the options of a column, or None if each option has its own."""
    if not isinstance(choices, str) or choices.startswith("="):
        return None
    forms = Counter[FormRule | None]()
    for row in cells:
        with suppress(ItemError):
            forms[form_of(_written_value(rows.cell_or_none(row, choices)))] += 1
    del forms[None]
    return forms.most_common(1)[0][0] if forms else None


def _from_object(members: Mapping[str, Any], what: str, key: str | None) -> Choices:
    """Read choices from a JSON object whose names are their labels. If all values are numbers, the names are the choices,
    and the numbers are scores. Beside labels of a series, other members are no choices."""
    labels = _label_members(members)
    if not labels and members and all(isinstance(value, int | float) for value in members.values()):
        return Choices(tuple(members), marks=tuple(members.values()))
    names = [name for name in members if not labels or name in labels]
    # Every row of an Arrow struct has all labels. Nulls at the end are missing choices.
    while names and members[names[-1]] is None:
        names.pop()
    unread = tuple(_member_name(name) for name in members if labels and name not in labels)
    values = [members[name] for name in names]
    if values and all(isinstance(value, Mapping) for value in values):
        inner = _from_objects(values, what, key)
        return replace(inner, labels=tuple(names), unread=unread + inner.unread)
    return Choices(rows.text_list(values, what), tuple(names), unread=unread)


def _label_members(names: Iterable[str]) -> Sequence[str]:
    """Return the member names of an object that are labels, such as `A` or `option_a`, if they form a series."""
    for series in (*choice_columns(names), [name for name in names if len(name.strip(" ().:")) <= 4]):
        marks = [column_label(name)[1] or name.strip(" ().:") for name in series]
        if len(marks) > 1 and labelling.positions_in_series(marks) is not None:
            return series
    return ()


def _member_name(name: str) -> str:
    """Return the name of a member in backquotes, or "a member" if the name may be item text."""
    return f"`{name}`" if rows.name_like(name) and name.replace("_", "").isalnum() else "a member"


def _from_objects(members: Sequence[Mapping[str, Any]], what: str, mark: str | None) -> Choices:
    names = dict.fromkeys(name for member in members for name in member)
    label = next(iter(usual_names(names, NAMES["option_label"])), "")
    mark = mark if mark in names else next(iter(usual_names(names, NAMES["option_mark"])), "")
    others = [name for name in names if name not in (label, mark)]
    written = [
        name for name in others if all(type(member.get(name)) in (str, int, float) for member in members)
    ]
    text = next(iter(usual_names(others, NAMES["option_text"])), written[0] if len(written) == 1 else "")
    if not text:
        raise ItemError(
            f"{what} has {len(written)} members that may be the text of a choice; expected one, named `text`"
        )
    texts = rows.text_list([member.get(text) for member in members], what)
    labelled = _labelled(texts, [m.get(label) for m in members], what) if label else Choices(texts)
    unread = tuple(_member_name(name) for name in others if name != text)
    marks = tuple(member.get(mark) for member in members) if mark else ()
    return replace(labelled, marks=marks, unread=unread)


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


@lru_cache
def _labels_of(names: tuple[str, ...]) -> tuple[str, ...]:
    labels = tuple(column_label(name)[1].upper() for name in names)
    return labels if all(labels) else names


def _from_columns(cells: rows.Cells, names: tuple[str, ...], key: str | None) -> Choices:
    values: list[Any] = [rows.cell_or_none(cells, name) for name in names]
    while values and values[-1] in (None, ""):
        values.pop()
    if not values:
        raise ItemError(f"the columns of the options are empty: {NO_OPTIONS}")
    names = names[: len(values)]
    if key not in names:
        if {*map(type, values)} == {str}:
            bare_texts = _without_brackets(values)
            return Choices(rows.text_list(bare_texts, "the option columns"), _labels_of(names))
        return Choices(
            tuple(rows.choice_text(v, f"`{n}`") for n, v in zip(names, values, strict=True)),
            _labels_of(names),
        )
    return _right_and_wrong(names, values, key)


def _without_brackets(values: list[Any]) -> list[Any]:
    """Return the only text of each cell if all cells are written as lists of one text, such as `['red']`."""
    if not values or values[0][:1] != "[" or not all(value[:1] == "[" for value in values):
        return values
    listed = [literal(value) for value in values]
    alone = [
        texts[0]
        for texts in listed
        if isinstance(texts, list) and len(texts) == 1 and isinstance(texts[0], str)
    ]
    return alone if len(alone) == len(values) else values


def _right_and_wrong(names: Sequence[str], values: Sequence[object], key: str | None) -> Choices:
    """Read one column with the right option, and others with the wrong ones. Raise `SeveralRightError` if the right column
    holds several texts. If one column is unpacked from a written list, so are all."""
    alone = len(names) == FEWEST
    cells = [
        _several_texts(name, value, alone and name != key) for name, value in zip(names, values, strict=True)
    ]
    lists = any(isinstance(cell, list) for cell, _ in cells)
    bare = _without_brackets([v if isinstance(v, str) else "" for v in values])
    texts, marks, unread = list[str](), list[bool](), tuple[str, ...]()
    cut = ""
    cell: Any
    for name, value, (cell, separator), text in zip(names, values, cells, bare, strict=True):
        if name == key and isinstance(value, str) and name_key(name).endswith("s") and lists:
            # `correct_answers` in one text beside wrong ones in one text
            cell = _pieces(value)[1] or None
        if cell is None and isinstance(value, str):
            value = unquoted(value) if lists else value
            inner = literal(value) if lists and value.lstrip()[:1] in ("[", "(") else None
            text = value if lists else text
            is_list = isinstance(inner, list | tuple) and all(isinstance(member, str) for member in inner)
            cell = inner if is_list else text
            if (
                name != key
                and not is_list
                and may_list_several(value, name_key(name) in _SEVERAL_WRONG, alone)
            ):
                unread = (ONE_TEXT,)
        members = cell if isinstance(cell, list | tuple) else [value if cell is None else cell]
        more = rows.text_list([*members], f"`{name}`")
        if name == key and len({*more}) != 1:
            raise SeveralRightError(len({*more}))
        more = more[:1] if name == key else more
        texts += more
        marks += [name == key] * len(more)
        cut = separator or cut
    labels = _labels_of((*names,)) if len(names) == len(texts) else ()
    return Choices(tuple(texts), labels, tuple(marks), cut, unread)


def _several_texts(name: str, value: object, alone: bool) -> tuple[list[object] | None, str]:
    """Return the texts in a cell with several wrong options and their separator, or None if the cell holds one text."""
    if isinstance(value, list | tuple):
        return [*value], ""
    if isinstance(value, str) and (alone or name_key(name) in _SEVERAL_WRONG):
        written = literal(value)
        if isinstance(written, list | tuple):
            return [*written], ""
        separator, pieces = _pieces(value) if name_key(name) in _SEVERAL_WRONG else ("", [])
        if pieces:
            return [*undressed(pieces, cut=True)], separator
    return None, ""


_cut = lru_cache(1)(labelling.cut_at_labels)


def _from_labelled_text(cell: str, what: str, _: str | None) -> Choices:
    cut = _cut(cell)
    assert cut is not None, what
    texts, below = _without_tail(cut.texts)
    return Choices(texts, cut.labels, cut=BY_LABEL, unread=(LINE_ABOVE,) * bool(cut.before.strip()) + below)


def _pieces(cell: str) -> tuple[str, list[str]]:
    """Return the first separator that cuts a text into several pieces, and the pieces, or "" and none."""
    if unreadable_list(cell):
        return "", []
    cuts = (
        (separator, [piece for piece in bare(cell).split(separator) if not is_blank(piece)])
        for separator in _SEPARATORS
    )
    return next(((separator, pieces) for separator, pieces in cuts if len(pieces) > 1), ("", []))


def _from_pieces(cell: str, what: str, _: str | None) -> Choices:
    separator, pieces = _pieces(cell)
    texts = undressed(pieces, cut=True)
    plain = (*map(unquoted, texts),)
    return Choices(texts if {*plain} & {*texts} else plain, cut=separator)


def _from_list(listed: Sequence[object], what: str, _: str | None) -> Choices:
    texts, unread = _beside_labels(rows.text_list(listed, what))
    return Choices(texts, unread=unread)


def _from_parallel(value: Mapping[str, Any], what: str, _: str | None) -> Choices:
    if "text" not in value:
        return Choices(rows.text_list(value["choices"], what), marks=tuple(value["labels"]))
    texts = rows.text_list(value["text"], what)
    return _labelled(texts, value["label"], what) if "label" in value else Choices(texts)


def _is_parallel(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return "text" in value or all(isinstance(value.get(name), list) for name in ("choices", "labels"))


@dataclass(frozen=True, slots=True, eq=False)
class FormRule:
    """Form in which the options of a row are written. `read` takes a value, its name, and the member that marks the key."""

    form: str
    matches: Callable[[Any], bool]
    read: Callable[[Any, str, str | None], Choices]


FORM_RULES = (
    FormRule("parallel lists of texts and labels or marks", _is_parallel, _from_parallel),
    FormRule(
        "an object from labels to options, or from options to scores",
        lambda v: isinstance(v, Mapping),
        _from_object,
    ),
    FormRule(
        "a list of objects",
        lambda v: isinstance(v, list | tuple) and bool(v) and isinstance(v[0], Mapping),
        lambda v, what, mark: _from_objects([*map(rows.as_object, v)], what, mark),
    ),
    FormRule(
        "one text with labels",
        lambda v: isinstance(v, str) and labelling.cut_at_labels(v) is not None,
        _from_labelled_text,
    ),
    FormRule("one text with separators", lambda v: isinstance(v, str) and bool(_pieces(v)[1]), _from_pieces),
    FormRule("a list", lambda v: not isinstance(v, str) and v is not None, _from_list),
)
"""Forms in order, the most specific first. The form of most rows is that of the file."""


def _beside_labels(texts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the choices of a list without the unlabelled members around labelled ones, and notes on what was left out."""
    if len(texts) > 2 and any(_LIKE_LABEL.match(text) for text in texts[1:3]):
        for above, below in ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1)):
            inner = texts[above : len(texts) - below]
            split = labelling.split_labels(inner) if not below or _TAIL.fullmatch(texts[-1]) else None
            if split is not None and (split.in_order or inner == texts):
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


def own_label(key: object, choices: str | Sequence[str] | None, labels: Sequence[str]) -> object:
    """Replace a key that is a column name, such as `Option B`, with the label of the choice. Keep any other key."""
    if isinstance(key, str) and len(key) <= 40 and labels:
        return _labels_by_name(several(choices), tuple(labels)).get(name_key(key), key)
    return key


@lru_cache
def _labels_by_name(columns: tuple[str, ...], labels: tuple[str, ...]) -> Mapping[str, str]:
    """Return the label of each option column by its name, if no other column has this name."""
    names = [*map(name_key, columns[: len(labels)])]
    return {name: label for name, label in zip(names, labels, strict=False) if names.count(name) == 1}
