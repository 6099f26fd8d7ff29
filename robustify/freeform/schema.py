"""The rows of free response: an item without options, a model's answer, a grade. Frozen, checked when made, JSON lines.

A grade of a restricted item is written without text; counts and rounded rates are what may be printed of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from string import ascii_uppercase
from typing import Any, Literal, TypeVar, get_args

from robustify.errors import DataError
from robustify.redaction import KeptHere
from robustify.restricted.ids import PREFIX

Kind = Literal["numeric", "short_text", "explanation"]
GradedKind = Kind | Literal["nuggets"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Status = Literal["scored", "no_answer", "truncated", "needs_judge", "grader_error", "reference_error"]
STATUSES: tuple[Status, ...] = get_args(Status)
DECIDED: tuple[Status, ...] = ("scored", "no_answer")
"""Statuses that have a score; every other one is unscored, and never a 0."""
Method = Literal["deterministic", "judge", "votes"]
ErrorType = Literal[
    "empty", "unterminated_reasoning", "format_error", "truncation", "ambiguous", "duplicate_index", "missing_index",
    "count_mismatch", "unknown_label", "off_scale", "unsafe_input", "tie", "no_majority", "api_error", "timeout",
    "rate_limited", "auth_error", "content_filter",
]  # fmt: skip
"""Why a reply gave no verdict, the same names for every parser and for the calls of a judge."""
SCHEMA = "robustify.grade/1"
LONGEST_NUGGET = 40
"""Words of a nugget: a longer one is no single fact."""

T = TypeVar("T")


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
            raise DataError(f"nugget {self.id}: {words} words; expected 1 to {LONGEST_NUGGET}")
        if self.importance not in ("vital", "okay"):
            raise DataError(f"nugget {self.id}: importance {self.importance!r}; expected vital or okay")


@dataclass(frozen=True, slots=True, repr=False)
class FreeItem(KeptHere):
    """One question to be answered in words.

    `reference` is the right answer, `unit` the unit a number is wanted in, `options` and `correct` the choices it came
    from (for the grader; `options_shown`: also asked, each by its letter), `aliases` other right wordings.
    `excluded_reason` is "" where it may be asked.
    `adapter` is the entrance of a restricted item's set, "" of a public one.

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
    restricted: bool = False
    flags: tuple[str, ...] = ()
    excluded_reason: str = ""
    adapter: str = ""
    options_shown: bool = False

    def __post_init__(self) -> None:
        if not self.id or not self.question.strip():
            raise DataError(f"item {self.id!r}: id or question is empty; expected both")
        if self.kind not in KINDS:
            raise DataError(f"item {self.id}: kind {self.kind!r}; expected one of {', '.join(KINDS)}")
        if self.correct is not None and not 0 <= self.correct < len(self.options):
            raise DataError(f"item {self.id}: correct {self.correct}, but {len(self.options)} options")
        if self.options_shown and self.correct is None:
            raise DataError(f"item {self.id}: options_shown without a correct option; expected `correct`")

    @property
    def asked(self) -> str:
        """The question as it is asked: with its options by letter where they are shown."""
        shown = zip(ascii_uppercase, self.options, strict=False) if self.options_shown else ()
        return "\n".join([self.question, *(f"({letter}) {option}" for letter, option in shown)])


@dataclass(frozen=True, slots=True, repr=False)
class AnswerRow(KeptHere):
    """A model's answer. `error`: why there is no text, where the model was not asked."""

    item_id: str
    model: str
    text: str
    template_id: str
    template_sha256: str
    prompt_sha256: str
    params: Mapping[str, Any] = field(default_factory=dict)
    reasoning: str = ""
    finish_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a judge. `key` finds its prompt and its reply in the judge's record; here are digests alone."""

    key: str
    vote: int
    prompt_sha256: str
    reply_sha256: str
    error_type: ErrorType | None
    finish_reason: str | None
    usage: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class JudgeTrace:
    """Who judged, by which template, in how many calls, with what agreement of its votes."""

    model: str
    template_id: str
    template_sha256: str
    attempts: tuple[Attempt, ...]
    votes: tuple[str | None, ...]
    agreement: float | None
    self_judging: bool


@dataclass(frozen=True, slots=True)
class NuggetGrade:
    """The label of one nugget, None where the judge gave none that can be aligned."""

    id: str
    importance: Literal["vital", "okay"]
    label: str | None
    error_type: ErrorType | None = None
    reviewed: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class GradeResult(KeptHere):
    """One answer, graded. `score` is None where the status is not decided: an unscored answer is never a wrong one.

    `extracted` and `reference` are what was compared, `reason` why, `det_verdict` what the deterministic grader said
    where a judge was asked as well.
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
    key: str = ""
    answer_sha256: str = ""
    group: str = ""
    restricted: bool = False
    adapter: str = ""

    def __post_init__(self) -> None:
        if (self.score is not None) != (self.status in DECIDED):
            raise DataError(
                f"grade of {self.item_id}: status {self.status} does not go with score {self.score}"
            )

    def json(self) -> dict[str, Any]:
        """One line of a grades file."""
        return {"schema": SCHEMA, **asdict(self)}


def item_from(row: Mapping[str, Any]) -> FreeItem:
    """A `FreeItem` from its JSON.

    Raises:
        DataError: missing or unusable fields.
    """
    _require_label(row, "id", "robustify free prepare")
    nuggets = tuple(_made(Nugget, n) for n in row.get("nuggets") or ())
    return _made(FreeItem, {**row, "nuggets": nuggets, **_tuples(row, ("options", "aliases", "flags"))})


def answer_from(row: Mapping[str, Any]) -> AnswerRow:
    """An `AnswerRow` from its JSON.

    Raises:
        DataError: missing or unusable fields.
    """
    made = _made(AnswerRow, row)
    if not isinstance(made.text, str):
        raise DataError(f"answer to {made.item_id}: text is no string")
    return made


def grade_from(row: Mapping[str, Any]) -> GradeResult:
    """A `GradeResult` from its JSON.

    Raises:
        DataError: another schema, missing or unusable fields.
    """
    if row.get("schema") != SCHEMA:
        raise DataError(f"schema {row.get('schema')!r}; expected {SCHEMA}")
    _require_label(row, "item_id", "robustify free grade")
    fields = {name: value for name, value in row.items() if name != "schema"} | _tuples(row, ("flags",))
    fields["nuggets"] = tuple(_made(NuggetGrade, n) for n in row.get("nuggets") or ())
    if row.get("judge"):
        judge = dict(row["judge"])
        judge["attempts"] = tuple(_made(Attempt, a) for a in judge.get("attempts") or ())
        fields["judge"] = _made(JudgeTrace, judge | _tuples(judge, ("votes",)))
    return _made(GradeResult, fields)


def _require_label(row: Mapping[str, Any], name: str, command: str) -> None:
    """Refuse a row without a label `restricted`, or labelled public although its id is a keyed one."""
    label = row.get("restricted")
    if not isinstance(label, bool):
        what = "missing" if label is None else "no truth value"
        raise DataError(f"restricted is {what}; expected true or false ({command} writes it)")
    if not label and str(row.get(name)).startswith(PREFIX):
        raise DataError(f"a keyed id of a restricted set, labelled public; expected its label ({command})")


def _tuples(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(row.get(name) or ()) for name in names}


def _made(kind: type[T], row: Mapping[str, Any]) -> T:
    try:
        return kind(**row)
    except (TypeError, AttributeError) as error:
        # The message of a TypeError names fields, never their values.
        raise DataError(f"{kind.__name__}: {str(error).partition('(')[0].strip()} does not fit") from None
