"""Inputs and outputs of loading: sources and field maps, loaded benchmarks, and their defects.

Settings refuse unknown names, and a Hub dataset without a commit. A defect is a finding about a benchmark, not a fault in
a file. It names an item and a line, and never contains text.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from robustify.base.errors import UsageError
from robustify.base.settings_files import Settings
from robustify.items.item import Item

KeyKind = Literal["auto", "index", "number", "letter", "label", "text"]
"""Form of a key. `index` counts from 0, `number` counts from 1, and `label` is the label in the file."""
_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class FieldMap(Settings):
    """Names of the fields that make up an item. Parts without a name are found by common names.

    `choices` is one field with a list, or a list of fields with one choice each. A dot selects a member of an object
    (`question.stem`). `passage` is a text that several stems share, and it is placed before the stem. An ID, topic, or
    passage set to null is left out. A dump contains only the names that were set, so that it can be read back."""

    id: str | None = None
    stem: str | None = None
    choices: str | tuple[str, ...] | None = None
    key: str | None = None
    key_is: KeyKind = "auto"
    topic: str | None = None
    passage: str | None = None

    @model_serializer(mode="wrap")
    def _as_said(self, dumped: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in dumped(self).items() if name in self.model_fields_set}

    @classmethod
    def of(cls, said: Mapping[str, str]) -> "FieldMap | None":
        """Build a field map from command-line options, or return None if they map no part of an item."""
        tree: dict[str, Any] = {part: column for part, column in said.items() if part in cls.model_fields}
        if "," in tree.get("choices", ""):
            tree["choices"] = tuple(tree["choices"].split(","))
        return cls.model_validate(tree) if tree else None


def said_columns(pairs: Iterable[str], parts: Collection[str]) -> dict[str, str]:
    """Parse `PART=COLUMN` and `PART==VALUE` pairs into a mapping. A value keeps one leading `=`. `choices` may be given
    several times. Raise `UsageError` if a part or form of key is unknown, a part is repeated, or a column is missing."""
    said: dict[str, str] = {}
    for pair in pairs:
        part, _, column = pair.partition("=")
        if part not in parts or not column.strip("= "):
            unknown = "" if part in parts else f"unknown part {part!r}; "
            raise UsageError(
                f"--map {pair}: {unknown}expected PART=COLUMN, with PART one of {', '.join(parts)}"
            )
        if part in said and part != "choices":
            raise UsageError(f"--map {part} is given twice. For several columns, use `--map {part}=A,B`.")
        column = column.lstrip("=") if part == "key_is" else column
        if part == "key_is" and column not in get_args(KeyKind):
            forms = ", ".join(get_args(KeyKind))
            raise UsageError(f"--map key_is={column}: unknown form of key; expected one of {forms}")
        said[part] = f"{said[part]},{column}" if part in said else column
    return said


class Source(Settings):
    """File or Arrow folder of a benchmark, or split of a Hub dataset. `hub: owner/name` needs `revision`, a commit of 40
    digits, because a branch or tag can move. `config`, `split`, or a glob in `files` select a part of the dataset."""

    path: str = ""
    hub: str | None = None
    """Hub dataset, `owner/name`. Its files come from the local Hub cache or are downloaded."""
    revision: str | None = None
    """Commit of the Hub dataset, 40 hexadecimal digits."""
    config: str | None = None
    """Configuration of the Hub dataset, often a subject or a level."""
    split: str | None = None
    """Split of the Hub dataset or of a folder, such as train or test, or sheet of a workbook."""
    files: str | None = None
    """Glob of file names in the Hub dataset, if config and split are not enough."""
    fields: FieldMap | None = None
    topic: str | None = None
    """Topic of all items. If None, topics come from the file."""
    name: str | None = None
    """Name of the benchmark. If None, the file name without its extension."""
    sha256: str | None = None
    """Required SHA-256 digest of the data."""
    skip_bad: bool = False
    """Set aside rows that cannot become items, instead of refusing the file."""

    @model_validator(mode="after")
    def _one_origin(self) -> "Source":
        of_hub = [n for n in ("revision", "config", "files") if getattr(self, n) is not None]
        if self.hub is None and of_hub:
            raise ValueError(
                f"`{of_hub[0]}` is only for Hub datasets. Add `hub: owner/name` or remove `{of_hub[0]}`."
            )
        if self.hub is None and not self.path:
            raise ValueError(
                "the source has neither `path` nor `hub`. Set `path: FILE`, or `hub: owner/name` with a `revision`."
            )
        if self.hub is not None and self.path:
            raise ValueError("both `path` and `hub` are given. Remove one of them.")
        if self.hub is not None and not _REPO.fullmatch(self.hub):
            raise ValueError("hub is not a dataset name; expected `hub: owner/name`")
        if self.hub is not None and not _COMMIT.fullmatch(self.revision or ""):
            fault = "is missing" if self.revision is None else "is not a commit (a branch or tag can move)"
            raise ValueError(
                f"revision {fault}; expected 40 hexadecimal digits. The dataset's page lists its commits under "
                "Files and versions, History."
            )
        return self


@dataclass(frozen=True, slots=True)
class Defect:
    """Defect in a benchmark, such as a repeated choice or a conflicting key.

    Kinds: `repeated_choice` (two choices are the same), `repeated_key_text` (another choice has the text of the key),
    `empty_choice`, `blank_stem` (no visible character), `control_character` (such as NUL, ESC, or a change of text
    direction), `outer_space` (choices differ in the white space at their ends), `repeated_stem` (an earlier item has this
    stem), `conflicting_key` (another item has the same stem and choices, but another key, and each of these items is
    named). `line` counts from 1."""

    kind: str
    line: int
    item: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Row that was set aside because it cannot become an item, with the reason."""

    line: int
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Recognised:
    """How one file was read: its layout, its field map, and the number of rows with each form of key.

    `fields` is empty for a layout with its own field names. `labelled` counts rows whose choices had inline labels ("(A)
    red"), which were removed. `cut` is the separator of choices that came in one cell. `unread` says what of the file was
    left out."""

    file: str
    layout: str
    fields: Mapping[str, object]
    key_forms: Mapping[str, int]
    labelled: int = 0
    cut: str = ""
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Benchmark in memory. `lines[i]` is the line, from 1, on which `items[i]` starts in `files[i]`. For Parquet, Arrow,
    and JSON documents with an outer object, the row number replaces the line."""

    name: str
    layout: str
    items: tuple[Item, ...]
    lines: tuple[int, ...]
    defects: tuple[Defect, ...]
    quarantined: tuple[Quarantined, ...]
    sha256: str
    path: str
    files: tuple[str, ...] = ()
    recognised: tuple[Recognised, ...] = ()
