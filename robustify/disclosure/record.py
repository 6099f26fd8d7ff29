"""Keep the record of releases: what was published under one key, so that two releases together reveal no item.

The record is a file of mode 0600 beside the key (`KEY FILE.releases`). Each line is one release: keyed digests of the set
and of its split, and the bits that were spent. It is sealed with the key and holds the sha256 of the line before it, so
that no line is changed, moved or taken out unseen.

A reader of two releases can subtract them. Therefore

1. the same set and version with other items is refused: give the items another version;
2. the split of a set is released once: a release with another split of the same choices is refused, whatever the set and
   its stems are called now;
3. sets that share items must differ by no items at all, or by at least a cell of them;
4. the bits of all releases over shared items add up, and stay within the budget of the split.

The record is local. It knows nothing of releases under another key, or in another laboratory.
"""

import contextlib
import hashlib
import hmac
import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from robustify.errors import AuthorisationError, UsageError
from robustify.files import locked, writable, write_atomic
from robustify.gate.git import work_tree
from robustify.gate.key_file import Key, read_private
from robustify.item import Item
from robustify.restricted.ids import canonical
from robustify.restricted.secret_key import FILE_VARIABLE
from robustify.restricted.terms import utc_now

FORMAT = "robustify.releases/1"
BEGIN = "robustify restricted key releases --begin"
_MOST_BYTES = 256 << 20
_DIGEST = 16
"""Hex digits of an item's digest: 64 bits."""


@dataclass(frozen=True, slots=True)
class SplitOf:
    """A set and its split in keyed digests: of the ids, of each item's choices alone (sorted), and of the split."""

    items: str
    digests: tuple[str, ...]
    split: str


@dataclass(frozen=True, slots=True)
class Release:
    """One publication: `what` is the page or a list, `content` a keyed digest of it, `bits` what it may reveal."""

    dataset: str
    version: str
    what: str
    content: str
    bits: float
    of: SplitOf


@dataclass(frozen=True, slots=True)
class Entry:
    """A release as it was recorded."""

    at: str
    release: Release


_ENTRIES = TypeAdapter(list[Entry])


def split_of(key: Key, items: Sequence[Item], verdicts: Mapping[str, str]) -> SplitOf:
    """Return the digests of these items and of their verdicts by id.

    Choices alone decide what a screen flags, so that new stems or another name make no new set; nor do case, spaces and
    punctuation.
    """
    own = {item.id: digest(key, sorted(map(_folded, item.choices)))[:_DIGEST] for item in items}
    return SplitOf(
        items=digest(key, sorted(own)),
        digests=tuple(sorted(own.values())),
        split=digest(key, sorted((own[name], verdicts[name]) for name in own)),
    )


def digest(key: Key, content: object) -> str:
    """Return the keyed digest of what is published: equal content has one digest."""
    return hmac.new(key.derived("releases"), _written(content).encode(), "sha256").hexdigest()


def _folded(choice: str) -> str:
    text = canonical(choice)
    return "".join(c for c in text.casefold() if unicodedata.category(c)[0] not in "PZ") or text


def refusal(new: Release, earlier: Sequence[Release], k: int, budget: float) -> str | None:
    """Return why `new` must not be published beside the earlier releases, or None. `budget` is that of its split."""
    named = [one for one in earlier if (one.dataset, one.version) == (new.dataset, new.version)]
    if any(one.of.items != new.of.items for one in named):
        return "was released with other items under the same version; expected the same items, or another version"
    mine = set(new.of.digests)
    related = [one for one in earlier if one in named or len(mine & set(one.of.digests)) >= k]
    same = [one for one in related if one.of.digests == new.of.digests or one.of.items == new.of.items]
    if any(one.of.split != new.of.split for one in same):
        return "was released with another split; expected the same criterion and voters: a set's split is released once"
    sets = [set(digests) for digests in dict.fromkeys(one.of.digests for one in (new, *related))]
    parts = Counter(tuple(name in one for one in sets) for name in set().union(*sets))
    if len(sets) > 1 and min(parts.values()) < k:
        return f"shares items with an earlier release and differs by fewer than {k}, which describes single items"
    spent = sum(one.bits for one in related)
    if spent + new.bits > budget + 0.01 and new.bits:
        return (
            f"exceeds the budget of its split: {spent:.0f} of {budget:.0f} bits are spent, and this release takes "
            f"{new.bits:.0f}; expected fewer numbers (--only)"
        )
    return None


def record(key: Key, file: Path, release: Release, k: int, budget: float) -> Entry:
    """Record a release before anything of it is written. The same content again is not recorded again and costs nothing.

    Raises:
        AuthorisationError: `refusal` says why it must not be published, or the record is not sound.
        ResourceError: the record cannot be written.
    """
    with _writing(file):
        lines, entries = _read(key, file)
        for entry in entries:
            if entry.release == release:
                return entry
        why = refusal(release, [entry.release for entry in entries], k, budget)
        if why is not None:
            raise AuthorisationError(f"{release.dataset} {release.version}, {release.what}: {why}")
        entry = Entry(utc_now(), release)
        line = _line(key, asdict(entry), lines[-1])
        write_atomic(file, "".join((*lines, line)).encode(), private=True)
    return entry


def entries_of(key: Key, file: Path) -> list[Entry]:
    """Return the releases under this key.
    Raises `AuthorisationError`: the record is missing, edited, of another key, or others may read it."""
    return _read(key, file)[1]


def begin(key: Key, file: Path) -> None:
    """Make the record of a key under which nothing was published yet.

    Raises:
        UsageError: there is one already.
        AuthorisationError: the place is inside a git work tree.
        ResourceError: it cannot be written.
    """
    if work_tree(file.resolve().parent) is not None:
        raise AuthorisationError(
            f"{file}: lies inside a git work tree, one `git add` from a commit; move it out"
        )
    with _writing(file):
        if os.path.lexists(file):
            raise UsageError(f"{file}: already exists; a record of releases is never overwritten")
        head = {"format": FORMAT, "key_id": key.id, "at": utc_now()}
        write_atomic(file, _line(key, head, "").encode(), private=True)


def record_file(key_file: Path | None = None) -> Path:
    """Return the record of a key file, or of the key in force."""
    file = key_file or Path(os.environ.get(FILE_VARIABLE, ""))
    return file.with_name(f"{file.name}.releases")


def _read(key: Key, file: Path) -> tuple[list[str], list[Entry]]:
    if not os.path.lexists(file):
        raise AuthorisationError(
            f"{file}: no record of the releases under key {key.id}; restore it, or if nothing was published under this "
            f"key yet: {BEGIN}"
        )
    lines = read_private(str(file), f"{file}:", _MOST_BYTES).splitlines(keepends=True)
    rows: list[Any] = []
    for n, (before, line) in enumerate(zip(["", *lines], lines, strict=False), start=1):
        row = _opened(key, line, before)
        if row is None or not line.endswith("\n"):
            raise AuthorisationError(
                f"{file}:{n}: was edited, a line before it is missing, or it is of another key than {key.id}; "
                "expected the record as robustify wrote it: restore it"
            )
        rows.append(row)
    if not rows or rows[0].get("format") != FORMAT:
        raise AuthorisationError(f"{file}: is not a record of releases ({FORMAT}): restore it")
    return lines, _ENTRIES.validate_python(rows[1:])


@contextlib.contextmanager
def _writing(file: Path) -> Iterator[None]:
    with writable(file, "nothing was published"), locked(file.with_name(f"{file.name}.lock"), wait=True):
        yield


def _line(key: Key, row: Mapping[str, object], before: str) -> str:
    bare = {**row, "before": _sha256(before)}
    return _written({**bare, "mac": digest(key, bare)}) + "\n"


def _opened(key: Key, line: str, before: str) -> Any:
    """Return what a line says, or None if its seal or its place in the chain is wrong."""
    try:
        row = json.loads(line)
        mac = row.pop("mac")
        sound = hmac.compare_digest(digest(key, row), mac) and row["before"] == _sha256(before)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return row if sound else None


def _written(row: object) -> str:
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _sha256(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()
