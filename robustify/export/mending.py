"""Automatic repair of a benchmark: shuffle the options, trim them, and list the problems that need an author.

No other text is rewritten. An item whose options refer to each other keeps its order, because shuffling would change its
meaning.
"""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

from robustify.base.errors import DataError, UsageError
from robustify.base.files import move_up, staging, writable
from robustify.base.texts import bare
from robustify.items.item import Item
from robustify.items.orders import base
from robustify.judging.baselines.heuristics import found_by, rule_table
from robustify.judging.cloze import cross_reference
from robustify.reading.loaders import Loaded, Source, load
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

    `orders[i][j]` is the former position of choice j of item i. The items at `bound` keep their order. `rule` is the length
    rule that is significantly better than chance, or "": it has `right` picks, `expected` by chance, and finds the keys of
    the `uneven`. `trimmed` counts the items whose options lost white space at their ends.
    """

    items: tuple[Item, ...]
    orders: tuple[tuple[int, ...], ...]
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
        orders=orders,
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


def write_mended(result: Mended, path: Path, bench: Loaded, source: Path) -> None:
    """Write the items as CSV or JSON Lines, by the ending of the name, and check that the file reads back unchanged.

    If `source` is a CSV with a column per option, the new CSV has the same columns. Raise `UsageError` for another ending,
    `DataError` if CSV would change the items, and `ResourceError` if the file cannot be written.
    """
    with writable(path), staging(path.parent, ".mending-") as place:
        part, ids = place / path.name, True
        match path.suffix.lower():
            case ".jsonl":
                write_items(part, result.items)
            case ".csv":
                _write_rows(part, _rows_of_source(result, bench, source))
                if _reads_back(part, result.items, ids=False):
                    ids = bench.recognised[0].fields.get("id") is not None
                else:
                    _write_rows(part, _standard_rows(result.items))
            case ending:
                raise UsageError(f"-o {path.name}: ends in {ending!r}. Expected .csv or .jsonl.")
        if not _reads_back(part, result.items, ids=ids):
            raise DataError(
                f"{path}: CSV would change some items. Use -o FILE.jsonl, which keeps all fields."
            )
        move_up(place, path.parent, path.name)


def _reads_back(path: Path, items: Sequence[Item], *, ids: bool) -> bool:
    """Return whether the file contains these items, with the same IDs if `ids`."""
    try:
        back = load(Source(path=str(path))).items
    except DataError:
        return False
    one, two = (
        [(i.id if ids else "", i.stem, i.choices, i.key, i.topic, i.group) for i in of]
        for of in (back, items)
    )
    return one == two


def _rows_of_source(result: Mended, bench: Loaded, source: Path) -> list[list[str]]:
    """Return the rows of a CSV with shuffled options. Return an empty list if the CSV has another structure."""
    fields = bench.recognised[0].fields if len(bench.recognised) == 1 else {}
    choices, key = fields.get("choices"), fields.get("key")
    if not isinstance(choices, list | tuple) or not isinstance(key, str) or source.suffix.lower() != ".csv":
        return []
    with source.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = [row for row in csv.reader(file) if row]
    names = [name.strip() for name in header]
    if len(rows) != len(result.items) or not {key, *choices} <= set(names):
        return []
    options, answer = [names.index(name) for name in choices], names.index(key)
    by_text = set(bench.recognised[0].key_forms) == {"text"}
    labels = {item.key: row[answer] for item, row in zip(bench.items, rows, strict=True)}
    for row, item, order in zip(rows, result.items, result.orders, strict=True):
        filled = [at for at in options if row[at].strip()]
        if len(filled) != item.k or (item.key not in labels and not by_text):
            return []
        for at, cell in zip(filled, [row[filled[old]] for old in order], strict=True):
            row[at] = bare(cell)
        if not by_text:
            row[answer] = labels[item.key]
    return [header, *rows]


def _standard_rows(items: Sequence[Item]) -> Iterator[list[str]]:
    letters = ascii_uppercase[: max(item.k for item in items)]
    yield ["ID", "Question", *(f"Option {letter}" for letter in letters), "Correct Answer", "Topic"]
    for i in items:
        blank = [""] * (len(letters) - i.k)
        yield [i.id, i.stem, *i.choices, *blank, letters[i.key], i.topic]


def _write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
