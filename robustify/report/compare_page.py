"""Print compared runs: lines for a terminal, and a page with what changed first.

The page is printed as a report is, without a script and without a request. It has ids of items of public runs, never a
text.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from robustify.report.comparing import Comparison, Pair, rule_of, shown
from robustify.report.figures import Kind, Plot, dot_plot
from robustify.report.format import at, count, counted, in_points, joined, percent, plain, points, rate
from robustify.report.opening import FirstScreen, Tile
from robustify.report.printing import html
from robustify.report.tables import Cell, Table, text_table
from robustify.run import EXPLORER, Run

KINDS: tuple[Kind, ...] = ("before", "main", "chance")
DRAWN = {"removed": "removed", "full": "full", "cloze_chars": "cloze"}
MOST_ROWS, MOST_ITEMS = 6, 2000
"""Lines of the figure, and items of a pair that are listed."""


def comparison_lines(found: Comparison) -> list[str]:
    """Return the comparison for a terminal."""
    lines: list[str] = []
    for place, (run, s) in enumerate(zip(found.runs, found.summaries, strict=True), start=1):
        lines += _run_lines(place, run, s)
    for pair in found.pairs:
        lines += [*_pair_lines(pair), f"  {found.chance_of(pair)}"]
    return lines


def _run_lines(place: int, run: Run, s: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{place}] {plain(str(run.folder))}: {at(s, 'certificate.verdict') or 'no verdict'}"
    yield f"    {plain(run.manifest['signature'], 500)}"
    expected = at(s, "screen.expected_flags.value")
    by_chance = "" if expected is None else f"; {counted(round(expected), 'item')} expected by chance alone"
    yield f"    removed by {rule_of(s)}: {rate(at(s, 'screen.flagged'))}{by_chance}"
    sizes = {name: at(s, f"splits.{name}") for name in ("robust", "shortcut", "undecided")}
    chance = at(s, "benchmark.chance_accuracy")
    splits = ", ".join(f"{name} {n}" for name, n in sizes.items() if n is not None) or "not shown"
    yield f"    splits: {splits}{'' if chance is None else f'; chance {percent(chance)}'}"


def _pair_lines(pair: Pair) -> Iterator[str]:
    yield ""
    if pair.why_not is not None:
        yield f"{pair.names}: items are not compared ({pair.why_not})"
    else:
        alone = sum(pair.n_only)
        other = f"; {counted(alone, 'item')} in one of them only" if alone else ""
        both = f"{counted(len(pair.items), 'item')} in both, {count(len(pair.moved))} with another verdict"
        yield f"{pair.names}: {both}{other}"
        moved = Counter(f"{a} -> {b}" for a, b in pair.moved.values())
        yield from (f"  {n} {kind}" for kind, n in sorted(moved.items()))
    for change in pair.changes:
        both = f"{rate(change.first)} -> {rate(change.second)}"
        seen = "" if change.mde is None else f" (80 % power from {in_points(change.mde)})"
        yield f"  {change.label}: {both}, {points(change.difference)}: {change.noise}{seen}"


def comparison_html(found: Comparison, beside: Path | None = None) -> str:
    """Return the page; if it is in the folder `beside`, items that moved lead to the runs' explorers."""
    names = [f"[{i}] {plain(run.folder.resolve().name)}" for i, run in enumerate(found.runs, start=1)]
    return html(
        "compare.html.j2",
        name=", ".join(names),
        signature="; ".join(plain(run.manifest["signature"], 500) for run in found.runs),
        first=_first(found),
        todo=list(_todo(found)),
        plot=_plot(found, names),
        pairs=[(pair, found.chance_of(pair), _moved(pair, beside)) for pair in found.pairs],
        runs=list(zip(names, ({**s, "rule": rule_of(s)} for s in found.summaries), strict=True)),
        most=MOST_ITEMS,
    )


def _first(found: Comparison) -> FirstScreen:
    tested = [change for change in found.changes if change.changed is not None]
    changed = [c for c in tested if c.changed]
    known = [pair for pair in found.pairs if pair.why_not is None]
    verdict = "These runs show no number that can be compared."
    if changed:
        are = "is" if len(changed) == 1 else "are"
        verdict = f"{count(len(changed))} of {counted(len(tested), 'difference')} {are} more than noise."
    elif tested:
        verdict = f"No difference between these runs is more than noise: {count(len(tested))} were tested."
    most = max(changed, key=lambda c: abs(c.difference["value"]), default=None)
    largest = ("none", "") if most is None else (in_points(most.difference["value"]), most.label)
    common = count(min(len(p.items) for p in known)) if known else "none"
    moved = count(sum(len(pair.moved) for pair in known)) if known else "not shown"
    modes = {s["full_mode"] for s in found.summaries if s["full_mode"]}
    warning = "The full question was asked by letter in one run and by text in another: a difference may be that alone."
    return FirstScreen(
        verdict,
        "unsure",
        above=(warning,) if len(modes) > 1 else (),
        tiles=(
            Tile("largest change", *largest),
            Tile(
                "items in both" if len(found.runs) == 2 else "items in every two",
                common,
                found.pairs[0].why_not or "",
            ),
            Tile("verdicts moved", moved),
        ),
    )


def _todo(found: Comparison) -> Iterator[tuple[str, dict[str, str]]]:
    for pair in found.pairs:
        if pair.moved:
            said = {"action": f"Look at the {counted(len(pair.moved), 'item')} that moved", "source": ""}
            yield f"#moves-{pair.anchor}", {**said, "why": f"{pair.names} judge them differently"}
    nulls = [c for c in found.changes if c.changed is False and c.difference["value"]]
    if nulls:
        action = f"Do not report {counted(len(nulls), 'difference')} as a change"
        yield "#changed", {"action": action, "why": "each may be noise", "source": ""}
    if any(not c.paired and c.number == "full" and c.part == "all" for c in found.changes):
        why = "differences on the same items have narrower intervals"
        yield "#changed", {"action": "Give the runs the same items", "why": why, "source": ""}


def _plot(found: Comparison, names: list[str]) -> Plot | None:
    """Return what the first run and up to two others show, each on all of its own items with its own interval."""
    others = [pair for pair in found.pairs if pair.runs[0] == 0][: len(KINDS) - 1]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, pair in zip(KINDS[1:], others, strict=False):
        for c in pair.changes:
            if c.part == "all" and c.number in DRAWN:
                one, two = c.models or ("", "")
                row = rows.setdefault(
                    (one, c.number), {KINDS[0]: shown(found.summaries[0], c.number, "all", one)}
                )
                row[kind] = shown(found.summaries[pair.runs[1]], c.number, "all", two)
    labelled = [
        (joined(plain(model) if model else "", DRAWN[number]), row) for (model, number), row in rows.items()
    ]
    series = [(kind, names[i], kind) for i, kind in enumerate(KINDS[: len(others) + 1])]
    chances = {at(s, "benchmark.chance_accuracy") for s in found.summaries}
    lines = [(c, f"chance {percent(c)}") for c in chances if c is not None] if len(chances) == 1 else []
    return dot_plot("accuracy", "Side by side", labelled[:MOST_ROWS], series, lines)


def _moved(pair: Pair, beside: Path | None) -> Table:
    topics = pair.one.run.topics if pair.moved else {}
    pages = [_explorer(side.run, beside) for side in (pair.one, pair.two)]
    rows = []
    for item, both in islice(pair.moved.items(), MOST_ITEMS):
        links = [page and f"{page}#item={quote(item, safe='')}" for page in pages]
        verdicts = (
            Cell(verdict, link=link, value=verdict) for verdict, link in zip(both, links, strict=True)
        )
        rows.append((plain(item), plain(topics[item]) if topics.get(item) else "", *verdicts))
    heads = ("Item", "Topic", *(f"[{place + 1}]" for place in pair.runs))
    return text_table("Items with another verdict", heads, rows)


def _explorer(run: Run, beside: Path | None) -> str:
    """Return the path of a run's explorer from that folder; empty if it has none."""
    if beside is None or EXPLORER not in run.manifest["files"]:
        return ""
    return quote(Path(os.path.relpath(run.folder / EXPLORER, beside)).as_posix())
