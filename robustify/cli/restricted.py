"""The command `robustify gate`, and the commands of `robustify restricted` for adapters, keys, terms, and hashed splits."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robustify.cli.options import FILE, OUT, PATH, RUN, Group, option
from robustify.cli.terminal import print_lines, print_result, printable, say

if TYPE_CHECKING:
    from robustify.restricted.adapters import Adapter
    from robustify.runs.run import Run

ADAPTER = click.argument("name", metavar="ID|FOLDER")


class _Gate(click.Command):
    """Command that passes all arguments, including `--` and `--help`, to the argument parser of the gate."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        from robustify.gate import command

        return command.scanner().format_help().rstrip("\n")


@click.command(cls=_Gate, add_help_option=False)
@click.pass_context
def gate(ctx: click.Context) -> int:
    """Block sensitive items before a commit, push, or release."""
    from robustify.gate import command

    return command.run_gate(ctx.args)


@click.group(cls=Group)
def restricted() -> None:
    """Set up restricted sets, and share their splits."""


@restricted.group()
def adapter() -> None:
    """List and check adapters, which describe restricted sets."""


@adapter.command("list")
def list_adapters() -> int:
    """List the built-in adapters and those in $ROBUSTIFY_ADAPTERS."""
    from robustify.base.errors import RobustifyError
    from robustify.restricted.adapters import all_adapters

    every = list(all_adapters())
    broken = [line for error in every if isinstance(error, RobustifyError) for line in error.lines]
    manifests = [adapter.manifest for adapter in every if not isinstance(adapter, RobustifyError)]
    rows = [{"id": m.id, "sensitivity": m.sensitivity, "title": m.title} for m in manifests]
    for line in broken:
        say(line)
    lines = (f"{row['id']:24} {row['sensitivity']:10} {row['title']}" for row in rows)
    return print_result({"adapters": rows, "broken": broken}, lines)


@adapter.command("check")
@ADAPTER
@option("-o --out PATH", "Also check whether a run may write into this folder.")
def check_adapter(name: str, out: Path | None) -> int:
    """Check whether a run on this set is allowed.

    The exit code is 4 if a requirement is not met. Of the data, only the number of records and a digest are shown.
    """
    from robustify.restricted.access import check_requirements

    facts = check_requirements(name, out)
    lines = [f"{'yes' if fact['holds'] else 'NO '} {fact['fact']}: {fact['says']}" for fact in facts["facts"]]
    content = [f"content_sha256: {facts['content_sha256']}"] if facts["content_sha256"] else []
    print_result(facts, [*lines, *content])
    return 0 if all(fact["holds"] for fact in facts["facts"]) else 4


@restricted.group()
def key() -> None:
    """Manage the key for the IDs of restricted sets."""


@key.command("new")
@option(OUT, "Write the key into this new file.", required=True)
def make_key(out: Path) -> int:
    """Create a key, for IDs or for the gate, and its record of releases.

    The key has 256 random bits. Its file has mode 0600 and must be outside any git work tree.

    \b
    Example:
        robustify restricted key new --out ~/.config/robustify/ids.key
        export ROBUSTIFY_KEY_FILE=~/.config/robustify/ids.key
    """
    from robustify.base.key_file import FILE_VARIABLE, IDS_FILE_VARIABLE
    from robustify.restricted.disclosure.record import begin, record_file
    from robustify.restricted.ids import new_key

    new = new_key(out)
    begin(new, record_file(out))
    place = shlex.quote(str(out.absolute()))
    other = Path(os.environ.get(IDS_FILE_VARIABLE) or out).absolute() != out.absolute()
    lines = [
        f"{out}: key {new.id}, mode 0600",
        f"Keep your key of IDs, which ${IDS_FILE_VARIABLE} names, because only that key opens its lists of IDs, and its "
        "record of releases does not count for a new key."
        if other
        else f"To use it for IDs: export {IDS_FILE_VARIABLE}={place}",
        f"To use it for the gate instead: export {FILE_VARIABLE}={place}",
        "Keep a copy with your other secrets. The gate and the IDs need separate keys.",
    ]
    return print_result({"key_id": new.id, "file": str(out)}, lines)


@key.command("releases")
@click.argument("file", required=False, type=FILE)
@option("--begin", "Create the record of a key that has not been used for a release.", to="begins")
def list_releases(file: Path | None, begins: bool) -> int:
    """List the releases under a key, the cost of each in bits, and the remaining budget of each set.

    The key is in FILE, or else in $ROBUSTIFY_KEY_FILE.
    """
    from robustify.base.key_file import evaluator_key
    from robustify.restricted.disclosure.record import begin, record_file, releases_of

    key, place = evaluator_key(file), record_file(file)
    if begins:
        begin(key, place)
    releases = releases_of(key, place)
    rows = [
        {"at": release.at, "set": release.dataset, "version": release.version, "what": release.what,
         "items": len(release.of.digests), "bits": release.bits}
        for release in releases
    ]  # fmt: skip
    lines = [f"{place}: {len(rows)} release{'s' * (len(rows) != 1)} under key {key.id}"]
    lines += ["{at} {set} {version}, {what}: {items:,} items, {bits} bits".format(**row) for row in rows]
    budgets = []
    for release in {(release.dataset, release.version): release for release in releases}.values():
        spent, limit = sum(other.bits for other in release.related(releases)), release.budget
        bits_left = None if limit is None else max(0.0, limit - spent)
        about = {"set": release.dataset, "version": release.version}
        budgets.append({**about, "spent": spent, "limit": limit, "left": bits_left})
        share = "" if bits_left is None else f" of {limit:.0f}, {bits_left:.0f} left"
        lines.append(f"{release.dataset} {release.version}: {spent:.0f} bits spent{share}")
    tree = {"key_id": key.id, "record": str(place), "releases": rows, "budgets": budgets}
    return print_result(tree, lines)


@restricted.group()
def license() -> None:
    """Show and accept the terms of a set."""


@license.command()
@ADAPTER
def show(name: str) -> int:
    """Print the terms of a set, and the command that accepts them."""
    from robustify.restricted.adapters import find_adapter

    loaded = find_adapter(name)
    digest = loaded.manifest.licence.sha256
    say(_manifest(loaded))
    say(f"To accept, run: robustify restricted license accept {name} --name NAME --license-sha256 {digest}")
    return print_result({"terms": loaded.licence, "sha256": digest}, loaded.licence.rstrip("\n").split("\n"))


@license.command("accept")
@ADAPTER
@option(
    "--name TEXT", "Record this person as having read and accepted the terms.", to="person", required=True
)
@option("--license-sha256 HEX", "Give the digest of the terms, as printed by `license show`.", required=True)
def accept_terms(name: str, person: str, license_sha256: str) -> int:
    """Accept the terms of a set that you have a copy of.

    The name, the digests and counts of the data, and keyed fingerprints of the items are recorded in a file of mode 0600.
    From then on, every command recognizes a copy of the items as restricted. To see the terms, run `license show`.
    """
    from robustify.base.errors import AuthorisationError
    from robustify.restricted import access, terms
    from robustify.restricted.adapters import find_adapter

    loaded = find_adapter(name)
    _ = loaded.licence  # raises if the terms were edited, so that their right digest is not called wrong
    if license_sha256.lower() != loaded.manifest.licence.sha256:
        raise AuthorisationError(
            f"{loaded.manifest.id}: --license-sha256 is not the digest of its terms. To read the terms, run "
            f"`robustify restricted license show {loaded.manifest.id}`.",
            code="other-terms-digest",
        )
    acceptance = access.accept(loaded, person)
    records = sum(pin.records for pin in acceptance.files.values())
    lines = [
        _manifest(loaded),
        f"{acceptance.id}: accepted by {acceptance.name}, recorded in {terms.licences_file()} with {records:,} records, "
        "which are refused as public from now on",
    ]
    return print_result(
        {"id": acceptance.id, "name": acceptance.name, "at": acceptance.at, "records": records}, lines
    )


def _manifest(adapter: "Adapter") -> str:
    hosts = ", ".join(adapter.manifest.egress) or "none"
    return f"manifest sha256 {adapter.sha256}: other hosts allowed: {hosts}; min_cell {adapter.manifest.min_cell}"


@restricted.group()
def split() -> None:
    """Publish and open hashed splits.

    Only a person who has the set, its license, and the key ($ROBUSTIFY_KEY_FILE) can find the items of a split.
    """


@split.command()
@RUN
@option(
    "--split kept|flagged|undecided",
    "Write this split. Score models only on items of `kept`.",
    to="name",
    required=True,
)
@option(OUT, "Write this new file in a private folder.", required=True)
def emit(run: "Run", name: str, out: Path) -> int:
    """Record a split of RUN as published, and write it.

    \b
    Example:
        robustify restricted split emit results/mock --split kept -o ~/private/kept.json
    """
    from robustify.base.files import write_new
    from robustify.restricted.confinement import require_private
    from robustify.restricted.restricted_folder import emit_split

    require_private(out.absolute().parent, [out.name])
    split = emit_split(run, name)
    write_new(out, split.text)
    return print_lines(
        f"{split.title}: {len(split.ids):,} ids under key {split.key_id}: {printable(str(out))}"
    )


@split.command("open")
@click.argument("file", metavar="SPLIT", type=PATH)
@option("--data ADAPTER", "Use this adapter, given by ID or folder.", required=True)
@option(OUT, "Write the items with their text into this new private file.")
def open_split(file: Path, data: str, out: Path | None) -> int:
    """Find the items of a split in the local copy of the set.

    The exit code is 3 if an ID of SPLIT is not in the local copy. With -o, the items are written with mode 0600.

    \b
    Example:
        robustify restricted split open kept.json --data wmdp-bio -o ~/private/kept.jsonl
    """
    from robustify.restricted.ids import items_in, read_split
    from robustify.restricted.loader import open_for, write_copy

    split = read_split(file)
    copy = open_for(split, data).read().items
    matching = items_in(split, copy)
    if out is not None:
        write_copy(out, matching)
    counts = {"ids": len(split.ids), "matched": len(matching), "items": len(copy)}
    line = (
        f"{split.title}: {len(matching):,} of {len(split.ids):,} ids matched, among {len(copy):,} local items"
    )
    return print_result({"split": split.name, **counts}, [line])
