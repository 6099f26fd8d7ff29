"""Authorise the reading of a restricted set: four facts, asked in this order, each with a refusal of its own.

Accepted terms, data that are here and as pinned, a key, a private output folder. It is attestation and possession,
not authentication: the real access control is the file system. No item is parsed here, and no model is loaded.
Text goes to this machine and to the hosts that the manifest names, which is asked before any model is looked at, because
looking at a server already talks to it.

Acceptances are kept on the user's account. A changed text voids one, and so does a changed manifest, because it names the
hosts that may receive the items and the cells that are shown.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import ValidationError

from robustify import __version__, engines
from robustify.engines.settings import OpenAIModel
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.files import read_expected, sha256, writable, write_atomic
from robustify.gate.key_file import Key
from robustify.loaders import Loaded, Source, load_many
from robustify.restricted import ids
from robustify.restricted.adapters import Adapter, DataFile, Manifest, find_adapter
from robustify.restricted.confinement import require_private
from robustify.restricted.secret_key import evaluator_key
from robustify.settings_files import MOST_BYTES, Settings


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """Leave to read one restricted set. It holds the key: its repr shows the set and the key's id alone."""

    manifest: Manifest
    key: Key
    sources: tuple[Source, ...]

    def __repr__(self) -> str:
        return f"Access({self.manifest.id!r}, key {self.key.id})"

    def read(self, *, skip_bad: bool = False) -> Loaded:
        """Return the items under keyed ids. `skip_bad`: rows that cannot be items are set aside.
        Raises `DataError`: another number of records than the manifest pins; as the loaders and `ids.keyed`."""
        bad = {"skip_bad": True} if skip_bad else {}
        sources = [source.model_copy(update=bad) for source in self.sources]
        bench = load_many(sources)
        pinned = [file.records for file in self.manifest.data.files if file.records is not None]
        found, n = len(bench.items) + len(bench.quarantined), sum(pinned)
        if found < n or (found > n and len(pinned) == len(self.manifest.data.files)):
            raise DataError(
                f"{self.manifest.id}: {found:,} records; expected {n:,}, as its manifest pins: partial data are refused"
            )
        about, skip_bad = self.manifest, any(source.skip_bad for source in sources)
        return ids.keyed(bench, self.key.derived("ids"), about.id, about.version, skip_bad=skip_bad)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One accepted text, under the manifest as it was then."""

    id: str
    licence_sha256: str
    name: str
    at: str
    robustify: str
    manifest_sha256: str = ""


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
    new = Acceptance(adapter.manifest.id, digest, called, utc_now(), __version__, adapter.sha256)
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


def authorised(name: str, adapter: str | None, folder: Path | None, *, public: bool) -> Access | None:
    """Leave to read the set of this name and adapter and to write into this folder; None for a public set.

    `public`: the config says so. `folder` None: nothing will be written. The manifest is read anew: it counts as it is
    now, and no config lowers a label.

    Raises:
        AuthorisationError: a restricted set without an adapter, or one of the four facts is missing.
        DataError: data that are not the pinned ones.
        UsageError: an adapter or a data file that is none.
    """
    found = None if adapter is None else find_adapter(adapter)
    if public and not (found and found.manifest.restricted):
        changed = (found.manifest.id, found.sha256) if found else ("", "")
        if any(row.id == changed[0] and row.manifest_sha256 != changed[1] for row in accepted()):
            raise AuthorisationError(
                f"{changed[0]}: its terms were accepted as those of a restricted set, and its manifest says public "
                "now; expected the manifest as it was, or another id"
            )
        return None
    return admitted(name, found, folder)


def admitted(name: str, adapter: Adapter | None, folder: Path | None) -> Access:
    """The same for a set that is restricted, whatever its adapter says. Raises as `authorised`."""
    if adapter is None:
        raise AuthorisationError(
            f"{name}: is a restricted set; expected `adapter: NAME` in the config, with its licence, key and "
            "private folder (robustify restricted adapter list; docs/adapters.md): nothing was read"
        )
    require(adapter)
    sources = facts_present(adapter)
    key = evaluator_key()
    if folder is not None:
        require_private(folder)
    return Access(adapter.manifest, key, sources)


def facts_present(adapter: Adapter) -> tuple[Source, ...]:
    """The set's files, all of them here, regular, below the root and with the pinned digests.

    Raises:
        AuthorisationError: no root, or a file is missing.
        UsageError: a file that is a link, a pipe, outside the root or too large.
        DataError: not the pinned data.
    """
    manifest = adapter.manifest
    variable = manifest.data.root_env
    root = Path(os.environ.get(variable or "") or ".")
    if not root.is_absolute() or not root.is_dir():
        named = f"${variable} names no absolute path of a folder" if variable else "data.root_env is null"
        raise AuthorisationError(
            f"{manifest.id}: {named}; expected the folder that holds your own copy of the data"
        )
    for file in manifest.data.files:
        _require(f"{manifest.id}: {file.path}", root.resolve(), file)
    return manifest.sources(root.resolve())


def _require(name: str, root: Path, file: DataFile) -> None:
    place = root / file.path
    if not os.path.lexists(place):
        raise AuthorisationError(
            f"{name} is not in the data folder; expected your own copy there (it is never downloaded)"
        )
    if not place.resolve().is_relative_to(root) or place.is_symlink() or not place.is_file():
        raise UsageError(
            f"{name} is a link, no regular file, or outside the data folder; expected a file in it"
        )
    try:
        pinned = file.sha256 is None or sha256(place) == file.sha256
    except OSError as error:
        raise AuthorisationError(
            f"{name} cannot be read ({error.strerror}); expected your own copy of the data"
        ) from None
    if not pinned:
        raise DataError(
            f"{name} is not the pinned data (another sha256); expected the set as published, whole"
        )


def require_inside(models: Iterable[engines.Runnable], manifest: Manifest) -> None:
    """Refuse models whose prompts would leave this machine for a host that the manifest does not name, or unencrypted
    for one that it names. The traffic of a Ray cluster is guarded by the cluster.

    Raises:
        AuthorisationError: all of them, with their hosts.
    """
    refused = []
    for model in models:
        address = engines.remote_host(model)
        if address is None:
            continue
        bare = address.split("://")[-1]
        host = (urlsplit(f"//{bare}").hostname or bare).casefold()
        if host not in manifest.egress:
            refused.append(
                f"{model.name}: would send the items of {manifest.id} to {host!a}, which egress of its manifest does not "
                "name; expected a model on this machine"
            )
        elif isinstance(model, OpenAIModel) and urlsplit(model.base_url).scheme != "https":
            refused.append(
                f"{model.name}: would send the items of {manifest.id} to {host!a} in the clear; expected https"
            )
    if refused:
        raise AuthorisationError(*refused)
