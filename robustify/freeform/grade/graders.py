"""The graders of numbers, choices and explanations: one answer in, one grade out.

The rules decide what they can; a judge is asked only for the rest. `mode`: "deterministic" never asks a judge; "auto"
asks it for what is undecided; "judge" always asks and records the rules' verdict beside it; "both" takes the rules'
verdict where there is one and flags disagreement. A judge never sees an answer that was cut off, or one whose
reference is unusable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Literal, get_args

from robustify.errors import UsageError
from robustify.freeform.answer_text import (
    Finding,
    is_refusal,
    no_answer,
    normalize_tokens,
    right,
    said,
    shown_answer,
    undecided,
)
from robustify.freeform.grade.choice import find_choice
from robustify.freeform.grade.numeric import NumericRule, Percent, Tolerance, find_numeric, rivals_of
from robustify.freeform.judge.conversation import Judging, judged, tolerance_percent
from robustify.freeform.judge.judges import Judge
from robustify.freeform.judge.verdicts import scale_of
from robustify.freeform.schema import GradeResult

Mode = Literal["deterministic", "auto", "judge", "both"]
MODES: tuple[Mode, ...] = get_args(Mode)
NUMERIC, CHOICE, EXPLANATION = "numeric/1", "choice/1", "explanation/1"
"""Graders with their versions, as written in a grade."""
_CLOSED = ("truncated", "reference_error", "grader_error")


def grade_numeric(
    answer: str,
    reference: str,
    *,
    rel_tol: float = 0.05,
    abs_tol: float = 0.0,
    unit: str | None = None,
    question: str = "",
    percent: Percent = "auto",
    others: Sequence[str] = (),
    judge: Judge | None = None,
    mode: Mode = "auto",
    template: str = "grader/numeric@2.0",
    how: Judging | None = None,
    item_id: str = "",
    model: str = "",
) -> GradeResult:
    """Grade a number against a reference; 5 % is the first draft's default, 1 % is advised for new sets.

    `others` are wrong values that are known (other options): an answer that is nearer to one is wrong.

    Raises:
        UsageError: a tolerance, `percent` or `mode` that is none; mode "judge" without a judge.
    """
    rule = NumericRule(Tolerance.of(rel_tol, abs_tol), unit, percent, rivals_of(reference, others))
    finding = find_numeric(answer, reference, rule, question)
    result = finding.graded("numeric", NUMERIC, reference, item_id, model)
    result = replace(result, tolerance=rule.tolerance.json())
    variables = {
        "question": question or "(not given)",
        "answer": shown_answer(answer),
        "reference": f"{reference} {unit}" if unit else reference,
        "tolerance_percent": tolerance_percent(rule.tolerance.rel),
    }
    return with_judge(result, judge, mode, template, variables, how)


def grade_mcq(
    answer: str,
    options: Sequence[str],
    correct: int,
    *,
    options_shown: bool = False,
    aliases: Sequence[str] = (),
    question: str = "",
    judge: Judge | None = None,
    mode: Mode = "auto",
    template: str = "grader/mcq@2.0",
    how: Judging | None = None,
    item_id: str = "",
    model: str = "",
) -> GradeResult:
    """Grade a worded answer (or a letter, where the options were shown) against the right option and its aliases.

    Raises:
        UsageError: `correct` out of range, an unknown `mode`, mode "judge" without a judge.
    """
    finding = find_choice(answer, options, correct, aliases, options_shown=options_shown)
    kind: Literal["mcq", "short_text"] = "mcq" if options_shown else "short_text"
    result = finding.graded(kind, CHOICE, options[correct], item_id, model)
    reference = " / ".join([options[correct], *aliases])
    asked = _with_options(question, options) if options_shown else question
    variables = {"question": asked or "(not given)", "answer": shown_answer(answer), "reference": reference}
    return with_judge(result, judge, mode, template, variables, how)


def grade_explanation(
    answer: str,
    reference: str,
    *,
    question: str = "",
    judge: Judge | None = None,
    scale: str = "binary",
    template: str = "grader/explanation@2.0",
    mode: Mode = "auto",
    how: Judging | None = None,
    item_id: str = "",
    model: str = "",
) -> GradeResult:
    """Grade an explanation against a reference. Equal words are right; a judge decides everything else.

    Raises:
        UsageError: an unknown scale or `mode`; mode "judge" without a judge.
    """
    scale_of(scale)
    finding = _find_explanation(answer, reference)
    result = finding.graded("explanation", EXPLANATION, reference, item_id, model)
    variables = {
        "question": question or "(not given)",
        "answer": shown_answer(answer),
        "reference": reference,
    }
    return with_judge(result, judge, mode, template, variables, how, scale)


def _find_explanation(answer: str, reference: str) -> Finding:
    if not normalize_tokens(reference):
        return Finding("reference_error", None, None, "reference_is_empty")
    text = said(answer)
    if isinstance(text, Finding):
        return text
    if is_refusal(text):
        return no_answer("refusal")
    if normalize_tokens(text) == normalize_tokens(reference):
        return right("equal", text)
    return undecided("explanation")


def with_judge(
    result: GradeResult,
    judge: Judge | None,
    mode: Mode,
    template: str,
    variables: Mapping[str, object],
    how: Judging | None,
    scale: str | None = None,
) -> GradeResult:
    """A deterministic grade, and the judge's where the mode asks for it.

    Raises:
        UsageError: an unknown mode, or mode "judge" or "both" without a judge.
    """
    check_mode(mode, judge)
    if judge is None or mode == "deterministic" or result.status in _CLOSED or result.reason == "empty":
        return result
    if mode == "auto" and result.status != "needs_judge":
        return result
    cut = replace(result, status="needs_judge", score=None, verdict=None, det_verdict=result.verdict)
    word = judged(cut, judge, template, variables, how or Judging(), scale)
    if mode == "both" and result.status != "needs_judge":
        differs = word.score is not None and word.score != result.score
        flags = (*word.flags, "judge_disagrees") if differs else word.flags
        return replace(result, det_verdict=result.verdict, judge=word.judge, flags=flags)
    return word


def check_mode(mode: str, judge: Judge | None) -> None:
    """Refuse a mode that there is not, or that needs a judge where there is none.

    Raises:
        UsageError: it is one of these.
    """
    if mode not in MODES:
        raise UsageError(f"mode {mode!r}: expected one of {', '.join(MODES)}")
    if judge is None and mode in ("judge", "both"):
        raise UsageError(f"mode {mode}: no judge is given; expected one (--judge)")


def _with_options(question: str, options: Sequence[str]) -> str:
    shown = "\n".join(f"{letter}. {option}" for letter, option in zip(ascii_uppercase, options, strict=False))
    return f"{question}\n{shown}"
