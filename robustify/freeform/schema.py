"""The rows of free response: a question without options, a model's answer, and its grade. Frozen and checked when made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from string import ascii_uppercase
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from robustify.errors import DataError
from robustify.redaction import KeptHere

Kind = Literal["numeric", "short_text", "explanation"]
GradedKind = Literal["numeric", "short_text", "explanation", "nuggets"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Status = Literal["scored", "no_answer", "truncated", "needs_judge", "grader_error", "reference_error"]
DECIDED: tuple[Status, ...] = ("scored", "no_answer")
"""Statuses that have a score. An answer with any other status is unscored, which is not a 0."""
Method = Literal["deterministic", "judge", "votes"]
ErrorType = Literal[
    "empty", "unterminated_reasoning", "format_error", "truncation", "ambiguous", "duplicate_index", "missing_index",
    "count_mismatch", "unknown_label", "off_scale", "unsafe_input", "tie", "no_majority", "api_error", "timeout",
    "rate_limited", "auth_error", "content_filter",
]  # fmt: skip
"""Why a reply gave no verdict. Every parser and every call of a judge uses these names."""
SCHEMA = "robustify.grade/2"
NuggetScore = Literal["strict_vital", "vital", "strict_all", "all", "weighted"]
NUGGET_SCORES: tuple[NuggetScore, ...] = get_args(NuggetScore)
FormatType = Literal["json", "markdown", "csv", "adaptive"]
FORMAT_TYPES: tuple[FormatType, ...] = get_args(FormatType)
"""How a judge may be asked to write labels."""
LONGEST_NUGGET = 40
"""Words of a nugget; a longer text is not a single fact."""


@dataclass(frozen=True, slots=True, repr=False)
class Nugget(KeptHere):
    """One fact that an answer should state. `reviewed`: a person has agreed with its words.

    Raises:
        DataError: an empty text, more than 40 words, or an unknown importance.
    """

    id: str
    text: str
    importance: Literal["vital", "okay"] = "vital"
    reviewed: bool = True

    def __post_init__(self) -> None:
        words = len(self.text.split())
        if not 1 <= words <= LONGEST_NUGGET:
            raise DataError(f"a nugget of {words} words; expected 1 to {LONGEST_NUGGET}")
        if self.importance not in ("vital", "okay"):
            raise DataError("a nugget of another importance; expected vital or okay")


@dataclass(frozen=True, slots=True, repr=False)
class FreeItem(KeptHere):
    """One question to be answered in words.

    `reference` is the right answer and `unit` the unit of a numeric one. `options` and `correct` are the choices that
    the question came from; the grader uses them, and with `options_shown` the model sees them too, each by its letter.
    `aliases` are other right wordings. `excluded_reason` is "" if the question may be asked.

    Raises:
        DataError: no id, no question, an unknown kind, a correct option out of range.
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
            raise DataError("item: id or question is empty; expected both")
        if self.kind not in KINDS:
            raise DataError(f"item: of another kind; expected one of {', '.join(KINDS)}")
        if self.correct is not None and not 0 <= self.correct < len(self.options):
            raise DataError(f"item: correct {self.correct}, but {len(self.options)} options")
        if self.options_shown and self.correct is None:
            raise DataError("item: options_shown without a correct option; expected `correct`")

    @property
    def asked(self) -> str:
        """The question as it is asked, with its lettered options if they are shown."""
        shown = zip(ascii_uppercase, self.options, strict=False) if self.options_shown else ()
        return "\n".join([self.question, *(f"({letter}) {option}" for letter, option in shown)])


@dataclass(frozen=True, slots=True, repr=False)
class AnswerRow(KeptHere):
    """A model's answer. `error` says why there is no text if the model was not asked."""

    item_id: str
    model: str
    text: str
    template: str = ""
    finish_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Attempt(KeptHere):
    """One call of a judge: its reply, or the fault of the call."""

    vote: int
    prompt_sha256: str
    reply: str
    error_type: ErrorType | None
    finish_reason: str | None
    usage: Mapping[str, int]


@dataclass(frozen=True, slots=True, repr=False)
class JudgeTrace(KeptHere):
    """Who judged, by which template, in how many calls, and how far the votes agree."""

    model: str
    template_id: str
    template_sha256: str
    attempts: tuple[Attempt, ...]
    votes: tuple[str | None, ...]
    agreement: float | None
    self_judging: bool


@dataclass(frozen=True, slots=True)
class NuggetGrade:
    """The label of one nugget, None if the judge gave none that can be aligned."""

    id: str
    importance: Literal["vital", "okay"]
    label: str | None
    error_type: ErrorType | None = None
    reviewed: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class GradeResult(KeptHere):
    """One graded answer. `score` is None if the status is not decided: an unscored answer is never a wrong one.

    `extracted` and `reference` are the texts that were compared. `det_verdict` is the verdict of the rules if a judge was
    asked as well.
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
            raise DataError(f"grade: status {self.status} does not go with score {self.score}")

    def json(self) -> dict[str, Any]:
        """Return one line of a file of grades."""
        return {"schema": SCHEMA, **asdict(self)}


def grade_from(row: Mapping[str, Any]) -> GradeResult:
    """Make a `GradeResult` of its JSON.

    Raises:
        DataError: another schema, missing or unusable fields.
    """
    if row.get("schema") != SCHEMA:
        raise DataError(
            "not a grade; expected a row written by `robustify free grade` or free.jsonl of a run"
        )
    try:
        return _reader().validate_python({name: x for name, x in row.items() if name != "schema"})
    except ValidationError as error:
        # The names of fields are ours; their values may be text of an item.
        names = dict.fromkeys(
            str(fault["loc"][0]) for fault in error.errors(include_input=False) if fault["loc"]
        )
        raise DataError(f"grade: {', '.join(names) or 'fields'} missing or unusable") from None


@cache
def _reader() -> "TypeAdapter[GradeResult]":
    return TypeAdapter(GradeResult)
