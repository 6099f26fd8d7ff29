"""Somebody's logs -> items and answers. Formats are recognised by content; items are matched by content."""

from robustify.logs.gather import gather
from robustify.logs.log import Log, LogOptions, fingerprint, together
from robustify.logs.log_files import LogPath, parse_log_path, read_log, read_logs
from robustify.logs.match import Gathered
from robustify.logs.pick_columns import mapping

__all__ = [
    "Gathered", "Log", "LogOptions", "LogPath", "fingerprint", "gather", "mapping", "parse_log_path", "read_log",
    "read_logs", "together",
]  # fmt: skip
