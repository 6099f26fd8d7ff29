"""Which items occur, word for word, in text files that the user names.

A hit says that a text contains the words of an item. No hit says nothing about other texts, nor about a paraphrase,
a translation or a picture of the item; so the files are recorded beside the hits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from robustify.arrays import Bools
from robustify.errors import DataError
from robustify.item import Item
from robustify.ngrams.search import BREAK, FEWEST_WORDS, Search, windows_of, word_codes
from robustify.ngrams.text_files import read_text, require_files

Part = Literal["stem", "stem_key", "choices"]
PARTS: tuple[Part, ...] = ("stem", "stem_key", "choices")

# What datasets and web pages write between a question and what follows it.
_TO_THE_KEY = ("", "answer")
_TO_THE_CHOICES = ("", "choices", "options")


class ContaminationSettings(BaseModel):
    """`files` in which the items are looked for, and how many words in a row count as found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[str, ...] = Field(min_length=1)
    ngram: int = Field(default=13, ge=FEWEST_WORDS, le=50)

    @field_validator("files")
    @classmethod
    def _each_once(cls, files: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(files)) < len(files):
            raise ValueError("a file stands twice; expected each once")
        return files


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that was read to its end; `name` without its folder."""

    name: str
    sha256: str
    bytes: int
    words: int


@dataclass(frozen=True, slots=True)
class Hit:
    """An item of which something was found: which parts, and the share of its stem's n-grams.

    `stem`: n of its words in a row, or a shorter stem as a whole. `stem_key`: the key right after the stem.
    `choices`: the options one after the other, right after the stem or, where they are long enough, alone.
    `coverage` is None for a stem shorter than an n-gram.
    """

    item: str
    parts: tuple[Part, ...]
    coverage: float | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """What was looked for in which files, and what was found: ids and numbers, no text.

    `items` of which `short` (a stem of fewer than `ngram` words: it must be found with its key or its options)
    and `not_checkable` (fewer than 5 words in all); the others were checked by n-grams. `checked`: of how many
    items each part was looked for.
    """

    ngram: int
    files: tuple[TextFile, ...]
    items: int
    checked: Mapping[Part, int]
    short: tuple[str, ...]
    not_checkable: tuple[str, ...]
    hits: tuple[Hit, ...]

    @property
    def found(self) -> frozenset[str]:
        """The items that count as found: of a short one its stem alone is not enough."""
        weak = {*self.short, *self.not_checkable}
        return frozenset(h.item for h in self.hits if h.item not in weak or h.parts != ("stem",))

    def json(self) -> dict[str, object]:
        """As it is kept in run.json, so that a run is judged again without the files."""
        return asdict(self)

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> "Overlap":
        """The reverse of `json`.

        Raises:
            DataError: a tree that `json` did not make.
        """
        try:
            return TypeAdapter(cls).validate_python(tree)
        except ValueError as error:
            raise DataError(
                f"run.json: the overlap with text files is damaged ({type(error).__name__}); "
                "expected it as the run left it: run it again"
            ) from None


def overlap(
    items: Sequence[Item],
    paths: Sequence[str | Path],
    ngram: int = 13,
    progress: Callable[[int], None] | None = None,
) -> Overlap:
    """Look for the items in these files; `progress` is called with the bytes read (of a gzip file: packed ones).

    n-grams of lower-cased words without punctuation, any of which counts, as in GPT-3 (arXiv 2005.14165,
    appendix C) and lm-eval; but punctuation separates words here, which those two delete. White space and line
    breaks do not matter. A stem of fewer than n words must be found whole, followed by its key or its options,
    as far as n words go, and such a sequence has at least 5. A word that a hyphen breaks at the end of a line
    is not put together.

    Raises:
        DataError: what is no text file, with its path and what to do about it.
    """
    places = [Path(path) for path in paths]
    require_files(places)
    spelled = [_Spelled.of(item) for item in items]
    rows = [(i, *row) for i, item in enumerate(spelled) for row in item.sequences(ngram)]
    search = Search(windows_of([(words, length) for _, _, words, length in rows]))
    files = []
    for path in places:
        search.restart()
        sha256, size = read_text(path, search.see, progress)
        files.append(TextFile(path.name, sha256, size, search.words))
    cell = np.array([len(PARTS) * i + PARTS.index(part) for i, part, _, _ in rows], dtype=np.int64)
    seen, due = (
        np.bincount(cell, weights=counts, minlength=len(PARTS) * len(items)).reshape(-1, len(PARTS))
        for counts in search.counted()
    )
    long = np.array([len(s.stem) >= ngram for s in spelled], dtype=bool)
    silent = ~long & ~due[:, 1:].any(axis=1)

    def ids(mask: Bools) -> tuple[str, ...]:
        return tuple(items[i].id for i in np.flatnonzero(mask).tolist())

    def hit(i: int) -> Hit:
        parts = tuple(part for p, part in enumerate(PARTS) if seen[i, p])
        return Hit(items[i].id, parts, float(seen[i, 0] / due[i, 0]) if long[i] else None)

    return Overlap(
        ngram=ngram,
        files=tuple(files),
        items=len(items),
        checked={part: int(np.count_nonzero(due[:, p])) for p, part in enumerate(PARTS)},
        short=ids(~long & ~silent),
        not_checkable=ids(silent),
        hits=tuple(hit(i) for i in np.flatnonzero(seen.any(axis=1)).tolist()),
    )


@dataclass(frozen=True, slots=True, repr=False)
class _Spelled:
    """The word codes of an item: of its stem, of each choice, and of the choice that is the key."""

    stem: list[int]
    choices: list[list[int]]
    key: list[int]

    @classmethod
    def of(cls, item: Item) -> "_Spelled":
        texts = [text.replace(BREAK, " ") for text in (item.stem, *item.choices)]
        words: list[list[int]] = [[]]
        for code in word_codes(f" {BREAK} ".join(texts)).tolist():
            if code:
                words[-1].append(code)
            else:
                words.append([])
        return cls(words[0], words[1:], words[1:][item.key])

    def sequences(self, n: int) -> Iterator[tuple[Part, list[int], int]]:
        """What is looked for: the part it belongs to, its words, and how many of them in a row are enough."""
        listed = [word for choice in self.choices for word in choice]
        if len(self.stem) >= FEWEST_WORDS:
            yield "stem", self.stem, min(n, len(self.stem))
        for link in _TO_THE_KEY if _enough(self.stem, self.key) else ():
            yield _whole("stem_key", _joined([*self.stem, *_word(link)], self.key, n))
        letters = [_word(letter) for letter in ascii_lowercase[: len(self.choices)]]
        pairs = list(zip(letters, self.choices, strict=True))
        before, after = [[*c, *text] for c, text in pairs], [[*text, *c] for c, text in pairs]
        for choices in (self.choices, before, after):
            first, rest = choices[0], [word for choice in choices[1:] for word in choice]
            for link in _TO_THE_CHOICES if _enough(self.stem, listed) else ():
                yield _whole("choices", _joined([*self.stem, *_word(link)], [*first, *rest], n))
            if len(listed) >= n and first and rest:
                yield _whole("choices", _joined(first, rest, n))


@cache
def _word(word: str) -> tuple[int, ...]:
    return tuple(word_codes(word).tolist())


def _enough(head: list[int], tail: list[int]) -> bool:
    return bool(head and tail) and len(head) + len(tail) >= FEWEST_WORDS


def _joined(head: list[int], tail: list[int], n: int) -> list[int]:
    """The words around a join, n of them or all: half from either side, more where the other side has less."""
    take = min(len(tail), max(n // 2, n - len(head)))
    return head[-(n - take) :] + tail[:take]


def _whole(part: Part, words: list[int]) -> tuple[Part, list[int], int]:
    return part, words, len(words)
