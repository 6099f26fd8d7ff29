"""Readers that convert evaluation logs of other tools into items and answers.

The harness that wrote a log is recognized by the content of the log, never by its name. Items are also matched by content.
Files that are not logs are refused. A log with unreadable rows is refused unless the user asks to skip those rows.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustify.errors import DataError, UsageError
from robustify.files import sha256
from robustify.loaders.json_rows import whole_object
from robustify.loaders.layouts import is_lm_eval
from robustify.loaders.loaded import FieldMap
from robustify.loaders.open_file import open_rows
from robustify.logs.gather import gather
from robustify.logs.inspect_logs import is_inspect, read_eval_file, read_inspect
from robustify.logs.lighteval import is_lighteval, read_lighteval
from robustify.logs.lm_eval_logs import read_lm_eval
from robustify.logs.log import Log, LogOptions, ShownBefore, fingerprint, together
from robustify.logs.match import Gathered
from robustify.logs.pick_columns import mapping
from robustify.logs.pick_tables import KIND as PICKS
from robustify.logs.pick_tables import read_picks
from robustify.views import VIEWS, View

_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class LogPath:
    """Log argument of a command line: `[MODEL=][VIEW:]PATH`."""

    path: Path
    model: str | None = None
    view: View | None = None


def parse_log_path(text: str) -> LogPath:
    """Parse a log argument into path, model, and view. If the full text is an existing path, it has no prefix."""
    if Path(text).exists():
        return LogPath(Path(text))
    model, equals, rest = text.partition("=")
    rest = rest if equals else text
    view = next((v for v in VIEWS if rest.startswith(f"{v}:")), None)
    path = rest if view is None or Path(rest).exists() else rest.removeprefix(f"{view}:")
    return LogPath(Path(path), model if equals and model else None, view if path != rest else None)


def read_log(path: Path, options: LogOptions, before: ShownBefore | None = None) -> Log:
    """Read the log at this path. Raise `UsageError` if the file does not exist or is a folder, or an option contradicts the
    log. Raise `DataError` if the file is not a log, or it is damaged or inconsistent."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a log. List the files in it ({path}/*.jsonl).")
    if not path.is_file():
        raise UsageError(f"{path}: the file does not exist; expected a log ([MODEL=][VIEW:]FILE)")
    with path.open("rb") as file:
        zipped = file.read(4) == _ZIP
    if zipped:
        return read_inspect(path, read_eval_file(path), sha256(path), options)
    opened = open_rows(str(path))
    table = opened.table
    if not table.rows:
        raise DataError.gather([f"{path.name}:{fault.line}: {fault.reason}" for fault in table.faults])
    if table.outer == "inspect_log":
        tree = whole_object(path.name, path.read_text(encoding="utf-8-sig"), 0)
        if is_inspect(tree):
            return read_inspect(path, tree, opened.sha256, options)
    before = before or ShownBefore()
    if is_lm_eval(table.rows[0].cells):
        return read_lm_eval(path, table, opened.sha256, options, before)
    if is_lighteval(table):
        return read_lighteval(path, table, opened.sha256, options, before)
    return read_picks(path.name, table, opened.sha256, options)


def read_logs(logs: Sequence[LogPath], options: LogOptions) -> list[Log]:
    """Read several logs. Options in a log argument take precedence over `options`. Raise `UsageError` if a log is listed
    twice, missing, or a folder, or an option contradicts it. Raise `DataError` if a file is not a log, or it is damaged or
    inconsistent. All unreadable rows are listed."""
    paths = [log.path.resolve() for log in logs]
    twice = [log.path for log, path in zip(logs, paths, strict=True) if paths.count(path) > 1]
    if twice:
        raise UsageError(f"{twice[0]} is listed twice. List each log only once.")
    names = Counter(log.path.name for log in logs)

    before = ShownBefore()
    read = []
    for at, log in enumerate(logs, start=1):
        own = replace(options, model=log.model or options.model, view=log.view or options.view)
        file = log.path.name if names[log.path.name] == 1 else f"{at}/{log.path.name}"
        read.append(replace(read_log(log.path, own, before), file=file))
    strange = sorted(set(options.columns) - set(FieldMap.model_fields))
    if strange and all(log.kind != PICKS for log in read):
        raise UsageError(
            f"--map {strange[0]} applies only to tables of picks, but none was given. Remove this option."
        )
    faults = [
        f"{log.file}:{fault.line}: {fault.reason}"
        for log in read
        for fault in sorted(log.faults, key=lambda fault: fault.line)
    ]
    if faults and not options.skip_bad:
        raise DataError.gather(faults)
    return read


__all__ = [
    "Gathered", "Log", "LogOptions", "LogPath", "fingerprint", "gather", "mapping", "parse_log_path", "read_log",
    "read_logs", "together",
]  # fmt: skip
