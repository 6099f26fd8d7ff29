"""Commands that import logs of other tools as runs, and export runs for other tools."""

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
from robustify.errors import counted

if TYPE_CHECKING:
    from robustify.export.instruct import Form
    from robustify.run import Run

OUT = out_option("Write the files into this new or empty folder.")
FORCE = click.option(
    "--force", is_flag=True, help="Export even if a guardrail failed, and state this in the files."
)


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
@click.option(
    "--hidden",
    type=click.Choice(["question", "passage", "context", "image"]),
    default="question",
    show_default=True,
    help="Name the part that choices_only prompts did not show.",
)
@screening
@asked_beside
@click.option("--skip-bad", is_flag=True, help="Set unreadable rows aside instead of rejecting the log.")
@output
def import_(
    logs: tuple[str, ...],
    out: Path,
    data: tuple[Path, ...],
    name: str | None,
    rule: dict[str, object],
    **how: Any,
) -> int:
    """Judge answers in logs of other tools, without a model.

    LOG is a log of lm-eval, Inspect, or lighteval, or a table of picks. To set the model and the view of its
    answers, write LOG as [MODEL=][VIEW:]FILE.

    Items are matched by content, not by row. Rows without a match are listed in quarantine.jsonl.

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


TRIM = click.option("--trim", is_flag=True, help="Take white space off the ends of options.")


def _say_trimmed(run: "Run", trim: bool) -> None:
    """Say what was decided about white space at the ends of options, if an item has some."""
    if n := sum(item.trimmed().choices != item.choices for item in run.items or ()):
        done = "was taken off" if trim else "was kept, as models saw it. To take it off, use --trim"
        say(f"{counted(n, 'item')} of this run: white space at the ends of options {done}.")


@click.group()
def export() -> None:
    """Export a run for another tool.

    Exports that contain item text are not available for restricted sets.
    """


@export.command("lm-eval")
@RUN
@OUT
@FORCE
@TRIM
@click.option(
    "--upstream",
    metavar="TASK",
    help="Write only the sample numbers of the robust and shortcut items of this lm-eval task.",
)
@output
def lm_eval(run: "Run", out: Path, force: bool, trim: bool, upstream: str | None) -> int:
    """Write tasks for lm-eval.

    The tasks run offline. They contain the robust, shortcut, and cloze items, the robust items without their
    question, groups by topic, and the robust questions without options for free-text answers. With --upstream,
    the export contains two files of sample numbers and no item text.

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
    paths = export_lm_eval(run, out, force, trim)
    _say_trimmed(run, trim)
    return print_lines(*paths)


@export.command("inspect")
@RUN
@OUT
@FORCE
@TRIM
@output
def inspect_(run: "Run", out: Path, force: bool, trim: bool) -> int:
    """Write tasks for Inspect, with a Python file per split.

    \b
    Example:
        robustify export inspect results/demo -o tasks
        inspect eval tasks/robust.py --model MODEL
    """
    from robustify.export.writing import export_inspect

    paths = export_inspect(run, out, force, trim)
    _say_trimmed(run, trim)
    return print_lines(*paths)


@export.command()
@RUN
@OUT
@FORCE
@TRIM
@click.option("--licence", default="", metavar="ID", help="State this licence of the items, e.g. cc-by-4.0.")
@output
def dataset(run: "Run", out: Path, force: bool, trim: bool, licence: str) -> int:
    """Write a dataset folder with a card and one JSON Lines file per split.

    In addition to the splits, `balanced.jsonl` contains the largest subset found in which no cue of the adjusted
    score predicts the key. Nothing is uploaded.

    \b
    Example:
        robustify export dataset results/demo -o dataset --licence mit
    """
    from robustify.export.dataset import export_dataset

    paths = export_dataset(run, out, force, licence, trim)
    _say_trimmed(run, trim)
    if not licence:
        say("The card states no licence. To set one, use --licence ID.")
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
    help="Write questions with choices (mcq), or with free-text answers (free).",
)
@click.option(
    "--split",
    type=click.Choice(["robust", "shortcut", "undecided", "cloze"]),
    default="robust",
    show_default=True,
    help="Write this split.",
)
@output
def instruct(run: "Run", out: Path, force: bool, form: str, split: str) -> int:
    """Write a split as training instructions.

    The text format of Mistral is included. Do not evaluate a model on items that it was trained on.

    \b
    Example:
        robustify export instruct results/demo -o train --form free
    """
    from robustify.export.instruct import export_instruct

    return print_lines(*export_instruct(run, out, force, form=cast("Form", form), split=split))


@export.command()
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
    key would together reveal single items. Publishing the same content again uses no budget.

    \b
    Example:
        robustify export published results/mock -o to-publish --only accuracy
    """
    from robustify.policy.releases import publish

    entry = publish(run, out, groups)
    return print_lines(f"recorded at {entry.at}, {entry.release.bits:.0f} bits: {out}")


@export.command()
@RUN
@out_option("Write this SARIF file.")
@click.option(
    "--data",
    multiple=True,
    required=True,
    metavar="ITEMS",
    type=PATH,
    help="Name the audited file by its path in the repository (repeatable).",
)
@output
def sarif(run: "Run", out: Path, data: tuple[Path, ...]) -> int:
    """Write findings as SARIF, which code hosts display beside the lines of a file.

    \b
    Example:
        robustify export sarif results/demo --data items.jsonl -o robustify.sarif
    """
    from robustify.export.sarif import export_sarif

    return print_lines(f"{out}: findings {export_sarif(run, out, data)}")
