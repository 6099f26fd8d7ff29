"""Labels of people on the same answers, how far the judge agrees with them, and its templates compared.

Where people differ the adjudicated word counts, else the majority, else nothing. An answer that the judge could not read
is counted. Templates are compared on the same answers, and differences are paired.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from robustify.arrays import Floats
from robustify.errors import DataError, UsageError
from robustify.freeform.grade.graders import RUBRICS, Grading, grade_answer, graded_as
from robustify.freeform.judge.judges import Judge
from robustify.freeform.judge.store import PromptTemplate
from robustify.freeform.judge.verdicts import SUPPORT3, majority_vote
from robustify.freeform.metrics import corrected, numbers_of
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.stats.agreement import agreement, krippendorff_alpha
from robustify.stats.intervals import FEWEST_CLUSTERS, bootstrap, rate
from robustify.stats.tests import paired_difference

UNCALIBRATED = "uncalibrated"
"""What a report prints beside a judge's number where no person has labelled its answers."""
FEWEST_LABELS, LEAST_KAPPA = 30, 0.6
"""What calibrates a judge: so many answers that people labelled, and a lower bound of kappa above this. Up to 0.6
agreement is moderate at best (Landis and Koch 1977)."""
BINARY = ("incorrect", "correct")
_WORDS = {
    "correct": "correct", "1": "correct", "incorrect": "incorrect", "0": "incorrect", "not_attempted": "incorrect",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HumanLabel:
    """One person's word on one answer: a verdict, or a label for each nugget. `model` may be "" where only one answered."""

    item_id: str
    annotator: str
    model: str = ""
    verdict: str | None = None
    labels: Mapping[str, str] | None = None
    adjudicated: bool = False

    def json(self) -> dict[str, Any]:
        """One line of a file of labels."""
        return {name: value for name, value in asdict(self).items() if value}


def human_from(row: Mapping[str, Any]) -> HumanLabel:
    """A label from its JSON: `item_id`, `annotator`, and `verdict`, `score` (0 or 1) or `labels` by nugget id.

    Raises:
        DataError: anything else.
    """
    item, annotator = row.get("item_id"), row.get("annotator")
    if not isinstance(item, str) or not isinstance(annotator, str):
        raise DataError("no human label: item_id and annotator are expected")
    adjudicated = row.get("adjudicated") is True
    common: dict[str, Any] = {"model": str(row.get("model") or ""), "adjudicated": adjudicated}
    labels, verdict, score = row.get("labels"), row.get("verdict"), row.get("score")
    if labels is not None:
        if not isinstance(labels, dict) or not all(label in SUPPORT3.scores for label in labels.values()):
            raise DataError(f"label of {item}: expected by nugget id one of {', '.join(SUPPORT3.labels)}")
        return HumanLabel(item, annotator, labels=labels, **common)
    if verdict is None and score in (0, 1):
        verdict = BINARY[int(score)]
    if not isinstance(verdict, str) or verdict not in _WORDS or verdict in ("0", "1"):
        raise DataError(f"label of {item}: expected correct, incorrect or not_attempted, or score 0 or 1")
    return HumanLabel(item, annotator, verdict=_WORDS[verdict], **common)


Unit = tuple[str, str, str]
"""Item, model and nugget ("" for a verdict): what is labelled."""


def units_of(labels: Sequence[HumanLabel], models: Sequence[str]) -> dict[Unit, dict[str, str]]:
    """Every labelled unit with the word of each annotator; an adjudicated word is also given under "".

    Raises:
        DataError: labels that name no model, where several models answered.
    """
    nameless = [label.item_id for label in labels if not label.model]
    if nameless and len(models) > 1:
        raise DataError(
            f"{len(nameless)} labels name no model (first for {nameless[0]}), but {len(models)} models answered;"
            " expected `model` in each"
        )
    out: dict[Unit, dict[str, str]] = {}
    for label in labels:
        for model in [label.model] if label.model else models:
            words = label.labels if label.labels is not None else {"": str(label.verdict)}
            for nugget, word in words.items():
                said = out.setdefault((label.item_id, model, nugget), {})
                said[label.annotator] = word
                if label.adjudicated:
                    said[""] = word
    return out


def consensus(words: Mapping[str, str]) -> str | None:
    """The word of people on a unit: the adjudicated one, else that of more than half; None where there is none."""
    return words[""] if "" in words else majority_vote(list(words.values())).verdict


def judge_words(grades: Sequence[GradeResult], *, nuggets: bool) -> dict[Unit, str | None]:
    """The judge's word on every unit, None where it could not be read; grades that no judge decided are left out."""
    judged = [grade for grade in grades if grade.judge is not None]
    if nuggets:
        return {(g.item_id, g.model, n.id): n.label for g in judged for n in g.nuggets}
    return {(g.item_id, g.model, ""): judge_verdict(g) for g in judged}


def judge_verdict(grade: GradeResult) -> str | None:
    """What the judge itself said of an answer, whatever the rules said; None where it was not read or is between."""
    if grade.judge is None:
        return None
    return _WORDS.get(str(majority_vote(grade.judge.votes).verdict))


def calibrate(grades: Sequence[GradeResult], labels: Sequence[HumanLabel], seed: int = 0) -> dict[str, Any]:
    """How far the judge agrees with people: `{"status": "calibrated" | "uncalibrated", "verdicts", "nuggets"}`.

    Each part (None where nobody labelled such) holds n, what was left out and why, agreement with kappa, alpha over
    judge and people, `doubt` ("" where the part calibrates the judge, else why not), and for
    verdicts sensitivity, specificity and the corrected rate. A judge is calibrated if every part that it decided is.
    """
    models = sorted({g.model for g in grades})
    units = units_of(labels, models)
    parts = {
        name: _calibrated(grades, {u: w for u, w in units.items() if bool(u[2]) == nuggets}, nuggets, seed)
        for name, nuggets in (("verdicts", False), ("nuggets", True))
    }
    judged = {"nuggets" if grade.nuggets else "verdicts" for grade in grades if grade.judge is not None}
    return {"status": _status([parts[name] for name in judged]), **parts}


def _status(parts: Sequence[Mapping[str, Any] | None]) -> str:
    done = parts and all(part is not None and not part["doubt"] for part in parts)
    return "calibrated" if done else UNCALIBRATED


def _calibrated(
    grades: Sequence[GradeResult], units: Mapping[Unit, Mapping[str, str]], nuggets: bool, seed: int
) -> dict[str, Any] | None:
    if not units:
        return None
    said = judge_words(grades, nuggets=nuggets)
    there = [u for u in units if u in said]
    people = {u: consensus(units[u]) for u in there}
    both = [u for u in there if people[u] is not None and said[u] is not None]
    classes = SUPPORT3.labels if nuggets else BINARY
    found = agreement(
        [str(people[u]) for u in both], [str(said[u]) for u in both], classes,
        weights="linear" if nuggets else None, groups=numbers_of([u[0] for u in both]), seed=seed,
    )  # fmt: skip
    if found.n < FEWEST_LABELS:
        doubt = "few_labels"
    elif found.kappa_ci is None:
        doubt = "kappa_undefined"
    else:
        doubt = "" if found.kappa_ci[0] > LEAST_KAPPA else "kappa_low"
    more: dict[str, Any] = {}
    if not nuggets:
        # The judge's errors, and the rate of right answers behind its own.
        (tn, fp), (fn, tp) = found.confusion
        words = [word for word in map(judge_verdict, grades) if word is not None]
        more["sensitivity"] = tp / (tp + fn) if tp + fn else None
        more["specificity"] = tn / (tn + fp) if tn + fp else None
        more["corrected_rate"] = corrected([float(w == "correct") for w in words], found.confusion, seed)
    rank = {name: float(i) for i, name in enumerate(classes)}
    ratings = [[rank.get(str(said[u])), *(rank[w] for a, w in sorted(units[u].items()) if a)] for u in there]
    return {
        **found.json(), "doubt": doubt, "n_labelled": len(units), "n_without_judge": len(units) - len(there),
        "n_judge_unread": sum(said[u] is None for u in there),
        "n_people_undecided": sum(people[u] is None for u in there),
        "alpha": krippendorff_alpha(ratings, level="ordinal" if nuggets else "nominal"),
        **more,
    }  # fmt: skip


def compare_templates(
    items: Sequence[FreeItem], answers: Sequence[AnswerRow], templates: Sequence[str], judge: Judge,
    labels: Sequence[HumanLabel] = (), rules: Grading | None = None, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Every template on every answer of the kind it is for, and each one against the first.

    `{"judge", "status", "templates": {ID: {"n", "parsed_at_once", "parsed", "tokens", "calls", "agreement"}},
    "against_first": {ID: {"parsed_at_once", "agrees"}}}`; every rate has n and an interval.

    Raises:
        UsageError: fewer than two templates, templates for different kinds of answers, or no answer of their kind.
        ModelError: the judge can never be asked.
    """
    rules = rules or Grading()
    chosen = [rules.judging.store.get(name) for name in templates]
    kinds = {_kind_of(template) for template in chosen}
    if len(chosen) < 2 or len(kinds) > 1:
        raise UsageError(
            f"{len(chosen)} templates: expected two or more that judge one kind of answer "
            f"({', '.join(sorted({*RUBRICS.values(), 'nuggets'}))})"
        )
    (kind,) = kinds
    part = "nuggets" if kind == "nuggets" else "verdicts"
    by_id = {item.id: item for item in items}
    rows = [a for a in answers if a.error is None and graded_as(by_id[a.item_id]) == kind]
    if not rows:
        raise UsageError(f"none of {len(answers)} answers is of the kind {kind}, which {chosen[0].id} judges")
    graded = {t.id: [grade_answer(by_id[a.item_id], a, _by(t, rules), judge) for a in rows] for t in chosen}
    measured = {name: _measured(grades, labels, seed) for name, grades in graded.items()}
    first = chosen[0].id
    return {
        "judge": judge.name, "kind": kind,
        "status": _status([(m["agreement"] or {}).get(part) for m in measured.values()]), "templates": measured,
        "against_first": {t.id: _paired(graded[first], graded[t.id], labels, part == "nuggets") for t in chosen[1:]},
    }  # fmt: skip


def _kind_of(template: PromptTemplate) -> str:
    """The kind of answer that a template judges; its own name where it judges none."""
    family, _, name = template.name.rpartition(":")[2].partition("/")
    kinds = {"nugget": "nuggets", "grader": RUBRICS.get(name, template.name)}
    return kinds.get(family, template.name)


def _by(template: PromptTemplate, rules: Grading) -> Grading:
    """The rules under which the judge decides everything by one template."""
    one: dict[str, Any] = {"nugget_template": template.id, "format_type": None}
    if template.reads != "labels":
        one = dict.fromkeys(("mcq_template", "numeric_template", "explanation_template"), template.id)
    return replace(rules, mode="judge", scale=template.scale, **one)


def _at_once(grade: GradeResult) -> float:
    """Whether every vote was read at its first attempt."""
    attempts = grade.judge.attempts if grade.judge else ()
    return float(all(a.error_type is None for a in attempts))


def _measured(grades: Sequence[GradeResult], labels: Sequence[HumanLabel], seed: int) -> dict[str, Any]:
    asked = [grade for grade in grades if grade.judge is not None]
    attempts = [grade.judge.attempts for grade in asked if grade.judge]
    tokens = [sum(a.usage.get("total_tokens", 0) for a in calls) for calls in attempts]
    agreement = calibrate(asked, labels, seed) if labels else None
    return {
        "n": len(asked), "parsed_at_once": rate(_floats(map(_at_once, asked))).json(),
        "parsed": rate(_floats(g.score is not None for g in asked)).json(),
        "calls": _mean(_floats(map(len, attempts)), seed), "tokens": _mean(_floats(filter(None, tokens)), seed),
        "agreement": agreement and {name: agreement[name] for name in ("verdicts", "nuggets")},
    }  # fmt: skip


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _mean(values: Floats, seed: int) -> dict[str, Any]:
    """A mean with a bootstrap interval; None where nothing was counted."""
    n = len(values)
    ci = bootstrap(values, seed=seed) if n >= FEWEST_CLUSTERS else None
    return {"value": float(values.mean()) if n else None, "n": n, "ci": list(ci) if ci else None}


def _paired(
    first: Sequence[GradeResult], other: Sequence[GradeResult], labels: Sequence[HumanLabel], nuggets: bool
) -> dict[str, Any]:
    """Paired differences, other minus first, over answers that both were asked about."""
    pairs = [(a, b) for a, b in zip(first, other, strict=True) if a.judge is not None and b.judge is not None]
    sides = [[pair[i] for pair in pairs] for i in (1, 0)]
    once = [_floats(map(_at_once, side)) for side in sides]
    found: dict[str, Any] = {"parsed_at_once": paired_difference(once[0], once[1]).json(), "agrees": None}
    if labels:
        units = units_of(labels, sorted({a.model for a, _ in pairs}))
        people = {u: consensus(words) for u, words in units.items() if bool(u[2]) == nuggets}
        said = [judge_words(side, nuggets=nuggets) for side in sides]
        both = [u for u, word in people.items() if word is not None and all(words.get(u) for words in said)]
        new, old = (_floats(words[u] == people[u] for u in both) for words in said)
        found["agrees"] = paired_difference(new, old, numbers_of([u[0] for u in both])).json()
    return found
