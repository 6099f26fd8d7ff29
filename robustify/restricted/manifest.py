"""An adapter's manifest: what a set is, where its files lie below the user's own folder, and who may see its text.

Settings without content. Everything unknown is refused, `sensitivity` has no default, and nothing here reads data.
"""

import json
import re
from datetime import date
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from robustify.errors import AuthorisationError, UsageError
from robustify.files import read_expected
from robustify.loaders import FieldMap, Source
from robustify.settings_files import MOST_BYTES, MOST_YAML, faults, read_yaml

FORMAT: Literal["robustify.adapter/1"] = "robustify.adapter/1"
FILE = "manifest.yaml"
LICENCE = "licence.txt"
FEWEST_IN_A_CELL = 5
ID = re.compile(r"[a-z0-9][a-z0-9-]{1,39}")

Sensitivity = Literal["public", "restricted"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


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


class Licence(BaseModel):
    """The terms. `sha256` is that of `licence.txt` beside the manifest, which the user accepts."""

    model_config = _STRICT

    name: str = Field(min_length=1, max_length=100)
    url: str | None = None
    sha256: Digest


class DataFile(BaseModel):
    """One file below the root; `sha256` and `records` pin it, null where they are not known."""

    model_config = _STRICT

    path: Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_below)]
    sha256: Digest | None = None
    records: int | None = Field(default=None, ge=1)
    topic: str | None = None


class Data(BaseModel):
    """`root_env` names the environment variable that holds the user's folder; a public set may leave it null:
    the data that ship with the package. `skip_bad` sets rows aside that cannot be items.
    """

    model_config = _STRICT

    root_env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")] | None
    files: Annotated[tuple[DataFile, ...], Field(min_length=1)]
    layout: str | None = None
    skip_bad: bool = False


class Attestation(BaseModel):
    """Somebody's word that a file which looks sensitive is not, bound to the digest of its content."""

    model_config = _STRICT

    by: str = Field(min_length=1, max_length=100)
    date: date
    reason: str = Field(min_length=10, max_length=500)
    content_sha256: Digest


class Attest(BaseModel):
    """What somebody vouches for."""

    model_config = _STRICT

    not_sensitive: Attestation | None = None


class Manifest(BaseModel):
    """`manifest.yaml` of an adapter."""

    model_config = _STRICT

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
                layout=self.data.layout,
                fields=self.fields,
                name=self.id,
                skip_bad=self.data.skip_bad,
            )
            for file in self.data.files
        )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the adapter in a folder.

    Raises:
        UsageError: no manifest, no plain YAML, unknown keys or wrong values (all of them), or another id than
            the folder's name.
        AuthorisationError: a restricted set with cells smaller than the floor.
    """
    return read_pinned(folder)[0]


def read_pinned(folder: Path) -> tuple[Manifest, str]:
    """The manifest and the sha256 of the very bytes that were read. Raises as `read_manifest`."""
    what = f"the manifest of an adapter ({FORMAT})"
    raw = read_expected(folder / FILE, what, MOST_YAML)
    tree = read_yaml(raw, FILE, what)
    if not isinstance(tree, dict):
        raise UsageError(f"{FILE}: a {type(tree).__name__}; expected keys and values")
    try:
        manifest = Manifest.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        lines = faults(error, Manifest, "manifest")
        raise UsageError(*(f"{folder.name}/{FILE}: {line}" for line in lines)) from None
    if manifest.id != folder.resolve().name.replace("_", "-"):
        raise UsageError(f"{folder.name}/{FILE}: id is {manifest.id}; expected the name of its folder")
    if manifest.restricted and manifest.min_cell < FEWEST_IN_A_CELL:
        raise AuthorisationError(
            f"{manifest.id}: min_cell {manifest.min_cell} on a restricted set; expected {FEWEST_IN_A_CELL} or more"
        )
    return manifest, sha256(raw).hexdigest()


def licence_text(folder: Path, manifest: Manifest) -> str:
    """The terms beside the manifest.
    Raises `UsageError`: no regular file of UTF-8 text, or not the text that the manifest pins."""
    raw = read_expected(folder / LICENCE, "the terms of the set as UTF-8 text", MOST_BYTES)
    digest = sha256(raw).hexdigest()
    if digest != manifest.licence.sha256:
        raise UsageError(
            f"{manifest.id}/{LICENCE}: sha256 is {digest}; expected {manifest.licence.sha256}, as the manifest pins it"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{manifest.id}/{LICENCE}: is no UTF-8 text") from None
