"""What loading takes and what it gives.

It takes what a user says about a benchmark: where it lies and, if need be, how its fields are called. Settings only: an
unknown name is refused, and so is a Hub dataset without a commit. It gives items, where each came from, what was
found wrong with the benchmark. A defect is a finding about a benchmark, not a fault of a file: it names
an item and a line, never a text.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from robustify.errors import UsageError
from robustify.item import Item
from robustify.settings_files import Settings

KeyKind = Literal["auto", "index", "number", "letter", "label", "text"]
"""How a key names its choice: `index` counts from 0, `number` from 1, `label` is the choice's own label."""


class FieldMap(Settings):
    """The names of the fields that make an item. What is left out is recognised by its usual names.

    `choices` is one field that holds a list, or a list of fields that hold one choice each. A dot steps into
    an object (`question.stem`). `passage` is a text that several stems share; it is put before the stem. An id, a topic
    or a passage that is said to be null is left out; a dump holds what was said alone, so that it says the same again.
    """

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
        """Return the map of the columns that a command line names; None if it names no part of an item."""
        tree: dict[str, Any] = {part: column for part, column in said.items() if part in cls.model_fields}
        if "," in tree.get("choices", ""):
            tree["choices"] = tuple(tree["choices"].split(","))
        return cls.model_validate(tree) if tree else None


def said_columns(pairs: Iterable[str], parts: Collection[str]) -> dict[str, str]:
    """Return `PART=COLUMN` or `PART==VALUE` as a mapping; a value keeps one `=` before it. Choices may be said one by one.
    Raises `UsageError`: no such part or kind of key, a part that is said twice, or no column."""
    said: dict[str, str] = {}
    for pair in pairs:
        part, _, column = pair.partition("=")
        if part not in parts or not column.strip("= "):
            unknown = "" if part in parts else f"no part is called {part!r}; "
            raise UsageError(f"--map {pair}: {unknown}expected PART=COLUMN, PART one of {', '.join(parts)}")
        if part in said and part != "choices":
            raise UsageError(f"--map {part}: is said twice; expected once (several columns: {part}=A,B)")
        said[part] = f"{said[part]},{column}" if part in said else column
    if "key_is" in said:
        said["key_is"] = said["key_is"].lstrip("=")
        if said["key_is"] not in get_args(KeyKind):
            raise UsageError(f"--map key_is={said['key_is']}: expected one of {', '.join(get_args(KeyKind))}")
    return said


_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Source(Settings):
    """A file (or Arrow folder) of a benchmark, or a split of a Hub dataset.

    `hub: owner/name` needs `revision`, the 40 digits of a commit: a branch or tag can move. `config`, `split` or a
    glob of `files` say which part of the dataset is meant.
    """

    path: str = ""
    hub: str | None = None
    """A dataset of the Hub, `owner/name`; its files are taken from the local hub cache or fetched."""
    revision: str | None = None
    """Of a Hub dataset: the commit, 40 hexadecimal digits."""
    config: str | None = None
    """Of a Hub dataset: its configuration (often a subject or a level)."""
    split: str | None = None
    """Of a Hub dataset: train, validation, test ..."""
    files: str | None = None
    """Of a Hub dataset: a glob of file names, where config and split do not say it."""
    fields: FieldMap | None = None
    topic: str | None = None
    """One topic for the whole file; None: the file's own."""
    name: str | None = None
    """The benchmark's name; None: the stem of the file's name."""
    sha256: str | None = None
    """The digest the data must have."""
    skip_bad: bool = False
    """Set rows aside that cannot be items, instead of refusing the file."""

    @model_validator(mode="after")
    def _one_origin(self) -> "Source":
        if self.hub is None:
            given = [n for n in ("revision", "config", "split", "files") if getattr(self, n) is not None]
            if given:
                raise ValueError(f"{given[0]} is of a Hub dataset only; expected `hub: owner/name` beside it")
            if not self.path:
                raise ValueError(
                    "names no data; expected `path: FILE` or `hub: owner/name` with a `revision`"
                )
            return self
        if self.path:
            raise ValueError("both `path` and `hub` are given; expected one of them")
        if not _REPO.fullmatch(self.hub):
            raise ValueError("hub is no dataset's name; expected `hub: owner/name`")
        if self.revision is None or not _COMMIT.fullmatch(self.revision):
            fault = "is missing" if self.revision is None else "is no commit (a branch or a tag can move)"
            raise ValueError(
                f"revision {fault}; expected 40 hexadecimal digits: the commit that the dataset's page shows "
                "under Files and versions, History"
            )
        return self


@dataclass(frozen=True, slots=True)
class Defect:
    """Something real sets have and a screen must know of.

    Kinds: `repeated_choice` (two choices are the same), `repeated_key_text` (another choice has the key's
    text), `empty_choice`, `blank_stem` (nothing shows), `control_character` (NUL, ESC, a turn of direction ...),
    `repeated_stem` (an earlier item has this stem), `conflicting_key` (another item asks the same with the same choices
    and has another key; each of them is named). `line` counts from 1.
    """

    kind: str
    line: int
    item: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row set aside because it cannot be an item, and why."""

    line: int
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Recognised:
    """How one file was read: its layout, which field is which, and how its keys are written {form: rows}.

    `fields` is empty for a layout whose field names are its own. `labelled`: rows whose choices had labels of their own
    ("(A) red"), which were taken off. `cut`: what separates choices that came in one cell.
    """

    file: str
    layout: str
    fields: Mapping[str, object]
    key_forms: Mapping[str, int]
    labelled: int = 0
    cut: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A benchmark in memory. `lines[i]` is where `items[i]` starts in its own file (`files[i]`), from 1.

    For Parquet, Arrow and JSON documents with an outer object the row number stands for the line.
    """

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
