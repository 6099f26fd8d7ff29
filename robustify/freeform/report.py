"""What grades say: as one summary and one page, and as rows beside the other scores of a run.

The page prints counts, rates and names of models and templates, never text of an item or an answer. What of a
restricted set is shown is decided in `permit.summary_to_show`. Grades are matched to a run's items by id and by content.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.metrics import against_base, aggregate, credit_of
from robustify.freeform.permit import MIN_CELL, summary_to_show
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.item import Item
from robustify.judge.free_response import FreeGrades, FreeRow
from robustify.stats.intervals import percent

FORMAT = 1


def summarise(
    items: Sequence[FreeItem],
    grades: Sequence[GradeResult],
    labels: Sequence[HumanLabel] = (),
    seed: int = 0,
    *,
    truncated_as_wrong: bool = False,
    base: str | None = None,
    min_cell: int = MIN_CELL,
) -> dict[str, Any]:
    """The numbers of a free-response evaluation; of a restricted set those that `summary_to_show` shows, by `min_cell`.

    `{"format", "restricted", "n_items", "models": {MODEL: {"kinds": {KIND: ...}, "all": ..., "judges", "templates",
    "self_judging"}}, "calibration", "against_base"}`, each part as `metrics.aggregate` gives it. `all` is the mean over
    all answers, each by the grader of its kind; the kinds, whose scores mean different things, are given beside it.
    `against_base` is that of `metrics`, where a base is named.
    """
    by_model: dict[str, list[GradeResult]] = {}
    for grade in grades:
        by_model.setdefault(grade.model, []).append(grade)
    restricted = any(item.restricted for item in items) or any(grade.restricted for grade in grades)
    summary: dict[str, Any] = {
        "format": FORMAT,
        "restricted": restricted,
        "n_items": len(items),
        "models": {name: _model(rows, seed, truncated_as_wrong) for name, rows in by_model.items()},
        "calibration": calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        "against_base": None if base is None else against_base(grades, base),
    }
    return summary_to_show(summary, min_cell) if restricted else summary


def _model(grades: Sequence[GradeResult], seed: int, truncated_as_wrong: bool) -> dict[str, Any]:
    by_kind: dict[str, list[GradeResult]] = {}
    for grade in grades:
        by_kind.setdefault(str(grade.kind), []).append(grade)
    traces = [grade.judge for grade in grades if grade.judge is not None]

    def counted(rows: Sequence[GradeResult]) -> dict[str, Any]:
        return aggregate(rows, seed=seed, truncated_as_wrong=truncated_as_wrong)

    return {
        "kinds": {kind: {"kind": kind, **counted(rows)} for kind, rows in by_kind.items()},
        "all": counted(grades),
        "judges": sorted({trace.model for trace in traces}),
        "templates": sorted({trace.template_id for trace in traces}),
        "self_judging": sum("self_judging" in grade.flags for grade in grades),
    }


def unscored_in(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> float:
    """The share of answers without a score; 0 where there are none."""
    scores = credit_of(grades, truncated_as_wrong=truncated_as_wrong)
    return float(np.isnan(scores).mean()) if len(scores) else 0.0


def refuse_self_judged(grades: Iterable[GradeResult]) -> None:
    """Refuse grades that a model gave its own answers.

    Raises:
        UsageError: there are some.
    """
    own = sum("self_judging" in grade.flags for grade in grades)
    if own:
        raise UsageError(
            f"{own} answers were judged by the model that wrote them; expected another judge (or --allow-self-judging)"
        )


# The page


def markdown_page(summary: Mapping[str, Any]) -> str:
    """The summary as a page of Markdown."""
    shown = _Shown(bool(summary["restricted"]))
    lines = ["# Free response", "", *_accuracy(summary, shown), "", *_calibration(summary, shown), ""]
    lines += ["## Why answers have no score", ""]
    for model, entry in summary["models"].items():
        counts = entry.get("statuses", entry["all"].get("statuses"))
        words = (
            "too few of one status" if counts is None else ", ".join(f"{k} {n}" for k, n in counts.items())
        )
        lines.append(f"- {model}: {words}")
    return "\n".join([*lines, "", *_against(summary, shown)]) + "\n"


class _Shown:
    """Numbers as text: whole percents for a restricted set."""

    def __init__(self, restricted: bool) -> None:
        self.restricted = restricted

    def percent(self, value: float | None) -> str:
        if value is None:
            return "-"
        return f"{round(100 * value)} %" if self.restricted else percent(value)

    def rate(self, node: Mapping[str, Any]) -> str:
        return _with_interval(node, self.percent, "-")

    def number(self, node: Mapping[str, Any]) -> str:
        digits = 1 if self.restricted else 2
        return _with_interval(node, lambda value: f"{value:.{digits}f}", "not defined")

    def bounds(self, part: Mapping[str, Any]) -> str:
        return f"{self.percent(part['lower'])} / {self.percent(part['upper'])}"


def _with_interval(node: Mapping[str, Any], text: Callable[[float], str], absent: str) -> str:
    if node["value"] is None:
        return str(node.get("withheld") or absent)
    interval = f" ({text(node['ci'][0])} to {text(node['ci'][1])})" if node["ci"] else ""
    return text(node["value"]) + interval


_HEAD = "| model | answers | n | accuracy (95 %) | if all unscored were wrong / right | coverage | by judge | judge |"


def _accuracy(summary: Mapping[str, Any], shown: _Shown) -> list[str]:
    status = summary["calibration"]["status"]
    rows = [_HEAD, "|---|---|---:|---:|---:|---:|---:|---|"]
    for model, entry in summary["models"].items():
        judge = f"{', '.join(entry['judges'])} ({status})" if entry["judges"] else "none"
        judge += f", {entry['self_judging']} of its own answers" if entry["self_judging"] else ""
        rows.append(_row(model, "all", entry["all"], judge, shown))
        if len(entry["kinds"]) > 1:
            rows += [_row(model, kind, part, "", shown) for kind, part in entry["kinds"].items()]
    return rows


def _row(model: str, kind: str, part: Mapping[str, Any], judge: str, shown: _Shown) -> str:
    cells = [model, kind, str(part["n"]), shown.rate(part["accuracy"]), shown.bounds(part)]
    cells += [shown.rate(part["coverage"]), shown.rate(part["by_judge"]), judge]
    return f"| {' | '.join(cells)} |"


def _calibration(summary: Mapping[str, Any], shown: _Shown) -> list[str]:
    node, lines = summary["calibration"], ["## How reliable the judge is", ""]
    if node["status"] == UNCALIBRATED:
        return [
            *lines,
            f"**{UNCALIBRATED}**: no person has labelled these answers, so it is not known how often the judge is right.",
        ]
    for name in ("verdicts", "nuggets"):
        part = node[name]
        if part is None:
            continue
        shares = [f"{label} {shown.percent(x)}" for label, x in part["base_rates"]["first"].items()]
        lines.append(
            f"- {name}: n {part['n']}, kappa {shown.number(part['kappa'])}, the same word {shown.rate(part['raw'])};"
            f" people say {', '.join(shares) or '(too few)'}; unread by the judge {part['n_judge_unread']}"
        )
        corrected = part.get("corrected_rate")
        if corrected:
            lines.append(
                f"- rate of right answers, corrected for the judge's errors, among those it judged: {shown.rate(corrected)}"
            )
    return lines


def _against(summary: Mapping[str, Any], shown: _Shown) -> list[str]:
    """Every other model against the base model."""
    node = summary["against_base"]
    if node is None:
        return []
    head = "| model | both answered | difference (95 %) | if unscored went against / for it | gained | lost | p (Holm) |"
    rows = [f"## Against {node['base']}", "", head, "|---|---:|---:|---:|---:|---:|---:|"]
    for model, entry in node["models"].items():
        p = "-" if entry["p_holm"] is None else f"{entry['p_holm']:{'g' if shown.restricted else '.4f'}}"
        counts = ["-" if entry[name] is None else str(entry[name]) for name in ("gained", "lost")]
        both, difference = str(entry["n_both"]), shown.rate(entry["difference"])
        rows.append(f"| {' | '.join([model, both, difference, shown.bounds(entry), *counts, p])} |")
    return [*rows, ""]


# Beside the other scores of a run

NOT_PREPARED = "not_prepared"
"""The reason of an item of the run that is in no file of `free prepare`."""


def attached(
    grades: Sequence[GradeResult],
    items: Sequence[FreeItem],
    run_items: Sequence[Item],
    labels: Sequence[HumanLabel] = (),
    seed: int = 0,
) -> FreeGrades:
    """The grades as rows of a run with these `run_items`; `labels` are people's, which calibrate the judges.

    Raises:
        AuthorisationError: grades of a restricted set, whose items cannot be matched by their content.
        DataError: no grades, grades of items that are not in the run or not in `items`, items that differ, or two
            grades of one model for one item.
    """
    if any(item.restricted for item in items) or any(grade.restricted for grade in grades):
        raise AuthorisationError(
            "grades: are of a restricted set; expected those of a public one: a restricted run keeps no rows of items"
        )
    if not grades:
        raise DataError("grades: none; expected the file that `robustify free grade` wrote")
    questions, in_run = {item.id: item for item in items}, {item.id: item for item in run_items}
    faults = [_fault(name, questions, in_run) for name in dict.fromkeys(g.item_id for g in grades)]
    counts = Counter((grade.item_id, grade.model) for grade in grades)
    faults += [
        f"grade of {item}: {n} of {model}; expected one (give the grades of one prompt)"
        for (item, model), n in counts.items()
        if n > 1
    ]
    if any(faults):
        raise DataError.gather([fault for fault in faults if fault])
    reasons = [questions[i.id].excluded_reason if i.id in questions else NOT_PREPARED for i in run_items]
    return FreeGrades(
        rows=tuple(_free_row(grade) for grade in grades),
        calibration=calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        left_out=dict(sorted(Counter(reason for reason in reasons if reason).items())),
        sha256=_digest(grades),
    )


def _fault(name: str, questions: Mapping[str, FreeItem], in_run: Mapping[str, Item]) -> str:
    if name not in questions:
        return f"grade of {name}: no such item in --items; expected the file it was made from"
    if name not in in_run:
        return f"grade of {name}: the run holds no such item; expected grades of this run's items"
    question, item = questions[name], in_run[name]
    same = (question.question, question.options, question.correct) == (item.stem, item.choices, item.key)
    return "" if same else f"grade of {name}: the run's item has another text or key; expected the same item"


def _free_row(grade: GradeResult) -> FreeRow:
    judge = grade.judge.model if grade.judge is not None and grade.method != "deterministic" else None
    own = "self_judging" in grade.flags
    return FreeRow(grade.item_id, grade.model, str(grade.kind), grade.status, grade.score, judge, own)


def _digest(grades: Sequence[GradeResult]) -> str:
    lines = sorted(json.dumps(grade.json(), sort_keys=True) for grade in grades)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
