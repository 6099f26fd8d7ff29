"""The ledger of releases: what was published under one key, so that nothing new comes out by subtraction.

It is a file of mode 0600 beside the key (`FILE.ledger`, or `$ROBUSTIFY_LEDGER`), never in a run's folder. Each line holds
one release (counts, topics, keyed digests of its items, bits), the sha256 of the line before it and an HMAC, so that
no line is changed, moved or taken out unseen. How long it was is kept in a second place, beside the accepted terms of
this account: an older copy is recognised there. Without a sound ledger nothing is published.

It is local: laboratories that publish about one set see each other's releases only where they hand the ledger on.
"""

import contextlib
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robustify.disclosure.differencing import Release, VerdictCell, revealed
from robustify.errors import AuthorisationError, UsageError
from robustify.files import locked, open_regular, writable, write_atomic
from robustify.gate.git import work_tree
from robustify.gate.key_file import Key
from robustify.item import Item
from robustify.restricted.account import read_private, settings_folder, utc_now, write_private
from robustify.restricted.ids import PREFIX, item_id
from robustify.restricted.secret_key import VARIABLE as KEY_VARIABLE
from robustify.restricted.secret_key import evaluator_key, key_file_named, keys

FORMAT = "robustify.ledger/1"
ANCHOR_FORMAT = "robustify.ledger-length/1"
VARIABLE = "ROBUSTIFY_LEDGER"
MOST_BYTES = 256 << 20
LONGEST_REASON = 200
BEGIN = "robustify key ledger --begin [KEY FILE]"


@dataclass(frozen=True, slots=True)
class Entry:
    """One release as it was recorded. `despite`: the reason of a person who published it although it was refused."""

    number: int
    at: str
    release: Release
    despite: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """A sound ledger: its lines as they are in the file, the first one without a release."""

    lines: tuple[str, ...]
    entries: tuple[Entry, ...]


def digest(key: Key, item: Item) -> str:
    """The digest of an item in the ledger: 26 letters of an HMAC of its text, whatever its set and version are called."""
    return item_id(key.derived("ledger"), "ledger", "1", item.stem, item.choices).removeprefix(PREFIX)


def content(key: Key, what: str, published: object) -> str:
    """The keyed digest of what is published: the same content is the same release."""
    return _mac(key, [what, published])


def ledger_file(key_id: str) -> Path:
    """Where the ledger of this key is. Raises `AuthorisationError`: the key is in no file, and no place is named."""
    named = os.environ.get(VARIABLE)
    if named and key_id == evaluator_key().id:
        return Path(named)
    file = key_file_named(key_id)
    if file is None:
        raise AuthorisationError(
            f"the key comes from ${KEY_VARIABLE}; expected the file of its ledger of releases in ${VARIABLE}"
        )
    return beside(file)


def beside(key_file: Path) -> Path:
    """The ledger of a key file."""
    return key_file.with_name(f"{key_file.name}.ledger")


def begin(key: Key, file: Path) -> None:
    """A new ledger, which says that nothing was published under this key yet.

    Raises:
        UsageError: there is one already.
        AuthorisationError: this account has seen releases under this key, or the place is inside a git work tree.
        ResourceError: it cannot be written.
    """
    _require_outside(file)
    length, _ = _anchor(key)
    if length:
        raise AuthorisationError(
            f"{file}: {length} releases under key {key.id} were recorded on this account; expected their ledger: restore it"
        )
    with _writing(file):
        if file.exists() or file.is_symlink():
            raise UsageError(f"{file}: is there already; a ledger is never overwritten")
        write_atomic(
            file, _line(key, {"format": FORMAT, "key_id": key.id, "at": utc_now()}, "").encode(), private=True
        )


def read_ledger(key: Key, file: Path) -> Ledger:
    """The ledger of this key, every line checked.
    Raises `AuthorisationError`: it is missing, damaged, edited, of another key, an older copy, or others may read it."""
    lines = tuple(_text(key, file).splitlines(keepends=True))
    rows, before = [], ""
    for n, line in enumerate(lines, start=1):
        rows.append(_row(key, line, before))
        if rows[-1] is None or not line.endswith("\n"):
            raise AuthorisationError(
                f"{file}:{n}: is not as robustify wrote it, or of another key than {key.id} (it was edited, or a line is "
                "missing); expected a copy that is whole: restore it"
            )
        before = line
    if not lines or rows[0].get("format") != FORMAT or rows[0].get("key_id") != key.id:
        raise AuthorisationError(f"{file}: is no ledger of key {key.id}; expected {FORMAT}: restore it")
    length, head = _anchor(key)
    if length >= len(lines) or (length and _sha256(lines[length]) != head):
        raise AuthorisationError(
            f"{file}: holds {len(lines) - 1} releases, but {length} were recorded on this account; expected the newest "
            "copy: restore it"
        )
    return Ledger(lines, tuple(_entry(n, row) for n, row in enumerate(rows[1:], start=1)))


def under_older_keys(items: Sequence[Item], key: Key) -> dict[str, dict[str, str]]:
    """By the id of each other key that has a ledger: its digest of every item, and that of this key."""
    own = [digest(key, item) for item in items]
    return {
        older.id: dict(zip((digest(older, item) for item in items), own, strict=True))
        for older, file in keys()
        if older.id != key.id and file is not None and _is_there(older, beside(file))
    }


def older_releases(key: Key, digests: Mapping[str, Mapping[str, str]]) -> list[Release]:
    """What was published under other keys than this one, with the digests of this one where an item is in both.

    Raises:
        AuthorisationError: as `read`, also for a ledger that was not there when the digests were made, and for one of
            which they were not made: a run that was made before cannot be compared with it.
    """
    found: list[Release] = []
    for older, file in keys():
        if older.id == key.id or file is None or not (older.id in digests or _is_there(older, beside(file))):
            continue
        entries = read_ledger(older, beside(file)).entries
        if entries and older.id not in digests:
            raise AuthorisationError(
                f"key {older.id}: {len(entries)} releases are in its ledger, and this run was made without it; expected "
                "one that can be compared: run the same command again"
            )
        # Nobody without both keys intersects lists of two keys: they are of other versions. Counts are subtracted as any.
        found += [
            one.release.under(digests[older.id], f"{older.id} {one.release.version}") for one in entries
        ]
    return found


def _is_there(key: Key, file: Path) -> bool:
    return file.exists() or file.is_symlink() or _anchor(key)[0] > 0


def record(
    key: Key,
    file: Path,
    release: Release,
    k: int,
    despite: str = "",
    older: Callable[[], Sequence[Release]] = list,
) -> Entry:
    """Record a release before anything of it is written; one of the same content is not recorded again.

    `despite`: a person's reason to publish what would be refused; it is recorded too. `older`: what was published under
    other keys (`older_releases`); it is not asked of what is known.

    Raises:
        AuthorisationError: with earlier releases it reveals too much (`differencing.revealed`); or as `read`.
        UsageError: a reason that is too long or not printable.
        ResourceError: the ledger cannot be written.
    """
    if len(despite) > LONGEST_REASON or not despite.isprintable():
        raise UsageError(f"--despite: expected a reason in one line of at most {LONGEST_REASON} characters")
    with _writing(file):
        ledger = read_ledger(key, file)
        same = (one for one in ledger.entries if one.release.is_again(release))
        if (known := next(same, None)) is not None:
            return known
        why = revealed(release, [*older(), *(one.release for one in ledger.entries)], k)
        if why is not None and not despite:
            raise AuthorisationError(
                f"{release.dataset} {release.version}, {release.what}: beside earlier releases it {why}; publish what is "
                "in the ledger already (robustify key ledger), which is free, or give a reason: --despite WHY"
            )
        entry = Entry(len(ledger.lines), utc_now(), release, despite if why is not None else "")
        row = {"at": entry.at, "despite": entry.despite, "release": asdict(release)}
        line = _line(key, row, ledger.lines[-1])
        write_atomic(file, "".join((*ledger.lines, line)).encode(), private=True)
        tree = {"format": ANCHOR_FORMAT, "releases": entry.number, "sha256": _sha256(line)}
        write_private(_anchor_file(key), tree)
    return entry


def _text(key: Key, file: Path) -> str:
    _require_outside(file)
    if not file.exists() and not file.is_symlink():
        raise AuthorisationError(
            f"{file}: no ledger of the releases under key {key.id}; restore it, or where nothing was published under this "
            f"key yet: {BEGIN}"
        )
    try:
        with open_regular(file) as opened:
            status = os.fstat(opened.fileno())
            data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise AuthorisationError(f"{file}: cannot be read ({error.strerror}); expected a ledger") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise AuthorisationError(f"{file}: others may read it; expected a file of mode 0600 (chmod 600)")
    if len(data) > MOST_BYTES:
        raise AuthorisationError(f"{file}: more than {MOST_BYTES >> 20} MiB; expected a ledger")
    return data.decode("ascii", "replace")


def _require_outside(file: Path) -> None:
    if work_tree(file.resolve().parent) is not None:
        raise AuthorisationError(f"{file}: lies in a git work tree, one `git add` from a commit; move it out")


@contextlib.contextmanager
def _writing(file: Path) -> Iterator[None]:
    """The lock on a ledger. Raises `ResourceError`: it cannot be written."""
    with writable(file, "nothing was published"), locked(file.with_name(f"{file.name}.lock"), wait=True):
        yield


def _line(key: Key, row: dict[str, Any], before: str) -> str:
    bare = {**row, "before": _sha256(before) if before else ""}
    return _written({**bare, "mac": _mac(key, bare)}) + "\n"


def _row(key: Key, line: str, before: str) -> Any:
    """What a line says; None where its seal or its place in the chain is wrong."""
    try:
        row = json.loads(line)
        mac = row.pop("mac")
        sound = hmac.compare_digest(_mac(key, row), mac) and row["before"] == (
            _sha256(before) if before else ""
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return row if sound else None


def _entry(number: int, row: Any) -> Entry:
    """An entry of a line whose seal is whole."""
    release = row["release"]
    cells = tuple(
        VerdictCell(cell["name"], {verdict: tuple(found) for verdict, found in cell["digests"].items()})
        for cell in release["cells"]
    )
    return Entry(number, row["at"], Release(**{**release, "cells": cells}), row["despite"])


def _mac(key: Key, row: object) -> str:
    return hmac.new(key.derived("ledger-seal"), _written(row).encode(), "sha256").hexdigest()


def _written(row: object) -> str:
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _sha256(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()


def _anchor_file(key: Key) -> Path:
    return settings_folder() / "ledgers" / f"{key.id}.json"


def _anchor(key: Key) -> tuple[int, str]:
    """How many releases under this key this account has recorded, and the digest of the last line then."""
    mend = "restore it, or remove it once you know that the ledger is the newest copy"
    made = read_private(
        _anchor_file(key), ANCHOR_FORMAT, "length of a ledger", mend,
        lambda tree: (int(tree["releases"]), str(tree["sha256"])),
    )  # fmt: skip
    return made or (0, "")


def entry_rows(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Counts and bits of each release, and nothing else."""
    return [
        {
            "release": one.number,
            "at": one.at,
            "set": one.release.dataset,
            "version": one.release.version,
            "what": one.release.what,
            "items": one.release.n,
            "listed": len(one.release.listed) or None,
            "cells": len(one.release.cells),
            "bits": round(one.release.bits),
            "despite": one.despite or None,
        }
        for one in entries
    ]
