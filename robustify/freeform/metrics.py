"""Summary of graded answers: counts, rates, and names of models and templates, without text of items or answers.

Rates are over all submitted answers, and unscored answers are counted. An accuracy has a coverage, and bounds that
assume that every unscored answer is wrong or right.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from robustify.base.arrays import group_numbers
from robustify.freeform.human import HumanLabel, calibrate
from robustify.freeform.schema import DECIDED, NUGGET_SCORES, FreeItem, GradeResult
from robustify.judging.free_response import LEAST_COVERAGE, LOW
from robustify.judging.stats.intervals import rate
from robustify.judging.stats.tests import paired_difference, sign_flip

FORMAT = 3
_STEPS = 1000
"""Steps of a score in a paired test. The score of an answer by its nuggets may be any fraction."""


def summarise(
    items: Sequence[FreeItem], grades: Sequence[GradeResult], labels: Sequence[HumanLabel] = (), seed: int = 0
) -> dict[str, Any]:
    """Compute the summary of a free-response evaluation.

    Return `{"format", "n_items", "models": {MODEL: {"kinds": {KIND: ...}, "topics": {TOPIC: {KIND: ...}}, "all": ...,
    "judges", "templates", "self_judging"}}, "pairs": [...], "calibration"}`. Each part has the fields of `aggregate`.
    `all` counts all answers, and has an accuracy only if they are of one kind. `pairs` compares two models on one kind.
    """
    topics = {item.id: item.topic for item in items}
    models = _parted(grades, lambda grade: grade.model)
    return {
        "format": FORMAT, "n_items": len(items),
        "models": {name: _model(rows, lambda grade: topics.get(grade.item_id, "")) for name, rows in models.items()},
        "pairs": [*_pairs(grades)], "calibration": calibrate(grades, labels, seed),
    }  # fmt: skip


def _pairs(grades: Sequence[GradeResult]) -> Iterator[dict[str, Any]]:
    """Yield the paired test of every two models on each kind of answer: `model` minus `other` on the items for which both
    have a score, with the exact p-value and mid-p. It is withheld if these are fewer than 80 % of the items that both
    answered. `left_out` counts the items that only one of them has a score for."""
    for kind, some in _parted(grades, lambda grade: grade.kind).items():
        for (other, they), (model, we) in combinations(_parted(some, lambda grade: grade.model).items(), 2):
            theirs, ours = ({g.item_id: g for g in side if g.score is not None} for side in (they, we))
            items, both = (
                [one for one in ours if one in theirs],
                {g.item_id for g in they} & {g.item_id for g in we},
            )
            left_out = len(ours.keys() ^ theirs.keys())
            pair = {"kind": kind, "model": model, "other": other, "left_out": left_out}
            if len(items) < LEAST_COVERAGE * len(both):
                yield {**pair, "difference": _withheld(len(items), LOW), "p": None, "mid_p": None}
                continue
            groups = group_numbers(items, {i: ours[i].group for i in items})
            credit, base = (
                np.array([side[i].score for i in items], dtype=np.float64) for side in (ours, theirs)
            )
            exact, mid = sign_flip(np.rint((credit - base) * _STEPS).astype(np.int64), groups)
            difference = paired_difference(credit, base, groups).json()
            yield {**pair, "difference": difference, "p": exact, "mid_p": mid}


def _model(grades: Sequence[GradeResult], topic: Callable[[GradeResult], str]) -> dict[str, Any]:
    def kinds(some: Sequence[GradeResult]) -> dict[str, Any]:
        return {kind: aggregate(rows) for kind, rows in _parted(some, lambda grade: grade.kind).items()}

    traces = [grade.judge for grade in grades if grade.judge is not None]
    return {
        "kinds": kinds(grades),
        "topics": {name: kinds(some) for name, some in sorted(_parted(grades, topic).items()) if name},
        "all": aggregate(grades), "judges": sorted({trace.model for trace in traces}),
        "templates": sorted({trace.template_id for trace in traces}),
        "self_judging": sum("self_judging" in grade.flags for grade in grades),
    }  # fmt: skip


def _parted(grades: Sequence[GradeResult], by: Callable[[GradeResult], str]) -> dict[str, list[GradeResult]]:
    return {key: [grade for grade in grades if by(grade) == key] for key in dict.fromkeys(map(by, grades))}


def unscored_in(grades: Sequence[GradeResult]) -> float:
    """Return the share of answers without a score, or 0 if there are no answers."""
    return sum(grade.score is None for grade in grades) / max(1, len(grades))


def aggregate(grades: Sequence[GradeResult]) -> dict[str, Any]:
    """Compute the counts and rates of a set of grades. Every rate is `{"value", "n", "ci"}`, clustered by item or
    passage.

    `lower` and `upper` are over all `n` answers, with every unscored answer wrong or right. `accuracy` is over the
    scored answers. It is withheld if they are fewer than 80 %. All three are withheld if the grades are of several
    kinds, because their scores mean different things. `by_judge` is the share of decided answers that a judge decided.
    Nuggets add `nugget_scores` and `labels`.
    """
    scores, n = np.array([g.score for g in grades], dtype=np.float64), len(grades)
    missing, known = int(np.isnan(scores).sum()), float(np.nansum(scores))
    decided = [grade for grade in grades if grade.status in DECIDED]
    kinds = {grade.kind for grade in grades}
    why = "several kinds" if len(kinds) > 1 else LOW if n and n - missing < LEAST_COVERAGE * n else ""
    return {
        "n": n, "accuracy": _withheld(n - missing, why) if why else _rate(grades, scores),
        "lower": known / n if len(kinds) == 1 else None, "upper": (known + missing) / n if len(kinds) == 1 else None,
        "coverage": _rate(grades, ~np.isnan(scores)),
        "by_judge": _rate(decided, [grade.method != "deterministic" for grade in decided]),
        "statuses": _counts(grade.status for grade in grades), "reasons": _counts(grade.reason for grade in grades),
        "errors": _counts(grade.error_type for grade in grades if grade.error_type),
        "flags": _counts(flag for grade in grades for flag in grade.flags),
        **(_nuggets(grades) if kinds == {"nuggets"} else {}),
    }  # fmt: skip


def _rate(grades: Sequence[GradeResult], values: Any) -> dict[str, Any]:
    """Return the rate of values, one a grade. Grades of one item, or of items that share a passage, are one cluster."""
    groups = group_numbers([g.item_id for g in grades], {g.item_id: g.group for g in grades if g.group})
    return rate(np.asarray(values, dtype=np.float64), groups).json()


def _withheld(n: int, why: str) -> dict[str, Any]:
    return {"value": None, "n": n, "ci": None, "withheld": why}


def _nuggets(grades: Sequence[GradeResult]) -> dict[str, Any]:
    def score_of(grade: GradeResult, name: str) -> Mapping[str, Any]:
        # A grade without labels has the same bounds in each score.
        upper = 1.0 if grade.score is None else grade.score
        blank: Mapping[str, Any] = {"value": grade.score, "lower": 0.0, "upper": upper, "n": 1}
        scores: Mapping[str, Mapping[str, Any]] = grade.nugget_scores or {}
        return scores.get(name, blank)

    means = {}
    for name in NUGGET_SCORES:
        asked = [score for grade in grades if (score := score_of(grade, name))["n"]]
        read = np.array([score["value"] for score in asked if score["value"] is not None], dtype=np.float64)
        mean = rate(read).json() if len(read) >= LEAST_COVERAGE * len(asked) else _withheld(len(read), LOW)
        ends = {end: float(np.mean([s[end] for s in asked])) if asked else None for end in ("lower", "upper")}
        means[name] = {**mean, "asked": len(asked), **ends}
    labels = _counts(nugget.label or "unread" for grade in grades for nugget in grade.nuggets)
    return {"labels": labels, "nugget_scores": means}


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
