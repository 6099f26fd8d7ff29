"""The lexicon layer: category-level words, which alone refuse nothing.

A policy brief says these words; a file that says them and also has the shape of an item is refused. The list is a
reviewed data file and holds names of regimes and categories, never an entry of a controlled list.
"""

import json
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from robustify.gate.fingerprints.words import Stream, streams

PLACE = Path(__file__).with_name("lexicon.json")
LEAST = 2
"""Different terms that make a file one about controlled categories."""


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
                held = [term for term in self.terms[first] if tuple(words[at : at + len(term)]) == term]
                found |= {max(held, key=len)} if held else set()
        return len(found)


@cache
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    held = json.loads(PLACE.read_text(encoding="utf-8"))
    terms: dict[bytes, list[tuple[bytes, ...]]] = {}
    for term in (*held["regimes"], *held["categories"]):
        parts = tuple(streams(term)[0].parts)
        terms.setdefault(parts[0], []).append(parts)
    return Lexicon(date.fromisoformat(held["reviewed"]), {first: tuple(t) for first, t in terms.items()})
