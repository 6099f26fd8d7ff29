"""Graded free responses of each model: accuracy, bounds and coverage on a part of the items.

A response without a score is not counted as wrong, but it widens the bounds. Nothing is asked or graded here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustify.arrays import Bools, Floats
from robustify.judging.context import Context
from robustify.judging.free_grades import FreeGrades, FreeRow
from robustify.screen.item_index import ItemIndex
from robustify.stats.intervals import rate
from robustify.summary.quantity import Score
from robustify.summary.scored import FreeFacts

LEAST_COVERAGE = 0.8
"""Minimum share of scored responses for an accuracy. Below it, only the bounds are given."""
LOW = "coverage below 80 %"


@dataclass(frozen=True, eq=False)
class FreeGraded:
    """Free responses of one model: the score of each item (n,), NaN if none, and whether it was asked and judged."""

    score: Floats
    asked: Bools
    judged: Bools
    facts: FreeFacts

    def rate(self, mask: Bools) -> Score:
        """Return the accuracy over the scored responses, withheld if fewer than 80 % have a score."""
        here = self.score[self.asked & mask]
        n = int(np.count_nonzero(~np.isnan(here)))
        if n < LEAST_COVERAGE * len(here):
            return Score(n=n, withheld=LOW)
        return Score.of(rate(here))

    def bound(self, mask: Bools, unscored: float) -> Score:
        """Return the accuracy over all responses if each response without a score had the score `unscored`."""
        here = self.score[self.asked & mask]
        return Score(value=float(np.nan_to_num(here, nan=unscored).mean()) if len(here) else None)

    def coverage(self, mask: Bools) -> Score:
        """Return the share of responses with a score."""
        return Score.of(rate((~np.isnan(self.score[self.asked & mask])).astype(np.float64)))

    def by_judge(self, mask: Bools) -> Score:
        """Return the share of the scored responses that a judge graded."""
        scored = self.asked & mask & ~np.isnan(self.score)
        return Score.of(rate(self.judged[scored].astype(np.float64)))


def free_responses(ctx: Context) -> dict[str, FreeGraded]:
    """Return the free responses of every model that gave any."""
    free = ctx.facts.free
    if free is None:
        return {}
    found = {name: free_graded(free, name, ctx.index) for name in free.models}
    return {name: graded for name, graded in found.items() if graded is not None}


def free_graded(grades: FreeGrades, model: str, index: ItemIndex) -> FreeGraded | None:
    """Return one model's graded responses, or None if it gave no free responses."""
    rows = [row for row in grades.rows if row.model == model]
    if not rows:
        return None
    judges = sorted({row.judge for row in rows if row.judge is not None})
    facts = FreeFacts(
        statuses=dict(sorted(Counter(row.status for row in rows).items())),
        kinds=dict(sorted(Counter(row.kind for row in rows).items())),
        left_out=dict(grades.left_out),
        judges=tuple(judges),
        judge_status=str(grades.calibration.get("status")) if judges else None,
        judge_kappa=_kappa(grades.calibration) if judges else None,
        self_judging=sum(row.self_judging for row in rows),
    )
    return FreeGraded(*_by_item(rows, index), facts)


def _by_item(rows: Sequence[FreeRow], index: ItemIndex) -> tuple[Floats, Bools, Bools]:
    """Return the score of each item (NaN if none), whether it was asked, and whether a judge graded it."""
    at_item = {name: i for i, name in enumerate(index.items)}
    score = np.full(len(index), np.nan)
    asked, judged = np.zeros(len(index), dtype=bool), np.zeros(len(index), dtype=bool)
    for row in rows:
        at = at_item[row.item]
        asked[at] = True
        if row.score is not None:
            score[at], judged[at] = row.score, row.judge is not None
    return score, asked, judged


def _kappa(calibration: Mapping[str, Any]) -> Any:
    """Return the judge's agreement with people on verdicts, or on nuggets as a fallback. None without labels."""
    parts = (calibration.get(name) for name in ("verdicts", "nuggets"))
    return next((part["kappa"] for part in parts if isinstance(part, Mapping) and part.get("kappa")), None)
