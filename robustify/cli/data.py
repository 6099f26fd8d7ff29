"""`robustify validate` and `robustify heuristics`: what a file holds and what its choices give away."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.options import as_json, printable

if TYPE_CHECKING:
    from robustify.loaders import Loaded


def _loaded(data: str, skip_bad: bool) -> "Loaded":
    from robustify import config as configs
    from robustify.loaders import Source, load
    from robustify.pipeline import authorise, load_bench

    if data.endswith((".yaml", ".yml")) or configs.is_shipped(data):
        settings = configs.load(configs.find(data))
        authorise(settings)
        return load_bench(configs.skipping_bad(settings) if skip_bad else settings)
    return load(Source(path=data, skip_bad=skip_bad))


@click.command()
@click.argument("data", metavar="DATA|CONFIG")
@click.option(
    "--skip-bad", is_flag=True, help="Set rows that cannot be items aside instead of refusing the file."
)
@as_json
def validate(data: str, skip_bad: bool, json_: bool) -> int:
    """Say what DATA holds: layout, items, option counts, and defects by line.

    A row that cannot be an item refuses the file (exit 3, all faults at once). A defect that real sets
    have (equal or empty options, a repeated stem) is counted and named.

    \b
    Example:
        robustify validate items.jsonl --json
    """
    from robustify.loaders.describe import describe

    told = describe(_loaded(data, skip_bad))
    click.echo(json.dumps(told) if json_ else "\n".join(map(printable, _lines(told))))
    return 0


@click.command()
@click.argument("data", metavar="DATA|CONFIG")
@click.option(
    "--skip-bad", is_flag=True, help="Set rows that cannot be items aside instead of refusing the file."
)
@as_json
def heuristics(data: str, skip_bad: bool, json_: bool) -> int:
    """Score DATA with simple rules on its choices; no model is needed.

    \b
    Example:
        robustify heuristics items.jsonl
    """
    from robustify.heuristics import table

    found: Mapping[str, Any] = table(_loaded(data, skip_bad).items)
    if json_:
        click.echo(json.dumps(found))
        return 0
    lines = [f"n = {found['n']}, chance {found['chance_accuracy']:.1%}"]
    for name, rate in found["heuristics"].items():
        lo, hi = rate["ci"]
        lines.append(
            f"{name:24} {rate['value']:6.1%}  (95 % {lo:.1%} to {hi:.1%}, ties in {rate['ties']} items)"
        )
    click.echo("\n".join(lines))
    return 0


def _lines(told: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, value in told.items():
        match value:
            case dict():
                lines.append(f"{name}:" + ("" if value else " none"))
                lines += [
                    f"  {k}: {json.dumps(v, ensure_ascii=False) if isinstance(v, dict | list) else v}"
                    for k, v in value.items()
                ]
            case list():
                lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}")
            case _:
                lines.append(f"{name}: {value}")
    return lines
