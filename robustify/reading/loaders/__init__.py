"""Reading of a benchmark file into items. The layout is recognized by content, and bad rows are reported by line."""

from robustify.reading.loaders.assemble import load, load_many
from robustify.reading.loaders.loaded import UNREVIEWED, Defect, FieldMap, Loaded, Quarantined, Source
from robustify.reading.survey import describe, notes

__all__ = [
    "UNREVIEWED", "Defect", "FieldMap", "Loaded", "Quarantined", "Source", "describe", "load", "load_many", "notes",
]  # fmt: skip
