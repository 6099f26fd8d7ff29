"""One structure in a reply that may be the list of labels: where it stands, what it holds, how it was written."""

from dataclasses import dataclass
from typing import Literal

Format = Literal["json", "xml", "yaml", "markdown", "csv", "lines"]
FORMATS: tuple[Format, ...] = ("json", "xml", "yaml", "markdown", "csv", "lines")
"""In the order in which a tie between two structures at one place is broken."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters `start` to `end` read as labels; None where an entry is no known label.

    `indices` are the numbers that the entries carry, from 1, None where an entry carries none; the whole is None
    where the structure numbers nothing. `truncated`: cut off before its end, the incomplete last entry dropped.
    """

    start: int
    end: int
    format: Format
    labels: tuple[str | None, ...]
    indices: tuple[int | None, ...] | None = None
    truncated: bool = False


def numbered(indices: "list[int | None]") -> "tuple[int | None, ...] | None":
    """The indices of a structure, or None where no entry carries one."""
    return tuple(indices) if any(i is not None for i in indices) else None
