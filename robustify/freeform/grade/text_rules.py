"""Decide whether an answer in words is correct. An answer is decided only if its text or a letter in it certainly means one
option.

A whole text of the reply, without harmless words at its ends, must be an option or a number. Any other word leaves it to
the judge, so that "hardly" and "nicht" need no list.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from robustify.base.redaction import HoldsText
from robustify.base.texts import compatible, in_words
from robustify.freeform.schema import FreeItem, GradeResult, Status
from robustify.pipeline.free_settings import GradedKind
from robustify.reading.marks.labelling import LETTERS
from robustify.reading.marks.picks import Picked, announces, read_pick, shorter_texts
from robustify.reading.marks.reply_parts import json_answer, split_reasoning
from robustify.reading.reply_structures import MOST, ErrorType

LONG = 20_000
"""Longest answer that the rules read, in characters without reasoning."""
_MOST_SENTENCES, _SHORT = 400, 30


@dataclass(frozen=True, slots=True, repr=False)
class Ruling(HoldsText):
    """The rules' decision on one answer: reason, score (if any), and status. `extracted` is the compared text."""

    reason: str
    score: float | None = None
    extracted: str | None = None
    flags: tuple[str, ...] = ()
    status: Status = "scored"
    error_type: ErrorType | None = None

    def graded(self, item: FreeItem, model: str, kind: GradedKind, grader: str) -> GradeResult:
        """Convert this decision into a grade."""
        status: Status = "needs_judge" if self.status == "scored" and self.score is None else self.status
        verdict = "correct" if self.score else "incorrect" if status == "scored" else "not_attempted"
        return GradeResult(
            item.id, model, kind, grader, status, self.score, None if self.score is None else verdict, self.reason,
            extracted=self.extracted, reference=item.reference, flags=self.flags, error_type=self.error_type,
        )  # fmt: skip


_STRUCK = re.compile(r"~~\S|<(?:s|del|strike)\b|\w[\u0335\u0336]", re.IGNORECASE)
_FENCED = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)
_REFUSAL = re.compile(
    r"\W*(?:(?:i['’]?m |i am )?sorry\W+(?:but )?)?(?:i (?:do not|(?:really )?don['’]?t) know(?: the answer)?"
    r"|i(?:['’]?m| am) not sure|i (?:cannot|can['’]?t|am unable to) (?:answer|help|assist)(?: with)?"
    r"(?: this| that)?(?: question| request)?|unknown|idk|n/a|no (?:answer|idea)|i have no idea|none given)\W*",
    re.IGNORECASE,
)


def extract_answer(answer: str) -> str | Ruling:
    """Extract the answer from a reply, or return a decision if the rules find no answer in the reply."""
    if len(answer) > MOST:
        return Ruling("unsafe_input", status="grader_error", error_type="unsafe_input")
    split = split_reasoning(answer)
    if split.unterminated:
        return Ruling("unterminated_reasoning", status="truncated", error_type="unterminated_reasoning")
    if len(split.text) > LONG:
        return Ruling("too_long")
    if _STRUCK.search(split.text):
        return Ruling("struck_out", None, split.text)
    text = _FENCED.sub(r"\1", split.text).strip()
    text = text if (within := json_answer(text)) is None else within.strip()
    if not text or _REFUSAL.fullmatch(text[:200]):
        return Ruling("refusal" if text else "empty", 0.0, status="no_answer")
    return text


def shown_answer(answer: str) -> str:
    """Return the part of an answer that the judge sees, which excludes the reasoning."""
    return split_reasoning(answer[:MOST]).text


# Texts of an answer

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_FRACTION = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
_MINUS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\ufe63\uff0d", "-") | {"\u2044": "/", "\u2215": "/"})
_BOUNDARY = re.compile(r"(?<=[.!?。])\s+|\n")
_BEFORE = re.compile(
    r"(?:the|an?(?=\s\w\w)|in|at|on|it (?:has|was|takes|gives)|about|approximately|around|roughly|exactly"
    r"|(?:i (?:think|believe|would say)|ich (?:glaube|denke),?)(?: that)?|probably|most likely"
    r"|they are|there are|es (?:ist|sind)|die|das|der|etwa|ca\.|het is|la|le|el|il|het|c['’]est|es|è|é)(?=\s)\s*"
    r"|well,\s+|答案\s?[是為为:：]|[≈~]\s*|\*{2,3}(?=\S)",
    re.IGNORECASE,
)
_IS = r"(?:is|are|was|ist|est|es|è|é)"
_ASKS_WHAT = re.compile(rf"\w+ {_IS} (.{{3,100}}?)[\s?]*", re.IGNORECASE)
_NOT = re.compile(r"([^()]{1,200}?)(?:,|\s\()\s?not\s([^()]{1,200}?)\)?[\s.]*")


def plain_text(text: str) -> str:
    """Normalize a text to NFKC with single spaces. "10²" becomes "10^2", because NFKC alone would give "102"."""
    if not text.isascii():
        text = _SUPERSCRIPT.sub(lambda m: "^" + m[0].translate(_SUPERSCRIPTS), _FRACTION.sub(" ", text))
        text = compatible(text).translate(_MINUS)
    return " ".join(text.split())


def plain_words(text: str) -> tuple[str, ...]:
    """Return the words and numbers of a text, in folded case and without articles."""
    return tuple(word for word in re.findall(r"\w+", in_words(text)) if word not in ("a", "an", "the"))


def core_texts(sentence: str, question: str = "") -> Iterator[str]:
    """Yield a sentence, and then ever shorter versions without markup and harmless words at the ends.

    "The capital of Norway is Oslo" restates the question "What is the capital of Norway?" and becomes "Oslo".
    """
    text, seen = sentence.strip(), set[str]()
    if (restatable := _ASKS_WHAT.fullmatch(question)) is not None:
        subject = re.escape(restatable[1])
        forms = rf"{subject} {_IS}\s(.+)|(.+)\s{_IS} {subject}"
        restated = re.fullmatch(forms, text.rstrip(". "), re.IGNORECASE)
        text = restated[1] or restated[2] if restated else text
    for _ in range(6):
        for text in shorter_texts(text):  # noqa: B020
            if text not in seen:
                seen.add(text)
                yield text
        lead = _BEFORE.match(text)
        if lead is None or lead.end() == len(text):
            return
        text = text[lead.end() :]


def shared_ruling(text: str, decide: Callable[[str], Ruling]) -> Ruling:
    """Return the decision on the whole answer. If it is undecided, return the decision that the sentences share.

    A short first line counts too, because a base model may answer there and then invent questions. "24, not 42" counts as
    "24" if "42" is decided differently.
    """
    overall = decide(text)
    if overall.score is None and (contrast := _NOT.fullmatch(text)) is not None:
        first, second = decide(contrast[1]), decide(contrast[2])
        overall = first if {first.score, second.score} == {0.0, 1.0} else overall
    parts = [part.strip() for part in _BOUNDARY.split(text) if part.strip()]
    if overall.score is not None or len(parts) < 2:
        return overall
    if "?" in text or len(parts) > _MOST_SENTENCES or not announces(parts[-1]):
        return Ruling("several_results", None, text)
    rulings = [decide(part) for part in dict.fromkeys(parts) if announces(part)]
    if len(parts[0]) <= _SHORT and (first := decide(parts[0])).score is not None:
        rulings.append(first)
    agree = len({ruling.score for ruling in rulings}) == 1
    return rulings[0] if agree else Ruling("several_results", None, text)


# Options and explanations

_ARTICLE = re.compile(r"(?:[Tt]he|[Aa]n|a)\s+(?=\w\w)")
_LONG_WORD = re.compile(r"(?<!\d)(?<!\d )\b[^\W\d_]{3,}")


def find_choice(item: FreeItem, answer: str) -> Ruling:
    """Decide whether an answer is certainly the correct option or certainly another option, by text or by shown letter."""
    text = extract_answer(answer)
    if isinstance(text, Ruling):
        return text
    if item.options_shown:
        pick = read_pick(text, item.options, letters := LETTERS[: len(item.options)])
        if not isinstance(pick, Picked):
            return Ruling("no_option", None, text)
        # The "A" of "A stone" is no letter of an option.
        marks = {mark.casefold() for mark in re.findall(r"\b[A-Z]\b(?!\s[a-z])", text)}
        if pick.named_by == "explained" and marks & set(letters) - {letters[pick.index]}:
            return Ruling("several_results", None, text)
        return _option_ruling(pick.index == item.correct, text)
    options, key = (item.options, item.correct) if item.correct is not None else ((item.reference,), 0)
    texts = [(plain_text(option), index == key) for index, option in enumerate(options)]
    texts += [(plain_text(alias), True) for alias in item.aliases]
    return shared_ruling(text, lambda claim: _find_text(claim, texts, item.question))


def find_explanation(answer: str, reference: str) -> Ruling:
    """Accept an explanation that repeats the reference word for word. Any other explanation needs a judge."""
    if not plain_words(reference):
        return Ruling("reference_is_empty", status="reference_error")
    text = extract_answer(answer)
    if isinstance(text, Ruling):
        return text
    same = _bare(plain_text(text)).casefold() == _bare(plain_text(reference)).casefold()
    return _option_ruling(True, text) if same else Ruling("explanation", None, text)


def _find_text(claim: str, texts: Sequence[tuple[str, bool]], question: str) -> Ruling:
    """Find the one option whose text matches a claim exactly, without an article, or ignoring the case of longer words."""
    plain = plain_text(claim)
    for core in core_texts(plain, question):
        forms = (
            [is_key for text, is_key in texts if form(text) == form(core)] for form in (str, _bare, _folded)
        )
        if same := next(filter(None, forms), []):
            # "Yes, no" names two options, and so does "It is right" of a hand.
            remaining = {*plain_words(plain.replace(core, " ", 1))}
            other = any(remaining.issuperset(words) for text, _ in texts if (words := plain_words(text)))
            alone = not other and (all(same) or len(same) == 1)
            return _option_ruling(same[0], claim) if alone else Ruling("several_results", None, claim)
    return Ruling("no_option", None, claim)


def _option_ruling(is_key: bool, text: str) -> Ruling:
    return Ruling("equal", 1.0, text) if is_key else Ruling("other_option", 0.0, text)


def _bare(text: str) -> str:
    return _ARTICLE.sub("", text, count=1).rstrip(".")


def _folded(text: str) -> str:
    """Fold the case of longer words only, because "CO" differs from "Co", and "5 MW" from "5 mW"."""
    return _LONG_WORD.sub(lambda word: word[0].casefold(), _bare(text))
