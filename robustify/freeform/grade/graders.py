"""Graders of numbers, choices and explanations: each turns one answer into one grade.

Rules decide first. A judge grades the rest and never sees an answer that was truncated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from string import ascii_uppercase

from robustify.base.errors import DataError, UsageError
from robustify.freeform.grade.nuggets import NUGGETS, blank_nuggets, grade_nuggets
from robustify.freeform.grade.numbers import NumericRule, find_numeric, rivals_of
from robustify.freeform.grade.worded import Ruling, find_choice, find_explanation, shown_answer
from robustify.freeform.llm_judge.judge_calls import judged_reply
from robustify.freeform.llm_judge.judges import Judge
from robustify.freeform.schema import AnswerRow, FreeItem, GradedKind, GradeResult, require_packages
from robustify.freeform.settings import FreeSettings

GRADERS: Mapping[GradedKind, str] = {
    "numeric": "numeric/7", "short_text": "choice/5", "explanation": "explanation/3", "nuggets": NUGGETS,
}  # fmt: skip
"""Name and version of each grader, as recorded in a grade."""
_CLOSED = ("truncated", "reference_error", "grader_error")


def grade_answer(
    item: FreeItem, row: AnswerRow, settings: FreeSettings, judge: Judge | None = None
) -> GradeResult:
    """Grade one answer with the grader for its item's kind. Raise `UsageError` if the mode needs a judge, and none is
    given, and `ModelError` if the judge can never be called."""
    mode = require_grading(settings, judge)
    if row.error is not None or row.finish_reason == "length":
        # If truncated answers counted only when already correct, every rate would be too high.
        reason = row.error or "cut_off"
        return GradeResult(item.id, row.model, item.kind, GRADERS[item.kind], "truncated", None, None, reason)
    if item.nuggets:
        if judge is None or mode == "deterministic":
            blank = blank_nuggets(item, row.model)
            return replace(blank, status="needs_judge", reason="nuggets_need_a_judge")
        return grade_nuggets(item, row.text, judge, settings, row.model)
    finding, words = _by_rules(item, row.text, settings)
    found = finding.graded(item.kind, GRADERS[item.kind], item.reference, item.id, row.model)
    if item.kind == "numeric":
        found = replace(found, tolerance={"rel": str(settings.rel_tol), "abs": str(settings.abs_tol)})
    if judge is None or mode == "deterministic" or found.status in _CLOSED or found.reason == "empty":
        return found
    undecided = found.status == "needs_judge"
    if mode == "auto" and not undecided:
        return found
    variables = {"question": item.asked, "answer": shown_answer(row.text), **words}
    blank = replace(found, status="needs_judge", score=None, verdict=None, det_verdict=found.verdict)
    word = judged_reply(blank, judge, settings.judged_by(item.kind), variables, settings)
    if mode == "both" and not undecided:
        differs = word.score is not None and word.score != found.score
        flags = (*word.flags, "judge_disagrees") if differs else word.flags
        return replace(found, det_verdict=found.verdict, judge=word.judge, flags=flags)
    return word


def require_grading(settings: FreeSettings, judge: object) -> str:
    """Return the grading mode. Raise `UsageError` if the mode needs a judge and none is given, or if the packages of the
    extra `free` are not installed."""
    require_packages()
    if judge is None and settings.who in ("judge", "both"):
        raise UsageError(
            f"Mode {settings.who} needs a judge. Name one with --judge, or with `judge:` in the free block."
        )
    return settings.who


def _by_rules(item: FreeItem, text: str, settings: FreeSettings) -> tuple[Ruling, dict[str, str]]:
    """Grade an answer by rules. Return the finding and the reference text that a judge would see."""
    match item.kind:
        case "numeric":
            # The other options are known wrong values, so an answer that is nearer to one of them is wrong.
            others = [option for i, option in enumerate(item.options) if i != item.correct]
            rel, rivals = Decimal(str(settings.rel_tol)), rivals_of(item.reference, others)
            rule = NumericRule(rel, Decimal(str(settings.abs_tol)), item.unit, rivals)
            with_unit = f"{item.reference} {item.unit}" if item.unit else item.reference
            words = {"reference": with_unit, "tolerance_percent": f"{(rel * 100).normalize():f}"}
            return find_numeric(text, item.reference, rule, item.question), words
        case "short_text":
            options, right = ((item.reference,), 0) if item.correct is None else (item.options, item.correct)
            letter = f"({ascii_uppercase[right]}) " if item.options_shown else ""
            words = {"reference": letter + " / ".join([options[right], *item.aliases])}
            shown = item.options_shown
            return find_choice(text, options, right, item.aliases, item.question, shown), words
        case "explanation":
            return find_explanation(text, item.reference), {"reference": item.reference}


def grade_answers(
    items: Sequence[FreeItem],
    answers: Sequence[AnswerRow],
    settings: FreeSettings,
    judge: Judge | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[GradeResult]:
    """Grade every answer and return the grades in the order of the answers. Raise `DataError` if an answer belongs to
    an unknown item, or a model answers an item twice, `UsageError` if the mode needs a judge, and none is given, and
    `ModelError` if the judge can never be called."""
    require_grading(settings, judge)
    by_id = {item.id: item for item in items}
    seen: dict[tuple[str, str], int] = {}
    faults = []
    for n, row in enumerate(answers, start=1):
        first = seen.setdefault((row.item_id, row.model), n)
        if row.item_id not in by_id:
            faults.append(f"answer {n}: its item is not in this set. Expected the ID of one of its items.")
        elif first != n:
            faults.append(f"answer {n}: repeats the model and item of answer {first}. Expected only one.")
    if faults:
        raise DataError.gather(faults)
    out = []
    for row in answers:
        item = by_id[row.item_id]
        out.append(replace(grade_answer(item, row, settings, judge), group=item.group))
        progress(1)
    return out
