"""Free response beside the other scores of a run: what grades say on All, Shortcut and Robust, and with what right.

An answer without a score is never a wrong one: it opens the bounds. Grades come in as rows without text, from
`robustify free attach`; nothing is asked or graded here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from robustify.arrays import Bools, Floats
from robustify.errors import DataError
from robustify.judge.accuracy import Parts, heuristic_gap
from robustify.screen.item_index import ItemIndex
from robustify.stats.intervals import Rate, rate
from robustify.stats.tests import paired_difference
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import FreeRate, FreeScores

FORMAT = 1
LEAST_COVERAGE = 0.8
"""The share of answers with a score below which no accuracy is given: the bounds alone say what is known."""
LOW = "coverage below 80 %"


@dataclass(frozen=True, slots=True)
class FreeRow:
    """One graded answer. `score` is None where nobody could decide; `judge` names who did, None where rules did."""

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


@dataclass(frozen=True, slots=True)
class FreeGrades:
    """All grades that stand beside a run, each model at most once an item.

    `calibration` is how far the judges agree with people (`{"status": "uncalibrated"}`), `left_out` why items
    of the run were not asked {reason: n}, `sha256` that of the grades as they were given.
    """

    rows: tuple[FreeRow, ...]
    calibration: Mapping[str, Any]
    left_out: Mapping[str, int] = field(default_factory=dict)
    sha256: str = ""

    @property
    def models(self) -> tuple[str, ...]:
        """Who answered, in the order of the rows."""
        return tuple(dict.fromkeys(row.model for row in self.rows))

    def json(self) -> dict[str, Any]:
        """`free.json` of a run."""
        return {
            "format": FORMAT,
            "sha256": self.sha256,
            "calibration": dict(self.calibration),
            "left_out": dict(self.left_out),
            "rows": [asdict(row) for row in self.rows],
        }

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> "FreeGrades":
        """Grades from `free.json`.

        Raises:
            DataError: another format, or rows that are no grades.
        """
        try:
            if tree["format"] != FORMAT:
                raise DataError(f"free.json: format {tree['format']!r}; expected {FORMAT}")
            rows = tuple(FreeRow(**row) for row in tree["rows"])
            return cls(rows, dict(tree["calibration"]), dict(tree["left_out"]), str(tree["sha256"]))
        except (KeyError, TypeError, ValueError):
            raise DataError(
                "free.json: no grades of a run; expected the file as robustify wrote it"
            ) from None


def free_scores(
    grades: FreeGrades, model: str, index: ItemIndex, parts: Parts, full: Floats | None
) -> FreeScores | None:
    """One model's `free` entry in summary.json; None where it answered nothing in words.

    `all`, `shortcut` and `robust` are accuracies over answers with a score, each with `asked` (answers, scored or
    not), `lower` and `upper` (every unscored answer wrong, or right), `coverage` (scored of asked; below 80 % the
    accuracy is withheld) and `by_judge` (of the scored, those that a judge decided). `heuristic_gap` is that of every
    other view; `full_gap` the full question by letter less free response, paired on the items that have both
    (`{value, n, ci, mde}`). Credits are (n,).
    """
    rows = [row for row in grades.rows if row.model == model]
    if not rows:
        return None
    score, asked, judged = _spread(rows, index)
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


def _spread(rows: Sequence[FreeRow], index: ItemIndex) -> tuple[Floats, Bools, Bools]:
    """By item: the score (NaN where there is none), whether it was asked, whether a judge decided."""
    place = {name: i for i, name in enumerate(index.items)}
    score = np.full(len(index), np.nan)
    asked, judged = np.zeros(len(index), dtype=bool), np.zeros(len(index), dtype=bool)
    for row in rows:
        at = place[row.item]
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
    """Agreement with people on verdicts, else on nuggets; None where nobody labelled any."""
    parts = (calibration.get(name) for name in ("verdicts", "nuggets"))
    return next((part["kappa"] for part in parts if isinstance(part, Mapping) and part.get("kappa")), None)
