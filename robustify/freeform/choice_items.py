"""Between multiple-choice items and free response: an item as a question without options, grades as rows of a run.

The kind of a question is decided by the length of the key's text. An item that cannot be asked keeps its reason, and
reasons are counted by topic. Grades are matched to a run's items by id and by content; their rows have no text.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from robustify.errors import AuthorisationError, DataError
from robustify.freeform.grade.quantities import whole_quantity
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.schema import FreeItem, GradeResult, Kind
from robustify.item import Item
from robustify.judge.cloze import exclusion
from robustify.judge.free_response import FreeGrades, FreeRow

SHORT, MIDDLE = 5, 12
"""Most words of a key that is a short text; up to `MIDDLE` it is asked and flagged `check_unique`."""
SMALL_COUNT = 20
"""Whole numbers below this are often counts, for which a relative tolerance is lax."""
_OTHER = "another text"


def convert_item(
    item: Item, *, explanations: bool = False, restricted: bool = False, adapter: str = ""
) -> FreeItem:
    """The question of an item, with its kind, its reference and, where it cannot be asked, the reason.

    `explanations` also asks items whose key is longer than 12 words; without it they are excluded as `long_answer`,
    because a long text is neither right nor wrong by comparison.
    """
    reference = " ".join(item.choices[item.key].split())
    kind, flags = route(reference)
    return FreeItem(
        id=item.id,
        question=item.stem,
        kind=kind,
        reference=reference,
        options=item.choices,
        correct=item.key,
        topic=item.topic,
        group=item.group,
        restricted=restricted,
        flags=flags,
        excluded_reason=_reason(item, kind, explanations),
        adapter=adapter,
    )


def route(reference: str) -> tuple[Kind, tuple[str, ...]]:
    """The kind of answer that a key's text wants, and what a person should look at."""
    quantity = whole_quantity(reference)
    words = len(reference.split())
    if quantity is not None:
        if quantity.value == 0:
            return "numeric", ("zero_reference_needs_abs",)
        whole = quantity.value == quantity.value.to_integral_value()
        return "numeric", ("small_count",) if whole and abs(quantity.value) < SMALL_COUNT else ()
    if words <= SHORT:
        return "short_text", ()
    if words <= MIDDLE:
        return "short_text", ("check_unique",)
    return "explanation", ()


def _reason(item: Item, kind: Kind, explanations: bool) -> str:
    # The reasons are those of the strict cloze profile, but only the key's own words can spoil a free answer.
    alone = Item(item.id, item.stem, (item.choices[item.key], _OTHER), 0, item.topic, item.group)
    reason = exclusion(alone, "strict")
    if reason not in (None, "long_answer"):
        return str(reason)
    return "long_answer" if kind == "explanation" and not explanations else ""


def exclusions(items: Iterable[FreeItem]) -> dict[str, Any]:
    """How many items each reason excluded, in all and by topic, and how many are left to ask.

    `{"n", "asked", "kinds": {KIND: n}, "excluded": {REASON: n}, "topics": {TOPIC: {"n", "asked", REASON: n}}}`
    """
    counts: dict[str, Any] = {"n": 0, "asked": 0, "kinds": {}, "excluded": {}, "topics": {}}
    for item in items:
        topic: dict[str, int] = counts["topics"].setdefault(item.topic, {"n": 0, "asked": 0})
        reason = item.excluded_reason
        for part in (counts, topic):
            part["n"] += 1
            part["asked"] += not reason
        for part in (counts["excluded"], topic) if reason else ():
            part[reason] = part.get(reason, 0) + 1
        if not reason:
            counts["kinds"][item.kind] = counts["kinds"].get(item.kind, 0) + 1
    return counts


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
    reasons = [questions[i.id].excluded_reason if i.id in questions else NOT_PREPARED for i in run_items]
    return FreeGrades(
        rows=tuple(_row(grade) for grade in grades),
        calibration=calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        left_out=dict(sorted(Counter(reason for reason in reasons if reason).items())),
        sha256=_digest(grades),
    )


def _fault(name: str, questions: Mapping[str, FreeItem], in_run: Mapping[str, Item]) -> str:
    if name not in questions:
        return f"grade of {name}: no such item in --items; expected the file it was made from"
    if name not in in_run:
        return f"grade of {name}: the run holds no such item; expected grades of this run's items"
    question, item = questions[name], in_run[name]
    same = (question.question, question.options, question.correct) == (item.stem, item.choices, item.key)
    return "" if same else f"grade of {name}: the run's item has another text or key; expected the same item"


def _row(grade: GradeResult) -> FreeRow:
    judge = grade.judge.model if grade.judge is not None and grade.method != "deterministic" else None
    own = "self_judging" in grade.flags
    return FreeRow(grade.item_id, grade.model, str(grade.kind), grade.status, grade.score, judge, own)


def _digest(grades: Sequence[GradeResult]) -> str:
    lines = sorted(json.dumps(grade.json(), sort_keys=True) for grade in grades)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
