"""Make runs from logs to compare models: one run per task, with all logs of the task."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustify.base.errors import DataError, UsageError
from robustify.models.engines.protocols import Watch
from robustify.pipeline.from_logs import NO_VOTERS, run_of_logs
from robustify.pipeline.run_input import unwatched
from robustify.reading.guard import Guard, asking
from robustify.reading.logs import LogOptions, LogPath, logs_in, read_log
from robustify.reading.logs.tables import pick_tables
from robustify.runs.run import Run

_TABLE = pick_tables.READER.kind


@dataclass(frozen=True)
class _ReadLog:
    """Readable log with its task ("" if only the file names it), and the view of each of its models."""

    file: LogPath
    task: str
    models: frozenset[tuple[str, str]]

    @property
    def names(self) -> set[str]:
        """Names of the log's models: the name from the user or from `_distinguished`, or else the names in the log."""
        return {self.file.model} if self.file.model else {model for model, _ in self.models}


def runs_of_logs(
    logs: Sequence[LogPath], place: Path, options: LogOptions, guard: Guard, watch: Watch = unwatched
) -> tuple[Run, ...]:
    """Import the logs of each task together, into folders below `place`, so that their models answer the same items.

    A log is a file, or a folder of logs. Models of several logs that have one name are distinguished by the names of their
    files. `options` are as in `run_of_logs`. Raise `UsageError` if no task has two models, and as `run_of_logs`."""
    files = [file for log in logs for file in logs_in(log)]
    with watch("reading the logs", 0), asking(guard, *(file.path for file in files)):
        opened = [(file, _read(file, options)) for file in files]
    read, unread = [log for _, log in opened if log], [file for file, log in opened if log is None]
    groups = [[log for log in read if log.task == task] for task in dict.fromkeys(log.task for log in read)]
    compared = _with_several_models(groups)
    if not compared and all(file.model for file in files):
        # The user names the models, so tasks of other names may have the same items.
        compared = _with_several_models([read])
    if not compared:
        raise UsageError(
            f"no task was answered by two models (logs: {len(files)}); expected answers of two models to the "
            "same items. To name the model of a log, write MODEL=FILE.",
            code="one-model-of-a-task",
        )
    return tuple(
        run_of_logs(
            # The first run has the notes on the files that cannot be read.
            [*(log.file for log in group), *(unread if number == 1 else ())],
            place / str(number),
            guard,
            options=options,
            overrides={"name": group[0].task or None if len({log.task for log in group}) == 1 else None},
            watch=watch,
        )
        for number, group in enumerate(compared, start=1)
    )


def notes_of(run: Run) -> Sequence[str]:
    """Return the notes on a run's logs, such as different keys, except the note that the logs have no voters."""
    pairs = zip(run.manifest["config"]["notes"], run.manifest["import"]["note_codes"], strict=True)
    return [note for note, code in pairs if code != NO_VOTERS]


def _read(file: LogPath, options: LogOptions) -> _ReadLog | None:
    """Read a log. Return None if it is an unreadable log in a folder. A log that names no model gets the name
    of its file."""
    try:
        return _described(file, options)
    except DataError:
        if file.model is not None and not file.in_folder:
            raise
        with contextlib.suppress(DataError):
            return _described(replace(file, model=file.path.stem), options)
        if file.in_folder:
            return None
        raise


def _described(file: LogPath, options: LogOptions) -> _ReadLog:
    log = read_log(file.path, replace(options, model=file.model, view=file.view))
    is_unnamed = log.kind == _TABLE or log.task == Path(log.file).stem
    models = frozenset((reply.model, reply.view) for reply in log.replies)
    return _ReadLog(file, "" if is_unnamed else log.task, models)


def _with_several_models(groups: Sequence[Sequence[_ReadLog]]) -> list[list[_ReadLog]]:
    distinguished = map(_distinguished, groups)
    return [group for group in distinguished if len({name for log in group for name in log.names}) > 1]


def _distinguished(logs: Sequence[_ReadLog]) -> list[_ReadLog]:
    """Name each log's model after the file, if another log has a model with the same name and view."""
    n_logs = Counter(model_view for log in logs for model_view in log.models)
    named = []
    for log in logs:
        repeated = any(n_logs[model_view] > 1 for model_view in log.models)
        if repeated and not log.file.model and len(log.names) == 1:
            log = replace(log, file=replace(log.file, model=log.file.path.stem))
        named.append(log)
    return named
