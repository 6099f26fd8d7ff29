"""A loaded benchmark in counts: what `robustify validate` prints. Numbers, ids and lines; never a text."""

from collections import Counter
from collections.abc import Iterable
from math import fsum

from robustify.loaders.loaded import Defect, Loaded

FEWEST_FOR_NOTE = 20


def describe(loaded: Loaded) -> dict[str, object]:
    """The benchmark as a JSON-able object.

    Keys: `name`, `layout`, `sha256`, `n_items`, `n_quarantined`, `option_counts` {number of choices: items},
    `key_positions` {index from 0: items}, `chance_accuracy` (mean of 1/k), `topics` {topic: items}, `defects`
    {kind: {n, at: [{line, item, file}]}}, `quarantined` [{line, reason, file}], `notes` [sentence].
    """
    items = loaded.items
    return {
        "name": loaded.name,
        "layout": loaded.layout,
        "sha256": loaded.sha256,
        "n_items": len(items),
        "n_quarantined": len(loaded.quarantined),
        "option_counts": _counts(item.k for item in items),
        "key_positions": _counts(item.key for item in items),
        "chance_accuracy": fsum(1 / item.k for item in items) / len(items) if items else None,
        "topics": dict(sorted(Counter(item.topic for item in items).items())),
        "defects": {
            kind: _defects(loaded.defects, kind) for kind in sorted({d.kind for d in loaded.defects})
        },
        "quarantined": [{"line": q.line, "reason": q.reason, "file": q.file} for q in loaded.quarantined],
        "notes": _notes(loaded),
    }


def _counts(numbers: Iterable[int]) -> dict[str, int]:
    return {str(number): n for number, n in sorted(Counter(numbers).items())}


def _defects(defects: Iterable[Defect], kind: str) -> dict[str, object]:
    at = [{"line": d.line, "item": d.item, "file": d.file} for d in defects if d.kind == kind]
    return {"n": len(at), "at": at}


def _notes(loaded: Loaded) -> list[str]:
    positions = {item.key for item in loaded.items}
    if len(loaded.items) < FEWEST_FOR_NOTE or len(positions) != 1:
        return []
    return [
        f"every key is at position {positions.pop()}: position heuristics mean nothing on this order of the "
        "choices, and a screen that keeps this order would see the key's place"
    ]
