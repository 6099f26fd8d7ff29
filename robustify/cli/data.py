"""`robustify validate` and `robustify heuristics`: what a file holds and what its choices give away.

For a file they import no config, and with it neither scipy nor pyarrow: what is small is said in a moment.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.options import output, print_result, say
from robustify.errors import AuthorisationError, UsageError

if TYPE_CHECKING:
    from robustify.loaders import FieldMap, Loaded, Source
    from robustify.pipeline import SetPolicy


def _given(_context: click.Context, _argument: click.Parameter, data: str) -> str:
    if not data:
        raise click.BadParameter("is empty; expected a file of items or a config")
    return data


DATA = click.argument("data", metavar="DATA|CONFIG", callback=_given)
SKIP_BAD = click.option(
    "--skip-bad", is_flag=True, help="Set rows that cannot be items aside instead of refusing the file."
)
MAP = click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="PART=COLUMN",
    help="Which column holds what (stem, choices, key, key_is, topic, id, passage); choices=A,B,C,D (repeatable).",
)


def mapped(columns: Sequence[str]) -> "FieldMap | None":
    """Return the field map that `--map` gives, or None. Raises as `said_columns`."""
    from robustify.loaders.loaded import FieldMap, said_columns

    return FieldMap.of(said_columns(columns, FieldMap.model_fields))


def names_config(data: str) -> bool:
    """Return whether an argument names a config, not a file of items."""
    from robustify.settings_files import is_config

    return is_config(data)


def _source(data: str, skip_bad: bool, columns: Sequence[str]) -> "Source":
    from robustify.loaders import Source

    return Source(path=data, skip_bad=skip_bad, fields=mapped(columns))


def items_of(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> "Loaded":
    """Load a file of items that may be shown. Raises as `loaded`."""
    from robustify.item import no_collector
    from robustify.loaders import load
    from robustify.restricted.recognition import require_ordinary

    source = _source(data, skip_bad, columns)
    with no_collector():
        bench = load(source)
    require_ordinary(bench, [source])
    return bench


def loaded(
    data: str, skip_bad: bool, folder: Path | None = None, columns: Sequence[str] = ()
) -> "tuple[Loaded, SetPolicy]":
    """Load a file or config; return its items, and how they are read and shown (and written into `folder`).

    Raises:
        AuthorisationError: a restricted set without leave, or a file that is recognised as sensitive.
        UsageError, DataError: as the loaders say.
    """
    if not names_config(data):
        from robustify.policy.public import PublicPolicy

        return items_of(data, skip_bad, columns), PublicPolicy()
    from robustify import config as configs
    from robustify.pipeline import load_bench, policy_for

    if columns:
        raise UsageError("--map: is for a file of items; expected `fields` in the config")
    settings = configs.load(configs.find_config(data))
    if skip_bad:
        settings = configs.skipping_bad(settings)
    policy = policy_for(settings, folder)
    return load_bench(settings, policy), policy


@click.command()
@DATA
@MAP
@SKIP_BAD
@output
def validate(data: str, columns: tuple[str, ...], skip_bad: bool) -> int:
    """Say what a file holds: layout, items, defects by line.

    A row that cannot be an item refuses the file (exit 3, all kinds of faults at once). A defect that real
    sets have (equal or empty options, a repeated stem) is counted and named.

    \b
    Examples:
        robustify validate items.jsonl --json
        robustify validate items.csv --map key=Right --map choices=One,Two,Three
    """
    from robustify.cli.described import plain_lines, survey_lines

    if not names_config(data):
        description = surveyed(data, skip_bad, columns)
        return print_result(description, survey_lines(description, data))
    bench, policy = loaded(data, skip_bad, columns=columns)
    description = policy.described(bench)
    lines = survey_lines(description, data) if policy.access is None else plain_lines(description)
    return print_result(description, lines)


def surveyed(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return `describe` of a file, with `read` (how it was read) and `data` (what names it in a config).

    Raises as `loaded`.
    """
    from robustify.loaders import describe

    bench = items_of(data, skip_bad, columns)
    return {
        **describe(bench),
        "read": list(map(asdict, bench.recognised)),
        "data": named_data(data, bench, skip_bad),
    }


def named_data(path: str, bench: "Loaded", skip_bad: bool) -> dict[str, Any]:
    """Return what names this file in a config, with the columns as they were read."""
    fields = dict(bench.recognised[0].fields) if bench.recognised else {}
    return {
        "path": path,
        **({"fields": fields} if fields else {}),
        **({"skip_bad": True} if skip_bad else {}),
    }


@click.command("heuristics")
@DATA
@MAP
@SKIP_BAD
@click.option(
    "--items",
    "items_",
    is_flag=True,
    help="List the items whose key a starred rule finds (public sets only).",
)
@output
def rules_alone(data: str, columns: tuple[str, ...], skip_bad: bool, items_: bool) -> int:
    """Score simple rules on the choices alone; no model.

    Rules are sorted; a star marks those that are above chance after correction for having tried them all.

    \b
    Examples:
        robustify heuristics items.jsonl
        robustify heuristics items.jsonl --items
    """
    from robustify.baselines.heuristics import found_by, table
    from robustify.cli.described import is_above, item_lines, plain_lines, rule_lines
    from robustify.loaders import notes

    if not (items_ or names_config(data)):
        bench = items_of(data, skip_bad, columns)  # without a policy, which takes its time to load
        for note in notes(bench):
            say(note)
        scores = table(bench.items)
        return print_result(scores, rule_lines(scores))
    bench, policy = loaded(data, skip_bad, columns=columns)
    for note in notes(bench) if policy.access is None else ():
        say(note)
    scores = policy.features(table(bench.items))
    if not items_:
        return print_result(scores, rule_lines(scores) if policy.access is None else plain_lines(scores))
    if policy.access is not None:
        raise AuthorisationError(
            f"{bench.name}: is a restricted set; --items names items of public sets only"
        )
    starred = [name for name, rate in scores["heuristics"].items() if is_above(rate)]
    rows: list[dict[str, Any]] = [
        {"item": bench.items[at].id, "line": bench.lines[at], "file": bench.files[at], "rules": rules}
        for at, rules in enumerate(found_by(bench.items, starred))
        if rules
    ]
    scores["items"] = sorted(rows, key=lambda row: -len(row["rules"]))
    none = ["--items: no rule is above chance, so none of them finds an item"]
    return print_result(scores, [*rule_lines(scores), *(item_lines(rows) if starred else none)])
