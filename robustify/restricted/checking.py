"""`robustify adapter check`: each fact of a set's authorisation on its own line, also behind one that is missing.

It shows counts and, for a set that calls itself public, the digest by which a person can vouch for it; never text.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from robustify.errors import RobustifyError
from robustify.loaders import load_many
from robustify.restricted.access import Access, present
from robustify.restricted.adapters import Adapter, find, unplaced
from robustify.restricted.detect import left, recognised
from robustify.restricted.keys import load_key
from robustify.restricted.licence import require
from robustify.restricted.private import require_private


def checked(name: str, out: Path | None) -> dict[str, Any]:
    """`{adapter, sensitivity, facts: [{fact, holds, says}], content_sha256}`.

    Raises:
        UsageError, AuthorisationError: there is no such adapter, or its manifest is none.
    """
    adapter = find(name)
    told = adapter.manifest
    if told.restricted:
        facts = [
            _fact("licence", lambda: f"accepted by {require(adapter).name}"),
            _fact("data", lambda: f"all files here ({len(present(adapter))}), as pinned"),
            _fact("key", lambda: f"key {load_key().id}"),
        ]
        if out is not None:
            facts.append(_fact("folder", lambda: _private(out)))
        if all(fact["holds"] for fact in facts[:3]):
            facts.append(_fact("records", lambda: _records(adapter)))
        return {"adapter": told.id, "sensitivity": told.sensitivity, "facts": facts, "content_sha256": None}
    bench = load_many(unplaced(adapter))
    found = left(recognised(bench, unplaced(adapter), [told.id, *told.names]), bench, name)
    signs = [sign for sign in found if sign.refuses]
    facts = [_held("licence", True, f"{told.licence.name}, {len(adapter.licence):,} characters as pinned")]
    facts += [_held("content", False, f"looks sensitive (sign {sign.code}): {sign.says}") for sign in signs]
    facts += (
        []
        if signs
        else [_held("content", True, f"{len(bench.items):,} items without a sign, or vouched for")]
    )
    return {
        "adapter": told.id,
        "sensitivity": told.sensitivity,
        "facts": facts,
        "content_sha256": bench.sha256,
    }


def _fact(name: str, ask: Callable[[], str]) -> dict[str, Any]:
    try:
        return _held(name, True, ask())
    except RobustifyError as error:
        return _held(name, False, "; ".join(error.lines))


def _held(name: str, holds: bool, says: str) -> dict[str, Any]:
    return {"fact": name, "holds": holds, "says": says}


def _private(out: Path) -> str:
    require_private(out)
    return "private"


def _records(adapter: Adapter) -> str:
    access = Access(adapter.manifest, load_key(), present(adapter), require(adapter))
    return f"{len(access.sealed(load_many(access.sources)).items):,} records, each with an id of its own"
