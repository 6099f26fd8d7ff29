"""Keyed ids of items: without the key nobody can tell which question an id stands for, not even with the data.

An id depends on the set, its version, the stem and the choices in any order; not on the key of the item, so that
a corrected key keeps its id. The benchmark's own ids, which often say where an item comes from, end here.
"""

import base64
import hmac
from collections.abc import Sequence
from dataclasses import replace

from robustify.errors import DataError, ItemError
from robustify.item import Item
from robustify.loaders import Loaded, Quarantined
from robustify.restricted.canonical import canonical

PREFIX = "rb1_"
LENGTH = 16
"""Bytes of an id: 128 bits."""


def item_id(key: bytes, dataset: str, version: str, stem: str, choices: Sequence[str]) -> str:
    """`rb1_` and 26 letters: base32 of the first 16 bytes of HMAC-SHA256 over length-prefixed parts.

    `key` is the subkey for ids. The parts: "item", the set, its version, the canonical stem, the number of
    choices, the canonical choices sorted (reference/safety.md, section 3.4).

    Raises:
        ItemError: text without a canonical form.
    """
    parts = [
        "item",
        dataset,
        version,
        canonical(stem),
        str(len(choices)),
        *sorted(canonical(c) for c in choices),
    ]
    digest = hmac.digest(key, b"".join(map(prefixed, parts)), "sha256")[:LENGTH]
    return PREFIX + base64.b32encode(digest).decode().rstrip("=").lower()


def prefixed(part: str) -> bytes:
    """A part behind its length in 8 bytes, so that no two lists of parts give the same bytes."""
    raw = part.encode()
    return len(raw).to_bytes(8, "big") + raw


def sealed(bench: Loaded, key: bytes, dataset: str, version: str, *, skip_bad: bool = False) -> Loaded:
    """The benchmark with keyed ids in the place of its own, also in its defects; passages are only numbered.

    Two items with one id cannot be told apart in a split. `skip_bad`: later ones of them are set aside, and so
    are items without a canonical form.

    Raises:
        DataError: items with one id, or without a canonical form, by line; nothing is told of their text.
    """
    first: dict[str, int] = {}
    names: list[str | None] = []
    faults: list[tuple[int, str]] = []
    for at, item in enumerate(bench.items):
        try:
            name = item_id(key, dataset, version, item.stem, item.choices)
        except ItemError as error:
            names.append(None)
            faults.append((at, str(error)))
            continue
        twin = first.setdefault(name, at)
        names.append(name if twin == at else None)
        if twin != at:
            faults.append((at, _same(bench, at, twin)))
    if faults and not (skip_bad and first):
        raise DataError.gather([f"{bench.files[at]}:{bench.lines[at]}: {fault}" for at, fault in faults])
    return _renamed(bench, names, faults)


def _same(bench: Loaded, at: int, twin: int) -> str:
    here, there = bench.items[at], bench.items[twin]
    same = canonical(here.choices[here.key]) == canonical(there.choices[there.key])
    return (
        f"the same item as {bench.files[twin]}:{bench.lines[twin]}, {'with the same key' if same else 'with another key'}"
        "; expected each item once (data: skip_bad: true in the manifest sets later ones aside)"
    )


def _renamed(bench: Loaded, names: Sequence[str | None], faults: Sequence[tuple[int, str]]) -> Loaded:
    kept = [at for at, name in enumerate(names) if name is not None]
    groups = {g: f"p{n:04d}" for n, g in enumerate(dict.fromkeys(i.group for i in bench.items if i.group), 1)}
    items = [_as(bench.items[at], names[at], groups) for at in kept]
    new = {item.id: name for item, name in zip(bench.items, names, strict=True) if name is not None}
    aside = [Quarantined(bench.lines[at], fault, bench.files[at]) for at, fault in faults]
    return replace(
        bench,
        items=tuple(items),
        lines=tuple(bench.lines[at] for at in kept),
        files=tuple(bench.files[at] for at in kept),
        defects=tuple(replace(d, item=new[d.item]) for d in bench.defects if d.item in new),
        quarantined=(*bench.quarantined, *aside),
    )


def _as(item: Item, name: str | None, groups: dict[str, str]) -> Item:
    assert name is not None
    return replace(item, id=name, group=groups.get(item.group, ""))
