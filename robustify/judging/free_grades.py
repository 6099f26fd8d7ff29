"""Grades of free responses, read from a run."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from robustify.errors import DataError


@dataclass(frozen=True, slots=True)
class FreeRow:
    """Grade of one free response. `score` is None if it is undecided, and `judge` is None if rules decided it."""

    item: str
    model: str
    kind: str
    status: str
    score: float | None
    judge: str | None = None
    self_judging: bool = False

    def __post_init__(self) -> None:
        if self.score is not None and not 0 <= self.score <= 1:
            raise DataError(f"grade of {self.item}: score {self.score} is out of range. Expected 0 to 1.")


@dataclass(frozen=True, repr=False)
class FreeGrades:
    """Grades of the free responses of a run.

    `lines` are the rows of free.jsonl, at most one per model and item. The other fields come from `free` in run.json.
    `calibration` describes the judge's agreement with people (`{"status": "uncalibrated"}`), and `left_out` counts the
    items that were not asked by reason.

    Raises:
        DataError: some lines are not grades.
    """

    lines: tuple[Mapping[str, Any], ...]
    calibration: Mapping[str, Any]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[FreeRow]:
        """Grades as typed rows."""
        try:
            return [_row(line) for line in self.lines]
        except (KeyError, TypeError):
            raise DataError(
                "free.jsonl: some lines are not grades. Restore the file that robustify wrote."
            ) from None

    @property
    def models(self) -> tuple[str, ...]:
        """Models with grades, in order of first appearance."""
        return tuple(dict.fromkeys(row.model for row in self.rows))

    @property
    def sha256(self) -> str:
        """SHA-256 digest of the grades."""
        lines = sorted(json.dumps(line, sort_keys=True) for line in self.lines)
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()

    def about(self) -> dict[str, Any]:
        """Return the `free` entry of run.json."""
        return {"calibration": dict(self.calibration), "left_out": dict(self.left_out)}


def _row(line: Mapping[str, Any]) -> FreeRow:
    judge = line["judge"]["model"] if line["judge"] and line["method"] != "deterministic" else None
    return FreeRow(
        line["item_id"], line["model"], line["kind"], line["status"], line["score"], judge,
        "self_judging" in line["flags"],
    )  # fmt: skip
