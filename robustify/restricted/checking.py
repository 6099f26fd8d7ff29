"""Report on the requirements for a run with an adapter's set, without asking a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from robustify.errors import RobustifyError
from robustify.loaders import load_many
from robustify.restricted.access import Access, facts_present
from robustify.restricted.adapters import Adapter, find_adapter, unplaced
from robustify.restricted.confinement import require_private
from robustify.restricted.recognition import not_attested, recognised
from robustify.restricted.secret_key import evaluator_key
from robustify.restricted.terms import require


def checked(name: str, out: Path | None) -> dict[str, Any]:
    """Return the requirements for an adapter's set, and whether each is met, as `{adapter, sensitivity, facts,
    content_sha256}`. Raises `UsageError` or `AuthorisationError` if the adapter does not exist or its manifest is
    invalid."""
    adapter = find_adapter(name)
    manifest, content = adapter.manifest, None
    if manifest.restricted:
        facts = [
            _fact("licence", lambda: f"accepted by {require(adapter).name}"),
            _fact("data", lambda: f"all {len(facts_present(adapter))} files match the pins"),
            _fact("key", lambda: f"key {evaluator_key().id}"),
        ]
        if all(fact["holds"] for fact in facts):
            facts.append(_fact("records", lambda: f"{_records(adapter):,} records, each with a distinct ID"))
        if out is not None:
            facts.append(_fact("folder", lambda: _private(out)))
    else:
        bench = load_many(unplaced(adapter))
        content = bench.sha256
        found = not_attested(
            recognised(bench, unplaced(adapter), [manifest.id, *manifest.names]), bench, name
        )
        facts = [
            _fact(
                "licence",
                lambda: f"{manifest.licence.name}, {len(adapter.licence):,} characters, matches the pin",
            )
        ]
        facts += [_row("content", False, f"looks sensitive (sign {one.code}): {one.says}") for one in found]
        facts += (
            []
            if found
            else [_row("content", True, f"{len(bench.items):,} items without a sign, or attested")]
        )
    return {
        "adapter": manifest.id,
        "sensitivity": manifest.sensitivity,
        "facts": facts,
        "content_sha256": content,
    }


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


def _records(adapter: Adapter) -> int:
    return len(Access(adapter.manifest, evaluator_key(), facts_present(adapter)).read().items)
