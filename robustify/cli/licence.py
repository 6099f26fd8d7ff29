"""`robustify licence`: read and accept the terms of a set, once, under a name."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from robustify.cli.options import as_json, printable

if TYPE_CHECKING:
    from robustify.restricted.adapters import Adapter


@click.group()
def licence() -> None:
    """The terms of sets: shown, accepted by name, and void as soon as their text or the set's manifest changes."""


@licence.command()
@click.argument("adapter", metavar="ID")
def show(adapter: str) -> int:
    """Print the terms of a set and their sha256."""
    from robustify.restricted.adapters import find

    known = find(adapter)
    click.echo("\n".join(map(printable, known.licence.rstrip("\n").split("\n"))))
    click.echo(f"sha256 {known.manifest.licence.sha256}", err=True)
    click.echo(_manifest(known), err=True)
    return 0


@licence.command()
@click.argument("adapter", metavar="ID")
@click.option("--name", help="Who accepts [default: asked for].")
@click.option(
    "--licence-sha256",
    metavar="HEX",
    help="The digest of the terms you have read; needed without a terminal.",
)
def accept(adapter: str, name: str | None, licence_sha256: str | None) -> int:
    """Accept the terms of a set: they are shown, and your name is asked for and recorded (mode 0600).

    \b
    Example:
        robustify licence accept wmdp-bio
    """
    from robustify.errors import AuthorisationError
    from robustify.restricted import account as records
    from robustify.restricted.adapters import find

    known = find(adapter)
    text, digest = known.licence, known.manifest.licence.sha256
    if licence_sha256 is not None and licence_sha256.lower() != digest:
        raise AuthorisationError(
            f"{known.manifest.id}: --licence-sha256 is not that of its terms; read them: "
            f"robustify licence show {known.manifest.id}"
        )
    if licence_sha256 is None:
        if not sys.stdin.isatty():
            raise AuthorisationError(
                f"{known.manifest.id}: no terminal to accept its terms on; expected --licence-sha256 HEX and --name "
                f"NAME of the person who has read them: robustify licence show {known.manifest.id}"
            )
        click.echo("\n".join(map(printable, text.rstrip("\n").split("\n"))), err=True)
    click.echo(_manifest(known), err=True)
    if name is None:
        if not sys.stdin.isatty():
            raise click.UsageError("--name is missing; expected the name of the person who accepts")
        name = click.prompt("Your name, if you accept these terms", type=str, err=True)
    made = records.accept(known, name)
    click.echo(f"{made.id}: accepted by {printable(made.name)}, recorded in {records.record()}", err=True)
    return 0


@licence.command("list")
@as_json
def list_(json_: bool) -> int:
    """List the terms that were accepted on this account."""
    from robustify.restricted.account import accepted

    rows = accepted()
    if json_:
        click.echo(json.dumps({"accepted": [asdict(row) for row in rows]}))
        return 0
    for row in rows:
        click.echo(printable(f"{row.id:24} {row.licence_sha256[:16]}  {row.at}  {row.name}"))
    return 0


def _manifest(known: "Adapter") -> str:
    """What is accepted beside the text: where items may go, and the smallest cell that is shown."""
    hosts = ", ".join(known.manifest.egress) or "none"
    return f"manifest sha256 {known.sha256}: hosts beside this machine: {hosts}; min_cell {known.manifest.min_cell}"
