"""Items from rows that are read by a field map. The choices are in a list, an object, several columns, or one text cell.

A row may also mark the correct choice with `correct: true`, with scores, or with a separate column. A text cell is split
at its labels, its line ends, or at `|` or `;`. Lines before and after labeled choices, and members of an object that are
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
from robustify.base.texts import undressed
from robustify.reading.columns import (
    choice_columns,
    column_label,
    every_named,
    is_named,
    may_show,
    name_key,
    usual_name,
)
from robustify.reading.loaders import rows
from robustify.reading.loaders.option_columns import (
    NO_OPTIONS,
    ONE_TEXT,
    Choices,
    cells_of_columns,
    choices_of_columns,
    has_points,
    pieces_of,
    truth_of_member,
    without_brackets,
)
from robustify.reading.marks import labelling
from robustify.reading.printed import literal, unquoted

_TAIL = re.compile(
    r"[\W_]*(?:[^\W\d_][^\n:：]{1,30}[:：].*|(?:choose|select|pick)\s.*|https?://\S+|\(.*\)\W*)",
    re.DOTALL | re.IGNORECASE,
)
"""Line below labeled choices, such as "Source: ..." or "(from a quiz book)"."""
_LIKE_LABEL = re.compile(r"\W{0,4}(?:[^\W\d_]{3,10}\s+)?\w{1,5}\s?[^\w\s]|\S\s")
"""Start of an option that may have a label. Only such options are looked at closely."""
BY_LABEL = "labels"
LINE_ABOVE, LINE_BELOW = "a line above the options", "a line below the options"
KEPT_BELOW = "lines after its first line"
KEPT = {KEPT_BELOW: "kept as a part of the last option", ONE_TEXT: "kept as one option"}


def read_choices(
    cells: rows.Cells, choices: str | Sequence[str], key: str | None = None, usual: "FormRule | None" = None
) -> Choices:
    """Return the choices of a row from one field, or from one field per choice. `usual` is the form in most rows.

    `key` may be the field of the correct choice, or the member of each choice that marks it. Raise `ItemError` if a choice
    is not text, labels do not match the choices, several choices are marked, or the row has another form."""
    if isinstance(choices, str) and choices.startswith("="):
        return Choices(tuple(map(str.strip, choices[1:].split(","))))
    if not isinstance(choices, str):
        return choices_of_columns(cells, tuple(choices), key, usual is IN_BRACKETS)
    value, what = _written_value(rows.cell_or_none(cells, choices)), f"`{choices}`"
    if value in (None, "", [], {}, ()):
        kind = "empty" if rows.has(cells, choices) else "missing"
        raise ItemError(f"{what} is {kind}: {NO_OPTIONS}", code="no-options")
    if isinstance(value, list):
        # Lists of a Parquet file may be filled up with nulls.
        value = value[: max((i for i, text in enumerate(value, start=1) if text is not None), default=0)]
    mark = None if key is None or rows.has(cells, key) else key
    rule = form_of(value)
    if rule is None:
        raise ItemError(
            f"{what} is {rows.json_kind(value)}; expected a JSON or Python list, or choices separated by `|` or `;`",
            code="choices-type",
        )
    if usual is not None and rule is not usual and rule.form not in usual.accepts:
        raise ItemError(
            f"{what} is {rule.form}, but in most rows it is {usual.form}. Write the options of all rows in one form",
            code="other-form-of-choices",
        )
    return (usual or rule).read(value, what, mark)


def _written_value(value: object) -> object:
    """Return the list or object that a text contains in JSON or Python syntax. Return any other value unchanged."""
    written = literal(value) if isinstance(value, str) else None
    return written if isinstance(written, list | tuple | Mapping) else value


def form_of(value: object) -> "FormRule | None":
    """Return the first rule that matches the form of a value, or None if no rule matches."""
    return next((rule for rule in FORM_RULES if rule.matches(value)), None)


def usual_form(cells: Iterable[rows.Cells], choices: str | Sequence[str] | None) -> "FormRule | None":
    """Return the form in which most rows write the options of a column. Return None if each option has its own
    column. Then, the options may all be in brackets."""
    if choices is None or (isinstance(choices, str) and choices.startswith("=")):
        return None
    if not isinstance(choices, str):
        matches = [IN_BRACKETS.matches(cells_of_columns(row, choices)) for row in cells]
        return IN_BRACKETS if 2 * sum(matches) > len(matches) else None
    forms = Counter[FormRule | None]()
    for row in cells:
        with suppress(ItemError):
            forms[form_of(_written_value(rows.cell_or_none(row, choices)))] += 1
    del forms[None]
    return forms.most_common(1)[0][0] if forms else None


def _from_object(members: Mapping[str, Any], what: str, key: str | None) -> Choices:
    """Read choices from a JSON object whose names are their labels. If all values are numbers, the names are the
    choices, and the numbers are scores. If some names form a series of labels, the other members are not choices."""
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
    if values and not labels and all(isinstance(value, list) for value in values):
        name = names[0] if _member_name(names[0])[0] == "`" else "NAME"
        raise ItemError(
            f"{what} is an object of {len(names)} lists, such as one for each language. Choose one: "
            f"`--map choices={what.strip('`')}.{name}`",
            code="several-lists-of-choices",
        )
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
    shown = rows.name_like(name) and name.replace("_", "").isalnum() and may_show([name])
    return f"`{name}`" if shown else "a member"


def _from_objects(members: Sequence[Mapping[str, Any]], what: str, mark: str | None) -> Choices:
    names = dict.fromkeys(name for member in members for name in member)
    label = usual_name(names, "option_label")
    named = [name for part in ("option_mark", "option_points") for name in every_named(names, part)]
    if mark not in names:
        marked = {
            tuple(bool(truth_of_member(name, member.get(name))) for member in members) for name in named
        }
        if sum(map(any, marked)) > 1:
            several = " and ".join(f"`{name}`" for name in named)
            raise ItemError(
                f"{what} has {several}, which mark different choices. To choose one, use `--map key=NAME`.",
                code="contradicting-keys",
            )
        mark = next(iter(named), "")
    others = [name for name in names if name not in (label, mark)]
    written = [
        name for name in others if all(type(member.get(name)) in (str, int, float) for member in members)
    ]
    text = usual_name(others, "option_text") or (written[0] if len(written) == 1 else "")
    if name_key(label) == "label" and (not text or _shown_by_label(members, label, text)):
        label, text = text, label
        others = [name for name in names if name not in (label, mark)]
    if not text:
        raise ItemError(
            f"{what} has {len(written)} members that may be the text of a choice; expected one, named `text`",
            code="no-choice-text",
        )
    texts = rows.text_list([member.get(text) for member in members], what)
    labelled = _labelled(texts, [m.get(label) for m in members], what) if label else Choices(texts)
    unread = tuple(_member_name(name) for name in others if name != text)
    points = bool(mark) and is_named(mark, "option_points")
    marks = tuple(has_points(m.get(mark)) if points else m.get(mark) for m in members) if mark else ()
    if (
        points
        and sum(map(bool, marks)) == 1
        and not {1.0, 100.0} & {float(str(m[mark])) for m in members if has_points(m.get(mark))}
    ):
        raise ItemError(
            f"no choice of {what} earns full points, but one should. Correct the points, or use --skip-bad.",
            code="no-marked-choice",
        )
    return replace(labelled, marks=marks, unread=unread)


def _shown_by_label(members: Sequence[Mapping[str, Any]], label: str, value: str) -> bool:
    """Return whether labels are the texts that a web form shows, beside the `value` that it sends."""
    labels, values = ([str(member.get(name)) for member in members] for name in (label, value))
    marks = [column_label(shown)[1] or shown.strip(" ().:") for shown in labels]
    words, of_values = (sum(len(text.split()) for text in texts) for texts in (labels, values))
    longer = (words, len("".join(labels))) > (of_values, len("".join(values)))
    return name_key(value) == "value" and longer and labelling.positions_in_series(marks) is None


def _labelled(texts: tuple[str, ...], names: object, what: str) -> Choices:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != len(texts):
        raise ItemError(
            f"{what} has {len(texts)} choices, but a different number of labels; expected one label per choice",
            code="label-count",
        )
    labels = tuple(str(name).strip() if isinstance(name, str | int) else "" for name in names)
    if "" in labels or len(set(labels)) < len(labels):
        raise ItemError(
            f"{what} has an empty, repeated, or non-text label; expected one distinct label per choice",
            code="invalid-labels",
        )
    return Choices(texts, labels)


_cut = lru_cache(1)(labelling.cut_at_labels)


def _from_labelled_text(cell: str, what: str, _: str | None) -> Choices:
    cut = _cut(cell)
    assert cut is not None, what
    texts, below = _without_tail(cut.texts)
    return Choices(texts, cut.labels, cut=BY_LABEL, unread=(LINE_ABOVE,) * bool(cut.before.strip()) + below)


def _from_pieces(cell: str, what: str, _: str | None) -> Choices:
    separator, pieces = pieces_of(cell)
    texts = undressed(pieces, cut=True)
    plain = (*map(unquoted, texts),)
    return Choices(texts if {*plain} & {*texts} else plain, cut=separator)


def _equals(cell: object) -> labelling.Labelled | None:
    if not isinstance(cell, str) or "=" not in cell:
        return None
    return labelling.split_at_equals(undressed(pieces_of(cell)[1], cut=True))


def _from_equals(cell: str, what: str, _: str | None) -> Choices:
    split = _equals(cell)
    assert split is not None, what
    return Choices(split.texts, split.labels, cut=BY_LABEL)


def _from_list(listed: Sequence[object], what: str, _: str | None) -> Choices:
    return Choices(rows.text_list(listed, what))


def _from_labelled_list(listed: Sequence[object], what: str, _: str | None) -> Choices:
    texts = rows.text_list(listed, what)
    labelled, unread = _beside_labels(texts) or (texts, ())
    return Choices(labelled, unread=unread)


def _from_parallel(value: Mapping[str, Any], what: str, _: str | None) -> Choices:
    if "text" not in value:
        return Choices(rows.text_list(value["choices"], what), marks=tuple(value["labels"]))
    texts = rows.text_list(value["text"], what)
    return _labelled(texts, value["label"], what) if "label" in value else Choices(texts)


def _is_parallel(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return "text" in value or all(isinstance(value.get(name), list) for name in ("choices", "labels"))


def _is_labelled_list(value: object) -> bool:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        return False
    return _beside_labels(tuple(value)) is not None


def _beside_labels(texts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the labeled choices in a list, and notes on the unlabeled members. Return None if there are no labels."""
    if len(texts) > 2 and any(_LIKE_LABEL.match(text) for text in texts[1:3]):
        for above, below in ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1)):
            inner = texts[above : len(texts) - below]
            split = labelling.split_labels(inner) if not below or _TAIL.fullmatch(texts[-1]) else None
            if split is not None and (split.in_order or inner == texts):
                inner, more = _without_tail(inner)
                return inner, (LINE_ABOVE,) * above + (LINE_BELOW,) * below + more
    return None


@dataclass(frozen=True, slots=True, eq=False)
class FormRule:
    """Form in which the options of a row are written. `read` takes a value, its name, and the member that marks the
    key. It can also read rows in the forms that it `accepts`."""

    form: str
    matches: Callable[[Any], bool]
    read: Callable[[Any, str, str | None], Choices]
    accepts: tuple[str, ...] = ()


def _pairs(value: object) -> Mapping[str, Any]:
    """Return the options by label from a list of pairs or of one-member objects. Other values have none."""
    members = value if isinstance(value, list | tuple) else ()
    pairs = [
        next(iter(part.items())) if isinstance(part, Mapping) and len(part) == 1 else part for part in members
    ]
    if all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        labels = [pair[0].strip(" ().:") for pair in pairs]
        if len(labels) > 1 and labelling.positions_in_series(labels) is not None:
            return dict(pairs)
    return {}


FORM_RULES = (
    FormRule(
        "a list of labels and options",
        lambda v: bool(_pairs(v)),
        lambda v, what, key: _from_object(_pairs(v), what, key),
    ),
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
    FormRule("one text with labels such as A=", lambda v: _equals(v) is not None, _from_equals),
    FormRule(
        "one text with separators",
        lambda v: isinstance(v, str) and bool(pieces_of(v)[1]),
        _from_pieces,
        ("one text with labels such as A=",),
    ),
    FormRule("a list with labels", _is_labelled_list, _from_labelled_list, ("a list",)),
    FormRule(
        "a list", lambda v: not isinstance(v, str) and v is not None, _from_list, ("a list with labels",)
    ),
)
"""Forms in order, the most specific first. The form of most rows is that of the file."""
IN_BRACKETS = FormRule(
    "a list of one text in each column",
    lambda values: without_brackets(values) is not values,
    lambda values, what, _: Choices(rows.text_list(without_brackets(values), what)),
)
"""Form of options in columns of their own. It is read only if most rows have it."""


def _without_tail(texts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return labeled choices without the lines after the last choice, if every other choice has one line."""
    for separator in ("\n", "|"):
        last, *below = [line for line in texts[-1].split(separator) if line.strip()] or [""]
        if below and not any(separator in text.strip() for text in texts[:-1]):
            if _TAIL.fullmatch(below[0].strip()):
                return (*texts[:-1], last.strip()), (LINE_BELOW,)
            return texts, (KEPT_BELOW,)
    return texts, ()
