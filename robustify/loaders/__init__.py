"""Read a benchmark file into items. The layout is recognized by content, and bad rows are reported by line."""

from robustify.loaders.assemble import load, load_many
from robustify.loaders.loaded import Defect, FieldMap, Loaded, Quarantined, Source
from robustify.loaders.survey import describe, notes

__all__ = [
    "Defect", "FieldMap", "Loaded", "Quarantined", "Source", "describe", "load", "load_many", "notes",
]  # fmt: skip
