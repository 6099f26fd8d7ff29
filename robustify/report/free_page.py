"""The page of free response: what each model scores by kind and topic, who judged, and how far the judge is to be believed.

Bounds come first: they are over all answers, and an accuracy over those with a score alone. Counts, rates and names of
models and templates are printed, never text of an item or an answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from robustify.stats.intervals import percent

Node = Mapping[str, Any]
_DOUBTS = {
    "few_labels": "fewer than 30 answers have a label of a person and of the judge",
    "kappa_undefined": "kappa has no interval: people gave one label alone, or too few items are labelled",
    "kappa_low": "the lower bound of kappa is not above 0.6",
}


def markdown_page(summary: Node) -> str:
    """The summary of `freeform.report.summarise` as a page of Markdown."""
    shown = _Shown(bool(summary["restricted"]))
    parts = [
        ["# Free response", "", *_scores(summary, shown)],
        _topics(summary, shown),
        _nuggets(summary, shown),
    ]
    parts += [_calibration(summary, shown), _unscored(summary), _against(summary, shown)]
    return "\n".join("\n".join([*part, ""]) for part in parts if part)


class _Shown:
    """Numbers as text: whole percents for a restricted set."""

    def __init__(self, restricted: bool) -> None:
        self.restricted = restricted

    def percent(self, value: float | None) -> str:
        if value is None:
            return "-"
        return f"{round(100 * value)} %" if self.restricted else percent(value)

    def rate(self, node: Node) -> str:
        return _with_interval(node, self.percent, "-")

    def number(self, node: Node) -> str:
        digits = 1 if self.restricted else 2
        return _with_interval(node, lambda value: f"{value:.{digits}f}", "not defined")

    def bounds(self, part: Node) -> str:
        return (
            f"{self.percent(part['lower'])} to {self.percent(part['upper'])}"
            if part["upper"] is not None
            else "-"
        )


def _with_interval(node: Node, text: Callable[[float], str], absent: str) -> str:
    if node["value"] is None:
        return f"withheld: {node['withheld']}" if node.get("withheld") else absent
    interval = f" ({text(node['ci'][0])} to {text(node['ci'][1])})" if node["ci"] else ""
    return text(node["value"]) + interval


def _table(names: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(names) + ["---:"] * len(numbers)
    return [f"| {' | '.join(row)} |" for row in ([*names, *numbers], rule, *rows)]


_MEASURES = (
    "n",
    "if all unscored were wrong / right",
    "accuracy of the scored (95 %)",
    "coverage",
    "by judge",
)


def _cells(part: Node, shown: _Shown) -> list[str]:
    measures = [shown.rate(part[name]) for name in ("accuracy", "coverage", "by_judge")]
    return [str(part["n"]), shown.bounds(part), *measures]


def _scores(summary: Node, shown: _Shown) -> list[str]:
    status, rows = summary["calibration"]["status"], []
    for model, entry in summary["models"].items():
        judge = f"{', '.join(entry['judges'])} ({status})" if entry["judges"] else "none"
        judge += f", {entry['self_judging']} of its own answers" if entry["self_judging"] else ""
        # Kinds mean different things: where there are several, nothing is their mean.
        kinds = entry["kinds"] or {"all": entry["all"]}
        rows += [[model, kind, judge, *_cells(part, shown)] for kind, part in kinds.items()]
        if len(kinds) > 1:
            rows.append([model, "all kinds", judge, *_cells(entry["all"], shown)])
    left_out = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in summary.get("left_out", {}).items())
    return [
        *_table(("model", "answers", "judge"), _MEASURES, rows),
        *(["", f"Rows left out: {left_out}."] if left_out else []),
    ]


def _topics(summary: Node, shown: _Shown) -> list[str]:
    rows = [
        [topic, kind, model, *_cells(part, shown)]
        for model, entry in summary["models"].items()
        for topic, kinds in entry["topics"].items()
        for kind, part in kinds.items()
    ]
    return (
        ["## By topic", "", *_table(("topic", "answers", "model"), _MEASURES, sorted(rows))] if rows else []
    )


def _nuggets(summary: Node, shown: _Shown) -> list[str]:
    """The nugget scores, and how often each label was given."""
    scores, labels = [], []
    for model, entry in summary["models"].items():
        part = entry["kinds"].get("nuggets") or {}
        for name, score in (part.get("nugget_scores") or {}).items():
            scores.append([model, name, str(score["asked"]), shown.bounds(score), shown.rate(score)])
        counts = part.get("labels") or {}
        if counts:
            given = ", ".join(f"{label} {n}" for label, n in counts.items())
            labels.append(
                f"- {model}: {sum(counts.values())} nuggets: {given}; unreviewed {part['nuggets_unreviewed']}"
            )
    heads = ("answers", "if all unread were not stated / stated", "mean of the read (95 %)")
    return ["## Nuggets", "", *_table(("model", "score"), heads, scores), "", *labels] if scores else []


def _calibration(summary: Node, shown: _Shown) -> list[str]:
    node, lines = summary["calibration"], ["## How reliable the judge is", ""]
    parts = {name: node[name] for name in ("verdicts", "nuggets") if node.get(name) is not None}
    if not parts:
        lines.append(
            f"**{node['status']}**: no person has labelled these answers, so it is not known how often the judge is right."
        )
    elif node["status"] == "uncalibrated":
        whys = [f"{name}: {_DOUBTS[part['doubt']]}" for name, part in parts.items() if part["doubt"]]
        lines.append(
            f"**{node['status']}**: {'; '.join(whys) or 'no person has labelled all that the judge decided'}."
        )
    return [*lines, *(line for name, part in parts.items() for line in _agreement(name, part, shown))]


def _agreement(name: str, part: Node, shown: _Shown) -> Iterator[str]:
    shares = [f"{label} {shown.percent(x)}" for label, x in part["base_rates"]["first"].items()]
    yield (
        f"- {name}: n {part['n']}, kappa {shown.number(part['kappa'])}, the same word {shown.rate(part['raw'])};"
        f" people say {', '.join(shares) or '(too few)'}; unread by the judge {part['n_judge_unread']}"
    )
    corrected = part.get("corrected_rate")
    if corrected:
        yield (
            f"- rate of right answers, corrected for the judge's errors, among those it judged: {shown.rate(corrected)}"
        )


def _unscored(summary: Node) -> list[str]:
    lines = ["## Why answers have no score", ""]
    for model, entry in summary["models"].items():
        counts = entry.get("statuses", entry["all"].get("statuses"))
        words = (
            "too few of one status" if counts is None else ", ".join(f"{k} {n}" for k, n in counts.items())
        )
        lines.append(f"- {model}: {words}")
    return lines


def _against(summary: Node, shown: _Shown) -> list[str]:
    """Every other model against the base model, by kind and by topic."""
    node = summary["against_base"]
    if node is None:
        return []
    base, rows = node["base"], []
    for model, entry in node["models"].items():
        for topic, pairs in {"": entry["kinds"], **entry["topics"]}.items():
            for kind, pair in pairs.items():
                both = [summary["models"][name] for name in (base, model)]
                kinds = [entry["topics"].get(topic, {}) if topic else entry["kinds"] for entry in both]
                ends = [shown.bounds(parts[kind]) if kind in parts else "-" for parts in kinds]
                rows.append([topic or "all topics", kind, model, *ends, *_pair(pair, shown)])
    heads = (
        base, "model", "pairs decided of both answered", "difference (95 %)", "if unscored went against / for it",
        "gained", "lost", "p (Holm)",
    )  # fmt: skip
    return [f"## Against {base}", "", *_table(("topic", "answers", "model"), heads, rows)]


def _pair(pair: Node, shown: _Shown) -> list[str]:
    p = "-" if pair["p_holm"] is None else f"{pair['p_holm']:{'g' if shown.restricted else '.4f'}}"
    counts = ["-" if pair[name] is None else str(pair[name]) for name in ("gained", "lost")]
    decided = pair["difference"]["n"]
    pairs = f"{'-' if decided is None else decided} of {pair['n_both']}"
    return [pairs, shown.rate(pair["difference"]), shown.bounds(pair), *counts, p]
