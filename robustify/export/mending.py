"""Automatic repair of a benchmark: shuffle the options, and list the problems that need an author.

No text is rewritten. An item whose options refer to each other keeps its order, because shuffling would change its
meaning.
"""

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from robustify.baselines.heuristics import found_by, table
from robustify.errors import DataError, UsageError
from robustify.files import move_up, staging, writable
from robustify.item import Item
from robustify.judging.cloze import cross_reference
from robustify.loaders import Source, load
from robustify.orders import base
from robustify.run import write_items

ALPHA = 0.05
_LENGTHS = ("longest_answer", "shortest_answer")
_LETTER = re.compile(r"\b(?:option|choice|answer)s?\s+\(?[A-Z]\b")
"""Pattern for an option that a stem names by its letter."""


@dataclass(frozen=True, slots=True)
class Uneven:
    """An item with a key of conspicuous length. `others` are the smallest and largest length of the other choices."""

    at: int
    key: int
    others: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mended:
    """Items with shuffled options, in the order of the file, and a list of remaining problems.

    `bound` are the indices of items that keep their order. `rule` is the length rule that is correct significantly more
    often than chance, or "". `right` is its number of correct picks, `expected` is the number by chance, and `uneven`
    lists the items whose key it finds.
    """

    items: tuple[Item, ...]
    bound: tuple[int, ...]
    rule: str
    right: float
    expected: float
    uneven: tuple[Uneven, ...]


def mended(items: Sequence[Item], seed: int) -> Mended:
    """Shuffle the options of each item by its ID and the seed, and list the remaining problems."""
    bound = tuple(at for at, item in enumerate(items) if _depends_on_order(item))
    kept = set(bound)
    shuffled = tuple(
        item if at in kept else item.permuted(base(item.id, item.k, seed)) for at, item in enumerate(items)
    )
    scores = table(items)["heuristics"]
    p = {name: scores[name]["p_holm"] for name in _LENGTHS}
    above = [name for name in _LENGTHS if p[name] is not None and p[name] <= ALPHA]
    rule = max(above, key=lambda name: float(scores[name]["value"]), default="")
    return Mended(
        items=shuffled,
        bound=bound,
        rule=rule,
        right=scores[rule]["value"] * len(items) if rule else 0.0,
        expected=math.fsum(1 / item.k for item in items),
        uneven=tuple(_uneven(items, rule)) if rule else (),
    )


def _depends_on_order(item: Item) -> bool:
    return cross_reference(item) is not None or _LETTER.search(item.stem) is not None


def _uneven(items: Sequence[Item], rule: str) -> Iterator[Uneven]:
    for at, names in enumerate(found_by(items, [rule])):
        if names:
            sizes = [len(choice.strip()) for choice in items[at].choices]
            key = sizes.pop(items[at].key)
            yield Uneven(at, key, (min(sizes), max(sizes)))


def write_mended(result: Mended, path: Path) -> None:
    """Write the items as CSV or JSON Lines, by the ending of the name, and check that the file reads back unchanged.

    Raises:
        UsageError: the name has another ending.
        DataError: CSV would change the items (passages, or options that look like letters of options).
        ResourceError: the file cannot be written.
    """
    with writable(path), staging(path.parent, ".mending-") as place:
        part = place / path.name
        match path.suffix.lower():
            case ".jsonl":
                write_items(part, result.items)
            case ".csv":
                _write_csv(part, result.items)
            case ending:
                raise UsageError(f"-o {path.name}: ends in {ending!r}. Expected .csv or .jsonl.")
        if _content(_read_back(part)) != _content(result.items):
            raise DataError(
                f"{path}: CSV would change some items. Use -o FILE.jsonl, which keeps all fields."
            )
        move_up(place, path.parent, path.name)


def _read_back(path: Path) -> tuple[Item, ...]:
    try:
        return tuple(load(Source(path=str(path))).items)
    except DataError:
        return ()


def _write_csv(path: Path, items: Sequence[Item]) -> None:
    letters = ascii_uppercase[: max(item.k for item in items)]
    with path.open("w", encoding="utf-8", newline="") as file:
        write = csv.writer(file, lineterminator="\n").writerow
        write(["ID", "Question", *(f"Option {letter}" for letter in letters), "Correct Answer", "Topic"])
        for i in items:
            blank = [""] * (len(letters) - i.k)
            write([i.id, i.stem, *i.choices, *blank, letters[i.key], i.topic])


def _content(items: Sequence[Item]) -> list[tuple[object, ...]]:
    return [(i.id, i.stem, i.choices, i.key, i.topic, i.group) for i in items]
