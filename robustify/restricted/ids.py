"""Keyed item IDs, hashed splits (lists of these IDs), and new keys.

The key comes from a file of mode 0600, never from an argument, a variable or a config. The gate has another key, because
CI needs that key but must not be able to read lists of IDs. An ID is an HMAC of the set, its version, the stem, and the
choices in any order, so an item keeps its ID if its answer is corrected. It is made from canonical text, and text without a
stable form is refused. Of a hashed split, others learn only the size. No topic, length, score or order is stored, because
it could identify an item without the key.
"""

import base64
import hmac
import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustify.base import key_file
from robustify.base.errors import AuthorisationError, DataError, ItemError, Notice
from robustify.base.files import read_expected, writable, write_new
from robustify.base.git import repository_around
from robustify.base.key_file import ID_PREFIX, KEYED_ID, SPLIT, Key, is_split
from robustify.base.texts import identity
from robustify.items.item import Item
from robustify.reading.loaders import Loaded, Quarantined
from robustify.restricted.adapters import FEWEST_IN_A_CELL

NAMES = ("kept", "flagged", "undecided")
_CANON = "rbcanon-1"
"""Name of the canonical form: NFKC, no default-ignorable characters, and a single space for each run of white space."""
_UNSTABLE = {"Cs": "a lone surrogate", "Cn": "an unassigned code point"}
_MOST_BYTES = 64 << 20


def canonical(text: str) -> str:
    """Return the canonical form of a text. Raise `ItemError`, which names only the code point, for a lone surrogate, NUL,
    or an unassigned code point."""
    for char in text if not text.isascii() or "\0" in text else "":
        kind = "NUL" if char == "\0" else _UNSTABLE.get(unicodedata.category(char))
        if kind is not None:
            # A code point that is unassigned in this Python may be assigned elsewhere.
            raise ItemError(
                f"text contains {kind} (U+{ord(char):04X}), which has no canonical form; expected Unicode "
                f"{unicodedata.unidata_version}",
                code="no-canonical-form",
            )
    return identity(text)


def item_id(key: bytes, dataset: str, version: str, stem: str, choices: Sequence[str]) -> str:
    """Return the keyed ID of an item: `rb1_` and base32 of the first 16 bytes of an HMAC-SHA256 under the subkey for IDs.

    It covers length-prefixed parts: "item", the set, its version, the canonical stem, the number of choices, and the sorted
    canonical choices. Raise `ItemError` if a text has no canonical form.
    """
    texts = (canonical(stem), str(len(choices)), *sorted(map(canonical, choices)))
    raw = (part.encode() for part in ("item", dataset, version, *texts))
    # Lengths in 8 bytes make different lists of parts different bytes.
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in raw)
    digest = hmac.digest(key, parts, "sha256")[:16]
    return ID_PREFIX + base64.b32encode(digest).decode().rstrip("=").lower()


def keyed(bench: Loaded, key: bytes, dataset: str, version: str, *, skip_bad: bool = False) -> Loaded:
    """Return the benchmark with keyed IDs in items and defects, and with numbers in place of passages.

    Repeated items and items without a canonical form are set aside if `skip_bad`. Otherwise, raise `DataError` with
    their line numbers.
    """
    index_of_id: dict[str, int] = {}
    faults: dict[int, Notice] = {}
    for i, item in enumerate(bench.items):
        try:
            first_index = index_of_id.setdefault(item_id(key, dataset, version, item.stem, item.choices), i)
        except ItemError as error:
            faults[i] = Notice(str(error), code=error.code)
            continue
        if first_index != i:
            faults[i] = _repeat_fault(bench, i, first_index)
    if faults and not (skip_bad and index_of_id):
        raise DataError.gather(
            [Notice(f"{bench.files[i]}:{bench.lines[i]}: {f}", code=f.code) for i, f in faults.items()]
        )
    passages = dict.fromkeys(item.group for item in bench.items if item.group)
    groups = {"": "", **{name: f"p{n:04d}" for n, name in enumerate(passages, 1)}}
    kept = [(name, bench.items[i]) for name, i in index_of_id.items()]
    new = {item.id: name for name, item in kept}
    aside = [Quarantined(bench.lines[i], fault, bench.files[i]) for i, fault in faults.items()]
    return replace(
        bench,
        items=tuple(replace(item, id=name, group=groups[item.group]) for name, item in kept),
        lines=tuple(bench.lines[i] for i in index_of_id.values()),
        files=tuple(bench.files[i] for i in index_of_id.values()),
        defects=tuple(replace(d, item=new[d.item]) for d in bench.defects if d.item in new),
        quarantined=(*bench.quarantined, *aside),
    )


def _repeat_fault(bench: Loaded, index: int, first: int) -> Notice:
    answers = {canonical(item.choices[item.key]) for item in (bench.items[index], bench.items[first])}
    return Notice(
        f"the same item as {bench.files[first]}:{bench.lines[first]}, with "
        f"{'the same' if len(answers) == 1 else 'another'} key; expected each item once (to set later ones aside, "
        "use `data: skip_bad: true` in the manifest)",
        code="repeated-item",
    )


@dataclass(frozen=True, slots=True)
class Split:
    """A split of a set under one key, with sorted and distinct `ids`."""

    dataset: str
    version: str
    name: str
    key_id: str
    ids: tuple[str, ...]

    @property
    def title(self) -> str:
        """Name of the split in messages."""
        return f"{self.dataset} {self.version}, split {self.name}"

    @property
    def text(self) -> str:
        """Content of the split file, which is JSON with a fixed set of fields."""
        tree = {"format": SPLIT, "dataset": self.dataset, "dataset_version": self.version, "split": self.name,
                "canon": _CANON, "key_id": self.key_id, "n": len(self.ids), "ids": self.ids}  # fmt: skip
        return json.dumps(tree, indent=1) + "\n"


def hashed(dataset: str, version: str, name: str, key_id: str, ids: Iterable[str]) -> Split:
    """Build a hashed split from keyed IDs. Raises `DataError`, without the IDs, if some are not keyed."""
    chosen = tuple(sorted(set(ids)))
    bare = sum(not KEYED_ID.fullmatch(i) for i in chosen)
    if bare:
        raise DataError(
            f"split {name}: {bare} of {len(chosen)} IDs are not keyed; expected rb1_ IDs.", code="unkeyed-ids"
        )
    return Split(dataset, version, name, key_id, chosen)


def read_split(path: Path) -> Split:
    """Read a hashed split. Raise `DataError` if the file has another format, invalid IDs, a wrong number of IDs, or
    fewer IDs than a cell, and `UsageError` if the file is not a regular file, or is larger than 64 MiB."""
    raw = read_expected(path, f"a hashed split ({SPLIT})", _MOST_BYTES)
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        raise DataError(
            f"{path.name} is not JSON; expected a hashed split ({SPLIT}).", code="invalid-split"
        ) from None
    # `is_split`, which the gate uses too, does not check the canonical form.
    if not is_split(tree) or tree["canon"] != _CANON:
        raise DataError(
            f"{path.name} is not an intact hashed split ({SPLIT}). Restore it.",
            code="invalid-split",
        )
    if tree["n"] < FEWEST_IN_A_CELL:
        raise DataError(
            f"{path.name} is a hashed split of fewer than {FEWEST_IN_A_CELL} IDs, which could identify single items. "
            "Use a larger split.",
            code="small-split",
        )
    return Split(tree["dataset"], tree["dataset_version"], tree["split"], tree["key_id"], tuple(tree["ids"]))


def items_in(split: Split, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return the items of a split, in the order of the data. Raise `DataError` if some of the IDs match no item."""
    wanted = set(split.ids)
    matching = tuple(item for item in items if item.id in wanted)
    if len(matching) != len(wanted):
        raise DataError(
            f"split {split.name} of {split.dataset}: {len(matching):,} of {len(wanted):,} IDs matched; expected all. "
            "Your data differ from the split's data, or are another version. Nothing was written.",
            code="unmatched-ids",
        )
    return matching


def new_key(out: Path) -> Key:
    """Create a key file of mode 0600, and its folder. Raise `AuthorisationError` if the path is in a Git work tree,
    `UsageError` if the file exists, because a key is never overwritten, and `ResourceError` if it cannot be
    written."""
    if repository_around(out.resolve().parent) is not None:
        raise AuthorisationError(
            f"{str(out)!a} is inside a Git work tree, so it could be committed. Choose another folder.",
            code="private-file-in-git",
        )
    key = Key.of(os.urandom(key_file.SIZE))
    with writable(out.parent):
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_new(out, key.as_text())
    return key
