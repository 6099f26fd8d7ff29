"""Heuristics that need no model (the longest option, the first, ...), before and after the removal."""

from collections.abc import Sequence

from robustify.report.blocks import Cell, Kind, Mark, Plot, PlotRow, Section, Table, heads_of, quiet
from robustify.report.format import count, count_cell, decimals, p_cell, percent, rate_cell, spaced
from robustify.report.sections.scores import chance_line
from robustify.summary.result import Summary
from robustify.summary.screened import HeuristicRow, Heuristics

SPLITS = ("all", "shortcut", "robust", "cloze")
Rows = dict[str, HeuristicRow]


def heuristics(summary: Summary) -> Section:
    """Every heuristic before and after the removal, against chance."""
    by_split = _by_split(summary.heuristics or Heuristics())
    names = list(dict.fromkeys(name for rows in by_split.values() for name in rows))
    title = "Heuristics without a model", "Heuristics"
    if not names:
        return Section("heuristics", *title, (quiet("Not measured: the heuristics need the items' text."),))
    return Section.of(
        "heuristics", *title, heuristics_plot(summary, by_split, names), _table(by_split, names)
    )


def _by_split(found: Heuristics) -> dict[str, Rows]:
    rows = (found.all, found.shortcut, found.robust, found.cloze)
    return {split: row or {} for split, row in zip(SPLITS, rows, strict=True)}


def heuristics_plot(summary: Summary, by_split: dict[str, Rows], names: Sequence[str]) -> Plot | None:
    """Each heuristic on all items and on those kept."""
    drawn: tuple[tuple[Kind, str], ...] = (("before", "all"), ("main", "robust"))
    rows = []
    for name in names:
        found = [(kind, by_split[split].get(name)) for kind, split in drawn]
        marks = tuple(Mark(q.value, q.ci, kind) for kind, q in found if q is not None and q.value is not None)
        values = " → ".join(f"{100 * m.value:.{decimals()}f}" for m in marks)
        rows += [PlotRow(spaced(name), marks, f"{values} %")] if marks else []
    if not rows:
        return None
    return Plot(
        "heuristics",
        "Accuracy of each heuristic before and after the removal",
        tuple(rows),
        (("before", "all items"), ("main", "robust items")),
        chance_line(summary),
        "Bars are 95 % intervals. Of all items a point right of chance is a surface feature that gives the key away; of "
        "what was kept it may be what the selection alone explains, which its p takes off.",
    )


def _table(by_split: dict[str, Rows], names: Sequence[str]) -> Table:
    shared = {split: _shared_n(rows) for split, rows in by_split.items()}
    heads = [s.capitalize() if n is None else f"{s.capitalize()}, n = {count(n)}" for s, n in shared.items()]
    everywhere, kept = by_split["all"], by_split["robust"]
    if any(row.expected is not None for row in kept.values()):
        against = (
            "on All against chance, on Robust against what the selection explains: what was kept has its key where the "
            "voters did not find it, so a rule that avoids their picks is right more often without any surface feature."
        )
    else:
        against = "against chance, which on Robust knows nothing of the selection."
    return Table(
        "Accuracy of each heuristic by split",
        heads_of("Heuristic", *heads, "Ties", "p on All", "p on Robust"),
        tuple(
            (
                Cell(spaced(name)),
                *(_rate(rows.get(name), shared[split]) for split, rows in by_split.items()),
                count_cell(everywhere[name].ties if name in everywhere else None),
                p_cell(everywhere[name].p_holm if name in everywhere else None),
                _p_on_kept(kept.get(name)),
            )
            for name in names
        ),
        "Ties share the credit; their number is that on All. p after Holm's correction over the family of "
        f"heuristics, {against}",
    )


def _shared_n(rows: Rows) -> int | None:
    # Said once in the head of the column where all heuristics rest on the same items.
    sizes = {q.n for q in rows.values() if q.value is not None}
    return sizes.pop() if len(sizes) == 1 else None


def _rate(q: HeuristicRow | None, shared: int | None) -> Cell:
    if q is None or q.value is None or shared is None:
        return rate_cell(q)
    return rate_cell(q.model_copy(update={"n": None}))


def _p_on_kept(q: HeuristicRow | None) -> Cell:
    if q is None:
        return p_cell(None)
    return p_cell(q.p_holm, "" if q.expected is None else f"expected {percent(q.expected)}")
