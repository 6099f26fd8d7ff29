"""Records of free response: open-ended questions, answers, and grades."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from string import ascii_uppercase
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from robustify.base.errors import DataError
from robustify.base.redaction import HoldsText
from robustify.pipeline.free_settings import GradedKind, Kind
from robustify.reading.reply_structures import ErrorType

Status = Literal["scored", "no_answer", "truncated", "needs_judge", "grader_error", "reference_error"]
DECIDED: tuple[Status, ...] = ("scored", "no_answer")
"""Statuses with a score. An answer with any other status is unscored, which is different from a score of 0."""
Method = Literal["deterministic", "judge", "votes"]
SCHEMA = "robustify.grade/2"
LONGEST_NUGGET = 40
"""Longest nugget, in words. A longer text is not a single fact."""


@dataclass(frozen=True, slots=True, repr=False)
class Nugget(HoldsText):
    """One fact that an answer should state, in 1 to 40 words."""

    id: str
    text: str
    importance: Literal["vital", "okay"] = "vital"

    def __post_init__(self) -> None:
        words = len(self.text.split())
        if not 1 <= words <= LONGEST_NUGGET:
            fault = f"A nugget has {words} words. Expected 1 to {LONGEST_NUGGET}."
            raise DataError(fault, code="unfit-nugget-length")
        if self.importance not in ("vital", "okay"):
            fault = "A nugget has an unknown importance. Expected vital or okay."
            raise DataError(fault, code="unknown-importance")


@dataclass(frozen=True, slots=True, repr=False)
class FreeItem(HoldsText):
    """A question to be answered in words.

    `options` and `correct` are the choices and key of the original item. With `options_shown`, the model sees them as a
    lettered list. `aliases` are other correct wordings. `excluded_reason` is "" if the question may be asked.
    """

    id: str
    question: str
    kind: Kind
    reference: str
    unit: str | None = None
    options: tuple[str, ...] = ()
    correct: int | None = None
    aliases: tuple[str, ...] = ()
    nuggets: tuple[Nugget, ...] = ()
    topic: str = ""
    group: str = ""
    excluded_reason: str = ""
    options_shown: bool = False

    def __post_init__(self) -> None:
        if not self.id or not self.question.strip():
            fault = "An item has an empty ID or question. Both are required."
            raise DataError(fault, code="empty-id-or-question")

    @property
    def asked(self) -> str:
        """Question text, with lettered options if they are shown."""
        shown = zip(ascii_uppercase, self.options, strict=False) if self.options_shown else ()
        return "\n".join([self.question, *(f"({letter}) {option}" for letter, option in shown)])


@dataclass(frozen=True, slots=True, repr=False)
class AnswerRow(HoldsText):
    """A model's answer. If the model was not asked, `error` gives the reason."""

    item_id: str
    model: str
    text: str
    template: str = ""
    finish_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Attempt(HoldsText):
    """One call of a judge: its reply, or the error of the call."""

    vote: int
    prompt_sha256: str
    reply: str
    error_type: ErrorType | None
    finish_reason: str | None
    usage: Mapping[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class JudgeTrace(HoldsText):
    """Record of a judgment: model, template, calls, and agreement of the votes."""

    model: str
    template_id: str
    template_sha256: str
    attempts: tuple[Attempt, ...]
    votes: tuple[str | None, ...]
    agreement: float | None
    self_judging: bool


@dataclass(frozen=True, slots=True)
class NuggetGrade:
    """Label of one nugget. It is None if no label in the judge's reply can be matched to the nugget."""

    id: str
    importance: Literal["vital", "okay"]
    label: str | None
    error_type: ErrorType | None = None


@dataclass(frozen=True, slots=True, repr=False)
class GradeResult(HoldsText):
    """One graded answer. `score` is None if the answer is unscored, which is different from wrong. `extracted` and
    `reference` were compared. If a judge was also asked, `det_verdict` is the verdict of the rules."""

    item_id: str
    model: str
    kind: GradedKind
    grader: str
    status: Status
    score: float | None
    verdict: str | None
    reason: str
    method: Method = "deterministic"
    extracted: str | None = None
    reference: str | None = None
    flags: tuple[str, ...] = ()
    error_type: ErrorType | None = None
    tolerance: Mapping[str, str] | None = None
    det_verdict: str | None = None
    judge: JudgeTrace | None = None
    nuggets: tuple[NuggetGrade, ...] = ()
    nugget_scores: Mapping[str, Any] | None = None
    group: str = ""

    def __post_init__(self) -> None:
        if (self.score is not None) != (self.status in DECIDED):
            fault = f"A grade with status {self.status} cannot have score {self.score}."
            raise DataError(fault, code="score-against-status")

    def json(self) -> dict[str, Any]:
        """Return the grade as one JSON row."""
        return {"schema": SCHEMA, **asdict(self)}


_READER = TypeAdapter(GradeResult)


def grade_from(row: Mapping[str, Any]) -> GradeResult:
    """Build a grade from its JSON object. Raise `DataError` if the object is not a grade."""
    if row.get("schema") != SCHEMA:
        fault = "The row is not a grade. Expected a row of the free.jsonl of a run or of `free grade`."
        raise DataError(fault, code="not-a-grade")
    try:
        return _READER.validate_python({name: x for name, x in row.items() if name != "schema"})
    except ValidationError as error:
        # Field names are safe to print, but values may be item text.
        names = dict.fromkeys(str(fault["loc"][0]) for fault in error.errors(include_input=False))
        fault = f"The grade has missing or invalid fields: {', '.join(names)}."
        raise DataError(fault, code="invalid-grade") from None
