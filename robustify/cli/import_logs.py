"""`robustify import`: judge the answers in somebody's logs; no model is needed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from robustify.cli.options import as_json, chosen, printable, screening

if TYPE_CHECKING:
    from robustify.views import View


@click.command("import")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="The run's folder.",
)
@click.option(
    "--data",
    multiple=True,
    metavar="ITEMS",
    type=click.Path(path_type=Path),
    help="The benchmark's own file, to match the logs with (repeatable) [default: the logs' own text].",
)
@click.option(
    "--view",
    type=click.Choice(["choices_only", "choices_only_text", "full", "cloze"]),
    help="How the items were asked [default: as the log shows].",
)
@click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="PART=COLUMN",
    help="Which column holds what, PART==VALUE for the same in every row (repeatable).",
)
@click.option("--filter", "filter_", metavar="NAME", help="Which of lm-eval's filters or Inspect's scorers.")
@click.option("--name", help="The benchmark's name [default: that of the data or the task].")
@screening
@click.option(
    "--skip-bad", is_flag=True, help="Set rows that cannot be read aside instead of refusing the log."
)
@as_json
def import_(
    logs: tuple[str, ...],
    out: Path,
    data: tuple[Path, ...],
    view: str | None,
    columns: tuple[str, ...],
    filter_: str | None,
    name: str | None,
    criterion: str | None,
    mode: str | None,
    probe_vote: str | None,
    skip_bad: bool,
    json_: bool,
) -> int:
    """Judge the answers in LOG...: of lm-eval, Inspect, lighteval, or a plain table of picks.

    A LOG may be written [MODEL=][VIEW:]FILE, to say whose answers these are and how they were asked. Items
    are matched by their content, never by row; what does not match is listed in quarantine.jsonl.

    \b
    Example:
        robustify import logs/samples_*.jsonl --data items.jsonl -o results/imported
    """
    from robustify.logs import LogOptions, mapping, parse_log_path
    from robustify.report.sections.headline import closing
    from robustify.summary.format_1 import read
    from robustify.writers.from_logs import import_logs

    asked_as = cast("View | None", view)
    options = LogOptions(view=asked_as, filter=filter_, columns=mapping(columns), skip_bad=skip_bad)
    overrides = chosen(screen__criterion=criterion, screen__mode=mode, screen__probe_vote=probe_vote)
    done = import_logs(
        [parse_log_path(log) for log in logs], out, data=data, options=options, name=name, overrides=overrides
    )
    summary = done.summary
    for note in done.manifest["config"]["notes"]:
        click.echo(f"robustify: {printable(note)}", err=True)
    if json_:
        head = {"run": str(out), "signature": summary["signature"], "import": done.manifest["import"]}
        click.echo(json.dumps({**head, "summary": summary}))
    else:
        click.echo("\n".join(closing(read(summary), str(out))))
    return 7 if any(g["halts_export"] and not g["passed"] for g in summary["guardrails"]) else 0
