"""Automatic repair of a benchmark: shuffle the options, trim them, and list the problems that need an author.

No other text is rewritten. An item whose options refer to each other keeps its order, because shuffling would change its
meaning.
"""

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from robustify.base.errors import DataError, UsageError
from robustify.base.files import QUOTED, move_up, neutral, staging, writable
from robustify.items.item import Item
from robustify.items.orders import base
from robustify.judging.baselines.heuristics import found_by, rule_table
from robustify.judging.cloze import cross_reference
from robustify.reading.loaders import Source, load
from robustify.runs.run import write_items

ALPHA = 0.05
_LENGTHS = ("longest_answer", "shortest_answer")
_LETTER = re.compile(r"\b(?:option|choice|answer)s?\s+\(?[A-Z]\b")
"""Pattern for an option that a stem names by its letter."""


@dataclass(frozen=True, slots=True)
class Uneven:
    """An item whose correct option is conspicuously long or short. `others` are the other options' extreme lengths."""

    at: int
    key: int
    others: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mended:
    """Items with shuffled options, in the order of the file, and a list of remaining problems.

    The items at `bound` keep their order. `rule` is the length
    rule that is significantly better than chance, or "": it has `right` picks, `expected` by chance, and finds the keys of
    the `uneven`. `trimmed` counts the items whose options lost white space at their ends.
    """

    items: tuple[Item, ...]
    bound: tuple[int, ...]
    rule: str
    right: float
    expected: float
    uneven: tuple[Uneven, ...]
    trimmed: int = 0


def mended(items: Sequence[Item], seed: int) -> Mended:
    """Shuffle the options of each item by its ID and the seed, and list the remaining problems."""
    # Options that refer to each other, or that the stem names by letter, depend on their order.
    fixed = [cross_reference(item) is not None or bool(_LETTER.search(item.stem)) for item in items]
    orders = tuple(
        tuple(range(item.k) if kept else base(item.id, item.k, seed))
        for kept, item in zip(fixed, items, strict=True)
    )
    scores = rule_table(items)["heuristics"]
    p = {name: scores[name]["p_holm"] for name in _LENGTHS}
    above = [name for name in _LENGTHS if p[name] is not None and p[name] <= ALPHA]
    rule = max(above, key=lambda name: float(scores[name]["value"]), default="")
    return Mended(
        items=tuple(item.trimmed().permuted(order) for item, order in zip(items, orders, strict=True)),
        bound=tuple(at for at, kept in enumerate(fixed) if kept),
        rule=rule,
        right=scores[rule]["value"] * len(items) if rule else 0.0,
        expected=math.fsum(1 / item.k for item in items),
        uneven=tuple(_uneven(items, rule)) if rule else (),
        trimmed=sum(item.trimmed().choices != item.choices for item in items),
    )


def _uneven(items: Sequence[Item], rule: str) -> Iterator[Uneven]:
    for at, names in enumerate(found_by(items, [rule])):
        if names:
            sizes = [len(choice.strip()) for choice in items[at].choices]
            key = sizes.pop(items[at].key)
            yield Uneven(at, key, (min(sizes), max(sizes)))


def write_mended(result: Mended, path: Path) -> None:
    """Write the items as CSV or JSON Lines, by the ending of the name, and check that the file reads back unchanged.

    A CSV has a column for the ID, the question, each option, the key, and the topic. Raise `UsageError` for another ending,
    `DataError` if CSV would change the items, and `ResourceError` if the file cannot be written.
    """
    with writable(path), staging(path.parent, ".mending-") as place:
        part = place / path.name
        match path.suffix.lower():
            case ".jsonl":
                write_items(part, result.items)
            case ".csv":
                with part.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(_rows(result.items))
            case ending:
                raise UsageError(f"-o {path.name}: ends in {ending!r}. Expected .csv or .jsonl.")
        if not _reads_back(part, result.items):
            raise DataError(
                f"{path}: CSV would change some items. Use -o FILE.jsonl, which keeps all fields."
            )
        move_up(place, path.parent, path.name)


def _reads_back(path: Path, items: Sequence[Item]) -> bool:
    """Return whether the file contains these items."""
    try:
        back = load(Source(path=str(path))).items
    except DataError:
        return False
    one, two = ([(i.id, i.stem, i.choices, i.key, i.topic, i.group) for i in of] for of in (back, items))
    return one == two


def _rows(items: Sequence[Item]) -> Iterator[list[str]]:
    """Yield the rows of a CSV. If spreadsheets would take a cell for a formula, it is quoted, and a column says so."""
    letters = ascii_uppercase[: max(item.k for item in items)]
    head = ["ID", "Question", *(f"Option {letter}" for letter in letters), "Correct Answer", "Topic"]
    rows = [[i.id, i.stem, *i.choices, *[""] * (len(letters) - i.k), letters[i.key], i.topic] for i in items]
    safe = [list(map(neutral, row)) for row in rows]
    mark = [] if safe == rows else [QUOTED]
    yield [*head, *mark]
    yield from ([*row, *[""] * len(mark)] for row in safe)
