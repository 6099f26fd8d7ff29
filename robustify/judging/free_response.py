"""Graded free responses of models, read from a run: accuracy, bounds, and coverage on a part of the items. A response
without a score is not counted as wrong, but widens the bounds."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.errors import DataError
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.stats.intervals import rate
from robustify.judging.summary.model_parts import FreeFacts
from robustify.judging.summary.quantity import Score

LEAST_COVERAGE = 0.8
"""Minimum share of scored responses for an accuracy. Below it, only the bounds are given."""
LOW = "coverage below 80 %"


class _Judge(BaseModel, strict=True):
    model: str


class FreeRow(BaseModel, strict=True, frozen=True):
    """Grade of one free response. `score` is None if it is undecided, and `judged_by` is None if rules decided it."""

    item_id: str
    model: str
    kind: str
    status: str
    score: Annotated[float, Field(ge=0, le=1)] | None
    method: str
    judge: _Judge | None
    flags: Sequence[str]

    @property
    def judged_by(self) -> str | None:
        """Model that judged the response, or None if rules decided it."""
        return None if self.judge is None or self.method == "deterministic" else self.judge.model


@dataclass(frozen=True, repr=False)
class FreeGrades:
    """Grades of the free responses of a run, at most one per model and item. `lines` are those of free.jsonl,
    and the rest is `free` of run.json. `calibration` describes the judge's agreement with people (`{"status":
    "uncalibrated"}`), and `left_out` counts the items that were not asked by reason."""

    lines: tuple[Mapping[str, Any], ...]
    calibration: Mapping[str, Any]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[FreeRow]:
        """Grades parsed into `FreeRow` objects. Raise `DataError` if some lines are not grades."""
        try:
            return [FreeRow.model_validate(line) for line in self.lines]
        except ValidationError:
            raise DataError(
                "free.jsonl: some lines are not valid grades. Restore the file from a copy, or grade the answers again.",
                code="invalid-grades",
            ) from None

    @property
    def sha256(self) -> str:
        """SHA-256 digest of the grades."""
        lines = sorted(json.dumps(line, sort_keys=True) for line in self.lines)
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()

    def about(self) -> dict[str, Any]:
        """Return the `free` entry of run.json."""
        return {"calibration": dict(self.calibration), "left_out": dict(self.left_out)}


@dataclass(frozen=True, eq=False)
class FreeGraded:
    """Free responses of one model: the score of each item (NaN if missing), and whether each item was asked and
    judged (n,). Items of a group (n,) depend on each other."""

    score: Floats
    was_asked: Bools
    judged: Bools
    facts: FreeFacts

    def rate(self, mask: Bools, groups: Ints | None = None) -> Score:
        """Return the accuracy over the scored responses. It is withheld if fewer than 80 % have a score."""
        mask = self.was_asked & mask
        scores = self.score[mask]
        n = int(np.count_nonzero(~np.isnan(scores)))
        if n < LEAST_COVERAGE * len(scores):
            return Score(n=n, withheld=LOW)
        return _score(self.score, mask, groups)

    def bound(self, mask: Bools, groups: Ints | None = None, *, unscored: float) -> Score:
        """Return the accuracy over all responses if every response without a score got the score `unscored`."""
        scores = self.score[self.was_asked & mask]
        return Score(value=float(np.nan_to_num(scores, nan=unscored).mean()) if len(scores) else None)

    def coverage(self, mask: Bools, groups: Ints | None = None) -> Score:
        """Return the share of responses with a score."""
        return _score((~np.isnan(self.score)).astype(np.float64), self.was_asked & mask, groups)

    def by_judge(self, mask: Bools, groups: Ints | None = None) -> Score:
        """Return the share of the scored responses that a judge graded."""
        scored = self.was_asked & mask & ~np.isnan(self.score)
        return _score(self.judged.astype(np.float64), scored, groups)


def _score(values: Floats, mask: Bools, groups: Ints | None) -> Score:
    return Score.from_rate(rate(values[mask], None if groups is None else groups[mask]))


def free_responses(grades: FreeGrades | None, index: ItemIndex) -> dict[str, FreeGraded]:
    """Return the free responses of each model that gave any, in order of first appearance."""
    by_model: dict[str, list[FreeRow]] = {}
    for row in () if grades is None else grades.rows:
        by_model.setdefault(row.model, []).append(row)
    return {} if grades is None else {m: _graded(grades, rows, index) for m, rows in by_model.items()}


def _graded(grades: FreeGrades, rows: Sequence[FreeRow], index: ItemIndex) -> FreeGraded:
    judges = sorted({row.judged_by for row in rows if row.judged_by is not None})
    # The judge's agreement with people is on verdicts, or on nuggets as a fallback.
    parts = (grades.calibration.get(name) for name in ("verdicts", "nuggets"))
    kappa = next((p["kappa"] for p in parts if isinstance(p, Mapping) and p.get("kappa")), None)
    try:
        facts = FreeFacts(
            statuses=dict(sorted(Counter(row.status for row in rows).items())),
            kinds=dict(sorted(Counter(row.kind for row in rows).items())),
            left_out=dict(grades.left_out),
            judges=tuple(judges),
            judge_status=str(grades.calibration.get("status")) if judges else None,
            judge_kappa=kappa if judges else None,
            self_judging=sum("self_judging" in row.flags for row in rows),
        )
    except ValidationError:
        raise DataError(
            "run.json: the record of the judge is damaged. Run the audit again.", code="damaged-judge-record"
        ) from None
    index_of = {name: i for i, name in enumerate(index.items)}
    if any(row.item_id not in index_of for row in rows):
        raise DataError(
            "free.jsonl: a grade belongs to an unknown item. Restore the file.", code="grade-of-unknown-item"
        )
    places = [index_of[row.item_id] for row in rows]
    score = np.full(len(index), np.nan)
    was_asked, judged = np.zeros(len(index), dtype=bool), np.zeros(len(index), dtype=bool)
    was_asked[places] = True
    score[places] = [np.nan if row.score is None else row.score for row in rows]
    judged[places] = [row.score is not None and row.judged_by is not None for row in rows]
    return FreeGraded(score, was_asked, judged, facts)
