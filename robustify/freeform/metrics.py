"""Summary of graded answers: counts, rates, and names of models and templates, without text of items or answers.

Rates are over all submitted answers, and unscored answers are counted. An accuracy has a coverage, and bounds that
assume that every unscored answer is wrong or right.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustify.arrays import Floats, Ints, group_numbers
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.schema import DECIDED, NUGGET_SCORES, FreeItem, GradeResult
from robustify.judging.free_response import LEAST_COVERAGE, LOW
from robustify.stats.intervals import rate

FORMAT = 3


def summarise(
    items: Sequence[FreeItem],
    grades: Sequence[GradeResult],
    labels: Sequence[HumanLabel] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Compute the summary of a free-response evaluation.

    Return `{"format", "n_items", "models": {MODEL: {"kinds": {KIND: ...}, "topics": {TOPIC: {KIND: ...}}, "all": ...,
    "judges", "templates", "self_judging"}}, "calibration"}`. Each part has the fields of `aggregate`. `all` counts all
    answers, and has an accuracy only if they are of one kind.
    """
    topics = {item.id: item.topic for item in items if item.topic}
    by_model: dict[str, list[GradeResult]] = {}
    for grade in grades:
        by_model.setdefault(grade.model, []).append(grade)
    return {
        "format": FORMAT,
        "n_items": len(items),
        "models": {name: _model(rows, topics) for name, rows in by_model.items()},
        "calibration": calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
    }


def _model(grades: Sequence[GradeResult], topics: Mapping[str, str]) -> dict[str, Any]:
    by_topic: dict[str, list[GradeResult]] = {}
    for grade in grades:
        if grade.item_id in topics:
            by_topic.setdefault(topics[grade.item_id], []).append(grade)
    traces = [grade.judge for grade in grades if grade.judge is not None]

    def kinds(some: Sequence[GradeResult]) -> dict[str, Any]:
        return {
            kind: aggregate([grade for grade in some if grade.kind == kind])
            for kind in dict.fromkeys(str(grade.kind) for grade in some)
        }

    return {
        "kinds": kinds(grades), "topics": {topic: kinds(some) for topic, some in sorted(by_topic.items())},
        "all": aggregate(grades), "judges": sorted({trace.model for trace in traces}),
        "templates": sorted({trace.template_id for trace in traces}),
        "self_judging": sum("self_judging" in grade.flags for grade in grades),
    }  # fmt: skip


def unscored_in(grades: Sequence[GradeResult]) -> float:
    """Return the share of answers without a score, or 0 if there are no answers."""
    scores = credit_of(grades)
    return float(np.isnan(scores).mean()) if len(scores) else 0.0


def aggregate(grades: Sequence[GradeResult]) -> dict[str, Any]:
    """Compute the counts and rates of a set of grades. Every rate is `{"value", "n", "ci"}`, clustered by item or
    passage.

    `lower` and `upper` are over all `n` answers, with every unscored answer wrong or right. `accuracy` is over the
    scored answers. It is withheld if they are fewer than 80 %. All three are withheld if the grades are of several
    kinds, because their scores mean different things. `by_judge` is the share of decided answers that a judge decided.
    Nuggets add `nugget_scores` and `labels`.
    """
    scores, groups = credit_of(grades), groups_of(grades)
    scored, n = ~np.isnan(scores), len(scores)
    known, missing = float(scores[scored].sum()), int((~scored).sum())
    decided = [grade for grade in grades if grade.status in DECIDED]
    by_judge = np.array([float(grade.method != "deterministic") for grade in decided], dtype=np.float64)
    kinds = {grade.kind for grade in grades}
    why = "several kinds" if len(kinds) > 1 else LOW if n and n - missing < LEAST_COVERAGE * n else ""
    one = n > 0 and len(kinds) == 1
    return {
        "n": n, "accuracy": rate(scores, groups).json() if not why else _withheld(n - missing, why),
        "lower": known / n if one else None, "upper": (known + missing) / n if one else None,
        "coverage": rate(scored.astype(np.float64), groups).json(),
        "by_judge": rate(by_judge, groups_of(decided)).json(),
        "statuses": _counts(grade.status for grade in grades), "reasons": _counts(grade.reason for grade in grades),
        "errors": _counts(grade.error_type for grade in grades if grade.error_type),
        "flags": _counts(flag for grade in grades for flag in grade.flags),
        "nuggets_unreviewed": sum(not nugget.reviewed for grade in grades for nugget in grade.nuggets),
        **(_nuggets(grades) if kinds == {"nuggets"} else {}),
    }  # fmt: skip


def _withheld(n: int, why: str) -> dict[str, Any]:
    return {"value": None, "n": n, "ci": None, "withheld": why}


def _nuggets(grades: Sequence[GradeResult]) -> dict[str, Any]:
    return {
        "labels": _counts(nugget.label or "unread" for grade in grades for nugget in grade.nuggets),
        "nugget_scores": {
            name: _mean_nugget_score([_nugget_score_of(grade, name) for grade in grades])
            for name in NUGGET_SCORES
        },
    }


def _nugget_score_of(grade: GradeResult, name: str) -> Mapping[str, Any]:
    if grade.nugget_scores is not None:
        score: Mapping[str, Any] = grade.nugget_scores[name]
        return score
    return {"value": grade.score, "lower": 0.0, "upper": 1.0 if grade.score is None else grade.score, "n": 1}


def _mean_nugget_score(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    asked = [score for score in scores if score["n"]]
    read = np.array([score["value"] for score in asked if score["value"] is not None], dtype=np.float64)
    mean = rate(read).json() if len(read) >= LEAST_COVERAGE * len(asked) else _withheld(len(read), LOW)
    ends = {end: float(np.mean([s[end] for s in asked])) if asked else None for end in ("lower", "upper")}
    return {**mean, "asked": len(asked), **ends}


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def credit_of(grades: Sequence[GradeResult]) -> Floats:
    """Return the scores of grades, NaN if an answer is unscored (n,)."""
    return np.array([math.nan if g.score is None else g.score for g in grades], dtype=np.float64)


def groups_of(grades: Sequence[GradeResult]) -> Ints:
    """Assign the same integer to grades of the same item, or of items that share a passage (n,)."""
    return group_numbers([g.item_id for g in grades], {g.item_id: g.group for g in grades if g.group})
