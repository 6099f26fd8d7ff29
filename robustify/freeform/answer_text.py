"""Text processing of free answers: normalization for comparison, and detection of refusals.

Words are compared as complete tokens. Formulas are compared character by character, because dropping an operator could
make opposites equal.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from robustify.freeform.grade import pattern
from robustify.freeform.schema import ErrorType, GradedKind, GradeResult, Status
from robustify.marks.final_part import json_answer, split_reasoning
from robustify.redaction import HoldsText
from robustify.texts import compatible

MOST = 1_000_000
"""Longest reply that is read, in characters. A longer reply is `unsafe_input`."""

_TOKEN = re.compile(r"(?<!\w)-?\d+(?:[.,:/]\d+)*%?|[^\W\d_]+(?:['’][^\W\d_]+)*\d*|\w+")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_ARTICLES = frozenset(("a", "an", "the"))
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|`{1,3})(?=\S)([^*_`\n]{1,300}?)(?<=\S)\1(?!\w)")
_SYMBOLIC = re.compile(
    r"[=<>+±×÷·√∑∫∂∆∇≠≈≤≥≡∝→←↔⇌⇒⇐⟶^_\\{}|~]|[−–](?=\s?\d)|->|<-|=>|\*|(?<=\d)\s?/\s?(?=[^\W\d_])|(?<=[^\W\d_])\s?/\s?(?=\d)"
)
_REFUSAL, _REFUSAL_ALONE, _POLITE, _GUESS = (
    re.compile(pattern(name), re.IGNORECASE) for name in ("refusal", "refusal_alone", "polite", "guess")
)
REFUSAL_WORDS = 40
"""Longest refusal, in words. A longer text counts as an answer."""


def powers_marked(text: str) -> str:
    """Rewrite superscripts as `^2`, because NFKC would turn "10²" into "102"."""
    return _SUPERSCRIPT.sub(lambda m: "^" + m[0].translate(_SUPERSCRIPTS), text)


@lru_cache(maxsize=1024)
def plain_text(text: str) -> str:
    """Normalise a text to NFKC with marked powers, single spaces, and no Markdown emphasis."""
    plain = " ".join(compatible(text if text.isascii() else powers_marked(text)).split())
    return _EMPHASIS.sub(r"\2", plain) if any(mark in plain for mark in "*_`") else plain


@lru_cache(maxsize=1024)
def written_tokens(text: str) -> tuple[str, ...]:
    """Return the words and numbers of a text in their original case, without articles. "-5" is one token."""
    found = _TOKEN.findall(plain_text(text).replace("’", "'").replace("\u2212", "-"))
    # The last word is not an article, and neither is a capital A after the first word ("type A influenza").
    last = len(found) - 1
    return tuple(
        t for i, t in enumerate(found)
        if len(t) > 3 or t.casefold() not in _ARTICLES or i == last or (i and t == "A")
    )  # fmt: skip


@lru_cache(maxsize=4096)
def normalize_tokens(text: str) -> tuple[str, ...]:
    """Return the case-folded words and numbers of a text, without articles."""
    return tuple(token.casefold() for token in written_tokens(text))


def squash(text: str) -> str:
    """Normalise a formula to characters that can be compared: NFKC, no spaces, no `$`, one minus sign, original case."""
    plain = plain_text(text).replace("\u2212", "-").replace("$", "")
    return "".join(plain.split()).rstrip(".")


@lru_cache(maxsize=1024)
def is_symbolic(text: str) -> bool:
    """Return whether a text contains an operator, arrow, index or brace, so that its words do not give its meaning."""
    return _SYMBOLIC.search(plain_text(text)) is not None


def is_refusal(text: str) -> bool:
    """Return whether a short text declines to answer without making a guess."""
    if len(text) > 1000 or len(text.split()) > REFUSAL_WORDS:
        return False
    if _REFUSAL_ALONE.fullmatch(text):
        return True
    parts = [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]
    refusals = [_REFUSAL.match(part) for part in parts]
    return any(refusals) and all(
        not _GUESS.search(part, match.end()) if match else _POLITE.match(part) is not None
        for match, part in zip(refusals, parts, strict=True)
    )


LONG = 20_000
"""Longest answer that the rules read, in characters without reasoning."""


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


def undecided(reason: str, extracted: str | None = None, flags: tuple[str, ...] = ()) -> Finding:
    """Return the finding for an answer that the rules cannot decide but a judge may."""
    return Finding("needs_judge", None, None, reason, extracted, flags)


_STRUCK = re.compile(r"~~\S|<(?:s|del|strike)\b|\w[\u0335\u0336]", re.IGNORECASE)
_FENCED = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)


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
    return text or no_answer("empty")


def shown_answer(answer: str) -> str:
    """Return the part of an answer that the judge sees, which excludes the reasoning."""
    return split_reasoning(answer[:MOST]).text
