"""Records and settings of free response: open-ended questions, answers, and grades, and the `free:` block of a config."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from robustify.base.errors import DataError
from robustify.base.redaction import HoldsText
from robustify.base.settings_files import Settings
from robustify.items.prompt_templates import Message, PromptTemplate, rendered, template_named
from robustify.models.engines.settings import Address, Variable
from robustify.reading.jsonl import read_jsonl
from robustify.reading.reply_structures import ErrorType

Kind = Literal["numeric", "short_text", "explanation"]
GradedKind = Literal["numeric", "short_text", "explanation", "nuggets"]
Status = Literal["scored", "no_answer", "truncated", "needs_judge", "grader_error", "reference_error"]
DECIDED: tuple[Status, ...] = ("scored", "no_answer")
"""Statuses with a score. An answer with any other status is unscored, which is different from a score of 0."""
Method = Literal["deterministic", "judge", "votes"]
SCHEMA = "robustify.grade/2"
NuggetScore = Literal["strict_vital", "vital", "strict_all", "all", "weighted"]
NUGGET_SCORES: tuple[NuggetScore, ...] = get_args(NuggetScore)
FormatType = Literal["json", "yaml", "xml", "csv", "markdown", "adaptive"]
FORMAT_TYPES: tuple[FormatType, ...] = get_args(FormatType)
"""Formats in which a judge may write labels."""
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
    """One graded answer. `score` is None if it is unscored, which is different from wrong. `extracted` and `reference` were
    compared. If a judge was also asked, `det_verdict` is the verdict of the rules."""

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
        fault = "The row is not a grade. Expected a row of free.jsonl, of a run or `free grade`."
        raise DataError(fault, code="not-a-grade")
    try:
        return _READER.validate_python({name: x for name, x in row.items() if name != "schema"})
    except ValidationError as error:
        # Field names are safe to print, but values may be item text.
        names = dict.fromkeys(str(fault["loc"][0]) for fault in error.errors(include_input=False))
        fault = f"The grade has missing or invalid fields: {', '.join(names)}."
        raise DataError(fault, code="invalid-grade") from None


# Settings

Mode = Literal["deterministic", "auto", "judge", "both"]
Rubric = Literal["mcq", "numeric", "explanation"]
RUBRICS: Mapping[str, Kind] = {"mcq": "short_text", "numeric": "numeric", "explanation": "explanation"}
"""Kind of answer that each judge template `grader/NAME` grades."""


class JudgeSettings(Settings):
    """Settings of the judge, a model at an OpenAI-compatible server, as explained in docs/freeform.md."""

    model: str = Field(min_length=1)
    base_url: Address
    api_key_env: Variable | None = None
    votes: int = Field(default=1, ge=1, strict=True)
    retries: int = Field(default=2, ge=0, strict=True)
    max_tokens: int = Field(default=1024, ge=16, strict=True)
    seed: int = Field(default=0, strict=True)
    forbid_self: bool = True
    json_schema: bool = False

    @field_validator("votes")
    @classmethod
    def _odd(cls, votes: int) -> int:
        if votes % 2 == 0:
            raise ValueError("the number is even; expected an odd number, so that two verdicts cannot tie")
        return votes


class FreeSettings(Settings):
    """Settings of free response, as explained in docs/freeform.md.

    `models` defaults to every model that can generate text, `template` to one per kind of answer, and `scale` and
    `format_type` to those of the template. `rubrics` names a version of the judge's template by kind (`mcq: "1.0"`), or a
    template of yours.
    """

    models: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    template: str | None = None
    language: str | None = None
    max_tokens: int = Field(default=512, ge=1, strict=True)
    limit: int | None = Field(default=None, ge=1, strict=True)
    explanations: bool = False
    options_shown: bool = False
    facts: str | None = None
    people: str | None = None
    examples: str | None = None
    mode: Mode | None = None
    rel_tol: float = Field(default=0.05, ge=0, allow_inf_nan=False)
    abs_tol: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    scale: Literal["binary", "five"] | None = None
    rubrics: dict[Rubric, str] = Field(default_factory=dict)
    nugget_template: str = "nugget/optimized@2.0"
    format_type: FormatType | None = None
    batch_size: int = Field(default=10, ge=1, strict=True)
    nugget_score: NuggetScore = "vital"
    judge: JudgeSettings | None = None
    template_dir: tuple[str, ...] = ()

    @property
    def who(self) -> Mode:
        """Grading mode: with `rubrics`, the judge grades by default."""
        return self.mode or ("judge" if self.rubrics else "auto")

    @property
    def asking(self) -> JudgeSettings:
        """Settings for judge calls, with defaults if no judge is configured."""
        return self.judge or JudgeSettings(model="judge", base_url="http://127.0.0.1")

    def template_named(self, template_id: str) -> PromptTemplate:
        """Return the template with this ID, which is built in or in `template_dir`."""
        return template_named(template_id, tuple(map(Path, self.template_dir)))

    @cached_property
    def _solved(self) -> list[tuple[PromptTemplate, Mapping[str, Any]]]:
        def solved(row: Mapping[str, Any]) -> tuple[PromptTemplate, Mapping[str, Any]]:
            match row:
                case {"template": str(name), "reply": str(reply)} if reply.strip():
                    return self.template_named(name), row
            fault = "The row is not an example. Expected template, reply, and its other variables."
            raise DataError(fault, code="not-an-example")

        return read_jsonl(Path(self.examples), solved) if self.examples else []

    def solved(self, template: PromptTemplate, given: Mapping[str, object]) -> list[Message]:
        """Return the examples of a judge's template as turns of a conversation. `given` are variables that all share."""
        turns = list[Message]()
        for number, (example_template, example) in enumerate(self._solved):
            if example_template.name == template.name:
                n_nuggets = len(example.get("nuggets", ()))
                variables = {"num_nuggets": n_nuggets, "nonce": f"example:{number}", **example}
                turns += [
                    rendered(template, {**given, **variables})[-1],
                    Message("assistant", example["reply"]),
                ]
        return turns

    def judged_by(self, kind: GradedKind) -> PromptTemplate:
        """Return the template with which a judge grades answers of this kind."""
        rubric: Rubric = "mcq" if kind == "short_text" else kind if kind != "nuggets" else "explanation"
        name = self.nugget_template if kind == "nuggets" else self.rubrics.get(rubric, "2.0")
        if "/" not in name:
            name = f"nugget/{name}" if kind == "nuggets" else f"grader/{rubric}@{name.removeprefix('v')}"
        return self.template_named(name)
