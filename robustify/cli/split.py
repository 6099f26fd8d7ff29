"""`robustify split`: hashed splits of restricted sets, out of a run and back to the items of a local copy."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.options import DESPITE, PATH, RUN, as_json, out_option, print_result, printable

if TYPE_CHECKING:
    from robustify.restricted.ids import Split
    from robustify.run import Run

NEW_KEY = "ROBUSTIFY_NEW_KEY_FILE"
FILE = click.argument("file", metavar="SPLIT", type=PATH)
DATA = click.option(
    "--data",
    required=True,
    metavar="ADAPTER",
    help="The set's adapter, by name or folder; its data are local.",
)


@click.group()
def split() -> None:
    """Hashed splits of a restricted set: keyed ids and nothing else.

    Anyone with the set, its licence and the key ($ROBUSTIFY_KEY_FILE) finds the items again; nobody else does.
    """


@split.command()
@RUN
@click.option(
    "--split", "name", required=True, type=click.Choice(["robust", "shortcut", "undecided"]),
    help="Which split.",
)  # fmt: skip
@out_option("A new file.")
@click.option(
    "--level",
    type=click.Choice(["evaluator", "published"]),
    default="published",
    show_default=True,
    help="For whom it is; nothing is published that a guardrail halts.",
)
@click.option(
    "--previous",
    multiple=True,
    type=PATH,
    help="A split that others published under this key; refused if together they describe single items. Repeatable.",
)
@DESPITE
def emit(run: "Run", name: str, out: Path, level: str, previous: tuple[Path, ...], despite: str) -> int:
    """Write one split of RUN, to be published; the ledger of releases records it first.

    It is refused (exit 4) where with earlier releases under this key it describes few items. The same split again
    costs nothing.

    \b
    Example:
        robustify split emit results/mock --split robust -o robust.json
    """
    from robustify.files import write_new
    from robustify.writers.releases import emitted

    made = emitted(run, name, level, previous, despite)
    write_new(out, made.text)
    click.echo(f"{_named(made)}: {len(made.ids):,} ids under key {made.key_id}: {printable(str(out))}")
    return 0


@split.command()
@FILE
@DATA
@out_option("A new private file.")
def apply(file: Path, data: str, out: Path) -> int:
    """Write the items of SPLIT from the local copy, with their text, for your own eyes (mode 0600).

    \b
    Example:
        robustify split apply robust.json --data wmdp-bio -o ~/private/robust.jsonl
    """
    from robustify.restricted.ids import matched, read_split
    from robustify.restricted.loader import items, open_for, write_copy

    given = read_split(file)
    there = matched(given, items(open_for(given, data)))
    write_copy(out, there)
    click.echo(f"{_named(given)}: {len(there):,} of {len(given.ids):,} ids matched: {printable(str(out))}")
    return 0


@split.command()
@FILE
@DATA
@as_json
def verify(file: Path, data: str, json_: bool) -> int:
    """Count how many ids of SPLIT the local copy holds; exit 3 unless it holds all of them.

    \b
    Example:
        robustify split verify robust.json --data wmdp-bio
    """
    from robustify.restricted.ids import read_split
    from robustify.restricted.loader import items, open_for

    given = read_split(file)
    copy = items(open_for(given, data))
    n = len(set(given.ids) & {item.id for item in copy})
    said = f"{_named(given)}: {n:,} of {len(given.ids):,} ids matched, among {len(copy):,} local items"
    counts = {"split": given.name, "ids": len(given.ids), "matched": n, "items": len(copy)}
    print_result(counts, [said], json_)
    return 0 if n == len(given.ids) else 3


@split.command()
@FILE
@DATA
@out_option("A new file.")
@click.option(
    "--new-key-file",
    type=PATH,
    help=f"The file of the new key [default: ${NEW_KEY}]; the old one is $ROBUSTIFY_KEY_FILE.",
)
@DESPITE
def rekey(file: Path, data: str, out: Path, new_key_file: Path | None, despite: str) -> int:
    """Write SPLIT anew under another key; it takes the data, because an HMAC cannot be converted.

    The ledger of the old key must hold it, and that of the new key records it first.

    A key that leaked has opened its splits: a new key does not take that back.

    \b
    Example:
        robustify split rekey robust.json --data wmdp-bio --new-key-file ~/keys/new.key -o robust-2.json
    """
    from robustify.errors import AuthorisationError
    from robustify.files import write_new
    from robustify.restricted.ids import read_split, rekeyed
    from robustify.restricted.loader import items, open_for
    from robustify.restricted.secret_key import evaluator_key
    from robustify.writers.releases import record_rekeyed, require_published

    place = str(new_key_file) if new_key_file is not None else os.environ.get(NEW_KEY)
    if not place:
        raise AuthorisationError(f"no new key: expected --new-key-file FILE or ${NEW_KEY}")
    given = read_split(file)
    access = open_for(given, data)
    new = evaluator_key(place)
    if new.id == given.key_id:
        raise AuthorisationError(
            f"the new key is the old one ({new.id}); expected another: robustify key new"
        )
    under_new = items(access, new)
    before = items(access)
    if not despite:
        require_published(given, before)
    made = rekeyed(given, before, under_new, new.id)
    record_rekeyed(made, under_new, new, Path(place), access.manifest.min_cell, despite)
    write_new(out, made.text)
    click.echo(
        f"{_named(made)}: {len(made.ids):,} ids, key {given.key_id} -> {made.key_id}: {printable(str(out))}"
    )
    return 0


def _named(one: "Split") -> str:
    return f"{one.dataset} {one.version}, split {one.name}"
