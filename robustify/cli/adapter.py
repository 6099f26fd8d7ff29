"""`robustify adapter`: the entrances of sets: list them, make one, and say what is still missing."""

import json
from pathlib import Path

import click

from robustify.cli.options import as_json, printable


@click.group()
def adapter() -> None:
    """The entrance of a sensitive set: a manifest without content, that says what the set is and where it lies."""


@adapter.command("list")
@as_json
def list_(json_: bool) -> int:
    """List the adapters that can be named in a config: shipped ones, and yours in $ROBUSTIFY_ADAPTERS."""
    from robustify.errors import RobustifyError
    from robustify.restricted.adapters import all_adapters

    adapters = list(all_adapters())
    broken = [line for one in adapters if isinstance(one, RobustifyError) for line in one.lines]
    manifests = [one.manifest for one in adapters if not isinstance(one, RobustifyError)]
    rows = [{"id": m.id, "sensitivity": m.sensitivity, "title": m.title} for m in manifests]
    for line in broken:
        click.echo(f"robustify: {printable(line)}", err=True)
    if json_:
        click.echo(json.dumps({"adapters": rows, "broken": broken}))
    else:
        for row in rows:
            click.echo(printable(f"{row['id']:24} {row['sensitivity']:10} {row['title']}"))
    return 0


@adapter.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
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
def new(
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


@adapter.command()
@click.argument("name", metavar="ID|FOLDER")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="A folder for results, to be checked too.")
@as_json
def check(name: str, out: Path | None, json_: bool) -> int:
    """Say fact by fact whether a run on this set would be allowed; exit 4 where one is missing.

    Nothing of the data is shown: the number of records and a digest, by which a person can vouch for a file.
    """
    from robustify.restricted.adapter_setup import checked

    facts = checked(name, out)
    if json_:
        click.echo(json.dumps(facts))
    else:
        for fact in facts["facts"]:
            mark = "yes" if fact["holds"] else "NO "
            click.echo(printable(f"{mark} {fact['fact']}: {fact['says']}"))
        if facts["content_sha256"]:
            click.echo(f"content_sha256: {facts['content_sha256']}")
    return 0 if all(fact["holds"] for fact in facts["facts"]) else 4
