"""Parser that finds which option a key, target, or reply names. No other module does this.

An option is named by its mark in any usual dress (`B`, `(b)`, `**B.**`, `$B$`, `\\boxed{B}`), by its text, or by both,
which must agree. In a reply, the announced answer (`The answer is B.`) counts, or else the first and last lines. A model
may correct itself (`No wait, B`), but two different answers without such words name no option. Nothing is guessed: `A cat`,
`not B`, and `A or B` name no option.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from robustify.base.redaction import HoldsText
from robustify.base.texts import INVISIBLE, unspaced
from robustify.reading.marks.labelling import CLOSING, COUNTED, LETTERS, OPENING, SERIES, TOKEN, as_mark
from robustify.reading.marks.reply_parts import (
    after_denials,
    answer_words,
    corrections,
    doubted,
    json_answer,
    lists_other_options,
    quoted_members,
    reply_parts,
    short_sentences,
    split_reasoning,
    states_options,
    unfenced,
)

Reason = Literal[
    "empty", "no mark", "several options", "beyond the options", "mark and text differ", "mark or text",
    "identical options", "mark of several alphabets", "unfinished reasoning", "another question", "withdrawn answer",
]  # fmt: skip
NamedBy = Literal["mark", "text", "both", "explained"]


@dataclass(frozen=True, slots=True)
class Picked:
    """Index of the option that a text names. The pick is `explained` if words that are not the option follow the mark."""

    index: int
    named_by: NamedBy = "mark"


@dataclass(frozen=True, slots=True)
class NoPick:
    """Reason why a text names no option."""

    reason: Reason


Reading = Picked | NoPick


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_WORDS = answer_words()
_NAME, _IS = _WORDS["name"], _WORDS["is"]
_ANNOUNCED = _compiled(
    rf"(?:(?<!\w)|(?<=[^\x00-\x7f])(?=[^\x00-\u2fff])){_NAME}(?!\w*(?:ed|ing)\b)[^\n.:：=?]{{0,40}}?(?<![不非]){_IS}[\s:：*_]*|{_WORDS['announced']}|####|<answer>|<\|begin_of_(?:box|solution)\|>|\\(?:boxed|fbox)\s?(?=\{{)"
)
_DENIED = _compiled(rf"{_WORDS['denied']}\Z")
_LEAD = _compiled(rf"{_WORDS['lead']}|(?:the\s+)?{_NAME}\b\s*{_IS}?[\s:：]*")
_TAIL = _compiled(rf"\s*{_WORDS['tail']}[.!。\s]*\Z")
_WRAPS = tuple(
    re.compile(wrap + r"[.。]?", re.DOTALL)
    for wrap in (
        r"(\*{1,3}|_{1,2}|`{1,3}|\$\$?|~|\"|')(?P<in>.+?)\1",
        r"[“«„](?P<in>.+?)[”»“]",
        r"<(\w+)[^<>]*>(?P<in>.+?)</\1>",
        r"\\(?:boxed|fbox|text|textbf|mathrm|mathbf|mathsf|rm|bf)\s?\{(?P<in>.+)\}",
        r"\\[(\[](?P<in>.+?)\\[)\]]",
        r"\{(?P<in>[^{}]+)\}",
        r"(?P<in>.+?)(?:[.!。]|</answer>|\*\*|</s>|<eos>|<\|\w{2,20}\|>)",
    )
)
_MARK = re.compile(rf"[{OPENING}<]*\s*(?P<mark>{TOKEN})\s*[{CLOSING}.:．。：、,，;/]*")
_MARK_AND_TEXT = re.compile(
    rf"(?:\*\*|__|`)?[{OPENING}]*(?P<mark>{TOKEN})[*_`]*(?P<gap>\s*[{CLOSING}][.:：,]?[*_`]*\s*"
    r"|[.:．：、][*_`]*(?:\s+|(?=[^\x00-\x7f]|[^\W\d_]{2}))|[*_`]*\s*\n\s*|\s*[,，;=|–—-]\s+|\s+)(?P<rest>\S.*)",
    re.DOTALL,
)
_STRONG = re.compile(rf"[{CLOSING}.:．：、\n]")
_REASONS = _compiled(_WORDS["because"])
_JOINED = _compiled(
    rf"(?P<with>{_WORDS['joined']})?\s*[*_{OPENING}]*(?P<mark>{TOKEN})(?(with)(?:\W|\Z)|(?:[{CLOSING}.:,;/&]|\Z|\s+{_WORDS['joined']}\s))"
)
_NEGATED = _compiled(rf"(?:\W*{_WORDS['filler']}\b){{0,4}}\W*{_WORDS['not']}")
_LONGEST, _MOST_CLAIMS, _SHORT = 1000, 16, 8
"""Longest claim from which markup and lead words are taken, in characters, number of announcements that count, and
length of a reply that cannot run on."""


def read_pick(
    text: str, options: Sequence[str], labels: Sequence[str] | None = None, prefer: Literal["mark", "text"] | None = None
) -> Reading:  # fmt: skip
    """Return the option that a text names, or the reason why the text names no option.

    `options` are empty texts if only their number is known. `labels` are the marks of the options. Without them, letters of
    any alphabet and roman numbers count, but no digits. `prefer` decides if a text is both a mark and another option."""
    return _Reader(tuple(options), None if labels is None else tuple(map(as_mark, labels)), prefer).read(text)


def runs_on(reply: str, options: Sequence[str]) -> bool:
    """Return whether another question follows in a reply, either certainly or after an answer."""
    if len(reply) < _SHORT:
        return False
    first, *others = reply_parts(split_reasoning(reply).text, options)
    if not first.text or not others:
        return False
    return any(part.certain for part in others) or isinstance(read_pick(first.text, options), Picked)


def _mark_position(mark: str, k: int, labels: Sequence[str] | None = None) -> int | NoPick | None:
    """Return the position of a plain mark among `k` options, the reason why it is unclear, or None if it is not a mark.
    Latin letters come before other alphabets, and roman numbers last."""
    plain = as_mark(mark)
    if labels is not None and plain in labels:
        position = labels.index(plain)
        return position if position < k else NoPick("beyond the options")
    label_series = next((series for series in SERIES if labels and set(labels) <= set(series)), None)
    is_other_order = label_series and list(labels or ()) != list(label_series[: len(labels or ())])
    if label_series is not None and plain in label_series and is_other_order:
        return None
    circled = len(mark) == 1 and not mark.isdecimal() and plain.isdecimal()
    # A reply that is cut off after "I" is no roman number.
    last_series = COUNTED[1:] if circled else SERIES[-1:] if len(plain) > 1 else ()
    for group in (SERIES[:1], SERIES[1:-1], last_series):
        positions = {series.index(plain) for series in group if plain in series}
        within = {position for position in positions if position < k}
        if len(within) > 1:
            return NoPick("mark of several alphabets")
        if within:
            return within.pop()
    is_mark = plain in LETTERS or any(plain in series for series in SERIES)
    return NoPick("beyond the options") if is_mark else None


@dataclass(frozen=True, slots=True, repr=False)
class _Reader(HoldsText):
    options: tuple[str, ...]
    labels: tuple[str, ...] | None
    prefer: Literal["mark", "text"] | None

    def read(self, text: str) -> Reading:
        """Find the option that a whole text names."""
        split = split_reasoning(_without_invisible(text).strip())
        if split.unterminated:
            return NoPick("unfinished reasoning")
        reply = unfenced(split.text) if (member := json_answer(split.text)) is None else member.strip()
        members = None if equal_options(reply, self.options) else quoted_members(reply)
        if members is not None and len(members) != 1:
            return NoPick("several options" if members else "empty")
        reply = members[0] if members else reply
        return self._own_answer(reply) if reply else NoPick("empty")

    def _own_answer(self, reply: str) -> Reading:
        """Read the answer to the item, without answers to questions that the model made up later. A reply may first
        repeat the item's question."""
        if not {"\n", ":", "：", "<", "["} & set(reply):
            return self._answer(reply)
        first, *others = reply_parts(reply, self.options)
        own_text = first.text
        reading = self._answer(own_text) if own_text else NoPick("another question")
        for index, part in enumerate(others):
            if isinstance(reading, Picked) or (
                part.certain and reading.reason not in ("no mark", "another question")
            ):
                return reading
            lists_others = lists_other_options(part.text.split("\n")[1:], self.options)
            is_first = index == 0 and not own_text
            if part.certain and (lists_others if is_first else not states_options(part.text, self.options)):
                return NoPick("another question")
            own_text = f"{own_text}\n{part.text}".strip()
            reading = self._answer(own_text)
        return reading

    def _answer(self, reply: str) -> Reading:
        """Read an answer to the item, which the model may correct. A correction counts only after an answer."""
        before, later = corrections(reply)
        reading, changed = self._uncorrected(before), False
        for correction in later:
            if not isinstance(reading, Picked) and not changed:
                reading = self._uncorrected(reply[: correction.end])
                continue
            corrected = self._uncorrected(correction.text)
            doubt = None if isinstance(corrected, Picked) else self._claim(doubted(correction.text))
            if isinstance(corrected, Picked):
                reading, changed = corrected, True
            elif correction.withdraws:
                reading, changed = NoPick("withdrawn answer"), True
            elif isinstance(doubt, Picked):
                reading, changed = _common_reading([reading, doubt]), True
        return reading if changed or not later else self._uncorrected(reply)

    def _uncorrected(self, reply: str) -> Reading:
        lines = [line.strip() for line in reply.split("\n") if line.strip()]
        claims = map(self._claim, _announced_texts(reply))
        announced = [reading for reading in claims if reading is not None]
        if len(lines) < 2:
            of_reply = self._claim(reply)
            if of_reply is None or (announced and isinstance(of_reply, NoPick)):
                return _common_reading(announced)
            return _common_reading([of_reply, *announced])
        if equal := equal_options(reply, self.options):
            return _single_option(equal, "text")
        first, last = self._claim(lines[0]), self._claim(lines[-1])
        line_marks = {
            as_mark(m["mark"]) for line in lines if (m := _MARK_AND_TEXT.match(line)) and m["gap"].strip()
        }
        if announced:
            # A reply that lists several options answers only where it says so.
            is_answer = isinstance(first, Picked) and (
                first.named_by == "mark" or (first.named_by != "explained" and len(line_marks) < 2)
            )
            return _common_reading([first, *announced] if is_answer and first is not None else announced)
        if isinstance(first, Picked) and first.named_by == "explained" and len(line_marks) > 1:
            first = NoPick("several options")
        if isinstance(first, Picked) and first.named_by == "mark" and last is None:
            return Picked(first.index, "explained")
        return _common_reading([reading for reading in (first, last) if reading is not None])

    def _claim(self, text: str) -> Reading | None:
        """Read a text that should contain only the name of an option. Return None if it names no option."""
        for core in shorter_texts(text):
            equal, mark = equal_options(core, self.options), _MARK.fullmatch(core)
            marked = self._position(mark["mark"]) if mark else None
            if isinstance(marked, int) and equal and marked not in equal and self.prefer is None:
                return NoPick("mark or text")
            if equal and not (isinstance(marked, int) and (self.prefer == "mark" or marked in equal)):
                return _single_option(equal, "text")
            if isinstance(marked, int):
                return Picked(marked, "both" if marked in equal else "mark")
            if marked is not None:
                return marked
        for core in shorter_texts(text):
            if (reading := self._mark_and_text(core)) is not None:
                return reading
        return self._after_denials(text)

    def _after_denials(self, text: str) -> Reading | None:
        """Read a text that denies other options before it names one, such as `Not A. C`."""
        denied = after_denials(text)
        claim = self._claim(denied[1]) if denied else None
        if denied is None or not isinstance(claim, Picked):
            return None
        return None if claim.index in map(self._position, denied[0]) else claim

    def _mark_and_text(self, core: str) -> Reading | None:
        parts = _MARK_AND_TEXT.fullmatch(core)
        position = self._position(parts["mark"]) if parts else None
        if parts is None or position is None:
            return None
        text, is_separated = parts["rest"].strip(), bool(_STRONG.search(parts["gap"]))
        equal_by_text = (equal_options(shorter, self.options) for shorter in shorter_texts(text))
        if equal := next(filter(None, equal_by_text), None):
            if not isinstance(position, int):
                return position
            return Picked(position, "both") if position in equal else NoPick("mark and text differ")
        joined = _JOINED.match(text)
        other = self._position(joined["mark"]) if joined and not joined["mark"].islower() else None
        if isinstance(other, int):
            return None if other == position else NoPick("several options")
        bracketed = text[:1] == "(" and text[-1:] == ")"
        article = parts["mark"] in "aAiI" and not parts["gap"].strip() and not bracketed
        if not is_separated and (article or not _REASONS.match(text)):
            return None
        begun = {
            index for index, option in enumerate(self.options) if len(option) > 2 and _begins(text, option)
        }
        if _NEGATED.match(text) and position not in begun:
            return None
        if begun and position not in begun:
            return NoPick("mark and text differ")
        if any(self._names_other(sentence, position) for sentence in short_sentences(text)):
            return NoPick("several options")
        return Picked(position, "explained") if isinstance(position, int) else position

    def _names_other(self, sentence: str, position: int | NoPick) -> bool:
        """Return whether a sentence names only another option, by its mark. Announced answers are read separately."""
        for core in () if announces(sentence) else shorter_texts(sentence):
            mark = _MARK.fullmatch(core)
            other = self._position(mark["mark"]) if mark and not mark["mark"].islower() else None
            if isinstance(other, int):
                return other != position
        return False

    def _position(self, mark: str) -> int | NoPick | None:
        return _mark_position(mark, len(self.options), self.labels)


def _without_invisible(text: str) -> str:
    return text if text.isascii() else INVISIBLE.sub("", text)


@lru_cache(maxsize=4096)
def _exact_and_loose(options: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    options = tuple(map(_without_invisible, options))
    return tuple(map(unspaced, options)), tuple(
        unspaced(option).casefold().rstrip(".。") for option in options
    )


def equal_options(text: str, options: tuple[str, ...]) -> set[int]:
    """Return the options that equal this text or, if there are none, those that differ from it only in case or a final
    period."""
    exact, loose = _exact_and_loose(options)
    plain = unspaced(text)
    equal = {index for index, option in enumerate(exact) if option and option == plain}
    folded = plain.casefold().rstrip(".。")
    return equal or {index for index, option in enumerate(loose) if option and option == folded}


def _begins(text: str, option: str) -> bool:
    plain, start = unspaced(text).casefold(), unspaced(option).casefold()
    return plain.startswith(start) and not plain[len(start) : len(start) + 1].isalnum()


def _single_option(equal: set[int], named_by: NamedBy) -> Reading:
    return Picked(min(equal), named_by) if len(equal) == 1 else NoPick("identical options")


def _common_reading(readings: Sequence[Reading]) -> Reading:
    """Join the readings of one reply, which must name the same option."""
    picks = [reading for reading in readings if isinstance(reading, Picked)]
    if not picks:
        return readings[-1] if readings else NoPick("no mark")
    forms = {pick.named_by for pick in picks}
    if len({pick.index for pick in picks}) > 1:
        return NoPick("mark and text differ" if forms == {"mark", "text"} else "several options")
    if isinstance(readings[-1], NoPick):
        return readings[-1]
    last = picks[-1]
    return Picked(last.index, "both" if len(forms) > 1 and forms & {"text", "both"} else last.named_by)


def announces(sentence: str) -> bool:
    """Return whether a sentence announces an answer, such as "The answer is B"."""
    return _ANNOUNCED.search(sentence) is not None


def _announced_texts(reply: str) -> Iterator[str]:
    """Yield the text that follows each of the last announcements of an answer, up to the end of its line. Skip
    announcements with a denial before them, such as "not the answer"."""
    for match in deque(_ANNOUNCED.finditer(reply), maxlen=_MOST_CLAIMS):
        if not _DENIED.search(reply, max(0, match.start() - 30), match.start()):
            yield reply[match.end() : match.end() + _LONGEST].lstrip().partition("\n")[0].strip()


def shorter_texts(text: str) -> Iterator[str]:
    """Yield a text, and then shorter and shorter versions of it without markup, lead words, and closing words."""
    core = text.strip()
    for _ in range(12):
        yield core
        if len(core) > _LONGEST:
            return
        inner = next((m["in"].strip() for wrap in _WRAPS if (m := wrap.fullmatch(core))), None)
        if inner is None and (lead := _LEAD.match(core)) and lead.end() < len(core):
            inner = core[lead.end() :].strip()
        if inner is None and (tail := _TAIL.search(core)) and tail.start():
            inner = core[: tail.start()].strip()
        if not inner:
            return
        core = inner
