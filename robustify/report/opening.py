"""Make the first screen: what is read in five seconds, on the page and, at the end of a run, on a terminal."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from robustify.baselines.conditional_logit import FEWEST_ITEMS
from robustify.report.advice import Facts, Recommendation, facts, recommendations, verdict_in_short
from robustify.report.format import at, between, count, counted, joined, percent, plain
from robustify.report.messages import guardrail_sentence, is_trial, sentence, tree
from robustify.report.tables import Tone
from robustify.summary.result import Summary

if TYPE_CHECKING:
    from robustify.ask.forecast import Forecast, Need

PartKind = Literal["robust", "shortcut", "chance", "undecided"]
CHECKED: Mapping[str | None, str] = {
    "certified": "no auditor asked here found more; a later model may",
    "not certified": "a check still finds shortcuts",
    "inconclusive": "no outside check has cleared them",
}
"""What the audit found, beside the number of items kept."""
WIDTH, MOST_ABOVE, MOST_TODO, MOST_FAILED, SHOWN_EARLY = 79, 2, 2, 3, 4
MARKS: Mapping[PartKind, str] = {"robust": "=", "shortcut": "x", "chance": "~", "undecided": "."}
Paint = Callable[[Tone, str], str]
"""A function that colours the line of the verdict by its tone."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of the first screen, what it counts, and what it rests on."""

    label: str
    main: str
    small: str = ""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of the benchmark, `n` items; its words are the legend."""

    kind: PartKind
    n: float
    words: str


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """A verdict, what must be known before it is read, three numbers, the benchmark as a bar, and what to do."""

    verdict: str
    tone: Tone
    above: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()
    bar: tuple[BarPart, ...] = ()
    todo: tuple[Recommendation, ...] = ()


def opening(s: Mapping[str, Any]) -> FirstScreen:
    """Return the first screen of a run's summary."""
    f = facts(s)
    tone, line = verdict_in_short(s)
    above = tuple(f"{sentence(r)}." for r in f.reasons if r["code"] == "one_place")
    return FirstScreen(line, tone, above, _tiles(s, f), tuple(_bar(f)), recommendations(s))


def _tiles(s: Mapping[str, Any], f: Facts) -> tuple[Tile, ...]:
    # A failed guardrail lowers a certificate, and finds no shortcut.
    audit = f.verdict if f.verdict in (None, "not judged") else at(s, "residual.verdict") or f.verdict
    flagged, n = at(s, "screen.flagged"), f.flagged
    rests = "" if at(flagged, "value") is None else percent(flagged["value"])
    by_chance = ("none", "nothing was flagged") if n == 0 else ("not measured", "")
    if n and f.by_chance is not None:
        ci = f.by_chance["ci"]
        by_chance = (
            f"about {f.by_chance['value'] * n:.0f}",
            f"{ci[0] * n:.0f} to {ci[1] * n:.0f}" if ci else "",
        )
    return (
        Tile(f"{f.whole} need no {f.hidden}", shown(n), joined(rests, between(flagged["ci"]) if at(flagged, "ci") else "")),
        Tile("of these by chance", *by_chance),
        Tile("kept as robust", shown(f.robust), CHECKED.get(audit, audit or "not checked")),
    )  # fmt: skip


def shown(n: int | None) -> str:
    """Return a count, or that it is not there."""
    return "not measured" if n is None else count(n)


def _bar(f: Facts) -> Iterator[BarPart]:
    if f.robust is None or f.flagged is None:
        return
    random = (at(f.by_chance, "value") or 0.0) * f.flagged
    if f.robust:
        yield BarPart("robust", f.robust, f"{count(f.robust)} robust")
    if f.flagged:
        yield BarPart("shortcut", f.flagged - random, f"{count(f.flagged)} shortcut")
    if random:
        yield BarPart("chance", random, f"of these about {random:.0f} by chance")
    if f.undecided:
        yield BarPart("undecided", f.undecided, f"{count(f.undecided)} undecided")


# On a terminal


def closing(summary: Summary, folder: str, paint: Paint = lambda _tone, line: line) -> list[str]:
    """Return the last lines on the terminal: at most 24, each of at most 79 characters unless a path is longer."""
    return list(_closing(tree(summary), folder, paint))


def _closing(s: Mapping[str, Any], folder: str, paint: Paint) -> Iterator[str]:
    screen = opening(s)
    for line in screen.above[:MOST_ABOVE]:
        yield from _wrapped(line)
    for line in _wrapped(screen.verdict):
        yield paint(screen.tone, line)
    yield from _marked(screen.bar)
    width = max((len(tile.main) for tile in screen.tiles), default=0)
    for tile in screen.tiles:
        yield f"  {tile.main:>{width}}  {tile.label}{f' ({tile.small})' if tile.small else ''}"[:WIDTH]
    if s["screen"] and s["screen"]["criterion"] == "majority" and len(s["screen"]["voters"] or {}) == 2:
        yield "note: a majority of two voters is both of them, the same as unanimous"
    for i, todo in enumerate(screen.todo[:MOST_TODO]):
        yield f"{'' if i else 'do next:':8} {todo.action}"[:WIDTH]
    failed = [] if is_trial(s) else [g for g in s["guardrails"] if g["passed"] is False]
    for g in failed[:MOST_FAILED]:
        yield textwrap.shorten(
            f"guardrail {plain(g['name'] or 'unnamed')}: {guardrail_sentence(g)}", WIDTH, placeholder=" ..."
        )
    if len(failed) > MOST_FAILED:
        yield f"{counted(len(failed) - MOST_FAILED, 'more guardrail')} failed: robustify check {folder}"
    yield f"report: {PurePath(folder) / 'report.html'}"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False, max_lines=3)


def _marked(parts: Sequence[BarPart]) -> Iterator[str]:
    """Yield the benchmark in one line of marks, and what each mark is; each part has at least one mark."""
    there = [part for part in parts if part.n > 0]
    if not there:
        return
    total, room = sum(part.n for part in there), WIDTH - 2
    widths = [max(1, round(room * part.n / total)) for part in there]
    widths[widths.index(max(widths))] += room - sum(widths)
    yield "[" + "".join(MARKS[part.kind] * width for part, width in zip(there, widths, strict=True)) + "]"
    yield "   ".join(f"{MARKS[part.kind]} {part.words}" for part in there)


def forecast_lines(found: "Forecast", least: int = 0) -> list[str]:
    """Return what asking will take, a line for each model, and that fewer than `least` items are not judged."""
    items = counted(found.items, "item")
    few = [f"too few items for a verdict, {least} or more (limits.min_items): a trial run"]
    few = few if found.items < least else []
    if not found.needs:
        none = f"No verdict can come of it: at least {FEWEST_ITEMS} items are needed, or models that vote."
        asked = f"{found.name}: {items}, no model to ask; rules and a probe take seconds"
        return [*([none] if found.items < FEWEST_ITEMS else few), asked]
    width = max(len(need.model) for need in found.needs)
    lines = [f"{found.name}: {items}; at most (what the score cache has is not asked again):"]
    lines += [f"  {plain(need.model):{width}}  {', '.join(_need(need))}" for need in found.needs]
    lines += [
        f"  {plain(need.model)}: {need.megabytes} MB to fetch first: robustify models pull {plain(need.model)}"
        for need in found.needs
        if need.megabytes
    ]
    return lines + few


def _need(need: "Need") -> Iterator[str]:
    yield f"about {need.requests:,} requests"
    if need.tokens is not None:
        yield f"{need.tokens:,} tokens"
    if need.cost is not None:
        yield f"cost {need.cost:,.2f}"
