"""What a run says on a terminal: before it asks, what that will take; at the end, on one screen of 24 x 80, the verdict,
the benchmark as a bar, three numbers, what to do first, and where the page lies.

Nothing is said here that the report does not say too.
"""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from robustify.report.advice import bad_items, by_chance, recommendations, verdict_in_short
from robustify.report.blocks import Tone
from robustify.report.format import as_released, between, count, counted, missing, percent, plain
from robustify.report.reasons import guardrail_sentence
from robustify.report.sections.headline import above
from robustify.summary.quantity import Quantity
from robustify.summary.result import Certificate, Summary
from robustify.summary.screened import Screen, Splits

if TYPE_CHECKING:
    from robustify.forecast import Forecast, Need

WIDTH = 79
MOST_ABOVE, MOST_TODO, MOST_FAILED = 2, 2, 3
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
    for sentence in above(summary)[:MOST_ABOVE]:
        yield from _wrapped(sentence)
    tone, verdict = verdict_in_short(summary)
    for line in _wrapped(verdict):
        yield paint(tone, line)
    if summary.release is None or not summary.release.too_small:
        yield from _bar(summary)
        yield from _numbers(summary)
    yield from _two_voters(summary.screen or Screen())
    for at, one in enumerate(recommendations(summary)[:MOST_TODO]):
        yield f"{'' if at else 'do next:':8} {one.action}"[:WIDTH]
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


def _bar(summary: Summary) -> Iterator[str]:
    """The benchmark in one line of marks, and what each mark is; a part that is there has at least one."""
    splits = summary.splits or Splits()
    if splits.robust is None or splits.shortcut is None:
        return
    lucky = ((by_chance(summary.screen or Screen()) or Quantity()).value or 0.0) * splits.shortcut
    parts = [
        ("=", splits.robust, f"{count(splits.robust)} robust"),
        ("x", splits.shortcut - lucky, f"{count(splits.shortcut)} shortcut"),
        ("~", lucky, f"of these about {lucky:.0f} by chance"),
        (".", splits.undecided or 0, f"{count(splits.undecided or 0)} undecided"),
    ]
    there = [part for part in parts if part[1] > 0]
    if not there:
        return
    total, room = sum(n for _, n, _ in there), WIDTH - 2
    widths = [max(1, round(room * n / total)) for _, n, _ in there]
    widths[widths.index(max(widths))] += room - sum(widths)
    yield "[" + "".join(mark * width for (mark, _, _), width in zip(there, widths, strict=True)) + "]"
    yield "   ".join(f"{mark} {words}" for mark, _, words in there)


def _numbers(summary: Summary) -> Iterator[str]:
    """Three numbers: what is answered without the question, what of it chance explains, what is kept."""
    screen, splits, (n, of) = summary.screen or Screen(), summary.splits or Splits(), bad_items(summary)
    flagged, share = screen.flagged or Quantity(), by_chance(screen) or Quantity()
    found = missing() if n is None else count(n) if of is None else f"{count(n)} of {count(of)}"
    rests = "" if flagged.value is None else f": {percent(flagged.value)}"
    rests += "" if flagged.ci is None else f" ({between(flagged.ci)})"
    lucky, ends = missing(), ""
    if n == 0:
        lucky = "none"
    elif n and share.value is not None:
        lucky = f"about {share.value * n:.0f}"
        ends = "" if share.ci is None else f" ({share.ci[0] * n:.0f} to {share.ci[1] * n:.0f})"
    kept = missing() if splits.robust is None else count(splits.robust)
    audit = (summary.certificate or Certificate()).verdict or missing()
    rows = (
        (found, f"answered without the question{rests}"),
        (lucky, f"of these by chance{ends}"),
        (kept, f"kept as robust; audit: {audit}"),
    )
    width = max(len(number) for number, _ in rows)
    yield from (f"  {number:>{width}}  {words}" for number, words in rows)


def _two_voters(screen: Screen) -> Iterator[str]:
    """A majority of two is both: whoever asks for it should know."""
    if screen.criterion == "majority" and len(screen.voters or {}) == 2:
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
