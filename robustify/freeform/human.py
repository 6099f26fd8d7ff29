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
from robustify.judging.stats.intervals import agreement, rate
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
    """One person's label of one answer. `model` may be omitted if there is one model."""

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
    """Build a label from its JSON. Raise `DataError` if the fields do not form a label."""
    with suppress(ValidationError):
        read = HumanLabel.model_validate(row)
        if read.words or read.labels is not None:
            return read
    one = f"verdict (correct, incorrect, not_attempted), score (0, 1), or labels by nugget ID ({', '.join(SUPPORT)})"
    raise DataError(f"The row is no human label. Expected item_id, annotator, and one of {one}.")


def _people(labels: Sequence[HumanLabel], models: Sequence[str]) -> dict[Unit, dict[str, str]]:
    """Collect the label of each annotator for each unit. An adjudicated label is also stored under ""."""
    nameless = sum(not label.model for label in labels)
    if nameless and len(models) > 1:
        fault = f"{nameless} labels do not name a model, but {len(models)} models answered"
        raise DataError(f"{fault}. Add `model` to each label.")
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
    said: dict[Unit, str | None] = {}
    for grade in grades:
        if grade.judge is not None:
            # The judge's verdict, independent of the rules: None if it is unreadable or partial.
            said[grade.item_id, grade.model, ""] = _WORDS.get(str(majority_vote(grade.judge.votes).verdict))
            said |= {(grade.item_id, grade.model, nugget.id): nugget.label for nugget in grade.nuggets}
    return said


def calibrate(grades: Sequence[GradeResult], labels: Sequence[HumanLabel], seed: int = 0) -> dict[str, Any]:
    """Measure the judge's agreement with human labels: `{"status": "calibrated" | "uncalibrated", "verdicts", "nuggets"}`.

    Each part is None without such labels. Otherwise it contains n, counts of what was skipped, agreement with kappa,
    and `doubt`, which is "" if the part calibrates the judge. A judge is calibrated if every part that it decided is.
    """
    if not labels:
        return {"status": UNCALIBRATED}
    units, said = _people(labels, sorted({g.model for g in grades})), _judge_words(grades)
    parts = {
        name: _calibrated(
            said, {unit: words for unit, words in units.items() if bool(unit[2]) == nuggets}, seed
        )
        for name, nuggets in (("verdicts", False), ("nuggets", True))
    }
    needed = [parts["nuggets" if grade.nuggets else "verdicts"] for grade in grades if grade.judge]
    done = needed and all(part is not None and not part["doubt"] for part in needed)
    return {"status": "calibrated" if done else UNCALIBRATED, **parts}


def _calibrated(
    said: Mapping[Unit, str | None], units: Mapping[Unit, Mapping[str, str]], seed: int
) -> dict[str, Any] | None:
    if not units:
        return None
    nuggets, there = bool(next(iter(units))[2]), [u for u in units if u in said]
    people = {u: consensus(units[u]) for u in there}
    both = [u for u in there if people[u] is not None and said[u] is not None]
    found = agreement(
        [str(people[u]) for u in both], [str(said[u]) for u in both], tuple(SUPPORT) if nuggets else BINARY,
        weights="linear" if nuggets else None, groups=numbered([u[0] for u in both])[1], seed=seed,
    )  # fmt: skip
    least = found.kappa.ci[0] if found.kappa.ci is not None else None
    doubt = "kappa_undefined" if least is None else "kappa_low" if least <= LEAST_KAPPA else ""
    part = {
        **found.json(), "doubt": "few_labels" if found.n < FEWEST_LABELS else doubt,
        "n_labelled": len(units), "n_without_judge": len(units) - len(there),
        "n_judge_unread": sum(said[u] is None for u in there),
        "n_people_undecided": sum(people[u] is None for u in there),
    }  # fmt: skip
    if not nuggets:
        (tn, fp), (fn, tp) = found.confusion
        part["sensitivity"] = tp / (tp + fn) if tp + fn else None
        part["specificity"] = tn / (tn + fp) if tn + fp else None
    return part


def compare_gradings(
    first: Sequence[GradeResult], other: Sequence[GradeResult], labels: Sequence[HumanLabel] = ()
) -> list[dict[str, Any]]:
    """Compare two sets of grades for the same answers, for example by two templates.

    Each row is `{"measure", "first", "other", "difference"}` (other minus first, paired). The measures are the share of
    scored answers, the share of replies read at the first attempt, and with human labels the share that agrees with
    them. Raise `UsageError` if the gradings share no answer that a judge was asked about.
    """
    by_answer = {(g.item_id, g.model): g for g in first if g.judge is not None}
    theirs = [g for g in other if g.judge is not None and (g.item_id, g.model) in by_answer]
    ours = [by_answer[g.item_id, g.model] for g in theirs]
    if not theirs:
        raise UsageError("The two gradings have no judged answer in common. Grade the same answers.")
    sides, items = (ours, theirs), [g.item_id for g in theirs]
    read = [
        [g.judge is None or not any(a.error_type for a in g.judge.attempts) for g in side] for side in sides
    ]
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
