"""`robustify import` and `robustify export`: logs of other tools become runs, and runs become files of other tools."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from robustify.cli.options import (
    PATH,
    RUN,
    asked_beside,
    out_option,
    output,
    print_lines,
    print_result,
    say,
    screening,
)

if TYPE_CHECKING:
    from robustify.export.instruct import Form
    from robustify.run import Run

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
@click.option("--filter", metavar="NAME", help="Which of lm-eval's filters or Inspect's scorers.")
@click.option("--name", help="The benchmark's name [default: that of the data or the task].")
@click.option(
    "--hidden",
    type=click.Choice(["question", "passage", "context", "image"]),
    default="question",
    show_default=True,
    help="The part of an item that the screen (choices_only) did not show.",
)
@screening
@asked_beside
@click.option(
    "--skip-bad", is_flag=True, help="Set rows that cannot be read aside instead of refusing the log."
)
@output
def import_(
    logs: tuple[str, ...],
    out: Path,
    data: tuple[Path, ...],
    name: str | None,
    rule: dict[str, object],
    **how: Any,
) -> int:
    """Judge the answers in logs of other tools; no model.

    A LOG is a file of lm-eval, Inspect or lighteval, or a plain table of picks.

    A LOG may be written [MODEL=][VIEW:]FILE, to say whose answers these are and how they were asked. Items
    are matched by their content, never by row; what does not match is listed in quarantine.jsonl.

    \b
    Example:
        robustify import logs/samples_*.jsonl --data items.jsonl -o results/imported
    """
    from robustify.logs import LogOptions, mapping, parse_log_path
    from robustify.policy.from_logs import import_logs
    from robustify.report.opening import closing

    options = LogOptions(**{**how, "columns": mapping(how["columns"])})
    paths = [parse_log_path(log) for log in logs]
    done = import_logs(paths, out, data=data, options=options, name=name, overrides=rule)
    summary = done.summary
    for note in done.manifest["config"]["notes"]:
        say(note)
    tree = {"run": str(out), "signature": summary.signature, "import": done.manifest["import"]}
    print_result({**tree, "summary": summary.tree()}, closing(summary, str(out)))
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
    "--upstream",
    metavar="TASK",
    help="Write only the sample numbers of the robust and shortcut items of this task of lm-eval.",
)
@output
def lm_eval(run: "Run", out: Path, force: bool, upstream: str | None) -> int:
    """Write tasks that lm-eval runs offline.

    The robust, shortcut and cloze items, the robust ones without their question, groups by topic, and the robust
    questions without options for a model that writes. With --upstream two files of sample numbers, without any text.

    \b
    Examples:
        robustify export lm-eval results/demo -o tasks
        cd tasks && lm_eval run --include_path lm_eval_tasks --tasks demo_benign_robust
        robustify export lm-eval results/arc -o samples --upstream arc_challenge
        lm_eval run --tasks arc_challenge --samples samples/arc_challenge_robust.json
    """
    from robustify.export.sample_numbers import export_sample_numbers
    from robustify.export.writing import export_lm_eval

    if upstream is not None:
        return print_lines(*export_sample_numbers(run, out, upstream, force))
    return print_lines(*export_lm_eval(run, out, force))


@export.command("inspect")
@RUN
@OUT
@FORCE
@output
def inspect_(run: "Run", out: Path, force: bool) -> int:
    """Write tasks for Inspect: a Python file for each split, its data beside it.

    \b
    Example:
        robustify export inspect results/demo -o tasks
        inspect eval tasks/robust.py --model MODEL
    """
    from robustify.export.writing import export_inspect

    return print_lines(*export_inspect(run, out, force))


@export.command()
@RUN
@OUT
@FORCE
@click.option("--licence", default="", metavar="ID", help="The licence of the items, e.g. cc-by-4.0.")
@output
def dataset(run: "Run", out: Path, force: bool, licence: str) -> int:
    """Write a dataset folder: JSON Lines for each split and a card. Nothing is uploaded.

    Beside the splits, `balanced` is the largest subset found in which no cue of the adjusted score pays.

    \b
    Example:
        robustify export dataset results/demo -o dataset --licence mit
    """
    from robustify.export.dataset import export_dataset

    paths = export_dataset(run, out, force, licence)
    if not licence:
        say("no licence is set; the card says so (--licence ID)")
    return print_lines(*paths)


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
@output
def instruct(run: "Run", out: Path, force: bool, form: str, split: str) -> int:
    """Write a split as instructions to train on, also in Mistral's text form.

    A model that was trained on them can no longer be evaluated on them.

    \b
    Example:
        robustify export instruct results/demo -o train --form free
    """
    from robustify.export.instruct import export_instruct

    return print_lines(*export_instruct(run, out, force, form=cast("Form", form), split=split))


@export.command()
@RUN
@out_option("A new folder.")
@click.option(
    "--only",
    "groups",
    multiple=True,
    type=click.Choice(["screen", "accuracy", "audit", "topics", "free", "cues"]),
    help="Publish these numbers alone, which spends less of the budget (repeatable).",
)
@output
def published(run: "Run", out: Path, groups: tuple[str, ...]) -> int:
    """Write the released page of a restricted run, once the record of releases has it.

    It is refused (exit 4) if earlier releases under the same key, beside this one, would describe single items. The same
    content again costs nothing.

    \b
    Example:
        robustify export published results/mock -o to-publish --only accuracy
    """
    from robustify.policy.releases import publish

    entry = publish(run, out, groups)
    return print_lines(f"recorded at {entry.at}, {entry.release.bits:.0f} bits: {out}")


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
@output
def sarif(run: "Run", out: Path, data: tuple[Path, ...]) -> int:
    """Write what was found about single items as SARIF, so that a code host shows it on their lines.

    \b
    Example:
        robustify export sarif results/demo --data items.jsonl -o robustify.sarif
    """
    from robustify.export.sarif import export_sarif

    return print_lines(f"{out}: findings {export_sarif(run, out, data)}")
