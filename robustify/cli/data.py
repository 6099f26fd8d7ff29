"""Commands for a file of items: `robustify validate`, `heuristics`, `mend`, and `init`, which writes a config.

For a file of items, they do not import the config module, which loads scipy and pyarrow, so that they start fast.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from robustify.base.errors import GuardrailError, UsageError, counted
from robustify.cli.composing import compose_set, composing
from robustify.cli.options import DATA, ITEMS, OUT, STRICT, cache_dir, command, option, reading
from robustify.cli.terminal import print_lines, print_result, say, state_code, step

if TYPE_CHECKING:
    from robustify.reading.loaders import Loaded


FORCE = option("--force", "Replace an existing file.")


def names_config(data: str) -> bool:
    """Return whether an argument names a config rather than a file of items."""
    from robustify.base.settings_files import is_config

    return is_config(data)


def refuse_existing(path: Path, force: bool) -> None:
    """Raise `UsageError` if a file exists and must not be replaced."""
    if path.exists() and not force:
        raise UsageError(
            f"{path} already exists. Use --force to replace it, or -o FILE to write another file.",
            code="file-exists",
        )


STDIN = "-"


def public_items(data: str, source_options: Mapping[str, Any]) -> "Loaded":
    """Load a public file of items. Raise errors like `items_of`."""
    from robustify.items.item import no_collector
    from robustify.reading.loaders import Source, load
    from robustify.wings import GUARD

    source = Source(path=data, **source_options)
    with step("reading the items"), no_collector():
        return load(source, GUARD)


def items_of(data: str, source_options: Mapping[str, Any]) -> "Loaded":
    """Return the items of a public file, of standard input, or of a config. Raise `AuthorisationError` if the items are
    sensitive, and `UsageError` or `DataError` if they cannot be read."""
    if data == STDIN:
        with TemporaryDirectory() as folder:
            copy = Path(folder, "stdin")
            copy.write_bytes(sys.stdin.buffer.read())
            return replace(public_items(str(copy), source_options), path="stdin")
    if not names_config(data):
        return public_items(data, source_options)
    from robustify.pipeline import config as configs
    from robustify.pipeline.steps import load_bench, policy_for
    from robustify.wings import wings

    plugged = wings()
    policy = policy_for(
        configs.config_for(data, plugged.adapters, public=False, source_options=source_options), plugged
    )
    policy.require_public()
    return load_bench(policy)


@command()
@DATA
@reading
@option("--why", "Print the rule behind each part of the items, with other candidates.", to="with_rules")
def validate(data: str, source_options: dict[str, Any], with_rules: bool) -> int:
    """Check a file of items, and show its layout and defects.

    If a row is not a valid item, the file is rejected with exit code 3, and all kinds of faults are listed.
    Defects, such as equal or empty options and repeated questions, are counted and listed by line.

    \b
    Examples:
        robustify validate items.jsonl --json
        unzip -p quiz.zip | robustify validate -
        robustify validate items.csv --map key=Right --map choices=One,Two,Three --why
    """
    import numpy as np

    from robustify.cli.validated import survey_lines, why_lines
    from robustify.judging.baselines.relatives import parallels
    from robustify.judging.lint.findings import key_position
    from robustify.reading.loaders import describe

    bench = items_of(data, source_options)
    placed = key_position(bench.items)
    position = {"says": placed[0], **asdict(placed[1])} if placed else None
    parallel = parallels(bench.items, np.arange(len(bench.items))).unnamed
    read = [*map(asdict, bench.recognised)]
    description = {**describe(bench), "key_position": position, "parallel_items": parallel, "read": read}
    if not names_config(data) and data != STDIN:
        description["data"] = named_data(data, bench, source_options)
    lines = [*survey_lines(description, data), *(why_lines(description) if with_rules else ())]
    return print_result(description, lines)


def named_data(path: str, bench: "Loaded", source_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `data` block of a config for this file, with the recognized columns and the commit on the hub."""
    from robustify.base.settings_files import named_set
    from robustify.reading.loaders import Source

    fields = dict(bench.recognised[0].fields) if bench.recognised else {}
    commit = bench.recognised[0].origin.get("revision") if bench.recognised else None
    if commit and (named_set(path) or ("",))[0] == "hf" and "@" not in path:
        path = f"{path}@{commit}"
    data = Source(path=path, **source_options).model_dump(mode="json", exclude_defaults=True)
    return {**data, **({"fields": fields} if fields else {})}


@command("heuristics")
@DATA
@reading
def rules_alone(data: str, source_options: dict[str, Any]) -> int:
    """Score simple rules that see only the choices.

    Rules are sorted by score. A star marks each rule that is significantly above chance after correction for multiple
    tests. No model is needed. To see which items a rule finds, run `robustify lint`.

    \b
    Example:
        robustify heuristics items.jsonl
    """
    from robustify.cli.validated import rule_lines
    from robustify.judging.baselines.heuristics import rule_table
    from robustify.reading.loaders import notes

    bench = items_of(data, source_options)
    scores = rule_table(bench.items)
    for note in notes(bench):
        say(note)
    return print_result(scores, rule_lines(scores))


@command()
@ITEMS
@reading
@composing
@option(
    OUT,
    "Write to this .csv or .jsonl file, or with a pool, into this new or empty folder.",
    required=True,
)
@option("--seed INTEGER", "Use this seed to order and choose options.", default=0)
@FORCE
@STRICT
def mend(
    data: str,
    source_options: dict[str, Any],
    pooling: dict[str, Any],
    out: Path,
    seed: int,
    force: bool,
    strict: bool,
) -> int:
    """Shuffle and trim options, or choose distractors from a pool.

    No text is rewritten, but characters that look like plain ones become plain. If options refer to each other ("all of
    the above", "both A and C"), they keep their order, and the item is listed. Translations get a different order than the
    original. `robustify lint` lists what else to edit.

    With --pool or --options, distractors are chosen so that over the whole set, no cue points to or away from the key.
    Auditors that took no part in choosing then look for the keys (the proof). Requests name the candidates that the pool
    lacks. If the proof fails, the set is still written, and the exit code is 7.

    \b
    Examples:
        robustify mend items.csv -o mended.csv
        robustify mend items.csv --pool more.jsonl -o composed
    """
    from robustify.export.mending import mended, write_set

    if names_config(data):
        raise UsageError(
            f"{data} is a config, not a file of items. Pass the file named in its `data:` block.",
            code="config-not-items",
        )
    if pooling:
        return _compose(data, source_options, pooling, out, seed, strict=strict)
    if out.is_dir():
        raise UsageError(
            f"{out} is a folder. Name a .csv or .jsonl file with -o FILE.", code="folder-not-file"
        )
    if out.exists() and os.path.exists(data) and out.samefile(data):
        raise UsageError(f"{out} is the input file. Name another file with -o FILE.", code="output-is-input")
    refuse_existing(out, force)
    bench = public_items(data, source_options)
    result = mended(bench.items, seed)
    write_set(result.items, out)
    bound = [
        {"item": bench.items[i].id, "file": bench.files[i], "line": bench.lines[i]} for i in result.bound
    ]
    tree = {"file": str(out), "n_items": len(result.items), "trimmed": result.trimmed}
    tree |= {"plain": result.plain, "in_place": bound}
    return print_result(tree, _mended_lines(tree, seed))


def _compose(
    data: str, source_options: dict[str, Any], pooling: dict[str, Any], out: Path, seed: int, *, strict: bool
) -> int:
    """Write and print a composed set. Raise `GuardrailError` if the state of its proof requires exit code 7."""
    from robustify.composing import composed_folder as folder

    if not pooling.keys() & {"pool", "shown", "writer"}:
        raise UsageError(
            f"--{next(iter(pooling))} works only with --pool CANDIDATES, --options K, or --writer MODEL.",
            code="option-without-pool",
        )
    if out.exists() and not out.is_dir():
        raise UsageError(
            f"{out} is a file, but a composed set is a folder. Name a new folder with -o.",
            code="file-not-folder",
        )
    bench = public_items(data, source_options)
    composed_set = compose_set(bench, pooling, seed)
    paths = folder.write_composed(composed_set, out, bench.name, as_csv=data.lower().endswith(".csv"))
    tree = {"folder": str(out), "files": [path.name for path in paths], **folder.composed_tree(composed_set)}
    set_file = next(path for path in paths if path.stem == "composed" and path.suffix != ".json")
    print_result(
        tree, [*folder.composed_lines(composed_set), f"set: {set_file}", f"page: {out / 'report.html'}"]
    )
    line = folder.proof_failure(composed_set) or folder.proof_gap(composed_set)
    if state_code(composed_set.proof.state, strict=strict):
        raise GuardrailError(line)
    if line:
        say(line)
    return 0


def _mended_lines(tree: Mapping[str, Any], seed: int) -> Iterator[str]:
    file, n, bound = tree["file"], tree["n_items"], tree["in_place"]
    yield f"{file}: {counted(n, 'item')}, the options of {n - len(bound)} shuffled (seed {seed})"
    if tree["trimmed"]:
        yield f"white space taken off the ends of options: {counted(tree['trimmed'], 'item')}"
    if tree["plain"]:
        yield f"plain characters in place of those that look the same: {counted(tree['plain'], 'item')}"
    if bound:
        yield f"not shuffled because the text refers to an option by its position: {counted(len(bound), 'item')}"
        yield from map("  {file}:{line}  {item}".format_map, bound)
    quoted, run = shlex.quote(file), shlex.quote(Path(file).stem)
    yield f"next: robustify lint {quoted}, edit it, then robustify {quoted} --public -o {run}"


@command()
@ITEMS
@reading
@option("-m --models NAME...", "Add this model to the config (repeatable).")
@option(OUT, "Write this file [default: NAME.yaml in the current folder].")
@FORCE
@cache_dir
def init(
    data: str,
    source_options: dict[str, Any],
    models: tuple[str, ...],
    out: Path | None,
    force: bool,
    cache: Path,
) -> int:
    """Write a config for a file of items.

    The command first checks DATA. The config has comments that explain its keys. Models on this machine run for a few
    seconds, to estimate how long an audit takes.

    \b
    Example:
        robustify init items.csv
        robustify items.yaml --dry-run
    """
    from robustify.base.files import writable
    from robustify.base.settings_files import name_of, with_path, with_split

    if names_config(data):
        raise UsageError(f"{data} is already a config. Pass a file of items.", code="already-a-config")
    path = out or Path(f"{with_split(name_of(data), source_options.get('split'))}.yaml")
    refuse_existing(path, force)
    bench = public_items(data, source_options)
    # Paths in a config are relative to the config.
    where = with_path(data, lambda file: os.path.relpath(file, path.parent))
    draft = path.with_name(f".{path.stem}-draft.yaml")
    with writable(path):
        try:
            draft.write_text(_written(bench, where, source_options, models), encoding="utf-8")
            lines = _forecast(draft, cache) if models else []
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    print_lines(path)
    for line in lines:
        say(line)
    named = shlex.quote(str(path))
    say(f"Next, read the config, then run `robustify {named} --dry-run` and `robustify {named}`.")
    return 0


def _forecast(path: Path, cache: Path) -> list[str]:
    """Return lines with the estimated requests and time of a config's local models. No server is contacted."""
    from robustify.pipeline import config as configs
    from robustify.pipeline.steps import foretold
    from robustify.report.opening import forecast_lines
    from robustify.wings import wings

    plugged = wings()
    config = configs.load(path, plugged.adapters)
    here = tuple(model for model in config.models if not model.sends_prompts)
    if not here:
        return []
    config = config.model_copy(update={"models": here})
    forecast = foretold(config, Path("results") / config.name, cache, plugged)
    return forecast_lines(forecast, config.limits.min_items)


def _written(bench: "Loaded", where: str, source_options: Mapping[str, Any], models: Sequence[str]) -> str:
    from robustify.base.settings_files import name_of, with_split
    from robustify.cli.validated import data_block
    from robustify.pipeline.config import mode_of

    sizes = sorted({item.k for item in bench.items})
    options = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
    file = json.dumps(Path(where).name, ensure_ascii=False)
    return (
        (files("robustify.cli") / "config.txt")
        .read_text("utf-8")
        .format(
            about=f"An audit of {file}: {counted(len(bench.items), 'item')} of {options} options",
            name=with_split(name_of(where), source_options.get("split")),
            data="\n".join(data_block(named_data(where, bench, source_options))),
            models=", ".join(json.dumps(model) for model in models),
            mode=mode_of(models or ("smollm2-135m",)),
        )
    )
