"""The choices of a row, in the shapes benchmarks write them, and the labels they carry.

Refuses labels that do not fit their texts: a key that names a label must find one choice.
"""

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from string import ascii_lowercase

from robustify.errors import ItemError
from robustify.loaders.cells import dig, has, kind_of, sound, texts
from robustify.loaders.rows import Cells

Labelled = tuple[tuple[str, ...], tuple[str, ...]]
"""Texts and labels; no labels, or one for each text."""
_COLUMN = re.compile(r"(|option|choice|opt|answer|ending)[ _-]?([a-z]|[0-9]{1,2})", re.IGNORECASE)
_ORDERS = (list(ascii_lowercase), [str(n) for n in range(26)], [str(n) for n in range(1, 27)])


def shape(cells: Cells, choices: str | Sequence[str], *, literals: bool) -> str:
    """The name of the layout that a choices field makes: what `validate` tells and `layout:` takes."""
    if not isinstance(choices, str):
        return "choice_columns"
    value = dig(cells, choices) if has(cells, choices) else None
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
    """Series like A B C D, option1 option2, choice_a choice_b: at least two in order, from a, 0 or 1."""
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

    Raises:
        ItemError: another shape, a choice that is no text, or labels that do not fit.
    """
    if not isinstance(choices, str):
        return _from_columns(cells, choices)
    value, what = dig(cells, choices), f"`{choices}`"
    if isinstance(value, str) and literals:
        value = _literal(value, what)
    match value:
        case {"text": found, "label": names}:
            return _labelled(texts(found, what), names, what)
        case {"text": found}:
            return texts(found, what), ()
        case Mapping():
            return _by_letter(value, what, literals=literals)
        case [Mapping(), *_]:
            members = [dict(member) if isinstance(member, Mapping) else {} for member in value]
            found = texts([member.get("text") for member in members], what)
            names = [member["label"] for member in members if "label" in member]
            return _labelled(found, names, what) if names else (found, ())
        case _:
            return texts(value, what), ()


def _by_letter(value: Mapping[str, object], what: str, *, literals: bool) -> Labelled:
    """{label: text}. Every row of an Arrow struct has all labels: null at the end means no such choice."""
    members = list(value.items())
    while literals and members and members[-1][1] is None:
        members.pop()
    return texts([found for _, found in members], what), tuple(str(name) for name, _ in members)


def _labelled(found: tuple[str, ...], names: object, what: str) -> Labelled:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != len(found):
        raise ItemError(f"{what} has {len(found)} texts, but not as many labels; expected one label a choice")
    labels = tuple(str(name).strip() if isinstance(name, str | int) else "" for name in names)
    if "" in labels or len(set(labels)) < len(labels):
        raise ItemError(
            f"{what} has a label that is empty, no text, or there twice; expected one label a choice"
        )
    return found, labels


def _from_columns(cells: Cells, names: Sequence[str]) -> Labelled:
    """One choice a column. Empty columns at the end are choices this item does not have."""
    values = [dig(cells, name) for name in names]
    while values and (values[-1] is None or values[-1] == ""):
        values.pop()
    found = tuple(sound(value, f"`{name}`") for value, name in zip(values, names, strict=False))
    matches = [_COLUMN.fullmatch(name) for name in names[: len(found)]]
    suffixes = tuple(match[2].upper() for match in matches if match)
    return found, suffixes if len(suffixes) == len(found) else tuple(names[: len(found)])


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
            f"{what} is {kind_of(cell)}; expected a list, written as JSON or Python does"
        ) from None
