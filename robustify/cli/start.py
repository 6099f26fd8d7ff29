"""Configs made from a file of items, and the command `robustify init`, which writes one."""

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
    """Return the config of a run, read from a file or made for a public file of items.

    Raises:
        UsageError: the file does not exist, `public` is missing for a file of items, or an option does not fit the
            kind of file.
    """
    from robustify import config as configs

    if names_config(config) or not os.path.isfile(config):
        if public or columns:
            what = "--public" if public else "--map"
            path = configs.find_config(config)
            raise UsageError(f"{what} works only with a file of items, but {path.name} is a config.")
        return configs.load(configs.find_config(config), overrides)
    name = name_of(config)
    if not public:
        raise UsageError(
            f"{config} contains items, not a config. To audit it directly if its text is public, run "
            f"`robustify {config} --public` (-m NAME adds models). To write a config, run `robustify init {config}`."
        )
    tree: dict[str, Any] = {"name": name, "sensitivity": "public", "data": [{"path": config}]}
    if columns:
        tree["data"][0]["fields"] = mapped(columns)
    tree["asking"] = {"mode": mode_of(models)}
    return configs.parse(configs.overridden(tree, overrides), name)


def mode_of(models: Sequence[str]) -> str:
    """Return the mode for asking these models. The embedded models are too small to answer by letter."""
    from robustify.models.names import KNOWN

    return "text" if any(model in KNOWN for model in models) else "letter"


def name_of(path: str) -> str:
    """Return a run name made from a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(path).stem).strip("-._")[:64] or "items"


@click.command()
@DATA
@MAP
@SKIP_BAD
@click.option(
    "-m", "--models", multiple=True, metavar="NAME", help="Add this model to the config (repeatable)."
)
@click.option(
    "-o", "--out", "--output", type=PATH, help="Write this file [default: NAME.yaml in the current folder]."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output
def init(
    data: str,
    columns: tuple[str, ...],
    skip_bad: bool,
    models: tuple[str, ...],
    out: Path | None,
    force: bool,
) -> int:
    """Write a config for a file of items.

    DATA is checked first. The config has comments that explain its keys.

    \b
    Example:
        robustify init items.csv
        robustify items.yaml --dry-run
    """
    from robustify.files import writable

    if names_config(data):
        raise UsageError(f"{data} is already a config. Pass a file of items.")
    path = out or Path(f"{name_of(data)}.yaml")
    if path.exists() and not force:
        raise UsageError(
            f"{path} already exists. Use --force to replace it, or -o FILE to write another file."
        )
    bench = items_of(data, skip_bad, columns)
    # Paths in a config are relative to the config.
    where = os.path.relpath(data, path.parent)
    with writable(path):
        path.write_text(_written(bench, where, skip_bad, models), encoding="utf-8")
    print_lines(path)
    say(f"Next, read the config, then run `robustify {path} --dry-run` and `robustify {path}`.")
    return 0


_TEMPLATE = """\
# {about}. For all keys and defaults, see docs/config.md.
name: {name}

# public: reports show item text. If the text must not spread, stop here and run `robustify restricted --help`.
sensitivity: public

{data}

# Models that are asked every item without its question. Without models, rules and a small trained
# probe audit the options in seconds. `robustify models list` shows models that need no account. You
# can also use hf:owner/name@revision, a folder, a GGUF file, or a server (docs/engines.md).
models: [{models}]

asking:
  # letter: models answer A, B, C ...; text: the text of each option is scored. Models with fewer than
  # about a billion parameters cannot answer by letter.
  mode: {mode}

screen:
  # fdr: at most this share of the removed items is expected to be removed by chance (docs/filter.md).
  criterion: fdr
  fdr: 0.1

# Audit only the first items, as a trial that is not judged.
# limit: 50
"""


def _written(bench: "Loaded", where: str, skip_bad: bool, models: Sequence[str]) -> str:
    from robustify.cli.validated import data_block

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
