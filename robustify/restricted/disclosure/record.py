"""Record of the releases under one key. It prevents two releases from revealing an item together.

It is a file of mode 0600 beside the key (`KEY FILE.releases`). Each line is one release, sealed with the key, and contains
the SHA-256 of the line before it, so that changed, moved or removed lines are detected. Releases under another key or from
another laboratory are not in it. Because a reader can subtract two releases, these rules apply:

1. The same set and version cannot be released with other items. Other items need another version.
2. The split of a set is released once. Another split of the same choices is refused, even under another name.
3. Two sets that share items must have the same items or differ by at least one cell (`min_cell` items).
4. The bits of all releases over shared items must fit the budget of the split. A number is charged only once.

A run and the released pages know how many releases there were, so that an older copy of the record is refused.
"""

import contextlib
import hashlib
import hmac
import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from robustify.base.errors import AuthorisationError, Notice, UsageError, counted
from robustify.base.files import locked, writable, write_atomic
from robustify.base.git import repository_around
from robustify.base.key_file import IDS_FILE_VARIABLE, Key, read_private
from robustify.items.item import Item
from robustify.restricted.ids import canonical
from robustify.restricted.terms import utc_now

_FORMAT = "robustify.releases/1"
_BEGIN = "robustify restricted key releases --begin"
_MOST_BYTES = 256 << 20
_COUNT = ".run.releases"
"""File of a run with the number of releases so far. It begins as other files that a new run leaves alone."""
_DIGEST = 16
"""Number of hex digits in the digest of an item (64 bits)."""
_RECORDED = {"kept": "robust", "flagged": "shortcut", "undecided": "undecided"}
"""Word of each verdict in digests, as in the first records, so that a split that was released stays the same split."""


@dataclass(frozen=True, slots=True)
class SplitOf:
    """Keyed digests of the IDs of a set, of the sorted choices of each item, and of the split."""

    items: str
    digests: tuple[str, ...]
    split: str


@dataclass(frozen=True, slots=True)
class Release:
    """Publication of a page or a split. `what` is "page" or the name of a split, and `content` its keyed digest. `numbers`
    has the keyed digest and the bits of each number, `codes` those of the numbers without their values, and `bits` is the
    sum of those that were new. `budget` is that of the split, or None in older records, `cell` is `min_cell`, and `at` is
    the time at which the release was recorded."""

    dataset: str
    version: str
    what: str
    content: str
    bits: float
    of: SplitOf
    numbers: tuple[tuple[str, float], ...] = ()
    budget: float | None = None
    cell: int = 10
    codes: tuple[str, ...] = ()
    at: str = field(default="", compare=False)

    def related(self, others: Sequence["Release"]) -> list["Release"]:
        """Return the other releases that are of the same set and version, or share at least `cell` items with this one."""
        digests, set_version = set(self.of.digests), (self.dataset, self.version)
        return [
            other
            for other in others
            if (other.dataset, other.version) == set_version
            or len(digests & set(other.of.digests)) >= self.cell
        ]

    def room(self, earlier: Sequence["Release"]) -> tuple[float, set[str]]:
        """Return the number of bits left after earlier releases, and the digests of numbers that are already paid
        for, whatever their values. Records of earlier versions have only the digests with the values."""
        paid_for = [
            release.codes or [mark for mark, _ in release.numbers]
            for release in earlier
            if release.of == self.of
        ]
        return (self.budget or 0.0) - sum(release.bits for release in self.related(earlier)), set().union(
            *paid_for
        )


_RELEASE = TypeAdapter(Release)


def split_of(key: Key, items: Sequence[Item], verdicts: Mapping[str, str]) -> SplitOf:
    """Return the keyed digests of items and of their split, given the verdict of each item ID. Items are identified by
    their choices, because a screen sees nothing else. Stems, case, spaces and punctuation do not change a digest."""
    own = {item.id: digest(key, sorted(map(_folded, item.choices)))[:_DIGEST] for item in items}
    return SplitOf(
        items=digest(key, sorted(own)),
        digests=tuple(sorted(own.values())),
        split=digest(key, sorted((own[name], _RECORDED[verdicts[name]]) for name in own)),
    )


def digest(key: Key, content: object) -> str:
    """Return the keyed digest of published content. Equal content has equal digests."""
    return hmac.new(key.derived("releases"), _compact_json(content).encode(), "sha256").hexdigest()


def _folded(choice: str) -> str:
    text = canonical(choice)
    return "".join(c for c in text.casefold() if unicodedata.category(c)[0] not in "PZ") or text


def refusal(new: Release, earlier: Sequence[Release]) -> Notice | None:
    """Return the reason to refuse the release `new` after earlier releases, or None if it may be published."""
    same_version = [
        release for release in earlier if (release.dataset, release.version) == (new.dataset, new.version)
    ]
    if any(release.of.items != new.of.items for release in same_version):
        fault = (
            "This version was released with different items. Release the same items, or use a new version."
        )
        return Notice(fault, code="other-items-released")
    related, k = new.related(earlier), new.cell
    same_items = [
        release
        for release in related
        if release.of.digests == new.of.digests or release.of.items == new.of.items
    ]
    if any(release.of.split != new.of.split for release in same_items):
        fault = "The set was released with a different split, and only one is allowed. Use the same criterion and voters."
        return Notice(fault, code="other-split-released")
    sets = [set(digests) for digests in dict.fromkeys(release.of.digests for release in (new, *related))]
    parts = Counter(tuple(member in digests for digests in sets) for member in set().union(*sets))
    if len(sets) > 1 and min(parts.values()) < k:
        fault = f"The set differs from an earlier release by fewer than {k} items, which would reveal single items."
        return Notice(fault, code="few-items-differ")
    spent, budget = sum(release.bits for release in related), new.budget or 0.0
    if spent + new.bits > budget + 0.01 and new.bits:
        return Notice(
            f"The release exceeds the budget of its split: {spent:.0f} of {budget:.0f} bits are spent, and it needs "
            f"{new.bits:.0f}. Publish fewer numbers with `--only`.",
            code="over-budget",
        )
    return None


def record(
    key: Key, file: Path, release: Release, former: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Release:
    """Record a release before any of its files is written. Return it with the number of bits that it spends. The same
    content is recorded only once. `former` has the digests that earlier versions made of a number, by its digest. Raise
    `AuthorisationError` if it must not be published, or the record is damaged, and `ResourceError` if the record cannot
    be written."""
    with _writing(file):
        lines, earlier = _read_record(key, file)
        same_split = [other for other in earlier if other.of == release.of]
        for other in same_split:
            if other.content == release.content:
                return replace(other, bits=0.0)
        paid_for = {mark for other in same_split for mark, _ in other.numbers}
        prices = [
            bits for mark, bits in release.numbers if paid_for.isdisjoint((mark, *former.get(mark, ())))
        ]
        new = replace(release, bits=round(sum(prices), 2))
        objection = refusal(new, earlier)
        if objection is not None:
            raise AuthorisationError(
                f"{new.dataset} {new.version}, {new.what}: {objection}", code=objection.code
            )
        recorded_at, content = utc_now(), asdict(new)
        del content["at"]
        line = _sealed_line(key, {"at": recorded_at, "release": content}, lines[-1])
        write_atomic(file, "".join((*lines, line)).encode(), private=True)
    return replace(new, at=recorded_at)


def releases_of(key: Key, file: Path) -> list[Release]:
    """Return the releases under a key. Raises `AuthorisationError` if the record is missing, edited, not private, or of
    another key."""
    return _read_record(key, file)[1]


def remember(key: Key, file: Path, run: Path) -> None:
    """Write the number of releases under a key into the folder of a run."""
    n = len(releases_of(key, file))
    write_atomic(run / _COUNT, _compact_json([n, digest(key, ["releases", n])]).encode(), private=True)


def require_newest(key: Key, file: Path, run: Path, page: Path | None = None, signature: str = "") -> None:
    """Raise `AuthorisationError` if a run, or a page of the same data next to `page`, counts more releases than the
    record. The `signature` is the keyed digest of the data."""
    counts, data = [0], {part for part in signature.split("|") if part.startswith("data:")}
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
        n, mac = json.loads((run / _COUNT).read_text(encoding="utf-8"))
        counts += [n] if hmac.compare_digest(digest(key, ["releases", n]), mac) else []
    others = () if page is None else page.absolute().parent.glob("*/summary.json")
    for path in filter(Path.is_file, others):
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            tree = json.loads(path.read_text(encoding="utf-8"))
            counts += [int(tree["releases"])] if data & set(tree["signature"].split("|")) else []
    if (n := len(releases_of(key, file))) < max(counts):
        raise AuthorisationError(
            f"{file} has {counted(n, 'release')}, but there were {max(counts)}. Restore the newest copy of this record.",
            code="outdated-release-record",
        )


def begin(key: Key, file: Path) -> None:
    """Create the record of a key under which nothing has been published. Raise `UsageError` if it exists already,
    `AuthorisationError` if the folder is in a Git work tree, and `ResourceError` if it cannot be written."""
    if repository_around(file.resolve().parent) is not None:
        raise AuthorisationError(
            f"{file} is inside a Git work tree, so it could be committed. Choose another folder.",
            code="private-file-in-git",
        )
    with _writing(file):
        if os.path.lexists(file):
            raise UsageError(
                f"{file} already exists, and a record of releases is never overwritten. Keep it, or create a new key.",
                code="release-record-exists",
            )
        head = {"format": _FORMAT, "key_id": key.id, "at": utc_now()}
        write_atomic(file, _sealed_line(key, head, "").encode(), private=True)


def record_file(key_file: Path | None = None) -> Path:
    """Return the path of the record for a key file, by default for `$ROBUSTIFY_KEY_FILE`."""
    file = key_file or Path(os.environ.get(IDS_FILE_VARIABLE, ""))
    return file.with_name(f"{file.name}.releases")


def _read_record(key: Key, file: Path) -> tuple[list[str], list[Release]]:
    if not os.path.lexists(file):
        raise AuthorisationError(
            f"{file}, the record of releases for key {key.id}, does not exist. Restore it. If nothing was published "
            f"with this key, run `{_BEGIN}`.",
            code="missing-release-record",
        )
    lines = read_private(str(file), str(file), _MOST_BYTES).splitlines(keepends=True)
    rows: list[Any] = []
    for n, (before, line) in enumerate(zip(["", *lines], lines, strict=False), start=1):
        row = _verified_row(key, line, before)
        if row is None or not line.endswith("\n"):
            raise AuthorisationError(
                f"{file}:{n}: The line was edited, a line before it is missing, or the record was not written "
                f"with key {key.id}. Restore the original record.",
                code="edited-release-record",
            )
        rows.append(row)
    if not rows or rows[0].get("format") != _FORMAT:
        raise AuthorisationError(
            f"{file} is not a record of releases ({_FORMAT}). Restore it.", code="invalid-release-record"
        )
    return lines, [_RELEASE.validate_python({**row["release"], "at": row["at"]}) for row in rows[1:]]


@contextlib.contextmanager
def _writing(file: Path) -> Iterator[None]:
    with writable(file, "nothing was published"), locked(file.with_name(f"{file.name}.lock"), wait=True):
        yield


def _sealed_line(key: Key, row: Mapping[str, object], before: str) -> str:
    bare = {**row, "before": _sha256(before)}
    return _compact_json({**bare, "mac": digest(key, bare)}) + "\n"


def _verified_row(key: Key, line: str, before: str) -> Any:
    """Return the content of a line of the record, or None if the line's seal or its link to the previous line is wrong."""
    try:
        row = json.loads(line)
        mac = row.pop("mac")
        sound = hmac.compare_digest(digest(key, row), mac) and row["before"] == _sha256(before)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return row if sound else None


def _compact_json(row: object) -> str:
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _sha256(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()
