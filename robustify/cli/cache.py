"""`robustify cache`: what the score cache holds, whether it is whole, and forgetting it."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from robustify.cli.options import as_json, cache_dir, default_cache


@click.group()
def cache() -> None:
    """The score cache: log-probabilities that need not be computed again."""


@cache.command()
@cache_dir
@as_json
def info(cache_dir: Path | None, json_: bool) -> int:
    """Where the cache lies, how many scores it holds, how large it is."""
    return _tell(cache_dir, json_, verify=False)


@cache.command()
@cache_dir
@as_json
def verify(cache_dir: Path | None, json_: bool) -> int:
    """Read every score and hold it to its checksum; damaged ones are computed again when they are needed."""
    return _tell(cache_dir, json_, verify=True)


@cache.command()
@cache_dir
def clear(cache_dir: Path | None) -> int:
    """Forget every score, also those of restricted sets; models stay."""
    from robustify.engines.cache import every

    with every(default_cache(cache_dir)) as held:
        click.echo(f"{sum(scores.clear() for scores in held)} scores forgotten")
    return 0


def _tell(cache_dir: Path | None, json_: bool, *, verify: bool) -> int:
    from robustify.engines.cache import every

    with every(default_cache(cache_dir)) as held:
        parts = [_present(asdict(scores.info(verify=verify))) for scores in held]
    told = {**parts[0], **({"restricted": parts[1]} if len(parts) > 1 else {})}
    lines = [f"{name}: {value}" for part in parts for name, value in part.items()]
    click.echo(json.dumps(told) if json_ else "\n".join(lines))
    return 0


def _present(told: "dict[str, object]") -> "dict[str, object]":
    return {name: value for name, value in told.items() if value is not None}
