"""Signs by which the content of a set is recognised as sensitive, each strong enough for what it may do.

A sign tells what was recognised, in counts and names of sets; never what the content says.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from robustify.errors import AuthorisationError, DataError
from robustify.gate.detect.lexicon import LEAST, lexicon
from robustify.gate.fingerprints.matching import Fingerprints
from robustify.gate.fingerprints.sealed import read
from robustify.gate.fingerprints.words import streams
from robustify.gate.key_file import load_key
from robustify.item import Item
from robustify.restricted.manifest import Manifest
from robustify.restricted.registered import matches

FEW = 5
"""Records that make a match more than chance."""
SHARE = 0.02
"""The same as a share of the records, from two records on: one phrase may be shared by accident."""
LEXICON_SHARE = 0.05
MOST_READ = 20_000
"""Records that the lexicon is asked about; of a larger set every so many, for it asks about a share."""
INDEX_VARIABLE = "ROBUSTIFY_GATE_INDEX"
_CANARY = re.compile(
    rb"canary\s+(?:guid|string|token)\W{1,6}[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    re.IGNORECASE,
)
_TOKEN = re.compile(rb"[0-9A-Za-z][0-9A-Za-z_-]{11,127}")
_WORDS = re.compile(r"[a-z0-9]+")
_ENDS = 1 << 16
"""Bytes at both ends of a file, where every format writes the names of its columns."""

Effect = Literal["refused", "refused unless a person vouches", "told"]
TABLE: dict[str, tuple[str, Effect]] = {
    "S1": ("the digest of a file that an adapter pins, or records once read as restricted", "refused"),
    "S2": ("a canary string whose digest an adapter of a restricted set holds", "refused"),
    "S2b": ("the canary line of any benchmark that must not be republished", "told"),
    "S3": ("fingerprints of the gate's index, where there is one", "refused"),
    "S4": (
        "names: a file, folder or set called like a known restricted set, or its columns",
        "refused unless a person vouches",
    ),
    "S5": ("words of the reviewed category lexicon", "refused unless a person vouches"),
}
"""Each sign: what it is, and what becomes of the set. Public sets that everybody may run carry a canary line too, so
that one does not refuse; what must not happen to them, being committed, is the gate's to refuse."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign: its number in the table, and what was recognised."""

    code: str
    says: str

    @property
    def refuses(self) -> bool:
        """Whether a set that shows it is refused."""
        return TABLE[self.code][1] != "told"

    @property
    def attestable(self) -> bool:
        """Whether a person may vouch against it."""
        return TABLE[self.code][1] != "refused"


@dataclass(frozen=True, slots=True, repr=False)
class Content:
    """What is asked: the items, the raw bytes of each file they came from, and every name they go by."""

    items: Sequence[Item]
    raw: Iterable[bytes]
    names: Sequence[str]


def signs(content: Content, known: Sequence[Manifest]) -> Iterator[Sign]:
    """Every sign of sensitive content; `known`: the manifests of restricted sets.

    Raises:
        AuthorisationError: the gate's index is named and cannot be asked.
    """
    for raw in content.raw:
        yield from _in_a_file(raw, known)
    yield from _registered(content.items)
    yield from _fingerprints(content.items)
    yield from _named(content.names, known)
    yield from _lexicon(content.items)


def many(n: int, of: int) -> bool:
    """Whether so many records of a file are more than an accident."""
    return n >= FEW or (n >= 2 and n >= SHARE * of)


def _in_a_file(raw: bytes, known: Sequence[Manifest]) -> Iterator[Sign]:
    digest = hashlib.sha256(raw).hexdigest()
    for told in known:
        if any(file.sha256 == digest for file in told.data.files):
            yield Sign("S1", f"a file is registered as part of {told.id}")
    wanted = {digest: told.id for told in known for digest in told.canary_sha256}
    tokens = {token.lower() for token in _TOKEN.findall(raw)} if wanted else set()
    for name in sorted({wanted.get(hashlib.sha256(token).hexdigest(), "") for token in tokens} - {""}):
        yield Sign("S2", f"holds the canary of {name}")
    ends = raw[:_ENDS] + raw[-_ENDS:]
    for told in known:
        if told.columns and all(name.encode() in ends for name in told.columns):
            yield Sign("S4", f"a file has the columns of {told.id}")
    if (b"anary" in raw or b"ANARY" in raw) and _CANARY.search(raw):
        yield Sign("S2b", "holds the canary line of a benchmark that must not be republished")


def _registered(items: Sequence[Item]) -> Iterator[Sign]:
    for name, n in matches(items).items():
        if many(n, len(items)):
            yield Sign("S1", f"{n:,} of {len(items):,} records are registered as {name}")


def _fingerprints(items: Sequence[Item]) -> Iterator[Sign]:
    index = os.environ.get(INDEX_VARIABLE)
    if not index:
        return
    prints = _index(index)
    counts: dict[str, int] = {}
    for item in items:
        found = prints.matches("\n".join((item.stem, *item.choices)), disguised=False)
        for name in {match.set_name for match in found if match.refuses}:
            counts[name] = counts.get(name, 0) + 1
    for name, n in counts.items():
        if many(n, len(items)):
            yield Sign("S3", f"{n:,} of {len(items):,} records match the fingerprints of {name}")


def _index(place: str) -> Fingerprints:
    key = load_key()
    if key is None:
        raise AuthorisationError(
            f"${INDEX_VARIABLE} names an index, and there is no key to it; expected $ROBUSTIFY_GATE_KEY_FILE or "
            f"$ROBUSTIFY_GATE_KEY, or ${INDEX_VARIABLE} unset"
        )
    try:
        return Fingerprints(read(Path(place), key), key)
    except DataError as error:
        raise AuthorisationError(
            *(
                f"${INDEX_VARIABLE}: {line}; nothing is asked of it, so nothing is read"
                for line in error.lines
            )
        ) from None


def _named(names: Iterable[str], known: Sequence[Manifest]) -> Iterator[Sign]:
    told = [_WORDS.findall(name.lower()) for name in names]
    found = [
        manifest.id
        for manifest in known
        if any(
            _within(_WORDS.findall(name.lower()), words)
            for name in (manifest.id, *manifest.names)
            for words in told
        )
    ]
    if found:
        yield Sign("S4", f"a file, its folder or the set is called like {', '.join(found)}")


def _within(name: list[str], words: list[str]) -> bool:
    return bool(name) and any(words[i : i + len(name)] == name for i in range(len(words) - len(name) + 1))


def _lexicon(items: Sequence[Item]) -> Iterator[Sign]:
    terms = lexicon()
    some = items[:: -(-len(items) // MOST_READ)] if items else ()
    n = sum(terms.named(streams("\n".join((item.stem, *item.choices)))[0]) >= LEAST for item in some)
    if n >= FEW and n >= LEXICON_SHARE * len(some):
        yield Sign("S5", f"{n:,} of {len(some):,} records speak of controlled categories")
