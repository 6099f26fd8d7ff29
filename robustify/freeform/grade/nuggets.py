"""Grading by nuggets: a judge labels each nugget (fact) by whether the answer supports it.

A label counts only if it certainly belongs to its nugget. A nugget without a label makes the score unknown but bounded.
It never counts as "not supported". Reports count nuggets that no person has reviewed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from robustify.base.errors import DataError, UsageError
from robustify.freeform.grade.worded import Ruling, plain_words, said, shown_answer
from robustify.freeform.llm_judge.judge_calls import AskedLabels, ask_labels, messages_of, verdict_of
from robustify.freeform.llm_judge.judges import Judge
from robustify.freeform.llm_judge.verdicts import SUPPORT, majority_vote
from robustify.freeform.schema import (
    NUGGET_SCORES,
    FreeItem,
    GradeResult,
    JudgeTrace,
    Nugget,
    NuggetGrade,
    Status,
)
from robustify.freeform.settings import FreeSettings

NUGGETS = "nuggets/1"
OKAY_WEIGHT = 0.5
"""Weight of an okay nugget in the `weighted` score. A vital nugget has weight 1. TREC's code has no such score."""


def grade_nuggets(
    item: FreeItem, answer: str, judge: Judge, settings: FreeSettings, model: str = ""
) -> GradeResult:
    """Grade an answer by the nuggets of its item. Raise `UsageError` if the item has no nuggets, or the template lacks
    the format, `DataError` if two nuggets have the same words or ID, and `ModelError` if the judge can never be called."""
    nuggets, chosen = item.nuggets, settings.judged_by("nuggets")
    if not nuggets:
        raise UsageError("The item has no nuggets. Add at least one.")
    written = chosen.label_format(settings.format_type)
    require_distinct(nuggets)
    text = said(answer)
    if isinstance(text, Ruling):
        # A judge may still read an answer that is too long for the rules.
        if text.status != "scored":
            unread = blank_nuggets(item, model).nuggets
            return replace(text.graded("nuggets", NUGGETS, None, item.id, model), nuggets=unread)
        text = shown_answer(answer)
    asked = list[list[AskedLabels]]()
    for vote in range(settings.asking.votes):
        asked.append([])
        for start in range(0, len(nuggets), settings.batch_size):
            batch = nuggets[start : start + settings.batch_size]
            variables = {"query": item.question, "passage": text, "nuggets": [n.text for n in batch]}
            counted = {"num_nuggets": len(batch), "format_type": written}
            messages = messages_of(settings, chosen, variables | counted, item.id)
            asked[-1].append(ask_labels(judge, messages, len(batch), settings, vote, written))
    labels = [[label for part in parts for label in part.labels] for parts in asked]
    errors = [[error for part in parts for error in part.error_types] for parts in asked]
    attempts = tuple(attempt for parts in asked for part in parts for attempt in part.attempts)
    votes = tuple(None if any(some) else "read" for some in errors)
    trace = JudgeTrace(judge.name, chosen.id, chosen.sha256, attempts, votes, None, judge.name == model)
    graded = []
    for place, nugget in enumerate(nuggets):
        label, error = labels[0][place], errors[0][place]
        if len(labels) > 1:
            label, _, error = majority_vote([vote[place] for vote in labels])
        graded.append(NuggetGrade(nugget.id, nugget.importance, label, error, nugget.reviewed))
    return _scored(tuple(graded), trace, settings.nugget_score, item.id, model)


def require_distinct(nuggets: Sequence[Nugget]) -> None:
    """Raise `DataError` if two nuggets have the same words or ID."""
    folded = {plain_words(nugget.text) for nugget in nuggets}
    if min(len(folded), len({nugget.id for nugget in nuggets})) < len(nuggets):
        raise DataError(
            f"Two of the {len(nuggets)} nuggets repeat words or an ID. State each fact once, with its own ID."
        )


def blank_nuggets(item: FreeItem, model: str) -> GradeResult:
    """Return the grade of an answer whose nuggets have no labels."""
    blank = tuple(NuggetGrade(n.id, n.importance, None, None, n.reviewed) for n in item.nuggets)
    return GradeResult(
        item.id, model, "nuggets", NUGGETS, "grader_error", None, None, "nugget_unread", nuggets=blank
    )


def _scored(
    graded: tuple[NuggetGrade, ...], trace: JudgeTrace, score: str, item_id: str, model: str
) -> GradeResult:
    scores = score_nuggets(graded)
    value = scores[score]["value"]
    status: Status = "scored"
    reason, error = score, None
    if value is None:
        error = next((n.error_type for n in graded if n.error_type is not None), None)
        status, reason = "grader_error", "nugget_unread"
        if scores[score]["n"] == 0:
            status, reason = "reference_error", "no_vital_nugget"
    flags = {"self_judging": trace.self_judging, "unreviewed_nuggets": not all(n.reviewed for n in graded)}
    return GradeResult(
        item_id, model, "nuggets", NUGGETS, status, value, verdict_of(value), reason,
        method="votes" if len(trace.votes) > 1 else "judge",
        flags=tuple(flag for flag, there in flags.items() if there),
        error_type=error, judge=trace, nuggets=graded, nugget_scores=scores,
    )  # fmt: skip


def score_nuggets(nuggets: Sequence[NuggetGrade]) -> dict[str, dict[str, Any]]:
    """Compute the five nugget scores of one answer: `{SCORE: {"value", "lower", "upper", "n"}}`.

    The `strict_*` scores count full support only, and the others count partial support as one half. `vital` and `all`
    name the nuggets that count (Pradeep et al. 2024, AutoNuggetizer). `weighted` is specific to robustify. If a nugget
    has no label, the value is None and the bounds remain. Without nuggets, all three are None.
    """
    vital = [(n.label, 1.0) for n in nuggets if n.importance == "vital"]
    every = [(n.label, 1.0) for n in nuggets]
    weighted = [(n.label, 1.0 if n.importance == "vital" else OKAY_WEIGHT) for n in nuggets]
    parts = ((vital, True), (vital, False), (every, True), (every, False), (weighted, False))
    return {name: _mean(*part) for name, part in zip(NUGGET_SCORES, parts, strict=True)}


def _mean(labels: Sequence[tuple[str | None, float]], strict: bool) -> dict[str, Any]:
    whole = sum(weight for _, weight in labels)
    if not whole:
        return {"value": None, "lower": None, "upper": None, "n": 0}
    credit = {label: float(x == 1) if strict else x for label, x in SUPPORT.items()}
    known = sum(credit.get(label, 0.0) * weight for label, weight in labels if label is not None)
    missing = sum(weight for label, weight in labels if label is None)
    lower, upper = known / whole, (known + missing) / whole
    return {"value": None if missing else lower, "lower": lower, "upper": upper, "n": len(labels)}
