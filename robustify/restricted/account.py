"""Keep which terms were accepted on this account: who accepted which text of which set, and when.

A changed text voids it, and so does a changed manifest, because it names the hosts that may receive the items and the
cells that are shown. It is attestation, not authentication: the real access control is the file system. Nothing is
accepted in passing: without a terminal the digest is typed too.
"""

import json
import os
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

from robustify import __version__
from robustify.errors import AuthorisationError, UsageError
from robustify.files import read_expected, writable, write_atomic
from robustify.restricted.adapters import Adapter
from robustify.settings_files import MOST_BYTES

LICENCES_FORMAT = "robustify.licences/1"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One accepted text, under the manifest as it was then."""

    id: str
    licence_sha256: str
    name: str
    at: str
    robustify: str
    manifest_sha256: str = ""


def licences_file() -> Path:
    """Return where acceptances are kept: `$XDG_CONFIG_HOME/robustify/licences.json`, else below ~/.config."""
    return settings_folder() / "licences.json"


def settings_folder() -> Path:
    """Return the user's own folder of this program."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "robustify"


def accepted() -> list[Acceptance]:
    """Return what was accepted on this account.
    Raises `AuthorisationError`: the record is not a regular file, or is damaged."""
    file = licences_file()
    if not file.exists() and not file.is_symlink():
        return []
    try:
        tree = json.loads(read_expected(file, "the record of accepted terms", MOST_BYTES))
        if tree["format"] != LICENCES_FORMAT:
            raise ValueError
        return [Acceptance(**row) for row in tree["accepted"]]
    except (UsageError, ValueError, KeyError, TypeError):
        raise AuthorisationError(
            f"{file}: is not a record of accepted terms as robustify writes it; move it away and accept again: "
            "robustify restricted licence accept ID"
        ) from None


def require(adapter: Adapter) -> Acceptance:
    """Return the acceptance in force of a set's terms.
    Raises `AuthorisationError`: not accepted, or the text or the manifest has changed since."""
    name, digest = adapter.manifest.id, sha256(adapter.licence.encode()).hexdigest()
    mine = [row for row in accepted() if row.id == name]
    same = [row for row in mine if row.licence_sha256 == digest]
    match = next((row for row in same if row.manifest_sha256 == adapter.sha256), None)
    if match is None:
        why = "were changed since they were accepted" if mine else "are not accepted"
        why = "were accepted under another manifest, which was changed since" if same else why
        raise AuthorisationError(
            f"{name}: is a restricted set, and its terms {why}; read and accept them: "
            f"robustify restricted licence accept {name}"
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
    digest = sha256(adapter.licence.encode()).hexdigest()
    new = Acceptance(adapter.manifest.id, digest, called, utc_now(), __version__, adapter.sha256)
    others = [row for row in accepted() if (row.id, row.licence_sha256) != (new.id, digest)]
    file, rows = licences_file(), [asdict(row) for row in (*others, new)]
    with writable(file):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        tree = {"format": LICENCES_FORMAT, "accepted": rows}
        write_atomic(file, json.dumps(tree, indent=1).encode(), private=True)
    return new


def utc_now() -> str:
    """Return the time in a record of this account."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
