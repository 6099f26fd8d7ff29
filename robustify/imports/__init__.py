"""Somebody's logs -> items and answers. Formats are recognised by content; items are matched by content."""

from robustify.imports.columns import mapping
from robustify.imports.files import Given, given, read_log, read_logs
from robustify.imports.gather import gather
from robustify.imports.gathered import Gathered
from robustify.imports.log import Log, Wanted
from robustify.imports.provenance import fingerprint, together

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
