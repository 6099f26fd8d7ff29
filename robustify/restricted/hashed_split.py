"""A hashed split: which items of a set belong together, given by keyed ids in the order of their bytes.

Anyone with the key and the data finds the items again; nobody else learns more than their number. No topic, length,
score or order stands beside an id, for each would be a way to find the item without the key.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustify.errors import AuthorisationError, DataError
from robustify.files import read_expected
from robustify.item import Item
from robustify.restricted.ids import CANON
from robustify.restricted.manifest import FEWEST_IN_A_CELL

FORMAT = "robustify.hashed-split/1"
NAMES = ("robust", "shortcut", "undecided")
MOST_BYTES = 64 << 20
_KEYS = ("format", "dataset", "dataset_version", "split", "canon", "key_id", "n", "ids")
_ID = re.compile(r"rb1_[a-z2-7]{26}")
_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a set under one key; `ids` are sorted and each stands once."""

    dataset: str
    version: str
    name: str
    key_id: str
    ids: tuple[str, ...]

    @property
    def text(self) -> str:
        """The file: JSON with the keys of the format and nothing else."""
        values = (FORMAT, self.dataset, self.version, self.name, CANON, self.key_id, len(self.ids),
                  list(self.ids))  # fmt: skip
        return json.dumps(dict(zip(_KEYS, values, strict=True)), indent=1) + "\n"


def hashed(dataset: str, version: str, name: str, key_id: str, ids: Iterable[str]) -> Split:
    """The split of these keyed ids.

    Raises:
        DataError: an id that is not keyed; nothing is said of it.
    """
    chosen = tuple(sorted(set(ids)))
    bare = sum(not _ID.fullmatch(i) for i in chosen)
    if bare:
        raise DataError(
            f"split {name}: {bare} of {len(chosen)} ids are no keyed ids; expected rb1_ and 26 letters"
        )
    return Split(dataset, version, name, key_id, chosen)


def read_split(path: Path) -> Split:
    """The hashed split in this file.

    Raises:
        DataError: no file of this format: other keys, ids that are unsorted, repeated or not keyed, another n, or one
            below the floor of every cell.
        UsageError: no regular file, or larger than 64 MiB.
    """
    raw = read_expected(path, f"a hashed split ({FORMAT})", MOST_BYTES)
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        raise DataError(f"{path.name}: no JSON; expected a hashed split ({FORMAT})") from None
    fault = _fault(tree)
    if fault is not None:
        raise DataError(f"{path.name}: {fault}; expected a hashed split ({FORMAT}) as robustify wrote it")
    return Split(tree["dataset"], tree["dataset_version"], tree["split"], tree["key_id"], tuple(tree["ids"]))


def separable(splits: Sequence[Split], k: int) -> list[Split]:
    """The first of these splits that may lie side by side: however they are intersected and subtracted, what comes out
    is empty or holds k ids or more.
    """
    kept: list[Split] = []
    for split in splits:
        sets = [set(one.ids) for one in (*kept, split)]
        cells = Counter(tuple(i in ids for ids in sets) for i in set().union(*sets))
        if split.ids and min(cells.values()) >= k:
            kept.append(split)
    return kept


def require_key(split: Split, key_id: str) -> None:
    """Refuse another key than the split's.

    Raises:
        AuthorisationError: both ids.
    """
    if split.key_id != key_id:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset}: was made under key {split.key_id}, the key here is {key_id}; "
            "expected the same key ($ROBUSTIFY_KEY_FILE)"
        )


def matched(split: Split, items: Sequence[Item]) -> tuple[Item, ...]:
    """The items of the split, in the order of the data.

    Raises:
        DataError: some of the ids belong to no item; the error gives two numbers.
    """
    wanted = set(split.ids)
    there = tuple(item for item in items if item.id in wanted)
    if len(there) != len(wanted):
        raise DataError(
            f"split {split.name} of {split.dataset}: {len(there):,} of {len(wanted):,} ids matched; expected all of them, "
            "so the data or their version differ from those of the split: nothing was written"
        )
    return there


def rekeyed(split: Split, old: Sequence[Item], new: Sequence[Item], key_id: str) -> Split:
    """The same items under another key; `old` and `new` are the same data under both keys, in the same order.

    Raises:
        DataError: as `matched`.
    """
    matched(split, old)
    wanted = set(split.ids)
    ids = [b.id for a, b in zip(old, new, strict=True) if a.id in wanted]
    return replace(split, key_id=key_id, ids=tuple(sorted(ids)))


def require_apart(split: Split, earlier: Sequence[Split], k: int) -> None:
    """Refuse a release that, with earlier ones, cuts out so few items that it describes single ones.

    Under one key any lists can be intersected and subtracted, whatever they are called: no part that this release cuts
    out of the earlier ones, or they out of it, may hold 1 to k - 1 items.

    Raises:
        DataError: a release of another set, version or key, which cannot be compared.
        AuthorisationError: a part that is too small.
    """
    for previous in earlier:
        if (split.dataset, split.version, split.key_id) != (
            previous.dataset,
            previous.version,
            previous.key_id,
        ):
            raise DataError(
                f"--previous: is of {previous.dataset} version {previous.version} under key {previous.key_id}; expected "
                f"{split.dataset} version {split.version} under key {split.key_id}"
            )
    new, sets = set(split.ids), [set(one.ids) for one in earlier]
    parts = Counter((i in new, *(i in ids for ids in sets)) for i in new.union(*sets))
    # What the earlier ones cut out of each other is known already, and is no fault of this one.
    cut = [n for at, n in parts.items() if parts[(not at[0], *at[1:])] or not any(at[1:])]
    pairs = [n for ids in sets for n in (len(new & ids), len(new - ids), len(ids - new))]
    if any(0 < n < k for n in (*cut, *pairs)):
        raise AuthorisationError(
            f"split {split.name}: with the earlier releases it cuts out a part of fewer than {k} items, which "
            "describes single items; keep the earlier releases, or publish under another key"
        )


def _fault(tree: object) -> str | None:
    if not isinstance(tree, dict) or set(tree) != set(_KEYS):
        return "other keys than a hashed split has"
    words = [tree[name] for name in ("dataset", "dataset_version", "split", "key_id")]
    if tree["format"] != FORMAT or tree["canon"] != CANON:
        return "another format or canonical form"
    if not all(isinstance(w, str) and _WORD.fullmatch(w) for w in words):
        return "names that are no names"
    ids = tree["ids"]
    if not isinstance(ids, list) or not all(isinstance(i, str) and _ID.fullmatch(i) for i in ids):
        return "ids that are no keyed ids"
    if ids != sorted(set(ids)) or tree["n"] != len(ids) or isinstance(tree["n"], bool):
        return "ids out of order, repeated, or not as many as it says"
    if len(ids) < FEWEST_IN_A_CELL:
        return f"fewer than {FEWEST_IN_A_CELL} ids, too few to be shown"
    return None
