"""A reply as its parsers read it: without reasoning, its balanced brackets, and the values written in them.

Nothing is evaluated. A quotation mark opens a string only where a value can begin, so that inches and apostrophes in prose
are skipped. A span is read as JSON, else as a Python literal with its quotes made straight, which also allows a trailing
comma. Objects are `Pairs`, so that a key given twice is seen.
"""

import ast
import json
import re
import unicodedata
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from robustify.freeform.answer_text import MOST, split_reasoning
from robustify.freeform.schema import ErrorType

MOST_SPANS = 1000
"""Spans of a reply that are read, counted from its end: the last structure is the answer."""
MOST_LENIENT = 100_000
"""Characters of a reply that may be read as a Python literal."""
MANY = 20_000
"""Brackets, lines, tags or quotes of a reply; one with more of a kind is `unsafe_input`, as no judge writes so many."""
MANY_TAGS = 100_000
"""The same for tags before the reasoning is cut off, which may be long and quote much."""
LONG = 100_000
_BESIDE = 300
"""Characters on either side that decide whether a structure is on lines of its own."""
INVISIBLE = re.compile("[\u200b-\u200f\u2060\u2063\ufeff]")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*[\w+-]*[ \t]*$", re.MULTILINE)
_INTRO = re.compile(
    r"(?:the\s+)?(?:final\s+)?(?:labels?|answers?|results?|output)(?:\s+(?:are|is))?\s*:?|`{3,}\s*\w*",
    re.IGNORECASE,
)
_CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_TOKENS = re.compile(r"[\[\]{}]|(?<=[\[{,:(])\s{0,200}(?P<quote>[\"'])")
_CLOSES = {"]": "[", "}": "{"}


class Span(NamedTuple):
    """Characters `start` to `end` of a text, brackets included."""

    start: int
    end: int


class Scan(NamedTuple):
    """Outermost balanced spans in order, and the positions of brackets that never closed."""

    closed: tuple[Span, ...]
    left_open: tuple[int, ...]


def spans(text: str) -> Scan:
    """Scan a text once; linear in its length."""
    opened: list[tuple[str, int]] = []
    waiting = {"[": 0, "{": 0}
    unclosed: set[str] = set()
    found: list[Span] = []
    at = 0
    while (token := _TOKENS.search(text, at)) is not None:
        mark, at = token[0], token.end()
        if (quote := token["quote"]) is not None:
            if opened and quote not in unclosed:
                end = _string_end(text, at, quote)
                unclosed |= {quote} if end < 0 else set()
                at = max(at, end)
        elif mark in waiting:
            opened.append((mark, at - 1))
            waiting[mark] += 1
        elif waiting[_CLOSES[mark]]:
            # Brackets inside it that never closed are forgotten.
            kind, start = "", at
            while kind != _CLOSES[mark]:
                kind, start = opened.pop()
                waiting[kind] -= 1
            while found and found[-1].start > start:
                found.pop()
            found.append(Span(start, at))
    return Scan(tuple(found), tuple(start for _, start in opened))


def _string_end(text: str, at: int, quote: str) -> int:
    """Return the position after the closing quote, or -1."""
    while (end := text.find(quote, at)) >= 0:
        slashes = end
        while slashes > at and text[slashes - 1] == "\\":
            slashes -= 1
        if (end - slashes) % 2 == 0:
            return end + 1
        at = end + 1
    return -1


class Pairs(tuple[tuple[str, Any], ...]):
    """An object as it was written: its pairs in order, keys as often as they were given."""

    __slots__ = ()

    def all(self, key: str) -> list[Any]:
        """Return every value that was given for a key."""
        return [value for name, value in self if name == key]


def values_in(text: str, scan: Scan) -> Iterator[tuple[Span, Any]]:
    """Yield the spans with their values, the last one first; the value is None if a span is not readable."""
    left = MOST_LENIENT
    for span in scan.closed[-MOST_SPANS:][::-1]:
        written = text[span.start : span.end]
        try:
            value = json.loads(written, object_pairs_hook=Pairs, strict=False)
        except (ValueError, RecursionError):
            left -= len(written)
            value = _literal(written.translate(_CURLY)) if left >= 0 else None
        yield span, value


def _literal(written: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _value(ast.parse(written.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=str() | bool() | int() | float() | None as value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys=keys, values=values):
            names = [str(_value(key)) if key is not None else "" for key in keys]
            return Pairs(zip(names, map(_value, values), strict=True))
        case _:
            raise ValueError


def readable(response: str) -> tuple[str, ErrorType | None]:
    """Return a reply without reasoning, fences and invisible characters, or why it is not read."""
    if len(response) > MOST or response.count("<") > MANY_TAGS:
        return "", "unsafe_input"
    if not response.strip():
        return "", "empty"
    split = split_reasoning(response)
    if split.unterminated:
        return "", "unterminated_reasoning"
    text = split.text
    if any(sum(map(text.count, marks)) > MANY for marks in ("[]{}", "\n\r", "<>", "\"'")):
        return "", "unsafe_input"
    # One character can become eighteen; long replies are read as they are.
    if len(text) <= LONG and not text.isascii():
        text = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    text = _FENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return (text, None) if text.strip() else ("", "empty")


def prose(text: str) -> bool:
    """Return whether text holds words other than "Labels:", "Final answer:" and the like."""
    return re.search(r"\w", _INTRO.sub("", text)) is not None


def inline(text: str, start: int, end: int) -> bool:
    """Return whether there are other words on the lines of a structure."""
    # A reply of one long line must not be read once for each of its structures.
    before = text[max(0, start - _BESIDE) : start].rpartition("\n")[2]
    after = text[end : end + _BESIDE].partition("\n")[0]
    return prose(before) or prose(after)
