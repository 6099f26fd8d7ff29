"""Storage of prompt templates: a built-in pack, and folders that the user names.

A released template is immutable. It is rejected if its bytes do not match the SHA-256 in its manifest. Template IDs of
a user's folder begin with the folder's name, so that they cannot replace a built-in template.
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
    """One version of a prompt template: its files, its variables, and how replies are read.

    `reads` is "text" (an answer), "score", "verdict", or "labels". `scale` is the scale of a score. `sha256` covers all
    files, so that a changed template is a different one.
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
        """ID without the version."""
        return self.id.partition("@")[0]

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.id.partition("@")[2].split(".")
        return int(major), int(minor)

    @property
    def own_format(self) -> str:
        """Default label format."""
        return "json" if "json" in self.formats else next(iter(self.formats), "json")

    def file(self, language: str) -> str:
        """Return the file name of the template in a language. The default is English."""
        own = f"{self.files[0].removesuffix('.j2')}.{language}.j2"
        return own if own in self.files else self.files[0]

    def found_sha256(self) -> str:
        """Compute the SHA-256 of the template's current files."""
        texts = (pack_text(self.root, name) for name in self.files)
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class TemplateStore:
    """Collection of templates, sorted by name and version."""

    def __init__(self, templates: Iterable[PromptTemplate]) -> None:
        self._templates = sorted(templates, key=lambda t: (t.name, t.version))

    def __iter__(self) -> Iterator[PromptTemplate]:
        return iter(self._templates)

    def get(self, template_id: str) -> PromptTemplate:
        """Return the template with this ID. A name without a version selects the newest version.

        Raises:
            UsageError: the template is unknown.
            DataError: its files differ from the released ones.
        """
        found = [t for t in self if template_id in (t.id, t.name)]
        if not found:
            known = ", ".join(sorted({t.name for t in self}))
            raise UsageError(f"Unknown template {template_id!r}. Expected one of {known}, or with @VERSION.")
        if found[-1].found_sha256() != found[-1].sha256:
            raise DataError(
                f"template {found[-1].id}: changed since its release. Restore it, or release a new version."
            )
        return found[-1]


def pack_text(root: "Traversable", name: str) -> str:
    """Read a file of a template pack. Raise `DataError` if it is missing or outside the pack."""
    if name.startswith("/") or ".." in name.split("/"):
        raise DataError(f"{name}: is outside its template pack. Move the file into the pack.")
    try:
        return root.joinpath(*name.split("/")).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(
            f"{name}: is missing or not UTF-8 text. Restore the template file and save it as UTF-8."
        ) from None


@cache
def get_store(extra_dirs: tuple[Path, ...] = ()) -> TemplateStore:
    """Load the built-in templates and those of the given folders. Raise `DataError` if a folder cannot be read."""
    own = [template for folder in extra_dirs for template in read_pack(folder, f"{folder.name}:")]
    return TemplateStore([*read_pack(files("robustify.freeform") / "templates", ""), *own])


def read_pack(root: "Traversable", prefix: str) -> list[PromptTemplate]:
    """Read the templates of a folder with a `manifest.yaml`. Their IDs begin with the prefix.

    Raises:
        DataError: the manifest is missing or invalid.
    """
    try:
        rows = yaml.safe_load((root / "manifest.yaml").read_text(encoding="utf-8"))["templates"]
        made = [{**row, "id": f"{prefix}{row['id']}", "root": root} for row in rows]
        return [PromptTemplate.model_validate(row) for row in made]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, ValidationError):
        expected = "Expected a list of templates, each with an ID such as family/name@1.0."
        raise DataError(f"{prefix or 'built-in '}manifest.yaml: is missing or invalid. {expected}") from None
