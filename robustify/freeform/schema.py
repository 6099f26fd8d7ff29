"""Records of free response: open-ended questions, models' answers, and grades. All are immutable and validated."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from string import ascii_uppercase
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from robustify.base.errors import DataError, UsageError, installing
from robustify.base.redaction import HoldsText

Kind = Literal["numeric", "short_text", "explanation"]
GradedKind = Literal["numeric", "short_text", "explanation", "nuggets"]
Status = Literal["scored", "no_answer", "truncated", "needs_judge", "grader_error", "reference_error"]
DECIDED: tuple[Status, ...] = ("scored", "no_answer")
"""Statuses with a score. An answer with any other status is unscored, which is different from a score of 0."""
Method = Literal["deterministic", "judge", "votes"]
ErrorType = Literal[
    "empty", "unterminated_reasoning", "format_error", "truncation", "ambiguous", "duplicate_index", "missing_index",
    "count_mismatch", "unknown_label", "off_scale", "unsafe_input", "tie", "no_majority", "api_error", "timeout",
    "rate_limited", "auth_error", "content_filter",
]  # fmt: skip
"""Reasons why a reply gave no verdict, used by all parsers and judges."""
SCHEMA = "robustify.grade/2"
NuggetScore = Literal["strict_vital", "vital", "strict_all", "all", "weighted"]
NUGGET_SCORES: tuple[NuggetScore, ...] = get_args(NuggetScore)
FormatType = Literal["json", "yaml", "xml", "csv", "markdown", "adaptive"]
FORMAT_TYPES: tuple[FormatType, ...] = get_args(FormatType)
"""Formats in which a judge may write labels."""
LONGEST_NUGGET = 40
"""Longest nugget, in words. A longer text is not a single fact."""


@cache
def require_packages() -> None:
    """Raise `UsageError` with the command to run if the packages of the extra `free` are not installed."""
    if missing := [name for name in ("json_repair", "pint") if find_spec(name) is None]:
        raise UsageError(
            f"Replies cannot be read without {' and '.join(missing)}, which this Python does not have. Run "
            f"{installing('free')}."
        )


@dataclass(frozen=True, slots=True, repr=False)
class Nugget(HoldsText):
    """One fact that an answer should state. Raise `DataError` if the text is empty or longer than 40 words, or the
    importance is unknown."""

    id: str
    text: str
    importance: Literal["vital", "okay"] = "vital"

    def __post_init__(self) -> None:
        words = len(self.text.split())
        if not 1 <= words <= LONGEST_NUGGET:
            raise DataError(f"A nugget has {words} words. Expected 1 to {LONGEST_NUGGET}.")
        if self.importance not in ("vital", "okay"):
            raise DataError("A nugget has an unknown importance. Expected vital or okay.")


@dataclass(frozen=True, slots=True, repr=False)
class FreeItem(HoldsText):
    """A question to be answered in words. Raise `DataError` if the ID or question is empty.

    `reference` is the correct answer, and `unit` its unit if it is a number. `options` and `correct` are the choices
    and key of the original item, if there is one. With `options_shown`, the model sees them as a lettered list.
    `aliases` are other correct wordings. `excluded_reason` is "" if the question may be asked.
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
            raise DataError("An item has an empty ID or question. Both are required.")

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
    """Record of a judgement: model, template, calls, and agreement of the votes."""

    model: str
    template_id: str
    template_sha256: str
    attempts: tuple[Attempt, ...]
    votes: tuple[str | None, ...]
    agreement: float | None
    self_judging: bool


@dataclass(frozen=True, slots=True)
class NuggetGrade:
    """The label of one nugget, or None if no label in the judge's reply can be matched to it."""

    id: str
    importance: Literal["vital", "okay"]
    label: str | None
    error_type: ErrorType | None = None


@dataclass(frozen=True, slots=True, repr=False)
class GradeResult(HoldsText):
    """One graded answer. `score` is None if the answer is unscored, which is different from wrong.

    `extracted` and `reference` are the texts that were compared. If a judge was also asked, `det_verdict` is the
    verdict of the rules.
    """

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
            raise DataError(f"A grade with status {self.status} cannot have score {self.score}.")

    def json(self) -> dict[str, Any]:
        """Return the grade as one JSON row."""
        return {"schema": SCHEMA, **asdict(self)}


_READER = TypeAdapter(GradeResult)


def grade_from(row: Mapping[str, Any]) -> GradeResult:
    """Build a grade from its JSON. Raise `DataError` if the schema differs, or a field is missing or invalid."""
    if row.get("schema") != SCHEMA:
        raise DataError("The row is not a grade. Expected a row of free.jsonl, of a run or `free grade`.")
    try:
        return _READER.validate_python({name: x for name, x in row.items() if name != "schema"})
    except ValidationError as error:
        # Field names are safe to print, but values may be item text.
        names = dict.fromkeys(str(fault["loc"][0]) for fault in error.errors(include_input=False))
        raise DataError(f"The grade has missing or invalid fields: {', '.join(names)}.") from None
