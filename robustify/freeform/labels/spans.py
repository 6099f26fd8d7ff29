"""Balanced brackets in prose, found in one pass that knows about strings.

`spans` gives every outermost `[...]` and `{...}` and what was left open at the end. It decodes nothing. A quotation
mark opens a string only where a value can stand, so that inches and apostrophes in prose swallow nothing.
"""

import re
from collections import deque
from typing import NamedTuple

DEEPEST = 12
"""Nesting past which a span is no honest reply; it is found, and not decoded."""
_TOKENS = re.compile(r"[\[\]{}\"']")
_CLOSES = {"]": "[", "}": "{"}
_OPENS_A_STRING = "[{,:("


class Span(NamedTuple):
    """Characters `start` to `end` of a text, brackets included, and how deep they nest."""

    start: int
    end: int
    depth: int


class Scan(NamedTuple):
    """Outermost balanced spans in order, and the places of brackets that never closed."""

    closed: tuple[Span, ...]
    left_open: tuple[int, ...]


def last_match(pattern: "re.Pattern[str]", text: str) -> "re.Match[str] | None":
    """The last place where a pattern is found, or None."""
    found = deque(pattern.finditer(text), maxlen=1)
    return found[0] if found else None


def spans(text: str) -> Scan:
    """Scan a text once; linear in its length."""
    opened: list[tuple[str, int]] = []
    depths: list[int] = []
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
            depths.append(1)
            waiting[mark] += 1
        elif waiting[_CLOSES[mark]]:
            span = _close(_CLOSES[mark], at + 1, opened, depths, waiting)
            while found and found[-1].start > span.start:
                found.pop()
            found.append(span)
    return Scan(tuple(found), tuple(at for _, at in opened))


def _close(
    mark: str, end: int, opened: list[tuple[str, int]], depths: list[int], waiting: dict[str, int]
) -> Span:
    """Close the nearest open bracket of this kind; those inside it that never closed are forgotten."""
    deepest = 0
    while True:
        kind, start = opened.pop()
        deepest = max(deepest, depths.pop())
        waiting[kind] -= 1
        if kind == mark:
            break
    if depths:
        depths[-1] = max(depths[-1], deepest + 1)
    return Span(start, end, deepest)


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
