"""Free-response scores on All, Shortcut and Robust, with their bounds and coverage.

A response without a score is not counted as wrong, but it widens the bounds. Nothing is asked or graded here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustify.arrays import Bools, Floats
from robustify.judging.accuracy import Credits, heuristic_gap
from robustify.judging.context import Context, Parts
from robustify.judging.free_grades import FreeGrades, FreeRow
from robustify.screen.item_index import ItemIndex
from robustify.stats.intervals import Rate, rate
from robustify.stats.tests import paired_difference
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import FreeRate, FreeScores

LEAST_COVERAGE = 0.8
"""Minimum share of scored responses for an accuracy. Below it, only the bounds are given."""
LOW = "coverage below 80 %"


def free_responses(ctx: Context, credits: Mapping[str, Credits]) -> dict[str, FreeScores]:
    """Return the free-response scores of every model that has any."""
    free = ctx.facts.free
    if free is None:
        return {}
    found = {
        name: free_scores(free, name, ctx.index, ctx.parts, credits[name]["full"]) for name in free.models
    }
    return {name: scores for name, scores in found.items() if scores is not None}


def free_scores(
    grades: FreeGrades, model: str, index: ItemIndex, parts: Parts, full: Floats | None
) -> FreeScores | None:
    """Return one model's `free` entry of summary.json, or None if it gave no free responses.

    `lower` and `upper` count every unscored response as wrong or as right. Below 80 % coverage, the accuracy is withheld.
    `full_gap` is the paired difference between the full question and free response, on items with both. Credits are (n,).
    """
    rows = [row for row in grades.rows if row.model == model]
    if not rows:
        return None
    score, asked, judged = _by_item(rows, index)
    everywhere = np.ones(len(index), dtype=bool)
    masks = {"all": everywhere, "shortcut": parts.shortcut, "robust": parts.robust}
    judges = sorted({row.judge for row in rows if row.judge is not None})
    gap = None if full is None else paired_difference(full, score, parts.groups)
    return FreeScores(
        **{name: _rates(score, asked & mask, judged) for name, mask in masks.items()},
        heuristic_gap=heuristic_gap(score, parts.longest, parts.groups),
        full_gap=None if gap is None else DifferenceQuantity.from_stats(gap),
        statuses=dict(sorted(Counter(row.status for row in rows).items())),
        kinds=dict(sorted(Counter(row.kind for row in rows).items())),
        left_out=dict(grades.left_out),
        judges=tuple(judges),
        judge_status=str(grades.calibration.get("status")) if judges else None,
        judge_kappa=_kappa(grades.calibration) if judges else None,
        self_judging=sum(row.self_judging for row in rows),
    )


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


def _rates(score: Floats, inside: Bools, judged: Bools) -> FreeRate:
    here = score[inside]
    scored = ~np.isnan(here)
    n, won = len(here), float(here[scored].sum())
    low = scored.sum() < LEAST_COVERAGE * n
    return FreeRate.of(
        Rate(None, int(scored.sum()), None) if low else rate(here),
        withheld=LOW if low else None,
        asked=n,
        lower=won / n if n else None,
        upper=(won + int((~scored).sum())) / n if n else None,
        coverage=Quantity.of(rate(scored.astype(np.float64))),
        by_judge=Quantity.of(rate(judged[inside][scored].astype(np.float64))),
    )


def _kappa(calibration: Mapping[str, Any]) -> Any:
    """Return the judge's agreement with people on verdicts, or on nuggets as a fallback. None without labels."""
    parts = (calibration.get(name) for name in ("verdicts", "nuggets"))
    return next((part["kappa"] for part in parts if isinstance(part, Mapping) and part.get("kappa")), None)
