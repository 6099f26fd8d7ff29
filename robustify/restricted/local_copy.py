"""The local copy of a restricted set for those who have its licence, its data and its key; nothing else opens it.

Here the hashed splits meet the data again. What comes out holds text: it goes into files for their owner alone.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from robustify import files
from robustify.errors import AuthorisationError, DataError, ResourceError, UsageError
from robustify.gate.key_file import Key
from robustify.item import Item
from robustify.loaders import Loaded, load_many
from robustify.restricted import ids
from robustify.restricted.access import Access, authorised
from robustify.restricted.adapters import find
from robustify.restricted.confinement import require_private
from robustify.restricted.hashed_split import Split, require_key


@dataclass(frozen=True, slots=True)
class _Named:
    """A set as `authorised` asks for it."""

    name: str
    adapter: str
    sensitivity: str = "restricted"


def open_set(adapter: str) -> Access:
    """Leave to read the set of this adapter.

    Raises:
        AuthorisationError: the licence, the data or the key is missing.
    """
    access = authorised(_Named(find(adapter).manifest.id, adapter), None)
    assert access is not None
    return access


def open_for(split: Split, adapter: str) -> Access:
    """The same for the set and the key of a split.

    Raises:
        AuthorisationError: also where the key is another one, or the split is smaller than a cell of the set.
        DataError: the split is of another set or version.
    """
    manifest = find(adapter).manifest
    if (manifest.id, manifest.version) != (split.dataset, split.version):
        raise DataError(
            f"split {split.name}: is of {split.dataset} version {split.version}, the adapter of {manifest.id} "
            f"version {manifest.version}; expected the same"
        )
    access = open_set(adapter)
    require_key(split, access.key_id)
    if len(split.ids) < manifest.min_cell:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset}: has fewer than {manifest.min_cell} ids, which describes single items; "
            "expected a split that a run let out"
        )
    return access


def items(access: Access, key: Key | None = None) -> tuple[Item, ...]:
    """All items of the set, in the order of the files, with the ids of the access's own key or of another one."""
    bench: Loaded = load_many(access.sources)
    if key is None:
        return access.keyed(bench).items
    manifest = access.manifest
    derived, skip_bad = key.derived("ids"), manifest.data.skip_bad
    return ids.keyed(bench, derived, manifest.id, manifest.version, skip_bad=skip_bad).items


def write_copy(path: Path, chosen: Iterable[Item]) -> None:
    """The items as JSON lines, each with its label, in a new file of mode 0600 in a private folder.

    Raises:
        AuthorisationError: the folder is not private.
        UsageError: the file is there already.
        ResourceError: it cannot be written.
    """
    require_private(path.absolute().parent)
    rows = (
        {"sensitivity": "restricted", "id": i.id, "stem": i.stem, "choices": list(i.choices), "key": i.key,
         "topic": i.topic} | ({"group": i.group} if i.group else {})
        for i in chosen
    )  # fmt: skip
    write_private_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_private_text(path: Path, text: str) -> None:
    """A new file of mode 0600; nothing is ever overwritten.

    Raises:
        UsageError: the file is there already.
        ResourceError: it cannot be written; what was begun is removed.
    """
    try:
        files.write_new(path, text)
    except FileExistsError:
        raise UsageError(f"{str(path)!a}: is there already; expected a new file (-o FILE)") from None
    except OSError as error:
        raise ResourceError(
            f"{str(path)!a}: cannot be written ({error.strerror}); free space or choose another -o FILE"
        ) from None
