"""Statistics of graded answers: summary, agreement of the judge with human labels, and comparison of judge templates.

Rates are over all submitted answers, and unscored ones are counted. Nothing contains text of items or answers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ValidationError

from robustify.base.arrays import Ints, group_numbers
from robustify.base.errors import DataError, UsageError
from robustify.freeform.llm_judge.verdicts import SUPPORT
from robustify.freeform.schema import DECIDED, FreeItem, GradeResult
from robustify.judging.free_response import LEAST_COVERAGE, LOW
from robustify.judging.stats.intervals import agreement, majority_vote, rate
from robustify.judging.stats.tests import holm, paired_difference, sign_flip
from robustify.pipeline.free_settings import NUGGET_SCORES

UNCALIBRATED = "uncalibrated"
"""Word that a report prints beside a judge's number if too few people have labeled its answers."""
FEWEST_LABELS, LEAST_KAPPA = 30, 0.6
"""Requirements for a calibrated judge: number of labeled answers, and lower bound of kappa. Agreement up to 0.6 is
moderate at best (Landis and Koch 1977)."""
BINARY = ("incorrect", "correct")
_WORDS = {
    **dict.fromkeys(("correct", "1"), "correct"),
    **dict.fromkeys(("incorrect", "0", "not_attempted"), "incorrect"),
}
Unit = tuple[str, str, str]
"""A labeled unit: item, model and nugget. The nugget is "" for a verdict."""


class HumanLabel(BaseModel, frozen=True):
    """Label that one person gave one answer. `model` may be omitted if only one model answered."""

    item_id: str
    annotator: str
    model: str | None = None
    verdict: Literal["correct", "incorrect", "not_attempted"] | None = None
    score: Literal[0, 1] | None = None
    labels: dict[str, Literal["support", "partial_support", "not_support"]] | None = None
    adjudicated: bool = False

    @property
    def words(self) -> Mapping[str, str]:
        """Label of each nugget, keyed by its ID, or the binary verdict, keyed by ""."""
        verdict = str(self.score) if self.verdict is None else self.verdict
        return self.labels if self.labels is not None else {"": _WORDS[verdict]} if verdict in _WORDS else {}


def human_from(row: Mapping[str, Any]) -> HumanLabel:
    """Build a human label from a JSON object. Raise `DataError` if the fields do not form a label."""
    with suppress(ValidationError):
        read = HumanLabel.model_validate(row)
        if read.words or read.labels is not None:
            return read
    labels = f"verdict (correct, incorrect, not_attempted), score (0, 1), or labels by nugget ID ({', '.join(SUPPORT)})"
    fault = f"The row is not a human label. Expected item_id, annotator, and one of {labels}."
    raise DataError(fault, code="not-a-human-label")


def _people(labels: Sequence[HumanLabel], models: Sequence[str]) -> dict[Unit, dict[str, str]]:
    """Return each annotator's label for each unit. An adjudicated label is also stored under ""."""
    if (nameless := sum(not label.model for label in labels)) and len(models) > 1:
        fault = f"{nameless} labels do not name a model, but {len(models)} models answered"
        raise DataError(f"{fault}. Add `model` to each label.", code="label-without-model")
    out: dict[Unit, dict[str, str]] = {}
    for label in labels:
        for model, (nugget, word) in product([label.model] if label.model else models, label.words.items()):
            by = dict.fromkeys((label.annotator, "") if label.adjudicated else (label.annotator,), word)
            out.setdefault((label.item_id, model, nugget), {}).update(by)
    return out


def consensus(words: Mapping[str, str]) -> str | None:
    """Return the adjudicated label of a unit. If there is none, return the label of the majority, or None."""
    return words[""] if "" in words else majority_vote(list(words.values())).verdict


def _judge_words(grades: Sequence[GradeResult]) -> dict[Unit, str | None]:
    words: dict[Unit, str | None] = {}
    for grade in grades:
        if grade.judge is not None:
            # The judge's verdict, independent of the rules: None if it is unreadable or partial.
            words[grade.item_id, grade.model, ""] = _WORDS.get(str(majority_vote(grade.judge.votes).verdict))
            words |= {(grade.item_id, grade.model, nugget.id): nugget.label for nugget in grade.nuggets}
    return words


def calibrate(grades: Sequence[GradeResult], labels: Sequence[HumanLabel]) -> dict[str, Any]:
    """Return the judge's agreement with human labels: `{"status": "calibrated" | "uncalibrated", "verdicts", "nuggets"}`.

    Each part is None without such labels. Its `doubt` is "" if it calibrates the judge. A judge is calibrated if every part
    that it decided is.
    """
    if not labels:
        return {"status": UNCALIBRATED}
    group_of = {grade.item_id: grade.group for grade in grades if grade.group}
    units, judge_words = _people(labels, sorted({g.model for g in grades})), _judge_words(grades)
    verdicts, nuggets = ({u: units[u] for u in units if bool(u[2]) == named} for named in (False, True))
    by_part = {"verdicts": verdicts, "nuggets": nuggets}
    parts = {part: _calibration(judge_words, labelled, group_of) for part, labelled in by_part.items()}
    needed = [parts["nuggets" if grade.nuggets else "verdicts"] for grade in grades if grade.judge]
    done = needed and all(part is not None and not part["doubt"] for part in needed)
    return {"status": "calibrated" if done else UNCALIBRATED, **parts}


def _calibration(
    judge_words: Mapping[Unit, str | None],
    units: Mapping[Unit, Mapping[str, str]],
    group_of: Mapping[str, str],
) -> dict[str, Any] | None:
    if not units:
        return None
    nuggets, judged = bool(next(iter(units))[2]), [u for u in units if u in judge_words]
    people = {u: consensus(units[u]) for u in judged}
    both = [u for u in judged if people[u] is not None and judge_words[u] is not None]
    agreed = agreement(
        [str(people[u]) for u in both], [str(judge_words[u]) for u in both], tuple(SUPPORT) if nuggets else BINARY,
        weights="linear" if nuggets else None, groups=group_numbers([u[0] for u in both], group_of),
    )  # fmt: skip
    least = agreed.kappa.ci[0] if agreed.kappa.ci is not None else None
    doubt = "kappa_undefined" if least is None else "kappa_low" if least <= LEAST_KAPPA else ""
    part = {
        **agreed.json(), "doubt": "few_labels" if agreed.n < FEWEST_LABELS else doubt,
        "n_labelled": len(units), "n_without_judge": len(units) - len(judged),
        "n_judge_unread": sum(judge_words[u] is None for u in judged),
        "n_people_undecided": sum(people[u] is None for u in judged),
    }  # fmt: skip
    if not nuggets:
        (tn, fp), (fn, tp) = agreed.confusion
        part["sensitivity"] = tp / (tp + fn) if tp + fn else None
        part["specificity"] = tn / (tn + fp) if tn + fp else None
    return part


def compare_gradings(
    first: Sequence[GradeResult], other: Sequence[GradeResult], labels: Sequence[HumanLabel] = ()
) -> list[dict[str, Any]]:
    """Compare two sets of grades for the same answers. Each row is `{"measure", "first", "other", "difference"}` (other
    minus first, paired). Raise `UsageError` if no answer in both sets was given to a judge."""
    by_answer = {(g.item_id, g.model): g for g in first if g.judge is not None}
    theirs = [g for g in other if g.judge is not None and (g.item_id, g.model) in by_answer]
    ours = [by_answer[g.item_id, g.model] for g in theirs]
    if not theirs:
        fault = "No answer has a judge's verdict in both gradings. Grade the same answers."
        raise UsageError(fault, code="no-common-answers")
    sides, items = (ours, theirs), [g.item_id for g in theirs]
    group_of = {g.item_id: g.group for g in theirs if g.group}
    scored = [[g.score is not None for g in side] for side in sides]
    read = [[not any(a.error_type for a in g.judge.attempts) for g in side if g.judge] for side in sides]
    groups = group_numbers(items, group_of)
    rows = [_comparison("scored", scored, groups), _comparison("read_at_once", read, groups)]
    if labels:
        units = _people(labels, sorted({g.model for g in theirs}))
        people = {u: consensus(words) for u, words in units.items()}
        judge_words = [_judge_words(side) for side in sides]
        both = [u for u, word in people.items() if word and all(words.get(u) for words in judge_words)]
        agree = [[words[u] == people[u] for u in both] for words in judge_words]
        rows.append(_comparison("agrees_with_people", agree, group_numbers([u[0] for u in both], group_of)))
    return rows


def _comparison(name: str, sides: Sequence[Sequence[bool]], groups: Ints) -> dict[str, Any]:
    first, other = (np.array(side, dtype=np.float64) for side in sides)
    return {
        "measure": name, "first": rate(first, groups).json(), "other": rate(other, groups).json(),
        "difference": paired_difference(other, first, groups).json(),
    }  # fmt: skip


# The summary

FORMAT = 3
_STEPS = 1000
"""Steps of a score in a paired test, because a score by nuggets may be any fraction."""


def summarise(
    items: Sequence[FreeItem], grades: Sequence[GradeResult], labels: Sequence[HumanLabel] = ()
) -> dict[str, Any]:
    """Summarize grades by model, kind, and topic. Return `{"format", "n_items", "models": {MODEL: {"kinds": {KIND: ...},
    "topics": {TOPIC: {KIND: ...}}, "all": ..., "judges", "templates", "self_judging"}}, "pairs": [...], "calibration"}`.

    Each part has the fields of `aggregate`. `pairs` compares two models on one kind. `p_holm` adjusts the exact p-value
    over all pairs and kinds.
    """
    topics = {item.id: item.topic for item in items}
    models = _split_by(grades, lambda grade: grade.model)
    return {
        "format": FORMAT, "n_items": len(items),
        "models": {name: _model(rows, lambda grade: topics.get(grade.item_id, "")) for name, rows in models.items()},
        "pairs": _by_holm([*_pairs(grades)]), "calibration": calibrate(grades, labels),
    }  # fmt: skip


def _by_holm(pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    corrected = iter(holm([pair["p"] for pair in pairs if pair["p"] is not None]))
    return [{**pair, "p_holm": None if pair["p"] is None else next(corrected)} for pair in pairs]


def _pairs(grades: Sequence[GradeResult]) -> Iterator[dict[str, Any]]:
    """Yield an exact paired test for each pair of models and each kind of item, on the items scored for both models."""
    for kind, kind_grades in _split_by(grades, lambda grade: grade.kind).items():
        by_model = _split_by(kind_grades, lambda grade: grade.model)
        for (other, other_grades), (model, model_grades) in combinations(by_model.items(), 2):
            sides = (other_grades, model_grades)
            theirs, ours = ({g.item_id: g for g in side if g.score is not None} for side in sides)
            items, left_out = [i for i in ours if i in theirs], len(ours.keys() ^ theirs.keys())
            pair = {"kind": kind, "model": model, "other": other, "left_out": left_out}
            answered_by_both = set.intersection(*({g.item_id for g in side} for side in sides))
            if len(items) < LEAST_COVERAGE * len(answered_by_both):
                yield {**pair, "difference": _withheld(len(items), LOW), "p": None, "mid_p": None}
                continue
            groups = group_numbers(items, {i: ours[i].group for i in items})
            credit, base = (np.array([side[i].score for i in items], float) for side in (ours, theirs))
            exact, mid = sign_flip(np.rint((credit - base) * _STEPS).astype(np.int64), groups)
            difference = paired_difference(credit, base, groups).json()
            yield {**pair, "difference": difference, "p": exact, "mid_p": mid}


def _model(grades: Sequence[GradeResult], topic: Callable[[GradeResult], str]) -> dict[str, Any]:
    def kinds(some: Sequence[GradeResult]) -> dict[str, Any]:
        return {kind: aggregate(rows) for kind, rows in _split_by(some, lambda grade: grade.kind).items()}

    traces = [grade.judge for grade in grades if grade.judge is not None]
    return {
        "kinds": kinds(grades),
        "topics": {name: kinds(some) for name, some in sorted(_split_by(grades, topic).items()) if name},
        "all": aggregate(grades), "judges": sorted({trace.model for trace in traces}),
        "templates": sorted({trace.template_id for trace in traces}),
        "self_judging": sum("self_judging" in grade.flags for grade in grades),
    }  # fmt: skip


def _split_by(
    grades: Sequence[GradeResult], by: Callable[[GradeResult], str]
) -> dict[str, list[GradeResult]]:
    return {key: [grade for grade in grades if by(grade) == key] for key in dict.fromkeys(map(by, grades))}


def unscored_in(grades: Sequence[GradeResult]) -> float:
    """Return the share of answers without a score, or 0 if there are no answers."""
    return sum(grade.score is None for grade in grades) / max(1, len(grades))


def aggregate(grades: Sequence[GradeResult]) -> dict[str, Any]:
    """Return the counts and rates of grades. Every rate is `{"value", "n", "ci"}`, clustered by item or passage.

    `lower` and `upper` are over all `n` answers, with every unscored answer wrong or right. They do not allow for errors of
    a judge, and neither does the interval. `accuracy` is over the scored answers, and withheld if they are fewer than 80 %.
    All three are withheld if the grades are of several kinds. `by_judge` is the share of decided answers that a judge
    decided. Nuggets add `nugget_scores` and `labels`.
    """
    scores, n = np.array([g.score for g in grades], dtype=np.float64), len(grades)
    missing, total = int(np.isnan(scores).sum()), float(np.nansum(scores))
    decided = [grade for grade in grades if grade.status in DECIDED]
    kinds = {grade.kind for grade in grades}
    withheld = "several kinds" if len(kinds) > 1 else LOW if n and n - missing < LEAST_COVERAGE * n else ""
    return {
        "n": n, "accuracy": _withheld(n - missing, withheld) if withheld else _rate(grades, scores),
        "lower": total / n if len(kinds) == 1 else None, "upper": (total + missing) / n if len(kinds) == 1 else None,
        "coverage": _rate(grades, ~np.isnan(scores)),
        "by_judge": _rate(decided, [grade.method != "deterministic" for grade in decided]),
        "statuses": _counts(grade.status for grade in grades), "reasons": _counts(grade.reason for grade in grades),
        "errors": _counts(grade.error_type for grade in grades if grade.error_type),
        "flags": _counts(flag for grade in grades for flag in grade.flags),
        **(_nuggets(grades) if kinds == {"nuggets"} else {}),
    }  # fmt: skip


def _rate(grades: Sequence[GradeResult], values: Any) -> dict[str, Any]:
    groups = group_numbers([g.item_id for g in grades], {g.item_id: g.group for g in grades if g.group})
    return rate(np.asarray(values, dtype=np.float64), groups).json()


def _withheld(n: int, reason: str) -> dict[str, Any]:
    return {"value": None, "n": n, "ci": None, "withheld": reason}


def _nuggets(grades: Sequence[GradeResult]) -> dict[str, Any]:
    def score_of(grade: GradeResult, name: str) -> Any:
        # A grade without labels has the same bounds in each score.
        blank = {
            "value": grade.score,
            "lower": 0.0,
            "upper": 1.0 if grade.score is None else grade.score,
            "n": 1,
        }
        return dict(grade.nugget_scores or {}).get(name, blank)

    means = {}
    for name in NUGGET_SCORES:
        asked = [(grade, score) for grade in grades if (score := score_of(grade, name))["n"]]
        scores = [score for _, score in asked]
        values = np.array([score["value"] for score in scores], dtype=np.float64)
        n = int(np.count_nonzero(~np.isnan(values)))
        enough = n >= LEAST_COVERAGE * len(scores)
        mean = _rate([grade for grade, _ in asked], values) if enough else _withheld(n, LOW)
        ends = {
            end: float(np.mean([s[end] for s in scores])) if scores else None for end in ("lower", "upper")
        }
        means[name] = {**mean, "asked": len(scores), **ends}
    labels = _counts(nugget.label or "unread" for grade in grades for nugget in grade.nuggets)
    return {"labels": labels, "nugget_scores": means}


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
