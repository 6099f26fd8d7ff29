"""The structure layer counts shapes of items in a file; the lexicon layer counts terms of controlled categories.

One shape that says which choice is right refuses, or three of any kind; fewer are a warning, which the lexicon raises
to a refusal. A shape is counted once, in whichever form of a text it shows. The lexicon alone refuses nothing: a
policy brief says its words too. It is a reviewed file of regimes and categories, never of a controlled list.

Also here: what of robustify's own must not be committed, and the canary lines of benchmarks. Keys, the caches and
records of a user's machine, and the record of a restricted run are refused; a hashed split may be committed, and then
it has the keys of its format and nothing else.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import islice
from pathlib import Path

from robustify.gate.detect.named import named_items
from robustify.gate.detect.prose import prose_items
from robustify.gate.detect.records import Shaped, json_items, shape_of
from robustify.gate.detect.tabular import table_items
from robustify.gate.reading import DecodedText
from robustify.gate.reading.folding import Stream, streams
from robustify.gate.reading.unpack import ColumnNames

ENOUGH = 3
"""Shapes without a key that refuse a file."""
LEXICON_FILE = Path(__file__).parents[1] / "lexicon.json"
LEAST_TERMS = 2
"""Different terms that make a file one about controlled categories."""
_DETECTORS: tuple[tuple[str, Callable[[str], Iterator[Shaped]]], ...] = (
    ("RBG101", json_items), ("RBG101", named_items), ("RBG102", table_items), ("RBG103", prose_items),
)  # fmt: skip
_MOST = 5000
_PLAIN = {ord(wide): narrow for wide, narrow in zip("？؟：）（．，、　", "??:)(.,, ", strict=True)}
"""Marks of other scripts; their letters A to J are read as the plain ones too."""
_PLAIN |= {0xFF21 + i: chr(65 + i) for i in range(10)}
_WIDE = re.compile(f"[{''.join(map(chr, _PLAIN))}]")
Sighting = tuple[str, int, str]
"""The id of a rule, an offset, and what to say."""

SPLIT = "robustify.hashed-split/1"
_PRIVATE = {
    "robustify.registered/1": "(the record of registered sets, with its secret)",
    "robustify.licences/1": "(the record of accepted terms)",
    "robustify.release-draft/1": "(the draft of a release, with digests of items)",
}
_LEDGER = f'"format":"{"robustify.ledger/1"}"'
"""The first line of a ledger, which is no JSON as a whole."""
_MARKS = (('"robustify.',), ('"sensitivity"', '"restricted"'), ('"release"', '"evaluator"'))
"""Each of our documents holds all marks of one of these."""
_SPLIT_KEYS = {"format", "dataset", "dataset_version", "split", "canon", "key_id", "n", "ids"}
KEYED_ID = re.compile(r"rb1_[a-z2-7]{26}(?![a-z0-9])")
_MANY_IDS = 5
"""Keyed ids outside a hashed split that are more than an example."""
_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_EVALUATOR = re.compile(r"release[\s_-]+level[\s:=\"'_*-]+evaluator\b", re.I)
"""The mark that every page and table of the evaluator's own level carries."""
_CANARY = re.compile(
    r"canary\s+(?:guid|string|token)\W{1,6}[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I
)
_CORPORA = re.compile(r"benchmark\s+data\s+should\s+never\s+appear\s+in\s+training\s+corpora", re.I)
_CANARY_WORDS = ("anary", "ANARY", "nchmark data", "BENCHMARK DATA", "nchmark Data")


@dataclass(slots=True)
class Shapes:
    """What the structure layer saw in a file: for each content and rule the most shapes that one detector found."""

    _found: dict[tuple[int, str], list[Shaped]] = field(default_factory=dict)

    def look(self, reading: DecodedText) -> None:
        """Count the shapes of one reading."""
        if reading.words:
            return
        text = reading.text
        if not text.isascii() and _WIDE.search(text):  # the map alone costs a hundred times as much
            text = text.translate(_PLAIN)
        for rule, detector in _DETECTORS[-1:] if reading.joined else _DETECTORS:
            if detector is named_items and self._found.get((reading.source, rule)):
                continue  # the parsed records are counted already, and better
            items = [
                Shaped(reading.line_at(shaped.line), shaped.keyed)
                for shaped in islice(detector(text), _MOST)
                if shaped.keyed or not reading.joined  # strings of a program make up lists by chance
            ]
            if items and _weight(items) > _weight(self._found.get((reading.source, rule), [])):
                self._found[reading.source, rule] = items

    def count(self, columns: ColumnNames) -> None:
        """Count the rows of a packed table whose columns name a stem and choices."""
        shape = shape_of(columns.names)
        if shape.is_item:
            self._found[0, "RBG102"] = [Shaped(1, shape.key)] * min(columns.rows, _MOST)

    def verdict(self) -> tuple[str, int, str] | None:
        """The rule, the first line and the words: a refusal, a warning (RBG104), or None."""
        best: dict[int, tuple[str, list[Shaped]]] = {}
        for (source, rule), items in self._found.items():
            if source not in best or _weight(items) > _weight(best[source][1]):
                best[source] = rule, items
        if not best:
            return None
        shapes = [shaped for _, items in best.values() for shaped in items]
        keyed_ones = sum(shaped.keyed for shaped in shapes)
        rule, strongest = max(best.values(), key=lambda pair: _weight(pair[1]))
        first, last = min(s.line for s in strongest), max(s.line for s in shapes)
        where = f", to line {last}" if last > first else ""
        n = len(shapes)
        says = f"({n}{'+' if n >= _MOST else ''} shaped like an item, {keyed_ones} with a key{where})"
        return (rule if keyed_ones or n >= ENOUGH else "RBG104"), first, says


def _weight(items: list[Shaped]) -> tuple[int, int]:
    return sum(shaped.keyed for shaped in items), len(items)


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
                matches = [term for term in self.terms[first] if tuple(words[at : at + len(term)]) == term]
                found |= {max(matches, key=len)} if matches else set()
        return len(found)


@cache
def lexicon() -> Lexicon:
    """The shipped lexicon."""
    data = json.loads(LEXICON_FILE.read_text(encoding="utf-8"))
    terms: dict[bytes, list[tuple[bytes, ...]]] = {}
    for term in (*data["regimes"], *data["categories"]):
        parts = tuple(streams(term)[0].parts)
        terms.setdefault(parts[0], []).append(parts)
    return Lexicon(date.fromisoformat(data["reviewed"]), {first: tuple(t) for first, t in terms.items()})


def states(text: str, *, whole: bool) -> Iterator[Sighting]:
    """What in a text must not be committed. `whole`: the text is all of a content, not unescaped."""
    if "valuator" in text or "VALUATOR" in text:
        yield from (("RBG403", match.start(), "") for match in _EVALUATOR.finditer(text))
    if any(word in text for word in _CANARY_WORDS):
        for pattern in (_CANARY, _CORPORA):
            yield from (("RBG401", match.start(), "") for match in pattern.finditer(text))
    if _LEDGER in text:
        yield "RBG404", 0, "(a ledger of releases)"
    tree = _document(text) if whole else None
    if tree is not None:
        yield from _records(tree)
    if "rb1_" in text and not is_split(tree):
        found = [match.start() for match in KEYED_ID.finditer(text)]
        if len(found) >= _MANY_IDS:
            yield "RBG405", found[0], f"({len(found):,} ids)"


def _document(text: str) -> dict[str, object] | None:
    """The object that a text is, where it may be one of ours."""
    if not any(all(mark in text for mark in marks) for marks in _MARKS):
        return None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _records(tree: dict[str, object]) -> Iterator[Sighting]:
    named = tree.get("format")
    if isinstance(named, str) and named in _PRIVATE:
        yield "RBG404", 0, _PRIVATE[named]
    if named == SPLIT and not is_split(tree):
        yield "RBG405", 0, "(a hashed split with more than its format has)"
    if _is_restricted_run(tree):
        yield "RBG403", 0, ""


def _is_restricted_run(tree: dict[str, object]) -> bool:
    """Whether an object is the manifest of a run on a restricted set, or its summary as the evaluator may see it."""
    config, release = tree.get("config"), tree.get("release")
    levels = (tree.get("sensitivity"), config.get("sensitivity") if isinstance(config, dict) else None)
    if isinstance(tree.get("files"), dict) and "restricted" in levels:
        return True
    return isinstance(release, dict) and release.get("level") == "evaluator"


def holds_split(text: str) -> bool:
    """Whether a text is a hashed split and nothing else: its ids are no encoded text."""
    return f'"{SPLIT}"' in text and is_split(_document(text))


def is_split(tree: object) -> bool:
    """Whether an object is a hashed split with the keys of its format only, and sorted keyed ids (safety.md, 3.5)."""
    if not isinstance(tree, dict) or set(tree) != _SPLIT_KEYS or tree["format"] != SPLIT:
        return False
    ids = tree["ids"]
    names = [tree[name] for name in ("dataset", "dataset_version", "split", "canon", "key_id")]
    return (
        isinstance(ids, list)
        and all(isinstance(one, str) and KEYED_ID.fullmatch(one) for one in ids)
        and ids == sorted(set(ids))
        and tree["n"] == len(ids)
        and all(isinstance(name, str) and _WORD.fullmatch(name) for name in names)
    )
