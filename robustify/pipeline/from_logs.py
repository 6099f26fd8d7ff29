"""Make a run from answers in existing logs. Assumptions are recorded as notes. If the items have text, heuristics and the
probe are added."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from robustify.base.errors import DataError, Notice, UsageError
from robustify.base.files import cache_folder
from robustify.base.settings_files import run_name, with_path
from robustify.items.answers import Answers
from robustify.items.item import no_collector
from robustify.judging.response_data import Facts
from robustify.models.engines.protocols import Watch
from robustify.pipeline.config import Config, overridden, parse
from robustify.pipeline.manifest import data_tree
from robustify.pipeline.public import judged_run
from robustify.pipeline.run_input import (
    RunInput,
    answer_from_options,
    cloze_accuracies,
    one_thread,
    refuse_twins,
    unwatched,
)
from robustify.reading.guard import Guard, asking
from robustify.reading.loaders import FieldMap, Loaded, Source, load_many
from robustify.reading.logs import (
    Gathered,
    Log,
    LogOptions,
    LogPath,
    fingerprint,
    gather,
    join_few,
    read_logs,
)
from robustify.reading.logs.task_items import TaskItems
from robustify.runs.run import Run, refuse_foreign

_SCREENS = {"choices_only": "letter", "choices_only_text": "text"}
_UNNAMED = "imported"
NO_VOTERS = "no-voters-in-logs"
"""Code of the note on logs in which no model answered without the question."""


def run_of_logs(
    logs: Sequence[LogPath],
    folder: Path,
    guard: Guard,
    *,
    data: Sequence[str | Path] = (),
    naming: Mapping[str, Any] | None = None,
    options: LogOptions | None = None,
    overrides: Mapping[str, object] = MappingProxyType({}),
    force: bool = False,
    watch: Watch = unwatched,
) -> Run:
    """Judge the answers in logs and write a run into a folder.

    `data` are the files of the benchmark, or its names, with arguments `naming` of their `Source`. Without them, items are
    taken from the logs. The `guard` sees them and their files. `overrides` are settings by
    their dotted config names, such as `name`. Raise `UsageError` if a file is missing, an option does not fit its log,
    one model would vote twice, the folder contains files of another program, or, without `force`, it has a run of another
    benchmark, `DataError` if rows cannot be read or matched, or two logs are of the same run, and `ResourceError` if the
    folder cannot be written.
    """
    options, name = replace(options or LogOptions(), keyed=bool(data)), str(overrides.get("name") or "")
    refuse_foreign(folder)
    sources = [Source(path=str(path), skip_bad=options.skip_bad, **(naming or {})) for path in data]
    bench, options = _benchmark(sources, guard, options) if data else (None, options)
    if bench and bench.documents:
        options = replace(options, task_items=TaskItems.of(bench.documents).in_rows)
    with no_collector(), one_thread():
        with watch("reading the logs", 0), asking(guard, *(log.path for log in logs)):
            opened = read_logs(logs, options)
        gathered = gather(opened, bench, skip_bad=options.skip_bad)
        tasks = [*dict.fromkeys(log.task for log in opened), *[name] * bool(name)]
        files = [*(log.path for log in logs), *map(Path, data)]
        about, ids = tasks[-1] if tasks else _UNNAMED, () if gathered.items else gathered.topics
        # Below a folder of logs, the folder of a run may have the name of its set.
        folders = [part for log in logs if log.in_folder for part in log.path.parts[-3:-1]]
        guard.require_ordinary_files(about, gathered.items or (), files, [*tasks, *folders], ids)
        given = name or (bench.name if bench else tasks[0] if len(tasks) == 1 else _UNNAMED)
        settings = {"hidden": options.hidden, **overrides, "name": run_name(given, _UNNAMED)}
        config = _config(opened, gathered, [_without_folder(source) for source in sources], settings)
        with watch("looking at the options", 0):
            run_input = _run_input(config, opened, gathered, bench)
        refuse_twins(config, run_input.fingerprints)
        # Free the memory of data that judging does not read.
        del opened, gathered
        with watch("judging the answers", 0):
            return judged_run(config, run_input, folder, guard, force=force)


def _benchmark(sources: Sequence[Source], guard: Guard, options: LogOptions) -> tuple[Loaded, LogOptions]:
    """Load the files of the benchmark. If this fails, apply the mapped columns of items to these files instead of the logs.
    Return the benchmark, and the options for the logs."""
    try:
        return load_many(sources, guard), options
    except DataError:
        if (fields := options.fields) is None:
            raise
        with suppress(UsageError):
            bench = load_many([source.model_copy(update={"fields": fields}) for source in sources], guard)
            others = {
                part: column for part, column in options.columns.items() if part not in FieldMap.model_fields
            }
            return bench, replace(options, columns=others)
        raise


def _without_folder(source: Source) -> dict[str, Any]:
    """Return how a file of items was read, for the config, without its folder, because folders differ between machines."""
    return {**source.model_dump(), "path": with_path(source.path, lambda file: Path(file).name)}


def _config(
    logs: Sequence[Log],
    gathered: Gathered,
    data: Sequence[Mapping[str, Any]],
    settings: Mapping[str, object],
) -> Config:
    """Return the settings for judging imported answers. Models have no settings, because their answers are in the logs."""
    models_of = {view: [m for v, m, _ in gathered.answers.askings() if v == view] for view in _SCREENS}
    mode = settings.get("screen.mode") or next(
        (_SCREENS[view] for view, models in models_of.items() if models), "letter"
    )
    voters = next((list(dict.fromkeys(models_of[v])) for v, kind in _SCREENS.items() if kind == mode), [])
    tree: dict[str, Any] = {
        "sensitivity": "public",
        "data": data or [{"path": log.file} for log in logs],
        "screen": {"mode": mode, "voters": voters},
        "notes": [
            *_log_notes(logs, gathered),
            *[_unscreened(settings["hidden"], mode, has_texts=gathered.items is not None)] * (not voters),
        ],
    }
    return parse(overridden(tree, settings), "import")


def _log_notes(logs: Sequence[Log], gathered: Gathered) -> list[Notice]:
    """Return each note on the logs once, with the names of its logs, and the notes on all logs together."""
    notes: dict[Notice, list[str]] = {}
    for log in logs:
        for note in log.notes:
            notes.setdefault(note, []).append(log.file)
    named = (Notice(f"{join_few(files)}: {note}", code=note.code) for note, files in notes.items())
    return [*named, *gathered.notes]


def _unscreened(hidden: object, mode: object, *, has_texts: bool) -> Notice:
    """Return a note that the logs contain no voters' answers, and on how to get such answers."""
    view = next(view for view, kind in _SCREENS.items() if kind == mode)
    lacking = "only rules and probes of the options look for keys" if has_texts else "there are no flags"
    return Notice(
        f"no log has answers without the {hidden} (view {view}), so {lacking}. Ask a model that way (lm-eval: "
        "`export lm-eval` writes such a task; Inspect: `--solver robustify/choices_only`), and import its log, too, "
        f"as {view}:FILE",
        code="no-voters-in-logs",
    )


def _run_input(config: Config, logs: Sequence[Log], gathered: Gathered, bench: Loaded | None) -> RunInput:
    tables = [gathered.answers]
    if gathered.items is not None:
        tables = [answer_from_options(gathered.items, config, cache_folder(None), keep=True), *tables]
    lines = dict(zip((item.id for item in bench.items), bench.lines, strict=True)) if bench else {}
    digests = "".join(log.sha256 for log in logs)
    loaded = Loaded(
        name=config.name,
        layout=bench.layout if bench else "+".join(dict.fromkeys(log.kind for log in logs)),
        items=gathered.items or (),
        lines=tuple(lines[item] for item in gathered.topics if bench),
        defects=gathered.defects,
        quarantined=(*(bench.quarantined if bench else ()), *gathered.set_aside),
        sha256=bench.sha256 if bench else hashlib.sha256(digests.encode()).hexdigest(),
        path="",
        recognised=bench.recognised if bench else (),
    )
    origin = {
        "formats": "+".join(sorted({log.kind for log in logs})),
        "items": {
            "from": "data" if bench else "logs" if gathered.items is not None else None,
            "n": len(gathered.topics),
            "left_out": gathered.left_out,
        },
        "logs": [_origin(log, gathered) for log in logs],
        "note_codes": [note.code for note in _log_notes(logs, gathered)]
        + [NO_VOTERS] * (not config.screen.voters),
    }
    n_items, n_aside, defects = (
        len(gathered.topics),
        len(loaded.quarantined),
        list(map(asdict, loaded.defects)),
    )
    return RunInput(
        items=gathered.items,
        facts=Facts(
            config.name, gathered.topics, gathered.groups, n_aside, defects, logged=cloze_accuracies(origin)
        ),
        data=data_tree(loaded, n_items),
        answers=Answers.concat(tables),
        fingerprints={
            name: fingerprint([log for log in logs if name in _models(log)], name)
            for name in dict.fromkeys(model for log in logs for model in _models(log))
        },
        templates={name: digest for log in logs for name, digest in log.templates.items()},
        origin=origin,
    )


def _models(log: Log) -> list[str]:
    return list(dict.fromkeys(reply.model for reply in log.replies))


def _origin(log: Log, gathered: Gathered) -> dict[str, Any]:
    return {
        "file": log.file,
        "format": log.kind,
        "sha256": log.sha256,
        "task": log.task,
        "models": _models(log),
        "views": list(dict.fromkeys(reply.view for reply in log.replies)),
        "rows": len(log.replies),
        "set_aside": sum(q.file == log.file for q in gathered.set_aside),
        "accuracies": {metric: {"right": right, "n": n} for metric, (right, n) in log.accuracies.items()},
        "unanswered": sum(not reply.scores and reply.pick is None for reply in log.replies),
    }
