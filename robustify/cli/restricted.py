"""`robustify restricted`: the adapters of sensitive sets, the key of their ids, their terms, and their hashed splits."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.options import (
    FILE,
    PATH,
    RUN,
    out_option,
    output,
    print_lines,
    print_result,
    printable,
    say,
)

if TYPE_CHECKING:
    from robustify.restricted.adapters import Adapter
    from robustify.run import Run

KEY_FILE = click.argument("file", required=False, type=FILE)
ADAPTER = click.argument("name", metavar="ID|FOLDER")
SPLIT = click.argument("file", metavar="SPLIT", type=PATH)


@click.group()
def restricted() -> None:
    """Set up a restricted set, and use its splits."""


@restricted.group()
def adapter() -> None:
    """List and check adapters: what a set is, and where it is."""


@adapter.command("list")
@output
def list_adapters() -> int:
    """List the adapters that a config may name: shipped ones, and yours in $ROBUSTIFY_ADAPTERS."""
    from robustify.errors import RobustifyError
    from robustify.restricted.adapters import all_adapters

    rows: list[dict[str, str]] = []
    broken: list[str] = []
    for one in all_adapters():
        if isinstance(one, RobustifyError):
            broken += one.lines
        else:
            about = one.manifest
            rows.append({"id": about.id, "sensitivity": about.sensitivity, "title": about.title})
    for line in broken:
        say(line)
    lines = (f"{row['id']:24} {row['sensitivity']:10} {row['title']}" for row in rows)
    return print_result({"adapters": rows, "broken": broken}, lines)


@adapter.command("check")
@ADAPTER
@click.option("-o", "--out", type=PATH, help="A folder for results, to be checked too.")
@output
def check_adapter(name: str, out: Path | None) -> int:
    """Say fact by fact whether a run on this set would be allowed; exit 4 if one is missing.

    Nothing of the data is shown but the number of records and a digest.
    """
    from robustify.restricted.checking import checked

    facts = checked(name, out)
    lines = [f"{'yes' if one['holds'] else 'NO '} {one['fact']}: {one['says']}" for one in facts["facts"]]
    content = [f"content_sha256: {facts['content_sha256']}"] if facts["content_sha256"] else []
    print_result(facts, [*lines, *content])
    return 0 if all(fact["holds"] for fact in facts["facts"]) else 4


@restricted.group()
def key() -> None:
    """Make and check the evaluator's key."""


@key.command("new")
@out_option("The new file; it must not exist yet.")
@output
def make_key(out: Path) -> int:
    """Make a key (256 random bits, mode 0600, outside any git work tree) and its record of releases.

    \b
    Example:
        robustify restricted key new --out ~/.config/robustify/ids.key
        export ROBUSTIFY_KEY_FILE=~/.config/robustify/ids.key
    """
    from robustify.disclosure.record import begin, record_file
    from robustify.restricted.secret_key import FILE_VARIABLE, new_key

    made = new_key(out)
    begin(made, record_file(out))
    lines = [
        f"{out}: key {made.id}, mode 0600",
        f"Use it: export {FILE_VARIABLE}={out}",
        "Keep a copy with your other secrets: without the key, its lists of ids cannot be opened again.",
        "The gate takes a key of its own: make a second one and name it in ROBUSTIFY_GATE_KEY_FILE.",
    ]
    return print_result({"key_id": made.id, "file": str(out)}, lines)


@key.command()
@KEY_FILE
@click.option(
    "--begin", "begins", is_flag=True, help="Make the record: nothing was published under this key yet."
)
@output
def releases(file: Path | None, begins: bool) -> int:
    """Show what was published under the key in FILE, or the one in force: each release and its bits."""
    from robustify.disclosure.record import begin, entries_of, record_file
    from robustify.restricted.secret_key import evaluator_key

    made, place = evaluator_key(file), record_file(file)
    if begins:
        begin(made, place)
    rows = [
        {
            "at": entry.at,
            "set": entry.release.dataset,
            "version": entry.release.version,
            "what": entry.release.what,
            "items": len(entry.release.of.digests),
            "bits": entry.release.bits,
        }
        for entry in entries_of(made, place)
    ]
    lines = [f"{place}: {len(rows)} releases under key {made.id}"]
    lines += [
        f"{r['at']} {r['set']} {r['version']}, {r['what']}: {r['items']:,} items, {r['bits']} bits"
        for r in rows
    ]
    return print_result({"key_id": made.id, "record": str(place), "releases": rows}, lines)


@restricted.group()
def licence() -> None:
    """Show and accept the terms of a set."""


@licence.command()
@ADAPTER
@output
def show(name: str) -> int:
    """Print the terms of a set, and the command that accepts them."""
    from robustify.restricted.adapters import find_adapter

    known = find_adapter(name)
    digest = known.manifest.licence.sha256
    say(_manifest(known))
    say(f"to accept: robustify restricted licence accept {name} --name NAME --licence-sha256 {digest}")
    return print_result({"terms": known.licence, "sha256": digest}, known.licence.rstrip("\n").split("\n"))


@licence.command()
@ADAPTER
@click.option("--name", "person", required=True, help="Who has read the terms and accepts them.")
@click.option(
    "--licence-sha256", metavar="HEX", required=True, help="The digest of the terms that were read."
)
@output
def accept(name: str, person: str, licence_sha256: str) -> int:
    """Accept the terms of a set: the name is recorded (mode 0600). `licence show` prints the terms and this command."""
    from robustify.errors import AuthorisationError
    from robustify.restricted import terms
    from robustify.restricted.adapters import find_adapter

    known = find_adapter(name)
    if licence_sha256.lower() != known.manifest.licence.sha256:
        raise AuthorisationError(
            f"{known.manifest.id}: --licence-sha256 is not the digest of its terms; read them: "
            f"robustify restricted licence show {known.manifest.id}"
        )
    made = terms.accept(known, person)
    lines = [_manifest(known), f"{made.id}: accepted by {made.name}, recorded in {terms.licences_file()}"]
    return print_result({"id": made.id, "name": made.name, "at": made.at}, lines)


def _manifest(known: "Adapter") -> str:
    """Return what is accepted beside the text: where items may go, and the smallest cell that is shown."""
    hosts = ", ".join(known.manifest.egress) or "none"
    return f"manifest sha256 {known.sha256}: hosts beside this machine: {hosts}; min_cell {known.manifest.min_cell}"


@restricted.group()
def split() -> None:
    """Publish and open hashed splits.

    Anyone with the set, its licence and the key ($ROBUSTIFY_KEY_FILE) finds the items again; nobody else does.
    """


@split.command()
@RUN
@click.option("--split", "name", required=True, type=click.Choice(["robust", "shortcut", "undecided"]))
@out_option("A new file in a private folder.")
@output
def emit(run: "Run", name: str, out: Path) -> int:
    """Write one split of RUN, to be published; the record of releases has it first.

    \b
    Example:
        robustify restricted split emit results/mock --split robust -o ~/private/robust.json
    """
    from robustify.files import write_new
    from robustify.policy.releases import emit_split
    from robustify.restricted.confinement import require_private

    require_private(out.absolute().parent, [out.name])
    made = emit_split(run, name)
    write_new(out, made.text)
    return print_lines(f"{made.title}: {len(made.ids):,} ids under key {made.key_id}: {printable(str(out))}")


@split.command("open")
@SPLIT
@click.option("--data", required=True, metavar="ADAPTER", help="The set's adapter, by name or folder.")
@out_option("A new private file for the items, with their text (mode 0600).", required=False)
@output
def open_split(file: Path, data: str, out: Path | None) -> int:
    """Count the ids of SPLIT that the local copy holds; exit 3 unless it holds all of them. -o writes the items.

    \b
    Example:
        robustify restricted split open robust.json --data wmdp-bio -o ~/private/robust.jsonl
    """
    from robustify.restricted.ids import matched, read_split
    from robustify.restricted.loader import open_for, write_copy

    given = read_split(file)
    copy = open_for(given, data).read().items
    there = matched(given, copy)
    if out is not None:
        write_copy(out, there)
    said = f"{given.title}: {len(there):,} of {len(given.ids):,} ids matched, among {len(copy):,} local items"
    return print_result(
        {"split": given.name, "ids": len(given.ids), "matched": len(there), "items": len(copy)}, [said]
    )
