"""The items of a set that the models are asked: chosen by a hash of their ids, written where git ignores them."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from robustify.item import Item
from robustify.loaders import Loaded, Source, load_many

Data = str | list[str]
SEED = "atlas 1"


def paths_of(data: Data) -> list[str]:
    """The files of a set; `$NAME` in a path is an environment variable."""
    return [os.path.expandvars(path) for path in ([data] if isinstance(data, str) else data)]


def loaded(data: Data) -> Loaded:
    """A set as it is read.

    Raises:
        DataError: a file that is not there, or that holds no items.
    """
    return load_many([Source(path=path) for path in paths_of(data)])


def items_of(data: Data) -> tuple[Item, ...]:
    """All items of a set."""
    return loaded(data).items


def sampled(items: Sequence[Item], n: int) -> tuple[Item, ...]:
    """`n` of the items, in their own order: those with the smallest digests of id and `SEED`; all where there are fewer."""
    ranks = sorted(range(len(items)), key=lambda i: hashlib.sha256(f"{SEED} {items[i].id}".encode()).digest())
    return tuple(items[i] for i in sorted(ranks[:n]))


def written(items: Sequence[Item], path: Path) -> Path:
    """The items as JSON lines with their ids; `path` lies in a folder that git ignores."""
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
