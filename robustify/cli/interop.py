"""`robustify import` and `robustify export`: logs of other tools become runs, and runs become files of other tools."""

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from robustify.cli.options import DESPITE, PATH, RUN, as_json, out_option, printable, screening

if TYPE_CHECKING:
    from robustify.export.writing import Form
    from robustify.run import Run
    from robustify.views import View

OUT = out_option("A new or empty folder for the files.")
FORCE = click.option(
    "--force", is_flag=True, help="Export although a guardrail halts it; the export says so."
)


@click.command("import")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@out_option("The run's folder.")
@click.option(
    "--data",
    multiple=True,
    metavar="ITEMS",
    type=PATH,
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
    rule: dict[str, object],
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
    from robustify.report.opening import closing
    from robustify.writers.from_logs import import_logs

    asked_as = cast("View | None", view)
    options = LogOptions(view=asked_as, filter=filter_, columns=mapping(columns), skip_bad=skip_bad)
    paths = [parse_log_path(log) for log in logs]
    done = import_logs(paths, out, data=data, options=options, name=name, overrides=rule)
    summary = done.summary
    for note in done.manifest["config"]["notes"]:
        click.echo(f"robustify: {printable(note)}", err=True)
    if json_:
        head = {"run": str(out), "signature": summary.signature, "import": done.manifest["import"]}
        click.echo(json.dumps({**head, "summary": summary.tree()}))
    else:
        click.echo("\n".join(closing(summary, str(out))))
    return 7 if summary.halting and not summary.trial else 0


@click.group()
def export() -> None:
    """Write the splits of a run for another tool.

    Restricted sets are refused where the text of items would be written.
    """


@export.command("lm-eval")
@RUN
@OUT
@FORCE
@click.option(
    "--upstream", metavar="TASK", help="Write ids alone, no text: the robust items of this task of lm-eval."
)
@click.option(
    "--id-field",
    default="id",
    show_default=True,
    metavar="NAME",
    help="With --upstream: the field of its rows that holds an item's id.",
)
def lm_eval(run: "Run", out: Path, force: bool, upstream: str | None, id_field: str) -> int:
    """Write tasks that lm-eval runs offline.

    The robust, shortcut and cloze items, the robust ones without their question, groups by topic, and the robust
    questions without options for a model that writes. With --upstream TASK_robust and TASK_shortcut, which filter
    lm-eval's own set by id and carry no text.

    \b
    Examples:
        robustify export lm-eval results/demo -o tasks
        cd tasks && lm_eval run --include_path lm_eval_tasks --tasks demo_benign_robust
        robustify export lm-eval results/arc -o ids --upstream arc_challenge
        lm_eval run --include_path ids --tasks arc_challenge_robust
    """
    from robustify.export.ids_only import export_ids_only
    from robustify.export.writing import export_lm_eval

    if upstream is not None:
        return _print_paths(export_ids_only(run, out, upstream, id_field, force))
    return _print_paths(export_lm_eval(run, out, force))


@export.command("inspect")
@RUN
@OUT
@FORCE
def inspect_(run: "Run", out: Path, force: bool) -> int:
    """Write tasks for Inspect: a Python file for each split, its data beside it.

    \b
    Example:
        robustify export inspect results/demo -o tasks
        inspect eval tasks/robust.py --model MODEL
    """
    from robustify.export.writing import export_inspect

    return _print_paths(export_inspect(run, out, force))


@export.command()
@RUN
@OUT
@FORCE
@click.option("--licence", default="", metavar="ID", help="The licence of the items, e.g. cc-by-4.0.")
@click.option("--url", default="", help="Where the data set will be published.")
@click.option("--creator", default="", metavar="NAME", help="Who answers for it.")
@click.option(
    "--published",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The date in its Croissant metadata [default: today, UTC].",
)
def hf(
    run: "Run", out: Path, force: bool, licence: str, url: str, creator: str, published: datetime | None
) -> int:
    """Write a data set folder for a model hub: Parquet, a card, Croissant metadata. Nothing is uploaded.

    \b
    Example:
        robustify export hf results/demo -o dataset --licence mit
    """
    from robustify.export.heading import Publication
    from robustify.export.writing import export_hf

    day = (published or datetime.now(timezone.utc)).strftime("%Y-%m-%d")
    paths = export_hf(run, out, force, Publication(licence, url, creator, day))
    if not licence:
        click.echo("robustify: no licence is set; the card says so (--licence ID)", err=True)
    return _print_paths(paths)


@export.command()
@RUN
@OUT
@FORCE
@click.option(
    "--form",
    type=click.Choice(["mcq", "free"]),
    default="mcq",
    show_default=True,
    help="With the choices and a letter as the answer, or without choices and in words.",
)
@click.option(
    "--split",
    type=click.Choice(["robust", "shortcut", "undecided", "cloze"]),
    default="robust",
    show_default=True,
)
def instruct(run: "Run", out: Path, force: bool, form: str, split: str) -> int:
    """Write a split as instructions to train on, also in Mistral's text form.

    A model that was trained on them can no longer be evaluated on them.

    \b
    Example:
        robustify export instruct results/demo -o train --form free
    """
    from robustify.export.writing import export_instruct

    return _print_paths(export_instruct(run, out, force, form=cast("Form", form), split=split))


@export.command()
@RUN
@out_option("A new folder.")
@DESPITE
def published(run: "Run", out: Path, despite: str) -> int:
    """Write what of a restricted run may be published; the ledger of releases records it first.

    It is refused (exit 4) where earlier releases under the same key, less this one, describe few items. The same content
    again costs nothing.

    \b
    Example:
        robustify export published results/mock -o to-publish
    """
    from robustify.writers.releases import published as publish

    entry = publish(run, out, despite)
    click.echo(f"release {entry.number} in the ledger, {entry.release.bits:.0f} bits: {printable(str(out))}")
    return 0


@export.command()
@RUN
@out_option("The SARIF file.")
@click.option(
    "--data",
    multiple=True,
    required=True,
    metavar="ITEMS",
    type=PATH,
    help="The file that was audited, by the path that the code host knows (repeatable).",
)
def sarif(run: "Run", out: Path, data: tuple[Path, ...]) -> int:
    """Write what was found about single items as SARIF, so that a code host shows it on their lines.

    \b
    Example:
        robustify export sarif results/demo --data items.jsonl -o robustify.sarif
    """
    from robustify.export.sarif import export_sarif

    n = export_sarif(run, out, data)
    click.echo(f"{printable(str(out))}: findings {n}")
    return 0


@export.command("every-eval-ever")
@RUN
@OUT
@click.option("--organisation", default="", metavar="NAME", help="Who ran the evaluation.")
@click.option(
    "--relationship",
    type=click.Choice(["first_party", "third_party", "collaborative", "other"]),
    default="other",
    show_default=True,
    help="Of that organisation to the models.",
)
def every_eval_ever(run: "Run", out: Path, organisation: str, relationship: str) -> int:
    """Write scores and answers in the schema of Every Eval Ever (version 0.3.0), a file for each model.

    \b
    Example:
        robustify export every-eval-ever results/demo -o results-to-share
    """
    from robustify.export.every_eval import Relationship, export_every_eval

    now = datetime.now(timezone.utc).timestamp()
    as_what = cast("Relationship", relationship)
    return _print_paths(export_every_eval(run, out, at=now, organisation=organisation, relationship=as_what))


@export.command()
@RUN
@click.option("--experiment", default="", metavar="NAME", help="MLflow's experiment [default: its own].")
def mlflow(run: "Run", experiment: str) -> int:
    """Log the numbers and the report of a public run to MLflow.

    \b
    Example:
        MLFLOW_TRACKING_URI=file:mlruns robustify export mlflow results/demo
    """
    from robustify.export.every_eval import log_to_mlflow

    click.echo(printable(log_to_mlflow(run, experiment)))
    return 0


@export.command()
@RUN
@click.option("--project", default="robustify", show_default=True, metavar="NAME", help="The project.")
def wandb(run: "Run", project: str) -> int:
    """Log the numbers and the report of a public run to Weights and Biases.

    \b
    Example:
        WANDB_MODE=offline robustify export wandb results/demo
    """
    from robustify.export.every_eval import log_to_wandb

    click.echo(printable(log_to_wandb(run, project)))
    return 0


def _print_paths(paths: Sequence[Path]) -> int:
    for path in paths:
        click.echo(str(path))
    return 0
