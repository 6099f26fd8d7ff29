"""Values written in a reply: JSON first, then what models write when they mean JSON. Nothing is evaluated.

Objects come back as `Pairs`, so that a key given twice is seen. It refuses spans that are too deep, and looks at the
lenient spellings only while the budget lasts: a hostile reply costs no more than an honest one.
"""

import ast
import json
import re
import warnings
from typing import Any

from robustify.freeform.labels.spans import DEEPEST, Span

MOST_LENIENT = 100_000
"""Characters a reply may have tried in spellings that are not JSON."""
_CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
_WORD = re.compile(r"[^\W\d][\w -]{0,40}")


class Pairs(tuple[tuple[str, Any], ...]):
    """An object as it was written: its pairs in order, keys as often as they were given."""

    __slots__ = ()

    def all(self, key: str) -> list[Any]:
        """Every value that was given for a key."""
        return [value for name, value in self if name == key]


class Bare(str):
    """A word of a list that was written without quotes."""

    __slots__ = ()


class Undecodable(Exception):
    """A span that is no value."""


class Reader:
    """Decodes the spans of one reply within one budget of lenient tries."""

    __slots__ = ("_left", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = MOST_LENIENT

    def read(self, span: Span, *, bare: bool = True) -> Any:
        """The value of a span; `bare` also reads `[one, two]` as a list of words.

        Raises:
            Undecodable: it is none.
        """
        if span.depth > DEEPEST:
            raise Undecodable
        written = self._text[span.start : span.end]
        try:
            return json.loads(written, object_pairs_hook=_pairs, strict=False)
        except (ValueError, RecursionError):
            pass
        self._left -= len(written)
        if self._left < 0:
            raise Undecodable
        straight = written.translate(_CURLY)
        for spelling in dict.fromkeys((written, straight, _TRAILING_COMMA.sub(r"\1", straight))):
            value = _lenient(spelling)
            if value is not None:
                return value
        words = [word.strip() for word in straight[1:-1].split(",")]
        if bare and straight[0] == "[" and words and all(_WORD.fullmatch(word) for word in words):
            return [Bare(word) for word in words]
        raise Undecodable


def _pairs(pairs: list[tuple[str, Any]]) -> Pairs:
    return Pairs(pairs)


def _lenient(written: str) -> Any:
    try:
        return json.loads(written, object_pairs_hook=_pairs, strict=False)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _value(ast.parse(written.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Any:
    """A constant, or a list or dict of them; anything that would have to be computed is refused."""
    match node:
        case ast.Constant(value=bytes() | complex()):
            raise ValueError
        case ast.Constant(value=value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys=keys, values=values):
            return Pairs(
                (str(_value(key)) if key is not None else "", _value(value))
                for key, value in zip(keys, values, strict=True)
            )
        case _:
            raise ValueError
