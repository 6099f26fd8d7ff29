"""What grades add up to: accuracy with bounds, nugget scores, a judge's corrected rate, models against a base model.

Every rate is over what was submitted, and what has no score is counted beside it: an accuracy comes with its coverage
and with the bounds that it would have if every unscored answer were wrong or right. Kinds are never averaged together.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
QUARTERS = 4
"""Scores are multiples of a quarter: wrong, right, and the five-point scale. Others have no exact test."""
_DRAWS = 2000
_MOST_USELESS = 0.025
"""The share of draws in which the judge is no better than chance from which on its corrected rate has no interval."""


@dataclass(frozen=True, slots=True)
class NuggetScore:
    """A score over `n` nuggets; None with bounds where one has no label, None without where there is no nugget."""

    value: float | None
    lower: float | None
    upper: float | None
    n: int

    def json(self) -> dict[str, float | int | None]:
        """As written in a grade."""
        return asdict(self)


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
    return NuggetScore(None if missing else lower, lower, upper, len(labels))


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
        """As written in a summary: every rate as `{"value", "n", "ci"}`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value.json() if isinstance(value, Rate) else value for name, value in values.items()}


def aggregate(results: Sequence[GradeResult], *, seed: int = 0, truncated_as_wrong: bool = False) -> Summary:
    """Count grades of one kind; the interval is clustered by item where an item was answered more than once.

    `truncated_as_wrong` counts an answer that was cut off as 0; without it, it is unscored.

    Raises:
        UsageError: grades of several kinds: their scores mean different things.
    """
    kinds = sorted({str(r.kind) for r in results})
    if len(kinds) > 1:
        raise UsageError(f"grades of {len(kinds)} kinds ({', '.join(kinds)}); expected one kind at a time")
    scores = credit_of(results, truncated_as_wrong=truncated_as_wrong)
    scored = ~np.isnan(scores)
    judged = np.array([float(r.method != "deterministic") for r in results], dtype=np.float64)
    lower, upper = accuracy_bounds(scores)
    return Summary(
        kind=kinds[0] if kinds else "",
        n=len(results),
        accuracy=clustered_rate(scores, groups_of(results), seed),
        lower=lower,
        upper=upper,
        coverage=rate(scored.astype(np.float64)),
        by_judge=rate(judged[scored]),
        statuses=_counts(r.status for r in results),
        reasons=_counts(r.reason for r in results),
        errors=_counts(r.error_type for r in results if r.error_type),
        flags=_counts(flag for r in results for flag in r.flags),
        nuggets_unreviewed=sum(not nugget.reviewed for r in results for nugget in r.nuggets),
    )


def _counts(names: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(map(str, names)).items()))


def credit_of(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> Floats:
    """The scores of grades in their order (n,), NaN where an answer is unscored."""
    wrong = ("truncated",) if truncated_as_wrong else ()
    scores = [0.0 if g.status in wrong else g.score for g in grades]
    return np.array([math.nan if score is None else score for score in scores], dtype=np.float64)


def accuracy_bounds(scores: Floats) -> tuple[float | None, float | None]:
    """The accuracy over all scores (n,) if every NaN among them were 0, and if it were 1."""
    n, scored = len(scores), scores[~np.isnan(scores)]
    if not n:
        return None, None
    return float(scored.sum() / n), float((scored.sum() + n - len(scored)) / n)


def groups_of(results: Sequence[GradeResult]) -> Ints:
    """A number for each grade, the same for grades of one item, or of items that share a passage (n,)."""
    return numbers_of([result.group or result.item_id for result in results])


def numbers_of(names: Sequence[str]) -> Ints:
    """A number for each name, equal for equal names, in the order in which they appear first (n,)."""
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.int64)


def clustered_rate(scores: Floats, groups: Ints, seed: int = 0) -> Rate:
    """The mean of scores (n,) with NaN left out: Wilson's interval, or a bootstrap over groups (n,) that repeat."""
    there = ~np.isnan(scores)
    plain = rate(scores)
    units = len(np.unique(groups[there]))
    if units == int(there.sum()) or plain.value is None:
        return plain
    ci: Interval | None = None
    if units >= FEWEST_CLUSTERS:
        ci = bootstrap(scores[there], groups=groups[there], seed=seed)
        if ci[0] == ci[1]:
            # Where all groups are equal, a bootstrap has nothing to vary: each group is one trial.
            ci = rate(np.full(units, plain.value)).ci
    return Rate(plain.value, plain.n, ci)


def corrected_rate(observed: float, sensitivity: float, specificity: float) -> float | None:
    """The true rate behind a judge's (Rogan and Gladen 1978), clipped to [0, 1]; None if it is no better than chance."""
    gain = sensitivity + specificity - 1
    return None if gain <= 0 else min(1.0, max(0.0, (observed + specificity - 1) / gain))


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
    value = corrected_rate(sum(observed) / n, tp / (fn + tp), tn / (tn + fp))
    if value is None:
        return None
    rng = np.random.default_rng(seed)
    spec = rng.beta(tn + 0.5, fp + 0.5, size=_DRAWS)
    sens = rng.beta(tp + 0.5, fn + 0.5, size=_DRAWS)
    share = rng.binomial(n, sum(observed) / n, size=_DRAWS) / n
    better = sens + spec > 1
    draws = (share[better] + spec[better] - 1) / (sens[better] + spec[better] - 1)
    useful = better.mean() > 1 - _MOST_USELESS
    ci = list(interval(np.clip(draws, 0.0, 1.0))) if useful else None
    return {"value": value, "n": n, "ci": ci, "n_labels": {"wrong": tn + fp, "right": fn + tp}}


def against_base(grades: Sequence[GradeResult], base: str) -> dict[str, Any]:
    """Every other model against `base`, paired by item: `{"base", "models": {MODEL: {...}}}`.

    Each: `n_both` items that both answered, `unscored` of these {base, model, both}, `difference` (model less base,
    paired on items that both have a score for: `{value, n, ci, mde}`), `lower` and `upper` of the difference over all
    `n_both`, `gained` and `lost` (items that score higher, and lower, than before), `p` (exact, two-sided; None where
    scores are no quarters) and `p_holm` over the models.

    Raises:
        UsageError: no grades of the base, none of another model, or two answers of a model to an item.
    """
    by_model: dict[str, dict[str, GradeResult]] = {}
    for grade in grades:
        of_model = by_model.setdefault(grade.model, {})
        if grade.item_id in of_model:
            raise UsageError(
                f"{grade.item_id}: two grades of {grade.model}; expected one answer a model and item"
            )
        of_model[grade.item_id] = grade
    if base not in by_model or len(by_model) < 2:
        known = ", ".join(sorted(by_model)) or "none"
        raise UsageError(f"--base {base}: expected one of two or more graded models (found {known})")
    models = {name: _against(by_model[base], by_model[name]) for name in by_model if name != base}
    tested = [entry for entry in models.values() if entry["p"] is not None]
    for entry, p in zip(tested, holm([entry["p"] for entry in tested]), strict=True):
        entry["p_holm"] = p
    return {"base": base, "models": models}


def _against(base: Mapping[str, GradeResult], other: Mapping[str, GradeResult]) -> dict[str, Any]:
    both = [name for name in base if name in other]
    before, after = (credit_of([grades[name] for name in both]) for grades in (base, other))
    named = [base[name].group or name for name in both]
    groups = np.unique(named, return_inverse=True)[1].astype(np.int64) if both else None
    change = after - before
    scored = ~np.isnan(change)
    difference = paired_difference(after, before, groups if len(set(named)) < len(named) else None)
    lower, upper = _difference_bounds(before, after)
    return {
        "n_both": len(both),
        "unscored": {
            "base": int(np.isnan(before).sum()),
            "model": int(np.isnan(after).sum()),
            "both": int((np.isnan(before) & np.isnan(after)).sum()),
        },
        "difference": difference.json(),
        "lower": lower,
        "upper": upper,
        "gained": int((change[scored] > 0).sum()),
        "lost": int((change[scored] < 0).sum()),
        "p": None if groups is None else _p(change[scored], groups[scored]),
        "p_holm": None,
    }


def _difference_bounds(before: Floats, after: Floats) -> tuple[float | None, float | None]:
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
