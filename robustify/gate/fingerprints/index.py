"""Registering a set: its texts become an index of keyed fingerprints, in which no text stands.

Shingles that ordinary text shares (the standard library of this Python, stock phrases of examinations, folders of
one's own) are left out, because they would refuse harmless files.
"""

import sysconfig
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustify.errors import DataError
from robustify.gate.fingerprints.matching import COVER
from robustify.gate.fingerprints.sealed import Tables
from robustify.gate.fingerprints.shingles import SPAN, Tagger
from robustify.gate.fingerprints.words import words
from robustify.gate.key_file import Key

WHOLE_STEM = 4
"""Words from which a text that reads like a stem is also registered whole."""
WHOLE = 6
"""Words from which any other text is."""
STOCK = Path(__file__).with_name("stock_phrases.txt")
_SHARED = 8
"""Items of a set that may share a shingle before it counts as a stock phrase of that set."""
_BACKGROUND = 12 << 20
_TEXTS = {".py", ".txt", ".rst", ".md"}

Item = Sequence[str]


@dataclass(frozen=True, slots=True)
class Registered:
    """An index and what its making found. `thin` items are recognised whole but not when edited; `blind` items
    are too short, or too much like ordinary text, to be recognised at all."""

    tables: Tables
    items: int
    shingles: int
    dropped: int
    thin: int
    blind: int


@dataclass(frozen=True, slots=True)
class _Read:
    """An item as tags: of all its texts in a row, and of each text that is registered whole (tags, words, HMAC)."""

    tags: list[int]
    marks: set[int]
    wholes: list[tuple[list[int], int, bytes]]


def register(
    sets: Mapping[str, Iterable[Item]], key: Key, background: Iterable[Path] = (), *, library: bool = True
) -> Registered:
    """The index of named sets, each a list of items, each item its texts (stem, choices, ...).

    `background`: files and folders of harmless text; `library`: also Python's own standard library.

    Raises `DataError` (exit 3) where nothing can be registered.
    """
    tagger = Tagger(key)
    names = [(name, [_item(item, tagger) for item in items]) for name, items in sets.items()]
    firsts = [(name, sum(len(before) for _, before in names[:i])) for i, (name, _) in enumerate(names)]
    read = [item for _, items in names for item in items]
    n = len(read)
    ordinary = _ordinary(tagger, {tag for item in read for tag in item.tags}, background, library)
    shared = _shared(read)
    kept, thin, blind = _kept(read, ordinary, shared)
    if blind == n:
        raise DataError(
            f"{n} items, but none has enough text to be recognised; expected questions of {COVER} words or more"
        )
    pairs = sorted((tag, owner) for tag, owners in kept.tags.items() for owner in owners)
    tables = Tables(
        sets=tuple(firsts),
        tags=array("Q", [tag for tag, _ in pairs]),
        owners=array("I", [owner for _, owner in pairs]),
        starts=array("Q", [start for start, _, _, _ in kept.wholes]),
        lengths=array("I", [length for _, length, _, _ in kept.wholes]),
        whole_owners=array("I", [owner for _, _, owner, _ in kept.wholes]),
        marks=array("I", sorted({mark for item in read for mark in item.marks})),
        wholes=b"".join(whole for _, _, _, whole in kept.wholes),
        told={"items": n, "thin": thin, "blind": blind},
    )
    return Registered(tables, n, len(pairs), len(ordinary), thin, blind)


def _item(item: Item, tagger: Tagger) -> _Read:
    parts = [words(text) for text in item]
    longest = max(map(len, parts), default=0)
    wholes = []
    for text, part in zip(item, parts, strict=True):
        stem = len(part) == longest or text.rstrip().endswith("?")
        if len(part) >= (WHOLE_STEM if stem else WHOLE):
            wholes.append((tagger.tags(part), len(part), tagger.whole(part)))
    row = [word for part in parts for word in part]
    return _Read(tagger.tags(row), set(map(tagger.mark, row)), wholes)


def _shared(read: Iterable[_Read]) -> set[int]:
    counts = Counter(tag for item in read for tag in set(item.tags))
    return {tag for tag, n in counts.items() if n > _SHARED}


def _ordinary(tagger: Tagger, wanted: set[int], background: Iterable[Path], library: bool) -> set[int]:
    """The wanted tags that ordinary text holds."""
    found: set[int] = set()
    for text in (STOCK.read_text(encoding="utf-8"), *_background(background, library)):
        for part in text.split("\n\n"):
            found |= wanted.intersection(tagger.tags(words(part)))
    return found


def _background(places: Iterable[Path], library: bool) -> Iterator[str]:
    left = _BACKGROUND
    for path in _files(Path(sysconfig.get_path("stdlib"))) if library else ():
        left -= path.stat().st_size
        if left >= 0:
            yield path.read_text(encoding="utf-8", errors="replace")
    for place in places:
        for path in _files(place):
            yield path.read_text(encoding="utf-8", errors="replace")


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    found = (path for path in place.rglob("*") if path.suffix in _TEXTS and path.is_file())
    return sorted(path for path in found if "site-packages" not in path.parts)


@dataclass(slots=True)
class _Kept:
    """What goes into the index: the owners of each tag, and (start, length, owner, HMAC) of whole texts."""

    tags: dict[int, list[int]]
    wholes: list[tuple[int, int, int, bytes]]


def _kept(read: Sequence[_Read], ordinary: set[int], shared: set[int]) -> tuple[_Kept, int, int]:
    kept = _Kept({}, [])
    thin = blind = 0
    common = ordinary | shared
    for owner, item in enumerate(read):
        # A templated item would be left with nothing: it keeps the shingles that it shares with its likes.
        left_out = common if _cover(item.tags, common) >= COVER + SPAN else ordinary
        for tag in set(item.tags) - left_out:
            owners = kept.tags.setdefault(tag, [])
            if (
                len(owners) < _SHARED
            ):  # the first few stand for all: whoever leaks one of them is found by these
                owners.append(owner)
        wholes = [
            (tags[0], length, owner, whole)
            for tags, length, whole in item.wholes
            if not common.issuperset(tags)
        ]
        kept.wholes += wholes
        if _cover(item.tags, left_out) < COVER + 1:
            thin += bool(wholes)
            blind += not wholes and _cover(item.tags, left_out) < COVER
    return kept, thin, blind


def _cover(tags: Sequence[int], left_out: set[int]) -> int:
    return len({i + j for i, tag in enumerate(tags) if tag not in left_out for j in range(SPAN)})
