"""Record of accepted terms in the user's account.

An acceptance becomes invalid if the terms or the manifest change, because it names the hosts that may receive items and
the size of published cells. It pins every file of the set, and has the marks of its items (`item_marks`).
"""

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from robustify import __version__
from robustify.base.errors import AuthorisationError, Notice, UsageError
from robustify.base.files import read_expected, writable, write_atomic
from robustify.base.settings_files import Settings
from robustify.items.item import Item
from robustify.restricted.adapters import Adapter
from robustify.restricted.item_marks import Marks, mark_items, sets_copied_by, sets_quoted_by, sets_with_ids

_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Pin:
    """Digest and record count of one data file."""

    sha256: str
    records: int


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance of one version of the terms under one version of the manifest. `folder` is that of the adapter, so that
    its set is recognized even if no variable names this folder. `files` pins each file of the data by its path. `items` and
    `parts` have the marks of a restricted set in Base64. Acceptances of earlier versions have no parts."""

    id: str
    licence_sha256: str
    name: str
    at: str
    robustify: str
    manifest_sha256: str = ""
    folder: str = ""
    files: Mapping[str, Pin] = field(default_factory=dict)
    items: str = ""
    parts: str = ""

    @property
    def marks(self) -> Marks:
        """Marks of complete items and of their parts."""
        n_items = sum(pin.records for pin in self.files.values())
        return Marks(base64.b64decode(self.items), base64.b64decode(self.parts), n_items)

    def with_marks(self, marks: Marks) -> "Acceptance":
        """Return the acceptance with these marks."""
        wholes, parts = (
            base64.b64encode(marks_of_kind).decode() for marks_of_kind in (marks.wholes, marks.parts)
        )
        return replace(self, items=wholes, parts=parts)


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


def copied_sets(items: Sequence[Item], ids: Iterable[str] = ()) -> dict[str, int]:
    """Return the accepted restricted sets that the items copy, and the number of items from each of these sets. Items
    are recognized by their texts or IDs, and items without texts by these `ids`."""
    key, sets = _marked_sets()
    return sets_copied_by(items, key, sets) or sets_with_ids([*(item.id for item in items), *ids], key, sets)


def quoted_sets(text: str) -> list[str]:
    """Return the accepted restricted sets whose items are quoted in a text."""
    return sets_quoted_by(text, *_marked_sets())


def _marked_sets() -> tuple[bytes, dict[str, Marks]]:
    """Return the hash key of all marks, and the marks of each accepted set."""
    record, sets = _record(), dict[str, Marks]()
    for row in record.accepted:
        if row.items:
            sets[row.id] = sets.get(row.id, Marks()).union(row.marks)
    return bytes.fromhex(record.key), sets


def _record() -> _Accepted:
    file = licences_file()
    if not os.path.lexists(file):
        return _Accepted()
    try:
        return _Accepted.model_validate_json(read_expected(file, "a record", _MOST_BYTES))
    except (UsageError, ValidationError):
        raise AuthorisationError(
            f"{file} is not an intact record of accepted terms. Move it away, and accept the terms again with `robustify "
            "restricted license show ID`.",
            code="invalid-terms-record",
        ) from None


def require(adapter: Adapter) -> Acceptance:
    """Return the current acceptance of a set's terms. Raise `AuthorisationError` if there is none, or the terms or the
    manifest changed afterwards."""
    name, digest = adapter.manifest.id, _digest(adapter)
    acceptances = [row for row in accepted() if row.id == name]
    current = [row for row in acceptances if row.licence_sha256 == digest]
    paths = {file.path for file in adapter.manifest.data.files}
    for row in current:
        if row.manifest_sha256 == adapter.sha256 and paths <= row.files.keys():
            return row
    reason = Notice("are not accepted", code="terms-not-accepted")
    if current:
        fault = "were accepted before its manifest changed, or by a version that did not pin its data"
        reason = Notice(fault, code="manifest-changed")
    elif acceptances:
        reason = Notice("have changed since they were accepted", code="terms-changed")
    raise AuthorisationError(
        f"{name} is a restricted set, and its terms {reason}. To read and accept them, run `robustify restricted license "
        f"show {name}`.",
        code=reason.code,
    )


def record_acceptance(
    adapter: Adapter, name: str, files: Mapping[str, Pin], items: Sequence[Item]
) -> Acceptance:
    """Record that a person accepts the current terms of a set with these files and items. Raise `UsageError` if the
    name is empty, too long or not printable, and `ResourceError` if the record cannot be written."""
    person = " ".join(name.split())
    if not person or not person.isprintable() or len(person) > 100:
        raise UsageError(
            "The name is empty, too long, or not printable; expected the name of a person.",
            code="invalid-person",
        )
    record, digest = _record(), _digest(adapter)
    replaced = [
        row for row in record.accepted if (row.id, row.licence_sha256) == (adapter.manifest.id, digest)
    ]
    marks = mark_items(items, bytes.fromhex(record.key)) if adapter.manifest.restricted else Marks()
    for row in replaced:
        marks = marks.union(row.marks)
    new = Acceptance(
        id=adapter.manifest.id,
        licence_sha256=digest,
        name=person,
        at=utc_now(),
        robustify=__version__,
        manifest_sha256=adapter.sha256,
        folder=str(adapter.folder.resolve()),
        files=files,
    ).with_marks(marks)
    _write(record, (*(row for row in record.accepted if row not in replaced), new))
    return new


def renew(name: str, items: Sequence[Item]) -> None:
    """Add the marks of these items to the acceptances of a set, if an earlier version recorded them without parts. Raise
    `ResourceError` if the record cannot be written."""
    record = _record()
    old = [row for row in record.accepted if row.id == name and not row.parts]
    if old and (marks := mark_items(items, bytes.fromhex(record.key))).parts:
        renewed = (row.with_marks(row.marks.union(marks)) for row in old)
        _write(record, [*(row for row in record.accepted if row not in old), *renewed])


def _write(record: _Accepted, accepted: Sequence[Acceptance]) -> None:
    file = licences_file()
    with writable(file):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = record.model_copy(update={"accepted": tuple(accepted)}).model_dump_json(indent=1)
        write_atomic(file, text.encode(), private=True)


def _digest(adapter: Adapter) -> str:
    return hashlib.sha256(adapter.licence.encode()).hexdigest()


def utc_now() -> str:
    """Return the current UTC time in ISO 8601 format."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
