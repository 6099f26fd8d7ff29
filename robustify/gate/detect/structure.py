"""The structure layer counts shapes of items in a file; the lexicon layer counts terms of controlled categories.

One shape that says which choice is right refuses, or three of any kind; fewer are a warning, which the lexicon raises
to a refusal. A shape is counted once, in whichever form of a text it shows. The lexicon alone refuses nothing: a
policy brief says its words too. It is a reviewed data file with names of regimes and categories, never an entry of a
controlled list.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import islice
from pathlib import Path

from robustify.gate.decoder import DecodedText
from robustify.gate.detect.named import named_items
from robustify.gate.detect.prose import prose_items
from robustify.gate.detect.records import Shaped, json_items, shape_of
from robustify.gate.detect.tabular import table_items
from robustify.gate.folding import Stream, streams
from robustify.gate.unpack import ColumnNames

ENOUGH = 3
"""Shapes without a key that refuse a file."""
LEXICON_FILE = Path(__file__).parent.with_name("lexicon.json")
LEAST_TERMS = 2
"""Different terms that make a file one about controlled categories."""
_DETECTORS: tuple[tuple[str, Callable[[str], Iterator[Shaped]]], ...] = (
    ("RBG101", json_items),
    ("RBG101", named_items),
    ("RBG102", table_items),
    ("RBG103", prose_items),
)
_MOST = 5000


@dataclass(slots=True)
class Shapes:
    """What the structure layer saw in a file: for each content and rule the most shapes that one detector found."""

    _found: dict[tuple[int, str], list[Shaped]] = field(default_factory=dict)

    def look(self, reading: DecodedText) -> None:
        """Count the shapes of one reading."""
        if reading.words:
            return
        for rule, detector in _DETECTORS:
            if detector is named_items and self._found.get((reading.source, rule)):
                continue  # the parsed records are counted already, and better
            items = [
                Shaped(reading.line_at(shaped.line), shaped.keyed)
                for shaped in islice(detector(reading.text), _MOST)
            ]
            if items and _weight(items) > _weight(self._found.get((reading.source, rule), [])):
                self._found[reading.source, rule] = items

    def count(self, columns: ColumnNames) -> None:
        """Count the rows of a packed table whose columns name a stem and choices."""
        shape = shape_of(columns.names)
        if shape.has_choices and (shape.stem or (shape.weak_stem and shape.key)):
            self._found[0, "RBG102"] = [Shaped(1, shape.key)] * min(columns.rows, _MOST)

    def verdict(self) -> tuple[str, int, str] | None:
        """The rule, the first line and the words: a refusal, a warning (RBG104), or None."""
        best = {source: self._best(source) for source, _ in self._found}
        if not best:
            return None
        shapes = [shaped for _, items in best.values() for shaped in items]
        keyed_ones = sum(shaped.keyed for shaped in shapes)
        rule, strongest = max(best.values(), key=lambda pair: _weight(pair[1]))
        first, last = min(s.line for s in strongest), max(s.line for s in shapes)
        where = f", to line {last}" if last > first else ""
        n = len(shapes)
        says = f"({n}{'+' if n >= _MOST else ''} shaped like an item, {keyed_ones} with a key{where})"
        return (rule if keyed_ones or n >= ENOUGH else "RBG104"), first, says

    def _best(self, source: int) -> tuple[str, list[Shaped]]:
        candidates = [(rule, shapes) for (of, rule), shapes in self._found.items() if of == source]
        return max(candidates, key=lambda pair: _weight(pair[1]))


def _weight(items: list[Shaped]) -> tuple[int, int]:
    return sum(shaped.keyed for shaped in items), len(items)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The folded terms by their first word, and the day of the last review."""

    reviewed: date
    terms: dict[bytes, tuple[tuple[bytes, ...], ...]]

    def named(self, stream: Stream) -> int:
        """How many different terms a stream of folded words names; a term within a longer one counts once."""
        found = set()
        words = stream.parts
        for first in stream.distinct.intersection(self.terms):
            at = -1
            for _ in range(words.count(first)):
                at = words.index(first, at + 1)
                matches = [term for term in self.terms[first] if tuple(words[at : at + len(term)]) == term]
                found |= {max(matches, key=len)} if matches else set()
        return len(found)


@cache
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    data = json.loads(LEXICON_FILE.read_text(encoding="utf-8"))
    terms: dict[bytes, list[tuple[bytes, ...]]] = {}
    for term in (*data["regimes"], *data["categories"]):
        parts = tuple(streams(term)[0].parts)
        terms.setdefault(parts[0], []).append(parts)
    return Lexicon(date.fromisoformat(data["reviewed"]), {first: tuple(t) for first, t in terms.items()})
