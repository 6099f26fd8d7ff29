"""The command `robustify lint`, which prints findings as text, JSON, SARIF, or GitHub annotations."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import DataError, RobustifyError, UsageError, counted
from robustify.cli.data import STDIN, items_of, names_config
from robustify.cli.options import command, option, reading
from robustify.cli.terminal import print_json, print_result, say

if TYPE_CHECKING:
    from robustify.judging.lint.findings import Finding
    from robustify.judging.lint.log_evidence import LintedLog
    from robustify.judging.lint.log_rules import LogRule
    from robustify.judging.lint.rules import LintRule
    from robustify.reading.loaders import Loaded

_MOST_LINES = 20
"""Most findings of a rule on single items that are printed for a file."""


def _codes(_context: click.Context, option: click.Parameter, given: Sequence[str]) -> list[str]:
    """Return all rule codes that begin with one of the given prefixes."""
    from robustify.judging.lint.log_rules import LOG_RULES
    from robustify.judging.lint.rules import RULES

    every = [*RULES, *LOG_RULES]
    prefixes = [prefix.strip().upper() for listed in given for prefix in listed.split(",")]
    if unknown := [
        prefix for prefix in prefixes if not prefix or not any(code.startswith(prefix) for code in every)
    ]:
        raise UsageError(
            f"--{option.name} {unknown[0]}: no rule has a code that begins like this. The codes are {', '.join(every)}.",
            code="no-such-rule",
        )
    return [code for code in every if any(map(code.startswith, prefixes))]


@command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@reading
@option("--select CODE...", "Use only these rules (R01,R031 ...).", callback=_codes)
@option("--ignore CODE...", "Leave these rules out.", callback=_codes)
@option(
    "--format text|json|sarif|github", "Print the findings in this form.",
    to="form", default="text", show_default=False,
)  # fmt: skip
@option(
    "--as auto|items|log",
    "Read all files as items, or as logs.",
    to="kind",
    default="auto",
    show_default=False,
)
@option("--fail-on warning|note|never", "Exit with code 7 on findings of this severity.", default="warning")
@option(
    "--fix --diff",
    "Print the changes that `robustify mend` would make, and write nothing.",
    to="fix",
)
def lint(
    files: tuple[str, ...],
    source_options: dict[str, Any],
    select: list[str],
    ignore: list[str],
    form: str,
    kind: str,
    fail_on: str,
    fix: bool,
) -> int:
    """Find cues that reveal keys, and find harness errors in logs.

    No model is needed. A cue in one item, such as the longest option, is a note. If the keys of a file, or of all files
    together, have a cue significantly more or less often than expected, this is a warning. Defects are also warnings. The
    exit code is 7 if there is a warning, and 3 if a file cannot be read. For the codes, see docs/heuristics.md.

    FILE may be a folder of logs. If the logs hide the question on purpose, write choices_only:FILE.

    \b
    Examples:
        robustify lint quiz.json
        robustify lint quizzes/*.json --select R01,R02 --format github
        robustify lint logs
    """
    from robustify.judging.lint.findings import findings, log_findings
    from robustify.judging.lint.log_rules import LOG_RULES
    from robustify.judging.lint.rules import RULES

    read, logs, errors = list["Loaded"](), list["LintedLog"](), list[RobustifyError]()
    for file in dict.fromkeys(file for given in files for file in _files(given, kind)):
        try:
            _read(file, source_options, kind, read, logs)
        except RobustifyError as error:  # noqa: PERF203 (the other files are still read)
            errors.append(error)
    worst = max(errors, key=lambda error: error.exit_code, default=None)
    refused = worst and type(worst)(*(line for error in errors for line in error.notices))
    if refused and not read and not logs:
        raise refused
    if fix:
        for bench in read:
            click.echo("".join(_differences(bench)), nl=False)
        return 0
    codes = set(select or {**RULES, **LOG_RULES}).difference(ignore)
    listed = [*findings(read, codes), *(log_findings(logs, codes) if logs else [])]
    _print(listed, form)
    counts = Counter(finding.severity for finding in listed)
    items = counted(sum(len(bench.items) for bench in read), "item")
    warnings, notes = counted(counts["warning"], "warning"), counted(counts["note"], "note")
    n_files = counted(max(len(read), len(logs)), "file")
    say(f"{n_files} of {items}: {warnings}, {notes}")
    if refused:
        raise refused
    failing = fail_on != "never" and (counts["warning"] or (fail_on == "note" and counts["note"]))
    return 7 if failing else 0


def _files(file: str, kind: str) -> Sequence[str]:
    from robustify.pipeline.linted_logs import files_in

    return files_in(file) if kind != "items" and os.path.isdir(file) else (file,)


def _read(
    file: str, source_options: dict[str, Any], kind: str, read: list["Loaded"], logs: list["LintedLog"]
) -> None:
    """Read a file as items, or as a log with its items. Items that an earlier log contains are skipped."""
    from robustify.pipeline.linted_logs import as_log, items_of_log
    from robustify.wings import GUARD

    named = names_config(file)
    log = (
        None
        if kind == "items" or file == STDIN or named
        else as_log(file, source_options, GUARD, certain=kind == "log")
    )
    if log is None:
        bench = items_of(file, source_options)
        read.append(replace(bench, path=os.path.relpath(bench.path)) if named else bench)
        return
    bench = items_of_log(log)
    if not bench.items and not log.says_more_than_picks:
        raise DataError(
            f"{log.path}: the log has only picks, so there is nothing to check. Expected options, prompts, or replies. "
            "Lint the file with its items instead.",
            code="log-of-picks",
        )
    logs.append(log)
    if bench.items and all([*bench.items] != [*other.items] for other in read):
        read.append(bench)


def _differences(bench: "Loaded") -> Iterator[str]:
    """Return the lines of a unified diff between a file's items and their mended versions, as JSON Lines."""
    from robustify.export.mending import mended
    from robustify.items.item import item_row

    older, newer = (
        [json.dumps(item_row(item), ensure_ascii=False) + "\n" for item in items]
        for items in (bench.items, mended(bench.items, 0).items)
    )
    return unified_diff(older, newer, bench.path, f"{bench.path} (mended)", n=0)


def _print(findings: Sequence["Finding"], form: str) -> None:
    """Print findings as text, JSON, SARIF, or GitHub workflow commands."""
    names = ("code", "severity", "path", "line", "item", "message", "fix")
    tree = {"findings": [{name: getattr(finding, name) for name in names} for finding in findings]}
    match form:
        case "sarif":
            from robustify.export.sarif import sarif_log
            from robustify.judging.lint.log_rules import LOG_RULES
            from robustify.judging.lint.rules import RULES

            rules: dict[str, LintRule | LogRule] = {**RULES, **LOG_RULES}
            advice = {code: f"{rule.meaning.capitalize()}. Fix: {rule.fix}." for code, rule in rules.items()}
            print_json(sarif_log(findings, advice))
        case "json":
            print_json(tree)
        case "github":
            print_result(tree, map(_annotation, findings))
        case _:
            print_result(tree, _lines(findings))


def _lines(findings: Sequence["Finding"]) -> Iterator[str]:
    """Yield a line per finding. Only count a rule's findings in a file after the first `_MOST_LINES`."""
    counts = Counter((finding.path, finding.code) for finding in findings if finding.item)
    printed = Counter[tuple[str, str]]()
    for finding in findings:
        place, note = (finding.path, finding.code), "note: " * (finding.severity == "note")
        printed[place] += bool(finding.item)
        if printed[place] <= _MOST_LINES:
            line = f":{finding.line}" if finding.item else ""
            yield f"{finding.path}{line}: {finding.code} {note}{finding.message} [fix: {finding.fix}]"
        elif printed[place] == counts[place]:
            n_more = counted(counts[place] - _MOST_LINES, "more item")
            yield f"{finding.path}: {finding.code} {n_more} (--json lists all)"


def _annotation(finding: "Finding") -> str:
    """Return a GitHub workflow command that shows a finding at its line."""
    file = finding.path.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    place = f" file={file},line={finding.line}," if finding.line else " "
    message = f"{finding.message} [fix: {finding.fix}]".replace("%", "%25")
    return f"::{'notice' if finding.severity == 'note' else 'warning'}{place}title={finding.code}::{message}"
