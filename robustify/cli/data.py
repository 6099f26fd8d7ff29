"""`robustify validate` and `robustify heuristics`: what a file holds and what its choices give away.

For a file they import no config, and with it neither scipy nor pyarrow: what is small is said in a moment.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import click

from robustify.cli.options import as_json, print_result, reading
from robustify.errors import UsageError

if TYPE_CHECKING:
    from robustify.ask import Asking, Planned
    from robustify.item import Item
    from robustify.loaders import FieldMap, Loaded, Quarantined, Source
    from robustify.writers import RunWriter


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
    """The field map that `--map` gives: choices are several columns, with commas or one option each.

    Raises:
        UsageError: no `PART=COLUMN`, an unknown part, or a part given twice.
    """
    if not columns:
        return None
    from robustify.loaders import FieldMap
    from robustify.loaders.loaded import KeyKind

    said: dict[str, list[str]] = {}
    for column in columns:
        part, is_one, name = column.partition("=")
        if not is_one or not name or part not in FieldMap.model_fields:
            raise UsageError(
                f"--map {part}: expected PART=COLUMN, PART one of {', '.join(FieldMap.model_fields)}"
            )
        said.setdefault(part, []).append(name)
    choices = said.pop("choices", [])
    if len(choices) == 1 and "," in choices[0]:
        choices = choices[0].split(",")
    twice = [part for part, names in said.items() if len(names) > 1]
    if twice:
        raise UsageError(f"--map {twice[0]}: given {len(said[twice[0]])} times; expected one column")
    tree: dict[str, object] = {part: names[0] for part, names in said.items()}
    if choices:
        tree["choices"] = choices[0] if len(choices) == 1 else tuple(choices)
    if tree.get("key_is", "auto") not in (kinds := get_args(KeyKind)):
        raise UsageError(f"--map key_is: unknown; expected one of {', '.join(kinds)}")
    return FieldMap.model_validate(tree)


def names_config(data: str) -> bool:
    """Whether an argument names a config, not a file of items."""
    from robustify.settings_files import is_config

    return is_config(data)


def source_of(data: str, skip_bad: bool, columns: Sequence[str]) -> "Source":
    """The source that a file on the command line is."""
    from robustify.loaders import Source

    return Source(path=data, skip_bad=skip_bad, fields=mapped(columns))


def items_of(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> "Loaded":
    """The items of a file that may be shown. Raises as `loaded`."""
    from robustify.loaders import load
    from robustify.restricted.recognition import require_ordinary

    source = source_of(data, skip_bad, columns)
    bench = load(source)
    require_ordinary(bench, [source])
    return bench


def loaded(
    data: str, skip_bad: bool, folder: Path | None = None, columns: Sequence[str] = ()
) -> "tuple[Loaded, RunWriter]":
    """The items of a file or config, and how they are read and shown (and written into `folder`).

    Raises:
        AuthorisationError: a restricted set without leave, or a file that is recognised as sensitive.
        UsageError, DataError: as the loaders say.
    """
    if not names_config(data):
        from robustify.writers.public import PublicWriter

        return items_of(data, skip_bad, columns), PublicWriter()
    from robustify import config as configs
    from robustify.pipeline import load_bench, writer_for

    if columns:
        raise UsageError("--map: is for a file of items; expected `fields` in the config")
    settings = configs.load(configs.find_config(data))
    if skip_bad:
        settings = configs.skipping_bad(settings)
    writer = writer_for(settings, folder)
    return load_bench(settings, writer), writer


@click.command()
@DATA
@MAP
@SKIP_BAD
@click.option(
    "--explain",
    is_flag=True,
    help="Show how each file was read, and three items as models will be asked them (public sets only).",
)
@as_json
def validate(data: str, columns: tuple[str, ...], skip_bad: bool, explain: bool, json_: bool) -> int:
    """Say what DATA holds: layout, items, option counts, and defects by line.

    A row that cannot be an item refuses the file (exit 3, all kinds of faults at once). A defect that real
    sets have (equal or empty options, a repeated stem) is counted and named. --explain prints the text of
    three items; a config that says `sensitivity: restricted` is refused (exit 4).

    \b
    Examples:
        robustify validate items.jsonl --json
        robustify validate items.csv --map key=Right --map choices=One,Two,Three
    """
    from robustify.cli.described import explained_lines, plain_lines, survey_lines

    if explain or names_config(data):
        asking = _asking(data) if explain else None
        bench, writer = loaded(data, skip_bad, columns=columns)
        description = writer.described(bench)
        lines = survey_lines(description, data) if writer.access is None else plain_lines(description)
        if asking is not None and writer.access is None:
            description["explained"] = shown = explained(bench, asking)
            lines += explained_lines(shown)
    else:
        description = surveyed(data, skip_bad, columns)
        lines = survey_lines(description, data)
    return print_result(description, lines, json_)


def surveyed(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> dict[str, Any]:
    """What a file holds, counted a part at a time, with progress on stderr. Raises as `loaded`.

    As `Survey.description`, with `read` (how the file was read) and `data` (what names it in a config).
    """
    from robustify.loaders import Survey

    survey = Survey()
    set_aside: list[Quarantined] = []

    def take(part: "Loaded") -> None:
        survey.add(part.items, part.lines, part.files)
        set_aside.extend(part.quarantined)

    last = _in_parts(data, skip_bad, columns, take)
    description = survey.description(last.name, last.layout, last.sha256, set_aside, last.recognised)
    return {
        **description,
        "read": list(map(asdict, last.recognised)),
        "data": named_data(data, last, skip_bad),
    }


def heuristics_of(data: str, skip_bad: bool, columns: Sequence[str] = ()) -> dict[str, Any]:
    """What rules score on a file, a part at a time, with progress on stderr. Raises as `loaded`."""
    from robustify.baselines.heuristics import HeuristicCounts

    counts = HeuristicCounts()
    _in_parts(data, skip_bad, columns, lambda part: counts.add(part.items))
    return counts.table()


def _in_parts(
    data: str, skip_bad: bool, columns: Sequence[str], take: "Callable[[Loaded], None]"
) -> "Loaded":
    """Every part of a file to `take`; the last one."""
    from robustify.loaders import parts
    from robustify.restricted.recognition import Seen, require_ordinary

    # Rows make no circles; looking for some among a million of them takes a third of the time.
    gc.disable()
    source, seen = source_of(data, skip_bad, columns), Seen()
    try:
        with reading(data) as progress:
            for part in parts(source, progress):
                take(part)
                seen.add(part.items)
    finally:
        gc.enable()
    require_ordinary(part, [source], seen=seen)
    return part


def named_data(path: str, bench: "Loaded", skip_bad: bool) -> dict[str, Any]:
    """What names this file in a config, with the columns as they were read."""
    fields = dict(bench.recognised[0].fields) if bench.recognised else {}
    return {
        "path": path,
        **({"fields": fields} if fields else {}),
        **({"skip_bad": True} if skip_bad else {}),
    }


def _asking(data: str) -> "Asking":
    """How the items will be asked; refused for a restricted set before any of its files is opened."""
    from robustify.ask import Asking

    if not names_config(data):
        return Asking()
    from robustify import config as configs

    settings = configs.load(configs.find_config(data))
    if settings.sensitivity != "public":
        _refuse_text(settings.name, "--explain shows the text")
    return settings.asking


def _refuse_text(name: str, what: str) -> NoReturn:
    from robustify.errors import AuthorisationError

    raise AuthorisationError(f"{name}: is a restricted set; {what} of public sets only")


def explained(bench: "Loaded", asking: "Asking") -> dict[str, Any]:
    """What was recognised, and what the first, middle and last item become, as a JSON-able object.

    It shows the text of items: the one place that does so on purpose. The caller has made sure that the set is public.
    Keys: `files` [{file, layout, fields {part: name}, key_forms {form: rows}}] and `rows` [{item, line, file, key,
    topic, views: [{view, template, digest, order, prompt, continuations, refusal}]}]. `key` counts from 0 in the item's
    own order, `order` says which own choice stands at each place shown; each view is shown in its first order.
    """
    at = sorted({0, len(bench.items) // 2, len(bench.items) - 1} & set(range(len(bench.items))))
    asked = _asked(bench.items, [bench.items[i] for i in at], asking)
    return {
        "files": [asdict(one) for one in bench.recognised],
        "rows": [
            {
                "item": item.id,
                "line": bench.lines[i],
                "file": bench.files[i] if bench.files else "",
                "key": item.key,
                "topic": item.topic,
                "views": [_view(one) for one in asked if one.item.id == item.id],
            }
            for i, item in ((i, bench.items[i]) for i in at)
        ],
    }


def _asked(items: "Sequence[Item]", shown: "Sequence[Item]", asking: "Asking") -> "list[Planned]":
    """Every view of these items in its first order; few-shot headers are made of the same items as in a run."""
    from robustify.ask import plan

    once = asking.model_copy(update={"orders": 1, "rotations": "one"})
    header = list(items[: asking.shots + 1])
    there = {item.id for item in header}
    wanted = {item.id for item in shown}
    planned = plan([*header, *(item for item in shown if item.id not in there)], once)
    return [one for one in planned if one.item.id in wanted]


def _view(one: "Planned") -> dict[str, Any]:
    words = one.template
    return {
        "view": words.view,
        "template": words.name,
        "digest": words.digest[:8],
        "order": list(one.order),
        "prompt": one.requests[0].context if one.requests else None,
        "continuations": [request.continuation for request in one.requests],
        "refusal": one.refusal,
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
@as_json
def rules_alone(data: str, columns: tuple[str, ...], skip_bad: bool, items_: bool, json_: bool) -> int:
    """Score DATA with simple rules on its choices; no model is needed.

    Rules are sorted; a star marks those that are above chance after correction for having tried them all.

    \b
    Examples:
        robustify heuristics items.jsonl
        robustify heuristics items.jsonl --items
    """
    from robustify.baselines.heuristics import found_by, table
    from robustify.cli.described import is_above, item_lines, plain_lines, rule_lines

    if names_config(data):
        bench, writer = loaded(data, skip_bad, columns=columns)
        scores = writer.features(table(bench.items))
        restricted = writer.access is not None
    elif items_:
        bench, restricted = items_of(data, skip_bad, columns), False
        scores = table(bench.items)
    else:
        scores, restricted = heuristics_of(data, skip_bad, columns), False
    if items_ and restricted:
        _refuse_text(bench.name, "--items names items")
    lines = plain_lines(scores) if restricted else rule_lines(scores)
    if items_:
        starred = [name for name, rate in scores["heuristics"].items() if is_above(rate)]
        rows: list[dict[str, Any]] = [
            {"item": bench.items[at].id, "line": bench.lines[at], "file": bench.files[at], "rules": rules}
            for at, rules in enumerate(found_by(bench.items, starred))
            if rules
        ]
        scores["items"] = sorted(rows, key=lambda row: -len(row["rules"]))
        none = ["--items: no rule is above chance, so none of them finds an item"]
        lines += item_lines(rows) if starred else none
    return print_result(scores, lines, json_)
