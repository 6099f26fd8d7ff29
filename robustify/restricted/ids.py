"""Keyed ids of items: without the key nobody can say which question an id names, not even with the data.

An id depends on the set, its version, the stem and the choices in any order; not on the key of the item, so that
a corrected key keeps its id. The benchmark's own ids, which often say where an item comes from, end here. Ids are made
of canonical texts, so that the same words give the same id anywhere; case is kept, and what has no stable form (lone
surrogates, NUL, unassigned code points) is refused.
"""

import base64
import hmac
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from robustify.errors import DataError, ItemError
from robustify.item import Item
from robustify.loaders import Loaded, Quarantined

PREFIX = "rb1_"
LENGTH = 16
"""Bytes of an id: 128 bits."""
CANON = "rbcanon-1"
"""The name of the canonical form: NFKC, without default-ignorable characters, every run of white space one space."""
UNICODE = unicodedata.unidata_version
"""The Unicode version of this Python: an unassigned code point here may be assigned elsewhere."""

_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
"""The characters of Unicode's White_Space; `str.split` knows four more."""
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")


def canonical(text: str) -> str:
    """The canonical form; a text that is canonical already stays as it is.

    Raises:
        ItemError: a lone surrogate, NUL or an unassigned code point, named by its number and not by its text.
    """
    if _PLAIN.fullmatch(text):
        return text
    _refuse(text)
    plain = _IGNORABLE.sub("", unicodedata.normalize("NFKC", text))
    # What stood around an ignorable may compose now.
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", plain)).strip(" ")


def _refuse(text: str) -> None:
    for char in text:
        if char == "\0" or unicodedata.category(char) in ("Cs", "Cn"):
            kind = {"Cs": "a lone surrogate", "Cn": "an unassigned code point"}.get(
                unicodedata.category(char), "NUL"
            )
            raise ItemError(
                f"text holds {kind} (U+{ord(char):04X}), which has no canonical form; expected Unicode {UNICODE} text"
            )


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


def keyed(bench: Loaded, key: bytes, dataset: str, version: str, *, skip_bad: bool = False) -> Loaded:
    """The benchmark with keyed ids in the place of its own, also in its defects; passages are only numbered.

    Two items with one id cannot be distinguished in a split. `skip_bad`: later ones of them are set aside, and so
    are items without a canonical form.

    Raises:
        DataError: items with one id, or without a canonical form, by line; nothing is said of their text.
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
