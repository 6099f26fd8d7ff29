"""From a file of items to a run: the config that a file alone makes, and `robustify init`, which writes one down."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.data import DATA, MAP, SKIP_BAD, items_of, mapped, named_data, names_config
from robustify.cli.options import PATH, output, print_lines, say
from robustify.errors import UsageError, counted

if TYPE_CHECKING:
    from robustify.config import Config
    from robustify.loaders import Loaded


def config_of(
    config: str,
    models: Sequence[str],
    overrides: Mapping[str, object],
    *,
    public: bool,
    columns: Sequence[str],
) -> "Config":
    """The config of a run: read from its file, or made of a file of items alone where these may be shown.

    Raises:
        UsageError: no such file, items without `public`, or options that are of the other kind.
    """
    from robustify import config as configs

    if names_config(config) or not os.path.isfile(config):
        if public or columns:
            what = "--public" if public else "--map"
            path = configs.find_config(config)
            raise UsageError(f"{what}: is for a file of items; {path.name} is a config, which says it itself")
        return configs.load(configs.find_config(config), overrides)
    name = name_of(config)
    if not public:
        raise UsageError(
            f"{config}: is a file of items, not a config; if its text may be shown run `robustify {config} --public` "
            f"(-m NAME adds models), else or for settings `robustify init {config}`"
        )
    tree: dict[str, Any] = {"name": name, "sensitivity": "public", "data": [{"path": config}]}
    if columns:
        tree["data"][0]["fields"] = mapped(columns)
    tree["asking"] = {"mode": mode_of(models)}
    return configs.parse(configs.overridden(tree, overrides), name)


def mode_of(models: Sequence[str]) -> str:
    """How these models are asked: models as small as the embedded ones cannot answer by letter."""
    from robustify.models.names import KNOWN

    return "text" if any(model in KNOWN for model in models) else "letter"


def name_of(path: str) -> str:
    """A run's name from a file's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).stem).strip("-._")[:64] or "items"


@click.command()
@DATA
@MAP
@SKIP_BAD
@click.option("-m", "--models", multiple=True, metavar="NAME", help="A model to be asked (repeatable).")
@click.option("-o", "--out", "--output", type=PATH, help="The config's file [default: NAME.yaml, here].")
@click.option("--force", is_flag=True, help="Replace the file.")
@output
def init(
    data: str,
    columns: tuple[str, ...],
    skip_bad: bool,
    models: tuple[str, ...],
    out: Path | None,
    force: bool,
) -> int:
    """Write a commented config for a file of items.

    DATA is read and checked first.

    \b
    Example:
        robustify init items.csv
        robustify items.yaml --dry-run
    """
    from robustify.files import writable

    if names_config(data):
        raise UsageError(f"{data}: is a config already; expected a file of items")
    path = out or Path(f"{name_of(data)}.yaml")
    if path.exists() and not force:
        raise UsageError(f"{path}: is there already; --force replaces it, -o FILE writes another")
    bench = items_of(data, skip_bad, columns)
    # The config names its data relative to itself.
    where = os.path.relpath(data, path.parent)
    with writable(path):
        path.write_text(_written(bench, where, skip_bad, models), encoding="utf-8")
    print_lines(path)
    say(f"next: read it, then `robustify {path} --dry-run` and `robustify {path}`")
    return 0


_TEMPLATE = """\
# {about}. Every key and its default: docs/config.md.
name: {name}

# public: reports show the items' text. If it must not spread, stop here: `robustify restricted --help`.
sensitivity: public

{data}

# The models that are asked every item without its question. With none of them, rules and a small
# trained probe audit the options alone, in seconds. `robustify models list` names two that are fetched
# without an account; others: hf:owner/name@revision, a folder, a GGUF file, a server (docs/engines.md).
models: [{models}]

asking:
  # letter: models answer A, B, C ...; text: each option's own text is scored. Models of fewer than
  # about a billion numbers cannot answer by letter.
  mode: {mode}

screen:
  # fdr: of the items removed, at most this share is there by chance (docs/filter.md).
  criterion: fdr
  fdr: 0.1

# Only the first items, to try it: a trial run is not judged.
# limit: 50
"""


def _written(bench: "Loaded", where: str, skip_bad: bool, models: Sequence[str]) -> str:
    from robustify.cli.described import data_block

    sizes = sorted({item.k for item in bench.items})
    options = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
    file = json.dumps(Path(where).name, ensure_ascii=False)
    return _TEMPLATE.format(
        about=f"An audit of {file}: {counted(len(bench.items), 'item')} of {options} options",
        name=name_of(where),
        data="\n".join(data_block(named_data(where, bench, skip_bad))),
        models=", ".join(json.dumps(model) for model in models),
        mode=mode_of(models or ("smollm2-135m",)),
    )
