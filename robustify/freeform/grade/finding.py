"""The finding of a deterministic grader about one answer. Undecided is a finding of its own, and never a 0."""

from dataclasses import dataclass

from robustify.freeform.judge.answer_text import MOST, split_reasoning
from robustify.freeform.schema import ErrorType, GradedKind, GradeResult, Status
from robustify.redaction.text import KeptHere

LONG = 20_000
"""Characters of an answer without its reasoning past which the rules do not look for a result."""


@dataclass(frozen=True, slots=True, repr=False)
class Finding(KeptHere):
    """A status, a score where there is one, and why. `extracted` is what of the answer was compared."""

    status: Status
    score: float | None
    verdict: str | None
    reason: str
    extracted: str | None = None
    flags: tuple[str, ...] = ()
    error_type: ErrorType | None = None

    def __repr__(self) -> str:
        return f"Finding({self.status}, {self.score}, {self.reason})"

    def graded(
        self, kind: GradedKind, grader: str, reference: str | None, item_id: str, model: str
    ) -> GradeResult:
        """The grade of this finding."""
        return GradeResult(
            item_id, model, kind, grader, self.status, self.score, self.verdict, self.reason,
            extracted=self.extracted, reference=reference, flags=self.flags, error_type=self.error_type,
        )  # fmt: skip


def right(reason: str, extracted: str, flags: tuple[str, ...] = ()) -> Finding:
    """The answer is right."""
    return Finding("scored", 1.0, "correct", reason, extracted, flags)


def wrong(reason: str, extracted: str, flags: tuple[str, ...] = ()) -> Finding:
    """The answer is certainly wrong."""
    return Finding("scored", 0.0, "incorrect", reason, extracted, flags)


def no_answer(reason: str) -> Finding:
    """The model gave no answer: 0, and counted."""
    return Finding("no_answer", 0.0, "not_attempted", reason)


def undecided(reason: str, extracted: str | None = None, flags: tuple[str, ...] = ()) -> Finding:
    """The rules cannot tell; a judge may."""
    return Finding("needs_judge", None, None, reason, extracted, flags)


def said(answer: str) -> str | Finding:
    """An answer without its reasoning; or the finding where nothing can be read of it."""
    if len(answer) > MOST:
        return Finding("grader_error", None, None, "unsafe_input", error_type="unsafe_input")
    if not answer.strip():
        return no_answer("empty")
    split = split_reasoning(answer)
    if split.unterminated:
        return Finding("truncated", None, None, "unterminated_reasoning", error_type="unterminated_reasoning")
    if len(split.text) > LONG:
        return undecided("too_long")
    return split.text if split.text else no_answer("empty")


def shown_answer(answer: str) -> str:
    """The part of an answer that a judge is shown: never its reasoning."""
    return split_reasoning(answer[:MOST]).text
