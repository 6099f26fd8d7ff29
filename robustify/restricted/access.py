"""Authorisation: the four facts without which a restricted set is not read, asked in this order, each with a refusal
of its own; and where its text may be sent.

Accepted terms, data that are here and as pinned, a key, a private output folder. It is attestation and possession,
not authentication: the real access control is the file system. No item is parsed here, and no model is loaded.
Text goes to this machine and to the hosts that the manifest names, which is asked before any model is looked at, because
looking at a server already talks to it.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from robustify import engines
from robustify.engines.settings import OpenAIModel
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.files import sha256
from robustify.gate.key_file import Key
from robustify.loaders import Loaded, Source
from robustify.restricted import ids
from robustify.restricted.account import Acceptance, accepted, require
from robustify.restricted.adapters import Adapter, DataFile, Manifest, find_adapter
from robustify.restricted.confinement import require_private
from robustify.restricted.secret_key import evaluator_key

MOST_BYTES = 4 << 30


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """Leave to read one restricted set. It holds the key: its repr shows the set and the key's id alone."""

    manifest: Manifest
    key: Key
    sources: tuple[Source, ...]
    licence: Acceptance

    def __repr__(self) -> str:
        return f"Access({self.manifest.id!r}, key {self.key.id})"

    @property
    def key_id(self) -> str:
        """The public id of the key."""
        return self.key.id

    def skipping_bad(self) -> "Access":
        """The same with rows that cannot be items set aside instead of refusing a file."""
        sources = (source.model_copy(update={"skip_bad": True}) for source in self.sources)
        return replace(self, sources=tuple(sources))

    def keyed(self, bench: Loaded) -> Loaded:
        """Return the benchmark with keyed ids, once it holds as many records as its manifest pins.
        Raises `DataError`: another number of records, or as `ids.keyed`."""
        self._require_all(bench)
        name, version = self.manifest.id, self.manifest.version
        skip_bad = any(source.skip_bad for source in self.sources)
        return ids.keyed(bench, self.key.derived("ids"), name, version, skip_bad=skip_bad)

    def _require_all(self, bench: Loaded) -> None:
        counts = Counter([*bench.files, *(q.file for q in bench.quarantined)])
        # Files of one name in several folders cannot be distinguished here: their sum is pinned.
        pinned: dict[str, int | None] = {}
        for file in self.manifest.data.files:
            name, before = Path(file.path).name, pinned.get(Path(file.path).name, 0)
            pinned[name] = None if before is None or file.records is None else before + file.records
        faults = [
            f"{name}: {counts[name]:,} records; expected {n:,}, as the manifest of {self.manifest.id} pins: partial data "
            "are refused"
            for name, n in pinned.items()
            if n is not None and counts[name] != n
        ]
        if faults:
            raise DataError.gather(faults)


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
    licence = require(adapter)
    sources = facts_present(adapter)
    key = evaluator_key()
    if folder is not None:
        require_private(folder)
    return Access(adapter.manifest, key, sources, licence)


def facts_present(adapter: Adapter) -> tuple[Source, ...]:
    """The set's files, all of them here, regular, below the root and with the pinned digests.

    Raises:
        AuthorisationError: no root, or a file is missing.
        UsageError: a file that is a link, a pipe, outside the root or too large.
        DataError: not the pinned data.
    """
    manifest = adapter.manifest
    variable = manifest.data.root_env
    if variable is None:
        raise AuthorisationError(
            f"{manifest.id}: data.root_env is null; expected the variable of a folder of your own, to run it as restricted"
        )
    given = os.environ.get(variable)
    if not given:
        raise AuthorisationError(
            f"{manifest.id}: ${variable} is not set; expected the folder that holds your own copy of the data"
        )
    root = Path(given)
    if not root.is_absolute() or not root.is_dir():
        raise AuthorisationError(
            f"{manifest.id}: ${variable} is no absolute path of a folder; expected the folder that holds your own copy"
        )
    for file in manifest.data.files:
        _require(manifest.id, root.resolve(), file)
    return manifest.sources(root.resolve())


def _require(name: str, root: Path, file: DataFile) -> None:
    place = root / file.path
    if not os.path.lexists(place):
        raise AuthorisationError(
            f"{name}: {file.path} is not in the data folder; expected your own copy there (it is never downloaded)"
        )
    if not place.resolve().is_relative_to(root) or place.is_symlink():
        raise UsageError(
            f"{name}: {file.path} is a link or leads out of the data folder; expected a file in it"
        )
    status = place.stat()
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{name}: {file.path} is no regular file (pipe or device); expected a file of items")
    if status.st_size > MOST_BYTES:
        raise UsageError(f"{name}: {file.path} has {status.st_size:,} bytes; expected at most {MOST_BYTES:,}")
    try:
        pinned = file.sha256 is None or sha256(place) == file.sha256
    except OSError as error:
        raise AuthorisationError(
            f"{name}: {file.path} cannot be read ({error.strerror}); expected your own copy of the data"
        ) from None
    if not pinned:
        raise DataError(
            f"{name}: {file.path} is not the pinned data (another sha256); expected the set as published, whole"
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
