"""Recognition of sensitive sets that are labelled public, by a digest, a canary, items, a name, or the lexicon.

An attestation in a manifest, bound to the digest of the content, lifts signs that need judgement. No option does. Messages
contain counts and names of sets, but no content.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from robustify.base.errors import AuthorisationError
from robustify.base.folded_words import LEAST_TERMS, fold, narrow, terms_named
from robustify.items.item import Item
from robustify.reading.loaders import Loaded, Source
from robustify.reading.loaders.open_file import NamedSet
from robustify.restricted.adapters import FILE, Manifest, find_adapter, require_every
from robustify.restricted.terms import accepted, copied_sets

FEW, LEXICON_SHARE = 5, 0.05
"""Number and share of records on controlled categories that together exceed chance."""
_MOST_READ = 20_000
"""Maximum number of records to search with the lexicon. A larger set is sampled evenly."""
_TOKEN = re.compile(rb"[0-9A-Za-z][0-9A-Za-z_-]{11,127}")
_WORDS = re.compile(r"[a-z0-9]+")
_BLOCK, _OVERLAP = 8 << 20, 256


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that a set is sensitive.

    S1: a file has a digest that an adapter of a restricted set, or an acceptance, pins. S2: a file contains the canary
    of such a set. S3: items are those of a set whose terms were accepted. S4: a name or the columns are those of such a
    set. S5: records contain words of the reviewed lexicon.
    """

    code: Literal["S1", "S2", "S3", "S4", "S5"]
    says: str

    @property
    def attestable(self) -> bool:
        """Whether an attestation by a person can lift the sign."""
        return self.code in ("S4", "S5")


def require_ordinary(
    bench: Loaded, sources: Sequence[Source], adapter: str | None = None, names: Iterable[str] = ()
) -> None:
    """Raise `AuthorisationError` if a set has signs of sensitivity that no attestation lifts. `names` are its other
    names."""
    _refuse(bench.name, not_attested(recognised(bench, sources, names), bench, adapter))


def require_ordinary_files(
    name: str,
    items: Sequence[Item],
    files: Iterable[Path],
    names: Iterable[str] = (),
    ids: Iterable[str] = (),
) -> None:
    """Raise `AuthorisationError` if items from logs, or the `ids` of items without texts, have signs of sensitivity. No
    attestation applies to them."""
    _refuse(name, [*_signs(items, list(files), list(names)), *_of_accepted((), ids)])


def by_name(source: Source) -> NamedSet:
    """Load a public set by its name in a harness. Raise `AuthorisationError` before anything is fetched if the name, or a
    name in the files of its task, is that of a restricted set, and the errors of `load_named`."""
    from robustify.models.folder import cache_folder
    from robustify.reading.harness import load_named

    return load_named(source, _require_unrestricted, cache_folder(None))


def _require_unrestricted(name: str, words: Iterable[str], files: Iterable[Path]) -> None:
    """Raise `AuthorisationError` if names of data, in any spelling, or files are those of a restricted set."""
    known = _restricted()
    written = {_joined(word) for word in words}
    named = [
        one.id for one in known if any(own in text for own in map(_joined, _names(one)) for text in written)
    ]
    if named:
        raise AuthorisationError(
            f"{name}: this name, or one in its files, contains that of {', '.join(named)}, so nothing was loaded. Use the "
            "adapter of the set (`robustify restricted adapter list`)."
        )
    _refuse(name, [sign for file in files for sign in _in_a_file(file, known)])


def refuse_copy(name: str, items: Sequence[Item]) -> None:
    """Raise `AuthorisationError` if items of a public run belong to a restricted set whose terms were accepted."""
    _refuse(name, list(_of_accepted(items)))


def recognised(bench: Loaded, sources: Sequence[Source], names: Iterable[str] = ()) -> list[Sign]:
    """Return every sign of sensitive content, including those that an attestation lifts. Raises as `require_every`."""
    paths = [Path(source.path) for source in sources if source.path]
    called = [bench.name, *names, *(source.name for source in sources if source.name)]
    return list(_signs(bench.items, paths, called))


def not_attested(found: Sequence[Sign], bench: Loaded, adapter: str | None) -> list[Sign]:
    """Return the signs that the adapter's attestation for this content does not lift."""
    word = None if adapter is None else find_adapter(adapter).manifest.attest.get("not_sensitive")
    vouched = word is not None and word.content_sha256 == bench.sha256
    return [sign for sign in found if not (vouched and sign.attestable)]


def _signs(items: Sequence[Item], paths: Sequence[Path], names: Sequence[str]) -> Iterator[Sign]:
    known = _restricted()
    for path in paths:
        # A downloaded set is a folder.
        files = sorted([*path.glob("*.arrow"), *path.glob("*.parquet")]) if path.is_dir() else [path]
        for file in filter(Path.is_file, files):
            yield from _in_a_file(file, known)
    yield from _of_accepted(items)
    called = [_spaced(one) for p in paths for one in (p.name, p.absolute().parent.name)]
    called += map(_spaced, names)
    own = {one.id: {*map(_spaced, _names(one))} for one in known}
    named = [name for name, words in own.items() if any(one in text for one in words for text in called)]
    if named:
        yield Sign("S4", f"the name of a file, its folder or the set contains that of {', '.join(named)}")
    some = items[:: -(-len(items) // _MOST_READ) or 1]
    texts = ("\n".join((item.stem, *item.choices)) for item in some)
    n = sum(terms_named(text) >= LEAST_TERMS for text in texts)
    if n >= FEW and n >= LEXICON_SHARE * len(some):
        yield Sign("S5", f"{n:,} of {len(some):,} records name controlled categories")


def _of_accepted(items: Sequence[Item], ids: Iterable[str] = ()) -> Iterator[Sign]:
    listed = list(ids)
    for name, n in copied_sets(items, listed).items():
        yield Sign("S3", f"{n:,} of {len(items) or len(listed):,} records are in {name}, or edited from it")


def _restricted() -> list[Manifest]:
    """Return the manifests of all restricted sets that are found by name, or were accepted and still exist."""
    places = [Path(row.folder) for row in accepted() if row.folder]
    mine = [find_adapter(str(place)).manifest for place in places if (place / FILE).is_file()]
    found = {one.id: one for one in (*mine, *(adapter.manifest for adapter in require_every()))}
    return [one for one in found.values() if one.restricted]


def _in_a_file(file: Path, known: Sequence[Manifest]) -> Iterator[Sign]:
    canaries = {digest: manifest.id for manifest in known for digest in manifest.canary_sha256}
    columns = {name.encode() for manifest in known for name in manifest.columns}
    pins = [(file.sha256, manifest.id) for manifest in known for file in manifest.data.files]
    pins += [(pin.sha256, row.id) for row in accepted() if row.items for pin in row.files.values()]
    digest, found, there, tail = hashlib.sha256(), set[str](), set[bytes](), b""
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            # Tokens across the end of a block are found with the next block.
            raw, tail = tail + block, block[-_OVERLAP:]
            tokens = {token.lower() for token in _TOKEN.findall(raw)} if canaries else set()
            found |= {hashlib.sha256(token).hexdigest() for token in tokens}
            there |= {name for name in columns - there if name in raw}
    for name in sorted({name for pin, name in pins if pin == digest.hexdigest()}):
        yield Sign("S1", f"a file is registered as part of {name}")
    for manifest in known:
        if manifest.columns and {name.encode() for name in manifest.columns} <= there:
            yield Sign("S4", f"a file has the columns of {manifest.id}")
    for name in sorted({canaries[one] for one in canaries.keys() & found}):
        yield Sign("S2", f"a file contains the canary of {name}")


def _names(manifest: Manifest) -> list[str]:
    return [name for name in (manifest.id, *manifest.names) if _joined(name)]


def _joined(name: str) -> bytes:
    """Return the letters and digits of a name in their plain form, in which spellings do not differ."""
    return b"".join(fold(narrow(unquote(name))).split())


def _spaced(name: str) -> str:
    """Return the words of a name, surrounded by spaces so that a search finds only complete words."""
    return f" {' '.join(_WORDS.findall(name.lower()))} "


def _refuse(name: str, found: Sequence[Sign]) -> None:
    remedy = (
        "Use an adapter for a restricted set, or attest this content with attest.not_sensitive in a manifest."
        if all(sign.attestable for sign in found)
        else "Use the adapter of the set (`robustify restricted adapter list`)."
    )
    lines = [f"{name} looks sensitive (sign {sign.code}): {sign.says}. {remedy}" for sign in found]
    if lines:
        raise AuthorisationError(*lines)
