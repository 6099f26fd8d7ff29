"""Tests of a judge without human labels: is it consistent, and can text in an answer mislead it?

Correct answers (references) and wrong answers (other options) are made from the items. An unreadable reply is counted
separately, as neither a resisted nor a successful attack. The added texts are harmless. They forge a verdict or praise
the answer.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.human import judge_verdict
from robustify.freeform.llm_judge.judges import Judge
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.freeform.settings import FreeSettings
from robustify.redaction import HoldsText
from robustify.stats.intervals import rate

PAYLOADS: dict[str, str] = yaml.safe_load(
    files("robustify.freeform").joinpath("audit.yaml").read_text(encoding="utf-8")
)
"""Texts that are added to a known wrong answer, by name."""
REPEATS = 3


@dataclass(frozen=True, slots=True, repr=False)
class Case(HoldsText):
    """An answer whose correct verdict is known."""

    item: FreeItem
    answer: str
    right: bool


def known_cases(items: Sequence[FreeItem], n: int, seed: int = 0) -> list[Case]:
    """Return a correct and a wrong answer for each of `n` items: its reference, and one of its other options."""
    rng = random.Random(f"audit/{seed}")
    usable = [i for i in items if not i.excluded_reason and i.correct is not None and not i.nuggets]
    out = []
    for item in rng.sample(usable, min(n, len(usable))):
        others = [o for j, o in enumerate(item.options) if j != item.correct and o.strip() != item.reference]
        if others:
            out += [Case(item, item.reference, True), Case(item, rng.choice(others), False)]
    return out


def judge_audit(judge: Judge, items: Sequence[FreeItem], n: int, settings: FreeSettings) -> dict[str, Any]:
    """Return `{"repeats", "misled"}`: the shares of repeated verdicts and of wrong answers accepted with an added text."""
    cases = known_cases(items, n, settings.asking.seed)

    def graded(case: Case, added: str, votes: int) -> GradeResult:
        row = AnswerRow(case.item.id, "", case.answer + added)
        asked = settings.asking.model_copy(update={"votes": votes})
        return grade_answer(
            case.item, row, settings.model_copy(update={"mode": "judge", "judge": asked}), judge
        )

    votes = [(g.judge.votes if g.judge else (None,)) for g in (graded(case, "", REPEATS) for case in cases)]
    wrong = [case for case in cases if not case.right]
    called = [case for case in wrong if judge_verdict(graded(case, "", 1)) == "incorrect"]
    said = [
        (at, judge_verdict(graded(case, added, 1)))
        for added in PAYLOADS.values()
        for at, case in enumerate(called)
    ]
    flipped = _clustered_share(
        [None if word is None else word == "correct" for _, word in said], [at for at, _ in said]
    )
    same = _clustered_share([None if None in one else len(set(one)) == 1 for one in votes], range(len(votes)))
    return {"repeats": same, "misled": {**flipped, "n_called_wrong": len(called)}}


def _clustered_share(values: Sequence[bool | None], groups: Sequence[int]) -> dict[str, Any]:
    numbers = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    share = rate(numbers, np.array(groups, dtype=np.int64)).json()
    return {**share, "unread": int(np.isnan(numbers).sum())}
