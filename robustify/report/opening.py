"""The first screen: what is read in five seconds. Nothing stands here that a later section does not show."""

from collections.abc import Iterator, Mapping

from robustify.report.advice import bad_items, by_chance, recommendations, verdict_in_short
from robustify.report.blocks import BarPart, FirstScreen, Kind, Mark, Plot, PlotRow, Tile, Todo
from robustify.report.format import between, count, counted, decimals, joined, missing, percent, plain
from robustify.report.sections.headline import above
from robustify.report.sections.scores import chance_line
from robustify.summary.quantity import Quantity
from robustify.summary.result import Certificate, Summary
from robustify.summary.scored import Accuracy, ViewScores
from robustify.summary.screened import Screen, Splits

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
    found = [(kind, q) for (kind, _), q in zip(SERIES, (full.all, full.robust, cloze.all), strict=True)]
    marks = tuple(Mark(q.value, q.ci, kind) for kind, q in found if q is not None and q.value is not None)
    if marks:
        values = " \u2192 ".join(f"{100 * mark.value:.{decimals()}f}" for mark in marks)
        yield PlotRow(f"{plain(name)}{'*' if entry.is_voter else ''}", marks, f"{values} %")
