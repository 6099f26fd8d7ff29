"""What an answer claims: the results it announces, and the harmless words around a result, all from closed lists.

An answer is decided only where everything beside its result is on these lists or repeats the question. Any other word,
in any language, leaves it undecided: "hardly", "nicht" and "formerly" need no list of their own. Results that are
announced twice must agree; the last one never wins.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache

from robustify.freeform.answer_text import Finding, undecided
from robustify.freeform.grade import pattern, word_set

MOST_CLAIMS = 8
_MOST_STEPS = 12
_LONGEST_TAIL, _LONGEST_LINE = 48, 30


def _pattern(name: str) -> str:
    """A pattern with the patterns that it names."""
    joined = pattern(name)
    if "{" not in joined:
        return joined
    return joined.replace("{name}", f"(?:{_NAME})").replace("{after}", _AFTER).replace("{is}", f"(?:{_IS})")


_AFTER = rf"(?:\s(?:{_pattern('after')}))?"
_NAME, _IS, _ARTICLE = _pattern("name"), _pattern("is"), _pattern("article")
_MARKER = re.compile(
    rf"\b(?:{_NAME})\b[*_]{{0,3}}{_AFTER}[*_]{{0,3}}\s*(?:(?:{_IS})\b|[:：=])|答案\s?[是为:：]|####|<answer>|\\(?:boxed|fbox)\s?\{{",
    re.IGNORECASE,
)
_BOUNDARY = re.compile(r"[.!?。]\s+|\n|,\s+(?=(?:so|thus|therefore|hence)\s)", re.IGNORECASE)
_ANOTHER = re.compile(r"[?？]|\b(?:question|frage|pregunta|domanda)\s?\d*\s?:|\bq\d*\s?:", re.IGNORECASE)
# The content may have braces of its own, as of a fraction; deeper ones leave the box as it is.
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{((?:[^{}]|\{[^{}]{0,200}\}){0,500})\}")
_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname|rm)\s?\{([^{}]{0,200})\}")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|“([^“”\n]{1,200})”|„([^“”„\n]{1,200})[“”]|«\s?([^«»\n]{1,200}?)\s?»"
)

_LEAD = re.compile(
    rf"[\s,:;#{{(\[*_`•]+|</?answer>|[-–]\s(?!\s*[\d.])|(?:{_pattern('lead')})(?=[\s,:：;.*_'’\"]|$)|l['’](?=\w)|答案\s?[是为:：]",
    re.IGNORECASE,
)
_TAIL = re.compile(rf"(?:[\s.!,;:}}*_`)\]。、]+|</answer>|{_pattern('tail')})\Z", re.IGNORECASE)
_TURNING = word_set("turning")
CHANGING = _TURNING | word_set("changing")
"""Words that may turn a statement round or make another number of a number."""
_ASKS = word_set("asking")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def agreed(text: str, decide: Callable[[str], Finding]) -> Finding:
    """The finding on which all claims of a text agree; undecided where one is, or where two differ."""
    before, parts = _claims(text)
    if not parts:
        return undecided("several_results", text)
    found = [decide(part) for part in parts]
    # A result that stands alone in the first line counts too: a base model goes on with questions of its own.
    line = before.strip().partition("\n")[0]
    first = decide(line) if 0 < len(line) <= _LONGEST_LINE else None
    if first is not None and first.status == "scored":
        found.append(first)
    unclear = next((one for one in found if one.score is None), None)
    if unclear is not None:
        return unclear
    return found[0] if len({one.score for one in found}) == 1 else undecided("several_results", text)


def _claims(text: str) -> tuple[str, list[str]]:
    """What stands before the first announcement, and each sentence that announces with what follows; or all."""
    ends = [end.end() for end in _BOUNDARY.finditer(text)]
    starts: list[int] = []
    for mark in _MARKER.finditer(text):
        place = bisect_right(ends, mark.start())
        start = ends[place - 1] if place else 0
        if start not in starts[-1:]:
            starts.append(start)
    if not starts:
        return "", [_unwrapped(text)]
    before = text[: starts[0]]
    if len(starts) > MOST_CLAIMS or _ANOTHER.search(before):
        return before, []
    pieces = zip(starts, [*starts[1:], len(text)], strict=True)
    return before, [_unwrapped(text[start:end]) for start, end in pieces]


def _unwrapped(text: str) -> str:
    """A text without the marks of boxes, of LaTeX's text and of quotations."""
    text = _WRAPPED.sub(r"\1", _BOX.sub(r"\1", text))
    return _QUOTED.sub(lambda m: next(part for part in m.groups() if part is not None), text).strip()


def cores(claim: str, question: str = "") -> Iterator[str]:
    """A claim, and what is left of it as harmless words are taken off its two ends, one step after another."""
    text, asked = claim.strip(), _question(question)
    yield text
    for _ in range(_MOST_STEPS):
        if (lead := _LEAD.match(text)) is not None and lead.end():
            text = text[lead.end() :]
        elif (tail := _TAIL.search(text, max(0, len(text) - _LONGEST_TAIL))) is not None:
            text = text[: tail.start()]
        elif (shorter := _restated(text, asked) if asked else None) is not None:
            text = shorter
        else:
            return
        yield text


def _question(question: str) -> str | None:
    """A question in one form, or None where it may turn a statement round or is in no language that is known."""
    words = known_words(question)
    return None if not words or words & _TURNING else " ".join(question.lower().split()).rstrip(" ?.:")


@lru_cache(maxsize=1024)
def known_words(question: str) -> frozenset[str]:
    """The words of a question that an answer may repeat; none where its language is not known or it negates."""
    words = frozenset(word.casefold() for word in _WORD.findall(question))
    if not words & _ASKS or any(word.endswith(("n't", "n’t")) for word in words):
        return frozenset()
    return words


def _restated(text: str, asked: str) -> str | None:
    """A claim without the question's words: "The capital of Norway is Oslo", "Oslo is the capital of Norway"."""
    folded = text.lower()
    subject = re.match(rf"\w+\s({_IS})\s(?:(?:{_ARTICLE})\s|l['’])?(\S.*)", asked)
    if subject and (stated := re.match(rf"{re.escape(subject[2])}\s{subject[1]}\s", folded)):
        return text[stated.end() :]
    for start in re.finditer(r"\s(?=\S+\s\S)", asked):
        if folded.endswith(asked[start.start() :]):
            return text[: len(text) - len(asked) + start.start()]
    return None
