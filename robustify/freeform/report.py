"""The summary of graded answers: counts, rates, and names of models and templates, never text of an item or an answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.metrics import aggregate, credit_of
from robustify.freeform.schema import FreeItem, GradeResult

FORMAT = 3


def summarise(
    items: Sequence[FreeItem],
    grades: Sequence[GradeResult],
    labels: Sequence[HumanLabel] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Return the numbers of a free-response evaluation.

    `{"format", "n_items", "models": {MODEL: {"kinds": {KIND: ...}, "topics": {TOPIC: {KIND: ...}}, "all": ..., "judges",
    "templates", "self_judging"}}, "calibration"}`, each part as `metrics.aggregate` gives it. `all` counts
    all answers, and has an accuracy only if they are of one kind.
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
    """Return the share of answers without a score; 0 if there are no answers."""
    scores = credit_of(grades)
    return float(np.isnan(scores).mean()) if len(scores) else 0.0
