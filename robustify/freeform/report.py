"""What grades say: as one summary, and as rows beside the other scores of a run.

The summary has counts, rates and names of models and templates, never text of an item or an answer. What of a
restricted set is shown is decided in `permit.summary_to_show`. Grades are matched to a run's items by id and by content.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.metrics import against_base, aggregate, credit_of
from robustify.freeform.permit import MIN_CELL, summary_to_show
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.item import Item
from robustify.judge.free_response import FreeGrades, FreeRow

FORMAT = 2


def summarise(
    items: Sequence[FreeItem], grades: Sequence[GradeResult], labels: Sequence[HumanLabel] = (), seed: int = 0, *,
    truncated_as_wrong: bool = False, base: str | None = None, min_cell: int = MIN_CELL,
) -> dict[str, Any]:  # fmt: skip
    """The numbers of a free-response evaluation; of a restricted set those that `summary_to_show` shows, by `min_cell`.

    `{"format", "restricted", "n_items", "models": {MODEL: {"kinds": {KIND: ...}, "topics": {TOPIC: {KIND: ...}}, "all":
    ..., "judges", "templates", "self_judging"}}, "calibration", "against_base"}`, each part as `metrics.aggregate` gives
    it: `all` counts all answers, and has an accuracy only where they are of one kind. `against_base` is that of
    `metrics`, where a base is named.
    """
    topics = {item.id: item.topic for item in items if item.topic}
    by_model: dict[str, list[GradeResult]] = {}
    for grade in grades:
        by_model.setdefault(grade.model, []).append(grade)
    restricted = any(item.restricted for item in items) or any(grade.restricted for grade in grades)
    summary: dict[str, Any] = {
        "format": FORMAT,
        "restricted": restricted,
        "n_items": len(items),
        "models": {name: _model(rows, topics, truncated_as_wrong) for name, rows in by_model.items()},
        "calibration": calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        "against_base": None if base is None else against_base(grades, base, topics),
    }
    return summary_to_show(summary, min_cell) if restricted else summary


def _model(grades: Sequence[GradeResult], topics: Mapping[str, str], as_wrong: bool) -> dict[str, Any]:
    by_topic: dict[str, list[GradeResult]] = {}
    for grade in grades:
        if grade.item_id in topics:
            by_topic.setdefault(topics[grade.item_id], []).append(grade)
    traces = [grade.judge for grade in grades if grade.judge is not None]

    def kinds(some: Sequence[GradeResult]) -> dict[str, Any]:
        return {
            kind: aggregate([grade for grade in some if grade.kind == kind], truncated_as_wrong=as_wrong)
            for kind in dict.fromkeys(str(grade.kind) for grade in some)
        }

    return {
        "kinds": kinds(grades), "topics": {topic: kinds(some) for topic, some in sorted(by_topic.items())},
        "all": aggregate(grades, truncated_as_wrong=as_wrong), "judges": sorted({trace.model for trace in traces}),
        "templates": sorted({trace.template_id for trace in traces}),
        "self_judging": sum("self_judging" in grade.flags for grade in grades),
    }  # fmt: skip


def nugget_row(grade: GradeResult) -> dict[str, Any]:
    """The labels of one passage in the order of its nuggets (None: unread), and its nugget scores."""
    return {
        "id": grade.item_id, "model": grade.model, "labels": [nugget.label for nugget in grade.nuggets],
        "scores": {name: score["value"] for name, score in (grade.nugget_scores or {}).items()},
        "error_type": grade.error_type,
    }  # fmt: skip


def unscored_in(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> float:
    """The share of answers without a score; 0 where there are none."""
    scores = credit_of(grades, truncated_as_wrong=truncated_as_wrong)
    return float(np.isnan(scores).mean()) if len(scores) else 0.0


def refuse_self_judged(grades: Iterable[GradeResult]) -> None:
    """Refuse grades that a model gave its own answers (`UsageError`)."""
    own = sum("self_judging" in grade.flags for grade in grades)
    if own:
        raise UsageError(
            f"{own} answers were judged by the model that wrote them; expected another judge (or --allow-self-judging)"
        )


# Beside the other scores of a run

NOT_PREPARED = "not_prepared"
"""The reason of an item of the run that is in no file of `free prepare`."""


def attached(
    grades: Sequence[GradeResult],
    items: Sequence[FreeItem],
    run_items: Sequence[Item],
    labels: Sequence[HumanLabel] = (),
    seed: int = 0,
) -> FreeGrades:
    """The grades as rows of a run with these `run_items`; `labels` are people's, which calibrate the judges.

    Raises:
        AuthorisationError: grades of a restricted set, whose items cannot be matched by their content.
        DataError: no grades, grades of items that are not in the run or not in `items`, items that differ, or two
            grades of one model for one item.
    """
    if any(item.restricted for item in items) or any(grade.restricted for grade in grades):
        raise AuthorisationError(
            "grades: are of a restricted set; expected those of a public one: a restricted run keeps no rows of items"
        )
    if not grades:
        raise DataError("grades: none; expected the file that `robustify free grade` wrote")
    questions, in_run = {item.id: item for item in items}, {item.id: item for item in run_items}
    faults = [_fault(name, questions, in_run) for name in dict.fromkeys(g.item_id for g in grades)]
    counts = Counter((grade.item_id, grade.model) for grade in grades)
    faults += [
        f"grade of {item}: {n} of {model}; expected one (give the grades of one prompt)"
        for (item, model), n in counts.items()
        if n > 1
    ]
    if any(faults):
        raise DataError.gather([fault for fault in faults if fault])
    lines = sorted(json.dumps(grade.json(), sort_keys=True) for grade in grades)
    reasons = [questions[i.id].excluded_reason if i.id in questions else NOT_PREPARED for i in run_items]
    return FreeGrades(
        rows=tuple(map(_free_row, grades)),
        calibration=calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        left_out=dict(sorted(Counter(reason for reason in reasons if reason).items())),
        sha256=hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _fault(name: str, questions: Mapping[str, FreeItem], in_run: Mapping[str, Item]) -> str:
    if name not in questions:
        return f"grade of {name}: no such item in --items; expected the file it was made from"
    if name not in in_run:
        return f"grade of {name}: the run holds no such item; expected grades of this run's items"
    question, item = questions[name], in_run[name]
    same = (question.question, question.options, question.correct) == (item.stem, item.choices, item.key)
    return "" if same else f"grade of {name}: the run's item has another text or key; expected the same item"


def _free_row(grade: GradeResult) -> FreeRow:
    judge = grade.judge.model if grade.judge is not None and grade.method != "deterministic" else None
    own = "self_judging" in grade.flags
    return FreeRow(grade.item_id, grade.model, str(grade.kind), grade.status, grade.score, judge, own)
