"""What rules say of one answer, and the texts of a reply that may be its answer.

The rule is *certain or undecided*: an answer counts only if a whole text of the reply, without harmless words at its
ends, is an option or a number. Any other word leaves it to the judge, so that "hardly" and "nicht" need no list.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from robustify.freeform.schema import ErrorType, GradedKind, GradeResult, Status
from robustify.marks.final_part import json_answer, split_reasoning
from robustify.marks.picks import announces, shorter_texts
from robustify.redaction import HoldsText
from robustify.texts import compatible

MOST = 1_000_000
"""Longest reply that is read, in characters. A longer reply is `unsafe_input`."""
LONG = 20_000
"""Longest answer that the rules read, in characters without reasoning."""
_MOST_SENTENCES, _SHORT = 400, 30


@dataclass(frozen=True, slots=True, repr=False)
class Finding(HoldsText):
    """The rules' decision on one answer: status, score if there is one, and reason. `extracted` is the compared text."""

    status: Status
    score: float | None
    verdict: str | None
    reason: str
    extracted: str | None = None
    flags: tuple[str, ...] = ()
    error_type: ErrorType | None = None

    def graded(
        self, kind: GradedKind, grader: str, reference: str | None, item_id: str, model: str
    ) -> GradeResult:
        """Convert this finding into a grade."""
        return GradeResult(
            item_id, model, kind, grader, self.status, self.score, self.verdict, self.reason,
            extracted=self.extracted, reference=reference, flags=self.flags, error_type=self.error_type,
        )  # fmt: skip


def right(reason: str, extracted: str, flags: tuple[str, ...] = ()) -> Finding:
    """Return the finding for a correct answer."""
    return Finding("scored", 1.0, "correct", reason, extracted, flags)


def wrong(reason: str, extracted: str, flags: tuple[str, ...] = ()) -> Finding:
    """Return the finding for an answer that is certainly wrong."""
    return Finding("scored", 0.0, "incorrect", reason, extracted, flags)


def no_answer(reason: str) -> Finding:
    """Return the finding for a missing answer, which counts with score 0."""
    return Finding("no_answer", 0.0, "not_attempted", reason)


def undecided(reason: str, extracted: str | None = None) -> Finding:
    """Return the finding for an answer that the rules cannot decide but a judge may."""
    return Finding("needs_judge", None, None, reason, extracted)


_STRUCK = re.compile(r"~~\S|<(?:s|del|strike)\b|\w[\u0335\u0336]", re.IGNORECASE)
_FENCED = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m |i am )?sorry\W+(?:but )?)?(?:i (?:do not|(?:really )?don['’]?t) know(?: the answer)?"
    r"|i(?:['’]?m| am) not sure|i (?:cannot|can['’]?t|am unable to) (?:answer|help|assist)(?: with)?"
    r"(?: this| that)?(?: question| request)?|unknown|idk|n/a|no (?:answer|idea)|i have no idea|none given)\W*",
    re.IGNORECASE,
)


def said(answer: str) -> str | Finding:
    """Extract the answer from a reply, or return a finding if the reply has no answer that the rules can read."""
    if len(answer) > MOST:
        return Finding("grader_error", None, None, "unsafe_input", error_type="unsafe_input")
    if not answer.strip():
        return no_answer("empty")
    split = split_reasoning(answer)
    if split.unterminated:
        return Finding("truncated", None, None, "unterminated_reasoning", error_type="unterminated_reasoning")
    if len(split.text) > LONG:
        return undecided("too_long")
    if _STRUCK.search(split.text):
        return undecided("struck_out", split.text)
    text = _FENCED.sub(r"\1", split.text).strip()
    text = text if (within := json_answer(text)) is None else within.strip()
    if _REFUSAL.fullmatch(text[:200]):
        return no_answer("refusal")
    return text or no_answer("empty")


def shown_answer(answer: str) -> str:
    """Return the part of an answer that the judge sees, which excludes the reasoning."""
    return split_reasoning(answer[:MOST]).text


_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_FRACTION = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
_MINUS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\ufe63\uff0d", "-") | {"\u2044": "/", "\u2215": "/"})


def plain_text(text: str) -> str:
    """Normalise a text to NFKC with single spaces and `^2` for superscripts, because NFKC turns "10²" into "102"."""
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda m: "^" + m[0].translate(_SUPERSCRIPTS), _FRACTION.sub(" ", text))
        text = compatible(text).translate(_MINUS)
    return " ".join(text.split())


_BOUNDARY = re.compile(r"(?<=[.!?。])\s+|\n")
_BEFORE = re.compile(
    r"(?:the|an?(?=\s\w\w)|in|at|on|it (?:has|was|takes|gives)|about|approximately|approx\.?|around|roughly|exactly"
    r"|(?:i (?:think|believe|would say)|ich (?:glaube|denke),?)(?: that)?|probably|most likely"
    r"|they are|there are|es (?:ist|sind)"
    r"|die|das|der|etwa|ca\.|het is|la|le|el|il|het|c['’]est|es|è|é|a|o(?=\s\w\w))(?=\s)\s*"
    r"|well,\s+|答案\s?[是为為:：]|[≈~]\s*|\*{2,3}(?=\S)",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?:,\s(?:i (?:think|believe)|i guess|of course)|\s(?:in total|insgesamt))[.!]?\Z", re.IGNORECASE
)


_IS = r"(?:is|are|was|ist|est|es|è|é)"
_ASKED = re.compile(rf"\w+ {_IS} (.{{3,100}}?)[\s?]*", re.IGNORECASE)
_NOT = re.compile(r"([^()]{1,200}?)(?:,|\s\()\s?not\s([^()]{1,200}?)\)?[\s.]*")


def core_texts(sentence: str, question: str = "") -> Iterator[str]:
    """Yield a sentence, and then ever shorter versions without markup and harmless words at its ends.

    "The capital of Norway is Oslo" restates the question "What is the capital of Norway?" and becomes "Oslo".
    """
    text, seen = sentence.strip(), set[str]()
    asked = _ASKED.fullmatch(question)
    if asked is not None:
        said, subject = text.rstrip(". "), re.escape(asked[1])
        start = re.match(rf"{subject} {_IS}\s", said, re.IGNORECASE)
        end = re.search(rf"\s{_IS} {subject}\Z", said, re.IGNORECASE)
        text = said[start.end() :] if start else said[: end.start()] if end else text
    for _ in range(6):
        for text in shorter_texts(text):  # noqa: B020
            if text not in seen:
                seen.add(text)
                yield text
        shorter = _AFTER.sub("", text)
        if (lead := _BEFORE.match(shorter)) is not None:
            shorter = shorter[lead.end() :]
        if not shorter or shorter in seen:
            return
        text = shorter


def agreed(text: str, decide: Callable[[str], Finding]) -> Finding:
    """Return the finding of a whole answer, or else the one that all sentences that announce a result share.

    The last sentence must announce one. A short first line counts too, because a base model may answer there and then
    continue with questions that it invents.
    """
    whole = decide(text)
    if whole.score is None and (both := _NOT.fullmatch(text)) is not None:
        # "24, not 42" counts as "24" if "42" is decided differently.
        one, other = decide(both[1]), decide(both[2])
        whole = one if {one.score, other.score} == {0.0, 1.0} else whole
    parts = [part.strip() for part in _BOUNDARY.split(text) if part.strip()]
    if whole.score is not None or len(parts) < 2:
        return whole
    claims = [part for part in parts if announces(part)]
    if not claims or claims[-1] != parts[-1] or "?" in text or len(parts) > _MOST_SENTENCES:
        return undecided("several_results", text)
    found = [decide(claim) for claim in dict.fromkeys(claims)]
    if len(parts[0]) <= _SHORT and (first := decide(parts[0])).score is not None:
        found.append(first)
    return found[0] if len({one.score for one in found}) == 1 else undecided("several_results", text)
