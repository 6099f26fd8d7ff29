"""`robustify validate` and `robustify heuristics`: what a file holds and what its choices give away."""

import gc
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from robustify.cli.options import as_json, printable, reading

if TYPE_CHECKING:
    from robustify.ask import Asking, Planned
    from robustify.item import Item
    from robustify.loaders import Loaded, Quarantined
    from robustify.writers import RunWriter


def _given(_context: click.Context, _argument: click.Parameter, data: str) -> str:
    if not data:
        raise click.BadParameter("is empty; expected a file of items or a config")
    return data


DATA = click.argument("data", metavar="DATA|CONFIG", callback=_given)
SKIP_BAD = click.option(
    "--skip-bad", is_flag=True, help="Set rows that cannot be items aside instead of refusing the file."
)


def loaded(data: str, skip_bad: bool, folder: Path | None = None) -> "tuple[Loaded, RunWriter]":
    """The items of a file or config, and how they are read and shown (and written into `folder`).

    Raises:
        AuthorisationError: a restricted set without leave, or a file that is recognised as sensitive.
        UsageError, DataError: as the loaders say.
    """
    from robustify import config as configs
    from robustify.loaders import Source, load
    from robustify.pipeline import load_bench, writer_for
    from robustify.restricted.recognition import require_ordinary
    from robustify.writers.public import PublicWriter

    if _is_config(data):
        settings = configs.load(configs.find(data))
        if skip_bad:
            settings = configs.skipping_bad(settings)
        writer = writer_for(settings, folder)
        return load_bench(settings, writer), writer
    source = Source(path=data, skip_bad=skip_bad)
    bench = load(source)
    require_ordinary(bench, [source])
    return bench, PublicWriter()


@click.command()
@DATA
@SKIP_BAD
@click.option(
    "--explain",
    is_flag=True,
    help="Show how each file was read, and three items as models will be asked them (public sets only).",
)
@as_json
def validate(data: str, skip_bad: bool, explain: bool, json_: bool) -> int:
    """Say what DATA holds: layout, items, option counts, and defects by line.

    A row that cannot be an item refuses the file (exit 3, all faults at once). A defect that real sets
    have (equal or empty options, a repeated stem) is counted and named. --explain prints the text of
    three items; a config that says `sensitivity: restricted` is refused (exit 4).

    \b
    Examples:
        robustify validate items.jsonl --json
        robustify validate items.jsonl --explain
    """
    if explain or _is_config(data):
        asking = _asking(data) if explain else None
        bench, writer = loaded(data, skip_bad)
        description = writer.described(bench)
        lines = _lines(description)
        if asking is not None and writer.access is None:
            description["explained"] = shown = explained(bench, asking)
            lines += _explained_lines(shown)
    else:
        description = surveyed(data, skip_bad)
        lines = _lines(description)
    click.echo(json.dumps(description) if json_ else "\n".join(map(printable, lines)))
    return 0


def surveyed(data: str, skip_bad: bool) -> dict[str, object]:
    """What a file holds, counted a part at a time, with progress on stderr. Raises as `loaded`."""
    from robustify.loaders import Source, Survey, parts
    from robustify.restricted.recognition import Seen, require_ordinary

    # Rows make no circles; looking for some among a million of them takes a third of the time.
    gc.disable()
    source, survey, seen = Source(path=data, skip_bad=skip_bad), Survey(), Seen()
    set_aside: list[Quarantined] = []
    try:
        with reading(data) as progress:
            for part in parts(source, progress):
                survey.add(part.items, part.lines, part.files)
                seen.add(part.items)
                set_aside += part.quarantined
    finally:
        gc.enable()
    require_ordinary(part, [source], seen=seen)
    return survey.description(part.name, part.layout, part.sha256, set_aside, part.recognised)


def _is_config(data: str) -> bool:
    from robustify import config as configs

    return data.endswith((".yaml", ".yml")) or configs.is_shipped(data)


def _asking(data: str) -> "Asking":
    """How the items will be asked; refused for a restricted set before any of its files is opened."""
    from robustify import config as configs
    from robustify.ask import Asking
    from robustify.errors import AuthorisationError

    if not _is_config(data):
        return Asking()
    settings = configs.load(configs.find(data))
    if settings.sensitivity != "public":
        raise AuthorisationError(
            f"{settings.name}: is a {settings.sensitivity} set; --explain shows the text of public sets only"
        )
    return settings.asking


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


def _explained_lines(shown: Mapping[str, Any]) -> list[str]:
    lines = []
    for file in shown["files"]:
        fields = ", ".join(f"{part}={json.dumps(name)}" for part, name in file["fields"].items())
        forms = ", ".join(f"{form} ({n})" for form, n in file["key_forms"].items())
        lines.append(f"{file['file']}: layout {file['layout']}; fields {fields or 'its own'}; keys: {forms}")
    for row in shown["rows"]:
        place = f"{row['file']}:{row['line']}"
        lines += [
            "",
            f"=== item {row['item']} ({place}), topic {row['topic'] or 'none'}, key {row['key']} (from 0)",
        ]
        for view in row["views"]:
            order = " ".join(map(str, view["order"]))
            lines.append(
                f"--- {view['view']} ({view['template']}@{view['digest']}), choices in the order {order}"
            )
            lines += [f"| {line}" for line in (view["prompt"] or f"not asked: {view['refusal']}").split("\n")]
            lines.append(f"continuations: {json.dumps(view['continuations'], ensure_ascii=False)}")
    return lines


@click.command("heuristics")
@DATA
@SKIP_BAD
@as_json
def rules_alone(data: str, skip_bad: bool, json_: bool) -> int:
    """Score DATA with simple rules on its choices; no model is needed.

    \b
    Example:
        robustify heuristics items.jsonl
    """
    from robustify.baselines.heuristics import table

    bench, writer = loaded(data, skip_bad)
    scores = writer.features(table(bench.items))
    if json_:
        click.echo(json.dumps(scores))
        return 0
    if "heuristics" not in scores:
        click.echo("\n".join(_lines(scores)))
        return 0
    lines = [f"n = {scores['n']}, chance {scores['chance_accuracy']:.1%}"]
    for name, rate in scores["heuristics"].items():
        lo, hi = rate["ci"]
        lines.append(
            f"{name:24} {rate['value']:6.1%}  (95 % {lo:.1%} to {hi:.1%}, ties in {rate['ties']} items)"
        )
    click.echo("\n".join(lines))
    return 0


def _lines(tree: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, value in tree.items():
        match value:
            case dict():
                lines.append(f"{name}:" + ("" if value else " none"))
                lines += [
                    f"  {k}: {json.dumps(v, ensure_ascii=False) if isinstance(v, dict | list) else v}"
                    for k, v in value.items()
                ]
            case list():
                lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}")
            case _:
                lines.append(f"{name}: {value}")
    return lines
