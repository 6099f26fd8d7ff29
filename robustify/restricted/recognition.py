"""Is a set that calls itself public a sensitive one? Its content decides, whatever was declared.

Each sign is strong enough for what it may do. A sign that a person may judge is lifted by a person's word, written
into a manifest and bound to the digest of the content; no option of a command lifts any. A message names the sign, in
counts and names of sets, and never the content.
"""

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from robustify.errors import AuthorisationError, DataError
from robustify.gate.detect import LEAST_TERMS, lexicon
from robustify.gate.fingerprints import Fingerprints, read_index
from robustify.gate.key_file import load_key
from robustify.gate.reading.folding import streams
from robustify.item import Item
from robustify.loaders import Loaded, Source
from robustify.restricted.account import registered_sets
from robustify.restricted.adapters import Manifest, find_adapter, require_every

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
_BLOCK, _OVERLAP = 8 << 20, 256
"""Bytes of a file that are looked at together, and again with the next ones."""
_ENDS = 1 << 16
"""Bytes at both ends of a file, where every format writes the names of its columns."""

Effect = Literal["refused", "refused unless a person vouches", "warned"]
TABLE: dict[str, tuple[str, Effect]] = {
    "S1": ("the digest of a file that an adapter pins, or records once read as restricted", "refused"),
    "S2": ("a canary string whose digest an adapter of a restricted set holds", "refused"),
    "S2b": ("the canary line of any benchmark that must not be republished", "warned"),
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
        return TABLE[self.code][1] != "warned"

    @property
    def attestable(self) -> bool:
        """Whether a person may vouch against it."""
        return TABLE[self.code][1] != "refused"


@dataclass(frozen=True, slots=True, repr=False)
class Content:
    """What is asked: the items, the files they came from, and every name they go by."""

    items: "Seen"
    files: Iterable[Path]
    names: Sequence[str]


class Seen:
    """Items that are looked at once, in any number of parts, and what they were recognised as. Raises
    `AuthorisationError`: the gate's index is named and cannot be asked, or the record of restricted sets is damaged."""

    def __init__(self, items: Sequence[Item] = ()) -> None:
        index = os.environ.get(INDEX_VARIABLE)
        self._matches = registered_sets()
        self._prints = _index(index) if index else None
        self._n, self._step = 0, 1
        self._some: list[Item] = []
        self._registered: Counter[str] = Counter()
        self._printed: Counter[str] = Counter()
        self.add(items)

    def add(self, items: Sequence[Item]) -> None:
        """Look at these items too."""
        self._registered.update(self._matches(items))
        if self._prints is not None:
            for item in items:
                found = self._prints.matches("\n".join((item.stem, *item.choices)), disguised=False)
                self._printed.update({match.set_name for match in found if match.refuses})
        self._some += items[-self._n % self._step :: self._step]
        self._n += len(items)
        while len(self._some) > MOST_READ:
            self._some, self._step = self._some[::2], 2 * self._step

    def registered(self) -> Iterator[Sign]:
        """The sign of records that were once read as restricted."""
        for name, n in self._registered.items():
            if many(n, self._n):
                yield Sign("S1", f"{n:,} of {self._n:,} records are registered as {name}")

    def printed(self) -> Iterator[Sign]:
        """The sign of fingerprints in the gate's index."""
        for name, n in self._printed.items():
            if many(n, self._n):
                yield Sign("S3", f"{n:,} of {self._n:,} records match the fingerprints of {name}")

    def lexical(self) -> Iterator[Sign]:
        """The sign of words of the lexicon."""
        terms, of = lexicon(), len(self._some)
        texts = ("\n".join((item.stem, *item.choices)) for item in self._some)
        n = sum(terms.named(streams(text)[0]) >= LEAST_TERMS for text in texts)
        if n >= FEW and n >= LEXICON_SHARE * of:
            yield Sign("S5", f"{n:,} of {of:,} records speak of controlled categories")


def require_ordinary(
    bench: Loaded,
    sources: Sequence[Source],
    adapter: str | None = None,
    names: Iterable[str] = (),
    seen: Seen | None = None,
) -> None:
    """Refuse a set that is recognised as a sensitive one. `names`: what it is called beside its files.

    `seen`: all its items, where `bench` is only the last part of it.

    Raises:
        AuthorisationError: every sign that nobody vouches against.
    """
    _refuse(bench.name, not_attested(recognised(bench, sources, names, seen), bench, adapter))


def require_ordinary_files(
    name: str, items: Sequence[Item], files: Iterable[Path], names: Iterable[str] = ()
) -> None:
    """The same for items that came out of logs. Nobody can vouch for these: a config with the set's adapter and models
    of the engine replay takes the same logs. Raises `AuthorisationError`: every sign."""
    places = list(files)
    called = [*names, *(part for file in places for part in _names_of(file))]
    inside = (one for file in places for one in _files(file))
    _refuse(name, list(signs(Content(Seen(items), inside, called), restricted_manifests())))


def recognised(
    bench: Loaded, sources: Sequence[Source], names: Iterable[str] = (), seen: Seen | None = None
) -> list[Sign]:
    """Every sign of sensitive content, also those that somebody vouches against; `seen` as in `require_ordinary`."""
    files = (file for source in sources if source.path for file in _files(Path(source.path)))
    called = [bench.name, *names, *(name for source in sources for name in _names(source))]
    return list(signs(Content(seen or Seen(bench.items), files, called), restricted_manifests()))


def restricted_manifests() -> list[Manifest]:
    """The manifests of all restricted sets that have an adapter here.
    Raises `AuthorisationError`: one of the manifests cannot be read."""
    return [adapter.manifest for adapter in require_every() if adapter.manifest.restricted]


def not_attested(found: Sequence[Sign], bench: Loaded, adapter: str | None) -> list[Sign]:
    """The signs that no attestation of this adapter, bound to this content, lifts."""
    word = None if adapter is None else find_adapter(adapter).manifest.attest.not_sensitive
    vouched = word is not None and word.content_sha256 == bench.sha256
    return [sign for sign in found if not (vouched and sign.attestable)]


def signs(content: Content, known: Sequence[Manifest]) -> Iterator[Sign]:
    """Every sign of sensitive content; `known`: the manifests of restricted sets.
    Raises `AuthorisationError`: the gate's index is named and cannot be asked."""
    for file in content.files:
        yield from _in_a_file(file, known)
    yield from content.items.registered()
    yield from content.items.printed()
    yield from _named(content.names, known)
    yield from content.items.lexical()


def many(n: int, of: int) -> bool:
    """Whether so many records of a file are more than an accident."""
    return n >= FEW or (n >= 2 and n >= SHARE * of)


def _refuse(name: str, found: Sequence[Sign]) -> None:
    for sign in found:
        if not sign.refuses:
            print(f"robustify: {name}: {sign.says}; do not commit or upload what is written", file=sys.stderr)
    refusing = [sign for sign in found if sign.refuses]
    mend = (
        "run it through an adapter of a restricted set, or vouch for this very content: robustify adapter new, "
        "then attest.not_sensitive in its manifest"
        if all(sign.attestable for sign in refusing)
        else "run it through its adapter (robustify adapter list)"
    )
    if refusing:
        raise AuthorisationError(
            *(f"{name}: looks sensitive (sign {sign.code}): {sign.says}; {mend}" for sign in refusing)
        )


def _names(source: Source) -> list[str]:
    parts = _names_of(Path(source.path)) if source.path else ()
    return [name for name in (*parts, source.name, source.hub) if name]


def _names_of(path: Path) -> list[str]:
    return [path.name, path.absolute().parent.name]


def _files(place: Path) -> Iterator[Path]:
    """The files of a source. What was fetched from elsewhere is known by its name and its records alone."""
    files = sorted([*place.glob("*.arrow"), *place.glob("*.parquet")]) if place.is_dir() else [place]
    return (file for file in files if file.is_file())


def _in_a_file(file: Path, known: Sequence[Manifest]) -> Iterator[Sign]:
    wanted = {digest: manifest.id for manifest in known for digest in manifest.canary_sha256}
    digest, canaries, line = hashlib.sha256(), set[str](), False
    head = tail = b""
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            head = head or block[:_ENDS]
            # What stands across the end of a block is seen with the next one.
            raw = tail[-_OVERLAP:] + block
            tail = (tail + block)[-_ENDS:]
            tokens = {token.lower() for token in _TOKEN.findall(raw)} if wanted else set()
            canaries |= {wanted.get(hashlib.sha256(token).hexdigest(), "") for token in tokens}
            line = line or ((b"anary" in raw or b"ANARY" in raw) and _CANARY.search(raw) is not None)
    for manifest in known:
        if any(one.sha256 == digest.hexdigest() for one in manifest.data.files):
            yield Sign("S1", f"a file is registered as part of {manifest.id}")
    for name in sorted(canaries - {""}):
        yield Sign("S2", f"holds the canary of {name}")
    for manifest in known:
        if manifest.columns and all(name.encode() in head + tail for name in manifest.columns):
            yield Sign("S4", f"a file has the columns of {manifest.id}")
    if line:
        yield Sign("S2b", "holds the canary line of a benchmark that must not be republished")


def _index(place: str) -> Fingerprints:
    key = load_key()
    if key is None:
        raise AuthorisationError(
            f"${INDEX_VARIABLE} names an index, and there is no key to it; expected $ROBUSTIFY_GATE_KEY_FILE or "
            f"$ROBUSTIFY_GATE_KEY, or ${INDEX_VARIABLE} unset"
        )
    try:
        return Fingerprints(read_index(Path(place), key), key)
    except DataError as error:
        raise AuthorisationError(
            *(
                f"${INDEX_VARIABLE}: {line}; nothing is asked of it, so nothing is read"
                for line in error.lines
            )
        ) from None


def _named(names: Iterable[str], known: Sequence[Manifest]) -> Iterator[Sign]:
    called = list(map(_spaced, names))
    found = [
        manifest.id
        for manifest in known
        if any(
            own in name
            for own in map(_spaced, (manifest.id, *manifest.names))
            if own.strip()
            for name in called
        )
    ]
    if found:
        yield Sign("S4", f"a file, its folder or the set is called like {', '.join(found)}")


def _spaced(name: str) -> str:
    """The words of a name, each between blanks, so that one name stands in another by whole words alone."""
    return f" {' '.join(_WORDS.findall(name.lower()))} "
