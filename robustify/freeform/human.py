"""Human labels of answers, the judge's agreement with them, and comparisons of judge templates.

If people disagree, the adjudicated label counts, otherwise the majority. Without a majority, no label counts. Answers
that the judge could not read are counted. Templates are compared on the same answers with paired differences.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ValidationError

from robustify.base.arrays import numbered
from robustify.base.errors import DataError, UsageError
from robustify.freeform.llm_judge.verdicts import SUPPORT, majority_vote
from robustify.freeform.schema import GradeResult
from robustify.judging.stats.agreement import agreement
from robustify.judging.stats.intervals import rate
from robustify.judging.stats.tests import paired_difference

UNCALIBRATED = "uncalibrated"
"""Word that a report prints beside a judge's number if too few people have labelled its answers."""
FEWEST_LABELS, LEAST_KAPPA = 30, 0.6
"""Requirements for a calibrated judge: number of labelled answers, and lower bound of kappa. Agreement up to 0.6 is
moderate at best (Landis and Koch 1977)."""
BINARY = ("incorrect", "correct")
_WORDS = {
    "correct": "correct", "1": "correct", "incorrect": "incorrect", "0": "incorrect", "not_attempted": "incorrect",
}  # fmt: skip
Unit = tuple[str, str, str]
"""A labelled unit: item, model and nugget. The nugget is "" for a verdict."""


class HumanLabel(BaseModel, frozen=True):
    """One person's label of one answer: a verdict, a score, or labels of nuggets. `model` is optional for one model."""

    item_id: str
    annotator: str
    model: str | None = None
    verdict: Literal["correct", "incorrect", "not_attempted"] | None = None
    score: Literal[0, 1] | None = None
    labels: dict[str, Literal["support", "partial_support", "not_support"]] | None = None
    adjudicated: bool = False

    @property
    def words(self) -> Mapping[str, str]:
        """Label of each nugget, or the binary verdict under "". It is empty if there is no label."""
        said = str(self.score) if self.verdict is None else self.verdict
        return self.labels if self.labels is not None else {"": _WORDS[said]} if said in _WORDS else {}


def human_from(row: Mapping[str, Any]) -> HumanLabel:
    """Build a label from its JSON: `item_id`, `annotator`, and `verdict`, `score` (0 or 1) or `labels` by nugget ID.
    Raise `DataError` if the fields do not form a label."""
    with suppress(ValidationError):
        read = HumanLabel.model_validate(row)
        if read.words or read.labels is not None:
            return read
    raise DataError(
        "The row is not a human label. Expected item_id, annotator, and one of verdict (correct, incorrect,"
        f" not_attempted), score (0, 1), or labels by nugget ID ({', '.join(SUPPORT)})."
    )


def _people(labels: Sequence[HumanLabel], models: Sequence[str]) -> dict[Unit, dict[str, str]]:
    """Collect the label of each annotator for each unit. An adjudicated label is also stored under ""."""
    nameless = sum(not label.model for label in labels)
    if nameless and len(models) > 1:
        raise DataError(
            f"{nameless} labels do not name a model, but {len(models)} models answered. Add `model` to each label."
        )
    out: dict[Unit, dict[str, str]] = {}
    for label in labels:
        for model, (nugget, word) in product([label.model] if label.model else models, label.words.items()):
            by = dict.fromkeys((label.annotator, "") if label.adjudicated else (label.annotator,), word)
            out.setdefault((label.item_id, model, nugget), {}).update(by)
    return out


def consensus(words: Mapping[str, str]) -> str | None:
    """Return the adjudicated label of a unit, otherwise the majority label, otherwise None."""
    return words[""] if "" in words else majority_vote(list(words.values())).verdict


def _judge_words(grades: Sequence[GradeResult]) -> dict[Unit, str | None]:
    """Collect the judge's label for each unit, None if it could not be read. Grades without a judge are skipped."""
    judged = [grade for grade in grades if grade.judge is not None]
    verdicts: dict[Unit, str | None] = {(g.item_id, g.model, ""): judge_verdict(g) for g in judged}
    return verdicts | {(g.item_id, g.model, n.id): n.label for g in judged for n in g.nuggets}


def judge_verdict(grade: GradeResult) -> str | None:
    """Return the judge's verdict on an answer, independent of the rules. Return None if it is unreadable or partial."""
    return _WORDS.get(str(majority_vote(grade.judge.votes).verdict)) if grade.judge else None


def calibrate(grades: Sequence[GradeResult], labels: Sequence[HumanLabel], seed: int = 0) -> dict[str, Any]:
    """Measure the judge's agreement with human labels: `{"status": "calibrated" | "uncalibrated", "verdicts", "nuggets"}`.

    Each part is None without such labels. Otherwise it contains n, counts of what was skipped, agreement with kappa,
    and `doubt`, which is "" if the part calibrates the judge. Verdicts add sensitivity
    and specificity. A judge is calibrated if every part that it decided is. Without labels, only the
    status is returned.
    """
    if not labels:
        return {"status": UNCALIBRATED}
    units = _people(labels, sorted({g.model for g in grades}))
    facts = {unit: words for unit, words in units.items() if unit[2]}
    parts = {
        "verdicts": _calibrated(grades, {unit: units[unit] for unit in units if not unit[2]}, False, seed),
        "nuggets": _calibrated(grades, facts, True, seed),
    }
    needed = [
        parts["nuggets" if grade.nuggets else "verdicts"] for grade in grades if grade.judge is not None
    ]
    done = needed and all(part is not None and not part["doubt"] for part in needed)
    return {"status": "calibrated" if done else UNCALIBRATED, **parts}


def _calibrated(
    grades: Sequence[GradeResult], units: Mapping[Unit, Mapping[str, str]], nuggets: bool, seed: int
) -> dict[str, Any] | None:
    if not units:
        return None
    said = _judge_words(grades)
    there = [u for u in units if u in said]
    people = {u: consensus(units[u]) for u in there}
    both = [u for u in there if people[u] is not None and said[u] is not None]
    classes = tuple(SUPPORT) if nuggets else BINARY
    found = agreement(
        [str(people[u]) for u in both], [str(said[u]) for u in both], classes,
        weights="linear" if nuggets else None, groups=numbered([u[0] for u in both])[1], seed=seed,
    )  # fmt: skip
    least = found.kappa.ci[0] if found.kappa.ci is not None else None
    doubt = "kappa_undefined" if least is None else "kappa_low" if least <= LEAST_KAPPA else ""
    doubt = "few_labels" if found.n < FEWEST_LABELS else doubt
    more: dict[str, Any] = {}
    if not nuggets:
        (tn, fp), (fn, tp) = found.confusion
        more["sensitivity"] = tp / (tp + fn) if tp + fn else None
        more["specificity"] = tn / (tn + fp) if tn + fp else None
    return {
        **found.json(), "doubt": doubt, "n_labelled": len(units), "n_without_judge": len(units) - len(there),
        "n_judge_unread": sum(said[u] is None for u in there),
        "n_people_undecided": sum(people[u] is None for u in there),
        **more,
    }  # fmt: skip


def compare_gradings(
    first: Sequence[GradeResult], other: Sequence[GradeResult], labels: Sequence[HumanLabel] = ()
) -> list[dict[str, Any]]:
    """Compare two sets of grades for the same answers, for example by two templates: one row per measure, paired.

    Each row is `{"measure", "first", "other", "difference"}`. The measures are the share of scored answers, the share
    of replies read at the first attempt, and with human labels the share that agrees with them. The difference is other
    minus first. Raise `UsageError` if the gradings share no answer that a judge was asked about.
    """
    by_answer = {(g.item_id, g.model): g for g in first if g.judge is not None}
    theirs = [g for g in other if g.judge is not None and (g.item_id, g.model) in by_answer]
    ours = [by_answer[g.item_id, g.model] for g in theirs]
    if not theirs:
        raise UsageError(
            "The two gradings have no judged answer in common. Compare grades of the same answers."
        )

    sides, items = (ours, theirs), [g.item_id for g in theirs]
    attempts = [[g.judge.attempts if g.judge else () for g in side] for side in sides]
    read = [[all(one.error_type is None for one in some) for some in side] for side in attempts]
    rows = [
        _compared("scored", [[g.score is not None for g in side] for side in sides], items),
        _compared("read_at_once", read, items),
    ]
    if labels:
        units = _people(labels, sorted({g.model for g in theirs}))
        people = {u: consensus(words) for u, words in units.items()}
        said = [_judge_words(side) for side in sides]
        both = [u for u, word in people.items() if word is not None and all(words.get(u) for words in said)]
        agree = [[words[u] == people[u] for u in both] for words in said]
        rows.append(_compared("agrees_with_people", agree, [u[0] for u in both]))
    return rows


def _compared(name: str, sides: Sequence[Sequence[bool]], items: Sequence[str]) -> dict[str, Any]:
    (first, other), groups = (np.array(side, dtype=np.float64) for side in sides), numbered(items)[1]
    return {
        "measure": name, "first": rate(first, groups).json(), "other": rate(other, groups).json(),
        "difference": paired_difference(other, first, groups).json(),
    }  # fmt: skip
