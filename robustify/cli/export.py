"""`robustify export`: a run's splits in the formats of other tools."""

from pathlib import Path

import click


@click.group()
def export() -> None:
    """Write the splits of a run for another tool."""


@export.command("lm-eval")
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", "--output", required=True, type=click.Path(path_type=Path), help="Where the tasks go."
)
@click.option("--force", is_flag=True, help="Export although a guardrail halts it; the export says so.")
def lm_eval(folder: Path, out: Path, force: bool) -> int:
    """Write tasks that lm-eval runs offline.

    \b
    Example:
        robustify export lm-eval results/demo -o tasks
    """
    from robustify.pipeline import export_lm_eval
    from robustify.run import open_run

    for path in export_lm_eval(open_run(folder), out, force):
        click.echo(str(path))
    return 0
