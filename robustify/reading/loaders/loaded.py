"""Inputs and outputs of loading: sources and field maps, loaded benchmarks, and their defects.

Settings refuse unknown names. A defect is a finding about a benchmark, not a fault in
a file. It names an item and a line, and never contains text.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from robustify.base.errors import Notice, UsageError
from robustify.base.settings_files import Settings
from robustify.items.item import Item
from robustify.reading.columns import PartDecision

SPLITS = frozenset({"test", "dev", "val", "valid", "validation", "train", "eval", "data"})
"""Names of files that are only a split."""
SPLIT_SUFFIX = re.compile(r"_(test|dev|val|validation|train)$")
KeyKind = Literal["auto", "index", "number", "letter", "label", "text"]
"""Form of a key. `index` counts from 0, `number` counts from 1, and `label` is the label in the file."""
UNREVIEWED = "unreviewed"
"""Field with the letters of options that nobody reviewed, in a set that robustify composed."""
NOBODY = "options that nobody reviewed"
"""Part of the note about such items, which exports repeat."""


class FieldMap(Settings):
    """Names of the fields that make up an item. Parts without a name are found by common names.

    `choices` is one field with a list, or a list of fields with one choice each. A dot selects a member of an object
    (`question.stem`). A leading `=` gives all items these choices (`=yes,no,maybe`) or this stem. `passage` is a text that
    several stems share, and it is placed before the stem. Items with the same `group` belong together, as translations do.
    An ID, topic, passage, or group set to null is left out. A dump contains only the names that were set, so that it can
    be read back."""

    id: str | None = None
    stem: str | None = None
    choices: str | tuple[str, ...] | None = None
    key: str | None = None
    key_is: KeyKind = "auto"
    topic: str | None = None
    passage: str | None = None
    group: str | None = None

    @model_serializer(mode="wrap")
    def _as_given(self, dumped: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in dumped(self).items() if name in self.model_fields_set}

    @classmethod
    def from_options(cls, columns: Mapping[str, str]) -> "FieldMap | None":
        """Build a field map from command-line options, or return None if they map no part of an item."""
        tree: dict[str, Any] = {part: column for part, column in columns.items() if part in cls.model_fields}
        if "," in tree.get("choices", "") and not tree["choices"].startswith("="):
            tree["choices"] = tuple(tree["choices"].split(","))
        return cls.model_validate(tree) if tree else None


def mapped_columns(pairs: Iterable[str], parts: Collection[str]) -> dict[str, str]:
    """Parse `PART=COLUMN` and `PART==VALUE` pairs into a mapping. A value keeps one leading `=`. `choices` may be given
    several times. Raise `UsageError` if a part or form of key is unknown, a part is repeated, or a column is missing."""
    columns: dict[str, str] = {}
    for pair in pairs:
        part, _, column = pair.partition("=")
        if part not in parts or not column.strip("= "):
            unknown = "" if part in parts else f"unknown part {part!r}; "
            raise UsageError(
                f"--map {pair}: {unknown}expected PART=COLUMN, with PART one of {', '.join(parts)}",
                code="invalid-map",
            )
        if part in columns and part != "choices":
            raise UsageError(
                f"--map {part} is given twice. For several columns, use `--map {part}=A,B`.",
                code="repeated-map",
            )
        column = column.lstrip("=") if part == "key_is" else column
        if part == "key_is" and column not in get_args(KeyKind):
            forms = ", ".join(get_args(KeyKind))
            raise UsageError(
                f"--map key_is={column}: unknown form of key; expected one of {forms}",
                code="unknown-key-form",
            )
        columns[part] = f"{columns[part]},{column}" if part in columns else column
    return columns


class Source(Settings):
    """File or folder of a benchmark, or the benchmark's name in a harness."""

    path: str = Field(min_length=1)
    split: str | None = None
    """Split of a folder, such as train or test, or sheet of a workbook."""
    fields: FieldMap | None = None
    topic: str | None = None
    """Topic of all items. If None, topics come from the file."""
    name: str | None = None
    """Name of the benchmark. If None, the file name without its extension."""
    sha256: str | None = None
    """Required SHA-256 digest of the data."""
    include_path: tuple[str, ...] = Field(default=(), exclude_if=lambda folders: not folders)
    """Folders with tasks of lm-eval, if `path` is a name."""
    trust_task_code: bool = Field(default=False, exclude_if=lambda trusted: not trusted)
    """Run the code of a task, if `path` is a name."""
    skip_bad: bool = False
    """Set aside rows that cannot become items, instead of refusing the file."""


@dataclass(frozen=True, slots=True)
class Defect:
    """Defect in a benchmark, such as a repeated choice or a conflicting key.

    Kinds: `repeated_choice` (two choices are the same), `repeated_key_text` (another choice has the text of the key),
    `empty_choice`, `blank_stem` (no visible character), `control_character` (such as NUL, ESC, or a change of text
    direction), `outer_space` (choices differ in the white space at their ends), `odd_character` (they differ in
    characters that nobody sees or can distinguish from plain ones), `repeated_stem` (an earlier item has this stem),
    `conflicting_key` (another item has the same stem and choices, but another key, and each of these items is named).
    `line` counts from 1, and `first` is the line of the item that this one repeats or contradicts, or 0."""

    kind: str
    line: int
    item: str
    file: str = ""
    first: int = 0


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Row that was set aside, with the reason why it cannot become an item."""

    line: int
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Recognised:
    """Description of how one file was read: layout, field map, and number of rows with each form of key.

    `fields` is empty for a layout with its own field names. `labelled` counts rows whose choices had inline labels ("(A)
    red"), which were removed. `cut` is the separator of choices that came in one cell. `unread` says what of the file was
    left out, and `decisions` say which rule chose each part. For a set by name, `keyed_by` says what in the harness is its
    key, and `origin` what was loaded."""

    file: str
    layout: str
    fields: Mapping[str, object]
    key_forms: Mapping[str, int]
    labelled: int = 0
    cut: str = ""
    unread: tuple[Notice, ...] = ()
    decisions: tuple[PartDecision, ...] = ()
    keyed_by: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """Document of a harness's task, which identifies the rows of the task's logs, whatever the columns are called.

    It has the digest of its content, its number in the task, and its target, at the `line` of the set's rows."""

    line: int
    digest: str
    number: str
    target: str

    @classmethod
    def from_row(cls, line: int, row: Mapping[str, Any]) -> "TaskDocument":
        """Return the document in a row of lm-eval."""
        return cls(line, _digest(row.get("doc")), str(row.get("doc_id")), str(row.get("target")))

    @property
    def place(self) -> tuple[str, str]:
        """Number and target of the document, which identify it in logs of other formats."""
        return self.number, self.target


def _digest(document: object) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Benchmark in memory. `lines[i]` is the line, from 1, on which `items[i]` starts in `files[i]`. For Parquet,
    Arrow, and JSON documents without a list of items, the row number replaces the line. `documents` are the documents
    of lm-eval tasks, with their items."""

    name: str
    layout: str
    items: Sequence[Item]
    lines: Sequence[int]
    defects: tuple[Defect, ...]
    quarantined: tuple[Quarantined, ...]
    sha256: str
    path: str
    files: tuple[str, ...] = ()
    recognised: tuple[Recognised, ...] = ()
    documents: tuple[tuple[TaskDocument, Item | None], ...] = ()
