"""Search for items that occur verbatim in text files given by the user.

A hit means that a file contains the words of an item. No hit says nothing about other files, or about a paraphrase,
translation or picture of the item. The files are therefore recorded with the hits.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from robustify.base.errors import DataError
from robustify.base.files import sha256
from robustify.items.item import Item
from robustify.judging.ngrams.text import BREAK, require_files, search_words, texts

TextPart = Literal["stem", "stem_key", "choices"]
PARTS: tuple[TextPart, ...] = ("stem", "stem_key", "choices")
FEWEST_WORDS = 5
"""Minimum number of words in a searched sequence. A shorter one, such as "the capital of France", is not specific."""
Words = list[str]


class ContaminationSettings(BaseModel):
    """Text files to search for the items, and the number of consecutive words that count as a match."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[str, ...] = Field(min_length=1)
    ngram: int = Field(default=13, ge=FEWEST_WORDS, le=50)


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """A file that was read completely. `name` excludes the folder."""

    name: str
    sha256: str
    bytes: int
    words: int


@dataclass(frozen=True, slots=True)
class Hit:
    """An item with the parts that were found. `coverage` is the share of its stem's n-grams, or None without n-grams."""

    item: str
    parts: tuple[TextPart, ...]
    coverage: float | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """Settings and results of a search, with IDs and numbers but no text.

    A `short` item has a stem of fewer than `ngram` words, which must be found with its key or its options. A
    `not_checkable` item has fewer than 5 words in total. `checked` counts the items in which each part was searched for.
    """

    ngram: int
    files: tuple[SearchedFile, ...]
    items: int
    checked: Mapping[TextPart, int]
    short: tuple[str, ...]
    not_checkable: tuple[str, ...]
    hits: tuple[Hit, ...]

    @property
    def found(self) -> frozenset[str]:
        """IDs of the items that count as found. For a short item, the stem alone is not enough."""
        weak = {*self.short, *self.not_checkable}
        return frozenset(h.item for h in self.hits if h.item not in weak or h.parts != ("stem",))

    def json(self) -> dict[str, object]:
        """Return the overlap as stored in run.json, so that a run can be judged again without the files."""
        return asdict(self)

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> "Overlap":
        """Return the overlap stored in run.json. Raises `DataError` for any other tree."""
        try:
            return TypeAdapter(cls).validate_python(tree)
        except ValueError:
            raise DataError(
                "run.json: The record of the overlap with text files is damaged. Run the audit again."
            ) from None


def overlap(items: Sequence[Item], paths: Sequence[str | Path], ngram: int = 13) -> Overlap:
    """Search for items in text files.

    Any shared n-gram of words counts, without case and punctuation, as in GPT-3 (arXiv 2005.14165, appendix C) and
    lm-eval. Unlike there, punctuation separates words. A stem of fewer than n words must be found completely, followed
    by its key or its options up to n words in total. Every sequence has at least 5 words. Raise `DataError` if a path
    is not a text file.
    """
    opened = [Path(path) for path in paths]
    require_files(opened)
    stems = [search_words(item.stem.replace(BREAK, " ")) for item in items]
    rows = [list(_windows(item, stem, ngram)) for item, stem in zip(items, stems, strict=True)]
    search = _Search([window for row in rows for _, window in row])
    files = [SearchedFile(path.name, sha256(path), path.stat().st_size, search.read(path)) for path in opened]
    due = [Counter(part for part, _ in row) for row in rows]
    seen = [Counter(part for part, window in row if search.has(window)) for row in rows]
    long = [len(stem) >= ngram for stem in stems]
    silent = [not (long[i] or n["stem_key"] or n["choices"]) for i, n in enumerate(due)]
    return Overlap(
        ngram=ngram,
        files=tuple(files),
        items=len(items),
        checked={part: sum(n[part] > 0 for n in due) for part in PARTS},
        short=tuple(item.id for i, item in enumerate(items) if not (long[i] or silent[i])),
        not_checkable=tuple(item.id for i, item in enumerate(items) if silent[i]),
        hits=tuple(
            Hit(item.id, tuple(p for p in PARTS if found[p]), found["stem"] / n["stem"] if is_long else None)
            for item, found, n, is_long in zip(items, seen, due, long, strict=True)
            if found
        ),
    )


class _Search:
    """Search for windows of words, which are stored as hashes."""

    def __init__(self, windows: Sequence[Words]) -> None:
        self._wanted: dict[tuple[str, ...], set[int]] = {}
        for window in windows:
            self._wanted.setdefault(tuple(window[:FEWEST_WORDS]), set()).add(len(window))
        self._longest = max(map(len, windows), default=FEWEST_WORDS)
        self._found: set[int] = set()

    def read(self, path: Path) -> int:
        """Search a file and return its number of words."""
        tail, n = Words(), 0
        for new in map(search_words, texts(path)):
            n += len(new) - new.count(BREAK)
            words = tail + new
            for at, opening in enumerate(zip(*(words[j:] for j in range(FEWEST_WORDS)), strict=False)):
                for length in self._wanted.get(opening, ()):
                    self._found.add(hash(tuple(words[at : at + length])))
            tail = words[-self._longest + 1 :]
        return n

    def has(self, window: Words) -> bool:
        """Return whether a window was found."""
        return hash(tuple(window)) in self._found


def _windows(item: Item, stem: Words, n: int) -> Iterator[tuple[TextPart, Words]]:
    """Yield each window of words to search for, with the part of the item that it belongs to."""
    choices = [search_words(choice.replace(BREAK, " ")) for choice in item.choices]
    key, n_listed = choices[item.key], sum(map(len, choices))
    if len(stem) >= FEWEST_WORDS:
        length = min(n, len(stem))
        yield from (("stem", stem[at : at + length]) for at in range(len(stem) - length + 1))
    # Datasets and web pages may add a word after the question, and letters around choices.
    for link in ([], ["answer"]) if stem and key and len(stem) + len(key) >= FEWEST_WORDS else ():
        yield "stem_key", _joined([*stem, *link], key, n)
    lettered = list(zip(ascii_lowercase, choices, strict=False))
    for listed in (choices, [[a, *c] for a, c in lettered], [[*c, a] for a, c in lettered]):
        first, rest = listed[0], list(chain.from_iterable(listed[1:]))
        for link in ([], ["choices"], ["options"]):
            if stem and n_listed and len(stem) + n_listed >= FEWEST_WORDS:
                yield "choices", _joined([*stem, *link], [*first, *rest], n)
        if n_listed >= n and first and rest:
            yield "choices", _joined(first, rest, n)


def _joined(head: Words, tail: Words, n: int) -> Words:
    """Return up to n words around a join, half from each side, or more from one side if the other is shorter."""
    take = min(len(tail), max(n // 2, n - len(head)))
    return head[-(n - take) :] + tail[:take]
