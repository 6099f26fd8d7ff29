"""The first screen: what is read in five seconds, on the page and, at the end of a run, in 24 lines of a terminal.

Nothing stands here that a later section does not show. Before a run asks it says what that will take.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from robustify.report.advice import bad_items, by_chance, recommendations, verdict_in_short
from robustify.report.blocks import (
    BarPart,
    FirstScreen,
    Kind,
    PartKind,
    Plot,
    PlotRow,
    Tile,
    Todo,
    Tone,
)
from robustify.report.format import (
    as_released,
    between,
    count,
    counted,
    dots,
    joined,
    missing,
    percent,
    plain,
)
from robustify.report.reasons import guardrail_sentence
from robustify.report.sections.headline import above
from robustify.report.sections.scores import chance_line
from robustify.summary.quantity import Quantity
from robustify.summary.result import Certificate, Summary
from robustify.summary.scored import Accuracy, ViewScores
from robustify.summary.screened import Screen, Splits

if TYPE_CHECKING:
    from robustify.ask.forecast import Forecast, Need

MOST_MODELS = 4
SERIES: tuple[tuple[Kind, str], ...] = (
    ("before", "all items"),
    ("main", "robust items"),
    ("chance", "asked without options (cloze)"),
)
CHECKED: Mapping[str | None, str] = {
    "certified": "an outside check agrees",
    "not certified": "a check still finds shortcuts",
    "inconclusive": "no outside check has cleared them",
}
"""What the audit came to, beside what was kept."""
WIDTH = 79
MOST_ABOVE, MOST_TODO, MOST_FAILED = 2, 2, 3
MARKS: Mapping[PartKind, str] = {"robust": "=", "shortcut": "x", "chance": "~", "undecided": "."}
Paint = Callable[[Tone, str], str]
"""A line of the verdict in the colour of its tone."""


def opening(summary: Summary, explorer: bool) -> FirstScreen:
    """The verdict, three numbers, the benchmark as a bar, what models score, what to do now."""
    tone, line = verdict_in_short(summary)
    small = summary.release is not None and summary.release.too_small
    return FirstScreen(
        verdict=line,
        tone=tone,
        above=above(summary),
        tiles=() if small else _tiles(summary),
        bar=() if small else tuple(_bar(summary)),
        scores=None if small else scores_plot(summary),
        todo=tuple(Todo(one.action, one.why, one.link(explorer)) for one in recommendations(summary)),
    )


def _tiles(summary: Summary) -> tuple[Tile, ...]:
    splits, (n, of) = summary.splits or Splits(), bad_items(summary)
    flagged = (summary.screen or Screen()).flagged or Quantity()
    rests = (
        ""
        if flagged.value is None
        else joined(percent(flagged.value), between(flagged.ci) if flagged.ci else "")
    )
    verdict = (summary.certificate or Certificate()).verdict
    return (
        Tile(f"of {count(of)} items need no question" if of else "items need no question", shown(n), rests),
        _chance(summary, n),
        Tile("kept as robust", shown(splits.robust), CHECKED.get(verdict, verdict or "not checked")),
    )


def shown(n: int | None) -> str:
    """A count, or that it is not there."""
    return missing() if n is None else count(n)


def _chance(summary: Summary, n: int | None) -> Tile:
    share = by_chance(summary.screen or Screen())
    if not n or share is None or share.value is None:
        return Tile(
            "of these by chance", missing() if n != 0 else "none", "nothing was flagged" if n == 0 else ""
        )
    ends = "" if share.ci is None else f"{share.ci[0] * n:.0f} to {share.ci[1] * n:.0f}"
    return Tile("of these by chance", f"about {share.value * n:.0f}", ends)


def _bar(summary: Summary) -> Iterator[BarPart]:
    """The benchmark as a bar, of its items; nothing where its parts are not known or not shown."""
    splits = summary.splits or Splits()
    if splits.robust is None or splits.shortcut is None:
        return
    share = (by_chance(summary.screen or Screen()) or Quantity()).value
    random = 0.0 if share is None else share * splits.shortcut
    yield BarPart("robust", splits.robust, f"{count(splits.robust)} robust")
    if splits.shortcut:
        yield BarPart("shortcut", splits.shortcut - random, f"{count(splits.shortcut)} shortcut")
    if random:
        yield BarPart("chance", random, f"of these about {random:.0f} by chance")
    if splits.undecided:
        yield BarPart("undecided", splits.undecided, f"{count(splits.undecided)} undecided")


def scores_plot(summary: Summary) -> Plot | None:
    """What each model scores on all items, on the robust ones and by cloze."""
    models = list((summary.accuracy or {}).items())
    rows = [row for name, entry in models for row in _scores(name, entry)]
    if not rows:
        return None
    drawn = {mark.kind for row in rows for mark in row.marks}
    voted = any(entry.is_voter for _, entry in models)
    more = f"The first {MOST_MODELS} of {counted(len(rows), 'model')}." if len(rows) > MOST_MODELS else ""
    return Plot(
        "accuracy",
        "Accuracy of each model",
        tuple(rows[:MOST_MODELS]),
        tuple((kind, words) for kind, words in SERIES if kind in drawn),
        chance_line(summary),
        f"{'* chose what is kept: low on robust. ' if voted else ''}{more}".strip(),
    )


def _scores(name: str, entry: Accuracy) -> Iterator[PlotRow]:
    full, cloze = entry.full or ViewScores(), entry.cloze_chars or ViewScores()
    kinds = (kind for kind, _ in SERIES)
    found = zip(kinds, (full.all, full.robust, cloze.all), strict=True)
    return dots(f"{plain(name)}{'*' if entry.is_voter else ''}", found)


# On a terminal


def unpainted(_tone: Tone, line: str) -> str:
    """The line as it is."""
    return line


def closing(summary: Summary, folder: str, paint: Paint = unpainted) -> list[str]:
    """The last lines on the terminal, at most 24 of at most 79 characters but for the paths in them."""
    with as_released(summary.release is not None):
        return list(_closing(summary, folder, paint))


def _closing(summary: Summary, folder: str, paint: Paint) -> Iterator[str]:
    screen = opening(summary, explorer=False)
    for sentence in screen.above[:MOST_ABOVE]:
        yield from _wrapped(sentence)
    for line in _wrapped(screen.verdict):
        yield paint(screen.tone, line)
    yield from _marked(screen.bar)
    width = max((len(tile.main) for tile in screen.tiles), default=0)
    for tile in screen.tiles:
        yield f"  {tile.main:>{width}}  {tile.label}{f' ({tile.small})' if tile.small else ''}"[:WIDTH]
    yield from _votes(summary)
    for at, todo in enumerate(screen.todo[:MOST_TODO]):
        yield f"{'' if at else 'do next:':8} {todo.action}"[:WIDTH]
    failed = [] if summary.trial else [g for g in summary.guardrails if g.passed is False]
    for g in failed[:MOST_FAILED]:
        sentence = f"guardrail {plain(g.name or 'unnamed')}: {guardrail_sentence(g)}"
        yield textwrap.shorten(sentence, WIDTH, placeholder=" ...")
    if len(failed) > MOST_FAILED:
        yield f"{counted(len(failed) - MOST_FAILED, 'more guardrail')} failed: robustify check {folder}"
    yield f"report: {PurePath(folder) / 'report.html'}"
    if summary.release is not None and summary.release.published is not False:
        yield f"to publish: robustify export published {folder} -o DIR"


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, WIDTH, subsequent_indent="  ", break_on_hyphens=False, max_lines=3)


def _marked(parts: Sequence[BarPart]) -> Iterator[str]:
    """The benchmark in one line of marks, and what each mark is; a part that is there has at least one."""
    there = [part for part in parts if part.n > 0]
    if not there:
        return
    total, room = sum(part.n for part in there), WIDTH - 2
    widths = [max(1, round(room * part.n / total)) for part in there]
    widths[widths.index(max(widths))] += room - sum(widths)
    yield "[" + "".join(MARKS[part.kind] * width for part, width in zip(there, widths, strict=True)) + "]"
    yield "   ".join(f"{MARKS[part.kind]} {part.words}" for part in there)


def _votes(summary: Summary) -> Iterator[str]:
    """What somebody who asked for a rule that counts votes should know of it."""
    screen = summary.screen
    if screen is None:
        yield "note: no model voted, so nothing was screened (criterion fdr needs no voter)"
    elif screen.criterion == "majority" and len(screen.voters or {}) == 2:
        yield "note: a majority of two voters is both of them, the same as unanimous"


def forecast_lines(found: "Forecast") -> list[str]:
    """What asking will take, a line a model."""
    items = counted(found.items, "item")
    if not found.needs:
        return [f"{found.name}: {items}, no model to ask; rules and a probe take seconds"]
    width = max(len(need.model) for need in found.needs)
    lines = [f"{found.name}: {items}; at most (what the score cache holds is not asked again):"]
    lines += [f"  {plain(need.model):{width}}  {', '.join(_need(need))}" for need in found.needs]
    lines += [
        f"  {plain(need.model)}: {need.megabytes} MB to fetch first: robustify models pull {plain(need.model)}"
        for need in found.needs
        if need.megabytes
    ]
    if found.seconds is not None and len(found.needs) > 1:
        lines.append(f"together {_duration(found.seconds)}")
    return lines


def _need(need: "Need") -> Iterator[str]:
    yield f"about {_rounded(need.requests)} requests"
    if need.tokens is not None:
        yield f"{_rounded(need.tokens)} tokens"
    yield "time unknown for its device" if need.seconds is None else _duration(need.seconds)
    if need.cost is not None:
        yield f"cost {need.cost:,.2f}"


def _rounded(n: float) -> str:
    """A number of which two digits are known."""
    step = 10 ** max(0, len(str(round(n))) - 2)
    return count(round(n / step) * step)


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {max(1, round(seconds)):.0f} s"
