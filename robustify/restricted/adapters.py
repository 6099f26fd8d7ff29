"""An adapter: its manifest, which says what a set is, where its files lie below the user's own folder and who may see its
text; and where adapters are found: those that ship with the package, those in the user's folders, or one by its path.

Settings without content. Everything unknown is refused, `sensitivity` has no default, and nothing here reads data. A
shipped name cannot be taken by another folder, so that no label is lowered, no host let in and no acceptance taken over
by a copy.
"""

import difflib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from robustify.errors import AuthorisationError, RobustifyError, UsageError
from robustify.files import read_expected
from robustify.loaders import FieldMap, Source
from robustify.settings_files import MOST_BYTES, MOST_YAML, Settings, faults, read_yaml, shipped

FILE = "manifest.yaml"
LICENCE = "licence.txt"
FEWEST_IN_A_CELL = 5
ID = re.compile(r"[a-z0-9][a-z0-9-]{1,39}")

Sensitivity = Literal["public", "restricted"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _below(path: str) -> str:
    parts = PurePosixPath(path).parts
    bare = path.isprintable() and "\\" not in path and not path.startswith("~")
    if not parts or not bare or PurePosixPath(path).is_absolute() or ".." in parts:
        raise ValueError("leaves the data folder; expected a path below it, without `..`")
    return path


def _host(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise ValueError("no host; expected a name in small letters, without an address and a port")
    return name


class _Part(Settings):
    model_config = ConfigDict(strict=True)


class Licence(_Part):
    """The terms. `sha256` is that of `licence.txt` beside the manifest, which the user accepts."""

    name: str = Field(min_length=1, max_length=100)
    url: str | None = None
    sha256: Digest


class DataFile(_Part):
    """One file below the root; `sha256` and `records` pin it, null where they are not known."""

    path: Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_below)]
    sha256: Digest | None = None
    records: int | None = Field(default=None, ge=1)
    topic: str | None = None


class Data(_Part):
    """`root_env` names the environment variable that holds the user's folder; a public set may leave it null:
    the data that ship with the package. `skip_bad` sets rows aside that cannot be items.
    """

    root_env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")] | None
    files: Annotated[tuple[DataFile, ...], Field(min_length=1)]
    skip_bad: bool = False


class Attestation(_Part):
    """Somebody's word that a file which looks sensitive is not, bound to the digest of its content."""

    by: str = Field(min_length=1, max_length=100)
    date: date
    reason: str = Field(min_length=10, max_length=500)
    content_sha256: Digest


class Attest(_Part):
    """What somebody vouches for."""

    not_sensitive: Attestation | None = None


class Manifest(_Part):
    """`manifest.yaml` of an adapter."""

    format: Literal["robustify.adapter/1"]
    id: Annotated[str, Field(pattern=rf"^{ID.pattern}$")]
    version: str = Field(default="1", min_length=1, max_length=40)
    title: str = Field(min_length=1, max_length=200)
    sensitivity: Sensitivity
    licence: Licence
    data: Data
    fields: FieldMap | None = None
    canary_sha256: tuple[Digest, ...] = ()
    names: tuple[str, ...] = ()
    """Other names of the set, by which a file of it is recognised."""
    columns: tuple[str, ...] = ()
    """Names of columns that together mark a file of the set; none where they are everybody's."""
    egress: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    min_cell: int = Field(default=10, ge=1, le=1000)
    attest: Attest = Attest()

    @model_validator(mode="after")
    def _consistent(self) -> "Manifest":
        if self.sensitivity == "restricted" and self.attest.not_sensitive is not None:
            raise ValueError("attest.not_sensitive on a restricted set; expected one or the other")
        if len(self.columns) == 1:
            raise ValueError("columns: one name marks nothing; expected two or more, or none")
        if self.sensitivity == "restricted" and self.data.root_env is None:
            raise ValueError("data.root_env: null on a restricted set; expected the variable of your folder")
        return self

    @property
    def restricted(self) -> bool:
        """Whether the set is restricted."""
        return self.sensitivity == "restricted"

    def sources(self, root: Path) -> tuple[Source, ...]:
        """The files as the loaders take them, with their pins."""
        return tuple(
            Source(
                path=str(root / file.path),
                sha256=file.sha256,
                topic=file.topic,
                fields=self.fields,
                name=self.id,
                skip_bad=self.data.skip_bad,
            )
            for file in self.data.files
        )


VARIABLE = "ROBUSTIFY_ADAPTERS"


@dataclass(frozen=True, slots=True)
class Adapter:
    """One set's entrance: its folder, what its manifest says, and the digest of the file that says it."""

    folder: Path
    manifest: Manifest
    sha256: str

    @property
    def licence(self) -> str:
        """The text of its terms.
        Raises `UsageError`: no regular file of UTF-8 text, or not the text that the manifest pins."""
        name, pinned = f"{self.manifest.id}/{LICENCE}", self.manifest.licence.sha256
        raw = read_expected(self.folder / LICENCE, "the terms of the set as UTF-8 text", MOST_BYTES)
        digest = sha256(raw).hexdigest()
        if digest != pinned:
            raise UsageError(f"{name}: sha256 is {digest}; expected {pinned}, as the manifest pins it")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{name}: is no UTF-8 text") from None


def find_adapter(name: str) -> Adapter:
    """Return the adapter of this name or path (its folder, or the manifest in it).

    Raises:
        UsageError: there is none; the known names are listed, with the nearest as a suggestion. Or its manifest is no
            plain YAML, has unknown keys or wrong values (all of them), or another id than the folder's name.
        AuthorisationError: it carries the id of an adapter that ships with the package, and is not that one; or it is
            of a restricted set with cells smaller than the floor.
    """
    folder = place(name)
    adapter = _read(folder)
    known, own = adapter.manifest, _in(shipped("adapters")).get(adapter.manifest.id)
    if known.id != folder.resolve().name.replace("_", "-"):
        raise UsageError(f"{folder.name}/{FILE}: id is {known.id}; expected the name of its folder")
    if known.restricted and known.min_cell < FEWEST_IN_A_CELL:
        raise AuthorisationError(
            f"{known.id}: min_cell {known.min_cell} on a restricted set; expected {FEWEST_IN_A_CELL} or more"
        )
    if own is not None and own.resolve() != folder.resolve():
        # A copy could name other hosts, smaller cells or a lower label, and take over what was accepted.
        raise AuthorisationError(
            f"{known.id}: is the id of an adapter that ships with robustify, and this manifest lies elsewhere; "
            f"expected `adapter: {known.id}` (the shipped one), or a folder and an id of its own"
        )
    return adapter


def _read(folder: Path) -> Adapter:
    """Return the adapter in a folder, with the sha256 of the very bytes that were read."""
    what = "the manifest of an adapter (robustify.adapter/1)"
    raw = read_expected(folder / FILE, what, MOST_YAML)
    tree = read_yaml(raw, FILE, what)
    if not isinstance(tree, dict):
        raise UsageError(f"{FILE}: a {type(tree).__name__}; expected keys and values")
    try:
        return Adapter(folder, Manifest.model_validate_json(json.dumps(tree)), sha256(raw).hexdigest())
    except ValidationError as error:
        lines = faults(error, Manifest, "manifest")
        raise UsageError(*(f"{folder.name}/{FILE}: {line}" for line in lines)) from None


def unplaced(adapter: Adapter) -> tuple[Source, ...]:
    """The files of a set: of a public one where they lie, of a restricted one by their paths below the root, which only
    `access` puts together. Raises `UsageError`: the folder of a public set is not known."""
    manifest = adapter.manifest
    if manifest.restricted:
        return manifest.sources(Path())
    if manifest.data.root_env is None:
        return manifest.sources(shipped() / "data")
    root = os.environ.get(manifest.data.root_env)
    if not root:
        raise UsageError(f"{manifest.id}: ${manifest.data.root_env} is not set; expected the data's folder")
    return manifest.sources(Path(root).expanduser().absolute())


def place(name: str) -> Path:
    """The folder of the adapter of this name or path."""
    if is_path(name):
        path = Path(name).expanduser()
        folder = path.parent if path.name == FILE else path
        if not folder.is_dir():
            raise UsageError(f"adapter {name!a}: no such folder; expected one that holds a {FILE}")
        return folder
    known = _named()
    if name.replace("_", "-") in known:
        return known[name.replace("_", "-")]
    near = difflib.get_close_matches(name, known, n=1)
    raise UsageError(
        f"adapter {name!a}: not known{f' (did you mean {near[0]}?)' if near else ''}; expected a folder or one of "
        f"{', '.join(known)} (your own: ${VARIABLE})"
    )


def is_path(name: str) -> bool:
    """Whether a name is written as a path."""
    return os.sep in name or name in (".", "..") or name.endswith((".yaml", ".yml"))


def all_adapters() -> Iterator[Adapter | RobustifyError]:
    """All adapters that can be found by name, or why one of them cannot be used."""
    for name in _named():
        try:
            yield find_adapter(name)
        except RobustifyError as error:  # noqa: PERF203
            yield error


def require_every() -> list[Adapter]:
    """All of them, for recognition: a set whose manifest cannot be read is not recognised.
    Raises `AuthorisationError`: why one of them cannot be used, or a folder of adapters that is not there."""
    found = list(all_adapters())
    broken = [line for one in found if isinstance(one, RobustifyError) for line in one.lines]
    gone = [
        f"{folder!a}: no folder that can be read"
        for folder in _own()
        if not os.access(folder, os.R_OK | os.X_OK)
    ]
    if broken or gone:
        raise AuthorisationError(
            *(f"${VARIABLE}: {line}; the set of a broken adapter is not recognised: mend it or take it out"
              for line in (*gone, *broken))
        )  # fmt: skip
    return [one for one in found if isinstance(one, Adapter)]


def _named() -> dict[str, Path]:
    found = _in(shipped("adapters"))
    for folder in _own():
        found = {**_in(Path(folder)), **found}
    return dict(sorted(found.items()))


def _own() -> list[str]:
    return [folder for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]


def _in(folder: Path) -> dict[str, Path]:
    """The adapters in a folder by id; a folder may write its name with underscores."""
    folders = (path.parent for path in sorted(folder.glob(f"*/{FILE}")))
    return {
        place.name.replace("_", "-"): place for place in folders if re.fullmatch(r"[a-z0-9_-]+", place.name)
    }
