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
    """Forget every score; models stay."""
    from robustify.engines.cache import Cache

    with Cache(default_cache(cache_dir)) as scores:
        click.echo(f"{scores.clear()} scores forgotten")
    return 0


def _tell(cache_dir: Path | None, json_: bool, *, verify: bool) -> int:
    from robustify.engines.cache import Cache

    with Cache(default_cache(cache_dir)) as scores:
        told = {
            name: value for name, value in asdict(scores.info(verify=verify)).items() if value is not None
        }
    click.echo(json.dumps(told) if json_ else "\n".join(f"{name}: {value}" for name, value in told.items()))
    return 0
