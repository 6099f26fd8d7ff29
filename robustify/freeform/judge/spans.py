"""A reply as its parsers read it: without reasoning, its balanced brackets, the values written in them.

Nothing is evaluated. `spans` gives every outermost `[...]` and `{...}` and what was left open at the end. A quotation
mark opens a string only where a value can begin, so that inches and apostrophes in prose are skipped. A span is decoded
as JSON, then within a budget in spellings that models write for it, so that the time for any reply is bounded. Objects
are `Pairs`, so that a key given twice is seen.
"""

import ast
import json
import re
import unicodedata
import warnings
from typing import Any, NamedTuple

from robustify.freeform.answer_text import MOST, split_reasoning
from robustify.freeform.schema import ErrorType

MOST_SPANS = 1000
"""Spans of a reply that are decoded, counted from its end: the last structure is the answer."""
_TOKENS = re.compile(r"[\[\]{}\"']")
_CLOSES = {"]": "[", "}": "{"}
_OPENS_A_STRING = "[{,:("


class Span(NamedTuple):
    """Characters `start` to `end` of a text, brackets included."""

    start: int
    end: int


class Scan(NamedTuple):
    """Outermost balanced spans in order, and the places of brackets that never closed."""

    closed: tuple[Span, ...]
    left_open: tuple[int, ...]


def spans(text: str) -> Scan:
    """Scan a text once; linear in its length."""
    opened: list[tuple[str, int]] = []
    waiting = {"[": 0, "{": 0}
    unclosed_quotes: set[str] = set()
    found: list[Span] = []
    place = 0
    while (token := _TOKENS.search(text, place)) is not None:
        mark, at = token[0], token.start()
        place = at + 1
        if mark in "\"'":
            if opened and mark not in unclosed_quotes and _opens_a_string(text, at):
                end = _string_end(text, at)
                if end < 0:
                    unclosed_quotes.add(mark)
                else:
                    place = end
        elif mark in waiting:
            opened.append((mark, at))
            waiting[mark] += 1
        elif waiting[_CLOSES[mark]]:
            # Brackets inside it that never closed are forgotten.
            kind, start = "", place
            while kind != _CLOSES[mark]:
                kind, start = opened.pop()
                waiting[kind] -= 1
            while found and found[-1].start > start:
                found.pop()
            found.append(Span(start, place))
    return Scan(tuple(found), tuple(at for _, at in opened))


def _opens_a_string(text: str, at: int) -> bool:
    before = at - 1
    # Blanks before a value are few; a longer run is no reply of a judge.
    while before >= 0 and at - before < 200 and text[before].isspace():
        before -= 1
    return before >= 0 and text[before] in _OPENS_A_STRING


def _string_end(text: str, at: int) -> int:
    """The place after the closing quote, or -1."""
    quote, place = text[at], at + 1
    while (end := text.find(quote, place)) >= 0:
        slashes = end
        while slashes > place and text[slashes - 1] == "\\":
            slashes -= 1
        if (end - slashes) % 2 == 0:
            return end + 1
        place = end + 1
    return -1


MOST_LENIENT = 100_000
"""Characters a reply may have tried in spellings that are not JSON."""
_CURLY = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")


class Pairs(tuple[tuple[str, Any], ...]):
    """An object as it was written: its pairs in order, keys as often as they were given."""

    __slots__ = ()

    def all(self, key: str) -> list[Any]:
        """Every value that was given for a key."""
        return [value for name, value in self if name == key]


class Undecodable(Exception):
    """A span that is no value."""


class Reader:
    """Decodes the spans of one reply within one budget of lenient tries."""

    __slots__ = ("_left", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = MOST_LENIENT

    def read(self, span: Span) -> Any:
        """The value of a span.

        Raises:
            Undecodable: it is none.
        """
        written = self._text[span.start : span.end]
        if (value := _decoded(written)) is not None:
            return value
        self._left -= len(written)
        if self._left < 0:
            raise Undecodable
        straight = written.translate(_CURLY)
        for spelling in dict.fromkeys((written, straight, _TRAILING_COMMA.sub(r"\1", straight))):
            value = _lenient(spelling)
            if value is not None:
                return value
        raise Undecodable


def _decoded(written: str) -> Any:
    try:
        return json.loads(written, object_pairs_hook=Pairs, strict=False)
    except (ValueError, RecursionError):
        return None


def _lenient(written: str) -> Any:
    if (value := _decoded(written)) is not None:
        return value
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


# What is around the structures

MANY = 20_000
"""Brackets, lines, tags or quotes of a reply; one with more of a kind is `unsafe_input`, as no judge writes so many."""
MANY_TAGS = 100_000
"""The same for tags before the reasoning is cut off, which may be long and quote much."""
LONG = 100_000
_BESIDE = 300
"""Characters on either side that decide whether a structure is on lines of its own."""
INVISIBLE = re.compile("[\u200b-\u200f\u2060\u2063\ufeff]")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*[\w+-]*[ \t]*$", re.MULTILINE)
_SAID = re.compile(r"\w")
_INTRO = re.compile(
    r"(?:the\s+)?(?:final\s+)?(?:labels?|answers?|results?|output)(?:\s+(?:are|is))?\s*:?|`{3,}\s*\w*",
    re.IGNORECASE,
)


def readable(response: str) -> tuple[str, ErrorType | None]:
    """A reply as its parsers read it: no reasoning, no fence lines, no invisible characters; or why it is not read."""
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
    """Whether text holds words other than "Labels:", "Final answer:" and the like."""
    return _SAID.search(_INTRO.sub("", text)) is not None


def inline(text: str, start: int, end: int) -> bool:
    """Whether there are other words on the lines of a structure."""
    # A reply of one long line must not be read once for each of its structures.
    before = text[max(0, start - _BESIDE) : start].rpartition("\n")[2]
    after = text[end : end + _BESIDE].partition("\n")[0]
    return prose(before) or prose(after)
