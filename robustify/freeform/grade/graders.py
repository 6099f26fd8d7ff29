"""The graders of numbers, choices and explanations: one answer in, one grade out.

The rules decide what they can; a judge is asked only for the rest. `mode`: "deterministic" never asks a judge; "auto"
asks it for what is undecided; "judge" always asks and records the rules' verdict beside it; "both" takes the rules'
verdict where there is one and flags disagreement. A judge never sees an answer that was cut off, or one whose
reference is unusable.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from robustify.errors import UsageError
from robustify.freeform.answer_text import shown_answer
from robustify.freeform.grade.choice import find_choice, find_explanation
from robustify.freeform.grade.nuggets import NUGGETS, grade_nuggets
from robustify.freeform.grade.numeric import NumericRule, Percent, find_numeric, rivals_of, written
from robustify.freeform.judge.conversation import Judging, judged_reply, tolerance_percent
from robustify.freeform.judge.judges import Judge
from robustify.freeform.judge.verdicts import scale_of
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult

Mode = Literal["deterministic", "auto", "judge", "both"]
Plugin = Callable[[FreeItem, str, Judge | None], GradeResult]
"""A grader of another package: an item, an answer and the judge in; a grade out."""
GRADERS: Mapping[str, str] = {
    "numeric": "numeric/1", "short_text": "choice/1", "explanation": "explanation/1", "nuggets": NUGGETS,
}  # fmt: skip
"""Graders with their versions, as written in a grade."""
_CLOSED = ("truncated", "reference_error", "grader_error")


@dataclass(frozen=True, slots=True)
class Grading:
    """The rules of grading. `grader` names a plug-in that grades everything instead of the built-in graders.

    `rel_tol` 5 % is the first draft's default; 1 % is advised for new sets.
    """

    mode: Mode = "auto"
    rel_tol: float = 0.05
    abs_tol: float = 0.0
    percent: Percent = "auto"
    scale: str = "binary"
    mcq_template: str = "grader/mcq@2.0"
    numeric_template: str = "grader/numeric@2.0"
    explanation_template: str = "grader/explanation@2.0"
    nugget_template: str = "nugget/optimized@2.0"
    format_type: str = "json"
    batch_size: int = 10
    nugget_score: str = "vital"
    grader: str | None = None
    judging: Judging = field(default_factory=Judging)
    seal: bytes | None = field(default=None, repr=False)
    """The subkey for the digests of a restricted set's text."""

    def templates(self) -> dict[str, str]:
        """The id and digest of every template that may be used."""
        store = self.judging.store
        names = (self.mcq_template, self.numeric_template, self.explanation_template, self.nugget_template)
        return {template.id: template.sha256 for template in map(store.get, names)}

    def check(self, judge: Judge | None) -> None:
        """Refuse a mode that there is not, or that needs a judge where there is none.

        Raises:
            UsageError: it is one of these.
        """
        if self.mode not in get_args(Mode):
            raise UsageError(f"mode {self.mode!r}: expected one of {', '.join(get_args(Mode))}")
        if judge is None and self.mode in ("judge", "both"):
            raise UsageError(f"mode {self.mode}: no judge is given; expected one (--judge)")


def grade_answer(
    item: FreeItem,
    row: AnswerRow,
    rules: Grading,
    judge: Judge | None = None,
    plugin: Plugin | None = None,
) -> GradeResult:
    """Grade one answer by the grader of its item's kind, or by a plug-in.

    Raises:
        UsageError: a tolerance, scale, `percent` or mode that is none; a mode that needs a judge where there is none.
    """
    rules.check(judge)
    if row.error is not None or row.finish_reason == "length":
        # To count an answer that was cut off only where it is already right would raise every rate.
        reason = row.error or "cut_off"
        return GradeResult(item.id, row.model, item.kind, GRADERS[item.kind], "truncated", None, None, reason)
    if plugin is not None:
        return replace(plugin(item, row.text, judge), item_id=item.id, model=row.model)
    if item.nuggets and judge is not None and rules.mode != "deterministic":
        return grade_nuggets(
            item, row.text, judge, template=rules.nugget_template, format_type=rules.format_type,
            batch_size=rules.batch_size, score=rules.nugget_score, how=rules.judging, model=row.model,
        )  # fmt: skip
    match item.kind:
        case "numeric":
            return _numeric(item, row, rules, judge)
        case "short_text":
            return _short_text(item, row, rules, judge)
        case "explanation":
            scale_of(rules.scale)
            found = find_explanation(row.text, item.reference).graded(
                "explanation", GRADERS["explanation"], item.reference, item.id, row.model
            )
            words = {"reference": item.reference}
            return _with_judge(found, item, row, rules, judge, rules.explanation_template, words)


def _numeric(item: FreeItem, row: AnswerRow, rules: Grading, judge: Judge | None) -> GradeResult:
    # The other options are wrong values that are known: an answer that is nearer to one is wrong.
    others = [option for i, option in enumerate(item.options) if i != item.correct]
    rel, absolute = written(rules.rel_tol), written(rules.abs_tol)
    rule = NumericRule(rel, absolute, item.unit, rules.percent, rivals_of(item.reference, others))
    finding = find_numeric(row.text, item.reference, rule, item.question)
    found = finding.graded("numeric", GRADERS["numeric"], item.reference, item.id, row.model)
    words = {
        "reference": f"{item.reference} {item.unit}" if item.unit else item.reference,
        "tolerance_percent": tolerance_percent(rel),
    }
    found = replace(found, tolerance={"rel": str(rel), "abs": str(absolute)})
    return _with_judge(found, item, row, rules, judge, rules.numeric_template, words)


def _short_text(item: FreeItem, row: AnswerRow, rules: Grading, judge: Judge | None) -> GradeResult:
    options, correct = ((item.reference,), 0) if item.correct is None else (item.options, item.correct)
    finding = find_choice(row.text, options, correct, item.aliases)
    found = finding.graded("short_text", GRADERS["short_text"], options[correct], item.id, row.model)
    words = {"reference": " / ".join([options[correct], *item.aliases])}
    return _with_judge(found, item, row, rules, judge, rules.mcq_template, words)


def _with_judge(
    found: GradeResult,
    item: FreeItem,
    row: AnswerRow,
    rules: Grading,
    judge: Judge | None,
    template: str,
    words: Mapping[str, str],
) -> GradeResult:
    """A grade by the rules, and the judge's where the mode asks for it."""
    if judge is None or rules.mode == "deterministic" or found.status in _CLOSED or found.reason == "empty":
        return found
    undecided = found.status == "needs_judge"
    if rules.mode == "auto" and not undecided:
        return found
    variables = {"question": item.question, "answer": shown_answer(row.text), **words}
    blank = replace(found, status="needs_judge", score=None, verdict=None, det_verdict=found.verdict)
    scale = rules.scale if item.kind == "explanation" else None
    word = judged_reply(blank, judge, template, variables, rules.judging, scale)
    if rules.mode == "both" and not undecided:
        differs = word.score is not None and word.score != found.score
        flags = (*word.flags, "judge_disagrees") if differs else word.flags
        return replace(found, det_verdict=found.verdict, judge=word.judge, flags=flags)
    return word
