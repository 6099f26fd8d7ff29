"""Commands that check a file of items: `robustify validate` and `robustify heuristics`.

For a file of items, they do not import the config module, which loads scipy and pyarrow, so that they start fast.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.options import output, print_result, say

if TYPE_CHECKING:
    from robustify.loaders import FieldMap, Loaded, Source
    from robustify.policy.asked import SetPolicy


def _given(_context: click.Context, _argument: click.Parameter, data: str) -> str:
    if not data:
        raise click.BadParameter("The argument is empty; expected a file of items or a config.")
    return data


DATA = click.argument("data", metavar="DATA|CONFIG", callback=_given)
SKIP_BAD = click.option(
    "--skip-bad", is_flag=True, help="Set invalid rows aside instead of rejecting the file."
)
MAP = click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="PART=COLUMN",
    help="Map a part to its column: stem, choices (A,B,C,D), key, key_is, topic, id, passage (repeatable).",
)


def mapped(columns: Sequence[str]) -> "FieldMap | None":
    """Return the field map given by `--map`, or None if the option is not used. Raises as `said_columns`."""
    from robustify.loaders.loaded import FieldMap, said_columns

    return FieldMap.of(said_columns(columns, FieldMap.model_fields))


def names_config(data: str) -> bool:
    """Return whether an argument names a config rather than a file of items."""
    from robustify.settings_files import is_config

    return is_config(data)


def _source(data: str, skip_bad: bool, columns: Sequence[str]) -> "Source":
    from robustify.loaders import Source

    return Source(path=data, skip_bad=skip_bad, fields=mapped(columns))


def items_of(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> "Loaded":
    """Load a public file of items. Raises as `loaded`."""
    from robustify.item import no_collector
    from robustify.loaders import load
    from robustify.restricted.recognition import require_ordinary

    source = _source(data, skip_bad, columns)
    with no_collector():
        bench = load(source)
    require_ordinary(bench, [source])
    return bench


def loaded(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> "tuple[Loaded, SetPolicy]":
    """Return the items of a file or config, and the policy for showing them.

    Raises:
        AuthorisationError: a requirement for a restricted set is not met, or a file is recognised as sensitive.
        UsageError, DataError: a loader cannot read the items.
    """
    from robustify import config as configs
    from robustify.pipeline import load_bench, policy_for

    settings = configs.config_for(data, public=not names_config(data), fields=mapped(columns))
    policy = policy_for(configs.skipping_bad(settings) if skip_bad else settings)
    return load_bench(policy), policy


@click.command()
@DATA
@MAP
@SKIP_BAD
@output
def validate(data: str, columns: tuple[str, ...], skip_bad: bool) -> int:
    """Check a file of items, and show its layout and defects.

    If a row is not a valid item, the file is rejected with exit code 3, and all kinds of faults are listed.
    Defects, such as equal or empty options and repeated questions, are counted and listed by line.

    \b
    Examples:
        robustify validate items.jsonl --json
        robustify validate items.csv --map key=Right --map choices=One,Two,Three
    """
    from robustify.cli.validated import survey_lines

    if not names_config(data):
        description = surveyed(data, skip_bad, columns)
        return print_result(description, survey_lines(description, data))
    bench, policy = loaded(data, skip_bad, columns)
    description = policy.described(bench)
    return print_result(description, survey_lines(description, data))


def surveyed(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return the description of a file of items, extended by `read` (recognized columns) and `data` (config block).

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
    """Return the `data` block of a config for this file, including the recognized columns."""
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
    """Score simple rules that see only the choices.

    Rules are sorted by score. A star marks each rule that is above chance after correction for multiple tests.
    No model is needed.

    \b
    Examples:
        robustify heuristics items.jsonl
        robustify heuristics items.jsonl --items
    """
    from robustify.baselines.heuristics import found_by, table
    from robustify.cli.validated import is_above, item_lines, rule_lines
    from robustify.loaders import notes

    if not (items_ or names_config(data)):
        bench = items_of(data, skip_bad, columns)  # importing a policy is slow
        for note in notes(bench):
            say(note)
        scores = table(bench.items)
        return print_result(scores, rule_lines(scores))
    bench, policy = loaded(data, skip_bad, columns)
    for note in policy.notes(bench):
        say(note)
    scores = policy.features(table(bench.items))
    if not items_:
        return print_result(scores, rule_lines(scores))
    policy.require_public()
    starred = [name for name, rate in scores["heuristics"].items() if is_above(rate)]
    rows: list[dict[str, Any]] = [
        {"item": bench.items[at].id, "line": bench.lines[at], "file": bench.files[at], "rules": rules}
        for at, rules in enumerate(found_by(bench.items, starred))
        if rules
    ]
    scores["items"] = sorted(rows, key=lambda row: -len(row["rules"]))
    none = ["No rule is above chance, so no items are listed."]
    return print_result(scores, [*rule_lines(scores), *(item_lines(rows) if starred else none)])
