"""The letter of an answer to a question that showed its options: certain, or left to the words and the judge.

A letter counts as the whole answer, with its own option's text behind it, or as the announcement at the end of a reply
that announces no other. A free capital in a sentence is never read.
"""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from robustify.freeform.answer_text import (
    Finding,
    normalize_tokens,
    plain_text,
    right,
    said,
    undecided,
    wrong,
)

_LETTER = r"(?:\$?\\boxed\s?\{\s*(?:\\text\{\s*)?)?[\[(\"']?\s?(?P<letter>[A-Za-z])\s?[\])\"']?\}{0,2}\$?"
_NAMED = r"(?:option|choice|answer)"
_WHOLE = re.compile(rf"(?:{_NAMED}\s*:?\s*)?{_LETTER}[.:)\s]*(?P<text>.*)", re.IGNORECASE | re.DOTALL)
_ANNOUNCED = re.compile(
    rf"(?:the|my|so\s+the|thus\s+the|therefore,?\s+the|hence\s+the)?\s*(?:final|correct|right|best)?\s*{_NAMED}\s*"
    rf"(?:is|:|=)\s*:?\s*(?:(?:the\s+)?(?:option|choice|letter)\s+)?{_LETTER}(?![\w'])(?P<text>.*)",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"[\s.:,;!)*_`$]*")


def find_letter(answer: str, options: Sequence[str], correct: int) -> Finding | None:
    """Whether an answer names the letter of the option `correct`, or certainly another; None where it names none."""
    text = said(answer)
    if isinstance(text, Finding):
        return text
    lines = [plain for line in text.splitlines() if (plain := plain_text(line).strip())]
    whole = _WHOLE.fullmatch(plain_text(text)) if len(lines) == 1 else None
    if whole is not None and not _apart(whole, options):
        whole = None
    last = _ANNOUNCED.fullmatch(lines[-1]) if lines else None
    found = whole or last
    if found is None:
        return None
    others = {m["letter"].upper() for line in lines for m in _ANNOUNCED.finditer(line)}
    letter = found["letter"].upper()
    if len(others | {letter}) > 1:
        return undecided("several_letters", letter)
    if letter not in ascii_uppercase[: len(options)]:
        return undecided("letter_beyond_options", letter)
    named = [
        i for i, option in enumerate(options) if normalize_tokens(option) == normalize_tokens(found["text"])
    ]
    if not _EMPTY.fullmatch(found["text"]) and named != [ascii_uppercase.index(letter)]:
        return undecided("letter_text_conflict", letter)
    return (right if ascii_uppercase[correct] == letter else wrong)("letter", letter)


def _apart(found: "re.Match[str]", options: Sequence[str]) -> bool:
    """Whether a letter at the beginning stands for itself: alone, or set apart from an option's text behind it."""
    if _EMPTY.fullmatch(found["text"]):
        return True
    between = found.string[found.end("letter") : found.start("text")]
    return any(mark in between for mark in ").:]") and found["letter"].isupper()
