"""What a report is made of: the first screen, and below it sections of text, tables and plots under five headings.

A block holds plain text; markup and escaping are the work of `printing`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from robustify.summary.quantity import Interval

Tone = Literal["", "absent", "good", "bad", "unsure", "again"]
Kind = Literal["main", "before", "chance"]
PartKind = Literal["robust", "shortcut", "chance", "undecided"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table: its content, half its interval beside it, and a short badge.

    `small` is what it rests on: seen when pointed at, and in the table as CSV. The tone `again` marks what repeats the row
    above. `link` is where it leads.
    """

    main: str
    small: str = ""
    tone: Tone = ""
    badge: str = ""
    spread: str = ""
    link: str = ""

    @property
    def exact(self) -> str:
        """All that is known of it, in one line."""
        return f"{self.main} ({self.small})" if self.small else self.main


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
    """A table; the first cell of a row names the row. `tags`: of each row those that filters ask for, none without."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    tags: tuple[str, ...] = ()

    def csv(self) -> str:
        """The table as CSV, each number with what it rests on."""
        return csv_of([[c.label for c in self.columns], *([cell.exact for cell in row] for row in self.rows)])


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
class Step:
    """A point of a line over time; `joined` to the one before it."""

    label: str
    value: float
    ci: Interval | None
    joined: bool


@dataclass(frozen=True, slots=True)
class Trend:
    """A share over time as a small line with intervals, the earliest first; `tags` as in a table."""

    kind: ClassVar[str] = "trend"
    name: str
    title: str
    steps: tuple[Step, ...]
    tags: str


@dataclass(frozen=True, slots=True)
class Folded:
    """Something long that only some readers want."""

    kind: ClassVar[str] = "folded"
    title: str
    text: str


Block = Paragraph | Bullets | Table | Plot | Trend | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A part with its blocks; `id` is the anchor, `words` those of the glossary that it uses.

    It is folded under its title, or `open` and without one.
    """

    id: str
    title: str
    blocks: tuple[Block, ...]
    words: tuple[str, ...] = ()
    open: bool = False

    @classmethod
    def of(
        cls, id_: str, title: str, *blocks: Block | str | None, words: str = "", open: bool = False
    ) -> "Section":
        """The section of those blocks that are there, a text as a quiet paragraph; `words` with spaces between them."""
        there = (Paragraph(b, quiet=True) if isinstance(b, str) else b for b in blocks if b is not None)
        return cls(id_, title, tuple(there), tuple(words.split()), open)


@dataclass(frozen=True, slots=True)
class Group:
    """A heading, one sentence that everybody can read, and its folded sections."""

    id: str
    title: str
    sentence: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A number of the first screen, what it counts, and what it rests on."""

    label: str
    main: str
    small: str


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of the benchmark, `n` items; its words are the legend."""

    kind: PartKind
    n: float
    words: str


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do, why, and where to look."""

    action: str
    why: str
    link: str


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """What is read in five seconds: a verdict, the benchmark as a bar, three numbers, what models score, what to do.

    `above`: what must be known before the verdict is read.
    """

    verdict: str
    tone: Tone
    above: tuple[str, ...]
    tiles: tuple[Tile, ...]
    bar: tuple[BarPart, ...]
    scores: Plot | None
    todo: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """A choice of what is shown: its label, and by tag what each value is called."""

    id: str
    label: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report; `explorer` where a page of items stands beside it, `filters` those of its tagged rows."""

    name: str
    first: FirstScreen
    groups: tuple[Group, ...]
    signature: str
    explorer: bool = False
    filters: tuple[Filter, ...] = ()

    @property
    def sections(self) -> tuple[Section, ...]:
        """All sections, in the order in which they are shown."""
        return tuple(s for group in self.groups for s in group.sections)

    @property
    def plots(self) -> tuple[Plot, ...]:
        """All plots, in the order in which they are shown."""
        first = () if self.first.scores is None else (self.first.scores,)
        return (*first, *(b for s in self.sections for b in s.blocks if isinstance(b, Plot)))

    @property
    def trends(self) -> tuple[Trend, ...]:
        """All lines over time."""
        return tuple(b for s in self.sections for b in s.blocks if isinstance(b, Trend))


def csv_of(rows: Iterable[Iterable[str]]) -> str:
    """Rows as CSV (RFC 4180), every field quoted; none of them can be read as a formula."""
    return "".join(",".join(map(_field, row)) + "\r\n" for row in rows)


def _field(text: str) -> str:
    guarded = f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return f'"{guarded.replace(chr(34), 2 * chr(34))}"'


Row = tuple[Cell | str, ...]
"""A row of a table; a text is an entry as it is."""


def text_table(
    caption: str,
    heads: Iterable[Column | str],
    rows: Iterable[Row],
    note: str = "",
    *,
    words: int = 1,
    tags: Iterable[str] = (),
) -> Table:
    """A table whose first `words` columns hold words and the others figures, but for heads that say it themselves."""
    columns = (h if isinstance(h, Column) else Column(h, figures=i >= words) for i, h in enumerate(heads))
    cells = (tuple(Cell(one) if isinstance(one, str) else one for one in row) for row in rows)
    return Table(caption, tuple(columns), tuple(cells), note, tuple(tags))


def labelled(caption: str, rows: Iterable[Row], note: str = "", *, words: int = 1) -> Table:
    """A table of labelled values."""
    return text_table(caption, ("", "Value"), rows, note, words=words)


def under(groups: Iterable[tuple[Cell, Iterable[Row]]]) -> Iterator[Row]:
    """The rows of groups below their names, which the first row of each shows and the others repeat."""
    for name, rows in groups:
        for i, row in enumerate(rows):
            yield (replace(name, tone="again") if i else name, *row)
