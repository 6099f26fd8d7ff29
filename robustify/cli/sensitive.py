"""`robustify adapter`, `key` and `licence`: the entrances of sensitive sets, the secret of their ids, their terms."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.options import DIR, FILE, PATH, as_json, print_result, printable

if TYPE_CHECKING:
    from robustify.restricted.adapters import Adapter

KEY_FILE = click.argument("file", required=False, type=FILE)


@click.group()
def adapter() -> None:
    """The entrance of a sensitive set: a manifest without content, that says what the set is and where it lies."""


@adapter.command("list")
@as_json
def list_adapters(json_: bool) -> int:
    """List the adapters that can be named in a config: shipped ones, and yours in $ROBUSTIFY_ADAPTERS."""
    from robustify.errors import RobustifyError
    from robustify.restricted.adapters import all_adapters

    adapters = list(all_adapters())
    broken = [line for one in adapters if isinstance(one, RobustifyError) for line in one.lines]
    manifests = [one.manifest for one in adapters if not isinstance(one, RobustifyError)]
    rows = [{"id": m.id, "sensitivity": m.sensitivity, "title": m.title} for m in manifests]
    for line in broken:
        click.echo(f"robustify: {printable(line)}", err=True)
    lines = (f"{row['id']:24} {row['sensitivity']:10} {row['title']}" for row in rows)
    return print_result({"adapters": rows, "broken": broken}, lines, json_)


@adapter.command("new")
@click.argument("folder", type=DIR)
@click.option("--title", required=True, help="What the set is, in one line.")
@click.option(
    "--sensitivity", required=True, type=click.Choice(["public", "restricted"]), help="There is no default."
)
@click.option("--licence", "terms", required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="The text of the set's terms; it is copied beside the manifest.")  # fmt: skip
@click.option("--licence-name", required=True, help="How these terms are called.")
@click.option("--root-env", default="ROBUSTIFY_RESTRICTED_DATA", show_default=True,
              help="The environment variable that holds the data folder.")  # fmt: skip
@click.option("--file", "files", multiple=True, required=True, metavar="PATH",
              help="A file of items below that folder (repeatable); pinned if the folder is there.")  # fmt: skip
@click.option("--version", default="1", show_default=True, help="Of the data; ids depend on it.")
def new_adapter(
    folder: Path,
    title: str,
    sensitivity: str,
    terms: Path,
    licence_name: str,
    root_env: str,
    files: tuple[str, ...],
    version: str,
) -> int:
    """Make an adapter in FOLDER, whose name becomes the set's id; no content is copied.

    \b
    Example:
        robustify adapter new adapters/our-set --title "Our set" --sensitivity restricted \\
            --licence TERMS.txt --licence-name "Internal terms" --file items.jsonl
    """
    from robustify.restricted.adapter_setup import make_adapter

    made = make_adapter(
        folder,
        title=title,
        sensitivity=sensitivity,
        terms=terms,
        licence_name=licence_name,
        root_env=root_env,
        files=files,
        version=version,
    )
    pinned = sum(file.sha256 is not None for file in made.data.files)
    click.echo(
        f"{folder}: adapter {made.id}, {made.sensitivity}, {pinned} of {len(made.data.files)} files pinned"
    )
    click.echo(f"Next: robustify adapter check {folder}", err=True)
    return 0


@adapter.command("check")
@click.argument("name", metavar="ID|FOLDER")
@click.option("-o", "--out", type=PATH, help="A folder for results, to be checked too.")
@as_json
def check_adapter(name: str, out: Path | None, json_: bool) -> int:
    """Say fact by fact whether a run on this set would be allowed; exit 4 where one is missing.

    Nothing of the data is shown: the number of records and a digest, by which a person can vouch for a file.
    """
    from robustify.restricted.adapter_setup import checked

    facts = checked(name, out)
    lines = [f"{'yes' if one['holds'] else 'NO '} {one['fact']}: {one['says']}" for one in facts["facts"]]
    content = [f"content_sha256: {facts['content_sha256']}"] if facts["content_sha256"] else []
    print_result(facts, [*lines, *content], json_)
    return 0 if all(fact["holds"] for fact in facts["facts"]) else 4


@click.group()
def key() -> None:
    """The evaluator's key for restricted sets; it is never shown and never an argument."""


@key.command("new")
@click.option("--out", "-o", required=True, type=FILE, help="The new file; it must not be there yet.")
@as_json
def make_key(out: Path, json_: bool) -> int:
    """Make a key: 256 random bits in a new file of mode 0600, outside any git work tree; and its ledger of releases.

    \b
    Example:
        robustify key new --out ~/.config/robustify/ids.key
        export ROBUSTIFY_KEY_FILE=~/.config/robustify/ids.key
    """
    from robustify.disclosure.ledger import begin, beside
    from robustify.restricted.secret_key import FILE_VARIABLE, new_key

    made = new_key(out)
    begin(made, beside(out))
    lines = [
        f"{out}: key {made.id}, mode 0600",
        f"Use it: export {FILE_VARIABLE}={out}",
        "Keep a copy where you keep other secrets: without it no list of ids that it made can be opened again.",
        "The gate takes a key of its own: make a second one and name it in ROBUSTIFY_GATE_KEY_FILE.",
    ]
    return print_result({"key_id": made.id, "file": str(out)}, lines, json_)


@key.command("id")
@KEY_FILE
@as_json
def key_id(file: Path | None, json_: bool) -> int:
    """Print the public id of the key in FILE, or of the one in force."""
    from robustify.restricted.secret_key import evaluator_key

    key_ = evaluator_key(None if file is None else str(file))
    return print_result({"key_id": key_.id}, [key_.id], json_)


@key.command("check")
@KEY_FILE
@as_json
def check_key(file: Path | None, json_: bool) -> int:
    """Say whether the key in FILE, or the one in force, can be used; every fault is exit 4."""
    from robustify.restricted.secret_key import FILE_VARIABLE, VARIABLE, evaluator_key

    key_ = evaluator_key(None if file is None else str(file))
    source = str(file) if file else os.environ.get(FILE_VARIABLE) or f"${VARIABLE}"
    facts = {"key_id": key_.id, "from": source, "usable": True}
    return print_result(facts, [f"key {key_.id} from {source}: usable"], json_)


@key.command()
@KEY_FILE
@click.option("--begin", "begins", is_flag=True, help="Make it: nothing was published under this key yet.")
@as_json
def ledger(file: Path | None, begins: bool, json_: bool) -> int:
    """Show what was published under the key in FILE, or the one in force: counts and bits of each release.

    \b
    Example:
        robustify key ledger
    """
    from robustify.disclosure.ledger import begin, beside, entry_rows, ledger_file, read_ledger
    from robustify.restricted.secret_key import evaluator_key

    key_ = evaluator_key(None if file is None else str(file))
    place = ledger_file(key_.id) if file is None else beside(file)
    if begins:
        begin(key_, place)
    rows = entry_rows(read_ledger(key_, place).entries)
    lines = [f"{place}: {len(rows)} releases under key {key_.id}"]
    for row in rows:
        listed = "" if row["listed"] is None else f"{row['listed']:,} of "
        said = f"{row['set']} {row['version']}, {row['what']}: {listed}{row['items']:,} items"
        despite = f", despite: {row['despite']}" if row["despite"] else ""
        lines.append(
            f"{row['release']} {row['at']} {said}, {row['cells']} cells, {row['bits']} bits{despite}"
        )
    return print_result({"key_id": key_.id, "ledger": str(place), "releases": rows}, lines, json_)


@click.group()
def licence() -> None:
    """The terms of sets: shown, accepted by name, and void as soon as their text or the set's manifest changes."""


@licence.command()
@click.argument("adapter", metavar="ID")
def show(adapter: str) -> int:
    """Print the terms of a set and their sha256."""
    from robustify.restricted.adapters import find_adapter

    known = find_adapter(adapter)
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
    from robustify.restricted.adapters import find_adapter

    known = find_adapter(adapter)
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
def list_licences(json_: bool) -> int:
    """List the terms that were accepted on this account."""
    from robustify.restricted.account import accepted

    rows = accepted()
    lines = (f"{row.id:24} {row.licence_sha256[:16]}  {row.at}  {row.name}" for row in rows)
    return print_result({"accepted": [asdict(row) for row in rows]}, lines, json_)


def _manifest(known: "Adapter") -> str:
    """What is accepted beside the text: where items may go, and the smallest cell that is shown."""
    hosts = ", ".join(known.manifest.egress) or "none"
    return f"manifest sha256 {known.sha256}: hosts beside this machine: {hosts}; min_cell {known.manifest.min_cell}"
