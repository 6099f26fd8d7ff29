"""Runs made from logs for a comparison of models: one for each task, with all logs of the task."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robustify.base.errors import DataError, UsageError
from robustify.models.engines.protocols import Watch
from robustify.pipeline.from_logs import import_logs
from robustify.pipeline.run_input import unwatched
from robustify.reading.guard import Guard
from robustify.reading.logs import Log, LogOptions, LogPath, logs_in, pick_tables, read_log
from robustify.runs.run import Run

_TABLE = pick_tables.READER.kind


def runs_of_logs(
    logs: Sequence[LogPath], place: Path, options: LogOptions, guard: Guard, watch: Watch = unwatched
) -> tuple[Run, ...]:
    """Import the logs of each task together, into folders below `place`, so that their models answer the same items.

    A log is a file, or a folder of logs. Models of several logs that have one name are distinguished by the names of their
    files. `options` are as in `import_logs`. Raise `UsageError` if no task has two models, and as `import_logs`."""
    with watch("reading the logs", 0):
        opened = [_opened(file, options) for log in logs for file in logs_in(log)]
    read = [(file, *head) for file, head in opened if head is not None]
    by_task = [
        _distinguished([log[::2] for log in read if log[1] == task])
        for task in dict.fromkeys(task for _, task, _ in read)
    ]
    several = [named for named in by_task if _n_models(named) > 1]
    if not several and all(file.model for file, _ in opened):
        # The user names the models, so tasks of other names may have the same items.
        several = [named for named in [_distinguished([log[::2] for log in read])] if _n_models(named) > 1]
    if not several:
        raise UsageError(
            f"{len(opened)} logs have no two models of one task; expected answers of two models to the same items. Name "
            "models with MODEL=FILE.",
            code="one-model-of-a-task",
        )
    tasks = {file.path: task for file, task, _ in read}
    unread = [file for file, head in opened if head is None]
    runs = []
    for number, named in enumerate(several, start=1):
        paths = [file for file, _ in named]
        of_logs = {tasks[path.path] for path in paths}
        runs.append(
            import_logs(
                [*paths, *unread] if number == 1 else paths,
                place / str(number),
                guard,
                options=options,
                overrides={"name": of_logs.pop() or None if len(of_logs) == 1 else None},
                watch=watch,
            )
        )
    return tuple(runs)


def notes_of(run: Run) -> Sequence[str]:
    """Return the notes on the logs of a run, such as keys that differ, without that on what a screen lacks."""
    config = run.manifest["config"]
    notes: Sequence[str] = config["notes"]
    return notes if config["screen"]["voters"] else notes[:-1]


_Models = frozenset[tuple[str, str]]
_Named = list[tuple[LogPath, list[str]]]


def _n_models(named: _Named) -> int:
    return len({model for file, models in named for model in ([file.model] if file.model else models)})


def _opened(file: LogPath, options: LogOptions) -> tuple[LogPath, tuple[str, _Models] | None]:
    """Return a log with its task and models, or None for them if it is one of a folder that cannot be read. A log that
    names no model gets the name of its file."""
    try:
        return file, _head(read_log(file.path, replace(options, model=file.model, view=file.view)))
    except DataError:
        if file.model is not None and not file.in_folder:
            raise
        named = replace(file, model=file.path.stem)
        with contextlib.suppress(DataError):
            return named, _head(read_log(named.path, replace(options, model=named.model, view=named.view)))
        if file.in_folder:
            return file, None
        raise


def _head(log: Log) -> tuple[str, _Models]:
    """Return the task of a log, "" if only its file names it, and its models, each with its view."""
    unnamed = log.kind == _TABLE or log.task == Path(log.file).stem
    return "" if unnamed else log.task, frozenset((reply.model, reply.view) for reply in log.replies)


def _distinguished(
    logs: Sequence[tuple[LogPath, _Models]],
) -> _Named:
    """Name the model of each log after its file if another log asked a model of this name under the same view."""
    n_logs = Counter(model_view for _, models in logs for model_view in models)
    named = []
    for log, models in logs:
        repeated = any(n_logs[model_view] > 1 for model_view in models)
        several = len({model for model, _ in models}) > 1
        model = log.path.stem if repeated and not several and not log.model else log.model
        named.append((replace(log, model=model), sorted({model for model, _ in models})))
    return named
