"""The command `robustify init`, which writes a config for a file of items."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.base.errors import UsageError, counted
from robustify.cli.data import DATA, MAP, SKIP_BAD, named_data, names_config, public_items, refuse_existing
from robustify.cli.options import FORCE, out_option, output, print_lines, say

if TYPE_CHECKING:
    from robustify.reading.loaders import Loaded


@click.command()
@DATA
@MAP
@SKIP_BAD
@click.option(
    "-m", "--models", multiple=True, metavar="NAME", help="Add this model to the config (repeatable)."
)
@out_option("Write this file [default: NAME.yaml in the current folder].", required=False)
@FORCE
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
    from robustify.base.files import writable
    from robustify.base.settings_files import name_of

    if names_config(data):
        raise UsageError(f"{data} is already a config. Pass a file of items.")
    path = out or Path(f"{name_of(data)}.yaml")
    refuse_existing(path, force)
    bench = public_items(data, skip_bad, columns)
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
    from robustify.base.settings_files import name_of
    from robustify.cli.validated import data_block
    from robustify.pipeline.config import mode_of

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
