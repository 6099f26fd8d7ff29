"""Read logs for `lint`, and find the items in them."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustify.base.compressed import DAMAGED, unpacked
from robustify.base.errors import DataError
from robustify.items.item import Item
from robustify.judging.lint.log_evidence import LintedLog
from robustify.reading.columns import NAMES
from robustify.reading.guard import Guard, asking
from robustify.reading.loaders import Loaded
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.survey import find_defects

if TYPE_CHECKING:
    from robustify.reading.logs.log import LogReply

_BINARY = {".parquet", ".eval", ".zip", ".arrow", ".xlsx"}
_LOOKED_AT = 1 << 16
_OF_LOGS = (
    "doc_id", "resps", "model_response", "sample_id", "origin_prompt", "item_content", "samples", "request_states",
    "reviewed", "testidx", "expected output", "filtered_predictions", "full_prompt",
)  # fmt: skip
"""Members that logs of harnesses have, in lowercase."""
_BLIND = ("choices_only:", "choices_only_text:")
"""Views that may precede the name of a log which is meant to be without questions."""


def may_be_log(path: Path) -> bool:
    """Return whether a file begins like a log. Only then are the readers of logs loaded."""
    if not path.is_file():
        return False
    if path.suffix.lower() in _BINARY:
        return True
    # Only the reader of items says what is wrong with a damaged file.
    with path.open("rb") as opened, suppress(*DAMAGED):
        head = unpacked(opened).read(_LOOKED_AT).decode("utf-8", "replace").casefold()
        return any(word in head for word in (*_OF_LOGS, *chain.from_iterable(NAMES["picks.pick"])))
    return False


def files_in(folder: str) -> list[str]:
    """Return the logs in a folder, or the folder itself if it contains none."""
    from robustify.reading.logs import LogPath, is_log, latest, logs_in

    files = [log.path for log in latest(logs_in(LogPath(Path(folder)))) if log.path.is_file()]
    return [str(file) for file in files if may_be_log(file) and is_log(file)] or [folder]


def as_log(file: str, source_options: Mapping[str, Any], guard: Guard, *, certain: bool) -> LintedLog | None:
    """Read a log ([VIEW:]FILE) with its prompts. Return None if the file is not a log. With `certain`, read any table as a
    log. Raise `AuthorisationError` if the items are sensitive, and the errors of `read_logs`."""
    prefixed = not Path(file).exists() and file.startswith(_BLIND)
    if not certain and not prefixed and not may_be_log(Path(file)):
        return None
    from robustify.reading.logs import LogOptions, is_log, parse_log_path, read_logs

    log_path = parse_log_path(file)
    if not certain and not prefixed and not is_log(log_path.path):
        return None
    options = LogOptions(
        columns=_columns(source_options.get("fields")),
        skip_bad=bool(source_options.get("skip_bad")),
        linting=True,
    )
    try:
        with asking(guard, log_path.path):
            [log] = read_logs([log_path], options)
    except DataError as error:
        hint = f"{file}: the file was read as a log; to lint only its items, use --as items"
        raise DataError(*error.notices, hint) from None
    linted = LintedLog(str(log_path.path), log, meant_blind=prefixed)
    guard.require_ordinary_files("items", items_of_log(linted).items, [log_path.path])
    return linted


def _columns(fields: FieldMap | None) -> dict[str, str]:
    """Return the columns that the user mapped."""
    mapped = fields.model_dump() if fields else {}
    return {
        part: ",".join(value) if isinstance(value, (list, tuple)) else str(value)
        for part, value in mapped.items()
        if value
    }


def items_of_log(linted: LintedLog) -> Loaded:
    """Return the items of a log, each with the first line that contains it."""
    log = linted.log
    first: dict[tuple[str, tuple[str, ...], str], LogReply] = {}
    for row in linted.rows:
        if row.item.choices and row.item.key is not None:
            first.setdefault((row.item.stem, row.item.choices, row.item.name), row.reply)
    names = [str(reply.item.name) or f"line {reply.line}" for reply in first.values()]
    unique = len(set(names)) == len(names)
    items = [
        Item(
            name if unique else f"{name} (line {reply.line})",
            logged.stem,
            logged.choices,
            logged.key or 0,
            logged.topic,
            question_at=logged.question_at,
        )
        for name, reply in zip(names, first.values(), strict=True)
        if (logged := reply.item)
    ]
    lines, files = [reply.line for reply in first.values()], [linted.path] * len(items)
    return Loaded(
        name=str(log.task),
        layout=log.kind,
        items=items,
        lines=lines,
        defects=find_defects(items, lines, files),
        quarantined=(),
        sha256=log.sha256,
        path=linted.path,
        files=tuple(files),
    )
