"""Templates compared on the same answers by the same judge: how often the reply is read, agreement with people, cost.

Differences are paired. Without labels of people the agreement is absent, and the result says "uncalibrated".
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robustify.arrays import Floats
from robustify.errors import UsageError
from robustify.freeform.grade.graders import Grading, grade_answer
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate, consensus, judge_words, units_of
from robustify.freeform.judge.judges import Judge
from robustify.freeform.judge.store import PromptTemplate
from robustify.freeform.metrics import numbers_of
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult
from robustify.stats.differences import paired_difference
from robustify.stats.intervals import FEWEST_CLUSTERS, Interval, bootstrap, rate


def compare_templates(
    items: Sequence[FreeItem],
    answers: Sequence[AnswerRow],
    templates: Sequence[str],
    judge: Judge,
    labels: Sequence[HumanLabel] = (),
    rules: Grading | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Every template on every answer, and each one against the first.

    `{"judge", "status", "templates": {ID: {"n", "parsed_at_once", "parsed", "tokens", "calls", "agreement"}},
    "against_first": {ID: {"parsed_at_once", "agrees"}}}`; every rate has n and an interval.

    Raises:
        UsageError: fewer than two templates, or templates that read different things.
        ModelError: the judge can never be asked.
    """
    rules = rules or Grading()
    chosen = [rules.judging.store.get(name) for name in templates]
    if len(chosen) < 2 or len({t.name.partition("/")[0] for t in chosen}) > 1:
        raise UsageError(f"{len(chosen)} templates: expected two or more of one family")
    by_id = {item.id: item for item in items}
    nuggets = chosen[0].reads == "labels"
    rows = [a for a in answers if a.error is None and (bool(by_id[a.item_id].nuggets) == nuggets)]
    graded = {t.id: [_grade(by_id[a.item_id], a, t, rules, judge) for a in rows] for t in chosen}
    measured = {name: _measured(grades, labels, seed) for name, grades in graded.items()}
    first = chosen[0].id
    return {
        "judge": judge.name,
        "status": "calibrated" if all(map(_labelled, measured.values())) else UNCALIBRATED,
        "templates": measured,
        "against_first": {t.id: _against(graded[first], graded[t.id], labels, nuggets) for t in chosen[1:]},
    }


def _labelled(measured: Mapping[str, Any]) -> bool:
    """Whether people labelled any of what a template judged: labels of other items calibrate nothing."""
    parts = (measured["agreement"] or {}).values()
    return any(part is not None and part["n"] for part in parts)


def _grade(
    item: FreeItem, answer: AnswerRow, template: PromptTemplate, rules: Grading, judge: Judge
) -> GradeResult:
    """The judge's word by one template, whatever the rules say."""
    fitting = (
        rules.format_type if rules.format_type in template.formats else (template.formats or ("json",))[0]
    )
    named = replace(
        rules,
        mode="judge",
        mcq_template=template.id,
        numeric_template=template.id,
        explanation_template=template.id,
        nugget_template=template.id if template.reads == "labels" else rules.nugget_template,
        format_type=fitting,
        scale=template.scale or rules.scale,
    )
    return grade_answer(item, answer, named, judge)


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
        "n": len(asked),
        "parsed_at_once": rate(np.array([_at_once(g) for g in asked], dtype=np.float64)).json(),
        "parsed": rate(np.array([float(g.score is not None) for g in asked], dtype=np.float64)).json(),
        "calls": _mean(np.array([len(calls) for calls in attempts], dtype=np.float64), seed),
        "tokens": _mean(np.array([t for t in tokens if t], dtype=np.float64), seed),
        "agreement": agreement and {name: agreement[name] for name in ("verdicts", "nuggets")},
    }


def _mean(values: Floats, seed: int) -> dict[str, Any]:
    """A mean with a bootstrap interval; None where nothing was counted."""
    n = len(values)
    ci: Interval | None = bootstrap(values, seed=seed) if n >= FEWEST_CLUSTERS else None
    return {"value": float(values.mean()) if n else None, "n": n, "ci": list(ci) if ci else None}


def _against(
    first: Sequence[GradeResult], other: Sequence[GradeResult], labels: Sequence[HumanLabel], nuggets: bool
) -> dict[str, Any]:
    """Paired differences, other minus first, over answers that both were asked about."""
    pairs = [(a, b) for a, b in zip(first, other, strict=True) if a.judge is not None and b.judge is not None]
    once = [np.array([_at_once(pair[i]) for pair in pairs], dtype=np.float64) for i in (1, 0)]
    return {
        "parsed_at_once": paired_difference(once[0], once[1]).json(),
        "agrees": _agrees(pairs, labels, nuggets) if labels else None,
    }


def _agrees(
    pairs: Sequence[tuple[GradeResult, GradeResult]], labels: Sequence[HumanLabel], nuggets: bool
) -> dict[str, Any]:
    units = units_of(labels, sorted({a.model for a, _ in pairs}))
    people = {u: consensus(words) for u, words in units.items() if bool(u[2]) == nuggets}
    said = [judge_words([pair[i] for pair in pairs], nuggets=nuggets) for i in (1, 0)]
    both = [u for u, word in people.items() if word is not None and all(words.get(u) for words in said)]
    agrees = [np.array([float(words[u] == people[u]) for u in both], dtype=np.float64) for words in said]
    return paired_difference(agrees[0], agrees[1], numbers_of([u[0] for u in both])).json()
