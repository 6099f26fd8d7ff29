"""What a run says on a terminal: before it asks, what that will take; at the end, on one screen of 24 x 80, the verdict,
the benchmark as a bar, three numbers, what to do first, and where the page lies.

Nothing is said here that the report does not say too.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from robustify.report.blocks import BarPart, PartKind, Tone
from robustify.report.format import as_released, count, counted, plain
from robustify.report.opening import opening
from robustify.report.reasons import guardrail_sentence
from robustify.summary.result import Summary

if TYPE_CHECKING:
    from robustify.ask.forecast import Forecast, Need

WIDTH = 79
MOST_ABOVE, MOST_TODO, MOST_FAILED = 2, 2, 3
MARKS: Mapping[PartKind, str] = {"robust": "=", "shortcut": "x", "chance": "~", "undecided": "."}
Paint = Callable[[Tone, str], str]
"""A line of the verdict in the colour of its tone."""


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
    yield from _bar(screen.bar)
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


def _bar(parts: Sequence[BarPart]) -> Iterator[str]:
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
