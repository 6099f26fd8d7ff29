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
from robustify.gate.words import kept_words, lexicon_file

WHOLE_STEM, WHOLE = 4, 6
"""Words from which a text that reads like a stem, or any other text, is also registered whole."""
_SHARED = 8
"""Items of a set that may share a shingle before it counts as a stock phrase of that set."""
_BACKGROUND = 12 << 20
_MOST_BYTES = 512 << 20

Item = Sequence[str]
"""The texts of an item: stem, choices, anything else."""


@dataclass(frozen=True, slots=True)
class Built:
    """An index and its counts. `thin` items are recognised whole but not when edited; `blind` items are too short, or
    too much like ordinary text, to be recognised at all."""

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
    """Return the index of named sets. `background`: files and folders of harmless text; `library`: also Python's own.

    Raises:
        DataError: nothing can be registered.
    """
    tagger = Tagger(key)
    firsts: list[tuple[str, int]] = []
    read: list[_Read] = []
    for name, items in sets.items():
        firsts.append((name, len(read)))
        # Sorted by their keyed digests: an index does not show the order of the file.
        read += sorted((_item(item, tagger) for item in items), key=lambda item: item.digest)
    ordinary = _ordinary(tagger, {tag for item in read for tag in item.tags}, background, library)
    counts = Counter(tag for item in read for tag in set(item.tags))
    common = ordinary | {tag for tag, n in counts.items() if n > _SHARED}
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
        cover = _cover(item.tags, left_out)
        thin += bool(whole) and cover <= COVER
        blind += not whole and cover < COVER
    if blind == len(read):
        raise DataError(
            f"of {len(read)} items none has enough text; expected questions of {COVER} words or more"
        )
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
    return Built(tables, len(read), len(pairs), len(ordinary), thin, blind)


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


def _ordinary(tagger: Tagger, wanted: set[int], background: Iterable[Path], library: bool) -> set[int]:
    """Return the wanted tags that ordinary text holds."""
    files = [path for place in background for path in ([place] if place.is_file() else _files(place))]
    left = _BACKGROUND
    for path in _files(Path(sysconfig.get_path("stdlib"))) if library else ():
        left -= path.stat().st_size
        files += [path] if left >= 0 else []
    ordinary: set[int] = set()
    for text in (
        "\n\n".join(lexicon_file()["stock_phrases"]),
        *(p.read_text("utf-8", "replace") for p in files),
    ):
        for part in text.split("\n\n"):
            ordinary |= wanted.intersection(tagger.tags(kept_words(part)))
    return ordinary


def _files(place: Path) -> list[Path]:
    texts = (
        path for kind in ("py", "txt", "rst", "md") for path in place.rglob(f"*.{kind}") if path.is_file()
    )
    return sorted(path for path in texts if "site-packages" not in path.parts)


def _cover(tags: Sequence[int], left_out: set[int]) -> int:
    return len({i + j for i, tag in enumerate(tags) if tag not in left_out for j in range(SPAN)})


def read_texts(path: Path) -> list[Item]:
    """Return the items of a file, each as its strings. Raises `DataError` (exit 3) if it cannot be read.

    Every JSON object of a list (or line) is an item, every row of a CSV or TSV file, every paragraph of a plain text.
    All strings of an item count, whatever its layout: nothing here needs to know which one is the stem.
    """
    shown = f"{str(path)!a}"
    try:
        text = read_regular(path, _MOST_BYTES, follow=True).decode("utf-8-sig")
        items = [item for item in _items(path.suffix.lower(), text) if item]
    except OSError as error:
        raise DataError(f"{shown} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(f"{shown} is not UTF-8 text; expected JSON, JSONL, CSV, TSV or plain text") from None
    except (ValueError, RecursionError):
        raise DataError(f"{shown} is not JSON as its name says, or is nested too deep") from None
    if not items:
        raise DataError(f"{shown} holds no text to register")
    return items


def _items(suffix: str, text: str) -> Iterator[Item]:
    match suffix:
        case ".json":
            tree = json.loads(text)
            lists = (
                [tree] if isinstance(tree, list) else list(tree.values()) if isinstance(tree, dict) else []
            )
            longest = max((one for one in lists if isinstance(one, list)), key=len, default=[])
            whole = not longest or not all(isinstance(member, dict | list) for member in longest)
            yield from (tuple(_strings(member)) for member in ([tree] if whole else longest))
        case ".jsonl" | ".ndjson":
            yield from (tuple(_strings(json.loads(line))) for line in text.split("\n") if line.strip())
        case ".csv" | ".tsv":
            csv.field_size_limit(1 << 30)
            rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",")
            yield from (tuple(cell for cell in row if cell.strip()) for row in rows)
        case _:
            yield from ((part,) for part in text.split("\n\n") if part.strip())


def _strings(tree: object) -> Iterator[str]:
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    yield from (text for value in inner for text in _strings(value))
    if isinstance(tree, str):
        yield tree


def index_command(asked: Namespace) -> int:
    """Register the sets and write the index. Raises `AuthorisationError` without a key, `DataError` for bad files."""
    key = load_key(asked.key)
    if key is None:
        raise AuthorisationError("no key for the index; expected --key FILE (robustify restricted key new)")
    sets: dict[str, list[Item]] = {}
    for name in asked.items:
        sets.setdefault(asked.name or Path(name).stem, []).extend(read_texts(Path(name)))
    background = [Path(name) for name in asked.background]
    if missing := [legible(str(path)) for path in background if not path.exists()]:
        raise UsageError(f"no such background: {', '.join(missing)}")
    built = build_index(sets, key, background)
    write_index(Path(asked.out), built.tables, key)
    print(f"{legible(asked.out)}: {built.items:,} items, {built.shingles:,} shingles, key {key.id}")
    if built.thin or built.blind:
        print(
            f"robustify gate: {built.thin:,} items are recognised only verbatim, {built.blind:,} not at all: too short,"
            " or too much like ordinary text",
            file=sys.stderr,
        )
    return 0
