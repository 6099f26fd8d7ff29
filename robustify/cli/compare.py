"""`robustify compare`: finished runs beside one another."""

import json
from pathlib import Path

import click

from robustify.cli.options import as_json, printable


@click.command()
@click.argument("folders", metavar="RUN RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@as_json
def compare(folders: tuple[Path, ...], json_: bool) -> int:
    """Put finished runs beside one another: what each removed, what is left, and where two of them part.

    \b
    Example:
        robustify compare results/demo results/demo_letters
    """
    from robustify.errors import UsageError
    from robustify.report.compared import lines
    from robustify.report.comparing import compared

    if len(folders) < 2:
        raise UsageError(f"compare: {len(folders)} run; expected two or more folders")
    tree = compared(folders)
    click.echo(json.dumps(tree) if json_ else "\n".join(printable(line) for line in lines(tree)))
    return 0
