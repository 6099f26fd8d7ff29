"""What grades add up to. Every rate is over what was submitted, and what could not be scored is told beside it.

An accuracy comes with its coverage and with the bounds it would have if every unscored answer were wrong or right.
Grades of different kinds are never averaged together. For a restricted set counts and rounded rates may be printed.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustify.arrays import Floats, Ints
from robustify.errors import UsageError
from robustify.freeform.judge.label_sets import SUPPORT3
from robustify.freeform.schema import GradeResult, NuggetGrade
from robustify.stats.differences import paired_difference, sign_flip
from robustify.stats.intervals import FEWEST_CLUSTERS, Interval, Rate, bootstrap, interval, rate
from robustify.stats.tests import holm

NUGGET_SCORES = ("strict_vital", "vital", "strict_all", "all", "weighted")
OKAY_WEIGHT = 0.5
"""What an okay nugget counts in `weighted`, where a vital one counts 1 (ours, not TREC's code)."""
_DRAWS = 2000
_LUCKY = 0.025
"""The share of draws of a judge no better than luck from which on its corrected rate has no interval."""


@dataclass(frozen=True, slots=True)
class NuggetScore:
    """A score over `n` nuggets; None with bounds where one has no label, None without where there is no nugget."""

    value: float | None
    lower: float | None
    upper: float | None
    n: int

    def json(self) -> dict[str, float | int | None]:
        """As it stands in a grade."""
        return {"value": self.value, "lower": self.lower, "upper": self.upper, "n": self.n}


def score_nuggets(nuggets: Sequence[NuggetGrade]) -> dict[str, NuggetScore]:
    """The five nugget scores of one answer.

    `strict_*` counts full support alone, the others count partial support as a half; `vital` and `all` say over
    which nuggets (Pradeep et al. 2024, AutoNuggetizer); `weighted` is ours.
    """
    vital = [(n.label, 1.0) for n in nuggets if n.importance == "vital"]
    every = [(n.label, 1.0) for n in nuggets]
    weighted = [(n.label, 1.0 if n.importance == "vital" else OKAY_WEIGHT) for n in nuggets]
    return {
        "strict_vital": _mean(vital, strict=True),
        "vital": _mean(vital, strict=False),
        "strict_all": _mean(every, strict=True),
        "all": _mean(every, strict=False),
        "weighted": _mean(weighted, strict=False),
    }


def _mean(labels: Sequence[tuple[str | None, float]], *, strict: bool) -> NuggetScore:
    whole = sum(weight for _, weight in labels)
    if not whole:
        return NuggetScore(None, None, None, 0)
    known = sum(_credit(label, strict) * weight for label, weight in labels if label is not None)
    missing = sum(weight for label, weight in labels if label is None)
    lower, upper = known / whole, (known + missing) / whole
    return NuggetScore(lower if not missing else None, lower, upper, len(labels))


def _credit(label: str, strict: bool) -> float:
    score = SUPPORT3.scores.get(label, 0.0)
    return float(score == 1.0) if strict else score


@dataclass(frozen=True, slots=True)
class Summary:
    """The grades of one kind and one model. `lower` and `upper` bound the accuracy over all `n` answers."""

    kind: str
    n: int
    accuracy: Rate
    lower: float | None
    upper: float | None
    coverage: Rate
    by_judge: Rate
    statuses: Mapping[str, int]
    reasons: Mapping[str, int]
    errors: Mapping[str, int]
    flags: Mapping[str, int]
    nuggets_unreviewed: int

    def json(self) -> dict[str, Any]:
        """As it stands in a summary: every rate as `{"value", "n", "ci"}`."""
        return {
            "kind": self.kind,
            "n": self.n,
            "accuracy": self.accuracy.json(),
            "lower": self.lower,
            "upper": self.upper,
            "coverage": self.coverage.json(),
            "by_judge": self.by_judge.json(),
            "statuses": dict(self.statuses),
            "reasons": dict(self.reasons),
            "errors": dict(self.errors),
            "flags": dict(self.flags),
            "nuggets_unreviewed": self.nuggets_unreviewed,
        }


def aggregate(results: Sequence[GradeResult], *, seed: int = 0, truncated_as_wrong: bool = False) -> Summary:
    """Count grades of one kind; the interval is clustered by item where an item was answered more than once.

    `truncated_as_wrong` counts an answer that was cut off as 0; without it, it is unscored.

    Raises:
        UsageError: grades of several kinds: their scores mean different things.
    """
    kinds = sorted({str(r.kind) for r in results})
    if len(kinds) > 1:
        raise UsageError(f"grades of {len(kinds)} kinds ({', '.join(kinds)}); expected one kind at a time")
    scores = np.array([_score(r, truncated_as_wrong) for r in results], dtype=np.float64)
    n, held = len(results), scores[~np.isnan(scores)]
    decided = [r for r, score in zip(results, scores, strict=True) if not np.isnan(score)]
    judged = np.array([float(r.method != "deterministic") for r in decided], dtype=np.float64)
    return Summary(
        kind=kinds[0] if kinds else "",
        n=n,
        accuracy=clustered_rate(scores, groups_of(results), seed),
        lower=float(held.sum() / n) if n else None,
        upper=float((held.sum() + n - len(held)) / n) if n else None,
        coverage=rate((~np.isnan(scores)).astype(np.float64)),
        by_judge=rate(judged),
        statuses=_counts(r.status for r in results),
        reasons=_counts(r.reason for r in results),
        errors=_counts(r.error_type for r in results if r.error_type),
        flags=_counts(flag for r in results for flag in r.flags),
        nuggets_unreviewed=sum(not nugget.reviewed for r in results for nugget in r.nuggets),
    )


def _score(result: GradeResult, truncated_as_wrong: bool) -> float:
    if result.status == "truncated" and truncated_as_wrong:
        return 0.0
    return math.nan if result.score is None else result.score


def _counts(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(str(name) for name in names).items()))


def groups_of(results: Sequence[GradeResult]) -> Ints:
    """A number for each grade, the same for grades of one item, or of items that share a passage (n,)."""
    names = [result.group or result.item_id for result in results]
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.int64)


def clustered_rate(scores: Floats, groups: Ints, seed: int = 0) -> Rate:
    """The mean of scores (n,) with NaN left out: Wilson's interval, or a bootstrap over groups (n,) that repeat."""
    there = ~np.isnan(scores)
    plain = rate(scores)
    if len(np.unique(groups[there])) == int(there.sum()) or plain.value is None:
        return plain
    units = len(np.unique(groups[there]))
    ci: Interval | None = None
    if units >= FEWEST_CLUSTERS:
        ci = bootstrap(scores[there], groups=groups[there], seed=seed)
        if ci[0] == ci[1]:
            # Where all groups say the same, a bootstrap has nothing to vary: each group is one trial.
            ci = rate(np.full(units, plain.value)).ci
    return Rate(plain.value, plain.n, ci)


def corrected_rate(observed: float, sensitivity: float, specificity: float) -> float | None:
    """The true rate behind a judge's (Rogan and Gladen 1978), clipped to [0, 1]; None for a judge no better than luck."""
    gain = sensitivity + specificity - 1
    return None if gain <= 0 else min(1.0, max(0.0, (observed + specificity - 1) / gain))


def corrected(
    observed: Sequence[float], confusion: Sequence[Sequence[int]], seed: int = 0
) -> dict[str, Any] | None:
    """The corrected rate with a bootstrap interval over the judged answers and over the human labels.

    `observed` are the judge's 0s and 1s on all answers (n,); `confusion` its word against the human's on the
    labelled ones, `[[human 0, judge 0], [human 0, judge 1]], [[human 1 ...` as (2, 2) counts. Sensitivity and
    specificity are drawn with Jeffreys' prior, so that a few labels without an error are not taken for no error;
    `n_labels` counts them. No interval where so many draws are of a judge no better than luck that it says nothing.
    """
    (tn, fp), (fn, tp) = confusion
    n = len(observed)
    if not n or tn + fp == 0 or fn + tp == 0:
        return None
    value = corrected_rate(sum(observed) / n, tp / (fn + tp), tn / (tn + fp))
    if value is None:
        return None
    rng = np.random.default_rng(seed)
    spec = rng.beta(tn + 0.5, fp + 0.5, size=_DRAWS)
    sens = rng.beta(tp + 0.5, fn + 0.5, size=_DRAWS)
    share = rng.binomial(n, sum(observed) / n, size=_DRAWS) / n
    better = sens + spec > 1
    draws = (share[better] + spec[better] - 1) / (sens[better] + spec[better] - 1)
    told = better.mean() > 1 - _LUCKY
    low, high = interval(np.clip(draws, 0.0, 1.0)) if told else (math.nan, math.nan)
    labels = {"wrong": tn + fp, "right": fn + tp}
    return {"value": value, "n": n, "ci": [low, high] if told else None, "n_labels": labels}


QUARTERS = 4
"""Scores stand on quarters: right, wrong, and the five-point scale. Others have no exact test."""


def against_base(grades: Sequence[GradeResult], base: str) -> dict[str, Any]:
    """Every other model against `base`: `{"base", "models": {MODEL: {...}}}`.

    Each: `n_both` items that both answered, `unscored` of these {base, model, both}, `difference` (model less base,
    paired on items that both have a score for: `{value, n, ci, mde}`), `lower` and `upper` of the difference over all
    `n_both`, `gained` and `lost` (items that score higher, and lower, than before), `p` (exact, two-sided; None where
    scores are no quarters) and `p_holm` over the models.

    Raises:
        UsageError: no grades of the base, none of another model, or two answers of a model to an item.
    """
    by_model: dict[str, dict[str, GradeResult]] = {}
    for grade in grades:
        held = by_model.setdefault(grade.model, {})
        if grade.item_id in held:
            raise UsageError(
                f"{grade.item_id}: two grades of {grade.model}; expected one answer a model and item"
            )
        held[grade.item_id] = grade
    if base not in by_model or len(by_model) < 2:
        known = ", ".join(sorted(by_model)) or "none"
        raise UsageError(f"--base {base}: expected one of two or more graded models (found {known})")
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
