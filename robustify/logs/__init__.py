"""Somebody's logs -> items and answers. Formats are recognised by content; items are matched by content."""

from robustify.logs.columns import mapping
from robustify.logs.files import Given, given, read_log, read_logs
from robustify.logs.gather import gather
from robustify.logs.gathered import Gathered
from robustify.logs.log import Log, Wanted
from robustify.logs.provenance import fingerprint, together

__all__ = [
    "Gathered",
    "Given",
    "Log",
    "Wanted",
    "fingerprint",
    "gather",
    "given",
    "mapping",
    "read_log",
    "read_logs",
    "together",
]
