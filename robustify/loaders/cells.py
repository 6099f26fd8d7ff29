"""Typed access to the cells of a row.

A cell of the wrong type is refused by its field and type, never by its value.
"""

import re
from collections.abc import Mapping, Sequence

from robustify.errors import ItemError
from robustify.loaders.rows import Cells

_UNDECODED = re.compile("[\udc80-\udcff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_MISSING = object()


def undecoded(text: str) -> bool:
    """Whether text read with `surrogateescape` holds bytes that were not UTF-8."""
    return _UNDECODED.search(text) is not None


def kind_of(value: object) -> str:
    """The type of a JSON value in a user's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def name_like(cell: str) -> bool:
    """Whether a cell could be the name of a column: short, few words. A stem hardly ever is."""
    return bool(cell.strip()) and len(cell) <= 40 and len(cell.split()) <= 3 and cell.isprintable()


def dig(cells: Cells, name: str) -> object:
    """The cell called `name`; where there is none, a dot steps into an object.

    Raises:
        ItemError: no such field.
    """
    value = _dig(cells, name)
    if value is _MISSING:
        raise ItemError(f"no field `{name}`")
    return value


def has(cells: Cells, name: str) -> bool:
    """Whether `dig` finds something."""
    return _dig(cells, name) is not _MISSING


def _dig(cells: Cells, name: str) -> object:
    if name in cells:
        return cells[name]
    value: object = cells
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return _MISSING
        value = value[step]
    return value


def sound(value: object, what: str) -> str:
    """`value` if it is text that can be written as UTF-8.

    Raises:
        ItemError: another type, or half a character.
    """
    if not isinstance(value, str):
        raise ItemError(f"{what} is {kind_of(value)}; expected text")
    if _SURROGATE.search(value):
        if undecoded(value):
            raise ItemError(f"{what} holds bytes that are not UTF-8")
        raise ItemError(f"{what} holds half a character (a lone surrogate)")
    return value


def text(cells: Cells, name: str) -> str:
    """The text in a field, exactly as it stands."""
    return sound(dig(cells, name), f"`{name}`")


def label(cells: Cells, name: str | None) -> str:
    """An id or topic, "" where the field is missing, null or empty. Numbers are taken as written.

    Raises:
        ItemError: another type, or control characters (it will be printed on terminals).
    """
    value = _dig(cells, name) if name is not None else None
    if value is None or value is _MISSING:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 10**18:
            raise ItemError(f"`{name}` is a number of more than 18 digits; expected a name")
        return str(value)
    found = sound(value, f"`{name}`")
    if _CONTROL.search(found):
        raise ItemError(f"`{name}` holds control characters; expected a plain name")
    return found


def texts(values: object, what: str) -> tuple[str, ...]:
    """A list of choice texts.

    Raises:
        ItemError: not a list, or a member that is no text.
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ItemError(f"{what} is {kind_of(values)}; expected a list of texts")
    return tuple(sound(value, f"choice {at} of {what}") for at, value in enumerate(values, start=1))
