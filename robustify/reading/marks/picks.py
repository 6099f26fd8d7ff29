"""Parser that finds which option a key, target, or reply names. No other module parses it.

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
from robustify.reading.marks.corrections import after_denials, corrections, doubted, short_sentences
from robustify.reading.marks.labelling import CLOSING, COUNTED, LETTERS, OPENING, SERIES, TOKEN, as_mark
from robustify.reading.marks.reply_parts import (
    answer_words,
    json_answer,
    lists_other_options,
    quoted_members,
    reply_parts,
    split_reasoning,
    states_options,
    unfenced,
)

Reason = Literal[
    "empty", "no mark", "several options", "beyond the options", "mark and text differ", "mark or text",
    "identical options", "mark of several alphabets", "unfinished reasoning", "another question", "withdrawn answer",
]  # fmt: skip
How = Literal["mark", "text", "both", "explained"]


@dataclass(frozen=True, slots=True)
class Picked:
    """Index of the option that a text names. `how` is `explained` if words follow the mark that are not the option."""

    index: int
    how: How = "mark"


@dataclass(frozen=True, slots=True)
class NoPick:
    """Reason why a text names no option."""

    reason: Reason


Reading = Picked | NoPick


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_SAID = answer_words()
_NAME, _IS = _SAID["name"], _SAID["is"]
_ANNOUNCED = _compiled(
    rf"(?:(?<!\w)|(?<=[^\x00-\x7f])(?=[^\x00-\u2fff])){_NAME}(?!\w*(?:ed|ing)\b)[^\n.:：=?]{{0,40}}?(?<![不非]){_IS}[\s:：*_]*|{_SAID['announced']}|####|<answer>|\\(?:boxed|fbox)\s?(?=\{{)"
)
_DENIED = _compiled(rf"{_SAID['denied']}\Z")
_LEAD = _compiled(rf"{_SAID['lead']}|(?:the\s+)?{_NAME}\b\s*{_IS}?[\s:：]*")
_TAIL = _compiled(rf"\s*{_SAID['tail']}[.!。\s]*\Z")
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
_REASONS = _compiled(_SAID["because"])
_JOINED = _compiled(
    rf"(?P<with>{_SAID['joined']})?\s*[*_{OPENING}]*(?P<mark>{TOKEN})(?(with)(?:\W|\Z)|(?:[{CLOSING}.:,;/&]|\Z|\s+{_SAID['joined']}\s))"
)
_NEGATED = _compiled(rf"(?:\W*{_SAID['filler']}\b){{0,4}}\W*{_SAID['not']}")
_LONGEST, _MOST_CLAIMS, _SHORT = 1000, 16, 8
"""Longest claim from which markup and lead words are taken, in characters, number of announcements that count, and
length of a reply that cannot run on."""


def read_pick(
    text: str, options: Sequence[str], labels: Sequence[str] | None = None, prefer: Literal["mark", "text"] | None = None
) -> Reading:  # fmt: skip
    """Return the option that a text names, or the reason why it names none.

    `options` are empty texts if only their number is known. `labels` are the marks of the options. Without them, letters of
    any alphabet and roman numbers count, but no digits. `prefer` decides if a text is both a mark and another option."""
    return _Reader(tuple(options), None if labels is None else tuple(map(as_mark, labels)), prefer).read(text)


def runs_on(reply: str, options: Sequence[str]) -> bool:
    """Return whether another question follows in a reply, certainly, or after an answer."""
    if len(reply) < _SHORT:
        return False
    first, *others = reply_parts(split_reasoning(reply).text, options)
    if not first.text or not others:
        return False
    return any(part.certain for part in others) or isinstance(read_pick(first.text, options), Picked)


def _mark_position(mark: str, k: int, labels: Sequence[str] | None = None) -> int | NoPick | None:
    """Return the position of a plain mark among `k` options, the reason why it is unclear, or None if it is no mark. Latin
    letters come before other alphabets, and roman numbers last."""
    plain = as_mark(mark)
    if labels is not None and plain in labels:
        place = labels.index(plain)
        return place if place < k else NoPick("beyond the options")
    own = next((series for series in SERIES if labels and set(labels) <= set(series)), None)
    if own is not None and plain in own and list(labels or ()) != list(own[: len(labels or ())]):
        return None
    circled = len(mark) == 1 and not mark.isdecimal() and plain.isdecimal()
    # A reply that is cut off after "I" is no roman number.
    last = COUNTED[1:] if circled else SERIES[-1:] if len(plain) > 1 else ()
    for group in (SERIES[:1], SERIES[1:-1], last):
        places = {series.index(plain) for series in group if plain in series}
        within = {place for place in places if place < k}
        if len(within) > 1:
            return NoPick("mark of several alphabets")
        if within:
            return within.pop()
    known = plain in LETTERS or any(plain in series for series in SERIES)
    return NoPick("beyond the options") if known else None


@dataclass(frozen=True, slots=True, repr=False)
class _Reader(HoldsText):
    options: tuple[str, ...]
    labels: tuple[str, ...] | None
    prefer: Literal["mark", "text"] | None

    def read(self, text: str) -> Reading:
        """Find the option that a whole text names."""
        split = split_reasoning(_seen(text).strip())
        if split.unterminated:
            return NoPick("unfinished reasoning")
        reply = unfenced(split.text) if (member := json_answer(split.text)) is None else member.strip()
        members = None if equal_options(reply, self.options) else quoted_members(reply)
        if members is not None and len(members) != 1:
            return NoPick("several options" if members else "empty")
        reply = members[0] if members else reply
        return self._own_answer(reply) if reply else NoPick("empty")

    def _own_answer(self, reply: str) -> Reading:
        """Read the answer to the item, and not those to questions that the model made up after it. A reply may first repeat
        the question of the item."""
        if not {"\n", ":", "：", "<", "["} & set(reply):
            return self._answer(reply)
        first, *others = reply_parts(reply, self.options)
        own, found = first.text, self._answer(first.text) if first.text else NoPick("another question")
        for at, part in enumerate(others):
            if isinstance(found, Picked) or (
                part.certain and found.reason not in ("no mark", "another question")
            ):
                return found
            listed = lists_other_options(part.text.split("\n")[1:], self.options)
            if part.certain and (
                listed if at == 0 and not own else not states_options(part.text, self.options)
            ):
                return NoPick("another question")
            own = f"{own}\n{part.text}".strip()
            found = self._answer(own)
        return found

    def _answer(self, reply: str) -> Reading:
        """Read an answer to the item, which the model may correct. A correction counts only after an answer."""
        before, later = corrections(reply)
        reading, changed = self._uncorrected(before), False
        for one in later:
            if not isinstance(reading, Picked) and not changed:
                reading = self._uncorrected(reply[: one.end])
                continue
            new = self._uncorrected(one.text)
            doubt = None if isinstance(new, Picked) else self._claim(doubted(one.text))
            if isinstance(new, Picked):
                reading, changed = new, True
            elif one.withdraws:
                reading, changed = NoPick("withdrawn answer"), True
            elif isinstance(doubt, Picked):
                reading, changed = _together([reading, doubt]), True
        return reading if changed or not later else self._uncorrected(reply)

    def _uncorrected(self, reply: str) -> Reading:
        lines = [line.strip() for line in reply.split("\n") if line.strip()]
        announced = [found for claim in _announced(reply) if (found := self._claim(claim)) is not None]
        if len(lines) < 2:
            whole = self._claim(reply)
            alone = whole is None or (announced and isinstance(whole, NoPick))
            return _together(announced if alone or whole is None else [whole, *announced])
        if equal := equal_options(reply, self.options):
            return _one(equal, "text")
        first, last = self._claim(lines[0]), self._claim(lines[-1])
        begun = {
            as_mark(m["mark"]) for line in lines if (m := _MARK_AND_TEXT.match(line)) and m["gap"].strip()
        }
        if announced:
            # A reply that lists several options answers only where it says so.
            complete = isinstance(first, Picked) and (
                first.how == "mark" or (first.how != "explained" and len(begun) < 2)
            )
            return _together([first, *announced] if complete and first is not None else announced)
        if isinstance(first, Picked) and first.how == "explained" and len(begun) > 1:
            first = NoPick("several options")
        if isinstance(first, Picked) and first.how == "mark" and last is None:
            return Picked(first.index, "explained")
        return _together([one for one in (first, last) if one is not None])

    def _claim(self, text: str) -> Reading | None:
        """Read a text that should do nothing but name an option. Return None if it names none."""
        for core in shorter_texts(text):
            equal, bare = equal_options(core, self.options), _MARK.fullmatch(core)
            marked = self._position(bare["mark"]) if bare else None
            if isinstance(marked, int) and equal and marked not in equal and self.prefer is None:
                return NoPick("mark or text")
            if equal and not (isinstance(marked, int) and (self.prefer == "mark" or marked in equal)):
                return _one(equal, "text")
            if isinstance(marked, int):
                return Picked(marked, "both" if marked in equal else "mark")
            if marked is not None:
                return marked
        for core in shorter_texts(text):
            if (found := self._mark_and_text(core)) is not None:
                return found
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
        place = self._position(parts["mark"]) if parts else None
        if parts is None or place is None:
            return None
        rest, sure = parts["rest"].strip(), bool(_STRONG.search(parts["gap"]))
        equal = next(
            (found for shorter in shorter_texts(rest) if (found := equal_options(shorter, self.options))),
            set(),
        )
        if equal:
            if not isinstance(place, int):
                return place
            return Picked(place, "both") if place in equal else NoPick("mark and text differ")
        joined = _JOINED.match(rest)
        other = self._position(joined["mark"]) if joined and not joined["mark"].islower() else None
        if isinstance(other, int):
            return None if other == place else NoPick("several options")
        bracketed = rest[:1] == "(" and rest[-1:] == ")"
        article = parts["mark"] in "aAiI" and not parts["gap"].strip() and not bracketed
        if not sure and (article or not _REASONS.match(rest)):
            return None
        begins = {at for at, option in enumerate(self.options) if len(option) > 2 and _begins(rest, option)}
        if _NEGATED.match(rest) and place not in begins:
            return None
        if begins and place not in begins:
            return NoPick("mark and text differ")
        if any(self._names_other(sentence, place) for sentence in short_sentences(rest)):
            return NoPick("several options")
        return Picked(place, "explained") if isinstance(place, int) else place

    def _names_other(self, sentence: str, place: int | NoPick) -> bool:
        """Return whether a sentence does nothing but name another option by its mark. Announced answers are read apart."""
        for core in () if announces(sentence) else shorter_texts(sentence):
            bare = _MARK.fullmatch(core)
            other = self._position(bare["mark"]) if bare and not bare["mark"].islower() else None
            if isinstance(other, int):
                return other != place
        return False

    def _position(self, mark: str) -> int | NoPick | None:
        return _mark_position(mark, len(self.options), self.labels)


def _seen(text: str) -> str:
    return text if text.isascii() else INVISIBLE.sub("", text)


@lru_cache(maxsize=4096)
def _folded(options: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    options = tuple(map(_seen, options))
    return tuple(map(unspaced, options)), tuple(
        unspaced(option).casefold().rstrip(".。") for option in options
    )


def equal_options(text: str, options: tuple[str, ...]) -> set[int]:
    """Return the options that equal this text or, if none does, differ from it only in case or a final period."""
    exact, loose = _folded(options)
    plain = unspaced(text)
    found = {at for at, option in enumerate(exact) if option and option == plain}
    bare = plain.casefold().rstrip(".。")
    return found or {at for at, option in enumerate(loose) if option and option == bare}


def _begins(text: str, option: str) -> bool:
    rest, start = unspaced(text).casefold(), unspaced(option).casefold()
    return rest.startswith(start) and not rest[len(start) : len(start) + 1].isalnum()


def _one(equal: set[int], how: How) -> Reading:
    return Picked(min(equal), how) if len(equal) == 1 else NoPick("identical options")


def _together(found: Sequence[Reading]) -> Reading:
    """Join the readings of one reply, which must name one option."""
    picked = [one for one in found if isinstance(one, Picked)]
    wrong = [one for one in found if isinstance(one, NoPick)]
    if not picked:
        return wrong[-1] if wrong else NoPick("no mark")
    if len({one.index for one in picked}) > 1:
        differ = {one.how for one in picked} == {"mark", "text"}
        return NoPick("mark and text differ" if differ else "several options")
    if isinstance(found[-1], NoPick):
        return found[-1]
    hows = {one.how for one in picked}
    return Picked(picked[-1].index, "both" if len(hows) > 1 and hows & {"text", "both"} else picked[-1].how)


def announces(sentence: str) -> bool:
    """Return whether a sentence announces an answer, such as "The answer is B"."""
    return _ANNOUNCED.search(sentence) is not None


def _announced(reply: str) -> Iterator[str]:
    """Yield the rest of the line after each of the last announcements of an answer, except for denied ones."""
    for start in deque(_ANNOUNCED.finditer(reply), maxlen=_MOST_CLAIMS):
        if not _DENIED.search(reply, max(0, start.start() - 30), start.start()):
            yield reply[start.end() : start.end() + _LONGEST].lstrip().partition("\n")[0].strip()


def shorter_texts(text: str) -> Iterator[str]:
    """Yield a text, and then ever shorter versions without markup, lead words, and closing words."""
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
