"""What loading gives: items, the place each came from, and what was found wrong with the benchmark.

A defect is a finding about a benchmark, not a fault of a file: it names an item and a line, never a text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from robustify.item import Item, folded


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
    found: list[Defect] = []
    for item, line, file in zip(items, lines, files, strict=True):
        found += [Defect(kind, line, item.id, file) for kind in _kinds(item)]
        stem = folded(item.stem)
        if stem in seen:
            found.append(Defect("repeated_stem", line, item.id, file))
        seen.add(stem)
    return tuple(found)


def _kinds(item: Item) -> Iterator[str]:
    texts = [" ".join(normalize("NFC", choice).split()) for choice in item.choices]
    if len(set(texts)) < len(texts):
        yield "repeated_choice"
    if texts.count(texts[item.key]) > 1:
        yield "repeated_key_text"
    if "" in texts:
        yield "empty_choice"
