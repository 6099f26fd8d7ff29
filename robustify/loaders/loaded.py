"""What loading takes and what it gives.

It takes what a user says about a benchmark: where it lies and, if need be, how its fields are called. Settings only: an
unknown name is refused, and so is a Hub dataset without a commit. It gives items, the place each came from, what was
found wrong with the benchmark, and its counts. A defect is a finding about a benchmark, not a fault of a file: it names
an item and a line, never a text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from robustify.item import Item, folded, unspaced

KeyKind = Literal["auto", "index", "number", "letter", "label", "text"]
"""How a key names its choice: `index` counts from 0, `number` from 1, `label` is the choice's own label."""


class FieldMap(BaseModel):
    """The names of the fields that make an item. What is left out is recognised by its usual names.

    `choices` is one field that holds a list, or a list of fields that hold one choice each. A dot steps into
    an object (`question.stem`). `passage` is a text that several stems share; it is put before the stem.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str | None = None
    stem: str | None = None
    choices: str | tuple[str, ...] | None = None
    key: str | None = None
    key_is: KeyKind = "auto"
    topic: str | None = None
    passage: str | None = None


_REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Source(BaseModel):
    """One file (or Arrow folder) of a benchmark, or one split of a Hub dataset.

    `path` is resolved by the caller. `hub: owner/name` needs `revision`, the 40 digits of a commit, because a
    branch or tag can move; `config`, `split` or a glob of `files` say which part of the repository is meant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

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
    layout: str | None = None
    """None: recognised by content."""
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
    def _one_place(self) -> "Source":
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


FEWEST_FOR_NOTE = 20


@dataclass(frozen=True, slots=True)
class Defect:
    """Something real sets have and a screen must know of.

    Kinds: `repeated_choice` (two choices are the same), `repeated_key_text` (another choice has the key's
    text), `empty_choice`, `repeated_stem` (an earlier item has this stem). `line` counts from 1.
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

    `fields` is empty for a layout whose field names are its own.
    """

    file: str
    layout: str
    fields: Mapping[str, object]
    key_forms: Mapping[str, int]


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


def find_defects(items: Sequence[Item], lines: Sequence[int], files: Sequence[str]) -> tuple[Defect, ...]:
    """All defects, in the order of the items.

    Choices are the same when they differ in white space alone (in genetics and logic, case tells choices
    apart); stems also when they differ in case.
    """
    seen: set[str] = set()
    defects: list[Defect] = []
    for item, line, file in zip(items, lines, files, strict=True):
        defects += [Defect(kind, line, item.id, file) for kind in _kinds(item)]
        stem = folded(item.stem)
        if stem in seen:
            defects.append(Defect("repeated_stem", line, item.id, file))
        seen.add(stem)
    return tuple(defects)


def _kinds(item: Item) -> Iterator[str]:
    texts = [unspaced(choice) for choice in item.choices]
    if len(set(texts)) < len(texts):
        yield "repeated_choice"
    if texts.count(texts[item.key]) > 1:
        yield "repeated_key_text"
    if "" in texts:
        yield "empty_choice"


def describe(loaded: Loaded) -> dict[str, object]:
    """The benchmark in counts, as a JSON-able object: numbers, ids and lines, never a text.

    Keys: `name`, `layout`, `sha256`, `n_items`, `n_quarantined`, `option_counts` {number of choices: items},
    `key_positions` {index from 0: items}, `chance_accuracy` (mean of 1/k), `topics` {topic: items}, `defects`
    {kind: {n, at: [{line, item, file}]}}, `quarantined` [{line, reason, file}], `notes` [sentence].
    """
    items = loaded.items
    return {
        "name": loaded.name,
        "layout": loaded.layout,
        "sha256": loaded.sha256,
        "n_items": len(items),
        "n_quarantined": len(loaded.quarantined),
        "option_counts": _counts(item.k for item in items),
        "key_positions": _counts(item.key for item in items),
        "chance_accuracy": fsum(1 / item.k for item in items) / len(items) if items else None,
        "topics": dict(sorted(Counter(item.topic for item in items).items())),
        "defects": {
            kind: _defects(loaded.defects, kind) for kind in sorted({d.kind for d in loaded.defects})
        },
        "quarantined": [{"line": q.line, "reason": q.reason, "file": q.file} for q in loaded.quarantined],
        "notes": _notes(items),
    }


def _counts(numbers: Iterable[int]) -> dict[str, int]:
    return {str(number): n for number, n in sorted(Counter(numbers).items())}


def _defects(defects: Iterable[Defect], kind: str) -> dict[str, object]:
    at = [{"line": d.line, "item": d.item, "file": d.file} for d in defects if d.kind == kind]
    return {"n": len(at), "at": at}


def _notes(items: Sequence[Item]) -> list[str]:
    positions = {item.key for item in items}
    if len(items) < FEWEST_FOR_NOTE or len(positions) != 1:
        return []
    return [
        f"every key is at position {positions.pop()}: position heuristics mean nothing on this order of the "
        "choices, and a screen that keeps this order would see the key's place"
    ]
