"""A new adapter from what the user says: a manifest and the terms, pinned to the data that are there.

Nothing of the content is copied or read beyond its digest and the number of its records.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import yaml

from robustify.errors import DataError, ResourceError, UsageError
from robustify.files import read_expected
from robustify.loaders import Source, load
from robustify.restricted.manifest import FILE, FORMAT, ID, LICENCE, Manifest, read_manifest
from robustify.restricted.strict_yaml import MOST_BYTES

_MOST_DATA = 4 << 30


def make(
    folder: Path,
    *,
    title: str,
    sensitivity: str,
    terms: Path,
    licence_name: str,
    root_env: str,
    files: Sequence[str],
    version: str,
) -> Manifest:
    """Write the adapter; where the data folder is known, its files are pinned by digest and number of records.

    Raises:
        UsageError: a name that is no id, a folder that is there, terms or values that cannot be.
        DataError: a file that is no set of items.
        ResourceError: the folder cannot be written.
    """
    name = folder.absolute().name
    if not ID.fullmatch(name):
        raise UsageError(f"{name!a}: is no id of a set; expected small letters, digits and - (2 to 40)")
    text = read_expected(terms, "the terms of the set as UTF-8 text", MOST_BYTES)
    root = os.environ.get(root_env)
    told = {
        "format": FORMAT,
        "id": name,
        "version": version,
        "title": title,
        "sensitivity": sensitivity,
        "licence": {"name": licence_name, "url": None, "sha256": hashlib.sha256(text).hexdigest()},
        "data": {"root_env": root_env, "files": [_file(root, file) for file in files]},
        "egress": [],
        "min_cell": 10,
        "attest": {"not_sensitive": None},
    }
    try:
        folder.mkdir(parents=True)
        try:
            (folder / LICENCE).write_bytes(text)
            (folder / FILE).write_text(
                yaml.safe_dump(told, sort_keys=False, allow_unicode=True), encoding="utf-8"
            )
            return read_manifest(folder)
        except BaseException:
            _remove(folder)
            raise
    except FileExistsError:
        raise UsageError(f"{str(folder)!a}: is there already; expected a new folder") from None
    except OSError as error:
        raise ResourceError(f"{str(folder)!a}: cannot be written ({error.strerror})") from None


def _file(root: str | None, path: str) -> dict[str, object]:
    place = None if root is None else Path(root) / path
    if place is None or not place.is_file():
        return {"path": path, "sha256": None, "records": None}
    raw = read_expected(place, "a file of items", _MOST_DATA)
    try:
        bench = load(Source(path=str(place), skip_bad=True))
    except DataError as error:
        raise DataError(
            *error.lines, "name its fields in the manifest, then robustify adapter check"
        ) from None
    return {
        "path": path,
        "sha256": hashlib.sha256(raw).hexdigest(),
        "records": len(bench.items) + len(bench.quarantined),
    }


def _remove(folder: Path) -> None:
    for name in (LICENCE, FILE):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()
