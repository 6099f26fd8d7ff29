"""`robustify adapter`: make an adapter from what the user says, and check fact by fact whether its set may be run.

A new adapter is a manifest and the terms, pinned to the data that are there: nothing of the content is copied or read
beyond its digest and the number of its records. The check shows counts and, for a set that calls itself public, the
digest by which a person can vouch for it; never text.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from robustify.errors import DataError, RobustifyError, UsageError
from robustify.files import read_expected, writable
from robustify.loaders import Source, load, load_many
from robustify.restricted.access import Access, facts_present
from robustify.restricted.account import require
from robustify.restricted.adapters import (
    FILE,
    FORMAT,
    ID,
    LICENCE,
    Adapter,
    Manifest,
    find_adapter,
    read_manifest,
    unplaced,
)
from robustify.restricted.confinement import require_private
from robustify.restricted.recognition import not_attested, recognised
from robustify.restricted.secret_key import evaluator_key
from robustify.settings_files import MOST_BYTES

_MOST_DATA = 4 << 30


def make_adapter(
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
    tree = {
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
    shown = f"{str(folder)!a}"
    if folder.exists():
        raise UsageError(f"{shown}: is there already; expected a new folder")
    with writable(shown):
        folder.mkdir(parents=True)
        try:
            (folder / LICENCE).write_bytes(text)
            written = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
            (folder / FILE).write_text(written, encoding="utf-8")
            return read_manifest(folder)[0]
        except BaseException:
            shutil.rmtree(folder)
            raise


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


def checked(name: str, out: Path | None) -> dict[str, Any]:
    """`{adapter, sensitivity, facts: [{fact, holds, says}], content_sha256}`.
    Raises `UsageError`, `AuthorisationError`: there is no such adapter, or its manifest is none."""
    adapter = find_adapter(name)
    manifest = adapter.manifest
    said = {"adapter": manifest.id, "sensitivity": manifest.sensitivity}
    if manifest.restricted:
        facts = [
            _fact("licence", lambda: f"accepted by {require(adapter).name}"),
            _fact("data", lambda: f"all files here ({len(facts_present(adapter))}), as pinned"),
            _fact("key", lambda: f"key {evaluator_key().id}"),
        ]
        if out is not None:
            facts.append(_fact("folder", lambda: _private(out)))
        if all(fact["holds"] for fact in facts[:3]):
            facts.append(_fact("records", lambda: _records(adapter)))
        return {**said, "facts": facts, "content_sha256": None}
    bench = load_many(unplaced(adapter))
    found = not_attested(recognised(bench, unplaced(adapter), [manifest.id, *manifest.names]), bench, name)
    signs = [sign for sign in found if sign.refuses]
    facts = [_row("licence", True, f"{manifest.licence.name}, {len(adapter.licence):,} characters as pinned")]
    facts += [_row("content", False, f"looks sensitive (sign {sign.code}): {sign.says}") for sign in signs]
    facts += (
        [] if signs else [_row("content", True, f"{len(bench.items):,} items without a sign, or vouched for")]
    )
    return {**said, "facts": facts, "content_sha256": bench.sha256}


def _fact(name: str, ask: Callable[[], str]) -> dict[str, Any]:
    try:
        return _row(name, True, ask())
    except RobustifyError as error:
        return _row(name, False, "; ".join(error.lines))


def _row(name: str, holds: bool, says: str) -> dict[str, Any]:
    return {"fact": name, "holds": holds, "says": says}


def _private(out: Path) -> str:
    require_private(out)
    return "private"


def _records(adapter: Adapter) -> str:
    access = Access(adapter.manifest, evaluator_key(), facts_present(adapter), require(adapter))
    return f"{len(access.keyed(load_many(access.sources)).items):,} records, each with an id of its own"
