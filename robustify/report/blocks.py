"""What a report is made of: sections of text, tables and plots.

The HTML page and the Markdown file are two printings of the same blocks, so that they cannot differ in content.
A block holds plain text; markup and escaping are the work of `printing`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from robustify.summary.quantity import Interval

Tone = Literal["", "absent", "good", "bad", "unsure", "again"]
Kind = Literal["main", "before", "chance"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table: its content, small print below it, and a short badge beside it.

    The tone `again` marks a name that repeats the row above.
    """

    main: str
    small: str = ""
    tone: Tone = ""
    badge: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column; `figures` sets it in aligned digits."""

    label: str
    figures: bool = True


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `quiet` ones explain the others."""

    kind: ClassVar[str] = "text"
    text: str
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of short lines."""

    kind: ClassVar[str] = "bullets"
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of a row names the row."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its interval; `kind` says how it is drawn."""

    value: float
    ci: Interval | None = None
    kind: Kind = "main"


@dataclass(frozen=True, slots=True)
class PlotRow:
    """A line of a plot; without marks it is the heading of those below it. `note` is at its right end."""

    label: str
    marks: tuple[Mark, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A reference value across the whole plot, e.g. chance."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A dot plot with intervals over shares from 0 to 1. `name` becomes the file's name."""

    kind: ClassVar[str] = "plot"
    name: str
    title: str
    rows: tuple[PlotRow, ...]
    legend: tuple[tuple[Kind, str], ...] = ()
    lines: tuple[Line, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Folded:
    """Something long that only some readers want; `form` is what it is written in."""

    kind: ClassVar[str] = "folded"
    title: str
    text: str
    form: Literal["json", "text"] = "json"


Block = Paragraph | Bullets | Table | Plot | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its blocks; `id` is the anchor, `short` the name in the contents."""

    id: str
    title: str
    short: str
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, id_: str, title: str, short: str, *blocks: Block | None) -> "Section":
        """The section of those blocks that are there."""
        return cls(id_, title, short, tuple(b for b in blocks if b is not None))


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline number."""

    label: str
    main: str
    small: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Banner:
    """The verdict: its word, its sentence, its reasons; `above` it what must be known before it is read."""

    word: str
    tone: Tone
    sentence: str
    reasons: tuple[str, ...]
    above: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    name: str
    banner: Banner
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    signature: str

    @property
    def plots(self) -> tuple[Plot, ...]:
        """All plots, in the order in which they are shown."""
        return tuple(b for s in self.sections for b in s.blocks if isinstance(b, Plot))


def heads_of(*labels: str, words: int = 1) -> tuple[Column, ...]:
    """The head of a table whose first `words` columns hold words and the others figures."""
    return tuple(Column(label, figures=i >= words) for i, label in enumerate(labels))


def labelled(caption: str, rows: Iterable[tuple[str, Cell]], note: str = "", *, words: int = 1) -> Table:
    """A table of labelled values."""
    return Table(caption, heads_of("", "Value", words=words), tuple((Cell(a), b) for a, b in rows), note)


def under(name: Cell, rows: Iterable[tuple[Cell, ...]]) -> Iterator[tuple[Cell, ...]]:
    """Rows of a table below one name, which the first of them shows and the others repeat."""
    for i, row in enumerate(rows):
        yield (replace(name, tone="again") if i else name, *row)


def quiet(text: str) -> Paragraph:
    """A paragraph that explains, or says that something is absent."""
    return Paragraph(text, quiet=True)
