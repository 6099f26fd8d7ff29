"""A benchmark file -> items. Layouts are recognised by content; what cannot be an item is refused by line."""

from robustify.loaders.assemble import load, load_many
from robustify.loaders.loaded import Defect, FieldMap, Loaded, Quarantined, Source
from robustify.loaders.survey import describe, notes

__all__ = [
    "Defect", "FieldMap", "Loaded", "Quarantined", "Source", "describe", "load", "load_many", "notes",
]  # fmt: skip
