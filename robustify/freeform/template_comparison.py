"""Two templates side by side on the same answers: how often the reply is read, how far it agrees with people, its cost.

Both see the same answers through the same judge, so that differences are paired. Without labels of people the
agreement is absent, and the result says "uncalibrated": a template that is only cheaper is not better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from robustify.arrays import Floats
from robustify.errors import UsageError
from robustify.freeform.grade.grading import Grading, grade_answer
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate, consensus, judge_words, units_of
from robustify.freeform.judge.judges import Judge
from robustify.freeform.judge.store import Template
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
    found = [rules.judging.store.get(name) for name in templates]
    if len(found) < 2 or len({t.name.partition("/")[0] for t in found}) > 1:
        raise UsageError(f"{len(found)} templates: expected two or more of one family")
    by_id = {item.id: item for item in items}
    nuggets = found[0].reads == "labels"
    rows = [a for a in answers if a.error is None and (bool(by_id[a.item_id].nuggets) == nuggets)]
    graded = {t.id: [_grade(by_id[a.item_id], a, t, rules, judge) for a in rows] for t in found}
    told = {t.id: _told(graded[t.id], labels, seed) for t in found}
    first = found[0].id
    return {
        "judge": judge.name,
        "status": "calibrated" if _agreed(told) else UNCALIBRATED,
        "templates": told,
        "against_first": {t.id: _against(graded[first], graded[t.id], labels, nuggets) for t in found[1:]},
    }


def _agreed(told: Mapping[str, Any]) -> bool:
    """Whether people said anything of what every template judged: labels of other items calibrate nothing."""
    parts = [(t["agreement"] or {}).values() for t in told.values()]
    return all(any(part is not None and part["n"] for part in held) for held in parts)


def _grade(
    item: FreeItem, answer: AnswerRow, template: Template, rules: Grading, judge: Judge
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


def _asked(grades: Sequence[GradeResult]) -> list[GradeResult]:
    return [grade for grade in grades if grade.judge is not None]


def _at_once(grade: GradeResult) -> float:
    """Whether every vote was read at its first attempt."""
    attempts = grade.judge.attempts if grade.judge else ()
    return float(all(a.error_type is None for a in attempts))


def _told(grades: Sequence[GradeResult], labels: Sequence[HumanLabel], seed: int) -> dict[str, Any]:
    asked = _asked(grades)
    calls = [len(g.judge.attempts) for g in asked if g.judge]
    tokens = [sum(a.usage.get("total_tokens", 0) for a in g.judge.attempts) for g in asked if g.judge]
    counted = [float(t) for t in tokens if t]
    found = calibrate(asked, labels, seed) if labels else None
    return {
        "n": len(asked),
        "parsed_at_once": rate(np.array([_at_once(g) for g in asked], dtype=np.float64)).json(),
        "parsed": rate(np.array([float(g.score is not None) for g in asked], dtype=np.float64)).json(),
        "calls": _mean(np.array(calls, dtype=np.float64), seed),
        "tokens": _mean(np.array(counted, dtype=np.float64), seed),
        "agreement": None if found is None else {name: found[name] for name in ("verdicts", "nuggets")},
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
    held = {
        u: word
        for u, words in units.items()
        if bool(u[2]) == nuggets and (word := consensus(words)) is not None
    }
    said = [judge_words([pair[i] for pair in pairs], nuggets=nuggets) for i in (1, 0)]
    there = [u for u in held if all(words.get(u) is not None for words in said)]
    agrees = [np.array([float(words[u] == held[u]) for u in there], dtype=np.float64) for words in said]
    place = {name: i for i, name in enumerate(dict.fromkeys(u[0] for u in there))}
    return paired_difference(
        agrees[0], agrees[1], np.array([place[u[0]] for u in there], dtype=np.int64)
    ).json()
