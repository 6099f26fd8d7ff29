"""Our graders behind the interfaces of other tools: a row of a free task and a reply in, a grade out.

The rules alone grade here. What they cannot decide has no score: it is counted beside the accuracy and never as wrong.
Nor has a reply that was cut off, where the other tool says so (Inspect does, lm-eval does not).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from robustify.freeform.grade.graders import Grading, grade_answer
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult

_RULES = Grading(mode="deterministic")


def grade(doc: Mapping[str, Any], reply: str, *, cut: bool = False) -> GradeResult:
    """The grade of a reply to one row of a free task; `cut`: it was cut off, so it is not decided."""
    item = FreeItem(
        id=doc["id"],
        question=doc["question"],
        kind=doc["kind"],
        reference=doc["reference"],
        options=tuple(doc["choices"]),
        correct=doc["key"],
        topic=doc["topic"],
    )
    finish = "length" if cut else None
    return grade_answer(item, AnswerRow(item.id, "", reply, "", "", "", finish_reason=finish), _RULES)


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """What lm-eval averages for one reply.

    `decided` is 1 where the rules could decide; `acc` is there for those alone, so its n is n times `decided`; `acc_low`
    and `acc_high` take what is undecided as wrong and as right, so they are over all.
    """
    score = grade(doc, results[0]).score
    always = {"decided": float(score is not None)}
    if score is None:
        return {**always, "acc_low": 0.0, "acc_high": 1.0}
    return {**always, "acc": score, "acc_low": score, "acc_high": score}
