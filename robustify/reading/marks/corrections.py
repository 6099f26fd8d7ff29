"""Parts of a reply in which a model corrects itself (`No wait, B`) or denies options before it names one (`Not A. C`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from robustify.base.redaction import HoldsText
from robustify.reading.marks.labelling import CLOSING, OPENING, TOKEN
from robustify.reading.marks.reply_parts import answer_words

_MOST = 16
"""Number of corrections in a reply that are looked at."""
_SHORT = 60
"""Length of a sentence, in characters, up to which it may do nothing but name an option."""


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_WORDS = answer_words()
_AFTER = r"[\s,，.:：;!。…–—-]*"
_CORRECTION = _compiled(
    rf"(?<=\S)(?:\s*[,，;；.!?。！？…–—-]+\s*|\s*\n\s*|\s+(?={_WORDS['withdrawn']}))"
    rf"(?:(?:oh|ah|um|but|und|pero|mais)\b{_AFTER})?"
    rf"(?:(?P<withdrawn>{_WORDS['withdrawn']})|{_WORDS['corrected']}(?!['’]))(?:{_AFTER}{_WORDS['corrected']}(?!['’]))*{_AFTER}"
)
_DOUBT = _compiled(rf"{_WORDS['doubt']}\W+(?P<claim>\S.*)")
_OPTION = rf"(?:option\s+)?[{OPENING}]?(?P<mark>{TOKEN})[{CLOSING}]?"
_SO = rf"(?:(?:\s*[.!;。；]|\s*[,，](?=\s*{_WORDS['instead']}))\s*|\s+(?={_WORDS['instead']}))(?:{_WORDS['instead']}\W*)?"
_DENIALS = (
    _compiled(rf"(?:{_WORDS['filler']}\W+){{0,4}}{_WORDS['not']}\s+(?:be\s+)?{_OPTION}{_SO}(?P<claim>\S.*)"),
    _compiled(rf"{_OPTION}\s+(?:is|are|was|ist|es|est)\s+{_WORDS['not']}{_SO}(?P<claim>\S.*)"),
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*")


@dataclass(frozen=True, slots=True, repr=False)
class Correction(HoldsText):
    """What follows a correction, up to the next one. `withdraws` is true if the words before it take an answer back, and
    not if they may also introduce a remark (`Actually, ...`). It ends at `end` in the reply."""

    text: str
    withdraws: bool
    end: int


def corrections(reply: str) -> tuple[str, list[Correction]]:
    """Return the text before the first correction in a reply, and the corrections."""
    matches = [match for match, _ in zip(_CORRECTION.finditer(reply), range(_MOST), strict=False)]
    if not matches:
        return reply, []
    ends = [*(match.start() for match in matches[1:]), len(reply)]
    return reply[: matches[0].start() + 1].strip(), [
        Correction(reply[match.end() : end].strip(), match["withdrawn"] is not None, end)
        for match, end in zip(matches, ends, strict=True)
    ]


def doubted(text: str) -> str:
    """Return what a text suggests with a doubt, such as `maybe B`, or ""."""
    match = _DOUBT.fullmatch(text)
    return match["claim"] if match else ""


def after_denials(text: str) -> tuple[list[str], str] | None:
    """Return the marks of the options that a text denies first, and the rest of the text, or None if it denies none."""
    marks: list[str] = []
    while len(text) <= _SHORT and (
        match := next((match for denial in _DENIALS if (match := denial.fullmatch(text))), None)
    ):
        marks.append(match["mark"])
        text = match["claim"].strip()
    return (marks, text) if marks else None


def short_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that may do nothing but name an option."""
    return (sentence for sentence in _SENTENCE.split(text) if 0 < len(sentence) <= _SHORT)
