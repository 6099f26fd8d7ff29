"""Whether a worded answer is right, without a judge: whole tokens, one option named, nothing denied.

Formulas are compared character by character or not at all. A lone letter is no answer, because no options were shown,
unless it is an option's own text. What names no option is undecided, never wrong.
"""

import re
import string
from collections.abc import Sequence
from typing import NamedTuple

from robustify.freeform.answer_text import (
    Finding,
    final_segment,
    is_refusal,
    is_symbolic,
    no_answer,
    normalize_tokens,
    plain_text,
    right,
    said,
    squash,
    undecided,
    wrong,
)

MOST_LONGER = 12
"""Tokens by which an answer may be longer than the option that it contains."""
_AFTER = 3
_NEGATIONS = frozenset((
    "not", "no", "never", "non", "neither", "nor", "without", "cannot", "except", "unlike", "isn't",
    "aren't", "wasn't", "weren't", "don't", "doesn't", "didn't", "can't", "won't", "rather", "instead",
    "than", "incorrect", "false", "wrong",
))  # fmt: skip
_LEAD = r"(?:\\boxed\s?\{\s*)?[\s*_`(\[\"']*"
_BULLET = re.compile(r"^\s*[-*+•]\s+")
_WHOLE_LETTER = re.compile(
    _LEAD + r"(?:(?:option|choice|answer)\s*:?\s+)?([A-Za-z])[\s*_`)\].:\"'}]*$", re.IGNORECASE
)


class _Match(NamedTuple):
    option: int
    start: int
    end: int


def find_choice(answer: str, options: Sequence[str], correct: int, aliases: Sequence[str] = ()) -> Finding:
    """Whether an answer is the option `correct`, one of its `aliases`, or certainly another one."""
    text = said(answer)
    if isinstance(text, Finding):
        return text
    letter = _WHOLE_LETTER.fullmatch(text) if len(text) <= 60 else None
    if letter is not None and letter[1].upper() in string.ascii_uppercase[: len(options)]:
        text = letter[1].upper()
        # A letter may be an option's own text: a base, a point, a blood group.
        if text.casefold() not in {plain_text(option).casefold() for option in (*options, *aliases)}:
            return no_answer("letter_without_options")
    return _by_text(text, options, correct, tuple(aliases))


def find_explanation(answer: str, reference: str) -> Finding:
    """Whether an explanation has the reference's words; everything else is left to a judge."""
    if not normalize_tokens(reference):
        return Finding("reference_error", None, None, "reference_is_empty")
    text = said(answer)
    if isinstance(text, Finding):
        return text
    if normalize_tokens(text) == normalize_tokens(reference):
        return right("equal", text)
    return _undecided_or_refused(text, "explanation")


def _by_text(text: str, options: Sequence[str], correct: int, aliases: tuple[str, ...]) -> Finding:
    segment = _BULLET.sub("", final_segment(text))
    if is_symbolic(options[correct]) or is_symbolic(segment):
        known = {squash(wording) for wording in (options[correct], *aliases)}
        same = squash(text) in known or squash(segment) in known
        return right("equal", text) if same else _undecided_or_refused(text, "symbolic")
    mine = normalize_tokens(options[correct])
    if not mine or any(normalize_tokens(o) == mine for i, o in enumerate(options) if i != correct):
        # Such options differ only in case or signs, and words have neither.
        exact = plain_text(text).rstrip(".") == plain_text(options[correct]).rstrip(".")
        return right("equal", text) if exact else _undecided_or_refused(text, "options_fold_alike")
    # The marks around a result (a box, a tag) are no part of the answer's words.
    for part in dict.fromkeys((segment, segment if is_symbolic(text) else text)):
        found = _equal(part, options, correct, aliases) or _contained(part, options, correct, aliases)
        if found is not None:
            return found
    return _undecided_or_refused(text, "no_option_named")


def _undecided_or_refused(text: str, reason: str) -> Finding:
    return no_answer("refusal") if is_refusal(text) else undecided(reason, text)


def _equal(text: str, options: Sequence[str], correct: int, aliases: tuple[str, ...]) -> Finding | None:
    tokens = normalize_tokens(text)
    if not tokens:
        return None
    equal = [i for i, option in enumerate(options) if normalize_tokens(option) == tokens]
    if equal == [correct] or tokens in [normalize_tokens(alias) for alias in aliases]:
        return right("equal", text)
    return wrong("other_option", text) if len(equal) == 1 else None


def _contained(text: str, options: Sequence[str], correct: int, aliases: tuple[str, ...]) -> Finding | None:
    tokens = normalize_tokens(text)
    wordings = [(i, normalize_tokens(option)) for i, option in enumerate(options)]
    wordings += [(correct, normalize_tokens(alias)) for alias in aliases]
    found = _outermost(tokens, wordings)
    named = {match.option for match in found}
    longest = max((match.end - match.start for match in found), default=0)
    if not named or len(tokens) > longest + MOST_LONGER:
        return None
    if any(_denied(tokens, match) for match in found):
        return undecided("negation", text)
    if len(named) > 1:
        return wrong("multiple_options", text)
    (option,) = named
    if option == correct:
        return right("contained", text, ("contained",))
    return wrong("other_option", text, ("contained",))


def _outermost(tokens: tuple[str, ...], wordings: Sequence[tuple[int, tuple[str, ...]]]) -> list[_Match]:
    """Every option found in the tokens, a longer one hiding those that it contains."""
    found: list[_Match] = []
    for option, words in sorted(wordings, key=lambda w: -len(w[1])):
        n = len(words)
        if not n or n > len(tokens):
            continue
        for start in range(min(len(tokens) - n + 1, 500)):
            hidden = any(m.start <= start and start + n <= m.end and m.end - m.start > n for m in found)
            if not hidden and tokens[start : start + n] == words:
                found.append(_Match(option, start, start + n))
    return found


def _denied(tokens: tuple[str, ...], match: _Match) -> bool:
    # A negation before may be far off ("not, as many think, caused by ..."); one after must be near.
    around = tokens[: match.start] + tokens[match.end : match.end + _AFTER]
    return any(token in _NEGATIONS for token in around)
