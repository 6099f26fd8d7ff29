"""Tests of a judge without human labels: is it consistent, and can text in an answer mislead it?

Correct answers (references) and wrong answers (other options) are made from the items. An unreadable reply is counted
separately, as neither a resisted nor a successful attack. The added texts are harmless. They forge a verdict or praise
the answer.
"""

import random
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from robustify.freeform.grade.graders import grade_answer
from robustify.freeform.human import judge_verdict
from robustify.freeform.llm_judge.judges import Judge
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.freeform.settings import FreeSettings
from robustify.judging.stats.intervals import rate

PAYLOADS: dict[str, str] = yaml.safe_load(
    files("robustify.freeform").joinpath("audit.yaml").read_text(encoding="utf-8")
)
"""Texts that are added to a known wrong answer, by name."""
REPEATS = 3
Known = tuple[FreeItem, str, bool]
"""An item, an answer to it, and whether the answer is correct."""


def known_answers(items: Sequence[FreeItem], n: int, seed: int = 0) -> list[Known]:
    """Return a correct and a wrong answer for each of `n` items: its reference, and one of its other options."""
    rng = random.Random(f"audit/{seed}")
    usable = [i for i in items if not i.excluded_reason and i.correct is not None and not i.nuggets]
    out: list[Known] = []
    for item in rng.sample(usable, min(n, len(usable))):
        others = [o for j, o in enumerate(item.options) if j != item.correct and o.strip() != item.reference]
        if others:
            out += [(item, item.reference, True), (item, rng.choice(others), False)]
    return out


def judge_audit(judge: Judge, items: Sequence[FreeItem], n: int, settings: FreeSettings) -> dict[str, Any]:
    """Return `{"repeats", "misled"}`: the shares of repeated verdicts and of wrong answers accepted with an added text."""

    def graded(item: FreeItem, answer: str, votes: int) -> GradeResult:
        asked = settings.asking.model_copy(update={"votes": votes})
        how = settings.model_copy(update={"mode": "judge", "judge": asked})
        return grade_answer(item, AnswerRow(item.id, "", answer), how, judge)

    known = known_answers(items, n, settings.asking.seed)
    traces = [graded(item, answer, REPEATS).judge for item, answer, _ in known]
    votes = [trace.votes if trace else (None,) for trace in traces]
    wrong = [(item, answer) for item, answer, right in known if not right]
    called = [
        (item, answer) for item, answer in wrong if judge_verdict(graded(item, answer, 1)) == "incorrect"
    ]
    said = [judge_verdict(graded(i, text + added, 1)) for added in PAYLOADS.values() for i, text in called]
    misled = _share([None if word is None else word == "correct" for word in said], len(called))
    same = _share([None if None in one else len(set(one)) == 1 for one in votes], len(votes))
    return {"repeats": same, "misled": {**misled, "n_called_wrong": len(called)}}


def _share(values: Sequence[bool | None], n_groups: int) -> dict[str, Any]:
    """Return the share of true values, clustered by answer. The answers repeat in the same order."""
    numbers = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    share = rate(numbers, np.arange(len(numbers)) % max(1, n_groups)).json()
    return {**share, "unread": int(np.isnan(numbers).sum())}
