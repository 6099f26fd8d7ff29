"""Recognition of sensitive sets that are labeled public, by a digest, a canary, items, a name, or the lexicon.

An attestation in a manifest, bound to the digest of the content, lifts signs that need judgment. No option does. Messages
contain counts and names of sets, but no content.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from robustify.base.compressed import layers, plain_path
from robustify.base.errors import AuthorisationError, DataError, Notice, UsageError
from robustify.base.folded_words import LEAST_TERMS, fold, narrow, terms_named
from robustify.items.item import FEWEST, MOST, Item
from robustify.reading.columns import known_name
from robustify.reading.loaders import Loaded, Source
from robustify.reading.loaders.open_file import open_rows
from robustify.reading.loaders.rows import SourceRow
from robustify.restricted.adapters import FILE, Manifest, find_adapter, require_every
from robustify.restricted.terms import accepted, copied_sets

FEW, LEXICON_SHARE = 5, 0.05
"""Number and share of records on controlled categories that together exceed chance."""
_MOST_READ = 20_000
"""Maximum number of records to search with the lexicon. A larger set is sampled evenly."""
_DATA = frozenset({".arrow", ".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt"})
"""Types of the files of a folder that may be read."""
_NAMED_FOLDERS = 3
"""Number of folders around a file whose names count, and levels below a folder at which its files are read."""
_TOKEN = re.compile(rb"[0-9A-Za-z][0-9A-Za-z_-]{11,127}")
_GUID = re.compile(rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
"""Form of most canaries, which may stand between other signs of a token."""
_ESCAPED = re.compile(rb"\\u00([2-7][0-9A-Fa-f])")
"""Plain character as JSON may write it."""
_WORDS = re.compile(r"[a-z0-9]+")
_BLOCK, _OVERLAP = 8 << 20, 256
_SignCode = Literal["S1", "S2", "S3", "S4", "S5"]
_CODES: Mapping[_SignCode, str] = {
    "S1": "registered-file", "S2": "known-canary", "S3": "known-items", "S4": "restricted-name", "S5": "controlled-words",
}  # fmt: skip
"""Code of the message of each sign."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that a set is sensitive.

    S1: a file has a digest that an adapter of a restricted set, or an acceptance, pins. S2: a file contains the canary
    of such a set. S3: items are those of a set whose terms were accepted. S4: a name or the columns are those of such a
    set. S5: records contain words of the reviewed lexicon.
    """

    code: _SignCode
    says: str

    @property
    def attestable(self) -> bool:
        """Whether a person's attestation can overrule this sign."""
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
    _refuse(name, [*_signs(items, list(files), list(names)), *_copy_signs((), ids)])


def require_unrestricted(name: str, words: Iterable[str], files: Iterable[Path]) -> None:
    """Raise `AuthorisationError` if names (in any spelling) or files belong to a restricted set."""
    manifests = _restricted()
    spellings = {_spelling(word) for word in words}
    set_names = {manifest.id: [*map(_spelling, _names(manifest))] for manifest in manifests}
    named = [set_id for set_id, own in set_names.items() if any(n in text for n in own for text in spellings)]
    if named:
        raise AuthorisationError(
            f"{name} or a name in its files contains the name of {', '.join(named)}, so nothing was loaded. Use "
            "the adapter of the set (`robustify restricted adapter list`).",
            code="restricted-name",
        )
    _refuse(name, [sign for file in files for sign in _file_signs(file, manifests)])


def require_ordinary_names(file: Path) -> None:
    """Raise `AuthorisationError` if a file that cannot be read as items has signs of sensitivity that need no judgment.
    All its texts, and names of columns, are looked for as parts of items, because the meaning of its columns is unknown."""
    items = list[Item]()
    if any(row.items for row in accepted()):
        with suppress(DataError, UsageError):
            items += _unread_items(open_rows(str(file))[0].rows)
    with suppress(OSError):  # nothing of such a file is shown
        _refuse(file.name, [sign for sign in _signs(items, [file], ()) if not sign.attestable])


def _unread_items(rows: Iterable[SourceRow]) -> Iterator[Item]:
    """Yield items with the texts of each row: one with the unusual names of its columns as options, one with all texts."""
    for row in rows:
        names = [name for name in row.cells if name.strip() and not known_name(name)]
        texts = [text for text in dict.fromkeys(_texts(row.cells)) if text.strip()]
        longest = max(texts, key=len, default="-")
        for options in (names, [text for text in texts if text != longest]):
            filled = [*options[:MOST], *["-"] * (FEWEST - len(options))]
            yield Item("-", longest, tuple(filled), 0)


def _texts(tree: object) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        yield from chain.from_iterable(map(_texts, (*tree, *tree.values())))
    elif isinstance(tree, list | tuple):
        yield from chain.from_iterable(map(_texts, tree))


def refuse_copy(name: str, items: Sequence[Item]) -> None:
    """Raise `AuthorisationError` if items of a public run belong to a restricted set whose terms were accepted."""
    _refuse(name, list(_copy_signs(items)))


def recognised(bench: Loaded, sources: Sequence[Source], names: Iterable[str] = ()) -> list[Sign]:
    """Return every sign of sensitive content, including those that an attestation overrules. Raises as `require_every`."""
    paths = [Path(source.path) for source in sources if source.path]
    called = [bench.name, *names, *(source.name for source in sources if source.name)]
    return list(_signs(bench.items, paths, called))


def not_attested(signs: Sequence[Sign], bench: Loaded, adapter: str | None) -> list[Sign]:
    """Return the signs that the adapter's attestation for this content does not lift."""
    attestation = None if adapter is None else find_adapter(adapter).manifest.attest.get("not_sensitive")
    attested = attestation is not None and attestation.content_sha256 == bench.sha256
    return [sign for sign in signs if not (attested and sign.attestable)]


def _signs(items: Sequence[Item], paths: Sequence[Path], names: Sequence[str]) -> Iterator[Sign]:
    manifests = _restricted()
    read = list[Path]()
    for path in paths:
        # A downloaded set is a folder, perhaps with a folder for each split.
        parts = chain.from_iterable(
            path.glob("/".join("*" * depth)) for depth in range(1, _NAMED_FOLDERS + 1)
        )
        files = (
            sorted(file for file in parts if plain_path(file).suffix.lower() in _DATA)
            if path.is_dir()
            else [path]
        )
        read += filter(Path.is_file, files)
    for file in read:
        yield from _file_signs(file, manifests)
    yield from _copy_signs(items)
    # A link may have a harmless name, and a folder may have folders of sets.
    links = [file.resolve() for file in read if file.is_symlink()]
    named_paths = dict.fromkeys([*paths, *read, *links])
    names_given = [
        _spaced(name) for path in named_paths for name in path.absolute().parts[-_NAMED_FOLDERS - 1 :]
    ]
    names_given += map(_spaced, names)
    set_names = {manifest.id: {*map(_spaced, _names(manifest))} for manifest in manifests}
    named = [
        set_id for set_id, own in set_names.items() if any(n in text for n in own for text in names_given)
    ]
    if named:
        yield Sign("S4", f"the name of a file, a folder around it, or the set contains {', '.join(named)}")
    sample = items[:: -(-len(items) // _MOST_READ) or 1]
    texts = ("\n".join((item.stem, *item.choices)) for item in sample)
    n = sum(terms_named(text) >= LEAST_TERMS for text in texts)
    if n >= FEW and n >= LEXICON_SHARE * len(sample):
        yield Sign("S5", f"{n:,} of {len(sample):,} records name controlled categories")


def _copy_signs(items: Sequence[Item], ids: Iterable[str] = ()) -> Iterator[Sign]:
    listed = list(ids)
    for name, n in copied_sets(items, listed).items():
        yield Sign("S3", f"{n:,} of {len(items) or len(listed):,} records are in {name}, or edited from it")


def _restricted() -> list[Manifest]:
    """Return the manifests of restricted sets that are found by name, or were accepted and still exist."""
    folders = [Path(row.folder) for row in accepted() if row.folder]
    adapters = [find_adapter(str(folder)) for folder in folders if (folder / FILE).is_file()]
    manifests = {adapter.manifest.id: adapter.manifest for adapter in (*adapters, *require_every())}
    return [manifest for manifest in manifests.values() if manifest.restricted]


def _file_signs(file: Path, manifests: Sequence[Manifest]) -> Iterator[Sign]:
    canaries = {digest: manifest.id for manifest in manifests for digest in manifest.canary_sha256}
    columns = {name.encode() for manifest in manifests for name in manifest.columns}
    pins = [(file.sha256, manifest.id) for manifest in manifests for file in manifest.data.files]
    pins += [(pin.sha256, row.id) for row in accepted() if row.items for pin in row.files.values()]
    digests, token_digests, columns_found = set[str](), set[str](), set[bytes]()
    with file.open("rb") as opened:
        for blocks in layers(opened, _BLOCK):
            digest, tail = hashlib.sha256(), b""
            for block in blocks:
                digest.update(block)
                # Tokens across the end of a block are found with the next block.
                raw, tail = tail + block, block[-_OVERLAP:]
                raw = (
                    _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), raw)
                    if b"\\u00" in raw
                    else raw
                )
                written = (*_TOKEN.findall(raw), *_GUID.findall(raw)) if canaries else ()
                tokens = {token.lower() for token in written}
                token_digests |= {hashlib.sha256(token).hexdigest() for token in tokens}
                columns_found |= {name for name in columns - columns_found if name in raw}
            digests.add(digest.hexdigest())
    for name in sorted({name for pin, name in pins if pin in digests}):
        yield Sign("S1", f"a file is registered as part of {name}")
    for manifest in manifests:
        if manifest.columns and {name.encode() for name in manifest.columns} <= columns_found:
            yield Sign("S4", f"a file has the columns of {manifest.id}")
    for name in sorted({canaries[token_digest] for token_digest in canaries.keys() & token_digests}):
        yield Sign("S2", f"a file contains the canary of {name}")


def _names(manifest: Manifest) -> list[str]:
    return [name for name in (manifest.id, *manifest.names) if _spelling(name)]


def _spelling(name: str) -> bytes:
    """Return the letters and digits of a name in plain form, which is the same for all spellings."""
    return b"".join(fold(narrow(unquote(name))).split())


def _spaced(name: str) -> str:
    """Return the words of a name, surrounded by spaces so that a search finds only complete words."""
    return f" {' '.join(_WORDS.findall(name.lower()))} "


def _refuse(name: str, signs: Sequence[Sign]) -> None:
    remedy = (
        "Use an adapter for a restricted set, or attest this content with attest.not_sensitive in a manifest."
        if all(sign.attestable for sign in signs)
        else "Use the adapter of the set (`robustify restricted adapter list`)."
    )
    if signs:
        lines = (f"{name} looks sensitive (sign {sign.code}): {sign.says}. {remedy}" for sign in signs)
        codes = (_CODES[sign.code] for sign in signs)
        raise AuthorisationError(*(Notice(line, code=code) for line, code in zip(lines, codes, strict=True)))
