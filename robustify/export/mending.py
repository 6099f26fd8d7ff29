"""Automatic repair of a benchmark: shuffle the options, trim them, and list the problems that need an author.

No other text is rewritten. An item whose options refer to each other keeps its order, because shuffling would change its
meaning.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from robustify.base.errors import DataError, UsageError
from robustify.base.files import QUOTED, move_up, neutral, staging, writable
from robustify.composing.choosing import placed
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import found_by, rule_table
from robustify.judging.cloze import keeps_order
from robustify.reading.loaders import Source, load
from robustify.runs.run import write_items

ALPHA = 0.05
_LENGTHS = ("longest_answer", "shortest_answer")


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
    """Order the options of each item by a hash of its texts and the seed, and list the remaining problems.

    Mending the result again changes nothing.
    """
    trimmed = [item.trimmed() for item in items]
    bound = tuple(at for at, item in enumerate(items) if keeps_order(item))
    free = [at for at in range(len(items)) if at not in bound]
    moved = dict(zip(free, placed([trimmed[at] for at in free], seed), strict=True))
    scores = rule_table(items)["heuristics"]
    p = {name: scores[name]["p_holm"] for name in _LENGTHS}
    above = [name for name in _LENGTHS if p[name] is not None and p[name] <= ALPHA]
    rule = max(above, key=lambda name: float(scores[name]["value"]), default="")
    return Mended(
        items=tuple(moved.get(at, item) for at, item in enumerate(trimmed)),
        bound=bound,
        rule=rule,
        right=scores[rule]["value"] * len(items) if rule else 0.0,
        expected=math.fsum(1 / item.k for item in items),
        uneven=tuple(_uneven(items, rule)) if rule else (),
        trimmed=sum(one.choices != item.choices for one, item in zip(trimmed, items, strict=True)),
    )


def _uneven(items: Sequence[Item], rule: str) -> Iterator[Uneven]:
    for at, names in enumerate(found_by(items, [rule])):
        if names:
            sizes = [len(choice.strip()) for choice in items[at].choices]
            key = sizes.pop(items[at].key)
            yield Uneven(at, key, (min(sizes), max(sizes)))


def write_set(items: Sequence[Item], path: Path) -> None:
    """Write items as CSV or JSON Lines, by the ending of the name, and check that the file reads back unchanged.

    A CSV has a column for the ID, the question, each option, the key, and the topic. Raise `UsageError` for another ending,
    `DataError` if CSV would change the items, and `ResourceError` if the file cannot be written.
    """
    with writable(path), staging(path.parent, ".mending-") as place:
        part = place / path.name
        match path.suffix.lower():
            case ".jsonl":
                write_items(part, items)
            case ".csv":
                with part.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(_rows(items))
            case ending:
                raise UsageError(f"-o {path.name}: ends in {ending!r}. Expected .csv or .jsonl.")
        if not _reads_back(part, items):
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
