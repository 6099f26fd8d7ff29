"""Grade numbers, choices, explanations, and nuggets: rules decide first, and a judge grades the rest.

A nugget (fact) without a label makes the score unknown but bounded, and never counts as "not supported".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from string import ascii_uppercase
from typing import Any

from robustify.base.errors import DataError, Notice, UsageError
from robustify.freeform.grade.numbers import find_numeric
from robustify.freeform.grade.text_rules import (
    Ruling,
    extract_answer,
    find_choice,
    find_explanation,
    shown_answer,
)
from robustify.freeform.llm_judge.judges import Judge, ask_labels, judged_reply, messages_of, verdict_of
from robustify.freeform.llm_judge.verdicts import SUPPORT
from robustify.freeform.schema import (
    AnswerRow,
    Attempt,
    FreeItem,
    GradeResult,
    JudgeTrace,
    NuggetGrade,
    Status,
)
from robustify.judging.stats.intervals import majority_vote
from robustify.pipeline.free_settings import NUGGET_SCORES, FreeSettings, GradedKind
from robustify.reading.reply_structures import ErrorType, require_packages

GRADERS: Mapping[GradedKind, str] = {
    "numeric": "numeric/8", "short_text": "choice/5", "explanation": "explanation/3", "nuggets": "nuggets/1",
}  # fmt: skip
"""Name and version of each grader, as recorded in a grade."""


def grade_answer(
    item: FreeItem, row: AnswerRow, settings: FreeSettings, judge: Judge | None = None
) -> GradeResult:
    """Grade one answer. Raise `UsageError` if the mode needs a judge and none is given, and `ModelError` if the judge can
    never be called."""
    mode, grader = require_grading(settings, judge), GRADERS[item.kind]
    if row.error is not None or row.finish_reason == "length":
        # If truncated answers counted only when already correct, every rate would be too high.
        reason = row.error or "cut_off"
        return GradeResult(item.id, row.model, item.kind, grader, "truncated", None, None, reason)
    if item.nuggets:
        if judge is None or mode == "deterministic":
            return _blank(item, row.model, "needs_judge", "nuggets_need_a_judge")
        return grade_nuggets(item, row.text, judge, settings, row.model)
    ruled = _by_rules(item, row.text, settings).graded(item, row.model, item.kind, grader)
    if item.kind == "numeric":
        ruled = replace(ruled, tolerance={"rel": str(settings.rel_tol), "abs": str(settings.abs_tol)})
    undecided = ruled.status == "needs_judge"
    closed = ruled.status not in ("scored", "no_answer", "needs_judge") or ruled.reason == "empty"
    closed = closed or (mode == "auto" and not undecided)
    if judge is None or mode == "deterministic" or closed:
        return ruled
    blank = replace(ruled, status="needs_judge", score=None, verdict=None, det_verdict=ruled.verdict)
    template, shown = settings.judged_by(item.kind), _shown(item, row.text, settings)
    word = judged_reply(blank, judge, template, shown, settings)
    if mode == "both" and not undecided:
        differs = word.score is not None and word.score != ruled.score
        flags = (*word.flags, "judge_disagrees") if differs else word.flags
        return replace(ruled, det_verdict=ruled.verdict, judge=word.judge, flags=flags)
    return word


def require_grading(settings: FreeSettings, judge: object) -> str:
    """Return the grading mode. Raise `UsageError` if the judge that it needs is missing, or if packages are."""
    require_packages()
    if judge is None and settings.who in ("judge", "both"):
        fault = f"Mode {settings.who} needs a judge. Use --judge, or `judge:` in the `free:` block."
        raise UsageError(fault, code="mode-needs-judge")
    return settings.who


def _by_rules(item: FreeItem, text: str, settings: FreeSettings) -> Ruling:
    match item.kind:
        case "numeric":
            return find_numeric(item, text, *(Decimal(str(x)) for x in (settings.rel_tol, settings.abs_tol)))
        case "short_text":
            return find_choice(item, text)
        case "explanation":
            return find_explanation(text, item.reference)


def _shown(item: FreeItem, text: str, settings: FreeSettings) -> dict[str, str]:
    letter = f"({ascii_uppercase[item.correct or 0]}) " if item.options_shown else ""
    reference = letter + " / ".join([item.reference, *item.aliases]) + (f" {item.unit}" if item.unit else "")
    return {
        "question": item.asked, "answer": shown_answer(text), "reference": reference,
        "tolerance_percent": f"{(Decimal(str(settings.rel_tol)) * 100).normalize():f}",
    }  # fmt: skip


def grade_answers(
    items: Sequence[FreeItem],
    answers: Sequence[AnswerRow],
    settings: FreeSettings,
    judge: Judge | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[GradeResult]:
    """Grade answers, and return the grades in the same order. Raise `DataError` if an answer belongs to an unknown item or
    a model answers an item twice, and other errors like `grade_answer`."""
    require_grading(settings, judge)
    by_id, seen, faults = {item.id: item for item in items}, dict[tuple[str, str], int](), list[str]()
    for n, row in enumerate(answers, start=1):
        first = seen.setdefault((row.item_id, row.model), n)
        if row.item_id not in by_id:
            fault = f"answer {n}: its item is not in this set. Expected the ID of an item of the set."
            faults.append(Notice(fault, code="answer-to-unknown-item"))
        elif first != n:
            fault = (
                f"answer {n}: has the same model and item as answer {first}. Keep only one of these answers."
            )
            faults.append(Notice(fault, code="repeated-answer"))
    if faults:
        raise DataError.gather(faults)
    out = []
    for row in answers:
        item = by_id[row.item_id]
        out.append(replace(grade_answer(item, row, settings, judge), group=item.group))
        progress(1)
    return out


# Nuggets

OKAY_WEIGHT = 0.5
"""Weight of an okay nugget in the `weighted` score. A vital nugget has weight 1. TREC's code has no such score."""


def grade_nuggets(
    item: FreeItem, answer: str, judge: Judge, settings: FreeSettings, model: str = ""
) -> GradeResult:
    """Grade an answer by the number of its item's nuggets (facts) that the answer supports. Raise `UsageError` if the
    template lacks the format, and `ModelError` if the judge can never be called."""
    nuggets, chosen = item.nuggets, settings.judged_by("nuggets")
    written, text = chosen.label_format(settings.format_type), extract_answer(answer)
    if isinstance(text, Ruling):
        # A judge may still read an answer that is too long for the rules.
        if text.status != "scored":
            ruled = text.graded(item, model, "nuggets", GRADERS["nuggets"])
            return replace(ruled, nuggets=_blank(item, model).nuggets, reference=None)
        text = shown_answer(answer)
    cast, attempts = list[list[tuple[str | None, ErrorType | None]]](), list[Attempt]()
    for vote in range(settings.asking.votes):
        cast.append([])
        for start in range(0, len(nuggets), settings.batch_size):
            batch = [nugget.text for nugget in nuggets[start : start + settings.batch_size]]
            variables = {"query": item.question, "passage": text, "nuggets": batch, "num_nuggets": len(batch)}
            messages = messages_of(settings, chosen, {**variables, "format_type": written}, item.id)
            reply = ask_labels(judge, messages, len(batch), settings, vote, written)
            cast[-1] += zip(reply.labels, reply.error_types, strict=True)
            attempts += reply.attempts
    votes = tuple(None if any(error for _, error in vote) else "read" for vote in cast)
    own = judge.name == model
    trace = JudgeTrace(judge.name, chosen.id, chosen.sha256, tuple(attempts), votes, None, own)
    graded = []
    for nugget, nugget_votes in zip(nuggets, zip(*cast, strict=True), strict=True):
        label, error = nugget_votes[0]
        if len(nugget_votes) > 1:
            label, _, error = majority_vote([label for label, _ in nugget_votes])
        graded.append(NuggetGrade(nugget.id, nugget.importance, label, error))
    scores, name = score_nuggets(graded), settings.nugget_score
    value = scores[name]["value"]
    status: Status = "grader_error" if value is None else "scored"
    reason = "nugget_unread" if value is None else str(name)
    if not scores[name]["n"]:
        status, reason = "reference_error", "no_vital_nugget"
    return replace(
        _blank(item, model), status=status, reason=reason, score=value, verdict=verdict_of(value), judge=trace,
        method="votes" if len(cast) > 1 else "judge", flags=("self_judging",) if own else (),
        error_type=next((n.error_type for n in graded if n.error_type and value is None), None),
        nuggets=tuple(graded), nugget_scores=scores,
    )  # fmt: skip


def _blank(
    item: FreeItem, model: str, status: Status = "grader_error", reason: str = "nugget_unread"
) -> GradeResult:
    blank = tuple(NuggetGrade(n.id, n.importance, None) for n in item.nuggets)
    return GradeResult(
        item.id, model, "nuggets", GRADERS["nuggets"], status, None, None, reason, nuggets=blank
    )


def score_nuggets(nuggets: Sequence[NuggetGrade]) -> dict[str, dict[str, Any]]:
    """Return the five nugget scores of one answer: `{SCORE: {"value", "lower", "upper", "n"}}`.

    The `strict_*` scores count full support only, and the others count partial support as one half. `vital` and `all` name
    the nuggets that count (Pradeep et al. 2024, AutoNuggetizer). `weighted` is specific to robustify. If a nugget has no
    label, the value is None and the bounds remain. Without nuggets, all three are None.
    """
    vital = [(n.label, 1.0) for n in nuggets if n.importance == "vital"]
    every = [(n.label, 1.0) for n in nuggets]
    weighted = [(n.label, 1.0 if n.importance == "vital" else OKAY_WEIGHT) for n in nuggets]
    parts = ((vital, True), (vital, False), (every, True), (every, False), (weighted, False))
    return {name: _mean(*part) for name, part in zip(NUGGET_SCORES, parts, strict=True)}


def _mean(labels: Sequence[tuple[str | None, float]], strict: bool) -> dict[str, Any]:
    total_weight = sum(weight for _, weight in labels)
    if not total_weight:
        return {"value": None, "lower": None, "upper": None, "n": 0}
    credit = {label: float(x == 1) if strict else x for label, x in SUPPORT.items()}
    total_credit = sum(credit.get(label, 0.0) * weight for label, weight in labels if label is not None)
    missing = sum(weight for label, weight in labels if label is None)
    lower, upper = total_credit / total_weight, (total_credit + missing) / total_weight
    return {"value": None if missing else lower, "lower": lower, "upper": upper, "n": len(labels)}
