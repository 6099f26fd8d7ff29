"""Rounded output of `validate` and `heuristics` for a restricted set.

The output names no line, ID, file or topic.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from robustify.disclosure.rounding import FINE, interval, rounded
from robustify.loaders import Loaded


def described(bench: Loaded, k: int) -> dict[str, Any]:
    """Return the counts of a benchmark. A count between 0 and `k` is shown as "< k" and cannot be derived from the
    others."""
    items = bench.items
    defects = Counter(defect.kind for defect in bench.defects)
    return {
        "name": bench.name,
        "layout": bench.layout,
        "n_items": len(items),
        "n_quarantined": _cell(len(bench.quarantined), k),
        "option_counts": _partition(Counter(item.k for item in items), k),
        "key_positions": _partition(Counter(item.key for item in items), k),
        "chance_accuracy": rounded(sum(1 / item.k for item in items) / len(items), FINE) if items else None,
        "n_topics": len({item.topic for item in items}),
        "defects": {kind: _cell(count, k) for kind, count in sorted(defects.items())},
    }


def rules(table: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Return the table of `heuristics` in whole percents and without counts of ties."""
    chance = table["chance_accuracy"]
    return {
        "n": table["n"],
        "chance_accuracy": None if chance is None else rounded(chance, FINE),
        "heuristics": {name: _rate(row, k) for name, row in table["heuristics"].items()},
    }


def _rate(row: Mapping[str, Any], k: int) -> dict[str, Any]:
    n = row["n"]
    value = None if row["value"] is None or n < k else rounded(row["value"], FINE)
    return {"value": value, "n": n, "ci": None if value is None else list(interval(value, n))}


def _cell(n: int, k: int) -> int | str:
    return n if n == 0 or n >= k else f"< {k}"


def _partition(counts: Mapping[int, int], k: int) -> dict[str, int] | None:
    """Return the counts of all items by value, or None if one of the counts is below `k`."""
    if any(n < k for n in counts.values()):
        return None
    return {str(number): n for number, n in sorted(counts.items())}
