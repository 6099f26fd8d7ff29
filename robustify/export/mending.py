"""Repair a benchmark automatically: shuffle and trim the options, and replace odd characters with plain ones that look the
same. `lint` lists the problems that need an author.

No other text is rewritten. An item whose options refer to each other keeps its order, because shuffling would change its
meaning.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from robustify.base.errors import DataError, UsageError
from robustify.base.files import QUOTED, move_up, neutral, staging, writable
from robustify.items.item import Item, item_row
from robustify.judging.baselines.near_duplicates import unit_hashes
from robustify.judging.cloze import keeps_order
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import UNREVIEWED, Source, load
from robustify.runs.run import write_lines


@dataclass(frozen=True, slots=True)
class Mended:
    """Mended items, in the order of the file. Their options are shuffled, except at the positions `bound`. `trimmed` counts
    the items whose options lost white space at the ends, and `plain` the items that got plain characters."""

    items: tuple[Item, ...]
    bound: tuple[int, ...]
    trimmed: int = 0
    plain: int = 0


def mended(items: Sequence[Item], seed: int) -> Mended:
    """Order the options of each item by a hash of its text and the seed. Mending the result again changes nothing."""
    trimmed = [item.trimmed() for item in items]
    plain = [item.in_plain_characters() for item in trimmed]
    bound = tuple(i for i, item in enumerate(items) if keeps_order(item))
    free = [i for i in range(len(items)) if i not in bound]
    moved = dict(zip(free, place_keys([plain[i] for i in free], seed), strict=True))
    return Mended(
        items=tuple(moved.get(i, item) for i, item in enumerate(plain)),
        bound=bound,
        trimmed=sum(new.choices != item.choices for new, item in zip(trimmed, items, strict=True)),
        plain=sum(new.choices != item.choices for new, item in zip(plain, trimmed, strict=True)),
    )


def place_keys(items: Sequence[Item], seed: int) -> tuple[Item, ...]:
    """Return the items with their options in an order that depends only on their text and the seed.

    Items with equally many options are ranked by a hash, and the key's place is the rank modulo that number, so that each
    place has equally many keys. The other options follow in the order of their hashes. Placing the result again changes
    nothing.
    """
    item_hashes = unit_hashes([f"{seed}\0{item.stem}\0" + "\0".join(sorted(item.choices)) for item in items])
    n_placed: dict[int, int] = {}
    placed: dict[int, Item] = {}
    for position in np.argsort(item_hashes, kind="stable").tolist():
        item = items[position]
        rank = n_placed.get(item.k, 0)
        n_placed[item.k], place = rank + 1, rank % item.k
        choice_hashes = unit_hashes([f"{seed}\0{item.stem}\0{choice}" for choice in item.choices])
        others = [
            choice for choice in np.argsort(choice_hashes, kind="stable").tolist() if choice != item.key
        ]
        placed[position] = item.permuted([*others[:place], item.key, *others[place:]])
    return tuple(placed[i] for i in range(len(items)))


def write_set(items: Sequence[Item], path: Path, marks: Mapping[str, str] | None = None) -> None:
    """Write items as CSV or JSON Lines, depending on the file suffix, and check that the file reads back unchanged. `marks`
    are the letters of each item's unreviewed options, for a further column. Raise `UsageError` for another suffix,
    `DataError` if CSV would change the items, and `ResourceError` if the file cannot be written."""
    marks = marks or {}
    with writable(path), staging(path.parent, ".mending-") as place:
        part = place / path.name
        match path.suffix.lower():
            case ".jsonl":
                write_lines(
                    part, (item_row(i) | ({UNREVIEWED: marks[i.id]} if i.id in marks else {}) for i in items)
                )
            case ".csv":
                with part.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(_rows(items, marks))
            case ending:
                kind = f"ends in {ending}" if ending else "has no ending"
                advice = f"Name a .csv or .jsonl file, for example -o {path.stem}.jsonl."
                raise UsageError(f"-o {path.name} {kind}. {advice}", code="ending-not-supported")
        if not _reads_back(part, items):
            raise DataError(
                f"{path}: CSV would change some items. Use -o FILE.jsonl, which keeps all fields.",
                code="csv-changes-items",
            )
        move_up(place, path.parent, path.name)


def _reads_back(path: Path, items: Sequence[Item]) -> bool:
    try:
        back = load(Source(path=str(path)), UNGUARDED).items
    except DataError:
        return False
    read, written = ([(i.id, i.stem, i.choices, i.key, i.topic, i.group) for i in of] for of in (back, items))
    return read == written


def _rows(items: Sequence[Item], marks: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the rows of a CSV file. A cell that a spreadsheet would read as a formula is quoted, and a column says so."""
    letters = ascii_uppercase[: max(item.k for item in items)]
    head = ["ID", "Question", *(f"Option {letter}" for letter in letters), "Correct Answer", "Topic"]
    rows = [[i.id, i.stem, *i.choices, *[""] * (len(letters) - i.k), letters[i.key], i.topic] for i in items]
    if marks:
        head.append(UNREVIEWED.capitalize())
        rows = [[*row, marks.get(i.id, "")] for i, row in zip(items, rows, strict=True)]
    safe = [list(map(neutral, row)) for row in rows]
    mark = [] if safe == rows else [QUOTED]
    yield [*head, *mark]
    yield from ([*row, *[""] * len(mark)] for row in safe)
