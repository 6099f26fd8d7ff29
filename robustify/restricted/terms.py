"""Record of accepted terms in the user's account.

An acceptance becomes invalid if the terms change, or if the manifest changes, because it names the hosts that may
receive items and the size of published cells.
"""

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from robustify import __version__
from robustify.base.errors import AuthorisationError, UsageError
from robustify.base.files import read_expected, writable, write_atomic
from robustify.base.settings_files import MOST_BYTES, Settings
from robustify.restricted.adapters import Adapter


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance of one version of the terms under one version of the manifest. `folder` is that of the adapter, so that
    its set is recognised even if no variable names this folder."""

    id: str
    licence_sha256: str
    name: str
    at: str
    robustify: str
    manifest_sha256: str = ""
    folder: str = ""


class _Accepted(Settings):
    format: Literal["robustify.licences/1"] = "robustify.licences/1"
    accepted: tuple[Acceptance, ...]


def licences_file() -> Path:
    """Return the path of the record: `robustify/licences.json` in `$XDG_CONFIG_HOME` or ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "robustify" / "licences.json"


def accepted() -> tuple[Acceptance, ...]:
    """Return all acceptances in this account. Raises `AuthorisationError` if the record is not a regular file, or is
    damaged."""
    file = licences_file()
    if not os.path.lexists(file):
        return ()
    try:
        return _Accepted.model_validate_json(read_expected(file, "a record", MOST_BYTES)).accepted
    except (UsageError, ValidationError):
        raise AuthorisationError(
            f"{file} is not a record of accepted terms as robustify writes it. Move it away and accept the terms again "
            "with `robustify restricted licence show ID`."
        ) from None


def require(adapter: Adapter) -> Acceptance:
    """Return the current acceptance of a set's terms. Raises `AuthorisationError` if the terms are not accepted, or if
    they or the manifest changed afterwards."""
    name, digest = adapter.manifest.id, _digest(adapter)
    mine = [row for row in accepted() if row.id == name]
    same = [row for row in mine if row.licence_sha256 == digest]
    for row in same:
        if row.manifest_sha256 == adapter.sha256:
            return row
    why = "have changed since they were accepted" if mine else "are not accepted"
    raise AuthorisationError(
        f"{name} is a restricted set, and its terms {'were accepted before its manifest changed' if same else why}. To "
        f"read and accept them, run `robustify restricted licence show {name}`."
    )


def accept(adapter: Adapter, name: str) -> Acceptance:
    """Record that a person accepts the current terms. Raise `UsageError` if the name is empty, too long or not
    printable, and `ResourceError` if the record cannot be written."""
    called = " ".join(name.split())
    if not called or not called.isprintable() or len(called) > 100:
        raise UsageError("The name is empty, too long or not printable; expected the name of a person.")
    digest, folder = _digest(adapter), str(adapter.folder.resolve())
    new = Acceptance(adapter.manifest.id, digest, called, utc_now(), __version__, adapter.sha256, folder)
    others = [row for row in accepted() if (row.id, row.licence_sha256) != (new.id, digest)]
    file = licences_file()
    with writable(file):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = _Accepted(accepted=(*others, new)).model_dump_json(indent=1)
        write_atomic(file, text.encode(), private=True)
    return new


def _digest(adapter: Adapter) -> str:
    return hashlib.sha256(adapter.licence.encode()).hexdigest()


def utc_now() -> str:
    """Return the current UTC time in ISO 8601 format."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
