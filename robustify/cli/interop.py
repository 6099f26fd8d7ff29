"""Commands that import logs of other tools as runs, and export runs for other tools."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.base.errors import counted
from robustify.cli.options import (
    ENCODER,
    HIDDEN,
    PATH,
    RUN,
    out_option,
    output,
    print_lines,
    print_result,
    say,
    screening,
)

if TYPE_CHECKING:
    from robustify.export.writing import Exporter
    from robustify.runs.run import Run


@click.command("import")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@out_option("Write the run into this folder.")
@click.option(
    "--data",
    multiple=True,
    metavar="ITEMS",
    type=PATH,
    help="Match the logs with this file of items (repeatable) [default: the text in the logs].",
)
@click.option(
    "--view",
    type=click.Choice(["choices_only", "choices_only_text", "full", "cloze"]),
    help="Treat the prompts as this view [default: as the log shows].",
)
@click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="PART=COLUMN",
    help="Map a part to its column, or use PART==VALUE for all rows (repeatable).",
)
@click.option("--filter", metavar="NAME", help="Use this filter of lm-eval or scorer of Inspect.")
@click.option("--name", help="Name the benchmark [default: the name of the data or the task].")
@HIDDEN
@screening
@ENCODER
@click.option("--skip-bad", is_flag=True, help="Set unreadable rows aside instead of rejecting the log.")
@output
def import_(
    logs: tuple[str, ...],
    out: Path,
    data: tuple[Path, ...],
    name: str | None,
    rule: dict[str, Any],
    **how: Any,
) -> int:
    """Judge answers in logs of other tools, without a model.

    LOG is a log of lm-eval, Inspect, or lighteval, an archive (Every Eval Ever, OpenCompass, OpenEval), or a
    table of picks. To set the model and the view of its answers, write LOG as [MODEL=][VIEW:]FILE.

    Items are matched by content, not by row. Rows without a match are listed in quarantine.jsonl.

    \b
    Example:
        robustify import logs/samples_*.jsonl --data items.jsonl -o results/imported
    """
    from robustify.pipeline.from_logs import import_logs
    from robustify.reading.logs import LogOptions, mapping, parse_log_path
    from robustify.report.opening import closing

    how |= {"columns": mapping(how["columns"]), "hidden": rule.get("hidden", "question")}
    options = LogOptions(**how)
    paths = [parse_log_path(log) for log in logs]
    done = import_logs(paths, out, data=data, options=options, name=name, overrides=rule)
    summary = done.summary
    for note in done.manifest["config"]["notes"]:
        say(note)
    tree = {"run": str(out), "signature": summary.signature, "import": done.manifest["import"]}
    print_result({**tree, "summary": summary.tree()}, closing(summary, str(out)))
    return 7 if summary.halting and not summary.trial else 0


@click.command()
@RUN
@out_option("Write the page into this new folder.")
@click.option(
    "--only",
    "groups",
    multiple=True,
    type=click.Choice(["screen", "accuracy", "audit", "topics", "free", "cues"]),
    help="Publish only these numbers, which uses less of the budget (repeatable).",
)
@output
def published(run: "Run", out: Path, groups: tuple[str, ...]) -> int:
    """Publish the released page of a restricted run.

    The release is recorded first. It is refused with exit code 4 if this page and earlier releases under the same
    key would together reveal single items. A number that was published uses no budget again.

    \b
    Example:
        robustify export published results/mock -o to-publish --only accuracy
    """
    from robustify.pipeline.restricted_folder import publish

    release = publish(run, out, groups)
    return print_lines(f"recorded at {release.at}, {release.bits:.0f} bits: {out}")


class _Exports(click.Group):
    """Command group of the exporters, which are imported only if one of them is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        del self.__dict__["commands"]

    @cached_property
    def commands(self) -> dict[str, click.Command]:  # type: ignore[override]
        """Commands by name."""
        from robustify.export import exporters

        made = {name: _export_command(exporter) for name, exporter in exporters().items()}
        return {**made, "published": published}


def _export_command(exporter: "Exporter") -> click.Command:
    def command(run: "Run", out: Path, **options: Any) -> int:
        from robustify.reading.loaders.loaded import NOBODY
        from robustify.report.printing import standing

        lines = exporter.export(run, out, **options)
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
        if options.get("licence") == "":
            say("The card states no licence. To set one, use --licence ID.")
        return print_lines(*lines)

    made = output(command)
    for option, about in reversed([*exporter.options.items()]):
        kind: dict[str, Any] = {"metavar": about.metavar} if about.metavar else {"is_flag": True}
        if about.required:
            kind |= {"multiple": True, "required": True, "type": PATH}
        elif about.values:
            kind = {"type": click.Choice(about.values), "show_default": True}
        kind |= {} if about.default is None else {"default": about.default}
        made = click.option(f"--{option}", help=about.says, **kind)(made)
    return click.command(exporter.name, help=exporter.help)(RUN(out_option(exporter.out)(made)))


@click.group(cls=_Exports)
def export() -> None:
    """Export a run for another tool.

    Exports that contain item text are not available for restricted sets.
    """
