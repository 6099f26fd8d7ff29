"""Decodes JSON more strictly than `json`: NaN and repeated field names are refused.

Its reasons never quote the text; a JSONDecodeError of the standard library carries the whole of it.
"""

import json
from collections.abc import Sequence

BLANK = " \t\r\n"


class RefusedJsonError(ValueError):
    """Valid for Python's json, but not for us. The message is shown."""


def _refuse_constant(name: str) -> object:
    raise RefusedJsonError(f"{name} is no JSON number")


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        raise RefusedJsonError("the same field name stands twice in one object")
    return whole


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)


def decode(text: str, start: int = 0) -> tuple[object, int]:
    """The value that begins at `start`, and where it ends.

    Raises:
        ValueError: no JSON, a NaN, a field twice, or a number with thousands of digits.
        RecursionError: nested too deeply.
    """
    value, end = _DECODER.raw_decode(text, start)
    return value, end


def why(error: ValueError | RecursionError, text: str) -> str:
    """The reason of an error of `decode`, without any of the text."""
    match error:
        case json.JSONDecodeError():
            early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
            return f"not valid JSON: {'it ends too early (cut off?)' if early else f'column {error.colno}'}"
        case RefusedJsonError():
            return f"not valid JSON: {error}"
        case RecursionError():
            return "JSON nested too deeply; expected a flat object"
        case _:
            return "a number with too many digits"


def line_at(text: str, place: int) -> int:
    """The line, from 1, in which the character `place` stands."""
    return text.count("\n", 0, place) + 1


def skip_blank(text: str, at: int) -> int:
    """The first place from `at` on that is no white space."""
    while at < len(text) and text[at] in BLANK:
        at += 1
    return at
