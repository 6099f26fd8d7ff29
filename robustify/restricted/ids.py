"""Keyed ids of items, and hashed splits, which are lists of them: without the key nobody can say what an id names.

An id depends on the set, its version, the stem and the choices in any order; not on the key of the item, so that
a corrected key keeps its id. The benchmark's own ids, which often say where an item comes from, end here. Ids are made
of canonical texts, so that the same words give the same id anywhere; case is kept, and what has no stable form (lone
surrogates, NUL, unassigned code points) is refused.

A hashed split says which items of a set belong together, in the order of the bytes of their ids. Anyone with the key and
the data finds the items again; nobody else learns more than their number. No topic, length, score or order stands beside
an id, for each would be a way to find the item without the key.
"""

import base64
import hmac
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustify.errors import DataError, ItemError
from robustify.files import read_expected
from robustify.gate.state import KEYED_ID, SPLIT, is_split
from robustify.item import Item
from robustify.loaders import Loaded, Quarantined
from robustify.restricted.adapters import FEWEST_IN_A_CELL

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
    Raises `ItemError`: a lone surrogate, NUL or an unassigned code point, named by its number and not by its text."""
    if _PLAIN.fullmatch(text):
        return text
    _refuse(text)
    plain = _IGNORABLE.sub("", unicodedata.normalize("NFKC", text))
    # What stood around an ignorable may compose now.
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", plain)).strip(" ")


def _refuse(text: str) -> None:
    kinds = {"Cs": "a lone surrogate", "Cn": "an unassigned code point"}
    for char in text:
        category = unicodedata.category(char)
        if char == "\0" or category in kinds:
            kind = kinds.get(category, "NUL")
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
    asked = (canonical(stem), str(len(choices)), *sorted(canonical(c) for c in choices))
    parts = ("item", dataset, version, *asked)
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
    faults: dict[int, str] = {}
    for at, item in enumerate(bench.items):
        try:
            twin = first.setdefault(item_id(key, dataset, version, item.stem, item.choices), at)
        except ItemError as error:
            faults[at] = str(error)
            continue
        if twin != at:
            faults[at] = _same(bench, at, twin)
    if faults and not (skip_bad and first):
        raise DataError.gather([f"{bench.files[at]}:{bench.lines[at]}: {why}" for at, why in faults.items()])
    groups = {g: f"p{n:04d}" for n, g in enumerate(dict.fromkeys(i.group for i in bench.items if i.group), 1)}
    items = [
        replace(bench.items[at], id=name, group=groups.get(bench.items[at].group, ""))
        for name, at in first.items()
    ]
    new = {bench.items[at].id: name for name, at in first.items()}
    aside = [Quarantined(bench.lines[at], why, bench.files[at]) for at, why in faults.items()]
    return replace(
        bench,
        items=tuple(items),
        lines=tuple(bench.lines[at] for at in first.values()),
        files=tuple(bench.files[at] for at in first.values()),
        defects=tuple(replace(d, item=new[d.item]) for d in bench.defects if d.item in new),
        quarantined=(*bench.quarantined, *aside),
    )


def _same(bench: Loaded, at: int, twin: int) -> str:
    here, there = bench.items[at], bench.items[twin]
    same = canonical(here.choices[here.key]) == canonical(there.choices[there.key])
    return (
        f"the same item as {bench.files[twin]}:{bench.lines[twin]}, {'with the same key' if same else 'with another key'}"
        "; expected each item once (data: skip_bad: true in the manifest sets later ones aside)"
    )


NAMES = ("robust", "shortcut", "undecided")
MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a set under one key; `ids` are sorted and each stands once."""

    dataset: str
    version: str
    name: str
    key_id: str
    ids: tuple[str, ...]

    @property
    def title(self) -> str:
        """What it is a split of, for messages."""
        return f"{self.dataset} {self.version}, split {self.name}"

    @property
    def text(self) -> str:
        """The file: JSON with the keys of the format and nothing else."""
        tree = {"format": SPLIT, "dataset": self.dataset, "dataset_version": self.version, "split": self.name,
                "canon": CANON, "key_id": self.key_id, "n": len(self.ids), "ids": self.ids}  # fmt: skip
        return json.dumps(tree, indent=1) + "\n"


def hashed(dataset: str, version: str, name: str, key_id: str, ids: Iterable[str]) -> Split:
    """The split of these keyed ids. Raises `DataError`: an id that is not keyed; nothing is said of it."""
    chosen = tuple(sorted(set(ids)))
    bare = sum(not KEYED_ID.fullmatch(i) for i in chosen)
    if bare:
        raise DataError(f"split {name}: {bare} of {len(chosen)} ids are no keyed ids; expected rb1_ ids")
    return Split(dataset, version, name, key_id, chosen)


def read_split(path: Path) -> Split:
    """The hashed split in this file.

    Raises:
        DataError: no file of this format: other keys, ids that are unsorted, repeated or not keyed, another n, or one
            below the floor of every cell.
        UsageError: no regular file, or larger than 64 MiB.
    """
    raw = read_expected(path, f"a hashed split ({SPLIT})", MOST_BYTES)
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        raise DataError(f"{path.name}: no JSON; expected a hashed split ({SPLIT})") from None
    # The canon is of ids alone: the gate knows none.
    if not is_split(tree) or tree["canon"] != CANON:
        raise DataError(f"{path.name}: no hashed split ({SPLIT}) as robustify wrote it; restore it")
    if tree["n"] < FEWEST_IN_A_CELL:
        raise DataError(f"{path.name}: hashed split of fewer than {FEWEST_IN_A_CELL} ids; expected more")
    return Split(tree["dataset"], tree["dataset_version"], tree["split"], tree["key_id"], tuple(tree["ids"]))


def matched(split: Split, items: Sequence[Item]) -> tuple[Item, ...]:
    """The items of the split, in the order of the data.
    Raises `DataError`: some of the ids belong to no item; the error gives two numbers."""
    wanted = set(split.ids)
    there = tuple(item for item in items if item.id in wanted)
    if len(there) != len(wanted):
        raise DataError(
            f"split {split.name} of {split.dataset}: {len(there):,} of {len(wanted):,} ids matched; expected all of them, "
            "so the data or their version differ from those of the split: nothing was written"
        )
    return there
