"""Export items as open-ended questions, and grade the replies within lm-eval and Inspect.

Only questions that rules can grade (numbers and short texts) are exported, and the others are counted. An answer that the
rules cannot decide has no score. It is counted beside the accuracy and never as wrong. The same applies to a truncated
reply if the other tool reports the truncation, as Inspect does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from robustify.export.writing import FreeRows
from robustify.freeform.free_run import prompt_of
from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.questions import convert_item
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.items.item import Item
from robustify.pipeline.free_settings import FreeSettings

_RULES = FreeSettings(mode="deterministic")


def convert_items(items: Sequence[Item]) -> FreeRows:
    """Convert items into rows, in order. Omit items that cannot be asked without options and graded by rules."""
    questions = [convert_item(item) for item in items]
    rows = (
        {"id": free.id, "prompt": prompt_of(free, _RULES), "question": free.question, "kind": free.kind,
         "reference": free.reference, "choices": [*free.options], "key": free.correct, "topic": free.topic}
        for free in questions if not free.excluded_reason
    )  # fmt: skip
    left_out = Counter(free.excluded_reason for free in questions if free.excluded_reason)
    reasons = ", ".join(f"{name} {n}" for name, n in sorted(left_out.items()))
    says = f"{len(questions) - left_out.total()} of {len(questions)} items"
    return FreeRows(tuple(rows), says + f" (left out: {reasons})" * bool(reasons))


def grade(doc: Mapping[str, Any], reply: str, *, cut: bool = False) -> GradeResult:
    """Grade a reply to one row of a free-response task. With `cut`, the reply was truncated and is undecided."""
    same = {name: doc[name] for name in ("id", "question", "kind", "reference", "topic")}
    item = FreeItem(**same, options=tuple(doc["choices"]), correct=doc["key"])
    finish = "length" if cut else None
    return grade_answer(item, AnswerRow(item.id, "", reply, finish_reason=finish), _RULES)


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Return the metrics of one reply. lm-eval averages them over replies. Only decided replies have `acc`, so the n of
    `acc` is the number of decided replies. `acc_low` and `acc_high` count undecided replies as wrong and as right."""
    score = grade(doc, results[0]).score
    if score is None:
        return {"decided": 0.0, "acc_low": 0.0, "acc_high": 1.0}
    return {"decided": 1.0, "acc": score, "acc_low": score, "acc_high": score}
