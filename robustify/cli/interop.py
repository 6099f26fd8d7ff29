"""Commands that import other tools' logs as runs, and that export runs for other tools."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import Notice, counted
from robustify.cli.data import public_items
from robustify.cli.options import (
    ENCODER,
    FORCE,
    HIDDEN,
    NAMING,
    OUT,
    RUN,
    STRICT,
    Command,
    Group,
    command,
    option,
    reading,
    screening,
)
from robustify.cli.runs import close_run, with_codes
from robustify.cli.terminal import print_lines, say, watcher

if TYPE_CHECKING:
    from robustify.export.writing import Exporter
    from robustify.restricted.disclosure.record import Release
    from robustify.runs.run import Run


@command("import")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@option(OUT, "Write the run into this folder.", required=True)
@FORCE
@option(
    "--data ITEMS...", "Match the logs with this file of items (repeatable) [default: the text in the logs]."
)
@NAMING
@option(
    "--view choices_only|choices_only_text|full|cloze",
    "Treat the prompts as this view [default: as the log shows].",
)
@option(
    "--map PART=COLUMN...",
    "Map a part of the items to its column, or use PART==VALUE for all rows (repeatable).",
    to="columns",
)
@option("--filter NAME", "Use this lm-eval filter or Inspect scorer.")
@option("--name TEXT", "Name the benchmark [default: the name of the data or the task].")
@HIDDEN
@screening
@ENCODER
@STRICT
@option("--skip-bad", "Skip unreadable rows instead of rejecting the log.")
def import_(
    logs: tuple[str, ...],
    out: Path,
    force: bool,
    data: tuple[Path, ...],
    source_options: dict[str, Any],
    name: str | None,
    rule: dict[str, Any],
    strict: bool,
    **reading: Any,
) -> int:
    """Judge answers in logs of other tools, without a model.

    LOG is a log of lm-eval, Inspect, lighteval, HELM, OpenCompass, EvalScope, OpenAI Evals, promptfoo, or DeepEval, an
    archive (Every Eval Ever, OpenEval), a table of picks, or a folder of logs. To set the model and the view of its
    answers, write LOG as [MODEL=][VIEW:]FILE.

    Items are matched by content, not by row. Rows without a match are listed in quarantine.jsonl.

    \b
    Example:
        robustify import logs/samples_*.jsonl --data items.jsonl -o results/imported
    """
    from robustify.pipeline.from_logs import run_of_logs
    from robustify.reading.logs import LogOptions, latest, logs_in, mapping, parse_log_path, unused_in
    from robustify.wings import GUARD

    reading |= {"columns": mapping(reading["columns"]), "hidden": rule.get("hidden", "question")}
    options = LogOptions(**reading)
    parsed = [parse_log_path(log) for log in logs]
    paths = [path for log in parsed for path in latest(logs_in(log))]
    unused = [str(path) for log in parsed for path in unused_in(log, paths)]
    overrides = {**rule, "name": name}
    done = run_of_logs(
        paths,
        out,
        GUARD,
        data=data,
        naming=source_options,
        options=options,
        overrides=overrides,
        force=force,
        watch=watcher(),
    )
    summary = done.summary
    notes = with_codes(done.manifest["config"]["notes"], done.manifest["import"]["note_codes"])
    for note in notes:
        say(note["text"])
    for path in unused:
        say(Notice(f"{path}: not used. To read this file, name it on the command line.", code="unused-file"))
    tree = {"run": str(out), "signature": summary.signature, "import": done.manifest["import"]}
    tree |= {"unused": unused, "notes": notes}
    sources = done.manifest["config"].get("data") or ()
    # run.json has no folders.
    placed = [
        {**source, **source_options, "path": str(path)} for source, path in zip(sources, data, strict=False)
    ]
    return close_run(done, {**tree, "summary": summary.tree()}, strict=strict, sources=placed or None)


ONLY = option(
    "--only screen|accuracy|audit|topics|free|cues|looks...",
    "Publish only these numbers of a restricted run, which uses less of the budget (repeatable).", to="groups",
)  # fmt: skip


@command()
@RUN
@option(OUT, "Write the page into this new folder.", required=True)
@ONLY
def published(run: "Run", out: Path, groups: tuple[str, ...]) -> int:
    """Publish the released page of a restricted run.

    The release is recorded first. It is refused with exit code 4 if this page and earlier releases under the same
    key would together reveal single items. A number that was published uses no budget again.

    \b
    Example:
        robustify export published results/mock -o to-publish --only accuracy
    """
    from robustify.restricted.restricted_folder import publish

    return print_lines(_recorded(publish(run, out, groups), out))


def _recorded(release: "Release", out: Path) -> str:
    return f"recorded at {release.at}, {release.bits:.0f} bits: {out}"


@command()
@RUN
@option(OUT, "Write the sheet into this new folder.", required=True)
@option(
    "--answers FILE",
    "Add people's answers from this YAML file, under the names in the sheet. For a restricted run, texts that repeat an "
    "item are refused, but single words are not.",
)
@ONLY
def sheet(run: "Run", out: Path, answers: Path | None, groups: tuple[str, ...]) -> int:
    """Write the information that STREAM (ChemBio) and NIST AI 800-2 and 800-3 require in a report.

    For each criterion, the sheet (sheet.md, sheet.html, sheet.json) states what the run knows, and from which file, or
    how to provide it. The sheet of a restricted run has only the numbers of its released page, which is published with it.

    \b
    Example:
        robustify export sheet results/demo -o sheet --answers sheet.yaml
    """
    from robustify.base.files import owner_only
    from robustify.export.sheet import read_answers, write_sheet
    from robustify.export.writing import staged
    from robustify.restricted.restricted_folder import publish
    from robustify.restricted.terms import quoted_sets

    stated = read_answers(answers, quoted_sets if run.restricted else None)
    if run.restricted or groups:
        recorded = _recorded(publish(run, out, groups), out)
        with owner_only():
            write_sheet(out, run, stated, out / "summary.json")
        say(f"The released page of the sheet was {recorded}")
    else:
        run.require_unchanged("summary.json")
        with staged(out) as place:
            write_sheet(place, run, stated)
    return print_lines(f"{out}: sheet.md, sheet.html, sheet.json")


class _Exports(Group):
    """Command group of the exporters, which are imported only if one of them is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        del self.__dict__["commands"]

    @cached_property
    def commands(self) -> dict[str, click.Command]:  # type: ignore[override]
        """Export commands by name."""
        from robustify.export.exporters import EXPORTERS

        commands = {name: _export_command(exporter) for name, exporter in EXPORTERS.items()}
        return {**commands, "published": published, "sheet": sheet}


def _export_command(exporter: "Exporter[..., Any]") -> click.Command:
    def command(run: "Run", out: Path, **options: Any) -> int:
        from robustify.reading.loaders.loaded import NOBODY
        from robustify.report.printing import standing
        from robustify.wings import free_rows

        plugged = {"as_free": free_rows} if exporter.asks_free else {}
        lines = exporter(run, out, **plugged, **options)
        say(f"State of the run: {standing(run.summary)}")
        for note in run.manifest["data"].get("notes", ()):
            if NOBODY in note:
                say(f"{note}.")
        if "trim" in options and (
            n := sum(item.trimmed().choices != item.choices for item in run.items or ())
        ):
            done = (
                "was taken off"
                if options["trim"]
                else "was kept, as models saw it. To take it off, use --trim"
            )
            say(f"{counted(n, 'item')} of this run: white space at the ends of options {done}.")
        if options.get("license") == "":
            say("The card states no license. To set one, use --license ID.")
        return print_lines(*lines)

    def or_blind(run: str, out: Path, blind: bool, source_options: dict[str, Any], **options: Any) -> int:
        from robustify.runs.run import open_run
        from robustify.wings import GUARD

        if not blind:
            return command(open_run(Path(run), GUARD), out, **options)
        return print_lines(*_blind_export(exporter.name, run, out, source_options))

    has_blind = any(usage == "--blind" for usage, *_ in exporter.options)
    decorated = reading(or_blind) if has_blind else command
    for usage, says, about in reversed(exporter.options):
        decorated = option(usage, says, **about)(decorated)
    argument = click.argument("run", metavar="RUN|DATA") if has_blind else RUN
    decorated = argument(option(OUT, exporter.out, required=True)(decorated))
    return click.command(exporter.name, cls=Command, help=exporter.write.__doc__)(decorated)


def _blind_export(tool: str, data: str, out: Path, source_options: dict[str, Any]) -> list[Path]:
    """Write blind tasks (without questions) for a public set or for the items of a run. Return the paths of the files."""
    from robustify.export.blind import BLIND as WRITERS
    from robustify.export.writing import refuse_restricted
    from robustify.runs.run import open_run
    from robustify.wings import GUARD

    if not (Path(data) / "run.json").is_file():
        bench = public_items(data, source_options)
        return WRITERS[tool](out, bench.name, bench.items)
    run = open_run(Path(data), GUARD)
    refuse_restricted(run)
    return WRITERS[tool](out, str(run.manifest["config"]["name"]), run.items or ())


@click.group(cls=_Exports)
def export() -> None:
    """Export a run for another tool.

    Exports that contain item text are not available for restricted sets.
    """
