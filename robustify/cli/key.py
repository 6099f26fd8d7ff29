"""`robustify key`: make the secret that ids of restricted sets are keyed with, and look at it without showing it."""

import json
from pathlib import Path

import click

from robustify.cli.options import as_json

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def key() -> None:
    """The evaluator's key for restricted sets; it is never shown and never an argument."""


@key.command()
@click.option("--out", "-o", required=True, type=FILE, help="The new file; it must not be there yet.")
@as_json
def new(out: Path, json_: bool) -> int:
    """Make a key: 256 random bits in a new file of mode 0600, outside any git work tree.

    \b
    Example:
        robustify key new --out ~/.config/robustify/ids.key
        export ROBUSTIFY_KEY_FILE=~/.config/robustify/ids.key
    """
    from robustify.restricted.secret_key import FILE_VARIABLE, new_key

    made = new_key(out)
    if json_:
        click.echo(json.dumps({"key_id": made.id, "file": str(out)}))
        return 0
    click.echo(f"{out}: key {made.id}, mode 0600")
    click.echo(
        f"Use it: export {FILE_VARIABLE}={out}\n"
        "Keep a copy where you keep other secrets: without it no list of ids that it made can be opened again.\n"
        "The gate takes a key of its own: make a second one and name it in ROBUSTIFY_GATE_KEY_FILE."
    )
    return 0


@key.command("id")
@click.argument("file", required=False, type=FILE)
@as_json
def id_(file: Path | None, json_: bool) -> int:
    """Print the public id of the key in FILE, or of the one in force."""
    from robustify.restricted.secret_key import evaluator_key

    key_ = evaluator_key(None if file is None else str(file))
    click.echo(json.dumps({"key_id": key_.id}) if json_ else key_.id)
    return 0


@key.command()
@click.argument("file", required=False, type=FILE)
@as_json
def check(file: Path | None, json_: bool) -> int:
    """Say whether the key in FILE, or the one in force, can be used; every fault is exit 4."""
    import os

    from robustify.restricted.secret_key import FILE_VARIABLE, VARIABLE, evaluator_key

    key_ = evaluator_key(None if file is None else str(file))
    source = str(file) if file else os.environ.get(FILE_VARIABLE) or f"${VARIABLE}"
    facts = {"key_id": key_.id, "from": source, "usable": True}
    click.echo(json.dumps(facts) if json_ else f"key {key_.id} from {source}: usable")
    return 0
