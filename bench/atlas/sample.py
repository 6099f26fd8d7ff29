"""The files of a set, and its items."""

import os

from robustify.items.item import Item
from robustify.reading.loaders import Loaded, Source, load_many

Data = str | list[str]


def paths_of(data: Data) -> list[str]:
    """Return the files of a set, with `$NAME` in a path expanded."""
    return [os.path.expandvars(path) for path in ([data] if isinstance(data, str) else data)]


def loaded(data: Data) -> Loaded:
    """Load a set. Raise `DataError` if a file is missing or contains no items."""
    return load_many([Source(path=path) for path in paths_of(data)])


def items_of(data: Data) -> tuple[Item, ...]:
    """Return all items of a set."""
    return loaded(data).items
