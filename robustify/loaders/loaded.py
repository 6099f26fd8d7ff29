"""What loading gives: items, the place each came from, what was found wrong with the benchmark, and its counts.

A defect is a finding about a benchmark, not a fault of a file: it names an item and a line, never a text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from robustify.item import Item, folded, unspaced

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
