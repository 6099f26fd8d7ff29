"""Is a set that calls itself public a sensitive one? Its content is asked, whatever was declared.

A sign that a person may judge is lifted by a person's word, written into a manifest and bound to the digest of the
content; no option of a command lifts any. An error names the sign and never the content.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from robustify.errors import AuthorisationError
from robustify.item import Item
from robustify.loaders import Loaded, Source
from robustify.restricted.adapters import find, require_every
from robustify.restricted.manifest import Manifest
from robustify.restricted.signals import Content, Sign, signs


def require_ordinary(
    bench: Loaded, sources: Sequence[Source], adapter: str | None = None, names: Iterable[str] = ()
) -> None:
    """Refuse a set that is recognised as a sensitive one. `names`: what it is called beside its files.

    Raises:
        AuthorisationError: every sign that nobody vouches against.
    """
    _refuse(bench.name, left(recognised(bench, sources, names), bench, adapter))


def require_ordinary_files(
    name: str, items: Sequence[Item], files: Iterable[Path], names: Iterable[str] = ()
) -> None:
    """The same for items that came out of logs. Nobody can vouch for these: a config with the set's adapter and
    models of the engine replay takes the same logs.

    Raises:
        AuthorisationError: every sign.
    """
    places = list(files)
    called = [*names, *(part for file in places for part in _names_of(file))]
    raw = (held for file in places for held in _bytes(file))
    _refuse(name, list(signs(Content(items, raw, called), known())))


def recognised(bench: Loaded, sources: Sequence[Source], names: Iterable[str] = ()) -> list[Sign]:
    """Every sign of sensitive content, whoever vouches for it."""
    raw = (held for source in sources if source.path for held in _bytes(Path(source.path)))
    called = [bench.name, *names, *(name for source in sources for name in _names(source))]
    return list(signs(Content(bench.items, raw, called), known()))


def known() -> list[Manifest]:
    """The manifests of all restricted sets that have an adapter here.

    Raises:
        AuthorisationError: one of the manifests cannot be read.
    """
    return [adapter.manifest for adapter in require_every() if adapter.manifest.restricted]


def left(found: Sequence[Sign], bench: Loaded, adapter: str | None) -> list[Sign]:
    """The signs that no attestation of this adapter, bound to this content, lifts."""
    told = None if adapter is None else find(adapter).manifest.attest.not_sensitive
    vouched = told is not None and told.content_sha256 == bench.sha256
    return [sign for sign in found if not (vouched and sign.attestable)]


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
    parts = _names_of(Path(source.path)) if source.path else []
    return [name for name in (*parts, source.name, source.hub) if name]


def _names_of(path: Path) -> list[str]:
    return [path.name, path.absolute().parent.name]


def _bytes(place: Path) -> Iterator[bytes]:
    """The files, one at a time. What was fetched from elsewhere is known by its name and its records alone."""
    files = sorted([*place.glob("*.arrow"), *place.glob("*.parquet")]) if place.is_dir() else [place]
    return (file.read_bytes() for file in files if file.is_file())
