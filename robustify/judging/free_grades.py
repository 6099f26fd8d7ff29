"""Graded answers in free words, read from a run: what judging needs of each line."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from robustify.errors import DataError


@dataclass(frozen=True, slots=True)
class FreeRow:
    """One graded answer. `score` is None if nobody could decide; `judge` names the judge, None if rules decided."""

    item: str
    model: str
    kind: str
    status: str
    score: float | None
    judge: str | None = None
    self_judging: bool = False

    def __post_init__(self) -> None:
        if self.score is not None and not 0 <= self.score <= 1:
            raise DataError(f"grade of {self.item}: score {self.score}; expected 0 to 1")


@dataclass(frozen=True, repr=False)
class FreeGrades:
    """The graded answers of a run.

    `lines` are the rows of free.jsonl, each model at most once per item; the rest is `free` of run.json: `calibration`
    says how far the judge agrees with people (`{"status": "uncalibrated"}`), `left_out` why items were not asked.

    Raises:
        DataError: lines that are not grades.
    """

    lines: tuple[Mapping[str, Any], ...]
    calibration: Mapping[str, Any]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[FreeRow]:
        """What judging needs of each line."""
        try:
            return [_row(line) for line in self.lines]
        except (KeyError, TypeError):
            raise DataError(
                "free.jsonl: not grades of a run; expected the file as robustify wrote it"
            ) from None

    @property
    def models(self) -> tuple[str, ...]:
        """The models that answered, in the order of the rows."""
        return tuple(dict.fromkeys(row.model for row in self.rows))

    @property
    def sha256(self) -> str:
        """The digest of the grades."""
        lines = sorted(json.dumps(line, sort_keys=True) for line in self.lines)
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()

    def about(self) -> dict[str, Any]:
        """Return `free` of run.json."""
        return {"calibration": dict(self.calibration), "left_out": dict(self.left_out)}


def _row(line: Mapping[str, Any]) -> FreeRow:
    judge = line["judge"]["model"] if line["judge"] and line["method"] != "deterministic" else None
    return FreeRow(
        line["item_id"], line["model"], line["kind"], line["status"], line["score"], judge,
        "self_judging" in line["flags"],
    )  # fmt: skip
