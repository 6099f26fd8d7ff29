"""What `validate` and `heuristics` say of a restricted set: counts of k or more, whole percents, classes of cues.

No topic is named, because a run names them in one partition that all its tables share; and no line, id or file.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from robustify.disclosure.coarse import FINEST, plain_rate, rounded
from robustify.disclosure.remade import FEATURE_CLASSES
from robustify.loaders import Loaded


def described(bench: Loaded, k: int) -> dict[str, Any]:
    """The benchmark in counts; a count between 0 and `k` is "< k", and nothing can be found by subtraction."""
    items = bench.items
    n = len(items)
    return {
        "name": bench.name,
        "layout": bench.layout,
        "n_items": n,
        "n_quarantined": _cell(len(bench.quarantined), k),
        "option_counts": _cells(Counter(item.k for item in items), k),
        "key_positions": _cells(Counter(item.key for item in items), k),
        "chance_accuracy": rounded(sum(1 / item.k for item in items) / n, FINEST) if n else None,
        "n_topics": len({item.topic for item in items}),
        "defects": {
            kind: _cell(count, k) for kind, count in sorted(Counter(d.kind for d in bench.defects).items())
        },
    }


def feature_classes(table: Mapping[str, Any], k: int) -> dict[str, Any]:
    """What `heuristics.table` found, by class of cue: the member that is right most often, in whole percents."""
    rows = table["heuristics"]
    best = {
        name: max((rows[cue] for cue in members if cue in rows), key=lambda row: row["value"] or 0.0)
        for name, members in FEATURE_CLASSES.items()
        if any(cue in rows for cue in members)
    }
    chance = table["chance_accuracy"]
    return {
        "n": table["n"],
        "chance_accuracy": None if chance is None else rounded(chance, FINEST),
        "cues": {name: plain_rate(row, k) for name, row in best.items()},
    }


def _cell(n: int, k: int) -> int | str:
    return n if n == 0 or n >= k else f"< {k}"


def _cells(counts: Mapping[int, int], k: int) -> dict[str, int] | None:
    """The counts of a partition of all items; None where one of them is too small to be shown."""
    if any(n < k for n in counts.values()):
        return None
    return {str(number): n for number, n in sorted(counts.items())}
