"""Grades -> rows that stand beside a run's other scores: matched to its items by id and by content.

It refuses grades of other items, of items whose text has changed since, and of one answer told twice. What it gives
holds no text.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence

from robustify.errors import DataError
from robustify.freeform.errors import FreeDataError, RestrictedDataError
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.item import Item
from robustify.judge.free_response import FreeGrades, FreeRow

NOT_PREPARED = "not_prepared"
"""Of an item of the run that stands in no file of `free prepare`."""


def attached(
    grades: Sequence[GradeResult],
    items: Sequence[FreeItem],
    run_items: Sequence[Item],
    labels: Sequence[HumanLabel] = (),
    seed: int = 0,
) -> FreeGrades:
    """The grades as rows of a run that holds `run_items`; `labels` are people's, which calibrate the judges.

    Raises:
        RestrictedDataError: grades of a restricted set, whose items cannot be matched by their content.
        FreeDataError: no grades, grades of items that the run or `items` do not hold, items that are others now, or
            two grades of one model for one item.
    """
    if any(item.restricted for item in items) or any(grade.restricted for grade in grades):
        raise RestrictedDataError(
            "grades: are of a restricted set; expected those of a public one: a restricted run keeps no rows of items"
        )
    if not grades:
        raise FreeDataError("grades: none; expected the file that `robustify free grade` wrote")
    asked, held = {item.id: item for item in items}, {item.id: item for item in run_items}
    faults = [
        fault for name in dict.fromkeys(g.item_id for g in grades) if (fault := _fault(name, asked, held))
    ]
    faults += _twice(grades)
    if faults:
        raise FreeDataError(*DataError.gather(faults).lines)
    return FreeGrades(
        rows=tuple(_row(grade) for grade in grades),
        calibration=calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        left_out=_left_out(run_items, asked),
        sha256=_digest(grades),
    )


def _fault(name: str, asked: Mapping[str, FreeItem], held: Mapping[str, Item]) -> str | None:
    if name not in asked:
        return f"grade of {name}: no such item in --items; expected the file it was made from"
    if name not in held:
        return f"grade of {name}: the run holds no such item; expected grades of this run's items"
    question, item = asked[name], held[name]
    same = (question.question, question.options, question.correct) == (item.stem, item.choices, item.key)
    return (
        None if same else f"grade of {name}: the run's item has another text or key; expected the same item"
    )


def _twice(grades: Sequence[GradeResult]) -> list[str]:
    counts = Counter((grade.item_id, grade.model) for grade in grades)
    return [
        f"grade of {item}: {n} of {model}; expected one (give the grades of one prompt)"
        for (item, model), n in counts.items()
        if n > 1
    ]


def _row(grade: GradeResult) -> FreeRow:
    decided = grade.judge.model if grade.judge is not None and grade.method != "deterministic" else None
    return FreeRow(
        grade.item_id,
        grade.model,
        str(grade.kind),
        grade.status,
        grade.score,
        decided,
        "self_judging" in grade.flags,
    )


def _left_out(run_items: Sequence[Item], asked: Mapping[str, FreeItem]) -> dict[str, int]:
    reasons = [asked[item.id].excluded_reason if item.id in asked else NOT_PREPARED for item in run_items]
    return dict(sorted(Counter(reason for reason in reasons if reason).items()))


def _digest(grades: Sequence[GradeResult]) -> str:
    lines = sorted(json.dumps(grade.json(), sort_keys=True) for grade in grades)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
