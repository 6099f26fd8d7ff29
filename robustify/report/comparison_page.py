"""Runs beside one another as a page: what changed first, then every number, every item that moved, and the runs.

It is printed as a report is, without a script and without a request, and holds ids of items of public runs, never a text.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from robustify.report.blocks import (
    BarPart,
    Cell,
    FirstScreen,
    Group,
    Kind,
    Line,
    Mark,
    Page,
    Plot,
    PlotRow,
    Row,
    Section,
    Tile,
    Todo,
    text_table,
)
from robustify.report.changes import VIEWS, Change, shown
from robustify.report.comparing import Comparison, Pair, chance_of, rule_of, said
from robustify.report.format import (
    absent,
    as_released,
    count,
    count_cell,
    counted,
    decimals,
    half,
    in_points,
    joined,
    noted,
    p_value,
    percent,
    plain,
    points_cell,
    power,
    rate_cell,
    signed,
)
from robustify.report.printing import html
from robustify.run import EXPLORER, Run
from robustify.summary.result import Certificate
from robustify.summary.screened import Benchmark, Screen, Splits

KINDS: tuple[Kind, ...] = ("before", "main", "chance")
MOST_ROWS = 6
"""Lines of the first screen's figure."""
MOST_ITEMS = 2000
"""Items of a pair that the page lists."""
MOST_ASKED = 100
"""Times the items asked beyond which more items are no advice."""
UNPAIRED = "Rows that are not paired rest on what each run shows; where the items are alike their interval is too wide."
PAIRED = "Paired rows are of the items that both runs answered."


def comparison_html(found: Comparison, beside: Path | None = None) -> str:
    """The text of the page; where it lies in the folder `beside`, items that moved lead to the runs' explorers."""
    with as_released(found.released):
        return html(_page(found, beside))


def _page(found: Comparison, beside: Path | None) -> Page:
    names = _names(found)
    signatures = "; ".join(
        f"[{i}] {plain(run.manifest['signature'], 500)}" for i, run in enumerate(found.runs, start=1)
    )
    return Page(
        name=joined(*(f"[{i}] {name}" for i, name in enumerate(names, start=1))),
        first=_first(found),
        groups=(
            Group("changed", "What changed", "Each difference with its 95 % interval, and whether it is more than noise.",
                  (*_matrices(found), *(_numbers(found, pair) for pair in found.pairs))),
            Group("moved", "Which items moved", "Items that two runs judge otherwise; of a restricted run none is known.",
                  tuple(_moves(found, pair, beside) for pair in found.pairs)),
            Group("runs", "The runs", "What was audited, by which rule, and the verdict.", (_runs(found, names),)),
        ),
        signature=signatures,
    )  # fmt: skip


def _names(found: Comparison) -> list[str]:
    return [plain(run.folder.resolve().name) for run in found.runs]


def between_runs(pair: Pair) -> str:
    """`[1] and [2]`."""
    return "[{}] and [{}]".format(*(place + 1 for place in pair.runs))


def _first(found: Comparison) -> FirstScreen:
    tested = [change for change in found.changes if change.changed is not None]
    n, moved = sum(bool(change.changed) for change in tested), sum(len(pair.moved) for pair in found.pairs)
    known = [pair for pair in found.pairs if pair.why_not is None]
    if n:
        verdict = (
            f"{count(n)} of {counted(len(tested), 'difference')} {'is' if n == 1 else 'are'} more than noise."
        )
    elif tested:
        verdict = f"No difference between these runs is more than noise: {count(len(tested))} were tested."
    else:
        verdict = "These runs show no number that can be compared."
    least = min((len(pair.items) for pair in known), default=0)
    rise = max((c for c in tested if c.changed), key=lambda c: abs(c.difference.value or 0.0), default=None)
    return FirstScreen(
        verdict=verdict,
        tone="unsure",
        above=tuple(_warnings(found)),
        tiles=(
            Tile("largest change", "none" if rise is None else f"{_plus(rise)} points", "" if rise is None else rise.label),
            Tile("items in both" if len(found.runs) == 2 else "items in every two", count(least) if known else "none",
                 "compared one by one" if known else (found.pairs[0].why_not or "")),
            Tile("verdicts moved", count(moved) if known else "not shown",
                 "" if len(found.pairs) == 1 else f"over {len(found.pairs)} pairs"),
        ),
        bar=tuple(_bar(found.pairs[0])) if len(found.pairs) == 1 else (),
        scores=_plot(found),
        todo=tuple(islice(_todo(found, tested), 5)),
    )  # fmt: skip


def _plus(change: Change) -> str:
    value = 100 * (change.difference.value or 0.0)
    return f"{'+' if value > 0 else ''}{signed(value, decimals())}"


def _warnings(found: Comparison) -> Iterator[str]:
    modes = {s.full_mode for s in found.summaries if s.full_mode}
    if len(modes) > 1:
        yield "The full question was asked by letter in one run and by text in another: a difference may be that alone."


def _bar(pair: Pair) -> Iterator[BarPart]:
    kinds = Counter(
        "same" if a == b else "now" if b == "shortcut" else "was" if a == "shortcut" else "other"
        for a, b in pair.items.values()
    )
    if pair.items:
        yield BarPart("robust", kinds["same"], f"{count(kinds['same'])} judged alike")
    if kinds["now"]:
        yield BarPart("shortcut", kinds["now"], f"{count(kinds['now'])} now shortcut")
    if kinds["was"]:
        yield BarPart("chance", kinds["was"], f"{count(kinds['was'])} no longer shortcut")
    if kinds["other"]:
        yield BarPart("undecided", kinds["other"], f"{count(kinds['other'])} moved otherwise")


def _plot(found: Comparison) -> Plot | None:
    """What the first run and up to two others show, each on all of its own items with its own interval."""
    shares = [pair for pair in found.pairs if pair.runs[0] == 0][: len(KINDS) - 1]
    rows: dict[tuple[str, str], list[Mark]] = {}
    for kind, pair in zip(KINDS[1:], shares, strict=False):
        for change in pair.changes:
            if change.part != "all" or change.number not in ("removed", "full", "cloze_chars"):
                continue
            one, two = change.models or ("", "")
            marks = rows.setdefault((one, change.number), [])
            sides = [(kind, pair.runs[1], two)] if marks else [(KINDS[0], 0, one), (kind, pair.runs[1], two)]
            for mark, place, model in sides:
                q = shown(found.summaries[place], change.number, "all", model)
                marks += [Mark(q.value, q.ci, mark)] if q is not None and q.value is not None else []
    lines: list[PlotRow] = []
    for (model, number), marks in islice(rows.items(), MOST_ROWS):
        if model and all(model != name for name, _ in list(rows)[: list(rows).index((model, number))]):
            lines.append(PlotRow(_model(found, model)))
        values = " \u2192 ".join(f"{100 * mark.value:.0f}" for mark in marks)
        lines.append(PlotRow(VIEWS.get(number, number), tuple(marks), f"{values} %"))
    named = enumerate(_names(found)[: len(shares) + 1], start=1)
    legend = tuple((kind, f"[{i}] {name}") for kind, (i, name) in zip(KINDS, named, strict=False))
    chances = {(s.benchmark or Benchmark()).chance_accuracy for s in found.summaries}
    chance = (
        tuple(Line(c, f"chance {percent(c)}") for c in chances if c is not None) if len(chances) == 1 else ()
    )
    return Plot("accuracy", "Side by side", tuple(lines), legend, chance) if lines else None


def _model(found: Comparison, first: str) -> str:
    """The first run's model, and the one that it is compared with where that has another name."""
    pairs = (
        change.models for change in found.changes if change.models is not None and change.models[0] == first
    )
    return " / ".join(plain(name) for name in dict.fromkeys(next(pairs, (first, first))))


def _todo(found: Comparison, tested: list[Change]) -> Iterator[Todo]:
    for pair in found.pairs:
        if pair.moved:
            action = f"Look at the {counted(len(pair.moved), 'item')} that moved"
            action += f": {between_runs(pair)}" if len(found.pairs) > 1 else ""
            yield Todo(action, f"{between_runs(pair)} judge them otherwise", _anchor("moves", pair.runs))
    nulls = [c for c in tested if c.mde is not None and c.difference.value]
    if nulls:
        at = _anchor("numbers", nulls[0].runs)
        yield Todo(f"Do not report {counted(len(nulls), 'difference')} as a change", "each may be noise", at)
        near = max(nulls, key=lambda c: abs(c.difference.value or 0.0) / (c.mde or 1.0))
        n, value = near.difference.n or 0, near.difference.value or 0.0
        need = round(n * ((near.mde or 0.0) / value) ** 2)
        if near.paired and n < need <= MOST_ASKED * n:
            why = f"{near.label}: {in_points(value)} on {counted(n, 'item')}, 80 % power"
            yield Todo(f"Ask {count(need)} items to settle the nearest", why, _anchor("numbers", near.runs))
    apart = [c for c in tested if not c.paired and c.number == "full" and c.part == "all"]
    if apart:
        why = "differences on the same items have narrower intervals"
        yield Todo("Give the runs the same items", why, _anchor("numbers", apart[0].runs))


def _anchor(part: str, runs: tuple[int, int]) -> str:
    return f"#{part}-{runs[0]}-{runs[1]}"


def _numbers(found: Comparison, pair: Pair) -> Section:
    title = f"{between_runs(pair)}: every number"
    rows = (
        (c.label, rate_cell(c.first), rate_cell(c.second), _difference(c), _verdict(c)) for c in pair.changes
    )
    heads = ("", *_heads(pair.runs), "Difference", "Noise?")
    paired = {change.paired for change in pair.changes}
    note = joined(PAIRED if True in paired else "", UNPAIRED if False in paired else "").replace("., ", ". ")
    voter = " * A voter: Robust is biased by selection." if any(c.voter for c in pair.changes) else ""
    note = " ".join(filter(None, (note + voter, chance_of(found, pair))))
    numbers = text_table(title, heads, rows, note) if pair.changes else "No number is in both."
    return Section.of(_anchor("numbers", pair.runs)[1:], title, numbers)


def _heads(runs: Iterable[int]) -> Iterator[str]:
    return (f"[{place + 1}]" for place in runs)


def _difference(change: Change) -> Cell:
    cell = points_cell(change.difference)
    beside = joined(
        "paired" if change.paired else "not paired", "" if change.p_holm is None else p_value(change.p_holm)
    )
    return noted(cell, beside, power(change.mde))


def _verdict(change: Change) -> Cell:
    if change.changed is None:
        return absent(said(change))
    return Cell("changed") if change.changed else Cell("within noise", said(change), "absent")


def _matrices(found: Comparison) -> Iterator[Section]:
    """Of three runs and more each number as a matrix: the run of the column less that of the row."""
    labels = dict.fromkeys(c.label for c in found.changes) if len(found.runs) > 2 else {}
    tables, places = [], range(len(found.runs))
    for label in labels:
        by_runs = {c.runs: c for c in found.changes if c.label == label}
        rows: list[Row] = [(f"[{i + 1}]", *(_entry(by_runs, i, j) for j in places)) for i in places]
        tables.append(text_table(label, ("", *_heads(places)), rows))
    if tables:
        said_of = (
            "The run of the column less that of the row, in points; a badge where it is more than noise."
        )
        yield Section.of("matrix", "Every run against every other", said_of, *tables)


def _entry(by_runs: dict[tuple[int, int], Change], i: int, j: int) -> Cell:
    change, turned = by_runs.get((min(i, j), max(i, j))), i > j
    if i == j:
        return Cell("\u2013")
    if change is None or change.difference.value is None:
        return absent()
    value, ci = change.difference.value, change.difference.ci
    return Cell(
        in_points(-value if turned else value),
        joined("" if ci is None else f"{half(ci)} points", "paired" if change.paired else "not paired"),
        badge="changed" if change.changed else "",
        spread=half(ci),
    )


def _moves(found: Comparison, pair: Pair, beside: Path | None) -> Section:
    title, at = f"{between_runs(pair)}: verdicts", _anchor("moves", pair.runs)[1:]
    if pair.why_not is not None:
        return Section.of(at, title, f"Items are not compared: {pair.why_not}.")
    kinds = ((a, b, count(n)) for (a, b), n in sorted(Counter(pair.items.values()).items()))
    counts = text_table("Items by both verdicts", ("", "", "Items"), kinds, words=2)
    topics = found.runs[pair.runs[0]].topics
    pages = [_explorer(found.runs[place], beside) for place in pair.runs]
    rows: list[Row] = []
    for item, both in islice(pair.moved.items(), MOST_ITEMS):
        at_item = [page and f"{page}#item={quote(item, safe='')}" for page in pages]
        verdicts = (Cell(verdict, link=link) for verdict, link in zip(both, at_item, strict=True))
        rows.append((plain(item), plain(topics[item]) if topics.get(item) else "", *verdicts))
    heads = ("Item", "Topic", *_heads(pair.runs))
    alone = f"{counted(sum(pair.n_only), 'item')} in one of them only. " if sum(pair.n_only) else ""
    more = (
        f"The first {count(MOST_ITEMS)} of {count(len(pair.moved))}." if len(pair.moved) > MOST_ITEMS else ""
    )
    if not rows:
        return Section.of(at, title, counts, f"{alone}None moved.")
    listed = text_table("Items with another verdict", heads, rows, f"{alone}{more}".strip(), words=4)
    return Section.of(at, title, counts, listed)


def _explorer(run: Run, beside: Path | None) -> str:
    """Where a run's explorer is from there; empty where it has none."""
    if beside is None or run.restricted or EXPLORER not in run.manifest["files"]:
        return ""
    return quote(Path(os.path.relpath(run.folder / EXPLORER, beside)).as_posix())


def _runs(found: Comparison, names: list[str]) -> Section:
    rows: list[Row] = []
    for i, (name, summary) in enumerate(zip(names, found.summaries, strict=True), start=1):
        screen, splits = summary.screen or Screen(), summary.splits or Splits()
        verdict = (summary.certificate or Certificate()).verdict
        rows.append((
            f"[{i}] {name}", plain((summary.benchmark or Benchmark()).name or "unnamed"), rule_of(screen),
            count_cell(splits.all), rate_cell(screen.flagged), count_cell(splits.robust),
            verdict or "no verdict",
        ))  # fmt: skip
    heads = ("", "Benchmark", "Rule", "Items", "Removed", "Robust", "Verdict")
    return Section.of("run-list", "What each run came to", text_table("The runs", heads, rows, words=3))
