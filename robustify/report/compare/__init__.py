"""Comparison of finished runs as text and as an HTML page (`robustify compare`), with IDs of items but no item text."""

from collections.abc import Iterator, Sequence
from typing import Any

from robustify.judging.measures import FULL
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.result import Summary
from robustify.report.advice import Recommendation
from robustify.report.compare.change import Change, differences_plot
from robustify.report.compare.comparing import Comparison, RunPair
from robustify.report.compare.comparing import compared as compared
from robustify.report.format import (
    Table,
    between,
    cell,
    count,
    counted,
    in_points,
    p_value,
    plain,
    table,
    text_table,
)
from robustify.report.opening import FirstScreen
from robustify.report.printing import html, markdown, printed_table
from robustify.report.verdict import grounds

MOST_ITEMS = 2000
"""Maximum number of items listed per pair."""
TWO_MODES = "The full question was asked by letter in one run and by text in another, which alone may explain a difference."


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return the comparison as lines for a terminal."""
    return markdown("compare.j2", **_values(comparison)).splitlines()


def comparison_tables(comparison: Comparison, form: str) -> list[str]:
    """Return a table of every pair of runs in Markdown, LaTeX, or CSV, as lines."""
    tables = (printed_table(_numbers(pair, "Differences"), form) for pair in comparison.pairs)
    return "\n".join(tables).splitlines()


def comparison_html(comparison: Comparison) -> str:
    """Return the comparison as an HTML page."""
    return html("compare.html.j2", **_values(comparison))


def _values(comparison: Comparison) -> dict[str, Any]:
    names = [f"[{i}] {plain(run.folder.resolve().name)}" for i, run in enumerate(comparison.runs, start=1)]
    summaries = [run.summary for run in comparison.runs]
    rules = [_rule(s) for s in summaries]
    rows = (
        (name, s.benchmark.name, rule, s.splits.all, s.benchmark.chance_accuracy, s.splits.flagged, s.splits.kept,
         s.state)
        for name, rule, s in zip(names, rules, summaries, strict=True)
    )  # fmt: skip
    heads = ("Run", "Benchmark", "Rule", "Items", "Guessing is right", "Flagged", "Kept", "State")
    return {
        "name": ", ".join(names),
        "signature": "; ".join(plain(run.manifest["signature"], 500) for run in comparison.runs),
        "first": _first(comparison),
        "pairs": comparison.pairs,
        "runs": [
            (run, rule, grounds(run.summary).flagged_by_chance)
            for run, rule in zip(comparison.runs, rules, strict=True)
        ],
        "table": table("The runs", heads, rows),
        "numbers": _numbers,
        "moves": _moves,
        "most": MOST_ITEMS,
        "plot": differences_plot(_plotted(comparison)),
    }


def _plotted(comparison: Comparison) -> Iterator[tuple[str, Quantity]]:
    """Yield the labels and differences of all pairs. If there are several pairs, the labels include the runs' numbers."""
    for pair in comparison.pairs:
        runs = (
            f"[{pair.first.place + 1}] and [{pair.second.place + 1}]: " if len(comparison.pairs) > 1 else ""
        )
        yield from ((f"{runs}{change.label}", change.difference) for change in pair.changes)


def _rule(s: Summary) -> str:
    if s.screen is None:
        return "no screen"
    return f"{s.screen.criterion}/{s.screen.mode}" if s.screen.voters else f"{s.screen.criterion}, no voters"


def _numbers(pair: RunPair, caption: str) -> Table:
    rows = (
        (c.label, *(cell(q, "points" if c.in_points else "rate") for q in (c.first, c.second)),
         cell(c.difference, "points", "" if c.p_holm is None else f"{p_value(c.p_holm)} by Holm",
              "" if c.mde is None else f"80 % power at {in_points(c.mde)}"),
         "paired" if c.paired else "not paired", c.noise)
        for c in pair.changes
    )  # fmt: skip
    return table(caption, ("Number", "First", "Second", "Difference", "Items", "Noise?"), rows)


def _moves(pair: RunPair) -> Table:
    """Return a table of the items whose verdict or text differs between the two runs."""
    rows = [
        (item.first, f"edited: {', '.join(item.edited)}" if item.edited else "same text", item.was, item.now)
        for item in pair.items if item.edited or item.moved
    ]  # fmt: skip
    return text_table(
        "Items with a different verdict or text", ("Item", "Text", "First", "Second"), rows, names=2
    )


def _first(comparison: Comparison) -> FirstScreen:
    tested = [change for change in comparison.changes if change.changed is not None]
    changed = [c for c in tested if c.changed]
    matched = [pair for pair in comparison.pairs if pair.why_not is None]
    verdict = "These runs show no number that can be compared."
    if changed:
        are = "is" if len(changed) == 1 else "are"
        verdict = f"{count(len(changed))} of {counted(len(tested), 'difference')} {are} more than noise."
    elif tested:
        verdict = f"No difference between these runs is more than noise ({count(len(tested))} tested)."
    on_all_items = [c for c in changed if c.part == "all"]
    most = max(on_all_items or changed, key=lambda c: abs(c.difference.value or 0.0), default=None)
    modes = {run.summary.full_mode for run in comparison.runs if FULL.read(run.summary)}
    edited = [pair for pair in matched if pair.edited]
    facts = []
    if len(matched) == len(edited) == 1:
        facts = [*edited[0].effect, verdict]
        verdict = facts.pop(0)
    if matched:
        both = "both" if len(comparison.runs) == 2 else "every two"
        facts.append(f"{counted(min(len(pair.items) for pair in matched), 'item')} in {both}.")
        facts.append(f"{counted(sum(len(pair.moved) for pair in matched), 'verdict')} moved.")
    else:
        facts.append(f"Items are not compared: {comparison.pairs[0].why_not}.")
    warnings = dict.fromkeys(
        f"Caution: {warning}." for pair in comparison.pairs if (warning := pair.says("warning"))
    )
    above = (*((TWO_MODES,) if len(modes) > 1 else ()), *warnings)
    noticeable = min((c.mde for c in tested if c.mde is not None), default=None)
    number = _largest(most) if most else ""
    if not changed and noticeable is not None:
        number = f"Only a difference of {in_points(noticeable)} or more would probably have been noticed."
    return FirstScreen(
        verdict,
        "unsure",
        above,
        number,
        checks=tuple((None, fact) for fact in facts),
        todo=_todo(comparison, tested, changed),
    )


def _largest(change: Change) -> str:
    ends = f" ({between(change.difference.ci)})" if change.difference.ci else ""
    first, second = (
        cell(q, "points" if change.in_points else "rate").main for q in (change.first, change.second)
    )
    return f"{change.label}: {first}, then {second}, {in_points(change.difference.value or 0.0)}{ends}."


def _todo(
    comparison: Comparison, tested: Sequence[Change], changed: Sequence[Change]
) -> tuple[Recommendation, ...]:
    if comparison.degraded:
        worse = f"The last run is worse ({comparison.degraded[0]}): look at the items that moved"
        return (Recommendation("degraded", worse, "moved", len(comparison.degraded)),)
    if changed:
        return (Recommendation("quote", "Quote the changes with their intervals", "changed", len(changed)),)
    return (
        Recommendation("noise", "Report no change; smaller ones need more items", "changed", len(tested)),
    ) * bool(tested)
