"""Search for items that occur verbatim in text files: plain text or JSON Lines in UTF-8, compressed or not.

A hit means that a file contains the words of an item, which is no proof of training on it. No hit says nothing about other
files, or about a paraphrase, translation or picture of the item. The files are therefore recorded with the hits.
"""

import io
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Literal, TextIO

import numpy as np
from pydantic import TypeAdapter

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.compressed import DAMAGED, unpacked
from robustify.base.errors import DataError, Notice
from robustify.base.files import sha256
from robustify.base.texts import in_words
from robustify.items.item import Item
from robustify.judging.baselines.wording import FEWEST_WORDS, FUNCTION_WORDS
from robustify.judging.stats.intervals import rate, wilson
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.result import Contamination, ShortMode, TextFile, TextOverlap

TextPart = Literal["stem", "stem_key", "choices"]
PARTS: tuple[TextPart, ...] = ("stem", "stem_key", "choices")
Words = list[str]
BREAK = "\x01"
"""A word that separates unrelated texts."""
PIECE = 1 << 18
"""Approximate number of characters to read at once."""
_NO_SPACES = "\u3041-\u3096\u309d-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_DOCUMENT = re.compile(r'\s*(?:\[\s*[\[{"]|\{\s*")')
_WANTED = "expected plain text or JSON Lines in UTF-8, compressed or not"


@dataclass(frozen=True, slots=True)
class Hit:
    """Item with the parts that were found. `coverage` is the share of the stem's n-grams found, or None without any."""

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
    files: tuple[TextFile, ...]
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
        return dict(TypeAdapter(Overlap).dump_python(self))

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> "Overlap":
        """Return the overlap stored in run.json. Raises `DataError` for any other tree."""
        try:
            return TypeAdapter(cls).validate_python(tree)
        except ValueError:
            raise DataError(
                "run.json: the record of the overlap with text files is damaged. Run the audit again.",
                code="damaged-overlap-record",
            ) from None


def overlap(items: Sequence[Item], paths: Sequence[str | Path], ngram: int = 13) -> Overlap:
    """Search for items in text files.

    Any shared n-gram of words counts, without case and punctuation, as in GPT-3 (arXiv 2005.14165, appendix C) and lm-eval.
    Unlike there, punctuation separates words. A stem of fewer than n words must be found completely, followed by its key or
    its options up to n words in total. Every sequence has at least 5 words. Raise `DataError` if a path is not a text file.
    """
    sources = [Path(path) for path in paths]
    require_files(sources)
    stems = [search_words(item.stem.replace(BREAK, " ")) for item in items]
    rows = [list(_windows(item, stem, ngram)) for item, stem in zip(items, stems, strict=True)]
    search = _Search([window for row in rows for _, window in row])
    files = [
        TextFile(name=path.name, sha256=sha256(path), bytes=path.stat().st_size, words=search.read(path))
        for path in sources
    ]
    due = [Counter(part for part, _ in row) for row in rows]
    n_found = [Counter(part for part, window in row if search.has(window)) for row in rows]
    is_long = [len(stem) >= ngram for stem in stems]
    silent = [not (is_long[i] or counts["stem_key"] or counts["choices"]) for i, counts in enumerate(due)]
    return Overlap(
        ngram=ngram,
        files=tuple(files),
        items=len(items),
        checked={part: sum(counts[part] > 0 for counts in due) for part in PARTS},
        short=tuple(item.id for i, item in enumerate(items) if not (is_long[i] or silent[i])),
        not_checkable=tuple(item.id for i, item in enumerate(items) if silent[i]),
        hits=tuple(
            Hit(
                item.id,
                tuple(p for p in PARTS if found_parts[p]),
                found_parts["stem"] / n["stem"] if long else None,
            )
            for item, found_parts, n, long in zip(items, n_found, due, is_long, strict=True)
            if found_parts
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
        for piece in map(search_words, texts(path)):
            n += len(piece) - piece.count(BREAK)
            words = tail + piece
            for start, opening in enumerate(zip(*(words[j:] for j in range(FEWEST_WORDS)), strict=False)):
                for length in self._wanted.get(opening, ()):
                    self._found.add(hash(tuple(words[start : start + length])))
            tail = words[-self._longest + 1 :]
        return n

    def has(self, window: Words) -> bool:
        """Return whether a window was found in a file that was read."""
        return hash(tuple(window)) in self._found


def _windows(item: Item, stem: Words, n: int) -> Iterator[tuple[TextPart, Words]]:
    """Yield each window of words to search for, with the part of the item that it belongs to."""
    choices = [search_words(choice.replace(BREAK, " ")) for choice in item.choices]
    key, n_listed = choices[item.key], sum(map(len, choices))
    if len(stem) >= FEWEST_WORDS:
        length = min(n, len(stem))
        yield from (("stem", stem[start : start + length]) for start in range(len(stem) - length + 1))
    # Datasets and web pages may add a word after the question, and letters around choices.
    for link in ([], ["answer"]) if stem and key and len(stem) + len(key) >= FEWEST_WORDS else ():
        yield "stem_key", _joined([*stem, *link], key, n)
    lettered = list(zip(ascii_lowercase, choices, strict=False))
    for listing in (choices, [[a, *c] for a, c in lettered], [[*c, a] for a, c in lettered]):
        first, others = listing[0], list(chain.from_iterable(listing[1:]))
        for link in ([], ["choices"], ["options"]):
            if stem and n_listed and len(stem) + n_listed >= FEWEST_WORDS:
                yield "choices", _joined([*stem, *link], [*first, *others], n)
        if n_listed >= n and first and others:
            yield "choices", _joined(first, others, n)


def _joined(head: Words, tail: Words, n: int) -> Words:
    """Return up to n words around a join, half from each side, or more from one side if the other is shorter."""
    take = min(len(tail), max(n // 2, n - len(head)))
    return head[-(n - take) :] + tail[:take]


def contamination(
    overlap: Overlap | None, ids: Sequence[str], kept: Bools, flagged: Bools, groups: Ints | None = None
) -> Contamination | None:
    """Summarize which of the items (`ids`) occur in the files. Long items are searched by n-grams, short ones as complete
    texts.

    `in_kept` and `in_flagged` combine both modes. Items too short to check are left out of all rates. Items of a group (n,)
    depend on each other. Raise `DataError` if the overlap was computed on other items.
    """
    if overlap is None:
        return None

    def measured(values: Floats | Bools, mask: Bools) -> Quantity:
        return Quantity.from_rate(
            rate(values[mask].astype(np.float64), None if groups is None else groups[mask])
        )

    unsearchable, short, is_found = (
        np.array([name in names for name in ids], dtype=bool)
        for names in map(frozenset, (overlap.not_checkable, overlap.short, overlap.found))
    )
    if overlap.items != len(ids) or unsearchable.sum() + short.sum() != len(overlap.not_checkable) + len(
        overlap.short
    ):
        raise DataError(
            f"run.json: the text overlap was computed on {overlap.items} items that differ from the {len(ids)} items "
            "to judge. Run robustify again on the items to judge.",
            code="overlap-of-other-items",
        )
    covered = {h.item: h.coverage for h in overlap.hits}
    coverage = np.array([covered.get(name) or 0.0 for name in ids], dtype=np.float64)
    by_ngrams = ~unsearchable & ~short
    entry = TextOverlap(
        files=overlap.files,
        ngram=overlap.ngram,
        n=int(by_ngrams.sum()),
        found=measured(is_found, by_ngrams),
        short_mode=ShortMode(n=int(short.sum()), found=measured(is_found, short)),
        not_checkable=int(unsearchable.sum()),
        coverage=measured(coverage, by_ngrams),
        parts={p: _share(sum(p in h.parts for h in overlap.hits), overlap.checked[p]) for p in PARTS},
        in_kept=measured(is_found, kept & ~unsearchable),
        in_flagged=measured(is_found, flagged & ~unsearchable),
        items=tuple(name for name, is_there in zip(ids, is_found.tolist(), strict=True) if is_there),
    )
    return Contamination(overlap=entry)


def _share(x: int, n: int) -> Quantity:
    return Quantity(value=x / n, n=n, ci=wilson(x, n)) if n else Quantity(n=0)


def search_words(text: str) -> list[str]:
    """Return the words of a text after NFKC and case folding. A Chinese character or a kana is a separate word."""
    return _pattern().findall(in_words(text))


def likeness_by_words(question: str, other: str) -> float:
    """Return the Dice coefficient of two questions' words, ignoring function words."""
    a, b = (set(search_words(text)) - FUNCTION_WORDS for text in (question, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


@cache
def _pattern() -> re.Pattern[str]:
    marks = "".join(c for c in map(chr, range(0x300, 0x1F000)) if unicodedata.category(c).startswith("M"))
    return re.compile(rf"[{_NO_SPACES}]|(?:[^\W_{_NO_SPACES}]|[{marks}])+|{BREAK}")


def require_files(paths: Sequence[Path]) -> None:
    """Check that every path is a nonempty file, before any file is read. Raise `DataError` with one line for each fault."""
    if bad := [path for path in paths if not (os.path.isfile(path) and os.path.getsize(path))]:
        lines = (f"{path} does not exist, is not a regular file, or is empty; {_WANTED}." for path in bad)
        raise DataError.gather([Notice(line, code="missing-text-file") for line in lines])


def texts(path: Path) -> Iterator[str]:
    """Yield pieces of plain text, or the `text` field of each JSON line (all values if there is no such field).

    A `BREAK` follows each JSON line. Raises `DataError` if the file is empty, damaged, binary, not UTF-8, or other JSON.
    """
    try:
        with path.open("rb") as raw:
            yield from _texts(path, io.TextIOWrapper(unpacked(raw), encoding="utf-8-sig", newline="\n"))
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is not UTF-8 text; {_WANTED} (run `iconv -t UTF-8`).", code="not-utf-8"
        ) from None
    except DAMAGED as error:
        raise DataError(
            f"{path} is damaged or unreadable ({type(error).__name__}); {_WANTED}.",
            code="unreadable-text-file",
        ) from None


def _texts(path: Path, text: TextIO) -> Iterator[str]:
    head = next((line for line in iter(partial(text.readline, PIECE), "") if line.strip()), "")
    if not head or "\0" in head or head.startswith("version https://git-lfs"):
        raise DataError(
            f"{path} contains only white space, is binary, or is a Git LFS pointer; {_WANTED}.",
            code="not-a-text-file",
        )
    if head.lstrip().startswith("{") and not head.endswith("\n"):
        head += text.readline()
    if _record(head) is None:
        head += text.readline(PIECE)
        if _DOCUMENT.match(head):
            entries = "'.[]'" if head.lstrip().startswith("[") else "."
            raise DataError(
                f"{path} is JSON, but its first line is not a complete object; {_WANTED}. To write JSON Lines, run "
                f"`jq -c {entries} {path}`.",
                code="not-json-lines",
            )
        while more := text.read(PIECE):
            end = max(more.rfind(" "), more.rfind("\n")) + 1
            yield head + more[:end]
            head = more[end:]
        yield head
        return
    n_faults = 0
    for line in chain([head], text):
        record = _record(line)
        n_faults += bool(record is None and line.strip())
        if record is not None:
            text_field = record.get("text")
            yield text_field if isinstance(text_field, str) else " ".join(_values(record))
            yield BREAK
    if n_faults:
        raise DataError(
            f"{path}: {n_faults} lines are not JSON objects; expected one object per line.",
            code="not-json-lines",
        )


def _values(value: object) -> Iterator[str]:
    match value:
        case dict() | list():
            members = value.values() if isinstance(value, dict) else value
            yield from chain.from_iterable(map(_values, members))
        case str() | int() | float():
            yield str(value)


def _record(line: str) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
