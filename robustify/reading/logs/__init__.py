"""Readers that convert evaluation logs of other tools into items and answers. The harness that wrote a log is recognized by
the content of the log, never by its name."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustify.base.compressed import plain_path
from robustify.base.errors import DataError, Notice, RobustifyError, UsageError
from robustify.base.files import sha256
from robustify.items.views import VIEWS, View
from robustify.reading.loaders.open_file import open_rows
from robustify.reading.loaders.rows import SourceTable, fault_lines
from robustify.reading.logs import archives, inspect_logs, lighteval_logs, lm_eval_logs
from robustify.reading.logs.gathered import Gathered, gather
from robustify.reading.logs.log import Log, LogFile, LogOptions, LogReader, ShownBefore, fingerprint, join_few
from robustify.reading.logs.tables import pick_tables
from robustify.reading.logs.tables.pick_tables import mapping

_IN_FOLDERS = (
    (
        "*samples_*.jsonl",
        "*_samples.jsonl",
        "details_*.parquet",
        "*.eval",
        "reviews/*/*.jsonl",
        "scenario_state.json",
    ),
    ("*.json",),
    ("*.jsonl",),
    ("*.csv",),
)
"""Names of logs in a folder, the most telling first. Those of one line are read together."""
_BESIDE = "results*.json"
"""Name of a file that is read with the logs beside it."""
READERS: dict[str, LogReader] = {
    reader.kind: reader
    for reader in (
        inspect_logs.READER,
        lm_eval_logs.READER,
        *lighteval_logs.READERS,
        *archives.READERS,
        pick_tables.READER,
    )
}
"""Readers by the kind of their logs. The first one that recognizes a file reads it, so the reader of any table is last."""


@dataclass(frozen=True, slots=True)
class LogPath:
    """Log argument of a command line: `[MODEL=][VIEW:]PATH`, or a log `in_folder` of such an argument."""

    path: Path
    model: str | None = None
    view: View | None = None
    in_folder: bool = False


def parse_log_path(text: str) -> LogPath:
    """Parse a log argument into path, model, and view. If the whole text is an existing path, it has no prefix."""
    if Path(text).exists():
        return LogPath(Path(text))
    model, equals, located = text.partition("=")
    located = located if equals else text
    view = next((v for v in VIEWS if located.startswith(f"{v}:") and not Path(located).exists()), None)
    path = located.removeprefix(f"{view}:") if view else located
    return LogPath(Path(path), model if equals and model else None, view)


def read_log(path: Path, options: LogOptions, before: ShownBefore | None = None) -> Log:
    """Read the log at this path. Raise the errors of `read_logs`."""
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder, not a log. List the files in it ({path}/*.jsonl).", code="folder-not-log"
        )
    if not path.is_file():
        prefix, colon, _ = path.name.partition(":")
        near = difflib.get_close_matches(prefix, VIEWS, n=1) if colon else ()
        advice = f". Did you mean {near[0]}:?" if near else ""
        raise UsageError(
            f"{path}: the file does not exist; expected a log ([MODEL=][VIEW:]FILE){advice}",
            code="no-such-file",
        )
    file = _opened(path)
    reader = next(reader for reader in READERS.values() if reader.recognizes(file))
    return reader.read(file, options, before or ShownBefore())


def _opened(path: Path) -> LogFile:
    with path.open("rb") as opened:
        zipped = opened.read(4) == b"PK\x03\x04"
    if zipped:
        return LogFile(path, sha256(path), SourceTable(()), path, zipped=True)
    table, digest = open_rows(str(path))
    if not table.rows:
        raise DataError.gather(fault_lines(path.name, table.faults))
    return LogFile(plain_path(path), digest, table, path)


def is_log(path: Path) -> bool:
    """Return whether a file is certainly a log: a reader knows its form, or it has columns for models, keys, and picks."""
    if not path.is_file():
        return False
    try:
        file = _opened(path)
        reader = next(reader for reader in READERS.values() if reader.recognizes(file))
        if reader is not pick_tables.READER:
            return not file.zipped or path.suffix == ".eval"
        return pick_tables.has_all_parts(file)
    except RobustifyError:
        return False


def logs_in(log: LogPath) -> list[LogPath]:
    """Return the logs in a folder, found by the names that tools give them, or the log itself if it is a file."""
    files = _files_in(log)
    for patterns in _IN_FOLDERS:
        if some := [
            replace(log, path=path, in_folder=True)
            for path in files
            if any(map(plain_path(path).match, patterns))
        ]:
            return some
    return [log]


def latest(logs: Sequence[LogPath]) -> list[LogPath]:
    """Return the logs, except for lm-eval logs with a later log of the same task in the same folder."""
    # The names end in the date, so a later log of a task comes last.
    last = {lm_eval_logs.dateless_path(log.path): log for log in logs}
    return [log for log in logs if last[lm_eval_logs.dateless_path(log.path)] is log]


def unused_in(folder: LogPath, used: Sequence[LogPath]) -> list[Path]:
    """Return the unused files below a folder, except for files that are read together with logs."""
    paths = {log.path for log in used}
    return [path for path in _files_in(folder) if path not in paths and not path.match(_BESIDE)]


def _files_in(log: LogPath) -> list[Path]:
    return sorted(path for path in log.path.rglob("*") if path.is_file()) if log.path.is_dir() else []


def file_names(paths: Sequence[Path]) -> list[str]:
    """Return a different name for each file: its own name, with its folder or a number if names repeat."""
    own = [path.name for path in paths]
    inside = [f"{path.absolute().parent.name}/{path.name}" for path in paths]
    n_own, n_inside = Counter(own), Counter(inside)
    return [
        name if n_own[name] == 1 else long if n_inside[long] == 1 else f"{number}/{name}"
        for number, (name, long) in enumerate(zip(own, inside, strict=True), start=1)
    ]


def read_logs(logs: Sequence[LogPath], options: LogOptions) -> list[Log]:
    """Read several logs. Options in a log argument take precedence over `options`. Raise `UsageError` if a log is listed
    twice, missing, or a folder, or an option contradicts it, and `DataError` if a file is not a log or has unreadable rows,
    all of which are listed, unless they are skipped. Of the logs in a folder, those that cannot be read are only notes."""
    paths, names = Counter(log.path.resolve() for log in logs), file_names([log.path for log in logs])
    before, read, unread = ShownBefore(), list[Log](), list[DataError]()
    for log, file in zip(logs, names, strict=True):
        if paths[log.path.resolve()] > 1:
            raise UsageError(f"{log.path} is listed twice. List each log only once.", code="repeated-log")
        own = replace(options, model=log.model or options.model, view=log.view or options.view)
        try:
            read.append(replace(read_log(log.path, own, before), file=file))
        except DataError as error:
            if not log.in_folder:
                raise
            unread.append(error)
    if unread and not read:
        raise unread[0]
    notes = [Notice(f"another log was not used: {fault.reason}", code="unread-log") for fault in unread]
    read[:1] = [replace(log, notes=(*log.notes, *notes)) for log in read[:1]]
    if options.parts_of_picks and all(log.kind != pick_tables.READER.kind for log in read):
        raise UsageError(
            f"--map {options.parts_of_picks[0]} applies only to tables of picks, but none was given. Remove this option.",
            code="unused-map",
        )
    faults = [line for log in read for line in fault_lines(log.file, log.faults)]
    if faults and not options.skip_bad:
        raise DataError.gather(faults)
    return read


__all__ = [
    "READERS", "Gathered", "Log", "LogFile", "LogOptions", "LogPath", "LogReader", "ShownBefore", "fingerprint", "gather",
    "is_log", "join_few", "latest", "logs_in", "mapping", "parse_log_path", "read_log", "read_logs", "unused_in",
]  # fmt: skip
