"""Where in an answer the number stands, and what around it makes it something else than a plain number."""

import re
from collections.abc import Sequence

from robustify.freeform.grade.quantities import Quantity
from robustify.freeform.labels.spans import last_match

_BOXED = re.compile(r"\\(?:boxed|fbox)\s?\{")
_MARKER = re.compile(
    r"\b(?:final\s+answer|answer|result)\b[*_]*\s*(?:is|:|=)[*_:]*|####|<answer>", re.IGNORECASE
)
_END = re.compile(r"</answer>", re.IGNORECASE)
_BOUND = re.compile(
    r"(?:[<>≤≥]\s?=?|\b(?:at\s+(?:least|most)|(?:more|less|greater|fewer|higher|lower|larger|smaller|not?\s+more|not?\s+less)"
    r"\s+than|up\s+to|under|exceed(?:s|ing)?))\s*$",
    re.IGNORECASE,
)
_JOINT = re.compile(r"\s*(?:-|–|—|to|or|and|and/or|\.\.\.?)\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween\s*$", re.IGNORECASE)
_SYMBOLS = re.compile(
    r"[π√∞^_∑∫]|\*\*|\\[A-Za-z]+|\b(?:sqrt|sin|cos|tan|log|ln|exp|pi|arcsin|arccos|arctan|squared|cubed|root)\b",
    re.IGNORECASE,
)
_OPERATOR_AFTER = re.compile(r"\s?(?:[*/×·+]|-(?=\s?[\w(]))\s?[\w(\\]|\s?[x](?=\s?[\d(])|\(")
_OPERATOR_BEFORE = re.compile(r"(?:[\w)]\s?[*/×·+]|[\w)]\s-|\d\s?x|(?<=[a-z])\()\s?$")


def final_segment(text: str) -> str:
    """The part of an answer that gives its result: the last box, or what follows the last announcement, or all."""
    box = _last_box(text)
    if box is not None:
        return box
    marker = last_match(_MARKER, text)
    if marker is None:
        return text.strip()
    after = text[marker.end() :]
    if marker[0].lower() == "<answer>":
        after = _END.split(after, maxsplit=1)[0]
    # An announcement with nothing behind it announces nothing.
    return after.strip() or text.strip()


def _last_box(text: str) -> str | None:
    """What the last balanced box holds."""
    for opened in reversed(list(_BOXED.finditer(text))[-20:]):
        depth = 1
        for brace in re.finditer(r"[{}]", text[opened.end() : opened.end() + 2000]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                return text[opened.end() : opened.end() + brace.start()].strip()
    return None


def last_right_side(segment: str) -> tuple[int, int]:
    """Where the text after the last `=` or `≈` of the last line begins and ends; (0, length) where there is none."""
    stop = len(segment.rstrip())
    line = segment.rfind("\n", 0, stop) + 1
    sign = max(segment.rfind("=", line, stop), segment.rfind("≈", line, stop))
    return (sign + 1, len(segment)) if sign >= 0 else (0, len(segment))


def joined_pair(segment: str, first: Quantity, second: Quantity) -> bool:
    """Whether two numbers are a range or an alternative."""
    between = segment[first.end : second.start]
    if _JOINT.fullmatch(between) or re.fullmatch(r"\s?-\s?", between):
        return True
    return between == "" and segment[second.start - 1 : second.start] == "-"


def bounded(segment: str, quantity: Quantity) -> bool:
    """Whether a number is only a bound: "at least 5", "> 5"."""
    return _BOUND.search(segment[max(0, quantity.start - 40) : quantity.start]) is not None


def expression(segment: str, inside: Sequence[Quantity], scope: tuple[int, int] | None = None) -> bool:
    """Whether something is left to compute: roots, powers, functions, or an operator beside a number."""
    start, end = scope or (0, len(segment))
    left, place = [], start
    for quantity in inside:
        left.append(segment[place : quantity.start])
        place = max(place, quantity.end)
    left.append(segment[place:end])
    if _SYMBOLS.search(" ".join(left)):
        return True
    for quantity in inside:
        if _OPERATOR_AFTER.match(segment[quantity.end : quantity.end + 4]):
            return True
        if _OPERATOR_BEFORE.search(segment[max(start, quantity.start - 4) : quantity.start]):
            return True
    return False
