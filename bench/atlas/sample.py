"""Samples of items for the models, chosen by a hash of their IDs and written to an ignored folder."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from robustify.items.item import Item
from robustify.reading.loaders import Loaded, Source, load_many

Data = str | list[str]
SEED = "atlas 1"


def paths_of(data: Data) -> list[str]:
    """Return the files of a set, with `$NAME` in a path expanded."""
    return [os.path.expandvars(path) for path in ([data] if isinstance(data, str) else data)]


def loaded(data: Data) -> Loaded:
    """Load a set.

    Raises:
        DataError: a file is missing or contains no items.
    """
    return load_many([Source(path=path) for path in paths_of(data)])


def items_of(data: Data) -> tuple[Item, ...]:
    """Return all items of a set."""
    return loaded(data).items


def sampled(items: Sequence[Item], n: int) -> tuple[Item, ...]:
    """Return the `n` items with the smallest digests of ID and `SEED`, in their original order; at most all."""
    ranks = sorted(range(len(items)), key=lambda i: hashlib.sha256(f"{SEED} {items[i].id}".encode()).digest())
    return tuple(items[i] for i in sorted(ranks[:n]))


def written(items: Sequence[Item], path: Path) -> Path:
    """Write the items with their IDs as JSON lines to `path`, in a folder that git ignores."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = (
        {
            "id": i.id,
            "stem": i.stem,
            "choices": list(i.choices),
            "key": i.key,
            "topic": i.topic,
            "passage": i.group,
        }
        for i in items
    )
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path
