"""Table rows that combine several parts of a summary."""

from collections.abc import Iterator, Mapping
from typing import Any

from robustify.report.format import at, spaced


def heuristics(s: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the results of each heuristic by split."""
    by_split = {split: at(s, f"heuristics.{split}") or {} for split in ("all", "shortcut", "robust", "cloze")}
    names = dict.fromkeys(name for rows in by_split.values() for name in rows)
    return {name: {split: rows.get(name) for split, rows in by_split.items()} for name in names}


AUDITORS = {"non_voters": "did not vote", "leave_one_out": "left out of the vote", "heuristics": "rule"}
"""Labels of the kinds of auditors, by their part of the summary."""


def auditors(s: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield the name, kind, and result of each auditor of the kept items."""
    for part, kind in AUDITORS.items():
        for name, auditor in (at(s, f"residual.{part}") or {}).items():
            yield (spaced(name) if kind == "rule" else name, kind), auditor
    if at(s, "residual.probe"):
        yield (
            ("probe", "fresh, but a probe voted" if at(s, "residual.probe_voted") else "fresh"),
            s["residual"]["probe"],
        )
    if at(s, "residual.encoder"):
        yield ("meaning of the options", "sentence encoder"), s["residual"]["encoder"]
