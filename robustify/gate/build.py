"""`robustify gate index`: the texts of sets become an index of keyed fingerprints, which holds no text.

Shingles that ordinary text shares (the standard library of this Python, stock phrases of examinations, folders of
one's own) are left out, because they would refuse harmless files. The command says what it cannot recognise.
"""

import csv
import io
import json
import sys
import sysconfig
from argparse import Namespace
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.files import read_regular
from robustify.gate.fingerprints import COVER, SPAN, Tables, Tagger, write_index
from robustify.gate.key_file import Key, load_key
from robustify.gate.policy import legible
from robustify.gate.reading.folding import kept_words

WHOLE_STEM = 4
"""Words from which a text that reads like a stem is also registered whole."""
WHOLE = 6
"""Words from which any other text is."""
_SHARED = 8
"""Items of a set that may share a shingle before it counts as a stock phrase of that set."""
_BACKGROUND = 12 << 20
_MOST_BYTES = 512 << 20
_TEXTS = {".py", ".txt", ".rst", ".md"}

Item = Sequence[str]
"""The texts of an item: stem, choices, anything else."""


@dataclass(frozen=True, slots=True)
class Built:
    """An index and its counts. `thin` items are recognised whole but not when edited; `blind` items
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
    digest: bytes


def build_index(
    sets: Mapping[str, Iterable[Item]], key: Key, background: Iterable[Path] = (), *, library: bool = True
) -> Built:
    """The index of named sets, each a list of items, each item its texts (stem, choices, ...).

    `background`: files and folders of harmless text; `library`: also Python's own standard library.

    Raises `DataError` (exit 3) where nothing can be registered.
    """
    tagger = Tagger(key)
    firsts: list[tuple[str, int]] = []
    read: list[_Read] = []
    for name, items in sets.items():
        firsts.append((name, len(read)))
        # Sorted by their keyed digests: an index does not show the order of the file.
        read += sorted((_item(item, tagger) for item in items), key=lambda item: item.digest)
    n = len(read)
    ordinary = _ordinary(tagger, {tag for item in read for tag in item.tags}, background, library)
    common = ordinary | _shared(read)
    owners_of: dict[int, list[int]] = {}
    wholes: list[tuple[int, int, int, bytes]] = []
    thin = blind = 0
    for owner, item in enumerate(read):
        # A templated item would be left with nothing: it keeps the shingles that it shares with its likes.
        left_out = common if _cover(item.tags, common) >= COVER + SPAN else ordinary
        for tag in set(item.tags) - left_out:
            owners = owners_of.setdefault(tag, [])
            if len(owners) < _SHARED:  # a leak of any other item with this shingle is found by the first few
                owners.append(owner)
        whole = [
            (tags[0], size, owner, mac) for tags, size, mac in item.wholes if not common.issuperset(tags)
        ]
        wholes += whole
        if _cover(item.tags, left_out) < COVER + 1:
            thin += bool(whole)
            blind += not whole and _cover(item.tags, left_out) < COVER
    if blind == n:
        raise DataError(f"of {n} items none has enough text; expected questions of {COVER} words or more")
    pairs = sorted((tag, owner) for tag, owners in owners_of.items() for owner in owners)
    starts, lengths, whole_owners, macs = zip(*wholes, strict=True) if wholes else ((), (), (), ())
    tables = Tables(
        sets=tuple(firsts),
        tags=array("Q", [tag for tag, _ in pairs]),
        owners=array("I", [owner for _, owner in pairs]),
        starts=array("Q", starts),
        lengths=array("I", lengths),
        whole_owners=array("I", whole_owners),
        marks=array("I", sorted({mark for item in read for mark in item.marks})),
        wholes=b"".join(macs),
    )
    return Built(tables, n, len(pairs), len(ordinary), thin, blind)


def _item(item: Item, tagger: Tagger) -> _Read:
    parts = [kept_words(text) for text in item]
    longest = max(map(len, parts), default=0)
    wholes = []
    for text, part in zip(item, parts, strict=True):
        stem = len(part) == longest or text.rstrip().endswith("?")
        if len(part) >= (WHOLE_STEM if stem else WHOLE):
            wholes.append((tagger.tags(part), len(part), tagger.whole(part)))
    row = [word for part in parts for word in part]
    return _Read(tagger.tags(row), set(map(tagger.mark, row)), wholes, tagger.whole(row))


def _shared(read: Iterable[_Read]) -> set[int]:
    counts = Counter(tag for item in read for tag in set(item.tags))
    return {tag for tag, n in counts.items() if n > _SHARED}


def _ordinary(tagger: Tagger, wanted: set[int], background: Iterable[Path], library: bool) -> set[int]:
    """The wanted tags that ordinary text holds."""
    ordinary: set[int] = set()
    lexicon = json.loads(Path(__file__).with_name("lexicon.json").read_text(encoding="utf-8"))
    for text in ("\n".join(lexicon["stock_phrases"]), *_background(background, library)):
        for part in text.split("\n\n"):
            ordinary |= wanted.intersection(tagger.tags(kept_words(part)))
    return ordinary


def _background(places: Iterable[Path], library: bool) -> Iterator[str]:
    left = _BACKGROUND
    for path in _files(Path(sysconfig.get_path("stdlib"))) if library else ():
        left -= path.stat().st_size
        if left >= 0:
            yield path.read_text(encoding="utf-8", errors="replace")
    for path in (path for place in places for path in _files(place)):
        yield path.read_text(encoding="utf-8", errors="replace")


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    paths = (path for path in place.rglob("*") if path.suffix in _TEXTS and path.is_file())
    return sorted(path for path in paths if "site-packages" not in path.parts)


def _cover(tags: Sequence[int], left_out: set[int]) -> int:
    return len({i + j for i, tag in enumerate(tags) if tag not in left_out for j in range(SPAN)})


def read_texts(path: Path) -> list[Item]:
    """The items of a file, each as its strings. Raises `DataError` (exit 3) where it cannot be read.

    Every JSON object of a list (or line) is an item, every row of a CSV or TSV file, every paragraph of a plain text.
    All strings of an item count, whatever its layout: nothing here needs to know which one is the stem.
    """
    try:
        text = read_regular(path, _MOST_BYTES, follow=True).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{str(path)!a} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{str(path)!a} is not UTF-8 text; expected JSON, JSONL, CSV, TSV or plain text, not a packed format"
        ) from None
    items = [item for item in _items(path, text) if item]
    if not items:
        raise DataError(f"{str(path)!a} holds no text to register")
    return items


def _items(path: Path, text: str) -> Iterator[Item]:
    match path.suffix.lower():
        case ".json":
            yield from _records(_json(path, text, 1))
        case ".jsonl" | ".ndjson":
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    yield tuple(_strings(_json(path, line, number)))
        case ".csv" | ".tsv":
            delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
            csv.field_size_limit(1 << 30)
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
                yield tuple(cell for cell in row if cell.strip())
        case _:
            yield from ((part,) for part in text.split("\n\n") if part.strip())


def _json(path: Path, text: str, line: int) -> object:
    try:
        tree: object = json.loads(text)
    except ValueError:
        raise DataError(f"{str(path)!a}:{line}: is not JSON; expected one value") from None
    except RecursionError:
        raise DataError(f"{str(path)!a}:{line}: is nested too deep") from None
    return tree


def _records(tree: object) -> Iterator[Item]:
    """The records of a document: the members of its longest list of objects or lists, or the document itself."""
    lists = [tree] if isinstance(tree, list) else []
    if isinstance(tree, dict):
        lists = [value for value in tree.values() if isinstance(value, list) and value]
    longest = max(lists, key=len, default=[])
    if longest and all(isinstance(member, dict | list) for member in longest):
        for member in longest:
            yield tuple(_strings(member))
    else:
        yield tuple(_strings(tree))


def _strings(tree: object) -> Iterator[str]:
    match tree:
        case str():
            yield tree
        case dict():
            yield from _strings(list(tree.values()))
        case list():
            for value in tree:
                yield from _strings(value)


def index_command(asked: Namespace) -> int:
    """Register the sets and write the index. Raises `AuthorisationError` without a key, `DataError` for bad files."""
    key = load_key(asked.key)
    if key is None:
        raise AuthorisationError("no key for the index; expected --key FILE (make one: robustify key new)")
    sets: dict[str, list[Item]] = {}
    for name in asked.items:
        sets.setdefault(asked.name or Path(name).stem, []).extend(read_texts(Path(name)))
    background = [Path(name) for name in asked.background]
    if missing := [legible(str(path)) for path in background if not path.exists()]:
        raise UsageError(f"no such background: {', '.join(missing)}")
    built = build_index(sets, key, background)
    write_index(Path(asked.out), built.tables, key)
    summary = {
        "index": asked.out,
        "key_id": key.id,
        "sets": {name: len(items) for name, items in sets.items()},
        "shingles": built.shingles,
        "left_out_as_ordinary": built.dropped,
        "recognised_whole_only": built.thin,
        "not_recognised": built.blind,
    }
    if asked.json:
        print(json.dumps(summary))
        return 0
    print(f"{legible(asked.out)}: {built.items:,} items, {built.shingles:,} shingles, key {key.id}")
    if built.thin or built.blind:
        print(
            f"robustify gate: {built.thin:,} items are recognised only verbatim, {built.blind:,} not at all: too short,"
            " or too much like ordinary text",
            file=sys.stderr,
        )
    return 0
