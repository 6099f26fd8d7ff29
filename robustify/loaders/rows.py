"""What passes between the readers of files and the layouts: rows, faults, and an item not yet checked.

Reprs show no text.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from robustify.loaders.source import KeyKind
from robustify.redaction.text import KeptHere

Cells = Mapping[str, object]
"""One row by field name."""


@dataclass(frozen=True, slots=True, repr=False)
class Row(KeptHere):
    """One row. `line` is where it starts, `place` its position among all rows, bad ones too; both from 1."""

    line: int
    place: int
    cells: Cells


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the row at `line` cannot be an item."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Table(KeptHere):
    """The rows of one file. `literals`: its cells are flat, so that a list may be written out in a cell.

    `layout` is set by a reader that knows it (a CSV without header has no field names to recognise), `outer`
    by what the rows were wrapped in (a harness log).
    """

    rows: tuple[Row, ...]
    faults: tuple[Fault, ...] = ()
    layout: str = ""
    outer: str = ""
    literals: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Raw(KeptHere):
    """An item as a layout read it: the key is still what the file says, `key_is` says how to read it."""

    stem: str
    choices: tuple[str, ...]
    key: object
    key_is: KeyKind = "auto"
    labels: tuple[str, ...] = ()
    id: str = ""
    topic: str = ""
    passage: str = ""
    group: str = ""
