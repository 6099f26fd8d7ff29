"""Where adapters are found: those that ship with the package, those in the user's folders, or one by its path.

A shipped name cannot be taken by another folder, so that no label is lowered, no host let in and no acceptance
taken over by a copy.
"""

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from robustify.errors import AuthorisationError, RobustifyError, UsageError
from robustify.loaders import Source
from robustify.restricted.manifest import FILE, Manifest, licence_text, read_pinned
from robustify.settings_files import shipped

VARIABLE = "ROBUSTIFY_ADAPTERS"


@dataclass(frozen=True, slots=True)
class Adapter:
    """One set's entrance: its folder, what its manifest says, and the digest of the file that says it."""

    folder: Path
    manifest: Manifest
    sha256: str

    @property
    def licence(self) -> str:
        """The text of its terms."""
        return licence_text(self.folder, self.manifest)


def find_adapter(name: str) -> Adapter:
    """The adapter of this name or path (its folder, or the manifest in it).

    Raises:
        UsageError: there is none; the known names are listed, with the nearest as a suggestion. And as `read_manifest`.
        AuthorisationError: it carries the id of an adapter that ships with the package, and is not that one.
    """
    folder = place(name)
    adapter = Adapter(folder, *read_pinned(folder))
    own = _in(shipped("adapters")).get(adapter.manifest.id)
    if own is not None and own.resolve() != folder.resolve():
        # A copy could name other hosts, smaller cells or a lower label, and take over what was accepted.
        raise AuthorisationError(
            f"{adapter.manifest.id}: is the id of an adapter that ships with robustify, and this manifest lies elsewhere; "
            f"expected `adapter: {adapter.manifest.id}` (the shipped one), or a folder and an id of its own"
        )
    return adapter


def unplaced(adapter: Adapter) -> tuple[Source, ...]:
    """The files of a set: of a public one where they lie, of a restricted one by their paths below the root, which only
    `access` puts together. Raises `UsageError`: the folder of a public set is not known."""
    manifest = adapter.manifest
    if manifest.restricted:
        return manifest.sources(Path())
    if manifest.data.root_env is None:
        return manifest.sources(shipped() / "data")
    root = os.environ.get(manifest.data.root_env)
    if not root:
        raise UsageError(f"{manifest.id}: ${manifest.data.root_env} is not set; expected the data's folder")
    return manifest.sources(Path(root).expanduser().absolute())


def place(name: str) -> Path:
    """The folder of the adapter of this name or path."""
    if is_path(name):
        path = Path(name).expanduser()
        folder = path.parent if path.name == FILE else path
        if not folder.is_dir():
            raise UsageError(f"adapter {name!a}: no such folder; expected one that holds a {FILE}")
        return folder
    known = _named()
    if name.replace("_", "-") in known:
        return known[name.replace("_", "-")]
    near = difflib.get_close_matches(name, known, n=1)
    raise UsageError(
        f"adapter {name!a}: not known{f' (did you mean {near[0]}?)' if near else ''}; expected a folder or one of "
        f"{', '.join(known)} (your own: ${VARIABLE})"
    )


def is_path(name: str) -> bool:
    """Whether a name is written as a path."""
    return os.sep in name or name in (".", "..") or name.endswith((".yaml", ".yml"))


def all_adapters() -> Iterator[Adapter | RobustifyError]:
    """All adapters that can be found by name, or why one of them cannot be used."""
    for name in _named():
        try:
            yield find_adapter(name)
        except RobustifyError as error:  # noqa: PERF203
            yield error


def require_every() -> list[Adapter]:
    """All of them, for recognition: a set whose manifest cannot be read is not recognised.
    Raises `AuthorisationError`: why one of them cannot be used, or a folder of adapters that is not there."""
    found = list(all_adapters())
    broken = [line for one in found if isinstance(one, RobustifyError) for line in one.lines]
    gone = [
        f"{folder!a}: no folder that can be read"
        for folder in _own()
        if not os.access(folder, os.R_OK | os.X_OK)
    ]
    if broken or gone:
        raise AuthorisationError(
            *(f"${VARIABLE}: {line}; the set of a broken adapter is not recognised: mend it or take it out"
              for line in (*gone, *broken))
        )  # fmt: skip
    return [one for one in found if isinstance(one, Adapter)]


def _named() -> dict[str, Path]:
    found = _in(shipped("adapters"))
    for folder in _own():
        found = {**_in(Path(folder)), **found}
    return dict(sorted(found.items()))


def _own() -> list[str]:
    return [folder for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]


def _in(folder: Path) -> dict[str, Path]:
    """The adapters in a folder by id; a folder may write its name with underscores."""
    folders = (path.parent for path in sorted(folder.glob(f"*/{FILE}")))
    return {
        place.name.replace("_", "-"): place for place in folders if re.fullmatch(r"[a-z0-9_-]+", place.name)
    }
