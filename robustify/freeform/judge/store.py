"""The templates: a built-in pack, and folders that the user names.

A released template is immutable: it is refused unless its bytes have the sha256 of its manifest. The ids of a folder
begin with its name, so that none can replace a built-in one.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from robustify.errors import DataError, UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_ID = re.compile(r"(?:[a-z][a-z0-9_-]*:)?[a-z][a-z0-9_]*/[a-z][a-z0-9_]*@\d{1,3}\.\d{1,3}")
_LISTS = ("files", "variables", "optional", "formats")
_NEEDED = ("id", "files", "sha256", "variables", "reads", "changelog")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One version of one prompt: where its text is, what it needs, and how the reply to it is read.

    `reads` is "text" (an answer), "score", "verdict" or "labels"; `label_set` and `scale` say of what.
    `sha256` is that of all its files, so that a changed one is another template.
    """

    id: str
    root: "Traversable"
    files: tuple[str, ...]
    sha256: str
    variables: tuple[str, ...]
    optional: tuple[str, ...]
    reads: str
    label_set: str | None
    scale: str | None
    formats: tuple[str, ...]
    changelog: str
    source: str

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.partition("@")[0]

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor."""
        major, minor = self.id.partition("@")[2].split(".")
        return int(major), int(minor)

    def languages(self) -> tuple[str, ...]:
        """English, and the languages that it has a text of its own for."""
        stem = self.files[0].removesuffix("j2")
        own = [f.removeprefix(stem).removesuffix(".j2") for f in self.files[1:] if f.startswith(stem)]
        return ("en", *sorted(own))

    @property
    def own_format(self) -> str:
        """The format of labels that it asks for where none is named."""
        return "json" if "json" in self.formats else next(iter(self.formats), "json")

    def file(self, language: str) -> str:
        """Its text in a language, else the English one."""
        own = f"{self.files[0].removesuffix('.j2')}.{language}.j2"
        return own if own in self.files else self.files[0]

    def found_sha256(self) -> str:
        """The sha256 of its files as they are now.

        Raises:
            DataError: one of them is missing.
        """
        texts = (pack_text(self.root, name) for name in self.files)
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class TemplateStore:
    """Templates by id. A name without a version is its newest version."""

    __slots__ = ("_templates",)

    def __init__(self, templates: Iterable[PromptTemplate]) -> None:
        self._templates = {t.id: t for t in templates}

    def __iter__(self) -> Iterator[PromptTemplate]:
        return iter(sorted(self._templates.values(), key=lambda t: (t.name, t.version)))

    def get(self, template_id: str) -> PromptTemplate:
        """The template of this id; a name alone means its newest version.

        Raises:
            UsageError: there is none.
            DataError: its files are not those that were released.
        """
        found = self._templates.get(template_id)
        if found is None:
            versions = [t for t in self._templates.values() if t.name == template_id]
            found = max(versions, key=lambda t: t.version, default=None)
        if found is None:
            known = ", ".join(sorted({t.name for t in self._templates.values()}))
            raise UsageError(f"template {template_id!r}: unknown; expected one of {known}, perhaps @VERSION")
        if found.found_sha256() != found.sha256:
            raise DataError(
                f"template {found.id}: changed since its release; restore it, or make a new version"
            )
        return found


def pack_text(root: "Traversable", name: str) -> str:
    """A file of a pack.

    Raises:
        DataError: it is missing, or its name leads out of the pack.
    """
    if name.startswith("/") or ".." in name.split("/"):
        raise DataError(f"{name}: leads out of its pack; expected a file inside")
    place = root
    for part in name.split("/"):
        place = place / part
    try:
        return place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{name}: missing or no UTF-8 text; expected the file of a template") from None


@cache
def get_store(extra_dirs: tuple[Path, ...] = ()) -> TemplateStore:
    """The built-in templates, and those of these folders.

    Raises:
        DataError: a folder that was named and cannot be read.
    """
    own = [template for folder in extra_dirs for template in read_pack(folder, f"{folder.name}:")]
    return TemplateStore([*read_pack(files("robustify.freeform") / "templates", ""), *own])


def read_pack(root: "Traversable", prefix: str) -> list[PromptTemplate]:
    """The templates of a folder with a `manifest.yaml`; their ids begin with the prefix.

    Raises:
        DataError: no manifest, or one that does not fit; all faults at once.
    """
    try:
        rows = yaml.safe_load((root / "manifest.yaml").read_text(encoding="utf-8"))["templates"]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError):
        raise DataError(f"{prefix or 'built-in '}manifest.yaml: missing or without `templates`") from None
    faults = [fault for row in rows for fault in _faults(row, prefix)]
    if faults:
        raise DataError(*faults)
    return [_template(row, root, prefix) for row in rows]


def _faults(row: Any, prefix: str) -> list[str]:
    if not isinstance(row, dict):
        return [f"{prefix}manifest.yaml: an entry that is no mapping"]
    missing = [name for name in _NEEDED if name not in row]
    if missing:
        return [f"{prefix}{row.get('id', '?')}: {', '.join(missing)} missing in manifest.yaml"]
    if not _ID.fullmatch(prefix + str(row["id"])):
        return [f"{prefix}{row['id']}: no id; expected family/name@major.minor"]
    return []


def _template(row: Mapping[str, Any], root: "Traversable", prefix: str) -> PromptTemplate:
    fields: dict[str, Any] = {name: tuple(map(str, row.get(name) or ())) for name in _LISTS}
    fields |= {name: str(row.get(name) or "") for name in ("sha256", "reads", "changelog", "source")}
    fields |= {name: row.get(name) for name in ("label_set", "scale")}
    return PromptTemplate(id=prefix + str(row["id"]), root=root, **fields)
