"""Authorisation to read a restricted set, with four requirements that are checked in order.

The requirements are accepted terms, complete data that match their pins, a key, and a private output folder. They prove
acceptance and possession, not identity, so the file system controls access. No item is parsed and no model is loaded
here. Text may go to this machine and to the hosts in the manifest. Hosts are checked before any model is looked up,
because looking up a model on a server already contacts it.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from robustify.engines.protocols import Runnable
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
    """Permission to read one restricted set. The repr shows the set and the ID of the key, but not the key."""

    manifest: Manifest
    key: Key
    sources: tuple[Source, ...]

    def __repr__(self) -> str:
        return f"Access({self.manifest.id!r}, key {self.key.id})"

    def read(self, *, skip_bad: bool = False) -> Loaded:
        """Return the items with keyed IDs. If `skip_bad`, rows that cannot be items are set aside. Raises `DataError` if
        the number of records differs from the manifest, or if the files cannot be loaded."""
        bad = {"skip_bad": True} if skip_bad else {}
        sources = [source.model_copy(update=bad) for source in self.sources]
        bench = load_many(sources)
        pinned = [file.records for file in self.manifest.data.files if file.records is not None]
        found, n = len(bench.items) + len(bench.quarantined), sum(pinned)
        if found < n or (found > n and len(pinned) == len(self.manifest.data.files)):
            raise DataError(
                f"{self.manifest.id} has {found:,} records; expected {n:,}, as its manifest pins. Partial data are refused."
            )
        about, skip_bad = self.manifest, any(source.skip_bad for source in sources)
        return ids.keyed(bench, self.key.derived("ids"), about.id, about.version, skip_bad=skip_bad)


def authorised(name: str, adapter: str | None, folder: Path | None, *, public: bool) -> Access | None:
    """Return the permission to read a set and to write into `folder`, or None for a public set.

    `public` is what the config claims, and `folder` is None if nothing will be written. The manifest is read again for
    every call, and a config cannot lower its label.

    Raises:
        AuthorisationError: A restricted set has no adapter, or a requirement is not met.
        DataError: The data differ from the pinned data.
        UsageError: The adapter or a data file is invalid.
    """
    found = None if adapter is None else find_adapter(adapter)
    if public and not (found and found.manifest.restricted):
        changed = (found.manifest.id, found.sha256) if found else ("", "")
        if any(row.id == changed[0] and row.manifest_sha256 != changed[1] for row in accepted()):
            raise AuthorisationError(
                f"{changed[0]}: The manifest now says public, but the terms were accepted for a restricted set. "
                "Restore the manifest, or use another ID."
            )
        return None
    return admitted(name, found, folder)


def admitted(name: str, adapter: Adapter | None, folder: Path | None) -> Access:
    """Return the permission to read a restricted set, even if its adapter calls it public.

    Raises:
        AuthorisationError: The adapter is missing, or a requirement is not met.
        DataError: The data differ from the pinned data.
        UsageError: The adapter or a data file is invalid.
    """
    if adapter is None:
        raise AuthorisationError(
            f"{name} is a restricted set, so nothing was read. Write `adapter: NAME` into the config, and provide the "
            "licence, key and private folder (`robustify restricted adapter list`, docs/adapters.md)."
        )
    require(adapter)
    sources = facts_present(adapter)
    key = evaluator_key()
    if folder is not None:
        require_private(folder)
    return Access(adapter.manifest, key, sources)


def facts_present(adapter: Adapter) -> tuple[Source, ...]:
    """Return the files of a set after checking that they are regular, below the root, and equal to the pinned data.

    Raises:
        AuthorisationError: The root or a file is missing.
        UsageError: A file is a link, not regular, outside the root, or too large.
        DataError: A file differs from the pinned data.
    """
    manifest = adapter.manifest
    variable = manifest.data.root_env
    root = Path(os.environ.get(variable or "") or ".")
    if not root.is_absolute() or not root.is_dir():
        fault = f"${variable} is not the absolute path of a folder" if variable else "data.root_env is null"
        raise AuthorisationError(f"{manifest.id}: {fault}. Set it to the folder with your copy of the data.")
    for file in manifest.data.files:
        _require(f"{manifest.id}: {file.path}", root.resolve(), file)
    return manifest.sources(root.resolve())


def _require(name: str, root: Path, file: DataFile) -> None:
    place = root / file.path
    if not os.path.lexists(place):
        raise AuthorisationError(f"{name} is not in the data folder. Copy it there; it is never downloaded.")
    if not place.resolve().is_relative_to(root) or place.is_symlink() or not place.is_file():
        raise UsageError(f"{name} is a link, not a regular file, or outside the data folder.")
    try:
        pinned = file.sha256 is None or sha256(place) == file.sha256
    except OSError as error:
        raise AuthorisationError(f"{name} cannot be read ({error.strerror}).") from None
    if not pinned:
        raise DataError(f"The SHA-256 of {name} differs from its pin. Use the complete published set.")


def require_inside(models: Iterable[Runnable], manifest: Manifest) -> None:
    """Refuse models that would send prompts unencrypted, or to a host that the manifest does not name.

    Traffic inside a Ray cluster is checked by the Ray engine.

    Raises:
        AuthorisationError: One line per refused model, with its host.
    """
    refused = []
    for model in models:
        address = model.host
        if address is None:
            continue
        bare = address.split("://")[-1]
        host = (urlsplit(f"//{bare}").hostname or bare).casefold()
        if host not in manifest.egress:
            refused.append(
                f"{model.name} would send the items of {manifest.id} to {host!a}, which `egress` in the manifest does not "
                "name. Use a model on this machine."
            )
        elif urlsplit(address).scheme == "http":
            refused.append(
                f"{model.name} would send the items of {manifest.id} to {host!a} unencrypted; expected https."
            )
    if refused:
        raise AuthorisationError(*refused)
