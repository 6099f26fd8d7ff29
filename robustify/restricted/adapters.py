"""Adapters (folders with a manifest of a data set), and their lookup by name or path. Nothing here reads data.

Unknown keys are refused, and `sensitivity` has no default. No other folder can take the ID of an adapter that ships with
the package, because such a copy could lower a label, permit a host, or reuse an acceptance.
"""

import difflib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from robustify.base.errors import AuthorisationError, RobustifyError, UsageError
from robustify.base.files import read_expected
from robustify.base.settings_files import MOST_BYTES, MOST_YAML, Settings, faults, read_yaml, shipped
from robustify.reading.loaders import FieldMap, Source

FILE = "manifest.yaml"
LICENCE = "licence.txt"
FEWEST_IN_A_CELL = 5
_WHAT = "the manifest of an adapter (robustify.adapter/1)"
_VARIABLE = "ROBUSTIFY_ADAPTERS"
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _below(path: str) -> str:
    bare = path.isprintable() and "\\" not in path and path[:1] not in ("~", "/")
    if not bare or ".." in PurePosixPath(path).parts:
        raise ValueError("the path is outside the data folder; expected a relative path without `..`")
    return path


def _host(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise ValueError("the value is not a host name; expected lowercase letters, without a scheme or port")
    return name


class _Part(Settings):
    model_config = ConfigDict(strict=True)


class _Licence(_Part):
    """Terms of a set. `sha256` is the digest of `licence.txt`, the text next to the manifest that the user accepts."""

    name: str = Field(min_length=1, max_length=100)
    url: str | None = None
    sha256: _Digest


class DataFile(_Part):
    """File of a data set, in the root folder. `sha256` and `records` pin its content, and are null if unknown."""

    path: Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_below)]
    sha256: _Digest | None = None
    records: int | None = Field(default=None, ge=1)
    topic: str | None = None


class _Data(_Part):
    """Location of the data. `root_env` names the variable with the user's folder, null for a public set in the package."""

    root_env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")] | None
    files: Annotated[tuple[DataFile, ...], Field(min_length=1)]
    skip_bad: bool = False


class _Attestation(_Part):
    """A person's statement that data are not sensitive although they look sensitive, bound to the digest of the data."""

    by: str = Field(min_length=1, max_length=100)
    date: date
    reason: str = Field(min_length=10, max_length=500)
    content_sha256: _Digest


class Manifest(_Part):
    """Manifest of an adapter (`manifest.yaml`). `names` are other names of the set, by which its files are recognized.
    `columns` together identify a file of the set, and are empty if other sets have them too. `topics` are names (of topics,
    models, or the run) that may be published although items contain words of them."""

    format: Literal["robustify.adapter/1"]
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{1,39}$")]
    version: str = Field(default="1", min_length=1, max_length=40)
    title: str = Field(min_length=1, max_length=200)
    sensitivity: Literal["public", "restricted"]
    licence: _Licence
    data: _Data
    fields: FieldMap | None = None
    canary_sha256: tuple[_Digest, ...] = ()
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    egress: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    min_cell: int = Field(default=10, ge=1, le=1000)
    attest: dict[Literal["not_sensitive"], _Attestation | None] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> "Manifest":
        if self.restricted and self.attest.get("not_sensitive") is not None:
            raise ValueError("attest.not_sensitive: not allowed for a restricted set. Remove this key.")
        if len(self.columns) == 1:
            raise ValueError(
                "columns: a single name does not identify a set; expected none, or at least two names"
            )
        if self.restricted and self.data.root_env is None:
            raise ValueError("data.root_env: a restricted set needs the name of a variable, not null")
        return self

    @property
    def restricted(self) -> bool:
        """Whether the set is restricted."""
        return self.sensitivity == "restricted"

    def sources(self, root: Path) -> tuple[Source, ...]:
        """Return the set's data files as sources below `root`, each with its pins."""
        shared: dict[str, Any] = {"fields": self.fields, "name": self.id, "skip_bad": self.data.skip_bad}
        return tuple(
            Source(path=str(root / file.path), sha256=file.sha256, topic=file.topic, **shared)
            for file in self.data.files
        )


@dataclass(frozen=True, slots=True)
class Adapter:
    """Manifest of a set, with its folder and digest."""

    folder: Path
    manifest: Manifest
    sha256: str

    @property
    def licence(self) -> str:
        """Text of the terms. Raises `UsageError` if the file is not regular UTF-8 text with the digest in the manifest."""
        name, pinned = f"{self.manifest.id}/{LICENCE}", self.manifest.licence.sha256
        raw = read_expected(self.folder / LICENCE, "the terms of the set as UTF-8 text", MOST_BYTES)
        digest = sha256(raw).hexdigest()
        if digest != pinned:
            raise UsageError(
                f"{name}: The SHA-256 is {digest}, but the manifest pins {pinned}. If you changed the terms, write the new "
                "digest into `licence.sha256` of manifest.yaml. Otherwise, restore the file.",
                code="terms-not-as-pinned",
            )
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError(
                f"{name} is not UTF-8 text. Save it as UTF-8, and write its new digest into `licence.sha256` of "
                "manifest.yaml.",
                code="terms-not-text",
            ) from None


def find_adapter(name: str) -> Adapter:
    """Find an adapter by its name, its folder, or the path of its manifest. Raise `UsageError` if the adapter does
    not exist, is invalid, or has another ID than the name of its folder, and `AuthorisationError` if it has the ID of
    a shipped adapter, or its `min_cell` is too small for a restricted set."""
    folder = place(name)
    adapter = _read(folder)
    manifest, shipped_folder = adapter.manifest, _adapters_in(shipped("adapters")).get(adapter.manifest.id)
    if manifest.id != folder.resolve().name.replace("_", "-"):
        raise UsageError(
            f"{folder.name}/{FILE}: The id is {manifest.id}; expected the name of the folder.",
            code="adapter-id-mismatch",
        )
    if manifest.restricted and manifest.min_cell < FEWEST_IN_A_CELL:
        raise AuthorisationError(
            f"{manifest.id}: min_cell is {manifest.min_cell}; expected {FEWEST_IN_A_CELL} or more for a restricted set.",
            code="small-min-cell",
        )
    if shipped_folder is not None and shipped_folder.resolve() != folder.resolve():
        raise AuthorisationError(
            f"{manifest.id} is the ID of an adapter that ships with robustify, but this manifest is in another folder. "
            f"To use the shipped adapter, write `adapter: {manifest.id}`. Otherwise, choose another folder name and ID.",
            code="shadowed-adapter",
        )
    return adapter


def _read(folder: Path) -> Adapter:
    """Read the adapter in a folder. The digest is that of the parsed bytes."""
    raw = read_expected(folder / FILE, _WHAT, MOST_YAML)
    return Adapter(folder, _parsed(raw, folder.name), sha256(raw).hexdigest())


@lru_cache
def _parsed(raw: bytes, folder: str) -> Manifest:
    """Parse a manifest. The result is cached, because each file of items is compared with every set."""
    try:
        # Strict models take dates and tuples from JSON, not from Python.
        return Manifest.model_validate_json(json.dumps(read_yaml(raw, FILE, _WHAT), default=str))
    except ValidationError as error:
        raise UsageError(*faults(error, Manifest, "manifest", prefix=f"{folder}/{FILE}: ")) from None


def unplaced(adapter: Adapter) -> tuple[Source, ...]:
    """Return the data files of a set. The paths of a restricted set are relative, because only `access` may resolve
    them. Raise `UsageError` if the folder of a public set is unknown."""
    manifest, variable = adapter.manifest, adapter.manifest.data.root_env
    if manifest.restricted:
        return manifest.sources(Path())
    if variable is None:
        return manifest.sources(shipped() / "data")
    if not os.environ.get(variable):
        raise UsageError(
            f"{manifest.id}: ${variable} is not set. Set it to the data folder.", code="unset-data-folder"
        )
    return manifest.sources(Path(os.environ[variable]).expanduser().absolute())


def with_adapter(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the settings tree of the config `name`, with the data and sensitivity of its adapter, if it names one. A
    config may raise its sensitivity, but never lower it."""
    if tree.get("adapter") is None:
        return tree
    if "data" in tree:
        raise UsageError(
            f"{name}: data: the adapter already defines the data. Remove `data` or `adapter`.",
            code="data-and-adapter",
        )
    adapter = find_adapter(str(tree["adapter"]))
    manifest = adapter.manifest
    if manifest.restricted and tree.get("sensitivity", "restricted") != "restricted":
        raise AuthorisationError(
            f"{name}: sensitivity: {manifest.id} is a restricted set, and a config cannot lower the sensitivity of its "
            "adapter. Remove `sensitivity`.",
            code="lowered-sensitivity",
        )
    sources = [source.model_dump() for source in unplaced(adapter)]
    return {"name": manifest.id, "sensitivity": manifest.sensitivity, **tree, "data": sources}


def place(name: str) -> Path:
    """Return the folder of an adapter, given its name or path."""
    if is_path(name):
        path = Path(name).expanduser()
        folder = path.parent if path.name == FILE else path
        if not folder.is_dir():
            raise UsageError(
                f"adapter {name!a} does not exist. Expected a folder that contains {FILE}.",
                code="missing-adapter-folder",
            )
        return folder
    folders, adapter_id = _folders_by_id(), name.replace("_", "-")
    if adapter_id in folders:
        return folders[adapter_id]
    similar = difflib.get_close_matches(name, folders, n=1)
    raise UsageError(
        f"adapter {name!a} is unknown{f' (did you mean {similar[0]}?)' if similar else ''}. Expected a folder or one of "
        f"{', '.join(folders)}. To add folders of adapters, set ${_VARIABLE}.",
        code="unknown-adapter",
    )


def is_path(name: str) -> bool:
    """Return whether an adapter is given as a path."""
    return os.sep in name or name in (".", "..") or name.endswith((".yaml", ".yml"))


def all_adapters() -> Iterator[Adapter | RobustifyError]:
    """Yield each adapter that can be found by name, or the error that makes it unusable."""
    for name in _folders_by_id():
        try:
            yield find_adapter(name)
        except RobustifyError as error:  # noqa: PERF203
            yield error


def require_every() -> list[Adapter]:
    """Return all adapters. Raise `AuthorisationError` if an adapter is unusable or a folder is missing, because the
    sets in it would not be recognized."""
    adapters = list(all_adapters())
    unreadable = [folder for folder in _user_folders() if not os.access(folder, os.R_OK | os.X_OK)]
    broken = [f"{folder!a} is not a readable folder" for folder in unreadable]
    broken += [line for adapter in adapters if isinstance(adapter, RobustifyError) for line in adapter.lines]
    if broken:
        end = "A broken adapter cannot recognize its set. Repair or remove it."
        lines = (f"${_VARIABLE}: {line.rstrip('.')}. {end}" for line in broken)
        raise AuthorisationError(*lines, code="broken-adapter")
    return [adapter for adapter in adapters if isinstance(adapter, Adapter)]


def _folders_by_id() -> dict[str, Path]:
    folders = _adapters_in(shipped("adapters"))
    for folder in _user_folders():
        folders = {**_adapters_in(Path(folder)), **folders}
    return dict(sorted(folders.items()))


def _user_folders() -> list[str]:
    return [folder for folder in os.environ.get(_VARIABLE, "").split(os.pathsep) if folder]


def _adapters_in(folder: Path) -> dict[str, Path]:
    """Map the ID of each adapter in a folder to its path. A folder name may have underscores instead of hyphens."""
    paths = (file.parent for file in sorted(folder.glob(f"*/{FILE}")))
    return {path.name.replace("_", "-"): path for path in paths if re.fullmatch(r"[a-z0-9_-]+", path.name)}
