"""Record of accepted terms in the user's account.

An acceptance becomes invalid if the terms or the manifest change, because it names the hosts that may receive items and
the size of published cells. It pins every file of the set, and has the fingerprints of its items: 64 bits of a keyed
hash of folded words, so that case, spaces, punctuation, labels, and the order of rows and choices do not matter. An
item is known by its stem, by its choices, or by both. Texts of few words, and those that a set repeats, count only
together.
"""

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from robustify import __version__
from robustify.base.errors import AuthorisationError, UsageError
from robustify.base.files import read_expected, writable, write_atomic
from robustify.base.settings_files import Settings
from robustify.gate.folded_words import kept_words
from robustify.items.item import Item
from robustify.restricted.adapters import Adapter

_MOST_BYTES = 64 << 20
LEAST = 5
"""Number of known items that make a set a copy. In a smaller set, more than half of the items do."""
_SIZE = 8
_STEM, _CHOICES = 20, 24
"""Minimum size of the folded words of a stem (about five), and of all choices of an item, by which the item is known."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Digest and number of records of a file of a set."""

    sha256: str
    records: int


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance of one version of the terms under one version of the manifest. `folder` is that of the adapter, so that
    its set is recognised even if no variable names this folder. `files` pins each file of the data by its path, and
    `items` has the fingerprints of a restricted set in Base64, of which none is ever dropped."""

    id: str
    licence_sha256: str
    name: str
    at: str
    robustify: str
    manifest_sha256: str = ""
    folder: str = ""
    files: Mapping[str, Pin] = field(default_factory=dict)
    items: str = ""


class _Accepted(Settings):
    """Record of acceptances. `key` is the secret of the fingerprints, in hexadecimal."""

    format: Literal["robustify.licences/1"] = "robustify.licences/1"
    key: str = Field(default_factory=lambda: os.urandom(32).hex(), pattern="^[0-9a-f]{64}$")
    accepted: tuple[Acceptance, ...] = ()


def licences_file() -> Path:
    """Return the path of the record: `robustify/licences.json` in `$XDG_CONFIG_HOME` or ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "robustify" / "licences.json"


def accepted() -> tuple[Acceptance, ...]:
    """Return all acceptances in this account. Raise `AuthorisationError` if the record is damaged or not regular."""
    return _record().accepted


def copied_sets(items: Sequence[Item]) -> dict[str, int]:
    """Return the accepted restricted sets of which the items are a copy, and how many items are in each."""
    record, sets = _record(), dict[str, bytes]()
    for row in record.accepted:
        if row.items:
            sets[row.id] = _joined((sets.get(row.id, b""), base64.b64decode(row.items)))
    return _copied(items, bytes.fromhex(record.key), sets)


def _record() -> _Accepted:
    file = licences_file()
    if not os.path.lexists(file):
        return _Accepted()
    try:
        return _Accepted.model_validate_json(read_expected(file, "a record", _MOST_BYTES))
    except (UsageError, ValidationError):
        raise AuthorisationError(
            f"{file} is not a record of accepted terms as robustify writes it. Move it away and accept the terms again "
            "with `robustify restricted licence show ID`."
        ) from None


def require(adapter: Adapter) -> Acceptance:
    """Return the current acceptance of a set's terms. Raise `AuthorisationError` if there is none, or the terms or the
    manifest changed afterwards."""
    name, digest = adapter.manifest.id, _digest(adapter)
    mine = [row for row in accepted() if row.id == name]
    same = [row for row in mine if row.licence_sha256 == digest]
    paths = {file.path for file in adapter.manifest.data.files}
    for row in same:
        if row.manifest_sha256 == adapter.sha256 and paths <= row.files.keys():
            return row
    why = "have changed since they were accepted" if mine else "are not accepted"
    if same:
        why = "were accepted before its manifest changed, or by a version that did not pin its data"
    raise AuthorisationError(
        f"{name} is a restricted set, and its terms {why}. To read and accept them, run `robustify restricted licence "
        f"show {name}`."
    )


def accept(adapter: Adapter, name: str, files: Mapping[str, Pin], items: Sequence[Item]) -> Acceptance:
    """Record that a person accepts the current terms of a set with these files and items. Raise `UsageError` if the
    name is empty, too long or not printable, and `ResourceError` if the record cannot be written."""
    called = " ".join(name.split())
    if not called or not called.isprintable() or len(called) > 100:
        raise UsageError("The name is empty, too long or not printable; expected the name of a person.")
    file, record, digest = licences_file(), _record(), _digest(adapter)
    same = [row for row in record.accepted if (row.id, row.licence_sha256) == (adapter.manifest.id, digest)]
    marks = {base64.b64decode(row.items) for row in same}
    if adapter.manifest.restricted:
        counts = Counter(mark for item in items for mark in _fingerprints(item, bytes.fromhex(record.key)))
        marks.add(b"".join(mark for mark, n in counts.items() if n == 1))
    new = Acceptance(
        id=adapter.manifest.id,
        licence_sha256=digest,
        name=called,
        at=utc_now(),
        robustify=__version__,
        manifest_sha256=adapter.sha256,
        folder=str(adapter.folder.resolve()),
        files=files,
        items=base64.b64encode(_joined(marks)).decode(),
    )
    others = [row for row in record.accepted if row not in same]
    with writable(file):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = record.model_copy(update={"accepted": (*others, new)}).model_dump_json(indent=1)
        write_atomic(file, text.encode(), private=True)
    return new


def _digest(adapter: Adapter) -> str:
    return hashlib.sha256(adapter.licence.encode()).hexdigest()


def utc_now() -> str:
    """Return the current UTC time in ISO 8601 format."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# Fingerprints of items


def _joined(several: Iterable[bytes]) -> bytes:
    """Join several strings of fingerprints into one, sorted and without repeats."""
    return b"".join(sorted(set().union(*map(_cut, several))))


def _copied(items: Sequence[Item], key: bytes, sets: Mapping[str, bytes]) -> dict[str, int]:
    """Return the sets of which the items are a copy, and how many are in each. `sets` has their fingerprints."""
    known, counts = {name: _cut(marks) for name, marks in sets.items()}, Counter[str]()
    for item in items if known else ():
        marks = list(_fingerprints(item, key))
        counts.update(name for name, its in known.items() if not its.isdisjoint(marks))
    return {name: n for name, n in counts.items() if n >= LEAST or 2 * n > len(items)}


def _cut(fingerprints: bytes) -> set[bytes]:
    return {fingerprints[at : at + _SIZE] for at in range(0, len(fingerprints), _SIZE)}


def _fingerprints(item: Item, key: bytes) -> Iterator[bytes]:
    asked = b"".join(kept_words(item.stem))
    options = b"\n".join(sorted(b"".join(kept_words(choice)) for choice in item.choices))
    for enough, text in (
        (len(asked) >= _STEM, b"stem\n" + asked),
        (len(options) >= _CHOICES, b"choices\n" + options),
        (len(asked) + len(options) >= _STEM, b"item\n" + asked + b"\n" + options),
    ):
        if enough:
            yield hashlib.blake2b(text, key=key, digest_size=_SIZE).digest()
