"""First screen of a report, on the page and on a terminal, with the command that edits the set."""

import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from robustify.base.compressed import plain_path
from robustify.base.settings_files import name_of, named_set, with_path, with_split
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.result import AUDIT, State, Summary
from robustify.report.advice import Recommendation, recommendations
from robustify.report.format import Table, Tone, cell, counted, table
from robustify.report.printing import finding, guardrail_line, markdown, sentence
from robustify.report.quoting import Quote, quotes
from robustify.report.verdict import Grounds, grounds, headline

if TYPE_CHECKING:
    from robustify.models.forecast import Forecast

POOL = "--pool CANDIDATES"
Sources = Sequence[Mapping[str, Any]]
WIDTH, LONGEST, MOST_FAILED, MOST_QUOTED = 79, 150, 3, 4
Paint = Callable[[Tone, str], str]
"""Function that colors the line of the verdict by its tone."""


def options_worth(read: Quantity | None) -> Quantity | None:
    """Return the effective number of options: one divided by the accuracy of a reader who never sees a question."""
    if read is None or not read.value:
        return None
    ends = None if read.ci is None or not read.ci[0] else (1 / read.ci[1], 1 / read.ci[0])
    return Quantity(value=1 / read.value, n=read.n, ci=ends)


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """Content of a report's first screen. `above` has warnings, and `checks` pairs of a state (None for a plain fact)
    and a text."""

    verdict: str
    tone: Tone
    above: tuple[str, ...] = ()
    number: str = ""
    quotes: tuple[Quote, ...] = ()
    checks: tuple[tuple[State | None, str], ...] = ()
    todo: tuple[Recommendation, ...] = ()
    mend: str = ""


def opening(
    s: Summary, manifest: Mapping[str, Any] = MappingProxyType({}), typed: Sources | None = None
) -> FirstScreen:
    """Return the content of the first screen for a summary. With the `manifest` of its run, it has a command to mend it, in
    which the paths are those of `typed` sources."""
    g = grounds(s)
    tone, line = headline(g)
    above = tuple(f"{sentence(r)}." for r in s.reasons if r.code == "one_position")
    judged = g.flagged is not None and not (g.trial or g.by_letter)
    items = finding("answerable", s, g=g) if judged else ""
    read = finding("reader", g.reader, worth=options_worth(g.reader), rest=": a reader" in line)
    # The reader comes first if it is significant.
    number, other = (read, items) if read and (g.read or not g.flagged) else (items, read)
    checks = (*(((None, other),) if other else ()), *_checks(s, g))
    todo = recommendations(s, g)
    return FirstScreen(
        line, tone, above, number, quotes(s, g), checks, todo, advised(mend_command(manifest, typed), todo)
    )


def reader_line(s: Summary) -> str:
    """Return the sentence on the reader that sees no question, or "" if there is no reader."""
    read = grounds(s).reader
    return finding("reader", read, worth=options_worth(read), rest=False)


def reader_table(s: Summary) -> Table:
    """Return a table for a run that asked no model. It shows the accuracy of the reader and of chance, the worth of the
    options, the flags, and the state."""
    read = grounds(s).reader
    rows = (
        ("Reader that sees no question", read),
        ("Chance", Quantity(value=read.chance if read else s.benchmark.chance_accuracy)),
        ("Options worth", cell(options_worth(read), "number")),
        ("Flagged", s.screen.flagged if s.screen else None),
        ("State", s.state),
    )
    return table("The reader", ("Number", "Value"), rows)


def report_tree(s: Summary, manifest: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the first screen as JSON values: the verdict, the reader, the scores to quote, the checks and the advice."""
    screen, read = opening(s, manifest), grounds(s).reader
    worth = options_worth(read)
    return {
        "name": s.benchmark.name,
        "signature": s.signature,
        "n": s.splits.all,
        "state": s.state,
        "verdict": screen.verdict,
        "reader": read and read.tree(),
        "options_worth": worth and worth.tree(),
        "scores": [quote.tree() for quote in screen.quotes],
        "checks": [{"state": state, "text": text} for state, text in screen.checks],
        "advice": [{"code": o.code, "n": o.n, "action": o.action, "section": o.section} for o in screen.todo],
        "mend": screen.mend,
    }


def _checks(s: Summary, g: Grounds) -> Iterator[tuple[State | None, str]]:
    if s.benchmark.groups:
        yield None, finding("groups", s.benchmark)
    if not s.screen and (spread := finding("key_spread", s.benchmark.key_spread)):
        yield None, spread
    if s.screen and not g.trial:
        yield g.audit, finding("kept", s, g=g)
    elif not g.trial and g.reader and s.reasons:
        # The verdict is on the reader, and says nothing of the state.
        yield s.state, f"{sentence(s.reasons[0])}."
    failed = [
        guardrail_line(check)
        for check in s.guardrails
        if check.state == "failed" and check.name != AUDIT and not g.trial
    ]
    for line in failed[:MOST_FAILED]:
        yield "failed", textwrap.shorten(line, LONGEST, placeholder=" ...")
    if len(failed) > MOST_FAILED:
        yield "failed", counted(len(failed) - MOST_FAILED, "more guardrail")


# The command to mend the set


def mend_command(manifest: Mapping[str, Any], typed: Sources | None = None) -> str:
    """Return the command that edits the file of a public run, or "" if the run did not read its items from a single file.

    `manifest` is run.json, and the command works in the folder of the file. With the sources as `typed`, or as in a config,
    it works in the working directory."""
    sources: Sources = (manifest.get("config") or {}).get("data") or ()
    imported = manifest.get("import")
    if len(sources) != 1 or (imported and imported["items"]["from"] != "data"):
        return ""
    source = sources[0] if typed is None else _near(typed[0])
    data = source["path"]
    path = PurePath(name_of(data) if named_set(data) else data)
    file = path.name if typed is None else str(path)
    # A name that begins with a hyphen would be taken for an option.
    plain = plain_path(Path(path))
    name, stem = (f"./{text}" if text.startswith("-") else text for text in (file, plain.stem))
    name = data if named_set(data) else name
    stem = with_split(stem, source.get("split"))
    ending = ".csv" if plain.suffix.lower() == ".csv" else ".jsonl"
    words = ["robustify", "mend", name, *_reading(source), "-o", f"{stem}-mended{ending}"]
    return " ".join(map(shlex.quote, words))


def _near(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source with its paths relative to the working directory if they are below this directory."""

    def near(path: str) -> str:
        folder = Path.cwd()
        return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path

    folders = [near(folder) for folder in source.get("include_path") or ()]
    return {**source, "path": with_path(source["path"], near), "include_path": folders}


def advised(command: str, todo: Sequence[Recommendation]) -> str:
    """Return the command if it follows some of the advice, and otherwise "". If distractors must change, the command
    also reads a file of candidates, and writes a folder."""
    ways = {recommendation.mends for recommendation in todo}
    if not command or not ways & {"file", "pool"}:
        return ""
    mended = shlex.split(command)
    chosen = f"{shlex.join(mended[:-2])} {POOL} -o {shlex.quote(PurePath(mended[-1]).stem)}"
    return chosen if "pool" in ways else command


def _reading(source: Mapping[str, Any]) -> list[str]:
    """Return the command-line options with which a source was read."""
    fields = {part: column for part, column in (source.get("fields") or {}).items() if column is not None}
    words = []
    for part, column in fields.items():
        words += ["--map", f"{part}={column if isinstance(column, str) else ','.join(column)}"]
    if source.get("split"):
        words += ["--split", source["split"]]
    for folder in source.get("include_path", ()):
        words += ["--include-path", folder]
    words += ["--trust-task-code"] * bool(source.get("trust_task_code"))
    return [*words, *["--skip-bad"] * bool(source.get("skip_bad"))]


# On a terminal


def closing(
    summary: Summary,
    folder: str,
    manifest: Mapping[str, Any] = MappingProxyType({}),
    paint: Paint = lambda _tone, line: line,
    typed: Sources | None = None,
) -> list[str]:
    """Return the closing lines of a run on a terminal, at most 79 characters wide except for commands and long paths. The
    command to mend the set has the paths of `typed` sources."""
    screen = opening(summary, manifest, typed)
    lines = _wrapped(screen.above)
    lines += [paint(screen.tone, line) for line in _wrapped([screen.verdict])]
    lines += _wrapped([screen.number, *(entry.line for entry in screen.quotes[:MOST_QUOTED])])
    lines += _wrapped(f"{state}: {text}" if state else text for state, text in screen.checks)
    lines += ["what to do:"] * bool(screen.todo)
    lines += _wrapped((entry.action for entry in screen.todo), "  ")
    lines += [f"  {screen.mend}"] * bool(screen.mend)
    return [*lines, f"report: {PurePath(folder) / 'report.html'}"]


def _wrapped(texts: Iterable[str], indent: str = "") -> list[str]:
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
    return [line for text in texts for line in wrapper.wrap(text)]


def forecast_lines(forecast: "Forecast", least: int = 0) -> list[str]:
    """Return lines on the expected cost of asking each model, with a warning if there are too few items."""
    return markdown("forecast.j2", found=forecast, least=least, fewest=FEWEST_ITEMS).splitlines()
