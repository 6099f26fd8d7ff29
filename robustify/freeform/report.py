"""What grades say, in one summary and one page: accuracy with its bounds, who judged, and how far to believe it.

It prints counts, rates and names of models and templates, never text of an item or an answer, so that it may be
printed for a restricted set too; there, what is shown is decided by `released`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustify.arrays import Floats
from robustify.errors import UsageError
from robustify.freeform.human import UNCALIBRATED, HumanLabel, calibrate
from robustify.freeform.metrics import against_base, aggregate, clustered_rate, groups_of
from robustify.freeform.released import MIN_CELL, released
from robustify.freeform.schema import DECIDED, FreeItem, GradeResult
from robustify.stats.differences import paired_difference
from robustify.stats.intervals import percent, wilson

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
    """The numbers of a free-response evaluation; of a restricted set those that `released` lets out, by `min_cell`.

    `{"format", "restricted", "models": {MODEL: {"kinds": {KIND: ...}, "all": {accuracy, lower, upper, coverage, by_judge,
    n}, "judges", "templates", "self_judging"}}, "calibration", "ranks": [[MODEL, ...], ...], "differences": {A: {B:
    ...}}, "against_base"}`. `all` is the mean over all answers, each by the grader of its kind; the kinds stand beside
    it. `against_base` is that of `versus`, where a base is named.
    """
    models = list(dict.fromkeys(g.model for g in grades))
    by_model = {model: [g for g in grades if g.model == model] for model in models}
    told = {model: _model(rows, seed, truncated_as_wrong) for model, rows in by_model.items()}
    restricted = any(item.restricted for item in items) or any(grade.restricted for grade in grades)
    summary: dict[str, Any] = {
        "format": FORMAT,
        "restricted": restricted,
        "n_items": len(items),
        "models": told,
        "calibration": calibrate(grades, labels, seed) if labels else {"status": UNCALIBRATED},
        "ranks": ranked({model: _ends(t["all"]) for model, t in told.items()}),
        "differences": {
            a: {b: _difference(by_model[a], by_model[b]) for b in models if b != a} for a in models
        },
        "against_base": None if base is None else against_base(grades, base),
    }
    if not restricted:
        return summary
    shown = released(summary, min_cell)
    bounds = {model: _ends(t["all"]) for model, t in shown["models"].items()}
    # The order by the exact bounds would tell more than the bounds that are shown.
    return {**shown, "ranks": ranked(bounds)}


def _ends(part: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """How low and high an accuracy may lie: its bounds for what is unscored, each with its sampling error (Wilson)."""
    n, low, high = part["n"], part["lower"], part["upper"]
    if not n or low is None or high is None:
        return None, None
    return wilson(low * n, n)[0], wilson(high * n, n)[1]


def _model(grades: Sequence[GradeResult], seed: int, truncated_as_wrong: bool) -> dict[str, Any]:
    kinds = list(dict.fromkeys(str(g.kind) for g in grades))
    parts = {
        kind: aggregate(
            [g for g in grades if g.kind == kind], seed=seed, truncated_as_wrong=truncated_as_wrong
        ).json()
        for kind in kinds
    }
    judges = sorted({g.judge.model for g in grades if g.judge is not None})
    return {
        "kinds": parts,
        "all": _all(grades, seed, truncated_as_wrong),
        "judges": judges,
        "templates": sorted({g.judge.template_id for g in grades if g.judge is not None}),
        "self_judging": sum("self_judging" in g.flags for g in grades),
    }


def _all(grades: Sequence[GradeResult], seed: int, truncated_as_wrong: bool) -> dict[str, Any]:
    scores = credit_of(grades, truncated_as_wrong=truncated_as_wrong)
    n, held = len(scores), scores[~np.isnan(scores)]
    decided = [g for g in grades if g.status in DECIDED]
    by_judge = np.array([float(g.method != "deterministic") for g in decided], dtype=np.float64)
    return {
        "n": n,
        "accuracy": clustered_rate(scores, groups_of(grades), seed).json(),
        "lower": float(held.sum() / n) if n else None,
        "upper": float((held.sum() + n - len(held)) / n) if n else None,
        "coverage": clustered_rate((~np.isnan(scores)).astype(np.float64), groups_of(grades), seed).json(),
        "by_judge": clustered_rate(by_judge, groups_of(decided), seed).json(),
    }


def credit_of(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> Floats:
    """The scores of grades in their order (n,), NaN where an answer is unscored."""
    return np.array(
        [
            0.0 if truncated_as_wrong and g.status == "truncated" else np.nan if g.score is None else g.score
            for g in grades
        ],
        dtype=np.float64,
    )


def unscored_in(grades: Sequence[GradeResult], *, truncated_as_wrong: bool = False) -> float:
    """The share of answers without a score; 0 where there are none."""
    scores = credit_of(grades, truncated_as_wrong=truncated_as_wrong)
    return float(np.isnan(scores).mean()) if len(scores) else 0.0


def by_item(grades: Iterable[GradeResult]) -> dict[str, float]:
    """The mean score of each item that has one: what is compared with another format on the same items."""
    held: dict[str, list[float]] = {}
    for grade in grades:
        if grade.score is not None:
            held.setdefault(grade.item_id, []).append(grade.score)
    return {item: sum(scores) / len(scores) for item, scores in held.items()}


def heuristic_gap(multiple_choice: Mapping[str, float], grades: Sequence[GradeResult]) -> dict[str, Any]:
    """Multiple-choice credit minus free score on the items that have both, with an interval of the paired difference."""
    free = by_item(grades)
    common = [item for item in multiple_choice if item in free]
    named = {g.item_id: g.group or g.item_id for g in grades}
    place = {name: i for i, name in enumerate(dict.fromkeys(named[item] for item in common))}
    groups = np.array([place[named[item]] for item in common], dtype=np.int64)
    return dict(
        paired_difference(
            np.array([multiple_choice[item] for item in common], dtype=np.float64),
            np.array([free[item] for item in common], dtype=np.float64),
            groups if len(place) < len(common) else None,
        ).json()
    )


def _difference(first: Sequence[GradeResult], other: Sequence[GradeResult]) -> dict[str, Any]:
    """One model minus another on the items that both have a score for: a base and its fine-tuned self, say."""
    return heuristic_gap(by_item(first), other)


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


def ranked(bounds: Mapping[str, tuple[float | None, float | None]]) -> list[list[str]]:
    """Models in order, best first; those whose bounds overlap stand together, because nothing tells them apart."""
    known = {
        model: (low, high) for model, (low, high) in bounds.items() if low is not None and high is not None
    }
    out: list[list[str]] = []
    floor = 2.0
    for model in sorted(known, key=lambda m: (-known[m][1], m)):
        low, high = known[model]
        if out and high >= floor:
            out[-1].append(model)
            floor = min(floor, low)
        else:
            out.append([model])
            floor = low
    return out


def page(summary: Mapping[str, Any]) -> str:
    """The summary as a page of Markdown."""
    restricted = bool(summary["restricted"])
    lines = [
        "# Free response",
        "",
        *_accuracy(summary, restricted),
        "",
        *_calibration(summary, restricted),
        "",
    ]
    lines += ["## Why answers have no score", ""]
    for model, told in summary["models"].items():
        counts = _statuses(told)
        told_counts = [f"{name} {n}" for name, n in (counts or {}).items()]
        lines.append(
            f"- {model}: " + ("too few of one status to tell" if counts is None else ", ".join(told_counts))
        )
    lines += ["", *_against(summary, restricted), *_ranks(summary)]
    return "\n".join(lines) + "\n"


_HEAD = "| model | answers | n | accuracy (95 %) | if all unscored were wrong / right | coverage | by judge | judge |"


def _accuracy(summary: Mapping[str, Any], restricted: bool) -> list[str]:
    status = summary["calibration"]["status"]
    rows = [_HEAD, "|---|---|---:|---:|---:|---:|---:|---|"]
    for model, told in summary["models"].items():
        judge = f"{', '.join(told['judges'])} ({status})" if told["judges"] else "none"
        judge += f", {told['self_judging']} of its own answers" if told["self_judging"] else ""
        rows.append(_row(model, "all", told["all"], judge, restricted))
        if len(told["kinds"]) > 1:
            rows += [_row(model, kind, part, "", restricted) for kind, part in told["kinds"].items()]
    return rows


def _row(model: str, kind: str, part: Mapping[str, Any], judge: str, restricted: bool) -> str:
    bounds = f"{_percent(part['lower'], restricted)} / {_percent(part['upper'], restricted)}"
    cells = [model, kind, str(part["n"]), _rate(part["accuracy"], restricted), bounds]
    cells += [_rate(part["coverage"], restricted), _rate(part["by_judge"], restricted), judge]
    return f"| {' | '.join(cells)} |"


def _calibration(summary: Mapping[str, Any], restricted: bool) -> list[str]:
    found = summary["calibration"]
    if found["status"] == UNCALIBRATED:
        return [
            "## How far to believe the judge",
            "",
            f"**{UNCALIBRATED}**: no person has labelled these answers, so nobody knows how often the judge is right.",
        ]
    lines = ["## How far to believe the judge", ""]
    for name in ("verdicts", "nuggets"):
        part = found[name]
        if part is None:
            continue
        shares = ", ".join(
            f"{label} {_percent(share, restricted)}" for label, share in part["base_rates"]["first"].items()
        )
        people = shares or "too few to tell"
        lines += [
            f"- {name}: n {part['n']}, kappa {_number(part['kappa'], restricted)}, the same word"
            f" {_rate(part['raw'], restricted)}; people say {people}; unread by the judge {part['n_judge_unread']}",
        ]
        corrected = part.get("corrected_rate")
        if corrected:
            lines.append(
                f"- right answers behind the judge's word, among those it judged: {_rate(corrected, restricted)}"
            )
    return lines


def _statuses(told: Mapping[str, Any]) -> dict[str, int] | None:
    if "statuses" in told:
        released_counts: dict[str, int] | None = told["statuses"]
        return released_counts
    counts: dict[str, int] = {}
    for part in told["kinds"].values():
        for name, n in part["statuses"].items():
            counts[name] = counts.get(name, 0) + n
    return counts


def _against(summary: Mapping[str, Any], restricted: bool) -> list[str]:
    """What became of a base model, item by item."""
    found = summary["against_base"]
    if found is None:
        return []
    head = "| model | both answered | difference (95 %) | if unscored went against / for it | gained | lost | p (Holm) |"
    rows = [f"## Against {found['base']}", "", head, "|---|---:|---:|---:|---:|---:|---:|"]
    for model, told in found["models"].items():
        p = "-" if told["p_holm"] is None else f"{told['p_holm']:{'g' if restricted else '.4f'}}"
        bounds = f"{_percent(told['lower'], restricted)} / {_percent(told['upper'], restricted)}"
        cells = [model, str(told["n_both"]), _rate(told["difference"], restricted), bounds]
        rows.append(f"| {' | '.join([*cells, *map(_count, (told['gained'], told['lost'])), p])} |")
    return [*rows, ""]


def _ranks(summary: Mapping[str, Any]) -> list[str]:
    groups = summary["ranks"]
    if len(summary["models"]) < 2:
        return []
    shown = "; then ".join(" and ".join(group) for group in groups)
    told = (
        " Models in one group cannot be told apart: their bounds, with the luck of the draw, overlap."
        if any(len(g) > 1 for g in groups)
        else ""
    )
    return ["## Order", "", f"{shown}.{told}"]


def _count(n: int | None) -> str:
    return "-" if n is None else str(n)


def _percent(value: float | None, restricted: bool) -> str:
    if value is None:
        return "-"
    return f"{round(100 * value)} %" if restricted else percent(value)


def _rate(found: Mapping[str, Any], restricted: bool) -> str:
    if found["value"] is None:
        return str(found.get("withheld") or "-")
    ci = found["ci"]
    interval = f" ({_percent(ci[0], restricted)} to {_percent(ci[1], restricted)})" if ci else ""
    return f"{_percent(found['value'], restricted)}{interval}"


def _number(found: Mapping[str, Any], restricted: bool) -> str:
    if found["value"] is None:
        return str(found.get("withheld") or "not defined")
    digits = 1 if restricted else 2
    ci = found["ci"]
    interval = f" ({ci[0]:.{digits}f} to {ci[1]:.{digits}f})" if ci else ""
    return f"{found['value']:.{digits}f}{interval}"
