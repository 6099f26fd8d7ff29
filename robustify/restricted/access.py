"""Authorisation: the four facts without which a restricted set is not read, asked in this order, each with a refusal
of its own.

Accepted terms, data that are here and as pinned, a key, a private output folder. It is attestation and possession,
not authentication: the real access control is the file system. No item is parsed here, and no model is loaded.
"""

import hashlib
import os
import stat
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from robustify.errors import AuthorisationError, DataError, ResourceError, UsageError
from robustify.files import open_regular
from robustify.loaders import Loaded, Source
from robustify.restricted import ids
from robustify.restricted.adapters import Adapter, find
from robustify.restricted.keys import Key, load_key
from robustify.restricted.licence import Acceptance, require
from robustify.restricted.manifest import DataFile, Manifest
from robustify.restricted.private import require_private
from robustify.restricted.registered import register

MOST_BYTES = 4 << 30
_CHUNK = 1 << 20


class Labelled(Protocol):
    """What of a config says whether a set is restricted."""

    @property
    def name(self) -> str:
        """The benchmark's name."""

    @property
    def sensitivity(self) -> str:
        """`public` or `restricted`."""

    @property
    def adapter(self) -> str | None:
        """The adapter's name or folder."""


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

    @property
    def seal(self) -> bytes:
        """The subkey of the score cache."""
        return self.key.derived("cache")

    def skipping_bad(self) -> "Access":
        """The same with rows that cannot be items set aside instead of refusing a file."""
        sources = (source.model_copy(update={"skip_bad": True}) for source in self.sources)
        return replace(self, sources=tuple(sources))

    def sealed(self, bench: Loaded) -> Loaded:
        """The benchmark with keyed ids, once it holds as many records as its manifest pins. This account remembers
        its records from then on as restricted.

        Raises:
            DataError: another number of records, or as `ids.sealed`.
        """
        self._require_all(bench)
        told = self.manifest
        skip_bad = any(source.skip_bad for source in self.sources)
        sealed = ids.sealed(bench, self.key.derived("ids"), told.id, told.version, skip_bad=skip_bad)
        try:
            register(told.id, bench.items)
        except ResourceError as error:
            print(f"robustify: {error}: copies of {told.id} are not recognised here later", file=sys.stderr)
        return sealed

    def _require_all(self, bench: Loaded) -> None:
        held = Counter([*bench.files, *(q.file for q in bench.quarantined)])
        # Files of one name in several folders cannot be told apart here: their sum is pinned.
        pinned: dict[str, int | None] = {}
        for file in self.manifest.data.files:
            name, before = Path(file.path).name, pinned.get(Path(file.path).name, 0)
            pinned[name] = None if before is None or file.records is None else before + file.records
        faults = [
            f"{name}: {held[name]:,} records; expected {n:,}, as the manifest of {self.manifest.id} pins: partial data "
            "are refused"
            for name, n in pinned.items()
            if n is not None and held[name] != n
        ]
        if faults:
            raise DataError.gather(faults)


def authorised(config: Labelled, folder: Path | None) -> Access | None:
    """Leave to read the set of this config and to write into this folder; None for a public set.

    `folder` None: nothing will be written. The manifest is read anew: what it says now counts, and no label is
    lowered by a config.

    Raises:
        AuthorisationError: a restricted set without an adapter, or one of the four facts is missing.
        DataError: data that are not the pinned ones.
        UsageError: an adapter or a data file that is none.
    """
    adapter = None if config.adapter is None else find(config.adapter)
    if config.sensitivity == "public" and not (adapter and adapter.manifest.restricted):
        return None
    if adapter is None:
        raise AuthorisationError(
            f"{config.name}: is a restricted set; expected `adapter: NAME` in the config, with its licence, key and "
            "private folder (robustify adapter list; robustify adapter new): nothing was read"
        )
    licence = require(adapter)
    sources = present(adapter)
    key = load_key()
    if folder is not None:
        require_private(folder)
    return Access(adapter.manifest, key, sources, licence)


def present(adapter: Adapter) -> tuple[Source, ...]:
    """The set's files, all of them here, regular, below the root and with the pinned digests.

    Raises:
        AuthorisationError: no root, or a file is missing.
        UsageError: a file that is a link, a pipe, outside the root or too large.
        DataError: not the pinned data.
    """
    told = adapter.manifest
    variable = told.data.root_env
    if variable is None:
        raise AuthorisationError(
            f"{told.id}: data.root_env is null; expected the variable of a folder of your own, to run it as restricted"
        )
    given = os.environ.get(variable)
    if not given:
        raise AuthorisationError(
            f"{told.id}: ${variable} is not set; expected the folder that holds your own copy of the data"
        )
    root = Path(given)
    if not root.is_absolute() or not root.is_dir():
        raise AuthorisationError(
            f"{told.id}: ${variable} is no absolute path of a folder; expected the folder that holds your own copy"
        )
    for file in told.data.files:
        _require(told.id, root.resolve(), file)
    return told.sources(root.resolve())


def _require(name: str, root: Path, file: DataFile) -> None:
    place = root / file.path
    if not os.path.lexists(place):
        raise AuthorisationError(
            f"{name}: {file.path} is not in the data folder; expected your own copy there (it is never downloaded)"
        )
    if not place.resolve().is_relative_to(root) or place.is_symlink():
        raise UsageError(
            f"{name}: {file.path} is a link or leads out of the data folder; expected the file itself"
        )
    found = place.stat()
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(
            f"{name}: {file.path} is no regular file (a pipe or device); expected a file of items"
        )
    if found.st_size > MOST_BYTES:
        raise UsageError(f"{name}: {file.path} has {found.st_size:,} bytes; expected at most {MOST_BYTES:,}")
    if file.sha256 is not None and _digest(place) != file.sha256:
        raise DataError(
            f"{name}: {file.path} is not the pinned data (another sha256); expected the set as published, whole"
        )


def _digest(place: Path) -> str:
    digest = hashlib.sha256()
    try:
        with open_regular(place) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise AuthorisationError(
            f"{place.name}: cannot be read ({error.strerror}); expected your own copy of the data"
        ) from None
    return digest.hexdigest()
