"""The closed sets of labels that a judge may give, how one written label is read, and a list of labels in a reply.

A label is read from a whole entry, never from a word inside prose: "does not support" is a synonym of one label,
"supportive of the claim" is none. What is not in the table is unknown; nothing is guessed.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
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


LONGEST = 40
"""Characters of a written label; a longer entry is prose."""
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\u2063\ufeff]")
_EDGES = " \t\r\n\"'`*_.\u201c\u201d\u2018\u2019\u00ab\u00bb\u201a\u201e"
_JOINTS = re.compile(r"[\s_-]+")

_SUPPORT = {
    "support": ("supported", "supports", "fully_supported", "full_support", "fully_support"),
    "partial_support": (
        "partial",
        "partially_supported",
        "partially_support",
        "partially_supports",
        "partial_supported",
        "partly_support",
        "partly_supported",
    ),
    "not_support": ("not_supported", "no_support", "unsupported", "does_not_support", "not_supports"),
}


def folded_label(text: str) -> str:
    """The canonical form: NFKC, no invisible characters, no quotes or emphasis, casefold, joints as one `_`."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).strip(_EDGES)
    return _JOINTS.sub("_", visible.casefold()).strip("_")


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels with their scores, lowest first, and the spellings that count as each."""

    name: str
    scores: Mapping[str, float]
    hint: "re.Pattern[str]" = field(init=False, repr=False, compare=False)
    """Finds the beginning of a known spelling; where it finds nothing, no entry is a label."""
    _spellings: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = {label: label for label in self.scores}
        known |= {word: label for label, words in _SUPPORT.items() for word in words if label in self.scores}
        stems = sorted({re.escape(word[:4].rstrip("_")) for word in known})
        object.__setattr__(self, "hint", re.compile("|".join(stems), re.IGNORECASE))
        object.__setattr__(self, "scores", MappingProxyType(dict(self.scores)))
        object.__setattr__(self, "_spellings", MappingProxyType(known))

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.scores)))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, lowest first."""
        return tuple(self.scores)

    def read(self, entry: str) -> str | None:
        """The label that this entry is, whole, or None."""
        if len(entry) > 4 * LONGEST or (entry.isascii() and not self.hint.search(entry)):
            return None
        return self._spellings.get(_folded_once(entry))


@lru_cache(maxsize=4096)
def _folded_once(entry: str) -> str:
    folded = folded_label(entry)
    return folded if len(folded) <= LONGEST else ""


SUPPORT3 = LabelSet("support3", {"not_support": 0.0, "partial_support": 0.5, "support": 1.0})
SUPPORT2 = LabelSet("support2", {"not_support": 0.0, "support": 1.0})
IMPORTANCE = LabelSet("importance", {"okay": 0.5, "vital": 1.0})
VERDICT3 = LabelSet("verdict3", {"not_attempted": 0.0, "incorrect": 0.0, "correct": 1.0})
LABEL_SETS: Mapping[str, LabelSet] = MappingProxyType(
    {labels.name: labels for labels in (SUPPORT3, SUPPORT2, IMPORTANCE, VERDICT3)}
)
