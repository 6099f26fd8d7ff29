"""A base model and what was made of it, on the same questions: what was gained, what was lost, and what is open.

Paired by item. An answer without a score is on neither side: it widens the bounds and is counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustify.arrays import Floats, Ints
from robustify.freeform.errors import FreeformError
from robustify.freeform.schema import GradeResult
from robustify.stats.differences import paired_difference, sign_flip
from robustify.stats.tests import holm

QUARTERS = 4
"""Scores stand on quarters: right, wrong, and the five-point scale. Others have no exact test."""


def against_base(grades: Sequence[GradeResult], base: str) -> dict[str, Any]:
    """Every other model against `base`: `{"base", "models": {MODEL: {...}}}`.

    Each: `n_both` items that both answered, `unscored` of these {base, model, both}, `difference` (model less base,
    paired on items that both have a score for: `{value, n, ci, mde}`), `lower` and `upper` of the difference over all
    `n_both`, `gained` and `lost` (items that score higher, and lower, than before), `p` (exact, two-sided; None where
    scores are no quarters) and `p_holm` over the models.

    Raises:
        FreeformError: no grades of the base, none of another model, or two answers of a model to an item.
    """
    by_model: dict[str, dict[str, GradeResult]] = {}
    for grade in grades:
        held = by_model.setdefault(grade.model, {})
        if grade.item_id in held:
            raise FreeformError(
                f"{grade.item_id}: two grades of {grade.model}; expected one answer a model and item"
            )
        held[grade.item_id] = grade
    if base not in by_model or len(by_model) < 2:
        known = ", ".join(sorted(by_model)) or "none"
        raise FreeformError(f"--base {base}: expected one of two or more graded models (found {known})")
    told = {name: _against(by_model[base], held) for name, held in by_model.items() if name != base}
    tested = [name for name in told if told[name]["p"] is not None]
    for name, p in zip(tested, holm([told[name]["p"] for name in tested]), strict=True):
        told[name]["p_holm"] = p
    return {"base": base, "models": told}


def _against(base: Mapping[str, GradeResult], other: Mapping[str, GradeResult]) -> dict[str, Any]:
    both = [name for name in base if name in other]
    before, after = _scores(base, both), _scores(other, both)
    named = [base[name].group or name for name in both]
    groups = np.unique(named, return_inverse=True)[1].astype(np.int64) if both else None
    change = after - before
    held = ~np.isnan(change)
    lower, upper = _bounds(before, after)
    return {
        "n_both": len(both),
        "unscored": {
            "base": int(np.isnan(before).sum()),
            "model": int(np.isnan(after).sum()),
            "both": int((np.isnan(before) & np.isnan(after)).sum()),
        },
        "difference": paired_difference(
            after, before, groups if len(set(named)) < len(named) else None
        ).json(),
        "lower": lower,
        "upper": upper,
        "gained": int((change[held] > 0).sum()),
        "lost": int((change[held] < 0).sum()),
        "p": None if groups is None else _p(change[held], groups[held]),
        "p_holm": None,
    }


def _scores(held: Mapping[str, GradeResult], names: Sequence[str]) -> Floats:
    scores = [held[name].score for name in names]
    return np.array([np.nan if score is None else score for score in scores], dtype=np.float64)


def _bounds(before: Floats, after: Floats) -> tuple[float | None, float | None]:
    """The least and the greatest mean difference that any scores of the unscored answers would give."""
    if not len(before):
        return None, None
    least = np.nan_to_num(after, nan=0.0) - np.nan_to_num(before, nan=1.0)
    most = np.nan_to_num(after, nan=1.0) - np.nan_to_num(before, nan=0.0)
    return float(least.mean()), float(most.mean())


def _p(change: Floats, groups: Ints) -> float | None:
    quarters = change * QUARTERS
    if not len(change) or not np.array_equal(quarters, np.round(quarters)):
        return None
    sums = np.round(np.bincount(groups, weights=quarters)).astype(np.int64)
    # Right and wrong alone are whole steps: that is McNemar's test.
    step = int(np.gcd.reduce(np.abs(sums)))
    return float(sign_flip(sums // step)) if step else 1.0
