"""What grades add up to: accuracy with bounds and a judge's corrected rate.

Every rate is over what was submitted, and what has no score is counted beside it: an accuracy comes with its coverage
and with the bounds that it would have if every unscored answer were wrong or right.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustify.arrays import Floats, Ints
from robustify.freeform.schema import DECIDED, NUGGET_SCORES, GradeResult
from robustify.judging.free_response import LEAST_COVERAGE, LOW
from robustify.stats.intervals import interval, rate

_DRAWS = 2000
_MOST_USELESS = 0.025
"""The share of draws in which the judge is no better than chance from which on its corrected rate has no interval."""


def aggregate(grades: Sequence[GradeResult]) -> dict[str, Any]:
    """Return the numbers of these grades; every rate is `{"value", "n", "ci"}`, clustered by item or passage.

    `lower` and `upper` are over all `n`: every unscored answer wrong, or right. `accuracy` is over the answers that have
    a score. It is withheld if they are fewer than 80 %, and so are all three if `grades` are of several kinds, whose
    scores mean different things. `by_judge` is the share of the decided that a judge decided. Nuggets also have
    `nugget_scores` and `labels`.
    """
    scores, groups = credit_of(grades), groups_of(grades)
    scored, n = ~np.isnan(scores), len(scores)
    known, missing = float(scores[scored].sum()), int((~scored).sum())
    decided = [grade for grade in grades if grade.status in DECIDED]
    by_judge = np.array([float(grade.method != "deterministic") for grade in decided], dtype=np.float64)
    kinds = {grade.kind for grade in grades}
    why = "several kinds" if len(kinds) > 1 else LOW if n and n - missing < LEAST_COVERAGE * n else ""
    one = n > 0 and len(kinds) == 1
    return {
        "n": n, "accuracy": rate(scores, groups).json() if not why else _withheld(n - missing, why),
        "lower": known / n if one else None, "upper": (known + missing) / n if one else None,
        "coverage": rate(scored.astype(np.float64), groups).json(),
        "by_judge": rate(by_judge, groups_of(decided)).json(),
        "statuses": _counts(grade.status for grade in grades), "reasons": _counts(grade.reason for grade in grades),
        "errors": _counts(grade.error_type for grade in grades if grade.error_type),
        "flags": _counts(flag for grade in grades for flag in grade.flags),
        "nuggets_unreviewed": sum(not nugget.reviewed for grade in grades for nugget in grade.nuggets),
        **(_nuggets(grades) if kinds == {"nuggets"} else {}),
    }  # fmt: skip


def _withheld(n: int, why: str) -> dict[str, Any]:
    return {"value": None, "n": n, "ci": None, "withheld": why}


def _nuggets(grades: Sequence[GradeResult]) -> dict[str, Any]:
    """Return how often each label was given, and each nugget score as a mean over answers, with its bounds."""
    return {
        "labels": _counts(nugget.label or "unread" for grade in grades for nugget in grade.nuggets),
        "nugget_scores": {
            name: _nugget_score([_of(grade, name) for grade in grades]) for name in NUGGET_SCORES
        },
    }


def _of(grade: GradeResult, name: str) -> Mapping[str, Any]:
    """Return one nugget score of an answer; an answer that says nothing states no nugget."""
    if grade.nugget_scores is not None:
        score: Mapping[str, Any] = grade.nugget_scores[name]
        return score
    return {"value": grade.score, "lower": 0.0, "upper": 1.0 if grade.score is None else grade.score, "n": 1}


def _nugget_score(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    asked = [score for score in scores if score["n"]]
    read = np.array([score["value"] for score in asked if score["value"] is not None], dtype=np.float64)
    mean = rate(read).json() if len(read) >= LEAST_COVERAGE * len(asked) else _withheld(len(read), LOW)
    ends = {end: float(np.mean([s[end] for s in asked])) if asked else None for end in ("lower", "upper")}
    return {**mean, "asked": len(asked), **ends}


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def credit_of(grades: Sequence[GradeResult]) -> Floats:
    """Return the scores of grades in their order (n,), NaN if an answer is unscored."""
    return np.array([math.nan if g.score is None else g.score for g in grades], dtype=np.float64)


def groups_of(grades: Sequence[GradeResult]) -> Ints:
    """Return a number for each grade, the same for grades of one item, or of items that share a passage (n,)."""
    return numbers_of([grade.group or grade.item_id for grade in grades])


def numbers_of(names: Sequence[str]) -> Ints:
    """Return a number for each name, equal for equal names, in the order in which they appear first (n,)."""
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.int64)


def corrected_rate(observed: Floats, sensitivity: Floats, specificity: Floats) -> Floats:
    """Return the true rates behind a judge's (Rogan and Gladen 1978); NaN if it is no better than chance."""
    gain = sensitivity + specificity - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain > 0, np.clip((observed + specificity - 1) / gain, 0.0, 1.0), np.nan)


def corrected(
    observed: Sequence[float], confusion: Sequence[Sequence[int]], seed: int = 0
) -> dict[str, Any] | None:
    """Return the corrected rate with a bootstrap interval over the judged answers and over the labels of people.

    `observed` are the judge's 0s and 1s on all answers (n,); `confusion` counts its word against people's on the labelled
    ones, `[[people 0, judge 0], [people 0, judge 1]], [[people 1 ...` as (2, 2). Sensitivity and specificity are drawn with
    Jeffreys' prior, so that a few labels without an error are not taken for no error. There is no interval if too many
    draws are of a judge that is no better than chance.
    """
    (tn, fp), (fn, tp) = confusion
    n = len(observed)
    if not n or tn + fp == 0 or fn + tp == 0:
        return None
    share = np.array(sum(observed) / n)
    value = float(corrected_rate(share, np.array(tp / (fn + tp)), np.array(tn / (tn + fp))))
    if math.isnan(value):
        return None
    rng = np.random.default_rng(seed)
    spec = rng.beta(tn + 0.5, fp + 0.5, size=_DRAWS)
    sens = rng.beta(tp + 0.5, fn + 0.5, size=_DRAWS)
    draws = corrected_rate(rng.binomial(n, float(share), size=_DRAWS) / n, sens, spec)
    ci = list(interval(draws)) if np.isnan(draws).mean() < _MOST_USELESS else None
    return {"value": value, "n": n, "ci": ci, "n_labels": {"wrong": tn + fp, "right": fn + tp}}
