"""What grades add up to: accuracy with bounds, a judge's corrected rate, models against a base model.

Every rate is over what was submitted, and what has no score is counted beside it: an accuracy comes with its coverage
and with the bounds that it would have if every unscored answer were wrong or right.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustify.arrays import Floats, Ints
from robustify.errors import UsageError
from robustify.freeform.grade.nuggets import NUGGET_SCORES
from robustify.freeform.schema import DECIDED, GradeResult
from robustify.judge.free_response import LEAST_COVERAGE, LOW
from robustify.stats.intervals import interval, rate
from robustify.stats.tests import holm, paired_difference, sign_flip

QUARTERS = 4
"""Scores are multiples of a quarter: wrong, right, and the five-point scale. Others have no exact test."""
_DRAWS = 2000
_MOST_USELESS = 0.025
"""The share of draws in which the judge is no better than chance from which on its corrected rate has no interval."""


def aggregate(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> dict[str, Any]:
    """The numbers of these grades; every rate is `{"value", "n", "ci"}`, clustered by item or passage.

    `lower` and `upper` are over all `n`: every unscored answer wrong, or right. `accuracy` is over the answers that have
    a score; it is withheld where they are fewer than 80 %, and so are all three where `grades` are of several kinds,
    whose scores mean different things. `by_judge` is the share of the decided that a judge decided.
    `truncated_as_wrong` counts an answer that was cut off as 0. Of nuggets also `nugget_scores` and `labels`.
    """
    scores, groups = credit_of(grades, truncated_as_wrong=truncated_as_wrong), groups_of(grades)
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
    """How often each label was given, and each nugget score as a mean over answers, with its bounds."""
    return {
        "labels": _counts(nugget.label or "unread" for grade in grades for nugget in grade.nuggets),
        "nugget_scores": {
            name: _nugget_score([_of(grade, name) for grade in grades]) for name in NUGGET_SCORES
        },
    }


def _of(grade: GradeResult, name: str) -> Mapping[str, Any]:
    """One nugget score of an answer; an answer that says nothing states no nugget."""
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


def credit_of(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> Floats:
    """The scores of grades in their order (n,), NaN where an answer is unscored."""
    wrong = ("truncated",) if truncated_as_wrong else ()
    scores = [0.0 if grade.status in wrong else grade.score for grade in grades]
    return np.array([math.nan if score is None else score for score in scores], dtype=np.float64)


def groups_of(grades: Sequence[GradeResult]) -> Ints:
    """A number for each grade, the same for grades of one item, or of items that share a passage (n,)."""
    return numbers_of([grade.group or grade.item_id for grade in grades])


def numbers_of(names: Sequence[str]) -> Ints:
    """A number for each name, equal for equal names, in the order in which they appear first (n,)."""
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.int64)


def corrected_rate(observed: Floats, sensitivity: Floats, specificity: Floats) -> Floats:
    """The true rates behind a judge's (Rogan and Gladen 1978), clipped to [0, 1]; NaN where it is no better than chance.

    All of one shape.
    """
    gain = sensitivity + specificity - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gain > 0, np.clip((observed + specificity - 1) / gain, 0.0, 1.0), np.nan)


def corrected(
    observed: Sequence[float], confusion: Sequence[Sequence[int]], seed: int = 0
) -> dict[str, Any] | None:
    """The corrected rate with a bootstrap interval over the judged answers and over the human labels.

    `observed` are the judge's 0s and 1s on all answers (n,); `confusion` its word against the human's on the
    labelled ones, `[[human 0, judge 0], [human 0, judge 1]], [[human 1 ...` as (2, 2) counts. Sensitivity and
    specificity are drawn with Jeffreys' prior, so that a few labels without an error are not taken for no error;
    `n_labels` counts them. No interval where too many draws are of a judge no better than chance.
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


def against_base(
    grades: Sequence[GradeResult], base: str, topics: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Every other model against `base`, paired by item: `{"base", "models": {MODEL: {"kinds", "topics"}}}`.

    `kinds` {KIND: pair} and `topics` {TOPIC: {KIND: pair}}, where items have topics {item: topic}: kinds are never
    averaged. A pair: `n_both` items that both answered, `unscored` of these {base, model, both}, `difference` (model
    less base over the n pairs that are decided: `{value, n, ci, mde}`), `lower` and `upper` of the difference over all
    `n_both`, `gained` and `lost` (items that score higher, and lower, than before), `p` (exact, two-sided; None where
    scores are no quarters) and `p_holm` over models and kinds; topics are not tested.

    Raises:
        UsageError: no grades of the base, none of another model, or two answers of a model to an item.
    """
    topics, by_model = topics or {}, dict[str, dict[str, GradeResult]]()
    for grade in grades:
        of_model = by_model.setdefault(grade.model, {})
        if grade.item_id in of_model:
            raise UsageError(f"{grade.item_id}: two grades of {grade.model}; expected one")
        of_model[grade.item_id] = grade
    if base not in by_model or len(by_model) < 2:
        known = ", ".join(sorted(by_model)) or "none"
        raise UsageError(f"--base {base}: expected one of two or more graded models (found {known})")

    def compared(some: Mapping[str, GradeResult]) -> dict[str, dict[str, Any]]:
        return {
            kind: _against(by_model[base], {item: g for item, g in some.items() if str(g.kind) == kind})
            for kind in dict.fromkeys(str(grade.kind) for grade in some.values())
        }

    models: dict[str, Any] = {}
    for name, graded in by_model.items():
        if name != base:
            by_topic = {
                topic: compared({item: g for item, g in graded.items() if topics.get(item) == topic})
                for topic in sorted({topics[item] for item in graded if topics.get(item)})
            }
            untested = {
                topic: {kind: pair | {"p": None} for kind, pair in kinds.items()}
                for topic, kinds in by_topic.items()
            }
            models[name] = {"kinds": compared(graded), "topics": untested}
    tested = [pair for entry in models.values() for pair in entry["kinds"].values() if pair["p"] is not None]
    for pair, p in zip(tested, holm([pair["p"] for pair in tested]), strict=True):
        pair["p_holm"] = p
    return {"base": base, "models": models}


def _against(base: Mapping[str, GradeResult], other: Mapping[str, GradeResult]) -> dict[str, Any]:
    both = [name for name in base if name in other]
    before, after = (credit_of([grades[name] for name in both]) for grades in (base, other))
    groups = groups_of([base[name] for name in both])
    change = after - before
    scored = ~np.isnan(change)
    shared = len(np.unique(groups)) < len(both)
    unscored = {"base": np.isnan(before), "model": np.isnan(after)}
    unscored["both"] = unscored["base"] & unscored["model"]
    # The least and the greatest mean difference that any scores of the unscored answers would give.
    least = np.nan_to_num(after, nan=0.0) - np.nan_to_num(before, nan=1.0)
    most = np.nan_to_num(after, nan=1.0) - np.nan_to_num(before, nan=0.0)
    return {
        "n_both": len(both),
        "unscored": {name: int(where.sum()) for name, where in unscored.items()},
        "difference": paired_difference(after, before, groups if shared else None).json(),
        "lower": float(least.mean()) if both else None, "upper": float(most.mean()) if both else None,
        "gained": int((change[scored] > 0).sum()), "lost": int((change[scored] < 0).sum()),
        "p": _p(change[scored], groups[scored]), "p_holm": None,
    }  # fmt: skip


def _p(change: Floats, groups: Ints) -> float | None:
    quarters = change * QUARTERS
    if not len(change) or not np.array_equal(quarters, np.round(quarters)):
        return None
    sums = np.round(np.bincount(groups, weights=quarters)).astype(np.int64)
    # Right and wrong alone are whole steps: that is McNemar's test.
    step = int(np.gcd.reduce(np.abs(sums)))
    return float(sign_flip(sums // step)) if step else 1.0
