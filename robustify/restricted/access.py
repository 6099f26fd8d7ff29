"""Authorise the reading of a restricted set: four facts, asked in this order, each with a refusal of its own.

Accepted terms, data that are here and as pinned, a key, a private output folder. It is attestation and possession,
not authentication: the real access control is the file system. No item is parsed here, and no model is loaded.
Text goes to this machine and to the hosts that the manifest names, which is asked before any model is looked at, because
looking at a server already talks to it.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from robustify import engines
from robustify.engines.settings import OpenAIModel
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.files import sha256
from robustify.gate.key_file import Key
from robustify.loaders import Loaded, Source, load_many
from robustify.restricted import ids
from robustify.restricted.adapters import Adapter, DataFile, Manifest, find_adapter
from robustify.restricted.confinement import require_private
from robustify.restricted.secret_key import evaluator_key
from robustify.restricted.terms import accepted, require


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
