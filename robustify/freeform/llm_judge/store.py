"""The templates: a built-in pack, and folders that the user names.

A released template is immutable: it is refused unless its bytes have the sha256 of its manifest. The ids of a folder
begin with its name, so that none can replace a built-in one.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field, ValidationError

from robustify.errors import DataError, UsageError
from robustify.settings_files import Settings

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_ID = r"^(?:[a-z][a-z0-9_-]*:)?[a-z][a-z0-9_]*/[a-z][a-z0-9_]*@\d{1,3}\.\d{1,3}$"


class PromptTemplate(Settings):
    """One version of one prompt: where its text is, what it needs, and how the reply to it is read.

    `reads` is "text" (an answer), "score", "verdict", or "labels"; `scale` says of what.
    `sha256` is that of all its files, so that a changed one is another template.
    """

    id: str = Field(pattern=_ID)
    root: Any
    files: tuple[str, ...] = Field(min_length=1)
    sha256: str
    variables: tuple[str, ...]
    optional: tuple[str, ...] = ()
    reads: str
    scale: str | None = None
    formats: tuple[str, ...] = ()
    changelog: str
    source: str = ""

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.partition("@")[0]

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor."""
        major, minor = self.id.partition("@")[2].split(".")
        return int(major), int(minor)

    @property
    def own_format(self) -> str:
        """The format of labels that it asks for where none is named."""
        return "json" if "json" in self.formats else next(iter(self.formats), "json")

    def file(self, language: str) -> str:
        """Its text in a language, else the English one."""
        own = f"{self.files[0].removesuffix('.j2')}.{language}.j2"
        return own if own in self.files else self.files[0]

    def found_sha256(self) -> str:
        """Return the sha256 of its files as they are now."""
        texts = (pack_text(self.root, name) for name in self.files)
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class TemplateStore:
    """Templates in the order of their names and versions. A name without a version is its newest version."""

    def __init__(self, templates: Iterable[PromptTemplate]) -> None:
        self._templates = sorted(templates, key=lambda t: (t.name, t.version))

    def __iter__(self) -> Iterator[PromptTemplate]:
        return iter(self._templates)

    def get(self, template_id: str) -> PromptTemplate:
        """Return the template of this id; a name alone means its newest version.

        Raises:
            UsageError: there is none.
            DataError: its files are not those that were released.
        """
        found = [t for t in self if template_id in (t.id, t.name)]
        if not found:
            known = ", ".join(sorted({t.name for t in self}))
            raise UsageError(f"template {template_id!r}: unknown; expected one of {known}, perhaps @VERSION")
        if found[-1].found_sha256() != found[-1].sha256:
            raise DataError(
                f"template {found[-1].id}: changed since its release; restore it, or make a new version"
            )
        return found[-1]


def pack_text(root: "Traversable", name: str) -> str:
    """Return a file of a pack; raise `DataError` if it is missing, or its name leads out of the pack."""
    if name.startswith("/") or ".." in name.split("/"):
        raise DataError(f"{name}: leads out of its pack; expected a file inside")
    try:
        return root.joinpath(*name.split("/")).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{name}: missing or not UTF-8 text; expected the file of a template") from None


@cache
def get_store(extra_dirs: tuple[Path, ...] = ()) -> TemplateStore:
    """Return the built-in templates and those of these folders; raise `DataError` if a folder cannot be read."""
    own = [template for folder in extra_dirs for template in read_pack(folder, f"{folder.name}:")]
    return TemplateStore([*read_pack(files("robustify.freeform") / "templates", ""), *own])


def read_pack(root: "Traversable", prefix: str) -> list[PromptTemplate]:
    """Return the templates of a folder with a `manifest.yaml`; their ids begin with the prefix.

    Raises:
        DataError: no manifest, or one that does not fit.
    """
    try:
        rows = yaml.safe_load((root / "manifest.yaml").read_text(encoding="utf-8"))["templates"]
        made = [{**row, "id": f"{prefix}{row['id']}", "root": root} for row in rows]
        return [PromptTemplate.model_validate(row) for row in made]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, ValidationError):
        expected = "expected family/name@major.minor as id of each"
        raise DataError(f"{prefix or 'built-in '}manifest.yaml: missing or not usable; {expected}") from None
