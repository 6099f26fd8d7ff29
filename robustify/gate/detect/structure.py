"""The structure layer: how many shapes of items a file holds, and whether that refuses it.

One shape that says which choice is right refuses, or three of any kind; fewer are a warning, which the lexicon
layer may raise to a refusal. Shapes are counted once, whichever readings of a text they show in.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from robustify.gate.decode.readings import Reading
from robustify.gate.decode.unpack import Columns
from robustify.gate.detect.blocks import blocks
from robustify.gate.detect.keyed import keyed
from robustify.gate.detect.names import shape_of
from robustify.gate.detect.records import Shaped, records
from robustify.gate.detect.tables import tables

ENOUGH = 3
"""Shapes without a key that refuse a file."""
_DETECTORS: tuple[tuple[str, Callable[[str], Iterator[Shaped]]], ...] = (
    ("RBG101", records),
    ("RBG101", keyed),
    ("RBG102", tables),
    ("RBG103", blocks),
)
_MOST = 5000


@dataclass(slots=True)
class Shapes:
    """What the structure layer saw in a file: for each content and rule the most shapes that one detector found."""

    _found: dict[tuple[int, str], list[Shaped]] = field(default_factory=dict)

    def look(self, reading: Reading) -> None:
        """Count the shapes of one reading."""
        if reading.words:
            return
        for rule, detector in _DETECTORS:
            if detector is keyed and self._found.get((reading.source, rule)):
                continue  # parsed records are counted once, and better
            found = []
            for shaped in detector(reading.text):
                found.append(Shaped(reading.line_at(shaped.line), shaped.keyed))
                if len(found) >= _MOST:
                    break
            held = self._found.get((reading.source, rule), [])
            if found and _weight(found) > _weight(held):
                self._found[reading.source, rule] = found

    def count(self, columns: Columns) -> None:
        """Count the rows of a packed table whose columns name a stem and choices."""
        shape = shape_of(columns.names)
        if shape.has_choices and (shape.stem or (shape.weak_stem and shape.key)):
            self._found[0, "RBG102"] = [Shaped(1, shape.key)] * min(columns.rows, _MOST)

    def verdict(self) -> tuple[str, int, str] | None:
        """The rule, the first line and the words: a refusal, a warning (RBG104), or None."""
        best = {source: self._best(source) for source, _ in self._found}
        if not best:
            return None
        shapes = [shaped for _, found in best.values() for shaped in found]
        keyed_ones = sum(shaped.keyed for shaped in shapes)
        rule, strongest = max(best.values(), key=lambda pair: _weight(pair[1]))
        first, last = min(s.line for s in strongest), max(s.line for s in shapes)
        where = f", to line {last}" if last > first else ""
        n = len(shapes)
        says = f"({n}{'+' if n >= _MOST else ''} shaped like an item, {keyed_ones} with a key{where})"
        return (rule if keyed_ones or n >= ENOUGH else "RBG104"), first, says

    def _best(self, source: int) -> tuple[str, list[Shaped]]:
        found = [(rule, shapes) for (held, rule), shapes in self._found.items() if held == source]
        return max(found, key=lambda pair: _weight(pair[1]))


def _weight(found: list[Shaped]) -> tuple[int, int]:
    return sum(shaped.keyed for shaped in found), len(found)
