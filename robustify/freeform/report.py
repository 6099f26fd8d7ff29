"""What grades say, as one summary and one page: accuracy with its bounds, who judged, and how reliable the judge is.

It prints counts, rates and names of models and templates, never text of an item or an answer. What of a restricted
set is shown is decided in `permit.released`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustify.errors import UsageError
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.metrics import (
    accuracy_bounds,
    against_base,
    aggregate,
    clustered_rate,
    credit_of,
    groups_of,
    numbers_of,
)
from robustify.freeform.permit import MIN_CELL, released
from robustify.freeform.schema import DECIDED, FreeItem, GradeResult
from robustify.stats.differences import paired_difference
from robustify.stats.intervals import percent, wilson

FORMAT = 1
Ends = tuple[float | None, float | None]


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
    """The numbers of a free-response evaluation; of a restricted set those that `released` shows, by `min_cell`.

    `{"format", "restricted", "models": {MODEL: {"kinds": {KIND: ...}, "all": {accuracy, lower, upper, coverage, by_judge,
    n}, "judges", "templates", "self_judging"}}, "calibration", "ranks": [[MODEL, ...], ...], "differences": {A: {B:
    ...}}, "against_base"}`. `all` is the mean over all answers, each by the grader of its kind; the kinds are given
    beside it. `against_base` is that of `metrics`, where a base is named.
    """
    by_model: dict[str, list[GradeResult]] = {}
    for grade in grades:
        by_model.setdefault(grade.model, []).append(grade)
    models = {model: _model(rows, seed, truncated_as_wrong) for model, rows in by_model.items()}
    restricted = any(item.restricted for item in items) or any(grade.restricted for grade in grades)
    summary: dict[str, Any] = {
        "format": FORMAT,
        "restricted": restricted,
        "n_items": len(items),
        "models": models,
        "calibration": calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        "ranks": _ranks_of(models),
        "differences": {
            a: {b: heuristic_gap(by_item(by_model[a]), by_model[b]) for b in models if b != a} for a in models
        },
        "against_base": None if base is None else against_base(grades, base),
    }
    if not restricted:
        return summary
    shown = released(summary, min_cell)
    # The order by the exact bounds would disclose more than the bounds that are shown.
    return {**shown, "ranks": _ranks_of(shown["models"])}


def _ranks_of(models: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    return ranked({model: _ends(entry["all"]) for model, entry in models.items()})


def _ends(part: Mapping[str, Any]) -> Ends:
    """How low and high an accuracy may be: its bounds for what is unscored, each with its sampling error (Wilson)."""
    n, low, high = part["n"], part["lower"], part["upper"]
    if not n or low is None or high is None:
        return None, None
    return wilson(low * n, n)[0], wilson(high * n, n)[1]


def _model(grades: Sequence[GradeResult], seed: int, truncated_as_wrong: bool) -> dict[str, Any]:
    by_kind: dict[str, list[GradeResult]] = {}
    for grade in grades:
        by_kind.setdefault(str(grade.kind), []).append(grade)
    traces = [g.judge for g in grades if g.judge is not None]
    return {
        "kinds": {
            kind: aggregate(rows, seed=seed, truncated_as_wrong=truncated_as_wrong).json()
            for kind, rows in by_kind.items()
        },
        "all": _all(grades, seed, truncated_as_wrong),
        "judges": sorted({trace.model for trace in traces}),
        "templates": sorted({trace.template_id for trace in traces}),
        "self_judging": sum("self_judging" in g.flags for g in grades),
    }


def _all(grades: Sequence[GradeResult], seed: int, truncated_as_wrong: bool) -> dict[str, Any]:
    scores, groups = credit_of(grades, truncated_as_wrong=truncated_as_wrong), groups_of(grades)
    decided = [g for g in grades if g.status in DECIDED]
    by_judge = np.array([float(g.method != "deterministic") for g in decided], dtype=np.float64)
    lower, upper = accuracy_bounds(scores)
    return {
        "n": len(scores),
        "accuracy": clustered_rate(scores, groups, seed).json(),
        "lower": lower,
        "upper": upper,
        "coverage": clustered_rate((~np.isnan(scores)).astype(np.float64), groups, seed).json(),
        "by_judge": clustered_rate(by_judge, groups_of(decided), seed).json(),
    }


def unscored_in(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> float:
    """The share of answers without a score; 0 where there are none."""
    scores = credit_of(grades, truncated_as_wrong=truncated_as_wrong)
    return float(np.isnan(scores).mean()) if len(scores) else 0.0


def by_item(grades: Iterable[GradeResult]) -> dict[str, float]:
    """The mean score of each item that has one: what is compared with another format on the same items."""
    scores: dict[str, list[float]] = {}
    for grade in grades:
        if grade.score is not None:
            scores.setdefault(grade.item_id, []).append(grade.score)
    return {item: sum(values) / len(values) for item, values in scores.items()}


def heuristic_gap(credit: Mapping[str, float], grades: Sequence[GradeResult]) -> dict[str, Any]:
    """Credit of items (multiple choice, or another model's) minus their free score, where both are there.

    With an interval of the paired difference, clustered where items share a group.
    """
    free = by_item(grades)
    common = [item for item in credit if item in free]
    group = {g.item_id: g.group or g.item_id for g in grades}
    groups = numbers_of([group[item] for item in common])
    first, second = (np.array([scores[i] for i in common], dtype=np.float64) for scores in (credit, free))
    shared = len(set(groups.tolist())) < len(common)
    return dict(paired_difference(first, second, groups if shared else None).json())


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


def ranked(bounds: Mapping[str, Ends]) -> list[list[str]]:
    """Models in order, best first; those whose bounds overlap share a group, because their order is not known."""
    known = [
        (high, low, model)
        for model, (low, high) in bounds.items()
        if low is not None and high is not None
    ]  # fmt: skip
    out: list[list[str]] = []
    floor = 2.0
    for high, low, model in sorted(known, key=lambda entry: (-entry[0], entry[2])):
        if out and high >= floor:
            out[-1].append(model)
            floor = min(floor, low)
        else:
            out.append([model])
            floor = low
    return out


# The page


def markdown_page(summary: Mapping[str, Any]) -> str:
    """The summary as a page of Markdown."""
    shown = _Shown(bool(summary["restricted"]))
    lines = ["# Free response", "", *_accuracy(summary, shown), "", *_calibration(summary, shown), ""]
    lines += ["## Why answers have no score", ""]
    for model, entry in summary["models"].items():
        counts = _statuses(entry)
        words = (
            "too few of one status" if counts is None else ", ".join(f"{k} {n}" for k, n in counts.items())
        )
        lines.append(f"- {model}: {words}")
    return "\n".join([*lines, "", *_against(summary, shown), *_ranks(summary)]) + "\n"


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


def _statuses(entry: Mapping[str, Any]) -> Mapping[str, int] | None:
    if "statuses" in entry:
        given: Mapping[str, int] | None = entry["statuses"]
        return given
    counts: Counter[str] = Counter()
    for part in entry["kinds"].values():
        counts.update(part["statuses"])
    return counts


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
        cells = [
            model,
            str(entry["n_both"]),
            shown.rate(entry["difference"]),
            shown.bounds(entry),
            *counts,
            p,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return [*rows, ""]


def _ranks(summary: Mapping[str, Any]) -> list[str]:
    groups = summary["ranks"]
    if len(summary["models"]) < 2:
        return []
    order = "; then ".join(" and ".join(group) for group in groups)
    equal = " The order within a group is not known: the bounds, with their sampling error, overlap."
    return ["## Order", "", f"{order}.{equal if any(len(g) > 1 for g in groups) else ''}"]
