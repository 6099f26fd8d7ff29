"""Record who accepted the terms of a set, on the user's account.

A changed text voids an acceptance, and so does a changed manifest, because it names the hosts that may receive the items
and the cells that are shown.
"""

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from robustify import __version__
from robustify.errors import AuthorisationError, UsageError
from robustify.files import read_expected, writable, write_atomic
from robustify.restricted.adapters import Adapter
from robustify.settings_files import MOST_BYTES, Settings


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One accepted text, under the manifest as it was then."""

    id: str
    licence_sha256: str
    name: str
    at: str
    robustify: str
    manifest_sha256: str = ""
    folder: str = ""
    """Where the adapter was: its set is recognised also where nothing names that folder."""


class _Accepted(Settings):
    """The record of accepted terms on this account."""

    format: Literal["robustify.licences/1"] = "robustify.licences/1"
    accepted: tuple[Acceptance, ...]


def licences_file() -> Path:
    """Return where acceptances are kept: `$XDG_CONFIG_HOME/robustify/licences.json`, else below ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "robustify" / "licences.json"


def accepted() -> tuple[Acceptance, ...]:
    """Return what was accepted on this account.
    Raises `AuthorisationError`: the record is not a regular file, or is damaged."""
    file = licences_file()
    if not os.path.lexists(file):
        return ()
    try:
        return _Accepted.model_validate_json(read_expected(file, "a record", MOST_BYTES)).accepted
    except (UsageError, ValidationError):
        raise AuthorisationError(
            f"{file}: is not a record of accepted terms as robustify writes it; move it away and accept again: "
            "robustify restricted licence show ID"
        ) from None


def require(adapter: Adapter) -> Acceptance:
    """Return the acceptance in force of a set's terms.
    Raises `AuthorisationError`: not accepted, or the text or the manifest has changed since."""
    name, digest = adapter.manifest.id, hashlib.sha256(adapter.licence.encode()).hexdigest()
    mine = [row for row in accepted() if row.id == name]
    same = [row for row in mine if row.licence_sha256 == digest]
    match = next((row for row in same if row.manifest_sha256 == adapter.sha256), None)
    if match is None:
        why = "were changed since they were accepted" if mine else "are not accepted"
        why = "were accepted under another manifest, which was changed since" if same else why
        raise AuthorisationError(
            f"{name}: is a restricted set, and its terms {why}; read and accept them: "
            f"robustify restricted licence show {name}"
        )
    return match


def accept(adapter: Adapter, name: str) -> Acceptance:
    """Record that `name` accepts the terms as they are now.

    Raises:
        UsageError: no name.
        ResourceError: the record cannot be written.
    """
    called = " ".join(name.split())
    if not called or not called.isprintable() or len(called) > 100:
        raise UsageError("the name is empty, too long or not printable; expected a person's name")
    digest = hashlib.sha256(adapter.licence.encode()).hexdigest()
    place = str(adapter.folder.resolve())
    new = Acceptance(adapter.manifest.id, digest, called, utc_now(), __version__, adapter.sha256, place)
    others = [row for row in accepted() if (row.id, row.licence_sha256) != (new.id, digest)]
    file = licences_file()
    with writable(file):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = _Accepted(accepted=(*others, new)).model_dump_json(indent=1)
        write_atomic(file, text.encode(), private=True)
    return new


def utc_now() -> str:
    """Return the time in a record of this account."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
